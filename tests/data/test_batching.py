"""Each row is in one batch of an epoch, batches have similar lengths, and each batch fits its
layout."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from support.cloze import write_articles
from support.diskne import seven_diseases
from support.pair_files import write_own_pairs

from mednli_jax import defaults
from mednli_jax.data.batching import SEGMENT_COST, Batches, BatchPlan, groups_of, staircase
from mednli_jax.diskne.corpus import write_benchmark
from mednli_jax.diskne.folds import folds
from mednli_jax.errors import ConfigError
from mednli_jax.run import experiment_of

SEEDS = (0, 3, 11)
BATCH = 16
WIDTH = (50, 20)


def lengths(rows=500, seed=0):
    """Token counts with the means, tails and limits of MedNLI."""
    rng = np.random.default_rng(seed)
    premise, hypothesis = rng.gamma(2.2, 20.5 / 2.2, rows), rng.gamma(4, 5.9 / 4, rows)
    return tuple(
        np.clip(x.round().astype(int), 1, w)
        for x, w in zip((premise, hypothesis), WIDTH, strict=True)
    )


def tokens(rows=500, seed=0, words=400):
    """Word numbers at all positions; few words are frequent and many are rare."""
    rng = np.random.default_rng(seed)
    share = 1 / (np.arange(1, words + 1) + 2.7) ** 1.2
    return tuple(rng.choice(words, p=share / share.sum(), size=(rows, w)) for w in WIDTH)


def triples(rows, seed=0):
    """(lengths, units): each premise has three rows, as in MedNLI; the last unit may have fewer."""
    premise, hypothesis = lengths(rows, seed)
    units = np.append(np.arange(rows), np.full(-rows % 3, -1)).reshape(-1, 3)
    for unit in units:
        premise[unit[unit >= 0]] = premise[unit[0]]
    return (premise, hypothesis), units


def make(length, *, batch_size=BATCH, width=WIDTH, groups=None, tokens=None, **settings):
    plan = BatchPlan(batch_size, width, **settings)
    return Batches(*length, plan, groups=groups, tokens=tokens)


def company(plan, place=0):
    """The set of all batches, each as the set of its rows."""
    return {frozenset(index[place][index[place] >= 0].tolist()) for _, index in plan}


def check_rows(plan, batches, seeds):
    """Every row occurs once for each seed, in the shape of its layout, and no unit is split."""
    units = {
        tuple(unit)
        for unit in (batches.units + np.where(batches.units >= 0, batches.plan.first, 0)).tolist()
    }
    for place in range(seeds):
        index = np.concatenate([index[place].reshape(-1, batches.group) for _, index in plan])
        assert sorted(index[index >= 0]) == list(
            range(batches.plan.first, batches.plan.first + batches.rows)
        )
        assert {tuple(unit) for unit in index.tolist()} - {(-1,) * batches.group} == units
    for layout, index in plan:
        assert index.dtype == np.int32
        assert index.shape == (seeds, layout.units * batches.plan.shares, layout.group)
        assert layout.rows == layout.units * layout.group


def room(segments):
    return np.repeat([rows for _, rows in segments], [steps for steps, _ in segments])


def alive(lengths_of_sentences):
    """The number of sentences that have a token at each step, counted one by one."""
    return np.array(
        [
            sum(n > t for n in lengths_of_sentences)
            for t in range(max(lengths_of_sentences, default=0))
        ]
    )


def check_held(layout, index, batches):
    """Each device's share of one seed's batch [Q, G] fits the staircases and the words of the
    layout."""
    for share in np.split(index, batches.plan.shares):
        rows = [unit[unit >= 0] - batches.plan.first for unit in share]
        premise, hypothesis = batches.length
        for side, width in zip(batches.length, layout.width, strict=True):
            assert max((side[row].max() for row in rows if len(row)), default=0) <= width
        own = [premise[unit[0]] for unit in rows if len(unit)]
        hypotheses = [hypothesis[row] for unit in rows for row in unit]
        repeated = [premise[row] for unit in rows for row in unit]
        for segments, sentences in ((layout.sentences, own), (layout.pairs, repeated)):
            profile, has = alive(sentences + hypotheses), room(segments)
            assert len(has) >= len(profile)
            assert (has[: len(profile)] >= profile).all()
        if batches.tokens and layout.words:
            seen = {0}  # the token of empty slots
            for row in (row for unit in rows for row in unit):
                for side, length in zip(batches.tokens, batches.length, strict=True):
                    seen |= set(side[row, : length[row]].tolist())
            assert len(seen) <= layout.words


@pytest.mark.parametrize("shares", [1, 3])
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("rows", [1, BATCH, BATCH + 1, 207])
def test_every_row_once_per_epoch_and_seed(rows, most, shares):
    """Batches are as many as needed; on one device they are equally full."""
    plain = make(lengths(rows), shares=shares, max_buckets=most, first=100, seeds=SEEDS, epochs=2)
    length, units = triples(rows)
    grouped = make(length, groups=units, shares=shares, max_buckets=most, seeds=SEEDS, epochs=2)
    for batches in (plain, grouped):
        for epoch in (1, 2):
            check_rows(batches.epoch(epoch, SEEDS), batches, len(SEEDS))
        check_rows([(layout, index[None]) for layout, index in batches.once()], batches, 1)
    assert rows / BATCH <= len(plain.once()) < rows / BATCH + most
    if shares == 1:
        assert all((index >= 0).sum() >= index.shape[0] - 1 for _, index in plain.once())


@pytest.fixture(scope="module")
def corpus():
    return make(lengths(), max_buckets=2, seeds=SEEDS, epochs=4)


def test_the_sequence_of_buckets_depends_on_the_epoch_and_the_rows_on_the_seed_alone(corpus):
    """No batch comes twice: seeds and epochs change which rows stand together, not only the order
    of the batches."""

    def of(epoch, seeds):
        return [
            layout.width for layout, _ in corpus.epoch(epoch, seeds)
        ]  # each bucket has its own width

    assert len(set(of(1, SEEDS))) == 2
    assert of(1, SEEDS) == of(1, (3,)) == of(1, (99, 0))
    assert of(1, SEEDS) != of(2, SEEDS)
    assert sorted(of(1, SEEDS)) == sorted(of(2, SEEDS))
    for (_, rows), (_, row) in zip(corpus.epoch(4, SEEDS), corpus.epoch(4, SEEDS[2:]), strict=True):
        np.testing.assert_array_equal(rows[2], row[0])
    found = [company(corpus.epoch(epoch, (seed,))) for epoch in (1, 2, 3) for seed in SEEDS]
    assert min(map(len, found)) > 10
    assert all(a.isdisjoint(b) for a, b in itertools.combinations(found, 2))


def test_random_batches_take_rows_of_any_length():
    """They are cut from a shuffled list, so their mean lengths vary as those of random samples
    do."""
    spread = {}
    for shuffle in ("even", "random"):
        batches = make(lengths(480), shuffle=shuffle, seeds=SEEDS, epochs=60)
        plans = [batches.epoch(epoch, SEEDS) for epoch in range(1, 61)]
        check_rows(plans[0], batches, len(SEEDS))
        for layout, index in plans[0]:
            check_held(layout, index[0], batches)
        means = [batches.length[0][index[0].ravel()].mean() for plan in plans for _, index in plan]
        spread[shuffle] = np.var(means)
    expected = (
        np.var(lengths(480)[0]) / BATCH * (1 - BATCH / 480)
    )  # the variance of samples without replacement
    assert spread["random"] == pytest.approx(expected, rel=0.15)
    assert spread["even"] < 0.25 * expected


@pytest.mark.parametrize("shares", [1, 3])
def test_binned_batches_have_passages_of_one_power_of_two(shares):
    """The bins are those of clips/clicr: lengths 17 to 32 stand together, 33 to 64, and so on."""
    passage = np.repeat([1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 50], 9)
    how = {"shuffle": "binned", "shares": shares, "joint": False, "batch_size": 8}
    batches = make((passage, np.ones_like(passage)), seeds=SEEDS, epochs=4, **how)
    plans = [batches.epoch(epoch, SEEDS) for epoch in (1, 2)]
    check_rows(plans[0], batches, len(SEEDS))
    for layout, index in plans[0]:
        of_batch = passage[index[index >= 0]]
        assert {int(length - 1).bit_length() for length in of_batch} == {
            int(of_batch[0] - 1).bit_length()
        }
        assert layout.width[0] < 2 * of_batch.min()
    assert company(plans[0]).isdisjoint(company(plans[1]))  # drawn anew


def dealt(task, folder, shuffle):
    """The batches, as sets of rows, that the task of a config makes of a small corpus."""
    if task == "diskne":
        write_benchmark(seven_diseases(), folds(seven_diseases()), folder / "made")
        config, part = defaults.diskne("bow", "file"), "medical/train"
    else:
        config, part = (
            defaults.nli("bow", "file") if task == "nli" else defaults.cloze("ga_reader", "file"),
            "train",
        )
        (write_own_pairs if task == "nli" else write_articles)(folder / "made")
    config.data.dir = str(folder / "made")
    config.train.update(batch_size=4, max_buckets=1, shuffle=shuffle)
    own = experiment_of(config)
    prepared, _ = own.prepare()
    model = SimpleNamespace(shares_words=False)
    return company(
        own.scorer.batches(prepared, part, own.batches, shares=1, model=model).epoch(1, (0,))
    )


@pytest.mark.parametrize("task", ["nli", "cloze", "diskne"])
def test_every_task_deals_as_its_config_says(task, tmp_path):
    found = {shuffle: dealt(task, tmp_path / shuffle, shuffle) for shuffle in ("even", "random")}
    assert found["even"] != found["random"]
    assert set().union(*found["even"]) == set().union(*found["random"])
    if task == "nli":  # bins are for passages
        with pytest.raises(ConfigError, match=r"config.train.shuffle: 'binned' is for passages"):
            dealt(task, tmp_path / "binned", "binned")


@pytest.mark.parametrize("shares", [2, 3, 8])
def test_the_company_does_not_depend_on_the_devices(shares):
    """The number of devices changes no experiment, even if it does not divide the batch size."""
    one, many = (
        make(lengths(100), batch_size=7, shares=n, seeds=(0,), epochs=1) for n in (1, shares)
    )
    for epoch in (1, 2):
        assert company(one.epoch(epoch, (5,))) == company(many.epoch(epoch, (5,)))


@pytest.mark.parametrize(
    ("shares", "grouped", "most"), [(1, False, 1), (2, True, 1), (1, True, 2), (4, False, 2)]
)
@pytest.mark.parametrize("rows", [90, 601])
def test_every_batch_is_held_by_its_layout(rows, shares, grouped, most):
    """Holds for epochs and seeds that fitting did not sample, and for the plan without chance,
    which no epoch has."""
    length, units = triples(rows) if grouped else (lengths(rows), None)
    batches = make(
        length,
        groups=units,
        shares=shares,
        max_buckets=most,
        tokens=tokens(rows),
        seeds=(0,),
        epochs=1,
        batch_size=32,
    )
    for epoch in (1, 2, 17):
        for layout, index in batches.epoch(epoch, (0, 5)):
            for of_seed in index:
                check_held(layout, of_seed, batches)
    for layout, index in batches.once():
        check_held(layout, index, batches)


def cost(segments, price):
    return sum(steps * rows + price for steps, rows in segments)


@pytest.mark.parametrize("seed", range(12))
def test_a_staircase_is_the_best_of_all_that_cover(seed):
    """The reference tries every way of cutting the steps."""
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(1, 9))
    profile = np.sort(rng.integers(1, (4, 30, 2000)[seed % 3], steps))[::-1]
    price = max(SEGMENT_COST * profile.sum(), 1)
    found = []
    for cuts in itertools.chain.from_iterable(
        itertools.combinations(range(1, steps), n) for n in range(steps)
    ):
        ends = (0, *cuts, steps)
        found.append(tuple((b - a, int(profile[a])) for a, b in itertools.pairwise(ends)))
    segments = staircase(np.append(profile, [0, 0]))
    assert segments in found
    assert cost(segments, price) == pytest.approx(min(cost(other, price) for other in found))
    assert (room(segments) >= profile).all()
    assert staircase([]) == staircase([0, 0]) == ((1, 1),)  # no sentences


def test_a_bucket_is_padded_to_its_own_longest_unless_widths_are_fixed():
    length, units = triples(602)
    how = {"groups": units, "max_buckets": 2, "seeds": (0,), "epochs": 1, "batch_size": 32}
    own, rows = make(length, **how), {}
    for layout, index in own.epoch(1, (0,)):
        rows.setdefault(layout.width, []).extend(index[index >= 0])
    assert len(rows) == 2
    assert all(tuple(x[held].max() for x in own.length) == width for width, held in rows.items())
    assert {layout.width for layout, _ in make(length, fixed=True, **how).epoch(1, (0,))} == {WIDTH}


def test_rows_of_a_unit_share_the_premise():
    rng = np.random.default_rng(0)
    texts = rng.integers(1, 5, (9, 6))
    premises = texts[rng.integers(0, 9, 100)]
    for most in (1, 2, 3, 5):
        units = groups_of(premises, most)
        assert units.shape[1] == most
        assert sorted(units[units >= 0]) == list(range(100))
        for unit in units:
            real = unit[unit >= 0]
            assert (premises[real] == premises[real[0]]).all()
            assert (unit[: len(real)] == real).all()
        assert units[:, 0].tolist() == sorted(units[:, 0])
        # There are no more units than necessary.
        count = np.unique(premises, axis=0, return_counts=True)[1]
        assert len(units) == (-(-count // most)).sum()
    assert groups_of(premises[:1], 3).tolist() == [
        [0]
    ]  # a unit has no room for more rows than occur


@pytest.mark.parametrize("width", [0, 4])
def test_empty_premises_and_empty_splits(width):
    length = np.zeros(40, int), lengths(40)[1]
    words = np.zeros((40, width), int), tokens(40)[1]
    units = groups_of(words[0], 3)
    how = {"tokens": words, "batch_size": 8, "seeds": (0,), "epochs": 2}
    batches = make(length, width=(width, 20), groups=units, **how)
    plan = batches.epoch(1, SEEDS)
    check_rows(plan, batches, len(SEEDS))
    for layout, index in plan:
        assert layout.width == (
            1,
            length[1].max(),
        )  # a width of 0 would leave no shape to compute with
        check_held(layout, index[0], batches)
    batches = make((np.zeros(0, int), np.zeros(0, int)))
    assert batches.once() == batches.epoch(1, SEEDS) == []
