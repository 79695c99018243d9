"""Large trained tables of which a batch reads few rows: only these rows get gradients.

A gradient as large as the table would cost several passes over all of it at every step. A step takes the rows that the
batch reads out of the table and differentiates with respect to them. Plain stochastic gradient descent adds their
updates back. Adam moves every row at every step, by its moments, yet needs the gradients of the rows read alone.

Dimension letters: M rows of a table, N rows that a batch reads (the same row may come again), D feature.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import lax

INDEX = "index"  # the collection of the rows that a batch reads: {path of the table: index [N]}


def trained_rows(module, name: str, init, index_N):
    """Rows index [N] of a module's trained table [M, D]: its parameter `name`, initialised by init(key).

    Where the collection INDEX is mutable, the index is left there. Where it is given, the parameter is no longer the
    table but the rows [N, D] that `taken` took out of it.
    """
    if module.is_mutable_collection(INDEX):
        module.put_variable(INDEX, name, index_N)
    elif module.has_variable(INDEX, name):
        return module.get_variable("params", name)
    return take(module.param(name, init), index_N)


class TrainedRows(nn.Module):
    """Rows index [N] of a trained table [M, D], initialised from U(-1/D, 1/D) as in fastText."""

    rows: int
    dim: int

    @nn.compact
    def __call__(self, index_N):
        def init(key):
            return jax.random.uniform(key, (self.rows, self.dim), jnp.float32, -1 / self.dim, 1 / self.dim)

        return trained_rows(self, "rows", init, index_N)


def trains_rows(model) -> bool:
    """Whether a model has such tables."""
    return getattr(model, "trains_rows", False)


def read(model, variables, batch):
    """The collection INDEX of a batch: which rows of its tables the model reads.

    Without tables of which the batch reads as many rows as they have: those are trained whole.
    """
    if not trains_rows(model):
        return {}
    found = model.apply(variables, batch, train=True, mutable=[INDEX])[1].get(INDEX, {})
    found, tables = traverse_util.flatten_dict(found), traverse_util.flatten_dict(variables["params"])
    return traverse_util.unflatten_dict({path: at for path, at in found.items() if len(at) < len(tables[path])})


def taken(params, index):
    """The parameters with the rows read [N, D] in the place of each table."""
    at = traverse_util.flatten_dict(index)
    return walked(params, lambda path, leaf: leaf[at[path]] if path in at else leaf)


def summed(gradients, params, index):
    """The gradients of rows with those of equal rows summed in the place of the first one, and 0 in the others."""
    at, tables = traverse_util.flatten_dict(index), traverse_util.flatten_dict(params)

    def at_first(path, leaf):
        if path not in at:
            return leaf
        first_M = jnp.full(len(tables[path]), len(leaf)).at[at[path]].min(jnp.arange(len(leaf)))
        return _add(jnp.zeros_like(leaf), first_M[at[path]], leaf)

    return walked(gradients, at_first)


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
    """table[index], rows of a trained table [M, ...]. On a GPU, too, equal runs have equal gradients (see `_add`)."""
    return table[index]


def _take_backward(saved, d_out):
    table, index = saved
    return _add(jnp.zeros_like(table), index.reshape(-1), d_out.reshape(-1, *table.shape[1:])), None


take.defvjp(lambda table, index: (table[index], (table, index)), _take_backward)


def added(params, updates, index):
    """The parameters plus their updates, where those of a table [N, D] belong to the rows `index`."""
    at, flat = traverse_util.flatten_dict(index), traverse_util.flatten_dict(updates)

    def moved(path, leaf):
        if path not in at:
            return (leaf + flat[path]).astype(leaf.dtype)
        return _add(leaf, at[path], flat[path])

    return walked(params, moved)


def _add(table, index_N, update_ND):
    """The sum by what the platform needs.

    Replicas have to agree, and a run is to repeat itself: a GPU adds equal rows in no fixed order.
    """
    return lax.platform_dependent(table, index_N, update_ND, cuda=add_summed, rocm=add_summed, default=add)


def walked(tree, change):
    """The tree with change(path, leaf) in the place of each leaf."""
    flat = traverse_util.flatten_dict(tree)
    return traverse_util.unflatten_dict({path: change(path, leaf) for path, leaf in flat.items()})


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
