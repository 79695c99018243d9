"""Reader of OBO files (versions 1.0 to 1.4): the Human Phenotype Ontology, the Disease Ontology,
Mondo and their like.

A file is a header and stanzas of `tag: value` lines. Of [Term] stanzas these tags are read: id,
name, namespace, synonym (and 1.0's exact_synonym and so on), is_a, relationship, xref, alt_id,
is_obsolete, replaced_by; of [Typedef] stanzas id and name. Definitions, logical axioms
(intersection_of, union_of, ...) and [Instance] stanzas are ignored.
"""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mednli_jax.errors import DataError, Problems
from mednli_jax.files import FRESH_COPY, empty_file, line_fault, text_lines
from mednli_jax.knowledge.ontology import (
    DROPPED_CYCLES,
    Edges,
    Ontology,
    OntologyOptions,
    graphs,
    shown_id,
)
from mednli_jax.terminal import warn

# a name of another scope (NARROW, BROAD, RELATED) may mean something else
SCOPES = ("EXACT",)
_TAG = re.compile(r"([\w-]+)\s*:\s*(.*)")
_STANZA = re.compile(r"\[([\w ]+)\]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(.*)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": " ", "W": " ", "t": " "}  # a name is one line of words
# Trailing modifiers, {source="X:1", gci_filler="X:2"}, and then a comment, each after a blank.
_KEY, _CONTENT = r'[^\s=,{}"]+', r'"(?:[^"\\]|\\.)*"|[^\s=,{}"]+'
_MODIFIER = rf"{_KEY}\s*=\s*(?:{_CONTENT})"
_VALUE = re.compile(
    rf"(?P<value>.*?)(?:(?<!\\)\s+\{{\s*(?P<modifiers>{_MODIFIER}(?:\s*,\s*{_MODIFIER})*)\s*\}})?"
    r"(?:(?<!\\)\s+!(?:\s.*)?)?\s*"
)
_KEYS = re.compile(rf"({_KEY})\s*=\s*({_CONTENT})")
_SHORTHAND = re.compile(r"abbreviation|acronym", re.IGNORECASE)
_OLD_SYNONYMS = {
    f"{scope.lower()}_synonym": scope for scope in ("EXACT", "NARROW", "BROAD", "RELATED")
}


@dataclass
class _Term:
    """A [Term] stanza; the lines of references are kept to name them in a fault.

    conditional: lines of is_a and relationship that do not hold for the term as a whole.
    """

    line: int
    id: str = ""
    name: str = ""
    namespace: str = ""
    obsolete: bool = False
    synonyms: list[tuple[str, bool]] = field(
        default_factory=list
    )  # (text, whether it is shorthand)
    parents: list[tuple[str, int]] = field(default_factory=list)
    relationships: list[tuple[str, str, int]] = field(default_factory=list)
    conditional: set[int] = field(default_factory=set)
    references: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)  # alt_id
    replaced_by: list[str] = field(default_factory=list)


def read_obo(path: Path, options: OntologyOptions) -> Ontology:
    """The terms that are not obsolete.

    Names are the terms' names, then their exact synonyms; those of a synonym type called
    abbreviation or acronym are `abbreviations`. `types` are the namespaces. `cross_references` are
    the xrefs, the ids that were merged into the term (alt_id) and the obsolete terms that it alone
    replaces; by these ids is-a and other relations find it, too. With relations="all" a
    relationship is kept by the name of its [Typedef] ("part_of").

    A relation may lead to a term of another ontology that the file does not have (its id begins
    otherwise than those of most terms), as in "-base" editions and where terms of other ontologies
    are imported in part: it is left out and counted. So is one that `_is_conditional`. A term
    without a name is kept, but never linked.
    """
    path = Path(path)
    digest = hashlib.sha256(repr((options.relations, DROPPED_CYCLES, SCOPES)).encode())
    header, every, relations = _read_stanzas(path, digest)
    terms = [term for term in every if not term.obsolete]
    index = _index(path, every)
    edges = _edges(path, terms, index, relations, options.relations == "all")
    names = dict.fromkeys((term.name, place) for place, term in enumerate(terms) if term.name)
    names |= dict.fromkeys(
        (text, place) for place, term in enumerate(terms) for text, _ in term.synonyms
    )
    default = header.get("default-namespace", "")
    types = tuple(term.namespace or default for term in terms)
    ids = tuple(term.id for term in terms)
    parents, others = graphs(*edges, ids, options, lambda child: path.name)
    return Ontology(
        name=path.name.split(".")[0],
        version=header.get("data-version") or header.get("date") or "unknown",
        ids=ids,
        labels=tuple(term.name or term.id for term in terms),
        names=tuple(names),
        parents=parents,
        sha256=digest.hexdigest(),
        types=types if any(types) else (),
        abbreviations=frozenset(text for term in terms for text, short in term.synonyms if short),
        relations=others,
        cross_references=_references(every, index),
    )


