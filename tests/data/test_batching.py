"""Each row is in one batch of an epoch, batches have similar lengths, and each batch fits its
layout."""

import itertools
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from support.cases import cases
from support.cloze import write_articles
from support.diskne import seven_diseases
from support.pair_files import write_own_pairs

from mednli_jax.cli import read_config
from mednli_jax.data.batching import (
    MANY,
    SEGMENT_COST,
    Batches,
    BatchSettings,
    Shapes,
    pack_segments,
    premise_groups,
)
from mednli_jax.diskne.corpus import write_benchmark
from mednli_jax.diskne.folds import folds
from mednli_jax.errors import ConfigError
from mednli_jax.experiment import experiment_of

SEEDS = (0, 3, 11)
BATCH = 16
WIDTH = (50, 20)


def lengths(rows=500):
    """Token counts [rows] of both sides with the means, tails and limits of MedNLI."""
    rng = np.random.default_rng(0)
    sides = []
    for shape, mean, most in ((2.2, 20.5, WIDTH[0]), (4, 5.9, WIDTH[1])):
        drawn = rng.gamma(shape, mean / shape, rows).round()
        sides.append(drawn.clip(1, most).astype(int))
    return tuple(sides)


def tokens(rows, words=400):
    """Word numbers [rows, width] of both sides; few words are frequent and many are rare."""
    rng = np.random.default_rng(0)
    share = 1 / (np.arange(1, words + 1) + 2.7) ** 1.2
    share /= share.sum()
    return tuple(rng.choice(words, p=share, size=(rows, width)) for width in WIDTH)


def threes(rows):
    """(lengths, groups): each premise has three rows, as in MedNLI; the last group may have
    fewer."""
    premise, hypothesis = lengths(rows)
    groups = np.pad(np.arange(rows), (0, -rows % 3), constant_values=-1).reshape(-1, 3)
    premise = premise[groups[:, 0]].repeat(3)[:rows]
    return (premise, hypothesis), groups


def batches_of(length, *, groups=None, tokens=None, **fields):
    defaults = {"batch_size": BATCH, "width": WIDTH, "seeds": SEEDS}
    settings = BatchSettings(**{**defaults, **fields})
    return Batches(*length, settings, groups=groups, tokens=tokens)


def rows_of(index):
    """The rows of a batch, without its padding."""
    return index[index >= 0]


def row_sets(plan, place=0):
    """The set of all batches of one seed, each as the set of its rows."""
    return {frozenset(rows_of(index[place]).tolist()) for _, index in plan}


def assert_every_row_once(plan, batches, seeds):
    """Every row occurs once for each seed, in the shape of its layout, and no group is split."""
    first = batches.settings.first
    last = first + batches.row_count
    groups = np.where(batches.rows_of_group >= 0, batches.rows_of_group + first, -1)
    for place in range(seeds):
        planned = np.concatenate([index[place] for _, index in plan], axis=None)
        assert sorted(rows_of(planned)) == list(range(first, last))
        planned_groups = set(map(tuple, planned.reshape(-1, batches.group_size).tolist()))
        nothing = (-1,) * batches.group_size
        assert planned_groups - {nothing} == set(map(tuple, groups.tolist()))
    for layout, index in plan:
        groups_of_all = layout.group_count * batches.settings.shares
        assert index.dtype == np.int32
        assert index.shape == (seeds, groups_of_all, layout.group_size)


def steps_of(segments):
    """The number of sentences that the segments have room for at each step."""
    steps, rows = np.array(segments).T
    return np.repeat(rows, steps)


def assert_covers(segments, lengths_of_sentences):
    room = steps_of(segments)
    longest = max(lengths_of_sentences, default=0)
    assert len(room) >= longest
    for step in range(longest):
        assert room[step] >= sum(length > step for length in lengths_of_sentences)


def assert_fits(layout, index, batches):
    """Each device's share of one seed's batch [Q, G] fits the segments and the words of the
    layout."""
    premise, hypothesis = batches.length
    for share in np.split(index, batches.settings.shares):
        groups = [rows_of(group) - batches.settings.first for group in share]
        rows = np.concatenate(groups).astype(int)
        assert premise[rows].max(initial=0) <= layout.width[0]
        assert hypothesis[rows].max(initial=0) <= layout.width[1]
        premises = [premise[group[0]] for group in groups if len(group)]
        assert_covers(layout.sentences, [*premises, *hypothesis[rows]])
        assert_covers(layout.pairs, [*premise[rows], *hypothesis[rows]])
        if batches.tokens and layout.words:
            words = {0}  # the token of empty slots
            for side, length in zip(batches.tokens, batches.length, strict=True):
                for row in rows:
                    words.update(side[row, : length[row]].tolist())
            assert len(words) <= layout.words


