"""Pretrained word vectors for the words of a vocabulary: GloVe, word2vec and fastText text files, or NumPy arrays.

Files can be gigabytes, vocabularies are small: every row's columns are counted, but only rows asked for become numbers.
Faults (file, line and field are named, words are not):
  E-VEC-001 file missing      E-VEC-004 no rows              E-VEC-007 not a finite number
  E-VEC-002 unreadable        E-VEC-005 wrong dimension      E-VEC-008 row count differs from the header
  E-VEC-003 damaged gzip      E-VEC-006 ragged row           E-VEC-009 not a format read here
  E-VEC-010 array and its vocabulary disagree
A repeated word is no fault: the first row counts, and a line on stderr (E-VEC-011) says how many there were.
"""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from mednli_jax.errors import DataError, Problems
from mednli_jax.progress import say
from mednli_jax.text import PAD, SPECIALS, UNK, Vocab, binary_lines

# Random vectors are to be about as long as GloVe's, whatever their dimension: the numbers of 60,811 words of GloVe 6B
# 100d have a standard deviation of .48, and longer vectors have smaller numbers.
RANDOM_SD = 0.4
FORMATS = "a text file of word and numbers (.txt, .vec), the same gzipped, or NAME.npy with NAME.vocab.txt"


@dataclass(frozen=True)
class Vectors:
    """Vectors in the order of a vocabulary.

    vocabulary: the words asked for, PAD and UNK first.
    words: those of them that have a vector of their own, same order; found: how many.
    matrix: float32 [V, D]; row PAD is zero, row UNK the mean of the vectors found, as is the row of a word not found.
    lowered: words found only lower-cased; duplicates: rows of the file that repeat a word asked for (the first counts).
    source: file name or "random"; sha256: of the file's bytes ("" if random).
    """

    vocabulary: tuple[str, ...]
    words: tuple[str, ...]
    matrix: np.ndarray
    found: int
    lowered: int
    duplicates: int
    source: str
    sha256: str

    def known(self) -> tuple[Vocab, np.ndarray]:
        """PAD, UNK and the words found as a vocabulary, and its matrix [2 + found, D]: what a model should be given."""
        kept = set(self.words)
        rows = [PAD, UNK] + [row for row, word in enumerate(self.vocabulary) if row > UNK and word in kept]
        return Vocab(SPECIALS + self.words), self.matrix[rows]


def vector_files(path: Path) -> list[Path]:
    """The files that `load_vectors` reads for a path. Raises: DataError E-VEC-002 for one that cannot be read."""
    files = [path, vocabulary_path(path)] if path.suffix == ".npy" else [path]
    for file in files:
        try:
            with open(file, "rb") as stream:
                stream.read(1)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            pass  # missing, which is told when it is wanted
        except OSError as error:
            raise _unread(file, error) from error
    return files


def vocabulary_path(path: Path) -> Path:
    """Where the words of NAME.npy stand."""
    return path.with_name(f"{path.stem}.vocab.txt")


def load_vectors(path, vocab_words, *, dim: int, seed: int) -> Vectors:
    """Looks up the words of a vocabulary, first as they are, then lower-cased.

    path: GloVe text, word2vec text or fastText .vec (header "rows dim"), each also gzipped; NAME.npy [rows, dim] with
      the words in NAME.vocab.txt, one a line; None for random vectors, N(0, RANDOM_SD^2), where a word's vector
      depends on seed and word alone, whatever else is in the vocabulary.
    vocab_words: words of a Vocab, "<pad>" and "<unk>" first. dim: numbers per word, must be the file's.
    Raises: DataError, or DataErrors with the first 20 faults; ValueError where vocab_words starts otherwise.
    """
    words = tuple(vocab_words)
    if words[:2] != SPECIALS:
        raise ValueError(f"vocab_words starts with {SPECIALS}")
    if path is None:
        matrix = random_vectors(words, dim=dim, seed=seed)
        matrix[PAD] = 0
        return Vectors(words, words[2:], matrix, len(words) - 2, 0, 0, "random", "")
    path = Path(path)
    wanted = _Wanted(words[2:], dim)
    try:
        digest = _read_array(path, wanted) if path.suffix == ".npy" else _read_text(path, wanted)
    except FileNotFoundError:
        fix = f"put the file there ($MEDNLI_JAX_DATA/vectors/), as {FORMATS}"
        raise DataError("E-VEC-001", "there is no such file", file=path.name, fix=fix) from None
    except gzip.BadGzipFile as error:
        raise DataError("E-VEC-003", f"cannot be decompressed: {error}", file=path.name, fix="copy it again") from error
    except OSError as error:
        raise _unread(path, error) from error
    if wanted.duplicates:
        say(f"E-VEC-011 {path.name}: {wanted.duplicates} rows repeat a word of the corpus; the first of each counts.")
    return _assemble(words, wanted, seed, path.name, digest)


