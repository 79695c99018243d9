"""Assertions of NegEx, and names of a terminology that replace names: cases worked out by hand."""

import pytest
from support.cases import cases
from support.files import lay_out
from support.ontology_files import WORDNET, umls_name, umls_relation, umls_type
from support.pairs import pair

from mednli_jax.data.examples import LABELS
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.words import Lemmas
from mednli_jax.nli.changes import Sentence
from mednli_jax.nli.corpus import Linking
from mednli_jax.nli.mention_changes import MentionChanges
from mednli_jax.nli.negex import AFFIRMED, NEGATED, UNSURE, assertions
from mednli_jax.nli.written_pairs import LABEL_OF, Augment, Withheld, written_pairs

ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS
ALL = OntologyOptions(relations="all")


# ---- assertions ----


def assertion(text):
    """Of the word in brackets."""
    tokens = text.split()
    place = next(n for n, token in enumerate(tokens) if token.startswith("["))
    return assertions([token.strip("[]") for token in tokens])[place]


@cases(
    "text, expected",
    {
        "affirmed": ("She has [asthma] .", AFFIRMED),
        "before": ("She denies chest [pain] .", NEGATED),
        "longest": ("No evidence of [pneumonia] .", NEGATED),
        "short": ("w/o [asthma]", NEGATED),
        "after": ("[Pneumonia] was ruled out .", NEGATED),
        "after, plural": ("[Pneumonia] has been ruled out .", NEGATED),
        "ruled out for": ("Ruled out for [infarction] .", NEGATED),
        "history, negated": ("No history of [asthma] .", NEGATED),
        "left of a trigger": ("[Cough] without fever .", AFFIRMED),
        "right of a trigger after": ("Pneumonia was ruled out with [cough] .", AFFIRMED),
        "subject of a negated verb": ("[Cough] was not better .", UNSURE),
        "window": ("No fever seen by a nurse today in [asthma] .", UNSURE),
        "termination": ("No fever but [cough] .", AFFIRMED),
        "termination, later": ("No fever but in this place for long [cough] .", AFFIRMED),
        "list": ("No fever , [chills] .", UNSURE),
        "or": ("No fever or [chills] .", NEGATED),
        "and": ("No fever and [chills] .", UNSURE),
        "relative clause": ("No rash which gives [pain] .", UNSURE),
        "another segment": ("No fever ; [cough] .", AFFIRMED),
        "colon": ("Mother : [asthma] .", UNSURE),
    },
)
def test_a_finding_is_affirmed_negated_or_unsure_by_the_words_around_it(text, expected):
    assert assertion(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        # possible, and not excluded yet
        "Rule out [pneumonia] .",
        "r/o [pneumonia]",
        "[Pneumonia] should be ruled out .",
        "[Pneumonia] to be ruled out .",
        "[Pneumonia] not ruled out .",
        "Cannot exclude [pneumonia] .",
        "? [pneumonia]",
        "Concern for [pneumonia] .",
        "Screened for [pneumonia] .",
        "[Pneumonia] is on the differential .",
        # pseudo-negations
        "No increase in [cough] .",
        "No change in [cough] .",
        "Not only [cough] .",
        "Gram negative [sepsis] .",
        # double negations
        "No patient without [cough] .",
        "Does not deny [cough] .",
        "No evidence of fever was not [pain] .",
        # of another person
        "Mother with [cancer] .",
        "Family history of [cancer] .",
        "FH : [cancer]",
        # historical
        "History of [cancer] .",
        "s/p [stroke]",
        "[Pneumonia] in the past .",
        # hypothetical
        "Return for [fever] .",
        "If [fever] call us .",
        "At risk for [stroke] .",
        "Prophylaxis against [thrombosis] .",
        # quantifiers, measures, kinds, groups
        "All [asthma] was treated .",
        "More [pain] than before .",
        "The rate of [infection] fell .",
        "Patients with [asthma] wheeze .",
        "The effect of [aspirin] .",
        "A drug against [stroke] .",
        "It leads to [stroke] .",
        "Chronic [pain] is a major concern .",
        "It is useful for [asthma] .",
        "Any patient with [asthma] .",
        "[Pain] was measured .",
        "[Hypothermia] is known to harm .",
        "[Pain] was a reason to call .",
    ],
)
def test_a_possible_past_or_foreign_finding_is_neither_affirmed_nor_denied(text):
    assert assertion(text) == UNSURE


