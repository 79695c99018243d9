"""CliCR (Šuster & Daelemans 2018) and corpora in its format, one JSON object a file.

    {"version": "1.0", "data": [
      {"source": "...", "document": {"title": "...", "context": "...", "qas": [
        {"id": "...", "query": "...", "answers": [{"text", "cui", "sem_type", "origin"}]}]}}]}

Phrases are marked as `BEG__w1 w2__END` in title, context and query; `@placeholder` is the query's
blank; each line of the context is a sentence; `document.specialty` may name the branch of medicine,
or a list of them. Faults are reported by their path in the file
(`dev1.0.json:data[17].document.qas[2].answers[0].text`), without the texts.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from mednli_jax import demo
from mednli_jax.data.examples import (
    PLACEHOLDER,
    SEVERAL,
    Answer,
    ClozeExample,
    Entity,
    Passage,
    Split,
)
from mednli_jax.errors import DataError, Problems
from mednli_jax.files.reading import (
    FRESH_COPY,
    KEEP_ONE,
    RepeatedField,
    character_fault,
    either_name,
    json_object,
    json_text,
    open_text,
)
from mednli_jax.files.writing import sha256, write_atomic
from mednli_jax.terminal import warn, with_progress
from mednli_jax.types import Json, JsonObject

BEGIN, END = "BEG__", "__END"
EXPECTED = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}
# CliCR's tokeniser split the placeholder of some queries: "@ placeholder".
_PLACEHOLDER = r"@\s?placeholder"
# A placeholder that is marked as an entity.
_MARKED_BLANK = re.compile(rf"{BEGIN}\s*({_PLACEHOLDER})\s*{END}")
# A mark, a line break, or a placeholder without a letter or digit after it. Text like
# "@placeholder_" begins with a placeholder, "@placeholders" does not.
_MARKS = re.compile(rf"({BEGIN}|{END}|{_PLACEHOLDER}(?![^\W_])|\n)")
Kind = TypeVar("Kind", dict, list, str, int)


class Node:
    """A JSON value and its place in a file.

    Methods raise DataError for a wrong value. The error names the place, never the content.

    Args:
      path: the way from the top of the document to the value, e.g. `data[17].document`.
      line: line number in a file of JSON lines; None in a file that is one JSON document, where
        errors show the path in place of a line number.
    """

    def __init__(self, file: str, path: str, values: Json, line: int | None = None) -> None:
        self.file, self.path, self.values, self.line = file, path, values, line

    def fault(self, problem: str, field: str = "", fix: str = FRESH_COPY) -> DataError:
        """The error of a field, or of the value itself if `field` is ""."""
        place = self.place(field)
        if self.line is None:
            return DataError(
                problem, file=self.file, line=place or None, field=field or None, fix=fix
            )
        problem = f"field '{place}' {problem}" if place else f"the line {problem}"
        return DataError(problem, file=self.file, line=self.line, field=place or None, fix=fix)

    def place(self, field: str) -> str:
        """The path of a field."""
        return ".".join(filter(None, (self.path, field)))

    def node(self, field: str) -> "Node":
        """The object in a field."""
        return Node(self.file, self.place(field), self.get(field, dict), self.line)

    def nodes(self, field: str) -> list["Node"]:
        """The items of the list in a field. Their types are checked when their fields are read."""
        place = self.place(field)
        return [
            Node(self.file, f"{place}[{number}]", value, self.line)
            for number, value in enumerate(self.get(field, list))
        ]

    def text(self, field: str = "", *, optional: bool = False, may_be_blank: bool = False) -> str:
        """The string in a field, or the value itself if `field` is "".

        Args:
          optional: the field may be blank, null or missing; without a value the text is "".
          may_be_blank: the field may be blank, but neither null nor missing.
        """
        if optional and isinstance(self.values, dict) and self.values.get(field) is None:
            return ""
        text = self.get(field, str)
        if not (may_be_blank or optional or text.strip()):
            raise self.fault("is empty", field, "fill in the text, or remove what it belongs to")
        if problem := character_fault(text):
            raise self.fault(problem, field)
        return text

    def get(self, field: str, kind: type[Kind]) -> Kind:
        """The value in a field, or the value itself if `field` is "". A value of another type than
        `kind` is an error."""
        value = self.values
        if isinstance(value, RepeatedField):  # an object that gives some field twice
            raise self.fault(value.problem, fix=KEEP_ONE)
        if field:
            if not isinstance(value, dict):
                raise self.fault(f"is a {type(value).__name__}, expected an object")
            if field not in value:
                fix = f"use the official file, which has '{field}' here"
                raise self.fault("is missing", field, fix)
            value = value[field]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.fault(f"is a {type(value).__name__}, expected {EXPECTED[kind]}", field)
        return value


def specialty_of(document: Node) -> str:
    """The specialty of a report: a string, or a list of strings, which are joined by SEVERAL. ""
    if it is missing."""
    if isinstance(document.values.get("specialty"), list):
        return SEVERAL.join(node.text() for node in document.nodes("specialty"))
    return document.text("specialty", optional=True)


class Marked(NamedTuple):
    """The result of reading a marked text.

    Args:
      tokens: without marks; each placeholder is PLACEHOLDER.
      sentences: the end (exclusive) of each line in `tokens`.
      blanks: the index of each PLACEHOLDER in `tokens`.
      stray: number of marks that make no entity. Such marks are unpaired, empty or nested, or hold
        a placeholder beside other words.
      joined: number of placeholders that were written in two parts, "@ placeholder".
    """

    tokens: tuple[str, ...]
    entities: tuple[Entity, ...]
    sentences: tuple[int, ...]
    blanks: tuple[int, ...]
    stray: int
    joined: int


def parse_marked(text: str) -> Marked:
    """Reads a text with marks `BEG__w1 w2__END` and placeholders.

    A mark is a token boundary. A line break ends a sentence, but within marks it is a space:
    "the BEG__dry\\ncough__END .\\nIt" has the tokens `the dry cough . It`, Entity(1, 3), and
    sentences that end at 4 and 5.
    """
    tokens: list[str] = []
    entities, blanks = [], []
    line_ends: list[int] = []
    start = -1  # of the phrase whose BEG__ has no __END yet; -1 = there is none
    lines_before = 0  # line breaks before this phrase
    stray = joined = 0
    text = _MARKED_BLANK.sub(r"\1", text)
    for number, piece in enumerate(_MARKS.split(text)):
        if number % 2 == 0:  # text between two marks
            tokens += piece.split()
        elif piece == "\n":
            line_ends.append(len(tokens))
        elif piece == BEGIN:
            stray += start >= 0
            start = len(tokens)
            lines_before = len(line_ends)
        elif piece == END and 0 <= start < len(tokens):
            entities.append(Entity(start, len(tokens)))
            del line_ends[lines_before:]
            start = -1
        elif piece == END:  # without a BEG__, or without a token after it
            stray += 1
            start = -1
        else:  # a placeholder, which cannot be within marks
            stray += start >= 0
            start = -1
            joined += piece != PLACEHOLDER
            blanks.append(len(tokens))
            tokens.append(PLACEHOLDER)
    stray += start >= 0
    line_ends.append(len(tokens))
    sentences = dict.fromkeys(filter(None, line_ends))  # without blank lines
    # A corpus repeats its words: one string for each keeps it in memory.
    words = tuple(map(sys.intern, tokens))
    return Marked(words, tuple(entities), tuple(sentences), tuple(blanks), stray, joined)


def marked_text(
    tokens: Sequence[str], entities: Iterable[Entity], sentences: Sequence[int] = ()
) -> str:
    """The marked text that parse_marked reads back. It has a line for each sentence; without
    sentences, one line."""
    words = list(tokens)
    for entity in entities:
        words[entity.start] = BEGIN + words[entity.start]
        words[entity.end - 1] += END
    lines = []
    start = 0
    for end in sentences or (len(words),):
        lines.append(" ".join(words[start:end]))
        start = end
    return "\n".join(lines)


# -- files of CliCR --------------------------------------------------------------------------------

VERSION = "1.0"
FILES = {"train": "train1.0.json", "dev": "dev1.0.json", "test": "test1.0.json"}
SOURCE = "ask its authors, see github.com/clips/clicr"
# Folders and files whose licence forbids passing them on.
LICENSED = ("clicr", *FILES.values(), *map("{}.gz".format, FILES.values()))
ORIGINS = ("dataset", "UMLS")
SEMANTIC_TYPES = ("problem", "treatment", "test")
MOST_STRAY = 0.01  # share of a file's marks


def load(
    folder: Path, *, limit: int | None = None, titles: bool = False
) -> dict[str, Split[ClozeExample]]:
    """Reads train, dev and test.

    Args:
      folder: the corpus's own folder, or the data folder ($MEDNLI_JAX_DATA) that holds it as
        clicr/.
      limit: how many training queries to read, from the first; None = all.
      titles: see read_clicr.
    """
    splits: dict[str, Split[ClozeExample]] = {}
    for name, path in source_files(folder).items():
        most = limit if name == "train" else None
        split = read_clicr(path, split=name, limit=most, titles=titles)
        uids = {query.uid for query in split.examples}
        for earlier in splits.values():
            if common := sum(query.uid in uids for query in earlier.examples):
                problem = f"{common} queries are in {earlier.name} as well as in {name} (same id)"
                raise DataError(problem, file=split.facts["file"], field="id", fix=FRESH_COPY)
        splits[name] = split
    return splits


def source_files(folder: Path) -> dict[str, Path]:
    """{split: its file, plain or gzipped}. folder: see load."""
    folder = Path(folder)
    if (folder / "clicr").is_dir():
        folder /= "clicr"
    paths, problems = {}, Problems()
    for split, file in FILES.items():
        path = either_name(folder / file)
        if path:
            paths[split] = path
            continue
        problem = f"neither {file} nor {file}.gz is in {folder}"
        if not folder.is_dir():
            problem = f"no folder {folder}"
        fix = f"{SOURCE} and put {file} into $MEDNLI_JAX_DATA/clicr/"
        problems.add(DataError(problem, file=file, fix=fix))
    problems.raise_if_any()
    return paths


def read_clicr(
    path: Path, *, split: str = "", limit: int | None = None, titles: bool = False
) -> Split[ClozeExample]:
    """Reads one file, plain or gzipped, whether or not `path` ends in .gz.

    Stray marks are removed and counted. A file is refused if their share is above MOST_STRAY.

    Args:
      split: name of the split; by default the name of the file.
      limit: how many queries to read, from the first; None = all.
      titles: whether a passage with marked phrases in its title alone counts as one with
        candidates. Give True if setups.with_titles will put the titles into the passages. The
        examples are the same either way.
    """
    path = either_name(Path(path)) or Path(path)
    try:
        with open_text(path) as stream:
            values = json.loads(json_text(stream.read()), object_pairs_hook=json_object)
    except (json.JSONDecodeError, RecursionError):
        problem = "the file is not valid JSON, or cut short"
        raise DataError(problem, file=path.name, fix=FRESH_COPY) from None
    top = Node(path.name, "", values)
    if top.text("version") != VERSION:
        fix = f"this reader knows version {VERSION} only: take that release"
        raise top.fault(f"is not {VERSION}", "version", fix)
    reader = _Reader(path.name, titles)
    articles = top.get("data", list)
    for number, article in enumerate(with_progress(articles, path.name)):
        reader.take(Node(path.name, f"data[{number}]", article))
        if limit is not None and len(reader.examples) >= limit:
            break
    examples = tuple(reader.examples[:limit])
    reader.check(examples)
    facts = {"file": path.name, "sha256": sha256(path), "version": VERSION}
    return Split(split or path.name, examples, facts | reader.facts(examples))


class _Reader:
    """Turns the articles of one file into examples, and counts.

    Attributes:
      place_of_uid: (field, uid) -> the path of the first field with this uid.
      bare_passages: paths of the passages without a candidate.
      marks, stray, joined: number of marks, of stray ones and of joined placeholders (see Marked).
      first_stray: object and field of the first stray mark.
    """

    def __init__(self, file: str, titles: bool) -> None:
        self.file, self.titles = file, titles
        self.problems = Problems()
        self.examples: list[ClozeExample] = []
        self.place_of_uid: dict[tuple[str, str], str] = {}
        self.bare_passages: list[str] = []
        self.marks = self.stray = self.joined = 0
        self.first_stray: tuple[Node, str] | None = None

    def take(self, article: Node) -> None:
        """Adds the examples of an article. A fault in one part does not hide faults in others."""
        try:
            document = article.node("document")
            queries = document.nodes("qas")
        except DataError as fault:
            self.problems.add(fault)
            return
        passage = None  # if it is faulty; the queries are checked all the same
        try:
            passage = self._passage(article, document)
            if not self._has_candidates(passage):
                self.bare_passages.append(document.place("context"))
        except DataError as fault:
            self.problems.add(fault)
        for query in queries:
            try:
                if example := self._query(passage, query):
                    self.examples.append(example)
            except DataError as fault:
                self.problems.add(fault)

    def _has_candidates(self, passage: Passage) -> bool:
        return bool(passage.entities or (self.titles and passage.title_entities))

    def _passage(self, article: Node, document: Node) -> Passage:
        uid = self._uid(article, "source")
        title = self._read_marked_text(document, "title", may_be_blank=True)
        context = self._read_marked_text(document, "context")
        specialty = sys.intern(specialty_of(document))
        if not context.tokens:
            raise document.fault("holds nothing but marks", "context", "fill in the text")
        return Passage(
            uid=uid,
            title=title.tokens,
            tokens=context.tokens,
            entities=context.entities,
            sentence_ends=context.sentences,
            specialty=specialty,
            title_entities=title.entities,
        )

    def _query(self, passage: Passage | None, node: Node) -> ClozeExample | None:
        """The example of a query; None if its passage could not be read."""
        uid = self._uid(node, "id")
        query = self._read_marked_text(node, "query")
        self.joined += query.joined
        if len(query.blanks) != 1:
            problem = f"holds {len(query.blanks)} of {PLACEHOLDER}, expected one"
            fix = f"put one {PLACEHOLDER} where the answer belongs, or remove the query"
            raise node.fault(problem, "query", fix)
        answers = list(map(self._answer, node.nodes("answers")))
        answers.sort(key=lambda answer: ORIGINS.index(answer.origin))
        if not answers or answers[0].origin != "dataset":
            fix = "add the answer of origin 'dataset', or remove the query"
            raise node.fault("holds no answer of origin 'dataset'", "answers", fix)
        if passage is None:
            return None
        blank = query.blanks[0]
        return ClozeExample(uid, passage, query.tokens, query.entities, blank, tuple(answers))

    def _answer(self, node: Node) -> Answer:
        origin = node.text("origin")
        if origin not in ORIGINS:
            raise node.fault(f"is none of {', '.join(ORIGINS)}", "origin", "correct the origin")
        concept = sys.intern(node.text("cui", optional=True))
        semantic_type = sys.intern(node.text("sem_type", optional=True).lower())
        return Answer(node.text("text"), concept, semantic_type, sys.intern(origin))

    def _uid(self, node: Node, field: str) -> str:
        """The uid in a field, which no other article (or query) of the file may have."""
        uid = node.text(field)
        if earlier := self.place_of_uid.get((field, uid)):
            raise node.fault(f"repeats that of {earlier}", field)
        self.place_of_uid[field, uid] = node.place(field)
        return uid

    def _read_marked_text(self, node: Node, field: str, *, may_be_blank: bool = False) -> Marked:
        """Reads the marked text in a field and counts its marks."""
        marked = parse_marked(node.text(field, may_be_blank=may_be_blank))
        if marked.stray and not self.first_stray:
            self.first_stray = node, field
        self.marks += 2 * len(marked.entities) + marked.stray
        self.stray += marked.stray
        return marked

    def check(self, examples: Sequence[ClozeExample]) -> None:
        """Raises DataError for a file with faults, with too many stray marks, or without any
        candidate. Warns of stray marks, and of passages without candidates.

        examples: those that `limit` leaves.
        """
        self.problems.raise_if_any()
        if self.first_stray:
            self._check_marks(*self.first_stray)
        unanswerable = self._unanswerable(examples)
        if unanswerable == len(examples):
            problem = "holds no query whose passage has a marked phrase"
            fix = "use the release with BEG__ and __END in the contexts"
            raise DataError(problem, file=self.file, fix=fix)
        if self.bare_passages:
            number, first = len(self.bare_passages), self.bare_passages[0]
            warn(
                f"{self.file}:{first}: {number} passages have no marked phrase, this is the first; "
                f"the {unanswerable} queries about them cannot be answered. "
                "Fix: mark their phrases."
            )

    def _check_marks(self, node: Node, field: str) -> None:
        """Raises DataError for too many stray marks, warns of few. node, field: see
        first_stray."""
        counts = f"{self.stray:,} of the file's {self.marks:,} marks"
        problem = f"{counts} are unbalanced or mark nothing, this is the first"
        if self.stray > MOST_STRAY * self.marks:
            problem += f"; over {MOST_STRAY:.0%} means another format"
            raise node.fault(problem, field, f"give every {BEGIN} its {END} in the same text")
        warn(f"{self.file}:{node.place(field)}: {problem}; their words are read as plain text")

    def _unanswerable(self, examples: Iterable[ClozeExample]) -> int:
        """The number of queries about passages without candidates."""
        return sum(not self._has_candidates(example.passage) for example in examples)

    def facts(self, examples: Sequence[ClozeExample]) -> JsonObject:
        """Counts for the manifest. examples: those that `limit` leaves."""
        return {
            "passages_without_candidates": len(self.bare_passages),
            "queries_without_candidates": self._unanswerable(examples),
            "stray_marks": self.stray,
            "joined_placeholders": self.joined,
        }


def load_demo_cloze() -> dict[str, Split[ClozeExample]]:
    """Reads the demo's splits.

    A query has one tag, which is the kind of clue that leads to its answer. "name": another marked
    phrase of the report, as in "a BEG__biopsy__END ruled out ...". "circumstance": a fact without a
    marked phrase, as in "first noted in Egypt".
    """
    splits = {}
    for name, facts in demo.facts("cloze").items():
        path = demo.FOLDER / "cloze" / f"{FILES[name]}.gz"
        with open_text(path) as stream:
            reports = json.load(stream)["data"]
        tag_of: dict[str, str] = {}
        for report in reports:
            tag_of.update((query["id"], query["tag"]) for query in report["document"]["qas"])
        queries = read_clicr(path, split=name).examples
        tagged = tuple(replace(query, tags=(tag_of[query.uid],)) for query in queries)
        splits[name] = Split(name, tagged, facts)
    return splits


def by_passage(examples: Iterable[ClozeExample]) -> Iterator[tuple[Passage, list[ClozeExample]]]:
    """Yields (passage, its queries) for each Passage object, in the order of their first
    queries."""
    groups: dict[int, list[ClozeExample]] = {}
    for example in examples:
        groups.setdefault(id(example.passage), []).append(example)
    for queries in groups.values():
        yield queries[0].passage, queries


def write_clicr(examples: Iterable[ClozeExample], path: Path) -> None:
    """Writes queries as a file that read_clicr reads, gzipped if the name ends in .gz. Tags are not
    written."""
    compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    articles = [compact(article(passage, queries)) for passage, queries in by_passage(examples)]
    data = ",\n".join(articles)
    content = f'{{"version":"{VERSION}","data":[\n{data}\n]}}\n'.encode()
    path = Path(path)
    write_atomic(path, gzip.compress(content, 6, mtime=0) if path.suffix == ".gz" else content)


def article(passage: Passage, examples: Iterable[ClozeExample]) -> JsonObject:
    """An item of the file's list "data": a passage with its queries."""
    queries = []
    for example in examples:
        answers = []
        for answer in example.answers:
            answers.append({
                "text": answer.text,
                "cui": answer.concept,
                "sem_type": answer.semantic_type,
                "origin": answer.origin,
            })  # fmt: skip
        text = marked_text(example.query, example.query_entities)
        queries.append({"id": example.uid, "query": text, "answers": answers})
    document: JsonObject = {
        "title": marked_text(passage.title, passage.title_entities),
        "context": marked_text(passage.tokens, passage.entities, passage.sentence_ends),
        "qas": queries,
    }
    if passage.specialty:
        names = passage.specialty.split(SEVERAL)
        document["specialty"] = names if len(names) > 1 else names[0]
    return {"source": passage.uid, "document": document}
