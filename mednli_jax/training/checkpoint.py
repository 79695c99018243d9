"""Checkpoints: Orbax for the arrays, a sha256 manifest beside each, the latest two kept.

Orbax writes under a temporary name and renames, so that a killed save leaves no half checkpoint. It does not notice a
flipped bit, hence the manifest: it is written last, and a checkpoint without one does not exist.
With several processes only the first saves and loads.
"""

import contextlib
import errno
import logging
import math
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import serialization

from mednli_jax import files
from mednli_jax.errors import RunError, UserError, is_echo
from mednli_jax.progress import warn

# When a save fails, each thread of Orbax logs a traceback, also after Ctrl-C. Here the save raises instead.
logging.getLogger("absl").addFilter(lambda record: record.levelno < logging.ERROR)
KEEP = 2
# Bytes that a checkpoint may unpack to, and times its size on disk: weights hardly shrink, moments of zeros by far.
FREE_GROWTH, MAX_GROWTH = 1 << 28, 256
PATIENCE = 20  # tenths of a second
# Where Orbax makes its folders in a thread and the disk refuses, other threads wait for them, and keep the process from
# ending for many minutes.
_AT_ONCE = ocp.AsyncOptions(create_directories_asynchronously=False)
REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)


def _digests(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): files.sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def _reason(error) -> str:
    """What the system said; tensorstore quotes it within its message."""
    said = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return said or next((text for text in map(os.strerror, REFUSALS) if text in str(error)), type(error).__name__)


@contextlib.contextmanager
def _without_echoes():
    """A save or load that fails raises here; what its threads print is dropped.

    tensorstore's threads report writes that are still in progress when the save or load is over. After a failure the
    hook that drops these reports therefore stays.
    """
    hook = sys.unraisablehook
    sys.unraisablehook = lambda report: None if is_echo(report) else hook(report)
    yield
    sys.unraisablehook = hook


@contextlib.contextmanager
def _plainly_named(folder: Path):
    """The folder under a path that Orbax takes as it is: it reads `[`, `*`, `?` and a backslash as a pattern of names.

    Where the path has one, a link to the folder, from a temporary place.
    """
    if not re.search(r"[\[*?\\]", str(folder)):
        yield folder
        return
    with tempfile.TemporaryDirectory() as place:
        link = Path(place) / "checkpoints"
        link.symlink_to(folder)
        yield link


