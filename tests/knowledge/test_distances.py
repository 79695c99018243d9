"""Distances against SciPy's and a plain breadth-first search; links against pairs that are counted
one by one."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from support.ontologies import graph, random_graph

from mednli_jax.data.examples import Mention
from mednli_jax.knowledge import distances
from mednli_jax.knowledge import links as link_module
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.links import Links, corpus_links


def walk(edges, size, start, ways):
    """Plain breadth-first search over the edges in the given directions."""
    ahead = {node: set() for node in range(size)}
    for child, parent in edges:
        if "up" in ways:
            ahead[child].add(parent)
        if "down" in ways:
            ahead[parent].add(child)
    distance, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        for neighbour in ahead[node]:
            if neighbour not in distance:
                distance[neighbour] = distance[node] + 1
                queue.append(neighbour)
    return distance


def reference(edges, size, direction):
    """All distances [size, size]. "either" walks only up or only down; "undirected" may do both."""
    table = np.full((size, size), -1)
    for start in range(size):
        for ways in (("up",), ("down",)) if direction == "either" else (("up", "down"),):
            for node, distance in walk(edges, size, start, ways).items():
                if table[start, node] < 0 or distance < table[start, node]:
                    table[start, node] = distance
    return table


SIZES = (
    {"BLOCK": 1},
    {"BLOCK": 7, "SOURCES": 1},
    {"BITS": 1, "SOURCES": 99},
    {"BITS": 24_000, "BLOCK": 64},
)


@pytest.mark.parametrize("direction", ["either", "undirected", "all"])
@pytest.mark.parametrize(("size", "degree"), [(1, 0), (30, 1.0), (200, 1.3), (400, 1.1)])
def test_equals_a_plain_search_on_random_graphs(monkeypatch, direction, size, degree):
    """Sizes of blocks, words and tables change nothing."""
    rng = np.random.default_rng(size)
    edges, others = random_graph(rng, size, degree)
    if size == 400:  # 0 gets far more neighbours than the rest
        edges = [edge for edge in edges if edge[0]] + [(child, 0) for child in range(1, 90)]
    walked = edges + others if direction == "all" else edges
    expected = reference(walked, size, "either" if direction == "either" else "undirected")
    pairs = np.argwhere(np.ones((size, size))) if size <= 200 else rng.integers(0, size, (20000, 2))
    ontology = graph(edges, size, other=others[::2], another=others[1::2])
    found = shortest_paths(ontology, pairs, direction=direction)
    np.testing.assert_array_equal(found, expected[pairs[:, 0], pairs[:, 1]])
    if size > 1:
        assert found.max() > 2  # the graph has long paths
        for limit in (1, 2, 3):
            cut = shortest_paths(ontology, pairs, direction=direction, max_length=limit)
            np.testing.assert_array_equal(cut, np.where(found <= limit, found, -1))
    for sizes in SIZES:
        with monkeypatch.context() as patch:
            for name, value in sizes.items():
                patch.setattr(distances, name, value)
            np.testing.assert_array_equal(
                shortest_paths(ontology, pairs, direction=direction), found
            )


def listed(links: Links):
    """[(row, i, j, distance)] of the filled slots. Checks that only zeros stand behind them."""
    rows = []
    for row in range(len(links.distance)):
        filled = links.distance[row] >= 0
        assert not filled[filled.sum() :].any()
        assert (links.distance[row][~filled] == -1).all()
        assert (links.premise[row][~filled] == 0).all()
        assert (links.hypothesis[row][~filled] == 0).all()
        for slot in np.flatnonzero(filled):
            values = (
                links.premise[row, slot],
                links.hypothesis[row, slot],
                links.distance[row, slot],
            )
            rows.append((row, *map(int, values)))
    return rows


@pytest.mark.parametrize("rows", [7, 1000])
def test_random_corpus_equals_counting_one_by_one(monkeypatch, rows):
    """Concepts that the ontology lacks are related to themselves alone."""
    monkeypatch.setattr(link_module, "_ROWS", rows)
    rng = np.random.default_rng(5)
    size, unknown, pairs, kept, tokens = 40, 3, 60, 5, 9
    edges = [(child, int(rng.integers(0, child))) for child in range(1, size) for _ in range(2)]
    ontology, table = graph(edges, size), reference(edges, size + unknown, "either")

    def mentions():
        starts = rng.integers(0, 11, rng.integers(0, 5))
        return [
            Mention(int(s), int(s + rng.integers(1, 4)), f"X{rng.integers(size + unknown)}")
            for s in starts
        ]

    premises, hypotheses = [mentions() for _ in range(pairs)], [mentions() for _ in range(pairs)]
    expected, dropped, longest = [], 0, -1
    for row in range(pairs):
        cells = {}
        for a in premises[row]:
            for b in hypotheses[row]:
                distance = int(table[int(a.concept[1:]), int(b.concept[1:])])
                longest = max(longest, distance)
                for i in range(a.start, min(a.end, tokens)):
                    for j in range(b.start, min(b.end, tokens)):
                        if distance >= 0:
                            cells[i, j] = min(distance, cells.get((i, j), distance))
        order = sorted((distance, i, j) for (i, j), distance in cells.items())
        expected += [(row, i, j, distance) for distance, i, j in order[:kept]]
        dropped += max(len(order) - kept, 0)
    links = corpus_links(ontology, premises, hypotheses, max_links=kept, max_tokens=tokens)
    assert listed(links) == expected
    assert (links.dropped, links.longest) == (dropped, longest)
    assert dropped > 0
    assert longest > 1


def test_the_longest_path_is_between_mentions_and_not_between_all_concepts_of_a_cross_reference():
    """X0 to X5 are a chain; R stands for X1 and X5, Q for X4 alone. The nearest concept of a
    reference counts."""
    chain = graph([(n + 1, n) for n in range(5)], 6)
    chain = replace(chain, cross_references=(("R", 1), ("R", 5), ("Q", 4)))

    def links(premise, hypothesis):
        sides = [
            [[Mention(n, n + 1, concept) for n, concept in enumerate(side)]]
            for side in (premise, hypothesis)
        ]
        found = corpus_links(chain, *sides, max_links=9, max_tokens=9)
        return found.longest, found.distance[found.distance >= 0].tolist()

    assert links(["X0"], ["R"]) == (1, [1])
    assert links(["R"], ["R"]) == (0, [0])
    assert links(["X0", "X3"], ["R", "Q"]) == (4, [1, 1, 2, 4])
    assert links(["unknown"], ["X0"]) == (-1, [])
