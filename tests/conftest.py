"""Eight host devices for the suite, set before jax starts; a cache and a home of its own."""

import os
import tempfile

from compiler import FAST

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8 {FAST}"
os.environ["JAX_PLATFORMS"] = "cpu"

# What one test has compiled no other of its process, nor a process that one starts, compiles again. jax does not write
# an entry in one piece, so that each worker has a folder of its own.
COMPILED = tempfile.TemporaryDirectory(prefix="mednli_jax_compiled_", ignore_cleanup_errors=True)
os.environ["JAX_COMPILATION_CACHE_DIR"] = COMPILED.name
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import pytest


def pytest_unconfigure():
    COMPILED.cleanup()  # workers end without their finalizers


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """No test sees the user's data or prepared corpora; tests share one cache."""
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("MEDNLI_JAX_DATA", raising=False)
