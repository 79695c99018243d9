"""BERT over a pair of texts (Devlin et al. 2019), fine-tuned as in Alghanmi et al. 2021, section 4,
and ontology links.

Dimension letters: B pairs, Q premises, P premise pieces, H hypothesis pieces, T = P + H + 3 pieces
of a row, U query positions (all T, or only the first), N heads, A size of a head, D hidden. States
are [B T, D], because a matrix product with a third axis costs a copy in the backward pass.
"""

import math
import zlib
from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from mednli_jax.errors import ConfigError
from mednli_jax.models import layers
from mednli_jax.models.packing import MASKED_ENERGY
from mednli_jax.models.products import matmul
from mednli_jax.models.sparse_rows import take

# collection for the last layer's states [B, T, D]; filled where the caller makes it mutable
STATES = "states"
SPECIALS = 3  # [CLS] premise [SEP] hypothesis [SEP]
# standard deviation of random weights, as in the code of Devlin et al.
SPREAD = 0.02
# more than any row's positions; makes dropout masks independent of the padded length
LONGEST = 1 << 12
_draw = nn.initializers.normal(SPREAD)


class BERT(nn.Module):
    """Transformer encoder with layer norm after each sublayer, tanh pooler of [CLS], dropout,
    linear layer -> logits.

    States and activations have `product_dtype`, except in softmax and norms.

    Args:
      vocab_size: number of pieces.
      positions: most pieces of a row, with the three special ones.
      epsilon: of the layer norms.
      dropout: of embeddings, attention weights, both sublayers and the pooled state.
      cls_id: number of the piece [CLS].
      sep_id: number of the piece [SEP].
      knowledge: "none"; "bias": ontology links are added to the attention scores between premise and hypothesis, in
        both directions, in all heads and layers; with weights of 0 the model is plain BERT.
      longest_path, weighting, knowledge_scale: as in layers.KnowledgeEnergies.
      room: the length, with the three special pieces, to which all pairs were cut; 0: not known.
      product_dtype: see models.products.
    """

    vocab_size: int
    hidden_size: int = 768
    layers: int = 12
    attention_heads: int = 12
    intermediate_size: int = 3072
    positions: int = 512
    epsilon: float = 1e-12
    dropout: float = 0.1
    num_classes: int = 3
    cls_id: int = 101
    sep_id: int = 102
    knowledge: str = "none"
    longest_path: int = 0
    weighting: str = "auto"
    knowledge_scale: float = 1.0
    room: int = 0
    product_dtype: DTypeLike | None = None

    @nn.compact
    def __call__(self, batch, *, train: bool):
        row = rows_of_pairs(batch, self.cls_id, self.sep_id, self._size(batch))
        noise = noise_of(batch.row_key) if train and self.dropout > 0 else None
        links = (
            between_sides(layers.knowledge_energies(self, batch), row)
            if self.knowledge == "bias"
            else None
        )
        whole = self.is_mutable_collection(STATES)
        # The pooler reads only [CLS], so the last layer computes queries only for this piece.
        x = self._encoded(row, noise, links, first_only=not whole)
        if whole:
            x_BTD = x.reshape(*row.pieces_BT.shape, -1)
            self.sow(STATES, "last", x_BTD)
            x = x_BTD[:, 0]
        pooled_BD = jnp.tanh(Affine(self.hidden_size, self.product_dtype, name="pooler")(x))
        self.sow(STATES, "pooled", pooled_BD)
        pooled_BD = drop(pooled_BD, self.dropout, noise, "pooled")
        return Affine(self.num_classes, self.product_dtype, name="logits")(pooled_BD)

    def _encoded(self, row, noise, links_BTT=None, *, first_only=False):
        """The last layer's states [B T, D], or [B, D] of the first pieces. links_BTT: added to the
        attention scores."""
        embeddings = Embeddings(
            self.vocab_size, self.hidden_size, self.positions, self.epsilon, name="embeddings"
        )
        x = embeddings(row)
        x = x if self.product_dtype is None else x.astype(self.product_dtype)
        x = drop(x, self.dropout, noise, "embeddings")
        bias = jnp.where(row.real_BT, 0.0, MASKED_ENERGY)[:, None, None, :]
        if links_BTT is not None:
            bias = bias + links_BTT[:, None]
        for i in range(self.layers):
            x = Layer(
                self.attention_heads,
                self.intermediate_size,
                self.epsilon,
                self.dropout,
                self.product_dtype,
                name=f"layer_{i}",
            )(x, bias, noise, first_only and i == self.layers - 1)
        return wide(x)

    def _size(self, batch):
        """Pieces of the longest row."""
        if self.knowledge not in ("none", "bias"):
            problem = f"BERT has no '{self.knowledge}', because its layers need their own attention scores"
            raise ConfigError(problem, field="model.knowledge", fix="give none or bias")
        if self.hidden_size % self.attention_heads:
            problem = (
                f"a hidden_size of {self.hidden_size} is not divisible by {self.attention_heads}"
            )
            fix = "give a number of heads that divides hidden_size"
            raise ConfigError(problem, field="model.attention_heads", fix=fix)
        size = batch.premise.shape[1] + batch.hypothesis.shape[1] + SPECIALS
        size = min(size, self.room) if self.room else size
        if size > self.positions:
            problem = (
                f"a pair of {size} pieces is longer than the model's {self.positions} positions"
            )
            raise ConfigError(problem, fix="lower config.data.max_length")
        return size


