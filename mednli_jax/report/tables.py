"""The papers' tables: their figures, which are the files published/*.json, and ours beside them.

A table reads the runs of one folder, each named for its row or cell. The tables of Romanov & Shivade 2018 are made
here, those of the other papers in the task folders. `settings` in published/*.json has the papers' settings: fields of
a config, the number of seeds, the first letters of the file of vectors, and in `of` those of one model alone.
"""

import json
import re
import shlex
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from mednli_jax.errors import RunError
from mednli_jax.report import metrics
from mednli_jax.report.outcomes import Finished, aligned, finished, other_training
from mednli_jax.report.runs import RunDirectory, read_json
from mednli_jax.report.sections import Grid, Section, figure

NAMES = {"features": "Features", "bow": "BOW", "infersent": "InferSent", "esim": "ESIM"}

MISSING = "missing"  # for a field that a config lacks
# Field of a config -> the remark on a value that is not the paper's. Fields of `train` only apply to models that are
# trained by gradients.
SETTINGS = {
    "model.hidden_size": "hidden size {}",
    "model.trees": "{} trees",
    "vectors.dim": "vectors of {}",
    "train.epochs": "epochs at most {}",
    "train.batch_size": "batches of {}",
    "data.limit": "the first {} pairs",
    "data.sample": "a sample of {} pairs",
    "data.max_passage": "{} tokens of a passage",
    "data.max_length": "{} tokens of a text",
}
# Fields in which a run and its baseline have to be equal, because a gain must not come from them.
ALIKE = ("data.lowercase", "data.keep", "data.max_length", "vectors.unknown", "model.masking", "train.shuffle")
# Runs of Tables 5 and 7 with other vectors than GloVe's.
OTHER_VECTORS = re.compile(r"(mimic|vectors-(fasttext|wiki|glove-bioasq))-")


# -- what every table shares -------------------------------------------------------------------------------------------


@cache
def published(name: str) -> dict:
    """The figures in published/NAME.json: mednli, clicr, diskne or artifacts. Callers must not change them."""
    return json.loads((files("mednli_jax.report") / "published" / f"{name}.json").read_text("utf-8"))


def of_corpus(name: str, corpus: str, *path: str) -> dict:
    """The figures at a path of names in published/NAME.json; empty for another corpus than the paper's."""
    found = published(name)
    if corpus != found["corpus"]:
        return {}
    for part in path:
        found = found[part]
    return found


def fill(
    caption: str,
    titles: Sequence[str],
    rows: Mapping[Hashable, Sequence[str]],
    columns: Iterable[tuple[str, Mapping[Hashable, str]]],
) -> Grid:
    """The grid of a table: titles and cells of the first columns, then further columns, whose missing cells are empty.

    rows: key of a row -> its first cells. columns: (name, key of a row -> its cell).
    """
    columns = list(columns)
    cells = [(*first, *(of.get(key, "") for _, of in columns)) for key, first in rows.items()]
    return Grid(caption, (*titles, *(name for name, _ in columns)), cells, left=len(titles))


def check_folder(folder: Path) -> Path:
    """The folder. Raises RunError if it does not exist."""
    if not Path(folder).is_dir():
        fix = "give --runs=FOLDER, the folder that holds the runs"
        raise RunError(f"{folder}: no such folder. Fix: {fix}.")
    return Path(folder)


def state(folder: Path) -> str:
    """complete, in training, missing, or the status of a run."""
    if not (folder / "config.json").is_file():
        return "missing"
    directory = RunDirectory(folder)
    status = directory.status()
    return "in training" if status != "complete" and directory.in_training() else status


def section(title: str, words: Sequence[str], found: Mapping, grid: Grid, paper: str, more: Sequence[str]) -> Section:
    """A table for a reader. words, more: before and after the note on corpora. paper: the paper's corpus."""
    words, commands = list(words), []
    if not found["corpus"]:
        words.append("no run of this table is finished yet")
    elif not found["comparable"]:
        words.append(f"the paper's figures are of {paper}: they are NOT COMPARABLE with ours on {found['corpus']}")
    for command, names in found["lacking"].items():
        between = "; " if any("," in name for name in names) else ", "
        commands.append((f"not there yet: {between.join(names)}", command))
    return Section(title, [*words, *more], [grid], commands=commands)


# -- how runs differ from a paper's ------------------------------------------------------------------------------------


