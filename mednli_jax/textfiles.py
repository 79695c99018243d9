"""Text files, plain or gzipped, as bytes, lines, JSON objects, CSV records and tables with a header.

All readers of text use this module, so that they refuse the same damage in the same way: a file that is missing or
cannot be read, damaged gzip, gzip that unpacks to far more than text can, bytes that are not UTF-8, NUL bytes and lines
that are too long. Each is a DataError with the file, the line, the problem and the fix. Gzip is recognised by the
content, not by the name. Reading a large file shows a progress bar over its bytes on disk.

Functions that take `problems` add faulty lines to it and continue, so that a reader can report the first 20 together.
A fault of the whole file is raised at once.
"""

import difflib
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from mednli_jax.errors import DataError, Problems
from mednli_jax.progress import SLOW_SECONDS, Bar

MAX_LINE_BYTES = 1 << 20
MAX_RECORD_BYTES = 1 << 22  # most bytes of a CSV record without a closing quote; a record may span lines
MAX_GROWTH = 256  # largest ratio of a gzipped file's content to its size; text has about 10, a gzip bomb 1,000
FREE_GROWTH = 1 << 20  # bytes of content that any gzipped file may have
BIG = 100_000_000  # bytes of a file whose progress bar counts megabytes
FRESH_COPY = "take a fresh copy of the file"
MOST_NAMES = 10_000  # most names of a folder that are searched for a similar one
_PIECE = 1 << 13  # bytes of a gzipped file that are read at a time
_CSV_FIELD = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^",]*))(,|\Z)')


# -- faults ------------------------------------------------------------------------------------------------------------


def line_fault(file: str, line: int | None, problem: str, fix: str = FRESH_COPY) -> DataError:
    return DataError(problem, file=file, line=line, fix=fix)


def too_long(file: str, line: int | None, limit: int = MAX_LINE_BYTES) -> DataError:
    return line_fault(file, line, f"the line is longer than {limit} bytes", "check that this is the right file")


def empty_file(path: Path, what: str = "nothing") -> DataError:
    return DataError(f"holds {what}", file=path.name, fix=FRESH_COPY)


def empty_field(path: Path, line: int, field: str) -> DataError:
    problem, fix = f"field '{field}' is empty", "fill it in or remove the row"
    return DataError(problem, file=path.name, line=line, field=field, fix=fix)


def wrong_width(file: str, line: int, found: int, due: int) -> DataError:
    fix = "write a cell for each column; in CSV, quote a cell that holds a comma or a quote"
    return line_fault(file, line, f"{found} cells, expected {due}", fix)


def no_such_file(path: Path, fix: str = "check the path") -> DataError:
    problem = "is a folder, not a file" if os.path.isdir(path) else f"there is no such file.{meant(path)}"
    return DataError(problem, file=Path(path).name, fix=fix)


def _unreadable(path, error):
    reason = error.strerror or type(error).__name__
    return DataError(f"cannot be read ({reason})", file=path.name, fix="check the disk and the file's permissions")


def _not_unpacked(path, problem):
    return DataError(f"cannot be decompressed: {problem}", file=path.name, fix=FRESH_COPY)


def character_fault(text: str) -> str:
    """The fault in the characters of a string from JSON, as the end of a sentence; "" where there is none."""
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half a surrogate pair"
    return ""


def meant(path: Path) -> str:
    """Hints for a path that does not exist, as sentences after a space; "" where there are none.

    The hints: a variable in the path is not set, else a parent folder that does not exist, a similar name beside it.
    """
    if unset := re.search(r"\$\{?(\w+)", str(path)):
        return f" ${unset[1]} is not set."
    lacking = Path(os.path.abspath(path))
    while not lacking.parent.is_dir() and lacking != lacking.parent:
        lacking = lacking.parent
    try:
        with os.scandir(lacking.parent) as entries:
            names = {entry.name.casefold(): entry.name for entry in islice(entries, MOST_NAMES)}
    except OSError:
        names = {}
    near = difflib.get_close_matches(lacking.name.casefold(), names, n=1, cutoff=0.7)
    folder = f" There is no folder {lacking}." if lacking != Path(os.path.abspath(path)) else ""
    return folder + (f" Did you mean {names[near[0]]}?" if near else "")


