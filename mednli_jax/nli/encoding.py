"""From Examples to padded arrays of words or of word pieces (for BERT): premise, hypothesis [N, T]
and link_* [N, K].

Dimension letters: N rows, T tokens, K links, V words, D numbers per word.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np

from mednli_jax.data.arrays import PLURAL, SIDES, pad
from mednli_jax.data.examples import LABELS, Mention, NLIExample, Split
from mednli_jax.data.text import UNK, Vocab
from mednli_jax.data.vectors import coverage, load_vectors, training_coverage
from mednli_jax.data.wordpiece import Pieces, WordPieces, room_for
from mednli_jax.knowledge.distances import corpus_links, shortest_paths
from mednli_jax.knowledge.linking import Lemmas, Linker, normalise, singular
from mednli_jax.knowledge.mentions import Recognised
from mednli_jax.knowledge.ontology import induced
from mednli_jax.knowledge.relations import kinds_of, typed_links
from mednli_jax.knowledge.retrofit import retrofit, retrofit_concepts, unit_rows
from mednli_jax.terminal import watched

FORMAT = 5  # when to raise it: tests/data/test_prepared_content.py
SPECIAL_PIECES = 3  # [CLS] premise [SEP] hypothesis [SEP]
GRAPH_SPLITS = ("train", "dev")
UNLIMITED = np.iinfo(np.int16).max  # tokens of a side
Mentions = dict[str, list[list[Mention]]]


@dataclass(frozen=True)
class Encoding:
    """How Examples become arrays. Every field is part of the prepared folder's key.

    Args:
      max_length: tokens kept of each sentence, its "first" or its "last" ones (keep).
      hypothesis_only: premises are left empty.
      vectors_path: None = random. unknown, lowered: see vectors.load_vectors. unit_length: of every word's vector.
      max_links: K. max_path: longest path in edges, 0 = no limit.
      graph: the ontology's "whole" graph, or that of the concepts that train and dev have "mentioned".
      relations: named relations of typed links (`knowledge.relations`), None for links without types.
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

    def first_kept(self, size: int) -> int:
        """The position of the first token that is kept of a sentence with `size` tokens."""
        return max(0, size - self.max_length) if self.keep == "last" else 0


def tokens_of(example, side: str, encoding: Encoding) -> list[str]:
    """The tokens a model sees of one side of an example."""
    if encoding.hypothesis_only and side == "premise":
        return []
    tokens = all_tokens(example, side)
    first = encoding.first_kept(len(tokens))
    return [
        token.lower() if encoding.lowercase else token
        for token in tokens[first : first + encoding.max_length]
    ]


def all_tokens(example, side: str) -> tuple[str, ...]:
    return example.premise_tokens if side == "premise" else example.hypothesis_tokens


def whole_mentions(examples, linker: Linker | Recognised | None, encoding: Encoding, found=None):
    """The mentions of each side in whole sentences: the linker's, those of a file, or none.

    found: sentence -> its mentions, filled here, so that each distinct sentence is linked once.
    """
    found = {} if found is None else found

    def of(example, side):
        if linker is None or (encoding.hypothesis_only and side == "premise"):
            return []
        if isinstance(linker, Recognised):
            return linker.mentions(example.uid, side)
        sentence = all_tokens(example, side)
        if sentence not in found:
            found[sentence] = linker.link(sentence)
        return found[sentence]

    return {
        side: [of(example, side) for example in watched(examples, f"concepts of {PLURAL[side]}")]
        for side in SIDES
    }


def find_mentions(examples, linker, encoding: Encoding, found=None) -> Mentions:
    """The mentions of `whole_mentions` within the tokens that are kept, counted from the first kept
    token.

    Whole sentences are linked, because the beginning of a cut name could be taken for another name.
    """
    return _kept(whole_mentions(examples, linker, encoding, found), examples, encoding)


def _kept(whole: Mentions, examples, encoding) -> Mentions:
    most, kept = encoding.max_length, {side: [] for side in SIDES}
    for side, mentions in whole.items():
        for of_example, example in zip(mentions, examples, strict=True):
            size = len(all_tokens(example, side))
            if size > most:
                of_example = _within(of_example, encoding.first_kept(size), most)
            kept[side].append(of_example)
    return kept


