"""Breadth-first search from thousands of concepts at once, in graphs of millions of edges.

`climb` follows is-a edges upwards. Few concepts lie above a source, so it keeps lists of (source, concept).
`spread` follows edges both ways. Almost every concept is reached, so it keeps one bit for each source and concept.
Dimension letters: C concepts, E edges, M pairs, S sources, W words of 64 bits.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

UNREACHABLE = -1
LONGEST = np.iinfo(np.int16).max
BITS = 1 << 29  # bytes of bits that `spread` holds, twice: the number of sources that it searches from at once
BLOCK = 4096  # concepts whose neighbours' bits are gathered at once: they stay in the processor's cache
TABLE = 1 << 24  # bytes of the table in which `climb` marks what it has seen

Progress = Callable[[int, int], None]  # called with the number of sources that have finished, and of all sources


def climb(
    parents: csr_array, low: np.ndarray, high: np.ndarray, max_length: int, progress: Progress | None = None
) -> np.ndarray:
    """Counts the is-a steps from one concept of each pair up to the other, whichever of the two is the ancestor.

    Args:
      parents: [C, C], row child, column parent, without cycles.
      low, high: int64 [M], sorted by (low, high), low <= high, each pair once.
      max_length: longest path in edges; 0 for no limit.

    Returns:
      int16 [M]; UNREACHABLE where there is no path.
    """
    size = parents.shape[0]
    pairs = low * size + high
    distance = np.where(low == high, 0, UNREACHABLE).astype(np.int16)
    sources = np.unique([low, high])
    chunk = max(TABLE // size, 1)
    for done in range(0, len(sources), chunk):
        taken = sources[done : done + chunk]
        seen = np.zeros((len(taken), size), bool)
        slot, concept = np.arange(len(taken)), taken
        for length in range(1, (max_length or LONGEST) + 1):
            degree = np.diff(parents.indptr)[concept]
            slot, concept = np.repeat(slot, degree), parents.indices[ramps(parents.indptr[concept], degree)]
            slot, concept = np.divmod(np.unique(slot * size + concept), size)
            new = ~seen[slot, concept]
            slot, concept = slot[new], concept[new]
            if not len(slot):
                break
            seen[slot, concept] = True
            ends = taken[slot]
            key = np.minimum(ends, concept) * size + np.maximum(ends, concept)
            place = np.minimum(np.searchsorted(pairs, key), len(pairs) - 1)
            wanted = pairs[place] == key
            distance[place[wanted]] = length
        if progress:
            progress(min(done + chunk, len(sources)), len(sources))
    return distance


def spread(
    size: int,
    edges: Sequence[np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    max_length: int,
    progress: Progress | None = None,
) -> np.ndarray:
    """Counts the steps between the concepts of each pair, along edges followed both ways.

    One step ors the bits of a concept's neighbours into the bits of the concept, for all sources at once (Then et al.
    2014, The more the merrier: efficient multi-source graph traversal, section 3).

    Args:
      size: C.
      edges: integer arrays [2, E] of concepts.
      low, high: int64 [M], each pair once.
      max_length: longest path in edges; 0 for no limit.

    Returns:
      int16 [M]; UNREACHABLE where there is no path.
    """
    distance = np.where(low == high, 0, UNREACHABLE).astype(np.int16)
    graph = _both_ways(size, edges)
    _, component = connected_components(graph, directed=False)
    pairs = np.flatnonzero((low != high) & (component[low] == component[high]))
    if not len(pairs):
        return distance
    concepts = _between(graph, np.append(low[pairs], high[pairs]))
    number = np.cumsum(concepts) - 1
    low, high = number[low[pairs]], number[high[pairs]]
    graph, size = graph[concepts][:, concepts], int(concepts.sum())
    # The search starts at the concept with more pairs: this makes fewer sources.
    count = np.bincount(np.append(low, high), minlength=size)
    swapped = count[high] > count[low]
    sources, slot = np.unique(np.where(swapped, high, low), return_inverse=True)
    targets = np.where(swapped, low, high)
    chunk = 64 * max(BITS // (8 * size), 1)
    for done in range(0, len(sources), chunk):
        taken = sources[done : done + chunk]
        word, bit = np.divmod(np.arange(len(taken)), 64)
        bits = np.zeros((size, word[-1] + 1), np.uint64)
        bits[taken, word] = np.uint64(1) << bit.astype(np.uint64)
        opened = np.flatnonzero((done <= slot) & (slot < done + len(taken)))  # pairs whose length is not known yet
        word, bit = word[slot[opened] - done], bit[slot[opened] - done].astype(np.uint64)
        for length in range(1, (max_length or LONGEST) + 1):
            # Only the bits of the targets are needed to see which pairs are of this length.
            rows, row = np.unique(targets[opened], return_inverse=True)
            arrived = (_grown(bits, graph, rows)[row, word] >> bit & np.uint64(1)).astype(bool)
            distance[pairs[opened[arrived]]] = length
            opened, word, bit = opened[~arrived], word[~arrived], bit[~arrived]
            if not len(opened):
                break
            used, word = np.unique(word, return_inverse=True)  # words whose sources have finished are left out
            bits = _grown(bits[:, used] if len(used) < bits.shape[1] else bits, graph, np.arange(size))
        if progress:
            progress(min(done + chunk, len(sources)), len(sources))
    return distance


def _both_ways(size: int, edges: Sequence[np.ndarray]) -> csr_array:
    """bool [C, C]: each edge both ways, and one from each concept to itself, by which it keeps its bits."""
    itself = np.stack([np.arange(size)] * 2)
    source, target = np.concatenate([itself, *edges, *(edge[::-1] for edge in edges)], axis=1)
    return csr_array((np.ones(len(source), bool), (source, target)), shape=(size, size))  # repeated edges become one


def _between(graph: csr_array, ends: np.ndarray) -> np.ndarray:
    """bool [C]: the concepts without dead ends. A concept with one neighbour is on no path between two others."""
    kept = np.ones(graph.shape[0], bool)
    is_end = np.zeros(graph.shape[0], bool)
    is_end[ends] = True
    while True:
        degree = graph @ kept.astype(np.int32)  # with the concept itself
        dead = kept & (degree <= 2) & ~is_end
        if not dead.any():
            return kept
        kept[dead] = False


def _grown(bits: np.ndarray, graph: csr_array, rows: np.ndarray) -> np.ndarray:
    """uint64 [rows, W]: the bits of some concepts (sorted) after one more step. bits: uint64 [C, W]."""
    grown = np.empty((len(rows), bits.shape[1]), np.uint64)
    first, degree = graph.indptr[rows], np.diff(graph.indptr)[rows]
    for done in range(0, len(rows), BLOCK):
        lengths = degree[done : done + BLOCK]
        gathered = bits[graph.indices[ramps(first[done : done + BLOCK], lengths)]]
        np.bitwise_or.reduceat(gathered, np.cumsum(lengths) - lengths, axis=0, out=grown[done : done + len(lengths)])
    return grown


def ramps(first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """first, first + 1, ... `length` times for each entry: [5, 8], [2, 1] -> [5, 6, 8]."""
    end = np.cumsum(length, dtype=np.int64)
    return np.repeat(first - (end - length), length) + np.arange(end[-1] if len(end) else 0)
