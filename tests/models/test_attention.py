"""Local attention in blocks against scores of all pairs of pieces; buckets of relative positions,
and scores of relative places against sums over single places."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.trees import assert_equal

from mednli_jax.models import attention

BUCKETS = json.loads((Path(__file__).parents[1] / "golden" / "golden_buckets.json").read_text())


@pytest.mark.parametrize("setting", BUCKETS)
def test_buckets_of_relative_positions_are_those_of_transformers(setting):
    """In both directions."""
    buckets, longest = map(int, setting.split(","))
    expected = np.array(BUCKETS[setting])
    distance = np.arange(longest)

    for sign in (1, -1):
        rows = attention.bucket_of(sign * distance, buckets, longest)
        assert_equal(rows, buckets + sign * expected)


def test_without_buckets_far_distances_share_the_last_rows():
    rows = attention.bucket_of(np.array([-9, -3, -2, 0, 2, 3, 9]), 0, 3)

    assert rows.tolist() == [0, 0, 1, 3, 5, 5, 5]
