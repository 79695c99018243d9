"""Scores of answers to cloze queries against values worked out by hand, and BLEU against nltk's."""

import math
from fractions import Fraction

import numpy as np
import pytest
from nltk.translate.bleu_score import corpus_bleu
from support.cloze import cloze
from support.tables import table_rows

from mednli_jax.cloze.scores import (
    embedding_score,
    exact_match,
    query_scores,
    summary,
    summary_with_slices,
    token_f1,
)
from mednli_jax.data.text import SPECIALS, Vocab


@pytest.mark.parametrize(
    "prediction, answers, exact, f1",
    table_rows("""
        asthma | asthma | 1 | 1
        # F1 ignores the order of words
        chest pain | pain chest | 0 | 1
        # 2 of 3 words match, and 2 of 2
        pain in the chest | chest pain | 0 | 4/5
        # the second word is one too many
        pain pain | chest pain | 0 | 1/2
        # punctuation is deleted, not replaced by a space
        T-cell lymphoma | T cell lymphoma | 0 | 2/5
        C.R.P. | crp | 1 | 1
        # the dash is not ASCII
        en–dash | en-dash | 0 | 0
        # only whole words are articles
        anaemia | an aemia | 0 | 0
        the | asthma | 0 | 0
        group A | Group | 1 | 1
        # "A" is an article, so nothing of "A" is left
        A | a | 1 | 1
        + | - | 0 | 0
        # the best answer counts, not the first
        MI | heart attack/myocardial infarction/MI | 1 | 1
        heart | heart attack of old age/heart attack | 0 | 2/3
    """),
)
def test_exact_match_and_f1_of_clicr_are_those_worked_out_by_hand_for_the_best_answer(
    prediction, answers, exact, f1
):
    in_order = answers.split("/")
    for texts in (in_order, in_order[::-1]):
        assert exact_match(prediction, texts) == int(exact)
        assert token_f1(prediction, texts) == pytest.approx(float(Fraction(f1)))


def test_blanks_do_not_count_in_exact_match():
    assert exact_match(" chest\tpain\n", ["chest  pain"])


def bleu(predictions, answers, order):
    """answers: of each prediction, with "/" between."""
    examples = []
    texts = {}
    for number, (prediction, of_query) in enumerate(zip(predictions, answers, strict=True)):
        examples.append(cloze(f"q{number}", "x", "_", *of_query.split("/")))
        texts[f"q{number}"] = prediction
    return summary(query_scores(examples, texts))[f"bleu{order}"]


def test_bleu_of_answers_is_that_worked_out_by_hand():
    """Words match 3/3 and 1/1. Of two bigrams "chest pain" matches, and the other prediction has
    none. Lengths are 3 + 1 against 2 (2 and 4 are equally near) + 2."""
    predictions = ["acute chest pain", "fever"]
    answers = ["chest pain/acute pain in chest", "high fever"]

    assert bleu(predictions, answers, 2) == pytest.approx(math.sqrt(4 / 4 * 1 / 2))
    assert bleu(predictions, answers, 4) == 0.0
    assert bleu([""], ["pain"], 2) == 0.0


def test_bleu_compares_lengths_with_the_nearest_answer():
    """The answers have 1 and 5 words and the prediction has 4, all of which match: 5 is nearer."""
    answers = ["pain/acute chest pain at night"]

    assert bleu(["acute chest pain at"], answers, 2) == pytest.approx(math.exp(1 - 5 / 4))


@pytest.mark.filterwarnings("ignore")  # nltk warns if an order has no match
@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("seed", range(9))
def test_bleu_of_answers_equals_that_of_nltk(seed, order):
    """Texts have at least four words, because nltk counts an n-gram for shorter ones although there
    is none."""
    rng = np.random.default_rng(seed)

    def text(least):
        return " ".join(rng.choice(list("bc"), rng.integers(least, 8)))

    predictions = [text(4) for _ in range(20)]
    answers = ["/".join(map(text, [1] * rng.integers(1, 4))) for _ in predictions]
    references = []
    for of_query in answers:
        references.append([answer.split() for answer in of_query.split("/")])
    hypotheses = [prediction.split() for prediction in predictions]

    expected = corpus_bleu(references, hypotheses, (1 / order,) * order)
    assert bleu(predictions, answers, order) == pytest.approx(expected, abs=1e-12)
    assert expected > 0.001


VOCAB = Vocab((*SPECIALS, "fever", "pain", "chest"))
VECTORS = np.array([[0, 0], [9, -9], [1, 0], [0, 1], [1, 1]], np.float32)


@pytest.mark.parametrize(
    "prediction, answers, squared",
    table_rows("""
        fever | pain | 0
        # (1/2, 1) against (0, 1)
        Chest pain | the pain! | 4/5
        # the nearest answer counts
        chest pain | fever/pain | 4/5
        # (1/3, 2/3) against (1, 0)
        pain pain fever | fever | 1/5
        # a word without a vector does not count
        zebra fever | fever | 1
        zebra | fever | 0
        | fever | 0
        fever | zebra | 0
    """),
)
def test_the_embedding_score_is_the_cosine_of_mean_vectors(prediction, answers, squared):
    score = embedding_score(prediction, answers.split("/"), VOCAB, VECTORS)

    assert score**2 == pytest.approx(float(Fraction(squared)))


EXAMPLES = [
    cloze("q1", "x", "_", "asthma", tags=("seen",)),
    cloze(
        "q2",
        "x",
        "_",
        "chest pain",
        "thoracic pain",
        tags=("unseen",),
    ),
    cloze(
        "q3",
        "x",
        "_",
        "open biopsy of the left lung",
        kind="test",
        tags=("unseen",),
    ),
    cloze("q4", "x", "_", "aspirin", kind=""),
]
PREDICTIONS = {"q1": "Asthma", "q2": "pain", "q3": "", "q5": "asthma"}


@pytest.fixture(scope="module")
def scores():
    return summary_with_slices(EXAMPLES, query_scores(EXAMPLES, PREDICTIONS))


def test_the_scores_of_a_split_are_means_over_its_queries(scores):
    assert scores["queries"] == 4
    assert scores["missing"] == 1
    assert scores["embedding"] is None
    assert scores["exact_match"] == pytest.approx(1 / 4)
    assert scores["f1"] == pytest.approx((1 + 2 / 3 + 0 + 0) / 4)
    # the mean over the three predictions
    assert scores["predicted_length"] == pytest.approx((1 + 1 + 0) / 3)
    assert scores["answer_length"] == pytest.approx((1 + 2 + 5 + 1) / 4)


def test_a_split_is_sliced_by_tag(scores):
    slices = scores["slices"]

    assert list(slices) == ["tag"]
    assert list(slices["tag"]) == ["seen", "unseen"]
    unseen = slices["tag"]["unseen"]
    assert unseen["queries"] == 2
    assert unseen["f1"] == pytest.approx(1 / 3)


def test_a_split_without_predictions_scores_nothing():
    scores = summary_with_slices(EXAMPLES, query_scores(EXAMPLES, {}, VOCAB, VECTORS))

    assert scores["missing"] == 4
    for name in ("exact_match", "f1", "bleu2", "bleu4", "embedding"):
        assert scores[name] == 0.0
    assert scores["predicted_length"] is None
