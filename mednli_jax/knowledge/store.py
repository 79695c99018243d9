"""An ontology on disk as arrays: read once from its sources, from then on memory-mapped.

A folder holds `manifest.json` and .npy files: of each table of strings the UTF-8 bytes and the offsets, of the pairs
the concept indices too, of the is-a graph its rows, of all other relations their edges one after the other. Files are
0600, folders 0700: terminologies are licensed. Every file's sha256 is in the manifest and checked at each load.
"""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

import mednli_jax
from mednli_jax.errors import RunError
from mednli_jax.files import atomic_file, atomic_folder, read_sealed, sha256, write_sealed
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.string_arrays import Names, Relations, Strings
from mednli_jax.progress import warn

FORMAT = 1
SEAL = "manifest_sha256"
FIX = "free space, or set $MEDNLI_JAX_CACHE to another folder"
_STRINGS = ("ids", "labels", "types", "abbreviations")
_PAIRS = ("names", "cross_references")


def stored(folder: Path, key: dict, build: Callable[[], Ontology]) -> Ontology:
    """The ontology kept in `folder`; made by `build` and kept there where it is missing, damaged or of another key.

    key: plain JSON, everything that shapes the ontology. Where `build` raises nothing is left behind.

    Raises: RunError where the folder cannot be written, or what was written cannot be read back.
    """
    folder, key = Path(folder), json.loads(json.dumps(key))
    found = read_stored(folder, key)
    if found is not None:
        return found
    if folder.exists():
        warn(f"{folder}: the stored ontology is damaged; reading its sources again.")
    built = build()
    # Another process may have done the same meanwhile.
    with atomic_folder(folder, keep=lambda: read_stored(folder, key) is not None, fix=FIX) as temporary:
        write_stored(temporary, key, built)
    found = read_stored(folder, key)
    if found is None:
        raise RunError(f"{folder}: what was written cannot be read back. Fix: check the disk.")
    return found


def write_stored(folder: Path, key: dict, ontology: Ontology) -> None:
    """Fills the folder, which must be empty; its manifest comes last. Raises: RunError."""
    files = {}
    for name, array in _arrays(ontology).items():
        path = folder / f"{name}.npy"
        with atomic_file(path) as file:
            np.save(file, array, allow_pickle=False)
        files[path.name] = {"size": path.stat().st_size, "sha256": sha256(path)}
    manifest = {
        "format": FORMAT,
        "mednli_jax": mednli_jax.__version__,
        "key": key,
        "files": files,
        "name": ontology.name,
        "version": ontology.version,
        "sha256": ontology.sha256,
        "link_types": list(ontology.link_types),
        "relations": {name: int(edges.shape[1]) for name, edges in sorted(ontology.relations.edges.items())},
        "concepts": len(ontology),
        "edges": int(ontology.parents.nnz),
    }
    write_sealed(folder / "manifest.json", manifest, SEAL)


def read_stored(folder: Path, key: dict) -> Ontology | None:
    """What `write_stored` wrote; None where the folder, a file or the manifest is not what it was then."""
    try:
        manifest = read_sealed(folder / "manifest.json", SEAL)
        if manifest["key"] != key or manifest["format"] != FORMAT:
            return None
        for name, facts in manifest["files"].items():
            path = folder / name
            if path.stat().st_size != facts["size"] or sha256(path) != facts["sha256"]:
                return None
        return _ontology(folder, manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _arrays(ontology) -> dict[str, np.ndarray]:
    """Every array of the folder by its name."""
    arrays = {}
    for part in _STRINGS:
        strings = getattr(ontology, part)
        table = Strings.of(sorted(strings) if part == "abbreviations" else strings)
        arrays |= {f"{part}.bytes": table.buffer, f"{part}.offsets": table.offsets}
    for part in _PAIRS:
        table = Names.of(getattr(ontology, part))
        arrays |= {f"{part}.bytes": table.strings.buffer, f"{part}.offsets": table.strings.offsets}
        arrays[f"{part}.concepts"] = table.concepts
    arrays |= {"parents.indptr": ontology.parents.indptr, "parents.indices": ontology.parents.indices}
    edges = [np.zeros((2, 0), np.int32), *(ontology.relations.edges[name] for name in sorted(ontology.relations))]
    return {**arrays, "relations": np.concatenate(edges, axis=1)}


def _ontology(folder, manifest):
    def array(name, mode="r"):
        return np.load(folder / f"{name}.npy", mmap_mode=mode, allow_pickle=False)

    def strings(part):
        return Strings(array(f"{part}.bytes"), array(f"{part}.offsets"))

    size = manifest["concepts"]
    # SciPy's compiled routines want arrays that could be written to: a page is copied when that happens ("c").
    indices, indptr = array("parents.indices", "c"), array("parents.indptr", "c")
    parents = csr_array((np.ones(len(indices), bool), indices, indptr), shape=(size, size))
    parents.has_canonical_format = True
    bounds = np.cumsum([0, *manifest["relations"].values()]).tolist()
    edges = array("relations")
    relations = {
        name: edges[:, begin:end] for name, (begin, end) in zip(manifest["relations"], pairwise(bounds), strict=True)
    }
    return Ontology(
        name=manifest["name"],
        version=manifest["version"],
        ids=strings("ids"),
        labels=strings("labels"),
        names=Names(strings("names"), array("names.concepts")),
        parents=parents,
        sha256=manifest["sha256"],
        types=strings("types"),
        link_types=tuple(manifest["link_types"]),
        abbreviations=frozenset(strings("abbreviations")),
        relations=Relations(relations, size),
        cross_references=Names(strings("cross_references"), array("cross_references.concepts")),
        checked=True,
    )
