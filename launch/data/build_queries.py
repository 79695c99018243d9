"""Builds cloze queries from case reports: Šuster & Daelemans 2018, sections 3 to 3.2.

  python launch/data/build_queries.py --reports=FILE --out=FOLDER
  python launch/data/build_queries.py --reports=FILE --out=FOLDER --ontology=umls \\
      --sources=SNOMEDCT_US,MSH

  --reports=FILE            JSON lines, plain or gzipped
  --out=FOLDER              of the new corpus
  --ontology=NAME           mesh (default), umls, snomed, a path, or none for no synonyms
  --sources=NAME,...        vocabularies of the UMLS whose names are used (default: all)
  --data=FOLDER             the data folder (default: $MEDNLI_JAX_DATA)
  --dev=SHARE --test=SHARE  shares of the reports (0.06, 0.07)

Builds one query for every marked phrase of a learning point, except for queries that the report
repeats. Adds the names of an ontology to the answers (from the UMLS all English names of all
vocabularies). Writes train1.0.json, dev1.0.json and test1.0.json in CliCR's layout, so that FOLDER
is a corpus like CliCR. All queries of a report are in one file. The counts of corrected and omitted
parts are printed as JSON.

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
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from absl import flags

from mednli_jax import cli
from mednli_jax.cloze.clicr import (
    BEGIN,
    END,
    FILES,
    SEMANTIC_TYPES,
    Node,
    parse_marked,
    specialty_of,
    write_clicr,
)
from mednli_jax.data.examples import PLACEHOLDER, Answer, ClozeExample, Entity, Passage, Split
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.files.reading import empty_file, json_lines
from mednli_jax.files.writing import private_folder
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import Ontology, OntologyOptions

_WORDS = """
    a an the this that these those no any some each every either neither both all another other
    such what which whose
    my your his her its our their i you he she it we they me him us them who whom
    myself yourself himself herself itself ourselves yourselves themselves
