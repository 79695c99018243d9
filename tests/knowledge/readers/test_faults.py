"""What the readers of ontologies refuse besides the faults of tests/test_readers.py: rows (reader, what is wrong, the
files as they are changed, file and line of the error)."""

import made_up_knowledge as made
import pytest

from mednli_jax.errors import DataError, DataErrors
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.mesh import HEADER, read_mesh
from mednli_jax.knowledge.readers.obo import read_obo
from mednli_jax.knowledge.readers.snomed import read_snomed
from mednli_jax.knowledge.readers.umls import read_umls
from mednli_jax.knowledge.readers.wordnet import read_wordnet

OPTIONS = OntologyOptions(relations="all")
CONCEPT, DESCRIPTION, RELATIONSHIP = made.RF2_FILES.values()
NOUNS, INDEX = made.WORDNET["data.noun"], made.WORDNET["index.noun"]
EDGE = made.umls_relation
ILLNESS = "00000300 26 n 01 illness 0 001 @ 00000100 n 0000 | being ill"
TERM = "[Term]\nid: X:1\nname: fever\n"


def of_umls(folder, changed):
    read_umls(made.lay_out(folder, made.UMLS, **changed), OPTIONS)


def of_snomed(folder, changed):
    read_snomed(made.snomed_folder(folder, **changed), OPTIONS)


def of_wordnet(folder, changed):
    read_wordnet(made.lay_out(folder, made.WORDNET, **changed), OPTIONS)


def of_obo(folder, text):
    read_obo(made.write(folder / "x.obo", text), OPTIONS)


def of_mesh(folder, rows):
    read_mesh(made.write(folder / "mesh.tsv", "\t".join(HEADER) + "\n" + rows))


def more(file, row):
    """A file of the UMLS or of SNOMED CT with another row at its end."""
    if file in made.RF2_ROWS:
        return {file: (*made.RF2_ROWS[file], row)}
    return {file: made.UMLS[file.replace("_", ".")] + row}


def nouns(new):
    """The nouns with another line for illness, their fifth."""
    assert ILLNESS in NOUNS
    return {"data_noun": NOUNS.replace(ILLNESS, new)}


def index(new):
    """The index with another end of the entry of illness, its eighth line."""
    return {"index_noun": INDEX.replace("illness n 1 1 @ 1 1 00000300", new)}


FAULTS = [
    (of_umls, "an empty name", more("MRCONSO_RRF", made.umls_name("C0000001", " ")), "MRCONSO.RRF", 13),
    (of_umls, "shifted columns", more("MRREL_RRF", EDGE("C0000001", "PAR", "C2", SUPPRESS="")), "MRREL.RRF", 13),
    (of_umls, "an unknown concept", more("MRREL_RRF", EDGE("C0000001", "CHD", "C9999999")), "MRREL.RRF", 13),
    (of_snomed, "no descriptions", {"Description": None}, "sct2_Description_Snapshot-en_*.txt", None),
    (of_snomed, "a header alone", {"Relationship": ()}, RELATIONSHIP, None),
    (of_snomed, "none active", {"Concept": (made.sct_concept("1", active="0"),)}, CONCEPT, None),
    (of_snomed, "active is true", more("Concept", made.sct_concept("7", active="true")), CONCEPT, 10),
    (of_snomed, "an id twice", more("Concept", made.sct_concept("102")), CONCEPT, 10),
    (of_snomed, "no description", more("Concept", made.sct_concept("106")), CONCEPT, 10),
    (of_snomed, "an unknown end", more("Relationship", made.sct_edge("999", "101")), RELATIONSHIP, 10),
    (of_wordnet, "another part of speech", nouns(ILLNESS.replace("n 01", "v 01")), "data.noun", 5),
    (of_wordnet, "a pointer more", nouns(ILLNESS.replace("001 @", "002 @")), "data.noun", 5),
    (of_wordnet, "a synset without the word", index("illness n 1 1 @ 1 1 00000400"), "index.noun", 8),
    (of_wordnet, "the index of verbs", index("illness v 1 1 @ 1 1 00000300"), "index.noun", 8),
    *((of_obo, problem, TERM + more, "x.obo", 4) for problem, more in {
        "the parent is obsolete": "is_a: X:2\n[Term]\nid: X:2\nname: old\nis_obsolete: true\n",
        "an unknown part": "relationship: part_of X:2\n",
        "a synonym without quotes": "synonym: hot\n",
    }.items()),
    (of_mesh, "an empty name", "D1\t \tC01\t\n", "mesh.tsv", 2),
    (of_mesh, "an id twice", "D1\tquokka\tC01\t\n" * 2, "mesh.tsv", 3),
    (of_mesh, "a tree number of two", "D1\tquokka\tC01\t\nD2\twombat\tC01\t\n", "mesh.tsv", 3),
    (of_mesh, "a cycle", "D1\tquokka\tC01|C02.100\t\nD2\twombat\tC02|C01.100\t\n", "mesh.tsv", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "changed", "file", "line"), [row[:1] + row[2:] for row in FAULTS],
    ids=[f"{row[0].__name__[3:]}: {row[1]}" for row in FAULTS],
)  # fmt: skip
def test_a_file_with_a_fault_is_refused_by_file_and_line(read, changed, file, line, tmp_path):
    with pytest.raises((DataError, DataErrors)) as caught:
        read(tmp_path, changed)
    first = getattr(caught.value, "errors", [caught.value])[0]
    assert (first.file, first.line) == (file, line)
    assert first.fix
    assert not made.WORDS & set(str(caught.value).casefold().split())
