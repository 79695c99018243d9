"""Reads files of sentence pairs, plain or gzipped: JSON lines, CSV, and tables separated by TABs.

nli/corpora.py lists the corpora. Errors name the file, the line and the field; they never quote a
sentence.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from mednli_jax import demo, files
from mednli_jax.data.examples import LABELS, Facts, NLIExample, Split
from mednli_jax.data.text import binary_parse_tokens, treebank_tokens
from mednli_jax.errors import DataError, Problems
from mednli_jax.files import FRESH_COPY, character_fault, either_name, empty_file, sha256
from mednli_jax.nli.corpora import (
    OWN,
    check_options,
    find_files,
    ground_truth_path,
)
from mednli_jax.plugins import imported

UNLABELLED = "-"  # the annotators reached no majority
NO_TEST = "The folder has no test file, so that only dev is scored."
# A file of the user may name the fields in plain words.
PLAIN_NAMES = {
    "sentence1": "premise",
    "sentence2": "hypothesis",
    "gold_label": "label",
    "pairID": "uid",
}
REQUIRED = ("gold_label", "sentence1", "sentence2")
PARSES = ("sentence1_binary_parse", "sentence2_binary_parse")
FIELDS = (*PLAIN_NAMES, *PLAIN_NAMES.values(), *PARSES, "captionID", "promptID", "genre")
SPELLINGS = {name.casefold(): name for name in FIELDS}
NAMES_OF_COLUMNS = (
    "name the fields label, premise and hypothesis, or as SNLI does; a table begins with these "
    "names, separated by commas in .csv, else by TABs"
)


# ---- rows of files ----


class PairFields:
    """The named fields of one pair; a bad field is a DataError, which does not quote it."""

    def __init__(self, file: str, number: int, values: Mapping[str, Any]) -> None:
        self.file, self.number, self.values = file, number, values

    def fault(self, problem: str, name: str, fix: str = FRESH_COPY) -> DataError:
        name = self._shown(name)
        problem = f"field '{name}' {problem}"
        return DataError(problem, file=self.file, line=self.number, field=name, fix=fix)

    def _shown(self, name: str) -> str:
        """The field's name in plain words, unless the row names fields as SNLI does."""
        official = not self.values.keys().isdisjoint(REQUIRED)
        return name if official else PLAIN_NAMES.get(name, name)

    def check(self, required: Sequence[str]) -> None:
        """Refuses a row without one of the required fields."""
        names = self.values.keys()
        missing = [name for name in required if names.isdisjoint({name, PLAIN_NAMES.get(name)})]
        if not missing:
            return
        shown = [self._shown(name) for name in missing]
        fields = f"field '{shown[0]}' is" if len(shown) == 1 else f"fields {', '.join(shown)} are"
        problem = f"{fields} missing; found: {self._present(len(missing) < len(required))}"
        fix = NAMES_OF_COLUMNS if "sentence1" in required else "name the fields uid and label"
        raise DataError(problem, file=self.file, line=self.number, field=shown[0], fix=fix)

    def _present(self, has_a_header: bool) -> str:
        """The names of the fields. The first line of a table without a header is a pair, which no
        message may quote."""
        names = list(map(str, self.values))
        are_names = all(re.fullmatch(r"\w{1,30}", name, re.ASCII) for name in names)
        if are_names and (has_a_header or ".json" in self.file):
            return ", ".join(names)
        return f"{len(names)} other fields"

    def text(self, name: str, optional: bool = False) -> str:
        """The field as a string of Unicode text; "" where it is optional and missing or null."""
        value, plain = self.values.get(name), self.values.get(PLAIN_NAMES.get(name, ""))
        if value is None:
            value = plain
        elif plain is not None and not _equal(name, value, plain):
            raise self.fault(f"and field '{PLAIN_NAMES[name]}' differ", name, files.KEEP_ONE)
        if value is None and optional:
            return ""
        if name == "gold_label" and isinstance(value, int):
            return str(value)
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
ReadRows = Callable[[Path, Problems, Sequence[str]], PairRows]


