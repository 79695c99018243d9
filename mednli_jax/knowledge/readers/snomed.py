"""Reader of SNOMED CT in Release Format 2: the concepts, descriptions and relationships of one
snapshot.

The official names (sct2_Concept_Snapshot_INT_20240101.txt,
sct2_Concept_MONOSnapshot_GB_20240313.txt and so on) are looked for anywhere below a folder, plain
or gzipped. SNOMED CT is licensed by SNOMED International; nothing of it comes with this package.
"""

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from mednli_jax.errors import DataError
from mednli_jax.files.writing import Digest
from mednli_jax.knowledge.ontology import (
    Edges,
    Ontology,
    OntologyOptions,
    ReadEdges,
    graphs,
)
from mednli_jax.knowledge.readers.tables import Block, Table
from mednli_jax.knowledge.readers.umls import cuis_of_codes

_COLUMNS = {
    "Concept": "definitionStatusId",
    "Description": "conceptId languageCode typeId term caseSignificanceId",
    "Relationship": """
        sourceId destinationId relationshipGroup typeId characteristicTypeId modifierId""",
}
_COMPONENT = ("id", "effectiveTime", "active", "moduleId")
COLUMNS = {kind: (*_COMPONENT, *columns.split()) for kind, columns in _COLUMNS.items()}
IS_A = 116680003
FULLY_SPECIFIED, SYNONYM = "900000000000003001", "900000000000013009"
_FILE = re.compile(
    r"x?sct2_(?P<kind>Concept|Description|Relationship)_(?P<extension>[A-Za-z]*)Snapshot"
    r"(?:-(?P<language>[\w-]+?))?_(?P<release>\w+)\.txt(?:\.gz)?"
)
_ACTIVE = ("active", "1", "0")  # the column and its values
_TAG = re.compile(r"\s*\(([^()]+)\)\s*$")
# Abbreviations of languages in the UMLS and in the names of the files.
ENGLISH = "en"
_ISO_CODES = "ENG:en SPA:es FRE:fr DUT:nl GER:de SWE:sv DAN:da NOR:no POR:pt EST:et CHI:zh"
_ISO = dict(pair.split(":") for pair in _ISO_CODES.split())

# Semantic tags worth linking in clinical text: those of the UMLS semantic groups disorders and
# findings, procedures, anatomy, chemicals and drugs. A tag counts by its beginning: "medicinal
# product form" is a "medicinal product".
LINK_TYPES = (
    "disorder",
    "finding",
    "situation",
    "morphologic abnormality",
    "procedure",
    "regime/therapy",
    "body structure",
    "cell",
    "cell structure",
    "substance",
    "product",
    "medicinal product",
    "clinical drug",
    "real clinical drug",
)
# The top concepts of hierarchies -> their tags.
_TOPS = {
    "404684003": "finding",
    "64572001": "disorder",
    "243796009": "situation",
    "71388002": "procedure",
    "123037004": "body structure",
    "105590001": "substance",
    "373873005": "product",
}


@dataclass
class _Concepts:
    """The rows of the concept file, sorted by id.

    Args:
      ids: int64 [N].
      index: int32 [N], the number of an active concept among the active ones, -1 for an inactive
        concept.
      lines: int64 [N], numbers of the lines.
    """

    ids: np.ndarray
    index: np.ndarray
    lines: np.ndarray

    @property
    def active(self) -> np.ndarray:
        """int64 [C], the ids of the active concepts."""
        return np.asarray(self.ids[self.index >= 0])

    def find(self, block: Block, column: str) -> np.ndarray:
        """int32 [R], the index of each row's concept, -1 for an inactive one. Raises for unknown
        ids."""
        ids = block.numbers(column)
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        problem = f"field '{column}' names a concept that the concept file does not have"
        fix = (
            "take all files from one edition; an extension alone lacks the concepts of the"
            " International Edition"
        )
        block.refuse(self.ids[place] != ids, problem, column, fix)
        return np.take(self.index, place)


