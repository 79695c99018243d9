"""Attention of pieces to those near them, without an array of all pairs of pieces (local layers of
ModernBERT, Warner et al. 2024).

A row is cut into blocks as long as a piece sees to one side. The queries of a block read the keys
of three blocks: the one before, their own and the one after.

Dimension letters: B pairs, N heads, T pieces, A size of a head, C blocks, W pieces of a block,
X = 3W keys that a block reads.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from mednli_jax.models.packing import MASKED_ENERGY

# Rows of fewer blocks gain little, or take longer than with all pairs of pieces (docs/log.md).
FEWEST_BLOCKS = 8


class Places(NamedTuple):
    """The places in a row of the queries [C, W, 1] and of the keys [C, 1, X] of each block; before
    the start and after the end of the row, too."""

    query: jax.Array
    key: jax.Array


def places(size: int, reach: int) -> Places:
    """Those of a row of `size` pieces that see others up to `reach` places away."""
    start_C11 = reach * jnp.arange(-(-size // reach))[:, None, None]
    return Places(start_C11 + jnp.arange(reach)[:, None], start_C11 + jnp.arange(-reach, 2 * reach))


def energies(q_BNTA: jax.Array, k_BNTA: jax.Array, bias_B11T: jax.Array, reach: int) -> jax.Array:
    """[B, N, C, W, X], the products of queries and keys plus the bias of the key; masked where the
    key is too far away or no piece of the row."""
    size = q_BNTA.shape[2]
    query, key = places(size, reach)
    is_read_CWX = (abs(query - key) <= reach) & (key >= 0) & (key < size)
    bias_B1C1X = _windows(jnp.swapaxes(bias_B11T, 2, 3), reach)[..., None, :, 0]
    products = _blocks(q_BNTA, reach) @ jnp.swapaxes(_windows(k_BNTA, reach), 3, 4)
    return jnp.where(is_read_CWX, products + bias_B1C1X, MASKED_ENERGY)


def weighted(weights_BNCWX: jax.Array, v_BNTA: jax.Array, reach: int) -> jax.Array:
    """[B, N, T, A], the sums of the values with these weights."""
    blocks_BNCWA = weights_BNCWX @ _windows(v_BNTA, reach)
    rows_BNTA = lax.collapse(blocks_BNCWA, 2, 4)
    return rows_BNTA[:, :, : v_BNTA.shape[2]]


def _blocks(x_BNTA: jax.Array, reach: int) -> jax.Array:
    """[B, N, C, W, A], with zeros after the end."""
    batch, heads, size, features = x_BNTA.shape
    padded = jnp.pad(x_BNTA, ((0, 0), (0, 0), (0, -size % reach), (0, 0)))
    return padded.reshape(batch, heads, -1, reach, features)


def _windows(x_BNTA: jax.Array, reach: int) -> jax.Array:
    """[B, N, C, X, A], the blocks beside one another; zeros before the start and after the end."""
    blocks_BNCWA = _blocks(x_BNTA, reach)
    wider = jnp.pad(blocks_BNCWA, ((0, 0), (0, 0), (1, 1), (0, 0), (0, 0)))
    return jnp.concatenate([wider[:, :, :-2], blocks_BNCWA, wider[:, :, 2:]], axis=3)
