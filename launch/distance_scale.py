"""Distances at the size of SNOMED CT: `python launch/distance_scale.py [--direction either ...] [--json=FILE]`.

Generates an ontology of 350,000 concepts and 1,500,000 edges (600,000 of them is-a) and a corpus of 14,049 sentence
pairs that mention 6,000 distinct concepts. Each direction runs in a separate process. The process computes the
distances of all distinct concept pairs of the corpus. It compares 200 random pairs and 200 pairs with a path with
networkx. It prints seconds, peak memory, and how many times longer networkx would take for all pairs (extrapolated from
the 200). The script takes less than a minute and needs networkx (`pip install mednli_jax[test]`).
"""

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import networkx
import numpy as np
from scipy.sparse import csr_array

from mednli_jax.files import write_json
from mednli_jax.knowledge.distances import DIRECTIONS, shortest_paths, walked_edges
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.search import UNREACHABLE

CONCEPTS, IS_A, EDGES = 350_000, 600_000, 1_500_000
KINDS = 19  # top-level kinds, as in SNOMED CT: findings, procedures, body structures, ...
# Share of concepts that become siblings, not children, of a random earlier concept, so that a few have many children.
COPIED = 0.5
RELATIONS = {"finding_site": 0.4, "morphology": 0.25, "method": 0.2, "part_of": 0.15}  # shares of the other edges
PREMISES, HYPOTHESES, DISTINCT = 4_683, 14_049, 6_000  # sentences and the concepts they mention
MENTIONS = (6, 2)  # of concepts in a premise, in a hypothesis: means
TAKEN_UP = 0.25  # further concepts of a hypothesis that are ancestors of concepts of its premise
CHECKED = 200


def tree(size: int, rng: np.random.Generator) -> np.ndarray:
    """int [size]: the first parent of each concept. It has a lower index; the root is its own parent."""
    earlier = (rng.random(size) * np.arange(size)).astype(np.int64)
    earlier = np.maximum(earlier, 1)
    copied = rng.random(size) < COPIED
    concept = np.arange(size)
    copied[: KINDS + 1] = False
    parent = np.where(concept <= KINDS, 0, earlier)
    beside = copied.copy()
    where = concept.copy()
    while beside.any():  # a sibling of a sibling of a concept, and so on
        where[beside] = earlier[where[beside]]
        beside = copied[where]
    kind = where <= KINDS  # a top-level kind gets no new sibling, only children
    return np.where(copied, np.where(kind, where, parent[where]), parent)


def kinds(parent: np.ndarray) -> np.ndarray:
    """int [size]: the top-level ancestor of each concept."""
    top = np.where(np.arange(len(parent)) <= KINDS, np.arange(len(parent)), parent)
    while (top > KINDS).any():
        top = top[top]
    return top


