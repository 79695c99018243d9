"""Computes links: from concepts of sentence pairs and distances in a graph to arrays [N, K] of
related tokens."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mednli_jax.data.examples import Mention
from mednli_jax.knowledge.distances import LONGEST, UNREACHABLE, ramps, shortest_paths
from mednli_jax.knowledge.ontology import Ontology

_ROWS = 1 << 12  # pairs of a corpus whose mentions are crossed at once
MentionsOfSide = Sequence[Sequence[Mention]]  # of each pair of a corpus
# (number of the pair, mention) -> the numbers of its concepts or of its term
CodesOf = Callable[[int, Mention], Sequence[int]]


@dataclass(frozen=True, eq=False)
class Links:
    """Related token pairs of N premise-hypothesis pairs, at most K each, nearest first.

    Args:
      premise, hypothesis: int16 [N, K] token positions, 0 in an empty slot.
      distance: int16 [N, K] edges between their concepts; -1 = empty slot.
      dropped: number of links that did not fit into K.
      longest: greatest distance of two related mentions, -1 if there are none.
      relation: unsigned [N, K], the bits of `relations.kinds_of`, 0 = empty slot; None for links
        without types.
    """

    premise: np.ndarray
    hypothesis: np.ndarray
    distance: np.ndarray
    dropped: int
    longest: int
    relation: np.ndarray | None = None


class MentionRows(NamedTuple):
    """Mentions as rows, int64 [R] each, sorted by pair. A mention with several codes has a row for
    each.

    Args:
      pair: number of the sentence pair.
      start, end: tokens of the mention.
      code: number of a concept, or of a term of `relations`.
      mention: number of the mention.
    """

    pair: np.ndarray
    start: np.ndarray
    end: np.ndarray
    code: np.ndarray
    mention: np.ndarray

    def take(self, rows: np.ndarray | slice) -> "MentionRows":
        return MentionRows(*(column[rows] for column in self))

    def in_pairs(self, first: int, end: int) -> "MentionRows":
        return self.take(slice(*np.searchsorted(self.pair, [first, end])))


class Crossing(NamedTuple):
    """The pairs of a mention of a premise with a mention of its hypothesis: both sides have [M]
    rows."""

    premise: MentionRows
    hypothesis: MentionRows


class TokenLinks(NamedTuple):
    """Related token pairs, [L] each.

    Args:
      pair: number of the sentence pair.
      premise, hypothesis: token positions.
      bits: types of the relation.
    """

    pair: np.ndarray
    distance: np.ndarray
    premise: np.ndarray
    hypothesis: np.ndarray
    bits: np.ndarray

    def take(self, rows: np.ndarray) -> "TokenLinks":
        return TokenLinks(*(column[rows] for column in self))


def corpus_links(
    ontology: Ontology,
    premise_mentions: MentionsOfSide,
    hypothesis_mentions: MentionsOfSide,
    *,
    max_links: int,
    direction: str = "either",
    max_length: int = 0,
) -> Links:
    """Links premise tokens with hypothesis tokens through the concepts that cover them.

    Token i of a premise and token j of its hypothesis are linked if a path connects a concept of i
    with a concept of j; their distance is the least over all such concepts. The slots of a pair are
    in the order of distance, then i, then j, and the first `max_links` stay. A cross-reference
    stands for all concepts that have it. A concept that the ontology lacks is related only to
    itself, at distance 0.
    """
    size, pairs = len(ontology), len(premise_mentions)
    # Concepts that the ontology lacks get codes after its own.
    code_of_unknown: dict[str, int] = {}

    def codes_of(pair: int, mention: Mention) -> list[int]:
        next_code = size + len(code_of_unknown)
        codes = ontology.indices(mention.concept)
        return codes or [code_of_unknown.setdefault(mention.concept, next_code)]

    premises = mention_rows(premise_mentions, codes_of)
    hypotheses = mention_rows(hypothesis_mentions, codes_of)
    keys_of_blocks = []
    for crossing in crossings(premises, hypotheses, pairs):
        _, keys = _keys_of_known(crossing, size)
        keys_of_blocks.append(np.unique(keys))
    distinct_keys = np.unique(np.concatenate(keys_of_blocks))
    concept_pairs = np.stack(np.divmod(distinct_keys, max(size, 1)), axis=1)
    path_length = shortest_paths(
        ontology, concept_pairs, direction=direction, max_length=max_length
    )

    blocks, longest = [], UNREACHABLE
    for crossing in crossings(premises, hypotheses, pairs):
        is_same = crossing.premise.code == crossing.hypothesis.code
        distance = np.where(is_same, 0, UNREACHABLE).astype(np.int16)
        in_ontology, keys = _keys_of_known(crossing, size)
        distance[in_ontology] = path_length[np.searchsorted(distinct_keys, keys)]
        has_path = np.flatnonzero(distance >= 0)
        distance = distance[has_path]
        premise, hypothesis = crossing.premise.take(has_path), crossing.hypothesis.take(has_path)
        longest = max(longest, _longest(premise, hypothesis, distance))
        bits = np.zeros(len(distance), np.uint32)
        blocks.append(token_links(premise, hypothesis, distance, bits))
    return pack_links(blocks, pairs, max_links, longest)


def _longest(premise: MentionRows, hypothesis: MentionRows, distance: np.ndarray) -> int:
    """The greatest distance between two mentions. Two mentions have the least distance of their
    concepts, of which a cross-reference may have several."""
    mentions = premise.mention * (hypothesis.mention.max(initial=0) + 1) + hypothesis.mention
    distinct, place = np.unique(mentions, return_inverse=True)
    least = np.full(len(distinct), LONGEST, np.int16)
    np.minimum.at(least, place, distance)
    return int(least.max(initial=UNREACHABLE))


def mention_rows(mentions: MentionsOfSide, codes_of: CodesOf) -> MentionRows:
    rows, number = [], 0
    for pair, of_pair in enumerate(mentions):
        for mention in of_pair:
            for code in codes_of(pair, mention):
                rows.append((pair, mention.start, mention.end, code, number))
            number += 1
    return MentionRows(*np.array(rows, np.int64).reshape(-1, 5).T)


def crossings(premises: MentionRows, hypotheses: MentionRows, pairs: int) -> Iterator[Crossing]:
    """Yields the Crossing of each block of pairs of a corpus. pairs: number of all pairs."""
    for first in range(0, max(pairs, 1), _ROWS):
        premise = premises.in_pairs(first, first + _ROWS)
        hypothesis = hypotheses.in_pairs(first, first + _ROWS)
        # The rows of a hypothesis begin at `begin` of its pair.
        count = np.bincount(hypothesis.pair - first, minlength=_ROWS)
        begin = np.cumsum(count) - count
        place = premise.pair - first
        repeats = count[place]
        left = np.repeat(np.arange(len(place)), repeats)
        right = np.repeat(begin[place], repeats) + ramps(0, repeats)
        yield Crossing(premise.take(left), hypothesis.take(right))


def _keys_of_known(crossing: Crossing, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (rows of the crossing whose two concepts are in the ontology; int64 keys of these
    pairs of concepts).

    A key is the same for either order of the two concepts. size: number of concepts.
    """
    left, right = crossing.premise.code, crossing.hypothesis.code
    in_ontology = np.flatnonzero((left < size) & (right < size))
    left, right = left[in_ontology], right[in_ontology]
    return in_ontology, np.minimum(left, right) * size + np.maximum(left, right)


