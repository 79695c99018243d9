"""Results of runs on sentence pairs for a reader: a run's page, `evaluate`, comparisons, and
`predict`."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mednli_jax.data.examples import LABELS
from mednli_jax.data.partitions import Partition
from mednli_jax.files import next_free, private_folder, write_atomic
from mednli_jax.report import charts, outcomes
from mednli_jax.report.metrics import macro_f1, majority_share, wilson_interval
from mednli_jax.report.outcomes import Comparison, Finished
from mednli_jax.report.sections import (
    Grid,
    Report,
    RunSections,
    Section,
    interval,
    number_of,
    p_value,
    points,
    sd,
    seeds_named,
)
from mednli_jax.rundir import RunResult, differing

SPLITS = ("dev", "test")
# What the pairs of a slice have in common; the other slices are genres.
SLICES = {
    "unseen_relation": "a relation between two concepts decides, and no training pair shows both",
}


def run_sections(result: RunResult) -> RunSections:
    """The sections of a run's result.json before and after the learning curves."""
    scored = result.scored()
    seeds = len(result.seeds)
    confusion = [
        _confusion(split, f"Confusion on {split}", of["confusion"], seeds)
        for split, of in scored.items()
    ]
    classes = [_classes(split, scores, seeds) for split, scores in scored.items()]
    scores = _scores(scored)
    for split, of in scored.items():  # test stands first
        majority = f"the most frequent class alone gives {points(majority_share(of['per_class']))}"
        scores.words.insert(0, f"{split} accuracy {points(of['accuracy']['mean'])}; {majority}")
    return RunSections([scores, Section("Confusion", charts=confusion)], classes)


def _scores(scored) -> Section:
    """The scores of each split, and of its slices."""
    rows, slices = [], {}
    for split, scores in scored.items():
        slices |= scores.get("slices", {})
        for name, of in (
            (split, scores),
            *((f"{split}, {n}", s) for n, s in scores.get("slices", {}).items()),
        ):
            accuracy, n = of["accuracy"], of["examples"]
            wide = interval(*_interval(of), "")
            seeds = ", ".join(points(value) for value in accuracy["per_seed"])
            calibration = points(of["calibration"]["ece"]["mean"]) if "calibration" in of else "-"
            loss = f"{of['loss']['mean']:.4f}" if "loss" in of else "-"
            f1, most = points(of["macro_f1"]["mean"]), points(majority_share(of["per_class"]))
            figures = (
                points(accuracy["mean"]),
                sd(accuracy),
                wide,
                most,
                f1,
                f"{n:,}",
                loss,
                calibration,
                seeds,
            )
            rows.append((name, *figures))
    header = (
        "split",
        "accuracy",
        "sd",
        "95 % of one run",
        "majority",
        "macro F1",
        "pairs",
        "loss",
        "ECE",
    )
    header += ("accuracy per seed",)
    words = [f"{name}: {SLICES.get(name, 'pairs of this genre')}" for name in slices]
    words += ["in points, except pairs and loss; ECE is the calibration error"]
    return Section("Scores", words, [Grid("", header, rows)] * bool(rows))


def _interval(scores) -> tuple[float, float]:
    """The 95 % interval of one run's accuracy."""
    return wilson_interval(
        round(scores["accuracy"]["mean"] * scores["examples"]), scores["examples"]
    )


def _confusion(name, title, counts, seeds) -> tuple[str, charts.Chart]:
    caption = name + (f", summed over {seeds} seeds" if seeds > 1 else "")
    return caption, charts.heat_map(counts, LABELS, title=title, rows="gold", columns="predicted")


def _classes(split, scores, seeds) -> Section:
    of_class = scores["per_class"]
    measures = ("precision", "recall", "f1")
    rows = []
    for label, predicted in zip(LABELS, scores["confusion"], strict=True):
        of = of_class[label]
        if not of["support"]:
            continue
        figures = (points(of[name]) for name in measures)
        rows.append((label, str(of["support"]), *figures, *map(str, predicted)))
    header = ("class", "gold", "precision", "recall", "F1", *LABELS)
    caption = "precision, recall and F1 in points; the others are numbers of pairs"
    caption += ", summed over seeds" if seeds > 1 else ""
    return Section(f"Classes, {split}", grids=[Grid(caption, header, rows)])


