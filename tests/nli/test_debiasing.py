"""Training as a product of experts with a model of hypotheses (He et al. 2019)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pair_files import write_own

from mednli_jax import tasks
from mednli_jax.cli import read_config
from mednli_jax.errors import ConfigError
from mednli_jax.models.batch import PairBatch
from mednli_jax.nli.config import corpus_of
from mednli_jax.nli.corpus import LEAST, hypothesis_expert
from mednli_jax.nli.scorer import NLIScorer

LABELS = ("entailment", "contradiction")


def expert_of(word_of_pair, label_N, labels=LABELS, further=0):
    """The probabilities [N, C] of pairs whose hypothesis is one word, and of `further` rows."""
    size = len(label_N)
    arrays = {
        "premise": np.arange(size + further)[:, None],
        "hypothesis": np.array([[word, 0] for word in [*word_of_pair, *[1] * further]]),
        "hypothesis_length": np.ones(size + further, int),
        "label": np.array([*label_N, *[0] * further]),
    }
    return np.exp(hypothesis_expert(arrays, size, labels))


def test_the_expert_knows_a_word_of_other_folds_and_not_one_of_the_pair_alone():
    label_N = np.arange(40) // 5 % 2
    of_shared_words = expert_of(3 + label_N, label_N)
    of_own_words = expert_of(3 + np.arange(40), label_N)

    right = of_shared_words[np.arange(40), label_N]
    assert right.min() > 0.8
    assert of_own_words[:, 0] == pytest.approx(0.5, abs=0.01)


def test_pairs_of_the_same_premise_are_in_one_fold():
    """Their words are alike, and their labels differ by design."""
    arrays = {
        "premise": np.repeat(np.arange(20), 2)[:, None],
        "hypothesis": 3 + np.repeat(np.arange(20), 2)[:, None],
        "hypothesis_length": np.ones(40, int),
        "label": np.arange(40) % 2,
    }
    p_NC = np.exp(hypothesis_expert(arrays, 40, LABELS))
    assert p_NC == pytest.approx(0.5, abs=0.01)
    with pytest.raises(ConfigError, match="debias: needs"):
        hypothesis_expert(arrays | {"premise": np.zeros((40, 1))}, 40, LABELS)


def test_a_class_without_a_pair_is_least_probable_and_further_rows_have_no_expert():
    label_N = np.arange(40) // 5 % 2 * 2
    p_NC = expert_of(3 + label_N, label_N, ("a", "b", "c"), further=5)
    assert p_NC[:40, 1] == pytest.approx(LEAST)
    assert (p_NC[40:] == 1).all()


@pytest.mark.parametrize("p_BC, is_plain", [([[0.5, 0.5]] * 3, True), ([[0.9, 0.1]] * 3, False)])
def test_the_loss_with_a_uniform_expert_is_that_without_one(p_BC, is_plain):
    length_B = jnp.ones(3, int)
    words = jnp.ones((3, 1), int)
    batch = PairBatch(words, length_B, words, length_B, length_B, label=jnp.array([0, 1, 0]))
    logits_BC = jnp.array([[1.0, 2.0], [0.0, 1.0], [3.0, -1.0]])
    scorer = NLIScorer(scored=LABELS)

    def slope(expert):
        def loss(logits):
            return scorer.loss(logits, batch.replace(expert=expert)).sum()

        return jax.grad(loss)(logits_BC)

    plain, debiased = slope(None), slope(jnp.log(jnp.array(p_BC)))
    assert np.allclose(plain, debiased, atol=1e-6) == is_plain
    if not is_plain:  # pairs that the expert gets right move the model less
        assert abs(debiased[0]).sum() < abs(plain[0]).sum()
        assert abs(debiased[1]).sum() > abs(plain[1]).sum()


def test_training_batches_have_the_expert_and_another_corpus_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    pairs = [(f"gout {n} .", f"she {('has', 'lacks')[n % 2]} it", LABELS[n % 2]) for n in range(20)]
    write_own(tmp_path / "own", train=pairs, dev=pairs[:4], test=pairs[:2])
    config = read_config("bow:file")
    config.data.dir, config.vectors.dim = str(tmp_path / "own"), 4
    config.train.debias = "hypothesis"
    corpus = corpus_of(tasks.with_labels(config))
    prepared, _ = corpus.prepare()

    assert prepared.arrays["expert"].shape == (26, 2)
    of_run = corpus.for_finished_run(tmp_path, prepared.vectors, None)
    assert "expert" not in of_run.build().arrays
