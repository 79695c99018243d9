"""Layers shared by the models: masks, row-keyed dropout, masked batch norm, bidirectional RNNs,
knowledge attention.

Dimension letters: B pairs, Q premises, T tokens (P of a premise, H of a hypothesis), R sentences, N
slots of packed sentences (models.packing), D feature, K links of a pair, L path lengths, V
vocabulary, U distinct words. In `Relations` R is the number of relation types.

In all layers, padding (tokens after a row's length, rows whose `mask` is 0) never changes the
results of real rows. `dtype` is that of the operands of products (models.products).
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike

from mednli_jax.models import sparse_rows, stacked
from mednli_jax.models.batch import PairBatch, QueryBatch
from mednli_jax.models.packing import MASKED_ENERGY, Packing
from mednli_jax.models.products import matmul
from mednli_jax.models.recurrence import CELLS

# collection for the attention weights of models; filled where the caller makes it mutable
ATTENTION = "intermediates"
# standard deviation of vectors that `init` draws
RANDOM_SD = 0.4


# (key, shape, dtype) -> random weights
Initializer = Callable[..., jax.Array]


def uniform_init(fan_in: int) -> Initializer:
    """Initialises from U(-1/sqrt(fan_in), 1/sqrt(fan_in)): PyTorch's default for Linear and (with
    fan_in = hidden) for LSTM and GRU."""
    bound = fan_in**-0.5

    def init(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


@dataclass(frozen=True)
class Words:
    """The vectors of tokens, with one row for each distinct word, so that layers compute each word
    once (see `on_words`)."""

    vectors: jax.Array  # [U, D], of the distinct words
    place: jax.Array  # [N], the row of each token's word

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (N, D) of the vectors of all tokens."""
        return (*self.place.shape, self.vectors.shape[-1])

    def mirror(self, packing: Packing) -> "Words":
        """The tokens of every sentence in reverse order."""
        return Words(self.vectors, self.place[packing.mirror_N])


def distinct_words(table_VD: jax.Array, tokens_N: jax.Array, most: int) -> Words:
    """The Words of tokens with at most `most` distinct words; further words would get NaN."""
    seen_V = jnp.zeros(table_VD.shape[0], jnp.int32).at[tokens_N].set(1)
    place_N = (jnp.cumsum(seen_V) - 1)[tokens_N]
    words_U = jnp.zeros(most, tokens_N.dtype).at[place_N].set(tokens_N, mode="drop")
    return Words(table_VD[words_U], place_N)


def on_words(layer: Callable[[jax.Array], jax.Array], x: jax.Array | Words) -> jax.Array | Words:
    """Applies a layer to x; to Words once for each distinct word.

    The gradient is summed over the tokens of a word before it reaches the layer.
    """
    return Words(layer(x.vectors), x.place) if isinstance(x, Words) else layer(x)


def per_token(x: jax.Array | Words) -> jax.Array:
    """The vector of each token, [N, D]; NaN for words beyond the room of Words."""
    return jnp.take(x.vectors, x.place, axis=0) if isinstance(x, Words) else x


def sum_of_tokens(x: jax.Array | Words, packing: Packing) -> jax.Array:
    """The sum over each sentence's tokens, [R, D]; NaN as in `per_token`."""
    return packing.sum_rows(x.vectors, x.place) if isinstance(x, Words) else packing.sum(x)


def project(x: jax.Array | Words, kernel: jax.Array, dtype: DTypeLike | None) -> jax.Array:
    """Multiplies each token by the kernel: x @ kernel."""
    return per_token(on_words(lambda vectors: matmul(vectors, kernel, dtype), x))


def frozen_vectors(module: nn.Module, tokens_N: jax.Array, vocab_size: int, size: int) -> jax.Array:
    """The pretrained table [V, D] of the `frozen` collection, which is not part of the optimiser
    state, the seed axis and the checkpoints.

    `init` draws a table that it is not given from N(0, RANDOM_SD^2), [vocab_size, size]. With a
    vocab_size of 0 it has a row for each number up to the largest of the tokens, which must not be
    traced (`jax.jit` of `init`).
    """

    def drawn() -> jax.Array:
        words = vocab_size or 1 + int(tokens_N.max())
        return RANDOM_SD * jax.random.normal(module.make_rng("params"), (words, size))

    table_VD: jax.Array = module.variable("frozen", "vectors", drawn).value
    return table_VD


