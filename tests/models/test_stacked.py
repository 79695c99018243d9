"""The loops for GPUs, run on this machine, give what the loops of other devices give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.trees import assert_near

from mednli_jax.data.batching import pack_segments
from mednli_jax.models import layers
from mednli_jax.models.packing import Packing

SIZE = 5
DIM = 7
# Its segments have several iterations of the loop and a remainder.
RAGGED = [15, 5, 15, 0, 6, 0]


def fitted(lengths, least_rows=1):
    steps = np.arange(max(*lengths, 1))
    return pack_segments((np.array(lengths)[:, None] > steps).sum(axis=0), least_rows)


def states_and_gradients(platform, cell, lengths, segments, seeds):
    """[S, ...]: the states, and the gradients of a weighted sum of them by parameters and
    inputs."""
    model = layers.BiRNN(SIZE, cell, platform=platform)
    packing = Packing(jnp.asarray(lengths, jnp.int32), segments, steps=max(lengths))

    def of_seed(seed):
        key_x, key_weight, key_params = jax.random.split(jax.random.key(seed), 3)
        x = jax.random.normal(key_x, (packing.size, DIM))
        weight = jax.random.normal(key_weight, (packing.size, 2 * SIZE))
        params = model.init(key_params, x, packing)

        def weighted_sum(params, x):
            states = model.apply(params, x, packing)
            return jnp.sum(weight * states), states

        gradients, states = jax.grad(weighted_sum, (0, 1), has_aux=True)(params, x)
        return states, gradients

    seeds = jnp.arange(seeds)
    return jax.jit(jax.vmap(of_seed) if len(seeds) > 1 else lambda seeds: of_seed(seeds[0]))(seeds)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(
    "lengths, segments, seeds",
    [
        pytest.param(RAGGED, fitted(RAGGED), 2, id="fitted, two seeds"),
        pytest.param(RAGGED, None, 1, id="full", marks=pytest.mark.slow),
        pytest.param(RAGGED, fitted(RAGGED, 3), 1, id="three rows", marks=pytest.mark.slow),
        pytest.param([0, 0], fitted([0, 0]), 1, id="empty", marks=pytest.mark.slow),
    ],
)
def test_recurrent_loops_for_gpus_equal_those_for_other_devices(cell, lengths, segments, seeds):
    expected, stacked = (
        states_and_gradients(platform, cell, lengths, segments, seeds)
        for platform in ("cpu", "gpu")
    )

    assert_near(stacked, expected, rtol=1e-5, atol=2e-6)


def test_a_least_number_of_rows_widens_the_segments_to_all_sentences():
    profile = np.array([8, 5, 2, 1])

    assert pack_segments(profile) != pack_segments(profile, 256) == ((4, 8),)
