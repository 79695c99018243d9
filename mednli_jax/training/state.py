"""The state of training: the learner, and the best epoch of each seed.

Dimension letters: S seeds still training, A all seeds of the run.
"""

import functools
import os
from collections.abc import Sequence
from typing import TypeVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

from mednli_jax.errors import RunError
from mednli_jax.types import PyTree

Array = jax.Array | np.ndarray  # the second on the host
Tree = TypeVar("Tree")


class _Weights:
    """Weights that can be evaluated."""

    params: PyTree
    batch_stats: PyTree

    @property
    def variables(self) -> dict[str, PyTree]:
        """The weights as collections of a linen module."""
        return {"params": self.params, "batch_stats": self.batch_stats}


@struct.dataclass
class Learner(_Weights):
    """The state that a step updates. Every leaf has a leading seed axis [S, ...]; the step is
    vmapped over it."""

    seed: jax.Array  # [S] uint32
    step: jax.Array  # [S] int32, optimiser steps taken
    params: PyTree
    batch_stats: PyTree
    opt_state: PyTree


@struct.dataclass
class Best(_Weights):
    """The best dev epoch of each of the A seeds, with its parameters."""

    value: Array  # [A] the selected metric, lower is better
    epoch: Array  # [A] int32, 1-based; 0 before the first evaluation
    stale: Array  # [A] int32, evaluations since the best one
    params: PyTree
    batch_stats: PyTree


def init_learner(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    seeds: Sequence[int],
    example_batch: PyTree,
    frozen: PyTree,
) -> Learner:
    """Draws one learner per seed, whose parameters depend on this seed only. Compiled once for a
    model and shapes."""
    seeds_S = jnp.asarray(seeds, jnp.uint32)
    shapes = _draw.eval_shape(seeds_S, example_batch, frozen, model=model, optimizer=optimizer)
    # The parameters twice, because the best ones are kept.
    needed, memory = tree_bytes((shapes, shapes.params)), _memory()
    if needed > memory:
        gigabytes = f"{needed / 1e9:.0f} GB of memory, and there are {memory / 1e9:.0f} GB"
        problem = f"weights and optimiser state need {gigabytes}"
        raise RunError(problem, fix="give smaller sizes in config.model, or fewer seeds")
    learner: Learner = _draw(seeds_S, example_batch, frozen, model=model, optimizer=optimizer)
    return learner


def tree_bytes(tree: PyTree) -> int:
    """The size of all arrays of a tree, or of arrays with these shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _memory() -> int:
    """The bytes of memory of the first device; a CPU has the machine's memory."""
    statistics = jax.local_devices()[0].memory_stats() or {}
    of_machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(statistics.get("bytes_limit", of_machine))


@functools.partial(jax.jit, static_argnames=("model", "optimizer"))
def _draw(
    seeds_S: jax.Array,
    example_batch: PyTree,
    frozen: PyTree,
    *,
    model: nn.Module,
    optimizer: optax.GradientTransformation,
) -> Learner:
    def draw_seed(seed: jax.Array) -> Learner:
        _, variables = model.apply(
            {"frozen": frozen},
            example_batch,
            train=False,
            rngs={"params": jax.random.key(seed)},
            mutable=["params", "batch_stats"],
        )
        params = variables["params"]
        return Learner(
            seed=seed,
            step=jnp.zeros((), jnp.int32),
            params=params,
            batch_stats=variables.get("batch_stats", {}),
            opt_state=optimizer.init(params),
        )

    return jax.vmap(draw_seed)(seeds_S)


def init_best(learner: Learner) -> Best:
    """A Best without an epoch. It stays on the host, because one of several processes may still
    load other weights."""
    seeds = learner.seed.shape[0]
    return Best(
        value=np.full(seeds, np.inf, np.float32),
        epoch=np.zeros(seeds, np.int32),
        stale=np.zeros(seeds, np.int32),
        params=jax.tree.map(np.array, learner.params),
        batch_stats=jax.tree.map(np.array, learner.batch_stats),
    )


@jax.jit
def update_best(
    best: Best, learner: Learner, slot_S: jax.Array, value_S: jax.Array, epoch: jax.Array
) -> Best:
    """Replaces the best weights of seeds whose dev value is better.

    Args:
      learner: of S seeds.
      slot_S: the index of each seed in Best.
      value_S: of this evaluation, lower is better.
      epoch: number of this evaluation.
    """
    better_S = value_S < best.value[slot_S]

    def choose(old_A: Array, new_S: jax.Array) -> jax.Array:
        better = _per_seed(better_S, new_S)
        return jnp.asarray(old_A).at[slot_S].set(jnp.where(better, new_S, old_A[slot_S]))

    return Best(
        value=choose(best.value, value_S),
        epoch=choose(best.epoch, jnp.full_like(best.epoch[slot_S], epoch)),
        stale=jnp.asarray(best.stale)
        .at[slot_S]
        .set(jnp.where(better_S, 0, best.stale[slot_S] + 1)),
        params=jax.tree.map(choose, best.params, learner.params),
        batch_stats=jax.tree.map(choose, best.batch_stats, learner.batch_stats),
    )


def _per_seed(value_S: jax.Array, array_S: jax.Array) -> jax.Array:
    """Appends axes of 1 to the values, so that they combine with an array [S, ...]."""
    return value_S.reshape((-1,) + (1,) * (array_S.ndim - 1))


def select_seeds(tree: Tree, rows: np.ndarray) -> Tree:
    """The rows `rows` of all arrays with a seed axis, so that finished seeds are no longer
    computed."""
    rows_of_tree: Tree = jax.tree.map(lambda leaf: leaf[rows], tree)
    return rows_of_tree
