"""The papers' tables: their figures, which are the files published/*.json, and ours beside them.

A table reads the runs of one folder, each named for its row or cell. The tables of Romanov & Shivade 2018 are made
here; those of the other papers in cloze/table4.py, diskne/tables.py and artifacts/tables.py, by the same parts.
"""

import json
import re
import shlex
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from mednli_jax import metrics
from mednli_jax.analysis.outcomes import Finished, aligned, finished, other_training
from mednli_jax.analysis.sections import Grid, Section, figure
from mednli_jax.errors import RunError, UsageError
from mednli_jax.progress import Bar
from mednli_jax.runs import RunDirectory

NAMES = {"features": "Features", "bow": "BOW", "infersent": "InferSent", "esim": "ESIM"}


# -- what every table shares -------------------------------------------------------------------------------------------


@cache
def published(name: str) -> dict:
    """What a paper states, from published/NAME.json: mednli, clicr, diskne or artifacts. It is not to be changed."""
    return json.loads((files("mednli_jax.analysis") / "published" / f"{name}.json").read_text("utf-8"))


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
    """The grid of a table.

    Args:
      titles: what the first columns are called.
      rows: key of a row -> its cells in these columns.
      columns: (what a column is called, key of a row -> its cell), ours and the paper's; a cell that is not there is
        empty.
    """
    columns = list(columns)
    cells = [(*first, *(of.get(key, "") for _, of in columns)) for key, first in rows.items()]
    return Grid(caption, (*titles, *(name for name, _ in columns)), cells, left=len(titles))


def check_folder(folder: Path) -> Path:
    """Raises RunError where there is no folder of runs."""
    if not Path(folder).is_dir():
        raise RunError(f"{folder}: no such folder. Fix: give --runs=FOLDER, the folder that holds the runs.")
    return Path(folder)


def state(folder: Path) -> str:
    """complete, in training, missing, or the status of a run."""
    if not (folder / "config.json").is_file():
        return "missing"
    directory = RunDirectory.existing(folder)
    status = directory.status()
    return "in training" if status != "complete" and directory.in_training() else status


