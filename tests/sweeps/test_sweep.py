"""Sweeps: the trials of a product and of a search, the study that workers share, and the script with fake training."""

import itertools
import json
import os
import random
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from mednli_jax import cli
from mednli_jax.errors import ConfigError, RunError
from mednli_jax.runs import RunDirectory
from mednli_jax.sweeps.spaces import Real, Whole, product, search

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "launch" / "sweep.py"
SECRET = "zyzzyva"  # the training prints it, and the sweep must not

CONFIG = """
from ml_collections import config_dict
from mednli_jax.sweeps.spaces import Real, Whole, product, search


def get_config():
    train = {"rate": 0.1, "size": 3, "kind": "a", "steps": 2, "pace": 0.0, "fails": ()}
    return config_dict.ConfigDict({"train": train})


def get_sweep():
    return SWEEP
"""
PRODUCT = 'product({"train.rate": (0.1, 0.2, 0.3), "train.kind": ("a", "b")})'
SEARCH = 'search({"train.rate": Real(0.01, 1, log=True), "train.size": Whole(1, 9)}, trials=30)'

# Replaces training: makes a run directory, a lock and saved steps as train does, and gives the score 1 - rate.
TRAIN = """
import ast, signal, sys, time
from pathlib import Path
from mednli_jax.errors import UserError
from mednli_jax.runs import RunDirectory

flags = dict(argument.lstrip("-").partition("=")[::2] for argument in sys.argv[1:])
value = {name.rpartition(".")[2]: text for name, _, text in (a.partition("=") for a in sys.argv[1:])}
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("SECRET")
try:
    if value.get("rate") in ast.literal_eval(value.get("fails", "()")):
        raise UserError("this rate is refused. Fix: none.")
    run = RunDirectory.create(Path(flags["workdir"]), {"values": value["rate"]}, resume="resume" in flags)
except UserError as error:
    print("error:", error, file=sys.stderr)
    sys.exit(2)
if run.status() != "complete":
    run.write_result("running", {})
    for step in range(len(run.metrics()), int(value.get("steps", 2))):
        time.sleep(float(value.get("pace", 0)))
        run.append_metrics({"epoch": step})
    score = 1 - float(value["rate"])
    values = {"dev": {"accuracy": {"mean": score}}, "test": {"accuracy": {"mean": score / 2}}, "seconds": 0.5}
    run.write_result("complete", values)
""".replace("SECRET", SECRET)


# ---- what is swept ----


def test_a_product_has_every_combination_once_the_last_field_fastest():
    sweep = product({"a": (1, 2), "b": ("x", "y", "z")})
    assert sweep.trials == sweep.most == 6
    expected = [{"a": a, "b": b} for a, b in itertools.product((1, 2), ("x", "y", "z"))]
    assert [sweep.values(trial) for trial in range(6)] == expected
    assert product({"a": (1, 2), "b": (3, 4)}, trials=3).trials == 3


def test_draws_are_in_range_and_follow_from_the_trials_number_alone():
    fields = {"n": Whole(3, 5), "x": Real(0.2, 0.7), "y": Real(1e-4, 1e-1, log=True), "on": (True, False)}
    few, many = search(fields, trials=5), search(fields, trials=400)
    drawn = [many.values(trial) for trial in range(400)]
    assert [few.values(trial) for trial in range(5)] == drawn[:5]
    assert {row["n"] for row in drawn} == {3, 4, 5}
    assert {row["on"] for row in drawn} == {True, False}
    assert all(0.2 <= row["x"] <= 0.7 and 1e-4 <= row["y"] <= 1e-1 for row in drawn)
    # Each of three decades gets a third of the draws, and each half of an even range gets half: 400 draws, 4 sd.
    assert sum(row["y"] < 1e-3 for row in drawn) / 400 == pytest.approx(1 / 3, abs=0.1)
    assert sum(row["x"] < 0.45 for row in drawn) / 400 == pytest.approx(1 / 2, abs=0.1)
    assert sum(row["n"] == 3 for row in drawn) / 400 == pytest.approx(1 / 3, abs=0.1)
    assert search(fields, trials=5, seed=1).values(0) != few.values(0)


def test_a_range_of_whole_numbers_by_orders_of_magnitude_holds_both_ends():
    space = Whole(1, 99, log=True)
    drawn = [space.at(share / 1000) for share in range(1000)]
    assert (drawn[0], drawn[-1]) == (1, 99)
    assert sum(number < 10 for number in drawn) == pytest.approx(500, abs=2)  # 1 to 9 are as likely as 10 to 99


