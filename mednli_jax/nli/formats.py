"""The file formats that hold premise-hypothesis pairs: JSON lines, tables with a header, CSV, one sentence a line.

Each format is an iterator of (line, PairFields). Lines that are not rows go into `problems`, so that a reader can
report the first faults together. Memory is bounded by one row.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import DataError, Problems
from mednli_jax.io import (
    FRESH_COPY,
    character_fault,
    checked_lines,
    csv_records,
    either_name,
    json_lines,
    line_fault,
    table_rows,
    text_lines,
)

SIDE_FILES = {"sentence1": "s1", "sentence2": "s2", "gold_label": "labels"}
# A file of the user may name the fields in plain words.
PLAIN_NAMES = {"sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label", "pairID": "uid"}
REQUIRED = ("gold_label", "sentence1", "sentence2")
DELIMITERS = {"TABs": "\t", "commas": ",", "semicolons": ";", "bars": "|"}
_NAME = re.compile(r"[A-Za-z]\w{0,39}")  # of a column or a field; a sentence has blanks
MOST_NAMES = 12  # of columns or fields that a message lists


class PairFields:
    """The named fields of one pair; raises DataError for a bad field, without quoting it.

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
        value, plain = self.values.get(field), self.values.get(PLAIN_NAMES.get(field))
        if field in REQUIRED and None not in (value, plain) and value != plain:
            raise self.fault(f"differs from field '{PLAIN_NAMES[field]}'", field, "leave one of them out")
        value = plain if value is None else value
        if value is None and optional:
            return ""
        if value is None and self._name(field) not in self.values:
            raise self.fault(f"is missing{self._found()}", field, self._missing_fix(field))
        if not isinstance(value, str):
            raise self.fault(f"is a {type(value).__name__}, expected a string", field, FRESH_COPY)
        if problem := character_fault(value):
            raise self.fault(problem, field, FRESH_COPY)
        return value

    def _found(self):
        """The names that were found; none if one may be text, as in a table without a header."""
        if not self.values or not all(map(_NAME.fullmatch, self.values)):
            return ""
        return f"; it has {', '.join(list(self.values)[:MOST_NAMES])}"

    def _missing_fix(self, field):
        plain = PLAIN_NAMES.get(field, field)
        for name in self.values:
            if name.casefold() in (field.casefold(), plain):
                return f"write '{plain}' for '{name}': case counts"
        own = f", or name the field '{plain}' in a file of your own" if plain != field else ""
        return f"use the official file, which has this field{own}"

    def sentence(self, field: str) -> str:
        """The field as a text that is not blank."""
        value = self.text(field)
        if not value.strip():
            raise self.fault("is empty", field, "fill in the sentence or remove the line")
        return value


Rows = Iterator[tuple[int, PairFields]]


def json_rows(path: Path, problems: Problems) -> Rows:
    """Rows of JSON lines: one object with named fields a line."""
    for number, values in json_lines(path, problems):
        yield number, PairFields(path.name, number, values)


def tsv_rows(path: Path, problems: Problems) -> Rows:
    """Rows of a table with a header line, separated by TABs, as SNLI and MultiNLI are. Quotes have no meaning."""
    lines = text_lines(path, problems)
    return _rows(path, ((number, line.split("\t")) for number, line in lines if line.strip(" ")), problems)


def csv_rows(path: Path, problems: Problems) -> Rows:
    """Rows of a CSV file with a header (RFC 4180: double quotes, doubled inside, around commas and line breaks)."""
    return _rows(path, csv_records(path, problems), problems)


def _rows(path, records, problems):
    def columns(number, header):
        if len(set(header)) != len(header):
            raise line_fault(path.name, number, "the header names a column twice", "give each column its own name")
        others = [name for name, sign in DELIMITERS.items() if len(header) == 1 and sign in header[0]]
        if others:
            fix = "separate the columns of .tsv and .txt by TABs, those of .csv by commas"
            raise line_fault(path.name, number, f"the header is one column with {others[0]} in it", fix)
        if set(header) & set(LABELS):
            fix = "begin the file with the names label, premise and hypothesis, in the order of the columns"
            problem = "the first line is a pair and no header"
            raise DataError(problem, file=path.name, line=number, field=REQUIRED[0], fix=fix)
        row = PairFields(path.name, number, dict.fromkeys(header, ""))
        for field in REQUIRED:
            row.text(field)
        return header

    # A pair with fewer than five annotators may end before the columns label2 ... label5.
    for number, values in table_rows(path.name, records, problems, columns, spare=r"label\d"):
        yield number, PairFields(path.name, number, values)


def triple_rows(path: Path, problems: Problems) -> Rows:
    """Rows of the layout `s1.train s2.train labels.train`: line n of each file belongs to pair n.

    path: the file of premises; the two others lie beside it under the same ending. The sentences are tokenised
    already, their tokens separated by blanks (Conneau et al. 2017, https://github.com/facebookresearch/InferSent).
    """
    paths = triple_paths(path)
    files = {field: file.name for field, file in paths.items()}
    sides = [checked_lines(file) for file in paths.values()]
    for number, items in enumerate(zip_longest(*sides), 1):
        lines = [item[1] for item in items if item]
        faults = [line for line in lines if isinstance(line, DataError)]
        for fault in faults:
            problems.add(fault)
        if None in items:
            if not faults:
                short = [*files.values()][items.index(None)]
                problem = f"the file ends after line {number - 1}, another file of its split goes on"
                problems.add(line_fault(short, number, problem, "give s1, s2 and labels as many lines each"))
            return
        if not faults and any(map(str.strip, lines)):
            values = dict(zip(files, lines, strict=True))
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
        for number, cells in csv_records(self.path, self.problems):
            if len(cells) != 2:
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
