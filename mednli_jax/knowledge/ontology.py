"""Concepts, their names and their is-a graph: the common form of all terminologies."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO, TextIOWrapper
from itertools import accumulate

import numpy as np
from scipy.sparse import block_diag, csr_array
from scipy.sparse.csgraph import connected_components

from mednli_jax.errors import DataError
from mednli_jax.io import warn

RELATIONS = ("is_a", "all")
CYCLES = ("refuse", "drop")
GRAPHS = ("whole", "mentioned")
CIRCULAR = "circular_is_a"  # the relation of is-a edges on cycles, if all relations are taken
_ID = re.compile(r"[A-Za-z]{0,8}[:_]?\d{1,18}")


@dataclass(frozen=True)
class OntologyOptions:
    """The parts of a terminology that readers take. A reader ignores options that its format does not have.

    sources: vocabularies of the UMLS whose names and relations count, as abbreviated there (SAB); () takes all.
    languages: languages of names (LAT of the UMLS); () takes all.
    relations: "is_a" for the is-a graph alone, "all" for the other relations too (`Ontology.relations`).
    cycles: "refuse" a source whose is-a edges form a cycle, or "drop" the edges inside cycles and say how many. With
      relations "all" no source is refused, and such edges are the relation CIRCULAR.
    """

    sources: tuple[str, ...] = ("SNOMEDCT_US",)
    languages: tuple[str, ...] = ("ENG",)
    relations: str = "is_a"
    cycles: str = "refuse"


def shown_id(concept: str) -> str:
    """An id for a message. Text that does not look like an id (D003920, HP:0000118) becomes "an id": a damaged row may
    have any words there."""
    return concept if _ID.fullmatch(concept) else "an id"


def is_a_matrix(edges: Iterable[tuple[int, int]], size: int) -> csr_array:
    """The graph [size, size] bool of (child, parent) index pairs; repeated edges count once."""
    return relation_matrix(*np.array(sorted(set(edges)), np.int64).reshape(-1, 2).T, size)


def relation_matrix(child: np.ndarray, parent: np.ndarray, size: int) -> csr_array:
    """The graph [size, size] bool of int arrays [E] of concept indices; repeated edges count once."""
    return bool_matrix(child, parent, (size, size))


def bool_matrix(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> csr_array:
    """The bool matrix that is true at these places."""
    rows, columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    matrix = csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def cyclic_edges(child: np.ndarray, parent: np.ndarray, size: int) -> np.ndarray:
    """bool [E]: which of the edges (int arrays [E] of concept indices below `size`) lie inside a cycle.

    These are the edges whose two ends are in one strongly connected component, and edges from a concept to itself.
    """
    _, component = connected_components(relation_matrix(child, parent, size), directed=True, connection="strong")
    return component[child] == component[parent]


class Relations(Mapping[str, csr_array]):
    """Relations by name as edge lists; the [C, C] matrix of one is made when it is requested.

    A terminology has hundreds of relations, most of them with few edges, and a matrix each would hold C numbers each.

    edges: integers [2, E] by name, row 0 stands in the relation to row 1; sorted by both, every edge once.
    size: C.
    """

    def __init__(self, edges: Mapping[str, np.ndarray], size: int):
        self.edges, self.size = dict(edges), size

    @classmethod
    def of(cls, matrices: Mapping[str, csr_array], size: int) -> "Relations":
        """The table of any bool matrices [C, C]."""
        if isinstance(matrices, cls):
            return matrices
        return cls({name: np.stack(matrices[name].nonzero()).astype(np.int32) for name in sorted(matrices)}, size)

    def __getitem__(self, name: str) -> csr_array:
        source, target = self.edges[name]
        bounds = np.zeros(self.size + 1, np.int32)
        np.cumsum(np.bincount(source, minlength=self.size), out=bounds[1:])
        matrix = csr_array((np.ones(len(target), bool), np.array(target), bounds), shape=(self.size, self.size))
        matrix.has_canonical_format = True
        return matrix

    def __iter__(self) -> Iterator[str]:
        return iter(self.edges)

    def __len__(self) -> int:
        return len(self.edges)


class Names:
    """N (string, concept index) pairs without an object for each.

    text: uint8, the strings in UTF-8, a line break after each. concepts: int32 [N].
    """

    def __init__(self, text: np.ndarray, concepts: np.ndarray):
        self.text, self.concepts = text, concepts

    def __len__(self) -> int:
        return len(self.concepts)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        lines = TextIOWrapper(BytesIO(self.text), "utf-8", newline="\n")
        for line, concept in zip(lines, self.concepts, strict=True):
            yield line[:-1], int(concept)


@dataclass(frozen=True, eq=False, repr=False)
class Ontology:
    """C concepts, known by index inside the package and by id outside.

    name, version: of the source, e.g. "mesh", "2024".
    ids, labels: [C] identifier and preferred name of each concept.
    names: (surface name, concept index): preferred names, synonyms, aliases, abbreviations, case kept.
      Where concepts share a name, a preferred name wins over the others, then the one listed first.
    parents: [C, C] bool; parents[c, p] says that c is-a p. Free of cycles.
    sha256: hexadecimal digest of all sources together; equal digests mean equal ontologies.
    types: [C] semantic types of each concept joined by "|", or () where the source has none.
      For MeSH these are the tree numbers, so that a prefix ("C", "C14.280") names a kind.
    link_types: prefixes of the types worth linking in text, chosen by the reader; () links every concept.
    abbreviations: the `names` that are abbreviations, which are linked however short they are.
    relations: [C, C] bool by name, e.g. "part_of", "antonym": relations[r][a, b] says that a stands in r to b. Is-a is
      not among them, and cycles are allowed.
    cross_references: ("SOURCE:CODE", concept index): codes of the concept in other terminologies, and the ids of
      concepts that were merged into it.
    """

    name: str
    version: str
    ids: Sequence[str]
    labels: Sequence[str]
    names: Sequence[tuple[str, int]]
    parents: csr_array
    sha256: str
    types: Sequence[str] = ()
    link_types: tuple[str, ...] = ()
    abbreviations: frozenset[str] = field(default=frozenset())
    relations: Mapping[str, csr_array] = field(default_factory=dict)
    cross_references: Sequence[tuple[str, int]] = ()

    def __post_init__(self):
        object.__setattr__(self, "relations", Relations.of(self.relations, len(self)))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Ontology({self.name} {self.version}, {len(self)} concepts, {len(self.names)} names)"

    @cached_property
    def index_of(self) -> dict[str, int]:
        """Concept id -> index, for callers that ask often and handle unknown ids themselves."""
        return {concept: index for index, concept in enumerate(self.ids)}

    def indices(self, concept_id: str) -> list[int]:
        """The concept of an id, else all concepts that have it as a cross-reference; none for an unknown one."""
        index = self.index_of.get(concept_id)
        return self._indices_of_reference.get(concept_id, []) if index is None else [index]

    @cached_property
    def _indices_of_reference(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for reference, index in self.cross_references:
            found.setdefault(reference, []).append(index)
        return found

    def index(self, concept_id: str) -> int | None:
        """The index of a concept, by its id or a cross-reference that no other concept has; None for an unknown one."""
        found = set(self.indices(concept_id))
        return found.pop() if len(found) == 1 else None

    def ancestors(self, concept_id: str) -> dict[str, int]:
        """Every concept above this one and the number of is-a steps to it (at least 1); nearest first."""
        start = self.index(concept_id)
        steps, frontier = {start: 0}, [start]
        while frontier:
            ahead = []
            for concept in frontier:
                begin, end = self.parents.indptr[concept : concept + 2]
                for above in self.parents.indices[begin:end].tolist():
                    if above not in steps:
                        steps[above] = steps[concept] + 1
                        ahead.append(above)
            frontier = sorted(ahead)
        del steps[start]
        return {self.ids[concept]: distance for concept, distance in steps.items()}


def induced(ontology: Ontology, concepts: Iterable[str]) -> Ontology:
    """The ontology with only the edges between `concepts` (ids or cross-references); unknown ids are ignored."""
    kept = np.zeros(len(ontology), bool)
    for concept in concepts:
        kept[ontology.indices(concept)] = True

    def within(edges):
        return edges[:, kept[edges[0]] & kept[edges[1]]]

    size, edges = len(ontology), ontology.relations.edges
    digest = hashlib.sha256(ontology.sha256.encode() + np.packbits(kept).tobytes())
    return replace(
        ontology,
        parents=relation_matrix(*within(np.stack(ontology.parents.nonzero())), size),
        relations=Relations({name: within(found) for name, found in edges.items()}, size),
        sha256=digest.hexdigest(),
    )


def permuted(ontology: Ontology, seed: int) -> Ontology:
    """A control: the same ids and the same graph, but every concept's names now belong to a random concept.

    Labels, types and cross-references move with the names, so exactly the same spans of a text are linked. Only the
    graph's information about them is lost. The permutation is a sort by hash, so that it depends on `seed` and the ids
    alone, on every platform and with every NumPy.
    """
    keys = [hashlib.sha256(f"{seed}:{concept}".encode()).digest() for concept in ontology.ids]
    target = sorted(range(len(keys)), key=keys.__getitem__)  # the names of concept c move to concept target[c]
    source = np.argsort(target).tolist()
    labels, types = tuple(ontology.labels), tuple(ontology.types)
    return replace(
        ontology,
        name=f"{ontology.name}-permuted-{seed}",
        labels=tuple(labels[index] for index in source),
        types=tuple(types[index] for index in source) if types else (),
        names=tuple((name, target[index]) for name, index in ontology.names),
        cross_references=tuple((reference, target[index]) for reference, index in ontology.cross_references),
        sha256=hashlib.sha256(f"{ontology.sha256} permuted {seed}".encode()).hexdigest(),
    )


def side_by_side(parts: Sequence[Ontology]) -> Ontology:
    """The concepts of all parts, one part after the other; no edge leads from one to another.

    Relations of one name are one.
    """
    starts = begins(parts)
    size = sum(map(len, parts))
    edges = {}
    for part, begin in zip(parts, starts, strict=True):
        for name, of_part in Relations.of(part.relations, len(part)).edges.items():
            edges.setdefault(name, []).append(np.asarray(of_part, np.int32) + np.int32(begin))

    def moved(field):
        pairs = zip(parts, starts, strict=True)
        return tuple((name, begin + concept) for part, begin in pairs for name, concept in getattr(part, field))

    return Ontology(
        name="+".join(part.name for part in parts),
        version="+".join(part.version for part in parts),
        ids=tuple(concept for part in parts for concept in part.ids),
        labels=tuple(label for part in parts for label in part.labels),
        names=moved("names"),
        parents=csr_array(block_diag([part.parents for part in parts], format="csr", dtype=bool)),
        sha256=hashlib.sha256("+".join(part.sha256 for part in parts).encode()).hexdigest(),
        types=tuple(kinds for part in parts for kinds in (part.types or [""] * len(part))),
        abbreviations=frozenset().union(*(part.abbreviations for part in parts)),
        relations=Relations({name: np.concatenate(found, axis=1) for name, found in sorted(edges.items())}, size),
        cross_references=moved("cross_references"),
    )


def begins(parts: Sequence[Ontology]) -> list[int]:
    return list(accumulate(map(len, parts), initial=0))[:-1]


def is_a_graph(
    child: np.ndarray,
    parent: np.ndarray,
    size: int,
    options: OntologyOptions,
    *,
    place: Callable[[int], tuple[str, int]],
    name: Callable[[int], str],
    order: np.ndarray | None = None,
    field: str | None = None,
) -> tuple[csr_array, dict[str, np.ndarray]]:
    """(the is-a graph [C, C] bool of edges from child to parent, {CIRCULAR: int [2, E]} of the edges on cycles).

    The second is empty where no edge lies on a cycle, and where is-a edges alone are read. Then cycles="refuse" raises
    DataError for the first edge that lies on a cycle, and "drop" leaves such edges out and says how many they are.

    Args:
      child, parent: concepts by index, int [E].
      size: C, the number of concepts.
      place: of an edge by its index, (name of its file, line).
      name: of a concept by its index, for the message.
      order: int [E], the edge that comes first has the smallest number; without it the edges are in order.
      field: of the edges, where their format names it.
    """
    inside = cyclic_edges(child, parent, size)
    graph = relation_matrix(child[~inside], parent[~inside], size)
    if not inside.any():
        return graph, {}
    edges, count = np.flatnonzero(inside), relation_matrix(child[inside], parent[inside], size).nnz
    first = edges[0 if order is None else np.argmin(order[edges])]
    file, line = place(first)
    if options.relations == "all":
        warn(f"{file}: {count} is-a edges lie on cycles; paths still follow them both ways")
        return graph, {CIRCULAR: np.stack([child, parent])[:, inside]}
    if options.cycles == "refuse":
        more = f", as do {count - 1} more" if count > 1 else ""
        problem = f"the is-a edge from {name(child[first])} to {name(parent[first])} lies on a cycle{more}"
        fix = (
            "remove an edge of the cycle, or give --config.knowledge.cycles=drop, which leaves out all edges on cycles"
        )
        raise DataError(problem, file=file, line=line, field=field, fix=fix)
    warn(f"{file}: left out {count} is-a edges that lie on cycles")
    return graph, {}
