"""Small models of every kind with the corpora that they read, for properties of all models."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from mednli_jax.cloze.scorer import ClozeScorer
from mednli_jax.data.arrays import SIDES, Prepared
from mednli_jax.data.batching import Layout, pack_segments
from mednli_jax.knowledge.relations import KINDS
from mednli_jax.models import table
from mednli_jax.models.batch import PairBatch, QueryBatch
from mednli_jax.nli.scorer import NLIScorer
from mednli_jax.training.scorer import frozen
from mednli_jax.types import PyTree
from support import random_pairs
from support.tables import fields_of, table_rows

Batch = PairBatch | QueryBatch
Fields = dict[str, Any]

ROWS = 24
GROUPS = 9
GROUP_SIZE = 3
TYPES = 9
OWNER = np.arange(ROWS) * GROUPS // ROWS  # the premise or passage of each row
SPARE = 4  # columns of padding that no batch needs
_BERT = "hidden_size=8 layers=2 attention_heads=2 intermediate_size=12"
_TABLE = table_rows(f"""
    bow |
    bow-full | matching="full"
    bow-replace | knowledge="replace"
    infersent |
    infersent-gru-mean | cell="gru" pooling="mean"
    infersent-replace | knowledge="replace"
    infersent-bias | knowledge="bias"
    infersent-last | pooling="last" matching="concat"
    esim |
    esim-replace | knowledge="replace"
    esim-bias | knowledge="bias"
    esim-typed | knowledge="typed"
    fasttext | dim=5 buckets=64
    encoder | {_BERT} knowledge="bias"
    encoder-typed | {_BERT} knowledge="typed" norm_first=true head="gelu" embedding_size=6 \
        token_types=0 first_position=2 separators=2 rematerialise=true
    encoder-modern | {_BERT} layers=3 knowledge="bias" norm_first=true first_norm=false \
        token_types=0 gated=true head="gelu_norm" head_input="mean" rotary_base=100.0 \
        local_rotary_base=10.0 local_attention=4 local_layers=[1] mlp_bias=false
    encoder-disentangled | {_BERT} knowledge="typed" token_types=0 head="context" \
        absolute_positions=false relative_positions=24 relative_buckets=6 \
        relative_terms=["c2p","p2c"] relative_shared=true relative_norm=true convolution=3
    ga_reader | hops=2
    sa_reader |
