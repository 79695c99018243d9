"""Atomic writing of files that only their owner can read: temporary name, fsync, rename; files 0600, folders 0700.

All files of the package are written by this module, except a checkpoint (Orbax) and a few that are appended to.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from mednli_jax.errors import RunError

_FIX = "free space or check the folder's permissions"


@contextlib.contextmanager
def writing(path: Path, fix: str = _FIX):
    """Turns an OSError into a one-line RunError that names the file or its folder."""
    try:
        yield
    except OSError as error:  # NumPy's error for a full disk has no message of the system
        reason = error.strerror or "only a part of it was written"
        raise RunError(f"{path}: cannot be written ({reason}). Fix: {fix}.") from error


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file, 0600, that replaces `path` when the block ends. Readers see the old content or the new, never a part.

    A block that fails leaves the old content and no temporary file. A device such as /dev/stdout is written directly.
    Raises: RunError.
    """
    path = Path(path)
    temporary = _temporary(path)
    if path.exists() and not path.is_file() and not path.is_dir():
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
    if path.is_file() and path.stat().st_size:
        with writing(path), open(path, "rb") as file:
            other = file.read(len(mark.encode())) != mark.encode()
        if other:
            raise RunError(f"{path}: exists and is another kind of file. Fix: give another name.")
    write_atomic(path, content)


@contextlib.contextmanager
def atomic_folder(folder: Path, *, keep: Callable[[], bool] = lambda: True, fix: str = _FIX) -> Iterator[Path]:
    """An empty temporary folder, 0700, which is renamed to `folder` when the block ends and removed where it fails.

    keep: whether a folder that another process has meanwhile put there is kept.
    Raises: RunError, also where writing a file in the block fails.
    """
    folder = Path(folder)
    temporary = _temporary(folder)
    with writing(folder, fix):
        try:
            private_folder(folder.parent, fix=fix)
            shutil.rmtree(temporary, ignore_errors=True)  # left by a killed process that had the same number
            temporary.mkdir(mode=0o700)
            yield temporary
            if not (folder.is_dir() and keep()):
                shutil.rmtree(folder, ignore_errors=True)
                os.replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def put_in_place(made: Path, path: Path) -> None:
    """Makes a file that another library wrote on the same disk 0600 and renames it. Raises: RunError."""
    with writing(path):
        os.chmod(made, 0o600)
        os.replace(made, path)


def append_line(path: Path, line: str) -> None:
    """Appends a line to a file. A new file is 0600. Raises: RunError."""
    with writing(path), open(path, "a", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(f"{line}\n")


def write_json(path: Path, value) -> None:
    write_atomic(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def write_sealed(path: Path, values: dict, seal: str = "sha256") -> None:
    """Writes a manifest as JSON, with the sha256 of its values in the field `seal`."""
    values = json.loads(json.dumps(values))  # the values as they will be read, for the digest
    write_json(path, {**values, seal: digest(values)})


def read_sealed(path: Path, seal: str = "sha256") -> dict:
    """Reads a manifest of `write_sealed`, with the seal.

    Raises OSError, ValueError, KeyError or TypeError where it is damaged.
    """
    values = json.loads(path.read_bytes())
    if values[seal] != digest({name: value for name, value in values.items() if name != seal}):
        raise ValueError("not what was written")
    return values


def digest(values) -> str:
    """The sha256 of JSON values, for detecting damage."""
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


def sha256(*paths: Path) -> str:
    """The sha256 of the concatenated bytes of the files. Raises OSError."""
    found = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            hashlib.file_digest(file, lambda: found)
    return found.hexdigest()
