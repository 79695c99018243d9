"""Charts, drawn by matplotlib: inline SVG for a page, and files (PNG, SVG, PDF).

The SVG loads nothing and holds no script. Its text remains text. Its colours are the page's custom
properties (--ink, --c0 and so on in report.html.j2), which follow the light or dark theme. Equal
charts are equal bytes.
"""

import hashlib
import html
import io
import logging
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from mednli_jax.report.metrics import Bin

if TYPE_CHECKING:  # slow to import, and only some commands draw
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # else it logs the path of its font cache
# px of a chart without its legend, and of its axis of x; for a small screen
WIDTH, HEIGHT, AXIS = 360, 230, 290
DPI = 130  # of PNG
FEW = 10  # bars, which have room for their values
# share of its length that a turned label takes below the axis: the sine of its angle
TURN = 0.65
INK, SOFT, LINE = "#1b1f24", "#57606a", "#d8dee4"
# Distinct for colour-blind readers.
COLOURS = ("#0072b2", "#c2410c", "#007a5a", "#8b5cf6", "#b4518f", "#6b7280")
VARIABLES = {INK: "ink", SOFT: "soft", LINE: "line"}
VARIABLES |= {colour: f"c{number}" for number, colour in enumerate(COLOURS)}
# Parts of matplotlib's SVG that a page does without. The family of letters is the page's.
UNUSED = (
    r"(?s)<defs>.*?</defs>|<metadata>.*?</metadata>|<!--.*?-->| id=\"[^\"]*\"|\n *",
    r" font-family: [^;\"]*;|<g/>| transform=\"rotate\(-0 [^\"]*\"",
)
# Facts that would make two files of one chart differ.
UNDATED = {
    "png": ("Software",),
    "svg": ("Date", "Creator", "Format", "Type"),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
Point = tuple[float, float]


@dataclass(frozen=True)
class Chart:
    """A figure, its title, and in `description` the values that it shows, in words."""

    figure: "Figure"
    title: str
    description: str

    def svg(self) -> str:
        """Markup for a page; the chart takes the width that the page offers."""
        self.figure.patch.set_visible(False)
        file = file_of(self.figure, "svg", margins=True).decode()
        self.figure.patch.set_visible(True)
        body = file[file.index("<svg") :].partition(">")[2].rpartition("</svg>")[0]
        for pattern in UNUSED:
            body = re.sub(pattern, "", body)
        body = re.sub("|".join(VARIABLES), lambda colour: f"var(--{VARIABLES[colour[0]]})", body)
        # Two equal charts on a page may share an id.
        content = f"{self.title}{self.description}{body}"
        name = f"svg-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
        width, height = 72 * self.figure.get_size_inches()
        return (
            f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
            f'aria-labelledby="{name}-t {name}-d">'
            f'<title id="{name}-t">{html.escape(self.title)}</title>'
            f'<desc id="{name}-d">{html.escape(self.description)}</desc>{body}</svg>'
        )

    def file(self, kind: str) -> bytes:
        """A file of the chart with its title. kind: see UNDATED."""
        title = self.figure.axes[0].set_title(self.title, fontsize=11, color=INK)
        content = file_of(self.figure, kind)
        title.set_text("")  # the caption of a page says it
        return content


def file_of(figure: "Figure", kind: str, *, margins: bool = False) -> bytes:
    """The bytes of a figure, without date and version. No display is needed."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mednli_jax"}):
        figure.savefig(
            buffer,
            format=kind,
            dpi=DPI if kind == "png" else None,
            metadata=dict.fromkeys(UNDATED[kind]),
            bbox_inches=None if margins else "tight",
        )
    return buffer.getvalue()


class Line(NamedTuple):
    """A line of a seed through points. A point that is not finite breaks it."""

    name: str
    seed: int
    points: list[Point]
    dashed: bool = False


def curves(
    lines: Sequence[Line], *, title: str, x: str, y: str, marks: Sequence[Point] = ()
) -> Chart | None:
    """Lines through points (x, y); None if there is no point. The points of `marks` are
    highlighted.

    Lines of one name share a colour and an entry of the legend.
    """
    points = [point for line in lines for point in line.points if _is_finite(point)]
    if not points:
        return None
    names = list(dict.fromkeys(line.name for line in lines))
    figure, axes = _axes(x, y, names)
    x_values, y_values = zip(*points, strict=True)
    _scale(axes, y_values)
    first, last = min(x_values), max(x_values)
    axes.set_xlim(first, max(last, first + 1e-9))
    axes.set_xticks(_ticks(first, last, [mark[0] for mark in marks]))
    unlabelled = set(names)
    for line in lines:
        label = line.name if line.name in unlabelled else None
        unlabelled.discard(line.name)
        _draw_line(axes, line, COLOURS[names.index(line.name) % len(COLOURS)], label)
    for mark in marks:
        if _is_finite(mark):
            _circle(axes, mark, 4, INK, filled=False)
    _legend(figure, names)
    ends = []
    for line in lines:
        start, end = line.points[0][1], line.points[-1][1]
        ends.append(f"{line.name}:{line.seed} from {start:.3g} to {end:.3g}")
    return Chart(figure, title, f"{y} by {x}: {', '.join(ends)}")


def _ticks(first: float, last: float, marked: Iterable[float]) -> list[float]:
    """Marked values, and about six whole numbers that keep half a step of distance from them."""
    step = math.ceil((last - first) / 6) or 1
    ticks: list[float] = []
    for value in (*sorted(marked), *range(math.ceil(first), math.floor(last) + 1, step)):
        if all(abs(value - tick) >= step / 2 for tick in ticks):
            ticks.append(value)
    return sorted(ticks)


def _is_finite(point: Point) -> bool:
    return math.isfinite(point[1])


def _draw_line(axes: "Axes", line: Line, colour: str, label: str | None) -> None:
    x_values, y_values = zip(*line.points, strict=True)
    axes.plot(
        x_values,
        y_values,
        color=colour,
        linestyle=(0, (4, 3)) if line.dashed else "-",
        linewidth=1.6,
        alpha=0.9,
        clip_on=False,
        label=label,
    )
    # A point without neighbours makes no line.
    for number, point in enumerate(line.points):
        neighbours = (
            *line.points[max(number - 1, 0) : number],
            *line.points[number + 1 : number + 2],
        )
        if _is_finite(point) and not any(map(_is_finite, neighbours)):
            _circle(axes, point, 2.5, colour, filled=True)


def bars(
    series: Mapping[str, Sequence[float]],
    ticks: Sequence[str],
    *,
    title: str,
    x: str,
    y: str,
) -> Chart | None:
    """Groups of bars: at each tick one bar of every series; None without any. Few bars of one
    series show values."""
    ends = [value for values in series.values() for value in values]
    if not ends:
        return None
    # Words that do not fit are turned; if numbers do not fit, some are left out.
    longest = max(map(len, ticks), default=1) * 7  # px
    turned = longest * len(ticks) > AXIS and not all(tick.isdecimal() for tick in ticks)
    names = list(series) if len(series) > 1 else []
    more = min(longest, HEIGHT) * TURN if turned else 0
    figure, axes = _axes(x, y, names, more)
    _scale(axes, [0.0, *ends])
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        drawn = axes.bar(
            np.arange(len(values)) + (number - (len(series) - 1) / 2) * width,
            values,
            0.92 * width,
            color=COLOURS[number % len(COLOURS)],
            label=name,
            clip_on=False,
            linewidth=0,
        )
        if not names and len(values) <= FEW:
            axes.bar_label(drawn, list(map(_number, values)), padding=2, fontsize=9, color=SOFT)
    axes.axhline(0, color=SOFT, linewidth=1, clip_on=False)
    axes.set_xlim(-0.5, len(ticks) - 0.5)
    if turned:
        axes.set_xticks(range(len(ticks)), ticks, rotation=40, ha="right", rotation_mode="anchor")
    else:
        skip = math.ceil(len(ticks) * longest / AXIS)
        axes.set_xticks(range(0, len(ticks), skip), ticks[::skip])
    _legend(figure, names)
    return Chart(figure, title, f"{y} by {x}. {_in_words(series, ticks, _number)}")


def heat_map(
    counts: Sequence[Sequence[int]], names: Sequence[str], *, title: str, rows: str, columns: str
) -> Chart:
    """A confusion matrix: counts, and the share of their row as a shade and in per cent. The
    darkest shade leaves the text a contrast of 4.5:1 in a light and a dark page."""
    from matplotlib.patches import Rectangle

    side, high, left, top = 84, 56, 92, 44  # px
    width, height = left + side * len(names) + 6, top + high * len(names) + 6
    figure = _figure(width, height, layout=None)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.axis("off")

    def text(x: float, y: float, words: str, colour: str = SOFT, ha: str = "center") -> None:
        axes.text(x, y, words, color=colour, fontsize=11, ha=ha)

    text(left + side * len(names) / 2, 14, columns)
    text(4, top - 10, rows, ha="left")
    for i, row in enumerate(counts):
        y, total = top + high * i, sum(row) or 1
        text(left + side * (i + 0.5), top - 10, names[i])
        text(left - 6, y + 32, names[i], ha="right")
        for j, count in enumerate(row):
            x, share = left + side * j, count / total
            cell = Rectangle(
                (x + 1, y + 1),
                side - 2,
                high - 2,
                clip_on=False,
                facecolor=COLOURS[0],
                edgecolor=LINE,
                alpha=0.06 + 0.49 * share,
            )
            axes.add_patch(cell)
            middle = x + side / 2
            number = axes.text(middle, y + 26, f"{count:,}", color=INK, fontsize=14, ha="center")
            number.set_fontweight("bold")
            text(middle, y + 42, f"{share:.0%}", INK)
    shown = _in_words(dict(zip(names, counts, strict=True)), names, str)
    return Chart(figure, title, f"{rows} in rows, {columns} in columns. {shown}")


def reliability(bins: Sequence[Bin], *, title: str) -> Chart | None:
    """Accuracy against confidence, with a circle for each bin whose area is its share of the rows;
    on the dashed line both are the same. None without rows."""
    total = sum(row["count"] for row in bins)
    if not total:
        return None
    x, y = "confidence (%)", "accuracy (%)"
    figure, axes = _axes(x, y, ())
    dashes = (0, (4, 3))
    axes.plot((0, 100), (0, 100), color=SOFT, linestyle=dashes, linewidth=1, clip_on=False)
    points, words = [], []
    for row in bins:
        if row["confidence"] is not None and row["accuracy"] is not None:
            point = 100 * row["confidence"], 100 * row["accuracy"]
            points.append(point)
            words.append(f"{point[0]:.0f} {point[1]:.0f} ({row['count']})")
            radius = max(2.0, 12 * math.sqrt(row["count"] / total))
            _circle(axes, point, radius, COLOURS[0], filled=True)
    axes.plot(*zip(*points, strict=True), color=COLOURS[0], linewidth=1.6, clip_on=False)
    ticks = range(0, 101, 20)
    axes.set(xlim=(0, 100), ylim=(0, 100), xticks=ticks, yticks=ticks)
    return Chart(figure, title, f"{y} by {x}, and rows: {', '.join(words)}")


def ranked(name: str, rows: Mapping[str, float], *, title: str, x: str) -> bytes:
    """PNG: horizontal bars, the first on top. name: of the rows."""
    places = range(len(rows))
    longest = max(1, len(rows))
    figure = _figure(302, 17 * longest + 94)
    figure.suptitle(title)
    axes = figure.subplots()
    axes.barh(places, list(rows.values()), color=COLOURS[0])
    axes.set_yticks(places, list(rows), fontsize=8)
    axes.set(ylim=(longest - 0.5, -0.5), xlabel=x)
    axes.set_title(name, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    return file_of(figure, "png")


class Range(NamedTuple):
    """A value, its interval, and both in words."""

    value: float
    low: float
    high: float
    words: str


def ranges(
    rows: Mapping[str, Range], *, title: str, x: str, line: float, width: int = WIDTH
) -> Chart:
    """A dot with its interval for each row, the first on top, below its name and its words; `line`
    is marked. width: in px."""
    figure = _figure(width, 42 * len(rows) + 56)
    axes = figure.subplots()
    axes.patch.set_visible(False)
    axes.spines[:].set_visible(False)
    ends, words = [0.0, line], []
    for place, (name, row) in enumerate(rows.items()):
        axes.plot((row.low, row.high), (place, place), color=COLOURS[0], linewidth=2, clip_on=False)
        axes.plot((line, line), (place - 0.2, place + 0.2), color=SOFT, linewidth=1, clip_on=False)
        _circle(axes, (row.value, place), 4, COLOURS[0], filled=True)
        across = axes.get_yaxis_transform()
        axes.text(0, place - 0.25, name, transform=across, color=INK, fontsize=11)
        axes.text(1, place - 0.25, row.words, transform=across, color=INK, fontsize=11, ha="right")
        ends += [row.low, row.high]
        words.append(f"{name} {row.words}")
    axes.set(xlim=(min(ends), max(ends)), ylim=(len(rows) - 0.5, -0.8), yticks=())
    axes.set_xlabel(x, color=SOFT, fontsize=11)
    axes.tick_params(length=0, pad=5, labelsize=11, labelcolor=SOFT)
    return Chart(figure, title, f"{x}: {'; '.join(words)}")


def density(edges: Sequence[float], values: Sequence[float], *, title: str, x: str) -> bytes:
    """PNG: a histogram of bins between `edges` whose area is 1."""
    figure = _figure(WIDTH, 260)
    axes = figure.subplots()
    axes.stairs(values, edges, color=COLOURS[0], fill=True, alpha=0.4)
    axes.stairs(values, edges, color=COLOURS[0])
    axes.set(title=title, xlabel=x, ylabel="density")
    axes.spines[["top", "right"]].set_visible(False)
    return file_of(figure, "png")


def attention(maps: Mapping[str, np.ndarray], rows: Sequence[str], columns: Sequence[str]) -> bytes:
    """PNG: one map beside the other, each a matrix [rows, columns] of weights from 0 to 1, named by
    its key."""
    width, height = max(144, 23 * len(columns)) + 115, max(108, 19 * len(rows)) + 115
    figure = _figure(width * len(maps), height)
    for number, (title, matrix) in enumerate(maps.items(), start=1):
        axes = figure.add_subplot(1, len(maps), number)
        image = axes.imshow(np.asarray(matrix), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
        axes.set_title(title, fontsize=10)
        axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=8)
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        figure.colorbar(image, ax=axes, fraction=0.05)
    return file_of(figure, "png")


def _figure(
    width: float, height: float, layout: Literal["constrained"] | None = "constrained"
) -> "Figure":
    """A figure of a size in px, without pyplot's global state."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["text.parse_math"] = False  # else a dollar sign would begin a formula
    return Figure(figsize=(width / 72, height / 72), layout=layout)


def _axes(x: str, y: str, names: Collection[str], more: float = 0) -> tuple["Figure", "Axes"]:
    """A figure and its axes, with room for a legend of these names, and for labels of `more` px
    beyond a line."""
    figure = _figure(WIDTH, HEIGHT + 16 * len(names) + more)
    axes = figure.subplots()
    axes.set_xlabel(x, color=SOFT, fontsize=11)
    axes.set_ylabel(y, color=SOFT, fontsize=11)
    axes.patch.set_visible(False)
    axes.spines[:].set_visible(False)
    axes.grid(axis="y", color=LINE, linewidth=1, clip_on=False)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=5, labelsize=11, labelcolor=SOFT)
    return figure, axes


