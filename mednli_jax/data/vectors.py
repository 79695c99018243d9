"""Pretrained word vectors for the words of a vocabulary, and the share of a corpus that has one.

data/vector_formats.py lists the formats of files. Of a repeated word the first row counts.
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
    files_of,
    numbers_file,
    read_head,
    read_rows,
    vectors_path,
)
from mednli_jax.errors import DataError, Problems
from mednli_jax.files.reading import line_fault
from mednli_jax.files.writing import sha256
from mednli_jax.terminal import warn

# How a word got its vector: by its own row, or by that of its lower-case form.
ROUTES = ("missing", "exact", "lowered")
MISSING, EXACT, LOWERED = range(len(ROUTES))
# The standard deviation of the numbers of 60,811 words of GloVe 6B 100d is .48, and longer vectors
# have smaller numbers.
RANDOM_SD = 0.4


@dataclass(frozen=True)
class Vectors:
    """Vectors in the order of a vocabulary.

    Args:
      file: name of the file; "random" for random vectors.
      sha256: of the file's bytes; "" for random vectors.
      duplicates: number of rows whose word an earlier row has.
      vocabulary: the words that were looked up, PAD and UNK first.
      matrix: float32 [V, D]; row PAD is zero, the row of a word without a vector is that of UNK.
      route_V: int8 [V], how each word got its vector: an index into ROUTES.
    """

    file: str
    sha256: str
    duplicates: int
    vocabulary: tuple[str, ...]
    matrix: np.ndarray
    route_V: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """Integers, the rows of the words that have a vector."""
        return np.flatnonzero(self.route_V != MISSING)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that have a vector, in the order of the vocabulary."""
        return tuple(self.vocabulary[row] for row in self.rows.tolist())

    @property
    def with_vector(self) -> int:
        """Number of words that have a vector."""
        return len(self.rows)

    @property
    def lowered(self) -> int:
        """Number of words whose vector is that of their lower-case form."""
        return int((self.route_V == LOWERED).sum())

    def known_words(self) -> tuple[Vocab, np.ndarray]:
        """A vocabulary without the words that have no vector, and its matrix [2 + words, D]."""
        return Vocab(SPECIALS + self.words), self.matrix[[PAD, UNK, *self.rows]]


def load_vectors(
    path: Path | str | None,
    vocab_words: Iterable[str],
    *,
    dim: int,
    seed: int,
    unknown: str = "mean",
    lowered: bool = True,
) -> Vectors:
    """Looks up the words of a vocabulary, first as they are, then lower-cased.

    Args:
      path: a file of a known format, or a folder with BioASQ's pair; None for `random_vectors`.
      vocab_words: words of a Vocab, "<pad>" and "<unk>" first.
      dim: numbers per word, must be the file's.
      unknown: the vector of words without one: the "mean" of the vectors found, or "random", drawn
        from U(-.5, .5) by the seed (as in the published code of Romanov & Shivade 2018).
      lowered: False leaves out the second look-up, as that code does.
    """
    vocabulary = tuple(vocab_words)
    if path is None:
        return _all_random(vocabulary, dim, seed)
    path = vectors_path(path)
    head = read_head(path)
    check_dim(path, head, dim)
    forms = _FormVectors(vocabulary[len(SPECIALS) :], dim, lowered)
    _fill_from_rows(path, head, forms)
    if forms.duplicates:
        problem = f"{forms.duplicates} rows repeat a word of the corpus; the first of each counts."
        warn(f"{path.name}: {problem}")
    place_V = np.full(len(vocabulary), -1)
    route_V = np.full(len(vocabulary), MISSING, np.int8)
    for row, word in enumerate(vocabulary[len(SPECIALS) :], start=len(SPECIALS)):
        place_V[row], route_V[row] = forms.find(word)
    matrix = np.zeros((len(vocabulary), dim), np.float32)
    matrix[UNK:] = _unknown_vector(forms.numbers[place_V[place_V >= 0]], seed, unknown)
    matrix[place_V >= 0] = forms.numbers[place_V[place_V >= 0]]
    digest = sha256(*files_of(path))
    return Vectors(path.name, digest, forms.duplicates, vocabulary, matrix, route_V)


def _all_random(vocabulary: tuple[str, ...], dim: int, seed: int) -> Vectors:
    matrix = random_vectors(vocabulary, dim=dim, seed=seed)
    matrix[PAD] = 0
    route_V = np.full(len(vocabulary), EXACT, np.int8)
    route_V[: len(SPECIALS)] = MISSING
    return Vectors("random", "", 0, vocabulary, matrix, route_V)


def _unknown_vector(vectors: np.ndarray, seed: int, unknown: str) -> np.ndarray:
    """[1, D], the vector of words without one. vectors: [W, D], those of all other words."""
    dim = vectors.shape[1]
    if not len(vectors):
        return random_vectors([SPECIALS[UNK]], dim=dim, seed=seed)
    if unknown == "random":
        return np.random.default_rng(seed).uniform(-0.5, 0.5, (1, dim))
    return np.asarray(vectors.mean(axis=0, keepdims=True, dtype=np.float64))


