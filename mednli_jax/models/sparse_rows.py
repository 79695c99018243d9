"""Gradients for only those rows of large trained tables that a batch reads.

A gradient as large as the table would cost several passes over the table at every step. A step
therefore takes the rows that the batch reads and differentiates with respect to them. Plain
stochastic gradient descent adds the updates to these rows. Adam updates every row at every step by
its moments, but also needs only the gradients of the rows read.

Dimension letters: M rows of a table, N rows that a batch reads (with repetitions), D feature.
"""

import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import lax

# collection of the rows that a batch reads: {path of the table: index [N]}
INDEX = "index"


def trained_rows(module, name: str, init, index_N):
    """The rows index_N of a module's trained table [M, D]: its parameter `name`, initialised by
    init(key).

    Where the collection INDEX is mutable, the index is stored there. Where it is given, the
    parameter is not the table but already the rows [N, D], see `taken`.
    """
    if module.is_mutable_collection(INDEX):
        module.put_variable(INDEX, name, index_N)
    elif module.has_variable(INDEX, name):
        return module.get_variable("params", name)
    return take(module.param(name, init), index_N)


def read(model, variables, batch):
    """The collection INDEX of a batch: the rows of its tables that the model reads.

    Tables with no more rows than the batch reads are left out and trained as a whole.
    """
    found = model.apply(variables, batch, train=True, mutable=[INDEX])[1].get(INDEX, {})
    found, tables = (
        traverse_util.flatten_dict(found),
        traverse_util.flatten_dict(variables["params"]),
    )
    return traverse_util.unflatten_dict(
        {path: at for path, at in found.items() if len(at) < len(tables[path])}
    )


def taken(params, index):
    """The parameters with each table replaced by the rows read [N, D]."""
    at = traverse_util.flatten_dict(index)
    return walked(params, lambda path, leaf: leaf[at[path]] if path in at else leaf)


def summed(gradients, params, index):
    """The gradients with those of the same row summed at its first occurrence, and 0 at the other
    occurrences."""
    at, tables = traverse_util.flatten_dict(index), traverse_util.flatten_dict(params)

    def at_first(path, leaf):
        if path not in at:
            return leaf
        first_M = jnp.full(len(tables[path]), len(leaf)).at[at[path]].min(jnp.arange(len(leaf)))
        return _add(jnp.zeros_like(leaf), first_M[at[path]], leaf)

    return walked(gradients, at_first)


def over_devices(gradients, index, axis_name):
    """(gradients, index) of the global batch: those of tables are concatenated over devices, all
    others summed."""
    if axis_name is None:
        return gradients, index
    flat = traverse_util.flatten_dict(gradients)
    of_tables = {path: flat.pop(path) for path in traverse_util.flatten_dict(index)}
    gathered, index = jax.tree.map(
        lambda x: lax.all_gather(x, axis_name, tiled=True), (of_tables, index)
    )
    return traverse_util.unflatten_dict({**lax.psum(flat, axis_name), **gathered}), index


@jax.custom_vjp
def take(table, index):
    """table[index], rows of a trained table [M, ...]. The gradient is deterministic also on a GPU
    (see `_add`)."""
    return table[index]


def _take_backward(saved, d_out):
    table, index = saved
    return _add(jnp.zeros_like(table), index.reshape(-1), d_out.reshape(-1, *table.shape[1:])), None


take.defvjp(lambda table, index: (table[index], (table, index)), _take_backward)


def added(params, updates, index):
    """The parameters plus their updates. The updates [N, D] of a table belong to its rows
    `index`."""
    at, flat = traverse_util.flatten_dict(index), traverse_util.flatten_dict(updates)

    def moved(path, leaf):
        if path not in at:
            return (leaf + flat[path]).astype(leaf.dtype)
        return _add(leaf, at[path], flat[path])

    return walked(params, moved)


def _add(table, index_N, update_ND):
    """The table with updates added to the rows index_N.

    A GPU scatters updates of the same row in no fixed order, so there `add_summed` makes the result
    deterministic.
    """
    return lax.platform_dependent(
        table, index_N, update_ND, cuda=add_summed, rocm=add_summed, default=add
    )


def walked(tree, change):
    """The tree with each leaf replaced by change(path, leaf)."""
    flat = traverse_util.flatten_dict(tree)
    return traverse_util.unflatten_dict({path: change(path, leaf) for path, leaf in flat.items()})


def add(table, index_N, update_ND):
    """As `_add`, with one addition for each update."""
    return table.at[index_N].add(update_ND)


def add_summed(table, index_N, update_ND):
    """As `_add`, with one addition for each row: updates are sorted by row, and those of a row are
    summed first."""
    order_N = jnp.argsort(index_N, stable=True)
    index_N, update_ND = index_N[order_N], update_ND[order_N].reshape(len(index_N), -1)
    begins_N = jnp.append(True, index_N[1:] != index_N[:-1])

    def join(left, right):
        (left_begins, left_sum), (right_begins, right_sum) = left, right
        return left_begins | right_begins, right_sum + jnp.where(
            right_begins[:, None], 0.0, left_sum
        )

    _, sum_ND = lax.associative_scan(join, (begins_N, update_ND))
    ends_N = jnp.append(begins_N[1:], True)
    beyond_N = len(table) + jnp.arange(
        len(index_N)
    )  # distinct and out of range, so that they are dropped
    sums = sum_ND.reshape(-1, *table.shape[1:])
    return table.at[jnp.where(ends_N, index_N, beyond_N)].add(
        sums, mode="drop", unique_indices=True
    )
