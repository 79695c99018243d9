"""Distances in an ontology's graph: between concepts, and from there between tokens of a premise and a hypothesis."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mednli_jax.data.examples import Mention
from mednli_jax.knowledge.ontology import Ontology, Relations
from mednli_jax.knowledge.search import UNREACHABLE, Progress, climb, ramps, spread

DIRECTIONS = ("either", "undirected", "all")
_ROWS = 1 << 12  # pairs of a corpus whose mentions are crossed at once


def shortest_paths(
    ontology: Ontology,
    pairs: np.ndarray,
    *,
    direction: str = "either",
    max_length: int = 0,
    progress: Progress | None = None,
) -> np.ndarray:
    """Lengths of shortest paths between concepts, in edges.

    Args:
      pairs: integers [M, 2] of concept indices.
      direction: "either" counts the is-a steps up from either concept to the other, its ancestor;
        "undirected" follows is-a edges both ways, so that siblings are at distance 2; "all" follows these and the edges
        of every other relation of the ontology both ways.
      max_length: longest path to look for; 0 for no limit.
      progress: called from time to time with (number of distinct concepts searched from, their total).

    Returns:
      int16 [M]; UNREACHABLE (-1) if there is no path of at most `max_length`, 0 for a concept and itself.
    """
    distinct, back = distinct_pairs(pairs)
    low, high = distinct.T
    if direction == "either":
        found = climb(ontology.parents, low, high, max_length, progress)
    else:
        found = spread(len(ontology), walked_edges(ontology, direction), low, high, max_length, progress)
    return found[back]


def walked_edges(ontology: Ontology, direction: str) -> list[np.ndarray]:
    """The edges that a direction follows, integers [2, E] of concepts: is-a (child, parent) first."""
    edges = [np.stack(ontology.parents.nonzero())]
    if direction == "all":
        edges += Relations.of(ontology.relations, len(ontology)).edges.values()
    return edges


def distinct_pairs(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(distinct unordered pairs (low, high), sorted [D, 2]; the place of each pair among them)."""
    pairs = np.asarray(pairs, np.int64)
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    size = int(high.max(initial=0)) + 1
    keys = low * size + high
    if (keys[1:] > keys[:-1]).all():
        return np.stack([low, high], axis=1), np.arange(len(pairs))
    keys, back = np.unique(keys, return_inverse=True)
    return np.stack(np.divmod(keys, size), axis=1), back


@dataclass(frozen=True, eq=False)
class Links:
    """Related token pairs of N premise-hypothesis pairs, at most K each, nearest first.

    premise, hypothesis: int16 [N, K] token positions.
    distance: int16 [N, K] edges between their concepts; -1 = empty slot (both positions are then 0).
    dropped: number of links that did not fit into K.
    longest: greatest distance between related mentions of the corpus, before anything was cut off; -1 if none.
    relation: unsigned [N, K], the bits of `relations.kinds_of`, 0 = empty slot; None for links without types.
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
    """Link premise tokens with hypothesis tokens through the concepts that cover them.

    Token i of a premise and token j of its hypothesis, both below `max_tokens`, are linked when a concept of i and a
    concept of j have a path (`shortest_paths`); their distance is the least over all such concepts. If a pair
    has more than `max_links`, the shortest are kept, ties by i, then j. This is also the order of the slots, so that a
    smaller limit gives a prefix. A concept is an id of the ontology, or a cross-reference, which stands for all
    concepts that have it. A concept that the ontology lacks is related only to itself, at distance 0.

    paths: finds the distances; `shortest_paths`, or a replacement for it (`store.stored_paths` with its folder bound).
    """
    distinct, found = _all_paths(ontology, premise_mentions, hypothesis_mentions, paths, direction, max_length)
    parts, longest = [packed(np.zeros((0, 4), np.int64), 0, max_links, UNREACHABLE)], UNREACHABLE
    for rows, premise, hypothesis, left, right in _blocks(ontology, premise_mentions, hypothesis_mentions):
        one, other = premise[left, 3], hypothesis[right, 3]
        distance = np.where(one == other, 0, UNREACHABLE).astype(np.int16)
        known, keys = _keys(one, other, len(ontology))
        distance[known] = found[np.searchsorted(distinct, keys)]
        related = np.flatnonzero(distance >= 0)
        left, right, distance = left[related], right[related], distance[related]
        longest = max(longest, int(distance.max(initial=UNREACHABLE)))
        links = token_links(premise[left], hypothesis[right], distance, max_tokens)
        parts.append(packed(links, rows, max_links, longest))
    premise, hypothesis, distance = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("premise", "hypothesis", "distance")
    )
    return Links(premise, hypothesis, distance, sum(part.dropped for part in parts), longest)


def _blocks(ontology, premise_mentions, hypothesis_mentions):
    """(number of pairs, rows of premises, rows of hypotheses, left, right) of some pairs after others.

    Rows are those of `_flatten`, their pairs counted from the first of the block; left and right cross them.
    """
    unknown: dict[str, int] = {}  # unknown concepts get codes after the known ones
    for first in range(0, len(premise_mentions), _ROWS):
        block = slice(first, first + _ROWS)
        premise = _flatten(premise_mentions[block], ontology, unknown)
        hypothesis = _flatten(hypothesis_mentions[block], ontology, unknown)
        rows = len(premise_mentions[block])
        yield rows, premise, hypothesis, *crossed(premise[:, 0], hypothesis[:, 0], rows)


def _all_paths(ontology, premise_mentions, hypothesis_mentions, paths, direction, max_length):
    """(keys of all pairs of known concepts, rising; their distances), found at once for the whole corpus."""
    distinct, waiting = np.zeros(0, np.int64), []
    for _, premise, hypothesis, left, right in _blocks(ontology, premise_mentions, hypothesis_mentions):
        _, keys = _keys(premise[left, 3], hypothesis[right, 3], len(ontology))
        waiting.append(np.unique(keys))
        if sum(map(len, waiting)) > len(distinct):  # the size doubles at least, so that few keys are sorted often
            distinct, waiting = np.unique(np.concatenate([distinct, *waiting])), []
    distinct = np.unique(np.concatenate([distinct, *waiting]))
    pairs = np.stack(np.divmod(distinct, max(len(ontology), 1)), axis=1)
    return distinct, paths(ontology, pairs, direction=direction, max_length=max_length)


def _keys(one: np.ndarray, other: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(places where both concepts are known; a key of each of these pairs, in either order)."""
    known = np.flatnonzero((one < size) & (other < size))
    one, other = one[known], other[known]
    return known, np.minimum(one, other) * size + np.maximum(one, other)


