"""Sweeps: the values of trials, and launch/sweep.py with a script that replaces training."""

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

from mednli_jax import cli
from mednli_jax.rundir import RunDirectory

optuna = pytest.importorskip("optuna")
import sqlalchemy  # noqa: E402
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite  # noqa: E402

from mednli_jax import sweep, sweeps  # noqa: E402
from mednli_jax.training.visible import one_device  # noqa: E402

ROOT = Path(__file__).parents[1]
SECRET = "zyzzyva"  # the training prints it, and the sweep must not
CONFIG = """
from ml_collections import config_dict
from optuna.distributions import FloatDistribution, IntDistribution
from mednli_jax.sweeps import Sweep


def get_config():
    train = {"rate": 0.1, "size": 3, "kind": "a", "steps": 2, "pace": 0.0, "fails": ""}
    return config_dict.ConfigDict({"train": train})


def get_sweep():
    return SWEEP
"""
PRODUCT = 'Sweep({"train.rate": (0.1, 0.2), "train.kind": ("a", "b")})'
TWO = 'Sweep({"train.rate": (0.1, 0.2)})'
SEARCH = 'Sweep({"train.rate": FloatDistribution(0.01, 1, log=True), "train.size": IntDistribution(1, 9)}, trials=30)'
# Replaces training: makes a run directory, a lock and saved steps as train does, and gives the
# score 1 - rate.
TRAIN = """
import os, signal, sys, time
from mednli_jax.errors import UserError
from mednli_jax.rundir import Path, RunDirectory

value = {name.rpartition(".")[2].lstrip("-"): text for name, _, text in (a.partition("=") for a in sys.argv[1:])}
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("SECRET", flush=True)
try:
    if value["rate"] == value.get("fails"):
        raise UserError("this rate is refused. Fix: none.")
    run = RunDirectory.create(Path(value["workdir"]), {"values": value["rate"]}, resume="resume" in value)
except UserError as error:
    sys.exit(print("error:", error, file=sys.stderr) or 2)
run.write_result("running", {})
seen = [os.environ.get(name, "all") for name in ("CUDA_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS")]
(run.folder / "devices").write_text(" ".join(seen))
for step in range(len(run.metrics()), int(value.get("steps", 2))):
    time.sleep(float(value.get("pace", 0)))
    run.append_metrics({"epoch": step})
score = 1 - float(value["rate"])
run.write_result("complete", {"dev": {"accuracy": {"mean": score}}, "test": {"accuracy": {"mean": score / 2}}})
""".replace("SECRET", SECRET)


def test_the_values_of_a_trial_follow_from_its_number_alone():
    grid = sweeps.Sweep({"a": (1, 2), "b": ("x", "y", "z")})
    assert sorted(tuple(values.values()) for values in grid.values()) == sorted(
        itertools.product((1, 2), "xyz")
    )
    assert grid.values() == grid.values()
    ranges = {"n": optuna.distributions.IntDistribution(3, 5), "on": (True, False)}
    drawn = sweeps.Sweep(ranges, trials=40).values()
    assert (
        sweeps.Sweep(ranges, trials=5).values()
        == drawn[:5]
        == sweeps.Sweep(ranges, trials=40).values(5)
    )
    assert {(row["n"], row["on"]) for row in drawn} == set(
        itertools.product((3, 4, 5), (True, False))
    )


