"""The mentions that the linker must find, and those that it must not find."""

import numpy as np
import pytest
from support.ontologies import bundled_mesh, small

from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.words import folded_words, singular


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
    return Linker(bundled_mesh())


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
        # Words that hyphens or strokes join are names of their own, unless the whole token is
        # linked.
        ("nausea/vomiting", [("nausea/vomiting", "D009325"), ("nausea/vomiting", "D014839")]),
        (
            "CAD/CHF/htn",
            [("CAD/CHF/htn", "D003324"), ("CAD/CHF/htn", "D006333"), ("CAD/CHF/htn", "D006973")],
        ),
        (
            "HIV-positive , aspirin–induced",
            [("HIV-positive", "D006678"), ("aspirin–induced", "D001241")],
        ),
        ("chest pain/cough", [("chest pain/cough", "D002637"), ("pain/cough", "D003371")]),
        ("lung cancer-related", [("lung cancer-related", "D008175")]),
        ("beta-blocker N/V", [("beta-blocker", "D000319"), ("N/V", "D009325")]),
        # They are no names in units, numbers and set phrases.
        ("and/or 24/7 5/325mg mg/dL 10 cc/hr head-to-head", []),
        ("HR-related", [("HR-related", "D006339")]),
        # Acronyms that are words are linked in capitals only; those that are none, in either case.
        ("walking aids , Aids and tips", []),
        ("AIDS , TIPS", [("AIDS", "D000163"), ("TIPS", "D019168")]),
        ("HISTORY OF AIDS", [("AIDS", "D000163")]),
        (
            "copd cad sob brain mets",
            [
                ("copd", "D029424"),
                ("cad", "D003324"),
                ("sob", "D004417"),
                ("brain", "D001921"),
                ("mets", "D009362"),
            ],
        ),
        # A comma between two words keeps them apart.
        ("chest , pain", [("chest", "D013909"), ("pain", "D010146")]),
        # A mention does not absorb its neighbours.
        (
            "asthma hypertension gout",
            [("asthma", "D001249"), ("hypertension", "D006973"), ("gout", "D006073")],
        ),
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
    sentence = "hospitals in Boston sell milk and dogs with asthma on aspirin"
    how = {"vocabulary": sentence.split()}
    assert found(mesh, sentence) == [("asthma", "D001249"), ("aspirin", "D001241")]
    everything = Linker(mesh.ontology, types=(), stop=(), **how)
    words = [word for word, _ in found(everything, sentence)]
    assert words == ["hospitals", "Boston", "milk", "dogs", "asthma", "aspirin"]
    assert found(Linker(mesh.ontology, types=("C",), **how), sentence) == [("asthma", "D001249")]


SHARED = {"A": ["first", "shared", "common name"], "B": ["shared"], "C": ["third", "common name"]}
SHORT = {"A": ["alpha", "al"], "B": ["beta", "be", "bt"]}
STOPPED = {"A": ["Face", "visage"], "B": ["Beta Blocker", "backs", "lead"], "C": ["gamma", "hard"]}
DISEASES = {
    "A": ["Hypertension", "high blood pressure"],
    "B": ["heart failure"],
    "C": ["Michigan", "MI"],
    "D": ["gout"],
}
INFARCTION = DISEASES | {"E": ["myocardial infarction"]}
SHORT_FORMS = (
    *(
        ("HTN", "hypertensions"),
        ("hbp", "High Blood-Pressure"),
        ("h/f", "heart failure"),
        ("xyz", "not a name"),
    ),
    *(("pt", "physical therapy"), ("pt", "gout"), ("pt", "heart failure")),
    *(
        ("or", "gout"),
        ("12", "gout"),
        ("gt", "gout"),
        ("ggt", "gt"),
        ("MI", "myocardial infarction"),
    ),
)
WORDS = {
    "A": ["leukemia", "ALL"],
    "B": ["MAPs", "CAT", "cad"],
    "C": ["cats"],
    "D": ["Cat"],
    "E": ["COPD", "CHIP"],
}
CAPITALS = {"A": ["MAP", "HIGH FEVER"], "B": ["HEART FAILURE"]}
ALPHA = {"A": ["alpha beta"], "B": ["beta gamma delta"], "C": ["alpha"], "D": ["delta"]}
BORDER = {"A": ["alpha beta"], "B": ["alpha"], "C": ["beta"]}


