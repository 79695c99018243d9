"""Properties of every model: padding, other rows, order and layout change no logit; knowledge acts as documented."""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import made_up
import numpy as np
import pytest

from mednli_jax import defaults, experiment
from mednli_jax.corpora.batching import Batches, Layout
from mednli_jax.errors import ConfigError, UserError
from mednli_jax.models import layers, table
from mednli_jax.models.packing import Packing
from mednli_jax.models.recurrence import CELLS
from mednli_jax.models.words import WordEmbedding, distinct_words, project
from mednli_jax.tasks.nli import NLITask, frozen
from mednli_jax.training.step import row_keys

WIDTH = (12, 8)
MODELS = {
    "bow": ("bow", {}),
    "bow-full": ("bow", {"matching": "full"}),
    "bow-replace": ("bow", {"knowledge": "replace"}),
    "infersent": ("infersent", {}),
    "infersent-gru-mean": ("infersent", {"cell": "gru", "pooling": "mean"}),
    "bilstm": ("infersent", {"pooling": "last", "matching": "concat"}),
    "infersent-replace": ("infersent", {"knowledge": "replace"}),
    "infersent-bias": ("infersent", {"knowledge": "bias"}),
    "esim": ("esim", {}),
    "esim-replace": ("esim", {"knowledge": "replace"}),
    "esim-bias": ("esim", {"knowledge": "bias"}),
    "bow-heads": ("bow", {"heads": 2}),
    "esim-heads": ("esim", {"heads": 2}),
}


def domains(rows):
    """int8 [rows]: every third row belongs to the second domain."""
    return (np.arange(rows) % 3 == 1).astype(np.int8)


def batch_of(rows, width=WIDTH, data=None):
    data = data or made_up.arrays()
    data = {k: jnp.asarray(v) for k, v in {"domain": domains(len(data["label"])), **data}.items()}
    rows = jnp.asarray(rows, jnp.int32)[:, None]
    return NLITask().to_batch(data, rows, Layout.full(len(rows), width))


def build(name, **more):
    model, fields = MODELS[name]
    return table.build(model, {"hidden_size": 6, **fields, **more}, longest_path=made_up.LONGEST)


@functools.cache
def drawn(model):
    collections = {"frozen": frozen(made_up.vectors())}
    batch, mutable = batch_of([0, 1]), ["params", "batch_stats"]
    init = jax.jit(lambda key: model.apply(collections, batch, train=False, rngs={"params": key}, mutable=mutable)[1])
    made = init(jax.random.key(0))
    if "batch_stats" in made:  # replaces mean 0 and variance 1, which would hide mistakes
        made["batch_stats"] = jax.tree.map(lambda x: x + 0.3, made["batch_stats"])
    return {**made, **collections}


def variables_of(model):
    return jax.tree.map(jnp.copy, drawn(model))


def logits_of(model, variables, batch):
    static = tuple((name, batch[name]) for name in ("sentences", "pairs", "words"))
    arrays = {name: array for name, array in batch.items() if name not in dict(static)}
    return np.asarray(_logits(model, static, variables, arrays))


# compiles once for each model and shape, because compilation takes most of the time
@functools.partial(jax.jit, static_argnums=(0, 1))
def _logits(model, static, variables, arrays):
    return model.apply(variables, arrays | dict(static), train=False)


def wider(data, noise=0):
    """The same corpus with four more padded positions on both sides, and noise on all padding."""
    result = dict(data)
    for side in ("premise", "hypothesis"):
        tokens = np.pad(data[side], ((0, 0), (0, 4)))
        real = np.arange(tokens.shape[1]) < data[f"{side}_length"][:, None]
        result[side] = np.where(real, tokens, noise)
    return result


@pytest.mark.parametrize("name", MODELS)
def test_company_order_and_padding_change_no_logit(name):
    """Padding pairs stand among the others, sentences are wider, and all padding holds words."""
    model = build(name)
    variables = variables_of(model)
    together = logits_of(model, variables, batch_of(np.arange(8)))
    order = np.array([5, 3, -1, 7, 0, -1, 1, 2, 6, 4])
    other = logits_of(model, variables, batch_of(order, (16, 12), wider(made_up.arrays(), noise=7)))
    np.testing.assert_allclose(other[order >= 0], together[order[order >= 0]], atol=1e-6)
    assert np.isfinite(other).all()
    assert np.ptp(together, axis=0).max() > 1e-3  # the logits do depend on the pair


