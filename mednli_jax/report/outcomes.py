"""The predictions of finished runs, item by item, and two systems compared on the same items, by
uid."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import DataError, Problems, RunError
from mednli_jax.files.reading import text_lines
from mednli_jax.report import charts, metrics
from mednli_jax.report.sections import Grid, Section, interval, points
from mednli_jax.rundir import (
    RESTORE,
    Json,
    RunData,
    RunDirectory,
    RunResult,
    differing,
    flat,
)

SAME_FILES = "compare runs of the same files, or train one of them again"
Value = TypeVar("Value")


@dataclass(frozen=True)
class Outcomes:
    """Predictions of S seeds for the N items of a split; classes are numbers of labels.

    Args:
      gold: int [N]
      predicted: int [S, N]
      voted: int [N], predicted by most seeds; of several such classes, the one of highest mean
        probability.
    """

    uids: tuple[str, ...]
    gold: np.ndarray
    predicted: np.ndarray
    voted: np.ndarray
    labels: Sequence[str] = LABELS

    def __len__(self) -> int:
        return len(self.uids)

    @property
    def right(self) -> np.ndarray:
        """bool [S, N], whether each prediction is right."""
        return np.asarray(self.predicted == self.gold)

    def with_labels(self, labels: Sequence[str]) -> "Outcomes":
        """These predictions with the class numbers that the labels have among `labels`."""
        number_C = np.array(list(map(labels.index, self.labels)))
        gold, predicted, voted = number_C[self.gold], number_C[self.predicted], number_C[self.voted]
        return replace(self, gold=gold, predicted=predicted, voted=voted, labels=labels)


@dataclass(frozen=True)
class Finished:
    """A finished run and its predictions on `split`. name: of its folder, or longer if two folders
    have one name."""

    name: str
    folder: Path
    split: str
    result: RunResult
    data: RunData
    outcomes: Outcomes

    @property
    def config(self) -> Mapping[str, Json]:
        return RunDirectory.existing(self.folder).config

    @property
    def corpus(self) -> str:
        """The corpus that the run was tested on."""
        return self.result.corpus


def complete(folder: Path) -> tuple[RunDirectory, RunResult]:
    """Opens a finished run: (directory, result). Raises RunError for a run that is not finished."""
    directory = RunDirectory.existing(folder)
    if (status := directory.status()) != "complete":
        raise directory.unfinished_error(status)
    return directory, directory.result()


def names_of(folders: Sequence[Path]) -> list[str]:
    """The names of runs in a comparison: their folders' names, with parent folders if two are
    equal."""
    paths = [folder.resolve().parts for folder in folders]
    names: list[str] = []
    for depth in range(1, max(map(len, paths)) + 1):
        names = ["/".join(path[-depth:]) for path in paths]
        if len(set(names)) == len(set(paths)):
            break
    return names


# -- predictions of a run --------------------------------------------------------------------------


def read_finished(folder: Path, split: str = "test") -> Finished:
    directory, result = complete(folder)
    data = directory.data()
    path = directory.folder.resolve()
    return Finished(path.name, path, split, result, data, read_outcomes(directory, split))


def read_rows(
    directory: RunDirectory,
    split: str,
    parse: Callable[[str], tuple[str, Value] | None],
    holds: str,
) -> dict[str, Value]:
    """Reads private/predictions.<split>.jsonl: {uid: row}.

    parse: maps a line to its uid and its row; None, or an error, for a line that is not a row.
    """
    path = directory.private / f"predictions.{split}.jsonl"
    if not path.is_file():
        problem = f"{path}: no such file, so the run has no predictions of this split"
        fix = "give --split=dev or --split=test as the corpus has them, or train again"
        raise RunError(problem, fix=fix)
    problems = Problems()
    rows: dict[str, Value] = {}
    for number, line in text_lines(path, problems):
        try:
            parsed = parse(line)
        except (ValueError, TypeError, KeyError):
            parsed = None
        if parsed is None or parsed[0] in rows:
            problem = f"the row must hold {holds}; a uid may occur once"
            problems.add(DataError(problem, file=path.name, line=number, fix=RESTORE))
        else:
            uid, row = parsed
            rows[uid] = row
    problems.raise_if_any()
    if not rows:
        raise DataError("the file holds no prediction", file=path.name, fix=RESTORE)
    return rows


def _predicted_pair(
    line: str, labels: Sequence[str]
) -> tuple[str, tuple[int, list[int], np.ndarray]]:
    """Parses a line: (uid, (gold class, predicted class of each of S seeds, probabilities [S,
    C]))."""
    row = json.loads(line)
    predicted = list(map(labels.index, row["predicted"]))
    probabilities = np.array(row["probabilities"], float).reshape(len(predicted), len(labels))
    return row["uid"], (labels.index(row["label"]), predicted, probabilities)


def _labels_of(directory: RunDirectory, split: str) -> Sequence[str]:
    """The labels of a split in the order of their probabilities."""
    return metrics.labels_of(directory.result().scores(split) or {})


def read_outcomes(directory: RunDirectory, split: str) -> Outcomes:
    """The predictions of a run for a split."""
    holds = "uid, label, and of each seed predicted and probabilities"
    labels = _labels_of(directory, split)
    pairs = read_rows(directory, split, partial(_predicted_pair, labels=labels), holds)
    gold_N, predicted_NS, p_NSC = map(np.array, zip(*pairs.values(), strict=True))
    votes_NC = np.stack([(predicted_NS == c).sum(axis=1) for c in range(len(labels))], axis=1)
    is_most_NC = votes_NC == votes_NC.max(axis=1, keepdims=True)
    voted_N = np.where(is_most_NC, p_NSC.mean(axis=1), -1.0).argmax(axis=1)
    return Outcomes(tuple(pairs), gold_N, predicted_NS.T.copy(), voted_N, labels)


def read_metrics(directory: RunDirectory) -> list[Mapping[str, Json]]:
    """The rows of a run's metrics.jsonl. If an epoch was trained again after a resume, only the
    later row counts."""
    rows = [json.loads(line) for _, line in directory.metrics()]
    last = {row["epoch"]: row for row in rows if isinstance(row.get("seeds"), list)}
    return [last[epoch] for epoch in sorted(last)]


# -- two systems -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ClassGain(metrics.Difference):
    """The second system's recall of a gold class less the first's, with its interval.

    recall: of both systems, mean over seeds.
    """

    pairs: int
    recall: tuple[float, float]


@dataclass(frozen=True)
class Flips:
    """Majority votes for the pairs of a gold class that changed from the first system to the second
    (section 6).

    gained_from: class that the first system predicted -> pairs that the second has right.
    lost_to: class that the second system predicts -> pairs that the first had right.
    """

    pairs: int
    changed: int
    gained: int
    lost: int
    gained_from: Mapping[str, int]
    lost_to: Mapping[str, int]
    wrong_to_wrong: int


@dataclass(frozen=True, kw_only=True)
class Comparison(metrics.Difference):
    """The second run against the first on the same pairs, as in the JSON of `report --compare`.

    Args:
      seeds, accuracy: of both systems; accuracies are means over seeds.
      mcnemar: of the two majority votes.
      class_gains, flips: gold class -> its changes.
      other_training: whether the two were trained on other pairs.
      p_holm: McNemar's p-value, adjusted for the number of comparisons.
    """

    first: str
    second: str
    split: str
    pairs: int
    seeds: tuple[int, int]
    accuracy: tuple[float, float]
    mcnemar: metrics.McNemar
    class_gains: Mapping[str, ClassGain]
    flips: Mapping[str, Flips]
    other_training: bool
    p_holm: float


class Named(Protocol):
    """A system in a comparison."""

    @property
    def name(self) -> str: ...

    @property
    def corpus(self) -> str: ...


def check_corpora(first: Named, second: Named) -> None:
    """Raises RunError for two systems of different corpora."""
    if first.corpus != second.corpus:
        problem = f"one is of {first.corpus}, the other of {second.corpus}"
        fix = "compare runs of one corpus"
        raise RunError(f"{first.name} and {second.name}: {problem}", fix=fix)


def align(first: Finished, second: Finished) -> Finished:
    """Puts the second run's pairs in the order of the first's. Raises RunError if the pairs are not
    the same."""
    check_corpora(first, second)
    uids, moved = first.outcomes.uids, second.outcomes
    labels = dict.fromkeys((*first.outcomes.labels, *moved.labels))
    moved = moved.with_labels(list(labels))
    place = {uid: i for i, uid in enumerate(moved.uids)}
    shared = sum(uid in place for uid in uids)
    if not len(uids) == len(moved) == shared:
        sizes = f"{len(uids):,} and {len(moved):,} pairs in {first.split}"
        raise _mismatch(first, second, f"{sizes}, {shared:,} of them the same")
    ours, theirs = first.data.splits.get(first.split), second.data.splits.get(second.split)
    # A gzipped file has another name.
    if ours and theirs and ours.file == theirs.file and ours.sha256 != theirs.sha256:
        problem = f"the files {ours.file} of {first.split} are not the same"
        raise _mismatch(first, second, problem)
    order = [place[uid] for uid in uids]
    if (moved.gold[order] != first.outcomes.gold).any():
        raise _mismatch(first, second, "their labels differ")
    predicted, voted = moved.predicted[:, order], moved.voted[order]
    outcomes = replace(moved, uids=uids, gold=first.outcomes.gold, predicted=predicted, voted=voted)
    return replace(second, outcomes=outcomes)


def _mismatch(first: Finished, second: Finished, problem: str) -> RunError:
    return RunError(f"{first.name} and {second.name}: {problem}", fix=SAME_FILES)


def other_training(first: Finished, second: Finished) -> bool:
    """Whether the two runs were trained on other pairs."""
    ours, theirs = first.data.splits.get("train"), second.data.splits.get("train")
    if ours is None or theirs is None:
        return ours is not theirs
    return (ours.rows, ours.labels, ours.sha256) != (theirs.rows, theirs.labels, theirs.sha256)


def comparison(first: Finished, second: Finished) -> Comparison:
    """Compares two runs alone: p_holm is the p-value."""
    second = align(first, second)
    ours, theirs = first.outcomes, second.outcomes
    mcnemar = metrics.mcnemar(ours.gold, ours.voted, theirs.voted)
    return Comparison(
        first=first.name,
        second=second.name,
        split=first.split,
        pairs=len(ours),
        seeds=(len(ours.predicted), len(theirs.predicted)),
        accuracy=(float(ours.right.mean()), float(theirs.right.mean())),
        **asdict(metrics.paired_bootstrap(ours.right, theirs.right)),
        mcnemar=mcnemar,
        class_gains=class_gains(ours, theirs),
        flips=flips(ours, theirs),
        other_training=other_training(first, second),
        p_holm=mcnemar.p_value,
    )


def comparisons(runs: Sequence[Finished]) -> list[Comparison]:
    """Compares the first run with each of the others."""
    compared = [comparison(runs[0], run) for run in runs[1:]]
    adjusted = metrics.holm([row.mcnemar.p_value for row in compared])
    return [replace(row, p_holm=p) for row, p in zip(compared, adjusted, strict=True)]


def class_gains(first: Outcomes, second: Outcomes) -> dict[str, ClassGain]:
    """The gain of each gold class that has pairs."""
    gains = {}
    for index, label in enumerate(first.labels):
        of_class = first.gold == index
        if of_class.any():
            ours, theirs = first.right[:, of_class], second.right[:, of_class]
            gains[label] = ClassGain(
                pairs=int(of_class.sum()),
                recall=(float(ours.mean()), float(theirs.mean())),
                **asdict(metrics.paired_bootstrap(ours, theirs)),
            )
    return gains


def flips(first: Outcomes, second: Outcomes) -> dict[str, Flips]:
    """The majority votes that changed, by gold class. second: with the labels of the first, and
    maybe more."""
    counts = np.zeros((len(second.labels),) * 3, int)  # gold, first, second
    np.add.at(counts, (first.gold, first.voted, second.voted), 1)
    of_class = {}
    for index, (label, moved) in enumerate(zip(second.labels, counts, strict=True)):
        gained = dict(zip(second.labels, moved[:, index].tolist(), strict=True))
        lost = dict(zip(second.labels, moved[index].tolist(), strict=True))
        del gained[label], lost[label]
        changed = int(moved.sum() - moved.trace())
        of_class[label] = Flips(
            pairs=int(moved.sum()),
            changed=changed,
            gained=sum(gained.values()),
            lost=sum(lost.values()),
            gained_from=gained,
            lost_to=lost,
            wrong_to_wrong=changed - sum(gained.values()) - sum(lost.values()),
        )
    return of_class


class Judged(NamedTuple):
    """Two systems, and the second's score less the first's with its interval."""

    first: str
    second: str
    difference: float
    low: float
    high: float


def verdict(compared: Sequence[Judged | Comparison]) -> Section:
    """The section that says which of two systems is better, with a chart of the differences."""
    words, ranges = [], {}
    for row in compared:
        better = "better" if row.difference > 0 else "worse"
        sentence = f"{row.second} is {better} than {row.first}"
        if row.low <= 0 <= row.high:
            sentence = f"no difference detected between {row.second} and {row.first}"
        change, bounds = points(row.difference, "+"), interval(row.low, row.high)
        words.append(f"{sentence}: {change} points, 95 % interval {bounds}")
        values = (100 * row.difference, 100 * row.low, 100 * row.high)
        ranges[row.second] = charts.Range(*values, f"{change} {bounds}")
    title = f"Differences from {compared[0].first}, with 95 % intervals"
    chart = charts.ranges(ranges, title=title, x="difference (points)", line=0.0)
    return Section("Verdict", words[1:], charts=[(title, chart)], lead=words[0])


def differences(names: Sequence[str], folders: Sequence[Path]) -> Section:
    """The fields in which the configs of runs differ, as a grid with a column for each run."""
    title = "What differs between the configs"
    columns, answers = {}, []
    for name, folder in zip(names, folders, strict=True):
        directory = RunDirectory.existing(folder)
        if directory.result().answers:
            answers.append(f"{name}: answers of another system, without a config")
        else:
            columns[name] = flat(directory.config)
    if len(columns) < 2:
        return Section(title, answers)
    configs = list(columns.values())
    fields: set[str] = set()
    for config in configs[1:]:
        fields.update(differing(configs[0], config))
    if not fields:
        return Section(title, ["the configs are the same", *answers])
    rows = []
    for field in sorted(fields):
        rows.append((field, *(str(config.get(field, "-")) for config in configs)))
    return Section(title, answers, [Grid("", ("field", *columns), rows)])
