"""Concepts, their names and their is-a graph: one form for all terminologies."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from mednli_jax.terminal import warn

RELATIONS = ("is_a", "all")
GRAPHS = ("whole", "mentioned")
# the relation of is-a edges on cycles, if all relations are taken
CIRCULAR = "circular_is_a"
_ID = re.compile(r"[A-Za-z]{0,8}[:_]?\d{1,18}")


@dataclass(frozen=True)
class OntologyOptions:
    """The parts of a terminology that readers take. A reader ignores options that its format does
    not have.

    Args:
      sources: vocabularies of the UMLS (SAB); () takes all.
      languages: of names (LAT of the UMLS); () takes all.
      relations: "is_a" for the is-a graph alone, "all" for the other relations too
        (`Ontology.relations`). Is-a edges on cycles are left out and counted, or are the relation
        CIRCULAR with "all".
    """

    sources: tuple[str, ...] = ("SNOMEDCT_US",)
    languages: tuple[str, ...] = ("ENG",)
    relations: str = "is_a"


DEFAULT_OPTIONS = OntologyOptions()


def shown_id(concept: str) -> str:
    """An id for a message; "an id" if a damaged row has a text that does not look like D003920 or
    HP:0000118."""
    return concept if _ID.fullmatch(concept) else "an id"


def bool_matrix(
    rows: np.ndarray | Sequence[int],
    columns: np.ndarray | Sequence[int],
    shape: tuple[int, int],
) -> csr_array:
    """A bool matrix of this shape, true at the places (rows, columns), which may repeat."""
    rows, columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    matrix = csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def edge_matrix(edges: np.ndarray, size: int) -> coo_array:
    """The bool matrix [size, size] of edges [2, E], all different. It needs no memory for concepts
    without edges."""
    return coo_array((np.ones(edges.shape[1], bool), tuple(edges)), shape=(size, size))


@dataclass(frozen=True, eq=False, repr=False)
class Ontology:
    """C concepts, known by index inside the package and by id outside.

    name, version: of the source, e.g. "mesh", "2024".
    ids, labels: [C] identifier and preferred name of each concept.
    names: (surface name, concept index), case kept. Where concepts share a name, a preferred name
      wins over the others, then the one listed first.
    parents: [C, C] bool; parents[c, p] says that c is-a p. Free of cycles.
    sha256: hexadecimal digest of all sources together; equal digests mean equal ontologies.
    types: [C] semantic types of each concept joined by "|" (MeSH's tree numbers), or () where the
      source has none.
    link_types: prefixes of the types worth linking in text, chosen by the reader; () links every
      concept.
    abbreviations: the `names` that are abbreviations, which are linked however short they are.
    relations: [C, C] bool by name, e.g. "part_of", "antonym": relations[r][a, b] says that a stands
      in r to b. Is-a is not among them, and cycles are allowed.
    cross_references: ("SOURCE:CODE", concept index): codes of the concept in other terminologies,
      and the ids of concepts that were merged into it.
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
    relations: Mapping[str, csr_array | coo_array] = field(default_factory=dict)
    cross_references: Sequence[tuple[str, int]] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def index_of(self) -> dict[str, int]:
        """Concept id -> index."""
        return {concept: index for index, concept in enumerate(self.ids)}

    def indices(self, concept_id: str) -> list[int]:
        """The index of the concept with this id; else those of all concepts that have it as a
        cross-reference; [] for an unknown id."""
        index = self.index_of.get(concept_id)
        return self._indices_of_reference.get(concept_id, []) if index is None else [index]

    @cached_property
    def _indices_of_reference(self) -> dict[str, list[int]]:
        indices: dict[str, list[int]] = {}
        for reference, index in self.cross_references:
            indices.setdefault(reference, []).append(index)
        return indices

    def index(self, concept_id: str) -> int | None:
        """The index of the concept with this id, or of the only one with this cross-reference; None
        for an unknown id."""
        indices = set(self.indices(concept_id))
        return indices.pop() if len(indices) == 1 else None

    def ancestors(self, concept_id: str) -> dict[str, int]:
        """Every concept above this one and the number of is-a steps to it (at least 1); nearest
        first."""
        steps: dict[int, int] = {}
        frontier = set(self.indices(concept_id))
        for distance in count(1):
            above = set(self.parents[sorted(frontier)].indices.tolist())
            frontier = above - steps.keys()
            if not frontier:
                break
            for concept in sorted(frontier):
                steps[concept] = distance
        return {self.ids[concept]: length for concept, length in steps.items()}


def induced_subgraph(ontology: Ontology, concepts: Iterable[str]) -> Ontology:
    """The ontology with only the edges between `concepts` (ids or cross-references). Unknown ones
    are ignored."""
    is_inside = np.zeros(len(ontology), bool)
    for concept in concepts:
        is_inside[ontology.indices(concept)] = True

    def within(matrix: csr_array | coo_array) -> coo_array:
        edges = np.stack(matrix.nonzero())
        return edge_matrix(edges[:, is_inside[edges].all(axis=0)], len(ontology))

    digest = hashlib.sha256(ontology.sha256.encode() + np.packbits(is_inside).tobytes())
    return replace(
        ontology,
        parents=csr_array(within(ontology.parents)),
        relations={name: within(matrix) for name, matrix in ontology.relations.items()},
        sha256=digest.hexdigest(),
    )


def permute(ontology: Ontology, seed: int) -> Ontology:
    """Makes a control: an ontology with the same ids and the same graph, in which every concept has
    the names of a random concept.

    Labels, types and cross-references move with the names, so that the same spans of a text are
    linked. The permutation is a sort by hash: it depends on `seed` and the ids alone, with every
    version of NumPy.
    """
    keys = [hashlib.sha256(f"{seed}:{concept}".encode()).digest() for concept in ontology.ids]
    # The names of concept c move to concept target[c].
    target = sorted(range(len(keys)), key=keys.__getitem__)
    source = np.argsort(target).tolist()

    def move_names(pairs: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        return tuple((name, target[concept]) for name, concept in pairs)

    return replace(
        ontology,
        name=f"{ontology.name}-permuted-{seed}",
        labels=tuple(map(ontology.labels.__getitem__, source)),
        types=tuple(map(ontology.types.__getitem__, source)) if ontology.types else (),
        names=move_names(ontology.names),
        cross_references=move_names(ontology.cross_references),
        sha256=hashlib.sha256(f"{ontology.sha256} permuted {seed}".encode()).hexdigest(),
    )


class Edges:
    """Edges between concepts: (source, target, line of the file, kind).

    They are given as `rows`, or added as arrays.
    """

    def __init__(self, rows: Sequence[tuple[int, int, int, int]] = ()) -> None:
        self._blocks = [np.array(rows, np.int32).reshape(-1, 4).T]

    def add(
        self,
        source: np.ndarray,
        target: np.ndarray,
        lines: np.ndarray,
        kind: np.ndarray | Sequence[int] | int = 0,
    ) -> None:
        """Adds edges, integers [E] each. kind: one number for all edges, or [E]."""
        columns = np.broadcast_arrays(source, target, lines, kind)
        self._blocks.append(np.array(columns, np.int32))

    def arrays(self) -> np.ndarray:
        """int32 [4, E]: source, target, line and kind of all edges."""
        return np.concatenate(self._blocks, axis=1)


class ReadEdges(NamedTuple):
    """The edges of a terminology. is_a: from child to parent. kinds: names of the kinds of
    `other_edges`; kinds of one name are one relation."""

    is_a: Edges
    other_edges: Edges
    kinds: Sequence[str]


class Graphs(NamedTuple):
    """The fields `parents` and `relations` of an Ontology."""

    parents: csr_array
    relations: dict[str, coo_array]


def graphs(
    edges: ReadEdges, size: int, options: OntologyOptions, file_of: Callable[[int], str]
) -> Graphs:
    """Builds the graphs of the edges between `size` concepts.

    Is-a edges on cycles become the relation CIRCULAR if all relations are read. Else they are left
    out, with a warning that counts them.

    file_of: child -> the file that states its is-a edges.
    """
    source, target, _, kinds = edges.other_edges.arrays()
    keys = source.astype(np.int64) * size + target
    keys_of: dict[str, list[np.ndarray]] = {}  # name of a relation -> keys of its edges
    order = np.argsort(kinds, kind="stable")
    distinct_kinds, begins = np.unique(kinds[order], return_index=True)
    for kind, places in zip(distinct_kinds, np.split(order, begins)[1:], strict=True):
        keys_of.setdefault(edges.kinds[kind], []).append(keys[places])

    child, parent, lines, _ = edges.is_a.arrays()
    is_cyclic = _on_cycles(child, parent, size)
    if is_cyclic.any():
        cyclic = np.unique(child[is_cyclic].astype(np.int64) * size + parent[is_cyclic])
        first = np.flatnonzero(is_cyclic)[np.argmin(lines[is_cyclic])]
        file = file_of(int(child[first]))
        if options.relations == "all":
            keys_of[CIRCULAR] = [cyclic]
            problem = f"{len(cyclic)} is-a edges lie on cycles; paths still follow them both ways"
        else:
            problem = f"left out {len(cyclic)} is-a edges that lie on cycles"
        warn(f"{file}: {problem}")
    relations = {}
    for name in sorted(keys_of):
        pairs = np.divmod(np.unique(np.concatenate(keys_of[name])), size)
        relations[name] = edge_matrix(np.stack(pairs), size)
    parents = bool_matrix(child[~is_cyclic], parent[~is_cyclic], (size, size))
    return Graphs(parents, relations)


def _on_cycles(child: np.ndarray, parent: np.ndarray, size: int) -> np.ndarray:
    """bool [E], whether each edge lies on a cycle. The edge of a concept to itself is a cycle.

    child, parent: int [E] of concepts below `size`.
    """
    graph = bool_matrix(child, parent, (size, size))
    _, component = connected_components(graph, connection="strong")
    return np.asarray(component[child] == component[parent])
