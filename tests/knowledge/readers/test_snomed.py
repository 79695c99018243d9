"""The SNOMED CT reader on made-up RF2 snapshots in the official layout: names, tags,
relationships."""

import pytest
from support import files, ontologies, ontology_files

from mednli_jax.errors import DataError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.snomed import read_snomed

PLAIN, ALL = OntologyOptions(), OntologyOptions(relations="all")
TERMS, EDGES = ontology_files.RF2_ROWS["Description"], ontology_files.RF2_ROWS["Relationship"]
PARENTS = {("101", "64572001"), ("102", "64572001"), ("103", "101"), ("103", "102")}


def refused(folder, options=PLAIN):
    with pytest.raises(DataError) as caught:
        read_snomed(folder, options)
    return caught.value


def test_labels_types_and_names(tmp_path):
    ontology = read_snomed(ontology_files.snomed_folder(tmp_path), PLAIN)
    assert ontology.ids == (
        "101",
        "102",
        "103",
        "104",
        "64572001",
        ontology_files.IS_A,
        ontology_files.SITE,
    )  # in the order of numbers
    assert ontology.labels[:5] == (
        "Quokka (small) fever",
        "Wombat rash",
        "narwhal flu",
        "pouch",
        "Disease",
    )
    assert ontology.types == (
        "disorder",
        "finding",
        "disorder",
        "",
        "disorder",
        "attribute",
        "attribute",
    )
    labels = zip(ontology.labels, range(7), strict=True)
    assert set(ontology.names) == {*labels, ("quokka fever", 0), ("flu of narwhals", 2)}
    assert len(set(ontology.names)) == len(ontology.names)
    assert (ontology.name, ontology.version) == ("snomed", "INT_20240101")
    linked = Linker(ontology).link(
        ["finding", "site", "of", "a", "quokka", "fever"]
    )  # an attribute is not linked
    assert [(mention.start, mention.end, mention.concept) for mention in linked] == [(4, 6, "101")]


def test_active_relationships_by_their_type(tmp_path):
    ontology = read_snomed(ontology_files.snomed_folder(tmp_path), PLAIN)
    assert ontologies.edges_of(ontology.parents, ontology.ids) == PARENTS
    assert dict(ontology.relations) == {}
    ontology = read_snomed(tmp_path, ALL)
    assert ontologies.edges_of(ontology.parents, ontology.ids) == PARENTS
    assert list(ontology.relations) == ["finding_site"]
    assert ontologies.edges_of(ontology.relations["finding_site"], ontology.ids) == {("103", "104")}
    # Relationships of an inactive type are left out; a type that is no concept is a fault where
    # types count.
    ontology_files.snomed_folder(
        tmp_path,
        Relationship=(
            *EDGES,
            ontology_files.sct_edge("101", "102", "105"),
            ontology_files.sct_edge("102", "104", ontology_files.SITE),
        ),
    )
    ontology = read_snomed(tmp_path, ALL)
    assert ontologies.edges_of(ontology.relations["finding_site"], ontology.ids) == {
        ("103", "104"),
        ("102", "104"),
    }
    ontology_files.snomed_folder(
        tmp_path, Relationship=(*EDGES, ontology_files.sct_edge("101", "102", "999"))
    )
    assert read_snomed(tmp_path, PLAIN).parents.nnz == 4
    error = refused(tmp_path, ALL)
    assert (error.line, error.field) == (10, "typeId")


def test_languages(tmp_path):
    ontology_files.snomed_folder(tmp_path)
    both = read_snomed(tmp_path, OntologyOptions(languages=("ENG", "fr")))
    assert ("fièvre", 0) in both.names
    spanish = ontology_files.rf2_table(
        "Description",
        ontology_files.sct_term("101", "fiebre", language="es"),
        ontology_files.sct_term("102", "x (x)", ontology_files.FSN, "es"),
    )
    files.write(
        tmp_path
        / ontology_files.RF2_FOLDER
        / ontology_files.RF2_FILES["Description"].replace("-en_", "-es_"),
        spanish,
    )
    assert not {name for name, _ in read_snomed(tmp_path, PLAIN).names} & {"fiebre", "x"}
    mixed = read_snomed(tmp_path, OntologyOptions(languages=("SPA", "ENG")))
    assert ("fiebre", 0) in mixed.names
    assert mixed.sha256 != read_snomed(tmp_path, PLAIN).sha256
    # A concept without a name in the language keeps its id.
    terms = (
        *TERMS[:-1],
        ontology_files.sct_term(ontology_files.SITE, "sitio", ontology_files.FSN, "es"),
    )
    nameless = read_snomed(ontology_files.snomed_folder(tmp_path, Description=terms), PLAIN)
    assert nameless.labels[6] == ontology_files.SITE


