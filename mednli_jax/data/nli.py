"""Readers of MedNLI, SNLI and MultiNLI in their official JSON lines, plain or gzipped.

Every fault of a file is reported by code, line and field; the sentences themselves never appear in a message:
  E-DATA-001 file missing           E-DATA-012 line too long        E-DATA-018 unknown label
  E-DATA-003 file unreadable        E-DATA-013 broken JSON          E-DATA-019 empty sentence
  E-DATA-004 damaged gzip           E-DATA-014 not an object        E-DATA-020 repeated pairID
  E-DATA-005 no labelled pair       E-DATA-015 field of wrong type  E-DATA-021 splits share pairs
  E-DATA-010 not UTF-8              E-DATA-016 not Unicode text     E-DATA-022 parse without tokens
  E-DATA-011 NUL byte               E-DATA-017 field missing
"""

import difflib
import gzip
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from mednli_jax.errors import DataError, Problems, UserError
from mednli_jax.examples import LABELS, NLIExample, Split
from mednli_jax.text import MAX_LINE_BYTES, binary_lines, binary_parse_tokens, treebank_tokens

UNLABELLED = "-"  # the annotators reached no majority
FRESH_COPY = "take a fresh copy from the official archive"


@dataclass(frozen=True)
class Corpus:
    """Where a corpus lives. files: split -> official file name; genres: those of its training file; source: address."""

    files: dict[str, str]
    source: str
    genres: tuple[str, ...] = ()


CORPORA = {
    "mednli": Corpus(
        {"train": "mli_train_v1.jsonl", "dev": "mli_dev_v1.jsonl", "test": "mli_test_v1.jsonl"},
        "apply for PhysioNet credentialed access at physionet.org/content/mednli",
    ),
    "snli": Corpus(
        {"train": "snli_1.0_train.jsonl", "dev": "snli_1.0_dev.jsonl", "test": "snli_1.0_test.jsonl"},
        "download it from nlp.stanford.edu/projects/snli",
    ),
    # MultiNLI's test labels are not public. dev_mismatched holds other genres than training, so it is no dev set here.
    "multinli": Corpus(
        {"train": "multinli_1.0_train.jsonl", "dev": "multinli_1.0_dev_matched.jsonl"},
        "download it from cims.nyu.edu/~sbowman/multinli",
        ("fiction", "government", "slate", "telephone", "travel"),
    ),
}


def load_nli(name: str, folder: Path, *, limit: int | None = None, genre: str = "") -> dict[str, Split]:
    """Splits of a corpus of CORPORA: train, dev, and test where its labels are public.

    folder: the corpus's own folder, or the data folder ($MEDNLI_JAX_DATA) that holds it under `name`.
    limit: keep the first so many labelled pairs of train; dev and test are always whole.
    genre: MultiNLI only, train and dev of one genre; "" means all.
    Raises: UserError for unknown names; DataError(s) for missing or bad files, or pairs shared between splits.
    """
    if name not in CORPORA:
        raise UserError(f"Unknown corpus '{name}'.{_suggest(name, CORPORA)}")
    corpus = CORPORA[name]
    if genre and not corpus.genres:
        raise UserError(f"The corpus '{name}' has no genres, so '{genre}' cannot be chosen.")
    if genre and genre not in corpus.genres:
        raise UserError(f"Unknown genre '{genre}' of {name}.{_suggest(genre, corpus.genres)}")
    _check_limit(limit)
    paths = find_files(name, corpus, Path(folder))
    return check_disjoint(
        {
            split: read_nli_jsonl(path, split=split, limit=limit if split == "train" else None, genre=genre or None)
            for split, path in paths.items()
        }
    )