def evaluate(run, split: str, partitions: Sequence[Partition] = ()) -> Report:
    """The scores of a split and of its partitions. run: a FinishedRun."""
    corpus = run.experiment.corpus.title
    scores, _ = run.scores(split)
    found = {part.name: _with_interval(run.partition_scores(split, part)) for part in partitions}
    figures = {
        "run": str(run.directory.folder),
        "corpus": corpus,
        "trained_on": run.result.corpus,
        "split": split,
        **({"merged_by": run.merged_by} if run.merged_by else {}),
        "seeds": run.result.seeds,
        **_with_interval(scores),
        **({"partitions": found} if partitions else {}),
    }
    called = f"{corpus}, merged by {run.merged_by}" if run.merged_by else corpus
    return _scores_report(figures, run.result, called, split, scores, found)


def evaluate_probe(run, scores: dict, name: str) -> Report:
    """The scores of the pairs of a file, by category. scores: of the run; name: of the file."""
    figures = {"run": str(run.directory.folder), "probe": name, "trained_on": run.result.corpus}
    figures |= {"seeds": run.result.seeds, **_with_interval(scores)}
    return _scores_report(figures, run.result, name, "probe", scores, {})


def _with_interval(scores: Mapping) -> Mapping:
    """The scores, the 95 % interval of one run's accuracy, and the share of the pairs' most
    frequent label."""
    if not scores["examples"]:
        return scores
    low, high = _interval(scores)
    bounds = {"low": low, "high": high, "level": 0.95}
    return {**scores, "interval": bounds, "majority": majority_share(scores["per_class"])}


def _scores_report(
    figures: dict, result: RunResult, corpus: str, split: str, scores, parts: Mapping
) -> Report:
    """The scores of a split and of parts of it. result: the run's; corpus: that of the split."""
    trained = "" if corpus == result.corpus else f", trained on {result.corpus}"
    title = f"{result.model}{trained} on {corpus}, {split}, {seeds_named(result.seeds)}"
    parts = {name: part for name, part in parts.items() if part["examples"]}
    sections = [_scores({split: scores, **parts}), _classes(split, scores, len(result.seeds))]
    return Report(figures, sections, title=title, notes=result.notes)


def compare(folders: Sequence[Path], split: str, read: Callable | None = None) -> Report:
    """Compares the first run with each of the others on the pairs of a split. read: of
    outcomes.finished."""
    runs = [outcomes.finished(folder, split, read) for folder in folders]
    names = outcomes.names_of(folders)
    runs = [replace(run, name=name) for run, name in zip(runs, names, strict=True)]
    compared = outcomes.comparisons(runs)
    title = f"{' and '.join(run.name for run in runs)}: {split} of {runs[0].corpus}"
    drawn = []
    for run in runs:
        name, seeds = f"{run.name}, {split}: confusion", len(run.outcomes.predicted)
        drawn.append(_confusion(name, name, run.outcomes.confusion().tolist(), seeds))
    first, *others = runs
    attention = [run.name for run in others if _adds_attention(first, run)]
    sections = [
        outcomes.verdict(
            outcomes.Judged(row.first, row.second, row.difference, row.low, row.high)
            for row in compared
        ),
        outcomes.differences(names, folders),
        _statistics(runs, compared, split),
    ]
    sections += [_changes(row, row.second in attention) for row in compared]
    page_only = [Section("Confusion", charts=drawn)]
    figures = {"comparisons": [row.to_json() for row in compared]}
    return Report(figures, sections, title=title, page_only=page_only)


def _adds_attention(first: Finished, second: Finished) -> bool:
    """Whether the second run is the first with attention by knowledge, and differs in no other
    field but the seeds."""
    fields = differing(first.config, second.config)
    if "model.knowledge" not in fields or first.config["model"].get("knowledge") != "none":
        return False
    return all(re.match(r"model\.(knowledge|weighting)|knowledge\.|seeds", name) for name in fields)


