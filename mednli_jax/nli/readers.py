"""Reads MedNLI, MEDIQA-NLI, SNLI, MultiNLI and the user's own files of pairs, plain or gzipped.

CORPORA says where the files of each corpus are. Each file format is an iterator of (line,
PairFields). Errors name the file, the line and the field; they never quote a sentence.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from itertools import combinations
from pathlib import Path

from mednli_jax import demo, files
from mednli_jax.data.corpus import check_name
from mednli_jax.data.examples import LABELS, NLIExample, Split
from mednli_jax.data.text import binary_parse_tokens, treebank_tokens
from mednli_jax.errors import ConfigError, DataError, Problems
from mednli_jax.files import (
    FRESH_COPY,
    character_fault,
    check_readable,
    either_name,
    empty_file,
    sha256,
)
from mednli_jax.plugins import imported

UNLABELLED = "-"  # the annotators reached no majority
# A file of the user may name the fields in plain words.
PLAIN_NAMES = {
    "sentence1": "premise",
    "sentence2": "hypothesis",
    "gold_label": "label",
    "pairID": "uid",
}
REQUIRED = ("gold_label", "sentence1", "sentence2")
PARSES = ("sentence1_binary_parse", "sentence2_binary_parse")
SPELLINGS = {
    name.casefold(): name
    for name in (*PLAIN_NAMES, *PLAIN_NAMES.values(), *PARSES, "captionID", "promptID", "genre")
}
NAMES_OF_COLUMNS = (
    "name the fields label, premise and hypothesis, or as SNLI does; a table begins with these names, "
    "separated by commas in .csv, else by TABs"
)


@dataclass(frozen=True)
class Corpus:
    """The files of a corpus. A data folder of licence `restricted` must not be open to other
    users."""

    files: dict[str, str]  # split -> official file name
    source: str  # where to get it
    genres: tuple[str, ...] = ()  # of its training file
    endings: tuple[str, ...] = ()  # other endings of the files, tried in this order
    older: tuple[str, str] = ("", "")  # part of the names, the same part in an older release
    folders: dict[str, str] = field(
        default_factory=dict
    )  # split -> the corpus that it is taken from
    ground_truth: str = ""  # the file with the test labels where the test file has none
    optional: tuple[str, ...] = ()  # splits that may be missing
    restricted: bool = False

    def names(self, split: str) -> list[str]:
        """File names that may hold a split, the official one first."""
        stem = self.files[split].removesuffix(".jsonl")
        names = [self.files[split], *(stem + ending for ending in self.endings)]
        if self.older[0]:
            now, then = self.older
            names += [then.join(name.split(now)) for name in names]
        return list(dict.fromkeys(names))


MEDNLI = {"train": "mli_train_v1.jsonl", "dev": "mli_dev_v1.jsonl", "test": "mli_test_v1.jsonl"}
CORPORA = {
    "mednli": Corpus(
        MEDNLI,
        "apply for PhysioNet credentialed access at physionet.org/content/mednli",
        restricted=True,
    ),
    # The 405 test pairs of the MEDIQA 2019 shared task, task 1; its participants trained on MedNLI.
    "mediqa_nli": Corpus(
        {**MEDNLI, "test": "mednli_bionlp19_shared_task.jsonl"},
        "apply for PhysioNet credentialed access at physionet.org/content/mednli-bionlp19",
        folders={"train": "mednli", "dev": "mednli"},
        ground_truth="mednli_bionlp19_shared_task_ground_truth.csv",
        restricted=True,
    ),
    "snli": Corpus(
        {
            "train": "snli_1.0_train.jsonl",
            "dev": "snli_1.0_dev.jsonl",
            "test": "snli_1.0_test.jsonl",
        },
        "download it from nlp.stanford.edu/projects/snli",
        endings=(".txt",),
    ),
    # MultiNLI's test labels are not public. dev_mismatched holds other genres than training, so it
    # is no dev set here.
    "multinli": Corpus(
        {"train": "multinli_1.0_train.jsonl", "dev": "multinli_1.0_dev_matched.jsonl"},
        "download it from cims.nyu.edu/~sbowman/multinli",
        ("fiction", "government", "slate", "telephone", "travel"),
        endings=(".txt",),
        older=("multinli_1.0", "multinli_0.9"),  # the release that Romanov & Shivade 2018 used
    ),
    # Files of the user, with the fields of SNLI or premise, hypothesis, label (and uid).
    "file": Corpus(
        {"train": "train.jsonl", "dev": "dev.jsonl", "test": "test.jsonl"},
        "put one file of pairs per split (.jsonl, .tsv or .csv)",
        endings=(".tsv", ".csv"),
        older=("dev", "validation"),  # as Hugging Face's data sets call it
        optional=("test",),
    ),
}
# Folders whose licences forbid passing on their content: other users must not be able to read them.
RESTRICTED = (
    *(name for name, corpus in CORPORA.items() if corpus.restricted),
    "notes",
    "umls",
    "snomed",
)


def licensed(names: Iterable[str]) -> list[str]:
    """Those of these folders that are RESTRICTED, and their files that readers also accept in the
    data folder."""
    names = [name for name in names if name in RESTRICTED]
    corpora = [CORPORA[name] for name in names if name in CORPORA]
    loose = sorted(
        {
            file
            for corpus in corpora
            for file in (*corpus.files.values(), corpus.ground_truth)
            if file
        }
    )
    return [*names, *loose, *(f"{file}.gz" for file in loose)]


def find_files(name: str, folder: Path, needed: str = "") -> dict[str, Path]:
    """split -> the file that holds it. needed: see load_nli."""
    corpus, folder, paths, problems = CORPORA[name], Path(folder), {}, Problems()
    places = {
        split: _places(folder, name, corpus.folders.get(split, name)) for split in corpus.files
    }
    found_of = {
        split: [p for n in corpus.names(split) for p in _find(places[split], n)]
        for split in corpus.files
    }
    for split, found in found_of.items():
        if not found and split not in corpus.optional and not found_of.get(needed):
            problems.add(
                _missing(corpus.folders.get(split, name), corpus.files[split], places[split])
            )
        elif len(found) > 1 and name == "file":
            names = " and ".join(path.name for path in found)
            problems.add(DataError(f"two files hold {split}", file=names, fix="keep one of them"))
        elif found:
            paths[split] = found[0]
        elif name == "file" and (near := _similar(places[split], split)):
            meant = f"{split}{''.join(near.suffixes)}"
            meant = (
                meant if meant.removesuffix(".gz") in corpus.names(split) else corpus.files[split]
            )
            problem = f"is not read, and there is no file of {split}. Did you mean {meant}?"
            problems.add(DataError(problem, file=near.name, fix="rename it, or move it elsewhere"))
    if corpus.ground_truth and "test" in paths and not ground_truth_path(name, paths):
        problems.add(_missing(name, corpus.ground_truth, [paths["test"].parent]))
    problems.raise_if_any()
    return paths


def source_files(name: str, folder: Path, needed: str = "") -> list[Path]:
    """Every file that load_nli reads for a corpus; each is there and can be read."""
    paths = find_files(name, folder, needed)
    truth = ground_truth_path(name, paths)
    files = [*paths.values(), *([truth] if truth else [])]
    for file in files:
        check_readable(file)
    return files


def ground_truth_path(name: str, paths: dict[str, Path]) -> Path | None:
    """The file of test labels; None where the corpus has none, or no test split is there."""
    file = CORPORA[name].ground_truth
    return either_name(paths["test"].with_name(file)) if file and "test" in paths else None


def _places(folder, name, owner):
    """Folders that may hold a split of corpus `name`, taken from corpus `owner`."""
    if name == owner:
        return [folder / name if (folder / name).is_dir() else folder]
    return [folder / owner, folder / name, folder, folder.parent / owner]


def _find(places, file):
    """The plain and the gzipped file of that name, in the first of the folders that holds one."""
    of_places = (
        [path for path in (place / file, place / f"{file}.gz") if path.is_file()]
        for place in places
    )
    return next(filter(None, of_places), [])


def _similar(places, split):
    """A file of data with nearly the name of a split, such as tset.tsv; None where there is
    none."""
    near = {}
    for path in sorted(places[0].glob("*.*")):
        stem = path.name.partition(".")[0].casefold()
        is_data = path.is_file() and {*path.suffixes} & {*ENDINGS, ".json", ".parquet", ".xlsx"}
        if is_data and (stem == split or stem not in ("train", "dev", "validation", "test")):
            near[stem] = path
    return next((near[stem] for stem in get_close_matches(split, near, n=1, cutoff=0.7)), None)


def _missing(owner, file, places):
    lacking = f"no folder {places[0]}"
    if folder := next(filter(Path.is_dir, places), None):
        below = next(folder.rglob(f"{file}*"), None)
        lacking = f"neither {file} nor {file}.gz is in {folder}" + (
            f", but {below} is there" if below else ""
        )
    source = CORPORA[owner].source
    if owner == "file":
        near = _similar(places, Path(file).stem)
        lacking += f", but {near.name} is there" if near else ""
        return DataError(
            lacking, file=file, fix=f"{source}, called {Path(file).stem}, into --config.data.dir"
        )
    return DataError(
        lacking, file=file, fix=f"put {file} into $MEDNLI_JAX_DATA/{owner}/; to get it, {source}"
    )


class PairFields:
    """The named fields of one pair; raises DataError for a bad field, without quoting it."""

    def __init__(self, file: str, number: int, values: dict):
        self.file, self.number, self.values = file, number, values

    def fault(self, problem: str, field: str, fix: str = "") -> DataError:
        field = self._name(field)
        return DataError(
            f"field '{field}' {problem}", file=self.file, line=self.number, field=field, fix=fix
        )

    def _name(self, field):
        plain = PLAIN_NAMES.get(field)
        own = plain in self.values or not any(name in self.values for name in REQUIRED)
        return plain if plain and own and field not in self.values else field

    def check(self, required=REQUIRED) -> None:
        """Raises DataError with all of the required fields that are missing, and those that are
        there."""
        missing = [
            self._name(name)
            for name in required
            if not {name, PLAIN_NAMES.get(name)} & self.values.keys()
        ]
        if not missing:
            return
        given = [str(name) for name in self.values]
        # The first line of a table without a header is a pair, which no message may quote.
        header = len(missing) < len(required) or ".json" in self.file
        named = header and all(re.fullmatch(r"\w{1,30}", name, re.ASCII) for name in given)
        found = ", ".join(given) if named else f"{len(given)} other fields"
        many = len(missing) > 1
        names = f"fields {', '.join(missing)} are" if many else f"field '{missing[0]}' is"
        problem = f"{names} missing; found: {found}"
        fix = NAMES_OF_COLUMNS if "sentence1" in required else "name the fields uid and label"
        raise DataError(problem, file=self.file, line=self.number, field=missing[0], fix=fix)

    def text(self, field: str, optional: bool = False) -> str:
        """The field as a string of Unicode text; "" where it is optional and missing or null."""
        value, plain = self.values.get(field), self.values.get(PLAIN_NAMES.get(field))
        if value is None:
            value = plain
        elif plain is not None and not _equal(field, value, plain):
            raise self.fault(f"and field '{PLAIN_NAMES[field]}' differ", field, files.KEEP_ONE)
        if value is None and optional:
            return ""
        if value is None and self._name(field) not in self.values:
            raise self.fault("is missing", field, FRESH_COPY)
        if field == "gold_label" and isinstance(value, int):
            return str(value)
        if not isinstance(value, str):
            raise self.fault(f"is a {type(value).__name__}, expected a string", field, FRESH_COPY)
        if problem := character_fault(value):
            raise self.fault(problem, field, FRESH_COPY)
        return value

    def sentence(self, field: str) -> str:
        """The field as a text that is not blank."""
        value = self.text(field)
        if not value.strip():
            raise self.fault("is empty", field, "fill in the sentence or remove the line")
        return value


def _equal(field: str, first: object, second: object) -> bool:
    """Whether two fields of one meaning say the same; the case of labels is ignored."""
    if field == "gold_label":
        return str(first).strip().casefold() == str(second).strip().casefold()
    return first == second


Rows = Iterator[tuple[int, PairFields]]


@cache
def _spelled(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of fields as this module spells them; case is ignored."""
    return tuple(SPELLINGS.get(name.casefold(), name) for name in names)


