"""Reads text files, tables and columns; faults name the file and the line."""

import contextlib
import csv
import errno
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from mednli_jax.errors import DataError, Problems
from mednli_jax.files.writing import Digest
from mednli_jax.types import Json

if TYPE_CHECKING:
    import pyarrow as pa

FRESH_COPY = "correct it, or take a fresh copy of the file"
# U+FEFF: the byte order mark at the head of a file. It also stands within files that were joined
# from several.
MARK = "\ufeff"
_MARK_BYTES = MARK.encode()
# But not the ufeff after a backslash's escape.
_ESCAPED_MARK = re.compile(r"(?<!\\)((?:\\\\)*)\\u[fF][eE][fF]{2}")


def line_fault(file: str, line: int | None, problem: str, fix: str = FRESH_COPY) -> DataError:
    return DataError(problem, file=file, line=line, fix=fix)


def empty_file(path: Path, content: str = "nothing") -> DataError:
    return DataError(f"holds {content}", file=path.name, fix=FRESH_COPY)


def empty_field(path: Path, line: int, field: str) -> DataError:
    problem, fix = f"field '{field}' is empty", "fill it in or remove the row"
    return DataError(problem, file=path.name, line=line, field=field, fix=fix)


def no_such_file(path: Path, fix: str = "check the path") -> DataError:
    path = Path(path)
    problem = f"there is no such file in {path.absolute().parent}"
    if os.path.isdir(path):
        problem = "is a folder, not a file"
    return DataError(problem, file=path.name, fix=fix)


def character_fault(text: str) -> str:
    """Describes the fault in the characters of a string from JSON, as the end of a sentence; "" if
    they have no fault."""
    if "\0" in text:
        return "holds a NUL character"
    return "holds half a surrogate pair" if re.search("[\ud800-\udfff]", text) else ""


def either_name(path: Path) -> Path | None:
    """The existing file of that name, with or without .gz; None if neither exists."""
    path = Path(path)
    name = path.name.removesuffix(".gz") if path.suffix == ".gz" else f"{path.name}.gz"
    for candidate in (path, path.with_name(name)):
        if os.path.isfile(candidate):
            return candidate
    return None


def check_readable(path: Path, fix: str = "check the path") -> None:
    """Raises DataError if the file does not exist or may not be read."""
    if not os.path.isfile(path):
        raise no_such_file(path, fix)
    with open_binary(path):
        pass


@contextlib.contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Opens a plain or gzipped file and yields its bytes as a buffered stream."""
    path = Path(path)
    if not (os.path.isfile(path) or path.is_fifo()):
        raise no_such_file(path)
    try:
        with open(path, "rb") as file:
            is_gzipped = file.peek(2)[:2] == b"\x1f\x8b"
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_gzipped else file
    except (gzip.BadGzipFile, EOFError, zlib.error):  # gzip's message may quote bytes of the file
        problem = "cannot be decompressed: it is damaged or cut short"
        raise DataError(problem, file=path.name, fix=FRESH_COPY) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EPIPE):  # of what the block writes
            raise
        problem = f"cannot be read ({error.strerror})"
        raise DataError(
            problem, file=path.name, fix="check the disk and the file's permissions"
        ) from error


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[io.TextIOBase]:
    """Opens a plain or gzipped UTF-8 file and yields its text as a stream, for formats without
    lines. Line breaks are not changed."""
    try:
        with open_binary(path) as stream:
            yield io.TextIOWrapper(stream, "utf-8-sig", newline="")
    except UnicodeDecodeError:
        raise DataError(
            "is not valid UTF-8", file=Path(path).name, fix="save the file as UTF-8"
        ) from None


def raw_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yields (line number from 1, line without its line break). Lines may also end in CR alone, as
    some programs write them."""
    head = stream.peek(1) if isinstance(stream, io.BufferedReader | gzip.GzipFile) else b""
    ends_in_cr = b"\r" in head and b"\n" not in head
    lines = stream.read().removesuffix(b"\r").split(b"\r") if ends_in_cr else stream
    for number, line in enumerate(lines, 1):
        yield number, line.rstrip(b"\r\n")


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with open_binary(path) as stream:
        yield from raw_lines(stream)


