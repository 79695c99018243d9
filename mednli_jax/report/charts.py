"""Charts, drawn by matplotlib: inline SVG for a page, PNG for a file.

The SVG loads nothing and holds no script. Its text remains text. Its colours are the page's custom
properties (--ink,
--c0 and so on in report.html.j2), which follow the light or dark theme. Equal charts are equal bytes.
"""

import hashlib
import html
import io
import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # slow to import, and only some commands draw
    from matplotlib.figure import Figure

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # else it logs the path of its font cache
WIDTH, HEIGHT, AXIS = (
    360,
    230,
    290,
)  # px of a chart without its legend, for a small screen; AXIS: the axis of x
DPI = 130  # of PNG
FEW = 10  # bars, which have room for their values
# share of its length that a turned label takes below the axis: the sine of its angle
TURN = 0.65
INK, SOFT, LINE, ON = "#1b1f24", "#57606a", "#d8dee4", "#ffffff"
# Distinct for colour-blind readers.
COLOURS = ("#0072b2", "#c2410c", "#007a5a", "#8b5cf6", "#b4518f", "#6b7280")
VARIABLES = {
    INK: "ink",
    SOFT: "soft",
    LINE: "line",
    ON: "on",
    **{c: f"c{i}" for i, c in enumerate(COLOURS)},
}


@dataclass(frozen=True)
class Chart:
    """A figure, its title, and in `description` the values that it shows, in words."""

    figure: "Figure"
    title: str
    description: str

    def svg(self) -> str:
        """Markup for a page; the chart takes the width that the page offers."""
        import matplotlib

        self.figure.patch.set_visible(False)
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mednli_jax"}):
            self.figure.savefig(buffer, format="svg", metadata=nothing)
        self.figure.patch.set_visible(True)
        body = buffer.getvalue()
        body = body[body.index("<svg") :].partition(">")[2].rpartition("</svg>")[0]
        body = re.sub(
            r"(?s)<defs>.*?</defs>|<metadata>.*?</metadata>|<!--.*?-->| id=\"[^\"]*\"|\n *",
            "",
            body,
        )
        # The family of letters is the page's.
        body = re.sub(r" font-family: [^;\"]*;|<g/>| transform=\"rotate\(-0 [^\"]*\"", "", body)
        body = re.sub("|".join(VARIABLES), lambda colour: f"var(--{VARIABLES[colour[0]]})", body)
        # Two equal charts on a page may share an id.
        name = (
            "svg-"
            + hashlib.sha256(f"{self.title}{self.description}{body}".encode()).hexdigest()[:12]
        )
        width, height = 72 * self.figure.get_size_inches()
        return (
            f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-labelledby="{name}-t {name}-d">'
            f'<title id="{name}-t">{html.escape(self.title)}</title>'
            f'<desc id="{name}-d">{html.escape(self.description)}</desc>{body}</svg>'
        )

    def png(self) -> bytes:
        """The chart as a PNG file with its title."""
        self.figure.axes[0].set_title(self.title, fontsize=11, color=INK)
        return png(self.figure)


