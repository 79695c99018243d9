"""Natural language inference: from rows to batches, from logits to scores."""

from dataclasses import dataclass, replace
from functools import cache

import jax.numpy as jnp
import numpy as np
import optax
from scipy.special import log_softmax, softmax

from mednli_jax.data import batching
from mednli_jax.data.arrays import NEW, SIDES, Prepared, Rows
from mednli_jax.data.examples import LABELS, NLIExample
from mednli_jax.data.text import TOKENISERS
from mednli_jax.errors import ConfigError
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.table import traits
from mednli_jax.report import metrics
from mednli_jax.training.task import frozen, summary

LINK_FIELDS = ("link_premise", "link_hypothesis", "link_distance", "link_relation")
PREDICT_ROWS = 256
PREDICT_PIECES = 64
PREDICT_GROUP = 3  # hypotheses of a premise in MedNLI, SNLI and MultiNLI


@dataclass(frozen=True)
class NLITask:
    """Three-way classification of premise-hypothesis pairs (see training.task.Scorer).

    padded_length: tokens to which each side is padded for models that do not mask padding
    (`masking="paper"`), so that all batches have one width; 0 for other models. classes: indices
    into LABELS of the classes of the training pairs. A model has one logit for each. The corpus
    that is scored may have other classes.
    """

    pieces: bool = False  # whether rows hold word pieces
    padded_length: int = 0
    name: str = "nli"
    sides: tuple[str, str] = SIDES
    units: str = "pairs"
    classes: tuple[int, ...] = tuple(range(len(LABELS)))

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(LABELS[number] for number in self.classes)

    def with_rows(self, prepared: Prepared, corpus) -> Prepared:
        return prepared

    def model_facts(self, manifest: dict) -> dict:
        """Arguments of models.table.Entry.build."""
        knowledge = manifest["knowledge"]
        facts = {
            "longest_path": knowledge["longest_path"],
            "relations": len(knowledge.get("relations", ())),
        }
        if len(self.classes) < len(LABELS):
            facts["num_classes"] = len(self.classes)
        if self.padded_length:
            facts["padded_length"] = self.padded_length
        if pieces := manifest.get("pieces"):
            facts |= {"vocab_size": pieces["size"], "room": pieces["room"]}
            facts |= {"cls_id": pieces["cls"], "sep_id": pieces["sep"]}
            facts["separators"] = pieces.get("separators", 1)
        return facts

    def resident(self, prepared: Prepared) -> dict[str, np.ndarray]:
        """The arrays on the device: all splits, one array per field."""
        return {name: np.asarray(array) for name, array in prepared.arrays.items()}

    def frozen(self, vectors: np.ndarray) -> dict:
        return {} if self.pieces else frozen(vectors)

    def batches(
        self,
        prepared: Prepared,
        name: str,
        training: batching.TrainingBatches,
        *,
        shares: int,
        model,
    ):
        """A split's batches. On dev and test every premise is encoded once, and one program
        predicts all splits."""

        if name == "train":
            group = min(training.group, training.size)
            rows, tokens = prepared.splits[name], tokens_of(prepared, name)
            plan = replace(
                self.plan(prepared, training.size, shares, model),
                first=rows.first,
                seeds=training.seeds,
                epochs=training.epochs,
                max_buckets=training.max_buckets,
                shuffle=training.shuffle,
            )
            groups = batching.groups_of(tokens[0], group) if group > 1 else None
            return batching.Batches(
                *rows.length, plan, groups=groups, tokens=self.shared(tokens, model)
            )

        def predicted(split: str) -> batching.Batches:
            return self._predicted(prepared, split, training, shares, model)

        if name == NEW:
            return predicted(NEW)
        others = [split for split in prepared.splits if split != "train"]
        return batching.sharing({split: predicted(split) for split in others})[name]

    def _predicted(self, prepared, split, training, shares, model) -> batching.Batches:
        """The batches of a split that is only predicted."""
        rows, tokens = prepared.splits[split], tokens_of(prepared, split)
        many_widths = self.pieces or split == NEW
        size = PREDICT_PIECES if self.pieces else PREDICT_ROWS
        plan = replace(
            self.plan(prepared, size, shares, model),
            first=rows.first,
            max_buckets=batching.MAX_BUCKETS if many_widths else 1,
            passes=training.epochs * len(training.seeds),
            coarse=split == NEW,
        )
        groups = None if self.pieces else batching.groups_of(tokens[0], PREDICT_GROUP)
        return batching.Batches(
            *rows.length, plan, groups=groups, tokens=self.shared(tokens, model)
        )

    def plan(self, prepared: Prepared, size: float, shares: int, model) -> batching.BatchPlan:
        """What the plans of all splits share. size: rows of a batch."""
        return batching.BatchPlan(
            size,
            width=tuple(prepared.arrays[side].shape[1] for side in SIDES),
            shares=shares,
            least_rows=batching.least_rows_on(traits(model).platform),
            fixed=bool(self.padded_length) and not self.pieces,
        )

    def shared(self, tokens, model):
        """The tokens of both sides, if the model projects each distinct word of a batch once; else
        None."""
        return tokens if not self.pieces and traits(model).shares_words else None

    def new_examples(self, inputs, manifest: dict) -> list[NLIExample]:
        tokenise = cache(TOKENISERS[manifest["tokeniser"]])
        return [
            NLIExample(str(i), *pair, "", *map(tokenise, pair)) for i, pair in enumerate(inputs)
        ]

    def described(self, rows: Rows, logits: np.ndarray) -> list[dict]:
        """{"entailment": .7, "neutral": ..., "contradiction": ...} for each pair: mean
        probabilities of the seeds."""
        logits = self.whole(logits)
        mean_NC = probabilities(logits).mean(axis=0)
        return [dict(zip(LABELS, map(float, row), strict=True)) for row in mean_NC]

    def looked_at(
        self, corpus, vocabulary, example: NLIExample, lengths: tuple[int, int], sown: dict
    ) -> dict:
        """The tokens of both sides and "maps": {name: {"premise": [S, P, H], "hypothesis": [S, H,
        P]}}.

        The names are "tokens" (ESIM's soft alignment) and "links" (attention by the ontology only).
        """
        p, h = lengths
        maps = {
            name: (both[0][0][:, 0, :p, :h], both[0][1][:, 0, :h, :p])
            for name, both in sown.items()
        }
        texts = corpus.texts(vocabulary, corpus.linker)
        tokens = {
            side: texts.tokens(example, side)[:length]
            for side, length in zip(SIDES, lengths, strict=True)
        }
        return {
            **tokens,
            "maps": {name: dict(zip(SIDES, both, strict=True)) for name, both in maps.items()},
        }

    def to_batch(self, data, index, layout):
        """The PairBatch of rows `index` [Q, G]; the G hypotheses of a unit share its premise."""
        units, index = index.max(axis=1), index.reshape(-1)
        row, real = jnp.maximum(index, 0), index >= 0
        fields = {"mask": real.astype(jnp.float32), "label": jnp.maximum(data["label"][row], 0)}
        for side, of_side, width in zip(SIDES, (units, index), layout.width, strict=True):
            # Whole rows first, then the width: a TPU gathers whole rows at once, but parts of rows
            # one by one.
            fields[side] = data[side][jnp.maximum(of_side, 0)][:, :width]
            fields[f"{side}_length"] = jnp.where(
                of_side >= 0, data[f"{side}_length"][jnp.maximum(of_side, 0)], 0
            )
        for name in LINK_FIELDS:
            if name in data:
                fields[name] = data[name][row]
        return PairBatch(**fields, layout=layout)

    def loss(self, logits, batch):
        """Cross-entropy in JAX, for training. `losses` is the same in NumPy, for dev and test."""
        return optax.softmax_cross_entropy_with_integer_labels(logits, self._label(logits, batch))

    def correct(self, logits, batch):
        return (jnp.argmax(logits, axis=-1) == self._label(logits, batch)).astype(jnp.float32)

    def _lacks_classes(self, logits):
        """Whether logits [..., C] are those of some classes alone."""
        return logits.shape[-1] == len(self.classes) < len(LABELS)

    def _label(self, logits, batch):
        """The labels [B] as places among the logits."""
        label = batch.label
        if logits.shape[-1] not in (len(self.classes), len(LABELS)):
            wanted = f"{len(self.classes)} classes, not {logits.shape[-1]}"
            problem = f"the model has to return logits of {wanted}"
            raise ConfigError(problem, field="model.name", fix="correct its module")
        return (
            jnp.searchsorted(jnp.array(self.classes), label)
            if self._lacks_classes(logits)
            else label
        )

    def whole(self, logits):
        """Logits [..., C] of all LABELS; minus infinity for a class that the model lacks."""
        logits = np.asarray(logits)
        if not self._lacks_classes(logits):
            return logits
        whole = np.full((*logits.shape[:-1], len(LABELS)), -np.inf, logits.dtype)
        whole[..., self.classes] = logits
        return whole

    def losses(self, rows: Rows, logits: np.ndarray) -> np.ndarray:
        """Mean loss of each seed [S] over a split, from logits [S, N, C], in float64."""
        logp = log_softmax(np.asarray(self.whole(logits), np.float64), axis=-1)
        return -np.take_along_axis(logp, rows.label[None, :, None], axis=-1)[..., 0].mean(axis=1)

    def score(self, rows: Rows, logits: np.ndarray) -> dict:
        """Accuracy and per-class scores of logits [S, N, C], in total and for each tag of the rows
        ("slices").

        There is no loss where the rows have a class for which the model has no logit.
        """
        logits = self.whole(logits)
        predicted = logits.argmax(axis=-1)
        scores = self._scores(rows.label, predicted)
        labels_alone = (np.isfinite(logits).sum(axis=-1) == 1).all()  # answers of another system
        lacking_C = _without_logit(logits)
        if not labels_alone and not lacking_C[rows.label].any():
            scores["loss"] = metrics.mean_sd(self.losses(rows, logits).tolist())
        if not labels_alone and np.isfinite(logits[..., ~lacking_C]).all():
            scores["calibration"] = _calibration(rows.label, probabilities(logits))
        for tag in sorted({tag for tags in rows.tags for tag in tags}):
            chosen = np.array([tag in tags for tags in rows.tags])
            scores.setdefault("slices", {})[tag] = self._scores(
                rows.label[chosen], predicted[:, chosen]
            )
        return scores

    def predictions(self, rows: Rows, logits: np.ndarray) -> list[dict]:
        """One JSON row per pair: uid, gold label, each seed's prediction and class
        probabilities."""
        return [
            {
                "uid": uid,
                "label": LABELS[label] if label >= 0 else "",
                "predicted": [LABELS[i] for i in p_SC.argmax(axis=-1)],
                "probabilities": np.round(p_SC, 6).tolist(),
            }
            for uid, label, p_SC in zip(
                rows.uids,
                rows.label,
                np.swapaxes(probabilities(self.whole(logits)), 0, 1),
                strict=True,
            )
        ]

    def _scores(self, label, predicted):
        """Scores of predictions [S, N]; confusion and per_class are of all seeds together."""
        gold, flat = np.tile(label, len(predicted)), predicted.reshape(-1)
        return {
            "examples": len(label),
            "accuracy": metrics.mean_sd([metrics.accuracy(label, row) for row in predicted]),
            "macro_f1": metrics.mean_sd([metrics.macro_f1(label, row) for row in predicted]),
            "confusion": metrics.confusion(gold, flat).tolist(),
            "per_class": metrics.per_class(gold, flat),
        }

    def summary(self, split: str, scores: dict) -> str:
        return summary(f"{split} accuracy", scores, self.units)


def _without_logit(logits: np.ndarray) -> np.ndarray:
    """bool [C], the classes that a model lacks; none if it diverged. logits: [S, N, C]."""
    lacking_C = np.isneginf(logits).all(axis=(0, 1))
    return lacking_C & np.isfinite(logits[..., ~lacking_C]).all()


def tokens_of(prepared: Prepared, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Word numbers of both sides of a split's rows, [N, P] and [N, H]."""
    rows = prepared.splits[split]
    place = slice(rows.first, rows.first + len(rows))
    return prepared.arrays["premise"][place], prepared.arrays["hypothesis"][place]


def probabilities(logits) -> np.ndarray:
    """Softmax over the classes in float64."""
    return softmax(np.asarray(logits, np.float64), axis=-1)


def _calibration(label, p_SNC):
    """Expected calibration error of each seed, and the bins of the reliability diagram over all
    seeds."""
    seeds, _, classes = p_SNC.shape
    return {
        "ece": metrics.mean_sd([metrics.expected_calibration_error(p_NC, label) for p_NC in p_SNC]),
        "bins": metrics.reliability(p_SNC.reshape(-1, classes), np.tile(label, seeds)),
    }
