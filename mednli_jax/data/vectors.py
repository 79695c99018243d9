"""Pretrained word vectors for the words of a vocabulary, and what they cover.

Kinds of files:
  text: GloVe, word2vec and fastText text files, rows `word number ... number`, with or without a header `rows dim`.
    Blanks or TABs stand between them.
  pair: BioASQ's types.txt and vectors.txt in one folder: a word on each line of the one, its numbers on the same line
    of the other.
  word2vec: word2vec's .bin: a line `rows dim`, then for each row the word, a space, dim float32, and with most writers
    a line break. A word with a space in it shifts all that follows, so that such a file is refused.
  fasttext: a .bin model of fastText (Bojanowski et al. 2017), read by the library of the extra `embeddings`. A word's
    vector is the mean of its row and those of its character n-grams; an unknown word has the n-grams alone.

Errors name the file and the line, never a word. Of a repeated word the first row counts.
"""

import hashlib
import mmap
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from mednli_jax.data.text import PAD, SPECIALS, UNK, Vocab
from mednli_jax.errors import DataError, Problems
from mednli_jax.files import (
    FRESH_COPY,
    MARK,
    byte_lines,
    check_readable,
    either_name,
    empty_file,
    line_fault,
    no_such_file,
    opened,
    sha256,
)
from mednli_jax.terminal import warn

TYPES, PAIRED = "types.txt", "vectors.txt"  # BioASQ's names
FORMATS = (
    "a text file of word and numbers (.txt, .vec) or a .bin of word2vec, both also gzipped, a .bin of fastText, "
    "or a folder with types.txt and vectors.txt"
)
# How a word came by its vector; "subwords": put together from its character n-grams.
ROUTES = ("missing", "exact", "lowered", "subwords")
MISSING, EXACT, LOWERED, SUBWORDS = range(len(ROUTES))
# that of 60,811 words of GloVe 6B 100d is .48, and longer vectors have smaller numbers
RANDOM_SD = 0.4
LARGEST = (
    2.0**33
)  # size of a number; other data, read as numbers of 32 bits, soon hold a larger one


@dataclass(frozen=True)
class Vectors:
    """Vectors in the order of a vocabulary.

    Args:
      file: its name; "random" for random vectors.
      kind: one of the module's, or random.
      sha256: of the bytes, "" if random.
      duplicates: rows that repeat a word requested.
      vocabulary: the words requested, PAD and UNK first.
      matrix: float32 [V, D]; row PAD is zero, the row of a word without a vector is that of UNK.
      route_V: int8 [V], how each word came by its vector, places of ROUTES.
    """

    file: str
    kind: str
    sha256: str
    duplicates: int
    vocabulary: tuple[str, ...]
    matrix: np.ndarray
    route_V: np.ndarray

    @property
    def words(self) -> tuple[str, ...]:
        """The words that the file has a vector for, in the order of the vocabulary."""
        pairs = zip(self.vocabulary, self.route_V, strict=True)
        return tuple(word for word, route in pairs if route != MISSING)

    @property
    def found(self) -> int:
        """Words with a vector."""
        return int((self.route_V != MISSING).sum())

    @property
    def lowered(self) -> int:
        """Words whose vector is that of their lower-case form."""
        return int((self.route_V == LOWERED).sum())

    @property
    def composed(self) -> int:
        """Words whose vector is made from character n-grams alone."""
        return int((self.route_V == SUBWORDS).sum())

    def known(self) -> tuple[Vocab, np.ndarray]:
        """PAD, UNK and the words found as a vocabulary, and its matrix [2 + found, D]."""
        kept = set(self.words)
        rows = [PAD, UNK] + [
            row for row, word in enumerate(self.vocabulary) if row > UNK and word in kept
        ]
        return Vocab(SPECIALS + self.words), self.matrix[rows]


