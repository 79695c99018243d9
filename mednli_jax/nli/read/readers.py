"""Reads files of sentence pairs into examples.

corpora.py lists the corpora, pair_rows.py has the formats. Errors name the file, the line
and the field; they never quote a sentence.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from mednli_jax import demo
from mednli_jax.data.examples import LABELS, NLIExample, Split
from mednli_jax.data.labels import (
    LONGEST_LABEL,
    MOST_LABELS,
    NLI_LABELS,
    UNLABELLED,
    Labels,
    appearance,
    cell_text,
    code_points,
)
from mednli_jax.data.text import binary_parse_tokens, treebank_tokens
from mednli_jax.errors import DataError, Problems
from mednli_jax.files import reading
from mednli_jax.files.reading import FRESH_COPY, empty_file
from mednli_jax.files.writing import sha256
from mednli_jax.nli.read.corpora import (
    CORPORA,
    OWN,
    check_options,
    find_files,
    ground_truth_path,
)
from mednli_jax.nli.read.pair_rows import (
    PARSES,
    REQUIRED,
    SENTENCES,
    Columns,
    PairFields,
    PairFile,
    ReadRows,
    pair_file,
    tab_rows,
)
from mednli_jax.plugins import import_object
from mednli_jax.types import Json, JsonObject

NO_TEST = "The folder has no test file, so that only dev is scored."
NO_TEST_LABELS = "The test file has no labels, so that only dev is scored."
MOST_UNLABELLED = 0.05  # of the pairs of a user's file
NAMED = 12  # most labels that an error lists
OWN_IDS = "give each pair one of its own, or none: config.data.columns=uid:-"


# ---- labels ----


def labels_of_file(setting: str, path: Path, columns: Columns) -> Labels:
    """Reads the labels of a training file, for a data.labels (`setting`) that names none.

    Faulty rows are skipped here; read_nli_file reports them.
    """
    labels, problems = Labels.of(setting), Problems()
    file, in_file = pair_file(path), dict[str, int]()  # label -> its first line
    column = "is this their column? config.data.columns=label:COLUMN"
    for number, row in file.rows(problems, REQUIRED, columns):
        try:
            label = cell_text(row.text("gold_label", optional=True))
        except DataError:
            continue
        if re.search(r"[\0-\x1f\x7f-\x9f]", label):
            raise row.fault("holds a control character", "gold_label")
        if len(label) > LONGEST_LABEL:
            problem = f"has {len(label)} characters, more than a label has"
            raise row.fault(problem, "gold_label", column)
        in_file.setdefault(label, number)
    _check_appearance(file.name, in_file)
    labels = labels.with_training_labels(in_file)
    count = len(labels.names)
    if count == 1 and labels.names[0] in LABELS:
        # One of LABELS alone, e.g. only entailment: the file is an excerpt of an NLI corpus.
        return labels.with_training_labels(LABELS)
    if count == 1 or count > MOST_LABELS:
        # Faulty rows may be the reason for too few or too many labels.
        problems.raise_if_any()
        problem = (
            f"the pairs have {count:,} label{'s' * (count > 1)}, and 2 to {MOST_LABELS} are read"
        )
        raise DataError(problem, file=file.name, fix=column)
    return labels


def _check_appearance(file: str, line_of: Mapping[str, int]) -> None:
    """Raises DataError for two labels that look the same, but differ in characters (case aside).

    line_of: label -> the line of its first pair.
    """
    label_of: dict[str, str] = {}
    for label, line in line_of.items():
        twin = label_of.setdefault(appearance(label), label)
        if twin.casefold() == label.casefold():
            continue
        places = (
            f"line {line_of[twin]} ({code_points(twin)}) and line {line} ({code_points(label)})"
        )
        problem = f"the labels of {places} look equal and differ in characters"
        raise DataError(problem, file=file, fix="write the label in one way")


def _ground_truth(path: Path) -> dict[str, str]:
    """Reads labels by pairID from a CSV file of two columns, as MEDIQA-NLI comes; its first line
    may be a header."""
    labels: dict[str, str] = {}
    problems = Problems()
    for number, cells in reading.csv_records(path, problems):
        uid, label, *_ = [*map(str.strip, cells), "", ""]
        if label in LABELS and uid not in labels:
            labels[uid] = label
        elif number > 1:
            problem = "has no known label, or repeats the pairID of an earlier line"
            problems.add(reading.line_fault(path.name, number, problem))
    problems.raise_if_any()
    return labels


# ---- pairs ----


@dataclass
class _PairReader:
    """Turns the rows of one file into examples, and counts them.

    Args:
      stem: the file's name without endings.
      genre: rows of other genres are skipped; "" keeps all rows.
      truth: pairID -> label, in place of the file's labels; empty if the file's labels count.
      labels: the labels that a row may have.
      required: the fields that each row must have.

    Attributes:
      lines: pairID -> the line of its pair.
      quoted: the line of each quoted cell of a table that TABs separate.
      rows, unlabelled, other_genres: numbers of rows: all, without a label, and skipped.
      parsed: the number of pairs whose tokens come from binary parses.
    """

    stem: str
    genre: str
    truth: Mapping[str, str]
    labels: Labels
    required: Sequence[str]
    examples: list[NLIExample] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    quoted: list[int] = field(default_factory=list)
    rows: int = 0
    unlabelled: int = 0
    other_genres: int = 0
    parsed: int = 0

    def add(self, number: int, row: PairFields) -> None:
        """Adds the example of a row, or counts why there is none. number: the line of the row."""
        row.check(self.required)
        genre = row.text("genre", optional=True)
        if self.genre and not genre:
            raise row.fault("is missing", "genre", "use MultiNLI's own file, which names the genre")
        if self.genre and genre != self.genre:
            self.other_genres += 1
            return
        uid = row.text("pairID", optional=not self.truth) or f"{self.stem}:{number}"
        if uid in self.lines:
            fix = OWN_IDS if self.labels.from_user_files else FRESH_COPY
            raise row.fault(f"repeats that of line {self.lines[uid]}", "pairID", fix)
        self.lines[uid] = number
        label = self._label(row, uid)
        if label == UNLABELLED:
            self.unlabelled += 1
            return
        premise, hypothesis = row.sentence("sentence1"), row.sentence("sentence2")
        tokens = self._tokens(row, premise, hypothesis)
        group = row.text("captionID", optional=True) or row.text("promptID", optional=True)
        group = group or hashlib.sha256(premise.encode()).hexdigest()[:16]
        tags = row.tags or ((genre,) if genre else ())
        example = NLIExample(uid, premise, hypothesis, label, *tokens, group=group, tags=tags)
        self.examples.append(replace(example, original=row.original))

    def _label(self, row: PairFields, uid: str) -> str:
        """The name of a row's label, or UNLABELLED."""
        if self.truth and uid not in self.truth:
            fix = "take both files from the same release"
            raise row.fault("has no label in the ground truth", "pairID", fix)
        name_of, may_be_empty = self.labels.name_of, self.labels.from_user_files
        label = self.truth.get(uid) or cell_text(row.text("gold_label", optional=may_be_empty))
        name = name_of.get(label.casefold())
        if name is None:
            expected = [label for label in name_of if label][:NAMED]
            more = ", ..." if len(name_of) > NAMED else ""
            problem = f"is none of {reading.shown_names(expected, 'label')}{more}"
            if appearance(label) in map(appearance, expected):
                problem += f", and looks like one of them: it has {code_points(label)}"
            raise row.fault(problem, "gold_label", self._fix(label))
        return name

    def _fix(self, label: str) -> str:
        """How to correct a label that the corpus does not have. A short number is quoted; any other
        label could be text of a pair."""
        if not self.labels.from_user_files:
            return "correct the label, or read your own files by the variant :file"
        shown = label if re.fullmatch(r"-?\d{1,4}", label) else "LABEL"
        labels = f"{self.labels.setting_for_messages},{shown}:{UNLABELLED}"
        return f"correct it, or leave such pairs out: config.data.labels={labels}"

    def _tokens(
        self, row: PairFields, premise: str, hypothesis: str
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        parses = [row.text(name, optional=True) for name in PARSES]
        if all(map(str.strip, parses)):
            self.parsed += 1
            return binary_parse_tokens(parses[0]), binary_parse_tokens(parses[1])
        return treebank_tokens(premise), treebank_tokens(hypothesis)

    def facts(self) -> JsonObject:
        """The counts of the file for the manifest."""
        labels = dict.fromkeys(self.labels.names, 0)
        for example in self.examples:
            labels[example.label] += 1
        facts: JsonObject = {
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
    labels: Labels = NLI_LABELS,
    columns: Columns = (),
    may_lack_labels: bool = False,
    rows: ReadRows | None = None,
) -> Split[NLIExample]:
    """Reads the files of a split, see pair_rows.pair_file. The ending tells the format.

    Fields: gold_label sentence1 sentence2 (or label premise hypothesis). Optional fields: pairID
    (or uid, or id), captionID or promptID, genre, sentence1_binary_parse and
    sentence2_binary_parse. The case of names and labels is ignored. Pairs without a label are
    dropped and counted.

    The uid of an example is the pairID, else "<file stem>:<line>". Its group is the captionID or
    promptID, else a hash of the premise. Its tokens come from the two binary parses, else from
    text.treebank_tokens.

    Args:
      limit: number of labelled pairs; later lines are not read.
      genre: pairs of other genres are left out.
      ground_truth: a CSV file of pairID and label, whose labels replace those of `path`.
      columns: the user's names of columns, see pair_rows.columns_of.
      may_lack_labels: a file in which no pair has a label is no error; its split is empty.
      rows: the reader of a file whose ending does not tell the format.
    """
    file = PairFile((path,), path.stem, rows) if rows else pair_file(Path(path))
    truth = _ground_truth(ground_truth) if ground_truth else {}
    # With `truth` the labels come from there, by pairID, and `path` needs none.
    required = ("pairID", *SENTENCES) if truth else SENTENCES if may_lack_labels else REQUIRED
    reader, problems = _PairReader(file.stem, genre, truth, labels, required), Problems()
    for number, row in file.rows(problems, required, columns):
        reader.rows += 1
        if file.read_rows is tab_rows:
            quoted_cells_of_row = filter(reading.is_quoted_cell, row.values.values())
            reader.quoted += [number for _ in quoted_cells_of_row]
        try:
            reader.add(number, row)
        except DataError as error:
            problems.add(error)
        if limit is not None and len(reader.examples) == limit:
            break
    problems.raise_if_any()
    is_unlabelled = may_lack_labels and reader.unlabelled
    if not reader.examples and not is_unlabelled:
        of_genre = f" of genre '{genre}'" if genre else ""
        raise empty_file(file.paths[0], f"no labelled pair{of_genre}")
    if reader.examples:
        _check_unlabelled(file.name, reader)
    facts = {"file": file.name, "sha256": sha256(*file.paths), **reader.facts()}
    if ground_truth:
        facts["read_with"] = {ground_truth.name: sha256(ground_truth)}
    return Split(split, tuple(reader.examples), facts)


def _check_unlabelled(file: str, reader: _PairReader) -> None:
    """Raises DataError for a file of the user in which many pairs have no label.

    labels.may_be_mostly_unlabelled allows them: for published corpora (NLI_LABELS), and if
    config.data.labels maps a label to "-" (UNLABELLED), which leaves pairs out on purpose. The
    error's fix is such a setting, e.g. config.data.labels=yes,no,-:-.
    """
    labels = reader.labels
    most = max(1, MOST_UNLABELLED * reader.rows)
    if labels.may_be_mostly_unlabelled or reader.unlabelled <= most:
        return
    setting = f"config.data.labels={labels.setting_for_messages},{UNLABELLED}:{UNLABELLED}"
    fix = f"fill them in, or leave them out: {setting}"
    # Beside labels 0, 1, ..., n, -1 means unlabelled (Labels.of), unless the setting names it.
    if "-1" in labels.name_of:
        fix += f"; where -1 is a label, config.data.labels=-1,{labels.setting_for_messages}"
    problem = f"{reader.unlabelled:,} of {reader.rows:,} pairs have no label"
    raise DataError(problem, file=file, field="label", fix=fix)


def read_answers(
    path: Path, split: str, uids: Sequence[str], labels: Labels, columns: Columns = ()
) -> list[str]:
    """Reads the name of the label that a system gave to each pair of a split, in the order of the
    pairs' uids.

    The pair is in the field pairID (or uid, or id). The label is in `predicted`, as
    `predict --output` writes it: then it is one of labels.names. Else it is in gold_label (or
    label), spelled as in the corpus's files, and data.labels maps it. Other fields are ignored.
    """
    file = pair_file(path)
    answers, problems = dict.fromkeys(uids, ""), Problems()  # "": no answer yet
    names = {name.casefold(): name for name in labels.names}
    for _, row in file.rows(problems, ("pairID",), columns):
        has_our_names = "predicted" in row.values
        field_name = "predicted" if has_our_names else "gold_label"
        try:
            row.check(("pairID", field_name))
            uid, label = row.text("pairID"), cell_text(row.text(field_name)).casefold()
            if uid not in answers:
                uid = f"{split}:{uid}"  # see _with_unique_uids
            if uid not in answers or answers[uid]:
                problem = "is that of an earlier row, or of no labelled pair of the split"
                raise row.fault(problem, "pairID", "give each labelled pair of --split once")
            name_of = names if has_our_names else labels.name_of
            answers[uid] = name_of.get(label, UNLABELLED)
            if answers[uid] == UNLABELLED:
                fix = "correct it, or give config.data.labels"
                raise row.fault("is no label of the corpus", field_name, fix)
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
    partial: bool = False,
    labels: Labels | None = None,
    columns: Columns = (),
) -> dict[str, Split[NLIExample]]:
    """Loads the splits of a corpus of CORPORA: train, dev, and test if its labels are public.

    Args:
      folder: the corpus's own folder, or the data folder that holds it under `name`.
      limit: the most labelled pairs that are read of train; None for all.
      genre: the genre of MultiNLI's pairs that are read; "" for all.
      partial: see corpora.find_files.
      labels, columns: of the user's own files. NLI4CT takes pair_rows.EVIDENCE as columns.
    """
    check_options(name, genre)
    paths = find_files(name, folder, partial)
    splits = {}
    for split, path in paths.items():
        splits[split] = read_nli_file(
            path,
            split=split,
            limit=limit if split == "train" else None,
            genre=genre,
            ground_truth=ground_truth_path(name, paths) if split == "test" else None,
            labels=labels or CORPORA[name].labels,
            columns=columns,
            may_lack_labels=name == OWN and split == "test",
            rows=CORPORA[name].rows.get(split),
        )
    if name != OWN:
        return check_disjoint(splits)
    # A test split without labels is empty: its length is 0.
    labelled = {name: split for name, split in splits.items() if len(split)}
    if "dev" in splits and "test" not in labelled:
        splits["dev"].facts["note"] = NO_TEST_LABELS if "test" in splits else NO_TEST
    return check_disjoint(_with_unique_uids(labelled))


