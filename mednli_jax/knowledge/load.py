"""Loads the Ontology that a config names: finds its files, chooses the reader and keeps the result
in the cache."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.cache import Cache, kept
from mednli_jax.data.corpus import data_folders
from mednli_jax.errors import ConfigError, RunError
from mednli_jax.files import check_readable, either_name, local_path
from mednli_jax.knowledge.ontology import Ontology, OntologyOptions, edge_matrix
from mednli_jax.knowledge.readers import mesh, umls, wordnet
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.knowledge.readers.obo import read_obo
from mednli_jax.knowledge.readers.snomed import read_snomed, release_files, snomed_files
from mednli_jax.knowledge.readers.umls import read_umls, umls_files

# of the readers' results; tests/data/test_prepared_content.py says when to raise it
FORMAT = 5
NAMES = ("mesh", "snomed", "umls", "wordnet")
TABLES = (".tsv", ".tsv.gz")
OBO = (".obo", ".obo.gz")
_STRINGS, _PAIRS = (
    ("ids", "labels", "types", "abbreviations"),
    ("names", "cross_references"),
)  # of a stored ontology
_PATHS = f"a {', '.join(TABLES + OBO)} file or of a folder with MRCONSO.RRF, RF2 files or data.noun"


@dataclass(frozen=True)
class OntologyFiles:
    """An ontology's name, the file or folder that `read` gets, and all files that `read` may
    open."""

    name: str
    place: Path
    files: tuple[Path, ...]
    read: Callable[[Path, OntologyOptions], Ontology]


def load_ontology(
    spec: str,
    data_dir: Path | None = None,
    options: OntologyOptions | None = None,
    *,
    cache_dir: Path | None = None,
) -> Ontology:
    """The ontology that `spec` names.

    Args:
      spec: "mesh", the bundled table; "umls", "snomed" or "wordnet", whose official files are looked for below
        `data_dir`, then $MEDNLI_JAX_DATA, in a folder of that name (WordNet also where Debian puts it); or a path,
        absolute or relative to the working folder: a .tsv file in MeSH's layout, an .obo file, both also gzipped, or a
        folder with UMLS RRF files, SNOMED CT RF2 files or WordNet's database.
      data_dir: the folder of licensed data of a config.
      options: None = OntologyOptions().
      cache_dir: where a copy is kept as arrays, so that the next load takes seconds at most; None keeps none. A copy is
        used as long as the place and the content of the files, the options and FORMAT are the same.
    """
    options = options or OntologyOptions()
    source = find_source(spec, data_dir)
    if source is None:
        return read_mesh()
    if cache_dir is None or source.read is read_mesh:
        return source.read(source.place, options)
    cache_dir = Path(cache_dir).expanduser()
    found = _digests(source, cache_dir)
    key = {
        "place": str(source.place.resolve()),
        "files": found,
        "options": asdict(options),
        "format": FORMAT,
    }

    def build():
        ontology = source.read(source.place, options)
        if _digests(source, cache_dir) != found:
            fix = "wait until they are copied, then start again"
            raise RunError(f"{source.place}: the files changed while they were read", fix=fix)
        return ontology

    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return stored(cache_dir / "ontologies" / f"{source.name}-{digest}.npz", key, build)


def ontology_files(spec: str, data_dir: Path | None = None) -> tuple[Path, ...]:
    """The files that `load_ontology` would read, the bundled ones too."""
    source = find_source(spec, data_dir)
    files = source.files if source else (mesh.RESOURCES / mesh.BUNDLED,)
    return (*files, *mesh.alias_files()) if source is None or source.read is read_mesh else files


def needed_files(name: str, data_dir: Path | None = None) -> tuple[Path, ...]:
    """The files of "umls", "snomed" or "wordnet" without which `load_ontology` fails."""
    place = find_source(name, data_dir).place
    if name == "snomed":
        snapshot = snomed_files(place, OntologyOptions().languages)
        return (snapshot.concept, *snapshot.descriptions, snapshot.relationship)
    return tuple({"umls": umls_files, "wordnet": wordnet.wordnet_files}[name](place).values())


def find_source(spec: str, data_dir: Path | None = None) -> OntologyFiles | None:
    """What `spec` names, None for the bundled table."""
    if spec == "mesh":
        # the data folder is not searched, so that a run means the same on every machine
        return None
    if spec in NAMES:
        return _named(spec, data_dir)
    path = local_path(spec, "config.knowledge.ontology")
    if spec.endswith(TABLES + OBO):
        name = re.sub(r"[^\w-]", "_", path.name.split(".")[0])
        return OntologyFiles(name, path, (path,), read_mesh if spec.endswith(TABLES) else read_obo)
    if path.is_dir():
        sources = filter(None, (_in_folder(kind, path) for kind in ("umls", "wordnet", "snomed")))
        if source := next(sources, None):
            return source
    fix = f"give one of {', '.join(NAMES)}, or the path of {_PATHS}"
    raise ConfigError(f"there is no ontology '{spec}'", field="knowledge.ontology", fix=fix)


def _named(spec, data_dir):
    """The source of "umls", "snomed" or "wordnet"."""
    places = [folder / spec for folder in data_folders(data_dir)]
    umls_folders = [place.with_name("umls") for place in places]
    if spec == "wordnet":
        places.append(wordnet.FOLDER)
    if not places:
        fix = f"set $MEDNLI_JAX_DATA to the folder that holds {spec}/, or give the path of the folder of {spec}"
        raise ConfigError(f"no data folder is set for ontology '{spec}'", fix=fix)
    source = next(filter(None, (_in_folder(spec, place) for place in places)), None)
    if source and spec == "snomed":  # MetaMap names concepts by the CUIs of the UMLS
        names = [
            place / name for place in umls_folders for name in ("MRCONSO.RRF", "META/MRCONSO.RRF")
        ]
        if conso := _present(*names)[:1]:
            read = partial(read_snomed, conso=conso[0])
            return replace(source, files=(*source.files, *conso), read=read)
    if source:
        return source
    fix = {
        "umls": "copy or link the release's META folder there, with MRCONSO.RRF, MRREL.RRF and MRSTY.RRF, "
        "or give --config.knowledge.ontology=mesh, which is bundled: fewer concepts, so other figures than the paper's",
        "snomed": "unpack an RF2 release there, with Snapshot/Terminology/sct2_Concept_Snapshot_*.txt and the others",
        "wordnet": f"install the package wordnet-base, or put {', '.join(wordnet.FILES)} there; "
        "or give the path of its folder",
    }[spec]
    searched = " or ".join(map(str, places))
    raise ConfigError(
        f"no files of '{spec}' are in {searched}", field="knowledge.ontology", fix=fix
    )


def _in_folder(kind: str, folder: Path) -> OntologyFiles | None:
    """The files of that type, if the folder has any of them; the reader reports missing ones."""
    if kind == "umls":
        for name, place in product(umls.COLUMNS, (folder, folder / "META")):
            if either_name(place / name) or umls.joining_command(place, name):
                about = (place / "release.dat", place.parent / "release.dat")
                files = _present(*(place / name for name in umls.COLUMNS), *about)
                return OntologyFiles(kind, place, files, read_umls)
    elif kind == "wordnet":
        if _present(
            *(place / name for name, place in product(wordnet.FILES, (folder, folder / "dict")))
        ):
            files = (
                *wordnet.wordnet_files(folder).values(),
                *wordnet.further_files(folder).values(),
            )
            return OntologyFiles(kind, folder, files, wordnet.read_wordnet)
    elif files := release_files(folder):
        return OntologyFiles(kind, folder, tuple(files), read_snomed)
    return None


def _present(*paths: Path) -> tuple[Path, ...]:
    """The files that exist, plain or gzipped."""
    return tuple(filter(None, map(either_name, paths)))


def _digests(source: OntologyFiles, cache_dir: Path) -> dict[str, str]:
    """The digests of the files that are there, by name."""
    files = [path for path in source.files if path.is_file()]
    for path in files:
        check_readable(path)
    return Cache(cache_dir).digests(files)


def stored(path: Path, key: dict, build: Callable[[], Ontology]) -> Ontology:
    """The ontology of `build`, `kept` in a file."""
    return _ontology(kept(path, {**key, "layout": 3}, lambda: _arrays(build())))


def _arrays(ontology: Ontology) -> dict[str, np.ndarray]:
    """Strings as one text of lines, pairs as strings and concepts, relations as edges one after the
    other."""
    strings = {part: getattr(ontology, part) for part in _STRINGS}
    strings["abbreviations"] = sorted(ontology.abbreviations)
    edges = {
        name: np.stack(matrix.nonzero()) for name, matrix in sorted(ontology.relations.items())
    }
    about = {name: getattr(ontology, name) for name in ("name", "version", "sha256", "link_types")}
    about["relations"] = {name: found.shape[1] for name, found in edges.items()}
    arrays = {"about": np.array(json.dumps(about))}
    for part in _PAIRS:
        pairs = list(getattr(ontology, part))
        strings[part] = [name for name, _ in pairs]
        arrays[f"{part}.concepts"] = np.array([concept for _, concept in pairs], np.int32)
    for part, found in strings.items():
        arrays[part] = np.frombuffer("".join(f"{string}\n" for string in found).encode(), np.uint8)
    arrays |= {
        "parents.indptr": ontology.parents.indptr,
        "parents.indices": ontology.parents.indices,
    }
    return arrays | {
        "relations": np.concatenate([np.zeros((2, 0), np.int32), *edges.values()], axis=1)
    }


def _ontology(arrays) -> Ontology:
    about = json.loads(arrays["about"].item())
    parts = {
        part: tuple(str(arrays.pop(part), "utf-8").split("\n")[:-1])
        for part in (*_STRINGS, *_PAIRS)
    }
    parts["abbreviations"] = frozenset(parts["abbreviations"])
    for part in _PAIRS:
        parts[part] = tuple(zip(parts[part], arrays[f"{part}.concepts"].tolist(), strict=True))
    size = len(parts["ids"])
    indices, indptr = arrays["parents.indices"], arrays["parents.indptr"]
    parents = csr_array((np.ones(len(indices), bool), indices, indptr), shape=(size, size))
    parents.has_canonical_format = True
    bounds = np.cumsum([*about["relations"].values()])[:-1]
    parts_of = zip(about["relations"], np.split(arrays["relations"], bounds, axis=1), strict=False)
    about["relations"] = {name: edge_matrix(edges, size) for name, edges in parts_of}
    about["link_types"] = tuple(about["link_types"])
    return Ontology(parents=parents, **about, **parts)
