"""The exit code is 0 only where the work is done, whoever reads the output; what the machine lacks
is one line."""

import contextlib
import errno
import os
import pwd
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import jax
import pytest
from support.cases import cases
from support.commands import (
    SMALL,
    call_command,
    environment_of,
    read_json,
    refused,
    run_python,
    succeeds,
    use_one_device,
)
from support.pair_files import write_pairs

import mednli_jax
from mednli_jax import __main__, cli
from mednli_jax.errors import RunError, UsageError
from mednli_jax.rundir import RunDirectory

BOW = shlex.join(("--config=bow:mednli", *SMALL, "--config.vectors.path="))
PAIR = "No CHF.\tHeart failure.\n"
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@contextlib.contextmanager
def no_reader():
    """A pipe to write into, which nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def exit_code(home, line, **streams):
    """Runs a command in a process whose output has no reader, but for `streams`."""
    words = [sys.executable, "-m", "mednli_jax", *shlex.split(line)]
    env = {**os.environ, **environment_of(home)}
    with no_reader() as pipe:
        streams = {"stdout": pipe, "stderr": pipe, **streams}
        return subprocess.run(words, cwd=home, env=env, timeout=240, **streams).returncode


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a corpus and a finished run, whose training had no reader of its output."""
    home = tmp_path_factory.mktemp("exits")
    write_pairs(home / "data" / "mednli")
    assert exit_code(home, f"train {BOW} --workdir=run") == 0
    return home


@pytest.fixture
def at_home(home, monkeypatch):
    """Commands of this process run in `home`."""
    for name, value in environment_of(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home)
    use_one_device(monkeypatch)
    return home


# ---- who reads the output ----


def test_a_training_without_a_reader_is_completed_and_logged(home):
    assert read_json(home, "run", "result.json")["status"] == "complete"
    assert "epoch 2/2" in (home / "run" / "log.txt").read_text()
    assert (home / "run" / "report.html").is_file()


def test_a_file_of_predictions_is_finished_without_a_reader_of_the_messages(home):
    pairs = 9000 * PAIR.encode()
    assert exit_code(home, "predict --run=run --output=out.jsonl", input=pairs) == 0
    assert (home / "out.jsonl").read_text().count("\n") == 9000


def test_predict_ends_where_the_reader_of_its_output_ends(home):
    with subprocess.Popen(["yes", PAIR.strip()], stdout=subprocess.PIPE) as endless:
        assert exit_code(home, "predict --run=run", stdin=endless.stdout) == 0
        endless.kill()


# Prints much, writes the number of an open file into it, and returns an exit code.
PRINTS = """
import sys
from mednli_jax import cli, terminal
def work():
    for number in range(20_000):
        print(number)
        terminal.say(str(number))
    with open(sys.argv[1], "w") as file:
        file.write(str(file.fileno()))
    return int(sys.argv[2])
sys.exit(cli.script(work))
"""


def printing(path, code=cli.OK, shell=(), **streams):
    command = [
        *shell,
        sys.executable,
        "-c",
        PRINTS,
        str(path),
        str(code),
    ]
    return subprocess.run(command, timeout=120, **{**QUIET, **streams}).returncode


@pytest.mark.parametrize("code", [cli.OK, cli.USAGE])
@pytest.mark.parametrize(
    "streams",
    [
        ("stdout",),
        ("stderr",),
        ("stdout", "stderr"),
    ],
)
def test_a_lost_reader_changes_neither_work_nor_exit_code(tmp_path, streams, code):
    with no_reader() as pipe:
        assert printing(tmp_path / "file", code, **dict.fromkeys(streams, pipe)) == code
    assert (tmp_path / "file").is_file()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing_and_no_file_takes_their_place(tmp_path, closed):
    shell = ["bash", "-c", f'exec "$@" {closed}', "bash"]
    assert printing(tmp_path / "file", shell=shell) == 0
    assert int((tmp_path / "file").read_text()) > 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_under_the_output_is_an_error():
    command = [sys.executable, "-m", "mednli_jax", "--list"]
    with open("/dev/full", "w") as full:
        listing = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert listing.returncode == cli.USAGE
    assert listing.stderr.count("\n") == 1
    assert os.strerror(errno.ENOSPC) in listing.stderr


# ---- what the user's machine lacks ----

LONG = "x" * 300


@pytest.mark.parametrize(
    "line",
    [
        f"train {BOW} --workdir={LONG}",
        f"train {BOW} --config.data.dir={LONG}",
        f"prepare {BOW} --config.vectors.path={LONG}",
        f"predict --run={LONG}",
        f"predict --run=run --input={LONG}.tsv",
        f"predict --run=run --output={LONG}.tsv",
        f"doctor --data={LONG}",
        f"train {BOW} --workdir=~nobody-here/run",
        "predict --run=~nobody-here/run",
    ],
)
def test_a_path_that_cannot_be_is_one_line(at_home, line):
    err = refused(line, stdin=PAIR)
    assert err.count("\n") == 1
    assert " Fix: " in err


