"""Retrofitting: the published algorithm, values by hand, lexicons, concepts and tokens."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from support.files import write
from support.ontologies import edges_of, is_a_matrix, small
from support.tables import table_rows
from support.trees import assert_near

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
    edges = set(edges)
    return edges | {edge[::-1] for edge in edges}


def random_graph(rng, size, edges):
    """A graph without loops, whose edges hold in both directions; some rows have no neighbours."""
    ends = rng.integers(0, size * 9 // 10, (edges, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    return is_a_matrix(both_ways(map(tuple, ends.tolist())), size)


def published(vectors, graph, rounds, order):
    """The published algorithm, one word at a time: new = (n * old + sum of the n neighbours as they
    are now) / 2n."""
    old = vectors.astype(float)
    new = vectors.astype(float)
    graph = csr_array(graph, dtype=bool)
    for word in [*order] * rounds:
        near = graph.indices[graph.indptr[word] : graph.indptr[word + 1]]
        if len(near):
            new[word] = (len(near) * old[word] + new[near].sum(axis=0)) / (2 * len(near))
    return new


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rounds", [1, 10])
def test_retrofitting_equals_the_published_algorithm_in_the_same_order(seed, rounds):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 150, 500)
    vectors = rng.normal(size=(150, 7)).astype(np.float32)

    moved = retrofit(vectors, graph, rounds=rounds)

    order = np.argsort(colours(graph), kind="stable")
    assert_near(moved, published(vectors, graph, rounds, order), atol=2e-6)


def test_a_lexicon_joins_the_lines_of_a_word_and_keeps_the_spelling_of_numbers(tmp_path):
    content = (
        "\ufeffSource\nPlant sow\r\n1,800 1800 1.8\nC0011849 C0011860 C0011849 \n"
        "na\u00efve  na\u00efve\u00a0one\nplant grow sow\n"
    )

    assert read_lexicon(write(tmp_path / "lexicon.txt.gz", content)) == {
        "source": (),
        "plant": ("sow", "grow"),
        "1,800": ("1800", "1.8"),
        "c0011849": ("c0011860", "c0011849"),
        "na\u00efve": ("na\u00efve\u00a0one",),
    }


LEXICON = {
    "plant": ("sow", "grow", "plant"),
    "rot": ("putrefy",),
    "sow": (),
    "grow": ("sow",),
    "<unk>": ("sow",),
}
LEXICON_WORDS = (*SPECIALS, "plant", "sow", "Rot", "putrefy")


def test_a_lexicon_draws_one_way_and_only_among_words_of_the_vocabulary():
    graph = word_graph(LEXICON, LEXICON_WORDS)

    assert edges_of(graph, LEXICON_WORDS) == {("plant", "sow"), ("Rot", "putrefy")}


def test_a_word_outside_the_vocabulary_does_not_weaken_the_pull_of_the_others():
    vectors = np.eye(6, dtype=np.float32)

    moved = retrofit(vectors, word_graph(LEXICON, LEXICON_WORDS), rounds=1)

    assert moved[2].tolist() == [0, 0, 0.5, 0.5, 0, 0]  # half the way to "sow", not a third
    assert np.array_equal(moved[[PAD, UNK, 3, 5]], vectors[[PAD, UNK, 3, 5]])


def test_concept_ids_of_a_lexicon_move_too():
    """The published script takes all words with a digit for one, so that no id moves."""
    assert word_graph({"C0011849": ("C0011860",)}, ("C0011849", "C0011860")).nnz == 1


def test_a_lexicon_without_two_words_of_the_vocabulary_is_refused():
    with pytest.raises(ConfigError):
        word_graph({"Pflanze": ("Saat",), "plant": ("Saat", "plant")}, LEXICON_WORDS[:4])


LABELS = ("Disease", "Heart disease", "Infarction, acute", "Heart", "Stray")
SYNONYMS_OF = ("Disease/illness/OR", "cardiopathy", "MI/Heart attack/infarct-acute", "", "Drifter")
NAMES = [(name, n) for n, names in enumerate(SYNONYMS_OF) for name in names.split("/") if name]
# Infarction is-a heart disease is-a disease; heart disease is "part_of" heart.
RELATIONS = {"part_of": is_a_matrix([(1, 3)], 5), "opposite": is_a_matrix([(4, 0)], 5)}
ONTOLOGY = small(((1, 0), (2, 1)), LABELS, names=NAMES, relations=RELATIONS)
TEXT = "disease illness Cardiopathy mi heart drifter stray or acute"


IS_A = "Cardiopathy disease, Cardiopathy illness, mi Cardiopathy"
OPPOSITE = "drifter disease, drifter illness, stray disease, stray illness"


@pytest.mark.parametrize(
    "relations, pairs",
    table_rows(f"""
        synonym | disease illness, drifter stray
        is_a | {IS_A}
        part_of synonym | Cardiopathy heart, disease illness, drifter stray
        all | {IS_A}, Cardiopathy heart, {OPPOSITE}
    """),
)
def test_words_are_related_through_the_names_of_concepts(relations, pairs):
    words = (*SPECIALS, *TEXT.split())

    graph = ontology_word_graph(ONTOLOGY, words, relations=relations.split())

    assert edges_of(graph, words) == both_ways(tuple(pair.split()) for pair in pairs.split(", "))


def test_an_unknown_relation_and_an_ontology_without_related_words_are_refused():
    with pytest.raises(ConfigError, match="parts"):
        ontology_word_graph(ONTOLOGY, SPECIALS, relations=("parts",))
    with pytest.raises(ConfigError, match="small"):
        ontology_word_graph(ONTOLOGY, (*SPECIALS, "disease", "or"))


WORDS = (*SPECIALS, "heart", "attack", "MI", ",")
TABLE = np.eye(6, 4, -2, dtype=np.float32)  # word k of WORDS has its 1 in column k - 2


def test_a_concept_has_the_mean_vector_of_its_most_frequent_mention_with_vectors():
    phrases = ("Acute MI", "MI", "heart, attack", "ami", "heart, attack", "ami", "ami")

    vectors, missing = concept_vectors(ONTOLOGY, TABLE, WORDS, [(phrase, 2) for phrase in phrases])

    assert missing.tolist() == [True, True, False, True, True]
    assert vectors.dtype == np.float32
    assert not vectors[missing].any()
    assert vectors[2].tolist() == [0.5, 0.5, 0, 0]  # "ami" is more frequent, but has no vector


def test_a_repeated_word_of_a_mention_counts_twice():
    vectors, _ = concept_vectors(ONTOLOGY, TABLE, WORDS, [("heart heart attack", 2)])

    assert_near(vectors[2], [2 / 3, 1 / 3, 0, 0], rtol=1e-6)


@pytest.mark.parametrize(
    "phrase, words",
    table_rows("""
        Beta-Blocker | beta-blocker
        Beta | Beta
        Blocker-BETA | beta blocker
        Crohn's disease, | crohn disease
        ,<unk> - <pad> |
    """),
)
def test_words_are_looked_up_as_they_stand_then_lower_cased_then_in_pieces(phrase, words):
    vocabulary = (*SPECIALS, "beta-blocker", "beta", "blocker", "Beta", "crohn", "disease")

    vectors, missing = concept_vectors(
        ONTOLOGY, np.eye(8, dtype=np.float32), vocabulary, [(phrase, 0)]
    )

    assert " ".join(vocabulary[word] for word in np.flatnonzero(vectors[0])) == words
    assert missing[0] == (not words)


CONCEPT_WORDS = (*SPECIALS, "disease", "cardiopathy", "mi")  # "heart" has no vector
CONCEPT_TABLE = 2 * np.eye(5, 3, -2)
NAMES_AND_LABELS = [*zip(LABELS, range(5), strict=True), *NAMES]


def test_concepts_are_retrofitted_to_related_concepts_that_have_vectors():
    plain, _ = concept_vectors(ONTOLOGY, CONCEPT_TABLE, CONCEPT_WORDS, NAMES_AND_LABELS)
    moved, missing, count = retrofit_concepts(
        ONTOLOGY,
        CONCEPT_TABLE,
        CONCEPT_WORDS,
        NAMES_AND_LABELS,
        relations=("is_a", "part_of"),
        rounds=1,
    )

    assert plain.tolist() == [[2, 0, 0], [2, 0, 0], [0, 0, 2], [0, 0, 0], [0, 0, 0]]
    assert missing.tolist() == [False, False, False, True, True]
    assert count == 3
    # X0 and X2 move first: X0 stays, as X1 has the same vector; X2 = (0 0 2 + 2 0 0) / 2. Then X1 =
    # (2 (2 0 0) + 2 0 0 + 1 0 1) / 4.
    assert moved.tolist() == [[2, 0, 0], [7 / 4, 0, 1 / 4], [1, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_a_relation_between_no_two_concepts_with_vectors_is_refused():
    with pytest.raises(ConfigError):
        retrofit_concepts(
            ONTOLOGY, CONCEPT_TABLE, CONCEPT_WORDS, NAMES_AND_LABELS, relations=("part_of",)
        )


def test_unit_rows_have_length_one_and_empty_rows_stay():
    rows = unit_rows(np.array([[0, 0], [3, 4], [0.5, 0]], np.float32))

    assert_near(rows, [[0, 0], [0.6, 0.8], [1, 0]], atol=1e-5)
