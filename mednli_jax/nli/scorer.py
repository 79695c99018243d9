"""The scorer of natural language inference: from rows to batches, from logits to scores.

Dimension letters: S seeds, N rows of a split, C classes, Q premise groups of a batch, G rows of a
group, B = Q G, P and H tokens of premises and hypotheses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.special import log_softmax, softmax

from mednli_jax.data import batching
from mednli_jax.data.arrays import LEAST_ROWS, NEW, SIDES, Prepared, Rows
from mednli_jax.data.corpus import Corpus
from mednli_jax.data.examples import LABELS, NLIExample
from mednli_jax.data.text import TOKENISERS
from mednli_jax.errors import ConfigError
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.table import traits
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.encode.texts import Vocabulary
from mednli_jax.report import metrics
from mednli_jax.rundir import Scores
from mednli_jax.terminal import warn
from mednli_jax.training.scorer import Scorer, summary
from mednli_jax.training.scorer import frozen as frozen_vectors
from mednli_jax.types import JsonObject

ROW_FIELDS = ("link_premise", "link_hypothesis", "link_distance", "link_relation", "expert")
PREDICT_ROWS = 256
PREDICT_PIECES = 64
PREDICT_GROUP = 3  # hypotheses of a premise in MedNLI, SNLI and MultiNLI


class SideTokens(NamedTuple):
    """Word numbers of a split's premises [N, P] and hypotheses [N, H]."""

    premise: np.ndarray
    hypothesis: np.ndarray


