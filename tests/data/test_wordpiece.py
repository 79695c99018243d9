"""Word pieces against the reference tokeniser; words of pieces; vocabularies made from a corpus."""

import gzip
import itertools
import json
import sys
from pathlib import Path

import pytest
from made_up_knowledge import write
from tokenizers import Tokenizer, models, normalizers

from mednli_jax.data.wordpiece import SPECIALS, WordPieces, room_for
from mednli_jax.errors import DataError, RunError, UserError

GOLDEN = Path(__file__).parents[1] / "golden"
TABLE = json.loads((GOLDEN / "golden_bert.json").read_text())
SMALL = (*SPECIALS, "the", "sep", "dia", "##be", "##tes", "##t", "d", ".", "[", "]", "b")


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    """The vocabulary file that the golden pieces belong to."""
    content = gzip.decompress((GOLDEN / "golden_bert.vocab.txt.gz").read_bytes())
    return write(tmp_path_factory.mktemp("vocabulary") / "vocab.txt", content)


def written(folder, words=SMALL, **config):
    write(folder / "vocab.txt", "".join(f"{word}\n" for word in words))
    write(folder / "tokenizer_config.json", json.dumps(config))
    return folder


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_numbers_equal_the_reference_s(case, vocabulary, tmp_path):
    write(tmp_path / "tokenizer_config.json", json.dumps({"do_lower_case": case == "uncased"}))
    pieces = WordPieces.load(write(tmp_path / "vocab.txt", vocabulary.read_bytes()))
    assert [list(pieces.encode(text).numbers) for text in TABLE["texts"]] == TABLE[case]
    assert len({pieces.unk in numbers for numbers in TABLE[case]}) == 2


def test_pieces_know_their_words(monkeypatch):
    pieces = WordPieces(
        (*SMALL, "me", "##nier", "##e", "'", "s"), lowercase=True, strip_accents=True
    )
    found = pieces.encode("The  Diabetes, Ménière's.")
    assert found.words == ("The", "Diabetes", ",", "Ménière", "'", "s", ".")
    assert found.word_of_piece == (0, 1, 1, 1, 2, 3, 3, 3, 4, 5, 6)
    expected = ["the", "dia", "##be", "##tes", "[UNK]", "me", "##nier", "##e", "'", "s", "."]
    assert [pieces.words[number] for number in found.numbers] == expected
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(RunError, match=r"mednli_jax\[bert\]"):
        WordPieces((*SPECIALS, "a"), lowercase=True, strip_accents=True)


def test_a_pair_that_is_too_long_loses_pieces_of_its_longer_side_first():
    for premise, hypothesis, size in itertools.product(range(9), range(9), range(1, 12)):
        left = [premise, hypothesis]
        while sum(left) > size:
            left[0 if left[0] > left[1] else 1] -= 1
        assert room_for(premise, hypothesis, size) == tuple(left)


def test_a_corpus_s_own_vocabulary(tmp_path):
    """Special pieces, then characters at the start of and inside words, then words by frequency and
    code point."""
    texts = ["AB ab b", "ab ac ac", "ca"]
    made = WordPieces.of_texts(texts, 13)
    assert made.words == (*SPECIALS, "a", "b", "c", "##a", "##b", "##c", "ab", "ac", "ca")
    assert made == WordPieces.of_texts(texts[::-1], 13)
    assert WordPieces.of_texts(texts, 11).words == made.words[:11]
    assert [made.words[i] for i in made.encode("cab x").numbers] == ["ca", "##b", "[UNK]"]
    assert "AB" in WordPieces.of_texts(texts, 40, lowercase=False).words
    with pytest.raises(DataError, match=r".*3 characters.*take 10 of 9 pieces.* Fix: "):
        WordPieces.of_texts(texts, 9)
    for lowercase in (True, False):
        made = WordPieces.of_texts(["Ménière é\u2028 日本"], 60, lowercase=lowercase)
        made.save(tmp_path / "pieces.json")
        assert WordPieces.restore(tmp_path / "pieces.json") == made


def test_files_decide_about_case_and_otherwise_the_pieces(tmp_path):
    capitals = (*SMALL, "The")
    assert WordPieces.load(written(tmp_path / "a", do_lower_case=True)).lowercase
    assert not WordPieces.load(written(tmp_path / "b", do_lower_case=False)).lowercase
    assert WordPieces.load(
        written(tmp_path / "d")
    ).lowercase  # the capitals of [CLS] do not count as cased text
    cased = WordPieces.load(written(tmp_path / "e", capitals))
    assert not cased.lowercase
    assert [cased.words[i] for i in cased.encode("The the").numbers] == ["The", "the"]


def tokenizer_file(folder, model, normalizer):
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_both_files_hold_the_same_vocabulary(tmp_path):
    model = models.WordPiece({word: i for i, word in enumerate(SMALL)}, unk_token="[UNK]")
    for lowercase in (True, False):
        folder = tokenizer_file(
            tmp_path / str(lowercase), model, normalizers.BertNormalizer(lowercase=lowercase)
        )
        read = WordPieces.load(folder)
        assert read == WordPieces(SMALL, lowercase=lowercase, strip_accents=lowercase)
        assert read == WordPieces.load(folder / "tokenizer.json")


def test_special_numbers_are_the_vocabulary_s_own(vocabulary):
    pieces = WordPieces.load(vocabulary)
    assert (pieces.pad, pieces.unk, pieces.cls, pieces.sep) == (0, 100, 101, 102)
    assert len(pieces) == len(pieces.words) == 30522
    pieces.check_size(30528)  # a model may have more rows than pieces
    for size in (30521, 50265):
        with pytest.raises(UserError, match=rf"vocab\.txt: .*30522 pieces.* {size}.* Fix: "):
            pieces.check_size(size)


# tests/test_readers.py has the faults of vocab.txt.

NUMBERS = {word: i for i, word in enumerate(SMALL)}
BAD = {
    "model is not WordPiece": (models.BPE({"secret": 0}, []), normalizers.BertNormalizer()),
    "not prepared as for BERT": (models.WordPiece(NUMBERS, unk_token="[UNK]"), normalizers.NFC()),
    "not numbered from 0": (
        models.WordPiece({w: 2 * i for w, i in NUMBERS.items()}),
        normalizers.BertNormalizer(),
    ),
}


@pytest.mark.parametrize("problem", BAD)
def test_a_tokenizer_of_another_kind_is_refused(problem, tmp_path):
    with pytest.raises(DataError, match=rf"^tokenizer\.json: .*{problem}.* Fix: ") as raised:
        WordPieces.load(tokenizer_file(tmp_path / "folder", *BAD[problem]))
    assert "secret" not in str(raised.value)
