"""Running text as rows: documents, halves of rows, dev, vocabularies; and the text of facts."""

import gzip

import numpy as np
import pytest

from mednli_jax.corpora.demo import facts
from mednli_jax.corpora.nli.pieces import PieceEncoding
from mednli_jax.corpora.texts.corpus import TextCorpus, pairs_of
from mednli_jax.errors import ConfigError, DataError


def corpus(folder, **fields):
    return TextCorpus("file", PieceEncoding(None, 200, 16), folder=folder, **fields)


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)


def spelled(prepared, made, row):
    """The words of both halves of a row."""
    words = made.read_vocabulary(prepared.folder / "vocabulary.json").words
    return tuple(
        " ".join(words[number] for number in prepared.arrays[side][row][: prepared.arrays[f"{side}_length"][row]])
        for side in ("premise", "hypothesis")
    )


def test_rows_hold_consecutive_sentences_of_one_document():
    assert list(pairs_of([(1,), (2, 2), (3,)], 4)) == [([1, 2, 2], [3])]
    assert list(pairs_of([(1, 1), (2, 2), (3,)], 4)) == [([1, 1], [2, 2]), ([3], [])]
    assert list(pairs_of([(1, 2, 3, 4, 5), (6,)], 4)) == [([1, 2, 3, 4], []), ([5], [6])]
    assert list(pairs_of([()], 4)) == []


def test_an_empty_line_ends_a_document(tmp_path):
    write(tmp_path, train="The heart pumps. It beats.\nIt rests.\n\n\nLungs breathe.\n", dev="a heart\n")
    made = corpus(tmp_path)
    prepared, hit = made.prepare()
    assert not hit
    assert spelled(prepared, made, 0) == ("the heart pumps . it beats .", "it rests .")
    assert spelled(prepared, made, 1) == ("lungs breathe .", "")
    assert [(rows.first, len(rows)) for rows in prepared.splits.values()] == [(0, 2), (2, 1)]
    assert prepared.arrays["premise"].dtype == np.uint16
    assert made.prepare()[1]


def test_without_a_file_for_it_each_twentieth_document_is_for_dev(tmp_path):
    text = "\n\n".join(f"document {i}" for i in range(40))
    with gzip.open(tmp_path / "train.txt.gz", "wt") as file:
        file.write(text)
    sizes = {name: len(rows) for name, rows in corpus(tmp_path).prepare()[0].splits.items()}
    assert sizes == {"train": 38, "dev": 2}


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_text_is_refused(tmp_path, text):
    write(tmp_path, train=text, dev="words\n")
    with pytest.raises(DataError) as caught:
        corpus(tmp_path).prepare()
    assert caught.value.file == "train.txt"


def test_text_without_a_piece_is_refused(tmp_path):
    write(tmp_path, train="\u200b\n\n" * 3, dev="words\n")
    with pytest.raises(DataError) as caught:
        corpus(tmp_path).prepare()
    assert caught.value.file == "train.txt"


def test_a_limit_that_leaves_nothing_for_dev_is_named(tmp_path):
    write(tmp_path, train="\n\n".join(f"document {i}" for i in range(40)))
    with pytest.raises(DataError, match=r"config\.data\.limit is 1\b"):
        corpus(tmp_path, limit=1).prepare()


def test_a_missing_file_too_few_documents_and_a_vocabulary_without_mask_are_refused(tmp_path):
    with pytest.raises(DataError) as caught:
        corpus(tmp_path).prepare()
    assert caught.value.file == "train.txt"
    write(tmp_path, train="one document\n")
    with pytest.raises(DataError) as caught:
        corpus(tmp_path).prepare()
    assert caught.value.file == "dev.txt"
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\none\n")
    with pytest.raises(DataError) as caught:
        TextCorpus("file", PieceEncoding(tmp_path / "vocab.txt", 1, 16), folder=tmp_path).prepare()
    assert caught.value.file == "vocab.txt"


# ---- the fact text ----


def test_each_document_is_about_one_disease_and_states_all_its_facts():
    found = facts.fact_text("facts")
    row = next(row for row in facts.table("clinical_facts")["conditions"] if row["name"] == "cirrhosis")
    mine = [" ".join(document) for document in found["train"] if any("cirrhosis" in text for text in document)]
    about = [text for text in mine if all(fact in text for category in facts.CATEGORIES for fact in row[category])]
    assert len(about) == facts.DOCUMENTS
    assert len(set(about)) == facts.DOCUMENTS  # each time in other words
    assert facts.fact_text("facts") == found


def test_what_is_withheld_is_not_said():
    def text(*given):
        return " ".join(sentence for document in facts.fact_text(*given)["train"] for sentence in document)

    assert "patients with pneumonia" in text()
    assert "patients with pneumonia" not in text("both", ["pneumonia"])
    assert "furosemide" in text("facts")
    assert "furosemide" not in text("facts", ["treatments"])
    assert "furosemide" not in text("names")


def test_the_ceiling_is_real():
    """The text states some phrases of the benchmark's terminological premises, but fewer than half of them."""
    text = " ".join(sentence for document in facts.fact_text()["train"] for sentence in document)
    clusters = facts.table("diskne_words")["clusters"].values()
    phrases = [phrase for cluster in clusters for of_disease in cluster.values() for phrase in of_disease]
    stated = [phrase for phrase in phrases if phrase in text]
    assert 0 < len(stated) < len(phrases) / 2


@pytest.mark.parametrize("wrong", [{"content": "all"}, {"withhold": ["no disease"]}])
def test_unknown_names_are_refused(wrong):
    with pytest.raises(ConfigError):
        facts.fact_text(**wrong)
