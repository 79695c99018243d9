"""The UMLS reader on made-up files in the official layout: names, filters, directions of
relations."""

import gzip
import subprocess

import pytest
from support.cases import cases
from support.files import lay_out
from support.ontologies import edges_of
from support.ontology_files import REL, STY, UMLS, umls_relation
from support.tables import fields_of, table_rows

from mednli_jax.errors import DataError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.umls import LINK_TYPES, read_umls

IS_A = "C0000002 C0000001, C0000003 C0000001, C0000004 C0000002, C0000004 C0000003"


@pytest.fixture
def read(tmp_path):
    """Reads the files of UMLS, of which some may be changed."""

    def read_files(*, changed=None, **options):
        folder = lay_out(tmp_path, {**UMLS, **(changed or {})})
        return read_umls(folder, OntologyOptions(**options))

    return read_files


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return read_umls(lay_out(tmp_path_factory.mktemp("umls"), UMLS), OntologyOptions())


def edges(ontology, matrix):
    """The edges as "child parent, child parent"."""
    return ", ".join(sorted(map(" ".join, edges_of(matrix, ontology.ids))))


def test_a_concept_has_its_preferred_name_and_each_synonym_once(plain):
    labels = plain.labels
    assert plain.name == "umls"
    assert " ".join(plain.ids) == "C0000001 C0000002 C0000003 C0000004 C0000005"
    assert "/".join(labels) == "quokka disease/fever of quokkas/wombat first/narwhal/pouch"
    assert plain.names[:5] == tuple(zip(labels, range(5), strict=True))
    assert sorted(plain.names[5:]) == [("quokka fever", 1), ("wombat naïve", 2)]


def test_codes_of_the_chosen_sources_are_cross_references(plain, read):
    codes = {(f"SNOMEDCT_US:{digit * 3}", place) for place, digit in enumerate("12345")}

    assert set(plain.cross_references) == codes
    joined = read(sources=("SNOMEDCT_US", "MSH"))
    assert set(joined.cross_references) == codes | {("MSH:D555", 4), ("MSH:D777", 5)}


@cases(
    "options, labels",
    {
        "one-source": ({"sources": ("MSH",)}, "C0000005 marsupium/C0000007 other"),
        "one-language": ({"languages": ("FRE",)}, "C0000008 fièvre"),
        "all-but-suppressed": (
            {"sources": (), "languages": ()},
            "C0000001 quokka disease/C0000002 fever of quokkas/C0000003 wombat first/"
            "C0000004 narwhal/C0000005 pouch/C0000007 other/C0000008 fièvre",
        ),
    },
)
def test_sources_and_languages_choose_the_concepts(plain, read, options, labels):
    ontology = read(**options)

    concepts = zip(ontology.ids, ontology.labels, strict=True)
    assert "/".join(map(" ".join, concepts)) == labels
    assert ontology.sha256 != plain.sha256


def test_an_edge_of_a_source_that_is_not_chosen_is_left_out(plain, read):
    everything = read(sources=(), languages=())

    assert "C0000005 C0000001" in edges(everything, everything.parents)
    assert edges(plain, plain.parents) == IS_A


def test_is_a_is_read_from_rel_and_rela_in_either_direction(plain):
    assert edges(plain, plain.parents) == IS_A
    assert plain.ancestors("C0000004") == {"C0000002": 1, "C0000003": 1, "C0000001": 2}


def test_relations_besides_is_a_are_read_on_request_alone(plain, read):
    whole = read(relations="all")

    assert dict(plain.relations) == {}
    assert edges(whole, whole.parents) == IS_A
    assert {name: edges(whole, matrix) for name, matrix in whole.relations.items()} == {
        "has_finding_site": "C0000002 C0000005",
        "finding_site_of": "C0000005 C0000002",
        "RB": "C0000001 C0000003",
    }


