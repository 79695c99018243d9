"""The results tables of Romanov & Shivade 2018: which run fills which cell, the paper's figure, and ours beside it.

A table reads the runs of one folder, each named for its cell (`Cell.run`). Points are accuracy times 100, as printed
in the paper; its gains are over a baseline, which is a cell's second run.
"""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from mednli_jax import metrics
from mednli_jax.analysis.outcomes import Finished, aligned, finished, other_training
from mednli_jax.errors import RunError
from mednli_jax.progress import Bar
from mednli_jax.runs import RunDirectory

MODELS = ("bow", "infersent", "esim")
NAMES = {"features": "Features", "bow": "BOW", "infersent": "InferSent", "esim": "ESIM"}
PAPER_CORPUS = "mednli"


@dataclass(frozen=True)
class Cell:
    """One figure of a table.

    run: its folder's name; baseline: that of the run whose accuracy is subtracted, "" for an accuracy of its own.
    paper: the published figure in points, None for a cell that the paper does not have; such a cell is shown where its
    run is there, and is not missed where it is not.
    """

    row: str
    column: str
    run: str
    paper: float | None
    baseline: str = ""
    split: str = "test"


@dataclass(frozen=True)
class Table:
    """fill: the command that trains what is missing, with {folder}; "" where each run has a command of its own.

    others: names of runs beside those of the paper (row, perhaps mode, model), gains over the run `over`-model.
    """

    number: int
    title: str
    cells: tuple[Cell, ...]
    fill: str = ""
    others: str = ""
    over: str = ""


def _baselines():
    paper = {
        "dev": {"features": 51.9, "bow": 71.9, "infersent": 76.0, "esim": 74.4},
        "test": {"features": 51.9, "bow": 70.2, "infersent": 73.5, "esim": 73.1},
    }
    cells = [
        Cell(split, NAMES[model], model, figure, split=split)
        for split, row in paper.items()
        for model, figure in row.items()
    ]
    return Table(3, "accuracy of the baselines", tuple(cells), "bash launch/mednli_table3.sh {folder}")


# Columns: BOW, InferSent, ESIM, three times: direct, sequential and multi-target transfer.
_TRANSFER = {
    "snli": (-21.8, -24.2, -22.8, 1.8, -1.8, -2.5, 2.4, -2.5, -0.7),
    "fiction": (-21.6, -25.6, -21.4, 1.3, 0.4, -0.5, 1.4, 0.1, 0.3),
    "government": (-23.8, -27.2, -26.2, 1.0, 0.8, -0.7, 1.3, 0.2, 0.2),
    "slate": (-23.2, -25.7, -21.6, 1.9, 0.9, -0.2, 1.1, 0.6, -0.1),
    "telephone": (-25.7, -27.3, -25.6, 1.7, -0.2, -1.1, 1.2, 0.4, -0.1),
    "travel": (-25.4, -29.1, -23.5, 1.6, 0.0, -0.7, 0.2, -0.3, 0.1),
}
MODES = ("direct", "sequential", "multi")


def _transfer():
    cells = []
    for source, figures in _TRANSFER.items():
        columns = ((mode, model) for mode in MODES for model in MODELS)
        for (mode, model), figure in zip(columns, figures, strict=True):
            column = f"{mode} {NAMES[model]}"
            cells.append(Cell(source, column, f"{source}-{mode}-{model}", figure, f"baseline-{model}"))
    title = "gain by transfer from a source domain, over the model trained on MedNLI alone"
    others = rf"(?P<row>.+)-(?P<mode>{'|'.join(MODES)}|mixed)-(?P<model>{'|'.join(MODELS)})"
    return Table(4, title, tuple(cells), "bash launch/mednli_table4.sh {folder}", others, "baseline")


_EMBEDDINGS = {
    "fasttext-wiki": ("fastText Wiki", -3.5, -3.5, -4.4),
    "fasttext-cc": ("fastText CC", -0.6, 1.3, -0.3),
    "fasttext-bioasq": ("fastText BioASQ", 0.5, 0.6, 0.2),
    "fasttext-mimic": ("fastText MIMIC-III", 1.1, 2.3, 1.2),
    "glove-bioasq": ("GloVe > BioASQ", 0.2, 0.7, 1.4),
    "glove-bioasq-mimic": ("GloVe > BioASQ > MIMIC-III", 0.9, 2.7, 1.8),
    "wiki-mimic": ("fastText Wiki > MIMIC-III", 0.1, 3.1, 1.7),
}


def _embeddings():
    cells = [
        Cell(name, NAMES[model], f"{run}-{model}", figure, f"glove-{model}")
        for run, (name, *figures) in _EMBEDDINGS.items()
        for model, figure in zip(MODELS, figures, strict=True)
    ]
    title = "gain by word embeddings, over GloVe CC"
    others = rf"(?P<row>.+)-(?P<model>{'|'.join(MODELS)})"
    fill = "bash launch/mednli_table5.sh {folder} CORPUS glove=FILE NAME=FILE ..."
    return Table(5, title, tuple(cells), fill, others, "glove")


def _retrofitting():
    figures = zip(MODELS, (-1.7, -2.0, -2.7), strict=True)
    cells = [Cell("retrofitted", NAMES[m], f"retrofit-{m}", figure, f"none-{m}") for m, figure in figures]
    return Table(6, "gain by retrofitting the word vectors", tuple(cells))


