"""The models of sentence pairs: knowledge acts as documented, published forms, layers by hand, heads of domains."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import made_up
import made_up_models as made
import numpy as np
import pytest

from mednli_jax.data.batching import Layout
from mednli_jax.errors import ConfigError
from mednli_jax.models import layers, table
from mednli_jax.models.packing import Packing
from mednli_jax.models.recurrence import CELLS
from mednli_jax.models.words import WordEmbedding, distinct_words, project
from mednli_jax.nli.task import NLITask, frozen


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def batch_of(rows, width=None):
    corpus, rows = made.pairs(), jnp.asarray(rows)[:, None]
    return corpus.task.to_batch(jax.tree.map(jnp.asarray, corpus.data), rows, Layout.full(len(rows), width or (12, 8)))


def logits_of(model, variables, batch):
    static = tuple((name, batch[name]) for name in ("sentences", "pairs", "words"))
    arrays = {name: array for name, array in batch.items() if name not in dict(static)}
    return np.asarray(_logits(model, static, jax.tree.map(jnp.asarray, variables), arrays))


# compiles once for each model and shape, because compilation takes most of the time
@functools.partial(jax.jit, static_argnums=(0, 1))
def _logits(model, static, variables, arrays):
    return model.apply(variables, arrays | dict(static), train=False)


def model_of(name, **fields):
    """(model, its variables)."""
    model = made.build(name, **fields)
    return model, made.variables_of(model, name)


# ---- published forms and knowledge ----


@pytest.mark.parametrize("name", ["infersent-replace", "esim"])
def test_published_masking_sees_padding(name):
    """masking="paper" takes softmax and maximum without a mask; only there the padded length changes the logits."""
    model, variables = model_of(name, masking="paper")
    short, long = (logits_of(model, variables, batch_of(np.arange(8), width)) for width in ((12, 8), (16, 12)))
    assert abs(short - long).max() > 1e-4


def test_padding_counts_in_the_published_sum_of_words():
    """With masking "paper" the logits depend on the padded length, with "masked" they do not."""
    (masked, variables), (paper, _) = (model_of("bow", masking=masking) for masking in ("masked", "paper"))
    (same, again), (short, long) = (
        [logits_of(model.clone(padded_length=length), variables, batch_of(np.arange(6))) for length in (20, 50)]
        for model in (masked, paper)
    )
    np.testing.assert_array_equal(same, again)
    assert abs(short - long).max() > 1e-3


def test_bow_has_as_many_parameters_as_the_published_code():
    """With sizes of 300: one projection, three layers of 600, and logits. Norms have no parameters."""
    model, batch = table.build("bow", {"hidden_size": 300, "dropout": 0.5}), batch_of([0])
    vectors, rngs = frozen(np.zeros((24, 300), np.float32)), {"params": jax.random.key(0)}
    how = {"train": False, "rngs": rngs, "mutable": ["params", "batch_stats"]}
    shapes = jax.eval_shape(lambda: model.apply({"frozen": vectors}, batch, **how)[1]["params"])
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 1_173_903


def test_zero_knowledge_weights_are_plain_esim():
    biased, variables = model_of("esim-bias")
    params = {name: leaf for name, leaf in variables["params"].items() if name != "knowledge"}
    batch = batch_of(np.arange(8))
    expected = logits_of(made.build("esim"), {**variables, "params": params}, batch)
    silent = {**params, "knowledge": {"path_weight": np.zeros(made_up.LONGEST + 1)}}
    np.testing.assert_allclose(logits_of(biased, {**variables, "params": silent}, batch), expected, atol=1e-12)
    assert abs(logits_of(biased, variables, batch) - expected).max() > 1e-4


def test_knowledge_energies_by_hand():
    """A = 1 - d / longest; 0 without a path and 1 for the same concept. An empty slot changes nothing."""
    batch = {
        "premise": jnp.zeros((1, 4), jnp.int32),
        "hypothesis": jnp.zeros((1, 3), jnp.int32),
        "link_premise": jnp.array([[1, 3, 2, 0]], jnp.int16),
        "link_hypothesis": jnp.array([[0, 2, 1, 0]], jnp.int16),
        "link_distance": jnp.array([[0, 1, 4, -1]], jnp.int16),
    }
    learned = {"params": {"path_weight": jnp.array([0.5, -2.0, 9.0, 9.0, 3.0])}}
    for how, variables, values in (
        (("paper", 4), {}, (1.0, 0.75, 0.0)),
        (("paper", 4, 2.0), {}, (2.0, 1.5, 0.0)),
        (("exp", 4, 2.0), {}, (2.0, 2 * np.exp(-1), 2 * np.exp(-4))),
        (("learned", 4), learned, (0.5, -2.0, 3.0)),
    ):
        expected = np.zeros((4, 3))
        expected[[1, 3, 2], [0, 2, 1]] = values
        np.testing.assert_allclose(layers.KnowledgeEnergies(*how).apply(variables, batch)[0], expected, atol=1e-7)
    # If all links join identical concepts, the longest path is 0, and nothing must divide by it.
    same = layers.KnowledgeEnergies("paper", 0).apply({}, {**batch, "link_distance": jnp.array([[0, -1, -1, -1]])})
    assert np.argwhere(same).tolist() == [[0, 1, 0]]
    assert float(same.sum()) == 1.0


def test_bow_sums_what_its_tokens_attend_to():
    """In NumPy, pair by pair: softmax of A over the real tokens of the other side, then sum, norm and concatenation."""
    (model, variables), data = model_of("bow-replace"), made.pairs().data
    params, stats = variables["params"], variables["batch_stats"]

    def softmax(x):
        return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)

    def norm(name, x):
        return (x - stats[name]["mean"]) / np.sqrt(stats[name]["variance"] + 1e-5)

    def linear(name, x):
        return x @ params[name]["kernel"] + params[name]["bias"]

    logits = logits_of(model, variables, batch_of(np.arange(6)))
    for row in range(6):
        tokens = [data[side][row, : data[f"{side}_length"][row]] for side in layers.SIDES]
        p, h = (np.maximum(linear("projection", made_up.vectors()[t]), 0) for t in tokens)
        a = np.zeros((len(p), len(h)))
        links = (data[f"link_{what}"][row] for what in ("premise", "hypothesis", "distance"))
        for i, j, d in zip(*links, strict=True):
            if d >= 0:
                a[i, j] = 1 - d / made_up.LONGEST
        attended = {"premise_attended": softmax(a) @ h, "hypothesis_attended": softmax(a.T) @ p}
        sums = {"premise": p, "hypothesis": h, **attended}
        x = np.concatenate([norm(f"norm_{name}", states.sum(axis=0)) for name, states in sums.items()])
        for i in range(3):
            x = norm(f"norm_{i}", np.maximum(linear(f"layer_{i}", x), 0))
        np.testing.assert_allclose(logits[row], linear("logits", x), rtol=1e-10)


def test_soft_alignment_by_hand():
    """Two premise tokens, two real hypothesis tokens, one padded: the weights are e / (e + 1) and 1 / (e + 1)."""
    energies = jnp.array([[[1.0, 0.0, 50.0], [0.0, 0.0, 50.0]]])
    premise, hypothesis = jnp.array([[[1.0], [2.0]]]), jnp.array([[[10.0], [20.0], [99.0]]])
    mask_p, mask_h = jnp.array([[True, True]]), jnp.array([[True, True, False]])
    over_h, over_p = layers.attend(layers.alignment(energies, mask_p, mask_h), premise, hypothesis)
    e = np.e
    np.testing.assert_allclose(over_h[0, :, 0], [(10 * e + 20) / (e + 1), 15.0], rtol=1e-6)
    np.testing.assert_allclose(over_p[0, :2, 0], [(e * 1 + 2) / (e + 1), 1.5], rtol=1e-6)


def test_rows_of_units_become_pairs_with_their_premise():
    corpus, units = made.pairs(), made.pairs().units
    data = jax.tree.map(jnp.asarray, corpus.data)
    batch = NLITask().to_batch(data, jnp.asarray(units), Layout.full(len(units), (16, 12), made.GROUP))
    rows, real = units.reshape(-1), units.reshape(-1) >= 0
    np.testing.assert_array_equal(batch["mask"], real)
    lengths = layers.pair_lengths(batch)
    for side, tokens, length in zip(layers.SIDES, (layers.per_pair(batch["premise"], batch), batch["hypothesis"]),
                                    lengths, strict=True):  # fmt: skip
        np.testing.assert_array_equal(tokens[real], corpus.data[side][rows[real]])
        np.testing.assert_array_equal(length, np.where(real, corpus.data[f"{side}_length"][rows], 0))
    for name in ("label", "link_distance"):
        np.testing.assert_array_equal(batch[name][real], corpus.data[name][rows[real]])


def test_a_setting_that_a_model_lacks_is_named():
    with pytest.raises(ConfigError, match=r"config\.model\.pooling"):
        table.build("bow", {"pooling": "mean"})


# ---- layers ----


@pytest.mark.parametrize("segments", [None, ((1, 3), (1, 2), (3, 1))])
@pytest.mark.parametrize("cell", CELLS)
def test_both_directions_equal_their_equations(cell, segments):
    """Both directions equal NumPy loops over the real tokens of each sentence, on two sides and with an empty row."""
    rng = np.random.default_rng(0)
    size, lengths = 3, np.array([5, 2, 1, 0])
    x = rng.normal(size=(4, 5, 4))
    packing, module = Packing(jnp.asarray(lengths), segments, steps=5), layers.BiRNN(size, cell)
    packed = packing.pack(jnp.asarray(x[:1]), jnp.asarray(x[1:]))
    variables = jax.tree.map(lambda w: w.astype(float), module.init(jax.random.key(0), packed, packing))
    got = np.asarray(packing.unpack(module.apply(variables, packed, packing), (4, 5))[0])
    p = jax.tree.map(np.asarray, variables["params"])
    width = p["recurrent"].shape[-1]
    for row, length in enumerate(lengths):
        for z, steps in enumerate((range(length), reversed(range(length)))):
            h, c, own = np.zeros(size), np.zeros(size), slice(z * width, (z + 1) * width)
            for t in steps:
                h, c = made_up.numpy_cell(
                    cell, x[row, t] @ p["kernel"][:, own] + p["bias"][own], p["recurrent"][z], h, c
                )
                np.testing.assert_allclose(got[row, t, z * size : (z + 1) * size], h, atol=1e-10)
        assert (got[row, length:] == 0).all()


TOKENS = np.array([3, 5, 0, 3, 3, 7, 0, 5])  # four distinct ones


@pytest.mark.parametrize("most", [4, 6, 32])
def test_distinct_words_are_projected_as_the_tokens_would_be(most):
    rng = np.random.default_rng(0)
    table_VD, kernel, cotangent = (jnp.asarray(rng.normal(size=s)) for s in ((9, 4), (4, 6), (8, 6)))
    words = distinct_words(table_VD, jnp.asarray(TOKENS), most)
    assert words.shape == (8, 4)
    packing = Packing(jnp.array([3, 2, 1]), ((1, 3), (1, 2), (1, 3)))
    for given, tokens in ((words, TOKENS), (words.mirrored(packing), TOKENS[np.asarray(packing.mirror_N)])):
        slope = jax.grad(lambda kernel, given=given: (cotangent * project(given, kernel)).sum())(kernel)
        np.testing.assert_allclose(project(given, kernel), table_VD[tokens] @ kernel, atol=1e-14)
        np.testing.assert_allclose(slope, table_VD[tokens].T @ cotangent, atol=1e-13)


def test_more_words_than_there_is_room_for_are_no_number():
    """They become NaN instead of another word's vector, so a wrong layout cannot look like a result."""
    words = distinct_words(jnp.ones((9, 4)), jnp.asarray(TOKENS), 3)
    out = np.asarray(project(words, jnp.ones((4, 2))))
    assert np.isnan(out[TOKENS == 7]).all()
    np.testing.assert_array_equal(out[TOKENS != 7], 4.0)


