"""Assigns rows to batches and gives each batch a static shape. The plan of an epoch is a pure
function.

Batches are stratified by length: the rows of a length bucket are sorted by length into as many
strata as a batch has rows, and each batch draws one row of every stratum. The batches of a bucket
then have nearly the same lengths, and one compiled program with a *staircase* serves them (see
docs/architecture.md). With one bucket every batch is a fair sample of the corpus; with two, the
default of training, half of the work is in batches of short premises.

Rows that share a premise can be kept together (`groups`), so that a premise is encoded once for all
its hypotheses. A row number of -1 is padding. Dimension letters: N rows, M units, Q units of a
batch, G rows of a unit, S seeds.
"""

from dataclasses import dataclass, replace

import numpy as np

from mednli_jax.data.arrays import LEAST, power_of_two

MAX_BUCKETS = 4
Segments = tuple[tuple[int, int], ...]  # (steps, sentences) of a staircase, sentences falling
# cost of the calls of one more loop, as a share of the staircase's area
SEGMENT_COST = 0.006
# cost of compiling one more loop (2.8 CPU seconds of the demo's ESIM), in tokens that this model
# trains on in that time
COMPILE_TOKENS = 30_000
# share of the sentences alive that is added to each step, for plans that were not examined
MARGIN = 0.02
# a GPU computes up to this many sentences in about the time of one
GPU_FLOOR = 256
LOOKED_AT = 400_000  # at most this many rows of plans are examined to fit a staircase


@dataclass(frozen=True)
class TrainingBatches:
    """The settings of training batches (see Batches). size: rows of a batch over all devices.
    group: rows of one premise or passage that are kept together."""

    size: int
    group: int = 1
    max_buckets: int = 1
    seeds: tuple[int, ...] = (0,)
    epochs: int = 0
    shuffle: str = "even"


@dataclass(frozen=True)
class Layout:
    """The static shape of a batch, on one device.

    units: premises of the batch. group: hypotheses of each. width: padded tokens (P, H) of the two
    sides. sentences: staircase of the Q premises and Q G hypotheses, sorted by length. pairs: the
    same where every hypothesis has a premise of its own, as layers after the alignment need it.
    Both of premises alone, where the two sides do not share a loop (Batches' `joint`). words: most
    distinct words in the batch; 0 if words are not shared.
    """

    units: int
    group: int
    width: tuple[int, int]
    sentences: Segments
    pairs: Segments
    words: int = 0

    @property
    def rows(self) -> int:
        return self.units * self.group

    @classmethod
    def full(
        cls, units: int, width: tuple[int, int], group: int = 1, joint: bool = True
    ) -> "Layout":
        """The layout that holds any rows of these lengths: every sentence is computed to the
        end."""
        steps, rows = max(width[0], joint * width[1], 1), units * group
        return cls(
            units, group, width, ((steps, units + joint * rows),), ((steps, (1 + joint) * rows),)
        )


def floor_on(platform: str) -> int:
    """The number of sentences below which a step gets no faster, on a platform."""
    return GPU_FLOOR if platform == "gpu" else 1


def staircase(profile: np.ndarray, floor: int = 1, uses: int = 0) -> Segments:
    """The segments that cover a profile (sentences alive at each step, falling) with the least area
    and few loops.

    floor: number of sentences below which a step gets no faster. uses: number of batches that a run
    computes with these segments, 0 = many. Few do not justify compiling many loops.
    """
    profile = np.trim_zeros(np.asarray(profile, np.int64), "b")
    profile = profile if len(profile) else np.ones(1, np.int64)
    profile = np.maximum(profile, min(floor, profile[0]))
    steps = len(profile)
    price = max(SEGMENT_COST * profile.sum(), COMPILE_TOKENS / uses if uses else 0, 1)
    best, cut = np.zeros(steps + 1), np.zeros(steps + 1, np.int64)
    for start in range(steps - 1, -1, -1):
        costs = profile[start] * np.arange(1, steps - start + 1) + price + best[start + 1 :]
        cut[start] = start + 1 + int(costs.argmin())
        best[start] = costs.min()
    segments, start = [], 0
    while start < steps:
        segments.append((int(cut[start] - start), int(profile[start])))
        start = cut[start]
    return tuple(segments)


