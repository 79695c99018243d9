"""Case reports with marked phrases and learning points, from which `query_builder` builds cloze queries.

JSON lines, plain or gzipped, one report a line; tokens are separated by spaces:

    {"id": "r1", "title": SENTENCE, "specialty": "surgery" or ["surgery", ...],
     "sentences": [SENTENCE, ...], "learning_points": [SENTENCE, ...]}

A SENTENCE is a string in which phrases are marked, "No BEG__fever__END .", or its tokens and the phrases' places among
them (from 0, end exclusive): {"text": "No fever .", "entities": [{"start": 1, "end": 2, "id": "D005334", "type":
"problem"}]}. `title` and `specialty` may be missing, and so may an entity's `id` (in an ontology) and `type`.
Errors name the file, the line and the field; they never quote a report.
"""

from dataclasses import dataclass
from pathlib import Path

from mednli_jax.corpora.cloze.files import BEGIN, END, Node, parse_marked
from mednli_jax.errors import DataError, Problems
from mednli_jax.examples import PLACEHOLDER
from mednli_jax.textfiles import empty_file, json_lines

KINDS = ("problem", "treatment", "test")


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked phrase: tokens `start` to `end` (exclusive), its concept id and type ("" if the report gives none)."""

    start: int
    end: int
    concept: str = ""
    semantic_type: str = ""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens, and the marked phrases among them, in order and without overlap."""

    tokens: tuple[str, ...]
    marks: tuple[Mark, ...]

    def phrase(self, mark: Mark) -> str:
        return " ".join(self.tokens[mark.start : mark.end])


@dataclass(frozen=True, slots=True)
class Report:
    """One case report: the sentences of the passage, and the learning points that become queries."""

    uid: str
    title: Sentence
    sentences: tuple[Sentence, ...]
    learning_points: tuple[Sentence, ...]
    specialty: str = ""


def read_reports(path: Path) -> list[Report]:
    """The reports of a file. Raises: DataError, or DataErrors with the first 20 faults together."""
    path, reports, lines, problems = Path(path), [], {}, Problems()
    for number, values in json_lines(path, problems):
        node = Node(path.name, "", values, number)
        try:
            report = _report(node)
            if lines.setdefault(report.uid, number) != number:
                raise node.fault(f"repeats that of line {lines[report.uid]}", "id", "rename one")
            reports.append(report)
        except DataError as error:
            problems.add(error)
    problems.raise_if_any()
    if not reports:
        raise empty_file(path, "no report")
    return reports


def _report(node: Node) -> Report:
    uid, specialty = node.text("id"), node.specialties()
    title = _sentence(Node(node.file, "title", node.values.get("title") or "", node.line))
    sentences, points = (tuple(map(_sentence, node.nodes(field))) for field in ("sentences", "learning_points"))
    if not any(sentence.tokens for sentence in sentences):
        raise node.fault("holds no token", "sentences", "give the report's text")
    return Report(uid, title, sentences, points, specialty)


def _sentence(node: Node) -> Sentence:
    """A sentence from its string, or from its text and entities."""
    if isinstance(node.values, str):
        marked = parse_marked(node.checked("", node.values, empty=True))
        marks, stray = tuple(Mark(entity.start, entity.end) for entity in marked.entities), marked.stray
    else:
        marked = parse_marked(node.text("text", empty=True))
        marks = _marks(node, len(marked.tokens)) if "entities" in node.values else ()
        stray = marked.stray + len(marked.entities)  # marks are not allowed beside given entities
    if stray:
        fix = f"give every {BEGIN} its {END} around at least one token, and no marks where entities are listed"
        raise node.fault(f"has {stray} marks that are unbalanced or mark nothing", fix=fix)
    if marked.blanks:
        raise node.fault(f"holds {PLACEHOLDER}, which marks the gap of a query", fix="write it otherwise")
    return Sentence(marked.tokens, marks)


def _marks(node: Node, length: int) -> tuple[Mark, ...]:
    marks = []
    for row in node.nodes("entities"):
        start, end = (row.get(field, int, "a whole number") for field in ("start", "end"))
        concept, kind = (row.text(field, optional=True) for field in ("id", "type"))
        if kind not in ("", *KINDS):
            raise row.fault(f"is none of {', '.join(KINDS)}", "type", "correct the type")
        marks.append(Mark(start, end, concept, kind))
    marks.sort(key=lambda mark: mark.start)
    ends = [0, *(mark.end for mark in marks)]
    if any(not end <= mark.start < mark.end <= length for mark, end in zip(marks, ends, strict=False)):
        problem = f"holds entities that are empty, overlap or lie outside the {length} tokens"
        raise node.fault(problem, "entities", "count tokens from 0; the end is exclusive")
    return tuple(marks)
