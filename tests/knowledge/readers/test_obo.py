"""The OBO reader on a made-up file whose graph is checked by hand."""

from itertools import permutations

import pytest
from support.files import write
from support.ontologies import edges_of
from support.ontology_files import OBO

from mednli_jax.errors import DataError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.obo import read_obo

PLAIN, ALL = OntologyOptions(), OntologyOptions(relations="all")


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "made_up.obo", OBO)


def test_concepts_names_and_types(path):
    ontology = read_obo(path, PLAIN)
    assert (ontology.name, ontology.version) == ("made_up", "releases/2024-01-01")
    assert ontology.ids == ("XP:1", "XP:2", "XP:3", "XP:4", "XP:5")
    assert ontology.labels == ("Finding", "Heart disease", "Lung disease", "Heart failure", "Organ")
    assert ontology.names == (
        *((label, place) for place, label in enumerate(ontology.labels)),
        ("Cardiac disease", 1),
        ('Cardiopathy "old"', 1),
        ("HF", 3),
        ("Pump failure", 3),
    )
    assert ontology.abbreviations == {"HF"}
    assert ontology.types == ("findings",) * 4 + ("anatomy",)
    linked = Linker(ontology).link(["known", "HF", ",", "prior", "cardiac", "diseases"])
    assert [mention.concept for mention in linked] == ["XP:4", "XP:2"]


def test_is_a_and_other_relations(path, capsys):
    ontology = read_obo(path, ALL)
    assert ontology.ancestors("XP:4") == {"XP:2": 1, "XP:3": 1, "XP:1": 2}
    assert ontology.parents.nnz == 4
    assert list(ontology.relations) == ["affects_organ"]
    assert edges_of(ontology.relations["affects_organ"], ontology.ids) == {("XP:2", "XP:5")}
    assert "left out 2 relations to terms of other ontologies" in capsys.readouterr().err
    assert read_obo(path, PLAIN).relations == {}


def test_cross_references_and_old_ids(path):
    ontology = read_obo(path, PLAIN)
    expected = {("MESH:D006333", 3), ("UMLS:C0018801", 3), ("XP:40", 3), ("XP:9", 3)}
    assert set(ontology.cross_references) == expected
    assert [ontology.index(old) for old in ("XP:40", "XP:9", "MESH:D006333", "XP:2")] == [
        3,
        3,
        3,
        1,
    ]
    assert ontology.ancestors("XP:40") == ontology.ancestors("XP:4")
    more = "\n[Term]\nid: XP:6\nname: six\nis_a: XP:40\nis_a: XP:9\n"
    more += (
        "\n[Term]\nid: XP:8\nname: split\nis_obsolete: true\nreplaced_by: XP:2\nreplaced_by: XP:3\n"
    )
    ontology = read_obo(write(path, OBO + more), ALL)
    assert ontology.ancestors("XP:6")["XP:4"] == 1
    assert "XP:8" not in dict(
        ontology.cross_references
    )  # two terms replace it: it stands for neither


def test_a_term_without_a_name_stays_in_the_graph_alone(tmp_path):
    path = write(
        tmp_path / "made_up.obo", "[Term]\nid: X:1\n\n[Term]\nid: X:2\nname: fever\nis_a: X:1\n"
    )
    ontology = read_obo(path, PLAIN)
    assert ontology.ancestors("X:2") == {"X:1": 1}
    assert (ontology.labels, ontology.names) == (("X:1", "fever"), (("fever", 1),))
    assert ontology.version == "unknown"
    assert ontology.types == ()


def stanza(concept, *tags):
    return f"[Term]\nid: {concept}\n" + "".join(f"{tag}\n" for tag in tags) + "\n"


CURRENT = stanza("X:3", "name: fever", "alt_id: X:30"), stanza("X:4", "name: cough")
CHAINS = (
    # (stanzas besides CURRENT, the concept of each old id)
    ({"X:1": ("replaced_by: X:2",), "X:2": ("replaced_by: X:3",)}, {"X:1": "X:3", "X:2": "X:3"}),
    (
        {"X:1": ("replaced_by: X:20",), "X:2": ("replaced_by: X:30", "alt_id: X:20")},
        {"X:1": "X:3", "X:20": "X:3"},
    ),
    (
        {"X:1": ("replaced_by: X:2", "replaced_by: X:3"), "X:2": ("replaced_by: X:3",)},
        {"X:1": "X:3"},
    ),
    (
        {"X:1": ("replaced_by: X:2", "replaced_by: X:4"), "X:2": ("replaced_by: X:3",)},
        {"X:1": None, "X:2": "X:3"},
    ),
    ({"X:1": ("replaced_by: X:2",), "X:2": ("replaced_by: X:1",)}, {"X:1": None, "X:2": None}),
    ({"X:1": ("replaced_by: X:2",), "X:2": ("replaced_by: Y:9",)}, {"X:1": None, "X:2": None}),
    (
        {"X:1": ("replaced_by: X:1", "alt_id: X:2"), "X:2": ("replaced_by: X:4",)},
        {"X:1": None, "X:2": "X:4"},
    ),
)


