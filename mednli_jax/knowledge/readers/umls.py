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

import numpy as np

from mednli_jax.errors import DataError
from mednli_jax.files import either_name
from mednli_jax.knowledge.ontology import DROPPED_CYCLES, Edges, Ontology, OntologyOptions, graphs
from mednli_jax.knowledge.readers.tables import Block, Table, all_there

COLUMNS = {
    "MRCONSO.RRF": (
        *("CUI", "LAT", "TS", "LUI", "STT", "SUI", "ISPREF", "AUI", "SAUI"),
        *("SCUI", "SDUI", "SAB", "TTY", "CODE", "STR", "SRL", "SUPPRESS", "CVF"),
    ),
    "MRSTY.RRF": ("CUI", "TUI", "STN", "STY", "ATUI", "CVF"),
    "MRREL.RRF": (
        *("CUI1", "AUI1", "STYPE1", "REL", "CUI2", "AUI2", "STYPE2", "RELA"),
        *("RUI", "SRUI", "SAB", "SL", "RG", "DIR", "SUPPRESS", "CVF"),
    ),
}
# in place of the index of a concept: it has no name after the filters, or none at all
_FILTERED, _UNKNOWN = -1, -2
# a CUI is C and seven digits: small enough for an array over all there can be
_CUIS = 10_000_000

# The semantic types of four of the UMLS semantic groups, those that a clinical text states findings
# with: anatomy (ANAT), chemicals and drugs (CHEM, with the types it lost in 2018), disorders and
# findings (DISO), procedures (PROC).
LINK_TYPES = tuple(
    f"T{number:03}"
    for number in (
        *(17, 18, 21, 22, 23, 24, 25, 26, 29, 30, 31),
        *(
            103,
            104,
            109,
            110,
            111,
            114,
            115,
            116,
            118,
            119,
            120,
            121,
            122,
            123,
            124,
            125,
            126,
            127,
            129,
            130,
            131,
        ),
        *(192, 195, 196, 197, 200),
        *(19, 20, 33, 37, 46, 47, 48, 49, 50, 184, 190, 191),
        *(58, 59, 60, 61, 62, 63, 65),
    )
)
# the column, N of names that are not suppressed, and its other values
_SUPPRESS = ("SUPPRESS", "N", "O", "E", "Y")
# What follows the name of a file in the names of its parts: .aa.gz (as in a distribution's
# archives), .aa, .gz.aa
_PART = re.compile(r"(\.gz)?\.a[a-z](\.gz)?")
# REL of rows that state no relation: not related, deleted.
_NO_RELATION = ("XR", "DEL")


def read_umls(folder: Path, options: OntologyOptions) -> Ontology:
    """The concepts that `options` lets pass, their names, semantic types and relations.

    Names are the rows of MRCONSO.RRF in the chosen languages (LAT) and sources (SAB) that are not
    suppressed (SUPPRESS N); a concept is there when it has such a name. Its label is the first of
    them that is marked as preferred throughout (TS P, STT PF, ISPREF Y), else the first.
    `cross_references` are the codes of these rows, "SAB:CODE". `types` are semantic types by
    identifier ("T047|T191"); see LINK_TYPES for those that are linked.

    A row of MRREL.RRF reads "CUI2 is REL, and RELA, of CUI1". Is-a are the rows of the chosen
    sources, not suppressed, with REL PAR (CUI2 is the parent) or CHD, the source's hierarchy, or
    with RELA inverse_isa or isa (CUI2 is-a CUI1). With relations="all" every other row is kept by
    its RELA, else its REL: relations["part_of"][a, b] says that a is part_of b. Rows from a concept
    to itself, and REL XR (not related) and DEL, are left out.
    """
    folder = Path(folder)
    digest = hashlib.sha256(
        repr((options.sources, options.languages, options.relations, DROPPED_CYCLES)).encode()
    )
    conso, sty, rel = (
        Table(path, COLUMNS[name], is_rrf=True) for name, path in umls_files(folder).items()
    )
    names, index = _read_names(conso, options, digest)
    types = _read_types(sty, index, len(names["ids"]), digest)
    edges = _read_relations(rel, index, options, digest)
    parents, relations = graphs(*edges, names["ids"], options, lambda child: rel.path.name)
    return Ontology(
        name="umls",
        version=_version(folder),
        parents=parents,
        sha256=digest.hexdigest(),
        types=types,
        link_types=LINK_TYPES,
        relations=relations,
        **names,
    )


