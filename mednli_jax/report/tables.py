"""The papers' tables: their figures, which are the files published/*.json, and ours beside them.

A table reads the runs of one folder, each named for its row or cell. The tables of Romanov &
Shivade 2018 are made here, those of the other papers in the task folders. A run is like the paper's
if its whole config is that of its row: that of configs/ for the paper's corpus, with the flags that
launch/mednli.sh gives the row (`rows` in published/mednli.json).
"""

import json
import re
import shlex
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mednli_jax.errors import RunError, UserError
from mednli_jax.report import metrics
from mednli_jax.report.outcomes import Finished, aligned, finished, other_training
from mednli_jax.report.sections import Grid, Section, figure
from mednli_jax.rundir import RunDirectory, differing, read_json

NAMES = {"features": "Features", "bow": "BOW", "infersent": "InferSent", "esim": "ESIM"}

# Fields that may differ from the row's: places of files, which are compared by what they hold, and
# how a run is kept.
FREE = re.compile(
    r"task|seeds|data\.(name|genre|dir|builder|labels)|vectors\.path|knowledge\.mentions|transfer\.init_from"
    r"|model\.weights|train\.checkpoint_\w+|diskne\.at_once"
)
ENDING = re.compile(r"(\.(txt|vec|bin|npy))?(\.gz)?$")  # of a file of vectors
Read = Callable  # cli.read_config
# Runs of Tables 5 and 7 with other vectors than GloVe's.
OTHER_VECTORS = re.compile(r"(mimic|vectors-(fasttext|wiki|glove-bioasq))-")


# -- what every table shares -------------------------------------------------------------------------------------------


@cache
def published(name: str) -> dict:
    """The figures in published/NAME.json: mednli, clicr, diskne or artifacts. Callers must not
    change them."""
    return json.loads(
        (files("mednli_jax.report") / "published" / f"{name}.json").read_text("utf-8")
    )


def of_corpus(name: str, corpus: str, *path: str) -> dict:
    """The figures at a path of names in published/NAME.json; empty for another corpus than the
    paper's."""
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
    """The grid of a table: titles and cells of the first columns, then further columns, whose
    missing cells are empty.

    rows: key of a row -> its first cells. columns: (name, key of a row -> its cell).
    """
    columns = list(columns)
    cells = [(*first, *(of.get(key, "") for _, of in columns)) for key, first in rows.items()]
    return Grid(caption, (*titles, *(name for name, _ in columns)), cells, left=len(titles))


def check_folder(folder: Path) -> Path:
    """The folder. Raises RunError if it does not exist."""
    if not Path(folder).is_dir():
        fix = "give --runs=FOLDER, the folder that holds the runs"
        raise RunError(f"{folder}: no such folder", fix=fix)
    return Path(folder)


def state(folder: Path) -> str:
    """complete, in training, missing, or the status of a run."""
    if not (folder / "config.json").is_file():
        return "missing"
    directory = RunDirectory(folder)
    status = directory.status()
    return "in training" if status != "complete" and directory.in_training() else status


def section(
    title: str, words: Sequence[str], found: Mapping, grid: Grid, paper: str, more: Sequence[str]
) -> Section:
    """A table for a reader. words, more: before and after the note on corpora. paper: the paper's
    corpus."""
    words, commands = list(words), []
    if not found["corpus"]:
        words.append("no run of this table is finished yet")
    elif not found["comparable"]:
        words.append(
            f"the paper's figures are of {paper}: they are NOT COMPARABLE with ours on {found['corpus']}"
        )
    for command, names in found["lacking"].items():
        between = "; " if any("," in name for name in names) else ", "
        commands.append((f"not there yet: {between.join(names)}", command))
    return Section(title, [*words, *more], [grid], commands=commands)


# -- how runs differ from a paper's ------------------------------------------------------------------------------------


def departures(folder: Path, baseline: Path | None, read: Read) -> list[str]:
    """How a run, the run that it was transferred from, and its baseline differ from those of
    Romanov & Shivade 2018."""
    found, (config, result) = _unlike_mednli(folder, read), _opened(folder)
    name = config.get("transfer", {}).get("init_from") or result.get("transfer", {}).get("source")
    source = (
        folder.parent / Path(name or "").name
    )  # the run in the same folder whose weights this run started from
    if name and (source / "config.json").is_file():
        found += [
            f"source: {words}" for words in _unlike_mednli(source, read) if words not in found
        ]
    if baseline is not None:
        found += [
            f"baseline: {words}" for words in _unlike_mednli(baseline, read) if words not in found
        ]
        if result.get("seeds") != _opened(baseline)[1].get("seeds"):
            found.append("other seeds than the baseline")
    return found


