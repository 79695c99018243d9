"""Formats of files of word vectors.

  text: GloVe, word2vec and fastText text files. A row is `word number ... number`, with one or more
    blanks or TABs between them; a header `rows dim` may come first.
  pair: BioASQ's types.txt and vectors.txt in one folder. A line of the first is a word, the same
    line of the second its numbers.
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

WORDS_OF_PAIR, NUMBERS_OF_PAIR = "types.txt", "vectors.txt"  # BioASQ's names
FORMATS = (
    "a text file of word and numbers (.txt, .vec) or a .bin of word2vec, both also gzipped, or a"
    " folder with types.txt and vectors.txt"
)
# The largest absolute value of a number. Other data, read as float32, soon exceed it.
LARGEST = 2.0**33
# (number of the line or row, from 1; word; numbers, as bytes between blanks or as float32 [dim])
VectorRow = tuple[int, bytes, bytes | np.ndarray]
_START_BYTES = 1 << 13  # from which the kind of a file is found
_BLOCK_BYTES = 1 << 22
_PICKLE_START = re.compile(rb"\x80[\0-\x05]")
# The authors of MedNLI gave out {word: vector} as pickles.
_UNPICKLE = (
    "if you trust where it comes from, load it and write a word and its numbers on each line of a"
    " text file"
)
# Bytes of text. Float32 numbers soon hold another byte.
_TEXT = bytes([*b"\t\n\r", *range(32, 256)])
_CONTROL = re.compile(rb"[\0-\x1f]")
# The rest of a word with a space in it, where it fills whole float32 numbers.
_REST_OF_WORD = re.compile(rb"(?:[^\0-\x1f]{4})*?[^\0-\x1f]{3} ")
# The last bytes of float32 numbers below LARGEST, and of those that are not finite: these are
# reported where they are used.
_LAST_BYTES = bytes(byte for byte in range(256) if byte & 127 < 0x50 or byte & 127 == 127)
_FASTTEXT_START = struct.pack("<i", 793712314)


@dataclass(frozen=True)
class Head:
    """The header of a file, or its first row. kind: see above. rows: -1 where no header counts
    them. dim: numbers per word."""

    kind: str
    rows: int
    dim: int


def vectors_path(path: Path | str) -> Path:
    """The file that exists, with or without .gz, or the folder of a pair; of another folder its
    only file that is not hidden."""
    path = either_name(Path(path)) or Path(path)
    if not os.path.isdir(path) or len(files_of(path)) == 2:
        return path
    files = [file for file in sorted(path.iterdir()) if not file.name.startswith(".")]
    if len(files) != 1:
        names = ", ".join(file.name for file in files[:3]) or "there is none in it"
        fix = f"give a file by config.vectors.path=FILE: {names}"
        raise DataError("is a folder, not a file of vectors", file=path.name, fix=fix)
    return files[0]


def vector_files(path: Path | str | None) -> list[Path]:
    """The files of a config.vectors.path, each checked to be readable; [] without a path."""
    if not path:
        return []
    files = files_of(vectors_path(path))
    for file in files:
        if not os.path.isfile(file):
            problem = f"{file}: there is no such file"
            fix = "check the path, or leave it empty for random vectors; scores will be lower"
            raise ConfigError(problem, field="vectors.path", fix=fix)
        check_readable(file)
    return files


def files_of(path: Path) -> list[Path]:
    """The files that belong to a path, whether they exist or not; of a pair the words first."""
    is_folder = os.path.isdir(path)
    if is_folder or path.name.removesuffix(".gz") in (WORDS_OF_PAIR, NUMBERS_OF_PAIR):
        folder = path if is_folder else path.parent
        names = (WORDS_OF_PAIR, NUMBERS_OF_PAIR)
        words, numbers = (either_name(folder / name) or folder / name for name in names)
        if os.path.isfile(words) or (is_folder and os.path.isfile(numbers)):
            return [words, numbers]
    return [path]


def numbers_file(path: Path) -> Path:
    """The file that has the numbers."""
    return files_of(path)[-1]


def read_head(path: Path | str) -> Head:
    """Reads the header or the first row of a file. Raises DataError for a file without vectors."""
    path = vectors_path(path)
    head = _text_head(numbers_file(path), _kind_of(path))
    if not head.dim:
        problem = "no file of vectors: the line is not a word and its numbers, such as 0.25"
        raise line_fault(numbers_file(path).name, 1, problem, f"give {FORMATS}")
    return head


def check_dim(path: Path, head: Head, dim: int) -> None:
    """Raises DataError where the file does not have `dim` numbers per word."""
    if head.dim == dim:
        return
    problem = f"holds {head.dim} numbers a word, expected {dim}"
    fix = f"set config.vectors.dim={head.dim} or use another file"
    raise line_fault(numbers_file(path).name, 1, problem, fix)


def read_rows(path: Path, head: Head, problems: Problems) -> Iterator[VectorRow]:
    """The rows of a file; `problems` gets the faults of rows."""
    readers = {"text": _text_rows, "pair": _paired_rows, "word2vec": _word2vec_rows}
    return readers[head.kind](path, head, problems)


def rows_of(path: Path, dim: int) -> Iterator[tuple[bytes, bytes | np.ndarray]]:
    """(word, numbers) of every row of a file that has `dim` numbers per word."""
    head, problems = read_head(path), Problems()
    check_dim(path, head, dim)
    for _, word, numbers in read_rows(path, head, problems):
        yield word, numbers
    problems.raise_if_any()


def _kind_of(path: Path) -> str:
    """The kind of a file by its content, where names do not settle it."""
    files = files_of(path)
    for file in files:
        if not os.path.isfile(file):
            fix = f"put the file there ($MEDNLI_JAX_DATA/vectors/), as {FORMATS}"
            raise no_such_file(file, fix)
    if len(files) == 2:
        return "pair"
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
    if _header(_between_blanks(line.removeprefix(MARK.encode()).rstrip(b"\r"))):
        is_binary = bool(rest.translate(None, _TEXT))
        return "word2vec" if is_binary else "text"
    if path.name.removesuffix(".gz").endswith((".bin", ".model", ".ftz")):
        problem = "a binary file, but not word2vec's"
        fix = f"save the vectors as text and use that; read is {FORMATS}"
        raise line_fault(path.name, None, problem, fix)
    return "text"


# -- text files and word2vec's ---------------------------------------------------------------------


def _text_head(path: Path, kind: str) -> Head:
    """The head by the first line that is not empty. path: the file with the numbers."""
    for number, line in byte_lines(path):
        line = _between_blanks(line)
        header = _header(line) if number == 1 and kind != "pair" else None
        if header:
            rows, dim = header
            if not rows:
                break
            return Head(kind, rows, dim)
        if line:
            row = b"word " + line if kind == "pair" else line
            return Head(kind, -1, 0 if b"\0" in line else _numbers_at_end(row))
    raise empty_file(path, "no vectors")


def _header(line: bytes) -> tuple[int, int] | None:
    """(rows, dim) of a header; None for another line. No row of vectors is two whole numbers."""
    cells = line.split(b" ") if len(line) < 40 else []
    if len(cells) != 2 or not (cells[0].isdigit() and cells[1].isdigit()):
        return None
    return int(cells[0]), int(cells[1])


def _between_blanks(line: bytes) -> bytes:
    """The line with one blank in place of several and of TABs, and none at its end."""
    if b"\t" in line or b"  " in line:
        line = re.sub(rb"[ \t]+", b" ", line)
    return line.rstrip(b" ")


def _numbers_at_end(line: bytes) -> int:
    """How many cells at the end of a line are numbers. The first cell always belongs to the
    word."""
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
    rows, dim = 0, head.dim
    for number, line in byte_lines(path):
        line = _between_blanks(line)
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


def _paired_rows(path: Path, head: Head, problems: Problems) -> Iterator[VectorRow]:
    words_file, numbers_file = files_of(path)
    lines = zip(byte_lines(words_file), byte_lines(numbers_file), strict=True)
    try:
        for (number, word), (_, numbers) in lines:
            numbers = _between_blanks(numbers).lstrip(b" ")
            columns = numbers.count(b" ") + bool(numbers)
            if columns == head.dim:
                yield number, word.strip(b" \t"), numbers
            else:
                problems.add(_wrong_row(numbers_file, number, columns, head.dim))
    except ValueError:  # of zip
        problem = f"{words_file.name} has not as many words as {numbers_file.name} has rows"
        fix = "take both files from the same vectors"
        raise line_fault(numbers_file.name, None, problem, fix) from None


def _word2vec_rows(path: Path, head: Head, problems: Problems) -> Iterator[VectorRow]:
    numbers_bytes = 4 * head.dim
    with open_binary(path) as stream:
        stream.readline()
        block, start = b"", 0
        for row in range(1, head.rows + 1):
            space = block.find(b" ", start)
            end = space + 1 + numbers_bytes
            if space < 0 or end > len(block):
                block = block[start:] + stream.read(_BLOCK_BYTES + numbers_bytes)
                start, space = 0, block.find(b" ")
                end = space + 1 + numbers_bytes
                if space < 0 or end > len(block):
                    raise _wrong_count(path, head.rows, row - 1)
            word = block[start:space].lstrip(b"\n")
            last_bytes = block[space + 4 : end : 4]
            is_too_large = last_bytes.translate(None, _LAST_BYTES)
            if is_too_large or _CONTROL.search(word) or _REST_OF_WORD.match(block, space + 1, end):
                raise _shifted_row(path, row)
            yield row, word, np.frombuffer(block, "<f4", head.dim, space + 1)
            start = end
        if block[start:] + stream.read(2) not in (b"", b"\n"):
            raise _wrong_count(path, head.rows, "more")


def _shifted_row(path: Path, row: int) -> DataError:
    problem = (
        f"row {row} is not a word and its numbers, or the one before it: there are"
        f" control characters in the word, or numbers over {LARGEST:.1g},"
        " as after a word with a space in it"
    )
    fix = "save the vectors as text, or with underscores in place of spaces"
    return line_fault(path.name, None, problem, fix)
