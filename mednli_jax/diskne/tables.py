"""Scores of DisKnE's folds, the files of their runs, and Tables 1 to 8 of Alghanmi et al. 2021.

A run keeps its predictions for the test examples of each fold and seed (private/folds.jsonl) and a
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
from mednli_jax.diskne.folds import Fold, phrase
from mednli_jax.errors import Problems, RunError
from mednli_jax.files import json_lines
from mednli_jax.report.metrics import mean_sd, per_class
from mednli_jax.report.outcomes import Outcomes, outcomes_of
from mednli_jax.report.paper import PaperRun
from mednli_jax.report.sections import Grid, RunSections, Section, points
from mednli_jax.report.tables import Read, fill, published, unlike
from mednli_jax.rundir import RunDirectory, read_json

AVERAGES = ("macro", "weighted")
TITLES = {
    "symptoms": "Symptoms > Disease",
    "treatments": "Treatments > Disease",
    "tests": "Tests > Disease",
    "procedures": "Procedures > Disease",
    "terminological": "Terminological",
}
TITLE, ALWAYS = "DisKnE (Alghanmi et al. 2021)", "always positive"
LISTED = "listed"  # those of our diseases that the paper lists
PAPER = published("diskne")
SLOTS, EXAMPLES = "folds.jsonl", "examples.jsonl"
TABLE = "diskne"

RANKED = {
    "hits": "hits@1",  # share of the queries whose true disease comes first
    "reciprocal_rank": "MRR",  # mean of 1 / rank of the true disease
    "average_precision": "AP",  # over all examples of a disease, whatever their premises
}

Runs = Mapping[str, Mapping[str, Sequence[float]]]


def scores(benchmark: Benchmark, folds: Sequence[Fold], runs: Runs) -> dict[str, dict]:
    """category -> scores of a system's runs, 0-1; without the categories that no fold reports.

    Returns, of a category
      diseases: {disease: {"f1": mean over the runs, "per_run", "positives", "negatives", "always_positive"}};
      macro, weighted: `mean_sd` over the runs of the mean over diseases, which weigh the same or by positive examples;
      always_positive: both averages of a classifier that always says true;
      ranking: `mean_sd` over the runs of the means over diseases of each of RANKED, and "chance", the hits@1 of
        guessing; missing where no positive example has a negative.
    """
    found = {}
    for category in CATEGORIES:
        tested = {}
        for fold in folds:
            if category in fold.categories:
                examples = (benchmark.examples[row] for row in fold.test)
                tested[fold.disease] = [
                    example for example in examples if example.category == category
                ]
        if not tested:
            continue
        found[category] = _averaged(
            {disease: _of_disease(examples, runs) for disease, examples in tested.items()}
        )
        if ranked := [one for examples in tested.values() if (one := _ranked(examples, runs))]:
            per_run = {name: np.mean([one[name] for one in ranked], axis=0) for name in RANKED}
            chance = float(np.mean([one["chance"] for one in ranked]))
            found[category]["ranking"] = {
                **{name: mean_sd(of) for name, of in per_run.items()},
                "chance": chance,
            }
    return found


def _of_disease(examples, runs):
    gold = np.array([LABELS.index(example.pair.label) for example in examples])
    best = [
        np.argmax([said[example.uid] for example in examples], axis=1) for said in runs.values()
    ]
    always = np.full(len(gold), LABELS.index(POSITIVE))
    *per_run, constant = (
        per_class(gold, predicted)[POSITIVE]["f1"] for predicted in (*best, always)
    )
    positives = sum(example.is_positive for example in examples)
    return {
        "f1": float(np.mean(per_run)),
        "per_run": per_run,
        "positives": positives,
        "negatives": len(gold) - positives,
        "always_positive": constant,
    }


def _averaged(diseases: Mapping[str, dict]) -> dict:
    """The scores of diseases with their averages."""
    weights = np.array([found["positives"] for found in diseases.values()], float)
    always = np.array([found["always_positive"] for found in diseases.values()])
    per_run = np.array([found["per_run"] for found in diseases.values()])
    return {
        "diseases": diseases,
        "macro": mean_sd(per_run.mean(axis=0)),
        "weighted": mean_sd(np.average(per_run, axis=0, weights=weights)),
        "always_positive": {
            "macro": float(always.mean()),
            "weighted": float(np.average(always, weights=weights)),
        },
    }


# With one positive in eleven examples a model may rank well and still call nothing positive: its F1
# is 0 then. A query is a positive example with the negatives made from it. Where probabilities are
# equal, hits@1 and MRR are their means over all orders; AP treats equal ones as one step, as
# scikit-learn does.


def _ranked(examples: Sequence[DiseaseExample], runs: Runs) -> dict:
    """Each measure [runs] of a disease, and chance; {} where no positive example has a negative."""
    queries = defaultdict(list)
    for place, example in enumerate(examples):
        query = (
            example.uid if example.is_positive else example.uid.removesuffix(f".{example.disease}")
        )
        queries[query].append(place)
    gold = np.array([example.is_positive for example in examples])
    ranked = [
        places
        for places in map(np.array, queries.values())
        if len(places) > 1 and gold[places].sum() == 1
    ]
    if not ranked:
        return {}
    from sklearn.metrics import average_precision_score

    result = {name: [] for name in RANKED}
    for said in runs.values():
        p = np.array([said[example.uid][LABELS.index(POSITIVE)] for example in examples])
        hits, reciprocal = zip(*(_rank(p[places], gold[places]) for places in ranked), strict=True)
        result["hits"].append(np.mean(hits))
        result["reciprocal_rank"].append(np.mean(reciprocal))
        result["average_precision"].append(average_precision_score(gold, p))
    return {**result, "chance": np.mean([1 / len(places) for places in ranked])}


def _rank(p: np.ndarray, gold: np.ndarray) -> tuple[float, float]:
    """(hits@1, reciprocal rank) of the one positive: the means over the orders of equal
    probabilities."""
    above, equal = int((p[~gold] > p[gold]).sum()), int((p[~gold] == p[gold]).sum())
    ranks = above + 1 + np.arange(equal + 1)
    return float((ranks == 1).mean()), float((1 / ranks).mean())


# -- tables ------------------------------------------------------------------------------------------------------------


class System(NamedTuple):
    """A finished run.

    about: `diskne` of its data.json. categories: its `scores`. unlike: how it differs from the
    paper's, see departures.
    """

    name: str
    about: dict
    categories: dict
    unlike: Sequence[str] = ()


def systems(folder: Path, read: Read) -> list[System]:
    """The finished runs of folds in a folder, by name."""
    found = []
    for path in sorted(path.parent for path in Path(folder).glob("*/config.json")):
        run = RunDirectory(path)
        if (path / "lock").is_file() and run.task == "diskne" and run.status() == "complete":
            about, result = read_json(path / "data.json", "diskne")["diskne"], run.result().values
            sizes = PAPER["sizes"] if "weights" in run.config["model"] else {}
            paper_run = PaperRun(path.name, str(result["config"]).partition("-")[0], sizes)
            different = unlike(path, read, paper_run)
            found.append(System(path.name, about, result["categories"], different))
    if not found:
        raise RunError(
            f"{folder}: holds no finished run of folds",
            fix="give the folder that launch/diskne.sh made",
        )
    return found


def table_section(number: str, systems: Sequence[System]) -> Section:
    """One of the paper's tables, in per cent: our systems, the classifier that always says true,
    the paper's columns.

    The diseases are those of the first system; the others must have them, too.
    """
    theirs, about = PAPER["tables"][number], systems[0].about
    words = [f"ours on {about['name']}; F1 of the positive class in %, mean and sd over runs"]
    if note := about["facts"].get("note"):
        words.append(note)
    words += [
        f"{system.name}, unlike the paper's: {'; '.join(system.unlike)}"
        for system in systems
        if system.unlike
    ]
    if number == "7":
        systems = [
            one for name in theirs["columns"] for one in systems if one.name == name
        ] or systems
    if number != "1":
        return Section(TITLE, words, [_figures(number, theirs, systems)])
    counts = [
        (name, {of: str(about["facts"][name][of]) for of in CATEGORIES})
        for name in ("positives", "negatives")
    ]
    for i, name in enumerate(theirs["columns"]):
        counts.append(
            (name, {category: str(cells[i]) for category, cells in theirs["rows"].items()})
        )
    rows = {category: (TITLES[category],) for category in CATEGORIES}
    return Section(
        TITLE, words, [fill(f"Table 1: examples of {about['name']}", ("category",), rows, counts)]
    )


# A row's key is the path to its figure in `scores`: (category, average), (category, LISTED,
# average), or (category, "diseases", disease).


def _figures(number: str, theirs: dict, systems: Sequence[System]) -> Grid:
    first, about = systems[0].categories, systems[0].about
    found = {system.name: _alike(system, first) for system in systems}
    found[ALWAYS] = {}
    for category, of in first.items():
        always = {name: {**one, "f1": one["always_positive"], "per_run": [one["always_positive"]]}
                  for name, one in of["diseases"].items()}  # fmt: skip
        found[ALWAYS][category] = _averaged(always)
    if "diseases" in theirs:
        rows, positives, paper, listed = _diseases(about, first, theirs)
        for scored in found.values():
            if listed:
                of_category = scored[theirs["category"]]
                of_category[LISTED] = _averaged(
                    {disease: of_category["diseases"][disease] for disease in listed}
                )
        columns, titles = [("positives", positives)], ("disease",)
        caption = f"{TITLES[theirs['category']]}, F1 of the positive class in %, {about['name']}"
    else:
        rows = {
            (category, average): (average, TITLES[category])
            for average in AVERAGES
            for category in CATEGORIES
        }
        paper = {path: [f"{mean} ±{sd}" for mean, sd in theirs[path[1]][path[0]]] for path in rows}
        columns, titles, caption = [], ("average", "category"), theirs["caption"]
    columns += [
        (name, {path: _cell(scored, path) for path in rows}) for name, scored in found.items()
    ]
    for i, name in enumerate(theirs.get("columns", PAPER["models"])):
        columns.append((f"paper: {name}", {path: cells[i] for path, cells in paper.items()}))
    return fill(f"Table {number}: {caption}", titles, rows, columns)


def _alike(system: System, first: dict) -> dict:
    """A system's scores of the categories and diseases in `first`."""
    found = {}
    for category, of in first.items():
        mine = system.categories.get(category, {}).get("diseases", {})
        if missing := of["diseases"].keys() - mine.keys():
            problem = (
                f"{system.name}: {len(missing)} diseases of other runs have no scores in {category}"
            )
            raise RunError(problem, fix="give runs of one benchmark, with all its folds")
        found[category] = _averaged({disease: mine[disease] for disease in of["diseases"]})
    return found


