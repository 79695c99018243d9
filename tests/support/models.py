"""Small models of every kind with the corpora that they read, for properties that all models have."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from mednli_jax.cloze.task import ClozeTask
from mednli_jax.data.arrays import SIDES, Prepared
from mednli_jax.data.batching import Layout, staircase
from mednli_jax.knowledge.relations import KINDS
from mednli_jax.models import table
from mednli_jax.models.batch import PairBatch
from mednli_jax.nli.task import NLITask
from mednli_jax.training.task import frozen
from support import random_pairs


def as_type(tree, dtype):
    """The tree with all floating-point leaves converted to this type."""
    return jax.tree.map(
        lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree
    )


ROWS, GROUP, TYPES = 24, 3, 9
SPARE = 4  # columns of padding that no batch needs
_BERT = {"hidden_size": 8, "layers": 2, "attention_heads": 2, "intermediate_size": 12}
MODELS = {  # name -> (model, fields)
    "bow": ("bow", {}),
    "bow-full": ("bow", {"matching": "full"}),
    "bow-replace": ("bow", {"knowledge": "replace"}),
    "infersent": ("infersent", {}),
    "infersent-gru-mean": ("infersent", {"cell": "gru", "pooling": "mean"}),
    "infersent-replace": ("infersent", {"knowledge": "replace"}),
    "infersent-bias": ("infersent", {"knowledge": "bias"}),
    "bilstm": ("infersent", {"pooling": "last", "matching": "concat"}),
    "esim": ("esim", {}),
    "esim-replace": ("esim", {"knowledge": "replace"}),
    "esim-bias": ("esim", {"knowledge": "bias"}),
    "esim-typed": ("esim", {"knowledge": "typed"}),
    "fasttext": ("fasttext", {"dim": 5, "buckets": 64}),
    "bert": ("bert", {**_BERT, "knowledge": "bias"}),
    "encoder-typed": (
        "encoder",
        {
            **_BERT,
            "knowledge": "typed",
            "norm_first": True,
            "head": "gelu",
            "embedding_size": 6,
            "token_types": 0,
            "first_position": 2,
            "separators": 2,
            "rematerialise": True,
        },
    ),
    "ga_reader": ("ga_reader", {"hops": 2}),
    "sa_reader": ("sa_reader", {}),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """Rows as the task has them on a device.

    units: [M, G], the rows of each premise or passage in random order, -1 = none. facts: for the
    model's fields. joint: whether both sides share a loop (see Layout.full).
    """

    task: object
    data: dict
    vectors: np.ndarray
    lengths: tuple[np.ndarray, np.ndarray]
    width: tuple[int, int]
    units: np.ndarray
    facts: dict
    joint: bool = True


def _units(owner):
    """[M, G], the rows of each owner in random order. Some units are not full."""
    units = np.full((owner.max() + 1, GROUP), -1)
    for row in np.random.default_rng(0).permutation(len(owner)):
        units[owner[row], np.flatnonzero(units[owner[row]] < 0)[0]] = row
    return units[np.random.default_rng(1).permutation(len(units))]


@functools.cache
def pairs():
    """24 pairs of 9 premises with up to three hypotheses each, with links."""
    data, owner, rng = (
        random_pairs.arrays(rows=ROWS, seed=3),
        np.arange(ROWS) * 9 // ROWS,
        np.random.default_rng(1),
    )
    for name in ("premise", "premise_length"):
        data[name] = data[name][owner * ROWS // 9]
    beyond = data["link_premise"] >= data["premise_length"][:, None]
    data["link_distance"] = np.where(beyond, -1, data["link_distance"]).astype(np.int16)
    relation = rng.integers(1, 1 << len(KINDS), data["link_distance"].shape)
    data["link_relation"] = np.where(data["link_distance"] >= 0, relation, 0).astype(np.uint8)
    width, lengths = (
        tuple(data[name].shape[1] for name in SIDES),
        tuple(data[f"{name}_length"] for name in SIDES),
    )
    for name in SIDES:
        data[name] = np.pad(data[name], ((0, 0), (0, SPARE)))
    facts = {"longest_path": random_pairs.LONGEST, "relations": len(KINDS)}
    facts |= {"vocab_size": random_pairs.WORDS, "cls_id": 1, "sep_id": 2}
    return Corpus(NLITask(), data, random_pairs.vectors(), lengths, width, _units(owner), facts)


@functools.cache
def queries():
    """24 queries over 9 passages of 5 to 12 tokens, each with three candidates. Some words never
    occur."""
    random, width = np.random.default_rng(0), (12, 5)
    passages = random.integers(5, 13, 9)
    owner, ends = np.arange(ROWS) * 9 // ROWS, np.append(0, np.cumsum(passages))
    three = np.arange(0, 28, 3)
    arrays = {
        "passage": random.integers(1, 20, ends[-1]).astype(np.int32),
        "passage_start": ends,
        "candidate_type": np.concatenate([random.permutation(TYPES)[:3] for _ in passages]).astype(
            np.int32
        ),
        "candidate_length": random.integers(1, 3, 27).astype(np.int32),
        "candidate_type_start": three,
        "position": np.concatenate([np.sort(random.permutation(n)[:3]) for n in passages]).astype(
            np.int32
        ),
        "position_candidate": np.tile(np.arange(3, dtype=np.int32), 9),
        "position_start": three,
        "query": random.integers(1, 20, (ROWS, width[1])).astype(np.int32),
        "query_length": random.integers(2, 6, ROWS).astype(np.int32),
        "query_passage": owner.astype(np.int32),
        "blank": np.ones(ROWS, np.int32),
        "gold": random.integers(0, 3, ROWS).astype(np.int32),
    }
    task = ClozeTask()
    data, lengths = (
        task.resident(Prepared(None, {}, arrays, random_pairs.vectors(), {})),
        passages[owner],
    )
    data["query"] = np.pad(data["query"], ((0, 0), (0, SPARE)))
    facts = {"num_types": TYPES}
    return Corpus(
        task,
        data,
        random_pairs.vectors(),
        (lengths, arrays["query_length"]),
        width,
        _units(owner),
        facts,
        False,
    )


def corpus_of(name) -> Corpus:
    return queries() if name.endswith("reader") else pairs()


def build(name, **more):
    """The model of this name with small sizes and no dropout. more: other fields, and axis_name."""
    model, fields = MODELS[name]
    axis = {"axis_name": more.pop("axis_name", None)}
    sizes = {} if "dim" in fields else {"hidden_size": 4, "dropout": 0.0}
    return table.entry(model).build({**sizes, **fields, **more}, **corpus_of(name).facts, **axis)


def words_of(name) -> dict:
    """The arrays that a model does not train."""
    return frozen(corpus_of(name).vectors)


def layout_for(corpus, index, *, devices=1, more=0) -> Layout:
    """The tightest layout that holds all these batches [..., Q, G], each split over devices.

    more: tokens of further padding on both sides, at most SPARE.
    """
    parts = index.reshape(-1, index.shape[-2] // devices, index.shape[-1])
    owner, real = parts.max(axis=2), parts >= 0
    first, second = (
        np.where(of >= 0, n[of], 0) for n, of in zip(corpus.lengths, (owner, parts), strict=True)
    )
    each = np.where(real, first[:, :, None], 0)
    sides = ((first, second), (each, second)) if corpus.joint else ((first,), (each,))
    times, stairs = np.arange(max(corpus.width)), []
    for of in sides:
        lengths = np.concatenate([part.reshape(len(parts), -1) for part in of], axis=1)
        stairs.append(staircase((lengths[:, :, None] > times).sum(axis=1).max(axis=0)))
    width = tuple(tokens + more for tokens in corpus.width)
    words = random_pairs.WORDS if corpus.joint else 0
    return Layout(parts.shape[1], parts.shape[2], width, *stairs, words)


def noisy(batch):
    """The batch with a word on all padding of the texts."""

    def side(tokens, length):
        return jnp.where(jnp.arange(tokens.shape[1]) < length[:, None], tokens, 7)

    sides = ("premise", "hypothesis") if isinstance(batch, PairBatch) else ("passage", "query")
    padded = {name: side(getattr(batch, name), getattr(batch, f"{name}_length")) for name in sides}
    return batch.replace(**padded)


@functools.cache
def variables_of(model, name):
    """Large random weights in float64, for which no layer is nearly linear, and uncommon batch
    statistics."""
    corpus, rng = corpus_of(name), np.random.default_rng(1)
    data = jax.tree.map(jnp.asarray, corpus.data)
    batch = corpus.task.to_batch(
        data, np.zeros((1, 1), np.int32), Layout.full(1, corpus.width, joint=corpus.joint)
    )

    def init(key):
        rngs, mutable = {"params": key}, ["params", "batch_stats"]
        return model.apply(
            {"frozen": words_of(name)}, batch, train=False, rngs=rngs, mutable=mutable
        )[1]

    def filled(path, leaf):
        scale = "scale" in jax.tree_util.keystr(path) or "variance" in jax.tree_util.keystr(path)
        drawn = rng.normal(0, 0.4, leaf.shape)
        return 1 + abs(drawn) if scale else drawn

    made = jax.tree_util.tree_map_with_path(filled, jax.eval_shape(init, jax.random.key(0)))
    return {**made, "frozen": jax.tree.map(lambda x: np.asarray(x, np.float64), words_of(name))}
