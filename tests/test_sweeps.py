"""Sweeps: the values of trials, and `sweep` with a script that replaces training."""

import errno
import fcntl
import importlib.util
import itertools
import os
import random
import runpy
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from support.cases import cases
from support.commands import ROOT, call_command

from mednli_jax import cli
from mednli_jax.rundir import RunDirectory

optuna = pytest.importorskip("optuna")
import sqlalchemy  # noqa: E402
from optuna.distributions import FloatDistribution, IntDistribution  # noqa: E402
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite  # noqa: E402

from mednli_jax import sweeps  # noqa: E402
from mednli_jax.workers import one_device  # noqa: E402

SECRET = "zyzzyva"  # the training prints it, and the sweep must not
CONFIG = """
from ml_collections import config_dict
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from mednli_jax.sweeps import Sweep


def get_config():
    train = {"rate": 0.1, "size": 3, "kind": "a", "steps": 2, "pace": 0.0, "fails": ""}
    return config_dict.ConfigDict({"train": train})


def get_sweep():
    return Sweep(SPACE)
"""
PRODUCT = '{"train.rate": (0.1, 0.2), "train.kind": ("a", "b")}'
TWO = '{"train.rate": (0.1, 0.2)}'
SEARCH = """{
    "train.rate": FloatDistribution(0.01, 1, log=True), "train.size": IntDistribution(1, 9)
}, trials=30"""
# Replaces training: makes a run directory, a lock and saved steps as train does, and gives the
# score 1 - rate.
TRAIN = """
import os, signal, sys, time
from mednli_jax.errors import UserError
from mednli_jax.rundir import Path, RunDirectory

flags = [word.partition("=") for word in sys.argv[1:]]
value = {name.rpartition(".")[2].lstrip("-"): text for name, _, text in flags}
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("SECRET", flush=True)
try:
    if value["rate"] == value.get("fails"):
        raise UserError("this rate is refused. Fix: none.")
    folder, config = Path(value["workdir"]), {"values": value["rate"]}
    run = RunDirectory.create(folder, config, resume="resume" in value)
except UserError as error:
    sys.exit(print("error:", error, file=sys.stderr) or 2)
run.write_result("running", {})
visible = [os.environ.get(name, "all") for name in ("CUDA_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS")]
(run.folder / "devices").write_text(" ".join(visible))
for step in range(len(run.metrics()), int(value.get("steps", 2))):
    time.sleep(float(value.get("pace", 0)))
    run.append_metrics({"epoch": step})
score = 1 - float(value["rate"])
scores = {"dev": {"accuracy": {"mean": score}}, "test": {"accuracy": {"mean": score / 2}}}
run.write_result("complete", scores)
""".replace("SECRET", SECRET)
FLAGS = (
    "--config=kd.py",
    "--study=kd",
    "--grace=10",
    f"--command={sys.executable} train.py",
)
RUNS = Path("runs/kd")
DATABASE = "sqlite:///runs/kd/study.db"


# ---- the values of trials ----


def test_a_grid_has_every_combination_once():
    grid = sweeps.Sweep({"a": (1, 2), "b": ("x", "y", "z")}).values()

    combinations = sorted(tuple(values.values()) for values in grid)
    assert combinations == sorted(itertools.product((1, 2), "xyz"))


def test_the_values_of_a_random_trial_follow_from_its_number_alone():
    ranges = {"n": IntDistribution(3, 5), "on": (True, False)}
    drawn = sweeps.Sweep(ranges, trials=40).values()

    assert sweeps.Sweep(ranges, trials=5).values() == drawn[:5]
    assert sweeps.Sweep(ranges, trials=40).values(5) == drawn[:5]
    values = {(trial["n"], trial["on"]) for trial in drawn}
    assert values == set(itertools.product((3, 4, 5), (True, False)))


def test_tpe_draws_near_the_best_results_in_whatever_order_they_came():
    space = {"x": FloatDistribution(0, 1)}
    search = sweeps.Sweep(space, trials=40, tpe=True)
    attempts = []
    for number in range(40):
        params = search.after(number, attempts)
        assert params == search.after(number, attempts[::-1])
        attempt = optuna.create_trial(
            params=params,
            value=-abs(params["x"] - 0.3),
            distributions=space,
            user_attrs={"trial": number},
        )
        attempts.append(attempt)

    distances = [-attempt.value for attempt in attempts]
    assert sum(distances[20:]) < sum(distances[:10])


