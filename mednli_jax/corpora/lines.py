"""Files as lines and as CSV records: decoded, checked and bounded, before anybody asks what they mean.

A line or record that is no text comes as a DataError in its place, so that a reader can tell the first faults together.
"""

import gzip
import re
import time
from collections.abc import Iterator
from pathlib import Path

from mednli_jax.errors import DataError
from mednli_jax.progress import SLOW_SECONDS, Bar
from mednli_jax.text import MAX_LINE_BYTES, binary_lines

MAX_RECORD_BYTES = 1 << 22  # a CSV record may span lines: this many bytes without a closing quote are a fault
BIG = 100_000_000  # bytes of a file from which on its bar counts megabytes
FRESH_COPY = "take a fresh copy from the official archive"
_CSV_FIELD = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^",]*))(,|\Z)')


class _Reading:
    """A bar over the bytes of a file as they lie on disk, SLOW_SECONDS after its first line at the earliest."""

    def __init__(self, path):
        size = path.stat().st_size
        self._begun, self._shown, self._told = time.monotonic(), False, 0
        self._step, unit = (1_000_000, "MB") if size > BIG else (1_000, "kB")
        self._bar = Bar(f"reading {path.name}", -(-size // self._step), unit=unit)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._shown:
            self._bar.__exit__(*error)

    def __call__(self, position):
        """position: bytes read so far."""
        if not self._shown and time.monotonic() - self._begun > SLOW_SECONDS:
            self._bar.__enter__()
            self._shown = True
        if self._shown:
            done = position // self._step
            self._bar.advance(done - self._told)
            self._told = done


def text_lines(path: Path, *, watched: bool = True) -> Iterator[tuple[int | None, str | DataError]]:
    """Lines of a plain or gzipped UTF-8 file without their breaks; a line that is no text is a DataError.

    watched: show a bar where it takes long; of files read side by side only one should.
    The last item is (None, error) where the file cannot be decompressed. Raises: DataError.
    """
    for number, line in _byte_lines(path, watched):
        yield number, line if isinstance(line, DataError) else _decoded(path.name, number, line)


def _byte_lines(path, watched=True):
    if not path.is_file():
        raise no_such_file(path)
    try:
        with _Reading(path) as reading:
            for number, line in binary_lines(path, watch=reading if watched else None):
                if line is None:
                    problem = f"the line is longer than {MAX_LINE_BYTES} bytes"
                    line = line_fault(path.name, number, problem)
                yield number, line
    except gzip.BadGzipFile as error:
        yield None, DataError(f"cannot be decompressed: {error}", file=path.name, fix=FRESH_COPY)
    except OSError as error:
        raise _unread(path, error) from error


def unreadable(path: Path) -> DataError | None:
    """The fault of a file that cannot be opened, or whose first byte cannot be read; else None."""
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        return _unread(path, error)
    return None


def _unread(path, error):
    fix = "check the disk and the file's permissions"
    return DataError(f"cannot be read ({error.strerror})", file=path.name, fix=fix)


def no_such_file(path: Path, fix: str = "check the path") -> DataError:
    return DataError("there is no such file", file=path.name, fix=fix)


def _decoded(file, number, line):
    """Text of a line, or of a record of several, that starts on line `number`."""
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        number += line.count(b"\n", 0, error.start)
        return line_fault(file, number, "the line is not valid UTF-8", "save the file as UTF-8")
    if "\0" in text:
        number += line.count(b"\n", 0, line.index(b"\0"))
        return line_fault(file, number, "the line holds a NUL byte")
    return text


def line_fault(file: str, number: int, problem: str, fix: str = FRESH_COPY) -> DataError:
    return DataError(problem, file=file, line=number, fix=fix)


def csv_records(path: Path) -> Iterator[tuple[int | None, list[str] | DataError]]:
    """Records of a CSV file as (line it starts on, its cells); a quoted cell may hold line breaks (as "\\n").

    A quote that never closes ends the file: where the next record starts cannot be known.
    """
    start, parts, quotes, size = 0, [], 0, 0
    for number, line in _byte_lines(path):
        if isinstance(line, DataError):
            yield number, line
            if number is None or parts:
                return
            continue
        if not parts:
            start, quotes, size = number, 0, 0
            if not line.strip():
                continue
        parts.append(line)
        quotes, size = quotes + line.count(b'"'), size + len(line) + 1
        if quotes % 2 == 0:
            record = _decoded(path.name, start, b"\n".join(parts))
            yield start, record if isinstance(record, DataError) else _cells(path.name, start, record)
            parts = []
        elif size > MAX_RECORD_BYTES:
            break
    if parts:
        yield start, line_fault(path.name, start, "a quote opens in this record and never closes")


def _cells(file, number, record):
    if '"' not in record:
        return record.split(",")
    cells, position = [], 0
    while True:
        match = _CSV_FIELD.match(record, position)
        if not match:
            fix = "quote the whole field and double the quotes inside it"
            return line_fault(file, number, "a quote stands inside an unquoted field", fix)
        quoted, plain, end = match.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        position = match.end()


def either_name(path: Path) -> Path | None:
    """The file of that name, with or without .gz; None where there is neither."""
    other = path.with_name(path.name.removesuffix(".gz") if path.suffix == ".gz" else path.name + ".gz")
    return next((candidate for candidate in (path, other) if candidate.is_file()), None)
