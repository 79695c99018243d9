"""Text files, plain or gzipped, as bytes, lines, JSON objects, CSV records and tables with a header.

All readers of text use this module, so that they refuse the same damage in the same way: a file that is missing or
cannot be read, damaged gzip, bytes that are not UTF-8. Each is a DataError with the file, the line, the problem and the
fix. Gzip is recognised by the content, not by the name.

Functions that take `problems` add faulty lines to it and continue, so that a reader can report the first 20 together.
A fault of the whole file is raised at once.
"""

import csv
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mednli_jax.errors import DataError, Problems

FRESH_COPY = "take a fresh copy of the file"


# -- faults ------------------------------------------------------------------------------------------------------------


def line_fault(file: str, line: int | None, problem: str, fix: str = FRESH_COPY) -> DataError:
    return DataError(problem, file=file, line=line, fix=fix)


def empty_file(path: Path, what: str = "nothing") -> DataError:
    return DataError(f"holds {what}", file=path.name, fix=FRESH_COPY)


def empty_field(path: Path, line: int, field: str) -> DataError:
    problem, fix = f"field '{field}' is empty", "fill it in or remove the row"
    return DataError(problem, file=path.name, line=line, field=field, fix=fix)


def no_such_file(path: Path, fix: str = "check the path") -> DataError:
    path = Path(path)
    problem = "is a folder, not a file" if os.path.isdir(path) else f"there is no such file in {path.parent}"
    return DataError(problem, file=path.name, fix=fix)


def character_fault(text: str) -> str:
    """The fault in the characters of a string from JSON, as the end of a sentence; "" where there is none."""
    if "\0" in text:
        return "holds a NUL character"
    return "holds half a surrogate pair" if re.search("[\ud800-\udfff]", text) else ""


# -- files -------------------------------------------------------------------------------------------------------------


def either_name(path: Path) -> Path | None:
    """The existing file of that name, with or without .gz; None where there is neither."""
    path = Path(path)
    other = path.with_name(path.name.removesuffix(".gz") if path.suffix == ".gz" else f"{path.name}.gz")
    return next((candidate for candidate in (path, other) if os.path.isfile(candidate)), None)


def check_readable(path: Path, fix: str = "check the path") -> None:
    """Raises DataError where the file does not exist or may not be read."""
    if not os.path.isfile(path):
        raise no_such_file(path, fix)
    with opened(path):
        pass


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a plain or gzipped file as a buffered stream.

    Raises: DataError where the file is missing, cannot be read or cannot be decompressed, also during reading.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise no_such_file(path)
    try:
        with open(path, "rb") as file:
            yield gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file
    except (gzip.BadGzipFile, EOFError, zlib.error):  # gzip's own message may quote bytes of the file
        problem = "cannot be decompressed: it is damaged or cut short"
        raise DataError(problem, file=path.name, fix=FRESH_COPY) from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise DataError(problem, file=path.name, fix="check the disk and the file's permissions") from error


@contextmanager
def opened_text(path: Path, errors: str = "strict") -> Iterator[io.TextIOBase]:
    """The text of a plain or gzipped UTF-8 file as a stream, for formats without lines. Line breaks are not changed.

    errors: as for `bytes.decode`. Raises: DataError as `opened`, and where the file is not UTF-8.
    """
    try:
        with opened(path) as stream:
            yield io.TextIOWrapper(stream, "utf-8-sig", errors=errors, newline="")
    except UnicodeDecodeError:
        raise DataError("is not valid UTF-8", file=Path(path).name, fix="save the file as UTF-8") from None


# -- lines -------------------------------------------------------------------------------------------------------------


