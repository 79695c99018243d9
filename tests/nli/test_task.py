"""Scores of pairs, from the logits of several seeds."""

import numpy as np
import pytest

from mednli_jax.data.arrays import Rows
from mednli_jax.nli.task import NLITask


def test_the_bins_of_a_reliability_diagram_are_of_each_seeds_own_predictions():
    """The first seed is right on both pairs at 80 %, the second on one at 60 %."""
    rows = Rows("dev", 0, np.array([0, 1]), ((), ()), ("a", "b"), ((), ()))
    p_SNC = [[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]], [[0.6, 0.2, 0.2], [0.6, 0.2, 0.2]]]
    calibration = NLITask().score(rows, np.log(p_SNC))["calibration"]
    bins = [row for row in calibration["bins"] if row["count"]]
    assert [row["count"] for row in bins] == [2, 2]
    assert [row["confidence"] for row in bins] == pytest.approx([0.6, 0.8])
    assert [row["accuracy"] for row in bins] == [0.5, 1.0]
    assert calibration["ece"]["per_seed"] == pytest.approx([0.2, 0.1])
