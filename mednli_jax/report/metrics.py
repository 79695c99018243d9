"""Scores of classifiers, with intervals and tests. NumPy only.

`gold` and `predicted` are integer arrays [N] of indices into LABELS, unless a function says otherwise. Probabilities
are [N, C], rows sum to 1. Scores are from 0 to 1. Wrong shapes, no rows and indices out of range raise ValueError.
"""

from itertools import pairwise
from math import sqrt
from statistics import NormalDist

import numpy as np

from mednli_jax.data.examples import LABELS

CLASSES = len(LABELS)


def accuracy(gold, predicted) -> float:
    """Share of rows with the right prediction."""
    gold, predicted = _indices(gold, predicted)
    return float(np.mean(gold == predicted))


def confusion(gold, predicted, classes=CLASSES) -> np.ndarray:
    """Counts [classes, classes] int64: row = gold class, column = predicted class."""
    gold, predicted = _indices(gold, predicted, classes)
    return np.bincount(gold * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def per_class(gold, predicted, labels=LABELS) -> dict:
    """Precision, recall, F1 and support (gold rows) of each class by name; a ratio 0/0 is 0."""
    counts = confusion(gold, predicted, len(labels))
    right, support, predictions = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    return {
        label: {
            "precision": _ratio(both, predicted),
            "recall": _ratio(both, gold),
            "f1": _ratio(2 * both, predicted + gold),
            "support": int(gold),
        }
        for label, both, predicted, gold in zip(labels, right, predictions, support, strict=True)
    }


def majority_share(per_class: dict) -> float:
    """Share of the most frequent gold label. per_class: the result of the function of that name."""
    support = [of_class["support"] for of_class in per_class.values()]
    return max(support) / sum(support)


def macro_f1(gold, predicted, labels=LABELS) -> float:
    """Unweighted mean of the F1 of the classes. A class that never occurs counts as 0."""
    return float(np.mean([score["f1"] for score in per_class(gold, predicted, labels).values()]))


def wilson_interval(correct, n, level=0.95) -> tuple[float, float]:
    """Score interval of a proportion (Wilson 1927): (low, high). For n = 0 it is (0, 1)."""
    if not 0 <= correct <= n:
        raise ValueError(f"{correct} of {n} is no proportion")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}, expected between 0 and 1")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, spread = correct / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    # The ends are exactly 0 and 1 where no or every answer is right; the formula may be off by 1e-17.
    return (0.0 if correct == 0 else centre - half), (1.0 if correct == n else centre + half)


def mcnemar(gold, first, second) -> dict:
    """Exact two-sided binomial test (McNemar 1947) of whether two systems differ on the same rows.

    Returns: only_first and only_second (rows that only this system has right) and p_value (1 where both are 0).
    """
    gold, first = _indices(gold, first)
    second = _indices(gold, second)[1]
    only_first = int(np.sum((first == gold) & (second != gold)))
    only_second = int(np.sum((first != gold) & (second == gold)))
    n, fewer = only_first + only_second, min(only_first, only_second)
    ways = tail = 1
    for k in range(1, fewer + 1):
        ways = ways * (n - k + 1) // k
        tail += ways
    # Integers up to the last division, so that the result is exact for any number of rows.
    p_value = min(1.0, 2 * tail / 2**n) if n else 1.0
    return {"only_first": only_first, "only_second": only_second, "p_value": p_value}


def bootstrap_accuracy(right, *, level=0.95, samples=5000, seed=0) -> dict:
    """Accuracy of a system with S seeds and its bootstrap interval, over rows and seeds.

    right: bool [S, N], whether each seed has each row right.
    Returns: accuracy (mean over the seeds), low and high (percentiles), level.
    """
    (drawn,) = _drawn_accuracies([right], samples, seed)
    return {"accuracy": float(np.mean(right)), **_percentiles(drawn, level)}


def paired_bootstrap(first, second, *, level=0.95, samples=5000, seed=0) -> dict:
    """Accuracy of the second system minus that of the first, both scored on the same rows.

    Each sample draws rows (the same for both systems) and seeds (for each system). Koehn 2004 draws rows only, so that
    a difference caused by one lucky seed would look certain. With one seed per system, the interval is about these two
    trained models, not about the two systems.

    first, second: bool [S, N] with the same N, whether each seed has each row right; S may differ.
    Returns: difference (of the means over seeds), low and high (percentiles), level.
    """
    drawn_first, drawn_second = _drawn_accuracies([first, second], samples, seed)
    difference = float(np.mean(second) - np.mean(first))
    return {"difference": difference, **_percentiles(drawn_second - drawn_first, level)}


def holm(p_values) -> list[float]:
    """p-values adjusted for multiple comparisons (Holm 1979), in the order given."""
    p_values = np.asarray(p_values, np.float64)
    if p_values.ndim != 1 or not (np.all(p_values >= 0) and np.all(p_values <= 1)):
        raise ValueError("expected p-values between 0 and 1")
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


