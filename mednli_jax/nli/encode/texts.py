"""Sentence pairs as arrays of words or of word pieces (for BERT): premise, hypothesis [N, T].

Dimension letters: N rows, T tokens, V words, D numbers per word, C concepts.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.arrays import PLURAL, SIDES, pad
from mednli_jax.data.examples import LABELS, Mention, NLIExample, Split
from mednli_jax.data.pieces import Pieces, PieceVocabulary, truncated_sizes
from mednli_jax.data.text import SPECIALS, UNK, Vocab
from mednli_jax.data.vectors import load_vectors, training_coverage
from mednli_jax.knowledge.mentions import Recognised
from mednli_jax.knowledge.retrofit import retrofit, retrofit_concepts, unit_rows
from mednli_jax.nli.encode.links import (
    ArraysAndFacts,
    ConceptSource,
    Encoding,
    MentionFinder,
    MentionWords,
    PairMentions,
    Tokens,
    all_tokens,
    encode_links,
    find_mentions,
    mentions_within,
    project_relations,
    rows_in,
    tokens_of,
)
from mednli_jax.terminal import with_progress
from mednli_jax.types import JsonObject

FORMAT = 8  # when to raise it: tests/data/test_prepared_content.py
Vocabulary = Vocab | PieceVocabulary
RetrofitGraph = Callable[[Sequence[str]], csr_array | None]  # words -> their neighbours, [V, V]


class FittedTexts(NamedTuple):
    """Texts with a vocabulary, its vectors [V, D] and counts for the manifest."""

    texts: "PairTexts"
    vectors: np.ndarray
    facts: JsonObject


@dataclass(frozen=True, eq=False)
class Encoded:
    """The texts of N pairs as numbers.

    Args:
      arrays: premise, hypothesis [N, T] and their lengths [N]; T: the longest text of a side.
      cut: how many were cut: {"premise": texts, "hypothesis": texts} for words, {"pairs": pairs}
        for word pieces.
      pieces: side -> the pieces of N texts before any is cut; empty for words.
    """

    examples: Sequence[NLIExample]
    arrays: dict[str, np.ndarray]
    cut: dict[str, int]
    pieces: dict[str, list[Pieces]] = field(default_factory=dict)


def examples_of(splits: Mapping[str, Split]) -> list[NLIExample]:
    """The examples of all splits, in the order of the arrays' rows."""
    return [example for split in splits.values() for example in split.examples]


def _pad(numbers: Mapping[str, Sequence[Sequence[int]]]) -> dict[str, np.ndarray]:
    """The arrays [N, T] and the lengths [N] of each side. numbers: side -> those of N texts."""
    arrays = {}
    for side, texts in numbers.items():
        longest = max(map(len, texts), default=0)
        arrays[side], arrays[f"{side}_length"] = pad(texts, max(longest, 1))
    return arrays


NO_WORDS = Vocab(())


@dataclass(frozen=True, eq=False)
class WordTexts:
    """Encodes the texts of pairs as numbers of words, which have vectors. `PieceTexts` encodes them
    as pieces of words.

    vocabulary: empty until one is fitted.
    """

    encoding: Encoding
    vocabulary: Vocab = NO_WORDS

    unknown: ClassVar[int] = UNK

    def fit(self, splits: Mapping[str, Split], retrofit_graph: RetrofitGraph) -> FittedTexts:
        """Fits the vocabulary: the words of all splits, as far as they have a vector."""
        encoding = self.encoding
        counts_of = {name: self._counts(split.examples) for name, split in splits.items()}
        counts = sum(counts_of.values(), Counter())
        words = Vocab.of_counts(counts).words
        vectors = load_vectors(
            encoding.vectors_path,
            words,
            dim=encoding.vectors_dim,
            seed=encoding.vectors_seed,
            unknown=encoding.unknown,
            try_lower_case=encoding.lowered,
        )
        vocabulary, matrix = vectors.vocabulary_with_vectors()
        graph = retrofit_graph(vocabulary.words)
        retrofitted = 0
        if graph is not None:
            matrix = retrofit(matrix, graph, rounds=encoding.retrofit_rounds)
            has_neighbour_V = np.diff(graph.indptr) > 0
            retrofitted = int(has_neighbour_V.sum())
        if encoding.unit_length:
            matrix = unit_rows(matrix)
        # The single split of cross-validation is not called train: all its counts are used.
        train_counts = counts_of.get("train", counts)
        in_training = training_coverage(vectors, train_counts)
        facts = {
            "words": len(words) - len(SPECIALS),
            "with_vector": vectors.with_vector,
            "source": vectors.file,
            "sha256": vectors.sha256,
            "training_tokens": asdict(in_training),
            "retrofitted": retrofitted,
        }
        return FittedTexts(replace(self, vocabulary=vocabulary), matrix, facts)

    def _counts(self, examples: Sequence[NLIExample]) -> Counter[str]:
        """The number of occurrences of each word in the examples."""
        counts: Counter[str] = Counter()
        for example in with_progress(examples, "vocabulary"):
            for side in SIDES:
                counts.update(tokens_of(example, side, self.encoding))
        return counts

    def tokens(self, example: NLIExample, side: str) -> list[str]:
        """The words of one side that `encode` numbers, also those that the vocabulary lacks."""
        return tokens_of(example, side, self.encoding)

    def encode(self, examples: Sequence[NLIExample]) -> Encoded:
        """Encodes the tokens that models see."""
        numbers: dict[str, list[list[int]]] = {}
        cut = dict.fromkeys(SIDES, 0)
        for side in SIDES:
            numbers[side] = []
            for example in with_progress(examples, f"words of {PLURAL[side]}"):
                numbers[side].append(self.vocabulary.encode(self.tokens(example, side)))
                cut[side] += len(all_tokens(example, side)) > self.encoding.max_length
        return Encoded(examples, _pad(numbers), cut)

    def mentions(self, encoded: Encoded, source: ConceptSource) -> PairMentions:
        """Finds the concepts of encoded texts."""
        return find_mentions(encoded.examples, source, self.encoding)

    def mention_words(self, encoded: Encoded) -> MentionWords:
        """Makes the function that gives the words of a visible mention."""

        def words_of(side: str, number: int, mention: Mention) -> Sequence[str]:
            tokens = tokens_of(encoded.examples[number], side, self.encoding)
            return tokens[mention.start : mention.end]

        return words_of

    def facts(self, encoded: Encoded) -> JsonObject:
        """Counts for the manifest."""
        return {"truncated": encoded.cut}


