"""From case reports with marked phrases to cloze queries: Šuster & Daelemans 2018, sections 3 to
3.2.

A file of reports: JSON lines, plain or gzipped, one report a line; tokens are separated by spaces:

    {"id": "r1", "title": SENTENCE, "specialty": "surgery" or ["surgery", ...],
     "sentences": [SENTENCE, ...], "learning_points": [SENTENCE, ...]}

A SENTENCE is a string in which phrases are marked, "No BEG__fever__END .", or its tokens and the
phrases' places among them (from 0, end exclusive): {"text": "No fever .", "entities": [{"start": 1,
"end": 2, "id": "D005334", "type": "problem"}]}. `title` and `specialty` may be missing, and so may
an entity's `id` (in an ontology) and `type`. Errors name the file, the line and the field; they
never quote a report.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mednli_jax.cloze.clicr import BEGIN, END, SEMANTIC_TYPES, Node, parse_marked
from mednli_jax.data.examples import PLACEHOLDER, Answer, ClozeExample, Entity, Passage, Split
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.files import empty_file, json_lines
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology

_DETERMINERS_AND_PRONOUNS = """
    a an the this that these those no any some each every either neither both all another other such what which whose
    my your his her its our their i you he she it we they me him us them who whom
    myself yourself himself herself itself ourselves yourselves themselves
"""
FUNCTION_WORDS = frozenset(_DETERMINERS_AND_PRONOUNS.split())
_BRACKETS = {"-LRB-": "(", "-RRB-": ")"}
_STOPS = frozenset(".!?;:,")
# Prefixes of MeSH's tree numbers and of the UMLS's semantic types, as the i2b2 2010 task divides
# clinical concepts.
PREFIXES = {
    "problem": (
        *("C0", "C1", "C2", "F03"),
        *("T019", "T020", "T033", "T037", "T046", "T047", "T048", "T049", "T184", "T190", "T191"),
    ),
    "test": ("E01", "E05", "T034", "T059", "T060", "T063"),
    "treatment": (
        *("D", "E02", "E03", "E04", "E06", "E07"),
        *("T061", "T074", "T109", "T116", "T121", "T125", "T127", "T129", "T195", "T200", "T203"),
    ),
}


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked phrase: tokens `start` to `end` (exclusive), its concept id and type ("" if the
    report gives none)."""

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
    """One case report: the sentences of the passage, and the learning points that become
    queries."""

    uid: str
    title: Sentence
    sentences: tuple[Sentence, ...]
    learning_points: tuple[Sentence, ...]
    specialty: str = ""


def read_reports(path: Path) -> list[Report]:
    """The reports of a file."""
    path, reports, lines, problems = Path(path), [], {}, Problems()
    for number, values in json_lines(path, problems):
        node = Node(path.name, "", values, number)
        try:
            uid, specialty = node.text("id"), node.specialties()
            title = _sentence(Node(node.file, "title", values.get("title") or "", number))
            sentences, points = (
                tuple(map(_sentence, node.nodes(name))) for name in ("sentences", "learning_points")
            )
            if not any(sentence.tokens for sentence in sentences):
                raise node.fault("holds no token", "sentences", "give the report's text")
            report = Report(uid, title, sentences, points, specialty)
            if lines.setdefault(report.uid, number) != number:
                raise node.fault(f"repeats that of line {lines[report.uid]}", "id", "rename one")
            reports.append(report)
        except DataError as error:
            problems.add(error)
    problems.raise_if_any()
    if not reports:
        raise empty_file(path, "no report")
    return reports


def _sentence(node: Node) -> Sentence:
    """A sentence from its string, or from its text and entities."""
    if isinstance(node.values, str):
        marked = parse_marked(node.text(empty=True))
        marks, stray = (
            tuple(Mark(entity.start, entity.end) for entity in marked.entities),
            marked.stray,
        )
    else:
        marked = parse_marked(node.text("text", empty=True))
        marks = _marks(node, len(marked.tokens)) if "entities" in node.values else ()
        stray = marked.stray + len(marked.entities)
    if stray:
        fix = f"give every {BEGIN} its {END} around at least one token, and no marks where entities are listed"
        raise node.fault(f"has {stray} marks that are unbalanced or mark nothing", fix=fix)
    if marked.blanks:
        raise node.fault(
            f"holds {PLACEHOLDER}, which marks the gap of a query", fix="write it otherwise"
        )
    return Sentence(marked.tokens, marks)


