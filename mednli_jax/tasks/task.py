"""What the training loop and the commands ask of a task."""

from collections.abc import Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np


def frozen(vectors: np.ndarray) -> dict[str, dict[str, jax.Array]]:
    """The `frozen` collection of the models: the word vectors [V, D]."""
    return {"embedding": {"vectors": jnp.asarray(vectors)}}


def summary(what: str, scores: dict, units: str, more: str = "") -> str:
    """One line on the scores of a split: accuracy over the seeds, then that of each slice."""
    accuracy, slices = scores["accuracy"], scores.get("slices", {}).items()
    text = f"{what} {accuracy['mean']:.4f}"
    if len(accuracy["per_seed"]) > 1:
        text += f" (sd {accuracy['sd']:.4f} over {len(accuracy['per_seed'])} seeds)"
    shown = (f", {name} {s['accuracy']['mean']:.4f} ({s['examples']} {units})" for name, s in slices)
    return "".join([text, more, *shown])


class Task(Protocol):
    """A frozen dataclass that turns row numbers into batches and logits into scores.

    Dimension letters: S seeds, Q units of a batch, G rows of a unit, B = Q G, N rows of a split, C classes or
    candidates.
    name: as a config gives it. sides: what the two texts of a row are called. units: what the rows are called.
    """

    name: str
    sides: tuple[str, str]
    units: str

    def with_rows(self, prepared):
        """The prepared corpus with the rows of each split as `score` takes them."""

    def model_facts(self, manifest: dict) -> dict:
        """Arguments of models.table.build that depend on the prepared corpus."""

    def resident(self, prepared) -> dict[str, np.ndarray]:
        """The arrays that live on the device: all splits, as one block per field."""

    def frozen(self, words: Sequence[str], vectors: np.ndarray) -> dict:
        """The `frozen` collection of the models, from a vocabulary and its vectors [V, D]."""

    def batches(self, prepared, name: str, training, *, shares: int, model):
        """corpora.batching.Batches of a split for a model; training: batching.TrainingBatches; shares: devices."""

    def new_inputs(self, run):
        """What predicts new inputs by a finished run, a new_inputs.NewInputs."""

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

    def predictions(self, rows, logits) -> list[dict]:
        """One JSON row of a split per row, for the run's private files."""

    def summary(self, split: str, scores: dict) -> str:
        """One line on the scores of a split."""
