"""fastText's supervised mode: the mean of word and bigram vectors, and one linear layer (Joulin et
al. 2017).

Dimension letters: B pairs, Q premises, P premise tokens, H hypothesis tokens, T tokens of either, N
slots of packed sentences, V vocabulary, D feature.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from mednli_jax.models import layers
from mednli_jax.models.products import matmul
from mednli_jax.models.sparse_rows import trained_rows

# row of fastText's "</s>", which ends every text; the same number as padding
END = 0
MULTIPLIER = 116049371  # as in fastText


def spread(number):
    """A uint32 hash of small numbers: the last steps of MurmurHash3 (Appleby 2011, fmix32).

    It replaces fastText's hash of the word's letters. Without a hash, word numbers would fall into
    few buckets.
    """
    number = number.astype(jnp.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        number = (number ^ (number >> shift)) * jnp.uint32(factor)
    return number ^ (number >> 16)


def bigram(first, second, buckets: int):
    """The bucket of each ordered pair of word numbers, by fastText's formula in 32 bits."""
    number = spread(first) * jnp.uint32(MULTIPLIER) + spread(second)
    return (number % jnp.uint32(buckets)).astype(jnp.int32)


def following(tokens_BT, length_B, last_B):
    """[B, T], the token after each token; after the last one (by length_B) it is last_B."""
    next_BT = jnp.pad(tokens_BT[:, 1:], ((0, 0), (0, 1)))
    return jnp.where(
        jnp.arange(tokens_BT.shape[1]) == length_B[:, None] - 1, last_B[:, None], next_BT
    )


class FastText(nn.Module):
    """Mean of the vectors of a text's words and bigrams -> linear layer without bias -> logits [B,
    classes].

    The text is the premise, the hypothesis and an end token (Herlihy & Rudinger 2021, section 6),
    with bigrams across the borders. With empty premises it is the hypothesis only (section 3). As
    in the library, vectors start small and the linear layer at 0. Training is plain SGD on the rows
    that a batch reads (sparse_rows). All unknown words share one vector; the library ignores
    unknown words, but not their bigrams.

    Args:
      dim: D.
      buckets: rows of the table of bigrams, by hash. The library has 2 million, 800 MB that are hardly used.
      train_vectors: always True.
      product_dtype: see models.products.
    """

    dim: int = 100
    buckets: int = 1 << 17
    num_classes: int = 3
    train_vectors: bool = True
    product_dtype: DTypeLike | None = None

    shares_words = False  # words are not projected
    trains_rows = True

    @nn.compact
    def __call__(self, batch, *, train: bool):
        del train
        # The frozen vectors only give the number of words.
        words = self.variables["frozen"]["embedding"]["vectors"].shape[0]
        packing = layers.paired_sentences(batch)
        premise_BP, hypothesis_BH = layers.per_pair(batch.premise, batch), batch.hypothesis
        premise_B, hypothesis_B = layers.pair_lengths(batch)
        first_B = jnp.where(hypothesis_B > 0, hypothesis_BH[:, 0], END)
        bigrams = (
            bigram(premise_BP, following(premise_BP, premise_B, first_B), self.buckets),
            bigram(
                hypothesis_BH,
                following(hypothesis_BH, hypothesis_B, jnp.full_like(first_B, END)),
                self.buckets,
            ),
        )
        word_N, bigram_N = packing.tokens(premise_BP, hypothesis_BH), packing.tokens(*bigrams)
        index = jnp.concatenate([word_N, words + bigram_N, jnp.full((1,), END)])
        rows = TrainedRows(words + self.buckets, self.dim, name="embedding")(index)
        of_words_ND, of_bigrams_ND, end_1D = jnp.split(rows, [packing.size, 2 * packing.size])
        of_premises_BD, of_hypotheses_BD = jnp.split(packing.sum(of_words_ND + of_bigrams_ND), 2)
        # The words, the end token, and a bigram between any two neighbours.
        count_B = 2 * (premise_B + hypothesis_B) + 1
        mean_BD = (of_premises_BD + of_hypotheses_BD + end_1D) / count_B[:, None]
        output = self.param("output", nn.initializers.zeros, (self.dim, self.num_classes))
        return matmul(mean_BD, output, self.product_dtype)


class TrainedRows(nn.Module):
    """Rows of a trained table [rows, dim], initialised from U(-1 / dim, 1 / dim) as in fastText."""

    rows: int
    dim: int

    @nn.compact
    def __call__(self, index_N):
        def init(key):
            return jax.random.uniform(
                key, (self.rows, self.dim), jnp.float32, -1 / self.dim, 1 / self.dim
            )

        return trained_rows(self, "rows", init, index_N)
