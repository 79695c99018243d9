"""Pretrained transformer encoders over a pair of texts, fine-tuned as classifiers, and ontology
links in their attention: BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019), ELECTRA (Clark et
al. 2020), Megatron-BERT (Shoeybi et al. 2019; GatorTron), ModernBERT (Warner et al. 2024) and
DeBERTa-v2 and v3 (He et al. 2021 and 2023; models.attention).

Dimension letters: B pairs, Q premises, P premise pieces, H hypothesis pieces, T pieces of a row
with the special ones, U query positions (all T, or only the first), N heads, A size of a head,
D hidden, K links, L layers, R types of relations or places of a row relative to each other. States
are [B T, D], because a matrix product with a third axis costs a copy in the backward pass.
"""

import math
import zlib
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike

from mednli_jax.errors import ConfigError
from mednli_jax.models import attention, layers
from mednli_jax.models.attention import CONTENT_TO_POSITION, POSITION_TO_CONTENT, Relative
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.packing import MASKED_ENERGY
from mednli_jax.models.products import einsum, matmul
from mednli_jax.models.sparse_rows import take

# collection for the last layer's states [B, T, D]; filled where the caller makes it mutable
STATES = "states"
# standard deviation of random weights, as in the code of Devlin et al.
SPREAD = 0.02
# A run of fine-tuning moves a weight by at most the sum of its rates, about 0.03. Attention scores
# differ by units, so that the weights of typed links count this many times.
LINK_SCALE = 100.0
# more than any row's positions; makes dropout masks independent of the padded length
LONGEST = 1 << 12
_draw = nn.initializers.normal(SPREAD)


