"""The MeSH reader: facts checked by hand against tree numbers, and names."""

import pytest
from support.files import write
from support.tables import table_rows

from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.readers.mesh import HEADER, natural_order, read_mesh


@pytest.fixture(scope="module")
def mesh():
    return load_ontology("mesh")


def own_table(folder, *rows):
    """rows: with "/" between the cells."""
    lines = ["\t".join(HEADER), *(row.replace("/", "\t") for row in rows)]
    return write(folder / "table.tsv", "".join(f"{line}\n" for line in lines))


def test_the_bundled_edition_has_the_concepts_and_parents_of_2024(mesh):
    assert mesh.version == "2024"
    assert len(mesh) == len(mesh.ids) == 30764
    # 42,021 by tree numbers, without the one that would close a cycle
    assert mesh.parents.nnz == 42020
    assert list(mesh.ids) == sorted(mesh.ids)
    assert mesh.types.count("") == 2  # Female and Male have no tree number


def test_the_cycle_of_mesh_is_opened_at_its_lower_place(mesh):
    """The tree numbers of Ocular Motility Disorders are C10.228.758, C10.292.562, C11.590 and,
    below its own child Strabismus, C10.292.562.887.825."""
    motility_disorders = "D015835"
    strabismus = "D013285"

    assert "C10.292.562.887.825" in mesh.types[mesh.index(motility_disorders)].split("|")
    assert mesh.ancestors(strabismus)[motility_disorders] == 1
    assert strabismus not in mesh.ancestors(motility_disorders)


def test_ancestors_follow_tree_numbers(mesh):
    """Atrial Fibrillation: C14.280.067.198 -> C14.280.067 -> C14.280 -> C14, and C23.550.073.198 ->
    C23.550.073 -> C23.550 -> C23. Both .067 and .073 are Arrhythmias, Cardiac; Heart Diseases is
    C14.280, Pathologic Processes C23.550."""
    labels = {}
    for concept, distance in mesh.ancestors("D001281").items():
        labels[mesh.labels[mesh.index(concept)]] = distance

    assert mesh.labels[mesh.index("D001281")] == "Atrial Fibrillation"
    assert labels == {
        "Arrhythmias, Cardiac": 1,
        "Heart Diseases": 2,
        "Pathologic Processes": 2,
        "Cardiovascular Diseases": 3,
        "Pathological Conditions, Signs and Symptoms": 3,
    }


@pytest.mark.parametrize(
    "name, concept",
    table_rows("""
        # a synonym
        auricular fibrillation | D001281
        # an everyday name that the table lacks
        breast cancer | D001943
        # an abbreviation
        chf | D006333
        # in natural order
        type 2 diabetes mellitus | D003924
    """),
)
def test_names_hold_synonyms_aliases_abbreviations_and_natural_order(mesh, name, concept):
    concepts = [mesh.ids[place] for text, place in mesh.names if text.casefold() == name]

    assert concepts[0] == concept


def test_preferred_names_come_first_and_no_name_comes_twice(mesh):
    names = [name for name, _ in mesh.names[: len(mesh)]]

    assert names == list(mesh.labels)
    assert len(set(mesh.names)) == len(mesh.names)
    assert "chf" in mesh.abbreviations


@pytest.mark.parametrize(
    "name, natural",
    table_rows("""
        Diabetes Mellitus, Type 2 | Type 2 Diabetes Mellitus
        Neoplasm, Breast | Breast Neoplasm
        Leukemia, Myeloid, Acute | Acute Myeloid Leukemia
        Heart Failure |
        2,4-Dichlorophenoxyacetic Acid |
        Ethanol, 2-chloro- |
        Nose, Mouth, and Throat |
        Abortion, Induced (Legal) |
    """),
)
def test_an_inverted_name_is_turned_into_natural_order(name, natural):
    assert natural_order(name) == (natural or None)


def test_a_table_of_ones_own_gets_the_aliases_of_its_concepts(tmp_path):
    names = read_mesh(own_table(tmp_path, "D006333/Heart Failure/C14/")).names

    assert ("chf", 0) in names
    assert "htn" not in dict(names)


def test_natural_order_adds_no_name_that_another_concept_has(tmp_path):
    rows = ("D1/Failure, Heart/C01/", "D2/Heart Failure/C02/", "D3/Pain, Chest/C03/")

    names = read_mesh(own_table(tmp_path, *rows)).names

    assert dict(names) == {
        "Failure, Heart": 0,
        "Heart Failure": 1,
        "Pain, Chest": 2,
        "Chest Pain": 2,
    }
    assert len(names) == 4


def test_parents_follow_tree_numbers_in_any_order_of_rows(tmp_path):
    path = own_table(
        tmp_path,
        "D3/leaf/C01.100.200|C02.100/",
        "D1/top/C01/summit|peak",
        "D2/middle/C01.100/",
        "D4/orphan/C09.100.100/",
    )

    ontology = read_mesh(path)

    assert ontology.ids == ("D1", "D2", "D3", "D4")
    assert ontology.ancestors("D3") == {"D2": 1, "D1": 2}  # no row has C02, so it gives no parent
    assert ontology.ancestors("D4") == {}
    assert ontology.types[2] == "C01.100.200|C02.100"
    assert ("peak", 0) in ontology.names


def test_a_subset_of_mesh_has_edges_over_the_gaps_in_its_tree(tmp_path):
    path = own_table(tmp_path, "D1/heart disease/C14.280/", "D2/heart failure/C14.280.434.100/")

    ontology = read_mesh(path)

    assert ontology.ancestors("D2") == {"D1": 1}
    assert ontology.version == "unknown"
