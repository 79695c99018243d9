"""DisKnE: sentence pairs in folds by disease. Each slot, a fold and a seed, trains on the rows of
its own fold.

In all splits, row numbers refer to the arrays of the whole corpus.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

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
        return {
            name: np.asarray(array) for name, array in prepared.arrays.items() if name not in FIELDS
        }

    def batches(
        self,
        prepared: Prepared,
        name: str,
        training: batching.TrainingBatches,
        *,
        shares: int,
        model,
    ):
        """Batches of a group of folds: of train, each slot has the rows of its fold; of dev and
        test, all rows of this part in any fold of the group, once for all slots."""
        group, _, part = name.partition("/")
        member, chosen = self.members(prepared, part), group_of(prepared, group)
        if part != "train":
            return self.prediction(prepared, member[chosen].any(axis=0), shares=shares, model=model)
        union = np.flatnonzero(member[chosen].any(axis=0))
        together = min(training.group, training.size)
        plan = replace(
            self.plan(prepared, training.size, shares, model),
            max_buckets=training.max_buckets,
            seeds=training.seeds,
            epochs=training.epochs,
            shuffle=training.shuffle,
        )
        return FoldBatches(
            *_lengths(prepared),
            plan,
            member=member,
            group=chosen,
            groups=_units(prepared, union, together) if together > 1 else None,
            tokens=self.shared(_tokens(prepared), model),
        )

    def prediction(self, prepared, rows: np.ndarray, *, shares: int, model, coarse: bool = False):
        """Batches with each of the rows (bool [N]) once. coarse: in shapes that other sets of rows
        share."""
        chosen = np.flatnonzero(rows)
        size = nli.PREDICT_PIECES if self.pieces else nli.PREDICT_ROWS
        size = min(size, 64) if coarse else size
        plan = replace(
            self.plan(prepared, size * len(rows) / max(len(chosen), 1), shares, model),
            max_buckets=batching.MAX_BUCKETS if self.pieces and not coarse else 1,
            coarse=coarse,
        )
        return batching.Batches(
            *_lengths(prepared),
            plan,
            groups=_units(prepared, chosen, 1 if coarse or self.pieces else PREDICT_GROUP),
            tokens=None if coarse else self.shared(_tokens(prepared), model),
        )

    def members(self, prepared: Prepared, part: str) -> np.ndarray:
        """bool [F, N], whether an example is in this part of a fold."""
        return np.asarray(prepared.arrays["fold"]) == PARTS.index(part)

    def rows(self, prepared: Prepared, name: str) -> PartRows:
        """The rows of a split for the training loop."""
        group, _, part = name.partition("/")
        member = self.members(prepared, part)
        longest = int(member[group_of(prepared, group)].sum(axis=1).max())
        return PartRows(prepared.splits[ALL].label, member, longest)

    def slot_scores(self, rows: PartRows, logits: np.ndarray, codes: Sequence[int]) -> dict:
        """Loss, accuracy and F1 of the positive class of each slot, on the rows of its fold.
        logits: [S, N, C]."""
        found = {"loss": [], "accuracy": [], "f1": []}
        for code, logits_NC in zip(codes, logits, strict=True):
            mine = rows.member[of_code(code)[0]]
            label = rows.label[mine]
            part = Rows("", 0, label, (), (), ())
            predicted = logits_NC[mine].argmax(axis=-1)
            found["loss"].append(float(self.losses(part, logits_NC[None, mine])[0]))
            found["accuracy"].append(metrics.accuracy(label, predicted))
            found["f1"].append(metrics.per_class(label, predicted)[POSITIVE]["f1"])
        return {name: {"per_seed": values} for name, values in found.items()}


def group_of(prepared: Prepared, group: str) -> list[int]:
    """The indices of the folds of a group."""
    return [
        place
        for place, fold in enumerate(prepared.manifest["diskne"]["folds"])
        if fold["group"] == group
    ]


def _lengths(prepared):
    return tuple(np.asarray(prepared.arrays[f"{side}_length"]) for side in SIDES)


def _tokens(prepared):
    return tuple(np.asarray(prepared.arrays[side]) for side in SIDES)


def _units(prepared, rows, most):
    """[M, G], numbers of the given rows, grouped by premise, at most `most` in a group; -1 =
    padding."""
    if most == 1:
        return rows.astype(np.int32)[:, None]
    units = batching.groups_of(np.asarray(prepared.arrays["premise"])[rows], most)
    return np.where(units >= 0, rows[units], -1).astype(np.int32)