def read_snomed(folder: Path, options: OntologyOptions, conso: Path | None = None) -> Ontology:
    """Reads the active concepts of a snapshot, their names in the chosen languages and their
    inferred relationships.

    A concept's label is its fully specified name without the semantic tag: "Heart failure
    (disorder)" gives "Heart failure". A concept without such a name has its first synonym as label,
    else its id. Its type is the tag of its English name, "disorder", whatever the chosen languages.
    A concept without an English name has the tag of the other language and the tags of the
    hierarchies that it is in: "aandoening|finding|disorder". Names are the labels and the synonyms.
    With relations="all" the other relationships are stored under the name of their type in lower
    case ("finding_site"): relations["finding_site"][a, b] says that b is the finding site of a.

    Args:
      options: languages are given as in the UMLS ("ENG") or as in the files ("en").
      conso: the UMLS's MRCONSO.RRF; its CUIs are the `cross_references` of the concepts.
    """
    snapshot = snomed_files(folder, options.languages)
    filters = (options.languages, options.relations)
    digest = hashlib.sha256(repr(filters).encode())
    concepts = _read_concepts(_table(snapshot.concept, "Concept"), digest)
    ids = tuple(map(str, concepts.active.tolist()))
    descriptions = [_table(path, "Description") for path in snapshot.descriptions]
    rows = _DescriptionRows(descriptions, concepts, options.languages, digest)
    if not (rows.full_name or rows.synonyms):
        raise _other_languages(folder, rows.languages)
    names = _names(rows, ids)
    table = _table(snapshot.relationship, "Relationship")
    edges = _read_relationships(table, concepts, names.labels, options.relations, digest)
    references = []
    index = {code: concept for concept, code in enumerate(ids)}
    if conso is not None:
        for code, cui in cuis_of_codes(conso, "SNOMEDCT_US"):
            if code in index:
                references.append((cui, index[code]))
        digest.update(repr(tuple(references)).encode())
    parents, relations = graphs(edges, len(ids), options, lambda child: table.path.name)
    types = list(names.types)
    for top in filter(index.__contains__, _TOPS):
        for concept in breadth_first_order(parents.T, index[top], return_predecessors=False):
            if concept not in rows.english_name:
                types[concept] = f"{types[concept]}|{_TOPS[top]}".lstrip("|")
    return Ontology(
        name="snomed",
        version=snapshot.edition,
        ids=ids,
        labels=names.labels,
        names=names.names,
        parents=parents,
        sha256=digest.hexdigest(),
        types=tuple(types),
        link_types=LINK_TYPES,
        relations=relations,
        cross_references=tuple(references),
    )


def _table(path: Path, kind: str) -> Table:
    return Table(path, COLUMNS[kind], is_rrf=False)


def release_files(folder: Path) -> list[Path]:
    """The Snapshot files of a release: in the folder, in a folder in it, or in their
    Snapshot/Terminology/."""
    files: list[Path] = []
    for place in ("", "*/", "Snapshot/Terminology/", "*/Snapshot/Terminology/"):
        files += filter(Path.is_file, folder.glob(f"{place}*sct2_*Snapshot*"))
    return sorted(files)


class Snapshot(NamedTuple):
    """The files of a snapshot. descriptions: one file for each language."""

    edition: str
    concept: Path
    descriptions: Sequence[Path]
    relationship: Path


def snomed_files(folder: Path, languages: tuple[str, ...]) -> Snapshot:
    """Finds the files of the one edition in a folder."""
    codes = list(map(_language_code, languages))
    editions: set[str] = set()
    languages_of_files: set[str] = set()
    # kind -> name without .gz -> path; the plain file where both exist
    files: dict[str, dict[str, Path]] = {kind: {} for kind in COLUMNS}
    for path in release_files(folder):
        match = _FILE.fullmatch(path.name)
        if not match:
            continue
        language = (match["language"] or "").split("-")[0]
        if match["kind"] == "Description" and language:
            languages_of_files.add(language)
            if codes and language not in (*codes, ENGLISH):
                continue
        editions.add(f"{match['extension']}_{match['release']}".lstrip("_"))
        files[match["kind"]].setdefault(path.name.removesuffix(".gz"), path)
    if languages_of_files and not files["Description"]:
        raise _other_languages(folder, languages_of_files)
    for kind, paths in files.items():
        if not paths:
            language = f"-{codes[0]}" if kind == "Description" and codes else ""
            pattern = f"sct2_{kind}_Snapshot{language}_*.txt"
            fix = (
                "name the folder of an unpacked RF2 release, whose Snapshot/Terminology/ has the"
                " file"
            )
            raise DataError(f"no such file below {folder}", file=pattern, fix=fix)
    if len(editions) > 1:
        problem = f"the folder holds several editions: {', '.join(sorted(editions))}"
        raise DataError(problem, file=folder.name, fix="name the folder of one of them")
    concept, descriptions, relationship = (list(files[kind].values()) for kind in COLUMNS)
    return Snapshot(editions.pop(), concept[0], descriptions, relationship[0])


def _other_languages(folder: Path, present: Collection[str]) -> DataError:
    """The error of a release without descriptions in the chosen languages."""
    codes = ",".join(sorted(set(map(_language_code, present))))
    problem = f"has descriptions in {codes} alone"
    fix = f"give config.knowledge.languages={codes}"
    return DataError(problem, file=folder.name, field="languageCode", fix=fix)


def _language_code(language: str) -> str:
    """The code of a language in the files ("en"), without a region, for ENG, en or en-GB."""
    return _ISO.get(language, language.lower().partition("-")[0])


def _read_concepts(table: Table, digest: Digest) -> _Concepts:
    id_blocks, active_blocks = [], []
    for block in table.blocks(digest, "id", "active"):
        id_blocks.append(block.numbers("id"))
        active_blocks.append(block.is_set(*_ACTIVE))
    ids, is_active = np.concatenate(id_blocks), np.concatenate(active_blocks)
    order = np.argsort(ids, kind="stable")
    ids, is_active, lines = ids[order], is_active[order], order + 2
    if not is_active.any():
        raise table.fault("holds no active concept")
    index = np.where(is_active, np.cumsum(is_active) - 1, -1)
    return _Concepts(ids, index.astype(np.int32), lines)


