"""Tokens and vocabularies: equal texts give equal numbers, and no token is lost."""

import random

import pytest
from nltk.tokenize import TreebankWordTokenizer
from support.tables import table_rows

from mednli_jax.data.text import (
    UNK,
    Vocab,
    binary_parse_tokens,
    indefinite_article,
    sentence_tokens,
    split_sentences,
    treebank_tokens,
)


@pytest.mark.parametrize(
    "parse, tokens",
    table_rows("""
        ( ( The patient ) ( is ( -LRB- not -RRB- ) ) . ) | The patient is ( not ) .
        ( ( -LSB- x -RSB- ) ( -LCB- y -RCB- ) ) | [ x ] { y }
        ( well :-RRB- ) | well :)
        ( B-12 low ) | B-12 low
        word | word
        ( ) |
    """),
)
def test_a_binary_parse_has_its_words_and_brackets_as_tokens(parse, tokens):
    assert " ".join(binary_parse_tokens(parse)) == tokens


@pytest.mark.parametrize(
    "text, tokens",
    table_rows("""
        Has diabetes. A1c was 8.3. Can't walk. | Has diabetes . A1c was 8.3 . Ca n't walk .
        Seen by Dr. Smith at St. John. Went home | Seen by Dr. Smith at St. John . Went home
        The pt. Smith has CHF. s/p CABG. | The pt. Smith has CHF . s/p CABG .
        pain at 8.3 units, e.g. Monday | pain at 8.3 units , e.g. Monday
        felt well... He left ... Then | felt well ... He left ... Then
        has fever. 38.5. 120/80. | has fever . 38.5 . 120/80 .
        1. CAD. 2. HTN | 1. CAD . 2. HTN
        糖尿病. 高血圧 | 糖尿病 . 高血圧
        β-blocker. 2 doses | β-blocker . 2 doses
        He has "gout." (She left.) Then | He has `` gout . '' ( She left . ) Then
        [**Dr. Last. 12. Name**] today. Well | [ **Dr. Last. 12. Name** ] today . Well
        2. | 2 .
    """),
)
def test_texts_of_several_sentences_are_tokenised_sentence_by_sentence(text, tokens):
    assert " ".join(treebank_tokens(text)) == tokens


def test_a_line_of_a_list_is_a_sentence():
    assert " ".join(treebank_tokens("1. CAD\n2. HTN.\n3. DM.")) == "1. CAD 2. HTN . 3. DM ."


def test_sentences_and_tokens_are_the_text_again():
    draw = random.Random(0)
    pieces = [*"aZé糖7.!?-*•()[];,\n ", ". ", " Dr. ", "8.3", "\n1. ", " q.d. ", "[**"]
    for _ in range(3000):
        text = "".join(draw.choices(pieces, k=draw.randrange(40)))

        assert "".join(split_sentences(text)) == text
        assert "".join(treebank_tokens(text)) == "".join(text.split())


def test_a_sentence_has_the_tokens_of_the_whole_sentence():
    tokenise = TreebankWordTokenizer().tokenize
    assert list(sentence_tokens(".'\n")) == tokenise(".'\n")
    draw = random.Random(0)
    pieces = [
        *"aZé1.,:;'\"`()[]-?!%$  \n\t\u00a0",
        "n't",
        "'s",
        "''",
        "...",
        "--",
        "cannot",
        "Gimme ",
        "'tis",
    ]
    for _ in range(3000):
        sentence = "".join(draw.choices(pieces, k=draw.randrange(16)))

        assert list(sentence_tokens(sentence)) == tokenise(sentence)


def test_a_vocabulary_has_every_token_in_order_of_frequency_whatever_the_order_of_texts():
    vocab = Vocab.build([("b", "a", "b"), ("c",)])

    assert vocab.words == ("<pad>", "<unk>", "b", "a", "c")
    assert vocab == Vocab.build(
        [
            ("c",),
            ("a",),
            ("b", "b"),
        ]
    )


def test_no_text_reaches_the_special_words_of_a_vocabulary():
    vocab = Vocab.build([("b", "a", "b", "<pad>", "<unk>")])

    assert vocab.words == ("<pad>", "<unk>", "b", "a")
    assert vocab.encode(["a", "A", "b", "zebra", "<pad>"]) == [3, UNK, 2, UNK, UNK]
    assert "A" not in vocab


@pytest.mark.parametrize(
    "article, words",
    [
        ("a", "urinary unit unilateral unanimous uterus uremia user one euphoric house UTI 110"),
        ("an", "unidentified unable uninjured ulcer upper umbrella hour MRI HIV-positive X-ray"),
        ("an", "8 80-year 11 18-month"),
    ],
)
def test_the_article_fits_the_sound_of_a_word(article, words):
    assert {indefinite_article(word) for word in words.split()} == {article}
