"""Runs of DisKnE's folds as a report shows them: scores by disease, and the paper's tables with ours beside them.

A run keeps its predictions for the test examples of each fold and seed (private/folds.jsonl) and a description of its
examples (private/examples.jsonl). Neither file holds text.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mednli_jax.data.examples import LABELS
from mednli_jax.diskne import tables
from mednli_jax.diskne.benchmark import POSITIVE, Benchmark
from mednli_jax.diskne.corpus import example_of, synonyms_of
from mednli_jax.diskne.folds import Fold
from mednli_jax.errors import DataError, RunError
from mednli_jax.io import write_atomic
from mednli_jax.report.outcomes import Outcomes, outcomes_of
from mednli_jax.report.runs import RunDirectory, read_json
from mednli_jax.report.sections import Grid, Section, points
from mednli_jax.report.tables import unlike

SLOTS, EXAMPLES = "folds.jsonl", "examples.jsonl"
TABLE = "diskne"  # how --table begins; the number follows: --table=diskne2
_SLOT = ("disease", "group", "seed", "best_epoch", "dev", "test")
_EXAMPLE = ("uid", "label", "disease", "target", "category")


@dataclass(frozen=True)
class System:
    """A finished run. runs: seed -> uid -> predicted label. unlike: how it differs from the paper's, see departures."""

    name: str
    benchmark: Benchmark
    folds: tuple[Fold, ...]
    runs: dict[str, dict[str, str]]
    unlike: tuple[str, ...] = ()


def write_lines(path: Path, rows: Iterable[dict]) -> None:
    write_atomic(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))


def _lines(path: Path, fields: Sequence[str]) -> list[dict]:
    """The rows of one of a run's files; none where there is no file."""
    rows = []
    if not path.is_file():
        return rows
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                rows.append({name: row[name] for name in fields})
            except (ValueError, TypeError, KeyError):
                fix = "restore the file, or train again"
                raise DataError("is not as a run writes it", file=str(path), line=number, fix=fix) from None
    return rows


def read_slots(directory: RunDirectory) -> list[dict]:
    """One row for each fold and seed that is done: disease, group, seed, best_epoch, dev, test (uid ->
    probabilities)."""
    return _lines(directory.private / SLOTS, _SLOT)


def write_examples(directory: RunDirectory, benchmark: Benchmark) -> None:
    """Writes a description of the examples, so that a report needs no corpus."""
    rows = ((e.uid, e.pair.label, e.disease, e.target, e.category) for e in benchmark.examples)
    write_lines(directory.private / EXAMPLES, (dict(zip(_EXAMPLE, row, strict=True)) for row in rows))


def probabilities(slots: Iterable[Mapping]) -> dict[str, dict[str, float]]:
    """seed -> uid -> the probability of the positive class."""
    runs, positive = defaultdict(dict), LABELS.index(POSITIVE)
    for slot in slots:
        runs[str(slot["seed"])] |= {uid: p[positive] for uid, p in slot["test"].items()}
    return dict(runs)


def predicted(slots: Iterable[Mapping]) -> dict[str, dict[str, str]]:
    """seed -> uid -> the most probable label; each example is tested in one fold of a seed."""
    runs = defaultdict(dict)
    for slot in slots:
        runs[str(slot["seed"])] |= {uid: LABELS[int(np.argmax(p))] for uid, p in slot["test"].items()}
    return dict(runs)


def finished(folder: Path) -> System:
    """A finished run of folds."""
    directory = RunDirectory.existing(folder)
    if directory.task != "diskne" or directory.status() != "complete":
        raise RunError(f"{folder}: is no finished run of folds. Fix: train one with configs/diskne_*.py.")
    about = read_json(folder / "data.json", "diskne")["diskne"]
    slots = read_slots(directory)
    examples = tuple(example_of(**row) for row in _lines(directory.private / EXAMPLES, _EXAMPLE))
    benchmark = Benchmark(about["name"], examples, about["names"], synonyms_of(about), about["facts"])
    place = {example.uid: row for row, example in enumerate(examples)}
    tested = {(slot["group"], slot["disease"]): [place[uid] for uid in slot["test"]] for slot in slots}
    none, found = np.zeros(0, np.int32), []
    for fold in about["folds"]:
        rows = tested.get((fold["group"], fold["disease"]))
        if rows is not None:  # the run may be of some diseases alone
            rows = np.array(sorted(rows), np.int32)
            found.append(Fold(fold["disease"], fold["group"], tuple(fold["categories"]), none, none, rows, {}))
    differs = tuple(unlike(folder, tables.PAPER))
    return System(folder.resolve().name, benchmark, tuple(found), predicted(slots), differs)


