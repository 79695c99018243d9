"""The benchmark: its corpora have the published shapes, its rows the right figures, and errors name
what is wrong."""

import json
import runpy
from dataclasses import replace
from types import SimpleNamespace

import benchmark_cases
import numpy as np
import pytest
import synthetic_corpora
from measurement import SHARED_DEVICE, SideProcess, Usage, Worker, measure_case
from support.commands import ROOT, call_script, refused
from support.compiler import FAST
from support.tables import table_rows
from throughput_table import lines, write_figure

from mednli_jax.errors import RunError, UserError

CASE = benchmark_cases.Case(
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
MACHINE = {"jax_version": "0", "torch_version": "0", "cpu": "a processor", "cpus": 2}

# -- the corpora -----------------------------------------------------------------------------------


def test_made_up_pairs_have_the_lengths_and_groups_of_mednli():
    work = synthetic_corpora.made_up_pairs(11_232, dim=4)
    train = work.rows("train")

    premise_N, hypothesis_N = work.lengths(train)
    assert premise_N.mean() == pytest.approx(20, abs=0.8)
    assert hypothesis_N.mean() == pytest.approx(5.8, abs=0.2)
    assert premise_N.max() == 50
    assert hypothesis_N.max() == 20
    assert np.bincount(work.prepared.splits["train"].label).tolist() == [3744] * 3
    assert set(np.bincount(work.premise_of[train])) == {3}
    premise_NT = work.prepared.arrays["premise"][:11_232]
    assert (premise_NT[0::3] == premise_NT[1::3]).all()


def test_made_up_pieces_have_the_length_that_was_asked_for():
    work = synthetic_corpora.made_up_pieces(60, length=64)

    premise_N, hypothesis_N = work.lengths(work.rows("train"))
    assert set(premise_N + hypothesis_N) == {61}  # and three special pieces
    assert work.prepared.manifest["pieces"]["room"] == 64


def test_made_up_passages_have_the_shape_of_clicr():
    work = synthetic_corpora.made_up_passages(4_096, tokens=300, dim=4)
    train = work.rows("train")
    arrays = work.prepared.arrays

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
    assert (arrays["query"][query_rows, arrays["blank"]] == synthetic_corpora.BLANK).all()


# -- rows, on sides that only pretend --------------------------------------------------------------

SECONDS = {"bucketed": 0.02, "chunked": 0.016}


@pytest.fixture
def rounds():
    """The rounds of pretended sides: (name, quantiles of its batches)."""
    return []


@pytest.fixture
def row_of(rounds):
    """Measures a case on sides whose examples take a known time."""

    class Pretended:
        def __init__(self, environment):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def call(self, method, *arguments):
            return getattr(self, method.__name__)(*arguments)

        def start(self, case, setting=None):
            if setting and (setting.compiled or case.model == "bow"):
                raise ValueError("no compiler")
            self.name, self.seeds = setting.style if setting else "ours", case.seeds
            return 0.5

        def run(self, positions, number):
            rounds.append((self.name, tuple(positions)))
            if self.name == "ours":
                return 0.01 if self.seeds == 1 else 0.008
            return SECONDS.get(self.name, 0.05) * (1 + number / 10)

        def end(self):
            others = 0.25 if self.name == "bucketed" else 0.01
            return Usage("cpu", "made up", mb=700, compile_seconds=1.5, others=others)

    def row(case):
        return {**measure_case(case, Pretended).json(), **MACHINE}

    return row


def test_a_row_compares_with_the_fastest_setting(row_of):
    row = row_of(CASE)

    assert row["opponent"] == "chunked"
    assert sum("no compiler" in note for note in row["notes"]) == 2
    assert row["ratio_min"] == 1.6
    assert row["ratio"] == 1.68
    assert row["ratio_max"] == 1.76  # two rounds
    assert row["examples_per_second"] == 100.0
    assert row["seconds"] == 0.6
    assert row["peak_mb"] == 700
    assert row["torch_peak_mb"] == 700
    assert row["compile_seconds"] == 1.5
    assert row["others"] == 0.25  # the most of a side
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_length_buckets_are_those_of_the_config_or_those_asked_for():
    config = benchmark_cases.config_of(CASE)
    asked = benchmark_cases.config_of(replace(CASE, buckets=4))

    assert (config.train.max_buckets, asked.train.max_buckets) == (2, 4)


def test_the_sides_of_a_round_get_equal_batches_and_change_their_order(row_of, rounds):
    row_of(CASE)

    names, batches = zip(*rounds, strict=True)
    assert names == ("ours", "bucketed", "chunked", "chunked", "bucketed", "ours")
    assert batches[0] == batches[2] != batches[3] == batches[5]


def test_without_an_opponent_nothing_is_measured(row_of):
    with pytest.raises(RunError, match=r"no compiler.*Fix: "):
        row_of(replace(CASE, model="bow"))


def test_several_seeds_stand_against_single_runs(row_of):
    row = row_of(replace(CASE, seeds=6, against="none"))

    assert row["seeds_cost"] == 0.8
    assert row["ratio"] is None
    assert row["opponent"] is None


def test_the_table_shows_the_ratio_and_the_opponents(row_of):
    titles, _, cells = (line.strip("| ").split(" | ") for line in lines([row_of(CASE)]))

    row = dict(zip(titles, cells, strict=True))
    assert row["ratio"] == "1.68"
    lacking = "no answer: bucketed, torch.compile; chunked, torch.compile"
    assert row["opponent"] == f"chunked ({lacking})"
    assert "seeds_cost" not in titles  # no row has one


def test_the_figure_of_ratios_is_a_picture(row_of, tmp_path):
    write_figure([row_of(CASE)], tmp_path / "ratios.png")

    assert (tmp_path / "ratios.png").read_bytes().startswith(b"\x89PNG")


def test_a_day_with_an_accelerator_has_a_table_of_its_rows(row_of, tmp_path):
    (tmp_path / "bow-64.jsonl").write_text(json.dumps(row_of(CASE)) + "\n")

    done = call_script("measure/measure_device.sh", tmp_path, PARTS="bow-64", AGAINST="none")

    assert done.returncode == 0, done.stderr
    assert "| 1.68 |" in (tmp_path / "table.md").read_text()


# -- real processes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, sizes",
    [
        pytest.param("ga_reader", {"tokens": 40, "hidden": 8}, marks=pytest.mark.slow),
        ("bert", {"hidden": 64, "vectors": 1, "length": 12}),
    ],
)
def test_our_side_of_other_families_predicts(monkeypatch, model, sizes):
    monkeypatch.setattr(benchmark_cases, "BERT_LAYERS", 1)
    worker = Worker()
    worker.start(replace(CASE, model=model, pairs=48, mode="predict", **sizes))

    assert worker.run([0.1], 0) > 0


