"""This package's side of the benchmark: a workload's resident arrays, a model, and the loop's compiled bodies."""

import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from mednli_jax import defaults, experiment
from mednli_jax.data import batching
from mednli_jax.data.encode import Prepared, Rows
from mednli_jax.errors import UserError
from mednli_jax.training import loop

GEMM_SIZES = ((4096, 1024, 2400), (2048, 2048, 2048), (8192, 600, 1200))
GEMM_SECONDS = 0.5  # of products of each size


def prepared_of(work) -> Prepared:
    """A workload as the prepared corpus that the rest of the package expects."""
    splits = {}
    for name, (first, size) in work.spans.items():
        rows = np.arange(first, first + size)
        splits[name] = Rows(name, first, work.arrays["label"][rows], work.lengths(rows), ("",) * size, ((),) * size)
    return Prepared(Path(), {"knowledge": {"longest_path": 0}}, work.arrays, work.vectors, splits)


class Ours:
    """One model with S seeds over one workload.

    spec: model, hidden, batch, seeds, grouping ("off").
    Raises: UserError for a grouping that the package does not offer.
    """

    def __init__(self, spec: dict, work):
        if spec["grouping"] != "off":
            raise UserError("E-BENCH-004 --grouping: premises are not grouped yet. Fix: give --grouping=off.")
        config = defaults.nli(spec["model"], "mednli")
        config.model.hidden_size = spec["hidden"]
        config.train.batch_size = spec["batch"]
        config.train.epochs = 1
        config.train.patience = 1
        self.work, self.config, self.batch = work, config, spec["batch"]
        self.seeds = tuple(range(spec["seeds"]))
        self.prepared = prepared_of(work)
        self.program = experiment.program(config, self.prepared)
        self.trainer = self._trainer(self.seeds)
        self.facts = {"device": jax.devices()[0].platform, "compile_seconds": 0.0}

    def _trainer(self, seeds):
        return loop.Trainer(self.program, experiment.settings(self.config), self.prepared.splits, seeds)

    # -- the plan of an epoch, cheapest batch first ------------------------------------------------------------------

    def plan(self, mode: str) -> list:
        """The batches of one pass over the training pairs; an element means something to `run` alone."""
        buckets = self.trainer.bucket_of_row["train"]
        if mode == "train":
            plan = batching.epoch_plan(buckets, batch_size=self.batch, epoch=1, seeds=np.asarray(self.seeds))
        else:
            plan = batching.predict_plan(buckets, batch_size=self.batch)
        return sorted(plan, key=lambda item: sum(self.program.buckets.boxes[item[0]]))

    def warm(self, mode: str, plan: list) -> None:
        """Compiles every shape of a plan and runs it twice."""
        shapes = {(bucket, index.shape): (bucket, index) for bucket, index in plan}
        self.run(mode, list(shapes.values()) * 2)
        self.facts["compile_seconds"] = self.program.compile_seconds

    def run(self, mode: str, batches: list) -> int:
        """Trains on, or predicts, these batches; returns their examples once all is computed. Seeds count each."""
        if mode == "train":
            return self.train(batches)
        return self.predict(batches)

    def train(self, batches) -> int:
        examples = 0
        for bucket, index in batches:
            self.trainer.learner, _ = self.program.train(bucket, self.trainer.learner, index)
            examples += int((index >= 0).sum())
        jax.block_until_ready(self.trainer.learner)
        return examples

    def predict(self, batches) -> int:
        variables = self.trainer.learner.variables
        logits = [self.program.predict(bucket, variables, index) for bucket, index in batches]
        for part in logits:
            np.asarray(part)
        return sum(int((index >= 0).sum()) for _, index in batches) * len(self.seeds)

    # -- what a user waits for -------------------------------------------------------------------------------------

    def epoch(self, number: int) -> int:
        """One epoch as `train` runs it, the dev split scored after it, from newly drawn weights."""
        trainer = self._trainer(self.seeds)
        trainer.run()
        jax.block_until_ready(trainer.best)
        return len(self.prepared.splits["train"]) * len(self.seeds)

    def until(self, accuracy: float, seed: int, most: int) -> tuple[int, float]:
        """Trains one seed until the dev accuracy is reached, at most `most` epochs: (examples, accuracy then).

        The dev split is scored four times an epoch.
        """
        trainer = self._trainer((seed,))
        rows, examples, reached = self.prepared.splits["dev"], 0, 0.0
        for epoch in range(1, most + 1):
            buckets = trainer.bucket_of_row["train"]
            plan = batching.epoch_plan(buckets, batch_size=self.batch, epoch=epoch, seeds=np.array([seed]))
            for part in np.array_split(np.arange(len(plan)), 4):
                for i in part:
                    bucket, index = plan[i]
                    trainer.learner, _ = self.program.train(bucket, trainer.learner, index)
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
