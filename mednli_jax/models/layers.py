"""Layers shared by the models: masks, row-keyed dropout, masked batch norm, bidirectional RNNs,
knowledge attention.

Dimension letters: B batch, T time (P premise, H hypothesis tokens), N slots of packed sentences
(models.packing), D feature, G gates, K links, L path lengths, V vocabulary, U distinct words.

In all layers, padding (tokens after a row's length, rows whose `mask` is 0) never changes the
results of real rows.
"""

import zlib
from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from mednli_jax.models import sparse_rows, stacked
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.packing import MASKED_ENERGY, Packing
from mednli_jax.models.products import BY_ROWS, dot, matmul
from mednli_jax.models.recurrence import CELLS

# collection for the attention weights of models; filled where the caller makes it mutable
ATTENTION = "attention"


def uniform_init(fan_in: int):
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)): PyTorch's default for Linear and (with fan_in = hidden)
    for LSTM and GRU."""
    bound = fan_in**-0.5

    def init(key, shape, dtype=jnp.float32):
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


@dataclass(frozen=True)
class Words:
    """Frozen vectors of tokens before the look-up, so that each distinct word is projected once."""

    table: jax.Array  # [V, D]
    tokens: jax.Array  # [N], word numbers
    words: jax.Array  # [U], the distinct word numbers
    place: jax.Array  # [N], the index of each token's word in `words`

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


def project(x, kernel, dtype: DTypeLike | None):
    """x @ kernel, for an array [..., D] or for Words. dtype: see models.products."""
    if not isinstance(x, Words):
        return matmul(x, kernel, dtype)
    return _project_words(kernel, x.table, x.tokens, x.words, x.place, dtype)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def _project_words(kernel, table, tokens, words, place, dtype):
    return jnp.take(dot(jnp.matmul, table[words], kernel, dtype), place, axis=0)


def _project_words_forward(kernel, table, tokens, words, place, dtype):
    return _project_words(kernel, table, tokens, words, place, dtype), (table, tokens)


def _project_words_backward(dtype, saved, d_out):
    # Summing the gradients of equal words first would need a scatter, which costs more than this
    # larger product.
    table, tokens = saved
    return dot(BY_ROWS, table[tokens], d_out, dtype), None, None, None, None


_project_words.defvjp(_project_words_forward, _project_words_backward)


class WordEmbedding(nn.Module):
    """Vectors of tokens [N] from the pretrained table of the `frozen` collection, or from a trained
    copy of it.

    The frozen table is not part of the optimiser state, the seed axis and the checkpoints.
    distinct: most distinct words among the tokens, with which frozen vectors are returned as Words;
    0 = not known.
    """

    trainable: bool = False

    @nn.compact
    def __call__(self, tokens, *, distinct: int = 0):
        table_VD = self.get_variable("frozen", "vectors")
        if self.trainable:
            return sparse_rows.trained_rows(self, "vectors", lambda key: table_VD, tokens)
        if distinct:
            return distinct_words(table_VD, tokens, distinct)
        return table_VD[tokens]


class Linear(nn.Module):
    """y = x W + b, or x W, over the last axis; weights and bias start as in PyTorch's Linear."""

    features: int
    biased: bool = True
    product_dtype: DTypeLike | None = None  # see models.products

    @nn.compact
    def __call__(self, x):
        init = uniform_init(x.shape[-1])
        kernel = self.param("kernel", init, (x.shape[-1], self.features))
        y = project(x, kernel, self.product_dtype)
        return y + self.param("bias", init, (self.features,)) if self.biased else y


def length_mask(length_B: jax.Array, size: int) -> jax.Array:
    """[B, size] bool: True on real tokens."""
    return jnp.arange(size) < length_B[:, None]


def masked_softmax(energies, mask):
    """Softmax over the last axis, restricted to `mask` (broadcastable). A fully masked row gives
    zeros."""
    weights = nn.softmax(jnp.where(mask, energies, MASKED_ENERGY), axis=-1)
    return jnp.where(mask, weights, 0.0)


def masked_max(states_BTD, mask_BT):
    """Maximum over real tokens [B, D]; zeros where a row has none (padding rows)."""
    top = jnp.max(jnp.where(mask_BT[..., None], states_BTD, MASKED_ENERGY), axis=1)
    return jnp.where(mask_BT.any(axis=1)[:, None], top, 0.0)


