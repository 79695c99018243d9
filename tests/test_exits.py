"""The exit code is 0 only where the work is done, whoever reads the output; what the machine lacks
is one line."""

import errno
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import pytest
from support.commands import (
    ROOT,
    SMALL,
    call_command,
    config_flag,
    environment_of,
    read_json,
    run_command,
    use_one_device,
)
from support.pair_files import write_pairs

import mednli_jax
from mednli_jax import __main__, cli, doctor, evaluate, predict, prepare, train
from mednli_jax.errors import RunError, UsageError
from mednli_jax.rundir import RunDirectory

BOW = (config_flag("bow", "mednli"), *SMALL, "--config.vectors.path=")
PAIR = "No CHF.\tHeart failure.\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a corpus and a finished run, whose training had no reader of its output."""
    home = tmp_path_factory.mktemp("exits")
    write_pairs(home / "data" / "mednli")
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as gone:
        gone.wait()
        command = [sys.executable, "-m", "mednli_jax.train", *BOW, "--workdir=run"]
        variables = {**os.environ, **environment_of(home)}
        done = subprocess.run(
            command, cwd=home, stdout=gone.stdin, stderr=gone.stdin, env=variables
        )
        gone.stdin = None  # nothing is left to be flushed
    (home / "code.txt").write_text(str(done.returncode))
    return home


@pytest.fixture
def at_home(home, monkeypatch):
    for name, value in environment_of(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home)
    use_one_device(monkeypatch)
    return home


def test_a_training_without_a_reader_is_completed_and_logged(home):
    assert (home / "code.txt").read_text() == "0"
    assert read_json(home, "run", "result.json")["status"] == "complete"
    assert "epoch 2/2" in (home / "run" / "log.txt").read_text()
    assert (home / "run" / "report.html").is_file()


# Prints much, writes a file and returns an exit code.
PRINTS = """
import sys
from pathlib import Path
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


def printing(path, code, shell=(), **streams):
    command = [*shell, sys.executable, "-c", PRINTS, str(path), str(code)]
    return subprocess.run(command, timeout=120, check=False, **streams).returncode


@pytest.mark.parametrize("code", [cli.OK, cli.USAGE])
@pytest.mark.parametrize("streams", [("stdout",), ("stderr",), ("stdout", "stderr")])
def test_a_lost_reader_changes_neither_work_nor_exit_code(tmp_path, streams, code):
    reader, writer = os.pipe()
    os.close(reader)
    quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    assert printing(tmp_path / "file", code, **quiet | dict.fromkeys(streams, writer)) == code
    os.close(writer)
    assert (tmp_path / "file").is_file()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing_and_no_file_takes_their_place(tmp_path, closed):
    shell = ["bash", "-c", f'exec "$@" {closed}', "bash"]
    assert (
        printing(tmp_path / "file", 0, shell, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        == 0
    )
    assert int((tmp_path / "file").read_text()) > 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_under_the_output_is_an_error():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "mednli_jax", "--list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (cli.USAGE, 1)
    assert os.strerror(errno.ENOSPC) in done.stderr


def without_reader(home, *flags, **streams):
    """The exit code of `predict` whose standard output has no reader."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "mednli_jax.predict", "--run=run", *flags]
    streams = {"stdout": writer, "stderr": writer, **streams}
    variables = {**os.environ, **environment_of(home)}
    done = subprocess.run(command, cwd=home, env=variables, timeout=240, check=False, **streams)
    os.close(writer)
    return done.returncode


def test_a_file_of_predictions_is_finished_without_a_reader_of_the_messages(home):
    assert without_reader(home, "--output=out.jsonl", input=9000 * PAIR.encode()) == 0
    assert (home / "out.jsonl").read_text().count("\n") == 9000


def test_predictions_end_with_their_reader(home):
    with subprocess.Popen(["yes", PAIR.strip()], stdout=subprocess.PIPE) as endless:
        assert without_reader(home, stdin=endless.stdout) == 0
        endless.kill()


# -- what the user's machine lacks ------------------------------------------------------------------------------------

