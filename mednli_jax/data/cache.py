"""The user's cache: prepared corpora, arrays kept in files, and digests of source files.

A prepared folder holds one .npy per field (rows of all splits one after the other),
`manifest.json`, `vocabulary.json`, `rows.json` (uids and tags) and, of a graph of mentioned
concepts, `concepts.json`.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import mednli_jax
from mednli_jax.data.arrays import Prepared, rows_of
from mednli_jax.errors import RunError
from mednli_jax.files import (
    atomic_file,
    atomic_folder,
    private_folder,
    read_sealed,
    sha256,
    write_atomic,
    write_json,
    write_sealed,
    writing,
)
from mednli_jax.terminal import warn

FIX = "free space, or set $MEDNLI_JAX_CACHE to another folder"


def kept(
    path: Path, key: dict, build: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays of one .npz; built and kept there where the file is missing, damaged or of another
    key.

    key: plain JSON, everything that shapes the arrays.
    """
    path, key = Path(path), json.dumps(key, sort_keys=True)
    if path.exists():
        with contextlib.suppress(
            Exception
        ):  # zipfile and NumPy raise many types of errors for a damaged file
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)  # zipfile compares the checksum of each array that it reads
            if arrays and arrays.pop("key").item() == key:
                return arrays
        warn(f"{path}: the file is damaged; its content is made again.")
    arrays = build()
    private_folder(path.parent, ours=True, fix=FIX)
    with writing(path, FIX), atomic_file(path) as file:
        np.savez(file, key=np.array(key), **arrays)
    return arrays


CONCEPTS = "concepts.json"
FORMAT = 1  # of the folder, not of what the arrays say


class Cache:
    """Prepared corpora below one folder, each under the hash of its key."""

    def __init__(self, folder: Path):
        self.folder = Path(folder).expanduser() / "prepared"

    def digests(self, paths: Sequence[Path]) -> dict[str, str]:
        """sha256 of source files by name. They are remembered; an edit that keeps the date changes
        the ctime."""
        memo_path = self.folder / "sources.json"
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
            result[path.name] = (
                result.get(path.name, "") + memo[stamp]
            )  # two folders may hold the same name
        if len(memo) != known:
            private_folder(self.folder, ours=True, fix=FIX)
            write_json(memo_path, memo)
        return result

    def get(self, name: str, key: dict, build: Callable[[], tuple]) -> tuple[Prepared, bool]:
        """The corpus prepared under `key`, built by `build` where missing or damaged; and whether
        the cache had it."""
        key = {**key, "folder_format": FORMAT}
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        folder = self.folder / f"{name}-{digest}"
        if folder.is_dir():
            prepared = _read(folder)
            if prepared:
                return prepared, True
            warn(f"{folder}: the prepared data is damaged; preparing it again.")
            shutil.rmtree(folder)
        private_folder(self.folder, ours=True, fix=FIX)
        built = build()
        with atomic_folder(
            folder, fix=FIX
        ) as temporary:  # another process may have written the same
            _write(temporary, key, *built)
        prepared = _read(folder)
        if prepared is None:
            raise RunError(f"{folder}: what was written cannot be read back", fix="check the disk")
        return prepared, False


def _write(folder, key, splits, arrays, vocab, vectors, facts):
    for name, array in {**arrays, "vectors": vectors}.items():
        with atomic_file(folder / f"{name}.npy") as file:
            np.save(file, array, allow_pickle=False)
    rows = {
        name: {
            "uids": [e.uid for e in split.examples],
            "tags": [list(e.tags) for e in split.examples],
        }
        for name, split in splits.items()
    }
    write_atomic(folder / "rows.json", json.dumps(rows))
    vocab.save(folder / "vocabulary.json")
    if (concepts := facts.get("knowledge", {}).pop("graph_concepts", None)) is not None:
        write_atomic(folder / CONCEPTS, json.dumps(concepts))
    files = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    manifest = {
        "format": FORMAT,
        "mednli_jax": mednli_jax.__version__,
        "key": key,
        "files": files,
        **facts,
    }
    write_sealed(folder / "manifest.json", manifest)


def _read(folder) -> Prepared | None:
    """The folder's content; None where it is damaged."""
    try:
        manifest = read_sealed(folder / "manifest.json")
        if any(sha256(folder / name) != sha for name, sha in manifest["files"].items()):
            return None
        names = [name.removesuffix(".npy") for name in manifest["files"] if name.endswith(".npy")]
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in names
        }
        rows = json.loads((folder / "rows.json").read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    splits = {}
    for name, facts in sorted(manifest["splits"].items(), key=lambda item: item[1]["first"]):
        splits[name] = rows_of(name, arrays, facts, rows[name]["uids"], rows[name]["tags"])
    return Prepared(folder, manifest, arrays, arrays.pop("vectors"), splits)