def png(figure: "Figure") -> bytes:
    """The bytes of a figure, without date and version. No display is needed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None}, bbox_inches="tight")
    return buffer.getvalue()


def curves(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    x: str,
    y: str,
    dashed: Sequence[str] = (),
    marks: Sequence[tuple[float, float]] = (),
) -> Chart | None:
    """Lines through points (x, y); None if there is no point. A point that is not finite breaks the
    line.

    Series with the same name before ":" share a colour and an entry of the legend; `dashed` has
    such names. The points of `marks` are highlighted.
    """
    points = [p for line in series.values() for p in line if math.isfinite(p[1])]
    if not points:
        return None
    names = list(dict.fromkeys(name.partition(":")[0] for name in series))
    axes = _axes(x, y, names)
    _scale(axes, [p[1] for p in points])
    ends = min(p[0] for p in points), max(p[0] for p in points)
    axes.set_xlim(ends[0], max(ends[1], ends[0] + 1e-9))
    axes.set_xticks(
        range(math.ceil(ends[0]), math.floor(ends[1]) + 1, math.ceil((ends[1] - ends[0]) / 6) or 1)
    )
    unnamed = list(names)
    for name, line in series.items():
        base = name.partition(":")[0]
        style = {
            "color": COLOURS[names.index(base) % 6],
            "linestyle": (0, (4, 3)) if base in dashed else "-",
        }
        label = unnamed.pop(0) if base in unnamed[:1] else None
        axes.plot(
            *zip(*line, strict=True), linewidth=1.6, alpha=0.9, clip_on=False, label=label, **style
        )
        for number, point in enumerate(line):  # without neighbours there would be no line
            near = [line[i][1] for i in (number - 1, number + 1) if 0 <= i < len(line)]
            if math.isfinite(point[1]) and not any(map(math.isfinite, near)):
                _dot(axes, point, 2.5, color=style["color"])
    for mark in (mark for mark in marks if math.isfinite(mark[1])):
        _dot(axes, mark, 4, fill=False, edgecolor=INK, linewidth=1.3)
    _legend(axes, names)
    shown_ends = ", ".join(
        f"{name} from {line[0][1]:.3g} to {line[-1][1]:.3g}" for name, line in series.items()
    )
    return Chart(axes.figure, title, f"{y} by {x}: {shown_ends}")


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
    ends = [v for values in series.values() for v in values]
    if not ends:
        return None
    # Words that do not fit are turned; if numbers do not fit, some are left out.
    long = max(map(len, ticks), default=1) * 7  # px
    turned = long * len(ticks) > AXIS and not all(tick.isdecimal() for tick in ticks)
    names = series if len(series) > 1 else ()
    axes = _axes(x, y, names, more=min(long, HEIGHT) * TURN if turned else 0)
    _scale(axes, [0.0, *ends])
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        places = np.arange(len(values)) + (number - (len(series) - 1) / 2) * width
        how = {"color": COLOURS[number % 6], "label": name, "clip_on": False, "linewidth": 0}
        drawn = axes.bar(places, values, 0.92 * width, **how)
        if not names and len(values) <= FEW:
            axes.bar_label(drawn, map(_number, values), padding=2, fontsize=9, color=SOFT)
    axes.axhline(0, color=SOFT, linewidth=1, clip_on=False)
    axes.set_xlim(-0.5, len(ticks) - 0.5)
    skip = 1 if turned else math.ceil(len(ticks) * long / AXIS)
    how = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if turned else {}
    axes.set_xticks(range(0, len(ticks), skip), ticks[::skip], **how)
    _legend(axes, names)
    return Chart(axes.figure, title, f"{y} by {x}. {_in_words(series, ticks, _number)}")


def heat_map(
    counts: Sequence[Sequence[int]], names: Sequence[str], *, title: str, rows: str, columns: str
) -> Chart:
    """A confusion matrix: counts, and the share of their row as a shade and in per cent."""
    from matplotlib.patches import Rectangle

    side, high, left, top = 84, 56, 92, 44  # px
    size = left + side * len(names) + 6, top + high * len(names) + 6
    axes = _figure(*size).add_axes((0, 0, 1, 1), xlim=(0, size[0]), ylim=(size[1], 0))
    axes.axis("off")

    def text(x, y, words, colour=SOFT, size=11, **style):
        axes.text(x, y, words, color=colour, fontsize=size, ha=style.pop("ha", "center"), **style)

    text(left + side * len(names) / 2, 14, columns)
    text(4, top - 10, rows, ha="left")
    for i, row in enumerate(counts):
        y, total = top + high * i, sum(row) or 1
        text(left + side * (i + 0.5), top - 10, names[i])
        text(left - 6, y + 32, names[i], ha="right")
        for j, count in enumerate(row):
            x, share = left + side * j, count / total
            cell = {"facecolor": COLOURS[0], "edgecolor": LINE, "alpha": 0.06 + 0.94 * share}
            axes.add_patch(Rectangle((x + 1, y + 1), side - 2, high - 2, clip_on=False, **cell))
            strong = share > 0.55
            text(x + side / 2, y + 26, f"{count:,}", ON if strong else INK, 14, fontweight="bold")
            text(x + side / 2, y + 42, f"{share:.0%}", ON if strong else SOFT)
    shown = _in_words(dict(zip(names, counts, strict=True)), names, str)
    return Chart(axes.figure, title, f"{rows} in rows, {columns} in columns. {shown}")


def ranked(panels: Mapping[str, Sequence[tuple[str, float]]], *, title: str, x: str) -> bytes:
    """PNG: a panel of horizontal bars (name, value) for each key, the first bar on top."""
    longest = max(1, *map(len, panels.values()))
    figure = _figure(302 * len(panels), 17 * longest + 94, layout="constrained")
    figure.suptitle(title)
    drawn = np.ravel(figure.subplots(1, len(panels)))
    for i, (axes, (name, rows)) in enumerate(zip(drawn, panels.items(), strict=True)):
        axes.barh(range(len(rows)), [value for _, value in rows], color=COLOURS[i % 6])
        axes.set_yticks(range(len(rows)), [word for word, _ in rows], fontsize=8)
        axes.set(ylim=(longest - 0.5, -0.5), xlabel=x)
        _open_axes(axes, name)
    return png(figure)


def ranges(
    rows: Mapping[str, tuple[float, float, float]], *, title: str, x: str, line: float
) -> bytes:
    """PNG: a dot with its range (value, least, most) for each row, the first on top; `line` is
    marked."""
    figure = _figure(620, 22 * len(rows) + 84, layout="constrained")
    axes = figure.subplots()
    value, least, most = np.array(list(rows.values())).T
    places = range(len(rows))
    axes.axvline(line, color=LINE, linewidth=1.5, zorder=0)
    axes.hlines(places, least, most, color=COLOURS[0], linewidth=2)
    axes.plot(value, places, "o", color=COLOURS[0])
    axes.set_yticks(places, rows, fontsize=8)
    axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, None), xlabel=x)
    _open_axes(axes, title)
    return png(figure)


def density(edges: Sequence[float], values: Sequence[float], *, title: str, x: str) -> bytes:
    """PNG: a histogram of bins between `edges` whose area is 1."""
    figure = _figure(WIDTH, 260, layout="constrained")
    axes = figure.subplots()
    axes.stairs(values, edges, color=COLOURS[0], fill=True, alpha=0.4)
    axes.stairs(values, edges, color=COLOURS[0])
    axes.set(title=title, xlabel=x, ylabel="density")
    axes.spines[["top", "right"]].set_visible(False)
    return png(figure)


def attention(maps: Mapping[str, np.ndarray], rows: Sequence[str], columns: Sequence[str]) -> bytes:
    """PNG: one map beside the other, each a matrix [rows, columns] of weights from 0 to 1, named by
    its key."""
    width, height = max(144, 23 * len(columns)) + 115, max(108, 19 * len(rows)) + 115
    figure = _figure(width * len(maps), height, layout="constrained")
    for axes, (title, matrix) in zip(
        np.ravel(figure.subplots(1, len(maps))), maps.items(), strict=True
    ):
        image = axes.imshow(np.asarray(matrix), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
        axes.set_title(title, fontsize=10)
        axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=8)
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        figure.colorbar(image, ax=axes, fraction=0.05)
    return png(figure)


def _figure(width, height, **layout):
    """A figure of a size in px, without pyplot's global state."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["text.parse_math"] = False  # else a dollar sign would begin a formula
    return Figure(figsize=(width / 72, height / 72), **layout)


