"""The mentions that the linker must find, and those that it must not find."""

import numpy as np
import pytest
from made_up_knowledge import small, write

from mednli_jax.knowledge.linking import (
    Linker,
    folded_words,
    read_abbreviations,
    read_stop_words,
    singular,
)
from mednli_jax.knowledge.readers.mesh import read_mesh


def named(names, /, **fields):
    """An ontology without edges; names: {id: [preferred name, other names...]}."""
    pairs = tuple((name, index) for index, row in enumerate(names.values()) for name in row)
    labels = tuple(row[0] for row in names.values())
    return small((), labels, **{"ids": tuple(names), "names": pairs, **fields})


def found(linker, sentence):
    tokens = sentence.split()
    return [(" ".join(tokens[m.start : m.end]), m.concept) for m in linker.link(tokens)]


@pytest.fixture(scope="module")
def mesh():
    return Linker(read_mesh())


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        # The longest name wins over the names inside it.
        ("Known type 2 diabetes mellitus .", [("type 2 diabetes mellitus", "D003924")]),
        # A name is inverted as in MeSH, and the text is tokenised as in NLI corpora.
        ("diabetes mellitus , type 2", [("diabetes mellitus , type 2", "D003924")]),
        # The plural is in the name or in the text.
        ("multiple breast neoplasms", [("breast neoplasms", "D001943")]),
        ("biopsies taken", [("biopsies", "D001706")]),
        # Hyphens are in the text, in the name, or in neither.
        ("acute heart-failure", [("heart-failure", "D006333")]),
        ("Non-Small-Cell Lung Carcinoma", [("Non-Small-Cell Lung Carcinoma", "D002289")]),
        # Possessives have one token or two, and straight or curly apostrophes.
        ("Crohn 's disease", [("Crohn 's disease", "D003424")]),
        ("crohn’s disease", [("crohn’s disease", "D003424")]),
        ("Crohn disease", [("Crohn disease", "D003424")]),
        # Abbreviations match in either case.
        ("h/o CHF and htn", [("CHF", "D006333"), ("htn", "D006973")]),
        # Names match at the borders of words only.
        ("mid copse chfx", []),
        ("aspirin-induced", []),
        # A comma between two words keeps them apart.
        ("chest , pain", [("chest", "D013909"), ("pain", "D010146")]),
        # A mention does not absorb its neighbours.
        ("asthma hypertension gout", [("asthma", "D001249"), ("hypertension", "D006973"), ("gout", "D006073")]),
        # Everyday words, words of grammar, de-identification marks and numbers are not linked.
        ("The patient 's mother had no history of water in the back .", []),
        ("He said or us it was hard at times", []),
        ("[**Name (NI)**] is a 54 year-old man", []),
        ("treatment , therapies , tx , disease and disorders", []),
        ("", []),
    ],
)
def test_tricky_sentences(mesh, sentence, expected):
    assert found(mesh, sentence) == expected


def test_kinds_of_general_things_are_left_out_unless_asked_for(mesh):
    assert found(mesh, "hospitals in Boston sell milk and dogs") == []
    everything = Linker(mesh.ontology, types=(), stop=())
    words = [word for word, _ in found(everything, "hospitals in Boston sell milk and dogs")]
    assert words == ["hospitals", "Boston", "milk", "dogs"]
    only_diseases = Linker(mesh.ontology, types=("C",))
    assert found(only_diseases, "asthma on aspirin") == [("asthma", "D001249")]


def test_leftmost_then_longest():
    linker = Linker(named({"A": ["alpha beta"], "B": ["beta gamma delta"], "C": ["alpha"], "D": ["delta"]}))
    assert found(linker, "alpha beta gamma delta") == [("alpha beta", "A"), ("delta", "D")]
    assert found(linker, "alpha gamma beta gamma delta") == [("alpha", "C"), ("beta gamma delta", "B")]


def test_a_longer_name_off_the_token_border_does_not_hide_a_shorter_one():
    linker = Linker(named({"A": ["alpha beta"], "B": ["alpha"], "C": ["beta"]}))
    assert found(linker, "alpha beta-gamma") == [("alpha", "B")]
    assert found(linker, "alpha-beta gamma") == [("alpha-beta", "A")]
    assert found(linker, "gamma-alpha beta") == [("beta", "C")]


def test_spans_count_tokens_not_pieces():
    linker = Linker(named({"A": ["kidney stone"]}))
    mentions = linker.link(["x-y-z", "'s", "kidney", "stones", "-", "kidney-stones"])
    assert [(m.start, m.end) for m in mentions] == [(2, 4), (5, 6)]


def test_shared_names_preferred_first_then_the_order_of_names():
    ontology = named({"A": ["first", "shared", "common name"], "B": ["shared"], "C": ["third", "common name"]})
    assert found(Linker(ontology), "shared common names") == [("shared", "B"), ("common names", "A")]
    turned = named({"A": ["first"], "C": ["third"]}, names=(("common name", 1), ("common name", 0)))
    assert found(Linker(turned), "common name") == [("common name", "C")]
    assert Linker(named({"A": ["12"], "B": ["the"]})).link(["12", "the"]) == Linker(named({})).link(["any"]) == []


def test_letter_for_letter_goes_before_plural():
    ontology = named({"A": ["suture"], "B": ["sutures"]})
    assert found(Linker(ontology), "suture sutures Sutures") == [("suture", "A"), ("sutures", "B"), ("Sutures", "B")]
    only_plural = named({"B": ["sutures"]})
    assert found(Linker(only_plural), "suture") == [("suture", "B")]


