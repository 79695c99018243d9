"""Annotations of a corpus: what each pair or query is of, as a table of two columns."""

from collections.abc import Collection, Mapping
from pathlib import Path

from mednli_jax.errors import DataError, Problems
from mednli_jax.textfiles import text_lines


def read_annotations(
    path: Path, column: str, names: Collection[str], aliases: Mapping[str, str], *, problem: str
) -> dict[str, tuple[str, ...]]:
    """uid -> names, from rows `uid TAB name`, perhaps under a header `uid TAB column`; several rows are several names.

    names: those that may stand in the second column, in any case; aliases: other words for them.
    problem: of rows that are none. Raises: DataError or DataErrors.
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