def _within(mentions: Sequence[Mention], first: int, most: int) -> list[Mention]:
    """The mentions within the `most` tokens from `first` on, counted from there."""
    moved = (
        Mention(mention.start - first, mention.end - first, mention.concept) for mention in mentions
    )
    return [mention for mention in moved if mention.start >= 0 and mention.end <= most]


def mentioned(whole: Mentions, rows: dict[str, slice]) -> set[str]:
    """The concepts that the pairs of GRAPH_SPLITS mention. rows: of each split."""
    parts = [lists[rows[name]] for name in GRAPH_SPLITS if name in rows for lists in whole.values()]
    return {mention.concept for lists in parts for found in lists for mention in found}


def rows_in(splits: dict[str, Split]) -> dict[str, slice]:
    """The rows of each split in arrays of all splits, one after the other."""
    ends = np.cumsum([0, *map(len, splits.values())]).tolist()
    return {name: slice(*part) for name, part in zip(splits, pairwise(ends), strict=True)}


Unit = tuple[str, ...]  # a token, or the tokens of an entity


def units(tokens: Sequence[str], mentions: Sequence[Mention] = ()) -> list[Unit]:
    """The tokens, with each entity as one unit. Of overlapping entities the first is used, and of
    those the longest."""
    longest: dict[int, int] = {}
    for mention in mentions:
        longest[mention.start] = max(mention.end, longest.get(mention.start, 0))
    found, place = [], 0
    while place < len(tokens):
        end = max(longest.get(place, 0), place + 1)
        found.append(tuple(tokens[place:end]))
        place = end
    return found


def merged(examples: Sequence[NLIExample], mentions: Mentions) -> list[NLIExample]:
    """The examples, with the tokens of each entity as one, brain_injury (Herlihy & Rudinger 2021,
    section 6)."""
    found = []
    for example, *both in zip(examples, *mentions.values(), strict=True):
        tokens = {}
        for side, spans in zip(mentions, both, strict=True):
            tokens[f"{side}_tokens"] = tuple(map("_".join, units(all_tokens(example, side), spans)))
        found.append(replace(example, **tokens))
    return found


def units_of(examples, linker, encoding):
    """The `unit_of` of knowledge.relations; concepts that the ontology lacks get numbers after the
    known ones."""
    unknown = {}

    @cache
    def words_of(tokens):
        return " ".join(singular(part) for token in tokens for part in normalise(token))

    def unit_of(side, number, mention):
        indices = linker.indices(mention.concept)
        if isinstance(linker, Lemmas):
            return mention.concept, tuple(indices)
        tokens = tokens_of(examples[number], side, encoding)[mention.start : mention.end]
        indices = indices or [
            len(linker.ontology) + unknown.setdefault(mention.concept, len(unknown))
        ]
        return words_of(tuple(tokens)), tuple(indices)

    return unit_of