def _diseases(about: dict, scored: dict, theirs: dict) -> tuple[dict, dict, dict, list[str]]:
    """(rows, positive examples by row, the paper's cells by row, our diseases that the paper
    lists): each disease of ours, each other disease of the paper's, then the averages over ours and
    over those of the paper's list."""
    category, names = theirs["category"], about["names"]
    ours = scored.get(category, {}).get("diseases", {})
    called = _paper_names(about, ours, theirs["diseases"])
    rows, positives, paper = {}, {}, {}
    averages = {average: [f"{mean} ±{sd}" for mean, sd in theirs[average]] for average in AVERAGES}
    for disease in sorted(ours, key=lambda disease: (-ours[disease]["positives"], names[disease])):
        path = category, "diseases", disease
        rows[path], positives[path] = (names[disease],), str(ours[disease]["positives"])
        if disease in called:
            paper[path] = [*map(str, theirs["diseases"][called[disease]])]
    for name in sorted(theirs["diseases"].keys() - set(called.values())):
        path = category, "diseases", f"paper: {name}"
        rows[path], paper[path] = (name,), [*map(str, theirs["diseases"][name])]
    for average in AVERAGES:
        rows[category, average], paper[category, average] = (
            (f"{average} average",),
            averages[average],
        )
    listed = list(called) if len(called) < len(ours) else []
    if listed:
        for average in AVERAGES:
            title = f"{average} average, the {len(listed)} of the paper's list"
            rows[category, LISTED, average], paper[category, LISTED, average] = (
                (title,),
                averages[average],
            )
    return rows, positives, paper, listed