def _scale(axes: "Axes", values: Iterable[float]) -> None:
    """Sets round numbers as ticks, which enclose the values."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = min(values), max(values)
    ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high if high > low else low + 1)
    axes.set_ylim(ticks[0], ticks[-1])
    axes.set_yticks(ticks)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(round(value, 10))))


def _circle(axes: "Axes", point: Point, radius: float, colour: str, *, filled: bool) -> None:
    """A circle of a radius in px. It is a patch, because the page forbids the references that
    markers use."""
    from matplotlib.patches import Circle
    from matplotlib.transforms import ScaledTranslation

    # matplotlib's types ask for an affine transform; any works.
    centre = ScaledTranslation(*point, axes.transData)  # type: ignore[arg-type]
    place = axes.figure.dpi_scale_trans + centre
    circle = Circle(
        (0, 0), radius / 72, transform=place, clip_on=False, zorder=3, fill=filled, color=colour
    )
    if not filled:
        circle.set_linewidth(1.3)
    axes.add_patch(circle)


def _legend(figure: "Figure", names: Collection[str]) -> None:
    if names:
        figure.legend(
            loc="outside lower left",
            frameon=False,
            fontsize=11,
            labelcolor=SOFT,
            labelspacing=0.25,
            handlelength=1.4,
        )


def _in_words(
    series: Mapping[str, Sequence[float]], ticks: Sequence[str], show: Callable[[float], str]
) -> str:
    """The values of a chart: `name: tick value, tick value; name: ...`."""
    words = []
    for name, values in series.items():
        shown = [f"{tick} {show(value)}" for tick, value in zip(ticks, values, strict=True)]
        words.append(f"{name}: {', '.join(shown)}")
    return "; ".join(words)


def _number(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-4):
        return f"{value:.0e}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