def _with_unique_uids(splits: dict[str, Split[NLIExample]]) -> dict[str, Split[NLIExample]]:
    """The splits with a uid for each pair.

    If two splits use one uid for different pairs (row numbers, for instance), every uid gets the
    name of its split: "0" of dev becomes "dev:0". Else the splits stay as they are.
    """
    clash = False
    for earlier, later in combinations(splits.values(), 2):
        texts_of = {pair.uid: (pair.premise, pair.hypothesis) for pair in earlier.examples}
        for pair in later.examples:
            texts = (pair.premise, pair.hypothesis)
            clash |= texts_of.get(pair.uid, texts) != texts
    if not clash:
        return splits
    renamed = {}
    for name, split in splits.items():
        pairs = [replace(pair, uid=f"{name}:{pair.uid}") for pair in split.examples]
        renamed[name] = replace(split, examples=tuple(pairs))
    return renamed


def load_demo(size: str = "demo") -> dict[str, Split[NLIExample]]:
    """Loads the splits of the demo pairs: 3,000, 600 and 600, or for demo_full 11,232, 1,395 and
    1,422.

    Pairs of one premise follow each other, in the order of LABELS. The label of a pair with the tag
    `relation` (train) or `unseen_relation` (dev and test) follows from an is-a path of MeSH, and
    from nothing else. No training pair has the same two concepts as a pair with the tag
    `unseen_relation`.
    """
    splits = {}
    for name, facts in demo.facts(size).items():
        split = read_nli_file(demo.FOLDER / size / f"{name}.jsonl.gz", split=name)
        splits[name] = replace(split, facts=facts)
    return splits


