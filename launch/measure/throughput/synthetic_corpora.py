"""Corpora with the lengths of published ones, drawn at random, which both sides of the benchmark
read.

Each process draws its corpus again from the same few numbers, with NumPy only. Dimension letters:
N rows (pairs or queries), T tokens, V words, D numbers per word vector; of readers P tokens of all
passages, C candidates and S marked tokens of all passages.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mednli_jax.data.arrays import SIDES, Prepared, rows_of
from mednli_jax.data.tokenizer_files import PairForm

WORDS = 14_000
FIRST_WORD = 2  # 0 and 1 are padding and unknown, as in text.Vocab
# Zipf-Mandelbrot: about 520 distinct words among 1,700 tokens and 2,000 among 13,000. Real corpora
# (SNLI, the demo) have fewer, 450-540 and 1,700, so that a model that shares work among equal words
# gains no advantage here.
OFFSET, EXPONENT = 8.0, 1.4

SEED = 0  # of all that is drawn

# Sentence pairs with the lengths of MedNLI: mean and shape of a gamma distribution, and the
# longest.
DEV_PAIRS = 1_395
PAIRS_PER_PREMISE = 3
MEANS = {"premise": 20.0, "hypothesis": 5.8}
SHAPES = {"premise": 2.2, "hypothesis": 4.0}
CAPS = {"premise": 50, "hypothesis": 20}

# Word pieces of BERT's published vocabularies.
PIECES = 30_522
CLS, SEP = 101, 102
FIRST_PIECE = 1_000
SPECIAL_PIECES = 3  # of a pair
PIECES_PER_WORD = 1.35

# Passages and queries with the lengths of CliCR (Šuster & Daelemans 2018, table 2 and figure 2a):
# about 1,500 tokens, some passages four times as long, some with less than a hundred. A phrase is
# one token, as in the set-up "ent".
QUERIES_PER_PASSAGE = 4
DEV_PASSAGES = 8
TYPES = 20_000  # phrases of the corpus
CANDIDATES, MARKS = 30, 60  # of a passage, on average
PASSAGE_SHAPE = 3.0  # of the gamma distribution
SHORTEST, LONGEST = 1 / 15, 4.0  # limits, times the mean length
QUERY_MEAN, QUERY_SHAPE = 25.0, 6.0
QUERY_CAPS = (5, 60)
BLANK = FIRST_WORD  # the placeholder's number
PHRASES = WORDS // 2  # words, the rarest, that stand for phrases

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Workload:
    """A corpus with the splits "train" and "dev".

    Args:
      prepared: has arrays as nli/encode or cloze/arrays.py makes them. A passage counts as a
        premise, a query as a hypothesis.
      premise_of: [N], the number of each row's premise or passage.
      corpus: its description, for the result.
    """

    prepared: Prepared
    premise_of: np.ndarray
    corpus: str

    def rows(self, split: str) -> np.ndarray:
        return np.arange(len(self.premise_of))[self.prepared.splits[split].place]

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lengths ([N] of premises, [N] of hypotheses) of rows."""
        arrays = self.prepared.arrays
        return arrays["premise_length"][rows], arrays["hypothesis_length"][rows]


def _workload(
    arrays: Arrays,
    vectors: np.ndarray,
    train: int,
    premise_of: np.ndarray,
    corpus: str,
    manifest: dict[str, dict[str, int]],
) -> Workload:
    """Makes a corpus whose first `train` rows are for training."""
    splits = {}
    for name, first, end in (("train", 0, train), ("dev", train, len(premise_of))):
        size = end - first
        facts = {"first": first, "rows": size}
        splits[name] = rows_of(name, arrays, facts, map(str, range(size)), [()] * size)
    manifest = {"knowledge": {"longest_path": 0}, **manifest}
    return Workload(Prepared(None, manifest, arrays, vectors, splits), premise_of, corpus)


