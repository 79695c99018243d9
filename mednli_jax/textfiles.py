"""Text files, plain or gzipped, as bytes, lines, JSON objects, CSV records and tables with a header.

Every reader of text opens its files here, so all readers refuse the same damage in the same way: a file that is missing
or cannot be read, damaged gzip, gzip that unpacks to far more than text can, bytes that are not UTF-8, NUL bytes and
lines that are too long. Each is a DataError with the file, the line, the problem and the fix. Gzip is recognised by the
content, not by the name. A file that takes long shows a progress bar over its bytes on disk.

Functions that take `problems` add faulty lines to it and go on, so that a reader can report the first 20 together.
What concerns the file as a whole is raised at once.
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
MAX_RECORD_BYTES = 1 << 22  # A CSV record may span lines. More bytes than this without a closing quote are a fault.
MAX_GROWTH = 256  # times its size that a gzipped file may unpack to: text grows tenfold, a bomb a thousandfold
FREE_GROWTH = 1 << 20  # bytes that any gzipped file may unpack to
BIG = 100_000_000  # bytes of a file from which on its bar counts megabytes
FRESH_COPY = "take a fresh copy of the file"
MOST_NAMES = 10_000  # of a folder, among which one is looked for that somebody meant
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
    """What is wrong with the characters of a string from JSON, as the end of a sentence; "" where nothing is."""
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half a surrogate pair"
    return ""


def meant(path: Path) -> str:
    """What a path that is not there may have meant, as sentences after a blank; "" where nothing is like it.

    The first that holds: a variable in it is not set; a folder above it is not there; a name beside it is like its own,
    but for its case or a few letters.
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
    """The file of that name, with or without .gz; None where there is neither."""
    path = Path(path)
    other = path.with_name(path.name.removesuffix(".gz") if path.suffix == ".gz" else f"{path.name}.gz")
    return next((candidate for candidate in (path, other) if os.path.isfile(candidate)), None)


def check_readable(path: Path, fix: str = "check the path") -> None:
    """Raises DataError where there is no such file, or its first byte cannot be read."""
    if not os.path.isfile(path):
        raise no_such_file(path, fix)
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        raise _unreadable(path, error) from error


class _WatchedFile(io.FileIO):
    """A file whose reading moves a bar, in kilobytes or megabytes. The bar appears after SLOW_SECONDS."""

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
    """A file that gzip reads at most _PIECE bytes at a time, so that its position is not far ahead of what is unpacked.

    gzip asks for 8 kB up to Python 3.11 and for 128 kB from 3.12 on, less what it holds: the remainder is the same.
    """

    def __init__(self, raw):
        self._raw = raw

    def read(self, size):
        return self._raw.read(size % _PIECE or min(size, _PIECE))


class _Unzipped(io.RawIOBase):
    """The content of a gzipped stream, as long as there is no more of it than text can be packed into so few bytes."""

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

    watched: show a bar where reading takes long; of files that are read side by side only one should.
    Raises: DataError where the file is missing, cannot be read or cannot be decompressed, also while it is read.
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
    """The text of a plain or gzipped UTF-8 file as a stream, for formats without lines; line breaks stay as they are.

    errors: as of `bytes.decode`. Raises: DataError as `opened` does, and where the file is not UTF-8.
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
    """(line number from 1, line without its line break), or (number, None) for a line over `max_bytes`.

    Raises: DataError as `opened` does.
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
    """The text of bytes that begin on line `number` of a file; a byte order mark at its start is left out.

    Raises: DataError with the line that is not UTF-8 or holds a NUL byte.
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
    """As `text_lines`, with a DataError in the place of a line that is not text: for files read side by side."""
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

    problems: takes the lines that are not text; without it the first of them is raised.
    digest: of hashlib; takes every line with "\\n", the same for plain and gzipped files and for either line break.
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
    """(line number, object) of JSON lines: one object with named fields a line. Blank lines are passed over."""
    path = Path(path)
    for number, line in text_lines(path, problems, watched=watched):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):  # Python's message can quote the line, so it goes no further
            problems.add(line_fault(path.name, number, "the line is not valid JSON"))
            continue
        if isinstance(values, dict):
            yield number, values
        else:
            problems.add(line_fault(path.name, number, "the line is not a JSON object", "write one object a line"))


# -- tables ------------------------------------------------------------------------------------------------------------


def csv_records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """(line it starts on, cells) of the records of a CSV file (RFC 4180); a quoted cell may hold line breaks, as "\\n".

    A quote that never closes ends the reading: where the next record starts cannot be known.
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
    """(line number, {column: cell}) of the records under a header. Records of another width are added to `problems`.

    columns: given the header's line and its cells, returns the columns' names, or raises DataError. Without its header
    no row can be read, so a fault up to there ends the reading.
    spare: pattern of the names of columns that a row may lack at its end.
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
