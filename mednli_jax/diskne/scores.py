"""Scores of DisKnE's folds, and the files and the page of their runs.

A run saves its predictions for the test examples of each fold and seed (private/folds.jsonl) and a
description of its examples (private/examples.jsonl); neither file holds text. In scores a system is
its runs, {run: {uid: probabilities of the classes}}. All test examples of a disease count,
negatives too (the published script left false positives out).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mednli_jax.data.examples import LABELS
from mednli_jax.diskne.data import CATEGORIES, POSITIVE, Benchmark, DiseaseExample
from mednli_jax.diskne.folds import Fold
from mednli_jax.errors import Problems
from mednli_jax.files.reading import json_lines
from mednli_jax.report import charts
from mednli_jax.report.metrics import mean_sd, per_class
from mednli_jax.report.sections import Grid, RunSections, Section, points
from mednli_jax.rundir import RunDirectory
from mednli_jax.types import Json

AVERAGES = ("macro", "weighted")
TITLES = {
    "symptoms": "Symptoms > Disease",
    "treatments": "Treatments > Disease",
    "tests": "Tests > Disease",
    "procedures": "Procedures > Disease",
    "terminological": "Terminological",
}
ALWAYS = "always positive"
_POSITIVE = LABELS.index(POSITIVE)
SLOTS, EXAMPLES = "folds.jsonl", "examples.jsonl"
Runs = Mapping[str, Mapping[str, Sequence[float]]]
Scores = dict[str, Json]  # JSON values


def scores(benchmark: Benchmark, folds: Sequence[Fold], runs: Runs) -> dict[str, Scores]:
    """Scores a system's runs in each category, 0-1; without the categories that no fold reports.

    Returns, for each category
      diseases: {disease: {"f1": mean over the runs, "per_run", "positives", "negatives",
        "always_positive"}};
      macro, weighted: `mean_sd` over the runs of the mean over diseases, which weigh the same or by
        positive examples;
      always_positive: both averages of a classifier that always says true.
    """
    of_category = {}
    for category in CATEGORIES:
        tested = _test_examples(benchmark, folds, category)
        if tested:
            diseases = {}
            for disease, examples in tested.items():
                gold_N = np.array([LABELS.index(example.pair.label) for example in examples])
                diseases[disease] = _disease_scores(gold_N, _probabilities(examples, runs))
            of_category[category] = with_averages(diseases)
    return of_category


def _test_examples(
    benchmark: Benchmark, folds: Sequence[Fold], category: str
) -> dict[str, list[DiseaseExample]]:
    """The test examples of a category, by disease."""
    tested: dict[str, list[DiseaseExample]] = {}
    for fold in folds:
        if category in fold.categories:
            tested[fold.disease] = []
            for row in fold.test:
                example = benchmark.examples[row]
                if example.category == category:
                    tested[fold.disease].append(example)
    return tested


def _probabilities(examples: Sequence[DiseaseExample], runs: Runs) -> np.ndarray:
    """float64 [R, N, C], the probabilities of each run."""
    p = []
    for p_of_uid in runs.values():
        p.append([p_of_uid[example.uid] for example in examples])
    return np.array(p)


def _disease_scores(gold_N: np.ndarray, p_RNC: np.ndarray) -> Scores:
    per_run = [_f1(gold_N, p_NC.argmax(axis=1)) for p_NC in p_RNC]
    positives = int((gold_N == _POSITIVE).sum())
    return {
        "f1": float(np.mean(per_run)),
        "per_run": per_run,
        "positives": positives,
        "negatives": len(gold_N) - positives,
        "always_positive": _f1(gold_N, np.full(len(gold_N), _POSITIVE)),
    }


def _f1(gold_N: np.ndarray, predicted_N: np.ndarray) -> float:
    return per_class(gold_N, predicted_N)[POSITIVE]["f1"]


def with_averages(diseases: Mapping[str, Scores]) -> Scores:
    """Adds the averages to the scores of diseases."""
    positives, always, per_run = [], [], []
    for of_disease in diseases.values():
        positives.append(of_disease["positives"])
        always.append(of_disease["always_positive"])
        per_run.append(of_disease["per_run"])
    positives_D, always_D = np.array(positives, float), np.array(always)
    f1_DR = np.array(per_run)
    return {
        "diseases": diseases,
        "macro": mean_sd(f1_DR.mean(axis=0)),
        "weighted": mean_sd(np.average(f1_DR, axis=0, weights=positives_D)),
        "always_positive": {
            "macro": float(always_D.mean()),
            "weighted": float(np.average(always_D, weights=positives_D)),
        },
    }


# -- the files of a run ----------------------------------------------------------------------------


def _lines(path: Path) -> list[Scores]:
    """Reads the rows of one of a run's files; [] without the file."""
    problems = Problems()
    rows = [row for _, row in json_lines(path, problems)] if path.is_file() else []
    problems.raise_if_any()
    return rows


