"""A user's own corpora, as another package would define them (docs/extending.md)."""

from pathlib import Path

Splits = dict[str, list[tuple[str, ...]]]

WORDS = {"entailment": "has", "neutral": "fears", "contradiction": "denies"}


def read(folder: Path) -> Splits:
    """Pairs whose hypothesis has a verb for each label."""
    pairs = []
    for n in range(10):
        for label, verb in WORDS.items():
            pairs.append((f"Pt has gout {n % 5}.", f"She {verb} gout.", label))
    return {"train": pairs, "dev": pairs[:9], "test": pairs[9:18]}


def uneven(folder: Path) -> Splits:
    """Hypotheses of dev and test are longer than those of train."""
    train = read(folder)["train"]
    dev = []
    for premise, hypothesis, label in train[:9]:
        dev.append((premise, f"Last year {hypothesis}", label))
    return {"train": train, "dev": dev[:5], "test": dev[5:]}


def backwards(folder: Path) -> Splits:
    """The splits of `uneven` from the last to the first."""
    return dict(reversed(uneven(folder).items()))


def broken(folder: Path) -> Splits:
    """Reads a column that its rows lack."""
    row = {"label": "neutral"}
    return {"train": [row["verdict"]]}


def nothing(folder: Path) -> None:
    """Gives no rows."""


def unlabelled(folder: Path) -> Splits:
    """The rows of test lack a label."""
    splits = read(folder)
    return {**splits, "test": [row[:2] for row in splits["test"]]}
