"""Several processes, on one or more machines, that train one model together.

All processes take the same steps; only the first writes files. Small messages (whether one should
stop, whether all have the same corpus) use the key-value store of jax's coordination service, so
that no device waits. Arrays are exchanged between devices. If a process is lost, jax's service ends
the others by SIGABRT, exit code 134.
"""

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Listener

import jax
import numpy as np
from jax.experimental import multihost_utils

from mednli_jax.errors import ResumableError, RunError
from mednli_jax.terminal import say
from mednli_jax.training.settings import check_jax
from mednli_jax.types import Json

JOIN_SECONDS = 300
# without a sign of life, after which jax's service counts a process as lost
HEARTBEAT_SECONDS = 15
END_SECONDS = 60  # in which all processes must come to their end once one has
# effectively no timeout: jax ends a process that waits for a lost one
LONG_MS = 7 * 24 * 3600 * 1000
# Folder of the store. A failed process writes the number of its next meeting and its exit code.
FAILED = "mednli_jax/failed/"
# the exit code of a process that was interrupted, or that another run keeps from its folder
RESUMABLE = 3


class Hosts:
    """The processes of a run, seen from one of them. A single process exchanges nothing."""

    def __init__(
        self,
        client: "jax._src.lib._jax.DistributedRuntimeClient | None" = None,
        index: int = 0,
        count: int = 1,
    ) -> None:
        self.index = index
        self.count = count
        # None in a single process, which asks nothing.
        self._client: jax._src.lib._jax.DistributedRuntimeClient = client
        self._exchanges = 0
        self._meetings = 0
        self._partner_failed = False

    @property
    def leads(self) -> bool:
        """Whether this process is the first, which alone writes files."""
        return self.index == 0

    def meet(self) -> None:
        """Waits until all processes call this. Raises RunError if one of them has failed
        instead."""
        if self.count == 1:
            return
        self._wait(LONG_MS)
        for key, report in self._client.key_value_dir_get(FAILED):
            meeting, code = map(int, report.split())
            if meeting == self._meetings:  # a process that failed after it comes to the next one
                self._partner_failed = True
                problem = f"process {_process(key)} of {self.count} has failed"
                kind = ResumableError if code == RESUMABLE else RunError
                raise kind(problem, fix="see the last output of it")

    def _wait(self, milliseconds: int) -> None:
        self._meetings += 1
        self._client.wait_at_barrier(f"mednli_jax/meet/{self._meetings}", milliseconds)

    def exchange(self, value: str) -> list[str]:
        """The values of all processes, in the order of the processes."""
        if self.count == 1:
            return [value]
        self._exchanges += 1
        folder = f"mednli_jax/round/{self._exchanges}/"
        # The store drops empty values.
        self._client.key_value_set(f"{folder}{self.index}", f"={value}")
        self.meet()
        values = {}
        for key, text in self._client.key_value_dir_get(folder):
            values[_process(key)] = text[1:]
        # All processes have read the earlier values, because they have reached this exchange.
        if self._exchanges > 1:
            earlier = f"mednli_jax/round/{self._exchanges - 1}/{self.index}"
            self._client.key_value_delete(earlier)
        return [values[index] for index in range(self.count)]

    def agree(self, *values: float) -> list[float]:
        """The maximum of each value over all processes.

        An allgather would wait for running steps: chunks could not be timed, and the devices would
        be idle.
        """
        of_processes = list(map(json.loads, self.exchange(json.dumps(values))))
        return list(map(float, np.max(of_processes, axis=0)))

    def check_same(self, name: str, value: Json) -> None:
        """Raises RunError on all processes if their JSON values differ."""
        text = json.dumps(value, sort_keys=True)
        digests = self.exchange(hashlib.sha256(text.encode()).hexdigest())
        for index, digest in enumerate(digests):
            if digest != digests[0]:
                problem = f"process {index} has another {name} than process 0"
                raise RunError(problem, fix="give all processes the same files, folders and flags")

    def broadcast(self, array: np.ndarray) -> np.ndarray:
        """Sends the array of the first process to all. The arrays of the others must have its shape
        and type."""
        if self.count == 1:
            return array
        self.meet()
        return np.asarray(multihost_utils.broadcast_one_to_all(array))

    # -- the end ---------------------------------------------------------------------------------

    def run(self, work: Callable[[], int]) -> int:
        """Runs `work` and returns its exit code. All processes end together; if one has failed, the
        others fail."""
        code = work()
        if self.count == 1:
            return code
        try:
            if not self._partner_failed:
                if code:
                    report = f"{self._meetings + 1} {code}"
                    self._client.key_value_set(f"{FAILED}{self.index}", report)
                self._wait(END_SECONDS * 1000 if code else LONG_MS)
            jax.distributed.shutdown()
        except jax.errors.JaxRuntimeError:
            os._exit(code)  # the others wait for this one on their devices; jax ends them
        return code

    def await_loss(self, error: BaseException) -> None:
        """Waits after an error of a device. Mostly another process was lost, and jax then ends this
        one."""
        if self.count > 1 and isinstance(error, jax.errors.JaxRuntimeError):
            time.sleep(2 * HEARTBEAT_SECONDS)


