"""The training loop: epochs of batches, dev scores, the best epoch of each seed, checkpoints; it
can stop at any chunk.

With `evaluate_every`, dev is also scored every N steps within a pass over the training rows. The
steps between two evaluations then count as an epoch: they have a number, a row of metrics, and
weights that may become the best. Settings in epochs (`epochs`, `patience`, `halve_from`, ...) still
count passes.

The loop sees only row numbers; the task makes batches from them. Dimension letters: S seeds still
training, A all seeds of the run, B rows of a batch, N rows of a split, C classes.
"""

import contextlib
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from mednli_jax.data import batching
from mednli_jax.errors import ConfigError
from mednli_jax.terminal import Bar, say
from mednli_jax.training import optim
from mednli_jax.training import state as states
from mednli_jax.training.checkpoint import Checkpoints, restore_into
from mednli_jax.training.program import Program

CHUNK_SECONDS = 2.0
# Attributes of a Trainer that a checkpoint stores.
_COUNTERS = ("epoch", "done", "trained_examples", "train_seconds", "epoch_seconds")


class Interrupted(Exception):
    """The run has stopped on request, and its state is saved."""


@dataclass(frozen=True)
class Settings:
    """The fields of the `train` section that the loop needs. The defaults switch features off."""

    epochs: int
    patience: int
    select: str  # the best epoch by "loss" or "accuracy" of the dev split, or the "last"
    checkpoint_minutes: float
    schedule: str = "constant"  # one of optim.SCHEDULES, the one with which the optimiser was built
    halve_from: int = 1  # "halving": the first epoch with a lower rate
    average_from: int = 0  # the first epoch whose weights are averaged; 0 = no averaging
    average_every: int = (
        0  # steps between two samples of the average; 0 = one sample at the end of each epoch
    )
    checkpoint_epochs: int = (
        1  # epochs between two checkpoints, in addition to those of `checkpoint_minutes`
    )
    evaluate_every: int = (
        0  # steps between two evaluations of the dev split; 0 = only at the end of a pass
    )
    least_epochs: int = 0  # epochs that are trained whatever the patience

    @classmethod
    def from_config(cls, train: ConfigDict) -> "Settings":
        return cls(
            epochs=train.epochs,
            patience=train.patience,
            select=train.select,
            checkpoint_minutes=train.checkpoint_minutes,
            schedule=train.schedule,
            halve_from=train.halve_from,
            average_from=train.average_from,
            average_every=train.average_every,
            checkpoint_epochs=train.checkpoint_epochs,
            evaluate_every=train.evaluate_every,
            least_epochs=train.least_epochs,
        )


