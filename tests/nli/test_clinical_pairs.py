"""Assertions of NegEx, and names of a terminology that replace names: cases worked out by hand."""

import pytest
from support.cases import cases
from support.pairs import pair

from mednli_jax.data.examples import LABELS
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.nli.mention_changes import EXCLUDING, MentionChanges
from mednli_jax.nli.negex import AFFIRMED, NEGATED, UNSURE, assertions
from mednli_jax.nli.sentences import Sentence
from mednli_jax.nli.written_pairs import LABEL_OF


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
        "ruled out for": ("Ruled out for [infarction] .", NEGATED),
        "possible": ("Rule out [pneumonia] .", UNSURE),
        "left of a trigger": ("[Cough] without fever .", AFFIRMED),
        "window": ("No fever seen by a nurse today in [asthma] .", UNSURE),
        "termination": ("No fever but [cough] .", AFFIRMED),
        "termination, later": ("No fever but in this place for long [cough] .", AFFIRMED),
        "list": ("No fever , [chills] .", UNSURE),
        "or": ("No fever or [chills] .", NEGATED),
        "and": ("No fever and [chills] .", UNSURE),
        "another segment": ("No fever ; [cough] .", AFFIRMED),
        "pseudo": ("No increase in [cough] .", UNSURE),
        "double": ("No patient without [cough] .", UNSURE),
        "family": ("Mother with [cancer] .", UNSURE),
        "historical": ("History of [cancer] .", UNSURE),
        "hypothetical": ("Return for [fever] .", UNSURE),
    },
)
def test_assertion(text, expected):
    assert assertion(text) == expected


@pytest.fixture(scope="module")
def mentions():
    linker = Linker(load_ontology("mesh", None))
    texts = ("heart attack", "asthma", "bronchitis", "bronchial disease", "chronic bronchitis")
    return MentionChanges([pair(text, text) for text in texts], linker)


def changed(mentions, text):
    """(words of the text, what replaces them) -> label."""
    sentence = Sentence.of(text, text.split())
    label_of = {}
    for change in mentions.changes(sentence):
        old = " ".join(sentence.tokens[change.first : change.last])
        label_of[old, change.words] = LABEL_OF[change.scope, change.kind]
    return label_of


ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS


@cases(
    "text, old, new, label",
    {
        "synonym": ("Has heart attack .", "heart attack", "myocardial infarction", ENTAILMENT),
        "hypernym": ("Has asthma .", "asthma", "bronchial disease", ENTAILMENT),
        "hyponym": ("Has bronchial disease .", "bronchial disease", "asthma", NEUTRAL),
        "sibling": ("Has asthma .", "asthma", "bronchitis", NEUTRAL),
        "absent": ("She has asthma .", "has asthma", "has no asthma", CONTRADICTION),
        "denied hyponym": ("Denies bronchial disease .", "bronchial disease", "asthma", ENTAILMENT),
        "denied hypernym": ("Denies asthma .", "asthma", "bronchial disease", NEUTRAL),
        "denied sibling": ("Denies asthma .", "asthma", "bronchitis", NEUTRAL),
        "course": ("An acute rash .", "acute", "chronic", CONTRADICTION),
        "laterality": ("Pain in the left arm .", "left", "right", CONTRADICTION),
    },
)
def test_label(mentions, text, old, new, label):
    assert changed(mentions, text)[old, new] == label


@pytest.mark.parametrize(
    "text", ["Rule out asthma .", "Mother with asthma .", "No acute illness .", "asthma 98"]
)
def test_what_writes_no_pair(mentions, text):
    assert not changed(mentions, text)


def test_no_name_is_inverted_or_of_several_concepts(mentions):
    names = [name for of_concept in mentions._names.values() for name in of_concept]
    assert not any("," in name or name.casefold().split()[-1] == "nos" for name in names)


def test_each_pair_of_values_has_two():
    assert all(len(values.split(", ")) == 2 for values in EXCLUDING)