class Encoder(nn.Module):
    """Transformer encoder, a dense layer over the first piece's state, linear layer -> logits.

    The fields up to `epsilon` are the architecture (see models.families for that of each family);
    their defaults are BERT's. States and activations have `product_dtype`, except in softmax and
    norms.

    Args:
      vocab_size: number of pieces.
      positions: rows of the table of position embeddings.
      first_position: the row of the first piece; rows before it are not used.
      token_types: rows of the table of text embeddings; pieces of the first text have row 0; 0 for
        no table.
      second_type: the row of the second text.
      embedding_size: numbers of an embedding, projected to hidden_size; 0: hidden_size.
      norm_first: layer norms before the sublayers and after the last one, in place of after the
        sublayers.
      embedding_norm: whether there is a layer norm after the embeddings.
      first_norm: with norm_first, whether there is one before the first attention.
      attention_bias, mlp_bias, norm_bias, head_bias: whether these parts have biases.
      gated: the perceptron multiplies gelu of one half of its inner units by the other half.
      rotary_base: of rotary positions (Su et al. 2021), in place of a table; 0: the table.
      local_rotary_base: of rotary positions in local layers; 0: the table.
      local_layers: numbers of the layers whose pieces see others up to local_attention // 2 away.
      absolute_positions: whether the embeddings have a table of positions.
      relative_positions: distances from here on share a row of the table of relative positions (see
        models.attention); 0: no such table.
      relative_buckets: number of buckets that share the distances; 0: each distance has its row.
      relative_terms: of the attention scores: "c2p", content to position; "p2c", position to
        content.
      relative_shared: relative positions are projected by the weights of the pieces.
      relative_norm: whether there is a layer norm of the table.
      convolution: pieces that the convolution after the first layer reads; 0: no convolution.
      head_input: "first": the head reads the first piece's state x; "mean": their mean.
      head: a function of x, with W linear, before a linear layer. "pooler": tanh(W x); "tanh" and
        "gelu": that activation of W x, with dropout also of x; "context": gelu(W x); "gelu_norm":
        its norm.
      epsilon: of the layer norms.
      dropout: of embeddings, attention weights, both sublayers and the pooled state.
      rematerialise: layers are computed again in the backward pass, which saves memory.
      cls_id, sep_id: numbers of the pieces at the start of a row and after a text.
      separators: pieces sep_id between the texts.
      knowledge: "none"; "bias": a weight of the path's length is added to the attention scores
        between linked pieces of premise and hypothesis, in both directions, in all heads and
        layers; "typed": a learned weight of each type of relation, layer and head is added. With
        weights of 0 the model is the plain encoder.
      longest_path, weighting, knowledge_scale: of "bias", as in layers.KnowledgeEnergies.
      relations, same_words: of "typed", as in layers.Relations.
      room: the length, with the special pieces, to which all pairs were cut, which is not more than
        there are positions; 0: not known.
      product_dtype: see models.products.
    """

    vocab_size: int
    hidden_size: int = 768
    layers: int = 12
    attention_heads: int = 12
    intermediate_size: int = 3072
    positions: int = 512
    first_position: int = 0
    token_types: int = 2
    second_type: int = 1
    embedding_size: int = 0
    norm_first: bool = False
    embedding_norm: bool = True
    first_norm: bool = True
    attention_bias: bool = True
    mlp_bias: bool = True
    norm_bias: bool = True
    head_bias: bool = True
    gated: bool = False
    rotary_base: float = 0.0
    local_rotary_base: float = 0.0
    local_attention: int = 0
    local_layers: tuple[int, ...] = ()
    absolute_positions: bool = True
    relative_positions: int = 0
    relative_buckets: int = 0
    relative_terms: tuple[str, ...] = ()
    relative_shared: bool = False
    relative_norm: bool = False
    convolution: int = 0
    head_input: str = "first"
    head: str = "pooler"
    epsilon: float = 1e-12
    dropout: float = 0.1
    num_classes: int = 3
    rematerialise: bool = False
    cls_id: int = 101
    sep_id: int = 102
    separators: int = 1
    knowledge: str = "none"
    longest_path: int = 0
    weighting: str = "auto"
    knowledge_scale: float = 1.0
    relations: int = 0
    same_words: bool = True
    room: int = 0
    product_dtype: DTypeLike | None = None

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        row = rows_of_pairs(batch, self.cls_id, self.sep_id, self.separators, self._size(batch))
        row_key_B = layers.with_keys(self, batch, self.dropout, train=train).row_key
        noise_B2 = None if row_key_B is None else noise_of(row_key_B)
        keeps_states = self.is_mutable_collection(STATES) and not self.is_initializing()
        # Where the head reads only the first piece, the last layer computes queries only for it.
        is_convolved_last = self.convolution > 0 and self.layers == 1
        first_only = self.head_input == "first" and not keeps_states and not is_convolved_last
        x = self._encode(batch, row, noise_B2, first_only=first_only)
        if not first_only:
            x_BTD = x.reshape(*row.pieces_BT.shape, -1)
            if keeps_states:
                self.sow(STATES, "last", x_BTD)
            is_mean = self.head_input == "mean"
            x = layers.masked_mean(x_BTD, row.real_BT) if is_mean else x_BTD[:, 0]
        pooled_BD = self._pool(x, noise_B2)
        if keeps_states:
            self.sow(STATES, "pooled", pooled_BD)
        pooled_BD = drop(pooled_BD, self.dropout, noise_B2, "pooled")
        return Affine(self.num_classes, self.product_dtype, name="logits")(pooled_BD)

    def _pool(self, x_BD: jax.Array, noise_B2: jax.Array | None) -> jax.Array:
        """The state [B, D] of each row that the head reads, after the head's layer."""
        if self.head in ("tanh", "gelu"):
            x_BD = drop(x_BD, self.dropout, noise_B2, "first")
        dense = Affine(self.hidden_size, self.product_dtype, self.head_bias, name="pooler")
        if self.head in ("pooler", "tanh"):
            return jnp.tanh(dense(x_BD))
        activated_BD = gelu(dense(x_BD))
        return self._norm("head_norm")(activated_BD) if self.head == "gelu_norm" else activated_BD

    def _norm(self, name: str) -> "LayerNorm":
        return LayerNorm(self.epsilon, self.norm_bias, name=name)

    def _encode(
        self, batch: PairBatch, row: "PieceRows", noise_B2: jax.Array | None, *, first_only: bool
    ) -> jax.Array:
        """The last layer's states [B T, D]; with first_only those of the first pieces [B, D]."""
        x = self._embed(row)
        x = x if self.product_dtype is None else x.astype(self.product_dtype)
        x = drop(x, self.dropout, noise_B2, "embeddings")
        if self.embedding_size not in (0, self.hidden_size):
            x = Affine(self.hidden_size, self.product_dtype, name="projection")(x)
        size, reach = row.pieces_BT.shape[1], self.local_attention // 2
        bias, window_TT = self._bias(batch, row), window_of(size, reach)
        # Links join pieces at any distance.
        in_blocks = self.knowledge == "none" and size >= attention.FEWEST_BLOCKS * reach > 0
        head_size = self.hidden_size // self.attention_heads
        rotation = rotation_of(size, head_size, self.rotary_base)
        local_rotation = rotation_of(size, head_size, self.local_rotary_base)
        relations = self._relations(batch) if self.knowledge == "typed" else None
        relative_RD = self._relative(size) if self.relative_positions else None
        layer_class = nn.remat(Layer, static_argnums=(6,)) if self.rematerialise else Layer
        form, embedded = self._layer_form(), x
        for i in range(self.layers):
            first_alone = first_only and i == self.layers - 1
            is_local = i in self.local_layers
            has_blocks = is_local and in_blocks and not first_alone
            layer = layer_class(
                form,
                self.dropout,
                has_first_norm=self.first_norm or i > 0,
                reach=reach if has_blocks else 0,
                product_dtype=self.product_dtype,
                name=f"layer_{i}",
            )
            layer_bias = bias + window_TT if is_local and not has_blocks else bias
            if relations is not None and not first_alone:  # no link joins the first piece
                layer_bias = layer_bias + relations.energies(i, row)
            layer_rotation = local_rotation if is_local else rotation
            x = layer(x, layer_bias, layer_rotation, relative_RD, noise_B2, first_alone)
            if i == 0 and self.convolution:
                x = self._convolve(x, embedded, row.real_BT, noise_B2)
        return wide(self._norm("norm")(x) if self.norm_first else x)

    def _bias(self, batch: PairBatch, row: "PieceRows") -> jax.Array:
        """The bias [B, 1, 1 or T, T] of the attention scores of all layers, for padding and
        links."""
        padding_B11T = jnp.where(row.real_BT, 0.0, MASKED_ENERGY)[:, None, None, :]
        if self.knowledge != "bias":
            return padding_B11T
        links_BTT = between_sides(layers.knowledge_energies(self, batch), row)
        return padding_B11T + links_BTT[:, None]

    def _layer_form(self) -> "LayerForm":
        return LayerForm(
            self.attention_heads,
            self.intermediate_size,
            self.norm_first,
            self.attention_bias,
            self.mlp_bias,
            self.norm_bias,
            self.gated,
            self.epsilon,
            self.relative_terms,
            self.relative_shared,
        )

    def _relative(self, size: int) -> jax.Array:
        """Embeddings [R, D] of the places of a row relative to each other."""
        buckets, longest = self.relative_buckets, self.relative_positions
        table = self.param("relative", _draw, (2 * (buckets or longest), self.hidden_size))
        relative_RD = table[attention.relative_rows(size, buckets, longest)]
        relative_RD = relative_RD.astype(self.product_dtype or relative_RD.dtype)
        return self._norm("relative_norm")(relative_RD) if self.relative_norm else relative_RD

    def _convolve(
        self, x: jax.Array, embedded: jax.Array, real_BT: jax.Array, noise_B2: jax.Array | None
    ) -> jax.Array:
        """Adds a convolution of the embeddings [B T, D] to the first layer's states x [B T, D]."""
        convolve = Convolution(self.convolution, self.product_dtype, name="convolution")
        convolved = drop(convolve(embedded, real_BT), self.dropout, noise_B2, "convolution")
        return self._norm("convolution_norm")(x + gelu(convolved))

    def _embed(self, row: "PieceRows") -> jax.Array:
        return Embeddings(
            self.vocab_size,
            self.embedding_size or self.hidden_size,
            self.positions if self.absolute_positions and not self.rotary_base else 0,
            self.first_position,
            self.token_types,
            self.second_type,
            self._embedding_norm(),
            name="embeddings",
        )(row)

    def _embedding_norm(self) -> "LayerNorm | None":
        if not self.embedding_norm:
            return None
        return LayerNorm(self.epsilon, self.norm_bias, parent=None)  # a part of the embeddings

    def _relations(self, batch: PairBatch) -> "TypedLinks":
        relations = layers.Relations(batch, self.relations, same_words=self.same_words)
        weights = TypedRelations(
            self.layers, self.attention_heads, self.product_dtype, name="knowledge"
        )
        return weights(relations.value_BKR, relations.inverse_BKR, *batch.linked_tokens)

    def _size(self, batch: PairBatch) -> int:
        """The number of pieces of the longest row."""
        if self.hidden_size % self.attention_heads:
            problem = (
                f"a hidden_size of {self.hidden_size} is not divisible by {self.attention_heads}"
            )
            fix = "give a number of heads that divides hidden_size"
            raise ConfigError(problem, field="model.attention_heads", fix=fix)
        size = batch.row_width + 2 + self.separators  # special pieces
        return min(size, self.room) if self.room else size


