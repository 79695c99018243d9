"""Reader of MeSH, the Medical Subject Headings, from a table of descriptors.

Layout: UTF-8 text, plain or gzip, a header line, then one descriptor per line with four fields
between tabs: `id`, `name`, `tree_numbers` ("|" between them), `synonyms` ("|" between them, may be
empty). MeSH is courtesy of the U.S. National Library of Medicine; see resources/CREDITS.md.
"""

import hashlib
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from mednli_jax.errors import DataError, Problems
from mednli_jax.files import empty_field, empty_file, line_fault, table_rows, text_lines
from mednli_jax.knowledge.ontology import (
    Edges,
    Ontology,
    OntologyOptions,
    ReadEdges,
    graphs,
    shown_id,
)

RESOURCES = Path(__file__).parent.parent / "resources"
BUNDLED = "mesh2024.tsv.gz"
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
LINK_TYPES = (
    *(f"A{part:02}" for part in (*range(1, 13), *range(14, 18))),
    *("B01.300", "B03", "B04", "C", "D", "E01", "E02", "E03", "E04", "E06", "E07"),
    *(
        "F01.145.126",
        "F01.145.317",
        "F01.145.805",
        "F01.470.132",
        "F03",
        "G08",
        "G09",
        "G10",
        "G11",
    ),
)


def read_mesh(path: Path | str | None = None, options: OntologyOptions | None = None) -> Ontology:
    """MeSH: the bundled 2024 edition, or a file of the same layout.

    A descriptor is-a each owner of one of its tree numbers less the last part (no owner: no
    parent). A tree number that lies below another one of the same descriptor is only a second place
    in the printed tree (2024 files Ocular Motility Disorders under its child Strabismus); it gives
    no edge, because it would close a cycle.

    Names, in order of precedence: preferred names, the bundled abbreviations, the bundled aliases,
    synonyms, and last the natural order of inverted names ("Diabetes Mellitus, Type 2" gives "Type
    2 Diabetes Mellitus") where no descriptor has that name already. `types` are the tree numbers.
    """
    source = RESOURCES / BUNDLED if path is None else Path(path)
    digest = hashlib.sha256()
    ids, labels, trees, synonyms, lines = _read_descriptors(source, digest)
    index, aliases = {concept: position for position, concept in enumerate(ids)}, []
    for file in alias_files():
        header = ABBREVIATION_HEADER if file.name == ABBREVIATIONS else ALIAS_HEADER
        rows = _rows(file, header, digest, Problems())
        aliases.append(
            [(row[header[0]], index[row["concept"]]) for _, row in rows if row["concept"] in index]
        )
    is_a = Edges([(child, parent, lines[child], 0) for child, parent in _edges(trees)])
    options = options or OntologyOptions()
    parents, relations = graphs(
        ReadEdges(is_a, Edges(), ()), len(ids), options, lambda child: source.name
    )
    return Ontology(
        name="mesh" if path is None else source.name.split(".")[0],
        version="2024",
        ids=ids,
        labels=labels,
        names=tuple(_names(labels, synonyms, chain.from_iterable(aliases))),
        parents=parents,
        sha256=digest.hexdigest(),
        types=tuple("|".join(numbers) for numbers in trees),
        link_types=LINK_TYPES,
        abbreviations=frozenset(name for name, _ in aliases[0]),
        relations=relations,
    )


def natural_order(name: str) -> str | None:
    """Turns "Neoplasms, Breast" into "Breast Neoplasms"; None for a name that is not an inversion,
    such as chemical names ("2,4-D", "Ethanol, 2-chloro-") and lists ("Nose, Mouth, and Throat")."""
    parts = name.split(", ")
    if len(parts) < 2 or any(not part or part.endswith("-") or "(" in part for part in parts):
        return None
    if any(part.split()[0].casefold() in ("and", "or") for part in parts):
        return None
    return " ".join(reversed(parts))


def alias_files() -> list[Path]:
    """The bundled files of other names, in order of precedence."""
    return [
        RESOURCES / name for name in (ABBREVIATIONS, "aliases_everyday.tsv", "aliases_doid.tsv")
    ]


def _rows(
    path, names: tuple[str, ...], digest, problems: Problems
) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, {column: cell}) of the rows with the right number of cells; the others go into
    `problems`."""

    def columns(number, header):
        if tuple(header) != names:
            fix = f"the first line must name, between tabs: {', '.join(names)}"
            raise line_fault(path.name, number, "the header is not that of this table", fix)
        return names

    content = hashlib.sha256()
    lines = text_lines(path, digest=content)
    lines = chain(
        [next(lines, (1, ""))], lines
    )  # the first line is the header, even if it is empty
    records = ((number, line.split("\t")) for number, line in lines if line or number == 1)
    yield from table_rows(path.name, records, problems, columns)
    digest.update(content.digest())


def _read_descriptors(path, digest) -> Iterator[tuple]:
    """(ids, labels, tree numbers, synonyms, line of each), sorted by id; raises every fault of the
    file together."""
    problems, rows, owner = Problems(), {}, {}

    def fault(problem, line, name, fix):
        problem = f"field '{name}' {problem}"
        problems.add(DataError(problem, file=path.name, line=line, field=name, fix=fix))

    for line, row in _rows(path, HEADER, digest, problems):
        concept, trees = row["id"], [part for part in row["tree_numbers"].split("|") if part]
        if not concept or not row["name"].strip():
            problems.add(empty_field(path, line, "name" if concept else "id"))
            continue
        if concept in rows:
            fault(f"repeats {shown_id(concept)}", line, "id", "keep one row per descriptor")
            continue
        names = [name for name in row["synonyms"].split("|") if name.strip()]
        rows[concept] = concept, row["name"], trees, names, line
        for tree in trees:
            if not TREE_NUMBER.fullmatch(tree):
                form = "write it like C14.280.067, with | between several"
                fault(f"of {shown_id(concept)} is malformed", line, "tree_numbers", form)
            elif owner.setdefault(tree, concept) != concept:
                both = f"gives {tree} to {shown_id(owner[tree])} and to {shown_id(concept)}"
                fault(both, line, "tree_numbers", "leave it to one of them")
    problems.raise_if_any()
    if not rows:
        raise empty_file(path, "no descriptors")
    return zip(*(rows[concept] for concept in sorted(rows)), strict=True)


def _edges(trees) -> Iterator[tuple[int, int]]:
    """(child, parent) index pairs; see `read_mesh` for the tree numbers that give none."""
    owner = {tree: concept for concept, numbers in enumerate(trees) for tree in numbers}
    for tree, concept in owner.items():
        parts = tree.split(".")
        above = [owner.get(".".join(parts[:length])) for length in range(len(parts) - 1, 0, -1)]
        if above and above[0] is not None and concept not in above:
            yield concept, above[0]


def _names(labels, synonyms, aliases) -> Iterator[tuple[str, int]]:
    """Every (name, concept) once, in the order of precedence that `read_mesh` states."""
    given = [*((label, concept) for concept, label in enumerate(labels)), *aliases]
    given += [(name, concept) for concept, names in enumerate(synonyms) for name in names]
    taken = {name.casefold() for name, _ in given}
    yield from dict.fromkeys(given)
    for name, concept in given:
        turned = natural_order(name)
        if turned is not None and turned.casefold() not in taken:
            taken.add(turned.casefold())
            yield turned, concept
