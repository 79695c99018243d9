"""Gradients for only those rows of large trained tables that a batch reads.

A gradient as large as the table would cost several passes over the table at every step. A step
therefore takes the rows that the batch reads and differentiates with respect to them. Plain
stochastic gradient descent adds the updates to these rows. Adam updates every row at every step by
its moments, but also needs only the gradients of the rows read.

Dimension letters: M rows of a table, N rows that a batch reads (with repetitions), D feature.

An `index` is {module: {parameter: row numbers [N]}}, nested as the parameters, with the tables
alone; {} where all parameters are trained as a whole.
"""

from collections.abc import Callable
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import lax

from mednli_jax.types import PyTree

# collection of the rows that a batch reads: {path of the table: index [N]}
INDEX = "index"

Path = tuple[str, ...]


def trained_rows(
    module: nn.Module, name: str, init: Callable[[jax.Array], jax.Array], index_N: jax.Array
) -> jax.Array:
    """The rows index_N of a module's trained table [M, D]: its parameter `name`, initialised by
    init(key).

    If the collection INDEX is mutable, the index is stored there. If the collection has the index,
    the parameter is not the table but already the rows [N, D], see `with_rows`.
    """
    if module.is_mutable_collection(INDEX) and not module.is_initializing():
        module.put_variable(INDEX, name, index_N)
    elif module.has_variable(INDEX, name):
        rows_ND: jax.Array = module.get_variable("params", name)
        return rows_ND
    return take(module.param(name, init), index_N)


def index_of(model: nn.Module, variables: PyTree, batch: PyTree) -> PyTree:
    """The index of the rows that the model reads for a batch.

    Tables with no more rows than the batch reads are left out and trained as a whole.
    """
    _, collections = model.apply(variables, batch, train=True, mutable=[INDEX])
    tables = traverse_util.flatten_dict(variables["params"])
    index = {}
    for path, index_N in traverse_util.flatten_dict(collections.get(INDEX, {})).items():
        if len(index_N) < len(tables[path]):
            index[path] = index_N
    return traverse_util.unflatten_dict(index)


def map_leaves(change: Callable[[Path, jax.Array], jax.Array], tree: PyTree) -> PyTree:
    """Replaces each leaf of a tree by change(path, leaf)."""
    flat = traverse_util.flatten_dict(tree)
    return traverse_util.unflatten_dict({path: change(path, leaf) for path, leaf in flat.items()})


def with_rows(params: PyTree, index: PyTree) -> PyTree:
    """Replaces each table of the index by the rows read [N, D]."""
    rows_of = traverse_util.flatten_dict(index)

    def read(path: Path, leaf: jax.Array) -> jax.Array:
        return leaf if path not in rows_of else leaf[rows_of[path]]

    return map_leaves(read, params)


def sum_rows(gradients: PyTree, params: PyTree, index: PyTree) -> PyTree:
    """Sums the gradients of the same row at its first occurrence; the other occurrences get 0."""
    rows_of, tables = traverse_util.flatten_dict(index), traverse_util.flatten_dict(params)

    def at_first_occurrence(path: Path, leaf: jax.Array) -> jax.Array:
        if path not in rows_of:
            return leaf
        reads = len(leaf)
        index_N = rows_of[path]
        first_M = jnp.full(len(tables[path]), reads).at[index_N].min(jnp.arange(reads))
        return _add(jnp.zeros_like(leaf), first_M[index_N], leaf)

    return map_leaves(at_first_occurrence, gradients)


def over_devices(gradients: PyTree, index: PyTree, axis_name: str | None) -> tuple[PyTree, PyTree]:
    """The (gradients, index) of the global batch: gradients of table rows are concatenated over
    devices, all others summed."""
    if axis_name is None:
        return gradients, index
    of_weights = traverse_util.flatten_dict(gradients)
    of_tables = {path: of_weights.pop(path) for path in traverse_util.flatten_dict(index)}

    gather = partial(lax.all_gather, axis_name=axis_name, tiled=True)
    of_tables, index = jax.tree.map(gather, (of_tables, index))
    return traverse_util.unflatten_dict({**lax.psum(of_weights, axis_name), **of_tables}), index


def add_updates(params: PyTree, updates: PyTree, index: PyTree) -> PyTree:
    """Adds updates to the parameters. The updates [N, D] of a table belong to its rows `index`."""
    rows_of, flat = traverse_util.flatten_dict(index), traverse_util.flatten_dict(updates)

    def add_to_leaf(path: Path, leaf: jax.Array) -> jax.Array:
        update: jax.Array = flat[path]
        if path in rows_of:
            return _add(leaf, rows_of[path], update)
        return (leaf + update).astype(leaf.dtype)

    return map_leaves(add_to_leaf, params)


# -- look-up with a deterministic gradient -------------------------------------------------------


@jax.custom_vjp
def take(table: jax.Array, index: jax.Array) -> jax.Array:
    """Looks up table[index], rows of a trained table [M, ...]. The gradient is deterministic also
    on a GPU (see `_add`)."""
    return table[index]


def _take_forward(
    table: jax.Array, index: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return table[index], (table, index)


def _take_backward(saved: tuple[jax.Array, jax.Array], d_out: jax.Array) -> tuple[jax.Array, None]:
    table, index = saved
    d_rows = d_out.reshape(-1, *table.shape[1:])
    return _add(jnp.zeros_like(table), index.reshape(-1), d_rows), None


take.defvjp(_take_forward, _take_backward)


def _add(table: jax.Array, index_N: jax.Array, update_ND: jax.Array) -> jax.Array:
    """Adds updates to the rows index_N of a table.

    A GPU scatters updates of the same row in no fixed order, so there `add_summed` makes the result
    deterministic.
    """
    total: jax.Array = lax.platform_dependent(
        table, index_N, update_ND, cuda=add_summed, rocm=add_summed, default=add
    )
    return total


def add(table: jax.Array, index_N: jax.Array, update_ND: jax.Array) -> jax.Array:
    """Adds updates to the rows index_N of a table, one addition for each update."""
    return table.at[index_N].add(update_ND)


def add_summed(table: jax.Array, index_N: jax.Array, update_ND: jax.Array) -> jax.Array:
    """Adds updates to the rows index_N of a table, one addition for each row: updates are sorted by
    row, and those of a row are summed first."""
    updates = len(index_N)
    order_N = jnp.argsort(index_N, stable=True)
    index_N, update_ND = index_N[order_N], update_ND[order_N].reshape(updates, -1)
    is_new_row_N = index_N[1:] != index_N[:-1]
    begins_N = jnp.append(True, is_new_row_N)
    ends_N = jnp.append(is_new_row_N, True)
    _, sum_ND = lax.associative_scan(_joined_sums, (begins_N, update_ND))
    # Rows out of range are dropped; they are distinct, as unique_indices needs.
    dropped_N = len(table) + jnp.arange(updates)
    rows_N = jnp.where(ends_N, index_N, dropped_N)
    sums = sum_ND.reshape(-1, *table.shape[1:])
    return table.at[rows_N].add(sums, mode="drop", unique_indices=True)


RunningSum = tuple[jax.Array, jax.Array]  # (whether a row begins in it, the sum since then)


def _joined_sums(left: RunningSum, right: RunningSum) -> RunningSum:
    """Joins two parts of a segmented sum (Blelloch 1990, section 1.5)."""
    left_begins, left_sum = left
    right_begins, right_sum = right
    carried = jnp.where(right_begins[:, None], 0.0, left_sum)
    return left_begins | right_begins, right_sum + carried