def made_up_pairs(pairs: int, *, dim: int) -> Workload:
    """Makes pairs of random words, from which nothing can be learned."""
    rng = np.random.default_rng(SEED)
    row = np.arange(pairs + min(DEV_PAIRS, max(PAIRS_PER_PREMISE, pairs // 8)))
    sentence_of = {"premise": row // PAIRS_PER_PREMISE, "hypothesis": row}
    arrays = {"label": (row % 3).astype(np.int32)}
    for side in SIDES:
        number = int(sentence_of[side][-1]) + 1
        length = _lengths(rng, number, MEANS[side], SHAPES[side], 1, CAPS[side])
        words = _padded(zipf(rng, (number, CAPS[side])), length)
        arrays[side] = words[sentence_of[side]]
        arrays[f"{side}_length"] = length[sentence_of[side]]
    vectors = _vectors(rng, dim)
    shape = "synthetic, of MedNLI's shape"
    return _workload(arrays, vectors, pairs, sentence_of["premise"], shape, {})


def made_up_pieces(pairs: int, *, length: int) -> Workload:
    """Makes pairs in word pieces, as BERT reads them. There are no word vectors.

    length: pieces of every pair with its three special ones; 0: as many as the words of MedNLI
    would have.
    """
    rng = np.random.default_rng(SEED)
    words = made_up_pairs(pairs, dim=1)
    arrays = {"label": words.prepared.arrays["label"]}
    sizes = {}
    for side in SIDES:
        number = np.ceil(PIECES_PER_WORD * words.prepared.arrays[f"{side}_length"])
        sizes[side] = number.astype(np.int32)
    if length:
        room = length - SPECIAL_PIECES
        sizes["hypothesis"][:] = round(room * MEANS["hypothesis"] / sum(MEANS.values()))
        sizes["premise"][:] = room - sizes["hypothesis"]
    for side, size in sizes.items():
        pieces = rng.integers(FIRST_PIECE, PIECES, (len(size), int(size.max())))
        if side == "premise":
            pieces = pieces[words.premise_of]
        arrays[side] = _padded(pieces, size)
        arrays[f"{side}_length"] = size
    room = int((arrays["premise_length"] + arrays["hypothesis_length"]).max()) + SPECIAL_PIECES
    form = PairForm(CLS, SEP, separators=1, second_type=1)
    shape = f"{length} pieces a pair" if length else "of MedNLI's shape"
    return _workload(
        arrays,
        np.zeros((2, 1), np.float32),
        pairs,
        words.premise_of,
        f"synthetic, word pieces, {shape}",
        {"pieces": {"size": PIECES, "room": room, **form._asdict()}},
    )


def made_up_passages(queries: int, *, tokens: int, dim: int) -> Workload:
    """Makes queries over passages of a mean length, QUERIES_PER_PASSAGE each. The right candidate
    is drawn at random."""
    rng = np.random.default_rng(SEED)
    row = np.arange(queries + DEV_PASSAGES * QUERIES_PER_PASSAGE)
    passage_of = row // QUERIES_PER_PASSAGE
    arrays = _passages(rng, int(passage_of[-1]) + 1, tokens)
    length = _lengths(rng, len(row), QUERY_MEAN, QUERY_SHAPE, *QUERY_CAPS)
    query = zipf(rng, (len(row), int(length.max())))
    blank = (rng.random(len(row)) * length).astype(np.int32)
    query[row, blank] = BLANK
    candidates = np.diff(arrays["candidate_type_start"])
    gold = (rng.random(len(row)) * candidates[passage_of]).astype(np.int32)
    arrays |= {
        "query": _padded(query, length),
        "query_length": length,
        "query_passage": passage_of.astype(np.int32),
        "blank": blank,
        "gold": gold,
        "label": gold,
        "premise_length": np.diff(arrays["passage_start"])[passage_of].astype(np.int32),
        "hypothesis_length": length,
    }
    # Texts as `cloze.arrays.ClozeTexts` reads them: a candidate's is its number.
    phrases = ["\n".join(map(str, range(number))) for number in candidates]
    answers = [json.dumps([[str(number)]]) for number in gold]
    for name, texts in {"candidate_text": phrases, "answer_text": answers}.items():
        arrays[name] = np.frombuffer("".join(texts).encode(), np.uint8)
        arrays[f"{name}_start"] = _starts(map(len, texts))
    shape = f"synthetic, of CliCR's shape, {tokens} tokens a passage"
    manifest = {"candidates": {"types_of_train": TYPES}}
    return _workload(arrays, _vectors(rng, dim), queries, passage_of, shape, manifest)


def _passages(rng: np.random.Generator, number: int, tokens: int) -> Arrays:
    """Flat arrays of all passages: tokens [P], candidates [C], marked tokens [S], and the start of
    each passage."""
    shortest, longest = max(4, tokens * SHORTEST), LONGEST * tokens
    length = _lengths(rng, number, tokens, PASSAGE_SHAPE, shortest, longest)
    start = _starts(length)
    words = zipf(rng, start[-1])
    drawn: dict[str, list[np.ndarray]] = {}
    for first, size in zip(start[:-1], length, strict=True):
        most = max(1, min(size // 2, rng.poisson(CANDIDATES)))
        types = (TYPES * rng.random(most) ** 2).astype(np.int32)
        phrases = rng.permutation(np.unique(types))
        # Each candidate is marked once, and some again.
        repeats = rng.poisson(len(phrases) * (MARKS / CANDIDATES - 1))
        again = rng.integers(0, len(phrases), repeats)
        owner = np.sort(np.r_[np.arange(len(phrases)), again][:size])
        position = rng.choice(size, len(owner), replace=False)
        position = position[np.lexsort((position, owner))]
        words[first + position] = FIRST_WORD + WORDS - 1 - phrases[owner] % PHRASES
        of_passage = {
            "candidate_type": phrases,
            "candidate_length": rng.integers(1, 5, len(phrases)),
            "position": position,
            "position_candidate": owner,
        }
        for name, array in of_passage.items():
            drawn.setdefault(name, []).append(array)
    arrays = {"passage": words, "passage_start": start}
    for name, of_passages in drawn.items():
        arrays[name] = np.concatenate(of_passages, dtype=np.int32)
        arrays[f"{name}_start"] = _starts(map(len, of_passages))
    return arrays


def _starts(sizes: Iterable[int]) -> np.ndarray:
    return np.cumsum([0, *sizes], dtype=np.int64)


def zipf(rng: np.random.Generator, shape: int | tuple[int, ...]) -> np.ndarray:
    """Draws words int32, each as often as a text has a word of its rank."""
    share = (np.arange(1, WORDS + 1) + OFFSET) ** -EXPONENT
    words = FIRST_WORD + rng.choice(WORDS, shape, p=share / share.sum())
    return words.astype(np.int32)


def _lengths(
    rng: np.random.Generator, number: int, mean: float, shape: float, least: float, most: float
) -> np.ndarray:
    """Draws int32 [number] from a gamma distribution, clipped."""
    lengths = np.round(rng.gamma(shape, mean / shape, number))
    return np.clip(lengths, least, most).astype(np.int32)


def _padded(tokens: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Sets tokens [N, T] after each row's length [N] to 0."""
    return np.where(np.arange(tokens.shape[1]) < length[:, None], tokens, 0).astype(np.int32)


def _vectors(rng: np.random.Generator, dim: int) -> np.ndarray:
    vectors = rng.normal(0.0, 0.4, (FIRST_WORD + WORDS, dim)).astype(np.float32)
    vectors[0] = 0.0
    return vectors
