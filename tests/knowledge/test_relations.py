"""Types of relations by hand: in small ontologies of each format."""

import numpy as np
import pytest
from support.files import lay_out
from support.ontologies import graph
from support.ontology_files import (
    RF2_ROWS,
    WORDNET,
    sct_concept,
    sct_edge,
    sct_term,
    snomed_folder,
)
from support.tables import table_rows

from mednli_jax.data.examples import Mention
from mednli_jax.errors import UserError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.snomed import read_snomed
from mednli_jax.knowledge.readers.wordnet import read_wordnet
from mednli_jax.knowledge.relations import kinds_of, related_terms
from mednli_jax.knowledge.words import Lemmas

ALL = OntologyOptions(relations="all")
ADJECTIVES = {
    "data.adj": """\
00000100 00 a 01 asleep(p) 0 002 ! 00000900 a 0101 ^ 00000950 a 0000 | in sleep
00000900 00 a 01 awake(p) 0 000 | not asleep
00000950 00 s 01 drowsy 0 001 & 00000100 a 0000 | half asleep
""",
    "index.adj": """\
asleep a 1 2 ! ^ 1 1 00000100
awake a 1 0 1 1 00000900
drowsy a 1 1 & 1 1 00000950
""",
    "noun.exc": "bodices body\n",
}
NUMBERS = {
    "data.adj": """\
00000200 00 a 01 cardinal 0 000 | a quantity
00000300 00 s 02 three 0 3 0 001 & 00000200 a 0000 | a number
00000400 00 s 01 four 0 001 & 00000200 a 0000 | a number
00000500 00 a 01 near 0 001 ! 00000900 a 0101 | not far
00000900 00 a 01 far 0 001 ! 00000500 a 0101 | not near
""",
    "index.adj": "near a 1 1 ! 1 1 00000500\n",
    "data.noun": WORDNET["data.noun"]
    + "00000800 10 n 02 i 0 over 0 001 @ 00000100 n 0000 | a letter\n",
}


def texts_of(relations, named=()):
    """key -> the kinds of a relation and its distance as "kind kind distance"."""
    texts = {}
    columns = (relations.keys, relations.bits, relations.distance)
    for key, bits, distance in np.stack(columns, axis=1).tolist():
        kinds = [kind for bit, kind in enumerate(kinds_of(named)) if bits >> bit & 1]
        texts[key] = " ".join([*sorted(kinds), str(distance)])
    return texts


def term_of(linker, text):
    """The longest mention of a text: its name and its concepts."""
    mention = max(linker.link(text.split()), key=lambda mention: mention.end - mention.start)
    name = mention.concept if isinstance(linker, Lemmas) else text
    return name, tuple(linker.indices(mention.concept))


def between(linker, premise, hypothesis, *named, max_length=0):
    """The kinds from one text to another and their distance, "" if they are unrelated."""
    terms = [term_of(linker, premise), term_of(linker, hypothesis)]
    return texts_of(related_terms(linker.ontology, terms, named, max_length), named).get(1, "")


def read_lemmas(folder, files):
    return Lemmas(read_wordnet(lay_out(folder, WORDNET | files), ALL))


@pytest.fixture(scope="module")
def lemmas(tmp_path_factory):
    return read_lemmas(tmp_path_factory.mktemp("wordnet"), ADJECTIVES)


@pytest.mark.parametrize(
    "premise, hypothesis, relation",
    table_rows("""
        illness | entity | hypernym 1
        entity | illness | hyponym 1
        common cold | entity | hypernym 2
        body | organic structure | synonym 0
        bodies | body | same 0
        # an irregular form
        bodices | body | synonym 0
        inhaling | breathes | hypernym 1
        body | illness | co_hyponym 2
        # "cold" is an illness, a verb, and both the opposite and the sibling of heat.
        cold | heat | antonym co_hyponym 1
        cold | illness | hypernym 1
        asleep | awake | antonym 1
        awake | asleep | antonym 1
        # inherited from its head
        drowsy | awake | antonym 1
    """),
)
def test_words_of_wordnet_have_the_relations_worked_out_by_hand(
    lemmas, premise, hypothesis, relation
):
    assert between(lemmas, premise, hypothesis) == relation


@pytest.mark.parametrize(
    "premise, hypothesis, named, relation",
    table_rows("""
        inhale | cold | entails part_of | entails 1
        cold | inhale | entails part_of | inverse_entails 1
        drowsy | asleep | similar_to | hypernym similar_to 1
    """),
)
def test_named_relations_of_wordnet_hold_in_one_direction(
    lemmas, premise, hypothesis, named, relation
):
    assert between(lemmas, premise, hypothesis, *named.split()) == relation


