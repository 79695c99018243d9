"""Gives the suite eight host devices, before jax starts, and a cache and home of its own; keeps
memory small."""

import ctypes
import gc
import os
import signal
import sys
import tempfile

from support.compiler import FAST

# launch/measure/measure_device.sh sets this variable, to test on the machine's own devices
if not os.environ.get("MEDNLI_JAX_TESTS_DEVICE"):
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8 {FAST}"
    )
    os.environ["JAX_PLATFORMS"] = "cpu"

# A shell starts a job in the background with SIGINT ignored, which child processes would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The package's commands forbid glibc to give freed memory back (`keep_memory`); the suite lets it.
# Only large parts are given back, because the system clears each page that a process takes anew.
os.environ["MALLOC_TRIM_THRESHOLD_"] = str(4 << 20)
os.environ["MALLOC_MMAP_THRESHOLD_"] = str(1 << 20)

# A program that one test compiled is not compiled again, neither in this process nor in one that a
# test starts, nor in the other worker. A folder that the user names keeps programs for the next
# time.
COMPILED = tempfile.TemporaryDirectory(prefix="mednli_jax_compiled_", ignore_cleanup_errors=True)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", COMPILED.name)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
assert "jax" not in sys.modules  # which reads these variables when it is imported

import pytest

# These files take by far the longest. They run first, so that both workers end together.
LONGEST = (
    "test_diskne_protocol",
    "test_commands",
    "test_prepared_content",
    "test_parity",
    "test_resume",
    "test_invariance",
    "test_torch_side",
    "test_throughput",
    "test_exits",
    "test_families",
    "test_analyze",
    "test_predict",
    "test_loop",
    "test_cloze_commands",
    "test_transfer",
    "test_step",
    "test_docs",
    "test_sweeps",
    "test_refusals",
    "test_privacy",
    "test_cloze_readers",
    "test_encoder",
    "test_api",
    "test_two_classes",
    "test_packing",
)


def pytest_collection_modifyitems(items):
    def rank(item):
        return LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST)

    items.sort(key=rank)


def pytest_collection_finish():
    """Spares the garbage collector frequent scans of the many imported objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_unconfigure():
    COMPILED.cleanup()  # workers end without their finalizers


def give_back_memory():
    """Drops compiled programs and their traces; jax would keep gigabytes of them over the suite."""
    if jax := sys.modules.get("jax"):
        jax.clear_caches()
    gc.collect()
    if sys.platform == "linux":
        # a function of glibc, which otherwise keeps freed pages
        getattr(ctypes.CDLL(None), "malloc_trim", int)(0)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """No test sees the user's data or prepared corpora; all tests share one cache."""
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("MEDNLI_JAX_DATA", raising=False)


@pytest.fixture(autouse=True)
def _own_umask():
    """Restores the umask, which a command that runs in this process may change."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="module", autouse=True)
def _memory_is_given_back():
    yield
    give_back_memory()
