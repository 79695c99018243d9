"""The cloze readers: scores by hand and an independent PyTorch reference.

docs/log.md names the script that made the golden files.
"""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models
from support.cases import cases
from support.golden_files import assert_close, assert_trees_close, cast, golden, gru, unflatten
from support.tables import fields_of, table_rows
from support.trees import assert_equal, assert_near

from mednli_jax.cli import read_config
from mednli_jax.cloze.scorer import ClozeScorer
from mednli_jax.data.batching import Layout
from mednli_jax.experiment import experiment_of
from mednli_jax.models import cloze_readers, table
from mednli_jax.models.batch import QueryBatch
from mednli_jax.models.cloze_readers import occurs
from mednli_jax.models.packing import MASKED_ENERGY

FACTS, GOLDEN = golden("golden_cloze")
CASES = FACTS["cases"]

# ---- candidates from marked places ----


def query(places, owners, lengths, **texts):
    """A query; each place in its passage belongs to a candidate (owner), which has a length in
    words, 0 for none."""
    texts = {"passage": [0] * 5, "query": [0], **texts}
    return QueryBatch(
        passage=jnp.array([texts["passage"]]),
        passage_length=jnp.array([len(texts["passage"])]),
        query=jnp.array([texts["query"]]),
        query_length=jnp.array([len(texts["query"])]),
        mask=jnp.ones(1),
        position=jnp.array([places]),
        position_candidate=jnp.array([owners]),
        candidate_length=jnp.array([lengths]),
    )


def candidate_scores(energies, batch, form):
    logits = jax.jit(cloze_readers.candidate_logits, static_argnums=2)
    return np.asarray(logits(jnp.array([energies]), batch, form)[0])


@pytest.mark.parametrize(
    "form, values",
    [
        ("share", [7, 2]),
        ("mean", [7 / 3, 2]),
        ("sum", [1, 2 / 7]),
    ],
)
def test_a_place_of_two_candidates_counts_for_both_and_a_mean_is_by_word(form, values):
    batch = query(
        places=[0, 1, 2, 1],
        owners=[0, 0, 0, 1],
        lengths=[3, 1],
    )

    scores = candidate_scores(np.log([1, 2, 4]), batch, form)

    assert_near(np.exp(scores), values, rtol=1e-5)


