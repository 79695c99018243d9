"""Measures a case: finds the fastest PyTorch setting, runs the rounds of both sides, and computes the figures.

Imports neither jax nor torch: both sides are child processes.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from mednli_jax.benchmarking import families, flops, measure
from mednli_jax.benchmarking.cases import Case
from mednli_jax.benchmarking.measure import Contender, ContenderFailed
from mednli_jax.errors import UsageError

# PyTorch's allocator: glibc's default returns pages to the system and takes them again at each step, which halves
# PyTorch's speed at batch 512. glibc refuses a mmap threshold that is large enough, but it accepts no mmap at all.
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}
ONE_ARENA = {**TUNED, "MALLOC_ARENA_MAX": "1"}  # as training.devices.keep_memory sets it for jax
HUGE = {**TUNED, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
PLAIN = dict.fromkeys({**ONE_ARENA, **HUGE})  # removed: the plain script runs with glibc's defaults
MALLOC = {"tuned malloc": TUNED, "tuned malloc, one arena": ONE_ARENA, "tuned malloc, huge pages": HUGE}
COMPILE_SECONDS = 120.0  # limit for torch.compile and its first batches
KEYS = (
    *("model", "batch", "seeds", "mode", "grouping", "pairs"),
    *("examples_per_second", "torch_examples_per_second", "opponent", "ratio", "ratio_min", "ratio_max"),
    *("seconds", "torch_seconds", "seeds_cost", "gflop_per_pair", "gemm_gflops", "gemm_share"),
    *("peak_mb", "torch_peak_mb", "compile_seconds", "loaded", "rounds", "device", "corpus", "hidden", "notes"),
)


@dataclass(frozen=True)
class TorchSetting:
    """How the PyTorch side runs: its name for the reader, the worker's side and spec, its environment variables."""

    name: str
    side: str
    spec: dict
    environment: dict


class Calibration:
    """Finds the fastest PyTorch setting of a case: style, allocator setting and torch.compile. Remembers it.

    contender: makes a Contender. say: receives a line for each setting that was tried.
    """

    def __init__(self, contender=Contender, say: Callable[[str], None] = lambda line: None):
        self._contender, self._say, self._found = contender, say, {}

    def fastest(self, case: Case) -> tuple[TorchSetting, list[str]]:
        """The setting and a note for each one tried. Raises ContenderFailed where none works."""
        key = tuple(sorted(case.spec(seeds=1).items()))  # PyTorch trains one model at a time
        if key not in self._found:
            self._found[key] = self._search(case)
        return self._found[key]

    def _search(self, case):
        mode = case.mode if case.mode in ("train", "predict") else "train"
        family, styles = families.of(case.model), families.MODELS[case.model]
        styles = styles.until if case.mode == "until" else styles.tried
        tried = {}  # (style, compiled, malloc) -> examples per second, or why not

        def attempt(child, style, compiled, malloc):
            spec = case.spec(mode=mode, style=style, compiled=compiled)
            fastest = max((speed for speed in tried.values() if isinstance(speed, float)), default=0.0)
            tried[style, compiled, malloc] = self._speed(child, spec, COMPILE_SECONDS if compiled else None, fastest)

        def best():
            speeds = {key: value for key, value in tried.items() if isinstance(value, float)}
            if not speeds:
                raise ContenderFailed("; ".join(dict.fromkeys(map(str, tried.values()))))
            return max(speeds, key=speeds.__getitem__)

        first, *rest = MALLOC
        with self._contender("torch", {}, MALLOC[first]) as child:
            for style in styles:
                attempt(child, style, False, first)
        for malloc in rest:
            with self._contender("torch", {}, MALLOC[malloc]) as child:
                attempt(child, best()[0], False, malloc)
        style, _, malloc = best()
        for each in styles if family.compile_each else (style,):
            with self._contender("torch", {}, MALLOC[malloc]) as child:
                attempt(child, each, True, malloc)
        style, compiled, malloc = best()
        notes = [f"{_name(*key)}: {_speed_text(value)}" for key, value in tried.items()]
        for note in notes:
            self._say(f"  torch {case.model} batch {case.batch} {mode}: {note}")
        spec = case.spec(seeds=1, style=style, compiled=compiled)
        return TorchSetting(_name(style, compiled, malloc), "torch", spec, MALLOC[malloc]), notes

    @staticmethod
    def _speed(child, spec, timeout, fastest=0.0):
        """Examples per second over two short rounds, one where it takes long; or why there is none.

        What a few batches show to be less than half as fast as the fastest so far is not measured further.
        """
        wait = {"timeout": timeout} if timeout else {}
        try:
            child.ask(do="build", side="torch", spec=spec, **wait)
            each = child.ask(do="warm", **wait)["seconds_per_batch"]
            if each and spec["batch"] / each < fastest / 2:
                return spec["batch"] / each
            count = measure.batches_per_round([each])
            runs = [
                child.ask(do="run", positions=measure.positions(i, count), number=i, accuracy=0.0, **wait)
                for i in range(1 if count * each > 2 * measure.LONGEST_ROUND else 2)
            ]
        except ContenderFailed as failure:
            return str(failure)
        return sum(run["examples"] for run in runs) / sum(run["seconds"] for run in runs)


