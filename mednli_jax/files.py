"""Files, written whole or not at all and for their owner alone: temporary name, fsync, rename, 0600; folders 0700.

Whatever the package writes goes through here, but for the few writers that tests/test_files.py names.
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

STALE = 24 * 3600  # seconds after which a temporary folder counts as left behind
MAX_SMALL = 1 << 26  # bytes of a file of settings, results or words: far more than the largest has
_FIX = "free space or check the folder's permissions"


class Refused(RunError):
    """The system refuses to write. reason: what it says; NumPy's error of a full disk has none."""

    def __init__(self, path: Path, reason: str | None, fix: str):
        self.reason = reason or "the disk took a part of it only"
        super().__init__(f"{path}: cannot be written ({self.reason}). Fix: {fix}.")


@contextlib.contextmanager
def writing(path: Path, fix: str = _FIX):
    """Turns what the system refuses into one line that names the file, or the folder that was to hold it.

    The cause has no traceback: from Python 3.12 its frames would refer to contextlib's, which refer to the cause, and
    this cycle would keep alive what the caller holds, such as the lock of a run.
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
    """A file to write `path` in, 0600: readers see the old content or, once the block ends, the new one, never a part.

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
            with contextlib.suppress(OSError):  # the first error is the one to report
                temporary.unlink(missing_ok=True)
            raise


def write_atomic(path: Path, content: str | bytes) -> None:
    """Writes a file whole or not at all, see `atomic_file`."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_over(path: Path, content: str, mark: str) -> None:
    """Writes a file at a path that a user named. Raises: RunError where a file is there that does not begin with
    `mark`, so that it is of another kind."""
    path = Path(path)
    if content and not content.startswith(mark):
        raise ValueError("the content has not the mark of its kind")
    if path.is_file() and path.stat().st_size:
        with writing(path), open(path, "rb") as file:
            if file.read(len(mark.encode())) != mark.encode():
                raise RunError(f"{path}: is there already, and is another kind of file. Fix: give another name.")
    write_atomic(path, content)


@contextlib.contextmanager
def atomic_folder(folder: Path, *, keep: Callable[[], bool] = lambda: True, fix: str = _FIX) -> Iterator[Path]:
    """An empty folder, 0700, to fill: it takes the name `folder` when the block ends, and is gone if that fails.

    keep: whether a folder that has taken the name meanwhile, from another process, is as good and stays.
    Temporary folders of the same name that a kill left more than a day ago are removed, too.
    Raises: RunError, also for the files that are written in the block.
    """
    folder = Path(folder)
    temporary = _temporary(folder)
    with writing(folder, fix):
        try:
            private_folder(folder.parent)
            for left in folder.parent.glob(f".{glob.escape(folder.name)}.*.tmp"):
                with contextlib.suppress(FileNotFoundError):  # another process has just given it its name
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
    """Renames a file that another library wrote on the same disk, once all of it is on disk; 0600. Raises: RunError."""
    with writing(path):
        with open(made, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(made, 0o600)
        os.replace(made, path)


def append_line(path: Path, line: str) -> None:
    """Adds a line at the end of a file, which is 0600 if it is new: all of the line or nothing. Raises: RunError."""
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
    """Writes a manifest as JSON, with the sha256 of its content under the name `seal`."""
    values = json.loads(json.dumps(values))  # as it will be read: the digest is of that
    write_json(path, {**values, seal: _digest(values)})


def read_sealed(path: Path, seal: str = "sha256") -> dict:
    """What `write_sealed` wrote, with the seal.

    Raises OSError, ValueError, KeyError or TypeError where any byte is another: `1e5` for `1E5` is a flipped bit, too.
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
    """The folder, made for its owner alone where it is missing. Raises RunError.

    A new or empty folder gets a .gitignore that leaves all of it out of git. A folder with files gets one only with
    ours=True: all that it holds is from this package.
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
    """The bytes of a file that this package wrote and that is small. Raises OSError, also where it is larger."""
    with open(path, "rb") as file:
        content = file.read(MAX_SMALL + 1)
    if len(content) > MAX_SMALL:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def sha256(*paths: Path) -> str:
    """Of the bytes of the files, one after the other. Raises OSError."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()