def _process(key: str) -> int:
    """The number of the process, from the end of a key."""
    return int(key.rpartition("/")[2])


_here = Hosts()


def here() -> Hosts:
    """The processes of this run; a single one unless `join` was called."""
    return _here


def join(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    *,
    automatic: bool = False,
) -> Hosts:
    """Joins the other processes of a run, whose number is `processes`. Call it before any use of a
    jax device.

    Args:
      coordinator: HOST:PORT of process 0; None: a single process, or the address that `automatic`
        finds.
      process: number of this process, from 0.
      automatic: take missing values from $JAX_COORDINATOR_ADDRESS, $JAX_NUM_PROCESSES and
        $JAX_PROCESS_ID, or from the TPU pod, Slurm or MPI that started this process.
    """
    global _here
    if automatic:
        coordinator = coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS")
        processes = _number("JAX_NUM_PROCESSES") if processes is None else processes
        process = _number("JAX_PROCESS_ID") if process is None else process
    elif coordinator is None and processes is None and process is None:
        return _here
    _check_flags(coordinator, processes, process)
    if process == 0 and coordinator is not None:
        say(f"process 0 of {processes}: waiting for the others at {coordinator}")
        _check_port(int(coordinator.rpartition(":")[2]))
    try:
        # This package handles SIGTERM itself.
        jax.config.update("jax_enable_preemption_service", False)
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            cluster_detection_method=None if automatic else "deactivate",
            initialization_timeout=JOIN_SECONDS,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=END_SECONDS,
        )
        check_jax()
        numbers = range(jax.process_count())
        counts = [len(jax.local_devices(process_index=index)) for index in numbers]
    except (ValueError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")
        flags = "--coordinator=HOST:PORT --processes=N --process=I"
        fix = f"give {flags} to each process; process 0 is the coordinator"
        raise RunError(f"the other processes cannot be joined ({reason})", fix=fix) from None
    if len(set(counts)) != 1:
        problem = f"the processes have {counts} devices"
        raise RunError(problem, fix="give each process the same number")
    from orbax.checkpoint import multihost  # a slow import

    _here = Hosts(multihost.get_jax_distributed_client(), jax.process_index(), len(counts))
    return _here


def _check_flags(coordinator: str | None, processes: int | None, process: int | None) -> None:
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        fix = "--coordinator=HOST:PORT, e.g. 10.0.0.2:8476"
        raise RunError("--coordinator has no port", fix=fix)
    if processes is not None and process is not None and not 0 <= process < processes:
        raise RunError(f"--process is {process} of {processes}", fix=f"give 0 to {processes - 1}")


def _check_port(port: int) -> None:
    """Raises RunError if the port of process 0 is in use: jax may end by a segmentation fault
    there."""
    for family, address in (("AF_INET", ""), ("AF_INET6", "::")):
        try:
            Listener((address, port), family).close()
        except (OSError, OverflowError) as error:
            lacks_family = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
            if isinstance(error, OSError) and error.errno in lacks_family:
                continue
            reason = error.args[-1]
            problem = f"port {port} of the coordinator cannot be opened on this host ({reason})"
            fix = "give another port in --coordinator=HOST:PORT"
            raise RunError(problem, fix=fix) from None


def _number(variable: str) -> int | None:
    """A number in an environment variable; None if the variable holds no number."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else None
