"""Optimisers and learning rate schedules of the papers, built from a config's `train` section.

The batches are planned before the optimiser is built. The number of steps of an epoch is therefore
known, and a schedule is an optax schedule, a function of the step.
"""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import optax
from flax import traverse_util
from ml_collections import ConfigDict

from mednli_jax.models import sparse_rows
from mednli_jax.types import PyTree

OPTIMIZERS = ("adam", "sgd", "adamw")
SCHEDULES = ("constant", "halving", "linear", "warmup_linear")
DECAY = 0.5  # factor of a lower rate
Updated = tuple[PyTree, PyTree]  # (updates, state of the optimiser)


class ByRows(optax.GradientTransformationExtraArgs):
    """An optimiser whose `update(..., index=index)` takes gradients of table rows
    (models.sparse_rows) and returns updates of these rows."""


class ByMoments(ByRows):
    """An optimiser whose `update(..., index=index)` takes gradients of table rows and returns
    updates of all rows of the tables."""


@dataclass(frozen=True)
class Options:
    """The choice of an optimiser, as in the `train` section of a config.

    Args:
      weight_decay: added to the gradient, or decoupled with "adamw", see `build_optimizer`.
      clip: largest global norm of the gradient, per seed; 0 = no limit.
      optimizer: one of OPTIMIZERS.
      schedule: of the rate. "halving": multiplied by DECAY at each epoch from number `halve_from`
        on; "linear": multiplied by the share of the run's steps that remain, as in fastText's
        supervised mode; "warmup_linear": up from 0 in the share `warmup` of the run's steps
        (rounded up), then down to 0, as in BERT's fine-tuning.
      epochs: of the run.
    """

    learning_rate: float
    weight_decay: float = 0.0
    clip: float = 0.0
    optimizer: str = "adam"
    schedule: str = "constant"
    halve_from: int = 1
    warmup: float = 0.1
    epochs: int = 1

    @classmethod
    def from_config(cls, train: ConfigDict) -> "Options":
        return cls(
            learning_rate=train.learning_rate,
            weight_decay=train.weight_decay,
            clip=train.clip,
            optimizer=train.optimizer,
            schedule=train.schedule,
            halve_from=train.halve_from,
            warmup=train.warmup,
            epochs=train.epochs,
        )


def build_optimizer(options: Options, epoch_steps: int = 1) -> optax.GradientTransformation:
    """Builds an optimiser with L2 regularisation added to the gradient first, as in PyTorch's
    `weight_decay`.

    For Adam (Kingma & Ba 2015) this is not AdamW: the MedNLI systems were trained with the coupled
    form. "adamw" is the decoupled form (Loshchilov & Hutter 2019) for matrices; biases and norms do
    not decay (Devlin et al. 2019).

    epoch_steps: batches of an epoch, for schedules.
    """
    decays = options.weight_decay > 0 and options.optimizer != "adamw"
    rate = optax.scale_by_learning_rate(_rate(options, epoch_steps))
    steps = []
    if options.clip > 0:
        steps.append(optax.clip_by_global_norm(options.clip))
    if decays:
        steps.append(optax.add_decayed_weights(options.weight_decay))
    # The inner chain is that of optax.adam, for the names in checkpoints.
    steps.append(optax.chain(_direction(options), rate))
    optimizer = optax.chain(*steps)
    if decays or options.optimizer == "adamw":  # their updates concern every row
        return optimizer
    return by_rows(optimizer, moments=options.optimizer == "adam", norms=options.clip > 0)


def _direction(options: Options) -> optax.GradientTransformation:
    """The transformation that gives the updates before they are multiplied by the rate."""
    if options.optimizer == "sgd":
        return optax.identity()
    if options.optimizer == "adam":
        return scale_by_adam()
    decay = optax.add_decayed_weights(options.weight_decay, mask=_is_matrix)
    return optax.chain(optax.scale_by_adam(), decay)


def _is_matrix(params: PyTree) -> PyTree:
    """A tree of bool: whether each leaf is a matrix, not a bias or the scale of a norm."""
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


def by_rows(optimizer: optax.GradientTransformation, *, moments: bool, norms: bool) -> ByRows:
    """Turns an optimiser into one for gradients of single rows. The updates are the same as for
    gradients of whole tables.

    Args:
      moments: whether it returns updates of whole tables.
      norms: whether it needs the norm of the gradients.
    """
    whole = optax.with_extra_args_support(optimizer)

    def update(
        updates: PyTree,
        state: PyTree,
        params: PyTree = None,
        *,
        index: PyTree = None,
        **extra_args: PyTree,
    ) -> Updated:
        if index and (moments or norms):  # these need one gradient for a row that was read twice
            updates = sparse_rows.sum_rows(updates, params, index)
        result: Updated = whole.update(updates, state, params, index=index, **extra_args)
        return result

    return ByMoments(whole.init, update) if moments else ByRows(whole.init, update)


def _rate(options: Options, epoch_steps: int) -> float | optax.Schedule:
    """The learning rate, or a function of the number of earlier steps."""
    rate, steps = options.learning_rate, options.epochs * epoch_steps
    if options.schedule == "constant":
        return rate
    if options.schedule == "halving":
        lower_from = range(options.halve_from, options.epochs + 1)
        starts = [(epoch - 1) * epoch_steps for epoch in lower_from]
        return optax.piecewise_constant_schedule(rate, dict.fromkeys(starts, DECAY))
    if options.schedule == "linear":
        return optax.linear_schedule(rate, 0.0, max(steps, 1))
    rising = math.ceil(round(options.warmup * steps, 6))
    falling = optax.linear_schedule(rate, 0.0, max(steps - rising, 1))
    if not rising:
        return falling
    return optax.join_schedules([optax.linear_schedule(0.0, rate, rising), falling], [rising])


def scale_by_adam(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> optax.GradientTransformationExtraArgs:
    """Adam (Kingma & Ba 2015) as in optax, which also takes gradients of single table rows.

    The gradients of other rows count as 0: at every step the moments of all rows decay and all rows
    are updated.
    """
    whole = optax.scale_by_adam(b1, b2, eps)

    def update(
        updates: PyTree,
        state: optax.ScaleByAdamState,
        params: PyTree = None,
        *,
        index: PyTree = None,
        **extra_args: PyTree,
    ) -> Updated:
        if not index:
            result: Updated = whole.update(updates, state, params)
            return result
        rows_of, gradients = traverse_util.flatten_dict(index), traverse_util.flatten_dict(updates)

        def next_moment(
            decay: float, power: int, path: sparse_rows.Path, moment: jax.Array
        ) -> jax.Array:
            """The moment of a parameter after this step."""
            new: jax.Array = (1 - decay) * gradients[path] ** power
            if path in rows_of:
                return (decay * moment).at[rows_of[path]].add(new)
            return decay * moment + new

        count = optax.safe_increment(state.count)
        mu = sparse_rows.map_leaves(partial(next_moment, b1, 1), state.mu)
        nu = sparse_rows.map_leaves(partial(next_moment, b2, 2), state.nu)
        mean = optax.tree.bias_correction(mu, b1, count)
        variance = optax.tree.bias_correction(nu, b2, count)
        updates = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mean, variance)
        return updates, optax.ScaleByAdamState(count, mu, nu)

    return optax.GradientTransformationExtraArgs(whole.init, update)
