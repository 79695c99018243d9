"""The majority class: what a system scores that has seen no text (Herlihy & Rudinger 2021, Tables 1 and 6)."""

from collections import Counter
from collections.abc import Iterable

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import DataError


def majority_label(train_labels: Iterable[str]) -> str:
    """The most frequent label of the training pairs; of equally frequent ones the first in LABELS.

    Pairs without a label ("") are left out. Raises: DataError where none has one.
    """
    counts = Counter(train_labels)
    label = max(LABELS, key=lambda label: counts[label])
    if not counts[label]:
        raise DataError("no training pair has a label", fix="give a split of labelled pairs")
    return label


def majority(train_labels: Iterable[str], labels: Iterable[str]) -> float:
    """Accuracy (0-1) on a split's `labels` of predicting the most frequent training label for each pair.

    Pairs without a label ("") are left out. Raises: DataError where no training pair, or no pair of the split,
    has a label.
    """
    predicted, gold = majority_label(train_labels), [label for label in labels if label]
    if not gold:
        raise DataError("no pair of the split has a label", fix="give a split of labelled pairs")
    return gold.count(predicted) / len(gold)
