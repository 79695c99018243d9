"""Baselines that choose an entity of the passage: their answers to queries small enough to answer
by hand."""

from collections import Counter

import numpy as np
import pytest
from support.cloze import cloze, passage

from mednli_jax.cloze.baselines import (
    best_window,
    known_vectors,
    most_frequent_entity,
    most_frequent_word,
    most_similar_entity,
    out_of_passage,
    random_entity,
    random_expectation,
    upper_bound,
)
from mednli_jax.cloze.scores import query_scores, summary
from mednli_jax.data.text import SPECIALS, Vocab
from mednli_jax.errors import DataError

REPORT = (
    "[Fever] and [chest pain] . | [Aspirin] for the [fever] . | [Chest Pain] went , [cough] came ."
)


def test_the_most_frequent_entity():
    about = passage(REPORT)
    said = most_frequent_entity([cloze("q", about, "_ went", "cough")])
    assert said == {"q": "fever"}  # "chest pain" has as many mentions, but comes later
    examples = [
        cloze("marked", about, "[FEVER] causes _", "cough"),
        cloze("not marked", about, "fever causes _", "cough"),
        cloze("a part", about, "[Lassa fever] causes _", "cough"),
        cloze("two", about, "_ and the [fever] , [Chest pain]", "cough"),
        cloze("all", about, "[fever] , [chest pain] , [cough] , [aspirin] , _", "cough"),
    ]
    assert most_frequent_entity(examples, outside_query=True) == {
        "marked": "chest pain",
        "not marked": "fever",
        "a part": "fever",
        "two": "aspirin",
        "all": "fever",
    }


def test_the_most_frequent_word_is_neither_grammar_nor_a_sign():
    about = passage("the fever and the chills , , , , 3 3 3 of the fever [chills] . fever")
    assert most_frequent_word([cloze("q", about, "_", "fever")]) == {"q": "fever"}


def test_random_mentions():
    examples = [cloze(f"q{i}", REPORT, "_ went", "Fever", "cough") for i in range(4000)]
    said = random_entity(examples)
    shares = {phrase: count / 4000 for phrase, count in Counter(said.values()).items()}
    # Fever and chest pain have two of six mentions each. The standard deviation of a share is
    # .0075.
    expected = {"fever": 1 / 3, "chest pain": 1 / 3, "aspirin": 1 / 6, "cough": 1 / 6}
    assert shares == pytest.approx(expected, abs=4 * 0.0075)
    assert random_entity(examples) == said
    assert random_entity(examples, seed=1) != said
    expected = random_expectation(examples[:1])
    assert (expected["exact_match"], expected["f1"]) == pytest.approx((3 / 6, 3 / 6))
    assert summary(query_scores(examples, said))["exact_match"] == pytest.approx(0.5, abs=4 * 0.008)
    partly = [
        cloze("q", REPORT, "_ went", "back pain"),
        cloze("none", "no entity", "_ went", "fever"),
    ]
    expected = random_expectation(partly)
    assert (expected["exact_match"], expected["f1"]) == pytest.approx((0, (2 / 6 * 1 / 2) / 2))
    assert expected["embedding"] is None
    assert expected["predicted_length"] == pytest.approx(
        8 / 6
    )  # the mean over the one query that is answered
    words = set(random_entity(examples[:300], words=True).values())
    assert words == {word.lower() for word in passage(REPORT).tokens}
    drawn = [
        summary(query_scores(partly, random_entity(partly, seed=seed)))["bleu2"]
        for seed in range(10)
    ]
    assert expected["bleu2"] == pytest.approx(np.mean(drawn))


def test_the_embedding_score_of_random_mentions_by_hand():
    # The cosines with "north" are: north 1, south -1, east 0, zebra 0 (it has no vector).
    about = passage("[North] and [south] , [east] and [zebra] .")
    examples = [
        cloze("q", about, "_ went", "north"),
        cloze("two", about, "_ went", "north", "east"),
    ]
    expected = random_expectation(examples, VOCAB, VECTORS)
    # With two answers the nearer one counts: 1, 0 (east), 1, 0.
    assert expected["embedding"] == pytest.approx(((1 - 1 + 0 + 0) / 4 + (1 + 0 + 1 + 0) / 4) / 2)
    assert expected["predicted_length"] == 1


