"""Rows of files of sentence pairs: JSON lines, CSV, tables separated by TABs, and Parquet, Arrow or
Feather files, plain or gzipped; the documents of NLI4CT (JSON) and of RQE (XML).

Errors name the file, the line and the field; they never quote a sentence.
"""

import hashlib
import itertools
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from mednli_jax.data.inputs import OPTIONAL_COLUMN
from mednli_jax.data.labels import UNLABELLED, SettingEntry, cell_text, setting_entries
from mednli_jax.errors import DataError, Problems
from mednli_jax.files import reading
from mednli_jax.files.reading import FRESH_COPY, character_fault, either_name
from mednli_jax.types import Json, JsonObject

FORMAT = 1  # of prepared data: raise it when rows of the user's own files get another meaning
# A file of the user may name the fields in plain words.
PLAIN_NAMES = {
    "sentence1": "premise",
    "sentence2": "hypothesis",
    "gold_label": "label",
    "pairID": "uid",
}
SENTENCES = ("sentence1", "sentence2")
REQUIRED = ("gold_label", *SENTENCES)
PARSES = ("sentence1_binary_parse", "sentence2_binary_parse")
FIELDS = (*PLAIN_NAMES, *PLAIN_NAMES.values(), *PARSES, "captionID", "promptID", "genre", "id")
SPELLINGS = {name.casefold(): name for name in FIELDS}
NUMBERED = ("gold_label", "pairID", "captionID", "promptID")  # fields that may be whole numbers
# The names of the shards of a split: all have the same `version`, and each its own `number`.
# Data sets on the Hub: train-00000-of-00002.parquet or train-00000-of-00002-4a5b6c.parquet.
# version: the number of shards.
HUB_SHARD = re.compile(
    r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<version>\d{5})(-[0-9a-f]+)?\.parquet"
)
# The branch into which the Hub converts data sets: 0000.parquet. version: always "".
NUMBERED_SHARD = re.compile(r"(?P<number>\d{4})\.parquet(?P<version>)")
# Spark: part-00000-8f1d-c000.snappy.parquet. version: the id of the job.
SPARK_SHARD = re.compile(r"part-(?P<number>\d{5})-(?P<version>[^._]+?)(-c\d+)?[._](.+\.)?parquet")
# save_to_disk of the datasets library: data-00000-of-00002.arrow. version: the number of shards.
ARROW_SHARD = re.compile(r"data-(?P<number>\d{5})-of-(?P<version>\d{5})\.arrow")
STATE = "state.json"  # of save_to_disk of the datasets library

Columns = tuple[SettingEntry, ...]  # (field, its column in files of the user), see columns_of


def columns_of(setting: str) -> Columns:
    """The columns that config.data.columns names: "premise:note,hypothesis:claim"."""
    return tuple(setting_entries(setting))