class WordEmbedding(nn.Module):
    """Vectors of tokens [N] from the table of frozen_vectors, or from a trained copy of it.

    distinct: most distinct words among the tokens, if each is to be projected once; 0 for vectors
    of tokens.
    """

    trainable: bool = False
    vocab_size: int = 0
    size: int = 300
    distinct: int = 0

    @nn.compact
    def __call__(self, tokens_N: jax.Array) -> jax.Array | Words:
        table_VD = frozen_vectors(self, tokens_N, self.vocab_size, self.size)
        if self.trainable:
            return sparse_rows.trained_rows(self, "vectors", lambda key: table_VD, tokens_N)
        if self.distinct:
            return distinct_words(table_VD, tokens_N, self.distinct)
        return table_VD[tokens_N]


class Linear(nn.Module):
    """y = x W + b, or x W, over the last axis; weights and bias start as in PyTorch's Linear."""

    features: int
    biased: bool = True
    product_dtype: DTypeLike | None = None

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        fan_in = x.shape[-1]
        init = uniform_init(fan_in)
        kernel = self.param("kernel", init, (fan_in, self.features))
        y = matmul(x, kernel, self.product_dtype)
        if self.biased:
            y = y + self.param("bias", init, (self.features,))
        return y


def length_mask(length_B: jax.Array, size: int) -> jax.Array:
    """bool [B, size], whether each place is a real token."""
    return jnp.arange(size) < length_B[:, None]


def masked_softmax(energies: jax.Array, mask: jax.Array) -> jax.Array:
    """Softmax over the last axis, restricted to `mask` (broadcastable). A fully masked row gives
    zeros."""
    weights = nn.softmax(jnp.where(mask, energies, MASKED_ENERGY), axis=-1)
    return jnp.where(mask, weights, 0.0)


def masked_max(states_BTD: jax.Array, mask_BT: jax.Array) -> jax.Array:
    """Maximum over real tokens, [B, D]; zeros for a row without tokens (padding rows)."""
    top = jnp.max(jnp.where(mask_BT[..., None], states_BTD, MASKED_ENERGY), axis=1)
    return jnp.where(mask_BT.any(axis=1)[:, None], top, 0.0)


def masked_sum(states_BTD: jax.Array, mask_BT: jax.Array) -> jax.Array:
    """Sum over real tokens, [B, D]."""
    return jnp.sum(jnp.where(mask_BT[..., None], states_BTD, 0.0), axis=1)


def masked_mean(states_BTD: jax.Array, mask_BT: jax.Array) -> jax.Array:
    """Mean over real tokens, [B, D]; zeros for a row without tokens."""
    count_B = jnp.maximum(mask_BT.sum(axis=1), 1)
    return masked_sum(states_BTD, mask_BT) / count_B[:, None]


BatchT = TypeVar("BatchT", PairBatch, QueryBatch)


def with_keys(model: nn.Module, batch: BatchT, rate: float, *, train: bool) -> BatchT:
    """The batch with keys of dropout: its own, else keys from the random numbers `dropout` of
    `apply`; None where nothing is dropped."""
    keys_B = None
    if train and rate > 0:
        keys_B = batch.row_key
        if keys_B is None:
            keys_B = jax.random.split(model.make_rng("dropout"), len(batch.mask))
    return replace(batch, row_key=keys_B)


class RowDropout(nn.Module):
    """Dropout with a key for each row: fold_in(seed, step, row, layer).

    `keys` [B] already fold seed, step and the row's number in the data set; without keys nothing is
    dropped. The layer is the path of this module. The mask of a row therefore does not depend on
    its place in the batch or on the number of devices. If rows are tokens, `time` [B] is folded in,
    so that the mask does not depend on the padded length.
    """

    rate: float

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        keys: jax.Array | None,
        time: np.ndarray | jax.Array | None = None,
    ) -> jax.Array:
        if keys is None:
            return x
        layer = zlib.crc32("/".join(self.path).encode())
        keep_rate = 1.0 - self.rate

        def mask_of_row(key: jax.Array, t: np.ndarray | jax.Array | None) -> jax.Array:
            key = jax.random.fold_in(key, layer)
            key = key if t is None else jax.random.fold_in(key, t)
            return jax.random.bernoulli(key, keep_rate, x.shape[1:])

        mask = jax.vmap(mask_of_row)(keys, time)
        return jnp.where(mask, x / keep_rate, 0.0)


