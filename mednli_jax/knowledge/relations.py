"""The relations between the concepts of a premise and of its hypothesis, as bits: synonyms,
antonyms, hypernyms and so on.

The kinds are those of Chen et al. 2018 (KIM, section 3.1), the same word, and relations of an
ontology by name. Each is read from the premise to the hypothesis: "hypernym" says that the
hypothesis names a hypernym (dog -> animal).

Dimension letters: U terms, C concepts, M pairs of terms.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.examples import Mention
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.distances import climb
from mednli_jax.knowledge.links import (
    Links,
    MentionRows,
    MentionsOfSide,
    crossings,
    first_of_runs,
    mention_rows,
    pack_links,
    token_links,
)
from mednli_jax.knowledge.ontology import Ontology, bool_matrix

KINDS = ("same", "synonym", "antonym", "hypernym", "hyponym", "co_hyponym")
SAME, SYNONYM, ANTONYM, HYPERNYM, HYPONYM, CO_HYPONYM = (1 << place for place in range(len(KINDS)))
INVERSE = "inverse_"
MOST_NAMED = 13  # both directions of each and the six kinds fit into 32 bits
FORMAT = 3  # of typed links; when to raise it: tests/data/test_prepared_content.py
_BLOCK = 1 << 9  # terms whose pairs are found at once
# Most is-a edges on each side: up to the common ancestor of co-hyponyms, and over which a named
# relation is inherited.
_NEAR = 2
_OPPOSED = 1  # over which an antonym is inherited

Term = tuple[str, tuple[int, ...]]  # the words of a mention as they are compared, and its concepts
# (side, number of the pair, mention) -> its term
TermOf = Callable[[str, int, Mention], Term]


def kinds_of(named: Sequence[str]) -> tuple[str, ...]:
    """The kinds in the order of their bits: KINDS, then each named relation in both directions."""
    return (*KINDS, *(kind for name in named for kind in (name, INVERSE + name)))


@dataclass(frozen=True, eq=False)
class Related:
    """The ordered pairs of U terms that are related.

    Args:
      keys: int64 [M], a * U + b of terms a and b, rising.
      bits: uint32 [M].
      distance: int16 [M], see `related`.
    """

    keys: np.ndarray
    bits: np.ndarray
    distance: np.ndarray


class _Relation(NamedTuple):
    """Pairs of terms of one kind and distance. keys: int64 [M], as in Related."""

    keys: np.ndarray
    bit: int
    distance: int


def related_terms(
    ontology: Ontology,
    terms: Sequence[Term],
    named: Sequence[str] = (),
    max_length: int = 0,
    wanted: np.ndarray | None = None,
) -> Related:
    """Finds the terms that are related because their concepts are.

      same: the words are equal. Such terms have no other kind.
      synonym: the terms share a concept. They are then not hypernyms or co-hyponyms.
      antonym: the ontology's relation of that name, in either direction. It is inherited from
        parents, unless the terms are synonyms or is-a.
      hypernym, hyponym: a path of is-a edges, of at most `max_length` (0: any length).
      co_hyponym: the concepts have a common ancestor, at most 2 edges above each, and are not
        synonyms or is-a.
      named: relations of the ontology, without "antonym". A concept inherits them from its
        ancestors, and they hold to the ancestors of their targets, too: over at most 2 is-a edges
        each.
    distance: is-a edges of the shortest path of hypernyms or hyponyms; without one 0 for the same
    and synonyms, 2 for co-hyponyms alone, 1 for others. A concept index beyond the ontology's can
    be shared, and has no other relation.

    wanted: keys of the pairs to look at, rising, in both orders of each pair. None: all pairs.
    """
    _check_named(ontology, named)
    graph = _TermGraph(ontology, terms, wanted)
    relations = [_Relation(graph.same, SAME, 0), _Relation(graph.shared, SYNONYM, 0)]
    for steps, keys in graph.hypernyms(max_length):
        relations.append(_Relation(keys, HYPERNYM, steps))
        relations.append(_Relation(_reverse_pairs(keys, len(terms)), HYPONYM, steps))
    kin = np.sort(np.concatenate([relation.keys for relation in relations]))
    siblings = graph.with_common_ancestor()
    relations.append(_Relation(_without(siblings, kin), CO_HYPONYM, 2))
    if "antonym" in ontology.relations:
        relations.append(_Relation(graph.antonyms(kin), ANTONYM, 1))
    for number, name in enumerate(named):
        keys = graph.named_keys(name)
        bit = 1 << (len(KINDS) + 2 * number)
        relations.append(_Relation(keys, bit, 1))
        relations.append(_Relation(_reverse_pairs(keys, len(terms)), bit << 1, 1))
    return _join(relations)


class _TermGraph:
    """The terms as rows of bool matrices.

    Attributes:
      concepts: bool [U, C], the concepts of each term.
      names: bool [C, U], its transpose.
      same: keys of terms with equal words.
      shared: keys of other terms that share a concept.
    """

    def __init__(
        self, ontology: Ontology, terms: Sequence[Term], wanted: np.ndarray | None
    ) -> None:
        self.ontology, self.wanted = ontology, wanted
        number_of: dict[str, int] = {}
        numbers = [number_of.setdefault(words, len(number_of)) for words, _ in terms]
        size = len(terms)
        words = bool_matrix(np.arange(size), numbers, (size, len(number_of)))
        rows: list[int] = []
        columns: list[int] = []
        for row, (_, concepts) in enumerate(terms):
            rows += [row] * len(concepts)
            columns += concepts
        width = max(len(ontology), 1 + max(columns, default=0))
        all_concepts = bool_matrix(rows, columns, (size, width))
        self.concepts = csr_array(all_concepts[:, : len(ontology)])
        self.names = csr_array(self.concepts.T)
        self.same = self.keys(words, words.T)
        self.shared = _without(self.keys(all_concepts, all_concepts.T), self.same)

    def keys(self, left: csr_array, right: csr_array) -> np.ndarray:
        """int64 [M], rising: the wanted keys of the pairs for which left @ right [U, U] is true."""
        left, right = csr_array(left), csr_array(right)
        blocks = [np.zeros(0, np.int64)]
        for first in range(0, left.shape[0], _BLOCK):
            edges = (left[first : first + _BLOCK] @ right).tocoo()
            keys = np.sort((first + edges.row.astype(np.int64)) * right.shape[1] + edges.col)
            blocks.append(keys if self.wanted is None else keys[_among(keys, self.wanted)])
        return np.concatenate(blocks)

    def up(self, concepts: csr_array, most: int) -> csr_array:
        """bool [U, C], the concepts [U, C] of each term, and the concepts above them over at most
        `most` is-a edges."""
        for _ in range(most):
            concepts = concepts + concepts @ self.ontology.parents
        return csr_array(concepts)

    def hypernyms(self, max_length: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (is-a steps, keys of the terms that a path of this length connects)."""
        near = np.sort(np.concatenate([self.same, self.shared]))
        for steps, above in climb(self.concepts, self.ontology.parents, max_length):
            yield steps, _without(self.keys(above, self.names), near)

    def with_common_ancestor(self) -> np.ndarray:
        ancestors = self.up(self.concepts @ self.ontology.parents, _NEAR - 1)
        return self.keys(ancestors, ancestors.T)

    def antonyms(self, kin: np.ndarray) -> np.ndarray:
        """The keys of antonyms. kin: keys of the terms that are the same, synonyms or is-a."""
        antonym = self.ontology.relations["antonym"]
        opposite = antonym + antonym.T
        own = _without(self.keys(self.concepts @ opposite, self.names), self.same)
        heirs = self.up(self.concepts, _OPPOSED)
        inherited = _without(self.keys(heirs @ opposite, heirs.T), kin)
        return np.union1d(own, inherited)

    def named_keys(self, name: str) -> np.ndarray:
        targets = self.up(self.concepts, _NEAR) @ self.ontology.relations[name]
        return _without(self.keys(self.up(targets, _NEAR), self.names), self.same)


