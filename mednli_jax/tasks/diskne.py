"""DisKnE: the pairs of natural language inference, divided by disease; each slot has the rows of its own fold.

A slot is a fold and a seed (data.fold_batches). Rows are numbers in the arrays of the whole corpus, in all splits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mednli_jax import metrics
from mednli_jax.corpora import batching
from mednli_jax.corpora.diskne import prepared as prepared_diskne
from mednli_jax.corpora.diskne.fold_batches import FoldBatches, of_code
from mednli_jax.corpora.diskne.prepared import PARTS
from mednli_jax.corpora.nli import encoding as encode
from mednli_jax.tasks import nli

PREDICT_GROUP = 11  # hypotheses of a premise: its own disease, and ten others


@dataclass(frozen=True)
class PartRows:
    """What one part of the folds has together. label [N] of all examples; member [F, N] bool.

    longest: rows of the largest of these folds.
    """

    label: np.ndarray
    member: np.ndarray
    longest: int

    def __len__(self) -> int:
        return self.longest


@dataclass(frozen=True)
class DisKnETask(nli.NLITask):
    """Whether a premise shows a disease, in the classes of NLI (see task.Task); splits are of a group of folds."""

    name: str = "diskne"

    def load(self, config) -> tuple[encode.Prepared, bool]:
        """The config's examples and folds as arrays, prepared if they are not yet; and whether they were there already.

        Raises: UserError, DataError(s) for a bad config or bad files; nothing half-built is kept.
        """
        return prepared_diskne.prepare(config)

    def resident(self, config, prepared: encode.Prepared) -> dict[str, np.ndarray]:
        """The arrays that live on the device: all examples, as one block per field."""
        arrays = prepared.arrays.items()
        return {name: np.asarray(array) for name, array in arrays if name not in prepared_diskne.FIELDS}

    def batches(self, config, prepared: encode.Prepared, name: str, *, shares: int, model):
        """Batches of a group of folds. name: medical/train, each slot by its fold; medical/dev, medical/test: all
        rows that are it in a fold of the group, once for all slots."""
        group, _, part = name.partition("/")
        member, chosen = self.members(prepared, part), group_of(prepared, group)
        if part != "train":
            return self.prediction(config, prepared, member[chosen].any(axis=0), shares=shares, model=model)
        train = config.train
        union = np.flatnonzero(member[chosen].any(axis=0))
        together = min(train.group, train.batch_size)
        return FoldBatches(
            *_lengths(prepared),
            member=member,
            group=chosen,
            groups=_units(prepared, union, together) if together > 1 else None,
            batch_size=train.batch_size,
            most=train.max_buckets,
            seeds=tuple(config.seeds),
            epochs=train.epochs,
            **_common(config, prepared, shares, model),
        )

    def prediction(self, config, prepared, rows: np.ndarray, *, shares: int, model, coarse: bool = False):
        """Batches that have each of the rows [N] bool once; coarse: in shapes that other rows have, too."""
        common = _common(config, prepared, shares, model)
        chosen, pieces = np.flatnonzero(rows), nli.in_pieces(config)
        size = nli.PREDICT_PIECES if pieces else nli.PREDICT_ROWS
        if coarse:
            common["tokens"], size = None, min(size, 64)
        return batching.Batches(
            *_lengths(prepared),
            batch_size=size * len(rows) / max(len(chosen), 1),  # Batches counts on all rows
            groups=_units(prepared, chosen, 1 if coarse or pieces else PREDICT_GROUP),
            most=batching.MAX_BUCKETS if pieces and not coarse else 1,
            coarse=coarse,
            **common,
        )

    def members(self, prepared: encode.Prepared, part: str) -> np.ndarray:
        """[F, N] bool: whether an example is this part of a fold."""
        return np.asarray(prepared.arrays["fold"]) == PARTS.index(part)

    def rows(self, prepared: encode.Prepared, name: str) -> PartRows:
        """What the loop needs to know of a split, which is named as in `batches`."""
        group, _, part = name.partition("/")
        member = self.members(prepared, part)
        longest = int(member[group_of(prepared, group)].sum(axis=1).max())
        return PartRows(prepared.splits[prepared_diskne.ALL].label, member, longest)

    def slot_scores(self, rows: PartRows, logits: np.ndarray, codes: Sequence[int]) -> dict:
        """Loss, accuracy and F1 of the positive class, each slot on the rows of its own fold; logits [S, N, C]."""
        found = {"loss": [], "accuracy": [], "f1": []}
        for code, own_NC in zip(codes, logits, strict=True):
            mine = rows.member[of_code(code)[0]]
            label = rows.label[mine]
            part = encode.Rows("", 0, label, (), (), ())
            predicted = own_NC[mine].argmax(axis=-1)
            found["loss"].append(float(self.losses(part, own_NC[None, mine])[0]))
            found["accuracy"].append(metrics.accuracy(label, predicted))
            gold, said = (prepared_diskne.is_positive(x) for x in (label, predicted))
            found["f1"].append(2 * float((gold & said).sum()) / max(int(gold.sum() + said.sum()), 1))
        return {name: {"per_seed": values} for name, values in found.items()}


def group_of(prepared: encode.Prepared, group: str) -> list[int]:
    """The folds of a group, by their places."""
    return [place for place, fold in enumerate(prepared.manifest["diskne"]["folds"]) if fold["group"] == group]


def _lengths(prepared):
    return tuple(np.asarray(prepared.arrays[f"{side}_length"]) for side in encode.SIDES)


def _common(config, prepared, shares, model):
    common = {"width": tuple(prepared.arrays[side].shape[1] for side in encode.SIDES), "shares": shares}
    if not nli.in_pieces(config):
        tokens = tuple(np.asarray(prepared.arrays[side]) for side in encode.SIDES)
        common["tokens"] = tokens if model.shares_words else None
        common["fixed"] = config.model.masking == "paper"
    return common


def _units(prepared, rows, most):
    """[M, G] row numbers of the corpus: of these rows those with one premise together, at most `most`."""
    if most == 1:
        return rows.astype(np.int32)[:, None]
    units = batching.groups_of(np.asarray(prepared.arrays["premise"])[rows], most)
    return np.where(units >= 0, rows[units], -1).astype(np.int32)
