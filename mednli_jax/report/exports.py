"""The tables and charts of a report for papers and programs: LaTeX, CSV, SVG and PDF."""

import re
from collections.abc import Iterator, Sequence

from mednli_jax.report.sections import Grid, Section, csv_lines

NUMBER = r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-\d+)?)"
# Cells that hold numbers -> what is added to the name of a column for each of the numbers.
SHAPES = {
    NUMBER: ("",),
    rf"\[{NUMBER}, {NUMBER}\]": (", low", ", high"),
    rf"{NUMBER}(?: ±{NUMBER})?": ("", ", sd"),
    rf"{NUMBER} \({NUMBER}\)": ("", ", in brackets"),
}
NO_NUMBER = ("", "-")
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


def csv_text(sections: Sequence[Section]) -> str:
    """The grids of several sections as CSV (RFC 4180), an empty line between two."""
    tables: list[str] = []
    for section in sections:
        tables += map(csv_grid, section.grids)
    return "\n\n".join(tables)


def csv_grid(grid: Grid) -> str:
    """A grid as CSV. Numbers stand alone in their cells, without signs of thousands; cells of two
    numbers, such as intervals, become two columns. Of two columns of one name, the second is named
    after the column before it, too."""
    columns: list[list[str]] = []
    for place, (name, *cells) in enumerate(zip(grid.header, *grid.rows, strict=True)):
        if name in grid.header[:place]:
            name = f"{grid.header[place - 1]}, {name}"
        if place < grid.left:
            columns.append([name, *cells])
        else:
            columns += _of_numbers(name, cells)
    return csv_lines(zip(*columns, strict=True))


def _of_numbers(name: str, cells: Sequence[str]) -> list[list[str]]:
    """The columns that hold the numbers of a column; the column itself if it holds words."""
    filled = [cell for cell in cells if cell not in NO_NUMBER]
    for shape, endings in SHAPES.items():
        if all(re.fullmatch(shape, cell) for cell in filled):
            columns = [[name + ending] for ending in endings]
            for cell in cells:
                match = re.fullmatch(shape, cell)
                for number, column in enumerate(columns, start=1):
                    text = (match[number] or "") if match else ""
                    column.append(text.replace(",", "").removeprefix("+"))
            return columns
    return [[name, *cells]]


def latex_text(sections: Sequence[Section]) -> str:
    """The grids of several sections as LaTeX tables, which need the package booktabs."""
    tables = ["% needs \\usepackage{booktabs}"]
    for section in sections:
        for grid in section.grids:
            tables.append("\n".join(latex(section, grid)))
    return "\n\n".join(tables)


def latex(section: Section, grid: Grid) -> Iterator[str]:
    """The lines of a table. Its caption is the title of the section and the grid's own."""
    caption = ": ".join(filter(None, (section.title, grid.caption)))
    layout = "l" * grid.left + "r" * (len(grid.header) - grid.left)
    yield r"\begin{table}"
    yield r"\centering"
    yield rf"\caption{{{_escaped(caption)}}}"
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
    """A cell, with minus signs, and with the indent of a row that belongs to the one above."""
    text = re.sub(r"(?<!\w)-(?=\d)", "$-$", _escaped(cell.lstrip()))
    indent = r"\quad " if cell.startswith(" ") else ""
    return "{}" + text if text.startswith("[") else indent + text  # [ would be read as \\[


def _escaped(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)


def files_of(sections: Sequence[Section]) -> Iterator[tuple[str, bytes]]:
    """(name, content) of two files of each table and of each chart, numbered in their order."""
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
