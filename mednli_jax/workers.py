"""Commands in processes of their own, for `sweep` and `reproduce`; the queue of a paper's jobs.

Several threads, processes and hosts work on one queue. The process that works on a job locks the
job's file in locks/ of the folder. The system frees the lock at once when this process ends.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from mednli_jax import cli
from mednli_jax.errors import ResumableError, RunError, UserError
from mednli_jax.files.writing import check_locks, lock_file, private_folder
from mednli_jax.planning import RECORDS, Job
from mednli_jax.rundir import RunDirectory
from mednli_jax.terminal import say

# On Linux a command gets SIGTERM when this process ends. Elsewhere it goes on, and the next attempt
# of the same run waits for it.
TIE = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"
TIED = [sys.executable, "-c", TIE] if sys.platform == "linux" else []
RESUMABLE = (cli.INTERRUPTED, 134)  # jax ends a process with 134 where its partner is lost
ONE_CHIP = {"TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1", "TPU_PROCESS_BOUNDS": "1,1,1"}


def one_device(number: int) -> dict[str, str]:
    """Environment variables of a process that sees one GPU or TPU chip alone.

    number: of the device among those that this process sees, from 0. If the environment names fewer
    devices, the numbers start again at its first one: processes share devices.
    """
    variables = dict(ONE_CHIP)
    for name in ("CUDA_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"):
        devices = os.environ.get(name, str(number)).split(",")
        variables[name] = devices[number % len(devices)]
    return variables


class Commands:
    """The commands that the workers of this process run. stopped: whether `stop` ended them."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.stopped = False
        self._processes: set[subprocess.Popen[bytes]] = set()

    def run_workers(self, work: Callable[[int], object]) -> None:
        """Calls work(NUMBER) in a thread for each worker. SIGINT and SIGTERM stop the commands, and
        raise KeyboardInterrupt when the threads have ended."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.stop())
        with ThreadPoolExecutor(self.workers) as pool:
            list(pool.map(work, range(self.workers)))  # raises the errors of the threads
        if self.stopped:
            raise KeyboardInterrupt

    def stop(self) -> None:
        """Ends the commands, which save what they have."""
        self.stopped = True
        for process in list(self._processes):
            process.terminate()

    def call(
        self,
        words: Sequence[str],
        log: Path,
        *,
        worker: int,
        output: Path | None = None,
    ) -> None:
        """Runs a command. Raises KeyboardInterrupt after `stop`, ResumableError if the command was
        ended from outside and can go on, and RunError if it failed.

        Args:
          log: file to which messages and the command's output are added.
          worker: its number. If there are several workers, the command sees one device alone.
          output: another file for the command's output.
        """
        environment = os.environ | (one_device(worker) if self.workers > 1 else {})
        with open(log, "ab") as messages, open(output or log, "ab") as printed:
            process = subprocess.Popen(
                [*TIED, *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=messages,
                start_new_session=True,
            )
            self._processes.add(process)
            if self.stopped:  # before the process began
                process.terminate()
            process.wait()
        self._processes.discard(process)
        code = process.returncode
        if self.stopped:
            raise KeyboardInterrupt("interrupted")
        if code < 0 or code in RESUMABLE:
            raise ResumableError(f"its process ended (code {code})")
        if code:
            raise _failure(log)


def _failure(log: Path) -> RunError:
    """The error of a command that failed: the last line of its messages, if that is an error."""
    last_line = log.read_text(errors="replace").strip().rpartition("\n")[2]
    if last_line.startswith("error: "):
        return RunError(last_line.removeprefix("error: "))
    return RunError("it failed", fix=f"see {log}")


# -- the queue of a paper's jobs -------------------------------------------------------------------

ATTEMPTS = 5  # of a job whose process is killed
PAUSE = 1.0  # seconds between two looks at jobs of other processes


class Queue:
    """The jobs of a request. A job comes after those that it reads.

    done: names of the jobs that are done.

    Attributes:
      failures: name of a job -> the reason of its failure.
    """

    def __init__(self, jobs: Sequence[Job], done: set[str], folder: Path, workers: int) -> None:
        self.jobs, self.folder, self.workers = jobs, folder, workers
        self.failures: dict[str, str] = {}
        self.commands = Commands(workers)
        self._done = done
        self._taken: set[str] = set()
        self._attempts: Counter[str] = Counter()
        self._mutex = threading.Lock()
        self._make_folders()

    def _make_folders(self) -> None:
        """Makes the folders of the queue, on a file system whose locks it needs."""
        for name in ("locks", "logs", RECORDS):
            private_folder(self.folder / name)
        with open(self.folder / "locks" / ".test", "w") as file:
            has_locks = lock_file(file, shared=True)
        check_locks(self.folder, has_locks, self.workers)

    def work(self) -> None:
        """Ends when each job is done or has failed. Raises KeyboardInterrupt after a signal."""
        say(f"{len(self.jobs)} runs and files, {len(self._done)} of them done")
        self.commands.run_workers(self._work)

    def _work(self, worker: int) -> None:
        """Does one job after the other."""
        while not self.commands.stopped and self._open_jobs():
            taken = self._take()
            if taken is None:  # other workers are busy with what is left
                time.sleep(PAUSE)
                continue
            job, lock = taken
            try:
                self._do(job, worker)
            except KeyboardInterrupt:
                return
            except UserError as error:
                self._fail(job, str(error))
            finally:
                lock.close()
                self._taken.discard(job.name)

    def _open_jobs(self) -> list[Job]:
        return [
            job for job in self.jobs if job.name not in self._done and job.name not in self.failures
        ]

    def _take(self) -> tuple[Job, IO[str]] | None:
        """The next job that can be done now, and its locked file; None if there is none."""
        with self._mutex:
            for job in self._open_jobs():
                if job.name in self._taken or self._waits(job):
                    continue
                lock = self._lock(job)
                if lock is None:
                    continue
                if job.is_done():  # by another process, since the last look
                    lock.close()
                    self._done.add(job.name)
                    continue
                self._taken.add(job.name)
                return job, lock
        return None

    def _waits(self, job: Job) -> bool:
        """Whether the job reads one that is not done. If that one failed, this one fails, too."""
        for name in job.after:
            if name in self.failures:
                self._fail(job, f"needs {name}")
                return True
        open_names = {open_job.name for open_job in self._open_jobs()}
        return not open_names.isdisjoint(job.after)

    def _lock(self, job: Job) -> IO[str] | None:
        """Locks the file of a job and returns it; None if another process works on the job."""
        file = open(self.folder / "locks" / job.file_name, "w")  # noqa: SIM115 - held for the job
        try:
            lock_file(file)
        except BlockingIOError:
            file.close()
            return None
        if job.is_run and RunDirectory(job.place).in_training():  # started by hand
            file.close()
            return None
        return file

    def _do(self, job: Job, worker: int) -> None:
        private_folder(job.place.parent)
        if job.is_run and not job.is_training:  # left by a process that was killed
            shutil.rmtree(job.place, ignore_errors=True)
        command, *arguments = job.command()
        words = [sys.executable, "-m", f"mednli_jax.{command}", *arguments]
        log = self.folder / "logs" / f"{job.file_name}.log"
        part = job.place.with_name(f"{job.place.name}.part") if job.prints else None
        if part:
            part.unlink(missing_ok=True)
        self._attempts[job.name] += 1
        inputs = job.inputs()
        started = time.monotonic()
        try:
            self.commands.call(words, log, worker=worker, output=part)
        except ResumableError as error:
            if self._attempts[job.name] == ATTEMPTS:
                raise
            say(f"{job.name}: {error}; it goes on")
            return
        if part:
            part.replace(job.place)
        job.write_record(inputs)
        if not job.is_done():
            raise RunError("it wrote no result", fix=f"see {log}")
        self._report(job, time.monotonic() - started)

    def _report(self, job: Job, seconds: float) -> None:
        """Counts a job as done."""
        with self._mutex:
            self._done.add(job.name)
            of_all = f"{len(self._done)} of {len(self.jobs)}"
        say(f"{job.name}: {seconds:.0f} s ({of_all})")

    def _fail(self, job: Job, reason: str) -> None:
        """Stores the reason of a failure; the same reason of several jobs is printed once."""
        is_new = reason not in self.failures.values() and not reason.startswith("needs ")
        self.failures[job.name] = reason
        if is_new:
            say(f"{job.name}: error: {reason}")
