"""Reader of SNOMED CT in Release Format 2: the concepts, descriptions and relationships of one
snapshot.

The official names (sct2_Concept_Snapshot_INT_20240101.txt,
sct2_Concept_MONOSnapshot_GB_20240313.txt and so on) are looked for anywhere below a folder, plain
or gzipped. SNOMED CT is licensed by SNOMED International; nothing of it comes with this package.
"""

import hashlib
import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from mednli_jax.errors import DataError
from mednli_jax.knowledge.ontology import (
    DROPPED_CYCLES,
    Edges,
    Ontology,
    OntologyOptions,
    ReadEdges,
    graphs,
)
from mednli_jax.knowledge.readers.tables import Block, Table
from mednli_jax.knowledge.readers.umls import cuis_of_codes

_COMPONENT = ("id", "effectiveTime", "active", "moduleId")
COLUMNS = {
    "Concept": (*_COMPONENT, "definitionStatusId"),
    "Description": (
        *_COMPONENT,
        "conceptId",
        "languageCode",
        "typeId",
        "term",
        "caseSignificanceId",
    ),
    "Relationship": (
        *(*_COMPONENT, "sourceId", "destinationId", "relationshipGroup"),
        *("typeId", "characteristicTypeId", "modifierId"),
    ),
}
IS_A = 116680003
FULLY_SPECIFIED, SYNONYM = "900000000000003001", "900000000000013009"
_FILE = re.compile(
    r"x?sct2_(Concept|Description|Relationship)_([A-Za-z]*)Snapshot(?:-([\w-]+?))?_(\w+)\.txt(?:\.gz)?"
)
_ACTIVE = ("active", "1", "0")  # the column and its values
_TAG = re.compile(r"\s*\(([^()]+)\)\s*$")
# Languages as the UMLS abbreviates them, for those that name them so for every terminology.
_ISO = {"ENG": "en", "SPA": "es", "FRE": "fr", "DUT": "nl", "GER": "de", "SWE": "sv", "DAN": "da", "NOR": "no",
        "POR": "pt", "EST": "et", "CHI": "zh"}  # fmt: skip

# Semantic tags worth linking in clinical text: those of the UMLS semantic groups disorders and
# findings, procedures, anatomy, chemicals and drugs. A tag counts by its beginning: "medicinal
# product form" is a "medicinal product".
LINK_TYPES = (
    *("disorder", "finding", "situation", "morphologic abnormality"),
    *("procedure", "regime/therapy"),
    *("body structure", "cell", "cell structure"),
    *("substance", "product", "medicinal product", "clinical drug", "real clinical drug"),
)


@dataclass
class _Concepts:
    """Rows of the concept file, by id. ids: int64 [N], ascending. index: int32 [N], of the active
    ones, else -1."""

    ids: np.ndarray
    index: np.ndarray

    @property
    def active(self) -> np.ndarray:
        """int64 [C], the ids of the active concepts."""
        return self.ids[self.index >= 0]

    def find(self, block: Block, column: str) -> np.ndarray:
        """int32 [R], the index of each row's concept, -1 where it is inactive. Raises for unknown
        ids."""
        wanted = block.numbers(column)
        place = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        problem = f"field '{column}' names a concept that the concept file does not have"
        fix = "take all files from one edition; an extension alone lacks the concepts of the International Edition"
        block.refuse(self.ids[place] != wanted, problem, column, fix)
        return self.index[place]


def read_snomed(folder: Path, options: OntologyOptions, conso: Path | None = None) -> Ontology:
    """The active concepts of a snapshot, their names in the chosen languages and their inferred
    relationships.

    A concept's label is its fully specified name without the semantic tag, which becomes its type:
    "Heart failure (disorder)" gives label "Heart failure", type "disorder". Without one the label
    is the first synonym, else the id. Names are the labels and the synonyms. Languages are given as
    in the UMLS ("ENG") or as in the files ("en"). With relations="all" the other relationships are
    kept by the name of their type in lower case ("finding_site"): relations["finding_site"][a, b]
    says that b is the finding site of a. `cross_references` are the CUIs of concepts where `conso`,
    the UMLS's MRCONSO.RRF, is given.
    """
    found, version = snomed_files(Path(folder), options.languages)
    tables = {
        kind: [Table(path, COLUMNS[kind], is_rrf=False) for path in found[kind]] for kind in found
    }
    digest = hashlib.sha256(repr((options.languages, options.relations, DROPPED_CYCLES)).encode())
    concepts, lines = _read_concepts(tables["Concept"][0], digest)
    labels, names, types = _read_names(tables, concepts, lines, options.languages, digest)
    ids = tuple(map(str, concepts.active.tolist()))
    table = tables["Relationship"][0]
    edges = _read_relationships(table, concepts, labels, options.relations, digest)
    references = ()
    if conso is not None:
        place = {code: index for index, code in enumerate(ids)}
        codes = cuis_of_codes(conso, "SNOMEDCT_US")
        references = tuple((cui, place[code]) for code, cui in codes if code in place)
        digest.update(repr(references).encode())
    parents, relations = graphs(ReadEdges(*edges), len(ids), options, lambda child: table.path.name)
    return Ontology(
        name="snomed",
        version=version,
        ids=ids,
        labels=labels,
        names=names,
        parents=parents,
        sha256=digest.hexdigest(),
        types=types,
        link_types=LINK_TYPES,
        relations=relations,
        cross_references=references,
    )


def _languages(languages):
    return tuple(_ISO.get(language, language.lower()) for language in languages)


def release_files(folder: Path) -> list[Path]:
    """The Snapshot files of a release: in the folder, in a folder in it, or in their
    Snapshot/Terminology/."""
    places = ("", "*/", "Snapshot/Terminology/", "*/Snapshot/Terminology/")
    return sorted(
        path
        for place in places
        for path in folder.glob(f"{place}*sct2_*Snapshot*")
        if path.is_file()
    )


