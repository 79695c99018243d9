"""A user's own corpus and task, as another package would define them (docs/plugins.md)."""

from mednli_jax.nli.plug import NLI

WORDS = {"entailment": "has", "neutral": "fears", "contradiction": "denies"}


def read(folder):
    """Pairs whose hypothesis has a verb for each label."""
    pairs = [
        (f"Pt has gout {n % 5}.", f"She {word} gout.", label)
        for n in range(10)
        for label, word in WORDS.items()
    ]
    return {"train": pairs, "dev": pairs[:9], "test": pairs[9:18]}


def uneven(folder):
    """Hypotheses of dev and test are longer than those of train."""
    splits = read(folder)
    longer = [
        (premise, f"Last year {hypothesis}", label) for premise, hypothesis, label in splits["dev"]
    ]
    return {"train": splits["train"], "dev": longer[:5], "test": longer[5:]}


def backwards(folder):
    """The splits of `uneven` from the last to the first."""
    return dict(reversed(uneven(folder).items()))


def broken(folder):
    """Reads a column that its rows lack."""
    return {"train": [row["verdict"] for row in [{"label": "neutral"}]]}


def nothing(folder):
    """Gives no rows."""


def unlabelled(folder):
    """The rows of test lack a label."""
    return {**read(folder), "test": [row[:2] for row in read(folder)["test"]]}


class Verdicts(NLI):
    """Sentence pairs whose predictions are printed as words."""

    def prediction_lines(self, rows):
        for row in rows:
            yield "yes" if max(row, key=row.get) == "entailment" else "no"


TASK = Verdicts()
