"""InferSent (Conneau et al. 2017), with the knowledge-directed attention of Romanov & Shivade 2018,
section 4.2.2.

Dimension letters: B pairs, Q premises, P premise tokens, H hypothesis tokens, R sentences, N slots
of packed sentences, D feature.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mednli_jax.models import layers
from mednli_jax.models.batch import PairBatch


class InferSent(layers.PairModel):
    """One bidirectional encoder for both sides, pooled; [p, h, |p - h|, p * h] -> two tanh layers
    -> logits.

    Args:
      cell: "lstm" or "gru".
      pooling: "max", "mean" or "last" (the last state of each direction: the plain BiLSTM).
      matching: "full", or "concat" ([p, h] only).
      knowledge: "none"; "replace": states attended with the paper's matrix A are appended along
        time before pooling; "bias": as "replace", with a learned weight per path length in place of
        A.
      masking: "masked"; "paper": softmax and max include padding, as published. Needs batches of
        one padded length.
    """

    dropout: float = 0.5
    cell: str = "lstm"
    pooling: str = "max"
    matching: str = "full"

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        batch = layers.with_keys(self, batch, self.dropout, train=train)
        packing = layers.sentences(batch)
        words = self.embed(batch, packing)
        encoder = self.birnn("encoder", self.cell)
        if self.knowledge != "none" or self.masking != "masked" or self.pooling == "last":
            states_QPD, states_BHD = packing.unpack(encoder(words, packing), *batch.shapes)
            premise_BD, hypothesis_BD = self._pool_padded(batch, states_QPD, states_BHD)
        else:
            pool = packing.max if self.pooling == "max" else packing.mean
            # Their order does not matter, so the backward states stay mirrored.
            forward_NH, mirrored_NH = encoder.directions(words, packing)
            pooled_RD = jnp.concatenate([pool(forward_NH), pool(mirrored_NH)], axis=-1)
            premise_QD, hypothesis_BD = jnp.split(pooled_RD, [batch.premise.shape[0]])
            premise_BD = layers.per_pair(premise_QD, batch)
        features = [premise_BD, hypothesis_BD]
        if self.matching == "full":
            features += [jnp.abs(premise_BD - hypothesis_BD), premise_BD * hypothesis_BD]
        x = jnp.concatenate(features, axis=-1)
        for i in range(2):
            x = layers.RowDropout(self.dropout, name=f"dropout_{i}")(x, batch.row_key)
            x = jnp.tanh(self.linear(self.hidden_size, f"layer_{i}")(x))
        x = layers.RowDropout(self.dropout, name="dropout_2")(x, batch.row_key)
        return self.linear(self.num_classes, "logits")(x)

    def _pool_padded(
        self, batch: PairBatch, states_QPD: jax.Array, states_BHD: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Pools padded states and attended states: premise and hypothesis [B, D]."""
        mask_BP, mask_BH = layers.sentence_masks(batch)
        states_BPD = layers.per_pair(states_QPD, batch)
        if self.knowledge == "none":
            return self._pool(states_BPD, mask_BP), self._pool(states_BHD, mask_BH)
        energies_BPH = layers.knowledge_energies(self, batch)
        masked = self.masking == "masked"
        weights = layers.alignment(energies_BPH, mask_BP, mask_BH, masked=masked)
        self.sow(layers.ATTENTION, "links", weights)
        attended_BPD, attended_BHD = layers.attend(
            weights, states_QPD, states_BHD, self.product_dtype
        )
        premise_BTD = jnp.concatenate([states_BPD, attended_BPD], axis=1)
        hypothesis_BTD = jnp.concatenate([states_BHD, attended_BHD], axis=1)
        return (
            self._pool(premise_BTD, jnp.concatenate([mask_BP, mask_BP], axis=1)),
            self._pool(hypothesis_BTD, jnp.concatenate([mask_BH, mask_BH], axis=1)),
        )

    def _pool(self, states_BTD: jax.Array, mask_BT: jax.Array) -> jax.Array:
        """Pools over the tokens of each row: [B, D]."""
        if self.pooling == "mean":
            return layers.masked_mean(states_BTD, mask_BT)
        if self.pooling == "max":
            sees_padding = self.masking != "masked"
            return layers.masked_max(
                states_BTD, jnp.ones_like(mask_BT) if sees_padding else mask_BT
            )
        forward_BTH, backward_BTH = jnp.split(states_BTD, 2, axis=-1)
        last_B = jnp.maximum(mask_BT.sum(axis=1) - 1, 0)
        last_forward_BH = jnp.take_along_axis(forward_BTH, last_B[:, None, None], axis=1)[:, 0]
        return jnp.concatenate([last_forward_BH, backward_BTH[:, 0]], axis=-1)
