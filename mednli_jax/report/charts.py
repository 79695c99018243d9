"""Charts, drawn by matplotlib: pictures in a page, and files (PNG, SVG, PDF).

All have the style of charts.mplstyle, on white in a light and in a dark page. A picture loads
nothing. Equal charts are equal bytes.
"""

import base64
import contextlib
import io
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:  # slow to import, and only some commands draw
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # else it logs the path of its font cache
# Points of a chart without its legend, and of its axis of x.
WIDTH, HEIGHT, AXIS = 360, 230, 290
FEW = 10  # bars, which have room for their values
# share of its length that a turned label takes below the axis: the sine of its angle
TURN = 0.65
# Facts that would make two files of one chart differ.
UNDATED = {
    "png": ("Software",),
    "svg": ("Date", "Creator", "Format", "Type"),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
Point = tuple[float, float]


@contextlib.contextmanager
def _style() -> Iterator[None]:
    """Applies the package's style to matplotlib, whatever the user's is."""
    import matplotlib.style

    with matplotlib.style.context("mednli_jax.report.charts", after_reset=True):
        yield


@dataclass(frozen=True)
class Chart:
    """A figure, its title, and a description of the values that it shows."""

    figure: "Figure"
    title: str
    description: str

    @_style()
    def data_url(self) -> str:
        """The chart without its title, as the source of a picture in a page."""
        return f"data:image/svg+xml;base64,{base64.b64encode(file_of(self.figure, 'svg')).decode()}"

    @_style()
    def file(self, kind: str) -> bytes:
        """A file of the chart with its title. kind: see UNDATED."""
        title = self.figure.axes[0].set_title(self.title)
        content = file_of(self.figure, kind)
        title.set_text("")  # the caption of a page says it
        return content


def file_of(figure: "Figure", kind: str) -> bytes:
    """The bytes of a figure, without date and version. No display is needed."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, metadata=dict.fromkeys(UNDATED[kind]))
    return buffer.getvalue()


class Line(NamedTuple):
    """A line of a seed through points. A point that is not finite breaks it."""

    name: str
    seed: int
    points: list[Point]
    dashed: bool = False


@_style()
def curves(
    lines: Sequence[Line], *, title: str, x: str, y: str, marks: Sequence[Point] = ()
) -> Chart | None:
    """Charts lines through points (x, y); None if there is no point. The points of `marks` are
    highlighted.

    Lines of one name share a colour and an entry of the legend.
    """
    from matplotlib.ticker import MaxNLocator

    values = [value for line in lines for _, value in line.points]
    if not any(map(math.isfinite, values)):
        return None
    names = list(dict.fromkeys(line.name for line in lines))
    figure, axes = _axes(x, y, len(names))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ends = []
    unlabelled = set(names)
    for line in lines:
        axes.plot(
            *zip(*line.points, strict=True),
            "--" if line.dashed else "-",
            marker=".",  # a point without neighbours makes no line
            markersize=5,
            color=f"C{names.index(line.name)}",
            clip_on=False,
            label=line.name if line.name in unlabelled else None,
        )
        unlabelled.discard(line.name)
        start, end = line.points[0][1], line.points[-1][1]
        ends.append(f"{line.name}:{line.seed} from {start:.3g} to {end:.3g}")
    for mark in marks:
        axes.plot(*mark, "o", color="black", fillstyle="none", markersize=8, clip_on=False)
    figure.legend(loc="outside lower left")
    return Chart(figure, title, f"{y} by {x}: {', '.join(ends)}")


@_style()
def bars(
    series: Mapping[str, Sequence[float]],
    ticks: Sequence[str],
    *,
    title: str,
    x: str,
    y: str,
) -> Chart | None:
    """Charts groups of bars: at each tick one bar of every series; None without any. Few bars of
    one series show values."""
    if not any(map(len, series.values())):
        return None
    # Words that do not fit are turned; if numbers do not fit, some are left out.
    longest = max(map(len, ticks), default=1) * 7  # points
    turned = longest * len(ticks) > AXIS and not all(map(str.isdecimal, ticks))
    is_single = len(series) == 1
    more = min(longest, HEIGHT) * TURN if turned else 0
    figure, axes = _axes(x, y, 0 if is_single else len(series), more)
    if turned:
        axes.set_xticks(range(len(ticks)), ticks, rotation=40, ha="right", rotation_mode="anchor")
    else:
        skip = math.ceil(len(ticks) * longest / AXIS)
        axes.set_xticks(range(0, len(ticks), skip), ticks[::skip])
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        places = np.arange(len(values)) + (number - (len(series) - 1) / 2) * width
        drawn = axes.bar(places, values, 0.92 * width, label=name)
        if is_single and len(values) <= FEW:
            axes.bar_label(drawn, list(map(_number, values)), padding=2, fontsize=9)
    axes.axhline(0, color="gray", linewidth=1)
    if not is_single:
        figure.legend(loc="outside lower left")
    words = []
    for name, values in series.items():
        words.append(f"{name}: {_in_words(ticks, map(_number, values))}")
    return Chart(figure, title, f"{y} by {x}. {'; '.join(words)}")


@_style()
def heat_map(
    counts: Sequence[Sequence[int]], names: Sequence[str], *, title: str, rows: str, columns: str
) -> Chart:
    """Charts a confusion matrix: counts, and the share of their row as a shade and in per cent."""
    figure = _figure(max(WIDTH, 92 + 84 * len(names)), 50 + 56 * len(names))
    axes = figure.subplots()
    totals = np.maximum(np.sum(counts, axis=1, keepdims=True), 1)
    shares = counts / totals
    # The lighter half of the map leaves the text a contrast of 4.5:1.
    axes.pcolormesh(shares, cmap="Blues", vmin=0, vmax=2, edgecolors="white", linewidth=2)
    words = []
    for place, name in enumerate(names):
        for column, (count, share) in enumerate(zip(counts[place], shares[place], strict=True)):
            text = f"{count:,}\n{share:.0%}"
            axes.text(column + 0.5, place + 0.5, text, ha="center", va="center")
        words.append(f"{name}: {_in_words(names, map(str, counts[place]))}")
    middles = np.arange(len(names)) + 0.5
    axes.set_xticks(middles, names)
    axes.set_yticks(middles, names)
    axes.set(xlabel=columns, ylabel=rows)
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()
    axes.invert_yaxis()
    return Chart(figure, title, f"{rows} in rows, {columns} in columns. {'; '.join(words)}")


@_style()
def ranking(name: str, rows: Mapping[str, float], *, title: str, x: str) -> bytes:
    """Draws horizontal bars, the first on top, as PNG. name: of the rows."""
    places = range(len(rows))
    longest = max(1, len(rows))
    figure = _figure(302, 17 * longest + 94)
    figure.suptitle(title)
    axes = figure.subplots()
    axes.barh(places, list(rows.values()))
    axes.set_yticks(places, list(rows), fontsize=8)
    axes.set(ylim=(longest - 0.5, -0.5), xlabel=x, title=name)
    return file_of(figure, "png")


class Range(NamedTuple):
    """A value, its interval, and both in words."""

    value: float
    low: float
    high: float
    words: str


@_style()
def ranges(
    rows: Mapping[str, Range], *, title: str, x: str, line: float, width: int = WIDTH
) -> Chart:
    """Charts a dot with its interval for each row, the first on top, below its name and its words;
    `line` is marked. width: in points."""
    figure = _figure(width, 42 * len(rows) + 56)
    axes = figure.subplots()
    words = []
    for place, (name, row) in enumerate(rows.items()):
        axes.plot((line, line), (place - 0.2, place + 0.2), color="gray", linewidth=1)
        axes.plot((row.low, row.high), (place, place), color="C0")
        axes.plot(row.value, place, "o", color="C0")
        across = axes.get_yaxis_transform()
        axes.text(0, place - 0.25, name, transform=across)
        axes.text(1, place - 0.25, row.words, transform=across, ha="right")
        words.append(f"{name} {row.words}")
    axes.set(ylim=(len(rows) - 0.5, -0.8), yticks=(), xlabel=x)
    return Chart(figure, title, f"{x}: {'; '.join(words)}")


@_style()
def density(edges: Sequence[float], values: Sequence[float], *, title: str, x: str) -> bytes:
    """Draws a histogram of bins between `edges` whose area is 1, as PNG."""
    figure = _figure(WIDTH, 260)
    axes = figure.subplots()
    axes.stairs(values, edges, color="C0", fill=True, alpha=0.4)
    axes.stairs(values, edges, color="C0")
    axes.set(title=title, xlabel=x, ylabel="density", xlim=(edges[0], edges[-1]))
    return file_of(figure, "png")


@_style()
def attention(maps: Mapping[str, np.ndarray], rows: Sequence[str], columns: Sequence[str]) -> bytes:
    """Draws one map beside the other, each a matrix [rows, columns] of weights from 0 to 1, named
    by its key, as PNG."""
    width, height = max(144, 23 * len(columns)) + 115, max(108, 19 * len(rows)) + 115
    figure = _figure(width * len(maps), height)
    for number, (title, matrix) in enumerate(maps.items(), start=1):
        axes = figure.add_subplot(1, len(maps), number)
        image = axes.imshow(np.asarray(matrix), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
        axes.set_title(title)
        axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=8)
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        figure.colorbar(image, ax=axes, fraction=0.05)
    return file_of(figure, "png")


def _figure(width: float, height: float) -> "Figure":
    """A figure of a size in points, without pyplot's global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72))


def _axes(x: str, y: str, entries: int = 0, more: float = 0) -> tuple["Figure", "Axes"]:
    """A figure and its axes, with room for the entries of a legend, and for labels of `more`
    points beyond a line."""
    figure = _figure(WIDTH, HEIGHT + 16 * entries + more)
    axes = figure.subplots()
    axes.set(xlabel=x, ylabel=y)
    axes.grid(axis="y")
    return figure, axes


def _in_words(names: Sequence[str], values: Iterable[str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
