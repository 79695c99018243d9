"""The loops of `recurrence` for GPUs: both directions in one array, a `lax.scan` for each segment.

A GPU runs operations one by one, and those of a time step are so small that their number decides the time. Here both
directions share each operation, the slots of a segment are the scan's inputs and outputs, and as much as possible is
computed before or after the loop.
Dimension letters: N slots, R sentences of a step, T steps of a segment, K gates, H hidden; the axis of 2 is the
direction.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from mednli_jax.models.products import dot
from mednli_jax.models.recurrence import slot_before

# the hidden size is padded to a multiple of this once, or XLA would pad it at every time step
MULTIPLE = 32


def padded_size(size: int) -> int:
    """The hidden size of the loops. The additional units have gates of 0 and stay 0."""
    return -(-size // MULTIPLE) * MULTIPLE


def _parts(x, segments):
    """The parts [T, 2, R, ...] of the slots [2, N, ...], one for each segment."""
    first = 0
    for steps, rows in segments:
        part = x[:, first : first + steps * rows]
        yield jnp.moveaxis(part.reshape(part.shape[0], steps, rows, *x.shape[2:]), 1, 0)
        first += steps * rows


def _slots(parts):
    """The inverse of `_parts`."""
    flat = [jnp.moveaxis(part, 0, 1).reshape(2, -1, *part.shape[3:]) for part in parts]
    return flat[0] if len(flat) == 1 else jnp.concatenate(flat, axis=1)


def _forward(step, states, segments, *inputs):
    """The outputs of a scan over all steps, in slots. step: (states [2, R, H], its inputs) -> (states, outputs)."""
    found = []
    for given, (_, rows) in zip(zip(*(_parts(x, segments) for x in inputs), strict=True), segments, strict=True):
        states, output = lax.scan(step, tuple(state[:, :rows] for state in states), given)
        found.append(output)
    return _slots(found)


def _backward(step, states, segments, *inputs):
    """As `_forward`, from the last step to the first. A sentence joins at its last step."""
    found = []
    given = list(zip(zip(*(_parts(x, segments) for x in inputs), strict=True), segments, strict=True))
    for parts, (_, rows) in reversed(given):
        states = tuple(_grown(state, rows) for state in states)
        states, output = lax.scan(step, states, parts, reverse=True)
        found.append(output)
    return _slots(found[::-1])


def _last(x, segments):
    """[2, N, ...], the values of the same sentence one step earlier; 0 at the first step."""
    return jnp.take(x, slot_before(segments), axis=1, mode="fill", fill_value=0)


def _grown(state, rows):
    return jnp.pad(state, ((0, 0), (0, rows - state.shape[1]), *((0, 0),) * (state.ndim - 2)))


def _product(h, recurrent):
    """h U of both directions: [2, R, H], [2, H, K, H] -> [2, R, K, H]."""
    return dot(partial(jnp.einsum, "drh,dhkg->drkg"), h, recurrent)


def _transposed(d, recurrent):
    return dot(partial(jnp.einsum, "drkg,dhkg->drh"), d, recurrent)


def _slope(last_h, d):
    """The gradient [2, H, K, H] of U from the states one step earlier and the gradients of all products."""
    return dot(partial(jnp.einsum, "dnh,dnkg->dhkg"), last_h, d)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def lstm(gates, recurrent, keep_N1, segments):
    """States [2, N, H] of the LSTMs of both directions, see recurrence.lstm. Not differentiable for `keep_N1`.

    gates: x W + b [2, N, 4, H], in the order input, forget, cell, output. recurrent: U [2, H, 4, H]. keep_N1: 1 on
    tokens, 0 on slots without one, where states are 0.
    """
    return _lstm_forward(gates, recurrent, keep_N1, segments)[0]


def _lstm_forward(gates, recurrent, keep_N1, segments):
    def step(states, given):
        (h, last), (x, k) = states, given
        a = x + _product(h, recurrent)
        i, f, o = (0.5 * jnp.tanh(0.5 * a[:, :, gate]) + 0.5 for gate in (0, 1, 3))
        g = jnp.tanh(a[:, :, 2])
        c = k * (f * last + i * g)
        h = k * (o * jnp.tanh(c))
        return (h, c), jnp.stack([i, f, g, o, c, h], axis=2)

    zeros = jnp.zeros((2, segments[0][1], gates.shape[-1]), gates.dtype)
    stored = _forward(step, (zeros, zeros), segments, gates, keep_N1[None])
    return stored[:, :, 5], (stored, recurrent, keep_N1)


def _lstm_backward(segments, saved, d_out):
    stored, recurrent, keep_N1 = saved
    last_c, last_h = jnp.moveaxis(_last(stored[:, :, 4:], segments), 2, 0)

    def step(states, given):
        (d_gates, d_c), (d_out, a, last, k) = states, given
        i, f, g, o, c = (a[:, :, part] for part in range(5))
        tanh_c = jnp.tanh(c)
        d_h = k * (_transposed(d_gates, recurrent) + d_out)
        d_c = k * (d_c + d_h * o * (1 - tanh_c**2))
        d_gates = [d_c * g * i * (1 - i), d_c * last * f * (1 - f), d_c * i * (1 - g**2), d_h * tanh_c * o * (1 - o)]
        d_gates = jnp.stack(d_gates, axis=2)
        return (d_gates, d_c * f), d_gates

    zeros = jnp.zeros((2, segments[-1][1], *recurrent.shape[2:]), recurrent.dtype)
    given = (d_out, stored[:, :, :5], last_c, keep_N1[None])
    d_gates = _backward(step, (zeros, zeros[:, :, 0]), segments, *given)
    return d_gates, _slope(last_h, d_gates), None


lstm.defvjp(_lstm_forward, _lstm_backward)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def gru(gates, recurrent, keep_N1, segments):
    """States [2, N, H] of the GRUs of both directions, see recurrence.gru. Gate order reset, update, candidate."""
    return _gru_forward(gates, recurrent, keep_N1, segments)[0]


def _gru_forward(gates, recurrent, keep_N1, segments):
    def step(states, given):
        (last,), (x, k) = states, given
        product = _product(last, recurrent)
        r, z = (0.5 * jnp.tanh(0.5 * (x[:, :, gate] + product[:, :, gate])) + 0.5 for gate in (0, 1))
        c = jnp.tanh(x[:, :, 2] + r * product[:, :, 2])
        h = k * (last + z * (c - last))
        return (h,), jnp.stack([r, z, c, product[:, :, 2], h], axis=2)

    zeros = jnp.zeros((2, segments[0][1], gates.shape[-1]), gates.dtype)
    stored = _forward(step, (zeros,), segments, gates, keep_N1[None])
    return stored[:, :, 4], (stored, recurrent, keep_N1)


def _gru_backward(segments, saved, d_out):
    stored, recurrent, keep_N1 = saved
    last_h = _last(stored[:, :, 4], segments)

    def step(states, given):
        (d_products, d_h), (d_out, a, last, k) = states, given
        r, z, c, product = (a[:, :, part] for part in range(4))
        d_h = k * (d_h + _transposed(d_products, recurrent) + d_out)
        d_c = d_h * z * (1 - c**2)
        d_r = d_c * product * r * (1 - r)
        d_z = d_h * (c - last) * z * (1 - z)
        # The gradient of the candidate's product h U is multiplied by the reset gate.
        d_products = jnp.stack([d_r, d_z, d_c * r], axis=2)
        return (d_products, d_h * (1 - z)), jnp.stack([d_r, d_z, d_c, d_c * r], axis=2)

    zeros = jnp.zeros((2, segments[-1][1], *recurrent.shape[2:]), recurrent.dtype)
    given = (d_out, stored[:, :, :4], last_h, keep_N1[None])
    found = _backward(step, (zeros, zeros[:, :, 0]), segments, *given)
    d_products = jnp.concatenate([found[:, :, :2], found[:, :, 3:]], axis=2)
    return found[:, :, :3], _slope(last_h, d_products), None


gru.defvjp(_gru_forward, _gru_backward)


CELLS = {"lstm": lstm, "gru": gru}
