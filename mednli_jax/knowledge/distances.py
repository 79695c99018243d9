"""Distances in an ontology's graph: between concepts, and from there between tokens of a premise
and a hypothesis.

Two searches start from thousands of concepts at once, in graphs of millions of edges. `_climb`
follows is-a edges upwards: few concepts lie above a source, so it keeps a sparse matrix of sources
and concepts. `_spread` follows edges both ways: almost every concept is reached, so it keeps one
bit for each source and concept. Dimension letters: C concepts, E edges, M pairs, W words of 64
bits.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from mednli_jax.data.cache import kept
from mednli_jax.data.examples import Mention
from mednli_jax.knowledge.ontology import Ontology, bool_matrix

DIRECTIONS = ("either", "undirected", "all")
UNREACHABLE = -1
# of the distances in the cache; tests/data/test_prepared_content.py says when to raise it
FORMAT = 1
LONGEST = np.iinfo(np.int16).max
# bytes of bits that `_spread` holds, twice: the number of sources that it searches from at once
BITS = 1 << 29
# concepts whose neighbours' bits are gathered at once: they stay in the processor's cache
BLOCK = 4096
SOURCES = 1 << 12  # from which `_climb` searches at once
_ROWS = 1 << 12  # pairs of a corpus whose mentions are crossed at once


def shortest_paths(
    ontology: Ontology,
    pairs: np.ndarray,
    *,
    direction: str = "either",
    max_length: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """int16 [M]: edges on the shortest path between two concepts; UNREACHABLE if there is none up
    to `max_length`.

    Args:
      pairs: integers [M, 2] of concept indices.
      direction: "either" counts the is-a steps up from either concept to the other, its ancestor;
        "undirected" follows is-a edges both ways, so that siblings are at distance 2; "all" follows these and the edges
        of every other relation of the ontology both ways.
      max_length: longest path to look for; 0 for no limit.
      progress: called with the number of sources that have finished, and of all sources.
    """
    distinct, back = _distinct_pairs(pairs)
    low, high = distinct.T
    if direction == "either":
        found = _climb(ontology.parents, low, high, max_length, progress)
    else:
        found = _spread(
            len(ontology), _walked_edges(ontology, direction), low, high, max_length, progress
        )
    return found[back]


def stored_paths(
    ontology: Ontology,
    pairs: np.ndarray,
    *,
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
    **how,
) -> np.ndarray:
    """`shortest_paths`, int16 [M], from a file in `folder` if it is kept there, else computed and
    kept.

    A file belongs to the ontology, the edges followed, the direction, the cut-off and the distinct
    pairs, in any order. how: direction and max_length.
    """
    distinct, back = _distinct_pairs(pairs)
    if not len(distinct):
        return np.zeros(0, np.int16)
    key = {
        "format": FORMAT,
        "ontology": ontology.sha256,
        "direction": "either",
        "max_length": 0,
        **how,
    }
    digest = hashlib.sha256()
    for array in (*_walked_edges(ontology, key["direction"]), distinct):
        digest.update(np.ascontiguousarray(array, "<i4"))
    key["pairs"] = digest.hexdigest()
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    build = partial(shortest_paths, ontology, distinct, progress=progress, **how)
    return kept(Path(folder).expanduser() / f"{name}.npz", key, lambda: {"distance": build()})[
        "distance"
    ][back]


def _walked_edges(ontology: Ontology, direction: str) -> list[np.ndarray]:
    """The edges that a direction follows, integers [2, E] of concepts: is-a (child, parent)
    first."""
    walked = [ontology.parents, *(ontology.relations.values() if direction == "all" else ())]
    return [np.stack(matrix.nonzero()) for matrix in walked]


def _distinct_pairs(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(distinct unordered pairs (low, high), sorted [D, 2]; the place of each pair among them)."""
    pairs = np.sort(np.asarray(pairs, np.int64), axis=1)
    size = int(pairs.max(initial=0)) + 1
    keys, back = np.unique(pairs[:, 0] * size + pairs[:, 1], return_inverse=True)
    return np.stack(np.divmod(keys, size), axis=1), back


