"""ESIM (Chen et al. 2017), optionally with the knowledge-directed attention of Romanov & Shivade
2018, section 4.2.2, or the typed relations of Chen et al. 2018 (KIM).

Dimension letters: B pairs, Q premises, P premise tokens, H hypothesis tokens, N slots of packed
sentences, D feature, R relation types.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from mednli_jax.models import layers
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.packing import Packing
from mednli_jax.models.products import matmul


class _Inference(NamedTuple):
    """The local inference of ESIM, packed by pairs."""

    inputs: jax.Array  # [N, D or 2 D], of the composition
    related: jax.Array | None = None  # [N, R], relations to the attended tokens; typed links only


class ESIM(layers.PairModel):
    """BiLSTM, soft alignment, enhancement, composition BiLSTM, average and max pooling, tanh layer
    -> logits.

    Args:
      dropout: at the four places of the original ESIM; the published MedNLI code has none (0).
      knowledge: "none";
        "replace": a second enhancement, aligned by the paper's matrix A instead of attention
        scores, uses the same projection and is concatenated before composition (the dashed blocks
        of Romanov & Shivade's figure 2);
        "bias": a learned weight per path length is added to the attention scores;
        "typed": KIM. Related tokens attend to each other more (knowledge_scale is its lambda),
        local inference also reads the relations to the attended tokens, and a pooling weighted by
        relations is added to average and maximum.
        With weights of 0, "bias" and "typed" are plain ESIM.
      masking: "masked"; "paper": softmax and max include padding, as published. Needs batches of
        one padded length.
      relations: number of relation types of the corpus's typed links.
      same_words: whether equal words are one of these types, which the paper does not have.
    """

    dropout: float = 0.0
    relations: int = 0
    same_words: bool = True

    @property
    def shares_words(self) -> bool:
        return super().shares_words and not self.dropout  # it drops words before their projection

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        batch = layers.with_keys(self, batch, self.dropout, train=train)
        packing = layers.sentences(batch)
        paired = packing if batch.group_size == 1 else layers.paired_sentences(batch)

        def drop(x_BD: jax.Array, name: str) -> jax.Array:
            return layers.RowDropout(self.dropout, name=name)(x_BD, batch.row_key)

        def drop_tokens(x_ND: jax.Array, packing: Packing, name: str) -> jax.Array:
            """Drops tokens with a mask that depends on the side, the row and the token's place."""
            keys_R = layers.sentence_keys(batch, packing.length_R.shape[0])
            return layers.drop_tokens(self.dropout, x_ND, packing, keys_R, name)

        words = self.embed(batch, packing)
        if not isinstance(words, layers.Words):
            words = drop_tokens(words, packing, "drop_words")
        encoded_ND = self.birnn("encoder")(words, packing)
        inputs_ND, related_NR = self._local_inference(batch, encoded_ND, packing, paired)
        inputs_ND = drop_tokens(inputs_ND, paired, "drop_enhanced")
        states_ND = self.birnn("composition")(inputs_ND, paired)
        pooled_BD = drop(self._pool(batch, states_ND, paired), "drop_pooled")
        hidden_BD = self.linear(self.hidden_size, "layer")(pooled_BD)
        if related_NR is not None:
            weighted_BD = drop(self._weighted_pool(states_ND, related_NR, paired), "drop_weighted")
            hidden_BD += self.linear(self.hidden_size, "pooled", biased=False)(weighted_BD)
        hidden_BD = drop(jnp.tanh(hidden_BD), "drop_layer")
        return self.linear(self.num_classes, "logits")(hidden_BD)

    def _local_inference(
        self, batch: PairBatch, encoded_ND: jax.Array, packing: Packing, paired: Packing
    ) -> _Inference:
        """Soft alignment and enhancement (Chen et al. 2017, section 3.2)."""
        premise_QPD, hypothesis_BHD = packing.unpack(encoded_ND, *batch.shapes)
        mask_BP, mask_BH = layers.sentence_masks(batch)
        if batch.group_size > 1:
            encoded_ND = paired.pack(layers.per_pair(premise_QPD, batch), hypothesis_BHD)
        enhance = Enhancement(self.hidden_size, self.product_dtype, name="projection")

        def align(energies_BPH: jax.Array, name: str = "tokens") -> layers.Attention:
            masked = self.masking == "masked"
            weights = layers.alignment(energies_BPH, mask_BP, mask_BH, masked=masked)
            self.sow(layers.ATTENTION, name, weights)
            return weights

        def infer(weights: layers.Attention, related_ND: jax.Array | float = 0.0) -> jax.Array:
            attended = layers.attend(weights, premise_QPD, hypothesis_BHD, self.product_dtype)
            return enhance(encoded_ND, paired.pack(*attended), related_ND)

        energies_BPH = layers.token_products(premise_QPD, hypothesis_BHD, self.product_dtype)
        if self.knowledge == "none":
            return _Inference(infer(align(energies_BPH)))
        if self.knowledge == "typed":
            relations = layers.Relations(batch, self.relations, same_words=self.same_words)
            weights = align(energies_BPH + relations.energies(self.knowledge_scale))
            related_NR = paired.pack(*relations.attended_relations(weights))
            related_ND = self.linear(self.hidden_size, "relations", biased=False)(related_NR)
            return _Inference(infer(weights, related_ND), related_NR)
        links_BPH = layers.knowledge_energies(self, batch)
        if self.knowledge == "bias":
            return _Inference(infer(align(energies_BPH + links_BPH)))
        by_tokens_ND = infer(align(energies_BPH))
        by_links_ND = infer(align(links_BPH, "links"))
        return _Inference(jnp.concatenate([by_tokens_ND, by_links_ND], axis=-1))

    def _pool(self, batch: PairBatch, states_ND: jax.Array, paired: Packing) -> jax.Array:
        """Average and maximum of the premise, then of the hypothesis, [B, 8 hidden_size] (Chen et
        al. 2017, eqs. 18-19)."""
        if self.masking == "masked":
            top_RD = paired.max(states_ND)
        else:
            rows, *widths = batch.attention_shape
            sides = paired.unpack(states_ND, *((rows, width) for width in widths))
            top_RD = jnp.concatenate([states_BTD.max(axis=1) for states_BTD in sides])
        pooled_RD = jnp.concatenate([paired.mean(states_ND), top_RD], axis=-1)
        return jnp.concatenate(jnp.split(pooled_RD, 2), axis=-1)

    def _weighted_pool(
        self, states_ND: jax.Array, related_NR: jax.Array, paired: Packing
    ) -> jax.Array:
        """The mean of states weighted by a softmax of relu(F(relations)), F linear: [B, 4
        hidden_size], premise then hypothesis (Chen et al. 2018, knowledge-enhanced inference
        composition)."""
        energies_N1 = nn.relu(self.linear(1, "pooling")(related_NR))
        return jnp.concatenate(jnp.split(paired.softmax_mean(energies_N1, states_ND), 2), axis=-1)


class Enhancement(nn.Module):
    """Enhancement of tokens a by attended states b: relu(F([a, b, a - b, a * b]) + related) (Chen
    et al. 2017, eqs. 14-15, section 3.3).

    The difference is linear, so its part of F is added to those of a and b: three products instead
    of four.
    """

    features: int
    product_dtype: DTypeLike | None = None

    @nn.compact
    def __call__(
        self, a_ND: jax.Array, b_ND: jax.Array, related_ND: jax.Array | float = 0.0
    ) -> jax.Array:
        size = 4 * a_ND.shape[-1]
        kernel = self.param("kernel", layers.uniform_init(size), (size, self.features))
        bias = self.param("bias", layers.uniform_init(size), (self.features,))
        of_a, of_b, of_difference, of_product = jnp.split(kernel, 4)
        linear_ND = (
            matmul(a_ND, of_a + of_difference, self.product_dtype)
            + matmul(b_ND, of_b - of_difference, self.product_dtype)
            + matmul(a_ND * b_ND, of_product, self.product_dtype)
        )
        linear_ND = linear_ND + bias
        return nn.relu(linear_ND + related_ND)
