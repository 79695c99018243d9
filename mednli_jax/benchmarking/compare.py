"""Measures a case: finds the fastest PyTorch setting, runs the rounds of both sides, and computes the figures.

Imports neither jax nor torch: both sides are child processes.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from mednli_jax.benchmarking import families, flops, measure
from mednli_jax.benchmarking.cases import Case
from mednli_jax.benchmarking.families import Setting
from mednli_jax.benchmarking.measure import Side, SideFailed, rounded
from mednli_jax.errors import RunError

# PyTorch's allocator: glibc's default returns pages to the system and requests them again at each step, which halves
# PyTorch's speed at batch 512. glibc refuses a large enough mmap threshold, but it accepts to use no mmap at all.
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}
DEFAULT = dict.fromkeys((*TUNED, "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"))  # removed
CALIBRATION_SECONDS = 19.0  # for all PyTorch settings of a row; 20 at most with the end of their process
PASS_SECONDS = 1.5  # of a setting's timed pass
KEYS = (
    *("model", "batch", "seeds", "mode", "grouping", "pairs"),
    *("examples_per_second", "torch_examples_per_second", "opponent", "ratio", "ratio_min", "ratio_max"),
    *("seconds", "torch_seconds", "seeds_cost", "gflop_per_pair", "gemm_gflops", "gemm_share"),
    *("peak_mb", "torch_peak_mb", "compile_seconds", "loaded", "rounds"),
    *("device", "corpus", "hidden", "precision", "notes"),
)
OF_CASE = ("model", "batch", "seeds", "mode", "grouping", "rounds", "hidden", "precision")


class Calibration:
    """Finds the fastest PyTorch setting of a case within a time limit, and remembers it.

    side: makes a Side. say: receives a line for each case. clock: seconds, for tests.
    """

    def __init__(self, side=Side, say: Callable[[str], None] = lambda line: None, clock=time.monotonic):
        self._side, self._say, self._clock, self._found = side, say, clock, {}

    def fastest(self, case: Case) -> tuple[Setting, list[str]]:
        """The setting and notes on the search. Raises SideFailed if none works."""
        key = replace(case, seeds=1, rounds=0)  # PyTorch trains one model at a time
        if key not in self._found:
            self._found[key] = self._search(case)
        return self._found[key]

    def _search(self, case):
        """One timed pass of each setting, in a process that they share.

        A setting that gives no answer in time ends the search, and those after it are left out. If none was timed, the
        first is taken, which is expected to be the fastest.
        """
        mode = case.mode if case.mode in ("train", "predict") else "train"
        settings, begun = families.MODELS[case.model].settings, self._clock()
        if len(settings) == 1:
            return settings[0], []
        ends, speeds, notes = begun + CALIBRATION_SECONDS, {}, []
        with self._side(DEFAULT if measure.has_gpu() else TUNED) as child:
            for setting in settings:
                left = ends - self._clock()
                if left <= 0:
                    notes.append(f"{setting.name}: no time left")
                    continue
                spec = case.spec(mode=mode, **setting._asdict())
                try:
                    answer = child.ask("estimate", spec=spec, seconds=PASS_SECONDS, timeout=left)
                    speeds[setting] = answer["tokens_per_second"]
                    notes.append(f"{setting.name}: {speeds[setting]:.4g} tokens/s")
                except SideFailed as failure:
                    notes.append(f"{setting.name}: {failure}")
        if not speeds and self._clock() < ends:
            raise SideFailed("; ".join(notes))
        best = max(speeds, key=speeds.__getitem__, default=settings[0])
        notes.append(f"{best.name} chosen in {self._clock() - begun:.1f} s")
        self._say(f"  PyTorch, {case.model}, batch {case.batch}, {mode}: {'; '.join(notes)}")
        return best, notes


def measure_case(case: Case, calibration: Calibration, guard: measure.Guard, side=Side) -> list[dict]:
    """The lines of the result (KEYS) of a case.

    "epoch" has two: the plain script with each allocator, or, where premises are kept together, the plain script (which
    has no groups) and the fastest setting (which has them).

    ratio: PyTorch's seconds per example over ours; above 1 we are faster. With several seeds, the examples of all seeds
      count. seeds_cost: our seconds for S seeds in one program over S times those of one seed.
    seconds: of one epoch at the measured speed.
    Raises: RunError, where no PyTorch setting works.
    """
    try:
        settings, notes = _settings(case, calibration)
        return [_against(case, *setting, notes, guard, side) for setting in settings]
    except SideFailed as failure:
        where = f"{case.model}, batch {case.batch}, {case.mode}"
        raise RunError(f"{where}: {failure}. Fix: leave the row out, or give --against=none.") from None


def _settings(case, calibration):
    """(setting of PyTorch or None, allocator's name, its environment) of each row, and notes on the search for them."""
    if case.against == "none":
        return [(None, "", {})], []
    gpu, plain = measure.has_gpu(), Setting(families.PLAIN)  # on a GPU the allocator of the process does not matter
    scripts = [(plain, "", DEFAULT)] if gpu else [(plain, "default malloc", DEFAULT), (plain, "tuned malloc", TUNED)]
    if case.mode == "epoch" and case.grouping == "off":
        return scripts, []
    setting, notes = calibration.fastest(case)
    fastest = [(setting, "", DEFAULT) if gpu else (setting, "tuned malloc", TUNED)]
    return scripts[:1] + fastest if case.mode == "epoch" else fastest, notes


def _against(case, setting, malloc, environment, notes, guard, side):
    with ExitStack() as stack:
        sides, specs = {"ours": stack.enter_context(side())}, {"ours": case.spec()}
        if setting:
            sides["pytorch"] = stack.enter_context(side(environment))
            specs["pytorch"] = case.spec(seeds=1, **setting._asdict())
        if case.seeds > 1:
            sides["single"], specs["single"] = stack.enter_context(side()), case.spec(seeds=1)
        started = {
            name: child.ask("start", name="pytorch" if name == "pytorch" else "ours", spec=specs[name])
            for name, child in sides.items()
        }
        count = measure.batches_per_round([answer["seconds_per_batch"] for answer in started.values()])
        answers, loaded = measure.interleave(sides, rounds=case.rounds, count=count, guard=guard)
        peak = {name: child.ask("peak") for name, child in sides.items()}
        gemm = sides["ours"].ask("gemm")["flops_per_second"]  # after reading the peak memory, which this would raise
    opponent = ", ".join(filter(None, (setting.name, malloc))) if setting else None
    facts = {"opponent": opponent, "device": started["ours"]["device"], "loaded": bool(loaded), "notes": list(notes)}
    return _figures(case, facts, answers, peak, gemm)


def _figures(case, facts, answers, peak, gemm):
    seconds = {name: measure.seconds_each(a) for name, a in answers.items()}
    speed = {name: float(np.median(1 / each)) for name, each in seconds.items()}
    work = families.workload_of(case.spec())
    rows = work.rows("train")
    operations = flops.per_pair(
        case.model, work.lengths(rows), work.premise_of[rows], hidden=case.hidden, dim=work.vectors.shape[1],
        train=case.mode != "predict", grouped=case.grouping == "premise",
    )  # fmt: skip
    values = {
        **dict.fromkeys(KEYS),
        **{name: getattr(case, name) for name in OF_CASE},
        **facts,
        "pairs": len(rows),
        "corpus": work.facts["corpus"],
        "examples_per_second": rounded(speed["ours"]),
        "seconds": rounded(np.median(seconds["ours"]) * len(rows) * case.seeds),
        "gflop_per_pair": rounded(operations / 1e9),
        "gemm_gflops": rounded(gemm / 1e9),
        "gemm_share": rounded(operations * speed["ours"] / gemm),
        "peak_mb": round(peak["ours"]["mb"]),
        "compile_seconds": rounded(peak["ours"]["compile_seconds"]),
    }
    if "pytorch" in answers:
        values |= {
            "torch_examples_per_second": rounded(speed["pytorch"]),
            "torch_seconds": rounded(np.median(seconds["pytorch"]) * len(rows)),
            "torch_peak_mb": round(peak["pytorch"]["mb"]),
            **measure.ratio(seconds["ours"], seconds["pytorch"]),
        }
    if "single" in seconds:
        values["seeds_cost"] = rounded(np.median(seconds["ours"] / seconds["single"]))
    return values