@pytest.mark.parametrize(
    "make",
    [
        lambda: product({}),
        lambda: product({"a": [1, 2]}),
        lambda: product({"a": Whole(1, 2)}),
        lambda: product({"a": (1, 1)}),
        lambda: product({"a": ()}),
        lambda: product({"a": (None,)}),
        lambda: product({"a": (1, 2)}, trials=3),
        lambda: product({"a": (1, 2)}, metric=""),
        lambda: search({"a": 3}, trials=2),
        lambda: search({"a": (1, 2)}, trials=0),
        lambda: search({"a": (1, 2)}, trials=2, seed="x"),
        lambda: Whole(3, 2),
        lambda: Whole(0.5, 2),
        lambda: Whole(0, 2, log=True),
        lambda: Real(0.5, float("inf")),
        lambda: Real(0, 1, log=True),
    ],
)
def test_what_cannot_be_swept_is_one_line(make):
    with pytest.raises(ConfigError, match=r"get_sweep: .*Fix: ") as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "trials", "metric", "dropout"),
    [
        ("sweep_esim_kd", 12, "dev.accuracy.mean", None),
        ("search_ga", 20, "dev.exact_match.mean", 0.6),
        ("search_sa", 20, "dev.exact_match.mean", 0.7),
    ],
)
def test_the_sweeps_of_configs(file, trials, metric, dropout):
    sweep = runpy.run_path(str(SCRIPT))["sweep_of"](ROOT / "configs" / f"{file}.py")
    assert (sweep.trials, sweep.metric) == (trials, metric)
    values = [sweep.values(trial) for trial in range(trials)]
    assert all(value.keys() == sweep.fields.keys() for value in values)
    if dropout:  # the ranges in the published code (clips/clicr, randomized_hyperparam_search.py)
        assert all(50 <= v["model.hidden_size"] <= 160 and 0.1 <= v["model.dropout"] <= dropout for v in values)
        ends = [space.at(share) for space in (sweep.fields["model.hidden_size"],) for share in (0.0, 1 - 1e-9)]
        assert ends == [50, 160]


@pytest.mark.parametrize("model", ["ga", "sa"])
def test_each_set_up_of_the_readers_is_a_search_of_its_own(monkeypatch, model):
    script, file, found = runpy.run_path(str(SCRIPT)), ROOT / "configs" / f"search_{model}.py", {}
    get_config = runpy.run_path(str(file))["get_config"]
    for setup in ("anonym", "ent", "noent")[: 3 if model == "ga" else 2]:
        argument = f"--config={file}:demo/{setup}"
        monkeypatch.setattr(sys, "argv", ["sweep", argument])
        assert script["_accepted"](script["sweep_of"](file), [argument])
        found[cli.config_name()] = get_config(f"clicr/{setup}").data
    assert list(found) == [f"search_{model}-demo-{data.setup}" for data in found.values()]
    assert {data.name for data in found.values()} == {"clicr"}
    assert get_config("demo").to_dict() == get_config("demo/ent").to_dict()


def test_the_worked_examples_fields_are_of_its_config(monkeypatch):
    script = runpy.run_path(str(SCRIPT))
    monkeypatch.setattr(sys, "argv", ["sweep"])
    file = ROOT / "configs" / "sweep_esim_kd.py"
    assert script["_accepted"](script["sweep_of"](file), [f"--config={file}"])


# ---- the study ----


