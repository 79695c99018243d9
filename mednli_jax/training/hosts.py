"""Several processes, on one machine or on many, that train one model together.

All take the same steps on the same numbers; the first alone writes. What is small and concerns the processes (who is
alive, who was asked to stop, whether all hold the same corpus) goes through the key-value store of jax's coordination
service, which keeps no device waiting; arrays go over the devices.

A collective operation with a process that has died waits forever, or fails in many words. Hence the watch: each process
leaves a sign of life every second, and one that gives none for PATIENCE seconds ends all others, with one line. Before
training, when a library may hold a process up for longer, that takes LOADING_PATIENCE.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback

import jax
import numpy as np

from mednli_jax.errors import UserError
from mednli_jax.progress import say

BEAT = 1.0  # seconds between two signs of life
PATIENCE, LOADING_PATIENCE = 10.0, 60.0  # seconds without one, after which a process counts as lost
JOIN_SECONDS = 300
# Of jax's own watch, which ends a process without a word to the user: slower than ours.
HEARTBEAT_SECONDS, SHUTDOWN_SECONDS = 100, 5
LONG_MS = 7 * 24 * 3600 * 1000  # waits that the watch ends, if need be
LOST = 3  # exit code: interrupted, and resumable
PIECE = 16 << 20  # bytes that are shared at a time
ALIVE, LEFT = "mednli_jax/alive/", "left:"


class Hosts:
    """The processes of a run, seen from one of them. With a count of 1 nothing is exchanged and nothing watched."""

    def __init__(self, client=None, index: int = 0, count: int = 1, *, stderr: int = 2, said: int | None = None):
        self.index, self.count = index, count
        self.on_loss = lambda: None  # called before this process ends because of another one
        self._client, self._stderr, self._said = client, stderr, said
        self._rounds = self._meetings = 0
        self._marks: dict[int, str] = {}
        self._parted, self._leaving, self._code = False, False, None
        self._patience = LOADING_PATIENCE
        self._ending = threading.Lock()
        if count > 1:
            self._seen = dict.fromkeys(range(count), time.monotonic())
            self._answered = time.monotonic()
            for work in (self._beat, self._watch):
                threading.Thread(target=work, daemon=True).start()

    @property
    def leads(self) -> bool:
        """Whether this process is the first, the only one to write."""
        return self.index == 0

    # -- small values ---------------------------------------------------------------------------------------------

    def meet(self) -> None:
        """Waits until all processes are here; not after `part`."""
        if self.count > 1 and not self._parted:
            self._meetings += 1
            self._client.wait_at_barrier(f"mednli_jax/meet/{self._meetings}", LONG_MS)

    def exchange(self, value: str) -> list[str]:
        """The values of all processes, in their order."""
        if self.count == 1:
            return [value]
        self._rounds += 1
        folder = f"mednli_jax/round/{self._rounds}/"
        self._client.key_value_set(f"{folder}{self.index}", f"={value}")  # empty ones are not kept
        self.meet()
        found = {int(key.rpartition("/")[2]): text[1:] for key, text in self._client.key_value_dir_get(folder)}
        if self._rounds > 1:  # all have read it, or they would not have come to this meeting
            self._client.key_value_delete(f"mednli_jax/round/{self._rounds - 1}/{self.index}")
        return [found[index] for index in range(self.count)]

    def agree(self, *values: float) -> list[float]:
        """The largest of each value among all processes: a wish of one is everybody's."""
        if self.count == 1:
            return [float(value) for value in values]
        texts = self.exchange(" ".join(str(float(value)) for value in values))
        wishes = [[float(number) for number in text.split()] for text in texts]
        return [max(column) for column in zip(*wishes, strict=True)]

    def check_same(self, what: str, value) -> None:
        """Raises UserError on every process whose JSON value is not that of the first."""
        digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
        if self.exchange(digest)[0] != digest:
            raise UserError(
                f"E-HOST-004 process {self.index} has another {what} than process 0. Fix: give all processes the same "
                "files, folders and flags."
            )

    # -- arrays ---------------------------------------------------------------------------------------------------

    def share(self, data: bytes = b"") -> bytes:
        """The bytes that the first process gives, on all."""
        if self.count == 1:
            return data
        from jax.experimental import multihost_utils

        size = int(self.exchange(str(len(data)))[0])
        given = np.frombuffer(data, np.uint8) if self.leads else np.zeros(size, np.uint8)
        length = max(1, min(size, PIECE))  # one shape, one program
        pieces = []
        for start in range(0, size, length):
            piece = np.zeros(length, np.uint8)
            piece[: len(given[start : start + length])] = given[start : start + length]
            pieces.append(np.asarray(multihost_utils.broadcast_one_to_all(piece)).tobytes())
        return b"".join(pieces)[:size]

    def summed(self, array: np.ndarray) -> np.ndarray:
        """The sum of the processes' arrays: exact where each number is one process's, and 0 on the others."""
        if self.count == 1:
            return array
        from jax.experimental import multihost_utils

        return np.asarray(multihost_utils.process_allgather(array)).sum(axis=0)

    # -- the watch ------------------------------------------------------------------------------------------------

    def watch_closely(self) -> None:
        """From here on a process is expected to answer within PATIENCE."""
        self._patience = PATIENCE

    def _beat(self):
        """Leaves a sign of life and reads the others'. A thread of its own: it hangs where the network does."""
        number = 0
        while not self._ending.locked():
            number += 1
            mark = f"{LEFT}{self._code}" if self._leaving else str(number)
            with contextlib.suppress(Exception):  # no answer is what the watch looks for
                self._client.key_value_set(f"{ALIVE}{self.index}", mark, allow_overwrite=True)
                found = self._client.key_value_dir_get(ALIVE)
                self._answered = time.monotonic()
                for key, text in found:
                    peer = int(key.rpartition("/")[2])
                    if self._marks.get(peer) != text:
                        self._marks[peer], self._seen[peer] = text, self._answered
            time.sleep(BEAT / 4 if self._leaving else BEAT)

    def _watch(self):
        """Ends this process when another one has gone."""
        looked = time.monotonic()
        while True:
            time.sleep(BEAT / 2)
            now = time.monotonic()
            if now - looked > PATIENCE / 2:  # this process stood still: the others' signs may only not be read yet
                self._seen, self._answered = dict.fromkeys(self._seen, now), now
            looked = now
            if self._parted and self.leads:
                return
            if self._leaving and not self._parted:  # `leave` sees to the end
                continue
            if now - self._answered > self._patience and not self.leads:
                self._lost(0)
            for peer in (0,) if self._parted else range(self.count):
                mark = self._marks.get(peer, "")
                if peer == self.index:
                    continue
                if mark.startswith(LEFT):
                    self._follow(peer, int(mark.removeprefix(LEFT)))
                elif now - self._seen[peer] > self._patience:
                    self._lost(peer)

    def _lost(self, peer):
        self._end(
            LOST,
            f"E-HOST-001 process {peer} of {self.count} has gone, or cannot be reached: the run is stopped (exit code "
            f"{LOST}). Fix: see what that process said last; go on with --resume, on any number of processes.",
        )

    def _follow(self, peer, code):
        """Ends with the exit code of another process that has left, or with its own where they parted."""
        line = f"E-HOST-002 process {peer} of {self.count} ended with exit code {code}, and this one with it."
        if not self.leads:  # the first waits for that
            with contextlib.suppress(Exception):
                self._client.key_value_set(f"{ALIVE}{self.index}", f"{LEFT}{code}", allow_overwrite=True)
        own = self._code if self._leaving else code
        self._end(own, "" if self._parted or code == 0 else line)

    def _end(self, code, line=""):
        """Leaves at once: what waits for a device cannot be told to stop."""
        self._ending.acquire()  # and never let go of: one end is enough
        if line:
            with contextlib.suppress(Exception):  # the line is the news
                self.on_loss()
            os.write(self._stderr, f"{line}\n".encode())
        _flush()
        os._exit(code)

    def _aborted(self, number):
        """jax ends a process by abort() once the first one is gone; anything else that aborts goes its way."""
        text = b""
        with contextlib.suppress(OSError):
            text = os.pread(self._said, 1 << 16, max(0, os.fstat(self._said).st_size - (1 << 16)))
        if b"distributed service detected fatal errors" in text:
            if self._leaving:  # the first was quicker
                os._exit(self._code)
            self._lost(0)
        os.write(self._stderr, text)
        os._exit(128 + number)

    # -- the end --------------------------------------------------------------------------------------------------

    def part(self) -> None:
        """From here on no process waits for another's numbers: what the first still writes is its own affair."""
        self._parted = True

    def leave(self, code: int) -> int:
        """Ends the process: together with the others after `part`, before that the others end with the same code.

        Returns the code where the process is alone.
        """
        if self.count == 1:
            return code
        self._code, self._leaving = code, True
        patience = PATIENCE if self._parted else 3 * BEAT
        until = time.monotonic() + patience
        while self.leads or not self._parted:  # a companion's watch ends it, once the first has left
            others = [self._marks.get(peer, "") for peer in range(self.count) if peer != self.index]
            if time.monotonic() > until or all(mark.startswith(LEFT) for mark in others):
                _flush()
                os._exit(code)
            time.sleep(BEAT / 10)
        while True:
            time.sleep(BEAT)

    def run(self, work) -> int:
        """Does the work, which returns an exit code, and leaves with it; a fault of this process ends all."""
        if self.count == 1:
            return work()
        try:
            code = work()
        except BaseException as error:
            self._tell(error)
            code = 1
        return self.leave(code)

    def _tell(self, error):
        if isinstance(
            error, jax.errors.JaxRuntimeError
        ):  # mostly a broken connection: the watch then ends this process
            time.sleep(self._patience + 3 * BEAT)
        traceback.print_exception(error)


