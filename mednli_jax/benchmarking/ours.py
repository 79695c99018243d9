"""This package's side of the benchmark: a workload's arrays in memory, a model, and the compiled
training loop."""

import collections
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from mednli_jax.benchmarking import cases
from mednli_jax.benchmarking.cases import Case, Workload
from mednli_jax.cloze.encoding import Texts
from mednli_jax.cloze.task import ClozeRows
from mednli_jax.data.arrays import Prepared, Rows
from mednli_jax.data.batching import MAX_BUCKETS, Layout, TrainingBatches
from mednli_jax.run import experiment_of
from mednli_jax.training import loop
from mednli_jax.training.program import LOOKAHEAD
from mednli_jax.training.settings import check_jax

# most steps under way; the training loop waits for the device from time to time, too
AHEAD = 64
LaidOut = tuple[Layout, np.ndarray]  # a batch: its layout, and its rows


def prepared_of(work: Workload) -> Prepared:
    """A workload as the prepared corpus that the rest of the package expects."""
    splits = {name: _rows_of(work, name) for name in work.spans}
    manifest = {
        "knowledge": {"longest_path": 0},
        "candidates": {"types_of_train": work.types},
    }
    if work.pieces:
        manifest["pieces"] = work.pieces._asdict()
    return Prepared(Path(), manifest, work.arrays, work.vectors, splits)


def _rows_of(work: Workload, split: str) -> Rows:
    first, size = work.spans[split]
    index = work.rows(split)
    label, length = work.arrays["label"][index], work.lengths(index)
    uids, tags = ("",) * size, ((),) * size
    if "query_passage" not in work.arrays:
        return Rows(split, first, label, length, uids, tags)
    texts, passage = Texts(work.arrays), work.premise_of[index]
    return ClozeRows(split, first, label, length, uids, tags, texts, passage)


class Ours:
    """One model with S seeds over one workload. dropout: None = the published rate."""

    def __init__(self, case: Case, work: Workload, *, dropout: float | None = None) -> None:
        check_jax()
        self.config = cases.config_of(case)
        self.device = jax.devices()[0].platform
        if dropout is not None:
            self.config.model.dropout = dropout
        self.prepared = prepared_of(work)
        self.experiment = experiment_of(self.config)
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
        """The most that the accelerator held; None on a CPU."""
        stats = jax.local_devices()[0].memory_stats() if self.device != "cpu" else None
        return stats.get("peak_bytes_in_use") if stats else None

    def plan(self, mode: str) -> list[LaidOut]:
        """The batches of one pass over the training rows, cheapest first."""
        if mode == "train":
            seeds = np.asarray(self.config.seeds)
            return sorted(self.epochs["train"].epoch(1, seeds), key=_tokens)
        return sorted(self._prediction_plan(), key=_tokens)

    def _prediction_plan(self) -> Sequence[LaidOut]:
        """In length buckets, as PyTorch's side predicts rows of about one length together. The
        layouts are fitted, as those of the splits of a corpus."""
        train = self.config.train
        batches = self.experiment.scorer.batches(
            self.prepared,
            "train",
            TrainingBatches(train.batch_size, train.group, MAX_BUCKETS),
            shares=self.program.devices.count,
            model=self.program.model,
        )
        return batches.once()

    def warm(self, mode: str, plan: list[LaidOut]) -> float:
        """Compiles and runs each layout of a plan; seconds of a batch, on average of the
        layouts."""
        layouts = list({layout: (layout, index) for layout, index in plan}.values())
        self.run(mode, layouts)
        started = time.perf_counter()
        self.run(mode, layouts)
        return (time.perf_counter() - started) / len(layouts)

    def run(self, mode: str, batches: list[LaidOut]) -> int:
        """Trains on, or predicts, these batches; returns their examples once all is computed. Seeds
        count each."""
        return self.train(batches) if mode == "train" else self.predict(batches)

    def train(self, batches: list[LaidOut]) -> int:
        examples = 0
        for number, (layout, index) in enumerate(batches, start=1):
            self.trainer.learner, _ = self.program.train(layout, self.trainer.learner, index)
            examples += int((index >= 0).sum())
            if number % AHEAD == 0:
                jax.block_until_ready(self.trainer.learner)
        jax.block_until_ready(self.trainer.learner)
        return examples

    def predict(self, batches: list[LaidOut]) -> int:
        variables = self.trainer.learner.variables
        examples = 0
        pending: collections.deque[jax.Array] = collections.deque()
        for layout, index in batches:
            pending.append(self.program.predict(layout, variables, index))
            examples += int((index >= 0).sum()) * len(self.config.seeds)
            if len(pending) > LOOKAHEAD:
                np.asarray(pending.popleft())
        for logits in pending:
            np.asarray(logits)
        return examples

    def epoch(self, number: int) -> int:
        """One epoch as `train` runs it, the dev split scored after it, from newly drawn weights."""
        trainer = self._trainer()
        trainer.run()
        jax.block_until_ready(trainer.best)
        return len(self.prepared.splits["train"]) * len(self.config.seeds)


def _tokens(batch: LaidOut) -> int:
    """Token slots of a batch, padding included."""
    layout, _ = batch
    return sum(steps * sentences for steps, sentences in layout.sentences)
