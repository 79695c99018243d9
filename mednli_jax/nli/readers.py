"""Readers of MedNLI, MEDIQA-NLI, SNLI, MultiNLI and of the user's own files, plain or gzipped.

Errors name the file, the line and the field; they never quote a sentence.
"""

import difflib
import hashlib
from collections import Counter
from itertools import combinations
from pathlib import Path

from mednli_jax.data.examples import LABELS, NLIExample, Split
from mednli_jax.data.text import binary_parse_tokens, blank_tokens, treebank_tokens
from mednli_jax.errors import ConfigError, DataError, Problems
from mednli_jax.io import FRESH_COPY, either_name, empty_file, sha256
from mednli_jax.nli import formats
from mednli_jax.nli.files import CORPORA, find_files, ground_truth_path, read_with

UNLABELLED = "-"  # the annotators reached no majority
ENDINGS = {".jsonl": formats.json_rows, ".txt": formats.tsv_rows, ".tsv": formats.tsv_rows, ".csv": formats.csv_rows}


def load_nli(
    name: str, folder: Path, *, limit: int | None = None, genre: str = "", needed: str = ""
) -> dict[str, Split]:
    """Splits of a corpus of CORPORA: train, dev, and test where its labels are public.

    folder: the corpus's own folder, or the data folder ($MEDNLI_JAX_DATA) that holds it under `name`.
    limit: number of labelled pairs of train that are kept; dev and test are always complete.
    genre: MultiNLI only, train and dev of one genre; "" means all.
    needed: the one split that is needed; if it is there, the files of the others may be missing.
    Raises: ConfigError for unknown names; DataError(s) for missing or bad files, or pairs shared between splits.
    """
    check_options(name, limit, genre)
    corpus = CORPORA[name]
    paths = find_files(name, corpus, Path(folder), needed)
    truth = ground_truth_path(corpus, paths)
    return check_disjoint(
        {
            split: read_nli_file(
                path,
                split=split,
                limit=limit if split == "train" else None,
                genre=genre or None,
                ground_truth=truth if split == "test" else None,
            )
            for split, path in paths.items()
        }
    )


def check_options(name: str, limit: int | None, genre: str) -> None:
    """Raises ConfigError for an unknown corpus or genre, or a limit under 1."""
    if name not in CORPORA:
        known, near = ", ".join(CORPORA), _near(name, CORPORA)
        raise ConfigError(f"unknown corpus '{name}'.{near} Fix: give one of {known}.")
    corpus = CORPORA[name]
    if genre and not corpus.genres:
        raise ConfigError(f"config.data.genre: '{name}' has no genres. Fix: leave the genre out.")
    if genre and genre not in corpus.genres:
        known, near = ", ".join(corpus.genres), _near(genre, corpus.genres)
        raise ConfigError(f"config.data.genre: unknown value '{genre}'.{near} Fix: give one of {known}.")
    _check_limit(limit)


def read_nli_file(
    path, *, split: str, limit: int | None = None, genre: str | None = None, ground_truth: Path | None = None
) -> Split:
    """Reads one file, plain or gzipped, whether or not `path` ends in .gz. The ending tells the format.

    .jsonl: JSON lines. .txt, .tsv: a header and TAB-separated columns without quoting, as SNLI and MultiNLI have.
    .csv: a header and quoted cells. s1.SPLIT: the premises of `s1 s2 labels`, tokens separated by blanks.
    Fields: gold_label sentence1 sentence2 (or label premise hypothesis), optional pairID (or uid), captionID or
    promptID, genre, sentence1_binary_parse and sentence2_binary_parse.
    Pairs labelled `-` are dropped and counted. uid is the pairID, else "<file stem>:<line>"; group the captionID or
    promptID, else a hash of the premise. Tokens come from the two binary parses, else from text.treebank_tokens.
    limit: stop after this many labelled pairs. genre: skip pairs of other genres.
    ground_truth: a CSV file of pairID and label, whose labels replace those of `path`.
    Raises: DataError, or DataErrors with the first 20 faults together, also for an ending that names no format;
    ConfigError for a limit under 1.
    """
    _check_limit(limit)
    path = either_name(Path(path)) or Path(path)
    stem, rows = _format(path)
    truth = formats.GroundTruth(ground_truth) if ground_truth else None
    reader = _Reader(path.name, stem, genre, truth)
    for number, row in rows(path, reader.problems):
        reader.take(number, row)
        if limit is not None and len(reader.examples) == limit:
            break
    if truth and not reader.problems.total:
        for fault in truth.without_pair(reader.lines_of_uids):
            reader.problems.add(fault)
    reader.problems.raise_if_any()
    if not reader.examples:
        raise empty_file(path, f"no labelled pair of genre '{genre}'" if genre else "no labelled pair")
    facts = {"file": path.name, "sha256": sha256(path), **reader.facts()}
    beside = [file for file in read_with(path, ground_truth) if file != path]
    if beside:
        facts["read_with"] = {file.name: sha256(file) for file in beside}
    return Split(split, tuple(reader.examples), facts)


