"""Formats of files of word vectors.

  text: GloVe, word2vec and fastText text files. A row is `word number ... number`, with one or more
    blanks or TABs between them; a header `rows dim` may come first.
  word2vec: word2vec's .bin. A line `rows dim`, then for each row the word, a space, dim float32,
    and with most writers a line break. A space in a word shifts all that follows; such a file is
    refused.

All may be gzipped. Errors name the file and the line, never a word.
"""

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np

from mednli_jax.data.labels import is_number
from mednli_jax.errors import ConfigError, DataError, Problems
from mednli_jax.files.reading import (
    FRESH_COPY,
    MARK,
    byte_lines,
    check_readable,
    either_name,
    empty_file,
    line_fault,
    no_such_file,
    open_binary,
)

FORMATS = "a text file of word and numbers (.txt, .vec) or a .bin of word2vec, both also gzipped"
# The largest absolute value of a number in a vector. Real vectors never exceed it. If a row is read
# from the wrong byte, some number soon exceeds it, which shows the fault.
LARGEST = 2.0**33
# (number of the line or row, from 1; word; numbers, either as text with blanks between them, or as
# float32 [dim])
VectorRow = tuple[int, bytes, bytes | np.ndarray]
_START_BYTES = 1 << 13  # the kind of a file is found from so many bytes
_BLOCK_BYTES = 1 << 22
_PICKLE_START = re.compile(rb"\x80[\0-\x05]")
# The authors of MedNLI gave out {word: vector} as pickles.
_UNPICKLE = (
    "if you trust where it comes from, load it and write a word and its numbers on each line of a"
    " text file"
)
# The bytes that occur in text. A file whose first bytes contain any other byte is binary. Float32
# numbers soon contain one.
_TEXT_BYTES = bytes([*b"\t\n\r", *range(32, 256)])
_CONTROL = re.compile(rb"[\0-\x1f]")
# If a word has a space in it, the reader ends the word there. Then the rest of the word, with the
# space after it, stands where the numbers should begin. This pattern finds a rest of 4, 8, ...
# bytes, the space included. It is as long as whole float32 numbers, so the numbers after it look
# right. A rest of another length is found by _POSSIBLE_LAST_BYTES.
_REST_OF_WORD = re.compile(rb"(?:[^\0-\x1f]{4})*?[^\0-\x1f]{3} ")
# The last byte of a little-endian float32 is its sign and the upper 7 bits of its exponent. These 7
# bits are below 0x50 for numbers under LARGEST. 127 (infinity or NaN) passes here, because
# _FormVectors.add reports it with the number of its row.
_POSSIBLE_LAST_BYTES = bytes(byte for byte in range(256) if byte & 127 < 0x50 or byte & 127 == 127)
_FASTTEXT_START = struct.pack("<i", 793712314)


@dataclass(frozen=True)
class Head:
    """The header of a file of vectors, or its first row if it has none.

    Args:
      kind: "text" or "word2vec", see the top of this file.
      rows: number of rows; -1 if no header gives it.
      dim: numbers per word; 0 if the first row is not a word and its numbers.
    """

    kind: str
    rows: int
    dim: int


def resolved_path(path: Path | str) -> Path:
    """The path to read, with or without .gz."""
    return either_name(Path(path)) or Path(path)


def checked_vector_files(path: Path | str | None) -> list[Path]:
    """The files of a config.vectors.path, each checked to be readable; [] without a path."""
    if not path:
        return []
    file = resolved_path(path)
    if not os.path.isfile(file):
        problem = f"{file}: there is no such file"
        fix = "check the path, or leave it empty for random vectors; scores will be lower"
        raise ConfigError(problem, field="vectors.path", fix=fix)
    check_readable(file)
    return [file]


