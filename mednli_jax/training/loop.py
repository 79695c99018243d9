"""The training loop: epochs of batches, dev scores, the best epoch of each seed, checkpoints; it
can stop at any chunk.

With `evaluate_every`, dev is also scored every N steps within a pass over the training rows. The
steps between two evaluations then count as an epoch: they have a number, a row of metrics, and
weights that may become the best. Settings in epochs (`epochs`, `patience`, `halve_from`, ...) still
count passes.

The loop sees only row numbers; the scorer makes batches from them. Dimension letters: S seeds still
training, A all seeds of the run, B rows of a batch, N rows of a split, C classes.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

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
from mednli_jax.training.program import Compiled, Program
from mednli_jax.training.step import Sums
from mednli_jax.types import JsonObject, PyTree

CHUNK_SECONDS = 2.0

PlannedBatches = list[batching.PlannedBatch]
SplitT = TypeVar("SplitT", bound=Sized)  # the rows of a split


class Interrupted(Exception):
    """The run has stopped on request, and its state is saved."""


@dataclass(frozen=True)
class LoopSettings:
    """The fields of the `train` section that the loop needs. The defaults switch features off.

    Args:
      select: the best epoch by "loss" or "accuracy" of the dev split, or the "last".
      checkpoint_minutes, checkpoint_epochs: minutes and epochs between two checkpoints.
      schedule: one of optim.SCHEDULES, the one with which the optimiser was built.
      halve_from: of "halving": the first epoch with a lower rate.
      evaluate_every: steps between two evaluations of the dev split; 0 = only at the end of a pass.
      least_epochs: that are trained whatever the patience.
    """

    epochs: int
    patience: int
    select: str
    checkpoint_minutes: float
    schedule: str = "constant"
    halve_from: int = 1
    checkpoint_epochs: int = 1
    evaluate_every: int = 0
    least_epochs: int = 0

    @classmethod
    def from_config(cls, train: ConfigDict) -> "LoopSettings":
        return cls(
            epochs=train.epochs,
            patience=train.patience,
            select=train.select,
            checkpoint_minutes=train.checkpoint_minutes,
            schedule=train.schedule,
            halve_from=train.halve_from,
            checkpoint_epochs=train.checkpoint_epochs,
            evaluate_every=train.evaluate_every,
            least_epochs=train.least_epochs,
        )


@dataclass
class Progress:
    """The place that training has reached; checkpoints store it.

    Args:
      epoch: number of the current epoch, from 1.
      done: finished batches of the current epoch.
      trained_examples, train_seconds: of the finished epochs.
      epoch_seconds: of the current epoch, in all processes that trained it.
      sums: over the finished batches of the current epoch: name -> a number for each seed; None
        before the first batch.
    """

    epoch: int = 1
    done: int = 0
    trained_examples: int = 0
    train_seconds: float = 0.0
    epoch_seconds: float = 0.0
    sums: dict[str, list[float]] | None = None

    @classmethod
    def from_json(cls, meta: JsonObject) -> "Progress":
        progress = cls(**meta)
        if progress.sums is not None:  # null becomes NaN
            progress.sums = {
                name: np.asarray(values, np.float64).tolist()
                for name, values in progress.sums.items()
            }
        return progress

    def to_json(self) -> JsonObject:
        meta = asdict(self)
        if self.sums is not None:
            meta["sums"] = {name: _finite(sums) for name, sums in self.sums.items()}
        return meta

    def add(self, step_sums: Mapping[str, np.ndarray]) -> None:
        """Adds the sums of a step. Steps are added one by one in float64, so that the result does
        not depend on the size of the chunks."""
        before = self.sums or {}
        self.sums = {}
        for name, value in step_sums.items():
            total = np.add(before.get(name, 0.0), value, dtype=np.float64)
            self.sums[name] = total.tolist()

    def mean(self, name: str) -> np.ndarray:
        """[S], a sum of the current epoch divided by its examples, for each seed."""
        assert self.sums is not None
        return np.asarray(self.sums[name]) / np.maximum(self.sums["count"], 1)

    def loss_text(self) -> str:
        """The loss so far, as text for the progress bar."""
        if not self.sums:
            return ""
        return f"loss {np.sum(self.sums['loss']) / max(np.sum(self.sums['count']), 1):.3f}"

    def finish_epoch(self, examples: int) -> None:
        self.trained_examples += examples
        self.train_seconds += self.epoch_seconds
        self.epoch += 1
        self.done = 0
        self.epoch_seconds = 0.0
        self.sums = None


class Trainer(Generic[SplitT]):
    """Trains all seeds of a run. `run()` returns the best parameters of each.

    Args:
      splits: name -> rows; "train" and "dev" are used.
      batches: name -> batches of the rows.
      seeds: A seeds.
      checkpoints: saves and resumes; None saves nothing.
      on_epoch: called with each epoch's row of metrics.
      on_save: called after each checkpoint with the seconds that `program` has spent on
        compilation.
      should_stop: called between chunks; when it returns True, the loop saves and raises
        Interrupted.
      profile: folder for a profiler trace of the third chunk of steps of this process, which runs
        after compilation.
      score: maps (dev rows, logits [S, N, C], seeds [S]) to scores, for seeds with own dev rows;
        None: the scorer's `score`.
    """

    def __init__(
        self,
        program: Program,
        settings: LoopSettings,
        splits: Mapping[str, SplitT],
        batches: dict[str, batching.Batches],
        seeds: Sequence[int],
        *,
        checkpoints: Checkpoints | None = None,
        on_epoch: Callable[[JsonObject], None] = lambda row: None,
        on_save: Callable[[float], None] = lambda compile_seconds: None,
        should_stop: Callable[[], bool] = lambda: False,
        profile: Path | None = None,
        score: Callable[[SplitT, np.ndarray, np.ndarray], JsonObject] | None = None,
    ) -> None:
        self.program = program
        self.settings = settings
        self.splits = splits
        self.batches = batches
        self.seeds = tuple(seeds)
        self.checkpoints = checkpoints
        self.on_epoch = on_epoch
        self.on_save = on_save
        self.should_stop = should_stop
        self._score = score or (lambda rows, logits, seeds: program.scorer.score(rows, logits))
        self._hosts = program.devices.hosts
        self._profile = profile
        self.progress = Progress()
        pass_steps = max(batches["train"].steps, 1)
        # The last epoch of a pass may have fewer steps.
        self._epoch_steps = settings.evaluate_every or pass_steps
        self._epochs_of_pass = -(-pass_steps // self._epoch_steps)
        started = time.monotonic()
        learner = program.draw(batches["train"].layouts[0], self.seeds)
        jax.block_until_ready(learner)
        program.compile_seconds += time.monotonic() - started  # most of this time is compilation
        self.learner: states.Learner
        self.best: states.Best
        replicated = program.devices.replicate((learner, states.init_best(learner)))
        self.learner, self.best = replicated
        self._saved = time.monotonic()
        self._compiled_for = 0  # number of seeds for which the programs are compiled
        self._planner = ThreadPoolExecutor(1, "plans")
        self._plans: dict[
            tuple[int, tuple[int, ...]], Future[PlannedBatches]
        ] = {}  # by pass and seeds
        self._chunks = 0  # that this process has begun
        # steps of this chunk; steps of the next one by the speed of this process
        self._chunk_steps = self._next_chunk_steps = 4

    def begin(self, params: PyTree, batch_stats: PyTree = None) -> None:
        """Starts from these weights, or from those drawn (None). They are the best before the first
        epoch."""
        stats = self.learner.batch_stats if batch_stats is None else batch_stats
        learner = replace(self.learner, params=params, batch_stats=stats)
        self.learner = self.program.devices.replicate(learner)
        self.best = self.program.devices.replicate(states.init_best(self.learner))

    # -- resume ----------------------------------------------------------------------------------

    def resume(self) -> bool:
        """Restores the newest checkpoint; returns False if there is none."""
        checkpoint = self.checkpoints.load() if self.checkpoints else None
        if checkpoint is None:
            return False
        template = self._arrays(over="learner" not in checkpoint.tree)
        self._continue_from(restore_into(template, checkpoint.tree), checkpoint.meta)
        return True

    def align(self) -> None:
        """Gives all processes the state of the first one, whether it is new, resumed or from
        another run."""
        if self._hosts.count == 1:
            return
        message = json.dumps([len(self.learner.seed), self.progress.to_json()])
        live_seeds, meta = json.loads(self._hosts.exchange(message)[0])
        learner, best = jax.tree.map(np.asarray, (self.learner, self.best))
        # The arrays need the shapes of the first process.
        learner = states.select_seeds(learner, np.arange(live_seeds))
        self.learner, self.best = multihost_utils.broadcast_one_to_all((learner, best))
        self._continue_from(self._arrays(), meta)

    def save(self) -> None:
        """Saves a checkpoint; after the last epoch only the best weights."""
        self._saved = time.monotonic()
        over = self._over()
        if self.checkpoints:
            self.checkpoints.save(self._arrays(over=over), self.progress.to_json(), alone=over)
            self.on_save(self.program.compile_seconds)
        self._hosts.meet()  # only the first process saves; the others wait

    def _arrays(self, *, over: bool = False) -> dict[str, PyTree]:
        """The arrays of a checkpoint: the best weights, and what training needs, unless it is
        over."""
        if over:
            return {"best": self.best}
        return {"learner": self.learner, "best": self.best}

    def _continue_from(self, arrays: dict[str, PyTree], meta: JsonObject) -> None:
        restored = self.program.devices.replicate(arrays)
        self.best = restored["best"]
        self.learner = restored.get("learner", self.learner)
        self.progress = Progress.from_json(meta)

    # -- training --------------------------------------------------------------------------------

    def run(self) -> states.Best:
        """Trains to the end; returns the best weights of each seed."""
        while not self._over():
            self._drop_finished()
            examples, save = self._train_epoch()
            self._finish_epoch(examples, save)
        return self.best

    def pass_of(self, epoch: int) -> int:
        """The number, from 1, of the pass to which an epoch belongs."""
        return -(-epoch // self._epochs_of_pass)

    @property
    def _pass(self) -> int:
        return self.pass_of(self.progress.epoch)

    @property
    def _first_step(self) -> int:
        """The number of steps of the current pass before the current epoch."""
        return (self.progress.epoch - 1) % self._epochs_of_pass * self._epoch_steps

    def _over(self) -> bool:
        return self._pass > self.settings.epochs or not len(self._live_slots())

    def _live_slots(self) -> np.ndarray:
        """The indices in Best of the seeds that still train. A seed ends when its last
        `patience` whole passes have not become its best."""
        whole_passes = (self.progress.epoch - 1) // self._epochs_of_pass
        best_pass = -(-np.asarray(self.best.epoch) // self._epochs_of_pass)
        stale = whole_passes - best_pass
        is_live = (stale < self.settings.patience) | (whole_passes < self.settings.least_epochs)
        return np.flatnonzero(is_live)

    def _learner_slots(self) -> np.ndarray:
        """[S], the index in Best of each seed of the learner."""
        return np.array(list(map(self.seeds.index, self._learner_seeds())))

    def _learner_seeds(self) -> tuple[int, ...]:
        return tuple(np.asarray(self.learner.seed).tolist())

    def _drop_finished(self) -> None:
        """Drops finished seeds once they are half of all, so that the program is not compiled again
        for each seed."""
        is_live = np.isin(self._learner_slots(), self._live_slots())
        if self.progress.done == 0 and is_live.sum() <= len(is_live) // 2:
            rows = np.flatnonzero(is_live)
            live = states.select_seeds(self.learner, rows)
            self.learner = self.program.devices.replicate(live)

    def _train_epoch(self) -> tuple[int, bool]:
        """Trains the rest of the epoch; returns (examples of all seeds in it, whether to save after
        it).

        The sums of a chunk are fetched while the device computes the next one, except before a save
        and at the end.
        """
        begun, compile_seconds_before = time.monotonic(), self.program.compile_seconds
        progress = self.progress
        seconds_before = progress.epoch_seconds
        pass_plan, first = self._plan(), self._first_step
        plan = pass_plan[first : first + self._epoch_steps]
        self._compile(pass_plan)
        title = f"epoch {self._pass}/{self.settings.epochs}"
        done_before = _examples(pass_plan[: first + progress.done])
        save = False
        with Bar(title, len(self.splits["train"]), first=done_before) as bar:
            pending = None  # sums of the previous chunk, not fetched yet
            while progress.done < len(plan):
                chunk = plan[progress.done : progress.done + self._chunk_steps]
                started = time.monotonic()
                with self._trace():
                    sums = self._train_chunk(chunk)
                if pending is not None:
                    self._add_sums(pending, started)
                pending = sums
                progress.done += len(chunk)
                is_due = time.monotonic() - self._saved > 60 * self.settings.checkpoint_minutes
                stop, save = self._agree(is_due)
                ended = progress.done == len(plan)
                if stop or save or ended:
                    self._add_sums(pending, started)
                    pending = None
                    compile_seconds = self.program.compile_seconds - compile_seconds_before
                    seconds = time.monotonic() - begun - compile_seconds
                    progress.epoch_seconds = seconds_before + seconds
                if stop or (save and not ended):
                    self.save()
                if stop:
                    raise Interrupted
                bar.advance(_examples(chunk), progress.loss_text())
        return _examples(plan) * len(self.learner.seed), save

    def _plan(self) -> PlannedBatches:
        """The batches of the current pass. A thread prepares the batches of the next pass while the
        device works."""
        seeds, current = self._learner_seeds(), self._pass
        plans = {}
        for number in (current, current + 1):
            key = (number, seeds)
            if key in self._plans:
                plans[key] = self._plans[key]
            elif number <= self.settings.epochs:
                plans[key] = self._planner.submit(self.batches["train"].epoch, number, seeds)
        self._plans = plans
        return plans[current, seeds].result()

    def _compile(self, pass_plan: PlannedBatches) -> None:
        """Compiles the programs for the batches of a pass and of the dev split, once for each
        number of seeds."""
        seeds, program = len(self.learner.seed), self.program
        if self._compiled_for == seeds:
            return
        self._compiled_for = seeds
        bodies: list[Callable[..., Compiled]] = []
        for layout, index in dict(pass_plan).items():
            bodies.append(partial(program.train_body, layout, self.learner, index))
        for layout, index in dict(self.batches["dev"].once()).items():
            bodies.append(partial(program.predict_body, layout, self.learner.variables, index))
        duration = "half a minute on two idle cores, seconds from the cache"
        say(f"compiling {len(bodies)} programs: {duration}")
        program.compile(bodies)

    def _train_chunk(self, chunk: PlannedBatches) -> list[Sums]:
        """Dispatches the steps of a chunk; returns the sums of each step, on the device."""
        sums = []
        for layout, index in chunk:
            self.learner, step_sums = self.program.train(layout, self.learner, index)
            sums.append(step_sums)
        return sums

    @contextlib.contextmanager
    def _trace(self) -> Iterator[None]:
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

    def _add_sums(self, sums: list[Sums], started: float) -> None:
        """Adds the sums of a chunk's steps to those of the epoch, and adapts the size of chunks to
        about two seconds."""
        for step_sums in jax.device_get(sums):
            self.progress.add(step_sums)
        seconds = time.monotonic() - started
        if seconds > 1.5 * CHUNK_SECONDS:
            self._next_chunk_steps = max(1, self._chunk_steps // 2)
        elif seconds < CHUNK_SECONDS / 2:
            self._next_chunk_steps = min(256, self._chunk_steps * 2)

    # -- evaluation ------------------------------------------------------------------------------

    def _finish_epoch(self, examples: int, save: bool) -> None:
        """Scores dev, keeps the weights that are the best so far, writes the epoch's row."""
        progress = self.progress
        scores = self._dev_scores()
        slots = self._learner_slots()
        value = self._selection_value(scores, slots)
        self.best = states.update_best(self.best, self.learner, slots, value, progress.epoch)
        row = self._row(scores, slots, examples)
        progress.finish_epoch(examples)
        # The row is written first: a run killed in between trains the epoch again and drops the
        # row.
        self.on_epoch(row)
        epochs_between = self.settings.checkpoint_epochs * self._epochs_of_pass
        if save or self._over() or (progress.epoch - 1) % epochs_between == 0:
            self.save()

    def _dev_scores(self) -> "_DevScores":
        logits = self.predict("dev", self.learner.variables)
        scores = self._score(self.splits["dev"], logits, np.asarray(self.learner.seed))
        accuracy = np.array(scores["accuracy"]["per_seed"])
        if scores["loss"] is not None:
            return _DevScores(np.array(scores["loss"]["per_seed"]), accuracy)
        if self.settings.select == "loss":
            problem = "is 'loss', and no dev answer can be scored"
            raise ConfigError(problem, field="train.select", fix="give accuracy or last")
        return _DevScores(np.full(len(accuracy), np.nan), accuracy, unscored=True)

    def _selection_value(self, scores: "_DevScores", slots: np.ndarray) -> np.ndarray:
        """[S], the value by which epochs are compared, lower is better.

        A diverged seed never becomes the best. Neither does a finished seed that is trained only
        because the program still contains it: the result of a seed must not depend on the other
        seeds.
        """
        values = {
            "loss": scores.loss,
            "accuracy": 1 - scores.accuracy,
            "last": np.full(len(slots), -self.progress.epoch),
        }
        is_finite = scores.unscored | np.isfinite(scores.loss)
        is_allowed = is_finite & np.isin(slots, self._live_slots())
        return np.where(is_allowed, values[self.settings.select], np.inf).astype(np.float32)

    def _row(self, scores: "_DevScores", slots: np.ndarray, examples: int) -> JsonObject:
        """The row of metrics of the current epoch."""
        progress, settings = self.progress, self.settings
        seconds = progress.epoch_seconds
        row: JsonObject = {
            "epoch": progress.epoch,
            "seeds": [self.seeds[slot] for slot in slots],
            "train_loss": _finite(progress.mean("loss")),
            "train_accuracy": _finite(progress.mean("correct")),
            "dev_loss": _finite(scores.loss),
            "dev_accuracy": _finite(scores.accuracy),
        }
        if scores.unscored:
            row["unscored"] = "dev"
        row["stale"] = np.asarray(self.best.stale)[slots].tolist()
        row["seconds"] = round(seconds, 3)
        row["examples_per_second"] = round(examples / max(seconds, 1e-9), 2)
        if settings.schedule == "halving":
            factor = optim.DECAY ** max(0, self._pass - settings.halve_from + 1)
            row["rate_factor"] = [factor] * len(slots)
        if settings.evaluate_every:
            row["pass"] = self._pass
            steps_before = (self._pass - 1) * self.batches["train"].steps + self._first_step
            row["step"] = steps_before + progress.done
        return row

    def predict(self, split: str, variables: PyTree) -> np.ndarray:
        """Logits [S, N, C] of a split. If a stop is requested, saves and raises Interrupted."""
        batches = self.batches[split]
        if self._hosts.count > 1:
            logits = self.program.logits(variables, batches)
            self._stop_if_asked()  # all processes must ask at the same place
            return logits
        with Bar(split, batches.row_count, noun="rows") as bar:

            def tick(rows: int) -> None:
                bar.advance(rows)
                self._stop_if_asked()

            return self.program.logits(variables, batches, tick=tick)

    def _stop_if_asked(self) -> None:
        """Saves and stops within an evaluation if a stop is requested. A resumed run repeats the
        evaluation."""
        stop, _ = self._agree()
        if stop:
            self.save()
            raise Interrupted

    def _agree(self, save: bool = False) -> tuple[bool, bool]:
        """Returns (whether to stop, whether to save), the same on all processes: True if one
        process needs it.

        Also sets the steps of the next chunk to the fewest of all processes.
        """
        stop, save_now, steps = self._hosts.agree(self.should_stop(), save, -self._next_chunk_steps)
        self._chunk_steps = -int(steps)
        return bool(stop), bool(save_now)


class _DevScores(NamedTuple):
    """The scores of the dev split, each [S]."""

    loss: np.ndarray  # NaN where unscored
    accuracy: np.ndarray
    unscored: bool = False  # no dev answer can be scored


def _examples(plan: PlannedBatches) -> int:
    return sum(int((index[0] >= 0).sum()) for _, index in plan)


def _finite(values: Sequence[float] | np.ndarray) -> list[float | None]:
    """The values, with None in place of NaN and infinity, which JSON does not have."""
    return [float(value) if np.isfinite(value) else None for value in values]
