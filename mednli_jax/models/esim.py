"""ESIM (Chen et al. 2017), optionally with the knowledge-directed attention of Romanov & Shivade
2018, section 4.2.2, or the typed relations of Chen et al. 2018 (KIM).

Dimension letters: B pairs, Q premises, P premise tokens, H hypothesis tokens, N slots of packed
sentences, D feature.
"""

import flax.linen as nn
import jax.numpy as jnp
from jax.typing import DTypeLike

from mednli_jax.models import layers
from mednli_jax.models.products import matmul


class ESIM(layers.PairModel):
    """BiLSTM, soft alignment, enhancement, composition BiLSTM, average and max pooling, tanh layer
    -> logits.

    Args:
      dropout: at the four places of the original ESIM; the published MedNLI code has none (0).
      knowledge: "none";
        "replace": a second enhancement, aligned by the paper's matrix A instead of attention scores, uses the same
        projection and is concatenated before composition (the dashed blocks of Romanov & Shivade's figure 2);
        "bias": a learned weight per path length is added to the attention scores;
        "typed": KIM. Related tokens attend to each other more (knowledge_scale is its lambda), local inference also
        reads the relations to the attended tokens, and a pooling weighted by relations is added to average and maximum.
        With weights of 0, "bias" and "typed" are plain ESIM.
      masking: "masked"; "paper": softmax and max include padding, as published. Needs batches of one padded length.
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
    def __call__(self, batch, *, train: bool):
        masked = self.masking == "masked"
        row_key = batch.row_key
        packing = layers.sentences(batch)
        paired = packing if batch.group == 1 else layers.paired_sentences(batch)
        tokens = packing.tokens(batch.premise, batch.hypothesis)
        distinct = batch.distinct_words if self.shares_words else 0
        words = layers.WordEmbedding(self.train_vectors, name="embedding")(
            tokens, distinct=distinct
        )
        words = self._drop_tokens(words, packing, batch, "drop_words", train)
        encoded_ND = self.birnn("encoder")(words, packing)
        inputs_ND, related_NR = self._local_inference(batch, encoded_ND, packing, paired, masked)
        inputs_ND = self._drop_tokens(inputs_ND, paired, batch, "drop_enhanced", train)
        states_ND = self.birnn("composition")(inputs_ND, paired)
        pooled_BD = self._pool(batch, states_ND, paired, masked)
        pooled_BD = layers.RowDropout(self.dropout, name="drop_pooled")(
            pooled_BD, row_key, train=train
        )
        hidden_BH = self.linear(self.hidden_size, "layer")(pooled_BD)
        if related_NR is not None:
            weighted_BD = self._weighted_pool(states_ND, related_NR, paired)
            dropout = layers.RowDropout(self.dropout, name="drop_weighted")
            weighted_BD = dropout(weighted_BD, row_key, train=train)
            hidden_BH += self.linear(self.hidden_size, "pooled", biased=False)(weighted_BD)
        hidden_BH = jnp.tanh(hidden_BH)
        hidden_BH = layers.RowDropout(self.dropout, name="drop_layer")(
            hidden_BH, row_key, train=train
        )
        return self.linear(self.num_classes, "logits")(hidden_BH)

    def _drop_tokens(self, x, packing, batch, name, train):
        """Dropout of packed tokens [N, D]. The mask depends on the side, the row and the token's
        place."""
        keys_R = layers.sentence_keys(batch, packing.length_R.shape[0])
        return layers.drop_tokens(self.dropout, x, packing, keys_R, name=name, train=train)

    def _pool(self, batch, states_ND, paired, masked):
        """[B, 8H]: average and maximum of the premise, then of the hypothesis (Chen et al. 2017,
        eqs. 18-19)."""
        if masked:
            top_RD = paired.max(states_ND)
        else:
            rows, *widths = batch.attention_shape
            pairs = [(rows, width) for width in widths]
            top_RD = jnp.concatenate([x.max(axis=1) for x in paired.unpack(states_ND, *pairs)])
        both_RD = jnp.concatenate([paired.mean(states_ND), top_RD], axis=-1)
        return jnp.concatenate(jnp.split(both_RD, 2), axis=-1)

    def _weighted_pool(self, states_ND, related_NR, paired):
        """[B, 4H], premise then hypothesis: the mean of states weighted by a softmax of
        relu(F(relations)), F linear (Chen et al. 2018, knowledge-enhanced inference
        composition)."""
        energies_N1 = nn.relu(self.linear(1, "pooling")(related_NR))
        return jnp.concatenate(jnp.split(paired.softmax_mean(energies_N1, states_ND), 2), axis=-1)

    def _local_inference(self, batch, encoded_ND, packing, paired, masked):
        """(inputs of the composition, packed by pairs [N, H or 2H]; relations to the attended
        tokens [N, R], None without typed links)."""
        padded = packing.unpack(encoded_ND, *batch.shapes)
        masks = layers.sentence_masks(batch)
        if batch.group > 1:
            encoded_ND = paired.pack(layers.per_pair(padded[0], batch), padded[1])
        enhance = Enhancement(self.hidden_size, self.product_dtype, name="projection")

        def align(energies_BPH, name="tokens"):
            weights = layers.alignment(energies_BPH, *masks, masked=masked)
            self.sow(layers.ATTENTION, name, weights)
            return weights

        def aligned(weights, related_ND=0.0):
            attended = layers.attend(weights, *padded, self.product_dtype)
            return enhance(encoded_ND, paired.pack(*attended), related_ND)

        energies_BPH = layers.token_products(*padded, self.product_dtype)
        if self.knowledge == "none":
            return aligned(align(energies_BPH)), None
        if self.knowledge == "typed":
            relations = layers.Relations(batch, self.relations, same_words=self.same_words)
            weights = align(energies_BPH + relations.energies(self.knowledge_scale))
            related_NR = paired.pack(*relations.attended(weights))
            return aligned(
                weights, self.linear(self.hidden_size, "relations", biased=False)(related_NR)
            ), related_NR
        links_BPH = layers.knowledge_energies(self, batch)
        if self.knowledge == "bias":
            return aligned(align(energies_BPH + links_BPH)), None
        both = aligned(align(energies_BPH)), aligned(align(links_BPH, "links"))
        return jnp.concatenate(both, axis=-1), None


class Enhancement(nn.Module):
    """relu(F([a, b, a - b, a * b]) + more), tokens a, attended states b (Chen et al. 2017, eqs.
    14-15, section 3.3).

    The difference is linear, so its part of F is added to the parts of a and b: three products
    instead of four.
    """

    features: int
    product_dtype: DTypeLike | None = None  # see models.products

    @nn.compact
    def __call__(self, a_ND, b_ND, more_ND=0.0):
        size = 4 * a_ND.shape[-1]
        kernel = self.param("kernel", layers.uniform_init(size), (size, self.features))
        bias = self.param("bias", layers.uniform_init(size), (self.features,))
        own, other, difference, product = jnp.split(kernel, 4)
        linear_ND = (
            matmul(a_ND, own + difference, self.product_dtype)
            + matmul(b_ND, other - difference, self.product_dtype)
            + matmul(a_ND * b_ND, product, self.product_dtype)
        )
        linear_ND = linear_ND + bias
        return nn.relu(linear_ND + more_ND)