def test_gzip_and_line_ends_change_nothing(tmp_path):
    whole = read_snomed(ontology_files.snomed_folder(tmp_path / "plain"), ALL)
    for name in ontology_files.RF2_FILES.values():
        content = (tmp_path / "plain" / ontology_files.RF2_FOLDER / name).read_bytes()
        files.write(tmp_path / "zipped" / f"{name}.gz", content)
        files.write(
            tmp_path / "unix" / f"x{name}",
            b"\xef\xbb\xbf" + content.replace(b"\r\n", b"\n").rstrip(),
        )
    zipped, unix = read_snomed(tmp_path / "zipped", ALL), read_snomed(tmp_path / "unix", ALL)
    for other in (zipped, unix):
        assert (other.ids, other.names, other.types) == (whole.ids, whole.names, whole.types)
        assert ontologies.edges_of(other.parents, other.ids) == PARENTS
        assert ontologies.edges_of(other.relations["finding_site"], other.ids) == {("103", "104")}
    assert zipped.sha256 == whole.sha256 != unix.sha256


@pytest.mark.parametrize(
    ("kind", "release"),
    [
        ("MONO", "GB_20240313"),
        ("UKCL", "GB1000000_20240410"),
        ("UKED", "GB_20240410"),
        ("SpanishExtension", "INT_20240430"),
    ],
)
@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
def test_an_edition_of_any_name_is_read_alone_and_beside_another_both_are_named(
    tmp_path, kind, release, ending
):
    international = ontology_files.snomed_folder(tmp_path / "snomed" / "international")
    whole = read_snomed(international, ALL)
    for name in ontology_files.RF2_FILES.values():
        renamed = (
            name.replace("Snapshot", f"{kind}Snapshot")
            .replace("INT_20240101", release)
            .replace(".txt", ending)
        )
        content = (international / ontology_files.RF2_FOLDER / name).read_bytes()
        files.write(tmp_path / "snomed" / kind / ontology_files.RF2_FOLDER / renamed, content)
    for place in (
        tmp_path / "snomed" / kind,
        tmp_path / "snomed" / kind / ontology_files.RF2_FOLDER,
    ):
        alone = load_ontology(str(place), options=ALL)
        assert (alone.version, alone.names) == (f"{kind}_{release}", whole.names)
        assert ontologies.edges_of(alone.parents, alone.ids) == PARENTS
    problem = refused(tmp_path / "snomed").problem
    assert f"{kind}_{release}" in problem
    assert "INT_20240101" in problem.replace(f"{kind}_{release}", "")


def test_an_extension_alone_lacks_concepts_of_the_international_edition(tmp_path):
    tables = {
        "Concept": ontology_files.sct_concept("999001"),
        "Description": ontology_files.sct_term(
            "999001", "British pox (disorder)", ontology_files.FSN
        ),
        "Relationship": ontology_files.sct_edge("999001", "101"),
    }
    for kind, row in tables.items():
        name = ontology_files.RF2_FILES[kind].replace("Snapshot", "UKCLSnapshot")
        files.write(
            tmp_path / ontology_files.RF2_FOLDER / name, ontology_files.rf2_table(kind, row)
        )
    error = refused(tmp_path)
    assert (error.line, error.field) == (2, "destinationId")
    assert "an extension alone" in error.fix


def conso(cui, number, **fields):
    return ontology_files.rrf_row("MRCONSO.RRF", CUI=cui, CODE=number, STR="x", **fields)


def test_cuis_lead_to_concepts_where_the_umls_is_there(tmp_path):
    """One CUI has two concepts, one concept two CUIs. Unknown, suppressed and other sources' codes
    do not count."""
    ontology_files.snomed_folder(tmp_path / "snomed")
    plain = load_ontology("snomed", tmp_path)
    assert len(plain.cross_references) == 0
    rows = (
        *(
            conso("C0000001", "101"),
            conso("C0000001", "103"),
            conso("C0000001", "103"),
            conso("C0000002", "103"),
        ),
        *(
            conso("C0000004", "999"),
            conso("C0000005", "102", SUPPRESS="O"),
            conso("C0000006", "102", SAB="MSH"),
        ),
    )
    files.write(tmp_path / "umls" / "META" / "MRCONSO.RRF", "".join(rows))
    first, second = plain.index("101"), plain.index("103")
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        joined = load_ontology("snomed", tmp_path, cache_dir=cache)
        expected = [("C0000001", first), ("C0000001", second), ("C0000002", second)]
        assert sorted(tuple(pair) for pair in joined.cross_references) == expected
        assert joined.indices("C0000001") == [first, second]
        assert (joined.indices("C0000002"), joined.indices("C0000005")) == ([second], [])
    assert joined.sha256 != plain.sha256
    assert (
        load_ontology(str(tmp_path / "snomed")).sha256 == plain.sha256
    )  # no data folder is given, so no UMLS
