"""Word vectors: every format gives each word its own row, and faulty rows are refused."""

import gzip
import hashlib
import json
import os
import pickle

import numpy as np
import pytest

from mednli_jax.errors import DataError, DataErrors, UsageError, UserError
from mednli_jax.knowledge.vectors import RANDOM_SD, coverage, load_vectors, random_vectors, vector_files
from mednli_jax.knowledge.vectors_files import read_head
from mednli_jax.text import PAD, SPECIALS, UNK

WORDS = (*SPECIALS, "Fever", "cough", "BP", "absent", "naïve")
GLOVE = "cough 1 2 3\nfever 4 5 6\nbp -1 -1 -1\nBP .5 0 -2e-1\nother 9 9 9\nnaïve 7 8 9\n"


def write(path, content):
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def load(path, words=WORDS, dim=3):
    return load_vectors(path, words, dim=dim, seed=0)


def faults(path, words=WORDS, dim=3):
    with pytest.raises(UserError) as caught:
        load(path, words, dim)
    errors = caught.value.errors if isinstance(caught.value, DataErrors) else [caught.value]
    assert all(error.fix for error in errors)
    assert "fever" not in str(caught.value)
    return [(error.file, error.line) for error in errors]


def check(vectors):
    assert vectors.words == ("Fever", "cough", "BP", "naïve")
    assert (vectors.found, vectors.lowered, vectors.duplicates) == (4, 1, 0)
    assert vectors.matrix.dtype == np.float32
    mean = [(4 + 1 + 0.5 + 7) / 4, (5 + 2 + 0 + 8) / 4, (6 + 3 - 0.2 + 9) / 4]
    expected = [[0, 0, 0], mean, [4, 5, 6], [1, 2, 3], [0.5, 0, -0.2], mean, [7, 8, 9]]
    np.testing.assert_allclose(vectors.matrix, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "v.vec", "v.vec.gz"])
def test_text_formats(tmp_path, name):
    header = "6 3\n" if ".vec" in name else ""
    # fastText ends each row with a space.
    content = header + (GLOVE.replace("\n", " \n") if ".vec" in name else GLOVE)
    path = write(tmp_path / name, content)
    vectors = load(path)
    check(vectors)
    assert vectors.source == name
    assert vectors.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("dtype", ["float64", "float32", ">f4"])
def test_array_with_vocabulary(tmp_path, dtype):
    lines = [line.split(" ") for line in GLOVE.splitlines()]
    np.save(tmp_path / "v.npy", np.array([line[1:] for line in lines], dtype))
    write(tmp_path / "v.vocab.txt", "\n".join(line[0] for line in lines) + "\n")
    vectors = load(tmp_path / "v.npy")
    check(vectors)
    files = (tmp_path / "v.npy").read_bytes() + (tmp_path / "v.vocab.txt").read_bytes()
    assert vectors.sha256 == hashlib.sha256(files).hexdigest()


def pair(folder, lines=None, ending=""):
    """Writes BioASQ's two files, types.txt and vectors.txt."""
    rows = [line.split(" ", 1) for line in (lines or GLOVE).splitlines()]
    folder.mkdir(exist_ok=True)
    write(folder / f"types.txt{ending}", "".join(word + "\n" for word, _ in rows))
    write(folder / f"vectors.txt{ending}", "".join(numbers + " \n" for _, numbers in rows))
    return folder


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("name", ["", "types.txt", "vectors.txt"])
def test_words_and_numbers_in_two_files(tmp_path, name, ending):
    folder = pair(tmp_path / "bioasq", ending=ending)
    vectors = load(folder / name)
    check(vectors)
    assert [file.name for file in vector_files(folder / name)] == [f"types.txt{ending}", f"vectors.txt{ending}"]
    files = (folder / f"types.txt{ending}").read_bytes() + (folder / f"vectors.txt{ending}").read_bytes()
    assert vectors.sha256 == hashlib.sha256(files).hexdigest()
    assert read_head(folder / name).dim == 3


def test_vectors_txt_by_itself_is_a_text_file(tmp_path):
    check(load(write(tmp_path / "vectors.txt", GLOVE)))


def test_faults_of_words_and_numbers_in_two_files(tmp_path):
    folder = pair(tmp_path / "bioasq")
    write(folder / "types.txt", "cough\nfever\n")
    assert faults(folder) == [("vectors.txt", None)]
    write(folder / "types.txt", "cough\nfever\nbp\nBP\nother\nnaïve\nmore\n")
    assert faults(folder) == [("vectors.txt", None)]
    assert faults(folder, dim=4) == [("vectors.txt", 1)]
    pair(folder, "cough 1 2 3\nfever 4 5\nbp 1 nan 2\n")
    assert faults(folder, (*SPECIALS, "bp")) == [("vectors.txt", 2), ("vectors.txt", 3)]


