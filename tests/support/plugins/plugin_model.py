"""A user's own model, as another package would define it (docs/contributing.md)."""

import flax.linen as nn
import jax.numpy as jnp

from mednli_jax.models import layers


class MeanVectors(nn.Module):
    """The mean word vectors of both sides, followed by one hidden layer."""

    hidden_size: int = 8
    dropout: float = 0.0
    num_classes: int = 3
    train_vectors: bool = False

    @nn.compact
    def __call__(self, batch, *, train: bool):
        table_VD = self.get_variable("frozen", "embedding")["vectors"]

        def mean(tokens, length):
            mask = layers.length_mask(length, tokens.shape[1])
            return layers.masked_mean(table_VD[tokens], mask)

        premise_QD = mean(batch.premise, batch.premise_length)
        hypothesis_BD = mean(batch.hypothesis, batch.hypothesis_length)
        both = jnp.concatenate([layers.per_pair(premise_QD, batch), hypothesis_BD], axis=-1)
        return nn.Dense(self.num_classes)(nn.relu(nn.Dense(self.hidden_size)(both)))


class Broken(MeanVectors):
    """Multiplies arrays whose shapes do not fit."""

    @nn.compact
    def __call__(self, batch, *, train: bool):
        return jnp.ones((2, 3)) @ batch.premise_length[:, None].repeat(5, 1).T[:2]


class Narrow(MeanVectors):
    """Returns two logits for three classes."""

    @nn.compact
    def __call__(self, batch, *, train: bool):
        return nn.Dense(2)(jnp.ones((len(batch.label), 3)))


no_model = print
