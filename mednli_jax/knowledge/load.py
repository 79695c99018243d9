"""From the name of an ontology in a config to the Ontology."""

import difflib
from collections.abc import Callable
from pathlib import Path

from mednli_jax.errors import UserError
from mednli_jax.knowledge.mesh import read_mesh
from mednli_jax.knowledge.ontology import Ontology

SUFFIXES = (".tsv", ".tsv.gz")


def _mesh(data_dir: Path | None) -> Ontology:
    """The bundled table; the data folder is not looked at, so that a run means the same on every machine."""
    return read_mesh()


# One reader per name; each is given the data folder (None where there is none) and finds its own files below it.
READERS: dict[str, Callable[[Path | None], Ontology]] = {"mesh": _mesh}


def load_ontology(spec: str, data_dir: Path | None = None) -> Ontology:
    """Load the ontology that `spec` names.

    Args:
      spec: a name of READERS, or the path of a .tsv or .tsv.gz file in MeSH's layout (see `mesh`), absolute or relative
        to the working folder.
      data_dir: the folder of licensed data, for the readers that need it.

    Raises:
      UserError: `spec` is neither; names the nearest known one. Faults of a file are raised as its reader says.
    """
    if spec in READERS:
        return READERS[spec](data_dir)
    if spec.endswith(SUFFIXES):
        return read_mesh(Path(spec).expanduser())
    close = difflib.get_close_matches(spec.casefold(), READERS, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    known = ", ".join(sorted(READERS))
    fix = f"give one of {known}, or the path of a {' or '.join(SUFFIXES)} file"
    raise UserError(f"E-ONTO-005 config.knowledge.ontology: unknown ontology '{spec}'.{hint} Fix: {fix}.")
