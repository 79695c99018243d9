"""Charts as inline SVG: no script, no font, no file beside them; a page's style sheet gives their colours.

Every chart has a title and a description for those who hear it. Widths are those of a small screen, so that the text of
a chart is as large as that around it; a page may stretch them. Classes that a style sheet needs: axis, grid, tick, c0
to c5 (lines and bars of the series), dev and train (kinds of line), cell.
"""

import hashlib
import html
import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 62, 10, 12, 40
LINE = 16  # of the legend


def curves(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    x: str,
    y: str,
    kinds: Mapping[str, str] | None = None,
    marks: Sequence[tuple[float, float]] = (),
) -> str:
    """Lines through points (x, y); series of one name before ":" share a colour and one entry of the legend.

    kinds: of a series' name before ":", "dashed" or "plain" (default). marks: points to stand out.
    Points that are no finite number break the line.
    """
    points = [p for line in series.values() for p in line if math.isfinite(p[1])]
    if not points:
        return ""
    names = list(dict.fromkeys(name.partition(":")[0] for name in series))
    ends = min(p[0] for p in points), max(p[0] for p in points)
    y_ticks = _ticks(min(p[1] for p in points), max(p[1] for p in points), 5)
    place = _Frame(*ends, y_ticks[0], y_ticks[-1])
    parts = [_axes(place, x, y, y_ticks), *(_x_tick(place.x(t), str(t)) for t in _whole_ticks(*ends, 6))]
    for name, line in series.items():
        base = name.partition(":")[0]
        dashed = " dashed" if (kinds or {}).get(base) == "dashed" else ""
        for piece in _pieces(line):
            path = " ".join(f"{place.x(a):.1f},{place.y(b):.1f}" for a, b in piece)
            colour = names.index(base) % 6
            if len(piece) == 1:
                a, b = piece[0]
                parts.append(f'<circle class="c{colour} dot" cx="{place.x(a):.1f}" cy="{place.y(b):.1f}" r="2.5"/>')
            else:
                parts.append(f'<polyline class="c{colour}{dashed}" points="{path}"/>')
    parts += [f'<circle class="mark" cx="{place.x(a):.1f}" cy="{place.y(b):.1f}" r="4"/>' for a, b in marks]
    dashes = {name: (kinds or {}).get(name) == "dashed" for name in names}
    description = ", ".join(
        f"{name} from {line[0][1]:.3g} to {line[-1][1]:.3g}" for name, line in series.items() if line
    )
    return _svg(title, f"{y} by {x}: {description}", parts, _legend(dashes, lines=True))


def bars(
    series: Mapping[str, Sequence[float]],
    ticks: Sequence[str],
    *,
    title: str,
    x: str,
    y: str,
    intervals: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> str:
    """Groups of bars: at each tick one bar of every series. intervals: (low, high) of each bar, drawn as a whisker."""
    ends = [v for values in series.values() for v in values]
    ends += [end for pairs in (intervals or {}).values() for pair in pairs for end in pair]
    if not ends:
        return ""
    y_ticks = _ticks(min(0.0, *ends), max(0.0, *ends), 5)
    place = _Frame(0, len(ticks), y_ticks[0], y_ticks[-1])
    skip = math.ceil(len(ticks) * max(map(len, ticks), default=1) * 7 / (WIDTH - LEFT - RIGHT))
    parts = [_axes(place, x, y, y_ticks)]
    parts += [_x_tick(place.x(i + 0.5), tick) for i, tick in enumerate(ticks) if i % skip == 0]
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        for i, value in enumerate(values):
            left, right = (place.x(i + 0.1 + (number + k) * width) for k in (0.04, 0.96))
            top, bottom = sorted((place.y(value), place.y(0)))
            parts.append(
                f'<rect class="c{number % 6} bar" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                f'height="{max(bottom - top, 0.5):.1f}"/>'
            )
            if intervals and name in intervals:
                low, high = intervals[name][i]
                middle = (left + right) / 2
                parts.append(_whisker(middle, place.y(low), place.y(high)))
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place.y(0):.1f}" y2="{place.y(0):.1f}"/>')
    description = "; ".join(
        f"{name}: " + ", ".join(f"{tick} {_number(value)}" for tick, value in zip(ticks, values, strict=True))
        for name, values in series.items()
    )
    legend = _legend(dict.fromkeys(series, False)) if len(series) > 1 else []
    return _svg(title, f"{y} by {x}. {description}", parts, legend)


