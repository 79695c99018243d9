"""Fills Tables 3 to 7 of Romanov & Shivade 2018 with the results of runs: accuracies, and gains of
accuracy over a baseline."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from mednli_jax.errors import RunError
from mednli_jax.knowledge.mentions import METAMAP
from mednli_jax.nli.tables.runs import (
    CORPUS,
    NAME,
    NAMES,
    PAPER,
    RUNS,
    Cell,
    RunKey,
    Table,
    corpus_unlike_table,
)
from mednli_jax.report import metrics, tables
from mednli_jax.report.options import PaperRun, Read, TableOptions
from mednli_jax.report.outcomes import Finished, align, other_training, read_finished
from mednli_jax.report.public import LEAST
from mednli_jax.report.sections import Grid, Section, figure
from mednli_jax.report.tables import COMPLETE, MISSING, command_line
from mednli_jax.rundir import RunDirectory
from mednli_jax.types import Json


@dataclass(frozen=True)
class Measured:
    """Our figure of a cell.

    Args:
      ours, low, high: points, 95 % interval.
      sd: points, over the seeds, of the run and of its baseline; None for a single seed.
      unlike: see `departures`.
      difference: [value, low, high] of ours minus the paper's figure, in points; None on another
        corpus, or if the paper has no figure. The paper's figure came without an interval and is
        taken as exact.
    """

    ours: float
    low: float
    high: float
    seeds: int
    sd: list[float | None]
    unlike: list[str]
    difference: list[float] | None


@dataclass(frozen=True)
class FilledCell:
    """A cell with the state of its run.

    state: COMPLETE, or why the run has no result; "baseline ..." if only the baseline has none.
    """

    cell: Cell
    state: str
    measured: Measured | None = None

    def to_json(self) -> dict[str, Json]:
        measured = asdict(self.measured) if self.measured else {}
        return {**asdict(self.cell), "state": self.state, **measured}


@dataclass(frozen=True)
class FilledTable:
    """A table with the figures of the runs in a folder.

    Args:
      corpus: of the runs; "" if none is finished.
      pairs: split -> number of pairs.
      lacking: command -> the names of the runs that it makes. It skips finished runs.
    """

    table: Table
    corpus: str
    pairs: dict[str, int]
    cells: list[FilledCell]
    lacking: dict[str, list[str]]
    notes: list[str]

    @property
    def comparable(self) -> bool:
        return self.corpus == CORPUS

    def shareable(self) -> "FilledTable":
        """The table without counts of few pairs, runs that are not the paper's, and commands."""
        paper_runs = {cell.run for cell in self.table.cells}
        cells = [filled for filled in self.cells if filled.cell.run in paper_runs]
        pairs = {split: n for split, n in self.pairs.items() if n >= LEAST}
        return replace(self, pairs=pairs, cells=cells, lacking={}, notes=[])

    def to_json(self) -> dict[str, Json]:
        return {
            "table": self.table.number,
            "title": self.table.title,
            "corpus": self.corpus,
            "comparable": self.comparable,
            "pairs": self.pairs,
            "cells": [filled.to_json() for filled in self.cells],
            "lacking": self.lacking,
            "notes": self.notes,
        }


# -- filling a table -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Runs:
    """The runs of a table.

    Args:
      corpus: the paper's if there is a run of it, else the most frequent one.
      of_key: the finished runs that can be compared: those on `corpus` (for section 5.4.1: on its
        own corpus) whose pairs are those of the run with most pairs on that corpus and split.
        Their rows are in the order of that run.
      states: the state of every run, see report.tables.state. For a finished run that is not in
        of_key it says why: the run is of another corpus, or of other pairs.
    """

    corpus: str
    of_key: dict[RunKey, Finished]
    states: dict[RunKey, str]


def fill_table(table: Table, folder: Path, options: TableOptions) -> FilledTable:
    """Fills the table with the results of the folder's runs and of the user's systems."""
    folder = tables.check_folder(folder)
    every_cell = (*table.cells, *_further_cells(table, folder), *_cells_of(options.systems))
    runs = _open_runs(folder, every_cell)
    pairs = {}
    for (_, split), run in runs.of_key.items():
        if run.corpus == runs.corpus:
            pairs[split] = len(run.outcomes)
    cells: list[FilledCell] = []
    to_train: set[str] = set()
    notes: set[str] = set()
    for cell in every_cell:
        unfinished = [key for key in cell.keys if runs.states[key] != COMPLETE]
        if not unfinished:
            cells.append(FilledCell(cell, COMPLETE, _measure(cell, runs, options.read)))
            notes.update(_notes(cell, runs))
        elif cell.paper is not None or runs.states[cell.keys[0]] != MISSING:
            # A cell without a figure of the paper is shown only if its run was begun.
            state = runs.states[unfinished[0]]
            of_baseline = "" if unfinished[0] == cell.keys[0] else "baseline "
            cells.append(FilledCell(cell, f"{of_baseline}{state}"))
            to_train.update(name for name, _ in unfinished)
    command = options.command or _command(folder, table, runs)
    lacking = {command: sorted(to_train)} if to_train else {}
    sizes = dict(sorted(pairs.items()))
    return FilledTable(table, runs.corpus, sizes, cells, lacking, sorted(notes))


