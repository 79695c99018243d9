"""The rows of the benchmark: models, settings of PyTorch, sizes, and the config of a row. The
corpora that both sides read are made up with the lengths of a published one.

Each process builds its corpus again from the same few numbers, with NumPy only. Dimension letters:
N rows (pairs or queries), T tokens, V words, D numbers per word vector; of readers P tokens of all
passages, C candidates and S marked tokens of all passages.
"""

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from ml_collections import ConfigDict

from mednli_jax import defaults
from mednli_jax.data.arrays import SIDES
from mednli_jax.errors import UsageError
from mednli_jax.models import families
from mednli_jax.models.families import FAMILIES

# -- corpora ---------------------------------------------------------------------------------------

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
# Sizes of BERT: 6 layers of 384 with 12 heads is the smallest model with published weights.
BERT_LAYERS = 6
BERT_HEAD_SIZE = 32
BERT_INNER = 4  # the inner size over the hidden size

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


class Pieces(NamedTuple):
    """A vocabulary of word pieces, as in the manifest of a prepared corpus. room: most pieces of a
    pair."""

    size: int
    cls: int
    sep: int
    room: int


@dataclass(frozen=True)
class Workload:
    """A corpus as arrays, training rows first.

    Args:
      arrays: of pairs, premise and hypothesis [N, T] int32; of readers, those of cloze.encoding.
        Both have premise_length, hypothesis_length and label [N] int32; a passage counts as a
        premise, a query as a hypothesis.
      vectors: [V, D] float32.
      spans: split -> (first row, rows), for "train" and "dev".
      premise_of: [N] the number of each row's premise or passage.
      corpus: its description, for the result.
      types: number of phrases, of readers.
    """

    arrays: dict[str, np.ndarray]
    vectors: np.ndarray
    spans: dict[str, tuple[int, int]]
    premise_of: np.ndarray
    corpus: str
    types: int = 0
    pieces: Pieces | None = None

    def rows(self, split: str) -> np.ndarray:
        first, size = self.spans[split]
        return np.arange(first, first + size)

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(of premises, of hypotheses) [N]"""
        premise, hypothesis = (f"{side}_length" for side in SIDES)
        return self.arrays[premise][rows], self.arrays[hypothesis][rows]


def _groups(train: int, dev: int, size: int) -> np.ndarray:
    """[train + dev] the group of each row, `size` to a group; splits share none, their last ones
    may have fewer."""
    train_groups = np.arange(train) // size
    dev_groups = np.arange(dev) // size + math.ceil(train / size)
    return np.concatenate([train_groups, dev_groups])


def made_up_pairs(pairs: int, *, dim: int, dev_pairs: int | None = None) -> Workload:
    """Pairs of words. There is nothing to learn."""
    if dev_pairs is None:
        dev_pairs = min(DEV_PAIRS, max(PAIRS_PER_PREMISE, pairs // 8))
    rng = np.random.default_rng(SEED)
    premise_of = _groups(pairs, dev_pairs, PAIRS_PER_PREMISE)
    label = np.concatenate([np.arange(pairs), np.arange(dev_pairs)]) % 3
    sentences = {"premise": int(premise_of[-1]) + 1, "hypothesis": pairs + dev_pairs}
    arrays = {"label": label.astype(np.int32)}
    for side, number in sentences.items():
        cap = CAPS[side]
        length = _lengths(rng, number, MEANS[side], SHAPES[side], 1, cap).astype(np.int32)
        arrays[side] = _padded(zipf(rng, number * cap).reshape(number, cap), length)
        arrays[f"{side}_length"] = length
    for name in ("premise", "premise_length"):
        arrays[name] = arrays[name][premise_of]
    spans = {"train": (0, pairs), "dev": (pairs, dev_pairs)}
    return Workload(arrays, _vectors(rng, dim), spans, premise_of, "synthetic, of MedNLI's shape")


def made_up_pieces(pairs: int, *, length: int) -> Workload:
    """Pairs in word pieces, as BERT reads them. There are no word vectors.

    length: pieces of every pair with its three special ones; 0: as many as the words of MedNLI
    would have.
    """
    rng = np.random.default_rng(SEED)
    words = made_up_pairs(pairs, dim=1)
    arrays, total = dict(words.arrays), len(words.premise_of)
    sizes = {}
    if length:
        hypothesis = round((length - SPECIAL_PIECES) * MEANS["hypothesis"] / sum(MEANS.values()))
        sizes["premise"] = np.full(total, length - SPECIAL_PIECES - hypothesis, np.int32)
        sizes["hypothesis"] = np.full(total, hypothesis, np.int32)
    else:
        for side in SIDES:
            sizes[side] = np.ceil(PIECES_PER_WORD * arrays[f"{side}_length"]).astype(np.int32)
    for side, size in sizes.items():
        pieces = rng.integers(FIRST_PIECE, PIECES, (total, int(size.max())))
        if side == "premise":
            pieces = pieces[words.premise_of]
        arrays[side] = _padded(pieces, size)
        arrays[f"{side}_length"] = size
    room = int((sizes["premise"] + sizes["hypothesis"]).max()) + SPECIAL_PIECES
    shape = f"{length} pieces a pair" if length else "of MedNLI's shape"
    return replace(
        words,
        arrays=arrays,
        vectors=np.zeros((2, 1), np.float32),
        corpus=f"synthetic, word pieces, {shape}",
        pieces=Pieces(PIECES, CLS, SEP, room),
    )


def made_up_passages(queries: int, *, tokens: int, dim: int) -> Workload:
    """Queries over passages of a mean length, QUERIES_PER_PASSAGE each. The right candidate is
    drawn at random."""
    rng = np.random.default_rng(SEED)
    dev_queries = DEV_PASSAGES * QUERIES_PER_PASSAGE
    total = queries + dev_queries
    passage_of = _groups(queries, dev_queries, QUERIES_PER_PASSAGE)
    arrays = _passages(rng, int(passage_of[-1]) + 1, tokens)
    length = _lengths(rng, total, QUERY_MEAN, QUERY_SHAPE, *QUERY_CAPS).astype(np.int32)
    query = zipf(rng, total * int(length.max())).reshape(total, -1)
    blank = (rng.random(total) * length).astype(np.int32)
    query[np.arange(total), blank] = BLANK
    candidates = np.diff(arrays["candidate_type_start"])[passage_of]
    gold = (rng.random(total) * candidates).astype(np.int32)
    arrays |= {
        "query": _padded(query, length),
        "query_length": length,
        "query_passage": passage_of.astype(np.int32),
        "blank": blank,
        "gold": gold,
        "label": gold,
        "premise_length": np.diff(arrays["passage_start"]).astype(np.int32)[passage_of],
        "hypothesis_length": length,
    }
    arrays |= _texts(arrays, passage_of, gold)
    return Workload(
        arrays,
        _vectors(rng, dim),
        {"train": (0, queries), "dev": (queries, dev_queries)},
        passage_of,
        f"synthetic, of CliCR's shape, {tokens} tokens a passage",
        types=TYPES,
    )


def _texts(
    arrays: dict[str, np.ndarray], passage_of: np.ndarray, gold: np.ndarray
) -> dict[str, np.ndarray]:
    """The names of candidates and answers, as `cloze.encoding.Texts` reads them: their numbers."""
    of_passage = np.split(arrays["candidate_type"], arrays["candidate_type_start"][1:-1])
    candidates = ["\n".join(map(str, types)).encode() for types in of_passage]
    answers = []
    for passage, number in zip(passage_of, gold, strict=True):
        answers.append(json.dumps([[str(of_passage[passage][number])]]).encode())
    return {
        "candidate_text": np.frombuffer(b"".join(candidates), np.uint8),
        "candidate_text_start": _starts(map(len, candidates)),
        "answer_text": np.frombuffer(b"".join(answers), np.uint8),
        "answer_text_start": _starts(map(len, answers)),
    }


def _passages(rng: np.random.Generator, number: int, tokens: int) -> dict[str, np.ndarray]:
    """Flat arrays of all passages: tokens [P], candidates [C], marked tokens [S], and where each
    passage starts."""
    shortest, longest = max(4, tokens * SHORTEST), LONGEST * tokens
    length = _lengths(rng, number, tokens, PASSAGE_SHAPE, shortest, longest).astype(np.int64)
    start = _starts(length)
    words = zipf(rng, int(start[-1]))
    types, sizes, positions, owners = [], [], [], []
    for first, size in zip(start[:-1], length, strict=True):
        most = max(1, min(size // 2, rng.poisson(CANDIDATES)))
        drawn = (TYPES * rng.random(most) ** 2).astype(np.int32)
        phrases = rng.permutation(np.unique(drawn))
        # Each candidate is marked once, and some again.
        repeats = rng.poisson(len(phrases) * (MARKS / CANDIDATES - 1))
        again = rng.integers(0, len(phrases), repeats)
        owner = np.sort(np.concatenate([np.arange(len(phrases)), again])[:size])
        position = rng.choice(size, len(owner), replace=False)
        position = position[np.lexsort((position, owner))]
        words[first + position] = FIRST_WORD + WORDS - 1 - phrases[owner] % PHRASES
        types.append(phrases)
        sizes.append(rng.integers(1, 5, len(phrases)))
        positions.append(position)
        owners.append(owner)
    return {
        "passage": words,
        "passage_start": start,
        "candidate_type": _joined(types),
        "candidate_type_start": _starts(map(len, types)),
        "candidate_length": _joined(sizes),
        "position": _joined(positions),
        "position_start": _starts(map(len, positions)),
        "position_candidate": _joined(owners),
    }


def _joined(of_passages: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(of_passages).astype(np.int32)


def _starts(sizes: Iterable[int]) -> np.ndarray:
    return np.cumsum([0, *sizes], dtype=np.int64)


def zipf(rng: np.random.Generator, number: int) -> np.ndarray:
    """[number] int32 words, each as often as a text has a word of its rank."""
    share = (np.arange(1, WORDS + 1) + OFFSET) ** -EXPONENT
    edges = np.cumsum(share / share.sum())
    rank = np.minimum(np.searchsorted(edges, rng.random(number)), WORDS - 1)
    return (FIRST_WORD + rank).astype(np.int32)


def _lengths(
    rng: np.random.Generator, number: int, mean: float, shape: float, least: float, most: float
) -> np.ndarray:
    """[number] whole numbers of a gamma distribution, clipped."""
    return np.clip(np.round(rng.gamma(shape, mean / shape, number)), least, most)


def _padded(tokens: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Tokens [N, T] with 0 after each row's length [N]."""
    return np.where(np.arange(tokens.shape[1]) < length[:, None], tokens, 0).astype(np.int32)


