"""The user's cache: prepared corpora, arrays saved in files, and digests of source files.

A prepared folder holds one .npy per field (rows of all splits one after the other),
`manifest.json`, `vocabulary.json` and `rows.json` (uids and tags). If the corpus has a knowledge
graph of the concepts that its texts mention, `concepts.json` holds their ids.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

import mednli_jax
from mednli_jax.data.arrays import Prepared, rows_of, rows_of_splits
from mednli_jax.data.examples import Split
from mednli_jax.errors import RunError
from mednli_jax.files.writing import (
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
from mednli_jax.types import JsonObject

FIX = "free space, or set $MEDNLI_JAX_CACHE to another folder"
CONCEPTS = "concepts.json"
# The version of the files in a prepared folder. If only the content of the arrays changes, another
# version is raised, one of those in the key of each corpus.
FOLDER_FORMAT = 1

Arrays = dict[str, np.ndarray]


def key_digest(key: JsonObject) -> str:
    """The SHA-256 of a key, cut to 16 hexadecimal digits, for the name of a file or folder."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


def cached_arrays(path: Path, key: JsonObject, build: Callable[[], Arrays]) -> Arrays:
    """The arrays that the file `path` (.npz) holds under `key`. Builds and saves them if there is
    no file, and with a warning if the file has another key or is damaged."""
    path, key_text = Path(path), json.dumps(key, sort_keys=True)
    if path.exists():
        state = "is damaged"
        # zipfile and NumPy raise many types of errors for a damaged file.
        with contextlib.suppress(Exception):
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)  # zipfile compares the checksum of each array that it reads
            if arrays.pop("key").item() == key_text:
                return arrays
            state = "is of other sources or settings"
        warn(f"{path}: the file {state}; its content is made again.")
    arrays = build()
    private_folder(path.parent, ours=True, fix=FIX)
    contents: JsonObject = {"key": np.array(key_text), **arrays}
    with writing(path, FIX), atomic_file(path) as file:
        np.savez(file, **contents)
    return arrays


class SavedVocabulary(Protocol):
    def save(self, path: Path) -> None: ...


# Splits, arrays over the rows of all splits, vocabulary [V], vectors [V, D], and facts for the
# manifest.
Content = tuple[
    Mapping[str, Split], Mapping[str, np.ndarray], SavedVocabulary, np.ndarray, JsonObject
]


class Cache:
    """Prepared corpora below one folder, each under the hash of its key."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder).expanduser() / "prepared"

    def digests(self, paths: Sequence[Path]) -> dict[str, str]:
        """The SHA-256 of each source file, by name. Digests are remembered by inode, size and
        times; an edit that keeps the modification time still changes the ctime."""
        memo_path = self.folder / "sources.json"
        try:
            memo = json.loads(memo_path.read_bytes())
        except (OSError, ValueError):
            memo = {}
        remembered = len(memo)
        digests: dict[str, str] = {}
        for path in paths:
            status = os.stat(path)
            times = f"{status.st_mtime_ns}:{status.st_ctime_ns}"
            stamp = f"{path.absolute()}:{status.st_ino}:{status.st_size}:{times}"
            if stamp not in memo:
                memo[stamp] = sha256(path)
            # Files of one name in two folders: their digests are joined.
            digests[path.name] = digests.get(path.name, "") + memo[stamp]
        if len(memo) != remembered:
            private_folder(self.folder, ours=True, fix=FIX)
            write_json(memo_path, memo)
        return digests

    def get(
        self, name: str, key: JsonObject, build: Callable[[], Content]
    ) -> tuple[Prepared, bool]:
        """Returns the corpus prepared under `key`, and whether the cache had it. `build` makes a
        corpus that is missing or damaged."""
        key = {**key, "folder_format": FOLDER_FORMAT}
        folder = self.folder / f"{name}-{key_digest(key)}"
        if folder.is_dir():
            prepared = _read(folder)
            if prepared:
                return prepared, True
            warn(f"{folder}: the prepared data is damaged; preparing it again.")
            shutil.rmtree(folder)
        private_folder(self.folder, ours=True, fix=FIX)
        content = build()
        splits, arrays, _, _, facts = content
        # Fails before the folder is written if `build` left out an array that each corpus has.
        rows_of_splits(splits, arrays, facts)
        # If another process has written the same folder, that one stays.
        with atomic_folder(folder, fix=FIX) as temporary:
            _write(temporary, key, content)
        prepared = _read(folder)
        if prepared is None:
            raise RunError(f"{folder}: what was written cannot be read back", fix="check the disk")
        return prepared, False


def _write(folder: Path, key: JsonObject, content: Content) -> None:
    """Writes a prepared folder. Takes the names of a graph's concepts out of the content."""
    splits, arrays, vocabulary, vectors, facts = content
    for name, array in {**arrays, "vectors": vectors}.items():
        with atomic_file(folder / f"{name}.npy") as file:
            np.save(file, array, allow_pickle=False)
    rows = {}
    for name, split in splits.items():
        uids = [example.uid for example in split.examples]
        rows[name] = {"uids": uids, "tags": [example.tags for example in split.examples]}
    write_atomic(folder / "rows.json", json.dumps(rows))
    vocabulary.save(folder / "vocabulary.json")
    # concepts.json holds them in place of the manifest.
    concepts = facts.get("knowledge", {}).pop("graph_concepts", None)
    if concepts is not None:
        write_atomic(folder / CONCEPTS, json.dumps(concepts))
    manifest = {
        "format": FOLDER_FORMAT,
        "mednli_jax": mednli_jax.__version__,
        "key": key,
        "files": {path.name: sha256(path) for path in sorted(folder.iterdir())},
        **facts,
    }
    write_sealed(folder / "manifest.json", manifest)


def _read(folder: Path) -> Prepared | None:
    """Reads a prepared folder; None if the folder is damaged."""
    try:
        manifest = read_sealed(folder / "manifest.json")
        arrays = {}
        for name, digest in manifest["files"].items():
            if sha256(folder / name) != digest:
                return None
            if name.endswith(".npy"):
                array = np.load(folder / name, mmap_mode="r", allow_pickle=False)
                arrays[name.removesuffix(".npy")] = array
        rows = json.loads((folder / "rows.json").read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    vectors = arrays.pop("vectors")
    splits = {}
    for name, facts in sorted(manifest["splits"].items(), key=lambda pair: pair[1]["first"]):
        splits[name] = rows_of(name, arrays, facts, rows[name]["uids"], rows[name]["tags"])
    return Prepared(folder, manifest, arrays, vectors, splits)
