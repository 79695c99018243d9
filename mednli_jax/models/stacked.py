"""The loops of `recurrence` for GPUs: both directions in one array, several steps in each iteration
of a loop.

A GPU runs operations one by one, and those of a time step are so small that their number decides
the time. Here both directions and all seeds share each operation, and as much as possible is
computed before or after the loop. Dimension letters: N slots, R sentences of a step, T steps of a
segment, K gates, H hidden, D directions (twice the number of seeds under a vmap over seeds). D is
axis 1 of all arrays outside of a step.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from mednli_jax.models.products import dot

# the hidden size is padded to a multiple of this once, or XLA would pad it at every time step
MULTIPLE = 32
# Steps in each iteration of a loop, and of a loop of at least LONG steps. XLA joins what they
# store, and the counter.
UNROLL, LONG_UNROLL, LONG = 4, 10, 256


def padded_size(size: int) -> int:
    """The hidden size of the loops. The additional units have gates of 0 and stay 0."""
    return -(-size // MULTIPLE) * MULTIPLE


def _over_seeds(function, *arrays):
    """function(*arrays). Its vmap over seeds is one call with more directions.

    vmap itself would turn the slices of the loops into gathers and scatters.
    """
    call = jax.custom_batching.custom_vmap(function)

    @call.def_vmap
    def of_seeds(seeds, has_seeds, *arrays):
        def joined(x, has_seeds):
            x = jnp.moveaxis(x, 0, 1) if has_seeds else jnp.repeat(x[:, None], seeds, axis=1)
            return x.reshape(len(x), -1, *x.shape[3:])

        def separated(x):
            return jnp.moveaxis(x.reshape(len(x), seeds, -1, *x.shape[2:]), 1, 0)

        found = jax.tree.map(separated, function(*jax.tree.map(joined, arrays, tuple(has_seeds))))
        return found, jax.tree.map(lambda x: True, found)

    return call(*arrays)


def _parts(x, segments):
    """The parts [T, D, R, ...] of the slots [N, D, ...], one for each segment."""
    first, found = 0, []
    for steps, rows in segments:
        part = x[first : first + steps * rows]
        found.append(jnp.moveaxis(part.reshape(steps, rows, *x.shape[1:]), 2, 1))
        first += steps * rows
    return found


def _slots(parts):
    """The inverse of `_parts`."""
    flat = [jnp.moveaxis(part, 1, 2).reshape(-1, part.shape[1], *part.shape[3:]) for part in parts]
    return flat[0] if len(flat) == 1 else jnp.concatenate(flat)


def _scan(step, states, stored, given, *, reverse=False):
    """(states, stored) after all steps. step: (states [D, R, H], row of stored, *rows of given) ->
    (states, new row).

    In lax.scan the new rows would need an array of their own, and its `unroll` copies all arrays
    where the number of steps is no multiple.
    """
    steps, backwards = len(stored), -1 if reverse else 1
    joined = LONG_UNROLL if steps >= LONG else UNROLL
    loops, rest = divmod(steps, joined)

    def several(first, count, carried):
        (states, stored), rows = carried, []
        for n in range(count)[::backwards]:
            read = (
                lax.dynamic_index_in_dim(x, first + n, keepdims=False) for x in (stored, *given)
            )
            states, row = step(states, *read)
            rows.append(row)
        return states, lax.dynamic_update_slice_in_dim(
            stored, jnp.stack(rows[::backwards]), first, 0
        )

    def first(n):
        return steps - joined * (n + 1) if reverse else joined * n

    carried = states, stored
    if loops:
        carried = lax.fori_loop(
            0, loops, lambda n, carried: several(first(n), joined, carried), carried
        )
    return several(0 if reverse else first(loops), rest, carried) if rest else carried


def _forward(step, states, *given):
    """The rows that a scan over all steps stores, in parts. given: in parts, the first are the
    initial rows."""
    found = []
    for stored, *others in zip(*given, strict=True):
        states, stored = _scan(
            step, tuple(state[:, : stored.shape[2]] for state in states), stored, others
        )
        found.append(stored)
    return found


def _backward(step, states, gates, *given):
    """As `_forward`, from the last step to the first, with rows [D, R, gates, H]. A sentence joins
    at its last step."""
    found = []
    for parts in reversed(list(zip(*given, strict=True))):
        first, rows = parts[0], parts[0].shape[2]
        states = tuple(_grown(state, rows) for state in states)
        stored = jnp.zeros((*first.shape[:3], gates, first.shape[-1]), first.dtype)
        states, stored = _scan(step, states, stored, parts, reverse=True)
        found.append(stored)
    return found[::-1]


def _last(parts):
    """The values of the same sentence one step earlier, in parts; 0 at the first step."""
    before = jnp.zeros_like(parts[0][0])
    for part in parts:
        yield jnp.concatenate([before[None, :, : part.shape[2]], part[:-1]])
        before = part[-1]


def _grown(state, rows):
    return jnp.pad(state, ((0, 0), (0, rows - state.shape[1]), *((0, 0),) * (state.ndim - 2)))


def _product(h, recurrent, dtype):
    """h U of all directions: [D, R, H], [H, D, K, H] -> [D, R, K, H]."""
    return dot(partial(jnp.einsum, "drh,hdkg->drkg"), h, recurrent, dtype)


def _transposed(d, recurrent, dtype):
    return dot(partial(jnp.einsum, "drkg,hdkg->drh"), d, recurrent, dtype)


def _slope(last_h, d, dtype):
    """The gradient [H, D, K, H] of U from the states one step earlier and the gradients of all
    products, in parts."""
    of_parts = zip(last_h, d, strict=True)
    return sum(dot(partial(jnp.einsum, "tdrh,tdrkg->hdkg"), *parts, dtype) for parts in of_parts)


def _recurrence(forward, backward):
    """A recurrence from its forward pass, which also returns what it stores, and its backward
    pass."""

    def saving(gates, recurrent, keep_N1, segments, dtype):
        keep = jnp.repeat(keep_N1[:, None], 2, axis=1)
        states, stored = _over_seeds(partial(forward, segments, dtype), gates, recurrent, keep)
        return states, (stored, recurrent, keep)

    def slopes(segments, dtype, saved, d_out):
        return *_over_seeds(partial(backward, segments, dtype), *saved, d_out), None

    @partial(jax.custom_vjp, nondiff_argnums=(3, 4))
    def states(gates, recurrent, keep_N1, segments, dtype):
        return saving(gates, recurrent, keep_N1, segments, dtype)[0]

    states.defvjp(saving, slopes)
    return states


def _room(gates):
    """The gates with two more rows on their axis, which are stored beside them."""
    return jnp.pad(gates, ((0, 0), (0, 0), (0, 2), (0, 0)))


def _zeros(recurrent, segment, *gates):
    """Zeros [D, R, ..., H] for the sentences of a step."""
    size, directions = recurrent.shape[:2]
    return jnp.zeros((directions, segment[1], *gates, size), recurrent.dtype)


def _lstm_forward(segments, dtype, gates, recurrent, keep):
    def step(states, x, k):
        h, last = states
        a = x[:, :, :4] + _product(h, recurrent, dtype)
        i, f, o = (0.5 * jnp.tanh(0.5 * a[:, :, gate]) + 0.5 for gate in (0, 1, 3))
        g = jnp.tanh(a[:, :, 2])
        c = k * (f * last + i * g)
        h = k * (o * jnp.tanh(c))
        return (h, c), jnp.stack([i, f, g, o, last, h], axis=2)

    zeros = _zeros(recurrent, segments[0])
    stored = _forward(step, (zeros, zeros), _parts(_room(gates), segments), _parts(keep, segments))
    return _slots([part[:, :, :, 5] for part in stored]), stored


def _lstm_backward(segments, dtype, stored, recurrent, keep, d_out):
    def step(states, _, a, d_out, k):
        d_gates, d_c = states
        i, f, g, o, last = (a[:, :, part] for part in range(5))
        tanh_c = jnp.tanh(k * (f * last + i * g))
        d_h = k * (_transposed(d_gates, recurrent, dtype) + d_out)
        d_c = k * (d_c + d_h * o * (1 - tanh_c**2))
        d_gates = [
            d_c * g * i * (1 - i),
            d_c * last * f * (1 - f),
            d_c * i * (1 - g**2),
            d_h * tanh_c * o * (1 - o),
        ]
        d_gates = jnp.stack(d_gates, axis=2)
        return (d_gates, d_c * f), d_gates

    states = _zeros(recurrent, segments[-1], 4), _zeros(recurrent, segments[-1])
    d_gates = _backward(step, states, 4, stored, _parts(d_out, segments), _parts(keep, segments))
    last_h = _last([part[:, :, :, 5] for part in stored])
    return _slots(d_gates), _slope(last_h, d_gates, dtype)


def _gru_forward(segments, dtype, gates, recurrent, keep):
    def step(states, x, k):
        (last,) = states
        product = _product(last, recurrent, dtype)
        r, z = (
            0.5 * jnp.tanh(0.5 * (x[:, :, gate] + product[:, :, gate])) + 0.5 for gate in (0, 1)
        )
        c = jnp.tanh(x[:, :, 2] + r * product[:, :, 2])
        h = k * (last + z * (c - last))
        return (h,), jnp.stack([r, z, c, product[:, :, 2], h], axis=2)

    states = (_zeros(recurrent, segments[0]),)
    stored = _forward(step, states, _parts(_room(gates), segments), _parts(keep, segments))
    return _slots([part[:, :, :, 4] for part in stored]), stored


def _gru_backward(segments, dtype, stored, recurrent, keep, d_out):
    last_h = list(_last([part[:, :, :, 4] for part in stored]))

    def step(states, _, a, d_out, last, k):
        d_products, d_h = states
        r, z, c, product = (a[:, :, part] for part in range(4))
        d_h = k * (d_h + _transposed(d_products, recurrent, dtype) + d_out)
        d_c = d_h * z * (1 - c**2)
        d_r = d_c * product * r * (1 - r)
        d_z = d_h * (c - last) * z * (1 - z)
        # The gradient of the candidate's product h U is multiplied by the reset gate.
        d_products = jnp.stack([d_r, d_z, d_c * r], axis=2)
        return (d_products, d_h * (1 - z)), jnp.stack([d_r, d_z, d_c, d_c * r], axis=2)

    states = _zeros(recurrent, segments[-1], 3), _zeros(recurrent, segments[-1])
    found = _backward(
        step, states, 4, stored, _parts(d_out, segments), last_h, _parts(keep, segments)
    )
    d_products = [jnp.concatenate([part[:, :, :, :2], part[:, :, :, 3:]], axis=3) for part in found]
    return _slots([part[:, :, :, :3] for part in found]), _slope(last_h, d_products, dtype)


# States [N, 2, H] of the RNNs of both directions, see `recurrence`: (gates, recurrent, keep_N1,
# segments, dtype of products) -> states. They are not differentiable by keep_N1, which is 1 on tokens and 0 on slots
# without one, where states are 0. gates: x W + b [N, 2, K, H], in the order input, forget, cell,
# output, or reset, update, candidate. recurrent: U [H, 2, K, H].
CELLS = {
    "lstm": _recurrence(_lstm_forward, _lstm_backward),
    "gru": _recurrence(_gru_forward, _gru_backward),
}
