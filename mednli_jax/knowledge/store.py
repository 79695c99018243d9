"""Ontologies, and distances between their concepts, kept in the cache: read or searched once, each one .npz."""

import hashlib
import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.cache import kept
from mednli_jax.knowledge.distances import distinct_pairs, shortest_paths, walked_edges
from mednli_jax.knowledge.ontology import Names, Ontology, Relations
from mednli_jax.knowledge.search import Progress

FORMAT = 1  # of the distances; tests/data/test_prepared_content.py says when to raise it
_STRINGS, _PAIRS = ("ids", "labels", "types", "abbreviations"), ("names", "cross_references")


def stored(path: Path, key: dict, build: Callable[[], Ontology]) -> Ontology:
    """The ontology kept in a file; made by `build` and kept there where it is missing, damaged or of another key.

    key: plain JSON, everything that shapes the ontology. Where `build` raises nothing is left behind.
    """
    return _ontology(kept(path, {**key, "layout": 2}, lambda: _arrays(build())))


def _arrays(ontology: Ontology) -> dict[str, np.ndarray]:
    """Strings as one text of lines, pairs as strings and concepts, relations as edges one after the other."""
    parts = {part: list(getattr(ontology, part)) for part in (*_STRINGS, *_PAIRS)}
    parts["abbreviations"].sort()
    edges = dict(sorted(ontology.relations.edges.items()))
    about = {name: getattr(ontology, name) for name in ("name", "version", "sha256", "link_types")}
    about["counts"] = {part: len(found) for part, found in parts.items()}
    about["relations"] = {name: found.shape[1] for name, found in edges.items()}
    arrays = {"about": np.array(json.dumps(about)), **{part: _lines(parts[part]) for part in _STRINGS}}
    for part in _PAIRS:
        arrays[part] = _lines(name for name, _ in parts[part])
        arrays[f"{part}.concepts"] = np.fromiter((concept for _, concept in parts[part]), np.int32, len(parts[part]))
    arrays |= {"parents.indptr": ontology.parents.indptr, "parents.indices": ontology.parents.indices}
    return arrays | {"relations": np.concatenate([np.zeros((2, 0), np.int32), *edges.values()], axis=1)}


def _ontology(arrays) -> Ontology:
    about = json.loads(arrays["about"].item())
    parts, size = {}, about["counts"]["ids"]
    for part, count in about["counts"].items():
        parts[part] = tuple(str(arrays.pop(part), "utf-8").split("\n")) if count else ()
    for part in _PAIRS:
        parts[part] = Names(parts[part], arrays[f"{part}.concepts"])
    indices, indptr = arrays["parents.indices"], arrays["parents.indptr"]
    parents = csr_array((np.ones(len(indices), bool), indices, indptr), shape=(size, size))
    parents.has_canonical_format = True
    bounds = pairwise(np.cumsum([0, *about["relations"].values()]).tolist())
    edges = {name: arrays["relations"][:, slice(*at)] for name, at in zip(about["relations"], bounds, strict=True)}
    return Ontology(
        name=about["name"],
        version=about["version"],
        sha256=about["sha256"],
        link_types=tuple(about["link_types"]),
        parents=parents,
        relations=Relations(edges, size),
        checked=True,
        **{**parts, "abbreviations": frozenset(parts["abbreviations"])},
    )


def _lines(strings: Iterable[str]) -> np.ndarray:
    return np.frombuffer("\n".join(strings).encode(), np.uint8)


def stored_paths(
    ontology: Ontology,
    pairs: np.ndarray,
    *,
    folder: Path,
    direction: str = "either",
    max_length: int = 0,
    progress: Progress | None = None,
) -> np.ndarray:
    """`shortest_paths`, int16 [M], from a file in `folder` if it is kept there, else computed and kept.

    A file belongs to the ontology's digest, the edges followed, the direction, the cut-off and the distinct pairs, in
    any order. It is readable by its owner alone, because an ontology may be licensed.
    """
    distinct, back = distinct_pairs(pairs)
    if not len(distinct):
        return np.zeros(0, np.int16)
    digest = hashlib.sha256()
    for array in (*walked_edges(ontology, direction), distinct):
        digest.update(np.ascontiguousarray(array, "<i4"))
    key = {"format": FORMAT, "ontology": ontology.sha256, "direction": direction, "max_length": max_length}
    key["pairs"] = digest.hexdigest()
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]

    def search():
        how = {"direction": direction, "max_length": max_length, "progress": progress}
        return {"distance": shortest_paths(ontology, distinct, **how)}

    return kept(Path(folder).expanduser() / f"{name}.npz", key, search)["distance"][back]