class PairFields:
    """The named fields of one pair. A bad field is a DataError, which does not quote it.

    Args:
      number: the line in the file, or `pair 7` in a file that is one document; None for the columns
        of a Parquet or Arrow file.
      values: field -> its value.
      columns: the user's names of columns.
      names: the names of the columns in the file, for messages; by default those of the fields.

    Attributes:
      header_place: text for messages, which says where a table names its columns.
      may_be_pair: the first line of a table may be a pair in place of names of columns, so that no
        message quotes its cells.
      tags: slices of the pair.
      original: the uid of the pair that this one changes.
    """

    def __init__(
        self,
        file: str,
        number: int | str | None,
        values: Mapping[str, Json],
        columns: Columns = (),
        names: Sequence[str] = (),
    ) -> None:
        self.file, self.number, self.values, self.columns = file, number, values, columns
        self.names = list(filter(None, names or values))
        self.header_place = ""
        self.may_be_pair = False
        self.tags: tuple[str, ...] = ()
        self.original = ""

    def fault(self, problem: str, name: str, fix: str = FRESH_COPY) -> DataError:
        """The error of a field."""
        name = self._field_title(name)
        problem = f"field '{name}' {problem}"
        return DataError(problem, file=self.file, line=self.number, field=name, fix=fix)

    def _field_title(self, name: str) -> str:
        """The name of a field for messages: the user's column if data.columns names one. Else the
        name of SNLI's form ("sentence1") in a file in that form, and a plain name ("premise") in
        others."""
        plain = PLAIN_NAMES.get(name, name)
        official = not self.values.keys().isdisjoint(REQUIRED)
        return dict(self.columns).get(plain, name if official else plain)

    def missing(self, required: Sequence[str]) -> list[str]:
        """The required fields that the row lacks."""
        present = self.values.keys()
        return [name for name in required if not {name, PLAIN_NAMES.get(name)} & present]

    def check(self, required: Sequence[str]) -> None:
        """Raises DataError for a row without one of the required fields."""
        missing = self.missing(required)
        if not missing:
            return
        shown = list(map(self._field_title, missing))
        fields = f"field '{shown[0]}' is" if len(shown) == 1 else f"fields {', '.join(shown)} are"
        problem = f"{fields} missing; found: {self._shown_names()}"
        fix = self._fix_for(missing) if "sentence1" in required else "name the fields uid and label"
        raise DataError(problem, file=self.file, line=self.number, field=shown[0], fix=fix)

    def _fix_for(self, missing: Sequence[str]) -> str:
        """How to name the missing fields of a pair."""
        named = [f"{plain}:COLUMN" for name, plain in PLAIN_NAMES.items() if name in missing]
        setting = f"config.data.columns={','.join(named)}"
        if self.columns:
            return f"correct {setting}"
        names = f"the columns premise, hypothesis and label{self.header_place}"
        return f"name {names}, or say which they are: {setting}"

    def _shown_names(self) -> str:
        """The names of the columns, for messages. Names that may be text of a pair are only
        counted."""
        if self.may_be_pair:
            return f"{len(self.names)} other fields"
        shown = self.names[:SHOWN]
        if not all(map(reading.is_name, self.names)):
            shown = [name for name in self.names if name.casefold() in SPELLINGS]
        others = len(self.names) - len(shown)
        return ", ".join([*shown, f"{others} more"] if others else shown)

    def text(self, name: str, optional: bool = False) -> str:
        """The field as a string of Unicode text; "" if it is optional and missing or null.

        A row may name a field as SNLI does ("sentence1"), in plain words ("premise"), or both ways
        with one value.
        """
        value, plain = self.values.get(name), self.values.get(PLAIN_NAMES.get(name, name))
        if value is None:
            value = plain
        elif plain is not None and not _equal(name, value, plain):
            raise self.fault(f"and field '{PLAIN_NAMES[name]}' differ", name, reading.KEEP_ONE)
        # NaN, which differs from itself, is an empty cell of a column of numbers in a Parquet file.
        if optional and (value is None or value != value):
            return ""
        if name in NUMBERED and isinstance(value, int | float | Decimal):
            value = cell_text(value)
        if not isinstance(value, str):
            raise self.fault(f"is a {type(value).__name__}, expected a string", name)
        if problem := character_fault(value):
            raise self.fault(problem, name)
        return value

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


@cache
def fields_of_columns(names: tuple[str, ...], columns: Columns) -> tuple[str, ...]:
    """The field of each column of a file, in the spelling of FIELDS; case is ignored.

    A column that is no field keeps its name. A column gets "" (is ignored) if config.data.columns
    names another column for its field. The column `id` is the uid of a file without another one.
    """
    chosen_field = {column.casefold(): field for field, column in columns}
    fields = []
    for name in names:
        folded = name.casefold()
        if folded in chosen_field:
            fields.append(chosen_field[folded])
            continue
        field = SPELLINGS.get(folded, name)
        is_replaced = PLAIN_NAMES.get(field, field) in chosen_field.values()
        fields.append("" if is_replaced else field)
    has_uid = not {"uid", "pairID"}.isdisjoint((*fields, *chosen_field.values()))
    return tuple("uid" if field == "id" and not has_uid else field for field in fields)


SHOWN = 20  # names of fields in a message
SEEN = 1000  # lines that are compared with a first line that names no field


def json_rows(
    path: Path, problems: Problems, required: Sequence[str] = (), columns: Columns = ()
) -> PairRows:
    """Reads rows of JSON lines: each line is an object with named fields."""
    for number, fields in reading.json_lines(path, problems):
        names = fields_of_columns(tuple(fields), columns)
        named = zip(names, fields.values(), strict=True)
        values = reading.json_object([(name, value) for name, value in named if name])
        if isinstance(values, reading.RepeatedField):
            problem = f"the line {values.problem}, case ignored"
            problems.add(reading.line_fault(path.name, number, problem, reading.KEEP_ONE))
        else:
            yield number, PairFields(path.name, number, values, columns, tuple(fields))


