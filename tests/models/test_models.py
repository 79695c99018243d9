"""The models of sentence pairs: knowledge acts as documented, published forms, layers by hand."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models

from mednli_jax.data.batching import Layout
from mednli_jax.models import layers
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.table import Traits, traits


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def batch_of(rows, width=None):
    corpus, rows = models.pairs(), jnp.asarray(rows)[:, None]
    return corpus.task.to_batch(
        jax.tree.map(jnp.asarray, corpus.data), rows, Layout.full(len(rows), width or (12, 8))
    )


def logits_of(model, variables, batch):
    return np.asarray(_logits(model, jax.tree.map(jnp.asarray, variables), batch))


# compiles once for each model and shape, because compilation takes most of the time
@functools.partial(jax.jit, static_argnums=0)
def _logits(model, variables, batch):
    return model.apply(variables, batch, train=False)


def model_of(name, **fields):
    """(model, its variables)."""
    model = models.build(name, **fields)
    return model, models.variables_of(model, name)


class Silent(nn.Module):
    size: int = 3


class Declared(Silent):
    platform: str = "cpu"
    trains_rows = True


def test_a_model_declares_the_traits_that_differ():
    """A user's class may declare none."""
    assert traits(Silent()) == Traits()
    assert traits(Declared(platform="gpu")) == Traits(trains_rows=True, platform="gpu")


# ---- published forms and knowledge ----


def test_knowledge_energies_by_hand():
    """A = 1 - d / longest; 0 without a path and 1 for the same concept. An empty slot changes
    nothing."""
    batch = PairBatch(
        premise=jnp.zeros((1, 4), jnp.int32),
        premise_length=jnp.array([4]),
        hypothesis=jnp.zeros((1, 3), jnp.int32),
        hypothesis_length=jnp.array([3]),
        mask=jnp.ones(1),
        link_premise=jnp.array([[1, 3, 2, 0]], jnp.int16),
        link_hypothesis=jnp.array([[0, 2, 1, 0]], jnp.int16),
        link_distance=jnp.array([[0, 1, 4, -1]], jnp.int16),
    )
    learned = {"params": {"path_weight": jnp.array([0.5, -2.0, 9.0, 9.0, 3.0])}}
    for how, variables, values in (
        (("paper", 4), {}, (1.0, 0.75, 0.0)),
        (("paper", 4, 2.0), {}, (2.0, 1.5, 0.0)),
        (("exp", 4, 2.0), {}, (2.0, 2 * np.exp(-1), 2 * np.exp(-4))),
        (("learned", 4), learned, (0.5, -2.0, 3.0)),
    ):
        expected = np.zeros((4, 3))
        expected[[1, 3, 2], [0, 2, 1]] = values
        np.testing.assert_allclose(
            layers.KnowledgeEnergies(*how).apply(variables, batch)[0], expected, atol=1e-7
        )
    # If all links join identical concepts, the longest path is 0, and nothing must divide by it.
    same = layers.KnowledgeEnergies("paper", 0).apply(
        {}, batch.replace(link_distance=jnp.array([[0, -1, -1, -1]]))
    )
    assert np.argwhere(same).tolist() == [[0, 1, 0]]
    assert float(same.sum()) == 1.0


# ---- layers ----


TOKENS = np.array([3, 5, 0, 3, 3, 7, 0, 5])  # four distinct ones


def test_more_words_than_there_is_room_for_are_no_number():
    """They become NaN instead of another word's vector, so a wrong layout cannot look like a
    result."""
    words = layers.distinct_words(jnp.ones((9, 4)), jnp.asarray(TOKENS), 3)
    out = np.asarray(layers.project(words, jnp.ones((4, 2)), None))
    assert np.isnan(out[TOKENS == 7]).all()
    np.testing.assert_array_equal(out[TOKENS != 7], 4.0)


def test_dropout_of_a_row_depends_on_neither_length_nor_place_but_on_layer_and_side():
    class Layers(nn.Module):
        @nn.compact
        def __call__(self, x, keys, train=True):
            return [
                layers.RowDropout(0.5, name=name)(x, keys, train=train)
                for name in ("first", "second")
            ]

    keys, x = jax.vmap(jax.random.key)(jnp.arange(4)), jnp.ones((4, 6, 8))
    first, second = Layers().apply({}, x, keys)
    assert set(np.unique(first)) == {0.0, 2.0}
    assert 0.35 < float((first == 0).mean()) < 0.65
    assert 0.3 < float((first != second).mean()) < 0.7
    np.testing.assert_array_equal(Layers().apply({}, x[:, :3], keys)[0], first[:, :3])
    np.testing.assert_array_equal(Layers().apply({}, x[::-1], keys[::-1])[0], first[::-1])
    np.testing.assert_array_equal(Layers().apply({}, x, keys, train=False)[0], x)
    zeros = jnp.zeros(4)
    batch = PairBatch(jnp.zeros((4, 6)), zeros, jnp.zeros((4, 5)), zeros, zeros, row_key=keys)
    found = np.asarray(jax.random.key_data(layers.sentence_keys(batch, 8)))
    assert len(np.unique(found, axis=0)) == 8
