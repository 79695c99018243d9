"""Attention of pretrained encoders in other forms than between all pieces: within windows (local
layers of ModernBERT, Warner et al. 2024), and disentangled (DeBERTa, He et al. 2021).

Dimension letters: B pairs, N heads, T pieces of a row, A size of a head. For windows: C blocks, W
pieces of a block, X = 3W keys that a block reads. For disentangled attention: U query positions
(the first of T), R = 2T + 1 places of a row relative to each other, from T after a piece to T
before it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mednli_jax.models.packing import MASKED_ENERGY

# Rows of fewer blocks gain little, or take longer than with all pairs of pieces (docs/log.md).
FEWEST_BLOCKS = 8
CONTENT_TO_POSITION, POSITION_TO_CONTENT = "c2p", "p2c"


# -- within windows --------------------------------------------------------------------------------
#
# A row is cut into blocks as long as a piece sees to one side. The queries of a block read the keys
# of three blocks: the one before, their own and the one after. There is no array of all pairs of
# pieces.


class WindowPlaces(NamedTuple):
    """The places in a row of the queries [C, W, 1] and of the keys [C, 1, X] of each block. Some
    lie before the start or after the end of the row."""

    query: jax.Array
    key: jax.Array


def window_places(size: int, reach: int) -> WindowPlaces:
    """The WindowPlaces of a row of `size` pieces, each of which sees others up to `reach` places
    away."""
    start_C11 = reach * jnp.arange(-(-size // reach))[:, None, None]
    return WindowPlaces(
        start_C11 + jnp.arange(reach)[:, None], start_C11 + jnp.arange(-reach, 2 * reach)
    )


def window_energies(
    q_BNTA: jax.Array, k_BNTA: jax.Array, bias_B11T: jax.Array, reach: int
) -> jax.Array:
    """The products of queries and keys plus the bias of the key, [B, N, C, W, X]; masked for a key
    that is too far away or is no piece of the row."""
    size = q_BNTA.shape[2]
    query, key = window_places(size, reach)
    is_read_CWX = (abs(query - key) <= reach) & (key >= 0) & (key < size)
    bias_B1C1X = _windows(jnp.swapaxes(bias_B11T, 2, 3), reach)[..., None, :, 0]
    products = _blocks(q_BNTA, reach) @ jnp.swapaxes(_windows(k_BNTA, reach), 3, 4)
    return jnp.where(is_read_CWX, products + bias_B1C1X, MASKED_ENERGY)


def window_sums(weights_BNCWX: jax.Array, v_BNTA: jax.Array, reach: int) -> jax.Array:
    """The sums of the values with these weights, [B, N, T, A]."""
    blocks_BNCWA = weights_BNCWX @ _windows(v_BNTA, reach)
    rows_BNTA = lax.collapse(blocks_BNCWA, 2, 4)
    return rows_BNTA[:, :, : v_BNTA.shape[2]]


def _blocks(x_BNTA: jax.Array, reach: int) -> jax.Array:
    """The row cut into blocks, [B, N, C, W, A], with zeros after the end."""
    batch, heads, size, features = x_BNTA.shape
    padded = jnp.pad(x_BNTA, ((0, 0), (0, 0), (0, -size % reach), (0, 0)))
    return padded.reshape(batch, heads, -1, reach, features)


def _windows(x_BNTA: jax.Array, reach: int) -> jax.Array:
    """The keys that each block reads, [B, N, C, X, A]: the block and its neighbours, with zeros
    before the start and after the end of the row."""
    blocks_BNCWA = _blocks(x_BNTA, reach)
    wider = jnp.pad(blocks_BNCWA, ((0, 0), (0, 0), (1, 1), (0, 0), (0, 0)))
    return jnp.concatenate([wider[:, :, :-2], blocks_BNCWA, wider[:, :, 2:]], axis=3)


# -- disentangled: section 3.1 of He et al. 2021 ---------------------------------------------------
#
# A score has terms of the content of one piece and the place of the other relative to it.


class Relative(NamedTuple):
    """Projections [N, R, A] of the places of a row relative to each other; None for a term of the
    scores that the model lacks. query_NRA is scaled."""

    query_NRA: jax.Array | None
    key_NRA: jax.Array | None

    def scores(self, q_BNUA: jax.Array, k_BNTA: jax.Array) -> jax.Array:
        """The terms of relative places in the attention scores, [B, N, U, T]. q_BNUA is scaled."""
        queries = q_BNUA.shape[2]
        scores_BNUT = jnp.zeros((), q_BNUA.dtype)
        if self.key_NRA is not None:
            scores_BNUT = scores_BNUT + content_to_position(q_BNUA, self.key_NRA)
        if self.query_NRA is not None:
            scores_BNUT = scores_BNUT + position_to_content(k_BNTA, self.query_NRA, queries)
        return scores_BNUT


def bucket_of(distance: np.ndarray, buckets: int, longest: int) -> np.ndarray:
    """The row of each distance in the table of relative positions, which has 2 `span` rows.

    Distances up to half of the buckets have a row each, others share rows by their logarithm, up to
    the distance longest - 1. With 0 buckets each distance up to `longest` has a row.

    distance: from a key to a query, positive if the query stands after the key.
    """
    span = buckets or longest
    if buckets:
        distance = _logarithmic(distance, buckets, longest)
    return np.asarray(np.clip(distance + span, 0, 2 * span - 1))


def _logarithmic(distance: np.ndarray, buckets: int, longest: int) -> np.ndarray:
    """The distances, with the number of its bucket for each beyond half of the buckets."""
    half = buckets // 2
    # In 32 bits, as in the published code: rounding decides some buckets.
    far = np.maximum(abs(distance), half).astype(np.float32)
    share = np.log(far / half) / np.log(np.float32((longest - 1) / half))
    bucket = np.ceil(share * (half - 1)).astype(int) + half
    return np.where(abs(distance) <= half, distance, np.sign(distance) * bucket)


def relative_rows(size: int, buckets: int, longest: int) -> np.ndarray:
    """int [R], the rows of the table for a row of `size` pieces."""
    return bucket_of(np.arange(size, -size - 1, -1), buckets, longest)


def content_to_position(q_BNUA: jax.Array, key_NRA: jax.Array) -> jax.Array:
    """The products of each query with the key of the relative place, [B, N, U, T]."""
    queries, pieces = q_BNUA.shape[2], key_NRA.shape[1] // 2
    key_NRA = key_NRA[:, pieces - queries + 1 :]  # from U - 1 after the first piece
    return align(q_BNUA @ jnp.swapaxes(key_NRA, 1, 2))


def position_to_content(k_BNTA: jax.Array, query_NRA: jax.Array, queries: int) -> jax.Array:
    """The products of each key with the query of the relative place, [B, N, U, T]; U =
    `queries`."""
    pieces = k_BNTA.shape[2]
    query_NRA = query_NRA[:, pieces - queries : -1][:, ::-1]  # from T - 1 before the first query
    return jnp.swapaxes(align(k_BNTA @ jnp.swapaxes(query_NRA, 1, 2)), 2, 3)


def align(scores: jax.Array) -> jax.Array:
    """Selects from scores [..., r, r + c] of relative places those of each pair of pieces, [..., r,
    c]: the entry i, j is the score of the place j - i + r - 1.

    Each row begins one place before the row above, so that in memory the entries of the result are
    rows that are shorter by one. A gather is several times as slow (Dai et al. 2019, appendix B).
    """
    *batch, rows, places = scores.shape
    flat = scores.reshape(*batch, rows * places)
    shorter = flat[..., rows - 1 : rows - 1 + rows * (places - 1)]
    return shorter.reshape(*batch, rows, places - 1)[..., : places - rows]
