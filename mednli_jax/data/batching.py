"""Assigns the rows of a split to batches and gives each batch a static shape.

A plan is the list of the batches of one epoch. It depends on the settings, the seed and the epoch
alone.

Batches are stratified by length: the rows of a length bucket are sorted by length into as many
strata as a batch has rows, and each batch draws one row of every stratum. So every batch of a
bucket has nearly the same mixture of short and long rows, and one compiled program serves them all.
Its loop over time runs in segments, each over fewer sentences than the one before (see
`pack_segments` and docs/architecture.md). With one bucket every batch is a fair sample of the
corpus; with two, the default of training, half of the work is in batches of short premises.

Rows that share a premise can stay together as a premise group, so that the premise is encoded once
for all its hypotheses. Without premise groups each row is a group. A row number of -1 is padding.

A batch is split over the devices; the part of one device is a share.

Dimension letters: N rows and M groups of a split; U groups and B batches of a bucket; Q groups of a
batch; G rows of a group; S seeds; T steps (tokens of a sentence). Arrays of shares are [D, q, G]: D
shares of several batches (batches x seeds x devices), with q = Q / devices groups each.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from typing import NamedTuple

import numpy as np

from mednli_jax.data.arrays import LEAST_ROWS, LEAST_WIDTH, power_of_two

MAX_BUCKETS = 4
FEW_GROUPS = 8  # groups of a batch of few new rows (inputs of `predict`)
# From this number of new rows (inputs of `predict`) on, layouts are fitted to them: the time of
# compiling them is repaid.
MANY = 3700
BUCKETS_OF_MANY = 2  # length buckets of many new rows
USES_OF_MANY = 100  # batches that a fitted layout is expected to serve
# (steps, sentences) of each segment of a loop over time: the segment runs this number of steps over
# this number of sentences, the longest ones. The second number falls from segment to segment.
Segments = tuple[tuple[int, int], ...]
# One more segment takes this share of the time of the whole loop, whatever the segment computes.
SEGMENT_COST = 0.006
# Compiling the loop of one more segment takes 2.8 CPU seconds (ESIM on the demo). In that time the
# model trains on this many tokens.
COMPILE_TOKENS = 30_000
# Segments are fitted to the batches of some epochs and seeds, with this share of room added for the
# others. At most so many premise groups are looked at.
MARGIN = 0.02
EXAMINED_GROUPS = 400_000
# A GPU computes up to this many sentences in about the time of one.
GPU_LEAST_ROWS = 256


@dataclass(frozen=True)
class TrainingBatches:
    """The settings of training batches; those not named here are in BatchSettings.

    Args:
      size: rows of a batch over all devices.
      group_size: most rows of one premise or passage that stay together.
    """

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
    FULL: every sentence is computed to the width of the settings, so that one program serves all
      rows.
    """

    FITTED = "fitted"
    ROUNDED = "rounded"
    FULL = "full"


@dataclass(frozen=True)
class Layout:
    """The static shape of one device's share of a batch.

    Args:
      group_count: number of premise groups.
      group_size: rows (hypotheses) of a group.
      width: padded tokens of (premise, hypothesis).
      sentences: segments of the encoder's loop, which computes a premise once for its group.
      pairs: segments of the loop of layers after the alignment, which compute a premise once for
        each of its hypotheses.
      words: most distinct words in the share; 0 if words are not shared.
      row_width: most tokens of a row, both sides together; 0 = the sum of `width`.

    `sentences` and `pairs` leave out the hypotheses where the two sides do not share a loop
    (`BatchSettings.joint` is False).
    """

    group_count: int
    group_size: int
    width: tuple[int, int]
    sentences: Segments
    pairs: Segments
    words: int = 0
    row_width: int = 0

    @property
    def row_count(self) -> int:
        return self.group_count * self.group_size

    @classmethod
    def full(
        cls, group_count: int, width: tuple[int, int], group_size: int = 1, joint: bool = True
    ) -> "Layout":
        """The layout that has room for any texts of at most `width` tokens: one segment of all
        sentences and all steps. joint: see `BatchSettings`."""
        premise_width, hypothesis_width = width
        rows = group_count * group_size
        hypotheses = rows if joint else 0  # those that the loop computes
        steps = max(premise_width, hypothesis_width if joint else 0, 1)
        # A premise counts once for its group in `sentences`, and once for each row in `pairs`.
        sentences, pairs = (steps, group_count + hypotheses), (steps, rows + hypotheses)
        return cls(group_count, group_size, width, (sentences,), (pairs,))


