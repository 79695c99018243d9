"""The OBO reader: a made-up file whose graph is checked by hand, and faults in such files."""

import gzip

import pytest

from mednli_jax.errors import DataError, DataErrors
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import CIRCULAR, OntologyOptions
from mednli_jax.knowledge.readers.obo import read_obo

ALL = OntologyOptions(relations="all")
HEADER = """\
format-version: 1.2
data-version: releases/2024-01-01
synonymtypedef: OMO:0003000 "abbreviation" EXACT
synonymtypedef: layperson "layperson term"
default-namespace: findings
ontology: made_up
"""
#        1 finding
#       /         \
#   2 heart       3 lung        5 organ (another namespace; 2 affects 5)
#       \         /             9 is obsolete, 4 takes its place; 40 was merged into 4
#       4 heart failure
STANZAS = r"""
! a comment
[Term]
id: XP:1
name: Finding

[Term]
id: XP:2
name: Heart disease
def: "Something ! with [brackets], \"quotes\" and {braces}." [PMID:1]
synonym: "Cardiac disease" EXACT []
synonym: "Cardiopathy \"old\"" EXACT layperson [ORCID:1]
synonym: "Disease" BROAD []
synonym: "Heart trouble" RELATED layperson []
is_a: XP:1 ! Finding
relationship: RO:1 XP:5 {source="somebody"} ! affects organ
relationship: RO:1 UBERON:948

[Term]
id: XP:3
name: Lung disease {comment="seldom"} ! lungs
is_a: XP:1 {source="XP:9"} ! Finding

[Term]
id: XP:4
name: Heart failure
alt_id: XP:40
synonym: "HF" EXACT OMO:0003000 [PMID:2]
exact_synonym: "Pump failure" []
narrow_synonym: "Left heart failure" []
xref: MESH:D006333 {source="MONDO:equivalentTo"}
xref: UMLS:C0018801 "Heart failure"
xref: nowhere
is_a: XP:3
is_a: XP:2 ! Heart disease
is_a: XP:2
is_a: UPHENO:1

[Term]
id: XP:5
name: Organ
namespace: anatomy

[Term]
id: XP:9
name: Weak heart
synonym: "Tired heart" EXACT []
is_obsolete: true
replaced_by: XP:4

[Typedef]
id: RO:1
name: affects organ
is_transitive: true

[Instance]
id: XP:77
name: a case
"""


def written(folder, text, name="made_up.obo"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def path(tmp_path):
    return written(tmp_path, HEADER + STANZAS)


def test_concepts_names_and_types(path):
    ontology = read_obo(path, OntologyOptions())
    assert (ontology.name, ontology.version) == ("made_up", "releases/2024-01-01")
    assert ontology.ids == ("XP:1", "XP:2", "XP:3", "XP:4", "XP:5")
    assert ontology.labels == ("Finding", "Heart disease", "Lung disease", "Heart failure", "Organ")
    assert ontology.names == (
        *((label, place) for place, label in enumerate(ontology.labels)),
        ("Cardiac disease", 1),
        ('Cardiopathy "old"', 1),
        ("HF", 3),
        ("Pump failure", 3),
    )
    assert ontology.abbreviations == {"HF"}
    assert ontology.types == ("findings",) * 4 + ("anatomy",)


def test_is_a_and_other_relations(path, capsys):
    ontology = read_obo(path, ALL)
    assert ontology.ancestors("XP:4") == {"XP:2": 1, "XP:3": 1, "XP:1": 2}
    assert ontology.parents.nnz == 4
    assert {name: [matrix.nonzero()[0].tolist(), matrix.nonzero()[1].tolist()] for name, matrix in
            ontology.relations.items()} == {"affects_organ": [[1], [4]]}  # fmt: skip
    assert "left out 2 relations to terms of other ontologies" in capsys.readouterr().err
    assert read_obo(path, OntologyOptions()).relations == {}


def test_cross_references_and_old_ids(path):
    ontology = read_obo(path, OntologyOptions())
    expected = {("MESH:D006333", 3), ("UMLS:C0018801", 3), ("XP:40", 3), ("XP:9", 3)}
    assert set(ontology.cross_references) == expected
    assert [ontology.index(old) for old in ("XP:40", "XP:9", "MESH:D006333", "XP:2")] == [3, 3, 3, 1]
    assert ontology.ancestors("XP:40") == ontology.ancestors("XP:4")


def test_old_ids_serve_in_relations(tmp_path):
    more = "\n[Term]\nid: XP:6\nname: six\nis_a: XP:40\nis_a: XP:9\n"
    more += "\n[Term]\nid: XP:8\nname: split\nis_obsolete: true\nreplaced_by: XP:2\nreplaced_by: XP:3\n"
    ontology = read_obo(written(tmp_path, HEADER + STANZAS + more), ALL)
    assert ontology.ancestors("XP:6")["XP:4"] == 1
    assert "XP:8" not in dict(ontology.cross_references)  # two terms replace it: it stands for neither


def test_it_links_text(path):
    linker = Linker(read_obo(path, OntologyOptions()))
    assert [m.concept for m in linker.link(["known", "HF", ",", "prior", "cardiac", "diseases"])] == ["XP:4", "XP:2"]


def test_gzip_line_breaks_and_byte_order_mark_do_not_matter(path, tmp_path):
    plain = read_obo(path, ALL)
    content = path.read_bytes()
    (tmp_path / "made_up.obo.gz").write_bytes(gzip.compress(content))
    (tmp_path / "windows.obo").write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))
    for name in ("made_up.obo.gz", "windows.obo"):
        other = load_ontology(str(tmp_path / name), options=ALL)
        assert (other.names, other.types) == (plain.names, plain.types)
    assert load_ontology(str(tmp_path / "made_up.obo.gz"), options=ALL).sha256 == plain.sha256
    assert read_obo(path, OntologyOptions()).sha256 != plain.sha256  # other edges make another ontology


