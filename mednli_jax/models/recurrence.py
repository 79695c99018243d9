"""The loops of the bidirectional RNNs over packed sentences (see `packing`).

Segments ((steps, sentences), ...) give the number of sentences that each step computes, so that
short sentences cost nothing after their end.

Dimension letters: N slots, R sentences of a step, H hidden units, G gates times hidden units.

LSTM and GRU define their own backward passes. Automatic differentiation of the loop would compute a
product for the gradient of the recurrent matrix at every step. Here one large product over all
slots follows the loop, which moves far less memory.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike

from mednli_jax.data.batching import Segments
from mednli_jax.models.products import BY_COLUMNS, BY_ROWS, dot

Arrays = tuple[jax.Array, ...]  # an array for each direction, or the arrays of one direction


def offsets(segments: Segments) -> np.ndarray:
    """int [steps + 1], the first slot of each step, then the number of slots."""
    steps, rows = np.transpose(segments)
    first_slot: np.ndarray = np.zeros(sum(steps) + 1, np.int32)
    first_slot[1:] = np.cumsum(np.repeat(rows, steps))
    return first_slot


def slot_before(segments: Segments) -> np.ndarray:
    """int [N], the slot of the same sentence one step earlier; N (no slot) at the first step."""
    first_slot = offsets(segments)
    slots = first_slot[-1]
    time_N = np.repeat(np.arange(len(first_slot) - 1), np.diff(first_slot))
    rank_N = np.arange(slots) - first_slot[time_N]
    before_N: np.ndarray = first_slot[np.maximum(time_N - 1, 0)] + rank_N
    before_N[time_N == 0] = slots
    return before_N.astype(np.int32)


# -- loops ---------------------------------------------------------------------------------------


class _State(NamedTuple):
    """The state of a loop in one direction."""

    carry: Arrays  # [R, H], for the sentences of the step
    stored: Arrays  # [N, ...], to which each step writes its rows


NUMBERS_OF_ROWS = 4  # of a loop whose steps depend on the lengths in the batch
Step = Callable[..., _State]  # (number of the step, state, *constants of the direction) -> state


def _run_forward(
    step: Step,
    carry: Arrays,
    stored: Sequence[Arrays],
    constants: Sequence[Arrays],
    segments: Segments,
    keep_N1: jax.Array | None = None,
) -> tuple[Arrays, ...]:
    """Runs a loop over all steps; returns the stored arrays of all directions.

    Args:
      carry: before the first step, the same for each direction.
      stored, constants: of each direction.
      keep_N1: 1 on tokens. A loop of one segment then ends with the longest sentence, and computes
        the sentences that are alive at a step, rounded up to one of a few numbers of rows. It has
        no gradient. Slots that no step writes keep their values.
    """

    def all_directions(t: jax.Array, states: Sequence[_State]) -> list[_State]:
        return [step(t, state, *own) for state, own in zip(states, constants, strict=True)]

    states: Sequence[_State] = [_State(carry, own) for own in stored]
    first: int | jax.Array = 0
    for end, rows in _loops(segments, keep_N1):
        states = [_State(_shorten(state.carry, rows), state.stored) for state in states]
        states = lax.fori_loop(first, end, all_directions, states)
        first = end
    return tuple(state.stored for state in states)


def _loops(segments: Segments, keep_N1: jax.Array | None) -> Iterator[tuple[int | jax.Array, int]]:
    """(step after its last, rows) of each loop of `_run_forward`."""
    if keep_N1 is None or len(segments) > 1:
        end = 0
        for steps, rows in segments:
            end += steps
            yield end, rows
        return
    ((steps, most),) = segments
    alive_T = keep_N1.reshape(steps, most).sum(axis=1)
    numbers = [most >> place for place in range(NUMBERS_OF_ROWS) if most >> place]
    for rows, fewer in zip(numbers, [*numbers[1:], 0], strict=True):
        yield jnp.sum(alive_T > fewer), rows


def _run_backward(
    step: Step,
    carry: Arrays,
    stored: Sequence[Arrays],
    constants: Sequence[Arrays],
    segments: Segments,
) -> tuple[Arrays, ...]:
    """Runs a loop from the last step to the first. Arguments and result: see `_run_forward`."""

    def all_directions(last: int, n: jax.Array, states: Sequence[_State]) -> list[_State]:
        return [step(last - n, state, *own) for state, own in zip(states, constants, strict=True)]

    states: Sequence[_State] = [_State(carry, own) for own in stored]
    last = sum(steps for steps, _ in segments) - 1
    for steps, rows in reversed(segments):
        states = [_State(_lengthen(state.carry, rows), state.stored) for state in states]
        states = lax.fori_loop(0, steps, partial(all_directions, last), states)
        last -= steps
    return tuple(state.stored for state in states)


def _shorten(carry: Arrays, rows: int) -> Arrays:
    return tuple(x_RH[:rows] for x_RH in carry)


def _lengthen(carry: Arrays, rows: int) -> Arrays:
    return tuple(jnp.pad(x_RH, ((0, rows - x_RH.shape[0]), (0, 0))) for x_RH in carry)


def _read(x_N: jax.Array, at: jax.Array, rows: int) -> jax.Array:
    return lax.dynamic_slice_in_dim(x_N, at, rows, 0)


def _write(x_N: jax.Array, rows_R: jax.Array, at: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice_in_dim(x_N, rows_R, at, 0)


def _new_arrays(
    shape: tuple[int, int], dtype: DTypeLike, recurrent: Arrays, place: int = 0
) -> list[jax.Array]:
    """Makes an array of this shape for each direction, to which a loop writes all rows.

    The first values do not matter, but must differ between the arrays: the compiler makes one array
    of equal ones and copies it for each. Here they are a number of U; `place` is its column.
    """
    return [jnp.full(shape, u_HG[0, place], dtype) for u_HG in recurrent]


def _zero_without_token(states: Arrays, keep_N1: jax.Array) -> Arrays:
    """The states [N, H], 0 in slots that no step wrote."""
    return tuple(jnp.where(keep_N1 > 0, h_NH, 0.0) for h_NH in states)


def _column_sums(x_NG: jax.Array) -> jax.Array:
    """Sums over the slots, [G]. A TPU adds rows one by one, so there a matrix product is used."""
    # With a single row of ones the compiler would turn the product into a sum.
    ones = jnp.ones((8, x_NG.shape[0]), x_NG.dtype)

    def product(x_NG: jax.Array) -> jax.Array:
        return jnp.dot(ones, x_NG, precision=lax.Precision.HIGHEST)[0]

    sum_rows = partial(jnp.sum, axis=0)
    sums_G: jax.Array = lax.platform_dependent(x_NG, tpu=product, default=sum_rows)
    return sums_G


def _recurrent_gradient(
    h_NH: jax.Array, before_N: np.ndarray, d_product_NG: jax.Array, dtype: DTypeLike | None
) -> jax.Array:
    """The gradient of U, [H, G], from the states, `slot_before` and the gradients of all products h
    U."""
    h_before_NH = jnp.take(h_NH, before_N, axis=0, mode="fill", fill_value=0)
    return dot(BY_ROWS, h_before_NH, d_product_NG, dtype)


# -- LSTM ----------------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6))
def lstm(
    gates: Arrays,
    recurrent: Arrays,
    bias: Arrays,
    keep_N1: jax.Array,
    segments: Segments,
    dtype: DTypeLike | None,
    transposes: bool,
) -> Arrays:
    """States [N, H] of LSTMs that read the same packed sentences, one for each direction.

    The equations are those of Hochreiter & Schmidhuber (1997) with forget gates:
    i, f, o = sigmoid(...), g = tanh(...), c = f c + i g, h = o tanh(c).
    Both directions run in one loop, so that their small operations overlap.

    Args:
      gates: x W [N, G] of each direction, in PyTorch's order input, forget, cell, output.
      recurrent, bias: U [H, G] and b [G] of each direction.
      keep_N1: 1 on tokens, 0 on slots without one, where states are 0; it gets no gradient.
      dtype: of the operands of products, see `products`.
      transposes: whether the backward loop reads a transposed copy of U, which is faster with the
        products of Eigen (training.settings).
    """
    states, _ = _lstm_forward(
        gates, recurrent, bias, keep_N1, segments, dtype, transposes, by_length=True
    )
    return _zero_without_token(states, keep_N1)


class _Saved(NamedTuple):
    """The arrays that the backward pass reads."""

    stored: tuple[Arrays, ...]  # of each direction
    recurrent: Arrays
    keep_N1: jax.Array

    def constants(self, d_out: Arrays, transposes: bool) -> list[Arrays]:
        """The arrays (U, gradient of the states, stored arrays...) of each direction.

        transposes: whether U is [G, H].
        """
        recurrent = self.recurrent
        if transposes:
            # The barrier keeps the compiler from transposing U in every step instead.
            recurrent = lax.optimization_barrier(tuple(u_HG.T for u_HG in recurrent))
        directions = zip(recurrent, d_out, self.stored, strict=True)
        return [(u, d_out_NH, *stored) for u, d_out_NH, stored in directions]


def _lstm_forward(
    gates: Arrays,
    recurrent: Arrays,
    bias: Arrays,
    keep_N1: jax.Array,
    segments: Segments,
    dtype: DTypeLike | None,
    transposes: bool,
    by_length: bool = False,
) -> tuple[Arrays, _Saved]:
    """The states, and what the backward pass reads. by_length: see `keep_N1` of `_run_forward`."""
    size, wide = recurrent[0].shape[0], gates[0].dtype
    first_slot = jnp.asarray(offsets(segments))
    # One tanh computes all four gates, because sigmoid(x) = (tanh(x / 2) + 1) / 2.
    is_cell_G = _is_cell(size)
    scale_G = np.where(is_cell_G, 1.0, 0.5).astype(wide)
    shift_G = np.where(is_cell_G, 0.0, 0.5).astype(wide)

    def step(t: jax.Array, state: _State, u_HG: jax.Array, b_G: jax.Array) -> _State:
        at = first_slot[t]
        h, c = state.carry
        activations_NG, h_NH, c_NH = state.stored
        rows = h.shape[0]
        linear_RG = _read(activations_NG, at, rows) + dot(jnp.matmul, h, u_HG, dtype) + b_G
        a_RG = jnp.tanh(linear_RG * scale_G) * scale_G + shift_G
        i, f, g, o = jnp.split(a_RG, 4, axis=-1)
        keep_R1 = _read(keep_N1, at, rows)
        c = keep_R1 * (f * c + i * g)
        h = keep_R1 * (o * jnp.tanh(c))
        # The activations overwrite the gates, to save memory.
        stored = _write(activations_NG, a_RG, at), _write(h_NH, h, at), _write(c_NH, c, at)
        return _State((h, c), stored)

    zeros_RH = jnp.zeros((segments[0][1], size), wide)
    shape = gates[0].shape[0], size
    h, c = (_new_arrays(shape, wide, recurrent, place) for place in range(2))
    empty = list(zip(gates, h, c, strict=True))
    constants = list(zip(recurrent, bias, strict=True))
    lengths = keep_N1 if by_length else None
    stored = _run_forward(step, (zeros_RH, zeros_RH), empty, constants, segments, lengths)
    return tuple(h_NH for _, h_NH, _ in stored), _Saved(stored, recurrent, keep_N1)


def _lstm_backward(
    segments: Segments,
    dtype: DTypeLike | None,
    transposes: bool,
    saved: _Saved,
    d_out: Arrays,
) -> tuple[Arrays, Arrays, Arrays, None]:
    size = saved.recurrent[0].shape[0]
    first_slot = jnp.asarray(offsets(segments))
    is_cell_G = _is_cell(size)
    times_transposed = jnp.matmul if transposes else BY_COLUMNS  # d U^T

    def step(
        t: jax.Array, state: _State, u: jax.Array, d_out_NH: jax.Array, *stored: jax.Array
    ) -> _State:
        at, at_before = first_slot[t], first_slot[jnp.maximum(t - 1, 0)]
        d_h, d_c = state.carry
        (d_gates_NG,) = state.stored
        activations_NG, _, c_NH = stored
        rows = d_h.shape[0]
        keep_R1 = _read(saved.keep_N1, at, rows)
        a_RG = _read(activations_NG, at, rows)
        i, f, g, o = jnp.split(a_RG, 4, axis=-1)
        c_before = _read(c_NH, at_before, rows) * (t > 0).astype(d_c.dtype)
        tanh_c = jnp.tanh(_read(c_NH, at, rows))
        d_h = keep_R1 * (d_h + _read(d_out_NH, at, rows))
        d_c = keep_R1 * (d_c + d_h * o * (1 - tanh_c**2))
        # d_c g, d_c c_before, d_c i, d_h tanh(c), times the derivatives of the four activations.
        outer_RG = jnp.concatenate([d_c, d_c, d_c, d_h], axis=-1)
        inner_RG = jnp.concatenate([g, c_before, i, tanh_c], axis=-1)
        slope_RG = jnp.where(is_cell_G, 1 - a_RG**2, a_RG * (1 - a_RG))
        d_gates_RG = outer_RG * inner_RG * slope_RG
        d_h_before = dot(times_transposed, d_gates_RG, u, dtype)
        return _State((d_h_before, d_c * f), (_write(d_gates_NG, d_gates_RG, at),))

    zeros_RH = jnp.zeros((segments[-1][1], size), d_out[0].dtype)
    shape = d_out[0].shape[0], 4 * size
    unwritten = _new_arrays(shape, d_out[0].dtype, saved.recurrent)
    empty = [(d_gates_NG,) for d_gates_NG in unwritten]
    constants = saved.constants(d_out, transposes)
    stored = _run_backward(step, (zeros_RH, zeros_RH), empty, constants, segments)
    d_gates = tuple(d_gates_NG for (d_gates_NG,) in stored)
    before_N = slot_before(segments)
    d_recurrent = tuple(
        _recurrent_gradient(h_NH, before_N, d_gates_NG, dtype)
        for (_, h_NH, _), d_gates_NG in zip(saved.stored, d_gates, strict=True)
    )
    return d_gates, d_recurrent, tuple(map(_column_sums, d_gates)), None


def _is_cell(size: int) -> np.ndarray:
    """bool [4 size], True on the third gate, which alone has a tanh."""
    gate_G = np.arange(4 * size) // size
    return np.equal(gate_G, 2)


lstm.defvjp(_lstm_forward, _lstm_backward)


# -- GRU -----------------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6))
def gru(
    gates: Arrays,
    recurrent: Arrays,
    bias: Arrays,
    keep_N1: jax.Array,
    segments: Segments,
    dtype: DTypeLike | None,
    transposes: bool,
) -> Arrays:
    """States [N, H] of GRUs (Cho et al. 2014) with the reset gate after the recurrent product, as
    in Lasagne and cuDNN: r, z = sigmoid(...), c = tanh(x W + r * (h U) + b), h = (1 - z) h + z c.

    Arguments: see `lstm`; the gates are in the order reset, update, candidate.
    """
    stored = _gru_loop(gates, recurrent, bias, keep_N1, segments, dtype, saves=False)
    return _zero_without_token(tuple(h_NH for (h_NH,) in stored), keep_N1)


def _gru_forward(
    gates: Arrays,
    recurrent: Arrays,
    bias: Arrays,
    keep_N1: jax.Array,
    segments: Segments,
    dtype: DTypeLike | None,
    transposes: bool,
) -> tuple[Arrays, _Saved]:
    stored = _gru_loop(gates, recurrent, bias, keep_N1, segments, dtype, saves=True)
    return tuple(h_NH for h_NH, _, _ in stored), _Saved(stored, recurrent, keep_N1)


def _gru_loop(
    gates: Arrays,
    recurrent: Arrays,
    bias: Arrays,
    keep_N1: jax.Array,
    segments: Segments,
    dtype: DTypeLike | None,
    *,
    saves: bool,
) -> tuple[Arrays, ...]:
    """The states (h_NH,) of each direction. With `saves` also the activations and the candidates'
    products h U, which the backward pass reads; prediction is faster without them."""
    size, wide = recurrent[0].shape[0], gates[0].dtype
    first_slot = jnp.asarray(offsets(segments))

    def step(
        t: jax.Array, state: _State, gates_NG: jax.Array, u_HG: jax.Array, b_G: jax.Array
    ) -> _State:
        at = first_slot[t]
        (h,) = state.carry
        h_NH, *saved = state.stored
        rows = h.shape[0]
        x_RG = _read(saved[0] if saves else gates_NG, at, rows) + b_G
        product_RG = dot(jnp.matmul, h, u_HG, dtype)
        product_RH = product_RG[:, 2 * size :]
        # sigmoid(x) = (tanh(x / 2) + 1) / 2
        linear = x_RG[:, : 2 * size] + product_RG[:, : 2 * size]
        reset_update = jnp.tanh(linear * 0.5) * 0.5 + 0.5
        r, z = jnp.split(reset_update, 2, axis=-1)
        c = jnp.tanh(x_RG[:, 2 * size :] + r * product_RH)
        h = _read(keep_N1, at, rows) * (h + z * (c - h))
        stored: Arrays = (_write(h_NH, h, at),)
        if saves:
            # The activations overwrite the gates, to save memory.
            activations_NG, products_NH = saved
            a_RG = jnp.concatenate([reset_update, c], axis=-1)
            stored += _write(activations_NG, a_RG, at), _write(products_NH, product_RH, at)
        return _State((h,), stored)

    zeros_RH = jnp.zeros((segments[0][1], size), wide)
    shape = gates[0].shape[0], size
    h, products = (_new_arrays(shape, wide, recurrent, place) for place in range(2))
    empty = list(zip(h, gates, products, strict=True)) if saves else [(h_NH,) for h_NH in h]
    constants = list(zip(gates, recurrent, bias, strict=True))
    lengths = None if saves else keep_N1
    return _run_forward(step, (zeros_RH,), empty, constants, segments, lengths)


def _gru_backward(
    segments: Segments,
    dtype: DTypeLike | None,
    transposes: bool,
    saved: _Saved,
    d_out: Arrays,
) -> tuple[Arrays, Arrays, Arrays, None]:
    size = saved.recurrent[0].shape[0]
    before_N = slot_before(segments)
    first_slot = jnp.asarray(offsets(segments))
    times_transposed = jnp.matmul if transposes else BY_COLUMNS  # d U^T

    def step(
        t: jax.Array, state: _State, u: jax.Array, d_out_NH: jax.Array, *stored: jax.Array
    ) -> _State:
        at, at_before = first_slot[t], first_slot[jnp.maximum(t - 1, 0)]
        (d_h,) = state.carry
        (d_gates_NG,) = state.stored
        h_NH, activations_NG, products_NH = stored
        rows = d_h.shape[0]
        r, z, c = jnp.split(_read(activations_NG, at, rows), 3, axis=-1)
        h_before = _read(h_NH, at_before, rows) * (t > 0).astype(d_h.dtype)
        d_h = _read(saved.keep_N1, at, rows) * (d_h + _read(d_out_NH, at, rows))
        d_c = d_h * z * (1 - c**2)
        d_r = d_c * _read(products_NH, at, rows) * r * (1 - r)
        d_z = d_h * (c - h_before) * z * (1 - z)
        d_product_RG = jnp.concatenate([d_r, d_z, d_c * r], axis=-1)
        d_h_before = d_h * (1 - z) + dot(times_transposed, d_product_RG, u, dtype)
        d_gates_RG = jnp.concatenate([d_r, d_z, d_c], axis=-1)
        return _State((d_h_before,), (_write(d_gates_NG, d_gates_RG, at),))

    def d_recurrent(stored: Arrays, d_gates_NG: jax.Array) -> jax.Array:
        """The gradient of U, [H, G]."""
        h_NH, activations_NG, _ = stored
        # The gradient of the candidate's product h U is multiplied by the reset gate.
        d_candidate_NH = d_gates_NG[:, 2 * size :] * activations_NG[:, :size]
        d_product_NG = jnp.concatenate([d_gates_NG[:, : 2 * size], d_candidate_NH], axis=-1)
        return _recurrent_gradient(h_NH, before_N, d_product_NG, dtype)

    zeros_RH = jnp.zeros((segments[-1][1], size), d_out[0].dtype)
    shape = d_out[0].shape[0], 3 * size
    unwritten = _new_arrays(shape, d_out[0].dtype, saved.recurrent)
    empty = [(d_gates_NG,) for d_gates_NG in unwritten]
    constants = saved.constants(d_out, transposes)
    stored = _run_backward(step, (zeros_RH,), empty, constants, segments)
    d_gates = tuple(d_gates_NG for (d_gates_NG,) in stored)
    d_recurrents = tuple(map(d_recurrent, saved.stored, d_gates))
    return d_gates, d_recurrents, tuple(map(_column_sums, d_gates)), None


gru.defvjp(_gru_forward, _gru_backward)


class Cell(NamedTuple):
    """A recurrence, and its number of gates for each hidden unit."""

    states: Callable[..., Arrays]
    gates: int


CELLS = {"lstm": Cell(lstm, 4), "gru": Cell(gru, 3)}
