"""CliCR (Šuster & Daelemans 2018) and corpora in its format, one JSON object a file.

    {"version": "1.0", "data": [{"source": "...", "document": {"title": "...", "context": "...", "qas": [
      {"id": "...", "query": "...", "answers": [{"text", "cui", "sem_type", "origin"}]}]}}]}

Phrases are marked as `BEG__w1 w2__END` in title, context and query; `@placeholder` is the query's blank; each line of
the context is a sentence; `document.specialty` may name the branch of medicine, or a list of them. Every fault is
reported by its path in the file (`dev1.0.json:data[17].document.qas[2].answers[0].text`); the texts themselves never
appear in a message. Passages without a marked phrase are accepted, and so are a few marks without a partner: a line on
stderr says how many there are.
"""

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mednli_jax.data.examples import PLACEHOLDER, SEVERAL, Answer, ClozeExample, Entity, Passage, Split
from mednli_jax.errors import DataError, Problems
from mednli_jax.io import FRESH_COPY, Watch, character_fault, either_name, opened_text, sha256, warn, write_atomic

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


# -- files of CliCR ----------------------------------------------------------------------------------------------------


VERSION = "1.0"
FILES = {"train": "train1.0.json", "dev": "dev1.0.json", "test": "test1.0.json"}
SOURCE = "ask its authors, see github.com/clips/clicr"
ORIGINS = ("dataset", "UMLS")
SEMANTIC_TYPES = ("problem", "treatment", "test")
STRAY_MARKS = ("text", "refuse", "ignore")
MOST_STRAY = 0.01  # share of a file's marks; with more stray marks the file has another format


def load(folder: Path, *, limit: int | None = None, stray_marks: str = "text") -> dict[str, Split]:
    """Train, dev and test of a corpus in CliCR's layout.

    folder: the corpus's own folder, or the data folder ($MEDNLI_JAX_DATA) that holds it as clicr/.
    limit, stray_marks: see read_clicr; the limit applies to train; dev and test are always complete.
    """
    paths = source_files(folder)
    return check_disjoint(
        {
            name: read_clicr(path, split=name, limit=limit if name == "train" else None, stray_marks=stray_marks)
            for name, path in paths.items()
        }
    )


def find_files(folder: Path) -> tuple[Path, dict[str, Path | None]]:
    """(the corpus's own folder, split -> its file, plain or gzipped, or None)."""
    place = Path(folder) / "clicr" if (Path(folder) / "clicr").is_dir() else Path(folder)
    return place, {split: either_name(place / file) for split, file in FILES.items()}


def source_files(folder: Path) -> dict[str, Path]:
    """split -> its file, plain or gzipped."""
    (place, found), problems = find_files(folder), Problems()
    for file in (FILES[split] for split, path in found.items() if path is None):
        lacking = f"neither {file} nor {file}.gz is in {place}" if place.is_dir() else f"no folder {place}"
        problems.add(DataError(lacking, file=file, fix=f"{SOURCE} and put {file} into $MEDNLI_JAX_DATA/clicr/"))
    problems.raise_if_any()
    return found


def check_disjoint(splits: dict[str, Split]) -> dict[str, Split]:
    """The same splits, each with facts["shared_passages"]: number of passages shared with each earlier split.

    A query in two splits is refused: the model would be tested on a training query.
    """
    checked = {}
    for name, split in splits.items():
        uids, passages, shared = {e.uid for e in split.examples}, {e.passage.uid for e in split.examples}, {}
        for earlier in checked.values():
            common = sum(example.uid in uids for example in earlier.examples)
            if common:
                problem = f"{common} queries are in {earlier.name} as well as in {split.name} (same id)"
                raise DataError(problem, file=split.facts.get("file"), field="id", fix=FRESH_COPY)
            shared[earlier.name] = len(passages & {example.passage.uid for example in earlier.examples})
        checked[name] = replace(split, facts={**split.facts, "shared_passages": shared})
    return checked