@pytest.mark.parametrize(
    "file, trials, variants",
    [
        ("sweep_esim_kd", 12, ["demo"]),
        ("search_ga", 20, ["demo", "clicr/anonym", "clicr/ent", "clicr/noent"]),
        ("search_sa", 20, ["demo", "clicr/anonym", "clicr/ent", "clicr/noent"]),
    ],
)
def test_the_configs_of_a_sweep_take_the_values_of_each_trial(file, trials, variants):
    module = runpy.run_path(str(ROOT / "configs" / f"{file}.py"))
    values = module["get_sweep"]().values()

    assert len(values) == trials
    for variant, trial in itertools.product(variants, values):
        config = module["get_config"](variant)
        config.update_from_flattened_dict(trial)  # raises for a field or type that it lacks


@pytest.mark.parametrize(
    "file, dropout",
    [
        ("search_ga", 0.6),
        ("search_sa", 0.7),
    ],
)
def test_searches_of_readers_have_the_ranges_of_the_published_code(file, dropout):
    """clips/clicr, randomized_hyperparam_search.py."""
    fields = runpy.run_path(str(ROOT / "configs" / f"{file}.py"))["get_sweep"]().fields

    size = fields["model.hidden_size"]
    rate = fields["model.dropout"]
    assert size.low == 50
    assert size.high == 160
    assert rate.low == 0.1
    assert rate.high == dropout


# ---- workers ----


def write_sweep(folder, space=PRODUCT):
    """Writes the config with a space of values, and the script that replaces training."""
    (folder / "train.py").write_text(TRAIN)
    (folder / "kd.py").write_text(CONFIG.replace("SPACE", space))


