"""Binary files of word2vec and fastText give the vectors of fastText's own library, and damage is refused."""

import gzip
import struct
import sys

import fasttext
import numpy as np
import pytest

from mednli_jax.errors import DataError, DataErrors, UserError
from mednli_jax.knowledge.vectors import load_vectors
from mednli_jax.knowledge.vectors_files import read_head, stored_words
from mednli_jax.text import SPECIALS, UNK

WORDS = (*SPECIALS, "Fever", "cough", "BP", "absent", "naïve")
MAGIC = 793712314  # FASTTEXT_FILEFORMAT_MAGIC_INT32
ROWS = {"cough": (1, 2, 3), "fever": (4, 5, 6), "bp": (-1, -1, -1), "BP": (0.5, 0, -0.25), "naïve": (7, 8, 9)}


def load(path, words=WORDS, dim=3):
    return load_vectors(path, words, dim=dim, seed=0)


def assert_refused(path, line=None, dim=3):
    with pytest.raises(DataError) as caught:
        load(path, WORDS, dim)
    assert (caught.value.file, caught.value.line) == (path.name, line)
    assert caught.value.fix
    assert not any(word in str(caught.value).lower() for word in ("fever", "cough"))


def word2vec(rows=ROWS, end=b"\n", promised=None):
    """A file as word2vec's own C program writes it; gensim writes no line ends."""
    lines = [word.encode() + b" " + struct.pack("<3f", *numbers) + end for word, numbers in rows.items()]
    return f"{promised or len(rows)} 3\n".encode() + b"".join(lines)


def model(
    words, matrix, *, buckets, minn, maxn, labels=(), quantised=0, version=12, magic=MAGIC, kind=2, pruned=-1, loss=3,
    count=7,
):  # fmt: skip
    """A fastText model as `FastText::saveModel` writes it. matrix [words + buckets, dim]."""
    matrix = np.asarray(matrix, "<f4")
    settings = (matrix.shape[1], 5, 1, 1, 5, 1, loss, kind, buckets, minn, maxn, 100)
    parts = [struct.pack("<2i", magic, version), struct.pack("<12id", *settings, 1e-4)]
    parts.append(struct.pack("<3i2q", len(words) + len(labels), len(words), len(labels), 99, pruned))
    parts += [word.encode() + b"\0" + struct.pack("<qb", count, 0) for word in words]
    parts += [label.encode() + b"\0" + struct.pack("<qb", count, 1) for label in labels]
    parts += [struct.pack("<?2q", quantised, *matrix.shape), matrix.tobytes()]
    parts.append(struct.pack("<?2q", 0, 1, 2) + struct.pack("<2f", 1, 2))  # the output matrix
    return b"".join(parts)


def write(path, data):
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize("name", ["v.bin", "v.bin.gz", "v.txt"])
def test_word2vec(tmp_path, name, end):
    vectors = load(write(tmp_path / name, word2vec(end=end)))
    assert vectors.words == ("Fever", "cough", "BP", "naïve")
    assert (vectors.found, vectors.lowered, vectors.composed) == (4, 1, 0)
    np.testing.assert_array_equal(vectors.matrix[[2, 3, 4, 6]], [[4, 5, 6], [1, 2, 3], [0.5, 0, -0.25], [7, 8, 9]])
    assert vectors.sources[0].kind == "word2vec"
    assert read_head(tmp_path / name).rows == 5
    assert list(stored_words(tmp_path / name)) == list(ROWS)


def test_word2vec_repeated_word(tmp_path):
    data = word2vec(promised=6)[:-1] + b"\ncough " + struct.pack("<3f", 9, 9, 9)
    vectors = load(write(tmp_path / "v.bin", data))
    np.testing.assert_array_equal(vectors.matrix[3], [1, 2, 3])
    assert vectors.duplicates == 1


def test_word2vec_damage_is_named(tmp_path):
    whole, path = word2vec(end=b""), tmp_path / "v.bin"
    for size in range(len(whole)):
        with pytest.raises((DataError, DataErrors)):
            load(write(path, whole[:size]))
    assert_refused(write(path, whole + b"more 1234"), 1)
    assert_refused(write(path, word2vec(promised=4)), 1)
    assert_refused(write(path, whole), 1, dim=4)
    assert_refused(write(path, word2vec({"cough": (1, np.nan, 0)})))
    assert_refused(write(path, b"2 99999\n\0\0\0\0"))


def test_other_binary_files_are_refused(tmp_path):
    for name in ("v.bin", "v.model", "v.bin.gz"):
        assert_refused(write(tmp_path / name, b"\x80\x04\x95gensim"))


# The buckets, of 1,000, of a word's n-grams: 32-bit FNV-1a of their bytes, where a byte above 127 counts as negative.
# The n-grams have 3 and 4 characters, or 1 and 2. The mark of a word's border (<) alone is no n-gram.
BUCKETS = [
    ("fever", 3, 4, [438, 912, 294, 945, 773, 781, 562, 788, 840]),
    ("naïve", 3, 4, [890, 692, 546, 404, 832, 7, 570, 548, 654]),
    ("日本", 3, 4, [587, 759, 157]),
    ("ab", 3, 4, [508, 742, 756]),
    ("né", 1, 2, [655, 553, 165, 777, 781]),
]