WORDS = ("north", "south", "east", "fever", "cough")
VOCAB = Vocab(SPECIALS + WORDS)
VECTORS = np.array([[7, 7], [5, 5], [0, 1], [0, -1], [1, 0], [9, 9], [-9, 9]], np.float32)


def similar(query, text, **how):
    return most_similar_entity([cloze("q", text, query, "x")], VOCAB, VECTORS, **how)["q"]


def test_the_entity_in_the_most_similar_context():
    text = "North [cough] north | South [Fever] ."
    assert similar("south of _", text) == "fever"
    assert similar("north of _", text) == "cough"
    # East is as near to both, so the first mention wins. It also wins where no word around the
    # blank has a vector.
    assert similar("east of _", text) == similar("zebra _", text) == "cough"
    # The words of the next sentence are no context.
    assert similar("south of _", "north a [cough] | south south [fever] .", window=2) == "fever"
    assert (
        similar("east _ fever", "North a south | east Wanted [fever] east", window=1, words=True)
        == "wanted"
    )


def test_the_best_window_by_f1():
    text = "south south north a b [cough] | north a b c d [fever]"
    examples = [cloze("q", text, "north _", "fever")]
    window, found = best_window(examples, VOCAB, VECTORS, windows=(3, 6, 5, 4))
    assert window == 5
    assert {window: scores["f1"] for window, scores in found.items()} == {3: 0, 4: 0, 5: 1, 6: 1}
    assert found[5]["embedding"] == pytest.approx(1)


def test_exact_matches_do_not_choose_the_window():
    """Window 3 gives "cough" and window 5 "fever": one exact match, or two answers with an F1 of
    2/3."""
    text = "south south north a b [cough] | north a b c d [fever]"
    answers = ("cough", "high fever", "mild fever")
    examples = [
        cloze(f"q{number}", text, "north _", answer) for number, answer in enumerate(answers)
    ]
    window, found = best_window(examples, VOCAB, VECTORS, windows=(3, 5))
    assert [found[size]["exact_match"] for size in (3, 5)] == pytest.approx([1 / 3, 0])
    assert [found[size]["f1"] for size in (3, 5)] == pytest.approx([1 / 3, 4 / 9])
    assert window == 5


def test_the_upper_bound_is_the_best_an_entity_can_score():
    examples = [
        cloze("there", REPORT, "_", "Pain", "the chest pain"),
        cloze("partly", REPORT, "_", "back pain"),
        cloze("not", REPORT, "_", "rash"),
        cloze("no entity", "nothing marked", "_", "fever"),
    ]
    best = upper_bound(examples)
    said = most_similar_entity(examples, VOCAB, VECTORS)
    assert said.keys() == best.keys()  # a passage without entities has no answer
    assert best == {"there": "chest pain", "partly": "chest pain", "not": "fever"}
    outside = out_of_passage(examples, best)
    assert [example.uid for example in outside] == ["partly", "not", "no entity"]
    scores, others = (
        query_scores(examples, best),
        query_scores(examples, most_frequent_entity(examples)),
    )
    assert (others.exact <= scores.exact).all()
    assert (others.f1 <= scores.f1).all()


def test_vectors_of_the_words_of_a_corpus(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("fever 1 2\ntcell 3 4\ncough 5 6\nrash 7 8\nzebra 9 9\n")
    examples = [cloze("q", "Fever of the T-cell", "cough _", "fever")]
    vocab, vectors = known_vectors(path, examples, more=["the Rash!"])
    assert set(vocab.words[2:]) == {"fever", "tcell", "cough", "rash"}
    assert vectors[vocab.words.index("tcell")].tolist() == [3, 4]
    path.write_text("zebra 1 2\n")
    with pytest.raises(DataError, match=r"v\.txt: .* Fix: "):
        known_vectors(path, examples)