class Trainer:
    """Trains all seeds of a run. `run()` returns the best parameters of each.

    With `average_from`, `average` holds the running mean of the weights. From its first sample on,
    the dev split is scored with this mean, which can become the best. Training continues with the
    weights themselves.

    Args:
      splits, batches: name -> rows with `label`, name -> their batches; "train" and "dev" are used.
      seeds: A seeds.
      checkpoints: where to save and resume from; None = nothing is saved.
      on_epoch: called with each epoch's row of metrics.
      on_save: called after each checkpoint with the seconds that `program` has spent on compilation.
      should_stop: called between chunks; where it returns True, the loop saves and raises Interrupted.
      profile: folder for a profiler trace of the third chunk of steps of this process, which runs after compilation.
      score: (dev rows, logits [S, N, C], seeds [S]) -> scores in the form of the task's, for seeds with own dev rows.
    """

    def __init__(
        self,
        program: Program,
        settings: Settings,
        splits,
        batches: dict[str, batching.Batches],
        seeds,
        *,
        checkpoints: Checkpoints | None = None,
        on_epoch: Callable[[dict], None] = lambda row: None,
        on_save: Callable[[float], None] = lambda compile_seconds: None,
        should_stop: Callable[[], bool] = lambda: False,
        profile: Path | None = None,
        score: Callable | None = None,
    ):
        self.program, self.settings, self.seeds = program, settings, tuple(seeds)
        self._score = score or (lambda rows, logits, seeds: program.scorer.score(rows, logits))
        self._hosts = program.devices.hosts
        self.splits, self.batches = splits, batches
        self.checkpoints, self.should_stop = checkpoints, should_stop
        self.on_epoch, self.on_save = on_epoch, on_save
        self._profile, self._chunks = profile, 0
        self.epoch, self.done, self.sums = (
            1,
            0,
            None,
        )  # current epoch, its finished batches, their sums
        self.trained_examples, self.train_seconds = 0, 0.0  # of the finished epochs
        self.epoch_seconds = 0.0  # of the current epoch, summed over resumed processes
        steps = max(batches["train"].steps, 1)
        self._steps = (
            settings.evaluate_every or steps
        )  # steps of an epoch; the last epoch of a pass may have fewer
        self._parts = -(-steps // self._steps)  # epochs of a pass
        started = time.monotonic()
        learner = program.draw(batches["train"].layouts[0], self.seeds)
        jax.block_until_ready(learner)
        program.compile_seconds += time.monotonic() - started  # most of this time is compilation
        average = states.init_average(learner) if settings.average_from else None
        drawn = learner, states.init_best(learner), average
        self.learner, self.best, self.average = program.devices.replicate(drawn)
        self._saved = time.monotonic()
        self._compiled_for = 0  # number of seeds for which the programs are compiled
        self._planner, self._plans = (
            ThreadPoolExecutor(1, "plans"),
            {},
        )  # (pass, seeds) -> future of its batches
        # steps of this chunk; steps of the next one by the speed of this process
        self._chunk = self._next_chunk = 4

    def begin(self, **weights):
        """Starts from these weights of the learner; they are the best before the first epoch."""
        self.learner = self.program.devices.replicate(self.learner.replace(**weights))
        self.best = self.program.devices.replicate(states.init_best(self.learner))

    # -- resume ---------------------------------------------------------------------------------------------------

    def resume(self) -> bool:
        """Restores the newest checkpoint; returns False where there is none."""
        loaded = self.checkpoints.load() if self.checkpoints else None
        if loaded is None:
            return False
        tree, meta = loaded
        self._go_on(restore_into(self._carried(over="learner" not in tree), tree), meta)
        return True

    def align(self):
        """Gives all processes the state of the first one, whether it is new, resumed or from
        another run."""
        if self._hosts.count > 1:
            live, meta = json.loads(
                self._hosts.exchange(json.dumps([len(self.learner.seed), self._meta()]))[0]
            )
            learner, best, average = jax.tree.map(
                np.asarray, (self.learner, self.best, self.average)
            )
            learner, average = states.keep_seeds(
                (learner, average), np.arange(live)
            )  # in the first's shapes
            self.learner, self.best, self.average = multihost_utils.broadcast_one_to_all(
                (learner, best, average)
            )
            self._go_on(self._carried(), meta)

    def _go_on(self, carried, meta):
        restored = self.program.devices.replicate(carried)
        self.best = restored["best"]
        self.learner = restored.get("learner", self.learner)
        self.average = restored.get("average", self.average)
        for name in (*_COUNTERS, "sums"):
            setattr(
                self, name, {"epoch_seconds": 0.0, **meta}[name]
            )  # older checkpoints lack epoch_seconds
        if self.sums is not None:  # null becomes NaN
            self.sums = {
                name: np.asarray(values, np.float64).tolist() for name, values in self.sums.items()
            }

    def save(self):
        self._saved, over = time.monotonic(), self._over()
        if self.checkpoints:
            self.checkpoints.save(self._carried(over), self._meta(), alone=over)
            self.on_save(self.program.compile_seconds)
        self._hosts.meet()  # only the first process saves; the others wait

    def _meta(self):
        sums = self.sums and {name: _finite(values) for name, values in self.sums.items()}
        return {**{name: getattr(self, name) for name in _COUNTERS}, "sums": sums}

    def _carried(self, over=False):
        """The arrays of a checkpoint: the best weights, and what training needs, unless it is
        over."""
        if over:
            return {"best": self.best}
        carried = {"learner": self.learner, "best": self.best}
        return carried if self.average is None else {**carried, "average": self.average}

    # -- training -------------------------------------------------------------------------------------------------

    def run(self) -> states.Best:
        while not self._over():
            self._drop_finished()
            self._finish_epoch(*self._train_epoch())
        return self.best

    def pass_of(self, epoch):
        """The number, from 1, of the pass to which an epoch (or each epoch of an array) belongs."""
        return -(-epoch // self._parts)

    @property
    def _pass(self):
        return self.pass_of(self.epoch)

    def _first(self):
        """Steps of the current pass before the current epoch."""
        return (self.epoch - 1) % self._parts * self._steps

    def _over(self):
        return self._pass > self.settings.epochs or not len(self._slots())

    def _slots(self):
        """Indices in Best of the seeds that still train, by their patience after the last whole
        pass."""
        done = (self.epoch - 1) // self._parts
        stale = done - self.pass_of(np.asarray(self.best.epoch))
        return np.flatnonzero(
            (stale < self.settings.patience) | (done < self.settings.least_epochs)
        )

    def _learner_slots(self):
        return np.array([self.seeds.index(seed) for seed in np.asarray(self.learner.seed).tolist()])

    def _drop_finished(self):
        """Drops finished seeds once they are half of all, so that the program is not compiled again
        for each seed."""
        places = self._learner_slots()
        live = np.isin(places, self._slots())
        if self.done == 0 and live.sum() <= len(live) // 2:
            kept = states.keep_seeds((self.learner, self.average), np.flatnonzero(live))
            self.learner, self.average = self.program.devices.replicate(kept)

    def _train_epoch(self):
        """Trains the rest of the epoch; returns (examples of all seeds in it, whether to save after
        it)."""
        begun, compiled, before = time.monotonic(), self.program.compile_seconds, self.epoch_seconds
        seeds = np.asarray(self.learner.seed)
        whole, first, save = self._plan(tuple(seeds.tolist())), self._first(), False
        plan = whole[first : first + self._steps]
        self._compile(whole)
        title = f"epoch {self._pass}/{self.settings.epochs}"
        with Bar(
            title, len(self.splits["train"]), first=_examples(whole[: first + self.done])
        ) as bar:
            pending = None
            while self.done < len(plan):
                chunk = plan[self.done : self.done + self._chunk]
                started = time.monotonic()
                with self._traced():
                    sums = self._train_chunk(chunk, len(whole))
                if pending is not None:  # fetch the previous chunk while this one computes
                    self._take(pending, started)
                pending = sums
                self.done += len(chunk)
                stop, save = self._agreed(
                    time.monotonic() - self._saved > 60 * self.settings.checkpoint_minutes
                )
                if stop or save or self.done == len(plan):
                    self._take(pending, started)
                    pending = None
                    compiling = self.program.compile_seconds - compiled
                    self.epoch_seconds = before + time.monotonic() - begun - compiling
                    if stop or (save and self.done < len(plan)):
                        self.save()
                    if stop:
                        raise Interrupted
                loss = self.sums and np.sum(self.sums["loss"]) / max(np.sum(self.sums["count"]), 1)
                bar.advance(_examples(chunk), "" if loss is None else f"loss {loss:.3f}")
        return _examples(plan) * len(seeds), save

    def _compile(self, plan):
        """Compiles the programs for the batches of a pass and of the dev split, once for each
        number of seeds."""
        live = len(self.learner.seed)
        if self._compiled_for == live:
            return
        self._compiled_for, program = live, self.program
        training, predicting = (
            {layout: index for layout, index in batches}
            for batches in (plan, self.batches["dev"].once())
        )
        bodies = [
            partial(program.train_body, layout, self.learner, index)
            for layout, index in training.items()
        ]
        weights = self.learner.variables
        bodies += [
            partial(program.predict_body, layout, weights, index)
            for layout, index in predicting.items()
        ]
        say(
            f"compiling {len(bodies)} programs: half a minute on two idle cores, seconds from the cache"
        )
        program.compile(bodies)

    def _plan(self, seeds):
        """The batches of the current pass. A thread prepares those of the next one while the device
        works."""
        keys = [
            (number, seeds)
            for number in (self._pass, self._pass + 1)
            if number <= self.settings.epochs
        ]
        deal = self.batches["train"].epoch
        self._plans = {
            key: self._plans.get(key) or self._planner.submit(deal, *key) for key in keys
        }
        return self._plans[keys[0]].result()

    def _train_chunk(self, chunk, steps):
        """Dispatches the steps of a chunk; returns the sums of each step, on the device. steps: of
        the whole pass."""
        sums = []
        first, every = self.settings.average_from, self.settings.average_every or steps
        for done, (layout, index) in enumerate(chunk, start=self._first() + self.done + 1):
            self.learner, step_sums = self.program.train(layout, self.learner, index)
            sums.append(step_sums)
            if 0 < first <= self._pass and ((self._pass - first) * steps + done) % every == 0:
                self.average = states.add_sample(self.average, self.learner)
        return sums

    @contextlib.contextmanager
    def _traced(self):
        """Profiles the third chunk. It waits for the device, so that the trace contains exactly
        these steps."""
        self._chunks += 1
        if not self._profile or self._chunks != 3:
            yield
            return
        jax.block_until_ready(self.learner)
        with jax.profiler.trace(str(self._profile)):
            yield
            jax.block_until_ready(self.learner)

    def _take(self, sums, started):
        """Adds the sums of a chunk's steps to those of the epoch, and adapts the size of chunks to
        about two seconds.

        The steps are added one by one in float64, so that the sums do not depend on the size of the
        chunks.
        """
        for of_step in jax.device_get(sums):
            before = self.sums or dict.fromkeys(of_step, 0.0)
            added = {
                name: np.add(before[name], value, dtype=np.float64)
                for name, value in of_step.items()
            }
            self.sums = {name: value.tolist() for name, value in added.items()}
        seconds = time.monotonic() - started
        if seconds > 1.5 * CHUNK_SECONDS:
            self._next_chunk = max(1, self._chunk // 2)
        elif seconds < CHUNK_SECONDS / 2:
            self._next_chunk = min(256, self._chunk * 2)

    def _finish_epoch(self, examples, save):
        places, averaged = (
            self._learner_slots(),
            self.average is not None and np.all(self.average.count),
        )
        weights = self.average if averaged else self.learner
        logits = self.predict("dev", weights.variables)
        scores = self._score(self.splits["dev"], logits, np.asarray(self.learner.seed))
        unscored = scores["loss"] is None  # no dev answer can be scored
        if unscored and self.settings.select == "loss":
            problem = "is 'loss', and no dev answer can be scored"
            raise ConfigError(problem, field="train.select", fix="give accuracy or last")
        loss = np.full(len(places), np.nan) if unscored else np.array(scores["loss"]["per_seed"])
        accuracy = np.array(scores["accuracy"]["per_seed"])
        last = np.full(len(places), -self.epoch)
        value = {"loss": loss, "accuracy": 1 - accuracy, "last": last}[self.settings.select]
        # A diverged seed never becomes the best. Neither does a finished seed that is trained only
        # because the program still contains it: the result of a seed must not depend on the other
        # seeds.
        allowed = (unscored | np.isfinite(loss)) & np.isin(places, self._slots())
        value = np.where(allowed, value, np.inf).astype(np.float32)
        self.program.devices.check_replicas(self.learner.params)
        self.best = states.update_best(self.best, weights, places, value, self.epoch)
        count = np.maximum(self.sums["count"], 1)
        row = {
            "epoch": self.epoch,
            "seeds": [self.seeds[place] for place in places],
            "train_loss": _finite(np.asarray(self.sums["loss"]) / count),
            "train_accuracy": _finite(np.asarray(self.sums["correct"]) / count),
            "dev_loss": _finite(loss),
            "dev_accuracy": _finite(accuracy),
            **({"unscored": "dev"} if unscored else {}),
            "stale": np.asarray(self.best.stale)[places].tolist(),
            "seconds": round(self.epoch_seconds, 3),
            "examples_per_second": round(examples / max(self.epoch_seconds, 1e-9), 2),
            **self._protocol_row(),
        }
        self.trained_examples += examples
        self.train_seconds += self.epoch_seconds
        self.epoch, self.done, self.sums, self.epoch_seconds = self.epoch + 1, 0, None, 0.0
        # The row is written first: a run killed in between trains the epoch again and drops the
        # row.
        self.on_epoch(row)
        if (
            save
            or self._over()
            or (self.epoch - 1) % (self.settings.checkpoint_epochs * self._parts) == 0
        ):
            self.save()

    def _protocol_row(self):
        """Entries of an epoch's row that only some settings have."""
        row, settings = {}, self.settings
        if settings.schedule == "halving":
            factor = optim.DECAY ** max(0, self._pass - settings.halve_from + 1)
            row["rate_factor"] = [factor] * len(self.learner.seed)
        if self.average is not None:
            row["averaged"] = int(np.max(self.average.count))
        if settings.evaluate_every:
            steps = self.batches["train"].steps
            row |= {
                "pass": self._pass,
                "step": (self._pass - 1) * steps + self._first() + self.done,
            }
        return row

    def predict(self, split: str, variables) -> np.ndarray:
        """Logits [S, N, C] of a split. Where a stop is requested, saves and raises Interrupted."""
        if self._hosts.count == 1:
            with Bar(split, self.batches[split].rows, unit="rows") as bar:

                def tick(rows):
                    bar.advance(rows)
                    self._stop_if_asked()

                return self.program.logits(variables, self.batches[split], tick=tick)
        logits = self.program.logits(variables, self.batches[split])
        self._stop_if_asked()  # all processes must ask at the same place
        return logits

    def _stop_if_asked(self):
        """Saves and stops within an evaluation where requested. A resumed run repeats the
        evaluation."""
        if self._agreed()[0]:
            self.save()
            raise Interrupted

    def _agreed(self, save=False):
        """(whether to stop, whether to save), the same on all processes: yes where one process
        needs it.

        Also sets the steps of the next chunk to the fewest of all processes.
        """
        stop, save, steps = self._hosts.agree(self.should_stop(), save, -self._next_chunk)
        self._chunk = -int(steps)
        return bool(stop), bool(save)


def _examples(plan):
    return sum(int((index[0] >= 0).sum()) for _, index in plan)


def _finite(values):
    """The values with None for NaN and infinity, which JSON does not have."""
    return [float(v) if np.isfinite(v) else None for v in values]