@pytest.mark.parametrize("name", ["infersent", "esim"])
def test_published_masking_sees_padding(name):
    """masking="paper" takes softmax and maximum without a mask; only there the padded length changes the logits."""
    model = build(name, masking="paper", **({"knowledge": "replace"} if name == "infersent" else {}))
    variables = variables_of(model)
    short = logits_of(model, variables, batch_of(np.arange(8)))
    long = logits_of(model, variables, batch_of(np.arange(8), (16, 12), wider(made_up.arrays())))
    assert abs(short - long).max() > 1e-4


def test_zero_knowledge_weights_are_plain_esim():
    plain, biased = build("esim"), build("esim-bias")
    variables = variables_of(biased)
    weights = variables["params"].pop("knowledge")
    expected = logits_of(plain, variables, batch_of(np.arange(8)))
    for weight, equal in ((jnp.zeros_like(weights["path_weight"]), True), (weights["path_weight"], False)):
        variables["params"]["knowledge"] = {"path_weight": weight}
        got = logits_of(biased, variables, batch_of(np.arange(8)))
        assert np.allclose(got, expected, atol=1e-6) == equal


def test_knowledge_energies_by_hand():
    """A = 1 - d / longest; 0 without a path and 1 for the same concept. An empty slot changes nothing."""
    batch = {
        "premise": jnp.zeros((1, 4), jnp.int32),
        "hypothesis": jnp.zeros((1, 3), jnp.int32),
        "link_premise": jnp.array([[1, 3, 2, 0]], jnp.int16),
        "link_hypothesis": jnp.array([[0, 2, 1, 0]], jnp.int16),
        "link_distance": jnp.array([[0, 1, 4, -1]], jnp.int16),
    }
    expected = np.zeros((4, 3))
    expected[1, 0], expected[3, 2], expected[2, 1] = 1.0, 0.75, 0.0
    module = layers.KnowledgeEnergies("paper", 4)
    np.testing.assert_allclose(module.apply({}, batch)[0], expected, atol=1e-7)
    np.testing.assert_allclose(layers.KnowledgeEnergies("paper", 4, 2.0).apply({}, batch)[0], 2 * expected, atol=1e-7)
    decayed = np.where(expected > 0, 2 * np.exp(4 * (expected - 1)), 0.0)  # d = 4 (1 - A)
    decayed[2, 1] = 2 * np.exp(-4)
    np.testing.assert_allclose(layers.KnowledgeEnergies("exp", 4, 2.0).apply({}, batch)[0], decayed, rtol=1e-6)
    learned = {"params": {"path_weight": jnp.array([0.5, -2.0, 9.0, 9.0, 3.0])}}
    expected[1, 0], expected[3, 2], expected[2, 1] = 0.5, -2.0, 3.0
    np.testing.assert_allclose(layers.KnowledgeEnergies("learned", 4).apply(learned, batch)[0], expected, atol=1e-7)
    # If all links join identical concepts, the longest path is 0, and nothing must divide by it.
    same = layers.KnowledgeEnergies("paper", 0).apply({}, {**batch, "link_distance": jnp.array([[0, -1, -1, -1]])})
    assert float(same[0, 1, 0]) == 1.0
    assert float(abs(same).sum()) == 1.0


