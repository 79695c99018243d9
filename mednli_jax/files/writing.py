"""Writes files whole and private, with locks and digests."""

import contextlib
import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from mednli_jax.errors import RunError
from mednli_jax.terminal import warn
from mednli_jax.types import Json


class Digest(Protocol):
    """A hash of hashlib, as far as it is used here."""

    def update(self, data: bytes, /) -> None: ...


_FIX = "free space or check the folder's permissions"
SHORTER_NAME = "give a shorter name"


@contextlib.contextmanager
def writing(path: Path, fix: str = _FIX) -> Iterator[None]:
    """Turns an OSError into a RunError that names the file or its folder."""
    try:
        yield
    except OSError as error:  # NumPy's error for a full disk has no message of the system
        reason = error.strerror or "only a part of it was written"
        fix = "create its folder" if isinstance(error, FileNotFoundError) else fix
        fix = SHORTER_NAME if error.errno == errno.ENAMETOOLONG else fix
        raise RunError(f"{path}: cannot be written ({reason})", fix=fix) from error


TEMPORARY = ".*.[0-9a-f]*.tmp"  # pattern of the names of `temporary_beside`


def temporary_beside(path: Path) -> Path:
    """A new hidden path beside `path`. Its name is random, because containers that share a disk
    have equal process ids."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


# Errors of a file system without locks, as some network file systems are.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP)


def lock_file(file: IO | int, *, shared: bool = False, wait: bool = False) -> bool:
    """Locks an open file or a descriptor against other processes until it is closed; returns
    whether the file system has locks.

    Raises BlockingIOError if another process has locked the file and `wait` is False.
    """
    try:
        import fcntl  # imported here because Windows lacks this module
    except ImportError:
        return False
    mode = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        fcntl.flock(file, mode)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return False
        raise
    return True


def check_locks(folder: Path, has_locks: bool, workers: int = 1) -> None:
    """Warns if the file system of a folder has no locks; raises RunError if several workers need
    them."""
    problem = f"{folder}: the file system has no locks"
    if not has_locks and workers > 1:
        fix = "choose another folder, or --workers=1"
        raise RunError(f"{problem}, which several workers need", fix=fix)
    if not has_locks:
        warn(f"{problem}. Start no second process in this folder.")


@contextlib.contextmanager
def _hold_lock(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Holds the lock of a folder. Yields False if another process holds it or the disk has no
    locks."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            locked = lock_file(descriptor, wait=wait)
        except BlockingIOError:
            locked = False
        yield locked
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Yields a new, empty folder beside `path`, 0700, which is removed when the block ends.

    Scratch folders of `path` that killed processes left, and whose locks are free, are removed
    first. The lock of the parent keeps other processes from seeing the new folder before it has its
    own lock.
    """
    folder = temporary_beside(path)
    pattern = TEMPORARY.replace("*", glob.escape(path.name), 1)
    with contextlib.ExitStack() as block:
        with _hold_lock(path.parent, wait=True):
            for left in path.parent.glob(pattern):
                with contextlib.suppress(OSError), _hold_lock(left, wait=False) as unused:
                    if unused:
                        shutil.rmtree(left)
            folder.mkdir(mode=0o700)
            block.callback(shutil.rmtree, folder, ignore_errors=True)
            block.enter_context(_hold_lock(folder, wait=False))
        yield folder


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Yields a file, 0600, that replaces `path` when the block ends. Readers see the old content or
    the new, never a part.

    A block that fails leaves the old content and no temporary file. A device such as /dev/stdout is
    written directly.
    """
    path = Path(path)
    temporary = temporary_beside(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with writing(path), open(path, "wb") as file:
            yield file
        return
    with writing(path):
        try:
            with open(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):  # only the first error is reported
                temporary.unlink(missing_ok=True)
            raise


def write_atomic(path: Path, content: str | bytes) -> None:
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_over(path: Path, content: str, mark: str) -> None:
    """Writes a file at a path given by the user. An older file there is replaced only if it is of
    the same type.

    mark: the bytes with which each file of the type begins.
    """
    path = Path(path)
    if path.is_file() and path.stat().st_size:
        with writing(path), open(path, "rb") as file:
            is_same_type = file.read(len(mark.encode())) == mark.encode()
        if not is_same_type:
            raise RunError(f"{path}: exists and is another kind of file", fix="give another name")
    write_atomic(path, content)


@contextlib.contextmanager
def atomic_folder(folder: Path, *, keep: bool = True, fix: str = _FIX) -> Iterator[Path]:
    """Yields an empty temporary folder, 0700, which is renamed to `folder` when the block ends and
    removed if it fails.

    keep: whether a folder that another process has put there meanwhile stays.
    """
    folder = Path(folder)
    with writing(folder, fix):
        private_folder(folder.parent, fix=fix)
        with scratch_folder(folder) as temporary:
            yield temporary
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
            try:
                os.replace(temporary, folder)
            except OSError as error:
                if not keep or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise


def append_line(path: Path, line: str) -> None:
    """Appends a line to a file. A new file is 0600."""
    with (
        writing(path),
        open(path, "a", opener=lambda name, flags: os.open(name, flags, 0o600)) as file,
    ):
        file.write(f"{line}\n")


def write_json(path: Path, value: Json) -> None:
    write_atomic(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


SEAL = "sha256"


def write_sealed(path: Path, values: Mapping[str, Json]) -> None:
    """Writes a manifest as JSON, with the digest of its values in the field SEAL."""
    values = json.loads(json.dumps(values))  # the values as they will be read, for the digest
    write_json(path, {**values, SEAL: digest(values)})


def read_sealed(path: Path) -> dict[str, Json]:
    """Reads a manifest of `write_sealed`. Raises OSError, ValueError, KeyError or TypeError if it
    is damaged."""
    values: dict[str, Json] = json.loads(path.read_bytes())
    content = {name: value for name, value in values.items() if name != SEAL}
    if values[SEAL] != digest(content):
        raise ValueError("not what was written")
    return values


def digest(values: Json) -> str:
    """The sha256 of JSON values, for detecting damage."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def private_folder(folder: Path, *, ours: bool = False, fix: str = _FIX) -> Path:
    """Creates the folder, 0700, if it is missing, and returns it.

    A new or empty folder gets a .gitignore that excludes all its files; a folder with files gets
    one only if all files are `ours`.
    """
    ignored = folder / ".gitignore"
    with writing(folder, fix):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not ignored.exists() and (ours or not any(folder.iterdir())):
            write_atomic(ignored, "*\n")
    return folder


def sha256(*paths: Path) -> str:
    """The sha256 of the concatenated bytes of the files. Raises OSError."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            hashlib.file_digest(file, lambda: total)
    return total.hexdigest()
