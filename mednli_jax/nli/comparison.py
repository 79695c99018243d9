"""Comparison of runs on sentence pairs, or on folds of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from mednli_jax.data.examples import LABELS
from mednli_jax.nli.page import CONFUSION
from mednli_jax.report import charts, outcomes
from mednli_jax.report.outcomes import Finished
from mednli_jax.report.sections import Comparison, Grid, Section, interval, p_value, points


def compare(folders: Sequence[Path], split: str, prepared_of: object, read: Callable | None = None) -> Comparison:
    """Compares the first run with each of the others on the pairs of a split.

    prepared_of: not used. read: see outcomes.finished.

    Raises: UserError, DataError(s) where a run is unfinished or damaged, or the runs are of different pairs.
    """
    runs = [outcomes.finished(folder, split, read) for folder in folders]
    runs = [replace(run, called=name) for run, name in zip(runs, outcomes.names_of(folders), strict=True)]
    compared = outcomes.comparisons(runs)
    title = f"{' and '.join(run.name for run in runs)}: {split} of {runs[0].corpus}"
    return Comparison(title, comparison_sections(runs, compared), [confusions(runs)], compared)


def comparison_sections(runs: Sequence[Finished], compared: Sequence[dict]) -> list[Section]:
    """The sections of a comparison: `compared` is outcomes.comparisons(runs)."""
    words = [
        f"{compared[0]['pairs']:,} {compared[0]['split']} pairs of {runs[0].corpus}; points of accuracy, mean over the "
        "seeds",
        "difference: the run less the first, 95 % interval by paired bootstrap over pairs and seeds; McNemar's exact "
        "test is of the seeds' majority votes, Holm's correction over the rows; detectable: the smallest true "
        "difference that the test finds in 80 % of experiments that disagree as often as these",
        "pairs of one premise are counted as independent, so that intervals are a little too narrow",
    ]
    counted = ("only first", "only run", "McNemar p", "Holm p", "detectable")
    header = ("run", "config", "seeds", "accuracy", "difference", "95 %", *counted)
    first, configs = compared[0], [str(run.result.get("config", run.result["model"])) for run in runs]
    rows = [(first["first"], configs[0], str(first["seeds"][0]), points(first["accuracy"][0]), *[""] * 7)]
    for row, config in zip(compared, configs[1:], strict=True):
        ours = config, str(row["seeds"][1]), points(row["accuracy"][1]), points(row["difference"], "+")
        only = (str(row["mcnemar"][name]) for name in ("only_first", "only_second"))
        tests = p_value(row["mcnemar"]["p_value"]), p_value(row["p_holm"]), points(row["minimum_detectable_effect"])
        rows.append((row["second"], *ours, interval(row["low"], row["high"]), *only, *tests))
        if row["mcnemar_per_seed"]:
            values = sorted(row["mcnemar_per_seed"])
            ends = f"{p_value(values[0])} to {p_value(values[-1])}"
            words.append(f"{row['second']}, McNemar of seed against the same seed: p from {ends}")
        if row["other_training"]:
            words.append(f"{row['second']} was trained on other pairs than {row['first']}")
    sections = [Section("Comparison", words, [Grid("", header, rows, left=2)])]
    return sections + [_changes(row) for row in compared]


def _changes(row) -> Section:
    gains, flips = row["class_gains"], row["flips"]
    recall = []
    for label, gain in gains.items():
        change = points(gain["difference"], "+"), interval(gain["low"], gain["high"])
        recall.append((label, str(gain["pairs"]), *map(points, gain["recall"]), *change))
    changed = []
    for label, flip in flips.items():
        gained = *(str(flip[name]) for name in ("pairs", "changed", "gained")), _each(flip["gained_from"])
        changed.append((label, *gained, str(flip["lost"]), _each(flip["lost_to"]), str(flip["wrong_to_wrong"])))
    header = ("gold", "pairs", "changed", "gained", "these were", "lost", "these are now", "wrong to wrong")
    of_classes = ("gold", "pairs", row["first"], row["second"], "difference", "95 %")
    grids = [
        Grid("recall of each class, mean over seeds", of_classes, recall),
        Grid("predictions that changed, by the majority votes", header, changed),
    ]
    chart = charts.bars(
        {"difference": [100 * gain["difference"] for gain in gains.values()]},
        list(gains),
        title=f"Gain by class, {row['second']} over {row['first']}",
        x="gold class",
        y="points of recall",
        intervals={"difference": [(100 * gain["low"], 100 * gain["high"]) for gain in gains.values()]},
    )
    title = f"{row['second']} against {row['first']}"
    return Section(title, _gains_in_words(flips), grids, [("Gain by class, 95 % intervals", chart)])


def _each(counts):
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count) or "-"


def _gains_in_words(flips):
    """The gains in words, beside those that section 6 of the paper reports for knowledge-directed attention."""
    total = sum(flip["gained"] for flip in flips.values())
    if not total:
        return ["no prediction was gained"]
    label = max(LABELS, key=lambda name: flips[name]["gained"])
    flip = flips[label]
    source = max(flip["gained_from"], key=flip["gained_from"].get)
    share, of_these = flip["gained"] / total, flip["gained_from"][source] / flip["gained"]
    return [
        f"of {total} predictions gained, {share:.0%} are of {label}; {of_these:.0%} of these were {source} before "
        "(the paper, knowledge-directed attention on MedNLI: 60% of neutral, 87% of these entailment before)"
    ]


def confusions(runs: Sequence[Finished]) -> Section:
    """A heat map of each run."""
    drawn = []
    for run in runs:
        title = f"{run.name}, {run.split}: confusion"
        seeds = len(run.outcomes.predicted)
        caption = title + (f", summed over {seeds} seeds" if seeds > 1 else "")
        drawn.append((caption, charts.heat_map(run.outcomes.confusion().tolist(), LABELS, title=title, **CONFUSION)))
    return Section("Confusion", charts=drawn)