@pytest.mark.parametrize(("word", "minn", "maxn", "buckets"), BUCKETS)
def test_ngrams_by_hand(tmp_path, word, minn, maxn, buckets):
    """An unknown word's vector is the mean over its n-grams; a known word's mean includes its own row."""
    n = np.arange(1004.0)
    path = write(
        tmp_path / "v.bin", model(["</s>", "x", word, "y"], np.stack([n, n * n], 1), buckets=1000, minn=minn, maxn=maxn)
    )
    rows = np.array([2, *(4 + bucket for bucket in buckets)], float)
    both = np.stack([rows, rows**2], axis=1)
    vectors = load(path, (*SPECIALS, word, "</s>"), dim=2)
    np.testing.assert_allclose(vectors.matrix[2:], [both.mean(axis=0), [0, 0]], rtol=1e-6)
    write(path, model(["</s>", "x", "z", "y"], np.stack([n, n * n], 1), buckets=1000, minn=minn, maxn=maxn))
    vectors = load(path, (*SPECIALS, word), dim=2)
    np.testing.assert_allclose(vectors.matrix[2], both[1:].mean(axis=0), rtol=1e-6)
    assert vectors.composed == 1


def test_fasttext_by_hand(tmp_path):
    """The word "ab" has the n-grams <ab and ab>, and "xy" has <xy and xy>. The row of each n-gram holds its number."""
    matrix = np.array([[n, -n] for n in range(52)], float)
    path = write(tmp_path / "v.bin", model(["ab", "</s>"], matrix, buckets=50, minn=3, maxn=3))
    vectors = load(path, (*SPECIALS, "ab", "AB", "xy", "</s>", ""), dim=2)
    ab, xy = (0 + 10 + 8) / 3, (2 + 46) / 2
    np.testing.assert_allclose(vectors.matrix[2:6, 0], [ab, ab, xy, 1], rtol=1e-6)
    np.testing.assert_allclose(vectors.matrix[:, 1], -vectors.matrix[:, 0], rtol=1e-6)
    np.testing.assert_allclose(vectors.matrix[[UNK, 6], 0], (ab + ab + xy + 1) / 4, rtol=1e-6)  # "" has no n-gram
    assert vectors.words == ("ab", "AB", "xy", "</s>")
    assert (vectors.found, vectors.lowered, vectors.composed) == (4, 1, 1)
    assert list(stored_words(path)) == ["ab", "</s>"]
    assert (read_head(path).rows, read_head(path).dim) == (2, 2)


def test_a_label_is_no_word(tmp_path):
    """A word that is only a label in the model gets the mean of its n-grams, <cd and cd>."""
    matrix = np.array([[n] for n in range(52)], float)
    path = write(tmp_path / "v.bin", model(["ab", "</s>"], matrix, buckets=50, minn=3, maxn=3, labels=["cd"]))
    vectors = load(path, (*SPECIALS, "cd"), dim=1)
    assert (vectors.composed, vectors.matrix[2, 0]) == (1, (6 + 14) / 2)
    assert list(stored_words(path)) == ["ab", "</s>"]


def test_words_that_are_no_utf8(tmp_path):
    data = model(["ab", "q", "cd"], [[1], [2], [3]], buckets=0, minn=0, maxn=0).replace(b"q\0", b"\xff\0")
    path = write(tmp_path / "v.bin", data)
    assert list(stored_words(path)) == ["ab", "cd"]
    assert load(path, (*SPECIALS, "cd", "\ud800", "\udcff"), dim=1).words == ("cd",)


def test_capitals_of_unseen_words_count_where_the_model_knows_capitals(tmp_path):
    matrix, asked, grams = (
        np.random.default_rng(0).normal(size=(501, 2)),
        (*SPECIALS, "XY", "xy"),
        {"minn": 3, "maxn": 3},
    )
    small, cased = (
        load(write(tmp_path / "v.bin", model([word], matrix, buckets=500, **grams)), asked, dim=2).matrix
        for word in ("ab", "Ab")
    )
    np.testing.assert_array_equal(small[2], small[3])
    np.testing.assert_array_equal(cased[3], small[3])
    assert np.abs(cased[2] - cased[3]).max() > 0.01


def test_models_without_ngrams_know_only_their_words(tmp_path):
    for kind, version, maxn in ((2, 12, 0), (3, 11, 6)):  # supervised models of format 11 used no n-grams
        matrix = [[1, 2], [3, 4], *([[9, 9]] * 5)]
        data = model(
            ["ab", "cd"], matrix, buckets=5, minn=0, maxn=maxn, kind=kind, version=version, labels=["__label__x"]
        )
        vectors = load(write(tmp_path / "v.bin", data), (*SPECIALS, "cd", "xy"), dim=2)
        assert vectors.words == ("cd",)
        np.testing.assert_array_equal(vectors.matrix[2], [3, 4])


