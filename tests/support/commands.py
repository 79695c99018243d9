"""Runs commands in a process of their own or in this one, and reads the JSON that they write."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from mednli_jax import cli, run
from mednli_jax.run import experiment_of
from mednli_jax.training.devices import Devices
from support.compiler import FAST
from support.pair_files import SECRET

ROOT = Path(__file__).parents[2]
SMALL = (
    "--config.model.hidden_size=4",
    "--config.vectors.dim=8",
    "--config.train.batch_size=16",
    "--config.train.epochs=2",
    "--config.train.max_buckets=1",
    "--config.seeds=0,1",
)


def config_flag(name, variant=None):
    return f"--config={ROOT / 'configs' / name}.py" + (f":{variant}" if variant else "")


def environment_of(home):
    """Environment variables of a process whose data and cache lie in this folder."""
    return {
        "MEDNLI_JAX_DATA": str(home / "data"),
        "MEDNLI_JAX_CACHE": str(home / "cache"),
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": FAST,
    }


def run_command(name, *arguments, cwd, stdin="", **environment):
    """Runs `python -m mednli_jax.<name>` in a process of its own. The result has returncode, stdout
    and stderr."""
    command = [sys.executable, "-m", f"mednli_jax.{name}", *arguments]
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=240,
        env={**os.environ, **environment},
    )


def call_script(name, *arguments, timeout=60, **variables):
    """Runs launch/<name> with these environment variables. The result has returncode, stdout and
    stderr."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": FAST,
        **variables,
    }
    command = ["bash", f"launch/{name}", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout
    )


def use_one_device(patch):
    """Commands of this process use one of the suite's devices, as most machines have one;
    compilation is cheaper."""
    patch.setattr(run, "Devices", lambda: Devices(jax.local_devices()[:1]))


@contextlib.contextmanager
def at(home):
    """Commands of this process run in this folder, with its cache and one device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("MEDNLI_JAX_CACHE", str(home / "cache"))
        use_one_device(patch)
        yield patch


def prepare(config):
    """(prepared corpus, whether it was in the cache)."""
    return experiment_of(config).prepare()


def call_command(module, *flags, stdin="", words=sys.maxsize):
    """Runs a command in this process: (exit code, stdout, stderr). Restores the settings of the
    process."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before, mask = (sys.argv, sys.stdin), os.umask(0o077)
    sys.argv, sys.stdin = (
        [module.__file__, *map(str, flags)],
        io.TextIOWrapper(io.BytesIO(stdin.encode())),
    )
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.run(module.main, module.__doc__, module.define, words=words)
    finally:
        sys.argv, sys.stdin = before
        os.umask(mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return code, out.getvalue(), err.getvalue()


def succeeds(module, *flags, stdin="", words=sys.maxsize):
    """(stdout, stderr) of a command that succeeds in this process."""
    code, out, err = call_command(module, *flags, stdin=stdin, words=words)
    assert code == cli.OK, err
    return out, err


def refused(module, *flags, stdin="", words=sys.maxsize):
    """The message of a command that is refused in this process: one error, with exit code 2, without
    output and without text of the corpus."""
    code, out, err = call_command(module, *flags, stdin=stdin, words=words)
    assert (code, out) == (cli.USAGE, ""), err
    assert len(re.findall("^error: ", err, re.MULTILINE)) == 1
    assert SECRET not in err
    return err


def read_json(*parts):
    return json.loads(Path(*parts).read_text())


def json_lines(*parts):
    return [json.loads(line) for line in Path(*parts).read_text().splitlines()]
