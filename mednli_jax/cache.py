"""The user's cache: digests of source files, remembered so that an unchanged file is read once."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from mednli_jax.files import private_folder, sha256, write_json

FIX = "free space, or set $MEDNLI_JAX_CACHE to another folder"


def digests(paths: Sequence[Path], folder: Path) -> dict[str, str]:
    """sha256 of files by name, remembered in a cache folder by (path, inode, size, times of change).

    The time at which the inode changed (ctime) is part of the key, so that an edit is seen that keeps the date.
    """
    memo_path = folder / "sources.json"
    memo = _remembered(memo_path)
    known, result = len(memo), {}
    for path in paths:
        status = os.stat(path)
        stamp = f"{path.absolute()}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"
        if stamp not in memo:
            memo[stamp] = sha256(path)
        result[path.name] = result.get(path.name, "") + memo[stamp]  # two folders may hold the same name
    if len(memo) != known:
        private_folder(folder, ours=True, fix=FIX)
        write_json(memo_path, {f"{stamp}:{_seal(stamp, digest)}": digest for stamp, digest in memo.items()})
    return result


def _remembered(path) -> dict[str, str]:
    """The entries of sources.json, only if they are as written: a wrong digest would stand for another file."""
    try:
        entries = [(*key.rpartition(":"), digest) for key, digest in json.loads(path.read_bytes()).items()]
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
    return {stamp: digest for stamp, _, seal, digest in entries if seal == _seal(stamp, digest)}


def _seal(stamp, digest):
    return hashlib.sha256(f"{stamp} {digest}".encode()).hexdigest()[:16]