def read_clicr(path: Path, *, split: str = "", limit: int | None = None, stray_marks: str = "text") -> Split:
    """Reads one file, plain or gzipped, whether or not `path` ends in .gz.

    split: name of the split; by default the file's.
    limit: number of queries that are read.
    stray_marks: how to treat a BEG__ or __END that has no partner, and marks around a placeholder. "text": such marks
    are removed and counted, and the words stay as plain text; a file with a larger share of them than MOST_STRAY is
    refused. "ignore": the same without a limit. "refuse": each is an error.
    facts: sha256, counts of passages, queries, answers by origin and by semantic type, and of repaired marks.
    """
    path = either_name(Path(path)) or Path(path)
    reader, articles = _Reader(path.name, stray_marks), _articles(path)
    with Watch(len(articles)) as watch:
        for number, article in enumerate(watch(articles, path.name)):
            reader.take(number, article)
            if limit is not None and len(reader.examples) >= limit:
                break
    reader.problems.raise_if_any()
    reader.check_marks()
    examples = tuple(reader.examples[:limit])
    facts = {"file": path.name, "sha256": sha256(path), "version": VERSION, **reader.facts(examples)}
    if facts["queries_without_candidates"] == len(examples):
        what = "holds no query whose passage has a marked phrase"
        raise DataError(what, file=path.name, fix="use the release with BEG__ and __END in the contexts")
    if reader.bare:
        number, place = len(reader.bare), reader.bare[0]
        warn(
            f"{path.name}:{place}: {number} passages have no marked phrase, this is the first; the "
            f"{facts['queries_without_candidates']} queries about them cannot be answered. Fix: mark their phrases."
        )
    return Split(split or path.name, examples, facts)


def _articles(path):
    """The articles of a file as JSON values."""
    try:
        with opened_text(path) as stream:
            top = Node(path.name, "", json.load(stream))
    except (json.JSONDecodeError, RecursionError):  # the message of the first may quote the text
        raise DataError("the file is not valid JSON, or cut short", file=path.name, fix=FRESH_COPY) from None
    if str(top.get("version", (str, int, float), "a string")) != VERSION:
        fix = f"this reader knows version {VERSION} only: take that release"
        raise top.fault(f"is not {VERSION}", "version", fix)
    return top.get("data", list, "a list")


