"""The ontology: its graph, its ids, its permuted control, and where its files are looked for."""

import numpy as np
import pytest
from support.files import write
from support.ontologies import edges_of, is_a_matrix, small
from support.tables import table_rows

from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.load import find_source, load_ontology, ontology_files
from mednli_jax.knowledge.ontology import induced_subgraph, permute
from mednli_jax.knowledge.readers.mesh import BUNDLED, read_mesh
from mednli_jax.knowledge.readers.snomed import read_snomed
from mednli_jax.knowledge.readers.umls import read_umls
from mednli_jax.knowledge.readers.wordnet import read_wordnet

SNAPSHOT = "Snapshot/Terminology/sct2_Concept_Snapshot_INT_20240101.txt"


def test_a_concept_is_found_by_its_id_then_by_a_cross_reference_to_it_alone():
    references = (
        ("MSH:D1", 3),
        ("MSH:D2", 3),
        ("MSH:D2", 4),
        ("X0", 5),
        ("MSH:D1", 3),
    )
    ontology = small(cross_references=references)

    assert list(map(ontology.index, ontology.ids)) == list(range(7))
    assert list(map(ontology.index, ["MSH:D1", "MSH:D2", "zzzz"])) == [3, None, None]
    assert ontology.ancestors("MSH:D1") == ontology.ancestors("X3")


def names_of(ontology, concept):
    return {name for name, place in ontology.names if place == concept}


def test_the_permuted_control_keeps_the_graph_and_moves_names_labels_and_types_together():
    mesh = load_ontology("mesh")
    control = permute(mesh, seed=1)

    assert control.ids == mesh.ids
    assert (control.parents != mesh.parents).nnz == 0  # so path lengths by id are equal
    names, concepts = zip(*mesh.names, strict=True)
    names_of_control, concepts_of_control = zip(*control.names, strict=True)
    assert names_of_control == names
    assert (np.array(concepts_of_control) != np.array(concepts)).mean() > 0.99
    assert sorted(control.labels) == sorted(mesh.labels)
    for concept in (0, 1234, 30000):
        moved_to = control.labels.index(mesh.labels[concept])
        assert control.types[moved_to] == mesh.types[concept]
        assert names_of(control, moved_to) == names_of(mesh, concept)


def test_the_permuted_control_depends_on_the_seed_alone_and_never_changes():
    """Another version of NumPy or Python repeats the control."""
    control = permute(small(), 0)

    assert control.labels == ("deep", "twig", "left", "stray", "leaf", "root", "right")
    assert control.names == permute(small(), 0).names != permute(small(), 1).names
    assert len({small().sha256, control.sha256, permute(small(), 1).sha256}) == 3


@pytest.mark.parametrize("file", ["own.tsv", "own.tsv.gz"])
def test_a_table_in_the_layout_of_mesh_is_loaded_by_its_path(tmp_path, file):
    table = "id\tname\ttree_numbers\tsynonyms\nD1\tHeart Failure\tC14\tPump Failure\n"

    ontology = load_ontology(str(write(tmp_path / file, table)))

    assert ontology.name == "own"
    assert ontology.ids == ("D1",)
    assert ontology.labels == ("Heart Failure",)
    assert ("Pump Failure", 0) in ontology.names


def test_the_name_mesh_loads_the_bundled_table():
    assert load_ontology("mesh").sha256 == read_mesh(BUNDLED).sha256


def test_a_missing_ontology_is_refused_with_the_files_to_get(tmp_path):
    with pytest.raises(ConfigError, match="MRCONSO"):
        load_ontology(str(tmp_path))
    with pytest.raises(ConfigError, match="sct2_Concept_Snapshot"):
        load_ontology("snomed", tmp_path)
    with pytest.raises(ConfigError, match="MEDNLI_JAX_DATA"):
        load_ontology("snomed", None)


READERS = {"umls": read_umls, "snomed": read_snomed, "wordnet": read_wordnet}


@pytest.mark.parametrize(
    "name, place, files",
    table_rows(f"""
        umls | | MRCONSO.RRF MRREL.RRF
        umls | META | META/MRCONSO.RRF.gz META/MRSTY.RRF.gz META/release.dat
        snomed | | {SNAPSHOT}
        wordnet | | data.noun data.verb index.noun index.verb
        wordnet | | dict/data.noun dict/data.verb dict/index.noun.gz dict/index.verb
    """),
)
def test_the_files_of_a_folder_choose_its_reader(tmp_path, name, place, files):
    folder = tmp_path / name
    paths = {write(folder / file, "") for file in files.split()}

    for spec, data_dir in ((name, tmp_path), (str(folder), None)):
        source = find_source(spec, data_dir)
        assert source.name == name
        assert source.read == READERS[name]
        assert source.place == folder / place
        assert set(ontology_files(spec, data_dir)) == paths


def test_an_ontology_is_looked_for_in_the_data_folder_of_the_config_then_in_that_of_the_variable(
    tmp_path, monkeypatch
):
    own = tmp_path / "own"
    shared = tmp_path / "shared"
    write(own / "train.jsonl", "")
    write(shared / "umls" / "MRREL.RRF", "")

    with pytest.raises(ConfigError, match=str(own)):
        find_source("umls", own)
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(shared))
    assert find_source("umls", own).place == find_source("umls").place == shared / "umls"
    (own / "umls").mkdir()  # without files
    assert find_source("umls", own).place == shared / "umls"
    write(own / "umls" / "MRCONSO.RRF", "")
    assert find_source("umls", own).place == own / "umls"


def test_snomed_of_the_config_is_joined_with_the_umls_of_the_variable(tmp_path, monkeypatch):
    release = write(tmp_path / "own" / "snomed" / SNAPSHOT, "")
    conso = write(tmp_path / "shared" / "umls" / "MRCONSO.RRF", "")
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path / "shared"))

    assert find_source("snomed", tmp_path / "own").files == (release, conso)


def test_the_induced_graph_has_all_relations_between_mentioned_concepts_alone():
    """As in the code of Romanov & Shivade 2018."""
    whole = small(relations={"part_of": is_a_matrix([(5, 4), (5, 0)], 7)})
    mentioned = induced_subgraph(whole, ["X1", "X3", "X5", "X4", "absent"])
    unrelated = induced_subgraph(whole, ["X3", "X4"])

    assert edges_of(mentioned.parents, whole.ids) == {("X3", "X1")}
    assert edges_of(mentioned.relations["part_of"], whole.ids) == {("X5", "X4")}
    assert unrelated.parents.nnz == unrelated.relations["part_of"].nnz == 0
    assert unrelated.ids == whole.ids
    assert len({whole.sha256, mentioned.sha256, unrelated.sha256}) == 3
