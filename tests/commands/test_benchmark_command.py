"""The benchmark: its corpora and figures are right, calibration ends in time, and errors name what is wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from absl import flags
from compiler import FAST

from mednli_jax import benchmark, cli
from mednli_jax.benchmarking import cases, compare, families, flops, measure, results, worker, workload
from mednli_jax.errors import RunError, UsageError

ROOT = Path(__file__).parents[2]
# Without the suite's eight devices, but also without the compiler's expensive passes.
XLA = {"XLA_FLAGS": FAST}
CASE = cases.Case("infersent", 8, 1, "train", "off", 60, hidden=16, vectors=12, rounds=2)


# -- the workload ------------------------------------------------------------------------------------------------------


def test_made_up_pairs_have_mednlis_shape():
    work = workload.made_up_pairs(11_232, dim=4)
    train = work.rows("train")
    premise, hypothesis = work.lengths(train)
    assert premise.mean() == pytest.approx(20, abs=0.8)
    assert hypothesis.mean() == pytest.approx(5.8, abs=0.2)
    assert (premise.max(), hypothesis.max()) == (50, 20)
    assert min(premise.min(), hypothesis.min()) >= 1
    assert np.bincount(work.arrays["label"][train]).tolist() == [3744] * 3
    assert set(np.bincount(work.premise_of[train])) == {3}
    assert not set(work.premise_of[train]) & set(work.premise_of[work.rows("dev")])
    for side, length in (("premise", premise), ("hypothesis", hypothesis)):
        assert ((work.arrays[side][train] > 0).sum(axis=1) == length).all()
    # The pairs of a group share one premise, and have as many distinct words as real text.
    assert (work.arrays["premise"][0::3][:3744] == work.arrays["premise"][1::3][:3744]).all()
    chosen = np.random.default_rng(0).choice(train, 64, replace=False)
    words = [work.arrays[side][chosen] for side in ("premise", "hypothesis")]
    assert 450 <= len(np.unique(np.concatenate([w[w > 0] for w in words]))) <= 650


def test_a_prepared_corpus(tmp_path):
    made = workload.made_up_pairs(12, dim=4, dev_pairs=6)
    for name, array in {**made.arrays, "vectors": made.vectors}.items():
        np.save(tmp_path / f"{name}.npy", array, allow_pickle=False)
    splits = {name: {"first": first, "rows": size} for name, (first, size) in made.spans.items()}
    (tmp_path / "manifest.json").write_text(json.dumps({"splits": splits, "key": {"corpus": "mednli"}}))
    work = families.workload_of({"model": "esim", "prepared": str(tmp_path)})
    assert work.spans == made.spans
    assert work.facts == {"corpus": "mednli", "rows": [12, 6]}
    same = made.premise_of[:, None] == made.premise_of
    assert ((work.premise_of[:, None] == work.premise_of) == same).all()
    (tmp_path / "label.npy").unlink()
    with pytest.raises(UsageError, match=str(tmp_path)):
        workload.from_prepared(tmp_path)


def test_made_up_passages_have_clicrs_shape():
    work = workload.made_up_passages(4_096, tokens=300, dim=4)
    train, arrays = work.rows("train"), work.arrays
    passage, query = work.lengths(train)
    assert passage.mean() == pytest.approx(300, rel=0.05)
    assert 20 <= passage.min() < 900 < passage.max() <= 1200
    assert query.mean() == pytest.approx(25, abs=0.5)
    assert np.bincount(work.premise_of[train]).tolist() == [4] * 1024
    assert not set(work.premise_of[train]) & set(work.premise_of[work.rows("dev")])
    sizes = {name: np.diff(arrays[f"{name}_start"]) for name in ("passage", "candidate_type", "position")}
    assert sizes["candidate_type"].mean() == pytest.approx(30, abs=1)
    assert sizes["position"].mean() == pytest.approx(60, abs=2)
    assert (sizes["passage"][work.premise_of] == arrays["premise_length"]).all()
    assert ((arrays["gold"] >= 0) & (arrays["gold"] < sizes["candidate_type"][work.premise_of])).all()
    assert (arrays["query"][np.arange(len(work.premise_of)), arrays["blank"]] == workload.BLANK).all()
    assert ((arrays["query"] > 0).sum(axis=1) == arrays["query_length"]).all()


def test_each_candidate_of_a_made_up_passage_is_marked_where_its_word_stands():
    arrays = workload.made_up_passages(40, tokens=100, dim=4).arrays
    names = ("passage", "candidate_type", "position", "position_candidate")
    for passage in range(10):
        spans = (arrays[f"{name.removesuffix('_candidate')}_start"][passage : passage + 2] for name in names)
        tokens, types, place, owner = (arrays[name][slice(*span)] for name, span in zip(names, spans, strict=True))
        assert len(set(types)) == len(types)
        assert set(owner) == set(range(len(types)))
        assert (np.diff(owner) >= 0).all()
        assert len(set(place)) == len(place)
        assert all(len(set(tokens[place[owner == candidate]])) == 1 for candidate in range(len(types)))


def test_made_up_word_pieces():
    fixed, ragged = workload.made_up_pieces(30, length=64), workload.made_up_pieces(3_000, length=0)
    p, h = fixed.lengths(fixed.rows("train"))
    assert set(p + h + 3) == {64}
    assert ragged.lengths(ragged.rows("train"))[0].mean() == pytest.approx(27, abs=2)
    for work in (fixed, ragged):
        for side in ("premise", "hypothesis"):
            assert ((work.arrays[side] > 0).sum(axis=1) == work.arrays[f"{side}_length"]).all()
            assert work.arrays[side].max() < workload.PIECES
        assert (work.arrays["premise"][0] == work.arrays["premise"][2]).all()


# -- operations, by hand -----------------------------------------------------------------------------------------------


def test_flops_by_hand():
    """H = 2, D = 3, a premise of 5 tokens and a hypothesis of 4."""
    sizes = {"p": 5, "h": 4, "hidden": 2, "dim": 3}
    # A token: two directions have four gates of 2 numbers each, from 3 inputs and 2 states: 2 * 8 * (3 + 2) * 2.
    # Training: products of inputs count twice (vectors have no gradient), all others three times.
    encoder, trained = 9 * 160, 9 * (2 * 96 + 3 * 64)
    head = 2 * 16 * 2 + 2 * 2 * 2 + 2 * 2 * 3
    assert flops.of_pair("infersent", **sizes, train=False) == encoder + head
    assert flops.of_pair("infersent", **sizes, train=True) == trained + 3 * head
    alignment, projection, composition = 3 * 2 * 5 * 4 * 4, 9 * 2 * 16 * 2, 9 * 2 * 8 * (2 + 2) * 2
    rest = alignment + projection + composition + 2 * 16 * 2 + 2 * 2 * 3
    assert flops.of_pair("esim", **sizes, train=False) == encoder + rest
    assert flops.of_pair("esim", **sizes, train=True) == trained + 3 * rest
    layers = 3 * 2 * 4 * 4 + 2 * 4 * 3
    assert flops.of_pair("bow", **sizes, train=False) == 9 * 2 * 3 * 2 + layers
    assert flops.of_pair("bow", **sizes, train=True) == 2 * 9 * 2 * 3 * 2 + 3 * layers
    # A token of the readers has three gates: 2 * 6 * (inputs + 2) * 2. The inputs are 3 numbers; 4; 4 and the feature's
    # 2.
    passage, attention = 5 * (24 * 5 + 24 * 6 + 24 * 8), 2 * 2 * 2 * 5 * 4 * 4  # two hops: products and sums
    assert flops.of_pair("ga_reader", **sizes, train=False) == passage + 3 * 4 * 24 * 5 + attention + 2 * 5 * 4
    forward = 9 * 24 * 5 + 2 * 4 * 4 + 2 * 2 * 5 * 4 + 2 * 30 * 4  # the last term: candidates
    assert flops.of_pair("sa_reader", **sizes, train=False) == forward
    for model in ("ga_reader", "sa_reader"):  # the vectors are trained, too
        forward = flops.of_pair(model, **sizes, train=False)
        assert flops.of_pair(model, **sizes, train=True) == 3 * forward
        assert forward - flops.of_pair(model, **sizes, train=False, share=0.5) == 2.5 * 24 * 5
    layer = 12 * 2 * (4 * 64 * 64 + 2 * 64 * 256) + 2 * 2 * 12 * 12 * 64  # 5 and 4 pieces, and 3 special pieces
    assert flops.of_pair("bert", 5, 4, hidden=64, dim=1, train=False) == 6 * layer + 2 * 64 * 64 + 2 * 64 * 3


def test_flops_of_corpora():
    """Three pairs share one premise of 9 tokens: 3 tokens a pair. InferSent takes about 225 MFLOP on MedNLI."""
    lengths, premise_of = (np.array([9, 9, 9]), np.array([4, 4, 4])), np.zeros(3, int)
    args = {"hidden": 2, "dim": 3, "train": True}
    for grouped, tokens in ((True, 3), (False, 9)):
        found = flops.per_pair("infersent", lengths, premise_of, grouped=grouped, **args)
        assert found == flops.of_pair("infersent", tokens, 4, **args)
    work = workload.made_up_pairs(11_232, dim=4)
    train, args = work.rows("train"), {"hidden": 300, "dim": 300, "train": True, "grouped": False}
    assert 180e6 < flops.per_pair("infersent", work.lengths(train), work.premise_of[train], **args) < 240e6


# -- rounds and statistics, on sides that only pretend -----------------------------------------------------------------


class Fake:
    """A side whose batches take a known time. log: the calls. now: the time that all sides have taken together."""

    log, now = [], 0.0
    tokens = {"bucketed": 30.0, "chunked": 50.0}  # noqa: RUF012 - a second

    def __init__(self, environment=None):
        self.name, self.spec = "", {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def cpu_seconds(self):
        return 0.0

    def ask(self, do, timeout=None, **message):
        return getattr(self, do)(timeout, **message)

    def estimate(self, timeout, spec, seconds):
        if spec["compiled"]:
            raise measure.SideFailed("no compiler")
        Fake.log.append(("estimate", spec["style"], spec["pairs"]))
        return {"tokens_per_second": self.tokens[spec["style"]]}

    def start(self, timeout, name, spec):
        self.name, self.spec = name, spec
        return {"seconds_per_batch": 0.5, "device": "cpu"}

    def run(self, timeout, positions, number):
        Fake.log.append((self.name, self.spec["seeds"], tuple(positions), number))
        seconds = (1.0 if self.spec["seeds"] == 1 else 0.8) if self.name == "ours" else 1.6 * (1 + number / 10)
        return {"seconds": seconds, "examples": 100}

    def peak(self, timeout):
        return {"mb": 700.4, "compile_seconds": 1.5}

    def gemm(self, timeout):
        return {"flops_per_second": 1e9}


class Slow(Fake):
    """An estimate takes `seconds`, or the timeout if that is shorter."""

    seconds = 12.0

    def estimate(self, timeout, spec, seconds):
        Fake.now += min(self.seconds, timeout)
        if self.seconds > timeout:
            raise measure.SideFailed("no answer")
        return {"tokens_per_second": 10.0 if spec["style"] == "bucketed" else 20.0}


def quiet(*shares):
    """A machine on which other processes use these shares of successive intervals; the last share goes on for ever."""
    busy = np.cumsum([0.0] + [1000 * shares[min(i, len(shares) - 1)] for i in range(50)])
    for i in range(50):
        yield busy[i], 1000.0 * i
        yield busy[i + 1], 1000.0 * (i + 1)


def guard(*shares):
    states = quiet(*shares)
    return measure.Guard(lambda: next(states))


def rows_of(case, side=Fake):
    Fake.log, Fake.now = [], 0.0
    return compare.measure_case(case, compare.Calibration(side), guard(0.0), side)


def test_a_row_of_fakes():
    (row,) = rows_of(CASE)
    assert tuple(row) == compare.KEYS
    assert row["opponent"] == "chunked, tuned malloc"
    assert any("torch.compile" in note and "no compiler" in note for note in row["notes"])
    # Rounds of 1.6 and 1.76 seconds against 1 second.
    assert (row["ratio_min"], row["ratio"], row["ratio_max"]) == (1.6, 1.68, 1.76)
    assert (row["examples_per_second"], row["loaded"]) == (100.0, False)
    assert row["gemm_share"] == pytest.approx(row["gflop_per_pair"] * 1e9 * 100 / 1e9, rel=1e-3)
    assert (row["peak_mb"], row["torch_peak_mb"], row["compile_seconds"]) == (700, 700, 1.5)
    json.dumps(row, allow_nan=False)
    # The last two rounds give both sides the same batches, in reversed order.
    last = Fake.log[-4:]
    assert [side for side, *_ in last] == ["ours", "pytorch", "pytorch", "ours"]
    assert last[0][2] == last[1][2] != last[2][2] == last[3][2]


def test_a_calibration_serves_the_rows_of_its_corpus_only():
    """A setting that was found is kept, also for several seeds. Another number of pairs is another corpus."""
    Fake.log, calibration = [], compare.Calibration(Fake)
    for case in (CASE, replace(CASE, seeds=6), replace(CASE, pairs=10 * CASE.pairs)):
        calibration.fastest(case)
    assert [pairs for _, _, pairs in Fake.log] == [60, 60, 600, 600]
    assert calibration.fastest(replace(CASE, model="bow"))[0].style == "distinct"  # this model has one style only
    assert len(Fake.log) == 4


@pytest.mark.parametrize(
    ("seconds", "style", "timed"), [(4.0, "chunked", 4), (12.0, "bucketed", 1), (30.0, "bucketed", 0)]
)
def test_calibration_ends_in_time(monkeypatch, seconds, style, timed):
    """Calibration compares the settings that it could time; if it timed none, it takes the first."""
    monkeypatch.setattr(Slow, "seconds", seconds)
    Fake.now = 0.0
    setting, notes = compare.Calibration(Slow, clock=lambda: Fake.now).fastest(CASE)
    assert Fake.now <= compare.CALIBRATION_SECONDS <= 20
    assert (setting.style, sum("tokens/s" in note for note in notes)) == (style, timed)


def test_several_seeds_are_measured_against_single_runs():
    (row,) = rows_of(replace(CASE, seeds=6, against="none"))
    assert (row["seeds_cost"], row["ratio"], row["opponent"]) == (0.8, None, None)


def test_epochs_stand_against_the_plain_script_with_either_allocator():
    found = [row["opponent"] for row in rows_of(replace(CASE, mode="epoch"))]
    assert found == ["plain script, default malloc", "plain script, tuned malloc"]
    grouped = [row["opponent"] for row in rows_of(replace(CASE, mode="epoch", grouping="premise"))]
    assert grouped[0] == "plain script, default malloc"
    assert len(grouped) == 2
    assert "plain script" not in grouped[1]


def test_the_figure_shows_the_ratios_and_says_where_none_is(tmp_path, capsys):
    rows, path = rows_of(CASE), tmp_path / "ratios.png"
    results.write_figure(rows, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
    path.unlink()
    results.write_figure([{**row, "ratio": None} for row in rows], str(path))
    assert not path.exists()
    assert "warning" in capsys.readouterr().err


def test_positions_cover_the_epoch():
    plan, seen = list(range(100)), set()
    for number in range(8):
        where = measure.positions(number, 10)
        chosen = worker.sample(plan, where)
        assert len(set(chosen)) == 10
        assert all(0 <= p < 1 for p in where)
        assert abs(np.mean(chosen) - 49.5) <= 5
        seen |= set(chosen)
    assert len(seen) > 60
    assert worker.sample([7], [0.0, 0.999]) == [7, 7]


def test_a_round_is_long_enough_for_the_faster():
    assert measure.batches_per_round([0.1, 0.3]) * 0.1 >= measure.ROUND_SECONDS
    assert measure.batches_per_round([0.001, 0.1]) == 60  # 6 seconds for the slower side
    assert measure.batches_per_round([0.0, 0.0]) >= 1


@pytest.mark.parametrize(("shares", "loaded", "runs"), [
    ((0.0,), False, 2), ((0.5, 0.0), False, 3), ((0.5, 0.5, 0.5, 0.0), True, 4),
])  # fmt: skip
def test_disturbed_rounds_are_repeated_and_marked(shares, loaded, runs):
    side, Fake.log = Fake(), []
    side.start(None, "ours", CASE.spec())
    _, found = measure.interleave({"ours": side}, rounds=2, count=2, guard=guard(*shares))
    assert (found, len(Fake.log)) == (loaded, runs)


def test_work_of_a_side_is_not_others(monkeypatch):
    """10 s with 4 busy ones: a side that used 2 of these leaves .2 of the time to other processes."""
    burnt, states = iter([2.0, 4.0]), iter([(100.0, 1000.0), (104.0, 1010.0)])
    monkeypatch.setattr(Fake, "cpu_seconds", lambda self: next(burnt))
    watch, side = measure.Guard(lambda: next(states)), Fake()
    assert watch.others(watch.mark([side]), [side]) == pytest.approx(0.2, abs=0.02)


def test_a_busy_machine_is_refused():
    with pytest.raises(RunError):
        guard(0.6).check_quiet(seconds=0)
    guard(0.1).check_quiet(seconds=0)


# -- real processes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["esim", "ga_reader", "sa_reader", "bert"])
def test_our_side_of_every_family_trains_and_predicts(model):
    small = {"hidden": 64, "vectors": 1, "length": 12} if model == "bert" else {"tokens": 40}
    ours = worker.build_side("ours", replace(CASE, model=model, pairs=48, **small).spec())
    for mode in ("train", "predict"):
        assert ours.run(mode, ours.plan(mode)[:1]) > 0


def test_our_side_in_a_child_process():
    """The process answers a bad command with an error and lives on. A dead process is reported."""
    with measure.Side(XLA) as child:
        started = child.ask("start", name="ours", spec=replace(CASE, model="bow").spec(), timeout=200)
        assert started["seconds_per_batch"] > 0
        assert child.ask("peak")["compile_seconds"] > 0
        answer = child.ask("run", positions=[0.1, 0.6], number=0)
        assert 8 <= answer["examples"] <= 16
        assert answer["seconds"] > 0
        with pytest.raises(measure.SideFailed, match="KeyError"):
            child.ask("nonsense")
        assert child.ask("peak")["mb"] > 50
        assert child.cpu_seconds() > 0
    with pytest.raises((measure.SideFailed, ValueError)):
        child.ask("peak")


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    monkeypatch.setenv("XLA_FLAGS", XLA["XLA_FLAGS"])  # for the worker processes
    return cli.run(benchmark.main, benchmark.USAGE, benchmark.define)


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (("--models=gpt",), "--models"),
        (("--models=bow", "--against=none", "--allow_load", "--figure=ratios.jpg"), "--figure=ratios.jpg"),
        (("--models=bow", "--against=none", "--allow_load", "--figure=/nonexistent/a.png"), "--figure=/nonexistent"),
        (("--models=bert", "--grouping=premise"), "--grouping=premise"),
        (("--models=ga_reader", "--prepared=/nonexistent"), "--prepared"),
        (("--models=bert", "--hidden=300"), "--hidden=300"),
        (("--models=bert", "--length=5"), "--length=5"),
        (("--mode=fit",), "--mode"),
        (("--batch=0",), "--batch=0"),
        (("--seeds=many",), "--seeds=many"),
        (("--against=theano",), "--against"),
        (("--hidden=0",), "hidden"),
        (("--json=/nonexistent/rows.jsonl", "--allow_load", "--against=none"), "--json=/nonexistent/rows.jsonl"),
        (("--prepared=/nonexistent", "--allow_load", "--against=none"), "--prepared=/nonexistent"),
    ],
)
def test_the_command_refuses(monkeypatch, capfd, arguments, flag):
    assert command(monkeypatch, *arguments) == 2
    line = capfd.readouterr().err.splitlines()[-1]
    assert flag in line
    assert "Fix: " in line


def test_without_torch_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(results, "version_of", lambda package: None)
    assert command(monkeypatch, "--allow_load") == 2
    assert "pip install" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_prints_a_row(monkeypatch, capfd):
    small = ("--models=bow", "--batch=8", "--hidden=8", "--vectors=8", "--pairs=60", "--rounds=1", "--mode=train")
    assert command(monkeypatch, *small, "--against=none", "--allow_load", "--json") == 0
    (line,) = capfd.readouterr().out.splitlines()
    row = json.loads(line)
    assert set(compare.KEYS) | {"jax_version", "torch_version", "cpu", "cpus"} <= set(row)
    assert (row["model"], row["batch"], row["seeds"], row["mode"], row["grouping"]) == ("bow", 8, 1, "train", "off")
    assert row["examples_per_second"] > 0
    assert 0 < row["gemm_share"] < 1


def test_rows_have_the_sizes_of_their_models():
    def sizes(*arguments):
        values = flags.FlagValues()
        benchmark.define(values)
        values(["benchmark", "--mode=train", *arguments])
        return [(row.model, row.batch, row.pairs, row.hidden, row.vectors) for row in cases.from_flags(values)]

    assert sizes("--models=bow,ga_reader,bert") == [
        ("bow", 64, 11_232, 300, 300), ("bow", 512, 11_232, 300, 300), ("ga_reader", 32, 4_096, 64, 200),
        ("bert", 16, 11_232, 384, 1), ("bert", 32, 11_232, 384, 1),
    ]  # fmt: skip
    own = ("--models=ga_reader", "--batch=8", "--hidden=5", "--pairs=12", "--vectors=7")
    assert sizes(*own) == [("ga_reader", 8, 12, 5, 7)]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for children in /proc")
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 3), (signal.SIGKILL, -9)])
def test_no_worker_outlives_the_command(sign, code):
    """Ctrl-C ends the command with 3. If the command is killed, its worker ends, too."""
    # A suite that runs in the background passes an ignored SIGINT on to its children.
    heeding = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, "
        "[sys.executable, '-m', 'mednli_jax.benchmark', '--models=bow', '--against=none', '--allow_load'])"
    )
    how = {"stdout": -1, "stderr": -1, "start_new_session": True, "cwd": ROOT, "env": {**os.environ, **XLA}}
    with subprocess.Popen([sys.executable, "-c", heeding], **how) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        until = time.monotonic() + 100
        while parent.poll() is None and not children.read_text().strip() and time.monotonic() < until:
            time.sleep(0.05)
        child = int(children.read_text().split()[0])
        if sign == signal.SIGKILL:
            time.sleep(5.0)  # until the worker watches its parent
        parent.send_signal(sign)
        assert parent.wait(timeout=60) == code
    until = time.monotonic() + 60
    while Path(f"/proc/{child}").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not Path(f"/proc/{child}").exists()