@cases(
    "form, unnormalised, expected",
    {
        "published": ("sum", True, [0.5, 1]),
        "normalised": ("share", False, [1 / 3, 2 / 3]),
    },
)
def test_the_published_loss_of_unmarked_passages_is_not_normalised_over_candidates(
    form, unnormalised, expected
):
    """The passage is "chest ct", the candidates are "ct" and "chest ct", and both words have equal
    energies. The published loss gives "chest ct" all of the mass and "ct" half of it."""
    task = ClozeScorer(loose=True, unnormalised=unnormalised)
    batch = query(
        places=[1, 0, 1],
        owners=[0, 1, 1],
        lengths=[1, 2],
    )

    scores = candidate_scores([0.3, 0.3], batch, form)

    assert int(np.argmax(scores)) == 1
    assert_near(task.probabilities(scores), expected, rtol=1e-6)
    for gold, mass in enumerate(expected):
        labels = SimpleNamespace(label=jnp.array([gold]))
        loss = task.loss(jnp.asarray(scores)[None], labels)
        assert_near(loss, [-np.log(mass)], atol=1e-6)
        # A query has no loss if its answer is not a candidate.
        rows = SimpleNamespace(label=np.array([gold, -1]))
        logits_SNC = np.stack([scores, scores])[None]
        losses = task.losses(rows, logits_SNC)
        assert_near(losses, [-np.log(mass)], atol=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_large_energies_overflow_neither_in_scores_nor_in_gradients(size):
    """The places of a candidate far below the best still compete with each other, because it has a
    scale of its own."""
    energies = np.array([1.0, 0.9999, -1.0, -1.0]) * size
    batch = query(
        places=[0, 1, 2, 3, 0],
        owners=[0, 0, 1, 1, 3],
        lengths=[1, 1, 0],
    )

    def score_of_second(energies):
        return cloze_readers.candidate_logits(energies, batch, "share")[0, 1]

    scores = candidate_scores(energies, batch, "share")
    slope = jax.jit(jax.grad(score_of_second))(jnp.array([energies]))

    expected = [
        np.logaddexp(*energies[:2]),
        -size + np.log(2),
        MASKED_ENERGY,
    ]
    assert_near(scores, expected, rtol=1e-5)
    assert_near(slope[0], np.array([0, 0, 0.5, 0.5]), atol=1e-6)


# ---- the reference ----


def tree_of(w):
    """The parameter tree of a reader; `w` holds the reference's arrays by name."""
    tree = {}
    for name in dict.fromkeys(key.split(".")[0] for key in w):
        if name == "embedding":
            tree[name] = {"vectors": w["embedding.weight"]}
        elif f"{name}.onward.reset_input.weight" in w:
            tree[name] = gru(w, name)
        else:
            tree[name] = w[name]
    return tree


def golden_batch():
    """The five queries and a padding row at the end."""
    fields = {"mask": np.ones(5)}
    for name in QueryBatch.__dataclass_fields__:
        if f"input/{name}" in GOLDEN:
            fields[name] = GOLDEN[f"input/{name}"]
    padded = {}
    for name, rows in fields.items():
        padded[name] = jnp.asarray(np.append(rows, np.zeros_like(rows[:1]), axis=0))
    return QueryBatch(**padded)


QUICK = ("ga-mul-2", "ga-mul-2-plain", "sa-bilinear")


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_scores_loss_and_gradients_of_a_cloze_reader_equal_the_pytorch_reference(name):
    """Log probabilities (or masses), the summed loss of the queries that have a candidate, and its
    gradients by every weight and by word vectors."""
    case = CASES[name]
    batch = golden_batch()
    fields = {"hidden_size": FACTS["hidden_size"], "dropout": 0.0, **case["fields"]}
    entry = table.entry(case["model"])
    model = entry.build(fields, num_types=FACTS["num_types"])
    unnormalised = case["model"] == "ga_reader" and fields.get("pointer", "sum") == "sum"
    has_candidate = (batch.mask > 0) & cloze_readers.candidate_mask(batch).any(axis=1)

    def loss_of(params):
        frozen = {"embedding": {"vectors": vectors}}
        logits = model.apply({"params": params, "frozen": frozen}, batch, train=False)
        losses = ClozeScorer(unnormalised=unnormalised).loss(logits, batch)
        return jnp.sum(jnp.where(has_candidate, losses, 0.0)), logits

    with jax.enable_x64(True):
        weights = unflatten(GOLDEN[f"{name}/weights"], case["weights"])
        params = cast(tree_of(weights), "float64")
        vectors = params["embedding"]["vectors"]
        slope = jax.jit(jax.value_and_grad(loss_of, has_aux=True))
        (loss, logits), gradient = slope(params)
        scores = logits[:5] if unnormalised else jax.nn.log_softmax(logits[:5])
        scores = jnp.where(GOLDEN["input/candidate_length"] > 0, scores, 0.0)

    expected = f"{name}/float64"
    rows = np.array(FACTS["answered"])
    scores = np.maximum(scores, MASKED_ENERGY)[rows]
    assert_close(scores, GOLDEN[f"{expected}/scores"][rows], "float64")
    assert_close(loss, GOLDEN[f"{expected}/loss"], "float64")
    expected_gradient = unflatten(GOLDEN[f"{expected}/gradient"], case["weights"])
    assert_trees_close(gradient, tree_of(expected_gradient), "float64")
    assert np.isfinite(logits).all()  # even for the padding row and the row without a candidate
    assert (np.asarray(logits[3]) == MASKED_ENERGY).all()


# ---- promises ----


def batch_of(*rows):
    """The batch of these rows of the random queries, each with its passage."""
    corpus = models.queries()
    layout = Layout.full(len(rows), corpus.width, joint=False)
    to_batch = jax.jit(lambda data: corpus.task.to_batch(data, np.array(rows)[:, None], layout))
    return to_batch(corpus.data).replace(layout=None)


def drawn_params(name, **fields):
    """New parameters of 24 hidden units and 500 types."""
    model = table.entry(name).build({"hidden_size": 24, **fields}, num_types=500)
    words = {"frozen": {"embedding": {"vectors": jnp.ones((30, 6))}}}
    batch = batch_of(0, 8)

    @jax.jit  # the compiler leaves the forward pass out
    def draw(key):
        _, drawn = model.apply(words, batch, train=False, mutable=["params"], rngs={"params": key})
        return drawn["params"]

    return draw(jax.random.key(0))


def assert_normal_gru(rnn):
    """Drawn from N(0, .1^2) without a bias, as in Lasagne."""
    for matrix in (rnn["kernel"], rnn["recurrent"]):
        assert abs(float(jnp.std(matrix)) - 0.1) < 0.01
        assert float(abs(matrix).max()) > 0.2  # a uniform draw has no such value
    assert not rnn["bias"].any()


def test_weights_of_the_ga_reader_are_drawn_as_the_published_code_draws_them():
    """qe-comm is drawn from N(0, .01^2)."""
    params = drawn_params("ga_reader", hops=2)

    assert_normal_gru(params["passage_1"])
    assert_normal_gru(params["query_0"])
    assert 0 < float(abs(params["occurrence"]).max()) < 0.05


def test_weights_of_the_sa_reader_are_drawn_as_the_published_code_draws_them():
    """The bilinear map is drawn from U(-.01, .01), and the output layer as in Glorot & Bengio 2010
    with bias 0."""
    params = drawn_params("sa_reader")

    assert_normal_gru(params["passage"])
    assert_normal_gru(params["query"])
    assert 0.009 < float(abs(params["kernel"]).max()) <= 0.01
    bound = (6 / (500 + 48)) ** 0.5
    assert 0.95 * bound < float(abs(params["types"]).max()) <= bound
    assert_equal(params["bias"], np.zeros(500))


def test_types_unseen_in_training_are_never_predicted():
    batch = batch_of(0, 8, 16, 23)
    seen = models.TYPES - 4
    model = models.build("sa_reader", num_types=seen)
    variables = models.variables_of(model, "sa_reader")

    logits = jax.jit(partial(model.apply, train=False))(variables, batch)

    assert_equal(logits == MASKED_ENERGY, batch.candidate_type >= seen)
    assert 0 < (batch.candidate_type >= seen).sum() < logits.size


def test_an_unknown_word_of_the_query_is_no_word_of_the_passage():
    """A word in both texts, the unknown word in both, a word beyond the query's end, and words in
    one text."""
    texts = {"passage": [5, 1, 6, 7, 0], "query": [7, 1, 5, 6]}
    batch = query([0], [0], [1], **texts).replace(
        passage_length=jnp.array([4]),
        query_length=jnp.array([3]),
    )

    in_query = jax.jit(lambda batch: occurs(cloze_readers.paired_passages(batch), batch))(batch)

    assert_equal(in_query, [True, False, False, True, False])


@pytest.mark.parametrize(
    "name, fields, read_as",
    table_rows("""
        ga:demo/noent | pointer="sum" | loose unnormalised
        ga:demo/noent | pointer="share" | loose
        ga:demo/noent | pointer="mean" | loose
        ga:demo/noent | pointer="span" |
        ga:demo/anonym | pointer="sum" | unnormalised
        sa:demo/ent | |
    """),
)
def test_the_task_reads_logits_as_the_reader_means_them(name, fields, read_as):
    config = read_config(name)
    config.model.update(fields_of(fields))

    task = experiment_of(config).scorer

    assert [name for name in ("loose", "unnormalised") if getattr(task, name)] == read_as.split()
