"""The benchmark: corpora and figures are right, and the command says what is wrong."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler import FAST

from mednli_jax.benchmarking import cases, compare, families, flops, measure, results, worker, workload
from mednli_jax.errors import UsageError

ROOT = Path(__file__).parents[2]
# Not the suite's eight devices; the compiler's expensive passes are left out all the same.
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
    _, sizes = np.unique(work.premise_of[train], return_counts=True)
    assert set(sizes) == {3}
    assert not set(work.premise_of[train]) & set(work.premise_of[work.rows("dev")])
    for side, length in (("premise", premise), ("hypothesis", hypothesis)):
        tokens = work.arrays[side][train]
        assert ((tokens > 0).sum(axis=1) == length).all()
    # Pairs of a group have one premise, and no fewer distinct words than real text.
    assert (work.arrays["premise"][0::3][:3744] == work.arrays["premise"][1::3][:3744]).all()
    chosen = np.random.default_rng(0).choice(train, 64, replace=False)
    words = [work.arrays[side][chosen] for side in ("premise", "hypothesis")]
    assert 450 <= len(np.unique(np.concatenate([w[w > 0] for w in words]))) <= 650


def test_the_label_can_be_learned_from_the_hypothesis_alone():
    work = workload.made_up_pairs(3_000, dim=4, dev_pairs=600)
    cue, label = work.arrays["hypothesis"][:, 0], work.arrays["label"]
    train, dev = work.rows("train"), work.rows("dev")
    votes = np.zeros((cue.max() + 1, 3))
    np.add.at(votes, (cue[train], label[train]), 1)
    right = (votes[cue[dev]].argmax(axis=1) == label[dev]).mean()
    assert 0.85 < right < 0.98


def test_a_prepared_corpus(tmp_path):
    made = workload.made_up_pairs(12, dim=4, dev_pairs=6)
    for name, array in {**made.arrays, "vectors": made.vectors}.items():
        np.save(tmp_path / f"{name}.npy", array, allow_pickle=False)
    splits = {name: {"first": first, "rows": size} for name, (first, size) in made.spans.items()}
    (tmp_path / "manifest.json").write_text(json.dumps({"splits": splits, "key": {"corpus": "mednli"}}))
    work = families.workload_of({"model": "esim", "prepared": str(tmp_path)})
    assert work.spans == made.spans
    assert work.facts == {"corpus": "mednli", "pairs": 12, "dev_pairs": 6}
    same = made.premise_of[:, None] == made.premise_of
    assert ((work.premise_of[:, None] == work.premise_of) == same).all()
    (tmp_path / "label.npy").unlink()
    with pytest.raises(UsageError):
        workload.from_prepared(tmp_path)


def pieces_of(arrays, name, start, passage):
    first, end = arrays[f"{start}_start"][passage : passage + 2]
    return arrays[name][first:end]


def test_made_up_passages_have_clicrs_shape():
    work = workload.made_up_passages(4_096, tokens=300, dim=4)
    train, arrays = work.rows("train"), work.arrays
    passage, query = work.lengths(train)
    assert passage.mean() == pytest.approx(300, rel=0.05)
    assert passage.max() > 900
    assert (passage.min() >= 20, passage.max() <= 1200) == (True, True)
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
    for passage in range(10):
        tokens = pieces_of(arrays, "passage", "passage", passage)
        types = pieces_of(arrays, "candidate_type", "candidate_type", passage)
        place = pieces_of(arrays, "position", "position", passage)
        owner = pieces_of(arrays, "position_candidate", "position", passage)
        assert len(set(types)) == len(types)
        assert set(owner) == set(range(len(types)))
        assert (np.diff(owner) >= 0).all()
        assert len(set(place)) == len(place)
        for candidate in range(len(types)):
            assert len(set(tokens[place[owner == candidate]])) == 1


def test_made_up_word_pieces():
    fixed = workload.made_up_pieces(30, length=64)
    p, h = fixed.lengths(fixed.rows("train"))
    assert set(p + h + 3) == {64}
    ragged = workload.made_up_pieces(3_000, length=0)
    assert ragged.lengths(ragged.rows("train"))[0].mean() == pytest.approx(27, abs=2)
    for work in (fixed, ragged):
        for side in ("premise", "hypothesis"):
            tokens = work.arrays[side]
            assert ((tokens > 0).sum(axis=1) == work.arrays[f"{side}_length"]).all()
            assert tokens.max() < workload.PIECES
        assert (work.arrays["premise"][0] == work.arrays["premise"][2]).all()


# -- operations, by hand -----------------------------------------------------------------------------------------------


def test_flops_by_hand():
    """H = 2, D = 3, premise 5, hypothesis 4 tokens."""
    p, h, hidden, dim = 5, 4, 2, 3
    # A token: two directions, four gates of 2 numbers, each from 3 inputs and from 2 states: 2 * 8 * (3 + 2) * 2.
    encoder = 9 * 160
    head = 2 * 16 * 2 + 2 * 2 * 2 + 2 * 2 * 3
    assert flops.infersent(p, h, hidden, dim, train=False) == encoder + head
    # Training: inputs twice (no gradient for vectors), states three times.
    trained = 9 * (2 * 96 + 3 * 64) + 3 * head
    assert flops.infersent(p, h, hidden, dim, train=True) == trained
    alignment = 3 * 2 * 5 * 4 * 4
    projection, composition = 9 * 2 * 16 * 2, 9 * 2 * 8 * (2 + 2) * 2
    head = 2 * 16 * 2 + 2 * 2 * 3
    assert flops.esim(p, h, hidden, dim, train=False) == encoder + alignment + projection + composition + head
    rest = alignment + projection + composition + head
    assert flops.esim(p, h, hidden, dim, train=True) == 9 * (2 * 96 + 3 * 64) + 3 * rest
    layers = 3 * 2 * 4 * 4 + 2 * 4 * 3
    assert flops.bow(p, h, hidden, dim, train=False) == 9 * 2 * 3 * 2 + layers
    assert flops.bow(p, h, hidden, dim, train=True) == 2 * 9 * 2 * 3 * 2 + 3 * layers


def test_flops_of_groups():
    """Three pairs of a premise of 9 tokens, encoded once: 3 tokens a pair."""
    lengths, premise_of = (np.array([9, 9, 9]), np.array([4, 4, 4])), np.zeros(3, int)
    args = {"hidden": 2, "dim": 3, "train": True}
    grouped = flops.per_pair("infersent", lengths, premise_of, grouped=True, **args)
    assert grouped == flops.infersent(3, 4, 2, 3, train=True)
    assert flops.per_pair("infersent", lengths, premise_of, grouped=False, **args) == flops.infersent(
        9, 4, 2, 3, train=True
    )


def test_flops_of_readers_by_hand():
    """H = 2, D = 3, a passage of 5 tokens, a query of 4."""
    args = {"hidden": 2, "dim": 3, "train": False}
    # A token: two directions, three gates of 2 numbers, each from its inputs and 2 states: 2 * 6 * (inputs + 2) * 2.
    passage = 5 * (24 * 5 + 24 * 6 + 24 * 8)  # inputs: 3 numbers; 4; 4 and the feature's 2
    attention = 2 * 2 * 2 * 5 * 4 * 4  # two hops attend: products and sums
    assert flops.ga_reader(5, 4, **args) == passage + 3 * 4 * 24 * 5 + attention + 2 * 5 * 4
    candidates = 2 * 30 * 4
    assert flops.sa_reader(5, 4, **args) == 9 * 24 * 5 + 2 * 4 * 4 + 2 * 2 * 5 * 4 + candidates
    for count in (flops.ga_reader, flops.sa_reader):  # vectors are trained
        assert count(5, 4, **{**args, "train": True}) == 3 * count(5, 4, **args)
        assert count(5, 4, **args) - count(5, 4, share=0.5, **args) == 2.5 * 24 * 5


def test_flops_of_bert_by_hand():
    """D = 64, 5 and 4 pieces and 3 special ones."""
    layer = 12 * 2 * (4 * 64 * 64 + 2 * 64 * 256) + 2 * 2 * 12 * 12 * 64
    assert flops.bert(5, 4, 64, 1, train=False) == 6 * layer + 2 * 64 * 64 + 2 * 64 * 3


def test_mednli_costs_what_is_known_of_it():
    """About 225 MFLOP a pair in InferSent's training at MedNLI's lengths."""
    work = workload.made_up_pairs(11_232, dim=4)
    train = work.rows("train")
    cost = flops.per_pair(
        "infersent", work.lengths(train), work.premise_of[train], hidden=300, dim=300, train=True, grouped=False
    )
    assert 180e6 < cost < 240e6


# -- rounds and statistics, on contenders that only pretend ------------------------------------------------------------


class Fake:
    """A contender whose batches take a known time; `log` collects who ran."""

    log: list = []  # noqa: RUF012 - cleared by each test

    def __init__(self, side, spec, environment=None):
        self.side, self.spec, self.environment = side, spec, environment or {}
        self.facts = {"device": "cpu"}
        self.closed = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.closed = True

    def start(self):
        return 0.5

    def cpu_seconds(self):
        return 0.0

    def ask(self, do, timeout=None, **message):
        if do == "build":
            self.spec = message["spec"]
            if self.spec.get("compiled"):
                raise measure.ContenderFailed("no compiler")
        if do == "run":
            Fake.log.append((self.side, self.spec["seeds"], tuple(message["positions"]), message["number"]))
            return {"seconds": self._seconds(message["number"]), "examples": 100, "accuracy": 0.9, "reached": True}
        if do == "warm":
            return {"seconds_per_batch": self._seconds(0) * self.spec["batch"] / 100, "facts": self.facts}
        if do == "peak":
            return {"mb": 700.4, "compile_seconds": 1.5}
        return {"flops_per_second": 1e9} if do == "gemm" else {"batches": 8, "facts": self.facts}

    def _seconds(self, number):
        if self.side == "ours":
            return 1.0 if self.spec["seeds"] == 1 else 0.8
        huge = "GLIBC_TUNABLES" in self.environment
        styles = {"packed": 4.0, "chunked": 1.6 if huge else 2.0}
        return styles.get(self.spec["style"], 5.0) * (1 + number / 10)


class Quiet:
    """A machine on which others use a given share of each interval, one share after the other."""

    def __init__(self, *shares):
        self.shares, self.busy, self.total, self.calls = list(shares), 0.0, 0.0, 0

    def __call__(self):
        self.calls += 1
        if self.calls % 2 == 0:  # an interval ends
            self.total += 1000.0
            self.busy += 1000.0 * (self.shares.pop(0) if len(self.shares) > 1 else self.shares[0])
        return self.busy, self.total


def test_a_calibration_serves_the_rows_of_its_corpus_only():
    """The style found is remembered, also for several seeds; another number of pairs is another corpus."""
    calibration, tried = compare.Calibration(contender=Fake, say=lambda line: tried.append(line)), []
    small, again = calibration.fastest(CASE)[0], calibration.fastest(replace(CASE, seeds=6))[0]
    assert again is small
    count = len(tried)
    large = calibration.fastest(replace(CASE, pairs=10 * CASE.pairs))[0]
    assert (small.spec["pairs"], large.spec["pairs"]) == (CASE.pairs, 10 * CASE.pairs)
    assert len(tried) == 2 * count


def test_a_row_of_fakes():
    Fake.log.clear()
    found = compare.measure_case(CASE, compare.Calibration(contender=Fake), measure.Guard(Quiet(0.0)), contender=Fake)
    assert len(found) == 1
    row = found[0]
    assert tuple(row) == compare.KEYS
    assert row["opponent"] == "chunked, tuned malloc, huge pages"
    assert any("torch.compile" in note and "no compiler" in note for note in row["notes"])
    # Rounds of 1.6 and 1.76 seconds against 1.
    assert (row["ratio_min"], row["ratio"], row["ratio_max"]) == (1.6, 1.68, 1.76)
    assert row["examples_per_second"] == 100.0
    assert row["loaded"] is False
    operations = row["gflop_per_pair"] * 1e9
    assert row["gemm_share"] == pytest.approx(operations * 100 / 1e9, rel=1e-3)
    assert (row["peak_mb"], row["torch_peak_mb"], row["compile_seconds"]) == (700, 700, 1.5)
    json.dumps(row, allow_nan=False)
    # The last two rounds: the same batches for both, the order reversed.
    last = Fake.log[-4:]
    assert [side for side, *_ in last] == ["ours", "torch", "torch", "ours"]
    assert last[0][2] == last[1][2] != last[2][2] == last[3][2]


def test_bert_is_compiled_in_each_style():
    class Compiles(Fake):
        """Compiled, the style that is slower otherwise is the fastest."""

        def ask(self, do, timeout=None, **message):
            compiled = do == "build" and message["spec"]["compiled"]
            if compiled:
                message["spec"] = {**message["spec"], "compiled": False}
            answer = super().ask(do, timeout, **message)
            self.compiled = compiled if do == "build" else self.compiled
            return answer

        def _seconds(self, number):
            return {"eager": 3.0, "sdpa": 2.0}[self.spec["style"]] - 2 * self.compiled * (self.spec["style"] == "eager")

    row = replace(CASE, model="bert", hidden=384)
    setting, notes = compare.Calibration(contender=Compiles).fastest(row)
    assert setting.name == "eager, torch.compile, tuned malloc"
    assert (setting.spec["style"], setting.spec["compiled"]) == ("eager", True)
    assert sum("torch.compile" in note for note in notes) == 2


def test_seeds_cost_is_measured_against_single_runs():
    row = replace(CASE, seeds=6, against="none")
    found = compare.measure_case(row, compare.Calibration(contender=Fake), measure.Guard(Quiet(0.0)), contender=Fake)[0]
    assert found["seeds_cost"] == 0.8
    assert found["ratio"] is None
    assert found["opponent"] is None


def test_epochs_stand_against_the_plain_script_with_either_allocator():
    row = replace(CASE, mode="epoch")
    found = compare.measure_case(row, compare.Calibration(contender=Fake), measure.Guard(Quiet(0.0)), contender=Fake)
    assert [r["opponent"] for r in found] == ["idiomatic, default malloc", "idiomatic, tuned malloc"]


def test_positions_cover_the_epoch():
    plan = list(range(100))
    seen = set()
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
    assert measure.batches_per_round([0.001, 0.1]) == 60  # 6 seconds for the slower
    assert measure.batches_per_round([0.0, 0.0]) >= 1


def test_disturbed_rounds_are_repeated_and_marked():
    def run(machine):
        Fake.log.clear()
        _, loaded = measure.interleave(
            {"ours": Fake("ours", CASE.spec())}, rounds=2, count=2, guard=measure.Guard(machine)
        )
        return loaded, len(Fake.log)

    assert run(Quiet(0.0)) == (False, 2)
    assert run(Quiet(0.5, 0.0)) == (False, 3)  # a second attempt was quiet
    assert run(Quiet(0.5, 0.5, 0.5, 0.0)) == (True, 4)


def test_work_of_a_contender_is_not_others():
    """A contender that burns 2 of 4 busy seconds leaves 2 of 10 to others."""

    class Working(Fake):
        burnt = 0.0

        def cpu_seconds(self):
            self.burnt += 2.0
            return self.burnt

    states = iter([(100.0, 1000.0), (104.0, 1010.0)])
    guard, child = measure.Guard(lambda: next(states)), Working("ours", {})
    mark = guard.mark([child])
    assert guard.others(mark, [child]) == pytest.approx(0.2, abs=0.02)


def test_a_busy_machine_is_refused():
    with pytest.raises(UsageError):
        measure.Guard(Quiet(0.6)).check_quiet(seconds=0)
    measure.Guard(Quiet(0.1)).check_quiet(seconds=0)


def test_a_goal_not_reached_has_no_ratio():
    answers = [{"seconds": 2.0, "examples": 10, "reached": False}]
    each = measure.seconds_each(answers, whole=True)
    assert math.isnan(each[0])
    assert measure.ratio(np.array([1.0]), each) == {"ratio": None, "ratio_min": None, "ratio_max": None}
    reached = measure.seconds_each([{"seconds": 2.0, "examples": 10, "reached": True}], whole=True)
    assert measure.ratio(np.array([4.0]), reached)["ratio"] == 0.5


# -- real processes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["esim", "ga_reader", "sa_reader", "bert"])
def test_our_side_of_every_family_trains_and_predicts(model):
    small = {"hidden": 64, "vectors": 1, "length": 12} if model == "bert" else {"tokens": 40}
    ours = worker.build_contender("ours", replace(CASE, model=model, pairs=48, **small).spec())
    for mode in ("train", "predict"):
        assert ours.run(mode, ours.plan(mode)[:1]) > 0


def test_our_side_in_a_child_process():
    """build, warm, run, peak over pipes; a bad command is answered, and the process lives on."""
    with measure.Contender("ours", replace(CASE, model="bow").spec(), XLA) as child:
        assert child.start(timeout=200) > 0
        assert child.ask(do="peak")["compile_seconds"] > 0
        answer = child.ask(do="run", positions=[0.1, 0.6], number=0)
        assert 8 <= answer["examples"] <= 16
        assert answer["seconds"] > 0
        with pytest.raises(measure.ContenderFailed, match="KeyError"):
            child.ask(do="nonsense")
        assert child.ask(do="peak")["mb"] > 50
        assert child.cpu_seconds() > 0
        process = child._process
    assert process.returncode is not None
    with pytest.raises((measure.ContenderFailed, ValueError)):
        child.ask(do="peak")


def command(*arguments):
    command = [sys.executable, "-m", "mednli_jax.benchmark", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=250, env={**os.environ, **XLA})


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--models=gpt",), "E-BENCH-004"),
        (("--models=esim,ga_reader", "--mode=epoch"), "E-BENCH-009"),
        (("--models=sa_reader", "--mode=until"), "E-BENCH-009"),
        (("--models=bert", "--grouping=premise"), "E-BENCH-009"),
        (("--models=ga_reader", "--prepared=/nonexistent"), "E-BENCH-010"),
        (("--models=bert", "--hidden=300"), "E-BENCH-011"),
        (("--models=bert", "--length=5"), "E-BENCH-012"),
        (("--mode=fit",), "E-BENCH-004"),
        (("--batch=0",), "E-BENCH-006"),
        (("--seeds=many",), "E-BENCH-006"),
        (("--against=theano",), "E-BENCH-004"),
        (("--hidden=0",), "E-USE-001"),
        (("--prepared=/nonexistent", "--allow_load", "--against=none"), "E-BENCH-003"),
        (("--json=/nonexistent/rows.jsonl", "--allow_load", "--against=none"), "E-BENCH-007"),
    ],
)
def test_the_command_refuses(flags, code):
    done = command(*flags)
    assert done.returncode == 2
    assert code in done.stderr
    assert "Fix: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_command_prints_a_row():
    small = ("--models=bow", "--batch=8", "--hidden=8", "--vectors=8", "--pairs=60", "--rounds=1", "--mode=train")
    done = command(*small, "--against=none", "--allow_load", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    row = json.loads(line)
    assert set(compare.KEYS) | {"jax_version", "torch_version", "cpu", "cpus"} <= set(row)
    assert (row["model"], row["batch"], row["seeds"], row["mode"], row["grouping"]) == ("bow", 8, 1, "train", "off")
    assert row["examples_per_second"] > 0
    assert 0 < row["gemm_share"] < 1


def test_rows_have_the_sizes_of_their_models():
    from absl import flags

    from mednli_jax import benchmark

    values = flags.FlagValues()
    benchmark.define(values)
    values(["benchmark", "--models=bow,ga_reader,bert", "--mode=train"])
    sizes = [(row.model, row.batch, row.pairs, row.hidden, row.vectors) for row in cases.from_flags(values)]
    assert sizes == [
        ("bow", 64, 11_232, 300, 300), ("bow", 512, 11_232, 300, 300), ("ga_reader", 32, 4_096, 64, 200),
        ("bert", 16, 11_232, 384, 1), ("bert", 32, 11_232, 384, 1),
    ]  # fmt: skip
    values(["benchmark", "--models=ga_reader", "--batch=8", "--hidden=5", "--pairs=12", "--vectors=7"])
    row = cases.from_flags(values)[0]
    assert (row.batch, row.hidden, row.pairs, row.vectors, row.mode) == (8, 5, 12, 7, "train")


def test_without_torch_the_command_says_what_to_install(monkeypatch, capsys):
    from mednli_jax import benchmark, cli

    monkeypatch.setattr(results, "version_of", lambda package: None)
    monkeypatch.setattr(sys, "argv", ["benchmark", "--allow_load"])
    assert cli.run(benchmark.main, benchmark.USAGE, benchmark.define) == 2
    assert "E-BENCH-002" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for children in /proc")
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 3), (signal.SIGKILL, -9)])
def test_no_worker_outlives_the_command(sign, code):
    """Ctrl-C ends with 3; a parent that is killed takes its worker along."""
    # A suite run in the background hands down an ignored SIGINT.
    heeding = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, "
        "[sys.executable, '-m', 'mednli_jax.benchmark', '--models=bow', '--against=none', '--allow_load'])"
    )
    command = [sys.executable, "-c", heeding]
    environment = {**os.environ, **XLA}

    how = {"stdout": -1, "stderr": -1, "start_new_session": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **how) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        until = time.monotonic() + 100
        while parent.poll() is None and not children.read_text().strip() and time.monotonic() < until:
            time.sleep(0.05)
        child = int(children.read_text().split()[0])
        if sign == signal.SIGKILL:
            time.sleep(5.0)  # until it watches its parent
        parent.send_signal(sign)
        assert parent.wait(timeout=60) == code
    until = time.monotonic() + 60
    while Path(f"/proc/{child}").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not Path(f"/proc/{child}").exists()
