"""Sum-of-words classifier (Bowman et al. 2015 with ReLU; Romanov & Shivade 2018, section 3).

Dimension letters: B batch, T tokens of one side, D feature.
"""

import flax.linen as nn
import jax.numpy as jnp

from mednli_jax.models import layers


class BOW(nn.Module):
    """Tokens -> ReLU(Linear), summed -> batch norm -> concatenation -> three layers -> logits [B, classes]."""

    hidden_size: int = 300
    dropout: float = 0.5
    num_classes: int = 3
    train_vectors: bool = False
    axis_name: str | None = None

    @nn.compact
    def __call__(self, batch, *, train: bool):
        embed = layers.WordEmbedding(self.train_vectors, name="embedding")
        project = layers.Linear(self.hidden_size, name="projection")
        masks = layers.sentence_masks(batch)

        def norm(name, affine=True):
            return layers.MaskedBatchNorm(affine=affine, axis_name=self.axis_name, name=name)

        sides = []
        for side, mask_BT in zip(("premise", "hypothesis"), masks, strict=True):
            states_BTD = nn.relu(project(embed(batch[side])))
            sum_BD = jnp.sum(jnp.where(mask_BT[..., None], states_BTD, 0.0), axis=1)
            sides.append(norm(f"norm_{side}", affine=False)(sum_BD, batch["mask"], train=train))
        x = jnp.concatenate(sides, axis=-1)
        x = layers.RowDropout(self.dropout, name="dropout_sum")(x, batch, train=train)
        for i in range(3):
            x = nn.relu(layers.Linear(2 * self.hidden_size, name=f"layer_{i}")(x))
            x = layers.RowDropout(self.dropout, name=f"dropout_{i}")(x, batch, train=train)
            x = norm(f"norm_{i}")(x, batch["mask"], train=train)
        return layers.Linear(self.num_classes, name="logits")(x)
