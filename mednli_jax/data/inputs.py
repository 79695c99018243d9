"""Checks new inputs for prediction: dicts, tuples and lists become tuples of two texts."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from mednli_jax.data.labels import setting_entries
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.files.reading import character_fault, check_distinct
from mednli_jax.types import Json

# Columns that a line may lack at its end, as lines of SNLI lack some of label2 ... label5.
OPTIONAL_COLUMN = re.compile(r"label\d")
Input = Mapping[str, Json] | Sequence[Json]  # what a user gives for one example
TextPair = tuple[str, str]  # the two texts of an input


def _accepts_all(*texts: str) -> None:
    """Accepts any input: returns no problem."""


@dataclass(frozen=True)
class InputForm:
    """The form of the inputs of a task.

    Args:
      fields: for each of the two texts of an input, the accepted names of a dict's field; messages
        show the first name.
      description: what an input is, for messages.
      check: called with the texts of an input; returns (problem, fix), or None for a good input.
      first_words: the first words of the texts that `example` makes.
    """

    fields: tuple[tuple[str, ...], ...]
    description: str
    check: Callable[..., tuple[str, str] | None] = _accepts_all
    first_words: TextPair = ("a", "a")

    def example(self, lengths: Sequence[int]) -> TextPair:
        """An input that the task accepts. lengths: numbers of tokens of its texts."""
        first, second = (
            " ".join([word, *["a"] * (length - 1)])
            for word, length in zip(self.first_words, lengths, strict=True)
        )
        return first, second

    def with_columns(self, setting: str) -> "InputForm":
        """This form with the columns of a config.data.columns: "premise:note" means that the column
        `note` holds the premise, too."""
        column_of = {entry.left: entry.right.casefold() for entry in setting_entries(setting)}
        fields = []
        for names in self.fields:
            column = column_of.get(names[0])
            fields.append((column, *names) if column else names)
        return replace(self, fields=tuple(fields))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(names[0] for names in self.fields)

    @property
    def line_format(self) -> str:
        """The form of one line of text with TABs, for messages."""
        return " TAB ".join(self.names)

    def __str__(self) -> str:
        fields = ", ".join(f'"{name}": ...' for name in self.names)
        return f"({', '.join(self.names)}) or {{{fields}}}"

    def texts_of_all(self, inputs: Iterable[Input]) -> list[TextPair]:
        """The two texts of each input of `predict`. One error reports all faulty inputs. `texts`
        says what an input may be."""
        if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
            problem = f"the inputs are a {type(inputs).__name__}, not a list"
            raise UsageError(problem, fix=f"give a list of items; each is {self}")
        problems, texts_of_inputs = Problems(), []
        for index, item in enumerate(inputs):
            try:
                texts_of_inputs.append(self.texts(item, f"item {index}"))
            except DataError as error:
                problems.add(error)
        problems.raise_if_any()
        return texts_of_inputs

    def texts(self, values: Input, place: str, line: int | None = None) -> TextPair:
        """The two texts of an input: a dict with a field for each text, or a tuple or list of two
        strings.

        place, line: the file and the number of the line, for messages; without a line, `place`
        names the input.
        """

        def fault(problem: str, fix: str) -> DataError:
            return DataError(problem, file=place, line=line, fix=fix)

        fix = f"give {self}"
        if line:
            forms = f"{self.line_format}, JSON with these fields, or a header"
            fix = f"write {forms} that names these columns"
        problem = f"is not {self.description}"
        if isinstance(values, Mapping):
            values = [_text_of(values, names, fault) for names in self.fields]
        if not isinstance(values, tuple | list):
            raise fault(problem, fix)
        if len(values) != len(self.fields):
            problem += f": expected {len(self.fields)} fields, found {len(values)}"
            raise fault(problem, fix)
        for name, text in zip(self.names, values, strict=True):
            if not isinstance(text, str) or not text.strip():
                raise fault(f"{problem}: {name} has no text", fix)
        if problem := character_fault("".join(values)):
            raise fault(problem, "remove it")
        if wrong := self.check(*values):
            raise fault(*wrong)
        first, second = values
        return first, second

    def header(self, values: Input, file: str, number: int) -> list[str]:
        """The column names of a line if it is a header, which names a column for each text, in
        upper or lower case; [] if it names none of these columns.

        Raises DataError if it names only some. values: the cells of the line.
        """
        if not isinstance(values, list) or not all(isinstance(cell, str) for cell in values):
            return []
        cells = [cell.strip() or f"column {place}" for place, cell in enumerate(values, 1)]
        folded = set(map(str.casefold, cells))
        missing = [names[0] for names in self.fields if folded.isdisjoint(names)]
        if len(missing) == len(self.fields):
            return []
        if missing:
            problem = f"the header has no column {missing[0]}"
            raise DataError(problem, file=file, line=number, fix="name the column")
        check_distinct(cells, file, number)
        return cells

    def texts_and_rest(
        self, values: Input, header: Sequence[str], file: str, number: int
    ) -> tuple[TextPair, dict[str, Input]]:
        """Splits a line into (its two texts, its further columns).

        values: the cells or the fields of the line. header: the names of its cells, or [].
        """
        if header and isinstance(values, list):
            lacking = header[len(values) :]
            if len(values) > len(header) or not all(map(OPTIONAL_COLUMN.fullmatch, lacking)):
                problem = f"expected {len(header)} fields, as in the header, found {len(values)}"
                fix = "write a cell for each column"
                raise DataError(problem, file=file, line=number, fix=fix)
            values = dict(zip_longest(header, values, fillvalue=""))
        further = {}
        if isinstance(values, dict):
            names = set(chain.from_iterable(self.fields))
            further = {name: cell for name, cell in values.items() if name.casefold() not in names}
        return self.texts(values, file, number), further


def _text_of(
    fields: Mapping[str, Input], names: Sequence[str], fault: Callable[[str, str], DataError]
) -> Json:
    """The value that a mapping has under any of these names, in upper or lower case; None if it has
    none. Raises `fault` if two such values differ."""
    values = []
    for name, value in fields.items():
        if value is not None and str(name).casefold() in names:
            values.append(value)
    if any(value != values[0] for value in values):
        both = f"the fields {' and '.join(names)} hold different texts"
        raise fault(both, "leave one of them out")
    return values[0] if values else None