def _name(style, compiled, malloc):
    return f"{style}{', torch.compile' if compiled else ''}, {malloc}"


def _speed_text(value):
    return f"{value:.4g} examples/s" if isinstance(value, float) else f"failed ({value})"


def plain_script(case: Case) -> list[TorchSetting]:
    """The plain script, with the default allocator and with the tuned one."""
    spec = case.spec(style=families.MODELS[case.model].plain, compiled=False, grouping="off")
    return [
        TorchSetting("idiomatic, default malloc", "idiomatic", spec, PLAIN),
        TorchSetting("idiomatic, tuned malloc", "idiomatic", spec, TUNED),
    ]


def measure_case(case: Case, calibration: Calibration, guard: measure.Guard, contender=Contender) -> list[dict]:
    """The lines of the result (KEYS) of a case: one, or one for each setting of the plain script ("epoch").

    ratio: PyTorch's seconds per example over ours; above 1 we are faster. With several seeds, the examples of all seeds
      count. seeds_cost: our seconds for S seeds in one program over S times those of one seed.
    seconds: of one epoch at the measured speed, or until the accuracy was reached.
    Raises: UserError, where no PyTorch setting works.
    """
    try:
        settings, notes = _settings(case, calibration)
        return [_against(case, setting, notes, guard, contender) for setting in settings]
    except ContenderFailed as failure:
        raise UsageError(
            f"{case.model}, batch {case.batch}, {case.mode}: {failure}. Fix: leave the row out, or give --against=none."
        ) from None


def _settings(case, calibration):
    """The PyTorch settings that are measured, [None] without PyTorch, and notes on the search for them."""
    if case.against == "none":
        return [None], []
    if case.mode == "epoch":
        grouped = case.grouping == "premise"
        return ([calibration.fastest(case)[0]] if grouped else plain_script(case)), []
    setting, notes = calibration.fastest(case)
    return [setting], notes


def _against(case, setting, notes, guard, contender):
    with ExitStack() as stack:
        children = {"ours": stack.enter_context(contender("ours", case.spec()))}
        if setting:
            children["torch"] = stack.enter_context(contender(setting.side, setting.spec, setting.environment))
        if case.seeds > 1:
            children["single"] = stack.enter_context(contender("ours", case.spec(seeds=1)))
        each = [child.start() for child in children.values()]
        count = measure.batches_per_round(each)
        answers, loaded = measure.interleave(
            children, rounds=case.rounds, count=count, guard=guard, accuracy=case.accuracy
        )
        peak = {name: child.ask(do="peak") for name, child in children.items()}
        gemm = children["ours"].ask(do="gemm")["flops_per_second"]  # after the peak, which it would raise
        facts = children["ours"].facts
    return _figures(case, setting, notes, answers, loaded, peak, gemm, facts)


def _figures(case, setting, notes, answers, loaded, peak, gemm, facts):
    whole = case.mode == "until"
    seconds = {name: measure.seconds_each(a, whole=whole) for name, a in answers.items()}
    speed = {name: float(np.median([a["examples"] / a["seconds"] for a in rows])) for name, rows in answers.items()}
    work = families.workload_of(case.spec())
    rows = work.rows("train")
    operations = flops.per_pair(
        case.model, work.lengths(rows), work.premise_of[rows], hidden=case.hidden, dim=work.vectors.shape[1],
        train=case.mode != "predict", grouped=case.grouping == "premise",
    )  # fmt: skip
    once = 1 if whole else len(rows)
    values = {
        **dict.fromkeys(KEYS),
        **{name: getattr(case, name) for name in ("model", "batch", "seeds", "mode", "grouping", "rounds", "hidden")},
        "pairs": len(rows),
        "corpus": work.facts["corpus"],
        "examples_per_second": measure.rounded(speed["ours"]),
        "seconds": measure.rounded(np.median(seconds["ours"]) * once * (1 if whole else case.seeds)),
        "gflop_per_pair": measure.rounded(operations / 1e9),
        "gemm_gflops": measure.rounded(gemm / 1e9),
        "gemm_share": measure.rounded(operations * speed["ours"] / gemm),
        "peak_mb": round(peak["ours"]["mb"]),
        "compile_seconds": measure.rounded(peak["ours"]["compile_seconds"]),
        "device": facts["device"],
        "loaded": bool(loaded),
        "notes": list(notes),
    }
    if setting:
        values |= {
            "opponent": setting.name,
            "torch_examples_per_second": measure.rounded(speed["torch"]),
            "torch_seconds": measure.rounded(np.median(seconds["torch"]) * once),
            "torch_peak_mb": round(peak["torch"]["mb"]),
            **measure.ratio(seconds["ours"], seconds["torch"]),
        }
    if "single" in seconds and not whole:
        values["seeds_cost"] = measure.rounded(np.median(seconds["ours"] / seconds["single"]))
    if whole:
        reached = [a["accuracy"] for a in answers["ours"]]
        values["notes"].append(f"dev accuracy {case.accuracy} asked for, ours ended at {min(reached):.3f} or better")
    return values