def groups_of(premises, most: int) -> np.ndarray:
    """Units [M, G] of rows with equal premises [N, T], at most `most` each; in the order of first
    rows, -1 = empty."""
    _, owner = np.unique(premises, axis=0, return_inverse=True)
    order = np.argsort(owner.ravel(), kind="stable")
    sorted_owner = owner.ravel()[order]
    starts = np.flatnonzero(np.r_[True, sorted_owner[1:] != sorted_owner[:-1]])
    units = []
    for members in np.split(order, starts[1:]):
        units += [members[i : i + most] for i in range(0, len(members), most)]
    units.sort(key=lambda unit: unit[0])
    result = np.full((len(units), max(map(len, units), default=1)), -1, np.int32)
    for row, unit in zip(result, units, strict=True):
        row[: len(unit)] = unit
    return result


@dataclass(frozen=True)
class BatchPlan:
    """How the rows of a split are put into batches.

    Args:
      batch_size: rows per batch over all devices; at least one unit a device.
      width: padded tokens of the two sides, at least the longest.
      shares: devices that a batch is split over.
      max_buckets: 1 to 4 length buckets of units, each with a staircase of its own.
      first: number of the split's first row, added to each row number.
      seeds, epochs: those that the run will plan; the staircases are fitted to some of these plans.
      passes: how many times a run computes the split, over all seeds; 0 = epochs times seeds, for training.
      coarse: do not fit the layouts, so that other rows of the same width reuse the compiled programs.
      fixed: every batch is padded to `width`, for models that see the padding; else a bucket to its own longest.
      joint: one loop goes over premises and hypotheses; False: over long premises (passages) alone.
      shuffle: "even": every batch has units of all lengths, drawn at random among units of similar length; "random":
        all units of a bucket are drawn at random; "binned": likewise, with a bucket for the premises of each power of
        two (lengths 33 to 64, 65 to 128, ...), whatever `max_buckets` says.
      floor: of the staircases, see `staircase`.
    """

    batch_size: int
    width: tuple[int, int]
    shares: int = 1
    max_buckets: int = 1
    first: int = 0
    seeds: tuple[int, ...] = (0,)
    epochs: int = 0
    passes: int = 0
    coarse: bool = False
    fixed: bool = False
    joint: bool = True
    shuffle: str = "even"
    floor: int = 1

    @property
    def all_passes(self) -> int:
        return self.passes or self.epochs * len(self.seeds)

    @property
    def rounded(self) -> bool:
        """Whether numbers of units and widths are rounded up, so that other rows reuse the
        programs."""
        return self.coarse and self.max_buckets > 1


