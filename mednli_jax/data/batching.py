"""Assigns rows to batches and gives each batch a static shape. The plan of an epoch is a pure
function.

Batches are stratified by length: the rows of a length bucket are sorted by length into as many
strata as a batch has rows, and each batch draws one row of every stratum. The batches of a bucket
then have nearly the same lengths, and one compiled program with packed segments serves them (see
docs/architecture.md). With one bucket every batch is a fair sample of the corpus; with two, the
default of training, half of the work is in batches of short premises.

Rows that share a premise can stay together as a premise group, so that the premise is encoded once
for all its hypotheses. A row number of -1 is padding.

Dimension letters: N rows, M groups, U groups and B batches of a bucket, Q groups of a batch, G rows
of a group, S seeds, D shares of a batch (one for each device), T steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from mednli_jax.data.arrays import FEW, LEAST, power_of_two

MAX_BUCKETS = 4
FEW_GROUPS = 8  # of a batch of few new rows
Segments = tuple[tuple[int, int], ...]  # (steps, sentences) of packed segments, sentences falling
# The time that one more segment takes, whatever it computes, as a share of the time of the whole
# loop.
SEGMENT_COST = 0.006
# Compiling the loop of one more segment takes 2.8 CPU seconds (ESIM on the demo). In that time the
# model trains on this many tokens.
COMPILE_TOKENS = 30_000
# Share of the sentences alive that is added to each step, for plans that were not examined.
MARGIN = 0.02
# A GPU computes up to this many sentences in about the time of one.
GPU_LEAST_ROWS = 256
EXAMINED_GROUPS = 400_000  # at most this many premise groups are examined to fit segments


@dataclass(frozen=True)
class TrainingBatches:
    """The settings of training batches (see BatchPlan). size: rows of a batch over all devices.
    group_size: most rows of one premise or passage that stay together."""

    size: int
    group_size: int = 1
    max_buckets: int = 1
    seeds: tuple[int, ...] = (0,)
    epochs: int = 0
    shuffle: str = "even"


class Shapes(Enum):
    """How the layouts of a split's batches are chosen.

    FITTED: widths and segments are those that the split's batches need.
    ROUNDED: widths and numbers of groups are rounded up, so that other rows reuse the programs.
    FULL: every sentence is computed to the width of the plan, so that one program serves all rows.
    """

    FITTED = "fitted"
    ROUNDED = "rounded"
    FULL = "full"


@dataclass(frozen=True)
class Layout:
    """The static shape of a batch, on one device.

    groups: number of premises. group_size: hypotheses of each.
    width: padded tokens of (premise, hypothesis).
    sentences: segments of the Q premises and Q G hypotheses, sorted by length.
    pairs: segments of Q G premises and Q G hypotheses, for layers after the alignment.
    Both are of premises alone where the sides do not share a loop (`BatchPlan.joint`).
    words: most distinct words in the batch; 0 if words are not shared.
    """

    groups: int
    group_size: int
    width: tuple[int, int]
    sentences: Segments
    pairs: Segments
    words: int = 0

    @property
    def rows(self) -> int:
        return self.groups * self.group_size

    @classmethod
    def full(
        cls, groups: int, width: tuple[int, int], group_size: int = 1, joint: bool = True
    ) -> "Layout":
        """The layout that holds any rows of these lengths: every sentence is computed to the
        end."""
        premise_width, hypothesis_width = width
        rows = groups * group_size
        if joint:
            steps = max(premise_width, hypothesis_width, 1)
            return cls(groups, group_size, width, ((steps, groups + rows),), ((steps, 2 * rows),))
        steps = max(premise_width, 1)
        return cls(groups, group_size, width, ((steps, groups),), ((steps, rows),))


class PlannedBatch(NamedTuple):
    """A batch of a plan. rows: int32 [S, Q, G] of `epoch`, [Q, G] of `once`."""

    layout: Layout
    rows: np.ndarray


def least_rows_on(platform: str) -> int:
    """The number of sentences below which a step gets no faster, on a platform."""
    return GPU_LEAST_ROWS if platform == "gpu" else 1


def pack_segments(alive_T: np.ndarray, least_rows: int = 1, uses: int = 0) -> Segments:
    """The segments that cover the sentences alive at each step (falling) with the least area and
    few loops: a shortest path over cut points.

    least_rows: number of sentences below which a step gets no faster. uses: number of batches that
    a run computes with these segments, 0 = many. Few do not justify compiling many loops.
    """
    alive_T = np.trim_zeros(np.asarray(alive_T, np.int64), "b")
    if not len(alive_T):
        alive_T = np.ones(1, np.int64)
    alive_T = np.maximum(alive_T, min(least_rows, alive_T[0]))
    steps = len(alive_T)
    compile_cost = COMPILE_TOKENS / uses if uses else 0
    segment_cost = max(SEGMENT_COST * alive_T.sum(), compile_cost, 1)
    least_cost = np.zeros(steps + 1)  # of the segments from a step on
    next_cut = np.zeros(steps + 1, np.int64)  # the end of the segment that begins at a step
    for start in reversed(range(steps)):
        area = alive_T[start] * np.arange(1, steps - start + 1)  # by the segment's length
        costs = area + segment_cost + least_cost[start + 1 :]
        next_cut[start] = start + 1 + int(costs.argmin())
        least_cost[start] = costs.min()
    segments, start = [], 0
    while start < steps:
        end = int(next_cut[start])
        segments.append((end - start, int(alive_T[start])))
        start = end
    return tuple(segments)


def premise_groups(premises: np.ndarray, most: int) -> np.ndarray:
    """int32 [M, G], the premise groups: rows with equal premises [N, T], at most `most` each.

    Groups stand in the order of their first rows; -1 is an empty place.
    """
    _, owner = np.unique(premises, axis=0, return_inverse=True)
    owner = owner.ravel()
    order = np.argsort(owner, kind="stable")
    is_last_of_group = owner[order][1:] != owner[order][:-1]
    groups = []
    for rows in np.split(order, np.flatnonzero(is_last_of_group) + 1):
        groups += [rows[start : start + most] for start in range(0, len(rows), most)]
    groups.sort(key=lambda group: group[0])
    groups_MG = np.full((len(groups), max(map(len, groups), default=1)), -1, np.int32)
    for row, group in zip(groups_MG, groups, strict=True):
        row[: len(group)] = group
    return groups_MG


@dataclass(frozen=True)
class BatchPlan:
    """The settings by which the rows of a split are put into batches.

    Args:
      batch_size: rows per batch over all devices, on average; at least one group a device.
      width: padded tokens of the two sides, at least the longest.
      shares: devices that a batch is split over.
      max_buckets: 1 to 4 length buckets of groups, each with segments of its own.
      first: number of the split's first row, added to each row number.
      seeds, epochs: those that the run will plan; the segments are fitted to some of these plans.
      passes: how many times a run computes the split, over all seeds; 0 = epochs times seeds, for
        training.
      shapes: how the layouts are chosen.
      sees_padding: whether the model sees it, so that every batch is padded to `width`.
      joint: one loop goes over premises and hypotheses; False: over long premises (passages) alone.
      shuffle: "even": every batch has groups of all lengths, drawn at random among groups of
        similar length; "random": all groups of a bucket are drawn at random; "binned": likewise,
        with a bucket for the premises of each power of two (lengths 33 to 64, 65 to 128, ...),
        whatever `max_buckets` says.
      least_rows: of the segments, see `pack_segments`.
    """

    batch_size: float
    width: tuple[int, int]
    shares: int = 1
    max_buckets: int = 1
    first: int = 0
    seeds: tuple[int, ...] = (0,)
    epochs: int = 0
    passes: int = 0
    shapes: Shapes = Shapes.FITTED
    sees_padding: bool = False
    joint: bool = True
    shuffle: str = "even"
    least_rows: int = 1

    def for_training(self, training: "TrainingBatches") -> "BatchPlan":
        """The plan with the settings of a training."""
        return replace(
            self,
            max_buckets=training.max_buckets,
            seeds=training.seeds,
            epochs=training.epochs,
            shuffle=training.shuffle,
        )

    @property
    def all_passes(self) -> int:
        return self.passes or self.epochs * len(self.seeds)


class Bucket(NamedTuple):
    """Premise groups of similar lengths. groups: int [U], indices into `Batches.groups`. per_batch:
    groups of a batch. batches: their number."""

    groups: np.ndarray
    per_batch: int
    batches: int


class Draw(NamedTuple):
    """Determines the random numbers of a plan."""

    seed: int
    epoch: int


@dataclass(frozen=True)
class Need:
    """The room that batches need. sentences, pairs: int64 [T], most sentences alive at each step
    (see Layout). words: most distinct words of a batch, 0 if words are not shared."""

    sentences: np.ndarray
    pairs: np.ndarray
    words: int

    def joined(self, need: "Need") -> "Need":
        return Need(
            np.maximum(self.sentences, need.sentences),
            np.maximum(self.pairs, need.pairs),
            max(self.words, need.words),
        )

    def with_margin(self) -> "Need":
        words = int(self.words * (1 + MARGIN)) + 1 if self.words else 0
        return Need(_with_margin(self.sentences), _with_margin(self.pairs), words)


def _with_margin(alive_T: np.ndarray) -> np.ndarray:
    more_T = alive_T + 1 + (MARGIN * alive_T).astype(int)
    return np.where(alive_T > 0, np.minimum(more_T, alive_T[0]), 0)


class Batches:
    """The batches of one split.

    Args:
      premise_length, hypothesis_length: [N] token counts.
      groups: [M, G] rows of each premise group; None = every row is a group.
      tokens: ([N, P], [N, H]) word numbers, to bound the distinct words of a batch; None = words
        are not shared.
    """

    def __init__(
        self,
        premise_length: np.ndarray,
        hypothesis_length: np.ndarray,
        plan: BatchPlan,
        *,
        groups: np.ndarray | None = None,
        tokens: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.plan, self.tokens = plan, tokens
        self.length = (
            np.asarray(premise_length, np.int64),
            np.asarray(hypothesis_length, np.int64),
        )
        self.rows = len(self.length[0])
        if groups is None:
            groups = np.arange(self.rows)[:, None]
        self.groups = np.asarray(groups, np.int32)
        self.group_size = self.groups.shape[1]
        self.premise_length_M = np.zeros(len(self.groups), np.int64)
        if self.rows:
            self.premise_length_M = self.length[0][self.groups.max(axis=1)]
        self.hypothesis_length_MG = np.where(self.groups >= 0, self.length[1][self.groups], 0)
        self._most_words = 1 + max((int(side.max(initial=0)) for side in tokens or ()), default=0)
        self.buckets = self.cut_into_buckets()
        self.full_layouts = list(map(self._full_layout, self.buckets))
        self.layouts = list(self.full_layouts)
        if plan.shapes is Shapes.FITTED:
            draws = self.examined_draws() if plan.epochs else []
            for number, bucket in enumerate(self.buckets):
                need = self.need(number, draws)
                self.layouts[number] = self.fit_layout(
                    number, need, bucket.batches * plan.all_passes
                )

    # -- buckets and layouts

    @property
    def _are_few(self) -> bool:
        """Whether these are new rows in so small a number that two programs for each width do: of
        one group, and of FEW_GROUPS."""
        return self.plan.shapes is Shapes.ROUNDED and self.rows <= FEW

    def cut_into_buckets(self) -> list[Bucket]:
        """The length buckets: equal shares of the premises' steps."""
        plan = self.plan
        # Some groups are not full.
        per_batch = max(1, round(plan.batch_size * len(self.groups) / max(self.rows, 1)))
        if plan.shuffle == "binned":
            cuts = self._cut_by_powers_of_two()
        else:
            # Few groups do not justify a program for each bucket.
            count = max(1, min(plan.max_buckets, len(self.groups) // (2 * per_batch)))
            cuts = self.cut_by_work(np.arange(len(self.groups)), count)
        buckets = []
        for groups in cuts:
            size = self._groups_of_a_batch(len(groups), per_batch)
            buckets.append(Bucket(groups, size, -(-len(groups) // max(size, 1))))
        return buckets

    def _groups_of_a_batch(self, groups: int, most: int) -> int:
        """The number of groups in each batch of a bucket."""
        match self.plan.shapes:
            case Shapes.FITTED:  # all batches have the same number, for any number of devices
                return -(-groups // max(-(-groups // most), 1))
            case Shapes.FULL:
                return most
        if self._are_few:
            return 1 if groups == 1 else FEW_GROUPS
        return power_of_two(min(most, groups), FEW_GROUPS)

    def by_length(self, groups: np.ndarray) -> np.ndarray:
        """The groups sorted by the length of their premises, then of their hypotheses."""
        hypotheses = self.hypothesis_length_MG[groups].sum(axis=1)
        return groups[np.lexsort((hypotheses, self.premise_length_M[groups]))]

    def cut_by_work(self, groups: np.ndarray, count: int) -> list[np.ndarray]:
        """The groups sorted by length, as `count` parts with about equally many steps."""
        groups = self.by_length(groups)
        if not len(groups):
            return [groups]
        work = np.cumsum(self.premise_length_M[groups] + 1)
        return np.split(groups, np.searchsorted(work, work[-1] * np.arange(1, count) / count))

    def _cut_by_powers_of_two(self) -> list[np.ndarray]:
        groups = self.by_length(np.arange(len(self.groups)))
        longest_but_one = np.maximum(self.premise_length_M[groups], 1) - 1
        _, exponents = np.frexp(longest_but_one)  # 2^(exponent - 1) < length <= 2^exponent
        return np.split(groups, np.flatnonzero(np.diff(exponents)) + 1)

    def _full_layout(self, bucket: Bucket) -> Layout:
        """The layout that holds any `per_batch` groups of a bucket."""
        groups = -(-bucket.per_batch // self.plan.shares)
        return Layout.full(groups, self._width(bucket), self.group_size, self.plan.joint)

    def _width(self, bucket: Bucket) -> tuple[int, int]:
        """The padded tokens of both sides for a bucket."""
        plan = self.plan
        if plan.sees_padding or plan.shapes is Shapes.FULL:
            return plan.width
        if self._are_few:
            premise, hypothesis = plan.width
            return power_of_two(premise, LEAST), power_of_two(hypothesis, LEAST)
        premises = self.premise_length_M[bucket.groups]
        return self._width_for(premises), self._width_for(self.hypothesis_length_MG[bucket.groups])

    def _width_for(self, lengths: np.ndarray) -> int:
        longest = max(int(lengths.max(initial=0)), 1)
        if self.plan.shapes is Shapes.FITTED:
            return longest
        multiple = max(LEAST, power_of_two(longest) // 4)
        return -(-longest // multiple) * multiple

    def fit_layout(self, number: int, need: Need, uses: int) -> Layout:
        """The layout of a bucket with the room that its batches need; uses: see `pack_segments`."""
        return replace(
            self.full_layouts[number],
            sentences=pack_segments(need.sentences, self.plan.least_rows, uses),
            pairs=pack_segments(need.pairs, self.plan.least_rows, uses),
            words=-(-need.words // 32) * 32,
        )

    def examined_draws(self) -> list[Draw]:
        """The plans that the segments are fitted to."""
        epochs = range(1, min(self.plan.epochs, 8) + 1)
        return [Draw(seed, epoch) for epoch in epochs for seed in self.plan.seeds[:6]]

    def need(self, number: int, draws: Sequence[Draw] = ()) -> Need:
        """The room that the batches of a bucket need; draws: none for batches without
        randomness."""
        steps = max(*self.plan.width, 1)
        need = Need(np.zeros(steps, np.int64), np.zeros(steps, np.int64), 0)
        if not draws:
            return need.joined(self._need_of(self.deal(number, None)))
        most = max(2, EXAMINED_GROUPS // max(len(self.buckets[number].groups), 1))
        for draw in draws[:most]:
            need = need.joined(self._need_of(self.deal(number, draw)))
        return need.with_margin()  # other plans may need a little more room

    def _need_of(self, rows_BQG: np.ndarray) -> Need:
        rows_DQG = self._device_shares(rows_BQG)
        words = 0
        if self.tokens:
            words = max(map(self._distinct_words, rows_DQG), default=0)
        return Need(
            self._alive(rows_DQG, paired=False).max(axis=0, initial=0),
            self._alive(rows_DQG, paired=True).max(axis=0, initial=0),
            words,
        )

    def _device_shares(self, rows: np.ndarray) -> np.ndarray:
        """[..., Q, G] -> [D, Q / shares, G]: the devices' shares of a batch are contiguous."""
        groups, group_size = rows.shape[-2] // self.plan.shares, rows.shape[-1]
        return rows.reshape(rows.size // max(groups * group_size, 1), groups, group_size)

    def _alive(self, rows_DQG: np.ndarray, *, paired: bool) -> np.ndarray:
        """int64 [D, T]: sentences alive at each step. paired: each row has a premise of its own."""
        steps = max(*self.plan.width, 1)
        owners = rows_DQG if paired else rows_DQG.max(axis=2)
        sides = [np.where(owners >= 0, self.length[0][owners], 0)]
        if self.plan.joint:
            sides.append(np.where(rows_DQG >= 0, self.length[1][rows_DQG], 0))
        of_length = np.zeros((len(rows_DQG), steps + 1), np.int64)  # number of sentences
        for lengths in sides:
            share = np.repeat(np.arange(len(rows_DQG)), lengths[:1].size)
            np.add.at(of_length, (share, lengths.ravel()), 1)
        longer: np.ndarray = of_length.sum(axis=1, keepdims=True) - of_length.cumsum(axis=1)
        return longer[:, :steps]

    def _distinct_words(self, rows_QG: np.ndarray) -> int:
        """Number of distinct words in the rows of a batch, padding included."""
        rows = rows_QG[rows_QG >= 0]
        occurs = np.zeros(self._most_words, bool)
        occurs[0] = True
        for side, length in zip(self.tokens or (), self.length, strict=True):
            is_token = np.arange(side.shape[1]) < length[rows, None]
            occurs[side[rows][is_token]] = True
        return int(np.count_nonzero(occurs))

    def _fits(self, rows: np.ndarray, layout: Layout) -> np.ndarray:
        """bool [B]: whether each batch [B, (S,) Q, G], for all its seeds, has room in a layout."""
        if not len(rows):
            return np.ones(0, bool)
        rows_DQG = self._device_shares(rows)
        fits_D = np.ones(len(rows_DQG), bool)
        for paired, segments in ((False, layout.sentences), (True, layout.pairs)):
            alive_DT = self._alive(rows_DQG, paired=paired)
            steps, sentences = np.array(segments).T
            room = np.repeat(sentences, steps)
            room_T = np.pad(room, (0, alive_DT.shape[1] - len(room)))
            fits_D &= np.all(alive_DT <= room_T, axis=1)
        if layout.words:
            words = list(map(self._distinct_words, rows_DQG))
            fits_D &= np.array(words, int) <= layout.words
        fits_B: np.ndarray = np.all(fits_D.reshape(len(rows), -1), axis=1)
        return fits_B

    # -- plans

    def deal(self, number: int, draw: Draw | None, bucket: Bucket | None = None) -> np.ndarray:
        """int32 [B, Q, G], rows within the split: a group of every stratum in each batch.

        draw: None deals in the order of length. bucket: None = that of the number.
        """
        if bucket is None:
            bucket = self.buckets[number]
        groups, per_batch, batches = bucket
        rng = None
        if draw is not None:
            rng = np.random.default_rng([int(draw.seed), int(draw.epoch), number])
        strata = np.full((per_batch, batches), -1, np.int64)
        strata.reshape(-1)[: len(groups)] = self._order(bucket, rng)
        if rng is not None:
            for stratum in strata:
                # The last stratum may be incomplete: its gaps are spread at random, too.
                rng.shuffle(stratum)
        # Each device gets every shares-th stratum.
        shares = self.plan.shares
        padded = np.pad(strata.T, ((0, 0), (0, -per_batch % shares)), constant_values=-1)
        by_device = padded.reshape(batches, padded.shape[1] // shares, shares).swapaxes(1, 2)
        place_BQ = by_device.reshape(padded.shape)
        rows = np.where(place_BQ[..., None] >= 0, self.groups[groups[place_BQ]], -1)
        return rows.astype(np.int32)

    def _order(self, bucket: Bucket, rng: np.random.Generator | None) -> np.ndarray:
        """int [U], the order in which the groups of a bucket are cut into strata."""
        if rng is None:
            return self._sorted_in_blocks(bucket, np.arange(len(bucket.groups)))
        order = rng.permutation(len(bucket.groups))
        if self.plan.shuffle == "even":
            order = self._sorted_in_blocks(bucket, order)
        # Strata begin at a random place, so that any two neighbours can be in one batch.
        return np.roll(order, rng.integers(bucket.batches) if bucket.batches else 0)

    def _sorted_in_blocks(self, bucket: Bucket, tie: np.ndarray) -> np.ndarray:
        """int [U], the groups of a bucket sorted by premise in blocks, and by hypothesis within a
        block: rising in one block, falling in the next. So the lengths of both sides are spread
        evenly over the strata.

        tie: int [U], decides among groups of equal lengths.
        """
        premise = self.premise_length_M[bucket.groups]
        hypothesis = self.hypothesis_length_MG[bucket.groups].sum(axis=1)
        order = np.lexsort((tie, premise))
        block_size = bucket.batches * max(1, round(bucket.per_batch**0.5 / 2))
        block = np.arange(len(order)) // max(block_size, 1)
        rising_or_falling = np.where(block % 2 == 0, hypothesis[order], -hypothesis[order])
        return order[np.lexsort((tie[order], rising_or_falling, block))]

    @property
    def sizes(self) -> list[int]:
        """Rows of a batch over all devices, on average, of each bucket; equal ones once."""
        sizes = set()
        for bucket in self.buckets:
            if bucket.batches:
                rows = (self.groups[bucket.groups] >= 0).sum()
                sizes.add(round(rows / bucket.batches))
        return sorted(sizes)

    @property
    def steps(self) -> int:
        """Number of batches of an epoch, the same for all epochs and seeds."""
        return sum(bucket.batches for bucket in self.buckets)

    def epoch(self, epoch: int, seeds: Sequence[int] | np.ndarray) -> list[PlannedBatch]:
        """The batches of one epoch, rows [S, Q, G].

        The sequence of buckets depends on the epoch alone, so that all seeds share one program; the
        rows within depend on (seed, epoch). A batch that does not fit for one of the seeds takes
        the full layout, which changes no result. Each row occurs once per seed.
        """
        batches = []
        for number in range(len(self.buckets)):
            dealt = [self.deal(number, Draw(seed, epoch)) for seed in seeds]
            batches += self._planned(number, np.stack(dealt, axis=1))
        order = np.random.default_rng([epoch]).permutation(len(batches))
        return [batches[place] for place in order]

    def once(self) -> list[PlannedBatch]:
        """Every row once, in an order without randomness; rows [Q, G]."""
        batches = []
        for number in range(len(self.buckets)):
            batches += self._planned(number, self.deal(number, None))
        return batches

    def _planned(self, number: int, dealt: np.ndarray) -> list[PlannedBatch]:
        """The batches [B, (S,) Q, G] of a bucket. A batch that the fitted layout cannot hold gets
        the full one."""
        fitted, full = self.layouts[number], self.full_layouts[number]
        fits = np.ones(len(dealt), bool)
        if fitted is not full:
            fits = self._fits(dealt, fitted)
        rows = np.where(dealt >= 0, dealt + self.plan.first, -1).astype(np.int32)
        layouts = [fitted if fit else full for fit in fits]
        return list(map(PlannedBatch, layouts, rows))


def share_layouts(splits: dict[str, Batches]) -> dict[str, Batches]:
    """The splits with shared layouts that have room for each of them, so that one program serves
    all.

    Splits with other numbers of buckets, or other group sizes, keep their own.
    """
    every = list(splits.values())
    if len({(len(split.buckets), split.group_size) for split in every}) == 1:
        for number in range(len(every[0].buckets)):
            _share_layout(every, number)
    return splits


def _share_layout(splits: Sequence[Batches], number: int) -> None:
    """Gives a bucket of each split the same layout."""
    per_batch = max(split.buckets[number].per_batch for split in splits)
    widths = [split.full_layouts[number].width for split in splits]
    premise_width, hypothesis_width = np.max(widths, axis=0).tolist()
    for split in splits:
        groups, plan = split.buckets[number].groups, split.plan
        split.buckets[number] = Bucket(groups, per_batch, -(-len(groups) // max(per_batch, 1)))
        width = (premise_width, hypothesis_width)
        share = -(-per_batch // plan.shares)
        split.full_layouts[number] = Layout.full(share, width, split.group_size, plan.joint)
    need = splits[0].need(number)
    for split in splits[1:]:
        need = need.joined(split.need(number))
    uses = sum(split.buckets[number].batches * split.plan.all_passes for split in splits)
    for split in splits:
        split.layouts[number] = split.fit_layout(number, need, uses)
