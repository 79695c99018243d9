"""A user's own task on rows of one text: is a finding negated, affirmed, possible or of the family?

The folder of the corpus has train.csv, dev.csv and test.csv with the columns id, text and label.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.special import log_softmax, softmax

from mednli_jax import defaults
from mednli_jax.data.arrays import NEW, Prepared, Rows, pad, rows_of_splits
from mednli_jax.data.batching import Batches, BatchPlan, Layout, TrainingBatches
from mednli_jax.data.cache import Cache, Content, Key
from mednli_jax.data.corpus import Corpus, cache_folder
from mednli_jax.data.examples import Facts, Split
from mednli_jax.data.inputs import Form
from mednli_jax.data.text import UNK, Vocab
from mednli_jax.data.vectors import random_vectors
from mednli_jax.errors import DataError
from mednli_jax.report.metrics import accuracy, mean_sd
from mednli_jax.training.task import frozen, summary

SPLITS = ("train", "dev", "test")
LABELS = ("negated", "affirmed", "possible", "family")
FORMAT = 1  # of the arrays: raise it when `encode` changes
Config = Any
Json = dict[str, Any]


@dataclass(frozen=True)
class Example:
    uid: str
    tokens: tuple[str, ...]
    label: int = -1
    tags: tuple[str, ...] = ()


def read(path: Path) -> Iterator[Example]:
    """The rows of a file. An error names the line, and quotes no text."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        for row in rows:
            if row["label"] not in LABELS:
                fix = f"give one of {', '.join(LABELS)}"
                raise DataError("unknown label", file=path.name, line=rows.line_num, fix=fix)
            tokens = tuple(row["text"].lower().split())
            yield Example(row["id"], tokens, LABELS.index(row["label"]))


def encode(splits: Mapping[str, Split], vocabulary: Vocab) -> tuple[dict[str, np.ndarray], Facts]:
    """(arrays over the rows of all splits, facts for the manifest)."""
    examples = [example for split in splits.values() for example in split.examples]
    numbers = [vocabulary.encode(example.tokens) for example in examples]
    premise, length = pad(numbers, max(map(len, numbers)))
    labels = np.array([example.label for example in examples], np.int32)
    arrays = {"label": labels, "premise": premise, "premise_length": length}
    unknown = sum(row.count(UNK) for row in numbers)
    facts: Facts = {"splits": {}, "unknown_tokens": {"sentence": unknown}, "truncated": {}}
    first = 0
    for name, split in splits.items():
        facts["splits"][name] = {"first": first, "rows": len(split)}
        first += len(split)
    return arrays, facts


@dataclass(frozen=True)
class SentenceCorpus:
    folder: Path
    dim: int
    seed: int
    name: str = "sentences"
    title: str = "sentences"

    def files(self) -> dict[str, Path]:
        return {split: self.folder / f"{split}.csv" for split in SPLITS}

    def splits(self) -> dict[str, Split]:
        return {name: Split(name, tuple(read(path))) for name, path in self.files().items()}

    def prepare(self) -> tuple[Prepared, bool]:
        cache = Cache(cache_folder())
        key: Key = {"format": FORMAT, "dim": self.dim, "seed": self.seed}
        key["sources"] = cache.digests(list(self.files().values()))
        return cache.get(self.name, key, self.build)

    def build(self) -> Content:
        splits = self.splits()
        vocabulary = Vocab.build(example.tokens for example in splits["train"].examples)
        arrays, facts = encode(splits, vocabulary)
        vectors = random_vectors(vocabulary.words, dim=self.dim, seed=self.seed)
        return splits, arrays, vocabulary, vectors, facts

    def encoded(
        self,
        splits: Mapping[str, Split],
        vocabulary: Vocab,
        vectors: np.ndarray,
        names: Sequence[str] | None = None,
    ) -> Prepared:
        arrays, facts = encode(splits, vocabulary)
        return Prepared(None, facts, arrays, vectors, rows_of_splits(splits, arrays, facts))

    def read_vocabulary(self, path: Path) -> Vocab:
        return Vocab.load(path)


@flax.struct.dataclass
class Batch:
    tokens: jax.Array  # [B, T]
    length: jax.Array  # [B]
    label: jax.Array  # [B]
    mask: jax.Array  # [B]
    row_key: jax.Array | None = None
    layout: Layout | None = flax.struct.field(pytree_node=False, default=None)


