"""Measures a row of the benchmark: each side in a process of its own, in turn, round by round.

Separate processes keep thread pools, allocator settings and peak memory of the sides apart. Only
the child processes import jax or torch.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from unittest import mock

import numpy as np
from benchmark_cases import MODELS, Case, TorchSetting, workload_of

from mednli_jax.errors import RunError
from mednli_jax.types import JsonObject

if TYPE_CHECKING:
    from jax_side import JaxSide
    from torch_side import TorchSide

    from mednli_jax.data.batching import PlannedBatch

ROUND_SECONDS = 1.5  # of a round of our side
# Batches of a round. Their costs differ tenfold between length buckets: fewer are no fair sample.
FEWEST = 6
GOLDEN = 0.618034  # multiples of it, modulo 1, are spread evenly
# jax would take 75 % of a GPU, but the sides share it.
SHARED_DEVICE = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
# PyTorch's allocator: glibc's default returns pages to the system and requests them again at each
# step, which halves PyTorch's speed at batch 512. glibc refuses a large enough mmap threshold, but
# it accepts to use no mmap at all.
TUNED = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
Answer = TypeVar("Answer")


@dataclass(kw_only=True)
class Measurement:
    """A row of the benchmark.

    Args:
      seconds, torch_seconds: of one epoch at the measured speed.
      others: share of the machine's processors that other programs took during the rounds; 0 where
        the system does not tell.
      notes: the speed of each setting of PyTorch, or why it has none.
      seeds_cost: our seconds for S seeds in one program over S times those of one seed.
      opponent: the fastest setting of PyTorch.
      ratio: PyTorch's seconds of an example over ours, the median of the rounds; above 1 we are
        faster. With several seeds, the examples of all seeds count.
    """

    case: Case
    device: str
    corpus: str
    examples_per_second: float
    seconds: float
    peak_mb: int
    compile_seconds: float
    others: float
    notes: list[str]
    seeds_cost: float | None = None
    opponent: str | None = None
    torch_examples_per_second: float | None = None
    torch_seconds: float | None = None
    torch_peak_mb: int | None = None
    ratio: float | None = None
    ratio_min: float | None = None
    ratio_max: float | None = None

    def json(self) -> JsonObject:
        """The fields of the case and the row, in four significant digits, the precision of such a
        measurement."""
        fields = {**vars(self.case), **vars(self)}
        del fields["case"]
        for name, value in fields.items():
            if isinstance(value, float):
                fields[name] = float(f"{value:.4g}")
        return fields


# -- a side in its process -------------------------------------------------------------------------


class Usage(NamedTuple):
    """The resources that a side took.

    Args:
      mb: peak memory of the accelerator if there is one, else of the process.
      others: share of the processors that other programs took during the rounds of the side.
    """

    device: str
    corpus: str
    mb: int
    compile_seconds: float
    others: float


class SideProcess(ProcessPoolExecutor):
    """A process that builds a side and runs it. environment: variables that it has besides those of
    this process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(1, multiprocessing.get_context("spawn"), _begin)
        self.environment = environment

    def call(self, method: Callable[..., Answer], *arguments: object) -> Answer:
        """Calls a method of Worker and returns its answer. Raises the exception that the process
        raised, or an error that it ended."""
        # The process starts with the first call, and glibc then reads its variables.
        with mock.patch.dict(os.environ, self.environment):
            return self.submit(_answer, method, arguments).result()


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process without a traceback
    os.dup2(2, 1)  # what libraries print
    threading.Thread(target=_end_with_command, daemon=True).start()