def csv_rows(
    path: Path, problems: Problems, required: Sequence[str], columns: Columns = ()
) -> PairRows:
    """Reads rows of a CSV table (RFC 4180) with a header."""
    records = reading.csv_records(path, problems)
    return _table_rows(path, records, "commas", problems, required, columns)


def tab_rows(
    path: Path, problems: Problems, required: Sequence[str], columns: Columns = ()
) -> PairRows:
    """Reads rows of a table with a header, whose cells TABs separate; quotes have no meaning."""
    records = _tab_records(path, problems)
    return _table_rows(path, records, "TABs", problems, required, columns)


def _tab_records(path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, cells) of each line that is not blank."""
    for number, line in reading.text_lines(path, problems):
        if line.strip():
            yield number, line.split("\t")


def _table_rows(
    path: Path,
    records: Iterable[tuple[int, list[str]]],
    separator: str,
    problems: Problems,
    required: Sequence[str],
    columns: Columns,
) -> PairRows:
    """Rows of a table. records: (line number, cells), the header first."""
    records = iter(records)

    def names_of(number: int, header: list[str]) -> tuple[str, ...]:
        names = fields_of_columns(tuple(header), columns)
        row = PairFields(path.name, number, dict.fromkeys(names, ""), columns, header)
        row.header_place = f" in the first line, with {separator} between"
        if len(row.missing(required)) == len(required):
            # No required field is named, so that row.check below raises, and the records that are
            # read here need not be kept. They are read for its message: is the first line a pair?
            # Cells of a pair, such as the label, recur in later lines; names of columns do not.
            for _, cells in itertools.islice(records, SEEN):
                row.may_be_pair |= any(map(operator.eq, header, cells))
        row.check(required)
        return names

    # Lines of SNLI may lack the cells of label2 ... label5 at their end.
    for number, values in reading.table_rows(
        path.name, records, problems, names_of, spare=OPTIONAL_COLUMN.pattern
    ):
        yield number, PairFields(path.name, number, values, columns)


def column_rows(
    path: Path, problems: Problems, required: Sequence[str], columns: Columns = ()
) -> PairRows:
    """Reads rows of a Parquet, Arrow or Feather file; numbers count from 1. Columns that are no
    fields of a pair are not read."""

    def names_of(columns_of_file: Sequence[str]) -> list[str]:
        names = fields_of_columns(tuple(columns_of_file), columns)
        row = PairFields(path.name, None, dict.fromkeys(names, ""), columns, columns_of_file)
        row.check(required)
        return [name if name in FIELDS else "" for name in names]

    try:
        for number, values in reading.column_records(path, names_of, SPELLINGS):
            yield number, PairFields(path.name, number, values, columns)
    except DataError as error:
        problems.add(error)


ENDINGS: dict[str, ReadRows] = {
    ".jsonl": json_rows,
    ".txt": tab_rows,
    ".tsv": tab_rows,
    ".csv": csv_rows,
    **dict.fromkeys(reading.COLUMNAR, column_rows),
}


TRIALS = "CT json"  # the folder of clinical trials beside the statements of NLI4CT
SECTIONS = ("Intervention", "Eligibility", "Results", "Adverse Events")
EVIDENCE = (SettingEntry("premise", "evidence"),)
NO_CHANGE = ["", ""]  # the Causal_type of a statement that changes no other one


def nli4ct_rows(
    path: Path, problems: Problems, required: Sequence[str] = (), columns: Columns = ()
) -> PairRows:
    """Reads rows of NLI4CT (Jullien et al. 2023): a JSON object uid -> statement about one section
    of one or two clinical trials, which lie in TRIALS.

    The premise is this section of the primary trial, then of the secondary one. A changed statement
    of 2024 names the uid of its original.

    columns: with EVIDENCE, the premise has the annotated lines of the section alone.
    """
    statements = _json_document(path)
    originals = {*statements, ""}
    for number, (uid, values) in enumerate(statements.items(), 1):
        row = PairFields(path.name, f"pair {number}", values if isinstance(values, dict) else {})
        try:
            premise = _premise(row, path.with_name(TRIALS), is_evidence=columns == EVIDENCE)
            change = row.values.get("Causal_type", NO_CHANGE)
            is_change = isinstance(change, list) and len(change) == 2
            if not is_change or str(change[1]) not in originals:
                raise row.fault("names no statement of the file", "Causal_type")
            row.original = change[1]
            tags = row.text("Type"), row.text("Section_id"), row.text("Intervention", optional=True)
            row.tags = tuple(filter(None, (change[0], *tags)))
        except DataError as error:
            problems.add(error)
            continue
        row.values = {
            "pairID": uid,
            "sentence1": premise,
            "sentence2": row.values.get("Statement"),
            "gold_label": row.values.get("Label"),
        }
        yield number, row


def _json_document(path: Path) -> JsonObject:
    """Reads a file that is one JSON object."""
    with reading.open_text(path) as stream:
        text = reading.json_text(stream.read())
    try:
        document = json.loads(text, object_pairs_hook=reading.json_object)
    except ValueError:  # Python's message can quote the text
        document = None
    if isinstance(document, reading.RepeatedField):
        raise DataError(document.problem, file=path.name, fix=reading.KEEP_ONE)
    if not isinstance(document, dict):
        raise DataError("is not a JSON object", file=path.name, fix=FRESH_COPY)
    return document


def _premise(row: PairFields, trials: Path, *, is_evidence: bool) -> str:
    """The text of a statement's section of its trials. trials: the folder of the trials."""
    primary = _section_text(row, trials, "Primary", is_evidence)
    if row.text("Type") != "Comparison":
        return primary
    secondary = _section_text(row, trials, "Secondary", is_evidence)
    return f"Primary trial: {primary} Secondary trial: {secondary}"


