"""Word vectors of a batch: looked up for each token or, if frozen, projected once for each distinct word.

Dimension letters: V vocabulary, D numbers per word, N tokens, U distinct words.
"""

from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp

from mednli_jax.models.products import BY_ROWS, dot, matmul
from mednli_jax.models.sparse_rows import trained_rows


@dataclass(frozen=True)
class Words:
    """Frozen vectors of tokens before the look-up, so that each distinct word is projected once.

    Args:
      table: [V, D].
      tokens: [N], word numbers.
      words: [U], the distinct word numbers.
      place: [N], the index of each token's word in `words`.
    """

    table: jax.Array
    tokens: jax.Array
    words: jax.Array
    place: jax.Array

    @property
    def shape(self):
        return (*self.tokens.shape, self.table.shape[-1])

    def mirrored(self, packing) -> "Words":
        """The tokens of every sentence in reverse order."""
        mirror = packing.mirror_N
        return Words(self.table, self.tokens[mirror], self.words, self.place[mirror])


def distinct_words(table_VD, tokens_N, most: int) -> Words:
    """The Words of tokens with at most `most` distinct words (further words would get NaN)."""
    seen_V = jnp.zeros(table_VD.shape[0], jnp.int32).at[tokens_N].set(1)
    place_N = (jnp.cumsum(seen_V) - 1)[tokens_N]
    words_U = jnp.zeros(most, tokens_N.dtype).at[place_N].set(tokens_N, mode="drop")
    return Words(table_VD, tokens_N, words_U, place_N)


def project(x, kernel):
    """x @ kernel, for an array [..., D] or for Words."""
    if not isinstance(x, Words):
        return matmul(x, kernel)
    return _project_words(kernel, x.table, x.tokens, x.words, x.place)


@jax.custom_vjp
def _project_words(kernel, table, tokens, words, place):
    return jnp.take(dot(jnp.matmul, table[words], kernel), place, axis=0)


def _project_words_forward(kernel, table, tokens, words, place):
    return _project_words(kernel, table, tokens, words, place), (table, tokens)


def _project_words_backward(saved, d_out):
    # Summing the gradients of equal words first would need a scatter, which costs more than this larger product.
    table, tokens = saved
    return dot(BY_ROWS, table[tokens], d_out), None, None, None, None


_project_words.defvjp(_project_words_forward, _project_words_backward)


class WordEmbedding(nn.Module):
    """Vectors of tokens [N] from the pretrained table of the `frozen` collection, or from a trained copy of it.

    The frozen table is not part of the optimiser state, the seed axis and the checkpoints.
    distinct: most distinct words among the tokens, with which frozen vectors are returned as Words; 0 = not known.
    """

    trainable: bool = False

    @nn.compact
    def __call__(self, tokens, *, distinct: int = 0):
        table_VD = self.get_variable("frozen", "vectors")
        if self.trainable:
            return trained_rows(self, "vectors", lambda key: table_VD, tokens)
        if distinct:
            return distinct_words(table_VD, tokens, distinct)
        return table_VD[tokens]
