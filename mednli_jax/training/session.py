"""One training session of a run: log lines, result files and requests to stop."""

import copy
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import FrameType
from typing import TYPE_CHECKING

import jax
import numpy as np

from mednli_jax.errors import ConfigError
from mednli_jax.files.writing import write_json
from mednli_jax.rundir import RunDirectory, count_cpus, environment
from mednli_jax.terminal import rate_text, say
from mednli_jax.types import Json

if TYPE_CHECKING:
    from mednli_jax.finished import Run


@dataclass(frozen=True)
class Fitted:
    """The result of a fit.

    Args:
      facts: fields of result.json.
      logits: maps a split to logits [S, N, C] of its rows; None if `facts` has the scores.
      notes: warnings for result.json.
    """

    facts: dict[str, Json]
    logits: Callable[[str], np.ndarray] | None = None
    notes: list[str] = field(default_factory=list)


class Session:
    """The work of one process for a run.

    Args:
      directory: of the run; None for a process that trains with others and writes nothing.
      resume: continue the run in the directory.
      profile: trace some steps.
      source: the finished run from whose weights training starts, or None.
      command_line, settings: of this process, for env.json. Settings change a run's numbers.
      cpus: numbers of CPUs of the earlier sessions.
      on_epoch: called with a copy of each row of metrics, after it was written.
    """

    def __init__(
        self,
        directory: RunDirectory | None,
        *,
        resume: bool = False,
        profile: bool = False,
        source: "Run | None" = None,
        command_line: Sequence[str] = (),
        on_epoch: Callable[[dict[str, Json]], None] = lambda row: None,
        settings: Mapping[str, Json] | None = None,
        cpus: Sequence[int] = (),
    ) -> None:
        self.directory = directory
        self.resume = resume
        self.source = source
        self.command_line, self.settings = command_line, settings or {}
        self.cpus = [*cpus, count_cpus()]  # of all sessions
        self.on_epoch = on_epoch
        self.profile = directory.folder / "profile" if directory and profile else None
        self.signals = 0
        self.compile_seconds = 0.0  # of all sessions
        self._seconds_before = 0.0  # of earlier sessions
        self._begun = time.monotonic()

    def say(self, line: str) -> None:
        """Writes a line to the terminal and to the run's log."""
        if self.directory:
            say(line)
            self.directory.log(line)

    def should_stop(self) -> bool:
        return self.signals > 0

    def catch_signals(self) -> None:
        """Installs signal handlers: the first signal stops after the current steps, the second at
        once.

        Only the main thread of a process may install them. A training in another thread cannot be
        stopped by a signal.
        """
        if threading.current_thread() is not threading.main_thread():
            return

        def stop(number: int, frame: FrameType | None) -> None:
            self.signals += 1
            if self.signals > 1:
                raise KeyboardInterrupt
            if self.directory:
                say("stopping after the current steps ...")

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)

    # -- files of the run ------------------------------------------------------------------------

    @property
    def notes(self) -> list[str]:
        """Notes for result.json on the number of CPUs, because XLA splits sums by it."""
        if len(set(self.cpus)) == 1:
            return []
        numbers = " and ".join(map(str, dict.fromkeys(self.cpus)))
        return [
            f"trained on {numbers} CPUs: not bit-identical to a run that has one number of them"
        ]

    def count_earlier_sessions(self) -> None:
        """Reads the seconds of earlier sessions from result.json."""
        if self.directory:
            earlier = self.directory.result()
            self._seconds_before = earlier.seconds or 0.0
            self.compile_seconds = earlier.compile_seconds or 0.0

    def _seconds(self) -> float:
        """The seconds of all sessions so far."""
        return round(self._seconds_before + time.monotonic() - self._begun, 1)

    def _time_fields(self) -> dict[str, Json]:
        """The fields of result.json about time."""
        return {
            "seconds": self._seconds(),
            "compile_seconds": round(self.compile_seconds, 2),
        }

    def write_status(self, status: str) -> None:
        """Writes a result.json with the status and the seconds of all sessions."""
        if self.directory:
            self.directory.write_result(status, self._time_fields())

    def write_complete(self, result: dict[str, Json]) -> None:
        """Writes the result.json of a complete run."""
        if self.directory:
            self.directory.write_result("complete", {**result, "seconds": self._seconds()})

    def write_failure(self, *, resumable: bool) -> None:
        """Writes the result.json of a failed run. resumable: whether the same flags can continue
        it."""
        if self.directory:
            self.directory.write_result("failed", {**self._time_fields(), "resumable": resumable})

    def on_save(self, compile_seconds: float) -> None:
        """Writes the seconds with each checkpoint, so that a killed run does not count the time of
        lost work."""
        self.compile_seconds = compile_seconds
        self.write_status("running")

    def write_facts(self, manifest: dict[str, Json], devices: Sequence[jax.Device] = ()) -> None:
        """Writes env.json and data.json."""
        if self.directory:
            names = [f"{device.platform}:{device.device_kind}" for device in devices]
            run_facts = environment(self.command_line)
            facts = replace(
                run_facts, cpus_of_sessions=self.cpus, devices=names, settings=self.settings
            )
            write_json(self.directory.folder / "env.json", asdict(facts))
            write_json(self.directory.folder / "data.json", manifest)

    def write_epoch(self, row: dict[str, Json], line: str) -> None:
        """Writes a row of metrics and its log line."""
        if self.directory:
            self.directory.append_metrics(row)
            self.say(line)
            self.on_epoch(copy.deepcopy(row))


def epoch_line(row: dict[str, Json], epochs: int, *measures: str) -> str:
    """Formats a row of metrics in 80 columns, with means over the seeds: `epoch 2/6: loss .7; dev
    loss .8, accuracy .6; 90/s, 9.1 s`. A step stands in place of the rate.

    measures: further names in the row, e.g. dev_accuracy.
    """
    place = f"epoch {row.get('pass', row['epoch'])}/{epochs}"
    rate = row["examples_per_second"] / len(row["train_loss"])  # all models train on an example
    pace = f"{rate_text(rate)}, "
    if "step" in row:
        place, pace = f"{place}, step {row['step']}", ""
    names = measures if "unscored" in row else ("dev_loss", *measures)
    scores = [f"{name.removeprefix('dev_')} {_mean(row[name]):.4f}" for name in names]
    if "unscored" in row:
        scores.append("no answer to score")
    losses = f"loss {_mean(row['train_loss']):.4f}; dev {', '.join(scores)}"
    return f"{place}: {losses}; {pace}{row['seconds']:.1f} s"


def _mean(values: Sequence[float | None]) -> float:
    """The mean of the finite values; None stands for one that is not finite."""
    finite = [value for value in values if value is not None]
    return sum(finite) / len(finite) if finite else float("nan")


def check_converged(best_epochs: Sequence[int], noun: str) -> None:
    """Raises ConfigError if no seed ever had a finite dev loss.

    Args:
      best_epochs: [S], 0 = none.
      noun: the name of a seed.
    """
    if not any(epoch > 0 for epoch in best_epochs):
        problem = f"the dev loss of no {noun} was ever a finite number"
        fix = "give a lower config.train.learning_rate, or config.train.clip=10"
        raise ConfigError(problem, fix=fix)
