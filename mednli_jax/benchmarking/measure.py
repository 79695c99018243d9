"""Measures a case: our side and each PyTorch setting in a process of its own, in turn, round by round.

Separate processes keep thread pools, allocator settings and peak memory of the sides apart. Only the child processes
import jax or torch.
"""

import math
import multiprocessing
import os
import resource
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from mednli_jax.benchmarking import families
from mednli_jax.benchmarking.families import PLAIN, Case
from mednli_jax.errors import RunError, UserError

ROUND_SECONDS, LONGEST_ROUND = 1.5, 6.0  # of a round, if the sides' speeds are similar
FEWEST = 6  # batches of a round: their costs differ tenfold between length buckets, so that fewer are no fair sample
START_SECONDS = 120.0  # to start a PyTorch setting; torch.compile may take longer
OTHERS, OTHERS_AT_START = 0.05, 0.25  # shares of the machine that others may use before a row, before the first row
SHARED_DEVICE = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # jax would take 75 % of a GPU, but the sides share it
# PyTorch's allocator: glibc's default returns pages to the system and requests them again at each step, which halves
# PyTorch's speed at batch 512. glibc refuses a large enough mmap threshold, but it accepts to use no mmap at all.
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}
DEFAULT = dict.fromkeys((*TUNED, "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"))  # removed
KEYS = (
    *("model", "batch", "seeds", "mode", "grouping", "pairs"),
    *("examples_per_second", "torch_examples_per_second", "opponent", "ratio", "ratio_min", "ratio_max"),
    *("seconds", "torch_seconds", "seeds_cost", "peak_mb", "torch_peak_mb", "compile_seconds", "loaded", "rounds"),
    *("device", "corpus", "hidden", "precision", "notes"),
)


class SideFailed(Exception):
    """A side answered with an error, died, or took too long."""


class Side:
    """A process that builds a side and runs it. Leaving the `with` block ends it.

    environment: variables added to this process's; None removes one.
    """

    def __init__(self, environment: dict | None = None):
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=serve, args=(there,), daemon=True)
        changed = {**SHARED_DEVICE, **(environment or {})}
        before = {name: os.environ.get(name) for name in changed}
        _set_variables(changed)
        self._process.start()
        _set_variables(before)
        there.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._pipe.close()
        self._process.join(5.0)  # it ends by itself, unless it is still at work
        self._process.kill()
        self._process.join()

    def ask(self, do: str, *arguments, timeout: float | None = None):
        """The answer to a method of Worker. Raises SideFailed, or RunError for the user's own error."""
        try:
            self._pipe.send((do, arguments))
            if not self._pipe.poll(timeout):
                self._process.kill()
                raise SideFailed(f"no answer within {timeout:.0f} s")
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            raise SideFailed(f"the process ended, code {self._process.exitcode}") from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _set_variables(values: dict) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def serve(pipe) -> None:
    """Answers the commands of a Side until its process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its children
    os.dup2(2, 1)  # what libraries print
    worker = Worker()
    while True:
        try:
            do, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = getattr(worker, do)(*arguments)
        except UserError as error:
            answer = RunError(str(error))
        except Exception as error:  # the benchmark goes on without a setting that does not work here
            answer = SideFailed(f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}")
        pipe.send(answer)


class Worker:
    """A side in its process."""

    def start(self, case: Case, setting=None) -> tuple[float, str]:
        """Builds a side, ours without a setting, and warms it up. Returns (seconds of a batch, device).

        The mode "epoch" runs an epoch and returns 0 seconds.
        """
        self.mode, work = case.mode, families.workload_of(case.spec())
        self.facts = {"corpus": work.facts["corpus"], "pairs": len(work.rows("train"))}
        if setting:
            self.side = families.in_pytorch(case.spec(**setting._asdict()), work)
        else:
            from mednli_jax.benchmarking.ours import Ours

            self.side = Ours(case.spec(), work)
        if self.mode == "epoch":
            self.side.epoch(0)
            return 0.0, self.side.device
        self.plan = self.side.plan(self.mode)
        return self.side.warm(self.mode, self.plan), self.side.device

    def run(self, positions, number: int) -> float:
        """Seconds of an example in a round; what is compiled on the way is not counted."""
        compiled, started = self.side.compile_seconds(), time.perf_counter()
        if self.mode == "epoch":
            examples = self.side.epoch(number)
        else:
            examples = self.side.run(self.mode, sample(self.plan, positions))
        return (time.perf_counter() - started - (self.side.compile_seconds() - compiled)) / examples

    def end(self) -> dict:
        """Facts of the corpus, seconds of compilation, peak memory of the accelerator if there is one, else here."""
        scale = 1 if sys.platform == "darwin" else 1024
        most = self.side.peak_bytes() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
        return {**self.facts, "mb": round(most / 1e6), "compile_seconds": rounded(self.side.compile_seconds())}


def has_gpu() -> bool:
    """Whether the machine has an NVIDIA GPU, which PyTorch then uses."""
    return Path("/dev/nvidia0").exists()


def use_of_others(seconds: float = 1.0) -> float:
    """Share of the machine's CPU that is in use now, while the benchmark is idle; 0 where the system does not tell."""

    def idle_and_all():
        user, nice, system, idle, wait, *rest = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
        return np.array([idle + wait, user + nice + system + idle + wait + sum(rest)])

    if not Path("/proc/stat").exists():
        return 0.0
    before = idle_and_all()
    time.sleep(seconds)
    idle, whole = idle_and_all() - before
    return 1.0 - idle / max(whole, 1)


