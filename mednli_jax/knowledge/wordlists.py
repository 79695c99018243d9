"""Files that a user gives the linker: stop words and abbreviations; and the lines of any such file, checked.

Errors name the file and the line; they never quote it.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path

from mednli_jax.errors import DataError, Problems
from mednli_jax.knowledge.linking import normalise, singular
from mednli_jax.knowledge.readers import mesh
from mednli_jax.text import MAX_LINE_BYTES, binary_lines

BUNDLED = "bundled"
_HEADER_FIX = "the first line must name, between tabs: "


def check_file(path: Path) -> None:
    """Raises DataError or where there is no such file, or it cannot be opened."""
    if not path.is_file():
        fix = "check the path, or leave the setting empty"
        raise DataError("there is no such file", file=path.name, fix=fix)
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        raise _unread(path, error) from error


def text_lines(path: Path, problems: Problems) -> Iterator[tuple[int, str]]:
    """(line number, text) of the lines of a plain or gzipped UTF-8 file that are not blank.

    Lines that are no text are noted in `problems`. Raises: DataError for the file as a whole.
    """
    check_file(path)
    try:
        for number, line in binary_lines(path):
            try:
                if line is None:
                    problem = f"the line is longer than {MAX_LINE_BYTES} bytes"
                    raise DataError(problem, file=path.name, line=number, fix="check what the file is")
                if b"\0" in line:
                    problem, fix = "the line holds a NUL byte", "save the file as UTF-8, or write it again"
                    raise DataError(problem, file=path.name, line=number, fix=fix)
                text = _decoded(path, number, line)
            except DataError as error:
                problems.add(error)
                continue
            if text.strip():
                yield number, text
    except gzip.BadGzipFile as error:
        problem = f"cannot be decompressed: {error}"
        raise DataError(problem, file=path.name, fix="write the file again") from error
    except OSError as error:
        raise _unread(path, error) from error


def table_rows(path: Path, problems: Problems, check_header) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, {column: cell}) of the rows of a file with tabs between its cells and a header.

    check_header: given the names of the columns, says what is due if they will not do, else "".
    Rows of another width are noted in `problems`. Raises: DataError for the header, or for an empty file.
    """
    header = None
    for number, text in text_lines(path, problems):
        cells = [cell.strip() for cell in text.split("\t")]
        if header is None:
            header = cells
            due = check_header(header) if len(set(header)) == len(header) else "each column once"
            if due:
                problem = "the header is not that of this table"
                raise DataError(problem, file=path.name, line=number, fix=_HEADER_FIX + due)
        elif len(cells) == len(header):
            yield number, dict(zip(header, cells, strict=True))
        else:
            problems.add(wrong_width(path, number, len(cells), len(header)))
    if header is None and not problems.total:
        raise empty(path)


def read_abbreviations(path: Path | str) -> tuple[tuple[str, str], ...]:
    """(short form, expansion) of each row of a table with tabs.

    Either two columns without a header, or a header that names `short` (or `abbreviation`) and `expansion` among any
    others. "bundled" is the table of clinical abbreviations that belongs to the package.
    Raises: DataError or DataErrors.
    """
    if str(path) == BUNDLED:
        path = bundled_abbreviations()
    path, problems, found, columns, width = Path(path), Problems(), [], (0, 1), 2
    for position, (number, text) in enumerate(text_lines(path, problems)):
        cells = [cell.strip() for cell in text.split("\t")]
        if position == 0 and "expansion" in cells:
            columns, width = _columns(path, number, cells), len(cells)
        elif len(cells) != width:
            problems.add(wrong_width(path, number, len(cells), width))
        elif all(cells[column] for column in columns):
            found.append((cells[columns[0]], cells[columns[1]]))
        else:
            problem, fix = "a short form or its expansion is empty", "fill it in or remove the row"
            problems.add(DataError(problem, file=path.name, line=number, fix=fix))
    problems.raise_if_any()
    if not found:
        raise empty(path)
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
        if not text.lstrip().startswith("#"):
            folded = text.strip().casefold()
            words |= {form for name in (folded, " ".join(normalise(folded))) for form in (name, singular(name))}
    problems.raise_if_any()
    if not words:
        raise empty(path)
    return frozenset(words)


def empty_field(path: Path, number: int, field: str) -> DataError:
    """A field that is empty or missing."""
    fix = "fill it in or remove the row"
    return DataError(f"field '{field}' is empty", file=path.name, line=number, field=field, fix=fix)


def wrong_width(path: Path, number: int, found: int, due: int) -> DataError:
    problem = f"{found} columns where {due} are due"
    return DataError(problem, file=path.name, line=number, fix="put one tab between columns")


def empty(path: Path) -> DataError:
    return DataError("holds nothing", file=path.name, fix="write the file again, or leave it out")


def _columns(path, number, header):
    short = next((header.index(name) for name in ("short", "abbreviation") if name in header), None)
    if short is None:
        problem = "the header is not that of this table"
        raise DataError(problem, file=path.name, line=number, fix=_HEADER_FIX + "short, expansion")
    return short, header.index("expansion")


def _decoded(path, number, line):
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        problem, fix = "the line is not valid UTF-8", "save the file as UTF-8"
        raise DataError(problem, file=path.name, line=number, fix=fix) from None


def _unread(path, error):
    fix = "check the disk and the file's permissions"
    return DataError(f"cannot be read ({error.strerror})", file=path.name, fix=fix)
