"""Files of cloze queries: fields of JSON by their path, and marked phrases.

`Node` says where in the file a fault is: `dev1.0.json:data[17].document.qas[2].answers[0].text`.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mednli_jax.data.examples import PLACEHOLDER, SEVERAL, Entity
from mednli_jax.errors import DataError
from mednli_jax.io import FRESH_COPY, character_fault

BEGIN, END = "BEG__", "__END"
# The tokeniser that CliCR went through left the placeholder of some queries in two parts.
_MARKS = re.compile(rf"({BEGIN}|{END}|@\s?placeholder(?![^\W_])|\n)")


class Node:
    """A JSON object and its place in the file; raises DataError for what is wrong with a field, without its words.

    line: of a file of JSON lines. Without one a fault names the path in place of the line.
    """

    __slots__ = ("file", "line", "path", "values")

    def __init__(self, file: str, path: str, values, line: int | None = None):
        self.file, self.path, self.values, self.line = file, path, values, line

    def fault(self, problem: str, field: str = "", fix: str = FRESH_COPY) -> DataError:
        place = self.place(field)
        if self.line is None:
            return DataError(problem, file=self.file, line=place or None, field=field or None, fix=fix)
        problem = f"field '{place}' {problem}" if place else f"the line {problem}"
        return DataError(problem, file=self.file, line=self.line, field=place or None, fix=fix)

    def place(self, field: str) -> str:
        return f"{self.path}.{field}" if self.path and field else self.path or field

    def child(self, field: str) -> "Node":
        return Node(self.file, self.place(field), self.get(field, dict, "an object"), self.line)

    def nodes(self, field: str) -> list["Node"]:
        """The items of a list; what they are is checked when their fields are requested."""
        place = self.place(field)
        values = self.get(field, list, "a list")
        return [Node(self.file, f"{place}[{number}]", value, self.line) for number, value in enumerate(values)]

    def text(self, field: str, *, optional: bool = False, empty: bool = False) -> str:
        """A string of Unicode text; "" where it is optional and missing or null. empty: it may be blank."""
        if optional and isinstance(self.values, dict) and self.values.get(field) is None:
            return ""
        return self.checked(field, self.get(field, str, "a string"), empty or optional)

    def specialties(self) -> str:
        """The field `specialty`, a string or a list of strings: the names joined by SEVERAL; "" where it is missing."""
        field = "specialty"
        if not isinstance(self.values, dict) or not isinstance(self.values.get(field), list):
            return self.text(field, optional=True)
        names = self.values[field]
        if not all(isinstance(name, str) for name in names):
            raise self.fault("is no list of strings", field)
        return SEVERAL.join(self.checked(field, name) for name in names)

    def get(self, field: str, kind: type, what: str):
        if not isinstance(self.values, dict):
            raise self.fault(f"is a {type(self.values).__name__}, expected an object")
        if field not in self.values:
            raise self.fault("is missing", field, f"use the official file, which has '{field}' here")
        value = self.values[field]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.fault(f"is a {type(value).__name__}, expected {what}", field)
        return value

    def checked(self, field: str, value: str, empty: bool = False) -> str:
        """The string itself: text, and not blank unless `empty`."""
        if not empty and not value.strip():
            raise self.fault("is empty", field, "fill in the text, or remove what it belongs to")
        if problem := character_fault(value):
            raise self.fault(problem, field)
        return value


class Marked(NamedTuple):
    """A text with marks, read. sentences: end of each line in tokens. blanks: places of PLACEHOLDER.

    stray: marks without a partner, and marks around nothing or around a placeholder; of nested phrases the inner one is
    marked and the outer marks are stray. joined: placeholders in parts.
    """

    tokens: tuple[str, ...]
    entities: tuple[Entity, ...]
    sentences: tuple[int, ...]
    blanks: tuple[int, ...]
    stray: int
    joined: int

    @property
    def marks(self) -> int:
        """All marks of the text, opening and closing ones."""
        return 2 * len(self.entities) + self.stray


def parse_marked(text: str) -> Marked:
    """Reads `BEG__w1 w2__END` and placeholders; marks are token boundaries, a line break within marks is a space."""
    tokens, entities, blanks, start, stray, joined = [], [], [], -1, 0, 0
    ends, held = [], []  # of lines; held are those since a BEG__ that may have no partner
    for number, piece in enumerate(_MARKS.split(text)):
        if number % 2 == 0:
            tokens += piece.split()
        elif piece == "\n":
            (ends if start < 0 else held).append(len(tokens))
        elif piece == END and 0 <= start < len(tokens):
            entities.append(Entity(start, len(tokens)))
            start, held = -1, []
        else:
            stray += start >= 0 or piece == END
            ends += held
            start, held = len(tokens) if piece == BEGIN else -1, []
            if piece not in (BEGIN, END):
                joined += piece != PLACEHOLDER
                blanks.append(len(tokens))
                tokens.append(PLACEHOLDER)
    sentences = dict.fromkeys(end for end in (*ends, *held, len(tokens)) if end)
    # A corpus repeats its words: one string for each keeps it in memory.
    words = tuple(map(sys.intern, tokens))
    return Marked(words, tuple(entities), tuple(sentences), tuple(blanks), stray + (start >= 0), joined)


def marked_text(tokens: Sequence[str], entities: Iterable[Entity], sentences: Sequence[int] = ()) -> str:
    """What parse_marked reads: tokens between spaces, marks around entities, a line for each sentence."""
    words = list(tokens)
    for entity in entities:
        words[entity.start] = BEGIN + words[entity.start]
        words[entity.end - 1] += END
    ends = sentences or (len(words),)
    return "\n".join(" ".join(words[start:end]) for start, end in zip((0, *ends), ends, strict=False))
