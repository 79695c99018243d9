"""The ontology: its graph, its checks, its permuted control, and loading by name."""

import numpy as np
import pytest
from support.files import write
from support.ontologies import bundled_mesh, edges_of, is_a_matrix, small

from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.load import find_source, load_ontology, ontology_files
from mednli_jax.knowledge.ontology import induced, permuted
from mednli_jax.knowledge.readers.snomed import read_snomed
from mednli_jax.knowledge.readers.umls import read_umls
from mednli_jax.knowledge.readers.wordnet import read_wordnet


def test_index_by_id_or_by_a_cross_reference_of_one_concept():
    references = (("MSH:D1", 3), ("MSH:D2", 3), ("MSH:D2", 4), ("X0", 5), ("MSH:D1", 3))
    ontology = small(cross_references=references)
    assert [ontology.index(concept) for concept in ontology.ids] == list(
        range(7)
    )  # ids before cross-references
    assert [ontology.index(concept) for concept in ("MSH:D1", "MSH:D2", "zzzz")] == [3, None, None]
    assert ontology.ancestors("MSH:D1") == ontology.ancestors("X3")


def test_permuted_keeps_graph_and_names_but_breaks_relations():
    """The result depends on the seed alone and never changes: other versions of NumPy or Python
    repeat the control."""
    mesh, control = bundled_mesh(), permuted(bundled_mesh(), seed=1)
    assert control.ids == mesh.ids
    assert (
        control.parents != mesh.parents
    ).nnz == 0  # so degrees and path lengths by id stay equal
    assert [name for name, _ in control.names] == [name for name, _ in mesh.names]
    assert sorted(control.labels) == sorted(mesh.labels)
    moved = np.array([index for _, index in control.names]) != np.array(
        [index for _, index in mesh.names]
    )
    assert moved.mean() > 0.99
    # A label moves together with its type and its other names.
    for concept in (0, 1234, 30000):
        there = control.labels.index(mesh.labels[concept])
        assert control.types[there] == mesh.types[concept]
        assert {n for n, c in control.names if c == there} == {
            n for n, c in mesh.names if c == concept
        }
    assert permuted(small(), 0).labels == ("deep", "twig", "left", "stray", "leaf", "root", "right")
    assert permuted(small(), 0).names == permuted(small(), 0).names != permuted(small(), 1).names
    assert len({small().sha256, permuted(small(), 0).sha256, permuted(small(), 1).sha256}) == 3


def test_load_by_path_and_from_an_empty_folder(tmp_path):
    table = "id\tname\ttree_numbers\tsynonyms\nD1\tHeart Failure\tC14\tPump Failure\n"
    for path in (write(tmp_path / "own.tsv", table), write(tmp_path / "own.tsv.gz", table)):
        ontology = load_ontology(str(path), None)
        assert (ontology.name, ontology.ids, ontology.labels) == (
            "own",
            ("D1",),
            ("Heart Failure",),
        )
        assert ("Pump Failure", 0) in ontology.names
    assert load_ontology("mesh").sha256 == bundled_mesh().sha256
    with pytest.raises(ConfigError, match="MRCONSO"):
        load_ontology(str(tmp_path))
    for place, wanted in ((tmp_path, "sct2_Concept_Snapshot"), (None, "MEDNLI_JAX_DATA")):
        with pytest.raises(ConfigError, match=wanted):
            load_ontology("snomed", place)


@pytest.mark.parametrize(
    ("files", "kind", "reader", "place"),
    [
        (("MRCONSO.RRF", "MRREL.RRF"), "umls", read_umls, ""),
        (
            ("META/MRCONSO.RRF.gz", "META/MRSTY.RRF.gz", "META/release.dat"),
            "umls",
            read_umls,
            "META",
        ),
        (
            ("Snapshot/Terminology/sct2_Concept_Snapshot_INT_20240101.txt",),
            "snomed",
            read_snomed,
            "",
        ),
        (("data.noun", "data.verb", "index.noun", "index.verb"), "wordnet", read_wordnet, ""),
        (
            ("dict/data.noun", "dict/data.verb", "dict/index.noun.gz", "dict/index.verb"),
            "wordnet",
            read_wordnet,
            "",
        ),
    ],
)
def test_a_folder_is_known_by_its_files(tmp_path, files, kind, reader, place):
    for name in files:
        (tmp_path / kind / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / kind / name).touch()
    for spec, data_dir in ((kind, tmp_path), (str(tmp_path / kind), None)):
        source = find_source(spec, data_dir)
        assert (source.name, source.read, source.place) == (kind, reader, tmp_path / kind / place)
        assert {
            str(path.relative_to(tmp_path / kind)) for path in ontology_files(spec, data_dir)
        } == set(files)


def test_an_ontology_is_looked_for_in_the_folder_of_the_config_then_in_that_of_the_variable(
    tmp_path, monkeypatch
):
    """The SNOMED CT of one folder is joined with the UMLS of the other."""
    own, shared = tmp_path / "own", tmp_path / "shared"
    release = "snomed/Snapshot/Terminology/sct2_Concept_Snapshot_INT_20240101.txt"
    for path in (
        own / "train.jsonl",
        shared / "umls" / "MRCONSO.RRF",
        shared / "umls" / "MRREL.RRF",
        own / release,
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with pytest.raises(ConfigError, match=str(own)):
        find_source("umls", own)
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(shared))
    assert find_source("umls", own).place == find_source("umls").place == shared / "umls"
    assert find_source("snomed", own).files == (own / release, shared / "umls" / "MRCONSO.RRF")
    (own / "umls").mkdir()  # without files
    assert find_source("umls", own).place == shared / "umls"
    (own / "umls" / "MRCONSO.RRF").touch()
    assert find_source("umls", own).place == own / "umls"


def test_the_graph_among_mentioned_concepts():
    """As in the code of Romanov & Shivade 2018: all relations count, edges to other concepts do
    not."""
    whole = small(relations={"part_of": is_a_matrix([(5, 4), (5, 0)], 7)})
    some, few = induced(whole, ["X1", "X3", "X5", "X4", "absent"]), induced(whole, ["X3", "X4"])
    assert edges_of(some.parents, some.ids) == {("X3", "X1")}
    assert edges_of(some.relations["part_of"], some.ids) == {("X5", "X4")}
    assert few.parents.nnz == few.relations["part_of"].nnz == 0
    assert len({graph.sha256 for graph in (whole, some, few)}) == 3
    assert few.ids == whole.ids