def umls_files(folder: Path) -> dict[str, Path]:
    """The three files by name."""
    if commands := [joining for name in COLUMNS if (joining := joining_command(folder, name))]:
        fix = f"join the parts (cd {shlex.quote(str(folder))} && {' && '.join(commands)})"
        raise DataError("the folder holds files in parts", file=folder.name, fix=fix)
    fix = f"name the META folder of an installed release: {', '.join(COLUMNS)} belong together"
    return all_there({name: either_name(folder / name) for name in COLUMNS}, folder, fix)


def joining_command(folder: Path, name: str) -> str:
    """The shell command that joins the parts of a missing file, such as MRCONSO.RRF.aa.gz; "" if it
    has none."""
    endings = [_PART.fullmatch(path.name.removeprefix(name)) for path in folder.glob(f"{name}.*")]
    part = next(filter(None, endings), None)
    if either_name(folder / name) or part is None:
        return ""
    of_whole, of_part = part[1] or "", part[2] or ""
    return f"{'zcat' if of_part else 'cat'} {name}{of_whole}.a?{of_part} > {name}{of_whole}"


def cuis_of_codes(path: Path, source: str) -> list[tuple[str, str]]:
    """The distinct (code, CUI) of one source's rows of MRCONSO.RRF that are not suppressed."""
    found = {}
    table = Table(path, COLUMNS["MRCONSO.RRF"], is_rrf=True)
    for block in table.blocks(hashlib.sha256(), "SUPPRESS", "SAB", "CODE", "CUI"):
        ours = block.only(block.is_set(*_SUPPRESS) & block.is_any("SAB", source))
        found |= dict.fromkeys(zip(ours.texts("CODE"), ours.texts("CUI"), strict=True))
    return list(found)


def _version(folder):
    """The release ("2024AA") by release.dat, else "unknown"."""
    for path in (folder / "release.dat", folder.parent / "release.dat"):
        stated = path.read_text(errors="replace") if path.is_file() else ""
        if found := re.search(r"^umls\.release\.name=([\w.-]+)", stated, re.MULTILINE):
            return found[1]
    return "unknown"


def _chosen(block: Block, column: str, wanted: tuple[str, ...]) -> np.ndarray:
    """bool [R]: the rows whose `column` is one of `wanted`, all where that is empty."""
    return block.is_any(column, *wanted) if wanted else np.ones(len(block), bool)


def _read_names(table: Table, options: OntologyOptions, digest) -> tuple[dict, np.ndarray]:
    """(fields of the Ontology, int32 [_CUIS]: the index of each CUI, _FILTERED or _UNKNOWN)."""
    index = np.full(_CUIS, _UNKNOWN, np.int32)
    wanted, seen = {"SAB": options.sources, "LAT": options.languages}, {"SAB": set(), "LAT": set()}
    concepts, preferred, texts, references = [], [], [], {}
    for block in table.blocks(
        digest, "CUI", "LAT", "TS", "STT", "ISPREF", "SAB", "CODE", "STR", "SUPPRESS"
    ):
        cuis = block.numbers("CUI", "C", digits=7)
        index[cuis] = _FILTERED
        kept = block.is_set(*_SUPPRESS)
        for column, names in wanted.items():
            kept &= _chosen(block, column, names)
            seen[column].update(block.columns[column].unique().to_pylist())
        block, cuis = block.only(kept), cuis[kept]
        block.refuse(block.is_blank("STR"), "field 'STR' is empty", "STR")
        concepts.append(cuis.astype(np.int32))
        marks = (("TS", "P"), ("STT", "PF"), ("ISPREF", "Y"))
        preferred.append(
            np.logical_and.reduce([block.is_any(column, mark) for column, mark in marks])
        )
        texts += block.texts("STR")
        coded = ~block.is_any("CODE", "NOCODE", "")
        codes = zip(
            *map(block.only(coded).texts, ("SAB", "CODE")), cuis[coded].tolist(), strict=True
        )
        references |= dict.fromkeys((f"{source}:{code}", cui) for source, code, cui in codes)
    for column, names in wanted.items():
        if missing := sorted(set(names) - seen[column]):
            found = sorted(seen[column])
            fix = f"leave it out; the file has {', '.join(found[:8])}{' and others' if len(found) > 8 else ''}"
            raise table.fault(
                f"has no row whose {column} is {' or '.join(missing)}", field=column, fix=fix
            )
    if not texts:
        problem = "holds no name in the chosen sources and languages that is not suppressed"
        raise table.fault(problem, fix="choose others")
    cuis = np.concatenate(concepts)
    kept, owner = np.unique(cuis, return_inverse=True)
    order = np.lexsort(
        (~np.concatenate(preferred), owner)
    )  # stable: of equals the first in the file
    first = order[np.searchsorted(owner[order], np.arange(len(kept)))]
    labels = tuple(texts[row] for row in first.tolist())
    index[kept] = np.arange(len(kept))
    given = chain(
        zip(labels, range(len(kept)), strict=True), zip(texts, owner.tolist(), strict=True)
    )
    return {
        "ids": tuple(f"C{cui:07}" for cui in kept.tolist()),
        "labels": labels,
        "names": tuple(dict.fromkeys(given)),
        "cross_references": tuple((code, int(index[cui])) for code, cui in references),
    }, index


