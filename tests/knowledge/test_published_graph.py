"""The graph in the code of Romanov & Shivade 2018: all relations in both directions, among mentioned concepts."""

import networkx as nx
import numpy as np
import pytest
from made_up_knowledge import lay_out, umls_name, umls_relation, umls_type

from mednli_jax.data.examples import Mention
from mednli_jax.knowledge.distances import corpus_links, shortest_paths
from mednli_jax.knowledge.ontology import CIRCULAR, OntologyOptions, induced
from mednli_jax.knowledge.readers.umls import read_umls
from mednli_jax.nli.encoding import mentioned_in

ALL = OntologyOptions(relations="all")


def meta(folder, size, rows):
    """An ontology of concepts C0000001 to C<size>. rows: (one, REL, two); MRREL gets each in both directions."""
    back = {"PAR": "CHD", "CHD": "PAR", "RB": "RN", "RN": "RB", "RO": "RO"}
    ids = [f"C{number:07}" for number in range(1, size + 1)]
    both = [row for a, rel, b in rows for row in ((a, rel, b), (b, back[rel], a))]
    files = {
        "MRCONSO.RRF": "".join(umls_name(concept, f"name of {concept}", preferred=True) for concept in ids),
        "MRSTY.RRF": "".join(umls_type(concept, "T047") for concept in ids),
        "MRREL.RRF": "".join(umls_relation(f"C{a:07}", rel, f"C{b:07}") for a, rel, b in both),
    }
    return read_umls(lay_out(folder, files), ALL)


# 1 is a disease, and 2 and 3 are its children. 4 is the finding site of 2. 5 is-a 3.
ROWS = [(2, "PAR", 1), (3, "PAR", 1), (4, "RO", 2), (5, "PAR", 3)]


def distance(ontology, a, b):
    pair = np.array([[ontology.index_of[f"C{a:07}"], ontology.index_of[f"C{b:07}"]]])
    return int(shortest_paths(ontology, pair, direction="all")[0])


def test_distances_by_hand(tmp_path):
    whole = meta(tmp_path, 5, ROWS)
    assert distance(whole, 2, 3) == 2  # siblings
    assert distance(whole, 2, 4) == distance(whole, 4, 2) == 1  # finding site
    assert distance(whole, 4, 5) == 4
    assert distance(whole, 2, 2) == 0
    some = induced(whole, ["C0000001", "C0000002", "C0000003", "C0000004", "C9999999"])
    assert distance(some, 2, 3) == 2
    assert distance(some, 4, 5) == -1  # nothing mentions 5
    few = induced(whole, ["C0000002", "C0000003"])
    assert distance(few, 2, 3) == -1  # nothing mentions their parent
    assert len({graph.sha256 for graph in (whole, some, few)}) == 3
    assert few.ids == whole.ids


def test_the_nearest_of_several_candidates_counts(tmp_path):
    ontology = meta(tmp_path, 5, ROWS)
    premise = [[Mention(0, 1, "C0000005"), Mention(0, 1, "C0000002")]]
    found = corpus_links(ontology, premise, [[Mention(1, 2, "C0000004")]], max_links=4, max_tokens=9, direction="all")
    assert (found.premise[0, 0], found.hypothesis[0, 0], found.distance[0].tolist()) == (0, 1, [1, -1, -1, -1])


def test_a_circle_of_is_a_edges_stops_no_release_and_is_walked_both_ways(tmp_path, capsys):
    ontology = meta(tmp_path, 4, [(1, "PAR", 2), (2, "PAR", 1), (3, "PAR", 2), (4, "RO", 1)])
    assert CIRCULAR in ontology.relations
    assert "is-a edges lie on cycles" in capsys.readouterr().err
    assert (distance(ontology, 1, 2), distance(ontology, 3, 4)) == (1, 3)


@pytest.mark.parametrize("seed", range(5))
def test_distances_are_networkxs_over_all_pairs_of_a_random_release(seed, tmp_path):
    """Distances are checked in the whole graph and among half of the concepts. The is-a edges probably have cycles."""
    rng, size = np.random.default_rng(seed), 40
    kinds = np.array(["PAR", "CHD", "RB", "RN", "RO"])
    ends = rng.integers(1, size + 1, (55, 2))
    rows = [(int(a), str(rng.choice(kinds)), int(b)) for a, b in ends if a != b]
    ontology = meta(tmp_path, size, rows)
    mentioned = rng.permutation(size)[: size // 2]
    graph = nx.Graph([(a - 1, b - 1) for a, _, b in rows])
    graph.add_nodes_from(range(size))
    pairs = np.array([(a, b) for a in range(size) for b in range(size)])
    part = induced(ontology, [ontology.ids[place] for place in mentioned])
    for ours, theirs in ((ontology, graph), (part, graph.subgraph(mentioned.tolist()))):
        lengths = dict(nx.all_pairs_shortest_path_length(theirs))
        expected = [0 if a == b else lengths.get(a, {}).get(b, -1) for a, b in pairs.tolist()]
        np.testing.assert_array_equal(shortest_paths(ours, pairs, direction="all"), expected)
        assert min(expected) == -1
        assert max(expected) > 2


def test_concepts_of_the_pairs_that_count():
    mentions = {
        "premise": [[Mention(0, 1, "a")], [Mention(0, 1, "b")], [Mention(0, 1, "c")]],
        "hypothesis": [[], [Mention(0, 2, "d"), Mention(1, 2, "a")], [Mention(0, 1, "e")]],
    }
    assert mentioned_in([True, True, False])(mentions) == {"a", "b", "d"}
