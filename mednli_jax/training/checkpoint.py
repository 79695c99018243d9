"""Checkpoints: arrays saved by Orbax, each with a sha256 manifest. The latest two stay, at the end
only the last.

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
MANIFEST = "manifest.json"  # of a step
REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)


def _digests(folder: Path) -> dict[str, str]:
    """The hash of each file of a step, by its path, without the manifest."""
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    paths.pop(MANIFEST, None)
    return {name: writing.sha256(path) for name, path in paths.items()}


def _is_not_from_orbax(record: logging.LogRecord) -> bool:
    frames = traceback.extract_tb(record.exc_info[2]) if record.exc_info else ()
    return not any("orbax" in frame.filename for frame in frames)


# When a save fails, Orbax's threads log tracebacks, and asyncio logs those of the tasks that Orbax
# did not wait for. They are dropped, because `save` raises the error.
logging.getLogger("absl").addFilter(lambda record: record.levelno < logging.ERROR)
logging.getLogger("asyncio").addFilter(_is_not_from_orbax)


@contextlib.contextmanager
def _without_echoes() -> Iterator[None]:
    """Drops reports of tensorstore's threads that outlive a save.

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
    """The content of a checkpoint: a tree of arrays and JSON values."""

    tree: PyTree  # of NumPy arrays
    meta: JsonObject


class Checkpoints:
    """The checkpoints of one run directory: the steps of a `CheckpointManager`, which retains the
    latest two. The first save is step 1, the next step 2."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder).absolute()
        self._damaged: set[int] = set()  # found by `load`; the next save deletes them

    def steps(self) -> list[int]:
        """The steps that are complete and not known to be damaged, oldest first."""
        names = [manifest.parent.name for manifest in self.folder.glob(f"*/{MANIFEST}")]
        steps = {int(name) for name in names if name.isdigit()}
        return sorted(steps - self._damaged)

    def save(self, state: PyTree, meta: JsonObject, *, alone: bool = False) -> None:
        """Saves as the next step. The latest earlier step stays, unless `alone`.

        A save that fails leaves the earlier steps.
        """
        try:
            is_saved = self._save(state, meta, alone=alone)
        except (OSError, ValueError, RunError) as error:  # tensorstore also raises ValueError
            self._delete_unusable()
            problem = f"{self.folder}: the checkpoint could not be saved ({_reason(error)})"
            fix = "free space; then --resume"
            if self.steps():
                fix = "free space; --resume continues from the previous checkpoint"
            raise RunError(problem, fix=fix) from error
        if not is_saved:
            problem = f"{self.folder}: holds a later step, which cannot be deleted"
            raise RunError(problem, fix="remove what is no step of the run; then --resume")

    def _save(self, state: PyTree, meta: JsonObject, *, alone: bool) -> bool:
        """Saves the next step; returns whether the manager has saved it."""
        import orbax.checkpoint as ocp

        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._delete_unusable()
        tree = jax.tree.map(np.asarray, serialization.to_state_dict(state))
        step = (self.steps() or [0])[-1] + 1
        with _without_echoes(), self._manager() as manager:
            arrays = ocp.args.StandardSave(tree)
            if not manager.save(step, args=arrays, custom_metadata=meta):
                return False
            manifest = self.folder / str(step) / MANIFEST
            writing.write_sealed(manifest, {"files": _digests(manifest.parent)})
            for earlier in self.steps()[:-1] if alone else ():
                manager.delete(earlier)
        return True

    def _delete_unusable(self) -> None:
        """Deletes the folders that killed and failed saves left, and damaged steps."""
        steps = list(map(str, self.steps()))
        for path in self.folder.glob("*"):
            if path.is_dir() and path.name not in steps:
                shutil.rmtree(path, ignore_errors=True)
        self._damaged.clear()

    def load(self) -> Checkpoint | None:
        """Loads the newest undamaged checkpoint; None if there is no checkpoint at all.

        A damaged one is reported, and the previous one is used.
        """
        steps = self.steps()
        for step in reversed(steps):
            folder = self.folder / str(step)
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                if _digests(folder) == writing.read_sealed(folder / MANIFEST)["files"]:
                    with self._manager() as manager:
                        meta = manager.metadata(step).custom_metadata
                        return Checkpoint(manager.restore(step), meta)
            self._damaged.add(step)
            warn(f"{folder}: the checkpoint is damaged; trying the one before.")
        if steps:
            problem = f"{self.folder}: every checkpoint is damaged"
            raise RunError(problem, fix="train again with --force")
        return None

    def _manager(self) -> "ocp.CheckpointManager":
        """A manager by which this process saves and loads whole arrays and waits for no other
        process."""
        import orbax.checkpoint as ocp

        alone = ocp.options.MultiprocessingOptions()
        if jax.process_count() > 1:
            index = jax.process_index()
            alone = ocp.options.MultiprocessingOptions(primary_host=index, active_processes={index})
        options = ocp.CheckpointManagerOptions(
            max_to_keep=KEEP,
            create=False,
            enable_async_checkpointing=False,
            lightweight_initialize=True,  # a damaged step does not hinder the others
            multiprocessing_options=alone,
        )
        handler = ocp.StandardCheckpointHandler(multiprocessing_options=alone)
        return ocp.CheckpointManager(self.folder, options=options, item_handlers=handler)


def _reason(error: Exception) -> str:
    """The operating system's message, which an error of tensorstore quotes within a longer one."""
    cause = error.__cause__ or error
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    for message in map(os.strerror, REFUSALS):
        if message in str(error):
            return message
    return type(error).__name__


def restore_into(template: PyTree, tree: PyTree) -> PyTree:
    """Puts the saved tree into the structure of `template`. Seed axes may differ: finished seeds
    are dropped."""
    try:
        return serialization.from_state_dict(template, tree)
    except ValueError:  # from another version of this package or of optax
        problem = "the checkpoint holds other arrays than the model"
        raise RunError(problem, fix="use the version that the run was trained with") from None