@pytest.mark.parametrize("line", [f"prepare {BOW}", "doctor", f"train {BOW} --workdir=new"])
def test_without_a_home_folder_the_cache_is_asked_for(at_home, monkeypatch, line):
    def unknown(_):
        raise KeyError

    for name in ("HOME", "MEDNLI_JAX_CACHE", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(pwd, "getpwuid", unknown)

    code, _, err = call_command(line)
    assert code == cli.USAGE, err
    assert err.count("\n") == 1
    assert "$MEDNLI_JAX_CACHE" in err
    assert not (at_home / "new").exists()


HELP = """
import sys
from mednli_jax import __main__
codes = []
for command in __main__.COMMANDS:
    sys.argv = ["mednli-jax", command, "--help"]
    codes.append(__main__.main())
sys.exit(any(codes))
"""


def test_help_is_printed_where_python_drops_docstrings():
    printed = run_python("-OO", "-c", HELP)
    assert printed.returncode == 0
    assert printed.stderr == ""
    assert all(name in printed.stdout for name in __main__.COMMANDS)


# ---- settings of jax ----


@pytest.fixture
def jax_setting():
    """jax_setting(name, value) sets a setting of jax for a test."""
    before = {}

    def update(name, value):
        before[name] = getattr(jax.config, name)
        jax.config.update(name, value)

    yield update
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.parametrize(
    "name, value",
    [
        ("jax_disable_jit", True),
        ("jax_numpy_rank_promotion", "raise"),
        ("jax_numpy_dtype_promotion", "strict"),
    ],
)
@pytest.mark.parametrize(
    "line",
    [
        f"train {BOW} --workdir=new",
        "predict --run=run",
        "evaluate --run=run",
        "export run new",
        "doctor",
    ],
    ids=lambda line: line.split()[0],
)
def test_a_setting_under_which_models_do_not_run_is_named(at_home, jax_setting, name, value, line):
    jax_setting(name, value)

    code, out, err = call_command(line, stdin=PAIR)
    (message,) = [text for text in (out + err).splitlines() if name in text]
    assert code == cli.USAGE
    assert f"unset {name.upper()}" in message
    assert not (at_home / "new").exists()


@cases(
    "line, platform",
    {
        "not installed": (f"train {BOW} --workdir=new", "cuda"),
        "typo": ("doctor", "none-such"),
    },
)
def test_a_platform_without_a_device_is_one_line(home, line, platform):
    variables = {**environment_of(home), "JAX_PLATFORMS": platform}
    words = ("-m", "mednli_jax", *shlex.split(line))
    done = run_python(*words, cwd=home, stdin=PAIR, **variables)

    lines = (done.stdout + done.stderr).splitlines()
    (message,) = [text for text in lines if "JAX_PLATFORMS=cpu" in text]
    assert done.returncode == cli.USAGE, done.stderr
    assert "[cuda12]" in message
    assert "bug" not in done.stderr
    assert not (home / "new").exists()


# ---- from Python ----


def test_training_works_in_a_thread_besides_the_main_one(at_home):
    config = mednli_jax.get_config("bow:mednli")
    config.update_from_flattened_dict(
        {
            "model.hidden_size": 4,
            "seeds": (0, 1),
            "train.batch_size": 16,
            "train.epochs": 1,
            "train.max_buckets": 1,
            "vectors.dim": 8,
            "vectors.path": "",
        }
    )
    thread = threading.Thread(target=mednli_jax.train_model, args=(config, "thread"))
    thread.start()
    thread.join()
    assert read_json(at_home, "thread", "result.json")["status"] == "complete"


@pytest.mark.parametrize("name", ["ga:demo", "diskne_bow:demo"])
def test_a_config_of_another_task_is_refused(at_home, name):
    run = mednli_jax.load_run("run")
    with pytest.raises(UsageError, match="config is of"):
        run.evaluate(config=name)


# ---- a run that failed ----


def test_a_training_that_failed_for_a_full_disk_is_completed_by_resume(at_home, monkeypatch):
    def refuse(*_):
        raise RunError("the disk is full. Fix: free space.")

    line = f"train {BOW} --workdir=disk"
    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "append_metrics", refuse)
        assert call_command(line).code == cli.USAGE
    assert read_json(at_home, "disk", "result.json")["status"] == "failed"

    err = refused(line)
    assert "--resume" in err
    assert "--force" in err
    succeeds(line, "--resume")


def test_a_training_whose_flags_cannot_complete_it_does_not_name_resume(at_home):
    line = f"train {BOW} --workdir=rate --config.train.learning_rate=1e30"
    assert call_command(line).code == cli.USAGE
    assert read_json(at_home, "rate", "result.json")["status"] == "failed"

    err = refused(line)
    assert "--resume" not in err
    assert "--force" in err
    assert call_command(line, "--resume").code == cli.USAGE