@pytest.mark.parametrize(
    ("file", "trials", "dropout"),
    [("sweep_esim_kd", 12, None), ("search_ga", 20, 0.6), ("search_sa", 20, 0.7)],
)
def test_the_sweeps_of_configs(file, trials, dropout):
    found = runpy.run_path(str(ROOT / "configs" / f"{file}.py"))
    swept, configs = found["get_sweep"](), [found["get_config"]("demo")]
    configs += [
        found["get_config"](f"clicr/{setup}") for setup in ("anonym", "ent", "noent") if dropout
    ]
    assert len(swept.values()) == trials
    for config, values in itertools.product(configs, swept.values()):
        config.update_from_flattened_dict(
            values
        )  # raises for a field or a type that the config has not
    if dropout:  # the ranges in the published code (clips/clicr, randomized_hyperparam_search.py)
        size, rate = swept.fields["model.hidden_size"], swept.fields["model.dropout"]
        assert (size.low, size.high, rate.low, rate.high) == (50, 160, 0.1, dropout)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a config and a script that replaces training."""
    (tmp_path / "kd.py").write_text(CONFIG.replace("SWEEP", PRODUCT))
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(sweeps.signal, "signal", lambda *_: None)  # of pytest's own process
    return tmp_path


GIVEN = [
    "sweep",
    "--config=kd.py",
    "--study=kd",
    "--grace=10",
    f"--command={sys.executable} train.py",
]


def started(*more):
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "mednli_jax.sweep", *GIVEN[1:], *more], **how)


@pytest.fixture
def swept(place, monkeypatch, capfd):
    """swept(*flags) -> (exit code, stdout, stderr) of the script."""

    def call(*more):
        monkeypatch.setattr(sys, "argv", [*GIVEN, *more])
        code, (out, err) = cli.run(sweep.main, sweep.__doc__, sweep.define), capfd.readouterr()
        assert SECRET not in out + err
        return code, out, err

    return call


@pytest.mark.parametrize(("workers", "code"), [(1, cli.OK), (2, cli.USAGE)])
def test_several_workers_need_a_file_system_with_locks(swept, monkeypatch, workers, code):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    found, _, err = swept(f"--workers={workers}")
    assert (found, "no locks" in err.splitlines()[0]) == (code, True)
    assert Path("runs/kd/trial-0").exists() == (code == cli.OK)


def steps(trial):
    return [step for step, _ in RunDirectory(Path("runs/kd") / f"trial-{trial}").metrics()]


def wait_for(true, seconds=200):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def in_training():
    return [
        path.name[6:]
        for path in Path("runs/kd").glob("trial-?")
        if RunDirectory(path).in_training()
    ]


def attempts(state, url="sqlite:///runs/kd/study.db"):
    """The trials of the study's attempts in a state."""
    for driver in ("psycopg", "psycopg2"):
        if url.startswith("postgresql:") and importlib.util.find_spec(driver):
            url = url.replace("postgresql:", f"postgresql+{driver}:")
    study = optuna.load_study(study_name="kd", storage=url)
    return sorted(
        trial.user_attrs["trial"]
        for trial in study.trials
        if trial.state.name == state and trial.user_attrs
    )


def test_two_workers_share_a_product_and_a_third_finds_it_done(place, swept):
    workers = [started(f"--workers={n}") for n in (1, 2)]
    printed = [worker.communicate(timeout=100) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], printed
    assert printed[0][0] == printed[1][0] == Path("runs/kd/table.md").read_text()
    table = [line.strip("| ").split(" | ") for line in printed[0][0].splitlines()]
    assert [row[1] + row[3] for row in table[2::2]] == ["0.10.9", "0.20.8"]  # the best comes first
    assert attempts("COMPLETE") == list(range(4))
    assert [steps(trial) for trial in range(4)] == [[0, 1]] * 4
    assert not [path for path in (place / "runs").rglob("*") if path.stat().st_mode & 0o077]
    assert swept() == swept("--table") == (0, printed[0][0], "")


def test_a_stopped_worker_saves_its_trials_and_the_command_goes_on_with_them(swept):
    slow = ("--workers=2", "--config.train.steps=4", "--config.train.pace=0.25")
    worker = started(*slow)
    wait_for(lambda: len(in_training()) == 2 and all(map(steps, in_training())))
    worker.terminate()
    out, err = worker.communicate(timeout=30)
    assert (worker.returncode, out, "Traceback" in err) == (3, "", False)
    wait_for(lambda: not in_training(), seconds=5)
    code, _, err = swept(*slow)
    assert code == 0, err
    assert [steps(trial) for trial in range(4)] == [
        list(range(4))
    ] * 4  # resumed, not trained from the start