@cache
def _spelled(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of fields as this module spells them; case is ignored."""
    return tuple(SPELLINGS.get(name.casefold(), name) for name in names)


def json_rows(path: Path, problems: Problems, required: Sequence[str] = ()) -> PairRows:
    """Rows of JSON lines: one object with named fields a line."""
    for number, fields in files.json_lines(path, problems):
        names = _spelled(tuple(fields))
        values = files.json_object(list(zip(names, fields.values(), strict=True)))
        if isinstance(values, files.RepeatedField):
            problem = f"the line {values.problem}, case ignored"
            problems.add(files.line_fault(path.name, number, problem, files.KEEP_ONE))
        else:
            yield number, PairFields(path.name, number, values)


def csv_rows(path: Path, problems: Problems, required: Sequence[str]) -> PairRows:
    """Rows of a CSV table (RFC 4180) with a header."""
    return _table_rows(path, files.csv_records(path, problems), problems, required)


def tab_rows(path: Path, problems: Problems, required: Sequence[str]) -> PairRows:
    """Rows of a table with a header that TABs separate; quotes have no meaning."""
    lines = files.text_lines(path, problems)
    records = ((number, line.split("\t")) for number, line in lines if line.strip(" "))
    return _table_rows(path, records, problems, required)


def _table_rows(
    path: Path,
    records: Iterable[tuple[int, list[str]]],
    problems: Problems,
    required: Sequence[str],
) -> PairRows:
    def columns(number: int, header: list[str]) -> tuple[str, ...]:
        names = _spelled(tuple(header))
        PairFields(path.name, number, dict.fromkeys(names, "")).check(required)
        return names

    # A pair with fewer than five annotators may end before the columns label2 ... label5.
    for number, values in files.table_rows(path.name, records, problems, columns, spare=r"label\d"):
        yield number, PairFields(path.name, number, values)


ENDINGS: dict[str, ReadRows] = {
    ".jsonl": json_rows,
    ".txt": tab_rows,
    ".tsv": tab_rows,
    ".csv": csv_rows,
}


class PairFile(NamedTuple):
    """An existing file of pairs. stem: its name without endings."""

    path: Path
    stem: str
    read_rows: ReadRows


def _pair_file(path: Path) -> PairFile:
    """The file of this name, plain or gzipped, whether or not `path` ends in .gz."""
    path = either_name(path) or path
    name = Path(path.name.removesuffix(".gz"))
    if name.suffix not in ENDINGS:
        fix = f"use one of {', '.join(ENDINGS)}"
        raise DataError("the ending names no format", file=path.name, fix=fix)
    return PairFile(path, name.stem, ENDINGS[name.suffix])


# ---- labels ----


def _label_parts(labels: str) -> Iterator[tuple[str, str]]:
    """(label of a file, its class) of each part of config.data.labels, in lower case."""
    for part in (labels or ",".join(LABELS)).casefold().split(","):
        label, _, name = part.rpartition(":")
        yield label.strip() or name.strip(), name.strip()


def class_of_label(labels: str) -> dict[str, str]:
    """A label of a file, in lower case -> one of LABELS or UNLABELLED, from
    "yes:entailment,no:contradiction"."""
    return {UNLABELLED: UNLABELLED, **dict(_label_parts(labels))}


def repeated_labels(labels: str) -> list[str]:
    """The labels of a file that config.data.labels gives more than one class."""
    counts = Counter(label for label, _ in _label_parts(labels))
    return [label for label, count in counts.items() if count > 1]


def _ground_truth(path: Path) -> dict[str, str]:
    """Labels by pairID from a CSV file of two columns, as MEDIQA-NLI comes; its first line may be a
    header."""
    labels: dict[str, str] = {}
    problems = Problems()
    for number, cells in files.csv_records(path, problems):
        uid, label, *_ = [*map(str.strip, cells), "", ""]
        if label in LABELS and uid not in labels:
            labels[uid] = label
        elif number > 1:
            problem = "is no pairID with a label, or has one that an earlier line has"
            problems.add(files.line_fault(path.name, number, problem))
    problems.raise_if_any()
    return labels


# ---- pairs ----


@dataclass
class _PairReader:
    """Turns the rows of one file into examples, and counts them.

    Args:
      stem: the file's name without endings.
      genre: whose rows are kept; "" for all.
      truth: pairID -> label, in place of the file's labels; empty where the file has labels.
      classes: see class_of_label.
      lines: pairID -> the line of its pair.
      quoted: the line of each quoted cell of a table that TABs separate.
      parsed: pairs whose tokens come from binary parses.
    """

    stem: str
    genre: str
    truth: Mapping[str, str]
    classes: Mapping[str, str]
    examples: list[NLIExample] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    quoted: list[int] = field(default_factory=list)
    rows: int = 0
    unlabelled: int = 0
    other_genres: int = 0
    parsed: int = 0

    def add(self, number: int, row: PairFields) -> None:
        row.check(("pairID", *REQUIRED[1:]) if self.truth else REQUIRED)
        genre = row.text("genre", optional=True)
        if self.genre and not genre:
            raise row.fault("is missing", "genre", "use MultiNLI's own file, which names the genre")
        if self.genre and genre != self.genre:
            self.other_genres += 1
            return
        uid = row.text("pairID", optional=not self.truth) or f"{self.stem}:{number}"
        if uid in self.lines:
            raise row.fault(f"repeats that of line {self.lines[uid]}", "pairID")
        self.lines[uid] = number
        label = self._label(row, uid)
        if label == UNLABELLED:
            self.unlabelled += 1
            return
        premise, hypothesis = row.sentence("sentence1"), row.sentence("sentence2")
        tokens = self._tokens(row, premise, hypothesis)
        group = row.text("captionID", optional=True) or row.text("promptID", optional=True)
        group = group or hashlib.sha256(premise.encode()).hexdigest()[:16]
        tags = (genre,) if genre else ()
        self.examples.append(
            NLIExample(uid, premise, hypothesis, label, *tokens, group=group, tags=tags)
        )

    def _label(self, row: PairFields, uid: str) -> str:
        """One of LABELS, or UNLABELLED."""
        if self.truth and uid not in self.truth:
            fix = "take both files from the same release"
            raise row.fault("has no label in the ground truth", "pairID", fix)
        label = self.truth[uid] if self.truth else row.text("gold_label")
        name = self.classes.get(label.strip().casefold())
        if name is None:
            example = "yes:entailment,no:contradiction"
            if label.isdigit():
                example = "0:entailment,1:neutral,2:contradiction"
            own = f"for files of your own, give e.g. --config.data.labels={example}"
            expected = ", ".join(label for label in self.classes if label != UNLABELLED)
            problem = f"is none of {expected}, {UNLABELLED}"
            raise row.fault(problem, "gold_label", f"correct the label, or, {own}")
        return name

    def _tokens(
        self, row: PairFields, premise: str, hypothesis: str
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        parses = [row.text(name, optional=True) for name in PARSES]
        if all(map(str.strip, parses)):
            self.parsed += 1
            return binary_parse_tokens(parses[0]), binary_parse_tokens(parses[1])
        return treebank_tokens(premise), treebank_tokens(hypothesis)

    def facts(self) -> Facts:
        """Counts for the manifest."""
        labels = {label: 0 for label in LABELS if label in self.classes.values()}
        for example in self.examples:
            labels[example.label] += 1
        facts: Facts = {
            "rows": self.rows,
            "kept": len(self.examples),
            "dropped_unlabelled": self.unlabelled,
            "tokens": {
                "binary parse": self.parsed,
                "treebank": len(self.examples) - self.parsed,
            },
            "labels": labels,
        }
        if self.quoted:
            facts["quoted_cells"] = {"first_line": self.quoted[0], "cells": len(self.quoted)}
        if self.genre:
            facts |= {"genre": self.genre, "other_genres": self.other_genres}
        return facts


def read_nli_file(
    path: Path,
    *,
    split: str,
    limit: int | None = None,
    genre: str = "",
    ground_truth: Path | None = None,
    labels: str = "",
) -> Split[NLIExample]:
    """Reads one file, plain or gzipped, whether or not `path` ends in .gz. The ending tells the
    format (ENDINGS).

    Fields: gold_label sentence1 sentence2 (or label premise hypothesis). Optional fields: pairID
    (or uid), captionID or promptID, genre, sentence1_binary_parse and sentence2_binary_parse. The
    case of names and labels is ignored. Pairs labelled `-` are dropped and counted.

    The uid of an example is the pairID, else "<file stem>:<line>". Its group is the captionID or
    promptID, else a hash of the premise. Its tokens come from the two binary parses, else from
    text.treebank_tokens.

    Args:
      limit: number of labelled pairs; later lines are not read.
      genre: pairs of other genres are left out.
      ground_truth: a CSV file of pairID and label, whose labels replace those of `path`.
      labels: see class_of_label.
    """
    path, stem, read_rows = _pair_file(Path(path))
    truth = _ground_truth(ground_truth) if ground_truth else {}
    reader, problems = _PairReader(stem, genre, truth, class_of_label(labels)), Problems()
    for number, row in read_rows(path, problems, REQUIRED):
        reader.rows += 1
        if read_rows is tab_rows:
            quoted_cells_of_row = filter(files.is_quoted_cell, row.values.values())
            reader.quoted += [number for _ in quoted_cells_of_row]
        try:
            reader.add(number, row)
        except DataError as error:
            problems.add(error)
        if limit is not None and len(reader.examples) == limit:
            break
    problems.raise_if_any()
    if not reader.examples:
        of_genre = f" of genre '{genre}'" if genre else ""
        raise empty_file(path, f"no labelled pair{of_genre}")
    facts = {"file": path.name, "sha256": sha256(path), **reader.facts()}
    if ground_truth:
        facts["read_with"] = {ground_truth.name: sha256(ground_truth)}
    return Split(split, tuple(reader.examples), facts)


def read_answers(path: Path, uids: Sequence[str], labels: str = "") -> list[str]:
    """The label, one of LABELS, that a system gave to each pair of a split, in the order of the
    pairs' uids.

    Fields: pairID (or uid), and gold_label (or label), or `predicted`, which `predict --output`
    writes. Other fields are ignored. labels: see class_of_label.
    """
    path, _, read_rows = _pair_file(path)
    answers, problems = dict.fromkeys(uids, ""), Problems()
    classes = class_of_label(labels)
    for _, row in read_rows(path, problems, ("pairID",)):
        name = "predicted" if "predicted" in row.values else "gold_label"
        try:
            row.check(("pairID", name))
            uid, label = row.text("pairID"), row.text(name).strip().casefold()
            if answers.get(uid) != "":
                problem = "is that of an earlier row, or of no labelled pair of the split"
                raise row.fault(problem, "pairID", "give each labelled pair of --split once")
            answers[uid] = classes.get(label, UNLABELLED)
            if answers[uid] == UNLABELLED:
                fix = "correct it, or give --config.data.labels"
                raise row.fault("is no label of the corpus", name, fix)
        except DataError as error:
            problems.add(error)
    problems.raise_if_any()
    answer_N = list(answers.values())
    if missing := answer_N.count(""):
        problem = f"{missing:,} of {len(answer_N):,} pairs of the split have no answer"
        raise DataError(problem, file=path.name, fix="answer all, or name another --split")
    return answer_N


# ---- corpora ----


def load_nli(
    name: str,
    folder: Path,
    *,
    limit: int | None = None,
    genre: str = "",
    needed: str = "",
    labels: str = "",
) -> dict[str, Split[NLIExample]]:
    """Splits of a corpus of CORPORA: train, dev, and test where its labels are public.

    Args:
      folder: the corpus's own folder, or the data folder that holds it under `name`.
      limit: of labelled pairs of train.
      genre: of MultiNLI's train and dev, "" for all.
      needed: see corpora.find_files.
      labels: of the user's own files, see class_of_label.
    """
    check_options(name, genre)
    paths = find_files(name, folder, needed)
    splits = {}
    for split, path in paths.items():
        splits[split] = read_nli_file(
            path,
            split=split,
            limit=limit if split == "train" else None,
            genre=genre,
            ground_truth=ground_truth_path(name, paths) if split == "test" else None,
            labels=labels,
        )
    if name == OWN and "dev" in splits and "test" not in splits:
        splits["dev"].facts["note"] = NO_TEST
    return check_disjoint(splits)


def load_demo(size: str = "demo") -> dict[str, Split[NLIExample]]:
    """The splits of the demo pairs: 3,000, 600 and 600, or for demo_full 11,232, 1,395 and 1,422.

    Pairs of one premise are kept together, in the order of LABELS. Only an is-a path of MeSH
    decides pairs with the tag `relation` (in train) or `unseen_relation` (in dev and test, where
    the two concepts are a new pair).
    """
    splits = {}
    for name, facts in demo.facts(size).items():
        split = read_nli_file(demo.FOLDER / size / f"{name}.jsonl.gz", split=name)
        splits[name] = replace(split, facts=facts)
    return splits


def from_plugin(name: str, folder: Path | None) -> dict[str, Split[NLIExample]]:
    """The splits that a function of the user reads.

    name: its import path. The function takes the data folder, None where none is set, and returns
    {"train": rows, "dev": rows, "test": rows}; a row is (premise, hypothesis, label), or an
    NLIExample.
    """
    returned = imported(name, "data.name")(folder)
    rows_of: dict[str, list[object]] = {}
    if isinstance(returned, Mapping):
        rows_of = {split: list(rows) for split, rows in returned.items()}
    if not (rows_of.get("train") and rows_of.get("dev")):
        fix = "return {'train': rows, 'dev': rows, ...}"
        raise DataError("gave no rows of train or of dev", file=name, fix=fix)
    splits: dict[str, Split[NLIExample]] = {}
    problems = Problems()
    for split, rows in rows_of.items():
        examples = []
        for number, row in enumerate(rows):
            try:
                examples.append(_plugin_example(row, f"{split}-{number}"))
            except DataError as error:
                place = f"{name}, {split}"
                problems.add(DataError(error.problem, file=place, line=number + 1, fix=error.fix))
        splits[split] = Split(split, tuple(examples))
    problems.raise_if_any()
    return check_disjoint(splits)


def _plugin_example(row: object, uid: str) -> NLIExample:
    """A row that a function of the user returned. uid: for a row that is not an NLIExample."""
    texts = (row.premise, row.hypothesis, row.label) if isinstance(row, NLIExample) else row
    if not isinstance(texts, Sequence) or len(texts) != 3 or not all(map(_is_text, texts)):
        fix = "give premise, hypothesis and label as strings that are not blank"
        raise DataError("has not three texts", fix=fix)
    premise, hypothesis, label = texts
    if label not in LABELS:
        raise DataError("has an unknown label", fix=f"give one of {', '.join(LABELS)}")
    if isinstance(row, NLIExample):
        return row
    tokens = treebank_tokens(premise), treebank_tokens(hypothesis)
    return NLIExample(uid, premise, hypothesis, label, *tokens)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def quoted_cells(facts: Mapping[str, Any]) -> Iterator[str]:
    """The warning of quoted cells in the file of a split. facts: of the split."""
    if counted := facts.get("quoted_cells"):
        yield files.quoted_cells(facts["file"], counted["first_line"], counted["cells"])


def check_disjoint(splits: dict[str, Split[NLIExample]]) -> dict[str, Split[NLIExample]]:
    """The same splits. Refuses a uid in two splits: the model would be tested on a training
    pair."""
    for earlier, later in combinations(splits.values(), 2):
        uids = {pair.uid for pair in later.examples}
        repeated = sum(pair.uid in uids for pair in earlier.examples)
        if repeated:
            places = f"in {earlier.name} as well as in {later.name} (same pairID)"
            problem = f"{repeated} pairs stand {places}"
            file = later.facts.get("file")
            raise DataError(problem, file=file, field="pairID", fix=FRESH_COPY)
    return splits


SharedCounts = dict[str, dict[str, dict[str, int]]]


def shared_texts(splits: Mapping[str, Split[NLIExample]]) -> SharedCounts:
    """{split: {earlier split: {"pairs", "premises"}}}: how many pairs of a split have the texts, or
    the premise, of an earlier one."""
    shared: SharedCounts = {}
    for earlier, later in combinations(splits.values(), 2):
        premises = {pair.premise for pair in earlier.examples}
        texts = {(pair.premise, pair.hypothesis) for pair in earlier.examples}
        counts = {"pairs": 0, "premises": 0}
        for pair in later.examples:
            counts["pairs"] += (pair.premise, pair.hypothesis) in texts
            counts["premises"] += pair.premise in premises
        shared.setdefault(later.name, {})[earlier.name] = counts
    return shared
