"""Pages, sections and lines about runs on sentence pairs: a run's page, `evaluate`, comparisons,
and `predict`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mednli_jax.data.partitions import Partition
from mednli_jax.files.paths import next_free
from mednli_jax.files.writing import private_folder, write_atomic
from mednli_jax.report import charts, outcomes
from mednli_jax.report.metrics import LEVEL, labels_of, macro_f1, majority_share, share_interval
from mednli_jax.report.outcomes import Comparison, Finished, Flips
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
from mednli_jax.rundir import RunResult, Scores
from mednli_jax.types import JsonObject

if TYPE_CHECKING:
    from mednli_jax.finished import Run

SPLITS = ("dev", "test")
LONGEST_NAME = 13  # characters of a label that fit beside a confusion
MOST_DRAWN = 20  # labels; with more, no confusion is drawn
MOST_IN_TABLE = 10  # labels; with more, the table of classes has no columns of predictions
# What the pairs of a slice have in common; the other slices are genres.
SLICES = {
    "control": "statements that change no other one",
    "unseen_relation": "a relation between two concepts decides, and no training pair shows both",
}
SCORE_COLUMNS = (
    "split",
    "accuracy",
    "sd",
    "95 % interval",
    "majority",
    "macro F1",
    "pairs",
    "loss",
    "accuracy per seed",
)
CLASS_COLUMNS = ("class", "gold", "precision", "recall", "F1")


# ---- scores ----


def run_sections(result: RunResult) -> RunSections:
    """The sections of a run's result.json before and after the learning curves."""
    scored, seeds = dict(reversed(result.scored().items())), len(result.seeds)  # test is first
    confusions, classes = [], []
    for split, scores in scored.items():
        title = f"Confusion on {split}"
        labels = labels_of(scores)
        confusions.append(_confusion(split, title, scores["confusion"], labels, seeds))
        classes.append(Grid(split, CLASS_COLUMNS, _class_rows(scores, seeds)))
    overview = replace(_scores(scored), lead=_lead(scored, seeds))
    return RunSections(
        [overview, Section("Confusion", charts=confusions)],
        [Section("Classes", ["points; gold: number of pairs"], classes)],
    )


def _lead(scored: Mapping[str, Scores], seeds: int) -> str:
    """A sentence with the accuracy of the first split."""
    if not scored:
        return ""
    split, scores = next(iter(scored.items()))
    low, high = _interval(scores)
    mean = f", mean of {seeds} seeds" if seeds > 1 else ""
    return (
        f"{split.capitalize()} accuracy {points(scores['accuracy']['mean'])}{mean} (95 % interval "
        f"{points(low)} to {points(high)}); the most frequent class alone gives "
        f"{points(majority_share(scores['per_class']))}"
    )


def _scores(scored: Mapping[str, Scores]) -> Section:
    """The scores of each split or partition, and of its slices."""
    rows, slices, changes = [], {}, list[str]()
    for split, scores in scored.items():
        rows.append(_score_row(split, scores))
        for name, of_slice in scores.get("slices", {}).items():
            rows.append(_score_row(f"{split}, {name}", of_slice))
            slices[name] = SLICES.get(name, "pairs of this genre or kind")
        for name in ("consistency", "faithfulness"):
            if name in scores:
                changes.append(f"{name} {points(scores[name]['mean'])}")
    words = [f"{name}: {description}" for name, description in slices.items()]
    words += [f"changed statements: {', '.join(changes)}"] if changes else []
    words.append(
        "in points, except pairs and loss; sd: between seeds; 95 % interval: of one run, for other "
        "pairs of the same kind (Wilson); majority: the most frequent class alone"
    )
    return Section("Scores", words, [Grid("", SCORE_COLUMNS, rows)] if rows else [])


def _score_row(name: str, scores: Scores) -> tuple[str, ...]:
    """The cells of SCORE_COLUMNS."""
    accuracy = scores["accuracy"]
    return (
        name,
        points(accuracy["mean"]),
        sd(accuracy),
        interval(*_interval(scores), ""),
        points(majority_share(scores["per_class"])),
        points(scores["macro_f1"]["mean"]),
        f"{scores['examples']:,}",
        f"{scores['loss']['mean']:.4f}" if "loss" in scores else "-",
        ", ".join(map(points, accuracy["per_seed"])),
    )


def _interval(scores: Scores) -> tuple[float, float]:
    """The (low, high) of the 95 % interval of one run's accuracy."""
    return share_interval(scores["accuracy"]["mean"], scores["examples"])


def _confusion(
    name: str, title: str, counts: Sequence[Sequence[int]], labels: Sequence[str], seeds: int
) -> tuple[str, charts.Chart | None]:
    caption = f"{name}, summed over {seeds} seeds" if seeds > 1 else name
    if len(labels) > MOST_DRAWN:
        return caption, None
    names = [label if len(label) <= LONGEST_NAME else f"{label[:12]}…" for label in labels]
    return caption, charts.heat_map(counts, names, title=title, rows="gold", columns="predicted")