@pytest.mark.parametrize(
    "rel, rela, edge",
    table_rows("""
        PAR | isa | C0000002 C0000001
        CHD | inverse_isa | C0000001 C0000002
        RN | isa | C0000001 C0000002
        RB | inverse_isa | C0000002 C0000001
    """),
)
def test_where_rel_and_rela_disagree_on_the_hierarchy_rel_counts(read, rel, rela, edge):
    rows = umls_relation("C0000002", rel, "C0000001", rela)

    ontology = read(changed={"MRREL.RRF": rows})

    assert edges(ontology, ontology.parents) == edge


def test_semantic_types_choose_the_concepts_of_the_umls_that_are_linked(read):
    professional_group = STY.replace("C0000004|T047", "C0000004|T097")
    ontology = read(changed={"MRSTY.RRF": professional_group})

    mentions = Linker(ontology).link(["the", "narwhal", "has", "quokka", "fever"])

    assert " ".join(ontology.types) == "T047|T191 T047 T047 T097 T023"
    assert {"T047", "T023", "T061", "T121"} < set(LINK_TYPES)
    assert "T097" not in LINK_TYPES
    assert [mention.concept for mention in mentions] == ["C0000002"]


@pytest.mark.parametrize(
    "parent, left",
    [
        ("C0000004", ""),  # closes the cycles C4-C2-C1 and C4-C3-C1
        ("C0000002", IS_A.partition(", ")[2]),
    ],
)
def test_is_a_edges_on_cycles_are_left_out_and_counted(read, capsys, parent, left):
    cycle = umls_relation("C0000001", "PAR", parent)

    ontology = read(changed={"MRREL.RRF": REL + cycle})

    assert edges(ontology, ontology.parents) == left
    assert f"left out {5 - ontology.parents.nnz} is-a edges" in capsys.readouterr().err


def test_the_release_of_the_umls_is_the_version_of_the_ontology(read):
    release = "umls.release.date=20240506\numls.release.name=2024AA\n"

    assert read(changed={"release.dat": release}).version == "2024AA"


@pytest.mark.parametrize(
    "options, words",
    table_rows("""
        # The fix has the source that the file has.
        sources=["SNOMEDCT"] | SAB / SNOMEDCT_US
        sources=["SNOMEDCT_US","SNOMEDCT"] | SAB / SNOMEDCT_US
        sources=["snomedct_us"] | such as SNOMEDCT_US.
        languages=["ENG","SPA","GER"] | LAT / GER or SPA
        sources=["MSH"] languages=["FRE"] | MRCONSO.RRF
    """),
)
def test_a_source_or_language_that_is_not_there_is_refused(read, options, words):
    with pytest.raises(DataError, match=r"^MRCONSO\.RRF") as caught:
        read(**fields_of(options))

    assert all(word in str(caught.value) for word in words.split(" / "))


@pytest.mark.parametrize("form", ["{name}.{part}.gz", "{name}.{part}", "{name}.gz.{part}"])
@pytest.mark.parametrize("folder", ["umls", "umls/META"])
@pytest.mark.parametrize("files", ["MRCONSO.RRF MRSTY.RRF MRREL.RRF", "MRREL.RRF"])
def test_files_in_parts_are_refused_with_the_command_that_joins_them(
    tmp_path, plain, form, folder, files
):
    place = lay_out(tmp_path / folder, UMLS)
    for name in files.split():
        content = (place / name).read_bytes()
        (place / name).unlink()
        if ".gz." in form:
            content = gzip.compress(content)
        for part, piece in (("aa", content[:99]), ("ab", content[99:])):
            path = place / form.format(name=name, part=part)
            path.write_bytes(gzip.compress(piece) if path.suffix == ".gz" else piece)

    with pytest.raises(DataError) as caught:
        load_ontology("umls", tmp_path)

    command = caught.value.fix.partition("(")[2].rpartition(")")[0]
    subprocess.run(command, shell=True, check=True)
    assert load_ontology("umls", tmp_path).names == plain.names
