"""The SNOMED CT reader on made-up RF2 snapshots in the official layout: names, semantic tags,
relationships, editions."""

import re

import pytest
from support.files import write
from support.ontologies import edges_of
from support.ontology_files import (
    FSN,
    IS_A,
    RF2_FILES,
    RF2_FOLDER,
    RF2_ROWS,
    SITE,
    rf2_table,
    rrf_row,
    sct_edge,
    sct_term,
    snomed_folder,
)

from mednli_jax.errors import ConfigError, DataError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.snomed import read_snomed

PLAIN = OntologyOptions()
ALL = OntologyOptions(relations="all")
TERMS = RF2_ROWS["Description"]
EDGES = RF2_ROWS["Relationship"]
PARENTS = {
    ("101", "64572001"),
    ("102", "64572001"),
    ("103", "101"),
    ("103", "102"),
}
SITES = {("103", "104")}


def parents_of(ontology):
    return edges_of(ontology.parents, ontology.ids)


def sites_of(ontology):
    return edges_of(ontology.relations["finding_site"], ontology.ids)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return snomed_folder(tmp_path_factory.mktemp("snomed"))


@pytest.fixture(scope="module")
def plain(folder):
    return read_snomed(folder, PLAIN)


@pytest.fixture(scope="module")
def whole(folder):
    return read_snomed(folder, ALL)


def test_a_concept_has_its_fully_specified_name_without_the_tag_which_is_its_type(plain):
    assert " ".join(plain.ids) == f"101 102 103 104 64572001 {IS_A} {SITE}"  # ordered as numbers
    labels = "Quokka (small) fever/Wombat rash/narwhal flu/pouch/Disease/Is a/Finding site"
    assert "/".join(plain.labels) == labels
    types = "disorder/finding/disorder//disorder/attribute/attribute"
    assert "/".join(plain.types) == types
    assert plain.name == "snomed"
    assert plain.version == "INT_20240101"


def test_a_concept_has_each_active_english_synonym_once(plain):
    labels = zip(plain.labels, range(7), strict=True)

    assert sorted(plain.names) == sorted([*labels, ("quokka fever", 0), ("flu of narwhals", 2)])


def test_an_attribute_of_snomed_is_not_linked(plain):
    text = "finding site of a quokka fever"

    mentions = Linker(plain).link(text.split())

    assert [mention.concept for mention in mentions] == ["101"]


def test_inactive_relationships_are_left_out_and_others_are_read_only_on_request(plain, whole):
    assert parents_of(plain) == parents_of(whole) == PARENTS
    assert dict(plain.relations) == {}
    assert list(whole.relations) == ["finding_site"]
    assert sites_of(whole) == SITES


def test_relationships_of_an_inactive_type_are_left_out(tmp_path):
    inactive = sct_edge("101", "102", "105")
    active = sct_edge("102", "104", SITE)
    folder = snomed_folder(tmp_path, Relationship=(*EDGES, inactive, active))

    ontology = read_snomed(folder, ALL)

    assert list(ontology.relations) == ["finding_site"]
    assert sites_of(ontology) == SITES | {("102", "104")}


def test_a_type_that_is_no_concept_may_be_where_types_do_not_count(tmp_path):
    edges = (*EDGES, sct_edge("101", "102", "999"))
    folder = snomed_folder(tmp_path, Relationship=edges)

    assert parents_of(read_snomed(folder, PLAIN)) == PARENTS


def test_names_are_in_the_chosen_languages_of_all_description_files(tmp_path):
    folder = snomed_folder(tmp_path)
    fever = sct_term("101", "fiebre", language="es")
    rash = sct_term("102", "x (x)", FSN, "es")
    file = RF2_FILES["Description"].replace("-en_", "-es_")
    write(folder / RF2_FOLDER / file, rf2_table("Description", fever, rash))

    english = read_snomed(folder, PLAIN)
    french = read_snomed(folder, OntologyOptions(languages=("ENG", "fr")))
    spanish = read_snomed(folder, OntologyOptions(languages=("SPA", "ENG")))

    assert not {"fiebre", "x", "fièvre"} & dict(english.names).keys()
    assert ("fièvre", 0) in french.names
    assert ("fiebre", 0) in spanish.names
    assert spanish.sha256 != english.sha256


def test_a_concept_without_a_name_in_the_language_has_its_id_as_label(tmp_path):
    site = sct_term(SITE, "sitio", FSN, "es")

    ontology = read_snomed(snomed_folder(tmp_path, Description=(*TERMS[:-1], site)), PLAIN)

    assert ontology.labels[6] == SITE


