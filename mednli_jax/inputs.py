"""Texts that a finished run is asked about, checked: dicts, tuples and lists become pairs of strings."""

from collections.abc import Iterable, Mapping

from mednli_jax.corpora.cloze.files import BEGIN, END, parse_marked
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.examples import PLACEHOLDER

# Fields of a dict, by a run's task. The first name of each is the one that messages give.
FIELDS = {
    "nli": (("premise", "sentence1"), ("hypothesis", "sentence2")),
    "cloze": (("passage",), ("query",)),
}
KINDS = {"nli": "a pair of sentences", "cloze": "a passage and a query"}


def text_pairs(given: Iterable, task: str) -> list[tuple[str, str]]:
    """What `predict` of a run is given from Python, as (premise, hypothesis) or (passage, query) strings.

    given: items as in `text_pair`. task: "nli" or "cloze".
    Raises: UsageError where `given` is no collection of items; DataError(s) as `text_pair`, each with the item's index.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        problem = f"what was given is a {type(given).__name__}, no list"
        raise UsageError(f"{problem}. Fix: give a list of items; each is {_forms(task)}.")
    problems, pairs = Problems(), []
    for index, item in enumerate(given):
        try:
            pairs.append(text_pair(item, task, f"item {index}"))
        except DataError as error:
            problems.add(error)
    problems.raise_if_any()
    return pairs


def text_pair(item, task: str, place: str, line: int | None = None) -> tuple[str, str]:
    """(premise, hypothesis) of one item, or of the task "cloze" (passage, query).

    item: a dict with one of FIELDS for each text, or a tuple or list of two strings. place, line: where it stands.
    Raises: DataError with the place and what to change.
    """
    pair = item
    if isinstance(item, Mapping):
        pair = [next((item[name] for name in names if name in item), None) for names in FIELDS[task]]
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(s, str) and s.strip() for s in pair):
        first, second = (names[0] for names in FIELDS[task])
        lines = f"write {first} TAB {second}, or JSON with the fields {first} and {second}"
        fix = lines if line else f"give {_forms(task)}"
        raise DataError(f"is not {KINDS[task]}", file=place, line=line, fix=fix)
    if not all(map(_is_text, pair)):
        problem = "holds what is no text (a NUL, half a character)"
        raise DataError(problem, file=place, line=line, fix="remove it")
    if task == "cloze":
        _check_marks(*pair, place, line)
    return tuple(pair)


def _forms(task):
    first, second = (names[0] for names in FIELDS[task])
    return f'({first}, {second}) or {{"{first}": ..., "{second}": ...}}'


def _check_marks(passage, query, place, line):
    """Raises DataError for what is wrong with the marks or the blank."""
    passage, query = parse_marked(passage), parse_marked(query)
    if len(query.blanks) != 1 or passage.blanks:
        problem = f"has {len(query.blanks)} of {PLACEHOLDER} in its query and {len(passage.blanks)} in its passage"
        fix = "write one in the query, and none in the passage"
        raise DataError(problem, file=place, line=line, fix=fix)
    if stray := passage.stray + query.stray:
        problem = f"has {stray} marks that are unbalanced or mark nothing"
        fix = f"give every {BEGIN} its {END} in the same text, with words between them"
        raise DataError(problem, file=place, line=line, fix=fix)


def _is_text(text):
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