def read_nli_jsonl(path, *, split: str, limit: int | None = None, genre: str | None = None) -> Split:
    """Reads one file; the name with or without .gz finds either.

    Pairs labelled `-` are dropped and counted. uid is the pairID, else "<file stem>:<line>"; group the captionID or
    promptID, else a hash of the premise. Tokens come from the two binary parses, else from the Treebank tokeniser.
    limit: stop after so many labelled pairs. genre: skip pairs of other genres.
    Raises: DataError, or DataErrors with the first 20 faults together; UserError for a limit under 1.
    """
    _check_limit(limit)
    path = Path(path)
    path = _either_name(path) or path
    if not path.is_file():
        raise DataError("E-DATA-001", "there is no such file", file=path.name, fix="check the path")
    reader = _Reader(path.name, genre)
    try:
        for number, line in binary_lines(path):
            reader.take(number, line)
            if limit is not None and len(reader.examples) == limit:
                break
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except gzip.BadGzipFile as error:
        reader.problems.add(DataError("E-DATA-004", f"cannot be decompressed: {error}", file=path.name, fix=FRESH_COPY))
    except OSError as error:
        raise DataError("E-DATA-003", f"cannot be read ({error.strerror})", file=path.name) from error
    reader.problems.raise_if_any()
    if not reader.examples:
        what = f"holds no labelled pair of genre '{genre}'" if genre else "holds no labelled pair"
        raise DataError("E-DATA-005", what, file=path.name, fix=FRESH_COPY)
    return Split(split, tuple(reader.examples), {"file": path.name, "sha256": digest, **reader.facts()})


def check_disjoint(splits: dict[str, Split]) -> dict[str, Split]:
    """The same splits, each with facts["shared_premises"]: distinct premises it has in common with each earlier one.

    Raises: DataError E-DATA-021 where a uid stands in two splits: that pair would be trained and tested on.
    """
    checked = {}
    for name, split in splits.items():
        uids, premises, shared = {pair.uid for pair in split.examples}, {pair.premise for pair in split.examples}, {}
        for earlier in checked.values():
            common = sum(pair.uid in uids for pair in earlier.examples)
            if common:
                raise DataError(
                    "E-DATA-021",
                    f"{common} pairs stand in {earlier.name} as well as in {split.name} (same pairID)",
                    file=split.facts.get("file"),
                    field="pairID",
                    fix=FRESH_COPY,
                )
            shared[earlier.name] = len(premises & {pair.premise for pair in earlier.examples})
        checked[name] = replace(split, facts={**split.facts, "shared_premises": shared})
    return checked


class _Reader:
    """Turns the lines of one file into examples, and counts."""

    def __init__(self, file, genre):
        self.file, self.genre = file, genre
        self.stem = file.removesuffix(".gz").removesuffix(".jsonl")
        self.examples, self.problems, self.lines_of_uids = [], Problems(), {}
        self.rows = self.unlabelled = self.other_genres = 0
        self.token_sources = {"binary parse": 0, "treebank": 0}

    def take(self, number, line):
        if line is not None and not line.strip():
            return
        self.rows += 1
        try:
            self._take_row(number, _Row(self.file, number, line))
        except DataError as error:
            self.problems.add(error)

    def _take_row(self, number, row):
        genre = row.text("genre", optional=True)
        if self.genre and not genre:
            raise row.fault("E-DATA-017", "is missing", "genre", "use MultiNLI's own file, which names the genre")
        if self.genre and genre != self.genre:
            self.other_genres += 1
            return
        uid = row.text("pairID", optional=True) or f"{self.stem}:{number}"
        if uid in self.lines_of_uids:
            raise row.fault("E-DATA-020", f"repeats that of line {self.lines_of_uids[uid]}", "pairID", FRESH_COPY)
        self.lines_of_uids[uid] = number
        label = row.text("gold_label")
        if label == UNLABELLED:
            self.unlabelled += 1
            return
        if label not in LABELS:
            raise row.fault("E-DATA-018", f"is none of {', '.join(LABELS)}, -", "gold_label", "correct the label")
        premise, hypothesis = row.sentence("sentence1"), row.sentence("sentence2")
        tokens = self._tokens(row, premise, hypothesis)
        group = row.text("captionID", optional=True) or row.text("promptID", optional=True)
        group = group or hashlib.sha256(premise.encode()).hexdigest()[:16]
        self.examples.append(
            NLIExample(uid, premise, hypothesis, label, *tokens, group=group, tags=(genre,) if genre else ())
        )

    def _tokens(self, row, premise, hypothesis):
        fields = ("sentence1_binary_parse", "sentence2_binary_parse")
        parses = [row.text(field, optional=True) for field in fields]
        source = "binary parse" if all(parse.strip() for parse in parses) else "treebank"
        self.token_sources[source] += 1
        if source == "treebank":
            return [treebank_tokens(premise), treebank_tokens(hypothesis)]
        tokens = [binary_parse_tokens(parse) for parse in parses]
        for field, found in zip(fields, tokens, strict=True):
            if not found:
                raise row.fault("E-DATA-022", "holds no tokens", field, "correct or leave out both parses")
        return tokens

    def facts(self):
        counts = Counter(example.label for example in self.examples)
        facts = {
            "rows": self.rows,
            "kept": len(self.examples),
            "dropped_unlabelled": self.unlabelled,
            "tokens": self.token_sources,
            "labels": {label: counts[label] for label in LABELS},
        }
        return facts | ({"genre": self.genre, "other_genres": self.other_genres} if self.genre else {})


