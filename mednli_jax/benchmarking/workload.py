"""The corpora that both sides of the benchmark read: made up with the lengths of a published one, or a prepared one.

Each process builds its corpus anew from the same few numbers. NumPy only.
Dimension letters: N rows (pairs or queries), T tokens, V words, D numbers per word vector; of readers P tokens of all
passages, C candidates and S marked tokens of all passages.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mednli_jax.corpora.arrays import SIDES
from mednli_jax.errors import UsageError, UserError
from mednli_jax.runs import read_json

WORDS, FIRST_WORD = 14_000, 2  # vocabulary; 0 and 1 are padding and unknown, as in text.Vocab
# Zipf-Mandelbrot: about 520 distinct words among 1,700 tokens and 2,000 among 13,000. Real corpora (SNLI, the demo)
# have fewer, 450-540 and 1,700, so that a model that shares work among equal words gains no advantage here.
OFFSET, EXPONENT = 8.0, 1.4

# Sentence pairs with the lengths of MedNLI.
DEV_PAIRS = 1_395
PAIRS_PER_PREMISE = 3  # one of each label
CAPS = {"premise": 50, "hypothesis": 20}
MEANS = {"premise": 20.0, "hypothesis": 5.8}
SHAPES = {"premise": 2.2, "hypothesis": 4.0}  # of the gamma distributions
CUES, CUE_SHARE = 30, 0.9  # words that stand for a label, and the share of pairs where they name the right one

# Word pieces of BERT, and its sizes: 6 layers of 384 with 12 heads is the smallest model with published weights.
PIECES, SPECIAL_PIECES, FIRST_PIECE, PIECES_PER_WORD = 30_522, 3, 1_000, 1.35
CLS, SEP = 101, 102  # of the published vocabularies
BERT_LAYERS, BERT_HEAD_SIZE, BERT_INNER = 6, 32, 4  # layers, numbers of a head, inner size over hidden size

# Passages and queries with the lengths of CliCR (Šuster & Daelemans 2018, table 2 and figure 2a): about 1,500 tokens,
# some passages four times as long, some with less than a hundred. A phrase is one token, as in the set-up "ent".
QUERIES_PER_PASSAGE = 4
TYPES = 20_000  # phrases of the corpus
CANDIDATES, MARKS = 30, 60  # of a passage, on average
PASSAGE_SHAPE, SHORTEST, LONGEST = 3.0, 1 / 15, 4.0  # gamma's shape; limits, times the mean length
QUERY_MEAN, QUERY_SHAPE, QUERY_CAPS = 25.0, 6.0, (5, 60)
DEV_PASSAGES = 8
BLANK = FIRST_WORD  # the placeholder's number
PHRASES = WORDS // 2  # words, the rarest, that stand for phrases


@dataclass(frozen=True)
class Workload:
    """A corpus as arrays, training rows first.

    arrays: of pairs, premise and hypothesis [N, T] int32; of readers, the arrays of corpora.cloze.encoding. Both have
      premise_length, hypothesis_length and label [N] int32; a passage counts as a premise, a query as a hypothesis.
    vectors: [V, D] float32.
    spans: split -> (first row, rows), for "train" and "dev".
    premise_of: [N], the number of each row's premise or passage; rows that share one are equal here.
    facts: JSON values for the reader of a result.
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


# ---- sentence pairs ----