def _marks(node: Node, length: int) -> tuple[Mark, ...]:
    marks = []
    for row in node.nodes("entities"):
        start, end = (row.get(field, int) for field in ("start", "end"))
        concept, kind = (row.text(field, optional=True) for field in ("id", "type"))
        if kind not in ("", *SEMANTIC_TYPES):
            raise row.fault(f"is none of {', '.join(SEMANTIC_TYPES)}", "type", "correct the type")
        marks.append(Mark(start, end, concept, kind))
    marks.sort(key=lambda mark: mark.start)
    ends = [0, *(mark.end for mark in marks)]
    if any(
        not end <= mark.start < mark.end <= length for mark, end in zip(marks, ends, strict=False)
    ):
        problem = f"holds entities that are empty, overlap or lie outside the {length} tokens"
        raise node.fault(problem, "entities", "count tokens from 0; the end is exclusive")
    return tuple(marks)


def cleaned(sentence: Sentence, counts: Counter) -> Sentence:
    """The sentence with the boundaries of its phrases mended (section 3); its tokens stay.

    Determiners and pronouns at the beginning are moved out, and so are parentheticals at the end. A
    phrase of determiners and pronouns alone is no longer marked. counts: of what was mended.
    """
    marks = []
    for mark in sentence.marks:
        start, end = mark.start, mark.end
        while start < end and sentence.tokens[start].lower() in FUNCTION_WORDS:
            start += 1
        while start < (before := _before_parenthetical(sentence.tokens, start, end)) < end:
            end = before
        counts.update({"function_words": start > mark.start, "parentheticals": end < mark.end})
        counts["no_longer_marked"] += start == end
        if start < end:
            marks.append(replace(mark, start=start, end=end))
    return replace(sentence, marks=tuple(marks))


def _before_parenthetical(tokens: Sequence[str], start: int, end: int) -> int:
    """Where the parenthetical that ends at `end` begins; `end` where there is none."""
    depth = 0
    for place in range(end - 1, start - 1, -1):
        token = _BRACKETS.get(tokens[place], tokens[place])
        if place == end - 1 and not token.endswith(")"):
            return end
        depth += token.count(")") - token.count("(")
        if depth <= 0:
            return place if token.startswith("(") else end  # "cancer(s)" has no parenthetical
    return end


def build_queries(reports: Sequence[Report], ontology: Ontology | None = None) -> Split:
    """One query for every marked phrase of every learning point; the rest of the report is its
    passage.

    Left out are queries that the passage repeats (`repeats_passage`, section 3.1) and, where the
    paper says nothing, those whose other words still hold the answer. A query's uid is the report's
    and the phrase's number.

    ontology: extends the answers by all names of the phrase's concept (section 3.2), which is found
    by the report's id or else by the whole phrase as its name. None: no synonyms.
    """
    drafts, dropped = [], Counter(repeats_passage=0, shows_answer=0)
    mended = Counter(function_words=0, parentheticals=0, no_longer_marked=0)
    for report in reports:
        drafts += _drafts(report, dropped, mended)
    if not drafts:
        fix = "mark phrases in the learning points; see the counts of a smaller file"
        raise DataError(
            f"{len(reports)} reports give no query, {dropped.total()} were left out", fix=fix
        )
    answers, found = _answers(ontology, [(phrase, mark) for _, phrase, mark in drafts])
    examples = tuple(
        replace(draft[0], answers=of) for draft, of in zip(drafts, answers, strict=True)
    )
    facts = {
        "reports": len(reports),
        "learning_points": sum(len(report.learning_points) for report in reports),
        "rows": len(examples),
        "dropped": dict(dropped),
        "mended": dict(mended),
        "concepts": found,
        "extended": sum(len(example.answers) > 1 for example in examples),
        "ontology_sha256": ontology.sha256 if ontology else "",
    }
    return Split("all", examples, facts)


def _drafts(
    report: Report, dropped: Counter, mended: Counter
) -> list[tuple[ClozeExample, str, Mark]]:
    """(query without answers, answer's words, mark) of a report; counts what was left out and
    mended."""
    passage, drafts = _passage(report, mended), []
    text = f" {' '.join(passage.tokens).lower()} "
    points = [cleaned(point, mended) for point in report.learning_points]
    marks = ((point, mark) for point in points for mark in point.marks)
    for number, (point, mark) in enumerate(marks, start=1):
        query, phrase = (
            (*point.tokens[: mark.start], PLACEHOLDER, *point.tokens[mark.end :]),
            point.phrase(mark),
        )
        shift = mark.end - mark.start - 1
        moved = (
            (other, shift if other.start > mark.start else 0)
            for other in point.marks
            if other is not mark
        )
        entities = tuple(Entity(other.start - by, other.end - by) for other, by in moved)
        example = ClozeExample(f"{report.uid}.{number}", passage, query, entities, mark.start, ())
        if repeats_passage(example.query, example.blank, text):
            dropped["repeats_passage"] += 1
        elif f" {phrase.lower()} " in f" {' '.join(example.query).lower()} ":
            dropped["shows_answer"] += 1
        else:
            drafts.append((example, phrase, mark))
    return drafts