@dataclass(frozen=True)
class PieceRows:
    """The rows [CLS] premise [SEP] hypothesis [SEP] of each pair, without gaps; arrays [B, T]."""

    pieces_BT: jax.Array  # int32, 0 after the end
    real_BT: jax.Array  # bool, True up to the end
    second_BT: jax.Array  # bool, True after the separators between the texts
    premise_BT: jax.Array  # bool, True on the premise's pieces
    hypothesis_BT: jax.Array  # bool, True on the hypothesis's pieces
    place_BT: jax.Array  # int32, on the hypothesis's pieces their index in the hypothesis
    start_B1: jax.Array  # int32, the place of the hypothesis's first piece


def rows_of_pairs(
    batch: PairBatch, cls_id: int, sep_id: int, separators: int, size: int
) -> PieceRows:
    """Joins the pairs of a batch to rows of `size` places. Padding pairs have no premise, as with
    hypothesis_only.

    separators: pieces sep_id between premise and hypothesis.
    """
    premise_B1, hypothesis_B1 = (length[:, None] for length in layers.pair_lengths(batch))
    at = jnp.arange(size)[None, :]
    middle_B1 = premise_B1 + separators  # the last separator between the two
    end_B1 = middle_B1 + hypothesis_B1 + 1
    in_premise, in_hypothesis = (at > 0) & (at <= premise_B1), (at > middle_B1) & (at < end_B1)
    place_BT = jnp.clip(at - middle_B1 - 1, 0, batch.hypothesis.shape[1] - 1)
    own_BT = jnp.take_along_axis(batch.hypothesis, place_BT, axis=1)
    pieces_BT = jnp.where(in_hypothesis, own_BT, jnp.where(at <= end_B1, sep_id, 0))
    premise_BT = shift(layers.per_pair(batch.premise, batch), size)
    pieces_BT = jnp.where(in_premise, premise_BT, pieces_BT)
    pieces_BT = jnp.where(at == 0, cls_id, pieces_BT)
    return PieceRows(
        pieces_BT,
        at <= end_B1,
        at > middle_B1,
        in_premise,
        in_hypothesis,
        place_BT,
        middle_B1 + 1,
    )


