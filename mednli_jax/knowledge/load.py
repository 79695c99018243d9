"""Loads the Ontology that a config names: finds its files, chooses the reader and caches the
result."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from mednli_jax.data.cache import Cache, cached_arrays, key_digest
from mednli_jax.data.corpus import search_folders
from mednli_jax.errors import ConfigError
from mednli_jax.files.paths import local_path
from mednli_jax.files.reading import check_readable, either_name
from mednli_jax.knowledge.ontology import (
    DEFAULT_OPTIONS,
    Ontology,
    OntologyOptions,
    edge_matrix,
)
from mednli_jax.knowledge.readers import mesh, umls, wordnet
from mednli_jax.knowledge.readers.mesh import BUNDLED, bundled_mesh, read_mesh
from mednli_jax.knowledge.readers.obo import read_obo
from mednli_jax.knowledge.readers.snomed import read_snomed, release_files, snomed_files
from mednli_jax.knowledge.readers.umls import read_umls, umls_files
from mednli_jax.types import JsonObject

# of the readers' results; tests/data/test_prepared_content.py says when to raise it
FORMAT = 9
NAMES = ("mesh", "snomed", "umls", "wordnet")
TABLES = (".tsv", ".tsv.gz")
OBO = (".obo", ".obo.gz")
_PATHS = f"a {', '.join(TABLES + OBO)} file or of a folder with MRCONSO.RRF, RF2 files or data.noun"
_NOT_INSTALLED: dict[str, str] = {  # name -> how to get its files
    "umls": (
        "copy or link the release's META folder there, with MRCONSO.RRF, MRREL.RRF and MRSTY.RRF,"
        " or give config.knowledge.ontology=mesh, which is bundled: fewer concepts, so other"
        " figures than the paper's"
    ),
    "snomed": (
        "unpack an RF2 release there, with Snapshot/Terminology/sct2_Concept_Snapshot_*.txt and the"
        " others"
    ),
    "wordnet": (
        f"install the package wordnet-base, or put {', '.join(wordnet.FILES)} there; or give the"
        " path of its folder"
    ),
}


@dataclass(frozen=True)
class OntologyFiles:
    """The name of an ontology, the file or folder that is passed to `read`, and all files that
    `read` may open."""

    name: str
    place: Path
    files: tuple[Path, ...]
    read: Callable[[Path, OntologyOptions], Ontology]


def load_ontology(
    spec: str,
    data_dir: Path | None = None,
    options: OntologyOptions = DEFAULT_OPTIONS,
    *,
    cache_dir: Path | None = None,
) -> Ontology:
    """Loads the ontology that `spec` names.

    Args:
      spec: "mesh", the bundled table; "umls", "snomed" or "wordnet", whose official files are
        looked for below `data_dir`, then $MEDNLI_JAX_DATA, in a folder of that name (WordNet also
        where Debian puts it); or a path, absolute or relative to the working folder: a .tsv file in
        MeSH's layout, an .obo file, both also gzipped, or a folder with UMLS RRF files, SNOMED CT
        RF2 files or WordNet's database.
      data_dir: the folder of licensed data of a config.
      cache_dir: folder for a copy as arrays, so that the next load takes seconds at most; None
        stores no copy. A copy is used as long as the place and the content of the files, the
        options and FORMAT are the same.
    """
    if spec == "mesh":
        return bundled_mesh(options)
    source = find_source(spec, data_dir)
    if cache_dir is None or source.read is read_mesh:
        return source.read(source.place, options)
    key: JsonObject = {
        "place": str(source.place.resolve()),
        "files": _digests(source, Cache(cache_dir)),
        "options": asdict(options),
        "format": FORMAT,
    }

    file = f"{source.name}-{key_digest(key)}.npz"
    build = partial(source.read, source.place, options)
    return cached_ontology(cache_dir / "ontologies" / file, key, build)


def _digests(source: OntologyFiles, cache: Cache) -> dict[str, str]:
    """The digests of the files that exist, by name."""
    files = [path for path in source.files if path.is_file()]
    for path in files:
        check_readable(path)
    return cache.digests(files)


def ontology_files(spec: str, data_dir: Path | None = None) -> tuple[Path, ...]:
    """The files that `load_ontology` would read, the bundled ones too."""
    return find_source(spec, data_dir).files


def needed_files(name: str, data_dir: Path | None = None) -> tuple[Path, ...]:
    """The files of "umls", "snomed" or "wordnet" without which `load_ontology` fails."""
    place = _named_files(name, data_dir).place
    if name == "snomed":
        snapshot = snomed_files(place, DEFAULT_OPTIONS.languages)
        return (snapshot.concept, *snapshot.descriptions, snapshot.relationship)
    files_of = umls_files if name == "umls" else wordnet.wordnet_files
    return tuple(files_of(place).values())


def find_source(spec: str, data_dir: Path | None = None) -> OntologyFiles:
    """Finds the files that `spec` names."""
    if spec == "mesh":
        # The data folder is not searched, so that a run means the same on every machine.
        return OntologyFiles(spec, BUNDLED, (BUNDLED, *mesh.alias_files()), read_mesh)
    if spec in NAMES:
        return _named_files(spec, data_dir)
    path = local_path(spec, "config.knowledge.ontology")
    if spec.endswith(TABLES + OBO):
        name = re.sub(r"[^\w-]", "_", path.name.split(".")[0])
        if spec.endswith(TABLES):
            return OntologyFiles(name, path, (path, *mesh.alias_files()), read_mesh)
        return OntologyFiles(name, path, (path,), read_obo)
    if path.is_dir():
        for kind in ("umls", "wordnet", "snomed"):
            if source := _in_folder(kind, path):
                return source
    fix = f"give one of {', '.join(NAMES)}, or the path of {_PATHS}"
    raise ConfigError(f"there is no ontology '{spec}'", field="knowledge.ontology", fix=fix)


def _named_files(name: str, data_dir: Path | None) -> OntologyFiles:
    """Finds the files of "umls", "snomed" or "wordnet"."""
    folders = search_folders(data_dir)
    places = [folder / name for folder in folders]
    if name == "wordnet":
        places.append(wordnet.FOLDER)
    if not places:
        problem = f"no data folder is set for ontology '{name}'"
        fix = (
            f"set $MEDNLI_JAX_DATA to the folder that holds {name}/, or give the path of the folder"
            f" of {name}"
        )
        raise ConfigError(problem, fix=fix)
    source = next(filter(None, (_in_folder(name, place) for place in places)), None)
    if source is None:
        problem = f"no files of '{name}' are in {' or '.join(map(str, places))}"
        raise ConfigError(problem, field="knowledge.ontology", fix=_NOT_INSTALLED[name])
    if name == "snomed":  # MetaMap names concepts by the CUIs of the UMLS
        files = product(folders, ("umls/MRCONSO.RRF", "umls/META/MRCONSO.RRF"))
        conso = _present_files(*(folder / file for folder, file in files))
        if conso:
            read = partial(read_snomed, conso=conso[0])
            return replace(source, files=(*source.files, conso[0]), read=read)
    return source


def _in_folder(kind: str, folder: Path) -> OntologyFiles | None:
    """The ontology of a folder that has at least one of its files, else None; the reader reports
    missing files."""
    if kind == "umls":
        for name, place in product(umls.COLUMNS, (folder, folder / "META")):
            if either_name(place / name) or umls.joining_command(place, name):
                releases = (place / "release.dat", place.parent / "release.dat")
                files = _present_files(*map(place.joinpath, umls.COLUMNS), *releases)
                return OntologyFiles(kind, place, files, read_umls)
    elif kind == "wordnet":
        names = product(wordnet.FILES, (folder, folder / "dict"))
        if _present_files(*(place / name for name, place in names)):
            paths = wordnet.wordnet_files(folder) | wordnet.further_files(folder)
            return OntologyFiles(kind, folder, tuple(paths.values()), wordnet.read_wordnet)
    elif files := tuple(release_files(folder)):
        return OntologyFiles(kind, folder, files, read_snomed)
    return None


def _present_files(*paths: Path) -> tuple[Path, ...]:
    """The files that exist, plain or gzipped."""
    return tuple(filter(None, map(either_name, paths)))


def cached_ontology(path: Path, key: JsonObject, build: Callable[[], Ontology]) -> Ontology:
    """Reads the ontology from its file in the cache; if the file is missing, `build` makes the
    ontology, and it is stored."""
    return _ontology(cached_arrays(path, {**key, "layout": 3}, lambda: _arrays(build())))


# Fields of an Ontology: those stored as JSON in the array "about", and pairs (string, concept).
_VALUES = ("name", "version", "sha256", "link_types")
_PAIRS = ("names", "cross_references")


def _arrays(ontology: Ontology) -> dict[str, np.ndarray]:
    """The fields of an ontology as arrays. Strings are joined to one text, a line each; the edges
    of all relations are concatenated."""
    edges = {}
    for name, matrix in sorted(ontology.relations.items()):
        edges[name] = np.stack(matrix.nonzero())
    about = {field: getattr(ontology, field) for field in _VALUES}
    about["relations"] = {name: edges_2E.shape[1] for name, edges_2E in edges.items()}
    arrays = {
        "about": np.array(json.dumps(about)),
        "parents.indptr": ontology.parents.indptr,
        "parents.indices": ontology.parents.indices,
        "relations": np.concatenate([np.zeros((2, 0), np.int32), *edges.values()], axis=1),
        "ids": _text_array(ontology.ids),
        "labels": _text_array(ontology.labels),
        "types": _text_array(ontology.types),
        "abbreviations": _text_array(sorted(ontology.abbreviations)),
    }
    for field in _PAIRS:
        pairs = getattr(ontology, field)
        arrays[field] = _text_array([name for name, _ in pairs])
        arrays[f"{field}.concepts"] = np.array([concept for _, concept in pairs], np.int32)
    return arrays


def _text_array(strings: Sequence[str]) -> np.ndarray:
    text = "".join(f"{string}\n" for string in strings)
    return np.frombuffer(text.encode(), np.uint8)


def _strings(array: np.ndarray) -> tuple[str, ...]:
    return tuple(str(array.data, "utf-8").split("\n")[:-1])


def _ontology(arrays: dict[str, np.ndarray]) -> Ontology:
    about = json.loads(arrays["about"].item())
    ids = _strings(arrays["ids"])
    size = len(ids)
    indices, indptr = arrays["parents.indices"], arrays["parents.indptr"]
    parents = csr_array((np.ones(len(indices), bool), indices, indptr), shape=(size, size))
    parents.has_canonical_format = True
    relations, first = {}, 0
    for name, count in about["relations"].items():
        relations[name] = edge_matrix(arrays["relations"][:, first : first + count], size)
        first += count
    names, cross_references = (
        tuple(zip(_strings(arrays[field]), arrays[f"{field}.concepts"].tolist(), strict=True))
        for field in _PAIRS
    )
    return Ontology(
        name=about["name"],
        version=about["version"],
        ids=ids,
        labels=_strings(arrays["labels"]),
        names=names,
        parents=parents,
        sha256=about["sha256"],
        types=_strings(arrays["types"]),
        link_types=tuple(about["link_types"]),
        abbreviations=frozenset(_strings(arrays["abbreviations"])),
        relations=relations,
        cross_references=cross_references,
    )