def test_the_longest_path_bounds_hypernyms(lemmas):
    assert between(lemmas, "common cold", "entity", max_length=1) == ""


def test_a_word_is_linked_by_its_lemma_and_a_number_is_not(lemmas):
    mentions = lemmas.link(["the", "body", "of", "12", "bodies"])

    assert mentions == [Mention(1, 2, "body"), Mention(4, 5, "body")]


def test_words_of_grammar_are_no_nouns_digits_are_words_and_a_phrase_hides_no_word(tmp_path):
    lemmas = read_lemmas(tmp_path, NUMBERS)

    assert between(lemmas, "near", "far") == "antonym 1"
    assert between(lemmas, "three", "four") == between(lemmas, "3", "four") == "co_hyponym 2"
    assert between(lemmas, "three", "3") == "synonym 0"
    # "is" is the plural of the letter "i", "over" a noun here
    assert lemmas.link(["is", "i", "over", "the"]) == []
    mentions = lemmas.link(["near", "common", "cold", "bodies"])
    spans = [(mention.start, mention.end) for mention in mentions]
    assert spans == [(0, 1), (1, 3), (2, 3), (3, 4)]


# 1 and 2 are below 0, and antonyms; 5 - 3 - 1 and 4 - 2 are chains of is-a edges.
IS_A = (
    (1, 0),
    (2, 0),
    (3, 1),
    (4, 2),
    (5, 3),
)


@pytest.fixture(scope="module")
def relation_of():
    """{(premise, hypothesis): their relation}"""
    concepts = [(str(number), (number,)) for number in range(6)]
    texts = texts_of(related_terms(graph(IS_A, 6, antonym=[(1, 2)]), concepts))
    return {divmod(key, 6): text for key, text in texts.items()}


@pytest.mark.parametrize("pair", [(1, 2), (2, 3), (3, 4)])
def test_antonyms_are_inherited_by_children_over_one_is_a_edge(relation_of, pair):
    assert relation_of[pair] == "antonym co_hyponym 1"


def test_a_grandchild_inherits_no_antonym_and_has_no_sibling_over_three_steps(relation_of):
    assert relation_of[5, 1] == "hypernym 2"
    assert not {(5, 2), (5, 4)} & relation_of.keys()


@pytest.fixture(scope="module")
def snomed(tmp_path_factory):
    """The site of narwhal flu is the pouch, part of belly, trunk and body. A kit's flu is one of
    calves, that one of pups, that one of narwhals, and that a wombat rash."""
    added = {"106": "pup flu", "107": "belly", "108": "trunk", "109": "whole body"}
    added |= {"110": "calf flu", "111": "kit flu"}
    edges = {"106": "103", "110": "106", "111": "110", "104": "107", "107": "108", "108": "109"}
    folder = snomed_folder(
        tmp_path_factory.mktemp("snomed"),
        Concept=[*RF2_ROWS["Concept"], *map(sct_concept, added)],
        Description=[*RF2_ROWS["Description"], *map(sct_term, added, added.values())],
        Relationship=[*RF2_ROWS["Relationship"], *map(sct_edge, edges, edges.values())],
    )
    return Linker(read_snomed(folder, ALL), types=())


@pytest.mark.parametrize(
    "premise, hypothesis, relation",
    table_rows("""
        narwhal flu | pouch | finding_site 1
        narwhal flu | trunk | finding_site 1
        pup flu | pouch | finding_site 1
        pup flu | trunk | finding_site 1
        calf flu | pouch | finding_site 1
        calf flu | trunk | finding_site 1
        belly | pup flu | inverse_finding_site 1
        # the parent of narwhal flu, its kind over three steps, and a whole over three steps
        wombat rash | pouch |
        wombat rash | trunk |
        kit flu | pouch |
        narwhal flu | whole body |
        pup flu | whole body |
    """),
)
def test_a_named_relation_is_inherited_over_two_is_a_edges_to_wholes_over_two_and_never_upwards(
    snomed, premise, hypothesis, relation
):
    assert between(snomed, premise, hypothesis, "finding_site") == relation


def test_a_relation_that_the_ontology_lacks_is_refused(lemmas):
    with pytest.raises(UserError, match="relations"):
        between(lemmas, "inhale", "cold", "entail")
