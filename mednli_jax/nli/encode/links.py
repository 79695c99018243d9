"""Finds the concepts of sentence pairs, and stores their links, which knowledge/links.py computes,
as the prepared arrays link_* [N, K].

Dimension letters: N rows, T tokens, K links.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mednli_jax.data.arrays import PLURAL, SIDES
from mednli_jax.data.examples import Mention, NLIExample, Split
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.links import Links, corpus_links
from mednli_jax.knowledge.mentions import Recognised
from mednli_jax.knowledge.ontology import Ontology, induced_subgraph
from mednli_jax.knowledge.relations import HYPERNYM, HYPONYM, TermOf, kinds_of, typed_links
from mednli_jax.knowledge.words import Lemmas, normalise, singular
from mednli_jax.nli.augmentation.polarity import DOWN, directions
from mednli_jax.terminal import with_progress
from mednli_jax.types import JsonObject

GRAPH_SPLITS = ("train", "dev")
Tokens = tuple[str, ...]
TextLinker = Linker | Lemmas  # finds concepts in any sentence
# Finds concepts in the sentences of a corpus: a linker, or a file of mentions (Recognised).
ConceptSource = TextLinker | Recognised
# (side, number of the pair, visible mention) -> the words of the mention.
MentionWords = Callable[[str, int, Mention], Sequence[str]]
SideMentions = dict[str, list[list[Mention]]]  # side -> the mentions of each of N sentences


@dataclass(frozen=True)
class Encoding:
    """The settings by which Examples become arrays. Every field is part of the prepared folder's
    key.

    Args:
      max_length: the most tokens of a sentence; more are cut.
      keep: which tokens of a longer sentence are kept, its "first" or its "last" ones.
      hypothesis_only: premises are left empty.
      vectors_path: None for random vectors.
      unknown, lowered: `unknown` and `try_lower_case` of vectors.load_vectors.
      unit_length: every word's vector is scaled to length 1.
      direction: the direction of paths, see distances.shortest_paths.
      max_links: K, the most links of a pair.
      max_path: the longest path in edges, 0 for no limit.
      graph: "whole", the graph of the ontology, or "mentioned", its part with the concepts that
        train and dev mention.
      relations: the named relations of typed links (`knowledge.relations`), None for links without
        types.
      polarity: whether hypernym and hyponym are exchanged under a negation, see
        `project_relations`.
    """

    lowercase: bool
    max_length: int
    hypothesis_only: bool
    vectors_path: Path | None
    vectors_dim: int
    vectors_seed: int
    direction: str
    max_path: int
    max_links: int
    retrofit_lexicon: Path | None = None
    retrofit_rounds: int = 10
    unit_length: bool = False
    keep: str = "first"
    graph: str = "whole"
    unknown: str = "mean"
    lowered: bool = True
    relations: tuple[str, ...] | None = None
    polarity: bool = False

    def reads(self, side: str) -> bool:
        """Whether models see a side."""
        return side != "premise" or not self.hypothesis_only

    def first_token(self, size: int) -> int:
        """The position of the first token that models see of a sentence with `size` tokens."""
        return max(0, size - self.max_length) if self.keep == "last" else 0


# ---- tokens and mentions ----


def all_tokens(example: NLIExample, side: str) -> Tokens:
    """The tokens of one side of an example, before any is cut."""
    return example.premise_tokens if side == "premise" else example.hypothesis_tokens


def tokens_of(example: NLIExample, side: str, encoding: Encoding) -> list[str]:
    """The tokens that models see of one side of an example."""
    if not encoding.reads(side):
        return []
    tokens = all_tokens(example, side)
    first = encoding.first_token(len(tokens))
    tokens = tokens[first : first + encoding.max_length]
    return list(map(str.lower, tokens)) if encoding.lowercase else list(tokens)


class PairMentions(NamedTuple):
    """The concepts of N pairs.

    Concepts are found before a sentence is cut, because a cut name could look like another name.

    Args:
      visible: mentions within the tokens that models see; positions count from the first of these.
      whole: mentions in whole sentences.
    """

    visible: SideMentions
    whole: SideMentions


@dataclass(frozen=True, eq=False)
class MentionFinder:
    """Finds the concepts of sentences; links each distinct sentence once."""

    source: ConceptSource
    encoding: Encoding
    _linked: dict[Tokens, list[Mention]] = field(default_factory=dict, repr=False)

    def whole(self, example: NLIExample, side: str) -> list[Mention]:
        """The mentions in a whole sentence."""
        if not self.encoding.reads(side):
            return []
        if isinstance(self.source, Recognised):
            return self.source.mentions(example.uid, side)
        sentence = all_tokens(example, side)
        if sentence not in self._linked:
            self._linked[sentence] = self.source.link(sentence)
        return self._linked[sentence]

    def visible(self, example: NLIExample, side: str) -> list[Mention]:
        """The mentions within the tokens that models see, counted from the first of them."""
        mentions = self.whole(example, side)
        size = len(all_tokens(example, side))
        if size <= self.encoding.max_length:
            return mentions
        return mentions_within(mentions, self.encoding.first_token(size), self.encoding.max_length)


def find_mentions(
    examples: Sequence[NLIExample], source: ConceptSource | None, encoding: Encoding
) -> PairMentions:
    """Finds the concepts of the examples; no concepts if the source is None."""
    if source is None:
        empty: SideMentions = {side: [[]] * len(examples) for side in SIDES}
        return PairMentions(empty, empty)
    finder = MentionFinder(source, encoding)
    mentions = PairMentions({}, {})
    for side in SIDES:
        mentions.visible[side], mentions.whole[side] = [], []
        for example in with_progress(examples, f"concepts of {PLURAL[side]}"):
            mentions.visible[side].append(finder.visible(example, side))
            mentions.whole[side].append(finder.whole(example, side))
    return mentions


def mentions_within(mentions: Sequence[Mention], first: int, size: int) -> list[Mention]:
    """The mentions within the `size` tokens from `first` on, with positions counted from there."""
    inside = []
    for mention in mentions:
        start, end = mention.start - first, mention.end - first
        if start >= 0 and end <= size:
            inside.append(Mention(start, end, mention.concept))
    return inside


def rows_in(splits: Mapping[str, Split]) -> dict[str, slice]:
    """The rows of each split in arrays of all splits, which stand one after the other."""
    ends = np.cumsum([0, *map(len, splits.values())]).tolist()
    return {name: slice(*bounds) for name, bounds in zip(splits, pairwise(ends), strict=True)}


def words_and_entities(tokens: Sequence[str], mentions: Sequence[Mention] = ()) -> list[Tokens]:
    """Merges the tokens of each entity to one word. Of overlapping entities the first is used; of
    several that begin at one token, the longest."""
    end_of: dict[int, int] = {}
    for mention in mentions:
        end_of[mention.start] = max(mention.end, end_of.get(mention.start, 0))
    words = []
    start = 0
    while start < len(tokens):
        end = end_of.get(start, start + 1)
        words.append(tuple(tokens[start:end]))
        start = end
    return words


def merge_entities(examples: Sequence[NLIExample], mentions: SideMentions) -> list[NLIExample]:
    """Joins the tokens of each entity in the examples, as in brain_injury (Herlihy & Rudinger
    2021, section 6). mentions: the entities."""
    merged_examples = []
    pairs = zip(examples, mentions["premise"], mentions["hypothesis"], strict=True)
    for example, in_premise, in_hypothesis in pairs:
        premise = tuple(map("_".join, words_and_entities(example.premise_tokens, in_premise)))
        hypothesis = tuple(
            map("_".join, words_and_entities(example.hypothesis_tokens, in_hypothesis))
        )
        merged_examples.append(
            replace(example, premise_tokens=premise, hypothesis_tokens=hypothesis)
        )
    return merged_examples


# ---- links ----


class ArraysAndFacts(NamedTuple):
    arrays: dict[str, np.ndarray]
    facts: JsonObject


def encode_links(
    mentions: PairMentions,
    source: ConceptSource,
    encoding: Encoding,
    words_of: MentionWords,
    rows: Mapping[str, slice],
    concepts: Iterable[str] | None = None,
) -> ArraysAndFacts:
    """Computes the link arrays [N, K] of some pairs, by the ontology of `source`, and counts of the
    links.

    Args:
      words_of: gives the words of a visible mention, for typed links.
      rows: the rows of each split, for the fact `splits`.
      concepts: the concepts of the graph of a finished run, the fact `graph_concepts` of its
        corpus. None leaves the choice to encoding.graph.
    """
    graph = source.ontology
    facts: JsonObject = {"graph": encoding.graph}
    # New pairs (for `predict`) come without train and dev (GRAPH_SPLITS). If the run gives no
    # concepts either, the whole graph is used.
    if concepts is None and encoding.graph == "mentioned" and rows.keys() & set(GRAPH_SPLITS):
        concepts = mentioned_concepts(mentions.whole, rows)
    if concepts is not None:
        facts["graph_concepts"] = sorted(_ontology_ids(concepts, source))
        graph = induced_subgraph(graph, facts["graph_concepts"])
    links = _links(graph, words_of, mentions.visible, source, encoding)
    if links.relation is not None:
        facts["relations"] = _links_per_kind(links.relation, kinds_of(encoding.relations or ()))
    facts |= _link_facts(links, mentions.visible, source)
    facts["splits"] = {}
    for name, of_split in rows.items():
        distance_NK = links.distance[of_split]
        facts["splits"][name] = _split_facts(distance_NK, mentions.visible, of_split)
    return ArraysAndFacts(_link_arrays(links), facts)


def mentioned_concepts(whole: SideMentions, rows: Mapping[str, slice]) -> set[str]:
    """The concepts that the pairs of GRAPH_SPLITS mention. rows: of each split."""
    concepts: set[str] = set()
    for name in GRAPH_SPLITS:
        if name in rows:
            for of_side in whole.values():
                concepts.update(_concept_of_each(of_side[rows[name]]))
    return concepts


def concepts_in(mentions: Iterable[Mention]) -> set[str]:
    """The distinct concepts of the mentions of one sentence."""
    return {mention.concept for mention in mentions}


def _concept_of_each(sentences: Iterable[Sequence[Mention]]) -> list[str]:
    """The concept of each mention in some sentences, with repeats."""
    return [mention.concept for mentions in sentences for mention in mentions]


def _ontology_ids(concepts: Iterable[str], source: ConceptSource) -> set[str]:
    """Maps the concepts that mentions name to ids of the ontology. A concept that the ontology
    lacks is kept as it is."""
    ontology = source.ontology
    ids = set()
    # A concept of a linker, a file of mentions or a finished run's graph is an id, which
    # ontology.indices knows. A concept of Lemmas is a word, which only source.indices knows.
    for concept in concepts:
        senses = source.indices(concept)
        if ontology.indices(concept) or not senses:
            ids.add(concept)
        else:  # a word of Lemmas stands for all its senses
            ids.update(ontology.ids[sense] for sense in senses)
    return ids


def _links(
    graph: Ontology,
    words_of: MentionWords,
    mentions: SideMentions,
    source: ConceptSource,
    encoding: Encoding,
) -> Links:
    """The links of all pairs; they have types if encoding.relations is not None."""
    if encoding.relations is None:
        return corpus_links(
            graph,
            mentions["premise"],
            mentions["hypothesis"],
            max_links=encoding.max_links,
            direction=encoding.direction,
            max_length=encoding.max_path,
        )
    return typed_links(
        graph,
        mentions["premise"],
        mentions["hypothesis"],
        term_lookup(words_of, source),
        named=encoding.relations,
        max_links=encoding.max_links,
        max_length=encoding.max_path,
    )


def term_lookup(words_of: MentionWords, source: ConceptSource) -> TermOf:
    """Makes the function `term_of` of relations.typed_links, which compares mentions by terms.

    term_of(side, number of the pair, mention) is (text, indices): the mention's words in the form
    in which they are compared, and the indices of its concept in the ontology. A concept that the
    ontology lacks gets an index past the ontology's end.
    """
    unknown: dict[str, int] = {}  # concept that the ontology lacks -> its number among these

    @cache
    def compared_form(tokens: Tokens) -> str:
        return " ".join(singular(part) for token in tokens for part in normalise(token))

    def term_of(side: str, number: int, mention: Mention) -> tuple[str, tuple[int, ...]]:
        indices = source.indices(mention.concept)
        if isinstance(source, Lemmas):
            return mention.concept, tuple(indices)  # a concept of Lemmas is the word's base form
        if not indices:
            indices = [len(source.ontology) + unknown.setdefault(mention.concept, len(unknown))]
        return compared_form(tuple(words_of(side, number, mention))), tuple(indices)

    return term_of


def _link_arrays(links: Links) -> dict[str, np.ndarray]:
    """The arrays [N, K]; K: the most links that a pair has, at least 1."""
    most = int((links.distance >= 0).sum(axis=1).max(initial=0))
    width = max(most, 1)
    arrays = {
        "link_premise": links.premise[:, :width],
        "link_hypothesis": links.hypothesis[:, :width],
        "link_distance": links.distance[:, :width],
    }
    if links.relation is not None:
        arrays["link_relation"] = links.relation[:, :width]
    return arrays


def project_relations(
    links: ArraysAndFacts,
    tokens: Mapping[str, np.ndarray],
    examples: Sequence[NLIExample],
    encoding: Encoding,
) -> ArraysAndFacts:
    """Projects the relations of links by natural logic (MacCartney & Manning 2007, section 3).

    If both words of a link are in the scope of a negation, hypernym and hyponym are exchanged: "no
    animal" entails "no dog", so that "dog" counts as a hypernym of "animal" there. A link with both
    relations stays.

    tokens: the arrays of both sides [N, T].
    """
    relation_NK = links.arrays["link_relation"]
    both_down_NK = links.arrays["link_distance"] >= 0  # False in slots without a link
    for side in SIDES:
        is_down_NT = _downward_tokens(examples, side, encoding, tokens[side].shape[1])
        token_NK = links.arrays[f"link_{side}"].astype(int)
        both_down_NK &= np.take_along_axis(is_down_NT, token_NK, axis=1)
    has_hypernym_NK = (relation_NK & HYPERNYM).astype(bool)
    has_hyponym_NK = (relation_NK & HYPONYM).astype(bool)
    is_exchanged_NK = both_down_NK & (has_hypernym_NK != has_hyponym_NK)
    # One of the two bits is set, and flipping both sets the other.
    projected_NK = np.where(is_exchanged_NK, relation_NK ^ (HYPERNYM | HYPONYM), relation_NK)
    counts = _links_per_kind(projected_NK, kinds_of(encoding.relations or ()))
    return ArraysAndFacts(
        links.arrays | {"link_relation": projected_NK}, links.facts | {"relations": counts}
    )


def _downward_tokens(
    examples: Sequence[NLIExample], side: str, encoding: Encoding, width: int
) -> np.ndarray:
    """bool [N, width], whether polarity.directions gives DOWN to each visible token."""
    directions_of = cache(directions)
    is_down_NT = np.zeros((len(examples), width), bool)
    for row, example in enumerate(examples):
        tokens = all_tokens(example, side)
        first = encoding.first_token(len(tokens))
        visible = directions_of(tokens)[first : first + width]
        is_down_NT[row, : len(visible)] = [direction == DOWN for direction in visible]
    return is_down_NT


def _link_facts(links: Links, mentions: SideMentions, source: ConceptSource) -> JsonObject:
    ontology = source.ontology
    sentences = [*mentions["premise"], *mentions["hypothesis"]]
    concepts = _concept_of_each(sentences)
    distinct = set(concepts)
    unknown = {concept for concept in distinct if not source.indices(concept)}
    filled = links.distance >= 0
    facts = {
        "sentences_with_mentions": sum(map(bool, sentences)),
        "concepts_mentioned": len(distinct),
        "concepts_in_ontology": len(distinct) - len(unknown),
        "ontology": ontology.name,
        "version": ontology.version,
        "sha256": ontology.sha256,
        "concepts": len(ontology),
        "longest_path": max(links.longest, 0),
        "dropped_links": links.dropped,
        "pairs_with_links": int(filled.any(axis=1).sum()),
        "links": int(filled.sum()),
        "links_per_length": _links_per_length(links.distance),
    }
    if isinstance(source, Recognised):
        counts = {
            "of_unknown_concepts": sum(concept in unknown for concept in concepts),
            "unknown_concepts": len(unknown),
        }
        facts["mentions"] = source.facts | counts
    return facts


def _split_facts(distance_NK: np.ndarray, mentions: SideMentions, rows: slice) -> JsonObject:
    """Counts of the pairs of a split that name concepts and that are linked."""
    premises, hypotheses = mentions["premise"][rows], mentions["hypothesis"][rows]
    return {
        "premises": sum(map(bool, premises)),
        "hypotheses": sum(map(bool, hypotheses)),
        "pairs_with_concepts": sum(map(all, zip(premises, hypotheses, strict=True))),
        "pairs_with_links": int((distance_NK >= 0).any(axis=1).sum()),
        "concepts": len(set(_concept_of_each([*premises, *hypotheses]))),
        "links_per_length": _links_per_length(distance_NK),
    }


def _links_per_length(distance_NK: np.ndarray) -> dict[str, int]:
    """The number of links for each number of edges; -1 is an empty slot."""
    lengths, counts = np.unique(distance_NK[distance_NK >= 0], return_counts=True)
    return dict(zip(map(str, lengths.tolist()), counts.tolist(), strict=True))


def _links_per_kind(relation_NK: np.ndarray, kinds: Sequence[str]) -> dict[str, int]:
    """The number of links that have the bit of each kind."""
    return {kind: int((relation_NK >> bit & 1).sum()) for bit, kind in enumerate(kinds)}
