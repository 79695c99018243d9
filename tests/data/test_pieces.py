"""Word pieces against the reference tokeniser; words of pieces; vocabularies made from a corpus."""

import hashlib
import itertools
import json
import sys
from pathlib import Path

import pytest
from support.cases import cases
from support.files import write
from support.tables import table_rows
from support.texts import pairs as varied_pairs

from mednli_jax.data.pieces import SPECIAL_PIECES, PieceVocabulary, truncated_sizes
from mednli_jax.errors import DataError, RunError

GOLDEN = Path(__file__).parents[1] / "golden"


KINDS = json.loads((GOLDEN / "golden_pieces.json").read_text())
SMALL = (*SPECIAL_PIECES, "the", "sep", "dia", "##be", "##tes", "##t", "d", ".", "[", "]", "b")


def written(folder, words=SMALL, **config):
    write(folder / "vocab.txt", "".join(f"{word}\n" for word in words))
    write(folder / "tokenizer_config.json", json.dumps(config))
    return folder


def rows_of(pieces, pairs, length):
    """The rows of pairs, cut to `length` pieces."""
    rows = []
    for texts in pairs:
        premise, hypothesis = (list(pieces.encode(text).numbers) for text in texts)
        sizes = truncated_sizes(len(premise), len(hypothesis), length - pieces.specials_per_pair)
        row = [pieces.form.cls, *premise[: sizes[0]]]
        row += [pieces.form.sep] * pieces.form.separators
        row += [*hypothesis[: sizes[1]], pieces.form.sep]
        rows.append(row)
    return rows


def write_files(kind, folder):
    """Writes the files of a tokenizer of golden_pieces.json."""
    for name, content in KINDS[kind]["files"].items():
        write(folder / name, content)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_1000_pairs_equal_those_of_transformers_autotokenizer(kind, tmp_path):
    pieces = PieceVocabulary.of_weights(write_files(kind, tmp_path))

    rows = rows_of(pieces, varied_pairs(), 64)

    assert rows[:8:7] == KINDS[kind]["some"]
    digest = hashlib.sha256(json.dumps(rows).encode())
    assert digest.hexdigest() == KINDS[kind]["rows"]
    pieces.save(tmp_path / "pieces.json")
    assert PieceVocabulary.load(tmp_path / "pieces.json") == pieces


def test_each_piece_knows_the_word_that_it_is_of(monkeypatch, tmp_path):
    words = (*SMALL, "me", "##nier", "##e", "'", "s")
    pieces = PieceVocabulary.of_weights(written(tmp_path, words))
    found = pieces.encode("The  Diabetes, Ménière's.")
    assert found.words == ("The", "Diabetes", ",", "Ménière", "'", "s", ".")
    assert found.word_of_piece == (0, 1, 1, 1, 2, 3, 3, 3, 4, 5, 6)
    expected = ["the", "dia", "##be", "##tes", "[UNK]", "me", "##nier", "##e", "'", "s", "."]
    assert [pieces.words[number] for number in found.numbers] == expected
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(RunError, match=r"mednli_jax\[bert\]"):
        PieceVocabulary.of_weights(tmp_path)


@pytest.mark.parametrize(
    "pieces, fitting",
    table_rows("""
        3 4 | 3 4
        # a long side
        9 2 | 5 2
        2 9 | 2 5
        # two long sides
        9 8 | 4 3
        8 9 | 3 4
        8 8 | 3 4
    """),
)
def test_a_pair_that_is_too_long_loses_pieces_of_its_longer_side_first(pieces, fitting):
    assert truncated_sizes(*map(int, pieces.split()), 7) == tuple(map(int, fitting.split()))


def test_a_pair_fills_its_room_and_no_side_gets_more_than_it_has():
    for premise, hypothesis, size in itertools.product(range(9), range(9), range(1, 12)):
        fitting = truncated_sizes(premise, hypothesis, size)
        assert sum(fitting) == min(premise + hypothesis, size)
        assert fitting[0] <= premise
        assert fitting[1] <= hypothesis


TEXTS = ["AB ab b", "ab ac ac", "ca"]


