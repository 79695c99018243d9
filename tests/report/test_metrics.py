"""Scores against numbers worked out by hand or taken from published tables."""

import json

import numpy as np
import pytest

from mednli_jax.report import metrics

GOLD = [0, 0, 0, 1, 1, 2]
PREDICTED = [0, 0, 1, 1, 2, 2]


def test_confusion_and_scores_of_classes():
    assert metrics.confusion(GOLD, PREDICTED).tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]
    scores = metrics.per_class(GOLD, PREDICTED)
    # Precision and recall: entailment 2 of 2 and 2 of 3, neutral 1 of 2 and 1 of 2, contradiction 1
    # of 2 and 1 of 1.
    assert scores["entailment"] == pytest.approx(
        {"precision": 1, "recall": 2 / 3, "f1": 0.8, "support": 3}
    )
    assert scores["neutral"] == pytest.approx(
        {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2}
    )
    assert scores["contradiction"] == pytest.approx(
        {"precision": 0.5, "recall": 1, "f1": 2 / 3, "support": 1}
    )
    assert metrics.macro_f1(GOLD, PREDICTED) == pytest.approx((0.8 + 0.5 + 2 / 3) / 3)
    absent = metrics.per_class([0, 0], [0, 1])["contradiction"]
    assert absent == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}


@pytest.mark.parametrize(
    ("correct", "n", "low", "high"),
    [
        # From Newcombe 1998 (Statistics in Medicine 17), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (0, 20, 0.0000, 0.1611),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_interval_equals_published_table(correct, n, low, high):
    assert metrics.wilson_interval(correct, n) == pytest.approx((low, high), abs=5e-5)


def test_mcnemar_by_hand():
    # The first alone is right in 1 row, the second alone in 5: p = 2 (C(6,0) + C(6,1)) / 2^6 =
    # 14/64.
    gold = [0] * 8
    first = [0, 1, 1, 1, 1, 1, 0, 2]
    second = [1, 0, 0, 0, 0, 0, 0, 1]
    assert vars(metrics.mcnemar(gold, first, second)) == {
        "only_first": 1,
        "only_second": 5,
        "p_value": 14 / 64,
    }
    assert metrics.mcnemar([0, 1], [0, 0], [0, 2]).p_value == 1.0


def test_reliability_and_calibration_error_by_hand():
    probabilities = [[0.5, 0.3, 0.2], [0.1, 0.5, 0.4], [0.9, 0.05, 0.05], [0.1, 0.1, 0.8]]
    labels = [0, 2, 0, 2]
    rows = metrics.reliability(probabilities, labels, bins=2)
    # The bin (0, .5] has 2 rows at confidence .5, half of them right. The bin (.5, 1] has .9 and
    # .8, both right.
    found = [[row[name] for name in ("count", "confidence", "accuracy")] for row in rows]
    assert found == [pytest.approx([2, 0.5, 0.5]), pytest.approx([2, 0.85, 1])]
    assert metrics.expected_calibration_error(probabilities, labels, bins=2) == pytest.approx(
        0.5 * 0.0 + 0.5 * 0.15
    )


def test_paired_bootstrap_equals_one_that_draws_row_by_row():
    rng = np.random.default_rng(5)
    first, second = rng.random((3, 60)) < 0.6, rng.random((2, 60)) < 0.7
    plain = []
    for _ in range(4000):
        rows = rng.integers(0, 60, 60)
        one, two = rng.integers(0, 3, 3), rng.integers(0, 2, 2)
        plain.append(second[np.ix_(two, rows)].mean() - first[np.ix_(one, rows)].mean())
    found = metrics.paired_bootstrap(first, second)
    assert found.difference == pytest.approx(second.mean() - first.mean())
    assert (found.low, found.high) == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.02)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("right", [[[True]], [[False]], [[True, True]], [[True], [False]]])
def test_statistics_of_constant_and_single_outcomes_are_numbers(right):
    right = np.array(right)
    gold = np.zeros(right.shape[1], int)
    predicted = np.where(right, 0, 1)[0]
    probabilities = np.eye(3)[predicted]
    found = [
        vars(metrics.bootstrap_accuracy(right)),
        vars(metrics.paired_bootstrap(right, right)),
        vars(metrics.mcnemar(gold, predicted, predicted)),
        metrics.wilson_interval(int(right[0].sum()), len(gold)),
        metrics.per_class(gold, predicted),
        metrics.macro_f1(gold, predicted),
        metrics.reliability(probabilities, gold),
        metrics.expected_calibration_error(probabilities, gold),
        metrics.mean_sd(right.mean(axis=1)),
        metrics.holm([1.0]),
    ]
    json.dumps(found, allow_nan=False)


def test_holm_by_hand():
    # .01 * 4, .02 * 3, .03 * 2 and .04 * 1 become .04, .06, .06, .06, because none may be less than
    # the one before.
    assert metrics.holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert metrics.holm([0.9, 0.6]) == [1.0, 1.0]
