"""Masked language modelling: from rows of text to batches, from predictions of masked pieces to scores."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from mednli_jax import metrics
from mednli_jax.corpora.arrays import SIDES, Rows
from mednli_jax.errors import RunError
from mednli_jax.models.masked_lm import predicted_pieces
from mednli_jax.tasks.nli import NLITask, pieces_facts

LOSS, RIGHT, COUNT = range(3)  # the numbers that models.masked_lm.MaskedLM returns for a row


@dataclass(frozen=True)
class MaskedLMTask(NLITask):
    """Prediction of masked pieces (see task.Task). The "logits" of a row are its loss, accuracy and count [.., 3].

    A row is weighted by its number of predicted pieces, so that losses are means over predicted pieces.
    """

    pieces: bool = True
    name: str = "mlm"
    units: str = "rows"

    def model_facts(self, manifest: dict) -> dict:
        return {**pieces_facts(manifest["pieces"]), "mask_id": manifest["pieces"]["mask"]}

    def new_inputs(self, run):
        raise RunError(
            f"{run.directory.folder}: a masked language model has no labels to predict. Fix: train bert on a corpus "
            "with --config.model.weights= the folder of weights below the run's private/."
        )

    def to_batch(self, data, index, layout):
        batch = super().to_batch(data, index, layout)
        batch |= {side: batch[side].astype(jnp.int32) for side in SIDES}
        length_B = batch["premise_length"] + batch["hypothesis_length"]
        count_B = predicted_pieces(length_B).astype(batch["mask"].dtype)
        return {**batch, "mask": batch["mask"] * count_B, "row_number": index.reshape(-1)}

    def loss(self, logits, batch):
        return logits[..., LOSS]

    def correct(self, logits, batch):
        return logits[..., RIGHT]

    def score(self, rows: Rows, logits: np.ndarray) -> dict:
        """Loss (nats), accuracy and perplexity of the predicted pieces of logits [S, N, 3]."""
        found = np.asarray(logits, np.float64)
        count_SN = found[..., COUNT]
        loss, right = ((found[..., which] * count_SN).sum(axis=1) / count_SN.sum(axis=1) for which in (LOSS, RIGHT))
        return {
            "examples": len(rows),
            "predicted": int(count_SN[0].sum()),
            "loss": metrics.mean_sd(loss.tolist()),
            "accuracy": metrics.mean_sd(right.tolist()),
            "perplexity": metrics.mean_sd(np.exp(loss).tolist()),
        }

    def predictions(self, rows: Rows, logits: np.ndarray) -> list[dict]:
        """One JSON row per row of text: its number of predicted pieces, the mean loss and accuracy of each seed."""
        found = np.round(np.asarray(logits, np.float64), 6)
        return [
            {
                "uid": uid,
                "predicted": int(found[0, row, COUNT]),
                "loss": found[:, row, LOSS].tolist(),
                "accuracy": found[:, row, RIGHT].tolist(),
            }
            for row, uid in enumerate(rows.uids)
        ]

    def summary(self, split: str, scores: dict) -> str:
        loss, accuracy = scores["loss"]["mean"], scores["accuracy"]["mean"]
        perplexity = scores["perplexity"]["mean"]
        return f"{split}: loss {loss:.4f}, perplexity {perplexity:.2f}, {100 * accuracy:.1f} % of masked pieces right"
