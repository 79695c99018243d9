"""What training carries: the learner a step changes, the best epoch of each seed, and the place in the run.

Dimension letters: S seeds still training, A all seeds of the run.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct


@struct.dataclass
class Learner:
    """What one step reads and writes. Every leaf has a leading seed axis [S, ...]; the step is vmapped over it."""

    seed: jax.Array  # [S] uint32
    step: jax.Array  # [S] int32, optimiser steps taken
    params: Any
    batch_stats: Any
    opt_state: Any

    @property
    def variables(self):
        return {"params": self.params, "batch_stats": self.batch_stats}


@struct.dataclass
class Best:
    """The best dev epoch of each of the A seeds, with its parameters."""

    value: jax.Array  # [A] the selected metric, lower is better
    epoch: jax.Array  # [A] int32, 1-based; 0 before the first evaluation
    stale: jax.Array  # [A] int32, epochs since
    params: Any
    batch_stats: Any

    @property
    def variables(self):
        return {"params": self.params, "batch_stats": self.batch_stats}


def init_learner(model, optimizer, seeds, example_batch, frozen) -> Learner:
    """One learner per seed: parameters are drawn from key(seed) alone, whatever the other seeds."""

    def one(seed):
        rngs = {"params": jax.random.key(seed)}
        mutable = ["params", "batch_stats"]
        _, variables = model.apply({"frozen": frozen}, example_batch, train=False, rngs=rngs, mutable=mutable)
        params = variables["params"]
        return Learner(
            seed=seed,
            step=jnp.zeros((), jnp.int32),
            params=params,
            batch_stats=variables.get("batch_stats", {}),
            opt_state=optimizer.init(params),
        )

    return jax.jit(jax.vmap(one))(jnp.asarray(seeds, jnp.uint32))


def init_best(learner: Learner) -> Best:
    size = learner.seed.shape[0]
    return Best(
        value=jnp.full((size,), jnp.inf, jnp.float32),
        epoch=jnp.zeros((size,), jnp.int32),
        stale=jnp.zeros((size,), jnp.int32),
        params=jax.tree.map(jnp.copy, learner.params),
        batch_stats=jax.tree.map(jnp.copy, learner.batch_stats),
    )


@jax.jit
def update_best(best: Best, learner: Learner, slots, value, epoch) -> Best:
    """Takes the learners' parameters where their dev value [S] is better. slots [S]: each learner's place in Best."""
    better = value < best.value[slots]

    def choose(old, new):
        mask = better.reshape((-1,) + (1,) * (new.ndim - 1))
        return old.at[slots].set(jnp.where(mask, new, old[slots]))

    return Best(
        value=choose(best.value, value),
        epoch=choose(best.epoch, jnp.full_like(best.epoch[slots], epoch)),
        stale=best.stale.at[slots].set(jnp.where(better, 0, best.stale[slots] + 1)),
        params=jax.tree.map(choose, best.params, learner.params),
        batch_stats=jax.tree.map(choose, best.batch_stats, learner.batch_stats),
    )


def keep_seeds(learner: Learner, rows) -> Learner:
    """The learners at `rows` only: finished seeds cost nothing more."""
    rows = np.asarray(rows)
    return jax.tree.map(lambda x: x[rows], learner)
