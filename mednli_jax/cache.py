"""The user's cache: arrays kept in files, and digests of source files, so that an unchanged file is read once."""

import json
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mednli_jax.files import atomic_file, private_folder, sha256, write_json, writing
from mednli_jax.progress import warn

FIX = "free space, or set $MEDNLI_JAX_CACHE to another folder"


def kept(path: Path, key: dict, build: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of one .npz; built and kept there where the file is missing, damaged or of another key.

    key: plain JSON, everything that shapes the arrays. Where `build` raises nothing is left behind.
    """
    path, key = Path(path), json.dumps(key, sort_keys=True)
    if path.exists():
        arrays = _read(path)
        if arrays and arrays.pop("key").item() == key:
            return arrays
        warn(f"{path}: the file is damaged; its content is made again.")
    arrays = build()
    private_folder(path.parent, ours=True, fix=FIX)
    with writing(path, FIX), atomic_file(path) as file:
        np.savez(file, key=np.array(key), **arrays)
    return arrays


def _read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file that are as they were written, by their checksums; {} where one is not."""
    try:
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
        with np.load(path, allow_pickle=False) as file:
            return {} if damaged else dict(file)
    except Exception:  # whatever zipfile and NumPy meet in a damaged file
        return {}


def digests(paths: Sequence[Path], folder: Path) -> dict[str, str]:
    """sha256 of files by name, remembered in a cache folder by (path, inode, size, times of change).

    The time at which the inode changed (ctime) is part of the key, so that an edit is seen that keeps the date.
    """
    memo_path = folder / "sources.json"
    try:
        memo = json.loads(memo_path.read_bytes())
    except (OSError, ValueError):
        memo = {}
    known, result = len(memo), {}
    for path in paths:
        status = os.stat(path)
        stamp = f"{path.absolute()}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"
        if stamp not in memo:
            memo[stamp] = sha256(path)
        result[path.name] = result.get(path.name, "") + memo[stamp]  # two folders may hold the same name
    if len(memo) != known:
        private_folder(folder, ours=True, fix=FIX)
        write_json(memo_path, memo)
    return result
