"""Rows of files of sentence pairs: JSON lines, CSV, tables separated by TABs, and Parquet or Arrow
files. Text files may be gzipped.

Errors name the file, the line and the field; they never quote a sentence.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mednli_jax.data.inputs import SPARE
from mednli_jax.data.labels import Part, parts, written
from mednli_jax.errors import DataError, Problems
from mednli_jax.files import reading
from mednli_jax.files.reading import FRESH_COPY, character_fault, either_name

FORMAT = 1  # a change of what rows of the user's own files mean
# A file of the user may name the fields in plain words.
PLAIN_NAMES = {
    "sentence1": "premise",
    "sentence2": "hypothesis",
    "gold_label": "label",
    "pairID": "uid",
}
REQUIRED = ("gold_label", "sentence1", "sentence2")
PARSES = ("sentence1_binary_parse", "sentence2_binary_parse")
FIELDS = (*PLAIN_NAMES, *PLAIN_NAMES.values(), *PARSES, "captionID", "promptID", "genre", "id")
SPELLINGS = {name.casefold(): name for name in FIELDS}
NUMBERED = ("gold_label", "pairID", "captionID", "promptID")  # fields that may be whole numbers
NAMES_OF_COLUMNS = (
    "name the columns premise, hypothesis and label in the first line, separated by commas in "
    ".csv, else by TABs, or say which they are: "
)
# Parts of a split: on the Hub (older ones end in a hash), in the Hub's converted branch, of Spark.
HUB_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(-[0-9a-f]+)?\.parquet")
NUMBERED_PART = re.compile(r"(?P<number>\d{4})\.parquet")
SPARK_PART = re.compile(r"part-(?P<number>\d{5})-.+\.parquet")
ARROW_PART = re.compile(r"data-(?P<number>\d{5})-of-(?P<count>\d{5})\.arrow")

Columns = tuple[Part, ...]  # (field, its column in files of the user), see columns_of


def columns_of(setting: str) -> Columns:
    """The columns that config.data.columns names: "premise:note,hypothesis:claim"."""
    return tuple(parts(setting))


class PairFields:
    """The named fields of one pair; a bad field is a DataError, which does not quote it."""

    def __init__(
        self, file: str, number: int | None, values: Mapping[str, Any], columns: Columns = ()
    ) -> None:
        self.file, self.number, self.values, self.columns = file, number, values, columns
        self.has_names = True  # False where the first line of a table may be a pair

    def fault(self, problem: str, name: str, fix: str = FRESH_COPY) -> DataError:
        name = self._shown(name)
        problem = f"field '{name}' {problem}"
        return DataError(problem, file=self.file, line=self.number, field=name, fix=fix)

    def _shown(self, name: str) -> str:
        """The user's column of a field, else its name in plain words, unless the row names fields
        as SNLI does."""
        plain = PLAIN_NAMES.get(name, name)
        official = not self.values.keys().isdisjoint(REQUIRED)
        return dict(self.columns).get(plain, name if official else plain)

    def missing(self, required: Sequence[str]) -> list[str]:
        """The required fields that the row lacks."""
        names = self.values.keys()
        return [name for name in required if names.isdisjoint({name, PLAIN_NAMES.get(name)})]

    def check(self, required: Sequence[str]) -> None:
        """Refuses a row without one of the required fields."""
        missing = self.missing(required)
        if not missing:
            return
        shown = list(map(self._shown, missing))
        fields = f"field '{shown[0]}' is" if len(shown) == 1 else f"fields {', '.join(shown)} are"
        problem = f"{fields} missing; found: {self._present(len(missing) < len(required))}"
        fix = "name the fields uid and label"
        if "sentence1" in required:
            named = [f"{plain}:COLUMN" for name, plain in PLAIN_NAMES.items() if name in missing]
            setting = f"config.data.columns={','.join(named)}"
            fix = f"correct {setting}" if self.columns else f"{NAMES_OF_COLUMNS}{setting}"
        raise DataError(problem, file=self.file, line=self.number, field=shown[0], fix=fix)

    def _present(self, has_a_header: bool) -> str:
        """The names of the fields. The first line of a table without a header is a pair, which no
        message may quote."""
        column_of = dict(self.columns)
        names = [column_of.get(name, name.removeprefix(IGNORED)) for name in map(str, self.values)]
        names = list(filter(None, names))
        if not (has_a_header or self.has_names):
            return f"{len(names)} other fields"
        if not all(
            map(reading.is_name, names)
        ):  # a text, and then its neighbours may be texts, too
            names = [name for name in names if name.casefold() in SPELLINGS]
        others = len(self.values) - len(names[:SHOWN])
        shown = names[:SHOWN] + ([f"{others} more"] if others else [])
        return ", ".join(shown)

    def text(self, name: str, optional: bool = False) -> str:
        """The field as a string of Unicode text; "" where it is optional and missing or null."""
        value, plain = self.values.get(name), self.values.get(PLAIN_NAMES.get(name, name))
        if value is None:
            value = plain
        elif plain is not None and not _equal(name, value, plain):
            raise self.fault(f"and field '{PLAIN_NAMES[name]}' differ", name, reading.KEEP_ONE)
        if optional and (value is None or value != value):
            return ""
        if name in NUMBERED and isinstance(value, int | float | Decimal):
            value = written(value)
        if not isinstance(value, str):
            raise self.fault(f"is a {type(value).__name__}, expected a string", name)
        if problem := character_fault(value):
            raise self.fault(problem, name)
        return value

    def kind_of_label(self) -> str:
        """`numbers` or `texts`, for messages; "" for a pair without a label."""
        label = self.values.get("gold_label", self.values.get("label"))
        if label is None:
            return ""
        return "numbers" if isinstance(label, int | float | Decimal) else "texts"

    def sentence(self, name: str) -> str:
        """The field as a text that is not blank."""
        value = self.text(name)
        if not value.strip():
            raise self.fault("is empty", name, "fill in the sentence or remove the line")
        return value


def _equal(name: str, value: object, plain: object) -> bool:
    """Whether two fields of one meaning agree; the case of labels is ignored."""
    if name == "gold_label":
        return str(value).strip().casefold() == str(plain).strip().casefold()
    return value == plain


PairRows = Iterator[tuple[int, PairFields]]  # (line number, fields)
ReadRows = Callable[[Path, Problems, Sequence[str], Columns], PairRows]
IGNORED = "\0"  # before the name of a column in whose place config.data.columns names another


@cache
def _spelled(names: tuple[str, ...], columns: Columns) -> tuple[str, ...]:
    """The names of fields as this module spells them; case is ignored."""
    field_of = {part.right.casefold(): part.left for part in columns}
    spelled = []
    for name in names:
        folded = name.casefold()
        field = field_of.get(folded, SPELLINGS.get(folded, name))
        replaced = PLAIN_NAMES.get(field, field) in field_of.values() and folded not in field_of
        spelled.append(IGNORED + name if replaced else field)
    has_uid = not {"uid", "pairID"}.isdisjoint((*spelled, *field_of.values()))
    return tuple("uid" if name == "id" and not has_uid else name for name in spelled)


SHOWN = 20  # names of fields in a message
SEEN = 1000  # lines below a header that lacks a field


def json_rows(
    path: Path, problems: Problems, required: Sequence[str] = (), columns: Columns = ()
) -> PairRows:
    """Rows of JSON lines: one object with named fields a line."""
    for number, fields in reading.json_lines(path, problems):
        names = _spelled(tuple(fields), columns)
        values = reading.json_object(list(zip(names, fields.values(), strict=True)))
        if isinstance(values, reading.RepeatedField):
            problem = f"the line {values.problem}, case ignored"
            problems.add(reading.line_fault(path.name, number, problem, reading.KEEP_ONE))
        else:
            yield number, PairFields(path.name, number, values, columns)


def csv_rows(
    path: Path, problems: Problems, required: Sequence[str], columns: Columns = ()
) -> PairRows:
    """Rows of a CSV table (RFC 4180) with a header."""
    return _table_rows(path, reading.csv_records(path, problems), problems, required, columns)


def tab_rows(
    path: Path, problems: Problems, required: Sequence[str], columns: Columns = ()
) -> PairRows:
    """Rows of a table with a header that TABs separate; quotes have no meaning."""
    records = _tab_records(path, problems)
    return _table_rows(path, records, problems, required, columns)


def _tab_records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of each line that is not blank."""
    for number, line in reading.text_lines(path, problems):
        if line.strip():
            yield number, line.split("\t")