@pytest.mark.parametrize("shares", [1, 3])
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("rows", [1, BATCH, BATCH + 1, 207])
@cases(
    "grouped",
    {
        "rows": False,
        "groups": True,
    },
)
def test_every_row_is_in_one_batch_of_an_epoch_for_each_seed(rows, most, shares, grouped):
    length, groups = threes(rows) if grouped else (lengths(rows), None)
    batches = batches_of(
        length,
        groups=groups,
        shares=shares,
        max_buckets=most,
        first=100,
        epochs=2,
    )

    for epoch in (1, 2):
        assert_every_row_once(batches.epoch(epoch, SEEDS), batches, len(SEEDS))
    once = [(layout, index[None]) for layout, index in batches.once()]
    assert_every_row_once(once, batches, 1)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("rows", [1, BATCH, BATCH + 1, 207])
def test_batches_are_as_few_as_possible_and_equally_full(rows, most):
    plan = batches_of(lengths(rows), max_buckets=most).once()

    assert rows / BATCH <= len(plan) < rows / BATCH + most
    for _, index in plan:
        assert len(rows_of(index)) >= len(index) - 1


@pytest.fixture(scope="module")
def corpus():
    return batches_of(lengths(), max_buckets=2, epochs=4)


def test_the_sequence_of_buckets_depends_on_the_epoch_alone(corpus):
    def widths(epoch, seeds):  # each bucket has its own
        return [layout.width for layout, _ in corpus.epoch(epoch, seeds)]

    first = widths(1, SEEDS)
    second = widths(2, SEEDS)
    assert len(set(first)) == 2
    assert first == widths(1, (3,)) == widths(1, (99, 0))
    assert first != second
    assert sorted(first) == sorted(second)


def test_the_rows_of_a_seed_do_not_depend_on_the_other_seeds(corpus):
    for (_, rows), (_, row) in zip(corpus.epoch(4, SEEDS), corpus.epoch(4, SEEDS[2:]), strict=True):
        np.testing.assert_array_equal(rows[2], row[0])


def test_seeds_and_epochs_change_which_rows_stand_together(corpus):
    batches = []
    for epoch, seed in itertools.product((1, 2, 3), SEEDS):
        batches += row_sets(corpus.epoch(epoch, (seed,)))

    assert len(batches) > 10 * 9
    assert len(set(batches)) == len(batches)  # no batch comes twice


def test_random_batches_take_rows_of_any_length():
    """Their mean lengths vary as those of samples without replacement, those of even batches vary
    less."""
    premise, hypothesis = lengths(480)
    variance = {}
    for shuffle in ("even", "random"):
        batches = batches_of((premise, hypothesis), shuffle=shuffle, epochs=60)
        means = []
        for epoch in range(1, 61):
            plan = batches.epoch(epoch, SEEDS)
            for _, index in plan:
                means.append(premise[index[0]].mean())
        assert_every_row_once(plan, batches, len(SEEDS))
        for layout, index in plan:
            assert_fits(layout, index[0], batches)
        variance[shuffle] = np.var(means)

    of_samples = np.var(premise) / BATCH * (1 - BATCH / 480)
    assert variance["random"] == pytest.approx(of_samples, rel=0.15)
    assert variance["even"] < 0.25 * of_samples


@pytest.mark.parametrize("shares", [1, 3])
def test_binned_batches_have_passages_of_one_power_of_two(shares):
    """The bins are those of clips/clicr: lengths 17 to 32 stand together, 33 to 64, and so on."""
    passage = np.repeat([1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 50], 9)
    batches = batches_of(
        (passage, np.ones_like(passage)),
        shuffle="binned",
        shares=shares,
        joint=False,
        batch_size=8,
        epochs=4,
    )

    first = batches.epoch(1, SEEDS)
    second = batches.epoch(2, SEEDS)

    assert_every_row_once(first, batches, len(SEEDS))
    for layout, index in first:
        of_batch = passage[rows_of(index)]
        assert len({int(length - 1).bit_length() for length in of_batch}) == 1
        assert layout.width[0] < 2 * of_batch.min()
    assert row_sets(first).isdisjoint(row_sets(second))  # drawn anew