def between_sides(links_BPH: jax.Array, row: PieceRows) -> jax.Array:
    """Moves links [B, P, H] to the places of the pieces in the row, [B, T, T], in both directions;
    0 elsewhere."""
    links_BTH = shift(links_BPH, row.pieces_BT.shape[1])
    links_BTT = jnp.take_along_axis(links_BTH, row.place_BT[:, None, :], axis=2)
    links_BTT = jnp.where(
        row.premise_BT[:, :, None] & row.hypothesis_BT[:, None, :], links_BTT, 0.0
    )
    return links_BTT + jnp.swapaxes(links_BTT, 1, 2)


def window_of(size: int, reach: int) -> jax.Array:
    """The bias [T, T] of local attention: masks pieces more than `reach` away."""
    distance_TT = jnp.abs(jnp.arange(size)[:, None] - jnp.arange(size))
    return jnp.where(distance_TT <= reach, 0.0, MASKED_ENERGY)


def shift(x: jax.Array, size: int) -> jax.Array:
    """Moves x [B, P, ...] of premise pieces to their places in the row, [B, size, ...]; 0
    elsewhere."""
    widths = ((0, 0), (1, max(size - 1 - x.shape[1], 0)), *((0, 0),) * (x.ndim - 2))
    return jnp.pad(x, widths)[:, :size]


