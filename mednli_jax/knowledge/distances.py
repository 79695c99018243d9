"""Distances between concepts in an ontology's graph.

Two searches start from thousands of concepts (sources) at once, in graphs of millions of edges.
`climb` follows is-a edges upwards: few concepts lie above a source, so it keeps a sparse matrix of
sources and concepts. `_spread` follows edges both ways: almost every concept is reached, so it
keeps one bit for each source and concept.

Dimension letters: C concepts, E edges, M pairs, W words of 64 bits.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from mednli_jax.knowledge.ontology import Ontology, bool_matrix
from mednli_jax.terminal import Bar

DIRECTIONS = ("either", "undirected", "all")
UNREACHABLE = -1
LONGEST = np.iinfo(np.int16).max
# Bytes of one of the two arrays of bits of `_spread`: they limit the sources of one search.
BITS = 1 << 29
# Concepts whose neighbours' bits are gathered at once: they stay in the processor's cache.
BLOCK = 4096
SOURCES = 1 << 12  # of one search by `climb`


def shortest_paths(
    ontology: Ontology, pairs: np.ndarray, *, direction: str = "either", max_length: int = 0
) -> np.ndarray:
    """Finds the number of edges on the shortest path between the two concepts of each pair, with a
    progress bar if it takes long.

    Returns int16 [M]; UNREACHABLE if there is no path of at most `max_length` edges.

    Args:
      pairs: integers [M, 2] of concept indices.
      direction: "either" counts the is-a steps up from one concept to the other, its ancestor;
        "undirected" follows is-a edges both ways, so that siblings are at distance 2; "all" follows
        these and the edges of every other relation of the ontology both ways.
      max_length: longest path to look for; 0 for no limit.
    """
    distinct, inverse = _distinct_pairs(pairs)
    low, high = distinct.T
    with Bar("paths between concepts", 0, noun="concepts") as bar:
        if direction == "either":
            distance = _steps_up(ontology.parents, low, high, max_length, bar)
        else:
            graph = _both_ways(_walked_edges(ontology, direction), len(ontology))
            distance = _spread(graph, low, high, max_length, bar)
    return np.take(distance, inverse)


def _walked_edges(ontology: Ontology, direction: str) -> list[np.ndarray]:
    """The edges that a direction follows, a list of integers [2, E] of concepts; is-a (child,
    parent) stands first."""
    matrices = [ontology.parents]
    if direction == "all":
        matrices += ontology.relations.values()
    return [np.stack(matrix.nonzero()) for matrix in matrices]


def _distinct_pairs(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns (distinct unordered pairs (low, high), sorted [D, 2]; for each pair its row among
    them)."""
    pairs = np.sort(np.asarray(pairs, np.int64), axis=1)
    size = int(pairs.max(initial=0)) + 1
    keys, inverse = np.unique(pairs[:, 0] * size + pairs[:, 1], return_inverse=True)
    return np.stack(np.divmod(keys, size), axis=1), inverse


def climb(start: csr_array, parents: csr_array, max_length: int) -> Iterator[tuple[int, csr_array]]:
    """Yields (length, bool [R, C]: the concepts that each row reaches first after `length` is-a
    steps).

    start: bool [R, C]. max_length: longest path, 0 for no limit.
    """
    above = reached = start
    for length in range(1, (max_length or LONGEST) + 1):
        above = csr_array(above @ parents > reached)
        if not above.nnz:
            break
        yield length, above
        reached = csr_array(reached + above)


def _steps_up(
    parents: csr_array,
    low: np.ndarray,
    high: np.ndarray,
    max_length: int,
    bar: Bar,
) -> np.ndarray:
    """int16 [M], the is-a steps from one concept of each pair up to the other, its ancestor."""
    start, end = np.append(low, high), np.append(high, low)  # [2 M], both directions
    sources, source_of = np.unique(start, return_inverse=True)
    distance = np.where(start == end, 0, UNREACHABLE).astype(np.int16)
    for first in range(0, len(sources), SOURCES):
        chunk = sources[first : first + SOURCES]
        pairs = np.flatnonzero((first <= source_of) & (source_of < first + len(chunk)))
        place, target = source_of[pairs] - first, end[pairs]
        starts = bool_matrix(np.arange(len(chunk)), chunk, (len(chunk), parents.shape[0]))
        for length, above in climb(starts, parents, max_length):
            distance[pairs[above[place, target]]] = length
        bar.reach(first + len(chunk), len(sources))
    upwards, downwards = np.split(distance, 2)
    return np.maximum(upwards, downwards)  # at most one of them is reachable