def load_vectors(
    path, vocab_words, *, dim: int, seed: int, unknown: str = "mean", lowered: bool = True
) -> Vectors:
    """Looks up the words of a vocabulary, first as they are, then lower-cased, then by their
    character n-grams.

    Args:
      path: a file of any kind above, or a folder with BioASQ's pair; all but fastText's models may be gzipped; None for
        `random_vectors`.
      vocab_words: words of a Vocab, "<pad>" and "<unk>" first.
      dim: numbers per word, must be the file's.
      unknown: the vector of words without one: the "mean" of the vectors found, or "random", drawn from U(-.5, .5) by
        the seed (as in the published code of Romanov & Shivade 2018).
      lowered: False leaves out the second look-up, as that code does.
    """
    words = tuple(vocab_words)
    if path is None:
        matrix, route_V = (
            random_vectors(words, dim=dim, seed=seed),
            np.full(len(words), EXACT, np.int8),
        )
        matrix[PAD], route_V[: len(SPECIALS)] = 0, MISSING
        return Vectors("random", "random", "", 0, words, matrix, route_V)
    path = vectors_path(path)
    wanted, kind = _Wanted(words[2:], dim, lowered), kind_of(path)
    if kind == "fasttext":
        _fill_by_fasttext(path, wanted)
    else:
        _fill(path, kind, wanted)
    digest = sha256(*files_of(path))
    if wanted.duplicates:
        warn(
            f"{path.name}: {wanted.duplicates} rows repeat a word of the corpus; the first of each counts."
        )
    place_V, route_V = np.full(len(words), -1), np.zeros(len(words), np.int8)
    for row, word in enumerate(words[2:], start=2):
        place_V[row], route_V[row] = wanted.find(word)
    matrix = _matrix(wanted, place_V, seed, unknown)
    return Vectors(path.name, kind, digest, wanted.duplicates, words, matrix, route_V)


def _fill(path: Path, kind: str, wanted: "_Wanted") -> None:
    """Fills `wanted` from the rows of a file."""
    problems = Problems()
    for number, word, numbers in _rows(path, wanted.numbers.shape[1], problems):
        if not wanted.add(word, numbers):
            row, line = ("the row", number) if kind in ("text", "pair") else (f"row {number}", None)
            problem = f"{row} holds something that is not a number up to {LARGEST:.1g}"
            problems.add(
                line_fault(_numbers(path).name, line, problem, "correct or remove the row")
            )
    problems.raise_if_any()


def _matrix(wanted: "_Wanted", place_V: np.ndarray, seed: int, unknown: str) -> np.ndarray:
    """float32 [V, D] from the rows of `wanted`; the row of a word without one is that of UNK."""
    dim = wanted.numbers.shape[1]
    matrix, has_vector = np.zeros((len(place_V), dim), np.float32), place_V >= 0
    if not has_vector.any():
        matrix[UNK:] = random_vectors(SPECIALS[UNK:], dim=dim, seed=seed)
        return matrix
    rows = wanted.numbers[place_V[has_vector]]
    random = np.random.default_rng(seed).uniform(-0.5, 0.5, dim)
    matrix[UNK:] = random if unknown == "random" else rows.mean(axis=0, dtype=np.float64)
    matrix[has_vector] = rows
    return matrix


def coverage(vectors: Vectors, counts: Mapping[str, int]) -> dict:
    """How much of a corpus has a vector, as plain numbers for JSON.

    counts: how often each word stands in the corpus; a word that was not requested counts as
    missing.
    """
    row_of = {word: row for row, word in enumerate(vectors.vocabulary) if row > UNK}
    row_N = np.array([row_of.get(word, PAD) for word in counts], np.int64)
    count_N = np.array(list(counts.values()), np.int64)
    route_N = vectors.route_V[row_N]
    by_route = {name: route_N == route for route, name in enumerate(ROUTES)}
    by_route["found"] = ~by_route.pop(ROUTES[MISSING])
    words, tokens = len(row_N), int(count_N.sum())
    share_of_words = {name: float(of_N.sum() / max(words, 1)) for name, of_N in by_route.items()}
    share_of_tokens = {
        name: float(count_N[of_N].sum() / max(tokens, 1)) for name, of_N in by_route.items()
    }
    return {
        "words": words,
        "tokens": tokens,
        "share_of_words": share_of_words,
        "share_of_tokens": share_of_tokens,
    }


def training_coverage(vectors: Vectors, counts: Mapping[str, int]) -> dict[str, int]:
    """How many tokens of the training texts have a vector: {"tokens", "with_vector"}. counts: of
    each of their words.

    Raises DataError where the texts have words, and the file has a vector for none of them.
    """
    report = coverage(vectors, counts)
    tokens, share = report["tokens"], report["share_of_tokens"]["found"]
    if tokens and not share:
        fix = "give vectors whose keys are words of the corpus's language and case by --config.vectors.path=FILE"
        fix = f"{fix}, or leave it empty for random ones"
        raise DataError("no word of the training texts has a vector", file=vectors.file, fix=fix)
    return {"tokens": tokens, "with_vector": round(share * tokens)}