def json_rows(path: Path, problems: Problems, required=()) -> Rows:
    """Rows of JSON lines: one object with named fields a line."""
    for number, values in files.json_lines(path, problems):
        names = _spelled(tuple(values))
        values = files.json_object(list(zip(names, values.values(), strict=True)))
        if isinstance(values, files.RepeatedField):
            problem = f"the line {values.problem}, case ignored"
            problems.add(files.line_fault(path.name, number, problem, files.KEEP_ONE))
        else:
            yield number, PairFields(path.name, number, values)


def table_of_pairs(path: Path, problems: Problems, required=REQUIRED) -> Rows:
    """Rows of a table with a header line: CSV (RFC 4180), or separated by TABs, in which quotes
    have no meaning."""
    records = files.csv_records(path, problems)
    if ".csv" not in path.suffixes:
        lines = files.text_lines(path, problems)
        records = ((number, line.split("\t")) for number, line in lines if line.strip(" "))

    def columns(number, header):
        header = _spelled(tuple(header))
        PairFields(path.name, number, dict.fromkeys(header, "")).check(required)
        return header

    # A pair with fewer than five annotators may end before the columns label2 ... label5.
    for number, values in files.table_rows(path.name, records, problems, columns, spare=r"label\d"):
        yield number, PairFields(path.name, number, values)