def _table_rows(
    path: Path,
    records: Iterable[tuple[int, list[str]]],
    problems: Problems,
    required: Sequence[str],
    columns: Columns,
) -> PairRows:
    records = iter(records)

    def names_of(number: int, header: list[str]) -> tuple[str, ...]:
        names = _spelled(tuple(header), columns)
        row = PairFields(path.name, number, dict.fromkeys(names, ""), columns)
        if row.missing(required):  # labels recur below the first line, names of columns do not
            for _, cells in itertools.islice(records, SEEN):
                row.has_names &= all(
                    name != cell for name, cell in zip(header, cells, strict=False)
                )
        row.check(required)
        return names

    for number, values in reading.table_rows(
        path.name, records, problems, names_of, spare=SPARE.pattern
    ):
        yield number, PairFields(path.name, number, values, columns)


def column_rows(
    path: Path, problems: Problems, required: Sequence[str], columns: Columns = ()
) -> PairRows:
    """Rows of a Parquet file, or of an Arrow file as save_to_disk writes it; numbers count from
    1. Columns that are no fields of a pair are not read."""

    def names_of(columns_of_file: tuple[str, ...]) -> list[str]:
        names = _spelled(columns_of_file, columns)
        PairFields(path.name, None, dict.fromkeys(names, ""), columns).check(required)
        return [name if name in FIELDS else "" for name in names]

    try:
        for number, values in reading.column_records(path, names_of, is_text=lambda name: True):
            yield number, PairFields(path.name, number, values, columns)
    except DataError as error:
        problems.add(error)


