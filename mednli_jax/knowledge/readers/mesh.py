"""Reader of MeSH, the Medical Subject Headings, from a table of descriptors.

Layout: UTF-8 text, plain or gzip, a header line, then one descriptor per line with four fields
between tabs: `id`, `name`, `tree_numbers` ("|" between them), `synonyms` ("|" between them, may be
empty). MeSH is courtesy of the U.S. National Library of Medicine; see resources/CREDITS.md.
"""

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from mednli_jax.errors import DataError, Problems
from mednli_jax.files.reading import empty_field, empty_file, line_fault, table_rows, text_lines
from mednli_jax.files.writing import Digest
from mednli_jax.knowledge.ontology import (
    DEFAULT_OPTIONS,
    Edges,
    Ontology,
    OntologyOptions,
    ReadEdges,
    graphs,
    shown_id,
)

RESOURCES = Path(__file__).parent.parent / "resources"
BUNDLED = RESOURCES / "mesh2024.tsv.gz"
ABBREVIATIONS = "abbreviations.tsv"
HEADER = ("id", "name", "tree_numbers", "synonyms")
ALIAS_HEADER = ("alias", "concept")
ABBREVIATION_HEADER = ("abbreviation", "expansion", "concept")
TREE_NUMBER = re.compile(r"[A-Z][0-9]{2}(\.[0-9]{3})*")

# Types worth linking in clinical text: anatomy, fungi, bacteria and viruses, diseases, drugs and
# chemicals, diagnosis, treatment and equipment, drinking, smoking, symptoms of behaviour, anxiety
# and mental disorders, body functions. Left out are the trees of general things that a text
# mentions all the time without stating a finding: animals, plants, food, research methods,
# behaviour at large, people, places, professions, publications, administration.
_TREES = """
    A01 A02 A03 A04 A05 A06 A07 A08 A09 A10 A11 A12 A14 A15 A16 A17
    B01.300 B03 B04
    C D
    E01 E02 E03 E04 E06 E07
    F01.145.126 F01.145.317 F01.145.805 F01.470.132 F03
    G08 G09 G10 G11
"""
LINK_TYPES = tuple(_TREES.split())


class _Descriptor(NamedTuple):
    """A descriptor, which is a row of the table."""

    id: str
    name: str
    tree_numbers: list[str]
    synonyms: list[str]
    line: int


@functools.cache
def bundled_mesh(options: OntologyOptions) -> Ontology:
    """MeSH's bundled 2024 edition. All corpora of a process share it."""
    return read_mesh(BUNDLED, options)


def read_mesh(path: Path, options: OntologyOptions = DEFAULT_OPTIONS) -> Ontology:
    """Reads a file in the layout of the bundled MeSH.

    A descriptor is-a the owner of the nearest tree number above each of its own tree numbers: the
    number without its last part, or in a subset of MeSH perhaps one further up. A tree number below
    another one of the same descriptor is only a second place in the printed tree (2024 files Ocular
    Motility Disorders under its child Strabismus); it gives no edge, because it would close a
    cycle.

    Names, in order of precedence: preferred names, the bundled abbreviations, the bundled aliases,
    synonyms, and last the natural order of inverted names ("Diabetes Mellitus, Type 2" gives "Type
    2 Diabetes Mellitus"), unless a descriptor has that name already. `types` are the tree numbers.
    """
    digest = hashlib.sha256()
    descriptors = _read_descriptors(path, digest)
    index = {descriptor.id: place for place, descriptor in enumerate(descriptors)}
    aliases = [_read_aliases(file, index, digest) for file in alias_files()]
    abbreviations = aliases[0]
    is_a = Edges(list(_edges(descriptors)))
    parents, relations = graphs(
        ReadEdges(is_a, Edges(), ()),
        len(descriptors),
        options,
        lambda child: path.name,
    )
    return Ontology(
        name="mesh" if path == BUNDLED else path.name.split(".")[0],
        version="2024" if path == BUNDLED else "unknown",
        ids=tuple(index),
        labels=tuple(descriptor.name for descriptor in descriptors),
        names=_names(descriptors, chain.from_iterable(aliases)),
        parents=parents,
        sha256=digest.hexdigest(),
        types=tuple("|".join(descriptor.tree_numbers) for descriptor in descriptors),
        link_types=LINK_TYPES,
        abbreviations=frozenset(name for name, _ in abbreviations),
        relations=relations,
    )


def natural_order(name: str) -> str | None:
    """Turns "Neoplasms, Breast" into "Breast Neoplasms"; None for a name that is not an inversion,
    such as chemical names ("2,4-D", "Ethanol, 2-chloro-") and lists ("Nose, Mouth, and Throat")."""
    phrases = name.split(", ")
    if len(phrases) < 2:
        return None
    for phrase in phrases:
        if not phrase or phrase.endswith("-") or "(" in phrase:
            return None
        if phrase.split()[0].casefold() in ("and", "or"):
            return None
    return " ".join(reversed(phrases))


