"""How a row of the benchmark is measured: each side in a process of its own, in turn, round by
round.

Separate processes keep thread pools, allocator settings and peak memory of the sides apart. Only
the child processes import jax or torch.
"""

import math
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from mednli_jax.benchmarking.cases import MODELS, PLAIN, Case, Setting, Workload, workload_of
from mednli_jax.errors import RunError, UserError

ROUND_SECONDS = 1.5  # of a round of our side
# Batches of a round. Their costs differ tenfold between length buckets: fewer are no fair sample.
FEWEST = 6
GOLDEN = 0.618034  # multiples of it, modulo 1, are spread evenly
# jax would take 75 % of a GPU, but the sides share it.
SHARED_DEVICE = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
# PyTorch's allocator: glibc's default returns pages to the system and requests them again at each
# step, which halves PyTorch's speed at batch 512. glibc refuses a large enough mmap threshold, but
# it accepts to use no mmap at all. The plain script has the default.
TUNED = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
MEGABYTE = 1e6
# A batch of a plan: (layout, rows) on our side, rows [B] on PyTorch's.
Batch = Any
Answer = TypeVar("Answer")


@dataclass(kw_only=True)
class Measurement:
    """A row of the benchmark, with the fields of its JSON form.

    Args:
      opponent: the fastest setting of PyTorch.
      ratio: PyTorch's seconds of an example over ours, the median of the rounds; above 1 we are
        faster. With several seeds, the examples of all seeds count.
      seconds, torch_seconds: of one epoch at the measured speed.
      seeds_cost: our seconds for S seeds in one program over S times those of one seed.
      others: share of the machine's processors that other programs took during the rounds; 0 where
        the system does not tell.
      notes: the speed of each setting, or why it has none.
    """

    model: str
    batch: int
    seeds: int
    mode: str
    grouping: str
    pairs: int
    examples_per_second: float
    torch_examples_per_second: float | None = None
    opponent: str | None = None
    ratio: float | None = None
    ratio_min: float | None = None
    ratio_max: float | None = None
    seconds: float
    torch_seconds: float | None = None
    seeds_cost: float | None = None
    peak_mb: int
    torch_peak_mb: int | None = None
    compile_seconds: float
    rounds: int
    others: float = 0.0
    device: str
    corpus: str
    hidden: int
    precision: str
    buckets: int | None  # of training; None = those of the config
    notes: list[str] = field(default_factory=list)


# -- a side in its process -------------------------------------------------------------------------


class Started(NamedTuple):
    """seconds: of a batch on our side; 0 on PyTorch's and for whole epochs."""

    seconds: float
    device: str


class Usage(NamedTuple):
    """The corpus of a side, the size of its training part, and the cost of the side.

    mb: peak memory of the accelerator if there is one, else of the process.
    others: share of the processors that other programs took during the rounds of the side.
    """

    corpus: str
    pairs: int
    mb: int
    compile_seconds: float
    others: float = 0.0