@dataclass(frozen=True)
class Row:
    """[CLS] premise [SEP] hypothesis [SEP] of each pair, without gaps; all arrays [B, T]."""

    pieces_BT: jax.Array  # int32, 0 after the end
    real_BT: jax.Array  # bool, True up to the end
    second_BT: jax.Array  # bool, True after the first [SEP]
    premise_BT: jax.Array  # bool, True on the premise's pieces
    hypothesis_BT: jax.Array  # bool, True on the hypothesis's pieces
    place_BT: jax.Array  # int32, on the hypothesis's pieces their index in the hypothesis


def rows_of_pairs(batch, cls_id: int, sep_id: int, size: int) -> Row:
    """The pairs of a batch as rows of `size` places. Padding pairs have no premise, as with
    hypothesis_only."""
    premise_B1, hypothesis_B1 = (length[:, None] for length in layers.pair_lengths(batch))
    at = jnp.arange(size)[None, :]
    middle_B1 = premise_B1 + 1  # the [SEP] between the two
    end_B1 = middle_B1 + hypothesis_B1 + 1
    in_premise, in_hypothesis = (at > 0) & (at < middle_B1), (at > middle_B1) & (at < end_B1)
    place_BT = jnp.clip(at - middle_B1 - 1, 0, batch.hypothesis.shape[1] - 1)
    own_BT = jnp.take_along_axis(batch.hypothesis, place_BT, axis=1)
    pieces_BT = jnp.where(in_hypothesis, own_BT, jnp.where(at <= end_B1, sep_id, 0))
    premise_BT = shifted(layers.per_pair(batch.premise, batch), size)
    pieces_BT = jnp.where(in_premise, premise_BT, pieces_BT)
    pieces_BT = jnp.where(at == 0, cls_id, pieces_BT)
    return Row(pieces_BT, at <= end_B1, at > middle_B1, in_premise, in_hypothesis, place_BT)


def between_sides(links_BPH, row: Row):
    """Links [B, P, H] moved to the places of the pieces in the row [B, T, T], in both directions; 0
    elsewhere."""
    links_BTH = shifted(links_BPH, row.pieces_BT.shape[1])
    links_BTT = jnp.take_along_axis(links_BTH, row.place_BT[:, None, :], axis=2)
    links_BTT = jnp.where(
        row.premise_BT[:, :, None] & row.hypothesis_BT[:, None, :], links_BTT, 0.0
    )
    return links_BTT + jnp.swapaxes(links_BTT, 1, 2)


def shifted(x, size):
    """x [B, P, ...] of premise pieces, moved to their places in the row [B, size, ...]; 0
    elsewhere."""
    widths = ((0, 0), (1, max(size - 1 - x.shape[1], 0)), *((0, 0),) * (x.ndim - 2))
    return jnp.pad(x, widths)[:, :size]


