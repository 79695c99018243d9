"""Memory of the process is kept between steps, unless the user has set glibc's options."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from mednli_jax.training import devices

ROOT = Path(__file__).parents[2]
# Counts the page faults of twenty steps, after ten to warm up. Each step's work space has 36 MB, because by default
# glibc always gives back pieces larger than 32 MB.
FAULTS = """
import resource, jax, jax.numpy as jnp
from mednli_jax.training import devices
{call}
step = jax.jit(lambda x: (jnp.tanh(x @ x.T) @ x).sum())
x = jnp.ones((3072, 8), jnp.float32)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for n in range(30):
    if n == 10:
        before = faults()
    step(x).block_until_ready()
print(faults() - before, devices.keep_memory())
"""
GLIBC = sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc"


def run(call, **settings):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS.format(call=call)],
        env={**kept, "PYTHONPATH": str(ROOT), **settings}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    faults, keeps = done.stdout.split()
    return int(faults), keeps == "True"


@pytest.mark.skipif(not GLIBC, reason="of glibc's allocator")
def test_memory_is_kept_between_steps():
    for _ in range(3):  # the system may take pages back, where other programs need them
        faults, keeps = run("devices.Devices()")
        assert keeps
        if faults < 2_000:
            break
    assert faults < 2_000  # without it 180,000: the system clears the pages of each step anew


def test_settings_of_the_users_stand(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert not devices.keep_memory()
