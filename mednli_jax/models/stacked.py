"""The loops of `recurrence` for GPUs: both directions in one array, several steps in each iteration
of a loop.

A GPU runs operations one by one, and those of a time step are so small that their number decides
the time. Here both directions and all seeds share each operation, and as much as possible is
computed before or after the loop.

Dimension letters: N slots, R sentences of a step, T steps of a segment, K gates, H hidden units, D
directions (twice the number of seeds under a vmap over seeds). D is axis 1 of all arrays outside of
a step. A list of arrays [T, D, R, ...] has one for each segment.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from mednli_jax.data.batching import Segments
from mednli_jax.models.products import dot
from mednli_jax.types import PyTree

# the hidden size is padded to a multiple of this once, or XLA would pad it at every time step
MULTIPLE = 32
# Steps in each iteration of a loop, and of a loop of at least LONG steps. XLA joins the writes of
# these steps, and the counter.
UNROLL, LONG_UNROLL, LONG = 4, 10, 256

Arrays = tuple[jax.Array, ...]
# (carry, the step's row of `stored`, the step's rows of the inputs...) -> (carry, new row)
Step = Callable[..., tuple[Arrays, jax.Array]]


def padded_size(size: int) -> int:
    """The hidden size of the loops. The additional units have gates of 0 and stay 0."""
    return -(-size // MULTIPLE) * MULTIPLE


def _over_seeds(function: Callable[..., PyTree], *arrays: PyTree) -> PyTree:
    """Calls function(*arrays). Its vmap over seeds is one call with more directions.

    vmap itself would turn the slices of the loops into gathers and scatters.
    """
    call = jax.custom_batching.custom_vmap(function)

    @call.def_vmap
    def call_seeds(seeds: int, has_seeds: list[PyTree], *arrays: PyTree) -> tuple[PyTree, PyTree]:
        def join_seeds(x: jax.Array, has_seeds: bool) -> jax.Array:
            x = jnp.moveaxis(x, 0, 1) if has_seeds else jnp.repeat(x[:, None], seeds, axis=1)
            return x.reshape(len(x), -1, *x.shape[3:])

        def split_seeds(x: jax.Array) -> jax.Array:
            return jnp.moveaxis(x.reshape(len(x), seeds, -1, *x.shape[2:]), 1, 0)

        results = function(*jax.tree.map(join_seeds, arrays, tuple(has_seeds)))
        results = jax.tree.map(split_seeds, results)
        return results, jax.tree.map(lambda _: True, results)

    return call(*arrays)


# -- slots and segments --------------------------------------------------------------------------


def _by_segment(x_ND: jax.Array, segments: Segments) -> list[jax.Array]:
    """Cuts the slots [N, D, ...] into an array [T, D, R, ...] for each segment."""
    first, arrays = 0, []
    for steps, rows in segments:
        end = first + steps * rows
        x_TRD = x_ND[first:end].reshape(steps, rows, *x_ND.shape[1:])
        arrays.append(jnp.moveaxis(x_TRD, 2, 1))
        first = end
    return arrays


def _slots(arrays: Sequence[jax.Array]) -> jax.Array:
    """Joins the arrays [T, D, R, ...] of the segments to slots [N, D, ...]; the inverse of
    `_by_segment`."""
    slots = []
    for x_TDR in arrays:
        x_TRD = jnp.moveaxis(x_TDR, 1, 2)
        slots.append(x_TRD.reshape(-1, *x_TRD.shape[2:]))
    return slots[0] if len(slots) == 1 else jnp.concatenate(slots)


def _one_step_earlier(arrays: Sequence[jax.Array]) -> Iterator[jax.Array]:
    """Yields, for each segment, the values of the same sentence one step earlier; 0 at the first
    step."""
    last_DR = jnp.zeros_like(arrays[0][0])
    for x_TDR in arrays:
        first_1DR = last_DR[None, :, : x_TDR.shape[2]]
        yield jnp.concatenate([first_1DR, x_TDR[:-1]])
        last_DR = x_TDR[-1]


# -- loops ---------------------------------------------------------------------------------------


def _scan(
    step: Step, carry: Arrays, stored: jax.Array, inputs: Arrays, *, reverse: bool = False
) -> tuple[Arrays, jax.Array]:
    """Runs all steps of a segment; returns (carry, stored). Each step overwrites its row of
    `stored`.

    In lax.scan the new rows would need an array of their own, and its `unroll` copies all arrays if
    the number of steps is no multiple.
    """
    steps = len(stored)
    unroll = LONG_UNROLL if steps >= LONG else UNROLL
    iterations, rest = divmod(steps, unroll)

    def run(first: jax.Array | int, count: int, carry: Arrays, stored: jax.Array) -> PyTree:
        """Runs the `count` steps from number `first` on; returns (carry, stored)."""
        numbers = reversed(range(count)) if reverse else range(count)
        rows = []
        for n in numbers:
            row, *read = (
                lax.dynamic_index_in_dim(x_T, first + n, keepdims=False)
                for x_T in (stored, *inputs)
            )
            carry, row = step(carry, row, *read)
            rows.append(row)
        new_rows = jnp.stack(rows[::-1] if reverse else rows)
        return carry, lax.dynamic_update_slice_in_dim(stored, new_rows, first, 0)

    def iteration(n: jax.Array, state: PyTree) -> PyTree:
        first = steps - unroll * (n + 1) if reverse else unroll * n
        return run(first, unroll, *state)

    if iterations:
        carry, stored = lax.fori_loop(0, iterations, iteration, (carry, stored))
    if rest:
        carry, stored = run(0 if reverse else unroll * iterations, rest, carry, stored)
    return carry, stored


def _forward(
    step: Step, carry: Arrays, stored: Sequence[jax.Array], *inputs: Sequence[jax.Array]
) -> list[jax.Array]:
    """Runs the steps of all segments; returns the rows that they store. stored: the initial
    rows."""
    results = []
    for rows_TDR, *own in zip(stored, *inputs, strict=True):
        carry = tuple(x_DR[:, : rows_TDR.shape[2]] for x_DR in carry)
        carry, rows_TDR = _scan(step, carry, rows_TDR, tuple(own))
        results.append(rows_TDR)
    return results


def _backward(
    step: Step, carry: Arrays, gates: int, *inputs: Sequence[jax.Array]
) -> list[jax.Array]:
    """Runs the steps of all segments from the last to the first; returns the rows [D, R, gates, H]
    that they store.

    A sentence joins at its last step.
    """
    results = []
    for own in reversed(list(zip(*inputs, strict=True))):
        steps, directions, rows = own[0].shape[:3]
        carry = tuple(_lengthen(x_DR, rows) for x_DR in carry)
        stored = jnp.zeros((steps, directions, rows, gates, own[0].shape[-1]), own[0].dtype)
        carry, stored = _scan(step, carry, stored, own, reverse=True)
        results.append(stored)
    return results[::-1]


def _lengthen(x_DR: jax.Array, rows: int) -> jax.Array:
    widths = [(0, 0)] * x_DR.ndim
    widths[1] = (0, rows - x_DR.shape[1])
    return jnp.pad(x_DR, widths)


# -- products ------------------------------------------------------------------------------------


def _product(h_DRH: jax.Array, u_HDKH: jax.Array, dtype: DTypeLike | None) -> jax.Array:
    """The product h U of all directions, [D, R, K, H]."""
    return dot(partial(jnp.einsum, "drh,hdkg->drkg"), h_DRH, u_HDKH, dtype)


def _product_transposed(d_DRKH: jax.Array, u_HDKH: jax.Array, dtype: DTypeLike | None) -> jax.Array:
    """The gradient of h from that of h U, [D, R, H]."""
    return dot(partial(jnp.einsum, "drkg,hdkg->drh"), d_DRKH, u_HDKH, dtype)


def _recurrent_gradient(
    h_last: Sequence[jax.Array], d_products: Sequence[jax.Array], dtype: DTypeLike | None
) -> jax.Array:
    """The gradient of U, [H, D, K, H], from the states one step earlier and the gradients of all
    products."""
    product = partial(jnp.einsum, "tdrh,tdrkg->hdkg")
    segments = zip(h_last, d_products, strict=True)
    terms = (dot(product, h_TDRH, d_TDRKH, dtype) for h_TDRH, d_TDRKH in segments)
    return cast(jax.Array, sum(terms))


# -- recurrences ---------------------------------------------------------------------------------


def _recurrence(
    forward: Callable[..., PyTree], backward: Callable[..., PyTree]
) -> Callable[..., jax.Array]:
    """Makes a recurrence from its forward pass (which also returns the rows that it stores) and its
    backward pass."""

    def saving(
        gates_NDKH: jax.Array,
        u_HDKH: jax.Array,
        keep_N1: jax.Array,
        segments: Segments,
        dtype: DTypeLike | None,
    ) -> tuple[jax.Array, PyTree]:
        keep_ND1 = jnp.repeat(keep_N1[:, None], 2, axis=1)
        over_segments = partial(forward, segments, dtype)
        states_NDH, stored = _over_seeds(over_segments, gates_NDKH, u_HDKH, keep_ND1)
        return states_NDH, (stored, u_HDKH, keep_ND1)

    def gradients(
        segments: Segments, dtype: DTypeLike | None, saved: PyTree, d_out_NDH: jax.Array
    ) -> tuple[jax.Array, jax.Array, None]:
        over_segments = partial(backward, segments, dtype)
        d_gates_NDKH, d_u_HDKH = _over_seeds(over_segments, *saved, d_out_NDH)
        return d_gates_NDKH, d_u_HDKH, None

    @partial(jax.custom_vjp, nondiff_argnums=(3, 4))
    def states(
        gates_NDKH: jax.Array,
        u_HDKH: jax.Array,
        keep_N1: jax.Array,
        segments: Segments,
        dtype: DTypeLike | None,
    ) -> jax.Array:
        return saving(gates_NDKH, u_HDKH, keep_N1, segments, dtype)[0]

    states.defvjp(saving, gradients)
    return states


def _with_two_rows(gates_NDKH: jax.Array) -> jax.Array:
    """Adds two rows to the gates on their axis, for what is stored beside them."""
    return jnp.pad(gates_NDKH, ((0, 0), (0, 0), (0, 2), (0, 0)))


def _zeros(u_HDKH: jax.Array, rows: int, *gates: int) -> jax.Array:
    """Zeros [D, R, ..., H] for the sentences of a step."""
    size, directions = u_HDKH.shape[:2]
    return jnp.zeros((directions, rows, *gates, size), u_HDKH.dtype)


def _sigmoid(x: jax.Array) -> jax.Array:
    return 0.5 * jnp.tanh(0.5 * x) + 0.5


def _lstm_forward(
    segments: Segments,
    dtype: DTypeLike | None,
    gates_NDKH: jax.Array,
    u_HDKH: jax.Array,
    keep_ND1: jax.Array,
) -> tuple[jax.Array, list[jax.Array]]:
    def step(carry: Arrays, row: jax.Array, keep: jax.Array) -> tuple[Arrays, jax.Array]:
        h, c_last = carry
        a = row[:, :, :4] + _product(h, u_HDKH, dtype)
        i, f, o = _sigmoid(a[:, :, 0]), _sigmoid(a[:, :, 1]), _sigmoid(a[:, :, 3])
        g = jnp.tanh(a[:, :, 2])
        c = keep * (f * c_last + i * g)
        h = keep * (o * jnp.tanh(c))
        return (h, c), jnp.stack([i, f, g, o, c_last, h], axis=2)

    zeros = _zeros(u_HDKH, segments[0][1])
    rows = _by_segment(_with_two_rows(gates_NDKH), segments)
    stored = _forward(step, (zeros, zeros), rows, _by_segment(keep_ND1, segments))
    return _slots(_stored_values(stored, 5)), stored


def _stored_values(arrays: Sequence[jax.Array], number: int) -> list[jax.Array]:
    """The value that a step stores under this number, [T, D, R, H] for each segment."""
    return [x_TDR[:, :, :, number] for x_TDR in arrays]


def _lstm_backward(
    segments: Segments,
    dtype: DTypeLike | None,
    stored: list[jax.Array],
    u_HDKH: jax.Array,
    keep_ND1: jax.Array,
    d_out_NDH: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    def step(
        carry: Arrays, _: jax.Array, row: jax.Array, d_out: jax.Array, keep: jax.Array
    ) -> tuple[Arrays, jax.Array]:
        d_gates, d_c = carry
        i, f, g, o, c_last = (row[:, :, number] for number in range(5))
        tanh_c = jnp.tanh(keep * (f * c_last + i * g))
        d_h = keep * (_product_transposed(d_gates, u_HDKH, dtype) + d_out)
        d_c = keep * (d_c + d_h * o * (1 - tanh_c**2))
        d_i = d_c * g * i * (1 - i)
        d_f = d_c * c_last * f * (1 - f)
        d_g = d_c * i * (1 - g**2)
        d_o = d_h * tanh_c * o * (1 - o)
        d_gates = jnp.stack([d_i, d_f, d_g, d_o], axis=2)
        return (d_gates, d_c * f), d_gates

    rows = segments[-1][1]
    carry = _zeros(u_HDKH, rows, 4), _zeros(u_HDKH, rows)
    d_out, keep = _by_segment(d_out_NDH, segments), _by_segment(keep_ND1, segments)
    d_gates = _backward(step, carry, 4, stored, d_out, keep)
    h_last = list(_one_step_earlier(_stored_values(stored, 5)))
    return _slots(d_gates), _recurrent_gradient(h_last, d_gates, dtype)


def _gru_forward(
    segments: Segments,
    dtype: DTypeLike | None,
    gates_NDKH: jax.Array,
    u_HDKH: jax.Array,
    keep_ND1: jax.Array,
) -> tuple[jax.Array, list[jax.Array]]:
    def step(carry: Arrays, row: jax.Array, keep: jax.Array) -> tuple[Arrays, jax.Array]:
        (h_last,) = carry
        product = _product(h_last, u_HDKH, dtype)
        r = _sigmoid(row[:, :, 0] + product[:, :, 0])
        z = _sigmoid(row[:, :, 1] + product[:, :, 1])
        c = jnp.tanh(row[:, :, 2] + r * product[:, :, 2])
        h = keep * (h_last + z * (c - h_last))
        return (h,), jnp.stack([r, z, c, product[:, :, 2], h], axis=2)

    zeros = _zeros(u_HDKH, segments[0][1])
    rows = _by_segment(_with_two_rows(gates_NDKH), segments)
    stored = _forward(step, (zeros,), rows, _by_segment(keep_ND1, segments))
    return _slots(_stored_values(stored, 4)), stored


def _gru_backward(
    segments: Segments,
    dtype: DTypeLike | None,
    stored: list[jax.Array],
    u_HDKH: jax.Array,
    keep_ND1: jax.Array,
    d_out_NDH: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    def step(
        carry: Arrays,
        _: jax.Array,
        row: jax.Array,
        d_out: jax.Array,
        h_last: jax.Array,
        keep: jax.Array,
    ) -> tuple[Arrays, jax.Array]:
        d_products, d_h = carry
        r, z, c, product = (row[:, :, number] for number in range(4))
        d_h = keep * (d_h + _product_transposed(d_products, u_HDKH, dtype) + d_out)
        d_c = d_h * z * (1 - c**2)
        d_r = d_c * product * r * (1 - r)
        d_z = d_h * (c - h_last) * z * (1 - z)
        # The gradient of the candidate's product h U is multiplied by the reset gate.
        d_products = jnp.stack([d_r, d_z, d_c * r], axis=2)
        return (d_products, d_h * (1 - z)), jnp.stack([d_r, d_z, d_c, d_c * r], axis=2)

    rows = segments[-1][1]
    h_last = list(_one_step_earlier(_stored_values(stored, 4)))
    carry = _zeros(u_HDKH, rows, 3), _zeros(u_HDKH, rows)
    d_out, keep = _by_segment(d_out_NDH, segments), _by_segment(keep_ND1, segments)
    d_stored = _backward(step, carry, 4, stored, d_out, h_last, keep)
    d_gates, d_products = [], []
    for x_TDR in d_stored:
        d_gates.append(x_TDR[:, :, :, :3])
        d_products.append(jnp.concatenate([x_TDR[:, :, :, :2], x_TDR[:, :, :, 3:]], axis=3))
    return _slots(d_gates), _recurrent_gradient(h_last, d_products, dtype)


# (gates [N, 2, K, H], recurrent [H, 2, K, H], keep_N1, segments, dtype of products) -> states
# [N, 2, H] of both directions, as in `recurrence`. gates: x W + b, in the order input, forget,
# cell, output, or reset, update, candidate. recurrent: U. keep_N1: 1 on tokens, 0 on slots without
# one, where states are 0; it gets no gradient.
CELLS = {
    "lstm": _recurrence(_lstm_forward, _lstm_backward),
    "gru": _recurrence(_gru_forward, _gru_backward),
}
