"""The part of a run or a table that may be shown outside: scores, and counts of at least LEAST.

What is kept is named here: uids, words, paths, commands and names of folders, users and machines
are left out. If one part of a family of slices, of a confusion or of the classes is smaller, the
whole family is left out, because the small count would follow from the total and the other parts.
"""

from collections.abc import Mapping, Sequence

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import UsageError
from mednli_jax.report.sections import Grid, Section
from mednli_jax.rundir import SPLITS

LEAST = 10
ABOUT = ("status", "task", "model", "corpus", "seeds", "epochs", "best_epoch", "parameters")
MEASURES = ("accuracy", "macro_f1", "f1", "bleu2", "bleu4", "embedding", "loss")
AVERAGES = ("macro", "weighted")  # of DisKnE's diseases
# Fields of a config whose values are words that this package defines.
CHOICES = ("name", "knowledge", "masking", "weighting", "cell", "pooling", "matching", "activation", "optimizer",
           "schedule", "select", "precision")  # fmt: skip
FROM_FILES = ("semantic type", "skill")  # families of slices whose names come from a corpus
FLAGS = (
    "compare",
    "categories",
    "categories_file",
    "paths",
    "skills",
)  # flags whose output shows few pairs


def check(values: Mapping, runs: Sequence, shareable: bool) -> None:
    """Raises UsageError for flags that ask for few pairs, names of runs, or a table that is not
    shareable.

    values: of the flags of `report`, by name.
    """
    refused = [f"--{name}" for name in FLAGS if values[name]]
    refused += ["--csv of a run"] * bool(values["csv"] and runs)
    refused += ["several runs"] * (len(runs) > 1) + [f"--table={values['table']}"] * (not shareable)
    if refused:
        raise UsageError(
            f"--public shows no {refused[0]}", fix="give one run, or --table=3 to 7 or clicr4"
        )


def figures(result: Mapping, config: Mapping, env: Mapping) -> dict:
    """The public part of a run's result.json, config.json and env.json, as JSON values."""
    versions = {name: env.get(name, "") for name in ("mednli_jax", "python")}
    seeds = len(result.get("seeds", ())) or 1
    found = {split: scores(result[split], seeds) for split in SPLITS if result.get(split)}
    categories = {}
    for category, of in result.get("categories", {}).items():
        diseases = of["diseases"].values()
        counts = [sum(one[name] for one in diseases) for name in ("positives", "negatives")]
        if len(diseases) > 1 and min(counts) >= LEAST:
            categories[category] = {
                average: _measure(of[average]) for average in AVERAGES if average in of
            }
    about = {name: result[name] for name in ABOUT if name in result}
    settings = {  # numbers, booleans and the words of CHOICES; no paths
        part: {
            name: value
            for name, value in config[part].items()
            if isinstance(value, int | float) or name in CHOICES
        }
        for part in ("model", "train")
        if part in config
    }
    return {
        "about": {**about, "versions": {**versions, **env.get("versions", {})}},
        "settings": settings,
        "scores": {split: kept for split, kept in found.items() if kept},
        "categories": categories,
    }


def scores(found: Mapping, seeds: int) -> dict:
    """The public part of a split's scores, or of a slice's; empty for fewer than LEAST examples.

    seeds: number of seeds over which the counts of classes are summed.
    """
    if found["examples"] < LEAST:
        return {}
    kept = {"examples": found["examples"]}
    kept |= {
        name: _measure(found[name]) for name in MEASURES if isinstance(found.get(name), Mapping)
    }
    if "calibration" in found:
        kept["calibration_error"] = _measure(found["calibration"]["ece"])
    cells = found.get("confusion", ())
    if cells and min(map(min, cells)) >= LEAST * seeds:
        kept["confusion"] = cells
        kept["per_class"] = {  # without the figures from which cells could be computed
            label: {name: of[name] for name in ("precision", "recall", "f1")}
            for label, of in found.get("per_class", {}).items()
        }
    for family, named in {"slices": found.get("slices", {}), **found.get("families", {})}.items():
        parts = {name: scores(of, seeds) for name, of in named.items()}
        if parts and all(parts.values()) and family not in FROM_FILES:
            kept.setdefault("families", {})[family] = parts
    return kept


def _measure(of):
    return {name: of[name] for name in ("mean", "sd", "per_seed") if name in of}


def sections(found: Mapping) -> list[Section]:
    """The same for a reader: `found` is of `figures`."""
    shown = []
    for split, of in found["scores"].items():
        grids = [Grid("", ("", "mean", "sd", "per seed"), measure_rows(of))]
        if "per_class" in of:
            rows = [
                (label, *map(_share, values.values())) for label, values in of["per_class"].items()
            ]
            grids.append(Grid("classes", ("class", "precision", "recall", "F1"), rows))
        if "confusion" in of:
            rows = [
                (label, *map(str, row)) for label, row in zip(LABELS, of["confusion"], strict=True)
            ]
            summed = ", summed over seeds" if len(found["about"].get("seeds", ())) > 1 else ""
            grids.append(Grid(f"confusion{summed}", ("gold", *LABELS), rows))
        for family, named in of.get("families", {}).items():
            rows = [
                (name, str(one["examples"]), _share(one["accuracy"]["mean"]))
                for name, one in named.items()
            ]
            grids.append(Grid(family, (family, "examples", "accuracy"), rows))
        shown.append(Section(f"Scores, {split}", [f"{of['examples']:,} examples"], grids))
    header = ("F1", "mean", "sd", "per seed")
    return shown + [
        Section(f"Scores, {category}", grids=[Grid("", header, measure_rows(of))])
        for category, of in found["categories"].items()
    ]


def _share(value):
    return f"{value:.4f}"


def measure_rows(of: Mapping) -> list[tuple[str, str, str, str]]:
    """(name, mean, sd, values of the seeds) of each measure among some scores."""
    scored = {
        name: value
        for name, value in of.items()
        if isinstance(value, Mapping) and "per_seed" in value
    }
    rows = []
    for name, value in scored.items():
        spread = _share(value.get("sd", 0)) if len(value["per_seed"]) > 1 else "-"
        rows.append(
            (name, _share(value["mean"]), spread, ", ".join(map(_share, value["per_seed"])))
        )
    return rows
