"""F1 by disease on DisKnE, its averages, and Tables 1 to 8 of Alghanmi et al. 2021 with ours beside the paper's.

A system is its runs, {run: {uid: predicted label}}: an example is tested in one fold alone, so that the predictions of
all folds are one mapping. All test examples of a disease count, the negatives among them (the published script left
false positives out).
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mednli_jax.analysis.sections import Grid
from mednli_jax.analysis.tables import fill, published
from mednli_jax.corpora.diskne.benchmark import CATEGORIES, POSITIVE, Benchmark
from mednli_jax.corpora.diskne.folds import Fold, phrase
from mednli_jax.errors import RunError, UsageError
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
PAPER = published("diskne")

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
    Raises: RunError where a run lacks predictions of test examples.
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
        raise RunError("there are no runs to score. Fix: give one at least.")
    for run, said in runs.items():
        if missing := sorted(tested - set(said)):
            problem = f"{run}: {len(missing):,} of {len(tested):,} test examples have no prediction"
            raise RunError(f"{problem}, {missing[0]} the first. Fix: predict every fold of the benchmark.")


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

    systems: name -> runs; in Table 7 all systems have to be of examples with the same uids. Table 1 needs none.
    Raises: UsageError for an unknown table; RunError as `scores`.
    """
    theirs = PAPER["tables"].get(str(number))
    if theirs is None:
        raise UsageError(f"Table {number} is none of the paper's. Fix: give one of {', '.join(PAPER['tables'])}.")
    if number == 1:
        return _counts(benchmark, theirs)
    found = {name: scores(benchmark, folds, runs) for name, runs in systems.items()}
    if "diseases" in theirs:
        return _per_disease(number, benchmark, found, theirs)
    rows = {(average, category): (average, TITLES[category]) for average in AVERAGES for category in CATEGORIES}
    columns = _averages_of(found, {key: key[1] for key in rows}, theirs["columns"], lambda key: theirs[key[0]][key[1]])
    return fill(f"Table {number}: {theirs['caption']}", ("average", "category"), rows, columns)


def _counts(benchmark: Benchmark, theirs: dict) -> Grid:
    positive = {c: [e.is_positive for e in benchmark.examples if e.category == c] for c in CATEGORIES}
    columns = [
        ("positives", {category: str(sum(found)) for category, found in positive.items()}),
        ("negatives", {category: str(len(found) - sum(found)) for category, found in positive.items()}),
        *_published(theirs["columns"], {c: list(map(str, figures)) for c, figures in theirs["rows"].items()}, ""),
    ]
    titles = {category: (TITLES[category],) for category in CATEGORIES}
    return fill(f"Table 1: examples of {benchmark.name}", ("category",), titles, columns)


def _per_disease(number: int, benchmark: Benchmark, found: Mapping[str, dict], theirs: dict) -> Grid:
    """A row for each disease of ours, for each other disease of the paper's, and for both averages."""
    category = theirs["category"]
    scored = {name: of.get(category, {"diseases": {}}) for name, of in found.items()}
    ours = next(iter(scored.values()), {"diseases": {}})["diseases"]
    called = _paper_names(benchmark, ours, theirs["diseases"])
    order = sorted(ours, key=lambda disease: (-ours[disease]["positives"], benchmark.names[disease]))
    others = sorted(theirs["diseases"].keys() - set(called.values()))
    rows = {disease: (benchmark.names[disease],) for disease in order}
    rows |= {("paper", name): (name,) for name in others}
    rows |= {average: (f"{average} average",) for average in AVERAGES}
    figures = {disease: theirs["diseases"][name] for disease, name in called.items()}
    figures |= {("paper", name): theirs["diseases"][name] for name in others}
    cells = {key: list(map(str, values)) for key, values in figures.items()}
    cells |= {average: [_spread(*value) for value in theirs[average]] for average in AVERAGES}
    columns = [("positives", {disease: str(one["positives"]) for disease, one in ours.items()})]
    for name, of in scored.items():
        of_disease = {disease: _points(one["f1"]) for disease, one in of["diseases"].items()}
        columns.append((name, of_disease | {average: _mean_sd(of.get(average)) for average in AVERAGES}))
    always = {disease: _points(one["always_positive"]) for disease, one in ours.items()}
    columns.append((ALWAYS, always | _always(scored.values())))
    caption = f"Table {number}: {TITLES[category]}, F1 of the positive class in %, {benchmark.name}"
    columns += _published(PAPER["models"], cells)
    return fill(caption, ("disease",), rows, columns)


def _averages_of(found, categories, names, paper) -> list:
    """Columns of averages: each system's, the constant classifier's, the paper's. categories: key -> its category."""
    columns = []
    for name, of in found.items():
        columns.append((name, {key: _mean_sd(of.get(c, {}).get(key[0])) for key, c in categories.items()}))
    first = next(iter(found.values()), {})
    always = {key: _always([first.get(c, {})]).get(key[0], "") for key, c in categories.items()}
    cells = {key: [_spread(*value) for value in paper(key)] for key in categories}
    return [*columns, (ALWAYS, always), *_published(names, cells)]


def _always(scored: Iterable[Mapping]) -> dict[str, str]:
    """average -> that of the classifier that always says true, from the first of some systems' scores."""
    found = next(iter(scored), {}).get("always_positive", {})
    return {average: _points(value) for average, value in found.items()}


def _published(names: Sequence[str], cells: Mapping, prefix="paper: ") -> list[tuple[str, dict]]:
    """The paper's columns. cells: key of a row -> its cells in these columns."""
    return [(f"{prefix}{name}", {key: row[i] for key, row in cells.items()}) for i, name in enumerate(names)]


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


def _points(value: float) -> str:
    return f"{100 * value:.0f}"


def _spread(mean, sd) -> str:
    return f"{mean} ±{sd}"


def _mean_sd(found: dict | None) -> str:
    """As the paper prints it; the sd has no meaning for a single run."""
    if found is None:
        return ""
    return _points(found["mean"]) + (f" ±{100 * found['sd']:.1f}" if len(found["per_seed"]) > 1 else "")
