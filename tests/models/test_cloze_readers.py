"""The cloze readers: scores by hand and an independent PyTorch reference.

docs/log.md names the commit with the script that made the golden files.
"""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models
from support.golden_files import assert_close, assert_trees_close, cast, golden, gru, unflatten

from mednli_jax import defaults
from mednli_jax.cloze.task import ClozeTask
from mednli_jax.data.batching import Layout
from mednli_jax.models import pointer, table
from mednli_jax.models.batch import QueryBatch
from mednli_jax.models.ga_reader import occurs
from mednli_jax.models.packing import MASKED_ENERGY
from mednli_jax.run import experiment_of

FACTS, GOLDEN = golden("golden_cloze")
CASES = FACTS["cases"]
FIELDS = (
    "passage",
    "passage_length",
    "position",
    "position_candidate",
    "candidate_type",
    "candidate_length",
)
FIELDS += ("query", "query_length", "blank", "label")


def loss_of(logits, batch, masses=False):
    """The summed loss of the rows that have a candidate."""
    lost = ClozeTask(masses=masses).loss(logits, batch)
    counts = (batch.mask > 0) & pointer.candidate_mask(batch).any(axis=1)
    return jnp.sum(jnp.where(counts, lost, 0.0))


# ---- candidates from marked places ----


def scores_by_hand(energies, places, owners, lengths, how="share"):
    batch = QueryBatch(
        passage=jnp.zeros((1, len(energies)), jnp.int32),
        passage_length=jnp.array([len(energies)]),
        query=jnp.zeros((1, 1), jnp.int32),
        mask=jnp.ones(1),
        position=jnp.array([places]),
        position_candidate=jnp.array([owners]),
        candidate_length=jnp.array([lengths]),
    )

    logits = jax.jit(lambda energies: pointer.candidate_logits(energies, batch, how))
    return np.asarray(logits(jnp.array([energies])))[0], logits


def test_a_candidate_has_the_mass_of_its_places():
    """Energies log 1, log 2, ... give the masses 1 + 4, 2 and 3 of 10. The fifth word belongs to no
    candidate."""
    energies = np.log([1.0, 2.0, 3.0, 4.0, 5.0])
    got, _ = scores_by_hand(energies, [0, 3, 1, 2, 0], [0, 0, 1, 2, 4], [1, 1, 1, 0])
    np.testing.assert_allclose(np.exp(got[:3]), [5, 2, 3], rtol=1e-5)
    np.testing.assert_allclose(jax.nn.softmax(got), [0.5, 0.2, 0.3, 0], rtol=1e-5)
    assert got[3] == MASKED_ENERGY
    masses, _ = scores_by_hand(energies, [0, 3, 1, 2, 0], [0, 0, 1, 2, 4], [1, 1, 1, 0], "sum")
    np.testing.assert_allclose(np.exp(masses), [0.5, 0.2, 0.3, 0], rtol=1e-5)


def test_a_place_of_two_candidates_counts_for_both_and_a_mean_is_by_word():
    energies = np.log([1.0, 2.0, 4.0])
    places, owners = [0, 1, 2, 1], [0, 0, 0, 1]
    got, _ = scores_by_hand(energies, places, owners, [3, 1])
    np.testing.assert_allclose(np.exp(got), [7, 2], rtol=1e-5)
    got, _ = scores_by_hand(energies, places, owners, [3, 1], "mean")
    np.testing.assert_allclose(np.exp(got), [7 / 3, 2], rtol=1e-5)
    got, _ = scores_by_hand(energies, places, owners, [3, 1], "sum")
    np.testing.assert_allclose(np.exp(got), [1, 2 / 7], rtol=1e-5)


