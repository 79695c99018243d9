"""A finished run as CSV files, for spreadsheets: its scores, and its predictions of each item."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mednli_jax.data.examples import LABELS
from mednli_jax.report.outcomes import complete, read_rows
from mednli_jax.report.sections import csv_lines

SPLITS = ("dev", "test")
PARTS = (*SPLITS, "categories")  # of result.json, those that hold scores


def of_run(folder: Path) -> dict[Path, str]:
    """Path -> content of scores.csv, and of private/predictions.SPLIT.csv of each split that the run predicted.

    A row of scores is a name, `test.accuracy.mean`, and a number, as result.json has them. A row of predictions is an
    item; its columns are those of predictions.SPLIT.jsonl, one for each seed: `predicted.0`, and of probabilities one
    for each class, too: `probabilities.0.entailment`.
    Raises: UserError, DataError(s) for a run that is not finished, or is damaged.
    """
    directory, result = complete(folder)
    scores = [("score", "value")]
    for part in PARTS:
        scores += [(name, value) for name, value in _leaves(result.get(part), part) if isinstance(value, int | float)]
    found, seeds = {directory.folder / "scores.csv": csv_lines(scores) + "\n"}, result["seeds"]
    for split in SPLITS:
        if not (directory.private / f"predictions.{split}.jsonl").is_file():
            continue
        rows = [dict(_of_seeds(row, seeds)) for _, row in read_rows(directory, split, _row, "uid and predictions")]
        header = list(dict.fromkeys(name for row in rows for name in row))
        lines = [header, *([row.get(name, "") for name in header] for row in rows)]
        found[directory.private / f"predictions.{split}.csv"] = csv_lines(lines) + "\n"
    return found


def _row(line):
    """(uid, row) of a line; None where it is none."""
    try:
        row = json.loads(line)
        return (row["uid"], row) if isinstance(row["uid"], str) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _leaves(tree, name) -> Iterator[tuple[str, object]]:
    """(dotted name, value) of the leaves of nested dicts and lists."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, f"{name}.{key}")
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _leaves(value, f"{name}.{number}")
    else:
        yield name, tree


def _of_seeds(row: Mapping, seeds: Sequence[int]) -> Iterator[tuple[str, object]]:
    """(column, cell) of a row of predictions: a list has a value for each seed, a list in it one for each class."""
    for name, value in row.items():
        if not isinstance(value, list):
            yield name, value
            continue
        for seed, of_seed in zip(seeds, value, strict=True):
            if isinstance(of_seed, list) and len(of_seed) == len(LABELS):
                of_seed = dict(zip(LABELS, of_seed, strict=True))
            yield from _leaves(of_seed, f"{name}.{seed}")
