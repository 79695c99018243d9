"""The SNOMED CT reader on made-up RF2 snapshots in the official layout: names, tags, relationships, and faults."""

import gzip

import pytest

from mednli_jax.errors import ConfigError, DataError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import find_source, load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers import row_blocks as blocks
from mednli_jax.knowledge.readers import umls
from mednli_jax.knowledge.readers.snomed import COLUMNS, read_snomed

PLAIN, ALL = OntologyOptions(), OntologyOptions(relations="all")
FSN, SYNONYM, DEFINITION = "900000000000003001", "900000000000013009", "900000000000550004"
IS_A, SITE = "116680003", "363698007"
NAMES = {
    "Concept": "sct2_Concept_Snapshot_INT_20240101.txt",
    "Description": "sct2_Description_Snapshot-en_INT_20240101.txt",
    "Relationship": "sct2_Relationship_Snapshot_INT_20240101.txt",
}


def row(kind, **fields):
    given = {"id": "1", "effectiveTime": "20240101", "active": "1", "moduleId": "900000000000207008", **fields}
    return "\t".join(given.get(column, "900000000000000001") for column in COLUMNS[kind]) + "\r\n"


def concept(number, active="1"):
    return row("Concept", id=number, active=active)


def term(number, text, kind=SYNONYM, language="en", active="1"):
    return row("Description", conceptId=number, term=text, typeId=kind, languageCode=language, active=active)


def relationship(child, parent, kind=IS_A, active="1"):
    return row("Relationship", sourceId=child, destinationId=parent, typeId=kind, active=active)


def table(kind, *rows):
    return "\t".join(COLUMNS[kind]) + "\r\n" + "".join(rows)


# 64572001 is the parent of 101 and 102, which are both parents of 103. 103 is found in 104, a body structure. 105 is
# inactive. 116680003 and 363698007 are the types of relationships, and concepts themselves.
CONCEPTS = (*map(concept, ("64572001", "101", "102", "103", "104", IS_A, SITE)), concept("105", active="0"))
TERMS = (
    term("64572001", "Disease (disorder)", FSN),
    term("64572001", "Disease"),
    term("101", "quokka fever"),
    term("101", "Quokka (small) fever (disorder)", FSN),
    term("101", "old fever", active="0"),
    term("101", "fièvre", language="fr"),
    term("101", "What a quokka has when it is hot.", DEFINITION),
    term("102", "Wombat rash (finding)", FSN),
    term("103", "narwhal flu (disorder)", FSN),
    term("103", "flu of narwhals"),
    term("103", "flu of narwhals"),
    term("104", "pouch"),
    term("105", "gone (disorder)", FSN),
    term(IS_A, "Is a (attribute)", FSN),
    term(SITE, "Finding site (attribute)", FSN),
)
EDGES = (
    relationship("101", "64572001"),
    relationship("102", "64572001"),
    relationship("103", "101"),
    relationship("103", "102"),
    relationship("103", "102"),
    relationship("103", "64572001", active="0"),
    relationship("103", "104", SITE),
    relationship("105", "64572001"),
)


def laid_out(folder, concepts=CONCEPTS, terms=TERMS, edges=EDGES):
    place = folder / "Snapshot" / "Terminology"
    place.mkdir(parents=True, exist_ok=True)
    for kind, rows in zip(COLUMNS, (concepts, terms, edges), strict=True):
        if rows is not None:
            (place / NAMES[kind]).write_bytes(rows if isinstance(rows, bytes) else table(kind, *rows).encode())
    return folder


def edges_of(matrix, ids):
    return {(ids[a], ids[b]) for a, b in zip(*matrix.nonzero(), strict=True)}


def test_labels_types_and_names(tmp_path):
    ontology = read_snomed(laid_out(tmp_path), PLAIN)
    assert ontology.ids == ("101", "102", "103", "104", "64572001", "116680003", "363698007")  # in the order of numbers
    assert ontology.labels[:5] == ("Quokka (small) fever", "Wombat rash", "narwhal flu", "pouch", "Disease")
    assert ontology.types == ("disorder", "finding", "disorder", "", "disorder", "attribute", "attribute")
    assert set(ontology.names) == {
        *zip(ontology.labels, range(7), strict=True),
        ("quokka fever", 0),
        ("flu of narwhals", 2),
    }
    assert len(set(ontology.names)) == len(ontology.names)
    assert (ontology.name, ontology.version) == ("snomed", "INT_20240101")


def test_the_graph_is_that_of_active_is_a_relationships(tmp_path, capsys):
    ontology = read_snomed(laid_out(tmp_path), PLAIN)
    assert edges_of(ontology.parents, ontology.ids) == {
        ("101", "64572001"),
        ("102", "64572001"),
        ("103", "101"),
        ("103", "102"),
    }
    assert ontology.ancestors("103") == {"101": 1, "102": 1, "64572001": 2}
    assert dict(ontology.relations) == {}
    assert "left out 1 relationships of inactive concepts" in capsys.readouterr().err