ENDINGS = {".jsonl": json_rows, **dict.fromkeys((".txt", ".tsv", ".csv"), table_of_pairs)}


def _format(path):
    """(name without its endings, the reader of its rows)."""
    name = Path(path.name.removesuffix(".gz"))
    stem, ending = name.stem, name.suffix
    if ending not in ENDINGS:
        raise DataError(
            "the ending names no format", file=path.name, fix=f"use one of {', '.join(ENDINGS)}"
        )
    return stem, ENDINGS[ending]


def _ground_truth(path: Path) -> dict[str, str]:
    """Labels by pairID from a CSV file of two columns, as MEDIQA-NLI comes; its first line may be a
    header."""
    labels, problems = {}, Problems()
    for number, cells in files.csv_records(path, problems):
        uid, label, *_ = [*map(str.strip, cells), "", ""]
        if label in LABELS and uid not in labels:
            labels[uid] = label
        elif number > 1:
            problem = "is no pairID with a label, or has one that an earlier line has"
            problems.add(files.line_fault(path.name, number, problem))
    problems.raise_if_any()
    return labels


def labels_given_twice(labels: str) -> list[str]:
    """The labels of a file that config.data.labels gives more than one class, case ignored."""
    counts = Counter(label for label, _ in _classes(labels))
    return [label for label, count in counts.items() if count > 1]