# (bucket, group_count, group_size, width of the settings) -> (full layout, fitted layout)
FittedLayouts = dict[tuple[int, int, int, tuple[int, int]], tuple[Layout, Layout]]


class PlannedBatch(NamedTuple):
    """A batch of a plan. rows: int32 [S, Q, G] from `Batches.epoch`, [Q, G] from
    `Batches.once`."""

    layout: Layout
    rows: np.ndarray


def least_rows_on(platform: str) -> int:
    """The number of sentences below which a step of a loop gets no faster on this platform."""
    return GPU_LEAST_ROWS if platform == "gpu" else 1


def pack_segments(alive_T: np.ndarray, least_rows: int = 1, uses: int = 0) -> Segments:
    """Cuts the steps of a loop into segments, so that the cost is least: the area (steps x
    sentences) of all segments plus a fixed cost for each.

    The cuts are found by dynamic programming, from the last step backwards. The least cost from a
    step on is the cost of the segment that begins there plus the least cost from its end on; the
    end is chosen so that this sum is least.

    Args:
      alive_T: how many sentences are longer than t tokens; it never rises.
      least_rows: number of sentences below which a step gets no faster.
      uses: number of batches that a run computes with these segments, 0 = many. The fewer they are,
        the more the time to compile a segment counts.
    """
    alive_T = np.trim_zeros(np.asarray(alive_T, np.int64), "b")
    if not len(alive_T):
        alive_T = np.ones(1, np.int64)
    alive_T = np.maximum(alive_T, min(least_rows, alive_T[0]))
    steps = len(alive_T)
    compile_cost = COMPILE_TOKENS / uses if uses else 0
    segment_cost = max(SEGMENT_COST * alive_T.sum(), compile_cost, 1)
    least_cost = np.zeros(steps + 1)  # of all segments from a step on
    next_cut = np.zeros(steps + 1, np.int64)  # where the segment that begins at a step ends
    for start in reversed(range(steps)):
        area = alive_T[start] * np.arange(1, steps - start + 1)  # of a segment of 1, 2, ... steps
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
    """The premise groups int32 [M, G]: the rows whose premises [N, T] are equal, at most `most` in
    a group.

    Groups stand in the order of their first rows. -1 fills the places of a smaller group.
    """
    rows_of: dict[bytes, list[int]] = {}
    for number, premise in enumerate(np.asarray(premises)):
        rows_of.setdefault(premise.tobytes(), []).append(number)
    groups = []
    for rows in rows_of.values():
        groups += [rows[start : start + most] for start in range(0, len(rows), most)]
    groups.sort()
    groups_MG = np.full((len(groups), max(map(len, groups), default=1)), -1, np.int32)
    for row, group in zip(groups_MG, groups, strict=True):
        row[: len(group)] = group
    return groups_MG


