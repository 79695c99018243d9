"""Do two sentences say the same?"""

from dataclasses import dataclass, replace
from pathlib import Path

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import optax
from scipy.special import log_softmax, softmax

from mednli_jax import defaults
from mednli_jax.data.arrays import NEW, Prepared, pad, rows_of_splits
from mednli_jax.data.batching import Batches, BatchPlan
from mednli_jax.data.cache import Cache
from mednli_jax.data.corpus import cache_folder
from mednli_jax.data.examples import Split
from mednli_jax.data.inputs import Form
from mednli_jax.data.text import UNK, Vocab
from mednli_jax.data.vectors import random_vectors
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.layers import length_mask, masked_mean
from mednli_jax.report.metrics import accuracy, mean_sd
from mednli_jax.training.task import frozen, summary

SIDES, LABELS = ("premise", "hypothesis"), ("same", "other")
FORMAT = 1  # of the arrays: raise it when `encode` changes


# -- the corpus: files -> Examples -> arrays


@dataclass(frozen=True)
class Example:
    uid: str  # stable
    premise: tuple[str, ...]  # tokens
    hypothesis: tuple[str, ...]
    label: int = -1  # index into LABELS, -1 = none
    tags: tuple[str, ...] = ()


def encode(splits, vocabulary):
    """(arrays over the rows of all splits, facts for the manifest)."""
    examples = [example for split in splits.values() for example in split.examples]
    arrays = {"label": np.array([example.label for example in examples], np.int32)}
    facts, first = {"splits": {}, "unknown_tokens": {}, "truncated": {}}, 0
    for side in SIDES:
        numbers = [vocabulary.encode(getattr(example, side)) for example in examples]
        arrays[side], arrays[f"{side}_length"] = pad(numbers, max(map(len, numbers)))
        facts["unknown_tokens"][side] = sum(row.count(UNK) for row in numbers)
    for name, split in splits.items():
        facts["splits"][name] = {"first": first, "rows": len(split)}
        first += len(split)
    return arrays, facts


@dataclass(frozen=True)
class SimilarCorpus:
    folder: Path
    dim: int
    seed: int
    name: str = "similar"  # of the prepared folder
    title: str = "similar"  # in results

    def files(self):
        return {split: self.folder / f"{split}.tsv" for split in ("train", "dev", "test")}

    def splits(self):
        splits = {}
        for name, path in self.files().items():
            rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
            examples = [
                Example(
                    f"{name}-{number}",
                    tuple(first.split()),
                    tuple(second.split()),
                    LABELS.index(label),
                )
                for number, (first, second, label) in enumerate(rows)
            ]
            splits[name] = Split(name, tuple(examples))
        return splits

    def prepare(self):
        """(the prepared corpus, whether the cache had it). The key: all that shapes the arrays."""
        cache = Cache(cache_folder())
        key = {"format": FORMAT, "dim": self.dim, "seed": self.seed}
        key["sources"] = cache.digests(list(self.files().values()))
        return cache.get(self.name, key, self.build)

    def build(self):
        splits = self.splits()
        examples = splits["train"].examples
        vocabulary = Vocab.build(getattr(example, side) for example in examples for side in SIDES)
        arrays, facts = encode(splits, vocabulary)
        return (
            splits,
            arrays,
            vocabulary,
            random_vectors(vocabulary.words, dim=self.dim, seed=self.seed),
            facts,
        )

    def encoded(self, splits, vocabulary, vectors, names=None):
        """New texts as arrays in memory, in the vocabulary and the vectors of a run."""
        arrays, facts = encode(splits, vocabulary)
        return Prepared(None, facts, arrays, vectors, rows_of_splits(splits, arrays, facts))

    def read_vocabulary(self, path):
        return Vocab.load(path)


# -- training: rows -> batches, logits -> losses, scores and predictions


