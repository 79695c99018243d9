"""Checkpoints: arrays saved by Orbax, each with a sha256 manifest. The latest two are kept, at the
end only the last.

Orbax writes under a temporary name and renames, so that a killed save leaves no partial checkpoint.
It does not detect a flipped bit; the manifest does. The manifest is written last, and a folder
without one does not count as a checkpoint. With several processes only the first one saves and
loads.
"""

import contextlib
import errno
import logging
import os
import shutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from flax import serialization

from mednli_jax.errors import RunError
from mednli_jax.files import writing
from mednli_jax.terminal import warn
from mednli_jax.types import JsonObject, PyTree

if TYPE_CHECKING:  # Functions import Orbax, which is slow: commands without a checkpoint do not.
    import orbax.checkpoint as ocp


KEEP = 2
REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)


def _digests(folder: Path) -> dict[str, str]:
    """The hash of each file of a checkpoint, by its path."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): writing.sha256(path) for path in paths}


def _is_not_from_orbax(record: logging.LogRecord) -> bool:
    frames = traceback.extract_tb(record.exc_info[2]) if record.exc_info else ()
    return not any("orbax" in frame.filename for frame in frames)


# When a save fails, Orbax's threads log tracebacks, and asyncio logs those of the tasks that Orbax
# did not wait for. They are dropped, because `save` raises the error.
logging.getLogger("absl").addFilter(lambda record: record.levelno < logging.ERROR)
logging.getLogger("asyncio").addFilter(_is_not_from_orbax)


@contextlib.contextmanager
def _without_echoes() -> Iterator[None]:
    """Drops reports of tensorstore's threads that outlive a save or load.

    After a failure, writes may still be in progress, so the hook stays.
    """
    hook = sys.unraisablehook

    def quiet_hook(report: "sys.UnraisableHookArgs") -> None:
        if str(report.exc_value) != "Event loop is closed":
            hook(report)

    sys.unraisablehook = quiet_hook
    yield
    sys.unraisablehook = hook


class Checkpoint(NamedTuple):
    """The content of a checkpoint."""

    tree: PyTree  # of NumPy arrays
    meta: JsonObject


class Checkpoints:
    """The numbered checkpoints of one run directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder).absolute()
        self._damaged: set[int] = set()  # found by `load`; the next save replaces them

    def _manifest(self, number: int) -> Path:
        return self.folder / f"{number}.manifest.json"

    def numbers(self) -> list[int]:
        """Numbers of the complete checkpoints, oldest first."""
        numbers = set()
        for manifest in self.folder.glob("*.manifest.json"):
            name = manifest.name.removesuffix(".manifest.json")
            if name.isdigit() and (self.folder / name).is_dir():
                numbers.add(int(name))
        return sorted(numbers - self._damaged)

    def save(self, state: PyTree, meta: JsonObject, *, alone: bool = False) -> None:
        """Saves under the next number and deletes all but the latest two, or all others (alone).

        A save that fails leaves the earlier ones.
        """
        number = (self.numbers() or [0])[-1] + 1
        self._damaged.discard(number)
        try:
            self._write(number, state, meta)
        except (OSError, ValueError, RunError) as error:  # tensorstore also raises ValueError
            self._drop_failed(number)
            problem = f"{self.folder}: the checkpoint could not be saved ({_reason(error)})"
            fix = "free space; then --resume"
            if self.numbers():
                fix = "free space; --resume continues from the previous checkpoint"
            raise RunError(problem, fix=fix) from error
        # The new checkpoint is saved; the next save deletes the remaining old ones.
        with contextlib.suppress(OSError):
            self._drop_old(1 if alone else KEEP)

    def _write(self, number: int, state: PyTree, meta: JsonObject) -> None:
        import orbax.checkpoint as ocp

        target = self.folder / str(number)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What a save left that was killed before its manifest.
        self._manifest(number).unlink(missing_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        tree = jax.tree.map(np.asarray, serialization.to_state_dict(state))
        # If Orbax created its folders in a thread and that failed, other threads would wait for
        # them and keep the process alive for many minutes.
        at_once = ocp.AsyncOptions(create_directories_asynchronously=False)
        saver = ocp.StandardCheckpointer(async_options=at_once, multiprocessing_options=_alone())
        with _without_echoes(), saver:
            saver.save(target, tree)
        writing.write_sealed(self._manifest(number), {"files": _digests(target), "meta": meta})

    def _drop_failed(self, number: int) -> None:
        """Deletes the files of a failed save. Writes still in progress may create some of them
        again; the next save deletes these."""
        for path in (self.folder / str(number), *self.folder.glob(f"{number}.orbax*")):
            shutil.rmtree(path, ignore_errors=True)

    def _drop_old(self, keep: int) -> None:
        """Deletes all but the newest `keep` checkpoints, and temporary folders of killed saves."""
        numbers = self.numbers()
        for number in numbers[:-keep]:
            self._manifest(number).unlink()
        newest = list(map(str, numbers[-keep:]))
        for path in self.folder.iterdir():
            if path.is_dir() and path.name not in newest:
                shutil.rmtree(path, ignore_errors=True)

    def load(self) -> Checkpoint | None:
        """The newest undamaged checkpoint; None where there is none at all.

        A damaged one is reported, and the previous one is used.
        """
        numbers = self.numbers()
        for number in reversed(numbers):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                manifest = writing.read_sealed(self._manifest(number))
                if _digests(self.folder / str(number)) == manifest["files"]:
                    return Checkpoint(_restored(self.folder / str(number)), manifest["meta"])
            self._damaged.add(number)
            warn(f"{self.folder / str(number)}: the checkpoint is damaged; trying the one before.")
        if numbers:
            problem = f"{self.folder}: every checkpoint is damaged"
            raise RunError(problem, fix="train again with --force")
        return None


def _reason(error: Exception) -> str:
    """The operating system's message, which an error of tensorstore quotes within a longer one."""
    cause = error.__cause__ or error
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    for message in map(os.strerror, REFUSALS):
        if message in str(error):
            return message
    return type(error).__name__


def _alone() -> "ocp.options.MultiprocessingOptions":
    """Options with which this process saves and loads whole arrays and waits for no other
    process."""
    import orbax.checkpoint as ocp

    if jax.process_count() == 1:
        return ocp.options.MultiprocessingOptions()
    index = jax.process_index()
    return ocp.options.MultiprocessingOptions(primary_host=index, active_processes={index})


def _restored(folder: Path) -> PyTree:
    """The arrays of a checkpoint in host memory, on whatever devices they were saved."""
    import orbax.checkpoint as ocp

    options = _alone()
    with _without_echoes(), ocp.StandardCheckpointer(multiprocessing_options=options) as saved:
        shapes = saved.metadata(folder).item_metadata.tree
        arguments = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), shapes)
        handler = ocp.PyTreeCheckpointHandler(multiprocessing_options=options)
        with ocp.Checkpointer(handler, multiprocessing_options=options) as reader:
            return reader.restore(folder, ocp.args.PyTreeRestore(restore_args=arguments))


def restore_into(template: PyTree, tree: PyTree) -> PyTree:
    """The saved tree in the structure of `template`. Seed axes may differ: finished seeds are
    dropped."""
    try:
        return serialization.from_state_dict(template, tree)
    except ValueError:  # from another version of this package or of optax
        problem = "the checkpoint holds other arrays than the model"
        raise RunError(problem, fix="use the version that the run was trained with") from None