def mark(concept: str) -> str:
    """The word that stands for a concept. It contains a space, so that no word of a text equals
    it."""
    return f" {concept}"


@dataclass(frozen=True, eq=False)
class ConceptVectors:
    """The concepts of a run, as `mark` writes them, and their vectors float32 [C, D]."""

    words: tuple[str, ...]
    vectors: np.ndarray

    @classmethod
    def of_vocabulary(cls, vocabulary: Vocab, vectors: np.ndarray) -> "ConceptVectors":
        """The concepts among the words of a vocabulary [V] with vectors [V, D]."""
        rows = [row for row, word in enumerate(vocabulary.words) if word.startswith(" ")]
        words = tuple(vocabulary.words[row] for row in rows)
        return cls(words, np.asarray(vectors[rows], np.float32))

    def digest(self) -> str:
        """The sha256 of the content."""
        words = "\n".join(self.words).encode("utf-8", "surrogatepass")
        return hashlib.sha256(words + b"\0" + self.vectors.tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class ConceptTexts(WordTexts):
    """WordTexts in which concepts replace words, with retrofitted vectors (Romanov & Shivade 2018,
    section 4.2.1).

    Each word of a mention is replaced by the concept's id, so that the number of tokens and the
    positions of links do not change; the published code made one token of a mention. The vector of
    a concept is the mean over the words of its most frequent mention in training, retrofitted; the
    published code computes this mean but does not use it. A concept that gets no vector does not
    replace its words.

    Args:
      relations: the relations along which vectors are retrofitted.
      of_run: the concepts of the finished run that is scored on this corpus; None to fit concepts.
    """

    finder: MentionFinder = field(kw_only=True)
    relations: Sequence[str] = ()
    of_run: ConceptVectors | None = None

    def tokens(self, example: NLIExample, side: str) -> list[str]:
        """The tokens of one side. A word of several mentions is replaced by the first one's
        concept."""
        words = super().tokens(example, side)
        # In reverse, so that the first mention is put in last, over the others.
        for mention in reversed(self.finder.visible(example, side)):
            word = mark(mention.concept)
            if word in self.vocabulary:
                words[mention.start : mention.end] = [word] * (mention.end - mention.start)
        return words

    def fit(self, splits: Mapping[str, Split], retrofit_graph: RetrofitGraph) -> FittedTexts:
        """Fits the vocabulary of words, and after them of concepts."""
        texts, matrix, facts = super().fit(splits, retrofit_graph)
        words: Tokens = texts.vocabulary.words
        if self.of_run is not None:
            concepts, count = self.of_run, len(self.of_run.words)
            facts |= {"concepts": count, "concepts_with_vector": count}
        else:
            concepts, concept_facts = self._fit_concepts(splits, words, matrix)
            facts |= concept_facts
        matrix = np.concatenate([matrix, concepts.vectors])
        return FittedTexts(replace(self, vocabulary=Vocab(words + concepts.words)), matrix, facts)

    def _fit_concepts(
        self, splits: Mapping[str, Split], words: Sequence[str], vectors: np.ndarray
    ) -> tuple[ConceptVectors, JsonObject]:
        """Fits vectors for the concepts that any split mentions, and keeps those that got one.

        words, vectors [V, D]: the vocabulary of the texts.
        """
        ontology = self.finder.source.ontology
        phrases = self._phrases(splits)
        # elements() repeats each phrase by its count in training, so that the phrases that only
        # other splits have (count 0) drop out. `indices` below has their concepts, too.
        concept_vectors, has_no_vector, retrofitted = retrofit_concepts(
            ontology,
            vectors,
            words,
            list(phrases.elements()),
            relations=self.relations,
            rounds=self.encoding.retrofit_rounds,
        )
        indices = {index for _, index in phrases}
        with_vector = sorted(index for index in indices if not has_no_vector[index])
        marks = tuple(mark(ontology.ids[index]) for index in with_vector)
        facts = {
            "concepts": len(indices),
            "concepts_with_vector": len(with_vector),
            "retrofitted": retrofitted,
        }
        return ConceptVectors(marks, concept_vectors[with_vector].astype(np.float32)), facts

    def _phrases(self, splits: Mapping[str, Split]) -> Counter[tuple[str, int]]:
        """Counts (phrase, index of its concept) in training; 0 for phrases that only other
        splits have."""
        phrases: Counter[tuple[str, int]] = Counter()
        training_uids = {example.uid for example in splits["train"].examples}
        for side in SIDES:
            for example in with_progress(examples_of(splits), f"concepts of {PLURAL[side]}"):
                words = super().tokens(example, side)  # before concepts replace them
                for mention in self.finder.visible(example, side):
                    index = self.finder.source.ontology.index_of.get(mention.concept)
                    if index is not None:
                        phrase = " ".join(words[mention.start : mention.end])
                        phrases[phrase, index] += example.uid in training_uids  # 0 adds the key
        return phrases


# ---- texts as word pieces ----


@dataclass(frozen=True)
class PieceEncoding:
    """The settings of pieces. Every field is part of the prepared folder's key.

    Args:
      file: the weights' folder, or the VOCABULARY of a run; None makes a vocabulary of `size`
        pieces from the training texts.
      room: most pieces of a pair, special ones included; the longer side is cut first.
        Encoding.keep says at which end.
    """

    file: Path | None
    size: int
    room: int


@dataclass(frozen=True, eq=False)
class PieceTexts:
    """Encodes the raw texts of pairs as word pieces, without special pieces. It has the
    methods of WordTexts.

    A raw text is split into words, and words into pieces. Concepts are found in the words.
    """

    encoding: Encoding
    pieces: PieceEncoding
    vocabulary: PieceVocabulary = None  # type: ignore[assignment]  # until one is fitted

    @property
    def unknown(self) -> int:
        return int(self.vocabulary.unk)

    def fit(self, splits: Mapping[str, Split], retrofit_graph: RetrofitGraph) -> FittedTexts:
        """Takes the vocabulary of the weights, or fits one to the training texts; vectors are zeros
        [V, 1]."""
        if self.pieces.file is not None:
            vocabulary = PieceVocabulary.of_weights(self.pieces.file)
            source = f"pieces of {self.pieces.file.name}"
        else:
            texts: list[str] = []
            for example in splits["train"].examples:
                texts += (example.premise, example.hypothesis)
            size = self.pieces.size
            vocabulary = PieceVocabulary.of_texts(texts, size, lowercase=self.encoding.lowercase)
            source = "pieces of training texts"
        facts = {
            "words": len(vocabulary),
            "with_vector": 0,
            "lowered": 0,
            "source": source,
            "sha256": "",
            "retrofitted": 0,
        }
        vectors = np.zeros((len(vocabulary), 1), np.float32)
        return FittedTexts(replace(self, vocabulary=vocabulary), vectors, facts)

    def encode(self, examples: Sequence[NLIExample]) -> Encoded:
        pieces_of = cache(self.vocabulary.encode)
        pieces: dict[str, list[Pieces]] = {}
        for side in SIDES:
            pieces[side] = []
            for example in with_progress(examples, f"pieces of {PLURAL[side]}"):
                text = getattr(example, side) if self.encoding.reads(side) else ""
                pieces[side].append(pieces_of(text))
        numbers: dict[str, list[tuple[int, ...]]] = {"premise": [], "hypothesis": []}
        pairs_cut = 0
        for premise, hypothesis in zip(*pieces.values(), strict=True):
            sizes = len(premise.numbers), len(hypothesis.numbers)
            fitting = truncated_sizes(*sizes, self.pieces.room - self.vocabulary.specials_per_pair)
            pairs_cut += fitting != sizes
            for side, text, size in zip(SIDES, (premise, hypothesis), fitting, strict=True):
                first = self._first_piece(text, size)
                numbers[side].append(text.numbers[first : first + size])
        return Encoded(examples, _pad(numbers), {"pairs": pairs_cut}, pieces)

    def _first_piece(self, text: Pieces, size: int) -> int:
        """The position of the first of the `size` pieces of a text that models see."""
        return len(text.numbers) - size if self.encoding.keep == "last" else 0

    def tokens(self, example: NLIExample, side: str) -> list[str]:
        """The pieces of one side, before any is cut."""
        numbers = self.vocabulary.encode(getattr(example, side)).numbers
        return [self.vocabulary.words[number] for number in numbers]

    def mentions(self, encoded: Encoded, source: ConceptSource) -> PairMentions:
        assert not isinstance(source, Recognised)  # a file of mentions is about words
        linked = cache(source.link)
        mentions = PairMentions({}, {})
        for side, texts in encoded.pieces.items():
            mentions.whole[side], mentions.visible[side] = [], []
            rows = with_progress(texts, f"concepts of {PLURAL[side]}")
            sizes = encoded.arrays[f"{side}_length"].tolist()
            for text, size in zip(rows, sizes, strict=True):
                whole = _over_pieces(linked(text.words), text)
                mentions.whole[side].append(whole)
                visible = mentions_within(whole, self._first_piece(text, size), size)
                mentions.visible[side].append(visible)
        return mentions

    def mention_words(self, encoded: Encoded) -> MentionWords:
        def words_of(side: str, number: int, mention: Mention) -> Sequence[str]:
            text = encoded.pieces[side][number]
            first = self._first_piece(text, int(encoded.arrays[f"{side}_length"][number]))
            # A visible mention counts from the first piece that is kept.
            word_of_piece = text.word_of_piece[first + mention.start : first + mention.end]
            return text.words[word_of_piece[0] : word_of_piece[-1] + 1]

        return words_of

    def facts(self, encoded: Encoded) -> JsonObject:
        """Sizes and special pieces of the vocabulary, and pairs that were cut."""
        pieces = {
            "size": len(self.vocabulary),
            "unknown": self.vocabulary.unk,
            "room": self.pieces.room,
            **self.vocabulary.form._asdict(),
        }
        return {"pieces": pieces, "truncated": encoded.cut}


def _over_pieces(mentions: Sequence[Mention], text: Pieces) -> list[Mention]:
    """The mentions, which are spans of words, as spans of pieces."""
    # first_piece[w]: the first piece of word w; one more entry holds the number of pieces.
    # searchsorted finds them because word_of_piece is sorted.
    words = np.arange(len(text.words) + 1)
    first_piece = np.searchsorted(text.word_of_piece, words).tolist()
    over_pieces = []
    for mention in mentions:
        start, end = first_piece[mention.start], first_piece[mention.end]
        over_pieces.append(Mention(start, end, mention.concept))
    return over_pieces


PairTexts = WordTexts | PieceTexts


# ---- splits ----


def encode_splits(
    splits: Mapping[str, Split],
    texts: PairTexts,
    source: ConceptSource | None,
    concepts: Iterable[str] | None = None,
    labels: Sequence[str] = LABELS,
) -> ArraysAndFacts:
    """Encodes some splits in the vocabulary of `texts`: arrays, and counts for the manifest.

    concepts: see links.encode_links. labels: in the order of their numbers.
    """
    examples = examples_of(splits)
    rows = rows_in(splits)
    encoded = texts.encode(examples)
    links = ArraysAndFacts({}, {"ontology": "none", "longest_path": 0})
    if source is not None:
        mentions = texts.mentions(encoded, source)
        words_of = texts.mention_words(encoded)
        links = encode_links(mentions, source, texts.encoding, words_of, rows, concepts)
    if texts.encoding.polarity:
        links = project_relations(links, encoded.arrays, examples, texts.encoding)
    split_facts = {}
    for name, split in splits.items():
        split_facts[name] = {**split.facts, "first": rows[name].start, "rows": len(split)}
    unknown = {side: int((encoded.arrays[side] == texts.unknown).sum()) for side in SIDES}
    facts = {
        "splits": split_facts,
        "unknown_tokens": unknown,
        **texts.facts(encoded),
        "knowledge": links.facts,
    }
    number_of = {"": -1, **{label: number for number, label in enumerate(labels)}}
    label_N = np.array([number_of[example.label] for example in examples], np.int32)
    arrays = {**encoded.arrays, "label": label_N, **links.arrays}
    if any(example.original for example in examples):
        row_of = {example.uid: row for row, example in enumerate(examples)}
        originals = [row_of.get(example.original, -1) for example in examples]
        arrays["original"] = np.array(originals, np.int32)
    return ArraysAndFacts(arrays, facts)
