"""Baselines that choose an entity of the passage: their answers to queries small enough to answer
by hand."""

from collections import Counter

import numpy as np
import pytest
from support.cloze import cloze, passage
from support.files import write
from support.tables import table_rows

from mednli_jax.cloze.baselines import (
    best_window,
    known_vectors,
    lowered_words,
    most_frequent_entity,
    most_similar_entity,
    out_of_passage,
    random_entity,
    random_expectation,
    upper_bound,
    word_spans,
    words_of_examples,
    words_of_texts,
)
from mednli_jax.cloze.scores import query_scores, summary
from mednli_jax.data.text import SPECIALS, Vocab
from mednli_jax.errors import DataError

REPORT = (
    "[Fever] and [chest pain] . | [Aspirin] for the [fever] . | [Chest Pain] went , [cough] came ."
)


def test_the_baseline_of_frequent_entities_takes_the_first_of_equally_frequent_ones():
    assert most_frequent_entity([cloze("q", REPORT, "_ went", "cough")]) == {"q": "fever"}


def shares(answers):
    count = Counter(answers.values())
    return {text: times / len(answers) for text, times in count.items()}


def bleu2(examples, answers):
    return summary(query_scores(examples, answers))["bleu2"]


@pytest.fixture(scope="module")
def many():
    return [cloze(f"q{number}", REPORT, "_ went", "Fever", "cough") for number in range(4000)]


def test_a_random_entity_is_drawn_by_its_mentions(many):
    """Fever and chest pain have two of six mentions each. The standard deviation of a share is
    .0075."""
    answers = random_entity(many)

    expected = {
        "fever": 1 / 3,
        "chest pain": 1 / 3,
        "aspirin": 1 / 6,
        "cough": 1 / 6,
    }
    assert shares(answers) == pytest.approx(expected, abs=4 * 0.0075)
    assert answers == random_entity(many)
    assert answers != random_entity(many, seed=1)


def test_a_random_word_is_any_word_of_the_passage(many):
    words = set(random_entity(many[:300], choices_of=lowered_words).values())

    assert words == {word.lower() for word in passage(REPORT).tokens}


def test_the_expectation_of_random_entities_is_their_mean_score(many):
    expected = random_expectation(many[:1])

    assert (expected["exact_match"], expected["f1"]) == pytest.approx((3 / 6, 3 / 6))
    drawn = summary(query_scores(many, random_entity(many)))
    assert drawn["exact_match"] == pytest.approx(expected["exact_match"], abs=4 * 0.008)


def test_the_expectation_of_random_entities_counts_queries_without_an_entity_as_wrong():
    examples = [
        cloze("partly", REPORT, "_ went", "back pain"),
        cloze("none", "no entity", "_ went", "fever"),
    ]

    expected = random_expectation(examples)

    assert (expected["exact_match"], expected["f1"]) == pytest.approx((0, (2 / 6 * 1 / 2) / 2))
    assert expected["embedding"] is None
    # the mean over the one query that is answered
    assert expected["predicted_length"] == pytest.approx(8 / 6)
    drawn = [bleu2(examples, random_entity(examples, seed=seed)) for seed in range(10)]
    assert expected["bleu2"] == pytest.approx(np.mean(drawn))


# The cosines with "north" are: north 1, south -1, east 0, zebra 0 (it has no vector).
VOCAB = Vocab((*SPECIALS, "north", "south", "east", "fever", "cough"))
VECTORS = np.array([[7, 7], [5, 5], [0, 1], [0, -1], [1, 0], [9, 9], [-9, 9]], np.float32)


def test_the_expected_embedding_score_of_random_entities_is_that_worked_out_by_hand():
    about = passage("[North] and [south] , [east] and [zebra] .")
    examples = [
        cloze("q", about, "_ went", "north"),
        cloze("two", about, "_ went", "north", "east"),  # the nearer answer counts: 1, 0, 1, 0
    ]

    expected = random_expectation(examples, VOCAB, VECTORS)

    assert expected["embedding"] == pytest.approx(((1 - 1 + 0 + 0) / 4 + (1 + 0 + 1 + 0) / 4) / 2)
    assert expected["predicted_length"] == 1