def _classes(labels: str) -> Iterator[tuple[str, str]]:
    """(label of a file, its class) of each part of config.data.labels, in lower case."""
    for part in (labels or ",".join(LABELS)).split(","):
        name, _, label = part.strip().casefold().rpartition(":")
        yield (name or label).strip(), label.strip()


NO_TEST = "The folder has no test file, so that only dev is scored."


def classes_of(labels: str) -> dict[str, str]:
    """{label of a file, in lower case: one of LABELS or UNLABELLED}, from
    "yes:entailment,no:contradiction"."""
    return {UNLABELLED: UNLABELLED, **dict(_classes(labels))}


def load_nli(
    name: str,
    folder: Path,
    *,
    limit: int | None = None,
    genre: str = "",
    needed: str = "",
    labels: str = "",
) -> dict[str, Split]:
    """Splits of a corpus of CORPORA: train, dev, and test where its labels are public.

    folder: the corpus's own folder, or the data folder that holds it under `name`. limit: of
    labelled pairs of train. genre: of MultiNLI's train and dev, "" for all. needed: the one split
    that is needed; if it is there, the files of the others may be missing. labels: of the user's
    own files, see classes_of.
    """
    check_options(name, genre)
    paths = find_files(name, folder, needed)
    truth = ground_truth_path(name, paths)
    splits = {}
    for split, path in paths.items():
        how = {
            "limit": limit if split == "train" else None,
            "ground_truth": truth if split == "test" else None,
        }
        splits[split] = read_nli_file(path, split=split, genre=genre or None, labels=labels, **how)
    if name == "file" and "dev" in splits and "test" not in splits:
        dev = splits["dev"]
        splits["dev"] = replace(dev, facts={**dev.facts, "note": NO_TEST})
    return check_disjoint(splits)


