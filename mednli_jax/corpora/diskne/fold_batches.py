"""Batches of many folds over one set of rows: each slot of a program trains on the rows of its own fold.

A slot is a fold and a seed. The training loop identifies a slot by one number, in place of a seed; everything random
in a slot depends on that number alone. The folds of a group have the same number of batches, of the same static shapes,
whichever of them are trained together. The batches of a slot do not depend on the other slots.
Dimension letters: N rows of the corpus, F folds, Q units of a batch, G rows of a unit, S slots.
"""

from collections.abc import Sequence

import numpy as np

from mednli_jax.corpora.batching import Batches

MOST_FOLDS = 1 << 12
MOST_SEED = (1 << 32) // MOST_FOLDS - 1


def slot_code(fold: int, seed: int) -> int:
    """The number of a slot, under 2^32; fold: place among all folds of the corpus."""
    if not (0 <= fold < MOST_FOLDS and 0 <= seed <= MOST_SEED):
        raise ValueError("no such slot")
    return seed * MOST_FOLDS + fold


def of_code(code: int) -> tuple[int, int]:
    """(fold, seed) of a slot's number."""
    return int(code) % MOST_FOLDS, int(code) // MOST_FOLDS


class FoldBatches(Batches):
    """The training batches of a group of folds.

    `epoch(epoch, codes)` gives (layout, rows [S, Q, G]) as that of Batches, each slot with the rows of its fold; a fold
    with fewer rows than the largest has padding (-1) spread over its batches. Further arguments are those of Batches.

    Args:
      premise_length, hypothesis_length: [N] token counts of the whole corpus.
      member: [F, N] bool, whether a row is trained on in a fold; F: all folds of the corpus.
      group: the folds that go together, those that give all slots their number of batches.
      groups: [M, G] rows of each unit, None = every row is its own unit. Of a unit a fold takes the rows it trains on.
      seeds: of the runs.
    """

    def __init__(self, premise_length, hypothesis_length, *, member, group: Sequence[int], groups=None, seeds, **how):
        self.member, self.of_group = np.asarray(member, bool), tuple(group)
        if groups is None:
            groups = np.flatnonzero(self.member[list(group)].any(axis=0)).astype(np.int32)[:, None]
        codes = [slot_code(fold, seed) for seed in seeds for fold in self.of_group]
        super().__init__(premise_length, hypothesis_length, groups=groups, seeds=codes, **how)

    def _buckets(self, batch_size, most, coarse):
        """Each fold is cut into buckets of equal work; they have as many batches, and room, as the largest needs."""
        held = self.member[:, self.units] & (self.units >= 0)  # [F, M, G]
        rows = {fold: int(held[fold].sum()) for fold in self.of_group}
        largest = max(self.of_group, key=rows.__getitem__)
        units = int(held[largest].any(axis=1).sum())
        per_batch = max(1, round(batch_size * units / max(rows[largest], 1)))
        most = max(1, min(most, units // (2 * per_batch)))
        cut = {fold: self._cut(np.flatnonzero(held[fold].any(axis=1)), most) for fold in self.of_group}
        buckets = []
        self._of_fold = {fold: [] for fold in self.of_group}
        for bucket in range(most):
            parts = {fold: cut[fold][bucket] for fold in self.of_group}
            longest = max(map(len, parts.values()))
            batches = max(1, min(-(-longest // per_batch), *map(len, parts.values())))  # none is without a row
            even = -(-longest // batches)
            for fold, part in parts.items():
                self._of_fold[fold].append((part, even, batches))
            buckets.append((np.unique(np.concatenate(list(parts.values()))), even, batches))
        return buckets

    def _cut(self, units, most):
        """The units in the order of their length, as `most` parts of about equal work."""
        order = np.lexsort((self.hypothesis_of_unit[units].sum(axis=1), self.premise_of_unit[units]))
        work = np.cumsum(self.premise_of_unit[units][order] + 1)
        return np.split(units[order], np.searchsorted(work, work[-1] * np.arange(1, most) / most))

    def _looks(self, seeds, epochs):
        """Slot after slot, each in another epoch: folds differ more than the epochs of one do."""
        return [
            (code, 1 + (turn + place) % epochs) for turn in range(min(epochs, 4)) for place, code in enumerate(seeds)
        ]

    def _deal(self, bucket, look):
        fold = of_code(look[0])[0]
        rows = super()._deal(bucket, look, self._of_fold[fold][bucket])
        return np.where((rows >= 0) & self.member[fold][rows], rows, -1).astype(np.int32)

    @property
    def sizes(self) -> list[int]:
        """Rows of a batch over all devices, on average, of each bucket of the largest fold; equal ones once."""
        counts = [[int(self.member[fold][self.units[part]].sum()) / batches for part, _, batches in parts]
                  for fold, parts in self._of_fold.items()]  # fmt: skip
        return sorted({round(count) for count in np.max(counts, axis=0)})
