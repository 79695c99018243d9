"""DisKnE: sentence pairs in folds by disease. Each slot, a fold and a seed, trains on the rows of
its own fold.

In all splits, row numbers refer to the arrays of the whole corpus.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from flax import linen as nn

from mednli_jax.data import batching
from mednli_jax.data.arrays import SIDES, Prepared, Rows
from mednli_jax.diskne.corpus import ALL, FIELDS, PARTS
from mednli_jax.diskne.data import POSITIVE
from mednli_jax.diskne.folds import FoldBatches, of_code
from mednli_jax.nli import task as nli
from mednli_jax.report import metrics

PREDICT_GROUP = 11  # hypotheses of a premise: its own disease and ten others


@dataclass(frozen=True)
class PartRows:
    """The rows of one part (train, dev, test) of several folds.

    label: [N], of all examples. member: bool [F, N], whether an example is in this part of a fold.
    longest: rows of the largest of these folds.
    """

    label: np.ndarray
    member: np.ndarray
    longest: int

    def __len__(self) -> int:
        return self.longest


@dataclass(frozen=True)
class DisKnETask(nli.NLITask):
    """Whether a premise entails a disease, in the classes of NLI (see training.task.Scorer).

    The name of a split is a group of folds and a part, such as "medical/train".
    """

    name: str = "diskne"

    def resident(self, prepared: Prepared) -> dict[str, np.ndarray]:
        """The arrays on the device: all examples, one array per field."""
        arrays = prepared.arrays.items()
        return {name: np.asarray(array) for name, array in arrays if name not in FIELDS}

    def batches(
        self,
        prepared: Prepared,
        name: str,
        training: batching.TrainingBatches,
        *,
        shares: int,
        model: nn.Module,
    ) -> batching.Batches:
        """Batches of a group of folds: of train, each slot has the rows of its fold; of dev and
        test, all rows of this part in any fold of the group, once for all slots."""
        group, _, part = name.partition("/")
        member, folds = self.members(prepared, part), folds_of_group(prepared, group)
        is_in_any: np.ndarray = np.any(member[folds], axis=0)
        if part != "train":
            return self.prediction(prepared, is_in_any, shares=shares, model=model)
        together = min(training.group, training.size)
        plan = replace(
            self.plan(prepared, training.size, shares, model),
            max_buckets=training.max_buckets,
            seeds=training.seeds,
            epochs=training.epochs,
            shuffle=training.shuffle,
        )
        return FoldBatches(
            *_sides(prepared, "_length"),
            plan,
            member=member,
            group=folds,
            groups=_units(prepared, is_in_any, together) if together > 1 else None,
            tokens=self.shared(_sides(prepared), model),
        )

    def prediction(
        self,
        prepared: Prepared,
        is_predicted: np.ndarray,
        *,
        shares: int,
        model: nn.Module,
        coarse: bool = False,
    ) -> batching.Batches:
        """Batches with each of some rows (bool [N]) once. coarse: in shapes that other sets of rows
        share."""
        size = nli.PREDICT_PIECES if self.pieces else nli.PREDICT_ROWS
        if coarse:
            size = min(size, 64)
        # A plan is of all rows.
        size_of_all = size * len(is_predicted) / max(int(is_predicted.sum()), 1)
        plan = replace(
            self.plan(prepared, size_of_all, shares, model),
            max_buckets=batching.MAX_BUCKETS if self.pieces and not coarse else 1,
            coarse=coarse,
        )
        together = 1 if coarse or self.pieces else PREDICT_GROUP
        return batching.Batches(
            *_sides(prepared, "_length"),
            plan,
            groups=_units(prepared, is_predicted, together),
            tokens=None if coarse else self.shared(_sides(prepared), model),
        )

    def members(self, prepared: Prepared, part: str) -> np.ndarray:
        """bool [F, N], whether an example is in this part of a fold."""
        part_FN = np.asarray(prepared.arrays["fold"])
        return np.asarray(part_FN == PARTS.index(part))

    def rows(self, prepared: Prepared, name: str) -> PartRows:
        """The rows of a split for the training loop."""
        group, _, part = name.partition("/")
        member = self.members(prepared, part)
        longest = int(member[folds_of_group(prepared, group)].sum(axis=1).max())
        return PartRows(prepared.splits[ALL].label, member, longest)

    def slot_scores(
        self, rows: PartRows, logits: np.ndarray, codes: Sequence[int]
    ) -> dict[str, dict[str, list[float]]]:
        """Loss, accuracy and F1 of the positive class of each slot, on the rows of its fold.
        logits: [S, N, C]."""
        losses, accuracies, f1 = [], [], []
        no_length = np.zeros(0, np.int32)
        for code, logits_NC in zip(codes, logits, strict=True):
            of_fold = rows.member[of_code(code).fold]
            logits_NC, label = logits_NC[of_fold], rows.label[of_fold]
            predicted = logits_NC.argmax(axis=-1)
            fold_rows = Rows("", 0, label, (no_length, no_length), (), ())
            losses.append(float(self.losses(fold_rows, logits_NC[None])[0]))
            accuracies.append(metrics.accuracy(label, predicted))
            f1.append(metrics.per_class(label, predicted)[POSITIVE]["f1"])
        return {
            "loss": {"per_seed": losses},
            "accuracy": {"per_seed": accuracies},
            "f1": {"per_seed": f1},
        }


def folds_of_group(prepared: Prepared, group: str) -> list[int]:
    """The places of the folds of a group."""
    folds = prepared.manifest["diskne"]["folds"]
    return [place for place, fold in enumerate(folds) if fold["group"] == group]


def _sides(prepared: Prepared, ending: str = "") -> tuple[np.ndarray, np.ndarray]:
    """The arrays of premises and hypotheses: their tokens, or with "_length" their lengths."""
    premise, hypothesis = (np.asarray(prepared.arrays[f"{side}{ending}"]) for side in SIDES)
    return premise, hypothesis


def _units(prepared: Prepared, is_wanted: np.ndarray, most: int) -> np.ndarray:
    """int32 [M, G], numbers of the wanted rows (bool [N]), grouped by premise, at most `most` in a
    group; -1 = padding."""
    rows = np.flatnonzero(is_wanted)
    if most == 1:
        return rows.astype(np.int32)[:, None]
    units = batching.groups_of(np.asarray(prepared.arrays["premise"])[rows], most)
    return np.where(units >= 0, rows[units], -1).astype(np.int32)
