"""Breadth-first search from thousands of concepts at once, in graphs of millions of edges.

`climb` follows is-a edges upwards, where few concepts lie ahead: it keeps lists of (source, concept).
`spread` walks both ways, where almost every concept lies ahead: it keeps one bit for each source and concept.
Both take distinct pairs of concepts and give the numbers of edges between them. C concepts, M pairs, E edges.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, reverse_cuthill_mckee

from mednli_jax.knowledge.bits import Graph, Spread, ramps

UNREACHABLE = -1
LONGEST = np.iinfo(np.int16).max
_TABLE = 1 << 22  # entries of the table of what `climb` has seen: 4 MiB
_WORDS = 128  # of 64 sources that `spread` takes at once
_BITS = 1 << 29  # bytes of bits that `spread` holds, twice
_ROUNDS = 20  # more would leave out few more sources

Progress = Callable[[int, int], None]  # called with how many sources have finished, and of how many


def climb(
    parents: csr_array, low: np.ndarray, high: np.ndarray, max_length: int, progress: Progress | None = None
) -> np.ndarray:
    """Steps up from one concept of each pair to the other, int16 [M]; parents [C, C] without cycles.

    low, high: int64 [M], sorted by (low, high), low <= high, each pair once; whichever of the two is the ancestor.
    max_length: of the paths, or 0 for no limit. UNREACHABLE where there is no path.
    """
    pairs = low * parents.shape[0] + high
    distance = np.where(low == high, 0, UNREACHABLE).astype(np.int16)
    is_end = np.zeros(parents.shape[0], bool)
    is_end[low] = is_end[high] = True
    sources = np.flatnonzero(is_end)
    concepts = _upwards(parents, is_end)
    graph = _induced(parents, concepts)
    start, chunk = np.searchsorted(concepts, sources), max(_TABLE // max(len(concepts), 1), 1)
    seen = np.empty(min(chunk, len(sources)) * len(concepts), bool)
    for done in range(0, len(sources), chunk):
        found = _ancestors(*graph, is_end[concepts], start[done : done + chunk], max_length or LONGEST, seen)
        for length, (slot, node) in enumerate(found, 1):
            one, other = sources[done + slot], concepts[node]
            key = np.minimum(one, other) * parents.shape[0] + np.maximum(one, other)
            place = np.minimum(np.searchsorted(pairs, key), len(pairs) - 1)
            wanted = pairs[place] == key
            distance[place[wanted]] = length
        if progress:
            progress(min(done + chunk, len(sources)), len(sources))
    return distance


def _upwards(parents: csr_array, chosen: np.ndarray) -> np.ndarray:
    """int64: the chosen concepts (bool [C]) and all above them, sorted."""
    found, ahead = chosen.copy(), np.flatnonzero(chosen)
    while len(ahead):
        above = _rows(parents.indptr, parents.indices, ahead)
        above = above[~found[above]]
        found[above] = True
        ahead = np.unique(above)
    return np.flatnonzero(found)


def _induced(graph: csr_array, concepts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first, degree, neighbours) of the graph among some concepts, numbered by their place in `concepts`."""
    kept = np.zeros(graph.shape[0], bool)
    kept[concepts] = True
    number = np.cumsum(kept) - 1
    number[concepts] = np.arange(len(concepts))  # in any order
    degree = np.diff(graph.indptr)[concepts].astype(np.int64)
    neighbours = _rows(graph.indptr, graph.indices, concepts)
    inside = kept[neighbours]
    if not inside.all():
        row = np.repeat(np.arange(len(concepts)), degree)
        degree = np.bincount(row[inside], minlength=len(concepts))
        neighbours = neighbours[inside]
    return np.cumsum(degree) - degree, degree, number[neighbours]