def random_vectors(words, *, dim: int, seed: int) -> np.ndarray:
    """float32 [len(words), dim], each row a function of (seed, word) only, drawn from N(0, RANDOM_SD^2)."""
    # A hash as generator: no state runs from one word to the next, and one call serves all numbers of a word.
    digests = [hashlib.shake_256(f"{seed} {word}".encode("utf-8", "surrogatepass")).digest(4 * dim) for word in words]
    bits = np.frombuffer(b"".join(digests), "<u4").reshape(len(words), dim)
    return (RANDOM_SD * ndtri((bits + 0.5) / 2.0**32)).astype(np.float32)


class _Wanted:
    """The rows to look out for in a file, by the bytes of their word, and the numbers found so far."""

    def __init__(self, words, dim):
        forms = dict.fromkeys(form for word in words for form in (word, word.lower()))
        self.places = {form.encode("utf-8", "surrogatepass"): place for place, form in enumerate(forms)}
        self.numbers = np.zeros((len(forms), dim), np.float32)
        self.filled = np.zeros(len(forms), bool)
        self.dim, self.duplicates = dim, 0

    def place(self, word: bytes):
        """Where the word's numbers belong; None for a word nobody asked for or that is there already."""
        place = self.places.get(word)
        if place is not None and self.filled[place]:
            self.duplicates += 1
            return None
        return place

    def fill(self, place, numbers) -> bool:
        """False where a number is not finite in float32."""
        with np.errstate(over="ignore"):
            self.numbers[place] = numbers
        self.filled[place] = True
        return bool(np.isfinite(self.numbers[place]).all())

    def find(self, word):
        """Place of the word, else of its lower-cased form, else None."""
        for form in (word, word.lower()):
            place = self.places[form.encode("utf-8", "surrogatepass")]
            if self.filled[place]:
                return place
        return None


def _assemble(words, wanted, seed, source, digest):
    places = [wanted.find(word) for word in words[2:]]
    rows = np.array([row for row, place in enumerate(places, start=2) if place is not None], np.int64)
    found = wanted.numbers[[place for place in places if place is not None]]
    matrix = np.zeros((len(words), wanted.dim), np.float32)
    if len(found):
        matrix[UNK:] = found.mean(axis=0, dtype=np.float64)
        matrix[rows] = found
    else:
        matrix[UNK:] = random_vectors(SPECIALS[UNK:], dim=wanted.dim, seed=seed)
    own = [wanted.places[words[row].encode("utf-8", "surrogatepass")] for row in rows]
    lowered = int(np.sum(~wanted.filled[own])) if own else 0
    found_words = tuple(words[row] for row in rows)
    return Vectors(words, found_words, matrix, len(rows), lowered, wanted.duplicates, source, digest)


def _read_text(path, wanted):
    """Fills `wanted` from a text file; returns the sha256 of the file."""
    dim, problems, rows, promised = wanted.dim, Problems(), 0, None
    _refuse_foreign(path)
    for number, line in binary_lines(path):
        if line is None:
            problem = "the line is longer than a row of vectors"
            problems.add(_fault(path, "E-VEC-009", problem, number, f"use {FORMATS}"))
            continue
        line = line.rstrip(b" ")
        if number == 1 and (promised := _header(line)) is not None:
            promised, columns = promised
            _check_dim(path, columns, dim, number)
            continue
        if not line:
            continue
        rows += 1
        # Counting spaces checks a row in a fraction of the time that splitting it takes.
        spaces = line.count(b" ")
        if rows == 1 and spaces != dim and promised is None:
            _check_dim(path, _numbers_at_end(line), dim, number)
        if spaces == dim:
            word = line[: line.index(b" ")]
        elif spaces > dim:
            word = line.rsplit(b" ", dim)[0]
        if spaces < dim or (spaces > dim and _is_number(word.rsplit(b" ", 1)[1])):
            found = spaces if spaces < dim else _numbers_at_end(line)
            problem = f"the row holds {found} numbers, expected {dim}"
            problems.add(_fault(path, "E-VEC-006", problem, number, "the file is damaged here, copy it again"))
        elif (place := wanted.place(word)) is not None:
            try:
                finite = wanted.fill(place, list(map(float, line[len(word) + 1 :].split(b" "))))
            except ValueError:
                finite = False
            if not finite:
                problem = "the row holds something that is not a finite number"
                problems.add(_fault(path, "E-VEC-007", problem, number, "correct or remove the row"))
    problems.raise_if_any()
    if not rows:
        raise DataError("E-VEC-004", "holds no vectors", file=path.name, fix="copy the file again")
    if promised not in (None, rows):
        problem = f"the first line promises {promised} rows, there are {rows}"
        raise DataError("E-VEC-008", problem, file=path.name, line=1, fix="copy the file again, it may be cut short")
    return _sha256(path)


