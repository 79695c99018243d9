"""The probe that replaces words, on a corpus of a few sentences, with bundled MeSH and a made-up
WordNet."""

import json
from dataclasses import replace

import pytest
from support.files import lay_out
from support.ontology_files import WORDNET
from support.pairs import pair

from mednli_jax import defaults
from mednli_jax.data.examples import Split
from mednli_jax.errors import UserError
from mednli_jax.nli.analyses import Pairs
from mednli_jax.nli.plug import corpus_of
from mednli_jax.nli.substitutions import FILE, substitutions
from mednli_jax.report.options import AnalysisOptions

# MeSH puts asthma and bronchitis under Bronchial Diseases (C08.127.108 and .446), but not
# hypertension.
TRAIN = [
    pair("Known asthma and bronchitis .", "He has hypertension .", uid=f"t{n}") for n in range(3)
]
TEST = [
    pair("The lady has an Asthma .", "x", uid="a"),
    pair("She had no asthma .", "x", uid="b"),
    pair("Asthma , then asthma again .", "x", uid="c"),
    pair("Seen for hypertension .", "x", uid="d"),
]


def pairs_of(train, test, ontology="mesh"):
    config = defaults.nli("esim", "demo", knowledge="typed")
    config.knowledge.ontology = str(ontology)
    splits = {"train": Split("train", tuple(train)), "test": Split("test", tuple(test))}
    return Pairs(corpus_of(config), splits=splits)


@pytest.fixture(scope="module")
def pairs():
    return pairs_of(TRAIN, TEST)


def made(pairs):
    """(figures, rows of the probe)."""
    report = substitutions(pairs, AnalysisOptions(count=9, seed=0))
    return report.figures, [json.loads(line) for line in report.files[FILE].splitlines()]


def test_a_word_is_replaced_by_its_co_hyponym(pairs):
    figures, rows = made(pairs)
    assert [
        (row["sentence1"], row["sentence2"], row["gold_label"], row["genre"]) for row in rows
    ] == [
        ("The lady has an Asthma .", "The lady has a Bronchitis .", "contradiction", "co_hyponym")
    ]
    assert figures["categories"] == {"co_hyponym": {"pairs": 1, "label": "contradiction"}}


@pytest.mark.parametrize("sides", [("asthma", "bronchitis"), ("Bronchitis", "an asthma")])
def test_words_that_a_training_pair_links_are_left_out(sides):
    trained = pair(f"Has {sides[0]} .", f"Has {sides[1]} .", uid="t9")
    with pytest.raises(UserError):
        made(pairs_of([*TRAIN, trained], TEST))


def test_text_of_a_corpus_that_is_not_open_is_private(pairs, monkeypatch):
    monkeypatch.setattr(pairs, "corpus", replace(pairs.corpus, name="mednli"))
    report = substitutions(pairs, AnalysisOptions(count=9, seed=0))
    assert (set(report.files), set(report.private)) == (set(), {"substitutions.json", FILE})


def test_wordnet_words_fit_their_place(tmp_path):
    """A noun follows a determiner. In its first sense "cold" is the antonym of heat, in another a
    kind of illness."""
    folder = lay_out(tmp_path, WORDNET)
    train = [pair("body illness cold heat", "Paris", uid=f"t{n}") for n in range(3)]
    test = [
        pair("See the body .", "x", uid="a"),
        pair("See body .", "x", uid="b"),
        pair("See a cold .", "x", uid="c"),
    ]
    _, rows = made(pairs_of(train, test, folder))
    found = {(row["sentence2"], row["genre"]) for row in rows}
    assert {text for text, _ in found if not text.startswith(("See the", "See a"))} == set()
    assert {("See the illness .", "co_hyponym"), ("See a heat .", "antonym")} <= found
    assert "See an illness ." not in {text for text, _ in found}
