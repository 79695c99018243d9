"""The mentions that the linker must find, and those that it must not find."""

import numpy as np
import pytest
from support.cases import cases
from support.ontologies import small
from support.tables import table_rows

from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.words import folded_words, singular


def ontology_of(names, abbreviations=""):
    """An ontology without edges. names: "A: alpha/al; B: beta", the preferred name of a concept
    first."""
    ids = []
    labels = []
    pairs = []
    for place, row in enumerate(filter(None, names.split("; "))):
        concept, _, text = row.partition(": ")
        ids.append(concept)
        labels.append(text.split("/")[0])
        pairs += [(name, place) for name in text.split("/")]
    short = frozenset(abbreviations.split())
    return small((), tuple(labels), ids=tuple(ids), names=tuple(pairs), abbreviations=short)


def linked(linker, sentence):
    """The mentions as "words CONCEPT, words CONCEPT"."""
    tokens = sentence.split()
    mentions = linker.link(tokens)
    return ", ".join(" ".join([*tokens[m.start : m.end], m.concept]) for m in mentions)


@pytest.fixture(scope="module")
def mesh():
    return Linker(load_ontology("mesh"))


@pytest.mark.parametrize(
    "sentence, mentions",
    table_rows("""
        # The longest name wins over the names inside it.
        Known type 2 diabetes mellitus . | type 2 diabetes mellitus D003924
        # A name is inverted as in MeSH, and the text is tokenised as in NLI corpora.
        diabetes mellitus , type 2 | diabetes mellitus , type 2 D003924
        # The plural is in the name or in the text.
        multiple breast neoplasms | breast neoplasms D001943
        biopsies taken | biopsies D001706
        # Hyphens are in the text, in the name, or in neither.
        acute heart-failure | heart-failure D006333
        Non-Small-Cell Lung Carcinoma | Non-Small-Cell Lung Carcinoma D002289
        # Possessives have one token or two, and straight or curly apostrophes.
        Crohn 's disease | Crohn 's disease D003424
        crohn’s disease | crohn’s disease D003424
        Crohn disease | Crohn disease D003424
        # Abbreviations match in either case.
        h/o CHF and htn | CHF D006333, htn D006973
        # Names match at the borders of words only.
        mid copse chfx |
        # Words that hyphens or strokes join are names of their own, unless the whole token is
        # linked.
        nausea/vomiting | nausea/vomiting D009325, nausea/vomiting D014839
        CAD/CHF/htn | CAD/CHF/htn D003324, CAD/CHF/htn D006333, CAD/CHF/htn D006973
        HIV-positive , aspirin–induced | HIV-positive D006678, aspirin–induced D001241
        chest pain/cough | chest pain/cough D002637, pain/cough D003371
        lung cancer-related | lung cancer-related D008175
        beta-blocker N/V | beta-blocker D000319, N/V D009325
        # They are no names in units, numbers and set phrases.
        and/or 24/7 5/325mg mg/dL 10 cc/hr head-to-head |
        HR-related | HR-related D006339
        # Acronyms that are words are linked in capitals only; those that are none, in either case.
        walking aids , Aids and tips |
        AIDS , TIPS | AIDS D000163, TIPS D019168
        HISTORY OF AIDS | AIDS D000163
        copd cad sob mets | copd D029424, cad D003324, sob D004417, mets D009362
        # A comma between two words keeps them apart.
        chest , pain | chest D013909, pain D010146
        # A mention does not absorb its neighbours.
        asthma hypertension gout | asthma D001249, hypertension D006973, gout D006073
        # Kinds of general things are not linked.
        hospitals in Boston sell milk and dogs with asthma | asthma D001249
        # Everyday words, words of grammar, de-identification marks and numbers are not linked.
        The patient 's mother had no history of water in the back . |
        He said or us it was hard at times |
        [**Name (NI)**] is a 54 year-old man |
        treatment , therapies , tx , disease and disorders |
         |
    """),
)
def test_clinical_sentences_are_linked_to_mesh(mesh, sentence, mentions):
    assert linked(mesh, sentence) == mentions


@cases(
    "types, mentions",
    {
        "diseases": (("C",), "asthma D001249"),
        "all": ((), "Boston D001900, dogs D004285, asthma D001249, aspirin D001241"),
    },
)
def test_semantic_types_choose_the_concepts_that_are_linked(types, mentions):
    sentence = "hospitals in Boston sell milk and dogs with asthma on aspirin"
    linker = Linker(load_ontology("mesh"), vocabulary=sentence.split(), types=types)

    assert linked(linker, sentence) == mentions


@pytest.mark.parametrize(
    "names, sentence, mentions",
    table_rows("""
        A: alpha beta; B: beta gamma; C: gamma | alpha beta gamma | alpha beta A, gamma C
        A: alpha beta; B: beta gamma; C: alpha | alpha beta beta gamma | alpha beta A, beta gamma B
        # A longer name off the token border does not hide a shorter one.
        A: alpha beta; B: alpha; C: beta | alpha beta gamma | alpha beta A
        A: alpha beta; B: alpha; C: beta | alpha (beta) | alpha B
        # A name may end or begin inside a token whose words are joined, but not in a token that is
        # linked as a whole.
        A: beta gamma; B: alpha beta | alpha beta-gamma | beta-gamma A
        A: alpha beta; B: alpha; C: beta | alpha beta-gamma | alpha beta-gamma A
        A: alpha beta; B: alpha; C: beta | alpha beta/beta | alpha beta/beta A, beta/beta C
        A: alpha beta; B: alpha; C: beta | alpha-beta gamma | alpha-beta A
        A: alpha beta; B: alpha; C: beta | gamma-alpha beta | gamma-alpha beta A
        | any |
    """),
)
def test_the_leftmost_then_the_longest_name_is_linked(names, sentence, mentions):
    assert linked(Linker(ontology_of(names)), sentence) == mentions