def _end_with_command() -> None:
    """Makes this process, which has gigabytes, end if a signal ends the command."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _answer(method: Callable[..., Answer], arguments: Sequence[object]) -> Answer:
    return method(WORKER, *arguments)


def _busy_seconds() -> float:
    """The seconds that all processors spent on other programs since the machine started; 0 if the
    system does not tell."""
    try:
        words = Path("/proc/stat").read_text().split()
    except OSError:
        return 0.0
    # user, nice, system, idle, waiting, interrupts, soft interrupts, other guests: see proc(5)
    ticks = list(map(int, words[1:9]))
    return (sum(ticks) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK") - time.process_time()


def side_of(case: Case, setting: TorchSetting | None) -> JaxSide | TorchSide:
    """Builds a side of a case: this package's without a setting, else PyTorch's."""
    work = workload_of(case)
    if setting is None:
        from jax_side import JaxSide

        return JaxSide(case, work)
    import torch_side

    return torch_side.side_of(case, setting, work)


class Worker:
    """Runs a side in its process."""

    case: Case
    side: JaxSide | TorchSide
    plan: list[PlannedBatch] | list[np.ndarray]
    others: list[float]

    def start(self, case: Case, setting: TorchSetting | None = None) -> float:
        """Builds a side and warms it up; returns the seconds of a batch, 0 for whole epochs."""
        self.case, self.side, self.others = case, side_of(case, setting), []
        if case.mode == "epoch":
            self.side.epoch(0)
            return 0.0
        self.plan = self.side.plan(case.mode)
        samples = self.side.samples(self.plan)
        self.side.run(case.mode, samples)  # compiles
        started = time.perf_counter()
        self.side.run(case.mode, samples)
        return (time.perf_counter() - started) / len(samples)

    def run(self, positions: np.ndarray, number: int) -> float:
        """Runs the batches of a round; returns the seconds of an example, without those of
        compilation on the way.

        positions: of the round's batches in the plan, from 0 to 1.
        """
        compiled, busy, started = self.side.compile_seconds, _busy_seconds(), time.perf_counter()
        if self.case.mode == "epoch":
            examples = self.side.epoch(number)
        else:
            batches = [self.plan[int(position * len(self.plan))] for position in positions]
            examples = self.side.run(self.case.mode, batches)
        seconds = time.perf_counter() - started
        taken = (_busy_seconds() - busy) / (seconds * (os.cpu_count() or 1))
        self.others.append(max(0.0, taken))
        return (seconds - self.side.compile_seconds + compiled) / examples

    def end(self) -> Usage:
        peak = self.side.peak_bytes()
        if not peak:
            unit = 1 if sys.platform == "darwin" else 1024
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        return Usage(
            self.side.device,
            self.side.work.corpus,
            round(peak / 1e6),
            self.side.compile_seconds,
            np.mean(self.others),
        )


WORKER = Worker()

# -- measuring -------------------------------------------------------------------------------------


def measure_case(
    case: Case, process: Callable[[Mapping[str, str]], SideProcess] = SideProcess
) -> Measurement:
    """Measures a case, against the fastest setting of PyTorch."""
    settings = MODELS[case.model].settings if case.against == "torch" else ()
    one_seed = replace(case, seeds=1)
    notes = []
    with ExitStack() as stack:
        sides = {"ours": stack.enter_context(process(SHARED_DEVICE))}
        seconds_of_batch = sides["ours"].call(Worker.start, case)
        if case.seeds > 1:
            sides["one seed"] = stack.enter_context(process(SHARED_DEVICE))
            sides["one seed"].call(Worker.start, one_seed)
        opponents = []
        for setting in settings:
            side = stack.enter_context(process(TUNED))
            # The benchmark goes on without a setting that does not work here.
            try:
                side.call(Worker.start, one_seed, setting)
            except Exception as failure:
                note = f"{setting.name}: {type(failure).__name__}: {str(failure).strip()}"
                notes.append(note.partition("\n")[0][:200])
            else:
                opponents.append(setting.name)
                sides[setting.name] = side
        if settings and not opponents:
            problem = f"{case.model}, batch {case.batch}, {case.mode}: {'; '.join(notes)}"
            fix = "leave the row out, pip install 'mednli_jax[torch]', or give --against=none"
            raise RunError(problem, fix=fix)
        seconds = _seconds_of_rounds(sides, case.rounds, seconds_of_batch)
        usage = {name: side.call(Worker.end) for name, side in sides.items()}
    notes += [f"{name}: {np.median(1 / seconds[name]):.4g} examples/s" for name in opponents]
    ours = seconds["ours"]
    row = Measurement(
        case=case,
        device=usage["ours"].device,
        corpus=usage["ours"].corpus,
        examples_per_second=np.median(1 / ours),
        seconds=np.median(ours) * case.pairs * case.seeds,
        peak_mb=usage["ours"].mb,
        compile_seconds=usage["ours"].compile_seconds,
        others=max(of_side.others for of_side in usage.values()),
        notes=notes,
    )
    if case.seeds > 1:
        row.seeds_cost = np.median(ours / seconds["one seed"])
    if opponents:
        row.opponent = min(opponents, key=lambda name: np.median(seconds[name]))
        _enter_opponent(row, ours, seconds[row.opponent], usage[row.opponent])
    return row


def _seconds_of_rounds(
    sides: Mapping[str, SideProcess], rounds: int, seconds_of_batch: float
) -> dict[str, np.ndarray]:
    """The seconds of an example in each round, by side. seconds_of_batch: of our side; 0 for whole
    epochs."""
    count = max(FEWEST, math.ceil(ROUND_SECONDS / (seconds_of_batch or ROUND_SECONDS)))
    seconds = {name: np.zeros(rounds) for name in sides}
    for number in range(rounds):
        # Evenly spaced quantiles of an epoch's batches by cost; each round starts elsewhere.
        offset = (0.5 + number * GOLDEN) % 1.0
        positions = (np.arange(count) + offset) / count
        # In turn, the order reversed every other round.
        for name in reversed(sides) if number % 2 else sides:
            seconds[name][number] = sides[name].call(Worker.run, positions, number)
    return seconds


def _enter_opponent(row: Measurement, ours: np.ndarray, opponent: np.ndarray, usage: Usage) -> None:
    """Enters the figures of PyTorch's fastest setting. ours, opponent: seconds of an example in
    each round."""
    ratio = opponent / ours
    row.torch_examples_per_second = np.median(1 / opponent)
    row.torch_seconds = np.median(opponent) * row.case.pairs
    row.torch_peak_mb = usage.mb
    row.ratio = np.median(ratio)
    row.ratio_min = ratio.min()
    row.ratio_max = ratio.max()
