"""Rows of parametrized tests, with names that can be read in pytest's output."""

from collections.abc import Mapping
from typing import Any

import pytest


def cases(names: str, rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Runs a test on each row {id: value}; a row of several names is a tuple of values."""
    return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))