class _Row:
    """One line as a JSON object; raises DataError for what is wrong with it, without its words."""

    def __init__(self, file, number, line):
        self.file, self.number = file, number
        if line is None:
            raise self.fault("E-DATA-012", f"the line is longer than {MAX_LINE_BYTES} bytes", fix=FRESH_COPY)
        if b"\0" in line:
            raise self.fault("E-DATA-011", "the line holds a NUL byte", fix=FRESH_COPY)
        try:
            self.values = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError:
            raise self.fault("E-DATA-010", "the line is not valid UTF-8", fix="save the file as UTF-8") from None
        except (ValueError, RecursionError):
            # Python's message can quote the line, so neither it nor its traceback goes further.
            raise self.fault("E-DATA-013", "the line is not valid JSON", fix=FRESH_COPY) from None
        if not isinstance(self.values, dict):
            raise self.fault("E-DATA-014", "the line is not a JSON object", fix="write one object with named fields")

    def fault(self, code, problem, field=None, fix=""):
        problem = f"field '{field}' {problem}" if field else problem
        return DataError(code, problem, file=self.file, line=self.number, field=field, fix=fix)

    def text(self, field, optional=False):
        value = self.values.get(field)
        if value is None and optional:
            return ""
        if field not in self.values:
            raise self.fault("E-DATA-017", "is missing", field, "use the official file, which has this field")
        if not isinstance(value, str):
            raise self.fault("E-DATA-015", f"is a {type(value).__name__}, expected a string", field, FRESH_COPY)
        if "\0" in value:
            raise self.fault("E-DATA-011", "holds a NUL character", field, FRESH_COPY)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.fault("E-DATA-016", "holds half a surrogate pair", field, "save the file as UTF-8") from None
        return value

    def sentence(self, field):
        value = self.text(field)
        if not value.strip():
            raise self.fault("E-DATA-019", "is empty", field, "fill in the sentence or remove the line")
        return value


def _either_name(path):
    other = path.with_name(path.name.removesuffix(".gz") if path.suffix == ".gz" else path.name + ".gz")
    return next((candidate for candidate in (path, other) if candidate.is_file()), None)


def find_files(name, corpus, folder):
    folder = folder / name if (folder / name).is_dir() else folder
    paths, problems = {}, Problems()
    for split, file in corpus.files.items():
        paths[split] = _either_name(folder / file)
        if paths[split] is None:
            lacking = f"neither {file} nor {file}.gz is in {folder}" if folder.is_dir() else f"no folder {folder}"
            fix = f"{corpus.source} and put {file} into $MEDNLI_JAX_DATA/{name}/"
            problems.add(DataError("E-DATA-001", lacking, file=file, fix=fix))
    problems.raise_if_any()
    return paths


def _check_limit(limit):
    if limit is not None and limit <= 0:
        raise UserError(f"The limit is {limit}, expected at least 1 pair (leave it out for all).")


def _suggest(word, known):
    close = difflib.get_close_matches(word, known, n=1)
    return (f" Did you mean '{close[0]}'?" if close else "") + f" Known: {', '.join(known)}."
