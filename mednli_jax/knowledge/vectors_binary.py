"""Binary vectors: word2vec's .bin, plain or gzipped, and fastText's .bin models.

word2vec: a line `rows dim`, then for each row the word, a space, dim float32, and with most writers a line break.
fastText (Bojanowski et al. 2017): the fastText library of the extra `embeddings` reads the model. It reads on past the
end of a damaged file, so sizes are compared first, in the layout of its `saveModel`, little endian:
  int32 magic, version; int32 dim, window, epochs, min count, negatives, word n-grams, loss, model, buckets, minn, maxn,
  update rate; float64 sampling threshold; int32 entries, words, labels; int64 tokens, pruned pairs;
  per entry: word, NUL, int64 count, int8 kind; bool quantised; int64 rows, columns; float32 [words + buckets, dim];
  bool, int64, int64, float32: the output matrix, which vectors do not need.
A word's vector is the mean of its row and those of its character n-grams; a word the model does not know has the
n-grams alone.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mednli_jax.errors import DataError
from mednli_jax.knowledge.vector_rows import (
    TOO_LARGE,
    Wanted,
    check_dim,
    encoded,
    not_finite,
    unreadable_format,
    wrong_count,
)
from mednli_jax.textfiles import FRESH_COPY, empty_file, line_fault, opened

MAGIC = 793712314
VERSIONS = (11, 12)
BLOCK_BYTES = 1 << 22
LONGEST_WORD = 1 << 16  # bytes; what goes on for longer is no word
HEAD_BYTES = 92  # of a fastText model, before the first entry
LONGEST_NGRAM = 1 << 8  # characters; models have six
LARGEST_COUNT = 10**15  # of a word: the library takes it for more than any count


class Stream:
    """The bytes of a file, read on in blocks and never back. What is cut short raises DataError."""

    def __init__(self, path: Path, file):
        self.path, self._file, self._block, self._at = path, file, b"", 0

    def has(self, count: int) -> bool:
        """Whether the file goes on for that many bytes."""
        while len(self._block) - self._at < count:
            new = self._file.read(max(BLOCK_BYTES, count))
            if not new:
                return False
            self._block, self._at = self._block[self._at :] + new, 0
        return True

    def peek(self, count: int) -> bytes:
        """The next bytes, which stay where they are; fewer at the end of the file."""
        self.has(count)
        return self._block[self._at : self._at + count]

    def take(self, count: int) -> bytes:
        if not self.has(count):
            raise damaged(self.path, "the file is cut short")
        start, self._at = self._at, self._at + count
        return self._block[start : self._at]

    def skip(self, count: int) -> None:
        while count > BLOCK_BYTES:
            self.take(BLOCK_BYTES)
            count -= BLOCK_BYTES
        self.take(count)

    def until(self, end: bytes) -> bytes:
        """The bytes before the next `end`, which is taken, too."""
        while (stop := self._block.find(end, self._at, self._at + LONGEST_WORD)) < 0:
            at_hand = len(self._block) - self._at
            if at_hand >= LONGEST_WORD or not self.has(at_hand + 1):
                raise damaged(self.path, "the file is cut short, or a word in it does not end")
        word = self._block[self._at : stop]
        self._at = stop + 1
        return word


@contextmanager
def streamed(path: Path) -> Iterator[Stream]:
    """A plain or gzipped file as a Stream. Raises: DataError as `textfiles.opened` does."""
    with opened(path) as file:
        yield Stream(path, file)


def damaged(path: Path, problem: str) -> DataError:
    return line_fault(path.name, None, f"the binary file is damaged: {problem}", FRESH_COPY)


def read_word2vec(path: Path, wanted: Wanted) -> None:
    """Fills `wanted` from word2vec's binary format."""
    with streamed(path) as stream:
        rows, dim = word2vec_header(stream)
        check_dim(path, dim, wanted.dim, 1)
        for row in range(rows):
            if not stream.has(2):  # a line break may be left
                raise wrong_count(path, rows, str(row))
            place = wanted.place(stream.until(b" ").lstrip(b"\n"))
            if place is None:
                stream.skip(4 * dim)
            elif not wanted.fill(place, np.frombuffer(stream.take(4 * dim), "<f4")):
                raise not_finite(path, None, f"row {row + 1}", FRESH_COPY)
        if stream.has(2) or (stream.has(1) and stream.take(1) != b"\n"):
            raise wrong_count(path, rows, "more")


def word2vec_header(stream: Stream) -> tuple[int, int]:
    """(rows, dim)."""
    parts = stream.until(b"\n").split()
    if len(parts) != 2 or not all(part.isdigit() and len(part) < 12 for part in parts):
        raise unreadable_format(stream.path, "the first line is not `rows dim`")
    rows, dim = map(int, parts)
    if not rows or not dim:
        raise empty_file(stream.path, "no vectors")
    if dim >= TOO_LARGE:
        raise damaged(stream.path, f"it names {dim} numbers a word")
    return rows, dim


def word2vec_words(path: Path) -> Iterator[bytes]:
    with streamed(path) as stream:
        rows, dim = word2vec_header(stream)
        for _ in range(rows):
            yield stream.until(b" ").lstrip(b"\n")
            stream.skip(4 * dim)