@pytest.mark.parametrize(("trainable", "distinct"), [(True, 8), (False, 0)])
def test_words_come_as_vectors_where_they_are_trained_or_not_counted(trainable, distinct):
    collections = {"frozen": {"vectors": jnp.asarray(made_up.vectors())}}
    module = WordEmbedding(trainable)
    if trainable:
        collections["params"] = collections["frozen"]
    np.testing.assert_array_equal(module.apply(collections, TOKENS, distinct=distinct), made_up.vectors()[TOKENS])


def test_dropout_of_a_row_depends_on_neither_length_nor_place_but_on_layer_and_side():
    class Layers(nn.Module):
        @nn.compact
        def __call__(self, x, keys, train=True):
            return [layers.RowDropout(0.5, name=name)(x, keys, train=train) for name in ("first", "second")]

    keys, x = jax.vmap(jax.random.key)(jnp.arange(4)), jnp.ones((4, 6, 8))
    first, second = Layers().apply({}, x, keys)
    assert set(np.unique(first)) == {0.0, 2.0}
    assert 0.35 < float((first == 0).mean()) < 0.65
    assert 0.3 < float((first != second).mean()) < 0.7
    np.testing.assert_array_equal(Layers().apply({}, x[:, :3], keys)[0], first[:, :3])
    np.testing.assert_array_equal(Layers().apply({}, x[::-1], keys[::-1])[0], first[::-1])
    np.testing.assert_array_equal(Layers().apply({}, x, keys, train=False)[0], x)
    batch = {"row_key": keys, "premise": jnp.zeros((4, 6)), "hypothesis": jnp.zeros((4, 5))}
    found = np.asarray(jax.random.key_data(layers.sentence_keys(batch, 8)))
    assert len(np.unique(found, axis=0)) == 8