def further_parents(parent: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """int [count, 2]: distinct (child, parent) edges besides the tree: most to an aunt, else within the kind."""
    size, top = len(parent), kinds(parent)
    by_parent = np.argsort(parent, kind="stable")
    first = np.searchsorted(parent[by_parent], np.arange(size + 1))
    found = np.zeros(0, np.int64)
    while len(found) < count:
        child = rng.integers(KINDS + 1, size, count)
        above = parent[parent[child]]
        aunt = by_parent[first[above] + (rng.random(count) * (first[above + 1] - first[above])).astype(np.int64)]
        other = np.where(rng.random(count) < 0.6, aunt, (rng.random(count) * child).astype(np.int64))
        good = (other < child) & (other > KINDS) & (other != parent[child]) & (top[other] == top[child])
        found = np.unique(np.append(found, child[good] * size + other[good]))
    return np.stack(np.divmod(rng.permutation(found)[:count], size), axis=1)


def matrix(edges: np.ndarray, size: int) -> csr_array:
    return csr_array((np.ones(len(edges), bool), (edges[:, 0], edges[:, 1])), shape=(size, size))


def relation(count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """int [count, 2]: distinct edges from random concepts to frequent ones (a power law over 60,000)."""
    targets = rng.permutation(size)[: min(size, 60_000)]
    found = np.zeros(0, np.int64)
    while len(found) < count:
        source = rng.integers(0, size, count)
        target = targets[(len(targets) ** rng.random(count)).astype(np.int64) - 1]
        found = np.unique(np.append(found, source * size + target))
    return np.stack(np.divmod(rng.permutation(found)[:count], size), axis=1)


def made_up(size: int = CONCEPTS, is_a: int = IS_A, edges: int = EDGES, seed: int = 0) -> Ontology:
    """An ontology with the shape of a clinical terminology, with concepts in random order. A seed determines it."""
    rng = np.random.default_rng(seed)
    parent = tree(size, rng)
    below = np.arange(1, size)
    up = np.concatenate([np.stack([below, parent[1:]], axis=1), further_parents(parent, is_a - size + 1, rng)])
    shares = np.round(np.cumsum([0, *RELATIONS.values()]) * (edges - is_a)).astype(np.int64)
    relations = {name: matrix(relation(n, size, rng), size) for name, n in zip(RELATIONS, np.diff(shares), strict=True)}
    ids = tuple(f"X{index:06}" for index in range(size))
    parents = matrix(rng.permutation(size)[up], size)
    return Ontology("made up", str(seed), ids, ids, (), parents, f"made up {seed}", relations=relations)


def one_above(ontology: Ontology, concepts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """int [n]: a parent of each concept, any of them; the concept itself below the root."""
    first, degree = ontology.parents.indptr[concepts], np.diff(ontology.parents.indptr)
    above = ontology.parents.indices[first + (rng.random(len(concepts)) * degree[concepts]).astype(np.int64)]
    return np.where(degree[above] > 0, above, concepts)


def vocabulary(ontology: Ontology, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(concepts [DISTINCT] that the corpus mentions, place [DISTINCT] among them of an ancestor of each, or itself).

    Two thirds are ancestors of others, one to six steps above, because texts name general and special concepts.
    """
    special = rng.permutation(np.flatnonzero(np.diff(ontology.parents.indptr)))[:DISTINCT]
    chain = [special]
    for _ in range(2):
        above = one_above(ontology, chain[-1], rng)
        for chance in (0.5, 0.5):
            above = np.where(rng.random(len(above)) < chance, one_above(ontology, above, rng), above)
        chain.append(above)
    everything = np.stack(chain, axis=1).ravel()
    _, first = np.unique(everything, return_index=True)
    concepts = everything[np.sort(first)[:DISTINCT]]
    place = np.full(len(ontology), -1)
    place[concepts] = np.arange(DISTINCT)
    ancestor = np.arange(DISTINCT)
    for lower, upper in ((chain[0], chain[1]), (chain[1], chain[2])):
        known = (place[lower] >= 0) & (place[upper] >= 0)
        ancestor[place[lower[known]]] = place[upper[known]]
    return concepts, ancestor


def sentences(ontology: Ontology, seed: int = 0) -> np.ndarray:
    """int [M, 2]: the distinct (premise concept, hypothesis concept) pairs of a corpus, each once, lower index first.

    Concepts follow Zipf's law, but each of the DISTINCT concepts occurs. Three hypotheses share a premise and mention
    ancestors of some of its concepts.
    """
    rng = np.random.default_rng([seed, 1])
    concepts, ancestor = vocabulary(ontology, rng)
    counts = [rng.poisson(mean - 1, number) + 1 for mean, number in zip(MENTIONS, (PREMISES, HYPOTHESES), strict=True)]
    bounds = np.cumsum(np.concatenate(counts))[:-1]
    weight = 1 / np.arange(10, DISTINCT + 10)
    mentions = rng.permutation(DISTINCT)[rng.choice(DISTINCT, bounds[-1] + counts[1][-1], p=weight / weight.sum())]
    mentions[rng.permutation(len(mentions))[:DISTINCT]] = np.arange(DISTINCT)
    said, pairs = np.split(mentions, bounds), []
    for premise, hypothesis in ((said[n % PREMISES], said[PREMISES + n]) for n in range(HYPOTHESES)):
        general = ancestor[rng.choice(premise, rng.binomial(len(hypothesis), TAKEN_UP))]
        pairs.append(np.stack(np.meshgrid(premise, np.append(hypothesis, general)), -1).reshape(-1, 2))
    pairs = np.sort(concepts[np.concatenate(pairs)], axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def megabytes() -> float:
    """The peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(direction: str) -> dict:
    """The cost of one direction in this process, and pairs to check: CHECKED random ones and CHECKED with a path."""
    ontology = made_up()
    pairs, before = sentences(ontology), megabytes()
    start, busy = time.perf_counter(), time.process_time()
    found = shortest_paths(ontology, pairs, direction=direction)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    rng = np.random.default_rng(2)
    samples = [rng.permutation(choice)[:CHECKED] for choice in (np.arange(len(pairs)), np.flatnonzero(found >= 0))]
    checked = np.concatenate(samples)
    lengths, counts = np.unique(found, return_counts=True)
    return {
        "direction": direction,
        "concepts": len(ontology),
        "edges": ontology.parents.nnz + sum(graph.nnz for graph in ontology.relations.values()),
        "mentioned": len(np.unique(pairs)),
        "pairs": len(pairs),
        "seconds": seconds,
        "processor_seconds": busy,
        "peak_mb": megabytes(),
        "before_mb": before,
        "lengths": {str(length): int(count) for length, count in zip(lengths, counts, strict=True)},
        "checked": [
            [*pair, length] for pair, length in zip(pairs[checked].tolist(), found[checked].tolist(), strict=True)
        ],
    }


def measured(direction: str) -> dict:
    """`measure` in a separate process, so that its peak memory can be read."""
    command = [sys.executable, __file__, f"--child={direction}"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def networkx_graph(ontology: Ontology, direction: str) -> networkx.Graph:
    """The same graph for networkx, directed from child to parent where only steps up count."""
    graph = networkx.DiGraph() if direction == "either" else networkx.Graph()
    for edges in walked_edges(ontology, direction):
        graph.add_edges_from(edges.T.tolist())
    return graph


def one_call(graph: networkx.Graph, one: int, other: int) -> int:
    """The length between two concepts by networkx, for a directed graph of whichever way there is."""
    for ends in ((one, other), (other, one))[: 1 + graph.is_directed()]:
        with contextlib.suppress(networkx.NetworkXNoPath):
            return networkx.shortest_path_length(graph, *ends)
    return UNREACHABLE


def compare(row: dict, ontology: Ontology) -> dict:
    """`row` with the results of networkx: number of different pairs, seconds for all pairs (extrapolated)."""
    graph, checked = networkx_graph(ontology, row["direction"]), row.pop("checked")
    start = time.process_time()  # of one thread, so that other programs on the machine have no effect
    lengths = [one_call(graph, *pair) for *pair, _ in checked[:CHECKED]]
    seconds = (time.process_time() - start) / CHECKED * row["pairs"]
    lengths += [one_call(graph, *pair) for *pair, _ in checked[CHECKED:]]
    different = sum(length != found for length, (*_, found) in zip(lengths, checked, strict=True))
    row |= {"checked": len(checked), "different": different, "networkx_seconds": seconds}
    return row | {"times_faster": seconds / row["seconds"]}


def line_of(row: dict) -> str:
    """One line of the table."""
    memory = f"{row['peak_mb']:.0f} MB ({row['before_mb']:.0f} before)"
    speed = f"networkx {row['networkx_seconds']:.1f} s, {row['times_faster']:.0f} times"
    lengths = f"{row['different']} of {row['checked']} lengths differ"
    shape = f"longest {max(map(int, row['lengths']))}, without a path {row['lengths'].get(str(UNREACHABLE), 0)}"
    took = f"{row['seconds']:.2f} s ({row['processor_seconds']:.2f} of processors)"
    return f"{row['direction']:<10} {took}, {memory}; {speed}; {lengths}; {shape}"


def main() -> int:
    """Prints the table. Returns 1 where a length differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--direction", nargs="+", choices=DIRECTIONS, default=DIRECTIONS, help="which to measure")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--child", choices=DIRECTIONS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.child)))
        return 0
    rows, ontology = [measured(direction) for direction in given.direction], made_up()
    first = rows[0]
    print(
        f"{first['concepts']} concepts, {first['edges']} edges; {first['mentioned']} mentioned, {first['pairs']} pairs"
    )
    for row in rows:
        print(line_of(compare(row, ontology)), flush=True)
    if given.json:
        write_json(given.json, rows)
    return int(any(row["different"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