# ---- names ----

# Names of concepts, the preferred one first. The parent of each, the types, and more names are in
# the functions below.
NAMES = {
    "C0000001": ("heart disease", "disorder of heart", "cardiac disease"),
    "C0000002": (
        "myocardial infarction",
        "heart attack",
        "Infarction, myocardial",
        "I21.9",
        "MI",
        "heart attack NOS",
        "heart attack or stroke",
        "heart attacks",
        "ischemic",
        "Myocardial Infarct",
    ),
    "C0000003": ("angina",),
    "C0000004": ("heart",),
    "C0000005": ("aspirin", "acetylsalicylic acid"),
    "C0000006": ("salicylate",),
    "C0000007": ("chest pain", "thoracic pain"),
    "C0000008": ("pleuritic chest pain",),
    "C0000009": ("organ",),
    "C0000010": ("tachycardia",),
    "C0000011": ("bradycardia",),
    "C0000012": ("fatigue",),
    "C0000013": ("lung diseases", "chest trouble", "lung disease"),
    "C0000014": ("asthma",),
    "C0000015": ("arrhythmia",),
    "C0000016": ("atrial flutter",),
}
PARENTS = {2: 1, 3: 1, 4: 9, 5: 6, 8: 7, 10: 15, 11: 15, 16: 15, 12: 1, 14: 13}
TYPES = {4: "T023", 5: "T121", 6: "T121", 9: "T023", 12: "T184"}


def mention_changes(linker, names):
    return MentionChanges([pair(name, name) for name in names], linker)


@pytest.fixture(scope="module")
def umls(tmp_path_factory):
    """Whose heart is the finding site of myocardial infarction, which aspirin may treat."""
    conso, sty, rel = "", "", ""
    for cui, (preferred, *names) in NAMES.items():
        number = int(cui[1:])
        conso += umls_name(cui, preferred, preferred=True)
        conso += "".join(umls_name(cui, name) for name in names)
        sty += umls_type(cui, TYPES.get(number, "T047"))
        if number in PARENTS:
            rel += umls_relation(cui, "PAR", f"C{PARENTS[number]:07}", "inverse_isa")
    rel += umls_relation("C0000004", "RO", "C0000002", "has_finding_site")
    rel += umls_relation("C0000002", "RO", "C0000005", "may_treat")
    folder = tmp_path_factory.mktemp("umls")
    lay_out(folder, {"MRCONSO.RRF": conso, "MRSTY.RRF": sty, "MRREL.RRF": rel})
    ontology = load_ontology(str(folder), None, ALL)
    assert {"has_finding_site", "may_treat"} <= ontology.relations.keys()
    linker = Linking(abbreviations="bundled").linker(ontology)
    return mention_changes(linker, [names[0] for names in NAMES.values()])


def label_of_change(mentions, text):
    """(words of the text, words that replace them) -> label."""
    sentence = Sentence.of(text, text.split())
    label_of = {}
    for change in mentions.changes(sentence):
        old = " ".join(sentence.tokens[change.first : change.last])
        if (change.scope, change.kind) in LABEL_OF:
            label_of[old, change.words] = LABEL_OF[change.scope, change.kind]
    return label_of


