"""Word vectors: every kind of file gives each word its own row, and faulty files are refused."""

import gzip
import hashlib
import os
import pickle
import re
import struct

import numpy as np
import pytest
from support.cases import cases
from support.files import write
from support.trees import assert_equal, assert_near
from support.vector_files import FASTTEXT, word2vec

from mednli_jax.data.corpus import file_path
from mednli_jax.data.text import PAD, SPECIALS, UNK
from mednli_jax.data.vector_formats import checked_vector_files, read_head, words_with_numbers
from mednli_jax.data.vectors import RANDOM_SD, load_vectors, random_vectors
from mednli_jax.errors import DataError, DataErrors, UserError

WORDS = ("Fever", "cough", "BP", "absent", "naïve")
GLOVE = "cough 1 2 3\nfever 4 5 6\nbp -1 -1 -1\nBP .5 0 -2.5e-1\nother 9 9 9\nnaïve 7 8 9\n"


@pytest.mark.parametrize("name", ["glove.txt", "glove.txt.gz", "folder/"])
def test_vectors_are_looked_for_in_the_folder_of_the_config_then_in_that_of_the_variable(
    tmp_path, monkeypatch, name
):
    own, shared = tmp_path / "own", tmp_path / "shared"
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(shared))
    plain = f"vectors/{name.removesuffix('.gz')}"
    text = f"$MEDNLI_JAX_DATA/{plain}"

    assert file_path(text, own) == own / plain  # there is none
    for folder in (shared, own):
        path = folder / "vectors" / name
        write(path / "v.txt" if name.endswith("/") else path, "")
        assert file_path(text, own) == path
    assert file_path(text, None) == shared / "vectors" / name


@pytest.fixture
def save(tmp_path):
    """Writes a file of vectors."""
    return lambda content, name="v.txt": write(tmp_path / name, content)


def load(path, words=WORDS, dim=3, **options):
    return load_vectors(path, (*SPECIALS, *words), dim=dim, seed=0, **options)


def faults(path, words=WORDS, dim=3):
    """[(file, line)] of the faults that loading names; no message holds a word."""
    with pytest.raises(UserError) as caught:
        load(path, words, dim)
    errors = caught.value.errors if isinstance(caught.value, DataErrors) else [caught.value]
    assert all(error.fix for error in errors)
    assert not re.search("fever|cough", str(caught.value), re.IGNORECASE)
    return [(error.file, error.line) for error in errors]


FILES = {
    "glove.txt": ("v.txt", GLOVE),
    "fastText's .vec": ("v.vec", "6 3\n" + GLOVE.replace("\n", " \n")),
    "TABs": ("v.txt", GLOVE.replace(" ", "\t")),
    "TABs after the words": ("v.txt", re.sub("(?m)^([^ ]+) ", r"\1\t", GLOVE)),
    "a mark, a header and TABs": ("v.txt", "\ufeff6\t3\n" + GLOVE.replace(" ", " \t ")),
    "a mark": ("v.txt", "\ufeff" + GLOVE),
    "word2vec": ("v.bin", word2vec()),
    "word2vec of gensim": ("v.bin.gz", word2vec(end=b"")),
}


@pytest.fixture(params=FILES)
def path(tmp_path, request):
    """A file of each kind with the same vectors."""
    name, content = FILES[request.param]
    return write(tmp_path / name, content)


def test_every_kind_of_file_gives_the_same_vectors(path):
    vectors = load(path)

    assert vectors.words == ("Fever", "cough", "BP", "naïve")
    mean = [(4 + 1 + 0.5 + 7) / 4, (5 + 2 + 0 + 8) / 4, (6 + 3 - 0.25 + 9) / 4]
    expected = [
        [0, 0, 0],
        mean,
        [4, 5, 6],
        [1, 2, 3],
        [0.5, 0, -0.25],
        mean,
        [7, 8, 9],
    ]
    assert_near(vectors.matrix, expected, rtol=1e-6)
    assert vectors.matrix.dtype == np.float32
    assert vectors.duplicates == 0
    vocab, matrix = vectors.vocabulary_with_vectors()
    assert vocab.words == (*SPECIALS, *vectors.words)
    assert_equal(matrix, vectors.matrix[[PAD, UNK, 2, 3, 4, 6]])


