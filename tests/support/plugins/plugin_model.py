"""A user's own model, as another package would define it (docs/extending.md)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mednli_jax.models import layers
from mednli_jax.models.batch import PairBatch


class MeanVectors(nn.Module):
    """The mean word vectors of both sides, followed by one hidden layer.

    Axes: Q premises, B hypotheses, T tokens, V words, D vector, F both vectors, C classes.
    """

    hidden_size: int = 8
    dropout: float = 0.0
    num_classes: int = 3
    train_vectors: bool = False

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        premise_QD = self.mean(batch.premise, batch.premise_length)
        hypothesis_BD = self.mean(batch.hypothesis, batch.hypothesis_length)
        both_BF = jnp.concatenate([layers.per_pair(premise_QD, batch), hypothesis_BD], axis=-1)
        hidden_BH = nn.relu(nn.Dense(self.hidden_size)(both_BF))
        return nn.Dense(self.num_classes)(hidden_BH)

    def mean(self, tokens_BT: jax.Array, length_B: jax.Array) -> jax.Array:
        table_VD = self.get_variable("frozen", "embedding")["vectors"]
        mask_BT = layers.length_mask(length_B, tokens_BT.shape[1])
        return layers.masked_mean(table_VD[tokens_BT], mask_BT)


class Broken(MeanVectors):
    """Multiplies arrays whose shapes do not fit."""

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        return jnp.ones((2, 3)) @ jnp.ones((2, 5))


class Narrow(MeanVectors):
    """Returns two logits for three classes."""

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        return nn.Dense(2)(jnp.ones((len(batch.label), 3)))


class Divergent(MeanVectors):
    """Its logits in training are NaN for the seeds that draw a negative weight."""

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        drawn = self.param("drawn", nn.initializers.normal(), ())
        logits_BC = super().__call__(batch, train=train)
        return logits_BC * jnp.where(train & (drawn < 0), jnp.nan, 1.0)


no_model = print
