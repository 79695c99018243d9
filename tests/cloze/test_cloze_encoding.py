"""Prepared cloze corpora hold the tokens of the views, each passage once, and only words of
training."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.cloze import corpus, own_part

from mednli_jax.cloze.encoding import (
    SETUPS,
    ClozeEncoding,
    Texts,
    all_views,
    encode_cloze,
    encode_new,
    loose_positions,
)
from mednli_jax.data.examples import Answer
from mednli_jax.data.text import SPECIALS, UNK
from mednli_jax.errors import UserError


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("limits", [{}, {"max_passage": 17}])
def test_arrays_say_what_the_views_say(setup, limits):
    encoding = ClozeEncoding(setup, vectors_dim=4, **limits)
    splits, arrays, vocab, vectors, facts = encode_cloze(corpus(), encoding)
    texts, row, passages, types = Texts(arrays), 0, {}, {}
    for name, part in splits.items():
        assert facts["splits"][name]["first"] == row
        shared = all_views(part.examples, setup, max_tokens=encoding.max_passage)
        for case, view in shared:
            number = arrays["query_passage"][row]
            assert passages.setdefault(case.passage.uid, number) == number
            expected = vocab.encode(view.passage.tokens)
            assert own_part(arrays, "passage", number) == expected
            assert texts.candidates(number) == view.passage.candidates
            assert texts.answers(row) == case.answers
            assert arrays["gold"][row] == arrays["label"][row] == view.gold
            size, candidates = arrays["query_length"][row], view.passage.candidates
            assert (arrays["premise_length"][row], arrays["hypothesis_length"][row]) == (
                len(expected),
                size,
            )
            check_positions(arrays, "position", number, view.passage.positions)
            if setup == "noent":
                check_positions(
                    arrays,
                    "loose_position",
                    number,
                    loose_positions(view.passage.tokens, candidates),
                )
            for phrase, type_ in zip(
                candidates, own_part(arrays, "candidate_type", number), strict=True
            ):
                assert (
                    types.setdefault(
                        view.passage.names[phrase] if setup == "anonym" else phrase, type_
                    )
                    == type_
                )
            lengths = own_part(arrays, "candidate_length", number, "candidate_type")
            assert lengths == [len(phrase.split()) for phrase in candidates]
            assert arrays["query"][row, :size].tolist() == vocab.encode(view.query)
            assert view.query[arrays["blank"][row]] == "@placeholder"
            assert not arrays["query"][row, size:].any()
            row += 1
    assert row == len(arrays["query"]) == len(arrays["answer_text_start"]) - 1
    assert len(passages) == len(arrays["passage_start"]) - 1  # each passage is stored once
    assert sorted(types.values()) == list(range(facts["candidates"]["types"]))
    assert vectors.shape == (len(vocab), 4)
    assert ("loose_position" in arrays) == (setup == "noent")


def check_positions(arrays, name, number, positions):
    places = [
        (c, p)
        for c, spans in enumerate(positions)
        for start, end in spans
        for p in range(start, end)
    ]
    assert own_part(arrays, f"{name}_candidate", number, name) == [c for c, _ in places]
    assert own_part(arrays, name, number) == [p for _, p in places]


@pytest.mark.parametrize("setup", SETUPS)
def test_training_is_filtered_dev_and_test_are_whole(setup):
    splits = corpus()
    kept, arrays, _, _, facts = encode_cloze(splits, ClozeEncoding(setup, vectors_dim=4))
    assert all(len(kept[name]) == len(splits[name]) for name in ("dev", "test"))
    rows = facts["splits"]["train"]
    assert (arrays["gold"][: rows["rows"]] >= 0).all()
    answerable = rows["answerable"]
    assert answerable["exact"] + answerable["synonym"] == len(kept["train"]) < len(splits["train"])
    assert sum(answerable.values()) == len(splits["train"])
    dev = facts["splits"]["dev"]
    gold = arrays["gold"][dev["first"] : dev["first"] + dev["rows"]]
    assert (gold < 0).sum() == dev["answerable"]["none"] > 0
    assert dev["file"] == "dev1.0.json"


def test_the_vocabulary_is_that_of_training():
    splits = corpus()
    kept, _, vocab, _, facts = encode_cloze(splits, ClozeEncoding("noent", vectors_dim=4))
    train = {
        token for case in kept["train"].examples for token in (*case.passage.tokens, *case.query)
    }
    assert set(vocab.words[2:]) == {word.lower() for word in train}
    assert "xylo" not in vocab
    dev = facts["splits"]["dev"]
    views = [view for _, view in all_views(kept["dev"].examples, "noent")]
    assert (
        dev["unknown_tokens"]["query"]
        == sum(vocab.encode(view.query).count(UNK) for view in views)
        > 0
    )
    once = {case.passage.uid: case.passage for case in kept["train"].examples}.values()
    often = Counter(word for passage in once for word in passage.tokens)
    often.update(word for case in kept["train"].examples for word in case.query)
    assert list(vocab.words[2:]) == sorted(train, key=lambda word: (-often[word], word))


def test_words_of_other_splits_with_a_vector_are_added(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("xylo 1 2 3\nw3 4 5 6\nelsewhere 7 8 9\n")
    encoding = ClozeEncoding("noent", vectors_path=path, vectors_dim=3, vectors_seed=5)
    _, _, vocab, vectors, facts = encode_cloze(corpus(("xylo", "yodel")), encoding)
    by_word = dict(zip(vocab.words, vectors.tolist(), strict=True))
    assert (by_word["xylo"], by_word["w3"]) == ([1, 2, 3], [4, 5, 6])
    assert "yodel" not in vocab
    assert "elsewhere" not in vocab
    assert by_word[SPECIALS[0]] == [0, 0, 0]
    words = facts["vocabulary"]
    assert (words["with_vector"], words["of_other_splits"], words["words"]) == (
        2,
        1,
        len(vocab) - 2,
    )
    assert words["source"] == "v.txt"
    assert words["coverage"]["share_of_words"]["found"] == pytest.approx(
        2 / (len(vocab) - 2 + 1)
    )  # "yodel" is missing


def test_queries_stand_between_bounds_where_that_is_asked_for():
    """The blank moves by one, and nothing else changes."""
    _, plain, vocab, _, _ = encode_cloze(corpus(), ClozeEncoding("ent", vectors_dim=4))
    encoding = ClozeEncoding("ent", vectors_dim=4, query_bounds=True)
    kept, arrays, bounded, _, _ = encode_cloze(corpus(), encoding)
    assert set(bounded.words) == {*vocab.words, "@begin", "@end"}
    np.testing.assert_array_equal(arrays["query_length"], plain["query_length"] + 2)
    np.testing.assert_array_equal(arrays["blank"], plain["blank"] + 1)
    np.testing.assert_array_equal(arrays["gold"], plain["gold"])
    for row, length in enumerate(arrays["query_length"]):
        words = [bounded.words[number] for number in arrays["query"][row, :length]]
        assert (words[0], words[-1]) == ("@begin", "@end")
        assert words[1:-1] == [vocab.words[number] for number in plain["query"][row, : length - 2]]
    new, _ = encode_new({"new": kept["test"]}, bounded, encoding, ())
    for name in ("query_length", "blank"):
        np.testing.assert_array_equal(new[name], arrays[name][-len(kept["test"]) :])


def test_without_an_answerable_training_query_nothing_is_prepared():
    splits = corpus()
    nowhere = tuple(
        replace(case, answers=(Answer("not there"),)) for case in splits["train"].examples
    )
    splits["train"] = replace(splits["train"], examples=nowhere)
    with pytest.raises(UserError):
        encode_cloze(splits, ClozeEncoding("ent", vectors_dim=4))
