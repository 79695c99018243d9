"""Pretrained word vectors for the words of a vocabulary, from one file or several side by side, and what they cover.

Read are GloVe, word2vec and fastText text files, word2vec's and fastText's .bin, NumPy arrays and BioASQ's pair of
files. Errors name the file and the line, never a word. A repeated word is no fault: the first row counts, and a line on
stderr says how many there were.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from mednli_jax.files import sha256
from mednli_jax.knowledge import vectors_binary, vectors_text
from mednli_jax.knowledge.vector_rows import EXACT, LOWERED, MISSING, ROUTES, SUBWORDS, Wanted, check_dims
from mednli_jax.knowledge.vectors_files import SEPARATOR, files_of, kind_of, read_head, vector_paths
from mednli_jax.progress import warn
from mednli_jax.text import PAD, SPECIALS, UNK, Vocab
from mednli_jax.textfiles import check_readable

# Random vectors are to be about as long as GloVe's, whatever their dimension: the numbers of 60,811 words of GloVe 6B
# 100d have a standard deviation of .48, and longer vectors have smaller numbers.
RANDOM_SD = 0.4


@dataclass(frozen=True)
class VectorFile:
    """One file of vectors and what it gave to a vocabulary.

    kind: text, array, pair, word2vec, fasttext or random. found: words with a vector, of which `lowered` only
    lower-cased and `composed` only from character n-grams. duplicates: rows that repeat a word requested.
    """

    file: str
    kind: str
    dim: int
    found: int
    lowered: int
    composed: int
    duplicates: int
    sha256: str


@dataclass(frozen=True)
class Vectors:
    """Vectors in the order of a vocabulary.

    vocabulary: the words requested, PAD and UNK first.
    words: those of them that a file has a vector for, same order; found: how many.
    matrix: float32 [V, D]; row PAD is zero, row UNK that of unknown words, as is the row of a word not found.
      Of several files the numbers stand one after the other; those of a file that lacks the word are zero.
    lowered: words found only lower-cased; composed: only from character n-grams; duplicates: rows of the files that
      repeat a word requested (the first counts).
    source: file names or "random", with + between; sha256: of each file's bytes ("" if random), likewise.
    sources: each file by itself. routes: int8 [files, V], how each file came to a word's vector, places of ROUTES.
    """

    vocabulary: tuple[str, ...]
    words: tuple[str, ...]
    matrix: np.ndarray
    found: int
    lowered: int
    composed: int
    duplicates: int
    source: str
    sha256: str
    sources: tuple[VectorFile, ...]
    routes: np.ndarray

    def known(self) -> tuple[Vocab, np.ndarray]:
        """PAD, UNK and the words found as a vocabulary, and its matrix [2 + found, D]: what a model should be given."""
        kept = set(self.words)
        rows = [PAD, UNK] + [row for row, word in enumerate(self.vocabulary) if row > UNK and word in kept]
        return Vocab(SPECIALS + self.words), self.matrix[rows]


def vector_files(path) -> list[Path]:
    """The files that `load_vectors` reads for a path. Raises: DataError for one that cannot be read."""
    files = [file for part in vector_paths(path) for file in files_of(part)]
    for file in filter(os.path.isfile, files):  # a missing one is reported when it is needed
        check_readable(file)
    return files


def load_vectors(path, vocab_words, *, dim: int, seed: int, unknown: str = "mean", lowered: bool = True) -> Vectors:
    """Looks up the words of a vocabulary, first as they are, then lower-cased, then by their character n-grams.

    path: GloVe text, word2vec text or fastText .vec (header "rows dim"), word2vec's .bin, each also gzipped; a fastText
      .bin, not gzipped, whose n-grams give words it does not know a vector, too (the extra `embeddings`, and memory for
      the whole model); NAME.npy [rows, dim] with the words in NAME.vocab.txt, one a line; a folder with BioASQ's
      types.txt and vectors.txt; several of them with + between; None for random vectors, N(0, RANDOM_SD^2),
      where a word's vector depends on seed and word alone, whatever else is in the vocabulary.
    vocab_words: words of a Vocab, "<pad>" and "<unk>" first. dim: numbers per word, must be the file's; of several
      files, their sum. unknown: the vector of words without one: the "mean" of the vectors found, or "random", drawn
      from U(-.5, .5) by the seed (as in the published code of Romanov & Shivade 2018). lowered: False leaves out
      the second look-up, as that code does.
    Raises: DataError, or DataErrors with the first 20 faults; ValueError where vocab_words starts otherwise.
    """
    words = tuple(vocab_words)
    if words[:2] != SPECIALS:
        raise ValueError(f"vocab_words starts with {SPECIALS}")
    if path is None:
        matrix = random_vectors(words, dim=dim, seed=seed)
        matrix[PAD] = 0
        routes = np.full(len(words), EXACT, np.int8)
        routes[:2] = MISSING
        return _joined(words, [(matrix, routes, _source("random", "random", routes, 0, "", dim))])
    paths = vector_paths(path)
    dims = [dim] if len(paths) == 1 else _dims(paths, dim)
    how = (seed, unknown, lowered)
    return _joined(words, [_load(path, words, size, *how) for path, size in zip(paths, dims, strict=True)])


def _dims(paths, dim):
    """Numbers a word of each file; together they must be `dim`."""
    dims = [read_head(path).dim for path in paths]
    check_dims(paths, dims, dim)
    return dims


def _load(path, words, dim, seed, unknown, lowered):
    """(matrix [V, dim], routes [V], VectorFile) of one file; the row of a word not found is that of UNK."""
    wanted = Wanted(words[2:], dim, lowered)
    kind, files = kind_of(path), files_of(path)
    read = {
        "text": vectors_text.read_text,
        "array": vectors_text.read_array,
        "pair": vectors_text.read_pair,
        "word2vec": vectors_binary.read_word2vec,
        "fasttext": vectors_binary.read_fasttext,
    }
    read[kind](*(files if kind == "pair" else (path,)), wanted)
    digest = sha256(*files)
    if wanted.duplicates:
        warn(f"{path.name}: {wanted.duplicates} rows repeat a word of the corpus; the first of each counts.")
    places, routes = np.full(len(words), -1), np.zeros(len(words), np.int8)
    places[2:], routes[2:] = np.array([wanted.find(word) for word in words[2:]], np.int64).reshape(-1, 2).T
    matrix, has = np.zeros((len(words), dim), np.float32), places >= 0
    if has.any():
        found = wanted.numbers[places[has]]
        random = np.random.default_rng(seed).uniform(-0.5, 0.5, dim)
        matrix[UNK:] = random if unknown == "random" else found.mean(axis=0, dtype=np.float64)
        matrix[has] = found
    else:
        matrix[UNK:] = random_vectors(SPECIALS[UNK:], dim=dim, seed=seed)
    return matrix, routes, _source(path.name, kind, routes, wanted.duplicates, digest, dim)


def _source(file, kind, routes, duplicates, digest, dim):
    found, lowered, composed = ((routes != MISSING).sum(), (routes == LOWERED).sum(), (routes == SUBWORDS).sum())
    return VectorFile(file, kind, dim, int(found), int(lowered), int(composed), duplicates, digest)


def _joined(words, parts):
    """The vectors of all files: a word that one of them knows has zeros where another does not."""
    matrices, routes, sources = zip(*parts, strict=True)
    routes, best = np.stack(routes), best_routes(np.stack(routes))
    if len(parts) > 1:
        for matrix, routes_of in zip(matrices, routes, strict=True):
            matrix[(routes_of == MISSING) & (best != MISSING)] = 0
    found = tuple(word for word, route in zip(words, best, strict=True) if route != MISSING)
    return Vectors(
        words,
        found,
        np.concatenate(matrices, axis=1) if len(parts) > 1 else matrices[0],
        len(found),
        int((best == LOWERED).sum()),
        int((best == SUBWORDS).sum()),
        sum(source.duplicates for source in sources),
        SEPARATOR.join(source.file for source in sources),
        SEPARATOR.join(source.sha256 for source in sources),
        sources,
        routes,
    )


def best_routes(routes: np.ndarray) -> np.ndarray:
    """int8 [V]: the best route of any file, [files, V] -> exact before lower-cased before n-grams before none."""
    return np.where(routes == MISSING, len(ROUTES), routes).min(axis=0) % len(ROUTES)


def coverage(vectors: Vectors, counts: Mapping[str, int]) -> dict:
    """How much of a corpus has a vector, as plain numbers for JSON, never words.

    counts: how often each word of the vocabulary requested stands in the corpus; a word that was not requested counts
    as missing. For all files together and under `sources` for each: `words` and `tokens`, their number in the corpus,
    and `share_of_words`, `share_of_tokens`, by route (exact, lowered, subwords) and `found` in all.
    """
    row_of = {word: row for row, word in enumerate(vectors.vocabulary) if row > UNK}
    rows = np.array([row_of.get(word, PAD) for word in counts], np.int64)
    number = np.array(list(counts.values()), np.int64)
    shares = [_shares(routes[rows], number) for routes in (best_routes(vectors.routes), *vectors.routes)]
    sources = [{**asdict(source), **share} for source, share in zip(vectors.sources, shares[1:], strict=True)]
    return {"words": len(rows), "tokens": int(number.sum()), **shares[0], "sources": sources}


def _shares(routes, number):
    """Shares of words and tokens by route; 0 of an empty corpus."""
    of_words, of_tokens = {}, {}
    for route, name in enumerate(ROUTES[1:], start=1):
        of_words[name] = float((routes == route).sum() / max(len(routes), 1))
        of_tokens[name] = float(number[routes == route].sum() / max(number.sum(), 1))
    of_words["found"] = float((routes != MISSING).sum() / max(len(routes), 1))
    of_tokens["found"] = float(number[routes != MISSING].sum() / max(number.sum(), 1))
    return {"share_of_words": of_words, "share_of_tokens": of_tokens}


def random_vectors(words, *, dim: int, seed: int, sd: float = RANDOM_SD) -> np.ndarray:
    """float32 [len(words), dim], each row a function of (seed, word) only, drawn from N(0, sd^2)."""
    # A hash as generator: no state runs from one word to the next, and one call serves all numbers of a word.
    digests = [hashlib.shake_256(f"{seed} {word}".encode("utf-8", "surrogatepass")).digest(4 * dim) for word in words]
    bits = np.frombuffer(b"".join(digests), "<u4").reshape(len(words), dim)
    return (sd * ndtri((bits + 0.5) / 2.0**32)).astype(np.float32)