class _DescriptionRows:
    """The active descriptions in the chosen languages, in the order of the files.

    Args:
      full_name: concept -> its first fully specified name.
      english_name: concept -> its first fully specified name in English.
      synonyms: (text, concept).
      languages: of all rows.
    """

    def __init__(
        self, tables: Sequence[Table], concepts: _Concepts, languages: Sequence[str], digest: Digest
    ) -> None:
        self.full_name: dict[int, str] = {}
        self.english_name: dict[int, str] = {}
        self.languages: set[str] = set()
        self.synonyms: list[tuple[str, int]] = []
        codes = set(map(_language_code, languages))
        columns = ("conceptId", "active", "languageCode", "typeId", "term")
        for block in chain.from_iterable(table.blocks(digest, *columns) for table in tables):
            concept = concepts.find(block, "conceptId")
            is_chosen = block.is_set(*_ACTIVE) & (concept >= 0)
            self.languages |= set(block.only(is_chosen).texts("languageCode"))
            self._read_english_names(block.only(is_chosen), concept[is_chosen])
            if codes:
                is_chosen &= _is_in(block, codes)
            block, concept = block.only(is_chosen), concept[is_chosen]
            block.refuse(block.is_blank("term"), "field 'term' is empty", "term")
            is_full = block.is_any("typeId", FULLY_SPECIFIED)
            full_names = block.only(is_full).texts("term")
            for owner, name in zip(concept[is_full].tolist(), full_names, strict=True):
                self.full_name.setdefault(owner, name)
            is_synonym = block.is_any("typeId", SYNONYM)
            texts = block.only(is_synonym).texts("term")
            self.synonyms += zip(texts, concept[is_synonym].tolist(), strict=True)

    def _read_english_names(self, block: Block, concept: np.ndarray) -> None:
        is_name = block.is_any("typeId", FULLY_SPECIFIED) & _is_in(block, {ENGLISH})
        names = block.only(is_name).texts("term")
        for owner, name in zip(concept[is_name].tolist(), names, strict=True):
            self.english_name.setdefault(owner, name)


def _is_in(block: Block, codes: Collection[str]) -> np.ndarray:
    """bool [R], whether each row is in one of the languages, of any region."""
    chosen = [text for text in set(block.texts("languageCode")) if _language_code(text) in codes]
    return block.is_any("languageCode", *chosen)


class _Names(NamedTuple):
    """The fields of an Ontology that hold names and labels."""

    labels: tuple[str, ...]
    types: tuple[str, ...]
    names: tuple[tuple[str, int], ...]


def _names(rows: _DescriptionRows, ids: Sequence[str]) -> _Names:
    synonym_of: dict[int, str] = {}  # the first of each concept
    for text, concept in rows.synonyms:
        synonym_of.setdefault(concept, text)
    labels, types = [], []
    names: dict[tuple[str, int], None] = {}
    for concept, ident in enumerate(ids):
        name = rows.full_name.get(concept, "")
        tag = _TAG.search(name)
        tag_of_type = _TAG.search(rows.english_name.get(concept, name))
        types.append(tag_of_type[1] if tag_of_type else "")
        label = name[: tag.start()] if tag else name
        label = label or synonym_of.get(concept, ident)
        labels.append(label)
        if concept in rows.full_name or concept in synonym_of:
            names[label, concept] = None
    names |= dict.fromkeys(rows.synonyms)
    return _Names(tuple(labels), tuple(types), tuple(names))


def _read_relationships(
    table: Table, concepts: _Concepts, labels: Sequence[str], relations: str, digest: Digest
) -> ReadEdges:
    is_a, other_edges = Edges(), Edges()
    for block in table.blocks(digest, "active", "sourceId", "destinationId", "typeId"):
        block = block.only(block.is_set(*_ACTIVE))
        is_hierarchy = block.numbers("typeId") == IS_A
        if relations == "is_a":
            block = block.only(is_hierarchy)
            is_hierarchy = np.ones(len(block), bool)
        source, target = concepts.find(block, "sourceId"), concepts.find(block, "destinationId")
        is_edge = (source >= 0) & (target >= 0)
        up = is_edge & is_hierarchy
        is_a.add(source[up], target[up], block.lines[up])
        rest = is_edge & ~is_hierarchy & (source != target)
        if rest.any():
            kind = concepts.find(block.only(rest), "typeId")
            rest[rest] = kind >= 0  # the type must be an active concept, too
            other_edges.add(source[rest], target[rest], block.lines[rest], kind[kind >= 0])
    kinds = [re.sub(r"\W+", "_", label.casefold()).strip("_") for label in labels]
    return ReadEdges(is_a, other_edges, kinds)
