"""ESIM with typed relations: equal to a dense PyTorch KIM, equal to ESIM at zero weights, and vectors by hand."""

import functools

import jax
import jax.numpy as jnp
import made_up_models as made
import numpy as np
import pytest
from references import golden

from mednli_jax.data.batching import Layout
from mednli_jax.knowledge.relations import kinds_of
from mednli_jax.models import layers, table
from mednli_jax.nli.task import NLITask
from mednli_jax.training.task import frozen

_, GOLDEN = golden("golden_kim")
HIDDEN, SCALE, ROWS, WIDTH = 5, 1.5, 4, (7, 5)
NAMES = kinds_of(["treats"])
# The links of the golden file, which stores them densely.
LINKS = (
    [(0, 1, 0, ("same",)), (2, 3, 3, ("hypernym",)), (6, 0, 1, ("antonym", "treats")), (2, 0, 2, ("co_hyponym",))],
    [(1, 4, 1, ("hyponym", "co_hyponym")), (2, 0, 0, ("synonym",)), (1, 0, 9, ("hypernym",))],
    [],
    [(5, 2, 8, ("hyponym",)), (4, 1, 1, ("inverse_treats",)), (0, 0, 4, ("hypernym", "hyponym", "antonym"))],
)


def bits(kinds):
    return sum(1 << NAMES.index(kind) for kind in kinds)


def golden_data():
    data = {"label": np.arange(ROWS, dtype=np.int32) % 3}
    for side, width in zip(layers.SIDES, WIDTH, strict=True):
        tokens = [GOLDEN[f"{row}/{side}"] for row in range(ROWS)]
        data[side] = np.stack([np.pad(t, (0, width - len(t))) for t in tokens]).astype(np.int32)
        data[f"{side}_length"] = np.array([len(t) for t in tokens], np.int32)
    fields = np.zeros((4, ROWS, 4), np.int16)
    fields[2] = -1
    for row, links in enumerate(LINKS):
        for k, (i, j, edges, kinds) in enumerate(links):
            fields[:, row, k] = i, j, edges, bits(kinds)
    names = ("link_premise", "link_hypothesis", "link_distance")
    return data | dict(zip(names, fields[:3], strict=True)) | {"link_relation": fields[3].astype(np.uint8)}


def tree_of(kind, bias):
    """Our parameters from PyTorch's layout. A recurrence there has two biases that are only ever added."""
    w = {key.removeprefix(f"{kind}/"): value for key, value in GOLDEN.items() if key.startswith(f"{kind}/")}

    def linear(name, rows=slice(None)):
        return {"kernel": w[f"{name}.weight"].T[rows], "bias": w[f"{name}.bias"]}

    def lstm(name):
        ends = ("l0", "l0_reverse")
        return {
            "kernel": np.concatenate([w[f"{name}.weight_ih_{end}"].T for end in ends], axis=1),
            "recurrent": np.stack([w[f"{name}.weight_hh_{end}"].T for end in ends]),
            "bias": np.concatenate([sum(w[f"{name}.bias_{one}_{end}"] for one in bias) for end in ends]),
        }

    side, width = np.arange(6 * HIDDEN), 2 * HIDDEN  # each side has a weighted sum, an average and a maximum
    plain = np.concatenate([side[width:], 6 * HIDDEN + side[width:]])
    pooled = np.concatenate([side[:width], 6 * HIDDEN + side[:width]])
    return {
        "embedding": {"vectors": w["embedding.weight"]},
        "encoder": lstm("encoder"),
        "composition": lstm("composition"),
        "projection": linear("g", slice(8 * HIDDEN)),
        "relations": {"kernel": w["g.weight"].T[8 * HIDDEN :]},
        "pooling": linear("h"),
        "layer": linear("layer", plain),
        "pooled": {"kernel": w["layer.weight"].T[pooled]},
        "logits": linear("logits"),
    }


