"""One training session of a run: log lines, result files and requests to stop."""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mednli_jax.errors import ConfigError, config_field
from mednli_jax.files import write_json
from mednli_jax.rundir import RunDirectory, environment
from mednli_jax.terminal import say
from mednli_jax.training.settings import numeric_settings


@dataclass(frozen=True)
class Fitted:
    """The result of a fitter."""

    facts: dict  # fields of result.json
    logits: Callable | None = (
        None  # split -> logits [S, N, C] of its rows; None where the scores are in `facts`
    )
    notes: list[str] = field(default_factory=list)  # warnings for result.json
    lines: list[str] = field(default_factory=list)  # to print at the end


class Session:
    """The work of one process for a run.

    Args:
      directory: of the run; None for a process that trains with others and writes nothing.
      resume: continue the run in the directory.
      profile: trace some steps.
      source: the finished run from whose weights training starts, or None.
      command_line: of this process, for env.json.
    """

    def __init__(
        self,
        directory: RunDirectory | None,
        *,
        resume: bool = False,
        profile: bool = False,
        source=None,
        command_line: Sequence[str] = (),
    ):
        self.directory, self.resume, self.source = directory, resume, source
        self.command_line = command_line
        self.profile = directory.folder / "profile" if directory and profile else None
        self.signals, self._begun = 0, time.monotonic()
        self._seconds_before = 0.0  # of earlier sessions
        self.compile_seconds = 0.0  # of all sessions

    def say(self, line: str) -> None:
        """Writes a line to the terminal and to the run's log."""
        if self.directory:
            say(line)
            self.directory.log(line)

    @property
    def checkpoints(self) -> Path | None:
        return self.directory.checkpoints if self.directory else None

    def should_stop(self) -> bool:
        return self.signals > 0

    def catch_signals(self) -> None:
        """Installs signal handlers: the first signal stops after the current steps, the second at
        once.

        Only a process's main thread may have handlers; in another one a training ends by itself
        alone.
        """
        if threading.current_thread() is not threading.main_thread():
            return

        def stop(number, frame):
            self.signals += 1
            if self.signals > 1:
                raise KeyboardInterrupt
            if self.directory:
                say("stopping after the current steps ...")

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)

    # -- seconds ------------------------------------------------------------------------------------------------------

    def count_earlier_sessions(self) -> None:
        """Reads the seconds of earlier sessions from result.json."""
        earlier = self.directory.result()
        self._seconds_before = earlier.seconds or 0.0
        self.compile_seconds = earlier.compile_seconds or 0.0

    def _spent(self):
        """The seconds of all sessions so far, as fields of result.json."""
        seconds = self._seconds_before + time.monotonic() - self._begun
        return {"seconds": round(seconds, 1), "compile_seconds": round(self.compile_seconds, 2)}

    def write_status(self, status: str, result: dict | None = None) -> None:
        """Writes result.json: the status, the result of a complete run, and the seconds of all
        sessions."""
        spent = self._spent() if result is None else {"seconds": self._spent()["seconds"]}
        self.directory.write_result(status, {**(result or {}), **spent})

    def write_failure(self, *, resumable: bool) -> None:
        """Writes the result.json of a failed run. resumable: whether the same flags can continue
        it."""
        self.directory.write_result("failed", {**self._spent(), "resumable": resumable})

    def on_save(self, compile_seconds: float) -> None:
        """Writes the seconds with each checkpoint, so that a killed run does not count the time of
        lost work."""
        self.compile_seconds = compile_seconds
        self.write_status("running")

    def write_facts(self, manifest: dict, devices=()) -> None:
        """Writes env.json and data.json."""
        if self.directory:
            names = [f"{device.platform}:{device.device_kind}" for device in devices]
            facts = replace(
                environment(self.command_line), devices=names, settings=numeric_settings()
            )
            write_json(self.directory.folder / "env.json", facts.to_json())
            write_json(self.directory.folder / "data.json", manifest)

    def write_epoch(self, row: dict, line: str) -> None:
        """Writes a row of metrics and its log line."""
        if self.directory:
            self.directory.append_metrics(row)
            self.say(line)


def epoch_line(row: dict, epochs: int, *measures: str) -> str:
    """`epoch 2/6: train loss .7, dev loss .8, ...`: means over the seeds of a row of metrics; its
    step if it has one.

    measures: further names in the row, e.g. dev_accuracy.
    """

    def mean(values):
        finite = [value for value in values if value is not None]
        return sum(finite) / len(finite) if finite else float("nan")

    names = ["train_loss", *["dev_loss"] * ("unscored" not in row), *measures]
    shown = ", ".join(f"{name.replace('_', ' ')} {mean(row[name]):.4f}" for name in names)
    shown += ", no dev loss (no dev answer can be scored)" * ("unscored" in row)
    # The progress bar counts each example once, this rate once for each model that trains on it.
    models = f" over {len(row['train_loss'])} models" if len(row["train_loss"]) > 1 else ""
    rate = f"{row['examples_per_second']:.0f}/s{models}, {row['seconds']:.1f} s"
    step = f", step {row['step']}" if "step" in row else ""
    return f"epoch {row.get('pass', row['epoch'])}/{epochs}{step}: {shown}, {rate}"


def check_converged(best_epoch, what: str) -> None:
    """Raises ConfigError where no seed ever had a finite dev loss. best_epoch: [S], 0 = none. what:
    name of a seed."""
    if not any(epoch > 0 for epoch in best_epoch):
        problem = f"the dev loss of no {what} was ever a finite number"
        rate, clip = config_field("train.learning_rate"), config_field("train.clip", 10)
        raise ConfigError(problem, fix=("give a lower ", rate, ", or ", clip))