def drop_tokens(
    rate: float,
    x_ND: jax.Array,
    packing: Packing,
    keys_R: jax.Array | None,
    name: str,
) -> jax.Array:
    """RowDropout of packed tokens. The mask depends on the sentence (keys_R) and the token's place
    in it."""
    if keys_R is None:
        return x_ND
    return RowDropout(rate, name=name)(x_ND, packing.token_keys(keys_R), packing.time_N)


Sums = TypeVar("Sums", jax.Array, tuple[jax.Array, jax.Array])


class MaskedBatchNorm(nn.Module):
    """Batch normalisation, without scale and bias, over real rows of the global batch (Ioffe &
    Szegedy 2015, alg. 1).

    linen's BatchNorm averages per-device masked means, which is wrong for uneven masks and NaN on a
    device that holds only padding. Here (n, sum) and then the sum of squared deviations are summed
    over devices. (The mean of squares minus the squared mean would lose precision where the mean is
    large.) As in PyTorch, the biased variance normalises the batch, and the unbiased one updates
    the running variance.
    """

    momentum: float = 0.9
    epsilon: float = 1e-5
    axis_name: str | None = None

    @nn.compact
    def __call__(self, x_BD: jax.Array, mask_B: jax.Array, *, train: bool) -> jax.Array:
        size = x_BD.shape[-1]
        mean_D = self.variable("batch_stats", "mean", jnp.zeros, (size,))
        variance_D = self.variable("batch_stats", "variance", jnp.ones, (size,))
        mean, variance = mean_D.value, variance_D.value
        if train and not self.is_initializing():
            mean, variance = self._batch_moments(x_BD, mask_B, mean_D, variance_D)
        return (x_BD - mean) * lax.rsqrt(variance + self.epsilon)

    def _batch_moments(
        self, x_BD: jax.Array, mask_B: jax.Array, mean_D: nn.Variable, variance_D: nn.Variable
    ) -> tuple[jax.Array, jax.Array]:
        """The (mean [D], biased variance [D]) of the global batch. Updates the running
        statistics."""
        weight_B1 = mask_B.astype(x_BD.dtype)[:, None]

        def over_devices(sums: Sums) -> Sums:
            return sums if self.axis_name is None else lax.psum(sums, self.axis_name)

        n, total = over_devices((weight_B1.sum(), (weight_B1 * x_BD).sum(axis=0)))
        rate = jnp.where(n > 0, 1 - self.momentum, 0.0)  # no update without rows
        n = jnp.maximum(n, 1.0)
        mean = total / n
        variance = over_devices((weight_B1 * (x_BD - mean) ** 2).sum(axis=0)) / n
        unbiased = variance * n / jnp.maximum(n - 1.0, 1.0)
        mean_D.value = (1 - rate) * mean_D.value + rate * mean
        variance_D.value = (1 - rate) * variance_D.value + rate * unbiased
        return mean, variance