def lacking(commands: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """command -> what it fills, of (command, what it fills)."""
    found = {}
    for command, name in commands:
        found.setdefault(command, []).append(name)
    return found


def section(title: str, words: Sequence[str], found: Mapping, grid: Grid, paper: str, more: Sequence[str]) -> Section:
    """A table for a reader.

    Args:
      words, more: what stands before and after the note on whose figures they are.
      found: the table's JSON values, of which corpus, comparable and lacking are read.
      paper: the name of the paper's corpus.
    """
    words = list(words)
    if not found["corpus"]:
        words.append("no run of this table is finished yet")
    elif not found["comparable"]:
        words.append(f"the paper's figures are of {paper}: they are NOT COMPARABLE with ours on {found['corpus']}")
    commands = []
    for command, names in found["lacking"].items():
        between = "; " if any("," in name for name in names) else ", "
        commands.append((f"not there yet: {between.join(names)}", command))
    return Section(title, [*words, *more], [grid], commands=commands)


# -- Tables 3 to 7 of Romanov & Shivade 2018 ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One figure of a table, in points of accuracy.

    Args:
      run: the name of its run's folder.
      paper: the published figure, None for a cell that the paper does not have; such a cell is shown where its run is
        there, and is not missed where it is not.
      baseline: the name of the run whose accuracy is subtracted, "" for an accuracy.
    """

    row: str
    column: str
    run: str
    paper: float | None
    baseline: str = ""
    split: str = "test"


@dataclass(frozen=True)
class Table:
    """A table of accuracies.

    Args:
      fill: the command that trains what is missing, with {folder}; "" where each run has one.
      train: name of a run -> the flags that train it, with {corpus}; empty where `fill` trains all.
      others: a pattern for names of runs beside those of the paper (row, perhaps mode, model), whose gains are over the
        run `over`-model.
    """

    number: int
    title: str
    cells: tuple[Cell, ...]
    fill: str = ""
    others: str = ""
    over: str = ""
    train: Mapping[str, str] = field(default_factory=dict)


TABLES = {
    int(number): Table(int(number), **{**found, "cells": tuple(Cell(*cell) for cell in found["cells"])})
    for number, found in published("mednli")["tables"].items()
}


def table_of(number: int) -> Table:
    """Raises UsageError for a table that is none of accuracies."""
    if number not in TABLES:
        known = ", ".join(map(str, TABLES))
        raise UsageError(f"--table={number}: no such table of accuracies. Fix: give one of {known}.")
    return TABLES[number]


def filled(table: Table, folder: Path) -> dict:
    """The table with what the folder's runs say, as JSON values.

    cells: each a dict of the Cell's fields; `state` (complete, missing, or what its run or its baseline is in);
    where complete: ours, low, high in points (95 %), seeds, and `difference` [ours less the paper's, low, high], None
    on another corpus than the paper's. The paper's figure is taken as exact: it came without an interval.
    lacking: {command: [names of the runs it fills]}. notes: what a reader has to know.
    Raises: UserError where the runs are of different corpora or pairs; a damaged run is named.
    """
    folder, paper = check_folder(folder), published("mednli")["corpus"]
    runs, first, states = {}, {}, {}
    every = (*table.cells, *_others(table, folder))
    needed = dict.fromkeys((name, cell.split) for cell in every for name in (cell.baseline, cell.run) if name)
    for name, split in needed:
        if states.setdefault(name, state(folder / name)) == "complete":
            run = finished(folder / name, split)
            runs[name, split] = aligned(first.setdefault(split, run), run)
    corpus = next((run.corpus for run in runs.values()), "")
    cells, missed, notes = [], set(), set()
    with Bar(f"table {table.number}", len(every), unit="cells") as bar:
        for cell in every:
            bar.advance(1)
            lacks = [name for name in (cell.run, cell.baseline) if name and states[name] != "complete"]
            if lacks and cell.paper is None and states[cell.run] == "missing":
                continue
            missed.update(lacks)
            values = {**vars(cell), "state": "complete"}
            if lacks:
                values["state"] = states[lacks[0]] if lacks[0] == cell.run else f"baseline {states[lacks[0]]}"
            else:
                run, baseline = runs[cell.run, cell.split], runs.get((cell.baseline, cell.split))
                values |= _ours(cell, run, baseline, comparable=corpus == paper)
                if baseline and other_training(baseline, run):
                    notes.add(f"{cell.run} was trained on other pairs than {cell.baseline}")
            cells.append(values)
    return {
        "table": table.number,
        "title": table.title,
        "corpus": corpus,
        "comparable": corpus == paper,
        "pairs": {split: len(run.outcomes) for split, run in sorted(first.items())},
        "cells": cells,
        "lacking": lacking((_command(table, folder, corpus or paper, n, states[n]), n) for n in sorted(missed)),
        "notes": sorted(notes),
    }


def _others(table, folder) -> Iterable[Cell]:
    """Cells of the folder's runs that the paper has not, e.g. another source domain."""
    known = {name for cell in table.cells for name in (cell.run, cell.baseline)}
    for path in sorted(folder.iterdir()) if table.others else ():
        match = re.fullmatch(table.others, path.name)
        if match and path.name not in known and (path / "config.json").is_file():
            part = match.groupdict()
            column = f"{part['mode']} {NAMES[part['model']]}" if "mode" in part else NAMES[part["model"]]
            yield Cell(part["row"], column, path.name, None, f"{table.over}-{part['model']}")


def _ours(cell: Cell, run: Finished, baseline: Finished | None, *, comparable: bool) -> dict:
    if baseline is None:
        found = metrics.bootstrap_accuracy(run.outcomes.right)
        ours = found["accuracy"]
    else:
        found = metrics.paired_bootstrap(baseline.outcomes.right, run.outcomes.right)
        ours = found["difference"]
    points = [100 * value for value in (ours, found["low"], found["high"])]
    values = {**dict(zip(("ours", "low", "high"), points, strict=True)), "seeds": len(run.outcomes.predicted)}
    against = comparable and cell.paper is not None
    return {**values, "difference": [value - cell.paper for value in points] if against else None}


def _command(table, folder, corpus, name, in_state) -> str:
    """What fills a run that is missing, or goes on with one that is not finished."""
    place = folder / name
    if in_state == "in training":
        return f"wait for the process that trains in {place}"
    train, resumed = ["python", "-m", "mednli_jax.train"], _resume(place)
    if in_state in ("running", "interrupted", "failed") and resumed is not None:
        return shlex.join([*train, *resumed, f"--workdir={place}", "--resume"])
    if table.fill:
        return table.fill.format(folder=shlex.quote(str(folder)))
    return shlex.join([*train, *table.train[name].format(corpus=corpus).split(), f"--workdir={place}"])


def _resume(folder) -> list[str] | None:
    """The flags of the run's command that shape it; None where the run has not written it down."""
    try:
        command = json.loads((folder / "env.json").read_bytes())["command"]
        return [a for a in command[1:] if a.lstrip("-").partition("=")[0] not in ("resume", "force", "workdir")]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def table_section(found: dict) -> Section:
    """A table that `filled` gives, the paper's figures beside ours."""
    words = ["points of accuracy, mean over the seeds; 95 % intervals by bootstrap over pairs and seeds"]
    if found["corpus"]:
        sizes = ", ".join(f"{n:,} {split} pairs" for split, n in found["pairs"].items())
        words.append(f"ours on {found['corpus']} ({sizes})")
    files = any("_VECTORS" in command for command in found["lacking"])
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
    )
    grid = fill("", ("", ""), {n: (c["row"], c["column"]) for n, c in cells.items()}, columns)
    title = f"Table {found['table']}: {found['title']}"
    more = ["names in capitals stand for files of your own"] * files + found["notes"]
    return section(title, words, found, grid, "MedNLI", more)


def _interval(low, high, signed):
    return f"[{figure(low, signed)}, {figure(high, signed)}]"