def masked_sum(states_BTD, mask_BT):
    """Sum over real tokens [B, D]."""
    return jnp.sum(jnp.where(mask_BT[..., None], states_BTD, 0.0), axis=1)


def masked_mean(states_BTD, mask_BT):
    """Mean over real tokens [B, D]; zeros where a row has none."""
    return masked_sum(states_BTD, mask_BT) / jnp.maximum(mask_BT.sum(axis=1), 1)[:, None]


class RowDropout(nn.Module):
    """Dropout with a key for each row: fold_in(seed, step, row, layer).

    `keys` [B] already fold seed, step and the row's number in the data set; the layer is the path
    of this module. The mask of a row therefore does not depend on its place in the batch or on the
    number of devices. Where rows are tokens, `time` [B] is folded in, so that the mask does not
    depend on the padded length.
    """

    rate: float

    @nn.compact
    def __call__(self, x, keys, *, train: bool, time=None):
        if not train or self.rate == 0.0:
            return x
        layer = zlib.crc32("/".join(self.path).encode())
        keep = 1.0 - self.rate

        def mask_of_row(key, t):
            key = jax.random.fold_in(key, layer)
            key = key if t is None else jax.random.fold_in(key, t)
            return jax.random.bernoulli(key, keep, x.shape[1:])

        return jnp.where(jax.vmap(mask_of_row)(keys, time), x / keep, 0.0)


def drop_tokens(rate: float, x_ND, packing: Packing, keys_R, *, name: str, train: bool):
    """RowDropout of packed tokens. The mask depends on the sentence (keys_R) and the token's place
    in it."""
    if not train or rate == 0.0:
        return x_ND
    return RowDropout(rate, name=name)(
        x_ND, packing.token_keys(keys_R), train=train, time=packing.time_N
    )


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
    def __call__(self, x_BD, mask_B, *, train: bool):
        size = x_BD.shape[-1]
        mean_D = self.variable("batch_stats", "mean", jnp.zeros, (size,))
        variance_D = self.variable("batch_stats", "variance", jnp.ones, (size,))
        mean, variance = mean_D.value, variance_D.value
        if train and not self.is_initializing():
            mean, variance = self._batch_moments(x_BD, mask_B, mean_D, variance_D)
        return (x_BD - mean) * lax.rsqrt(variance + self.epsilon)

    def _batch_moments(self, x_BD, mask_B, mean_D, variance_D):
        weight_B1 = mask_B.astype(x_BD.dtype)[:, None]

        def over_devices(sums):
            return sums if self.axis_name is None else lax.psum(sums, self.axis_name)

        n, total = over_devices((weight_B1.sum(), (weight_B1 * x_BD).sum(axis=0)))
        taken = jnp.where(n > 0, 1 - self.momentum, 0.0)  # no update without rows
        n = jnp.maximum(n, 1.0)
        mean = total / n
        variance = over_devices((weight_B1 * (x_BD - mean) ** 2).sum(axis=0)) / n
        unbiased = variance * n / jnp.maximum(n - 1.0, 1.0)
        mean_D.value = (1 - taken) * mean_D.value + taken * mean
        variance_D.value = (1 - taken) * variance_D.value + taken * unbiased
        return mean, variance