def _vectors(rng: np.random.Generator, dim: int) -> np.ndarray:
    vectors = rng.normal(0.0, 0.4, (FIRST_WORD + WORDS, dim)).astype(np.float32)
    vectors[0] = 0.0
    return vectors


# -- rows ------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """One way to run a model in PyTorch.

    Args:
      style: the layout of text in matrix products, see torch_models; or that of PLAIN.
      compiled: by torch.compile.
    """

    style: str
    compiled: bool = False

    @property
    def name(self) -> str:
        return f"{self.style}, torch.compile" if self.compiled else self.style


PLAIN = Setting("plain script")  # the script that one would write first, for whole epochs


class Family(NamedTuple):
    """The settings of PyTorch for some models, and defaults of the command's flags.

    Args:
      settings: the fastest of them counts.
      batch: sizes of batches.
      rows: of training.
      rows_per_premise: or for each passage.
    """

    settings: tuple[Setting, ...]
    hidden: int = 300
    vectors: int = 300
    batch: tuple[int, ...] = (64, 512)
    rows: int = 11_232
    rows_per_premise: int = PAIRS_PER_PREMISE
    packages: tuple[str, ...] = ("torch",)


RECURRENT = Family(
    (
        Setting("bucketed"),
        Setting("chunked"),
        Setting("bucketed", compiled=True),
        Setting("chunked", compiled=True),
    )
)
READER = Family(
    (Setting("bucketed"),),
    hidden=64,
    vectors=200,
    batch=(32,),
    rows=4_096,
    rows_per_premise=QUERIES_PER_PASSAGE,
)
ENCODER = Family(
    (Setting("eager"), Setting("sdpa", compiled=True)),
    hidden=384,
    vectors=1,
    batch=(16, 32),
    packages=("torch", "transformers"),
)
# The library has no fused kernel for disentangled attention.
DISENTANGLED = ENCODER._replace(settings=(Setting("eager"), Setting("eager", compiled=True)))
ENCODERS = dict.fromkeys(FAMILIES, ENCODER) | {families.DEBERTA: DISENTANGLED}
MODELS = {
    "bow": Family((Setting("distinct"),)),
    "infersent": RECURRENT,
    "esim": RECURRENT,
    "ga_reader": READER,
    "sa_reader": READER,
    **ENCODERS,
}


@dataclass(frozen=True)
class Case:
    """One row of the table, in terms of the command's flags.

    Args:
      seeds: trained in one program.
      pairs: training rows, which for readers are queries.
      buckets: of training (train.max_buckets); None = those of the model's config.
      against: "torch" or "none".
    """

    model: str
    batch: int
    seeds: int
    mode: str
    grouping: str
    pairs: int
    hidden: int = 300
    vectors: int = 300
    tokens: int = 1500
    length: int = 64
    precision: str = "float32"
    buckets: int | None = None
    against: str = "torch"
    rounds: int = 3


@dataclass(frozen=True)
class Choices:
    """The cases that a command asks for: one for each model, size and mode. Where a size is None or
    empty, that of the model's family holds."""

    models: Sequence[str]
    modes: Sequence[str]
    groupings: Sequence[str]
    seeds: Sequence[int]
    batches: Sequence[int]
    pairs: Sequence[int]
    hidden: int | None
    vectors: int | None
    tokens: int
    length: int
    precision: str
    buckets: int | None
    against: str
    rounds: int


