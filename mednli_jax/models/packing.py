"""Packed sentences: the tokens of a batch on one axis of slots, ordered by time step, then by
falling sentence length.

Segments ((steps, sentences), ...) define the slots: in each step of a segment, the given number of
longest sentences have a slot each. The caller must choose segments in which every token has a slot
(data.batching).

Dimension letters: R sentences (Q premises, then B hypotheses), T padded tokens of a side, N slots,
F = R T padded positions of a side, D feature, U rows of a table.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from mednli_jax.data.batching import Segments
from mednli_jax.models.recurrence import offsets

# Energy of masked positions. exp underflows to exactly 0 in float32 and bfloat16. Unlike with -inf,
# a row without real positions stays finite.
MASKED_ENERGY = -1e9

Arrays = Sequence[jax.Array]
Shape = Sequence[int]  # (sentences, padded tokens) of a side


def _take(x: jax.Array, index: jax.Array) -> jax.Array:
    """x[index], with zeros for an index out of range."""
    return jnp.take(x, index, axis=0, mode="fill", fill_value=0)


def _sum_sources(sources: Arrays, index: Arrays) -> jax.Array:
    """The sum of source[rows] over the sources. Each place has a row of at most one source."""
    rows_of_sources = (_take(source, rows) for source, rows in zip(sources, index, strict=True))
    return cast(jax.Array, sum(rows_of_sources))


@jax.custom_vjp
def reorder(sources: Arrays, index: Sequence[Arrays], inverse: Sequence[Arrays]) -> list[jax.Array]:
    """Puts the rows of some arrays in a new order, in as many arrays as `index` has.

    Args:
      sources: arrays [rows, ...].
      index: for each result and each source, the row of the source for each place of the result;
        out of range for a place that gets a row of another source, or none.
      inverse: for each source and each result, the row of the result for each place of the source,
        so that the gradient is a gather, too.
    """
    return [_sum_sources(sources, of_result) for of_result in index]


def _reorder_forward(
    sources: Arrays, index: Sequence[Arrays], inverse: Sequence[Arrays]
) -> tuple[list[jax.Array], Sequence[Arrays]]:
    return reorder(sources, index, inverse), inverse


def _reorder_backward(
    inverse: Sequence[Arrays], d_out: Arrays
) -> tuple[list[jax.Array], None, None]:
    return [_sum_sources(d_out, of_source) for of_source in inverse], None, None


reorder.defvjp(_reorder_forward, _reorder_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _row_sums(rows_UD: jax.Array, place_N: jax.Array, segments: Segments) -> jax.Array:
    """The sum of each sentence's rows, the longest sentence first. Sentences without slots are left
    out.

    Sentences that end in the same segment are summed together. The compiler makes one loop of their
    gathers and sums, and never writes the gathered rows [N, D].

    Args:
      rows_UD: the table.
      place_N: the row of each slot; U on slots without a token, whose row is zero; U + 1: a row of
        NaN.
    """
    rows_UD = jnp.pad(rows_UD, ((0, 1), (0, 0)))
    rows_UD = jnp.pad(rows_UD, ((0, 1), (0, 0)), constant_values=jnp.nan)
    sizes = list(map(math.prod, segments))
    places = jnp.split(place_N, np.cumsum(sizes)[:-1])
    going_on = [sentences for _, sentences in segments[1:]] + [0]
    so_far, sums = [], []
    for place, (steps, sentences), longer in zip(places, segments, going_on, strict=True):
        so_far.append(place.reshape(steps, sentences))
        # E: the sentences that end in this segment
        place_TE = jnp.concatenate([place_TR[:, longer:sentences] for place_TR in so_far])
        sums.append(functools.reduce(jnp.add, [rows_UD[place_E] for place_E in place_TE]))
    return jnp.concatenate(sums[::-1])


def _row_sums_forward(
    rows_UD: jax.Array, place_N: jax.Array, segments: Segments
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _row_sums(rows_UD, place_N, segments), (jnp.zeros_like(rows_UD), place_N)


def _row_sums_backward(
    segments: Segments, saved: tuple[jax.Array, jax.Array], d_out_RD: jax.Array
) -> tuple[jax.Array, None]:
    zeros_UD, place_N = saved
    return zeros_UD.at[place_N].add(_to_slots(d_out_RD, segments), mode="drop"), None


_row_sums.defvjp(_row_sums_forward, _row_sums_backward)


def _to_slots(x_RD: jax.Array, segments: Segments) -> jax.Array:
    """Copies the row of each sentence, the longest first, to its slots."""
    return jnp.concatenate([jnp.tile(x_RD[:rows], (steps, 1)) for steps, rows in segments])


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _reduce(x_ND: jax.Array, segments: Segments, combine: Callable[..., jax.Array]) -> jax.Array:
    """Reduces each sentence's slots, the longest sentence first, by jnp.add or jnp.maximum: step by
    step, which the compiler fuses better than one reduction. Sentences without slots are left out.

    It has its own gradient, because that of a chain of steps has an operation for each step, which
    the compiler repeats in many of its loops.
    """
    sizes = list(map(math.prod, segments))
    parts = jnp.split(x_ND, np.cumsum(sizes)[:-1])
    start = MASKED_ENERGY if combine is jnp.maximum else 0.0
    result_RD = jnp.full((segments[0][1], x_ND.shape[-1]), start, x_ND.dtype)
    for part_ND, (steps, rows) in zip(parts, segments, strict=True):
        head, tail = jnp.split(result_RD, [rows])
        head = functools.reduce(combine, part_ND.reshape(steps, rows, -1), head)
        result_RD = jnp.concatenate([head, tail])
    return result_RD


def _reduce_forward(
    x_ND: jax.Array, segments: Segments, combine: Callable[..., jax.Array]
) -> tuple[jax.Array, Arrays]:
    result_RD = _reduce(x_ND, segments, combine)
    return result_RD, (x_ND, result_RD)


def _reduce_backward(
    segments: Segments, combine: Callable[..., jax.Array], saved: Arrays, d_RD: jax.Array
) -> tuple[jax.Array]:
    """Slots with an equal maximum get equal parts of its gradient."""
    if combine is jnp.add:
        return (_to_slots(d_RD, segments),)
    x_ND, top_RD = saved
    is_top_ND = x_ND == _to_slots(top_RD, segments)
    count_RD = _reduce(is_top_ND.astype(x_ND.dtype), segments, jnp.add)
    return (jnp.where(is_top_ND, _to_slots(d_RD / count_RD, segments), 0.0),)


_reduce.defvjp(_reduce_forward, _reduce_backward)


class Packing:
    """The slots of the tokens of a batch.

    Args:
      length_R: tokens of each sentence.
      segments: see above; None gives every sentence `steps` slots.

    Attributes:
      size: N.
      time_N, sentence_N: the time step and the sentence of each slot.
      valid_N: whether the slot has a token.
      order_R: the sentences from the longest to the shortest; rank_R: its inverse.
      mirror_N: the slot of the token that is as far from the end of its sentence as this one is
        from the start; its own inverse.
    """

    def __init__(
        self, length_R: jax.Array, segments: Segments | None = None, *, steps: int = 0
    ) -> None:
        sentences = length_R.shape[0]
        self.length_R = length_R
        self.segments = segments or ((max(steps, 1), sentences),)
        self._first_slot = offsets(self.segments)
        self.size = int(self._first_slot[-1])
        slots_of_step = np.diff(self._first_slot)
        self.time_N = np.repeat(np.arange(len(slots_of_step)), slots_of_step)
        rank_N = np.arange(self.size) - self._first_slot[self.time_N]
        self.order_R = jnp.argsort(-length_R, stable=True)
        ranks = jnp.zeros_like(self.order_R)
        self.rank_R = ranks.at[self.order_R].set(jnp.arange(sentences))
        length_N = length_R[self.order_R][rank_N]
        self.valid_N = length_N > self.time_N
        self.sentence_N = self.order_R[rank_N]
        mirrored_time_N = jnp.maximum(length_N - 1 - self.time_N, 0)
        mirror_N = jnp.asarray(self._first_slot)[mirrored_time_N] + rank_N
        self.mirror_N = jnp.where(self.valid_N, mirror_N, np.arange(self.size))

    # -- from padded sides to slots and back -----------------------------------------------------

    def tokens(self, *sides: jax.Array) -> jax.Array:
        """Word numbers [N] from padded sides [R_i, T_i]; 0 on slots without a token."""
        position = self._position_of_slot([side.shape for side in sides])
        return _sum_sources([side.reshape(-1) for side in sides], position)

    def token_keys(self, keys_R: jax.Array) -> jax.Array:
        """The key [N] of each slot's sentence."""
        return keys_R[self.sentence_N]

    def mirror(self, x_ND: jax.Array) -> jax.Array:
        """Reverses the tokens of every sentence."""
        index = [[self.mirror_N]]
        return reorder([x_ND], index, index)[0]

    def unpack(self, x_ND: jax.Array, *shapes: Shape) -> list[jax.Array]:
        """Padded sides [R_i, T_i, D] from slots, with zeros on padding. shapes: (R_i, T_i)."""
        slot, position = self._slot_of_position(shapes), self._position_of_slot(shapes)
        sides = reorder([x_ND], [[slot_F] for slot_F in slot], [position])
        return [x_FD.reshape(*shape, -1) for x_FD, shape in zip(sides, shapes, strict=True)]

    def pack(self, *sides: jax.Array) -> jax.Array:
        """Slots [N, D] from padded sides [R_i, T_i, D]; zeros on slots without a token."""
        shapes = [side.shape[:2] for side in sides]
        slot, position = self._slot_of_position(shapes), self._position_of_slot(shapes)
        sources = [side.reshape(-1, side.shape[-1]) for side in sides]
        return reorder(sources, [position], [[slot_F] for slot_F in slot])[0]

    def _position_of_slot(self, shapes: Sequence[Shape]) -> list[jax.Array]:
        """For each side [N], the place of each slot's token on the side's axis F; F if the token is
        of the other side, or the slot has none."""
        positions, first = [], 0
        for rows, width in shapes:
            sentence_N = self.sentence_N - first
            is_own_N = self.valid_N & (self.sentence_N >= first) & (self.sentence_N < first + rows)
            position_N = sentence_N * width + self.time_N
            positions.append(jnp.where(is_own_N, position_N, rows * width))
            first += rows
        return positions

    def _slot_of_position(self, shapes: Sequence[Shape]) -> list[jax.Array]:
        """For each side [F], the slot of each padded position; N on padding."""
        slots, first = [], 0
        for rows, width in shapes:
            own = slice(first, first + rows)
            time_T = np.arange(width)
            last_step = len(self._first_slot) - 1
            first_slot_T = jnp.asarray(self._first_slot)[np.minimum(time_T, last_step)]
            slot_RT = first_slot_T + self.rank_R[own, None]
            is_real_RT = time_T < self.length_R[own, None]
            slots.append(jnp.where(is_real_RT, slot_RT, self.size).reshape(-1))
            first += rows
        return slots

    # -- reductions ------------------------------------------------------------------------------

    def max(self, x_ND: jax.Array) -> jax.Array:
        """The maximum over each sentence's tokens, [R, D]; zeros for a sentence without tokens."""
        masked_ND = jnp.where(self.valid_N[:, None], x_ND, MASKED_ENERGY)
        top_RD = self._by_sentence(_reduce(masked_ND, self.segments, jnp.maximum))
        return jnp.where(self.length_R[:, None] > 0, top_RD, 0.0)

    def sum(self, x_ND: jax.Array) -> jax.Array:
        """The sum over each sentence's tokens, [R, D]."""
        valid_ND = jnp.where(self.valid_N[:, None], x_ND, 0.0)
        return self._by_sentence(_reduce(valid_ND, self.segments, jnp.add))

    def sum_rows(self, rows_UD: jax.Array, place_N: jax.Array) -> jax.Array:
        """The sum of rows_UD[place_N] over each sentence's tokens, [R, D]; NaN if a place has no
        row."""
        rows = rows_UD.shape[0]
        place_N = jnp.where(place_N < rows, place_N, rows + 1)
        place_N = jnp.where(self.valid_N, place_N, rows)
        return self._by_sentence(_row_sums(rows_UD, place_N, self.segments))

    def mean(self, x_ND: jax.Array) -> jax.Array:
        """The mean over each sentence's tokens, [R, D]; zeros for a sentence without tokens."""
        return self.sum(x_ND) / jnp.maximum(self.length_R, 1)[:, None]

    def softmax_mean(self, energies_N1: jax.Array, x_ND: jax.Array) -> jax.Array:
        """The mean weighted by a softmax of the tokens' energies, [R, D]; zeros for a sentence
        without tokens."""
        top_R1 = self.max(energies_N1)  # subtracted so that exp does not overflow
        weights_N1 = jnp.exp(energies_N1 - top_R1[self.sentence_N])
        sums_RD = self.sum(jnp.concatenate([weights_N1 * x_ND, weights_N1], axis=-1))
        return sums_RD[:, :-1] / jnp.where(self.length_R[:, None] > 0, sums_RD[:, -1:], 1.0)

    def ends(self, states_ND: jax.Array) -> jax.Array:
        """The last states of both directions, [R, D]: forward at the last token, backward at the
        first one; zeros for a sentence without tokens."""
        forward, backward = jnp.split(states_ND, 2, axis=-1)
        last_time_R = jnp.maximum(self.length_R - 1, 0)
        last_R = jnp.asarray(self._first_slot)[last_time_R] + self.rank_R
        both_RD = jnp.concatenate([_take(forward, last_R), _take(backward, self.rank_R)], axis=-1)
        return jnp.where(self.length_R[:, None] > 0, both_RD, 0.0)

    def _by_sentence(self, x_RD: jax.Array) -> jax.Array:
        """Puts rows, the longest sentence first, in the order of the sentences; zeros for sentences
        without slots."""
        missing = len(self.length_R) - len(x_RD)
        x_RD = jnp.pad(x_RD, ((0, missing), (0, 0)))
        return reorder([x_RD], [[self.rank_R]], [[self.order_R]])[0]
