"""ESIM with typed relations: equal to a dense PyTorch KIM, and vectors by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.golden_files import golden, linear, lstm
from support.trees import assert_near

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.batching import Layout
from mednli_jax.knowledge.relations import kinds_of
from mednli_jax.models import layers, table
from mednli_jax.models.batch import PairBatch
from mednli_jax.nli.task import NLITask
from mednli_jax.training.task import frozen

_, GOLDEN = golden("golden_kim")
HIDDEN = 5
SCALE = 1.5
ROWS = 4
WIDTH = (7, 5)
NAMES = kinds_of(["treats"])
# The links of each row of the golden file, which stores them densely: premise token, hypothesis
# token, edges, kinds.
LINKS = (
    [
        (0, 1, 0, ("same",)),
        (2, 3, 3, ("hypernym",)),
        (6, 0, 1, ("antonym", "treats")),
        (2, 0, 2, ("co_hyponym",)),
    ],
    [(1, 4, 1, ("hyponym", "co_hyponym")), (2, 0, 0, ("synonym",)), (1, 0, 9, ("hypernym",))],
    [],
    [
        (5, 2, 8, ("hyponym",)),
        (4, 1, 1, ("inverse_treats",)),
        (0, 0, 4, ("hypernym", "hyponym", "antonym")),
    ],
)


def bits(*kinds):
    return sum(1 << NAMES.index(kind) for kind in kinds)


def golden_batch(index):
    data = {"label": np.arange(ROWS, dtype=np.int32) % 3}
    for side, width in zip(SIDES, WIDTH, strict=True):
        tokens = [GOLDEN[f"{row}/{side}"] for row in range(ROWS)]
        padded = [np.pad(text, (0, width - len(text))) for text in tokens]
        data[side] = np.stack(padded).astype(np.int32)
        data[f"{side}_length"] = np.array(list(map(len, tokens)), np.int32)
    for name in ("link_premise", "link_hypothesis", "link_distance"):
        data[name] = np.full((ROWS, 4), -1 if name == "link_distance" else 0, np.int16)
    data["link_relation"] = np.zeros((ROWS, 4), np.uint8)
    for row, links in enumerate(LINKS):
        for slot, (premise, hypothesis, edges, kinds) in enumerate(links):
            data["link_premise"][row, slot] = premise
            data["link_hypothesis"][row, slot] = hypothesis
            data["link_distance"][row, slot] = edges
            data["link_relation"][row, slot] = bits(*kinds)
    layout = Layout.full(len(index), WIDTH)
    return NLITask().to_batch(jax.tree.map(jnp.asarray, data), index[:, None], layout)


def golden_params(kind, bias="both"):
    """Our parameters from PyTorch's layout, "weight" or "gradient"."""
    w = {}
    for key, value in GOLDEN.items():
        if key.startswith(f"{kind}/"):
            name = key.removeprefix(f"{kind}/")
            w[name] = value
            w[name.replace(".weight_", ".rnn.weight_").replace(".bias_", ".rnn.bias_")] = value
    of_g = w["g.weight"].T
    of_layer = w["layer.weight"].T
    # Each side has a weighted sum, an average and a maximum.
    side = np.arange(6 * HIDDEN)
    width = 2 * HIDDEN
    plain = np.concatenate([side[width:], 6 * HIDDEN + side[width:]])
    pooled = np.concatenate([side[:width], 6 * HIDDEN + side[:width]])
    return {
        "embedding": {"vectors": w["embedding.weight"]},
        "encoder": lstm(w, "encoder", bias),
        "composition": lstm(w, "composition", bias),
        "projection": {"kernel": of_g[: 8 * HIDDEN], "bias": w["g.bias"]},
        "relations": {"kernel": of_g[8 * HIDDEN :]},
        "pooling": linear(w, "h"),
        "layer": {"kernel": of_layer[plain], "bias": w["layer.bias"]},
        "pooled": {"kernel": of_layer[pooled]},
        "logits": linear(w, "logits"),
    }


def test_logits_and_gradients_of_kim_equal_the_reference():
    """Padding rows stand among the real ones."""
    fields = {
        "hidden_size": HIDDEN,
        "dropout": 0.0,
        "knowledge": "typed",
        "knowledge_scale": SCALE,
        "train_vectors": True,
    }
    with jax.enable_x64(True):
        model = table.entry("esim").build(fields, relations=len(NAMES))
        params = jax.tree.map(lambda x: jnp.asarray(x, "float64"), golden_params("weight"))
        index = np.array([0, -1, 1, 2, 3, -1], np.int32)
        batch = golden_batch(index)
        words = frozen(params["embedding"]["vectors"])

        def loss_of(params):
            logits = model.apply({"params": params, "frozen": words}, batch, train=False)
            return jnp.sum(batch.mask * NLITask().loss(logits, batch)), logits

        gradient, logits = jax.jit(jax.grad(loss_of, has_aux=True))(params)

    expected = np.stack([GOLDEN[f"{row}/logits"] for row in range(ROWS)])
    np.testing.assert_allclose(logits[index >= 0], expected, rtol=0, atol=1e-10)
    for bias in ("ih", "hh"):
        assert_near(gradient, golden_params("gradient", bias), atol=1e-9)


@pytest.mark.parametrize("same_words", [True, False])
def test_relation_vectors_have_values_by_kind_and_distance_in_both_directions(same_words):
    """Equal words only where asked for. An empty slot and a link beyond the batch's width add
    nothing."""
    batch = PairBatch(
        premise=jnp.zeros((1, 3), jnp.int32),
        premise_length=jnp.array([3]),
        hypothesis=jnp.zeros((1, 2), jnp.int32),
        hypothesis_length=jnp.array([2]),
        mask=jnp.ones(1),
        link_premise=jnp.array([[0, 2, 5, 1, 0]], jnp.int16),
        link_hypothesis=jnp.array([[1, 0, 0, 0, 0]], jnp.int16),
        link_distance=jnp.array([[2, 1, 0, 0, -1]], jnp.int16),
        link_relation=jnp.array(
            [[bits("hypernym"), bits("antonym", "treats"), 1, 1, 0]], jnp.uint8
        ),
    )
    onward, back = np.zeros((2, 3, 2, len(NAMES)))
    for cell, value, kind, inverse in (
        ((0, 1), 0.75, "hypernym", "hyponym"),
        ((1, 0), same_words, "same", "same"),
        ((2, 0), 1.0, "antonym", "antonym"),
        ((2, 0), 1.0, "treats", "inverse_treats"),
    ):
        onward[(*cell, NAMES.index(kind))] = value
        back[(*cell, NAMES.index(inverse))] = value
    alpha, beta = (np.random.default_rng(0).random(shape) for shape in ((1, 3, 2), (1, 2, 3)))

    relations = layers.Relations(batch, len(NAMES), same_words=same_words)
    attention = layers.Attention(jnp.asarray(alpha), jnp.asarray(beta))
    premise, hypothesis = relations.attended(attention)

    np.testing.assert_allclose(relations.energies(2.0)[0], 2.0 * (onward != 0).any(axis=-1))
    np.testing.assert_allclose(premise[0], np.einsum("ij,ijr->ir", alpha[0], onward), rtol=1e-6)
    np.testing.assert_allclose(hypothesis[0], np.einsum("ji,ijr->jr", beta[0], back), rtol=1e-6)