def test_trials_that_fail_are_reported_and_tried_again_when_asked_for(swept):
    fails = "--config.train.fails=0.2"
    code, out, err = swept(fails)
    assert (code, len(out.splitlines()), err.count("this rate is refused. Fix: none.\n")) == (
        2,
        2 + 2,
        2,
    )
    assert (swept(fails)[0], len(attempts("FAIL"))) == (2, 2)
    assert (swept(fails, "--retry")[0], len(attempts("FAIL"))) == (2, 4)


@pytest.mark.parametrize(
    ("old", "new", "given", "expected"),
    [
        ("get_sweep", "other", [], "kd.py: it defines no get_sweep. Fix: "),
        ('"b")})', '"b")}, metric="dev.f1.mean")', [], "has no number 'dev.f1.mean'"),
        (
            "",
            "",
            ["--storage=postgresql://me:quokka@127.0.0.1:1/kd"],
            "'kd' can be used there (OperationalError). Fix",
        ),
        (
            "",
            "",
            ["--storage=postgresql+asdf://me:quokka@127.0.0.1:1/kd"],
            "--storage: no study 'kd'",
        ),
        ("", "", ["--table", "--storage=sqlite:///new.db"], "--storage: no study 'kd'"),
    ],
)
def test_bad_input_is_a_user_error(place, swept, old, new, given, expected):
    (place / "kd.py").write_text(CONFIG.replace("SWEEP", PRODUCT).replace(old, new))
    code, _, err = swept(*given)
    assert (code, expected in err, "Traceback" in err, "quokka" in err) == (
        2,
        True,
        False,
        False,
    ), err


@pytest.mark.parametrize(
    ("space", "named"),
    [
        (
            '{"train.rat": (0.1, 0.2)}',
            "'train.rat' is no field of the config. Did you mean 'train.rate'? Fix: ",
        ),
        (
            '{"train.size": (1, "many")}',
            "'train.size' has the type int, and 'many' does not fit. Fix: ",
        ),
        (
            '{"train.size": FloatDistribution(0.5, 2)}',
            "'train.size' has the type int, and 0.5 does not fit. Fix: ",
        ),
        ('{"train.kind": "a"}', "'train.kind' has no choices. Fix: "),
        ('{"train.kind": ()}', "'train.kind' has no choices. Fix: "),
    ],
)
def test_a_wrong_field_is_found_before_the_first_trial(place, swept, space, named):
    (place / "kd.py").write_text(CONFIG.replace("SWEEP", f"Sweep({space}, trials=2)"))
    code, _, err = swept()
    assert (code, err.count("\n"), f"kd.py: get_sweep: {named}" in err) == (2, 1, True), err
    assert not (place / "runs").exists()


def test_the_table_shows_test_only_when_asked_for(swept):
    _, printed, _ = swept()
    assert "test" not in printed
    assert Path("runs/kd/table.md").read_text() == printed
    _, asked, _ = swept("--table", "--test")
    assert asked.splitlines()[0].endswith("| dev.accuracy.mean | test.accuracy.mean |")
    assert asked.splitlines()[2].endswith("| 0.9 | 0.45 |")
    assert swept("--table")[1] == printed


@pytest.mark.parametrize(
    ("workers", "cuda", "expected"),
    [
        (1, "3,4", {"3,4 all"}),
        (2, None, {"0 0", "1 1"}),
        (2, "GPU-a,GPU-b,GPU-c", {"GPU-a 0", "GPU-b 1"}),
    ],
)
def test_each_of_several_workers_has_a_device_of_its_own(
    swept, monkeypatch, workers, cuda, expected
):
    for name, value in (("CUDA_VISIBLE_DEVICES", cuda), ("TPU_VISIBLE_CHIPS", None)):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(
            name, value
        )
    assert swept(f"--workers={workers}", "--config.train.pace=0.3")[0] == 0
    assert {path.read_text() for path in Path("runs/kd").glob("trial-*/devices")} == expected