@dataclass(frozen=True)
class TypedLinks:
    """Values of typed links for each layer and head, and the pieces that they join.

    Args:
      onward_LBKN: value of the premise's piece for the hypothesis's.
      inverse_LBKN: value of the hypothesis's piece for the premise's.
      premise_BK, hypothesis_BK: int32, pieces counted from the start of each text.
    """

    onward_LBKN: jax.Array
    inverse_LBKN: jax.Array
    premise_BK: jax.Array
    hypothesis_BK: jax.Array

    def energies(self, layer: int, row: PieceRows) -> jax.Array:
        """The bias [B, N, T, T] that a layer adds to its attention scores."""
        rows, size = row.pieces_BT.shape
        pairs_B1 = jnp.arange(rows)[:, None]
        from_BK, to_BK = self.premise_BK + 1, self.hypothesis_BK + row.start_B1
        energies_BTTN = jnp.zeros((rows, size, size, self.onward_LBKN.shape[-1]))
        # Links are unique per pair of pieces, so that adding sets the value. Empty links add 0.
        for value_BKN, query_BK, key_BK in (
            (self.onward_LBKN[layer], from_BK, to_BK),
            (self.inverse_LBKN[layer], to_BK, from_BK),
        ):
            placed = energies_BTTN.at[pairs_B1, query_BK, key_BK]
            energies_BTTN = placed.add(value_BKN, mode="drop")
        return jnp.moveaxis(energies_BTTN, -1, 1)


class TypedRelations(nn.Module):
    """A learned weight of each type of relation, layer and head, times LINK_SCALE; 0 at the
    start."""

    layers: int
    heads: int
    product_dtype: DTypeLike | None

    @nn.compact
    def __call__(
        self,
        value_BKR: jax.Array,
        inverse_BKR: jax.Array,
        premise_BK: jax.Array,
        hypothesis_BK: jax.Array,
    ) -> TypedLinks:
        """Values of the typed links. value_BKR, inverse_BKR: see layers.Relations."""
        shape = (self.layers, value_BKR.shape[-1], self.heads)
        weight_LRN = LINK_SCALE * self.param("relation_weight", nn.initializers.zeros, shape)
        spec = "bkr,lrn->lbkn"
        onward_LBKN = einsum(spec, value_BKR, weight_LRN, self.product_dtype)
        inverse_LBKN = einsum(spec, inverse_BKR, weight_LRN, self.product_dtype)
        return TypedLinks(onward_LBKN, inverse_LBKN, premise_BK, hypothesis_BK)


class Affine(nn.Module):
    """y = x W + b or x W over the last axis, with BERT's initial weights."""

    features: int
    product_dtype: DTypeLike | None
    biased: bool = True

    @nn.compact
    def __call__(self, x: jax.Array, columns: slice = slice(None)) -> jax.Array:
        """x [..., D] -> [..., features]; with `columns` only these."""
        kernel = self.param("kernel", _draw, (x.shape[-1], self.features))
        product = matmul(x, kernel[:, columns], self.product_dtype)
        if not self.biased:
            return product.astype(x.dtype)
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        return (product + bias[columns]).astype(x.dtype)


class LayerNorm(nn.Module):
    """Layer norm (Ba et al. 2016): (x - mean) / sqrt(variance + epsilon) over the last axis, times
    scale, plus bias."""

    epsilon: float
    biased: bool = True

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        centred = wide(x) - wide(x).mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        scaled = centred * lax.rsqrt(variance + self.epsilon) * scale
        if self.biased:
            scaled = scaled + self.param("bias", nn.initializers.zeros, (x.shape[-1],))
        return scaled.astype(x.dtype)


class Embeddings(nn.Module):
    """Sum of word, position and text embeddings [B T, D], normalised.

    The fields are those of Encoder. positions: 0 for no table.
    """

    vocab_size: int
    features: int
    positions: int
    first_position: int
    token_types: int
    second_type: int
    norm: "LayerNorm | None"

    @nn.compact
    def __call__(self, row: PieceRows) -> jax.Array:
        words = self.param("words", _draw, (self.vocab_size, self.features))
        x_BTD = take(words, row.pieces_BT)
        if self.positions:
            positions = self.param("positions", _draw, (self.positions, self.features))
        if self.token_types:
            texts = self.param("texts", _draw, (self.token_types, self.features))
            second = texts[self.second_type]
            x_BTD = x_BTD + jnp.where(row.second_BT[..., None], second, texts[0])
        if self.positions:
            x_BTD = x_BTD + positions[self.first_position :][: x_BTD.shape[1]]
        x = x_BTD.reshape(-1, self.features)
        return x if self.norm is None else self.norm(x)


