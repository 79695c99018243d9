"""Tokens and vocabularies: equal texts give equal numbers, and no token is lost."""

import random

import pytest

from mednli_jax.data.text import UNK, Vocab, binary_parse_tokens, split_sentences, treebank_tokens


def test_binary_parse_keeps_words_and_restores_brackets():
    parse = (
        "( ( The patient ) ( ( is ( -LRB- ( not -RRB- ) ) ) ( -LSB- x -RSB- -LCB- y -RCB- ) ) . )"
    )
    assert binary_parse_tokens(parse) == (
        "The",
        "patient",
        "is",
        "(",
        "not",
        ")",
        "[",
        "x",
        "]",
        "{",
        "y",
        "}",
        ".",
    )
    assert binary_parse_tokens("( well :-RRB- )") == ("well", ":)")
    assert binary_parse_tokens("( B-12 low )") == ("B-12", "low")
    assert binary_parse_tokens("word") == ("word",)
    assert binary_parse_tokens("( )") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Has diabetes. A1c was 8.3. Can't walk.", "Has diabetes . A1c was 8.3 . Ca n't walk ."),
        ("Seen by Dr. Smith at St. John. Went home", "Seen by Dr. Smith at St. John . Went home"),
        (
            "The pt. Smith has CHF. s/p CABG. h/o gout",
            "The pt. Smith has CHF . s/p CABG . h/o gout",
        ),
        ("pain at 8.3 units, e.g. Monday", "pain at 8.3 units , e.g. Monday"),
        ("felt well... He left ... Then", "felt well ... He left ... Then"),
        ("has fever. 38.5. 120/80.", "has fever . 38.5 . 120/80 ."),
        ("1. CAD. 2. HTN", "1. CAD . 2. HTN"),
        ("1. CAD\n2. HTN.\n3. DM.", "1. CAD 2. HTN . 3. DM ."),
        ("糖尿病. 高血圧", "糖尿病 . 高血圧"),
        ("β-blocker. 2 doses", "β-blocker . 2 doses"),
        ('He has "gout." (She left.) Then', "He has `` gout . '' ( She left . ) Then"),
        ("by [**Dr. Last. 12. Name**] today. Well", "by [ **Dr. Last. 12. Name** ] today . Well"),
        ("2.", "2 ."),
    ],
)
def test_texts_of_several_sentences_lose_no_token(text, expected):
    assert treebank_tokens(text) == tuple(expected.split())


def test_sentences_and_tokens_are_the_text_again():
    draw = random.Random(0)
    pieces = [*"aZé糖7.!?-*•()[];,\n ", ". ", " Dr. ", "8.3", "\n1. ", " q.d. ", "[**"]
    for _ in range(3000):
        text = "".join(draw.choices(pieces, k=draw.randrange(40)))
        assert "".join(split_sentences(text)) == text
        assert "".join(treebank_tokens(text)) == "".join(text.split())


def test_vocab_keeps_every_token_in_order_of_frequency_and_no_text_reaches_the_special_words():
    one, other = (
        Vocab.build(texts) for texts in ([("b", "a", "b"), ("c",)], [("c",), ("a",), ("b", "b")])
    )
    assert one == other
    assert one.words == ("<pad>", "<unk>", "b", "a", "c")
    vocab = Vocab.build([("b", "a", "b", "<pad>", "<unk>")])
    assert vocab.words == ("<pad>", "<unk>", "b", "a")
    assert vocab.encode(["a", "A", "b", "zebra", "<pad>"]) == [3, UNK, 2, UNK, UNK]
    assert ("a" in vocab, "A" in vocab) == (True, False)
