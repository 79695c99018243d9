"""Files of cloze queries: JSON piece by piece, fields by their path, marked phrases.

A corpus of CliCR's kind is one JSON object of hundreds of megabytes without a line break. `Scanner` gives the items of
its long list one by one, so that memory holds one article, and `Node` says where in the file a fault is:
`dev1.0.json:data[17].document.qas[2].answers[0].text`.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from mednli_jax.errors import DataError, Problems
from mednli_jax.examples import PLACEHOLDER, SEVERAL, Entity
from mednli_jax.textfiles import FRESH_COPY, character_fault, either_name

PIECE = 1 << 20  # characters that are read at a time
MAX_ITEM = 1 << 26  # characters without the end of an item: the file is broken
BEGIN, END = "BEG__", "__END"
# The tokeniser that CliCR went through left the placeholder of some queries in two parts.
_MARKS = re.compile(rf"({BEGIN}|{END}|@\s?placeholder(?![^\W_])|\n)")
_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def found_files(folder: Path, corpus: str, files: Mapping[str, str]) -> tuple[Path, dict[str, Path | None]]:
    """(the corpus's own folder, split -> its file, plain or gzipped, or None); arguments: see split_files."""
    place = Path(folder) / corpus if (Path(folder) / corpus).is_dir() else Path(folder)
    return place, {split: either_name(place / file) for split, file in files.items()}


def split_files(folder: Path, corpus: str, files: Mapping[str, str], source: str) -> dict[str, Path]:
    """split -> its file, plain or gzipped.

    Args:
      folder: the corpus's own folder, or the data folder ($MEDNLI_JAX_DATA) that holds it under the corpus's name.
      files: split -> the file's name without .gz. source: where a user gets the files, for the message.

    Raises: DataError(s) for missing ones.
    """
    paths, problems = {}, Problems()
    place, found = found_files(folder, corpus, files)
    for split, path in found.items():
        file = files[split]
        if path is None:
            lacking = f"neither {file} nor {file}.gz is in {place}" if place.is_dir() else f"no folder {place}"
            fix = f"{source} and put {file} into $MEDNLI_JAX_DATA/{corpus}/"
            problems.add(DataError(lacking, file=file, fix=fix))
        else:
            paths[split] = path
    problems.raise_if_any()
    return paths


class BrokenJSON(Exception):
    """The text is no JSON, or not of the form that was requested."""


class Scanner:
    """A JSON text, taken value by value from a stream. Every method raises BrokenJSON where it finds something else."""

    def __init__(self, stream):
        self._stream, self._text, self._at, self._ended = stream, "", 0, False

    def fields(self) -> Iterator[str]:
        """The keys of the object that comes next. Before the next key the caller takes the value of this one."""
        yield from self._members("{", "}", self._key)

    def items(self) -> Iterator[int]:
        """The numbers of the items of the list that comes next; the caller takes each item."""
        yield from self._members("[", "]", count().__next__)

    def value(self):
        """The value that comes next, whole."""
        self._peek()
        size = PIECE
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise BrokenJSON from None
            except ValueError:
                if self._ended or len(self._text) - self._at > MAX_ITEM:
                    raise BrokenJSON from None
            else:
                if end < len(self._text) or self._ended:  # a number at the end of the text may go on
                    self._at = end
                    return value
            self._more(size)
            size *= 2

    def end(self) -> None:
        """Nothing but blanks is left."""
        if self._peek():
            raise BrokenJSON

    def _members(self, opening, closing, head):
        self._take(opening)
        if self._peek() == closing:
            self._at += 1
            return
        while True:
            yield head()
            character = self._peek()
            self._at += 1
            if character == closing:
                return
            if character != ",":
                raise BrokenJSON

    def _key(self):
        key = self.value() if self._peek() == '"' else None
        if key is None:
            raise BrokenJSON
        self._take(":")
        return key

    def _take(self, character):
        if self._peek() != character:
            raise BrokenJSON
        self._at += 1

    def _peek(self):
        """The next character that is no blank, "" at the end."""
        while True:
            self._at = _BLANKS.match(self._text, self._at).end()
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._more(PIECE)

    def _more(self, size):
        piece = self._stream.read(size)
        self._ended = not piece
        self._text, self._at = self._text[self._at :] + piece, 0


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
        """The string itself. Raises: DataError where it is blank (unless `empty`) or holds no text."""
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
