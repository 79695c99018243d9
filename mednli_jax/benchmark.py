"""Measure training and prediction against PyTorch: same model, same pairs, interleaved rounds,
median ratio.

  python -m mednli_jax.benchmark --models=bow --batch=64 --pairs=1024 --rounds=3    a first look
  python -m mednli_jax.benchmark --models=bow,infersent,esim --batch=64,512
  python -m mednli_jax.benchmark --models=ga_reader --mode=train --json=readers.jsonl

  --models=NAME,...            bow, infersent, esim (default: these); ga_reader, sa_reader; the
                               encoders bert, roberta, electra, megatron-bert, modernbert,
                               deberta-v2
  --against=torch|none         the other side: the fastest of at most four PyTorch settings
  --mode=NAME,...              train, predict: a sample of an epoch's batches (default: both)
                               epoch: one epoch end to end, after the script that one writes first
  --grouping=off,premise       premise: whole premise or passage groups, encoded once (off)
  --batch=N,... --seeds=N,...  batch sizes (64,512; readers 32; encoders 16,32); seeds at once (1)
  --pairs=N,...                training rows of the synthetic corpus (11232; readers 4096 queries)
  --tokens=N --length=N        tokens of a passage on average (1500); pieces of encoders' pairs
                               (64; 0 = as MedNLI's)
  --hidden=N --vectors=N       sizes of the model and of the synthetic word vectors
                               (300; readers 64, 200; encoders 384)
  --precision=NAME             float32 (default), tf32, bfloat16: of both sides' matrix products
  --buckets=N                  length buckets of our training batches of pairs, 1 to 4
  --rounds=N                   rounds of each row (3)
  --figure=FILE.png            a chart of the ratios and their ranges
  --json[=FILE]                one JSON object per row, on stdout or at the end of FILE

Other programs on the machine make the figures worthless: a warning tells where they took more than
a tenth of it. PyTorch comes with pip install
'mednli_jax[torch]'. Exit codes: 0 done, 2 bad input or usage, 3 interrupted.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import RunError
from mednli_jax.files import append_line, local_path, write_atomic
from mednli_jax.report import charts
from mednli_jax.report.sections import Grid, markdown
from mednli_jax.terminal import Bar, say, warn

if TYPE_CHECKING:
    from mednli_jax.benchmarking.cases import Choices
    from mednli_jax.benchmarking.measure import Measurement

# share of the machine from which other programs change the ratios
MOST_OTHERS = 0.1
COLUMNS = {
    "model": "model", "batch": "batch", "seeds": "seeds", "mode": "mode", "grouping": "grouping",
    "examples_per_second": "examples/s", "torch_examples_per_second": "torch", "ratio": "ratio",
    "spread": "spread", "seconds": "seconds", "seeds_cost": "seeds cost",
    "peak_mb": "MB", "torch_peak_mb": "torch MB", "compile_seconds": "compile s",
    "opponent": "opponent",
}  # fmt: skip


def define(values: cli.Flags) -> None:
    from mednli_jax.benchmarking.cases import MODELS

    _define_words(values, "models", "bow,infersent,esim", tuple(MODELS))
    _define_words(values, "mode", "train,predict", ("train", "predict", "epoch"))
    _define_words(values, "grouping", "off", ("off", "premise"))
    for name, default in {"batch": None, "seeds": "1", "pairs": None}.items():
        flags.DEFINE_list(name, default, name, flag_values=values)
        problem = "give numbers from 1 up"
        flags.register_validator(name, _are_numbers, problem, flag_values=values)
    precisions = ("float32", "tf32", "bfloat16")
    cli.define(values, against=("torch", "none"), precision=precisions)
    cli.define_paths(values, "figure")
    cli.define_numbers(values, hidden=None, vectors=None, rounds=3)
    cli.define_numbers(values, least=8, tokens=1500)
    flags.DEFINE_integer("length", 64, "length", lower_bound=0, upper_bound=512, flag_values=values)
    flags.DEFINE_integer(
        "buckets", None, "buckets", lower_bound=1, upper_bound=4, flag_values=values
    )
    output: flags.Flag[str] = flags.Flag(
        flags.ArgumentParser(), flags.ArgumentSerializer(), "json", None, "print JSON"
    )
    output.boolean = True  # bare --json is "true": stdout
    flags.DEFINE_flag(output, flag_values=values)


def _define_words(values: cli.Flags, name: str, default: str, allowed: Sequence[str]) -> None:
    """Declares a flag for a list of words."""

    def are_allowed(words: Sequence[str]) -> bool:
        return set(words) <= set(allowed)

    flags.DEFINE_list(name, default, name, flag_values=values)
    problem = f"give some of {', '.join(allowed)}"
    flags.register_validator(name, are_allowed, problem, flag_values=values)


def _are_numbers(words: Sequence[str] | None) -> bool:
    return all(word.isdigit() and int(word) > 0 for word in words or ())


def main(values: cli.Flags) -> None:
    from mednli_jax.benchmarking.cases import MODELS, cases_of
    from mednli_jax.benchmarking.measure import measure_case

    cases, machine = cases_of(_choices(values)), machine_facts()
    rows: list[Measurement] = []
    file = None if values.json in (None, "true") else local_path(values.json, "--json")
    packages: set[str] = set()
    for case in cases:
        packages |= set(MODELS[case.model].packages)
    for package in packages:
        if values.against == "torch" and not version_of(package):
            name = "PyTorch" if package == "torch" else package
            fix = "pip install 'mednli_jax[torch]', or --against=none"
            raise RunError(f"{name} is not installed", fix=fix)
    say(", ".join(f"{key} {value}" for key, value in machine.items()))
    with Bar("benchmark", len(cases), unit="rows") as bar:
        for number, case in enumerate(cases, start=1):
            say(f"{number}/{len(cases)}: {case.model}, {case.mode}, batch {case.batch}")
            for row in measure_case(case):
                rows.append(row)
                # Each setting of PyTorch with its speed, or why it has none.
                say("; ".join(row.notes) or "not compared")
                if row.others > MOST_OTHERS:
                    warn(f"other programs took {row.others:.0%} of the machine: measure again")
                line = json.dumps({**vars(row), **machine}, allow_nan=False)
                if values.json == "true":
                    print(line, flush=True)
                elif file:
                    append_line(file, line)
            bar.advance(1)
    if values.json is None:
        print("\n".join(lines(rows)))
    if values.figure:
        write_figure(rows, values.figure)


def _choices(values: cli.Flags) -> Choices:
    from mednli_jax.benchmarking.cases import Choices

    return Choices(
        models=values.models,
        modes=values.mode,
        groupings=values.grouping,
        seeds=_numbers(values.seeds),
        batches=_numbers(values.batch),
        pairs=_numbers(values.pairs),
        hidden=values.hidden,
        vectors=values.vectors,
        tokens=values.tokens,
        length=values.length,
        precision=values.precision,
        buckets=values.buckets,
        against=values.against,
        rounds=values.rounds,
    )


def _numbers(words: Sequence[str] | None) -> list[int]:
    return list(map(int, words or ()))


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def machine_facts() -> dict[str, str | int | None]:
    """Versions and processor, for each line of the result."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        about = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        about = []
    models = (line.partition(":")[2].strip() for line in about if line.startswith("model name"))
    versions = {f"{name}_version": version_of(name) for name in ("mednli_jax", "jax", "torch")}
    cpu = next(models, platform.machine())
    return {**versions, "python": platform.python_version(), "cpu": cpu, "cpus": cores}


