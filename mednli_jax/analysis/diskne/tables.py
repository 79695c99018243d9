"""F1 by disease on DisKnE, its averages, and Tables 1 to 8 of Alghanmi et al. 2021 with ours beside the paper's.

A system is its runs, {run: {uid: predicted label}}: an example is tested in one fold alone, so that the predictions of
all folds are one mapping. All test examples of a disease count, the negatives among them (the published script left
false positives out).
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mednli_jax.analysis.diskne import published as paper
from mednli_jax.analysis.sections import Grid
from mednli_jax.corpora.diskne.benchmark import CATEGORIES, POSITIVE, Benchmark
from mednli_jax.corpora.diskne.folds import Fold, phrase
from mednli_jax.errors import UserError
from mednli_jax.metrics import mean_sd

AVERAGES = ("macro", "weighted")
TITLES = {
    "symptoms": "Symptoms > Disease",
    "treatments": "Treatments > Disease",
    "tests": "Tests > Disease",
    "procedures": "Procedures > Disease",
    "terminological": "Terminological",
}
ALWAYS = "always positive"
TABLES = tuple(range(1, 9))

Runs = Mapping[str, Mapping[str, str]]


def f1_of(gold: Sequence[bool], said: Sequence[bool]) -> float:
    """F1 of the positive class; 0 where there is nothing to find or nothing found."""
    gold, said = np.asarray(gold, bool), np.asarray(said, bool)
    positives = int(gold.sum() + said.sum())
    return 2 * int((gold & said).sum()) / positives if positives else 0.0


def scores(benchmark: Benchmark, folds: Sequence[Fold], runs: Runs) -> dict[str, dict]:
    """category -> what a system's runs reach on it, 0-1.

    diseases: {disease: {"f1": mean over the runs, "per_run", "positives", "negatives", "always_positive"}}.
    macro, weighted: `mean_sd` over the runs of the mean over diseases, each weighing the same or by its positive
    examples. always_positive: both averages of a classifier that says true of all. Categories that no fold reports are
    left out.
    Raises: UserError where a run lacks predictions of test examples.
    """
    _check(benchmark, folds, runs)
    found = {}
    for category in CATEGORIES:
        diseases = {}
        for fold in folds:
            if category in fold.categories:
                diseases[fold.disease] = _of_disease(benchmark, fold, category, runs)
        if diseases:
            found[category] = {"diseases": diseases, **_averages(list(diseases.values()))}
    return found


def _check(benchmark, folds, runs):
    tested = {benchmark.examples[row].uid for fold in folds for row in fold.test}
    if not runs:
        raise UserError("there are no runs to score. Fix: give one at least.")
    for run, said in runs.items():
        if missing := sorted(tested - set(said)):
            problem = f"{run}: {len(missing):,} of {len(tested):,} test examples have no prediction"
            raise UserError(f"{problem}, {missing[0]} the first. Fix: predict every fold of the benchmark.")


def _of_disease(benchmark, fold, category, runs):
    examples = [benchmark.examples[row] for row in fold.test if benchmark.examples[row].category == category]
    gold = [example.is_positive for example in examples]
    per_run = [f1_of(gold, [said[example.uid] == POSITIVE for example in examples]) for said in runs.values()]
    return {
        "f1": float(np.mean(per_run)),
        "per_run": per_run,
        "positives": sum(gold),
        "negatives": len(gold) - sum(gold),
        "always_positive": f1_of(gold, [True] * len(gold)),
    }


def _averages(diseases: list[dict]) -> dict:
    weights = np.array([found["positives"] for found in diseases], float)
    always = np.array([found["always_positive"] for found in diseases])
    per_run = np.array([found["per_run"] for found in diseases])  # [diseases, runs]
    return {
        "macro": mean_sd(per_run.mean(axis=0)),
        "weighted": mean_sd(np.average(per_run, axis=0, weights=weights)),
        "always_positive": {"macro": float(always.mean()), "weighted": float(np.average(always, weights=weights))},
    }


# -- tables ------------------------------------------------------------------------------------------------------------


def table(number: int, benchmark: Benchmark, folds: Sequence[Fold], systems: Mapping[str, Runs]) -> Grid:
    """One of the paper's tables, in per cent: our systems, the classifier that always says true, the paper's columns.

    systems: name -> runs; Table 7 wants TABLE_7_COLUMNS for names, whose wordings have the same uids. Table 1 needs
    none. Raises: UserError for an unknown table, as `scores`.
    """
    if number not in TABLES:
        known = ", ".join(map(str, TABLES))
        raise UserError(f"Table {number} is none of the paper's. Fix: give one of {known}.")
    if number == 1:
        return _counts(benchmark)
    found = {name: scores(benchmark, folds, runs) for name, runs in systems.items()}
    if number in paper.PER_DISEASE:
        return _per_disease(number, benchmark, found)
    if number == 7:
        caption = "Table 7: whole sentence or name as hypothesis, with and without the premise (paper: ClinicalBERT)"
        return _by_category(caption, found, paper.TABLE_7_COLUMNS, paper.TABLE_7)
    return _by_category("Table 8: negatives selected at random", found, paper.MODELS, paper.TABLE_8)


def _counts(benchmark: Benchmark) -> Grid:
    rows = []
    for category in CATEGORIES:
        own = [example.is_positive for example in benchmark.examples if example.category == category]
        counts = (sum(own), len(own) - sum(own), paper.TABLE_1[category], paper.PUBLISHED_FILES[category])
        rows.append((TITLES[category], *map(str, counts)))
    header = ("category", "positives", "negatives", "paper: positives", "in its files")
    return Grid(f"Table 1: examples of {benchmark.name}", header, rows)


def _per_disease(number: int, benchmark: Benchmark, found: Mapping[str, dict]) -> Grid:
    theirs = paper.PER_DISEASE[number]
    of_system = {name: scored.get(theirs.category, {}) for name, scored in found.items()}
    ours = next(iter(of_system.values()), {}).get("diseases", {})
    called = _paper_names(benchmark, ours, theirs.diseases)
    rows = []
    for disease in sorted(ours, key=lambda disease: (-ours[disease]["positives"], benchmark.names[disease])):
        cells = [_points(scored["diseases"][disease]["f1"]) for scored in of_system.values()]
        always, figures = ours[disease]["always_positive"], theirs.diseases.get(called.get(disease), ("",) * 4)
        positives = str(ours[disease]["positives"])
        rows.append((benchmark.names[disease], positives, *cells, _points(always), *map(str, figures)))
    blank = [""] * (2 + len(of_system))
    for name in theirs.diseases.keys() - set(called.values()):
        rows.append((name, *blank, *map(str, theirs.diseases[name])))
    rows[len(ours) :] = sorted(rows[len(ours) :])
    for average, figures in zip(AVERAGES, (theirs.macro, theirs.weighted), strict=True):
        cells = [_mean_sd(scored.get(average)) for scored in of_system.values()]
        always = next(iter(of_system.values()), {}).get("always_positive", {}).get(average)
        row = (f"{average} average", "", *cells, "" if always is None else _points(always))
        rows.append((*row, *(f"{mean} ±{sd}" for mean, sd in figures)))
    header = ("disease", "positives", *of_system, ALWAYS, *(f"paper: {model}" for model in paper.MODELS))
    caption = f"Table {number}: {TITLES[theirs.category]}, F1 of the positive class in %, {benchmark.name}"
    return Grid(caption, header, rows)


def _paper_names(benchmark: Benchmark, diseases, wanted) -> dict[str, str]:
    """disease -> what the paper's table calls it: by its own name first, then by any other name of it."""
    named = {}
    for names_of in (lambda disease: (benchmark.names[disease],), lambda disease: benchmark.synonyms[disease]):
        for disease in sorted(set(diseases) - set(named)):
            phrases = {phrase(name) for name in names_of(disease)}
            free = (name for name in wanted if name not in named.values() and phrase(name) in phrases)
            if name := next(free, None):
                named[disease] = name
    return named


