"""Word vectors: every kind of file gives each word its own row, and faulty files are refused."""

import gzip
import hashlib
import json
import os
import pickle
import re
import struct
import sys
from dataclasses import asdict

import numpy as np
import pytest
from support.files import write
from support.vector_files import fasttext_model, word2vec

from mednli_jax.data.corpus import file_path
from mednli_jax.data.text import PAD, SPECIALS, UNK
from mednli_jax.data.vector_formats import read_head, rows_of, vector_files
from mednli_jax.data.vectors import RANDOM_SD, SUBWORDS, coverage, load_vectors, random_vectors
from mednli_jax.errors import DataError, DataErrors, UserError

WORDS = (*SPECIALS, "Fever", "cough", "BP", "absent", "naïve")
GLOVE = "cough 1 2 3\nfever 4 5 6\nbp -1 -1 -1\nBP .5 0 -2.5e-1\nother 9 9 9\nnaïve 7 8 9\n"
MODEL, WORD2VEC = fasttext_model, word2vec


@pytest.mark.parametrize("name", ["glove.txt", "glove.txt.gz", "bioasq/"])
def test_vectors_are_looked_for_in_the_folder_of_the_config_then_in_that_of_the_variable(
    tmp_path, monkeypatch, name
):
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path / "shared"))
    text = f"$MEDNLI_JAX_DATA/vectors/{name.removesuffix('.gz')}"
    assert file_path(text, tmp_path / "own") == tmp_path / "own" / "vectors" / name.removesuffix(
        ".gz"
    )  # nowhere
    for folder in ("shared", "own"):
        path = tmp_path / folder / "vectors" / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True)
        if not path.is_dir():
            path.touch()
        assert file_path(text, tmp_path / "own") == path
    assert file_path(text, None) == tmp_path / "shared" / "vectors" / name


def load(path, words=WORDS, dim=3):
    return load_vectors(path, words, dim=dim, seed=0)


def faults(path, words=WORDS, dim=3):
    """[(file, line)] of the faults that loading names; no message holds a word."""
    with pytest.raises(UserError) as caught:
        load(path, words, dim)
    errors = caught.value.errors if isinstance(caught.value, DataErrors) else [caught.value]
    assert all(error.fix for error in errors)
    assert not any(word in str(caught.value).lower() for word in ("fever", "cough"))
    return [(error.file, error.line) for error in errors]


def composed(vectors):
    """Number of words whose vector is made of character n-grams alone."""
    return (vectors.route_V == SUBWORDS).sum()


def check(vectors):
    assert vectors.words == ("Fever", "cough", "BP", "naïve")
    assert (vectors.with_vector, vectors.lowered, composed(vectors), vectors.duplicates) == (
        4,
        1,
        0,
        0,
    )
    assert vectors.matrix.dtype == np.float32
    mean = [(4 + 1 + 0.5 + 7) / 4, (5 + 2 + 0 + 8) / 4, (6 + 3 - 0.25 + 9) / 4]
    expected = [[0, 0, 0], mean, [4, 5, 6], [1, 2, 3], [0.5, 0, -0.25], mean, [7, 8, 9]]
    np.testing.assert_allclose(vectors.matrix, expected, rtol=1e-6)


def pair(folder, text=GLOVE, between=" "):
    """Writes BioASQ's two files."""
    rows = [line.split(" ", 1) for line in text.splitlines()]
    write(folder / "types.txt", "".join(word + "\n" for word, _ in rows))
    write(
        folder / "vectors.txt",
        "".join(numbers.replace(" ", between) + f"{between}\n" for _, numbers in rows),
    )
    return folder


