"""ESIM with typed relations: equal to a dense PyTorch KIM, and vectors by hand."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.golden_files import golden, linear, lstm
from support.models import pair_batch
from support.trees import assert_equal, assert_near

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.batching import Layout
from mednli_jax.knowledge.relations import kinds_of
from mednli_jax.models import layers, table
from mednli_jax.nli.scorer import NLIScorer
from mednli_jax.training.scorer import frozen

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
    [
        (1, 4, 1, ("hyponym", "co_hyponym")),
        (2, 0, 0, ("synonym",)),
        (1, 0, 9, ("hypernym",)),
    ],
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
    data = {"label": np.arange(ROWS) % 3}
    for side, width in zip(SIDES, WIDTH, strict=True):
        tokens = [GOLDEN[f"{row}/{side}"] for row in range(ROWS)]
        padded = [np.pad(text, (0, width - len(text))) for text in tokens]
        data[side] = np.stack(padded)
        data[f"{side}_length"] = np.array(list(map(len, tokens)))
    for name in ("link_premise", "link_hypothesis", "link_distance", "link_relation"):
        data[name] = np.zeros((ROWS, 4), int)
    data["link_distance"] -= 1
    for row, links in enumerate(LINKS):
        for slot, (premise, hypothesis, edges, kinds) in enumerate(links):
            data["link_premise"][row, slot] = premise
            data["link_hypothesis"][row, slot] = hypothesis
            data["link_distance"][row, slot] = edges
            data["link_relation"][row, slot] = bits(*kinds)
    layout = Layout.full(len(index), WIDTH)
    return NLIScorer().to_batch(jax.tree.map(jnp.asarray, data), index[:, None], layout)


def golden_params(kind, bias="both"):
    """Our parameters from PyTorch's layout, "weight" or "gradient"."""
    w = {}
    for key, value in GOLDEN.items():
        folder, _, name = key.partition("/")
        if folder == kind:
            w[re.sub(r"\.(weight|bias)_", r".rnn.\1_", name)] = value
    of_g = w["g.weight"].T
    of_layer = w["layer.weight"].T
    # Each side has a weighted sum, an average and a maximum.
    is_sum = np.arange(12 * HIDDEN) % (6 * HIDDEN) < 2 * HIDDEN
    return {
        "embedding": {"vectors": w["embedding.weight"]},
        "encoder": lstm(w, "encoder", bias),
        "composition": lstm(w, "composition", bias),
        "projection": {"kernel": of_g[: 8 * HIDDEN], "bias": w["g.bias"]},
        "relations": {"kernel": of_g[8 * HIDDEN :]},
        "pooling": linear(w, "h"),
        "layer": {"kernel": of_layer[~is_sum], "bias": w["layer.bias"]},
        "pooled": {"kernel": of_layer[is_sum]},
        "logits": linear(w, "logits"),
    }


def test_logits_and_gradients_of_kim_equal_the_pytorch_reference():
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
            return jnp.sum(batch.mask * NLIScorer().loss(logits, batch)), logits

        gradient, logits = jax.jit(jax.grad(loss_of, has_aux=True))(params)

    expected = np.stack([GOLDEN[f"{row}/logits"] for row in range(ROWS)])
    assert_near(logits[index >= 0], expected, atol=1e-10)
    for bias in ("ih", "hh"):
        assert_near(gradient, golden_params("gradient", bias), atol=1e-9)


@pytest.mark.parametrize("same_words", [True, False])
def test_equal_words_are_related_only_where_asked_for_and_links_beyond_the_width_never(same_words):
    inside = [(0, 1, 2, bits("hypernym")), (2, 0, 1, bits("antonym", "treats"))]
    equal = (1, 0, 0, bits("same"))
    beyond = (5, 0, 0, bits("same"))
    attention = layers.Attention(jnp.ones((1, 3, 2)), jnp.ones((1, 2, 3)))

    def attended(same_words, *links):
        @jax.jit
        def of_batch(batch):
            relations = layers.Relations(batch, len(NAMES), same_words=same_words)
            return relations.energies(2.0), relations.attended_relations(attention)

        return of_batch(pair_batch([[0] * 3], [[0] * 2], links))

    expected = attended(True, *inside, equal) if same_words else attended(True, *inside)
    assert_equal(attended(same_words, *inside, equal, beyond, (0, 0, -1, 0)), expected)
    assert (np.count_nonzero(expected[0]) == 3) == same_words