def byte_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line without its line break). Raises: DataError as `opened`."""
    with opened(path) as stream:
        for number, line in enumerate(stream, 1):
            yield number, line.rstrip(b"\r\n")


def decoded(file: str, number: int, data: bytes) -> str:
    """The text of bytes that begin on line `number` of a file, without the byte order mark of line 1.

    Raises: DataError with the number of the line that is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        number += data.count(b"\n", 0, error.start)
        raise line_fault(file, number, "the line is not valid UTF-8", "save the file as UTF-8") from None


def checked_lines(path: Path, *, digest=None) -> Iterator[tuple[int, str | DataError]]:
    """As `text_lines`, but yields a DataError for a line that is not text: for files that are read in parallel."""
    path = Path(path)
    for number, line in byte_lines(path):
        if digest is not None:
            digest.update(line + b"\n")
        try:
            text = decoded(path.name, number, line)
        except DataError as error:
            text = error
        yield number, text


def text_lines(path: Path, problems: Problems | None = None, *, digest=None) -> Iterator[tuple[int, str]]:
    """(line number from 1, text without the line break) of every line of a plain or gzipped UTF-8 file.

    Args:
      problems: collects the errors of lines that are not text; without it the first is raised.
      digest: of hashlib; updated with every line and "\\n", so that compression and line breaks do not change it.

    Raises: DataError.
    """
    for number, line in checked_lines(path, digest=digest):
        if isinstance(line, str):
            yield number, line
        elif problems is None:
            raise line
        else:
            problems.add(line)


def json_lines(path: Path, problems: Problems) -> Iterator[tuple[int, dict]]:
    """(line number, object) of a JSON lines file, one object per line. Blank lines are skipped."""
    path = Path(path)
    for number, line in text_lines(path, problems):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except ValueError:  # Python's message can quote the line, so it is dropped
            problems.add(line_fault(path.name, number, "the line is not valid JSON"))
            continue
        if isinstance(values, dict):
            yield number, values
        else:
            problems.add(line_fault(path.name, number, "the line is not a JSON object", "write one object a line"))


# -- tables ------------------------------------------------------------------------------------------------------------


def csv_records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, cells) of each record of a CSV file (RFC 4180). Line breaks in cells become "\\n".

    Blank lines are skipped. Reading ends at a faulty quote or a line that is not text.
    """
    path, numbers = Path(path), []

    def lines():
        for number, line in text_lines(path):
            numbers.append(number)
            yield f"{line}\n"

    records = csv.reader(lines(), strict=True)
    while True:
        numbers.clear()
        try:
            cells = next(records, None)
        except DataError as error:
            problems.add(error)
            return
        except csv.Error:  # its message may quote the text
            problem, fix = "a quote of this record does not close", "quote whole cells, and double quotes inside them"
            problems.add(line_fault(path.name, numbers[0], problem, fix))
            return
        if cells is None:
            return
        if len(cells) > 1 or "".join(cells).strip():
            yield numbers[0], cells


def table_rows(
    file: str,
    records: Iterable[tuple[int, Sequence[str]]],
    problems: Problems,
    columns: Callable[[int, list[str]], Sequence[str]],
    spare: str = "",
) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, {column: cell}) of the records below a header. Reading ends at a fault in or before the header.

    Args:
      file: its name, for messages.
      records: (line number, cells).
      problems: collects the errors, such as a record with a wrong number of cells.
      columns: (line number, cells) of the header -> names of the columns; may raise DataError.
      spare: regular expression of the names of columns that may be missing at the end of a row.
    """
    names = None
    for number, cells in records:
        if names is None:
            if problems.total:
                return
            try:
                names = columns(number, [cell.strip() for cell in cells])
            except DataError as error:
                problems.add(error)
                return
            continue
        lacking = names[len(cells) :]
        if len(cells) > len(names) or not all(re.fullmatch(spare, name) for name in lacking):
            fix = "write a cell for each column; in CSV, quote a cell that holds a comma or a quote"
            problems.add(line_fault(file, number, f"{len(cells)} cells, expected {len(names)}", fix))
        else:
            yield number, dict(zip(names, cells, strict=False))
