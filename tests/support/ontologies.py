"""Small ontologies in memory, and edges of their graphs."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology, bool_matrix

Edges = Iterable[tuple[int, int]]  # (child, parent), or the ends of another relation

#        root
#       /    \
#    left    right     leaf is-a left is-a root, leaf is-a right is-a root,
#       \    / |       twig is-a right; stray has no edge; deep is-a leaf and is-a root
#        leaf twig
#         |
#        deep
LABELS = ("root", "left", "right", "leaf", "twig", "stray", "deep")
EDGES = (
    (1, 0),
    (2, 0),
    (3, 1),
    (3, 2),
    (4, 2),
    (6, 3),
    (6, 0),
)


def edges_of(matrix: sparse.csr_matrix, ids: Sequence[str]) -> set[tuple[str, str]]:
    return {(ids[row], ids[column]) for row, column in zip(*matrix.nonzero(), strict=True)}


def is_a_matrix(edges: Edges, size: int) -> sparse.csr_matrix:
    """The graph [size, size] bool of edges; repeated edges count once."""
    ends_E2 = np.array(sorted(set(edges)), np.int64).reshape(-1, 2)
    return bool_matrix(*ends_E2.T, (size, size))


def small(edges: Edges = EDGES, labels: Sequence[str] = LABELS, **fields: Any) -> Ontology:
    """The ontology of the graph above; `fields` replace arguments of the constructor."""
    numbers = range(len(labels))
    arguments = {
        "name": "small",
        "version": "1",
        "ids": tuple(f"X{number}" for number in numbers),
        "labels": labels,
        "names": tuple(zip(labels, numbers, strict=True)),
        "parents": is_a_matrix(edges, len(labels)),
        "sha256": "0" * 64,
    }
    return Ontology(**arguments | fields)


def rich() -> Ontology:
    """An ontology in which every field is filled and letters have one to four bytes."""
    labels = ("root", "Ménière", "", "β-Blocker", "💊 pill", "stray", "deep")
    names = [(label, index) for index, label in enumerate(labels)]
    return small(
        labels=labels,
        names=(*names, ("chf", 3), ("μ", 3)),
        types=("T1", "T2|T3", "", "T1", "T1", "T1", "T1"),
        link_types=("T1", "T2"),
        abbreviations=frozenset({"chf", "μ"}),
        relations={
            "part_of": is_a_matrix([(1, 5), (0, 6), (1, 2)], 7),
            "antonym": is_a_matrix([(1, 2), (2, 1)], 7),
        },
        cross_references=(("MSH:D1", 4), ("MSH:D2", 0)),
    )


# Systolic heart failure is-a heart failure is-a heart disease; asthma stands alone.
NAMES = ("heart disease", "heart failure", "systolic heart failure", "asthma")
HEART = small([(1, 0), (2, 1)], NAMES, name="heart", ids=("C0", "C1", "C2", "C3"))
LINKER = Linker(HEART)


# ---- graphs ----


def graph(edges: Edges, size: int, **relations: Edges) -> Ontology:
    """An ontology of `size` concepts X0, X1, ..."""
    matrices = {name: is_a_matrix(pairs, size) for name, pairs in relations.items()}
    labels = tuple(f"X{index}" for index in range(size))
    return small(edges, labels, names=(), relations=matrices)


def random_graph(rng: np.random.Generator, size: int, degree: float) -> tuple[Edges, Edges]:
    """(is-a edges without cycles, edges of another relation). A concept may have any number of
    parents."""
    rank_E2 = np.sort(rng.integers(0, size, (int(size * degree), 2)), axis=1)
    is_edge = rank_E2[:, 0] < rank_E2[:, 1]
    child_parent_E2 = rng.permutation(size)[rank_E2[is_edge, ::-1]]
    other_E2 = rng.integers(0, size, (size // 5, 2))
    return list(map(tuple, child_parent_E2.tolist())), list(map(tuple, other_E2.tolist()))


def ontology(seed: int = 0) -> Ontology:
    """A random graph of 60 concepts."""
    edges, others = random_graph(np.random.default_rng(seed), 60, 1.3)
    return graph(edges, 60, other=others)