def cases_of(choices: Choices) -> list[Case]:
    cases = []
    for model in choices.models:
        family = MODELS[model]
        if model in ENCODERS and list(choices.groupings) != ["off"]:
            problem = f"--grouping=premise: {model} reads both sentences together"
            raise UsageError(problem, fix="leave it out")
        combinations = itertools.product(
            choices.pairs or (family.rows,),
            choices.modes,
            choices.batches or family.batch,
            choices.groupings,
            choices.seeds,
        )
        for pairs, mode, batch, grouping, seeds in combinations:
            case = Case(
                model,
                batch,
                seeds,
                mode,
                grouping,
                pairs,
                hidden=choices.hidden or family.hidden,
                vectors=choices.vectors or family.vectors,
                tokens=choices.tokens,
                length=choices.length,
                precision=choices.precision,
                buckets=choices.buckets,
                against=choices.against,
                rounds=choices.rounds,
            )
            cases.append(case)
    return cases


def workload_of(case: Case) -> Workload:
    """The corpus of a case."""
    if case.model in ENCODERS:
        return made_up_pieces(case.pairs, length=case.length)
    if MODELS[case.model] is READER:
        return made_up_passages(case.pairs, tokens=case.tokens, dim=case.vectors)
    return made_up_pairs(case.pairs, dim=case.vectors)


