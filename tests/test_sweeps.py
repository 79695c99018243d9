"""Sweeps: the values of trials, and `sweep` with a command in place of training."""

import itertools
import os
import random
import re
import runpy
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.cases import cases
from support.commands import ROOT, call_command
from support.postgres import running_server
from support.sweep_training import SECRET

from mednli_jax import cli, terminal
from mednli_jax.rundir import RunDirectory

optuna = pytest.importorskip("optuna")
import sqlalchemy  # noqa: E402
from optuna.distributions import IntDistribution  # noqa: E402
from optuna.storages import RetryHeartbeatStaleTrialCallback  # noqa: E402
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite  # noqa: E402

from mednli_jax.sweeps import Sweep  # noqa: E402
from mednli_jax.workers import one_device  # noqa: E402

CONFIG = """
from ml_collections import config_dict
from optuna.distributions import FloatDistribution, IntDistribution
from mednli_jax.sweeps import Sweep


def get_config():
    train = {"rate": 0.1, "size": 3, "sizes": (1, 2), "steps": 2}
    train |= {"pace": 0.0, "fails": "", "killed": "", "file": config_dict.placeholder(str)}
    return config_dict.ConfigDict({"train": train})


def get_sweep():
    return Sweep(SPACE)
"""
TWO = '{"train.rate": (0.1, 0.2)}'
FOUR = '{"train.rate": (0.1, 0.2), "train.size": (1, 2)}'
SEARCH = '{"train.rate": FloatDistribution(0.01, 1, log=True), "train.size": IntDistribution(1, 9)}'
TRAINING = ROOT / "tests/support/sweep_training.py"
FLAGS = ("--config=kd.py", "--grace=4", f"--command={sys.executable} {TRAINING}")
RUNS = Path("runs/kd")
DATABASE = "sqlite:///runs/kd/study.db"


# ---- the values of trials ----


def test_a_grid_has_every_combination_once_however_many_trials_are_asked_for():
    grid = Sweep({"a": (1, 2), "b": ("x", "y", "z")})

    combinations = [tuple(values.values()) for values in grid.draws(trials=9)]
    assert combinations == list(itertools.product("12", "xyz"))
    assert grid.draws(trials=2) == grid.draws()[:2]


def test_the_values_of_a_random_trial_follow_from_its_number_alone():
    ranges = {"n": IntDistribution(3, 5), "on": (True, False)}
    drawn = Sweep(ranges, trials=40).draws()

    assert Sweep(ranges, trials=5).draws() == drawn[:5]
    assert Sweep(ranges, trials=40).draws(5) == drawn[:5]
    values = {(trial["n"], trial["on"]) for trial in drawn}
    assert values == set(itertools.product((3, 4, 5), ("True", "False")))


@cases(
    "file, trials, variants",
    {
        "grid": ("sweep_esim_kd", 12, ["demo"]),
        "GA": ("search_ga", 20, ["demo", "clicr/anonym", "clicr/ent", "clicr/noent"]),
        "SA": ("search_sa", 20, ["demo", "clicr/anonym", "clicr/ent", "clicr/noent"]),
    },
)
def test_the_configs_of_a_sweep_take_the_values_of_each_trial(file, trials, variants):
    module = runpy.run_path(str(ROOT / "configs" / f"{file}.py"))
    draws = module["get_sweep"]().draws()

    assert len(draws) == trials
    for variant, values in itertools.product(variants, draws):
        cli.with_fields(module["get_config"](variant), values)  # raises for a field that it lacks