def snomed_files(folder: Path, languages: tuple[str, ...]) -> tuple[dict[str, list[Path]], str]:
    """({"Concept": [file], "Description": [one per language], "Relationship": [file]}, edition)."""
    wanted, found, editions = _languages(languages), {kind: {} for kind in COLUMNS}, set()
    for path in release_files(folder):
        match = _FILE.fullmatch(path.name)
        if not match:
            continue
        kind, extension, language, release = match.groups()
        if kind != "Description" or not wanted or not language or language.split("-")[0] in wanted:
            editions.add(f"{extension}_{release}".lstrip("_"))
            found[kind].setdefault(
                path.name.removesuffix(".gz"), path
            )  # the plain file if both exist
    for kind, paths in found.items():
        if not paths:
            pattern = f"sct2_{kind}_Snapshot{f'-{wanted[0]}' if kind == 'Description' and wanted else ''}_*.txt"
            fix = "name the folder of an unpacked RF2 release, whose Snapshot/Terminology/ has the file"
            raise DataError(f"no such file below {folder}", file=pattern, fix=fix)
    if len(editions) > 1:
        problem = f"the folder holds several editions: {', '.join(sorted(editions))}"
        fix = "name the folder of one of them"
        raise DataError(problem, file=folder.name, fix=fix)
    return {kind: list(paths.values()) for kind, paths in found.items()}, editions.pop()


def _read_concepts(table: Table, digest) -> tuple[_Concepts, np.ndarray]:
    """The concepts by id, and int64 [N], the line of each."""
    ids, active = [], []
    for block in table.blocks(digest, "id", "active"):
        ids.append(block.numbers("id"))
        active.append(block.is_set(*_ACTIVE))
    ids, active = np.concatenate(ids), np.concatenate(active)
    order = np.argsort(ids, kind="stable")
    ids, active, lines = ids[order], active[order], order + 2
    twice = np.flatnonzero(ids[1:] == ids[:-1]) + 1
    if len(twice):
        line = int(lines[twice].min())
        fix = "take the Snapshot files, which state each concept once"
        raise table.fault(f"field 'id' repeats a concept, as {len(twice)} rows do", line, "id", fix)
    if not active.any():
        raise table.fault("holds no active concept")
    return _Concepts(ids, np.where(active, np.cumsum(active) - 1, -1).astype(np.int32)), lines


def _read_names(tables, concepts: _Concepts, lines, languages, digest):
    """(labels [C], names, types [C]) by the description files."""
    codes, wanted = _languages(languages), ("conceptId", "active", "languageCode", "typeId", "term")
    owners, texts, full = [], [], {}
    named = np.zeros(len(concepts.active), bool)
    for block in chain.from_iterable(
        table.blocks(digest, *wanted) for table in tables["Description"]
    ):
        owner = concepts.find(block, "conceptId")
        named[owner[owner >= 0]] = True
        keep = block.is_set(*_ACTIVE) & (owner >= 0)
        if codes:
            keep &= block.is_any("languageCode", *codes)
        block, owner = block.only(keep), owner[keep]
        block.refuse(block.is_blank("term"), "field 'term' is empty", "term")
        whole, synonym = (block.is_any("typeId", kind) for kind in (FULLY_SPECIFIED, SYNONYM))
        for concept, term in zip(
            owner[whole].tolist(), block.only(whole).texts("term"), strict=True
        ):
            full.setdefault(concept, term)
        owners.append(owner[synonym])
        texts += block.only(synonym).texts("term")
    if not named.all():
        first = int(lines[concepts.index >= 0][~named].min())
        problem = f"the concept has no description, as {np.count_nonzero(~named)} active ones do"
        raise tables["Concept"][0].fault(
            problem, first, "id", "take all files from one edition, whole"
        )
    owners = np.concatenate(owners).tolist()
    synonyms = dict(reversed(list(zip(owners, texts, strict=True))))  # the first of each concept
    labels, types = [], []
    for concept, number in enumerate(concepts.active.tolist()):
        name = full.get(concept, "")
        tag = _TAG.search(name)
        labels.append((name[: tag.start()] if tag else name) or synonyms.get(concept, str(number)))
        types.append(tag[1] if tag else "")
    given = (
        (label, concept)
        for concept, label in enumerate(labels)
        if concept in full or concept in synonyms
    )
    names = tuple(dict.fromkeys(chain(given, zip(texts, owners, strict=True))))
    return tuple(labels), names, tuple(types)


def _read_relationships(table: Table, concepts: _Concepts, labels, relations: str, digest):
    """(is-a edges from child to parent, other edges, the names of their kinds)."""
    is_a, others = Edges(), Edges()
    for block in table.blocks(digest, "active", "sourceId", "destinationId", "typeId"):
        block = block.only(block.is_set(*_ACTIVE))
        kinds = block.numbers("typeId")
        if relations == "is_a":
            block, kinds = block.only(kinds == IS_A), kinds[kinds == IS_A]
        source, target = (concepts.find(block, column) for column in ("sourceId", "destinationId"))
        kept = (source >= 0) & (target >= 0)
        hierarchy = kept & (kinds == IS_A)
        is_a.add(source[hierarchy], target[hierarchy], block.lines[hierarchy])
        rest = kept & (kinds != IS_A) & (source != target)
        if rest.any():
            kind = concepts.find(block.only(rest), "typeId")
            rest[rest] = kind >= 0
            others.add(source[rest], target[rest], block.lines[rest], kind[kind >= 0])
    return is_a, others, [re.sub(r"\W+", "_", label.casefold()).strip("_") for label in labels]
