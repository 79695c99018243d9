"""Tokenizers of others make the rows that the Transformers library makes, or one line refuses them.

docs/log.md names the script that recorded the rows."""

import json
from pathlib import Path

import pytest
from support.files import write
from support.tokenizer_variants import (
    VARIANTS,
    digest,
    rows_of_library,
    texts,
    write_variant,
)

from mednli_jax.data.pieces import PieceVocabulary
from mednli_jax.errors import DataError

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = json.loads((GOLDEN / "golden_pieces.json").read_text())
FEWEST_OF_BOTH = 100  # variants of which both versions make the same rows


def rows_of(pieces):
    form, rows = pieces.form, []
    for pair in texts():
        premise, hypothesis = (list(pieces.encode(text).numbers) for text in pair)
        numbers = [form.cls, *premise, *[form.sep] * form.separators, *hypothesis, form.sep]
        second = len(hypothesis) + 1
        types = [0] * (len(numbers) - second) + [form.second_type] * second
        rows.append((numbers, types))
    return rows


@pytest.mark.parametrize("name", VARIANTS)
def test_rows_are_those_of_transformers_and_an_exported_tokenizer_makes_them_too(name, tmp_path):
    """Of version 4, where both read the files; the two differ in a few."""
    pieces = PieceVocabulary.of_weights(write_variant(name, tmp_path))
    recorded, exported = VARIANTS[name]["rows"], tmp_path / "exported"
    exported.mkdir()

    pieces.save_for_transformers(exported, 512)

    assert digest(rows_of(pieces)) == (recorded["4"] or recorded["5"])
    assert PieceVocabulary.of_weights(exported) == pieces


@pytest.mark.parametrize("name", VARIANTS)
def test_recorded_rows_are_those_of_the_installed_transformers(name, tmp_path):
    """Skipped without transformers."""
    transformers = pytest.importorskip("transformers")
    version = transformers.__version__.partition(".")[0]
    folder = write_variant(name, tmp_path)
    recorded = VARIANTS[name]["rows"][version]
    if recorded is None:
        pytest.skip(f"version {version} does not read these files")

    assert digest(rows_of_library(folder)) == recorded


def test_both_versions_agree_on_most_variants():
    all_rows = [variant["rows"] for variant in VARIANTS.values()]

    assert sum(rows["4"] == rows["5"] for rows in all_rows) >= FEWEST_OF_BOTH


@pytest.mark.parametrize("name", ["BertTokenizer", "ElectraTokenizerFast", "DistilBertTokenizer"])
def test_tokenizers_like_berts_have_its_options(name, tmp_path):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    write(tmp_path / "vocab.txt", "\n".join([*special, "the", "The"]))
    options = {"tokenizer_class": name, "do_lower_case": False}
    write(tmp_path / "tokenizer_config.json", json.dumps(options))

    assert list(PieceVocabulary.of_weights(tmp_path).encode("The the").numbers) == [6, 5]


def test_a_merge_of_two_hashes_is_no_comment(tmp_path):
    files = KINDS["bpe"]["files"]
    number_of = json.loads(files["vocab.json"])
    number_of["##"] = len(number_of)
    write(tmp_path / "vocab.json", json.dumps(number_of))
    write(tmp_path / "merges.txt", files["merges.txt"] + "# #\n")
    write(tmp_path / "config.json", files["config.json"])

    assert list(PieceVocabulary.of_weights(tmp_path).encode("##").numbers) == [number_of["##"]]


MODEL = {"type": "WordPiece", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
PARTS = {"continuing_subword_prefix": "##", "max_input_chars_per_word": 9}
NO_ROW = {"tokenizer.json": json.dumps({"model": MODEL | PARTS})}


def model(kind):
    """Changes of files."""
    return {"config.json": json.dumps({"model_type": kind})}


JAPANESE = {"config.json": '{"model_type": "bert", "tokenizer_class": "BertJapaneseTokenizer"}'}
ONLY_SPM = {"tokenizer.json": None, "spm.model": "secret"}
OWN_CODE = {"tokenizer_config.json": '{"tokenizer_class": "MyTokenizer"}'}


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("uncased", JAPANESE, "'tokenizer_class' is BertJapaneseTokenizer, which splits text by a"),
        ("uncased-json", OWN_CODE, "'tokenizer_class' is MyTokenizer"),
        ("uncased", model("roberta"), r"tokenizer\.json or vocab\.json"),
        ("uncased", model("modernbert"), r"\(tokenizer\.json\)"),
        ("bpe", model("bert"), r"tokenizer\.json or vocab\.txt"),
        ("bpe", {"merges.txt": "secret quokka"}, r"^merges\.txt: it does not fit vocab\.json"),
        ("bpe", {"vocab.json": '{"<s>": 0}', "merges.txt": ""}, "special piece </s> is missing"),
        ("uncased", {"added_tokens.json": '{"new": 9999}'}, r"^added_tokens\.json: its numbers"),
        ("uncased", {"tokenizer_config.json": "[1]"}, "not a JSON object"),
        ("uncased", NO_ROW, r"^tokenizer\.json: its post_processor"),
        ("unigram", ONLY_SPM, r"SentencePiece model \(spm\.model\)"),
        ("uncased", {"tokenizer.json": '{"model": {"type": "secret"}}'}, "library cannot read it"),
    ],
)
def test_a_tokenizer_that_no_file_expresses_is_refused(kind, changes, message, tmp_path):
    for file, content in {**KINDS[kind]["files"], **changes}.items():
        if content is not None:
            write(tmp_path / file, content)

    with pytest.raises(DataError, match=rf"{message}.* Fix: ") as raised:
        PieceVocabulary.of_weights(tmp_path)

    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)
