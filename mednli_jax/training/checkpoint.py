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
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import serialization

from mednli_jax import files
from mednli_jax.errors import FORCE, RESUME, RunError
from mednli_jax.terminal import warn

KEEP = 2
# If Orbax created its folders in a thread and that failed, other threads would wait for them and
# keep the process alive for many minutes.
_AT_ONCE = ocp.AsyncOptions(create_directories_asynchronously=False)
REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): files.sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _is_not_from_orbax(record) -> bool:
    frames = traceback.extract_tb(record.exc_info[2]) if record.exc_info else ()
    return not any("orbax" in frame.filename for frame in frames)


# When a save fails, Orbax's threads log tracebacks, and asyncio logs those of the tasks that Orbax
# did not wait for. They are dropped, because `save` raises the error.
logging.getLogger("absl").addFilter(lambda record: record.levelno < logging.ERROR)
logging.getLogger("asyncio").addFilter(_is_not_from_orbax)


@contextlib.contextmanager
def _without_echoes():
    """Drops late reports of tensorstore's threads about a save or load that is over.

    After a failure, writes may still be in progress, so the hook is then not removed.
    """
    hook = sys.unraisablehook
    sys.unraisablehook = lambda report: (
        None if str(report.exc_value) == "Event loop is closed" else hook(report)
    )
    yield
    sys.unraisablehook = hook


class Checkpoints:
    """The numbered checkpoints of one run directory. A checkpoint is a tree of arrays and a small
    JSON value."""

    def __init__(self, folder: Path):
        self.folder = Path(folder).absolute()
        self._damaged: set[int] = set()  # found by `load`; the next save replaces them

    def _manifest(self, number: int) -> Path:
        return self.folder / f"{number}.manifest.json"

    def numbers(self) -> list[int]:
        """Numbers of the complete checkpoints, oldest first."""
        found = (
            path.name.removesuffix(".manifest.json") for path in self.folder.glob("*.manifest.json")
        )
        whole = (int(name) for name in found if name.isdigit() and (self.folder / name).is_dir())
        return sorted(number for number in whole if number not in self._damaged)

    def save(self, state, meta: dict, *, alone: bool = False) -> None:
        """Saves under the next number and deletes all but the latest two, or all others (alone).

        A save that fails leaves the earlier ones.
        """
        number = (self.numbers() or [0])[-1] + 1
        target = self.folder / str(number)
        self._damaged.discard(number)
        try:  # tensorstore also raises ValueError
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._manifest(number).unlink(missing_ok=True)
            shutil.rmtree(
                target, ignore_errors=True
            )  # left by a save that was killed before its manifest
            tree = jax.tree.map(np.asarray, serialization.to_state_dict(state))
            with (
                _without_echoes(),
                ocp.StandardCheckpointer(async_options=_AT_ONCE, **_alone()) as checkpointer,
            ):
                checkpointer.save(target, tree)
            files.write_sealed(self._manifest(number), {"files": _digests(target), "meta": meta})
        except (OSError, ValueError, RunError) as error:
            self._drop_failed(number)
            # The message of the operating system; in errors of tensorstore it is part of a longer
            # message.
            cause = error.__cause__ or error
            refusals = (text for text in map(os.strerror, REFUSALS) if text in str(error))
            reason = cause.strerror if isinstance(cause, OSError) else None
            reason = reason or next(refusals, type(error).__name__)
            go_on = (RESUME, " continues from the previous checkpoint")
            if not self.numbers():
                go_on = ("then ", RESUME)
            problem = f"{self.folder}: the checkpoint could not be saved ({reason})"
            raise RunError(problem, fix=("free space; ", *go_on)) from error
        with contextlib.suppress(
            OSError
        ):  # the new checkpoint is saved; the next save deletes the remaining old ones
            self._drop_old(1 if alone else KEEP)

    def _drop_failed(self, number):
        """Frees space on the disk. Writes still in progress may create a part again, which the next
        save removes."""
        for path in (self.folder / str(number), *self.folder.glob(f"{number}.orbax*")):
            shutil.rmtree(path, ignore_errors=True)

    def _drop_old(self, keep):
        kept = self.numbers()[-keep:]
        for number in self.numbers()[:-keep]:
            self._manifest(number).unlink()
            shutil.rmtree(self.folder / str(number), ignore_errors=True)
        for path in self.folder.iterdir():  # temporary folders of killed saves
            if path.is_dir() and path.name not in {str(number) for number in kept}:
                shutil.rmtree(path, ignore_errors=True)

    def load(self):
        """The newest undamaged checkpoint as (tree of NumPy arrays, meta); None where there is none
        at all.

        A damaged one is reported, and the previous one is used.
        """
        numbers = self.numbers()
        for number in reversed(numbers):
            try:
                manifest = files.read_sealed(self._manifest(number))
                if _digests(self.folder / str(number)) == manifest["files"]:
                    with _without_echoes(), ocp.StandardCheckpointer(**_alone()) as checkpointer:
                        return _as_numpy(checkpointer, self.folder / str(number)), manifest["meta"]
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                pass
            self._damaged.add(number)
            warn(f"{self.folder / str(number)}: the checkpoint is damaged; trying the one before.")
        if numbers:
            raise RunError(
                f"{self.folder}: every checkpoint is damaged", fix=("train again with ", FORCE)
            )
        return None


def _alone():
    """One of several processes saves and loads whole arrays, so that it need not wait for the
    others."""
    index = jax.process_index()
    options = ocp.options.MultiprocessingOptions(primary_host=index, active_processes={index})
    return {"multiprocessing_options": options} if jax.process_count() > 1 else {}


def _as_numpy(checkpointer, folder):
    """Restores the arrays to host memory, on whatever devices they were saved."""
    shapes = checkpointer.metadata(folder).item_metadata.tree
    arguments = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), shapes)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**_alone()), **_alone()) as reader:
        return reader.restore(folder, ocp.args.PyTreeRestore(restore_args=arguments))


def restore_into(template, tree):
    """The saved tree in the structure of `template`. Seed axes may differ: finished seeds are
    dropped."""
    try:
        return serialization.from_state_dict(template, tree)
    except ValueError:  # from another version of this package or of optax
        problem = "the checkpoint holds other arrays than the model"
        raise RunError(problem, fix="use the version that the run was trained with") from None