@pytest.mark.parametrize(
    ("visible", "number", "seen"),
    [(None, 2, "2"), ("4,5", 1, "5"), ("7", 1, "7"), ("", 1, ""), ("4,5,6", 4, "5")],
)
@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"])
def test_a_device_is_one_of_those_that_this_process_sees(monkeypatch, name, visible, number, seen):
    monkeypatch.delenv(name, raising=False) if visible is None else monkeypatch.setenv(
        name, visible
    )
    chip = {name: seen, "TPU_PROCESS_BOUNDS": "1,1,1", "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1"}
    assert chip.items() <= one_device(number).items()


def test_tables_of_another_optuna_are_one_line_whose_command_mends_them(place, swept):
    assert swept("--workers=2")[0] == 0
    with sqlite3.connect("runs/kd/study.db") as database:
        database.execute("UPDATE alembic_version SET version_num = 'v3.0.0.d'")
    for given in ([], ["--table"]):
        code, _, err = swept(*given)
        assert (code, err.count("\n")) == (2, 1), err
        assert err.startswith("error: --storage: ")
    command = shlex.split(err.split("`")[1])
    assert command == ["optuna", "storage", "upgrade", "--storage", "sqlite:///runs/kd/study.db"]
    code = "import sys; from optuna.cli import main; sys.exit(main())"
    subprocess.run([sys.executable, "-c", code, *command[1:]], check=True, capture_output=True)
    assert swept("--table")[0] == 0
    with sqlite3.connect("runs/kd/study.db") as database:
        database.execute("UPDATE alembic_version SET version_num = 'v99'")
    code, _, err = swept()
    assert (code, "pip install --upgrade optuna" in err) == (2, True), err


class Unreachable(SQLiteDialect_pysqlite):
    """A database that fails while the file `down` exists."""

    supports_statement_cache = True

    def do_execute(self, cursor, statement, parameters, context=None):
        if Path("down").exists():
            Path("down").write_text("met")
            raise sqlite3.OperationalError("down")
        super().do_execute(cursor, statement, parameters, context)


sqlalchemy.dialects.registry.register("sqlite.unreachable", __name__, "Unreachable")


@pytest.mark.parametrize(
    "pace", [1.0, 3.5]
)  # trainings of two steps, which end during the outage or later
def test_an_outage_of_the_database_ends_no_trial_and_no_worker(place, swept, pace):
    """The outage is longer than the time after which a silent worker counts as dead."""
    (place / "kd.py").write_text(CONFIG.replace("SWEEP", TWO))

    def interrupt():
        wait_for(lambda: len(in_training()) == 2)
        Path("down").touch()
        time.sleep(5)
        assert Path("down").read_text() == "met"
        Path("down").unlink()

    outage = threading.Thread(target=interrupt)
    outage.start()
    storage = "--storage=sqlite+unreachable:///runs/kd/study.db"
    code, out, err = swept(storage, "--workers=2", "--grace=3", f"--config.train.pace={pace}")
    outage.join()
    assert (code, len(out.splitlines())) == (0, 4), err
    assert err.count("the database does not answer") == 1
    assert attempts("COMPLETE") == [0, 1]
    assert attempts("FAIL") == []
    assert [steps(trial) for trial in range(2)] == [[0, 1]] * 2


def test_a_worker_that_counted_as_dead_goes_on(place, swept):
    """It is stopped for longer than the time of grace; the other worker finds the result of its
    trial."""
    (place / "kd.py").write_text(CONFIG.replace("SWEEP", TWO))
    slow = ("--grace=3", "--config.train.pace=2.5", "--config.train.steps=3")
    stopped = started(*slow)
    wait_for(in_training)
    stopped.send_signal(signal.SIGSTOP)
    try:
        code, _, err = swept(*slow)
    finally:
        stopped.send_signal(signal.SIGCONT)
    assert code == 0, err
    _, err = stopped.communicate(timeout=60)
    assert (stopped.returncode, "Traceback" in err) == (0, False), err
    assert attempts("COMPLETE") == [0, 1]
    assert [steps(trial) for trial in range(2)] == [[0, 1, 2]] * 2


