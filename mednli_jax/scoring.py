"""The scores of a finished run on a prepared corpus, its own or another: split by split, and of a part of one."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from mednli_jax import experiment
from mednli_jax.corpora.nli import partitions
from mednli_jax.errors import UserError
from mednli_jax.files import write_json
from mednli_jax.runs import RunDirectory, environment

DIRECT = "direct"  # mode of transfer: as trained, on another corpus


class OnCorpus:
    """A finished run on a prepared corpus, its own or another (`TrainedRun.on`). A split is scored once."""

    def __init__(self, run, config, prepared):
        self.run, self.config, self.prepared = run, config, prepared
        self._scored = {}

    def scores(self, split: str) -> tuple[dict, np.ndarray]:
        """(scores, logits [S, N, C]) of a split. Raises UserError for an unknown one."""
        if split not in self.prepared.splits:
            known = ", ".join(self.prepared.splits)
            raise UserError(f"E-USE-008 --split={split}: the corpus has no such split. Fix: give one of {known}.")
        if split not in self._scored:
            bodies, batches = experiment.program(self.config, self.prepared, [split], model_facts=self.run.model_facts)
            logits = bodies.logits(self.run.variables, batches[split])
            self._scored[split] = self.run.task.score(self.prepared.splits[split], logits), logits
        return self._scored[split]

    def partition_scores(self, split: str, partition: partitions.Partition) -> dict:
        """Scores of a split's pairs that are in a partition, as `scores` has them; of no pair, {"examples": 0}.

        Raises: DataError E-PART-006 for ids of no pair.
        """
        found = partitions.uids_of(partition, self.prepared, self.config.data)
        _, logits = self.scores(split)
        rows = self.prepared.splits[split]
        inside = np.array([uid in found for uid in rows.uids])
        if not inside.any():
            return {"examples": 0}
        tags = tuple(tags for tags, own in zip(rows.tags, inside, strict=True) if own)
        return self.run.task.score(replace(rows, label=rows.label[inside], tags=tags), logits[:, inside])

    def write(self, folder: Path, corpus: str) -> None:
        """A run directory of its own, complete: what `report` needs to set it beside runs of this corpus."""
        directory = RunDirectory.create(folder, self.config.to_dict())
        write_json(directory.folder / "env.json", environment())
        write_json(directory.folder / "data.json", self.prepared.manifest)
        kept = ("model", "config", "seeds", "best_epoch", "epochs", "parameters")
        splits = self.prepared.manifest["splits"].values()
        result = {
            **{name: self.run.result[name] for name in kept},
            "task": self.run.task.name,
            "corpus": corpus,
            "transfer": {
                "source": self.run.directory.folder.name,
                "corpus": self.run.result["corpus"],
                "mode": DIRECT,
            },
            "notes": sorted({facts["note"] for facts in splits if "note" in facts}),
            "prepared": self.prepared.folder.name,
        }
        for split in ("dev", "test"):
            result[split] = None
            if split in self.prepared.splits:
                result[split], logits = self.scores(split)
                directory.write_predictions(split, self.run.task.predictions(self.prepared.splits[split], logits))
        directory.write_result("complete", result)