def _indices(block: Block, column: str, index: np.ndarray) -> np.ndarray:
    """int32 [R], the index of each row's concept, or _FILTERED.

    An id that MRCONSO.RRF lacks altogether shows that the files do not belong together, or that one
    is cut short.
    """
    found = index[block.numbers(column, "C", digits=7)]
    problem = f"field '{column}' names a concept that MRCONSO.RRF does not have"
    block.refuse(found == _UNKNOWN, problem, column, "take all files from one release, whole")
    return found


def _read_types(table: Table, index: np.ndarray, size: int, digest) -> tuple[str, ...]:
    """[C], the identifiers of each concept's semantic types joined by "|", in the order of the
    file."""
    pairs = []
    for block in table.blocks(digest, "CUI", "TUI"):
        pairs.append(
            _indices(block, "CUI", index) * np.int64(1000) + block.numbers("TUI", "T", digits=3)
        )
    pairs = np.unique(np.concatenate(pairs))
    types = [""] * size
    for concept, kind in zip((pairs // 1000).tolist(), (pairs % 1000).tolist(), strict=True):
        if concept >= 0:
            types[concept] += f"|T{kind:03}" if types[concept] else f"T{kind:03}"
    return tuple(types)


def _read_relations(table: Table, index: np.ndarray, options: OntologyOptions, digest):
    """(is-a edges from child to parent, other edges, the names of their kinds: RELA, else REL)."""
    is_a, others, kinds = Edges(), Edges(), {}
    for block in table.blocks(digest, "CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS"):
        block = block.only(block.is_set(*_SUPPRESS) & _chosen(block, "SAB", options.sources))
        # CUI2 is above or below CUI1; where REL and RELA disagree, REL counts.
        parent, child = (block.is_any("REL", rel) for rel in ("PAR", "CHD"))
        up, down = (block.is_any("RELA", rela) for rela in ("inverse_isa", "isa"))
        up, down = parent | (up & ~child), child | (down & ~parent)
        if options.relations == "is_a":
            block, up, down = block.only(up | down), up[up | down], down[up | down]
        one, two = (_indices(block, column, index) for column in ("CUI1", "CUI2"))
        kept = (one >= 0) & (two >= 0) & (one != two)
        for rows, child, parent in ((kept & up, one, two), (kept & down, two, one)):
            is_a.add(child[rows], parent[rows], block.lines[rows])
        rest = kept & ~up & ~down
        if rest.any():
            rest &= ~block.is_any("REL", *_NO_RELATION)
            names = zip(*map(block.only(rest).texts, ("RELA", "REL")), strict=True)
            kind = [kinds.setdefault(narrow or broad, len(kinds)) for narrow, broad in names]
            others.add(two[rest], one[rest], block.lines[rest], kind)
    return is_a, others, list(kinds)