GOOD = {"buckets": 5, "minn": 3, "maxn": 3}


def test_fasttext_damage_is_named(tmp_path):
    matrix, path = np.ones((7, 3)), tmp_path / "v.bin"
    whole = model(["fever", "cough"], matrix, **GOOD)
    assert load(write(path, whole)).found == 5
    for size in range(5, len(whole)):
        assert_refused(write(path, whole[:size]))
    assert_refused(write(path, whole + b"\0"))
    assert_refused(path, dim=4)
    for rows in (6, 8):
        assert_refused(write(path, model(["fever", "cough"], np.ones((rows, 3)), **GOOD)))
    matrix[0] = np.inf
    assert_refused(write(path, model(["fever", "cough"], matrix, **GOOD)))
    for bad in ({"buckets": 0}, {"buckets": -1}, {"minn": 4}, {"maxn": -1}, {"maxn": 999}):
        assert_refused(write(path, model(["fever", "cough"], np.ones((7, 3)), **{**GOOD, **bad})))
    assert_refused(write(path, model([], np.ones((5, 3)), **GOOD)))
    others = ({"version": 10}, {"magic": 1}, {"quantised": 1}, {"pruned": 3}, {"loss": 99})
    # words are sorted by count where loss is 1
    for other in (*others, {"loss": 1, "count": 1 << 61}, {"loss": 1, "count": -1}):
        assert_refused(write(path, model(["fever"], np.ones((6, 3)), **GOOD, **other)))


def test_flipped_bytes_never_crash(tmp_path):
    rng, path = np.random.default_rng(2), tmp_path / "v.bin"
    whole = model(["fever", "cough", "naïve"], rng.normal(size=(23, 3)), buckets=20, minn=2, maxn=4)
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        data[rng.integers(4, len(data))] = rng.integers(256)
        try:
            assert np.isfinite(load(write(path, bytes(data))).matrix).all()
        except UserError:
            refused += 1
    assert refused > 20


def test_same_vectors_as_the_library(tmp_path):
    rng = np.random.default_rng(3)
    words = [f"{stem}{end}" for stem in ("pneumo", "cardio", "naïv", "日本") for end in ("nia", "logy", "e", "語")]
    (tmp_path / "text").write_text("".join(" ".join(rng.choice(words, 12)) + "\n" for _ in range(200)))
    asked = (*words, "pneumothorax", "Cardio", "x", "é", "</s>", "<", "日")
    for grams in ({"minn": 3, "maxn": 6}, {"minn": 1, "maxn": 3}, {"minn": 0, "maxn": 0}):
        trained = fasttext.train_unsupervised(
            str(tmp_path / "text"), dim=20, bucket=300, minCount=1, thread=1, epoch=2, verbose=0, **grams
        )
        trained.save_model(str(tmp_path / "v.bin"))
        vectors = load(tmp_path / "v.bin", (*SPECIALS, *asked), dim=20)
        for word, row in zip(asked, vectors.matrix[2:], strict=True):
            # get_word_vector does not serve: in fasttext-community 0.11.9 alone it scales vectors to length 1.
            form = word if word in trained.words else word.lower()
            rows = [trained.get_input_vector(int(number)) for number in trained.get_subwords(form)[1]]
            assert (word in vectors.words) == bool(rows)
            if rows:
                np.testing.assert_allclose(row, np.mean(rows, axis=0), rtol=1e-5, atol=1e-7)
                given = trained.get_word_vector(form)
                assert row @ given == pytest.approx(np.linalg.norm(row) * np.linalg.norm(given), rel=1e-5)
        assert list(stored_words(tmp_path / "v.bin")) == trained.words


def test_gzipped_models_are_refused(tmp_path):
    whole = model(["fever", "cough"], np.ones((7, 3)), **GOOD)
    for name in ("v.bin", "v.bin.gz"):
        (tmp_path / name).write_bytes(gzip.compress(whole))
        assert_refused(tmp_path / name)
        with pytest.raises(DataError):
            read_head(tmp_path / name)


def test_the_missing_library_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "v.bin", model(["fever", "cough"], np.ones((7, 3)), **GOOD))
    monkeypatch.setitem(sys.modules, "fasttext", None)
    assert_refused(path)
    with pytest.raises(DataError, match="embeddings"):
        load(path)
    assert read_head(path).dim == 3


def test_models_the_library_quantised_are_refused(tmp_path):
    words = " ".join(f"word{n}" for n in range(300))  # with fewer words quantisation fails
    (tmp_path / "text").write_text(f"__label__a fever cough\n__label__b {words}\n" * 20)
    trained = fasttext.train_supervised(str(tmp_path / "text"), dim=4, thread=1, epoch=2, verbose=0)
    trained.save_model(str(tmp_path / "v.bin"))
    assert load(tmp_path / "v.bin", dim=4).words == ("Fever", "cough")
    trained.quantize(str(tmp_path / "text"), retrain=False, thread=1, verbose=0)
    trained.save_model(str(tmp_path / "v.ftz"))
    assert_refused(tmp_path / "v.ftz", dim=4)
