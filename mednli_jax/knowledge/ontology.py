"""Concepts, their names and their is-a graph: the common form of all terminologies."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, count

import numpy as np
from scipy.sparse import block_diag, coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from mednli_jax.terminal import warn

RELATIONS = ("is_a", "all")
GRAPHS = ("whole", "mentioned")
# Part of the digests of ontologies, which runs of version 1 store: it had a choice here.
DROPPED_CYCLES = "drop"
# the relation of is-a edges on cycles, if all relations are taken
CIRCULAR = "circular_is_a"
_ID = re.compile(r"[A-Za-z]{0,8}[:_]?\d{1,18}")


@dataclass(frozen=True)
class OntologyOptions:
    """The parts of a terminology that readers take. A reader ignores options that its format does
    not have.

    sources: vocabularies of the UMLS (SAB), languages: of names (LAT of the UMLS); () takes all.
    relations: "is_a" for the is-a graph alone, "all" for the other relations too
    (`Ontology.relations`).
      Is-a edges on cycles are left out and counted, or are the relation CIRCULAR with "all".
    """

    sources: tuple[str, ...] = ("SNOMEDCT_US",)
    languages: tuple[str, ...] = ("ENG",)
    relations: str = "is_a"


def shown_id(concept: str) -> str:
    """An id for a message; "an id" where a damaged row has other text than D003920, HP:0000118 and
    their like."""
    return concept if _ID.fullmatch(concept) else "an id"


def is_a_matrix(edges: Iterable[tuple[int, int]], size: int) -> csr_array:
    """The graph [size, size] bool of (child, parent) index pairs; repeated edges count once."""
    return bool_matrix(*np.array(sorted(set(edges)), np.int64).reshape(-1, 2).T, (size, size))


def bool_matrix(
    rows: np.ndarray | Sequence[int],
    columns: np.ndarray | Sequence[int],
    shape: tuple[int, int],
) -> csr_array:
    """The bool matrix that is true at these places, of which some may be repeated."""
    rows, columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    matrix = csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def cyclic_edges(child: np.ndarray, parent: np.ndarray, size: int) -> np.ndarray:
    """bool [E]: which edges between concepts (int [E], below `size`) lie on a cycle, also of one
    concept alone."""
    _, component = connected_components(
        bool_matrix(child, parent, (size, size)), connection="strong"
    )
    return component[child] == component[parent]


def edge_matrix(edges: np.ndarray, size: int) -> coo_array:
    """The bool matrix [size, size] of edges [2, E], all different. It takes no memory for concepts
    without edges."""
    return coo_array((np.ones(edges.shape[1], bool), tuple(edges)), shape=(size, size))


@dataclass(frozen=True, eq=False, repr=False)
class Ontology:
    """C concepts, known by index inside the package and by id outside.

    name, version: of the source, e.g. "mesh", "2024". ids, labels: [C] identifier and preferred
    name of each concept. names: (surface name, concept index), case kept. Where concepts share a
    name, a preferred name wins over the
      others, then the one listed first.
    parents: [C, C] bool; parents[c, p] says that c is-a p. Free of cycles. sha256: hexadecimal
    digest of all sources together; equal digests mean equal ontologies. types: [C] semantic types
    of each concept joined by "|" (MeSH's tree numbers), or () where the source has none.
    link_types: prefixes of the types worth linking in text, chosen by the reader; () links every
    concept. abbreviations: the `names` that are abbreviations, which are linked however short they
    are. relations: [C, C] bool by name, e.g. "part_of", "antonym": relations[r][a, b] says that a
    stands in r to b. Is-a is
      not among them, and cycles are allowed.
    cross_references: ("SOURCE:CODE", concept index): codes of the concept in other terminologies,
    and the ids of
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
    relations: Mapping[str, csr_array | coo_array] = field(default_factory=dict)
    cross_references: Sequence[tuple[str, int]] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def index_of(self) -> dict[str, int]:
        """Concept id -> index."""
        return {concept: index for index, concept in enumerate(self.ids)}

    def indices(self, concept_id: str) -> list[int]:
        """The concept of an id, else all concepts that have it as a cross-reference; none for an
        unknown one."""
        index = self.index_of.get(concept_id)
        return self._indices_of_reference.get(concept_id, []) if index is None else [index]

    @cached_property
    def _indices_of_reference(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for reference, index in self.cross_references:
            found.setdefault(reference, []).append(index)
        return found

    def index(self, concept_id: str) -> int | None:
        """The index of a concept, by its id or a cross-reference that no other concept has; None
        for an unknown one."""
        found = set(self.indices(concept_id))
        return found.pop() if len(found) == 1 else None

    def ancestors(self, concept_id: str) -> dict[str, int]:
        """Every concept above this one and the number of is-a steps to it (at least 1); nearest
        first."""
        steps, frontier = {}, [self.index(concept_id)]
        for distance in count(1):
            above = set().union(
                *(self.parents.indices[slice(*self.parents.indptr[at : at + 2])] for at in frontier)
            )
            frontier = sorted(concept for concept in map(int, above) if concept not in steps)
            if not frontier:
                return {self.ids[concept]: length for concept, length in steps.items()}
            steps |= dict.fromkeys(frontier, distance)


def induced(ontology: Ontology, concepts: Iterable[str]) -> Ontology:
    """The ontology with only the edges between `concepts` (ids or cross-references), of which some
    may be unknown."""
    kept = np.zeros(len(ontology), bool)
    for concept in concepts:
        kept[ontology.indices(concept)] = True

    def within(matrix):
        edges = np.stack(matrix.nonzero())
        return edge_matrix(edges[:, kept[edges].all(axis=0)], len(ontology))

    digest = hashlib.sha256(ontology.sha256.encode() + np.packbits(kept).tobytes())
    return replace(
        ontology,
        parents=csr_array(within(ontology.parents)),
        relations={name: within(matrix) for name, matrix in ontology.relations.items()},
        sha256=digest.hexdigest(),
    )


def permuted(ontology: Ontology, seed: int) -> Ontology:
    """A control: the same ids and the same graph, but every concept's names now belong to a random
    concept.

    Labels, types and cross-references move with the names, so that the same spans of a text are
    linked. The permutation is a sort by hash: it depends on `seed` and the ids alone, with every
    version of NumPy.
    """
    keys = [hashlib.sha256(f"{seed}:{concept}".encode()).digest() for concept in ontology.ids]
    target = sorted(
        range(len(keys)), key=keys.__getitem__
    )  # the names of concept c move to concept target[c]
    source = np.argsort(target).tolist()
    labels, types = tuple(ontology.labels), tuple(ontology.types)
    return replace(
        ontology,
        name=f"{ontology.name}-permuted-{seed}",
        labels=tuple(labels[index] for index in source),
        types=tuple(types[index] for index in source) if types else (),
        names=tuple((name, target[index]) for name, index in ontology.names),
        cross_references=tuple(
            (reference, target[index]) for reference, index in ontology.cross_references
        ),
        sha256=hashlib.sha256(f"{ontology.sha256} permuted {seed}".encode()).hexdigest(),
    )


def side_by_side(parts: Sequence[Ontology]) -> Ontology:
    """The concepts of all parts, one part after the other. Relations of one name are one."""
    starts = first_concepts(parts)
    size = sum(map(len, parts))
    edges = {}
    for part, begin in zip(parts, starts, strict=True):
        for name, matrix in part.relations.items():
            edges.setdefault(name, []).append(np.stack(matrix.nonzero()) + begin)

    def moved(field):
        pairs = zip(parts, starts, strict=True)
        return tuple(
            (name, begin + concept)
            for part, begin in pairs
            for name, concept in getattr(part, field)
        )

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
        relations={
            name: edge_matrix(np.concatenate(found, axis=1), size)
            for name, found in sorted(edges.items())
        },
        cross_references=moved("cross_references"),
    )


def first_concepts(parts: Sequence[Ontology]) -> list[int]:
    """The first concept of each part, where they stand one after the other."""
    return list(accumulate(map(len, parts), initial=0))[:-1]


class Edges:
    """Relations between concepts by index. rows: (source, target, line of the file, kind) of each
    edge."""

    def __init__(self, rows: Sequence[tuple[int, int, int, int]] = ()):
        self._parts = [np.array(rows, np.int32).reshape(-1, 4).T]

    def add(self, source, target, lines, kind=0) -> None:
        """More edges, integers [E]; kind: one number for all, or [E]."""
        self._parts.append(np.array(np.broadcast_arrays(source, target, lines, kind), np.int32))

    def arrays(self) -> np.ndarray:
        """int32 [4, E]: source, target, line and kind of all edges."""
        return np.concatenate(self._parts, axis=1)


def graphs(
    is_a: Edges,
    others: Edges,
    kinds: Sequence[str],
    ids: Sequence[str],
    options: OntologyOptions,
    file_of: Callable[[int], str],
) -> tuple[csr_array, dict[str, coo_array]]:
    """(the is-a graph [C, C] bool of edges from child to parent, the other relations by name).

    Is-a edges on cycles become the relation CIRCULAR where all relations are read. Else they are
    left out, with a warning that counts them.

    Args:
      kinds: names of the kinds of `others`; those of the same name are one relation.
      ids: of the C concepts.
      file_of: child -> the file that states its is-a edges.
    """
    size = len(ids)
    child, parent, lines, _ = is_a.arrays()
    inside = cyclic_edges(child, parent, size)
    source, target, _, kind = others.arrays()
    keys = source.astype(np.int64) * size + target
    order = np.argsort(kind, kind="stable")
    codes, begins = np.unique(kind[order], return_index=True)
    found = {}
    for code, edges in zip(codes.tolist(), np.split(order, begins)[1:], strict=True):
        found.setdefault(kinds[code], []).append(keys[edges])
    if inside.any():
        on_cycles = np.unique(child[inside].astype(np.int64) * size + parent[inside])
        first = np.flatnonzero(inside)[np.argmin(lines[inside])]
        file, number = file_of(int(child[first])), len(on_cycles)
        if options.relations == "all":
            warn(f"{file}: {number} is-a edges lie on cycles; paths still follow them both ways")
            found[CIRCULAR] = [on_cycles]
        else:
            warn(f"{file}: left out {number} is-a edges that lie on cycles")
    relations = {}
    for name in sorted(found):
        relations[name] = edge_matrix(
            np.stack(np.divmod(np.unique(np.concatenate(found[name])), size)), size
        )
    return bool_matrix(child[~inside], parent[~inside], (size, size)), relations