def minimum_detectable_effect(disagreement, n, *, power=0.8, level=0.05) -> float | None:
    """The smallest true difference of two accuracies that McNemar's test finds with probability `power`.

    Normal approximation of Connor 1987 (Biometrics 43), n = (z_level/2 sqrt(p) + z_power sqrt(p - d^2))^2 / d^2, solved
    for the difference d.

    Args:
      disagreement: p, the share of the n rows that only one of the two systems has right.
      n: number of rows.

    Returns: d, or None where even d = p (all disagreements favour one system) is not found.
    """
    if not (0 <= disagreement <= 1 and n > 0 and 0 < power < 1 and 0 < level < 1):
        raise ValueError(f"no effect of disagreement {disagreement}, n {n}, power {power}, level {level}")
    z_level, z_power = NormalDist().inv_cdf(1 - level / 2), NormalDist().inv_cdf(power)
    # d^2 (n + z_power^2) - 2 d z_level sqrt(p n) + p (z_level^2 - z_power^2) = 0
    root = n + z_power**2 - z_level**2
    if disagreement == 0 or root < 0:
        return None
    effect = sqrt(disagreement) * (z_level * sqrt(n) + z_power * sqrt(root)) / (n + z_power**2)
    return max(effect, 0.0) if effect <= disagreement else None


def _drawn_accuracies(systems, samples, seed):
    """One array [samples] per system: its accuracy over rows and seeds drawn with replacement."""
    systems = [np.asarray(right) for right in systems]
    for right in systems:
        if right.dtype != bool or right.ndim != 2 or not right.size or right.shape[1] != systems[0].shape[1]:
            raise ValueError("expected bool arrays [S, N] with N > 0 rows in common")
    rng = np.random.default_rng(seed)
    # Rows with the same right and wrong seeds are interchangeable: there are few patterns, with multinomial counts.
    kinds, counts = np.unique(np.concatenate(systems), axis=1, return_counts=True)
    n = int(counts.sum())
    block = max(1, 4_000_000 // len(counts))
    parts = [
        rng.multinomial(n, counts / n, size=min(block, samples - done)) @ kinds.T / n
        for done in range(0, samples, block)
    ]
    accuracies, drawn, first = np.concatenate(parts), [], 0
    for right in systems:
        seeds = len(right)
        share = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=samples) / seeds
        drawn.append((accuracies[:, first : first + seeds] * share).sum(axis=1))
        first += seeds
    return drawn


def _percentiles(drawn, level):
    if not 0 < level < 1:
        raise ValueError(f"level is {level}, expected between 0 and 1")
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return {"low": float(low), "high": float(high), "level": level}


def reliability(probabilities, labels, bins=15) -> list[dict]:
    """Confidence against accuracy in equal bins (low, high] of the winning probability (Guo et al. 2017, sec. 2).

    Returns: per bin low, high, count, confidence (mean winning probability) and accuracy; None in empty bins.
    """
    probabilities, labels = _distributions(probabilities, labels)
    if bins < 1:
        raise ValueError(f"{bins} bins")
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    edges = np.arange(bins + 1) / bins
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    rows = []
    for index, (low, high) in enumerate(pairwise(edges.tolist())):
        inside = place == index
        count = int(inside.sum())
        means = {"confidence": confidence, "accuracy": right}
        means = {name: float(values[inside].mean()) if count else None for name, values in means.items()}
        rows.append({"low": low, "high": high, "count": count, **means})
    return rows


def expected_calibration_error(probabilities, labels, bins=15) -> float:
    """Mean gap between confidence and accuracy over the bins, weighted by their rows (Guo et al. 2017, eq. 3)."""
    rows = [row for row in reliability(probabilities, labels, bins) if row["count"]]
    total = sum(row["count"] for row in rows)
    return sum(row["count"] / total * abs(row["confidence"] - row["accuracy"]) for row in rows)


def mean_sd(values) -> dict:
    """Scores of several seeds: mean, sd (sample, n - 1; 0.0 for one seed) and per_seed, the given scores."""
    values = [float(value) for value in values]
    if not values:
        raise ValueError("no values")
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "sd": sd, "per_seed": values}


def _ratio(part, whole):
    return float(part / whole) if whole else 0.0


def _indices(gold, predicted, classes=None):
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    if gold.shape != predicted.shape or gold.ndim != 1 or not len(gold):
        raise ValueError(f"expected two index arrays [N] with N > 0, got shapes {gold.shape} and {predicted.shape}")
    for values in (gold, predicted):
        if values.dtype.kind not in "iu":
            raise ValueError(f"expected integer class indices, got {values.dtype}")
        if values.min() < 0 or (classes is not None and values.max() >= classes):
            raise ValueError("class index out of range")
    return gold.astype(np.int64), predicted.astype(np.int64)


def _distributions(probabilities, labels):
    probabilities = np.asarray(probabilities, np.float64)
    if probabilities.ndim != 2:
        raise ValueError(f"expected probabilities [N, C], got shape {probabilities.shape}")
    labels = _indices(labels, np.zeros(len(probabilities), int), probabilities.shape[1])[0]
    # NaN fails both comparisons, so this check refuses it too.
    if not (np.all(probabilities >= 0) and np.all(np.abs(probabilities.sum(axis=1) - 1) <= 1e-3)):
        raise ValueError("rows of probabilities must be finite, not negative and sum to 1")
    return probabilities, labels
