"""Pretrained word vectors for the words of a vocabulary, and the share of a corpus that has one.

data/vector_formats.py lists the formats of files. If a file repeats a word, its first row counts.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from mednli_jax.data.text import PAD, SPECIALS, UNK, Vocab
from mednli_jax.data.vector_formats import (
    LARGEST,
    Head,
    check_dim,
    read_head,
    read_rows,
    resolved_path,
)
from mednli_jax.errors import DataError, Problems
from mednli_jax.files.reading import line_fault
from mednli_jax.files.writing import sha256
from mednli_jax.terminal import warn

# The standard deviation of random vectors. That of pretrained ones is near: .48 for GloVe 6B 100d
# (60,811 words), and less for vectors of more dimensions.
RANDOM_SD = 0.4


@dataclass(frozen=True)
class Vectors:
    """Vectors in the order of a vocabulary.

    Args:
      file: name of the file; "random" for random vectors.
      sha256: of the file's bytes; "" for random vectors.
      duplicates: number of rows whose word an earlier row has.
      vocabulary: the words that were looked up, PAD and UNK first.
      matrix: float32 [V, D]; row PAD is zero, and a word without a vector has the row of UNK.
      has_vector_V: bool [V], whether the file has each word, or its lower-case form.
    """

    file: str
    sha256: str
    duplicates: int
    vocabulary: tuple[str, ...]
    matrix: np.ndarray
    has_vector_V: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """int [W], the rows of the words that have a vector."""
        return np.flatnonzero(self.has_vector_V)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that have a vector, in the order of the vocabulary."""
        return tuple(self.vocabulary[row] for row in self.rows.tolist())

    @property
    def with_vector(self) -> int:
        """Number of words that have a vector."""
        return len(self.rows)

    def vocabulary_with_vectors(self) -> tuple[Vocab, np.ndarray]:
        """(vocabulary of only the W words that have a vector, its matrix [2 + W, D])."""
        return Vocab(SPECIALS + self.words), self.matrix[[PAD, UNK, *self.rows]]


def load_vectors(
    path: Path | str | None,
    vocab_words: Iterable[str],
    *,
    dim: int,
    seed: int,
    unknown: str = "mean",
    try_lower_case: bool = True,
) -> Vectors:
    """Looks up the words of a vocabulary in a file of vectors.

    Args:
      path: a file of a known format; None for `random_vectors`.
      vocab_words: words of a Vocab, "<pad>" and "<unk>" first.
      dim: numbers per word, must be the file's.
      unknown: the vector of words without one: the "mean" of the vectors found, or "random", drawn
        from U(-.5, .5) by the seed (as in the published code of Romanov & Shivade 2018).
      try_lower_case: whether a word that the file lacks is looked up in lower case, too. The
        published code does not.
    """
    vocabulary = tuple(vocab_words)
    if path is None:
        return _all_random(vocabulary, dim, seed)
    path = resolved_path(path)
    head = read_head(path)
    check_dim(path, head, dim)
    forms = _FormVectors(vocabulary[len(SPECIALS) :], dim, try_lower_case)
    _fill_from_rows(path, head, forms)
    if forms.duplicates:
        problem = f"{forms.duplicates} rows repeat a word of the corpus; the first of each counts."
        warn(f"{path.name}: {problem}")
    place_V = np.full(len(vocabulary), -1)  # the word's row in forms.numbers; -1 = none
    for row, word in enumerate(vocabulary[len(SPECIALS) :], start=len(SPECIALS)):
        place_V[row] = forms.find(word)
    has_vector_V = place_V >= 0
    vectors = forms.numbers[place_V[has_vector_V]]
    matrix = np.zeros((len(vocabulary), dim), np.float32)
    matrix[UNK:] = _unknown_vector(vectors, seed, unknown)
    matrix[has_vector_V] = vectors
    return Vectors(path.name, sha256(path), forms.duplicates, vocabulary, matrix, has_vector_V)


def _all_random(vocabulary: tuple[str, ...], dim: int, seed: int) -> Vectors:
    """Random vectors for all words of a vocabulary, see `random_vectors`."""
    matrix = random_vectors(vocabulary, dim=dim, seed=seed)
    matrix[PAD] = 0
    has_vector_V = np.arange(len(vocabulary)) >= len(SPECIALS)
    return Vectors("random", "", 0, vocabulary, matrix, has_vector_V)


def _unknown_vector(vectors: np.ndarray, seed: int, unknown: str) -> np.ndarray:
    """[1, D], the vector of the words without one. vectors: [W, D], those of all other words."""
    dim = vectors.shape[1]
    if not len(vectors):
        return random_vectors([SPECIALS[UNK]], dim=dim, seed=seed)
    if unknown == "random":
        return np.random.default_rng(seed).uniform(-0.5, 0.5, (1, dim))
    return np.asarray(vectors.mean(axis=0, keepdims=True, dtype=np.float64))