def test_line_ends_of_unix_and_a_byte_order_mark_change_nothing(tmp_path, folder, whole):
    for name in RF2_FILES.values():
        content = (folder / RF2_FOLDER / name).read_bytes().replace(b"\r\n", b"\n").rstrip()
        write(tmp_path / name, b"\xef\xbb\xbf" + content)

    unix = read_snomed(tmp_path, ALL)

    assert unix.ids == whole.ids
    assert unix.names == whole.names
    assert unix.types == whole.types
    assert parents_of(unix) == PARENTS
    assert sites_of(unix) == SITES


def write_edition(folder, prefix, release, ending=".txt"):
    """Writes the snapshot under other names."""
    for table, rows in RF2_ROWS.items():
        name = RF2_FILES[table].replace("Snapshot", f"{prefix}Snapshot")
        name = name.replace("INT_20240101", release).replace(".txt", ending)
        write(folder / RF2_FOLDER / name, rf2_table(table, *rows))


@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
@pytest.mark.parametrize(
    "edition",
    [
        "MONO_GB_20240313",
        "UKCL_GB1000000_20240410",
        "UKED_GB_20240410",
        "SpanishExtension_INT_2024",
    ],
)
def test_an_edition_of_any_name_is_read(tmp_path, edition, ending):
    prefix, _, release = edition.partition("_")
    write_edition(tmp_path / "own", prefix, release, ending)

    for place in (tmp_path / "own", tmp_path / "own" / RF2_FOLDER):
        alone = load_ontology(str(place), options=ALL)
        assert alone.version == edition
        assert parents_of(alone) == PARENTS


# One CUI has two concepts, one concept two CUIs.
CUIS = "C0000001 101/C0000001 103/C0000001 103/C0000002 103"


def conso(text, **fields):
    cui, code = text.split()
    return rrf_row("MRCONSO.RRF", CUI=cui, CODE=code, STR="x", **fields)


@pytest.fixture
def with_umls(tmp_path):
    """A data folder with SNOMED CT and a UMLS that names its concepts."""
    rows = [
        *map(conso, CUIS.split("/")),
        conso("C0000004 999"),
        conso("C0000005 102", SUPPRESS="O"),
        conso("C0000006 102", SAB="MSH"),
    ]
    write(tmp_path / "umls/META/MRCONSO.RRF", "".join(rows))
    snomed_folder(tmp_path / "snomed")
    return tmp_path


@pytest.mark.parametrize("cache", [None, "cache"])
def test_cuis_of_the_umls_lead_to_concepts_of_snomed(with_umls, cache):
    cache_dir = with_umls / cache if cache else None
    for _ in range(2):  # read, then taken from the cache
        ontology = load_ontology("snomed", with_umls, cache_dir=cache_dir)

        cuis = [f"{cui} {ontology.ids[place]}" for cui, place in ontology.cross_references]
        assert set(cuis) == set(CUIS.split("/"))
        assert len(cuis) == 3
        assert ontology.indices("C0000001") == [ontology.index("101"), ontology.index("103")]
        assert ontology.indices("C0000005") == []


def test_without_a_data_folder_snomed_has_no_cuis(with_umls):
    joined = load_ontology("snomed", with_umls)
    alone = load_ontology(str(with_umls / "snomed"))

    assert len(alone.cross_references) == 0
    assert joined.sha256 != alone.sha256


def test_types_are_those_of_the_english_names_whatever_the_language(tmp_path, plain):
    fever = sct_term("101", "koorts (aandoening)", FSN, "nl")
    folder = snomed_folder(tmp_path, Description=(*TERMS, fever))

    ontology = read_snomed(folder, OntologyOptions(languages=("DUT",)))

    assert ontology.types == plain.types
    assert ontology.labels[ontology.index("101")] == "koorts"
    assert "koorts" in dict(ontology.names)


@pytest.mark.parametrize(
    "language, in_names_of_files", [("nl", True), ("nl", False), ("nl-BE", False)]
)
def test_a_release_without_the_language_says_which_it_has_and_is_linked_with_it(
    tmp_path, language, in_names_of_files
):
    """Where the tags are in another language, the hierarchies say what is linked."""
    folder = snomed_folder(tmp_path)
    path = folder / RF2_FOLDER / RF2_FILES["Description"]
    text = re.sub(r"\t(en|fr)\t", f"\t{language}\t", path.read_text())
    path.unlink()
    in_name = "-nl_" if in_names_of_files else "_"
    text = text.replace("(disorder)", "(aandoening)")
    (folder / RF2_FOLDER / path.name.replace("-en_", in_name)).write_text(text)

    with pytest.raises(DataError, match=r"in nl alone\. Fix: give config\.knowledge\.languages=nl"):
        read_snomed(folder, PLAIN)
    ontology = read_snomed(folder, OntologyOptions(languages=("nl",)))
    (mention,) = Linker(ontology).link(["quokka", "fever"])
    assert mention.concept == "101"
    message = r"types are disorder, aandoening, .+ config\.knowledge\.types=disorder,"
    with pytest.raises(ConfigError, match=message):
        Linker(ontology, types=("maladie",))