def test_other_relationships_are_named_by_their_type(tmp_path):
    ontology = read_snomed(laid_out(tmp_path), ALL)
    assert {name: edges_of(matrix, ontology.ids) for name, matrix in ontology.relations.items()} == {
        "finding_site": {("103", "104")}
    }
    assert ontology.parents.nnz == 4


def test_relationships_of_an_inactive_type_are_left_out(tmp_path, capsys):
    laid_out(tmp_path, edges=(*EDGES, relationship("101", "102", "105"), relationship("102", "104", SITE)))
    ontology = read_snomed(tmp_path, ALL)
    assert list(ontology.relations) == ["finding_site"]
    assert edges_of(ontology.relations["finding_site"], ontology.ids) == {("103", "104"), ("102", "104")}
    assert "left out 2 relationships" in capsys.readouterr().err


def test_languages(tmp_path):
    laid_out(tmp_path)
    both = read_snomed(tmp_path, OntologyOptions(languages=("ENG", "fr")))
    assert ("fièvre", 0) in both.names
    spanish = table("Description", term("101", "fiebre", language="es"), term("102", "x (hallazgo)", FSN, "es"))
    path = tmp_path / "Snapshot" / "Terminology" / NAMES["Description"].replace("-en_", "-es_")
    path.write_text(spanish)
    assert not {name for name, _ in read_snomed(tmp_path, PLAIN).names} & {"fiebre", "x"}
    mixed = read_snomed(tmp_path, OntologyOptions(languages=("SPA", "ENG")))
    assert ("fiebre", 0) in mixed.names
    assert mixed.sha256 != read_snomed(tmp_path, PLAIN).sha256


def test_concepts_without_a_name_in_the_language_keep_their_id(tmp_path, capsys):
    terms = (*TERMS[:-1], term(SITE, "sitio", FSN, "es"))
    ontology = read_snomed(laid_out(tmp_path, terms=terms), PLAIN)
    assert ontology.labels[6] == SITE
    assert 6 not in {index for _, index in ontology.names}
    assert "1 concepts have no name in the chosen languages" in capsys.readouterr().err


def test_tags_filter_what_is_linked(tmp_path):
    linked = Linker(read_snomed(laid_out(tmp_path), PLAIN)).link(["finding", "site", "of", "a", "quokka", "fever"])
    assert [(mention.start, mention.end, mention.concept) for mention in linked] == [(4, 6, "101")]


def test_blocks_gzip_and_line_ends_change_nothing(tmp_path, monkeypatch):
    whole = read_snomed(laid_out(tmp_path / "plain"), ALL)
    (tmp_path / "zipped").mkdir()
    (tmp_path / "unix").mkdir()
    for name in NAMES.values():
        content = (tmp_path / "plain" / "Snapshot" / "Terminology" / name).read_bytes()
        (tmp_path / "zipped" / f"{name}.gz").write_bytes(gzip.compress(content))
        (tmp_path / "unix" / f"x{name}").write_bytes(b"\xef\xbb\xbf" + content.replace(b"\r\n", b"\n").rstrip())
    others = [read_snomed(tmp_path / folder, ALL) for folder in ("zipped", "unix")]
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 200)
    others.append(read_snomed(tmp_path / "plain", ALL))
    for other in others:
        assert (other.ids, other.names, other.types) == (whole.ids, whole.names, whole.types)
        assert edges_of(other.parents, other.ids) == edges_of(whole.parents, whole.ids)
        assert edges_of(other.relations["finding_site"], other.ids) == {("103", "104")}
    assert others[0].sha256 == others[2].sha256 == whole.sha256 != others[1].sha256


def refused(folder, options=PLAIN):
    with pytest.raises(DataError) as caught:
        read_snomed(folder, options)
    return caught.value


def conso(cui, number, source="SNOMEDCT_US", suppress="N"):
    given = {"CUI": cui, "SCUI": number, "CODE": number, "SAB": source, "SUPPRESS": suppress, "STR": "x", "LAT": "ENG"}
    return "".join(f"{given.get(column, '')}|" for column in umls.COLUMNS["MRCONSO.RRF"]) + "\n"


def test_cuis_lead_to_concepts_where_the_umls_is_there(tmp_path):
    """One CUI has two concepts, one concept two CUIs. Unknown, suppressed and other sources' codes do not count."""
    (tmp_path / "snomed").mkdir()
    laid_out(tmp_path / "snomed")
    plain = load_ontology("snomed", tmp_path)
    assert len(plain.cross_references) == 0
    (tmp_path / "umls" / "META").mkdir(parents=True)
    rows = (
        *(conso("C0000001", "101"), conso("C0000001", "103"), conso("C0000001", "103"), conso("C0000002", "103")),
        *(conso("C0000004", "999"), conso("C0000005", "102", suppress="O"), conso("C0000006", "102", source="MSH")),
    )
    (tmp_path / "umls" / "META" / "MRCONSO.RRF").write_text("".join(rows))
    first, second = plain.index("101"), plain.index("103")
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        joined = load_ontology("snomed", tmp_path, cache_dir=cache)
        expected = [("C0000001", first), ("C0000001", second), ("C0000002", second)]
        assert sorted(tuple(pair) for pair in joined.cross_references) == expected
        assert joined.indices("C0000001") == [first, second]
        assert (joined.indices("C0000002"), joined.indices("C0000005")) == ([second], [])
    assert joined.sha256 != plain.sha256
    assert load_ontology(str(tmp_path / "snomed")).sha256 == plain.sha256  # no data folder is given, so no UMLS