LONG = "x" * 300


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (train, (*BOW, f"--workdir={LONG}")),
        (train, (*BOW, f"--config.data.dir={LONG}")),
        (prepare, (*BOW, f"--config.vectors.path={LONG}")),
        (predict, (f"--run={LONG}",)),
        (predict, ("--run=run", f"--input={LONG}.tsv")),
        (predict, ("--run=run", f"--output={LONG}.tsv")),
        (evaluate, ("--run=run", f"--scores={LONG}")),
        (doctor, (f"--data={LONG}",)),
        (train, (*BOW, "--workdir=~nobody-here/run")),
        (predict, ("--run=~nobody-here/run",)),
    ],
)
def test_a_path_that_cannot_be_is_one_line(at_home, command, flags):
    code, _, err = call_command(command, *flags, stdin=PAIR)
    assert (code, err.count("\n"), err.count("error: "), " Fix: " in err) == (
        cli.USAGE,
        1,
        1,
        True,
    ), err


@pytest.mark.parametrize(
    ("command", "flags"), [(prepare, BOW), (doctor, ()), (train, (*BOW, "--workdir=new"))]
)
def test_without_a_home_folder_the_cache_is_asked_for(at_home, monkeypatch, command, flags):
    def unknown(_):
        raise KeyError

    for name in ("HOME", "MEDNLI_JAX_CACHE", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    code, _, err = call_command(command, *flags)
    assert (code, err.count("\n"), "$MEDNLI_JAX_CACHE" in err) == (cli.USAGE, 1, True), err
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


def test_help_is_there_without_docstrings():
    done = subprocess.run(
        [sys.executable, "-OO", "-c", HELP], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for command in __main__.COMMANDS:
        assert command in done.stdout


# -- settings of jax --------------------------------------------------------------------------------------------------


@pytest.fixture
def jax_setting():
    """Sets a setting of jax for a test."""
    before = {}

    def update(name, value):
        before[name] = getattr(jax.config, name)
        jax.config.update(name, value)

    yield update
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_disable_jit", True),
        ("jax_no_tracing", True),
        ("jax_numpy_rank_promotion", "raise"),
        ("jax_numpy_dtype_promotion", "strict"),
        ("jax_transfer_guard", "disallow"),
        ("jax_transfer_guard_device_to_host", "disallow_explicit"),
    ],
)
@pytest.mark.parametrize("command", [train, predict, evaluate, doctor])
def test_a_setting_under_which_models_do_not_run_is_named(
    at_home, jax_setting, name, value, command
):
    flags = {train: (*BOW, "--workdir=new"), doctor: ()}.get(command, ("--run=run",))
    jax_setting(name, value)
    code, out, err = call_command(command, *flags, stdin=PAIR)
    lines = [line for line in (out + err).splitlines() if name in line]
    assert (code, len(lines), f"unset {name.upper()}" in lines[0]) == (cli.USAGE, 1, True)
    assert not (at_home / "new").exists()


@pytest.mark.parametrize(
    ("variable", "platform", "extra"),
    [("JAX_PLATFORMS", "cuda", "cuda12"), ("JAX_PLATFORMS", "none-such", "")],
)
@pytest.mark.parametrize(
    "command", ["train", "predict", "evaluate", "export", "doctor", "benchmark"]
)
def test_a_platform_without_a_device_is_one_line(home, command, variable, platform, extra):
    flags = {
        "train": (*BOW, "--workdir=new"),
        "doctor": (),
        "export": ("run", "new"),
        "benchmark": ("--models=bow", "--against=none", "--tokens=8", "--rounds=1"),
    }.get(command, ("--run=run",))
    done = run_command(
        command, *flags, cwd=home, stdin=PAIR, **environment_of(home), **{variable: platform}
    )
    lines = [
        line
        for line in (done.stdout + done.stderr).splitlines()
        if f"{variable}={platform}" in line
    ]
    assert (done.returncode, len(lines), f"[{extra}]" in lines[0]) == (cli.USAGE, 1, bool(extra)), (
        done.stderr
    )
    assert "bug" not in done.stderr
    assert not (home / "new").exists()