def test_layouts_fitted_to_new_rows_serve_later_ones_and_longer_ones_get_others():
    fitted = {}

    def batches_of_part(length, width=WIDTH):
        settings = {"batch_size": 256, "max_buckets": 4, "width": width}
        batches = batches_of(length, shapes=Shapes.ROUNDED, **settings)
        full = list(batches.full_layouts)
        batches.reuse_layouts(fitted)
        return batches, full

    first, full = batches_of_part(lengths(MANY))
    later, _ = batches_of_part(lengths(2 * MANY))
    few, full_of_few = batches_of_part(lengths(MANY - 1))
    longer, _ = batches_of_part((lengths(MANY)[0] + 60, lengths(MANY)[1]), (110, 20))

    assert later.layouts == first.layouts
    assert few.layouts == full_of_few
    slots = [area_of(layouts) for layouts in (first.layouts, full)]
    assert slots[0] < 0.6 * slots[1]
    assert [layout for layout, _ in later.once()].count(later.layouts[0]) > 10
    for batches in (first, later, longer):
        assert sorted(np.concatenate([rows_of(rows) for _, rows in batches.once()])) == list(
            range(batches.row_count)
        )
        for layout, rows in batches.once():
            assert layout.width >= tuple(side[rows_of(rows)].max() for side in batches.length)


def test_rows_of_word_pieces_are_batched_by_the_length_of_both_sides():
    joined = batches_of(lengths(), max_buckets=4, joined=True)
    by_premise = batches_of(lengths(), max_buckets=4)

    slots = 0
    plan = joined.once()
    assert sorted(np.concatenate([rows_of(rows) for _, rows in plan])) == list(range(500))
    for layout, rows in plan:
        of_both_sides = sum(side[rows_of(rows)] for side in joined.length)
        assert of_both_sides.max() <= layout.row_width <= sum(layout.width)
        slots += layout.row_count * layout.row_width
    assert slots < 0.8 * sum(
        layout.row_count * sum(layout.width) for layout, _ in by_premise.once()
    )


def area_of(layouts):
    """Computed slots of a batch of each layout."""
    return sum(steps * rows for layout in layouts for steps, rows in layout.sentences)


def write_diskne(folder):
    write_benchmark(seven_diseases(), folds(seven_diseases()), folder)


TASKS = {
    "nli": ("bow", write_own_pairs, "train"),
    "cloze": ("ga", write_articles, "train"),
    "diskne": ("diskne_bow", write_diskne, "medical/train"),
}


def batches_of_task(task, folder, shuffle):
    """The batches, as sets of rows, that the task of a config makes of a small corpus."""
    name, write_corpus, part = TASKS[task]
    write_corpus(folder / "corpus")
    config = read_config(f"{name}:file")
    config.data.dir = str(folder / "corpus")
    config.train.update(batch_size=4, max_buckets=1, shuffle=shuffle)
    experiment = experiment_of(config)
    prepared, _ = experiment.prepare()
    batches = experiment.scorer.batches(
        prepared, part, experiment.batches, shares=1, model=SimpleNamespace(shares_words=False)
    )
    return row_sets(batches.epoch(1, (0,)))


@pytest.mark.parametrize("task", TASKS)
def test_every_task_shuffles_as_its_config_says(task, tmp_path):
    even = batches_of_task(task, tmp_path / "even", "even")
    random = batches_of_task(task, tmp_path / "random", "random")

    assert even != random
    assert set().union(*even) == set().union(*random)


def test_bins_are_refused_for_sentence_pairs(tmp_path):
    with pytest.raises(ConfigError, match=r"config.train.shuffle: 'binned' is for passages"):
        batches_of_task("nli", tmp_path, "binned")


@pytest.mark.parametrize("shares", [2, 3, 8])
def test_the_number_of_devices_does_not_change_which_rows_stand_together(shares):
    """It need not divide the batch size."""
    settings = {"batch_size": 7, "seeds": (0,), "epochs": 1}
    alone = batches_of(lengths(100), **settings)
    shared = batches_of(lengths(100), shares=shares, **settings)

    for epoch in (1, 2):
        rows = row_sets(shared.epoch(epoch, (5,)))
        assert rows == row_sets(alone.epoch(epoch, (5,)))