def heat_map(counts: Sequence[Sequence[int]], names: Sequence[str], *, title: str, rows: str, columns: str) -> str:
    """A confusion matrix: counts, and the share of their row as a shade and in per cent."""
    side, left, top = 84, 92, 44
    width, height = left + side * len(names) + 6, top + 56 * len(names) + 6
    parts = [f'<text class="tick" x="{left + side * len(names) / 2}" y="14" text-anchor="middle">{_e(columns)}</text>']
    parts.append(f'<text class="tick" x="4" y="{top - 10}">{_e(rows)}</text>')
    description = []
    for i, row in enumerate(counts):
        y, total = top + 56 * i, sum(row) or 1
        parts.append(f'<text class="tick" x="{left - 6}" y="{y + 32}" text-anchor="end">{_e(names[i])}</text>')
        for j, count in enumerate(row):
            x, share = left + side * j, count / total
            if i == 0:
                middle = x + side / 2
                parts.append(
                    f'<text class="tick" x="{middle}" y="{top - 10}" text-anchor="middle">{_e(names[j])}</text>'
                )
            strong = " strong" if share > 0.55 else ""
            parts.append(
                f'<rect class="cell" x="{x + 1}" y="{y + 1}" width="{side - 2}" height="54" '
                f'fill-opacity="{0.06 + 0.94 * share:.2f}"/>'
                f'<text class="count{strong}" x="{x + side / 2}" y="{y + 26}" text-anchor="middle">{count:,}</text>'
                f'<text class="share{strong}" x="{x + side / 2}" y="{y + 42}" text-anchor="middle">{share:.0%}</text>'
            )
        description.append(f"{names[i]}: " + ", ".join(f"{n} {c}" for n, c in zip(names, row, strict=True)))
    return _svg(title, f"{rows} in rows, {columns} in columns. {'; '.join(description)}", parts, [], (width, height))


class _Frame:
    """From values to places in the drawing."""

    def __init__(self, x_low, x_high, y_low, y_high):
        self.x_low, self.x_span = x_low, (x_high - x_low) or 1
        self.y_low, self.y_span = y_low, (y_high - y_low) or 1

    def x(self, value):
        return LEFT + (value - self.x_low) / self.x_span * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - (value - self.y_low) / self.y_span * (HEIGHT - TOP - BOTTOM)


def _axes(place, x, y, y_ticks):
    parts = []
    for tick in y_ticks:
        at = place.y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    middle = (HEIGHT - BOTTOM + TOP) / 2
    parts.append(
        f'<text class="tick" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{_e(x)}</text>'
    )
    parts.append(
        f'<text class="tick" transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">{_e(y)}</text>'
    )
    return "".join(parts)


def _x_tick(at, label):
    return f'<text class="tick" x="{at:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{_e(label)}</text>'


def _whisker(x, low, high):
    ends = "".join(
        f'<line class="whisker" x1="{x - 4:.1f}" x2="{x + 4:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>' for y in (low, high)
    )
    return f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>{ends}'


def _pieces(line):
    """The runs of finite points of a line."""
    piece = []
    for point in line:
        if math.isfinite(point[1]):
            piece.append(point)
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _legend(names: Mapping[str, bool], *, lines=False):
    """(markup, width) of each entry. names: whether its line is dashed."""
    entries = []
    for number, (name, dashed) in enumerate(names.items()):
        colour = f"c{number % 6}"
        sample = f'<rect class="{colour} bar" x="0" y="-9" width="14" height="10"/>'
        if lines:
            sample = f'<line class="{colour}{" dashed" if dashed else ""}" x1="0" x2="14" y1="-4" y2="-4"/>'
        entries.append((f'{sample}<text class="tick" x="18">{_e(name)}</text>', 34 + 6.2 * len(name)))
    return entries


def _svg(title, description, parts, legend, size=(WIDTH, HEIGHT)):
    width, height = size
    x, rows = LEFT, 1 if legend else 0
    placed = []
    for markup, entry_width in legend:
        if x > LEFT and x + entry_width > width:
            x, rows = LEFT, rows + 1
        placed.append(f'<g transform="translate({x:.0f} {height + LINE * rows - 4})">{markup}</g>')
        x += entry_width
    body = "".join([*parts, *placed])
    # The same chart twice on a page has the same name, which is as true of the one as of the other.
    name = "svg-" + hashlib.sha256(f"{title}{description}{body}".encode()).hexdigest()[:12]
    return (
        f'<svg viewBox="0 0 {width} {height + LINE * rows}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{_e(title)}</title><desc id="{name}-d">{_e(description)}</desc>{body}</svg>'
    )


def _ticks(low, high, most):
    """Round numbers that enclose low and high: about `most` steps."""
    step = _step(low, high, most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(k * step, 10) for k in range(first, max(last, first + 1) + 1)]


def _whole_ticks(low, high, most):
    """Whole numbers from low up to high, `most` steps at most."""
    step = max(1, math.ceil(_step(low, high, most)))
    return list(range(math.ceil(low), math.floor(high) + 1, step))


def _step(low, high, most):
    span = high - low or 1.0
    unit = 10.0 ** math.floor(math.log10(span / most))
    return next(unit * k for k in (1, 2, 5, 10) if span / (unit * k) <= most + 1e-9)


def _number(value):
    if value and (abs(value) >= 1e5 or abs(value) < 1e-4):
        return f"{value:.0e}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def _e(text):
    return html.escape(str(text))
