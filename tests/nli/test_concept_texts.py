"""Concepts that replace words: which words they replace, and what vectors they get."""

import numpy as np
import pytest
from support.pair_files import write_own
from support.pairs import pair, words_of

from mednli_jax import defaults
from mednli_jax.data.arrays import NEW, SIDES
from mednli_jax.data.examples import Split
from mednli_jax.knowledge.readers import mesh
from mednli_jax.nli.encoding import mark
from mednli_jax.run import experiment_of

# D2 is-a D1; D3 stands alone.
CONCEPTS = "D1\tcardiac illness\tC01\t\nD2\tpump trouble\tC01.100\t\nD3\tbird\tB01\t\n"
VECTORS = {
    "cardiac": [2, 0],
    "illness": [4, 0],
    "pump": [0, 2],
    "trouble": [0, 4],
    "known": [1, 1],
    "has": [5, 5],
}
ROWS = (
    ("Known pump trouble .", "Has cardiac illness"),
    ("Known pump trouble .", "A bird"),
    ("Known .", "A bird"),
)


@pytest.fixture
def config(tmp_path):
    write_own(tmp_path, train=ROWS, dev=ROWS)
    (tmp_path / "own.tsv").write_text("\t".join(mesh.HEADER) + "\n" + CONCEPTS)
    lines = (f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in VECTORS.items())
    (tmp_path / "vectors.txt").write_text("".join(lines))
    made = defaults.nli("bow", "file")
    made.data.dir = str(tmp_path)
    made.knowledge.update(ontology=str(tmp_path / "own.tsv"), types=("",))
    made.vectors.update(
        path=str(tmp_path / "vectors.txt"), dim=2, retrofit="concepts", retrofit_rounds=1
    )
    return made


class Read:
    """A corpus that was prepared; `vectors` of its words."""

    def __init__(self, config):
        self.corpus = experiment_of(config).corpus
        self.prepared, _ = self.corpus.prepare()
        self.vocabulary = self.corpus.read_vocabulary(self.prepared.folder / "vocabulary.json")

    def words(self, side, row):
        numbers = self.prepared.arrays[side][row][: self.prepared.arrays[f"{side}_length"][row]]
        return words_of(numbers, self.vocabulary)

    def vectors(self, *words):
        return self.prepared.vectors[self.vocabulary.encode(words)]


def test_every_word_of_a_mention_is_its_concept(config):
    """A concept starts at the mean of its mentions' words: D1 at (3, 0), D2 at (0, 3).

    One round of retrofitting gives D1 = ((3, 0) + D2) / 2, then D2 = ((0, 3) + D1) / 2.
    """
    read = Read(config)
    assert read.words("premise", 0) == ["known", mark("D2"), mark("D2"), "<unk>"]
    assert read.words("hypothesis", 0) == ["has", mark("D1"), mark("D1")]
    assert read.words("hypothesis", 1) == ["<unk>", "<unk>"]  # no word of "bird" has a vector
    facts = read.prepared.manifest["vocabulary"]
    assert (facts["concepts"], facts["concepts_with_vector"]) == (3, 2)
    vectors = read.vectors(mark("D1"), mark("D2"), "has")  # other words keep their vectors
    np.testing.assert_allclose(vectors, [[1.5, 1.5], [0.75, 2.25], [5, 5]], rtol=1e-6)


def test_new_pairs_are_read_as_the_corpus_was(config):
    read = Read(config)
    split = Split(NEW, tuple(pair(*texts) for texts in ROWS))
    new = read.corpus.encoded({NEW: split}, read.vocabulary, read.prepared.vectors)
    for side in SIDES:
        np.testing.assert_array_equal(new.arrays[side], read.prepared.arrays[side][:3])
    texts = read.corpus.texts(read.vocabulary, read.corpus.linker)
    assert texts.tokens(split.examples[0], "hypothesis") == ["has", mark("D1"), mark("D1")]


def test_vectors_of_unit_length(config):
    config.vectors.retrofit = "unit"
    read, expected = Read(config), [[0, 1], [1, 0], [0.5**0.5, 0.5**0.5]]
    np.testing.assert_allclose(read.vectors("pump", "illness", "known"), expected, atol=1e-5)
    assert read.words("premise", 0) == ["known", "pump", "trouble", "<unk>"]