def _by_category(caption: str, found: Mapping[str, dict], columns: Sequence[str], theirs: dict) -> Grid:
    rows = []
    for average in AVERAGES:
        for category in CATEGORIES:
            scored = [of_system.get(category, {}) for of_system in found.values()]
            always = next(iter(scored), {}).get("always_positive", {}).get(average)
            cells = [_mean_sd(one.get(average)) for one in scored]
            figures = (f"{mean} ±{sd}" for mean, sd in theirs[average][category])
            rows.append((average, TITLES[category], *cells, "" if always is None else _points(always), *figures))
    header = ("average", "category", *found, ALWAYS, *(f"paper: {name}" for name in columns))
    return Grid(caption, header, rows, left=2)


def _points(value: float) -> str:
    return f"{100 * value:.0f}"


def _mean_sd(found: dict | None) -> str:
    """As the paper prints it; the sd has no meaning for a single run."""
    if found is None:
        return ""
    spread = f" ±{100 * found['sd']:.1f}" if len(found["per_seed"]) > 1 else ""
    return _points(found["mean"]) + spread


def markdown(grid: Grid) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield grid.caption
    yield ""
    yield "| " + " | ".join(grid.header) + " |"
    yield "|" + " --- |" * len(grid.header)
    for row in grid.rows:
        yield "| " + " | ".join(row) + " |"
