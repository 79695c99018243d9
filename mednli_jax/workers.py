"""Commands in processes of their own, for `sweep` and `reproduce`."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mednli_jax import cli
from mednli_jax.errors import RunError
from mednli_jax.training.visible import one_device

# On Linux a command gets SIGTERM when this process ends. Elsewhere it goes on, and the next attempt
# of the same run waits for it.
TIE = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"
TIED = [sys.executable, "-c", TIE] if sys.platform == "linux" else []
RESUMABLE = (cli.INTERRUPTED, 134)  # jax ends a process with 134 where its partner is lost


class Commands:
    """The running commands of this process. stopped: whether `stop` ended them."""

    def __init__(self) -> None:
        self.stopped = False
        self._processes: set[subprocess.Popen[bytes]] = set()

    def stop(self) -> None:
        """Ends the commands, which save what they have."""
        self.stopped = True
        for process in list(self._processes):
            process.terminate()

    def call(
        self,
        words: Sequence[str],
        log: Path,
        *,
        device: int | None = None,
        output: Path | None = None,
    ) -> int:
        """Runs a command and returns its exit code. Raises KeyboardInterrupt after `stop`.

        Args:
          log: file for messages, and for what the command prints.
          device: number of the one device that the command sees; None for all.
          output: another file for what the command prints.
        """
        environment = os.environ | (one_device(device) if device is not None else {})
        with open(log, "wb") as messages, open(output or log, "ab") as printed:
            process = subprocess.Popen(
                [*TIED, *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=messages,
                start_new_session=True,
            )
            self._processes.add(process)
            if self.stopped:  # before the process began
                process.terminate()
            process.wait()
        self._processes.discard(process)
        if self.stopped:
            raise KeyboardInterrupt
        return process.returncode


def was_ended(code: int) -> bool:
    """Whether a command with this exit code was ended from outside and can go on."""
    return code < 0 or code in RESUMABLE


def failure(log: Path) -> RunError:
    """The error of a command that failed: the last line of its messages, if that is one."""
    last_line = log.read_text(errors="replace").strip().rpartition("\n")[2]
    if last_line.startswith("error: "):
        return RunError(last_line.removeprefix("error: "))
    return RunError("it failed", fix=f"see {log}")