def read_head(path: Path | str) -> Head:
    """Reads the header or the first row of a file. Raises DataError for a file without vectors."""
    path = resolved_path(path)
    head = _text_head(path, _kind_of(path))
    if not head.dim:
        problem = "no file of vectors: the line is not a word and its numbers, such as 0.25"
        raise line_fault(path.name, 1, problem, f"give {FORMATS}")
    return head


def check_dim(path: Path, head: Head, dim: int) -> None:
    """Raises DataError if the file does not have `dim` numbers per word."""
    if head.dim == dim:
        return
    problem = f"holds {head.dim} numbers a word, expected {dim}"
    fix = f"set config.vectors.dim={head.dim} or use another file"
    raise line_fault(path.name, 1, problem, fix)


def read_rows(path: Path, head: Head, problems: Problems) -> Iterator[VectorRow]:
    """Yields the rows of a file. Faults of single rows are added to `problems`."""
    readers = {"text": _text_rows, "word2vec": _word2vec_rows}
    return readers[head.kind](path, head, problems)


def words_with_numbers(path: Path, dim: int) -> Iterator[tuple[bytes, bytes | np.ndarray]]:
    """Yields (word, numbers) of every row of a file that has `dim` numbers per word."""
    head, problems = read_head(path), Problems()
    check_dim(path, head, dim)
    for _, word, numbers in read_rows(path, head, problems):
        yield word, numbers
    problems.raise_if_any()


def _kind_of(path: Path) -> str:
    """The kind of a file, by its content."""
    if not os.path.isfile(path):
        fix = f"put the file there ($MEDNLI_JAX_DATA/vectors/), as {FORMATS}"
        raise no_such_file(path, fix)
    with open_binary(path) as stream:
        start = stream.read(_START_BYTES)
    if start.startswith(_FASTTEXT_START):
        problem = "a fastText model, whose n-grams are not read"
        raise line_fault(path.name, None, problem, "give the .vec of the same vectors")
    if _PICKLE_START.match(start):
        problem = "a Python pickle, which may run any program when it is opened"
        raise line_fault(path.name, None, problem, _UNPICKLE)
    if start.startswith(b"PK"):
        raise line_fault(path.name, None, "a zip archive", "unzip it and name the file inside")
    line, _, rest = start.partition(b"\n")
    if _header(_single_blanks(line.removeprefix(MARK.encode()).rstrip(b"\r"))):
        is_binary = bool(rest.translate(None, _TEXT_BYTES))
        return "word2vec" if is_binary else "text"
    if path.name.removesuffix(".gz").endswith((".bin", ".model", ".ftz")):
        problem = "a binary file, but not word2vec's"
        fix = f"save the vectors as text and use that file; readable formats: {FORMATS}"
        raise line_fault(path.name, None, problem, fix)
    return "text"


# -- text files and word2vec's ---------------------------------------------------------------------


def _text_head(path: Path, kind: str) -> Head:
    """The head of a file, from its first line that is not empty."""
    for number, line in byte_lines(path):
        line = _single_blanks(line)
        header = _header(line) if number == 1 else None
        if header:
            rows, dim = header
            if not rows:
                break  # the file is empty
            return Head(kind, rows, dim)
        if line:
            return Head(kind, -1, 0 if b"\0" in line else _numbers_at_end(line))  # 0: binary
    raise empty_file(path, "no vectors")


def _header(line: bytes) -> tuple[int, int] | None:
    """(rows, dim) of a header, which is two whole numbers, as no row of vectors is; None for
    another line."""
    match = re.fullmatch(rb"(\d+) (\d+)", line) if len(line) < 40 else None
    return (int(match[1]), int(match[2])) if match else None


def _single_blanks(line: bytes) -> bytes:
    """The line with each run of blanks and TABs as one blank, and without blanks at its end."""
    if b"\t" in line or b"  " in line:
        line = re.sub(rb"[ \t]+", b" ", line)
    return line.rstrip(b" ")


def _numbers_at_end(line: bytes) -> int:
    """How many cells at the end of a line are numbers. The first cell is part of the word and is
    not counted."""
    cells = line.split(b" ")[1:]
    return len(list(takewhile(is_number, reversed(cells))))