def _open_runs(folder: Path, cells: Iterable[Cell]) -> _Runs:
    """Opens the runs of the cells. A run with other pairs of a split than the largest run is left
    out of _Runs.of_key."""
    states: dict[RunKey, str] = {}
    complete: dict[RunKey, Finished] = {}
    for name, split in dict.fromkeys(key for cell in cells for key in cell.keys):
        states[name, split] = tables.state(folder / name)
        if states[name, split] == COMPLETE:
            complete[name, split] = read_finished(folder / name, split)
    # `corpus`: of the runs that have no corpus of their own (corpus_unlike_table gives "").
    corpora = Counter(
        run.corpus for (name, _), run in complete.items() if not corpus_unlike_table(name)
    )
    corpus = max(corpora, key=corpora.__getitem__, default="")
    if CORPUS in corpora:
        corpus = CORPUS
    # In order from the run with most pairs: the first run of a corpus and split sets the pairs that
    # later ones must have.
    of_key: dict[RunKey, Finished] = {}
    first_of_pairs: dict[tuple[str, str], Finished] = {}
    for key in sorted(complete, key=lambda key: len(complete[key].outcomes), reverse=True):
        (name, split), run = key, complete[key]
        expected = corpus_unlike_table(name) or corpus
        if run.corpus != expected:
            states[key] = f"of {run.corpus}, not {expected}"
            continue
        first = first_of_pairs.setdefault((run.corpus, split), run)
        try:
            of_key[key] = align(first, run)
        except RunError:
            states[key] = f"of other {split} pairs"
    return _Runs(corpus, of_key, states)


def _further_cells(table: Table, folder: Path) -> Iterator[Cell]:
    """Yields cells of the folder's runs that the paper does not have, e.g. another source
    domain."""
    if not table.others:
        return
    for path in sorted(folder.iterdir()):
        match = re.fullmatch(table.others, path.name)
        if match is None or path.name in table.runs or not (path / "config.json").is_file():
            continue
        groups = match.groupdict()
        title = NAMES[groups["model"]]
        column = f"{groups['mode']} {title}" if "mode" in groups else title
        yield Cell(groups["row"], column, path.name, None, groups["model"])


def _cells_of(systems: Mapping[str, Path]) -> Iterator[Cell]:
    """Yields cells of the user's systems, which need not lie in the folder of the runs: Cell.run is
    an absolute path, and `folder / path` is then this path."""
    for name, folder in systems.items():
        for split in RunDirectory.existing(folder).result().scored():
            yield Cell(split, name, str(folder.resolve()), None, split=split)


def _measure(cell: Cell, runs: _Runs, read: Read) -> Measured:
    run = runs.of_key[cell.run, cell.split]
    baseline = runs.of_key.get((cell.baseline, cell.split))
    if baseline is None:
        right = run.outcomes.right
        shares = (float(right.mean()), *metrics.bootstrap_interval(right))
    else:
        gain = metrics.paired_bootstrap(baseline.outcomes.right, run.outcomes.right)
        shares = (gain.difference, gain.low, gain.high)
    points = [100 * share for share in shares]
    difference = None
    if runs.corpus == CORPUS and cell.paper is not None:
        difference = [value - cell.paper for value in points]
    ours, low, high = points
    return Measured(
        ours,
        low,
        high,
        seeds=len(run.outcomes.predicted),
        sd=[_sd_over_seeds(runs.of_key[key].outcomes.right) for key in cell.keys],
        unlike=departures(run.folder, baseline.folder if baseline else None, read),
        difference=difference,
    )


def _sd_over_seeds(right_SN: np.ndarray) -> float | None:
    """The standard deviation of the accuracies of S seeds, in points; None for a single seed."""
    accuracy_S = 100 * right_SN.mean(axis=1)
    return float(np.std(accuracy_S, ddof=1)) if len(accuracy_S) > 1 else None