def test_a_term_without_a_name_stays_in_the_graph_alone(tmp_path, capsys):
    path = written(tmp_path, "[Term]\nid: X:1\n\n[Term]\nid: X:2\nname: fever\nis_a: X:1\n")
    ontology = read_obo(path, OntologyOptions())
    assert ontology.ancestors("X:2") == {"X:1": 1}
    assert (ontology.labels, ontology.names) == (("X:1", "fever"), (("fever", 1),))
    assert "1 terms have no name" in capsys.readouterr().err
    assert ontology.version == "unknown"
    assert ontology.types == ()


CYCLE = (
    "[Term]\nid: X:1\nname: quokka\nis_a: X:2\n[Term]\nid: X:2\nname: axolotl\nis_a: X:1\n"
    "[Term]\nid: X:3\nname: c\nis_a: X:1\n"
)


def test_a_cycle_is_refused_at_its_first_line_or_dropped(tmp_path, capsys):
    path = written(tmp_path, CYCLE)
    with pytest.raises(DataError) as caught:
        read_obo(path, OntologyOptions())
    assert (caught.value.file, caught.value.line, caught.value.field) == ("made_up.obo", 4, "is_a")
    assert not any(name in str(caught.value) for name in ("quokka", "axolotl"))
    ontology = read_obo(path, OntologyOptions(cycles="drop"))
    assert ontology.ancestors("X:3") == {"X:1": 1}
    assert ontology.ancestors("X:1") == {}
    assert "left out 2 is-a edges" in capsys.readouterr().err


@pytest.mark.parametrize("cycles", ["drop", "refuse"])
def test_with_all_relations_a_cycle_is_walked(cycles, tmp_path):
    """X:1 and X:2 are each other's parents, and X:3 is-a X:1."""
    ontology = read_obo(written(tmp_path, CYCLE), OntologyOptions(relations="all", cycles=cycles))
    assert ontology.ancestors("X:3") == {"X:1": 1}
    assert ontology.relations[CIRCULAR].toarray()[:2, :2].tolist() == [[False, True], [True, False]]
    ends = [[0, 1], [2, 1]]
    assert shortest_paths(ontology, ends, direction="all").tolist() == [1, 2]
    assert shortest_paths(ontology, ends, direction="undirected").tolist() == [-1, -1]


TERM = "[Term]\nid: X:1\nname: fever\n"


@pytest.mark.parametrize(
    "more",
    [
        "is_a: X:2\n[Term]\nid: X:2\nname: old\nis_obsolete: true\n",
        "relationship: part_of X:2\n",
        "relationship: part_of\n",
        'synonym: "hot EXACT []\n',
        "synonym: hot\n",
        "is_a:\n",
        "is_a X:2\n",
        "[Term\nname: hot\n",
        "id: X:2\n",
    ],
)
def test_a_line_that_says_nothing_is_a_fault(tmp_path, more):
    with pytest.raises(DataError) as caught:
        read_obo(written(tmp_path, TERM + more), ALL)
    assert (caught.value.file, caught.value.line) == ("made_up.obo", 4)
    assert caught.value.fix


def test_the_first_twenty_faults_come_together(tmp_path):
    with pytest.raises(DataErrors) as caught:
        read_obo(written(tmp_path, TERM + "is_a: X:2\n" * 25), ALL)
    assert [(error.file, error.line) for error in caught.value.errors] == [("made_up.obo", n) for n in range(4, 24)]
