"""`python -m mednli_jax.benchmark`: speed against the fastest PyTorch we could find, on this machine."""

import itertools
import json
import os
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import UserError
from mednli_jax.files import append_line

USAGE = """Measure training and prediction against PyTorch: same model, same pairs, interleaved rounds, median ratio.

  python -m mednli_jax.benchmark --models=bow,infersent,esim --against=torch --batch=64,512
  python -m mednli_jax.benchmark --models=ga_reader --mode=train --tokens=1500 --json=readers.jsonl

  --models=NAME,...            bow, infersent, esim (default: these); ga_reader, sa_reader; bert
  --against=torch|none         the opponent: the fastest of several PyTorch styles (default: torch)
  --mode=NAME,...              train, predict: a sample of an epoch's batches (default: both)
                               epoch: one epoch end to end, against the script one would write without a thought
                               until: seconds to --accuracy on the dev pairs
  --grouping=off,premise       premise: batches of whole premise or passage groups, encoded once (default: off)
  --batch=N,... --seeds=N,...  batch sizes (64,512; readers 32; bert 16,32) and seeds in one program (1)
  --pairs=N,...                training rows of the made-up corpus (11232, as MedNLI; readers 4096 queries)
  --tokens=N --length=N        tokens of a passage on average (1500); pieces of bert's pairs (64; 0 = as MedNLI's)
  --prepared=FOLDER            a corpus that `prepare` prints, instead of the made-up pairs
  --hidden=N --vectors=N       sizes of the model and of the made-up word vectors (300; readers 64, 200; bert 384)
  --rounds=N --accuracy=A      rounds of each row (5); goal of `until` (0.7)
  --json[=FILE]                one JSON object per row, on stdout or at the end of FILE
  --allow_load                 measure although others use the machine; rows are marked as loaded

PyTorch comes with pip install 'mednli_jax[torch]'. Exit codes: 0 done, 2 bad input or usage, 3 interrupted."""

COLUMNS = {
    "model": "model", "batch": "batch", "seeds": "seeds", "mode": "mode", "grouping": "grouping",
    "examples_per_second": "examples/s", "torch_examples_per_second": "torch", "ratio": "ratio",
    "spread": "spread", "gemm_share": "of matmul", "seconds": "seconds", "seeds_cost": "seeds cost",
    "peak_mb": "MB", "torch_peak_mb": "torch MB", "compile_seconds": "compile s", "opponent": "opponent",
}  # fmt: skip


def define(values: cli.Flags) -> None:
    text, whole = flags.DEFINE_string, flags.DEFINE_integer
    text("models", "bow,infersent,esim", "models", flag_values=values)
    text("against", "torch", "opponent", flag_values=values)
    text("mode", "train,predict", "modes", flag_values=values)
    text("grouping", "off", "premise grouping", flag_values=values)
    text("batch", "", "batch sizes", flag_values=values)
    text("seeds", "1", "numbers of seeds", flag_values=values)
    text("pairs", "", "numbers of training rows", flag_values=values)
    text("prepared", "", "prepared corpus", flag_values=values)
    whole("hidden", None, "hidden size", lower_bound=1, flag_values=values)
    whole("vectors", None, "numbers per made-up word vector", lower_bound=1, flag_values=values)
    whole("tokens", 1500, "tokens of a passage", lower_bound=8, flag_values=values)
    whole("length", 64, "pieces of a pair", lower_bound=0, upper_bound=512, flag_values=values)
    whole("rounds", 5, "rounds of each row", lower_bound=1, flag_values=values)
    flags.DEFINE_float("accuracy", 0.7, "goal", lower_bound=0.0, upper_bound=1.0, flag_values=values)
    flags.DEFINE_bool("allow_load", False, "measure on a busy machine", flag_values=values)
    output = flags.Flag(flags.ArgumentParser(), flags.ArgumentSerializer(), "json", None, "print JSON")
    output.boolean = True  # bare --json is "true": stdout
    flags.DEFINE_flag(output, flag_values=values)


def chosen(values: cli.Flags, name: str, known) -> list[str]:
    """The words of a flag. Raises UserError for one that is not known."""
    words = [word.strip() for word in values[name].value.split(",")]
    for word in words:
        if word not in known:
            raise UserError(f"E-BENCH-004 --{name}: '{word}' is not known. Fix: give one of {', '.join(known)}.")
    return words


def numbers(values: cli.Flags, name: str, default=()) -> list[int]:
    """The numbers of a flag, each at least 1; an empty flag's are the default. Raises UserError."""
    text = values[name].value
    try:
        result = [int(word) for word in text.split(",")] if text else list(default)
    except ValueError:
        result = [0]
    if min(result, default=0) < 1:
        raise UserError(f"E-BENCH-006 --{name}={text}: expected numbers from 1 up. Fix: --{name}=64,512")
    return result


