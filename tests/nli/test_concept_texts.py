"""Concepts that replace words: which words they replace, and what vectors they get."""

import pytest
from support.pair_files import write_own
from support.pairs import pair, words_of
from support.trees import assert_equal, assert_near

from mednli_jax.cli import read_config
from mednli_jax.data.arrays import NEW, SIDES
from mednli_jax.data.examples import Split
from mednli_jax.experiment import experiment_of
from mednli_jax.knowledge.readers import mesh
from mednli_jax.nli.encode.texts import mark

# D2 is-a D1; D3 stands alone.
CONCEPTS = "D1\tcardiac illness\tC01\t\nD2\tpump trouble\tC01.100\t\nD3\tbird\tB01\t\n"
VECTORS = "cardiac 2 0\nillness 4 0\npump 0 2\ntrouble 0 4\nknown 1 1\nhas 5 5\n"
PAIRS = (
    ("Known pump trouble .", "Has cardiac illness"),
    ("Known pump trouble .", "A bird"),
    ("Known .", "A bird"),
)


class PreparedCorpus:
    """A corpus that was prepared; `vectors` of its words."""

    def __init__(self, config):
        self.corpus = experiment_of(config).corpus
        self.prepared, _ = self.corpus.prepare()
        self.vocabulary = self.corpus.read_vocabulary(self.prepared.folder / "vocabulary.json")

    def words(self, side, row):
        length = self.prepared.arrays[f"{side}_length"][row]
        return words_of(self.prepared.arrays[side][row][:length], self.vocabulary)

    def vectors(self, *words):
        return self.prepared.vectors[self.vocabulary.encode(words)]


@pytest.fixture
def prepare_with(tmp_path):
    """Prepares the pairs with vectors that are retrofitted in one round, by a method."""
    write_own(tmp_path, train=PAIRS, dev=PAIRS)
    (tmp_path / "own.tsv").write_text("\t".join(mesh.HEADER) + "\n" + CONCEPTS)
    (tmp_path / "vectors.txt").write_text(VECTORS)

    def prepare(retrofit):
        config = read_config("bow:file")
        config.data.dir = str(tmp_path)
        config.knowledge.update(ontology=str(tmp_path / "own.tsv"), types=("",))
        config.vectors.update(path=str(tmp_path / "vectors.txt"), dim=2, retrofit_rounds=1)
        config.vectors.retrofit = retrofit
        return PreparedCorpus(config)

    return prepare


@pytest.fixture
def corpus(prepare_with):
    return prepare_with("concepts")


def test_every_word_of_a_mention_is_its_concept(corpus):
    assert corpus.words("premise", 0) == ["known", mark("D2"), mark("D2"), "<unk>"]
    assert corpus.words("hypothesis", 0) == ["has", mark("D1"), mark("D1")]


def test_a_concept_of_words_without_a_vector_is_unknown(corpus):
    assert corpus.words("hypothesis", 1) == ["<unk>", "<unk>"]  # a bird
    facts = corpus.prepared.manifest["vocabulary"]
    assert facts["concepts"] == 3
    assert facts["concepts_with_vector"] == 2


def test_vectors_of_concepts_are_retrofitted_from_the_mean_of_their_words(corpus):
    """D1 starts at (3, 0) and D2 at (0, 3). One round of retrofitting gives D1 = ((3, 0) + D2) / 2,
    then D2 = ((0, 3) + D1) / 2. Other words keep their vectors."""
    vectors = corpus.vectors(mark("D1"), mark("D2"), "has")
    assert_near(vectors, [[1.5, 1.5], [0.75, 2.25], [5, 5]], rtol=1e-6)


def test_new_pairs_are_read_as_the_corpus_was(corpus):
    examples = [pair(*texts) for texts in PAIRS]
    new = {NEW: Split(NEW, tuple(examples))}
    encoded = corpus.corpus.encode(new, corpus.vocabulary, corpus.prepared.vectors)
    for side in SIDES:
        assert_equal(encoded.arrays[side], corpus.prepared.arrays[side][:3])
    texts = corpus.corpus.texts(corpus.vocabulary, corpus.corpus.linker)
    assert texts.tokens(examples[0], "hypothesis") == ["has", mark("D1"), mark("D1")]


def test_vectors_of_unit_length_are_of_words(prepare_with):
    corpus = prepare_with("unit")
    vectors = corpus.vectors("pump", "illness", "known")
    assert_near(vectors, [[0, 1], [1, 0], [0.5**0.5, 0.5**0.5]], atol=1e-5)
    assert corpus.words("premise", 0) == ["known", "pump", "trouble", "<unk>"]
