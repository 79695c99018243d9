"""The watch over the processes of a run: one that is gone ends the others, within seconds and with one line.

A collective operation with a process that has died waits forever, or fails in many words. Hence each process leaves a
sign of life every second in the key-value store of jax's coordination service, and one that gives none for PATIENCE
seconds counts as lost. Before training, when a library may hold up the Python of a process for longer, that takes
LOADING_PATIENCE, unless its line is cut, too: a connection with the first process over which nothing is said. The
systems of both ends keep it up, whatever Python does, and cut it when a process or a host is gone.

jax's coordination service sees a killed process, too (jax 0.10 to 0.12, `heartbeat_timeout_seconds`), but it ends the
others by SIGABRT, with exit code 134 and some twenty lines of a stack.
"""

import contextlib
import os
import secrets
import socket
import sys
import threading
import time

BEAT = 1.0  # seconds between two signs of life
PATIENCE, LOADING_PATIENCE = 10.0, 60.0  # seconds without one, after which a process counts as lost
LOST = 3  # exit code: interrupted, and resumable
ALIVE, LEFT = "mednli_jax/alive/", "left:"
LINE = "mednli_jax/line/"  # where the first process awaits the others: host, port, what they have to say first
# Seconds without traffic before a line is tried, seconds between tries, failures after which it is cut.
_TRIES = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
_FATAL = b"distributed service detected fatal errors"  # what jax says before it aborts


class Watch:
    """Threads of one process: one leaves signs and reads the others', one looks at the clock, others hold the lines.

    Args:
      host: the name of process 0's host for the others; None: what the host calls itself.
      client: jax's, of the key-value store, which process 0 keeps.
      index, count: this process's number, and how many there are.
      stderr: file descriptor of the user's. said: of what libraries print, where that is kept apart.
    """

    def __init__(self, client, index: int, count: int, *, host: str | None = None, stderr: int = 2,
                 said: int | None = None):  # fmt: skip
        self.on_loss = lambda: None  # called before this process ends because of another one
        self.parted = False
        self.patience = LOADING_PATIENCE
        self._client, self._index, self._count = client, index, count
        self._stderr, self._said = stderr, said
        self._code: int | None = None  # of a process about to leave
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
        """Runs in a separate thread, since it hangs where the network does."""
        number = 0
        while not self._ending.locked():
            number += 1
            with contextlib.suppress(Exception):  # no answer is what the other thread looks for
                self._set(str(number) if self._code is None else f"{LEFT}{self._code}")
                found = self._client.key_value_dir_get(ALIVE)
                self._answered = time.monotonic()
                for key, text in found:
                    peer = int(key.rpartition("/")[2])
                    if self._marks.get(peer) != text:
                        self._marks[peer], self._seen[peer] = text, self._answered
            time.sleep(BEAT if self._code is None else BEAT / 4)

    def _await(self):
        """Takes the other processes' connections. Where there can be none, the signs of life are all there is."""
        with contextlib.suppress(Exception), socket.create_server(("", 0)) as listener:
            secret = secrets.token_hex(16)
            self._client.key_value_set(f"{LINE}0", f"{self._host} {listener.getsockname()[1]} {secret}")
            while True:
                threading.Thread(target=self._greet, args=(listener.accept()[0], secret), daemon=True).start()

    def _greet(self, line, secret):
        with contextlib.suppress(OSError, ValueError), line:
            line.settimeout(PATIENCE)
            said, _, peer = line.makefile("rb").readline(100).decode().partition(" ")
            if said == secret:
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
        """Seconds without a sign after which a process counts as lost."""
        return min(PATIENCE, self.patience) if peer in self._cut else self.patience

    def _look(self):
        looked = time.monotonic()
        while not (self.parted and self._leads):
            time.sleep(BEAT / 2)
            now = time.monotonic()
            if now - looked > PATIENCE / 2:  # this process stood still: the others' signs may only not be read yet
                self._seen, self._answered = dict.fromkeys(self._seen, now), now
            looked = now
            if self._code is None or self.parted:  # `leave` sees to the end else
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
            f"process {peer} of {self._count} has gone, or cannot be reached: the run is stopped (exit code "
            f"{LOST}). Fix: see what that process said last; continue with --resume, on any number of processes.",
        )

    def _follow(self, peer, code):
        """Ends with the exit code of another process that has left, or with this one's where they parted."""
        if not self._leads:  # the first waits for that
            with contextlib.suppress(Exception):
                self._set(f"{LEFT}{code}")
        line = f"process {peer} of {self._count} ended with exit code {code}, and this one with it."
        self._end(code if self._code is None else self._code, "" if self.parted or code == 0 else line)

    def _end(self, code, line=""):
        """Leaves at once, since a thread that waits for a device cannot be stopped."""
        self._ending.acquire()  # and never released, so that the process ends once
        if line:
            with contextlib.suppress(Exception):  # the line is what matters
                self.on_loss()
            os.write(self._stderr, f"{line}\n".encode())
        _flush()
        os._exit(code)

    def aborted(self, number: int) -> None:
        """jax ends a process by abort() once the first one is gone; any other abort is printed and goes on."""
        text = b""
        with contextlib.suppress(OSError):
            text = os.pread(self._said, 1 << 16, max(0, os.fstat(self._said).st_size - (1 << 16)))
        if _FATAL in text and self._code is not None:  # about to leave as well: the first was quicker
            os._exit(self._code)
        if _FATAL in text:
            self._lost(0)
        os.write(self._stderr, text)
        os._exit(128 + number)

    def leave(self, code: int) -> None:
        """Ends the process: together with the others where they parted, else the others end with the same code."""
        self._code = code
        with contextlib.suppress(Exception):
            self._set(f"{LEFT}{code}")
        until = time.monotonic() + (PATIENCE if self.parted else 5 * BEAT)
        while self._leads or not self.parted:  # a companion that parted ends with the first: _follow
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