def fasttext_head(path: Path, *, whole: bool = False) -> tuple[int, int]:
    """(words, dim) of a fastText model, not gzipped. whole: all else that its sizes say is checked, too.

    Raises: DataError for what the library would not refuse: it reads or writes beyond its bounds and does not notice.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            entries, words, rows, dim = _head(path, data)
            if whole:
                _check_sizes(path, data, entries, (rows, dim))
        except struct.error:
            raise damaged(path, "the file is cut short") from None
    return words, dim


def _head(path, data):
    """(entries, words, rows of the input matrix, dim)."""
    magic, version, dim = struct.unpack_from("<3i", data)
    if magic != MAGIC:  # which `kind_of` found once the file was unpacked
        problem = "a gzipped fastText model, which the fastText library does not read"
        raise unreadable_format(path, problem, fix="unpack it with gunzip")
    if version not in VERSIONS:
        problem = f"a fastText model of format {version}, read are {' and '.join(map(str, VERSIONS))}"
        raise unreadable_format(path, problem, fix="save it with a fastText of 2017 or later, or use its .vec")
    buckets, minn, maxn = struct.unpack_from("<3i", data, 40)
    entries, words, labels, _, pruned = struct.unpack_from("<3i2q", data, 64)
    sound = 0 < dim < TOO_LARGE and min(words, labels, buckets, minn, maxn) >= 0 and entries == words + labels
    if not sound or (maxn and (not buckets or not minn <= maxn <= LONGEST_NGRAM)):
        raise damaged(path, "its settings contradict each other")
    if not words:
        raise empty_file(path, "no vectors")
    if pruned >= 0:
        raise _quantised(path)
    return entries, words, words + buckets, dim


def _quantised(path):
    problem = "a quantised fastText model, which keeps its vectors only roughly"
    return line_fault(path.name, None, problem, "use the whole model (.bin, not .ftz), or its .vec")


def _check_sizes(path, data, entries, shape):
    """shape: of the input matrix. The output matrix, which vectors do not need, may have any."""
    at = HEAD_BYTES
    for _ in range(entries):
        end = data.find(b"\0", at, at + LONGEST_WORD)
        if end < 0 or not 0 <= struct.unpack_from("<q", data, end + 1)[0] < LARGEST_COUNT:
            raise damaged(path, "the file is cut short, or a word does not end, or its count cannot be")
        at = end + 10
    quantised, *found = struct.unpack_from("<?2q", data, at)
    if quantised:
        raise _quantised(path)
    if tuple(found) != shape:
        raise damaged(path, f"a matrix of {found[0]} rows of {found[1]}, expected {shape[0]}")
    at += 17 + 4 * shape[0] * shape[1]
    _, rows, columns = struct.unpack_from("<?2q", data, at)
    if min(rows, columns) < 0 or at + 17 + 4 * rows * columns != len(data):
        raise damaged(path, "the file is cut short, or goes on after its end")


def _loaded(path):
    """The library's model. Raises: DataError."""
    try:
        import fasttext  # an extra
    except ImportError:
        fix = "pip install 'mednli_jax[embeddings]', or use the model's .vec"
        raise unreadable_format(path, "the fastText library, which reads this file, is missing", fix=fix) from None
    fasttext_head(path, whole=True)
    try:
        return fasttext.load_model(os.fsencode(path))
    except (ValueError, RuntimeError, MemoryError) as error:
        problem = f"the fastText library cannot load it ({type(error).__name__})"
        raise line_fault(path.name, None, problem, f"{FRESH_COPY}, or use its .vec, which takes less memory") from None


def _words(model):
    return (word.encode("utf-8", "surrogateescape") for word in model.get_words(on_unicode_error="surrogateescape"))


def fasttext_words(path: Path) -> Iterator[bytes]:
    return _words(_loaded(path))


def read_fasttext(path: Path, wanted: Wanted) -> None:
    """Fills `wanted` from a fastText model: words that it knows neither as they are nor lower-cased from their n-grams.

    Where the model knows no capital letter, a word is put together from its small letters.
    """
    words, dim = fasttext_head(path)
    check_dim(path, dim, wanted.dim, None)
    model = _loaded(path)
    matrix = np.asarray(model.f.getInputMatrix())  # float32 [words + buckets, dim]; get_input_matrix would copy it
    number = {form: model.get_word_id(form) for form in wanted.places}  # -1 for what it does not know
    known = {form for form in number if 0 <= number[form] < words}  # labels come after the words
    cased, composed = any(word != word.lower() for word in _words(model)), set()
    for word in wanted.words:
        if known.isdisjoint((encoded(word), encoded(word.lower()))):
            composed.add(encoded(word if cased else word.lower()))
    for form in known | composed:
        rows = model.get_subwords(form, "replace")[1]
        if form in composed and number[form] >= 0:
            rows = rows[1:]  # the first is the label's number, where the matrix has an n-gram
        if len(rows):
            place = wanted.places[form]
            wanted.composed[place] = form in composed
            # Not get_word_vector: fasttext-community 0.11.9 scales what it returns to length 1, as no other build does.
            with np.errstate(invalid="ignore", over="ignore"):  # reported in the next line
                mean = matrix[rows].mean(axis=0, dtype=np.float64)
            if not wanted.fill(place, mean):
                raise not_finite(path, None, "a word's vector", FRESH_COPY)