def test_the_vocabulary_of_a_corpus_has_characters_before_words_by_frequency():
    """Special pieces, then characters at the start of and inside words, then words by frequency and
    code point."""
    pieces = PieceVocabulary.of_texts(TEXTS, 13)

    words = ("a", "b", "c", "##a", "##b", "##c", "ab", "ac", "ca")
    assert pieces.words == (*SPECIAL_PIECES, *words)
    assert pieces == PieceVocabulary.of_texts(TEXTS[::-1], 13)
    assert PieceVocabulary.of_texts(TEXTS, 11).words == pieces.words[:11]
    numbers = pieces.encode("cab x").numbers
    assert [pieces.words[number] for number in numbers] == ["ca", "##b", "[UNK]"]
    assert "AB" in PieceVocabulary.of_texts(TEXTS, 40, lowercase=False).words


def test_a_vocabulary_without_room_for_all_characters_of_the_corpus_is_refused():
    with pytest.raises(DataError, match=r".*3 different .* 10 pieces; .* 9\. Fix: .*pieces=20"):
        PieceVocabulary.of_texts(TEXTS, 9)


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_vocabulary_of_a_corpus_is_restored(tmp_path, lowercase):
    pieces = PieceVocabulary.of_texts(["Ménière é\u2028 日本"], 60, lowercase=lowercase)

    pieces.save(tmp_path / "pieces.json")

    assert PieceVocabulary.load(tmp_path / "pieces.json") == pieces


def test_special_pieces_have_the_numbers_of_their_vocabulary(tmp_path):
    words = (*(f"piece{n}" for n in range(1000)), *SMALL)
    pieces = PieceVocabulary.of_weights(written(tmp_path, words))
    size = len(words)
    assert (pieces.unk, pieces.form) == (1001, (1002, 1003, 1, 1))
    assert len(pieces) == len(pieces.words) == size
    pieces.check_weights(size + 30, type_rows=2)  # a model may have more rows than pieces
    for rows in (size - 1, size + 20_000):
        with pytest.raises(DataError, match=rf"vocab\.txt: .*{size} pieces.* {rows}.* Fix: "):
            pieces.check_weights(rows, type_rows=2)
    pieces.check_weights(size, type_rows=0)  # has none, and reads none
    with pytest.raises(DataError, match=r"vocab\.txt: .* id 1, .* only .* 0\. Fix: .*input_names"):
        pieces.check_weights(size, type_rows=1)


def test_the_unknown_piece_may_be_the_first_one(tmp_path):
    words = ("[UNK]", *(word for word in SMALL if word != "[UNK]"))

    assert PieceVocabulary.of_weights(written(tmp_path, words)).unk == 0


# tests/test_refusals.py has the faults of vocab.txt.


@pytest.mark.parametrize("lowercase", [True, False])
def test_capital_letters_that_no_text_has_are_a_warning(tmp_path, lowercase, capsys):
    folder = written(tmp_path, (*SMALL, "The"), do_lower_case=lowercase)
    pieces = PieceVocabulary.of_weights(folder)

    pieces.check_weights(len(pieces), type_rows=2)

    assert ("do_lower_case" in capsys.readouterr().err) == lowercase


@cases(
    "kind, text, words",
    {
        "byte-level": ("bpe", "the  Ménière's 😀 ECG/EKG", "the Ménière 's 😀 ECG / EKG"),
        "SentencePiece": (
            "unigram",
            "no diabetes, (the asthma)/the 😀",
            "no diabetes , ( the asthma ) / the 😀",
        ),
    },
)
def test_words_of_pieces_end_at_blanks_and_punctuation(tmp_path, kind, text, words):
    pieces = PieceVocabulary.of_weights(write_files(kind, tmp_path)).encode(text)

    assert [word for word in pieces.words if word] == words.split()
    assert len(pieces.word_of_piece) == len(pieces.numbers)
    assert list(pieces.word_of_piece) == sorted(pieces.word_of_piece)


def test_added_tokens_are_found_before_other_pieces_and_count_as_pieces(tmp_path):
    folder = written(tmp_path / "added", do_lower_case=True)
    added = [{"content": "[DEID]", "special": True}, {"content": "Dia", "normalized": False}]
    numbered = {str(len(SMALL) + number): fields for number, fields in enumerate(added)}
    write(folder / "tokenizer_config.json", json.dumps({"added_tokens_decoder": numbered}))
    pieces = PieceVocabulary.of_weights(folder)
    names = [pieces.words[number] for number in pieces.encode("Dia dia [DEID] [SEP]").numbers]
    assert names == ["Dia", "dia", "[DEID]", "[", "sep", "]"]
    assert pieces.encode("the [DEID].").words == ("the", "[DEID]", ".")
    assert len(pieces) == len(SMALL) + 2