class Affine(nn.Module):
    """y = x W + b over the last axis, with BERT's initial weights."""

    features: int
    product_dtype: DTypeLike | None

    @nn.compact
    def __call__(self, x, columns=slice(None)):
        """x [..., D] -> [..., features], or only the given columns."""
        kernel = self.param("kernel", _draw, (x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        return (matmul(x, kernel[:, columns], self.product_dtype) + bias[columns]).astype(x.dtype)


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(variance + epsilon) over the last axis, times scale, plus bias (Ba et al.
    2016)."""

    epsilon: float

    @nn.compact
    def __call__(self, x):
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        bias = self.param("bias", nn.initializers.zeros, (x.shape[-1],))
        centred = wide(x) - wide(x).mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        return (centred * lax.rsqrt(variance + self.epsilon) * scale + bias).astype(x.dtype)


class Embeddings(nn.Module):
    """Sum of word, position and text embeddings, normalised."""

    vocab_size: int
    features: int
    positions: int
    epsilon: float

    @nn.compact
    def __call__(self, row: Row):
        words = self.param("words", _draw, (self.vocab_size, self.features))
        positions = self.param("positions", _draw, (self.positions, self.features))
        texts = self.param("texts", _draw, (2, self.features))
        x_BTD = take(words, row.pieces_BT) + jnp.where(row.second_BT[..., None], texts[1], texts[0])
        x_BTD = x_BTD + positions[: x_BTD.shape[1]]
        return LayerNorm(self.epsilon, name="norm")(x_BTD.reshape(-1, self.features))


class Layer(nn.Module):
    """Self-attention and a perceptron, each with dropout, residual connection and layer norm."""

    heads: int
    intermediate_size: int
    epsilon: float
    dropout: float
    product_dtype: DTypeLike | None

    @nn.compact
    def __call__(self, x, bias, noise, first_only: bool):
        """States [B T, D] from x [B T, D]; with first_only those of the first pieces [B, D].

        bias: [B, 1, 1 or T, T], added to the attention scores.
        """
        size = x.shape[-1]
        affine = partial(Affine, product_dtype=self.product_dtype)
        qkv = affine(3 * size, name="qkv")
        if first_only:
            keys_values = qkv(x, slice(size, None))
            x, bias = x.reshape(bias.shape[0], -1, size)[:, 0], bias[:, :, :1]
            q_k_v = qkv(x, slice(size)), *jnp.split(keys_values, 2, axis=-1)
        else:
            q_k_v = jnp.split(qkv(x), 3, axis=-1)
        site = "/".join(self.path)
        attended = self._attend(q_k_v, bias, noise, site)
        attended = drop(
            affine(size, name="attended")(attended), self.dropout, noise, site + "/attended"
        )
        x = LayerNorm(self.epsilon, name="norm_attended")(x + attended)
        inner = gelu(affine(self.intermediate_size, name="inner")(x))
        outer = drop(affine(size, name="outer")(inner), self.dropout, noise, site + "/outer")
        return LayerNorm(self.epsilon, name="norm_outer")(x + outer)

    def _attend(self, q_k_v, bias, noise, site):
        """Attention of all heads (Vaswani et al. 2017, eq. 1): [B U, D]."""
        rows, size = bias.shape[0], q_k_v[0].shape[-1]
        heads = (rows, -1, self.heads, size // self.heads)
        q_BNUA, k_BNTA, v_BNTA = (jnp.swapaxes(x.reshape(heads), 1, 2) for x in q_k_v)
        energies_BNUT = wide((q_BNUA * heads[-1] ** -0.5) @ jnp.swapaxes(k_BNTA, 2, 3)) + bias
        weights_BNUT = drop(
            nn.softmax(energies_BNUT).astype(v_BNTA.dtype), self.dropout, noise, site + "/weights"
        )
        return jnp.swapaxes(weights_BNUT @ v_BNTA, 1, 2).reshape(-1, size)


def wide(x):
    """x in at least 32 bits."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


@jax.custom_vjp
def gelu(x):
    """x Phi(x) by the exact error function (Hendrycks & Gimpel 2016)."""
    return _gelu_forward(x)[0]


def _gelu_forward(given):
    # Only the slope is kept for the backward pass, so that the error function is computed once.
    x = wide(given)
    below = 0.5 + 0.5 * lax.erf(x * math.sqrt(0.5))
    slope = below + x * jnp.exp(-0.5 * x**2) * (2 * math.pi) ** -0.5
    return (x * below).astype(given.dtype), slope.astype(given.dtype)


gelu.defvjp(_gelu_forward, lambda slope, d_out: (slope * d_out,))


def noise_of(row_key_B):
    """The source of dropout masks [B, 2]: the two words of each row's key."""
    return jax.vmap(jax.random.key_data)(row_key_B)


def drop(x, rate, noise_B2, site):
    """Dropout of states [B T, D] or [B, D], or of attention weights [B, N, U, T].

    As in layers.RowDropout the mask depends on the row and the place in it, not on the padded
    length. A layer needs millions of random numbers, which take jax.random as long as the layer's
    products. Here they are mixed from the row's key, the name of the site and the place.
    """
    if noise_B2 is None or rate == 0.0:
        return x
    rows = noise_B2.shape[0]
    shape = (rows, -1, x.shape[1]) if x.ndim == 2 else x.shape
    of_rows = x.reshape(shape)
    place = jnp.uint32(0)
    for axis in range(of_rows.ndim - 1):
        place = place * LONGEST + lax.broadcasted_iota(jnp.uint32, of_rows.shape[1:], axis)
    first, second = jnp.moveaxis(noise_B2.reshape(rows, 2, *(1,) * (of_rows.ndim - 1)), 1, 0)
    bits = mixed(mixed(place ^ first) + (second ^ jnp.uint32(zlib.crc32(site.encode()))))
    kept = bits >= jnp.uint32(round(rate * 2**32))
    return jnp.where(kept, of_rows / (1.0 - rate), 0.0).reshape(x.shape)


def mixed(x):
    """A permutation of uint32: each bit of x flips about half of the bits of the result (Wellons
    2018, lowbias32)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