@dataclass(frozen=True)
class SentenceScorer:
    name: str = "sentences"
    sides: tuple[str, ...] = ("sentence",)
    units: str = "sentences"
    pieces: bool = False
    labels: tuple[str, ...] = LABELS
    padded_length: int = 0

    def with_rows(self, prepared: Prepared, corpus: Corpus) -> Prepared:
        return prepared

    def model_facts(self, manifest: Json) -> Json:
        return {}

    def resident(self, prepared: Prepared) -> dict[str, np.ndarray]:
        return {name: np.asarray(array) for name, array in prepared.arrays.items()}

    def frozen(self, vectors: np.ndarray) -> Json:
        return frozen(vectors)

    def batches(
        self,
        prepared: Prepared,
        name: str,
        training: TrainingBatches,
        *,
        shares: int,
        model: nn.Module,
    ) -> Batches:
        rows = prepared.splits[name]
        width = (prepared.arrays["premise"].shape[1], 0)  # there is no second text
        plan = BatchPlan(training.size, width, shares=shares, first=rows.first)
        if name == "train":
            plan = replace(
                plan, seeds=training.seeds, epochs=training.epochs, shuffle=training.shuffle
            )
        else:
            plan = replace(plan, passes=training.epochs * len(training.seeds), coarse=name == NEW)
        return Batches(*rows.length, plan)

    def new_examples(self, inputs: Sequence[tuple[str]], manifest: Json) -> list[Example]:
        return [Example(str(n), tuple(text.lower().split())) for n, (text,) in enumerate(inputs)]

    def to_batch(self, data: dict[str, jax.Array], index: jax.Array, layout: Layout) -> Batch:
        index = index.reshape(-1)
        row, is_real = jnp.maximum(index, 0), index >= 0
        return Batch(
            tokens=data["premise"][row][:, : layout.width[0]],
            length=jnp.where(is_real, data["premise_length"][row], 0),
            label=jnp.maximum(data["label"][row], 0),
            mask=is_real.astype(jnp.float32),
            layout=layout,
        )

    def loss(self, logits: jax.Array, batch: Batch) -> jax.Array:
        loss_B: jax.Array = optax.softmax_cross_entropy_with_integer_labels(logits, batch.label)
        return loss_B

    def correct(self, logits: jax.Array, batch: Batch) -> jax.Array:
        return (jnp.argmax(logits, axis=-1) == batch.label).astype(jnp.float32)

    def score(self, rows: Rows, logits: np.ndarray) -> Json:
        logp_SNC = log_softmax(np.asarray(logits, np.float64), axis=-1)
        losses_S = [-logp_NC[np.arange(len(rows)), rows.label].mean() for logp_NC in logp_SNC]
        right_S = [accuracy(rows.label, logits_NC.argmax(axis=-1)) for logits_NC in logits]
        return {"examples": len(rows), "accuracy": mean_sd(right_S), "loss": mean_sd(losses_S)}

    def predictions(self, rows: Rows, logits: np.ndarray) -> list[Json]:
        lines = []
        for uid, label, logits_SC in zip(rows.uids, rows.label, logits.swapaxes(0, 1), strict=True):
            predicted = [LABELS[place] for place in logits_SC.argmax(axis=-1)]
            lines.append({"uid": uid, "label": LABELS[label], "predicted": predicted})
        return lines

    def described(self, rows: Rows, logits: np.ndarray) -> list[Json]:
        mean_NC = softmax(np.asarray(logits, np.float64), axis=-1).mean(axis=0)
        return [dict(zip(LABELS, map(float, mean_C), strict=True)) for mean_C in mean_NC]

    def summary(self, split: str, scores: Json) -> str:
        return summary(f"{split} accuracy", scores, self.units)


class MeanWords(nn.Module):
    """The mean of trained word vectors, then one layer -> logits [B, 4]."""

    @nn.compact
    def __call__(self, batch: Batch, *, train: bool) -> jax.Array:
        vectors_VD: jax.Array = self.get_variable("frozen", "embedding")["vectors"]
        words_VD = self.param("words", lambda _: vectors_VD)  # training starts from them
        is_token_BT = jnp.arange(batch.tokens.shape[1]) < batch.length[:, None]
        sum_BD = (words_VD[batch.tokens] * is_token_BT[..., None]).sum(axis=1)
        return nn.Dense(len(LABELS))(sum_BD / jnp.maximum(batch.length, 1)[:, None])


class Sentences:
    name, corpora, units = "sentences", "single sentences", "sentences"
    models = ("plugin_sentences:MeanWords",)
    form = Form((("text",),), "a sentence")

    def base(self, model: str) -> Config:
        train = {"batch_size": 16, "epochs": 20, "learning_rate": 1e-2, "weight_decay": 0.0}
        return defaults.own(
            "plugin_sentences:TASK", model, vectors={"dim": 16}, model={}, train=train
        )

    def accepts(self, name: str, module: object) -> bool:
        return name in self.models

    def rules(self, config: Config) -> Iterator[tuple[str, str, str]]:
        if config.data.dir is None:
            yield "data.dir", "is missing", "give the folder of train.csv, dev.csv and test.csv"

    def corpus(self, config: Config) -> SentenceCorpus:
        return SentenceCorpus(Path(config.data.dir), config.vectors.dim, config.vectors.seed)

    def scorer(self, config: Config) -> SentenceScorer:
        return SentenceScorer()


TASK = Sentences()