# -- files -------------------------------------------------------------------------------------------------------------


def either_name(path: Path) -> Path | None:
    """The existing file of that name, with or without .gz; None where there is neither."""
    path = Path(path)
    other = path.with_name(path.name.removesuffix(".gz") if path.suffix == ".gz" else f"{path.name}.gz")
    return next((candidate for candidate in (path, other) if os.path.isfile(candidate)), None)


def check_readable(path: Path, fix: str = "check the path") -> None:
    """Raises DataError where the file does not exist, or its first byte cannot be read."""
    if not os.path.isfile(path):
        raise no_such_file(path, fix)
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        raise _unreadable(path, error) from error


class _WatchedFile(io.FileIO):
    """A file that shows a progress bar in kilobytes or megabytes when reading takes longer than SLOW_SECONDS."""

    def __init__(self, path):
        super().__init__(path)
        size = os.fstat(self.fileno()).st_size
        self._step, unit = (1_000_000, "MB") if size > BIG else (1_000, "kB")
        self._read = 0
        self._bar = Bar(f"reading {path.name}", -(-size // self._step), unit=unit, delay=SLOW_SECONDS)

    def readinto(self, buffer):
        count = super().readinto(buffer)
        self._read += count
        self._bar.advance(self._read // self._step - self._bar.done)
        return count

    def __exit__(self, *error):
        self._bar.__exit__(*error)
        super().__exit__(*error)


class _Pieces:
    """A file that gzip reads at most _PIECE bytes at a time, so that its position is not far ahead of the content.

    gzip asks for 8 kB (Python 3.11) or 128 kB (from 3.12), minus the bytes that it holds: the remainder is the same.
    """

    def __init__(self, raw):
        self._raw = raw

    def read(self, size):
        return self._raw.read(size % _PIECE or min(size, _PIECE))


class _Unzipped(io.RawIOBase):
    """The content of a gzipped stream. Reading fails where it is larger than FREE_GROWTH and MAX_GROWTH allow."""

    def __init__(self, raw, path):
        self._path, self._raw, self._file, self._size = path, raw, gzip.GzipFile(fileobj=_Pieces(raw)), 0

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self._file.read1(len(buffer))
        self._size += len(data)
        if self._size > FREE_GROWTH and self._size > MAX_GROWTH * self._raw.tell():
            raise _not_unpacked(self._path, f"it unpacks to more than {MAX_GROWTH} times its size")
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def opened(path: Path, *, watched: bool = True) -> Iterator[BinaryIO]:
    """The bytes of a plain or gzipped file as a buffered stream. Memory does not grow with the file.

    watched: whether a progress bar is shown; of several files that are read in parallel only one should show it.
    Raises: DataError where the file is missing, cannot be read or cannot be decompressed, also during reading.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise no_such_file(path)
    try:
        with _WatchedFile(path) if watched else io.FileIO(path) as file:
            raw = io.BufferedReader(file, 1 << 16)
            zipped = raw.peek(2)[:2] == b"\x1f\x8b"
            if not zipped and path.suffix == ".gz":
                raise _not_unpacked(path, "it is not a gzip file")
            yield io.BufferedReader(_Unzipped(raw, path), 1 << 18) if zipped else raw
    except (gzip.BadGzipFile, EOFError, zlib.error):  # gzip's own message may quote bytes of the file
        raise _not_unpacked(path, "it is damaged or cut short") from None
    except OSError as error:
        raise _unreadable(path, error) from error


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


def byte_lines(
    path: Path, max_bytes: int = MAX_LINE_BYTES, *, watched: bool = True
) -> Iterator[tuple[int, bytes | None]]:
    """(line number from 1, line without its line break), or (number, None) for a line longer than `max_bytes`.

    Raises: DataError as `opened`.
    """
    with opened(path, watched=watched) as stream:
        number = 0
        while line := stream.readline(max_bytes + 1):
            number += 1
            if len(line) > max_bytes and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = stream.readline(max_bytes)
                yield number, None
            else:
                yield number, line.rstrip(b"\r\n")


def decoded(file: str, number: int, data: bytes) -> str:
    """The text of bytes that begin on line `number` of a file, without the byte order mark of line 1.

    Raises: DataError with the number of the line that is not UTF-8 or holds a NUL byte.
    """
    try:
        text = data.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        number += data.count(b"\n", 0, error.start)
        raise line_fault(file, number, "the line is not valid UTF-8", "save the file as UTF-8") from None
    if "\0" in text:
        number += data.count(b"\n", 0, data.index(b"\0"))
        raise line_fault(file, number, "the line holds a NUL byte")
    return text


def checked_lines(path: Path, *, digest=None, watched: bool = True) -> Iterator[tuple[int, str | DataError]]:
    """As `text_lines`, but yields a DataError for a line that is not text: for files that are read in parallel."""
    path = Path(path)
    for number, line in byte_lines(path, watched=watched):
        try:
            if line is None:
                raise too_long(path.name, number)
            if digest is not None:
                digest.update(line + b"\n")
            text = decoded(path.name, number, line)
        except DataError as error:
            text = error
        yield number, text


def text_lines(
    path: Path, problems: Problems | None = None, *, digest=None, watched: bool = True
) -> Iterator[tuple[int, str]]:
    """(line number from 1, text without the line break) of every line of a plain or gzipped UTF-8 file.

    Args:
      problems: collects the errors of lines that are not text; without it the first is raised.
      digest: of hashlib; updated with every line and "\\n", so that compression and line breaks do not change it.

    Raises: DataError.
    """
    for number, line in checked_lines(path, digest=digest, watched=watched):
        if isinstance(line, str):
            yield number, line
        elif problems is None:
            raise line
        else:
            problems.add(line)


def json_lines(path: Path, problems: Problems, *, watched: bool = True) -> Iterator[tuple[int, dict]]:
    """(line number, object) of a JSON lines file, one object per line. Blank lines are skipped."""
    path = Path(path)
    for number, line in text_lines(path, problems, watched=watched):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):  # Python's message can quote the line, so it is dropped
            problems.add(line_fault(path.name, number, "the line is not valid JSON"))
            continue
        if isinstance(values, dict):
            yield number, values
        else:
            problems.add(line_fault(path.name, number, "the line is not a JSON object", "write one object a line"))


# -- tables ------------------------------------------------------------------------------------------------------------


def csv_records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, cells) of each record of a CSV file (RFC 4180). Line breaks in cells become "\\n".

    Reading ends at a quote that never closes, because the start of the next record is unknown.
    """
    path = Path(path)
    start, parts, quotes, size = 0, [], 0, 0
    for number, line in byte_lines(path):
        if line is None:
            problems.add(too_long(path.name, number))
            if parts:
                return
            continue
        if not parts:
            start, quotes, size = number, 0, 0
            if not line.strip():
                continue
        parts.append(line)
        quotes, size = quotes + line.count(b'"'), size + len(line) + 1
        if quotes % 2 == 0:
            try:
                cells = _cells(path.name, start, decoded(path.name, start, b"\n".join(parts)))
            except DataError as error:
                problems.add(error)
            else:
                yield start, cells
            parts = []
        elif size > MAX_RECORD_BYTES:
            break
    if parts:
        problems.add(line_fault(path.name, start, "a quote opens in this record and never closes"))


def _cells(file, number, record):
    if '"' not in record:
        return record.split(",")
    cells, position = [], 0
    while True:
        match = _CSV_FIELD.match(record, position)
        if not match:
            fix = "quote the whole field and double the quotes inside it"
            raise line_fault(file, number, "a quote stands inside an unquoted field", fix)
        quoted, plain, end = match.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        position = match.end()


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
            problems.add(wrong_width(file, number, len(cells), len(names)))
        else:
            yield number, dict(zip(names, cells, strict=False))
