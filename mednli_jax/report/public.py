"""The part of a run or a table that may be shown outside: scores, and counts of at least ten.

This module names what is kept, so that a new field of a result is left out until it is named here. It leaves out uids
and rows of single pairs, words, paths and commands, names of folders, users and machines, and every count below LEAST.
If one part of a family of slices, of a confusion or of the classes is smaller, the whole family is left out, because
the small count would follow from the total and the other parts.
"""

from collections.abc import Collection, Mapping, Sequence

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import UsageError
from mednli_jax.report.runs import SPLITS
from mednli_jax.report.sections import Grid, Section

LEAST = 10
ABOUT = ("status", "task", "model", "corpus", "seeds", "epochs", "best_epoch", "parameters")
MEASURES = ("accuracy", "macro_f1", "f1", "bleu2", "bleu4", "embedding", "loss")
AVERAGES = ("macro", "weighted")  # of DisKnE's diseases
# Fields of a config whose values are words that this package defines.
CHOICES = ("name", "knowledge", "masking", "weighting", "cell", "pooling", "matching", "activation", "optimizer",
           "schedule", "select", "precision")  # fmt: skip
FROM_FILES = ("semantic type", "skill")  # families of slices whose names come from a corpus
FLAGS = ("compare", "categories", "categories_file", "paths", "skills")  # flags whose output shows few pairs


def check(given, runs: Sequence, shareable: bool) -> None:
    """Raises UsageError for flags that ask for few pairs or for names of runs.

    given: the flags, by name. shareable: whether the table, if one is asked for, shows no single diseases.
    """
    refused = [f"--{name}" for name in FLAGS if given[name].value]
    refused += ["--csv of a run"] * bool(given["csv"].value and runs)
    refused += ["several runs"] * (len(runs) > 1) + ["tables of single diseases"] * (not shareable)
    if refused:
        raise UsageError(f"--public shows no {refused[0]}. Fix: give one run, or --table=3 to 7 or clicr4.")


def figures(result: Mapping, config: Mapping, env: Mapping) -> dict:
    """The public part of a run's result.json, config.json and env.json, as JSON values.

    Returns: {"about": ..., "settings": {"model": ..., "train": ...}, "scores": {split: ...}, "categories": ...}.
    """
    versions = {"mednli_jax": env.get("mednli_jax", ""), "python": env.get("python", ""), **env.get("versions", {})}
    seeds = len(result.get("seeds", ())) or 1
    found = {split: scores(result[split], seeds) for split in SPLITS if result.get(split)}
    return {
        "about": {**{name: result[name] for name in ABOUT if name in result}, "versions": versions},
        "settings": {part: _settings(config[part]) for part in ("model", "train") if part in config},
        "scores": {split: kept for split, kept in found.items() if kept},
        "categories": {
            category: {average: _measure(of[average]) for average in AVERAGES if average in of}
            for category, of in result.get("categories", {}).items()
            if len(of["diseases"]) > 1
            and all(sum(one[name] for one in of["diseases"].values()) >= LEAST for name in ("positives", "negatives"))
        },
    }


def scores(found: Mapping, seeds: int) -> dict:
    """The public part of a split's scores, or of a slice's; empty for fewer than LEAST examples.

    seeds: number of seeds over which the counts of classes are summed.
    """
    if found["examples"] < LEAST:
        return {}
    kept = {"examples": found["examples"]}
    kept |= {name: _measure(found[name]) for name in MEASURES if isinstance(found.get(name), Mapping)}
    if "calibration" in found:
        kept["calibration_error"] = _measure(found["calibration"]["ece"])
    cells = found.get("confusion", ())
    if cells and min(map(min, cells)) >= LEAST * seeds:
        kept["confusion"] = cells
        kept["per_class"] = {  # without the figures from which cells could be computed
            label: {name: of[name] for name in ("precision", "recall", "f1")}
            for label, of in found.get("per_class", {}).items()
        }
    families = {**({"slices": found["slices"]} if "slices" in found else {}), **found.get("families", {})}
    families = {family: named for family, named in families.items() if family not in FROM_FILES}
    parts = {family: {name: scores(of, seeds) for name, of in named.items()} for family, named in families.items()}
    if whole := {family: named for family, named in parts.items() if named and all(named.values())}:
        kept["families"] = whole
    return kept


def _measure(of):
    return {name: of[name] for name in ("mean", "sd", "per_seed") if name in of}


def _settings(section):
    """Numbers, booleans and the words of CHOICES; no paths."""
    return {name: value for name, value in section.items() if isinstance(value, int | float) or name in CHOICES}


def sections(found: Mapping) -> list[Section]:
    """The same for a reader: `found` is of `figures`."""
    shown = []
    for split, of in found["scores"].items():
        grids = [Grid("", ("", "mean", "sd", "per seed"), _rows(of))]
        if "per_class" in of:
            rows = [(label, *(f"{v:.4f}" for v in values.values())) for label, values in of["per_class"].items()]
            grids.append(Grid("classes", ("class", "precision", "recall", "F1"), rows))
        if "confusion" in of:
            rows = [(label, *map(str, row)) for label, row in zip(LABELS, of["confusion"], strict=True)]
            grids.append(Grid("confusion, summed over seeds", ("gold", *LABELS), rows))
        for family, named in of.get("families", {}).items():
            rows = [(name, str(part["examples"]), f"{part['accuracy']['mean']:.4f}") for name, part in named.items()]
            grids.append(Grid(family, (family, "examples", "accuracy"), rows))
        shown.append(Section(f"Scores, {split}", [f"{of['examples']:,} examples"], grids))
    for category, of in found["categories"].items():
        shown.append(Section(f"Scores, {category}", grids=[Grid("", ("F1", "mean", "sd", "per seed"), _rows(of))]))
    return shown


def _rows(of):
    return [
        (name, f"{value['mean']:.4f}", f"{value.get('sd', 0):.4f}", ", ".join(f"{v:.4f}" for v in value["per_seed"]))
        for name, value in of.items()
        if isinstance(value, Mapping) and "per_seed" in value
    ]


def table(found: Mapping, runs: Collection[str] = ()) -> dict:
    """A table of the paper without counts of few pairs, and without the missing runs and the commands for them, which
    name folders.

    runs: the runs that the paper's table has. The cells of other runs, which are named after folders, are left out.
    """
    kept = {name: value for name, value in found.items() if name not in ("lacking", "notes")}
    if "pairs" in found:
        kept["pairs"] = {split: n for split, n in found["pairs"].items() if n >= LEAST}
    if "cells" in found:
        kept["cells"] = [cell for cell in found["cells"] if cell["run"] in runs]
    return {**kept, "lacking": {}, "notes": []}
