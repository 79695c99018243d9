"""Runs commands in a process of their own or in this one, and reads the JSON that they write."""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import pytest
from ml_collections import ConfigDict

import mednli_jax
from mednli_jax import cli, experiment, finished
from mednli_jax.__main__ import COMMANDS
from mednli_jax.data.arrays import Prepared
from mednli_jax.experiment import experiment_of
from mednli_jax.training.devices import Devices
from support.compiler import FAST
from support.pair_files import SECRET

Json = Any

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SMALL = (
    "--config.model.hidden_size=4",
    "--config.vectors.dim=8",
    "--config.train.batch_size=16",
    "--config.train.epochs=2",
    "--config.train.max_buckets=1",
    "--config.seeds=0,1",
)
# Processes that a test starts import the package that this one imports, installed or not.
IMPORTS = {"PYTHONPATH": str(Path(mednli_jax.__file__).parents[1]), "XLA_FLAGS": FAST}


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def config_flag(name: str, variant: str | None = None) -> str:
    path = f"--config={ROOT / 'configs' / name}.py"
    return f"{path}:{variant}" if variant else path


def environment_of(home: Path) -> dict[str, str]:
    """Environment variables of a process whose data and cache lie in this folder."""
    folders = {"MEDNLI_JAX_DATA": str(home / "data"), "MEDNLI_JAX_CACHE": str(home / "cache")}
    return folders | IMPORTS


def run_command(
    name: str, *arguments: str, cwd: Path, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m mednli_jax.<name>` in a process of its own."""
    words = ("-m", f"mednli_jax.{name}", *arguments)
    return run_python(*words, cwd=cwd, stdin=stdin, **environment)


def run_python(
    *words: object,
    cwd: Path = ROOT,
    stdin: str = "",
    timeout: float | None = 240,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Runs Python with these words in a process of its own, with further environment variables."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=timeout,
        env={**os.environ, **variables},
    )


def call_script(
    name: str, *arguments: object, cwd: Path = ROOT, bin: Path = BIN, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs launch/<name> with these environment variables. bin: a folder of programs, which are
    found first."""
    path = f"{bin}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", ROOT / "launch" / name, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PATH": path, **IMPORTS, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def call_command(command: ModuleType | str, *flags: object, stdin: str = "") -> Outcome:
    """Runs a command in this process. Restores the settings of the process.

    command: a module, or the command as it is typed, such as "predict --run=run".
    """
    if isinstance(command, str):
        name, *typed = shlex.split(command)
        command = COMMANDS[name][0]
        flags = (*typed, *flags)
    words = getattr(command, "WORDS", 0)
    out = io.StringIO()
    err = io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    mask = os.umask(0o077)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [command.__file__, *map(str, flags)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = cli.run(command.main, command.__doc__, command.define, words=words)
        finally:
            os.umask(mask)
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return Outcome(code, out.getvalue(), err.getvalue())


def succeeds(command: ModuleType | str, *flags: object, stdin: str = "") -> tuple[str, str]:
    """(stdout, stderr) of a command that succeeds in this process."""
    code, out, err = call_command(command, *flags, stdin=stdin)
    assert code == cli.OK, err
    return out, err


def printed_json(command: ModuleType | str, *flags: object) -> Json:
    """The JSON that a command prints with --json."""
    return json.loads(succeeds(command, *flags, "--json")[0])


def refused(command: ModuleType | str, *flags: object, stdin: str = "") -> str:
    """The message of a command that is refused in this process: one error, with exit code 2,
    without output and without text of the corpus."""
    code, out, err = call_command(command, *flags, stdin=stdin)
    assert code == cli.USAGE, err
    assert out == "", err
    assert len(re.findall("^error: ", err, re.MULTILINE)) == 1
    assert SECRET not in err
    return err


def use_one_device(patch: pytest.MonkeyPatch) -> None:
    """Commands of this process use one of the suite's devices, as most machines have one;
    compilation is cheaper."""
    for module in (experiment, finished):
        patch.setattr(module, "Devices", lambda: Devices(jax.local_devices()[:1]))


@contextlib.contextmanager
def at(home: Path) -> Iterator[pytest.MonkeyPatch]:
    """Commands of this process run in this folder, with its cache and one device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("MEDNLI_JAX_CACHE", str(home / "cache"))
        use_one_device(patch)
        yield patch


def prepare(config: ConfigDict) -> tuple[Prepared, bool]:
    """(prepared corpus, whether it was in the cache)."""
    return experiment_of(config).prepare()


def read_json(*parts: str | Path) -> Json:
    return json.loads(Path(*parts).read_text())


def json_lines(*parts: str | Path) -> list[Json]:
    return [json.loads(line) for line in Path(*parts).read_text().splitlines()]
