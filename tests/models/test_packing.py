"""Packed sentences are the padded ones in another order: no token is lost or mixed up, also in
gradients.

In float64, on a staircase that just holds the sentences and on one that computes all of them to the
end.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from mednli_jax.data.batching import staircase
from mednli_jax.models.packing import Packing
from mednli_jax.models.recurrence import CELLS, offsets

SHAPES = ((3, 4), (4, 3))  # two sides: sentences and padded positions
LENGTH = np.array([4, 0, 2, 1, 0, 3, 1])
STAIRCASES = {
    "full": None,
    "fitted": staircase(
        (np.arange(4) < LENGTH[:, None]).sum(axis=0)
    ),  # five sentences, because two are empty
    "loose": ((2, 7), (1, 4), (3, 1)),  # goes beyond the longest sentence
}
SIZE = 4


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=[pytest.param("full", marks=pytest.mark.slow), "fitted", "loose"])
def packing(request):
    with jax.enable_x64(True):
        return Packing(jnp.asarray(LENGTH), STAIRCASES[request.param], steps=4)


def sides(seed=0):
    """Random sides, with random numbers on padding, too."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(*shape, SIZE)) for shape in SHAPES]


def masks():
    lengths = np.split(LENGTH, [SHAPES[0][0]])
    return [np.arange(steps) < n[:, None] for n, (_, steps) in zip(lengths, SHAPES, strict=True)]


def clean(padded):
    return [np.where(mask[..., None], x, 0) for x, mask in zip(padded, masks(), strict=True)]


def slots(packing, seed=1):
    return np.random.default_rng(seed).normal(size=(packing.size, SIZE))


def test_every_token_has_one_slot_which_says_whose_it_is(packing):
    """Each token holds its sentence and its time, so slots can be checked. Other slots are zero."""
    padded, first = [], 0
    for rows, steps in SHAPES:
        sentence, time = np.mgrid[first : first + rows, :steps]
        padded.append(jnp.asarray(np.stack([sentence, time], axis=-1).astype(float)))
        first += rows
    packed, valid = np.asarray(packing.pack(*padded)), np.asarray(packing.valid_N)
    assert valid.sum() == LENGTH.sum() == len(np.unique(packed[valid], axis=0))
    assert (packed[~valid] == 0).all()
    np.testing.assert_array_equal(packed[valid, 0], np.asarray(packing.sentence_N)[valid])
    np.testing.assert_array_equal(packed[valid, 1], np.asarray(packing.time_N)[valid])
    np.testing.assert_array_equal(
        packing.tokens(*(of[..., 0].astype(int) for of in padded)), packed[:, 0]
    )
    keys = packing.token_keys(jnp.arange(100, 100 + len(LENGTH)))
    np.testing.assert_array_equal(np.asarray(keys)[valid], 100 + packed[valid, 0])


def test_mirrored_sentences_read_backwards(packing):
    packed = packing.pack(*map(jnp.asarray, sides()))
    mirrored = [
        row for side in packing.unpack(packing.mirror(packed), *SHAPES) for row in np.asarray(side)
    ]
    for row, x, n in zip(mirrored, [row for side in sides() for row in side], LENGTH, strict=True):
        np.testing.assert_array_equal(row[:n], x[:n][::-1])
        assert (row[n:] == 0).all()
    x = jnp.asarray(slots(packing))
    np.testing.assert_array_equal(packing.mirror(packing.mirror(x)), x)


@pytest.mark.parametrize("what", ["pack", "unpack", "mirror", "max", "mean", "sum"])
def test_gradients_are_those_of_what_is_computed(packing, what):
    function = (
        (lambda x: packing.unpack(x, *SHAPES)) if what == "unpack" else getattr(packing, what)
    )
    given = sides() if what == "pack" else [slots(packing)]
    check_grads(
        jax.jit(function), tuple(map(jnp.asarray, given)), order=1, modes="rev", eps=1e-6, rtol=1e-6
    )


@pytest.mark.parametrize("what", ["max", "mean", "sum"])
def test_reductions_are_those_of_the_padded_sentences(packing, what):
    """All values are negative, so a maximum that included a zero of the padding would show."""
    padded = [-abs(x) - 1 for x in sides()]
    got = getattr(packing, what)(packing.pack(*map(jnp.asarray, padded)))
    rows = [row for x in padded for row in x]
    expected = [
        getattr(x[:n], what)(axis=0) if n else np.zeros(SIZE)
        for x, n in zip(rows, LENGTH, strict=True)
    ]
    np.testing.assert_allclose(got, np.stack(expected), rtol=1e-14)
    # Values on empty slots must not matter.
    spoilt = jnp.where(packing.valid_N[:, None], packing.pack(*map(jnp.asarray, padded)), 7.0)
    np.testing.assert_array_equal(getattr(packing, what)(spoilt), got)


# ---- recurrences ----


def inputs_of(cell, packing, seed=0):
    """(gates [N, G], recurrent [H, G], bias [G]); the gates of empty slots are not zero."""
    rng = np.random.default_rng(seed)
    width = CELLS[cell][1] * SIZE
    return tuple(
        rng.normal(size=shape) for shape in ((packing.size, width), (SIZE, width), (width,))
    )


def states_of(cell, packing, gates, recurrent, bias):
    keep = packing.valid_N[:, None].astype(gates.dtype)
    return CELLS[cell][0]((gates,), (recurrent,), (bias,), keep, packing.segments, None)[0]


@pytest.mark.parametrize(
    ("cell", "packing"), [("lstm", "fitted"), ("gru", "loose")], indirect=["packing"]
)
def test_the_gradient_of_a_recurrence_is_automatic_differentiation_s(cell, packing):
    """The reference unrolls each sentence step by step, and JAX differentiates it."""
    arguments = tuple(map(jnp.asarray, inputs_of(cell, packing)))
    weights = jnp.asarray(np.random.default_rng(1).normal(size=(packing.size, SIZE)))
    at, rank = offsets(packing.segments), np.asarray(packing.rank_R)

    def unrolled(gates, recurrent, bias):
        total = 0.0
        for sentence, length in enumerate(LENGTH):
            h, c = jnp.zeros(SIZE), jnp.zeros(SIZE)
            for t in range(length):
                slot = at[t] + rank[sentence]
                h, c = jax_step(cell, gates[slot] + bias, recurrent, h, c)
                total += (weights[slot] * h).sum()
        return total

    def packed(*arguments):
        return (weights * states_of(cell, packing, *arguments)).sum()

    # Training runs several seeds in one program; each of the three must get its own gradient.
    several = [jnp.stack([x, 2 * x, -x]) for x in arguments]
    ours = jax.jit(jax.vmap(jax.grad(packed, argnums=(0, 1, 2))))(*several)
    theirs = jax.jit(jax.vmap(jax.grad(unrolled, argnums=(0, 1, 2))))(*several)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == np.float64
        assert abs(b).max() > 0.01
        np.testing.assert_allclose(a, b, atol=1e-12)


def jax_step(cell, gate, recurrent, h, c):
    sigmoid = jax.nn.sigmoid
    if cell == "lstm":
        i, f, g, o = jnp.split(gate + h @ recurrent, 4)
        c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        return sigmoid(o) * jnp.tanh(c), c
    (r, u, n), (hr, hu, hn) = jnp.split(gate, 3), jnp.split(h @ recurrent, 3)
    r, u = sigmoid(r + hr), sigmoid(u + hu)
    return (1 - u) * h + u * jnp.tanh(n + r * hn), c
