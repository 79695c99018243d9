"""Packed sentences: the tokens of a batch on one axis of slots, ordered by time step, then by
falling sentence length.

Dimension letters: R sentences (Q premises, then B hypotheses), N slots, F padded positions of both
sides, D feature. Segments ((steps, sentences), ...) define the slots: in each step of a segment,
the given number of longest sentences have a slot each. The caller must choose segments in which
every token has a slot (data.batching).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from mednli_jax.models.recurrence import offsets

# Energy of masked positions. exp underflows to exactly 0 in float32 and bfloat16. Unlike with -inf,
# a row without real positions stays finite.
MASKED_ENERGY = -1e9


def _take(x, index):
    """x[index], with zeros where the index is out of range."""
    return jnp.take(x, index, axis=0, mode="fill", fill_value=0)


@jax.custom_vjp
def reorder(parts, index, inverse):
    """The rows of the arrays `parts` in a new order, in as many arrays as `index` has.

    index: an array for each result and part. It has the part's row for each place, and a row out of
    range where the place gets a row of another part. inverse: the same in the other direction; the
    gradient is then a gather.
    """
    return [
        sum(_take(part, rows) for part, rows in zip(parts, of_part, strict=True))
        for of_part in index
    ]


def _reorder_forward(parts, index, inverse):
    return reorder(parts, index, inverse), inverse


def _reorder_backward(inverse, d_out):
    return (
        [
            sum(_take(d, rows) for d, rows in zip(d_out, of_part, strict=True))
            for of_part in inverse
        ],
        None,
        None,
    )


reorder.defvjp(_reorder_forward, _reorder_backward)


class Packing:
    """The slots of the tokens of a batch with sentences of length_R tokens.

    segments: ((steps, sentences), ...), see above; None gives every sentence `steps` slots.
    """

    def __init__(self, length_R, segments=None, *, steps: int = 0):
        self.length_R = length_R
        self.segments = segments or ((max(steps, 1), length_R.shape[0]),)
        at = offsets(self.segments)
        rows = np.diff(at)
        self.size, self._at, self._rows = int(at[-1]), at, rows
        self.time_N = np.repeat(np.arange(len(rows)), rows)
        self._rank_N = np.arange(self.size) - at[self.time_N]
        self.order_R = jnp.argsort(-length_R, stable=True)
        self.rank_R = (
            jnp.zeros_like(self.order_R).at[self.order_R].set(jnp.arange(length_R.shape[0]))
        )
        length_N = length_R[self.order_R][self._rank_N]
        self.valid_N = length_N > self.time_N
        self.sentence_N = self.order_R[self._rank_N]
        # The slot of the token that is as far from the end as this one is from the start. It is its
        # own inverse.
        mirrored = jnp.asarray(at)[jnp.maximum(length_N - 1 - self.time_N, 0)] + self._rank_N
        self.mirror_N = jnp.where(self.valid_N, mirrored, np.arange(self.size))

    def tokens(self, *sides):
        """[N], word numbers from padded sides [R_i, T_i]; 0 on slots without a token."""
        index = self._flat_of_slot([side.shape for side in sides])
        return sum(_take(side.reshape(-1), rows) for side, rows in zip(sides, index, strict=True))

    def token_keys(self, keys_R):
        """[N], the key of each slot's sentence."""
        return keys_R[self.sentence_N]

    def mirror(self, x_ND):
        """x with the tokens of every sentence in reverse order."""
        index = [[self.mirror_N]]
        return reorder([x_ND], index, index)[0]

    def unpack(self, x_ND, *shapes):
        """Padded sides [R_i, T_i, D] from slots, with zeros on padding. shapes: (R_i, T_i) of each
        side."""
        slots, flat = self._slot_of_flat(shapes), self._flat_of_slot(shapes)
        parts = reorder([x_ND], [[rows] for rows in slots], [flat])
        return [part.reshape(*shape, -1) for part, shape in zip(parts, shapes, strict=True)]

    def pack(self, *sides):
        """[N, D], slots from padded sides [R_i, T_i, D]; zeros on slots without a token."""
        shapes = [side.shape[:2] for side in sides]
        slots, flat = self._slot_of_flat(shapes), self._flat_of_slot(shapes)
        parts = [side.reshape(-1, side.shape[-1]) for side in sides]
        return reorder(parts, [flat], [[rows] for rows in slots])[0]

    def max(self, x_ND):
        """[R, D], the maximum over each sentence's tokens; zeros for a sentence without tokens."""
        masked_ND = jnp.where(self.valid_N[:, None], x_ND, MASKED_ENERGY)
        top_RD = self._reduce(masked_ND, jnp.maximum, MASKED_ENERGY)
        return jnp.where(self.length_R[:, None] > 0, top_RD, 0.0)

    def sum(self, x_ND):
        """[R, D], the sum over each sentence's tokens."""
        return self._reduce(jnp.where(self.valid_N[:, None], x_ND, 0.0), jnp.add, 0.0)

    def ends(self, states_ND):
        """[R, D], the last states of both directions: forward at the last token, backward at the
        first one."""
        forward, backward = jnp.split(states_ND, 2, axis=-1)
        last_R = jnp.asarray(self._at)[jnp.maximum(self.length_R - 1, 0)] + self.rank_R
        both_RD = jnp.concatenate([_take(forward, last_R), _take(backward, self.rank_R)], axis=-1)
        return jnp.where(self.length_R[:, None] > 0, both_RD, 0.0)

    def mean(self, x_ND):
        """[R, D], the mean over each sentence's tokens; zeros for a sentence without tokens."""
        return self.sum(x_ND) / jnp.maximum(self.length_R, 1)[:, None]

    def softmax_mean(self, energies_N1, x_ND):
        """[R, D], the mean weighted by a softmax of the tokens' energies; zeros for a sentence
        without tokens."""
        top_R1 = self.max(energies_N1)  # subtracted so that exp does not overflow
        weights_N1 = jnp.exp(energies_N1 - top_R1[self.sentence_N])
        sums_RD = self.sum(jnp.concatenate([weights_N1 * x_ND, weights_N1], axis=-1))
        return sums_RD[:, :-1] / jnp.where(self.length_R[:, None] > 0, sums_RD[:, -1:], 1.0)

    def _reduce(self, x_ND, combine, start):
        """Reduces step by step, which the compiler fuses better than one reduction; then restores
        the order."""
        sizes = [steps * rows for steps, rows in self.segments]
        result = jnp.full((self.length_R.shape[0], x_ND.shape[-1]), start, x_ND.dtype)
        for part, (steps, rows) in zip(
            jnp.split(x_ND, np.cumsum(sizes)[:-1]), self.segments, strict=True
        ):
            head, tail = jnp.split(result, [rows])
            head = functools.reduce(combine, part.reshape(steps, rows, -1), head)
            result = jnp.concatenate([head, tail])
        return reorder([result], [[self.rank_R]], [[self.order_R]])[0]

    def _flat_of_slot(self, shapes):
        """For each side [N], the place of each slot's token in the flat padded side [R T];
        otherwise out of range."""
        result, first = [], 0
        for rows, steps in shapes:
            own = self.valid_N & (self.sentence_N >= first) & (self.sentence_N < first + rows)
            result.append(
                jnp.where(own, (self.sentence_N - first) * steps + self.time_N, rows * steps)
            )
            first += rows
        return result

    def _slot_of_flat(self, shapes):
        """For each side [R T], the slot of each padded position; out of range on padding."""
        result, first = [], 0
        for rows, steps in shapes:
            at_T = jnp.asarray(self._at)[np.minimum(np.arange(steps), len(self._rows))]
            slot_RT = at_T + self.rank_R[first : first + rows, None]
            real_RT = np.arange(steps) < self.length_R[first : first + rows, None]
            result.append(jnp.where(real_RT, slot_RT, self.size).reshape(-1))
            first += rows
        return result