def test_bow_sums_what_its_tokens_attend_to():
    """In NumPy, pair by pair: softmax of A over the real tokens of the other side, then sum, norm and concatenation."""
    model, data = build("bow-replace"), made_up.arrays()
    variables = variables_of(model)
    params, stats = jax.tree.map(np.asarray, (variables["params"], variables["batch_stats"]))

    def softmax(x):
        return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)

    def norm(name, x):
        return (x - stats[name]["mean"]) / np.sqrt(stats[name]["variance"] + 1e-5)

    def linear(name, x):
        return x @ params[name]["kernel"] + params[name]["bias"]

    for row in range(6):
        tokens = {s: data[s][row, : data[f"{s}_length"][row]] for s in ("premise", "hypothesis")}
        p, h = (np.maximum(linear("projection", made_up.vectors()[t]), 0) for t in tokens.values())
        a = np.zeros((len(p), len(h)))
        for i, j, d in zip(
            *(data[name][row] for name in ("link_premise", "link_hypothesis", "link_distance")), strict=True
        ):
            if d >= 0:
                a[i, j] = 1 - d / made_up.LONGEST
        sums = {
            "premise": p,
            "hypothesis": h,
            "premise_attended": softmax(a) @ h,
            "hypothesis_attended": softmax(a.T) @ p,
        }
        x = np.concatenate([norm(f"norm_{name}", states.sum(axis=0)) for name, states in sums.items()])
        for i in range(3):
            x = norm(f"norm_{i}", np.maximum(linear(f"layer_{i}", x), 0))
        np.testing.assert_allclose(
            logits_of(model, variables, batch_of([row]))[0], linear("logits", x), rtol=2e-5, atol=2e-5
        )


def test_bow_has_as_many_parameters_as_the_published_code():
    """With sizes of 300: one projection, three layers of 600, and logits. Norms have no parameters."""
    model, batch = table.build("bow", {"hidden_size": 300, "dropout": 0.5}), batch_of([0])
    vectors, rngs = frozen(np.zeros((24, 300), np.float32)), {"params": jax.random.key(0)}
    how = {"train": False, "rngs": rngs, "mutable": ["params", "batch_stats"]}
    made = jax.eval_shape(lambda: model.apply({"frozen": vectors}, batch, **how)[1]["params"])
    assert sum(leaf.size for leaf in jax.tree.leaves(made)) == 1_173_903


def test_padding_counts_in_the_published_sum_of_words():
    """With masking "paper" the logits depend on the padded length, with "masked" they do not."""
    variables, logits = variables_of(build("bow")), {}
    for masking in ("masked", "paper"):
        for length in (20, 50):
            model = build("bow", masking=masking).clone(padded_length=length)
            logits[masking, length] = logits_of(model, variables, batch_of(np.arange(6)))
    np.testing.assert_array_equal(logits["masked", 20], logits["masked", 50])
    assert abs(logits["paper", 20] - logits["paper", 50]).max() > 1e-3


def test_soft_alignment_by_hand():
    """Two premise tokens, two real hypothesis tokens, one padded: the weights are e / (e + 1) and 1 / (e + 1)."""
    energies = jnp.array([[[1.0, 0.0, 50.0], [0.0, 0.0, 50.0]]])
    premise, hypothesis = jnp.array([[[1.0], [2.0]]]), jnp.array([[[10.0], [20.0], [99.0]]])
    mask_p, mask_h = jnp.array([[True, True]]), jnp.array([[True, True, False]])
    over_h, over_p = layers.attend(layers.alignment(energies, mask_p, mask_h), premise, hypothesis)
    e = np.e
    np.testing.assert_allclose(over_h[0, :, 0], [(10 * e + 20) / (e + 1), 15.0], rtol=1e-6)
    np.testing.assert_allclose(over_p[0, :2, 0], [(e * 1 + 2) / (e + 1), 1.5], rtol=1e-6)


# ---- layouts ----


def shared_premises():
    """(arrays, units): 24 rows of 9 premises with up to three hypotheses each; the rows of a unit are not adjacent."""
    data = made_up.arrays(rows=24, seed=3) | {"domain": domains(24)}
    units = np.full((9, 3), -1)
    units.reshape(-1)[[0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24, 25, 26]] = (
        np.random.default_rng(0).permutation(24)
    )
    for unit in units:
        for row in unit[unit >= 0]:
            data["premise"][row] = data["premise"][unit[0]]
            data["premise_length"][row] = data["premise_length"][unit[0]]
    beyond = data["link_premise"] >= data["premise_length"][:, None]
    data["link_distance"] = np.where(beyond, -1, data["link_distance"]).astype(np.int16)
    return data, units


