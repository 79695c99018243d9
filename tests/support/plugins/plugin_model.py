"""Faulty models of a user, which derive from the example of docs/extending.md."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from mymodel import MeanWords

from mednli_jax.models.batch import PairBatch


class Broken(MeanWords):
    """Multiplies arrays whose shapes do not fit."""

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        return jnp.ones((2, 3)) @ jnp.ones((2, 5))


class Narrow(MeanWords):
    """Returns two logits for three classes."""

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        return nn.Dense(2)(jnp.ones((len(batch.label), 3)))


class Divergent(MeanWords):
    """Its logits in training are NaN for the seeds that draw a negative weight."""

    @nn.compact
    def __call__(self, batch: PairBatch, *, train: bool) -> jax.Array:
        drawn = self.param("drawn", nn.initializers.normal(), ())
        logits_BC = super().__call__(batch, train=train)
        return logits_BC * jnp.where(train & (drawn < 0), jnp.nan, 1.0)


no_model = print