def _read_stanzas(path, digest) -> tuple[dict[str, str], list[_Term], dict[str, str]]:
    """(header, terms, id -> name of relations); raises every malformed line of the file
    together."""
    header, terms, relations = {}, [], {}
    shorthand = set()  # types of synonyms that mark abbreviations
    problems, kind, term = Problems(), "", None
    opened = {}  # id of the [Typedef] stanza that is open
    for number, line in text_lines(path, digest=digest):
        text = line.strip()
        if not text or text.startswith("!"):
            continue
        if stanza := _STANZA.fullmatch(text):
            kind, opened = stanza[1], {}
            if kind == "Term":
                term = _Term(number)
                terms.append(term)
            continue
        match = _TAG.fullmatch(text)
        problem = "the line is neither 'tag: value' nor a stanza" if match is None else ""
        if match and kind == "Term":
            problem = _read_tag(term, match[1], match[2], number, shorthand)
        elif match and kind == "Typedef" and match[1] in ("id", "name"):
            opened[match[1]] = _value(match[2])
            relations[opened.get("id", "")] = opened.get("name", "")
        elif match and not kind and match[1] == "synonymtypedef":  # ID "description" SCOPE
            shorthand.update({_first(match[2])} if _SHORTHAND.search(match[2]) else ())
        elif match and not kind:
            header.setdefault(match[1], match[2].strip())
        if problem:
            fix = "take a fresh copy in OBO format (ROBOT converts OWL)"
            problems.add(line_fault(path.name, number, problem, fix))
            if not terms and not header:
                break  # not an OBO file: one problem is enough
    problems.raise_if_any()
    if not terms:
        raise empty_file(path, "no [Term] stanza")
    return header, terms, relations


def _read_tag(term, tag, value, number, shorthand) -> str:
    """Notes one line of a [Term] stanza; returns what is wrong with it, if anything."""
    problem = ""
    match tag:
        case "id":
            term.id, problem = _first(value), "the stanza has two ids" if term.id else ""
        case "name":
            term.name = _value(value)
        case "namespace":
            term.namespace = _value(value)
        case "is_obsolete":
            term.obsolete = _first(value) == "true"
        case "is_a":
            term.parents.append((_first(value), number))
            term.conditional |= {number} if _is_conditional(value) else set()
        case "relationship":
            parts = value.split(None, 2)
            if len(parts) < 2:
                return "the relationship has no target"
            term.relationships.append((_unescaped(parts[0]), _unescaped(parts[1]), number))
            term.conditional |= {number} if _is_conditional(value) else set()
        case "xref" | "xref_analog":
            term.references += [_first(value)] if ":" in _first(value) else []
        case "alt_id":
            term.merged.append(_first(value))
        case "replaced_by":
            term.replaced_by.append(_first(value))
        case "synonym" | "exact_synonym" | "narrow_synonym" | "broad_synonym" | "related_synonym":
            match = _QUOTED.fullmatch(value)
            if match is None:
                return "the synonym is not in quotes"
            words = _VALUE.fullmatch(match[2])["value"].split("[")[0].split()
            scope = _OLD_SYNONYMS.get(tag) or (words.pop(0) if words else "RELATED")
            if scope in SCOPES and match[1].strip():
                short = any(word in shorthand or _SHORTHAND.fullmatch(word) for word in words)
                term.synonyms.append((_unescaped(match[1]).strip(), short))
    if tag in ("id", "is_a", "alt_id", "replaced_by") and not value:
        return f"the tag '{tag}' has no value"
    return problem


def _first(value: str) -> str:
    """The id that a value begins with: what follows is a comment or a modifier."""
    return _unescaped(value.split(None, 1)[0]) if value else ""


def _value(text: str) -> str:
    """A value without its comment and its trailing modifiers."""
    return _unescaped(_VALUE.fullmatch(text)["value"]).strip()