def test_vectors_side_by_side(tmp_path):
    """A word gets zeros for the file that lacks it. A word that neither file has gets both means."""
    one = write(tmp_path / "one.txt", "fever 1 2\ncough 3 4\n")
    two = write(tmp_path / "two.vec", "2 1\ncough 5\nBP 7\n")
    vectors = load_vectors(f"{one}+{two}", (*SPECIALS, "Fever", "cough", "BP", "absent"), dim=3, seed=0)
    expected = [[0, 0, 0], [2, 3, 6], [1, 2, 0], [3, 4, 5], [0, 0, 7], [2, 3, 6]]
    np.testing.assert_array_equal(vectors.matrix, expected)
    assert vectors.words == ("Fever", "cough", "BP")
    assert (vectors.found, vectors.lowered, vectors.source) == (3, 1, "one.txt+two.vec")
    assert [(source.file, source.dim, source.found) for source in vectors.sources] == [
        ("one.txt", 2, 2),
        ("two.vec", 1, 2),
    ]
    assert vectors.sha256.split("+") == [hashlib.sha256(file.read_bytes()).hexdigest() for file in (one, two)]
    assert vector_files(f"{one}+{two}") == [one, two]


def test_a_word_counts_by_its_better_source(tmp_path):
    one, two = write(tmp_path / "one.txt", "fever 1 2\n"), write(tmp_path / "two.txt", "Fever 5\n")
    assert load_vectors(f"{one}+{two}", (*SPECIALS, "Fever"), dim=3, seed=0).lowered == 0


def test_lower_case_counts_unless_left_out(tmp_path):
    path, words = write(tmp_path / "one.txt", "fever 1 2\nBP 3 4\n"), (*SPECIALS, "Fever", "BP", "bp")
    plain, exact = (load_vectors(path, words, dim=2, seed=0, lowered=lowered) for lowered in (True, False))
    assert (plain.words, plain.lowered) == (("Fever", "BP"), 1)
    assert (exact.words, exact.lowered) == (("BP",), 0)
    # words that are not found get the mean of those found
    np.testing.assert_array_equal(exact.matrix[2:], [[3, 4]] * 3)


def test_a_single_file_may_have_the_separator_in_its_name(tmp_path):
    check(load(write(tmp_path / "a+b.txt", GLOVE)))


def test_faults_of_vectors_side_by_side(tmp_path):
    one, two = write(tmp_path / "one.txt", GLOVE), write(tmp_path / "two.txt", GLOVE)
    assert faults(f"{one}+{two}", dim=5) == [("one.txt+two.txt", None)]
    assert faults(f"{one}+{tmp_path / 'absent.txt'}", dim=6) == [("absent.txt", None)]
    with pytest.raises(UsageError):
        load_vectors(f"{one}+", WORDS, dim=3, seed=0)


def test_coverage_counts_words_and_tokens(tmp_path):
    one, two = write(tmp_path / "one.txt", "fever 1 2\ncough 3 4\n"), write(tmp_path / "two.txt", "cough 5\nBP 7\n")
    vectors = load_vectors(f"{one}+{two}", (*SPECIALS, "Fever", "cough", "BP", "absent"), dim=3, seed=0)
    report = coverage(vectors, {"Fever": 1, "cough": 2, "BP": 4, "absent": 8, "<unk>": 1})
    assert (report["words"], report["tokens"]) == (5, 16)
    assert report["share_of_words"] == {"exact": 2 / 5, "lowered": 1 / 5, "subwords": 0, "found": 3 / 5}
    assert report["share_of_tokens"] == {"exact": 6 / 16, "lowered": 1 / 16, "subwords": 0, "found": 7 / 16}
    first, second = report["sources"]
    assert (first["file"], first["share_of_tokens"]["found"]) == ("one.txt", 3 / 16)
    assert (second["file"], second["share_of_tokens"]["found"]) == ("two.txt", 6 / 16)
    assert "cough" not in json.dumps(report).lower()
    assert coverage(vectors, {})["share_of_tokens"]["found"] == 0


def test_known_words_make_a_vocabulary_with_its_matrix(tmp_path):
    vectors = load(write(tmp_path / "v.txt", GLOVE))
    vocab, matrix = vectors.known()
    assert vocab.words == (*SPECIALS, "Fever", "cough", "BP", "naïve")
    np.testing.assert_array_equal(matrix[vocab.encode(["naïve"])[0]], [7, 8, 9])
    np.testing.assert_array_equal(matrix[vocab.encode(["absent"])[0]], vectors.matrix[UNK])
    assert not matrix[PAD].any()
    assert len(matrix) == len(vocab)


def test_words_with_spaces_are_read_from_the_right(tmp_path):
    content = "cough 1 2 3\n. . . 4 5 6\nat name@domain.com 7 8 9\n\u00a0 1 1 1\n"
    vectors = load(write(tmp_path / "v.txt", content), (*SPECIALS, ". . .", "at name@domain.com", "\u00a0", "at"))
    assert vectors.words == (". . .", "at name@domain.com", "\u00a0")
    np.testing.assert_array_equal(vectors.matrix[2:5], [[4, 5, 6], [7, 8, 9], [1, 1, 1]])


