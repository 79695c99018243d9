"""Reader of the UMLS Metathesaurus in Rich Release Format: MRCONSO.RRF, MRSTY.RRF and MRREL.RRF of
one folder.

The UMLS is licensed by the U.S. National Library of Medicine; nothing of it comes with this
package.
"""

import hashlib
import re
import shlex
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mednli_jax.errors import DataError
from mednli_jax.files.reading import either_name
from mednli_jax.files.writing import Digest
from mednli_jax.knowledge.ontology import (
    Edges,
    Ontology,
    OntologyOptions,
    ReadEdges,
    graphs,
)
from mednli_jax.knowledge.readers.tables import Block, Table, all_there

_COLUMNS = {
    "MRCONSO.RRF": """
        CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF""",
    "MRSTY.RRF": "CUI TUI STN STY ATUI CVF",
    "MRREL.RRF": """
        CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF""",
}
COLUMNS = {name: tuple(columns.split()) for name, columns in _COLUMNS.items()}
# In place of the index of a concept: no name of it passes the filters; it has no name at all.
_FILTERED, _UNKNOWN = -1, -2
# A CUI is C and seven digits: few enough for an array over all possible CUIs.
_CUIS = 10_000_000

# The semantic types of four of the UMLS semantic groups, those that a clinical text states findings
# with: anatomy (ANAT), chemicals and drugs (CHEM, with the types it lost in 2018), disorders and
# findings (DISO), procedures (PROC).
_TYPES = """
    017 018 021 022 023 024 025 026 029 030 031
    103 104 109 110 111 114 115 116 118 119 120 121 122 123 124 125 126 127 129 130 131
    192 195 196 197 200
    019 020 033 037 046 047 048 049 050 184 190 191
    058 059 060 061 062 063 065
"""
LINK_TYPES = tuple(f"T{number}" for number in _TYPES.split())
# The column, its value for names that are not suppressed, and its other values.
_SUPPRESS = ("SUPPRESS", "N", "O", "E", "Y")
# What follows the name of a file in the names of its parts: .aa.gz (as in a distribution's
# archives), .aa, .gz.aa
_PART = re.compile(r"(\.gz)?\.a[a-z](\.gz)?")
# REL of rows that state no relation: not related, deleted.
_NO_RELATION = ("XR", "DEL")


def read_umls(folder: Path, options: OntologyOptions) -> Ontology:
    """Reads the concepts that `options` allow, their names, semantic types and relations.

    Names are the rows of MRCONSO.RRF in the chosen languages (LAT) and sources (SAB) that are not
    suppressed (SUPPRESS N); a concept is there when it has such a name. Its label is the first of
    them that is marked as preferred throughout (TS P, STT PF, ISPREF Y), else the first.
    `cross_references` are the codes of these rows, "SAB:CODE". `types` are semantic types by
    identifier ("T047|T191"); see LINK_TYPES for the types that are linked.

    A row of MRREL.RRF reads "CUI2 is REL, and RELA, of CUI1". Is-a edges are the rows of the chosen
    sources, not suppressed, with REL PAR (CUI2 is the parent) or CHD, the source's hierarchy, or
    with RELA inverse_isa or isa (CUI2 is-a CUI1). With relations="all" every other row is stored
    under its RELA, else its REL: relations["part_of"][a, b] says that a is part_of b. Rows from a
    concept to itself, and REL XR (not related) and DEL, are left out.
    """
    filters = (options.sources, options.languages, options.relations)
    digest = hashlib.sha256(repr(filters).encode())
    files = umls_files(folder)
    conso, sty, rel = (Table(files[name], COLUMNS[name], is_rrf=True) for name in COLUMNS)
    names = _read_names(conso, options, digest)
    types = _read_types(sty, names, digest)
    edges = _read_relations(rel, names, options, digest)
    parents, relations = graphs(edges, len(names.ids), options, lambda child: rel.path.name)
    return Ontology(
        name="umls",
        version=_version(folder),
        ids=names.ids,
        labels=names.labels,
        names=names.names,
        parents=parents,
        sha256=digest.hexdigest(),
        types=types,
        link_types=LINK_TYPES,
        relations=relations,
        cross_references=names.cross_references,
    )


def umls_files(folder: Path) -> dict[str, Path]:
    """The three files by name."""
    commands = list(filter(None, (joining_command(folder, name) for name in COLUMNS)))
    if commands:
        fix = f"join the parts (cd {shlex.quote(str(folder))} && {' && '.join(commands)})"
        raise DataError("the folder holds files in parts", file=folder.name, fix=fix)
    fix = f"name the META folder of an installed release: {', '.join(COLUMNS)} belong together"
    return all_there({name: either_name(folder / name) for name in COLUMNS}, folder, fix)