@cases(
    "text, old, new, label",
    {
        "synonym": (
            "Has heart attack .",
            "heart attack",
            "myocardial infarction",
            ENTAILMENT,
        ),
        "hypernym": ("Has heart attack .", "heart attack", "heart disease", ENTAILMENT),
        "hyponym": ("Has heart disease .", "heart disease", "angina", NEUTRAL),
        "sibling": ("Has angina .", "angina", "myocardial infarction", NEUTRAL),
        "long form": ("Has MI .", "MI", "myocardial infarction", ENTAILMENT),
        "capitals": ("HAS ANGINA .", "ANGINA", "HEART DISEASE", ENTAILMENT),
        "capitals, absent": ("HAS ANGINA .", "HAS ANGINA", "HAS NO ANGINA", CONTRADICTION),
        "absent": ("She has angina .", "has angina", "has no angina", CONTRADICTION),
        "known": ("A known angina .", "known angina", "no known angina", CONTRADICTION),
        "longest": (
            "Is diagnosed with angina .",
            "diagnosed with angina",
            "never diagnosed with angina",
            CONTRADICTION,
        ),
        "present": ("Denies angina .", "Denies angina", "reports angina", CONTRADICTION),
        "present, several words": (
            "Shows no evidence of angina .",
            "no evidence of angina",
            "evidence of angina",
            CONTRADICTION,
        ),
        "denied hyponym": ("Denies heart disease .", "heart disease", "angina", ENTAILMENT),
        "denied hypernym": ("Denies angina .", "angina", "heart disease", NEUTRAL),
        "denied sibling": ("Denies angina .", "angina", "myocardial infarction", NEUTRAL),
        "no chest pain": ("No chest pain .", "chest pain", "pleuritic chest pain", ENTAILMENT),
        "chest pain": ("Has chest pain .", "chest pain", "pleuritic chest pain", NEUTRAL),
        "drug": ("Takes aspirin .", "aspirin", "salicylate", ENTAILMENT),
        "synonym of a drug": (
            "Has aspirin .",
            "aspirin",
            "acetylsalicylic acid",
            ENTAILMENT,
        ),
        "course": ("An acute rash .", "acute", "chronic", CONTRADICTION),
        "laterality": ("Pain in the left arm .", "left", "right", CONTRADICTION),
        "grade": ("She has mild pain .", "mild", "severe", CONTRADICTION),
        "stage": ("A stage II tumor .", "II", "I", CONTRADICTION),
        "antonyms": ("He had tachycardia .", "tachycardia", "bradycardia", CONTRADICTION),
    },
)
def test_a_replaced_clinical_phrase_gives_the_label_of_its_relation_and_assertion(
    umls, text, old, new, label
):
    assert label_of_change(umls, text)[old, new] == label


@pytest.mark.parametrize(
    "text",
    [
        "Rule out angina .",
        "Mother with angina .",
        "Takes angina pills .",
        "Has exotic angina .",
        "angina 98",
        "The Angina Study .",
        "Has heart attacks .",
        "She is ischemic .",
        "She left hospital .",
        "In Acute Trial .",
        "A stage II or III tumor .",
        "A left arm and right arm .",
        "An acute on chronic rash .",
        "With acute rash .",
        "At the right time .",
        "During heart disease .",
        "The cause of angina .",
        "Angina is one more indication .",
        "Angina , fever",
        "Indications are tumors and angina .",
        "A drug for angina .",
    ],
)
def test_uncertain_or_ambiguous_clinical_text_writes_no_pair(umls, text):
    assert not label_of_change(umls, text)


def test_a_name_is_in_the_singular_and_no_code_inverted_form_list_or_adjective(umls):
    label_of = label_of_change(umls, "Has heart attack .")
    assert {new for old, new in label_of if old == "heart attack"} == {
        "myocardial infarction",
        "myocardial infarct",
        "heart disease",
        "angina",
    }


def test_a_negated_premise_keeps_its_capital(umls):
    text = "Positive for angina ."
    negated = umls.negated(Sentence.of(text, text.split()), 0)
    assert negated.text == "Negative for angina ."
    assert negated.tokens == ("Negative", "for", "angina", ".")


def test_relations_beyond_is_a_write_no_pair(umls):
    """Neither the finding site of a disease nor what may treat it replaces it, in either order."""
    written = {**label_of_change(umls, "Has heart attack .")} | label_of_change(
        umls, "Takes aspirin ."
    )
    written |= label_of_change(umls, "Has a heart .") | label_of_change(
        umls, "Denies heart attack ."
    )
    concept_of = {name: cui for cui, names in NAMES.items() for name in names}
    related = {frozenset(("C0000002", "C0000004")), frozenset(("C0000002", "C0000005"))}
    for old, new in written:
        assert frozenset((concept_of.get(old), concept_of.get(new))) not in related