def repeats_passage(query: Sequence[str], blank: int, passage: str) -> bool:
    """Whether the longer side of the gap, or one of two equal ones, stands in the passage word for
    word (section 3.1).

    passage: its lower-cased tokens between single spaces, one at either end. A gap without words
    around it repeats any passage.
    """
    words = [word.lower() for word in query]
    while len(words) > blank + 1 and words[-1] in _STOPS:
        words.pop()
    sides = words[:blank], words[blank + 1 :]
    longest = max(map(len, sides))
    return longest == 0 or any(
        len(side) == longest and f" {' '.join(side)} " in passage for side in sides
    )


def _passage(report: Report, mended: Counter) -> Passage:
    tokens, entities, ends = [], [], []
    for sentence in (cleaned(sentence, mended) for sentence in report.sentences if sentence.tokens):
        entities += [
            Entity(mark.start + len(tokens), mark.end + len(tokens)) for mark in sentence.marks
        ]
        tokens += sentence.tokens
        ends.append(len(tokens))
    title = cleaned(report.title, mended)
    marks = tuple(Entity(mark.start, mark.end) for mark in title.marks)
    return Passage(
        report.uid,
        title.tokens,
        tuple(tokens),
        tuple(entities),
        tuple(ends),
        report.specialty,
        marks,
    )


def _answers(ontology, marks) -> tuple[list[tuple[Answer, ...]], Counter]:
    """(for each (phrase, mark) the phrase, then every other name of its concept, each once but for
    case; counts of queries by the way in which their concepts were found)."""
    counts, concepts, names, answers = Counter(by_id=0, by_name=0, none=0), {}, {}, []
    if ontology is not None:
        linker = Linker(
            ontology, types=(), vocabulary={word for phrase, _ in marks for word in phrase.split()}
        )
        for phrase, given in dict.fromkeys((phrase, mark.concept) for phrase, mark in marks):
            found, index = "by_id", ontology.index(given) if given else None
            if index is None:
                tokens = phrase.split()
                whole = [
                    one
                    for one in linker.link(tokens, parts=False)
                    if (one.start, one.end) == (0, len(tokens))
                ]
                found, index = (
                    ("by_name", ontology.index_of[whole[0].concept]) if whole else ("none", None)
                )
            concepts[phrase, given] = found, index
        names = {
            index: [ontology.labels[index]] for _, index in concepts.values() if index is not None
        }
        for name, index in ontology.names:
            if index in names:
                names[index].append(name)
        counts.update(concepts[phrase, mark.concept][0] for phrase, mark in marks)
    for phrase, mark in marks:
        _, index = concepts.get((phrase, mark.concept), ("", None))
        if index is None:
            answers.append((Answer(phrase, mark.concept, mark.semantic_type),))
            continue
        concept, kind = ontology.ids[index], mark.semantic_type or semantic_type(ontology, index)
        texts = {phrase.lower(): phrase}
        for name in names[index]:
            texts.setdefault(name.lower(), name)
        _, *others = texts.values()
        answers.append(
            (
                Answer(phrase, concept, kind),
                *(Answer(text, concept, kind, "UMLS") for text in others),
            )
        )
    return answers, counts


def semantic_type(ontology: Ontology, index: int) -> str:
    """ "problem", "test" or "treatment" by a concept's types in MeSH or the UMLS; "" for all
    others."""
    types = ontology.types[index].split("|") if len(ontology.types) else []
    found = (
        kind
        for kind, prefixes in PREFIXES.items()
        if any(one.startswith(prefixes) for one in types)
    )
    return next(found, "")


def divided(split: Split, dev: float, test: float) -> dict[str, Split]:
    """The queries as train, dev and test, all of one report in the same; which one, the hash of its
    uid decides.

    dev, test: shares of the reports.
    """
    if min(dev, test) < 0 or not dev + test < 1:
        fix = "give two numbers from 0 on that sum to less than 1"
        raise UsageError(f"{dev:g} and {test:g} are no shares of dev and test", fix=fix)
    places = {"train": [], "dev": [], "test": []}
    for example in split.examples:
        digest = hashlib.sha256(example.passage.uid.encode()).digest()
        point = int.from_bytes(digest[:8], "big") / 2**64
        places["dev" if point < dev else "test" if point < dev + test else "train"].append(example)
    return {
        name: Split(name, tuple(found), {**split.facts, "rows": len(found)})
        for name, found in places.items()
    }