""")
# the model, and a word about its fields -> fields
MODELS: dict[str, Fields] = {name: fields_of(fields) for name, fields in _TABLE}


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """Rows as the task has them on a device.

    groups: [M, G], the rows of each premise or passage in random order, -1 = none. facts: for the
    model's fields. joint: whether both sides share a loop (see Layout.full).
    """

    task: NLIScorer | ClozeScorer
    data: dict[str, np.ndarray]
    vectors: np.ndarray
    lengths: tuple[np.ndarray, np.ndarray]
    width: tuple[int, int]
    facts: Fields
    joint: bool = True

    @property
    def groups(self) -> np.ndarray:
        groups = np.full((GROUPS, GROUP_SIZE), -1)
        for row in np.random.default_rng(0).permutation(ROWS):
            members = groups[OWNER[row]]
            members[np.argmax(members < 0)] = row
        return np.random.default_rng(1).permutation(groups)


def _wider(tokens: np.ndarray) -> np.ndarray:
    """The tokens with columns of padding that no batch needs."""
    return np.pad(tokens, ((0, 0), (0, SPARE)))


@functools.cache
def pairs() -> Corpus:
    """24 pairs of 9 premises with up to three hypotheses each, with links."""
    data = random_pairs.arrays(rows=ROWS, seed=3)
    for name in ("premise", "premise_length"):
        data[name] = data[name][OWNER * ROWS // GROUPS]
    within = data["link_premise"] < data["premise_length"][:, None]
    data["link_distance"] = np.where(within, data["link_distance"], -1).astype(np.int16)
    relations = np.random.default_rng(1).integers(1, 1 << len(KINDS), within.shape)
    data["link_relation"] = np.where(data["link_distance"] >= 0, relations, 0).astype(np.uint8)
    lengths = data["premise_length"], data["hypothesis_length"]
    width = data["premise"].shape[1], data["hypothesis"].shape[1]
    for side in SIDES:
        data[side] = _wider(data[side])
    facts = {
        "longest_path": random_pairs.LONGEST,
        "relations": len(KINDS),
        "vocab_size": random_pairs.WORDS,
        "cls_id": 1,
        "sep_id": 2,
    }
    return Corpus(
        NLIScorer(),
        data,
        random_pairs.vectors(),
        lengths,
        width,
        facts,
    )


@functools.cache
def queries() -> Corpus:
    """24 queries over 9 passages of 5 to 12 tokens, each with three candidates. Some words never
    occur."""
    rng = np.random.default_rng(0)
    width = (12, 5)
    passage_length = rng.integers(5, 13, GROUPS)
    start = np.append(0, np.cumsum(passage_length))
    candidate_start = 3 * np.arange(GROUPS + 1)

    def three_of_each(choices: Sequence[int]) -> np.ndarray:
        return np.stack([rng.permutation(choice)[:3] for choice in choices])

    arrays = {
        "passage": rng.integers(1, 20, start[-1]),
        "candidate_type": three_of_each([TYPES] * GROUPS).ravel(),
        "candidate_length": rng.integers(1, 3, 3 * GROUPS),
        "position": np.sort(three_of_each(passage_length)).ravel(),
        "position_candidate": np.tile(np.arange(3), GROUPS),
        "query": rng.integers(1, 20, (ROWS, width[1])),
        "query_length": rng.integers(2, 6, ROWS),
        "query_passage": OWNER,
        "blank": np.ones(ROWS),
        "gold": rng.integers(0, 3, ROWS),
    }
    arrays = {name: array.astype(np.int32) for name, array in arrays.items()}
    arrays |= {
        "passage_start": start,
        "candidate_type_start": candidate_start,
        "position_start": candidate_start,
    }
    task = ClozeScorer()
    vectors = random_pairs.vectors()
    data = task.device_arrays(Prepared(None, {}, arrays, vectors, {}))
    data["query"] = _wider(data["query"])
    lengths = passage_length[OWNER], arrays["query_length"]
    return Corpus(
        task,
        data,
        vectors,
        lengths,
        width,
        {"num_types": TYPES},
        joint=False,
    )


def pair_batch(
    premises: Sequence[Sequence[int]],
    hypotheses: Sequence[Sequence[int]],
    links: Sequence[Sequence[int]] = (),
) -> PairBatch:
    """The batch of these tokens, with token 19 on all padding. links: of the first pair, each with
    the tokens of premise and hypothesis, a distance, and bits of relations."""
    premise, premise_length = _padded(premises)
    hypothesis, hypothesis_length = _padded(hypotheses)
    batch = PairBatch(
        premise,
        premise_length,
        hypothesis,
        hypothesis_length,
        mask=jnp.ones(len(hypotheses)),
    )
    if not links:
        return batch
    column = np.array(links)[:, :, None].transpose(1, 2, 0)
    return batch.replace(
        link_premise=jnp.asarray(column[0], jnp.int16),
        link_hypothesis=jnp.asarray(column[1], jnp.int16),
        link_distance=jnp.asarray(column[2], jnp.int16),
        link_relation=jnp.asarray(column[3], jnp.uint32),
    )


def _padded(texts: Sequence[Sequence[int]]) -> tuple[jax.Array, jax.Array]:
    """(tokens, lengths)."""
    lengths = [len(text) for text in texts]
    tokens = np.full((len(texts), max(lengths)), 19)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = text
    return jnp.asarray(tokens), jnp.asarray(lengths)


def corpus_of(name: str) -> Corpus:
    return queries() if name.endswith("reader") else pairs()


def build(name: str, *, axis_name: str | None = None, **more: Any) -> nn.Module:
    """The model of this name with small sizes and no dropout. more: further fields."""
    model = name.partition("-")[0]
    fields = MODELS[name]
    sizes = {} if model == "fasttext" else {"hidden_size": 4, "dropout": 0.0}
    facts = corpus_of(name).facts
    return table.entry(model).build({**sizes, **fields, **more}, **facts, axis_name=axis_name)


def words_of(name: str) -> PyTree:
    """The arrays that a model does not train."""
    return frozen(corpus_of(name).vectors)


def as_type(tree: PyTree, dtype: Any) -> PyTree:
    """The tree with all floating-point leaves converted to this type."""

    def converted(leaf: jax.Array) -> jax.Array:
        return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(converted, tree)


def layout_for(corpus: Corpus, index: np.ndarray, *, devices: int = 1, more: int = 0) -> Layout:
    """The tightest layout that holds all these batches [..., Q, G], each split over devices.

    more: tokens of further padding on both sides, at most SPARE.
    """
    row_BQG = index.reshape(-1, index.shape[-2] // devices, index.shape[-1])
    owner_BQ = row_BQG.max(axis=2)
    premise_BQ = np.where(owner_BQ >= 0, corpus.lengths[0][owner_BQ], 0)
    hypothesis_BQG = np.where(row_BQG >= 0, corpus.lengths[1][row_BQG], 0)
    premise_BQG = np.where(row_BQG >= 0, premise_BQ[:, :, None], 0)
    also = [hypothesis_BQG] if corpus.joint else []
    steps = max(corpus.width)
    stairs = _stairs([premise_BQ, *also], steps), _stairs([premise_BQG, *also], steps)
    width = tuple(tokens + more for tokens in corpus.width)
    words = random_pairs.WORDS if corpus.joint else 0
    return Layout(row_BQG.shape[1], row_BQG.shape[2], width, *stairs, words)


def _stairs(lengths: Sequence[np.ndarray], steps: int) -> Any:
    """The segments of a loop over texts of these lengths, for the fullest batch at each step. They
    are few, because each of them is compiled."""
    length_BN = np.concatenate([batch.reshape(len(batch), -1) for batch in lengths], axis=1)
    active_BT = (length_BN[:, :, None] > np.arange(steps)).sum(axis=1)
    return pack_segments(active_BT.max(axis=0), uses=2000)


def noisy(batch: Batch) -> Batch:
    """The batch with a word on all padding of the texts."""
    padded = {}
    for side in SIDES if isinstance(batch, PairBatch) else ("passage", "query"):
        tokens = getattr(batch, side)
        length = getattr(batch, f"{side}_length")
        is_word = jnp.arange(tokens.shape[1]) < length[:, None]
        padded[side] = jnp.where(is_word, tokens, 7)
    return batch.replace(**padded)


def batch_of(name: str, rows: int) -> Batch:
    """The batch of the first rows of the model's corpus."""
    corpus = corpus_of(name)
    layout = Layout.full(rows, corpus.width, joint=corpus.joint)
    index = np.arange(rows)[:, None]
    return jax.jit(lambda data: corpus.task.to_batch(data, index, layout))(corpus.data)


@functools.cache
def variables_of(model: nn.Module, name: str) -> PyTree:
    """Large random weights in float64, for which no layer is nearly linear, and uncommon batch
    statistics."""
    words, batch = words_of(name), batch_of(name, 1)

    def init(key: jax.Array) -> PyTree:
        mutable = ["params", "batch_stats"]
        _, variables = model.apply(
            {"frozen": words}, batch, train=False, rngs={"params": key}, mutable=mutable
        )
        return variables

    rng = np.random.default_rng(1)

    def filled(path: Any, leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        drawn = rng.normal(0, 0.4, leaf.shape)
        name = jax.tree_util.keystr(path)
        return 1 + abs(drawn) if "scale" in name or "variance" in name else drawn

    shapes = jax.eval_shape(init, jax.random.key(0))
    variables = jax.tree_util.tree_map_with_path(filled, shapes)
    return {**variables, "frozen": jax.tree.map(np.float64, words)}