@pytest.mark.parametrize(("obsolete", "expected"), CHAINS)
def test_old_ids_lead_over_any_number_of_steps_to_one_term_in_any_order(
    tmp_path, obsolete, expected
):
    old = [stanza(concept, "is_obsolete: true", *tags) for concept, tags in obsolete.items()]
    for stanzas in permutations([*CURRENT, *old]):
        ontology = read_obo(write(tmp_path / "x.obo", "".join(stanzas)), PLAIN)
        found = {concept: ontology.index(concept) for concept in expected}
        assert {
            c: None if place is None else ontology.ids[place] for c, place in found.items()
        } == expected


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("cyclo{alanine}", "cyclo{alanine}"),
        ("N(4)-{beta-D-GlcNAc-(1->2)}-Asn residue", "N(4)-{beta-D-GlcNAc-(1->2)}-Asn residue"),
        ("residue {alanine}", "residue {alanine}"),
        (r"fever \{a=b\}", "fever {a=b}"),
        (r"wow \! great\, \(so\) \[x\] \"q\" c\:d e\\n", r'wow ! great, (so) [x] "q" c:d e\n'),
        (r"two\nlines\Wand\ttab", "two lines and tab"),
        ('cyclo{x} {source="X:1", comment="a } ! b"} ! a comment', "cyclo{x}"),
        ("fever {scope=EXACT}", "fever"),
        ('fever ! a comment {source="X:1"}', "fever"),
    ],
)
def test_only_modifiers_and_comments_at_the_end_are_no_part_of_a_name(tmp_path, value, name):
    path = write(tmp_path / "x.obo", stanza("X:1", f"name: {value}"))
    assert read_obo(path, PLAIN).labels == (name,)


@pytest.mark.parametrize(
    "rest", ['EXACT [] {source="a ! b"}', "EXACT ! {c}", 'EXACT abbreviation {a="["} ! b', "EXACT"]
)
def test_modifiers_and_comments_are_no_part_of_a_synonym(tmp_path, rest):
    path = write(
        tmp_path / "x.obo",
        stanza("X:1", "name: a", rf'synonym: "cyclo{{b}} ! c {{d=e}}\nf" {rest}'),
    )
    ontology = load_ontology(str(path), cache_dir=tmp_path / "cache")
    assert ontology.names == (("a", 0), ("cyclo{b} ! c {d=e} f", 0))
    assert bool(ontology.abbreviations) == ("abbreviation" in rest)


GCI = '{gci_filler="NCBITaxon:10090", gci_relation="part_of"}'


@pytest.mark.parametrize(
    ("modifiers", "holds"),
    [
        ("", True),
        ('{source="X:9", is_inferred="true"} ! x', True),
        ('{comment="gci_relation=x"}', True),
        (f"! x {GCI}", True),
        ('{minCardinality="1"}', True),
        (GCI, False),
        (f"{GCI} ! x", False),
        ('{source="a, b", gci_relation="part_of"}', False),
        ('{maxCardinality="0"}', False),
        ('{all_only="true"}', False),
    ],
)
def test_relations_under_a_condition_are_left_out_and_counted(tmp_path, capsys, modifiers, holds):
    lines = (f"is_a: X:2 {modifiers}", f"relationship: part_of X:2 {modifiers}")
    path = write(tmp_path / "x.obo", stanza("X:1", "name: a", *lines) + stanza("X:2", "name: b"))
    ontology = read_obo(path, ALL)
    edges = [ontology.parents, *ontology.relations.values()]
    assert sum(matrix.nnz for matrix in edges) == (2 if holds else 0)
    assert ("left out 2 relations" in capsys.readouterr().err) == (not holds)


def test_relations_to_terms_that_are_not_there_are_refused_within_the_prefix_of_most_terms_alone(
    tmp_path, capsys
):
    """Terms of other ontologies are often imported in part."""
    terms = stanza("X:1", "name: a") + stanza("X:2", "name: b", "is_a: Y:8", "is_a: X:1")
    terms += stanza("Y:1", "name: c", "is_a: Y:9", "relationship: part_of Z:1")
    path = write(tmp_path / "x.obo", terms)
    assert read_obo(path, ALL).parents.nnz == 1
    assert "left out 3 relations" in capsys.readouterr().err
    with pytest.raises(DataError) as found:
        read_obo(write(path, terms + stanza("Y:2", "name: d", "is_a: X:9")), ALL)
    assert (found.value.line, found.value.field) == (20, "is_a")
