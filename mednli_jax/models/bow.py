"""Sum-of-words classifier (Bowman et al. 2015 with ReLU; Romanov & Shivade 2018, section 3).

Dimension letters: B pairs, Q premises, R sentences, N slots of packed sentences, D feature.
"""

import flax.linen as nn
import jax.numpy as jnp

from mednli_jax.models import layers
from mednli_jax.models.words import WordEmbedding


class BOW(nn.Module):
    """Tokens -> ReLU(Linear), summed -> batch norm -> concatenation -> three layers -> logits [B, classes]."""

    hidden_size: int = 300
    dropout: float = 0.5
    num_classes: int = 3
    train_vectors: bool = False
    axis_name: str | None = None

    @property
    def shares_words(self) -> bool:
        """Whether equal words of a batch are projected once: frozen, and not set apart by dropout."""
        return not self.train_vectors

    @nn.compact
    def __call__(self, batch, *, train: bool):
        packing = layers.sentences(batch)
        tokens = packing.tokens(batch["premise"], batch["hypothesis"])
        distinct = batch.get("words", 0) if self.shares_words else 0
        words = WordEmbedding(self.train_vectors, name="embedding")(tokens, distinct=distinct)

        def norm(name, affine=True):
            return layers.MaskedBatchNorm(affine=affine, axis_name=self.axis_name, name=name)

        sum_RD = packing.sum(nn.relu(layers.Linear(self.hidden_size, name="projection")(words)))
        premise_QD, hypothesis_BD = jnp.split(sum_RD, [batch["premise"].shape[0]])
        sides = [
            norm(f"norm_{side}", affine=False)(side_BD, batch["mask"], train=train)
            for side, side_BD in (("premise", layers.per_pair(premise_QD, batch)), ("hypothesis", hypothesis_BD))
        ]
        x = jnp.concatenate(sides, axis=-1)
        x = layers.RowDropout(self.dropout, name="dropout_sum")(x, batch.get("row_key"), train=train)
        for i in range(3):
            x = nn.relu(layers.Linear(2 * self.hidden_size, name=f"layer_{i}")(x))
            x = layers.RowDropout(self.dropout, name=f"dropout_{i}")(x, batch.get("row_key"), train=train)
            x = norm(f"norm_{i}")(x, batch["mask"], train=train)
        return layers.Linear(self.num_classes, name="logits")(x)
