"""Distances against SciPy's; links against token pairs that are counted one by one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csgraph
from support.cases import cases
from support.ontologies import graph, is_a_matrix, random_graph
from support.tables import table_rows
from support.trees import assert_equal

from mednli_jax.data.examples import Mention
from mednli_jax.knowledge import distances
from mednli_jax.knowledge.distances import DIRECTIONS, shortest_paths
from mednli_jax.knowledge.links import corpus_links


def scipys_distances(edges, size, direction):
    """[size, size], -1 where there is no path. "either" walks only up or only down."""
    matrix = is_a_matrix(edges, size).astype(float)
    steps = csgraph.shortest_path(matrix, directed=direction == "either", unweighted=True)
    steps = np.minimum(steps, steps.T)
    return np.where(np.isinf(steps), -1, steps)


def random_ontology(size, degree):
    """(ontology, its is-a edges, the edges of its two other relations)."""
    edges, related = random_graph(np.random.default_rng(size), size, degree)
    if size == 400:  # concept 0 gets far more neighbours than the rest
        edges = [edge for edge in edges if edge[0]]
        edges += [(child, 0) for child in range(1, 90)]
    return graph(edges, size, part_of=related[::2], treats=related[1::2]), edges, related


def all_pairs(size):
    return np.argwhere(np.ones((size, size)))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "size, degree",
    [
        (1, 0),
        (30, 1.0),
        (200, 1.3),
        (400, 1.1),
    ],
)
def test_shortest_paths_on_random_graphs_are_as_long_as_scipys(direction, size, degree):
    ontology, edges, related = random_ontology(size, degree)
    walked = edges + related if direction == "all" else edges

    paths = shortest_paths(ontology, all_pairs(size), direction=direction)

    assert_equal(paths, scipys_distances(walked, size, direction).ravel())
    assert size == 1 or paths.max() > 2  # the graph has long paths


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_paths_longer_than_the_limit_are_left_out(direction, limit):
    ontology, _, _ = random_ontology(200, 1.3)
    pairs = all_pairs(200)
    whole = shortest_paths(ontology, pairs, direction=direction)

    limited = shortest_paths(ontology, pairs, direction=direction, max_length=limit)

    assert_equal(limited, np.where(whole <= limit, whole, -1))


@pytest.mark.parametrize("direction", DIRECTIONS)
@cases(
    "sizes",
    {
        "one-concept-a-block": {"BLOCK": 1},
        "one-source-at-once": {"BLOCK": 7, "SOURCES": 1},
        "one-word-of-bits": {"BITS": 1, "SOURCES": 99},
        "some-words-of-bits": {"BITS": 24_000, "BLOCK": 64},
    },
)
def test_sizes_of_blocks_change_no_path(monkeypatch, direction, sizes):
    ontology, _, _ = random_ontology(200, 1.3)
    whole = shortest_paths(ontology, all_pairs(200), direction=direction)
    for name, size in sizes.items():
        monkeypatch.setattr(distances, name, size)

    in_blocks = shortest_paths(ontology, all_pairs(200), direction=direction)

    assert_equal(in_blocks, whole)


SIZE = 40
UNKNOWN = 3
PAIRS = 60
MOST = 5


def random_mentions(rng):
    """Mentions of one sentence: they overlap, and name concepts that the ontology lacks."""
    mentions = []
    for start in rng.integers(0, 11, rng.integers(0, 5)).tolist():
        concept = rng.integers(SIZE + UNKNOWN)
        mentions.append(Mention(start, start + int(rng.integers(1, 4)), f"X{concept}"))
    return mentions


def counted(premise, hypothesis, distance):
    """({(i, j): least distance} of linked tokens, longest distance between two mentions)."""
    cells = {}
    longest = -1
    for left in premise:
        for right in hypothesis:
            steps = int(distance[int(left.concept[1:]), int(right.concept[1:])])
            longest = max(longest, steps)
            if steps < 0:
                continue
            for i in range(left.start, left.end):
                for j in range(right.start, right.end):
                    cells[i, j] = min(steps, cells.get((i, j), steps))
    return cells, longest


@cases(
    "times",
    {
        "60-pairs": 1,
        "4200-pairs": 70,
    },
)
def test_links_of_a_random_corpus_are_the_nearest_of_those_counted_one_by_one(times):
    rng = np.random.default_rng(5)
    edges = [(child, int(rng.integers(child))) for child in np.repeat(range(1, SIZE), 2).tolist()]
    distance = scipys_distances(edges, SIZE + UNKNOWN, "either")
    premises = [random_mentions(rng) for _ in range(PAIRS)]
    hypotheses = [random_mentions(rng) for _ in range(PAIRS)]
    expected = np.zeros((3, PAIRS, MOST), int)
    expected[2] = -1
    dropped = 0
    longest = -1
    for row in range(PAIRS):
        cells, longest_of_row = counted(premises[row], hypotheses[row], distance)
        nearest_first = sorted((steps, *cell) for cell, steps in cells.items())
        for slot, (steps, i, j) in enumerate(nearest_first[:MOST]):
            expected[:, row, slot] = i, j, steps
        dropped += max(len(cells) - MOST, 0)
        longest = max(longest, longest_of_row)

    links = corpus_links(graph(edges, SIZE), premises * times, hypotheses * times, max_links=MOST)

    arrays = [links.premise, links.hypothesis, links.distance]
    assert_equal(np.stack(arrays), np.tile(expected, (1, times, 1)))
    assert links.dropped == dropped * times
    assert links.longest == longest
    assert dropped > 0
    assert longest > 1


def test_the_longest_distance_is_of_all_pairs():
    """Pairs are crossed in blocks, and the longest distance is in the first."""
    chain = graph([(1, 0), (2, 1)], 3)
    top = [Mention(0, 1, "X0")]
    bottom = [Mention(0, 1, "X2")]

    links = corpus_links(chain, [bottom] + [top] * 5000, [top] * 5001, max_links=1)

    assert links.longest == 2


@pytest.mark.parametrize(
    "premise, hypothesis, longest, distances_of_links",
    table_rows("""
        X0 | R | 1 | 1
        R | R | 0 | 0
        X0 X3 | R Q | 4 | 1 1 2 4
        unknown | X0 | -1 |
    """),
)
def test_a_cross_reference_counts_as_its_nearest_concept(
    premise, hypothesis, longest, distances_of_links
):
    """X0 to X5 are a chain. R stands for X1 and X5, Q for X4."""
    chain = graph([(child, child - 1) for child in range(1, 6)], 6)
    chain = replace(
        chain,
        cross_references=(
            ("R", 1),
            ("R", 5),
            ("Q", 4),
        ),
    )
    mentions = []
    for concepts in (premise.split(), hypothesis.split()):
        mentions.append([[Mention(n, n + 1, concept) for n, concept in enumerate(concepts)]])

    links = corpus_links(chain, *mentions, max_links=9)

    assert links.longest == int(longest)
    filled = links.distance[links.distance >= 0]
    assert " ".join(map(str, filled)) == distances_of_links
