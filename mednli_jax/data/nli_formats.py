"""The file formats that hold premise-hypothesis pairs: JSON lines, tables with a header, CSV, one sentence a line.

Each format is an iterator of (line, Row), or (line, DataError) where the line is no row; it never raises for what the
file holds, so that a reader can tell the first faults together. Memory is bounded by one row.
"""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

from mednli_jax.errors import DataError
from mednli_jax.text import MAX_LINE_BYTES, binary_lines

MAX_RECORD_BYTES = 1 << 22  # a CSV record may span lines: this many bytes without a closing quote are a fault
FRESH_COPY = "take a fresh copy from the official archive"
SIDE_FILES = {"sentence1": "s1", "sentence2": "s2", "gold_label": "labels"}
# A file of one's own may name the fields in plain words.
PLAIN_NAMES = {"sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label", "pairID": "uid"}
REQUIRED = ("gold_label", "sentence1", "sentence2")
_CSV_FIELD = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^",]*))(,|\Z)')


class Row:
    """The named fields of one pair; raises DataError for what is wrong with one, without its words.

    file, number: where it stands. values: by field. files: fields that stand in another file than `file`.
    """

    def __init__(self, file: str, number: int, values: dict, files: dict[str, str] | None = None):
        self.file, self.number, self.values, self.files = file, number, values, files or {}

    def fault(self, code: str, problem: str, field: str, fix: str = "") -> DataError:
        where = self.files.get(field, self.file)
        field = self._name(field)
        return DataError(code, f"field '{field}' {problem}", file=where, line=self.number, field=field, fix=fix)

    def _name(self, field):
        plain = PLAIN_NAMES.get(field)
        return plain if plain in self.values and field not in self.values else field

    def text(self, field: str, optional: bool = False) -> str:
        """The field as a string of Unicode text; "" where it is optional and missing or null."""
        name = self._name(field)
        value = self.values.get(name)
        if value is None and optional:
            return ""
        if name not in self.values:
            raise self.fault("E-DATA-017", "is missing", field, _missing_fix(field))
        if not isinstance(value, str):
            raise self.fault("E-DATA-015", f"is a {type(value).__name__}, expected a string", field, FRESH_COPY)
        if "\0" in value:
            raise self.fault("E-DATA-011", "holds a NUL character", field, FRESH_COPY)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.fault("E-DATA-016", "holds half a surrogate pair", field, "save the file as UTF-8") from None
        return value

    def sentence(self, field: str) -> str:
        """A text that is more than blanks."""
        value = self.text(field)
        if not value.strip():
            raise self.fault("E-DATA-019", "is empty", field, "fill in the sentence or remove the line")
        return value


def _missing_fix(field):
    plain = f", or name the field '{PLAIN_NAMES[field]}' in a file of your own" if field in PLAIN_NAMES else ""
    return f"use the official file, which has this field{plain}"


def text_lines(path: Path) -> Iterator[tuple[int | None, str | DataError]]:
    """Lines of a plain or gzipped UTF-8 file without their breaks; a line that is no text is a DataError.

    The last item is (None, error) where the file cannot be decompressed. Raises: DataError E-DATA-001 or E-DATA-003.
    """
    for number, line in _byte_lines(path):
        yield number, line if isinstance(line, DataError) else _decoded(path.name, number, line)


def _byte_lines(path):
    if not path.is_file():
        raise DataError("E-DATA-001", "there is no such file", file=path.name, fix="check the path")
    try:
        for number, line in binary_lines(path):
            if line is None:
                line = _fault(path.name, number, "E-DATA-012", f"the line is longer than {MAX_LINE_BYTES} bytes")
            yield number, line
    except gzip.BadGzipFile as error:
        yield None, DataError("E-DATA-004", f"cannot be decompressed: {error}", file=path.name, fix=FRESH_COPY)
    except OSError as error:
        raise DataError("E-DATA-003", f"cannot be read ({error.strerror})", file=path.name) from error


def _decoded(file, number, line):
    """Text of a line, or of a record of several, that starts on line `number`."""
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        number += line.count(b"\n", 0, error.start)
        return _fault(file, number, "E-DATA-010", "the line is not valid UTF-8", "save the file as UTF-8")
    if "\0" in text:
        number += line.count(b"\n", 0, line.index(b"\0"))
        return _fault(file, number, "E-DATA-011", "the line holds a NUL byte")
    return text


def _fault(file, number, code, problem, fix=FRESH_COPY, field=None):
    return DataError(code, problem, file=file, line=number, field=field, fix=fix)


def json_rows(path: Path) -> Iterator[tuple[int | None, Row | DataError]]:
    """Rows of JSON lines: one object with named fields a line. Blank lines are passed over."""
    for number, line in text_lines(path):
        if isinstance(line, DataError):
            yield number, line
        elif line.strip():
            yield number, _json_row(path.name, number, line)


def _json_row(file, number, line):
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):  # Python's message can quote the line, so it goes no further
        return _fault(file, number, "E-DATA-013", "the line is not valid JSON")
    if not isinstance(values, dict):
        return _fault(file, number, "E-DATA-014", "the line is not a JSON object", "write one object with named fields")
    return Row(file, number, values)


