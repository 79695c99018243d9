"""Checks new inputs for prediction: dicts, tuples and lists become pairs of strings."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mednli_jax.cloze.clicr import BEGIN, END, parse_marked
from mednli_jax.data.examples import PLACEHOLDER
from mednli_jax.errors import DataError, Problems, UsageError

_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def _check_marks(passage, query):
    """(problem, fix) for wrong marks or a wrong number of blanks; None for a good pair."""
    passage, query = parse_marked(passage), parse_marked(query)
    if len(query.blanks) != 1 or passage.blanks:
        problem = f"has {len(query.blanks)} of {PLACEHOLDER} in its query and {len(passage.blanks)} in its passage"
        return problem, "write one in the query, and none in the passage"
    if stray := passage.stray + query.stray:
        fix = f"give every {BEGIN} its {END} in the same text, with words between them"
        return f"has {stray} marks that are unbalanced or mark nothing", fix
    return None


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


FORMS = {
    "nli": Form((("premise", "sentence1"), ("hypothesis", "sentence2")), "a pair of sentences"),
    "cloze": Form((("passage",), ("query",)), "a passage and a query", _check_marks),
}


def text_pairs(given: Iterable, task: str) -> list[tuple[str, str]]:
    """The inputs of `predict` as (premise, hypothesis) or (passage, query) strings.

    Args:
      given: items as in `text_pair`.
      task: a key of FORMS.

    Raises: UsageError where `given` is not a collection of items; DataError(s) of `text_pair` with the item's index.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        problem = f"the inputs are a {type(given).__name__}, not a list"
        raise UsageError(f"{problem}. Fix: give a list of items; each is {FORMS[task]}.")
    problems, pairs = Problems(), []
    for index, item in enumerate(given):
        try:
            pairs.append(text_pair(item, task, f"item {index}"))
        except DataError as error:
            problems.add(error)
    problems.raise_if_any()
    return pairs


def text_pair(item, task: str, place: str, line: int | None = None) -> tuple[str, str]:
    """The two texts of one item.

    Args:
      item: a dict with one field for each text, or a tuple or list of two strings.
      task: a key of FORMS.
      place: source of the item, for messages.
      line: its line number there.

    Raises: DataError with the place and the fix.
    """
    form, pair = FORMS[task], item

    def fault(problem, fix):
        return DataError(problem, file=place, line=line, fix=fix)

    if isinstance(item, Mapping):
        given = [[item[name] for name in names if item.get(name) is not None] for names in form.fields]
        for names, texts in zip(form.fields, given, strict=True):
            if any(text != texts[0] for text in texts):
                raise fault(f"the fields {' and '.join(names)} hold different texts", "leave one of them out")
        pair = [texts[0] if texts else None for texts in given]
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(s, str) and s.strip() for s in pair):
        first, second = form.names
        lines = f"write {first} TAB {second}, or JSON with the fields {first} and {second}"
        raise fault(f"is not {form.description}", lines if line else f"give {form}")
    if not all(map(_is_text, pair)):
        raise fault("contains a NUL or half a surrogate pair", "remove it")
    if problem := form.check(*pair):
        raise fault(*problem)
    return tuple(pair)


def is_header(item, task: str) -> bool:
    """Whether the cells of a line are the names of the texts, in any case. task: a key of FORMS."""
    if not isinstance(item, list) or len(item) != 2 or not all(isinstance(cell, str) for cell in item):
        return False
    return all(cell.strip().casefold() in names for cell, names in zip(item, FORMS[task].fields, strict=True))


def _is_text(text):
    return not _NO_TEXT.search(text)
