"""InferSent (Conneau et al. 2017), with the knowledge-directed attention of Romanov & Shivade 2018,
section 4.2.2.

Dimension letters: B pairs, Q premises, P premise tokens, H hypothesis tokens, R sentences, N slots
of packed sentences, D feature.
"""

import flax.linen as nn
import jax.numpy as jnp

from mednli_jax.models import layers


class InferSent(layers.PairModel):
    """One bidirectional encoder for both sides, pooled; [p, h, |p - h|, p * h] -> two tanh layers
    -> logits.

    Args:
      cell: "lstm" or "gru".
      pooling: "max", "mean" or "last" (the last state of each direction: the plain BiLSTM).
      matching: "full", or "concat" ([p, h] only).
      knowledge: "none"; "replace": states attended with the paper's matrix A are appended along time before pooling;
        "bias": the same with a learned weight per path length.
      masking: "masked"; "paper": softmax and max include padding, as published. Needs batches of one padded length.
    """

    dropout: float = 0.5
    cell: str = "lstm"
    pooling: str = "max"
    matching: str = "full"

    @nn.compact
    def __call__(self, batch, *, train: bool):
        packing = layers.sentences(batch)
        tokens = packing.tokens(batch.premise, batch.hypothesis)
        distinct = batch.distinct_words if self.shares_words else 0
        words = layers.WordEmbedding(self.train_vectors, name="embedding")(
            tokens, distinct=distinct
        )
        states_ND = self.birnn("encoder", self.cell)(words, packing)
        if self.knowledge != "none" or self.masking != "masked" or self.pooling == "last":
            premise_BD, hypothesis_BD = self._pool_padded(
                batch, packing.unpack(states_ND, *batch.shapes)
            )
        else:
            pooled_RD = packing.max(states_ND) if self.pooling == "max" else packing.mean(states_ND)
            premise_QD, hypothesis_BD = jnp.split(pooled_RD, [batch.premise.shape[0]])
            premise_BD = layers.per_pair(premise_QD, batch)
        features = [premise_BD, hypothesis_BD]
        if self.matching == "full":
            features += [jnp.abs(premise_BD - hypothesis_BD), premise_BD * hypothesis_BD]
        x = jnp.concatenate(features, axis=-1)
        for i in range(2):
            x = layers.RowDropout(self.dropout, name=f"dropout_{i}")(x, batch.row_key, train=train)
            x = jnp.tanh(self.linear(self.hidden_size, f"layer_{i}")(x))
        x = layers.RowDropout(self.dropout, name="dropout_2")(x, batch.row_key, train=train)
        return self.linear(self.num_classes, "logits")(x)

    def _pool_padded(self, batch, states):
        """Pooled (premise [B, D], hypothesis [B, D]) of padded states [Q, P, 2H], [B, H, 2H] and
        attended states."""
        masks, masked = layers.sentence_masks(batch), self.masking == "masked"
        padded = (layers.per_pair(states[0], batch), states[1])
        if self.knowledge != "none":
            weights = layers.alignment(
                layers.knowledge_energies(self, batch), *masks, masked=masked
            )
            self.sow(layers.ATTENTION, "links", weights)
            attended = layers.attend(weights, *states, self.product_dtype)
            padded = tuple(
                jnp.concatenate(pair, axis=1) for pair in zip(padded, attended, strict=True)
            )
            masks = tuple(jnp.concatenate([mask, mask], axis=1) for mask in masks)
        return tuple(self._pool(*pair, masked) for pair in zip(padded, masks, strict=True))

    def _pool(self, states_BTD, mask_BT, masked):
        if self.pooling == "mean":
            return layers.masked_mean(states_BTD, mask_BT)
        if self.pooling == "max":
            return layers.masked_max(states_BTD, mask_BT if masked else jnp.ones_like(mask_BT))
        forward, backward = jnp.split(states_BTD, 2, axis=-1)
        last_B = jnp.maximum(mask_BT.sum(axis=1) - 1, 0)
        return jnp.concatenate(
            [jnp.take_along_axis(forward, last_B[:, None, None], axis=1)[:, 0], backward[:, 0]], -1
        )
