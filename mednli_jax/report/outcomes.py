"""The predictions of finished runs, item by item: as CSV files, and two systems compared on the
same items, by uid."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import DataError, Problems, RunError
from mednli_jax.files import text_lines
from mednli_jax.report import metrics
from mednli_jax.report.sections import Grid, Section, csv_lines, interval, points
from mednli_jax.rundir import SPLITS, RunData, RunDirectory, RunResult, differing, flat

DAMAGED = "restore the file, or train again with --force"
SAME_FILES = "compare runs of the same files, or train one of them again"


@dataclass(frozen=True)
class Outcomes:
    """Predictions of S seeds for the N items of a split; classes are indices into LABELS."""

    uids: tuple[str, ...]
    gold: np.ndarray  # int [N]
    predicted: np.ndarray  # int [S, N]
    voted: np.ndarray  # int [N], predicted by most seeds; of several such classes, the one of highest mean probability

    def __len__(self) -> int:
        return len(self.uids)

    @property
    def right(self) -> np.ndarray:
        """bool [S, N]"""
        return self.predicted == self.gold

    def confusion(self) -> np.ndarray:
        """[3, 3] rows gold, columns predicted, summed over the seeds."""
        return metrics.confusion(
            np.tile(self.gold, len(self.predicted)), self.predicted.reshape(-1)
        )


@dataclass(frozen=True)
class Finished:
    """A finished run and its predictions on `split`. name: of its folder, or longer where two
    folders have one name."""

    name: str
    folder: Path
    split: str
    result: RunResult
    data: RunData
    outcomes: Outcomes

    @property
    def config(self) -> dict:
        return RunDirectory.existing(self.folder).config

    @property
    def corpus(self) -> str:
        """The corpus it was tested on: `mednli` for `mednli+snli`, which mixes SNLI into the
        training pairs."""
        return self.result.corpus.partition("+")[0]


def complete(folder: Path) -> tuple[RunDirectory, RunResult]:
    """A finished run and its result. Raises RunError for a run that is not finished."""
    directory = RunDirectory.existing(folder)
    if (status := directory.status()) != "complete":
        raise directory.unfinished(status)
    return directory, directory.result("corpus", "model", "seeds", fix=DAMAGED)


def names_of(folders: Sequence[Path]) -> list[str]:
    """The names of runs in a comparison: their folders' names, with parent folders where two are
    equal."""
    parts = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(of[-depth:]) for of in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names


def finished(
    folder: Path, split: str = "test", read: Callable[[RunDirectory, str], Outcomes] | None = None
) -> Finished:
    directory, result = complete(folder)
    data = directory.data("splits", fix=DAMAGED)
    path = directory.folder.resolve()
    return Finished(path.name, path, split, result, data, (read or read_outcomes)(directory, split))


def read_rows(
    directory: RunDirectory, split: str, parse: Callable[[str], tuple | None], holds: str
) -> list[tuple]:
    """The rows of private/predictions.<split>.jsonl.

    parse: of a line, a tuple that begins with its uid; None, or an error, for a line that is no
    row.
    """
    path = directory.private / f"predictions.{split}.jsonl"
    if not path.is_file():
        problem = f"{path}: no such file, so the run has no predictions of this split"
        fix = "give --split=dev or --split=test as the corpus has them, or train again"
        raise RunError(problem, fix=fix)
    problems, rows = Problems(), {}
    for number, line in text_lines(path, problems):
        try:
            row = parse(line)
        except (ValueError, TypeError, KeyError):
            row = None
        if row is None or row[0] in rows:
            problem = f"the row must hold {holds}; a uid may occur once"
            problems.add(DataError(problem, file=path.name, line=number, fix=DAMAGED))
        else:
            rows[row[0]] = row
    problems.raise_if_any()
    if not rows:
        raise DataError("the file holds no prediction", file=path.name, fix=DAMAGED)
    return list(rows.values())


def read_outcomes(directory: RunDirectory, split: str) -> Outcomes:
    """The predictions of a run for a split."""

    def parse(line):
        row = json.loads(line)
        predicted = [LABELS.index(label) for label in row["predicted"]]
        probabilities = np.array(row["probabilities"], float).reshape(len(predicted), len(LABELS))
        return row["uid"], LABELS.index(row["label"]), predicted, probabilities

    holds = "uid, label, and of each seed predicted and probabilities"
    uids, *values = zip(*read_rows(directory, split, parse, holds), strict=True)
    return outcomes_of(uids, *map(np.array, values))


def outcomes_of(
    uids: Sequence[str], gold: np.ndarray, predicted: np.ndarray, probabilities: np.ndarray
) -> Outcomes:
    """Outcomes from gold [N], predicted [N, S] and probabilities [N, S, C]."""
    mean = probabilities.mean(axis=1)
    votes = np.stack([(predicted == c).sum(axis=1) for c in range(len(LABELS))], axis=1)
    voted = np.where(votes == votes.max(axis=1, keepdims=True), mean, -1.0).argmax(axis=1)
    return Outcomes(tuple(uids), gold, predicted.T.copy(), voted)


def read_metrics(directory: RunDirectory) -> list[dict]:
    """Rows of a run's metrics.jsonl; if an epoch was trained again after a resume, only the later
    row."""
    rows = [json.loads(line) for _, line in directory.metrics()]
    last = {row["epoch"]: row for row in rows if isinstance(row.get("seeds"), list)}
    return [last[epoch] for epoch in sorted(last)]


def as_csv(folder: Path) -> dict[Path, str]:
    """Path -> content of scores.csv, and of private/predictions.SPLIT.csv of each split that the
    run predicted.

    A score has a name such as `test.accuracy.mean`; a column of predictions, `predicted.0` or
    `probabilities.0.entailment`.
    """
    directory, result = complete(folder)
    scores = [("score", "value")]
    for part in (*SPLITS, "categories"):
        scores += [
            (name, value)
            for name, value in _leaves(result.values.get(part), part)
            if isinstance(value, int | float)
        ]
    found = {directory.folder / "scores.csv": csv_lines(scores) + "\n"}
    for split in SPLITS:
        path = directory.private / f"predictions.{split}.jsonl"
        if path.is_file():
            rows = [_columns(json.loads(line), result.seeds) for _, line in text_lines(path)]
            header = list(dict.fromkeys(name for row in rows for name in row))
            lines = [header, *([row.get(name, "") for name in header] for row in rows)]
            found[path.with_suffix(".csv")] = csv_lines(lines) + "\n"
    return found


def _leaves(tree, name) -> Iterator[tuple[str, object]]:
    """(dotted name, value) of the leaves of nested dicts and lists."""
    if isinstance(tree, Mapping | list):
        for key, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from _leaves(value, f"{name}.{key}")
    else:
        yield name, tree


def _columns(row: Mapping, seeds: Sequence[int]) -> dict[str, object]:
    """column -> cell of a row of predictions."""
    named = dict(row, predicted=dict(zip(seeds, row["predicted"], strict=True)))
    if "probabilities" in row:
        of_classes = (dict(zip(LABELS, of_seed, strict=True)) for of_seed in row["probabilities"])
        named["probabilities"] = dict(zip(seeds, of_classes, strict=True))
    return dict(leaf for name, value in named.items() for leaf in _leaves(value, name))


def check_corpora(first, second) -> None:
    """Raises RunError for two systems of different corpora."""
    if first.corpus != second.corpus:
        problem = f"one is of {first.corpus}, the other of {second.corpus}"
        raise RunError(
            f"{first.name} and {second.name}: {problem}", fix="compare runs of one corpus"
        )


def aligned(first: Finished, second: Finished) -> Finished:
    """The second run with its pairs in the order of the first's. Raises RunError where these are
    not the same."""
    check_corpora(first, second)
    names, one, other = f"{first.name} and {second.name}", first.outcomes, second.outcomes
    place = {uid: i for i, uid in enumerate(other.uids)}
    if len(one) != len(other) or not all(uid in place for uid in one.uids):
        shared = sum(uid in place for uid in one.uids)
        problem = (
            f"{len(one):,} and {len(other):,} pairs in {first.split}, {shared:,} of them the same"
        )
        raise RunError(f"{names}: {problem}", fix=SAME_FILES)
    order = [place[uid] for uid in one.uids]
    one_file, other_file = (run.data.splits.get(run.split) for run in (first, second))
    # A gzipped file has another name.
    same_name = one_file and other_file and one_file.file == other_file.file
    changed = same_name and one_file.sha256 != other_file.sha256
    if changed or (other.gold[order] != one.gold).any():
        what = (
            f"the files {one_file.file} of {first.split} are not the same"
            if changed
            else "their labels differ"
        )
        raise RunError(f"{names}: {what}", fix=SAME_FILES)
    return replace(
        second, outcomes=Outcomes(one.uids, one.gold, other.predicted[:, order], other.voted[order])
    )


def other_training(first: Finished, second: Finished) -> bool:
    """Whether the two runs were trained on other pairs."""
    one, other = (run.data.splits.get("train") for run in (first, second))
    if one is None or other is None:
        return one is not other
    return (one.rows, one.labels, one.sha256) != (other.rows, other.labels, other.sha256)


def comparison(first: Finished, second: Finished) -> dict:
    """The second run against the first on the same pairs, as JSON values; `mcnemar` is on the two
    majority votes."""
    second = aligned(first, second)
    one, other = first.outcomes, second.outcomes
    return {
        "first": first.name,
        "second": second.name,
        "split": first.split,
        "pairs": len(one),
        "seeds": [len(one.predicted), len(other.predicted)],
        "accuracy": [float(one.right.mean()), float(other.right.mean())],
        **metrics.paired_bootstrap(one.right, other.right),
        "mcnemar": metrics.mcnemar(one.gold, one.voted, other.voted),
        "class_gains": class_gains(one, other),
        "flips": flips(one, other),
        "other_training": other_training(first, second),
    }


def comparisons(runs: Sequence[Finished]) -> list[dict]:
    """The first run against each other; `p_holm` is McNemar's p-value, adjusted for their
    number."""
    found = [comparison(runs[0], run) for run in runs[1:]]
    adjusted = metrics.holm([row["mcnemar"]["p_value"] for row in found])
    return [{**row, "p_holm": p} for row, p in zip(found, adjusted, strict=True)]


def verdict(compared: Sequence[Mapping]) -> Section:
    """Which of two systems is better, in words. Rows: first, second, difference, low, high."""
    words = []
    for row in compared:
        change, wide = points(row["difference"], "+"), interval(row["low"], row["high"])
        first, second = row["first"], row["second"]
        found, holds = f"no difference detected between {second} and {first}", "includes"
        if not row["low"] <= 0 <= row["high"]:
            better = "better" if row["difference"] > 0 else "worse"
            found, holds = f"{second} is {better} than {first}", "excludes"
        words.append(f"{found}: {change} points, interval {wide} {holds} 0")
    return Section("Verdict", words)


def differences(names: Sequence[str], folders: Sequence[Path]) -> Section:
    """The fields in which the configs of runs differ, a column for each run."""
    configs = [flat(RunDirectory.existing(folder).config) for folder in folders]
    fields = dict.fromkeys(
        field for config in configs[1:] for field in differing(configs[0], config)
    )
    rows = [
        (field, *(str(config.get(field, "-")) for config in configs)) for field in sorted(fields)
    ]
    words = [] if rows else ["the configs are the same"]
    return Section(
        "What differs between the configs", words, [Grid("", ("field", *names), rows)] * bool(rows)
    )


def class_gains(first: Outcomes, second: Outcomes) -> dict:
    """gold class -> pairs, recall of both systems (mean over seeds), and the difference with its
    interval."""
    gains = {}
    for index, label in enumerate(LABELS):
        chosen = first.gold == index
        if chosen.any():
            one, other = first.right[:, chosen], second.right[:, chosen]
            recall = [float(one.mean()), float(other.mean())]
            gains[label] = {
                "pairs": int(chosen.sum()),
                "recall": recall,
                **metrics.paired_bootstrap(one, other),
            }
    return gains


def flips(first: Outcomes, second: Outcomes) -> dict:
    """gold class -> predictions that changed from the first system to the second, by the majority
    votes (section 6).

    gained_from has the classes that the first system predicted, lost_to those that the second
    predicts.
    """
    counts = np.zeros((len(LABELS),) * 3, int)  # gold, first, second
    np.add.at(counts, (first.gold, first.voted, second.voted), 1)
    found = {}
    for index, (label, moved) in enumerate(zip(LABELS, counts, strict=True)):
        gained, lost = (
            dict(zip(LABELS, side.tolist(), strict=True))
            for side in (moved[:, index], moved[index])
        )
        del gained[label], lost[label]
        of = {
            "changed": int(moved.sum() - moved.trace()),
            "gained": sum(gained.values()),
            "lost": sum(lost.values()),
        }
        wrong = of["changed"] - of["gained"] - of["lost"]
        more = {"gained_from": gained, "lost_to": lost, "wrong_to_wrong": wrong}
        found[label] = {"pairs": int(moved.sum()), **of, **more}
    return found