def _section_text(row: PairFields, trials: Path, side: str, is_evidence: bool) -> str:
    """The section of the "Primary" or "Secondary" trial (`side`). is_evidence: only its annotated
    lines."""
    file = trials / f"{row.text(f'{side}_id')}.json"
    if not file.is_file():
        problem = f"names a trial that is not in the folder '{TRIALS}' beside {row.file}"
        raise row.fault(problem, f"{side}_id", "unzip the whole archive there")
    section = row.text("Section_id")
    if section not in SECTIONS:
        raise row.fault(f"is none of {', '.join(SECTIONS)}", "Section_id")
    field = f"{side}_evidence_index" if is_evidence else "Section_id"
    try:
        lines = _json_document(file)[section]
        if is_evidence:
            lines = [lines[place] for place in sorted(set(row.values[field]))]
        return " ".join(" ".join(lines).split())
    except (LookupError, TypeError):
        problem = f"is missing, or names no lines of {file.name}"
        fix = "take files with evidence, or leave out config.data.evidence"
        raise row.fault(problem, field, fix if is_evidence else FRESH_COPY) from None


def rqe_rows(
    path: Path,
    problems: Problems,
    required: Sequence[str] = (),
    columns: Columns = (),
    *,
    is_dev: bool | None = None,
) -> PairRows:
    """Reads rows of RQE (Ben Abacha & Demner-Fushman 2016): an XML document of pairs of questions,
    `chq` and `faq`. A pair without one of the questions is unlabelled.

    is_dev: for the file of train and dev. The digest of a chq puts all its pairs into one of the
      two, about 10 % into dev. None: all pairs are read.
    """
    try:
        with reading.open_text(path) as stream:
            document = ElementTree.fromstring(stream.read().replace(reading.MARK, ""))
    except ElementTree.ParseError as error:
        raise reading.line_fault(path.name, error.position[0], "is not valid XML") from None
    for number, pair in enumerate(document.iter("pair"), 1):
        questions = [" ".join(pair.findtext(name, "").split()) for name in ("chq", "faq")]
        digest = hashlib.sha256(questions[0].encode()).digest()
        if is_dev is not None and is_dev != (digest[0] * 10 < 256):
            continue
        label = pair.get("value") if all(questions) else UNLABELLED
        values = dict(zip(REQUIRED, (label, *questions), strict=True))
        yield number, PairFields(path.name, f"pair {number}", values)


class PairFile(NamedTuple):
    """The existing files of a split. stem: the name without endings."""

    paths: tuple[Path, ...]
    stem: str
    read_rows: ReadRows

    @property
    def name(self) -> str:
        """The name of the file, or of the first of several."""
        return self.paths[0].name

    def rows(self, problems: Problems, required: Sequence[str], columns: Columns = ()) -> PairRows:
        """Reads the rows of all files, with their numbers, which go on from one file to the
        next."""
        before = 0
        for path in self.paths:
            number = 0
            for number, row in self.read_rows(path, problems, required, columns):
                yield before + number, row
            before += number