@pytest.mark.parametrize(
    "shares, grouped, most",
    [
        (1, False, 1),
        (2, True, 1),
        (1, True, 2),
        (4, False, 2),
    ],
)
@pytest.mark.parametrize("rows", [90, 601])
def test_every_batch_fits_its_layout(rows, shares, grouped, most):
    """Also in epochs and for seeds that fitting did not sample, and in the plan without chance."""
    length, groups = threes(rows) if grouped else (lengths(rows), None)
    batches = batches_of(
        length,
        groups=groups,
        shares=shares,
        max_buckets=most,
        tokens=tokens(rows),
        seeds=(0,),
        epochs=1,
        batch_size=32,
    )

    for epoch in (1, 2, 17):
        for layout, index in batches.epoch(epoch, (0, 5)):
            for index_of_seed in index:
                assert_fits(layout, index_of_seed, batches)
    for layout, index in batches.once():
        assert_fits(layout, index, batches)


@pytest.mark.parametrize("seed", range(12))
def test_the_segments_are_the_cheapest_of_all_that_cover(seed):
    """The reference tries every way of cutting the steps."""
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(1, 9))
    most = (4, 30, 2000)[seed % 3]
    alive = np.sort(rng.integers(1, most, steps))[::-1]
    segment_cost = max(SEGMENT_COST * alive.sum(), 1)
    costs = {}
    for is_cut in itertools.product([False, True], repeat=steps - 1):
        cuts = np.flatnonzero([True, *is_cut, True]).tolist()
        segments = tuple((end - start, int(alive[start])) for start, end in pairwise(cuts))
        costs[segments] = sum(length * rows + segment_cost for length, rows in segments)

    segments = pack_segments(np.append(alive, [0, 0]))

    assert costs[segments] == pytest.approx(min(costs.values()))
    assert (steps_of(segments) >= alive).all()


@pytest.mark.parametrize("alive", [[], [0, 0]])
def test_the_segments_of_no_sentences_have_one_step(alive):
    assert pack_segments(alive) == ((1, 1),)


def two_buckets(**settings):
    """(lengths, an epoch in two buckets)."""
    length, groups = threes(602)
    batches = batches_of(length, groups=groups, max_buckets=2, batch_size=32, **settings)
    return length, batches.epoch(1, (0,))


def test_a_bucket_is_padded_to_its_own_longest():
    length, plan = two_buckets()
    rows_of_width = {}
    for layout, index in plan:
        rows_of_width.setdefault(layout.width, []).extend(rows_of(index))

    assert len(rows_of_width) == 2
    for width, rows in rows_of_width.items():
        assert width == tuple(side[rows].max() for side in length)


def test_all_buckets_have_the_same_width_where_it_is_fixed():
    _, plan = two_buckets(sees_padding=True)

    assert {layout.width for layout, _ in plan} == {WIDTH}


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_rows_of_a_group_share_the_premise_and_groups_are_as_few_as_possible(most):
    rng = np.random.default_rng(0)
    texts = rng.integers(1, 5, (9, 6))
    premises = texts[rng.integers(0, 9, 100)]

    groups = premise_groups(premises, most)

    assert groups.shape[1] == most
    assert sorted(rows_of(groups)) == list(range(100))
    assert (np.diff(groups[:, 0]) > 0).all()
    for group in groups:
        rows = rows_of(group)
        assert (premises[rows] == premises[rows[0]]).all()
        assert (group[: len(rows)] == rows).all()
    count = np.unique(premises, axis=0, return_counts=True)[1]
    assert len(groups) == np.ceil(count / most).sum()


def test_a_group_has_no_room_for_more_rows_than_occur():
    one_text = np.ones((1, 6), int)

    assert premise_groups(one_text, 3).tolist() == [[0]]


@pytest.mark.parametrize("width", [0, 4])
def test_empty_premises_have_a_width_of_one(width):
    """A width of 0 would leave no shape to compute with."""
    _, hypothesis = lengths(40)
    length = np.zeros(40, int), hypothesis
    premises = np.zeros((40, width), int)
    words = premises, tokens(40)[1]
    batches = batches_of(
        length, width=(width, 20), groups=premise_groups(premises, 3), tokens=words, batch_size=8
    )

    plan = batches.epoch(1, SEEDS)

    assert_every_row_once(plan, batches, len(SEEDS))
    for layout, index in plan:
        assert layout.width == (1, hypothesis.max())
        assert_fits(layout, index[0], batches)


def test_an_empty_split_has_no_batches():
    no_rows = np.zeros(0, int)
    batches = batches_of((no_rows, no_rows))

    assert batches.once() == batches.epoch(1, SEEDS) == []
