"""The interface of a task for the training loop and the commands."""

from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np


def frozen(vectors: np.ndarray) -> dict[str, dict[str, jax.Array]]:
    """The `frozen` collection of the models: the word vectors [V, D]."""
    return {"embedding": {"vectors": jnp.asarray(vectors)}}


def summary(what: str, scores: dict, units: str, more: str = "") -> str:
    """One line with the scores of a split: mean accuracy over the seeds, then the accuracy of each slice."""
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
    """

    name: str  # as in a config
    sides: tuple[str, str]  # names of the two texts of a row
    units: str  # name of the rows
    pieces: bool  # whether rows hold word pieces, whose vectors the model trains
    padded_length: int  # tokens of each side, where the logits depend on the padded length; else 0

    def with_rows(self, prepared, corpus):
        """The prepared corpus with the rows of each split in the form that `score` needs."""

    def model_facts(self, manifest: dict) -> dict:
        """Arguments of models.table.Entry.build that depend on the prepared corpus."""

    def resident(self, prepared) -> dict[str, np.ndarray]:
        """The arrays on the device: all splits, one array per field."""

    def frozen(self, vectors: np.ndarray) -> dict:
        """The `frozen` collection of the models, from the vectors [V, D] of a vocabulary."""

    def batches(self, prepared, name: str, training, *, shares: int, model):
        """The batching.Batches of a split, by a batching.TrainingBatches, for a model on `shares` devices."""

    def new_examples(self, inputs, manifest: dict) -> list:
        """Examples without labels from pairs of texts. manifest: of the corpus that the run was trained on."""

    def described(self, rows, logits) -> list[dict]:
        """The prediction for each row of new inputs, from logits [S, N, C]: means over the seeds."""

    def looked_at(self, corpus, vocabulary, example, lengths: tuple[int, int], sown: dict) -> dict:
        """The attention of one example with texts of these lengths, from the model's collection ATTENTION [S, ...]."""

    def to_batch(self, data: dict[str, jax.Array], index: jax.Array, layout):
        """The batch of rows `index` [Q, G] (-1 = padding) in the static shape `layout` (see models.batch).

        It is a flax.struct.dataclass with `mask` [B] float and `row_key` [B] or None.
        """

    def loss(self, logits: jax.Array, batch) -> jax.Array:
        """[B], finite also on padding rows."""

    def correct(self, logits: jax.Array, batch) -> jax.Array:
        """[B], 1 where the prediction is right."""

    def score(self, rows, logits) -> dict:
        """The scores of a split as JSON values; the loop reads `loss.per_seed` and `accuracy.per_seed` of dev."""

    def predictions(self, rows, logits) -> list[dict]:
        """One JSON object for each row of a split, for the run's private files."""

    def summary(self, split: str, scores: dict) -> str:
        """One line with the scores of a split."""
