"""Comparisons of trees of arrays."""

from typing import Any

import jax
import numpy as np

PyTree = Any


def assert_equal(tree: PyTree, expected: PyTree) -> None:
    jax.tree.map(np.testing.assert_array_equal, tree, expected)


def assert_near(tree: PyTree, expected: PyTree, *, atol: float = 0.0, rtol: float = 0.0) -> None:
    def assert_leaf_near(leaf: np.ndarray, expected_leaf: np.ndarray) -> None:
        np.testing.assert_allclose(leaf, expected_leaf, rtol=rtol, atol=atol)

    jax.tree.map(assert_leaf_near, tree, expected)


def assert_replicated(tree: PyTree) -> None:
    """All devices hold the same values."""
    for leaf in jax.tree.leaves(tree):
        for shard in leaf.addressable_shards:
            np.testing.assert_array_equal(shard.data, leaf.addressable_shards[0].data)


def of_seed(tree: PyTree, place: int) -> PyTree:
    """The arrays of one seed, from those with a leading axis of seeds."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[place], tree)
