"""Output of the benchmark: a table, JSON lines, a figure, and a description of the machine in each line."""

import json
import os
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from mednli_jax.errors import RunError, UsageError
from mednli_jax.io import append_line, say, warn, write_atomic
from mednli_jax.report import charts

COLUMNS = {
    "model": "model", "batch": "batch", "seeds": "seeds", "mode": "mode", "grouping": "grouping",
    "examples_per_second": "examples/s", "torch_examples_per_second": "torch", "ratio": "ratio",
    "spread": "spread", "seconds": "seconds", "seeds_cost": "seeds cost",
    "peak_mb": "MB", "torch_peak_mb": "torch MB", "compile_seconds": "compile s", "opponent": "opponent",
}  # fmt: skip
LOADED = "*: others used the machine as the row began; measure again."


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_installed(cases) -> None:
    """Raises RunError if the PyTorch side of one of the cases needs a package that is missing."""
    for package in dict.fromkeys(package for case in cases for package in case.family.packages):
        if not version_of(package):
            name = "PyTorch" if package == "torch" else package
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
        f"{row['model']}, {row['mode']}, {row['batch']}{', premise groups' * (row['grouping'] != 'off')}"
        f"{', loaded' * row['loaded']}  |  {row['opponent']}": (row["ratio"], row["ratio_min"], row["ratio_max"])
        for row in rows
    }
    title, x = f"Speed as a multiple of PyTorch's, {rows[0]['device']}", "above 1: mednli_jax is faster"
    write_atomic(Path(where).expanduser(), charts.ranges(named, title=title, x=x, line=1.0))
    say(f"figure: {where}")


def lines(results: list[dict], markdown: bool = False) -> list[str]:
    """The table, with tabs or for a page of docs/. A column that is empty in all rows is left out."""
    table = [{**row, "spread": _spread(row)} for row in results]
    columns = {key: title for key, title in COLUMNS.items() if any(row[key] not in (None, "") for row in table)}
    cells = [[_cell(row[key]) + "*" * (key == "ratio" and row["loaded"]) for key in columns] for row in table]
    if markdown:
        filled = [[cell or "-" for cell in line] for line in (columns.values(), ["---"] * len(columns), *cells)]
        found = [f"| {' | '.join(line)} |" for line in filled]
    else:
        found = ["\t".join(line) for line in (columns.values(), *cells)]
    return [*found, *(["", LOADED] if any(row["loaded"] for row in results) else [])]


def _spread(row):
    return "" if row["ratio"] is None else f"{row['ratio_min']:.2f}-{row['ratio_max']:.2f}"


def _cell(value):
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
