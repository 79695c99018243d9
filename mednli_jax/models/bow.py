"""Sum-of-words classifier (Bowman et al. 2015 with ReLU; Romanov & Shivade 2018, section 3).

Dimension letters: B pairs, Q premises, P premise tokens, H hypothesis tokens, T `padded_length`, R
sentences, N slots of packed sentences, D feature.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mednli_jax.models import layers
from mednli_jax.models.batch import PairBatch


class BOW(layers.PairModel):
    """Tokens -> ReLU(Linear), summed -> batch norm -> concatenation -> three layers -> logits [B,
    classes].

    Args:
      knowledge: "none";
        "replace": each token also attends to the other side with the paper's matrix A, and attended
          states are summed, normalised and concatenated like the tokens (not in the paper; as its
          InferSent, section 4.2.2, with sums instead of maxima);
        "bias": as "replace", with a learned weight per path length in place of A.
      masking: "masked"; "paper": both sides are padded to `padded_length` tokens, and padding
        counts as words with zero vectors: each adds ReLU(bias) to the sum and takes part in the
        softmax. Needs batches of one padded length.
      matching: "concat"; "full" adds |p - h| and p * h of the normalised sums p and h, as in
        InferSent.
      axis_name: the mapped device axis.
    """

    dropout: float = 0.5
    padded_length: int = 50
    matching: str = "concat"
    axis_name: str | None = None

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        batch = layers.with_keys(self, batch, self.dropout, train=train)
        packing = layers.sentences(batch)
        words = self.embed(batch, packing)
        projection = self.linear(self.hidden_size, "projection")

        def hidden(vectors: jax.Array) -> jax.Array:
            return nn.relu(projection(vectors))

        projected = layers.on_words(hidden, words)
        sums_RD = layers.sum_of_tokens(projected, packing)
        padding_D = None
        if self.masking == "paper":
            padding_D = hidden(jnp.zeros(words.shape[-1:], sums_RD.dtype))
            sums_RD += (self.padded_length - packing.length_R)[:, None] * padding_D
        premise_QD, hypothesis_BD = jnp.split(sums_RD, [batch.premise.shape[0]])
        sums = {"premise": layers.per_pair(premise_QD, batch), "hypothesis": hypothesis_BD}
        if self.knowledge != "none":
            padded = packing.unpack(layers.per_token(projected), *batch.shapes)
            premise_BD, hypothesis_BD = self._attended_sums(batch, padded, padding_D)
            sums |= {"premise_attended": premise_BD, "hypothesis_attended": hypothesis_BD}
        sides = []
        for name, sum_BD in sums.items():
            sides.append(self._norm(f"norm_{name}")(sum_BD, batch.mask, train=train))
        if self.matching == "full":
            premise_BD, hypothesis_BD = sides[:2]
            sides += [jnp.abs(premise_BD - hypothesis_BD), premise_BD * hypothesis_BD]
        x = jnp.concatenate(sides, axis=-1)
        x = layers.RowDropout(self.dropout, name="dropout_sum")(x, batch.row_key)
        for i in range(3):
            x = nn.relu(self.linear(2 * self.hidden_size, f"layer_{i}")(x))
            x = layers.RowDropout(self.dropout, name=f"dropout_{i}")(x, batch.row_key)
            x = self._norm(f"norm_{i}")(x, batch.mask, train=train)
        return self.linear(self.num_classes, "logits")(x)

    def _norm(self, name: str) -> layers.MaskedBatchNorm:
        return layers.MaskedBatchNorm(axis_name=self.axis_name, name=name)

    def _attended_sums(
        self, batch: PairBatch, padded: list[jax.Array], padding_D: jax.Array | None
    ) -> tuple[jax.Array, jax.Array]:
        """The sums of the states to which the tokens of each side attend, [B, D] for either side.

        Args:
          padded: projected tokens of both sides, [Q, P, D] and [B, H, D].
          padding_D: the state of padding, None if padding does not count.
        """
        premise_QPD, hypothesis_BHD = padded
        premise_mask, hypothesis_mask = layers.sentence_masks(batch)
        energies_BPH = layers.knowledge_energies(self, batch)
        if padding_D is not None:
            length = self.padded_length
            extra_P, extra_H = (length - width for width in energies_BPH.shape[1:])
            energies_BPH = jnp.pad(energies_BPH, ((0, 0), (0, extra_P), (0, extra_H)))
            premise_QPD = self._with_padding(premise_QPD, batch.premise_length, padding_D)
            hypothesis_BHD = self._with_padding(hypothesis_BHD, batch.hypothesis_length, padding_D)
            premise_mask = hypothesis_mask = jnp.ones((len(energies_BPH), length), bool)
        weights = layers.alignment(energies_BPH, premise_mask, hypothesis_mask)
        self.sow(layers.ATTENTION, "links", weights)
        premise_BPD, hypothesis_BHD = layers.attend(
            weights, premise_QPD, hypothesis_BHD, self.product_dtype
        )
        return (
            layers.masked_sum(premise_BPD, premise_mask),
            layers.masked_sum(hypothesis_BHD, hypothesis_mask),
        )

    def _with_padding(
        self, states: jax.Array, length: jax.Array, padding_D: jax.Array
    ) -> jax.Array:
        """Extends states [rows, tokens, D] to [rows, T, D], with padding_D on padding."""
        extra = self.padded_length - states.shape[1]
        is_token = layers.length_mask(length, self.padded_length)[..., None]
        return jnp.where(is_token, jnp.pad(states, ((0, 0), (0, extra), (0, 0))), padding_D)