def byte_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields (line number from 1, line without its line break and without U+FEFF) of a plain or
    gzipped file."""
    for number, line in numbered_lines(path):
        yield number, line.replace(_MARK_BYTES, b"")


def decode(line: bytes) -> str:
    """Decodes a line of UTF-8, without U+FEFF."""
    return line.replace(_MARK_BYTES, b"").decode()


def json_text(text: str) -> str:
    """Removes U+FEFF from a JSON text, also the escape \\ufeff in its strings."""
    return _ESCAPED_MARK.sub(r"\1", text.replace(MARK, ""))


def text_lines(
    path: Path, problems: Problems | None = None, *, digest: Digest | None = None
) -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, text without the line break and U+FEFF) of every line of a plain
    or gzipped UTF-8 file.

    A line with a NUL is not text.

    Args:
      problems: collects the errors of lines that are not text; if it is None, the first is raised.
      digest: a hash of hashlib, updated with every line and "\\n".
    """
    path = Path(path)
    for number, line in numbered_lines(path):
        if digest is not None:
            digest.update(line + b"\n")
        try:
            text = decode(line)
            problem = "the line holds a NUL character" if "\0" in text else ""
        except UnicodeDecodeError:
            problem = "the line is not valid UTF-8"
        if not problem:
            yield number, text
            continue
        fault = line_fault(
            path.name, number, problem, "take a fresh copy, or save the file as UTF-8"
        )
        if problems is None:
            raise fault
        problems.add(fault)


class RepeatedField(dict):
    """A JSON object that gives a field twice; it holds the later value. entry: the position of the
    repeated field, from 1."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.entry = next(
            place for place, name in enumerate(names, 1) if name in names[: place - 1]
        )
        self.problem = f"gives the field{shown_name(names[self.entry - 1])} twice"


def is_name(text: str) -> bool:
    """Whether a name in a file looks like a name, or is the mark "-". Messages show no other names,
    because they may be corpus text."""
    return re.fullmatch(r"-|-?\w[\w.#/()-]{0,29}", text) is not None


def shown_name(name: str) -> str:
    """The name of a field for a message, after a blank; "" for a name that may be corpus text."""
    return f" '{name}'" if is_name(name) else ""


def shown_names(names: Sequence[str], kind: str) -> str:
    """Names of a kind for a message: "premise, label, column 3", whose third name may be corpus
    text."""
    shown = [name if is_name(name) else f"{kind} {place}" for place, name in enumerate(names, 1)]
    return ", ".join(shown)


def json_object(pairs: list[tuple[str, object]]) -> dict:
    """Makes an object of its fields, as the `object_pairs_hook` of json. It is a RepeatedField if
    two fields have one name."""
    values = dict(pairs)
    return values if len(values) == len(pairs) else RepeatedField(pairs)


KEEP_ONE = "keep one of the two"


def json_lines(path: Path, problems: Problems) -> Iterator[tuple[int, dict]]:
    """Yields (line number, object) of a JSON lines file, one object per line. Blank lines are
    skipped."""
    path = Path(path)
    for number, line in text_lines(path, problems):
        if not line.strip():
            continue
        try:
            values = json.loads(json_text(line), object_pairs_hook=json_object)
        except ValueError:  # Python's message can quote the line, so it is dropped
            problems.add(line_fault(path.name, number, "the line is not valid JSON"))
            continue
        if isinstance(values, RepeatedField):
            problems.add(line_fault(path.name, number, f"the line {values.problem}", KEEP_ONE))
        elif isinstance(values, dict):
            yield number, values
        else:
            problems.add(
                line_fault(
                    path.name, number, "the line is not a JSON object", "write one object a line"
                )
            )


def csv_records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of its first line, cells) for each record of a CSV file (RFC 4180). Line
    breaks in cells become "\\n".

    Blank lines and lines of commas alone are skipped. Reading ends at a faulty quote or at a line
    that is not text.
    """
    path = Path(path)
    numbers: list[int] = []  # of the lines of this record

    def lines() -> Iterator[str]:
        for number, line in text_lines(path):
            numbers.append(number)
            yield f"{line}\n"

    csv.field_size_limit(1 << 30)  # of characters; Python's own limit is 131,072
    records = csv.reader(lines(), strict=True)
    while True:
        numbers.clear()
        try:
            cells = next(records, None)
        except DataError as error:
            problems.add(error)
            return
        except csv.Error as error:  # its message may quote the text
            problem = "a quote of this record does not close"
            fix = "quote whole cells, and double quotes inside them"
            if "new-line" in str(error):
                problem, fix = "holds a CR that ends no line", "end all lines in LF"
            problems.add(line_fault(path.name, numbers[0], problem, fix))
            return
        if cells is None:
            return
        if "".join(cells).strip():
            yield numbers[0], cells


