"""The loops for GPUs, run on this machine, give what the loops of other devices give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mednli_jax.data.batching import staircase
from mednli_jax.models import layers
from mednli_jax.models.packing import Packing

SIZE, DIM = 5, 7
# segments with several iterations of the loop and a remainder
LENGTHS = {"ragged": [15, 5, 15, 0, 6, 0], "empty": [0, 0]}


def profile(lengths):
    return np.array([(np.array(lengths) > t).sum() for t in range(max(*lengths, 1))])


def segments_of(lengths, which):
    """A staircase as batches have it: fitted, none, or with at least three sentences."""
    return None if which == "full" else staircase(profile(lengths), 3 if which == "floor" else 1)


def outcome(platform, cell, lengths, segments, seeds=1):
    """States, and gradients of a weighted sum of them by parameters and inputs; seeds add a leading
    axis."""
    model = layers.BiRNN(SIZE, cell, platform=platform)
    length = jnp.asarray(lengths, jnp.int32)
    packing = Packing(length, segments, steps=max(lengths))

    def one(seed):
        key_x, key_weight, key_params = jax.random.split(jax.random.key(seed), 3)
        x = jax.random.normal(key_x, (packing.size, DIM))
        weight = jax.random.normal(key_weight, (packing.size, 2 * SIZE))
        params = model.init(key_params, x, packing)
        states = model.apply(params, x, packing)
        return states, jax.grad(lambda p, x: jnp.sum(weight * model.apply(p, x, packing)), (0, 1))(
            params, x
        )

    return jax.jit(one)(0) if seeds == 1 else jax.jit(jax.vmap(one))(jnp.arange(seeds))


CASES = [("ragged", "full", 1), ("ragged", "floor", 1), ("empty", "segments", 1)]
CASES = [
    ("ragged", "segments", 2),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES),
]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(("name", "which", "seeds"), CASES)
def test_stacked_loops_equal_the_others(name, which, seeds, cell):
    lengths = LENGTHS[name]
    segments = segments_of(lengths, which)
    expected, found = (
        outcome(platform, cell, lengths, segments, seeds) for platform in ("cpu", "gpu")
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(b, a, rtol=1e-5, atol=2e-6), expected, found
    )


def test_a_floor_widens_a_staircase_to_what_there_is():
    assert staircase(np.array([8, 5, 2, 1])) != staircase(np.array([8, 5, 2, 1]), 256) == ((4, 8),)
