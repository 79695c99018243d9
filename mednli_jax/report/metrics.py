"""Scores of classifiers, with intervals and tests.

`gold` and `predicted` are integer arrays [N] of indices into LABELS with N > 0. Probabilities are
[N, C], rows sum to
1. Scores are from 0 to 1.
"""

from itertools import pairwise

import numpy as np

from mednli_jax.data.examples import LABELS

LEVEL = 0.95  # of all intervals
SAMPLES = 5000  # of a bootstrap


def accuracy(gold, predicted) -> float:
    return float(np.mean(np.asarray(gold) == predicted))


def confusion(gold, predicted) -> np.ndarray:
    """Counts [C, C] int64: row = gold class, column = predicted class."""
    classes = len(LABELS)
    cell = classes * np.asarray(gold, np.int64) + predicted
    return np.bincount(cell, minlength=classes**2).reshape(classes, classes)


def per_class(gold, predicted) -> dict:
    """Precision, recall, F1 and support (gold rows) of each class by name; a ratio 0/0 is 0."""
    counts = confusion(gold, predicted)
    right, support, predictions = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    return {
        label: {
            "precision": _ratio(both, predicted),
            "recall": _ratio(both, gold),
            "f1": _ratio(2 * both, predicted + gold),
            "support": int(gold),
        }
        for label, both, predicted, gold in zip(LABELS, right, predictions, support, strict=True)
    }


def majority_share(per_class: dict) -> float:
    """Share of the most frequent gold label. per_class: the result of the function of that name."""
    support = [of_class["support"] for of_class in per_class.values()]
    return max(support) / sum(support)


def macro_f1(gold, predicted) -> float:
    """Unweighted mean of the F1 of the classes that occur in `gold`.

    Any system has an F1 of 0 for another class. Predictions of such a class are wrong: they lower
    recall.
    """
    of_classes = per_class(gold, predicted).values()
    return float(np.mean([of["f1"] for of in of_classes if of["support"]]))


def wilson_interval(correct, n) -> tuple[float, float]:
    """95 % score interval of a proportion (Wilson 1927): (low, high). For n = 0 it is (0, 1)."""
    if n == 0:
        return 0.0, 1.0
    from scipy.stats import binomtest

    low, high = binomtest(correct, n).proportion_ci(LEVEL, method="wilson")
    return float(low), float(high)


def mcnemar(gold, first, second) -> dict:
    """Exact two-sided binomial test (McNemar 1947) of whether two systems differ on the same rows.

    only_first and only_second count the rows that only this system has right.
    """
    from scipy.stats import binomtest

    first, second = np.asarray(gold) == first, np.asarray(gold) == second
    only_first, only_second = int(np.sum(first & ~second)), int(np.sum(~first & second))
    n = only_first + only_second
    p = float(binomtest(only_first, n).pvalue) if n else 1.0
    return {"only_first": only_first, "only_second": only_second, "p_value": p}


def bootstrap_accuracy(right) -> dict:
    """Accuracy and its 95 % bootstrap interval, over rows and seeds. right: bool [S, N], of each
    seed and row."""
    (drawn,) = _drawn_accuracies([right])
    return {"accuracy": float(np.mean(right)), **_percentiles(drawn)}


def paired_bootstrap(first, second) -> dict:
    """Accuracy of the second system minus that of the first, with its interval. Both: bool [S, N];
    S may differ.

    Each sample draws rows (the same for both systems) and seeds (for each system). Koehn 2004 draws
    rows only, so that a difference caused by one lucky seed would look certain. With one seed per
    system, the interval is about these two trained models, not about the two systems.
    """
    drawn_first, drawn_second = _drawn_accuracies([first, second])
    return {
        "difference": float(np.mean(second) - np.mean(first)),
        **_percentiles(drawn_second - drawn_first),
    }


def holm(p_values) -> list[float]:
    """p-values adjusted for multiple comparisons (Holm 1979), in the order given."""
    p_values = np.asarray(p_values, np.float64)
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


def _drawn_accuracies(systems):
    """One array [SAMPLES] per system: its accuracy over rows and seeds drawn with replacement."""
    rng = np.random.default_rng(0)
    # Rows with the same right and wrong seeds are interchangeable: there are few patterns, with
    # multinomial counts.
    kinds, counts = np.unique(np.concatenate(systems), axis=1, return_counts=True)
    n = int(counts.sum())
    block = max(1, 4_000_000 // len(counts))
    parts = [
        rng.multinomial(n, counts / n, size=min(block, SAMPLES - done)) @ kinds.T / n
        for done in range(0, SAMPLES, block)
    ]
    accuracies, drawn, first = np.concatenate(parts), [], 0
    for right in systems:
        seeds = len(right)
        share = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=SAMPLES) / seeds
        drawn.append((accuracies[:, first : first + seeds] * share).sum(axis=1))
        first += seeds
    return drawn


def _percentiles(drawn):
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {"low": float(low), "high": float(high), "level": LEVEL}


def reliability(probabilities, labels, bins=15) -> list[dict]:
    """Confidence against accuracy in equal bins (low, high] of the winning probability (Guo et al.
    2017, sec. 2).

    Confidence is the mean winning probability; it and the accuracy are None in empty bins.
    """
    probabilities = np.asarray(probabilities, np.float64)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    edges, rows = np.arange(bins + 1) / bins, []
    for low, high in pairwise(edges.tolist()):
        inside = (low < confidence) & (confidence <= high)
        count = int(inside.sum())
        sure, often = (
            float(values[inside].mean()) if count else None for values in (confidence, right)
        )
        rows.append(
            {"low": low, "high": high, "count": count, "confidence": sure, "accuracy": often}
        )
    return rows


def expected_calibration_error(probabilities, labels, bins=15) -> float:
    """Mean gap between confidence and accuracy over the bins, weighted by their rows (Guo et al.
    2017, eq. 3)."""
    rows = [row for row in reliability(probabilities, labels, bins) if row["count"]]
    total = sum(row["count"] for row in rows)
    return sum(row["count"] / total * abs(row["confidence"] - row["accuracy"]) for row in rows)


def mean_sd(values) -> dict:
    """Scores of several seeds: mean, sd (sample, n - 1; 0.0 for one seed) and per_seed, the given
    scores."""
    values = [float(value) for value in values]
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "sd": sd, "per_seed": values}


def _ratio(part, whole):
    return float(part / whole) if whole else 0.0