class BiRNN(nn.Module):
    """Bidirectional LSTM or GRU over packed sentences: x [N, D] (or Words) -> states [N, 2H], 0 on
    empty slots.

    The backward direction reads mirrored sentences, so that both directions use the same segments
    of steps.

    Args:
      hidden_size: H, of each direction.
      cell: "lstm" or "gru".
      lasagne: whether weights start as in Lasagne's GRU, N(0, 0.1^2) and biases 0; otherwise as in
        PyTorch.
      platform: of the device. A GPU runs the loops of `stacked`, other devices those of
        `recurrence`.
      transposes: of a loop of `recurrence`, see `recurrence.lstm`.
    """

    hidden_size: int
    cell: str = "lstm"
    lasagne: bool = False
    platform: str = "cpu"
    product_dtype: DTypeLike | None = None
    transposes: bool = False

    def __call__(self, x: jax.Array | Words, packing: Packing) -> jax.Array:
        forward_NH, mirrored_NH = self.directions(x, packing)
        return jnp.concatenate([forward_NH, packing.mirror(mirrored_NH)], axis=-1)

    @nn.compact
    def directions(self, x: jax.Array | Words, packing: Packing) -> tuple[jax.Array, jax.Array]:
        """States [N, H] of both directions. The backward direction has the states of mirrored
        sentences."""
        width = CELLS[self.cell].gates * self.hidden_size
        init = nn.initializers.normal(0.1) if self.lasagne else uniform_init(self.hidden_size)
        init_bias = nn.initializers.zeros if self.lasagne else init
        kernel = self.param("kernel", init, (x.shape[-1], 2 * width))
        recurrent = self.param("recurrent", init, (2, self.hidden_size, width))
        bias = self.param("bias", init_bias, (2 * width,))
        if self.platform == "gpu":
            return self._stacked_states(x, kernel, recurrent, bias, packing)
        mirrored = x.mirror(packing) if isinstance(x, Words) else packing.mirror(x)
        forward_kernel, backward_kernel = jnp.split(kernel, 2, axis=1)
        forward_bias, backward_bias = jnp.split(bias, 2)
        gates = (
            project(x, forward_kernel, self.product_dtype),
            project(mirrored, backward_kernel, self.product_dtype),
        )
        forward_NH, mirrored_NH = CELLS[self.cell].states(
            gates,
            tuple(recurrent),
            (forward_bias, backward_bias),
            packing.valid_N[:, None].astype(bias.dtype),
            packing.segments,
            self.product_dtype,
            self.transposes,
        )
        return forward_NH, mirrored_NH

    def _stacked_states(
        self,
        x: jax.Array | Words,
        kernel: jax.Array,
        recurrent: jax.Array,
        bias: jax.Array,
        packing: Packing,
    ) -> tuple[jax.Array, jax.Array]:
        """States [N, H] of both directions by the loops for GPUs, whose hidden size is padded."""
        size, gates = self.hidden_size, CELLS[self.cell].gates
        extra = stacked.padded_size(size) - size

        def pad(weights: jax.Array, *leading: int) -> jax.Array:
            """Extends weights [..., K, H] by zeros for additional units."""
            weights = weights.reshape(*leading, gates, size)
            return jnp.pad(weights, [(0, 0)] * (weights.ndim - 1) + [(0, extra)])

        kernel_D2KH, bias_2KH = pad(kernel, -1, 2), pad(bias, 2)
        recurrent_H2KH = pad(recurrent, 2, size).swapaxes(0, 1)
        recurrent_H2KH = jnp.pad(recurrent_H2KH, ((0, extra), (0, 0), (0, 0), (0, 0)))
        projected = project(x, kernel_D2KH.reshape(x.shape[-1], -1), self.product_dtype)
        projected_N2KH = (projected + bias_2KH.reshape(-1)).reshape(-1, *bias_2KH.shape)
        forward_NKH, backward_NKH = projected_N2KH[:, 0], packing.mirror(projected_N2KH[:, 1])
        states_N2H = stacked.CELLS[self.cell](
            jnp.stack([forward_NKH, backward_NKH], axis=1),
            recurrent_H2KH,
            packing.valid_N[:, None].astype(bias.dtype),
            packing.segments,
            self.product_dtype,
        )
        return states_N2H[:, 0, :size], states_N2H[:, 1, :size]


