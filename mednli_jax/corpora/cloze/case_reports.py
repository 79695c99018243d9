"""Case reports with marked phrases and learning points: what cloze queries are built from (`query_builder`).

JSON lines, plain or gzipped, one report a line; tokens stand between spaces:

    {"id": "r1", "title": SENTENCE, "specialty": "surgery",
     "sentences": [SENTENCE, ...], "learning_points": [SENTENCE, ...]}

A SENTENCE is a string in which phrases are marked, "No BEG__fever__END .", or its tokens and the phrases' places among
them (from 0, end exclusive): {"text": "No fever .", "entities": [{"start": 1, "end": 2, "id": "D005334", "type":
"problem"}]}. `title` and `specialty` may be missing, and so may an entity's `id` (in an ontology) and `type`.
Errors name the file, the line and the field; they never quote a report.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from mednli_jax.corpora.cloze.files import BEGIN, END, parse_marked
from mednli_jax.corpora.lines import no_such_file, text_lines
from mednli_jax.errors import DataError, Problems
from mednli_jax.examples import PLACEHOLDER

KINDS = ("problem", "treatment", "test")
_CALLED = {str: "text", list: "a list", int: "a whole number"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked phrase: tokens `start` to `end` (exclusive), and what the report says of it ("" where it does not)."""

    start: int
    end: int
    concept: str = ""
    semantic_type: str = ""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens, and the marked phrases among them in order, not overlapping."""

    tokens: tuple[str, ...]
    marks: tuple[Mark, ...]

    def phrase(self, mark: Mark) -> str:
        return " ".join(self.tokens[mark.start : mark.end])


@dataclass(frozen=True, slots=True)
class Report:
    """One case report: what becomes the passage, and the learning points that become queries."""

    uid: str
    title: Sentence
    sentences: tuple[Sentence, ...]
    learning_points: tuple[Sentence, ...]
    specialty: str = ""


def read_reports(path: Path) -> list[Report]:
    """The reports of a file. Raises: DataError, or DataErrors with the first 20 faults together."""
    path, reports, lines, problems = Path(path), [], {}, Problems()
    if not path.is_file():
        raise no_such_file(path)
    for number, line in text_lines(path):
        if isinstance(line, DataError):
            problems.add(line)
        elif line.strip():
            try:
                report = _Line(path.name, number).report(line)
                if lines.setdefault(report.uid, number) != number:
                    problem = f"field 'id' repeats that of line {lines[report.uid]}"
                    raise DataError(problem, file=path.name, line=number, field="id", fix="rename one")
                reports.append(report)
            except DataError as error:
                problems.add(error)
    problems.raise_if_any()
    if not reports:
        raise DataError("holds no report", file=path.name, fix="put one JSON object a line into it")
    return reports


class _Line:
    """One line of a file of reports; its faults carry the place."""

    def __init__(self, file: str, number: int):
        self.file, self.number = file, number

    def report(self, line: str) -> Report:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise self._fault("the line is no JSON object", "", "write each report on a line of its own")
        uid, specialty = self._text(row, "id"), self._text(row, "specialty", optional=True)
        if not uid.strip():
            raise self._fault("field 'id' is empty", "id", "give every report an id of its own")
        title = self._sentence(row.get("title") or "", "title")
        sentences, points = (
            tuple(self._sentence(item, f"{field}[{n}]") for n, item in enumerate(self._value(row, field, list)))
            for field in ("sentences", "learning_points")
        )
        if not any(sentence.tokens for sentence in sentences):
            raise self._fault("field 'sentences' holds no token", "sentences", "give the report's text")
        return Report(uid, title, sentences, points, specialty)

    def _sentence(self, item, place: str) -> Sentence:
        if isinstance(item, str):
            marked = parse_marked(self._checked(item, place))
            marks = tuple(Mark(entity.start, entity.end) for entity in marked.entities)
            stray = marked.stray
        elif isinstance(item, dict):
            marked = parse_marked(self._text(item, "text", f"{place}."))
            rows = self._value(item, "entities", list, f"{place}.") if "entities" in item else []
            marks = self._marks(rows, len(marked.tokens), f"{place}.entities")
            stray = marked.stray + len(marked.entities)  # with entities given there is nothing to mark
        else:
            raise self._wrong(place, "text or an object")
        if stray:
            fix = f"give every {BEGIN} its {END} around at least one token, and no marks where entities are listed"
            raise self._fault(f"{place} has {stray} marks that are unbalanced or mark nothing", place, fix)
        if marked.blanks:
            problem = f"{place} holds {PLACEHOLDER}, which marks the gap of a query"
            raise self._fault(problem, place, "write it otherwise")
        return Sentence(marked.tokens, marks)

    def _marks(self, rows: list, length: int, place: str) -> tuple[Mark, ...]:
        marks = []
        for number, row in enumerate(rows):
            here = f"{place}[{number}]"
            if not isinstance(row, dict):
                raise self._wrong(here, "an object")
            start, end = (self._value(row, field, int, f"{here}.") for field in ("start", "end"))
            concept, kind = (self._text(row, field, f"{here}.", optional=True) for field in ("id", "type"))
            if kind not in ("", *KINDS):
                raise self._wrong(f"{here}.type", f"one of {', '.join(KINDS)}")
            marks.append(Mark(start, end, concept, kind))
        marks.sort(key=lambda mark: mark.start)
        ends = [0, *(mark.end for mark in marks)]
        if any(not end <= mark.start < mark.end <= length for mark, end in zip(marks, ends, strict=False)):
            problem = f"{place} are empty, overlap or lie outside the {length} tokens"
            raise self._fault(problem, place, "count tokens from 0; the end is exclusive")
        return tuple(marks)

    def _text(self, row: dict, field: str, before: str = "", *, optional: bool = False) -> str:
        if optional and row.get(field) is None:
            return ""
        return self._checked(self._value(row, field, str, before), before + field)

    def _checked(self, text: str, field: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            text = "\0"
        if "\0" in text:
            problem = f"field '{field}' holds a NUL character or half a surrogate pair"
            raise self._fault(problem, field, "remove the character")
        return text

    def _value(self, row: dict, field: str, kind: type, before: str = ""):
        value = row.get(field)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self._wrong(before + field, _CALLED[kind])
        return value

    def _wrong(self, field: str, expected: str) -> DataError:
        problem = f"field '{field}' is missing or of the wrong kind"
        return self._fault(problem, field, f"give {expected}")

    def _fault(self, problem: str, field: str, fix: str) -> DataError:
        return DataError(problem, file=self.file, line=self.number, field=field, fix=fix)
