"""Runs of DisKnE's folds: their files, F1 by disease, ranks of the true disease, and Tables 1 to 8 of Alghanmi et al.
2021 with ours beside the paper's.

A run keeps its predictions for the test examples of each fold and seed (private/folds.jsonl) and a description of its
examples (private/examples.jsonl); neither file holds text. In scores a system is its runs, {run: {uid: predicted
label}}: each example is tested in one fold, so that the predictions of all folds fit in one mapping. All test examples
of a disease count, negatives too (the published script left false positives out).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mednli_jax.data.examples import LABELS
from mednli_jax.diskne.corpus import example_of, synonyms_of
from mednli_jax.diskne.data import CATEGORIES, POSITIVE, Benchmark, DiseaseExample
from mednli_jax.diskne.folds import Fold, phrase
from mednli_jax.errors import Problems, RunError, UsageError
from mednli_jax.io import json_lines, write_atomic
from mednli_jax.report.metrics import mean_sd
from mednli_jax.report.outcomes import Outcomes, outcomes_of
from mednli_jax.report.runs import RunDirectory, read_json
from mednli_jax.report.sections import Grid, Section, points
from mednli_jax.report.tables import fill, published, unlike

AVERAGES = ("macro", "weighted")
TITLES = {
    "symptoms": "Symptoms > Disease",
    "treatments": "Treatments > Disease",
    "tests": "Tests > Disease",
    "procedures": "Procedures > Disease",
    "terminological": "Terminological",
}
ALWAYS = "always positive"
LISTED = "listed"  # of our diseases those that the paper's table lists, which averages others
PAPER = published("diskne")
SLOTS, EXAMPLES = "folds.jsonl", "examples.jsonl"
TABLE = "diskne"  # how --table begins; the number follows: --table=diskne2

RANKED = {
    "hits": "hits@1",  # share of the queries whose true disease comes first
    "reciprocal_rank": "MRR",  # mean of 1 / rank of the true disease
    "average_precision": "AP",  # over all examples of a disease, whatever their premises
}

Runs = Mapping[str, Mapping[str, str]]


def f1_of(gold: Sequence[bool], predicted: Sequence[bool]) -> float:
    """F1 of the positive class; 0 where there is nothing to find or nothing found."""
    gold, predicted = np.asarray(gold, bool), np.asarray(predicted, bool)
    positives = int(gold.sum() + predicted.sum())
    return 2 * int((gold & predicted).sum()) / positives if positives else 0.0


def scores(benchmark: Benchmark, folds: Sequence[Fold], runs: Runs) -> dict[str, dict]:
    """category -> F1 of a system's runs, 0-1; without the categories that no fold reports.

    Returns, of a category
      diseases: {disease: {"f1": mean over the runs, "per_run", "positives", "negatives", "always_positive"}};
      macro, weighted: `mean_sd` over the runs of the mean over diseases, which weigh the same or by positive examples;
      always_positive: both averages of a classifier that always says true.
    """
    tested = {benchmark.examples[row].uid for fold in folds for row in fold.test}
    for run, predicted in runs.items():
        if missing := sorted(tested - set(predicted)):
            problem = f"{run}: {len(missing):,} of {len(tested):,} test examples have no prediction"
            raise RunError(f"{problem}, {missing[0]} the first. Fix: give runs of one benchmark, with all its folds.")
    found = {}
    for category in CATEGORIES:
        diseases = {}
        for fold in folds:
            if category in fold.categories:
                diseases[fold.disease] = _of_disease(benchmark, fold, category, runs)
        if diseases:
            found[category] = {"diseases": diseases, **_means(list(diseases.values()))}
    return found


def _of_disease(benchmark, fold, category, runs):
    examples = [benchmark.examples[row] for row in fold.test if benchmark.examples[row].category == category]
    gold = [example.is_positive for example in examples]
    per_run = [f1_of(gold, [predicted[example.uid] == POSITIVE for example in examples]) for predicted in runs.values()]
    return {
        "f1": float(np.mean(per_run)),
        "per_run": per_run,
        "positives": sum(gold),
        "negatives": len(gold) - sum(gold),
        "always_positive": f1_of(gold, [True] * len(gold)),
    }


def _means(diseases: list[dict]) -> dict:
    weights = np.array([found["positives"] for found in diseases], float)
    always = np.array([found["always_positive"] for found in diseases])
    per_run = np.array([found["per_run"] for found in diseases])  # [diseases, runs]
    return {
        "macro": mean_sd(per_run.mean(axis=0)),
        "weighted": mean_sd(np.average(per_run, axis=0, weights=weights)),
        "always_positive": {"macro": float(always.mean()), "weighted": float(np.average(always, weights=weights))},
    }


# -- without a threshold -----------------------------------------------------------------------------------------------

# With one positive in eleven examples a model may rank well and still call nothing positive: its F1 is 0 then. A query
# is a positive example with the negatives made from it. Where probabilities are equal, hits@1 and MRR are their means
# over all orders; AP treats equal ones as one step, as scikit-learn does.


def ranked_scores(
    benchmark: Benchmark, folds: Sequence[Fold], runs: Mapping[str, Mapping[str, Sequence[float]]]
) -> dict[str, dict]:
    """category -> `mean_sd` over the runs of each of RANKED, and "chance", the hits@1 of guessing.

    Each is a mean over diseases, which weigh the same. Categories that no fold reports are left out.
    runs: {run: {uid: probabilities of the classes}}; every test example has some.
    """
    found = {}
    for category in CATEGORIES:
        each = [
            _ranked([benchmark.examples[row] for row in fold.test], category, runs)
            for fold in folds
            if category in fold.categories
        ]
        each = [one for one in each if one]
        if each:
            per_run = {name: np.mean([one[name] for one in each], axis=0) for name in RANKED}
            chance = float(np.mean([one["chance"] for one in each]))
            found[category] = {**{name: mean_sd(values) for name, values in per_run.items()}, "chance": chance}
    return found


def _ranked(examples: Sequence[DiseaseExample], category: str, runs) -> dict:
    """Each measure [runs], and chance; {} where no positive example has a negative."""
    examples = [example for example in examples if example.category == category]
    queries = defaultdict(list)
    for place, example in enumerate(examples):
        queries[_query(example)].append(place)
    gold = np.array([example.is_positive for example in examples])
    ranked = [places for places in map(np.array, queries.values()) if len(places) > 1 and gold[places].sum() == 1]
    if not ranked:
        return {}
    from sklearn.metrics import average_precision_score  # a slow import, of a run's end alone

    result = {name: [] for name in RANKED}
    for predictions in runs.values():
        p = np.array([predictions[example.uid][LABELS.index(POSITIVE)] for example in examples])
        hits, reciprocal = zip(*(_rank(p[places], gold[places]) for places in ranked), strict=True)
        result["hits"].append(np.mean(hits))
        result["reciprocal_rank"].append(np.mean(reciprocal))
        result["average_precision"].append(average_precision_score(gold, p))
    return {**result, "chance": np.mean([1 / len(places) for places in ranked])}


def _query(example: DiseaseExample) -> str:
    """The uid of the positive example that this is or was made from (see data.example_of)."""
    return example.uid if example.is_positive else example.uid.removesuffix(f".{example.disease}")


def _rank(p: np.ndarray, gold: np.ndarray) -> tuple[float, float]:
    """(hits@1, reciprocal rank) of the one positive: the means over the orders of equal probabilities."""
    above, equal = int((p[~gold] > p[gold]).sum()), int((p[~gold] == p[gold]).sum())
    ranks = above + 1 + np.arange(equal + 1)
    return float((ranks == 1).mean()), float((1 / ranks).mean())


# -- tables ------------------------------------------------------------------------------------------------------------


def table(number: str, benchmark: Benchmark, folds: Sequence[Fold], systems: Mapping[str, Runs]) -> Grid:
    """One of the paper's tables, in per cent: our systems, the classifier that always says true, the paper's columns.

    systems: name -> runs; in Table 7 all systems have to be of examples with the same uids. Table 1 needs none.
    """
    theirs = PAPER["tables"].get(number)
    if theirs is None:
        raise UsageError(f"--table=diskne{number}: no such table of DisKnE. Fix: give diskne1 to diskne8.")
    if number == "1":
        return _counts(benchmark, theirs)
    constant = {"": {example.uid: POSITIVE for example in benchmark.examples}}
    found = {name: scores(benchmark, folds, runs) for name, runs in {**systems, ALWAYS: constant}.items()}
    if "diseases" in theirs:
        rows, positives, paper, listed = _diseases(benchmark, found[ALWAYS], theirs)
        for scored in found.values():
            if listed:
                of_category = scored[theirs["category"]]
                of_category[LISTED] = _means([of_category["diseases"][disease] for disease in listed])
        columns, titles = [("positives", positives)], ("disease",)
        caption = f"{TITLES[theirs['category']]}, F1 of the positive class in %, {benchmark.name}"
    else:
        rows = {(category, average): (average, TITLES[category]) for average in AVERAGES for category in CATEGORIES}
        paper = {path: [f"{mean} ±{sd}" for mean, sd in theirs[path[1]][path[0]]] for path in rows}
        columns, titles, caption = [], ("average", "category"), theirs["caption"]
    columns += [(name, {path: _cell(scored, path) for path in rows}) for name, scored in found.items()]
    for i, name in enumerate(theirs.get("columns", PAPER["models"])):
        columns.append((f"paper: {name}", {path: cells[i] for path, cells in paper.items()}))
    return fill(f"Table {number}: {caption}", titles, rows, columns)


def _counts(benchmark: Benchmark, theirs: dict) -> Grid:
    counts = Counter((example.category, example.is_positive) for example in benchmark.examples)
    columns = [
        (name, {category: str(counts[category, positive]) for category in CATEGORIES})
        for name, positive in (("positives", True), ("negatives", False))
    ]
    for i, name in enumerate(theirs["columns"]):
        columns.append((name, {category: str(cells[i]) for category, cells in theirs["rows"].items()}))
    rows = {category: (TITLES[category],) for category in CATEGORIES}
    return fill(f"Table 1: examples of {benchmark.name}", ("category",), rows, columns)


# A row's key is the path to its figure in `scores`: (category, average), (category, LISTED, average), or
# (category, "diseases", disease).


def _diseases(benchmark: Benchmark, scored: dict, theirs: dict) -> tuple[dict, dict, dict, list[str]]:
    """(rows, positive examples by row, the paper's cells by row, our diseases that the paper lists): each disease of
    ours, each other disease of the paper's, then the averages over ours and over those of the paper's list."""
    category = theirs["category"]
    ours = scored.get(category, {}).get("diseases", {})
    called = _paper_names(benchmark, ours, theirs["diseases"])
    rows, positives, paper = {}, {}, {}
    averages = {average: [f"{mean} ±{sd}" for mean, sd in theirs[average]] for average in AVERAGES}
    for disease in sorted(ours, key=lambda disease: (-ours[disease]["positives"], benchmark.names[disease])):
        path = category, "diseases", disease
        rows[path], positives[path] = (benchmark.names[disease],), str(ours[disease]["positives"])
        if disease in called:
            paper[path] = [*map(str, theirs["diseases"][called[disease]])]
    for name in sorted(theirs["diseases"].keys() - set(called.values())):
        path = category, "diseases", f"paper: {name}"
        rows[path], paper[path] = (name,), [*map(str, theirs["diseases"][name])]
    for average in AVERAGES:
        rows[category, average], paper[category, average] = (f"{average} average",), averages[average]
    listed = list(called) if len(called) < len(ours) else []
    if listed:
        for average in AVERAGES:
            title = f"{average} average, the {len(listed)} of the paper's list"
            rows[category, LISTED, average], paper[category, LISTED, average] = (title,), averages[average]
    return rows, positives, paper, listed


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


def _cell(scored: dict, path: tuple) -> str:
    """F1 as the paper prints it; the sd of a single run has no meaning."""
    found = scored
    for name in path:
        found = found.get(name, {})
    if not found:
        return ""
    if "f1" in found:
        return _points(found["f1"])
    return _points(found["mean"]) + (f" ±{100 * found['sd']:.1f}" if len(found["per_seed"]) > 1 else "")


def _points(value: float) -> str:
    return f"{100 * value:.0f}"


# -- the files of a run ------------------------------------------------------------------------------------------------


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


def _lines(path: Path) -> list[dict]:
    """The rows of one of a run's files; none where there is no file."""
    problems = Problems()
    rows = [row for _, row in json_lines(path, problems)] if path.is_file() else []
    problems.raise_if_any()
    return rows


def read_slots(directory: RunDirectory) -> list[dict]:
    """One row for each fold and seed that is done: disease, group, seed, best_epoch, dev, test (uid ->
    probabilities)."""
    return _lines(directory.private / SLOTS)


def write_examples(directory: RunDirectory, benchmark: Benchmark) -> None:
    """Writes a description of the examples, so that a report needs no corpus."""
    rows = (
        {"uid": e.uid, "label": e.pair.label, "disease": e.disease, "target": e.target, "category": e.category}
        for e in benchmark.examples
    )
    write_lines(directory.private / EXAMPLES, rows)


def probabilities(slots: Iterable[Mapping]) -> dict[str, dict[str, list[float]]]:
    """seed -> uid -> probabilities of the classes; each example is tested in one fold of a seed."""
    runs = defaultdict(dict)
    for slot in slots:
        runs[str(slot["seed"])] |= slot["test"]
    return dict(runs)


def predicted(slots: Iterable[Mapping]) -> dict[str, dict[str, str]]:
    """seed -> uid -> the most probable label."""
    runs = probabilities(slots)
    return {run: {uid: LABELS[int(np.argmax(p))] for uid, p in found.items()} for run, found in runs.items()}


def finished(folder: Path) -> System:
    """A finished run of folds."""
    directory = RunDirectory.existing(folder)
    about = read_json(folder / "data.json", "diskne")["diskne"]
    slots = read_slots(directory)
    examples = tuple(example_of(**row) for row in _lines(directory.private / EXAMPLES))
    benchmark = Benchmark(about["name"], examples, about["names"], synonyms_of(about), about["facts"])
    place = {example.uid: row for row, example in enumerate(examples)}
    tested = {(slot["group"], slot["disease"]): [place[uid] for uid in slot["test"]] for slot in slots}
    none, found = np.zeros(0, np.int32), []
    for fold in about["folds"]:
        rows = tested.get((fold["group"], fold["disease"]))
        if rows is not None:  # the run may be of some diseases alone
            rows = np.array(sorted(rows), np.int32)
            found.append(Fold(fold["disease"], fold["group"], tuple(fold["categories"]), none, none, rows, {}))
    differs = tuple(unlike(folder, PAPER))
    return System(folder.resolve().name, benchmark, tuple(found), predicted(slots), differs)


def outcomes(directory: RunDirectory, split: str) -> Outcomes:
    """A run's predictions for the test examples of all its folds."""
    if split != "test":
        raise RunError(f"{directory.folder}: folds have no predictions of the {split} split. Fix: give --split=test.")
    labels = {row["uid"]: row["label"] for row in _lines(directory.private / EXAMPLES)}
    runs = probabilities(read_slots(directory))
    uids = sorted(next(iter(runs.values())))
    found = np.array([[runs[seed][uid] for seed in sorted(runs, key=int)] for uid in uids], float)
    gold = np.array([LABELS.index(labels[uid]) for uid in uids])
    return outcomes_of(uids, gold, found.argmax(axis=2), found)


def systems(folder: Path) -> list[System]:
    """The finished runs of folds in a folder, by name."""
    names = sorted(path.parent for path in Path(folder).glob("*/config.json") if (path.parent / "lock").is_file())
    there = [run for run in map(RunDirectory.existing, names) if run.task == "diskne" and run.status() == "complete"]
    if not there:
        raise RunError(f"{folder}: holds no finished run of folds. Fix: give the folder that launch/diskne.sh made.")
    return [finished(run.folder) for run in there]


def table_section(number: str, found: Sequence[System]) -> Section:
    """One of the paper's tables."""
    first, columns = found[0], {system.name: system.runs for system in found}
    if number == "7":  # in the paper's order
        wordings = PAPER["tables"]["7"]["columns"]
        columns = {name: columns[name] for name in wordings if name in columns} or columns
    grid = table(number, first.benchmark, first.folds, columns)
    words = [f"ours on {first.benchmark.name}; F1 of the positive class in %, mean and sd over runs"]
    if note := first.benchmark.facts.get("note"):
        words.append(note)
    words += [f"{system.name}, unlike the paper's: {'; '.join(system.unlike)}" for system in found if system.unlike]
    return Section("DisKnE (Alghanmi et al. 2021)", words, [grid])


def run_sections(folder: Path) -> tuple[list[Section], list[Section]]:
    """(averages of each category, F1 of each disease) of a finished run; nothing of another run."""
    result = RunDirectory.existing(folder).result()
    if result["status"] != "complete":
        return [], []
    rows, each = [], []
    for category, found in result["categories"].items():
        diseases = found["diseases"].values()
        counts = [str(sum(one[name] for one in diseases)) for name in ("positives", "negatives")]
        averages = [_mean_sd(found[average]) for average in AVERAGES]
        always = points(found["always_positive"]["macro"])
        row = (TITLES[category], str(len(found["diseases"])), *counts, *averages, always)
        if ranked := found.get("ranking"):
            row += (*(_mean_sd(ranked[name]) for name in RANKED), points(ranked["chance"]))
        rows.append(row)
        each += [
            (result["names"][disease], TITLES[category], str(one["positives"]), points(one["f1"]))
            for disease, one in found["diseases"].items()
        ]
    header = ("category", "diseases", "positives", "negatives", "macro F1", "weighted F1", ALWAYS)
    header += (*RANKED.values(), "hits@1 by chance")
    words = [
        "F1 of the positive class in points, mean and sd over runs; each disease is tested by its own fold",
        "Without a threshold: hits@1 and the mean reciprocal rank (MRR) of the true disease among the ten or so that "
        "a premise is tested with; average precision (AP) over a disease's examples; means over diseases",
    ]
    rows = [row + ("-",) * (len(header) - len(row)) for row in rows]
    diseases = Grid("", ("disease", "category", "positives", "F1"), each, left=2)
    return [Section("Scores", words, [Grid("", header, rows)])], [Section("Diseases", grids=[diseases])]


def _mean_sd(found):
    spread = f" ±{points(found['sd'])}" if len(found["per_seed"]) > 1 else ""
    return points(found["mean"]) + spread
