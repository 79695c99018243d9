"""Scores of answers to cloze queries against values worked out by hand, and BLEU against nltk's."""

import math

import numpy as np
import pytest
from nltk.translate.bleu_score import corpus_bleu
from support.cloze import cloze

from mednli_jax.cloze.scores import (
    embedding_score,
    exact_match,
    figures,
    query_scores,
    summary,
    token_f1,
)
from mednli_jax.data.text import SPECIALS, Vocab

# Prediction, accepted answers, exact match, F1.
TRICKY = [
    ("asthma", ["asthma"], 1, 1),
    (" chest\tpain\n", ["chest  pain"], 1, 1),
    ("chest pain", ["pain chest"], 0, 1),  # F1 ignores the order of words
    ("pain in the chest", ["chest pain"], 0, 4 / 5),  # 2 of 3 words match, and 2 of 2
    ("pain pain", ["chest pain"], 0, 1 / 2),  # the second word is one too many
    (
        "T-cell lymphoma",
        ["T cell lymphoma"],
        0,
        2 / 5,
    ),  # punctuation is deleted, not replaced by a space
    ("C.R.P.", ["crp"], 1, 1),
    ("en–dash", ["en-dash"], 0, 0),  # the dash is not ASCII
    ("anaemia", ["an aemia"], 0, 0),  # only whole words are articles
    ("the", ["asthma"], 0, 0),
    ("group A", ["Group"], 1, 1),
    ("A", ["a"], 1, 1),  # "A" is an article, so nothing of "A" is left
    ("+", ["-"], 0, 0),
    ("MI", ["heart attack", "myocardial infarction", "MI"], 1, 1),
    (
        "heart",
        ["heart attack of old age", "heart attack"],
        0,
        2 / 3,
    ),  # the best answer counts, not the first
]


@pytest.mark.parametrize(("prediction", "answers", "exact", "f1"), TRICKY)
def test_exact_match_and_f1_by_hand(prediction, answers, exact, f1):
    for order in (answers, answers[::-1]):
        assert exact_match(prediction, order) == bool(exact)
        assert token_f1(prediction, order) == pytest.approx(f1)


def score(examples, predictions, *vectors):
    return figures(examples, query_scores(examples, predictions, *vectors))


def bleu(said, answers, order):
    examples = [cloze(f"q{number}", "x", "_", *own) for number, own in enumerate(answers)]
    predictions = {example.uid: text for example, text in zip(examples, said, strict=True)}
    return summary(query_scores(examples, predictions))[f"bleu{order}"]


def test_bleu_by_hand():
    # Words match 3/3 and 1/1. Of two bigrams "chest pain" matches, and the other prediction has
    # none. Lengths are 3 + 1 against 2 (2 and 4 are equally near) + 2.
    said, answers = (
        ["acute chest pain", "fever"],
        [["chest pain", "acute pain in chest"], ["high fever"]],
    )
    assert bleu(said, answers, 2) == pytest.approx(math.sqrt(4 / 4 * 1 / 2))
    assert bleu(said, answers, 4) == 0.0
    assert bleu([""], [["pain"]], 2) == 0.0


def test_bleu_compares_lengths_with_the_nearest_answer():
    """The answers have 1 and 5 words and the prediction has 4, all of which match: 5 is nearer."""
    answers = [["pain", "acute chest pain at night"]]
    assert bleu(["acute chest pain at"], answers, 2) == pytest.approx(math.exp(1 - 5 / 4))


@pytest.mark.filterwarnings("ignore")  # nltk warns if an order has no match
@pytest.mark.parametrize("seed", range(9))
def test_bleu_equals_nltk(seed):
    """Texts have at least four words, because nltk counts an n-gram for shorter ones although there
    is none."""
    rng = np.random.default_rng(seed)

    def text(least):
        return " ".join(rng.choice(list("bc"), rng.integers(least, 8)))

    said = [text(4) for _ in range(20)]
    answers = [[text(1) for _ in range(rng.integers(1, 4))] for _ in said]
    references = [[answer.split() for answer in own] for own in answers]
    for order in (2, 4):
        expected = corpus_bleu(references, [one.split() for one in said], (1 / order,) * order)
        assert bleu(said, answers, order) == pytest.approx(expected, abs=1e-12)
        assert expected > 0.001


VOCAB = Vocab((*SPECIALS, "fever", "pain", "chest"))
VECTORS = np.array([[0, 0], [9, -9], [1, 0], [0, 1], [1, 1]], np.float32)


def test_embedding_score_by_hand():
    def emb(prediction, *answers):
        return embedding_score(prediction, answers, VOCAB, VECTORS)

    assert emb("fever", "pain") == pytest.approx(0)
    assert emb("Chest pain", "the pain!") == pytest.approx(
        1 / math.sqrt(1.25)
    )  # (1/2, 1) against (0, 1)
    assert emb("chest pain", "fever", "pain") == emb("chest pain", "pain")
    assert emb("pain pain fever", "fever") == pytest.approx(1 / math.sqrt(5))  # (1/3, 2/3)
    assert emb("zebra fever", "fever") == pytest.approx(1)  # a word without a vector does not count
    assert emb("zebra", "fever") == emb("", "fever") == emb("fever", "zebra") == 0.0


EXAMPLES = [
    cloze("q1", "x", "_", "asthma", tags=("seen",)),
    cloze("q2", "x", "_", "chest pain", "thoracic pain", tags=("unseen",)),
    cloze("q3", "x", "_", "open biopsy of the left lung", kind="test", tags=("unseen",)),
    cloze("q4", "x", "_", "aspirin", kind=""),
]
SAID = {"q1": "Asthma", "q2": "pain", "q3": "", "other": "asthma"}


def test_a_split_scored_by_hand_and_without_answers():
    scores = score(EXAMPLES, SAID)
    assert (scores["queries"], scores["missing"], scores["embedding"]) == (4, 1, None)
    assert scores["exact_match"] == pytest.approx(1 / 4)
    assert scores["f1"] == pytest.approx((1 + 2 / 3 + 0 + 0) / 4)
    assert scores["predicted_length"] == pytest.approx(
        (1 + 1 + 0) / 3
    )  # the mean over the three predictions
    assert scores["answer_length"] == pytest.approx((1 + 2 + 5 + 1) / 4)
    by = scores["slices"]
    assert {family: list(named) for family, named in by.items()} == {
        "answer length": ["1", "2", "5+"],
        "semantic type": ["none", "problem", "test"],
        "tag": ["seen", "unseen"],
    }
    assert (by["tag"]["unseen"]["queries"], by["tag"]["unseen"]["f1"]) == (2, pytest.approx(1 / 3))
    assert (by["answer length"]["1"]["queries"], by["answer length"]["1"]["missing"]) == (2, 1)
    assert sum(found["queries"] for found in by["semantic type"].values()) == 4
    scores = score(EXAMPLES, {}, VOCAB, VECTORS)
    assert scores["missing"] == 4
    assert {scores[name] for name in ("exact_match", "f1", "bleu2", "bleu4", "embedding")} == {0.0}
    assert scores["predicted_length"] is None