class Side:
    """A process that builds a side and runs it. environment: variables that it has besides this
    one's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**SHARED_DEVICE, **environment}
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def start(self, case: Case, setting: Setting | None = None) -> Started:
        return self._call(Worker.start, case, setting)

    def run(self, positions: Sequence[float], number: int) -> float:
        return self._call(Worker.run, positions, number)

    def end(self) -> Usage:
        return self._call(Worker.end)

    def _call(self, method: Callable[..., Answer], *arguments: object) -> Answer:
        """The answer of a method of Worker. Raises what the process raised, or says that it
        ended."""
        before = dict(os.environ)
        # glibc reads its variables when the process starts, with the first call
        os.environ.update(self._environment)
        try:
            answer = self._pool.submit(_answer, method, arguments)
        finally:
            os.environ.clear()
            os.environ.update(before)
        return answer.result()


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process without a traceback
    os.dup2(2, 1)  # what libraries print
    threading.Thread(target=_end_with_command, daemon=True).start()


def _end_with_command() -> None:
    """Ends this process, which has gigabytes, where the command ends by a signal."""
    command = multiprocessing.parent_process()
    assert command is not None
    command.join()
    os._exit(1)


def _answer(method: Callable[..., Answer], arguments: Sequence[object]) -> Answer:
    return method(WORKER, *arguments)


class _OtherPrograms:
    """The seconds of processors that other programs take while this process works."""

    def __init__(self) -> None:
        self._taken = self._all = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        before, own, started = _busy_seconds(), time.process_time(), time.perf_counter()
        yield
        own_seconds = time.process_time() - own
        self._taken += max(0.0, _busy_seconds() - before - own_seconds)
        self._all += (time.perf_counter() - started) * (os.cpu_count() or 1)

    @property
    def share(self) -> float:
        return rounded(self._taken / self._all) if self._all else 0.0


def _busy_seconds() -> float:
    """Seconds of all processors spent on programs since the machine started; 0 where the system
    does not tell."""
    try:
        first_line = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return 0.0
    # user, nice, system, idle, waiting, interrupts, soft interrupts, other guests: see proc(5)
    ticks = list(map(int, first_line.split()[1:9]))
    return (sum(ticks) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK")


class Contender(Protocol):
    """Our side (ours.Ours) or PyTorch's (torch_side.TorchSide)."""

    device: str

    @property
    def compile_seconds(self) -> float: ...

    def plan(self, mode: str) -> list[Batch]: ...

    def warm(self, mode: str, plan: list[Batch]) -> float: ...

    def run(self, mode: str, batches: list[Batch]) -> int: ...

    def epoch(self, number: int) -> int: ...

    def peak_bytes(self) -> int | None: ...


def _built(case: Case, setting: Setting | None, work: Workload) -> Contender:
    if setting is None:
        from mednli_jax.benchmarking.ours import Ours

        return Ours(case, work)
    from mednli_jax.benchmarking import torch_side

    return torch_side.side_of(case, setting, work)


class Worker:
    """A side in its process."""

    side: Contender
    plan: list[Batch]

    def __init__(self) -> None:
        self.others = _OtherPrograms()

    def start(self, case: Case, setting: Setting | None = None) -> Started:
        """Builds a side, ours without a setting, and warms it up: in the mode "epoch" by an
        epoch."""
        self.mode, self.work = case.mode, workload_of(case)
        self.side = _built(case, setting, self.work)
        if self.mode == "epoch":
            self.side.epoch(0)
            return Started(0.0, self.side.device)
        self.plan = self.side.plan(self.mode)
        return Started(self.side.warm(self.mode, self.plan), self.side.device)

    def run(self, positions: Sequence[float], number: int) -> float:
        """Seconds of an example in a round, without those of compilation on the way.

        positions: of the round's batches in the plan, from 0 to 1.
        """
        compiled, started = self.side.compile_seconds, time.perf_counter()
        with self.others.watched():
            if self.mode == "epoch":
                examples = self.side.epoch(number)
            else:
                batches = [self.plan[int(position * len(self.plan))] for position in positions]
                examples = self.side.run(self.mode, batches)
        compiling = self.side.compile_seconds - compiled
        return (time.perf_counter() - started - compiling) / examples

    def end(self) -> Usage:
        peak = self.side.peak_bytes()
        if not peak:
            unit = 1 if sys.platform == "darwin" else 1024
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        return Usage(
            self.work.corpus,
            len(self.work.rows("train")),
            round(peak / MEGABYTE),
            rounded(self.side.compile_seconds),
            self.others.share,
        )


WORKER = Worker()

MakeSide = Callable[[Mapping[str, str]], Side]

# -- measuring -------------------------------------------------------------------------------------


def measure_case(case: Case, side: MakeSide = Side) -> list[Measurement]:
    """The rows of a case: against the fastest setting; for whole epochs before it one against the
    plain script."""
    if case.against == "none":
        return [_measured(case, (), {}, side)]
    row = _measured(case, MODELS[case.model].settings, TUNED, side)
    if case.mode == "epoch":
        return [_measured(case, (PLAIN,), {}, side), row]
    return [row]