def test_every_kind_of_file_has_a_digest_rows_and_a_head(path):
    assert checked_vector_files(path) == [path]
    head, rows = read_head(path), dict(words_with_numbers(path, 3))

    assert load(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert load(path).file == path.name
    assert {b"cough", "naïve".encode()} < rows.keys()
    assert head.dim == 3
    assert head.rows in (-1, len(rows))


def test_words_with_spaces_are_read_from_the_right(save):
    content = ". . . 4 5 6\ncough 1 2 3\nat name@domain.com 7 8 9\n\u00a0 1 1 1\n"
    words = (". . .", "at name@domain.com", "\u00a0", "at")

    vectors = load(save(content), words)

    assert vectors.words == words[:3]
    assert_equal(vectors.matrix[2:5], [[4, 5, 6], [7, 8, 9], [1, 1, 1]])


TWICE = word2vec(promised=7)[:-1] + b"\ncough " + struct.pack("<3f", 9, 9, 9)


@cases(
    "content, duplicates",
    {
        "text": ("cough 1 2 3\nx 0 0 0\nx 1 1 1\ncough 4 5 6\ncough 7 8 9\n", 2),
        "word2vec": (TWICE, 1),
    },
)
def test_the_first_row_of_a_repeated_word_counts(save, content, duplicates):
    vectors = load(save(content))

    assert_equal(vectors.matrix[3], [1, 2, 3])
    assert vectors.duplicates == duplicates


def test_unknown_words_share_one_random_vector_where_that_is_asked_for(save):
    path = save(GLOVE)

    mean, random = load(path), load(path, unknown="random")

    absent, known = 5, [2, 3, 4, 6]
    unknown = random.matrix[UNK]
    assert_equal(unknown, random.matrix[absent])
    assert (abs(unknown) <= 0.5).all()
    assert len(set(unknown.tolist())) == 3
    assert_equal(random.matrix[known], mean.matrix[known])
    assert_equal(random.matrix, load(path, unknown="random").matrix)


def test_words_are_not_looked_up_in_lower_case_where_that_is_not_asked_for(save):
    vectors = load(save(GLOVE), try_lower_case=False)

    assert vectors.words == ("cough", "BP", "naïve")


def test_without_a_vector_of_any_word_the_unknown_word_has_a_random_one(save):
    vectors = load(save("x 1 2 3\n"))

    assert vectors.words == ()
    assert vectors.matrix[UNK].any()
    assert not vectors.matrix[PAD].any()


def test_random_vectors_depend_on_seed_and_word_alone():
    words = [f"w{n}" for n in range(500)]
    matrix = random_vectors(words, dim=100, seed=1)

    assert_equal(random_vectors(words[::-1], dim=100, seed=1)[::-1], matrix)
    assert np.abs(random_vectors(words, dim=100, seed=2) - matrix).mean() > RANDOM_SD / 2
    assert abs(matrix.mean()) < 0.008  # of 50,000 draws the standard error is .0018
    assert matrix.std() == pytest.approx(RANDOM_SD, abs=0.006)


def test_without_a_file_every_word_has_a_random_vector():
    vectors = load(None, dim=8)

    assert (vectors.file, vectors.sha256, vectors.words) == ("random", "", WORDS)
    assert not vectors.matrix[PAD].any()
    assert_equal(vectors.matrix[3], random_vectors(["cough"], dim=8, seed=0)[0])


# -- faults --


@pytest.mark.parametrize("content", [FASTTEXT, gzip.compress(FASTTEXT)], ids=["plain", "gzipped"])
def test_a_model_of_fasttext_is_refused(save, content):
    assert faults(save(content, "v.bin")) == [("v.bin", None)]


def test_a_folder_is_no_file_of_vectors(tmp_path):
    write(tmp_path / "v.txt", GLOVE)
    with pytest.raises(DataError, match=r"is a folder, not a file\. Fix: put the file"):
        load(tmp_path)


@pytest.mark.parametrize("phrase", ["chest pain", "blood gas", "type 2 diabetes", "b x"])
def test_word2vecs_format_has_no_room_for_a_space_in_a_word(save, phrase):
    """Its readers end a word at the first space. The rest of it would be read as numbers, and
    numbers as words."""
    rng, content = np.random.default_rng(0), b"3 50\n"
    for word in ("fever", phrase, "cough"):
        content += f"{word} ".encode() + rng.normal(size=50).astype("<f4").tobytes()

    assert faults(save(content, "v.bin"), dim=50) == [("v.bin", None)]
    load(save(content.replace(phrase.encode(), b"nausea"), "v.bin"), dim=50)


def test_numbers_that_are_not_finite_count_only_where_their_word_is_asked_for(save):
    rows = b"other " + struct.pack("<f", np.nan) + b"cough " + struct.pack("<f", 1)
    path = save(b"2 1\n" + rows, "v.bin")

    assert load(path, dim=1).words == ("cough",)
    assert faults(path, ["other"], dim=1) == [("v.bin", None)]


def test_a_binary_file_that_was_cut_off_is_refused(save):
    content = word2vec(end=b"")
    load(save(content, "v.bin"))
    for size in range(5, len(content)):
        assert len(faults(save(content[:size], "v.bin"))) == 1


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("glove.840B.300d.pickled", 4),
        ("v.txt", 2),
        ("v.pkl.gz", 5),
    ],
)
def test_a_pickle_is_named_and_never_opened(save, tmp_path, name, protocol):
    """The authors of MedNLI published such a pickle. Loading this one would leave a folder
    behind."""
    left = tmp_path / "left"

    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(left),)

    path = save(pickle.dumps(Harmful(), protocol), name)

    assert faults(path) == [(name, None)]
    assert not left.exists()