# ---- domains with heads of their own ----

# The layers of the second domain's head -> those of the first head, which a model without heads has, too.
HEADS = {
    "bow": {f"{layer}_{n}_1": f"{layer}_{n}" for layer in ("layer", "norm") for n in (1, 2)} | {"logits_1": "logits"},
    "infersent": {"layer_1_1": "layer_1", "logits_1": "logits"},
    "esim": {"layer_1": "layer", "logits_1": "logits"},
}


def one_head(name, variables, domain):
    """The variables of a model without heads: the shared layers and the head of this domain."""

    def chosen(collection):
        own = {first: collection[second] for second, first in HEADS[name].items() if second in collection}
        rest = {layer: weights for layer, weights in collection.items() if layer not in HEADS[name]}
        return rest | own if domain else rest

    return {kind: of if kind == "frozen" else chosen(of) for kind, of in variables.items()}


@pytest.mark.parametrize("name", HEADS)
def test_a_row_has_the_logits_of_its_domains_head_and_trains_no_other(name):
    plain, (model, variables) = made.build(name), model_of(name, heads=2)
    batch = batch_of(np.arange(8))
    got, domains = logits_of(model, variables, batch), np.asarray(batch["domain"])
    for domain in (0, 1):
        expected = logits_of(plain, one_head(name, variables, domain), batch)
        np.testing.assert_allclose(got[domains == domain], expected[domains == domain], atol=1e-10)
        assert abs(got - expected)[domains != domain].max(axis=1).min() > 1e-4  # the heads differ
    alone = {key: array for key, array in batch.items() if key != "domain"}  # in prediction: that of the target
    expected = logits_of(plain, one_head(name, variables, 0), alone)
    np.testing.assert_allclose(logits_of(model, variables, alone), expected, atol=1e-10)

    @jax.jit
    @jax.grad
    def gradient(params, rows_B):
        given = {**jax.tree.map(jnp.asarray, variables), "params": params}
        got, _ = model.apply(given, batch, train=True, mutable=["batch_stats"])
        return ((got * rows_B[:, None]) ** 2).sum()

    trained = set(variables["params"])  # norms have no parameters
    for domain, other in ((0, set(HEADS[name])), (1, set(HEADS[name].values()))):
        slopes = gradient(variables["params"], (domains == domain).astype(float))
        still = {layer for layer, leaves in slopes.items() if not any(map(np.any, jax.tree.leaves(leaves)))}
        assert still == other & trained


