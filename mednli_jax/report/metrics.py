"""Scores of classifiers, with intervals and tests.

`gold` and `predicted` are integer arrays [N] of numbers of labels with N > 0. Probabilities are
[N, C], rows sum to 1. Scores are from 0 to 1. Typed dicts are JSON values of result.json.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from mednli_jax.data.examples import LABELS
from mednli_jax.types import Json

LEVEL = 0.95  # of all intervals
SAMPLES = 5000  # of a bootstrap
BLOCK = 4_000_000  # numbers that are drawn at a time


class ClassScores(TypedDict):
    """The scores of one class. support: number of its gold rows."""

    precision: float
    recall: float
    f1: float
    support: int


class MeanSd(TypedDict):
    """The mean of the scores of several seeds. sd: of the sample (n - 1); 0.0 for one seed."""

    mean: float
    sd: float
    per_seed: list[float]


@dataclass(frozen=True)
class McNemar:
    """McNemar's test. only_first, only_second: rows that only this system has right."""

    only_first: int
    only_second: int
    p_value: float


@dataclass(frozen=True)
class Difference:
    """The accuracy of one system minus that of another, with its interval."""

    difference: float
    low: float
    high: float
    level: float = LEVEL


def accuracy(gold: ArrayLike, predicted: ArrayLike) -> float:
    return float(np.mean(np.asarray(gold) == predicted))


def confusion(gold: ArrayLike, predicted: ArrayLike, classes: int = len(LABELS)) -> np.ndarray:
    """Counts [C, C] int64: row = gold class, column = predicted class."""
    cell = classes * np.asarray(gold, np.int64) + np.asarray(predicted)
    return np.bincount(cell, minlength=classes**2).reshape(classes, classes)


def labels_of(scores: Mapping[str, Json]) -> Sequence[str]:
    """The labels in the order of a split's confusion. scores: of a result.json."""
    return tuple(scores.get("labels", LABELS))


def per_class(
    gold: ArrayLike, predicted: ArrayLike, labels: Sequence[str] = LABELS
) -> dict[str, ClassScores]:
    """The scores of each class by name; a ratio 0/0 is 0."""
    counts = confusion(gold, predicted, len(labels))
    scores: dict[str, ClassScores] = {}
    for index, label in enumerate(labels):
        right = counts[index, index]
        support, predictions = counts[index].sum(), counts[:, index].sum()
        scores[label] = {
            "precision": _ratio(right, predictions),
            "recall": _ratio(right, support),
            "f1": _ratio(2 * right, predictions + support),
            "support": int(support),
        }
    return scores


def majority_share(scores: Mapping[str, ClassScores]) -> float:
    """The share of the most frequent gold label. scores: of per_class."""
    support = [of_class["support"] for of_class in scores.values()]
    return max(support) / sum(support)


def macro_f1(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Unweighted mean of the F1 of the classes that occur in `gold`.

    Any system has an F1 of 0 for another class. Predictions of such a class are wrong: they lower
    recall.
    """
    classes = 1 + int(max(np.max(gold), np.max(predicted)))
    scores = per_class(gold, predicted, list(map(str, range(classes)))).values()
    return float(np.mean([of_class["f1"] for of_class in scores if of_class["support"]]))


def wilson_interval(correct: int, n: int) -> tuple[float, float]:
    """95 % score interval of a proportion (Wilson 1927): (low, high). For n = 0 it is (0, 1)."""
    if n == 0:
        return 0.0, 1.0
    from scipy.stats import binomtest

    low, high = binomtest(correct, n).proportion_ci(LEVEL, method="wilson")
    return float(low), float(high)


def share_interval(share: float, n: int) -> tuple[float, float]:
    """The `wilson_interval` of a share of n items. A mean over seeds has the interval of one
    run."""
    return wilson_interval(round(share * n), n)


def mcnemar(gold: ArrayLike, first: ArrayLike, second: ArrayLike) -> McNemar:
    """Tests whether two systems differ on the same rows, by the exact two-sided binomial test
    (McNemar 1947)."""
    from scipy.stats import binomtest

    first_right, second_right = np.asarray(gold) == first, np.asarray(gold) == second
    only_first = int(np.sum(first_right & ~second_right))
    only_second = int(np.sum(~first_right & second_right))
    n = only_first + only_second
    p_value = float(binomtest(only_first, n).pvalue) if n else 1.0
    return McNemar(only_first, only_second, p_value)


def bootstrap_interval(right: np.ndarray) -> tuple[float, float]:
    """The interval of an accuracy, over rows and seeds. right: bool [S, N]."""
    (drawn,) = _drawn_accuracies([right])
    return interval(drawn)


def paired_bootstrap(first: np.ndarray, second: np.ndarray) -> Difference:
    """The accuracy of the second system minus that of the first, with its interval. Both arguments:
    bool [S, N], whether the system is right; S may differ.

    Each sample draws rows (the same for both systems) and seeds (for each system). Koehn 2004 draws
    rows only, so that a difference caused by one lucky seed would look certain. With one seed per
    system, the interval is about these two trained models, not about the two systems.
    """
    drawn_first, drawn_second = _drawn_accuracies([first, second])
    difference = float(np.mean(second) - np.mean(first))
    return Difference(difference, *interval(drawn_second - drawn_first))


def holm(p_values: ArrayLike) -> list[float]:
    """Adjusts p-values for multiple comparisons (Holm 1979); returns them in the order given."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return list(map(float, adjusted))


def _drawn_accuracies(systems: Sequence[np.ndarray]) -> list[np.ndarray]:
    """One array [SAMPLES] for each system [S, N]: its accuracy over rows and seeds drawn with
    replacement."""
    rng = np.random.default_rng(0)
    # Rows that the same seeds have right are interchangeable. Few such patterns exist, and their
    # numbers in a sample are multinomial.
    patterns, counts = np.unique(np.concatenate(systems), axis=1, return_counts=True)
    rows = int(counts.sum())
    block = max(1, BLOCK // len(counts))
    blocks = []
    for start in range(0, SAMPLES, block):
        size = min(block, SAMPLES - start)
        blocks.append(rng.multinomial(rows, counts / rows, size=size) @ patterns.T / rows)
    accuracy_of_seeds = np.concatenate(blocks)  # [SAMPLES, seeds of all systems]
    drawn, first = [], 0
    for right in systems:
        seeds = len(right)
        share = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=SAMPLES) / seeds
        drawn.append((accuracy_of_seeds[:, first : first + seeds] * share).sum(axis=1))
        first += seeds
    return drawn


def interval(drawn: np.ndarray) -> tuple[float, float]:
    """The interval of a figure from its values in all samples."""
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def mean_sd(values: Iterable[float]) -> MeanSd:
    scores = list(map(float, values))
    sd = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
    return {"mean": float(np.mean(scores)), "sd": sd, "per_seed": scores}


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0
