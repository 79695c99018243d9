"""The rows of the benchmark as a table and as a chart. A row is an object of the command's JSON."""

from collections.abc import Sequence
from pathlib import Path

from mednli_jax.files.writing import write_atomic
from mednli_jax.report import charts
from mednli_jax.report.sections import Grid, markdown
from mednli_jax.terminal import say, warn
from mednli_jax.types import JsonObject

COLUMNS = (
    "model",
    "batch",
    "seeds",
    "mode",
    "grouping",
    "examples_per_second",
    "torch_examples_per_second",
    "ratio",
    "ratio_min",
    "ratio_max",
    "seconds",
    "seeds_cost",
    "peak_mb",
    "torch_peak_mb",
    "compile_seconds",
    "opponent",
)


def lines(rows: Sequence[JsonObject]) -> list[str]:
    """The table in Markdown. A column that is empty in all rows is left out."""
    table = list(map(_cells, rows))
    filled = set().union(*table)
    columns = tuple(name for name in COLUMNS if name in filled)
    body = []
    for cells in table:
        body.append(tuple(cells.get(name, "-") for name in columns))
    return list(markdown(Grid("", columns, body)))


def _cells(row: JsonObject) -> dict[str, str]:
    """The cells of a row, with the settings of PyTorch that gave no answer."""
    cells = {}
    for name, value in row.items():
        if value is not None:
            cells[name] = f"{value:g}" if isinstance(value, float) else str(value)
    silent = [note.partition(":")[0] for note in row["notes"] if not note.endswith(" examples/s")]
    if silent:
        cells["opponent"] += f" (no answer: {'; '.join(silent)})"
    return cells


def write_figure(rows: Sequence[JsonObject], path: Path) -> None:
    """Draws the ratio of each row and its range to a PNG file; rows without PyTorch are left
    out."""
    ranges = {}
    for row in rows:
        if not row["ratio"]:
            continue
        groups = "" if row["grouping"] == "off" else ", premise groups"
        case = f"{row['model']}, {row['mode']}, batch {row['batch']}{groups}"
        values = row["ratio"], row["ratio_min"], row["ratio_max"]
        words = "{:.2f} ({:.2f} to {:.2f})".format(*values)
        ranges[f"{case}; PyTorch: {row['opponent']}"] = charts.Range(*values, words)
    if not ranges:
        warn("no row was compared with PyTorch: no figure is drawn")
        return
    machine, others = rows[0], max(row["others"] for row in rows)
    title = f"Examples per second, mednli_jax over PyTorch, on {machine['device']}"
    x = (
        "times PyTorch's speed: right of the line mednli_jax is faster\n"
        f"dot: median of {machine['rounds']} rounds; bar: slowest to fastest round\n"
        f"{machine['cpu']}, {machine['cpus']} processors; other programs took up to {others:.0%}"
    )
    chart = charts.ranges(ranges, title=title, x=x, line=1.0, width=620)
    write_atomic(path, chart.file("png"))
    say(f"figure: {path}")
