"""A PostgreSQL server for tests of sweeps."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


class Postgres:
    """A PostgreSQL server (Debian's package `postgresql`) without a port."""

    def __init__(self):
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not programs:
            pytest.skip("PostgreSQL is not installed")
        self.home = Path(tempfile.mkdtemp(prefix="pg"))  # the path of a socket must be short
        self.programs, self.user = programs[-1], []
        if os.getuid() == 0:  # the server refuses to run as root
            self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            shutil.chown(self.home, "postgres")
        self.url = f"postgresql://kd@/postgres?host={self.home}"
        self.call("initdb", "-U", "kd", "--auth=trust")
        self.start()

    def call(self, program, *arguments):
        command = [*self.user, self.programs / program, "-D", self.home / "data", *arguments]
        subprocess.run(command, check=True, cwd=self.home, stdout=subprocess.DEVNULL, timeout=120)

    def start(self):
        options = f"-h '' -k {self.home}"
        self.call("pg_ctl", "-w", "-o", options, "-l", self.home / "log", "start")

    def stop(self, mode="immediate"):
        self.call("pg_ctl", "-w", "-m", mode, "stop")


@contextlib.contextmanager
def running_server() -> Iterator[Postgres]:
    server = Postgres()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.home)
