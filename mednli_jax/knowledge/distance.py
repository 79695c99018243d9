"""Distances in the is-a graph: between concepts, and from there between the tokens of a premise and a hypothesis."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.errors import UserError
from mednli_jax.examples import Mention
from mednli_jax.knowledge.ontology import Ontology

DIRECTIONS = ("either", "undirected")
UNREACHABLE = -1
_MAX_WORDS = 8  # 512 sources at once: the working set of MeSH (edges x words x 8 bytes) stays in the cache
_MAX_CELLS = 1 << 23  # edges x words, which bounds the memory of one search to 64 MiB on any graph


def shortest_paths(
    ontology: Ontology, pairs: np.ndarray, *, direction: str = "either", max_length: int = 0
) -> np.ndarray:
    """Numbers of is-a edges between concepts.

    Args:
      pairs: integers [M, 2] of concept indices.
      direction: "either" counts the steps from a concept up to its ancestor, whichever of the two is the ancestor;
        "undirected" walks is-a edges both ways, so that siblings are at distance 2.
      max_length: longest path to look for; 0 for no limit.

    Returns:
      int16 [M]; UNREACHABLE (-1) where there is no path of at most `max_length`, 0 for a concept and itself.

    Every distinct source is searched once, many sources together (`_search`).

    Raises:
      UserError: unknown direction or negative `max_length`. ValueError: `pairs` of another shape or out of range.
    """
    if direction not in DIRECTIONS:
        known = ", ".join(DIRECTIONS)
        raise UserError(f"E-CONF-004 unknown direction '{direction}' of paths. Fix: give one of {known}.")
    if max_length < 0:
        raise UserError(f"E-CONF-003 max_length is {max_length}. Fix: give a length, or 0 for no limit.")
    pairs = np.asarray(pairs, np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"pairs has shape {pairs.shape}, not [M, 2]")
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < len(ontology):
        raise ValueError(f"pairs has indices outside 0..{len(ontology) - 1}")
    size = max(len(ontology), 1)
    distinct, back = np.unique(pairs.min(axis=1) * size + pairs.max(axis=1), return_inverse=True)
    low, high = np.divmod(distinct, size)
    if direction == "undirected":
        found = _search(csr_array(ontology.parents + ontology.children), low, high, max_length)
    else:
        # Upwards, a concept is reached from its children. Without cycles at most one of the two ways exists.
        up = _search(ontology.children, np.append(low, high), np.append(high, low), max_length)
        found = np.maximum(up[: len(low)], up[len(low) :])
    return found[back]


def _search(reached_from: csr_array, source: np.ndarray, target: np.ndarray, max_length: int) -> np.ndarray:
    """Breadth-first distances source[m] -> target[m], int16 [M]; 64 sources share one machine word per concept.

    reached_from: [C, C] bool, row c holds the concepts from which one step leads to c.
    One step ors the words of those concepts into the word of c, for all sources at once, instead of one queue for each
    (Then et al. 2014, The more the merrier: efficient multi-source graph traversal).
    """
    distance = np.full(len(source), UNREACHABLE, np.int16)
    sources, slot = np.unique(source, return_inverse=True)
    words = int(np.clip(_MAX_CELLS // max(reached_from.nnz, 1), 1, _MAX_WORDS))
    order = np.argsort(slot, kind="stable")
    bounds = np.searchsorted(slot[order], np.arange(0, len(sources) + 64 * words, 64 * words))
    rows = np.flatnonzero(np.diff(reached_from.indptr))  # reduceat cannot do empty rows
    first = reached_from.indptr[rows]
    for chunk, (begin, end) in enumerate(pairwise(bounds.tolist())):
        open_pairs = order[begin:end]
        offset = chunk * 64 * words
        here = np.arange(len(sources[offset : offset + 64 * words]))
        seen = np.zeros((reached_from.shape[0], words), np.uint64)
        seen[sources[offset + here], here // 64] = np.uint64(1) << (here % 64).astype(np.uint64)
        length = 0
        while len(open_pairs):
            bit = slot[open_pairs] - offset
            arrived = (seen[target[open_pairs], bit // 64] >> (bit % 64).astype(np.uint64)) & np.uint64(1) == 1
            distance[open_pairs[arrived]] = length
            open_pairs = open_pairs[~arrived]
            if not len(open_pairs) or not len(rows) or length == (max_length or np.iinfo(np.int16).max):
                break
            grown = seen[rows] | np.bitwise_or.reduceat(seen[reached_from.indices], first, axis=0)
            if np.array_equal(grown, seen[rows]):
                break
            seen[rows] = grown
            length += 1
    return distance


@dataclass(frozen=True, eq=False)
class Links:
    """Related token pairs of N premise-hypothesis pairs, at most K each, nearest first.

    premise, hypothesis: int16 [N, K] token positions.
    distance: int16 [N, K] edges between their concepts; -1 = empty slot (both positions are then 0).
    dropped: how many links did not fit into K.
    longest: greatest distance between related mentions of the corpus, before anything was cut off; -1 if none.
    """

    premise: np.ndarray
    hypothesis: np.ndarray
    distance: np.ndarray
    dropped: int
    longest: int


def corpus_links(
    ontology: Ontology,
    premise_mentions: Sequence[Sequence[Mention]],
    hypothesis_mentions: Sequence[Sequence[Mention]],
    *,
    max_links: int,
    max_tokens: int,
    direction: str = "either",
    max_length: int = 0,
) -> Links:
    """Link premise tokens with hypothesis tokens through the concepts that cover them.

    Token i of a premise and token j of its hypothesis, both below `max_tokens`, are linked when a concept of i and a
    concept of j have a path (`shortest_paths`); their distance is the least over all such concepts. Of more than
    `max_links` per pair the shortest are kept, ties by i, then j; this is also the order of the slots, so that fewer
    links are a prefix of more. A concept that the ontology does not have is related to itself alone, at distance 0.

    Raises:
      ValueError: the two sides differ in number, or the limits are not in 1..32767.
    """
    size = len(premise_mentions)
    if size != len(hypothesis_mentions):
        raise ValueError(f"mentions of {size} premises but of {len(hypothesis_mentions)} hypotheses")
    if not (0 < max_links < 1 << 15 and 0 < max_tokens < 1 << 15):
        raise ValueError(f"max_links={max_links} and max_tokens={max_tokens} must lie in 1..32767")
    codes = dict(ontology.index_of)  # concepts the ontology lacks get the codes after its own
    premise = _flatten(premise_mentions, codes)
    hypothesis = _flatten(hypothesis_mentions, codes)
    left, right = _crossed(premise[:, 0], hypothesis[:, 0], size)
    concepts = np.stack([premise[left, 3], hypothesis[right, 3]], axis=1)
    distance = np.where(concepts[:, 0] == concepts[:, 1], 0, UNREACHABLE).astype(np.int16)
    known = np.flatnonzero((concepts < len(ontology)).all(axis=1))
    distance[known] = shortest_paths(ontology, concepts[known], direction=direction, max_length=max_length)
    related = np.flatnonzero(distance >= 0)
    left, right, distance = left[related], right[related], distance[related]
    longest = int(distance.max(initial=UNREACHABLE))
    links = _token_links(premise[left], hypothesis[right], distance, max_tokens)
    return _packed(links, size, max_links, longest)


def _flatten(mentions: Sequence[Sequence[Mention]], codes: dict[str, int]) -> np.ndarray:
    """int64 [mentions, 4]: pair, start, end, concept code; `codes` grows by the ids it lacks."""
    rows = [
        (pair, mention.start, mention.end, codes.setdefault(mention.concept, len(codes)))
        for pair, found in enumerate(mentions)
        for mention in found
    ]
    return np.array(rows, np.int64).reshape(-1, 4)


def _crossed(left: np.ndarray, right: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Index arrays of every (row of left, row of right) that belong to the same pair; both sides sorted by pair."""
    count = np.bincount(right, minlength=size)
    start = np.cumsum(count) - count
    repeats = count[left]
    first = np.repeat(np.arange(len(left)), repeats)
    return first, np.repeat(start[left], repeats) + _ramps(repeats)


