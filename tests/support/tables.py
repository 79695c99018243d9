"""Rows of parametrised tests, written as a table."""

import re

BORDER = re.compile(r"(?:^| )\|(?= |$)")


def table_rows(table: str) -> list[tuple[str, ...]]:
    """The rows of a table: a row a line, cells with " | " between.

    A line that begins with "# " is a comment.
    """
    rows = []
    for line in map(str.strip, table.strip().splitlines()):
        if not line.startswith("# "):
            rows.append(tuple(map(str.strip, BORDER.split(line))))
    return rows
