"""CliCR (Šuster & Daelemans 2018) and corpora in its format, one JSON object a file.

    {"version": "1.0", "data": [{"source": "...", "document": {"title": "...", "context": "...", "qas": [
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
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

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
from mednli_jax.files import (
    FRESH_COPY,
    KEEP_ONE,
    RepeatedField,
    character_fault,
    either_name,
    json_object,
    json_text,
    opened_text,
    sha256,
    write_atomic,
)
from mednli_jax.terminal import warn, watched

BEGIN, END = "BEG__", "__END"
EXPECTED = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}
# The tokeniser that CliCR went through left the placeholder of some queries in two parts.
_MARKS = re.compile(rf"({BEGIN}|{END}|@\s?placeholder(?![^\W_])|\n)")


class Node:
    """A JSON object and its place in the file; raises DataError for a wrong field, without its
    words.

    line: of a file of JSON lines. Without one a fault names the path in place of the line.
    """

    def __init__(self, file: str, path: str, values, line: int | None = None):
        self.file, self.path, self.values, self.line = file, path, values, line

    def fault(self, problem: str, field: str = "", fix: str = FRESH_COPY) -> DataError:
        place = self.place(field)
        if self.line is None:
            return DataError(
                problem, file=self.file, line=place or None, field=field or None, fix=fix
            )
        problem = f"field '{place}' {problem}" if place else f"the line {problem}"
        return DataError(problem, file=self.file, line=self.line, field=place or None, fix=fix)

    def place(self, field: str) -> str:
        return f"{self.path}.{field}" if self.path and field else self.path or field

    def nodes(self, field: str) -> list["Node"]:
        """The items of a list; their types are checked when their fields are requested."""
        items = enumerate(self.get(field, list))
        return [
            Node(self.file, f"{self.place(field)}[{number}]", value, self.line)
            for number, value in items
        ]

    def specialties(self) -> str:
        """The field `specialty`, a string or a list of strings: the names joined by SEVERAL; ""
        where it is missing."""
        if isinstance(self.values, dict) and isinstance(self.values.get("specialty"), list):
            return SEVERAL.join(node.text() for node in self.nodes("specialty"))
        return self.text("specialty", optional=True)

    def text(self, field: str = "", *, optional: bool = False, empty: bool = False) -> str:
        """A string of Unicode text; "" where it is optional and missing or null. empty: it may be
        blank."""
        if optional and isinstance(self.values, dict) and self.values.get(field) is None:
            return ""
        value = self.get(field, str)
        if not (empty or optional or value.strip()):
            raise self.fault("is empty", field, "fill in the text, or remove what it belongs to")
        if problem := character_fault(value):
            raise self.fault(problem, field)
        return value

    def get(self, field: str, kind: type):
        """The value of a field, which is a `kind`; without a name the value itself."""
        value = self.values
        if field and not isinstance(value, dict):
            raise self.fault(f"is a {type(value).__name__}, expected an object")
        if isinstance(value, RepeatedField):
            raise self.fault(value.problem, fix=KEEP_ONE)
        if field and field not in value:
            raise self.fault(
                "is missing", field, f"use the official file, which has '{field}' here"
            )
        value = value[field] if field else value
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.fault(f"is a {type(value).__name__}, expected {EXPECTED[kind]}", field)
        return value


class Marked(NamedTuple):
    """A text with marks, read. sentences: end of each line in tokens. blanks: places of
    PLACEHOLDER.

    stray: marks without a partner, around nothing, around a placeholder or around other marks.
    joined: placeholders in parts.
    """

    tokens: tuple[str, ...]
    entities: tuple[Entity, ...]
    sentences: tuple[int, ...]
    blanks: tuple[int, ...]
    stray: int
    joined: int


def parse_marked(text: str) -> Marked:
    """Reads `BEG__w1 w2__END` and placeholders; marks are token boundaries, a line break within
    marks is a space."""
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
    return Marked(
        words, tuple(entities), tuple(sentences), tuple(blanks), stray + (start >= 0), joined
    )


def marked_text(
    tokens: Sequence[str], entities: Iterable[Entity], sentences: Sequence[int] = ()
) -> str:
    """What parse_marked reads: tokens between spaces, marks around entities, a line for each
    sentence."""
    words = list(tokens)
    for entity in entities:
        words[entity.start] = BEGIN + words[entity.start]
        words[entity.end - 1] += END
    ends = sentences or (len(words),)
    return "\n".join(
        " ".join(words[start:end]) for start, end in zip((0, *ends), ends, strict=False)
    )


# -- files of CliCR ----------------------------------------------------------------------------------------------------

VERSION = "1.0"
FILES = {"train": "train1.0.json", "dev": "dev1.0.json", "test": "test1.0.json"}
SOURCE = "ask its authors, see github.com/clips/clicr"
# Folders and files whose licence forbids passing them on.
LICENSED = ("clicr", *FILES.values(), *(f"{file}.gz" for file in FILES.values()))
ORIGINS = ("dataset", "UMLS")
SEMANTIC_TYPES = ("problem", "treatment", "test")
MOST_STRAY = 0.01  # share of a file's marks


def load(folder: Path, *, limit: int | None = None, titles: bool = False) -> dict[str, Split]:
    """Train, dev and test, each with facts["shared_passages"]: how many passages it shares with
    each earlier split.

    folder: the corpus's own folder, or the data folder ($MEDNLI_JAX_DATA) that holds it as clicr/.
    limit: number of training queries that are read. titles: see read_clicr.
    """
    splits = {}
    for name, path in source_files(folder).items():
        split = read_clicr(
            path, split=name, limit=limit if name == "train" else None, titles=titles
        )
        uids, passages, shared = (
            {e.uid for e in split.examples},
            {e.passage.uid for e in split.examples},
            {},
        )
        for earlier in splits.values():
            if common := sum(example.uid in uids for example in earlier.examples):
                problem = f"{common} queries are in {earlier.name} as well as in {name} (same id)"
                raise DataError(problem, file=split.facts["file"], field="id", fix=FRESH_COPY)
            shared[earlier.name] = len(
                passages & {example.passage.uid for example in earlier.examples}
            )
        splits[name] = replace(split, facts={**split.facts, "shared_passages": shared})
    return splits


def source_files(folder: Path) -> dict[str, Path]:
    """split -> its file, plain or gzipped."""
    place = Path(folder) / "clicr" if (Path(folder) / "clicr").is_dir() else Path(folder)
    found, problems = (
        {split: either_name(place / file) for split, file in FILES.items()},
        Problems(),
    )
    for file in (FILES[split] for split, path in found.items() if path is None):
        lacking = (
            f"neither {file} nor {file}.gz is in {place}"
            if place.is_dir()
            else f"no folder {place}"
        )
        problems.add(
            DataError(
                lacking, file=file, fix=f"{SOURCE} and put {file} into $MEDNLI_JAX_DATA/clicr/"
            )
        )
    problems.raise_if_any()
    return found


def read_clicr(
    path: Path, *, split: str = "", limit: int | None = None, titles: bool = False
) -> Split:
    """Reads one file, plain or gzipped, whether or not `path` ends in .gz.

    split: name of the split; by default the file's. limit: number of queries that are read. titles:
    whether the marked phrases of a title are candidates, too, as those of passages that begin with
    it. Stray marks are removed and counted; a file with a larger share of them than MOST_STRAY is
    refused.
    """
    path = either_name(Path(path)) or Path(path)
    try:
        with opened_text(path) as stream:
            top = Node(
                path.name, "", json.loads(json_text(stream.read()), object_pairs_hook=json_object)
            )
    except (json.JSONDecodeError, RecursionError):
        raise DataError(
            "the file is not valid JSON, or cut short", file=path.name, fix=FRESH_COPY
        ) from None
    if top.text("version") != VERSION:
        fix = f"this reader knows version {VERSION} only: take that release"
        raise top.fault(f"is not {VERSION}", "version", fix)
    reader, articles = _Reader(path.name, titles), top.get("data", list)
    for number, article in enumerate(watched(articles, path.name)):
        reader.take(Node(path.name, f"data[{number}]", article))
        if limit is not None and len(reader.examples) >= limit:
            break
    reader.problems.raise_if_any()
    reader.check_marks()
    examples = tuple(reader.examples[:limit])
    facts = {
        "file": path.name,
        "sha256": sha256(path),
        "version": VERSION,
        **reader.facts(examples),
    }
    if facts["queries_without_candidates"] == len(examples):
        what = "holds no query whose passage has a marked phrase"
        raise DataError(
            what, file=path.name, fix="use the release with BEG__ and __END in the contexts"
        )
    if reader.bare:
        warn(
            f"{path.name}:{reader.bare[0]}: {len(reader.bare)} passages have no marked phrase, this is the first; the "
            f"{facts['queries_without_candidates']} queries about them cannot be answered. Fix: mark their phrases."
        )
    return Split(split or path.name, examples, facts)


class _Reader:
    """Turns the articles of one file into examples, and counts."""

    def __init__(self, file, titles):
        self.file, self.titles, self.problems = file, titles, Problems()
        self.examples, self.places, self.bare = [], {}, []
        self.articles = self.unasked = self.marks = self.stray = self.joined = 0
        self.first_stray = None

    def take(self, node):
        self.articles += 1
        document = Node(
            self.file, node.place("document"), self._guarded(node.get, "document", dict)
        )
        queries = None if document.values is None else self._guarded(document.nodes, "qas")
        if queries is None:
            return
        passage = self._guarded(self._passage, node, document)
        if passage is not None and not self._has_candidates(passage):
            self.bare.append(document.place("context"))
        self.unasked += not queries
        examples = [self._guarded(self._query, passage, query) for query in queries]
        self.examples += [example for example in examples if example is not None]

    def _has_candidates(self, passage: Passage) -> bool:
        return bool(passage.entities or (self.titles and passage.title_entities))

    def _guarded(self, read, *arguments):
        try:
            return read(*arguments)
        except DataError as error:
            self.problems.add(error)
            return None

    def _passage(self, node, document):
        uid = self._uid(node, "source")
        title = self._marked(document, "title", empty=True)
        context = self._marked(document, "context")
        specialty = sys.intern(document.specialties())
        if not context.tokens:
            raise document.fault("holds nothing but marks", "context", "fill in the text")
        return Passage(
            uid,
            title.tokens,
            context.tokens,
            context.entities,
            context.sentences,
            specialty,
            title.entities,
        )

    def _query(self, passage, node):
        uid = self._uid(node, "id")
        query = self._marked(node, "query")
        self.joined += query.joined
        if len(query.blanks) != 1:
            fix = f"put one {PLACEHOLDER} where the answer belongs, or remove the query"
            raise node.fault(
                f"holds {len(query.blanks)} of {PLACEHOLDER}, expected one", "query", fix
            )
        answers = [self._answer(answer) for answer in node.nodes("answers")]
        answers.sort(key=lambda answer: ORIGINS.index(answer.origin))
        if not answers or answers[0].origin != "dataset":
            fix = "add the answer of origin 'dataset', or remove the query"
            raise node.fault("holds no answer of origin 'dataset'", "answers", fix)
        if passage is None:
            return None
        return ClozeExample(
            uid, passage, query.tokens, query.entities, query.blanks[0], tuple(answers)
        )

    def _answer(self, node):
        origin = node.text("origin")
        if origin not in ORIGINS:
            raise node.fault(f"is none of {', '.join(ORIGINS)}", "origin", "correct the origin")
        concept, kind = (
            sys.intern(node.text(field, optional=True)) for field in ("cui", "sem_type")
        )
        return Answer(node.text("text"), concept, kind.lower(), sys.intern(origin))

    def _uid(self, node, field):
        uid, place = node.text(field), node.place(field)
        if self.places.setdefault((field, uid), place) != place:
            raise node.fault(f"repeats that of {self.places[field, uid]}", field)
        return uid

    def _marked(self, node, field, *, empty=False):
        marked = parse_marked(node.text(field, empty=empty))
        if marked.stray and not self.first_stray:
            self.first_stray = node, field
        self.marks += 2 * len(marked.entities) + marked.stray
        self.stray += marked.stray
        return marked

    def check_marks(self):
        """Warns of stray marks; too many are refused."""
        if not self.stray:
            return
        node, field = self.first_stray
        counted = (
            f"{self.stray:,} of the file's {self.marks:,} marks are unbalanced or mark nothing"
        )
        if self.stray > MOST_STRAY * self.marks:
            problem = f"{counted}, this is the first; over {MOST_STRAY:.0%} means another format"
            raise node.fault(problem, field, f"give every {BEGIN} its {END} in the same text")
        warn(
            f"{self.file}:{node.place(field)}: {counted}, this is the first; their words are read as plain text"
        )

    def facts(self, examples):
        answers = Counter(answer.origin for example in examples for answer in example.answers)
        kinds = Counter(example.answers[0].semantic_type for example in examples)
        others = sum(count for kind, count in kinds.items() if kind not in SEMANTIC_TYPES)
        return {
            "articles": self.articles,
            "articles_without_queries": self.unasked,
            "passages_without_candidates": len(self.bare),
            "queries": len(examples),
            "queries_without_candidates": sum(
                not self._has_candidates(example.passage) for example in examples
            ),
            "answers": {origin: answers[origin] for origin in ORIGINS},
            "semantic_types": {kind: kinds[kind] for kind in SEMANTIC_TYPES} | {"other": others},
            "stray_marks": self.stray,
            "joined_placeholders": self.joined,
        }


def load_demo_cloze() -> dict[str, Split]:
    """The demo queries; each has the tag "circumstance" or "name", to which its fact relates the
    answer."""
    found = {}
    for name, facts in demo.facts("cloze").items():
        path = demo.FOLDER / "cloze" / f"{FILES[name]}.gz"
        with opened_text(path) as stream:
            reports = json.load(stream)["data"]
        tags = {
            query["id"]: (query["tag"],)
            for report in reports
            for query in report["document"]["qas"]
        }
        queries = read_clicr(path, split=name).examples
        found[name] = Split(
            name, tuple(replace(query, tags=tags[query.uid]) for query in queries), facts
        )
    return found


def by_passage(examples: Iterable[ClozeExample]) -> Iterator[tuple[Passage, list[ClozeExample]]]:
    """Each passage with its queries, in the order of its first one."""
    groups = {}
    for example in examples:
        groups.setdefault(id(example.passage), []).append(example)
    for queries in groups.values():
        yield queries[0].passage, queries


def write_clicr(examples: Iterable[ClozeExample], path: Path) -> None:
    """Writes what read_clicr reads, gzipped where the name ends in .gz, article by article; tags
    are not written."""
    compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    data = ",\n".join(compact(_article(*of_one)) for of_one in by_passage(examples))
    path = Path(path)
    content = f'{{"version":"{VERSION}","data":[\n{data}\n]}}\n'.encode()
    write_atomic(path, gzip.compress(content, 6, mtime=0) if path.suffix == ".gz" else content)


def _article(passage, examples):
    queries = []
    for example in examples:
        text = marked_text(example.query, example.query_entities)
        answers = [
            {
                "text": answer.text,
                "cui": answer.concept,
                "sem_type": answer.semantic_type,
                "origin": answer.origin,
            }
            for answer in example.answers
        ]
        queries.append({"id": example.uid, "query": text, "answers": answers})
    document = {
        "title": marked_text(passage.title, passage.title_entities),
        "context": marked_text(passage.tokens, passage.entities, passage.sentences),
        "qas": queries,
    }
    if passage.specialty:
        names = passage.specialty.split(SEVERAL)
        document["specialty"] = names if len(names) > 1 else names[0]
    return {"source": passage.uid, "document": document}
