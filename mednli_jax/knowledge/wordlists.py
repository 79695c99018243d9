"""Files that a user gives the linker: stop words and abbreviations. Errors name file and line and never quote them."""

from itertools import chain
from pathlib import Path

from mednli_jax.errors import Problems
from mednli_jax.io import empty_field, empty_file, line_fault, table_rows, text_lines
from mednli_jax.knowledge.linking import normalise, singular
from mednli_jax.knowledge.readers import mesh

BUNDLED = "bundled"
COLUMNS = ("short", "expansion")


def read_abbreviations(path: Path | str) -> tuple[tuple[str, str], ...]:
    """(short form, expansion) of each row of a table with tabs.

    Either two columns without a header, or a header that names `short` (or `abbreviation`) and `expansion` among any
    others. "bundled" is the table of clinical abbreviations that belongs to the package.
    """
    path = bundled_abbreviations() if str(path) == BUNDLED else Path(path)
    problems, found = Problems(), []
    lines = ((number, line) for number, line in text_lines(path, problems) if line.strip())
    records = ((number, [cell.strip() for cell in line.split("\t")]) for number, line in lines)
    if (first := next(records, None)) is None:
        problems.raise_if_any()
        raise empty_file(path)
    without_header = [] if COLUMNS[1] in first[1] else [(0, COLUMNS)]

    def columns(number, header):
        short = next((name for name in ("short", "abbreviation") if name in header), None)
        if short is None:
            fix = f"the first line must name, between tabs: {', '.join(COLUMNS)}"
            raise line_fault(path.name, number, "the header is not that of this table", fix)
        return ["short" if name == short else name for name in header]

    for number, row in table_rows(path.name, chain(without_header, [first], records), problems, columns):
        if all(row[name] for name in COLUMNS):
            found.append((row["short"], row["expansion"]))
        else:
            problems.add(empty_field(path, number, next(name for name in COLUMNS if not row[name])))
    problems.raise_if_any()
    if not found:
        raise empty_file(path)
    return tuple(found)


def bundled_abbreviations() -> Path:
    """The file that "bundled" stands for."""
    return mesh.RESOURCES / mesh.ABBREVIATIONS


def read_stop_words(path: Path) -> frozenset[str]:
    """The names of a list, one a line, as the linker compares them: folded, and also in the singular.

    Lines that start with # say something else. Raises: DataError or DataErrors.
    """
    problems, words = Problems(), set()
    for _, text in text_lines(path, problems):
        if text.strip() and not text.lstrip().startswith("#"):
            folded = text.strip().casefold()
            words |= {form for name in (folded, " ".join(normalise(folded))) for form in (name, singular(name))}
    problems.raise_if_any()
    if not words:
        raise empty_file(path)
    return frozenset(words)