class BiRNN(nn.Module):
    """Bidirectional LSTM or GRU over packed sentences: x [N, D] (or Words) -> states [N, 2H], 0 on
    empty slots.

    The backward direction reads mirrored sentences, so that both directions use the same segments
    of steps.

    Args:
      hidden_size: H, of each direction.
      cell: "lstm" or "gru".
      lasagne: whether weights start as in Lasagne's GRU, N(0, 0.1^2) and biases 0; otherwise as in PyTorch.
      platform: of the device. A GPU runs the loops of `stacked`, other devices those of `recurrence`.
      product_dtype: see models.products.
    """

    hidden_size: int
    cell: str = "lstm"
    lasagne: bool = False
    platform: str = "cpu"
    product_dtype: DTypeLike | None = None

    @nn.compact
    def __call__(self, x, packing):
        recurrence, gates = CELLS[self.cell]
        size, width = self.hidden_size, gates * self.hidden_size
        init = nn.initializers.normal(0.1) if self.lasagne else uniform_init(size)
        kernel = self.param("kernel", init, (x.shape[-1], 2 * width))
        recurrent = self.param("recurrent", init, (2, size, width))
        bias = self.param("bias", nn.initializers.zeros if self.lasagne else init, (2 * width,))
        keep_N1 = packing.valid_N[:, None].astype(bias.dtype)
        if self.platform == "gpu":
            return self._stacked(x, kernel, recurrent, bias, keep_N1, packing)
        backwards = x.mirrored(packing) if isinstance(x, Words) else packing.mirror(x)
        kernels, biases = jnp.split(kernel, 2, axis=1), jnp.split(bias, 2)
        projected = tuple(
            project(inputs, own, self.product_dtype)
            for inputs, own in zip((x, backwards), kernels, strict=True)
        )
        recurrents, biases = tuple(recurrent), tuple(biases)
        states = recurrence(
            projected, recurrents, biases, keep_N1, packing.segments, self.product_dtype
        )
        return jnp.concatenate([states[0], packing.mirror(states[1])], axis=-1)

    def _stacked(self, x, kernel, recurrent, bias, keep_N1, packing):
        size, gates = self.hidden_size, CELLS[self.cell][1]
        more = stacked.padded_size(size) - size

        def padded(weights, *shape):
            weights = weights.reshape(*shape, gates, size)
            return jnp.pad(weights, [(0, 0)] * (weights.ndim - 1) + [(0, more)])

        kernel, bias = padded(kernel, -1, 2), padded(bias, 2)
        recurrent = jnp.pad(
            padded(recurrent, 2, size).swapaxes(0, 1), ((0, more), (0, 0), (0, 0), (0, 0))
        )
        projected = project(x, kernel.reshape(x.shape[-1], -1), self.product_dtype)
        projected = (projected + bias.reshape(-1)).reshape(-1, *bias.shape)
        projected = jnp.stack([projected[:, 0], packing.mirror(projected[:, 1])], axis=1)
        states = stacked.CELLS[self.cell](
            projected, recurrent, keep_N1, packing.segments, self.product_dtype
        )
        states = states[..., :size]
        return jnp.concatenate([states[:, 0], packing.mirror(states[:, 1])], axis=-1)


class PairModel(nn.Module):
    """The fields that all models of sentence pairs have.

    Args:
      knowledge, masking: see each model.
      weighting: "auto", or "paper", "exp", "learned" in any mode (KnowledgeEnergies, also for longest_path).
      knowledge_scale: factor of the paper's matrix A; the paper's is 1.
      platform: of the device.
      product_dtype: see models.products.
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

    def linear(self, features: int, name: str, *, biased: bool = True) -> Linear:
        """A Linear with products of the model's `product_dtype`."""
        return Linear(features, biased, self.product_dtype, name=name)

    def birnn(self, name: str, cell: str = "lstm") -> BiRNN:
        """A BiRNN of the model's hidden size, for its platform and `product_dtype`."""
        return BiRNN(
            self.hidden_size,
            cell,
            platform=self.platform,
            product_dtype=self.product_dtype,
            name=name,
        )

    @property
    def shares_words(self) -> bool:
        """Whether equal words of a batch are projected once, which needs frozen vectors."""
        return not self.train_vectors and self.platform == "cpu"


def knowledge_energies(model, batch: PairBatch):
    """[B, P, H], KnowledgeEnergies by the fields of a model. Weighting "auto": "learned" for
    knowledge "bias"."""
    auto = "learned" if model.knowledge == "bias" else "paper"
    weighting = auto if model.weighting == "auto" else model.weighting
    return KnowledgeEnergies(
        weighting, model.longest_path, model.knowledge_scale, name="knowledge"
    )(batch)