def _paper_names(about: dict, diseases, wanted) -> dict[str, str]:
    """disease -> what the paper's table calls it: by its own name first, then by any other name of
    it."""
    named = {}
    for of in ({disease: [name] for disease, name in about["names"].items()}, about["synonyms"]):
        for disease in sorted(set(diseases) - set(named)):
            phrases = set(map(phrase, of[disease]))
            free = (
                name for name in wanted if name not in named.values() and phrase(name) in phrases
            )
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
    spread = f" ±{100 * found['sd']:.1f}" if len(found.get("per_seed", ())) > 1 else ""
    return f"{100 * found.get('f1', found.get('mean')):.0f}{spread}"


# -- the files of a run ------------------------------------------------------------------------------------------------


def _lines(path: Path) -> list[dict]:
    """The rows of one of a run's files; none where there is no file."""
    problems = Problems()
    rows = [row for _, row in json_lines(path, problems)] if path.is_file() else []
    problems.raise_if_any()
    return rows


def read_slots(directory: RunDirectory) -> list[dict]:
    """A row for each fold and seed that is done: disease, group, seed, best_epoch, dev, test (uid:
    probabilities)."""
    return _lines(directory.private / SLOTS)


def write_examples(directory: RunDirectory, benchmark: Benchmark) -> None:
    """Writes a description of the examples, so that a report needs no corpus."""
    rows = []
    for example in benchmark.examples:
        of_example = {
            name: getattr(example, name) for name in ("uid", "disease", "target", "category")
        }
        rows.append({**of_example, "label": example.pair.label})
    directory.write_lines(EXAMPLES, rows)


