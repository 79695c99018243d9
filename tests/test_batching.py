"""Every row is seen once, all seeds share one sequence of buckets, and buckets never cost more than they save."""

import itertools

import numpy as np
import pytest

from mednli_jax.data.batching import GRAIN, Buckets, choose_buckets, epoch_plan, predict_plan

SEEDS = (0, 3, 11)
BATCH = 16


def lengths(rows=500, premise=50, hypothesis=20, seed=0):
    """Token counts with a long tail, as sentences have them."""
    rng = np.random.default_rng(seed)
    return (
        np.clip(rng.gamma(3, premise / 8, rows).astype(int) + 1, 1, premise),
        np.clip(rng.gamma(4, hypothesis / 12, rows).astype(int) + 1, 1, hypothesis),
    )


def chosen(length, *, batch_size=BATCH, most=4, limit=None):
    limit = limit or tuple(int(x.max()) for x in length)
    return choose_buckets(*length, batch_size=batch_size, limit=limit, most=most)


def padded_tokens(buckets, length):
    """Tokens of all rows after padding each to its bucket."""
    return np.array(buckets.boxes).sum(axis=1)[buckets.assign(*length)].sum()


def sequence(plan):
    return [bucket for bucket, _ in plan]


@pytest.fixture(scope="module")
def corpus():
    length = lengths()
    buckets = chosen(length)
    return length, buckets, buckets.assign(*length)


# ---- an epoch ----


def test_every_row_once_per_epoch_and_seed_in_its_own_bucket(corpus):
    bucket_of_row = corpus[2]
    for epoch in (1, 2):
        plan = epoch_plan(bucket_of_row, batch_size=BATCH, epoch=epoch, seeds=SEEDS)
        for place in range(len(SEEDS)):
            rows = np.concatenate([index[place] for _, index in plan])
            assert sorted(rows[rows >= 0]) == list(range(len(bucket_of_row)))
        for bucket, index in plan:
            assert index.shape == (len(SEEDS), BATCH)
            assert (bucket_of_row[index[index >= 0]] == bucket).all()
        # Only a bucket's last batch may hold padding.
        assert sum((index < 0).any() for _, index in plan) <= len(corpus[1].boxes)


def test_padding_stands_in_the_same_places_for_all_seeds(corpus):
    """Seeds share a program, and the loop counts a batch's rows at its first seed."""
    for _, index in epoch_plan(corpus[2], batch_size=BATCH, epoch=1, seeds=SEEDS):
        assert ((index >= 0) == (index[0] >= 0)).all()


def test_sequence_of_buckets_depends_on_the_epoch_alone(corpus):
    bucket_of_row = corpus[2]

    def of(epoch, seeds):
        return sequence(epoch_plan(bucket_of_row, batch_size=BATCH, epoch=epoch, seeds=seeds))

    assert len(set(of(1, SEEDS))) > 1
    assert of(1, SEEDS) == of(1, (3,)) == of(1, (99, 0))
    assert of(1, SEEDS) != of(2, SEEDS)
    assert sorted(of(1, SEEDS)) == sorted(of(2, SEEDS))


def test_rows_differ_by_seed_and_by_epoch(corpus):
    """No batch comes twice: it is the company of rows that changes, not only the order of the batches."""

    def batches(epoch, seed):
        plan = epoch_plan(corpus[2], batch_size=BATCH, epoch=epoch, seeds=(seed,))
        return {frozenset(index[0].tolist()) for _, index in plan if (index >= 0).all()}

    found = [batches(epoch, seed) for epoch in (1, 2, 3) for seed in SEEDS]
    assert min(map(len, found)) > 10
    assert all(a.isdisjoint(b) for a, b in itertools.combinations(found, 2))


def test_a_seed_sees_the_same_rows_whatever_seeds_train_beside_it(corpus):
    together = epoch_plan(corpus[2], batch_size=BATCH, epoch=4, seeds=SEEDS)
    alone = epoch_plan(corpus[2], batch_size=BATCH, epoch=4, seeds=(SEEDS[2],))
    for (_, rows), (_, row) in zip(together, alone, strict=True):
        np.testing.assert_array_equal(rows[2], row[0])


def test_the_plan_is_a_pure_function(corpus):
    plans = []
    for state in (1, 2):
        np.random.seed(state)  # noqa: NPY002 - the global state must not matter
        plans.append(epoch_plan(corpus[2], batch_size=BATCH, epoch=2, seeds=SEEDS))
    for (bucket, rows), (other, others) in zip(*plans, strict=True):
        assert bucket == other
        np.testing.assert_array_equal(rows, others)


# ---- prediction ----