class PairModel(nn.Module):
    """The fields that all models of sentence pairs have.

    Args:
      knowledge, masking: see each model.
      longest_path, knowledge_scale: see KnowledgeEnergies.
      weighting: of KnowledgeEnergies; "auto" is "learned" for knowledge "bias", otherwise "paper".
      platform: of the device.
      transposes: see BiRNN.
      vocab_size, embedding_size: of the table of words that `init` draws, see frozen_vectors.
    """

    hidden_size: int = 300
    num_classes: int = 3
    train_vectors: bool = False
    knowledge: str = "none"
    weighting: str = "auto"
    masking: str = "masked"
    longest_path: int = 0
    knowledge_scale: float = 1.0
    platform: str = "cpu"
    product_dtype: DTypeLike | None = None
    transposes: bool = False
    vocab_size: int = 0
    embedding_size: int = 300

    def linear(self, features: int, name: str, *, biased: bool = True) -> Linear:
        """A Linear with products of the model's `product_dtype`."""
        return Linear(features, biased, self.product_dtype, name=name)

    def embed(self, batch: PairBatch, packing: Packing) -> jax.Array | Words:
        """The vectors [N, D] of the packed words."""
        tokens_N = packing.tokens(batch.premise, batch.hypothesis)
        embedding = WordEmbedding(
            self.train_vectors,
            self.vocab_size,
            self.embedding_size,
            batch.distinct_words if self.shares_words else 0,
            name="embedding",
        )
        return embedding(tokens_N)

    def birnn(self, name: str, cell: str = "lstm") -> BiRNN:
        """A BiRNN of the model's hidden size, for its platform and `product_dtype`."""
        return BiRNN(
            self.hidden_size,
            cell,
            platform=self.platform,
            product_dtype=self.product_dtype,
            transposes=self.transposes,
            name=name,
        )

    @property
    def shares_words(self) -> bool:
        """Whether equal words of a batch are projected once, which needs frozen vectors."""
        return not self.train_vectors and self.platform == "cpu"


class Linked(Protocol):
    """A model that reads ontology links, by its fields, see PairModel."""

    knowledge: str
    weighting: str
    longest_path: int
    knowledge_scale: float


def knowledge_energies(model: Linked, batch: PairBatch) -> jax.Array:
    """The KnowledgeEnergies [B, P, H] by the fields of a model."""
    weighting = model.weighting
    if weighting == "auto":
        weighting = "learned" if model.knowledge == "bias" else "paper"
    energies = KnowledgeEnergies(
        weighting, model.longest_path, model.knowledge_scale, name="knowledge"
    )
    return energies(batch)


class KnowledgeEnergies(nn.Module):
    """Dense energies [B, P, H] from a batch's sparse ontology links.

    Args:
      weighting: "paper": scale * A, A = 1 - d / longest path of the corpus, 0 without a path, 1
        for the same concept (Romanov & Shivade 2018, section 4.2.2; their scale is 1, with which a
        softmax over 20 tokens is almost flat);
        "exp": scale * exp(-d), which does not depend on the longest path and is never 0;
        "learned": one weight per path length, started at scale * A; longer paths than longest_path
        share the last one.
      longest_path: of the corpus, in edges.
      scale: factor of the weights.
    """

    weighting: str
    longest_path: int
    scale: float = 1.0

    @nn.compact
    def __call__(self, batch: PairBatch) -> jax.Array:
        path_L = jnp.arange(self.longest_path + 1)
        if self.weighting == "exp":
            weights_L = self.scale * jnp.exp(-path_L)
        else:
            weights_L = self.scale * (1.0 - path_L / max(self.longest_path, 1))
        if self.weighting == "learned":
            weights_L = self.param("path_weight", lambda key: weights_L)
        distance_BK = batch.link_distance.astype(jnp.int32)
        value_BK = sparse_rows.take(weights_L, jnp.clip(distance_BK, 0, self.longest_path))
        value_BK = jnp.where(distance_BK >= 0, value_BK, 0.0)
        return _at_links(batch, value_BK)


def _at_links(batch: PairBatch, value_BK: jax.Array) -> jax.Array:
    """Puts the value of each link at its two tokens: [B, P, H]; 0 elsewhere."""
    size = batch.attention_shape
    rows_B1 = jnp.arange(size[0])[:, None]
    premise_BK, hypothesis_BK = batch.linked_tokens
    # Links are unique per token pair, so that adding sets the value. Empty links add 0. Links to
    # tokens beyond the batch's width are dropped.
    zeros_BPH = jnp.zeros(size, value_BK.dtype)
    return zeros_BPH.at[rows_B1, premise_BK, hypothesis_BK].add(value_BK, mode="drop")