def test_kim_equals_the_reference():
    """Logits agree to 1e-10, and so does every gradient. Padding rows stand among the real ones."""
    with jax.enable_x64(True):
        task = NLITask()
        fields = {"hidden_size": HIDDEN, "dropout": 0.0, "knowledge": "typed", "knowledge_scale": SCALE}
        model = table.build("esim", {**fields, "train_vectors": True}, relations=len(NAMES))
        tree = jax.tree.map(lambda x: jnp.asarray(x, "float64"), tree_of("weight", ("ih", "hh")))
        index = np.array([0, -1, 1, 2, 3, -1], np.int32)
        batch = task.to_batch(jax.tree.map(jnp.asarray, golden_data()), index[:, None], Layout.full(6, WIDTH))
        words = frozen(tree["embedding"]["vectors"])

        def loss_of(params):
            logits = model.apply({"params": params, "frozen": words}, batch, train=False)
            return jnp.sum(batch["mask"] * task.loss(logits, batch)), logits

        (_, logits), gradient = jax.jit(jax.value_and_grad(loss_of, has_aux=True))(tree)
        expected = np.stack([GOLDEN[f"{row}/logits"] for row in range(ROWS)])
        np.testing.assert_allclose(logits[index >= 0], expected, rtol=0, atol=1e-10)
        for bias in ("ih", "hh"):
            theirs = tree_of("gradient", (bias,))
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-9), gradient, theirs)


def model_of(**fields):
    """(ESIM with typed relations, its variables)."""
    model = made.build("esim-typed", **fields)
    return model, made.variables_of(model, "esim-typed")


@functools.partial(jax.jit, static_argnums=0)
def logits_of(model, variables):
    corpus = made.pairs()
    data = jax.tree.map(jnp.asarray, corpus.data)
    batch = corpus.task.to_batch(data, np.arange(12)[:, None], Layout.full(12, corpus.width))
    return model.apply(variables, batch, train=False)


def test_zero_weights_are_plain_esim():
    """With lambda and the weights of relations and of weighted pooling at 0, the logits are bit-identical."""
    kim, variables = model_of(knowledge_scale=0.0)
    params = variables["params"]
    zeroed = params | {name: jax.tree.map(np.zeros_like, params[name]) for name in ("relations", "pooled")}
    shared = {name: params[name] for name in params if name not in ("relations", "pooled", "pooling")}
    expected = logits_of(made.build("esim"), variables | {"params": shared})
    np.testing.assert_array_equal(logits_of(kim, variables | {"params": zeroed}), expected)
    for name in ("relations", "pooled"):
        assert abs(logits_of(kim, variables | {"params": zeroed | {name: params[name]}}) - expected).max() > 1e-4
    scaled = made.build("esim-typed", knowledge_scale=2.0)
    assert abs(logits_of(scaled, variables | {"params": zeroed}) - expected).max() > 1e-4


@pytest.mark.parametrize("same_words", [True, False])
def test_relation_vectors_by_hand(same_words):
    """Values by kind and distance in both directions; equal words only where asked for.

    An empty slot and a link beyond the batch's width add nothing.
    """
    batch = {
        "premise": jnp.zeros((1, 3), jnp.int32),
        "hypothesis": jnp.zeros((1, 2), jnp.int32),
        "link_premise": jnp.array([[0, 2, 5, 1, 0]], jnp.int16),
        "link_hypothesis": jnp.array([[1, 0, 0, 0, 0]], jnp.int16),
        "link_distance": jnp.array([[2, 1, 0, 0, -1]], jnp.int16),
        "link_relation": jnp.array([[bits(["hypernym"]), bits(["antonym", "treats"]), 1, 1, 0]], jnp.uint8),
    }
    relations = layers.Relations(batch, len(NAMES), same_words=same_words)
    onward, back = np.zeros((3, 2, len(NAMES))), np.zeros((3, 2, len(NAMES)))
    onward[0, 1, NAMES.index("hypernym")] = back[0, 1, NAMES.index("hyponym")] = 0.75
    onward[1, 0, NAMES.index("same")] = back[1, 0, NAMES.index("same")] = same_words
    for kind, other in (("antonym", "antonym"), ("treats", "inverse_treats")):
        onward[2, 0, NAMES.index(kind)] = back[2, 0, NAMES.index(other)] = 1.0
    np.testing.assert_allclose(relations.energies(2.0)[0], 2.0 * (onward != 0).any(axis=-1))
    alpha, beta = (np.random.default_rng(0).random(shape) for shape in ((1, 3, 2), (1, 2, 3)))
    premise, hypothesis = relations.attended((jnp.asarray(alpha), jnp.asarray(beta)))
    np.testing.assert_allclose(premise[0], np.einsum("ij,ijr->ir", alpha[0], onward), rtol=1e-6)
    np.testing.assert_allclose(hypothesis[0], np.einsum("ji,ijr->jr", beta[0], back), rtol=1e-6)