def probabilities(slots: Iterable[Mapping]) -> dict[str, dict[str, list[float]]]:
    """seed -> uid -> probabilities of the classes; each example is tested in one fold of a seed."""
    runs = defaultdict(dict)
    for slot in slots:
        runs[str(slot["seed"])] |= slot["test"]
    return dict(runs)


def outcomes(directory: RunDirectory, split: str) -> Outcomes:
    """A run's predictions for the test examples of all its folds."""
    if split != "test":
        raise RunError(
            f"{directory.folder}: folds have no predictions of the {split} split",
            fix="give --split=test",
        )
    labels = {row["uid"]: row["label"] for row in _lines(directory.private / EXAMPLES)}
    runs = probabilities(read_slots(directory))
    uids = sorted(next(iter(runs.values())))
    found = np.array([[runs[seed][uid] for seed in sorted(runs, key=int)] for uid in uids], float)
    gold = np.array([LABELS.index(labels[uid]) for uid in uids])
    return outcomes_of(uids, gold, found.argmax(axis=2), found)


def run_sections(folder: Path) -> RunSections:
    """(averages of each category, F1 of each disease) of a finished run; nothing of an unfinished
    one."""
    result = RunDirectory.existing(folder).result().values
    if result["status"] != "complete":
        return RunSections()
    rows, each = [], []
    for category, found in result["categories"].items():
        diseases = found["diseases"]
        counts = [
            str(sum(one[name] for one in diseases.values())) for name in ("positives", "negatives")
        ]
        averages = [_mean_sd(found[average]) for average in AVERAGES]
        row = (
            TITLES[category],
            str(len(diseases)),
            *counts,
            *averages,
            points(found["always_positive"]["macro"]),
        )
        if ranked := found.get("ranking"):
            row += (*(_mean_sd(ranked[name]) for name in RANKED), points(ranked["chance"]))
        rows.append(row)
        for disease, one in diseases.items():
            each.append(
                (
                    result["names"][disease],
                    TITLES[category],
                    str(one["positives"]),
                    points(one["f1"]),
                )
            )
    header = ("category", "diseases", "positives", "negatives", "macro F1", "weighted F1", ALWAYS)
    header += (*RANKED.values(), "hits@1 by chance")
    words = [
        "F1 of the positive class in points, mean and sd over runs; each disease is tested by its own fold",
        "Without a threshold: hits@1 and the mean reciprocal rank (MRR) of the true disease among the ten or so that "
        "a premise is tested with; average precision (AP) over a disease's examples; means over diseases",
    ]
    rows = [row + ("-",) * (len(header) - len(row)) for row in rows]
    diseases = Grid("", ("disease", "category", "positives", "F1"), each, left=2)
    scores = Section("Scores", words, [Grid("", header, rows)])
    return RunSections([scores], [Section("Diseases", grids=[diseases])])


def _mean_sd(found):
    spread = f" ±{points(found['sd'])}" if len(found["per_seed"]) > 1 else ""
    return points(found["mean"]) + spread
