"""The recurrences of the bidirectional RNNs, one direction each, over packed sentences.

Packed: the tokens of all sentences in one axis of slots, step by step, the sentences sorted by falling length. A
staircase ((steps, sentences), ...) says how many sentences each step computes, so that short sentences cost nothing
where only long ones go on.
Dimension letters: N slots, R sentences of a step, H hidden, G gates times hidden.

The LSTM has a backward pass of its own: reverse-mode through a loop would add every step's product to the gradient of
the recurrent matrix in turn; one product over all slots after the loop moves far less memory and is a large GEMM.
"""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def offsets(segments) -> np.ndarray:
    """[steps + 1] first slot of each step, and the number of slots."""
    return np.cumsum([0, *(rows for steps, rows in segments for _ in range(steps))], dtype=np.int32)


def _starts(segments):
    """(first step, steps, sentences) of each segment."""
    first = np.cumsum([0, *(steps for steps, _ in segments)])
    return [(int(at), steps, rows) for at, (steps, rows) in zip(first, segments, strict=False)]


def _read(x, at, rows):
    return lax.dynamic_slice_in_dim(x, at, rows, 0)


def _write(x, y, at):
    return lax.dynamic_update_slice_in_dim(x, y, at, 0)


def _grow(x, rows):
    return jnp.pad(x, ((0, rows - x.shape[0]), (0, 0)))


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def lstm(gates_NG, recurrent_HG, bias_G, keep_N1, segments):
    """States [N, H] of an LSTM (Hochreiter & Schmidhuber 1997, with forget gates).

    gates_NG: x W of every slot, in PyTorch's order input, forget, cell, output. recurrent_HG: U. bias_G: b.
    keep_N1: 1 on tokens, 0 on slots without one, where states are 0. Not differentiated with respect to `keep`.
    """
    return _lstm_forward(gates_NG, recurrent_HG, bias_G, keep_N1, segments)[0]


def _lstm_forward(gates, recurrent, bias, keep, segments):
    size = recurrent.shape[0]
    at_step = jnp.asarray(offsets(segments))
    # sigmoid(x) = (tanh(x / 2) + 1) / 2: one elementwise pass over all four gates.
    is_cell = np.arange(4 * size) // size == 2
    scale = np.where(is_cell, 1.0, 0.5).astype(gates.dtype)
    shift = np.where(is_cell, 0.0, 0.5).astype(gates.dtype)
    zeros = jnp.zeros((segments[0][1], size), gates.dtype)

    def step(t, carry):
        h, c, activations, h_all, c_all = carry
        at, rows = at_step[t], h.shape[0]
        a = jnp.tanh((_read(activations, at, rows) + h @ recurrent + bias) * scale) * scale + shift
        i, f, g, o = jnp.split(a, 4, axis=-1)
        k = _read(keep, at, rows)
        c = k * (f * c + i * g)
        h = k * (o * jnp.tanh(c))
        # The activations take the place of the gates they were made of.
        return h, c, _write(activations, a, at), _write(h_all, h, at), _write(c_all, c, at)

    everywhere = jnp.zeros((gates.shape[0], size), gates.dtype)
    carry = (zeros, zeros, gates, everywhere, everywhere)
    for first, steps, rows in _starts(segments):
        carry = (carry[0][:rows], carry[1][:rows], *carry[2:])
        carry = lax.fori_loop(first, first + steps, step, carry)
    _, _, activations, h_all, c_all = carry
    return h_all, (h_all, c_all, activations, recurrent, keep)


def _lstm_backward(segments, saved, d_out):
    h_all, c_all, activations, recurrent, keep = saved
    size = recurrent.shape[0]
    at_step = jnp.asarray(offsets(segments))
    is_cell = np.arange(4 * size) // size == 2

    def step(t, carry):
        d_h, d_c, d_gates = carry
        at, before, rows = at_step[t], at_step[jnp.maximum(t - 1, 0)], d_h.shape[0]
        k = _read(keep, at, rows)
        a = _read(activations, at, rows)
        i, f, g, o = jnp.split(a, 4, axis=-1)
        c_last = _read(c_all, before, rows) * (t > 0).astype(d_c.dtype)
        tanh_c = jnp.tanh(_read(c_all, at, rows))
        d_h = k * (d_h + _read(d_out, at, rows))
        d_c = k * (d_c + d_h * o * (1 - tanh_c**2))
        # d_c g, d_c c_last, d_c i, d_h tanh(c), times the slopes of the four gates.
        d_gate = jnp.concatenate([d_c, d_c, d_c, d_h], axis=-1) * jnp.concatenate([g, c_last, i, tanh_c], axis=-1)
        d_gate = d_gate * jnp.where(is_cell, 1 - a**2, a * (1 - a))
        return lax.dot_general(d_gate, recurrent, (((1,), (1,)), ((), ()))), d_c * f, _write(d_gates, d_gate, at)

    starts = _starts(segments)
    zeros = jnp.zeros((starts[-1][2], size), d_out.dtype)
    carry = (zeros, zeros, jnp.zeros_like(activations))
    for first, steps, rows in reversed(starts):
        carry = (_grow(carry[0], rows), _grow(carry[1], rows), carry[2])
        carry = lax.fori_loop(0, steps, lambda n, c, last=first + steps - 1: step(last - n, c), carry)
    d_gates = carry[2]
    h_before = jnp.take(h_all, _slot_before(segments), axis=0, mode="fill", fill_value=0)
    d_recurrent = lax.dot_general(h_before, d_gates, (((0,), (0,)), ((), ())))
    return d_gates, d_recurrent, d_gates.sum(axis=0), None


lstm.defvjp(_lstm_forward, _lstm_backward)


def _slot_before(segments) -> np.ndarray:
    """[N] the slot of the same sentence one step earlier; N (no slot) at the first step."""
    at = offsets(segments)
    rows = np.diff(at)
    before = [np.full(rows[0], at[-1], np.int32)]
    before += [at[t - 1] + np.arange(rows[t], dtype=np.int32) for t in range(1, len(rows))]
    return np.concatenate(before)


def gru(gates_NG, recurrent_HG, bias_G, keep_N1, segments):
    """States [N, H] of a GRU with the reset gate after the recurrent product (Lasagne, cuDNN).

    r, u = sigmoid(...); c = tanh(x W + r * (h U) + b); h = (1 - u) h + u c. Gate order reset, update, candidate.
    """
    size = recurrent_HG.shape[0]

    def step(h, inputs):
        gate, k = inputs
        r, u, n = jnp.split(gate + bias_G, 3, axis=-1)
        r_h, u_h, n_h = jnp.split(h @ recurrent_HG, 3, axis=-1)
        r, u = nn.sigmoid(r + r_h), nn.sigmoid(u + u_h)
        h = k * ((1 - u) * h + u * jnp.tanh(n + r * n_h))
        return h, h

    h, states = jnp.zeros((segments[0][1], size), gates_NG.dtype), []
    cuts = np.cumsum([steps * rows for steps, rows in segments])[:-1]
    for (steps, rows), gates, keep in zip(segments, jnp.split(gates_NG, cuts), jnp.split(keep_N1, cuts), strict=True):
        inputs = (gates.reshape(steps, rows, -1), keep.reshape(steps, rows, 1))
        h, out = lax.scan(step, h[:rows], inputs)
        states.append(out.reshape(steps * rows, size))
    return jnp.concatenate(states)


# name -> (recurrence, gates per hidden unit)
CELLS = {"lstm": (lstm, 4), "gru": (gru, 3)}