class Batches:
    """The batches of one split.

    Args:
      premise_length, hypothesis_length: [N] token counts.
      groups: [M, G] rows of each unit; None = every row is its own unit.
      tokens: ([N, P], [N, H]) word numbers, to bound the distinct words of a batch; None = words are not shared.
    """

    def __init__(
        self, premise_length, hypothesis_length, plan: BatchPlan, *, groups=None, tokens=None
    ):
        self.plan, self.tokens = plan, tokens
        self.length = (
            np.asarray(premise_length, np.int64),
            np.asarray(hypothesis_length, np.int64),
        )
        self.vocabulary = (
            1 + max((int(side.max(initial=0)) for side in tokens), default=0) if tokens else 0
        )
        rows = len(self.length[0])
        self.units = (
            np.arange(rows, dtype=np.int32)[:, None]
            if groups is None
            else np.asarray(groups, np.int32)
        )
        self.rows, self.group = rows, self.units.shape[1]
        self.premise_of_unit = (
            self.length[0][self.units.max(axis=1)] if rows else np.zeros(0, np.int64)
        )
        self.hypothesis_of_unit = np.where(self.units >= 0, self.length[1][self.units], 0)
        self.buckets = self._buckets()
        self.roomy = [self._roomy(units, per_batch) for units, per_batch, _ in self.buckets]
        self.layouts = self.roomy
        if not plan.coarse:
            self.layouts = [
                self._fitted(
                    bucket, *self._needs(bucket, plan.seeds, plan.epochs), batches * plan.all_passes
                )
                for bucket, (*_, batches) in enumerate(self.buckets)
            ]

    def _roomy(self, units, per_batch) -> Layout:
        """The layout that holds any `per_batch` of these units."""
        plan = self.plan
        whole = plan.fixed or (plan.coarse and not plan.rounded)
        width = plan.width if whole else self._longest(units)
        return Layout.full(-(-per_batch // plan.shares), width, self.group, plan.joint)

    @property
    def sizes(self) -> list[int]:
        """Rows of a batch over all devices, on average, of each bucket; equal ones once."""
        rows = [((self.units[units] >= 0).sum(), batches) for units, _, batches in self.buckets]
        return sorted({round(count / batches) for count, batches in rows if batches})

    def _buckets(self):
        """(units, units per batch, batches) of each length bucket: equal shares of the premises'
        steps."""
        plan = self.plan
        per_batch = max(
            1, round(plan.batch_size * len(self.units) / max(self.rows, 1))
        )  # some units are not full
        order = np.lexsort((self.hypothesis_of_unit.sum(axis=1), self.premise_of_unit))
        # Few units do not justify a program for each bucket.
        most = max(1, min(plan.max_buckets, len(order) // (2 * per_batch)))
        work = np.cumsum(self.premise_of_unit[order] + 1)
        cuts = np.searchsorted(work, work[-1] * np.arange(1, most) / most) if len(order) else []
        if self.plan.shuffle == "binned":
            exponents = np.frexp(np.maximum(self.premise_of_unit[order], 1) - 1)[
                1
            ]  # 2^(e-1) < length <= 2^e
            cuts = np.flatnonzero(np.diff(exponents)) + 1
        buckets = []
        for units in np.split(order, cuts):
            if self.plan.rounded:
                per_batch = power_of_two(min(per_batch, len(units)), 8)
            batches = -(-len(units) // per_batch)
            # All batches have the same number of units, for any number of devices.
            even = per_batch if plan.coarse else -(-len(units) // max(batches, 1))
            buckets.append((units, even, batches))
        return buckets

    def _longest(self, units):
        longest = [
            max(int(x[units].max(initial=0)), 1)
            for x in (self.premise_of_unit, self.hypothesis_of_unit)
        ]
        steps = [
            max(LEAST, power_of_two(length) // 4) if self.plan.rounded else 1 for length in longest
        ]
        return tuple(-(-length // step) * step for length, step in zip(longest, steps, strict=True))

    def _fitted(self, bucket, sentences, pairs, words, uses):
        """The layout of a bucket with room for these profiles and so many words; uses: see
        `staircase`."""
        return replace(
            self.roomy[bucket],
            sentences=staircase(sentences, self.plan.floor, uses),
            pairs=staircase(pairs, self.plan.floor, uses),
            words=-(-words // 32) * 32,
        )

    def _needs(self, bucket, seeds=(), epochs=0):
        """(profile of sentences, profile of pairs, distinct words) that hold the batches of a
        bucket."""
        units = self.buckets[bucket][0]
        looks = (
            self._looks(seeds, epochs)[: max(2, LOOKED_AT // max(len(units), 1))]
            if epochs
            else [None]
        )
        sentences = pairs = np.zeros(max(*self.plan.width, 1), np.int64)
        words = 0
        for look in looks:
            parts = self._shares(self._deal(bucket, look))
            sentences = np.maximum(
                sentences, self._alive(parts, paired=False).max(axis=0, initial=0)
            )
            pairs = np.maximum(pairs, self._alive(parts, paired=True).max(axis=0, initial=0))
            words = max(words, max(map(self._words, parts), default=0) if self.tokens else 0)
        if epochs:  # plans that were not examined may need a little more room
            sentences, pairs = (
                np.where(p > 0, np.minimum(p + 1 + (MARGIN * p).astype(int), p[0]), 0)
                for p in (sentences, pairs)
            )
            words = int(words * (1 + MARGIN)) + 1 if words else 0
        return sentences, pairs, words

    def _looks(self, seeds, epochs):
        """(seed, epoch) of the plans that a staircase is fitted to."""
        return [
            (seed, epoch) for epoch in range(1, min(epochs, 8) + 1) for seed in tuple(seeds)[:6]
        ]

    def _alive(self, parts, *, paired):
        """Sentences alive at each step of each part: [n, Q, G] -> [n, steps]."""
        steps = max(*self.plan.width, 1)
        alive = np.zeros((len(parts), steps + 1), np.int64)
        real = parts >= 0
        hypothesis = np.where(real, self.length[1][parts], 0)
        if paired:
            premise = np.where(real, self.length[0][parts], 0)
        else:
            owner = parts.max(axis=2)
            premise = np.where(owner >= 0, self.length[0][owner], 0)
        for lengths in (premise, hypothesis) if self.plan.joint else (premise,):
            places = np.repeat(np.arange(len(parts)), lengths[:1].size)
            np.add.at(alive, (places, lengths.ravel()), 1)
        longer = alive.sum(axis=1, keepdims=True) - np.cumsum(
            alive, axis=1
        )  # sentences longer than t
        return longer[:, :steps]

    def _words(self, part):
        """Number of distinct words in the rows [Q, G] of a batch, padding included."""
        rows = part[part >= 0]
        seen = np.zeros(self.vocabulary, bool)
        seen[0] = True
        for side, length in zip(self.tokens, self.length, strict=True):
            seen[side[rows][np.arange(side.shape[1]) < length[rows, None]]] = True
        return int(np.count_nonzero(seen))

    def _fits(self, batches, layout):
        """Whether each batch [n, (S,) Q, G], for all its seeds, has room in a layout: [n]."""
        parts, fits = self._shares(batches), np.ones(len(batches), bool)
        if not len(batches):
            return fits
        for paired, segments in ((False, layout.sentences), (True, layout.pairs)):
            alive = self._alive(parts, paired=paired)
            room = np.repeat([rows for _, rows in segments], [steps for steps, _ in segments])
            room = np.pad(room, (0, alive.shape[1] - len(room)))
            fits &= (alive <= room).reshape(len(batches), -1).all(axis=1)
        if layout.words:
            words = np.array([self._words(part) <= layout.words for part in parts], bool)
            fits &= words.reshape(len(batches), -1).all(axis=1)
        return fits

    def _shares(self, batches):
        """[n, Q, G] -> [n shares, Q / shares, G]: the devices' parts are contiguous."""
        units = batches.shape[-2] // self.plan.shares
        return batches.reshape(
            batches.size // max(units * batches.shape[-1], 1), units, batches.shape[-1]
        )

    def _deal(self, bucket, look, content=None):
        """Row numbers [batches, Q, G] within the split: one unit of every stratum in each batch.

        look: (seed, epoch) draws at random within the strata; None deals in the order of length.
        content: (units, units per batch, batches), None = those of the bucket.
        """
        units, per_batch, batches = content or self.buckets[bucket]
        premise, hypothesis = (
            self.premise_of_unit[units],
            self.hypothesis_of_unit[units].sum(axis=1),
        )
        # Strata of `batches` units each, sorted by premise in blocks, and within a block by
        # hypothesis, so that the lengths of both sides are spread evenly. Units of equal lengths
        # are in random order.
        rng = None if look is None else np.random.default_rng([*map(int, look), bucket])
        tie = np.arange(len(units)) if rng is None else rng.permutation(len(units))
        order = np.lexsort((tie, premise)) if rng is None or self.plan.shuffle == "even" else tie
        block = batches * max(1, round(per_batch**0.5 / 2))
        block_of = np.arange(len(units)) // max(block, 1)
        inner = np.where(block_of % 2 == 0, hypothesis[order], -hypothesis[order])
        if rng is None or self.plan.shuffle == "even":
            order = order[np.lexsort((tie[order], inner, block_of))]
        if (
            rng is not None
        ):  # strata begin at a random place, so that any two neighbours can be in one batch
            order = np.roll(order, rng.integers(batches) if batches else 0)
        dealt = np.full((per_batch, batches), -1, np.int64)
        flat = dealt.reshape(-1)
        flat[: len(units)] = order
        if rng is not None:
            for stratum in dealt:
                # the last stratum may be incomplete: its gaps are spread at random, too
                rng.shuffle(stratum)
        # [batches, strata]; each device gets every shares-th stratum.
        shares = self.plan.shares
        dealt = np.pad(dealt.T, ((0, 0), (0, -per_batch % shares)), constant_values=-1)
        by_device = dealt.reshape(batches, dealt.shape[1] // shares, shares).swapaxes(1, 2)
        dealt = by_device.reshape(dealt.shape)
        return np.where(dealt[..., None] >= 0, self.units[units[dealt]], -1).astype(np.int32)

    @property
    def steps(self) -> int:
        """Number of batches of an epoch, the same for all epochs and seeds."""
        return sum(batches for *_, batches in self.buckets)

    def epoch(self, epoch: int, seeds) -> list[tuple[Layout, np.ndarray]]:
        """The batches of one epoch as (layout, rows [S, Q, G]).

        The sequence of buckets depends on the epoch alone, so that all seeds share one program; the
        rows within depend on (seed, epoch). A batch that does not fit for one of the seeds takes
        the roomy layout, which changes no result. Each row occurs once per seed.
        """
        plan = []
        for bucket in range(len(self.buckets)):
            dealt = np.stack(
                [self._deal(bucket, (seed, epoch)) for seed in seeds], axis=1
            )  # [batches, S, Q, G]
            plan += self._laid_out(bucket, dealt)
        order = np.random.default_rng([epoch]).permutation(len(plan))
        return [plan[i] for i in order]

    def once(self) -> list[tuple[Layout, np.ndarray]]:
        """Every row once, in an order without randomness: (layout, rows [Q, G])."""
        dealt = enumerate(self._deal(bucket, None) for bucket in range(len(self.buckets)))
        return [item for bucket, rows in dealt for item in self._laid_out(bucket, rows)]

    def _laid_out(self, bucket, dealt):
        """(layout, row numbers) of each batch. A batch that the fitted layout cannot hold gets the
        roomy one."""
        fitted, roomy = self.layouts[bucket], self.roomy[bucket]
        fits = self._fits(dealt, fitted) if fitted is not roomy else [True] * len(dealt)
        numbered = np.where(dealt >= 0, dealt + self.plan.first, -1).astype(np.int32)
        return [
            (fitted if fit else roomy, batch) for fit, batch in zip(fits, numbered, strict=True)
        ]


def sharing(named: dict[str, Batches]) -> dict[str, Batches]:
    """The splits with shared layouts that have room for each of them, so that one program serves
    all.

    Splits with other numbers of buckets, or other groups, keep their own.
    """
    splits = list(named.values())
    if len({(len(split.buckets), split.group) for split in splits}) != 1:
        return named
    for bucket in range(len(splits[0].buckets)):
        per_batch = max(split.buckets[bucket][1] for split in splits)
        width = tuple(
            max(sides)
            for sides in zip(*(split.roomy[bucket].width for split in splits), strict=True)
        )
        for split in splits:
            units = split.buckets[bucket][0]
            split.buckets[bucket] = (units, per_batch, -(-len(units) // max(per_batch, 1)))
            split.roomy[bucket] = Layout.full(
                -(-per_batch // split.plan.shares), width, split.group, split.plan.joint
            )
        needs = zip(*(split._needs(bucket) for split in splits), strict=True)
        sentences, pairs, words = (np.max(need, axis=0) for need in needs)
        uses = sum(split.buckets[bucket][2] * split.plan.all_passes for split in splits)
        for split in splits:
            split.layouts[bucket] = split._fitted(bucket, sentences, pairs, int(words), uses)
    return named
