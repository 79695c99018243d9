"""The UMLS reader on made-up files in the official layout: names, filters, directions of
relations."""

import gzip
import subprocess

import pytest
from support.files import lay_out
from support.ontologies import edges_of
from support.ontology_files import REL, STY, UMLS, umls_relation

from mednli_jax.errors import DataError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.umls import LINK_TYPES, read_umls

PLAIN, ALL = OntologyOptions(), OntologyOptions(relations="all")
IS_A = {
    (f"C000000{child}", f"C000000{parent}") for child, parent in ((2, 1), (3, 1), (4, 2), (4, 3))
}


@pytest.fixture
def made_up(tmp_path):
    return lay_out(tmp_path, UMLS)


def refused(folder, options=PLAIN):
    with pytest.raises(DataError) as caught:
        read_umls(folder, options)
    return caught.value


def test_names_labels_and_cross_references_in_the_chosen_sources_and_languages(made_up):
    ontology = read_umls(made_up, PLAIN)
    assert ontology.name == "umls"
    assert ontology.ids == ("C0000001", "C0000002", "C0000003", "C0000004", "C0000005")
    assert ontology.labels == (
        "quokka disease",
        "fever of quokkas",
        "wombat first",
        "narwhal",
        "pouch",
    )
    assert list(ontology.names[:5]) == [
        (label, index) for index, label in enumerate(ontology.labels)
    ]
    assert set(ontology.names[5:]) == {("quokka fever", 1), ("wombat naïve", 2)}
    assert len(set(ontology.names)) == len(ontology.names)
    own = {(f"SNOMEDCT_US:{code * 3}", index) for index, code in enumerate("12345")}
    assert set(ontology.cross_references) == own
    both = read_umls(made_up, OntologyOptions(sources=("SNOMEDCT_US", "MSH")))
    assert set(both.cross_references) == own | {("MSH:D555", 4), ("MSH:D777", 5)}
    mesh = read_umls(made_up, OntologyOptions(sources=("MSH",)))
    assert (mesh.ids, mesh.labels) == (("C0000005", "C0000007"), ("marsupium", "other"))
    french = read_umls(made_up, OntologyOptions(languages=("FRE",)))
    assert french.labels == ("fièvre",)
    everything = read_umls(made_up, OntologyOptions(sources=(), languages=()))
    assert everything.ids == tuple(
        f"C000000{n}" for n in (1, 2, 3, 4, 5, 7, 8)
    )  # all but the suppressed one
    assert edges_of(everything.parents, everything.ids) > {
        ("C0000005", "C0000001")
    }  # MSH states this edge
    assert len({other.sha256 for other in (mesh, french, everything, ontology)}) == 4


def test_is_a_and_other_relations_however_they_are_stated(made_up):
    ontology = read_umls(made_up, PLAIN)
    assert edges_of(ontology.parents, ontology.ids) == IS_A
    assert ontology.ancestors("C0000004") == {"C0000002": 1, "C0000003": 1, "C0000001": 2}
    assert dict(ontology.relations) == {}
    ontology = read_umls(made_up, ALL)
    assert {
        name: edges_of(matrix, ontology.ids) for name, matrix in ontology.relations.items()
    } == {
        "has_finding_site": {("C0000002", "C0000005")},
        "finding_site_of": {("C0000005", "C0000002")},
        "RB": {("C0000001", "C0000003")},
    }
    assert edges_of(ontology.parents, ontology.ids) == IS_A


@pytest.mark.parametrize(
    ("rel", "rela", "expected"),
    [
        ("PAR", "isa", ("C0000002", "C0000001")),
        ("CHD", "inverse_isa", ("C0000001", "C0000002")),
        ("RN", "isa", ("C0000001", "C0000002")),
        ("RB", "inverse_isa", ("C0000002", "C0000001")),
    ],
)
def test_where_rel_and_rela_disagree_on_the_hierarchy_rel_counts(tmp_path, rel, rela, expected):
    rows = umls_relation("C0000002", rel, "C0000001", rela)
    ontology = read_umls(lay_out(tmp_path, UMLS, MRREL_RRF=rows), PLAIN)
    assert edges_of(ontology.parents, ontology.ids) == {expected}


