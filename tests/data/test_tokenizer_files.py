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

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = json.loads((GOLDEN / "golden_pieces.json").read_text())


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


@pytest.mark.slow
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
