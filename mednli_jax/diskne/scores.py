"""Scores of DisKnE's folds, and the files and the page of their runs.

A run saves its predictions for the test examples of each fold and seed (private/folds.jsonl) and a
description of its examples (private/examples.jsonl); neither file holds text. In scores a system is
its runs, {run: {uid: probabilities of the classes}}. All test examples of a disease count,
negatives too (the published script left false positives out).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

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
RANKED = {
    "hits": "hits@1",  # share of the queries whose true disease comes first
    "reciprocal_rank": "MRR",  # mean of 1 / rank of the true disease
    "average_precision": "AP",  # over all examples of a disease, whatever their premises
}
Runs = Mapping[str, Mapping[str, Sequence[float]]]
Scores = dict[str, Json]  # JSON values


def scores(benchmark: Benchmark, folds: Sequence[Fold], runs: Runs) -> dict[str, Scores]:
    """Scores a system's runs in each category, 0-1; without the categories that no fold reports.

    Returns, for each category
      diseases: {disease: {"f1": mean over the runs, "per_run", "positives", "negatives",
        "always_positive"}};
      macro, weighted: `mean_sd` over the runs of the mean over diseases, which weigh the same or by
        positive examples;
      always_positive: both averages of a classifier that always says true;
      ranking: `mean_sd` over the runs of the means over diseases of each of RANKED, and "chance",
        the hits@1 of guessing; missing if no positive example has a negative.
    """
    of_category = {}
    for category in CATEGORIES:
        tested = _test_examples(benchmark, folds, category)
        if tested:
            diseases, ranked = {}, []
            for disease, examples in tested.items():
                gold_N = np.array([LABELS.index(example.pair.label) for example in examples])
                p_RNC = _probabilities(examples, runs)
                diseases[disease] = _disease_scores(gold_N, p_RNC)
                is_positive_N = gold_N == _POSITIVE
                if ranks := _ranks(_queries(examples, is_positive_N), is_positive_N, p_RNC):
                    ranked.append(ranks)
            of_category[category] = {**with_averages(diseases), **_ranking(ranked)}
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


# With one positive in eleven examples a model may rank well and still call nothing positive: its F1
# is 0 then. A query is a positive example with the negatives made from it. Where probabilities are
# equal, hits@1 and MRR are their means over all orders; AP treats equal ones as one step, as
# scikit-learn does.


class Ranks(NamedTuple):
    """Measures of a disease. per_run: a measure of RANKED -> its value in each run."""

    per_run: Mapping[str, Sequence[float]]
    chance: float


def _ranking(ranked: Sequence[Ranks]) -> Scores:
    """The means over diseases, under the key `ranking`; {} if no disease has ranks."""
    if not ranked:
        return {}
    ranking: Scores = {}
    for name in RANKED:
        value_DR = np.array([ranks.per_run[name] for ranks in ranked])
        ranking[name] = mean_sd(value_DR.mean(axis=0))
    ranking["chance"] = float(np.mean([ranks.chance for ranks in ranked]))
    return {"ranking": ranking}


def _ranks(
    queries: Sequence[np.ndarray], is_positive_N: np.ndarray, p_RNC: np.ndarray
) -> Ranks | None:
    """The measures of a disease; None if no positive example has a negative."""
    if not queries:
        return None
    from sklearn.metrics import average_precision_score

    per_run: dict[str, list[float]] = {name: [] for name in RANKED}
    for p_N in p_RNC[..., _POSITIVE]:
        rank_Q2 = np.array([_rank(p_N[rows], is_positive_N[rows]) for rows in queries])
        hits, reciprocal = rank_Q2.mean(axis=0)
        per_run["hits"].append(float(hits))
        per_run["reciprocal_rank"].append(float(reciprocal))
        per_run["average_precision"].append(average_precision_score(is_positive_N, p_N))
    return Ranks(per_run, float(np.mean([1 / len(rows) for rows in queries])))


def _queries(examples: Sequence[DiseaseExample], is_positive_N: np.ndarray) -> list[np.ndarray]:
    """The rows of each positive example with its negatives."""
    rows_of_query = defaultdict(list)
    for row, example in enumerate(examples):
        made_from = example.uid.removesuffix(f".{example.disease}")
        rows_of_query[example.uid if example.is_positive else made_from].append(row)
    queries = []
    for rows in rows_of_query.values():
        if len(rows) > 1 and is_positive_N[rows].sum() == 1:
            queries.append(np.array(rows))
    return queries


def _rank(p_Q: np.ndarray, gold_Q: np.ndarray) -> tuple[float, float]:
    """The (hits@1, reciprocal rank) of the one positive, means over the orders of equal
    probabilities."""
    above, equal = int((p_Q[~gold_Q] > p_Q[gold_Q]).sum()), int((p_Q[~gold_Q] == p_Q[gold_Q]).sum())
    ranks = above + 1 + np.arange(equal + 1)
    return float((ranks == 1).mean()), float((1 / ranks).mean())


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
    header = ("category", "diseases", "positives", "negatives", *averages, *RANKED.values())
    words = [
        "F1 of the positive class in points, mean and sd over runs; each disease is tested by its "
        "own fold",
        "Without a threshold: hits@1 and the mean reciprocal rank (MRR) of the true disease among "
        "the ten or so that a premise is tested with; average precision (AP) over a disease's "
        "examples; means over diseases",
    ]
    grid = Grid("", (*header, "hits@1 by chance"), rows)
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
    ranks = ["-"] * (len(RANKED) + 1)
    if ranking := of_category.get("ranking"):
        ranks = [mean_cell(ranking[name]) for name in RANKED]
        ranks.append(points(ranking["chance"]))
    always = points(of_category["always_positive"]["macro"])
    return (TITLES[category], str(len(diseases)), *counts, *averages, always, *ranks)


def mean_cell(figures: Scores) -> str:
    """A mean over runs in points, with its deviation if there are several runs."""
    spread = f" ±{points(figures['sd'])}" if len(figures["per_seed"]) > 1 else ""
    return f"{points(figures['mean'])}{spread}"
