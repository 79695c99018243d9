"""Scores and statistics, against numbers worked out by hand or taken from published tables."""

import json

import numpy as np
import pytest

from mednli_jax.report import metrics

GOLD = [0, 0, 0, 1, 1, 2]
PREDICTED = [0, 0, 1, 1, 2, 2]


def test_confusion_has_gold_classes_in_rows():
    assert metrics.confusion(GOLD, PREDICTED).tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]


@pytest.mark.parametrize(
    "label, precision, recall, f1, support",
    [
        ("entailment", 2 / 2, 2 / 3, 0.8, 3),
        ("neutral", 1 / 2, 1 / 2, 0.5, 2),
        ("contradiction", 1 / 2, 1 / 1, 2 / 3, 1),
    ],
)
def test_precision_recall_and_f1_of_a_class_are_those_worked_out_by_hand(
    label, precision, recall, f1, support
):
    scores = metrics.per_class(GOLD, PREDICTED)[label]

    assert tuple(scores.values()) == pytest.approx((precision, recall, f1, support))
    assert list(scores) == ["precision", "recall", "f1", "support"]


def test_a_class_without_rows_scores_zero():
    absent = metrics.per_class([0, 0], [0, 1])["contradiction"]

    assert set(absent.values()) == {0}


def test_macro_f1_is_the_mean_over_classes():
    assert metrics.macro_f1(GOLD, PREDICTED) == pytest.approx((0.8 + 0.5 + 2 / 3) / 3)


@pytest.mark.parametrize(
    "correct, n, low, high",
    [
        (81, 263, 0.2553, 0.3662),
        (0, 20, 0.0000, 0.1611),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_interval_equals_published_table(correct, n, low, high):
    """Newcombe 1998 (Statistics in Medicine 17), table I, method 3; no row at all."""
    assert metrics.wilson_interval(correct, n) == pytest.approx((low, high), abs=5e-5)


def test_counts_and_p_value_of_mcnemars_test_are_those_worked_out_by_hand():
    """The first alone is right in 1 row, the second alone in 5: p = 2 (C(6,0) + C(6,1)) / 2^6."""
    first = [0, 1, 1, 1, 1, 1, 0, 2]
    second = [1, 0, 0, 0, 0, 0, 0, 1]

    test = metrics.mcnemar([0] * 8, first, second)

    assert test.only_first == 1
    assert test.only_second == 5
    assert test.p_value == 14 / 64
    assert metrics.mcnemar([0, 1], [0, 0], [0, 2]).p_value == 1.0


def test_paired_bootstrap_equals_one_that_draws_row_by_row():
    rng = np.random.default_rng(5)
    first_SN = rng.random((3, 60)) < 0.6
    second_SN = rng.random((2, 60)) < 0.7
    differences = []
    for _ in range(4000):
        rows = rng.integers(0, 60, 60)
        first_seeds = rng.integers(0, 3, 3)
        second_seeds = rng.integers(0, 2, 2)
        first = first_SN[np.ix_(first_seeds, rows)].mean()
        differences.append(second_SN[np.ix_(second_seeds, rows)].mean() - first)

    interval = metrics.paired_bootstrap(first_SN, second_SN)

    assert interval.difference == pytest.approx(second_SN.mean() - first_SN.mean())
    quantiles = np.quantile(differences, [0.025, 0.975])
    assert (interval.low, interval.high) == pytest.approx(quantiles, abs=0.02)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("right", [[[True]], [[False]], [[True, True]], [[True], [False]]], ids=str)
def test_statistics_of_constant_and_single_outcomes_are_numbers(right):
    right_SN = np.array(right)
    gold = np.zeros(right_SN.shape[1], int)
    predicted = np.where(right_SN, 0, 1)[0]

    statistics = [
        metrics.bootstrap_interval(right_SN),
        vars(metrics.paired_bootstrap(right_SN, right_SN)),
        vars(metrics.mcnemar(gold, predicted, predicted)),
        metrics.wilson_interval(int(right_SN[0].sum()), len(gold)),
        metrics.per_class(gold, predicted),
        metrics.macro_f1(gold, predicted),
        metrics.mean_sd(right_SN.mean(axis=1)),
        metrics.holm([1.0]),
    ]

    json.dumps(statistics, allow_nan=False)


@pytest.mark.parametrize(
    "p, adjusted",
    [
        # .01 * 4, .02 * 3, .03 * 2, .04 * 1; none may be less than the one before.
        ([0.03, 0.01, 0.04, 0.02], [0.06, 0.04, 0.06, 0.06]),
        ([0.9, 0.6], [1.0, 1.0]),
    ],
    ids=str,
)
def test_p_values_adjusted_by_holms_method_are_those_worked_out_by_hand(p, adjusted):
    assert metrics.holm(p) == pytest.approx(adjusted)
