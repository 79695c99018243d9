"""The two sides as child processes, interleaved rounds, a guard against other users of the machine, and statistics.

Nothing here imports jax or torch: the parent process must stay small and idle while a side works.
"""

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import mednli_jax
from mednli_jax.errors import RunError

ROUND_SECONDS, LONGEST_ROUND = 1.5, 6.0  # of a round, if the sides' speeds are similar
FEWEST = 6  # batches of a round: their costs differ tenfold between length buckets, so that fewer are no fair sample
OTHERS, OTHERS_AT_START = 0.05, 0.25  # shares of the machine that others may use
ATTEMPTS = 3  # of a round that others disturb
PATIENCE = 3600.0  # seconds to wait for an answer
SHARED_DEVICE = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # jax would take 75 % of a GPU, but two sides share it


class SideFailed(Exception):
    """A side answered with an error, died, or took too long."""


class Side:
    """A worker process. `with Side() as side: side.ask("start", name="ours", spec=...)`; leaving ends the process.

    environment: variables added to this process's; None removes one.
    """

    def __init__(self, environment: dict | None = None):
        values = {**os.environ, **SHARED_DEVICE, **(environment or {})}
        root = str(Path(mednli_jax.__file__).parent.parent)
        values["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - what libraries print; `__exit__` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mednli_jax.benchmarking.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
            env={name: value for name, value in values.items() if value is not None},
            start_new_session=True,  # Ctrl-C is for the parent, which ends its children
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._log):
            file.close()

    def ask(self, do: str, *, timeout: float = PATIENCE, **arguments) -> dict:
        """The answer to a command. Raises SideFailed, or RunError for the user's own error.

        A process that gives no answer in time is ended.
        """
        timer, line, begun = threading.Timer(timeout, self._process.kill), b"", time.monotonic()
        timer.daemon = True  # Ctrl-C may arrive before it is cancelled
        timer.start()
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            line = self._process.stdout.readline()
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        if not line:
            late = time.monotonic() - begun >= timeout
            raise SideFailed(f"no answer within {timeout:.0f} s" if late else self._how_it_ended())
        answer = json.loads(line)
        if "error" in answer:
            raise RunError(answer["error"]) if answer["user"] else SideFailed(answer["error"])
        return answer

    def _how_it_ended(self):
        code = self._process.wait()
        self._log.seek(0)
        last = (self._log.read().decode(errors="replace").strip().splitlines() or [""])[-1]
        return f"the process ended, code {code}: {last[:200]}"

    def cpu_seconds(self) -> float:
        """CPU seconds of the process and its ended children; 0 if the system does not tell."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def has_gpu() -> bool:
    """Whether the machine has an NVIDIA GPU, which PyTorch then uses."""
    return Path("/dev/nvidia0").exists()


# -- what else uses the machine ----------------------------------------------------------------------------------------


def machine_seconds() -> tuple[float, float] | None:
    """(busy, total) CPU seconds of all cores since boot; None if the system does not tell (not Linux)."""
    try:
        first = Path("/proc/stat").read_text().splitlines()[0]
    except OSError:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (int(x) for x in first.split()[1:9])
    ticks = os.sysconf("SC_CLK_TCK")
    busy = user + nice + system + irq + softirq + steal
    return busy / ticks, (busy + idle + iowait) / ticks


class Guard:
    """Measures which share of the machine others use. machine: see machine_seconds."""

    def __init__(self, machine=machine_seconds):
        self._machine = machine

    def mark(self, sides=()):
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return self._machine(), usage.ru_utime + usage.ru_stime + sum(side.cpu_seconds() for side in sides)

    def others(self, mark, sides=()) -> float:
        """Share of the machine that others used since `mark`; 0 if it is unknown."""
        (before, used_before), (after, used_after) = mark, self.mark(sides)
        if before is None or after is None or after[1] <= before[1]:
            return 0.0
        busy = after[0] - before[0] - (used_after - used_before)
        return max(busy, 0.0) / (after[1] - before[1])

    def check_quiet(self, seconds: float = 1.0) -> None:
        """Raises RunError if others keep the machine busy."""
        mark = self.mark()
        time.sleep(seconds)
        share = self.others(mark)
        if share > OTHERS_AT_START:
            raise RunError(
                f"other programs use {share:.0%} of the CPU: figures would mean little. "
                "Fix: stop them, or give --allow_load (rows are then marked as loaded)."
            )


# -- rounds ------------------------------------------------------------------------------------------------------------


def positions(number: int, count: int) -> list[float]:
    """`count` evenly spaced quantiles of an epoch's batches by cost; each round starts elsewhere between two."""
    offset = (0.5 + number * 0.618034) % 1.0
    return [(i + offset) / count for i in range(count)]


def batches_per_round(seconds_per_batch) -> int:
    """How many batches make a round of ROUND_SECONDS for the fastest side, LONGEST_ROUND for the slowest."""
    each = [s for s in seconds_per_batch if s > 0] or [ROUND_SECONDS]
    return max(FEWEST, min(math.ceil(ROUND_SECONDS / min(each)), math.ceil(LONGEST_ROUND / max(each))))


def interleave(sides: dict, *, rounds: int, count: int, guard: Guard):
    """Runs the sides in turn, the order reversed every other round.

    A round that others disturb is repeated, twice at most.
    Returns (name -> answers of its rounds, whether a round stayed disturbed).
    """
    answers, loaded, all_ = {name: [] for name in sides}, False, list(sides.values())
    for number in range(rounds):
        names = list(sides)[:: -1 if number % 2 else 1]
        where = positions(number, count)
        for _ in range(ATTEMPTS):
            mark = guard.mark(all_)
            results = {name: sides[name].ask("run", positions=where, number=number) for name in names}
            disturbed = guard.others(mark, all_) > OTHERS
            if not disturbed:
                break
        loaded |= disturbed
        for name, result in results.items():
            answers[name].append(result)
    return answers, loaded


def seconds_each(answers) -> np.ndarray:
    """Seconds per example of each round."""
    return np.array([answer["seconds"] / answer["examples"] for answer in answers])


def ratio(ours: np.ndarray, pytorch: np.ndarray) -> dict[str, float]:
    """PyTorch's seconds over ours, round by round: the median and the extremes."""
    each = pytorch / ours
    return {"ratio": rounded(np.median(each)), "ratio_min": rounded(each.min()), "ratio_max": rounded(each.max())}


def rounded(value) -> float:
    """Rounded to four significant digits, the precision of such a measurement."""
    return float(f"{value:.4g}")
