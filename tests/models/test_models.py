"""The models of sentence pairs: knowledge acts as documented, layers by hand."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.cases import cases
from support.models import pair_batch
from support.trees import assert_equal, assert_near

from mednli_jax.models import layers
from mednli_jax.models.packing import Packing
from mednli_jax.models.table import Traits, traits


class Silent(nn.Module):
    size: int = 3


class Declared(Silent):
    platform: str = "cpu"
    trains_rows = True


def test_a_model_declares_the_traits_that_differ():
    """A user's class may declare none."""
    assert traits(Silent()) == Traits()
    assert traits(Declared(platform="gpu")) == Traits(trains_rows=True, platform="gpu")


# ---- knowledge ----


def linked_batch(*distances):
    """A pair of four and three words with links between words 1-0, 3-2, 2-1 and 0-0; a distance of
    -1 is an empty slot."""
    words = [
        (1, 0),
        (3, 2),
        (2, 1),
        (0, 0),
    ]
    links = [(*pair, distance, 0) for pair, distance in zip(words, distances, strict=True)]
    return pair_batch([[0] * 4], [[0] * 3], links)


PATH_WEIGHT = {"params": {"path_weight": np.array([0.5, -2.0, 9.0, 9.0, 3.0])}}


@cases(
    "settings, variables, values",
    {
        "paper: 1 - d / longest": (
            ("paper", 4),
            {},
            (1.0, 0.75, 0.0),
        ),
        "paper, scaled": (
            ("paper", 4, 2.0),
            {},
            (2.0, 1.5, 0.0),
        ),
        "exponential": (
            ("exp", 4, 2.0),
            {},
            2 * np.exp([0, -1, -4]),
        ),
        "learned": (
            ("learned", 4),
            PATH_WEIGHT,
            (0.5, -2.0, 3.0),
        ),
    },
)
def test_knowledge_energies_follow_the_distances_of_links(settings, variables, values):
    expected = np.zeros((4, 3))
    expected[[1, 3, 2], [0, 2, 1]] = values

    knowledge = layers.KnowledgeEnergies(*settings)
    energies = knowledge.apply(variables, linked_batch(0, 1, 4, -1))

    assert_near(energies[0], expected, atol=1e-6)


def test_knowledge_energies_of_identical_concepts_alone_do_not_divide_by_the_longest_path_of_0():
    energies = layers.KnowledgeEnergies("paper", 0).apply({}, linked_batch(0, -1, -1, -1))

    assert np.argwhere(energies).tolist() == [[0, 1, 0]]
    assert float(energies.sum()) == 1.0


# ---- layers ----


def test_words_of_a_batch_beyond_its_room_become_nan():
    """They become NaN instead of another word's vector, so a wrong layout cannot look like a
    result."""
    tokens = np.array([3, 5, 0, 3, 3, 7, 0, 5])  # four distinct ones

    words = layers.distinct_words(jnp.ones((9, 4)), jnp.asarray(tokens), 3)
    projected = np.asarray(layers.project(words, jnp.ones((4, 2)), None))
    sums = np.asarray(layers.sum_of_tokens(words, Packing(jnp.full(4, 2), steps=2)))

    assert np.isnan(projected[tokens == 7]).all()
    assert_equal(projected[tokens != 7], 4.0)
    assert np.isnan(sums[1]).all()  # of 5 and 7: the slots are ordered by time, then by sentence
    assert_equal(np.delete(sums, 1, axis=0), 2.0)


def dropped(x, keys):
    """The outputs of two layers of dropout."""

    class Layers(nn.Module):
        @nn.compact
        def __call__(self, x):
            names = ("first", "second")
            return [layers.RowDropout(0.5, name=name)(x, keys) for name in names]

    return Layers().apply({}, x)


@pytest.fixture(scope="module")
def keys():
    return jax.vmap(jax.random.key)(jnp.arange(4))


def test_dropout_rescales_the_rest_and_is_of_training_alone(keys):
    x = jnp.ones((4, 6, 8))

    first, _ = dropped(x, keys)

    assert set(np.unique(first)) == {0.0, 2.0}
    assert 0.35 < float((first == 0).mean()) < 0.65
    assert_equal(dropped(x, None)[0], x)


def test_dropout_of_a_row_depends_on_the_layer_and_on_neither_length_nor_place_in_the_batch(keys):
    x = jnp.ones((4, 6, 8))

    first, second = dropped(x, keys)

    assert 0.3 < float((first != second).mean()) < 0.7
    assert_equal(dropped(x[:, :3], keys)[0], first[:, :3])
    assert_equal(dropped(x[::-1], keys[::-1])[0], first[::-1])


def test_dropout_of_a_pair_differs_between_its_sides(keys):
    batch = pair_batch([[0]] * 4, [[0]] * 4).replace(row_key=keys)

    keys_of_sentences = layers.sentence_keys(batch, 8)

    data = np.asarray(jax.random.key_data(keys_of_sentences))
    assert len(np.unique(data, axis=0)) == 8