def test_the_published_loss_of_unmarked_passages_is_not_normalised_over_candidates():
    """The passage is "chest ct", the candidates are "ct" and "chest ct", and both words have equal
    energies.

    The published loss gives "chest ct" all of the mass and "ct" half of it. Normalised over
    candidates these are 2/3 and 1/3.
    """
    candidates = [0.3, 0.3], [1, 0, 1], [0, 1, 1], [1, 2]
    for how, masses, expected in (("sum", True, [0.5, 1]), ("share", False, [1 / 3, 2 / 3])):
        task, (got, _) = ClozeTask(loose=True, masses=masses), scores_by_hand(*candidates, how)
        for gold, mass in enumerate(expected):
            lost = task.loss(jnp.asarray(got)[None], SimpleNamespace(label=jnp.array([gold])))
            np.testing.assert_allclose(lost, [-np.log(mass)], atol=1e-6)
            rows = SimpleNamespace(
                label=np.array([gold, -1])
            )  # a query has no loss if its answer is not a candidate
            logits = np.stack([got, got])[None]
            np.testing.assert_allclose(task.losses(rows, logits), [-np.log(mass)], atol=1e-6)
        np.testing.assert_allclose(task.probabilities(got), expected, rtol=1e-6)
    assert int(np.argmax(got)) == 1


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_large_energies_overflow_neither_in_scores_nor_in_gradients(size):
    """The places of a candidate far below the best still compete with each other, because it has a
    scale of its own."""
    energies = np.array([1.0, 0.9999, -1.0, -1.0]) * size
    got, logits = scores_by_hand(energies, [0, 1, 2, 3, 0], [0, 0, 1, 1, 3], [1, 1, 0])
    expected = [np.logaddexp(*energies[:2]), -size + np.log(2), MASKED_ENERGY]
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    slope = jax.grad(lambda e: logits(e)[0, 1])(jnp.array([energies]))
    np.testing.assert_allclose(slope, [[0, 0, 0.5, 0.5]], atol=1e-6)


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
    batch = {key: GOLDEN[f"input/{key}"] for key in FIELDS}
    batch = {key: np.concatenate([value, np.zeros_like(value[:1])]) for key, value in batch.items()}
    arrays = {key: jnp.asarray(value) for key, value in batch.items()}
    return QueryBatch(**arrays, mask=jnp.array([1.0, 1, 1, 1, 1, 0]))


QUICK = ("ga-mul-2", "ga-mul-2-plain", "sa-bilinear")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES]
)
def test_reader_equals_the_reference(name):
    """Log probabilities (or masses), summed loss, and its gradients by every weight and by word
    vectors agree."""
    case, dtype = CASES[name], "float64"
    with jax.enable_x64(True):
        fields = {"hidden_size": FACTS["hidden_size"], "dropout": 0.0, **case["fields"]}
        model = table.entry(case["model"]).build(fields, num_types=FACTS["num_types"])
        batch = golden_batch()
        params = cast(tree_of(unflatten(GOLDEN[f"{name}/weights"], case["weights"])), dtype)
        frozen = {"embedding": {"vectors": params["embedding"]["vectors"]}}
        masses = case["model"] == "ga_reader" and case["fields"].get("pointer", "sum") == "sum"

        @jax.jit
        @partial(jax.value_and_grad, has_aux=True)
        def backward(params):
            logits = model.apply({"params": params, "frozen": frozen}, batch, train=False)
            return loss_of(logits, batch, masses), logits

        (loss, logits), gradient = backward(params)
        assert np.isfinite(logits).all()  # even for the padding row and the row without a candidate
        candidates = GOLDEN["input/candidate_length"] > 0
        golden = {what: GOLDEN[f"{name}/{dtype}/{what}"] for what in ("scores", "loss", "gradient")}
        got = jnp.where(candidates, logits[:5] if masses else jax.nn.log_softmax(logits[:5]), 0.0)
        rows = FACTS["answered"]
        assert_close(
            jnp.maximum(got, MASKED_ENERGY)[jnp.array(rows)], golden["scores"][rows], dtype
        )
        assert_close(loss, golden["loss"], dtype)
        assert_trees_close(gradient, tree_of(unflatten(golden["gradient"], case["weights"])), dtype)
        assert (np.asarray(logits[3]) == MASKED_ENERGY).all()


