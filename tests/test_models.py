"""What every model promises: padding, batch mates and order never change a logit; knowledge does what it says."""

import jax
import jax.numpy as jnp
import made_up
import numpy as np
import pytest

from mednli_jax.data.batching import Layout
from mednli_jax.errors import UserError
from mednli_jax.models import layers, table
from mednli_jax.models.recurrence import CELLS
from mednli_jax.tasks.nli import NLITask, frozen

WIDTH = (12, 8)
MODELS = {
    "bow": ("bow", {}),
    "infersent": ("infersent", {}),
    "infersent-gru-mean": ("infersent", {"cell": "gru", "pooling": "mean"}),
    "bilstm": ("infersent", {"pooling": "last", "matching": "concat"}),
    "infersent-replace": ("infersent", {"knowledge": "replace"}),
    "infersent-bias": ("infersent", {"knowledge": "bias"}),
    "esim": ("esim", {}),
    "esim-replace": ("esim", {"knowledge": "replace"}),
    "esim-bias": ("esim", {"knowledge": "bias"}),
}


def batch_of(rows, width=WIDTH, data=None):
    data = {k: jnp.asarray(v) for k, v in (data or made_up.arrays()).items()}
    rows = jnp.asarray(rows, jnp.int32)[:, None]
    return NLITask().to_batch(data, rows, Layout.full(len(rows), width))


def build(name, **more):
    model, fields = MODELS[name]
    return table.build(model, {"hidden_size": 6, **fields, **more}, longest_path=made_up.LONGEST)


def variables_of(model, seed=0):
    rngs = {"params": jax.random.key(seed)}
    collections = {"frozen": frozen(made_up.vectors())}
    mutable = ["params", "batch_stats"]
    _, made = model.apply(collections, batch_of([0, 1]), train=False, rngs=rngs, mutable=mutable)
    if "batch_stats" in made:  # a trained norm: at mean 0 and variance 1 it would hide mistakes
        made["batch_stats"] = jax.tree.map(lambda x: x + 0.3, made["batch_stats"])
    return {**made, **collections}


def logits_of(model, variables, batch):
    return np.asarray(model.apply(variables, batch, train=False))


@pytest.mark.parametrize("name", MODELS)
def test_a_pair_has_the_same_logits_alone_and_in_any_batch(name):
    model = build(name)
    variables = variables_of(model)
    rows = np.arange(8)
    together = logits_of(model, variables, batch_of(rows))
    order = np.array([5, 3, 7, 0, 1, 2, 6, 4])
    np.testing.assert_allclose(logits_of(model, variables, batch_of(rows[order])), together[order], atol=1e-6)
    wider = {
        k: np.pad(v, ((0, 0), (0, 4))) if k in ("premise", "hypothesis") else v for k, v in made_up.arrays().items()
    }
    padded = logits_of(model, variables, batch_of([2, -1, -1], (16, 12), wider))
    np.testing.assert_allclose(padded[0], together[2], atol=1e-6)
    assert np.isfinite(padded).all()
    assert np.ptp(together, axis=0).max() > 1e-3  # the logits depend on the pair


@pytest.mark.parametrize("name", MODELS)
def test_tokens_on_padding_are_not_seen(name):
    model = build(name)
    variables = variables_of(model)
    batch = dict(batch_of(np.arange(8)))
    clean = logits_of(model, variables, batch)
    for side in ("premise", "hypothesis"):
        mask = layers.length_mask(batch[f"{side}_length"], batch[side].shape[1])
        batch[side] = jnp.where(mask, batch[side], 7)
    np.testing.assert_allclose(logits_of(model, variables, batch), clean, atol=1e-6)


@pytest.mark.parametrize("name", ["infersent", "esim"])
def test_published_masking_sees_padding(name):
    """masking="paper" is the unmasked softmax and maximum: the padded length matters there, and only there."""
    model = build(name, masking="paper", **({"knowledge": "replace"} if name == "infersent" else {}))
    variables = variables_of(model)
    wider = {
        k: np.pad(v, ((0, 0), (0, 4))) if k in ("premise", "hypothesis") else v for k, v in made_up.arrays().items()
    }
    short = logits_of(model, variables, batch_of(np.arange(8)))
    long = logits_of(model, variables, batch_of(np.arange(8), (16, 12), wider))
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
    """A = 1 - d / longest, 0 without a path, 1 for the same concept; an empty slot changes nothing."""
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
    learned = {"params": {"path_weight": jnp.array([0.5, -2.0, 9.0, 9.0, 3.0])}}
    expected[1, 0], expected[3, 2], expected[2, 1] = 0.5, -2.0, 3.0
    np.testing.assert_allclose(layers.KnowledgeEnergies("learned", 4).apply(learned, batch)[0], expected, atol=1e-7)
    # A corpus whose only links are identical concepts has longest path 0: no division by it.
    same = layers.KnowledgeEnergies("paper", 0).apply({}, {**batch, "link_distance": jnp.array([[0, -1, -1, -1]])})
    assert float(same[0, 1, 0]) == 1.0
    assert float(abs(same).sum()) == 1.0


