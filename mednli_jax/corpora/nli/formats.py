"""The file formats that hold premise-hypothesis pairs: JSON lines, tables with a header, CSV, one sentence a line.

Each format is an iterator of (line, PairFields), or (line, DataError) where the line is no row; it never raises for
what the file holds, so that a reader can tell the first faults together. Memory is bounded by one row.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from mednli_jax.corpora.lines import FRESH_COPY, csv_records, either_name, line_fault, text_lines
from mednli_jax.errors import DataError, Problems
from mednli_jax.examples import LABELS

SIDE_FILES = {"sentence1": "s1", "sentence2": "s2", "gold_label": "labels"}
# A file of one's own may name the fields in plain words.
PLAIN_NAMES = {"sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label", "pairID": "uid"}
REQUIRED = ("gold_label", "sentence1", "sentence2")


class PairFields:
    """The named fields of one pair; raises DataError for what is wrong with one, without its words.

    file, number: where it stands. values: by field. files: the file of each field, where they differ.
    tokenised: blanks separate the tokens of its sentences.
    """

    def __init__(self, file: str, number: int, values: dict, files: dict[str, str] | None = None, tokenised=False):
        self.file, self.number, self.values = file, number, values
        self.files, self.tokenised = files or {}, tokenised

    def fault(self, problem: str, field: str, fix: str = "") -> DataError:
        where = self.files.get(field, self.file)
        field = self._name(field)
        return DataError(f"field '{field}' {problem}", file=where, line=self.number, field=field, fix=fix)

    def _name(self, field):
        plain = PLAIN_NAMES.get(field)
        return plain if plain in self.values and field not in self.values else field

    def text(self, field: str, optional: bool = False) -> str:
        """The field as a string of Unicode text; "" where it is optional and missing or null."""
        value = self.values.get(field)
        if value is None:
            value = self.values.get(self._name(field))
        if value is None and optional:
            return ""
        if value is None and self._name(field) not in self.values:
            raise self.fault("is missing", field, _missing_fix(field))
        if not isinstance(value, str):
            raise self.fault(f"is a {type(value).__name__}, expected a string", field, FRESH_COPY)
        if "\0" in value:
            raise self.fault("holds a NUL character", field, FRESH_COPY)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.fault("holds half a surrogate pair", field, "save the file as UTF-8") from None
        return value

    def sentence(self, field: str) -> str:
        """A text that is more than blanks."""
        value = self.text(field)
        if not value.strip():
            raise self.fault("is empty", field, "fill in the sentence or remove the line")
        return value


def _missing_fix(field):
    plain = f", or name the field '{PLAIN_NAMES[field]}' in a file of your own" if field in PLAIN_NAMES else ""
    return f"use the official file, which has this field{plain}"


def json_rows(path: Path) -> Iterator[tuple[int | None, PairFields | DataError]]:
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
        return line_fault(file, number, "the line is not valid JSON")
    if not isinstance(values, dict):
        fix = "write one object with named fields"
        return line_fault(file, number, "the line is not a JSON object", fix)
    return PairFields(file, number, values)


def tsv_rows(path: Path) -> Iterator[tuple[int | None, PairFields | DataError]]:
    """Rows of a table with a header line, separated by TABs, as SNLI and MultiNLI are: quotes mean nothing there."""
    records = (
        (number, line if isinstance(line, DataError) else line.split("\t"))
        for number, line in text_lines(path)
        if isinstance(line, DataError) or line.strip(" ")
    )
    return _table_rows(path.name, records)


def csv_rows(path: Path) -> Iterator[tuple[int | None, PairFields | DataError]]:
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
        fix = "give each column its own name"
        return line_fault(file, number, "the header names a column twice", fix)
    row = PairFields(file, number, dict.fromkeys(header, ""))
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
        return line_fault(file, number, problem, "write as many columns as the header names")
    return PairFields(file, number, dict(zip(header, cells, strict=False)))


def triple_rows(path: Path) -> Iterator[tuple[int | None, PairFields | DataError]]:
    """Rows of the layout `s1.train s2.train labels.train`: line n of each file belongs to pair n.

    path: the file of premises; the two others lie beside it under the same ending. The sentences are tokenised
    already, their tokens separated by blanks (Conneau et al. 2017, https://github.com/facebookresearch/InferSent).
    """
    paths = triple_paths(path)
    files = {field: file.name for field, file in paths.items()}
    streams = {field: text_lines(file, watched=field == "sentence1") for field, file in paths.items()}
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
            problem = f"the file ends after line {number - 1}, another file of its split goes on"
            fix = "give s1, s2 and labels as many lines each"
            yield number, DataError(problem, file=file, line=number, fix=fix)
            return
        values = {field: item[1] for field, item in lines.items()}
        if not faults and any(value.strip() for value in values.values()):
            yield number, PairFields(files["sentence1"], number, values, files, tokenised=True)


def triple_paths(path: Path) -> dict[str, Path]:
    """The three files of a split by field, each found with or without .gz; given the file of premises."""
    ending = Path(path).name.removesuffix(".gz").removeprefix("s1.")
    found = {}
    for field, stem in SIDE_FILES.items():
        file = Path(path).with_name(f"{stem}.{ending}")
        found[field] = either_name(file) or file
    return found


class GroundTruth:
    """Labels by pairID from a CSV file of two columns, as MEDIQA-NLI comes; a first line without a label is a header.

    Raises: DataError, or DataErrors with the first 20 faults together.
    """

    def __init__(self, path: Path):
        self.path, self.labels, self.lines, self.problems = Path(path), {}, {}, Problems()
        header = True
        for number, cells in csv_records(self.path):
            if isinstance(cells, DataError):
                self.problems.add(cells)
            elif len(cells) != 2:
                self._fault(f"{len(cells)} columns, expected 2", number, "write pairID and label a line")
            elif not header or cells[1].strip() in LABELS:
                self._take(number, *map(str.strip, cells))
            header = False
        self.problems.raise_if_any()

    def _fault(self, problem, line, fix, field=None):
        self.problems.add(DataError(problem, file=self.path.name, line=line, field=field, fix=fix))

    def _take(self, number, uid, label):
        if uid in self.lines:
            self._fault(f"pair_id repeats that of line {self.lines[uid]}", number, FRESH_COPY, "pair_id")
        elif label not in LABELS:
            known = ", ".join(LABELS)
            self._fault(f"field 'label' is none of {known}", number, "correct the label", "label")
        self.lines.setdefault(uid, number)
        self.labels[uid] = label

    def without_pair(self, uids) -> list[DataError]:
        """One fault for each label whose pair is not in `uids`."""
        return [
            DataError(
                "field 'pair_id' names no pair of the file of pairs",
                file=self.path.name,
                line=line,
                field="pair_id",
                fix="take both files from the same release",
            )
            for uid, line in self.lines.items()
            if uid not in uids
        ]