def _both_ways(edges: Sequence[np.ndarray], size: int) -> csr_array:
    """The graph bool [C, C] of the edges [2, E] in both directions, with an edge from each concept
    to itself, by which it keeps its bits. Repeated edges become one."""
    loops = np.stack([np.arange(size)] * 2)
    turned = [edge[::-1] for edge in edges]
    source, target = np.concatenate([loops, *edges, *turned], axis=1)
    return csr_array((np.ones(len(source), bool), (source, target)), shape=(size, size))


def _spread(
    graph: csr_array, low: np.ndarray, high: np.ndarray, max_length: int, bar: Bar
) -> np.ndarray:
    """int16 [M], the steps between the concepts of each pair, along edges followed both ways."""
    distance = np.where(low == high, 0, UNREACHABLE).astype(np.int16)
    _, component = connected_components(graph, directed=False)
    connected = np.flatnonzero((low != high) & (component[low] == component[high]))
    if not len(connected):
        return distance
    sources, source_of = np.unique(low[connected], return_inverse=True)
    chunk_size = 64 * max(BITS // (8 * graph.shape[0]), 1)
    for first in range(0, len(sources), chunk_size):
        chunk = sources[first : first + chunk_size]
        inside = np.flatnonzero((first <= source_of) & (source_of < first + len(chunk)))
        pairs, place = connected[inside], source_of[inside] - first
        distance[pairs] = _steps(graph, chunk, place, high[pairs], max_length)
        bar.reach(first + len(chunk), len(sources))
    return distance


def _steps(
    graph: csr_array, sources: np.ndarray, place: np.ndarray, target: np.ndarray, max_length: int
) -> np.ndarray:
    """The steps from sources[place] to target, both [M], as int16 [M].

    One step ors the bits of a concept's neighbours into the bits of the concept, for all sources at
    once (Then et al. 2014, The more the merrier: efficient multi-source graph traversal, section
    3).
    """
    word_of_source, bit_of_source = np.divmod(np.arange(len(sources)), 64)
    bit_of_source = bit_of_source.astype(np.uint64)
    bits_CW = np.zeros((graph.shape[0], word_of_source[-1] + 1), np.uint64)
    bits_CW[sources, word_of_source] = np.uint64(1) << bit_of_source
    steps = np.full(len(target), UNREACHABLE, np.int16)
    waiting = np.arange(len(target))  # pairs whose length is not known yet
    word, bit = word_of_source[place], bit_of_source[place]  # of the waiting pairs
    for length in range(1, (max_length or LONGEST) + 1):
        # Only the bits of the targets are needed to see which pairs are of this length.
        targets, row = np.unique(target[waiting], return_inverse=True)
        bits = _next_bits(bits_CW, graph, targets)[row, word]
        arrived = (bits >> bit & np.uint64(1)).astype(bool)
        steps[waiting[arrived]] = length
        waiting, word, bit = waiting[~arrived], word[~arrived], bit[~arrived]
        if not len(waiting):
            break
        # Words whose sources have finished are left out.
        used, word = np.unique(word, return_inverse=True)
        if len(used) < bits_CW.shape[1]:
            bits_CW = bits_CW[:, used]
        bits_CW = _next_bits(bits_CW, graph, np.arange(graph.shape[0]))
    return steps


def _next_bits(bits_CW: np.ndarray, graph: csr_array, concepts: np.ndarray) -> np.ndarray:
    """uint64 [len(concepts), W]: the bits of these concepts, which are sorted, after one more
    step."""
    grown = np.empty((len(concepts), bits_CW.shape[1]), np.uint64)
    begins = graph.indptr[concepts]
    degrees = graph.indptr[concepts + 1] - begins
    for first in range(0, len(concepts), BLOCK):
        block = slice(first, first + BLOCK)
        degree = degrees[block]
        neighbours = graph.indices[ramps(begins[block], degree)]
        begin = np.cumsum(degree) - degree
        np.bitwise_or.reduceat(bits_CW[neighbours], begin, axis=0, out=grown[block])
    return grown


def ramps(first: np.ndarray | int, length: np.ndarray) -> np.ndarray:
    """Concatenates, for each entry, the `length` numbers from `first` on: [5, 8], [2, 1] -> [5, 6,
    8]."""
    end = np.cumsum(length, dtype=np.int64)
    return np.repeat(first - (end - length), length) + np.arange(end[-1] if len(end) else 0)
