"""Packed sentences are the padded ones in another order: no token is lost or mixed up, also in
gradients.

In float64, in segments that just hold the sentences and in one that computes all of them to the
end.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from support.trees import assert_equal, assert_near

from mednli_jax.data.batching import pack_segments
from mednli_jax.models.packing import Packing
from mednli_jax.models.recurrence import CELLS, offsets

SHAPES = ((3, 4), (4, 3))  # two sides: sentences and padded positions
LENGTH = np.array([4, 0, 2, 1, 0, 3, 1])
IS_TOKEN = np.arange(4) < LENGTH[:, None]
SIDE_MASKS = [IS_TOKEN[:3], IS_TOKEN[3:, :3]]
SEGMENTS = {
    "full": None,
    "fitted": pack_segments(IS_TOKEN.sum(axis=0)),  # for five sentences
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
        return Packing(jnp.asarray(LENGTH), SEGMENTS[request.param], steps=4)


def random_sides():
    """Padded sentences of both sides, with random numbers on padding, too."""
    return [random_array(*shape, SIZE) for shape in SHAPES]


def random_slots(packing):
    return random_array(packing.size, SIZE, seed=1)


def random_array(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def sentences(sides):
    """The sentences of both sides without padding."""
    padded = [row for side in sides for row in np.asarray(side)]
    return [row[:length] for row, length in zip(padded, LENGTH, strict=True)]


def test_every_token_has_a_slot_with_its_sentence_and_time(packing):
    """Each token holds its sentence and its time. Slots without a token are zero."""
    sentence_and_time = np.moveaxis(np.mgrid[:7, :4], 0, -1)
    padded = [jnp.asarray(sentence_and_time[:3]), jnp.asarray(sentence_and_time[3:, :3])]

    packed = np.asarray(packing.pack(*padded))

    is_token = np.asarray(packing.valid_N)
    tokens = packed[is_token]
    assert len(np.unique(tokens, axis=0)) == is_token.sum() == LENGTH.sum()
    assert (packed[~is_token] == 0).all()
    assert_equal(tokens[:, 0], np.asarray(packing.sentence_N)[is_token])
    assert_equal(tokens[:, 1], np.asarray(packing.time_N)[is_token])
    numbers = [side[..., 0] for side in padded]
    assert_equal(packing.tokens(*numbers), packed[:, 0])
    keys = packing.token_keys(jnp.arange(100, 100 + len(LENGTH)))
    assert_equal(np.asarray(keys)[is_token], 100 + tokens[:, 0])


def test_mirrored_packed_sentences_read_backwards(packing):
    sides = random_sides()

    mirrored = packing.unpack(packing.mirror(packing.pack(*sides)), *SHAPES)

    for row, expected in zip(sentences(mirrored), sentences(sides), strict=True):
        assert_equal(row, expected[::-1])
    for side, is_token in zip(mirrored, SIDE_MASKS, strict=True):
        assert (np.asarray(side)[~is_token] == 0).all()
    slots = random_slots(packing)
    assert_equal(packing.mirror(packing.mirror(slots)), slots)


@pytest.mark.parametrize("name", ["pack", "unpack", "mirror", "max", "mean", "sum"])
def test_gradients_of_packing_are_those_of_finite_differences(packing, name):
    arguments = random_sides() if name == "pack" else [random_slots(packing)]

    @jax.jit
    def function(*arguments):
        method = getattr(packing, name)
        return method(*arguments, *SHAPES) if name == "unpack" else method(*arguments)

    tolerances = {"eps": 1e-6, "rtol": 1e-6}
    check_grads(function, tuple(arguments), order=1, modes="rev", **tolerances)


@pytest.mark.parametrize("name", ["max", "mean", "sum"])
def test_max_mean_and_sum_of_packed_sentences_are_those_of_the_padded_ones(packing, name):
    """All values are negative, so a maximum that included a zero of the padding would show."""
    sides = [-abs(side) - 1 for side in random_sides()]
    packed = packing.pack(*sides)

    reduced = getattr(packing, name)(packed)

    for row, sentence in zip(reduced, sentences(sides), strict=True):
        expected = getattr(sentence, name)(axis=0) if len(sentence) else np.zeros(SIZE)
        assert_near(row, expected, rtol=1e-14)
    spoilt = jnp.where(packing.valid_N[:, None], packed, 7.0)  # on slots without a token
    assert_equal(getattr(packing, name)(spoilt), reduced)


def test_rows_summed_by_sentence_equal_the_sum_of_their_tokens(packing):
    table = random_array(5, SIZE)
    places = jnp.asarray(np.random.default_rng(2).integers(0, 5, packing.size))

    @jax.jit
    def sums(table):
        return packing.sum_rows(table, places)

    assert_near(sums(table), packing.sum(table[places]), rtol=1e-14)
    check_grads(sums, (table,), order=1, modes="rev", eps=1e-6, rtol=1e-6)


# ---- recurrences ----


def cell_step(cell, gate, recurrent, h, c):
    """(h, c) after a step of one sentence, by the published equations."""
    sigmoid = jax.nn.sigmoid
    if cell == "lstm":
        i, f, g, o = jnp.split(gate + h @ recurrent, 4)
        c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        return sigmoid(o) * jnp.tanh(c), c
    r, u, n = jnp.split(gate, 3)
    hr, hu, hn = jnp.split(h @ recurrent, 3)
    r = sigmoid(r + hr)
    u = sigmoid(u + hu)
    return (1 - u) * h + u * jnp.tanh(n + r * hn), c


@pytest.mark.parametrize(
    "cell, packing", [("lstm", "loose"), ("gru", "fitted")], indirect=["packing"]
)
def test_states_and_gradients_of_a_recurrence_are_those_of_unrolled_sentences(cell, packing):
    """JAX differentiates the unrolled sentences. Gates of slots without a token are not zero."""
    rng = np.random.default_rng(0)
    width = CELLS[cell].gates * SIZE
    shapes = ((packing.size, width), (SIZE, width), (width,))
    arguments = [jnp.asarray(rng.normal(size=shape)) for shape in shapes]
    weight_NH = random_slots(packing)
    first_slot = offsets(packing.segments)
    rank = np.asarray(packing.rank_R)
    keep_N1 = packing.valid_N[:, None].astype(weight_NH.dtype)

    def packed(transposes, gates, recurrent, bias):
        states = CELLS[cell].states
        (h_NH,) = states(
            (gates,),
            (recurrent,),
            (bias,),
            keep_N1,
            packing.segments,
            None,
            transposes,
        )
        return (weight_NH * h_NH).sum()

    def unrolled(gates, recurrent, bias):
        total = 0.0
        for sentence, length in enumerate(LENGTH):
            h = c = jnp.zeros(SIZE)
            for slot in first_slot[:length] + rank[sentence]:
                h, c = cell_step(cell, gates[slot] + bias, recurrent, h, c)
                total += (weight_NH[slot] * h).sum()
        return total

    def of_seeds(function):
        """(values, gradients) of three seeds in one program, each of which gets its own."""
        stacked = [jnp.stack([x, 2 * x, -x]) for x in arguments]
        values_and_slopes = jax.vmap(jax.value_and_grad(function, argnums=(0, 1, 2)))
        values, slopes = jax.jit(values_and_slopes)(*stacked)
        return values, *slopes

    expected = of_seeds(unrolled)
    assert min(abs(array).max() for array in expected) > 0.01
    for transposes in (False, True):
        for ours, theirs in zip(of_seeds(partial(packed, transposes)), expected, strict=True):
            assert ours.dtype == np.float64
            assert_near(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_a_prediction_that_ends_with_the_longest_sentence_computes_the_same_states(cell):
    """A prediction in one segment leaves out steps; a forward pass with gradients has them all."""
    packing = Packing(jnp.asarray(LENGTH), ((6, 9),), steps=6)
    width = CELLS[cell].gates * SIZE
    shapes = ((packing.size, width), (SIZE, width), (width,))
    keep_N1 = packing.valid_N[:, None].astype(float)

    def states(gates, recurrent, bias):
        fixed = keep_N1, packing.segments, None, False
        return CELLS[cell].states((gates,), (recurrent,), (bias,), *fixed)[0]

    arguments = [random_array(*shape, seed=seed) for seed, shape in enumerate(shapes)]

    assert_near(jax.jit(states)(*arguments), jax.vjp(states, *arguments)[0], rtol=1e-14)
