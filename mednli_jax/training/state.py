"""The state of training: the learner, the mean of its weights, and the best epoch of each seed.

Dimension letters: S seeds still training, A all seeds of the run.
"""

import functools
import math
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from mednli_jax.errors import RunError


class _Weights:
    """Weights that can be evaluated: `params` and `batch_stats`."""

    @property
    def variables(self):
        return {"params": self.params, "batch_stats": self.batch_stats}


@struct.dataclass
class Learner(_Weights):
    """The state that a step updates. Every leaf has a leading seed axis [S, ...]; the step is
    vmapped over it."""

    seed: jax.Array  # [S] uint32
    step: jax.Array  # [S] int32, optimiser steps taken
    params: Any
    batch_stats: Any
    opt_state: Any


@struct.dataclass
class Best(_Weights):
    """The best dev epoch of each of the A seeds, with its parameters."""

    value: jax.Array  # [A] the selected metric, lower is better
    epoch: jax.Array  # [A] int32, 1-based; 0 before the first evaluation
    stale: jax.Array  # [A] int32, evaluations since the best one
    params: Any
    batch_stats: Any


@struct.dataclass
class Average(_Weights):
    """The unweighted mean of a learner's weights at some steps (Izmailov et al. 2018, Algorithm 1).

    Running batch statistics are averaged like the parameters, which is cheap and close to those of
    the averaged network. Exact statistics need a pass over the training data, here at every
    evaluation; the paper makes one at the end.
    """

    count: jax.Array  # [S] int32, samples so far
    params: Any
    batch_stats: Any


def init_learner(model, optimizer, seeds, example_batch, frozen) -> Learner:
    """One learner per seed, whose parameters depend on this seed only. Compiled once for a model
    and shapes."""
    seeds = jnp.asarray(seeds, jnp.uint32)
    planned = _drawn.eval_shape(seeds, example_batch, frozen, model=model, optimizer=optimizer)
    room = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    room = room or os.sysconf("SC_PAGE_SIZE") * os.sysconf(
        "SC_PHYS_PAGES"
    )  # a CPU has the machine's memory
    needed = sum(
        math.prod(leaf.shape) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves((planned, planned.params))
    )
    if needed > room:
        problem = f"weights and optimiser state need {needed / 1e9:.0f} GB of memory, and there are {room / 1e9:.0f} GB"
        raise RunError(problem, fix="give smaller sizes in config.model, or fewer seeds")
    return _drawn(seeds, example_batch, frozen, model=model, optimizer=optimizer)


@functools.partial(jax.jit, static_argnames=("model", "optimizer"))
def _drawn(seeds, example_batch, frozen, *, model, optimizer):
    def one(seed):
        rngs = {"params": jax.random.key(seed)}
        mutable = ["params", "batch_stats"]
        _, variables = model.apply(
            {"frozen": frozen}, example_batch, train=False, rngs=rngs, mutable=mutable
        )
        params = variables["params"]
        return Learner(
            seed=seed,
            step=jnp.zeros((), jnp.int32),
            params=params,
            batch_stats=variables.get("batch_stats", {}),
            opt_state=optimizer.init(params),
        )

    return jax.vmap(one)(seeds)


def init_best(learner: Learner) -> Best:
    """A Best without an epoch. It is on the host, because one of several processes may still load
    other weights."""
    size = learner.seed.shape[0]
    return Best(
        value=np.full((size,), np.inf, np.float32),
        epoch=np.zeros((size,), np.int32),
        stale=np.zeros((size,), np.int32),
        params=jax.tree.map(np.array, learner.params),
        batch_stats=jax.tree.map(np.array, learner.batch_stats),
    )


@jax.jit
def update_best(best: Best, weights: Learner | Average, slots, value, epoch) -> Best:
    """Replaces the best weights of seeds whose dev value is better.

    weights: of S seeds. slots: [S], the index of each in Best. value: [S], lower is better. epoch:
    number of this evaluation.
    """
    better = value < best.value[slots]

    def choose(old, new):
        mask = better.reshape((-1,) + (1,) * (new.ndim - 1))
        return old.at[slots].set(jnp.where(mask, new, old[slots]))

    return Best(
        value=choose(best.value, value),
        epoch=choose(best.epoch, jnp.full_like(best.epoch[slots], epoch)),
        stale=best.stale.at[slots].set(jnp.where(better, 0, best.stale[slots] + 1)),
        params=jax.tree.map(choose, best.params, weights.params),
        batch_stats=jax.tree.map(choose, best.batch_stats, weights.batch_stats),
    )


def init_average(learner: Learner) -> Average:
    """An Average without samples."""
    zeros = jax.tree.map(jnp.zeros_like, learner.variables)
    return Average(count=jnp.zeros(learner.seed.shape, jnp.int32), **zeros)


@functools.partial(jax.jit, donate_argnums=0)
def add_sample(average: Average, learner: Learner) -> Average:
    """The mean including the learner's weights."""
    count = average.count + 1

    def mean(old, new):
        return old + (new - old) / count.reshape((-1,) + (1,) * (new.ndim - 1)).astype(new.dtype)

    return Average(
        count=count,
        params=jax.tree.map(mean, average.params, learner.params),
        batch_stats=jax.tree.map(mean, average.batch_stats, learner.batch_stats),
    )


def keep_seeds(carried, rows):
    """The rows `rows` of all arrays with a seed axis, so that finished seeds are no longer
    computed."""
    rows = np.asarray(rows)
    return jax.tree.map(lambda x: x[rows], carried)