class _FormVectors:
    """The vectors of F forms. A form is a word as it is or, with `try_lower_case`, lower-cased.

    places: bytes of a form -> its row in `numbers` float32 [F, D].
    filled: bool [F], whether the form has a vector.
    duplicates: number of rows whose form an earlier row has.
    """

    def __init__(self, words: Sequence[str], dim: int, try_lower_case: bool) -> None:
        self.try_lower_case = try_lower_case
        self.places: dict[bytes, int] = {}
        for word in words:
            for form in self._forms(word):
                self.places.setdefault(form, len(self.places))
        self.numbers = np.zeros((len(self.places), dim), np.float32)
        self.filled = np.zeros(len(self.places), bool)
        self.duplicates = 0

    def _forms(self, word: str) -> list[bytes]:
        """The forms of a word in the order in which they are looked up."""
        forms = [word.encode()]
        if self.try_lower_case:
            forms.append(word.lower().encode())
        return forms

    def add(self, form: bytes, numbers: bytes | np.ndarray) -> bool:
        """Stores the numbers of a row if it is the first of a form that is looked for, and counts
        later rows of the form.

        Returns False if the stored row holds something that is not a number up to LARGEST.
        """
        place = self.places.get(form)
        if place is None:
            return True
        if self.filled[place]:
            self.duplicates += 1
            return True
        self.filled[place] = True
        try:
            if isinstance(numbers, bytes):
                numbers = np.array(list(map(float, numbers.split(b" "))))
            with np.errstate(over="ignore"):
                self.numbers[place] = numbers
        except ValueError:
            return False
        return bool((np.abs(self.numbers[place]) <= LARGEST).all())

    def find(self, word: str) -> int:
        """The row in `numbers` of a word as it is, else of the word lower-cased; -1 for none."""
        for form in self._forms(word):
            place = self.places[form]
            if self.filled[place]:
                return place
        return -1


def _fill_from_rows(path: Path, head: Head, forms: _FormVectors) -> None:
    """Adds the rows of a file to `forms`. Raises one error for all rows with a fault."""
    problems = Problems()
    has_lines = head.kind != "word2vec"
    for number, word, numbers in read_rows(path, head, problems):
        if not forms.add(word, numbers):
            row = "the row" if has_lines else f"row {number}"
            line = number if has_lines else None
            problem = f"{row} holds something that is not a number up to {LARGEST:.1g}"
            problems.add(line_fault(path.name, line, problem, "correct or remove the row"))
    problems.raise_if_any()


def random_vectors(
    words: Sequence[str], *, dim: int, seed: int, sd: float = RANDOM_SD
) -> np.ndarray:
    """float32 [len(words), dim], drawn from N(0, sd^2). A row depends only on (seed, word).

    The hash of seed and word gives uniform numbers in (0, 1), and the inverse of the normal
    distribution function makes them normal.
    """
    digests = []
    for word in words:
        text = f"{seed} {word}".encode()
        digests.append(hashlib.shake_256(text).digest(4 * dim))
    bits = np.frombuffer(b"".join(digests), "<u4").reshape(len(words), dim)
    uniform = (bits + 0.5) / 2.0**32
    vectors: np.ndarray = sd * ndtri(uniform)
    return vectors.astype(np.float32)


@dataclass(frozen=True)
class TrainingTokens:
    """The number of tokens of the training texts, and of those that have a vector."""

    tokens: int
    with_vector: int


def training_coverage(vectors: Vectors, counts: Mapping[str, int]) -> TrainingTokens:
    """Counts the tokens of the training texts, and those with a vector.

    counts: how often each word occurs in the training texts. Raises DataError if the texts have
    words, but none of the words has a vector.
    """
    has_vector = set(vectors.words)
    tokens, with_vector = sum(counts.values()), 0
    for word, count in counts.items():
        with_vector += count * (word in has_vector)
    if tokens and not with_vector:
        fix = (
            "give vectors whose keys are words of the corpus's language and case by"
            " config.vectors.path=FILE, or leave it empty for random ones"
        )
        raise DataError("no word of the training texts has a vector", file=vectors.file, fix=fix)
    return TrainingTokens(tokens, with_vector)


def coverage_warnings(vocabulary_facts: Mapping) -> Iterator[str]:
    """Yields a warning if under half of the training tokens have a vector.

    vocabulary_facts: `manifest["vocabulary"]` of a prepared corpus.
    """
    if "training_tokens" not in vocabulary_facts:  # word pieces have no vectors
        return
    training = TrainingTokens(**vocabulary_facts["training_tokens"])
    if 2 * training.with_vector < training.tokens:
        yield (
            f"only {training.with_vector:,} of {training.tokens:,} tokens of the training texts"
            " have a vector"
            f" ({vocabulary_facts['source']}): is it of the corpus's language and case?"
        )