def coverage_warnings(words: Mapping) -> Iterator[str]:
    """A warning where under half of the training tokens have a vector. words: of a manifest,
    `vocabulary`."""
    training = words.get("training_tokens")  # word pieces have no vectors
    if training and 2 * training["with_vector"] < training["tokens"]:
        counts = (
            f"{training['with_vector']:,} of {training['tokens']:,} tokens of the training texts"
        )
        yield f"only {counts} have a vector ({words['source']}): is it of the corpus's language and case?"


def random_vectors(words, *, dim: int, seed: int, sd: float = RANDOM_SD) -> np.ndarray:
    """float32 [len(words), dim], each row a function of (seed, word) only, drawn from N(0,
    sd^2)."""
    digests = [
        hashlib.shake_256(f"{seed} {word}".encode("utf-8", "surrogatepass")).digest(4 * dim)
        for word in words
    ]
    bits = np.frombuffer(b"".join(digests), "<u4").reshape(len(words), dim)
    return (sd * ndtri((bits + 0.5) / 2.0**32)).astype(np.float32)


# The authors of MedNLI gave out {word: vector} as pickles.
_UNPICKLE = "if you trust where it comes from, load it and write a word and its numbers on each line of a text file"
# what rows of text are made of: numbers of 32 bits soon hold another byte
_TEXT = bytes([*b"\t\n\r", *range(32, 256)])
_CONTROL = re.compile(rb"[\0-\x1f]")
# the rest of a word with a space in it, where it fills whole numbers
_REST = re.compile(rb"(?:[^\0-\x1f]{4})*?[^\0-\x1f]{3} ")
# last bytes of numbers of 32 bits below LARGEST, and of those that are not finite (reported where
# they are used)
_LAST_BYTES = bytes(byte for byte in range(256) if byte & 127 < 0x50 or byte & 127 == 127)


def vectors_path(path) -> Path:
    """The file, with or without .gz, or the folder of BioASQ that `path` names."""
    return either_name(path) or Path(path)


def vector_files(path) -> list[Path]:
    """The files that `load_vectors` reads for a path."""
    files = files_of(vectors_path(path))
    for file in filter(os.path.isfile, files):  # a missing one is reported when it is needed
        check_readable(file)
    return files


def files_of(path: Path) -> list[Path]:
    """The files of one name, whether they are there or not; the words' file first in a pair."""
    if os.path.isdir(path):
        pair = [either_name(path / name) or path / name for name in (TYPES, PAIRED)]
        return pair if any(map(os.path.isfile, pair)) else [path]
    if path.name.removesuffix(".gz") in (TYPES, PAIRED) and os.path.isfile(
        (pair := files_of(path.parent))[0]
    ):
        return pair
    return [path]


def _numbers(path: Path) -> Path:
    """The file with the numbers."""
    return files_of(path)[-1]


@dataclass(frozen=True)
class Head:
    """The header of a file, or its first row. rows: -1 where only counting gives it. dim: numbers a
    word."""

    kind: str
    rows: int
    dim: int


def read_head(path) -> Head:
    """The head of one file, without reading the rest."""
    path = vectors_path(path)
    kind = kind_of(path)
    if kind == "fasttext":
        rows, dim = _fasttext_head(path)
    else:
        rows, dim = _text_head(_numbers(path), kind == "pair")
    return Head(kind, rows, dim)


def kind_of(path: Path) -> str:
    """The kind of a file, by its content where names do not settle it."""
    files = files_of(path)
    for file in files:
        if not os.path.isfile(file):
            raise no_such_file(
                file, f"put the file there ($MEDNLI_JAX_DATA/vectors/), as {FORMATS}"
            )
    if len(files) == 2:
        return "pair"
    with opened(path) as stream:
        start = stream.read(1 << 13)
    if start.startswith(struct.pack("<i", _MAGIC)):
        return "fasttext"
    if start[:1] == b"\x80" and start[1:2] <= b"\x05":
        raise _unreadable(
            path, "a Python pickle, which may run any program when it is opened", fix=_UNPICKLE
        )
    if start.startswith(b"PK"):
        raise _unreadable(path, "a zip archive", fix="unzip it and name the file inside")
    line, _, rest = start.partition(b"\n")
    if _header(_between_blanks(line.removeprefix(MARK.encode()).rstrip(b"\r"))):
        return "word2vec" if rest.translate(None, _TEXT) else "text"
    if path.name.removesuffix(".gz").endswith((".bin", ".model", ".ftz")):
        problem = "a binary file, but neither word2vec's nor a fastText model of 2017 or later"
        raise _unreadable(
            path, problem, fix=f"save the vectors as text and use that; read is {FORMATS}"
        )
    return "text"


