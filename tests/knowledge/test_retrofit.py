"""Retrofitting: values by hand, the published algorithm, lexicons and their faults, concepts and
tokens."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from support.files import write
from support.ontologies import edges_of, is_a_matrix, small

from mednli_jax.data.text import PAD, SPECIALS, UNK
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.retrofit import (
    colours,
    concept_vectors,
    ontology_word_graph,
    read_lexicon,
    retrofit,
    retrofit_concepts,
    unit_rows,
    word_graph,
)


def both_ways(edges):
    return [*edges, *((end, start) for start, end in edges)]


def random_graph(size, edges, seed):
    """A graph without loops, whose edges hold in both directions; some rows have no neighbours."""
    ends = np.random.default_rng(seed).integers(0, size * 9 // 10, (edges, 2))
    return is_a_matrix(
        both_ways([tuple(pair) for pair in ends.tolist() if pair[0] != pair[1]]), size
    )


def published(vectors, graph, rounds, order):
    """The published algorithm, one word at a time: new = (n * old + sum of the n neighbours as they
    are now) / 2n."""
    old, new = vectors.astype(float), vectors.astype(float)
    graph = csr_array(graph, dtype=bool)
    for _ in range(rounds):
        for word in order:
            near = graph.indices[graph.indptr[word] : graph.indptr[word + 1]]
            if len(near):
                new[word] = (len(near) * old[word] + new[near].sum(axis=0)) / (2 * len(near))
    return new


# Words a, b, c, d lie at (1, 0), (0, 1), (2, 0), (4, 4). The edges are a - b - c, and d stands
# alone.
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_published_algorithm_in_the_same_order(seed):
    graph, rng = random_graph(150, 500, seed), np.random.default_rng(seed)
    vectors = rng.normal(size=(150, 7)).astype(np.float32)
    order = np.argsort(colours(graph), kind="stable")
    for rounds in (1, 10):
        found = retrofit(vectors, graph, rounds=rounds)
        np.testing.assert_allclose(found, published(vectors, graph, rounds, order), atol=2e-6)


def test_lexicon_of_the_published_format(tmp_path):
    """Each number keeps its own spelling; the lines of one word are joined."""
    content = "\ufeffSource\nPlant sow\r\n1,800 1800 1.8\nC0011849 C0011860 C0011849 \nna\u00efve  na\u00efve\u00a0one\n"
    assert read_lexicon(write(tmp_path / "lexicon.txt.gz", content + "plant grow sow\n")) == {
        "source": (),
        "plant": ("sow", "grow"),
        "1,800": ("1800", "1.8"),
        "c0011849": ("c0011860", "c0011849"),
        "na\u00efve": ("na\u00efve\u00a0one",),
    }


def test_a_lexicon_draws_one_way_and_only_among_known_words():
    words = (*SPECIALS, "plant", "sow", "Rot", "putrefy")
    lexicon = {
        "plant": ("sow", "grow", "plant"),
        "rot": ("putrefy",),
        "sow": (),
        "grow": ("sow",),
        "<unk>": ("sow",),
    }
    graph = word_graph(lexicon, words)
    assert edges_of(graph, words) == {("plant", "sow"), ("Rot", "putrefy")}
    # A concept id moves, too; the published script takes all words with a digit for one, so that no
    # id moves.
    assert word_graph({"C0011849": ("C0011860",)}, ("C0011849", "C0011860")).nnz == 1
    # "grow" is unknown and does not count: "plant" moves half the way to "sow", not a third.
    vectors = np.eye(6, dtype=np.float32)
    moved = retrofit(vectors, graph, rounds=1)
    assert moved[2].tolist() == [0, 0, 0.5, 0.5, 0, 0]
    assert np.array_equal(moved[[PAD, UNK, 3, 5]], vectors[[PAD, UNK, 3, 5]])
    with pytest.raises(ConfigError):
        word_graph({"Pflanze": ("Saat",), "plant": ("Saat", "plant")}, (*SPECIALS, "plant", "sow"))


#   0 disease (illness; OR)      4 stray (drifter)
#   1 heart disease (cardiopathy) is-a 0; 2 infarction (MI, heart attack) is-a 1; 3 heart, which 1 is "part_of"
def ontology(
    labels=("Disease", "Heart disease", "Infarction, acute", "Heart", "Stray"), names=None
):
    given = ("Disease illness OR", "cardiopathy", "MI", "", "Drifter")
    own = [(name, concept) for concept, row in enumerate(given) for name in row.split()]
    own[5:5] = [("Heart attack", 2), ("infarct-acute", 2)]
    relations = {"part_of": is_a_matrix(((1, 3),), 5), "opposite": is_a_matrix(((4, 0),), 5)}
    return small(
        ((1, 0), (2, 1)), labels, names=tuple(own) if names is None else names, relations=relations
    )


def test_words_are_related_through_the_names_of_concepts():
    words = (
        *SPECIALS,
        "disease",
        "illness",
        "Cardiopathy",
        "mi",
        "heart",
        "drifter",
        "stray",
        "or",
        "acute",
    )

    def found(*relations):
        return edges_of(ontology_word_graph(ontology(), words, relations=relations), words)

    synonyms = {("disease", "illness"), ("drifter", "stray")}
    assert found("synonym") == set(both_ways(synonyms))
    above = {("Cardiopathy", "disease"), ("Cardiopathy", "illness"), ("mi", "Cardiopathy")}
    assert found("is_a") == set(both_ways(above))
    part = {("Cardiopathy", "heart")}
    assert found("part_of") == set(both_ways(part))
    opposite = {
        (stray, disease) for stray in ("drifter", "stray") for disease in ("disease", "illness")
    }
    assert found("all") == set(both_ways(above | part | opposite))
    assert edges_of(ontology_word_graph(ontology(), words), words) == set(
        both_ways(synonyms | above)
    )
    assert found("part_of", "synonym") == set(both_ways(synonyms | part))
    with pytest.raises(ConfigError, match="parts"):
        found("parts")
    with pytest.raises(ConfigError, match="small"):
        ontology_word_graph(ontology(), (*SPECIALS, "disease", "or"))


WORDS = (*SPECIALS, "heart", "attack", "MI", ",")
TABLE = np.vstack([np.zeros((2, 4)), np.eye(4)]).astype(
    np.float32
)  # word k of WORDS has its 1 in column k - 2


def test_concept_vectors_from_mentions():
    """As for MedNLI: the words by which a training corpus mentions a concept, the most frequent
    first."""
    mentions = [
        (phrase, 2)
        for phrase in ("Acute MI", "MI", "heart, attack", "ami", "heart, attack", "ami", "ami")
    ]
    vectors, missing = concept_vectors(ontology(), TABLE, WORDS, mentions)
    assert missing.tolist() == [True, True, False, True, True]
    assert vectors.dtype == np.float32
    assert not vectors[[0, 1, 3, 4]].any()
    assert vectors[2].tolist() == [0.5, 0.5, 0, 0]  # "ami" is more frequent, but unknown
    twice, _ = concept_vectors(ontology(), TABLE, WORDS, [("heart heart attack", 2)])
    np.testing.assert_allclose(twice[2], [2 / 3, 1 / 3, 0, 0], rtol=1e-6)


def test_words_are_looked_up_as_they_stand_then_lower_cased_then_in_pieces():
    words = (*SPECIALS, "beta-blocker", "beta", "blocker", "Beta", "crohn", "disease")
    labels = ("Beta-Blocker", "Beta", "Blocker-BETA", "Crohn's disease,", ",<unk> - <pad>")
    names = list(zip(labels, range(5), strict=True))
    vectors, missing = concept_vectors(ontology(), np.eye(8, dtype=np.float32), words, names)
    found = [{words[word] for word in np.flatnonzero(row)} for row in vectors]
    assert found == [{"beta-blocker"}, {"Beta"}, {"blocker", "beta"}, {"crohn", "disease"}, set()]
    assert missing.tolist() == [False] * 4 + [True]


def test_concepts_are_retrofitted_to_related_concepts_that_have_vectors():
    # "heart" is unknown here, so X3 has no vector, and only X0 and X2 are neighbours of X1.
    words, table = (
        (*SPECIALS, "disease", "cardiopathy", "mi"),
        np.vstack([np.zeros((2, 3)), np.eye(3) * 2]),
    )
    names = [*zip(ontology().labels, range(5), strict=True), *ontology().names]
    plain, _ = concept_vectors(ontology(), table, words, names)
    assert plain.tolist() == [[2, 0, 0], [2, 0, 0], [0, 0, 2], [0, 0, 0], [0, 0, 0]]
    moved, missing, count = retrofit_concepts(
        ontology(), table, words, names, relations=("is_a", "part_of"), rounds=1
    )
    assert missing.tolist() == [False, False, False, True, True]
    # X0 and X2 move first: X0 stays, as X1 has the same vector; X2 = (0 0 2 + 2 0 0) / 2. Then X1 =
    # (2 (2 0 0) + 2 0 0 + 1 0 1) / 4.
    assert count == 3
    assert moved.tolist() == [[2, 0, 0], [7 / 4, 0, 1 / 4], [1, 0, 1], [0, 0, 0], [0, 0, 0]]
    with pytest.raises(ConfigError):
        retrofit_concepts(ontology(), table, words, names, relations=("part_of",))
    vectors = np.array([[0, 0], [3, 4], [0.5, 0]], np.float32)
    np.testing.assert_allclose(unit_rows(vectors), [[0, 0], [0.6, 0.8], [1, 0]], atol=1e-5)
