"""The pure functions of one device (bodies): one for training and one for prediction.

Dimension letters: S seeds, Q premise groups of this device's share of the batch, G rows of a
group, B = Q G rows, C classes.
"""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import lax

from mednli_jax.data.batching import Layout
from mednli_jax.models import sparse_rows
from mednli_jax.models.table import traits
from mednli_jax.training import optim
from mednli_jax.training.scorer import Scorer
from mednli_jax.training.state import Learner
from mednli_jax.types import PyTree

Sums = dict[str, jax.Array]  # `loss`, `correct` and `count` of a batch, each [S]
TrainBody = Callable[[Learner, PyTree, PyTree, jax.Array], tuple[Learner, Sums]]
PredictBody = Callable[[PyTree, PyTree, PyTree, jax.Array], jax.Array]


def row_keys(seed: jax.Array, step: jax.Array, index_B: jax.Array) -> jax.Array:
    """The keys [B] fold_in(seed, step, row), so that the dropout of a row depends on no other row
    and no device."""
    key = jax.random.fold_in(jax.random.key(seed), step)
    return jax.vmap(lambda row: jax.random.fold_in(key, row))(index_B)


def _over_seeds(body: Callable[..., PyTree], *arguments: PyTree) -> PyTree:
    """Maps `body` over the leading axis of all arguments. For a single seed the axis is removed,
    which is faster."""
    if jax.tree.leaves(arguments)[0].shape[0] > 1:
        return jax.vmap(body)(*arguments)
    result = body(*jax.tree.map(lambda leaf: leaf[0], arguments))
    return jax.tree.map(lambda leaf: leaf[None], result)


class _Slopes(NamedTuple):
    """The results of the forward and backward pass over the global batch."""

    gradients: PyTree
    index: PyTree  # rows of tables to which their gradients belong, see models.sparse_rows
    sums: Sums
    batch_stats: PyTree


def train_step(
    model: nn.Module,
    scorer: Scorer,
    optimizer: optax.GradientTransformation,
    layout: Layout,
    axis_name: str | None = None,
) -> TrainBody:
    """Makes the body `step(learner, frozen, data, index) -> (learner, sums)`.

    The body takes index [S, Q, G] (row numbers, -1 = padding). The sums are over the global batch.
    They are divided once, at the end of the epoch.

    Args:
      layout: static shape of the batch.
      axis_name: the mapped device axis, None on one device.
    """
    takes_rows = isinstance(optimizer, optim.ByRows) and traits(model).trains_rows
    moves_rows = not isinstance(optimizer, optim.ByMoments)
    update = optax.with_extra_args_support(optimizer).update

    def over_devices(x: jax.Array) -> jax.Array:
        return x if axis_name is None else lax.psum(x, axis_name)

    def slopes(learner: Learner, index_QG: jax.Array, frozen: PyTree, data: PyTree) -> _Slopes:
        batch = scorer.to_batch(data, index_QG, layout)
        batch = batch.replace(row_key=row_keys(learner.seed, learner.step, index_QG.reshape(-1)))
        count = over_devices(batch.mask.sum())
        variables = {**learner.variables, "frozen": frozen}
        index = sparse_rows.index_of(model, variables, batch) if takes_rows else {}

        def loss_of(params: PyTree) -> tuple[jax.Array, tuple[jax.Array, jax.Array, PyTree]]:
            """This device's share of the mean loss of the global batch."""
            collections = {**variables, "params": params, sparse_rows.INDEX: index}
            logits_BC, changed = model.apply(
                collections, batch, train=True, mutable=["batch_stats"]
            )
            loss = jnp.sum(batch.mask * scorer.loss(logits_BC, batch))
            correct = jnp.sum(batch.mask * scorer.correct(logits_BC, batch))
            mean_loss = loss / lax.stop_gradient(jnp.maximum(count, 1.0))
            return mean_loss, (loss, correct, changed)

        params = sparse_rows.with_rows(learner.params, index)
        (_, aux), gradients = jax.value_and_grad(loss_of, has_aux=True)(params)
        loss, correct, changed = aux
        gradients, index = sparse_rows.over_devices(gradients, index, axis_name)
        sums = {"loss": over_devices(loss), "correct": over_devices(correct), "count": count}
        return _Slopes(gradients, index, sums, changed.get("batch_stats", learner.batch_stats))

    def update_learner(learner: Learner, slopes: _Slopes) -> Learner:
        updates, opt_state = update(
            slopes.gradients, learner.opt_state, learner.params, index=slopes.index
        )
        rows = slopes.index if moves_rows else {}
        return Learner(
            seed=learner.seed,
            step=learner.step + 1,
            params=sparse_rows.add_updates(learner.params, updates, rows),
            batch_stats=slopes.batch_stats,
            opt_state=opt_state,
        )

    def step(
        learner: Learner, frozen: PyTree, data: PyTree, index_SQG: jax.Array
    ) -> tuple[Learner, Sums]:
        of_seeds = _over_seeds(
            lambda learner, index_QG: slopes(learner, index_QG, frozen, data), learner, index_SQG
        )
        # vmap even for a single seed: without the axis XLA copies parameters and moments instead of
        # reusing them.
        return jax.vmap(update_learner)(learner, of_seeds), of_seeds.sums

    return step


def predict_step(model: nn.Module, scorer: Scorer, layout: Layout) -> PredictBody:
    """Makes the body `predict(variables, frozen, data, index) -> logits [S, B, C]`. All seeds share
    index [Q, G]."""

    def predict(variables: PyTree, frozen: PyTree, data: PyTree, index_QG: jax.Array) -> jax.Array:
        def predict_seed(variables: PyTree) -> PyTree:
            batch = scorer.to_batch(data, index_QG, layout)
            return model.apply({**variables, "frozen": frozen}, batch, train=False)

        logits_SBC: jax.Array = _over_seeds(predict_seed, variables)
        return logits_SBC

    return predict