def _class_rows(scores: Scores, seeds: int) -> list[tuple[str, ...]]:
    """The cells of CLASS_COLUMNS for each class that has pairs. The support in the scores is summed
    over the seeds, so that it is divided by their number."""
    rows = []
    for label in labels_of(scores):
        of_class = scores["per_class"][label]
        if of_class["support"]:
            measures = (of_class["precision"], of_class["recall"], of_class["f1"])
            pairs = of_class["support"] // seeds
            rows.append((label, f"{pairs:,}", *map(points, measures)))
    return rows


def _classes(split: str, scores: Scores, seeds: int) -> Section:
    """The classes and the confusion, for a terminal."""
    labels = labels_of(scores)
    predicted = dict(zip(labels, scores["confusion"], strict=True))
    shown = len(labels) if len(labels) <= MOST_IN_TABLE else 0
    rows = []
    for label, *cells in _class_rows(scores, seeds):
        rows.append((label, *cells, *map(str, predicted[label][:shown])))
    caption = "precision, recall and F1 in points; gold: number of pairs; then the predictions"
    if seeds > 1:
        caption += f", summed over {seeds} seeds"
    header = (*CLASS_COLUMNS, *labels[:shown])
    return Section(f"Classes, {split}", grids=[Grid(caption, header, rows)])


# ---- evaluate ----


def evaluate(run: "Run", split: str, partitions: Sequence[Partition] = ()) -> Report:
    """Reports the scores of a split and of its partitions."""
    corpus = run.experiment.corpus.title
    scores, _ = run.score(split)
    figures: JsonObject = {
        "run": str(run.directory.folder),
        "corpus": corpus,
        "trained_on": run.result.corpus,
        "split": split,
    }
    if run.merged_by:
        figures["merged_by"] = run.merged_by
        corpus += f", merged by {run.merged_by}"
    figures |= {"seeds": run.result.seeds, **_with_interval(scores)}
    of_partitions = {}
    for partition in partitions:
        of_partition = run.partition_scores(split, partition)
        of_partitions[partition.name] = _with_interval(of_partition)
    if partitions:
        figures["partitions"] = of_partitions
    with_pairs = {name: scores for name, scores in of_partitions.items() if scores["examples"]}
    return _scores_report(figures, run.result, corpus, {split: scores, **with_pairs})


def evaluate_probe(run: "Run", scores: Scores, name: str) -> Report:
    """Reports the scores of the pairs of a file, by category. scores: of the run; name: of the
    file."""
    figures = {
        "run": str(run.directory.folder),
        "probe": name,
        "trained_on": run.result.corpus,
        "seeds": run.result.seeds,
        **_with_interval(scores),
    }
    return _scores_report(figures, run.result, name, {"probe": scores})


def _with_interval(scores: Scores) -> Scores:
    """Adds to the scores the 95 % interval of one run's accuracy, and the share of the most
    frequent label."""
    if not scores["examples"]:
        return scores
    low, high = _interval(scores)
    bounds = {"low": low, "high": high, "level": LEVEL}
    return {**scores, "interval": bounds, "majority": majority_share(scores["per_class"])}


def _scores_report(
    figures: JsonObject, result: RunResult, corpus: str, scored: Mapping[str, Scores]
) -> Report:
    """The scores of a run as a Report. corpus: of the split. scored: the split, then its
    partitions."""
    split = next(iter(scored))
    trained = "" if corpus == result.corpus else f", trained on {result.corpus}"
    title = f"{result.model}{trained} on {corpus}, {split}, {seeds_named(result.seeds)}"
    sections = [_scores(scored), _classes(split, scored[split], len(result.seeds))]
    return Report(figures, sections, title=title, notes=result.notes)


# ---- comparisons ----


def compare(folders: Sequence[Path], split: str) -> Report:
    """Compares the first run with each of the others on the pairs of a split."""
    names = outcomes.names_of(folders)
    runs = []
    for folder, name in zip(folders, names, strict=True):
        runs.append(replace(outcomes.read_finished(folder, split), name=name))
    compared = outcomes.comparisons(runs)
    sections = [
        outcomes.verdict(compared),
        outcomes.differences(names, folders),
        _statistics(runs, compared, split),
    ]
    sections += map(_changes, compared)
    return Report(
        {"comparisons": list(map(asdict, compared))},
        sections,
        title=f"{' and '.join(names)}: {split} of {runs[0].corpus}",
    )


