"""Reader of OBO files (versions 1.2 and 1.4): the Human Phenotype Ontology, the Disease Ontology,
Mondo and their like.

A file is a header and stanzas of `tag: value` lines. Of [Term] stanzas these tags are read: id,
name, namespace, synonym, is_a, relationship, xref, alt_id, is_obsolete, replaced_by; of [Typedef]
stanzas id and name. Definitions, logical axioms (intersection_of, disjoint_from, ...) and
[Instance] stanzas are ignored.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mednli_jax.errors import DataError, Problems
from mednli_jax.files.reading import FRESH_COPY, empty_file, line_fault, text_lines
from mednli_jax.files.writing import Digest
from mednli_jax.knowledge.ontology import (
    Edges,
    Ontology,
    OntologyOptions,
    ReadEdges,
    graphs,
    shown_id,
)
from mednli_jax.terminal import warn

# A name of another scope (NARROW, BROAD, RELATED) may mean something else.
SCOPES = ("EXACT",)
_TAG = re.compile(r"([\w-]+)\s*:\s*(.*)")
_STANZA = re.compile(r"\[([\w ]+)\]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(.*)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": " ", "W": " ", "t": " "}  # a name is one line of words
# A value, then modifiers and a comment, each after a blank and optional:
# value {source="X:1", gci_filler="X:2"} ! comment
_KEY, _CONTENT = r'[^\s=,{}"]+', r'"(?:[^"\\]|\\.)*"|[^\s=,{}"]+'
_MODIFIER = rf"{_KEY}\s*=\s*(?:{_CONTENT})"
_VALUE = re.compile(
    rf"(?P<value>.*?)(?:(?<!\\)\s+\{{\s*(?P<modifiers>{_MODIFIER}(?:\s*,\s*{_MODIFIER})*)\s*\}})?"
    r"(?:(?<!\\)\s+!(?:\s.*)?)?\s*"
)
_KEYS = re.compile(rf"({_KEY})\s*=\s*({_CONTENT})")
_CUI = re.compile(r"UMLS(?:_CUI)?:(C\d{7})")
_SHORTHAND = re.compile(r"abbreviation|acronym", re.IGNORECASE)


class _Synonym(NamedTuple):
    text: str
    is_shorthand: bool


class _Relationship(NamedTuple):
    """A line of is_a or relationship. is_conditional: whether it holds only under a condition."""

    name: str
    target: str
    line: int
    is_conditional: bool


@dataclass
class _Term:
    """A [Term] stanza. line: number of its first line."""

    line: int
    id: str = ""
    name: str = ""
    namespace: str = ""
    is_obsolete: bool = False
    synonyms: list[_Synonym] = field(default_factory=list)
    relationships: list[_Relationship] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    alternative_ids: list[str] = field(default_factory=list)
    replaced_by: list[str] = field(default_factory=list)


def read_obo(path: Path, options: OntologyOptions) -> Ontology:
    """Reads the terms that are not obsolete.

    Names are the terms' names, then their exact synonyms; synonyms of a type called abbreviation or
    acronym are `abbreviations`. `types` are the namespaces. `cross_references` are the xrefs, the
    ids that were merged into the term (alt_id) and the obsolete terms that it alone replaces; is-a
    and other relations find the term by these ids, too. With relations="all" a relationship is
    stored under the name of its [Typedef] ("part_of").

    A relation may lead to a term of another ontology that the file does not have, as in "-base"
    editions and in files that import a part of another ontology: the id of such a term begins
    otherwise than those of the file's own terms. The relation is left out and counted. So is a
    relation that `_is_conditional`. A term without a name stays, but is never linked.
    """
    digest = hashlib.sha256(repr((options.relations, SCOPES)).encode())
    file = _read_stanzas(path, digest)
    terms = [term for term in file.terms if not term.is_obsolete]
    index = _index(path, file.terms)
    own_space = _own_space(path, file.header, terms)
    edges = _edges(path, terms, index, file.relation_names, own_space, options.relations == "all")
    parents, relations = graphs(edges, len(terms), options, lambda child: path.name)
    names = [(term.name, place) for place, term in enumerate(terms) if term.name]
    abbreviations = []
    for place, term in enumerate(terms):
        for synonym in term.synonyms:
            names.append((synonym.text, place))
            if synonym.is_shorthand:
                abbreviations.append(synonym.text)
    labels = tuple(term.name or term.id for term in terms)
    default = file.header.get("default-namespace", "")
    types = tuple(term.namespace or default for term in terms)
    return Ontology(
        name=path.name.split(".")[0],
        version=file.header.get("data-version") or file.header.get("date") or "unknown",
        ids=tuple(term.id for term in terms),
        labels=labels,
        names=tuple(dict.fromkeys(names)),
        parents=parents,
        sha256=digest.hexdigest(),
        types=types if any(types) else (),
        abbreviations=frozenset(abbreviations),
        relations=relations,
        cross_references=_references(terms, index),
    )


class _OboFile:
    """The stanzas of a file, filled line by line.

    Attributes:
      header: tag -> its first value.
      relation_names: id of a [Typedef] -> its name.
      shorthand: types of synonyms that mark abbreviations.
    """

    def __init__(self) -> None:
        self.header: dict[str, str] = {}
        self.terms: list[_Term] = []
        self.relation_names: dict[str, str] = {}
        self.shorthand: set[str] = set()
        self._stanza = ""  # type of the stanza that is open, "" in the header
        self._typedef = {"id": "", "name": ""}

    def begin(self, stanza: str, line: int) -> None:
        self._stanza, self._typedef = stanza, {"id": "", "name": ""}
        if stanza == "Term":
            self.terms.append(_Term(line))

    def add(self, tag: str, value: str, line: int) -> str:
        """Adds a `tag: value` line to the open stanza; returns the problem of the line, or ""."""
        if self._stanza == "Term":
            return _add_to_term(self.terms[-1], tag, value, line, self.shorthand)
        if self._stanza == "Typedef":
            if tag in self._typedef:
                self._typedef[tag] = _value(value)
                self.relation_names[self._typedef["id"]] = self._typedef["name"]
        elif not self._stanza and tag == "synonymtypedef":  # ID "description" SCOPE
            if _SHORTHAND.search(value):
                self.shorthand.add(_first_word(value))
        elif not self._stanza:
            self.header.setdefault(tag, value.strip())
        return ""


def _read_stanzas(path: Path, digest: Digest) -> _OboFile:
    """Reads a file. Raises all malformed lines together."""
    file, problems = _OboFile(), Problems()
    for number, line in text_lines(path, digest=digest):
        text = line.strip()
        if not text or text.startswith("!"):
            continue
        if stanza := _STANZA.fullmatch(text):
            file.begin(stanza[1], number)
            continue
        pair = _TAG.fullmatch(text)
        problem = "the line is neither 'tag: value' nor a stanza"
        if pair:
            problem = file.add(pair[1], pair[2], number)
        if problem:
            fix = "take a fresh copy in OBO format (ROBOT converts OWL)"
            problems.add(line_fault(path.name, number, problem, fix))
            if not file.terms and not file.header:
                break  # not an OBO file: one problem is enough
    problems.raise_if_any()
    if not file.terms:
        raise empty_file(path, "no [Term] stanza")
    return file


def _add_to_term(term: _Term, tag: str, value: str, line: int, shorthand: set[str]) -> str:
    """Adds a line to a [Term] stanza; returns the problem of the line, or ""."""
    first_word = _first_word(value)
    if tag in ("id", "is_a", "alt_id", "replaced_by") and not value:
        return f"the tag '{tag}' has no value"
    match tag:
        case "id":
            if term.id:
                return "the stanza has two ids"
            term.id = first_word
        case "name" | "namespace":
            setattr(term, tag, _value(value))
        case "is_obsolete":
            term.is_obsolete = first_word == "true"
        case "is_a":
            relation = _Relationship(tag, first_word, line, _is_conditional(value))
            term.relationships.append(relation)
        case "relationship":
            return _add_relationship(term, value, line)
        case "xref" if ":" in first_word:
            term.references.append(first_word)
        case "alt_id":
            term.alternative_ids.append(first_word)
        case "replaced_by":
            term.replaced_by.append(first_word)
        case "synonym":
            return _add_synonym(term, value, shorthand)
    return ""


def _add_relationship(term: _Term, value: str, line: int) -> str:
    words = value.split(None, 2)
    if len(words) < 2:
        return "the relationship has no target"
    name, target = map(_unescape, words[:2])
    relationship = _Relationship(name, target, line, _is_conditional(value))
    term.relationships.append(relationship)
    return ""


def _add_synonym(term: _Term, value: str, shorthand: set[str]) -> str:
    """Adds a synonym of a scope of SCOPES, "text" SCOPE TYPE [references]; returns the problem of
    the line, or ""."""
    quoted = _QUOTED.fullmatch(value)
    if quoted is None:
        return "the synonym is not in quotes"
    words = _value_match(quoted[2])["value"].split("[")[0].split()
    scope = words.pop(0) if words else "RELATED"
    if scope in SCOPES and quoted[1].strip():
        is_shorthand = any(word in shorthand or _SHORTHAND.fullmatch(word) for word in words)
        term.synonyms.append(_Synonym(_unescape(quoted[1]).strip(), is_shorthand))
    return ""


def _first_word(value: str) -> str:
    """The first word of a value, "" for an empty one. A comment or a modifier may follow it."""
    return _unescape(value.split(None, 1)[0]) if value else ""


def _value(text: str) -> str:
    """Cuts the comment and the trailing modifiers off a value."""
    return _unescape(_value_match(text)["value"]).strip()


def _value_match(text: str) -> re.Match[str]:
    match = _VALUE.fullmatch(text)
    assert match is not None, "the pattern fits every text"
    return match


def _is_conditional(text: str) -> bool:
    """Whether the modifiers of a relation restrict it to a condition, or to no instance of its
    target.

    Such modifiers are a general class inclusion (gci_relation and gci_filler: the relation holds
    only if the term has this relation to that class), a cardinality of 0, or all_only without
    all_some. Other modifiers, such as source, only annotate.
    """
    pairs = _KEYS.findall(_value_match(text)["modifiers"] or "")
    modifiers = {key: value.strip('"') for key, value in pairs}
    is_class_inclusion = "gci_relation" in modifiers or "gci_filler" in modifiers
    is_of_none = "0" in (modifiers.get("cardinality"), modifiers.get("maxCardinality"))
    is_only = modifiers.get("all_only") == "true" and modifiers.get("all_some") != "true"
    return is_class_inclusion or is_of_none or is_only


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), text)


def _index(path: Path, terms: Sequence[_Term]) -> dict[str, int]:
    """Maps the id of every term that is not obsolete, and the ids that lead to it, to its index."""
    problems = Problems()
    index: dict[str, int] = {}
    ids: set[str] = set()
    for term in terms:
        problem, fix = "", FRESH_COPY
        if not term.id:
            problem = "the stanza has no id"
        elif term.id in ids:
            problem, fix = f"the id {shown_id(term.id)} is repeated", "keep one stanza a term"
        if problem:
            problems.add(DataError(problem, file=path.name, line=term.line, field="id", fix=fix))
        ids.add(term.id)
        if not term.is_obsolete:
            index[term.id] = len(index)
    problems.raise_if_any()
    _add_old_ids(index, terms)
    return index


def _add_old_ids(index: dict[str, int], terms: Sequence[_Term]) -> None:
    """Adds each id that leads to exactly one term in use, over any number of steps.

    An alt_id leads to its terms, an obsolete term to those that replace it. If an id is both, the
    alt_id of a term in use counts first, that of an obsolete term last.
    """
    successors: dict[str, list[str]] = {}
    merged_into_obsolete: dict[str, list[str]] = {}
    for term in terms:
        merged = merged_into_obsolete if term.is_obsolete else successors
        for old_id in term.alternative_ids:
            merged.setdefault(old_id, []).append(term.id)
    for term in terms:
        if term.is_obsolete and term.replaced_by:
            successors.setdefault(term.id, term.replaced_by)
    for old_id, obsolete_ids in merged_into_obsolete.items():
        successors.setdefault(old_id, obsolete_ids)
    resolved = index
    while resolved:
        resolved = {}
        for old_id, ids in successors.items():
            places = {index.get(successor, -1) for successor in ids}
            if old_id not in index and len(places) == 1 and -1 not in places:
                resolved[old_id] = places.pop()
        index |= resolved


def _edges(
    path: Path,
    terms: Sequence[_Term],
    index: dict[str, int],
    relation_names: dict[str, str],
    own_space: str,
    take_all: bool,
) -> ReadEdges:
    problems = Problems()
    is_a, other_edges = [], []
    kind_of: dict[str, int] = {}
    foreign = conditional = 0
    for place, term in enumerate(terms):
        for name, target, line, is_conditional in term.relationships:
            name = relation_names.get(name) or name
            relation = re.sub(r"\W+", "_", name.strip()).strip("_")
            if relation != "is_a" and not take_all:
                continue
            target_place = index.get(target)
            if is_conditional:
                conditional += 1
            elif target_place is None and _id_space(target) != own_space:
                foreign += 1
            elif target_place is None:
                tag = "is_a" if relation == "is_a" else "a relationship"
                problem = f"{tag} leads to {shown_id(target)}, which no stanza in use has"
                fix = "fetch the whole file, or remove the line"
                problems.add(DataError(problem, file=path.name, line=line, field=tag, fix=fix))
            elif relation == "is_a":
                is_a.append((place, target_place, line, 0))
            else:
                kind = kind_of.setdefault(relation, len(kind_of))
                other_edges.append((place, target_place, line, kind))
    problems.raise_if_any()
    if foreign:
        problem = "relations to terms of other ontologies, which the file does not have"
        warn(f"{path.name}: left out {foreign} {problem}")
    if conditional:
        problem = "relations whose modifiers (gci_relation and the like) limit them"
        warn(f"{path.name}: left out {conditional} {problem}")
    return ReadEdges(Edges(is_a), Edges(other_edges), list(kind_of))


def _own_space(path: Path, header: Mapping[str, str], terms: Sequence[_Term]) -> str:
    """The id space of the file's own terms: the only one, else the first that is named by the
    header's `ontology` (a name, path or URL) or by the file's name, else "". A file may import more
    terms than it has of its own."""
    spaces = {_id_space(term.id) for term in terms}
    names = f"{header.get('ontology', '')} {path.name}"
    for word in re.split(r"[\W_]", names.casefold()):
        for space in spaces:
            if space.casefold() == word or len(spaces) == 1:
                return space
    return ""


def _id_space(concept_id: str) -> str:
    """The prefix that ids of one ontology share: "HP" of HP:0000118."""
    return concept_id.partition(":")[0]


def _references(terms: Sequence[_Term], index: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """Every (reference, concept) once: xrefs in the file's order, then the old ids.

    A concept of the UMLS is also found by its CUI alone, as MetaMap writes it.
    """
    references = []
    for term in terms:
        for code in term.references:
            references.append((code, index[term.id]))
            if cui := _CUI.fullmatch(code):
                references.append((cui[1], index[term.id]))
    ids = {term.id for term in terms}
    references += [(old_id, place) for old_id, place in index.items() if old_id not in ids]
    return tuple(dict.fromkeys(references))
