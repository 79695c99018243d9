"""The content of a report: words, grids of cells and charts; its forms for a terminal, and in
Markdown, CSV and LaTeX. html.py has its form for a browser."""

import csv
import io
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mednli_jax.report.charts import Chart
from mednli_jax.report.metrics import MeanSd
from mednli_jax.types import Json

WIDTH = 110  # of a terminal's lines
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
KINDS = ("svg", "pdf")  # of files of a chart


@dataclass(frozen=True)
class Grid:
    """Cells under a header, as strings. The first `left` columns are words, the others figures."""

    caption: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    left: int = 1


@dataclass(frozen=True)
class Section:
    """A part of a report, without text of a corpus.

    Args:
      lead: the answer in one sentence, above the words.
      charts: (caption, chart); None for a chart without data.
      commands: (purpose, a line for a shell).
      facts: name -> value, below the words, on a page alone.
    """

    title: str
    words: list[str] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    charts: Sequence[tuple[str, Chart | None]] = ()
    commands: Sequence[tuple[str, str]] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    lead: str = ""


@dataclass(frozen=True)
class Report:
    """The result of an analysis, a table, a comparison or an evaluation.

    Args:
      figures: JSON values.
      sections: the figures as sections, for a terminal and a page.
      files: {name: content} of pictures and lists. A dict is added to the figures and written as
        JSON.
      private: {name: content} for the owner of the data alone: single items, and words of a corpus
        that is not open.
      title: of the page, or the first line on a terminal.
      notes: remarks on the corpus or the run.
      page_only: further sections of the page.
      runs: the folders of the runs that the figures are of.
    """

    figures: Mapping[str, Json]
    sections: Sequence[Section] = ()
    files: Mapping[str, Json | bytes] = field(default_factory=dict)
    private: Mapping[str, Json | bytes] = field(default_factory=dict)
    title: str = ""
    notes: Sequence[str] = ()
    page_only: Sequence[Section] = ()
    runs: Sequence[Path] = ()


class RunSections(NamedTuple):
    """The sections of a run's page before and after the learning curves. measure: the name of the
    curves' accuracy."""

    before: Sequence[Section] = ()
    after: Sequence[Section] = ()
    measure: str = "accuracy"


def in_full(name: str, report: Report) -> Mapping[str, Json]:
    """The private files that hold a whole report: its figures, its text and its files."""
    figures = dict(report.figures)
    if report.notes:
        figures["notes"] = list(report.notes)
    contents = {f"{name}.json": figures, **report.files}
    if report.sections:
        shown = [line for section in report.sections for line in lines(section)]
        contents[f"{name}.txt"] = "\n".join(shown) + "\n"
    return contents


# -- figures as text -------------------------------------------------------------------------------


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
    if p >= 1e-4:
        return f"{p:.4f}"
    return f"{p:.0e}" if p > 0 else "<1e-300"


def sd(scores: MeanSd) -> str:
    """The deviation over the seeds, in points; a dash for a single seed."""
    return points(scores["sd"]) if len(scores["per_seed"]) > 1 else "-"


