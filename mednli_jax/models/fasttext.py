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
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.products import matmul
from mednli_jax.models.sparse_rows import trained_rows

# row of fastText's "</s>", which ends every text; the same number as padding
END = 0
MULTIPLIER = 116049371  # as in fastText


def spread(number: jax.Array) -> jax.Array:
    """Hashes small numbers to uint32 by the last steps of MurmurHash3 (Appleby 2011, fmix32).

    It replaces fastText's hash of the word's letters. Without a hash, word numbers would fall into
    few buckets.
    """
    bits = number.astype(jnp.uint32)
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x85EBCA6B)
    bits = (bits ^ (bits >> 13)) * jnp.uint32(0xC2B2AE35)
    hashed: jax.Array = bits ^ (bits >> 16)
    return hashed


def bigram(first: jax.Array, second: jax.Array, buckets: int) -> jax.Array:
    """The bucket of each ordered pair of word numbers, by fastText's formula in 32 bits."""
    number = spread(first) * jnp.uint32(MULTIPLIER) + spread(second)
    bucket: jax.Array = number % jnp.uint32(buckets)
    return bucket.astype(jnp.int32)


def bigrams(
    tokens_BT: jax.Array, length_B: jax.Array, after_B: jax.Array, buckets: int
) -> jax.Array:
    """int [B, T], the bigram of each token with the next one. The last token is followed by
    after_B."""
    next_BT = jnp.pad(tokens_BT[:, 1:], ((0, 0), (0, 1)))
    is_last_BT = jnp.arange(tokens_BT.shape[1]) == length_B[:, None] - 1
    return bigram(tokens_BT, jnp.where(is_last_BT, after_B[:, None], next_BT), buckets)


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
      buckets: rows of the table of bigrams, by hash. The library has 2 million, 800 MB that are
        hardly used.
      train_vectors: always True.
      product_dtype: see models.products.
      vocab_size: see layers.frozen_vectors.
    """

    dim: int = 100
    buckets: int = 1 << 17
    num_classes: int = 3
    train_vectors: bool = True
    product_dtype: DTypeLike | None = None
    vocab_size: int = 0

    shares_words = False  # words are not projected
    trains_rows = True

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        del train
        packing = layers.paired_sentences(batch)
        premise_BP, hypothesis_BH = layers.per_pair(batch.premise, batch), batch.hypothesis
        premise_B, hypothesis_B = layers.pair_lengths(batch)
        first_B = jnp.where(hypothesis_B > 0, hypothesis_BH[:, 0], END)
        end_B = jnp.full_like(first_B, END)
        bigram_BP = bigrams(premise_BP, premise_B, first_B, self.buckets)
        bigram_BH = bigrams(hypothesis_BH, hypothesis_B, end_B, self.buckets)
        word_N = packing.tokens(premise_BP, hypothesis_BH)
        bigram_N = packing.tokens(bigram_BP, bigram_BH)
        embedding = WordsAndBigrams(self.buckets, self.dim, self.vocab_size, name="embedding")
        rows = embedding(word_N, bigram_N)
        of_words_ND, of_bigrams_ND, end_1D = jnp.split(rows, [packing.size, 2 * packing.size])
        premise_BD, hypothesis_BD = jnp.split(packing.sum(of_words_ND + of_bigrams_ND), 2)
        # The words, the end token, and a bigram between any two neighbours.
        count_B = 2 * (premise_B + hypothesis_B) + 1
        mean_BD = (premise_BD + hypothesis_BD + end_1D) / count_B[:, None]
        output = self.param("output", nn.initializers.zeros, (self.dim, self.num_classes))
        return matmul(mean_BD, output, self.product_dtype)


class WordsAndBigrams(nn.Module):
    """Vectors of words, of bigrams and of the end token from one trained table [V + buckets, dim],
    initialised from U(-1 / dim, 1 / dim) as in fastText."""

    buckets: int
    dim: int
    vocab_size: int = 0

    @nn.compact
    def __call__(self, word_N: jax.Array, bigram_N: jax.Array) -> jax.Array:
        # The frozen vectors only give the number of words.
        words = len(layers.frozen_vectors(self, word_N, self.vocab_size, self.dim))
        index = jnp.concatenate([word_N, words + bigram_N, jnp.full((1,), END)])

        def init(key: jax.Array) -> jax.Array:
            bound = 1 / self.dim
            shape = words + self.buckets, self.dim
            return jax.random.uniform(key, shape, jnp.float32, -bound, bound)

        return trained_rows(self, "rows", init, index)
