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
from support.commands import at, call_command, environment_of, read_json, refused, succeeds
from support.files import contents
from support.protocols import PROTOCOLS, flags_of, results, write_home

from mednli_jax import cli
from mednli_jax.training import compiler
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


@contextlib.contextmanager
def working_in(home):
    """Commands of this process run in `home`, with its data."""
    with at(home) as patch:
        patch.setenv("MEDNLI_JAX_DATA", str(home / "data"))
        yield


@contextlib.contextmanager
def interrupted_at(number):
    """A SIGINT arrives when the loop asks for the n-th time whether to stop: after a chunk of
    steps, or a tree."""
    should_stop = Session.should_stop
    main_thread = threading.main_thread().ident
    questions = iter(range(1, sys.maxsize))

    def interrupting(session):
        if next(questions) == number:
            signal.pthread_kill(main_thread, signal.SIGINT)
            # Trees grow in another thread, which must not end before the main thread has a turn.
            deadline = time.monotonic() + 60
            while not session.signals and time.monotonic() < deadline:
                time.sleep(0.001)
        return should_stop(session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "should_stop", interrupting)
        yield


@pytest.mark.parametrize(
    "protocol",
    [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in PROTOCOLS],
)
def test_an_interrupted_run_resumes_bit_for_bit(home, protocol):
    """It is interrupted twice, the second time after it was resumed. Its seconds are those of all
    sessions."""
    whole = f"{protocol}-whole"
    broken = f"{protocol}-broken"
    flags = flags_of(protocol, broken, EPOCHS)
    rounding = 0.1 if protocol == "features" else 0  # trees grow within the rounding of seconds
    spent = 0
    with working_in(home):
        if protocol == "transfer" and not (home / "source").is_dir():
            succeeds("train", *flags_of("warmup", "source", 1))
        succeeds("train", *flags_of(protocol, whole, EPOCHS))

        for number, resume in ((4, ()), (2, ("--resume",))):
            with interrupted_at(number):
                code, _, err = call_command("train", *flags, *resume)
            assert code == cli.INTERRUPTED, err
            assert "--resume" in err
            result = read_json(home, broken, "result.json")
            assert result["status"] == "interrupted"
            assert result["seconds"] > spent - rounding
            spent = result["seconds"]
        succeeds("train", *flags, "--resume")

    assert results(home / broken) == results(home / whole)
    assert read_json(home, broken, "result.json")["seconds"] > spent - rounding


# ---- settings of jax ----


@pytest.fixture(scope="module")
def interrupted(home):
    """An interrupted run."""
    with working_in(home), interrupted_at(4):
        code = call_command("train", *flags_of("warmup", "interrupted", EPOCHS)).code
    assert code == cli.INTERRUPTED
    return home / "interrupted"


@contextlib.contextmanager
def jax_setting(name, value):
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


@pytest.mark.parametrize(
    "name, value",
    [
        ("jax_enable_x64", True),
        ("jax_default_prng_impl", "rbg"),
        ("jax_threefry_partitionable", False),
        ("jax_random_seed_offset", 1),
        ("jax_default_matmul_precision", "highest"),
    ],
)
def test_a_resume_under_other_settings_of_jax_is_refused(interrupted, name, value):
    before = getattr(jax.config, name)
    files = contents(interrupted)
    flags = flags_of("warmup", interrupted.name, EPOCHS)

    with working_in(interrupted.parent), jax_setting(name, value):
        err = refused("train", *flags, "--resume")
    assert err.count("\n") == 1
    assert f"{name}={before}" in err
    assert f"{name}={value}" in err
    assert contents(interrupted) == files


def test_a_run_without_a_record_of_its_settings_is_resumed(interrupted):
    folder = shutil.copytree(interrupted, interrupted.with_name("unrecorded"))
    env = read_json(folder, "env.json")
    del env["settings"]
    (folder / "env.json").write_text(json.dumps(env))
    flags = flags_of("warmup", folder.name, EPOCHS)

    with working_in(folder.parent), jax_setting("jax_default_matmul_precision", "highest"):
        succeeds("train", *flags, "--resume")


def test_a_resume_with_another_option_of_the_compiler_is_refused(interrupted):
    folder = shutil.copytree(interrupted, interrupted.with_name("compiled_otherwise"))
    env = read_json(folder, "env.json")
    assert env["settings"][compiler.YNNPACK] is None
    env["settings"][compiler.YNNPACK] = ""
    (folder / "env.json").write_text(json.dumps(env))

    with working_in(folder.parent):
        err = refused("train", *flags_of("warmup", folder.name, EPOCHS), "--resume")
    assert err.count("\n") == 1
    assert f"install jax {env['versions']['jax']}" in err


# ---- kill -9 ----


def start(home, protocol, folder):
    """Starts or resumes a run in a process of its own."""
    epochs = 4 if protocol == "folds" else LONG
    resume = ["--resume"] if (home / folder).is_dir() else []
    flags = (*flags_of(protocol, folder, epochs), *resume)
    env = {**os.environ, **environment_of(home)}
    del env["JAX_COMPILATION_CACHE_DIR"]  # compiled programs then lie in the cache of home
    with open(home / "out.txt", "a") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "mednli_jax.train", *flags],
            cwd=home,
            stdout=out,
            stderr=out,
            env=env,
            start_new_session=True,
        )


def complete(home, protocol, folder):
    """Runs until the run is complete. Returns the seconds that this took."""
    started = time.monotonic()
    assert start(home, protocol, folder).wait() == 0, (home / "out.txt").read_text()[-3000:]
    return time.monotonic() - started


def killed_after(process, seconds):
    """Whether the process was still running, and was killed."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_runs_killed_at_random_resume_bit_for_bit(home, protocol):
    """A kill hits start, epochs, saves or evaluation; some runs, twice."""
    rng = random.Random(protocol)
    if not (home / "source").is_dir():
        complete(home, "warmup", "source")
    # the first compiles
    longest = max(complete(home, protocol, f"{protocol}-{number}") for number in range(2))
    expected = results(home / f"{protocol}-1")

    kills = attempts = 0
    while kills < KILLS:
        for _ in range(rng.choice((1, 2))):
            attempts += 1
            assert attempts < 3 * KILLS + 3, "too few kills find a run under way"
            process = start(home, protocol, "killed")
            kills += killed_after(process, rng.uniform(0.1, 0.9) * longest)
        complete(home, protocol, "killed")
        assert results(home / "killed") == expected
        shutil.rmtree(home / "killed")
