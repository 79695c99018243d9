"""The worker of a sweep: takes trials of a study and trains each in a separate process and run directory.

It is a single loop without threads, so that a worker that hangs sends no heartbeat.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mednli_jax.cli import INTERRUPTED
from mednli_jax.errors import RunError, UserError
from mednli_jax.progress import Bar, say
from mednli_jax.runs import RunDirectory
from mednli_jax.sweeps.spaces import flag
from mednli_jax.sweeps.study import Study

TICK = 0.1  # seconds between two checks of the processes
MOST_FAILURES = 3  # failed trials before the first success after which the worker gives up
PR_SET_PDEATHSIG = 1  # option of Linux's prctl


@dataclass
class Training:
    """An attempt that this worker trains. `process` is None while an earlier process still trains in the folder."""

    attempt: object  # optuna's Trial
    folder: Path
    process: subprocess.Popen | None = None
    log_start: int = 0  # byte of the log at which the output of this process begins

    @property
    def trial(self) -> int:
        return self.attempt.user_attrs["trial"]

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def error(self) -> str:
        """The last error line that the process printed. Other lines are not shown, because they may quote a corpus."""
        with open(self.log, "rb") as file:
            file.seek(self.log_start)
            lines = file.read().decode(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.startswith(("error: ", "bug: "))), "")


class Worker:
    """Trains the first `total` trials of a study together with other workers.

    Args:
      study: see Study.
      folder: of the study, for trial-K and trial-K.log.
      command: the training command without flags.
      flags: flags of all trials.
      slots: number of trials that train at the same time.
      total: number of trials.
      grace: seconds without a heartbeat after which this worker counts as dead.
    """

    def __init__(
        self, study: Study, folder: Path, command: list[str], flags: list[str], *, slots: int, total: int, grace: int
    ):
        self.study, self.folder, self.command, self.flags = study, Path(folder), command, flags
        self.slots, self.total, self.pause = slots, total, max(1.0, grace / 10)
        self.signals, self.trainings = 0, []

    def run(self, *, retry: bool = False) -> bool:
        """Trains until all trials are settled; returns False where a signal stopped it earlier.

        retry: also train trials with an error again.
        Raises: RunError where the first trials all fail, or the database does not answer.
        """
        handlers = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self.study.fill(self.total, retry=retry)
            settled = len(self.study.rows(self.total))
            title = f"trials, {settled} done before" if settled else "trials"
            with Bar(title, self.total - settled, unit="trials") as bar:
                while settled < self.total and not self.signals:
                    rows = self._step()
                    best = f"best {rows[0].metric:.4f}, trial {rows[0].trial}" if rows and not rows[0].error else ""
                    if len(rows) != settled:
                        bar.advance(len(rows) - settled, best)
                    settled = len(rows)
                    if settled >= MOST_FAILURES and not best:
                        problem = f"the first {settled} trials have all failed, as printed above"
                        raise RunError(f"{problem}. Fix: correct the cause, and give the command again with --retry.")
                    due = time.monotonic() + self.pause
                    while time.monotonic() < due and not self.signals and not self._ended():
                        time.sleep(TICK)
            return settled >= self.total
        finally:
            self._stop()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _on_signal(self, number, frame):
        self.signals += 1
        if self.signals == 1:
            say("stopping: the running trials save their state ...")

    def _ended(self):
        return any(training.process is not None and not training.alive() for training in self.trainings)

    def _step(self):
        """Settles ended trials, sends heartbeats, starts waiting trials; returns the rows of the study."""
        for training in list(self.trainings):
            if training.process is None:
                self._start(training)
            elif not training.alive() and self._settle(training):
                self.trainings.remove(training)
        lost = self.study.beat([training.attempt for training in self.trainings])
        for training in [training for training in self.trainings if training.attempt in lost]:
            say(f"trial {training.trial}: another worker has it now, because this one sent no heartbeat for too long")
            self._end([training])
            self.trainings.remove(training)
        self.study.fill(self.total)
        while len(self.trainings) < self.slots and (attempt := self.study.claim()):
            self.trainings.append(Training(attempt, self.folder / f"trial-{attempt.user_attrs['trial']}"))
            self._start(self.trainings[-1])
        return self.study.rows(self.total)

    def _start(self, training):
        """Starts or resumes the trial, unless a process of a dead worker still trains in its folder."""
        if RunDirectory(training.folder).in_training():
            return
        values = [flag(field, value) for field, value in training.attempt.params.items()]
        resume = ["--resume"] if training.folder.exists() else []
        command = [*self.command, *self.flags, *values, f"--workdir={training.folder}", *resume]
        with open(os.open(training.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            training.log_start = log.seek(0, os.SEEK_END)
            try:
                # In a new session, so that Ctrl-C reaches only the worker, which then stops the process.
                training.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=_tied(),
                )
            except OSError as error:
                problem = f"--command: {command[0]} cannot be run ({error.strerror})"
                raise RunError(f"{problem}. Fix: give a program.") from None

    def _settle(self, training) -> bool:
        """Records in the study how a process ended; returns False where the trial must be started again."""
        code, metric = training.process.returncode, self.study.sweep.metric
        if code == 0:
            facts, error = self._result(training.folder)
            if not error:
                if self.study.tell(training.attempt, **facts):
                    values = ", ".join(f"{field}={value}" for field, value in training.attempt.params.items())
                    say(f"trial {training.trial}: {metric} {facts['metric']:.4f} of {values}")
                return True
        elif code == INTERRUPTED:
            self.study.tell(training.attempt)
            return True
        elif RunDirectory(training.folder).in_training():  # another process trains in the folder
            training.process = None
            return False
        else:
            end = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
            error = training.error() or f"{end}, see {training.log}"
        self.study.tell(training.attempt, error=error)
        say(f"trial {training.trial}: {error.removeprefix('error: ')}")
        return True

    def _result(self, folder):
        """({metric, test, seconds} of a finished run, error or "")."""
        name = self.study.sweep.metric
        try:
            result = RunDirectory(folder).result()
        except UserError as error:
            return {}, str(error)
        metric = number_at(result, name)
        if result["status"] != "complete" or metric is None:
            problem = f"has no number '{name}'" if result["status"] == "complete" else "is not complete"
            return {}, f"{folder / 'result.json'}: {problem}. Fix: correct the metric of get_sweep."
        test = number_at(result, f"test{name.removeprefix('dev')}") if name.startswith("dev.") else None
        return {"metric": metric, "test": test, "seconds": number_at(result, "seconds")}, ""

    def _stop(self):
        """Ends all processes and frees the trials that they did not finish."""
        self._end(self.trainings)
        for training in self.trainings:
            if training.process is None or training.process.returncode != 0 or not self._settle(training):
                self.study.tell(training.attempt)
        if self.trainings:
            self.study.fill(self.total)
        self.trainings = []

    def _end(self, trainings):
        """Sends SIGTERM and waits, with heartbeats, until the processes have saved; a second signal kills them."""
        for training in trainings:
            if training.alive():
                training.process.terminate()
        due = 0.0
        while any(training.alive() for training in trainings):
            if self.signals > 1:
                for training in trainings:
                    training.process.kill()
            if time.monotonic() > due:
                self.study.beat([training.attempt for training in self.trainings])
                due = time.monotonic() + self.pause
            time.sleep(TICK)


def number_at(result: dict, path: str) -> float | None:
    """The number at a path such as `dev.accuracy.mean` in a result; None where there is none."""
    for name in path.split("."):
        result = result.get(name) if isinstance(result, dict) else None
    return float(result) if type(result) in (int, float) else None


def _tied():
    """A preexec_fn for Linux with which the child gets SIGTERM when its parent ends, even by kill -9.

    On other systems it is None: the child continues, and the next attempt waits for the lock of the run directory.
    """
    if sys.platform != "linux":
        return None
    library, parent = ctypes.CDLL(None), os.getpid()

    def tie():
        library.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent ended before the call
            os._exit(INTERRUPTED)

    return tie