def _open_axes(axes, title):
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def _axes(x, y, names, more=0):
    """Axes in a figure with room for a legend of these names, and for labels of `more` px beyond a
    line."""
    axes = _figure(WIDTH, HEIGHT + 16 * len(names) + more, layout="constrained").subplots()
    axes.set_xlabel(x, color=SOFT, fontsize=11)
    axes.set_ylabel(y, color=SOFT, fontsize=11)
    axes.patch.set_visible(False)
    axes.spines[:].set_visible(False)
    axes.grid(axis="y", color=LINE, linewidth=1, clip_on=False)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=5, labelsize=11, labelcolor=SOFT)
    return axes


def _scale(axes, values):
    """Sets round numbers as ticks, which enclose the values."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = min(values), max(values)
    ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high if high > low else low + 1)
    axes.set_ylim(ticks[0], ticks[-1])
    axes.set_yticks(ticks)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(round(value, 10))))


def _dot(axes, place, radius, **style):
    """A circle of a radius in px. It is a patch, because the page forbids the references that
    markers use."""
    from matplotlib.patches import Circle
    from matplotlib.transforms import ScaledTranslation

    at = axes.figure.dpi_scale_trans + ScaledTranslation(*place, axes.transData)
    axes.add_patch(Circle((0, 0), radius / 72, transform=at, clip_on=False, zorder=3, **style))


def _legend(axes, names):
    if names:
        style = {
            "frameon": False,
            "fontsize": 11,
            "labelcolor": SOFT,
            "labelspacing": 0.25,
            "handlelength": 1.4,
        }
        axes.figure.legend(loc="outside lower left", **style)


def _in_words(series, ticks, show) -> str:
    """The values of a chart: `name: tick value, tick value; name: ...`."""
    of = {name: zip(ticks, values, strict=True) for name, values in series.items()}
    return "; ".join(
        f"{name}: {', '.join(f'{tick} {show(v)}' for tick, v in pairs)}"
        for name, pairs in of.items()
    )


def _number(value):
    if value and (abs(value) >= 1e5 or abs(value) < 1e-4):
        return f"{value:.0e}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
