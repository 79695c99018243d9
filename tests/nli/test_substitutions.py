"""The probe that replaces words, on a corpus of a few sentences, with bundled MeSH and a made-up
WordNet."""

import json
from dataclasses import replace

import pytest
from support.files import lay_out
from support.ontology_files import WORDNET
from support.pairs import pair

from mednli_jax.cli import read_config
from mednli_jax.data.examples import Split
from mednli_jax.errors import UserError
from mednli_jax.nli.analyses import AnalysedPairs
from mednli_jax.nli.augmentation.substitutions import FILE, substitutions
from mednli_jax.nli.task import corpus_of
from mednli_jax.report.options import AnalysisOptions

# MeSH puts asthma and bronchitis under Bronchial Diseases (C08.127.108 and .446), but not
# hypertension.
TRAIN = [
    pair("Known asthma and bronchitis .", "He has hypertension .", uid=f"t{n}") for n in range(3)
]
ASTHMA = "The lady has an Asthma ."


def pairs_of(*premises, train=TRAIN, ontology="mesh"):
    """Pairs with these premises in test, with the concepts of an ontology."""
    config = read_config("esim_kim")
    config.knowledge.ontology = str(ontology)
    test = [pair(premise, "x", uid=premise) for premise in premises]
    splits = {"train": Split("train", tuple(train)), "test": Split("test", tuple(test))}
    return AnalysedPairs(corpus_of(config), splits=splits)


def probe(pairs):
    return substitutions(pairs, AnalysisOptions(count=9, seed=0))


def rows_of(report):
    return [json.loads(line) for line in report.files[FILE].splitlines()]


@pytest.fixture(scope="module")
def pairs():
    """Of the last three premises, the first denies its word, the second has it twice, and the third
    has one without a co-hyponym."""
    denied = "She had no asthma ."
    twice = "Asthma , then asthma again ."
    return pairs_of(ASTHMA, denied, twice, "Seen for hypertension .")


def test_a_word_that_stands_once_and_is_not_denied_is_replaced_by_its_co_hyponym(pairs):
    """The article changes with the word."""
    report = probe(pairs)
    (row,) = rows_of(report)
    assert row["sentence1"] == ASTHMA
    assert row["sentence2"] == "The lady has a Bronchitis ."
    assert row["gold_label"] == "contradiction"
    assert row["genre"] == "co_hyponym"
    assert report.figures["categories"] == {"co_hyponym": {"pairs": 1, "label": "contradiction"}}


@pytest.mark.parametrize(
    "sides",
    [
        ("asthma", "bronchitis"),
        ("Bronchitis", "an asthma"),
    ],
)
def test_words_that_a_training_pair_links_are_left_out(sides):
    premise, hypothesis = sides
    trained = pair(f"Has {premise} .", f"Has {hypothesis} .", uid="t9")
    with pytest.raises(UserError):
        probe(pairs_of(ASTHMA, train=[*TRAIN, trained]))


def test_text_of_a_corpus_that_is_not_open_is_private(pairs, monkeypatch):
    monkeypatch.setattr(pairs, "corpus", replace(pairs.corpus, name="mednli"))
    report = probe(pairs)
    assert not report.files
    assert set(report.private) == {"substitutions.json", FILE}


def test_a_noun_of_wordnet_follows_a_determiner_in_its_first_sense(tmp_path):
    """In its first sense "cold" is the antonym of heat, in another a kind of illness."""
    lay_out(tmp_path, WORDNET)
    train = [pair("body illness cold heat", "Paris", uid=f"t{n}") for n in range(3)]
    premises = ("See the body .", "See body .", "See a cold .")

    rows = rows_of(probe(pairs_of(*premises, train=train, ontology=tmp_path)))

    genre_of = {row["sentence2"]: row["genre"] for row in rows}
    assert genre_of["See the illness ."] == "co_hyponym"
    assert genre_of["See a heat ."] == "antonym"
    assert "See an illness ." not in genre_of
    assert all(sentence.startswith(("See the", "See a")) for sentence in genre_of)
