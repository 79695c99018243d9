"""The contract of a scorer: the part of a task that training, evaluation and prediction use."""

from collections.abc import Sequence
from typing import Protocol, TypeVar, runtime_checkable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from mednli_jax.data.arrays import Prepared, Rows
from mednli_jax.data.batching import Batches, Layout, TrainingBatches
from mednli_jax.data.corpus import Corpus, Vocabulary
from mednli_jax.data.examples import Example
from mednli_jax.data.inputs import TextPair
from mednli_jax.models.batch import PairBatch, QueryBatch
from mednli_jax.types import JsonObject, PyTree

# What a scorer makes and reads again.
Batch = TypeVar("Batch", PairBatch, QueryBatch)
RowsT = TypeVar("RowsT", bound=Rows, contravariant=True)


def frozen(vectors: np.ndarray) -> dict[str, dict[str, jax.Array]]:
    """The `frozen` collection of the models: the word vectors [V, D]."""
    return {"embedding": {"vectors": jnp.asarray(vectors)}}


def summary(title: str, scores: JsonObject, row_noun: str, details: str = "") -> str:
    """One line about a split: mean accuracy over the seeds, `details`, then the accuracy of each
    slice."""
    accuracy = scores["accuracy"]
    line = f"{title} {accuracy['mean']:.4f}"
    seeds = len(accuracy["per_seed"])
    if seeds > 1:
        line += f" (sd {accuracy['sd']:.4f} over {seeds} seeds)"
    line += details
    for name, of_slice in scores.get("slices", {}).items():
        mean = of_slice["accuracy"]["mean"]
        line += f", {name} {mean:.4f} ({of_slice['examples']} {row_noun})"
    return line


class Scorer(Protocol[Example, RowsT, Batch]):
    """Turns row numbers into batches, and logits into scores. It sees numbers, not files; it is
    hashable and frozen.

    Dimension letters: S seeds, Q premise groups of a batch, G rows of a group, B = Q G, N
    rows of a split, C classes or candidates.

    Attributes:
      name: in result.json.
      sides: names of the two texts of a row, in messages and in the facts of a corpus.
      row_noun: the name of the rows in messages, such as "pairs".
      pieces: whether the rows are of word pieces, whose embeddings the model has.
      labels: of the logits of a classifier; () for other models.
      padded_length: tokens to which each side is padded for models that see the padding; 0 for
        others.

    `rows` are a split of a prepared corpus as `with_rows` makes them.
    """

    @property
    def name(self) -> str: ...
    @property
    def sides(self) -> tuple[str, str]: ...
    @property
    def row_noun(self) -> str: ...
    @property
    def pieces(self) -> bool: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def padded_length(self) -> int: ...

    def with_rows(self, prepared: Prepared, corpus: Corpus) -> Prepared:
        """The prepared corpus, with the rows of each split in the form that `score` needs."""

    def model_facts(self, manifest: JsonObject) -> JsonObject:
        """The fields of the model that depend on the prepared corpus (see
        models.table.Entry.build)."""

    def device_arrays(self, prepared: Prepared) -> dict[str, np.ndarray]:
        """The arrays that stay on the device: one array per field, with the rows of all splits."""

    def frozen(self, vectors: np.ndarray) -> JsonObject:
        """The `frozen` collection of the models, from the vectors [V, D] of a vocabulary."""

    def batches(
        self,
        prepared: Prepared,
        name: str,
        training: TrainingBatches,
        *,
        shares: int,
        model: nn.Module,
    ) -> Batches:
        """The batches of a split for a model on `shares` devices."""

    def new_examples(self, inputs: Sequence[TextPair], manifest: JsonObject) -> list[Example]:
        """Makes examples without labels from the texts of each input. manifest: of the corpus that
        the run was trained on."""

    def describe(self, rows: RowsT, logits: np.ndarray) -> list[JsonObject]:
        """Describes the prediction for each row of new inputs, from logits [S, N, C]: means over
        the seeds."""

    def to_batch(self, data: dict[str, jax.Array], index: jax.Array, layout: Layout) -> Batch:
        """Makes the batch of rows `index` [Q, G] (-1 = padding) in the static shape `layout` (see
        models.batch).

        The batch has `mask` [B] float and `row_key` [B] or None.
        """

    def loss(self, logits: jax.Array, batch: Batch) -> jax.Array:
        """The loss [B] of each row, finite also on padding rows."""

    def correct(self, logits: jax.Array, batch: Batch) -> jax.Array:
        """[B], 1 for each row whose prediction is right, else 0."""

    def score(self, rows: RowsT, logits: np.ndarray) -> JsonObject:
        """Scores a split; returns JSON values: `examples`, and report.metrics.mean_sd of each
        measure.

        The loop reads `loss` and `accuracy` of dev.
        """

    def predictions(self, rows: RowsT, logits: np.ndarray) -> list[JsonObject]:
        """One JSON object for each row of a split, for the run's private files."""

    def summary(self, split: str, scores: JsonObject) -> str:
        """One line with the scores of a split."""


class PhraseScorer(Scorer, Protocol):
    """A Scorer of models with one output for each phrase of the training split."""

    def types(self, prepared: Prepared) -> Sequence[str]:
        """The phrases in the order of their numbers."""


@runtime_checkable
class LabelScorer(Scorer, Protocol):
    """A Scorer of a classifier, which can also score a corpus with other labels."""

    def on_corpus(self, other: Scorer) -> Scorer:
        """This scorer for the corpus of another scorer."""


class AttentionScorer(Scorer, Protocol):
    """A Scorer whose models show attention (see tasks.Task.write_attention)."""

    def attention_map(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        example: Example,
        lengths: tuple[int, int],
        sown: PyTree,
    ) -> JsonObject:
        """The attention of one example with texts of these lengths. sown: the model's collection
        ATTENTION [S, ...]."""