def test_first_row_may_be_a_word_with_spaces(tmp_path):
    vectors = load(write(tmp_path / "v.txt", ". . 4 5 6\ncough 1 2 3\n"), (*SPECIALS, ". ."))
    np.testing.assert_array_equal(vectors.matrix[2], [4, 5, 6])


def test_a_pickle_is_named_and_never_opened(tmp_path):
    """The authors of MedNLI published such a pickle. Loading this one would leave a folder behind."""
    left = tmp_path / "left"

    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(left),)

    for name, protocol in (("glove.840B.300d.pickled", 4), ("v.txt", 2), ("v.pkl.gz", 5)):
        path = write(tmp_path / name, pickle.dumps(Harmful(), protocol))
        with pytest.raises(DataError, match="pickle") as fault:
            load(path)
        assert fault.value.file == name
        assert "pickle.load" in fault.value.fix
        assert not left.exists()


def test_first_of_repeated_words_counts(tmp_path):
    vectors = load(write(tmp_path / "v.txt", "cough 1 2 3\nx 0 0 0\nx 1 1 1\ncough 4 5 6\ncough 7 8 9\n"))
    np.testing.assert_array_equal(vectors.matrix[3], [1, 2, 3])
    assert (vectors.found, vectors.duplicates) == (1, 2)


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


def test_no_word_found_gives_random_unknown_and_zero_padding(tmp_path):
    vectors = load(write(tmp_path / "v.txt", "x 1 2 3\n"))
    assert (vectors.found, vectors.words) == (0, ())
    assert vectors.matrix[UNK].any()
    assert not vectors.matrix[PAD].any()


@pytest.mark.parametrize("row", ["other 4 5", "other 4 5 6 7", "fever 4 5", "fever 4 nan 6", "fever 4 -inf 6"])
def test_bad_rows_are_named_by_line_also_below_a_header(tmp_path, row):
    assert faults(write(tmp_path / "v.txt", f"3 3\ncough 1 2 3\n{row}\nbp 1 1 1\n")) == [("v.txt", 3)]


def test_several_bad_rows_come_together(tmp_path):
    found = faults(write(tmp_path / "v.txt", "cough 1 2 3\nfever 4 5\nbp nan 1 1\n"))
    assert found == [("v.txt", 2), ("v.txt", 3)]


@pytest.mark.parametrize("content", ["cough 1 2\nfever 4 5\n", "2 2\ncough 1 2\nfever 4 5\n", "a 1 2 3 4\n"])
def test_wrong_dimension_is_said_once(tmp_path, content):
    assert faults(write(tmp_path / "v.txt", content)) == [("v.txt", 1)]


def test_array_faults(tmp_path):
    path = tmp_path / "v.npy"
    np.save(path, np.ones((2, 3)))
    assert faults(path) == [("v.vocab.txt", None)]
    write(tmp_path / "v.vocab.txt", "fever\ncough\nbp\n")
    assert faults(path) == [("v.npy", None)]
    write(tmp_path / "v.vocab.txt", "fever\ncough\n")
    assert faults(path, dim=4) == [("v.npy", None)]
    for array in (np.ones(3), np.ones((2, 3), int), np.array([{}, 1], object)):
        np.save(path, array, allow_pickle=True)
        assert faults(path) == [("v.npy", None)]


def test_random_vectors_depend_on_seed_and_word_alone():
    words = [f"w{n}" for n in range(500)]
    matrix = random_vectors(words, dim=100, seed=1)
    np.testing.assert_array_equal(random_vectors(words[::-1], dim=100, seed=1)[::-1], matrix)
    assert np.abs(random_vectors(words, dim=100, seed=2) - matrix).mean() > RANDOM_SD / 2
    # With 50,000 draws the standard errors are .0018 for the mean and .0013 for the deviation.
    assert abs(matrix.mean()) < 0.008
    assert matrix.std() == pytest.approx(RANDOM_SD, abs=0.006)
    assert len(np.unique(matrix)) > 49_000
    assert abs(np.corrcoef(matrix[:-1].ravel(), matrix[1:].ravel())[0, 1]) < 0.02
    share_within_one_sd = np.mean(np.abs(matrix) < RANDOM_SD)
    assert share_within_one_sd == pytest.approx(0.6827, abs=0.01)


def test_load_random_vectors():
    vectors = load_vectors(None, WORDS, dim=8, seed=3)
    assert (vectors.source, vectors.sha256, vectors.found) == ("random", "", 5)
    assert vectors.words == WORDS[2:]
    assert not vectors.matrix[PAD].any()
    np.testing.assert_array_equal(vectors.matrix[3], random_vectors(["cough"], dim=8, seed=3)[0])
    assert vectors.known()[0].words == WORDS


def test_vocabulary_must_start_with_the_special_words():
    with pytest.raises(ValueError, match="<pad>"):
        load_vectors(None, ("a", "b"), dim=3, seed=0)
