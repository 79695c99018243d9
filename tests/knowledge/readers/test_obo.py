"""The OBO reader on a made-up file whose graph is checked by hand."""

from itertools import permutations

import pytest
from support.cases import cases
from support.files import write
from support.ontologies import edges_of
from support.ontology_files import OBO
from support.tables import table_rows

from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.obo import read_obo

PLAIN = OntologyOptions()
ALL = OntologyOptions(relations="all")


@pytest.fixture
def read(tmp_path):
    """Reads a file with this content."""

    def read_content(content, options=PLAIN):
        return read_obo(write(tmp_path / "made_up.obo", content), options)

    return read_content


def stanza(concept, *tags):
    return "\n".join(["[Term]", f"id: {concept}", *tags, "", ""])


def test_a_term_has_its_name_exact_synonyms_and_namespace(read):
    ontology = read(OBO)

    assert ontology.name == "made_up"
    assert ontology.version == "releases/2024-01-01"
    assert " ".join(ontology.ids) == "XP:1 XP:2 XP:3 XP:4 XP:5"
    assert "/".join(ontology.labels) == "Finding/Heart disease/Lung disease/Heart failure/Organ"
    assert ontology.names[:5] == tuple(zip(ontology.labels, range(5), strict=True))
    assert dict(ontology.names[5:]) == {
        "Cardiac disease": 1,
        'Cardiopathy "old"': 1,
        "HF": 3,
        "Pump failure": 3,
    }
    assert ontology.abbreviations == {"HF"}
    assert ontology.types == ("findings",) * 4 + ("anatomy",)


def test_abbreviations_and_synonyms_are_linked(read):
    text = "known HF , prior cardiac diseases"

    mentions = Linker(read(OBO)).link(text.split())

    assert [mention.concept for mention in mentions] == ["XP:4", "XP:2"]


def test_relations_to_terms_of_other_ontologies_are_left_out_and_counted(read, capsys):
    ontology = read(OBO, ALL)

    assert ontology.ancestors("XP:4") == {"XP:2": 1, "XP:3": 1, "XP:1": 2}
    assert ontology.parents.nnz == 4
    assert list(ontology.relations) == ["affects_organ"]
    assert edges_of(ontology.relations["affects_organ"], ontology.ids) == {("XP:2", "XP:5")}
    assert "left out 2 relations to terms of other ontologies" in capsys.readouterr().err
    assert read(OBO, PLAIN).relations == {}


def test_a_term_is_found_by_cross_references_and_by_its_old_ids(read):
    ontology = read(OBO)
    references = ("MESH:D006333", "UMLS:C0018801", "C0018801", "XP:40", "XP:9")

    assert set(ontology.cross_references) == {(reference, 3) for reference in references}
    for reference in (*references[:1], *references[2:]):
        assert ontology.index(reference) == 3
    assert ontology.ancestors("XP:40") == ontology.ancestors("XP:4")


def test_is_a_may_name_an_old_id(read):
    ontology = read(OBO + stanza("XP:6", "name: six", "is_a: XP:40", "is_a: XP:9"))

    assert ontology.ancestors("XP:6")["XP:4"] == 1


def test_a_term_without_a_name_stays_in_the_graph_alone(read):
    ontology = read(stanza("X:1") + stanza("X:2", "name: fever", "is_a: X:1"))

    assert ontology.ancestors("X:2") == {"X:1": 1}
    assert ontology.labels == ("X:1", "fever")
    assert ontology.names == (("fever", 1),)
    assert ontology.version == "unknown"
    assert ontology.types == ()


CURRENT = [stanza("X:3", "name: fever", "alt_id: X:30"), stanza("X:4", "name: cough")]


@pytest.mark.parametrize(
    "first, second, terms",
    table_rows("""
        replaced_by: X:2 | replaced_by: X:3 | X:1=X:3 X:2=X:3
        # over alternative ids
        replaced_by: X:20 | replaced_by: X:30, alt_id: X:20 | X:1=X:3 X:20=X:3
        # two ways to one term, or to two
        replaced_by: X:2, replaced_by: X:3 | replaced_by: X:3 | X:1=X:3
        replaced_by: X:2, replaced_by: X:4 | replaced_by: X:3 | X:1= X:2=X:3
        # a circle, a missing term, the id itself
        replaced_by: X:2 | replaced_by: X:1 | X:1= X:2=
        replaced_by: X:2 | replaced_by: Y:9 | X:1= X:2=
        replaced_by: X:1, alt_id: X:2 | replaced_by: X:4 | X:1= X:2=X:4
    """),
)
def test_an_old_id_leads_over_any_number_of_steps_to_one_term_in_any_order(
    read, first, second, terms
):
    old = []
    for concept, tags in (("X:1", first), ("X:2", second)):
        old.append(stanza(concept, "is_obsolete: true", *tags.split(", ")))

    for stanzas in permutations(CURRENT + old):
        ontology = read("".join(stanzas))
        for pair in terms.split():
            concept, _, term = pair.partition("=")
            assert ontology.index(concept) == (ontology.index(term) if term else None)


