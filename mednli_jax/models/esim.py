"""ESIM (Chen et al. 2017), with the knowledge-directed attention of Romanov & Shivade 2018, section 4.2.2.

Dimension letters: B batch, P premise tokens, H hypothesis tokens, T tokens of one side, D feature.
"""

import flax.linen as nn
import jax.numpy as jnp

from mednli_jax.models import layers


class ESIM(nn.Module):
    """BiLSTM, soft alignment, enhancement, composition BiLSTM, average and max pooling, tanh layer -> logits.

    knowledge "replace": a second enhancement, aligned by the paper's matrix A in place of the energies, passes the same
    projection and is concatenated before composition (the dashed blocks of Romanov & Shivade's figure 2).
    knowledge "bias": a learned weight per path length is added to the energies; weights of 0 are plain ESIM.
    knowledge_scale: factor of A; 1 is the paper's.
    masking "paper": softmax, average and max also run over padding, as published (pad all batches to one length then).
    dropout: at the four places of the original ESIM; the published MedNLI code has none (0).
    """

    hidden_size: int = 300
    dropout: float = 0.0
    num_classes: int = 3
    train_vectors: bool = False
    knowledge: str = "none"
    masking: str = "masked"
    longest_path: int = 0
    knowledge_scale: float = 1.0

    @nn.compact
    def __call__(self, batch, *, train: bool):
        masked = self.masking == "masked"
        masks = layers.sentence_masks(batch)
        lengths = (batch["premise_length"], batch["hypothesis_length"])

        def drop(x, name):
            return layers.RowDropout(self.dropout, name=name)(x, batch, train=train)

        embed = layers.WordEmbedding(self.train_vectors, name="embedding")
        encode = layers.BiRNN(self.hidden_size, name="encoder")
        embedded = (drop(embed(batch["premise"]), "drop_premise"), drop(embed(batch["hypothesis"]), "drop_hypothesis"))
        encoded = tuple(encode(x, length) for x, length in zip(embedded, lengths, strict=True))
        inputs = self._local_inference(batch, encoded, masks, masked)
        inputs = (drop(inputs[0], "drop_enhanced_premise"), drop(inputs[1], "drop_enhanced_hypothesis"))
        compose = layers.BiRNN(self.hidden_size, name="composition")
        pooled = []
        for x, length, mask_BT in zip(inputs, lengths, masks, strict=True):
            states_BTD = compose(x, length)
            # Chen et al. 2017, eqs. 18-19.
            mask_BT = mask_BT if masked else jnp.ones_like(mask_BT)
            pooled += [layers.masked_mean(states_BTD, mask_BT), layers.masked_max(states_BTD, mask_BT)]
        x = drop(jnp.concatenate(pooled, axis=-1), "drop_pooled")
        x = jnp.tanh(layers.Linear(self.hidden_size, name="layer")(x))
        return layers.Linear(self.num_classes, name="logits")(drop(x, "drop_layer"))

    def _local_inference(self, batch, encoded, masks, masked):
        """Aligned and enhanced inputs of the composition: (premise [B, P, H or 2H], hypothesis [B, H, H or 2H])."""
        project = layers.Linear(self.hidden_size, name="projection")

        def enhance(energies_BPH):
            attended = layers.soft_align(energies_BPH, *encoded, *masks, masked=masked)
            # Chen et al. 2017, eqs. 14-15, and the projection F of section 3.3.
            return [
                nn.relu(project(jnp.concatenate([a, b, a - b, a * b], axis=-1)))
                for a, b in zip(encoded, attended, strict=True)
            ]

        energies_BPH = encoded[0] @ jnp.swapaxes(encoded[1], 1, 2)  # eq. 11
        if self.knowledge == "none":
            return tuple(enhance(energies_BPH))
        weighting = "paper" if self.knowledge == "replace" else "learned"
        links_BPH = layers.KnowledgeEnergies(weighting, self.longest_path, self.knowledge_scale, name="knowledge")(
            batch
        )
        if self.knowledge == "bias":
            return tuple(enhance(energies_BPH + links_BPH))
        both = zip(enhance(energies_BPH), enhance(links_BPH), strict=True)
        return tuple(jnp.concatenate(pair, axis=-1) for pair in both)