# ---- workers ----


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """swept(space, *flags) -> the outcome of the command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def sweep(space, *flags):
        write_sweep(space)
        outcome = call_command("sweep", *FLAGS, *flags)
        assert SECRET not in outcome.out + outcome.err
        assert "Traceback" not in outcome.err
        return outcome

    return sweep


def write_sweep(space):
    Path("kd.py").write_text(CONFIG.replace("SPACE", space))


def started(*flags):
    command = [sys.executable, "-m", "mednli_jax.sweep", *FLAGS, *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(*workers):
    """What the workers print. They succeed without a traceback."""
    printed = [worker.communicate(timeout=400) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(workers), printed
    assert all("Traceback" not in err for _, err in printed), printed
    return printed


def rows_of(outcome):
    """The cells of the table, without its head."""
    assert outcome.code == cli.OK, outcome.err
    return [line.strip("| ").split(" | ") for line in outcome.out.splitlines()[2:]]


def steps(trial):
    return [step for step, _ in RunDirectory(RUNS / f"trial-{trial}").metrics()]


def wait_for(condition, seconds=200):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def in_training():
    """The numbers of the trials that are being trained."""
    folders = [path for path in RUNS.glob("trial-*") if RunDirectory(path).in_training()]
    return [path.name.removeprefix("trial-") for path in folders]


def attempts(url=DATABASE):
    return optuna.load_study(study_name="kd", storage=url).trials


def assert_all_complete(trials, steps_each, url=DATABASE):
    """Each trial is complete, and was never trained from the start again."""
    trials_in = {}
    for attempt in attempts(url):
        trials_in.setdefault(attempt.state.name, set()).add(attempt.user_attrs.get("trial"))
    assert trials_in["COMPLETE"] == set(range(trials))
    assert trials_in.keys().isdisjoint({"RUNNING", "WAITING"})
    assert [steps(trial) for trial in range(trials)] == [list(range(steps_each))] * trials


def test_two_workers_share_a_grid_and_a_third_has_nothing_to_do(swept):
    write_sweep(FOUR)
    printed = finished(started("--study=kd"), started("--study=kd", "--workers=2"))

    (table, _), (other_table, _) = printed
    assert table == other_table == (RUNS / "table.md").read_text()
    assert_all_complete(4, 2)
    again = swept(FOUR, "--study=kd")
    assert again.err == "4 trials, 4 of them complete; 1 worker\nwritten: runs/kd/table.md\n"
    assert (again.code, again.out) == (cli.OK, table)
    assert swept(FOUR, "--study=kd", "--table") == (cli.OK, table, "")
    for path in Path("runs").rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_a_sweep_says_how_many_trials_it_has_and_when_they_will_end(swept, monkeypatch):
    monkeypatch.setattr(terminal, "PLAIN_SECONDS", 0.0)
    swept(FOUR, "--study=kd", "--trials=1")

    err = swept(FOUR, "--study=kd", "--workers=2").err

    assert err.startswith("4 trials, 1 of them complete; 2 workers\n")
    assert re.findall(r"^kd: (\d)/4 trials, .*, ETA \d+ s$", err, re.M)[-1] == "4"
    assert err.endswith("written: runs/kd/table.md\n")


def test_a_study_does_not_share_the_folder_of_a_run(swept):
    RunDirectory.create(RUNS, {}).close()
    files = sorted(RUNS.rglob("*"))

    assert swept(TWO, "--study=kd") == (
        cli.USAGE,
        "",
        "error: runs/kd: holds a run. Fix: give another --study.\n",
    )
    assert sorted(RUNS.rglob("*")) == files


def test_a_surplus_attempt_has_values_and_stands_in_no_table(swept):
    """Four workers find one trial that waits."""
    outcome = swept('{"train.rate": (0.1,)}', "--study=kd", "--workers=4")

    assert [row[0] for row in rows_of(outcome)] == ["0"]
    assert [attempt.params for attempt in attempts()] == [{"train.rate": "0.1"}] * len(attempts())


@cases(
    "metric, best_first",
    {
        "accuracy": (
            "dev.accuracy.mean",
            [["0.1", "90.0", "45.0"], ["0.2", "80.0", "40.0"]],
        ),
        "loss": ("dev.loss.mean", [["0.2", "0.8000", "0.8000"], ["0.1", "0.9000", "0.9000"]]),
    },
)
def test_the_table_has_the_highest_score_first_or_the_lowest_loss(swept, metric, best_first):
    outcome = swept(f'{TWO}, metric="{metric}"')
    with_test = swept(TWO, "--table", "--test")

    assert [row[1:] for row in rows_of(outcome)] == [row[:2] for row in best_first]
    assert [row[1:] for row in rows_of(with_test)] == best_first
    order = "minimized" if "loss" in metric else "points, maximized"
    assert f"| {metric} ({order}, best first) |\n" in outcome.out
    [score] = [score for rate, score, _ in best_first if rate == "0.1"]
    assert f"trial-0: {metric} {score}\n" in outcome.err


def test_an_interrupted_sweep_saves_its_trials_and_goes_on_with_them(swept, monkeypatch):
    """Each of the workers has a device of its own."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    slow = ("--study=kd", "--workers=2", "--config.train.steps=4", "--config.train.pace=0.25")
    write_sweep(FOUR)
    worker = started(*slow)
    wait_for(lambda: len(in_training()) == 2 and all(map(steps, in_training())))

    worker.terminate()
    out, err = worker.communicate(timeout=30)
    assert worker.returncode == cli.INTERRUPTED
    assert out == ""
    assert "Traceback" not in err
    wait_for(lambda: not in_training(), seconds=5)

    assert swept(FOUR, *slow).code == 0
    assert_all_complete(4, 4)
    assert {path.read_text() for path in RUNS.glob("trial-*/devices")} == {"0", "1"}


