"""Binary vectors: word2vec's .bin and fastText's .bin models, plain or gzipped, read once from front to back.

word2vec: a line `rows dim`, then for each row the word, a space, dim float32, and with most writers a line break.
fastText (Bojanowski et al. 2017; the layout is that of its `saveModel`, little endian):
  int32 magic, version; int32 dim, window, epochs, min count, negatives, word n-grams, loss, model, buckets, minn, maxn,
  update rate; float64 sampling threshold; int32 entries, words, labels; int64 tokens, pruned pairs;
  per entry: word, NUL, int64 count, int8 kind; bool quantised; int64 rows, columns; float32 [words + buckets, dim];
  bool, int64, int64, float32: the output matrix, which vectors do not need.
A word's vector is the mean of its row and those of its character n-grams; a word the model does not know has the
n-grams alone.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
SUPERVISED = 3
LONGEST_NGRAM = 1 << 8  # characters; models have six
_END_OF_LINE = b"</s>"  # fastText's word for the end of a line: it has no n-grams


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

    def numbers(self, layout: str) -> tuple:
        return struct.unpack(f"<{layout}", self.take(struct.calcsize(f"<{layout}")))


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


@dataclass(frozen=True)
class Head:
    """What a fastText model says of itself. dim: numbers a word. buckets: of n-grams, minn to maxn characters long."""

    dim: int
    words: int
    labels: int
    buckets: int
    minn: int
    maxn: int

    def ngrams(self, word: bytes) -> list[int]:
        """Rows of the input matrix that the n-grams of `<word>` fall into; a mark alone is no n-gram."""
        if not self.maxn or word == _END_OF_LINE:
            return []
        marked = b"<" + word + b">"
        starts = [at for at, byte in enumerate(marked) if byte & 0xC0 != 0x80]  # of characters in UTF-8
        ends, rows = [*starts[1:], len(marked)], []
        for first, start in enumerate(starts):
            value, at = 2166136261, start
            for length, end in enumerate(ends[first : first + self.maxn], start=1):
                value, at = fnv1a(marked[at:end], value), end
                if length >= self.minn and not (length == 1 and (start == 0 or end == len(marked))):
                    rows.append(self.words + value % self.buckets)
        return rows


def fnv1a(text: bytes, value: int = 2166136261) -> int:
    """32-bit FNV-1a as fastText computes it: a byte above 127 counts as a negative number."""
    for byte in text:
        value = ((value ^ (byte | 0xFFFFFF00 if byte > 127 else byte)) * 16777619) & 0xFFFFFFFF
    return value


def fasttext_head(stream: Stream) -> tuple[Head, bool]:
    """(head, whether entries were pruned); the stream stands before the first entry."""
    path = stream.path
    magic, version, dim = stream.numbers("3i")
    if magic != MAGIC:
        raise unreadable_format(path, "not a fastText model")
    if version not in VERSIONS:
        problem = f"a fastText model of format {version}, read are {' and '.join(map(str, VERSIONS))}"
        raise unreadable_format(path, problem, fix="save it with a fastText of 2017 or later, or use its .vec")
    *_, model, buckets, minn, maxn, _, _ = stream.numbers("11id")
    entries, words, labels = stream.numbers("3i")
    _, pruned = stream.numbers("2q")
    if version == 11 and model == SUPERVISED:
        maxn = 0  # n-grams were not used in these, whatever the settings say
    head = Head(dim, words, labels, buckets, minn, maxn)
    sound = 0 < dim < TOO_LARGE and min(words, labels, buckets, minn, maxn) >= 0 and entries == words + labels
    if not sound or (maxn and (not buckets or not minn <= maxn <= LONGEST_NGRAM)):
        raise damaged(path, "its settings contradict each other")
    if not words:
        raise empty_file(path, "no vectors")
    return head, pruned > 0


def fasttext_words(path: Path) -> Iterator[bytes]:
    with streamed(path) as stream:
        yield from _entries(stream, fasttext_head(stream)[0])


def _entries(stream, head):
    """The words; labels are passed over."""
    for _ in range(head.words):
        yield stream.until(b"\0")
        stream.skip(9)
    for _ in range(head.labels):
        stream.until(b"\0")
        stream.skip(9)


def read_fasttext(path: Path, wanted: Wanted) -> None:
    """Fills `wanted` from a fastText model; words it does not know from their character n-grams."""
    with streamed(path) as stream:
        head, pruned = fasttext_head(stream)
        check_dim(path, head.dim, wanted.dim, None)
        rows_of, cased = {}, False
        for row, word in enumerate(_entries(stream, head)):
            cased = cased or word != word.lower()
            if (place := wanted.place(word)) is not None:
                rows_of[place] = [row, *head.ngrams(word)]
        if pruned or stream.numbers("?")[0]:
            problem = "a quantised fastText model, which keeps its vectors only roughly"
            raise line_fault(path.name, None, problem, "use the whole model (.bin, not .ftz), or its .vec")
        _compose(wanted, head, rows_of, cased)
        shape = stream.numbers("2q")
        if shape != (head.words + head.buckets, head.dim):
            raise damaged(path, f"a matrix of {shape[0]} rows of {shape[1]}, expected {head.words + head.buckets}")
        means = _means(stream, head, list(rows_of.values()))
        for place, mean in zip(rows_of, means, strict=True):
            if not wanted.fill(place, mean):
                raise not_finite(path, None, "a word's vector", FRESH_COPY)
        _check_rest(stream)


def _compose(wanted, head, rows_of, cased):
    """Adds to `rows_of` the n-grams of the words that the model knows neither as they are nor lower-cased.

    cased: whether the model knows a capital letter; else a word is put together from its small letters.
    """
    for word in wanted.words:
        forms = [wanted.places[encoded(form)] for form in (word, word.lower())]
        if any(place in rows_of and not wanted.composed[place] for place in forms):
            continue
        form = word if cased else word.lower()
        if rows := head.ngrams(encoded(form)):
            place = forms[0 if cased else 1]
            rows_of[place] = rows
            wanted.composed[place] = True


def _means(stream, head, rows_of):
    """float64 [len(rows_of), dim]: the mean of the rows that each entry lists, of a matrix that goes by in blocks."""
    place = np.repeat(np.arange(len(rows_of)), [len(rows) for rows in rows_of])
    row = np.fromiter((row for rows in rows_of for row in rows), np.int64, len(place))
    order = np.argsort(row, kind="stable")
    place, row = place[order], row[order]
    sums = np.zeros((len(rows_of), head.dim))
    step = max(1, BLOCK_BYTES // (4 * head.dim))
    for first in range(0, head.words + head.buckets, step):
        count = min(step, head.words + head.buckets - first)
        block = np.frombuffer(stream.take(4 * head.dim * count), "<f4").reshape(count, head.dim)
        part = slice(*np.searchsorted(row, (first, first + count)))
        if part.start < part.stop:
            by_place = np.argsort(place[part], kind="stable")
            target, start = np.unique(place[part][by_place], return_index=True)
            with np.errstate(invalid="ignore", over="ignore"):  # reported by the caller
                numbers = block[row[part][by_place] - first].astype(np.float64)
                sums[target] += np.add.reduceat(numbers, start, axis=0)
    sums /= np.array([[len(rows)] for rows in rows_of]).reshape(-1, 1)
    return sums


def _check_rest(stream):
    """The output matrix is not needed; that it is whole says that the file is."""
    quantised, rows, columns = stream.numbers("?2q")
    if not quantised:
        if rows < 0 or columns < 0:
            raise damaged(stream.path, "its second matrix has a negative size")
        stream.skip(4 * rows * columns)
    if not quantised and stream.has(1):
        raise damaged(stream.path, "it goes on after its end")
