"""Vectors with their words as text: GloVe, word2vec and fastText text files, NAME.npy with its words, BioASQ's pair.

BioASQ's vectors (bioasq.org, "Continuous space word vectors") are two files in a folder: types.txt has a word on each
line, vectors.txt the numbers of that word on the same line.
"""

import warnings
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np

from mednli_jax.errors import Problems
from mednli_jax.knowledge.vector_rows import (
    Wanted,
    check_dim,
    disagreeing,
    not_finite,
    unreadable_format,
    wrong_count,
)
from mednli_jax.textfiles import FRESH_COPY, byte_lines, check_readable, empty_file, line_fault


def vocabulary_path(path: Path) -> Path:
    """Where the words of NAME.npy stand."""
    return path.with_name(f"{path.stem}.vocab.txt")


def read_text(path: Path, wanted: Wanted) -> None:
    """Fills `wanted` from a file of rows `word number ... number`, with or without a header `rows dim`."""
    dim, problems, rows, promised = wanted.dim, Problems(), 0, None
    for number, line in byte_lines(path):
        line = line.rstrip(b" ")
        if number == 1 and (header := text_header(line)) is not None:
            promised = header[0]
            check_dim(path, header[1], dim, number)
            continue
        if not line:
            continue
        rows += 1
        # Counting spaces checks a row in a fraction of the time that splitting it takes.
        spaces = line.count(b" ")
        if rows == 1 and spaces != dim and promised is None:
            check_dim(path, numbers_at_end(line), dim, number)
        if spaces == dim:
            word = line[: line.index(b" ")]
        elif spaces > dim:
            word = line.rsplit(b" ", dim)[0]
        if spaces < dim or (spaces > dim and _is_number(word.rsplit(b" ", 1)[1])):
            problems.add(_ragged(path, number, spaces if spaces < dim else numbers_at_end(line), dim))
        elif (place := wanted.place(word)) is not None and not _filled(wanted, place, line[len(word) + 1 :]):
            problems.add(not_finite(path, number))
    problems.raise_if_any()
    if not rows:
        raise empty_file(path, "no vectors")
    if promised not in (None, rows):
        raise wrong_count(path, promised, str(rows))


def read_array(path: Path, wanted: Wanted) -> None:
    """Fills `wanted` from NAME.npy, floats [rows, dim], and NAME.vocab.txt."""
    array, vocabulary = open_array(path), vocabulary_path(path)
    check_dim(path, array.shape[1], wanted.dim, None)
    if not len(array):
        raise empty_file(path, "no vectors")
    check_readable(vocabulary, f"put the words of {path.name} beside it, one a line")
    problems, count = Problems(), 0
    for number, word in byte_lines(vocabulary):
        count = number
        place = wanted.place(word) if number <= len(array) else None
        if place is not None and not wanted.fill(place, array[number - 1]):
            problems.add(not_finite(path, None, f"row {number - 1} (from 0)", "correct the row"))
    problems.raise_if_any()
    if count != len(array):
        raise disagreeing(path, f"{vocabulary.name} holds {count} words, the array {len(array)} rows")


def open_array(path: Path) -> np.ndarray:
    """The array of a .npy, not read yet."""
    check_readable(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is in a damaged header
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    # A damaged header is Python text to NumPy: tokenize and ast raise other errors for it. Where the file is no
    # array, NumPy's message advises allow_pickle, which is no way out.
    except Exception:
        raise unreadable_format(path, "not a plain NumPy array") from None
    if not isinstance(array, np.ndarray):
        raise unreadable_format(path, "an archive of arrays", fix="save the one array with numpy.save")
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind != "f":
        raise unreadable_format(path, f"holds {array.dtype} of shape {array.shape}, expected floats [rows, dim]")
    return array


def read_pair(types: Path, vectors: Path, wanted: Wanted) -> None:
    """Fills `wanted` from BioASQ's two files, line by line together."""
    problems, words, rows = Problems(), 0, 0
    for number, (word, row) in enumerate(zip_longest(text_words(types), text_words(vectors)), start=1):
        words, rows = words + (word is not None), rows + (row is not None)
        if word is None or row is None:
            continue
        columns = row.count(b" ") + 1 if row else 0
        if rows == 1:
            check_dim(vectors, columns, wanted.dim, 1)
        if columns != wanted.dim:
            problems.add(_ragged(vectors, number, columns, wanted.dim))
        elif (place := wanted.place(word)) is not None and not _filled(wanted, place, row):
            problems.add(not_finite(vectors, number))
    problems.raise_if_any()
    if not rows:
        raise empty_file(vectors, "no vectors")
    if words != rows:
        raise disagreeing(vectors, f"{types.name} holds {words} words, {vectors.name} {rows} rows")


def _filled(wanted, place, row):
    """Whether the numbers of a row are numbers, and finite; they are then in their place."""
    try:
        return wanted.fill(place, list(map(float, row.split(b" "))))
    except ValueError:
        return False


def _ragged(path, number, found, dim):
    return line_fault(path.name, number, f"the row holds {found} numbers, expected {dim}", FRESH_COPY)


def text_header(line: bytes) -> tuple[int, int] | None:
    """(rows, dim) of a word2vec header, None for any other line: no row of vectors is two whole numbers."""
    parts = line.split(b" ")
    whole = len(parts) == 2 and all(part.isdigit() and len(part) < 12 for part in parts)
    return (int(parts[0]), int(parts[1])) if whole else None


def text_words(path: Path) -> Iterator[bytes]:
    """The lines of a file of words (NAME.vocab.txt, types.txt), or of one of numbers alone."""
    return (line.strip(b" ") for _, line in byte_lines(path))


def text_dim(path: Path) -> tuple[int, int]:
    """(rows, or -1 where no header says so; numbers a word) by the first line that is not empty."""
    for number, line in byte_lines(path):
        line = line.rstrip(b" ")
        if number == 1 and (header := text_header(line)):
            return header
        if line:
            return -1, numbers_at_end(line)
    raise empty_file(path, "no vectors")


def numbers_at_end(line: bytes) -> int:
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