def joining_command(folder: Path, name: str) -> str:
    """The shell command that joins the parts of a missing file, such as MRCONSO.RRF.aa.gz; "" if it
    has none."""
    if either_name(folder / name):
        return ""
    for path in folder.glob(f"{name}.*"):
        part = _PART.fullmatch(path.name.removeprefix(name))
        if part:
            ending_of_whole, ending_of_part = part[1] or "", part[2] or ""
            program = "zcat" if ending_of_part else "cat"
            whole = f"{name}{ending_of_whole}"
            return f"{program} {whole}.a?{ending_of_part} > {whole}"
    return ""


def cuis_of_codes(path: Path, source: str) -> list[tuple[str, str]]:
    """The distinct (code, CUI) of one source's rows of MRCONSO.RRF that are not suppressed."""
    pairs: dict[tuple[str, str], None] = {}
    table = Table(path, COLUMNS["MRCONSO.RRF"], is_rrf=True)
    for block in table.blocks(hashlib.sha256(), "SUPPRESS", "SAB", "CODE", "CUI"):
        rows = block.only(block.is_set(*_SUPPRESS) & block.is_any("SAB", source))
        pairs |= dict.fromkeys(zip(rows.texts("CODE"), rows.texts("CUI"), strict=True))
    return list(pairs)


def _version(folder: Path) -> str:
    """The release ("2024AA") by release.dat, else "unknown"."""
    for path in (folder / "release.dat", folder.parent / "release.dat"):
        text = path.read_text(errors="replace") if path.is_file() else ""
        release = re.search(r"^umls\.release\.name=([\w.-]+)", text, re.MULTILINE)
        if release:
            return release[1]
    return "unknown"


class _NameRows:
    """The R rows of MRCONSO.RRF that pass the filters, in the order of the file.

    Args:
      cuis: int32 [R].
      is_preferred: bool [R], whether a row is marked as preferred throughout.
      texts: [R] names.
      codes: the distinct ("SAB:CODE", CUI) of these rows, as keys.
      index: int32 [_CUIS], _FILTERED for each CUI of the file, else _UNKNOWN.
    """

    def __init__(self, table: Table, options: OntologyOptions, digest: Digest) -> None:
        self.index = np.full(_CUIS, _UNKNOWN, np.int32)
        self.texts: list[str] = []
        self.codes: dict[tuple[str, int], None] = {}
        cuis_of_blocks, is_preferred = [], []
        chosen = {"SAB": options.sources, "LAT": options.languages}
        values: dict[str, set[str]] = {"SAB": set(), "LAT": set()}
        columns = ("CUI", "LAT", "TS", "STT", "ISPREF", "SAB", "CODE", "STR", "SUPPRESS")
        for block in table.blocks(digest, *columns):
            cuis = block.numbers("CUI", "C", digits=7)
            self.index[cuis] = _FILTERED
            passes = block.is_set(*_SUPPRESS)
            for column, names in chosen.items():
                passes &= _is_chosen(block, column, names)
                values[column].update(block.columns[column].unique().to_pylist())
            block, cuis = block.only(passes), cuis[passes]
            block.refuse(block.is_blank("STR"), "field 'STR' is empty", "STR")
            cuis_of_blocks.append(cuis.astype(np.int32))
            preferred = block.is_any("TS", "P") & block.is_any("STT", "PF")
            is_preferred.append(preferred & block.is_any("ISPREF", "Y"))
            self.texts += block.texts("STR")
            has_code = ~block.is_any("CODE", "NOCODE", "")
            block, cuis = block.only(has_code), cuis[has_code]
            sources, codes = block.texts("SAB"), block.texts("CODE")
            for source, code, cui in zip(sources, codes, cuis.tolist(), strict=True):
                self.codes[f"{source}:{code}", cui] = None
        for column, names in chosen.items():
            _check_chosen(table, column, names, values[column])
        if not self.texts:
            problem = "holds no name in the chosen sources and languages that is not suppressed"
            raise table.fault(problem, fix="choose others")
        self.cuis = np.concatenate(cuis_of_blocks)
        self.is_preferred = np.concatenate(is_preferred)


def _is_chosen(block: Block, column: str, chosen: tuple[str, ...]) -> np.ndarray:
    """bool [R], whether the `column` of each row is one of `chosen`; all rows if `chosen` is
    empty."""
    return block.is_any(column, *chosen) if chosen else np.ones(len(block), bool)


def _check_chosen(table: Table, column: str, chosen: tuple[str, ...], values: set[str]) -> None:
    """Raises DataError if the column has none of the chosen values. values: the values that it
    has."""
    missing = sorted(set(chosen) - values)
    if missing:
        examples = ", ".join(sorted(values & set(map(str.upper, missing)) or values)[:8])
        problem = f"has no row whose {column} is {' or '.join(missing)}"
        fix = f"leave it out, or give what the file has, such as {examples}"
        raise table.fault(problem, field=column, fix=fix)


