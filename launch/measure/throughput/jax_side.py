"""This package's side of the benchmark: a workload on the device, a model, and the compiled
training loop."""

import collections
import math
from dataclasses import replace

import jax
from benchmark_cases import Case, config_of
from synthetic_corpora import Workload

from mednli_jax.data.batching import MAX_BUCKETS, Batches, PlannedBatch, Shapes
from mednli_jax.experiment import experiment_of
from mednli_jax.training import loop
from mednli_jax.training.program import LOOKAHEAD
from mednli_jax.training.settings import check_jax

# Most steps under way. The training loop waits for the device from time to time, too.
AHEAD = {"train": 64, "predict": LOOKAHEAD}


class JaxSide:
    """One model with S seeds over one workload."""

    def __init__(self, case: Case, work: Workload) -> None:
        check_jax()
        self.work, self.config = work, config_of(case)
        self.device = jax.devices()[0].platform
        self.experiment = experiment_of(self.config)
        self.prepared = self.experiment.scorer.with_rows(work.prepared, self.experiment.corpus)
        self.program, self.epochs = self.experiment.program(self.prepared)
        self.trainer = self._trainer()

    def _trainer(self) -> loop.Trainer:
        settings = replace(self.experiment.settings, epochs=1)
        splits, seeds = self.prepared.splits, self.config.seeds
        return loop.Trainer(self.program, settings, splits, self.epochs, seeds)

    @property
    def compile_seconds(self) -> float:
        return self.program.compile_seconds

    def peak_bytes(self) -> int | None:
        """The most bytes that the accelerator held; None on a CPU."""
        stats = jax.local_devices()[0].memory_stats() or {}
        return stats.get("peak_bytes_in_use")

    def plan(self, mode: str) -> list[PlannedBatch]:
        """The batches of one pass over the training rows, cheapest first."""
        training = self.epochs["train"]
        if mode == "train":
            plan = training.epoch(1, self.config.seeds)
        else:
            # The layouts of `predict`, for this size of batches and of groups.
            settings = replace(
                training.settings,
                shapes=Shapes.ROUNDED,
                max_buckets=MAX_BUCKETS,
                joined=self.experiment.scorer.pieces,
            )
            groups, tokens = training.rows_of_group, training.tokens
            batches = Batches(*training.length, settings, groups=groups, tokens=tokens)
            batches.reuse_layouts({})
            plan = batches.once()
        return sorted(plan, key=_slots)

    def samples(self, plan: list[PlannedBatch]) -> list[PlannedBatch]:
        """A batch of each layout."""
        return list({batch[0]: batch for batch in plan}.values())

    def run(self, mode: str, batches: list[PlannedBatch]) -> int:
        """Trains on, or predicts, these batches; returns the number of their examples once all is
        computed. Each seed counts."""
        examples = 0
        pending: collections.deque[object] = collections.deque()
        for layout, index in batches:
            learner = self.trainer.learner
            if mode == "train":
                self.trainer.learner, result = self.program.train(layout, learner, index)
            else:
                result = self.program.predict(layout, learner.variables, index)
            pending.append(result)
            examples += int((index >= 0).sum())
            if len(pending) > AHEAD[mode]:
                jax.device_get(pending.popleft())
        jax.device_get(list(pending))
        return examples if mode == "train" else examples * len(self.config.seeds)

    def epoch(self, number: int) -> int:
        """Runs one epoch as `train` does, from newly drawn weights, and scores the dev split after
        it."""
        trainer = self._trainer()
        trainer.run()
        jax.block_until_ready(trainer.best)
        return len(self.prepared.splits["train"]) * len(self.config.seeds)


def _slots(batch: PlannedBatch) -> int:
    """The token slots of a batch, padding included."""
    return sum(map(math.prod, batch[0].sentences))