def rows_of(path: Path, dim: int) -> Iterator[tuple[bytes, bytes | np.ndarray]]:
    """(word, numbers) of every row of a file; the numbers of text are bytes, between blanks."""
    problems = Problems()
    yield from ((word, numbers) for _, word, numbers in _rows(path, dim, problems))
    problems.raise_if_any()


def _wrong_dim(names, problem, columns, dim, line=None):
    if not columns:
        fix = "write a word and its numbers, such as 0.25, on each line, with a blank or a TAB between them"
        return DataError("the line does not end in numbers", file=names, line=line, fix=fix)
    fix = f"set --config.vectors.dim={columns} or use another file"
    return DataError(f"{problem} numbers a word, expected {dim}", file=names, line=line, fix=fix)


def _unreadable(path, problem, fix=f"use {FORMATS}"):
    return line_fault(path.name, None, problem, fix)


def _wrong_count(path, promised, found):
    problem = f"the header promises {promised} rows, there are {found}"
    return line_fault(path.name, 1, problem, "copy the file again, it may be cut short")


def _ragged(path, number, found, dim):
    return line_fault(
        path.name, number, f"the row holds {found} numbers, expected {dim}", FRESH_COPY
    )


Rows = Iterator[tuple[int, bytes, bytes | np.ndarray]]


def _rows(path: Path, dim: int, problems: Problems) -> Rows:
    """The rows of a file that must have `dim` numbers a word; `problems` gets the faults of
    rows."""
    head = read_head(path)
    if head.dim != dim:
        line = None if head.kind == "fasttext" else 1
        raise _wrong_dim(_numbers(path).name, f"holds {head.dim}", head.dim, dim, line)
    yield from _READERS[head.kind](path, head, problems)


def _between_blanks(line: bytes) -> bytes:
    """A line with a blank in place of TABs, and none at its end."""
    return (re.sub(rb" *\t[ \t]*", b" ", line) if b"\t" in line else line).rstrip(b" ")


def _text_rows(path: Path, head: Head, problems: Problems) -> Rows:
    rows, dim = 0, head.dim
    for number, line in byte_lines(path):
        line = _between_blanks(line)
        if not line or (number == 1 and _header(line)):
            continue
        rows += 1
        spaces = line.count(b" ")  # many times faster than splitting the row
        if spaces < dim:
            problems.add(_ragged(path, number, spaces, dim))
            continue
        word = line[: line.index(b" ")] if spaces == dim else line.rsplit(b" ", dim)[0]
        if spaces > dim and _is_number(word.rsplit(b" ", 1)[1]):
            problems.add(_ragged(path, number, _numbers_at_end(line), dim))
        else:
            yield number, word, line[len(word) + 1 :]
    problems.raise_if_any()
    if head.rows not in (-1, rows):
        raise _wrong_count(path, head.rows, rows)


def _paired_rows(path: Path, head: Head, problems: Problems) -> Rows:
    words, path = files_of(path)
    rows = (_between_blanks(numbers).lstrip(b" ") for _, numbers in byte_lines(path))
    try:
        for (number, word), numbers in zip(byte_lines(words), rows, strict=True):
            columns = numbers.count(b" ") + bool(numbers)
            if columns != head.dim:
                problems.add(_ragged(path, number, columns, head.dim))
            else:
                yield number, word.strip(b" \t"), numbers
    except ValueError:
        problem = f"{words.name} has not as many words as {path.name} has rows"
        raise line_fault(
            path.name, None, problem, "take both files from the same vectors"
        ) from None


def _word2vec_rows(path: Path, head: Head, problems: Problems) -> Rows:
    with opened(path) as stream:
        stream.readline()
        block, at, size = b"", 0, 4 * head.dim
        for row in range(1, head.rows + 1):
            end = block.find(b" ", at)
            if end < 0 or end + 1 + size > len(block):
                block, at = block[at:] + stream.read((1 << 22) + size), 0
                end = block.find(b" ")
                if end < 0 or end + 1 + size > len(block):
                    raise _wrong_count(path, head.rows, row - 1)
            word, at = block[at:end].lstrip(b"\n"), end + 1 + size
            too_large = block[end + 4 : at : 4].translate(None, _LAST_BYTES)
            if too_large or _CONTROL.search(word) or _REST.match(block, end + 1, at):
                raise _not_of_words(path, row)
            yield row, word, np.frombuffer(block, "<f4", head.dim, end + 1)
        if (block[at:] + stream.read(2)) not in (b"", b"\n"):
            raise _wrong_count(path, head.rows, "more")


