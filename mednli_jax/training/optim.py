"""Optimisers and learning rate schedules of the papers, built from a config's `train` section.

A schedule that follows the dev split or the epoch keeps its rate in the optimiser's state, one per seed: the loop sets
it between two epochs, and nothing is compiled again.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from mednli_jax.errors import ConfigError

OPTIMIZERS = ("adam", "amsgrad", "sgd", "adamw")
# "constant"; "plateau": lower after an epoch without a new best, which is taken back; "halving": lower with each epoch
# from a given one on; "cyclical": up and down within each cycle of steps; "linear": down to 0 at the run's end;
# "warmup_linear": up from 0 in the run's first steps, then down to 0.
SCHEDULES = ("constant", "plateau", "halving", "cyclical", "linear", "warmup_linear")


class FactorState(NamedTuple):
    """Of "plateau" and "halving"."""

    rate_factor: jax.Array  # float32, of the learning rate; set by the loop


class CycleState(NamedTuple):
    """Of "cyclical"."""

    cycle_steps: jax.Array  # int32, length of a cycle; set by the loop where it is an epoch
    cycle_place: jax.Array  # int32, steps into the cycle


class LineState(NamedTuple):
    """Of "linear" and "warmup_linear"."""

    line_steps: jax.Array  # int32, steps of the run; set by the loop
    line_place: jax.Array  # int32, steps into it


class AccumulatorState(NamedTuple):
    """Of `accumulated`."""

    gathered: Any  # gradients so far, each times its batch's rows
    gathered_rows: jax.Array  # float32
    gathered_batches: jax.Array  # int32
    gathering: Any  # the state of the optimiser that takes their mean


def build_optimizer(
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    clip: float = 0.0,
    optimizer: str = "adam",
    momentum: float = 0.0,
    schedule: str = "constant",
    floor: float = 0.0,
    cycle: int = 0,
    warmup: float = 0.1,
    accumulate: int = 1,
) -> optax.GradientTransformation:
    """An optimiser with L2 added to the gradient first, as in PyTorch's `weight_decay`.

    For Adam (Kingma & Ba 2015) this is not AdamW: the MedNLI systems were trained with the coupled form. "adamw" has
    the other (Loshchilov & Hutter 2019), for matrices alone: biases and norms do not decay (Devlin et al. 2019).

    Args:
      clip: over 0: global gradient norm limit, per seed.
      optimizer: one of OPTIMIZERS. momentum: of "sgd".
      schedule: one of SCHEDULES. floor: the lowest rate of "cyclical", as a share of the learning rate. cycle: its
        steps; 0 leaves them to the loop, which sets `cycle_steps` to an epoch's.
      warmup: of "warmup_linear", the share of the run's steps in which the rate rises.
      accumulate: batches whose gradients make one step (see `accumulated`). All steps above are still batches.
    """
    parts = []
    if clip > 0:
        parts.append(optax.clip_by_global_norm(clip))
    if weight_decay > 0 and optimizer != "adamw":
        parts.append(optax.add_decayed_weights(weight_decay))
    direction = {
        "adam": optax.scale_by_adam,
        "amsgrad": scale_by_amsgrad,
        "adamw": lambda: scale_by_adamw(weight_decay),
        "sgd": lambda: optax.trace(momentum) if momentum > 0 else optax.identity(),
    }[optimizer]()
    rate = {
        "constant": optax.scale_by_learning_rate,
        "plateau": scale_by_factor,
        "halving": scale_by_factor,
        "cyclical": lambda rate: scale_by_cycle(rate, floor=floor, cycle=cycle, stride=accumulate),
        "linear": lambda rate: scale_by_line(rate, stride=accumulate),
        "warmup_linear": lambda rate: scale_by_line(rate, warmup=warmup, stride=accumulate),
    }[schedule](learning_rate)
    made = optax.chain(*parts, optax.chain(direction, rate))  # nested as in optax.adam: checkpoints name its arrays so
    return accumulated(made, accumulate) if accumulate > 1 else made


def scale_by_adamw(weight_decay: float) -> optax.GradientTransformation:
    """Adam's direction plus decay of weights that are no vectors: those are biases and scales of norms."""
    decay = optax.add_decayed_weights(weight_decay, mask=lambda params: jax.tree.map(lambda p: p.ndim > 1, params))
    return optax.chain(optax.scale_by_adam(), decay)


def accumulated(optimizer: optax.GradientTransformation, batches: int) -> optax.GradientTransformationExtraArgs:
    """The optimiser, which takes a step on every so many batches, by the mean gradient of all their rows.

    `update(..., rows=n)` says how many real rows a batch's mean gradient is of, so that the step is that of one large
    batch even where they differ; without it all count the same. Batches left over at a run's end make no step.
    """
    inner = optax.with_extra_args_support(optimizer)

    def start(params):
        none = jnp.zeros((), jnp.int32)
        return AccumulatorState(
            jax.tree.map(jnp.zeros_like, params), none.astype(jnp.float32), none, inner.init(params)
        )

    def update(updates, state, params=None, *, rows=1.0, **extra):
        rows = jnp.asarray(rows, jnp.float32)
        total = jax.tree.map(lambda old, new: old + (rows * new).astype(old.dtype), state.gathered, updates)
        count, gathered = state.gathered_rows + rows, state.gathered_batches + 1
        empty = jax.tree.map(jnp.zeros_like, total)

        def step(_):
            mean = jax.tree.map(lambda leaf: leaf / jnp.maximum(count, 1.0).astype(leaf.dtype), total)
            mean, after = inner.update(mean, state.gathering, params, **extra)
            return mean, AccumulatorState(empty, jnp.zeros_like(count), jnp.zeros_like(gathered), after)

        def wait(_):
            return empty, AccumulatorState(total, count, gathered, state.gathering)

        return lax.cond(gathered >= batches, step, wait, None)

    return optax.GradientTransformationExtraArgs(start, update)