class Attention(NamedTuple):
    """The attention weights of each token; rows sum to 1."""

    over_hypothesis: jax.Array  # [B, P, H], of the premise tokens
    over_premise: jax.Array  # [B, H, P], of the hypothesis tokens


RELATION_STEPS = 8  # number of is-a edges from which on a hypernym has the value 0
_SAME = 0  # the type of equal words
# the types whose value falls with the distance: hypernym, hyponym
_IS_A = (3, 4)
# number of types before the named relations, each of which has two types: forward and inverse
_KINDS = 6


class Relations:
    """Sparse relation vectors r_ij of a batch's typed links (Chen et al. 2018, section 3.1).

    A vector has one number for each bit of `link_relation`: 0 where the bit is not set, otherwise
    1; for hypernyms and hyponyms over n is-a edges max(1 - n / 8, 0). In r_ji hypernym and hyponym
    are exchanged, and so are the two directions of each named relation.

    Args:
      kinds: R, the number of relation types.
      same_words: False clears the bit of equal words, which the paper does not have.
    """

    def __init__(self, batch: PairBatch, kinds: int, *, same_words: bool = True) -> None:
        bits_BK = batch.link_relation.astype(jnp.uint32)
        if not same_words:
            bits_BK = bits_BK & ~jnp.uint32(1 << _SAME)
        closeness_BK = jnp.clip(1.0 - batch.link_distance / RELATION_STEPS, 0.0, 1.0)
        is_a_R = jnp.isin(jnp.arange(kinds), jnp.array(_IS_A))
        is_set_BKR = (bits_BK[..., None] >> jnp.arange(kinds, dtype=jnp.uint32)) & 1
        self.value_BKR = is_set_BKR * jnp.where(is_a_R, closeness_BK[..., None], 1.0)
        inverses = [kind ^ 1 for kind in range(_KINDS, kinds)]
        self.inverse_BKR = self.value_BKR[..., jnp.array([0, 1, 2, 4, 3, 5, *inverses])]
        self._batch = batch

    def energies(self, scale: float) -> jax.Array:
        """The term that knowledge-enriched co-attention adds, scale * 1[r_ij is not 0]: [B, P,
        H]."""
        related_BK = (self.value_BKR > 0).any(axis=-1).astype(self.value_BKR.dtype)
        return _at_links(self._batch, scale * related_BK)

    def attended_relations(self, weights: Attention) -> tuple[jax.Array, jax.Array]:
        """The attended relations (sums of alpha_ij r_ij over j [B, P, R], sums of beta_ij r_ji over
        i [B, H, R])."""
        rows, premises, hypotheses = self._batch.attention_shape
        rows_B1 = jnp.arange(rows)[:, None]
        premise_BK, hypothesis_BK = self._batch.linked_tokens
        alpha_BK = weights.over_hypothesis.at[rows_B1, premise_BK, hypothesis_BK].get(
            mode="fill", fill_value=0
        )
        beta_BK = weights.over_premise.at[rows_B1, hypothesis_BK, premise_BK].get(
            mode="fill", fill_value=0
        )
        return (
            _summed_by_token(alpha_BK[..., None] * self.value_BKR, premise_BK, premises),
            _summed_by_token(beta_BK[..., None] * self.inverse_BKR, hypothesis_BK, hypotheses),
        )


def _summed_by_token(value_BKR: jax.Array, token_BK: jax.Array, size: int) -> jax.Array:
    """The sum over the links of each token, [B, size, R], as a matrix product: a GPU scatters in no
    fixed order."""
    of_token_BKT = (token_BK[..., None] == jnp.arange(size)).astype(value_BKR.dtype)
    return jnp.einsum("bkt,bkr->btr", of_token_BKT, value_BKR, precision=lax.Precision.HIGHEST)


def alignment(
    energies_BPH: jax.Array, mask_BP: jax.Array, mask_BH: jax.Array, *, masked: bool = True
) -> Attention:
    """Attention weights of each token (Chen et al. 2017, eqs. 12-13).

    masked: False computes as the published MedNLI code, whose softmax includes padding.
    """
    mask_B1H, mask_B1P = mask_BH[:, None, :], mask_BP[:, None, :]
    if not masked:
        mask_B1H, mask_B1P = jnp.ones_like(mask_B1H), jnp.ones_like(mask_B1P)
    energies_BHP = jnp.swapaxes(energies_BPH, 1, 2)
    return Attention(masked_softmax(energies_BPH, mask_B1H), masked_softmax(energies_BHP, mask_B1P))