# ---- promises ----


def batch_of(*rows):
    """The batch of these rows of the made-up queries, each with its passage."""
    corpus, layout = models.queries(), Layout.full(len(rows), models.queries().width, joint=False)
    batch = corpus.task.to_batch(
        jax.tree.map(jnp.asarray, corpus.data), np.array(rows)[:, None], layout
    )
    return batch.replace(layout=None)


def logits_of(name, model, batch):
    return np.asarray(
        jax.jit(partial(model.apply, train=False))(models.variables_of(model, name), batch)
    )


def test_weights_are_drawn_as_the_published_code_draws_them():
    """GRUs are drawn from N(0, .1^2) without a bias, qe-comm from N(0, .01^2), as in Lasagne.

    The bilinear map is drawn from U(-.01, .01), and the output layer as in Glorot & Bengio 2010
    with bias 0.
    """
    frozen = {"embedding": {"vectors": jnp.ones((30, 6))}}

    def drawn(name, **fields):
        model = table.entry(name).build({"hidden_size": 24, **fields}, num_types=500)
        draw = jax.jit(partial(model.apply, train=False, mutable=["params"]))
        return draw({"frozen": frozen}, batch_of(0, 8), rngs={"params": jax.random.key(0)})[1][
            "params"
        ]

    ga, sa = drawn("ga_reader", hops=2), drawn("sa_reader")
    for rnn in (ga["passage_1"], ga["query_0"], sa["passage"], sa["query"]):
        for matrix in (rnn["kernel"], rnn["recurrent"]):
            assert abs(float(jnp.std(matrix)) - 0.1) < 0.01
            assert float(abs(matrix).max()) > 0.2  # a uniform draw has no such value
        assert not rnn["bias"].any()
    assert 0 < float(abs(ga["occurrence"]).max()) < 0.05
    assert 0.009 < float(abs(sa["kernel"]).max()) <= 0.01
    bound = (6 / (500 + 48)) ** 0.5
    assert 0.95 * bound < float(abs(sa["types"]).max()) <= bound
    assert (sa["bias"].shape, float(abs(sa["bias"]).max())) == ((500,), 0.0)


def test_types_unseen_in_training_are_never_predicted():
    batch, seen = batch_of(0, 8, 16, 23), models.TYPES - 4
    logits = logits_of("sa_reader", models.build("sa_reader", num_types=seen), batch)
    np.testing.assert_array_equal(logits == MASKED_ENERGY, batch.candidate_type >= seen)
    assert 0 < (batch.candidate_type >= seen).sum() < logits.size


def test_an_unknown_word_of_the_query_is_no_word_of_the_passage():
    """A word in both texts, a word in one, a word beyond the query's end, and the unknown word in
    both."""
    batch = QueryBatch(
        passage=jnp.array([[5, 1, 6, 7, 0]]),
        passage_length=jnp.array([4]),
        query=jnp.array([[7, 1, 5, 6]]),
        query_length=jnp.array([3]),
        mask=jnp.ones(1),
    )
    found = jax.jit(lambda batch: occurs(pointer.paired_passages(batch), batch))(batch)
    np.testing.assert_array_equal(found, [True, False, False, True, False])


@pytest.mark.parametrize(("setup", "how", "loose", "masses"), [
    ("noent", "sum", True, True), ("noent", "share", True, False), ("noent", "mean", True, False),
    ("noent", "span", False, False), ("anonym", "sum", False, True),
])  # fmt: skip
def test_the_task_reads_logits_as_the_reader_means_them(setup, how, loose, masses):
    config = defaults.cloze("ga_reader", setup=setup)
    config.model.pointer = how
    task = experiment_of(config).scorer
    assert (task.loose, task.masses) == (loose, masses)
    assert not experiment_of(defaults.cloze("sa_reader", setup="ent")).scorer.masses
