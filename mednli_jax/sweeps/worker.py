"""The worker of a sweep: takes trials of a study, has them trained, and records in the study how they ended.

Each trial is a separate process with a separate run directory, so that the next attempt can go on with it. One loop
does everything, without threads: the heartbeat stops when the loop does.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mednli_jax.errors import RunError, UserError
from mednli_jax.progress import Bar, say
from mednli_jax.runs import RunDirectory
from mednli_jax.sweeps.spaces import Sweep, flag
from mednli_jax.sweeps.study import Attempt, Study

TICK = 0.1  # seconds between two looks at the processes
PATIENCE = 300.0  # seconds that a database may be silent
HOPELESS = 3  # trials that fail before the first that does not
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
PR_SET_PDEATHSIG = 1
INTERRUPTED = 3  # the exit code of a training that can be resumed


def number_at(result: dict, path: str) -> float | None:
    """The number that a result has under `dev.accuracy.mean`; None where there is none."""
    for name in path.split("."):
        result = result.get(name) if isinstance(result, dict) else None
    return float(result) if type(result) in (int, float) else None


def _tied(parent: int):
    """For the child between fork and exec: ends it when its parent does, even by kill -9. Linux alone has this.

    Elsewhere the orphan trains on, and whoever tries the trial again waits for it at the lock of the run directory.
    """

    def tie():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it has died before it could be asked for
            os._exit(INTERRUPTED)

    return tie if LIBC else None


@dataclass
class _Training:
    """An attempt under way; without a process while another one still trains in its folder."""

    attempt: Attempt
    folder: Path
    process: subprocess.Popen | None = None
    begun: int = 0  # where in the log this process began

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def said(self) -> str:
        """The last error that this process printed; another line may hold words of a corpus."""
        with open(self.log, "rb") as file:
            file.seek(self.begun)
            lines = file.read().decode(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.startswith(("error: ", "bug: "))), "")


class Worker:
    """Trains the first `total` trials of a study, `slots` at a time, besides what other workers take of them.

    command: what trains, before its flags; flags: those that all trials share. folder: where trial-K and its log go.
    """

    def __init__(
        self, study: Study, sweep: Sweep, folder: Path, command: list[str], flags: list[str], *,
        slots: int, total: int, grace: int,
    ):  # fmt: skip
        self.study, self.sweep, self.folder = study, sweep, Path(folder)
        self.command, self.flags, self.slots, self.total = command, flags, slots, total
        self.pause = max(1.0, grace / 10)  # seconds between two looks at the study
        self.due, self.signals, self.settled, self.silent = 0.0, 0, 0, 0.0
        self.running: list[_Training] = []
        self.leaving: list[_Training] = []  # no longer this worker's, and asked to stop

    def run(self, *, retry: bool = False) -> bool:
        """Whether all trials are settled; False where a signal came first, and the trials under way wait again.

        Raises UserError where the first trials all fail, or the database falls silent.
        """
        while not self._try(self._begin, retry):
            pass
        before = self.settled
        old = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with Bar(
                f"trials, {before} done before" if before else "trials", self.total - before, unit="trials"
            ) as bar:
                while self.settled < self.total and not self.signals:
                    self._try(self._step, bar)
                    time.sleep(TICK)
            return self.settled >= self.total
        finally:
            self._stop()
            for number, handler in old.items():
                signal.signal(number, handler)

    def _begin(self, retry):
        self.study.fill(self.sweep, self.total, retry=retry)
        self.settled = len(self.study.rows(self.total))

    def _on_signal(self, number, frame):
        self.signals += 1
        if self.signals == 1:
            say("stopping: the trials under way save what they have ...")

    def _try(self, work, *arguments):
        """Whether the database answered. It may be away for a while: what it did not get is sent again."""
        try:
            work(*arguments)
            self.silent = 0.0
            return True
        except self.study.no_answer as error:
            now = time.monotonic()
            if not self.silent:
                say(f"the database does not answer ({type(error).__name__}); trying again for {PATIENCE:.0f} s")
                self.silent = now
            if now - self.silent > PATIENCE:
                raise RunError(
                    "--storage: the database does not answer any more. Fix: see to it, and give the same command again."
                ) from None
            time.sleep(1)
            return False

    def _step(self, bar):
        for training in list(self.running):
            if training.process is None:
                self._start(training)
            elif not training.alive() and self._settle(training):
                self.running.remove(training)
                self.due = 0.0
        if time.monotonic() < self.due:
            return
        self.leaving = [training for training in self.leaving if training.alive()]
        self._beat()
        self.study.fill(self.sweep, self.total)
        rows = self.study.rows(self.total)
        best = f"best {rows[0].metric:.4f}, trial {rows[0].trial}" if rows and rows[0].metric is not None else ""
        if len(rows) != self.settled:
            bar.advance(len(rows) - self.settled, best)
        self.settled = len(rows)
        if len(rows) >= HOPELESS and not best:
            raise RunError(
                f"the first {len(rows)} trials have all failed, as printed above. Fix: see to the cause, "
                "and give the command again with --retry."
            )
        while len(self.running) < self.slots and (attempt := self.study.claim(self.total)):
            self.running.append(_Training(attempt, self.folder / f"trial-{attempt.trial}"))
            self._start(self.running[-1])
        self.due = time.monotonic() + self.pause

    def _beat(self):
        lost = self.study.beat([training.attempt for training in self.running])
        for training in [training for training in self.running if training.attempt in lost]:
            say(f"trial {training.attempt.trial}: was given to another worker, this one having been silent for long")
            self.running.remove(training)
            if training.alive():
                training.process.terminate()
                self.leaving.append(training)

    def _start(self, training):
        """Begins the trial or goes on with it, unless a process of a dead worker still trains in its folder."""
        if RunDirectory(training.folder).in_training():
            return
        values = [flag(field, value) for field, value in training.attempt.values.items()]
        resume = ["--resume"] if training.folder.exists() else []
        command = [*self.command, *self.flags, *values, f"--workdir={training.folder}", *resume]
        with open(os.open(training.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            training.begun = log.seek(0, os.SEEK_END)
            try:
                # In a new session, Ctrl-C comes to the worker alone, which passes it on.
                training.process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                    preexec_fn=_tied(os.getpid()),
                )  # fmt: skip
            except OSError as error:
                raise RunError(
                    f"--command: {command[0]} cannot be run ({error.strerror}). Fix: give a program."
                ) from None

    def _settle(self, training) -> bool:
        """Records in the study how a process ended; False where the trial has to be started again."""
        attempt, code = training.attempt, training.process.returncode
        reason, text = "error", training.said()
        if code == 0:
            facts, text = self._result(training)
            if not text:
                if self.study.finish(attempt, **facts):
                    values = ", ".join(f"{field}={value}" for field, value in attempt.values.items())
                    say(f"trial {attempt.trial}: {self.sweep.metric} {facts['metric']:.4f} of {values}")
                return True
        elif RunDirectory(training.folder).in_training():  # another process was faster
            training.process = None
            return False
        elif code == INTERRUPTED or code < 0 or code > 128:
            reason = "interrupted" if self.signals else "killed"
            text = f"ended by signal {-code if code < 0 else code - 128}" if code != INTERRUPTED else "stopped"
        text = text or f"exit code {code}, see {training.log}"
        if self.study.fail(attempt, reason, text) == "error":
            say(f"trial {attempt.trial}: {text}")
        return True

    def _result(self, training):
        """What the study keeps of a finished run, and what is wrong with it."""
        try:
            result = RunDirectory(training.folder).result()
        except UserError as error:
            return {}, str(error)
        metric = number_at(result, self.sweep.metric)
        if result["status"] != "complete" or metric is None:
            place = training.folder / "result.json"
            problem = f"has no number '{self.sweep.metric}'" if result["status"] == "complete" else "is not complete"
            return {}, f"{place}: {problem}. Fix: correct the metric of get_sweep, or see {training.log}."
        first, dot, rest = self.sweep.metric.partition(".")
        test = number_at(result, f"test{dot}{rest}") if first == "dev" else None
        return {"metric": metric, "test": test, "seconds": number_at(result, "seconds")}, ""

    def _stop(self):
        """Ends all processes, and gives back the trials that they did not finish."""
        for training in self.running:
            if training.alive():
                training.process.terminate()
        due = 0.0
        while any(training.alive() for training in (*self.running, *self.leaving)):
            if self.signals > 1:
                for training in (*self.running, *self.leaving):
                    if training.alive():
                        training.process.kill()
            if time.monotonic() > due and self.running:
                self._give_up(lambda: self.study.beat([training.attempt for training in self.running]))
                due = time.monotonic() + self.pause
            time.sleep(TICK)
        for training in self.running:
            self._give_up(lambda training=training: self._leave(training))
        self._give_up(lambda: self.study.fill(self.sweep, self.total))
        self.running, self.leaving = [], []

    def _leave(self, training):
        if training.process is not None and training.process.returncode == 0:
            self._settle(training)
        else:
            self.study.fail(training.attempt, "interrupted", "stopped")

    def _give_up(self, work):
        """Does not wait for a silent database: the heartbeat ends, so that another worker takes the trial over."""
        try:
            work()
        except self.study.no_answer:
            say("the database does not answer: other workers will find out by themselves")