def number_of(n: int, noun: str) -> str:
    """`1 pair`, `2,000 pairs`."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def seeds_named(seeds: Sequence[int]) -> str:
    """`seed 3`, `seeds 0, 1`."""
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def count_cell(value: int) -> str:
    return f"{value:,}"


def mean_cell(value: float) -> str:
    return f"{value:,.1f}"


# title, function that shows a figure, names that lead to it
FigureRow = tuple[str, Callable[[Json], str], *tuple[str, ...]]


def columns_of(
    columns: Mapping[str, Mapping[str, Json]],
    rows: Iterable[FigureRow],
    paper: Mapping[str, Mapping[str, Json]],
) -> list[tuple[str, ...]]:
    """The rows of a grid that has a column for each part of a corpus.

    Args:
      columns: name of a part -> its figures, nested.
      paper: name of a part -> its published figures; a row that has one is followed by "  in the
        paper".
    """
    shown: list[tuple[str, ...]] = []
    for title, show, *path in rows:
        ours = [_format(columns[name], path, show) for name in columns]
        published = [_format(paper.get(name), path, show) for name in columns]
        shown.append((title, *ours))
        if any(published):
            shown.append(("  in the paper", *published))
    return shown


def _format(
    figures: Mapping[str, Json] | None, path: Sequence[str], show: Callable[[Json], str]
) -> str:
    value = at_path(figures, path)
    return "" if value is None else show(value)


def at_path(figures: Mapping[str, Json] | None, path: Sequence[str]) -> Json:
    """The figure at the end of a path of names; None if there is none."""
    value: Json = figures
    for name in path:
        value = None if value is None else value.get(name)
    return value


# -- for a terminal and in Markdown ----------------------------------------------------------------


def lines(section: Section) -> list[str]:
    """The section for a terminal: all but its charts."""
    shown = [section.title]
    for words in all_words(section):
        shown += textwrap.wrap(words, WIDTH)
    for grid in section.grids:
        shown += grid_lines(grid)
    for purpose, command in section.commands:
        shown += [f"  {purpose}", f"    {command}"]
    return shown


def all_words(section: Section) -> list[str]:
    return [section.lead, *section.words] if section.lead else section.words


def text(sections: Sequence[Section]) -> str:
    return "\n\n".join("\n".join(lines(section)) for section in sections)


def grid_lines(grid: Grid) -> list[str]:
    """The grid for a terminal, its caption first."""
    rows = [grid.header, *grid.rows]
    columns = list(zip(*rows, strict=True))
    layout = []
    for place, column in enumerate(columns):
        layout.append(f"{'<' if place < grid.left else '>'}{max(map(len, column))}")
    shown = ["  ".join(map(format, row, layout)).rstrip() for row in rows]
    return [grid.caption, *shown] if grid.caption else shown


def markdown(grid: Grid) -> Iterator[str]:
    """Yields the lines of a grid in Markdown, its caption first."""
    if grid.caption:
        yield grid.caption
        yield ""
    for row in (grid.header, ("---",) * len(grid.header), *grid.rows):
        yield f"| {' | '.join(row)} |"


def markdown_text(sections: Sequence[Section]) -> str:
    """Formats several sections in Markdown, without charts and commands."""
    paragraphs = []
    for section in sections:
        paragraphs += [f"## {section.title}", *all_words(section)]
        paragraphs += ["\n".join(markdown(grid)) for grid in section.grids]
    return "\n\n".join(paragraphs)


# -- as CSV ----------------------------------------------------------------------------------------


def csv_text(sections: Sequence[Section]) -> str:
    """Formats the grids of several sections as CSV (RFC 4180), an empty line between two."""
    tables: list[str] = []
    for section in sections:
        tables += map(csv_grid, section.grids)
    return "\n\n".join(tables)


def csv_grid(grid: Grid) -> str:
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([grid.header, *grid.rows])
    return content.getvalue().rstrip("\n")


# -- in LaTeX --------------------------------------------------------------------------------------


def latex_text(sections: Sequence[Section]) -> str:
    """Formats the grids of several sections as LaTeX tables, which need the package booktabs."""
    tables = ["% needs \\usepackage{booktabs}"]
    for section in sections:
        for grid in section.grids:
            tables.append("\n".join(latex(section, grid)))
    return "\n\n".join(tables)


def latex(section: Section, grid: Grid) -> Iterator[str]:
    """Yields the lines of a table. Its caption is the title of the section and the grid's own."""
    caption = ": ".join(filter(None, (section.title, grid.caption)))
    layout = "l" * grid.left + "r" * (len(grid.header) - grid.left)
    yield r"\begin{table}"
    yield r"\centering"
    yield rf"\caption{{{_escape(caption)}}}"
    yield rf"\begin{{tabular}}{{{layout}}}"
    yield r"\toprule"
    yield _latex_row(grid.header)
    yield r"\midrule"
    yield from map(_latex_row, grid.rows)
    yield r"\bottomrule"
    yield r"\end{tabular}"
    yield r"\end{table}"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(_latex_cell, cells)) + r" \\"


def _latex_cell(cell: str) -> str:
    """Formats a cell, with minus signs, and with the indent of a row that belongs to the one
    above."""
    text = re.sub(r"(?<!\w)-(?=\d)", "$-$", _escape(cell.lstrip()))
    if text.startswith("["):
        return "{}" + text  # LaTeX reads a [ after the \\ of the row above as its option
    return r"\quad " + text if cell.startswith(" ") else text


def _escape(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)


# -- as files --------------------------------------------------------------------------------------


def files_of(sections: Sequence[Section]) -> Iterator[tuple[str, bytes]]:
    """Yields (name, content) of two files for each table and each chart, numbered in their
    order."""
    tables = charts = 0
    for section in sections:
        for grid in section.grids:
            tables += 1
            name = _file_name("table", tables, f"{section.title} {grid.caption}")
            yield f"{name}.csv", f"{csv_grid(grid)}\n".encode()
            yield f"{name}.tex", "\n".join((*latex(section, grid), "")).encode()
        for _, chart in section.charts:
            if chart:
                charts += 1
                name = _file_name("chart", charts, chart.title)
                for kind in KINDS:
                    yield f"{name}.{kind}", chart.file(kind)


def _file_name(kind: str, number: int, title: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return f"{kind}{number:02}-{words[:50]}"