_here = Hosts()


def here() -> Hosts:
    """The processes that this one belongs to: itself alone, unless it has joined others."""
    return _here


def join(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None, *, automatic: bool = False
) -> Hosts:
    """Joins the other processes of a run; to be called before jax is asked for a device.

    Args:
      coordinator: HOST:PORT at which process 0 is to be reached; None: no other processes, or those found.
      processes, process: how many there are, and which of them this is, from 0.
      automatic: take what is not given from $JAX_COORDINATOR_ADDRESS, $JAX_NUM_PROCESSES and $JAX_PROCESS_ID, or from
        the TPU pod, Slurm or MPI that started this process.

    Raises UserError where the three do not fit together, or the others cannot be reached.
    """
    global _here
    if automatic:
        environ = os.environ
        coordinator = coordinator or environ.get("JAX_COORDINATOR_ADDRESS")
        processes = _number("JAX_NUM_PROCESSES") if processes is None else processes
        process = _number("JAX_PROCESS_ID") if process is None else process
    explicit = (coordinator, processes, process)
    if all(value is None for value in explicit) and not automatic:
        return _here
    if any(value is not None for value in explicit):
        _check(*explicit, automatic)
    stderr, said = _quiet() if process else (2, None)
    if process == 0:
        say(f"process 0 of {processes}: waiting for the others at {coordinator}")
    try:
        with contextlib.suppress(AttributeError):  # its own way of stopping would take SIGTERM from us
            jax.config.update("jax_enable_preemption_service", False)
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            cluster_detection_method="deactivate" if None not in explicit else None,
            initialization_timeout=JOIN_SECONDS,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=SHUTDOWN_SECONDS,
        )
        counts = [len(jax.local_devices(process_index=index)) for index in range(jax.process_count())]
    except (ValueError, RuntimeError) as error:
        raise UserError(
            f"E-HOST-005 the other processes cannot be joined ({type(error).__name__}: {_first_line(error)}). "
            "Fix: give --coordinator=HOST:PORT --processes=N --process=I to each, the coordinator being process 0."
        ) from None
    if len(set(counts)) != 1:
        raise UserError(f"E-HOST-006 the processes have {counts} devices. Fix: give each as many.")
    if said is None and jax.process_index():
        stderr, said = _quiet()
    return _established(jax.process_index(), len(counts), stderr, said)


