"""Packed sentences: the tokens of a batch in one axis of slots, step by step, sentences sorted by falling length.

Dimension letters: R sentences (Q premises, then B hypotheses), N slots, F padded positions of both sides, D feature.
A staircase ((steps, sentences), ...) fixes the slots: at step t the first so many sentences have one. Whoever makes
it promises that no sentence has a token beyond it (data.batching).
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from mednli_jax.models.recurrence import offsets

# Energies of masked positions: exp underflows to exactly 0 in float32 and bfloat16, and unlike -inf a row with no
# real position stays finite.
MASKED_ENERGY = -1e9


@jax.custom_vjp
def reorder(x, index, inverse):
    """x[index] with zeros where the index is past the end; `inverse` undoes it, so that the gradient is a gather."""
    return _take(x, index)


def _take(x, index):
    return jnp.take(x, index, axis=0, mode="fill", fill_value=0)


reorder.defvjp(
    lambda x, index, inverse: (_take(x, index), inverse),
    lambda inverse, d_out: (_take(d_out, inverse), None, None),
)


class Packing:
    """Where the tokens of sentences of these lengths stand.

    length_R: tokens of each sentence. segments: the staircase; None computes every sentence to `steps`.
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
        self.rank_R = jnp.zeros_like(self.order_R).at[self.order_R].set(jnp.arange(length_R.shape[0]))
        length_N = length_R[self.order_R][self._rank_N]
        self.valid_N = length_N > self.time_N
        self.sentence_N = self.order_R[self._rank_N]
        # The slot of the token as far from the end as this one from the start; its own inverse.
        mirrored = jnp.asarray(at)[jnp.maximum(length_N - 1 - self.time_N, 0)] + self._rank_N
        self.mirror_N = jnp.where(self.valid_N, mirrored, np.arange(self.size))

    def tokens(self, *sides):
        """[N] word numbers from padded sides [R_i, T_i], 0 on slots without a token."""
        flat = jnp.concatenate([side.reshape(-1) for side in sides])
        return _take(flat, self._flat_of_slot(*(side.shape for side in sides)))

    def token_keys(self, keys_R):
        """[N] the key of each slot's sentence."""
        return keys_R[self.sentence_N]

    def mirror(self, x_ND):
        """Every sentence backwards."""
        return reorder(x_ND, self.mirror_N, self.mirror_N)

    def unpack(self, x_ND, *shapes):
        """Padded sides [R_i, T_i, D] with zeros on padding, from slots. shapes: (R_i, T_i) of each side."""
        flat = reorder(x_ND, self._slot_of_flat(*shapes), self._flat_of_slot(*shapes))
        parts = jnp.split(flat, np.cumsum([rows * steps for rows, steps in shapes])[:-1])
        return [part.reshape(*shape, -1) for part, shape in zip(parts, shapes, strict=True)]

    def pack(self, *sides):
        """[N, D] slots from padded sides [R_i, T_i, D]; zeros on slots without a token."""
        shapes = tuple(side.shape[:2] for side in sides)
        flat = jnp.concatenate([side.reshape(-1, side.shape[-1]) for side in sides])
        return reorder(flat, self._flat_of_slot(*shapes), self._slot_of_flat(*shapes))

    def max(self, x_ND):
        """[R, D] the maximum over each sentence's tokens; zeros where it has none."""
        top = self._reduce(jnp.where(self.valid_N[:, None], x_ND, MASKED_ENERGY), jnp.max, jnp.maximum, MASKED_ENERGY)
        return jnp.where(self.length_R[:, None] > 0, top, 0.0)

    def sum(self, x_ND):
        """[R, D] the sum over each sentence's tokens."""
        return self._reduce(jnp.where(self.valid_N[:, None], x_ND, 0.0), jnp.sum, jnp.add, 0.0)

    def mean(self, x_ND):
        """[R, D] the mean over each sentence's tokens; zeros where it has none."""
        return self.sum(x_ND) / jnp.maximum(self.length_R, 1)[:, None]

    def _reduce(self, x_ND, within, between, start):
        """Segment by segment, over steps; sorted sentences are put back in their order at the end."""
        sizes = [steps * rows for steps, rows in self.segments]
        result = jnp.full((self.length_R.shape[0], x_ND.shape[-1]), start, x_ND.dtype)
        for part, (steps, rows) in zip(jnp.split(x_ND, np.cumsum(sizes)[:-1]), self.segments, strict=True):
            part_RD = within(part.reshape(steps, rows, -1), axis=0)
            head, tail = jnp.split(result, [rows])
            result = jnp.concatenate([between(head, part_RD), tail])
        return reorder(result, self.rank_R, self.order_R)

    def _flat_of_slot(self, *shapes):
        """[N] position of each slot's token in the padded sides laid end to end; past the end where it has none."""
        base, first, start = jnp.zeros_like(self.sentence_N), 0, 0
        for rows, steps in shapes:
            inside = self.sentence_N >= first
            base = jnp.where(inside, start + (self.sentence_N - first) * steps, base)
            first, start = first + rows, start + rows * steps
        return jnp.where(self.valid_N, base + self.time_N, start)

    def _slot_of_flat(self, *shapes):
        """[F] slot of each padded position; past the end on padding."""
        sentence = np.concatenate([np.repeat(np.arange(r), t) for r, t in shapes])
        sentence = sentence + np.repeat(np.cumsum([0, *(r for r, _ in shapes)])[:-1], [r * t for r, t in shapes])
        time = np.concatenate([np.tile(np.arange(t), r) for r, t in shapes])
        slot = jnp.asarray(self._at)[np.minimum(time, len(self._rows))] + self.rank_R[sentence]
        return jnp.where(self.length_R[sentence] > time, slot, self.size)


def masked_softmax(energies, mask):
    """Softmax over the last axis, restricted to `mask` (broadcastable). A fully masked row gives zeros."""
    weights = nn.softmax(jnp.where(mask, energies, MASKED_ENERGY), axis=-1)
    return jnp.where(mask, weights, 0.0)