def encode_links(
    examples,
    mentions: Mentions,
    whole: Mentions,
    linker: Linker | Recognised,
    encoding: Encoding,
    paths=shortest_paths,
    concepts: Iterable[str] | None = None,
    rows: dict[str, slice] | None = None,
) -> tuple[dict, dict]:
    """(link arrays [N, K] of some examples, by the linker's ontology; facts about the links).

    Args:
      mentions: mentions within the tokens that are kept.
      whole: mentions in whole sentences, whose concepts form the graph of mentioned concepts.
      paths: finds distances between concepts, see distances.corpus_links.
      concepts: of the graph (the fact `graph_concepts`), None for those of GRAPH_SPLITS if the encoding asks for them.
      rows: of each split, for the fact `splits`.
    """
    ontology, rows = linker.ontology, rows or {}
    graph, facts = ontology, {"graph": encoding.graph}
    if (
        concepts is None
        and encoding.graph == "mentioned"
        and not rows.keys().isdisjoint(GRAPH_SPLITS)
    ):
        concepts = mentioned(whole, rows)
    if concepts is not None:
        facts["graph_concepts"] = sorted(_ids(concepts, linker))
        graph = induced(ontology, facts["graph_concepts"])
    both = (graph, mentions["premise"], mentions["hypothesis"])
    limits = {
        "max_links": encoding.max_links,
        "max_tokens": UNLIMITED,
        "max_length": encoding.max_path,
    }
    if encoding.relations is None:
        links = corpus_links(*both, direction=encoding.direction, paths=paths, **limits)
    else:
        links = typed_links(
            *both, units_of(examples, linker, encoding), named=encoding.relations, **limits
        )
    filled = links.distance >= 0
    width = max(int(filled.sum(axis=1).max(initial=0)), 1)
    arrays = {f"link_{name}": getattr(links, name)[:, :width] for name in (*SIDES, "distance")}
    if encoding.relations is not None:
        arrays["link_relation"] = links.relation[:, :width]
        kinds = kinds_of(encoding.relations)
        facts["relations"] = {
            kind: int((links.relation >> bit & 1).sum()) for bit, kind in enumerate(kinds)
        }
    given = [mention.concept for lists in mentions.values() for found in lists for mention in found]
    named = set(given)
    unknown = {concept for concept in named if not linker.indices(concept)}
    facts |= {
        "sentences_with_mentions": sum(
            bool(found) for lists in mentions.values() for found in lists
        ),
        "concepts_mentioned": len(named),
        "concepts_in_ontology": len(named - unknown),
        "ontology": ontology.name,
        "version": ontology.version,
        "sha256": ontology.sha256,
        "concepts": len(ontology),
        "longest_path": max(links.longest, 0),
        "dropped_links": links.dropped,
        "pairs_with_links": int(filled.any(axis=1).sum()),
        "links": int(filled.sum()),
        "links_per_length": _per_length(links.distance),
    }
    if rows:
        facts["splits"] = {
            name: _linked(mentions, links.distance, part) for name, part in rows.items()
        }
    if isinstance(linker, Recognised):
        counts = {
            "of_unknown_concepts": sum(c in unknown for c in given),
            "unknown_concepts": len(unknown),
        }
        facts["mentions"] = linker.facts | counts
    return arrays, facts


def _ids(concepts, linker) -> set[str]:
    """The concepts as the ontology knows them; a key that joins several senses is split."""
    ontology = linker.ontology
    found = ((c, [] if ontology.indices(c) else linker.indices(c)) for c in concepts)
    return {
        concept
        for c, senses in found
        for concept in ([ontology.ids[place] for place in senses] or [c])
    }


def _per_length(distance):
    """{edges: links} of link distances, -1 where there is no link."""
    lengths, counts = np.unique(distance[distance >= 0], return_counts=True)
    return {str(d): int(n) for d, n in zip(lengths, counts, strict=True)}


def _linked(mentions, distance, rows):
    """Counts of some pairs: how many name concepts, how many are linked, and over how many
    edges."""
    has = [np.array([bool(found) for found in mentions[side][rows]], bool) for side in SIDES]
    return {
        "premises": int(has[0].sum()),
        "hypotheses": int(has[1].sum()),
        "pairs_with_concepts": int((has[0] & has[1]).sum()),
        "pairs_with_links": int((distance[rows] >= 0).any(axis=1).sum()),
        "concepts": len(
            {
                mention.concept
                for side in SIDES
                for found in mentions[side][rows]
                for mention in found
            }
        ),
        "links_per_length": _per_length(distance[rows]),
    }


@dataclass(frozen=True, eq=False)
class Encoded:
    """Texts as numbers.

    Args:
      arrays: premise, hypothesis [N, T] and their lengths [N]; T = the longest.
      cut: how many texts of each side, or how many "pairs", are longer than their numbers.
      pieces: of each side, the N texts before any is cut; empty for words.
    """

    examples: Sequence[NLIExample]
    arrays: dict[str, np.ndarray]
    cut: dict[str, int]
    pieces: dict[str, list[Pieces]] = field(default_factory=dict)


def _padded(numbers: dict[str, list]) -> dict[str, np.ndarray]:
    arrays = {}
    for side, of_side in numbers.items():
        longest = max(max(map(len, of_side), default=0), 1)
        arrays[side], arrays[f"{side}_length"] = pad(of_side, longest)
    return arrays