def _established(index, count, stderr, said):
    global _here
    from orbax.checkpoint import multihost

    _here = Hosts(multihost.get_jax_distributed_client(), index, count, stderr=stderr, said=said)
    if said is not None:
        _catch_abort(_here)
    if count > 1:
        sys.excepthook = lambda kind, error, trace: (_here._tell(error), _here.leave(1))
    return _here


def _check(coordinator, processes, process, automatic):
    missing = [
        name
        for name, value in (("coordinator", coordinator), ("processes", processes), ("process", process))
        if value is None
    ]
    if missing and not automatic:
        raise UserError(f"E-HOST-003 --{missing[0]} is missing. Fix: give --coordinator, --processes and --process.")
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise UserError("E-HOST-003 --coordinator has no port. Fix: --coordinator=HOST:PORT, e.g. 10.0.0.2:8476.")
    if None not in (processes, process) and not 0 <= process < processes:
        raise UserError(f"E-HOST-003 --process is {process} of {processes}. Fix: give 0 to {processes - 1}.")


def _number(name):
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def _first_line(error):
    return (str(error).strip().splitlines() or [""])[0].rstrip(".")


def _flush():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _quiet():
    """Takes what libraries print on a companion into a file of no name; (the user's stderr, that file).

    Python's sys.stderr stays the user's, so that a fault of this process is told.
    """
    said = tempfile.TemporaryFile()  # noqa: SIM115 - for the life of the process
    stderr = os.dup(2)
    sys.stderr.flush()
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    for stream in (1, 2):
        os.dup2(said.fileno(), stream)
    return stderr, os.dup(said.fileno())


def _catch_abort(hosts):
    """A handler in C, since Python's own runs in the main thread alone, which may be waiting for a device."""
    global _handler
    _handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(hosts._aborted)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).signal(int(signal.SIGABRT), _handler)


_handler = None  # kept: C holds no reference to it