def attend(
    weights: Attention,
    premise_QPD: jax.Array,
    hypothesis_BHD: jax.Array,
    dtype: DTypeLike | None,
) -> tuple[jax.Array, jax.Array]:
    """Sums the tokens of the other side by the attention weights: (attended premise [B, P, D],
    attended hypothesis [B, H, D]). A premise has B / Q hypotheses."""
    # One matrix product for all hypotheses of a premise.
    premises, width = premise_QPD.shape[:2]
    grouped_QGP = weights.over_premise.reshape(premises, -1, width)
    grouped_QGD = matmul(grouped_QGP, premise_QPD, dtype)
    premise_BPD = matmul(weights.over_hypothesis, hypothesis_BHD, dtype)
    return premise_BPD, grouped_QGD.reshape(*hypothesis_BHD.shape[:2], -1)


def token_products(
    premise_QPD: jax.Array, hypothesis_BHD: jax.Array, dtype: DTypeLike | None
) -> jax.Array:
    """The dot products of all tokens of each pair, [B, P, H] (Chen et al. 2017, eq. 11)."""
    (premises, size), (rows, width, features) = premise_QPD.shape[:2], hypothesis_BHD.shape
    # The tokens of all hypotheses of a premise stand on one axis.
    grouped_QGD = hypothesis_BHD.reshape(premises, -1, features)
    products_QPG = matmul(premise_QPD, jnp.swapaxes(grouped_QGD, 1, 2), dtype)
    products = products_QPG.reshape(premises, size, rows // premises, width)
    return jnp.swapaxes(products, 1, 2).reshape(rows, size, width)


def sentence_masks(batch: PairBatch) -> tuple[jax.Array, jax.Array]:
    """The masks of real tokens: (premise [B, P], hypothesis [B, H])."""
    premise_B, hypothesis_B = pair_lengths(batch)
    _, premise_width, hypothesis_width = batch.attention_shape
    return length_mask(premise_B, premise_width), length_mask(hypothesis_B, hypothesis_width)


def pair_lengths(batch: PairBatch) -> tuple[jax.Array, jax.Array]:
    """The lengths of (premise [B], hypothesis [B]). Padding pairs have no tokens."""
    premise_B = per_pair(batch.premise_length, batch)
    return jnp.where(batch.mask > 0, premise_B, 0), batch.hypothesis_length


def sentences(batch: PairBatch) -> Packing:
    """All premises [Q] and hypotheses [B] of a batch, packed."""
    length_R = jnp.concatenate([batch.premise_length, batch.hypothesis_length])
    segments = None if batch.layout is None else batch.layout.sentences
    return Packing(length_R, segments, steps=max(batch.attention_shape[1:]))


def paired_sentences(batch: PairBatch) -> Packing:
    """The premise of every pair [B] and its hypothesis [B], packed."""
    length_R = jnp.concatenate(pair_lengths(batch))
    segments = None if batch.layout is None else batch.layout.pairs
    return Packing(length_R, segments, steps=max(batch.attention_shape[1:]))


def per_pair(x_Q: jax.Array, batch: PairBatch) -> jax.Array:
    """Repeats rows [Q, ...] of the premises for their pairs, [B, ...]."""
    return jnp.repeat(x_Q, batch.group_size, axis=0)


def sentence_keys(batch: PairBatch, sentences: int) -> jax.Array | None:
    """The dropout keys [R] of R = `sentences` premises and hypotheses, from `row_key` [B]; None in
    prediction.

    A premise that several pairs share has the key of its first pair.
    """
    keys_B = batch.row_key
    if keys_B is None:
        return None
    rows = keys_B.shape[0]
    premise_keys = keys_B if sentences == 2 * rows else keys_B[:: batch.group_size]
    fold_in = jax.vmap(jax.random.fold_in, in_axes=(0, None))
    return jnp.concatenate([fold_in(premise_keys, 0), fold_in(keys_B, 1)])
