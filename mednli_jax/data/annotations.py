"""Annotations of a corpus: a table of two columns, uid and category."""

from collections.abc import Collection, Mapping
from pathlib import Path

from mednli_jax.errors import DataError, Problems
from mednli_jax.io import text_lines


def read_annotations(
    path: Path, column: str, names: Collection[str], aliases: Mapping[str, str], *, problem: str
) -> dict[str, tuple[str, ...]]:
    """uid -> names, from rows `uid TAB name`. A uid with several rows has several names.

    Args:
      column: name of the second column; the file may have a header `uid TAB column`.
      names: the names that the second column may hold, in any case.
      aliases: other word -> name.
      problem: the message for a row that does not have this form.

    Raises: DataError or DataErrors.
    """
    path, problems, found = Path(path), Problems(), {}
    for number, line in text_lines(path, problems):
        cells = [cell.strip() for cell in line.split("\t")]
        name = cells[-1].casefold()
        name = aliases.get(name, name)
        if len(cells) == 2 and cells[0] and name in names:
            found.setdefault(cells[0], []).append(name)
        elif line.strip() and (number, cells) != (1, ["uid", column]):
            fix = f"give a uid, a tab and one of {', '.join(names)}"
            problems.add(DataError(problem, file=path.name, line=number, fix=fix))
    problems.raise_if_any()
    return {uid: tuple(dict.fromkeys(given)) for uid, given in found.items()}