class _Reader:
    """Turns the articles of one file into examples, and counts."""

    def __init__(self, file, stray_marks):
        self.file, self.stray_marks, self.problems = file, stray_marks, Problems()
        self.examples, self.places, self.bare = [], {}, []
        self.articles = self.unasked = self.marks = self.stray = self.joined = 0
        self.first_stray = None  # (node, field)

    def take(self, number, article):
        self.articles += 1
        node = Node(self.file, f"data[{number}]", article)
        try:
            document, queries = node.child("document"), node.child("document").nodes("qas")
        except DataError as error:
            self.problems.add(error)
            return
        passage = self._guarded(self._passage, node, document)
        if passage is not None and not passage.entities:
            self.bare.append(document.place("context"))
        self.unasked += not queries
        for query in queries:
            example = self._guarded(self._query, passage, query)
            if example is not None:
                self.examples.append(example)

    def _guarded(self, read, *arguments):
        try:
            return read(*arguments)
        except DataError as error:
            self.problems.add(error)
            return None

    def _passage(self, node, document):
        uid = self._uid(node, "source")
        title = self._marked(document, "title", document.text("title", empty=True))
        context = self._marked(document, "context", document.text("context"))
        specialty = sys.intern(document.specialties())
        if not context.tokens:
            raise document.fault("holds nothing but marks", "context", "fill in the text")
        return Passage(
            uid, title.tokens, context.tokens, context.entities, context.sentences, specialty, title.entities
        )

    def _query(self, passage, node):
        uid = self._uid(node, "id")
        query = self._marked(node, "query", node.text("query"))
        self.joined += query.joined
        if len(query.blanks) != 1:
            fix = f"put one {PLACEHOLDER} where the answer belongs, or remove the query"
            raise node.fault(f"holds {len(query.blanks)} of {PLACEHOLDER}, expected one", "query", fix)
        answers = [self._answer(answer) for answer in node.nodes("answers")]
        answers.sort(key=lambda answer: ORIGINS.index(answer.origin))  # stable: synonyms keep their order
        if not answers or answers[0].origin != "dataset":
            fix = "add the answer of origin 'dataset', or remove the query"
            raise node.fault("holds no answer of origin 'dataset'", "answers", fix)
        if passage is None:  # its passage has an error
            return None
        return ClozeExample(uid, passage, query.tokens, query.entities, query.blanks[0], tuple(answers))

    def _answer(self, node):
        origin = node.text("origin")
        if origin not in ORIGINS:
            raise node.fault(f"is none of {', '.join(ORIGINS)}", "origin", "correct the origin")
        concept, kind = (sys.intern(node.text(field, optional=True)) for field in ("cui", "sem_type"))
        return Answer(node.text("text"), concept, kind.lower(), sys.intern(origin))

    def _uid(self, node, field):
        uid, place = node.text(field), node.place(field)
        if (field, uid) in self.places:
            raise node.fault(f"repeats that of {self.places[field, uid]}", field)
        self.places[field, uid] = place
        return uid

    def _marked(self, node, field, text):
        marked = parse_marked(text)
        if marked.stray and self.stray_marks == "refuse":
            fix = f"give every {BEGIN} its {END} in the same text, or read it with stray_marks='text'"
            raise node.fault(f"holds {marked.stray} marks that are unbalanced or mark nothing", field, fix)
        if marked.stray and not self.first_stray:
            self.first_stray = node, field
        self.marks += marked.marks
        self.stray += marked.stray
        return marked

    def check_marks(self):
        """Warns how many marks are stray; too many are refused."""
        if not self.stray:
            return
        node, field = self.first_stray
        counted = f"{self.stray:,} of the file's {self.marks:,} marks are unbalanced or mark nothing"
        if self.stray_marks == "text" and self.stray > MOST_STRAY * self.marks:
            problem = f"{counted}, this is the first; over {MOST_STRAY:.0%} means another format"
            fix = f"give every {BEGIN} its {END} in the same text, or read it with stray_marks='ignore'"
            raise node.fault(problem, field, fix)
        warn(f"{self.file}:{node.place(field)}: {counted}, this is the first; their words are read as plain text")

    def facts(self, examples):
        answers = Counter(answer.origin for example in examples for answer in example.answers)
        kinds = Counter(example.answers[0].semantic_type for example in examples)
        others = sum(count for kind, count in kinds.items() if kind not in SEMANTIC_TYPES)
        return {
            "articles": self.articles,
            "articles_without_queries": self.unasked,
            "passages_without_candidates": len(self.bare),
            "queries": len(examples),
            "queries_without_candidates": sum(not example.passage.entities for example in examples),
            "answers": {origin: answers[origin] for origin in ORIGINS},
            "semantic_types": {kind: kinds[kind] for kind in SEMANTIC_TYPES} | {"other": others},
            "stray_marks": self.stray,
            "joined_placeholders": self.joined,
        }


def write_clicr(examples: Iterable[ClozeExample], path: Path) -> None:
    """Writes what read_clicr reads, gzipped where the name ends in .gz; tags are not written.

    The queries of a passage are kept together, in the order of its first one.
    """
    articles = {}
    for example in examples:
        articles.setdefault(id(example.passage), (example.passage, []))[1].append(example)
    pieces = [_json(_article(passage, queries)) for passage, queries in articles.values()]
    path, data = Path(path), ",\n".join(pieces)
    content = f'{{"version":"{VERSION}","data":[\n{data}\n]}}\n'.encode()
    write_atomic(path, gzip.compress(content, 6, mtime=0) if path.suffix == ".gz" else content)


def _json(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _article(passage, examples):
    document = {
        "title": marked_text(passage.title, passage.title_entities),
        "context": marked_text(passage.tokens, passage.entities, passage.sentences),
        "qas": [_query(example) for example in examples],
    }
    if passage.specialty:
        names = passage.specialty.split(SEVERAL)
        document["specialty"] = names if len(names) > 1 else names[0]
    return {"source": passage.uid, "document": document}


def _query(example):
    answers = [
        {"text": answer.text, "cui": answer.concept, "sem_type": answer.semantic_type, "origin": answer.origin}
        for answer in example.answers
    ]
    return {"id": example.uid, "query": marked_text(example.query, example.query_entities), "answers": answers}
