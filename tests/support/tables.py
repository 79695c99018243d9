"""Rows of parametrised tests, written as a table; fields of a config, written as flags."""

import json
import re
from typing import Any

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


def fields_of(text: str) -> dict[str, Any]:
    """The fields of a text such as "seeds=[0,1] train.epochs=8": values in JSON without blanks."""
    fields = {}
    for word in text.split():
        field, _, value = word.partition("=")
        value = json.loads(value)
        fields[field] = tuple(value) if isinstance(value, list) else value
    return fields