class Convolution(nn.Module):
    """Convolution over `width` pieces around each piece; pieces after the end of a row are 0."""

    width: int
    product_dtype: DTypeLike | None

    @nn.compact
    def __call__(self, x: jax.Array, real_BT: jax.Array) -> jax.Array:
        """x [B T, D] -> [B T, D]."""
        features, size = x.shape[-1], real_BT.shape[1]
        kernel = self.param("kernel", _draw, (self.width, features, features))
        bias = self.param("bias", nn.initializers.zeros, (features,))
        x_BTD = jnp.where(real_BT[..., None], x.reshape(*real_BT.shape, features), 0)
        reach = self.width // 2
        padded = jnp.pad(x_BTD, ((0, 0), (reach, reach), (0, 0)))
        shifted_BTD = [padded[:, start : start + size] for start in range(self.width)]
        windows = jnp.concatenate(shifted_BTD, axis=-1).reshape(-1, self.width * features)
        product = matmul(windows, kernel.reshape(-1, features), self.product_dtype)
        return (product + bias).astype(x.dtype)


@dataclass(frozen=True)
class LayerForm:
    """The fields of Encoder that all layers share."""

    heads: int
    intermediate_size: int
    norm_first: bool
    attention_bias: bool
    mlp_bias: bool
    norm_bias: bool
    gated: bool
    epsilon: float
    relative_terms: tuple[str, ...]
    relative_shared: bool

    def scale(self, head_size: int) -> float:
        """The scale of attention scores, which are sums of terms (He et al. 2021, eq. 4)."""
        return float((head_size * (1 + len(self.relative_terms))) ** -0.5)


