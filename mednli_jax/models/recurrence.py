"""The recurrences of the bidirectional RNNs, both directions side by side, masked.

Dimension letters: T time, Z the two directions, B batch, H hidden, G gates times hidden.

The LSTM has a backward pass of its own: reverse-mode through `scan` would add every step's product to the gradient of
the recurrent matrix in turn; one product over all steps after the scan moves far less memory and is a large GEMM.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax


def _recur(h_ZBH, recurrent_ZHG):
    return jnp.einsum("zbh,zhg->zbg", h_ZBH, recurrent_ZHG)


@jax.custom_vjp
def lstm(gates_TZBG, recurrent_ZHG, keep_TZB1):
    """States [T, Z, B, H] of an LSTM (Hochreiter & Schmidhuber 1997, with forget gates).

    gates_TZBG: x W + b of every step, in PyTorch's order input, forget, cell, output. recurrent_ZHG: U.
    keep_TZB1: 1 on real tokens, 0 on padding: a padded step sets the state to 0, so that the direction that meets
    padding first starts fresh, and states on padding are 0. Not differentiated with respect to `keep`.
    """
    return _lstm_forward(gates_TZBG, recurrent_ZHG, keep_TZB1)[0]


def _lstm_forward(gates, recurrent, keep):
    zeros = jnp.zeros((*gates.shape[1:3], recurrent.shape[1]), gates.dtype)

    def body(carry, inputs):
        h, c = carry
        gate, k = inputs
        i, f, g, o = jnp.split(gate + _recur(h, recurrent), 4, axis=-1)
        i, f, g, o = nn.sigmoid(i), nn.sigmoid(f), jnp.tanh(g), nn.sigmoid(o)
        c = k * (f * c + i * g)
        h = k * (o * jnp.tanh(c))
        return (h, c), (h, c, jnp.concatenate([i, f, g, o], axis=-1))

    _, (h, c, activations) = lax.scan(body, (zeros, zeros), (gates, keep))
    return h, (h, c, activations, recurrent, keep)


def _lstm_backward(saved, d_out):
    h, c, activations, recurrent, keep = saved
    start = jnp.zeros_like(h[:1])
    h_before, c_before = (jnp.concatenate([start, x[:-1]]) for x in (h, c))

    def body(carry, inputs):
        d_h, d_c = carry
        d_state, c_now, c_last, activation, k = inputs
        i, f, g, o = jnp.split(activation, 4, axis=-1)
        tanh_c = jnp.tanh(c_now)
        d_h = k * (d_h + d_state)
        d_c = k * (d_c + d_h * o * (1 - tanh_c**2))
        d_gate = jnp.concatenate(
            [d_c * g * i * (1 - i), d_c * c_last * f * (1 - f), d_c * i * (1 - g**2), d_h * tanh_c * o * (1 - o)],
            axis=-1,
        )
        return (jnp.einsum("zbg,zhg->zbh", d_gate, recurrent), d_c * f), d_gate

    zeros = jnp.zeros_like(h[0])
    _, d_gates = lax.scan(body, (zeros, zeros), (d_out, c, c_before, activations, keep), reverse=True)
    return d_gates, jnp.einsum("tzbh,tzbg->zhg", h_before, d_gates), None


lstm.defvjp(_lstm_forward, _lstm_backward)


def gru(gates_TZBG, recurrent_ZHG, keep_TZB1):
    """States [T, Z, B, H] of a GRU with the reset gate after the recurrent product (Lasagne, cuDNN).

    r, u = sigmoid(...); c = tanh(x W + r * (h U) + b); h = (1 - u) h + u c. Gate order reset, update, candidate.
    """
    zeros = jnp.zeros((*gates_TZBG.shape[1:3], recurrent_ZHG.shape[1]), gates_TZBG.dtype)

    def body(h, inputs):
        gate, k = inputs
        r, u, n = jnp.split(gate, 3, axis=-1)
        r_h, u_h, n_h = jnp.split(_recur(h, recurrent_ZHG), 3, axis=-1)
        r, u = nn.sigmoid(r + r_h), nn.sigmoid(u + u_h)
        h = k * ((1 - u) * h + u * jnp.tanh(n + r * n_h))
        return h, h

    return lax.scan(body, zeros, (gates_TZBG, keep_TZB1))[1]


# name -> (recurrence, gates per hidden unit)
CELLS = {"lstm": (lstm, 4), "gru": (gru, 3)}
