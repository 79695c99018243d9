"""The OBO reader on a made-up file whose graph is checked by hand."""

import pytest
from made_up_knowledge import OBO, edges_of, write

from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.obo import read_obo

PLAIN, ALL = OntologyOptions(), OntologyOptions(relations="all")


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "made_up.obo", OBO)


def test_concepts_names_and_types(path):
    ontology = read_obo(path, PLAIN)
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
    linked = Linker(ontology).link(["known", "HF", ",", "prior", "cardiac", "diseases"])
    assert [mention.concept for mention in linked] == ["XP:4", "XP:2"]


def test_is_a_and_other_relations(path, capsys):
    ontology = read_obo(path, ALL)
    assert ontology.ancestors("XP:4") == {"XP:2": 1, "XP:3": 1, "XP:1": 2}
    assert ontology.parents.nnz == 4
    assert list(ontology.relations) == ["affects_organ"]
    assert edges_of(ontology.relations["affects_organ"], ontology.ids) == {("XP:2", "XP:5")}
    assert "left out 2 relations to terms of other ontologies" in capsys.readouterr().err
    assert read_obo(path, PLAIN).relations == {}


def test_cross_references_and_old_ids(path):
    ontology = read_obo(path, PLAIN)
    expected = {("MESH:D006333", 3), ("UMLS:C0018801", 3), ("XP:40", 3), ("XP:9", 3)}
    assert set(ontology.cross_references) == expected
    assert [ontology.index(old) for old in ("XP:40", "XP:9", "MESH:D006333", "XP:2")] == [3, 3, 3, 1]
    assert ontology.ancestors("XP:40") == ontology.ancestors("XP:4")
    more = "\n[Term]\nid: XP:6\nname: six\nis_a: XP:40\nis_a: XP:9\n"
    more += "\n[Term]\nid: XP:8\nname: split\nis_obsolete: true\nreplaced_by: XP:2\nreplaced_by: XP:3\n"
    ontology = read_obo(write(path, OBO + more), ALL)
    assert ontology.ancestors("XP:6")["XP:4"] == 1
    assert "XP:8" not in dict(ontology.cross_references)  # two terms replace it: it stands for neither


def test_a_term_without_a_name_stays_in_the_graph_alone(tmp_path):
    path = write(tmp_path / "made_up.obo", "[Term]\nid: X:1\n\n[Term]\nid: X:2\nname: fever\nis_a: X:1\n")
    ontology = read_obo(path, PLAIN)
    assert ontology.ancestors("X:2") == {"X:1": 1}
    assert (ontology.labels, ontology.names) == (("X:1", "fever"), (("fever", 1),))
    assert ontology.version == "unknown"
    assert ontology.types == ()