KINDS = {
    "glove.txt": lambda folder: write(folder / "v.txt", GLOVE),
    "fastText's .vec": lambda folder: write(folder / "v.vec", "6 3\n" + GLOVE.replace("\n", " \n")),
    "TABs": lambda folder: write(folder / "v.txt", GLOVE.replace(" ", "\t")),
    "TABs after the words": lambda folder: write(
        folder / "v.txt", re.sub("(?m)^([^ ]+) ", r"\1\t", GLOVE)
    ),
    "a mark, a header and TABs": lambda folder: write(
        folder / "v.txt", "\ufeff6\t3\n" + GLOVE.replace(" ", " \t ")
    ),
    "a mark": lambda folder: write(folder / "v.txt", "\ufeff" + GLOVE),
    "pair": pair,
    "pair with TABs": lambda folder: pair(folder, between="\t"),
    "pair by its numbers": lambda folder: pair(folder) / "vectors.txt",
    "word2vec": lambda folder: write(folder / "v.bin", WORD2VEC()),
    "word2vec of gensim": lambda folder: write(folder / "v.bin.gz", WORD2VEC(end=b"")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_gives_the_same_vectors(tmp_path, kind):
    path = KINDS[kind](tmp_path)
    vectors = load(path)
    check(vectors)
    vocab, matrix = vectors.covered()
    assert vocab.words == (*SPECIALS, "Fever", "cough", "BP", "naïve")
    np.testing.assert_array_equal(matrix, vectors.matrix[[PAD, UNK, 2, 3, 4, 6]])
    files = vector_files(path)
    assert (
        vectors.sha256 == hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    )
    assert vectors.file == path.name
    rows = dict(rows_of(path, 3))
    assert {"cough", "naïve"} < {word.decode() for word in rows}
    assert read_head(path).dim == 3
    assert read_head(path).rows in (-1, len(rows))


def test_words_with_spaces_are_read_from_the_right_and_the_first_of_repeated_ones_counts(tmp_path):
    content = ". . . 4 5 6\ncough 1 2 3\nat name@domain.com 7 8 9\n\u00a0 1 1 1\n"
    vectors = load(
        write(tmp_path / "v.txt", content),
        (*SPECIALS, ". . .", "at name@domain.com", "\u00a0", "at"),
    )
    assert vectors.words == (". . .", "at name@domain.com", "\u00a0")
    np.testing.assert_array_equal(vectors.matrix[2:5], [[4, 5, 6], [7, 8, 9], [1, 1, 1]])
    text = "cough 1 2 3\nx 0 0 0\nx 1 1 1\ncough 4 5 6\ncough 7 8 9\n"
    binary = WORD2VEC(promised=7)[:-1] + b"\ncough " + struct.pack("<3f", 9, 9, 9)
    for content, repeated in ((text, 2), (binary, 1)):
        vectors = load(write(tmp_path / "v.txt", content))
        np.testing.assert_array_equal(vectors.matrix[3], [1, 2, 3])
        assert vectors.duplicates == repeated


def test_coverage_counts_words_and_tokens_by_the_way_they_got_their_vectors(tmp_path):
    path = write(tmp_path / "v.txt", "fever 1 2\ncough 3 4\nBP 7 8\n")
    vectors = load_vectors(path, (*SPECIALS, "Fever", "cough", "BP", "absent"), dim=2, seed=0)
    report = coverage(vectors, {"Fever": 1, "cough": 2, "BP": 4, "absent": 8, "<unk>": 1})
    assert (report.words, report.tokens) == (5, 16)
    assert report.share_of_words == {
        "exact": 2 / 5,
        "lowered": 1 / 5,
        "subwords": 0,
        "found": 3 / 5,
    }
    assert report.share_of_tokens == {
        "exact": 6 / 16,
        "lowered": 1 / 16,
        "subwords": 0,
        "found": 7 / 16,
    }
    assert "cough" not in json.dumps(asdict(report)).lower()
    assert coverage(vectors, {}).share_of_tokens["found"] == 0


def test_unknown_words_share_the_mean_or_one_random_vector(tmp_path):
    path = write(tmp_path / "v.txt", GLOVE)
    mean, drawn, again = (
        load_vectors(path, WORDS, dim=3, seed=seed, unknown=unknown)
        for seed, unknown in ((0, "mean"), (1, "random"), (1, "random"))
    )
    np.testing.assert_allclose(mean.matrix[UNK], mean.matrix[[2, 3, 4, 6]].mean(axis=0), rtol=1e-6)
    absent = WORDS.index("absent")
    np.testing.assert_array_equal(drawn.matrix[UNK], drawn.matrix[absent])
    np.testing.assert_array_equal(drawn.matrix, again.matrix)
    assert (abs(drawn.matrix[UNK]) <= 0.5).all()
    assert len(set(drawn.matrix[UNK].tolist())) == 3
    known = [row for row in range(2, len(WORDS)) if row != absent]
    np.testing.assert_array_equal(drawn.matrix[known], mean.matrix[known])
    exact = load_vectors(path, WORDS, dim=3, seed=0, lowered=False)
    assert (exact.words, exact.lowered) == (("cough", "BP", "naïve"), 0)
    none = load(write(path, "x 1 2 3\n"))
    assert (none.with_vector, none.words) == (0, ())
    assert none.matrix[UNK].any()
    assert not none.matrix[PAD].any()


def test_random_vectors_depend_on_seed_and_word_alone():
    words = [f"w{n}" for n in range(500)]
    matrix = random_vectors(words, dim=100, seed=1)
    np.testing.assert_array_equal(random_vectors(words[::-1], dim=100, seed=1)[::-1], matrix)
    assert np.abs(random_vectors(words, dim=100, seed=2) - matrix).mean() > RANDOM_SD / 2
    assert abs(matrix.mean()) < 0.008  # of 50,000 draws the standard error is .0018
    assert matrix.std() == pytest.approx(RANDOM_SD, abs=0.006)
    vectors = load_vectors(None, WORDS, dim=8, seed=3)
    assert (vectors.file, vectors.sha256, vectors.words) == ("random", "", WORDS[2:])
    assert not vectors.matrix[PAD].any()
    np.testing.assert_array_equal(vectors.matrix[3], random_vectors(["cough"], dim=8, seed=3)[0])


def test_fasttext_by_hand(tmp_path):
    """The word "ab" has the n-grams <ab and ab>, and "xy" has <xy and xy>. The row of each n-gram
    holds its number."""
    matrix = np.array([[n, -n] for n in range(52)], float)
    path = write(tmp_path / "v.bin", MODEL(["ab", "</s>"], matrix, buckets=50))
    vectors = load(path, (*SPECIALS, "ab", "AB", "xy", "</s>", ""), dim=2)
    ab, xy = (0 + 10 + 8) / 3, (2 + 46) / 2
    np.testing.assert_allclose(vectors.matrix[2:6, 0], [ab, ab, xy, 1], rtol=1e-6)
    np.testing.assert_allclose(vectors.matrix[:, 1], -vectors.matrix[:, 0], rtol=1e-6)
    np.testing.assert_allclose(
        vectors.matrix[[UNK, 6], 0], (ab + ab + xy + 1) / 4, rtol=1e-6
    )  # "" has no n-gram
    assert vectors.words == ("ab", "AB", "xy", "</s>")
    assert (vectors.with_vector, vectors.lowered, composed(vectors)) == (4, 1, 1)
    assert (read_head(path).rows, read_head(path).dim) == (2, 2)
    assert [word for word, _ in rows_of(path, 2)] == [b"ab", b"</s>"]
    # A word that is only a label in the model gets the mean of its n-grams, <cd and cd>.
    write(path, MODEL(["ab", "</s>"], matrix[:, :1], buckets=50, labels=["cd"]))
    vectors = load(path, (*SPECIALS, "cd"), dim=1)
    assert (composed(vectors), vectors.matrix[2, 0]) == (1, (6 + 14) / 2)
    # A word may be no UTF-8.
    data = MODEL(["ab", "q", "cd"], [[1], [2], [3]], buckets=0, minn=0, maxn=0).replace(
        b"q\0", b"\xff\0"
    )
    assert load(write(path, data), (*SPECIALS, "cd", "\ud800", "\udcff"), dim=1).words == ("cd",)
    # Capitals of unseen words count where the model knows capitals.
    matrix, asked = np.random.default_rng(0).normal(size=(501, 2)), (*SPECIALS, "XY", "xy")
    small, cased = (
        load(write(tmp_path / "v.bin", MODEL([word], matrix, buckets=500)), asked, dim=2).matrix
        for word in ("ab", "Ab")
    )
    np.testing.assert_array_equal(small[2], small[3])
    np.testing.assert_array_equal(cased[3], small[3])
    assert np.abs(cased[2] - cased[3]).max() > 0.01


ONES = np.ones((7, 3))
WHOLE = MODEL(["fever", "cough"], ONES)
FAULTS = {
    "several bad rows": ("v.txt", "cough 1 2 3\nfever 4 5\nbp nan 1 1\n", [2, 3]),
    "another dimension": ("v.txt", "cough 1 2\nfever 4 5\n", [1]),
    "commas": ("v.txt", "cough,1,2,3\nfever,4,5,6\n", [1]),
    "decimal commas": ("v.txt", "cough 1,5 2,5 3,5\n", [1]),
    "too large": ("v.txt", "cough 1 2 3\nfever 4 5 1e30\n", [2]),
    "no vectors": ("v.txt", "0 3\n", [None]),
    "neither kind": ("v.bin", b"\0\1\2\3", [None]),
    "word2vec, a control character": (
        "v.bin",
        WORD2VEC({"fever": (1, 2, 3), "co\0ugh": (4, 5, 6)}),
        [None],
    ),
    "fastText, infinite": ("v.bin", MODEL(["fever", "cough"], ONES * np.inf), [None]),
    "fastText, quantised": ("v.bin", MODEL(["fever"], ONES[1:], quantised=1), [None]),
    "fastText, gzipped": ("v.bin", gzip.compress(WHOLE), [None]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_by_file_and_line(fault, tmp_path):
    name, content, lines = FAULTS[fault]
    assert faults(write(tmp_path / name, content)) == [(name, line) for line in lines]


@pytest.mark.parametrize("phrase", ["chest pain", "blood gas", "type 2 diabetes", "b x"])
def test_word2vecs_format_has_no_room_for_a_space_in_a_word(phrase, tmp_path):
    """Its readers end a word at the first space. The rest of it would be read as numbers, and
    numbers as words."""
    rng = np.random.default_rng(0)
    rows = [
        f"{word} ".encode() + rng.normal(size=50).astype("<f4").tobytes()
        for word in ("fever", phrase, "cough")
    ]
    assert faults(write(tmp_path / "v.bin", b"3 50\n" + b"".join(rows)), dim=50) == [
        ("v.bin", None)
    ]
    load(
        write(tmp_path / "v.bin", b"3 50\n" + b"".join(rows).replace(phrase.encode(), b"nausea")),
        dim=50,
    )


def test_numbers_that_are_not_finite_count_only_where_their_word_is_asked_for(tmp_path):
    path = write(
        tmp_path / "v.bin",
        b"2 1\nother " + struct.pack("<f", np.nan) + b"cough " + struct.pack("<f", 1),
    )
    assert load(path, dim=1).words == ("cough",)
    assert faults(path, (*SPECIALS, "other"), dim=1) == [("v.bin", None)]


def test_faults_of_pairs(tmp_path):
    folder = tmp_path / "bioasq"
    write(pair(folder) / "types.txt", "cough\nfever\n")
    assert faults(folder) == [("vectors.txt", None)]
    pair(folder, "cough 1 2 3\nfever 4 5\nbp 1 nan 2\n")
    assert faults(folder, (*SPECIALS, "bp")) == [("vectors.txt", 2), ("vectors.txt", 3)]


@pytest.mark.parametrize("content", [WORD2VEC(end=b""), WHOLE], ids=["word2vec", "fastText"])
def test_a_binary_file_that_was_cut_off_is_refused(tmp_path, content):
    load(write(tmp_path / "v.bin", content))
    for size in range(5, len(content)):
        assert len(faults(write(tmp_path / "v.bin", content[:size]))) == 1


def test_a_pickle_is_named_and_never_opened(tmp_path):
    """The authors of MedNLI published such a pickle. Loading this one would leave a folder
    behind."""
    left = tmp_path / "left"

    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(left),)

    for name, protocol in (("glove.840B.300d.pickled", 4), ("v.txt", 2), ("v.pkl.gz", 5)):
        path = write(tmp_path / name, pickle.dumps(Harmful(), protocol))
        assert faults(path) == [(name, None)]
        assert not left.exists()


def test_the_missing_library_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "v.bin", WHOLE)
    monkeypatch.setitem(sys.modules, "fasttext", None)
    with pytest.raises(DataError, match="embeddings"):
        load(path)
    assert read_head(path).dim == 3