def fitted(data, units):
    """The tightest layout of one batch of these units [Q, G] with its distinct words, and one more padding unit."""
    length, tokens = ([data[f"{side}{what}"] for side in layers.SIDES] for what in ("_length", ""))
    batches = Batches(*length, batch_size=units.size, width=WIDTH, groups=units, tokens=tokens)
    layout = dataclasses.replace(batches.layouts[0], units=len(units) + 1)
    assert len(layout.sentences) > 1
    assert layout.words > 0
    slots = [sum(steps * rows for steps, rows in at) for at in (layout.sentences, Layout.full(len(units), WIDTH).pairs)]
    assert slots[0] < slots[1]
    return layout, np.concatenate([units, np.full_like(units[:1], -1)])


def step_of(model, data, variables, layout, units, weights, steps=None):
    """(logits [24, 3], gradients) of the rows in this layout, in training mode and float64. Logits keep the order of
    rows.

    With `steps` there is one result for each step, because dropout depends on the step.
    """
    index, task = jnp.asarray(units, jnp.int32), NLITask()
    rows, data = units.reshape(-1), {name: jnp.asarray(array) for name, array in data.items()}

    @jax.jit
    @jax.value_and_grad
    def backward(changing, keys):
        params, logits_NC = changing
        batch = task.to_batch(data, index, layout) | ({} if keys is None else {"row_key": keys})
        got, _ = model.apply({**variables, "params": params}, batch, train=True, mutable=["batch_stats"])
        # The zeros are added to the weights of the logits, so the gradient by them gives the logits.
        scattered = jnp.zeros_like(logits_NC).at[jnp.where(rows >= 0, rows, len(weights))].add(got, mode="drop")
        return (scattered * (weights + logits_NC)).sum()

    def result(keys):
        _, (gradient, logits) = backward((variables["params"], jnp.zeros((24, 3))), keys)
        return np.asarray(logits), gradient

    return result(None) if steps is None else [result(row_keys(1, step, jnp.asarray(rows))) for step in steps]


SLOW = ("infersent-gru-mean", "infersent-bias", "infersent-replace", "esim-replace", "esim-heads", "esim")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in MODELS])
def test_the_layout_changes_neither_logits_nor_gradients(name):
    """Sentences computed to the end are compared with a staircase with distinct words and premises encoded once.

    The norm uses the statistics of the batch. Some units lack hypotheses, and one unit is padding.
    """
    data, units = shared_premises()
    model = build(name, dropout=0.0)
    variables = variables_of(model)
    with jax.enable_x64(True):
        variables = jax.tree.map(lambda x: x.astype(jnp.float64), variables)
        weights = jnp.asarray(np.random.default_rng(2).normal(size=(24, 3)))
        full = np.arange(24)[:, None]
        expected, gradient = step_of(model, data, variables, Layout.full(24, WIDTH), full, weights)
        assert np.ptp(expected, axis=0).max() > 1e-3
        assert all(abs(leaf).max() > 1e-6 for leaf in jax.tree.leaves(gradient))
        got, other = step_of(model, data, variables, *fitted(data, units), weights)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, atol=1e-10, rtol=0)
    for a, b in zip(jax.tree.leaves(other), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10, rtol=0)


def test_dropout_depends_on_neither_layout_nor_place():
    """ESIM drops tokens of packed sentences; a mask belongs to a row, a side and a time."""
    data, _ = shared_premises()
    model = build("esim", dropout=0.5)
    weights, variables = np.random.default_rng(2).normal(size=(24, 3)), variables_of(model)
    order = np.random.default_rng(1).permutation(24)[:, None]
    with jax.enable_x64(True):
        variables = jax.tree.map(lambda x: x.astype(jnp.float64), variables)
        full, other = step_of(
            model, data, variables, Layout.full(24, WIDTH), np.arange(24)[:, None], weights, steps=(3, 4)
        )
        (fit,) = step_of(model, data, variables, *fitted(data, order), weights, steps=(3,))
    for a, b in zip(jax.tree.leaves(full), jax.tree.leaves(fit), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10, rtol=0)
    assert abs(full[0] - other[0]).max() > 1e-3  # another step drops other tokens