def _format(path):
    """(name without its endings, the reader of its rows)."""
    name = path.name.removesuffix(".gz")
    if name.startswith("s1."):
        return name, formats.triple_rows
    stem, ending = Path(name).stem, Path(name).suffix
    if ending not in ENDINGS:
        fix = f"use one of {', '.join(ENDINGS)}, or s1.SPLIT"
        raise DataError("the ending names no format", file=path.name, fix=fix)
    return stem, ENDINGS[ending]


def check_disjoint(splits: dict[str, Split]) -> dict[str, Split]:
    """The same splits. Raises: DataError for a uid in two splits: the model would be tested on a training pair."""
    for earlier, later in combinations(splits.values(), 2):
        uids = {pair.uid for pair in later.examples}
        if common := sum(pair.uid in uids for pair in earlier.examples):
            raise DataError(
                f"{common} pairs stand in {earlier.name} as well as in {later.name} (same pairID)",
                file=later.facts.get("file"),
                field="pairID",
                fix=FRESH_COPY,
            )
    return splits


def shared_texts(splits: dict[str, Split]) -> dict[str, dict[str, dict[str, int]]]:
    """{split: {earlier split: {"pairs", "premises"}}}: how many pairs of a split have a copy in an earlier one.

    "pairs": the same premise and hypothesis; "premises": the same premise. Texts are compared, not uids or labels.
    """
    found = {}
    for earlier, later in combinations(splits.values(), 2):
        premises = {pair.premise for pair in later.examples}  # the later splits are small, train is large
        there = [(pair.premise, pair.hypothesis) for pair in earlier.examples if pair.premise in premises]
        pairs, premises = set(there), {premise for premise, _ in there}
        found.setdefault(later.name, {})[earlier.name] = {
            "pairs": sum((pair.premise, pair.hypothesis) in pairs for pair in later.examples),
            "premises": sum(pair.premise in premises for pair in later.examples),
        }
    return found


class _Reader:
    """Turns the rows of one file into examples, and counts."""

    def __init__(self, file, stem, genre, truth):
        self.file, self.stem, self.genre, self.truth = file, stem, genre, truth
        self.examples, self.problems, self.lines_of_uids = [], Problems(), {}
        self.rows = self.unlabelled = self.other_genres = 0
        self.token_sources = {"binary parse": 0, "treebank": 0}

    def take(self, number, row):
        self.rows += 1
        try:
            self._take_row(number, row)
        except DataError as error:
            self.problems.add(error)

    def _take_row(self, number, row):
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
        label = self._label(row, uid)
        if label == UNLABELLED:
            self.unlabelled += 1
            return
        if label not in LABELS:
            raise row.fault(*_wrong_label(label))
        premise, hypothesis = row.sentence("sentence1"), row.sentence("sentence2")
        tokens = self._tokens(row, premise, hypothesis)
        group = row.text("captionID", optional=True) or row.text("promptID", optional=True)
        group = group or hashlib.sha256(premise.encode()).hexdigest()[:16]
        self.examples.append(
            NLIExample(uid, premise, hypothesis, label, *tokens, group=group, tags=(genre,) if genre else ())
        )

    def _label(self, row, uid):
        if not self.truth:
            return row.text("gold_label")
        if uid not in self.truth.labels:
            problem = f"has no label in {self.truth.path.name}"
            raise row.fault(problem, "pairID", "take both files from the same release")
        return self.truth.labels[uid]

    def _tokens(self, row, premise, hypothesis):
        if row.tokenised:
            self.token_sources["blanks"] = self.token_sources.get("blanks", 0) + 1
            return [blank_tokens(premise), blank_tokens(hypothesis)]
        fields = ("sentence1_binary_parse", "sentence2_binary_parse")
        parses = [row.text(field, optional=True) for field in fields]
        source = "binary parse" if all(parse.strip() for parse in parses) else "treebank"
        self.token_sources[source] += 1
        if source == "treebank":
            return [treebank_tokens(premise), treebank_tokens(hypothesis)]
        tokens = [binary_parse_tokens(parse) for parse in parses]
        for field, parse, found in zip(fields, parses, tokens, strict=True):
            if _unbalanced(parse):
                raise row.fault("has an unbalanced bracket: it is cut short", field, FRESH_COPY)
            if not found:
                raise row.fault("holds no tokens", field, "correct or leave out both parses")
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


def _wrong_label(label) -> tuple[str, str, str]:
    """(problem, field, fix) of a wrong label. It is quoted only if it is one of LABELS in another case."""
    if (meant := label.strip().casefold()) in LABELS:
        return f"is '{meant}' in another case or between blanks", "gold_label", "write labels as they stand here"
    problem = "is a number, " if label.strip().lstrip("-").isdecimal() else "is "
    return f"{problem}none of {', '.join(LABELS)}, -", "gold_label", "correct the label"


def _unbalanced(parse):
    if parse.count("(") == parse.count(")"):
        return False
    pieces = parse.split()  # a bracket inside a token, as in a smiley, is no bracket of the tree
    return pieces.count("(") != pieces.count(")")


def _check_limit(limit):
    if limit is not None and limit <= 0:
        raise ConfigError(f"config.data.limit is {limit}. Fix: give at least 1, or leave it out for all.")


def _near(word, known):
    close = difflib.get_close_matches(word, known, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""
