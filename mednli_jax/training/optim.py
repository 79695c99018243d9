"""Optimisers and learning rate schedules of the papers, built from a config's `train` section.

The batches are planned before the optimiser is built. The number of steps of an epoch is therefore known, and a
schedule is an optax schedule, a function of the step.
"""

import math

import jax
import jax.numpy as jnp
import optax
from flax import traverse_util

from mednli_jax.models import sparse_rows

OPTIMIZERS = ("adam", "sgd", "adamw")
SCHEDULES = ("constant", "halving", "linear", "warmup_linear")
DECAY = 0.5  # factor of a lower rate


class ByRows(optax.GradientTransformationExtraArgs):
    """Its `update(..., index=index)` takes gradients of table rows (models.sparse_rows) and returns updates of them."""


class ByMoments(ByRows):
    """Like ByRows, but it returns updates of all rows of the tables."""


def build_optimizer(
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    clip: float = 0.0,
    optimizer: str = "adam",
    schedule: str = "constant",
    halve_from: int = 1,
    warmup: float = 0.1,
    epochs: int = 1,
    epoch_steps: int = 1,
) -> optax.GradientTransformation:
    """An optimiser with L2 regularisation added to the gradient first, as in PyTorch's `weight_decay`.

    For Adam (Kingma & Ba 2015) this is not AdamW: the MedNLI systems were trained with the coupled form. "adamw" is
    the decoupled form (Loshchilov & Hutter 2019) for matrices; biases and norms do not decay (Devlin et al. 2019).

    Args:
      clip: largest global norm of the gradient, per seed; 0 = no limit.
      schedule: of the rate. "halving": multiplied by DECAY at each epoch from number `halve_from` on; "linear":
        multiplied by the share of the run's steps that remain, as in fastText's supervised mode; "warmup_linear": up
        from 0 in the share `warmup` of the run's steps (rounded up), then down to 0, as in BERT's fine-tuning.
      epochs, epoch_steps: epochs of the run and batches of an epoch, for schedules that depend on them.
    """
    parts = []
    if clip > 0:
        parts.append(optax.clip_by_global_norm(clip))
    if weight_decay > 0 and optimizer != "adamw":
        parts.append(optax.add_decayed_weights(weight_decay))

    def is_matrix(params):  # vectors are biases and scales of norms
        return jax.tree.map(lambda p: p.ndim > 1, params)

    direction = {
        "adam": scale_by_adam,
        "adamw": lambda: optax.chain(optax.scale_by_adam(), optax.add_decayed_weights(weight_decay, mask=is_matrix)),
        "sgd": optax.identity,
    }[optimizer]()
    if schedule == "constant":
        rate = optax.scale_by_learning_rate(learning_rate)
    else:
        of_step = _rate_of_step(schedule, learning_rate, epochs, epoch_steps, halve_from, warmup)
        rate = optax.scale_by_learning_rate(of_step)
    made = optax.chain(*parts, optax.chain(direction, rate))  # nested as in optax.adam, for the names in checkpoints
    if optimizer not in ("adam", "sgd") or weight_decay > 0:  # their updates concern every row
        return made
    return by_rows(made, moments=optimizer == "adam", norms=clip > 0)


def by_rows(optimizer: optax.GradientTransformation, *, moments: bool, norms: bool) -> ByRows:
    """The optimiser for gradients of single rows. The updates are the same as for gradients of whole tables.

    moments: whether it returns updates of whole tables. norms: whether it needs the norm of the gradients.
    """
    made = optax.with_extra_args_support(optimizer)

    def update(updates, state, params=None, *, index=None, **extra):
        if index and (moments or norms):  # a row that was read twice has two gradients
            updates = sparse_rows.summed(updates, params, index)
        return made.update(updates, state, params, index=index, **extra)

    return (ByMoments if moments else ByRows)(made.init, update)


def _rate_of_step(schedule, learning_rate, epochs, epoch_steps, halve_from, warmup) -> optax.Schedule:
    """The learning rate as a function of the number of earlier steps."""
    steps = epochs * epoch_steps
    if schedule == "halving":
        starts = ((epoch - 1) * epoch_steps for epoch in range(halve_from, epochs + 1))
        return optax.piecewise_constant_schedule(learning_rate, dict.fromkeys(starts, DECAY))
    rising = math.ceil(round(warmup * steps, 6)) if schedule == "warmup_linear" else 0
    falling = optax.linear_schedule(learning_rate, 0.0, max(steps - rising, 1))
    if not rising:
        return falling
    return optax.join_schedules([optax.linear_schedule(0.0, learning_rate, rising), falling], [rising])


def scale_by_adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> optax.GradientTransformationExtraArgs:
    """Adam (Kingma & Ba 2015) as in optax, which also takes gradients of single table rows.

    The gradients of other rows count as 0: at every step the moments of all rows decay and all rows are updated.
    """
    whole = optax.scale_by_adam(b1, b2, eps)

    def update(updates, state, params=None, *, index=None, **extra):
        if not index:
            return whole.update(updates, state, params)
        at, flat = traverse_util.flatten_dict(index), traverse_util.flatten_dict(updates)

        def moment(decay, power):
            def moved(path, old):
                new = (1 - decay) * flat[path] ** power
                return (decay * old).at[at[path]].add(new) if path in at else decay * old + new

            return moved

        count = optax.safe_increment(state.count)
        mu, nu = sparse_rows.walked(state.mu, moment(b1, 1)), sparse_rows.walked(state.nu, moment(b2, 2))
        mean, size = optax.tree.bias_correction(mu, b1, count), optax.tree.bias_correction(nu, b2, count)
        updates = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mean, size)
        return updates, optax.ScaleByAdamState(count, mu, nu)

    return optax.GradientTransformationExtraArgs(whole.init, update)
