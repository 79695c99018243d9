"""Checks new inputs for prediction: dicts, tuples and lists become pairs of strings."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mednli_jax.errors import DataError, Problems, UsageError

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
            raise UsageError(f"{problem}. Fix: give a list of items; each is {self}.")
        problems, pairs = Problems(), []
        for index, item in enumerate(given):
            try:
                pairs.append(self.pair(item, f"item {index}"))
            except DataError as error:
                problems.add(error)
        problems.raise_if_any()
        return pairs

    def pair(self, item, place: str, line: int | None = None) -> tuple[str, str]:
        """The two texts of one item: a dict with one field for each text, or a tuple or list of two strings."""

        def fault(problem, fix):
            return DataError(problem, file=place, line=line, fix=fix)

        pair = item
        if isinstance(item, Mapping):
            given = [[item[name] for name in names if item.get(name) is not None] for names in self.fields]
            for names, texts in zip(self.fields, given, strict=True):
                if any(text != texts[0] for text in texts):
                    raise fault(f"the fields {' and '.join(names)} hold different texts", "leave one of them out")
            pair = [texts[0] if texts else None for texts in given]
        two = isinstance(pair, tuple | list) and len(pair) == 2
        if not two or not all(isinstance(text, str) and text.strip() for text in pair):
            first, second = self.names
            lines = f"write {first} TAB {second}, or JSON with the fields {first} and {second}"
            raise fault(f"is not {self.description}", lines if line else f"give {self}")
        if any(map(_NO_TEXT.search, pair)):
            raise fault("contains a NUL or half a surrogate pair", "remove it")
        if problem := self.check(*pair):
            raise fault(*problem)
        return tuple(pair)

    def is_header(self, item) -> bool:
        """Whether the cells of a line are the names of the texts, in any case."""
        if not isinstance(item, list) or len(item) != 2 or not all(isinstance(cell, str) for cell in item):
            return False
        return all(cell.strip().casefold() in names for cell, names in zip(item, self.fields, strict=True))