@dataclass(frozen=True, eq=False)
class WordTexts:
    """How the texts of pairs become numbers: words with vectors. `PieceTexts` is the same for
    pieces of words.

    vocabulary: None until one is fitted.
    """

    encoding: Encoding
    vocabulary: Vocab | None = None

    unknown: ClassVar[int] = UNK

    def fit(self, splits, examples, retrofit_graph) -> tuple[Vocab, np.ndarray, dict]:
        """(the vocabulary of the examples, its vectors [V, D], facts of it)."""
        encoding = self.encoding
        counts_of = {name: self._counts(split.examples) for name, split in splits.items()}
        counts = sum(counts_of.values(), Counter())
        seen = Vocab.of_counts(counts)
        vectors = load_vectors(
            encoding.vectors_path,
            seen.words,
            dim=encoding.vectors_dim,
            seed=encoding.vectors_seed,
            unknown=encoding.unknown,
            lowered=encoding.lowered,
        )
        vocabulary, matrix = vectors.covered()
        graph = retrofit_graph(vocabulary.words)
        if graph is not None:
            matrix = retrofit(matrix, graph, rounds=encoding.retrofit_rounds)
        if encoding.unit_length:
            matrix = unit_rows(matrix)
        return (
            vocabulary,
            matrix,
            {
                "words": len(seen) - 2,
                "with_vector": vectors.with_vector,
                "lowered": vectors.lowered,
                "source": vectors.file,
                "sha256": vectors.sha256,
                "coverage": asdict(coverage(vectors, counts)),
                "training_tokens": asdict(
                    training_coverage(vectors, counts_of.get("train", counts))
                ),
                "retrofitted": 0 if graph is None else int((np.diff(graph.indptr) > 0).sum()),
            },
        )

    def _counts(self, examples: Sequence[NLIExample]) -> Counter:
        """How often each word stands in the examples."""
        rows = watched(examples, "vocabulary")
        return Counter(
            token
            for example in rows
            for side in SIDES
            for token in tokens_of(example, side, self.encoding)
        )

    def tokens(self, example, side: str) -> list[str]:
        """The words that the numbers of one side stand for, known or not."""
        return tokens_of(example, side, self.encoding)

    def encode(self, examples: Sequence[NLIExample]) -> Encoded:
        """The examples as numbers of words."""
        numbers, cut = {}, {}
        for side in SIDES:
            rows = watched(examples, f"words of {PLURAL[side]}")
            numbers[side] = [self.vocabulary.encode(self.tokens(example, side)) for example in rows]
            cut[side] = sum(
                len(all_tokens(example, side)) > self.encoding.max_length for example in examples
            )
        return Encoded(examples, _padded(numbers), cut)

    def mentions(self, encoded: Encoded, linker: Linker | Recognised) -> tuple[Mentions, Mentions]:
        """The mentions within the arrays, and in whole sentences."""
        whole = whole_mentions(encoded.examples, linker, self.encoding)
        return _kept(whole, encoded.examples, self.encoding), whole

    def facts(self, encoded: Encoded) -> dict:
        """Counts of what the arrays leave out."""
        return {"truncated": encoded.cut}


def mark(concept: str) -> str:
    """The word that stands for a concept: no word of a text has a space in it."""
    return f" {concept}"


