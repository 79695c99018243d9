"""The pure functions of one device (bodies): one for training and one for prediction.

Dimension letters: S seeds, Q units of this device's share of the batch, G rows of a unit, B = Q G
rows, C classes.
"""

import jax
import jax.numpy as jnp
import optax
from jax import lax

from mednli_jax.models import sparse_rows as rows
from mednli_jax.models.table import traits
from mednli_jax.training import optim
from mednli_jax.training.state import Learner


def row_keys(seed, step, index_B):
    """[B] keys fold_in(seed, step, row), so that the dropout of a row depends on no other row and
    no device."""
    key = jax.random.fold_in(jax.random.key(seed), step)
    return jax.vmap(lambda row: jax.random.fold_in(key, row))(index_B)


def _over_seeds(body, arguments):
    """`body` mapped over the leading axis of all arguments. For a single seed the axis is removed,
    which is faster."""
    if jax.tree.leaves(arguments)[0].shape[0] > 1:
        return jax.vmap(body)(*arguments)
    return jax.tree.map(
        lambda leaf: leaf[None], body(*jax.tree.map(lambda leaf: leaf[0], arguments))
    )


def train_step(model, task, optimizer, layout, axis_name=None):
    """The body `step(learner, frozen, data, index) -> (learner, sums)`.

    Args:
      model: linen module, called as `model.apply(variables, batch, train=True)`.
      task: has `to_batch(data, index, layout)`, `loss(logits, batch) -> [B]`, `correct(logits, batch) -> [B]`.
      layout: static shape of the batch, for the task.
      axis_name: the mapped device axis, None on one device.

    The body takes index [S, Q, G] (row numbers, -1 = padding). The sums are over the global batch,
    each [S]: loss, correct, count. They are divided once, at the end of the epoch.
    """

    takes_rows = isinstance(optimizer, optim.ByRows) and traits(model).trains_rows
    moves_rows = not isinstance(optimizer, optim.ByMoments)
    optimizer = optax.with_extra_args_support(optimizer)  # one for single rows takes their index

    def over_devices(x):
        return x if axis_name is None else lax.psum(x, axis_name)

    def slopes(learner, frozen, data, index_QG):
        """(gradients, index of the table rows to which they belong, sums, batch statistics) of the
        global batch."""
        batch = task.to_batch(data, index_QG, layout)
        batch = batch.replace(row_key=row_keys(learner.seed, learner.step, index_QG.reshape(-1)))
        count = over_devices(batch.mask.sum())
        variables = {"params": learner.params, "batch_stats": learner.batch_stats, "frozen": frozen}
        index = rows.read(model, variables, batch) if takes_rows else {}

        def loss_of(params):
            given = {**variables, "params": params, rows.INDEX: index}
            logits_BC, changed = model.apply(given, batch, train=True, mutable=["batch_stats"])
            loss = jnp.sum(batch.mask * task.loss(logits_BC, batch))
            correct = jnp.sum(batch.mask * task.correct(logits_BC, batch))
            return loss / lax.stop_gradient(jnp.maximum(count, 1.0)), (loss, correct, changed)

        (_, (loss, correct, changed)), gradients = jax.value_and_grad(loss_of, has_aux=True)(
            rows.taken(learner.params, index)
        )
        gradients, index = rows.over_devices(gradients, index, axis_name)
        sums = {"loss": over_devices(loss), "correct": over_devices(correct), "count": count}
        return gradients, index, sums, changed.get("batch_stats", learner.batch_stats)

    def moved(learner, gradients, index, count, batch_stats):
        updates, opt_state = optimizer.update(
            gradients, learner.opt_state, learner.params, index=index
        )
        return Learner(
            seed=learner.seed,
            step=learner.step + 1,
            params=rows.added(learner.params, updates, index if moves_rows else {}),
            batch_stats=batch_stats,
            opt_state=opt_state,
        )

    def step(learner, frozen, data, index_SQG):
        gradients, index, sums, batch_stats = _over_seeds(
            lambda learner, index: slopes(learner, frozen, data, index), (learner, index_SQG)
        )
        # vmap even for a single seed: without the axis XLA copies parameters and moments instead of
        # reusing them.
        return jax.vmap(moved)(learner, gradients, index, sums["count"], batch_stats), sums

    return step


def predict_step(model, task, layout):
    """The body `predict(variables, frozen, data, index) -> logits [S, B, C]`; index [Q, G] is
    shared by all seeds."""

    def one_seed(variables, frozen, data, index_QG):
        batch = task.to_batch(data, index_QG, layout)
        return model.apply({**variables, "frozen": frozen}, batch, train=False)

    def predict(variables, frozen, data, index_QG):
        return _over_seeds(
            lambda variables: one_seed(variables, frozen, data, index_QG), (variables,)
        )

    return predict
