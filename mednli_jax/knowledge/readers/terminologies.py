"""What the readers of terminologies share: files that belong together, and the is-a graph without cycles."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.errors import DataError
from mednli_jax.knowledge.ontology import CIRCULAR, OntologyOptions, cyclic_edges, relation_matrix
from mednli_jax.progress import warn


def all_there(files: Mapping[str, Path | None], folder: Path, fix: str) -> dict[str, Path]:
    """The files by name. Raises: DataError that names all that are missing."""
    missing = [name for name, path in files.items() if path is None]
    if missing:
        problem = f"no such file in {folder}" + (f", nor {' and '.join(missing[1:])}" if missing[1:] else "")
        raise DataError(problem, file=missing[0], fix=fix)
    return dict(files)


def is_a_graph(
    child: np.ndarray,
    parent: np.ndarray,
    size: int,
    options: OntologyOptions,
    *,
    place: Callable[[int], tuple[str, int]],
    name: Callable[[int], str],
    order: np.ndarray | None = None,
    field: str | None = None,
) -> tuple[csr_array, dict[str, np.ndarray]]:
    """(the is-a graph [C, C] bool of edges from child to parent, {CIRCULAR: int [2, E]} of the edges on cycles).

    The second is empty where no edge lies on a cycle, and where is-a edges alone are read.

    Args:
      child, parent: concepts by index, int [E].
      size: C, the number of concepts.
      options: where is-a edges alone are read, cycles="refuse" raises DataError for the first edge that lies on a
        cycle, and "drop" leaves such edges out. A line on stderr says how many they are.
      place: of an edge by its index, (name of its file, line).
      name: of a concept by its index, for the message.
      order: int [E], the edge that comes first has the smallest number; without it the edges are in order.
      field: of the edges, where their format names it.
    """
    inside = cyclic_edges(child, parent, size)
    if not inside.any():
        return relation_matrix(child, parent, size), {}
    edges, count = np.flatnonzero(inside), relation_matrix(child[inside], parent[inside], size).nnz
    first = edges[0 if order is None else np.argmin(order[edges])]
    file, line = place(first)
    if options.relations == "all":
        warn(f"{file}: {count} is-a edges lie on cycles; paths still follow them both ways")
        return relation_matrix(child[~inside], parent[~inside], size), {CIRCULAR: np.stack([child, parent])[:, inside]}
    if options.cycles == "refuse":
        more = f", as do {count - 1} more" if count > 1 else ""
        problem = f"the is-a edge from {name(child[first])} to {name(parent[first])} lies on a cycle{more}"
        fix = (
            "remove one edge of the cycle, or give --config.knowledge.cycles=drop, which leaves out all edges on cycles"
        )
        raise DataError(problem, file=file, line=line, field=field, fix=fix)
    warn(f"{file}: left out {count} is-a edges that lie on cycles")
    return relation_matrix(child[~inside], parent[~inside], size), {}