def _unlike_mednli(folder, read):
    """`unlike` of a row; on MedNLI also the number of training pairs and the program that found the
    concepts."""
    (config, result), paper, row = _opened(folder), published("mednli"), {}
    for pattern, flags in paper["rows"]:
        row |= flags if re.fullmatch(pattern, folder.name) else {}
    found = unlike(folder, read, paper["configs"].get(folder.name, config["model"]["name"]), row)
    if (
        result.get("corpus") == paper["corpus"]
        and result.get("transfer", {}).get("mode") != "direct"
    ):
        splits = read_json(folder / "data.json", "splits")["splits"]
        if "train" in splits and splits["train"]["rows"] != paper["statistics"]["train"]["pairs"]:
            found.append(f"{splits['train']['rows']:,} training pairs")
        linked = (
            config["model"]["knowledge"] != "none" or config["vectors"]["retrofit"] == "concepts"
        )
        if linked and not config["knowledge"]["mentions"]:
            found.append("concepts by this package's linker, not MetaMap's")
    return found


def unlike(folder: Path, read: Read, name: str, flags: Mapping = MappingProxyType({})) -> list[str]:
    """How a run differs from a paper's: fields of its config and their numbers, seeds, vectors; no
    names of files.

    name: of the config in configs/ that the paper's run has; its corpus is that of the run. flags:
    field -> its value in the paper's run.
    """
    config, result = _opened(folder)
    corpus = "demo" if config["data"]["name"].startswith("demo_") else config["data"]["name"]
    corpus += "_code" * ("_code" in result.get("config", ""))
    corpus += f"/{config['data']['genre']}" if config["data"].get("genre") else ""
    try:
        expected = json.loads(json.dumps(read(f"{name}:{corpus}").to_dict()))
    except UserError:
        return ["no config of this package"]
    for field, value in flags.items():
        section, _, last = field.partition(".")
        expected[section][last] = value
    found, both = [], (expected, config)
    unused = ("train.",) * (result["model"] in ("features", "fasttext"))
    # Direct transfer has the source's fields.
    if not any(
        _at(each, "model.knowledge") != "none" or _at(each, "vectors.retrofit") for each in both
    ):
        unused += ("knowledge.", "vectors.retrofit_")
    for field in differing(expected, config):
        if FREE.fullmatch(field) or field.startswith(unused):
            continue
        # Pretrained weights add settings that the config leaves to them.
        if not config["model"].get("weights") or _at(expected, field) is not None:
            value = _at(config, field)
            found.append(
                f"{field} {value:,}" if isinstance(value, int | float) else f"other {field}"
            )
    seeds, wanted = len(result.get("seeds", ())), len(expected["seeds"])
    if seeds != wanted > 1:
        found.append(f"{seeds} seed{'s' * (seeds != 1)}")
    path, of_row = (
        ENDING.sub("", Path(_at(each, "vectors.path") or "").name) for each in (config, expected)
    )
    if not OTHER_VECTORS.match(folder.name) and path != of_row:
        found.append("other vectors" if path else "random vectors")
    return found


def _at(config, field):
    section, _, name = field.partition(".")
    return config.get(section, {}).get(name)


def _opened(folder):
    run = RunDirectory.existing(folder)
    return run.config, run.result().values


# -- Tables 3 to 7 of Romanov & Shivade 2018 ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One figure of a table, in points of accuracy."""

    row: str
    column: str
    run: str  # the name of its run's folder
    paper: (
        float | None
    )  # the published figure; a cell without one is shown if its run exists, and is never missing
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
    int(number): Table(
        int(number), **{**found, "cells": tuple(Cell(*cell) for cell in found["cells"])}
    )
    for number, found in published("mednli")["tables"].items()
}


