"""Distances of concept pairs, cached on disk for an ontology, a direction, a cut-off and a set of pairs.

A file holds 32 bytes of digest, the 32 bytes of its key, and one little-endian int16 for each distinct pair, in the
order of `distances.distinct_pairs`. The digest is that of the rest of the file: a damaged file is never used.
"""

import hashlib
import json
from pathlib import Path

import numpy as np

from mednli_jax.files import private_folder, write_atomic
from mednli_jax.knowledge.distances import checked_pairs, distinct_pairs, shortest_paths, walked_edges
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.search import Progress
from mednli_jax.progress import warn

FORMAT = 1
_DIGEST = hashlib.sha256().digest_size


def stored_paths(
    ontology: Ontology,
    pairs: np.ndarray,
    *,
    folder: Path,
    direction: str = "either",
    max_length: int = 0,
    progress: Progress | None = None,
) -> np.ndarray:
    """`shortest_paths`, int16 [M], from a file in `folder` if it is cached there, else computed and cached.

    The key is a digest of the ontology's digest, the edges followed, the direction, the cut-off and the distinct pairs,
    in any order. Files are written whole or not at all, and readable by their
    owner alone, because an ontology may be licensed. A damaged one is reported and replaced.

    Raises what `shortest_paths` does, and RunError where `folder` cannot be written.
    """
    pairs = checked_pairs(ontology, pairs, direction, max_length)
    distinct, back = distinct_pairs(pairs)
    if not len(distinct):
        return np.zeros(0, np.int16)
    key = _key(ontology, distinct, direction, max_length)
    path = Path(folder).expanduser() / f"{key.hex()[:16]}.paths"
    found = _read(path, key)
    if found is None:
        found = shortest_paths(ontology, distinct, direction=direction, max_length=max_length, progress=progress)
        content = key + found.astype("<i2").tobytes()
        private_folder(path.parent, ours=True)
        write_atomic(path, hashlib.sha256(content).digest() + content)
    return found[back]


def _key(ontology: Ontology, distinct: np.ndarray, direction: str, max_length: int) -> bytes:
    """The digest of everything that shapes the distances."""
    edges = walked_edges(ontology, direction)
    settings = [FORMAT, ontology.sha256, len(ontology), direction, max_length, [part.shape[1] for part in edges]]
    digest = hashlib.sha256(json.dumps(settings).encode())
    for array in (*edges, distinct):
        digest.update(np.ascontiguousarray(array, "<i4"))
    return digest.digest()


def _read(path: Path, key: bytes) -> np.ndarray | None:
    """The distances of a file; None if it is missing or damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        content = b""
    rest = content[_DIGEST:]
    if hashlib.sha256(rest).digest() != content[:_DIGEST] or rest[:_DIGEST] != key:
        warn(f"{path}: the stored distances are damaged. Fix: none needed, they are computed again.")
        return None
    return np.frombuffer(rest, "<i2", offset=_DIGEST).astype(np.int16)