def test_a_part_of_the_body_has_synonyms_alone(umls):
    assert not label_of_change(umls, "Has a heart .")


def test_a_drug_has_no_kinds_where_it_is_not_taken(umls):
    for text in ("Because of aspirin .", "A focus on aspirin .", "Has aspirin ."):
        assert "salicylate" not in {new for _, new in label_of_change(umls, text)}
    assert ("aspirin", "salicylate") in label_of_change(umls, "She was on aspirin .")


def test_a_sign_replaces_no_disease_and_a_short_form_has_no_kinds(umls):
    assert not {new for _, new in label_of_change(umls, "Has fatigue .")} & {"heart disease"}
    assert not {new for _, new in label_of_change(umls, "Has MI .")} & {"heart disease"}


def test_the_label_in_the_singular_precedes_other_names(umls):
    new = [new for old, new in label_of_change(umls, "Has asthma .") if old == "asthma"]
    assert new == ["lung disease"]


def test_a_name_that_the_text_has_replaces_none(umls):
    assert ("angina", "heart disease") not in label_of_change(
        umls, "Has angina , a heart disease ."
    )


def test_what_excludes_a_name_is_no_sibling_of_it(umls):
    label_of = label_of_change(umls, "Had tachycardia .")
    assert label_of["tachycardia", "bradycardia"] == CONTRADICTION
    assert label_of["tachycardia", "atrial flutter"] == NEUTRAL


def test_wordnet_beside_a_terminology_gives_antonyms_alone(tmp_path, umls):
    """Its body and illness exclude each other as kinds of one thing."""
    wordnet = load_ontology(str(lay_out(tmp_path, WORDNET)), None, ALL)
    nouns = ("the body", "the heat", "the entity", "no body", "the illness", "the cold")
    premises = [f"{n} See {noun} ." for n in range(6) for noun in nouns]
    pairs = [pair(text, "x", LABELS[n % 3], uid=text) for n, text in enumerate(premises)]
    kinds = []
    for linkers in ([Lemmas(wordnet)], [Lemmas(wordnet), umls.linker]):
        written = written_pairs(pairs, linkers, Augment(1.0), Withheld())
        kinds.append(set(written.facts["categories"]))
    assert {"antonym", "co_hyponym"} <= kinds[0]
    assert not kinds[1] & {"co_hyponym", "hypernym", "hyponym"}


DISJOINT = """format-version: 1.2

[Term]
id: X:1
name: lesion

[Term]
id: X:2
name: cyst
is_a: X:1
disjoint_from: X:3 ! tumor

[Term]
id: X:3
name: tumor
is_a: X:1

[Term]
id: X:4
name: adenoma
is_a: X:3

[Term]
id: X:5
name: scar
is_a: X:1
"""


@cases(
    "text, new, label",
    {
        "stated": ("The mass is a cyst .", "tumor", CONTRADICTION),
        "stated, the other way": ("The mass is a tumor .", "cyst", CONTRADICTION),
        "inherited": ("The mass was an adenoma .", "cyst", CONTRADICTION),
        "two findings of a patient": ("Has a cyst .", "tumor", None),
        "there is": ("There is a cyst .", "tumor", None),
        "not stated": ("The mass is a cyst .", "scar", NEUTRAL),
    },
)
def test_disjoint_concepts_exclude_each_other_as_kinds_of_one_thing(tmp_path, text, new, label):
    path = tmp_path / "lesions.obo"
    path.write_text(DISJOINT)
    linker = Linking().linker(load_ontology(str(path), None, ALL))
    mentions = mention_changes(linker, ("lesion", "cyst", "tumor", "adenoma", "scar"))
    label_of = {name: label for (_, name), label in label_of_change(mentions, text).items()}
    assert label_of.get(new) == label