def _is_conditional(text: str) -> bool:
    """Whether the modifiers of a relation say that it holds under a condition, or for no instance
    of its target.

    That is a general class inclusion (gci_relation and gci_filler: only where the term has this
    relation to that class), a cardinality of 0, or all_only without all_some. Other modifiers, such
    as source, only annotate.
    """
    modifiers = {
        key: value.strip('"')
        for key, value in _KEYS.findall(_VALUE.fullmatch(text)["modifiers"] or "")
    }
    none = "0" in (modifiers.get("cardinality"), modifiers.get("maxCardinality"))
    only = modifiers.get("all_only") == "true" and modifiers.get("all_some") != "true"
    return "gci_relation" in modifiers or "gci_filler" in modifiers or none or only


def _unescaped(text: str) -> str:
    return (
        _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), text) if "\\" in text else text
    )


def _index(path, terms: list[_Term]) -> dict[str, int]:
    """Id -> index of every term that is not obsolete, and of the ids that lead to it."""
    problems, index, seen = Problems(), {}, set()

    def fault(problem, term, fix):
        problems.add(DataError(problem, file=path.name, line=term.line, field="id", fix=fix))

    for term in terms:
        if not term.id:
            fault("the stanza has no id", term, FRESH_COPY)
        elif term.id in seen:
            fault(f"the id {shown_id(term.id)} is repeated", term, "keep one stanza a term")
        seen.add(term.id)
        if not term.obsolete:
            index[term.id] = len(index)
    problems.raise_if_any()
    _add_old_ids(index, terms)
    return index


def _add_old_ids(index: dict[str, int], terms: list[_Term]) -> None:
    """Adds the ids that lead to one term in use over any number of steps, whatever the order of the
    stanzas.

    An alt_id leads to its terms, an obsolete term to those that replace it; the alt_id of a term in
    use goes before.
    """
    successors: dict[str, list[str]] = {}
    merged_into_obsolete: dict[str, list[str]] = {}
    for term in terms:
        for old in term.merged:
            (merged_into_obsolete if term.obsolete else successors).setdefault(old, []).append(
                term.id
            )
    replaced = {term.id: term.replaced_by for term in terms if term.obsolete and term.replaced_by}
    for old, following in (*replaced.items(), *merged_into_obsolete.items()):
        successors.setdefault(old, following)
    resolved = index
    while resolved:
        resolved = {}
        for old, following in successors.items():
            places = {index.get(successor) for successor in following}
            if old not in index and len(places) == 1 and None not in places:
                resolved[old] = places.pop()
        index |= resolved


def _edges(path, terms, index, relations, take_all):
    """(is-a edges from child to parent, other edges, the names of their kinds)."""
    problems, is_a, others, kinds, foreign, conditional = Problems(), [], [], {}, 0, 0
    id_spaces = Counter(_space(term.id) for term in terms)
    own_space = max(id_spaces, key=id_spaces.__getitem__, default="")
    for place, term in enumerate(terms):
        parents = [("is_a", target, line) for target, line in term.parents]
        for name, target, line in (*parents, *term.relationships):
            relation = re.sub(r"\W+", "_", (relations.get(name) or name).strip()).strip("_")
            if relation != "is_a" and not take_all:
                continue
            to = index.get(target)
            if line in term.conditional:
                conditional += 1
            elif to is None and _space(target) != own_space:
                foreign += 1
            elif to is None:
                stated = "is_a" if relation == "is_a" else "a relationship"
                problem = f"{stated} leads to {shown_id(target)}, which no stanza in use has"
                fix = "fetch the whole file, or remove the line"
                problems.add(DataError(problem, file=path.name, line=line, field=stated, fix=fix))
            elif relation == "is_a":
                is_a.append((place, to, line, 0))
            else:
                others.append((place, to, line, kinds.setdefault(relation, len(kinds))))
    problems.raise_if_any()
    if foreign:
        warn(
            f"{path.name}: left out {foreign} relations to terms of other ontologies, which the file does not have"
        )
    if conditional:
        warn(
            f"{path.name}: left out {conditional} relations whose modifiers (gci_relation and the like) limit them"
        )
    return Edges(is_a), Edges(others), list(kinds)


def _space(concept_id: str) -> str:
    """The beginning that ids of one ontology share: "HP" of HP:0000118."""
    return concept_id.partition(":")[0]


def _references(terms: list[_Term], index: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """Every (reference, concept) once: xrefs in the file's order, then the old ids."""
    current = {term.id: term for term in terms if not term.obsolete}
    found = [(code, index[term.id]) for term in current.values() for code in term.references]
    return tuple(
        dict.fromkeys([*found, *(item for item in index.items() if item[0] not in current)])
    )