def _read_array(path, wanted):
    """Fills `wanted` from NAME.npy and NAME.vocab.txt; returns the sha256 of the two files' bytes, in this order."""
    vocabulary = vocabulary_path(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    # A damaged header is Python text to NumPy: tokenize and ast have errors of their own for it. Where the file is no
    # array, NumPy's message advises allow_pickle, which is no way out.
    except Exception:
        raise DataError("E-VEC-009", "not a plain NumPy array", file=path.name, fix=f"use {FORMATS}") from None
    if not isinstance(array, np.ndarray):
        raise DataError("E-VEC-009", "an archive of arrays", file=path.name, fix="save the one array with numpy.save")
    if array.ndim != 2 or array.dtype.kind != "f":
        problem = f"holds {array.dtype} of shape {array.shape}, expected floats [rows, dim]"
        raise DataError("E-VEC-009", problem, file=path.name, fix=f"use {FORMATS}")
    _check_dim(path, array.shape[1], wanted.dim, None)
    if not len(array):
        raise DataError("E-VEC-004", "holds no vectors", file=path.name, fix="copy the file again")
    if not vocabulary.is_file():
        fix = f"put the words of {path.name} beside it, one a line"
        raise DataError("E-VEC-001", "there is no such file", file=vocabulary.name, fix=fix)
    problems, count = Problems(), 0
    for number, word in binary_lines(vocabulary):
        count = number
        place = wanted.place(word) if word is not None and number <= len(array) else None
        if place is not None and not wanted.fill(place, array[number - 1]):
            problem = f"row {number - 1} (from 0) holds something that is not a finite number"
            problems.add(_fault(path, "E-VEC-007", problem, None, "correct the row"))
    problems.raise_if_any()
    if count != len(array):
        problem = f"{vocabulary.name} holds {count} words, the array {len(array)} rows"
        raise DataError("E-VEC-010", problem, file=path.name, fix="write the two from the same vectors")
    return _sha256(path, vocabulary)


def _refuse_foreign(path):
    with open(path, "rb") as file:
        start = file.read(2)
    if start == b"PK":
        raise DataError("E-VEC-009", "a zip archive", file=path.name, fix="unzip it and name the file inside")
    if path.suffix in (".bin", ".model"):
        raise DataError("E-VEC-009", "a binary model", file=path.name, fix=f"save it as text first; read is {FORMATS}")


def _header(line):
    """(rows, dim) of a word2vec header, None for any other line: no row of vectors is two whole numbers."""
    parts = line.split(b" ")
    return (int(parts[0]), int(parts[1])) if len(parts) == 2 and all(part.isdigit() for part in parts) else None


def _check_dim(path, columns, dim, line):
    if columns != dim:
        fix = f"set the vectors' dimension to {columns} or use another file"
        raise _fault(path, "E-VEC-005", f"holds {columns} numbers a word, expected {dim}", line, fix)


def _numbers_at_end(line):
    """How many numbers a row ends in: the first piece is always part of the word."""
    count = 0
    for part in reversed(line.split(b" ")[1:]):
        if not _is_number(part):
            break
        count += 1
    return count


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fault(path, code, problem, line, fix):
    return DataError(code, problem, file=path.name, line=line, fix=fix)


def _unread(path, error):
    fix = "check the disk and the file's permissions"
    return DataError("E-VEC-002", f"cannot be read ({error.strerror})", file=path.name, fix=fix)


def _sha256(*paths):
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