@pytest.mark.parametrize(
    "value, name",
    table_rows(r"""
        cyclo{alanine} | cyclo{alanine}
        N(4)-{beta-D-Glc-(1->2)}-Asn residue | N(4)-{beta-D-Glc-(1->2)}-Asn residue
        residue {alanine} | residue {alanine}
        fever \{a=b\} | fever {a=b}
        wow \! great\, \(so\) \[x\] \"q\" c\:d e\\n | wow ! great, (so) [x] "q" c:d e\n
        two\nlines\Wand\ttab | two lines and tab
        cyclo{x} {source="X:1", comment="a } ! b"} ! a comment | cyclo{x}
        fever {scope=EXACT} | fever
        fever ! a comment {source="X:1"} | fever
    """),
)
def test_only_modifiers_and_comments_at_the_end_are_no_part_of_a_name(read, value, name):
    assert read(stanza("X:1", f"name: {value}")).labels == (name,)


@pytest.mark.parametrize(
    "rest", ['EXACT [] {source="a ! b"}', "EXACT ! {c}", 'EXACT abbreviation {a="["} ! b', "EXACT"]
)
def test_modifiers_and_comments_are_no_part_of_a_synonym(tmp_path, rest):
    synonym = rf'synonym: "cyclo{{b}} ! c {{d=e}}\nf" {rest}'
    path = write(tmp_path / "x.obo", stanza("X:1", "name: a", synonym))

    ontology = load_ontology(str(path), cache_dir=tmp_path / "cache")

    assert ontology.names == (("a", 0), ("cyclo{b} ! c {d=e} f", 0))
    assert bool(ontology.abbreviations) == ("abbreviation" in rest)


GCI = '{gci_filler="NCBITaxon:10090", gci_relation="part_of"}'


@pytest.mark.parametrize(
    "modifiers, edges",
    table_rows(f"""
        | 1
        {{source="X:9", is_inferred="true"}} ! x | 1
        {{comment="gci_relation=x"}} | 1
        ! x {GCI} | 1
        {{minCardinality="1"}} | 1
        {GCI} | 0
        {GCI} ! x | 0
        {{source="a, b", gci_relation="part_of"}} | 0
        {{maxCardinality="0"}} | 0
        {{all_only="true"}} | 0
        {{all_only="true", all_some="true"}} | 1
    """),
)
def test_relations_under_a_condition_are_left_out_and_counted(read, capsys, modifiers, edges):
    lines = (f"is_a: X:2 {modifiers}", f"relationship: part_of X:2 {modifiers}")

    ontology = read(stanza("X:1", "name: a", *lines) + stanza("X:2", "name: b"), ALL)

    relations = [ontology.parents, *ontology.relations.values()]
    assert sum(matrix.nnz for matrix in relations) == 2 * int(edges)
    assert ("left out 2 relations" in capsys.readouterr().err) == (edges == "0")


IMPORTED = (
    stanza("X:1", "name: a")
    + stanza("X:2", "name: b", "is_a: Y:8", "is_a: X:1")
    + stanza("Y:1", "name: c", "is_a: Y:9", "relationship: part_of Z:1")
)


def test_relations_to_missing_terms_of_an_ontology_imported_in_part_are_left_out(read, capsys):
    assert read(IMPORTED, ALL).parents.nnz == 1
    assert "left out 3 relations" in capsys.readouterr().err


@cases(
    "name, header",
    {
        "name of the file": ("cl.obo", ""),
        "header": ("download.obo", "ontology: cl"),
        "URL": ("download.obo", "ontology: http://purl.obolibrary.org/obo/cl/cl-base.owl"),
        "neither": ("download.obo", ""),
    },
)
def test_a_file_may_import_more_terms_than_it_has_of_its_own(name, header, tmp_path, capsys):
    imported = "".join(stanza(f"UBERON:{n}", f"name: organ {n}") for n in range(3))
    dangling = stanza("UBERON:9", "name: organ", "is_a: UBERON:404")
    terms = stanza("CL:1", "name: cell") + imported + dangling

    ontology = read_obo(write(tmp_path / name, f"{header}\n\n{terms}"), ALL)

    assert ontology.ids[0] == "CL:1"
    assert "left out 1 relations to terms of other ontologies" in capsys.readouterr().err


def test_a_concept_of_the_umls_is_found_by_its_cui_alone(read):
    assert read(OBO).index("C0018801") == 3