def filled(table: Table, folder: Path, read: Read) -> dict:
    """The table filled with the results of the folder's runs, as JSON values.

    Each of `cells` has the Cell's fields and `state`: complete, missing, or what its run or its
    baseline is in. A cell whose run is of another corpus than most, or of other pairs of it, has
    that for its state and no figure; the runs of `corpora` in published/mednli.json have a corpus
    of their own. A complete cell also has ours, low, high in points (95 %), seeds, sd (in points,
    of the run and of its baseline), unlike (see `departures`) and difference: [ours less the
    paper's, low, high], None on another corpus. The paper's figure is taken as exact: it came
    without an interval. lacking: {command: [names of the runs it fills]}; it skips finished runs
    and goes on with others.
    """
    folder, paper = check_folder(folder), published("mednli")["corpus"]
    every = (*table.cells, *_others(table, folder))
    needed = dict.fromkeys(
        (name, cell.split) for cell in every for name in (cell.run, cell.baseline) if name
    )
    states = {(name, split): state(folder / name) for name, split in needed}
    complete = {
        key: finished(folder / key[0], key[1]) for key, one in states.items() if one == "complete"
    }
    corpus, runs, odd = _of_one_corpus(complete, paper)
    states |= odd
    sizes = {split: len(run.outcomes) for (_, split), run in runs.items() if run.corpus == corpus}
    cells, missed, notes = [], set(), set()
    for cell in every:
        required = [(name, cell.split) for name in (cell.run, cell.baseline) if name]
        lacks = [key for key in required if states[key] != "complete"]
        if lacks and cell.paper is None and states[required[0]] == "missing":
            continue
        missed |= {name for name, _ in lacks}
        values = {**vars(cell), "state": "complete"}
        if lacks:
            values["state"] = (
                states[lacks[0]] if lacks[0] == required[0] else f"baseline {states[lacks[0]]}"
            )
        else:
            run, baseline = runs[required[0]], runs.get((cell.baseline, cell.split))
            values |= _ours(cell, run, baseline, read, comparable=corpus == paper)
            if _opened(run.folder)[0].get("knowledge", {}).get("mentions"):
                notes.add("concepts are those of a file of mentions, such as MetaMap's")
            if baseline and other_training(baseline, run):
                notes.add(f"{cell.run} was trained on other pairs than {cell.baseline}")
        cells.append(values)
    variant = (corpus or paper) + "_code" * any(
        "_code" in run.result.config for run in runs.values()
    )
    command = shlex.join(["bash", "launch/mednli.sh", str(folder), variant, str(table.number)])
    return {
        "table": table.number,
        "title": table.title,
        "corpus": corpus,
        "comparable": corpus == paper,
        "pairs": dict(sorted(sizes.items())),
        "cells": cells,
        "lacking": {command: sorted(missed)} if missed else {},
        "notes": sorted(notes),
    }


def _of_one_corpus(complete, paper) -> tuple[str, dict, dict[tuple, str]]:
    """(the corpus, runs that were scored on the same pairs, in one order, what is odd about each of
    the others).

    The corpus is the paper's if there is a run of it, else the most frequent; of a split, most
    pairs decide.
    """
    runs, odd, own = {}, {}, published("mednli")["corpora"]
    corpora = [run.corpus for (name, _), run in complete.items() if name not in own]
    corpus = paper if paper in corpora else max(corpora, key=corpora.count, default="")
    for key, run in sorted(complete.items(), key=lambda item: len(item[1].outcomes), reverse=True):
        if run.corpus != own.get(key[0], corpus):
            odd[key] = f"of {run.corpus}, not {own.get(key[0], corpus)}"
            continue
        place = run.corpus, key[1]
        first = next(
            (other for (_, split), other in runs.items() if (other.corpus, split) == place), run
        )
        try:
            runs[key] = aligned(first, run)
        except RunError:
            odd[key] = f"of other {key[1]} pairs"
    return corpus, runs, odd


def _others(table, folder) -> Iterable[Cell]:
    """Cells of the folder's runs that the paper has not, e.g. another source domain."""
    known = {name for cell in table.cells for name in (cell.run, cell.baseline)}
    for path in sorted(folder.iterdir()) if table.others else ():
        match = re.fullmatch(table.others, path.name)
        if match and path.name not in known and (path / "config.json").is_file():
            part = match.groupdict()
            column = (
                f"{part['mode']} {NAMES[part['model']]}" if "mode" in part else NAMES[part["model"]]
            )
            yield Cell(part["row"], column, path.name, None, part["model"])


def _ours(
    cell: Cell, run: Finished, baseline: Finished | None, read: Read, *, comparable: bool
) -> dict:
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
        "unlike": departures(run.folder, baseline and baseline.folder, read),
        "difference": [value - cell.paper for value in points] if against else None,
    }


def table_section(found: dict) -> Section:
    """A table that `filled` gives, the paper's figures beside ours."""
    words = [
        "points of accuracy, mean over the seeds; 95 % intervals by bootstrap over pairs and seeds"
    ]
    if found["corpus"]:
        sizes = ", ".join(f"{n:,} {split} pairs" for split, n in found["pairs"].items())
        words.append(f"ours on {found['corpus']} ({sizes})")
    cells = dict(enumerate(found["cells"]))
    done = {n: cell for n, cell in cells.items() if cell["state"] == "complete"}
    signed = "+" if any(cell["baseline"] for cell in cells.values()) else ""
    against = {n: cell["difference"] for n, cell in done.items() if cell["difference"] is not None}
    columns = (
        (
            "paper",
            {
                n: "-" if c["paper"] is None else figure(c["paper"], signed)
                for n, c in cells.items()
            },
        ),
        (
            "ours",
            {n: figure(c["ours"], signed) if n in done else c["state"] for n, c in cells.items()},
        ),
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