@dataclass(frozen=True)
class NLIScorer:
    """Classification of premise-hypothesis pairs (see training.scorer.Scorer).

    Args:
      pieces: whether rows hold word pieces.
      padded_length: tokens to which each side is padded for models that do not mask padding
        (`masking="paper"`), so that all batches have one width; 0 for other models.
      scored: the labels that rows may have, in the order of their numbers.
      classes: the numbers (places in `scored`) of the labels that have a logit, in the order of the
        logits, ascending: (0, 1) if the model knows only the first two labels of `scored`. None:
        the model has a logit for every label of `scored`. The field is set if the model is
        scored on another corpus, which may have labels that the model was not trained on.
    """

    pieces: bool = False
    padded_length: int = 0
    name: str = "nli"
    sides: tuple[str, str] = SIDES
    row_noun: str = "pairs"
    scored: tuple[str, ...] = LABELS
    classes: tuple[int, ...] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the logits."""
        if self.classes is None:
            return self.scored
        return tuple(self.scored[number] for number in self.classes)

    def with_rows(self, prepared: Prepared, corpus: Corpus) -> Prepared:
        """The prepared corpus, with label numbers of `scored` in place of those of the corpus's own
        labels."""
        names = cast(NLICorpus, corpus).labels.names
        if names == self.scored:
            return prepared
        # The last entry is for the number -1, of rows without a label.
        new_numbers = np.array([*map(self.scored.index, names), -1])
        splits = {}
        for name, rows in prepared.splits.items():
            splits[name] = replace(rows, label=new_numbers[rows.label])
        return replace(prepared, splits=splits)

    def on_corpus(self, other: Scorer) -> "NLIScorer":
        """This scorer for rows of another corpus, that of scorer `other`. Rows may also have labels
        for which the model has no logit; its predictions for such rows are always wrong."""
        scored = tuple(dict.fromkeys((*self.labels, *other.labels)))
        if set(self.labels).isdisjoint(other.labels):
            theirs, ours = ", ".join(other.labels), ", ".join(self.labels)
            mapped = [f"{label}:NAME" for label in other.labels]
            raise ConfigError(
                f"the corpus has the labels {theirs}, and the run {ours}",
                field="data.labels",
                fix=f"say which is which: config.data.labels={','.join(mapped)}",
            )
        outputs = len(self.labels)
        if more := ", ".join(scored[outputs:]):
            warn(f"the run has no output for {more}: it is wrong on pairs with them")
        return replace(self, scored=scored, classes=tuple(range(outputs)))

    def model_facts(self, manifest: JsonObject) -> JsonObject:
        """The arguments of models.table.Entry.build that depend on the corpus."""
        knowledge = manifest["knowledge"]
        facts = {
            "longest_path": knowledge["longest_path"],
            "relations": len(knowledge.get("relations", ())),
        }
        if len(self.labels) != len(LABELS):
            facts["num_classes"] = len(self.labels)
        if self.padded_length:
            facts["padded_length"] = self.padded_length
        if pieces := manifest.get("pieces"):
            facts |= {
                "vocab_size": pieces["size"],
                "room": pieces["room"],
                "cls_id": pieces["cls"],
                "sep_id": pieces["sep"],
                "separators": pieces["separators"],
                "second_type": pieces["second_type"],
            }
        return facts

    def device_arrays(self, prepared: Prepared) -> dict[str, np.ndarray]:
        """The arrays that stay on the device, with the rows of all splits."""
        return {name: np.asarray(array) for name, array in prepared.arrays.items()}

    def frozen(self, vectors: np.ndarray) -> dict[str, dict[str, jax.Array]]:
        return {} if self.pieces else frozen_vectors(vectors)

    # -- batches --

    def batches(
        self,
        prepared: Prepared,
        name: str,
        training: batching.TrainingBatches,
        *,
        shares: int,
        model: nn.Module,
    ) -> batching.Batches:
        """The batches of a split.

        Outside of training, up to PREDICT_GROUP rows of one premise are a group, and the premise is
        encoded once for the group. Word pieces have no groups. Held-out splits with equally many
        buckets share the shapes of batches (share_layouts), so that one compiled program serves
        them.

        shares: devices that a batch is split over.
        """
        if name == "train":
            settings = self.batch_settings(prepared, training.size, shares, model)
            size = min(training.group_size, training.size)
            settings = settings.for_training(training)
            return self._batches(prepared, name, settings, group_size=size, model=model)
        if name == NEW:
            return self._prediction_batches(prepared, NEW, training, shares, model)
        held_out = [split for split in prepared.splits if split != "train"]
        batches_of = {
            split: self._prediction_batches(prepared, split, training, shares, model)
            for split in held_out
        }
        batching.share_layouts(batches_of)
        return batches_of[name]

    def _prediction_batches(
        self,
        prepared: Prepared,
        split: str,
        training: batching.TrainingBatches,
        shares: int,
        model: nn.Module,
    ) -> batching.Batches:
        """The batches of a split outside of training."""
        many_widths = self.pieces or split == NEW
        size, group_size = (PREDICT_PIECES, 1) if self.pieces else (PREDICT_ROWS, PREDICT_GROUP)
        if split == NEW and len(prepared.splits[NEW]) <= LEAST_ROWS:
            # Without groups, the shape of a small batch does not depend on how many premises are
            # equal. With groups it would, and each new shape compiles a new program.
            group_size = 1
        settings = replace(
            self.batch_settings(prepared, size, shares, model),
            max_buckets=batching.MAX_BUCKETS if many_widths else 1,
            passes=training.epochs * len(training.seeds),
            shapes=batching.Shapes.ROUNDED if split == NEW else batching.Shapes.FITTED,
            joined=self.pieces,
        )
        return self._batches(prepared, split, settings, group_size=group_size, model=model)

    def _batches(
        self,
        prepared: Prepared,
        split: str,
        settings: batching.BatchSettings,
        *,
        group_size: int,
        model: nn.Module,
    ) -> batching.Batches:
        """The batches of a split. group_size: hypotheses of a premise that stay together."""
        rows, tokens = prepared.splits[split], tokens_of(prepared, split)
        return batching.Batches(
            *rows.length,
            replace(settings, first=rows.first),
            groups=batching.premise_groups(tokens.premise, group_size) if group_size > 1 else None,
            tokens=self.shared_tokens(tokens, model),
        )

    def batch_settings(
        self, prepared: Prepared, size: float, shares: int, model: nn.Module
    ) -> batching.BatchSettings:
        """The settings that all splits share. size: rows of a batch."""
        premise, hypothesis = (prepared.arrays[side].shape[1] for side in SIDES)
        return batching.BatchSettings(
            size,
            width=(premise, hypothesis),
            shares=shares,
            least_rows=batching.least_rows_on(traits(model).platform),
            sees_padding=bool(self.padded_length) and not self.pieces,
        )

    def shared_tokens(
        self, tokens: tuple[np.ndarray, np.ndarray], model: nn.Module
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The tokens of both sides, for a model that projects each distinct word of a batch once;
        None for other models."""
        return tokens if not self.pieces and traits(model).shares_words else None

    def to_batch(
        self, data: Mapping[str, jax.Array], index: jax.Array, layout: batching.Layout
    ) -> PairBatch:
        """The PairBatch of rows `index` [Q, G]; the G hypotheses of a group share its premise."""
        # Any row of a group has its premise. The greatest index is a row, not the padding -1.
        row_Q, index_B = index.max(axis=1), index.reshape(-1)
        row_B = jnp.maximum(index_B, 0)
        fields = {
            "mask": (index_B >= 0).astype(jnp.float32),
            "label": jnp.maximum(data["label"][row_B], 0),
        }
        for side, rows, width in zip(SIDES, (row_Q, index_B), layout.width, strict=True):
            row = jnp.maximum(rows, 0)
            # Whole rows first, then the width: a TPU gathers whole rows at once, but parts of rows
            # one by one.
            fields[side] = data[side][row][:, :width]
            length = data[f"{side}_length"][row]
            fields[f"{side}_length"] = jnp.where(rows >= 0, length, 0)
        for name in ROW_FIELDS:
            if name in data:
                fields[name] = data[name][row_B]
        return PairBatch(**fields, layout=layout)

    # -- new pairs --

    def new_examples(
        self, inputs: Sequence[tuple[str, str]], manifest: JsonObject
    ) -> list[NLIExample]:
        tokenise = cache(TOKENISERS[manifest["tokeniser"]])
        examples = []
        for number, (premise, hypothesis) in enumerate(inputs):
            tokens = tokenise(premise), tokenise(hypothesis)
            examples.append(NLIExample(str(number), premise, hypothesis, "", *tokens))
        return examples

    def describe(self, rows: Rows, logits: np.ndarray) -> list[JsonObject]:
        """The most probable class of each pair, and mean probabilities of the seeds: {"label":
        "entailment", "entailment": .7, "neutral": ..., "contradiction": ...}."""
        described: list[JsonObject] = []
        for mean_C in probabilities(self.whole(logits)).mean(axis=0):
            share_of = dict(zip(self.scored, mean_C.tolist(), strict=True))
            described.append({"label": self.scored[mean_C.argmax()], **share_of})
        return described

    def attention_map(
        self,
        corpus: NLICorpus,
        vocabulary: Vocabulary,
        example: NLIExample,
        lengths: tuple[int, int],
        sown: Mapping[str, Sequence[tuple[np.ndarray, np.ndarray]]],
    ) -> JsonObject:
        """The tokens of both sides and the attention maps of an example: {"premise", "hypothesis",
        "maps": {name: {"premise": [S, P, H], "hypothesis": [S, H, P]}}}.

        The names are "tokens" (ESIM's soft alignment) and "links" (attention by the ontology only).

        Args:
          lengths: tokens of the premise and of the hypothesis, without padding.
          sown: what flax's `sow` collected from a batch of this example alone: name -> the calls,
            each ([S, 1, P, H] of the premise over the hypothesis, [S, 1, H, P] in reverse).
        """
        p, h = lengths
        texts = corpus.texts(vocabulary, corpus.linker)
        maps = {}
        for name, calls in sown.items():
            premise_SBPH, hypothesis_SBHP = calls[0]
            premise, hypothesis = premise_SBPH[:, 0, :p, :h], hypothesis_SBHP[:, 0, :h, :p]
            maps[name] = {"premise": premise, "hypothesis": hypothesis}
        return {
            "premise": texts.tokens(example, "premise")[:p],
            "hypothesis": texts.tokens(example, "hypothesis")[:h],
            "maps": maps,
        }

    # -- losses and scores --

    def loss(self, logits: jax.Array, batch: PairBatch) -> jax.Array:
        """Cross-entropy [B] in JAX, for training, of the product with the expert if there is one.
        `losses` computes it in NumPy, without an expert, for dev and test."""
        label_B = self._logit_places(logits, batch)
        if batch.expert is not None:
            logits = logits + batch.expert
        loss_B: jax.Array = optax.softmax_cross_entropy_with_integer_labels(logits, label_B)
        return loss_B

    def correct(self, logits: jax.Array, batch: PairBatch) -> jax.Array:
        return (jnp.argmax(logits, axis=-1) == self._logit_places(logits, batch)).astype(
            jnp.float32
        )

    def _lack_labels(self, logits: jax.Array | np.ndarray) -> bool:
        """Whether logits [..., C] cover only `labels`, and `scored` has further ones."""
        return bool(logits.shape[-1] == len(self.labels) < len(self.scored))

    def _logit_places(self, logits: jax.Array, batch: PairBatch) -> jax.Array:
        """The place of each row's label among the logits [B].

        batch.label holds places in `scored`. If the logits cover only `labels` (a run on another
        corpus), each is mapped to a place in `labels`. The label of every row must have a logit,
        else its place is wrong.
        """
        if logits.shape[-1] not in (len(self.labels), len(self.scored)):
            wanted = f"{len(self.labels)} classes, not {logits.shape[-1]}"
            problem = f"the model has to return logits of {wanted}"
            raise ConfigError(problem, field="model.name", fix="correct its module")
        label_B = jnp.asarray(batch.label)
        if self._lack_labels(logits):
            return jnp.searchsorted(jnp.array(self.classes), label_B)  # classes ascend
        return label_B

    def whole(self, logits: np.ndarray) -> np.ndarray:
        """Extends logits to all labels of `scored`, [..., C]; minus infinity for a label without a
        logit."""
        logits = np.asarray(logits)
        if not self._lack_labels(logits):
            return logits
        whole = np.full((*logits.shape[:-1], len(self.scored)), -np.inf, logits.dtype)
        whole[..., self.classes] = logits
        return whole

    def losses(self, rows: Rows, logits: np.ndarray) -> np.ndarray:
        """Mean loss of each seed [S] over a split, from logits [S, N, C], in float64."""
        logp_SNC = log_softmax(np.asarray(self.whole(logits), np.float64), axis=-1)
        logp_SN = np.take_along_axis(logp_SNC, rows.label[None, :, None], axis=-1)[..., 0]
        return np.asarray(-logp_SN.mean(axis=1))

    def score(self, rows: Rows, logits: np.ndarray) -> Scores:
        """Scores logits [S, N, C]: accuracy and scores of each class, in total and for each tag of
        the rows ("slices").

        There is no loss if the rows have a class for which the model has no logit.
        """
        logits = self.whole(logits)
        predicted_SN = logits.argmax(axis=-1)
        scores = _scores(rows.label, predicted_SN, self.scored)
        # Another system's answers are labels, without probabilities: one logit is finite.
        has_probabilities = not (np.isfinite(logits).sum(axis=-1) == 1).all()
        if has_probabilities and _has_logit(logits)[rows.label].all():
            scores["loss"] = metrics.mean_sd(self.losses(rows, logits).tolist())
        for tag in sorted({tag for tags in rows.tags for tag in tags}):
            inside_N = np.array([tag in tags for tags in rows.tags])
            of_slice = _scores(rows.label[inside_N], predicted_SN[:, inside_N], self.scored)
            scores.setdefault("slices", {})[tag] = of_slice
        if rows.original is not None and (rows.original >= 0).any():
            scores |= _scores_of_changes(rows.label, rows.original, predicted_SN)
            control_N = rows.original < 0
            of_control = _scores(rows.label[control_N], predicted_SN[:, control_N], self.scored)
            scores.setdefault("slices", {})["control"] = of_control
        if self.scored != LABELS:
            scores["labels"] = list(self.scored)
        return scores

    def predictions(self, rows: Rows, logits: np.ndarray) -> list[JsonObject]:
        """One JSON row per pair: uid, gold label, each seed's prediction and class
        probabilities."""
        p_NSC = np.swapaxes(probabilities(self.whole(logits)), 0, 1)
        predictions = []
        for uid, label, p_SC in zip(rows.uids, rows.label, p_NSC, strict=True):
            row = {
                "uid": uid,
                "label": self.scored[label] if label >= 0 else "",
                "predicted": [self.scored[place] for place in p_SC.argmax(axis=-1)],
                "probabilities": np.round(p_SC, 6).tolist(),
            }
            predictions.append(row)
        return predictions

    def summary(self, split: str, scores: Scores) -> str:
        return summary(f"{split} accuracy", scores, self.row_noun)


