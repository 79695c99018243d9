"""Which rows stand in which batch: at most four length buckets, and a plan per epoch that is a pure function.

Everything is NumPy on row numbers; texts and devices are elsewhere. A row number of -1 is padding.
"""

import itertools
from dataclasses import dataclass

import numpy as np

GRAIN = 4  # bucket edges are multiples of this many tokens
MAX_BUCKETS = 4


@dataclass(frozen=True)
class Buckets:
    """boxes: (premise tokens, hypothesis tokens) of each bucket; the last one fits every row."""

    boxes: tuple[tuple[int, int], ...]

    def assign(self, premise_length: np.ndarray, hypothesis_length: np.ndarray) -> np.ndarray:
        """[N] int: for each row the cheapest bucket that holds it (fewest padded tokens; the first of equals)."""
        cost = np.stack(
            [
                np.where((premise_length <= p) & (hypothesis_length <= h), p + h, np.iinfo(np.int64).max)
                for p, h in self.boxes
            ]
        )
        if (cost.min(axis=0) == np.iinfo(np.int64).max).any():
            raise ValueError("a row is longer than the largest bucket")
        return cost.argmin(axis=0)


def choose_buckets(
    premise_length: np.ndarray, hypothesis_length: np.ndarray, *, batch_size: int, limit: tuple[int, int], most: int
) -> Buckets:
    """The at most `most` boxes that cost the fewest padded tokens per epoch, unfilled last batches counted.

    Args:
      premise_length, hypothesis_length: [N] token counts of the training rows.
      batch_size: rows per batch. A bucket's last batch is half empty on average, so small corpora get fewer buckets.
      limit: the longest (premise, hypothesis) over all splits; the largest box.
      most: 1 to 4.
    """
    grid = [-(-np.asarray(x) // GRAIN) for x in (premise_length, hypothesis_length)]
    top = tuple(-(-x // GRAIN) for x in limit)
    counts = np.zeros((top[0] + 1, top[1] + 1), np.int64)
    np.add.at(counts, tuple(grid), 1)
    rows = counts[counts > 0]
    cells = np.argwhere(counts > 0)
    candidates = [(p, h) for p in sorted(set(cells[:, 0])) for h in sorted(set(cells[:, 1])) if (p, h) != top]
    candidates = _thin(candidates, 48)
    size = np.array([p + h for p, h in candidates] + [sum(top)], np.int64)
    fits = np.array([(cells[:, 0] <= p) & (cells[:, 1] <= h) for p, h in [*candidates, top]])
    cost = np.where(fits, size[:, None], np.iinfo(np.int32).max)  # [candidates + 1, cells]
    best = (np.inf, (len(candidates),))
    for extra in range(min(most, MAX_BUCKETS)):
        for chosen in itertools.combinations(range(len(candidates)), extra):
            chosen = (*chosen, len(candidates))
            total = (cost[chosen, :].min(axis=0) * rows).sum() + size[list(chosen)].sum() * batch_size / 2
            best = min(best, (total, chosen))
    boxes = [(*candidates, top)[i] for i in best[1]]
    boxes = [(max(p, 1) * GRAIN, max(h, 1) * GRAIN) for p, h in boxes]
    return Buckets(tuple((int(p), int(h)) for p, h in sorted(boxes, key=sum)))


def _thin(candidates, most):
    """An even sample of at most `most` candidates: the search is cubic in their number."""
    if len(candidates) <= most:
        return candidates
    return [candidates[i] for i in np.unique(np.linspace(0, len(candidates) - 1, most).round().astype(int))]


def epoch_plan(bucket_of_row: np.ndarray, *, batch_size: int, epoch: int, seeds) -> list[tuple[int, np.ndarray]]:
    """The batches of one epoch as (bucket, rows [S, batch_size]).

    The sequence of buckets depends on the epoch alone, so that all seeds share one program; the rows within a bucket
    depend on (seed, epoch). Each row occurs once per seed; -1 fills a bucket's last batch.
    """
    plan = []
    for bucket in np.unique(bucket_of_row):
        rows = np.flatnonzero(bucket_of_row == bucket)
        batches = -(-len(rows) // batch_size)
        padded = np.full((len(seeds), batches * batch_size), -1, np.int32)
        for i, seed in enumerate(seeds):
            padded[i, : len(rows)] = np.random.default_rng([int(seed), epoch, int(bucket)]).permutation(rows)
        plan += [(int(bucket), padded[:, i * batch_size : (i + 1) * batch_size]) for i in range(batches)]
    order = np.random.default_rng([epoch]).permutation(len(plan))
    return [plan[i] for i in order]


def predict_plan(bucket_of_row: np.ndarray, *, batch_size: int, first: int = 0) -> list[tuple[int, np.ndarray]]:
    """Every row once, in order within its bucket: (bucket, rows [batch_size]); `first` is added to each row number."""
    plan = []
    for bucket in np.unique(bucket_of_row):
        rows = np.flatnonzero(bucket_of_row == bucket) + first
        padded = np.full(-(-len(rows) // batch_size) * batch_size, -1, np.int32)
        padded[: len(rows)] = rows
        plan += [(int(bucket), chunk) for chunk in padded.reshape(-1, batch_size)]
    return plan
