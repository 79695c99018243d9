"""What the training loop asks of a task."""

from typing import Protocol

import jax


class Task(Protocol):
    """A frozen dataclass that turns row numbers into batches and logits into scores.

    Dimension letters: S seeds, Q units of a batch, G rows of a unit, B = Q G, N rows of a split, C classes.
    """

    def to_batch(self, data: dict[str, jax.Array], index: jax.Array, layout) -> dict[str, jax.Array]:
        """The batch of rows `index` [Q, G] (-1 = padding) in the static shape `layout`; holds `mask` [B] float."""

    def loss(self, logits: jax.Array, batch: dict) -> jax.Array:
        """[B], finite on padding rows too."""

    def correct(self, logits: jax.Array, batch: dict) -> jax.Array:
        """[B], 1 where the prediction is right."""

    def score(self, rows, logits) -> dict:
        """JSON values from a split's rows and their logits [S, N, C] of all seeds.

        The loop reads `loss.per_seed` and `accuracy.per_seed` of the dev split.
        """