class KnowledgeEnergies(nn.Module):
    """Dense energies [B, P, H] from a batch's sparse ontology links.

    Args:
      weighting: "paper": scale * A, A = 1 - d / longest path of the corpus, 0 without a path, 1 for the same concept
        (Romanov & Shivade 2018, section 4.2.2; their scale is 1, with which a softmax over 20 tokens is almost flat);
        "exp": scale * exp(-d), which does not depend on the longest path and is never 0;
        "learned": one weight per path length, started at scale * A; longer paths than longest_path share the last one.
      longest_path: of the corpus, in edges.
      scale: factor of the weights.
    """

    weighting: str
    longest_path: int
    scale: float = 1.0

    @nn.compact
    def __call__(self, batch: PairBatch):
        lengths = jnp.arange(self.longest_path + 1)
        decayed_L = (
            jnp.exp(-lengths)
            if self.weighting == "exp"
            else 1.0 - lengths / max(self.longest_path, 1)
        )
        weights_L = self.scale * decayed_L
        if self.weighting == "learned":
            weights_L = self.param("path_weight", lambda key: weights_L)
        distance_BK = batch.link_distance.astype(jnp.int32)
        value_BK = sparse_rows.take(weights_L, jnp.clip(distance_BK, 0, self.longest_path))
        value_BK = jnp.where(distance_BK >= 0, value_BK, 0.0)
        size = batch.attention_shape
        rows = jnp.arange(size[0])[:, None]
        premise, hypothesis = batch.linked_tokens
        # Links are unique per token pair, so that adding sets the value; empty links add 0 at [0,
        # 0].
        return (
            jnp.zeros(size, value_BK.dtype).at[rows, premise, hypothesis].add(value_BK, mode="drop")
        )


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

    kinds: R, the number of relation types. same_words=False clears the bit of equal words, which
    the paper does not have.
    """

    def __init__(self, batch: PairBatch, kinds: int, *, same_words: bool = True):
        bits_BK, distance_BK = batch.link_relation.astype(jnp.uint32), batch.link_distance
        if not same_words:
            bits_BK = bits_BK & ~jnp.uint32(1 << _SAME)
        steps_BK = jnp.clip(1.0 - distance_BK / RELATION_STEPS, 0.0, 1.0)
        is_a_R = jnp.isin(jnp.arange(kinds), jnp.array(_IS_A))
        set_BKR = (bits_BK[..., None] >> jnp.arange(kinds, dtype=jnp.uint32)) & 1
        self.value_BKR = set_BKR * jnp.where(is_a_R, steps_BK[..., None], 1.0)
        named = [place ^ 1 for place in range(_KINDS, kinds)]
        self.turned_BKR = self.value_BKR[..., jnp.array([0, 1, 2, 4, 3, 5, *named])]
        self.related_BK = (self.value_BKR > 0).any(axis=-1).astype(self.value_BKR.dtype)
        self._rows = jnp.arange(bits_BK.shape[0])[:, None]
        self._premise, self._hypothesis = batch.linked_tokens
        self._size = batch.attention_shape

    def energies(self, scale):
        """[B, P, H], scale * 1[r_ij is not 0], the term that knowledge-enriched co-attention
        adds."""
        # Links are unique per token pair, so that adding sets the value. Empty links add 0. Links
        # to tokens beyond the batch's width are dropped.
        placed = jnp.zeros(self._size, self.related_BK.dtype).at[
            self._rows, self._premise, self._hypothesis
        ]
        return placed.add(scale * self.related_BK, mode="drop")

    def attended(self, weights):
        """(sums of alpha_ij r_ij over j [B, P, R], sums of beta_ij r_ji over i [B, H, R]). weights:
        see `alignment`."""
        over_hypothesis_BPH, over_premise_BHP = weights
        rows, (_, premise, hypothesis) = self._rows, self._size
        alpha_BK = over_hypothesis_BPH.at[rows, self._premise, self._hypothesis].get(
            mode="fill", fill_value=0
        )
        beta_BK = over_premise_BHP.at[rows, self._hypothesis, self._premise].get(
            mode="fill", fill_value=0
        )
        return (
            _summed_by_token(alpha_BK[..., None] * self.value_BKR, self._premise, premise),
            _summed_by_token(beta_BK[..., None] * self.turned_BKR, self._hypothesis, hypothesis),
        )


def _summed_by_token(value_BKR, token_BK, size: int):
    """[B, size, R], the sum over the links of each token, as a product: a GPU scatters in no fixed
    order."""
    of_token_BKT = (token_BK[..., None] == jnp.arange(size)).astype(value_BKR.dtype)
    return jnp.einsum("bkt,bkr->btr", of_token_BKT, value_BKR, precision=lax.Precision.HIGHEST)


def alignment(energies_BPH, mask_BP, mask_BH, *, masked: bool = True):
    """Attention weights of each token (Chen et al. 2017, eqs. 12-13); rows sum to 1.

    masked: False is the published MedNLI code, whose softmax includes padding.
    Returns (weights of the premise tokens [B, P, H], weights of the hypothesis tokens [B, H, P]).
    """
    mask_B1H, mask_B1P = mask_BH[:, None, :], mask_BP[:, None, :]
    if not masked:
        mask_B1H, mask_B1P = jnp.ones_like(mask_B1H), jnp.ones_like(mask_B1P)
    return masked_softmax(energies_BPH, mask_B1H), masked_softmax(
        jnp.swapaxes(energies_BPH, 1, 2), mask_B1P
    )


def attend(weights, premise_QPD, hypothesis_BHD, dtype: DTypeLike | None):
    """Each side's tokens as weighted sums of the other side's. weights: see `alignment`; dtype: see
    models.products.

    There are Q premises, each with B / Q hypotheses.
    Returns (attended premise [B, P, D], attended hypothesis [B, H, D]).
    """
    over_hypothesis_BPH, over_premise_BHP = weights
    # One matrix product for all hypotheses of a premise.
    grouped = over_premise_BHP.reshape(premise_QPD.shape[0], -1, premise_QPD.shape[1])
    grouped = matmul(grouped, premise_QPD, dtype)
    premise_BPD = matmul(over_hypothesis_BPH, hypothesis_BHD, dtype)
    return premise_BPD, grouped.reshape(*hypothesis_BHD.shape[:2], -1)


def token_products(premise_QPD, hypothesis_BHD, dtype: DTypeLike | None):
    """[B, P, H], the dot products of all tokens of each pair (Chen et al. 2017, eq. 11).

    dtype: see models.products.
    """
    (units, size), (rows, width) = premise_QPD.shape[:2], hypothesis_BHD.shape[:2]
    grouped = hypothesis_BHD.reshape(units, -1, hypothesis_BHD.shape[-1])
    products = matmul(premise_QPD, jnp.swapaxes(grouped, 1, 2), dtype)
    products = products.reshape(units, size, rows // units, width)
    return jnp.swapaxes(products, 1, 2).reshape(rows, size, width)


def sentence_masks(batch: PairBatch):
    """(premise mask [B, P], hypothesis mask [B, H])."""
    premise_B, hypothesis_B = pair_lengths(batch)
    return length_mask(premise_B, batch.premise.shape[1]), length_mask(
        hypothesis_B, batch.hypothesis.shape[1]
    )


def pair_lengths(batch: PairBatch):
    """(premise length [B], hypothesis length [B]). Padding pairs have no tokens."""
    premise_B = per_pair(batch.premise_length, batch)
    return jnp.where(batch.mask > 0, premise_B, 0), batch.hypothesis_length


def sentences(batch: PairBatch) -> Packing:
    """All premises [Q] and hypotheses [B] of a batch, packed."""
    lengths = jnp.concatenate([batch.premise_length, batch.hypothesis_length])
    segments = None if batch.layout is None else batch.layout.sentences
    return Packing(lengths, segments, steps=max(batch.premise.shape[1], batch.hypothesis.shape[1]))


def paired_sentences(batch: PairBatch) -> Packing:
    """The premise of every pair [B] and its hypothesis [B], packed."""
    lengths = jnp.concatenate(pair_lengths(batch))
    segments = None if batch.layout is None else batch.layout.pairs
    return Packing(lengths, segments, steps=max(batch.premise.shape[1], batch.hypothesis.shape[1]))


def per_pair(x_Q, batch: PairBatch):
    """[B, ...] for the pairs from [Q, ...] for the premises."""
    return jnp.repeat(x_Q, batch.group, axis=0)


def sentence_keys(batch: PairBatch, count: int):
    """[count] dropout keys of premises (one per group or one per pair), then hypotheses, from
    `row_key` [B]."""
    keys_B = batch.row_key
    if keys_B is None:  # in prediction
        return None
    of_units = (
        count < 2 * keys_B.shape[0]
    )  # a premise shared by several rows has the key of the first row
    premise = keys_B[:: batch.group] if of_units else keys_B

    def of_side(keys, side):
        return jax.vmap(lambda key: jax.random.fold_in(key, side))(keys)

    return jnp.concatenate([of_side(premise, 0), of_side(keys_B, 1)])