def test_types_filter_what_is_linked(tmp_path):
    sty = STY.replace("C0000004|T047", "C0000004|T097")  # the type of a professional group
    ontology = read_umls(lay_out(tmp_path, UMLS, MRSTY_RRF=sty), PLAIN)
    assert ontology.types == ("T047|T191", "T047", "T047", "T097", "T023")
    assert {"T047", "T023", "T061", "T121"} < set(LINK_TYPES)
    assert "T097" not in LINK_TYPES
    linked = Linker(ontology).link(["the", "narwhal", "has", "quokka", "fever"])
    assert [(mention.start, mention.end, mention.concept) for mention in linked] == [
        (3, 5, "C0000002")
    ]


def test_is_a_edges_on_cycles_are_left_out_and_counted(tmp_path, capsys):
    # C1 is-a C4 closes the cycles C4-C2-C1 and C4-C3-C1. All five is-a edges lie on one.
    folder = lay_out(tmp_path, UMLS, MRREL_RRF=REL + umls_relation("C0000001", "PAR", "C0000004"))
    assert read_umls(folder, PLAIN).parents.nnz == 0
    assert "left out 5 is-a edges" in capsys.readouterr().err
    # C1 is-a C2 leaves the edges of C3 and C4 off the cycle.
    lay_out(tmp_path, UMLS, MRREL_RRF=REL + umls_relation("C0000001", "PAR", "C0000002"))
    assert edges_of(read_umls(folder, PLAIN).parents, "12345") == {
        ("3", "1"),
        ("4", "2"),
        ("4", "3"),
    }


def test_the_release_is_its_version(tmp_path):
    lay_out(
        tmp_path,
        {**UMLS, "release.dat": "umls.release.date=20240506\numls.release.name=2024AA\n"},
    )
    assert read_umls(tmp_path, PLAIN).version == "2024AA"


def test_a_source_or_language_that_is_not_there_is_a_fault(made_up):
    for sources in (("SNOMEDCT",), ("SNOMEDCT_US", "SNOMEDCT")):
        error = refused(made_up, OntologyOptions(sources=sources))
        assert (error.file, error.field) == ("MRCONSO.RRF", "SAB")
        assert "SNOMEDCT_US" in error.fix  # the source that the file does have
    error = refused(made_up, OntologyOptions(languages=("ENG", "SPA", "GER")))
    assert (error.file, error.field) == ("MRCONSO.RRF", "LAT")
    assert "GER or SPA" in error.problem
    assert (
        refused(made_up, OntologyOptions(sources=("MSH",), languages=("FRE",))).file
        == "MRCONSO.RRF"
    )


@pytest.mark.parametrize("form", ["{name}.{part}.gz", "{name}.{part}", "{name}.gz.{part}"])
@pytest.mark.parametrize("folder", ["umls", "umls/META"])
@pytest.mark.parametrize("files", [UMLS, ("MRREL.RRF",)])
def test_files_in_parts_are_refused_with_the_command_that_joins_them(tmp_path, form, folder, files):
    place = lay_out(tmp_path / folder, UMLS)
    whole = read_umls(place, PLAIN)
    for name in files:
        content = (place / name).read_bytes()
        content = gzip.compress(content) if ".gz." in form else content
        (place / name).unlink()
        for part, piece in (("aa", content[:99]), ("ab", content[99:])):
            path = place / form.format(name=name, part=part)
            path.write_bytes(gzip.compress(piece) if form.endswith(".gz") else piece)
    with pytest.raises(DataError) as caught:
        load_ontology("umls", tmp_path)
    command = caught.value.fix.partition("(")[2].rpartition(")")[0]
    subprocess.run(command, shell=True, check=True)
    assert load_ontology("umls", tmp_path).names == whole.names
