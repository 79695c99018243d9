"""Several processes, on one or more machines, that train one model together.

All processes take the same steps; only the first writes files. Small messages (which processes are alive, whether one
should stop, whether all have the same corpus) use the key-value store of jax's coordination service, so that no device
waits. Arrays are exchanged between devices. `watch` ends all processes when one is lost.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import signal
import sys
import tempfile
import time

import jax

from mednli_jax import errors
from mednli_jax.errors import RunError
from mednli_jax.progress import say
from mednli_jax.training import watch

JOIN_SECONDS = 300
# Timeouts of jax's own check of the processes. It must be slower than Watch: it ends processes without a message.
HEARTBEAT_SECONDS, SHUTDOWN_SECONDS = 100, 5
LONG_MS = 7 * 24 * 3600 * 1000  # effectively no timeout: Watch ends a process that waits for a lost one


class Hosts:
    """The processes of a run, seen from one of them. A single process exchanges and watches nothing."""

    def __init__(self, client=None, index: int = 0, count: int = 1, **streams):
        self.index, self.count = index, count
        self.watch = watch.Watch(client, index, count, **streams) if count > 1 else None
        self._client = client
        self._rounds = self._meetings = 0

    @property
    def leads(self) -> bool:
        """Whether this process is the first, which alone writes files."""
        return self.index == 0

    def meet(self) -> None:
        """Waits until all processes call this; does nothing after `part`."""
        if self.watch and not self.watch.parted:
            self._meetings += 1
            self._client.wait_at_barrier(f"mednli_jax/meet/{self._meetings}", LONG_MS)

    def exchange(self, value: str) -> list[str]:
        """The values of all processes, in the order of the processes."""
        if self.count == 1:
            return [value]
        self._rounds += 1
        folder = f"mednli_jax/round/{self._rounds}/"
        self._client.key_value_set(f"{folder}{self.index}", f"={value}")  # the store drops empty values
        self.meet()
        found = {int(key.rpartition("/")[2]): text[1:] for key, text in self._client.key_value_dir_get(folder)}
        if self._rounds > 1:  # all processes have read the earlier round, because they have reached this one
            self._client.key_value_delete(f"mednli_jax/round/{self._rounds - 1}/{self.index}")
        return [found[index] for index in range(self.count)]

    def agree(self, *values: float) -> list[float]:
        """The maximum of each value over all processes.

        An allgather would wait for running steps: chunks could not be timed, and the devices would be idle.
        """
        texts = self.exchange(json.dumps([float(value) for value in values]))
        return [max(column) for column in zip(*map(json.loads, texts), strict=True)]

    def check_same(self, what: str, value) -> None:
        """Raises UserError on every process whose JSON value differs from that of the first. what: its name."""
        digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
        if self.exchange(digest)[0] != digest:
            raise RunError(
                f"process {self.index} has another {what} than process 0. Fix: give all processes the same "
                "files, folders and flags."
            )

    # -- the end --------------------------------------------------------------------------------------------------

    def watch_closely(self) -> None:
        """From now on a process must answer within watch.PATIENCE."""
        if self.watch:
            self.watch.patience = watch.PATIENCE

    def part(self) -> None:
        """Declares that no process waits for another from now on; the first one may still write files."""
        if self.watch:
            self.watch.parted = True

    def run(self, work) -> int:
        """Runs `work` and ends the process with the exit code that it returns. An error here ends all processes."""
        if not self.watch:
            return work()
        try:
            code = work()
        except BaseException as error:
            self.report(error)
            code = 1
        self.watch.leave(code)
        return code

    def report(self, error: BaseException) -> None:
        """Prints a bug. Most device errors are lost connections, so this first gives the watch time to report one."""
        if isinstance(error, jax.errors.JaxRuntimeError):
            time.sleep(self.watch.patience + 3 * watch.BEAT)
        errors.report_bug(error)


_here = Hosts()


def here() -> Hosts:
    """The processes of this run; a single one unless `join` was called."""
    return _here


def join(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None, *, automatic: bool = False
) -> Hosts:
    """Joins the other processes of a run. Call it before any use of a jax device.

    Args:
      coordinator: HOST:PORT of process 0; None: a single process, or the address that `automatic` finds.
      processes: number of processes.
      process: number of this process, from 0.
      automatic: take missing values from $JAX_COORDINATOR_ADDRESS, $JAX_NUM_PROCESSES and $JAX_PROCESS_ID, or from the
        TPU pod, Slurm or MPI that started this process.

    Raises UserError where the three values do not fit together, or the other processes cannot be reached.
    """
    global _here
    if automatic:
        coordinator = coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS")
        processes = _number("JAX_NUM_PROCESSES") if processes is None else processes
        process = _number("JAX_PROCESS_ID") if process is None else process
    explicit = (coordinator, processes, process)
    if all(value is None for value in explicit) and not automatic:
        return _here
    if any(value is not None for value in explicit):
        _check(*explicit, automatic)
    stderr, output = _quiet() if process else (2, None)
    if process == 0:
        say(f"process 0 of {processes}: waiting for the others at {coordinator}")
    try:
        jax.config.update("jax_enable_preemption_service", False)  # this package handles SIGTERM itself
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
        raise RunError(
            f"the other processes cannot be joined ({type(error).__name__}: {_first_line(error)}). "
            "Fix: give --coordinator=HOST:PORT --processes=N --process=I to each process; process 0 is the coordinator."
        ) from None
    if len(set(counts)) != 1:
        raise RunError(f"the processes have {counts} devices. Fix: give each process the same number.")
    if output is None and jax.process_index():
        stderr, output = _quiet()
    from orbax.checkpoint import multihost  # a slow import

    streams = {"host": coordinator and coordinator.rpartition(":")[0].strip("[]"), "stderr": stderr, "output": output}
    _here = Hosts(multihost.get_jax_distributed_client(), jax.process_index(), len(counts), **streams)
    if _here.watch:
        if output is not None:
            _catch_abort(_here.watch)
        sys.excepthook = lambda kind, error, trace: (_here.report(error), _here.watch.leave(1))
    return _here


def _check(coordinator, processes, process, automatic):
    missing = [
        name
        for name, value in (("coordinator", coordinator), ("processes", processes), ("process", process))
        if value is None
    ]
    if missing and not automatic:
        raise RunError(f"--{missing[0]} is missing. Fix: give --coordinator, --processes and --process.")
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise RunError("--coordinator has no port. Fix: --coordinator=HOST:PORT, e.g. 10.0.0.2:8476.")
    if None not in (processes, process) and not 0 <= process < processes:
        raise RunError(f"--process is {process} of {processes}. Fix: give 0 to {processes - 1}.")


def _number(name):
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def _first_line(error):
    return (str(error).strip().splitlines() or [""])[0].rstrip(".")


def _quiet():
    """Redirects file descriptors 1 and 2 to a temporary file; returns (descriptor of the user's stderr, of the file).

    Processes other than the first call this to hide the output of libraries. Python's sys.stderr still writes to the
    user's stderr, so that a bug is printed.
    """
    output = tempfile.TemporaryFile()  # noqa: SIM115 - open for the life of the process
    stderr = os.dup(2)
    sys.stderr.flush()
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    return stderr, os.dup(output.fileno())


def _catch_abort(over):
    """Sets a C handler for SIGABRT, because Python handlers run in the main thread, which may wait for a device."""
    global _handler
    _handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(over.aborted)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).signal(int(signal.SIGABRT), _handler)


_handler = None  # keeps the handler alive, because C code holds no reference to it
