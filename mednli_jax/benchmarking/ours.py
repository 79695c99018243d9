"""This package's side of the benchmark: a workload's resident arrays, a model, and the loop's compiled bodies."""

import collections
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from mednli_jax import experiment
from mednli_jax.benchmarking import families
from mednli_jax.corpora.arrays import Prepared, Rows
from mednli_jax.corpora.batching import TrainingBatches
from mednli_jax.corpora.cloze.encoding import Texts
from mednli_jax.tasks.cloze import ClozeRows
from mednli_jax.training import loop
from mednli_jax.training.program import LOOKAHEAD

AHEAD = 64  # steps under way at most; the loop too waits for the device now and then
GEMM_SIZES = ((4096, 1024, 2400), (2048, 2048, 2048), (8192, 600, 1200))
GEMM_SECONDS = 0.5  # of products of each size


def prepared_of(work) -> Prepared:
    """A workload as the prepared corpus that the rest of the package expects."""
    splits, cloze = {}, "query_passage" in work.arrays
    for name, (first, size) in work.spans.items():
        rows = np.arange(first, first + size)
        common = (name, first, work.arrays["label"][rows], work.lengths(rows), ("",) * size, ((),) * size)
        splits[name] = ClozeRows(*common, Texts(work.arrays), work.premise_of[rows]) if cloze else Rows(*common)
    manifest = {"knowledge": {"longest_path": 0}, "candidates": {"types_of_train": work.facts.get("types", 0)}}
    if "pieces" in work.facts:
        manifest["pieces"] = work.facts["pieces"]
    return Prepared(Path(), manifest, work.arrays, work.vectors, splits)


def config_of(spec: dict):
    """The published config of a case's model, in the case's sizes."""
    family = families.of(spec["model"])
    config = family.config(spec)
    config.seeds = tuple(range(spec["seeds"]))
    config.model.hidden_size = spec["hidden"]
    config.train.batch_size = spec["batch"]
    config.train.group = family.rows_per_premise if spec["grouping"] == "premise" else 1
    return config


class Ours:
    """One model with S seeds over one workload.

    spec: model, hidden, batch, seeds, grouping ("off", or "premise": a unit is a premise and its hypotheses).
    dropout: None = the published rate.
    """

    def __init__(self, spec: dict, work, *, dropout: float | None = None):
        self.work, self.config = work, config_of(spec)
        if dropout is not None:
            self.config.model.dropout = dropout
        self.prepared = prepared_of(work)
        self.experiment = experiment.of(self.config)
        self.program, self.batches = self.experiment.program_over(self.prepared)
        self.trainer = self._trainer(self.config.seeds)
        self.facts = {"device": jax.devices()[0].platform}

    def _trainer(self, seeds, epochs=1):
        settings = replace(self.experiment.settings, epochs=epochs)
        return loop.Trainer(self.program, settings, self.prepared.splits, self.batches, seeds)

    def compiled(self) -> float:
        """Seconds spent on compiling so far."""
        return self.program.compile_seconds

    # -- the plan of an epoch, cheapest batch first ------------------------------------------------------------------

    def plan(self, mode: str) -> list:
        """The batches of one pass over the training pairs as (layout, rows)."""
        train = self.batches["train"]
        plan = train.epoch(1, np.asarray(self.config.seeds)) if mode == "train" else self._predicted().once()
        return sorted(plan, key=lambda item: sum(steps * sentences for steps, sentences in item[0].sentences))

    def _predicted(self):
        """The training rows as they are predicted, in batches of the case's size and grouping."""
        train, program = self.config.train, self.program
        how = TrainingBatches(train.batch_size, train.group, families.of(self.config.model.name).predict_buckets)
        devices = program.devices.count
        return self.experiment.task.batches(self.prepared, "train", how, shares=devices, model=program.model)

    def warm(self, mode: str, plan: list) -> None:
        """Compiles every layout of a plan and runs it twice."""
        self.run(mode, list({layout: (layout, index) for layout, index in plan}.values()) * 2)

    def run(self, mode: str, batches: list) -> int:
        """Trains on, or predicts, these batches; returns their examples once all is computed. Seeds count each."""
        if mode == "train":
            return self.train(batches)
        return self.predict(batches)

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

    # -- what a user waits for -------------------------------------------------------------------------------------

    def epoch(self, number: int) -> int:
        """One epoch as `train` runs it, the dev split scored after it, from newly drawn weights."""
        trainer = self._trainer(self.config.seeds)
        trainer.run()
        jax.block_until_ready(trainer.best)
        return len(self.prepared.splits["train"]) * len(self.config.seeds)

    def until(self, accuracy: float, seed: int, most: int) -> tuple[int, float]:
        """Trains one seed until the dev accuracy is reached, at most `most` epochs: (examples, accuracy then).

        The dev split is scored four times an epoch.
        """
        trainer = self._trainer((seed,))
        rows, examples, reached = self.prepared.splits["dev"], 0, 0.0
        for epoch in range(1, most + 1):
            plan = self.batches["train"].epoch(epoch, np.array([seed]))
            for part in np.array_split(np.arange(len(plan)), 4):
                for i in part:
                    layout, index = plan[i]
                    trainer.learner, _ = self.program.train(layout, trainer.learner, index)
                    examples += int((index >= 0).sum())
                logits = trainer.predict("dev", trainer.learner.variables)
                reached = float((logits[0].argmax(axis=-1) == rows.label).mean())
                if reached >= accuracy:
                    return examples, reached
        return examples, reached


def gemm_flops() -> float:
    """Operations per second of a large matrix product in float32: the best of some sizes, each a median."""

    def product(a, b):
        return jnp.dot(a, b, precision=jax.lax.Precision.DEFAULT)

    best = 0.0
    for m, k, n in GEMM_SIZES:
        key = jax.random.key(0)
        a, b = jax.random.normal(key, (m, k)), jax.random.normal(key, (k, n))
        compiled = jax.jit(product).lower(a, b).compile()
        jax.block_until_ready(compiled(a, b))
        times = []
        while len(times) < 5 or (sum(times) < GEMM_SECONDS and len(times) < 200):
            started = time.perf_counter()
            jax.block_until_ready(compiled(a, b))
            times.append(time.perf_counter() - started)
        best = max(best, 2.0 * m * k * n / float(np.median(times)))
    return best