def _climb(
    parents: csr_array, low: np.ndarray, high: np.ndarray, max_length: int, progress
) -> np.ndarray:
    """int16 [M], the is-a steps from one concept of each pair up to the other."""
    start, end = np.append(low, high), np.append(high, low)
    sources, slot = np.unique(start, return_inverse=True)
    distance = np.where(start == end, 0, UNREACHABLE).astype(np.int16)
    for done in range(0, len(sources), SOURCES):
        taken = sources[done : done + SOURCES]
        inside = np.flatnonzero((done <= slot) & (slot < done + len(taken)))
        above = seen = bool_matrix(np.arange(len(taken)), taken, (len(taken), parents.shape[0]))
        for length in range(1, (max_length or LONGEST) + 1):
            above = csr_array(above @ parents > seen)
            if not above.nnz:
                break
            seen = csr_array(seen + above)
            distance[inside[above[slot[inside] - done, end[inside]]]] = length
        if progress:
            progress(done + len(taken), len(sources))
    return np.maximum(*np.split(distance, 2))


def _spread(
    size: int,
    edges: Sequence[np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    max_length: int,
    progress,
) -> np.ndarray:
    """int16 [M], the steps between the concepts of each pair, along edges [2, E] followed both
    ways.

    One step ors the bits of a concept's neighbours into the bits of the concept, for all sources at
    once (Then et al. 2014, The more the merrier: efficient multi-source graph traversal, section
    3).
    """
    distance = np.where(low == high, 0, UNREACHABLE).astype(np.int16)
    # Each edge both ways, and one from each concept to itself, by which it keeps its bits.
    source, target = np.concatenate(
        [np.stack([np.arange(size)] * 2), *edges, *(edge[::-1] for edge in edges)], axis=1
    )
    graph = csr_array(
        (np.ones(len(source), bool), (source, target)), shape=(size, size)
    )  # repeated edges become one
    _, component = connected_components(graph, directed=False)
    pairs = np.flatnonzero((low != high) & (component[low] == component[high]))
    if not len(pairs):
        return distance
    low, high = low[pairs], high[pairs]
    sources, slot = np.unique(low, return_inverse=True)
    chunk = 64 * max(BITS // (8 * size), 1)
    for done in range(0, len(sources), chunk):
        taken = sources[done : done + chunk]
        word, bit = np.divmod(np.arange(len(taken)), 64)
        bits = np.zeros((size, word[-1] + 1), np.uint64)
        bits[taken, word] = np.uint64(1) << bit.astype(np.uint64)
        opened = np.flatnonzero(
            (done <= slot) & (slot < done + len(taken))
        )  # pairs whose length is not known yet
        word, bit = word[slot[opened] - done], bit[slot[opened] - done].astype(np.uint64)
        for length in range(1, (max_length or LONGEST) + 1):
            # Only the bits of the targets are needed to see which pairs are of this length.
            rows, row = np.unique(high[opened], return_inverse=True)
            arrived = (_grown(bits, graph, rows)[row, word] >> bit & np.uint64(1)).astype(bool)
            distance[pairs[opened[arrived]]] = length
            opened, word, bit = opened[~arrived], word[~arrived], bit[~arrived]
            if not len(opened):
                break
            used, word = np.unique(
                word, return_inverse=True
            )  # words whose sources have finished are left out
            bits = _grown(
                bits[:, used] if len(used) < bits.shape[1] else bits, graph, np.arange(size)
            )
        if progress:
            progress(min(done + chunk, len(sources)), len(sources))
    return distance


def _grown(bits: np.ndarray, graph: csr_array, rows: np.ndarray) -> np.ndarray:
    """uint64 [rows, W]: the bits of some concepts (sorted) after one more step. bits: uint64 [C,
    W]."""
    grown = np.empty((len(rows), bits.shape[1]), np.uint64)
    first, degree = graph.indptr[rows], np.diff(graph.indptr)[rows]
    for done in range(0, len(rows), BLOCK):
        lengths = degree[done : done + BLOCK]
        gathered = bits[graph.indices[_ramps(first[done : done + BLOCK], lengths)]]
        np.bitwise_or.reduceat(
            gathered, np.cumsum(lengths) - lengths, axis=0, out=grown[done : done + len(lengths)]
        )
    return grown


def _ramps(first: np.ndarray | int, length: np.ndarray) -> np.ndarray:
    """first, first + 1, ... `length` times for each entry: [5, 8], [2, 1] -> [5, 6, 8]."""
    end = np.cumsum(length, dtype=np.int64)
    return np.repeat(first - (end - length), length) + np.arange(end[-1] if len(end) else 0)


@dataclass(frozen=True, eq=False)
class Links:
    """Related token pairs of N premise-hypothesis pairs, at most K each, nearest first.

    premise, hypothesis: int16 [N, K] token positions. distance: int16 [N, K] edges between their
    concepts; -1 = empty slot (both positions are then 0). dropped: number of links that did not fit
    into K. longest: greatest distance between related mentions; -1 if none. relation: unsigned [N,
    K], the bits of `relations.kinds_of`, 0 = empty slot; None for links without types.
    """

    premise: np.ndarray
    hypothesis: np.ndarray
    distance: np.ndarray
    dropped: int
    longest: int
    relation: np.ndarray | None = None


def corpus_links(
    ontology: Ontology,
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    *,
    max_links: int,
    max_tokens: int,
    direction: str = "either",
    max_length: int = 0,
    paths: Callable[..., np.ndarray] = shortest_paths,
) -> Links:
    """Links premise tokens with hypothesis tokens through the concepts that cover them.

    Token i of a premise and token j of its hypothesis, both below `max_tokens`, are linked when a
    concept of i and a concept of j have a path; their distance is the least over all such concepts.
    The slots of a pair are in the order of distance, then i, then j, and the first `max_links` are
    kept. A cross-reference stands for all concepts that have it. A concept that the ontology lacks
    is related only to itself, at distance 0.

    paths: `shortest_paths`, or `stored_paths` with its folder bound.
    """
    distinct, found = _all_paths(
        ontology, premise_mentions, hypothesis_mentions, paths, direction, max_length
    )
    parts, longest = [packed(np.zeros((0, 4), np.int64), 0, max_links, UNREACHABLE)], UNREACHABLE
    for rows, premise, hypothesis, left, right in _blocks(
        ontology, premise_mentions, hypothesis_mentions
    ):
        one, other = premise[left, 3], hypothesis[right, 3]
        distance = np.where(one == other, 0, UNREACHABLE).astype(np.int16)
        known, keys = _keys(one, other, len(ontology))
        distance[known] = found[np.searchsorted(distinct, keys)]
        related = np.flatnonzero(distance >= 0)
        left, right, distance = left[related], right[related], distance[related]
        longest = max(
            longest, _longest(premise[left, 4] * len(hypothesis) + hypothesis[right, 4], distance)
        )
        links = token_links(premise[left], hypothesis[right], distance, max_tokens)
        parts.append(packed(links, rows, max_links, longest))
    premise, hypothesis, distance = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("premise", "hypothesis", "distance")
    )
    return Links(premise, hypothesis, distance, sum(part.dropped for part in parts), longest)


def _longest(mention_pairs: np.ndarray, distance: np.ndarray) -> int:
    """The greatest distance between two mentions, each the least over the concepts of a
    cross-reference.

    mention_pairs: int64 [M], a number for each two mentions, repeated for their concepts. distance:
    int16 [M].
    """
    distinct, place = np.unique(mention_pairs, return_inverse=True)
    least = np.full(len(distinct), LONGEST, np.int16)
    np.minimum.at(least, place, distance)
    return int(least.max(initial=UNREACHABLE))


def _blocks(ontology, premise_mentions, hypothesis_mentions):
    """(number of pairs, `_flatten`ed premises, hypotheses, left, right: rows of both that are
    crossed), in blocks."""
    unknown: dict[str, int] = {}  # unknown concepts get codes after the known ones
    for first in range(0, len(premise_mentions), _ROWS):
        block = slice(first, first + _ROWS)
        premise = _flatten(premise_mentions[block], ontology, unknown)
        hypothesis = _flatten(hypothesis_mentions[block], ontology, unknown)
        rows = len(premise_mentions[block])
        yield rows, premise, hypothesis, *crossed(premise[:, 0], hypothesis[:, 0], rows)


def _all_paths(ontology, premise_mentions, hypothesis_mentions, paths, direction, max_length):
    """(keys of all pairs of known concepts, rising; their distances), found at once for the whole
    corpus."""
    found = [np.zeros(0, np.int64)]
    for _, premise, hypothesis, left, right in _blocks(
        ontology, premise_mentions, hypothesis_mentions
    ):
        _, keys = _keys(premise[left, 3], hypothesis[right, 3], len(ontology))
        found.append(np.unique(keys))
    distinct = np.unique(np.concatenate(found))
    pairs = np.stack(np.divmod(distinct, max(len(ontology), 1)), axis=1)
    return distinct, paths(ontology, pairs, direction=direction, max_length=max_length)


def _keys(one: np.ndarray, other: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(places where both concepts are known; a key of each of these pairs, in either order)."""
    known = np.flatnonzero((one < size) & (other < size))
    one, other = one[known], other[known]
    return known, np.minimum(one, other) * size + np.maximum(one, other)


def _flatten(
    mentions: Sequence[Sequence[Mention]], ontology: Ontology, unknown: dict[str, int]
) -> np.ndarray:
    """int64 [concepts, 5]: pair, start, end, concept code, number of the mention, which may have
    several concepts.

    `unknown` grows by the ids that the ontology lacks.
    """
    rows, number = [], 0
    for pair, of_pair in enumerate(mentions):
        for mention in of_pair:
            codes = ontology.indices(mention.concept)
            codes = codes or [unknown.setdefault(mention.concept, len(ontology) + len(unknown))]
            rows += ((pair, mention.start, mention.end, code, number) for code in codes)
            number += 1
    return np.array(rows, np.int64).reshape(-1, 5)


def crossed(left: np.ndarray, right: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Index arrays of every (row of left, row of right) that belong to the same pair; both sides
    sorted by pair."""
    count = np.bincount(right, minlength=size)
    start = np.cumsum(count) - count
    repeats = count[left]
    first = np.repeat(np.arange(len(left)), repeats)
    return first, np.repeat(start[left], repeats) + _ramps(0, repeats)


def token_links(
    premise: np.ndarray,
    hypothesis: np.ndarray,
    distance: np.ndarray,
    max_tokens: int,
    bits: np.ndarray | None = None,
) -> np.ndarray:
    """int64 [links, 4]: pair, distance, i, j of each linked token pair once, with its least
    distance; sorted so.

    bits: of the relations of the mentions; all those of a token pair are a fifth column.
    """
    height = np.clip(np.minimum(premise[:, 2], max_tokens) - premise[:, 1], 0, None)
    width = np.clip(np.minimum(hypothesis[:, 2], max_tokens) - hypothesis[:, 1], 0, None)
    row = np.repeat(np.arange(len(distance)), height * width)
    i, j = np.divmod(_ramps(0, height * width), np.maximum(width[row], 1))
    columns = [premise[row, 0], distance[row], premise[row, 1] + i, hypothesis[row, 1] + j]
    links = np.stack(columns if bits is None else [*columns, bits[row]], axis=1).astype(np.int64)
    links = links[np.lexsort((links[:, 1], links[:, 3], links[:, 2], links[:, 0]))]
    cell = links[:, [0, 2, 3]]
    new = np.flatnonzero(np.append(True, (cell[1:] != cell[:-1]).any(axis=1))[: len(links)])
    if bits is not None and len(new):
        links[new, 4] = np.bitwise_or.reduceat(links[:, 4], new)
    links = links[new]
    return links[np.lexsort((links[:, 3], links[:, 2], links[:, 1], links[:, 0]))]


def packed(links: np.ndarray, size: int, max_links: int, longest: int, kinds: int = 0) -> Links:
    """The links of `token_links` as arrays; kinds: number of their bits, 0 for none."""
    pair, slot = links[:, 0], _ramps(0, np.bincount(links[:, 0], minlength=size))
    kept = slot < max_links
    arrays = np.zeros((3, size, max_links), np.int16)
    arrays[0] = UNREACHABLE
    arrays[:, pair[kept], slot[kept]] = links[kept, 1:4].T
    relation = None
    if kinds:
        relation = np.zeros((size, max_links), np.min_scalar_type((1 << kinds) - 1))
        relation[pair[kept], slot[kept]] = links[kept, 4]
    return Links(arrays[1], arrays[2], arrays[0], int((~kept).sum()), longest, relation)