def _attention():
    """`bias`, learned weights by path length, and BOW are ours; the paper has neither."""
    paper = {("", "infersent"): 0.3, ("", "esim"): 0.0, ("mimic-", "infersent"): 0.2, ("mimic-", "esim"): 0.3}
    cells = []
    for vectors, name in (("", "GloVe CC"), ("mimic-", "fastText MIMIC-III")):
        for knowledge in ("replace", "bias"):
            for model in MODELS:
                figure = paper.get((vectors, model)) if knowledge == "replace" else None
                run, baseline = f"{vectors}{knowledge}-{model}", f"{vectors}none-{model}"
                cells.append(Cell(f"{name}, {knowledge}", NAMES[model], run, figure, baseline))
    return Table(7, "gain by knowledge-directed attention", tuple(cells))


TABLES = {table.number: table for table in (_baselines(), _transfer(), _embeddings(), _retrofitting(), _attention())}


def table_of(number: int) -> Table:
    """Raises UserError for a table that is none of accuracies."""
    if number not in TABLES:
        known = ", ".join(map(str, TABLES))
        raise RunError(f"--table={number}: no such table of accuracies. Fix: give one of {known}.")
    return TABLES[number]


# -- ours beside the paper's -------------------------------------------------------------------------------------------


def filled(table: Table, folder: Path) -> dict:
    """The table with what the folder's runs say, as JSON values.

    cells: each a dict of the Cell's fields; `state` (complete, missing, or what its run or its baseline is in);
    where complete: ours, low, high in points (95 %), seeds, and `difference` [ours less the paper's, low, high], None
    on another corpus than the paper's. The paper's figure is taken as exact: it came without an interval.
    lacking: {command: [names of the runs it fills]}. notes: what a reader has to know.
    Raises: UserError where the runs are of different corpora or pairs; a damaged run is named.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder. Fix: give --runs=FOLDER, the folder that holds the runs.")
    runs, first, states = {}, {}, {}
    every = (*table.cells, *_others(table, folder))
    needed = dict.fromkeys((name, cell.split) for cell in every for name in (cell.baseline, cell.run) if name)
    for name, split in needed:
        state = states.setdefault(name, _state(folder / name))
        if state == "complete":
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
                baseline = runs.get((cell.baseline, cell.split))
                values |= _ours(cell, runs[cell.run, cell.split], baseline, comparable=corpus == PAPER_CORPUS)
                if baseline and other_training(baseline, runs[cell.run, cell.split]):
                    notes.add(f"{cell.run} was trained on other pairs than {cell.baseline}")
            cells.append(values)
    return {
        "table": table.number,
        "title": table.title,
        "corpus": corpus,
        "comparable": corpus == PAPER_CORPUS,
        "pairs": {split: len(run.outcomes) for split, run in sorted(first.items())},
        "cells": cells,
        "lacking": _lacking(table, folder, corpus or PAPER_CORPUS, {name: states[name] for name in sorted(missed)}),
        "notes": sorted(notes),
    }


def _others(table, folder):
    """Cells of the folder's runs that the paper has not, e.g. another source domain."""
    known = {name for cell in table.cells for name in (cell.run, cell.baseline)}
    for path in sorted(folder.iterdir()) if table.others else ():
        match = re.fullmatch(table.others, path.name)
        if match and path.name not in known and (path / "config.json").is_file():
            part = match.groupdict()
            column = f"{part['mode']} {NAMES[part['model']]}" if "mode" in part else NAMES[part["model"]]
            yield Cell(part["row"], column, path.name, None, f"{table.over}-{part['model']}")


def _state(folder):
    if not (folder / "config.json").is_file():
        return "missing"
    directory = RunDirectory.existing(folder)
    status = directory.status()
    return "in training" if status != "complete" and directory.in_training() else status


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


# -- what is not there -------------------------------------------------------------------------------------------------


def _lacking(table, folder, corpus, states) -> dict[str, list[str]]:
    commands = {}
    for name, state in states.items():
        command = table.fill.format(folder=shlex.quote(str(folder))) or _train(folder / name, corpus)
        if state in ("running", "interrupted", "failed"):
            command = _resume(folder / name) or command
        if state == "in training":
            command = f"wait for the process that trains in {folder / name}"
        commands.setdefault(command, []).append(name)
    return commands


def _train(folder, corpus):
    *kind, model = folder.name.split("-")
    knowledge = [word for word in kind if word in ("replace", "bias")]
    flags = [f"--config=configs/{model}{'_kd' if knowledge else ''}.py:{corpus}"]
    flags += [f"--config.model.knowledge={word}" for word in knowledge]
    flags += ["--config.vectors.path=RETROFITTED_VECTORS"] if "retrofit" in kind else []
    flags += ["--config.vectors.path=MIMIC_VECTORS"] if "mimic" in kind else []
    return shlex.join(["python", "-m", "mednli_jax.train", *flags, f"--workdir={folder}"])


def _resume(folder):
    """The run's own command, to go on with it; "" where the run has not written it down."""
    try:
        command = json.loads((folder / "env.json").read_bytes())["command"]
        flags = [a for a in command[1:] if a.lstrip("-").partition("=")[0] not in ("resume", "force", "workdir")]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return ""
    return shlex.join(["python", "-m", "mednli_jax.train", *flags, f"--workdir={folder}", "--resume"])