"""
DETERMINERS_AND_PRONOUNS = frozenset(_WORDS.split())
ClozeSplit = Split[ClozeExample]
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
    """A marked phrase: the tokens `start` to `end` (exclusive), its concept id and type ("" if the
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
    """Reads the reports of a file."""
    path, problems = Path(path), Problems()
    reports = []
    line_of_uid: dict[str, int] = {}
    for line, values in json_lines(path, problems):
        node = Node(path.name, "", values, line)
        try:
            report = _report(node)
            first = line_of_uid.setdefault(report.uid, line)
            if first != line:
                raise node.fault(f"repeats that of line {first}", "id", "rename one")
        except DataError as fault:
            problems.add(fault)
        else:
            reports.append(report)
    problems.raise_if_any()
    if not reports:
        raise empty_file(path, "no report")
    return reports


def _report(node: Node) -> Report:
    uid, specialty = node.text("id"), specialty_of(node)
    title = Node(node.file, "title", node.values.get("title") or "", node.line)
    report = Report(
        uid=uid,
        title=_sentence(title),
        sentences=tuple(map(_sentence, node.nodes("sentences"))),
        learning_points=tuple(map(_sentence, node.nodes("learning_points"))),
        specialty=specialty,
    )
    if not any(sentence.tokens for sentence in report.sentences):
        raise node.fault("holds no token", "sentences", "give the report's text")
    return report


def _sentence(node: Node) -> Sentence:
    """Reads a sentence from its string, or from its text and entities."""
    is_string = isinstance(node.values, str)
    marked = parse_marked(node.text("" if is_string else "text", may_be_blank=True))
    stray = marked.stray
    marks: tuple[Mark, ...] = ()
    if is_string:
        marks = tuple(Mark(entity.start, entity.end) for entity in marked.entities)
    else:
        stray += len(marked.entities)
        if "entities" in node.values:
            marks = _marks(node, len(marked.tokens))
    if stray:
        problem = f"has {stray} marks that are unbalanced or mark nothing"
        fix = f"give every {BEGIN} its {END} around at least one token"
        raise node.fault(problem, fix=f"{fix}, and no marks where entities are listed")
    if marked.blanks:
        problem = f"holds {PLACEHOLDER}, which marks the gap of a query"
        raise node.fault(problem, fix="write it otherwise")
    return Sentence(marked.tokens, marks)


def _marks(node: Node, length: int) -> tuple[Mark, ...]:
    """Reads the entities of a sentence of `length` tokens."""
    marks = []
    for row in node.nodes("entities"):
        start, end = row.get("start", int), row.get("end", int)
        concept, kind = row.text("id", optional=True), row.text("type", optional=True)
        if kind not in ("", *SEMANTIC_TYPES):
            raise row.fault(f"is none of {', '.join(SEMANTIC_TYPES)}", "type", "correct the type")
        marks.append(Mark(start, end, concept, kind))
    marks.sort(key=lambda mark: mark.start)
    end = 0
    for mark in marks:
        if not end <= mark.start < mark.end <= length:
            problem = f"holds entities that are empty, overlap or lie outside the {length} tokens"
            raise node.fault(problem, "entities", "count tokens from 0; the end is exclusive")
        end = mark.end
    return tuple(marks)


def cleaned(sentence: Sentence, counts: Counter[str]) -> Sentence:
    """Corrects the boundaries of a sentence's phrases (section 3); the tokens stay.

    Determiners and pronouns at the beginning are moved out, and so are parentheticals at the end. A
    phrase of determiners and pronouns alone is no longer marked. counts: gets the number of each
    correction.
    """
    marks = []
    for mark in sentence.marks:
        start, end = mark.start, mark.end
        while start < end and sentence.tokens[start].lower() in DETERMINERS_AND_PRONOUNS:
            start += 1
        while start < (before := _before_parenthetical(sentence.tokens, start, end)) < end:
            end = before
        counts["function_words"] += start > mark.start
        counts["parentheticals"] += end < mark.end
        counts["no_longer_marked"] += start == end
        if start < end:
            marks.append(replace(mark, start=start, end=end))
    return replace(sentence, marks=tuple(marks))


def _before_parenthetical(tokens: Sequence[str], start: int, end: int) -> int:
    """The place where the parenthetical that ends at `end` begins; `end` if there is none."""
    depth = 0
    for place in range(end - 1, start - 1, -1):
        token = _BRACKETS.get(tokens[place], tokens[place])
        if place == end - 1 and not token.endswith(")"):
            return end
        depth += token.count(")") - token.count("(")
        if depth <= 0:
            return place if token.startswith("(") else end  # "cancer(s)" has no parenthetical
    return end


def build_queries(reports: Sequence[Report], ontology: Ontology | None) -> ClozeSplit:
    """Makes one query for every marked phrase of every learning point; the rest of the report is
    its passage.

    Two kinds of queries are left out: those that the passage repeats (`repeats_passage`, section
    3.1) and, a case that the paper does not mention, those whose other words still hold the answer.
    A query's uid is the report's and the phrase's number.

    ontology: extends the answers by all names of the phrase's concept (section 3.2), which is found
    by the report's id or else by the whole phrase as its name. None adds no synonyms.
    """
    queries = []
    dropped = Counter(repeats_passage=0, shows_answer=0)
    mended = Counter(function_words=0, parentheticals=0, no_longer_marked=0)
    for report in reports:
        queries += _queries(report, dropped, mended)
    if not queries:
        problem = f"{len(reports)} reports give no query, {dropped.total()} were left out"
        fix = "mark phrases in the learning points; see the counts of a smaller file"
        raise DataError(problem, fix=fix)
    concepts = Counter(by_id=0, by_name=0, none=0)
    if ontology is not None:
        queries = _extended(queries, ontology, concepts)
    points = sum(len(report.learning_points) for report in reports)
    facts = {
        "reports": len(reports),
        "learning_points": points,
        "rows": len(queries),
        "dropped": dict(dropped),
        "mended": dict(mended),
        "concepts": concepts,
        "extended": sum(len(query.answers) > 1 for query in queries),
        "ontology_sha256": ontology.sha256 if ontology else "",
    }
    return Split("all", tuple(queries), facts)


def _queries(report: Report, dropped: Counter[str], mended: Counter[str]) -> list[ClozeExample]:
    """The queries of a report with the dataset's answers. Counts the queries that were left out and
    the boundaries that were corrected."""
    passage = _passage(report, mended)
    text = f" {' '.join(passage.tokens).lower()} "
    queries = []
    number = 0
    for point in report.learning_points:
        point = cleaned(point, mended)
        for mark in point.marks:
            number += 1
            tokens = (*point.tokens[: mark.start], PLACEHOLDER, *point.tokens[mark.end :])
            entities = _entities_beside(point, mark)
            uid = f"{report.uid}.{number}"
            phrase = point.phrase(mark)
            answer = Answer(phrase, mark.concept, mark.semantic_type)
            query = ClozeExample(uid, passage, tokens, entities, mark.start, (answer,))
            if repeats_passage(tokens, mark.start, text):
                dropped["repeats_passage"] += 1
            elif f" {phrase.lower()} " in f" {' '.join(tokens).lower()} ":
                dropped["shows_answer"] += 1
            else:
                queries.append(query)
    return queries


def _entities_beside(sentence: Sentence, gap: Mark) -> tuple[Entity, ...]:
    """The places of all marks but the one of the gap, which is a single token."""
    shift = gap.end - gap.start - 1
    entities = []
    for mark in sentence.marks:
        if mark is not gap:
            moved_by = shift if mark.start > gap.start else 0
            entities.append(Entity(mark.start - moved_by, mark.end - moved_by))
    return tuple(entities)


def repeats_passage(query: Sequence[str], blank: int, passage: str) -> bool:
    """Whether the longer side of the gap, or one of two equal ones, stands in the passage word for
    word (section 3.1).

    passage: its lower-cased tokens between single spaces, one at either end. A gap without words
    around it repeats any passage.
    """
    words = list(map(str.lower, query))
    while len(words) > blank + 1 and words[-1] in _STOPS:
        words.pop()
    left, right = words[:blank], words[blank + 1 :]
    longest = max(len(left), len(right))
    for side in (left, right):
        if len(side) == longest and f" {' '.join(side)} " in passage:
            return True
    return longest == 0


def _passage(report: Report, mended: Counter[str]) -> Passage:
    tokens: list[str] = []
    entities, ends = [], []
    for sentence in report.sentences:
        if not sentence.tokens:
            continue
        start = len(tokens)
        for mark in cleaned(sentence, mended).marks:
            entities.append(Entity(start + mark.start, start + mark.end))
        tokens += sentence.tokens
        ends.append(len(tokens))
    title = cleaned(report.title, mended)
    return Passage(
        uid=report.uid,
        title=title.tokens,
        tokens=tuple(tokens),
        entities=tuple(entities),
        sentence_ends=tuple(ends),
        specialty=report.specialty,
        title_entities=tuple(Entity(mark.start, mark.end) for mark in title.marks),
    )


def _extended(
    queries: Sequence[ClozeExample], ontology: Ontology, counts: Counter[str]
) -> list[ClozeExample]:
    """Adds every other name of their answer's concept to the answers of queries; names that differ
    in case alone count once. Counts the ways in which concepts were found."""
    words = {word for query in queries for word in query.answers[0].text.split()}
    linker = Linker(ontology, types=(), vocabulary=words)
    concept_of = cache(partial(_concept_of, linker))
    concepts = [concept_of(query.answers[0]) for query in queries]
    names_of: dict[int, list[str]] = {}
    for concept in concepts:
        counts[concept.way] += 1
        if concept.index is not None:
            names_of[concept.index] = [ontology.labels[concept.index]]
    for name, index in ontology.names:
        if index in names_of:
            names_of[index].append(name)
    extended = []
    for query, concept in zip(queries, concepts, strict=True):
        own = query.answers[0]
        if concept.index is not None:
            concept_id = ontology.ids[concept.index]
            kind = own.semantic_type or semantic_type(ontology, concept.index)
            answers = {own.text.lower(): Answer(own.text, concept_id, kind)}
            for name in names_of[concept.index]:
                answers.setdefault(name.lower(), Answer(name, concept_id, kind, "UMLS"))
            query = replace(query, answers=tuple(answers.values()))
        extended.append(query)
    return extended


@dataclass(frozen=True)
class _Concept:
    """A concept of an answer. way: the way by which it was found, "by_id", "by_name" or "none".
    index: in the ontology."""

    way: str
    index: int | None


def _concept_of(linker: Linker, answer: Answer) -> _Concept:
    """Finds the concept of the answer's id, else the one that its whole text names."""
    index = linker.ontology.index(answer.concept) if answer.concept else None
    if index is not None:
        return _Concept("by_id", index)
    tokens = answer.text.split()
    for mention in linker.link(tokens, inside_tokens=False):
        if (mention.start, mention.end) == (0, len(tokens)):
            return _Concept("by_name", linker.ontology.index_of[mention.concept])
    return _Concept("none", None)


def semantic_type(ontology: Ontology, index: int) -> str:
    """The type of a concept, "problem", "test" or "treatment", by its types in MeSH or the UMLS; ""
    for all others."""
    types = ontology.types[index].split("|") if len(ontology.types) else []
    for kind, prefixes in PREFIXES.items():
        if any(name.startswith(prefixes) for name in types):
            return kind
    return ""


def divided(split: ClozeSplit, dev: float, test: float) -> dict[str, ClozeSplit]:
    """Divides the queries into train, dev and test. All queries of one report are in the same
    split, which the hash of its uid decides.

    dev, test: shares of the reports.
    """
    if min(dev, test) < 0 or not dev + test < 1:
        fix = "give two numbers from 0 on that sum to less than 1"
        raise UsageError(f"{dev:g} and {test:g} are no shares of dev and test", fix=fix)
    queries: dict[str, list[ClozeExample]] = {"train": [], "dev": [], "test": []}
    for query in split.examples:
        digest = hashlib.sha256(query.passage.uid.encode()).digest()
        point = int.from_bytes(digest[:8], "big") / 2**64  # from 0 to 1
        name = "dev" if point < dev else "test" if point < dev + test else "train"
        queries[name].append(query)
    splits = {}
    for name, examples in queries.items():
        splits[name] = Split(name, tuple(examples), {**split.facts, "rows": len(examples)})
    return splits


def main(values: cli.Flags) -> None:
    """Reads the reports, writes the corpus and prints the counts."""
    source = cli.required_path(values, "reports", "--reports=FILE")
    out = cli.required_path(values, "out", "--out=FOLDER")
    paths = {split: out / file for split, file in FILES.items()}
    for path in paths.values():
        if path.exists():
            fix = "give --out another folder, or remove it"
            raise UsageError(f"{path}: exists already", fix=fix)
    reports = read_reports(source)
    ontology = None
    if values.ontology != "none":
        names = OntologyOptions(sources=tuple(values.sources))
        ontology = load_ontology(values.ontology, values.data, names)
    whole = build_queries(reports, ontology)
    splits = divided(whole, values.dev, values.test)
    private_folder(out)
    for name, split in splits.items():
        write_clicr(split.examples, paths[name])
    sizes = {name: len(split) for name, split in splits.items()}
    print(json.dumps({**whole.facts, "queries": sizes}, indent=2))


def define(values: cli.Flags) -> None:
    cli.define(values, ontology="mesh", sources=[])
    cli.define_paths(values, "reports", "out", "data")
    for name, default in (("dev", 0.06), ("test", 0.07)):
        flags.DEFINE_float(name, default, name, flag_values=values)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