def _check_named(ontology: Ontology, named: Sequence[str]) -> None:
    """Raises ConfigError for a relation that the ontology does not have, or too many."""
    field = "knowledge.relations"
    for name in named:
        if name not in ontology.relations:
            problem = f"'{ontology.name}' has no relation '{name}'"
            names = ", ".join(ontology.relations) or "none besides is-a"
            raise ConfigError(problem, field=field, fix=f"it has {names}")
    if len(named) > MOST_NAMED:
        problem = f"names {len(named)} relations"
        raise ConfigError(problem, field=field, fix=f"give at most {MOST_NAMED}")


def _reverse_pairs(keys: np.ndarray, size: int) -> np.ndarray:
    """The keys of the pairs in reverse order, (b, a) for (a, b)."""
    first, second = np.divmod(keys, max(size, 1))
    return second * size + first


def _among(keys: np.ndarray, rising: np.ndarray) -> np.ndarray:
    """bool [M], whether each key is one of the rising keys."""
    if not len(rising):
        return np.zeros(len(keys), bool)
    place = np.minimum(np.searchsorted(rising, keys), len(rising) - 1)
    return np.asarray(rising[place] == keys)


def _without(keys: np.ndarray, rising: np.ndarray) -> np.ndarray:
    return np.compress(~_among(keys, rising), keys)