def _ramps(lengths: np.ndarray) -> np.ndarray:
    """0..n-1 for each n, one after the other: [2, 3] -> [0, 1, 0, 1, 2]."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _token_links(premise: np.ndarray, hypothesis: np.ndarray, distance: np.ndarray, max_tokens: int) -> np.ndarray:
    """int64 [links, 4]: pair, distance, i, j of each linked token pair once, with its least distance, sorted so."""
    height = np.clip(np.minimum(premise[:, 2], max_tokens) - premise[:, 1], 0, None)
    width = np.clip(np.minimum(hypothesis[:, 2], max_tokens) - hypothesis[:, 1], 0, None)
    row = np.repeat(np.arange(len(distance)), height * width)
    i, j = np.divmod(_ramps(height * width), np.maximum(width[row], 1))
    links = np.stack([premise[row, 0], distance[row], premise[row, 1] + i, hypothesis[row, 1] + j], axis=1)
    links = links[np.lexsort((links[:, 1], links[:, 3], links[:, 2], links[:, 0]))]
    cell = links[:, [0, 2, 3]]
    new = np.append(True, (cell[1:] != cell[:-1]).any(axis=1))[: len(links)]
    links = links[new]
    return links[np.lexsort((links[:, 3], links[:, 2], links[:, 1], links[:, 0]))]


def _packed(links: np.ndarray, size: int, max_links: int, longest: int) -> Links:
    pair, slot = links[:, 0], _ramps(np.bincount(links[:, 0], minlength=size))
    kept = slot < max_links
    arrays = np.zeros((3, size, max_links), np.int16)
    arrays[0] = UNREACHABLE
    arrays[:, pair[kept], slot[kept]] = links[kept, 1:].T
    return Links(arrays[1], arrays[2], arrays[0], dropped=int((~kept).sum()), longest=longest)