@pytest.fixture
def space(tmp_path, monkeypatch):
    """Writes the config with a space of values: space(TEXT)."""
    write_sweep(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return lambda text: write_sweep(tmp_path, text)


def sweep(*flags):
    """The outcome of the command in this process."""
    outcome = call_command("sweep", *FLAGS, *flags)
    assert SECRET not in outcome.out + outcome.err
    assert "Traceback" not in outcome.err
    return outcome


@pytest.fixture
def swept(space):
    """swept(*flags) -> the outcome of the command in this process."""
    return sweep


@pytest.fixture(scope="module")
def complete_sweep(tmp_path_factory):
    """The folder of a sweep whose trials are complete."""
    folder = tmp_path_factory.mktemp("complete")
    write_sweep(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(ROOT))
        assert sweep().code == cli.OK
    return folder


@pytest.fixture
def complete(space, complete_sweep, tmp_path):
    """The working folder has a complete sweep; complete(*flags) -> the outcome of the command."""
    shutil.copytree(complete_sweep, tmp_path, dirs_exist_ok=True)
    return sweep


def started(*flags):
    command = [sys.executable, "-m", "mednli_jax.sweep", *FLAGS, *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(*workers):
    """What the workers print. They succeed without a traceback."""
    printed = [worker.communicate(timeout=400) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(workers), printed
    assert all("Traceback" not in err for _, err in printed), printed
    return printed


def steps(trial):
    return [step for step, _ in RunDirectory(RUNS / f"trial-{trial}").metrics()]


def wait_for(condition, seconds=200):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def in_training():
    """The numbers of the trials that are being trained."""
    folders = [path for path in RUNS.glob("trial-?") if RunDirectory(path).in_training()]
    return [path.name.removeprefix("trial-") for path in folders]


def attempts(state, url=DATABASE):
    """The trials of the study's attempts in a state."""
    for driver in ("psycopg", "psycopg2"):
        if url.startswith("postgresql:") and importlib.util.find_spec(driver):
            url = url.replace("postgresql:", f"postgresql+{driver}:")
    study = optuna.load_study(study_name="kd", storage=url)
    in_state = [trial for trial in study.trials if trial.state.name == state and trial.user_attrs]
    return sorted(trial.user_attrs["trial"] for trial in in_state)


def assert_all_complete(trials, steps_each, url=DATABASE):
    """Each trial is complete once, and was never trained from the start again."""
    assert attempts("COMPLETE", url) == list(range(trials))
    assert [steps(trial) for trial in range(trials)] == [list(range(steps_each))] * trials


def test_two_workers_share_a_product_and_a_third_has_nothing_to_do(swept):
    printed = finished(started("--workers=1"), started("--workers=2"))

    (table, _), (other_table, _) = printed
    assert table == other_table == (RUNS / "table.md").read_text()
    assert_all_complete(4, 2)
    assert swept() == swept("--table") == (0, table, "")


def test_the_table_has_the_best_trial_first(complete):
    lines = complete("--table").out.splitlines()

    cells = [line.strip("| ").split(" | ") for line in lines[2::2]]
    assert [(row[1], row[3]) for row in cells] == [("0.1", "0.9"), ("0.2", "0.8")]


def test_what_a_sweep_writes_is_private(complete_sweep):
    for path in (complete_sweep / "runs").rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_the_table_shows_test_only_when_asked_for(complete):
    table = complete("--table").out
    assert "test" not in table
    assert (RUNS / "table.md").read_text() == table

    header, _, first, *_ = complete("--table", "--test").out.splitlines()
    assert header.endswith("| dev.accuracy.mean | test.accuracy.mean |")
    assert first.endswith("| 0.9 | 0.45 |")
    assert complete("--table").out == table


def test_an_interrupted_sweep_saves_its_trials_and_goes_on_with_them(swept):
    slow = ("--workers=2", "--config.train.steps=4", "--config.train.pace=0.25")
    worker = started(*slow)
    wait_for(lambda: len(in_training()) == 2 and all(map(steps, in_training())))

    worker.terminate()
    out, err = worker.communicate(timeout=30)
    assert worker.returncode == 3
    assert out == ""
    assert "Traceback" not in err
    wait_for(lambda: not in_training(), seconds=5)

    assert swept(*slow).code == 0
    assert_all_complete(4, 4)


def test_trials_that_fail_are_reported_and_tried_again_when_asked_for(swept):
    fails = "--config.train.fails=0.2"
    code, table, err = swept(fails)
    assert code == 2
    assert len(table.splitlines()) == 2 + 2
    assert err.count("this rate is refused. Fix: none.\n") == 2

    assert swept(fails).code == 2
    assert len(attempts("FAIL")) == 2
    assert swept(fails, "--retry").code == 2
    assert len(attempts("FAIL")) == 4


def test_all_trials_of_a_search_that_failed_are_tried_again_when_asked_for(space, swept):
    """By one worker, which draws the trials of TPE one by one."""
    space('{"train.rate": CategoricalDistribution((0.1,))}, trials=2, tpe=True')
    fails = "--config.train.fails=0.1"
    assert swept(fails).code == 2
    assert attempts("FAIL") == [0, 1]

    assert swept(fails, "--retry").code == 2

    assert attempts("FAIL") == [0, 0, 1, 1]


@pytest.mark.parametrize("sampler", [pytest.param("", id="random"), ", tpe=True"])
def test_a_search_goes_on_to_more_trials_with_the_same_config(space, swept, sampler):
    space(SEARCH + sampler)
    assert swept("--trials=2").code == 0
    assert swept("--trials=3", "--workers=2").code == 0
    assert attempts("COMPLETE") == [0, 1, 2]

    changed = swept("--config.train.steps=3").err
    assert "study 'kd' was begun with other values of config.train.steps. Fix: " in changed


def set_variable(monkeypatch, name, value):
    if value is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, value)


@cases(
    "workers, cuda, devices",
    {
        "one worker": (1, "3,4", {"3,4 all"}),
        "two workers": (2, None, {"0 0", "1 1"}),
        "named devices": (2, "GPU-a,GPU-b,GPU-c", {"GPU-a 0", "GPU-b 1"}),
    },
)
def test_each_of_several_workers_has_a_device_of_its_own(
    swept, monkeypatch, workers, cuda, devices
):
    set_variable(monkeypatch, "CUDA_VISIBLE_DEVICES", cuda)
    set_variable(monkeypatch, "TPU_VISIBLE_CHIPS", None)

    assert swept(f"--workers={workers}", "--config.train.pace=0.3").code == 0
    assert {path.read_text() for path in RUNS.glob("trial-*/devices")} == devices


@pytest.mark.parametrize(
    "visible, number, device",
    [
        (None, 2, "2"),
        ("4,5", 1, "5"),
        ("7", 1, "7"),
        ("", 1, ""),
        ("4,5,6", 4, "5"),
    ],
)
@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"])
def test_a_device_is_one_of_those_that_this_process_sees(
    monkeypatch, name, visible, number, device
):
    set_variable(monkeypatch, name, visible)

    chip = {name: device, "TPU_PROCESS_BOUNDS": "1,1,1", "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1"}
    assert chip.items() <= one_device(number).items()


# ---- bad input ----


@pytest.mark.parametrize("workers, code", [(1, cli.OK), (2, cli.USAGE)])
def test_several_workers_need_a_file_system_with_locks(swept, monkeypatch, workers, code):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    outcome = swept(f"--workers={workers}")

    assert outcome.code == code
    assert "no locks" in outcome.err.splitlines()[0]
    assert (RUNS / "trial-0").exists() == (code == cli.OK)


def test_a_config_without_a_sweep_is_refused(swept):
    Path("kd.py").write_text(CONFIG.replace("get_sweep", "other"))

    code, _, err = swept()
    assert code == cli.USAGE, err
    assert "kd.py: it defines no get_sweep. Fix: " in err


def test_a_metric_that_no_result_has_is_named(space, swept):
    space(f'{PRODUCT}, metric="dev.f1.mean"')

    code, _, err = swept()
    assert code == cli.USAGE, err
    assert "has no number 'dev.f1.mean'" in err


@cases(
    "flags, message",
    {
        "no server": (
            ["--storage=postgresql://me:quokka@127.0.0.1:1/kd"],
            "'kd' can be used there (OperationalError). Fix",
        ),
        "no driver": (
            ["--storage=postgresql+asdf://me:quokka@127.0.0.1:1/kd"],
            "--storage: no study 'kd'",
        ),
        "no study": (["--table", "--storage=sqlite:///new.db"], "--storage: no study 'kd'"),
    },
)
def test_a_storage_without_the_study_is_refused_without_its_password(swept, flags, message):
    code, _, err = swept(*flags)

    assert code == cli.USAGE, err
    assert message in err
    assert "quokka" not in err


@pytest.mark.parametrize(
    "values, problem",
    [
        ('{"train.rat": (1, 2)}', "is no field of the config. Did you mean 'train.rate'? Fix: "),
        ('{"train.size": (1, "many")}', "has the type int, and 'many' does not fit. Fix: "),
        ('{"train.size": FloatDistribution(0.5, 2)}', "has the type int, and 0.5 does not fit."),
        ('{"train.kind": "a"}', "has no choices. Fix: "),
        ('{"train.kind": ()}', "has no choices. Fix: "),
    ],
)
def test_a_wrong_field_is_found_before_the_first_trial(space, swept, values, problem):
    space(f"{values}, trials=2")
    code, _, err = swept()

    field = values.split('"')[1]
    assert f"kd.py: get_sweep: '{field}' {problem}" in err
    assert code == cli.USAGE
    assert err.count("\n") == 1
    assert not Path("runs").exists()


def test_tables_of_another_optuna_are_refused_with_the_command_that_upgrades_them(complete):
    set_version_of_tables("v3.0.0.d")
    for flags in ((), ("--table",)):
        err = complete(*flags).err
        assert err.startswith("error: --storage: ")
        assert err.count("\n") == 1

    command = shlex.split(err.split("`")[1])
    assert command == ["optuna", "storage", "upgrade", "--storage", DATABASE]
    code = "import sys; from optuna.cli import main; sys.exit(main())"
    subprocess.run([sys.executable, "-c", code, *command[1:]], check=True, capture_output=True)
    assert complete("--table").code == 0


def test_tables_of_a_newer_optuna_are_refused(complete):
    set_version_of_tables("v99")

    code, _, err = complete()
    assert code == cli.USAGE, err
    assert "pip install --upgrade optuna" in err


def set_version_of_tables(version):
    with sqlite3.connect(RUNS / "study.db") as database:
        database.execute("UPDATE alembic_version SET version_num = ?", [version])


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
# Trainings of two steps end during an outage or later.
PACES = pytest.mark.parametrize("pace", [1.0, 3.5])


@PACES
def test_an_outage_of_the_database_ends_no_trial_and_no_worker(space, swept, pace):
    """The outage is longer than the time after which a silent worker counts as dead."""
    space(TWO)

    def take_down():
        wait_for(lambda: len(in_training()) == 2)
        Unreachable.down.set()
        time.sleep(5)
        Unreachable.down.clear()

    Unreachable.refused.clear()
    outage = threading.Thread(target=take_down)
    outage.start()
    storage = "--storage=sqlite+unreachable:///runs/kd/study.db"
    try:
        outcome = swept(storage, "--workers=2", "--grace=3", f"--config.train.pace={pace}")
    finally:
        outage.join()

    code, table, err = outcome
    assert Unreachable.refused.is_set()
    assert code == 0, err
    assert len(table.splitlines()) == 4, err
    assert err.count("the database does not answer") == 1
    assert_all_complete(2, 2)
    assert attempts("FAIL") == []


def test_a_worker_that_counted_as_dead_goes_on(space, swept):
    """It is stopped for longer than the time of grace; the other worker finds the result of its
    trial."""
    space(TWO)
    slow = ("--grace=3", "--config.train.pace=2.5", "--config.train.steps=3")
    stopped = started(*slow)
    wait_for(in_training)

    stopped.send_signal(signal.SIGSTOP)
    try:
        outcome = swept(*slow)
    finally:
        stopped.send_signal(signal.SIGCONT)

    assert outcome.code == 0, outcome.err
    finished(stopped)
    assert_all_complete(2, 3)


class Postgres:
    """A PostgreSQL server (Debian's package `postgresql`) without a port."""

    def __init__(self):
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not programs:
            pytest.skip("PostgreSQL is not installed")
        self.home = Path(tempfile.mkdtemp(prefix="pg"))  # the path of a socket must be short
        self.programs, self.user = programs[-1], []
        if os.getuid() == 0:  # the server refuses to run as root
            self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            shutil.chown(self.home, "postgres")
        self.url = f"postgresql://kd@/postgres?host={self.home}"
        self.call("initdb", "-U", "kd", "--auth=trust")
        self.start()

    def call(self, program, *arguments):
        command = [*self.user, self.programs / program, "-D", self.home / "data", *arguments]
        subprocess.run(command, check=True, cwd=self.home, stdout=subprocess.DEVNULL, timeout=120)

    def start(self):
        self.call(
            "pg_ctl",
            "-w",
            "-o",
            f"-h '' -k {self.home}",
            "-l",
            self.home / "log",
            "start",
        )

    def stop(self, mode="immediate"):
        self.call("pg_ctl", "-w", "-m", mode, "stop")


@pytest.fixture
def postgres():
    server = Postgres()
    yield server
    server.stop()
    shutil.rmtree(server.home)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["fast", "immediate"])
@PACES
def test_a_server_that_is_stopped_for_five_seconds_ends_no_trial_of_two_workers(
    space, postgres, pace, mode
):
    flags = (f"--storage={postgres.url}", "--grace=3", f"--config.train.pace={pace}")
    workers = started(*flags), started(*flags)
    wait_for(lambda: len(in_training()) == 2)

    postgres.stop(mode)
    time.sleep(5)
    postgres.start()

    messages = [err for _, err in finished(*workers)]
    assert all("the database does not answer" in err for err in messages)
    assert_all_complete(4, 2, postgres.url)
    assert attempts("FAIL", postgres.url) == attempts("RUNNING", postgres.url) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_of_thirty_trials_none_is_lost_and_none_done_twice_whatever_worker_is_killed(
    space, request, database
):
    """Two workers meet ten kills at random; a killed worker is started again, as a pod would be."""
    url = DATABASE if database == "sqlite" else request.getfixturevalue("postgres").url
    space(SEARCH)
    flags = ("--config.train.steps=5", "--config.train.pace=0.1", f"--storage={url}")
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
    assert attempts("RUNNING", url) == attempts("WAITING", url) == in_training() == []