TWO_SENTENCES = "North [cough] north | South [Fever] ."


def most_similar(query, text, **options):
    return most_similar_entity([cloze("q", text, query, "x")], VOCAB, VECTORS, **options)["q"]


@pytest.mark.parametrize(
    "query, answer",
    table_rows("""
        south of _ | fever
        north of _ | cough
        # East is as near to both: the first mention wins, also where no word has a vector.
        east of _ | cough
        zebra _ | cough
    """),
)
def test_the_baseline_of_contexts_takes_the_entity_in_the_context_most_like_the_query(
    query, answer
):
    assert most_similar(query, TWO_SENTENCES) == answer


def test_the_context_of_an_entity_ends_with_its_sentence():
    text = "north a [cough] | south south [fever] ."

    assert most_similar("south of _", text, window=2) == "fever"


def test_the_baseline_of_contexts_takes_any_word_in_the_context_most_like_the_query():
    text = "North a south | east Wanted [fever] east"

    assert most_similar("east _ fever", text, window=1, spans_of=word_spans) == "wanted"


# Windows up to 4 words give "cough", larger ones "fever".
WINDOW_TEXT = "south south north a b [cough] | north a b c d [fever]"


def test_the_first_window_of_the_best_f1_is_chosen():
    examples = [cloze("q", WINDOW_TEXT, "north _", "fever")]

    window, scores = best_window(examples, VOCAB, VECTORS, windows=(3, 6, 5, 4))

    assert window == 5
    assert {size: of_size["f1"] for size, of_size in scores.items()} == {
        3: 0,
        4: 0,
        5: 1,
        6: 1,
    }
    assert scores[5]["embedding"] == pytest.approx(1)


def test_exact_matches_do_not_choose_the_window():
    answers = ("cough", "high fever", "mild fever")
    examples = [cloze(answer, WINDOW_TEXT, "north _", answer) for answer in answers]

    window, scores = best_window(examples, VOCAB, VECTORS, windows=(3, 5))

    assert scores[3]["exact_match"] == pytest.approx(1 / 3)
    assert scores[5]["exact_match"] == 0
    assert (scores[3]["f1"], scores[5]["f1"]) == pytest.approx((1 / 3, 4 / 9))
    assert window == 5


EXAMPLES = [
    cloze("in it", REPORT, "_", "Pain", "the chest pain"),
    cloze("partly", REPORT, "_", "back pain"),
    cloze("not", REPORT, "_", "rash"),
    cloze("no entity", "nothing marked", "_", "fever"),
]


def test_the_upper_bound_is_the_best_score_of_an_entity():
    best = upper_bound(EXAMPLES)

    assert best == {"in it": "chest pain", "partly": "chest pain", "not": "fever"}
    assert most_similar_entity(EXAMPLES, VOCAB, VECTORS).keys() == best.keys()
    scores = query_scores(EXAMPLES, best)
    of_baseline = query_scores(EXAMPLES, most_frequent_entity(EXAMPLES))
    assert (of_baseline.exact <= scores.exact).all()
    assert (of_baseline.f1 <= scores.f1).all()


def test_queries_that_no_entity_matches_are_out_of_the_passage():
    outside = out_of_passage(EXAMPLES, upper_bound(EXAMPLES))

    assert [example.uid for example in outside] == ["partly", "not", "no entity"]


def test_the_words_of_a_corpus_and_further_texts_have_vectors(tmp_path):
    rows = "fever 1 2\ntcell 3 4\ncough 5 6\nrash 7 8\nzebra 9 9\n"
    examples = [cloze("q", "Fever of the T-cell", "cough _", "fever")]

    words = words_of_examples(examples) | words_of_texts(["the Rash!"])

    vocab, vectors = known_vectors(write(tmp_path / "v.txt", rows), words)

    assert set(vocab.words[2:]) == {"fever", "tcell", "cough", "rash"}
    assert vectors[vocab.words.index("tcell")].tolist() == [3, 4]


def test_vectors_without_a_word_of_the_corpus_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"v\.txt: .* Fix: "):
        known_vectors(write(tmp_path / "v.txt", "zebra 1 2\n"), words_of_examples(EXAMPLES))
