"""Retrofitting: vectors are moved towards those of related words or concepts (Faruqui et al. 2015, section 2).

Each vector is drawn to its old place and to its neighbours: q_i = (alpha_i q^_i + sum_j beta_ij q_j) / (alpha_i +
sum_j beta_ij), with alpha_i = 1 and beta_ij = 1 / degree(i), ten rounds, each vector replaced in place.

MedNLI's published code (Romanov and Shivade 2018, 4.2.1) ran the published script over ids of concepts. That script
takes any word of a lexicon that has a digit for one and the same symbol. So no concept id has neighbours, and only the
lengths of the vectors change: `unit_rows` is what is left of it, a control. (It also writes ids in lower case, in which
MedNLI's code does not find them in its text: as both scripts stand, nothing changes at all.) Here words and ids stay
what they are, a lexicon that would move nothing is refused, and vectors keep their lengths.

Which words are neighbours: knowledge.related.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.io import Bar

_NORM_FLOOR = 1e-6  # added to a squared length, as in the published script: a row of zeros stays one
_COLUMNS = 64  # columns are independent: this many of all rows stay in the cache while their neighbours are gathered


def retrofit(vectors: np.ndarray, graph: csr_array, *, rounds: int = 10) -> np.ndarray:
    """Move vectors towards their neighbours' (Faruqui et al. 2015, eq. 2); returns new ones, float32 [V, D].

    Args:
      vectors: floats [V, D]; not changed.
      graph: bool [V, V] without a diagonal, each edge once; graph[i, j] says that j is a neighbour of i, which draws i,
        but not i to j. A row without neighbours keeps its vector.
      rounds: passes over all rows.

    Rows are visited in the order of their colour (`colours`), then of their number, so that all rows of a colour are
    one sparse product and each row still sees what was already moved in the same round. The published script visits
    words in the order of a hash table. All orders lead to the same vectors: a round at least halves the distance to
    them, so that after ten rounds of rows of length 1 two orders differ by less than .002.
    """
    degree = np.diff(graph.indptr).astype(np.float64)
    scale = 1 / np.where(degree > 0, degree, 1)
    total = 1 + scale * degree  # the denominator of eq. 2
    moved = degree > 0
    share = np.divide(1, total, out=np.ones(len(vectors)), where=moved)
    order, bounds = _order(graph, moved)
    steps = _steps(graph, np.divide(scale, total, out=np.zeros(len(vectors)), where=moved), order, bounds)
    return _run(np.asarray(vectors), share[order], order, steps, rounds)


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """float32 [V, D]: every row divided by its Euclidean length, as the published script does; zeros stay zeros."""
    lengths = np.sqrt(np.einsum("vd,vd->v", vectors, vectors, dtype=np.float64) + _NORM_FLOOR)
    return (vectors / lengths[:, None]).astype(np.float32)


def colours(graph: csr_array) -> np.ndarray:
    """int32 [V]: the smallest colour, in the order of rows, that no neighbour has, in either direction; 0 for none.

    Greedy and deterministic; at most one colour more than the largest number of neighbours.
    """
    graph = csr_array(graph, dtype=bool)
    both = csr_array(graph + graph.T)
    begins, neighbours = both.indptr.tolist(), both.indices.tolist()
    found = [-1] * graph.shape[0]
    for row, (begin, end) in enumerate(pairwise(begins)):
        taken = {found[other] for other in neighbours[begin:end]}
        colour = 0
        while colour in taken:
            colour += 1
        found[row] = colour
    return np.array(found, np.int32)


def _order(graph: csr_array, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row numbers [V] by colour, rows without neighbours last; where each colour begins, and after the last ends)."""
    colour = colours(graph)
    colour[~moved] = colour.max(initial=-1) + 1
    order = np.argsort(colour, kind="stable")
    return order, np.append(0, np.cumsum(np.bincount(colour[moved])))


def _steps(graph: csr_array, scale: np.ndarray, order: np.ndarray, bounds: np.ndarray) -> list:
    """One (begin, end, matrix [end - begin, V]) a colour: what the neighbours add, rows in the new order."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    sorted_rows = csr_array(graph[order], dtype=np.float32)
    sorted_rows.indices = place[sorted_rows.indices].astype(np.int32)
    sorted_rows.data = sorted_rows.data * np.repeat(scale[order], np.diff(sorted_rows.indptr)).astype(np.float32)
    return [(begin, end, sorted_rows[begin:end]) for begin, end in pairwise(bounds.tolist())]


def _run(vectors, share, order, steps, rounds: int) -> np.ndarray:
    """The rounds, a block of columns after the other, on all cores; `share` is in the new order."""
    share = share.astype(np.float32)[:, None]
    result = np.empty(vectors.shape, np.float32)
    blocks = -(-vectors.shape[1] // _COLUMNS)
    threads = max(min(os.cpu_count() or 1, blocks), 1)
    edges = np.linspace(0, vectors.shape[1], -(-blocks // threads) * threads + 1).astype(int).tolist()

    def fit(columns: tuple[int, int]) -> None:
        block = slice(*columns)
        current = np.take(vectors[:, block], order, axis=0).astype(np.float32)
        pull = current * share
        for _ in range(rounds):
            for begin, end, matrix in steps:
                current[begin:end] = matrix @ current
                current[begin:end] += pull[begin:end]
        result[order, block] = current

    parts = [part for part in pairwise(edges) if part[0] < part[1]]
    with ThreadPoolExecutor(threads) as pool, Bar("retrofitting", rounds * len(parts), unit="rounds") as bar:
        for _ in pool.map(fit, parts):
            bar.advance(rounds)
    return result