def alias_files() -> list[Path]:
    """The bundled tables of other names, in order of precedence; the first holds abbreviations."""
    names = (ABBREVIATIONS, "aliases_everyday.tsv", "aliases_doid.tsv")
    return [RESOURCES / name for name in names]


def short_forms() -> list[str]:
    """The bundled clinical abbreviations."""
    rows = _rows(RESOURCES / ABBREVIATIONS, ABBREVIATION_HEADER, hashlib.sha256(), Problems())
    return [row[ABBREVIATION_HEADER[0]] for _, row in rows]


def _rows(
    path: Path, names: tuple[str, ...], digest: Digest, problems: Problems
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (line number, {column: cell}) of the rows with the right number of cells; other rows
    go into `problems`."""

    def columns(number: int, header: list[str]) -> tuple[str, ...]:
        if tuple(header) != names:
            fix = f"the first line must name, between tabs: {', '.join(names)}"
            raise line_fault(path.name, number, "the header is not that of this table", fix)
        return names

    content = hashlib.sha256()
    yield from table_rows(path.name, _records(path, content), problems, columns)
    digest.update(content.digest())


def _records(path: Path, content: Digest) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, cells) of each line. The first line is the header, even if it is
    empty."""
    for number, line in text_lines(path, digest=content):
        if line or number == 1:
            yield number, line.split("\t")


def _read_aliases(path: Path, index: dict[str, int], digest: Digest) -> list[tuple[str, int]]:
    """Reads the (name, concept) of each row whose concept is a descriptor."""
    header = ABBREVIATION_HEADER if path.name == ABBREVIATIONS else ALIAS_HEADER
    aliases = []
    for _, row in _rows(path, header, digest, Problems()):
        if row["concept"] in index:
            aliases.append((row[header[0]], index[row["concept"]]))
    return aliases


def _read_descriptors(path: Path, digest: Digest) -> list[_Descriptor]:
    """Reads the descriptors, sorted by id. Raises all faults of the file together."""
    problems = Problems()
    descriptors: dict[str, _Descriptor] = {}
    owner: dict[str, str] = {}  # of a tree number

    def fault(problem: str, line: int, name: str, fix: str) -> None:
        problem = f"field '{name}' {problem}"
        problems.add(DataError(problem, file=path.name, line=line, field=name, fix=fix))

    for line, row in _rows(path, HEADER, digest, problems):
        concept, name = row["id"], row["name"]
        if not concept or not name.strip():
            problems.add(empty_field(path, line, "name" if concept else "id"))
            continue
        if concept in descriptors:
            fault(f"repeats {shown_id(concept)}", line, "id", "keep one row per descriptor")
            continue
        trees = list(filter(None, row["tree_numbers"].split("|")))
        synonyms = [synonym for synonym in row["synonyms"].split("|") if synonym.strip()]
        descriptors[concept] = _Descriptor(concept, name, trees, synonyms, line)
        for tree in trees:
            if not TREE_NUMBER.fullmatch(tree):
                fix = "write it like C14.280.067, with | between several"
                fault(f"of {shown_id(concept)} is malformed", line, "tree_numbers", fix)
            elif owner.setdefault(tree, concept) != concept:
                both = f"gives {tree} to {shown_id(owner[tree])} and to {shown_id(concept)}"
                fault(both, line, "tree_numbers", "leave it to one of them")
    problems.raise_if_any()
    if not descriptors:
        raise empty_file(path, "no descriptors")
    return [descriptors[concept] for concept in sorted(descriptors)]


def _edges(descriptors: Sequence[_Descriptor]) -> Iterator[tuple[int, int, int, int]]:
    """Yields the rows of Edges; see `read_mesh` for the tree numbers that give none."""
    owner: dict[str, int] = {}
    for concept, descriptor in enumerate(descriptors):
        owner |= dict.fromkeys(descriptor.tree_numbers, concept)
    for tree, concept in owner.items():
        above = []  # owners of the tree numbers above, nearest first
        while "." in tree:
            tree = tree.rpartition(".")[0]
            if tree in owner:
                above.append(owner[tree])
        if above and concept not in above:
            yield concept, above[0], descriptors[concept].line, 0


def _names(
    descriptors: Sequence[_Descriptor], aliases: Iterable[tuple[str, int]]
) -> tuple[tuple[str, int], ...]:
    """Every (name, concept) once, in the order of precedence that `read_mesh` states."""
    named = [(descriptor.name, concept) for concept, descriptor in enumerate(descriptors)]
    named += aliases
    for concept, descriptor in enumerate(descriptors):
        named += [(synonym, concept) for synonym in descriptor.synonyms]
    taken = {name.casefold() for name, _ in named}
    names = dict.fromkeys(named)
    for name, concept in named:
        turned = natural_order(name)
        if turned is not None and turned.casefold() not in taken:
            taken.add(turned.casefold())
            names[turned, concept] = None
    return tuple(names)