def main(values: cli.Flags) -> None:
    plan = rows_of(values)
    if values.against == "torch":
        needed = ["torch"] + ["transformers"] * any(row.model == "bert" for row in plan)
        missing = [name for name in needed if not _version(name)]
        if missing:
            title = {"torch": "PyTorch"}.get(missing[0], missing[0])
            raise UserError(
                f"E-BENCH-002 {title} is not installed. Fix: pip install 'mednli_jax[torch]', or --against=none"
            )
    from mednli_jax.benchmarking import measure, rows
    from mednli_jax.progress import Bar, say

    guard = measure.Guard()
    if not values.allow_load:
        guard.check_quiet()
    calibration, results = rows.Calibration(say=say), []
    about = machine()
    say(", ".join(f"{key} {value}" for key, value in about.items()))
    emit = _sink(values.json)
    with Bar("benchmark", len(plan), unit="rows") as bar:
        for row in plan:
            try:
                found = rows.measure_row(row, calibration, guard)
            except measure.ContenderFailed as failure:
                raise UserError(
                    f"E-BENCH-005 {row.model}, batch {row.batch}, {row.mode}: {failure}. "
                    "Fix: leave the row out, or give --against=none."
                ) from None
            results += found
            for result in found:
                emit({**result, **about})
            bar.advance(1)
    if values.json is None:
        show(results)


def rows_of(values: cli.Flags) -> list:
    """The rows that the flags ask for. Raises UserError for a bad flag."""
    from mednli_jax.benchmarking import families

    chosen(values, "against", ("torch", "none"))
    models, modes = chosen(values, "models", families.MODELS), chosen(values, "mode", families.MODES)
    groupings, seeds = chosen(values, "grouping", families.GROUPINGS), numbers(values, "seeds")
    if "until" in modes and seeds != [1]:
        raise UserError("E-BENCH-008 --mode=until trains one seed. Fix: leave --seeds out, or measure --mode=epoch.")
    of_models = {model: _rows_of_model(values, model, modes, groupings, seeds) for model in dict.fromkeys(models)}
    return [row for model in models for row in of_models[model]]


def _rows_of_model(values, model, modes, groupings, seeds):
    from mednli_jax.benchmarking import families
    from mednli_jax.benchmarking.rows import Row

    family = families.of(model)
    for name, words, known in (("mode", modes, family.modes), ("grouping", groupings, family.groupings)):
        for word in words:
            if word not in known:
                raise UserError(
                    f"E-BENCH-009 --{name}={word} cannot be measured of {model}. Fix: give one of {', '.join(known)}, "
                    "or leave the model out."
                )
    if values.prepared and not family.prepared:
        known = ", ".join(name for name in families.MODELS if families.of(name).prepared)
        raise UserError(f"E-BENCH-010 --prepared: {model} reads made-up rows only. Fix: give models among {known}.")
    hidden = values.hidden or family.hidden
    if model == "bert" and hidden % families.HEAD_SIZE:
        size = families.HEAD_SIZE
        raise UserError(f"E-BENCH-011 --hidden={hidden}: bert's heads have {size} numbers. Fix: a multiple of {size}.")
    if model == "bert" and 0 < values.length < 8:
        raise UserError(f"E-BENCH-012 --length={values.length}: no room for a pair. Fix: give at least 8, or 0.")
    shared = {name: getattr(values, name) for name in ("prepared", "tokens", "length", "against", "rounds", "accuracy")}
    shared |= {"hidden": hidden, "vectors": values.vectors or family.vectors}
    pairs = [1] if values.prepared else numbers(values, "pairs", (family.rows,))
    batches = numbers(values, "batch", family.batch)
    return [
        Row(model, batch, count, mode, grouping, size, **shared)
        for size, mode, batch, grouping, count in itertools.product(pairs, modes, batches, groupings, seeds)
    ]


def machine() -> dict:
    """Versions and processor, for each row."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    names = {"mednli_jax_version": "mednli_jax", "jax_version": "jax", "torch_version": "torch"}
    return {
        **{key: _version(name) for key, name in names.items()},
        "python": platform.python_version(), "cpu": _processor(), "cpus": cores,
    }  # fmt: skip


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _sink(where: str | None) -> Callable[[dict], None]:
    """What a row is handed to: JSON lines on stdout ("true"), in a file, or nowhere (None)."""
    if where is None:
        return lambda row: None
    if where == "true":
        return lambda row: print(json.dumps(row, allow_nan=False), flush=True)
    path = Path(where).expanduser()
    try:
        with open(path, "a"):  # a row takes minutes to measure: a file that refuses it is told before
            pass
    except OSError as error:
        raise UserError(
            f"E-BENCH-007 {path}: cannot be written ({error.strerror}). Fix: give --json a file you can write."
        ) from None
    return lambda row: append_line(path, json.dumps(row, allow_nan=False))


def show(results: list[dict]) -> None:
    """The rows as a table: rich on a terminal, tabs elsewhere. Columns that are empty in all rows are left out."""
    table = [{**row, "spread": _spread(row)} for row in results]
    columns = {key: title for key, title in COLUMNS.items() if any(row[key] not in (None, "") for row in table)}
    cells = [[_cell(row[key]) + ("*" if key == "ratio" and row["loaded"] else "") for key in columns] for row in table]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        shown = Table(*columns.values())
        for line in cells:
            shown.add_row(*line)
        Console().print(shown)
    else:
        for line in [columns.values(), *cells]:
            print("\t".join(line))
    if any(row["loaded"] for row in results):
        print("*: others used the machine meanwhile; measure again.")


def _spread(row):
    return "" if row["ratio"] is None else f"{row['ratio_min']:.2f}-{row['ratio_max']:.2f}"


def _cell(value):
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