@dataclass(frozen=True, eq=False)
class ConceptVectors:
    """The concepts of a run, as `mark` writes them, and their vectors float32 [C, D]."""

    words: tuple[str, ...]
    vectors: np.ndarray

    @classmethod
    def of_vocabulary(cls, vocabulary: Vocab, vectors: np.ndarray) -> "ConceptVectors":
        rows = [row for row, word in enumerate(vocabulary.words) if word.startswith(" ")]
        return cls(
            tuple(vocabulary.words[row] for row in rows), np.asarray(vectors[rows], np.float32)
        )

    def digest(self) -> str:
        """The sha256 of the content."""
        words = "\n".join(self.words).encode("utf-8", "surrogatepass")
        return hashlib.sha256(words + b"\0" + self.vectors.tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class ConceptTexts(WordTexts):
    """WordTexts in which concepts replace words, with retrofitted vectors (Romanov & Shivade 2018,
    section 4.2.1).

    Every word of a mention becomes the id of its concept: the published code made one token of a
    mention, here lengths and links stay. The vector of a concept is the mean of the words of its
    most frequent mention in training (which the published code computes but does not use),
    retrofitted along these relations. A concept without a known word leaves its words as they are.

    of_run: the concepts of the run that is asked about another corpus, in place of new ones.
    linked: sentence -> its mentions, so that each distinct sentence is linked once.
    """

    linker: Linker | Recognised | None = None
    relations: Sequence[str] = ()
    of_run: ConceptVectors | None = None
    linked: dict[tuple[str, ...], list[Mention]] = field(default_factory=dict, repr=False)

    def _mentions(self, examples):
        return find_mentions(examples, self.linker, self.encoding, self.linked)

    def tokens(self, example, side: str) -> list[str]:
        """The tokens of one side; of overlapping mentions the first is used."""
        words = super().tokens(example, side)
        for mention in reversed(self._mentions([example])[side][0]):
            if (word := mark(mention.concept)) in self.vocabulary:
                words[mention.start : mention.end] = [word] * (mention.end - mention.start)
        return words

    def fit(self, splits, examples, retrofit_graph) -> tuple[Vocab, np.ndarray, dict]:
        """(the vocabulary of words and of concepts, its vectors [V, D], facts of it)."""
        of_words, matrix, facts = super().fit(splits, examples, retrofit_graph)
        if self.of_run:
            count = len(self.of_run.words)
            facts |= {"concepts": count, "concepts_with_vector": count}
            vocabulary = Vocab(of_words.words + self.of_run.words)
            return vocabulary, np.concatenate([matrix, self.of_run.vectors]), facts
        ontology, phrases, mentioned_concepts = self.linker.ontology, Counter(), set()
        trained = {example.uid for example in splits["train"].examples}
        for side, of_side in self._mentions(examples).items():
            for example, mentions in zip(examples, of_side, strict=True):
                words = super().tokens(example, side)
                for mention in mentions:
                    index = ontology.index_of.get(mention.concept)
                    if index is None:
                        continue
                    mentioned_concepts.add(index)
                    if example.uid in trained:
                        phrases[" ".join(words[mention.start : mention.end]), index] += 1
        vectors, missing, moved = retrofit_concepts(
            ontology,
            matrix,
            of_words.words,
            list(phrases.elements()),
            relations=self.relations,
            rounds=self.encoding.retrofit_rounds,
        )
        served = sorted(index for index in mentioned_concepts if not missing[index])
        vocabulary = Vocab(of_words.words + tuple(mark(ontology.ids[index]) for index in served))
        facts |= {
            "concepts": len(mentioned_concepts),
            "concepts_with_vector": len(served),
            "retrofitted": moved,
        }
        return vocabulary, np.concatenate([matrix, vectors[served]]).astype(np.float32), facts


@dataclass(frozen=True)
class PieceEncoding:
    """The settings of pieces. Every field is part of the prepared folder's key.

    Args:
      file: the weights' folder or vocabulary; None makes a vocabulary of `size` pieces from the training texts.
      room: most pieces of a pair, special ones included; the longer side is cut first. Encoding.keep says at which end.
    """

    file: Path | None
    size: int
    room: int


@dataclass(frozen=True, eq=False)
class PieceTexts:
    """WordTexts for pieces of the raw texts, without special ones. Concepts are found among the
    words of the pieces."""

    encoding: Encoding
    pieces: PieceEncoding
    vocabulary: WordPieces | None = None

    @property
    def unknown(self) -> int:
        return self.vocabulary.unk

    def fit(self, splits, examples, retrofit_graph) -> tuple[WordPieces, np.ndarray, dict]:
        """(the vocabulary of the weights, or one of the training texts; no vectors [V, 1]; facts of
        it)."""
        if self.pieces.file is not None:
            vocabulary = WordPieces.load(self.pieces.file)
        else:
            texts = (
                text
                for example in splits["train"].examples
                for text in (example.premise, example.hypothesis)
            )
            vocabulary = WordPieces.of_texts(
                texts, self.pieces.size, lowercase=self.encoding.lowercase
            )
        source = (
            "pieces of training texts"
            if self.pieces.file is None
            else f"pieces of {self.pieces.file.name}"
        )
        words = len(vocabulary)
        facts = {
            "words": words,
            "with_vector": 0,
            "lowered": 0,
            "source": source,
            "sha256": "",
            "retrofitted": 0,
        }
        return vocabulary, np.zeros((words, 1), np.float32), facts

    def encode(self, examples: Sequence[NLIExample]) -> Encoded:
        """The examples as numbers of pieces."""
        pieces, pieces_of = {}, cache(self.vocabulary.encode)
        for side in SIDES:
            left_out = self.encoding.hypothesis_only and side == "premise"
            rows = watched(examples, f"pieces of {PLURAL[side]}")
            pieces[side] = [
                pieces_of("" if left_out else getattr(example, side)) for example in rows
            ]
        cut, numbers = 0, {side: [] for side in SIDES}
        for both in zip(*pieces.values(), strict=True):
            sizes = tuple(len(of_side.numbers) for of_side in both)
            fitting = room_for(*sizes, self.pieces.room - SPECIAL_PIECES)
            cut += fitting != sizes
            for side, of_side, most in zip(SIDES, both, fitting, strict=True):
                first = self._first_kept(of_side, most)
                numbers[side].append(of_side.numbers[first : first + most])
        return Encoded(examples, _padded(numbers), {"pairs": cut}, pieces)

    def _first_kept(self, of_side: Pieces, most: int) -> int:
        """The position of the first of `most` pieces that are kept of a text."""
        return len(of_side.numbers) - most if self.encoding.keep == "last" else 0

    def tokens(self, example, side: str) -> list[str]:
        """The pieces of one side, before any is cut."""
        return [
            self.vocabulary.words[number]
            for number in self.vocabulary.encode(getattr(example, side)).numbers
        ]

    def mentions(self, encoded: Encoded, linker: Linker) -> tuple[Mentions, Mentions]:
        """See WordTexts."""
        linked, whole, mentions = {}, {}, {}
        for side, pieces in encoded.pieces.items():
            rows = watched(pieces, f"concepts of {PLURAL[side]}")
            whole[side] = [_of_pieces(of_text, linker, linked) for of_text in rows]
            mentions[side], lengths = [], encoded.arrays[f"{side}_length"].tolist()
            for of_whole, of_text, most in zip(whole[side], pieces, lengths, strict=True):
                mentions[side].append(_within(of_whole, self._first_kept(of_text, most), most))
        return mentions, whole

    def facts(self, encoded: Encoded) -> dict:
        """Sizes and special pieces of the vocabulary, and pairs that were cut."""
        pieces = self.vocabulary
        numbers = {"size": len(pieces), "cls": pieces.cls, "sep": pieces.sep, "unknown": pieces.unk}
        return {"pieces": {**numbers, "room": self.pieces.room}, "truncated": encoded.cut}


def _of_pieces(of_side: Pieces, linker, linked: dict) -> list[Mention]:
    """Mentions among the words, as spans of pieces."""
    if of_side.words not in linked:
        first = np.searchsorted(of_side.word_of_piece, np.arange(len(of_side.words) + 1)).tolist()
        linked[of_side.words] = [
            Mention(first[mention.start], first[mention.end], mention.concept)
            for mention in linker.link(of_side.words)
        ]
    return linked[of_side.words]


def encode_corpus(
    splits, linker, encoding, retrofit_graph=lambda words: None, paths=shortest_paths, texts=None
):
    """(arrays, vocabulary, vectors, facts) of a corpus. texts: None = WordTexts. The others: see
    encode_splits."""
    texts = texts or WordTexts(encoding)
    examples = [example for split in splits.values() for example in split.examples]
    vocabulary, vectors, of_vocabulary = texts.fit(splits, examples, retrofit_graph)
    arrays, facts = encode_splits(splits, replace(texts, vocabulary=vocabulary), linker, paths)
    return arrays, vocabulary, vectors, {**facts, "vocabulary": of_vocabulary}


def encode_splits(
    splits: dict[str, Split],
    texts,
    linker: Linker | Recognised | None,
    paths: Callable = shortest_paths,
    concepts: Iterable[str] | None = None,
) -> tuple[dict, dict]:
    """(arrays of some splits, facts about them), in the vocabulary of `texts`. paths, concepts: see
    encode_links."""
    examples = [example for split in splits.values() for example in split.examples]
    rows = rows_in(splits)
    encoded = texts.encode(examples)
    links, knowledge = {}, {"ontology": "none", "longest_path": 0}
    if linker is not None:
        mentions, whole = texts.mentions(encoded, linker)
        links, knowledge = encode_links(
            examples, mentions, whole, linker, texts.encoding, paths, concepts, rows
        )
    facts = {
        "splits": {
            name: {**s.facts, "first": rows[name].start, "rows": len(s)}
            for name, s in splits.items()
        },
        "unknown_tokens": {
            side: int((encoded.arrays[side] == texts.unknown).sum()) for side in SIDES
        },
        **texts.facts(encoded),
        "knowledge": knowledge,
    }
    label = np.array([LABELS.index(e.label) if e.label else -1 for e in examples], np.int32)
    return {**encoded.arrays, "label": label, **links}, facts
