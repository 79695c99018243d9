"""The part of a run or a table that may be published: scores, and counts of at least LEAST.

It holds only the fields that are named here: no uids, words, paths, commands, or names of folders,
users and machines. If one part of the slices, of a confusion or of the classes is smaller,
all of them are left out, because the small count would follow from the total and the other
parts.
"""

from collections.abc import Mapping, Sequence

from mednli_jax.errors import UsageError
from mednli_jax.report.metrics import labels_of
from mednli_jax.report.sections import Grid, Section
from mednli_jax.rundir import SPLITS
from mednli_jax.types import Json, JsonObject

LEAST = 10
ABOUT = ("status", "task", "model", "corpus", "seeds", "epochs", "best_epoch", "parameters")
MEASURES = ("accuracy", "macro_f1", "f1", "bleu2", "bleu4", "embedding", "loss")
AVERAGES = ("macro", "weighted")  # of DisKnE's diseases
# Fields of a config whose values are words that this package defines.
CHOICES = (
    *("name", "knowledge", "masking", "weighting", "cell", "pooling", "matching"),
    *("optimizer", "schedule", "select", "precision"),
)
# Flags whose output shows few pairs.
FLAGS = ("compare", "categories", "categories_file", "paths", "skills")
OF_RUNS = ("csv", "latex", "files")  # flags whose output is not the public part


def check(values: Mapping[str, Json], runs: Sequence[object], shareable: bool) -> None:
    """Raises UsageError for flags that ask for few pairs, names of runs, or a table that is not
    shareable.

    values: of the flags of `report`, by name.
    """
    refused = [f"--{name}" for name in FLAGS if values[name]]
    if runs:
        refused += [f"--{name} of a run" for name in OF_RUNS if values[name]]
    if len(runs) > 1:
        refused.append("several runs")
    if not shareable:
        refused.append(f"--table={values['table']}")
    if refused:
        fix = "give one run, or --table=3 to 7 or clicr4"
        raise UsageError(f"--public shows no {refused[0]}", fix=fix)


def figures(
    result: Mapping[str, Json], config: Mapping[str, Json], env: Mapping[str, Json]
) -> JsonObject:
    """The public part of a run's result.json, config.json and env.json."""
    versions = {name: env.get(name, "") for name in ("mednli_jax", "python")}
    about = {name: result[name] for name in ABOUT if name in result}
    seeds = len(result.get("seeds", ())) or 1
    scored = {}
    for split in SPLITS:
        if result.get(split) and (of_split := scores(result[split], seeds)):
            scored[split] = of_split
    sections = () if result.get("answers") else ("model", "train")  # of a run alone
    settings = {name: _settings(config[name]) for name in sections if name in config}
    return {
        "about": {**about, "versions": {**versions, **env.get("versions", {})}},
        "settings": settings,
        "scores": scored,
        "categories": _categories(result.get("categories", {})),
    }


def _settings(section: Mapping[str, Json]) -> JsonObject:
    """The settings that are numbers, booleans or words of CHOICES; no paths."""
    settings = {}
    for name, value in section.items():
        if isinstance(value, int | float) or name in CHOICES:
            settings[name] = value
    return settings


def _categories(of_category: Mapping[str, Json]) -> JsonObject:
    """The averages of DisKnE's categories."""
    categories: JsonObject = {}
    for category, values in of_category.items():
        positives = negatives = 0
        for of_disease in values["diseases"].values():
            positives += of_disease["positives"]
            negatives += of_disease["negatives"]
        if len(values["diseases"]) > 1 and min(positives, negatives) >= LEAST:
            categories[category] = {}
            for average in AVERAGES:
                if average in values:
                    categories[category][average] = _measure(values[average])
    return categories


def scores(values: Mapping[str, Json], seeds: int) -> JsonObject:
    """The public part of a split's scores, or of a slice's; empty for fewer than LEAST examples.

    seeds: number of seeds over which the counts of classes are summed.
    """
    if values["examples"] < LEAST:
        return {}
    public: JsonObject = {"examples": values["examples"]}
    for name in MEASURES:
        if isinstance(values.get(name), Mapping):
            public[name] = _measure(values[name])
    confusion = values.get("confusion", ())
    if confusion and min(map(min, confusion)) >= LEAST * seeds:
        public["confusion"] = confusion
        if "labels" in values:
            public["labels"] = values["labels"]
        public["per_class"] = {}
        for label, of_class in values.get("per_class", {}).items():
            # without `support`, from which cells could be computed
            names = ("precision", "recall", "f1")
            public["per_class"][label] = {name: of_class[name] for name in names}
    slices = {name: scores(part, seeds) for name, part in values.get("slices", {}).items()}
    if slices and all(slices.values()):
        public["slices"] = slices
    return public


def _measure(values: Mapping[str, Json]) -> JsonObject:
    return {name: values[name] for name in ("mean", "sd", "per_seed") if name in values}


def sections(public: Mapping[str, Json]) -> list[Section]:
    """The public part of a run as sections. public: of `figures`."""
    several = len(public["about"].get("seeds", ())) > 1
    shown = []
    for split, values in public["scores"].items():
        words = [f"{values['examples']:,} examples"]
        shown.append(Section(f"Scores, {split}", words, _grids(values, several_seeds=several)))
    for category, values in public["categories"].items():
        grid = Grid("", ("F1", "mean", "sd", "per seed"), measure_rows(values))
        shown.append(Section(f"Scores, {category}", grids=[grid]))
    return shown


def _grids(values: Mapping[str, Json], *, several_seeds: bool) -> list[Grid]:
    """The scores of a split: measures, classes, confusion and slices."""
    grids = [Grid("", ("", "mean", "sd", "per seed"), measure_rows(values))]
    rows: list[tuple[str, ...]]
    if "per_class" in values:
        rows = []
        for label, row in values["per_class"].items():
            rows.append((label, *map(_share, row.values())))
        grids.append(Grid("classes", ("class", "precision", "recall", "F1"), rows))
    if "confusion" in values:
        rows = []
        labels = labels_of(values)
        for label, row in zip(labels, values["confusion"], strict=True):
            rows.append((label, *map(str, row)))
        summed = ", summed over seeds" if several_seeds else ""
        grids.append(Grid(f"confusion{summed}", ("gold", *labels), rows))
    if "slices" in values:
        rows = []
        for name, of_slice in values["slices"].items():
            accuracy = _share(of_slice["accuracy"]["mean"])
            rows.append((name, str(of_slice["examples"]), accuracy))
        grids.append(Grid("slices", ("slices", "examples", "accuracy"), rows))
    return grids


def _share(value: float) -> str:
    return f"{value:.4f}"


def measure_rows(values: Mapping[str, Json]) -> list[tuple[str, ...]]:
    """The rows (name, mean, sd, values of the seeds) of each measure among some scores."""
    rows: list[tuple[str, ...]] = []
    for name, measure in values.items():
        if isinstance(measure, Mapping) and "per_seed" in measure:
            per_seed = measure["per_seed"]
            spread = _share(measure.get("sd", 0)) if len(per_seed) > 1 else "-"
            seeds = ", ".join(map(_share, per_seed))
            rows.append((name, _share(measure["mean"]), spread, seeds))
    return rows
