"""Sum-of-words classifier (Bowman et al. 2015 with ReLU; Romanov & Shivade 2018, section 3).

Dimension letters: B pairs, Q premises, P premise tokens, H hypothesis tokens, R sentences, N slots
of packed sentences, D feature.
"""

import flax.linen as nn
import jax.numpy as jnp

from mednli_jax.models import layers


class BOW(layers.PairModel):
    """Tokens -> ReLU(Linear), summed -> batch norm -> concatenation -> three layers -> logits [B,
    classes].

    Args:
      knowledge: "none"; "replace": each token also attends to the other side with the paper's matrix A, and attended
        states are summed, normalised and concatenated like the tokens (not in the paper; as its InferSent, section
        4.2.2, with sums instead of maxima); "bias": the same with a learned weight per path length.
      masking: "masked"; "paper": both sides are padded to `padded_length` tokens, and padding counts as words with zero
        vectors: each adds ReLU(bias) to the sum and takes part in the softmax. Needs batches of one padded length.
      matching: "concat"; "full" adds |p - h| and p * h of the normalised sums p and h, as in InferSent.
      axis_name: the mapped device axis.
    """

    dropout: float = 0.5
    padded_length: int = 50
    matching: str = "concat"
    axis_name: str | None = None

    @nn.compact
    def __call__(self, batch, *, train: bool):
        packing = layers.sentences(batch)
        tokens = packing.tokens(batch.premise, batch.hypothesis)
        distinct = batch.distinct_words if self.shares_words else 0
        words = layers.WordEmbedding(self.train_vectors, name="embedding")(
            tokens, distinct=distinct
        )

        def norm(name):
            return layers.MaskedBatchNorm(axis_name=self.axis_name, name=name)

        projection = self.linear(self.hidden_size, "projection")
        projected_ND = nn.relu(projection(words))
        sums_RD, padding_D = packing.sum(projected_ND), None
        if self.masking == "paper":
            padding_D = nn.relu(projection(jnp.zeros(words.shape[-1:], projected_ND.dtype)))
            sums_RD += (self.padded_length - packing.length_R)[:, None] * padding_D
        premise_QD, hypothesis_BD = jnp.split(sums_RD, [batch.premise.shape[0]])
        sums = {"premise": layers.per_pair(premise_QD, batch), "hypothesis": hypothesis_BD}
        if self.knowledge != "none":
            attended = self._attend(batch, packing.unpack(projected_ND, *batch.shapes), padding_D)
            sums |= dict(zip(("premise_attended", "hypothesis_attended"), attended, strict=True))
        sides = [
            norm(f"norm_{name}")(sum_BD, batch.mask, train=train) for name, sum_BD in sums.items()
        ]
        if self.matching == "full":
            premise_BD, hypothesis_BD = sides[:2]
            sides += [jnp.abs(premise_BD - hypothesis_BD), premise_BD * hypothesis_BD]
        x = jnp.concatenate(sides, axis=-1)
        x = layers.RowDropout(self.dropout, name="dropout_sum")(x, batch.row_key, train=train)
        for i in range(3):
            x = nn.relu(self.linear(2 * self.hidden_size, f"layer_{i}")(x))
            x = layers.RowDropout(self.dropout, name=f"dropout_{i}")(x, batch.row_key, train=train)
            x = norm(f"norm_{i}")(x, batch.mask, train=train)
        return self.linear(self.num_classes, "logits")(x)

    def _attend(self, batch, padded, padding_D):
        """Sums [B, D] of the states to which the tokens of each side attend.

        Args:
          padded: projected tokens of both sides, [Q, P, D] and [B, H, D].
          padding_D: the state of padding, None where padding does not count.
        """
        masks = layers.sentence_masks(batch)
        energies_BPH = layers.knowledge_energies(self, batch)
        if padding_D is not None:
            more = [(0, self.padded_length - side.shape[1]) for side in padded]
            energies_BPH = jnp.pad(energies_BPH, ((0, 0), *more))
            lengths = (batch.premise_length, batch.hypothesis_length)
            padded = [
                jnp.where(
                    layers.length_mask(length, self.padded_length)[..., None],
                    jnp.pad(side, ((0, 0), extra, (0, 0))),
                    padding_D,
                )
                for side, length, extra in zip(padded, lengths, more, strict=True)
            ]
            masks = [jnp.ones((energies_BPH.shape[0], self.padded_length), bool)] * 2
        weights = layers.alignment(energies_BPH, *masks)
        self.sow(layers.ATTENTION, "links", weights)
        attended = layers.attend(weights, *padded, self.product_dtype)
        return [
            layers.masked_sum(states, mask) for states, mask in zip(attended, masks, strict=True)
        ]
