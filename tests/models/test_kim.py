"""ESIM with typed relations: equal to a dense PyTorch KIM, equal to ESIM at zero weights, and
vectors by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.golden_files import golden, linear, lstm

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.batching import Layout
from mednli_jax.knowledge.relations import kinds_of
from mednli_jax.models import layers, table
from mednli_jax.models.batch import PairBatch
from mednli_jax.nli.task import NLITask
from mednli_jax.training.task import frozen

_, GOLDEN = golden("golden_kim")
HIDDEN, SCALE, ROWS, WIDTH = 5, 1.5, 4, (7, 5)
NAMES = kinds_of(["treats"])
# The links of the golden file, which stores them densely.
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


def bits(kinds):
    return sum(1 << NAMES.index(kind) for kind in kinds)


def golden_data():
    data = {"label": np.arange(ROWS, dtype=np.int32) % 3}
    for side, width in zip(SIDES, WIDTH, strict=True):
        tokens = [GOLDEN[f"{row}/{side}"] for row in range(ROWS)]
        data[side] = np.stack([np.pad(t, (0, width - len(t))) for t in tokens]).astype(np.int32)
        data[f"{side}_length"] = np.array([len(t) for t in tokens], np.int32)
    fields = np.zeros((4, ROWS, 4), np.int16)
    fields[2] = -1
    for row, links in enumerate(LINKS):
        for k, (i, j, edges, kinds) in enumerate(links):
            fields[:, row, k] = i, j, edges, bits(kinds)
    names = ("link_premise", "link_hypothesis", "link_distance")
    return (
        data
        | dict(zip(names, fields[:3], strict=True))
        | {"link_relation": fields[3].astype(np.uint8)}
    )


def tree_of(kind, bias="both"):
    """Our parameters from PyTorch's layout, "weight" or "gradient"."""
    w = {
        key.removeprefix(f"{kind}/"): value
        for key, value in GOLDEN.items()
        if key.startswith(f"{kind}/")
    }
    w |= {
        key.replace(".weight_", ".rnn.weight_").replace(".bias_", ".rnn.bias_"): value
        for key, value in w.items()
    }
    of_g, of_layer = w["g.weight"].T, w["layer.weight"].T
    side, width = (
        np.arange(6 * HIDDEN),
        2 * HIDDEN,
    )  # each side has a weighted sum, an average and a maximum
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


def test_kim_equals_the_reference():
    """Logits agree to 1e-10, and so does every gradient. Padding rows stand among the real ones."""
    with jax.enable_x64(True):
        task = NLITask()
        fields = {
            "hidden_size": HIDDEN,
            "dropout": 0.0,
            "knowledge": "typed",
            "knowledge_scale": SCALE,
        }
        model = table.entry("esim").build({**fields, "train_vectors": True}, relations=len(NAMES))
        tree = jax.tree.map(lambda x: jnp.asarray(x, "float64"), tree_of("weight"))
        index = np.array([0, -1, 1, 2, 3, -1], np.int32)
        batch = task.to_batch(
            jax.tree.map(jnp.asarray, golden_data()), index[:, None], Layout.full(6, WIDTH)
        )
        words = frozen(tree["embedding"]["vectors"])

        def loss_of(params):
            logits = model.apply({"params": params, "frozen": words}, batch, train=False)
            return jnp.sum(batch.mask * task.loss(logits, batch)), logits

        (_, logits), gradient = jax.jit(jax.value_and_grad(loss_of, has_aux=True))(tree)
        expected = np.stack([GOLDEN[f"{row}/logits"] for row in range(ROWS)])
        np.testing.assert_allclose(logits[index >= 0], expected, rtol=0, atol=1e-10)
        for bias in ("ih", "hh"):
            theirs = tree_of("gradient", bias)
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-9), gradient, theirs
            )


@pytest.mark.parametrize("same_words", [True, False])
def test_relation_vectors_by_hand(same_words):
    """Values by kind and distance in both directions; equal words only where asked for.

    An empty slot and a link beyond the batch's width add nothing.
    """
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
            [[bits(["hypernym"]), bits(["antonym", "treats"]), 1, 1, 0]], jnp.uint8
        ),
    )
    relations = layers.Relations(batch, len(NAMES), same_words=same_words)
    onward, back = np.zeros((3, 2, len(NAMES))), np.zeros((3, 2, len(NAMES)))
    onward[0, 1, NAMES.index("hypernym")] = back[0, 1, NAMES.index("hyponym")] = 0.75
    onward[1, 0, NAMES.index("same")] = back[1, 0, NAMES.index("same")] = same_words
    for kind, other in (("antonym", "antonym"), ("treats", "inverse_treats")):
        onward[2, 0, NAMES.index(kind)] = back[2, 0, NAMES.index(other)] = 1.0
    np.testing.assert_allclose(relations.energies(2.0)[0], 2.0 * (onward != 0).any(axis=-1))
    alpha, beta = (np.random.default_rng(0).random(shape) for shape in ((1, 3, 2), (1, 2, 3)))
    premise, hypothesis = relations.attended(
        layers.Attention(jnp.asarray(alpha), jnp.asarray(beta))
    )
    np.testing.assert_allclose(premise[0], np.einsum("ij,ijr->ir", alpha[0], onward), rtol=1e-6)
    np.testing.assert_allclose(hypothesis[0], np.einsum("ji,ijr->jr", beta[0], back), rtol=1e-6)