def _ancestors(first, degree, above, is_end, start, longest, seen) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(slot, node), int64: the ends that are 1, 2, ... steps above start[slot]; seen: bool to work in."""
    size = len(degree)
    seen[: len(start) * size] = False
    key, node = np.arange(len(start)) * size + start, start
    for _ in range(longest):
        ways = degree[node]
        key = np.repeat(key - node, ways) + above[ramps(first[node], ways)]
        key = np.sort(key[~seen[key]])
        if not len(key):
            return
        key = key[np.append(True, key[1:] != key[:-1])]
        seen[key] = True
        slot, node = np.divmod(key, size)
        ends = is_end[node]
        yield slot[ends], node[ends]


def _rows(indptr, indices, rows) -> np.ndarray:
    """The entries of some rows of a sparse matrix, one row after the other."""
    return indices[ramps(indptr[rows], indptr[rows + 1] - indptr[rows])]


# ---- both ways ----


def spread(
    size: int,
    edges: Sequence[np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    max_length: int,
    progress: Progress | None = None,
) -> np.ndarray:
    """Steps between the concepts of each pair along edges walked either way, int16 [M].

    size: C. edges: integers [2, E] of concepts, several such arrays. low, high: int64 [M]. max_length as in `climb`.

    One step ors the bits of a concept's neighbours into those of the concept, for all sources at once (Then et al.
    2014, The more the merrier: efficient multi-source graph traversal). Concepts that lie on no way between others are
    left out, and the others stand in breadth-first order, so that neighbours lie near each other in memory. Few
    concepts are sources, of which every pair has one; they stand by how far they will have to go, so that the long ways
    are left to
    few words of bits. The last steps of a pair are made around its ends alone; and a pair that no shorter way joins is
    settled by one over a landmark, a concept with very many neighbours, as most shortest ways lead over some of them.
    """
    distance = np.where(low == high, 0, UNREACHABLE).astype(np.int16)
    joined = np.flatnonzero(low != high)
    if not len(joined):
        return distance
    matrix = _both_ways(size, edges)
    order, towards = breadth_first_order(matrix, np.argmax(np.diff(matrix.indptr)))
    if len(order) < size:
        order, joined = _connected(matrix, order, joined, low, high)
        if not len(joined):
            return distance
    low, high = low[joined], high[joined]
    is_end = np.zeros(size, bool)
    is_end[low] = is_end[high] = True
    concepts = order[_between(matrix, is_end)[order]]
    number = np.zeros(size, np.int64)
    number[concepts] = np.arange(len(concepts))
    sources, slot, target = _assigned(_remoteness(matrix, towards, np.flatnonzero(is_end)), low, high)
    sources, target = number[sources], number[target]
    words = int(np.clip(_BITS // (8 * len(concepts)), 1, min(_WORDS, -(-len(sources) // 64))))
    search = Spread(Graph(*_induced(matrix, concepts)))
    for done in range(0, len(sources), 64 * words):
        pairs = np.flatnonzero((done <= slot) & (slot < done + 64 * words))
        search.begin(sources[done : done + 64 * words], slot[pairs] - done, target[pairs])
        for length, arrived in search.arrivals(max_length or LONGEST):
            distance[joined[pairs[arrived]]] = length
            if progress:
                progress(done + search.finished, len(sources))
        if progress:
            progress(min(done + 64 * words, len(sources)), len(sources))
    return distance


def _both_ways(size: int, edges: Sequence[np.ndarray]) -> csr_array:
    """Float64 ones [C, C], an edge each way for each edge, once."""
    source, target = np.concatenate([np.zeros((2, 0), np.int64), *edges], axis=1)
    keys = np.concatenate([source * size + target, target * size + source])
    keys.sort()
    keys = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
    row, column = np.divmod(keys, size)
    first = np.append(0, np.cumsum(np.bincount(row, minlength=size)))
    return csr_array((np.ones(len(keys)), column.astype(np.int32), first.astype(np.int32)), shape=(size, size))


def _connected(
    matrix: csr_array, reached: np.ndarray, pairs: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(concepts, pairs): those of the pairs that are connected, and all concepts that these can meet.

    reached: the concepts that one search found, in its order. pairs: places in low and high.
    """
    found = np.zeros(matrix.shape[0], bool)
    found[reached] = True
    if (found[low[pairs]] & found[high[pairs]]).all():
        return reached, pairs
    _, component = connected_components(matrix, directed=False)
    pairs = pairs[component[low[pairs]] == component[high[pairs]]]
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    return order[np.isin(component[order], component[low[pairs]])], pairs


def _remoteness(matrix: csr_array, towards: np.ndarray, concepts: np.ndarray) -> np.ndarray:
    """A guess, float [C]: two concepts are about as far apart as the sum of their numbers. It only orders the search.

    towards: [C] the next concept on the way to the centre, negative there and where there is no way. The guess is the
    number of steps to the centre, less a little where many ways begin; 0 but for `concepts`.
    """
    steps, here = np.zeros(len(concepts)), concepts
    for _ in range(100):
        ahead = towards[here]
        on = ahead >= 0
        if not on.any():
            break
        here = np.where(on, ahead, here)
        steps += on
    guess = np.zeros(matrix.shape[0])
    guess[concepts] = steps - 0.1 * np.log2((matrix @ np.diff(matrix.indptr))[concepts] + 1)
    return guess


def _assigned(remoteness: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sources [S], slot [M], target [M]): pair m leads from sources[slot[m]] to target[m].

    Few sources, and those of the farthest targets first.
    """
    partners = np.bincount(np.append(low, high), minlength=len(remoteness))
    taken = _cover(partners, low, high)
    from_low = taken[low] & (~taken[high] | (partners[low] >= partners[high]))
    sources, slot = np.unique(np.where(from_low, low, high), return_inverse=True)
    farthest = np.full(len(sources), -np.inf)
    np.maximum.at(farthest, slot, remoteness[low] + remoteness[high])
    order = np.argsort(-farthest, kind="stable")
    return sources[order], np.argsort(order)[slot], np.where(from_low, high, low)


def _cover(partners: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """bool [C]: few concepts of which every pair has one. partners: int [C], of how many pairs a concept is an end.

    The others share no pair: who has fewer partners than each of them has is left out, and they are taken; then again
    with the pairs that are left.
    """
    rank, taken = np.argsort(np.argsort(partners, kind="stable")), np.zeros(len(partners), bool)
    for _ in range(_ROUNDS):
        if not len(low):
            break
        least = np.full(len(partners), len(partners))
        np.minimum.at(least, low, rank[high])
        np.minimum.at(least, high, rank[low])
        taken[high[rank[low] < least[low]]] = True
        taken[low[rank[high] < least[high]]] = True
        rest = ~(taken[low] | taken[high])
        low, high = low[rest], high[rest]
    taken[low] = True
    return taken


def _between(matrix: csr_array, is_end: np.ndarray) -> np.ndarray:
    """bool [C]: without concepts that have one neighbour only, unless they are ends; again while it is worth it."""
    kept, degree = np.ones(len(is_end), bool), np.diff(matrix.indptr)
    while True:
        leaves = np.flatnonzero(kept & (degree < 2) & ~is_end)
        if len(leaves) <= len(kept) // 100:
            return kept
        kept[leaves] = False
        degree = degree - np.bincount(_rows(matrix.indptr, matrix.indices, leaves), minlength=len(kept))
