"""A run that was interrupted or killed and is resumed ends bit-identical to an unbroken one,
whatever its protocol.

$MEDNLI_JAX_KILLS is the number of kills of each protocol.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import jax
import pytest
from support.commands import at, call_command, environment_of, read_json, use_one_device
from support.files import contents
from support.protocols import PROTOCOLS, flags_of, results, write_home

from mednli_jax import cli, train
from mednli_jax.training.session import Session

FAST = ("warmup", "features", "folds")
EPOCHS = 3
KILLS = int(os.environ.get("MEDNLI_JAX_KILLS", "20"))
LONG = 12  # epochs of a run that is killed


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("resume")
    write_home(home)
    return home


def interrupt(patch, number):
    """A SIGINT arrives when the loop asks for the n-th time whether to stop: after a chunk of
    steps, or a tree."""
    asked, count = Session.should_stop, 0

    def should_stop(session):
        nonlocal count
        count += 1
        if count == number:
            signal.pthread_kill(
                threading.main_thread().ident, signal.SIGINT
            )  # trees grow in another thread
        return asked(session)

    patch.setattr(Session, "should_stop", should_stop)


@pytest.mark.parametrize(
    "protocol",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in PROTOCOLS],
)
def test_an_interrupted_run_resumes_bit_for_bit(home, monkeypatch, protocol):
    """It is interrupted twice, the second time after it was resumed. Its seconds are those of all
    sessions."""
    monkeypatch.chdir(home)
    use_one_device(monkeypatch)
    for name in ("MEDNLI_JAX_DATA", "MEDNLI_JAX_CACHE"):
        monkeypatch.setenv(name, environment_of(home)[name])
    if protocol == "transfer" and not (home / "source").is_dir():
        assert call_command(train, *flags_of("warmup", "source", 1))[0] == 0
    whole, broken = f"{protocol}-whole", f"{protocol}-broken"
    code, _, err = call_command(train, *flags_of(protocol, whole, EPOCHS))
    assert code == 0, err
    spent, rounding = (
        0,
        0.1 if protocol == "features" else 0,
    )  # trees grow within the rounding of the seconds
    for number, more in ((4, ()), (2, ("--resume",))):
        with monkeypatch.context() as patch:
            interrupt(patch, number)
            code, _, err = call_command(train, *flags_of(protocol, broken, EPOCHS), *more)
        assert (code, "--resume" in err) == (cli.INTERRUPTED, True), err
        result = read_json(home, broken, "result.json")
        assert result["status"] == "interrupted"
        assert result["seconds"] > spent - rounding
        spent = result["seconds"]
    code, _, err = call_command(train, *flags_of(protocol, broken, EPOCHS), "--resume")
    assert code == 0, err
    assert results(home / broken) == results(home / whole)
    assert read_json(home, broken, "result.json")["seconds"] > spent - rounding


# -- settings of jax ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def interrupted(home):
    """An interrupted run."""
    with at(home) as patch:
        patch.setenv("MEDNLI_JAX_DATA", environment_of(home)["MEDNLI_JAX_DATA"])
        interrupt(patch, 4)
        assert call_command(train, *flags_of("warmup", "interrupted", EPOCHS))[0] == cli.INTERRUPTED
    return home / "interrupted"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_enable_x64", True),
        ("jax_default_prng_impl", "rbg"),
        ("jax_threefry_partitionable", False),
        ("jax_random_seed_offset", 1),
        ("jax_default_matmul_precision", "highest"),
    ],
)
def test_a_resume_under_other_settings_of_jax_is_refused(interrupted, name, value):
    before, files = getattr(jax.config, name), contents(interrupted)
    code, err = resumed_under(interrupted, name, value)
    assert (code, err.count("\n")) == (cli.USAGE, 1)
    assert f"{name}={before}" in err
    assert f"{name}={value}" in err
    assert contents(interrupted) == files


def test_a_run_without_a_record_of_its_settings_is_resumed(interrupted):
    folder = shutil.copytree(interrupted, interrupted.with_name("unrecorded"))
    env = read_json(folder, "env.json")
    del env["settings"]
    (folder / "env.json").write_text(json.dumps(env))
    assert resumed_under(folder, "jax_default_matmul_precision", "highest")[0] == 0


def resumed_under(folder, name, value):
    """(exit code, messages) of a resume with this value of a setting of jax."""
    home, before = folder.parent, getattr(jax.config, name)
    with at(home) as patch:
        patch.setenv("MEDNLI_JAX_DATA", environment_of(home)["MEDNLI_JAX_DATA"])
        jax.config.update(name, value)
        try:
            code, _, err = call_command(train, *flags_of("warmup", folder.name, EPOCHS), "--resume")
        finally:
            jax.config.update(name, before)
    return code, err


# -- kill -9 -----------------------------------------------------------------------------------------------------------


def start(home, protocol, folder):
    resume = ["--resume"] if (home / folder).is_dir() else []
    epochs = 4 if protocol == "folds" else LONG
    command = [
        sys.executable,
        "-m",
        "mednli_jax.train",
        *flags_of(protocol, folder, epochs),
        *resume,
    ]
    environment = {**os.environ, **environment_of(home)}
    del environment["JAX_COMPILATION_CACHE_DIR"]  # compiled programs then lie in the cache of home
    with open(home / "out.txt", "a") as out:
        return subprocess.Popen(
            command, cwd=home, stdout=out, stderr=out, env=environment, start_new_session=True
        )


def complete(home, protocol, folder):
    """Runs until the run is complete. Returns the seconds that this took."""
    started = time.monotonic()
    assert start(home, protocol, folder).wait() == 0, (home / "out.txt").read_text()[-3000:]
    return time.monotonic() - started


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_runs_killed_at_random_resume_bit_for_bit(home, protocol):
    """A kill hits start, epochs, saves or evaluation; some runs, twice."""
    draw = random.Random(protocol)
    if not (home / "source").is_dir():
        complete(home, "warmup", "source")
    length = max(
        complete(home, protocol, f"{protocol}-{number}") for number in range(2)
    )  # the first compiles
    expected = results(home / f"{protocol}-1")
    killed = attempts = 0
    while killed < KILLS:
        for _ in range(draw.choice((1, 2))):
            attempts += 1
            assert attempts < 3 * KILLS + 3, "too few kills find a run under way"
            process = start(home, protocol, "killed")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(draw.uniform(0.1, 0.9) * length)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        complete(home, protocol, "killed")
        assert results(home / "killed") == expected
        shutil.rmtree(home / "killed")