def made_up_pairs(pairs: int, *, dim: int = 300, dev_pairs: int | None = None, seed: int = 0) -> Workload:
    """Pairs of words; the first word of a hypothesis gives its label away nine times out of ten."""
    dev_pairs = min(DEV_PAIRS, max(PAIRS_PER_PREMISE, pairs // 8)) if dev_pairs is None else dev_pairs
    rng = np.random.default_rng(seed)
    spans = {"train": (0, pairs), "dev": (pairs, dev_pairs)}
    # Splits share no premise: the last premise of a split may have fewer pairs.
    of_train = np.arange(pairs) // PAIRS_PER_PREMISE
    premise_of = np.concatenate([of_train, of_train[-1] + 1 + np.arange(dev_pairs) // PAIRS_PER_PREMISE])
    total = pairs + dev_pairs
    premises, premise_length = _sentences(rng, int(premise_of[-1]) + 1, "premise")
    hypotheses, hypothesis_length = _sentences(rng, total, "hypothesis")
    label = np.concatenate([np.arange(pairs), np.arange(dev_pairs)]) % 3
    cued = np.where(rng.random(total) < CUE_SHARE, label, rng.integers(0, 3, total))
    hypotheses[:, 0] = FIRST_WORD + WORDS - 1 - (3 * rng.integers(0, CUES, total) + cued)  # the rarest words
    arrays = {
        "premise": premises[premise_of],
        "hypothesis": hypotheses,
        "premise_length": premise_length[premise_of],
        "hypothesis_length": hypothesis_length,
        "label": label.astype(np.int32),
    }
    facts = {"corpus": "made up, of MedNLI's shape", "pairs": pairs, "dev_pairs": dev_pairs}
    return Workload(arrays, _vectors(rng, dim), spans, premise_of, facts)


def made_up_pieces(pairs: int, *, length: int = 64, seed: int = 0) -> Workload:
    """Pairs in word pieces, as BERT reads them. There are no word vectors.

    length: pieces of every pair with its three special ones; 0: as many as the words of MedNLI would have.
    """
    rng = np.random.default_rng(seed)
    words = made_up_pairs(pairs, dim=1, seed=seed)
    arrays, total = dict(words.arrays), len(words.premise_of)
    if length:
        hypothesis = round((length - SPECIAL_PIECES) * MEANS["hypothesis"] / sum(MEANS.values()))
        of_side = {"premise": length - SPECIAL_PIECES - hypothesis, "hypothesis": hypothesis}
        of_side = {side: np.full(total, size, np.int32) for side, size in of_side.items()}
    else:
        of_side = {s: np.ceil(PIECES_PER_WORD * arrays[f"{s}_length"]).astype(np.int32) for s in SIDES}
    for side, size in of_side.items():
        pieces = rng.integers(FIRST_PIECE, PIECES, (total, int(size.max())))
        if side == "premise":
            pieces = pieces[words.premise_of]
        arrays[side], arrays[f"{side}_length"] = _padded(pieces, size), size
    shape = f"{length} pieces a pair" if length else "of MedNLI's shape"
    longest = int(sum(of_side.values()).max()) + SPECIAL_PIECES
    pieces = {"size": PIECES, "cls": CLS, "sep": SEP, "room": longest}
    facts = {**words.facts, "corpus": f"made up, word pieces, {shape}", "pieces": pieces}
    return Workload(arrays, np.zeros((2, 1), np.float32), words.spans, words.premise_of, facts)


def from_prepared(folder: Path) -> Workload:
    """The corpus of sentence pairs that `prepare` or `train` left in `folder`. Raises UsageError where there is none."""
    folder = Path(folder).expanduser()
    names = ("label", *SIDES, *(f"{side}_length" for side in SIDES))
    try:
        manifest = read_json(folder / "manifest.json")
        spans = {name: (int(f["first"]), int(f["rows"])) for name, f in manifest["splits"].items()}
        arrays = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in names}
        vectors = np.load(folder / "vectors.npy", allow_pickle=False)
        sizes = [spans[split][1] for split in ("train", "dev")]
        corpus = manifest["key"]["corpus"]
    except (OSError, ValueError, KeyError, TypeError, UserError) as error:
        problem = f"--prepared={folder}: no prepared corpus with train and dev ({type(error).__name__})"
        raise UsageError(f"{problem}. Fix: give the folder that `prepare` prints.") from None
    _, premise_of = np.unique(arrays["premise"], axis=0, return_inverse=True)
    facts = {"corpus": corpus, "pairs": sizes[0], "dev_pairs": sizes[1]}
    return Workload(arrays, vectors, spans, premise_of.reshape(-1), facts)


def _sentences(rng, number, side):
    """(tokens [number, T] int32, lengths [number] int32) with the side's distribution of lengths."""
    cap = CAPS[side]
    length = _lengths(rng, number, MEANS[side], SHAPES[side], 1, cap).astype(np.int32)
    return _padded(zipf(rng, number * cap).reshape(number, cap), length), length


# ---- passages and queries ----


def made_up_passages(queries: int, *, tokens: int = 1500, dim: int = 200, seed: int = 0) -> Workload:
    """Queries over passages of a mean length, QUERIES_PER_PASSAGE each (the last one of a split may have fewer).

    The right candidate is drawn at random: there is nothing to learn.
    """
    rng = np.random.default_rng(seed)
    of_train, dev_queries = -(-queries // QUERIES_PER_PASSAGE), DEV_PASSAGES * QUERIES_PER_PASSAGE
    numbers = np.arange(queries), of_train * QUERIES_PER_PASSAGE + np.arange(dev_queries)
    passage_of = np.concatenate(numbers) // QUERIES_PER_PASSAGE
    passages = _passages(rng, of_train + DEV_PASSAGES, tokens)
    candidates = np.diff(passages["candidate_type_start"])
    rows = _queries(rng, len(passage_of))
    gold = (rng.random(len(passage_of)) * candidates[passage_of]).astype(np.int32)
    arrays = {
        **passages,
        **rows,
        "query_passage": passage_of.astype(np.int32),
        "gold": gold,
        "label": gold,
        "premise_length": np.diff(passages["passage_start"]).astype(np.int32)[passage_of],
        "hypothesis_length": rows["query_length"],
    }
    spans = {"train": (0, queries), "dev": (queries, dev_queries)}
    facts = {"corpus": f"made up, of CliCR's shape, {tokens} tokens a passage", "pairs": queries, "types": TYPES}
    return Workload(arrays, _vectors(rng, dim), spans, passage_of, facts)


def _passages(rng, number, tokens):
    """Flat arrays of all passages: tokens [P], candidates [C], marked tokens [S], and where each passage starts."""
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
    return {
        "passage": words,
        "passage_start": start,
        "candidate_type": np.concatenate(types).astype(np.int32),
        "candidate_type_start": _starts([len(part) for part in types]),
        "candidate_length": np.concatenate(sizes).astype(np.int32),
        "position": np.concatenate(places).astype(np.int32),
        "position_start": _starts([len(part) for part in places]),
        "position_candidate": np.concatenate(owners).astype(np.int32),
    }


def _starts(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _queries(rng, number):
    """Padded queries [N, T], their lengths and blanks [N]."""
    length = _lengths(rng, number, QUERY_MEAN, QUERY_SHAPE, *QUERY_CAPS).astype(np.int32)
    width = int(length.max())
    query = zipf(rng, number * width).reshape(number, width)
    blank = (rng.random(number) * length).astype(np.int32)
    query[np.arange(number), blank] = BLANK
    return {"query": _padded(query, length), "query_length": length, "blank": blank}


# ---- what both kinds draw ----


def zipf(rng, number: int) -> np.ndarray:
    """[number] int32 words, each as often as a text has a word of its rank."""
    share = (np.arange(1, WORDS + 1) + OFFSET) ** -EXPONENT
    edges = np.cumsum(share / share.sum())
    return (FIRST_WORD + np.minimum(np.searchsorted(edges, rng.random(number)), WORDS - 1)).astype(np.int32)


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