class _FormVectors:
    """Vectors of the forms of words: of each word as it is and, where `lowered`, lower-cased.

    places: bytes of a form -> its row in `numbers` float32 [F, D].
    filled: bool [F], whether the form has a vector.
    duplicates: number of rows whose form an earlier row has.
    """

    def __init__(self, words: Sequence[str], dim: int, lowered: bool) -> None:
        self.lowered = lowered
        self.places: dict[bytes, int] = {}
        for word in words:
            for form, _ in self._forms(word):
                self.places.setdefault(form, len(self.places))
        self.numbers = np.zeros((len(self.places), dim), np.float32)
        self.filled = np.zeros(len(self.places), bool)
        self.duplicates = 0

    def _forms(self, word: str) -> list[tuple[bytes, int]]:
        """(form, route) of a word, in the order in which they are looked up."""
        forms = [(_encoded(word), EXACT)]
        if self.lowered:
            forms.append((_encoded(word.lower()), LOWERED))
        return forms

    def add(self, form: bytes, numbers: bytes | np.ndarray) -> bool:
        """Keeps the first row of a form. False where a number is none, or larger than LARGEST."""
        place = self.places.get(form)
        if place is None:
            return True
        if self.filled[place]:
            self.duplicates += 1
            return True
        self.filled[place] = True
        try:
            values = numbers
            if isinstance(numbers, bytes):
                values = np.array(list(map(float, numbers.split(b" "))))
            with np.errstate(over="ignore"):
                self.numbers[place] = values
        except ValueError:
            return False
        return bool((np.abs(self.numbers[place]) <= LARGEST).all())

    def find(self, word: str) -> tuple[int, int]:
        """(row in `numbers`, route) of a word: as it is, else lower-cased; else (-1, MISSING)."""
        for form, route in self._forms(word):
            place = self.places[form]
            if self.filled[place]:
                return place, route
        return -1, MISSING


def _encoded(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")


def _fill_from_rows(path: Path, head: Head, forms: _FormVectors) -> None:
    problems = Problems()
    has_lines = head.kind in ("text", "pair")
    for number, word, numbers in read_rows(path, head, problems):
        if not forms.add(word, numbers):
            row, line = ("the row", number) if has_lines else (f"row {number}", None)
            problem = f"{row} holds something that is not a number up to {LARGEST:.1g}"
            file = numbers_file(path).name
            problems.add(line_fault(file, line, problem, "correct or remove the row"))
    problems.raise_if_any()


def random_vectors(
    words: Sequence[str], *, dim: int, seed: int, sd: float = RANDOM_SD
) -> np.ndarray:
    """float32 [len(words), dim], drawn from N(0, sd^2). A row depends on (seed, word) alone."""
    digests = []
    for word in words:
        text = f"{seed} {word}".encode("utf-8", "surrogatepass")
        digests.append(hashlib.shake_256(text).digest(4 * dim))
    bits = np.frombuffer(b"".join(digests), "<u4").reshape(len(words), dim)
    vectors: np.ndarray = sd * ndtri((bits + 0.5) / 2.0**32)
    return vectors.astype(np.float32)


@dataclass(frozen=True)
class Coverage:
    """The words and tokens of a corpus, and the shares of them that have a vector by each of
    ROUTES; "found": by any."""

    words: int
    tokens: int
    share_of_words: dict[str, float]
    share_of_tokens: dict[str, float]


def coverage(vectors: Vectors, counts: Mapping[str, int]) -> Coverage:
    """The coverage of a corpus.

    counts: how often each word stands in the corpus; a word that was not looked up counts as
    missing.
    """
    row_of = {word: row for row, word in enumerate(vectors.vocabulary) if row > UNK}
    row_N = np.array([row_of.get(word, PAD) for word in counts], np.int64)
    count_N = np.array(list(counts.values()), np.int64)
    route_N = vectors.route_V[row_N]
    words, tokens = len(row_N), int(count_N.sum())
    has_route_N = {name: route_N == route for route, name in enumerate(ROUTES) if route != MISSING}
    has_route_N["found"] = route_N != MISSING
    share_of_words, share_of_tokens = {}, {}
    for name, is_counted_N in has_route_N.items():
        share_of_words[name] = float(is_counted_N.sum() / max(words, 1))
        share_of_tokens[name] = float(count_N[is_counted_N].sum() / max(tokens, 1))
    return Coverage(words, tokens, share_of_words, share_of_tokens)


@dataclass(frozen=True)
class TrainingTokens:
    """The number of tokens of the training texts, and of those that have a vector."""

    tokens: int
    with_vector: int


def training_coverage(vectors: Vectors, counts: Mapping[str, int]) -> TrainingTokens:
    """Counts the tokens of the training texts. counts: of each of their words.

    Raises DataError where the texts have words, and the file has a vector for none of them.
    """
    training = coverage(vectors, counts)
    share = training.share_of_tokens["found"]
    if training.tokens and not share:
        fix = (
            "give vectors whose keys are words of the corpus's language and case by"
            " config.vectors.path=FILE, or leave it empty for random ones"
        )
        raise DataError("no word of the training texts has a vector", file=vectors.file, fix=fix)
    return TrainingTokens(training.tokens, round(share * training.tokens))


def coverage_warnings(vocabulary: Mapping) -> Iterator[str]:
    """A warning where under half of the training tokens have a vector.

    vocabulary: the entry of that name in a manifest.
    """
    if "training_tokens" not in vocabulary:  # word pieces have no vectors
        return
    training = TrainingTokens(**vocabulary["training_tokens"])
    if 2 * training.with_vector < training.tokens:
        yield (
            f"only {training.with_vector:,} of {training.tokens:,} tokens of the training texts"
            f" have a vector ({vocabulary['source']}): is it of the corpus's language and case?"
        )