def _scores(label_N: np.ndarray, predicted_SN: np.ndarray, labels: Sequence[str]) -> Scores:
    """The scores of a split or a slice. confusion and per_class count all seeds together."""
    gold, predicted = np.tile(label_N, len(predicted_SN)), predicted_SN.reshape(-1)
    accuracies = [metrics.accuracy(label_N, predicted_N) for predicted_N in predicted_SN]
    f1s = [metrics.macro_f1(label_N, predicted_N) for predicted_N in predicted_SN]
    return {
        "examples": len(label_N),
        "accuracy": metrics.mean_sd(accuracies),
        "macro_f1": metrics.mean_sd(f1s),
        "confusion": metrics.confusion(gold, predicted, len(labels)).tolist(),
        "per_class": metrics.per_class(gold, predicted, labels),
    }


def _scores_of_changes(
    label_N: np.ndarray, original_N: np.ndarray, predicted_SN: np.ndarray
) -> Scores:
    """The scores of changed statements of NLI4CT (Jullien et al. 2024).

    Consistency: the share of changes that keep the label whose prediction is that of the original.
    Faithfulness: the share of changes of the label whose prediction is not the original's label.
    Without changes of a kind its score is left out. original_N: see Rows.
    """
    changed_K = np.flatnonzero(original_N >= 0)
    original_K = original_N[changed_K]
    alters_K = label_N[changed_K] != label_N[original_K]
    same_SK = predicted_SN[:, changed_K] == predicted_SN[:, original_K]
    faithful_SK = predicted_SN[:, changed_K] != label_N[original_K]
    scores: Scores = {}
    if not alters_K.all():
        scores["consistency"] = metrics.mean_sd(same_SK[:, ~alters_K].mean(axis=1).tolist())
    if alters_K.any():
        scores["faithfulness"] = metrics.mean_sd(faithful_SK[:, alters_K].mean(axis=1).tolist())
    return scores


def _has_logit(logits: np.ndarray) -> np.ndarray:
    """bool [C], whether a model has a logit for each label: one that is not minus infinity in all
    rows.

    If a logit of one of these labels is not finite (NaN or infinite), the model diverged. Then
    every label counts as having a logit. logits: [S, N, C].
    """
    has_logit_C = ~np.isneginf(logits).all(axis=(0, 1))
    has_diverged = not np.isfinite(logits[..., has_logit_C]).all()
    return np.asarray(has_logit_C | has_diverged)


def tokens_of(prepared: Prepared, split: str) -> SideTokens:
    place = prepared.splits[split].place
    return SideTokens(prepared.arrays["premise"][place], prepared.arrays["hypothesis"][place])


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax over the classes in float64."""
    return np.asarray(softmax(np.asarray(logits, np.float64), axis=-1))