class Checkpoints:
    """The numbered checkpoints of one run directory. A checkpoint is a tree of arrays and a small JSON value."""

    def __init__(self, folder: Path):
        self.folder = Path(folder).absolute()
        self._damaged: set[int] = set()  # found by load: the next save takes their place, not a good one's

    def _manifest(self, number: int) -> Path:
        return self.folder / f"{number}.manifest.json"

    def numbers(self) -> list[int]:
        """Numbers of the complete checkpoints, oldest first."""
        found = (path.name.removesuffix(".manifest.json") for path in self.folder.glob("*.manifest.json"))
        whole = (int(name) for name in found if name.isdigit() and (self.folder / name).is_dir())
        return sorted(number for number in whole if number not in self._damaged)

    def save(self, state, meta: dict) -> None:
        """Saves under the next number and drops all but the latest two.

        Raises RunError where the system refuses. The files of the new one are then removed; earlier ones stay.
        """
        number = (self.numbers() or [0])[-1] + 1
        target = self.folder / str(number)
        self._damaged.discard(number)
        try:  # tensorstore raises ValueError, too
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._manifest(number).unlink(missing_ok=True)
            shutil.rmtree(target, ignore_errors=True)  # left by a save that was killed before its manifest
            tree = jax.tree.map(np.asarray, serialization.to_state_dict(state))
            with (
                _without_echoes(),
                _plainly_named(self.folder) as folder,
                ocp.StandardCheckpointer(async_options=_AT_ONCE, **_alone()) as checkpointer,
            ):
                checkpointer.save(folder / str(number), tree)
            files.write_sealed(self._manifest(number), {"files": _digests(target), "meta": meta})
        except (OSError, ValueError, files.Refused) as error:
            raise self._refused(number, error) from error
        with contextlib.suppress(OSError):  # the new one is saved; the next save drops what is left
            self._drop_old()

    def _refused(self, number, error) -> UserError:
        """The error to raise for a save that failed. First removes the files it left, to free space on the disk."""
        for _ in range(PATIENCE):
            for path in (self.folder / str(number), *self.folder.glob(f"{number}.orbax*")):
                shutil.rmtree(path, ignore_errors=True)
            time.sleep(0.1)  # writes that were still in progress may create a part again
            if not any(self.folder.glob(f"{number}.orbax*")):
                break
        before = "the previous checkpoint stands, --resume continues from it" if self.numbers() else "then --resume"
        problem = f"{self.folder}: the checkpoint could not be saved ({_reason(error)})"
        return RunError(f"{problem}. Fix: free space; {before}.")

    def _drop_old(self):
        kept = self.numbers()[-KEEP:]
        for number in self.numbers()[:-KEEP]:
            self._manifest(number).unlink()
            shutil.rmtree(self.folder / str(number), ignore_errors=True)
        for path in self.folder.iterdir():  # temporary folders of killed saves
            if path.is_dir() and path.name not in {str(number) for number in kept}:
                shutil.rmtree(path, ignore_errors=True)

    def load(self):
        """The newest undamaged checkpoint as (tree of NumPy arrays, meta); None where there is none at all.

        A damaged one is reported and the previous one is used. Raises UserError where all are damaged.
        """
        numbers = self.numbers()
        for number in reversed(numbers):
            try:
                manifest = files.read_sealed(self._manifest(number))
                if _digests(self.folder / str(number)) == manifest["files"]:
                    with (
                        _without_echoes(),
                        _plainly_named(self.folder) as folder,
                        ocp.StandardCheckpointer(**_alone()) as checkpointer,
                    ):
                        return _as_numpy(checkpointer, folder / str(number)), manifest["meta"]
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                pass
            self._damaged.add(number)
            warn(f"{self.folder / str(number)}: the checkpoint is damaged; trying the one before.")
        if numbers:
            raise RunError(f"{self.folder}: every checkpoint is damaged. Fix: train again with --force.")
        return None


def _alone():
    """One of several processes saves and loads whole arrays, so that it need not wait for the others."""
    index = jax.process_index()
    options = ocp.options.MultiprocessingOptions(primary_host=index, active_processes={index})
    return {"multiprocessing_options": options} if jax.process_count() > 1 else {}


def _as_numpy(checkpointer, folder):
    """Restores to host memory whatever devices wrote it."""
    shapes = checkpointer.metadata(folder).item_metadata.tree
    stored = sum(path.stat().st_size for path in folder.rglob("*"))
    if sum(map(_bytes_of, jax.tree.leaves(shapes))) > FREE_GROWTH + MAX_GROWTH * stored:
        raise ValueError("the arrays are larger than such files can hold")
    arguments = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), shapes)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**_alone()), **_alone()) as reader:
        return reader.restore(folder, ocp.args.PyTreeRestore(restore_args=arguments))


def _bytes_of(array) -> int:
    """The bytes that reading an array takes: it is stored in chunks, of which each is unpacked as a whole."""
    sizes = [math.prod(shape) for shape in (array.shape, array.storage.chunk_shape)]
    return max(sizes) * np.dtype(array.dtype).itemsize


def restore_into(template, tree):
    """The saved tree in the structure of `template`. Raises UserError naming the first leaf that does not fit.

    The leading seed axis may differ: finished seeds are no longer trained.
    """
    expected = serialization.to_state_dict(template)
    flat, found = _paths(expected), _paths(tree)
    for name in sorted(flat.keys() | found.keys()):
        if name not in flat or name not in found:
            side = "has no" if name not in found else "holds an unknown"
            raise RunError(f"the checkpoint {side} array '{name}'. Fix: use the config the run was trained with.")
        if flat[name].shape[1:] != found[name].shape[1:]:
            raise RunError(
                f"the checkpoint's '{name}' has shape {list(found[name].shape)}, the model expects "
                f"{list(flat[name].shape)}. Fix: use the config the run was trained with."
            )
    return serialization.from_state_dict(template, tree)


def _paths(tree):
    paths = jax.tree.leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in paths}