def test_the_norms_of_a_head_know_the_rows_of_their_domain_alone():
    """Rows 1 and 4 belong to the second domain. Without such a row its statistics stay."""
    model, variables = model_of("bow", heads=2)
    before = variables["batch_stats"]
    kept = {"capture_intermediates": lambda module, _: isinstance(module, layers.Linear), "mutable": True}
    for rows, of_second in (([0, 1, 2, 3, 4, 5, 6, -1], [1, 4]), ([0, 2, 3, 5, -1, -1, -1, -1], [])):
        batch, given = batch_of(rows), jax.tree.map(jnp.asarray, variables)
        _, seen = jax.jit(lambda v, batch=batch: model.apply(v, batch, train=True, **kept))(given)
        of_first = [place for place, row in enumerate(rows) if row >= 0 and place not in of_second]
        for number, own in (("", of_first), ("_1", of_second)):
            for n in (1, 2):
                norm = f"norm_{n}{number}"
                x = np.maximum(seen["intermediates"][f"layer_{n}{number}"]["__call__"][0], 0)[np.array(own, int)]
                for kind, value in (("mean", np.mean), ("variance", functools.partial(np.var, ddof=1))):
                    expected = 0.9 * before[norm][kind] + 0.1 * value(x, axis=0) if own else before[norm][kind]
                    np.testing.assert_allclose(seen["batch_stats"][norm][kind], expected, atol=1e-10)
