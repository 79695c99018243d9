"""This package's side of the benchmark: a workload's arrays in memory, a model, and the compiled
training loop."""

import collections
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from mednli_jax.benchmarking import cases
from mednli_jax.cloze.encoding import Texts
from mednli_jax.cloze.task import ClozeRows
from mednli_jax.data.arrays import Prepared, Rows
from mednli_jax.data.batching import TrainingBatches
from mednli_jax.run import experiment_of
from mednli_jax.training import loop
from mednli_jax.training.program import LOOKAHEAD
from mednli_jax.training.settings import check_jax

# most steps under way; the training loop waits for the device from time to time, too
AHEAD = 64


def prepared_of(work) -> Prepared:
    """A workload as the prepared corpus that the rest of the package expects."""
    splits, cloze = {}, "query_passage" in work.arrays
    for name, (first, size) in work.spans.items():
        rows = np.arange(first, first + size)
        common = (
            name,
            first,
            work.arrays["label"][rows],
            work.lengths(rows),
            ("",) * size,
            ((),) * size,
        )
        splits[name] = (
            ClozeRows(*common, Texts(work.arrays), work.premise_of[rows])
            if cloze
            else Rows(*common)
        )
    manifest = {
        "knowledge": {"longest_path": 0},
        "candidates": {"types_of_train": work.facts.get("types", 0)},
    }
    if "pieces" in work.facts:
        manifest["pieces"] = work.facts["pieces"]
    return Prepared(Path(), manifest, work.arrays, work.vectors, splits)


class Ours:
    """One model with S seeds over one workload. dropout: None = the published rate."""

    def __init__(self, spec: dict, work, *, dropout: float | None = None):
        check_jax()
        self.config, self.device = cases.config_of(spec), jax.devices()[0].platform
        if dropout is not None:
            self.config.model.dropout = dropout
        self.prepared = prepared_of(work)
        self.experiment = experiment_of(self.config)
        self.program, self.epochs = self.experiment.program(self.prepared)
        self.trainer = self._trainer()

    def _trainer(self):
        settings = replace(self.experiment.settings, epochs=1)
        return loop.Trainer(
            self.program, settings, self.prepared.splits, self.epochs, self.config.seeds
        )

    @property
    def compile_seconds(self) -> float:
        return self.program.compile_seconds

    def peak_bytes(self) -> int | None:
        """The most that the accelerator held; None on a CPU."""
        stats = jax.local_devices()[0].memory_stats() if self.device != "cpu" else None
        return stats and stats.get("peak_bytes_in_use")

    def plan(self, mode: str) -> list:
        """The batches of one pass over the training rows, as (layout, rows), cheapest first."""
        if mode == "train":
            plan = self.epochs["train"].epoch(1, np.asarray(self.config.seeds))
        else:
            train, task, model = self.config.train, self.experiment.task, self.program.model
            buckets = cases.MODELS[self.config.model.name].predict_buckets
            how = TrainingBatches(train.batch_size, train.group, buckets)
            plan = task.batches(
                self.prepared, "train", how, shares=self.program.devices.count, model=model
            ).once()
        return sorted(
            plan, key=lambda item: sum(steps * sentences for steps, sentences in item[0].sentences)
        )

    def warm(self, mode: str, plan: list) -> float:
        """Compiles and runs each layout of a plan; seconds of a batch, on average of the
        layouts."""
        layouts = list({layout: (layout, index) for layout, index in plan}.values())
        self.run(mode, layouts)
        started = time.perf_counter()
        self.run(mode, layouts)
        return (time.perf_counter() - started) / len(layouts)

    def run(self, mode: str, batches: list) -> int:
        """Trains on, or predicts, these batches; returns their examples once all is computed. Seeds
        count each."""
        return self.train(batches) if mode == "train" else self.predict(batches)

    def train(self, batches) -> int:
        examples = 0
        for number, (layout, index) in enumerate(batches, start=1):
            self.trainer.learner, _ = self.program.train(layout, self.trainer.learner, index)
            examples += int((index >= 0).sum())
            if number % AHEAD == 0:
                jax.block_until_ready(self.trainer.learner)
        jax.block_until_ready(self.trainer.learner)
        return examples

    def predict(self, batches) -> int:
        variables, pending = self.trainer.learner.variables, collections.deque()
        for layout, index in batches:
            pending.append(self.program.predict(layout, variables, index))
            if len(pending) > LOOKAHEAD:
                np.asarray(pending.popleft())
        for part in pending:
            np.asarray(part)
        return sum(int((index >= 0).sum()) for _, index in batches) * len(self.config.seeds)

    def epoch(self, number: int) -> int:
        """One epoch as `train` runs it, the dev split scored after it, from newly drawn weights."""
        trainer = self._trainer()
        trainer.run()
        jax.block_until_ready(trainer.best)
        return len(self.prepared.splits["train"]) * len(self.config.seeds)