@pytest.fixture
def folder():
    """A folder in memory if the machine has one, because a database often waits for its disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture
def opened(folder):
    """opened(sweep, ...) -> a study; each call opens it as another worker would."""
    pytest.importorskip("optuna")
    from mednli_jax.sweeps.study import Study

    def call(sweep, config=None, grace=60):
        return Study(f"sqlite:///{folder / 'study.db'}", "kd", sweep, config, grace=grace)

    return call


SIX = product({"rate": (0.1, 0.2, 0.3), "kind": ("a", "(1, 2)")})


def test_each_trial_is_given_to_one_worker(opened):
    one, other = opened(SIX), opened(SIX)
    for study in (one, other, one):
        study.fill(6)
    taken = [study.claim() for study in (one, other) * 3]
    assert [attempt.user_attrs["trial"] for attempt in taken] == list(range(6))
    assert [attempt.params for attempt in taken] == [SIX.values(k) for k in range(6)]
    assert one.claim() is other.claim() is None
    assert all(one.tell(attempt, metric=k / 10) for k, attempt in enumerate(taken))
    one.fill(6)
    assert other.claim() is None
    assert [row.trial for row in other.rows()] == [5, 4, 3, 2, 1, 0]  # the best comes first
    assert [row.trial for row in other.rows(3)] == [2, 1, 0]


def test_a_dead_workers_trial_is_anothers_and_its_late_result_does_not_count(opened):
    dead, other = opened(SIX, grace=1), opened(SIX, grace=1)
    dead.fill(1)
    lost = dead.claim()
    other.fill(1)
    assert other.claim() is None
    time.sleep(2.5)  # the database counts whole seconds
    assert dead.beat([lost]) == []  # the worker is alive
    other.fill(1)
    assert other.claim() is None
    time.sleep(2.5)
    other.fill(1)
    again = other.claim()
    assert (again.user_attrs, again.params) == (lost.user_attrs, lost.params)
    assert dead.beat([lost]) == [lost]
    assert not dead.tell(lost, metric=0.9)
    assert other.tell(again, metric=0.4, test=0.3)
    (row,) = dead.rows()
    assert (row.metric, row.test, row.attempts) == (0.4, 0.3, 2)


def test_what_failed_is_tried_again_when_asked_for_and_what_was_stopped_always(opened):
    study = opened(SIX)

    def attempt(retry=False):
        study.fill(1, retry=retry)
        return study.claim()

    study.tell(attempt())
    assert study.rows() == []
    study.tell(attempt(), error="no.")
    (row,) = study.rows()
    assert (row.metric, row.error) == (None, "no.")
    assert attempt() is None
    assert study.tell(attempt(retry=True), metric=0.5)
    assert study.rows()[0].error == ""


def test_optunas_own_api_shows_fields_metric_and_states(opened, folder):
    import optuna

    study = opened(SIX)
    study.fill(3)
    study.tell(study.claim(), metric=0.5)
    study.claim()
    found = optuna.load_study(study_name="kd", storage=f"sqlite:///{folder / 'study.db'}")
    assert found.metric_names == ["dev.accuracy.mean"]
    assert found.best_trial.params == SIX.values(0)
    assert [trial.state.name for trial in found.trials] == ["COMPLETE", "RUNNING", "WAITING"]
    assert found.trials[2].params == SIX.values(2)


def test_another_sweep_or_config_is_refused_by_name(opened):
    opened(SIX, {"train": {"epochs": 3, "seeds": (0, 1)}})
    opened(SIX, {"train": {"epochs": 3, "seeds": (0, 1)}})
    with pytest.raises(RunError, match=r"study 'kd' was begun with other values of config.train.epochs\."):
        opened(SIX, {"train": {"epochs": 4, "seeds": (0, 1)}})
    with pytest.raises(RunError, match=r".* values of sweep\.fields\.rate\."):
        opened(product({"rate": (0.1, 0.2), "kind": ("a", "(1, 2)")}), {"train": {"epochs": 3, "seeds": (0, 1)}})


def test_fewer_is_better_where_the_sweep_says_so(opened):
    sweep = product({"rate": (0.1, 0.2)}, maximize=False)
    study = opened(sweep)
    study.fill(2)
    for metric in (0.7, 0.2):
        study.tell(study.claim(), metric=metric)
    assert [row.metric for row in study.rows()] == [0.2, 0.7]


def test_the_picture_shows_choices_and_ranges():
    pytest.importorskip("optuna")
    from mednli_jax.sweeps import summary
    from mednli_jax.sweeps.study import TrialResult

    fields = {"rate": Real(0.01, 1, log=True), "kind": ("a", "$b$"), "on": (True, False), "size": Whole(1, 3)}
    sweep = search(fields, trials=4)
    rows = [TrialResult(k, sweep.values(k), 0.9 - k / 10, None, 1.0, 1) for k in range(3)]
    rows.append(TrialResult(3, sweep.values(3), None, None, None, 2, "no."))
    facts = sweep.description({})["sweep"]
    assert summary.picture(rows, facts).startswith(b"\x89PNG")
    assert summary.picture(rows[3:], facts).startswith(b"\x89PNG")
    lines = list(summary.table(rows, facts))
    assert lines[0] == "| trial | rate | kind | on | size | dev.accuracy.mean | test.accuracy.mean | attempts |"
    assert [line.split(" | ")[-3] for line in lines[2:]] == ["0.9000", "0.8000", "0.7000", "failed"]


# ---- the script ----


@pytest.fixture
def place(folder, monkeypatch):
    """A folder with a config and a script that replaces training."""
    pytest.importorskip("optuna")
    (folder / "kd.py").write_text(CONFIG.replace("SWEEP", PRODUCT))
    (folder / "train.py").write_text(TRAIN)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return folder


def flags(*more):
    return ["--config=kd.py", "--study=kd", "--grace=3", f"--command={sys.executable} train.py", *more]


def started(*more):
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *flags(*more)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def swept(place, monkeypatch, capfd):
    """swept(*flags) -> (exit code, stdout, stderr) of the script."""

    def call(*given):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *given])
        script = runpy.run_path(str(SCRIPT))
        code = cli.run(script["main"], script["USAGE"], script["define"])
        return code, *capfd.readouterr()

    return call


def steps(trial):
    return [row for row, _ in RunDirectory(Path("runs/kd") / f"trial-{trial}").metrics()]


def test_two_workers_share_a_product(place, swept):
    workers = [started("--workers=1") for _ in range(2)]
    printed = [worker.communicate(timeout=100) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], printed
    assert printed[0][0] == printed[1][0]  # the printed table
    assert sum(err.count("dev.accuracy.mean 0.") for _, err in printed) == 6  # one worker reports each trial
    table = [line.split(" | ") for line in printed[0][0].splitlines()]
    assert len(table) == 8
    assert table[2][1:] == ["0.1", "a", "0.9000", "0.4500", "1 |"]
    assert [steps(trial) for trial in range(6)] == [[0, 1]] * 6
    assert not any(SECRET in text for pair in printed for text in pair)
    rows = json.loads((place / "runs" / "kd" / "trials.json").read_text())["trials"]
    assert sorted((row["values"]["train.rate"], row["values"]["train.kind"]) for row in rows) == sorted(
        itertools.product((0.1, 0.2, 0.3), "ab")
    )
    assert (place / "runs" / "kd" / "study.png").read_bytes().startswith(b"\x89PNG")
    for path in (place / "runs").rglob("*"):
        assert not path.stat().st_mode & 0o077, path
    before = {path: path.stat().st_mtime_ns for path in place.glob("runs/kd/trial-*/*")}
    code, out, err = swept(*flags())  # everything is done, so nothing is trained
    assert (code, out) == (0, printed[0][0]), err
    assert before == {path: path.stat().st_mtime_ns for path in place.glob("runs/kd/trial-*/*")}
    code, out, err = swept("--study=kd", "--table")
    assert (code, out, err) == (0, printed[0][0], "")


def test_a_search_goes_on_to_more_trials(place, swept):
    (place / "kd.py").write_text(CONFIG.replace("SWEEP", SEARCH))
    assert swept(*flags("--trials=2"))[0] == 0
    code, out, _ = swept(*flags("--trials=3", "--workers=2"))
    assert (code, len(out.splitlines())) == (0, 5)
    assert sorted(path.name for path in place.glob("runs/kd/trial-?")) == ["trial-0", "trial-1", "trial-2"]
    metrics = [float(line.split(" | ")[3]) for line in out.splitlines()[2:]]
    assert metrics == sorted(metrics, reverse=True)


def wait_for(true, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def in_training():
    return [path for path in Path("runs/kd").glob("trial-?") if RunDirectory(path).in_training()]


def test_ctrl_c_gives_the_trials_back_and_the_command_goes_on_with_them(place, swept):
    slow = ("--config.train.steps=8", "--config.train.pace=0.25")
    worker = started("--trials=2", "--workers=2", *slow)
    wait_for(lambda: len(in_training()) == 2 and all(len(steps(trial)) >= 1 for trial in range(2)))
    worker.send_signal(signal.SIGINT)
    out, err = worker.communicate(timeout=30)
    assert (worker.returncode, out) == (3, ""), err
    assert "Traceback" not in err
    assert in_training() == []
    assert 1 <= len(steps(0)) < 8
    code, out, err = swept(*flags("--trials=2", "--workers=2", *slow))
    assert code == 0, err
    assert [steps(trial) for trial in range(2)] == [list(range(8))] * 2  # resumed, not trained from the start
    assert [line.split(" | ")[-1] for line in out.splitlines()[2:]] == ["2 |"] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the orphan trains on, and is waited for")
def test_a_worker_that_is_killed_takes_its_training_with_it(place):
    worker = started("--trials=1", "--config.train.steps=100", "--config.train.pace=0.2")
    wait_for(lambda: in_training() and steps(0))
    worker.kill()
    worker.communicate(timeout=30)
    wait_for(lambda: not in_training(), seconds=5)


def test_an_orphan_is_waited_for_and_its_result_taken(place, swept):
    """This happens where nothing ends a training together with its worker."""
    own = ["--config.train.rate=0.1", "--config.train.steps=8", "--config.train.pace=0.25"]
    Path("runs/kd").mkdir(parents=True)
    orphan = subprocess.Popen(
        [sys.executable, "train.py", *own, "--workdir=runs/kd/trial-0"], stdout=subprocess.DEVNULL
    )
    wait_for(lambda: in_training() and steps(0))
    code, out, err = swept(*flags("--trials=1", *own[1:]))
    assert (code, orphan.wait(timeout=5)) == (0, 0), err
    assert steps(0) == list(range(8))
    assert out.splitlines()[2].endswith("| 0.9000 | 0.4500 | 1 |")


def test_trials_that_fail_are_reported_and_tried_again_when_asked_for(place, swept):
    code, out, err = swept(*flags("--config.train.fails=('0.2',)"))
    assert code == 2
    assert err.splitlines()[-1] == "2 of 6 trials failed: 2, 3. Fix: see their logs, then --retry."
    assert "trial 2: this rate is refused. Fix: none." in err
    assert [line.split(" | ")[3] for line in out.splitlines()[-2:]] == ["failed"] * 2
    assert SECRET not in out + err
    assert swept(*flags("--config.train.fails=('0.2',)"))[0] == 2
    log = Path("runs/kd/trial-2.log")
    assert log.read_text().count("this rate is refused") == 1
    assert swept(*flags("--config.train.fails=('0.2',)", "--retry"))[0] == 2
    assert log.read_text().count("this rate is refused") == 2


def test_a_sweep_whose_first_trials_all_fail_is_given_up(place, swept):
    code, out, err = swept(*flags("--config.train.fails=('0.1', '0.2')"))
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("error: the first 3 trials have all failed, as printed above. Fix: ")
    assert not Path("runs/kd/trial-4").exists()


def test_a_metric_that_no_result_has_is_one_line(place, swept):
    text = CONFIG.replace("SWEEP", PRODUCT.replace('")})', '")}, metric="dev.f1.mean")'))
    (place / "kd.py").write_text(text)
    code, _, err = swept(*flags("--trials=1"))
    assert code == 2
    assert "trial 0: runs/kd/trial-0/result.json: has no number 'dev.f1.mean'. Fix: correct the" in err


def test_the_script_prints_no_warning_of_optuna(place):
    """The script runs in a process of its own, because pytest keeps warnings away from stderr."""
    process = started("--trials=1", "--command=/nonexistent/train")
    assert process.communicate(timeout=60)[1].startswith("error: --command: /nonexistent/train cannot be run")
    assert process.returncode == 2


BAD = {
    "no workers": (["--workers=0"], "--workers is 0. Fix: "),
    "no trials": (["--trials=0"], "--trials is 0. Fix: "),
    "too many": (["--trials=7"], "--trials is 7: the product has 6. Fix: "),
    "a path": (["--study=../kd"], "--study names a folder"),
    "no URL": (["--storage=study.db"], "--storage is not the URL"),
    "no such database": (["--storage=oracel://me:quokka@there/kd"], "--storage is not the URL"),
    "no driver or server": (["--storage=postgresql+psycopg2://me:quokka@127.0.0.1:1/kd"], "--storage"),
    "in memory": (["--storage=sqlite://"], "--storage names no file"),
    "no folder": (["--storage=sqlite:///there/study.db"], "there/study.db: there is no such folder"),
    "no database": (["--storage=sqlite:///kd.py"], "--storage: the database cannot be opened"),
    "swept": (["--config.train.rate=1"], "--config.train.rate: the sweep sets this field. Fix: "),
    "no program": (["--command=/nonexistent/train"], "--command: /nonexistent/train cannot be run"),
    "no study": (["--table"], "runs/kd/study.db: there is no such database"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_flags_are_one_line(case, swept):
    given, expected = BAD[case]
    code, out, err = swept(*flags(*given))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"error: {expected}")
    assert "quokka" not in err


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ('product({"train.rte": (0.1,)})', "--config.train.rte: the config has no such field. Did you mean"),
        ('product({"train.size": (1, 2.5)})', "flag --config.train.size=2.5: "),
        ('search({"train.size": Real(1, 2)}, trials=3)', "flag --config.train.size=1.0: "),
        ('product({"train": (1, 2)})', "--config.train: "),
        ('product({"train.size": [1, 2]})', "get_sweep: product takes only choices."),
        ("1 / 0", "kd.py:12: ZeroDivisionError in get_sweep. Fix: "),
        ("3", "kd.py: its get_sweep returns no Sweep. Fix: "),
    ],
)
def test_what_a_config_cannot_sweep_is_one_line_and_leaves_nothing(sweep, expected, place, swept):
    (place / "kd.py").write_text(CONFIG.replace("SWEEP", sweep))
    code, out, err = swept(*flags())
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"error: {expected}")
    assert not Path("runs").exists()


def test_a_config_without_a_sweep_and_a_machine_without_optuna_are_one_line(place, swept, monkeypatch):
    plain = ROOT / "configs" / "esim_kd.py"
    code, _, err = swept(f"--config={plain}")
    assert (code, err) == (
        2, f"error: {plain}: it defines no get_sweep. Fix: write one as in configs/sweep_esim_kd.py.\n",
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = swept(*flags())
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: optuna is not installed")
    assert "pip install 'mednli_jax[sweep]'" in err


def test_help_is_one_screen_and_needs_neither_jax_nor_optuna():
    code = (
        "import runpy, sys\nsys.argv = ['sweep', '--help']\n"
        f"try:\n    runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
        "except SystemExit as stop:\n    assert stop.code == 0\n"
        "print('IMPORTED', *{'jax', 'optuna', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    text, _, imported = done.stdout.rpartition("IMPORTED")
    assert imported.split() == []
    assert text.count("python launch/sweep.py") >= 2
    assert len(text.splitlines()) <= 30


@pytest.fixture
def postgresql(tmp_path_factory):
    """Starts a PostgreSQL server on a loopback port (Debian's package `postgresql`): the URL of its database."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("PostgreSQL is not installed")
    home = Path(tempfile.mkdtemp(prefix="pg"))  # the path of a socket must be short
    user = []
    if os.getuid() == 0:  # the server refuses to run as root
        shutil.chown(home, "postgres")
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def call(program, *arguments):
        subprocess.run(
            [*user, programs[-1] / program, *arguments], check=True, cwd=home, stdout=subprocess.DEVNULL, timeout=120
        )

    call("initdb", "-D", home / "data", "-U", "kd", "--auth=trust")
    call("pg_ctl", "-D", home / "data", "-w", "-o", f"-h 127.0.0.1 -p {port} -k {home}", "-l", home / "log", "start")
    try:
        call("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "kd", "kd")
        yield f"postgresql+psycopg2://kd@127.0.0.1:{port}/kd"
    finally:
        call("pg_ctl", "-D", home / "data", "-m", "immediate", "stop")
        shutil.rmtree(home)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_of_thirty_trials_none_is_lost_and_none_done_twice_whatever_worker_is_killed(place, database, request):
    """Two workers meet ten kills at random; a killed worker is started again, as a pod would be."""
    (place / "kd.py").write_text(CONFIG.replace("SWEEP", SEARCH))
    url = request.getfixturevalue("postgresql") if database == "postgresql" else "sqlite:///runs/kd/study.db"
    given = ("--config.train.steps=5", "--config.train.pace=0.1", f"--storage={url}")
    Path("runs/kd").mkdir(parents=True)
    draws, kills = random.Random(int(os.environ.get("KILLS_SEED", "0"))), 0
    workers = [started(*given) for _ in range(2)]
    while kills < 10:
        # Kills are spread over the sweep: three more trials have begun at each than at the one before.
        wait_for(lambda least=3 * kills: len(list(Path("runs/kd").glob("trial-*.log"))) > least, seconds=100)
        time.sleep(draws.uniform(0, 1.5))
        victim = draws.randrange(2)
        kills += workers[victim].poll() is None
        workers[victim].kill()
        workers[victim].communicate(timeout=30)
        workers[victim] = started(*given)
    printed = [worker.communicate(timeout=200) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], printed
    from mednli_jax.sweeps.study import Study

    study = Study(url, "kd")
    found = study._study.get_trials(deepcopy=False)
    complete = [attempt.user_attrs["trial"] for attempt in found if attempt.state.name == "COMPLETE"]
    assert sorted(complete) == list(range(30))
    assert all(attempt.state.is_finished() for attempt in found)
    assert [row.error for row in study.rows()] == [""] * 30
    assert [steps(trial) for trial in range(30)] == [list(range(5))] * 30  # resumed by one worker at a time
    assert not in_training()
    print(f"{kills} kills, {len(found)} attempts of 30 trials")
