"""A row of the benchmark: the opponent calibrated, the rounds run, the figures put together. Imports no array library.

Keys of a row stand in KEYS; see `measure_row`.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from mednli_jax.benchmarking import families, flops, measure
from mednli_jax.benchmarking.measure import Contender, ContenderFailed

# The opponent's allocator: glibc's default gives pages back and faults them in again at each step, which halves
# PyTorch at batch 512. A mmap threshold that large is refused by glibc; no mmap at all is not.
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}
ONE_ARENA = {**TUNED, "MALLOC_ARENA_MAX": "1"}  # as training.devices.keep_memory sets it for us
HUGE = {**TUNED, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
PLAIN = dict.fromkeys({**ONE_ARENA, **HUGE})  # what the user set for other programs is not the idiomatic script's
MALLOC = {"tuned malloc": TUNED, "tuned malloc, one arena": ONE_ARENA, "tuned malloc, huge pages": HUGE}
COMPILE_SECONDS = 120.0  # given to torch.compile and its first batches
STYLES = {  # as in opponents, torch_readers and torch_bert, which import torch
    "bow": ("flat", "distinct", "bucketed"),
    "infersent": ("packed", "packed stacked", "bucketed", "chunked", "chunked stacked"),
    "esim": ("packed", "packed stacked", "bucketed", "chunked", "chunked stacked"),
    "ga_reader": ("packed", "bucketed"),
    "sa_reader": ("packed", "bucketed"),
    "bert": ("eager", "sdpa"),
}
# Models without loops over time, of which torch.compile may make something else in each style: all are tried.
COMPILED = ("bert",)
# Styles of the modes that train a model from the start: batches by length would change what is learned per step.
UNTIL_STYLES = {"bow": ("flat", "distinct"), "infersent": ("packed", "chunked"), "esim": ("packed", "chunked")}
KEYS = (
    *("model", "batch", "seeds", "mode", "grouping", "pairs"),
    *("examples_per_second", "torch_examples_per_second", "opponent", "ratio", "ratio_min", "ratio_max"),
    *("seconds", "torch_seconds", "seeds_cost", "gflop_per_pair", "gemm_gflops", "gemm_share"),
    *("peak_mb", "torch_peak_mb", "compile_seconds", "loaded", "rounds", "device", "corpus", "hidden", "notes"),
)


@dataclass(frozen=True)
class Row:
    """What one row measures. against: "torch" or "none"; mode: train, predict, epoch or until.

    pairs: training rows, which for readers are queries. tokens: of a passage, on average (readers). length: of a pair
    in word pieces, 0 = as they come (BERT).
    """

    model: str
    batch: int
    seeds: int
    mode: str
    grouping: str
    pairs: int
    prepared: str = ""
    hidden: int = 300
    vectors: int = 300
    tokens: int = 1500
    length: int = 64
    against: str = "torch"
    rounds: int = 5
    accuracy: float = 0.7

    def spec(self, **changes) -> dict:
        names = ("model", "batch", "seeds", "mode", "grouping", "pairs", "prepared", "hidden", "vectors")
        names = (*names, "tokens", "length")
        return {**{name: getattr(self, name) for name in names}, **changes}


@dataclass(frozen=True)
class Opponent:
    """The opponent that was chosen: its name for the reader, worker side, spec, environment."""

    name: str
    side: str
    spec: dict
    environment: dict


class Calibration:
    """Finds the fastest opponent of a row among styles, allocator settings and torch.compile; remembers it.

    contender: makes a Contender. say: told what was tried.
    """

    def __init__(self, contender=Contender, say: Callable[[str], None] = lambda line: None):
        self._contender, self._say, self._found = contender, say, {}

    def fastest(self, row: Row) -> tuple[Opponent, list[str]]:
        """The opponent and a note for each setting tried. Raises ContenderFailed where none works."""
        key = tuple(sorted(row.spec(seeds=1).items()))  # PyTorch trains one model at a time
        if key not in self._found:
            self._found[key] = self._search(row)
        return self._found[key]

    def _search(self, row):
        mode = row.mode if row.mode in ("train", "predict") else "train"
        styles = UNTIL_STYLES if row.mode == "until" else STYLES
        tried = {}  # (style, compiled, malloc) -> examples per second, or why not

        def attempt(child, style, compiled, malloc):
            spec = row.spec(mode=mode, style=style, compiled=compiled)
            fastest = max((speed for speed in tried.values() if isinstance(speed, float)), default=0.0)
            tried[style, compiled, malloc] = self._speed(child, spec, COMPILE_SECONDS if compiled else None, fastest)

        def best():
            speeds = {key: value for key, value in tried.items() if isinstance(value, float)}
            if not speeds:
                raise ContenderFailed("; ".join(dict.fromkeys(map(str, tried.values()))))
            return max(speeds, key=speeds.__getitem__)

        first, *rest = MALLOC
        with self._contender("torch", {}, MALLOC[first]) as child:
            for style in styles[row.model]:
                attempt(child, style, False, first)
        for malloc in rest:
            with self._contender("torch", {}, MALLOC[malloc]) as child:
                attempt(child, best()[0], False, malloc)
        style, _, malloc = best()
        for compiled in styles[row.model] if row.model in COMPILED else (style,):
            with self._contender("torch", {}, MALLOC[malloc]) as child:
                attempt(child, compiled, True, malloc)
        style, compiled, malloc = best()
        notes = [f"{_name(*key)}: {_told(value)}" for key, value in tried.items()]
        for note in notes:
            self._say(f"  torch {row.model} batch {row.batch} {mode}: {note}")
        spec = row.spec(seeds=1, style=style, compiled=compiled)
        return Opponent(_name(style, compiled, malloc), "torch", spec, MALLOC[malloc]), notes

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


def _told(value):
    return f"{value:.4g} examples/s" if isinstance(value, float) else f"failed ({value})"


def idiomatic(row: Row) -> list[Opponent]:
    """The plain script, with the default allocator and with the tuned one."""
    style = "packed" if row.model != "bow" else "bucketed"  # BOW: padded batches, shuffled by its own loader
    spec = row.spec(style=style, compiled=False, grouping="off")
    return [
        Opponent("idiomatic, default malloc", "idiomatic", spec, PLAIN),
        Opponent("idiomatic, tuned malloc", "idiomatic", spec, TUNED),
    ]


def measure_row(row: Row, calibration: Calibration, guard: measure.Guard, contender=Contender) -> list[dict]:
    """The result rows (KEYS) of a row: one, or one per opponent where there are several ("epoch").

    ratio: their seconds per example over ours, above 1 we are faster; with several seeds, the examples of all seeds
    count. seeds_cost: our seconds for S seeds in one program over S single runs. seconds: of one epoch at the speed
    measured, or until the accuracy was reached.
    """
    notes = []
    if row.against == "none":
        opponents = [None]
    elif row.mode == "epoch":
        opponents = idiomatic(row)
        if row.grouping == "premise":
            opponents = [calibration.fastest(row)[0]]
    else:
        opponent, notes = calibration.fastest(row)
        opponents = [opponent]
    return [_against(row, opponent, notes, guard, contender) for opponent in opponents]


def _against(row, opponent, notes, guard, contender):
    with ExitStack() as stack:
        children = {"ours": stack.enter_context(contender("ours", row.spec()))}
        if opponent:
            children["torch"] = stack.enter_context(contender(opponent.side, opponent.spec, opponent.environment))
        if row.seeds > 1:
            children["single"] = stack.enter_context(contender("ours", row.spec(seeds=1)))
        each = [child.start() for child in children.values()]
        count = measure.batches_per_round(each)
        answers, loaded = measure.interleave(
            children, rounds=row.rounds, count=count, guard=guard, accuracy=row.accuracy
        )
        peak = {name: child.ask(do="peak") for name, child in children.items()}
        gemm = children["ours"].ask(do="gemm")["flops_per_second"]  # after the peak, which it would raise
        facts = children["ours"].facts
    return _figures(row, opponent, notes, answers, loaded, peak, gemm, facts)


def _figures(row, opponent, notes, answers, loaded, peak, gemm, facts):
    whole = row.mode == "until"
    seconds = {name: measure.seconds_each(a, whole=whole) for name, a in answers.items()}
    speed = {name: float(np.median([a["examples"] / a["seconds"] for a in rows])) for name, rows in answers.items()}
    work = families.workload_of(row.spec())
    rows = work.rows("train")
    operations = flops.per_pair(
        row.model, work.lengths(rows), work.group[rows], hidden=row.hidden, dim=work.vectors.shape[1],
        train=row.mode != "predict", grouped=row.grouping == "premise",
    )  # fmt: skip
    once = 1 if whole else len(rows)
    values = {
        **dict.fromkeys(KEYS),
        **{name: getattr(row, name) for name in ("model", "batch", "seeds", "mode", "grouping", "rounds", "hidden")},
        "pairs": len(rows),
        "corpus": work.facts["corpus"],
        "examples_per_second": measure.rounded(speed["ours"]),
        "seconds": measure.rounded(np.median(seconds["ours"]) * once * (1 if whole else row.seeds)),
        "gflop_per_pair": measure.rounded(operations / 1e9),
        "gemm_gflops": measure.rounded(gemm / 1e9),
        "gemm_share": measure.rounded(operations * speed["ours"] / gemm),
        "peak_mb": round(peak["ours"]["mb"]),
        "compile_seconds": measure.rounded(peak["ours"]["compile_seconds"]),
        "device": facts["device"],
        "loaded": bool(loaded),
        "notes": list(notes),
    }
    if opponent:
        values |= {
            "opponent": opponent.name,
            "torch_examples_per_second": measure.rounded(speed["torch"]),
            "torch_seconds": measure.rounded(np.median(seconds["torch"]) * once),
            "torch_peak_mb": round(peak["torch"]["mb"]),
            **measure.ratio(seconds["ours"], seconds["torch"]),
        }
    if "single" in seconds and not whole:
        values["seeds_cost"] = measure.rounded(np.median(seconds["ours"] / seconds["single"]))
    if whole:
        reached = [a["accuracy"] for a in answers["ours"]]
        values["notes"].append(f"dev accuracy {row.accuracy} asked for, ours ended at {min(reached):.3f} or better")
    return values