def pair_file(path: Path) -> PairFile:
    """Finds the files of the split that `path` names.

    path: a file, of which the plain and the gzipped form are tried; a shard of a split on the Hub,
    for all shards; or a folder, for the shards in it.
    """
    if path.is_dir():
        return PairFile(_shards_in(path), path.name.removesuffix(".parquet"), column_rows)
    if shard := HUB_SHARD.fullmatch(path.name):
        shards = hub_shards(path.parent, shard["stem"])
        _check_complete(shards, HUB_SHARD)
        return PairFile(shards, shard["stem"], column_rows)
    path = either_name(path) or path
    name = Path(path.name.removesuffix(".gz"))
    if name.suffix not in ENDINGS:
        raise unread_format(path)
    return PairFile((path,), name.stem, ENDINGS[name.suffix])


def hub_shards(folder: Path, stem: str) -> tuple[Path, ...]:
    """The shards of a split on the Hub."""
    paths = sorted(folder.glob(f"{stem}-?????-of-?????*.parquet"))
    return tuple(path for path in paths if HUB_SHARD.fullmatch(path.name))


def is_folder_of_shards(folder: Path) -> bool:
    """Whether a folder holds Arrow or Parquet files."""
    return any(folder.glob("*.arrow")) or any(folder.glob("*.parquet"))


def _shards_in(folder: Path) -> tuple[Path, ...]:
    """The shards of a split in a folder of its own."""
    if (folder / STATE).is_file():
        return _saved_files(folder)
    for pattern in (ARROW_SHARD, NUMBERED_SHARD, SPARK_SHARD):
        shards = tuple(path for path in sorted(folder.iterdir()) if pattern.fullmatch(path.name))
        others = [path for path in folder.glob("*.parquet") if path not in shards]
        if shards and others:
            problem = f"holds {shards[0].name} and {others[0].name}, shards of two kinds"
            raise DataError(problem, file=folder.name, fix="remove what does not belong there")
        if shards:
            _check_complete(shards, pattern)
            return shards
    problem = "holds no shards called 0000.parquet, part-00000-*.parquet or data-*-of-*.arrow"
    raise DataError(problem, file=folder.name, fix="rename its files, or write one file")


def _saved_files(folder: Path) -> tuple[Path, ...]:
    """The files that save_to_disk lists."""
    try:
        state = json.loads((folder / STATE).read_bytes())
        names = [data_file["filename"] for data_file in state["_data_files"]]
    except (ValueError, LookupError, TypeError):
        raise DataError("lists no files", file=f"{folder.name}/{STATE}", fix=FRESH_COPY) from None
    if state.get("_indices_data_files"):
        problem = "selects rows by a file of indices, which is not read"
        fix = "call flatten_indices() before save_to_disk"
        raise DataError(problem, file=f"{folder.name}/{STATE}", fix=fix)
    paths = tuple(folder / name for name in names)
    for path in paths:
        reading.check_readable(path, f"put all files that {STATE} names into its folder")
    return paths


def _check_complete(shards: Sequence[Path], pattern: re.Pattern[str]) -> None:
    """Raises DataError for shards of two versions of a split, and for a split without all of its
    shards."""
    numbers: list[int] = []
    versions: set[str] = set()
    for name in filter(None, map(pattern.fullmatch, [path.name for path in shards])):
        numbers.append(int(name["number"]))
        versions.add(name["version"])
    if len(versions) == 1 and pattern is SPARK_SHARD:
        return  # Spark omits empty shards, and writes several files (c000, c001) of a large one
    if len(versions) > 1 or len(numbers) > len(set(numbers)):
        problem = f"{shards[0].name} and {shards[-1].name} are shards of two versions of the split"
        raise DataError(problem, file=shards[0].parent.name, fix="remove the older files")
    # The version is the number of shards, or "" (NUMBERED_SHARD), where the last shard tells it.
    count = int(versions.pop() or numbers[-1] + 1)
    missing = sorted(set(range(count)) - set(numbers))
    if missing:
        problem = f"{len(shards)} of {count} shards are there; shard {missing[0]:05d} is missing"
        raise DataError(problem, file=shards[0].name, fix="put all shards into one folder")


def unread_format(path: Path) -> DataError:
    """The error for a file whose ending names no format."""
    ending = Path(path.name.removesuffix(".gz")).suffix
    fix = "save it as .csv, .tsv, .jsonl or .parquet"
    return DataError(f"'{ending}' is not a format that is read", file=path.name, fix=fix)