def _statistics(runs: Sequence[Finished], compared: Sequence[Comparison], split: str) -> Section:
    """The scores and tests of a comparison: `compared` is outcomes.comparisons(runs)."""
    other = next(name for name in SPLITS if name != split)
    words = [
        f"{number_of(compared[0].pairs, f'{split} pair')} of {runs[0].corpus}; points, mean over the seeds; "
        f"{other}: accuracy on that split",
        "difference: the run less the first, 95 % interval by paired bootstrap over pairs and seeds; McNemar's exact "
        "test is of the seeds' majority votes, Holm's correction over the rows",
        "pairs of one premise are counted as independent, so that intervals are a little too narrow",
    ]
    first = compared[0].first
    header = ("run", "config", "seeds", "accuracy", "macro F1", other, "difference", "95 %")
    header += (f"only {first} right", "only this run right", "McNemar p", "Holm p")
    rows, tests = [], [("",) * 6]
    for row in compared:
        change = points(row.difference, "+"), interval(row.low, row.high)
        only = str(row.mcnemar.only_first), str(row.mcnemar.only_second)
        tests.append((*change, *only, p_value(row.mcnemar.p_value), p_value(row.p_holm)))
        if row.other_training:
            words.append(f"{row.second} was trained on other pairs than {first}")
    for run, tested in zip(runs, tests, strict=True):
        found, of = run.outcomes, run.result.scores(other)
        config = run.result.config or run.result.model
        scores = (
            found.right.mean(),
            np.mean([macro_f1(found.gold, each) for each in found.predicted]),
        )
        scores = *scores, of["accuracy"]["mean"] if of else None
        rows.append((run.name, config, str(len(found.predicted)), *map(points, scores), *tested))
    return Section("Statistics", words, [Grid("", header, rows, left=2)])


def _changes(row: Comparison, attention: bool) -> Section:
    """What changed by class. attention: whether the second run is the first with attention by
    knowledge."""
    gains, flips = row.class_gains, row.flips
    recall = []
    for label, gain in gains.items():
        change = points(gain.difference, "+"), interval(gain.low, gain.high)
        recall.append((label, str(gain.pairs), *map(points, gain.recall), *change))
    changed = []
    for label, flip in flips.items():
        if not flip.pairs:
            continue
        gained = str(flip.gained), _each(flip.gained_from)
        lost = str(flip.lost), _each(flip.lost_to)
        changed.append(
            (label, str(flip.pairs), str(flip.changed), *gained, *lost, str(flip.wrong_to_wrong))
        )
    header = ("gold", "pairs", "changed", "gained", "previously", "lost", "now", "wrong to wrong")
    of_classes = ("gold", "pairs", row.first, row.second, "difference", "95 %")
    grids = [
        Grid("recall of each class, mean over seeds", of_classes, recall),
        Grid("predictions that changed, by the majority votes", header, changed),
    ]
    return Section(f"{row.second} against {row.first}", _gains_in_words(flips, attention), grids)


def _each(counts):
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count) or "-"


def _gains_in_words(flips, attention):
    """The gains in words, for attention by knowledge beside those of section 6 of the paper."""
    total = sum(flip.gained for flip in flips.values())
    if not total:
        return ["no prediction was gained"]
    label = max(LABELS, key=lambda name: flips[name].gained)
    flip = flips[label]
    source = max(flip.gained_from, key=flip.gained_from.__getitem__)
    share, of_these = flip.gained / total, flip.gained_from[source] / flip.gained
    paper = " (the paper, knowledge-directed attention on MedNLI: 60% of neutral, 87% of these entailment before)"
    gained = f"of {number_of(total, 'prediction')} gained, {share:.0%} are of {label}"
    return [f"{gained}; {of_these:.0%} of these were {source} before{paper if attention else ''}"]


def prediction_lines(rows: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """A header, then of each pair the label and the probability of each class, between tabs."""
    yield "\t".join(("label", *LABELS))
    for row in rows:
        yield "\t".join((max(row, key=row.__getitem__), *(f"{row[label]:.6f}" for label in LABELS)))


def prediction(row: Mapping[str, float]) -> dict:
    """The label and the probability of each class, for --output of `predict`."""
    return {
        "predicted": max(row, key=row.__getitem__),
        **{label: round(row[label], 6) for label in row},
    }


def write_attention(run, pairs) -> Path:
    """Writes the attention maps of all pairs to a new folder under the run's private/, because they
    quote the pairs.

    Returns the folder, which holds pair-1.json (tokens, maps of each seed), pair-1.png (means over
    seeds) and so on.
    """
    found = run.attention(pairs)
    folder = private_folder(next_free(run.directory.private / "attention"))
    for number, pair in enumerate(found, start=1):
        maps = {
            name: {side: both[side].round(6).tolist() for side in both}
            for name, both in pair["maps"].items()
        }
        write_atomic(folder / f"pair-{number}.json", json.dumps({**pair, "maps": maps}) + "\n")
        shown = {}
        for name, both in pair["maps"].items():
            shown[f"{name}: premise to hypothesis"] = both["premise"].mean(axis=0)
            shown[f"{name}: hypothesis to premise"] = both["hypothesis"].mean(axis=0).T
        write_atomic(
            folder / f"pair-{number}.png",
            charts.attention(shown, pair["premise"], pair["hypothesis"]),
        )
    return folder
