"""The corpora that both sides of the benchmark read: made up with the lengths of a published one.

Each process builds its corpus again from the same few numbers. NumPy only. Dimension letters: N
rows (pairs or queries), T tokens, V words, D numbers per word vector; of readers P tokens of all
passages, C candidates and S marked tokens of all passages.
"""

import json
from dataclasses import dataclass

import numpy as np

from mednli_jax.data.arrays import SIDES

WORDS, FIRST_WORD = 14_000, 2  # vocabulary; 0 and 1 are padding and unknown, as in text.Vocab
# Zipf-Mandelbrot: about 520 distinct words among 1,700 tokens and 2,000 among 13,000. Real corpora
# (SNLI, the demo) have fewer, 450-540 and 1,700, so that a model that shares work among equal words
# gains no advantage here.
OFFSET, EXPONENT = 8.0, 1.4

# Sentence pairs with the lengths of MedNLI: mean and shape of a gamma distribution, and the
# longest.
DEV_PAIRS, PAIRS_PER_PREMISE = 1_395, 3
MEANS, SHAPES, CAPS = (
    {"premise": 20.0, "hypothesis": 5.8},
    {"premise": 2.2, "hypothesis": 4.0},
    (50, 20),
)

# Word pieces of BERT, and its sizes: 6 layers of 384 with 12 heads is the smallest model with
# published weights.
PIECES, SPECIAL_PIECES, FIRST_PIECE, PIECES_PER_WORD = 30_522, 3, 1_000, 1.35
CLS, SEP = 101, 102  # of the published vocabularies
BERT_LAYERS, BERT_HEAD_SIZE, BERT_INNER = (
    6,
    32,
    4,
)  # layers, numbers of a head, inner size over hidden size

# Passages and queries with the lengths of CliCR (Šuster & Daelemans 2018, table 2 and figure 2a):
# about 1,500 tokens, some passages four times as long, some with less than a hundred. A phrase is
# one token, as in the set-up "ent".
QUERIES_PER_PASSAGE, DEV_PASSAGES = 4, 8
TYPES = 20_000  # phrases of the corpus
CANDIDATES, MARKS = 30, 60  # of a passage, on average
PASSAGE_SHAPE, SHORTEST, LONGEST = 3.0, 1 / 15, 4.0  # gamma's shape; limits, times the mean length
QUERY_MEAN, QUERY_SHAPE, QUERY_CAPS = 25.0, 6.0, (5, 60)
BLANK = FIRST_WORD  # the placeholder's number
PHRASES = WORDS // 2  # words, the rarest, that stand for phrases


@dataclass(frozen=True)
class Workload:
    """A corpus as arrays, training rows first.

    arrays: of pairs, premise and hypothesis [N, T] int32; of readers, the arrays of cloze.encoding.
    Both have
      premise_length, hypothesis_length and label [N] int32; a passage counts as a premise, a query as a hypothesis.
    vectors: [V, D] float32. spans: split -> (first row, rows), for "train" and "dev". premise_of:
    [N], the number of each row's premise or passage; rows that share one are equal here. facts:
    JSON values for the reader of a result.
    """

    arrays: dict[str, np.ndarray]
    vectors: np.ndarray
    spans: dict[str, tuple[int, int]]
    premise_of: np.ndarray
    facts: dict

    def rows(self, split: str) -> np.ndarray:
        first, size = self.spans[split]
        return np.arange(first, first + size)

    def lengths(self, rows) -> tuple[np.ndarray, np.ndarray]:
        return tuple(self.arrays[f"{side}_length"][rows] for side in SIDES)