def check_options(name: str, genre: str) -> None:
    """Refuses an unknown corpus or genre."""
    check_name(name, tuple(CORPORA))
    genres = CORPORA[name].genres
    if genre and genre not in genres:
        fix = f"give one of {', '.join(genres)}" if genres else "leave it out"
        raise ConfigError(f"'{name}' has no genre '{genre}'", field="data.genre", fix=fix)


def read_nli_file(
    path,
    *,
    split: str,
    limit: int | None = None,
    genre: str | None = None,
    ground_truth: Path | None = None,
    labels: str = "",
) -> Split:
    """Reads one file, plain or gzipped, whether or not `path` ends in .gz. The ending tells the
    format (ENDINGS).

    Fields: gold_label sentence1 sentence2 (or label premise hypothesis), optional pairID (or uid),
    captionID or promptID, genre, sentence1_binary_parse and sentence2_binary_parse. The case of
    names and labels is ignored. Pairs labelled `-` are dropped and counted. uid is the pairID, else
    "<file stem>:<line>"; group the captionID or promptID, else a hash of the premise. Tokens come
    from the two binary parses, else from text.treebank_tokens. limit: of labelled pairs; later
    lines are not read. genre: pairs of other genres are left out. ground_truth: a CSV file of
    pairID and label, whose labels replace those of `path`. labels: see classes_of.
    """
    path = either_name(Path(path)) or Path(path)
    stem, rows = _format(path)
    truth = _ground_truth(ground_truth) if ground_truth else {}
    reader = _Reader(stem, genre, truth, classes_of(labels))
    for number, row in rows(path, reader.problems):
        reader.rows += 1
        if rows is table_of_pairs and ".csv" not in path.suffixes:
            reader.quoted += [number for cell in row.values.values() if files.is_quoted_cell(cell)]
        try:
            reader.take(number, row)
        except DataError as error:
            reader.problems.add(error)
        if limit is not None and len(reader.examples) == limit:
            break
    reader.problems.raise_if_any()
    if not reader.examples:
        raise empty_file(
            path, f"no labelled pair of genre '{genre}'" if genre else "no labelled pair"
        )
    facts = {"file": path.name, "sha256": sha256(path), **reader.facts()}
    if ground_truth:
        facts["read_with"] = {ground_truth.name: sha256(ground_truth)}
    return Split(split, tuple(reader.examples), facts)