def test_our_side_in_a_process_outlives_an_error(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", FAST)

    with SideProcess(SHARED_DEVICE) as side:
        with pytest.raises(UserError, match=r"max_buckets.*Fix: "):
            side.call(Worker.start, replace(CASE, buckets=9))
        assert side.call(Worker.start, replace(CASE, model="bow")) > 0
        with pytest.raises(ValueError, match="invalid literal"):
            side.call(Worker.run, "x", 0)
        assert side.call(Worker.run, [0.1, 0.6], 0) > 0
        usage = side.call(Worker.end)
    assert usage.device == "cpu"
    assert usage.mb > 50


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script():
    return SimpleNamespace(**runpy.run_path(str(ROOT / "launch" / "measure" / "throughput")))


@pytest.mark.parametrize(
    "flag, named",
    table_rows("""
        --models=gpt | --models=gpt
        --batch=8,0 | --batch
        --models=bert --grouping=premise | bert
        --figure=gs://bucket/ratios.png | --figure
        --against=torch | pip install
    """),
)
def test_a_case_that_cannot_be_measured_is_refused(script, monkeypatch, flag, named):
    monkeypatch.setitem(script.main.__globals__, "version_of", lambda package: None)

    message = refused(script, "--against=none", *flag.split())

    assert named in message
    assert " Fix: " in message


def test_help_of_the_command_names_all_models(script):
    for model in benchmark_cases.MODELS:
        assert model in script.__doc__
