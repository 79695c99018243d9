"""`prepare` and `train` say which part of the training texts has word vectors, and refuse vectors
of no word."""

import pytest
from support.cases import cases
from support.cloze import write_articles
from support.commands import SMALL, at, refused, succeeds
from support.pair_files import write_own_pairs

PAIRS = ("--config=bow:file", "--config.data.dir=pairs")
CORPORA = {
    "pairs": PAIRS,
    "features": ("--config=features:file", "--config.data.dir=pairs"),
    "queries": ("--config=ga:file", "--config.data.dir=queries"),
    "folds": ("--config=diskne_bow",),
}
WARNING = "tokens of the training texts have a vector (v.txt)"
TRAIN = (*PAIRS, *SMALL, "--config.train.epochs=1")


@pytest.fixture
def home(tmp_path):
    write_own_pairs(tmp_path / "pairs")
    write_articles(tmp_path / "queries")
    with at(tmp_path):
        yield tmp_path


@pytest.fixture
def vectors_of(home):
    """Writes v.txt with vectors of these words and returns its flags."""

    def write_vectors(words):
        rows = [f"{word} {number} 1 2 3\n" for number, word in enumerate(words.split())]
        (home / "v.txt").write_text("".join(rows))
        return "--config.vectors.path=v.txt", "--config.vectors.dim=4"

    return write_vectors


@cases("corpus", CORPORA)
def test_few_tokens_with_a_vector_are_a_warning(corpus, vectors_of):
    for state in ("prepared", "found"):  # the second time the arrays come from the cache
        out, err = succeeds("prepare", *corpus, *vectors_of("patient case"))

        assert out.startswith(state)
        assert WARNING in err


@cases("corpus", CORPORA)
def test_vectors_of_no_token_are_refused(corpus, vectors_of):
    message = refused("prepare", *corpus, *vectors_of("/c/en/patient /c/en/the"))

    assert message.splitlines()[-1].startswith("error: v.txt: ")


def test_random_vectors_need_no_token_of_the_corpus(home):
    flags = ("--config.vectors.path=", "--config.vectors.dim=4")

    assert WARNING not in succeeds("prepare", *PAIRS, *flags)[1]


def test_most_tokens_with_a_vector_are_no_warning(vectors_of):
    """Names of diseases have none."""
    vectors = vectors_of("patient . in train has may have lacks")

    assert WARNING not in succeeds("prepare", *PAIRS, *vectors)[1]


def test_only_training_texts_count_in_the_coverage_by_vectors(vectors_of):
    message = refused("prepare", *PAIRS, *vectors_of("dev test"))

    assert "no word of the training texts" in message


def test_each_token_of_the_training_texts_counts_in_the_coverage_by_vectors(vectors_of):
    _, err = succeeds("prepare", *PAIRS, *vectors_of("train"))

    assert f"only 36 of {36 * 5 + 36 * 3 + 12} {WARNING}" in err


def test_train_leaves_no_folder_for_vectors_of_no_token(home, vectors_of):
    message = refused("train", *TRAIN, "--workdir=run", *vectors_of("/c/en/patient"))

    assert "error: v.txt: " in message
    assert not (home / "run").exists()


def test_train_warns_of_few_tokens_with_a_vector_in_its_log(home, vectors_of):
    _, err = succeeds("train", *TRAIN, "--workdir=run", *vectors_of("patient"))

    assert WARNING in err
    assert WARNING in (home / "run" / "log.txt").read_text()