def read_answers(path: Path, uids: Sequence[str], labels: str = "") -> list[str]:
    """The label, one of LABELS, that a system gave to each pair of a split, in the order of the
    pairs' uids.

    Fields: pairID (or uid), and gold_label (or label), or `predicted`, which `predict --output`
    writes. Other fields are ignored. labels: see classes_of.
    """
    path, problems = either_name(path) or path, Problems()
    found, classes = dict.fromkeys(uids, ""), classes_of(labels)
    for _, row in _format(path)[1](path, problems, ("pairID",)):
        field = "predicted" if "predicted" in row.values else "gold_label"
        try:
            row.check(("pairID", field))
            uid, label = row.text("pairID"), row.text(field).strip().casefold()
            if found.get(uid) != "":
                problem = "is that of an earlier row, or of no labelled pair of the split"
                raise row.fault(problem, "pairID", "give each labelled pair of --split once")
            found[uid] = classes.get(label, UNLABELLED)
            if found[uid] == UNLABELLED:
                fix = "correct it, or give --config.data.labels"
                raise row.fault("is no label of the corpus", field, fix)
        except DataError as error:
            problems.add(error)
    problems.raise_if_any()
    if lacking := list(found.values()).count(""):
        problem = f"{lacking:,} of {len(found):,} pairs of the split have no answer"
        raise DataError(problem, file=path.name, fix="answer all, or name another --split")
    return list(found.values())


class _Reader:
    """Turns the rows of one file into examples, and counts."""

    def __init__(self, stem, genre, truth, classes):
        self.stem, self.genre, self.truth, self.classes = stem, genre, truth, classes
        self.examples, self.problems, self.lines_of_uids = [], Problems(), {}
        self.rows = self.unlabelled = self.other_genres = 0
        self.quoted: list[int] = []  # the line of each quoted cell of a table of TABs
        self.token_sources = {"binary parse": 0, "treebank": 0}

    def take(self, number, row):
        row.check(REQUIRED[1:] if self.truth else REQUIRED)
        genre = row.text("genre", optional=True)
        if self.genre and not genre:
            raise row.fault("is missing", "genre", "use MultiNLI's own file, which names the genre")
        if self.genre and genre != self.genre:
            self.other_genres += 1
            return
        uid = row.text("pairID", optional=not self.truth) or f"{self.stem}:{number}"
        if uid in self.lines_of_uids:
            raise row.fault(f"repeats that of line {self.lines_of_uids[uid]}", "pairID", FRESH_COPY)
        self.lines_of_uids[uid] = number
        label = self.truth.get(uid) if self.truth else row.text("gold_label")
        if label is None:
            raise row.fault(
                "has no label in the ground truth",
                "pairID",
                "take both files from the same release",
            )
        given, label = label, self.classes.get(label.strip().casefold())
        if label == UNLABELLED:
            self.unlabelled += 1
            return
        if label is None:
            example = (
                "0:entailment,1:neutral,2:contradiction"
                if given.isdigit()
                else "yes:entailment,no:contradiction"
            )
            fix = f"correct the label, or, for files of your own, give e.g. --config.data.labels={example}"
            known = ", ".join(name for name in self.classes if name != UNLABELLED)
            raise row.fault(f"is none of {known}, {UNLABELLED}", "gold_label", fix)
        premise, hypothesis = row.sentence("sentence1"), row.sentence("sentence2")
        tokens = self._tokens(row, premise, hypothesis)
        group = row.text("captionID", optional=True) or row.text("promptID", optional=True)
        group = group or hashlib.sha256(premise.encode()).hexdigest()[:16]
        self.examples.append(
            NLIExample(
                uid,
                premise,
                hypothesis,
                label,
                *tokens,
                group=group,
                tags=(genre,) if genre else (),
            )
        )

    def _tokens(self, row, premise, hypothesis):
        parses = [row.text(name, optional=True) for name in PARSES]
        source = "binary parse" if all(parse.strip() for parse in parses) else "treebank"
        self.token_sources[source] += 1
        if source == "treebank":
            return [treebank_tokens(premise), treebank_tokens(hypothesis)]
        return [binary_parse_tokens(parse) for parse in parses]

    def facts(self):
        counts = Counter(example.label for example in self.examples)
        facts = {
            "rows": self.rows,
            "kept": len(self.examples),
            "dropped_unlabelled": self.unlabelled,
            "tokens": self.token_sources,
            "labels": {label: counts[label] for label in LABELS if label in self.classes.values()},
        }
        if self.quoted:
            facts["quoted_cells"] = {"first_line": self.quoted[0], "cells": len(self.quoted)}
        return facts | (
            {"genre": self.genre, "other_genres": self.other_genres} if self.genre else {}
        )