def write_figure(results: Sequence[Measurement], path: Path) -> None:
    """Draws the ratio of each row and its range to a PNG file; rows without PyTorch are left
    out."""
    ranges = {}
    for row in results:
        if row.ratio is None or row.ratio_min is None or row.ratio_max is None:
            continue
        groups = "" if row.grouping == "off" else ", premise groups"
        name = f"{row.model}, {row.mode}, batch {row.batch}{groups}; PyTorch: {row.opponent}"
        words = f"{row.ratio:.2f} ({row.ratio_min:.2f} to {row.ratio_max:.2f})"
        ranges[name] = charts.Range(row.ratio, row.ratio_min, row.ratio_max, words)
    if not ranges:
        warn("no row was compared with PyTorch: no figure is drawn")
        return
    title = f"Examples per second, mednli_jax over PyTorch, on {results[0].device}"
    machine, others = machine_facts(), max(row.others for row in results)
    x = (
        "times PyTorch's speed: right of the line mednli_jax is faster\n"
        f"dot: median of {results[0].rounds} rounds; bar: slowest to fastest round\n"
        f"{machine['cpu']}, {machine['cpus']} processors; other programs took up to {others:.0%}"
    )
    chart = charts.ranges(ranges, title=title, x=x, line=1.0, width=620)
    write_atomic(path, chart.file("png"))
    say(f"figure: {path}")


def lines(results: Sequence[Measurement]) -> list[str]:
    """The table in Markdown. A column that is empty in all rows is left out."""
    table = list(map(_cells, results))
    columns = []
    for name in COLUMNS:
        if any(cells[name] is not None for cells in table):
            columns.append(name)
    rows = []
    for cells in table:
        rows.append(tuple(_cell(cells[name]) for name in columns))
    return list(markdown(Grid("", tuple(COLUMNS[name] for name in columns), rows)))


def _cells(row: Measurement) -> dict[str, Any]:
    """The values of a row by column, with the range of the ratio, and the settings of PyTorch that
    gave no answer."""
    cells = dict(vars(row))
    spread = f"{row.ratio_min:.2f}-{row.ratio_max:.2f}" if row.ratio else row.ratio
    cells["spread"] = spread
    silent = [note.partition(":")[0] for note in row.notes if not note.endswith(" examples/s")]
    if silent:
        cells["opponent"] = f"{row.opponent} (no answer: {'; '.join(silent)})"
    return cells


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