@dataclass(frozen=True)
class BatchSettings:
    """The settings by which the rows of a split are put into batches.

    Args:
      batch_size: rows per batch over all devices, on average; at least one group a device.
      width: padded tokens of (premise, hypothesis), at least the longest.
      shares: number of devices that a batch is split over.
      max_buckets: 1 to 4 length buckets of groups, each with segments of its own.
      first: number of the split's first row, added to each row number of a plan.
      seeds, epochs: those that the run will plan; segments are fitted to some of them.
      passes: how often a run computes the split, all seeds together. 0: it is the training split,
        computed once for each epoch and seed.
      shapes: how the layouts are chosen.
      sees_padding: True: the model's results depend on the padding, so every batch is padded to
        `width`.
      joined: True: the model reads a row as one text of both sides (word pieces). Rows with similar
        sums of both lengths are batched together, and are computed whole, without segments.
      joint: True: one loop over time computes premises and hypotheses. False: the loop computes
        premises (long passages) alone.
      shuffle: "even": every batch has groups of all lengths, drawn at random among groups of
        similar length; "random": all groups of a bucket are drawn at random; "binned": likewise,
        with a bucket for the premises of each power of two (lengths 33 to 64, 65 to 128, ...),
        whatever `max_buckets` says.
      least_rows: see `pack_segments`.
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
    joined: bool = False
    joint: bool = True
    shuffle: str = "even"
    least_rows: int = 1

    def for_training(self, training: TrainingBatches) -> "BatchSettings":
        """These settings with those of a training. `size` and `group_size` are not copied: the
        caller has already made `batch_size` and the premise groups from them."""
        return replace(
            self,
            max_buckets=training.max_buckets,
            seeds=training.seeds,
            epochs=training.epochs,
            shuffle=training.shuffle,
        )

    @property
    def uses_of_batch(self) -> int:
        """How often a run computes each batch, all seeds together."""
        return self.passes or self.epochs * len(self.seeds)


class Bucket(NamedTuple):
    """Premise groups of similar lengths.

    Args:
      groups: int [U], indices into `Batches.rows_of_group`.
      per_batch: Q, the number of groups of a batch.
      batches: B, the number of batches.
    """

    groups: np.ndarray
    per_batch: int
    batches: int


class Draw(NamedTuple):
    """The seed and the epoch that a plan is drawn for."""

    seed: int
    epoch: int


@dataclass(frozen=True)
class Room:
    """The room that batches need on one device.

    Args:
      sentences, pairs: int64 [T], the most sentences of a share that are longer than t tokens.
        Sentences are counted as in `Layout.sentences` and `Layout.pairs`.
      words: most distinct words of a share; 0 if words are not shared.
    """

    sentences: np.ndarray
    pairs: np.ndarray
    words: int

    def max_with(self, other: "Room") -> "Room":
        return Room(
            np.maximum(self.sentences, other.sentences),
            np.maximum(self.pairs, other.pairs),
            max(self.words, other.words),
        )

    def for_other_rows(self, full: Layout, groups: int) -> "Room":
        """Estimates the room that other rows of the same kind need.

        full: the layout that has room for any rows. groups: number of groups that need this room.
        """
        return Room(
            _of_other_rows(self.sentences, full.sentences, groups),
            _of_other_rows(self.pairs, full.pairs, groups),
            self.words,
        ).with_margin()

    def with_margin(self) -> "Room":
        words = int(self.words * (1 + MARGIN)) + 1 if self.words else 0
        return Room(_with_margin(self.sentences), _with_margin(self.pairs), words)


def _with_margin(alive_T: np.ndarray) -> np.ndarray:
    """int64 [T], the sentences alive at each step, plus one, plus the share MARGIN of them.

    Where none are alive it stays 0. It never exceeds the number at the first step, at which all are
    alive.
    """
    more_T = alive_T + 1 + (MARGIN * alive_T).astype(int)
    return np.where(alive_T > 0, np.minimum(more_T, alive_T[0]), 0)


def _of_other_rows(alive_T: np.ndarray, full: Segments, groups: int) -> np.ndarray:
    """int64 [T], the sentences alive in full batches of other rows of the same kind.

    alive_T: those in the batches of `groups` groups. full: the one segment of the full layout.
    """
    ((steps, most),) = full
    share_T = alive_T / max(alive_T[0], 1)
    # The longest sentences of the other rows' bucket may have one token more.
    share_T = np.append(share_T[:1], share_T[:-1])[:steps]
    # Two standard deviations of the difference between two samples of `groups` groups.
    share_T += 2 * np.sqrt(2 * share_T * (1 - share_T) / max(groups, 1))
    # One sentence of a batch may be as long as the full layout.
    room_T: np.ndarray = np.ceil(most * np.clip(share_T, 1 / most, 1))
    return room_T.astype(np.int64)


def ceil_div(number: int, divisor: int) -> int:
    """number / divisor, rounded up."""
    return -(-number // divisor)


class Batches:
    """The batches of one split.

    Args:
      premise_length, hypothesis_length: [N] token counts.
      groups: [M, G] rows of each premise group, filled up by -1; None = every row is a group.
      tokens: ([N, P], [N, H]) word numbers, to bound the distinct words of a batch; None = words
        are not shared.
    """

    def __init__(
        self,
        premise_length: np.ndarray,
        hypothesis_length: np.ndarray,
        settings: BatchSettings,
        *,
        groups: np.ndarray | None = None,
        tokens: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.settings, self.tokens = settings, tokens or ()
        self.length = (
            np.asarray(premise_length, np.int64),
            np.asarray(hypothesis_length, np.int64),
        )
        self.row_count = len(self.length[0])
        if groups is None:
            groups = np.arange(self.row_count)[:, None]
        self.rows_of_group = np.asarray(groups, np.int32)
        self.group_size = self.rows_of_group.shape[1]
        # All rows of a group have the same premise, so any row will do: max() takes one that is not
        # padding (-1).
        self.length_M = self.length[0][self.rows_of_group.max(axis=1)]
        self.hypothesis_length_MG = self._lengths(self.rows_of_group, 1)
        if settings.joined:
            self.length_M = self.length_M + self.hypothesis_length_MG.max(axis=1)
        self._highest_word = max((int(side.max(initial=0)) for side in self.tokens), default=0)
        self.buckets = self.cut_into_buckets()
        self.full_layouts = [
            self._full_layout(bucket.per_batch, self._width(bucket), self._row_width(bucket))
            for bucket in self.buckets
        ]
        self.layouts = list(self.full_layouts)
        if settings.shapes is Shapes.FITTED:
            for number, bucket in enumerate(self.buckets):
                if settings.epochs:  # other draws may need a little more
                    room = self.bucket_room(number, self.examined_draws()).with_margin()
                else:
                    room = self.bucket_room(number)
                self.fit(number, room, bucket.batches * settings.uses_of_batch)

    def _lengths(self, rows: np.ndarray, side: int) -> np.ndarray:
        """The tokens of each row's premise (side 0) or hypothesis (side 1); 0 for padding. rows: of
        any shape."""
        return np.where(rows >= 0, self.length[side][rows], 0)

    # -- buckets and layouts

    @property
    def _are_few(self) -> bool:
        """True for at most LEAST_ROWS new rows. Their batches have 1 or FEW_GROUPS groups, so that
        two programs for each width are enough."""
        return self.settings.shapes is Shapes.ROUNDED and self.row_count <= LEAST_ROWS

    @property
    def _are_many(self) -> bool:
        """True for new rows in such a number that their segments are fitted to them."""
        settings = self.settings
        is_new = settings.shapes is Shapes.ROUNDED
        return is_new and not settings.joined and self.row_count >= MANY

    def reuse_layouts(self, fitted: FittedLayouts) -> None:
        """Takes the layouts that were fitted to earlier new rows; fits and adds those that are
        missing. Less than MANY new rows keep their full layouts."""
        if not self._are_many:
            return
        for number, full in enumerate(self.full_layouts):
            key = number, full.group_count, full.group_size, self.settings.width
            # Fit if there is no earlier layout, or if it is too narrow for these rows.
            if key not in fitted or not np.all(np.less_equal(full.width, fitted[key][0].width)):
                groups = len(self.buckets[number].groups)
                self.fit(
                    number, self.bucket_room(number).for_other_rows(full, groups), USES_OF_MANY
                )
                fitted[key] = full, self.layouts[number]
            # The full layout, too, is the earlier one, which may be wider.
            self.full_layouts[number], self.layouts[number] = fitted[key]

    def cut_into_buckets(self) -> list[Bucket]:
        """The length buckets. Each has about the same sum of premise lengths, or, with "binned",
        the premises of one power of two."""
        settings, group_count = self.settings, len(self.rows_of_group)
        # In groups, not rows: some groups are not full.
        per_batch = max(1, round(settings.batch_size * group_count / max(self.row_count, 1)))
        if settings.shuffle == "binned":
            groups_of_buckets = self._cut_by_powers_of_two()
        else:
            # Few groups do not justify a program for each bucket.
            most = BUCKETS_OF_MANY if self._are_many else settings.max_buckets
            count = max(1, min(most, group_count // (2 * per_batch)))
            groups_of_buckets = self.cut_by_work(np.arange(group_count), count)
        buckets = []
        for groups in groups_of_buckets:
            size = self._groups_per_batch(len(groups), per_batch)
            buckets.append(Bucket(groups, size, ceil_div(len(groups), max(size, 1))))
        return buckets

    def _groups_per_batch(self, groups: int, most: int) -> int:
        """The number of groups of each batch of a bucket. groups: of the bucket."""
        match self.settings.shapes:
            # As few batches as `most` allows, all about equally full. The number of devices does
            # not change them.
            case Shapes.FITTED:
                batches = ceil_div(groups, most)
                return ceil_div(groups, max(batches, 1))
            case Shapes.FULL:
                return most
            case Shapes.ROUNDED if self._are_few:
                return 1 if groups == 1 else FEW_GROUPS
            case Shapes.ROUNDED:
                return power_of_two(min(most, groups), FEW_GROUPS)

    def by_length(self, groups: np.ndarray) -> np.ndarray:
        """The groups sorted by `length_M`, then by the length of their hypotheses."""
        hypotheses = self.hypothesis_length_MG[groups].sum(axis=1)
        return groups[np.lexsort((hypotheses, self.length_M[groups]))]

    def cut_by_work(self, groups: np.ndarray, count: int) -> list[np.ndarray]:
        """The groups sorted by length and cut into `count` parts, whose sums of lengths are about
        equal."""
        groups = self.by_length(groups)
        if not len(groups):
            return [groups]
        work = np.cumsum(self.length_M[groups] + 1)
        return np.split(groups, np.searchsorted(work, work[-1] * np.arange(1, count) / count))

    def _cut_by_powers_of_two(self) -> list[np.ndarray]:
        """The groups sorted by length and cut where the premise length exceeds a power of two."""
        groups = self.by_length(np.arange(len(self.rows_of_group)))
        length_minus_1 = np.maximum(self.length_M[groups], 1) - 1
        _, exponents = np.frexp(length_minus_1)  # 2^(exponent - 1) < length <= 2^exponent
        return np.split(groups, np.flatnonzero(np.diff(exponents)) + 1)

    def _full_layout(self, per_batch: int, width: tuple[int, int], row_width: int) -> Layout:
        """The layout that has room for any `per_batch` groups of at most `width` tokens."""
        group_count = ceil_div(per_batch, self.settings.shares)
        full = Layout.full(group_count, width, self.group_size, self.settings.joint)
        return replace(full, row_width=row_width)

    def _width(self, bucket: Bucket) -> tuple[int, int]:
        """The padded tokens of (premise, hypothesis) of a bucket."""
        settings = self.settings
        if settings.sees_padding or settings.shapes is Shapes.FULL:
            return settings.width
        if self._are_few:
            premise, hypothesis = settings.width
            return power_of_two(premise, LEAST_WIDTH), power_of_two(hypothesis, LEAST_WIDTH)
        rows = self.rows_of_group[bucket.groups]
        return self._width_for(self._lengths(rows, 0)), self._width_for(self._lengths(rows, 1))

    def _row_width(self, bucket: Bucket) -> int:
        """The padded tokens of both sides of a row; 0 = the sum of the sides' widths."""
        if not self.settings.joined or self._are_few:
            return 0
        return self._width_for(self.length_M[bucket.groups])

    def _width_for(self, lengths: np.ndarray) -> int:
        """The longest length. With ROUNDED it is rounded up to a multiple of `unit`, so that few
        widths occur. The unit is a quarter of the power of two at or above the longest length, and
        at least LEAST_WIDTH."""
        longest = max(int(lengths.max(initial=0)), 1)
        if self.settings.shapes is Shapes.FITTED:
            return longest
        unit = max(LEAST_WIDTH, power_of_two(longest) // 4)
        return ceil_div(longest, unit) * unit

    def fit(self, number: int, room: Room, uses: int) -> None:
        """Gives a bucket the layout that has this room. uses: see `pack_segments`."""
        if self.settings.joined:
            return
        self.layouts[number] = replace(
            self.full_layouts[number],
            sentences=pack_segments(room.sentences, self.settings.least_rows, uses),
            pairs=pack_segments(room.pairs, self.settings.least_rows, uses),
            words=ceil_div(room.words, 32) * 32,
        )

    def examined_draws(self) -> list[Draw]:
        """The draws to whose plans the segments are fitted."""
        epochs = range(1, min(self.settings.epochs, 8) + 1)
        return [Draw(seed, epoch) for epoch in epochs for seed in self.settings.seeds[:6]]

    def bucket_room(self, number: int, draws: Sequence[Draw | None] = (None,)) -> Room:
        """The room that the batches of a bucket need.

        draws: those whose plans are looked at; None is the plan of `once`.
        """
        most = max(2, EXAMINED_GROUPS // max(len(self.buckets[number].groups), 1))
        dealt = (self.deal(number, draw) for draw in draws[:most])
        return reduce(Room.max_with, map(self._room_for, dealt))

    def _room_for(self, rows_BQG: np.ndarray) -> Room:
        rows_DqG = self._split_over_devices(rows_BQG)
        words = 0
        if self.tokens:
            words = max(map(self._distinct_words, rows_DqG), default=0)
        sentences_DT, pairs_DT = self._alive(rows_DqG)
        return Room(sentences_DT.max(axis=0, initial=0), pairs_DT.max(axis=0, initial=0), words)

    def _split_over_devices(self, rows: np.ndarray) -> np.ndarray:
        """[..., Q, G] -> [D, q, G], the shares of all batches one after the other. A share is a
        contiguous part of its batch."""
        *batches, groups, group_size = rows.shape
        shares = self.settings.shares
        return rows.reshape(math.prod(batches) * shares, groups // shares, group_size)

    def _alive(self, rows_DqG: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Two int64 [D, T]: how many sentences of a share are longer than t tokens. In the first a
        premise counts once for its group, in the second once for each of its hypotheses."""
        return self._longer(rows_DqG.max(axis=2), rows_DqG), self._longer(rows_DqG, rows_DqG)

    def _longer(self, premise_rows: np.ndarray, hypothesis_rows: np.ndarray) -> np.ndarray:
        """int64 [D, T]: how many sentences of a share are longer than t tokens.

        premise_rows, hypothesis_rows: [D, ...], the rows whose premise or hypothesis counts.
        """
        steps = max(*self.settings.width, 1)
        sides = [self._lengths(premise_rows, 0)]
        if self.settings.joint:
            sides.append(self._lengths(hypothesis_rows, 1))
        shares = len(premise_rows)
        histogram = np.zeros((shares, steps + 1), np.int64)  # how many sentences have each length
        for lengths in sides:
            share_of_length = np.arange(shares).repeat(math.prod(lengths.shape[1:]))
            np.add.at(histogram, (share_of_length, lengths.ravel()), 1)
        longer: np.ndarray = histogram.sum(axis=1, keepdims=True) - histogram.cumsum(axis=1)
        return longer[:, :steps]

    def _distinct_words(self, rows_qG: np.ndarray) -> int:
        """The number of distinct words in the rows of a share, the padding's word 0 included."""
        rows = rows_qG[rows_qG >= 0]
        occurs = np.zeros(self._highest_word + 1, bool)
        occurs[0] = True
        for side, length in zip(self.tokens, self.length, strict=True):
            is_token = np.arange(side.shape[1]) < length[rows, None]
            occurs[side[rows][is_token]] = True
        return int(np.count_nonzero(occurs))

    def _fits(self, rows: np.ndarray, layout: Layout) -> np.ndarray:
        """bool [B]: whether each batch [B, (S,) Q, G], for all its seeds, has room in a layout."""
        if not len(rows):
            return np.ones(0, bool)
        rows_DqG = self._split_over_devices(rows)
        fits_D = np.ones(len(rows_DqG), bool)
        both_segments = layout.sentences, layout.pairs
        for alive_DT, segments in zip(self._alive(rows_DqG), both_segments, strict=True):
            # The number of sentences that the layout computes at each step.
            steps, sentences = np.array(segments).T
            room = np.repeat(sentences, steps)
            room_T = np.pad(room, (0, alive_DT.shape[1] - len(room)))
            fits_D &= np.all(alive_DT <= room_T, axis=1)
        if layout.words:
            words = list(map(self._distinct_words, rows_DqG))
            fits_D &= np.array(words, int) <= layout.words
        # The shares of one batch stand together (see `_split_over_devices`); all have to fit.
        return np.asarray(np.all(fits_D.reshape(len(rows), -1), axis=1))

    # -- plans

    def deal(self, number: int, draw: Draw | None) -> np.ndarray:
        """The rows of the batches of a bucket, see `deal_bucket`."""
        return self.deal_bucket(self.buckets[number], number, draw)

    def deal_bucket(self, bucket: Bucket, number: int, draw: Draw | None) -> np.ndarray:
        """int32 [B, Q, G], the rows of each batch of a bucket, counted from the split's first.

        The groups are cut into Q strata of similar lengths; each batch gets a group of every
        stratum. number: of the bucket. draw: None deals without chance, in the order of length.
        """
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
        place_BQ = self._in_shares(strata.T)
        rows = np.where(place_BQ[..., None] >= 0, self.rows_of_group[groups[place_BQ]], -1)
        return rows.astype(np.int32)

    def _in_shares(self, place_BQ: np.ndarray) -> np.ndarray:
        """[B, per_batch] -> [B, Q]. Q is per_batch rounded up to a multiple of the shares; -1 fills
        the added places.

        In the result the groups of the first share come first, then those of the second, and so on.
        Share d of n has the strata d, d + n, d + 2 n, ..., so that every device gets all lengths.
        """
        shares = self.settings.shares
        fill = -place_BQ.shape[1] % shares
        padded = np.pad(place_BQ, ((0, 0), (0, fill)), constant_values=-1)
        return np.hstack([padded[:, device::shares] for device in range(shares)])

    def _order(self, bucket: Bucket, rng: np.random.Generator | None) -> np.ndarray:
        """int [U], the order in which the groups of a bucket are cut into strata."""
        if rng is None:
            return self._snake_order(bucket, np.arange(len(bucket.groups)))
        order = rng.permutation(len(bucket.groups))
        if self.settings.shuffle == "even":
            order = self._snake_order(bucket, order)
        # Two groups of one stratum are never in one batch. A rotation by less than a stratum cuts
        # the strata elsewhere in each epoch, so that any two neighbours can meet.
        return np.roll(order, rng.integers(bucket.batches) if bucket.batches else 0)

    def _snake_order(self, bucket: Bucket, tie: np.ndarray) -> np.ndarray:
        """int [U], an order in which neighbours have similar lengths of both sides.

        The groups are sorted by premise length and cut into blocks. Each block is sorted by the
        length of its hypotheses, alternately rising and falling.

        A block has k = sqrt(Q) / 2 strata, so that within a stratum premise lengths differ about as
        much as hypothesis lengths. For any k, a block spans a share k / Q of the order by premise
        length, and each of its strata a share 1 / k of the block's order by hypothesis length. The
        shares are equal at k = sqrt(Q). Half of that is taken because premise lengths vary more.

        tie: int [U], decides among groups of equal lengths.
        """
        premise = self.length_M[bucket.groups]
        hypothesis = self.hypothesis_length_MG[bucket.groups].sum(axis=1)
        order = np.lexsort((tie, premise))
        block_size = bucket.batches * max(1, round(bucket.per_batch**0.5 / 2))
        block = np.arange(len(order)) // max(block_size, 1)
        rising_or_falling = np.where(block % 2 == 0, hypothesis[order], -hypothesis[order])
        return order[np.lexsort((tie[order], rising_or_falling, block))]

    @property
    def sizes(self) -> list[int]:
        """The rows of a batch over all devices, on average, of each bucket; equal numbers once."""
        sizes = set()
        for bucket in self.buckets:
            if bucket.batches:
                rows = (self.rows_of_group[bucket.groups] >= 0).sum()
                sizes.add(round(rows / bucket.batches))
        return sorted(sizes)

    @property
    def steps(self) -> int:
        """The number of batches of an epoch, the same for all epochs and seeds."""
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
            batches += self._plan_batches(number, np.stack(dealt, axis=1))
        order = np.random.default_rng([epoch]).permutation(len(batches))
        return [batches[place] for place in order]

    def once(self) -> list[PlannedBatch]:
        """Every row once, in an order without randomness; rows [Q, G]."""
        batches = []
        for number in range(len(self.buckets)):
            batches += self._plan_batches(number, self.deal(number, None))
        return batches

    def _plan_batches(self, number: int, dealt: np.ndarray) -> list[PlannedBatch]:
        """The batches [B, (S,) Q, G] of a bucket with their layouts: the fitted one, or the full
        one for a batch that does not fit."""
        fitted, full = self.layouts[number], self.full_layouts[number]
        fits = np.ones(len(dealt), bool)
        if fitted is not full:
            fits = self._fits(dealt, fitted)
        rows = np.where(dealt >= 0, dealt + self.settings.first, -1).astype(np.int32)
        layouts = [fitted if fit else full for fit in fits]
        return list(map(PlannedBatch, layouts, rows))

    def widen(self, number: int, per_batch: int, width: tuple[int, int], row_width: int) -> None:
        """Gives a bucket batches of `per_batch` groups, and a full layout of `width` tokens."""
        groups = self.buckets[number].groups
        batches = ceil_div(len(groups), max(per_batch, 1))
        self.buckets[number] = Bucket(groups, per_batch, batches)
        self.layouts[number] = self._full_layout(per_batch, width, row_width)
        self.full_layouts[number] = self.layouts[number]


def share_layouts(batches_of: Mapping[str, Batches]) -> None:
    """Changes the batches of the splits so that a bucket has the same layout in all splits, with
    room for the largest. One program then serves all splits.

    Splits that differ in the number of buckets or in the group size stay as they are.
    """
    splits = list(batches_of.values())
    if len({(len(split.buckets), split.group_size) for split in splits}) == 1:
        for number in range(len(splits[0].buckets)):
            _share_layout(splits, number)


def _share_layout(splits: Sequence[Batches], number: int) -> None:
    """Gives one bucket the same layout in all splits."""
    per_batch = max(split.buckets[number].per_batch for split in splits)
    layouts = [split.full_layouts[number] for split in splits]
    premise_width, hypothesis_width = np.max([full.width for full in layouts], axis=0).tolist()
    row_width = max(full.row_width for full in layouts)
    for split in splits:
        split.widen(number, per_batch, (premise_width, hypothesis_width), row_width)
    room = reduce(Room.max_with, (split.bucket_room(number) for split in splits))
    uses = sum(split.buckets[number].batches * split.settings.uses_of_batch for split in splits)
    for split in splits:
        split.fit(number, room, uses)