ENDINGS: dict[str, ReadRows] = {
    ".jsonl": json_rows,
    ".txt": tab_rows,
    ".tsv": tab_rows,
    ".csv": csv_rows,
    ".parquet": column_rows,
    ".arrow": column_rows,
}


class PairFile(NamedTuple):
    """The existing files of a split. stem: its name without endings."""

    paths: tuple[Path, ...]
    stem: str
    read_rows: ReadRows

    @property
    def name(self) -> str:
        """The name of the file, or of the first of several."""
        return self.paths[0].name

    def rows(self, problems: Problems, required: Sequence[str], columns: Columns = ()) -> PairRows:
        """The rows of all files; numbers go on from one to the next."""
        before, kind_of_first = 0, ""
        for path in self.paths:
            number = 0
            for number, row in self.read_rows(path, problems, required, columns):
                if number == 1:
                    kind = row.kind_of_label()
                    kind_of_first = kind_of_first or kind
                    if kind and kind != kind_of_first:
                        problem = f"its labels are {kind}, and {kind_of_first} in {self.name}"
                        raise DataError(problem, file=path.name, fix="write all parts alike")
                yield before + number, row
            before += number


def pair_file(path: Path) -> PairFile:
    """The files of a split: the file of this name, plain or gzipped, whether or not `path` ends in
    .gz; all parts of a split on the Hub; the parts in a folder."""
    if path.is_dir():
        return PairFile(_parts_in(path), path.name.removesuffix(".parquet"), column_rows)
    if shard := HUB_PART.fullmatch(path.name):
        shards = parts_of(path.parent, shard["stem"])
        _check_complete(shards, HUB_PART)
        return PairFile(shards, shard["stem"], column_rows)
    path = either_name(path) or path
    name = Path(path.name.removesuffix(".gz"))
    if name.suffix not in ENDINGS:
        raise unread_format(path)
    return PairFile((path,), name.stem, ENDINGS[name.suffix])


def parts_of(folder: Path, stem: str) -> tuple[Path, ...]:
    """The parts of a split on the Hub."""
    paths = sorted(folder.glob(f"{stem}-?????-of-?????*.parquet"))
    return tuple(path for path in paths if HUB_PART.fullmatch(path.name))


def is_folder_of_parts(folder: Path) -> bool:
    """Whether a folder holds Arrow files of save_to_disk, or Parquet files."""
    return any(folder.glob("data-*.arrow")) or any(folder.glob("*.parquet"))


def _parts_in(folder: Path) -> tuple[Path, ...]:
    """The parts of a split in a folder of its own."""
    for pattern in (ARROW_PART, NUMBERED_PART, SPARK_PART):
        parts = tuple(path for path in sorted(folder.iterdir()) if pattern.fullmatch(path.name))
        others = [path for path in folder.glob("*.parquet") if path not in parts]
        if parts and others:
            problem = f"holds {parts[0].name} and {others[0].name}, parts of two kinds"
            raise DataError(problem, file=folder.name, fix="remove what does not belong there")
        if parts and pattern is not SPARK_PART:  # Spark leaves out empty parts
            _check_complete(parts, pattern)
        if parts:
            return parts
    problem = "holds no parts called 0000.parquet, part-00000-*.parquet or data-*-of-*.arrow"
    raise DataError(problem, file=folder.name, fix="rename its files, or write one file")


def _check_complete(parts: Sequence[Path], pattern: re.Pattern[str]) -> None:
    """Refuses parts of two versions of a split, and a split without all of its parts."""
    names = [pattern.fullmatch(path.name) for path in parts]
    numbers = [int(name["number"]) for name in names if name]
    counts = {int(name["count"]) for name in names if name and "count" in pattern.groupindex}
    if len(counts) > 1 or len(numbers) > len(set(numbers)):
        problem = f"{parts[0].name} and {parts[-1].name} are parts of two versions of the split"
        raise DataError(problem, file=parts[0].parent.name, fix="remove the older files")
    count = counts.pop() if counts else numbers[-1] + 1
    missing = sorted(set(range(count)) - set(numbers))
    if missing:
        problem = f"{len(parts)} of {count} parts are there; part {missing[0]:05d} is missing"
        raise DataError(problem, file=parts[0].name, fix="put all parts into one folder")


def unread_format(path: Path) -> DataError:
    """The error of a file whose ending names no format."""
    ending = Path(path.name.removesuffix(".gz")).suffix
    fix = "save it as .csv, .tsv, .jsonl or .parquet"
    return DataError(f"'{ending}' is not a format that is read", file=path.name, fix=fix)
