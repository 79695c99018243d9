"""The MeSH reader: facts checked by hand against tree numbers, and names."""

import pytest
from support.files import write
from support.ontologies import bundled_mesh

from mednli_jax.knowledge.readers.mesh import HEADER, natural_order, read_mesh


@pytest.fixture(scope="module")
def mesh():
    return bundled_mesh()


def table(folder, *rows):
    return write(folder / "table.tsv", "".join("\t".join(row) + "\n" for row in (HEADER, *rows)))


def test_the_2024_edition(mesh):
    assert len(mesh) == len(mesh.ids) == 30764
    assert (
        mesh.parents.nnz == 42020
    )  # 42,021 by tree numbers, without the one that would close a cycle
    assert mesh.version == "2024"
    assert list(mesh.ids) == sorted(mesh.ids)
    assert sum(not kinds for kinds in mesh.types) == 2  # Female and Male have no tree number
    # The one cycle of 2024 is opened at the lower place: the tree numbers of Ocular Motility
    # Disorders are C10.228.758, C10.292.562, C11.590 and, below its own child, C10.292.562.887.825.
    assert "C10.292.562.887.825" in mesh.types[mesh.index("D015835")].split("|")
    assert mesh.ancestors("D013285")["D015835"] == 1  # Strabismus is an ocular motility disorder
    assert "D013285" not in mesh.ancestors("D015835")


def test_ancestors_by_tree_numbers(mesh):
    # Atrial Fibrillation: C14.280.067.198 -> C14.280.067 -> C14.280 -> C14, and C23.550.073.198 ->
    # C23.550.073 -> C23.550 -> C23. Both .067 and .073 are Arrhythmias, Cardiac; Heart Diseases is
    # C14.280, Pathologic Processes C23.550.
    assert mesh.labels[mesh.index("D001281")] == "Atrial Fibrillation"
    found = mesh.ancestors("D001281")
    assert {mesh.labels[mesh.index(concept)]: distance for concept, distance in found.items()} == {
        "Arrhythmias, Cardiac": 1,
        "Heart Diseases": 2,
        "Pathologic Processes": 2,
        "Cardiovascular Diseases": 3,
        "Pathological Conditions, Signs and Symptoms": 3,
    }


def test_names_hold_synonyms_aliases_abbreviations_and_natural_order(mesh):
    concepts = {}
    for name, concept in mesh.names:
        concepts.setdefault(name.casefold(), []).append(mesh.ids[concept])
    assert concepts["auricular fibrillation"] == ["D001281"]  # a synonym
    assert concepts["breast cancer"] == ["D001943"]  # an everyday name that the table lacks
    assert concepts["chf"][0] == "D006333"  # an abbreviation
    assert "CHF".casefold() in mesh.abbreviations
    assert concepts["type 2 diabetes mellitus"] == ["D003924"]
    assert len(set(mesh.names)) == len(mesh.names)
    assert [name for name, _ in mesh.names[: len(mesh)]] == list(
        mesh.labels
    )  # preferred names come first


@pytest.mark.parametrize(
    ("name", "natural"),
    [
        ("Diabetes Mellitus, Type 2", "Type 2 Diabetes Mellitus"),
        ("Neoplasm, Breast", "Breast Neoplasm"),
        ("Leukemia, Myeloid, Acute", "Acute Myeloid Leukemia"),
        ("Heart Failure", None),
        ("2,4-Dichlorophenoxyacetic Acid", None),
        ("Ethanol, 2-chloro-", None),
        ("Nose, Mouth, and Throat", None),
        ("Abortion, Induced (Legal)", None),
    ],
)
def test_natural_order(name, natural):
    assert natural_order(name) == natural


def test_a_table_of_ones_own_gets_its_aliases_and_natural_order_that_is_no_other_name(tmp_path):
    own = read_mesh(table(tmp_path, ("D006333", "Heart Failure", "C14", "")))
    assert ("chf", 0) in own.names
    assert "htn" not in {name for name, _ in own.names}
    rows = [
        ("D1", "Failure, Heart", "C01", ""),
        ("D2", "Heart Failure", "C02", ""),
        ("D3", "Pain, Chest", "C03", ""),
    ]
    names = read_mesh(table(tmp_path, *rows)).names
    assert names == (
        ("Failure, Heart", 0),
        ("Heart Failure", 1),
        ("Pain, Chest", 2),
        ("Chest Pain", 2),
    )


def test_parents_follow_tree_numbers_whatever_the_order_of_rows_and_the_line_ends(tmp_path):
    path = table(
        tmp_path,
        ("D3", "leaf", "C01.100.200|C02.100", ""),
        ("D1", "top", "C01", "summit|peak"),
        ("D2", "middle", "C01.100", ""),
        ("D4", "orphan", "C09.100.100", ""),
    )
    windows = write(
        tmp_path / "windows.tsv", b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")
    )
    for ontology in (read_mesh(path), read_mesh(windows)):
        assert ontology.ids == ("D1", "D2", "D3", "D4")
        assert ontology.ancestors("D3") == {
            "D2": 1,
            "D1": 2,
        }  # no row has C02, so it gives no parent
        assert ontology.ancestors("D4") == {}
        assert ontology.types[2] == "C01.100.200|C02.100"
        assert ("peak", 0) in ontology.names