def test_a_number_that_is_not_finite_under_debug_nans_names_the_setting(capsys):
    assert cli.script(lambda: jax_error()) == cli.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "JAX_DEBUG_NANS" in line


def jax_error():
    with jax.debug_nans(True):
        jax.numpy.log(jax.numpy.float32(-1)).block_until_ready()


# -- from Python -------------------------------------------------------------------------------------------------------


def small_config():
    config = mednli_jax.get_config("bow:mednli")
    config.train.epochs, config.vectors.dim, config.model.hidden_size, config.vectors.path = (
        1,
        8,
        4,
        "",
    )
    return config


def test_a_thread_trains(at_home):
    runs = []
    thread = threading.Thread(
        target=lambda: runs.append(mednli_jax.train_model(small_config(), "thread"))
    )
    thread.start()
    thread.join()
    assert runs[0].result["status"] == "complete"


@pytest.mark.parametrize("name", ["ga_ent:demo", "diskne_bow:demo"])
def test_a_config_of_another_task_is_refused(at_home, name):
    run = mednli_jax.load_run("run")
    with pytest.raises(UsageError, match="config is of"):
        run.evaluate(config=name)


# -- a run that failed -------------------------------------------------------------------------------------------------


def refuse(*_):
    raise RunError("the disk is full. Fix: free space.")


@pytest.mark.parametrize("fault", ["disk", "learning rate"])
def test_a_failed_training_names_resume_where_the_same_flags_can_complete_it(
    at_home, monkeypatch, fault
):
    flags = (*BOW, f"--workdir={fault}")
    with monkeypatch.context() as patch:
        if fault == "disk":
            patch.setattr(RunDirectory, "append_metrics", refuse)
        else:
            flags = (*flags, "--config.train.learning_rate=1e30")
        assert call_command(train, *flags)[0] == cli.USAGE
    assert read_json(at_home, fault, "result.json")["status"] == "failed"
    code, _, err = call_command(train, *flags)
    assert (code, "--resume" in err, "--force" in err) == (cli.USAGE, fault == "disk", True)
    assert call_command(train, *flags, "--resume")[0] == (cli.OK if fault == "disk" else cli.USAGE)


# -- two processes in one folder ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_training_waits_and_a_killed_one_resumes_to_the_same_numbers(home):
    """The first lives longer than the second waits; then it is killed, and the second command
    completes the run."""
    flags = (
        *BOW,
        "--config.train.epochs=400",
        "--config.train.patience=999",
        "--config.train.checkpoint_minutes=0.01",
    )
    variables = {**os.environ, **environment_of(home)}

    def started(folder, *more):
        command = [sys.executable, "-m", "mednli_jax.train", *flags, f"--workdir={folder}", *more]
        return subprocess.Popen(command, cwd=home, env=variables, stderr=subprocess.PIPE, text=True)

    whole = started("whole")
    assert (whole.communicate()[1], whole.returncode)[1] == 0
    first = started("killed")
    while not (home / "killed" / "checkpoints").is_dir():
        assert first.poll() is None
        time.sleep(0.1)
    first.send_signal(signal.SIGSTOP)  # it lives, and does not come to its end meanwhile
    for more in ((), ("--resume",), ("--force",)):
        second = started("killed", "--wait=2", *more)
        err = second.communicate()[1]
        assert (second.returncode, "waiting" in err, "Traceback" in err) == (
            cli.INTERRUPTED,
            True,
            False,
        ), err
    waiting = started("killed", "--wait=300", "--resume")
    assert "waiting" in next(line for line in waiting.stderr if "waiting" in line)
    first.kill()
    first.communicate()
    assert (waiting.communicate()[1], waiting.returncode)[1] == 0
    results = [read_json(home, folder, "result.json") for folder in ("whole", "killed")]
    assert results[0]["test"] == results[1]["test"]
    files = [
        (home / folder / "private" / "predictions.test.jsonl").read_bytes()
        for folder in ("whole", "killed")
    ]
    assert files[0] == files[1]