def outcomes(directory: RunDirectory, split: str) -> Outcomes:
    """A run's predictions for the test examples of all its folds."""
    if split != "test":
        raise RunError(f"{directory.folder}: folds have no predictions of the {split} split. Fix: give --split=test.")
    labels = {row["uid"]: row["label"] for row in _lines(directory.private / EXAMPLES, _EXAMPLE)}
    predictions = defaultdict(dict)
    for slot in read_slots(directory):
        predictions[slot["seed"]] |= slot["test"]
    uids = sorted(next(iter(predictions.values())))
    probabilities = np.array([[predictions[seed][uid] for seed in sorted(predictions)] for uid in uids], float)
    gold = np.array([LABELS.index(labels[uid]) for uid in uids])
    return outcomes_of(uids, gold, probabilities.argmax(axis=2), probabilities)


def systems(folder: Path) -> list[System]:
    """The finished runs of folds in a folder, by name."""
    names = sorted(path.parent for path in Path(folder).glob("*/config.json") if (path.parent / "lock").is_file())
    there = [RunDirectory.existing(path) for path in names]
    runs = [run.folder for run in there if run.task == "diskne" and run.status() == "complete"]
    if not runs:
        problem = f"{folder}: holds no finished run of folds"
        raise RunError(f"{problem}. Fix: give the folder that launch/diskne.sh made.")
    return [finished(path) for path in runs]


def table_section(number: str, found: Sequence[System]) -> Section:
    """One of the paper's tables."""
    first, columns = found[0], {system.name: system.runs for system in found}
    if number == "7":  # in the paper's order
        wordings = tables.PAPER["tables"]["7"]["columns"]
        columns = {name: columns[name] for name in wordings if name in columns} or columns
    grid = tables.table(number, first.benchmark, first.folds, columns)
    words = [f"ours on {first.benchmark.name}; F1 of the positive class in %, mean and sd over runs"]
    if note := first.benchmark.facts.get("note"):
        words.append(note)
    words += [f"{system.name}, unlike the paper's: {'; '.join(system.unlike)}" for system in found if system.unlike]
    return Section("DisKnE (Alghanmi et al. 2021)", words, [grid])


def score_sections(categories: Mapping[str, dict], names: Mapping[str, str]) -> list[Section]:
    """A run's scores: the averages of each category, and the F1 of each disease."""
    rows, each = [], []
    for category, found in categories.items():
        diseases = found["diseases"].values()
        counts = [str(sum(one[name] for one in diseases)) for name in ("positives", "negatives")]
        averages = [_mean_sd(found[average]) for average in tables.AVERAGES]
        always = points(found["always_positive"]["macro"])
        row = (tables.TITLES[category], str(len(found["diseases"])), *counts, *averages, always)
        if ranked := found.get("ranking"):
            row += (*(_mean_sd(ranked[name]) for name in tables.RANKED), points(ranked["chance"]))
        rows.append(row)
        each += [
            (names[disease], tables.TITLES[category], str(one["positives"]), points(one["f1"]))
            for disease, one in found["diseases"].items()
        ]
    header = ("category", "diseases", "positives", "negatives", "macro F1", "weighted F1", tables.ALWAYS)
    words = ["F1 of the positive class in points, mean and sd over runs; each disease is tested by its own fold"]
    if any("ranking" in found for found in categories.values()):
        header += (*tables.RANKED.values(), "hits@1 by chance")
        words.append(
            "Without a threshold: hits@1 and the mean reciprocal rank (MRR) of the true disease among the ten or so "
            "that a premise is tested with; average precision (AP) over a disease's examples; means over diseases"
        )
    rows = [row + ("-",) * (len(header) - len(row)) for row in rows]
    return [
        Section("Scores", words, [Grid("", header, rows)]),
        Section("Diseases", grids=[Grid("", ("disease", "category", "positives", "F1"), each, left=2)]),
    ]


def run_sections(folder: Path) -> tuple[list[Section], list[Section]]:
    """The scores of a finished run, which are shown before the learning curves, and those of each disease, from its
    result.json; of another run, none.
    """
    result = RunDirectory.existing(folder).result()
    if result["status"] != "complete":
        return [], []
    scores, diseases = score_sections(result["categories"], result["names"])
    return [scores], [diseases]


def _mean_sd(found):
    spread = f" ±{points(found['sd'])}" if len(found["per_seed"]) > 1 else ""
    return points(found["mean"]) + spread
