"""Local attention in blocks against scores of all pairs of pieces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mednli_jax.models import windows
from mednli_jax.models.packing import MASKED_ENERGY

ROWS = 2
HEADS = 3
FEATURES = 4


@pytest.mark.parametrize(("size", "reach"), [(12, 4), (13, 4), (5, 1), (7, 9)])
def test_blocks_attend_as_all_pairs_of_pieces_do(size, reach):
    """Sizes that are a multiple of the reach or not; the second row is shorter."""
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, ROWS, HEADS, size, FEATURES)).astype(np.float32)
    bias = np.zeros((ROWS, 1, 1, size), np.float32)
    bias[1, :, :, size - 2 :] = MASKED_ENERGY
    is_near = abs(np.arange(size)[:, None] - np.arange(size)) <= reach
    scores = np.where(is_near, q @ np.swapaxes(k, 2, 3) + bias, MASKED_ENERGY)
    expected = np.asarray(jax.nn.softmax(jnp.asarray(scores)) @ v)

    energies = windows.energies(q, k, bias, reach)
    attended = windows.weighted(jax.nn.softmax(energies), v, reach)

    assert energies.shape[-2:] == (reach, 3 * reach)
    np.testing.assert_allclose(attended[0], expected[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(attended[1, :, :-2], expected[1, :, :-2], rtol=0, atol=1e-5)