def _not_of_words(path: Path, row: int) -> DataError:
    problem = f"row {row} is not a word and its numbers, or the one before it: there are control characters in the word"
    problem += f", or numbers over {LARGEST:.1g}, as after a word with a space in it"
    fix = "save the vectors as text, or with underscores in place of spaces"
    return line_fault(path.name, None, problem, fix)


def _fasttext_rows(path: Path, head: Head, problems: Problems) -> Rows:
    model, matrix = _fasttext_model(path, head.dim)
    for number, word in enumerate(_fasttext_words(model), start=1):
        yield number, word, _mean(model, matrix, word)


_READERS = {"text": _text_rows, "pair": _paired_rows, "word2vec": _word2vec_rows}
_READERS["fasttext"] = _fasttext_rows


def _header(line: bytes) -> tuple[int, int] | None:
    """(rows, dim) of a header, None for any other line: no row of vectors is two whole numbers."""
    parts = line.split(b" ") if len(line) < 40 else ()
    return tuple(map(int, parts)) if len(parts) == 2 and all(map(bytes.isdigit, parts)) else None


def _text_head(path: Path, without_words: bool) -> tuple[int, int]:
    """(rows, or -1 where no header says so; numbers a word) by the first line that is not empty."""
    for number, line in byte_lines(path):
        line = _between_blanks(line)
        if number == 1 and not without_words and (header := _header(line)):
            if not header[0]:
                break
            return header
        if line:
            return -1, _numbers_at_end(line) + without_words
    raise empty_file(path, "no vectors")


def _numbers_at_end(line: bytes) -> int:
    """How many numbers a row ends in: the first piece is always part of the word."""
    return sum(1 for _ in takewhile(_is_number, reversed(line.split(b" ")[1:])))


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Wanted:
    """The numbers of words that are looked for, each as it is and, where `lowered`, lower-cased.

    places: bytes of a form -> its row in `numbers` float32 [F, D]. filled, composed: bool [F],
    whether the form has numbers, and whether these come from character n-grams alone. duplicates:
    rows that repeat a form found before.
    """

    def __init__(self, words, dim: int, lowered: bool = True):
        self.words, self.lowered = tuple(words), lowered
        forms = dict.fromkeys(form for word in self.words for form, _ in self._forms(word))
        self.places = {_encoded(form): place for place, form in enumerate(forms)}
        self.numbers = np.zeros((len(forms), dim), np.float32)
        self.filled, self.composed = np.zeros(len(forms), bool), np.zeros(len(forms), bool)
        self.duplicates = 0

    def add(self, word: bytes, numbers: bytes | np.ndarray) -> bool:
        """Keeps the first row of a word. False where a number is none, or larger than LARGEST."""
        place = self.places.get(word)
        if place is None or self.filled[place]:
            self.duplicates += place is not None
            return True
        self.filled[place] = True
        try:
            with np.errstate(over="ignore"):
                self.numbers[place] = (
                    list(map(float, numbers.split(b" "))) if isinstance(numbers, bytes) else numbers
                )
        except ValueError:
            return False
        return bool((np.abs(self.numbers[place]) <= LARGEST).all())

    def _forms(self, word):
        return ((word, EXACT), (word.lower(), LOWERED))[: 1 + self.lowered]

    def find(self, word: str) -> tuple[int, int]:
        """(row of `numbers`, route) of a word: as it is, else lower-cased, else from its n-grams;
        (-1, MISSING)."""
        found = -1, MISSING
        for form, route in self._forms(word):
            place = self.places[_encoded(form)]
            if self.filled[place] and not self.composed[place]:
                return place, route
            if self.filled[place] and found[0] < 0:
                found = place, SUBWORDS
        return found