@pytest.mark.parametrize("rows", [1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH + 5])
def test_prediction_covers_every_row_in_order(rows):
    plan = predict_plan(np.zeros(rows, int), batch_size=BATCH, first=100)
    index = np.concatenate([rows for _, rows in plan])
    assert index[index >= 0].tolist() == list(range(100, 100 + rows))
    assert {len(rows) for _, rows in plan} == {BATCH}
    assert len(plan) == -(-rows // BATCH)


def test_prediction_covers_every_row_of_every_bucket(corpus):
    bucket_of_row = corpus[2]
    plan = predict_plan(bucket_of_row, batch_size=BATCH, first=7)
    index = np.concatenate([rows for _, rows in plan])
    assert sorted(index[index >= 0]) == list(range(7, 7 + len(bucket_of_row)))
    for bucket, rows in plan:
        assert (bucket_of_row[rows[rows >= 0] - 7] == bucket).all()


# ---- buckets ----


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [1, 2, 4])
def test_boxes_are_few_round_and_fit_all_rows(seed, most):
    length = lengths(seed=seed)
    buckets = chosen(length, most=most, limit=(57, 23))
    boxes = np.array(buckets.boxes)
    assert len(boxes) <= most
    assert (boxes % GRAIN == 0).all()
    assert (boxes > 0).all()
    assert buckets.boxes[-1] == (60, 24)  # rows of other splits may be longer than the training's
    assert (boxes[buckets.assign(*length)] >= np.stack(length, axis=1)).all()


@pytest.mark.parametrize("seed", range(4))
def test_buckets_save_padding_and_more_of_them_save_more(seed):
    length = lengths(rows=2000, seed=seed)
    tokens = [padded_tokens(chosen(length, most=most), length) for most in (1, 2, 3, 4)]
    assert tokens == sorted(tokens, reverse=True)
    assert tokens[3] < 0.8 * tokens[0]
    assert tokens[3] >= sum(x.sum() for x in length)


@pytest.mark.parametrize("rows", [1, 2, 5, 20, 60, 200])
@pytest.mark.parametrize("batch_size", [4, 32, 512])
def test_buckets_never_cost_more_than_one_box(rows, batch_size):
    length = lengths(rows=rows, seed=rows)
    many, one = (chosen(length, batch_size=batch_size, most=most) for most in (4, 1))
    assert padded_tokens(many, length) <= padded_tokens(one, length)
    # Neither do the half batches that every bucket is expected to waste.
    half = [sum(sum(box) for box in buckets.boxes) * batch_size / 2 for buckets in (many, one)]
    assert padded_tokens(many, length) + half[0] <= padded_tokens(one, length) + half[1]


def test_small_corpora_get_fewer_buckets():
    """A bucket's last batch is padding in part: few rows do not pay for it."""
    sizes = [len(chosen(lengths(rows=rows), batch_size=64).boxes) for rows in (20, 200, 5000)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1
    assert sizes[-1] == 4


def test_the_choice_is_the_best_of_all_choices():
    """Against a search over every set of boxes, on a corpus of few lengths."""
    rng = np.random.default_rng(1)
    length = rng.choice([3, 8, 16], 300), rng.choice([2, 8], 300)
    edges = list(itertools.product((4, 8, 16), (4, 8)))
    costs = []
    for extra in range(4):
        for boxes in itertools.combinations([edge for edge in edges if edge != (16, 8)], extra):
            buckets = Buckets((*boxes, (16, 8)))
            costs.append(padded_tokens(buckets, length) + sum(map(sum, buckets.boxes)) * BATCH / 2)
    found = chosen(length)
    assert padded_tokens(found, length) + sum(map(sum, found.boxes)) * BATCH / 2 == min(costs)


def test_a_row_takes_the_smallest_box_that_holds_it():
    buckets = Buckets(((8, 4), (4, 12), (16, 12)))
    premise, hypothesis = np.array([8, 4, 1, 9, 16, 5]), np.array([4, 12, 1, 4, 12, 5])
    assert buckets.assign(premise, hypothesis).tolist() == [0, 1, 0, 2, 2, 2]


def test_a_row_beyond_the_largest_box_is_an_error_not_cut():
    with pytest.raises(ValueError, match="longer than the largest bucket"):
        Buckets(((8, 4),)).assign(np.array([9]), np.array([1]))


def test_empty_premises():
    """Hypothesis-only corpora: the premise still needs an axis, and every row is planned."""
    premise, hypothesis = np.zeros(40, int), lengths(rows=40)[1]
    buckets = chosen((premise, hypothesis), limit=(0, int(hypothesis.max())), batch_size=4)
    assert {box[0] for box in buckets.boxes} == {GRAIN}
    bucket_of_row = buckets.assign(premise, hypothesis)
    rows = np.concatenate([index[0] for _, index in epoch_plan(bucket_of_row, batch_size=4, epoch=1, seeds=(0,))])
    assert sorted(rows[rows >= 0]) == list(range(40))
