"""Concepts that replace words: which words they replace, and what vectors they get."""

import json
from pathlib import Path

import numpy as np
import pytest

from mednli_jax import defaults, experiment
from mednli_jax.corpora.nli.concept_texts import mark
from mednli_jax.corpora.nli.new_pairs import NewPairEncoder
from mednli_jax.examples import NLIExample
from mednli_jax.knowledge.readers import mesh

# D2 is-a D1; D3 stands alone.
CONCEPTS = "D1\tcardiac illness\tC01\t\nD2\tpump trouble\tC01.100\t\nD3\tbird\tB01\t\n"
VECTORS = {"cardiac": [2, 0], "illness": [4, 0], "pump": [0, 2], "trouble": [0, 4], "known": [1, 1], "has": [5, 5]}
ROWS = (("Known pump trouble .", "Has cardiac illness"), ("Known pump trouble .", "A bird"), ("Known .", "A bird"))


@pytest.fixture
def config(tmp_path):
    for split in ("train", "dev"):
        rows = [
            {"pairID": f"{split}{n}", "gold_label": "neutral", "sentence1": premise, "sentence2": hypothesis}
            for n, (premise, hypothesis) in enumerate(ROWS)
        ]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "own.tsv").write_text("\t".join(mesh.HEADER) + "\n" + CONCEPTS)
    lines = (f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in VECTORS.items())
    (tmp_path / "vectors.txt").write_text("".join(lines))
    made = defaults.nli("bow", "file")
    made.data.dir = str(tmp_path)
    made.knowledge.update(ontology=str(tmp_path / "own.tsv"), types=("",))
    made.vectors.update(path=str(tmp_path / "vectors.txt"), dim=2, retrofit="concepts")
    return made


def words_of(corpus, prepared, side, row):
    vocabulary = corpus.read_vocabulary(prepared.folder / "vocabulary.json")
    length = prepared.arrays[f"{side}_length"][row]
    return [vocabulary.words[number] for number in prepared.arrays[side][row][:length]]


def test_every_word_of_a_mention_is_its_concept(config):
    corpus = experiment.of(config).corpus
    prepared, _ = corpus.prepare()
    assert words_of(corpus, prepared, "premise", 0) == ["known", mark("D2"), mark("D2"), "<unk>"]
    assert words_of(corpus, prepared, "hypothesis", 0) == ["has", mark("D1"), mark("D1")]
    assert words_of(corpus, prepared, "hypothesis", 1) == ["<unk>", "<unk>"]  # no word of "bird" has a vector
    facts = prepared.manifest["vocabulary"]
    assert (facts["concepts"], facts["concepts_with_vector"]) == (3, 2)


def test_vectors_are_means_of_the_mentions_words_drawn_together(config):
    """A concept starts at the mean of its mentions' words: D1 at (3, 0), D2 at (0, 3).

    One round of retrofitting gives D1 = ((3, 0) + D2) / 2, then D2 = ((0, 3) + D1) / 2.
    """
    config.vectors.retrofit_rounds = 1
    corpus = experiment.of(config).corpus
    prepared, _ = corpus.prepare()
    vocabulary = corpus.read_vocabulary(prepared.folder / "vocabulary.json")
    first, second = (prepared.vectors[vocabulary.encode([mark(concept)])[0]] for concept in ("D1", "D2"))
    np.testing.assert_allclose(first, [1.5, 1.5], rtol=1e-6)
    np.testing.assert_allclose(second, [0.75, 2.25], rtol=1e-6)
    # other words keep their vectors
    np.testing.assert_array_equal(prepared.vectors[vocabulary.encode(["has"])[0]], [5, 5])


def test_new_pairs_are_read_as_the_corpus_was(config):
    corpus = experiment.of(config).corpus
    prepared, _ = corpus.prepare()
    vocabulary = corpus.read_vocabulary(prepared.folder / "vocabulary.json")
    encoder = NewPairEncoder(corpus, vocabulary, corpus.ontology.sha256)
    pairs = [NLIExample("new", *texts, "", *(tuple(text.split()) for text in texts)) for texts in ROWS]
    arrays, *_ = encoder(pairs)
    for side in ("premise", "hypothesis"):
        np.testing.assert_array_equal(arrays[side][:3], prepared.arrays[side][:3])
    assert encoder.tokens(pairs[0], "hypothesis") == ["has", mark("D1"), mark("D1")]


def test_unit_length_is_a_control_that_moves_no_word(config):
    config.vectors.retrofit = "unit"
    corpus = experiment.of(config).corpus
    prepared, _ = corpus.prepare()
    vocabulary = corpus.read_vocabulary(prepared.folder / "vocabulary.json")
    for word, expected in (("pump", [0, 1]), ("illness", [1, 0]), ("known", [0.5**0.5, 0.5**0.5])):
        np.testing.assert_allclose(prepared.vectors[vocabulary.encode([word])[0]], expected, atol=1e-5)
    assert words_of(corpus, prepared, "premise", 0) == ["known", "pump", "trouble", "<unk>"]


def test_retrofitting_leaves_words_without_neighbours_as_they_are(config):
    lexicon = Path(config.data.dir) / "lexicon.txt"
    lexicon.write_text("pump trouble\ntrouble pump\n")
    config.vectors.retrofit = str(lexicon)
    corpus = experiment.of(config).corpus
    prepared, _ = corpus.prepare()
    vocabulary = corpus.read_vocabulary(prepared.folder / "vocabulary.json")
    for word in ("has", "illness", "known"):
        np.testing.assert_array_equal(prepared.vectors[vocabulary.encode([word])[0]], VECTORS[word])
    assert not np.allclose(prepared.vectors[vocabulary.encode(["pump"])[0]], VECTORS["pump"])
