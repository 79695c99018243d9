"""The content of a report, as words, grids of cells and charts, for a page, a terminal or
Markdown."""

import csv
import io
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mednli_jax.report.charts import Chart

WIDTH = 110  # of a terminal's lines


@dataclass(frozen=True)
class Grid:
    """Cells under a header, as strings; the first `left` columns are words, the others figures."""

    caption: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    left: int = 1


@dataclass(frozen=True)
class Section:
    """A part of a report, without text of a corpus.

    facts: name -> value, below the words, on a page alone. folded: a page shows the title alone
    until it is opened.
    """

    title: str
    words: list[str] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    charts: list[tuple[str, Chart | None]] = field(
        default_factory=list
    )  # (caption, chart or nothing to draw)
    commands: list[tuple[str, str]] = field(default_factory=list)  # (what for, a line for a shell)
    facts: Mapping[str, str] = field(default_factory=dict)
    folded: bool = False


@dataclass(frozen=True)
class Report:
    """What an analysis, a table, a comparison or an evaluation hands back.

    Args:
      figures: JSON values.
      sections: the same for a reader, on a terminal and on a page.
      files: {name: content} of pictures and lists. A dict is added to the figures and written as JSON.
      private: the same, for the owner of the data alone: single items, and words of a corpus that is not open.
      title: of the page, or the first line on a terminal.
      notes: remarks on the corpus or the run.
      page_only: further sections of the page.
      runs: the folders of the runs that the figures are of.
    """

    figures: Mapping[str, Any]
    sections: Sequence[Section] = ()
    files: Mapping[str, Any] = field(default_factory=dict)
    private: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    notes: Sequence[str] = ()
    page_only: Sequence[Section] = ()
    runs: Sequence[Path] = ()


class RunSections(NamedTuple):
    """The sections of a run's page before and after the learning curves."""

    before: Sequence[Section] = ()
    after: Sequence[Section] = ()


ITEMS = "items.jsonl"  # a private file with the scores of each item


def item_lines(rows: Iterable[Mapping]) -> str:
    """The content of ITEMS."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def in_full(name: str, report: Report) -> dict[str, Any]:
    """The private files that hold a whole report: its figures, its text and its files."""
    notes = {"notes": list(report.notes)} if report.notes else {}
    found = {f"{name}.json": {**report.figures, **notes}, **report.files}
    if report.sections:
        found[f"{name}.txt"] = (
            "\n".join(line for section in report.sections for line in lines(section)) + "\n"
        )
    return found


def lines(section: Section) -> list[str]:
    """The section for a terminal: all but its charts."""
    found = [
        section.title,
        *(line for words in section.words for line in textwrap.wrap(words, WIDTH)),
    ]
    for grid in section.grids:
        found += grid_lines(grid)
    for what, command in section.commands:
        found += [f"  {what}", f"    {command}"]
    return found


def text(sections: Sequence[Section]) -> str:
    return "\n\n".join("\n".join(lines(section)) for section in sections)


def markdown(grid: Grid) -> Iterator[str]:
    """The lines of a grid in Markdown, its caption first."""
    if grid.caption:
        yield from (grid.caption, "")
    for row in (grid.header, ("---",) * len(grid.header), *grid.rows):
        yield f"| {' | '.join(row)} |"


def markdown_text(sections: Sequence[Section]) -> str:
    """Several sections in Markdown, without charts and commands."""
    return "\n\n".join(
        "\n\n".join(
            [f"## {one.title}", *one.words, *("\n".join(markdown(grid)) for grid in one.grids)]
        )
        for one in sections
    )


def csv_text(sections: Sequence[Section]) -> str:
    """The grids of several sections as CSV (RFC 4180), an empty line between two."""
    return "\n\n".join(
        csv_lines([grid.header, *grid.rows]) for one in sections for grid in one.grids
    )


def csv_lines(rows: Iterable[Sequence[str]]) -> str:
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows(rows)
    return content.getvalue().rstrip("\n")


def grid_lines(grid: Grid) -> list[str]:
    """The grid for a terminal, its caption first."""
    rows = [grid.header, *grid.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kinds = [f"{'<' if place < grid.left else '>'}{width}" for place, width in enumerate(widths)]
    lines = ("  ".join(map(format, row, kinds)).rstrip() for row in rows)
    return [*[grid.caption] * bool(grid.caption), *lines]


def figure(value: float, signed: str = "") -> str:
    """A figure with one decimal; a value that rounds to zero has no sign."""
    value = round(value, 1) or 0.0
    return f"{value:{signed if value else ''}.1f}"


def points(share: float | None, signed: str = "") -> str:
    """A share in points: .731 is 73.1; None is a dash."""
    return "-" if share is None else figure(100 * share, signed)


def interval(low: float, high: float, signed: str = "+") -> str:
    """An interval of shares, in points."""
    return f"[{points(low, signed)}, {points(high, signed)}]"


def p_value(p: float) -> str:
    """A p-value as text; 0 is shown as <1e-300."""
    return f"{p:.4f}" if p >= 1e-4 else f"{p:.0e}" if p > 0 else "<1e-300"


def sd(found: Mapping) -> str:
    """The deviation over the seeds of a mean_sd, in points; a dash for a single seed."""
    return points(found["sd"]) if len(found["per_seed"]) > 1 else "-"


def number_of(n: int, unit: str) -> str:
    """`1 pair`, `2,000 pairs`."""
    return f"{n:,} {unit}{'s' * (n != 1)}"


def seeds_named(seeds: Sequence[int]) -> str:
    """`seed 3`, `seeds 0, 1`."""
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


count, mean = "{:,}".format, "{:,.1f}".format  # as text


def columns_of(
    columns: Mapping[str, Mapping], rows: Iterable[tuple], paper: Mapping[str, Mapping]
) -> list[tuple]:
    """Rows of a grid that has a column for each part of a corpus.

    Args:
      columns: name of a part -> its figures, nested.
      rows: (title, function that shows a figure, names that lead to the figure).
      paper: as `columns`; a row that has a published figure is followed by "  in the paper".
    """
    found = []
    for title, show, *path in rows:
        for name, source in ((title, columns), ("  in the paper", paper)):
            values = [_at(source.get(part), path) for part in columns]
            if source is columns or any(value is not None for value in values):
                found.append((name, *("" if value is None else show(value) for value in values)))
    return found


def _at(figures, path):
    for name in path:
        figures = None if figures is None else figures.get(name)
    return figures
