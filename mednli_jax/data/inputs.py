"""Checks new inputs for prediction: dicts, tuples and lists become pairs of strings."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.files import KEEP_ONE, repeated_name

_NO_TEXT = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True)
class Form:
    """The form of the inputs of a task.

    Args:
      fields: for each of the two texts, the accepted names of a dict's field; messages show the first name.
      description: of an input, for messages.
      check: (first text, second text) -> (problem, fix), or None for a good pair.
    """

    fields: tuple[tuple[str, ...], tuple[str, ...]]
    description: str
    check: Callable = lambda first, second: None

    @property
    def names(self) -> tuple[str, str]:
        return self.fields[0][0], self.fields[1][0]

    def __str__(self) -> str:
        first, second = self.names
        return f'({first}, {second}) or {{"{first}": ..., "{second}": ...}}'

    def pairs(self, given: Iterable) -> list[tuple[str, str]]:
        """The inputs of `predict` as pairs of strings, from items as `pair` takes them."""
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            problem = f"the inputs are a {type(given).__name__}, not a list"
            raise UsageError(problem, fix=f"give a list of items; each is {self}")
        problems, pairs = Problems(), []
        for index, item in enumerate(given):
            try:
                pairs.append(self.pair(item, f"item {index}"))
            except DataError as error:
                problems.add(error)
        problems.raise_if_any()
        return pairs

    def pair(self, item, place: str, line: int | None = None) -> tuple[str, str]:
        """The two texts of one item: a dict with one field for each text, or a tuple or list of two
        strings."""

        def fault(problem, fix):
            return DataError(problem, file=place, line=line, fix=fix)

        pair, (first, second) = item, self.names
        lines = f"write {first} TAB {second}, JSON with these fields, or a header that names these columns"
        fix = lines if line else f"give {self}"
        if isinstance(item, Mapping):
            given = [_values(item, names) for names in self.fields]
            for names, texts in zip(self.fields, given, strict=True):
                if any(text != texts[0] for text in texts):
                    raise fault(
                        f"the fields {' and '.join(names)} hold different texts",
                        "leave one of them out",
                    )
            pair = [texts[0] if texts else None for texts in given]
        if not isinstance(pair, tuple | list):
            raise fault(f"is not {self.description}", fix)
        if len(pair) != 2:
            raise fault(f"is not {self.description}: expected 2 fields, found {len(pair)}", fix)
        whole = [isinstance(text, str) and bool(text.strip()) for text in pair]
        if not all(whole):
            raise fault(
                f"is not {self.description}: {self.names[whole.index(False)]} has no text", fix
            )
        if any(map(_NO_TEXT.search, pair)):
            raise fault("contains a NUL or half a surrogate pair", "remove it")
        if problem := self.check(*pair):
            raise fault(*problem)
        return tuple(pair)

    def header(self, item, file: str, line: int) -> list[str]:
        """The cells of a line that names the columns of both texts, in any case; [] for another
        line."""
        if not isinstance(item, list) or not all(isinstance(cell, str) for cell in item):
            return []
        cells = [cell.strip() for cell in item]
        lacking = [
            names[0]
            for names in self.fields
            if not {cell.casefold() for cell in cells} & set(names)
        ]
        if len(lacking) == 1:
            raise DataError(
                f"the header has no column {lacking[0]}",
                file=file,
                line=line,
                fix="name the column",
            )
        if not lacking and repeated_name(cells):
            raise DataError(
                "two columns have the same name, case ignored", file=file, line=line, fix=KEEP_ONE
            )
        return [] if lacking else cells

    def named(self, item, header: list[str], file: str, line: int) -> tuple[tuple[str, str], dict]:
        """(the two texts, further columns) of a line. header: the names of its cells; [] for a line
        without names."""
        if header and isinstance(item, list):
            if len(item) != len(header):
                problem = f"expected {len(header)} fields, as in the header, found {len(item)}"
                raise DataError(problem, file=file, line=line, fix="write a cell for each column")
            item = dict(zip(header, item, strict=True))
        texts = {name for names in self.fields for name in names}
        further = item.items() if isinstance(item, dict) else ()
        return self.pair(item, file, line), {
            name: one for name, one in further if name.casefold() not in texts
        }


def _values(item: Mapping, names: tuple[str, ...]) -> list:
    """What the fields of these names hold, in any case; None is no value."""
    return [
        value for name, value in item.items() if value is not None and str(name).casefold() in names
    ]