def library_config(model: str, hidden: int) -> families.Config:
    """The config.json of a family's model in the benchmark's sizes."""
    config: families.Config = {
        "model_type": model,
        "vocab_size": PIECES,
        "hidden_size": hidden,
        "num_hidden_layers": BERT_LAYERS,
        "num_attention_heads": hidden // BERT_HEAD_SIZE,
        "intermediate_size": BERT_INNER * hidden,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        FAMILIES[model].epsilon: 1e-12,
    }
    if model == "electra":
        config["embedding_size"] = hidden
    if model == families.MODERN:  # the numbers of its own vocabulary are larger
        pieces = dict.fromkeys(("bos_token_id", "cls_token_id"), CLS)
        pieces |= dict.fromkeys(("eos_token_id", "sep_token_id"), SEP)
        config |= {"pad_token_id": 0, **pieces}
    if model == families.DEBERTA:  # as the published models of version 3
        config |= {
            "type_vocab_size": 0,
            "relative_attention": True,
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": "p2c|c2p",
            "position_biased_input": False,
        }
    return config


def config_of(case: Case) -> ConfigDict:
    """The published config of a case's model, in the case's sizes."""
    family = MODELS[case.model]
    if family is READER:
        config = defaults.cloze(case.model, "clicr")
    elif case.model in ENCODERS:
        config = defaults.nli("encoder", "mednli")
        config.model.update(families.fields_of(library_config(case.model, case.hidden)))
        # The first steps of a warm-up would hardly change the weights.
        config.train.schedule = "constant"
    else:
        config = defaults.nli(case.model, "mednli")
    config.seeds = tuple(range(case.seeds))
    config.model.hidden_size = case.hidden
    config.train.batch_size = case.batch
    config.train.precision = case.precision
    if case.buckets:
        config.train.max_buckets = case.buckets
    config.train.group = family.rows_per_premise if case.grouping == "premise" else 1
    return config
