"""Losses and scores of pairs, from the logits of several seeds, also where a model or a corpus
lacks one of the three classes."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import f1_score
from support.cases import cases
from support.runs import indices

from mednli_jax.cli import read_config
from mednli_jax.data.arrays import Rows
from mednli_jax.experiment import experiment_of
from mednli_jax.nli import boosting
from mednli_jax.nli.scorer import NLIScorer


def rows_of(word, slices=None):
    """The rows of a split with the labels of a word such as "een". slices: the tags of each
    row."""
    uids = tuple(map(str, range(len(word))))
    tags = slices or ((),) * len(word)
    return Rows(
        "dev",
        0,
        indices(word),
        ((), ()),
        uids,
        tags,
    )


def scores_of(word, logits_NC):
    """The scores of one seed."""
    return NLIScorer().score(rows_of(word), np.asarray(logits_NC)[None])


TWO_CLASSES = NLIScorer(classes=(0, 2))  # entailment and contradiction
ROWS = rows_of("ecc")
LOGITS_NC = np.array([[1, 0], [0, 2], [0.5, 0]], np.float32)  # the last is wrong
LOSSES = np.log1p(np.exp([-1, -2, 0.5]))


def test_two_logits_are_scored_over_two_classes():
    scores = TWO_CLASSES.score(ROWS, LOGITS_NC[None])

    assert scores["accuracy"]["mean"] == pytest.approx(2 / 3)
    assert scores["confusion"] == [
        [1, 0, 0],
        [0, 0, 0],
        [1, 0, 1],
    ]
    assert scores["macro_f1"]["mean"] == pytest.approx(2 / 3)  # 2/3 for each of the two classes
    assert scores["loss"]["mean"] == pytest.approx(LOSSES.mean(), abs=1e-6)


def test_two_logits_are_trained_on_two_classes():
    batch = SimpleNamespace(label=jnp.asarray(ROWS.label), expert=None)
    logits = jnp.asarray(LOGITS_NC)

    np.testing.assert_allclose(TWO_CLASSES.loss(logits, batch), LOSSES, atol=1e-6)
    assert TWO_CLASSES.correct(logits, batch).tolist() == [1, 1, 0]


def test_predictions_of_two_logits_have_three_classes():
    rows = TWO_CLASSES.predictions(ROWS, LOGITS_NC[None])
    label, *probabilities = TWO_CLASSES.describe(ROWS, LOGITS_NC[None])[0].values()

    predicted = [label for row in rows for label in row["predicted"]]
    assert predicted == ["entailment", "contradiction", "entailment"]
    entailment = 1 / (1 + np.exp(-1))
    assert label == "entailment"
    assert probabilities == pytest.approx([entailment, 0, 1 - entailment])


def test_the_labels_of_a_config_decide_the_classes():
    config = read_config("bow:file")
    config.data.labels = "yes:entailment,no:contradiction,?:-"
    task = experiment_of(config).scorer
    assert task.labels == task.scored == ("entailment", "contradiction")
    assert task.model_facts({"knowledge": {"longest_path": 1}})["num_classes"] == 2


@cases(
    "label, classes, has_loss",
    {
        "two classes on three": ("encnce", (0, 2), False),
        "three classes on two": ("eccece", (0, 1, 2), True),
        "a slice without a class": ("eccecc", (0, 2), True),
        "pairs of one class": ("cccccc", (0, 2), True),
    },
)
def test_scores_are_over_the_classes_of_the_pairs_that_are_scored(label, classes, has_loss):
    """A slice has the first two rows."""
    logits = np.random.default_rng(3).normal(size=(2, 6, len(classes)))
    predicted_SN = np.array(classes)[logits.argmax(axis=-1)]
    slices = (
        ("x",),
        ("x",),
        (),
        (),
        (),
        (),
    )

    scores = NLIScorer(classes=classes).score(rows_of(label, slices), logits)

    for size, scored in ((6, scores), (2, scores["slices"]["x"])):
        gold_N = indices(label[:size])
        f1_S = []
        for predicted_N in predicted_SN[:, :size]:
            f1_S.append(f1_score(gold_N, predicted_N, labels=np.unique(gold_N), average="macro"))
        assert scored["macro_f1"]["per_seed"] == pytest.approx(f1_S)
    assert ("loss" in scores) == has_loss


@pytest.mark.parametrize("answers", ["eee", "ece", "ecn"])
def test_labels_alone_have_no_loss(answers):
    is_answer_NC = indices(answers)[:, None] == np.arange(3)

    scores = scores_of("ecc", np.where(is_answer_NC, 0.0, -np.inf))

    assert "loss" not in scores


def test_a_model_that_diverged_has_a_loss_for_the_loop():
    scores = scores_of("ecc", np.full((3, 3), np.nan))

    assert np.isnan(scores["loss"]["mean"])


@cases("label, has_loss", {"the same classes": ("ecc", True), "another class": ("enc", False)})
def test_trees_have_no_logit_for_a_class_that_training_lacks(label, has_loss):
    features = np.eye(6, 3)
    boosted = boosting.fit_predict(features, indices("ececec"), slice(None), (0,), trees=2)
    logits_SNC = boosting.logits_of(boosted.probabilities)

    scores = scores_of(label, logits_SNC[0, :3])

    assert ("loss" in scores) == has_loss
