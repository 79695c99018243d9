"""Memory of the process is kept between steps, unless the user has set glibc's options."""

import os
import platform
import sys
from types import SimpleNamespace

import pytest

from mednli_jax.training import devices

GLIBC = sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc"


@pytest.mark.skipif(not GLIBC, reason="of glibc's allocator")
def test_memory_is_kept_unless_the_user_has_settings(monkeypatch):
    told = []
    monkeypatch.setattr(devices.ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=lambda *of: told.append(of) or 1))
    assert not devices.keep_memory.__wrapped__()  # conftest.py has settings
    assert told == []
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_TUNABLES"))]:
        monkeypatch.delenv(name)
    assert devices.keep_memory.__wrapped__()
    assert told == list(devices._MALLOPT)