def _wrong_row(path: Path, line: int, columns: int, dim: int) -> DataError:
    problem = f"the row holds {columns} numbers, expected {dim}"
    return line_fault(path.name, line, problem, FRESH_COPY)


def _wrong_count(path: Path, promised: int, rows: int | str) -> DataError:
    problem = f"the header promises {promised} rows, there are {rows}"
    fix = "copy the file again, it may be cut short; if it is whole, line 1 is wrong: correct it"
    return line_fault(path.name, 1, problem, fix)


def _text_rows(path: Path, head: Head, problems: Problems) -> Iterator[VectorRow]:
    """See `read_rows`. The last `dim` cells of a line are the numbers, the others are the word."""
    rows, dim = 0, head.dim
    for number, line in byte_lines(path):
        line = _single_blanks(line)
        if not line or (number == 1 and _header(line)):
            continue
        rows += 1
        blanks = line.count(b" ")  # many times faster than splitting the row
        if blanks == dim:
            word = line[: line.index(b" ")]
        elif blanks < dim:
            problems.add(_wrong_row(path, number, blanks, dim))
            continue
        else:  # the word has blanks, or the row has more numbers
            word = line.rsplit(b" ", dim)[0]
            if is_number(word.rsplit(b" ", 1)[1]):
                problems.add(_wrong_row(path, number, _numbers_at_end(line), dim))
                continue
        yield number, word, line[len(word) + 1 :]
    problems.raise_if_any()
    if head.rows not in (-1, rows):
        raise _wrong_count(path, head.rows, rows)


def _word2vec_rows(path: Path, head: Head, problems: Problems) -> Iterator[VectorRow]:
    """See `read_rows`. The file is read in blocks. Its first fault ends the reading."""
    size = 4 * head.dim  # bytes of the numbers of a row
    with open_binary(path) as stream:
        stream.readline()
        block, start = b"", 0
        for row in range(1, head.rows + 1):
            space, end = _space_and_end(block, start, size)
            if end > len(block):  # only a part of the row has been read
                # The next block begins with the row.
                block = block[start:] + stream.read(_BLOCK_BYTES + size)
                start = 0
                space, end = _space_and_end(block, start, size)
            if end > len(block):  # still only a part: the file ends here
                raise _wrong_count(path, head.rows, row - 1)
            word, numbers = block[start:space].lstrip(b"\n"), block[space + 1 : end]
            if _is_shifted(word, numbers):
                raise _shifted_row(path, row)
            yield row, word, np.frombuffer(numbers, "<f4")
            start = end
        # At most one line break may follow the last row.
        if block[start:] + stream.read(2) not in (b"", b"\n"):
            raise _wrong_count(path, head.rows, "more")


def _space_and_end(block: bytes, start: int, size: int) -> tuple[int, int]:
    """(the place of the space after the word, the end of the numbers) of the row that begins at
    `start`. The end is beyond the block if the block has only a part of the row."""
    space = block.find(b" ", start)
    if space < 0:
        space = len(block)
    return space, space + 1 + size


def _is_shifted(word: bytes, numbers: bytes) -> bool:
    """True if these bytes are no row: the last byte of a number is impossible, the word has control
    characters, or the numbers begin with the rest of a word."""
    last_bytes = numbers[3::4]  # of each number
    impossible = last_bytes.translate(None, _POSSIBLE_LAST_BYTES)
    return bool(impossible or _CONTROL.search(word) or _REST_OF_WORD.match(numbers))


def _shifted_row(path: Path, row: int) -> DataError:
    problem = (
        f"row {row} or the row before it is damaged: row {row} has control characters in the word,"
        f" or numbers over {LARGEST:.1g}, as after a word with a space in it"
    )
    fix = "save the vectors as text, or with underscores in place of spaces"
    return line_fault(path.name, None, problem, fix)