def _join(relations: Sequence[_Relation]) -> Related:
    """Merges relations to one row for each key, with all its bits. Its distance is the least of the
    is-a edges, else the least of all."""
    keys_of, bit_of, distance_of = zip(*relations, strict=True)
    counts = list(map(len, keys_of))
    keys = np.concatenate(keys_of)
    bits = np.repeat(np.array(bit_of, np.uint32), counts)
    distance = np.repeat(np.array(distance_of, np.int16), counts)
    # The distance of a path of is-a edges precedes those of other relations, which are conventions.
    is_path = (bits & (HYPERNYM | HYPONYM)) != 0
    order = np.lexsort((distance, ~is_path, keys))
    keys, bits, distance = keys[order], bits[order], distance[order]
    first = first_of_runs(keys)
    if len(first):
        bits = np.bitwise_or.reduceat(bits, first)
    return Related(keys[first], bits, distance[first])


def typed_links(
    ontology: Ontology,
    premise_mentions: MentionsOfSide,
    hypothesis_mentions: MentionsOfSide,
    term_of: TermOf,
    *,
    named: Sequence[str],
    max_links: int,
    max_length: int = 0,
) -> Links:
    """Links tokens whose terms are `related`, as `links.corpus_links` links tokens whose concepts
    are. The links have bits."""
    blocks = []
    mentions = premise_mentions, hypothesis_mentions
    for match in _matches(ontology, *mentions, term_of, named, max_length):
        blocks.append(token_links(*match))
    return pack_links(blocks, len(premise_mentions), max_links, kinds=len(kinds_of(named)))


class _Matches(NamedTuple):
    """The related mentions of a block of pairs, [M] each."""

    premise: MentionRows
    hypothesis: MentionRows
    distance: np.ndarray
    bits: np.ndarray


def _matches(
    ontology: Ontology,
    premise_mentions: MentionsOfSide,
    hypothesis_mentions: MentionsOfSide,
    term_of: TermOf,
    named: Sequence[str],
    max_length: int,
) -> Iterator[_Matches]:
    """Yields the related mentions of a corpus, in blocks of pairs."""
    code_of: dict[Term, int] = {}

    def codes(side: str, pair: int, mention: Mention) -> list[int]:
        term = term_of(side, pair, mention)
        return [code_of.setdefault(term, len(code_of))]

    premises = mention_rows(premise_mentions, partial(codes, "premise"))
    hypotheses = mention_rows(hypothesis_mentions, partial(codes, "hypothesis"))
    pairs, size = len(premise_mentions), len(code_of)
    # The pairs of terms that occur in a pair of sentences are a small part of all pairs of terms.
    occurring = []
    for premise, hypothesis in crossings(premises, hypotheses, pairs):
        occurring.append(np.unique(premise.code * size + hypothesis.code))
    wanted = np.unique(np.concatenate(occurring))
    both_orders = np.union1d(wanted, _reverse_pairs(wanted, size))
    table = related_terms(ontology, list(code_of), named, max_length, both_orders)
    for premise, hypothesis in crossings(premises, hypotheses, pairs):
        keys = premise.code * size + hypothesis.code
        rows = np.flatnonzero(_among(keys, table.keys))
        place = np.searchsorted(table.keys, keys[rows])
        distance, bits = table.distance[place], table.bits[place]
        yield _Matches(premise.take(rows), hypothesis.take(rows), distance, bits)