def test_a_cycle_names_its_first_line_or_is_dropped(tmp_path):
    laid_out(tmp_path, edges=(*EDGES, relationship("101", "103")))
    error = refused(tmp_path)
    assert (error.file, error.line) == (NAMES["Relationship"], 4)
    assert "1 more" in error.problem
    dropped = read_snomed(tmp_path, OntologyOptions(cycles="drop"))
    assert edges_of(dropped.parents, dropped.ids) == {("101", "64572001"), ("102", "64572001"), ("103", "102")}


def test_a_concept_that_is_itself_is_a_cycle(tmp_path):
    laid_out(tmp_path, edges=(*EDGES, relationship("104", "104")))
    error = refused(tmp_path)
    assert (error.file, error.line) == (NAMES["Relationship"], 10)


HEADLESS = "".join(EDGES).encode()
FAULTS = {
    "no descriptions": ({"terms": None}, "sct2_Description_Snapshot-en_*.txt", None),
    "a header alone": ({"edges": ()}, NAMES["Relationship"], None),
    "no header": ({"edges": HEADLESS}, NAMES["Relationship"], 1),
    "a column less": ({"edges": (*EDGES, "1\t2\t3\r\n")}, NAMES["Relationship"], 10),
    "a column more": ({"concepts": (*CONCEPTS, "1" + "\tx" * 5 + "\r\n")}, NAMES["Concept"], 10),
    "cut short": ({"terms": table("Description", *TERMS).encode()[:-50]}, NAMES["Description"], 16),
    "an empty term": ({"terms": (*TERMS, term("101", ""))}, NAMES["Description"], 17),
    "none active": ({"concepts": (concept("1", active="0"),)}, NAMES["Concept"], None),
    "an id of letters": ({"concepts": (*CONCEPTS, concept("1o3"))}, NAMES["Concept"], 10),
    "an id too long": ({"concepts": (*CONCEPTS, concept("1" * 19))}, NAMES["Concept"], 10),
    "an empty id": ({"edges": (*EDGES, relationship("", "101"))}, NAMES["Relationship"], 10),
    "an unknown owner": ({"terms": (*TERMS, term("999", "x"))}, NAMES["Description"], 17),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_names_its_file_and_line(fault, tmp_path):
    content, file, line = FAULTS[fault]
    with pytest.raises(DataError) as caught:
        read_snomed(laid_out(tmp_path, **content), PLAIN)
    assert (caught.value.file, caught.value.line) == (file, line)
    assert caught.value.fix
    assert not {"quokka", "wombat", "narwhal"} & set(str(caught.value).casefold().split())


def test_an_unknown_type_of_relationship_is_a_fault_where_types_count(tmp_path):
    laid_out(tmp_path, edges=(*EDGES, relationship("101", "102", "999")))
    assert read_snomed(tmp_path, PLAIN).parents.nnz == 4
    error = refused(tmp_path, ALL)
    assert (error.line, error.field) == (10, "typeId")


def test_several_editions_are_named(tmp_path):
    laid_out(tmp_path / "one")
    place = laid_out(tmp_path / "other") / "Snapshot" / "Terminology"
    for name in NAMES.values():
        (place / name).rename(place / name.replace("INT_20240101", "US1000124_20240301"))
    message = str(refused(tmp_path))
    assert "INT_20240101" in message
    assert "US1000124_20240301" in message
    assert read_snomed(tmp_path / "other", PLAIN).version == "US1000124_20240301"


def test_a_release_is_looked_for_no_deeper_than_it_lies(tmp_path):
    """A folder like /tmp is then refused without a search through everything below it."""
    laid_out(tmp_path / "beside" / "SnomedCT_RF2")
    assert find_source(str(tmp_path / "beside")).name == "snomed"
    laid_out(tmp_path / "far" / "down" / "SnomedCT_RF2")
    with pytest.raises(ConfigError, match="far"):
        find_source(str(tmp_path / "far"))


def test_full_and_stated_files_are_not_looked_at(tmp_path):
    laid_out(tmp_path)
    place = tmp_path / "Full" / "Terminology"
    place.mkdir(parents=True)
    for name in ("sct2_Concept_Full_INT_20240101.txt", "sct2_StatedRelationship_Snapshot_INT_20240101.txt"):
        (place / name).write_text("no table")
    assert read_snomed(tmp_path, PLAIN).parents.nnz == 4
