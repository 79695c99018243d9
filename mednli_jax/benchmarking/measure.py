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
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack

import numpy as np

from mednli_jax.benchmarking.cases import MODELS, PLAIN, Case, workload_of
from mednli_jax.errors import RunError, UserError

ROUND_SECONDS = 1.5  # of a round of our side
# batches of a round: their costs differ tenfold between length buckets, so that fewer are no fair
# sample
FEWEST = 6
SHARED_DEVICE = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false"
}  # jax would take 75 % of a GPU, but the sides share it
# PyTorch's allocator: glibc's default returns pages to the system and requests them again at each
# step, which halves PyTorch's speed at batch 512. glibc refuses a large enough mmap threshold, but
# it accepts to use no mmap at all. The plain script has the default.
TUNED = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
KEYS = (
    *("model", "batch", "seeds", "mode", "grouping", "pairs"),
    *(
        "examples_per_second",
        "torch_examples_per_second",
        "opponent",
        "ratio",
        "ratio_min",
        "ratio_max",
    ),
    *(
        "seconds",
        "torch_seconds",
        "seeds_cost",
        "peak_mb",
        "torch_peak_mb",
        "compile_seconds",
        "rounds",
    ),
    *("device", "corpus", "hidden", "precision", "notes"),
)

# -- a side in its process ---------------------------------------------------------------------------------------------


class Side:
    """A process that builds a side and runs it. environment: variables that it has besides this
    one's."""

    def __init__(self, environment: dict):
        self._environment = {**SHARED_DEVICE, **environment}
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._pool.shutdown(cancel_futures=True)

    def ask(self, do: str, *arguments):
        """The answer to a method of Worker. Raises what the process raised, or says that it
        ended."""
        before = dict(os.environ)
        # glibc reads its variables when the process starts, with the first call
        os.environ.update(self._environment)
        try:
            answer = self._pool.submit(_call, do, arguments)
        finally:
            os.environ.clear()
            os.environ.update(before)
        return answer.result()


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process without a traceback
    os.dup2(2, 1)  # what libraries print


def _call(do, arguments):
    return getattr(WORKER, do)(*arguments)


class Worker:
    """A side in its process."""

    def start(self, case: Case, setting=None) -> tuple[float, str]:
        """Builds a side, ours without a setting, and warms it up. Returns (seconds of a batch of
        ours, device).

        The mode "epoch" runs an epoch and returns 0 seconds.
        """
        self.mode, work = case.mode, workload_of(case.spec())
        self.facts = {"corpus": work.facts["corpus"], "pairs": len(work.rows("train"))}
        if setting:
            from mednli_jax.benchmarking import torch_side

            self.side = torch_side.side_of(case.spec(**setting._asdict()), work)
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
        compiled, started = self.side.compile_seconds, time.perf_counter()
        if self.mode == "epoch":
            examples = self.side.epoch(number)
        else:
            examples = self.side.run(
                self.mode, [self.plan[int(place * len(self.plan))] for place in positions]
            )
        return (time.perf_counter() - started - (self.side.compile_seconds - compiled)) / examples

    def end(self) -> dict:
        """Facts of the corpus, seconds of compilation, peak memory of the accelerator if there is
        one, else here."""
        scale = 1 if sys.platform == "darwin" else 1024
        most = self.side.peak_bytes() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
        return {
            **self.facts,
            "mb": round(most / 1e6),
            "compile_seconds": rounded(self.side.compile_seconds),
        }


WORKER = Worker()

# -- measuring ---------------------------------------------------------------------------------------------------------


def measure_case(case: Case, side=Side) -> list[dict]:
    """The rows (KEYS) of a case: against the fastest setting; for whole epochs before it one
    against the plain script.

    ratio: PyTorch's seconds per example over ours; above 1 we are faster. With several seeds, the
    examples of all seeds count. seeds_cost: our seconds for S seeds in one program over S times
    those of one seed. seconds: of one epoch at the measured speed.
    """
    if case.against == "none":
        return [_row(case, (), {}, side)]
    row = _row(case, MODELS[case.model].settings, TUNED, side)
    return [_row(case, (PLAIN,), {}, side), row] if case.mode == "epoch" else [row]


def _row(case, settings, environment, side):
    single, notes = Case(**case.spec(seeds=1)), []
    with ExitStack() as stack:
        sides = {"ours": stack.enter_context(side({}))}
        seconds, device = sides["ours"].ask("start", case)
        if case.seeds > 1:
            sides["single"] = stack.enter_context(side({}))
            sides["single"].ask("start", single)
        for setting in settings:
            child = stack.enter_context(side(environment))
            try:
                child.ask("start", single, setting)
                sides[setting.name] = child
            except UserError:
                raise
            except (
                Exception
            ) as failure:  # the benchmark goes on without a setting that does not work here
                first = (str(failure).strip().splitlines() or [""])[0]
                notes.append(f"{setting.name}: {type(failure).__name__}: {first[:200]}")
        if len(notes) == len(settings) > 0:
            where = f"{case.model}, batch {case.batch}, {case.mode}"
            raise RunError(
                f"{where}: {'; '.join(notes)}", fix="leave the row out, or give --against=none"
            )
        count = max(FEWEST, math.ceil(ROUND_SECONDS / (seconds or ROUND_SECONDS)))
        each = {
            name: np.zeros(case.rounds) for name in sides
        }  # seconds of an example in each round
        for number in range(case.rounds):
            # Evenly spaced quantiles of an epoch's batches by cost; each round starts elsewhere
            # between two.
            positions = [(i + (0.5 + number * 0.618034) % 1.0) / count for i in range(count)]
            for name in list(sides)[
                :: -1 if number % 2 else 1
            ]:  # in turn, the order reversed every other round
                each[name][number] = sides[name].ask("run", positions, number)
        ends = {name: child.ask("end") for name, child in sides.items()}
    ours, pairs = each.pop("ours"), ends["ours"]["pairs"]
    row = {
        **dict.fromkeys(KEYS),
        **{name: value for name, value in case.spec().items() if name in KEYS},
        **{name: ends["ours"][name] for name in ("corpus", "pairs", "compile_seconds")},
        **{"device": device, "notes": notes, "peak_mb": ends["ours"]["mb"]},
        "examples_per_second": rounded(np.median(1 / ours)),
        "seconds": rounded(np.median(ours) * pairs * case.seeds),
    }
    if "single" in each:
        row["seeds_cost"] = rounded(np.median(ours / each.pop("single")))
    if each:
        notes += [
            f"{name}: {np.median(1 / seconds):.4g} examples/s" for name, seconds in each.items()
        ]
        fastest = min(each, key=lambda name: np.median(each[name]))
        theirs = each[fastest]
        ratio = theirs / ours
        row |= {
            "opponent": fastest,
            "torch_examples_per_second": rounded(np.median(1 / theirs)),
            "torch_seconds": rounded(np.median(theirs) * pairs),
            "torch_peak_mb": ends[fastest]["mb"],
            "ratio": rounded(np.median(ratio)),
            "ratio_min": rounded(ratio.min()),
            "ratio_max": rounded(ratio.max()),
        }
    return row


def rounded(value) -> float:
    """Rounded to four significant digits, the precision of such a measurement."""
    return float(f"{value:.4g}")