def _notes(cell: Cell, runs: _Runs) -> Iterator[str]:
    """Yields the remarks below the table on a cell's runs."""
    run = runs.of_key[cell.run, cell.split]
    baseline = runs.of_key.get((cell.baseline, cell.split))
    if run.config.get("knowledge", {}).get("mentions"):
        yield "concepts are those of a file of mentions, such as MetaMap's"
    if baseline and other_training(baseline, run):
        yield f"{cell.run} was trained on other pairs than {cell.baseline}"


def _command(folder: Path, table: Table, runs: _Runs) -> str:
    """The command that makes the missing runs."""
    corpus = runs.corpus or CORPUS
    if any("_code" in run.result.config for run in runs.of_key.values()):
        corpus += "_code"
    return command_line("reproduce", NAME, str(folder), corpus, f"--tables={table.number}")


# -- how a run differs from the paper's ------------------------------------------------------------


def departures(folder: Path, baseline: Path | None, read: Read) -> list[str]:
    """How a run differs from the paper's, and how its transfer source and its baseline do."""
    directory = RunDirectory.existing(folder)
    result = directory.result()
    remarks = _unlike_paper(folder, read)
    origin = directory.config.get("transfer", {}).get("init_from") or result.source
    source = folder.parent / Path(origin).name
    if origin and (source / "config.json").is_file():
        remarks += _new_remarks("source", _unlike_paper(source, read), remarks)
    if baseline is not None:
        remarks += _new_remarks("baseline", _unlike_paper(baseline, read), remarks)
        if result.seeds != RunDirectory.existing(baseline).result().seeds:
            remarks.append("other seeds than the baseline")
    return remarks


def _new_remarks(of: str, remarks: Iterable[str], earlier: Sequence[str]) -> list[str]:
    return [f"{of}: {remark}" for remark in remarks if remark not in earlier]


def _unlike_paper(folder: Path, read: Read) -> list[str]:
    """The differences of one run from the paper's; on MedNLI also in the number of training pairs,
    and in the program that found the concepts."""
    directory = RunDirectory.existing(folder)
    config, result = directory.config, directory.result()
    model = config["model"]["name"]
    remarks = tables.differences_from_paper(
        folder, read, RUNS.get(folder.name, PaperRun(folder.name, model))
    )
    if result.corpus == CORPUS and not (result.direct or result.answers):
        remarks += _other_data(directory, config)
    return remarks


def _other_data(directory: RunDirectory, config: tables.Fields) -> Iterator[str]:
    train = directory.data().splits.get("train")
    if train and train.rows != PAPER["statistics"]["train"]["pairs"]:
        yield f"{train.rows:,} training pairs"
    links = config["model"]["knowledge"] != "none" or config["vectors"]["retrofit"] == "concepts"
    mentions = config["knowledge"]["mentions"]
    if links and not mentions:
        yield "concepts by this package's linker, not MetaMap's"
    elif links and not mentions.removesuffix(".gz").endswith(METAMAP):
        yield "concepts of another program, not MetaMap's"


# -- for a reader ----------------------------------------------------------------------------------


def table_section(filled_table: FilledTable) -> Section:
    """The table as a section, the paper's figures beside ours."""
    words = [
        "points of accuracy, mean over the seeds; 95 % intervals by bootstrap over pairs and seeds"
    ]
    if filled_table.corpus:
        sizes = ", ".join(f"{n:,} {split} pairs" for split, n in filled_table.pairs.items())
        words.append(f"ours on {filled_table.corpus} ({sizes})")
    table = filled_table.table
    signed = "+" if any(filled.cell.baseline for filled in filled_table.cells) else ""
    rows = [_row(filled, signed) for filled in filled_table.cells]
    header = ("", "", "paper", "ours", "95 %", "difference", "95 %", "seeds", "unlike the paper's")
    return tables.section(
        table.number,
        table.title,
        words,
        Grid("", header, rows, left=2),
        corpus=filled_table.corpus,
        comparable=filled_table.comparable,
        paper="MedNLI",
        lacking=filled_table.lacking,
        more=filled_table.notes,
    )


def _row(filled: FilledCell, signed: str) -> tuple[str, ...]:
    cell, measured = filled.cell, filled.measured
    paper = "-" if cell.paper is None else figure(cell.paper, signed)
    if measured is None:
        return (cell.row, cell.column, paper, filled.state, "", "", "", "", "")
    difference, interval = "", ""
    if measured.difference is not None:
        value, low, high = measured.difference
        difference, interval = figure(value, "+"), _interval(low, high, "+")
    return (
        cell.row,
        cell.column,
        paper,
        figure(measured.ours, signed),
        _interval(measured.low, measured.high, signed),
        difference,
        interval,
        str(measured.seeds),
        "; ".join(measured.unlike),
    )


def _interval(low: float, high: float, signed: str) -> str:
    return f"[{figure(low, signed)}, {figure(high, signed)}]"