def _groups(train: int, dev: int, size: int) -> np.ndarray:
    """[train + dev] the group of each row, `size` to a group; splits share none, their last ones
    may have fewer."""
    return np.concatenate([np.arange(train) // size, -(-train // size) + np.arange(dev) // size])


def made_up_pairs(
    pairs: int, *, dim: int = 300, dev_pairs: int | None = None, seed: int = 0
) -> Workload:
    """Pairs of words. There is nothing to learn."""
    dev_pairs = (
        min(DEV_PAIRS, max(PAIRS_PER_PREMISE, pairs // 8)) if dev_pairs is None else dev_pairs
    )
    rng, total = np.random.default_rng(seed), pairs + dev_pairs
    premise_of = _groups(pairs, dev_pairs, PAIRS_PER_PREMISE)
    label = np.concatenate([np.arange(pairs), np.arange(dev_pairs)]) % 3
    arrays = {"label": label.astype(np.int32)}
    for side, cap, number in zip(SIDES, CAPS, (int(premise_of[-1]) + 1, total), strict=True):
        length = _lengths(rng, number, MEANS[side], SHAPES[side], 1, cap).astype(np.int32)
        arrays[side] = _padded(zipf(rng, number * cap).reshape(number, cap), length)
        arrays[f"{side}_length"] = length
    arrays |= {name: arrays[name][premise_of] for name in ("premise", "premise_length")}
    facts = {"corpus": "synthetic, of MedNLI's shape"}
    spans = {"train": (0, pairs), "dev": (pairs, dev_pairs)}
    return Workload(arrays, _vectors(rng, dim), spans, premise_of, facts)


def made_up_pieces(pairs: int, *, length: int = 64, seed: int = 0) -> Workload:
    """Pairs in word pieces, as BERT reads them. There are no word vectors.

    length: pieces of every pair with its three special ones; 0: as many as the words of MedNLI
    would have.
    """
    rng, words = np.random.default_rng(seed), made_up_pairs(pairs, dim=1, seed=seed)
    arrays, total = dict(words.arrays), len(words.premise_of)
    sizes = {s: np.ceil(PIECES_PER_WORD * arrays[f"{s}_length"]).astype(np.int32) for s in SIDES}
    if length:
        hypothesis = round((length - SPECIAL_PIECES) * MEANS["hypothesis"] / sum(MEANS.values()))
        parts = (length - SPECIAL_PIECES - hypothesis, hypothesis)
        sizes = {
            side: np.full(total, size, np.int32) for side, size in zip(SIDES, parts, strict=True)
        }
    for side, size in sizes.items():
        pieces = rng.integers(FIRST_PIECE, PIECES, (total, int(size.max())))
        if side == "premise":
            pieces = pieces[words.premise_of]
        arrays[side], arrays[f"{side}_length"] = _padded(pieces, size), size
    shape = f"{length} pieces a pair" if length else "of MedNLI's shape"
    pieces = {
        "size": PIECES,
        "cls": CLS,
        "sep": SEP,
        "room": int(sum(sizes.values()).max()) + SPECIAL_PIECES,
    }
    facts = {**words.facts, "corpus": f"synthetic, word pieces, {shape}", "pieces": pieces}
    return Workload(arrays, np.zeros((2, 1), np.float32), words.spans, words.premise_of, facts)


def made_up_passages(
    queries: int, *, tokens: int = 1500, dim: int = 200, seed: int = 0
) -> Workload:
    """Queries over passages of a mean length, QUERIES_PER_PASSAGE each. The right candidate is
    drawn at random."""
    rng, dev = np.random.default_rng(seed), DEV_PASSAGES * QUERIES_PER_PASSAGE
    passage_of = _groups(queries, dev, QUERIES_PER_PASSAGE)
    total = len(passage_of)
    arrays = _passages(rng, int(passage_of[-1]) + 1, tokens)
    length = _lengths(rng, total, QUERY_MEAN, QUERY_SHAPE, *QUERY_CAPS).astype(np.int32)
    query = zipf(rng, total * int(length.max())).reshape(total, -1)
    blank = (rng.random(total) * length).astype(np.int32)
    query[np.arange(total), blank] = BLANK
    gold = (rng.random(total) * np.diff(arrays["candidate_type_start"])[passage_of]).astype(
        np.int32
    )
    arrays |= {
        "query": _padded(query, length),
        "query_length": length,
        "blank": blank,
        "gold": gold,
        "label": gold,
    }
    arrays |= {"query_passage": passage_of.astype(np.int32), "hypothesis_length": length}
    arrays["premise_length"] = np.diff(arrays["passage_start"]).astype(np.int32)[passage_of]
    arrays |= _texts(arrays, passage_of, gold)
    facts = {"corpus": f"synthetic, of CliCR's shape, {tokens} tokens a passage", "types": TYPES}
    return Workload(
        arrays,
        _vectors(rng, dim),
        {"train": (0, queries), "dev": (queries, dev)},
        passage_of,
        facts,
    )


def _texts(arrays, passage_of, gold):
    """What candidates and answers are called, as `cloze.encoding.Texts` reads them: their
    numbers."""
    of_passage = np.split(arrays["candidate_type"], arrays["candidate_type_start"][1:-1])
    right = (of_passage[passage][number] for passage, number in zip(passage_of, gold, strict=True))
    named = {
        "candidate_text": ["\n".join(map(str, numbers)).encode() for numbers in of_passage],
        "answer_text": [json.dumps([[str(number)]]).encode() for number in right],
    }
    starts = {f"{name}_start": np.cumsum([0, *map(len, parts)]) for name, parts in named.items()}
    return starts | {
        name: np.frombuffer(b"".join(parts), np.uint8) for name, parts in named.items()
    }


def _passages(rng, number, tokens):
    """Flat arrays of all passages: tokens [P], candidates [C], marked tokens [S], and where each
    passage starts."""
    limits = max(4, tokens * SHORTEST), LONGEST * tokens
    length = _lengths(rng, number, tokens, PASSAGE_SHAPE, *limits).astype(np.int64)
    start = _starts(length)
    words = zipf(rng, int(start[-1]))
    types, sizes, places, owners = [], [], [], []
    for first, size in zip(start, length, strict=False):
        most = max(1, min(size // 2, rng.poisson(CANDIDATES)))
        chosen = rng.permutation(np.unique((TYPES * rng.random(most) ** 2).astype(np.int32)))
        again = rng.integers(0, len(chosen), rng.poisson(len(chosen) * (MARKS / CANDIDATES - 1)))
        owner = np.sort(np.concatenate([np.arange(len(chosen)), again])[:size])
        place = rng.choice(size, len(owner), replace=False)
        place = place[np.lexsort((place, owner))]
        words[first + place] = FIRST_WORD + WORDS - 1 - chosen[owner] % PHRASES
        types.append(chosen)
        sizes.append(rng.integers(1, 5, len(chosen)))
        places.append(place)
        owners.append(owner)
    lists = {
        "candidate_type": types,
        "candidate_length": sizes,
        "position": places,
        "position_candidate": owners,
    }
    return {
        **{name: np.concatenate(parts).astype(np.int32) for name, parts in lists.items()},
        **{
            f"{name}_start": _starts([len(part) for part in lists[name]])
            for name in ("candidate_type", "position")
        },
        **{"passage": words, "passage_start": start},
    }


def _starts(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def zipf(rng, number: int) -> np.ndarray:
    """[number] int32 words, each as often as a text has a word of its rank."""
    share = (np.arange(1, WORDS + 1) + OFFSET) ** -EXPONENT
    edges = np.cumsum(share / share.sum())
    return (FIRST_WORD + np.minimum(np.searchsorted(edges, rng.random(number)), WORDS - 1)).astype(
        np.int32
    )


def _lengths(rng, number, mean, shape, least, most):
    """[number] whole numbers of a gamma distribution, clipped."""
    return np.clip(np.round(rng.gamma(shape, mean / shape, number)), least, most)


def _padded(tokens, length):
    """Tokens [N, T] with 0 after each row's length [N]."""
    return np.where(np.arange(tokens.shape[1]) < length[:, None], tokens, 0).astype(np.int32)


def _vectors(rng, dim):
    vectors = rng.normal(0.0, 0.4, (FIRST_WORD + WORDS, dim)).astype(np.float32)
    vectors[0] = 0.0
    return vectors
