"""The benchmark: its corpora have the published shapes, its rows the right figures, and errors name
what is wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.commands import call_command
from support.compiler import FAST

from mednli_jax import benchmark
from mednli_jax.benchmarking import cases, measure, workload
from mednli_jax.errors import RunError

CASE = cases.Case("infersent", 8, 1, "train", "off", 60, hidden=16, vectors=12, rounds=2)


# -- the corpora -------------------------------------------------------------------------------------------------------


def test_made_up_pairs_have_mednlis_shape():
    work = workload.made_up_pairs(11_232, dim=4)
    train = work.rows("train")
    premise, hypothesis = work.lengths(train)
    assert (premise.mean(), hypothesis.mean()) == (
        pytest.approx(20, abs=0.8),
        pytest.approx(5.8, abs=0.2),
    )
    assert (premise.max(), hypothesis.max()) == (50, 20)
    assert np.bincount(work.arrays["label"][train]).tolist() == [3744] * 3
    assert set(np.bincount(work.premise_of[train])) == {3}
    # The pairs of a group share one premise, and have as many distinct words as real text.
    assert (work.arrays["premise"][0::3][:3744] == work.arrays["premise"][1::3][:3744]).all()
    chosen = np.random.default_rng(0).choice(train, 64, replace=False)
    words = [work.arrays[side][chosen] for side in ("premise", "hypothesis")]
    assert 450 <= len(np.unique(np.concatenate([w[w > 0] for w in words]))) <= 650


def test_made_up_passages_have_clicrs_shape():
    work = workload.made_up_passages(4_096, tokens=300, dim=4)
    train, arrays = work.rows("train"), work.arrays
    passage, query = work.lengths(train)
    assert (passage.mean(), query.mean()) == (
        pytest.approx(300, rel=0.05),
        pytest.approx(25, abs=0.5),
    )
    assert 20 <= passage.min() < 900 < passage.max() <= 1200
    assert np.bincount(work.premise_of[train]).tolist() == [4] * 1024
    candidates, positions = (
        np.diff(arrays[f"{name}_start"]) for name in ("candidate_type", "position")
    )
    assert (candidates.mean(), positions.mean()) == (
        pytest.approx(30, abs=1),
        pytest.approx(60, abs=2),
    )
    assert (arrays["gold"] < candidates[work.premise_of]).all()
    assert (
        arrays["query"][np.arange(len(work.premise_of)), arrays["blank"]] == workload.BLANK
    ).all()


# -- rows, on sides that only pretend ----------------------------------------------------------------------------------


class Fake:
    """A side whose examples take a known time. log: its rounds, as (name, quantiles of its
    batches)."""

    log = []  # noqa: RUF012

    def __init__(self, environment):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def start(self, case, setting=None):
        if setting and setting.compiled:
            raise ValueError("no compiler")
        self.name, self.seeds = setting.style if setting else "ours", case.seeds
        return measure.Started(0.5, "cpu")

    def run(self, positions, number):
        Fake.log.append((self.name, tuple(positions)))
        if self.name == "ours":
            return 0.01 if self.seeds == 1 else 0.008
        return {"bucketed": 0.02, "chunked": 0.016}.get(self.name, 0.05) * (1 + number / 10)

    def end(self):
        return measure.Usage("made up", pairs=60, mb=700, compile_seconds=1.5)


class Broken(Fake):
    def start(self, case, setting=None):
        return super().start(case, setting and cases.Setting(setting.style, True))


def rows_of(case):
    Fake.log.clear()
    return measure.measure_case(case, Fake)


def test_a_row_compares_with_the_fastest_setting():
    (row,) = rows_of(CASE)
    assert row.opponent == "chunked"
    assert sum("no compiler" in note for note in row.notes) == 2
    assert (row.ratio_min, row.ratio, row.ratio_max) == (1.6, 1.68, 1.76)  # two rounds
    assert (row.examples_per_second, row.seconds) == (100.0, 0.6)
    assert (row.peak_mb, row.torch_peak_mb, row.compile_seconds) == (700, 700, 1.5)
    json.dumps(vars(row), allow_nan=False)
    # The sides of a round get the same batches, those of another round others, in reversed order.
    assert [name for name, _ in Fake.log] == [
        "ours",
        "bucketed",
        "chunked",
        "chunked",
        "bucketed",
        "ours",
    ]
    assert Fake.log[0][1] == Fake.log[2][1] != Fake.log[3][1] == Fake.log[5][1]
    with pytest.raises(RunError, match=r"no compiler.*Fix: "):
        measure.measure_case(CASE, Broken)


def test_several_seeds_stand_against_single_runs_and_epochs_against_the_plain_script_too():
    (row,) = rows_of(replace(CASE, seeds=6, against="none"))
    assert (row.seeds_cost, row.ratio, row.opponent) == (0.8, None, None)
    assert [row.opponent for row in rows_of(replace(CASE, mode="epoch"))] == [
        "plain script",
        "chunked",
    ]


def test_the_table_and_the_figure_show_the_ratios(tmp_path):
    rows, path = rows_of(CASE), tmp_path / "ratios.png"
    titles, _, cells = (line.strip("| ").split(" | ") for line in benchmark.lines(rows))
    cells = dict(zip(titles, cells, strict=True))
    assert cells["ratio"] == "1.68"
    assert (
        cells["opponent"] == "chunked (no answer: bucketed, torch.compile; chunked, torch.compile)"
    )
    benchmark.write_figure(rows, path)
    assert path.read_bytes().startswith(b"\x89PNG")


# -- real processes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [pytest.param("ga_reader", marks=pytest.mark.slow), "bert"])
def test_our_side_of_other_families_predicts(model):
    small = (
        {"hidden": 64, "vectors": 1, "length": 12}
        if model == "bert"
        else {"tokens": 40, "hidden": 8}
    )
    worker = measure.Worker()
    worker.start(replace(CASE, model=model, pairs=48, mode="predict", **small))
    assert worker.run([0.1], 0) > 0


def test_our_side_in_a_process(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", FAST)
    with measure.Side({}) as side:
        started = side.start(replace(CASE, model="bow"))
        assert (started.seconds > 0, started.device) == (True, "cpu")
        assert side.run([0.1, 0.6], 0) > 0
        with pytest.raises(ValueError, match="invalid literal"):  # the process lives on
            side.run("x", 0)
        assert side.end().mb > 50


@pytest.mark.parametrize(
    ("argument", "named"),
    [("--models=gpt", "--models"), ("--batch=0", "--batch"), ("--against=torch", "pip install")],
)
def test_the_command_refuses(monkeypatch, argument, named):
    monkeypatch.setattr(benchmark, "version_of", lambda package: None)
    code, _, err = call_command(benchmark, "--against=none", argument)
    assert (code, named in err, " Fix: " in err) == (2, True, True)