def test_soft_alignment_by_hand():
    """Two premise tokens against two real hypothesis tokens and one padded: weights e / (e + 1) and 1 / (e + 1)."""
    energies = jnp.array([[[1.0, 0.0, 50.0], [0.0, 0.0, 50.0]]])
    premise, hypothesis = jnp.array([[[1.0], [2.0]]]), jnp.array([[[10.0], [20.0], [99.0]]])
    mask_p, mask_h = jnp.array([[True, True]]), jnp.array([[True, True, False]])
    over_h, over_p = layers.soft_align(energies, premise, hypothesis, mask_p, mask_h)
    e = np.e
    np.testing.assert_allclose(over_h[0, :, 0], [(10 * e + 20) / (e + 1), 15.0], rtol=1e-6)
    np.testing.assert_allclose(over_p[0, :2, 0], [(e * 1 + 2) / (e + 1), 1.5], rtol=1e-6)


@pytest.mark.parametrize("cell", CELLS)
def test_recurrence_equals_its_equations(cell):
    """Both directions against plain NumPy loops over each row's real tokens."""
    rng = np.random.default_rng(0)
    size, lengths = 3, np.array([5, 2, 1])
    x = rng.normal(size=(3, 5, 4)).astype(np.float32)
    module = layers.BiRNN(size, cell)
    variables = module.init(jax.random.key(0), x, lengths)
    got = np.asarray(module.apply(variables, x, lengths))
    p = {k: np.asarray(v, np.float64) for k, v in variables["params"].items()}
    width = p["recurrent"].shape[-1]
    for row, length in enumerate(lengths):
        for z, steps in enumerate((range(length), reversed(range(length)))):
            h, c = np.zeros(size), np.zeros(size)
            for t in steps:
                gate = x[row, t] @ p["kernel"][:, z * width : (z + 1) * width] + p["bias"][z * width : (z + 1) * width]
                h, c = numpy_cell(cell, gate, p["recurrent"][z], h, c)
                np.testing.assert_allclose(got[row, t, z * size : (z + 1) * size], h, atol=1e-6)
        assert (got[row, length:] == 0).all()


def numpy_cell(cell, gate, recurrent, h, c):
    def sigmoid(v):
        return 1 / (1 + np.exp(-v))

    if cell == "lstm":
        i, f, g, o = np.split(gate + h @ recurrent, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    (r, u, n), (hr, hu, hn) = np.split(gate, 3), np.split(h @ recurrent, 3)
    r, u = sigmoid(r + hr), sigmoid(u + hu)
    return (1 - u) * h + u * np.tanh(n + r * hn), c


def test_lstm_gradient_equals_automatic_differentiation():
    """The hand-written backward pass against `scan` differentiated by JAX, in float64."""
    lstm, _ = CELLS["lstm"]

    def automatic(gates, recurrent, keep):
        def body(carry, inputs):
            h, c = carry
            i, f, g, o = jnp.split(inputs[0] + jnp.einsum("zbh,zhg->zbg", h, recurrent), 4, axis=-1)
            c = inputs[1] * (jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g))
            h = inputs[1] * jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((*gates.shape[1:3], recurrent.shape[1]), gates.dtype)
        return jax.lax.scan(body, (zeros, zeros), (gates, keep))[1]

    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        gates, recurrent = jnp.asarray(rng.normal(size=(6, 2, 3, 16))), jnp.asarray(rng.normal(size=(2, 4, 16)))
        keep = (np.arange(6)[:, None] < np.array([6, 3, 1])).astype(float)
        keep = jnp.asarray(np.stack([keep, keep[::-1]], axis=1)[..., None])
        weights = jnp.asarray(rng.normal(size=(6, 2, 3, 4)))
        ours, theirs = (
            jax.grad(lambda g, u, f=f: (weights * f(g, u, keep)).sum(), argnums=(0, 1))(gates, recurrent)
            for f in (lstm, automatic)
        )
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == np.float64
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_masked_batch_norm_by_hand():
    """Rows (1, 3) are real, 100 is padding: mean 2, biased variance 1, running variance takes the unbiased 2."""
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
    assert np.isfinite(y).all()  # a device may hold padding alone


def test_dropout_of_a_row_depends_on_neither_length_nor_place():
    module = layers.RowDropout(0.5)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(4))
    x = jnp.ones((4, 6, 8))
    y = module.apply({}, x, {"row_key": keys}, train=True)
    assert set(np.unique(y)) == {0.0, 2.0}
    assert 0.35 < float((y == 0).mean()) < 0.65
    np.testing.assert_array_equal(module.apply({}, x[:, :3], {"row_key": keys}, train=True), y[:, :3])
    np.testing.assert_array_equal(module.apply({}, x[::-1], {"row_key": keys[::-1]}, train=True), y[::-1])
    np.testing.assert_array_equal(module.apply({}, x, {"row_key": keys}, train=False), x)


def test_trained_vectors_start_at_the_given_ones_and_get_gradients():
    model = build("bow", train_vectors=True)
    variables = variables_of(model)
    np.testing.assert_array_equal(variables["params"]["embedding"]["vectors"], made_up.vectors())

    def loss(params):
        return model.apply({**variables, "params": params}, batch_of([0, 1]), train=False).sum()

    gradient = jax.grad(loss)(variables["params"])["embedding"]["vectors"]
    assert (gradient[0] == 0).all()  # padding is never looked at
    assert (gradient != 0).any()


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("esimm", {}, "unknown model"),
        ("esim", {"knowledge": "replaced"}, "unknown value"),
        ("bow", {"knowledge": "replace"}, "no such setting"),
    ],
)
def test_bad_model_settings_are_named(name, fields, expected):
    with pytest.raises(UserError, match=expected):
        table.build(name, fields)