def tsv_rows(path: Path) -> Iterator[tuple[int | None, Row | DataError]]:
    """Rows of a table with a header line, separated by TABs, as SNLI and MultiNLI are: quotes mean nothing there."""
    records = (
        (number, line if isinstance(line, DataError) else line.split("\t"))
        for number, line in text_lines(path)
        if isinstance(line, DataError) or line.strip()
    )
    return _table_rows(path.name, records)


def csv_rows(path: Path) -> Iterator[tuple[int | None, Row | DataError]]:
    """Rows of a CSV file with a header (RFC 4180: double quotes, doubled inside, around commas and line breaks)."""
    return _table_rows(path.name, csv_records(path))


def _table_rows(file, records):
    header = None
    for number, cells in records:
        if isinstance(cells, DataError):
            yield number, cells
            if header is None:  # without it no row can be read
                return
        elif header is None:
            header = [cell.strip() for cell in cells]
            fault = _header_fault(file, number, header)
            if fault:
                yield number, fault
                return
        else:
            yield number, _table_row(file, number, header, cells)


def _header_fault(file, number, header):
    if len(set(header)) != len(header):
        return _fault(file, number, "E-DATA-025", "the header names a column twice", "give each column its own name")
    row = Row(file, number, dict.fromkeys(header, ""))
    try:
        for field in REQUIRED:
            row.text(field)
    except DataError as fault:
        return fault
    return None


def _table_row(file, number, header, cells):
    # A pair with fewer than five annotators may end before the columns label2 ... label5.
    spare = header[len(cells) :]
    if len(cells) > len(header) or not all(re.fullmatch(r"label\d", name) for name in spare):
        problem = f"{len(cells)} columns, expected {len(header)}"
        return _fault(file, number, "E-DATA-023", problem, "write as many columns as the header names")
    return Row(file, number, dict(zip(header, cells, strict=False)))


def csv_records(path: Path) -> Iterator[tuple[int | None, list[str] | DataError]]:
    """Records of a CSV file as (line it starts on, its cells); a quoted cell may hold line breaks (as "\\n").

    A quote that never closes ends the file with E-DATA-024: where the next record starts cannot be known.
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
        quotes, size = quotes + line.count(b'"'), size + len(line)
        if quotes % 2 == 0:
            record = _decoded(path.name, start, b"\n".join(parts))
            yield start, record if isinstance(record, DataError) else _cells(path.name, start, record)
            parts = []
        elif size > MAX_RECORD_BYTES:
            break
    if parts:
        yield start, _fault(path.name, start, "E-DATA-024", "a quote opens in this record and never closes")


def _cells(file, number, record):
    if '"' not in record:
        return record.split(",")
    cells, position = [], 0
    while True:
        match = _CSV_FIELD.match(record, position)
        if not match:
            fix = "quote the whole field and double the quotes inside it"
            return _fault(file, number, "E-DATA-024", "a quote stands inside an unquoted field", fix)
        quoted, plain, end = match.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        position = match.end()


def triple_rows(path: Path) -> Iterator[tuple[int | None, Row | DataError]]:
    """Rows of the layout `s1.train s2.train labels.train`: line n of each file belongs to pair n.

    path: the file of premises; the two others lie beside it under the same ending. The sentences are tokenised
    already, their tokens separated by blanks (Conneau et al. 2017, https://github.com/facebookresearch/InferSent).
    """
    paths = triple_paths(path)
    files = {field: file.name for field, file in paths.items()}
    streams = {field: text_lines(file) for field, file in paths.items()}
    while True:
        lines = {field: next(stream, None) for field, stream in streams.items()}
        ended = [field for field, item in lines.items() if item is None]
        if len(ended) == len(lines):
            return
        faults = [item for item in lines.values() if item and isinstance(item[1], DataError)]
        yield from faults
        if any(number is None for number, _ in faults):
            return
        number = next(item[0] for item in lines.values() if item)
        if ended:
            file = files[ended[0]]
            problem = f"the file ends after line {number - 1}, the other two of its split go on"
            fix = "give s1, s2 and labels as many lines each"
            yield number, DataError("E-DATA-028", problem, file=file, line=number, fix=fix)
            return
        values = {field: item[1] for field, item in lines.items()}
        if not faults and any(value.strip() for value in values.values()):
            yield number, Row(files["sentence1"], number, values, files)


def triple_paths(path: Path) -> dict[str, Path]:
    """The three files of a split by field, each found with or without .gz; given the file of premises."""
    ending = Path(path).name.removesuffix(".gz").removeprefix("s1.")
    found = {}
    for field, stem in SIDE_FILES.items():
        file = Path(path).with_name(f"{stem}.{ending}")
        found[field] = either_name(file) or file
    return found


def either_name(path: Path) -> Path | None:
    """The file of that name, with or without .gz; None where there is neither."""
    other = path.with_name(path.name.removesuffix(".gz") if path.suffix == ".gz" else path.name + ".gz")
    return next((candidate for candidate in (path, other) if candidate.is_file()), None)
