"""Disentangled attention of DeBERTa (He et al. 2021, section 3.1): a score has terms of the content
of one piece and the place of the other relative to it.

Dimension letters: B pairs, N heads, U query positions (the first of T), T pieces of a row, A size
of a head, R = 2T + 1 places of a row relative to each other, from T after a piece to T before it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

CONTENT_TO_POSITION, POSITION_TO_CONTENT = "c2p", "p2c"


class Relative(NamedTuple):
    """Projections [N, R, A] of the places of a row relative to each other; None without the term of
    the scores that reads them. query_NRA is scaled."""

    query_NRA: jax.Array | None
    key_NRA: jax.Array | None

    def scores(self, q_BNUA: jax.Array, k_BNTA: jax.Array) -> jax.Array:
        """[B, N, U, T], the terms of relative places. q_BNUA is scaled."""
        queries = q_BNUA.shape[2]
        scores_BNUT = jnp.zeros((), q_BNUA.dtype)
        if self.key_NRA is not None:
            scores_BNUT = scores_BNUT + content_to_position(q_BNUA, self.key_NRA)
        if self.query_NRA is not None:
            scores_BNUT = scores_BNUT + position_to_content(k_BNTA, self.query_NRA, queries)
        return scores_BNUT


def bucket_of(distance: np.ndarray, buckets: int, longest: int) -> np.ndarray:
    """Rows of the table of relative positions, which has 2 `span` rows.

    Distances up to half of the buckets have a row each, others share rows by their logarithm, up to
    the distance longest - 1. With 0 buckets each distance up to `longest` has a row.

    Args:
      distance: of a query from a key, positive where the query stands after it.
    """
    span = buckets or longest
    if buckets:
        distance = _logarithmic(distance, buckets, longest)
    row: np.ndarray = np.clip(distance + span, 0, 2 * span - 1)
    return row


def _logarithmic(distance: np.ndarray, buckets: int, longest: int) -> np.ndarray:
    """Distances with those beyond half of the buckets replaced by the numbers of their buckets."""
    half = buckets // 2
    # In 32 bits, as in the published code: rounding decides some buckets.
    far = np.maximum(abs(distance), half).astype(np.float32)
    share = np.log(far / half) / np.log(np.float32((longest - 1) / half))
    bucket = np.ceil(share * (half - 1)).astype(int) + half
    return np.where(abs(distance) <= half, distance, np.sign(distance) * bucket)


def relative_rows(size: int, buckets: int, longest: int) -> np.ndarray:
    """[R], the rows of the table for a row of `size` pieces."""
    return bucket_of(np.arange(size, -size - 1, -1), buckets, longest)


def content_to_position(q_BNUA: jax.Array, key_NRA: jax.Array) -> jax.Array:
    """[B, N, U, T]: each query times the key of the place of the other piece."""
    queries, pieces = q_BNUA.shape[2], key_NRA.shape[1] // 2
    key_NRA = key_NRA[:, pieces - queries + 1 :]  # from U - 1 after the first piece
    return aligned(q_BNUA @ jnp.swapaxes(key_NRA, 1, 2))


def position_to_content(k_BNTA: jax.Array, query_NRA: jax.Array, queries: int) -> jax.Array:
    """[B, N, U, T]: each key times the query of the place of the other piece; U = `queries`."""
    pieces = k_BNTA.shape[2]
    query_NRA = query_NRA[:, pieces - queries : -1][:, ::-1]  # from T - 1 before the first query
    return jnp.swapaxes(aligned(k_BNTA @ jnp.swapaxes(query_NRA, 1, 2)), 2, 3)


def aligned(scores: jax.Array) -> jax.Array:
    """[..., r, c] from scores [..., r, r + c] of relative places: the entry i, j is that of the
    place j - i + r - 1.

    Each row begins one place before the row above, so that in memory the entries of the result are
    rows that are shorter by one. A gather is several times as slow (Dai et al. 2019, appendix B).
    """
    *batch, rows, places = scores.shape
    flat = scores.reshape(*batch, rows * places)
    shorter = flat[..., rows - 1 : rows - 1 + rows * (places - 1)]
    return shorter.reshape(*batch, rows, places - 1)[..., : places - rows]