def test_rows_of_units_become_pairs_with_their_premise():
    data, units = shared_premises()
    layout = Layout.full(9, WIDTH, 3)
    batch = NLITask().to_batch({k: jnp.asarray(v) for k, v in data.items()}, jnp.asarray(units, jnp.int32), layout)
    rows = units.reshape(-1)
    assert batch["premise"].shape == (9, WIDTH[0])
    assert batch["hypothesis"].shape == (27, WIDTH[1])
    np.testing.assert_array_equal(batch["mask"], rows >= 0)
    premise_B = layers.per_pair(batch["premise"], batch)
    lengths = layers.pair_lengths(batch)
    for place, row in enumerate(rows):
        if row < 0:
            assert int(lengths[0][place]) == int(lengths[1][place]) == 0
            continue
        np.testing.assert_array_equal(premise_B[place], data["premise"][row])
        np.testing.assert_array_equal(batch["hypothesis"][place], data["hypothesis"][row])
        assert (int(lengths[0][place]), int(lengths[1][place])) == (
            data["premise_length"][row],
            data["hypothesis_length"][row],
        )
        assert int(batch["label"][place]) == data["label"][row]
        np.testing.assert_array_equal(batch["link_distance"][place], data["link_distance"][row])


# ---- layers ----


@pytest.mark.parametrize("segments", [None, ((1, 3), (1, 2), (3, 1))])
@pytest.mark.parametrize("cell", CELLS)
def test_both_directions_equal_their_equations(cell, segments):
    """Both directions equal NumPy loops over the real tokens of each sentence, on two sides and with an empty row."""
    rng = np.random.default_rng(0)
    size, lengths = 3, np.array([5, 2, 1, 0])
    x = rng.normal(size=(4, 5, 4)).astype(np.float32)
    packing, module = Packing(jnp.asarray(lengths), segments, steps=5), layers.BiRNN(size, cell)
    packed = packing.pack(jnp.asarray(x[:1]), jnp.asarray(x[1:]))
    variables = module.init(jax.random.key(0), packed, packing)
    got = packing.unpack(module.apply(variables, packed, packing), (4, 5))[0]
    p = {k: np.asarray(v, np.float64) for k, v in variables["params"].items()}
    width = p["recurrent"].shape[-1]
    for row, length in enumerate(lengths):
        for z, steps in enumerate((range(length), reversed(range(length)))):
            h, c = np.zeros(size), np.zeros(size)
            for t in steps:
                gate = x[row, t] @ p["kernel"][:, z * width : (z + 1) * width] + p["bias"][z * width : (z + 1) * width]
                h, c = made_up.numpy_cell(cell, gate, p["recurrent"][z], h, c)
                np.testing.assert_allclose(got[row, t, z * size : (z + 1) * size], h, atol=1e-6)
        assert (np.asarray(got)[row, length:] == 0).all()


TOKENS = np.array([3, 5, 0, 3, 3, 7, 0, 5])  # four distinct ones


@pytest.mark.parametrize("most", [4, 6, 32])
def test_distinct_words_are_projected_as_the_tokens_would_be(most):
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        table_VD, kernel, cotangent = (jnp.asarray(rng.normal(size=s)) for s in ((9, 4), (4, 6), (8, 6)))
        words = distinct_words(table_VD, jnp.asarray(TOKENS), most)
        assert words.shape == (8, 4)
        assert sorted(set(np.asarray(words.words)[np.asarray(words.place)].tolist())) == [0, 3, 5, 7]
        packing = Packing(jnp.array([3, 2, 1]), ((1, 3), (1, 2), (1, 3)))
        for given, tokens in ((words, TOKENS), (words.mirrored(packing), TOKENS[np.asarray(packing.mirror_N)])):

            def loss(kernel, given=given):
                return (cotangent * project(given, kernel)).sum()

            def plain(kernel, tokens=tokens):
                return (cotangent * (table_VD[tokens] @ kernel)).sum()

            np.testing.assert_allclose(project(given, kernel), table_VD[tokens] @ kernel, atol=1e-14)
            np.testing.assert_allclose(jax.grad(loss)(kernel), jax.grad(plain)(kernel), atol=1e-13)


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


