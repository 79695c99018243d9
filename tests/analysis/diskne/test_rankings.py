"""Ranks of the true disease, worked out by hand."""

import numpy as np
import pytest

from mednli_jax.analysis.diskne import rankings
from mednli_jax.corpora.diskne.benchmark import Benchmark
from mednli_jax.corpora.diskne.corpus import example_of
from mednli_jax.corpora.diskne.folds import Fold


def example(pair, disease, target="A"):
    positive = disease == target
    uid = f"{pair}.symptoms.{target}" + ("" if positive else f".{disease}")
    return example_of(uid, "entailment" if positive else "neutral", disease, target, "symptoms")


EXAMPLES = tuple(example(pair, disease) for pair in ("p", "q") for disease in ("A", "B", "C"))
NONE = np.zeros(0, np.int32)
FOLD = Fold("A", "medical", ("symptoms",), NONE, NONE, np.arange(6, dtype=np.int32), {})
BENCHMARK = Benchmark("made up", EXAMPLES, dict.fromkeys("ABC", "x"), {})


def scores(*probabilities):
    said = dict(zip((example.uid for example in EXAMPLES), probabilities, strict=True))
    return rankings.scores(BENCHMARK, (FOLD,), {"0": said})["symptoms"]


def test_ranks_and_precision_by_hand():
    """A is first of three for p and last for q. Over all six, A is 1st and 6th, so AP = (1 + 2/6) / 2."""
    found = scores(0.9, 0.5, 0.4, 0.1, 0.3, 0.2)
    assert found["hits"]["mean"] == 0.5
    assert found["reciprocal_rank"]["mean"] == pytest.approx((1 + 1 / 3) / 2)
    assert found["average_precision"]["mean"] == pytest.approx((1 + 2 / 6) / 2)
    assert found["chance"] == pytest.approx(1 / 3)


def test_equal_probabilities_are_chance():
    """If all probabilities are equal, each figure is its mean over all orders."""
    found = scores(*[0.09] * 6)
    assert found["hits"]["mean"] == pytest.approx(1 / 3)
    assert found["reciprocal_rank"]["mean"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert found["average_precision"]["mean"] == pytest.approx(1 / 3)


def test_low_probabilities_may_rank_well():
    """No disease is predicted as positive, so F1 is 0; the true diseases still rank first."""
    assert scores(0.2, 0.1, 0.1, 0.2, 0.1, 0.1)["hits"]["mean"] == 1