@dataclass(frozen=True)
class SimilarScorer:
    name: str = "similar"
    sides: tuple[str, str] = SIDES
    units: str = "pairs"
    pieces: bool = False
    labels: tuple[str, ...] = LABELS
    padded_length: int = 0

    def with_rows(self, prepared, corpus):
        return prepared

    def model_facts(self, manifest):
        return {}

    def resident(self, prepared):
        return {name: np.asarray(array) for name, array in prepared.arrays.items()}

    def frozen(self, vectors):
        return frozen(vectors)  # not trained; the model reads them as the variable "embedding"

    def batches(self, prepared, name, training, *, shares, model):
        rows = prepared.splits[name]
        width = tuple(prepared.arrays[side].shape[1] for side in SIDES)
        plan = BatchPlan(training.size, width, shares=shares, first=rows.first)
        if name == "train":
            plan = replace(
                plan, seeds=training.seeds, epochs=training.epochs, shuffle=training.shuffle
            )
        else:  # one pass for each epoch and seed; new inputs get round sizes
            plan = replace(plan, passes=training.epochs * len(training.seeds), coarse=name == NEW)
        return Batches(*rows.length, plan)

    def new_examples(self, inputs, manifest):
        return [
            Example(str(n), tuple(a.split()), tuple(b.split())) for n, (a, b) in enumerate(inputs)
        ]

    def to_batch(self, data, index, layout):
        index = index.reshape(-1)
        row, real = jnp.maximum(index, 0), index >= 0
        fields = {"mask": real.astype(jnp.float32), "label": jnp.maximum(data["label"][row], 0)}
        for side, width in zip(SIDES, layout.width, strict=True):
            fields[side] = data[side][row][:, :width]
            fields[f"{side}_length"] = jnp.where(real, data[f"{side}_length"][row], 0)
        return PairBatch(**fields, layout=layout)

    def loss(self, logits, batch):
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch.label)

    def correct(self, logits, batch):
        return (jnp.argmax(logits, axis=-1) == batch.label).astype(jnp.float32)

    def score(self, rows, logits):
        logp_SNC = log_softmax(np.asarray(logits, np.float64), axis=-1)
        losses_S = [-logp_NC[np.arange(len(rows)), rows.label].mean() for logp_NC in logp_SNC]
        right_S = [accuracy(rows.label, logits_NC.argmax(axis=-1)) for logits_NC in logits]
        return {"examples": len(rows), "accuracy": mean_sd(right_S), "loss": mean_sd(losses_S)}

    def predictions(self, rows, logits):
        """Of each row: uid, label, and the prediction of each seed."""
        predicted_NS = logits.argmax(axis=-1).T
        triples = zip(rows.uids, rows.label, predicted_NS, strict=True)
        return [
            {
                "uid": uid,
                "label": LABELS[label],
                "predicted": [LABELS[place] for place in predicted_S],
            }
            for uid, label, predicted_S in triples
        ]

    def described(self, rows, logits):
        """Of each new input: the mean probabilities of the seeds."""
        mean_NC = softmax(np.asarray(logits, np.float64), axis=-1).mean(axis=0)
        return [dict(zip(LABELS, map(float, row), strict=True)) for row in mean_NC]

    def summary(self, split, scores):
        return summary(f"{split} accuracy", scores, self.units)


class Overlap(nn.Module):
    """The mean vectors of both sentences and their difference, a hidden layer -> logits [B, 2]."""

    hidden_size: int = 16

    @nn.compact
    def __call__(self, batch, *, train: bool):
        vectors_VD = self.get_variable("frozen", "embedding")["vectors"]

        def mean(tokens_BT, length_B):
            return masked_mean(vectors_VD[tokens_BT], length_mask(length_B, tokens_BT.shape[1]))

        premise_BD = mean(batch.premise, batch.premise_length)
        hypothesis_BD = mean(batch.hypothesis, batch.hypothesis_length)
        both = jnp.concatenate(
            [premise_BD, hypothesis_BD, jnp.abs(premise_BD - hypothesis_BD)], axis=-1
        )
        return nn.Dense(len(LABELS))(nn.relu(nn.Dense(self.hidden_size)(both)))


# -- the task


class Similar:
    name, corpora, units = "similar", "pairs of sentences", "pairs"
    models = ("similar:Overlap",)
    form = Form(
        (("first",), ("second",)), "a pair of sentences"
    )  # names of columns, and of fields in JSON

    def base(self, model):
        """A config with all fields and their defaults."""
        train = {"batch_size": 16, "epochs": 20, "learning_rate": 1e-2, "weight_decay": 0.0}
        return defaults.own(
            "similar:TASK", model, vectors={"dim": 16}, model={"hidden_size": 16}, train=train
        )

    def accepts(self, name, module):
        return name in self.models

    def rules(self, config):
        if config.data.dir is None:
            yield "data.dir", "is missing", "give the folder of train.tsv, dev.tsv and test.tsv"

    def corpus(self, config):
        return SimilarCorpus(Path(config.data.dir), config.vectors.dim, config.vectors.seed)

    def scorer(self, config):
        return SimilarScorer()


TASK = Similar()
