"""Monitors the processes of a run. Where one is lost, the others end within seconds, with a message of one line.

A collective operation with a dead process waits forever or fails with a long message. Therefore each process writes a
heartbeat every second to the key-value store of jax's coordination service. A process without a heartbeat for PATIENCE
seconds counts as lost. Before training, a library may block Python for longer; the limit is then LOADING_PATIENCE.
In addition each process keeps an idle TCP connection with the first one. The operating systems keep it alive while
Python is blocked and close it when a process or host is gone; from then on the limit is PATIENCE.

jax's coordination service also detects a killed process (jax 0.10 to 0.12, `heartbeat_timeout_seconds`), but it ends
the others by SIGABRT, with exit code 134 and some twenty lines of a stack trace.
"""

import contextlib
import os
import secrets
import socket
import sys
import threading
import time

BEAT = 1.0  # seconds between two heartbeats
PATIENCE, LOADING_PATIENCE = 10.0, 60.0  # seconds without a heartbeat after which a process counts as lost
LOST = 3  # exit code: interrupted, and resumable
ALIVE, LEFT = "mednli_jax/alive/", "left:"
LINE = "mednli_jax/line/"  # key of the first process's address: host, port, secret that a connection must begin with
# Seconds without traffic before a connection is probed, seconds between probes, failed probes before it is closed.
_TRIES = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
_FATAL = b"distributed service detected fatal errors"  # part of jax's message before it aborts


