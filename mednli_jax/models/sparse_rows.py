"""Large tables of trained rows, of which a batch reads few: training touches those alone.

A gradient as large as the table would cost a pass over all of it at every step. A step takes the rows that the batch
reads out of the table, differentiates with respect to them, and adds their updates back. That is plain stochastic
gradient descent, and only that: momentum, decay and a gradient's norm are matters of every row.

Dimension letters: M rows of a table, N rows that a batch reads (the same row may come again), D feature.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import lax

INDEX = "index"  # the collection of the rows that a batch reads: {path of the table: index [N]}


class TrainedRows(nn.Module):
    """Rows index [N] of a trained table [M, D], drawn from U(-1/D, 1/D) as fastText draws its own.

    Where the collection INDEX is mutable, the index is left there. Where it is given, the parameter is no longer the
    table but the rows [N, D] that `taken` took out of it.
    """

    rows: int
    dim: int

    @nn.compact
    def __call__(self, index_N):
        if self.is_mutable_collection(INDEX):
            self.put_variable(INDEX, "rows", index_N)
        elif self.has_variable(INDEX, "rows"):
            return self.get_variable("params", "rows")

        def init(key):
            return jax.random.uniform(key, (self.rows, self.dim), jnp.float32, -1 / self.dim, 1 / self.dim)

        return self.param("rows", init)[index_N]


def trains_rows(model) -> bool:
    """Whether a model has such tables."""
    return getattr(model, "trains_rows", False)


def read(model, variables, batch):
    """The collection INDEX of a batch: which rows of its tables the model reads; empty where it has none."""
    if not trains_rows(model):
        return {}
    return model.apply(variables, batch, train=True, mutable=[INDEX])[1][INDEX]


def taken(params, index):
    """The parameters with the rows read [N, D] in the place of each table."""
    at = traverse_util.flatten_dict(index)
    return _walked(params, lambda path, leaf: leaf[at[path]] if path in at else leaf)


def over_devices(gradients, index, axis_name):
    """Gradients and index of the global batch: those of tables stand one after the other, all others are summed."""
    if axis_name is None:
        return gradients, index
    flat = traverse_util.flatten_dict(gradients)
    of_tables = {path: flat.pop(path) for path in traverse_util.flatten_dict(index)}
    gathered, index = jax.tree.map(lambda x: lax.all_gather(x, axis_name, tiled=True), (of_tables, index))
    return traverse_util.unflatten_dict({**lax.psum(flat, axis_name), **gathered}), index


@jax.custom_vjp
def take(table, index):
    """table[index], rows of a trained table [M, ...]. On a GPU, too, equal runs have equal gradients (see `added`)."""
    return table[index]


def _take_backward(saved, d_out):
    table, index = saved
    return summed(jnp.zeros_like(table), index.reshape(-1), d_out.reshape(-1, *table.shape[1:])), None


take.defvjp(lambda table, index: (table[index], (table, index)), _take_backward)


def added(params, updates, index):
    """The parameters plus their updates, where those of a table [N, D] belong to the rows `index`."""
    at, flat = traverse_util.flatten_dict(index), traverse_util.flatten_dict(updates)

    def moved(path, leaf):
        if path not in at:
            return (leaf + flat[path]).astype(leaf.dtype)
        return summed(leaf, at[path], flat[path])

    return _walked(params, moved)


def _walked(tree, change):
    """The tree with change(path, leaf) in the place of each leaf."""
    flat = traverse_util.flatten_dict(tree)
    return traverse_util.unflatten_dict({path: change(path, leaf) for path, leaf in flat.items()})


def summed(table, index_N, update_ND):
    """The table with updates added at rows that may recur.

    Replicas have to agree, and a run is to repeat itself: a GPU adds equal rows in no fixed order.
    """
    return lax.platform_dependent(table, index_N, update_ND, cuda=add_summed, rocm=add_summed, default=add)


def add(table, index_N, update_ND):
    """The same by one addition for each update."""
    return table.at[index_N].add(update_ND)


def add_summed(table, index_N, update_ND):
    """The same by one addition to each row: updates of equal rows are sorted together and summed beforehand."""
    order_N = jnp.argsort(index_N, stable=True)
    index_N, update_ND = index_N[order_N], update_ND[order_N].reshape(len(index_N), -1)
    begins_N = jnp.append(True, index_N[1:] != index_N[:-1])

    def join(left, right):
        (left_begins, left_sum), (right_begins, right_sum) = left, right
        return left_begins | right_begins, right_sum + jnp.where(right_begins[:, None], 0.0, left_sum)

    _, sum_ND = lax.associative_scan(join, (begins_N, update_ND))
    ends_N = jnp.append(begins_N[1:], True)
    beyond_N = len(table) + jnp.arange(len(index_N))  # all different, and dropped
    sums = sum_ND.reshape(-1, *table.shape[1:])
    return table.at[jnp.where(ends_N, index_N, beyond_N)].add(sums, mode="drop", unique_indices=True)
