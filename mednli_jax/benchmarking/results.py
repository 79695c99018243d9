"""Output of the benchmark: a table, JSON lines, a figure, and a description of the machine in each line."""

import json
import os
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from mednli_jax.analysis import charts
from mednli_jax.benchmarking import families
from mednli_jax.errors import RunError, UsageError
from mednli_jax.files import append_line, write_atomic
from mednli_jax.progress import say, warn

COLUMNS = {
    "model": "model", "batch": "batch", "seeds": "seeds", "mode": "mode", "grouping": "grouping",
    "examples_per_second": "examples/s", "torch_examples_per_second": "torch", "ratio": "ratio",
    "spread": "spread", "gemm_share": "of matmul", "seconds": "seconds", "seeds_cost": "seeds cost",
    "peak_mb": "MB", "torch_peak_mb": "torch MB", "compile_seconds": "compile s", "opponent": "opponent",
}  # fmt: skip
LOADED = "*: others used the machine meanwhile; measure again."


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_installed(models) -> None:
    """Raises RunError if the PyTorch side of one of the models needs a package that is missing."""
    needed = dict.fromkeys(package for model in models for package in families.MODELS[model].packages)
    missing = next((package for package in needed if not version_of(package)), None)
    if missing:
        name = "PyTorch" if missing == "torch" else missing
        raise RunError(f"{name} is not installed. Fix: pip install 'mednli_jax[torch]', or --against=none")


def machine() -> dict:
    """Versions and processor, for each line of the result."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    names = {"mednli_jax_version": "mednli_jax", "jax_version": "jax", "torch_version": "torch"}
    return {
        **{key: version_of(name) for key, name in names.items()},
        "python": platform.python_version(), "cpu": _processor(), "cpus": cores,
    }  # fmt: skip


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def json_writer(where: str | None) -> Callable[[dict], None]:
    """Writes a line of the result as JSON: to stdout ("true"), to the end of a file, or nowhere (None).

    Raises UsageError, before anything is measured, if the file cannot be written.
    """
    if where is None:
        return lambda row: None
    if where == "true":
        return lambda row: print(json.dumps(row, allow_nan=False), flush=True)
    path = Path(where).expanduser()
    try:
        with open(path, "a"):
            pass
    except OSError as error:
        raise UsageError(f"--json={path}: {error.strerror}. Fix: give a file that can be written.") from None
    return lambda row: append_line(path, json.dumps(row, allow_nan=False))


def check_figure(where: str) -> None:
    """Raises UsageError, before anything is measured, if the figure cannot be written or is no PNG file."""
    path = Path(where).expanduser()
    if where and (path.suffix.lower() != ".png" or not path.parent.is_dir() or path.is_dir()):
        raise UsageError(f"--figure={where}: expected a PNG file in a folder that exists. Fix: --figure=ratios.png")


def write_figure(results: list[dict], where: str) -> None:
    """Draws the ratio of each row and its range to a PNG file; rows without PyTorch are left out."""
    rows = [row for row in results if row["ratio"] is not None]
    if not rows:
        warn("no row was compared with PyTorch: no figure is drawn")
        return
    named = {
        f"{row['model']}, {row['mode']}, {row['batch']}{', premise groups' if row['grouping'] != 'off' else ''}"
        f"{', loaded' if row['loaded'] else ''}  |  {row['opponent']}": (
            row["ratio"],
            row["ratio_min"],
            row["ratio_max"],
        )
        for row in rows
    }
    title = f"Speed as a multiple of PyTorch's, {rows[0]['device']}"
    write_atomic(
        Path(where).expanduser(), charts.ranges(named, title=title, x="above 1: mednli_jax is faster", line=1.0)
    )
    say(f"figure: {where}")


def show(results: list[dict]) -> None:
    """Prints a table, by rich on a terminal, with tabs elsewhere."""
    titles, *cells = _lines(results)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        shown = Table(*titles)
        for line in cells:
            shown.add_row(*line)
        Console().print(shown)
    else:
        for line in [titles, *cells]:
            print("\t".join(line))
    if any(row["loaded"] for row in results):
        print(LOADED)


def markdown(results: list[dict]) -> list[str]:
    """The lines of the same table for a page of docs/."""
    titles, *cells = ([cell or "-" for cell in line] for line in _lines(results))
    lines = [f"| {' | '.join(line)} |" for line in [titles, ["---"] * len(titles), *cells]]
    return [*lines, "", LOADED] if any(row["loaded"] for row in results) else lines


def _lines(results):
    """The titles and the cells of each row. A column that is empty in all rows is left out."""
    table = [{**row, "spread": _spread(row)} for row in results]
    columns = {key: title for key, title in COLUMNS.items() if any(row[key] not in (None, "") for row in table)}
    cells = [[_cell(row[key]) + ("*" if key == "ratio" and row["loaded"] else "") for key in columns] for row in table]
    return [list(columns.values()), *cells]


def _spread(row):
    return "" if row["ratio"] is None else f"{row['ratio_min']:.2f}-{row['ratio_max']:.2f}"


def _cell(value):
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