def _statistics(runs: Sequence[Finished], compared: Sequence[Comparison], split: str) -> Section:
    """The scores and tests of a comparison: `compared` is outcomes.comparisons(runs)."""
    first, pairs = compared[0].first, number_of(compared[0].pairs, f"{split} pair")
    other_split = next(name for name in SPLITS if name != split)
    words = [
        f"{pairs} of {runs[0].corpus}; points, mean over the seeds; {other_split}: accuracy on "
        "that split",
        "difference: the run less the first, 95 % interval by paired bootstrap over pairs and "
        "seeds; McNemar's exact test is of the seeds' majority votes, Holm's correction over the "
        "rows",
        "pairs of one premise are counted as independent, so that intervals are a little too "
        "narrow",
    ]
    header = (
        *("run", "config", "seeds", "accuracy", "macro F1", other_split, "difference", "95 %"),
        *(f"only {first} right", "only this run right", "McNemar p", "Holm p"),
    )
    rows = [(*_mean_scores(runs[0], other_split), *("",) * 6)]
    for run, row in zip(runs[1:], compared, strict=True):
        tests = (
            points(row.difference, "+"),
            interval(row.low, row.high),
            str(row.mcnemar.only_first),
            str(row.mcnemar.only_second),
            p_value(row.mcnemar.p_value),
            p_value(row.p_holm),
        )
        rows.append((*_mean_scores(run, other_split), *tests))
        if row.other_training:
            words.append(f"{row.second} was trained on other pairs than {first}")
    return Section("Statistics", words, [Grid("", header, rows, left=2)])


def _mean_scores(run: Finished, other_split: str) -> tuple[str, ...]:
    """The cells (name, config, seeds, and accuracy, macro F1 and accuracy on the other split in
    points) of a run."""
    gold, predicted = run.outcomes.gold, run.outcomes.predicted
    f1 = float(np.mean([macro_f1(gold, of_seed) for of_seed in predicted]))
    scores = run.result.scores(other_split)
    return (
        run.name,
        run.result.config or run.result.model,
        str(len(predicted)),
        points(run.outcomes.right.mean()),
        points(f1),
        points(scores["accuracy"]["mean"] if scores else None),
    )


def _changes(row: Comparison) -> Section:
    """The section of the changes of each class."""
    recall, changed = [], list[tuple[str, ...]]()
    for label, gain in row.class_gains.items():
        difference = points(gain.difference, "+"), interval(gain.low, gain.high)
        recall.append((label, str(gain.pairs), *map(points, gain.recall), *difference))
    for label, flip in row.flips.items():
        if flip.pairs:
            cells = (
                label,
                str(flip.pairs),
                str(flip.changed),
                str(flip.gained),
                _list(flip.gained_from),
                str(flip.lost),
                _list(flip.lost_to),
                str(flip.wrong_to_wrong),
            )
            changed.append(cells)
    header = ("gold", "pairs", "changed", "gained", "previously", "lost", "now", "wrong to wrong")
    of_classes = ("gold", "pairs", row.first, row.second, "difference", "95 %")
    grids = [
        Grid("recall of each class, mean over seeds", of_classes, recall),
        Grid("predictions that changed, by the majority votes", header, changed),
    ]
    return Section(f"{row.second} against {row.first}", [_gains_in_words(row.flips)], grids)


def _list(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count) or "-"


def _gains_in_words(flips: Mapping[str, Flips]) -> str:
    """A sentence on the class with the most gains, and on what was predicted before."""
    total = sum(flip.gained for flip in flips.values())
    if not total:
        return "no prediction was gained"
    label = max(flips, key=lambda name: flips[name].gained)
    gained, sources = flips[label].gained, flips[label].gained_from
    source = max(sources, key=sources.__getitem__)
    share = f"of {number_of(total, 'prediction')} gained, {gained / total:.0%} are of {label}"
    return f"{share}; {sources[source] / gained:.0%} of these were {source} before"


# ---- predict ----


def prediction_lines(rows: Iterable[JsonObject]) -> Iterator[str]:
    """Yields a header, then for each pair the label and the probability of each class, between
    tabs. rows: of NLIScorer.describe."""
    labels: Sequence[str] = ()
    for row in rows:
        if not labels:
            _, *labels = row  # its keys: "label", then the name of each label
            yield "\t".join(row)
        shares = [f"{row[label]:.6f}" for label in labels]
        yield "\t".join((row["label"], *shares))


def prediction(row: JsonObject) -> JsonObject:
    """The label and the probability of each class, for --output of `predict`. row: of
    NLIScorer.describe."""
    _, *labels = row  # its keys: "label", then the name of each label
    shares = {label: round(row[label], 6) for label in labels}
    return {"predicted": row["label"], **shares}


def write_attention(run: "Run", inputs: Sequence[tuple[str, str]]) -> Path:
    """Writes the attention maps of all pairs to a new folder under the run's private/, because they
    quote the pairs.

    Returns the folder, which holds pair-1.json (tokens, maps of each seed), pair-1.png (means over
    seeds) and so on.
    """
    attention = run.attention(inputs)
    folder = private_folder(next_free(run.directory.private / "attention"))
    for number, pair in enumerate(attention, start=1):
        maps, drawn = {}, {}
        for name, sides in pair["maps"].items():
            maps[name] = {side: weights.round(6).tolist() for side, weights in sides.items()}
            drawn[f"{name}: premise to hypothesis"] = sides["premise"].mean(axis=0)
            drawn[f"{name}: hypothesis to premise"] = sides["hypothesis"].mean(axis=0).T
        picture = charts.attention(drawn, pair["premise"], pair["hypothesis"])
        write_atomic(folder / f"pair-{number}.json", json.dumps({**pair, "maps": maps}) + "\n")
        write_atomic(folder / f"pair-{number}.png", picture)
    return folder