COLUMNAR = (".parquet", ".arrow", ".feather")  # endings of files that column_records reads


def column_records(
    path: Path, rename: Callable[[Sequence[str]], Sequence[str]], fields: Collection[str]
) -> Iterator[tuple[int, dict[str, Json]]]:
    """Yields (number from 1, values by column) for each row of a Parquet, Arrow or Feather file,
    plain or gzipped.

    Values of `fields` are Python's, and their bytes are UTF-8. A value of another column is a
    pa.Array of length 1, because Python may lack its type.

    Args:
      rename: maps names in the file to names of columns; "" for a column that is not read. It may
        raise DataError.
      fields: names of columns in lower case.
    """
    import pyarrow as pa
    from pyarrow import parquet

    number = 0
    with open_binary(path) as file:
        if path.is_fifo():  # pyarrow reads the end of a file first
            file = io.BytesIO(file.read())
        head = file.read(6)
        file.seek(0)
        try:
            if head.startswith(b"PAR1"):
                table = parquet.ParquetFile(file)
                schema, batches = table.schema_arrow, table.iter_batches()
            else:  # a stream is what save_to_disk of the datasets library writes
                open_arrow = pa.ipc.open_file if head == b"ARROW1" else pa.ipc.open_stream
                table = open_arrow(file)
                schema, batches = table.schema, table
                if head == b"ARROW1":
                    batches = map(table.get_batch, range(table.num_record_batches))
            names = rename(schema.names)
            check_distinct(names, path.name)
            for batch in batches:
                for index in range(batch.num_rows):
                    number += 1
                    values = {}
                    for name, column in zip(names, batch.columns, strict=True):
                        if name.casefold() in fields:
                            values[name] = _field_value(column[index], name, path.name, number)
                        elif name:
                            values[name] = column.slice(index, 1)
                    yield number, values
        except (pa.ArrowException, OSError):  # its message may quote the text
            raise line_fault(path.name, None, "is damaged or cut short") from None


def _field_value(scalar: "pa.Scalar", name: str, file: str, number: int) -> Json:
    """Converts a scalar to Python; bytes become text."""
    try:
        value = scalar.as_py()
        return value.decode() if isinstance(value, bytes) else value
    except (ValueError, OverflowError):
        raise line_fault(file, number, f"field '{name}' is no text in UTF-8") from None


def is_quoted_cell(cell: str) -> bool:
    """Whether a cell between TABs is quoted as in CSV: it stands in quotes and contains a doubled
    quote."""
    return cell[:1] == cell[-1:] == '"' and '""' in cell[1:-1]


def quoted_cells(file: str, line: int, count: int) -> str:
    """The warning of quoted cells in a table with TABs. line: number of the first such line."""
    cells = f'{count:,} cells with quotes around the text and "" inside, this is the first'
    meaning = "between TABs quotes have no meaning, and stay in the text"
    return f"{file}:{line}: {cells}; {meaning}. Fix: save the table as .csv."


def check_distinct(names: Iterable[str], file: str, line: int | None = None) -> None:
    """Raises DataError if two columns have one name, case ignored. Columns without a name may
    repeat."""
    before: set[str] = set()
    for name in names:
        if name and name.casefold() in before:
            problem = f"two columns have the same name{shown_name(name)}, case ignored"
            raise DataError(problem, file=file, line=line, field=name, fix=KEEP_ONE)
        before.add(name.casefold())


def table_rows(
    file: str,
    records: Iterable[tuple[int, Sequence[str]]],
    problems: Problems,
    columns: Callable[[int, list[str]], Sequence[str]],
    spare: str = "",
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (line number, {column: cell}) for each record below a header. Reading ends at a fault
    in or before the header.

    Args:
      records: (line number, cells).
      columns: maps (line number, cells) of the header to names of the columns; may raise DataError.
      spare: regular expression for the columns that may be missing at the end of a row.
    """
    names = None
    for number, cells in records:
        if names is None:
            if problems.total:
                return
            try:
                names = columns(number, list(map(str.strip, cells)))
                check_distinct(names, file, number)
            except DataError as error:
                problems.add(error)
                return
            continue
        lacking = names[len(cells) :]
        if len(cells) > len(names) or not all(re.fullmatch(spare, name) for name in lacking):
            fix = "write a cell for each column; in CSV, quote a cell that holds a comma or a quote"
            problems.add(
                line_fault(file, number, f"{len(cells)} cells, expected {len(names)}", fix)
            )
        else:
            yield number, dict(zip(names, cells, strict=False))