def test_short_names_need_to_be_abbreviations():
    names = {"A": ["alpha", "al"], "B": ["beta", "be", "bt"]}
    assert found(Linker(named(names)), "al bt") == []
    marked = named(names, abbreviations=frozenset({"bt", "be"}))
    assert found(Linker(marked), "al bt be") == [("bt", "B")]  # "be" is a word of grammar


def test_stop_words_drop_names_and_whole_concepts():
    names = {"A": ["Face", "visage"], "B": ["Beta Blocker", "backs", "lead"], "C": ["gamma", "hard"]}
    linker = Linker(named(names, abbreviations=frozenset({"hard"})))
    assert found(linker, "face faces visage") == []  # the stop list has the preferred name
    assert found(linker, "back backs leads beta-blockers") == [("beta-blockers", "B")]
    assert found(linker, "hard") == [("hard", "C")]  # the name was given as an abbreviation
    assert found(Linker(named(names), stop=("gamma",)), "visage gamma lead") == [("visage", "A"), ("lead", "B")]


# ---- abbreviations with expansions ----

DISEASES = {
    "A": ["Hypertension", "high blood pressure"],
    "B": ["heart failure"],
    "C": ["Michigan", "MI"],
    "D": ["gout"],
}


def test_a_short_form_is_linked_as_its_expansion():
    table = (("HTN", "hypertensions"), ("hbp", "High Blood-Pressure"), ("h/f", "heart failure"), ("xyz", "not a name"))
    linker = Linker(named(DISEASES), abbreviations=table)
    assert found(linker, "htn Hbp H/F xyz gout") == [("htn", "A"), ("Hbp", "A"), ("H/F", "B"), ("gout", "D")]
    assert found(Linker(named(DISEASES)), "htn Hbp H/F") == []


def test_a_table_of_ones_own_goes_before_the_ontologys_names():
    myocardial = DISEASES | {"E": ["myocardial infarction"]}
    table = (("MI", "myocardial infarction"),)
    own = named(myocardial, abbreviations=frozenset({"MI"}))
    assert found(Linker(own), "MI") == [("MI", "C")]
    assert found(Linker(own, abbreviations=table), "MI Michigan") == [("MI", "E"), ("Michigan", "C")]


def test_of_several_expansions_the_first_that_is_linked_counts():
    table = (("pt", "physical therapy"), ("pt", "gout"), ("pt", "heart failure"))
    assert found(Linker(named(DISEASES), abbreviations=table), "pt") == [("pt", "D")]
    assert found(Linker(named(DISEASES), abbreviations=table, stop=("gout",)), "pt") == [("pt", "B")]


def test_a_short_form_is_no_word_of_grammar_nor_a_number_nor_an_expansion_itself():
    table = (("or", "gout"), ("12", "gout"), ("gt", "gout"), ("ggt", "gt"))
    assert found(Linker(named(DISEASES), abbreviations=table), "or 12 gt ggt") == [("gt", "D")]


# ---- a linker for the words of a corpus ----


def test_a_linker_for_a_vocabulary_links_its_sentences_alike(mesh):
    """The sentences consist of words of the names, so that nearly every part of them resembles a name."""
    rng = np.random.default_rng(0)
    labels = [label for c, label in enumerate(mesh.ontology.labels) if mesh.ontology.types[c].startswith("C14")]
    words = sorted({word for label in labels for word in label.replace(",", " ,").split()})
    sentences = [rng.choice(words, 12).tolist() for _ in range(300)] + [label.split() for label in labels[::3]]
    vocabulary = {word for sentence in sentences for word in sentence}
    narrow = Linker(mesh.ontology, vocabulary=vocabulary)
    assert len(narrow._names) < len(mesh._names) / 4
    linked = [mesh.link(sentence) for sentence in sentences]
    assert sum(map(len, linked)) > 300
    assert [narrow.link(sentence) for sentence in sentences] == linked


def test_a_vocabulary_keeps_plurals_hyphens_and_expansions():
    ontology = named(DISEASES | {"E": ["beta blockers", "beta blocker toxicity"]})
    linker = Linker(ontology, vocabulary=("Beta-Blocker", "HTN"), abbreviations=(("htn", "hypertension"),))
    assert found(linker, "beta blockers htn gout") == [("beta blockers", "E"), ("htn", "A")]
    assert folded_words(("Beta-Blockers", "Crohn's")) == {"beta", "blocker", "crohn"}


# ---- files of the user ----


def test_a_table_of_abbreviations_is_read_with_or_without_a_header(tmp_path):
    expected = (("htn", "hypertension"), ("CHF", "congestive heart failure"))
    rows = "htn\thypertension\nCHF\t congestive heart failure \n\n"
    assert read_abbreviations(write(tmp_path / "w.tsv", rows)) == expected
    assert read_abbreviations(write(tmp_path / "w.tsv", f"short\texpansion\r\n{rows}")) == expected
    more = "concept\texpansion\tabbreviation\n1\thypertension\thtn\n\tcongestive heart failure\tCHF\n"
    assert read_abbreviations(write(tmp_path / "w.tsv.gz", more)) == expected


def test_a_list_of_stop_words_is_folded(tmp_path):
    words = read_stop_words(write(tmp_path / "w.tsv", "# of our own\nBeta-Blockers\n gamma \n\n"))
    linker = Linker(named({"A": ["beta blocker"], "B": ["Gammas"], "C": ["delta"]}), stop=words)
    assert found(linker, "beta-blockers gamma gammas delta") == [("delta", "C")]


def test_singular_joins_one_and_many_and_leaves_singulars():
    for pair in ("fracture fractures", "biopsy biopsies", "abscess abscesses", "crutch crutches", "box boxes"):
        assert len({singular(word) for word in pair.split()}) == 1, pair
    for word in ("aids", "virus", "sepsis", "abscess", "sinus", "mass", "gas"):
        assert singular(word) == word
