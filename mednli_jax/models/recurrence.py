"""The loops of the bidirectional RNNs over packed sentences (see `packing`).

Segments ((steps, sentences), ...) give the number of sentences that each step computes, so that
short sentences cost nothing after their end. Dimension letters: N slots, R sentences of a step, H
hidden, G gates times hidden.

LSTM and GRU define their own backward passes. Automatic differentiation of the loop would compute a
product for the gradient of the recurrent matrix at every step. Here one large product over all
slots follows the loop, which moves far less memory.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mednli_jax.models.products import BY_COLUMNS, BY_ROWS, dot


def offsets(segments) -> np.ndarray:
    """[steps + 1], the first slot of each step, then the number of slots."""
    return np.cumsum([0, *(rows for steps, rows in segments for _ in range(steps))], dtype=np.int32)


def _starts(segments):
    """(first step, steps, sentences) of each segment."""
    first = np.cumsum([0, *(steps for steps, _ in segments)])
    return [(int(at), steps, rows) for at, (steps, rows) in zip(first, segments, strict=False)]


def _read(x, at, rows):
    return lax.dynamic_slice_in_dim(x, at, rows, 0)


def _write(x, y, at):
    return lax.dynamic_update_slice_in_dim(x, y, at, 0)


def _column_sums(x):
    """[G], sums over the slots [N, G]. A TPU adds rows one by one, so there a matrix product is
    used."""
    ones = jnp.ones(
        (8, x.shape[0]), x.dtype
    )  # with a single row the compiler turns the product into a sum
    return lax.platform_dependent(
        x,
        tpu=lambda x: jnp.dot(ones, x, precision=lax.Precision.HIGHEST)[0],
        default=lambda x: x.sum(axis=0),
    )


def _grow(x, rows):
    return jnp.pad(x, ((0, rows - x.shape[0]), (0, 0)))


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def lstm(gates, recurrent, bias, keep_N1, segments, dtype):
    """States ([N, H], ...) of LSTMs that read the same packed sentences, one for each direction.

    The equations are those of Hochreiter & Schmidhuber (1997) with forget gates. Both directions
    run in one loop, so that their small operations overlap. The result is not differentiable with
    respect to `keep_N1`.

    gates, recurrent, bias: for each direction x W [N, G], in PyTorch's order input, forget, cell,
    output, U [H, G] and b [G]. keep_N1: 1 on tokens, 0 on slots without one, where states are 0.
    dtype: see models.products.
    """
    return _lstm_forward(gates, recurrent, bias, keep_N1, segments, dtype)[0]


def _gate_kinds(size, dtype):
    """(scale, shift) [4 size], so that one tanh computes all four gates: sigmoid(x) = (tanh(x / 2)
    + 1) / 2."""
    is_cell = np.arange(4 * size) // size == 2
    return np.where(is_cell, 1.0, 0.5).astype(dtype), np.where(is_cell, 0.0, 0.5).astype(dtype)


def _lstm_forward(gates, recurrent, bias, keep, segments, dtype):
    size, wide = recurrent[0].shape[0], gates[0].dtype
    at_step = jnp.asarray(offsets(segments))
    scale, shift = _gate_kinds(size, wide)

    def step(at, state, u, b):
        h, c, activations, h_all, c_all = state
        rows = h.shape[0]
        a = _read(activations, at, rows) + dot(jnp.matmul, h, u, dtype) + b
        a = jnp.tanh(a * scale) * scale + shift
        i, f, g, o = jnp.split(a, 4, axis=-1)
        k = _read(keep, at, rows)
        c = k * (f * c + i * g)
        h = k * (o * jnp.tanh(c))
        # The activations overwrite the gates, to save memory.
        return h, c, _write(activations, a, at), _write(h_all, h, at), _write(c_all, c, at)

    zeros, everywhere = (
        jnp.zeros((segments[0][1], size), wide),
        jnp.zeros((gates[0].shape[0], size), wide),
    )
    states = [(zeros, zeros, of_direction, everywhere, everywhere) for of_direction in gates]
    for first, steps, rows in _starts(segments):
        states = [(h[:rows], c[:rows], *stored) for h, c, *stored in states]
        states = lax.fori_loop(
            first, first + steps,
            lambda t, states: [step(at_step[t], *parts) for parts in zip(states, recurrent, bias, strict=True)],
            states,
        )  # fmt: skip
    h_all = tuple(state[3] for state in states)
    return h_all, (
        h_all,
        [state[4] for state in states],
        [state[2] for state in states],
        recurrent,
        keep,
    )


def _lstm_backward(segments, dtype, saved, d_out):
    h_all, c_all, activations, recurrent, keep = saved
    size = recurrent[0].shape[0]
    at_step = jnp.asarray(offsets(segments))
    is_cell = np.arange(4 * size) // size == 2

    def step(t, state, d_out, c_all, activations, u):
        d_h, d_c, d_gates = state
        at, before, rows = at_step[t], at_step[jnp.maximum(t - 1, 0)], d_h.shape[0]
        k = _read(keep, at, rows)
        a = _read(activations, at, rows)
        i, f, g, o = jnp.split(a, 4, axis=-1)
        c_last = _read(c_all, before, rows) * (t > 0).astype(d_c.dtype)
        tanh_c = jnp.tanh(_read(c_all, at, rows))
        d_h = k * (d_h + _read(d_out, at, rows))
        d_c = k * (d_c + d_h * o * (1 - tanh_c**2))
        # d_c g, d_c c_last, d_c i, d_h tanh(c), times the derivatives of the four activations.
        d_gate = jnp.concatenate([d_c, d_c, d_c, d_h], axis=-1) * jnp.concatenate(
            [g, c_last, i, tanh_c], axis=-1
        )
        d_gate = d_gate * jnp.where(is_cell, 1 - a**2, a * (1 - a))
        return dot(BY_COLUMNS, d_gate, u, dtype), d_c * f, _write(d_gates, d_gate, at)

    starts = _starts(segments)
    zeros = jnp.zeros((starts[-1][2], size), d_out[0].dtype)
    states = [(zeros, zeros, jnp.zeros_like(a)) for a in activations]
    of_direction = list(zip(d_out, c_all, activations, recurrent, strict=True))
    for first, steps, rows in reversed(starts):
        states = [(_grow(d_h, rows), _grow(d_c, rows), d_gates) for d_h, d_c, d_gates in states]
        states = lax.fori_loop(
            0, steps,
            lambda n, states, last=first + steps - 1: [
                step(last - n, state, *parts) for state, parts in zip(states, of_direction, strict=True)
            ],
            states,
        )  # fmt: skip
    d_gates, before = tuple(state[2] for state in states), slot_before(segments)
    d_recurrent = tuple(
        dot(BY_ROWS, jnp.take(h, before, axis=0, mode="fill", fill_value=0), d, dtype)
        for h, d in zip(h_all, d_gates, strict=True)
    )
    return d_gates, d_recurrent, tuple(_column_sums(d) for d in d_gates), None


lstm.defvjp(_lstm_forward, _lstm_backward)


def slot_before(segments) -> np.ndarray:
    """[N], the slot of the same sentence one step earlier; N (no slot) at the first step."""
    at = offsets(segments)
    rows = np.diff(at)
    before = [np.full(rows[0], at[-1], np.int32)]
    before += [at[t - 1] + np.arange(rows[t], dtype=np.int32) for t in range(1, len(rows))]
    return np.concatenate(before)


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def gru(gates, recurrent, bias, keep_N1, segments, dtype):
    """States ([N, H], ...) of GRUs with the reset gate after the recurrent product (Lasagne,
    cuDNN). Args as `lstm`.

    r, u = sigmoid(...); c = tanh(x W + r * (h U) + b); h = (1 - u) h + u c. Gate order reset,
    update, candidate.
    """
    return _gru_loop(gates, recurrent, bias, keep_N1, segments, dtype, keeps=False)[0]


def _gru_loop(gates, recurrent, bias, keep, segments, dtype, *, keeps):
    """(states, activations, products h U of the candidates); the last two, for the gradient, only
    with `keeps`."""
    size, wide = recurrent[0].shape[0], gates[0].dtype
    at_step = jnp.asarray(offsets(segments))

    def step(at, state, gates, u, b):
        h, h_all, *stored = state
        rows = h.shape[0]
        x = _read(stored[0] if keeps else gates, at, rows) + b
        product = dot(jnp.matmul, h, u, dtype)
        # sigmoid(x) = (tanh(x / 2) + 1) / 2
        both = jnp.tanh((x[:, : 2 * size] + product[:, : 2 * size]) * 0.5) * 0.5 + 0.5
        r, z = jnp.split(both, 2, axis=-1)
        c = jnp.tanh(x[:, 2 * size :] + r * product[:, 2 * size :])
        h = _read(keep, at, rows) * (h + z * (c - h))
        if keeps:
            # The activations overwrite the gates, to save memory.
            a = jnp.concatenate([both, c], axis=-1)
            stored = [_write(stored[0], a, at), _write(stored[1], product[:, 2 * size :], at)]
        return h, _write(h_all, h, at), *stored

    zeros, everywhere = (
        jnp.zeros((segments[0][1], size), wide),
        jnp.zeros((gates[0].shape[0], size), wide),
    )
    states = [(zeros, everywhere, *([x, everywhere] if keeps else [])) for x in gates]
    for first, steps, rows in _starts(segments):
        states = [(h[:rows], *stored) for h, *stored in states]
        states = lax.fori_loop(
            first, first + steps,
            lambda t, states: [step(at_step[t], *parts) for parts in zip(states, gates, recurrent, bias, strict=True)],
            states,
        )  # fmt: skip
    return tuple(tuple(state[n] for state in states) for n in range(1, 4 if keeps else 2))


def _gru_forward(gates, recurrent, bias, keep, segments, dtype):
    h_all, activations, products = _gru_loop(
        gates, recurrent, bias, keep, segments, dtype, keeps=True
    )
    return h_all, (h_all, activations, products, recurrent, keep)


def _gru_backward(segments, dtype, saved, d_out):
    h_all, activations, products, recurrent, keep = saved
    size = recurrent[0].shape[0]
    at_step = jnp.asarray(offsets(segments))

    def step(t, state, d_out, h_all, activations, products, u):
        d_h, d_gates = state
        at, before, rows = at_step[t], at_step[jnp.maximum(t - 1, 0)], d_h.shape[0]
        r, z, c = jnp.split(_read(activations, at, rows), 3, axis=-1)
        h_last = _read(h_all, before, rows) * (t > 0).astype(d_h.dtype)
        d_h = _read(keep, at, rows) * (d_h + _read(d_out, at, rows))
        d_c = d_h * z * (1 - c**2)
        d_r = d_c * _read(products, at, rows) * r * (1 - r)
        d_z = d_h * (c - h_last) * z * (1 - z)
        d_product = jnp.concatenate([d_r, d_z, d_c * r], axis=-1)
        d_last = d_h * (1 - z) + dot(BY_COLUMNS, d_product, u, dtype)
        return d_last, _write(d_gates, jnp.concatenate([d_r, d_z, d_c], axis=-1), at)

    starts = _starts(segments)
    zeros = jnp.zeros((starts[-1][2], size), d_out[0].dtype)
    states = [(zeros, jnp.zeros_like(a)) for a in activations]
    of_direction = list(zip(d_out, h_all, activations, products, recurrent, strict=True))
    for first, steps, rows in reversed(starts):
        states = [(_grow(d_h, rows), d_gates) for d_h, d_gates in states]
        states = lax.fori_loop(
            0, steps,
            lambda n, states, last=first + steps - 1: [
                step(last - n, state, *parts) for state, parts in zip(states, of_direction, strict=True)
            ],
            states,
        )  # fmt: skip
    d_gates, before = tuple(d for _, d in states), slot_before(segments)

    def of_recurrent(h, d, a):
        # The gradient of the candidate's product h U is multiplied by the reset gate.
        d_product = jnp.concatenate([d[:, : 2 * size], d[:, 2 * size :] * a[:, :size]], axis=-1)
        last = jnp.take(h, before, axis=0, mode="fill", fill_value=0)
        return dot(BY_ROWS, last, d_product, dtype)

    d_recurrent = tuple(
        of_recurrent(*parts) for parts in zip(h_all, d_gates, activations, strict=True)
    )
    return d_gates, d_recurrent, tuple(_column_sums(d) for d in d_gates), None


gru.defvjp(_gru_forward, _gru_backward)


# name -> (recurrence, gates per hidden unit)
CELLS = {"lstm": (lstm, 4), "gru": (gru, 3)}