def _measured(
    case: Case,
    settings: Sequence[Setting],
    environment: Mapping[str, str],
    side: MakeSide,
) -> Measurement:
    """The row of a case against some settings of PyTorch, which have these variables."""
    one_seed = replace(case, seeds=1)
    notes = []
    opponents = {}
    with ExitStack() as stack:
        ours = stack.enter_context(side({}))
        started = ours.start(case)
        sides = {"ours": ours}
        if case.seeds > 1:
            sides["one seed"] = stack.enter_context(side({}))
            sides["one seed"].start(one_seed)
        for setting in settings:
            opponent = stack.enter_context(side(environment))
            try:
                opponent.start(one_seed, setting)
                opponents[setting.name] = opponent
            except UserError:
                raise
            # The benchmark goes on without a setting that does not work here.
            except Exception as failure:
                notes.append(f"{setting.name}: {type(failure).__name__}: {_first_line(failure)}")
        if settings and not opponents:
            problem = f"{case.model}, batch {case.batch}, {case.mode}: {'; '.join(notes)}"
            raise RunError(problem, fix="leave the row out, or give --against=none")
        sides |= opponents
        seconds = _seconds_of_rounds(sides, case.rounds, started.seconds)
        usage = {name: measured.end() for name, measured in sides.items()}
    row = _row_of_ours(case, started.device, seconds["ours"], usage["ours"])
    row.others = max(of_side.others for of_side in usage.values())
    if "one seed" in sides:
        row.seeds_cost = rounded(np.median(seconds["ours"] / seconds["one seed"]))
    notes += [f"{name}: {np.median(1 / seconds[name]):.4g} examples/s" for name in opponents]
    row.notes = notes
    if opponents:
        fastest = min(opponents, key=lambda name: np.median(seconds[name]))
        row.opponent = fastest
        _enter_opponent(row, seconds["ours"], seconds[fastest], usage[fastest])
    return row


def _first_line(failure: Exception) -> str:
    return str(failure).strip().partition("\n")[0][:200]


def _seconds_of_rounds(
    sides: dict[str, Side], rounds: int, seconds_of_batch: float
) -> dict[str, np.ndarray]:
    """side -> seconds of an example in each round. seconds_of_batch: of our side; 0 for whole
    epochs."""
    count = max(FEWEST, math.ceil(ROUND_SECONDS / (seconds_of_batch or ROUND_SECONDS)))
    seconds = {name: np.zeros(rounds) for name in sides}
    for number in range(rounds):
        # Evenly spaced quantiles of an epoch's batches by cost; each round starts elsewhere.
        offset = (0.5 + number * GOLDEN) % 1.0
        positions = [(i + offset) / count for i in range(count)]
        # In turn, the order reversed every other round.
        for name in reversed(sides) if number % 2 else sides:
            seconds[name][number] = sides[name].run(positions, number)
    return seconds


def _row_of_ours(case: Case, device: str, seconds: np.ndarray, usage: Usage) -> Measurement:
    """A row without an opponent. seconds: of an example in each round."""
    return Measurement(
        model=case.model,
        batch=case.batch,
        seeds=case.seeds,
        mode=case.mode,
        grouping=case.grouping,
        pairs=usage.pairs,
        examples_per_second=rounded(np.median(1 / seconds)),
        seconds=rounded(np.median(seconds) * usage.pairs * case.seeds),
        peak_mb=usage.mb,
        compile_seconds=usage.compile_seconds,
        rounds=case.rounds,
        device=device,
        corpus=usage.corpus,
        hidden=case.hidden,
        precision=case.precision,
        buckets=case.buckets,
    )


def _enter_opponent(row: Measurement, ours: np.ndarray, opponent: np.ndarray, usage: Usage) -> None:
    """Enters the figures of PyTorch's fastest setting. ours, opponent: seconds of an example in
    each round."""
    ratio = opponent / ours
    row.torch_examples_per_second = rounded(np.median(1 / opponent))
    row.torch_seconds = rounded(np.median(opponent) * row.pairs)
    row.torch_peak_mb = usage.mb
    row.ratio = rounded(np.median(ratio))
    row.ratio_min = rounded(ratio.min())
    row.ratio_max = rounded(ratio.max())


def rounded(value: float) -> float:
    """Rounded to four significant digits, the precision of such a measurement."""
    return float(f"{value:.4g}")