def test_a_trial_whose_training_is_killed_goes_on(swept):
    outcome = swept(TWO, "--study=kd", "--config.train.killed=0.2")

    assert [row[1] for row in rows_of(outcome)] == ["0.1", "0.2"]
    assert "trial-1: its process ended (code -9)\n" in outcome.err
    assert_all_complete(2, 2)


def test_trials_that_fail_are_named_and_tried_again_when_the_command_is_given_again(swept):
    fails = ("--study=kd", "--config.train.fails=0.2")
    for times in (1, 2):
        code, table, err = swept(TWO, *fails)
        assert code == cli.USAGE
        assert len(table.splitlines()) == 2 + 1
        assert "trial-1: this rate is refused. Fix: none.\n" in err
        assert "error: trials [1] failed. Fix: see their logs, and try again.\n" in err
        assert [attempt.state.name for attempt in attempts()].count("FAIL") == times


def test_a_sweep_grows_by_all_its_trials_after_one_had_several_attempts(swept):
    for trials in (2, 2, 4):
        swept(FOUR, "--study=kd", "--config.train.fails=0.1", f"--trials={trials}")

    assert {attempt.user_attrs["trial"] for attempt in attempts()} == set(range(4))


@cases("tpe", {"random": False, "TPE": True})
def test_a_search_goes_on_to_more_trials_with_the_same_config(swept, tpe):
    space = f"{SEARCH}, trials=30, tpe={tpe}"
    assert swept(space, "--study=kd", "--trials=2").code == 0
    assert swept(space, "--study=kd", "--trials=5", "--workers=2").code == 0
    assert_all_complete(5, 2)
    values = {tuple(attempt.params.values()) for attempt in attempts()}
    assert len(values) == len(attempts())

    changed = swept(space, "--study=kd", "--config.train.steps=3").err
    assert "study 'kd' was begun with other values of config.train.steps. Fix: " in changed


def test_choices_may_be_tuples_or_values_of_a_field_without_one(swept):
    space = '{"train.sizes": ((1, 2), (3, 4, 5)), "train.file": ("x",)}'

    assert [row[1:3] for row in rows_of(swept(space))] == [["(1, 2)", "x"], ["(3, 4, 5)", "x"]]
    assert swept(space).out == swept(space, "--table").out


def test_studies_of_two_folders_share_a_database(swept):
    database = "--storage=sqlite:///studies.db"

    assert len(rows_of(swept(TWO, "--study=anna/kd", database))) == 2
    assert len(rows_of(swept('{"train.rate": (0.3,)}', "--study=bert/kd", database))) == 1


def test_a_new_database_takes_no_scores_of_other_values_from_old_folders(swept):
    assert swept(TWO, "--study=kd").code == 0
    (RUNS / "study.db").unlink()
    code, table, err = swept('{"train.rate": (0.3, 0.2)}', "--study=kd")

    assert code == cli.USAGE
    assert [line.split(" | ")[1] for line in table.splitlines()[2:]] == ["0.2"]
    assert "trial-0: the run was started with other values of train.rate. Fix: " in err


def test_an_attempt_that_counted_as_dead_leaves_its_result_to_the_next_one(swept):
    """Its training goes on, and it is not trained again."""

    def count_as_dead():
        wait_for(in_training)
        study = optuna.load_study(study_name="kd", storage=DATABASE)
        dead = study.tell(0, state=optuna.trial.TrialState.FAIL)
        RetryHeartbeatStaleTrialCallback()(study, dead)

    thread = threading.Thread(target=count_as_dead)
    thread.start()
    outcome = swept(TWO, "--study=kd", "--config.train.pace=1.0", "--workers=2")
    thread.join()

    assert len(rows_of(outcome)) == 2
    assert_all_complete(2, 2)


@cases(
    "visible, number, device",
    {
        "of the process": ("4,5", 1, "5"),
        "the same": ("7", 1, "7"),
        "none": ("", 1, ""),
        "again the first": ("4,5,6", 4, "5"),
    },
)
@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"])
def test_a_device_is_one_of_those_that_this_process_sees(
    monkeypatch, name, visible, number, device
):
    monkeypatch.setenv(name, visible)

    chip = {name: device, "TPU_PROCESS_BOUNDS": "1,1,1", "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1"}
    assert chip.items() <= one_device(number).items()


# ---- bad input ----


def test_a_config_without_a_sweep_is_refused(swept):
    code, _, err = swept(TWO, "--config=esim_kd")

    assert code == cli.USAGE
    assert "esim_kd.py: it defines no get_sweep. Fix: " in err


def test_a_metric_that_no_result_has_is_named(swept):
    code, _, err = swept(f'{TWO}, metric="dev.f1.mean"', "--trials=1")

    assert code == cli.USAGE
    assert "trial-0: result.json has no number 'dev.f1.mean'. Fix: correct get_sweep.\n" in err