def check_quiet() -> None:
    """Raises RunError if others keep the machine busy."""
    if (share := use_of_others()) > OTHERS_AT_START:
        problem = f"other programs use {share:.0%} of the CPU: figures would mean little"
        raise RunError(f"{problem}. Fix: stop them, or give --allow_load (rows are then marked as loaded).")


def positions(number: int, count: int) -> list[float]:
    """`count` evenly spaced quantiles of an epoch's batches by cost; each round starts elsewhere between two."""
    offset = (0.5 + number * 0.618034) % 1.0
    return [(i + offset) / count for i in range(count)]


def sample(plan: list, positions) -> list:
    """The batches of a plan sorted by cost that stand at these quantiles, each in [0, 1)."""
    return [plan[min(int(position * len(plan)), len(plan) - 1)] for position in positions]


def batches_per_round(seconds_per_batch) -> int:
    """How many batches make a round of ROUND_SECONDS for the fastest side, LONGEST_ROUND for the slowest."""
    each = [s for s in seconds_per_batch if s > 0] or [ROUND_SECONDS]
    return max(FEWEST, min(math.ceil(ROUND_SECONDS / min(each)), math.ceil(LONGEST_ROUND / max(each))))


def measure_case(case: Case, side=Side) -> list[dict]:
    """The rows (KEYS) of a case.

    "epoch" has two: the plain script with each allocator, or, where premises are kept together, the plain script (which
    has no groups) and the fastest setting (which has them).

    ratio: PyTorch's seconds per example over ours; above 1 we are faster. With several seeds, the examples of all seeds
      count. seeds_cost: our seconds for S seeds in one program over S times those of one seed.
    seconds: of one epoch at the measured speed.
    Raises: RunError, where no PyTorch setting works.
    """
    gpu = has_gpu()  # on a GPU the allocator of the process does not matter
    tuned, default = ("", DEFAULT) if gpu else ("tuned malloc", TUNED), ("" if gpu else "default malloc", DEFAULT)
    if case.against == "none":
        opponents = [((), "", {})]
    elif case.mode != "epoch":
        opponents = [(case.family.settings, *tuned)]
    elif case.grouping == "premise":
        opponents = [((PLAIN,), *default), (case.family.settings, *tuned)]
    else:
        opponents = [((PLAIN,), *default), *([] if gpu else [((PLAIN,), *tuned)])]
    return [_row(case, *opponent, side) for opponent in opponents]


def _row(case, settings, malloc, environment, side):
    single, notes, loaded = Case(**case.spec(seeds=1)), [], use_of_others() > OTHERS
    with ExitStack() as stack:
        sides = {"ours": stack.enter_context(side())}
        seconds, device = sides["ours"].ask("start", case)
        batch_seconds = [seconds]
        if case.seeds > 1:
            sides["single"] = stack.enter_context(side())
            sides["single"].ask("start", single)
        for setting in settings:
            child = stack.enter_context(side(environment))
            try:
                batch_seconds.append(child.ask("start", single, setting, timeout=START_SECONDS)[0])
                sides[setting.name] = child
            except SideFailed as failure:
                notes.append(f"{setting.name}: {failure}")
        if len(notes) == len(settings) > 0:
            where = f"{case.model}, batch {case.batch}, {case.mode}"
            raise RunError(f"{where}: {'; '.join(notes)}. Fix: leave the row out, or give --against=none.")
        each = _rounds(sides, case.rounds, batches_per_round(batch_seconds))
        ends = {name: child.ask("end") for name, child in sides.items()}
    ours, pairs = each.pop("ours"), ends["ours"]["pairs"]
    row = {
        **dict.fromkeys(KEYS),
        **{name: value for name, value in case.spec().items() if name in KEYS},
        **{name: ends["ours"][name] for name in ("corpus", "pairs", "compile_seconds")},
        **{"device": device, "loaded": bool(loaded), "notes": notes, "peak_mb": ends["ours"]["mb"]},
        "examples_per_second": rounded(np.median(1 / ours)),
        "seconds": rounded(np.median(ours) * pairs * case.seeds),
    }
    if "single" in each:
        row["seeds_cost"] = rounded(np.median(ours / each.pop("single")))
    if each:
        notes += [f"{name}: {np.median(1 / seconds):.4g} examples/s" for name, seconds in each.items()]
        fastest = min(each, key=lambda name: np.median(each[name]))
        theirs = each[fastest]
        ratio = theirs / ours
        row |= {
            "opponent": ", ".join(filter(None, (fastest, malloc))),
            "torch_examples_per_second": rounded(np.median(1 / theirs)),
            "torch_seconds": rounded(np.median(theirs) * pairs),
            "torch_peak_mb": ends[fastest]["mb"],
            **{
                "ratio": rounded(np.median(ratio)),
                "ratio_min": rounded(ratio.min()),
                "ratio_max": rounded(ratio.max()),
            },
        }
    return row


def _rounds(sides: dict, rounds: int, count: int) -> dict[str, np.ndarray]:
    """Runs the sides in turn, the order reversed every other round: name -> seconds of an example in each round."""
    seconds = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            seconds[name].append(sides[name].ask("run", positions(number, count), number))
    return {name: np.array(each) for name, each in seconds.items()}


def rounded(value) -> float:
    """Rounded to four significant digits, the precision of such a measurement."""
    return float(f"{value:.4g}")