def departures(folder: Path, baseline: Path | None, paper: Mapping) -> list[str]:
    """How a run, the run that it was transferred from, and its baseline differ from a paper's: numbers, no names."""
    found, (config, result) = unlike(folder, paper), _opened(folder)
    name = config.get("transfer", {}).get("init_from") or result.get("transfer", {}).get("source")
    source = folder.parent / Path(name or "").name  # the run in the same folder whose weights this run started from
    if name and (source / "config.json").is_file():
        found += [f"source: {words}" for words in unlike(source, paper) if words not in found]
    if baseline is not None:
        other_config, other_result = _opened(baseline)
        found += [f"baseline: {words}" for words in unlike(baseline, paper) if words not in found]
        if result.get("seeds") != other_result.get("seeds"):
            found.append("other seeds than the baseline")
        found += [f"{field} unlike the baseline" for field in ALIKE if _at(config, field) != _at(other_config, field)]
    return found


def unlike(folder: Path, paper: Mapping) -> list[str]:
    """`departures` of a run by itself. Fields that a config lacks are skipped."""
    config, result = _opened(folder)
    model = config.get("model", {})
    expected = paper["settings"] | paper["settings"].get("of", {}).get(model.get("name"), {})
    neural, found = {"hidden_size", "dim"} & model.keys(), []
    for field, words in SETTINGS.items():
        value = _at(config, field)
        if value not in (MISSING, expected.get(field, value)) and (neural or not field.startswith("train.")):
            found.append(words.format(f"{value:,}" if value else "all"))
    seeds = len(result.get("seeds", ()))
    if seeds != expected.get("seeds", seeds):
        found.append(f"{seeds} seed{'s' * (seeds != 1)}")
    counted = "train" in paper.get("statistics", ()) and result.get("corpus") == paper["corpus"]
    if counted and result.get("transfer", {}).get("mode") != "direct":
        splits = read_json(folder / "data.json", "splits")["splits"]
        if "train" in splits and splits["train"]["rows"] != paper["statistics"]["train"]["pairs"]:
            found.append(f"{splits['train']['rows']:,} training pairs")
    path = _at(config, "vectors.path")
    of_paper = OTHER_VECTORS.match(folder.name) or Path(path or "").name.startswith(expected.get("vectors", ""))
    if path != MISSING and "vectors" in expected and not (path and of_paper):
        found.append("other vectors" if path else "random vectors")
    return found


def _at(config, field):
    section, name = field.split(".")
    return config.get(section, {}).get(name, MISSING)


def _opened(folder):
    run = RunDirectory.existing(folder)
    return run.config, run.result()


# -- Tables 3 to 7 of Romanov & Shivade 2018 ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One figure of a table, in points of accuracy."""

    row: str
    column: str
    run: str  # the name of its run's folder
    paper: float | None  # the published figure; a cell without one is shown if its run exists, and is never missing
    baseline: str = ""  # the name of the run whose accuracy is subtracted, if any
    split: str = "test"


@dataclass(frozen=True)
class Table:
    """A table of accuracies."""

    number: int
    title: str
    cells: tuple[Cell, ...]
    others: str = ""  # pattern for names of runs beside the paper's; their gains are over the run of the model


TABLES = {
    int(number): Table(int(number), **{**found, "cells": tuple(Cell(*cell) for cell in found["cells"])})
    for number, found in published("mednli")["tables"].items()
}


def filled(table: Table, folder: Path) -> dict:
    """The table filled with the results of the folder's runs, as JSON values.

    Each of `cells` has the Cell's fields and `state`: complete, missing, or what its run or its baseline is in. A cell
    whose run is of another corpus than most, or of other pairs of it, has that for its state and no figure.
    A complete cell also has ours, low, high in points (95 %), seeds, sd (in points, of the run and of its baseline),
    unlike (see `departures`) and difference: [ours less the paper's, low, high], None on another corpus. The paper's
    figure is taken as exact: it came without an interval.
    lacking: {command: [names of the runs it fills]}; it skips finished runs and goes on with others.
    """
    folder, paper = check_folder(folder), published("mednli")["corpus"]
    every = (*table.cells, *_others(table, folder))
    needed = dict.fromkeys((name, cell.split) for cell in every for name in (cell.run, cell.baseline) if name)
    states = {(name, split): state(folder / name) for name, split in needed}
    complete = {key: finished(folder / key[0], key[1]) for key, one in states.items() if one == "complete"}
    runs, odd = _of_one_corpus(complete, paper)
    states |= odd
    corpus = next((run.corpus for run in runs.values()), "")
    cells, missed, notes = [], set(), set()
    for cell in every:
        required = [(name, cell.split) for name in (cell.run, cell.baseline) if name]
        lacks = [key for key in required if states[key] != "complete"]
        if lacks and cell.paper is None and states[required[0]] == "missing":
            continue
        missed |= {name for name, _ in lacks}
        values = {**vars(cell), "state": "complete"}
        if lacks:
            values["state"] = states[lacks[0]] if lacks[0] == required[0] else f"baseline {states[lacks[0]]}"
        else:
            run, baseline = runs[required[0]], runs.get((cell.baseline, cell.split))
            values |= _ours(cell, run, baseline, comparable=corpus == paper)
            if baseline and other_training(baseline, run):
                notes.add(f"{cell.run} was trained on other pairs than {cell.baseline}")
        cells.append(values)
    command = shlex.join(["bash", "launch/mednli.sh", str(folder), corpus or paper, str(table.number)])
    return {
        "table": table.number,
        "title": table.title,
        "corpus": corpus,
        "comparable": corpus == paper,
        "pairs": {split: len(run.outcomes) for (_, split), run in sorted(runs.items(), key=lambda item: item[0][1])},
        "cells": cells,
        "lacking": {command: sorted(missed)} if missed else {},
        "notes": sorted(notes),
    }


