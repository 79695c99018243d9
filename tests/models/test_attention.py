"""Local attention in blocks against scores of all pairs of pieces; buckets of relative positions,
and scores of relative places against sums over single places."""

import itertools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.trees import assert_equal, assert_near

from mednli_jax.models import attention
from mednli_jax.models.packing import MASKED_ENERGY

ROWS = 2
HEADS = 3
FEATURES = 4


@pytest.mark.parametrize(
    ("size", "reach"),
    [
        (12, 4),
        (13, 4),
        (5, 1),
        (7, 9),
    ],
)
def test_blocks_attend_as_all_pairs_of_pieces_do(size, reach):
    """Sizes that are a multiple of the reach or not; the second row is shorter."""
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, ROWS, HEADS, size, FEATURES)).astype(np.float32)
    bias = np.zeros((ROWS, 1, 1, size), np.float32)
    bias[1, :, :, size - 2 :] = MASKED_ENERGY
    is_near = abs(np.arange(size)[:, None] - np.arange(size)) <= reach
    scores = np.where(is_near, q @ np.swapaxes(k, 2, 3) + bias, MASKED_ENERGY)
    expected = np.asarray(jax.nn.softmax(jnp.asarray(scores)) @ v)

    energies = attention.window_energies(q, k, bias, reach)
    attended = attention.window_sums(jax.nn.softmax(energies), v, reach)

    assert energies.shape[-2:] == (reach, 3 * reach)
    assert_near(attended[0], expected[0], atol=1e-5)
    assert_near(attended[1, :, :-2], expected[1, :, :-2], atol=1e-5)


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


@pytest.mark.parametrize("queries", [1, 5])
def test_scores_of_relative_positions_are_those_of_each_pair_of_pieces(queries):
    """For all pieces and for the first alone. At place r the query is T - r after the key."""
    size = 5
    heads = 2
    features = 3
    rng = np.random.default_rng(0)
    q_BNUA = rng.normal(size=(2, heads, queries, features)).astype(np.float32)
    k_BNTA = rng.normal(size=(2, heads, size, features)).astype(np.float32)
    query_NRA, key_NRA = rng.normal(size=(2, heads, 2 * size + 1, features)).astype(np.float32)

    onward = attention.content_to_position(q_BNUA, key_NRA)
    backward = attention.position_to_content(k_BNTA, query_NRA, queries)

    assert onward.shape == backward.shape == (2, heads, queries, size)
    for query, key in itertools.product(range(queries), range(size)):
        place = size - (query - key)
        of_query = np.einsum("bna,na->bn", q_BNUA[:, :, query], key_NRA[:, place])
        assert_near(onward[:, :, query, key], of_query, rtol=1e-4, atol=1e-5)
        of_key = np.einsum("bna,na->bn", k_BNTA[:, :, key], query_NRA[:, place])
        assert_near(backward[:, :, query, key], of_key, rtol=1e-4, atol=1e-5)