@pytest.mark.parametrize(
    ("names", "abbreviations", "how", "sentence", "expected"),
    [
        # Leftmost, then longest.
        (ALPHA, "", {}, "alpha beta gamma delta", "alpha beta A, delta D"),
        (ALPHA, "", {}, "alpha gamma beta gamma delta", "alpha C, beta gamma delta B"),
        # A longer name off the token border does not hide a shorter one.
        (BORDER, "", {}, "alpha beta gamma", "alpha beta A"),
        (BORDER, "", {}, "alpha (beta)", "alpha B"),
        # A name may end or begin inside a token whose words are joined, but not in a token that is
        # linked as a whole.
        ({"A": ["beta gamma"], "B": ["alpha beta"]}, "", {}, "alpha beta-gamma", "beta-gamma A"),
        (BORDER, "", {}, "alpha beta-gamma", "alpha beta-gamma A"),
        (BORDER, "", {}, "alpha beta/beta", "alpha beta/beta A, beta/beta C"),
        (BORDER, "", {}, "alpha-beta gamma", "alpha-beta A"),
        (BORDER, "", {}, "gamma-alpha beta", "gamma-alpha beta A"),
        (BORDER, "", {"vocabulary": ("gamma/beta",)}, "gamma/beta", "gamma/beta C"),
        # Of shared names the preferred one counts, then the first; letter for letter goes before
        # plurals.
        (SHARED, "", {}, "shared common names", "shared B, common names A"),
        (
            {"A": ["suture"], "B": ["sutures"]},
            "",
            {},
            "suture sutures Sutures",
            "suture A, sutures B, Sutures B",
        ),
        ({"B": ["sutures"]}, "", {}, "suture", "suture B"),
        ({"A": ["12"], "B": ["the"]}, "", {}, "12 the", ""),
        ({}, "", {}, "any", ""),
        # Short names need to be abbreviations, and "be" is a word of grammar.
        (SHORT, "", {}, "al bt", ""),
        (SHORT, "bt be", {}, "al bt be", "bt B"),
        # Stop words drop names, and whole concepts by their preferred names, but no abbreviations.
        (
            STOPPED,
            "hard",
            {},
            "face faces visage back backs leads beta-blockers HARD",
            "beta-blockers B, HARD C",
        ),
        (STOPPED, "", {"stop": ("gamma",)}, "visage gamma lead", "visage A, lead B"),
        # Short forms are linked as their expansions, of several expansions as the first that is
        # linked. No short form is a word of grammar, a number or an expansion itself.
        (DISEASES, "", {"abbreviations": SHORT_FORMS}, "htn Hbp H/F xyz", "htn A, Hbp A, H/F B"),
        (DISEASES, "", {}, "htn Hbp H/F", ""),
        (DISEASES, "", {"abbreviations": SHORT_FORMS}, "pt or 12 gt ggt", "pt D, gt D"),
        (DISEASES, "", {"abbreviations": SHORT_FORMS, "stop": ("gout",)}, "pt", "pt B"),
        # An acronym that is also a word is linked in capitals only. A word of grammar needs small
        # letters beside it.
        (WORDS, "", {}, "the map , maps , chips and all copd cad", "copd E, cad B"),
        (WORDS, "", {}, "The MAP , MAPS , CHIPs and ALL", "MAPS B, CHIPs E, ALL A"),
        (WORDS, "", {}, "ALL CHIPS", "CHIPS E"),
        (WORDS, "", {}, "a CAT or cat", "CAT B, cat D"),
        (
            WORDS,
            "",
            {"abbreviations": (("map", "leukemia"), ("al", "leukemia"))},
            "map MAP al",
            "MAP A, al A",
        ),
        (WORDS, "", {}, "A CAT", "CAT D"),
        ({"A": ["AIDS"]}, "", {"abbreviations": (("hivd", "aids"),)}, "hivd aids", "hivd A"),
        ({"A": ["ANT"], "B": ["Ant"]}, "", {"stop": ()}, "ant ANT", "ant B, ANT A"),
        # Where most names are in capitals, they are no acronyms.
        (CAPITALS, "", {}, "map", "map A"),
        # A table of the user's own goes before the ontology's names.
        (INFARCTION, "MI", {}, "MI", "MI C"),
        (INFARCTION, "MI", {"abbreviations": SHORT_FORMS}, "MI Michigan", "MI E, Michigan C"),
    ],
)
def test_names_and_short_forms(names, abbreviations, how, sentence, expected):
    linker = Linker(named(names, abbreviations=frozenset(abbreviations.split())), **how)
    assert ", ".join(" ".join(mention) for mention in found(linker, sentence)) == expected


def test_a_linker_for_a_vocabulary_links_its_sentences_alike(mesh):
    """The sentences consist of words of the names, so that nearly every part of them resembles a
    name."""
    rng = np.random.default_rng(0)
    labels = [
        label
        for c, label in enumerate(mesh.ontology.labels)
        if mesh.ontology.types[c].startswith("C14")
    ]
    words = sorted({word for label in labels for word in label.replace(",", " ,").split()})
    sentences = [rng.choice(words, 12).tolist() for _ in range(300)] + [
        label.split() for label in labels[::3]
    ]
    vocabulary = {word for sentence in sentences for word in sentence}
    narrow = Linker(mesh.ontology, vocabulary=vocabulary)
    assert len(narrow._first_name) < len(mesh._first_name) / 4
    linked = [mesh.link(sentence) for sentence in sentences]
    assert sum(map(len, linked)) > 300
    assert [narrow.link(sentence) for sentence in sentences] == linked


def test_a_vocabulary_keeps_plurals_hyphens_and_expansions():
    ontology = named(DISEASES | {"E": ["beta blockers", "beta blocker toxicity"]})
    linker = Linker(
        ontology, vocabulary=("Beta-Blocker", "HTN"), abbreviations=(("htn", "hypertension"),)
    )
    assert found(linker, "beta blockers htn gout") == [("beta blockers", "E"), ("htn", "A")]
    assert folded_words(("Beta-Blockers", "Crohn's")) == {"beta", "blocker", "crohn"}


def test_singular_joins_one_and_many_and_leaves_singulars():
    for pair in (
        "fracture fractures",
        "biopsy biopsies",
        "abscess abscesses",
        "crutch crutches",
        "box boxes",
    ):
        assert len({singular(word) for word in pair.split()}) == 1, pair
    for word in ("aids", "virus", "sepsis", "abscess", "sinus", "mass", "gas"):
        assert singular(word) == word
