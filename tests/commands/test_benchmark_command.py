"""The benchmark: its corpora have the published shapes, its rows the right figures, and errors name
what is wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.commands import refused
from support.compiler import FAST

from mednli_jax import benchmark
from mednli_jax.benchmarking import cases, measure
from mednli_jax.errors import RunError

CASE = cases.Case(
    "infersent",
    8,
    1,
    "train",
    "off",
    60,
    hidden=16,
    vectors=12,
    rounds=2,
)

# -- the corpora -----------------------------------------------------------------------------------


def test_made_up_pairs_have_the_lengths_and_groups_of_mednli():
    work = cases.made_up_pairs(11_232, dim=4)
    train = work.rows("train")

    premise_N, hypothesis_N = work.lengths(train)
    assert premise_N.mean() == pytest.approx(20, abs=0.8)
    assert hypothesis_N.mean() == pytest.approx(5.8, abs=0.2)
    assert premise_N.max() == 50
    assert hypothesis_N.max() == 20
    assert np.bincount(work.arrays["label"][train]).tolist() == [3744] * 3
    assert set(np.bincount(work.premise_of[train])) == {3}
    premise_NT = work.arrays["premise"][:11_232]
    assert (premise_NT[0::3] == premise_NT[1::3]).all()


def test_a_batch_of_made_up_pairs_has_as_many_distinct_words_as_real_text():
    work = cases.made_up_pairs(11_232, dim=4)
    batch = np.random.default_rng(0).choice(work.rows("train"), 64, replace=False)

    words = set()
    for side in ("premise", "hypothesis"):
        words.update(work.arrays[side][batch].flat)
    assert 450 <= len(words - {0}) <= 650


def test_made_up_passages_have_the_shape_of_clicr():
    work = cases.made_up_passages(4_096, tokens=300, dim=4)
    train = work.rows("train")
    arrays = work.arrays

    passage_P, query_Q = work.lengths(train)
    assert passage_P.mean() == pytest.approx(300, rel=0.05)
    assert query_Q.mean() == pytest.approx(25, abs=0.5)
    assert 20 <= passage_P.min() < 900 < passage_P.max() <= 1200
    assert np.bincount(work.premise_of[train]).tolist() == [4] * 1024
    candidates_P = np.diff(arrays["candidate_type_start"])
    positions_P = np.diff(arrays["position_start"])
    assert candidates_P.mean() == pytest.approx(30, abs=1)
    assert positions_P.mean() == pytest.approx(60, abs=2)
    assert (arrays["gold"] < candidates_P[work.premise_of]).all()
    query_rows = np.arange(len(work.premise_of))
    assert (arrays["query"][query_rows, arrays["blank"]] == cases.BLANK).all()


# -- rows, on sides that only pretend --------------------------------------------------------------

SECONDS = {"bucketed": 0.02, "chunked": 0.016}


@pytest.fixture
def rounds():
    """The rounds of pretended sides: (name, quantiles of its batches)."""
    return []


@pytest.fixture
def rows_of(rounds):
    """Measures a case on sides whose examples take a known time."""

    class Pretended:
        def __init__(self, environment):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def start(self, case, setting=None):
            if setting and (setting.compiled or case.model == "bow"):
                raise ValueError("no compiler")
            self.name, self.seeds = setting.style if setting else "ours", case.seeds
            return measure.Started(0.5, "cpu")

        def run(self, positions, number):
            rounds.append((self.name, tuple(positions)))
            if self.name == "ours":
                return 0.01 if self.seeds == 1 else 0.008
            return SECONDS.get(self.name, 0.05) * (1 + number / 10)

        def end(self):
            others = 0.25 if self.name == "bucketed" else 0.01
            return measure.Usage("made up", 60, mb=700, compile_seconds=1.5, others=others)

    return lambda case: measure.measure_case(case, Pretended)


def test_a_row_compares_with_the_fastest_setting(rows_of):
    (row,) = rows_of(CASE)

    assert row.opponent == "chunked"
    assert sum("no compiler" in note for note in row.notes) == 2
    assert row.ratio_min == 1.6
    assert row.ratio == 1.68
    assert row.ratio_max == 1.76  # two rounds
    assert row.examples_per_second == 100.0
    assert row.seconds == 0.6
    assert row.peak_mb == 700
    assert row.torch_peak_mb == 700
    assert row.compile_seconds == 1.5
    assert row.others == 0.25  # the most of a side
    json.dumps(vars(row), allow_nan=False)


def test_length_buckets_are_those_of_the_config_or_those_asked_for(rows_of):
    config, (row,) = cases.config_of(CASE), rows_of(CASE)
    asked = replace(CASE, buckets=4)

    assert (config.train.max_buckets, row.buckets) == (2, None)
    assert cases.config_of(asked).train.max_buckets == rows_of(asked)[0].buckets == 4


def test_the_sides_of_a_round_get_equal_batches_and_change_their_order(rows_of, rounds):
    rows_of(CASE)

    names, batches = zip(*rounds, strict=True)
    assert names == ("ours", "bucketed", "chunked", "chunked", "bucketed", "ours")
    assert batches[0] == batches[2] != batches[3] == batches[5]


def test_without_an_opponent_nothing_is_measured(rows_of):
    with pytest.raises(RunError, match=r"no compiler.*Fix: "):
        rows_of(replace(CASE, model="bow"))


def test_several_seeds_stand_against_single_runs(rows_of):
    (row,) = rows_of(replace(CASE, seeds=6, against="none"))

    assert row.seeds_cost == 0.8
    assert row.ratio is None
    assert row.opponent is None


def test_epochs_stand_against_the_plain_script_too(rows_of):
    rows = rows_of(replace(CASE, mode="epoch"))

    assert [row.opponent for row in rows] == ["plain script", "chunked"]


def test_the_table_shows_the_ratio_and_the_opponents(rows_of):
    titles, _, cells = (line.strip("| ").split(" | ") for line in benchmark.lines(rows_of(CASE)))

    row = dict(zip(titles, cells, strict=True))
    assert row["ratio"] == "1.68"
    lacking = "no answer: bucketed, torch.compile; chunked, torch.compile"
    assert row["opponent"] == f"chunked ({lacking})"


def test_the_figure_of_ratios_is_a_picture(rows_of, tmp_path):
    benchmark.write_figure(rows_of(CASE), tmp_path / "ratios.png")

    assert (tmp_path / "ratios.png").read_bytes().startswith(b"\x89PNG")


# -- real processes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, sizes",
    [
        pytest.param("ga_reader", {"tokens": 40, "hidden": 8}, marks=pytest.mark.slow),
        ("bert", {"hidden": 64, "vectors": 1, "length": 12}),
    ],
)
def test_our_side_of_other_families_predicts(model, sizes):
    worker = measure.Worker()
    worker.start(replace(CASE, model=model, pairs=48, mode="predict", **sizes))

    assert worker.run([0.1], 0) > 0


def test_our_side_in_a_process_outlives_an_error(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", FAST)

    with measure.Side({}) as side:
        started = side.start(replace(CASE, model="bow"))
        assert started.seconds > 0
        assert started.device == "cpu"
        with pytest.raises(ValueError, match="invalid literal"):
            side.run("x", 0)
        assert side.run([0.1, 0.6], 0) > 0
        assert side.end().mb > 50


@pytest.mark.parametrize(
    "flag, named",
    [
        ("--models=gpt", "--models"),
        ("--batch=0", "--batch"),
        ("--against=torch", "pip install"),
    ],
)
def test_a_case_that_cannot_be_measured_is_refused(monkeypatch, flag, named):
    monkeypatch.setattr(benchmark, "version_of", lambda package: None)

    message = refused("benchmark --against=none", flag)

    assert named in message
    assert " Fix: " in message