class _Names(NamedTuple):
    """The fields of an Ontology that hold names. index_of_cui: int32 [_CUIS], the index of each
    CUI, _FILTERED or _UNKNOWN."""

    ids: tuple[str, ...]
    labels: tuple[str, ...]
    names: tuple[tuple[str, int], ...]
    cross_references: tuple[tuple[str, int], ...]
    index_of_cui: np.ndarray


def _read_names(table: Table, options: OntologyOptions, digest: Digest) -> _Names:
    rows = _NameRows(table, options, digest)
    cuis, concept = np.unique(rows.cuis, return_inverse=True)
    # Rows by concept, the preferred ones first; of equal rows the first in the file.
    order = np.lexsort((~rows.is_preferred, concept))
    label_rows = order[np.searchsorted(concept[order], np.arange(len(cuis)))]
    labels = tuple(rows.texts[row] for row in label_rows.tolist())
    index = rows.index
    index[cuis] = np.arange(len(cuis))
    preferred = zip(labels, range(len(cuis)), strict=True)
    names = dict.fromkeys(chain(preferred, zip(rows.texts, concept.tolist(), strict=True)))
    ids = tuple(f"C{cui:07}" for cui in cuis.tolist())
    cross_references = tuple((code, int(index[cui])) for code, cui in rows.codes)
    return _Names(ids, labels, tuple(names), cross_references, index)


def _indices(block: Block, column: str, index: np.ndarray) -> np.ndarray:
    """int32 [R], the index of each row's concept, or _FILTERED.

    An id that MRCONSO.RRF lacks altogether is an error: the files do not belong together, or one is
    cut short.
    """
    indices: np.ndarray = index[block.numbers(column, "C", digits=7)]
    problem = f"field '{column}' names a concept that MRCONSO.RRF does not have"
    fix = "take all files from one release, whole"
    block.refuse(indices == _UNKNOWN, problem, column, fix)
    return indices


def _read_types(table: Table, names: _Names, digest: Digest) -> tuple[str, ...]:
    """The identifiers of each concept's semantic types, [C] strings joined by "|" in rising
    order."""
    keys = []  # 1000 * concept + type
    for block in table.blocks(digest, "CUI", "TUI"):
        concepts = _indices(block, "CUI", names.index_of_cui).astype(np.int64)
        keys.append(1000 * concepts + block.numbers("TUI", "T", digits=3))
    types = [""] * len(names.ids)
    for key in np.unique(np.concatenate(keys)).tolist():
        concept, number = divmod(key, 1000)
        if concept >= 0:
            separator = "|" if types[concept] else ""
            types[concept] += f"{separator}T{number:03}"
    return tuple(types)


def _read_relations(
    table: Table, names: _Names, options: OntologyOptions, digest: Digest
) -> ReadEdges:
    """Reads the edges of MRREL.RRF. Kinds of other edges are named by RELA, else by REL."""
    is_a, other_edges = Edges(), Edges()
    kind_of: dict[str, int] = {}
    for block in table.blocks(digest, "CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS"):
        block = block.only(block.is_set(*_SUPPRESS) & _is_chosen(block, "SAB", options.sources))
        # up: CUI2 is the parent of CUI1. down: its child. Where REL and RELA disagree, REL counts.
        parent, child = block.is_any("REL", "PAR"), block.is_any("REL", "CHD")
        up, down = block.is_any("RELA", "inverse_isa"), block.is_any("RELA", "isa")
        up, down = parent | (up & ~child), child | (down & ~parent)
        if options.relations == "is_a":
            is_either = up | down
            block, up, down = block.only(is_either), up[is_either], down[is_either]
        first = _indices(block, "CUI1", names.index_of_cui)
        second = _indices(block, "CUI2", names.index_of_cui)
        is_edge = (first >= 0) & (second >= 0) & (first != second)
        up, down, rest = is_edge & up, is_edge & down, is_edge & ~up & ~down
        is_a.add(first[up], second[up], block.lines[up])
        is_a.add(second[down], first[down], block.lines[down])
        if rest.any():
            rest &= ~block.is_any("REL", *_NO_RELATION)
            rows = block.only(rest)
            kinds = []
            for narrow, broad in zip(rows.texts("RELA"), rows.texts("REL"), strict=True):
                kinds.append(kind_of.setdefault(narrow or broad, len(kind_of)))
            other_edges.add(second[rest], first[rest], rows.lines, kinds)
    return ReadEdges(is_a, other_edges, list(kind_of))
