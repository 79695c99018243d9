"""Prepared cloze corpora hold the tokens of the views, each passage once, and only words of
training."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.cases import cases
from support.cloze import corpus, own_slice
from support.files import write

from mednli_jax.cloze.arrays import ClozeEncoding, ClozeTexts, encode_cloze
from mednli_jax.cloze.setups import SETUPS, loose_positions, queries_in_setup
from mednli_jax.data.examples import Answer
from mednli_jax.data.text import SPECIALS, UNK
from mednli_jax.errors import UserError


def encode(setup="ent", words=("xylo",), **options):
    return encode_cloze(corpus(words), ClozeEncoding(setup, **{"vectors_dim": 4, **options}))


def assert_positions(arrays, name, number, spans_of_candidates):
    candidates = []
    positions = []
    for candidate, spans in enumerate(spans_of_candidates):
        for start, end in spans:
            positions += range(start, end)
            candidates += [candidate] * (end - start)
    assert own_slice(arrays, f"{name}_candidate", number, name) == candidates
    assert own_slice(arrays, name, number) == positions


def assert_passage(arrays, number, view, vocab):
    tokens = view.passage.tokens
    candidates = view.passage.candidates
    assert own_slice(arrays, "passage", number) == vocab.encode(tokens)
    assert ClozeTexts(arrays).candidates(number) == candidates
    assert_positions(arrays, "position", number, view.passage.positions)
    if "loose_position" in arrays:
        assert_positions(arrays, "loose_position", number, loose_positions(tokens, candidates))
    lengths = own_slice(arrays, "candidate_length", number, "candidate_type")
    assert lengths == [len(phrase.split()) for phrase in candidates]


def assert_query(arrays, row, example, view, vocab):
    size = arrays["query_length"][row]
    assert arrays["query"][row, :size].tolist() == vocab.encode(view.query)
    assert not arrays["query"][row, size:].any()
    assert view.query[arrays["blank"][row]] == "@placeholder"
    assert arrays["gold"][row] == arrays["label"][row] == view.gold
    assert arrays["premise_length"][row] == len(view.passage.tokens)
    assert arrays["hypothesis_length"][row] == size
    assert ClozeTexts(arrays).answers(row) == example.answers


@pytest.mark.parametrize("setup", SETUPS)
@cases(
    "most",
    {
        "whole": ClozeEncoding.max_passage,
        "cut": 17,
    },
)
def test_arrays_hold_the_queries_and_passages_of_the_views(setup, most):
    splits, arrays, vocab, vectors, facts = encode(setup, max_passage=most)

    row = 0
    number_of_passage = {}
    type_of_phrase = {}
    for name, split in splits.items():
        assert facts["splits"][name]["first"] == row
        for example, view in queries_in_setup(split.examples, setup, max_tokens=most):
            number = arrays["query_passage"][row]
            assert number_of_passage.setdefault(example.passage.uid, number) == number
            assert_passage(arrays, number, view, vocab)
            assert_query(arrays, row, example, view, vocab)
            types = own_slice(arrays, "candidate_type", number)
            for phrase, of_phrase in zip(view.passage.candidates, types, strict=True):
                phrase = view.passage.names.get(phrase, phrase)
                assert type_of_phrase.setdefault(phrase, of_phrase) == of_phrase
            row += 1
    assert row == len(arrays["query"]) == len(arrays["answer_text_start"]) - 1
    assert len(number_of_passage) == len(arrays["passage_start"]) - 1  # each is stored once
    assert sorted(type_of_phrase.values()) == list(range(facts["candidates"]["types"]))
    assert vectors.shape == (len(vocab), 4)
    assert ("loose_position" in arrays) == (setup == "noent")


@pytest.mark.parametrize("setup", SETUPS)
def test_training_has_only_queries_with_a_right_candidate_dev_and_test_have_all(setup):
    splits = corpus()

    encoded, arrays, _, _, facts = encode(setup)

    train = facts["splits"]["train"]
    dev = facts["splits"]["dev"]
    for name in ("dev", "test"):
        assert len(encoded[name]) == len(splits[name])
    assert (arrays["gold"][: train["rows"]] >= 0).all()
    answerable = train["answerable"]
    right = answerable["exact"] + answerable["synonym"]
    assert right == len(encoded["train"]) < len(splits["train"]) == sum(answerable.values())
    gold = arrays["gold"][dev["first"] : dev["first"] + dev["rows"]]
    assert (gold < 0).sum() == dev["answerable"]["none"] > 0
    assert dev["file"] == "dev1.0.json"


def test_the_vocabulary_has_the_words_of_training_in_order_of_frequency():
    splits, _, vocab, _, _ = encode("noent")
    train = splits["train"].examples
    passages = {example.passage.uid: example.passage for example in train}
    count = Counter()
    for passage in passages.values():
        count.update(passage.tokens)
    for example in train:
        count.update(example.query)

    assert list(vocab.words[2:]) == sorted(count, key=lambda word: (-count[word], word))
    assert "xylo" not in vocab


def test_unknown_tokens_of_dev_are_counted():
    splits, _, vocab, _, facts = encode("noent")
    unknown = 0
    for _, view in queries_in_setup(splits["dev"].examples, "noent"):
        unknown += vocab.encode(view.query).count(UNK)

    assert facts["splits"]["dev"]["unknown_tokens"]["query"] == unknown > 0


def test_words_of_dev_and_test_with_a_vector_are_added(tmp_path):
    path = write(tmp_path / "v.txt", "xylo 1 2 3\nw3 4 5 6\nelsewhere 7 8 9\n")
    words = ("xylo", "yodel")

    _, _, vocab, vectors, facts = encode("noent", words, vectors_path=path, vectors_dim=3)

    vector_of = dict(zip(vocab.words, vectors.tolist(), strict=True))
    assert vector_of["xylo"] == [1, 2, 3]
    assert vector_of["w3"] == [4, 5, 6]
    assert not {"yodel", "elsewhere"} & vector_of.keys()
    assert vector_of[SPECIALS[0]] == [0, 0, 0]
    vocabulary = facts["vocabulary"]
    size = len(vocab) - len(SPECIALS)
    assert vocabulary["with_vector"] == 2
    assert vocabulary["of_other_splits"] == 1
    assert vocabulary["words"] == size
    assert vocabulary["source"] == "v.txt"


def test_bounds_stand_around_queries_and_move_the_blank_by_one():
    _, plain, vocab, _, _ = encode()
    _, arrays, bounded, _, _ = encode(query_bounds=True)

    assert set(bounded.words) == {*vocab.words, "@begin", "@end"}
    for name, moved_by in (
        ("query_length", 2),
        ("blank", 1),
        ("gold", 0),
    ):
        np.testing.assert_array_equal(arrays[name], plain[name] + moved_by)
    for row, length in enumerate(plain["query_length"]):
        words = [vocab.words[number] for number in plain["query"][row, :length]]
        expected = bounded.encode(["@begin", *words, "@end"])
        assert arrays["query"][row, : length + 2].tolist() == expected


def test_a_corpus_without_an_answerable_training_query_is_refused():
    splits = corpus()
    absent = (Answer("not there"),)
    train = splits["train"]
    examples = tuple(replace(example, answers=absent) for example in train.examples)

    with pytest.raises(UserError):
        encode_cloze({**splits, "train": replace(train, examples=examples)}, ClozeEncoding("ent"))