def _of_one_corpus(complete, paper) -> tuple[dict, dict[tuple, str]]:
    """Runs that were scored on the same pairs, in one order; (name, split) -> what is odd about each of the others.

    The corpus is the paper's if there is a run of it, else the most frequent; of a split, most pairs decide.
    """
    runs, odd = {}, {}
    corpora = [run.corpus for run in complete.values()]
    corpus = paper if paper in corpora else max(corpora, key=corpora.count, default="")
    for key, run in sorted(complete.items(), key=lambda item: len(item[1].outcomes), reverse=True):
        if run.corpus != corpus:
            odd[key] = f"of {run.corpus}, not {corpus}"
            continue
        first = next((other for (_, split), other in runs.items() if split == key[1]), run)
        try:
            runs[key] = aligned(first, run)
        except RunError:
            odd[key] = f"of other {key[1]} pairs"
    return runs, odd


def _others(table, folder) -> Iterable[Cell]:
    """Cells of the folder's runs that the paper has not, e.g. another source domain."""
    known = {name for cell in table.cells for name in (cell.run, cell.baseline)}
    for path in sorted(folder.iterdir()) if table.others else ():
        match = re.fullmatch(table.others, path.name)
        if match and path.name not in known and (path / "config.json").is_file():
            part = match.groupdict()
            column = f"{part['mode']} {NAMES[part['model']]}" if "mode" in part else NAMES[part["model"]]
            yield Cell(part["row"], column, path.name, None, part["model"])


def _ours(cell: Cell, run: Finished, baseline: Finished | None, *, comparable: bool) -> dict:
    if baseline is None:
        found = metrics.bootstrap_accuracy(run.outcomes.right)
        ours = found["accuracy"]
    else:
        found = metrics.paired_bootstrap(baseline.outcomes.right, run.outcomes.right)
        ours = found["difference"]
    points = [100 * value for value in (ours, found["low"], found["high"])]
    per_seed = [100 * one.outcomes.right.mean(axis=1) for one in (run, baseline) if one is not None]
    against = comparable and cell.paper is not None
    return {
        **dict(zip(("ours", "low", "high"), points, strict=True)),
        "seeds": len(run.outcomes.predicted),
        "sd": [float(np.std(values, ddof=1)) if len(values) > 1 else None for values in per_seed],
        "unlike": departures(run.folder, baseline and baseline.folder, published("mednli")),
        "difference": [value - cell.paper for value in points] if against else None,
    }


def table_section(found: dict) -> Section:
    """A table that `filled` gives, the paper's figures beside ours."""
    words = ["points of accuracy, mean over the seeds; 95 % intervals by bootstrap over pairs and seeds"]
    if found["corpus"]:
        sizes = ", ".join(f"{n:,} {split} pairs" for split, n in found["pairs"].items())
        words.append(f"ours on {found['corpus']} ({sizes})")
    cells = dict(enumerate(found["cells"]))
    done = {n: cell for n, cell in cells.items() if cell["state"] == "complete"}
    signed = "+" if any(cell["baseline"] for cell in cells.values()) else ""
    against = {n: cell["difference"] for n, cell in done.items() if cell["difference"] is not None}
    columns = (
        ("paper", {n: "-" if c["paper"] is None else figure(c["paper"], signed) for n, c in cells.items()}),
        ("ours", {n: figure(c["ours"], signed) if n in done else c["state"] for n, c in cells.items()}),
        ("95 %", {n: _interval(c["low"], c["high"], signed) for n, c in done.items()}),
        ("difference", {n: figure(value, "+") for n, (value, _, _) in against.items()}),
        ("95 %", {n: _interval(low, high, "+") for n, (_, low, high) in against.items()}),
        ("seeds", {n: str(c["seeds"]) for n, c in done.items()}),
        ("unlike the paper's", {n: "; ".join(c["unlike"]) for n, c in done.items()}),
    )
    grid = fill("", ("", ""), {n: (c["row"], c["column"]) for n, c in cells.items()}, columns)
    title = f"Table {found['table']}: {found['title']}"
    return section(title, words, found, grid, "MedNLI", found["notes"])


def _interval(low, high, signed):
    return f"[{figure(low, signed)}, {figure(high, signed)}]"
