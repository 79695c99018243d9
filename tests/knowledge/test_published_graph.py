"""The graph in the code of Romanov & Shivade 2018: all relations in both directions, among mentioned concepts."""

import numpy as np
from made_up_knowledge import lay_out, umls_name, umls_relation, umls_type

from mednli_jax.data.examples import Mention
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.ontology import OntologyOptions, induced
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


def test_concepts_of_the_pairs_that_count():
    mentions = {
        "premise": [[Mention(0, 1, "a")], [Mention(0, 1, "b")], [Mention(0, 1, "c")]],
        "hypothesis": [[], [Mention(0, 2, "d"), Mention(1, 2, "a")], [Mention(0, 1, "e")]],
    }
    assert mentioned_in([True, True, False])(mentions) == {"a", "b", "d"}
