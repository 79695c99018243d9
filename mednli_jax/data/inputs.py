"""Checks new inputs for prediction: dicts, tuples and lists become pairs of strings."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mednli_jax.errors import DataError, Problems, Text, UsageError
from mednli_jax.files import KEEP_ONE, repeated_name

Input = Any  # of a user: a mapping, a tuple or a list
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def _accepts_all(first: str, second: str) -> None:
    """Finds no problem in any pair."""


@dataclass(frozen=True)
class Form:
    """The form of the inputs of a task.

    Args:
      fields: for each of the two texts, the accepted names of a dict's field; messages show the
        first name.
      description: of an input, for messages.
      check: (first text, second text) -> (problem, fix), or None for a good pair.
    """

    fields: tuple[tuple[str, ...], tuple[str, ...]]
    description: str
    check: Callable[[str, str], tuple[str, str] | None] = _accepts_all

    @property
    def names(self) -> tuple[str, str]:
        return self.fields[0][0], self.fields[1][0]

    def __str__(self) -> str:
        first, second = self.names
        return f'({first}, {second}) or {{"{first}": ..., "{second}": ...}}'

    def pairs(self, inputs: Iterable[Input]) -> list[tuple[str, str]]:
        """The inputs of `predict` as pairs of strings, from items as `pair` takes them."""
        if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
            problem = f"the inputs are a {type(inputs).__name__}, not a list"
            raise UsageError(problem, fix=f"give a list of items; each is {self}")
        problems, pairs = Problems(), []
        for index, pair in enumerate(inputs):
            try:
                pairs.append(self.pair(pair, f"item {index}"))
            except DataError as error:
                problems.add(error)
        problems.raise_if_any()
        return pairs

    def pair(self, pair: Input, place: str, line: int | None = None) -> tuple[str, str]:
        """The two texts of a dict with one field for each text, or of a tuple or list of two
        strings."""

        def fault(problem: str, fix: Text) -> DataError:
            return DataError(problem, file=place, line=line, fix=fix)

        fix = f"give {self}"
        if line:
            fix = (
                f"write {' TAB '.join(self.names)}, JSON with these fields, or a header that names"
                " these columns"
            )
        problem = f"is not {self.description}"
        if isinstance(pair, Mapping):
            texts_of_fields = [_values(pair, names) for names in self.fields]
            for names, texts in zip(self.fields, texts_of_fields, strict=True):
                if any(text != texts[0] for text in texts):
                    both = f"the fields {' and '.join(names)} hold different texts"
                    raise fault(both, "leave one of them out")
            pair = [texts[0] if texts else None for texts in texts_of_fields]
        if not isinstance(pair, tuple | list):
            raise fault(problem, fix)
        if len(pair) != 2:
            raise fault(f"{problem}: expected 2 fields, found {len(pair)}", fix)
        for name, text in zip(self.names, pair, strict=True):
            if not isinstance(text, str) or not text.strip():
                raise fault(f"{problem}: {name} has no text", fix)
        if any(map(_NO_TEXT.search, pair)):
            raise fault("contains a NUL or half a surrogate pair", "remove it")
        first, second = pair
        if wrong := self.check(first, second):
            raise fault(*wrong)
        return first, second

    def header(self, line: Input, file: str, number: int) -> list[str]:
        """The cells of a line that names the columns of both texts, in any case; [] for another
        line."""
        if not isinstance(line, list) or not all(isinstance(cell, str) for cell in line):
            return []
        cells = [cell.strip() for cell in line]
        folded = {cell.casefold() for cell in cells}
        missing = [names[0] for names in self.fields if folded.isdisjoint(names)]
        if len(missing) == 1:
            problem = f"the header has no column {missing[0]}"
            raise DataError(problem, file=file, line=number, fix="name the column")
        if missing:
            return []
        if repeated_name(cells):
            problem = "two columns have the same name, case ignored"
            raise DataError(problem, file=file, line=number, fix=KEEP_ONE)
        return cells

    def named(
        self, line: Input, header: Sequence[str], file: str, number: int
    ) -> tuple[tuple[str, str], dict[str, Input]]:
        """(the two texts, further columns) of a line. header: the names of its cells; [] for a line
        without names."""
        if header and isinstance(line, list):
            if len(line) != len(header):
                problem = f"expected {len(header)} fields, as in the header, found {len(line)}"
                fix = "write a cell for each column"
                raise DataError(problem, file=file, line=number, fix=fix)
            line = dict(zip(header, line, strict=True))
        further = {}
        if isinstance(line, dict):
            names = {*self.fields[0], *self.fields[1]}
            further = {name: cell for name, cell in line.items() if name.casefold() not in names}
        return self.pair(line, file, number), further


def _values(fields: Mapping[str, Input], names: Sequence[str]) -> list[Input]:
    """The values of the fields of these names, in any case; None is no value."""
    values = []
    for name, value in fields.items():
        if value is not None and str(name).casefold() in names:
            values.append(value)
    return values