class Watch:
    """The threads of one process: one exchanges heartbeats, one checks the limits, others hold the connections.

    Args:
      client: jax's client of the key-value store, which process 0 runs.
      index: number of this process.
      count: number of processes.
      host: address of process 0 for the others; None: the host's own name.
      stderr: file descriptor of the user's stderr.
      output: file descriptor of the file with the output of libraries, where that is redirected.
    """

    def __init__(self, client, index: int, count: int, *, host: str | None = None, stderr: int = 2,
                 output: int | None = None):  # fmt: skip
        self.on_loss = lambda: None  # called before this process ends because of another one
        self.parted = False
        self.patience = LOADING_PATIENCE
        self._client, self._index, self._count = client, index, count
        self._stderr, self._output = stderr, output
        self._code: int | None = None  # exit code, once this process is about to end
        self._ending = threading.Lock()
        self._marks: dict[int, str] = {}
        self._seen, self._answered = dict.fromkeys(range(count), time.monotonic()), time.monotonic()
        self._host, self._cut = host or socket.getfqdn(), set()
        for work in (self._beat, self._look, self._await if self._leads else self._call):
            threading.Thread(target=work, daemon=True).start()

    @property
    def _leads(self):
        return self._index == 0

    def _set(self, mark):
        self._client.key_value_set(f"{ALIVE}{self._index}", mark, allow_overwrite=True)

    def _beat(self):
        """Exchanges heartbeats. It has its own thread, because the calls block when the network does."""
        number = 0
        while not self._ending.locked():
            number += 1
            with contextlib.suppress(Exception):  # the thread of `_look` detects missing answers
                self._set(str(number) if self._code is None else f"{LEFT}{self._code}")
                found = self._client.key_value_dir_get(ALIVE)
                self._answered = time.monotonic()
                for key, text in found:
                    peer = int(key.rpartition("/")[2])
                    if self._marks.get(peer) != text:
                        self._marks[peer], self._seen[peer] = text, self._answered
            time.sleep(BEAT if self._code is None else BEAT / 4)

    def _await(self):
        """Accepts the connections of the other processes. Where that is impossible, only heartbeats are used."""
        with contextlib.suppress(Exception), socket.create_server(("", 0)) as listener:
            secret = secrets.token_hex(16)
            self._client.key_value_set(f"{LINE}0", f"{self._host} {listener.getsockname()[1]} {secret}")
            while True:
                threading.Thread(target=self._greet, args=(listener.accept()[0], secret), daemon=True).start()

    def _greet(self, line, secret):
        with contextlib.suppress(OSError, ValueError), line:
            line.settimeout(PATIENCE)
            greeting, _, peer = line.makefile("rb").readline(100).decode().partition(" ")
            if greeting == secret:
                self._hold(line, int(peer))

    def _call(self):
        with contextlib.suppress(Exception):
            while not (found := self._client.key_value_dir_get(LINE)):
                time.sleep(BEAT)
            host, port, secret = found[0][1].split()
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as line:
                line.sendall(f"{secret} {self._index}\n".encode())
                self._hold(line, 0)

    def _hold(self, line, peer):
        line.settimeout(None)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in _TRIES.keys() & vars(socket).keys():
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _TRIES[name])
        with contextlib.suppress(OSError):
            line.recv(1)
        self._cut.add(peer)

    def _silence(self, peer):
        """Seconds without a heartbeat after which a process counts as lost."""
        return min(PATIENCE, self.patience) if peer in self._cut else self.patience

    def _look(self):
        looked = time.monotonic()
        while not (self.parted and self._leads):
            time.sleep(BEAT / 2)
            now = time.monotonic()
            if now - looked > PATIENCE / 2:  # this process was suspended and has not read the others' heartbeats
                self._seen, self._answered = dict.fromkeys(self._seen, now), now
            looked = now
            if self._code is None or self.parted:  # otherwise `leave` ends the process
                self._judge(now)

    def _judge(self, now):
        if not self._leads and now - self._answered > self._silence(0):
            self._lost(0)
        for peer in (0,) if self.parted else range(self._count):
            mark = self._marks.get(peer, "")
            if peer == self._index:
                continue
            if mark.startswith(LEFT):
                self._follow(peer, int(mark.removeprefix(LEFT)))
            elif now - self._seen[peer] > self._silence(peer):
                self._lost(peer)

    def _lost(self, peer):
        self._end(
            LOST,
            f"process {peer} of {self._count} has ended or cannot be reached: the run is stopped (exit code "
            f"{LOST}). Fix: see the last output of that process; continue with --resume, on any number of processes.",
        )

    def _follow(self, peer, code):
        """Ends this process after another one has ended, with that exit code or the code given to `leave`."""
        if not self._leads:  # the first process waits for this mark
            with contextlib.suppress(Exception):
                self._set(f"{LEFT}{code}")
        line = f"process {peer} of {self._count} ended with exit code {code}, so this one ends too."
        self._end(code if self._code is None else self._code, "" if self.parted or code == 0 else line)

    def _end(self, code, line=""):
        """Ends the process at once, because a thread that waits for a device cannot be stopped."""
        self._ending.acquire()  # and never released, so that the process ends once
        if line:
            with contextlib.suppress(Exception):  # the message must be printed in any case
                self.on_loss()
            os.write(self._stderr, f"{line}\n".encode())
        _flush()
        os._exit(code)

    def aborted(self, number: int) -> None:
        """Handles SIGABRT. jax calls abort() once the first process is gone; any other abort is printed."""
        text = b""
        with contextlib.suppress(OSError):
            text = os.pread(self._output, 1 << 16, max(0, os.fstat(self._output).st_size - (1 << 16)))
        if _FATAL in text and self._code is not None:  # this process is also ending, and the first one ended before it
            os._exit(self._code)
        if _FATAL in text:
            self._lost(0)
        os.write(self._stderr, text)
        os._exit(128 + number)

    def leave(self, code: int) -> None:
        """Ends this process. Before `part`, the others then end with the same code; after it, all end together."""
        self._code = code
        with contextlib.suppress(Exception):
            self._set(f"{LEFT}{code}")
        until = time.monotonic() + (PATIENCE if self.parted else 5 * BEAT)
        while self._leads or not self.parted:  # after `part`, the others wait for the first: _follow
            others = [self._marks.get(peer, "") for peer in range(self._count) if peer != self._index]
            if time.monotonic() > until or all(mark.startswith(LEFT) for mark in others):
                _flush()
                os._exit(code)
            time.sleep(BEAT / 10)
        while True:
            time.sleep(BEAT)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
