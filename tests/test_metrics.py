"""Scores against numbers worked by hand or taken from published tables."""

import math

import numpy as np
import pytest

from mednli_jax import metrics

GOLD = [0, 0, 0, 1, 1, 2]
PREDICTED = [0, 0, 1, 1, 2, 2]


def test_accuracy_and_confusion():
    assert metrics.accuracy(GOLD, PREDICTED) == pytest.approx(4 / 6)
    assert metrics.confusion(GOLD, PREDICTED).tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]


def test_per_class_scores():
    scores = metrics.per_class(GOLD, PREDICTED)
    # entailment: 2 of 2 said are right, 2 of 3 found; neutral: 1 of 2, 1 of 2; contradiction: 1 of 2, 1 of 1.
    assert scores["entailment"] == pytest.approx({"precision": 1, "recall": 2 / 3, "f1": 0.8, "support": 3})
    assert scores["neutral"] == pytest.approx({"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2})
    assert scores["contradiction"] == pytest.approx({"precision": 0.5, "recall": 1, "f1": 2 / 3, "support": 1})
    assert metrics.macro_f1(GOLD, PREDICTED) == pytest.approx((0.8 + 0.5 + 2 / 3) / 3)


def test_class_that_never_occurs_scores_zero():
    scores = metrics.per_class([0, 0], [0, 1])
    assert scores["contradiction"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    assert metrics.macro_f1([0, 0], [0, 1]) == pytest.approx((2 / 3) / 3)


@pytest.mark.parametrize(
    ("gold", "predicted"), [([], []), ([0], [0, 1]), ([0, 3], [0, 0]), ([0], [-1]), ([0.0], [0.0]), ([[0]], [[0]])]
)
def test_wrong_indices_are_refused(gold, predicted):
    with pytest.raises(ValueError, match=r"index|expected"):
        metrics.confusion(gold, predicted)


@pytest.mark.parametrize(
    ("correct", "n", "low", "high"),
    [
        # Newcombe 1998 (Statistics in Medicine 17), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_interval_equals_published_table(correct, n, low, high):
    assert metrics.wilson_interval(correct, n) == pytest.approx((low, high), abs=5e-5)


def test_wilson_interval_ends_and_level():
    assert metrics.wilson_interval(0, 10)[0] == 0.0
    assert metrics.wilson_interval(10, 10)[1] == 1.0
    # All right: the lower end is n / (n + z^2), with z = 1.6449 for 90 %.
    assert metrics.wilson_interval(10, 10, level=0.9)[0] == pytest.approx(10 / (10 + 1.644854**2), abs=1e-6)
    assert metrics.wilson_interval(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="no proportion"):
        metrics.wilson_interval(11, 10)


def test_mcnemar_by_hand():
    # Rows only the first has right: 1; only the second: 5. p = 2 (C(6,0) + C(6,1)) / 2^6 = 14/64.
    gold = [0] * 8
    first = [0, 1, 1, 1, 1, 1, 0, 2]
    second = [1, 0, 0, 0, 0, 0, 0, 1]
    assert metrics.mcnemar(gold, first, second) == {"only_first": 1, "only_second": 5, "p_value": 14 / 64}
    assert metrics.mcnemar(gold, second, first)["p_value"] == 14 / 64


def test_mcnemar_without_a_difference_and_with_many_rows():
    assert metrics.mcnemar([0, 1], [0, 0], [0, 2])["p_value"] == 1.0
    assert metrics.mcnemar([0, 0], [0, 1], [1, 0])["p_value"] == 1.0
    gold = np.zeros(4000, int)
    first = np.repeat([0, 1], 2000)
    # 2000 against 2000 disagreements are no evidence; 2^4000 is beyond a float.
    assert metrics.mcnemar(gold, first, 1 - first)["p_value"] == 1.0
    first[1700:2000] = 1
    # Normal approximation: z = (2300 - 1700) / sqrt(4000) = 9.49.
    assert metrics.mcnemar(gold, first, 1 - first)["p_value"] == pytest.approx(math.erfc(9.47 / math.sqrt(2)), rel=0.2)


def test_reliability_and_calibration_error_by_hand():
    probabilities = [[0.5, 0.3, 0.2], [0.1, 0.5, 0.4], [0.9, 0.05, 0.05], [0.1, 0.1, 0.8]]
    labels = [0, 2, 0, 2]
    rows = metrics.reliability(probabilities, labels, bins=2)
    # .5 belongs to (0, .5]: 2 rows at confidence .5, half right. (.5, 1]: .9 and .8, both right.
    assert [row["count"] for row in rows] == [2, 2]
    assert rows[0]["confidence"] == pytest.approx(0.5)
    assert rows[0]["accuracy"] == pytest.approx(0.5)
    assert rows[1]["confidence"] == pytest.approx(0.85)
    assert rows[1]["accuracy"] == pytest.approx(1.0)
    assert metrics.expected_calibration_error(probabilities, labels, bins=2) == pytest.approx(0.5 * 0.0 + 0.5 * 0.15)


def test_reliability_leaves_empty_bins_empty():
    rows = metrics.reliability([[1.0, 0.0]], [0], bins=4)
    assert [row["count"] for row in rows] == [0, 0, 0, 1]
    assert rows[0] == {"low": 0.0, "high": 0.25, "count": 0, "confidence": None, "accuracy": None}
    assert metrics.expected_calibration_error([[1.0, 0.0]], [1], bins=4) == 1.0


def test_negative_log_likelihood():
    value = metrics.negative_log_likelihood([[0.5, 0.25, 0.25], [0.2, 0.7, 0.1]], [1, 0])
    assert value == pytest.approx((math.log(4) + math.log(5)) / 2)
    assert metrics.negative_log_likelihood([[1.0, 0.0]], [1]) == pytest.approx(12 * math.log(10))


@pytest.mark.parametrize("rows", [[[0.5, 0.6]], [[math.nan, 1.0]], [[-0.5, 1.5]], [[math.inf, 0.0]], [0.5, 0.5]])
def test_wrong_probabilities_are_refused(rows):
    with pytest.raises(ValueError, match="probabilities"):
        metrics.negative_log_likelihood(rows, [0])


def test_mean_sd():
    assert metrics.mean_sd([0.70, 0.72, 0.74]) == {
        "mean": pytest.approx(0.72),
        "sd": pytest.approx(0.02),
        "per_seed": [0.70, 0.72, 0.74],
    }
    assert metrics.mean_sd(np.array([0.5])) == {"mean": 0.5, "sd": 0.0, "per_seed": [0.5]}
    with pytest.raises(ValueError, match="no values"):
        metrics.mean_sd([])
