"""Pictures, as PNG bytes. Drawn without a display and without pyplot's global state."""

import io
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DPI = 130
# Okabe & Ito 2008: distinct for colour-blind readers, and in grey.
COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9")


def png(figure: Figure) -> bytes:
    """The picture's bytes; no date and no version in them, so that equal pictures are equal files."""
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def heat_maps(maps: Mapping[str, np.ndarray], rows: Sequence[str], columns: Sequence[str]) -> bytes:
    """One map beside the other, each a matrix [rows, columns] of weights from 0 to 1, named by its key."""
    size = (max(2.0, 0.32 * len(columns)) + 1.6, max(1.5, 0.26 * len(rows)) + 1.6)
    figure = Figure(figsize=(size[0] * len(maps), size[1]), layout="constrained")
    for axes, (title, matrix) in zip(np.ravel(figure.subplots(1, len(maps))), maps.items(), strict=True):
        image = axes.imshow(np.asarray(matrix), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
        axes.set_title(title, fontsize=10)
        axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=8)
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        figure.colorbar(image, ax=axes, fraction=0.05)
    return png(figure)


def bars(
    series: Mapping[str, Sequence[float]], ticks: Sequence[str], *, title: str, x: str, y: str, log: bool = False
) -> bytes:
    """Groups of bars: at each tick one bar of every series."""
    figure = Figure(figsize=(max(5.0, 0.45 * len(ticks) + 2), 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / max(len(series), 1)
    for i, (name, values) in enumerate(series.items()):
        left = np.arange(len(ticks)) + (i - (len(series) - 1) / 2) * width
        axes.bar(left, values, width, label=name, color=COLOURS[i % len(COLOURS)])
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set(title=title, xlabel=x, ylabel=y, yscale="log" if log else "linear")
    axes.spines[["top", "right"]].set_visible(False)
    if len(series) > 1:
        axes.legend(frameon=False)
    return png(figure)


def ranked(panels: Mapping[str, Sequence[tuple[str, float]]], *, title: str, x: str) -> bytes:
    """A panel of horizontal bars (name, value) for each key, the first bar on top."""
    longest = max(1, *map(len, panels.values()))
    figure = Figure(figsize=(4.2 * len(panels), 0.24 * longest + 1.3), layout="constrained")
    figure.suptitle(title)
    for i, (axes, (name, rows)) in enumerate(
        zip(np.ravel(figure.subplots(1, len(panels))), panels.items(), strict=True)
    ):
        axes.barh(range(len(rows)), [value for _, value in rows], color=COLOURS[i % len(COLOURS)])
        # A dollar sign would begin a formula.
        axes.set_yticks(range(len(rows)), [word.replace("$", r"\$") for word, _ in rows], fontsize=8)
        axes.set_ylim(longest - 0.5, -0.5)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel(x)
        axes.spines[["top", "right"]].set_visible(False)
    return png(figure)


def density(edges: Sequence[float], values: Sequence[float], *, title: str, x: str) -> bytes:
    """A histogram of bins between `edges` whose area is 1."""
    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.stairs(values, edges, color=COLOURS[0], fill=True, alpha=0.4)
    axes.stairs(values, edges, color=COLOURS[0])
    axes.set(title=title, xlabel=x, ylabel="density")
    axes.spines[["top", "right"]].set_visible(False)
    return png(figure)