class Layer(nn.Module):
    """Self-attention and a perceptron, each with dropout, residual connection and layer norm.

    Args:
      has_first_norm: whether a norm stands before or after the attention.
      reach: of local attention in blocks, see models.attention; 0: all pairs of pieces.
    """

    form: LayerForm
    dropout: float
    has_first_norm: bool
    reach: int
    product_dtype: DTypeLike | None

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        bias: jax.Array,
        rotation: "Rotation | None",
        relative_RD: jax.Array | None,
        noise_B2: jax.Array | None,
        first_only: bool,
    ) -> jax.Array:
        """States [B T, D] from x [B T, D]; with first_only those of the first pieces [B, D].

        Args:
          bias: [B, 1 or N, 1 or T, T], added to the attention scores.
          relative_RD: embeddings of relative places.
        """
        form, size, site = self.form, x.shape[-1], "/".join(self.path)
        norm = partial(LayerNorm, form.epsilon, form.norm_bias)
        norm_attended = norm(name="norm_attended") if self.has_first_norm else _identity
        norm_outer = norm(name="norm_outer")

        def drop_states(states: jax.Array, place: str) -> jax.Array:
            return drop(states, self.dropout, noise_B2, f"{site}/{place}")

        affine = partial(Affine, product_dtype=self.product_dtype)
        qkv = affine(3 * size, biased=form.attention_bias, name="qkv")
        read = norm_attended(x) if form.norm_first else x
        if first_only:
            keys, values = jnp.split(qkv(read, slice(size, None)), 2, axis=-1)
            x, read = (_first_pieces(states, bias.shape[0]) for states in (x, read))
            bias = bias[:, :, :1]
            queries = qkv(read, slice(size))
        else:
            queries, keys, values = jnp.split(qkv(read), 3, axis=-1)
        relative = None if relative_RD is None else self._relative(relative_RD, qkv)
        attended = self._attend(queries, keys, values, bias, rotation, relative, noise_B2)
        projected = affine(size, biased=form.attention_bias, name="attended")(attended)
        x = x + drop_states(projected, "attended")
        x = x if form.norm_first else norm_attended(x)
        read = norm_outer(x) if form.norm_first else x
        width = form.intermediate_size * (2 if form.gated else 1)
        inner = affine(width, biased=form.mlp_bias, name="inner")(read)
        if form.gated:
            inner, gate = jnp.split(inner, 2, axis=-1)
            inner = gelu(inner) * gate
        else:
            inner = gelu(inner)
        outer = affine(size, biased=form.mlp_bias, name="outer")(inner)
        x = x + drop_states(outer, "outer")
        return x if form.norm_first else norm_outer(x)

    def _relative(self, relative_RD: jax.Array, qkv: Affine) -> Relative:
        """The queries and keys of relative places, projected from their embeddings."""
        form, size = self.form, relative_RD.shape[-1]
        heads = (-1, form.heads, size // form.heads)

        def project(name: str, columns: slice) -> jax.Array:
            if form.relative_shared:
                projection = qkv(relative_RD, columns)
            else:
                projection = Affine(size, self.product_dtype, name=name)(relative_RD)
            return jnp.swapaxes(projection.reshape(heads), 0, 1)

        query_NRA, key_NRA = None, None
        if POSITION_TO_CONTENT in form.relative_terms:
            query_NRA = project("relative_query", slice(size)) * form.scale(heads[-1])
        if CONTENT_TO_POSITION in form.relative_terms:
            key_NRA = project("relative_key", slice(size, 2 * size))
        return Relative(query_NRA, key_NRA)

    def _attend(
        self,
        queries: jax.Array,
        keys: jax.Array,
        values: jax.Array,
        bias: jax.Array,
        rotation: "Rotation | None",
        relative: Relative | None,
        noise_B2: jax.Array | None,
    ) -> jax.Array:
        """Attention of all heads (Vaswani et al. 2017, eq. 1): [B U, D]."""
        rows, size, site = bias.shape[0], queries.shape[-1], "/".join(self.path) + "/weights"
        heads = (rows, -1, self.form.heads, size // self.form.heads)
        projected = (queries, keys, values)
        q_BNUA, k_BNTA, v_BNTA = (jnp.swapaxes(x.reshape(heads), 1, 2) for x in projected)
        if rotation is not None:
            q_BNUA, k_BNTA = rotation.rotate(q_BNUA), rotation.rotate(k_BNTA)
        q_BNUA = q_BNUA * self.form.scale(heads[-1])
        if self.reach:
            return self._attend_near(q_BNUA, k_BNTA, v_BNTA, bias, noise_B2)
        scores_BNUT = q_BNUA @ jnp.swapaxes(k_BNTA, 2, 3)
        if relative is not None:
            scores_BNUT = scores_BNUT + relative.scores(q_BNUA, k_BNTA)
        energies_BNUT = wide(scores_BNUT) + bias
        weights_BNUT = nn.softmax(energies_BNUT).astype(v_BNTA.dtype)
        weights_BNUT = drop(weights_BNUT, self.dropout, noise_B2, site)
        return jnp.swapaxes(weights_BNUT @ v_BNTA, 1, 2).reshape(-1, size)

    def _attend_near(
        self,
        q_BNTA: jax.Array,
        k_BNTA: jax.Array,
        v_BNTA: jax.Array,
        bias_B11T: jax.Array,
        noise_B2: jax.Array | None,
    ) -> jax.Array:
        """Local attention in blocks, [B T, D], with the dropout masks of all pairs of pieces."""
        _, heads, size, head_size = q_BNTA.shape
        energies_BNCWX = wide(attention.window_energies(q_BNTA, k_BNTA, bias_B11T, self.reach))
        weights_BNCWX = nn.softmax(energies_BNCWX).astype(v_BNTA.dtype)
        head_N111 = jnp.arange(heads)[:, None, None, None]
        place_NCWX = place_of(head_N111, *attention.window_places(size, self.reach))
        site = "/".join(self.path) + "/weights"
        weights_BNCWX = drop(weights_BNCWX, self.dropout, noise_B2, site, place_NCWX)
        attended_BNTA = attention.window_sums(weights_BNCWX, v_BNTA, self.reach)
        return jnp.swapaxes(attended_BNTA, 1, 2).reshape(-1, heads * head_size)


def _identity(x: jax.Array) -> jax.Array:
    return x


class Rotation(NamedTuple):
    """Rotary positions (Su et al. 2021, section 3.2.2) of T pieces: cosines and sines [T, A] of the
    angles, which both halves of a head's numbers share."""

    cosine_TA: jax.Array
    sine_TA: jax.Array

    def rotate(self, x_BNUA: jax.Array) -> jax.Array:
        """Rotates queries or keys of the first U pieces."""
        size = x_BNUA.shape[2]
        first, second = jnp.split(x_BNUA, 2, axis=-1)
        turned_BNUA = jnp.concatenate([-second, first], axis=-1)
        rotated = x_BNUA * self.cosine_TA[:size] + turned_BNUA * self.sine_TA[:size]
        return rotated.astype(x_BNUA.dtype)


def rotation_of(size: int, head_size: int, base: float) -> Rotation | None:
    """The rotation of `size` pieces; None for a base of 0."""
    if not base:
        return None
    frequency_A = base ** -(np.arange(0, head_size, 2) / head_size)
    angle_TA = np.arange(size)[:, None] * np.concatenate([frequency_A, frequency_A])
    return Rotation(jnp.asarray(np.cos(angle_TA)), jnp.asarray(np.sin(angle_TA)))


def _first_pieces(x: jax.Array, rows: int) -> jax.Array:
    """The first piece [B, D] of each row of [B T, D]."""
    return x.reshape(rows, -1, x.shape[-1])[:, 0]


def wide(x: jax.Array) -> jax.Array:
    """Casts x to at least 32 bits."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


@jax.custom_vjp
def gelu(x: jax.Array) -> jax.Array:
    """GELU: x Phi(x) by the exact error function (Hendrycks & Gimpel 2016)."""
    return _gelu_forward(x)[0]


def _gelu_forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns (gelu(x), its slope). The backward pass reads only the slope, so that the error
    function is computed once."""
    x_wide = wide(x)
    below = 0.5 + 0.5 * lax.erf(x_wide * math.sqrt(0.5))
    slope = below + x_wide * jnp.exp(-0.5 * x_wide**2) * (2 * math.pi) ** -0.5
    return (x_wide * below).astype(x.dtype), slope.astype(x.dtype)


gelu.defvjp(_gelu_forward, lambda slope, d_out: (slope * d_out,))


def noise_of(row_key_B: jax.Array) -> jax.Array:
    """The source of dropout masks [B, 2]: the two words of each row's key."""
    return jax.vmap(jax.random.key_data)(row_key_B)


def drop(
    x: jax.Array,
    rate: float,
    noise_B2: jax.Array | None,
    site: str,
    place: jax.Array | None = None,
) -> jax.Array:
    """Dropout of states [B T, D] or [B, D], or of attention weights [B, N, U, T].

    As in layers.RowDropout the mask depends on the row and the place in it, not on the padded
    length. A layer needs millions of random numbers, which take jax.random as long as the layer's
    products. Here they are mixed from the row's key, the name of the site and the place.

    place: the numbers of the places of x in a row; None numbers them by their indices.
    """
    if noise_B2 is None or rate == 0.0:
        return x
    rows = noise_B2.shape[0]
    of_rows = x.reshape((rows, -1, x.shape[1]) if x.ndim == 2 else x.shape)
    if place is None:
        shape = of_rows.shape[1:]
        place = place_of(*(lax.broadcasted_iota(jnp.uint32, shape, i) for i in range(len(shape))))
    first, second = jnp.moveaxis(noise_B2.reshape(rows, 2, *(1,) * (of_rows.ndim - 1)), 1, 0)
    site_number = jnp.uint32(zlib.crc32(site.encode()))
    bits = mix_bits(mix_bits(place ^ first) + (second ^ site_number))
    stays = bits >= jnp.uint32(round(rate * 2**32))
    return jnp.where(stays, of_rows / (1.0 - rate), 0.0).reshape(x.shape)


def place_of(*indices: jax.Array) -> jax.Array:
    """Combines the indices of a place in a row to one number, uint32."""
    place = jnp.zeros((), jnp.uint32)
    for index in indices:
        place = place * LONGEST + index.astype(jnp.uint32)
    return place


def mix_bits(x: jax.Array) -> jax.Array:
    """A permutation of uint32: each bit of x flips about half of the bits of the result (Wellons
    2018, lowbias32)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