@cases(
    "flags, reason",
    {
        "no server": (["--storage=postgresql://me:quokka@127.0.0.1:1/kd"], "connection"),
        "no driver": (["--storage=postgresql+asdf://me:quokka@127.0.0.1:1/kd"], "asdf"),
        "no study": (["--table", "--storage=sqlite:///new.db"], "Record does not exist"),
        "no folder": (["--table"], "unable to open database file"),
    },
)
def test_a_storage_without_the_study_is_refused_without_its_password(swept, flags, reason):
    code, _, err = swept(TWO, "--study=kd", *flags)

    assert code == cli.USAGE
    assert err.startswith("error: --storage: study 'kd' cannot be used (")
    assert err.count("\n") == 1
    assert reason in err
    assert "quokka" not in err


@cases(
    "values, problem",
    {
        "no field": ('{"train.rat": (1, 2)}', "Did you mean --config.train.rate? Fix: "),
        "no number": ('{"train.size": (1, "many")}', "flag --config.train.size=many: invalid"),
        "fraction": ('{"train.size": FloatDistribution(0.5, 2)}, trials=3', "train.size=1.3"),
        "no tuple": ('{"train.rate": 0.1}', "kd.py:14: AttributeError in the config file"),
        "no trials": ('{"train.rate": FloatDistribution(0, 1)}', "kd.py:14: AttributeError"),
        "no choice": ('{"train.rate": ()}', "kd.py:14: ValueError in the config file. Fix: "),
    },
)
def test_a_wrong_field_is_found_before_the_first_trial(swept, values, problem):
    code, _, err = swept(values)

    assert code == cli.USAGE
    assert problem in err
    assert err.count("\n") == 1
    assert not Path("runs").exists()


def test_tables_of_another_optuna_are_refused_with_what_optuna_advises(swept):
    assert swept(TWO, "--study=kd").code == 0
    with sqlite3.connect(RUNS / "study.db") as database:
        database.execute("UPDATE alembic_version SET version_num = 'v3.0.0.d'")

    code, _, err = swept(TWO, "--study=kd")
    assert code == cli.USAGE
    assert err.startswith("error: --storage: ")
    assert err.count("\n") == 1
    assert "optuna storage upgrade" in err


# ---- outages ----


class Unreachable(SQLiteDialect_pysqlite):
    """A database. While `down` is set, each statement fails and sets `refused`."""

    supports_statement_cache = True
    down, refused = threading.Event(), threading.Event()

    def do_execute(self, cursor, statement, parameters, context=None):
        if self.down.is_set():
            self.refused.set()
            raise sqlite3.OperationalError("down")
        super().do_execute(cursor, statement, parameters, context)


sqlalchemy.dialects.registry.register("sqlite.unreachable", __name__, "Unreachable")


def test_an_outage_of_the_database_ends_no_worker(swept):
    """The trainings end during the outage, which is longer than the time of grace."""

    def take_down():
        wait_for(lambda: len(in_training()) == 2)
        Unreachable.down.set()
        time.sleep(6)
        Unreachable.down.clear()

    outage = threading.Thread(target=take_down)
    outage.start()
    storage = "--storage=sqlite+unreachable:///runs/kd/study.db"
    try:
        outcome = swept(TWO, "--study=kd", storage, "--workers=2", "--config.train.pace=1.0")
    finally:
        outage.join()

    assert Unreachable.refused.is_set()
    assert len(rows_of(outcome)) == 2
    assert outcome.err.count("the database does not answer") == 1
    assert_all_complete(2, 2)


@pytest.fixture
def postgres():
    with running_server() as server:
        yield server


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_of_thirty_trials_none_is_lost_and_none_done_twice_whatever_worker_is_killed(
    swept, request, database
):
    """Two workers meet ten kills at random; a killed worker is started again, as a pod would be."""
    url = DATABASE if database == "sqlite" else request.getfixturevalue("postgres").url
    write_sweep(f"{SEARCH}, trials=30")
    paces = ("--config.train.steps=5", "--config.train.pace=0.1")
    flags = ("--study=kd", f"--storage={url}", *paces)
    RUNS.mkdir(parents=True)
    rng = random.Random(int(os.environ.get("KILLS_SEED", "0")))
    kills = 0
    workers = [started(*flags), started(*flags)]

    while kills < 10:
        # Kills are spread over the sweep: three more trials have begun at each than at the one
        # before.
        wait_for(lambda least=3 * kills: len(list(RUNS.glob("trial-*.log"))) > least)
        time.sleep(rng.uniform(0, 1.5))
        killed = workers.pop(rng.randrange(2))
        kills += killed.poll() is None
        killed.kill()
        killed.communicate(timeout=30)
        workers.append(started(*flags))

    finished(*workers)
    assert_all_complete(30, 5, url)
    assert in_training() == []