def scale_by_amsgrad(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> optax.GradientTransformation:
    """AMSGrad (Reddi et al. 2018) as PyTorch has it: the largest second moment so far, then corrected for its start.

    optax takes the largest of corrected moments instead. There the first gradients, each a separate average, bound
    the rate for good.
    """
    start = optax.scale_by_amsgrad().init

    def update(updates, state, params=None):
        del params
        count = optax.safe_increment(state.count)
        mu = optax.tree.update_moment(updates, state.mu, b1, 1)
        nu = optax.tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        nu_max = jax.tree.map(jnp.maximum, state.nu_max, nu)
        mean, size = optax.tree.bias_correction(mu, b1, count), optax.tree.bias_correction(nu_max, b2, count)
        updates = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mean, size)
        return updates, state._replace(count=count, mu=mu, nu=nu, nu_max=nu_max)

    return optax.GradientTransformation(start, update)


def scale_by_factor(learning_rate: float) -> optax.GradientTransformation:
    """The learning rate times a factor of the state, 1 at first."""

    def start(params):
        del params
        return FactorState(jnp.ones((), jnp.float32))

    def update(updates, state, params=None):
        del params
        return _descend(updates, learning_rate * state.rate_factor), state

    return optax.GradientTransformation(start, update)


def scale_by_cycle(
    learning_rate: float, *, floor: float, cycle: int = 0, stride: int = 1
) -> optax.GradientTransformation:
    """The triangular policy (Smith 2017, section 3): from floor * rate up to the rate in half a cycle, and back.

    stride: steps of the cycle that an update stands for.
    """

    def start(params):
        del params
        return CycleState(jnp.asarray(cycle, jnp.int32), jnp.zeros((), jnp.int32))

    def update(updates, state, params=None):
        del params
        steps = jnp.maximum(state.cycle_steps, 1)
        height = 1 - jnp.abs(2 * state.cycle_place.astype(jnp.float32) / steps - 1)
        height = jnp.where(steps > 1, height, 1.0)  # an epoch of one step has no slope
        updates = _descend(updates, learning_rate * (floor + (1 - floor) * height))
        return updates, state._replace(cycle_place=(state.cycle_place + stride) % steps)

    return optax.GradientTransformation(start, update)


def scale_by_line(learning_rate: float, *, warmup: float = 0.0, stride: int = 1) -> optax.GradientTransformation:
    """The learning rate times the share of the run's steps that are still to come, as in fastText's supervised mode.

    warmup: share of the steps (rounded up) in which it rises from 0 before, as in BERT's fine-tuning. stride: steps of
    the run that an update stands for.
    """

    def start(params):
        del params
        return LineState(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def update(updates, state, params=None):
        del params
        done = state.line_place.astype(jnp.float32) / jnp.maximum(state.line_steps, 1)
        share = jnp.maximum(1 - done, 0.0)
        if warmup > 0:
            rising = jnp.ceil(warmup * state.line_steps)
            place = state.line_place.astype(jnp.float32)
            falling = jnp.maximum(state.line_steps - place, 0.0) / jnp.maximum(state.line_steps - rising, 1.0)
            share = jnp.where(place < rising, place / jnp.maximum(rising, 1.0), falling)
        updates = _descend(updates, learning_rate * share)
        return updates, state._replace(line_place=state.line_place + stride)

    return optax.GradientTransformation(start, update)


def _descend(updates, rate):
    return jax.tree.map(lambda update: (-rate).astype(update.dtype) * update, updates)


def rate_factor(opt_state) -> jax.Array | None:
    """The factors [S] of the seeds' learning rates; None where the schedule has none."""
    return optax.tree.get(opt_state, "rate_factor")


def with_value(opt_state, name: str, value):
    """The state with another `rate_factor`, `cycle_steps` or `line_steps`: one value, or one per seed [S]."""
    old = optax.tree.get(opt_state, name)
    return optax.tree.set(opt_state, **{name: jnp.broadcast_to(jnp.asarray(value, old.dtype), old.shape)})


def all_but(optimizer: optax.GradientTransformation, frozen) -> optax.GradientTransformation:
    """The optimiser for all weights but those whose name ("encoder/kernel") a regular expression finds: they stay.

    Running batch statistics are no weights and move on. Raises UserError, at the start, where none or all are found.
    """

    def labels(params):
        named = jax.tree_util.tree_map_with_path(
            lambda path, _: bool(frozen.search(jax.tree_util.keystr(path, simple=True, separator="/"))), params
        )
        found = jax.tree.leaves(named)
        if not any(found) or all(found):
            which = "every weight" if all(found) else "no weight"
            raise ConfigError(
                f"config.transfer.freeze: the pattern finds {which}. Fix: `train --dry-run` lists the names."
            )
        return jax.tree.map(lambda hit: "stays" if hit else "moves", named)

    return optax.multi_transform({"moves": optimizer, "stays": optax.set_to_zero()}, labels)