def _encoded(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")


# The library reads on past the end of a damaged file, so sizes are compared first. The layout, little endian:
#   int32 magic, version; int32 dim, window, epochs, min count, negatives, word n-grams, loss, model, buckets, minn,
#   maxn, update rate; float64 sampling threshold; int32 entries, words, labels; int64 tokens, pruned pairs;
#   per entry: word, NUL, int64 count, int8 kind; bool quantised; int64 rows, columns; float32 [words + buckets, dim];
#   bool, int64, int64, float32: the output matrix, which vectors do not need.
_MAGIC, _ENTRIES = 793712314, 92  # the first entry's place


def _fasttext_head(path: Path, *, whole: bool = False) -> tuple[int, int]:
    """(words, dim) of a model. whole: check that the file is as long as it says."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            magic, _, dim = struct.unpack_from("<3i", data)
            buckets, entries, words = (
                struct.unpack_from("<i", data, place)[0] for place in (40, 64, 68)
            )
            if magic != _MAGIC:  # which `kind_of` found once the file was unpacked
                problem = "a gzipped fastText model, which the fastText library does not read"
                raise _unreadable(path, problem, fix="unpack it with gunzip")
            if whole and _is_quantised(data, entries, (words + buckets, dim)):
                problem = "a quantised fastText model, which keeps its vectors only roughly"
                raise _unreadable(
                    path, problem, fix="use the whole model (.bin, not .ftz), or its .vec"
                )
        except struct.error:
            raise line_fault(
                path.name, None, "the binary file is damaged or cut short", FRESH_COPY
            ) from None
    return words, dim


def _is_quantised(data, entries, shape):
    """Whether the input matrix is quantised; struct.error where the sizes contradict each other."""
    at = _ENTRIES
    for _ in range(entries):
        at = data.find(b"\0", at) + 10
        if at < _ENTRIES:
            raise struct.error
    quantised, *found = struct.unpack_from("<?2q", data, at)
    if quantised:
        return True
    at += 17 + 4 * shape[0] * shape[1]
    _, rows, columns = struct.unpack_from("<?2q", data, at)
    if tuple(found) != shape or at + 17 + 4 * rows * columns != len(data):
        raise struct.error
    return False


def _fasttext_model(path: Path, dim: int):
    """(the library's model, its matrix float32 [words + buckets, dim])."""
    try:
        import fasttext  # an extra
    except ImportError:
        fix = "pip install 'mednli_jax[embeddings]', or use the model's .vec"
        raise _unreadable(
            path, "the fastText library, which reads this file, is missing", fix=fix
        ) from None
    _, columns = _fasttext_head(path, whole=True)
    if columns != dim:
        raise _wrong_dim(path.name, f"holds {columns}", columns, dim)
    try:
        model = fasttext.load_model(os.fsencode(path))
    except (ValueError, RuntimeError, MemoryError) as error:
        problem = f"the fastText library cannot load it ({type(error).__name__})"
        raise _unreadable(
            path, problem, fix=f"{FRESH_COPY}, or use its .vec, which takes less memory"
        ) from None
    return model, np.asarray(model.f.getInputMatrix())  # get_input_matrix would copy it


def _fasttext_words(model):
    return (
        word.encode("utf-8", "surrogateescape")
        for word in model.get_words(on_unicode_error="surrogateescape")
    )


def _mean(model, matrix, form: bytes, skipped: int = 0) -> np.ndarray | None:
    """The mean over the rows of a word and of its n-grams; None where it has none. (get_word_vector
    of fasttext-community 0.11.9 would return it at length 1.)"""
    rows = model.get_subwords(form, "replace")[1][skipped:]
    with np.errstate(invalid="ignore", over="ignore"):  # reported where the numbers are used
        return matrix[rows].mean(axis=0, dtype=np.float64) if len(rows) else None


def _fill_by_fasttext(path: Path, wanted: _Wanted) -> None:
    """Fills `wanted`; words known neither as they are nor lower-cased from their n-grams, in lower
    case if the model knows no capital letter."""
    model, matrix = _fasttext_model(path, wanted.numbers.shape[1])
    words, _ = _fasttext_head(path)
    number = {
        form: model.get_word_id(form) for form in wanted.places
    }  # -1 for what it does not know
    known = {form for form in number if 0 <= number[form] < words}  # labels come after the words
    cased, composed = any(word != word.lower() for word in _fasttext_words(model)), set()
    for word in wanted.words:
        if known.isdisjoint((_encoded(word), _encoded(word.lower()))):
            composed.add(_encoded(word if cased else word.lower()))
    for form in known | composed:
        # The first row of a label is the label's number, where the matrix has an n-gram.
        mean = _mean(model, matrix, form, skipped=int(form in composed and number[form] >= 0))
        if mean is not None:
            wanted.composed[wanted.places[form]] = form in composed
            if not wanted.add(form, mean):
                problem = (
                    f"a word's vector holds something that is not a number up to {LARGEST:.1g}"
                )
                raise line_fault(path.name, None, problem, FRESH_COPY)