def quoted_cells(facts: Mapping) -> Iterator[str]:
    """The warning of quoted cells in the file of a split. facts: of the split."""
    if counted := facts.get("quoted_cells"):
        yield files.quoted_cells(facts["file"], counted["first_line"], counted["cells"])


def check_disjoint(splits: dict[str, Split]) -> dict[str, Split]:
    """The same splits. Raises: DataError for a uid in two splits: the model would be tested on a
    training pair."""
    for earlier, later in combinations(splits.values(), 2):
        uids = {pair.uid for pair in later.examples}
        if common := sum(pair.uid in uids for pair in earlier.examples):
            problem = (
                f"{common} pairs stand in {earlier.name} as well as in {later.name} (same pairID)"
            )
            raise DataError(problem, file=later.facts.get("file"), field="pairID", fix=FRESH_COPY)
    return splits


def shared_texts(splits: dict[str, Split]) -> dict[str, dict[str, dict[str, int]]]:
    """{split: {earlier split: {"pairs", "premises"}}}: how many pairs of a split have the texts, or
    the premise, of an earlier one."""
    found = {}
    for earlier, later in combinations(splits.values(), 2):
        premises = {pair.premise for pair in later.examples}
        there = [
            (pair.premise, pair.hypothesis) for pair in earlier.examples if pair.premise in premises
        ]
        pairs, premises = set(there), {premise for premise, _ in there}
        found.setdefault(later.name, {})[earlier.name] = {
            "pairs": sum((pair.premise, pair.hypothesis) in pairs for pair in later.examples),
            "premises": sum(pair.premise in premises for pair in later.examples),
        }
    return found


def load_demo(size: str = "demo") -> dict[str, Split]:
    """The splits of the demo pairs: 3,000, 600 and 600, or for demo_full 11,232, 1,395 and 1,422.

    Pairs of one premise are kept together, in the order of LABELS. Only an is-a path of MeSH
    decides pairs with the tag `relation` (in train) or `unseen_relation` (in dev and test, where
    the two concepts are a new pair).
    """
    folder, facts = demo.FOLDER / size, demo.facts(size)
    splits = {name: read_nli_file(folder / f"{name}.jsonl.gz", split=name) for name in facts}
    return {name: replace(split, facts=facts[name]) for name, split in splits.items()}


def from_plugin(name: str, folder: Path | None) -> dict[str, Split]:
    """The splits that a function of the user reads.

    name: its import path. The function takes the data folder, None where none is set, and returns
    {"train": rows, "dev": rows, "test": rows}; a row is (premise, hypothesis, label), or an
    NLIExample.
    """
    found, splits, problems = imported(name, "data.name")(folder), {}, Problems()
    found = (
        {split: list(rows) for split, rows in found.items()} if isinstance(found, Mapping) else {}
    )
    if not (found.get("train") and found.get("dev")):
        raise DataError(
            "gave no rows of train or of dev",
            file=name,
            fix="return {'train': rows, 'dev': rows, ...}",
        )
    for split, rows in found.items():
        pairs = []
        for number, row in enumerate(rows):
            place = {"file": f"{name}, {split}", "line": number + 1}
            texts = [row.premise, row.hypothesis, row.label] if isinstance(row, NLIExample) else row
            if (
                not isinstance(texts, Sequence)
                or [bool(isinstance(x, str) and x.strip()) for x in texts] != [True] * 3
            ):
                fix = "give premise, hypothesis and label as strings that are not blank"
                problems.add(DataError("has not three texts", **place, fix=fix))
                continue
            if not isinstance(row, NLIExample):
                row = NLIExample(f"{split}-{number}", *row, *map(treebank_tokens, row[:2]))
            if row.label not in LABELS:
                problems.add(
                    DataError(
                        "has an unknown label", **place, fix=f"give one of {', '.join(LABELS)}"
                    )
                )
            pairs.append(row)
        splits[split] = Split(split, tuple(pairs))
    problems.raise_if_any()
    return check_disjoint(splits)