def token_links(
    premise: MentionRows,
    hypothesis: MentionRows,
    distance: np.ndarray,
    bits: np.ndarray,
) -> TokenLinks:
    """The token pairs of related mentions, sorted by pair, distance and tokens.

    Each token pair stands once, with the least distance of its mentions and all their bits.

    distance, bits: [M], of the mention of `premise` and the one of `hypothesis` in the same row.
    """
    height, width = premise.end - premise.start, hypothesis.end - hypothesis.start
    # The tokens of two mentions are a rectangle, which is read row by row.
    area = height * width
    row = np.repeat(np.arange(len(distance)), area)
    i, j = np.divmod(ramps(0, area), width[row])
    left, right = premise.start[row] + i, hypothesis.start[row] + j
    links = TokenLinks(premise.pair[row], distance[row], left, right, bits[row])
    links = links.take(np.lexsort((links.distance, links.hypothesis, links.premise, links.pair)))
    first = first_of_runs(links.pair, links.premise, links.hypothesis)
    if len(first):
        all_bits = np.bitwise_or.reduceat(links.bits, first)
        links = links.take(first)._replace(bits=all_bits)
    return links.take(np.lexsort((links.hypothesis, links.premise, links.distance, links.pair)))


def first_of_runs(*columns: np.ndarray) -> np.ndarray:
    """The index of the first row of each run of equal rows. columns: [L] each."""
    is_first = np.ones(len(columns[0]), bool)
    is_first[1:] = np.diff(columns, axis=1).any(axis=0)
    return np.flatnonzero(is_first)


def pack_links(
    blocks: Sequence[TokenLinks],
    pairs: int,
    max_links: int,
    longest: int | None = None,
    kinds: int = 0,
) -> Links:
    """Packs the links into arrays [N, K].

    Args:
      blocks: links in the order of the pairs.
      pairs: N.
      longest: the greatest distance; None takes that of the links.
      kinds: number of bits, 0 for links without types.
    """
    links = TokenLinks(*map(np.concatenate, zip(*blocks, strict=True)))
    slot = ramps(0, np.bincount(links.pair, minlength=pairs))
    fits = slot < max_links
    place = links.pair[fits], slot[fits]

    def array(values: np.ndarray, empty: int, dtype: np.dtype | type) -> np.ndarray:
        slots_NK = np.full((pairs, max_links), empty, dtype)
        slots_NK[place] = values[fits]
        return slots_NK

    return Links(
        array(links.premise, 0, np.int16),
        array(links.hypothesis, 0, np.int16),
        array(links.distance, UNREACHABLE, np.int16),
        int((~fits).sum()),
        int(links.distance.max(initial=UNREACHABLE)) if longest is None else longest,
        array(links.bits, 0, np.min_scalar_type((1 << kinds) - 1)) if kinds else None,
    )