def test_masked_batch_norm_by_hand():
    """1 and 3 are real and 100 is padding: mean 2, biased variance 1; the running variance takes the unbiased 2."""
    module = layers.MaskedBatchNorm(affine=False, epsilon=0.0)
    x, mask = jnp.array([[1.0], [3.0], [100.0]]), jnp.array([1.0, 1.0, 0.0])
    start = {"batch_stats": {"mean": jnp.zeros(1), "variance": jnp.ones(1)}}
    y, changed = module.apply(start, x, mask, train=True, mutable=["batch_stats"])
    np.testing.assert_allclose(y[:2, 0], [-1.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(changed["batch_stats"]["mean"], [0.2], atol=1e-6)
    np.testing.assert_allclose(changed["batch_stats"]["variance"], [0.9 + 0.1 * 2.0], atol=1e-6)
    y, changed = layers.MaskedBatchNorm().apply(
        {**start, "params": {"scale": jnp.ones(1), "bias": jnp.zeros(1)}}, x, jnp.zeros(3), train=True, mutable=True
    )
    assert np.isfinite(y).all()  # a device may hold only padding


def test_dropout_of_a_row_depends_on_neither_length_nor_place():
    module = layers.RowDropout(0.5)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(4))
    x = jnp.ones((4, 6, 8))
    y = module.apply({}, x, keys, train=True)
    assert set(np.unique(y)) == {0.0, 2.0}
    assert 0.35 < float((y == 0).mean()) < 0.65
    np.testing.assert_array_equal(module.apply({}, x[:, :3], keys, train=True), y[:, :3])
    np.testing.assert_array_equal(module.apply({}, x[::-1], keys[::-1], train=True), y[::-1])
    np.testing.assert_array_equal(module.apply({}, x, keys, train=False), x)


def test_each_layer_drops_other_parts_of_a_row():
    class Layers(nn.Module):
        @nn.compact
        def __call__(self, x, keys):
            return [layers.RowDropout(0.5, name=name)(x, keys, train=True) for name in ("first", "second")]

    keys = jax.vmap(jax.random.key)(jnp.arange(4))
    first, second = Layers().apply({}, jnp.ones((4, 32)), keys)
    assert 0.3 < float((first != second).mean()) < 0.7


def test_premises_and_hypotheses_have_dropout_keys_of_their_own():
    keys = jax.vmap(lambda row: jax.random.fold_in(jax.random.key(0), row))(jnp.arange(4))
    batch = {"row_key": keys, "premise": jnp.zeros((4, 6)), "hypothesis": jnp.zeros((4, 5))}
    found = np.asarray(jax.random.key_data(layers.sentence_keys(batch, 8)))
    assert len(np.unique(found, axis=0)) == 8


@pytest.mark.slow
def test_trained_vectors_start_at_the_given_ones_and_get_gradients():
    model = build("bow", train_vectors=True)
    variables = variables_of(model)
    np.testing.assert_array_equal(variables["params"]["embedding"]["vectors"], made_up.vectors())

    def loss(params):
        return model.apply({**variables, "params": params}, batch_of([0, 1]), train=False).sum()

    gradient = jax.grad(loss)(variables["params"])["embedding"]["vectors"]
    assert (gradient[0] == 0).all()  # padding has no influence
    assert (gradient != 0).any()


@pytest.mark.parametrize(("field", "value"), [("name", "esimm"), ("knowledge", "replaced"), ("weighting", "linear")])
def test_bad_model_settings_are_named(field, value):
    config = defaults.nli("esim")
    config.model.update({field: value})
    with pytest.raises(UserError, match=rf"config\.model\.{field}\b.* Fix: "):
        experiment.of(config)


def test_a_setting_that_a_model_lacks_is_named():
    with pytest.raises(ConfigError, match=r"config\.model\.pooling"):
        table.build("bow", {"pooling": "mean"})


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
def test_each_row_has_the_logits_of_a_model_with_its_domains_head_alone(name):
    plain, model = build(name), build(name, heads=2)
    variables, batch = variables_of(model), batch_of(np.arange(8))
    got = logits_of(model, variables, batch)
    other = logits_of(model, variables, {**batch, "domain": 1 - batch["domain"]})
    assert abs(got - other).max(axis=1).min() > 1e-4  # the heads differ
    for domain in (0, 1):
        expected = logits_of(plain, one_head(name, variables, domain), batch)
        rows = np.asarray(batch["domain"]) == domain
        assert 0 < rows.sum() < 8
        np.testing.assert_allclose(got[rows], expected[rows], atol=1e-6)
    del batch["domain"]  # in prediction the corpus has one domain and takes the target's head
    alone = logits_of(model, variables, batch)
    np.testing.assert_allclose(alone, logits_of(plain, one_head(name, variables, 0), batch), atol=1e-6)


@pytest.mark.parametrize("name", HEADS)
def test_rows_of_one_domain_do_not_train_the_others_head(name):
    model = build(name, heads=2, dropout=0.0)
    variables, batch = variables_of(model), batch_of(np.arange(8))

    @jax.jit
    @jax.grad
    def gradient(params, rows_B):
        got, _ = model.apply({**variables, "params": params}, batch, train=True, mutable=["batch_stats"])
        return ((got * rows_B[:, None]) ** 2).sum()

    trained = set(variables["params"])  # norms have no parameters
    firsts, seconds = set(HEADS[name].values()) & trained, set(HEADS[name]) & trained
    for domain, own, other in ((0, firsts, seconds), (1, seconds, firsts)):
        rows_B = (batch["domain"] == domain).astype(jnp.float32)
        largest = {
            layer: max(float(abs(leaf).max()) for leaf in jax.tree.leaves(weights))
            for layer, weights in gradient(variables["params"], rows_B).items()
        }
        assert {layer for layer, size in largest.items() if size == 0} == other
        assert own < set(largest)


def changed_statistics(model, variables, batch):
    """(running statistics after a training step, the inputs of the norms in the first layers of the heads)."""
    kept = {"capture_intermediates": lambda module, _: isinstance(module, layers.Linear), "mutable": True}
    _, made = jax.jit(lambda v: model.apply(v, batch, train=True, **kept))(variables)
    inputs = {name: np.maximum(sown["__call__"][0], 0) for name, sown in made["intermediates"].items()}
    return jax.tree.map(np.asarray, made["batch_stats"]), inputs


def test_the_norms_of_a_head_know_the_rows_of_their_domain_alone():
    model = build("bow", heads=2, dropout=0.0)
    # rows 1 and 4 belong to the second domain
    variables, batch = variables_of(model), batch_of([0, 1, 2, 3, 4, 5, 6, -1])
    before = jax.tree.map(np.asarray, variables["batch_stats"])
    after, inputs = changed_statistics(model, variables, batch)
    for number, rows in (("", [0, 2, 3, 5, 6]), ("_1", [1, 4])):
        for n in (1, 2):
            norm, x = f"norm_{n}{number}", inputs[f"layer_{n}{number}"][rows]
            for kind, value in (("mean", x.mean(axis=0)), ("variance", x.var(axis=0, ddof=1))):
                expected = 0.9 * before[norm][kind] + 0.1 * value
                np.testing.assert_allclose(after[norm][kind], expected, atol=1e-6)


def test_a_batch_without_rows_of_a_domain_leaves_its_statistics():
    model = build("bow", heads=2, dropout=0.0)
    variables = variables_of(model)
    before = jax.tree.map(np.asarray, variables["batch_stats"])
    after, _ = changed_statistics(model, variables, batch_of([0, 2, 3, 5, -1, -1]))
    for norm, statistics in before.items():
        for kind, value in statistics.items():
            moved = (after[norm][kind] != value).any()
            assert moved == (norm not in HEADS["bow"]), norm
            assert np.isfinite(after[norm][kind]).all()