def read_slots(directory: RunDirectory) -> list[Scores]:
    """Reads a row for each fold and seed that is done: disease, group, seed, best_epoch, dev, test
    (uid: probabilities)."""
    return _lines(directory.private / SLOTS)


def write_examples(directory: RunDirectory, benchmark: Benchmark) -> None:
    """Writes a description of the examples, so that a report needs no corpus."""
    rows = []
    for example in benchmark.examples:
        rows.append(
            {
                "uid": example.uid,
                "disease": example.disease,
                "target": example.target,
                "category": example.category,
                "label": example.pair.label,
            }
        )
    directory.write_lines(EXAMPLES, rows)


def probabilities(slots: Iterable[Scores]) -> dict[str, dict[str, list[float]]]:
    """Maps seed and uid to the probabilities of the classes. Each example is tested in one fold of
    a seed."""
    runs: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for slot in slots:
        runs[str(slot["seed"])].update(slot["test"])
    return dict(runs)


def run_sections(folder: Path) -> RunSections:
    """The averages of each category, and F1 of each disease, of a finished run; empty for an
    unfinished run."""
    result = RunDirectory.existing(folder).result().values
    if result["status"] != "complete":
        return RunSections()
    categories = {
        name: result["categories"][name] for name in TITLES if name in result["categories"]
    }
    rows: list[tuple[str, ...]] = []
    series: dict[str, list[float]] = {"macro F1": [], ALWAYS: []}
    for category, of_category in categories.items():
        rows.append(_category_row(category, of_category))
        series["macro F1"].append(100 * of_category["macro"]["mean"])
        series[ALWAYS].append(100 * of_category["always_positive"]["macro"])
    averages = ("macro F1", "weighted F1", ALWAYS)
    header = ("category", "diseases", "positives", "negatives", *averages)
    words = [
        "F1 of the positive class in points, mean and sd over runs; each disease is tested by its "
        "own fold"
    ]
    grid = Grid("", header, rows)
    title = "Macro F1 by category, and that of calling all examples positive"
    chart = charts.bars(series, list(categories), title=title, x="category", y="F1 (points)")
    return RunSections(
        [Section("Scores", words, [grid], [(title, chart)])],
        [_diseases(categories, result["names"])],
    )


def _diseases(categories: Mapping[str, Scores], names: Mapping[str, str]) -> Section:
    """A section with a row for each disease and a column for each category; the diseases of most
    positive examples come first."""
    positives: dict[str, int] = defaultdict(int)
    for of_category in categories.values():
        for disease, of_disease in of_category["diseases"].items():
            positives[disease] += of_disease["positives"]
    rows = []
    for disease in sorted(positives, key=lambda name: (-positives[name], names[name])):
        cells = [names[disease]]
        for of_category in categories.values():
            of_disease = of_category["diseases"].get(disease)
            cell = f"{points(of_disease['f1'])} ({of_disease['positives']})" if of_disease else "-"
            cells.append(cell)
        rows.append(tuple(cells))
    words = ["F1 of the positive class in points; in brackets: positive examples"]
    return Section("Diseases", words, [Grid("", ("disease", *categories), rows)])


def _category_row(category: str, of_category: Scores) -> tuple[str, ...]:
    diseases = of_category["diseases"].values()
    counts = []
    for name in ("positives", "negatives"):
        counts.append(str(sum(of_disease[name] for of_disease in diseases)))
    averages = [mean_cell(of_category[average]) for average in AVERAGES]
    always = points(of_category["always_positive"]["macro"])
    return (TITLES[category], str(len(diseases)), *counts, *averages, always)


def mean_cell(figures: Scores) -> str:
    """A mean over runs in points, with its deviation if there are several runs."""
    spread = f" ±{points(figures['sd'])}" if len(figures["per_seed"]) > 1 else ""
    return f"{points(figures['mean'])}{spread}"