@pytest.mark.parametrize(
    "names, sentence, mentions",
    table_rows("""
        A: first/shared; B: shared | shared | shared B
        A: first/common name; B: third/common name | common names | common names A
        A: suture; B: sutures | suture sutures Sutures | suture A, sutures B, Sutures B
        B: sutures | suture | suture B
        A: ANT; B: Ant | ant ANT | ant B, ANT A
    """),
)
def test_a_shared_name_goes_to_its_own_spelling_then_the_preferred_then_the_first(
    names, sentence, mentions
):
    assert linked(Linker(ontology_of(names)), sentence) == mentions


@pytest.mark.parametrize(
    "names, abbreviations, sentence, mentions",
    table_rows("""
        A: 12; B: the | | 12 the |
        A: alpha/al; B: beta/be/bt | | al bt |
        # "be" is a word of grammar
        A: alpha/al; B: beta/be/bt | bt be | al bt be | bt B
    """),
)
def test_numbers_grammar_and_short_names_that_are_no_abbreviations_are_not_linked(
    names, abbreviations, sentence, mentions
):
    assert linked(Linker(ontology_of(names, abbreviations)), sentence) == mentions


STOPPED = "A: Face/visage; B: Beta Blocker/backs/lead; C: gamma/hard"


def test_everyday_words_drop_names_and_concepts_by_their_preferred_names_but_no_abbreviations():
    linker = Linker(ontology_of(STOPPED, "hard"))

    sentence = "face faces visage back backs leads beta-blockers HARD"
    assert linked(linker, sentence) == "beta-blockers B, HARD C"


WORDS = "A: leukemia/ALL; B: MAPs/CAT/cad; C: cats; D: Cat; E: COPD/CHIP"


@pytest.mark.parametrize(
    "names, sentence, mentions",
    table_rows(f"""
        {WORDS} | the map , maps , chips and all copd cad | copd E, cad B
        {WORDS} | The MAP , MAPS , CHIPs and ALL | MAPS B, CHIPs E, ALL A
        # a word of grammar needs small letters beside it
        {WORDS} | ALL CHIPS | CHIPS E
        {WORDS} | a CAT or cat | CAT B, cat D
        {WORDS} | A CAT | CAT D
        # Where most names are in capitals, they are no acronyms.
        A: MAP/HIGH FEVER; B: HEART FAILURE | map | map A
    """),
)
def test_an_acronym_that_is_a_word_is_linked_in_capitals_only(names, sentence, mentions):
    assert linked(Linker(ontology_of(names)), sentence) == mentions


def test_a_linker_for_a_vocabulary_links_its_sentences_alike(mesh):
    """The sentences consist of words of the names, so that nearly every part of them resembles a
    name."""
    rng = np.random.default_rng(0)
    labels = []
    vocabulary = set()
    for label, types in zip(mesh.ontology.labels, mesh.ontology.types, strict=True):
        if types.startswith("C14"):
            labels.append(label.split())
            vocabulary.update(label.replace(",", " ,").split())
    words = sorted(vocabulary)
    sentences = [rng.choice(words, 12).tolist() for _ in range(300)] + labels[::3]
    vocabulary.update(*sentences)

    narrow = Linker(mesh.ontology, vocabulary=vocabulary)

    mentions = [mesh.link(sentence) for sentence in sentences]
    assert list(map(narrow.link, sentences)) == mentions
    assert sum(map(len, mentions)) > 300


def test_a_vocabulary_keeps_plurals_and_hyphens():
    ontology = ontology_of("D: gout; E: beta blockers/beta blocker toxicity")
    linker = Linker(ontology, vocabulary=("Beta-Blocker", "HTN"))

    assert linked(linker, "beta blockers htn gout") == "beta blockers E"
    assert folded_words(("Beta-Blockers", "Crohn's")) == {"beta", "blocker", "crohn"}


def test_a_joined_token_of_the_vocabulary_is_linked_by_its_words():
    linker = Linker(ontology_of("A: alpha; C: beta"), vocabulary=("gamma/beta",))

    assert linked(linker, "gamma/beta") == "gamma/beta C"


@pytest.mark.parametrize(
    "plural, word",
    table_rows("""
        fractures | fracture
        biopsies | biopsy
        abscesses | abscess
        crutches | crutch
        boxes | box
    """),
)
def test_the_singular_joins_a_word_and_its_plural(plural, word):
    assert singular(plural) == singular(word)


@pytest.mark.parametrize("word", ["aids", "virus", "sepsis", "abscess", "sinus", "mass", "gas"])
def test_a_word_in_the_singular_stays(word):
    assert singular(word) == word
