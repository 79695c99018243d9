"""Reads fastText models (.bin; Bojanowski et al. 2017) by the library of the extra `embeddings`.

The library reads past the end of a damaged file, so that sizes are compared first. The layout,
little endian:

  int32 magic, version
  int32 dim, window, epochs, min count, negatives, word n-grams, loss, model, buckets, minn, maxn,
    update rate
  float64 sampling threshold
  int32 entries, words, labels
  int64 tokens, pruned pairs
  per entry: word, NUL, int64 count, int8 kind
  bool quantised, int64 rows, columns, float32 [words + buckets, dim]: the input matrix
  bool, int64, int64, float32: the output matrix, which vectors do not need
"""

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mednli_jax.files import FRESH_COPY, line_fault

MAGIC = struct.pack("<i", 793712314)
_DIM, _BUCKETS, _ENTRIES, _WORDS, _FIRST_ENTRY = 8, 40, 64, 68, 92  # offsets in bytes
_AFTER_WORD = 10  # bytes of an entry from its NUL on
_MATRIX_HEAD = "<?2q"  # quantised, rows, columns


class Sizes(NamedTuple):
    """Sizes of a model. entries: words and labels. buckets: rows of hashed n-grams."""

    words: int
    dim: int
    entries: int
    buckets: int


def read_sizes(path: Path, *, check_length: bool = False) -> Sizes:
    """Reads the sizes of a model.

    check_length: compares the sizes with the length of the file, and refuses quantised models.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            sizes = Sizes(
                words=_int32(data, _WORDS),
                dim=_int32(data, _DIM),
                entries=_int32(data, _ENTRIES),
                buckets=_int32(data, _BUCKETS),
            )
            if data[: len(MAGIC)] != MAGIC:  # the magic number is there once the file is unpacked
                problem = "a gzipped fastText model, which the fastText library does not read"
                raise line_fault(path.name, None, problem, "unpack it with gunzip")
            if check_length:
                _check_length(path, data, sizes)
        except struct.error:
            problem = "the binary file is damaged or cut short"
            raise line_fault(path.name, None, problem, FRESH_COPY) from None
    return sizes


def _int32(data: mmap.mmap, offset: int) -> int:
    (number,) = struct.unpack_from("<i", data, offset)
    return int(number)


def _check_length(path: Path, data: mmap.mmap, sizes: Sizes) -> None:
    """Raises DataError for a quantised model, struct.error where sizes contradict each other."""
    offset = _FIRST_ENTRY
    for _ in range(sizes.entries):
        nul = data.find(b"\0", offset)
        if nul < 0:
            raise struct.error
        offset = nul + _AFTER_WORD
    quantised, rows, columns = struct.unpack_from(_MATRIX_HEAD, data, offset)
    if quantised:
        problem = "a quantised fastText model, which keeps its vectors only roughly"
        fix = "use the whole model (.bin, not .ftz), or its .vec"
        raise line_fault(path.name, None, problem, fix)
    head_bytes = struct.calcsize(_MATRIX_HEAD)
    offset += head_bytes + 4 * rows * columns
    if (rows, columns) != (sizes.words + sizes.buckets, sizes.dim) or offset > len(data):
        raise struct.error
    _, rows, columns = struct.unpack_from(_MATRIX_HEAD, data, offset)
    if offset + head_bytes + 4 * rows * columns != len(data):
        raise struct.error


class FastTextModel:
    """A model that the fastText library has loaded. matrix: float32 [words + buckets, dim]."""

    def __init__(self, path: Path) -> None:
        try:
            import fasttext  # an extra
        except ImportError:
            problem = "the fastText library, which reads this file, is missing"
            fix = "pip install 'mednli_jax[embeddings]', or use the model's .vec"
            raise line_fault(path.name, None, problem, fix) from None
        self.sizes = read_sizes(path, check_length=True)
        try:
            self._model = fasttext.load_model(os.fsencode(path))
        except (ValueError, RuntimeError, MemoryError) as error:
            problem = f"the fastText library cannot load it ({type(error).__name__})"
            fix = f"{FRESH_COPY}, or use its .vec, which takes less memory"
            raise line_fault(path.name, None, problem, fix) from None
        self.matrix = np.asarray(self._model.f.getInputMatrix())  # get_input_matrix would copy it

    def words(self) -> Iterator[bytes]:
        for word in self._model.get_words(on_unicode_error="surrogateescape"):
            yield word.encode("utf-8", "surrogateescape")

    def number(self, form: bytes) -> int:
        """The number of a word, or of a label, which come after the words; -1 for neither."""
        return int(self._model.get_word_id(form))

    def vector(self, form: bytes, *, skipped: int = 0) -> np.ndarray | None:
        """float64 [dim], the mean over the rows of a word and of its n-grams; None where it has
        none. (get_word_vector of fasttext-community 0.11.9 would return it at length 1.)

        skipped: how many of these rows to leave out at the front.
        """
        rows = self._model.get_subwords(form, "replace")[1][skipped:]
        if not len(rows):
            return None
        with np.errstate(invalid="ignore", over="ignore"):  # reported where the numbers are used
            mean: np.ndarray = self.matrix[rows].mean(axis=0, dtype=np.float64)
        return mean
