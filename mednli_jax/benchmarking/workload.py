"""What both contenders work on: a made-up corpus of MedNLI's shape, or any prepared corpus. NumPy only.

Each contender builds it anew in its own process, from the same few numbers. Passages are in `workload_cloze`.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mednli_jax.corpora.nli.encoding import SIDES
from mednli_jax.errors import UserError
from mednli_jax.runs import read_json

WORDS, FIRST_WORD = 14_000, 2  # vocabulary; 0 and 1 are padding and unknown, as in text.Vocab
DEV_PAIRS = 1_395
GROUP = 3  # hypotheses of a premise in MedNLI, one of each label
CAPS = {"premise": 50, "hypothesis": 20}
MEANS = {"premise": 20.0, "hypothesis": 5.8}
SHAPES = {"premise": 2.2, "hypothesis": 4.0}  # of the gamma distributions
# Zipf-Mandelbrot: about 520 distinct words among 1,700 tokens and 2,000 among 13,000. Real corpora (SNLI, the demo)
# have fewer, 450-540 and 1,700: work that is shared among equal words is not flattered here.
OFFSET, EXPONENT = 8.0, 1.4
CUES, CUE_SHARE = 30, 0.9  # words that stand for a label, and how often they tell the truth
# Word pieces (BERT's vocabulary): the special ones of a pair, the first that is a word, and pieces of a word of a note.
PIECES, SPECIAL_PIECES, FIRST_PIECE, PIECES_PER_WORD = 30_522, 3, 1_000, 1.35
CLS, SEP = 101, 102  # of the published vocabularies


@dataclass(frozen=True)
class Workload:
    """A corpus as arrays.

    arrays: premise, hypothesis [N, T] int32, their lengths and label [N] int32, training rows first.
    vectors [V, D] float32. spans: split -> (first row, rows), "train" and "dev". group [N]: pairs with equal numbers
    share a premise. facts: plain JSON values for the reader of a result.
    """

    arrays: dict[str, np.ndarray]
    vectors: np.ndarray
    spans: dict[str, tuple[int, int]]
    group: np.ndarray
    facts: dict

    def rows(self, split: str) -> np.ndarray:
        first, size = self.spans[split]
        return np.arange(first, first + size)

    def lengths(self, rows) -> tuple[np.ndarray, np.ndarray]:
        return tuple(self.arrays[f"{side}_length"][rows] for side in SIDES)


def made_up(pairs: int, *, dim: int = 300, dev_pairs: int | None = None, seed: int = 0) -> Workload:
    """Pairs of MedNLI's shape; a hypothesis starts with a word that gives its label away nine times out of ten."""
    dev_pairs = min(DEV_PAIRS, max(GROUP, pairs // 8)) if dev_pairs is None else dev_pairs
    rng = np.random.default_rng(seed)
    spans = {"train": (0, pairs), "dev": (pairs, dev_pairs)}
    # Groups do not cross splits: the last one of a split may be smaller.
    train_group = np.arange(pairs) // GROUP
    group = np.concatenate([train_group, train_group[-1] + 1 + np.arange(dev_pairs) // GROUP])
    total = pairs + dev_pairs
    premises, premise_length = _sentences(rng, int(group[-1]) + 1, "premise")
    hypotheses, hypothesis_length = _sentences(rng, total, "hypothesis")
    label = np.concatenate([np.arange(pairs), np.arange(dev_pairs)]) % 3
    told = np.where(rng.random(total) < CUE_SHARE, label, rng.integers(0, 3, total))
    hypotheses[:, 0] = FIRST_WORD + WORDS - 1 - (3 * rng.integers(0, CUES, total) + told)  # the rarest words
    arrays = {
        "premise": premises[group],
        "hypothesis": hypotheses,
        "premise_length": premise_length[group],
        "hypothesis_length": hypothesis_length,
        "label": label.astype(np.int32),
    }
    vectors = rng.normal(0.0, 0.4, (FIRST_WORD + WORDS, dim)).astype(np.float32)
    vectors[0] = 0.0
    facts = {"corpus": "made up, of MedNLI's shape", "pairs": pairs, "dev_pairs": dev_pairs}
    return Workload(arrays, vectors, spans, group, facts)


def _sentences(rng, number, side):
    """(tokens [number, T] int32, lengths [number] int32) with the side's length distribution."""
    shape, cap = SHAPES[side], CAPS[side]
    drawn = rng.gamma(shape, MEANS[side] / shape, number)
    length = np.clip(np.round(drawn), 1, cap).astype(np.int32)
    tokens = zipf(rng, number * cap).reshape(number, cap)
    return np.where(np.arange(cap) < length[:, None], tokens, 0).astype(np.int32), length


def zipf(rng, number: int) -> np.ndarray:
    """[number] int32 words as often as in a text."""
    share = (np.arange(1, WORDS + 1) + OFFSET) ** -EXPONENT
    edges = np.cumsum(share / share.sum())
    return (FIRST_WORD + np.minimum(np.searchsorted(edges, rng.random(number)), WORDS - 1)).astype(np.int32)


def word_pieces(pairs: int, *, length: int = 64, seed: int = 0) -> Workload:
    """Pairs in word pieces, as BERT reads them.

    length: pieces of every pair with the three special ones, all of one length; 0: of MedNLI's shape. The arrays are
    those of `made_up`; there are no vectors.
    """
    rng = np.random.default_rng(seed)
    words = made_up(pairs, dim=1, seed=seed)
    arrays, total = dict(words.arrays), len(words.group)
    if length:
        hypothesis = round((length - SPECIAL_PIECES) * MEANS["hypothesis"] / sum(MEANS.values()))
        of_side = {"premise": length - SPECIAL_PIECES - hypothesis, "hypothesis": hypothesis}
        of_side = {side: np.full(total, size, np.int32) for side, size in of_side.items()}
    else:
        of_side = {s: np.ceil(PIECES_PER_WORD * arrays[f"{s}_length"]).astype(np.int32) for s in SIDES}
    for side, size in of_side.items():
        drawn = rng.integers(FIRST_PIECE, PIECES, (total, int(size.max())))
        if side == "premise":
            drawn = drawn[words.group]  # one premise for the pairs of a group
        arrays[side] = np.where(np.arange(drawn.shape[1]) < size[:, None], drawn, 0).astype(np.int32)
        arrays[f"{side}_length"] = size
    shape = f"{length} pieces a pair" if length else "of MedNLI's shape"
    facts = {**words.facts, "corpus": f"made up, word pieces, {shape}"}
    longest = int(sum(of_side.values()).max()) + SPECIAL_PIECES
    facts["pieces"] = {"size": PIECES, "cls": CLS, "sep": SEP, "room": longest}
    return Workload(arrays, np.zeros((2, 1), np.float32), words.spans, words.group, facts)


def from_prepared(folder: Path) -> Workload:
    """A corpus that `prepare` or `train` left in `folder`. Raises UserError where it is none."""
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
        raise UserError(
            f"E-BENCH-003 {folder}: no prepared corpus with train and dev ({type(error).__name__}). Fix: give the "
            "folder that `prepare` prints."
        ) from None
    _, group = np.unique(arrays["premise"], axis=0, return_inverse=True)
    facts = {"corpus": corpus, "pairs": sizes[0], "dev_pairs": sizes[1]}
    return Workload(arrays, vectors, spans, group.reshape(-1), facts)