def test_tpe_draws_near_the_best_results():
    space = optuna.distributions.FloatDistribution(0, 1)
    found, done = sweeps.Sweep({"x": space}, trials=40, tpe=True), []
    for trial in range(40):
        params = found.after(trial, done)
        assert params == found.after(trial, done[::-1])  # as another worker draws it
        how = {
            "value": -abs(params["x"] - 0.3),
            "distributions": {"x": space},
            "user_attrs": {"trial": trial},
        }
        done.append(optuna.create_trial(params=params, **how))
    off = [-trial.value for trial in done]
    assert sum(off[20:]) < sum(off[:10])


@pytest.mark.parametrize("sampler", ["", ", tpe=True"])
def test_a_search_goes_on_to_more_trials_with_the_same_config(place, swept, sampler):
    (place / "kd.py").write_text(
        CONFIG.replace("SWEEP", SEARCH.replace(")}, trials=30", f")}}, trials=30{sampler}"))
    )
    assert swept("--trials=2")[0] == 0
    assert swept("--trials=3", "--workers=2")[0] == 0
    assert attempts("COMPLETE") == [0, 1, 2]
    assert (
        "study 'kd' was begun with other values of config.train.steps. Fix: "
        in swept("--config.train.steps=3")[2]
    )


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
        self.call("pg_ctl", "-w", "-o", f"-h '' -k {self.home}", "-l", self.home / "log", "start")

    def stop(self, mode="immediate"):
        self.call("pg_ctl", "-w", "-m", mode, "stop")


@pytest.fixture
def postgres():
    server = Postgres()
    yield server
    server.stop()
    shutil.rmtree(server.home)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    return (
        "sqlite:///runs/kd/study.db"
        if request.param == "sqlite"
        else request.getfixturevalue("postgres").url
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.parametrize(
    "pace", [1.0, 3.5]
)  # trainings of two steps, which end during the outage or later
def test_a_server_that_is_stopped_for_five_seconds_ends_no_trial_of_two_workers(
    place, postgres, pace, mode
):
    workers = [
        started(f"--storage={postgres.url}", "--grace=3", f"--config.train.pace={pace}")
        for _ in range(2)
    ]
    wait_for(lambda: len(in_training()) == 2)
    postgres.stop(mode)
    time.sleep(5)
    postgres.start()
    printed = [worker.communicate(timeout=200) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], printed
    assert all("the database does not answer" in err for _, err in printed)
    assert not any("Traceback" in err for _, err in printed), printed
    assert attempts("COMPLETE", postgres.url) == list(range(4))
    assert attempts("FAIL", postgres.url) == attempts("RUNNING", postgres.url) == []
    assert [steps(trial) for trial in range(4)] == [[0, 1]] * 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_of_thirty_trials_none_is_lost_and_none_done_twice_whatever_worker_is_killed(place, url):
    """Two workers meet ten kills at random; a killed worker is started again, as a pod would be."""
    (place / "kd.py").write_text(CONFIG.replace("SWEEP", SEARCH))
    given = ("--config.train.steps=5", "--config.train.pace=0.1", f"--storage={url}")
    Path("runs/kd").mkdir(parents=True)
    draws, kills = random.Random(int(os.environ.get("KILLS_SEED", "0"))), 0
    workers = [started(*given) for _ in range(2)]
    while kills < 10:
        # Kills are spread over the sweep: three more trials have begun at each than at the one
        # before.
        wait_for(lambda least=3 * kills: len(list(Path("runs/kd").glob("trial-*.log"))) > least)
        time.sleep(draws.uniform(0, 1.5))
        killed = workers.pop(draws.randrange(2))
        kills += killed.poll() is None
        killed.kill()
        killed.communicate(timeout=30)
        workers.append(started(*given))
    printed = [worker.communicate(timeout=400) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], printed
    assert attempts("COMPLETE", url) == list(range(30))
    assert attempts("RUNNING", url) == attempts("WAITING", url) == []
    assert [steps(trial) for trial in range(30)] == [
        list(range(5))
    ] * 30  # resumed by one worker at a time
    assert not in_training()
    print(
        f"{kills} kills, {len(attempts('FAIL', url))} attempts died, {len(attempts('PRUNED', url))} not needed"
    )