def from_plugin(
    name: str, folder: Path | None, names: Sequence[str]
) -> dict[str, Split[NLIExample]]:
    """Reads the splits by a function of the user.

    The function takes the data folder, or None, and returns {"train": rows, "dev": rows, "test":
    rows}. A row is (premise, hypothesis, label) or an NLIExample.

    Args:
      name: the import path of the function.
      names: the labels that its rows may have.
    """
    returned = import_object(name, "data.name")(folder)
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
                examples.append(_plugin_example(row, f"{split}-{number}", names))
            except DataError as error:
                place = f"{name}, {split}"
                problems.add(DataError(error.problem, file=place, line=number + 1, fix=error.fix))
        splits[split] = Split(split, tuple(examples))
    problems.raise_if_any()
    return check_disjoint(splits)


def _plugin_example(row: object, uid: str, names: Sequence[str]) -> NLIExample:
    """The example of a row that a function of the user returned. uid: for a row that is not an
    NLIExample."""
    texts = (row.premise, row.hypothesis, row.label) if isinstance(row, NLIExample) else row
    if not isinstance(texts, Sequence) or len(texts) != 3 or not all(map(_is_text, texts)):
        fix = "give premise, hypothesis and label as strings that are not blank"
        raise DataError("has not three texts", fix=fix)
    premise, hypothesis, label = texts
    if label not in names:
        fix = f"give one of {', '.join(names)}, or name others: config.data.labels"
        raise DataError("has an unknown label", fix=fix)
    if isinstance(row, NLIExample):
        return row
    tokens = treebank_tokens(premise), treebank_tokens(hypothesis)
    return NLIExample(uid, premise, hypothesis, label, *tokens)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def quoted_cells(facts: Mapping[str, Json]) -> Iterator[str]:
    """Yields the warning of quoted cells in the file of a split, if it has some. facts:
    Split.facts."""
    if counted := facts.get("quoted_cells"):
        yield reading.quoted_cells(facts["file"], counted["first_line"], counted["cells"])


def check_disjoint(splits: dict[str, Split[NLIExample]]) -> dict[str, Split[NLIExample]]:
    """Returns the splits. Raises DataError for a uid in two splits, because the model would be
    tested on a training pair."""
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
    """Counts the pairs of a split that have the texts, or the premise, of an earlier split: {split:
    {earlier split: {"pairs", "premises"}}}."""
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
