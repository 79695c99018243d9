"""Small ontologies in memory, and edges of their graphs."""

import functools

import numpy as np

from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology, bool_matrix
from mednli_jax.knowledge.readers import mesh


def edges_of(matrix, ids):
    return {(ids[a], ids[b]) for a, b in zip(*matrix.nonzero(), strict=True)}


# ---- in memory ----


def is_a_matrix(edges, size):
    """The graph [size, size] bool of (child, parent) index pairs; repeated edges count once."""
    return bool_matrix(*np.array(sorted(set(edges)), np.int64).reshape(-1, 2).T, (size, size))


bundled_mesh = functools.cache(mesh.read_mesh)  # reading it takes two seconds

#        root
#       /    \
#    left    right     leaf is-a left is-a root, leaf is-a right is-a root,
#       \    / |       twig is-a right; stray has no edge; deep is-a leaf and is-a root
#        leaf twig
#         |
#        deep
LABELS = ("root", "left", "right", "leaf", "twig", "stray", "deep")
EDGES = ((1, 0), (2, 0), (3, 1), (3, 2), (4, 2), (6, 3), (6, 0))


def small(edges=EDGES, labels=LABELS, **fields):
    """The ontology of the graph above; `fields` replace arguments of the constructor."""
    given = {
        "name": "small",
        "version": "1",
        "ids": tuple(f"X{index}" for index in range(len(labels))),
        "labels": labels,
        "names": tuple((label, index) for index, label in enumerate(labels)),
        "parents": is_a_matrix(edges, len(labels)),
        "sha256": "0" * 64,
    }
    return Ontology(**{**given, **fields})


def rich():
    """An ontology in which every field is filled and letters have one to four bytes."""
    labels = ("root", "Ménière", "", "β-Blocker", "💊 pill", "stray", "deep")
    return small(
        labels=labels,
        names=(*((label, index) for index, label in enumerate(labels)), ("chf", 3), ("μ", 3)),
        types=("T1", "T2|T3", "", "T1", "T1", "T1", "T1"),
        link_types=("T1", "T2"),
        abbreviations=frozenset({"chf", "μ"}),
        relations={
            "part_of": is_a_matrix([(1, 5), (0, 6), (1, 2)], 7),
            "antonym": is_a_matrix([(1, 2), (2, 1)], 7),
        },
        cross_references=(("MSH:D1", 4), ("MSH:D2", 0)),
    )


def graph(edges, size, **relations):
    """An ontology of `size` concepts X0, X1, ...; relations: name=edges."""
    others = {name: is_a_matrix(other, size) for name, other in relations.items()}
    return small(edges, tuple(f"X{index}" for index in range(size)), names=(), relations=others)


def random_graph(rng, size, degree):
    """(is-a edges without cycles, edges of another relation). A concept may have any number of
    parents."""
    ends = np.sort(rng.integers(0, size, (int(size * degree), 2)), axis=1)
    number = rng.permutation(size)
    edges = [(int(number[child]), int(number[parent])) for parent, child in ends if parent != child]
    return edges, [(int(one), int(other)) for one, other in rng.integers(0, size, (size // 5, 2))]


def ontology(seed=0):
    """A random graph of 60 concepts."""
    edges, others = random_graph(np.random.default_rng(seed), 60, 1.3)
    return graph(edges, 60, other=others)


def some_pairs(seed=0, count=500):
    """Pairs of concepts of `ontology`."""
    return np.random.default_rng(seed).integers(0, 60, (count, 2))


# Systolic heart failure is-a heart failure is-a heart disease; asthma stands alone.
NAMES = ("heart disease", "heart failure", "systolic heart failure", "asthma")
HEART = Ontology(
    "heart",
    "1",
    ("C0", "C1", "C2", "C3"),
    NAMES,
    tuple((name, index) for index, name in enumerate(NAMES)),
    is_a_matrix([(1, 0), (2, 1)], 4),
    "0" * 64,
)
LINKER = Linker(HEART)
