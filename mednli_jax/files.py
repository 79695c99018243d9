"""Atomic writing of files that only their owner can read: temporary name, fsync, rename; files 0600, folders 0700.

All files of the package are written by this module, except a checkpoint (Orbax) and a few that are appended to.
"""

import contextlib
import errno
import glob
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from mednli_jax.errors import RunError

STALE = 24 * 3600  # seconds after which a temporary folder counts as abandoned
MAX_SMALL = 1 << 26  # most bytes of a file of settings, results or words; far more than the largest such file has
_FIX = "free space or check the folder's permissions"


class Refused(RunError):
    """The system refuses to write. reason: its message; NumPy's error for a full disk has none."""

    def __init__(self, path: Path, reason: str | None, fix: str):
        self.reason = reason or "only a part of it was written"
        super().__init__(f"{path}: cannot be written ({self.reason}). Fix: {fix}.")


@contextlib.contextmanager
def writing(path: Path, fix: str = _FIX):
    """Turns an OSError into a one-line RunError that names the file or its folder.

    The cause keeps no traceback: from Python 3.12 it would form a reference cycle with the frames of contextlib, which
    would keep objects of the caller alive, such as the lock of a run.
    """
    try:
        yield
    except Refused as error:
        raise Refused(path, error.reason, fix) from error.with_traceback(None)
    except OSError as error:
        raise Refused(path, error.strerror, fix) from error.with_traceback(None)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file, 0600, that replaces `path` when the block ends. Readers see the old content or the new, never a part.

    A block that fails leaves the old content and no temporary file. A device or a pipe is written directly.
    Raises: RunError.
    """
    path = Path(path)
    temporary = _temporary(path)
    if path.exists() and not path.is_file() and not path.is_dir():  # /dev/stdout, a named pipe
        with writing(path), open(path, "wb") as file:
            yield file
        return
    with writing(path):
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):  # only the first error is reported
                temporary.unlink(missing_ok=True)
            raise


def write_atomic(path: Path, content: str | bytes) -> None:
    """Writes a file atomically, see `atomic_file`."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_over(path: Path, content: str, mark: str) -> None:
    """Writes a file at a path given by the user, over an older file of the same type only.

    Raises: RunError where the path holds a file that does not begin with `mark`, which identifies the type.
    """
    path = Path(path)
    if content and not content.startswith(mark):
        raise ValueError("the content does not begin with the mark of its type")
    if path.is_file() and path.stat().st_size:
        with writing(path), open(path, "rb") as file:
            if file.read(len(mark.encode())) != mark.encode():
                raise RunError(f"{path}: exists and is another kind of file. Fix: give another name.")
    write_atomic(path, content)


@contextlib.contextmanager
def atomic_folder(folder: Path, *, keep: Callable[[], bool] = lambda: True, fix: str = _FIX) -> Iterator[Path]:
    """An empty temporary folder, 0700, which is renamed to `folder` when the block ends and removed where it fails.

    Temporary folders for the same name that a killed process left more than a day ago are also removed.
    keep: whether a folder that another process has meanwhile put there is kept.
    Raises: RunError, also where writing a file in the block fails.
    """
    folder = Path(folder)
    temporary = _temporary(folder)
    with writing(folder, fix):
        try:
            private_folder(folder.parent)
            for left in folder.parent.glob(f".{glob.escape(folder.name)}.*.tmp"):
                with contextlib.suppress(FileNotFoundError):  # another process has just renamed it
                    if left == temporary or time.time() - left.stat().st_mtime > STALE:
                        shutil.rmtree(left, ignore_errors=True)
            temporary.mkdir(mode=0o700)
            yield temporary
            if not (folder.is_dir() and keep()):
                shutil.rmtree(folder, ignore_errors=True)
                os.replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def put_in_place(made: Path, path: Path) -> None:
    """Syncs a file that another library wrote on the same disk, makes it 0600 and renames it. Raises: RunError."""
    with writing(path):
        with open(made, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(made, 0o600)
        os.replace(made, path)


def append_line(path: Path, line: str) -> None:
    """Appends a line to a file, all of it or nothing. A new file is 0600. Raises: RunError."""
    data = f"{line}\n".encode()
    with writing(path), open(path, "ab", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        end = file.tell() if file.seekable() else None
        try:
            while data:
                data = data[file.write(data) :]
        except OSError:
            if end is not None:
                with contextlib.suppress(OSError):
                    file.truncate(end)
            raise


def write_json(path: Path, value) -> None:
    write_atomic(path, _json(value))


def _json(value):
    return json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n"


def write_sealed(path: Path, values: dict, seal: str = "sha256") -> None:
    """Writes a manifest as JSON, with the sha256 of its content in the field `seal`."""
    values = json.loads(json.dumps(values))  # the values as they will be read, for the digest
    write_json(path, {**values, seal: _digest(values)})


def read_sealed(path: Path, seal: str = "sha256") -> dict:
    """Reads a manifest of `write_sealed`, with the seal.

    Raises OSError, ValueError, KeyError or TypeError where any byte has changed, even in `1E5` for `1e5`.
    """
    content = small_content(path)
    try:
        values = json.loads(content)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if _json(values).encode() != content or values[seal] != _digest({k: v for k, v in values.items() if k != seal}):
        raise ValueError("not what was written")
    return values


def _digest(values):
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def private_folder(folder: Path, *, ours: bool = False, fix: str = _FIX) -> Path:
    """Creates the folder where it is missing, 0700, and returns it. Raises RunError.

    A new or empty folder gets a .gitignore that excludes all its files. A folder with files gets one only with
    ours=True, which says that all its files are from this package.
    """
    ignored = folder / ".gitignore"
    with writing(folder, fix):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not ignored.exists() and (ours or not any(folder.iterdir())):
            write_atomic(ignored, "*\n")
    return folder


def next_free(folder: Path) -> Path:
    """`folder`, or folder-2, folder-3, ...: the first that does not exist yet."""
    candidate, number = folder, 1
    while candidate.exists():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate


def small_content(path: Path) -> bytes:
    """The bytes of a small file of this package. Raises OSError, also where it is larger than MAX_SMALL."""
    with open(path, "rb") as file:
        content = file.read(MAX_SMALL + 1)
    if len(content) > MAX_SMALL:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def sha256(*paths: Path) -> str:
    """The sha256 of the concatenated bytes of the files. Raises OSError."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()