def _flatten(mentions: Sequence[Sequence[Mention]], ontology: Ontology, unknown: dict[str, int]) -> np.ndarray:
    """int64 [mentions, 4]: pair, start, end, concept code; `unknown` grows by the ids that the ontology lacks."""
    rows = [
        (pair, mention.start, mention.end, code)
        for pair, found in enumerate(mentions)
        for mention in found
        for code in ontology.indices(mention.concept)
        or [unknown.setdefault(mention.concept, len(ontology) + len(unknown))]
    ]
    return np.array(rows, np.int64).reshape(-1, 4)


def crossed(left: np.ndarray, right: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Index arrays of every (row of left, row of right) that belong to the same pair; both sides sorted by pair."""
    count = np.bincount(right, minlength=size)
    start = np.cumsum(count) - count
    repeats = count[left]
    first = np.repeat(np.arange(len(left)), repeats)
    return first, np.repeat(start[left], repeats) + _ramps(repeats)


def _ramps(lengths: np.ndarray) -> np.ndarray:
    """0..n-1 for each n, one after the other: [2, 3] -> [0, 1, 0, 1, 2]."""
    return ramps(np.zeros(len(lengths), np.int64), lengths)


def token_links(
    premise: np.ndarray,
    hypothesis: np.ndarray,
    distance: np.ndarray,
    max_tokens: int,
    bits: np.ndarray | None = None,
) -> np.ndarray:
    """int64 [links, 4]: pair, distance, i, j of each linked token pair once, with its least distance; sorted so.

    bits: of the relations of the mentions. A fifth column has those of all mentions that cover the token pair.
    """
    height = np.clip(np.minimum(premise[:, 2], max_tokens) - premise[:, 1], 0, None)
    width = np.clip(np.minimum(hypothesis[:, 2], max_tokens) - hypothesis[:, 1], 0, None)
    row = np.repeat(np.arange(len(distance)), height * width)
    i, j = np.divmod(_ramps(height * width), np.maximum(width[row], 1))
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
    pair, slot = links[:, 0], _ramps(np.bincount(links[:, 0], minlength=size))
    kept = slot < max_links
    arrays = np.zeros((3, size, max_links), np.int16)
    arrays[0] = UNREACHABLE
    arrays[:, pair[kept], slot[kept]] = links[kept, 1:4].T
    relation = None
    if kinds:
        relation = np.zeros((size, max_links), np.min_scalar_type((1 << kinds) - 1))
        relation[pair[kept], slot[kept]] = links[kept, 4]
    return Links(arrays[1], arrays[2], arrays[0], int((~kept).sum()), longest, relation)
