"""The bundled tables of names: their concepts exist, and a name stands in one row of all tables."""

from collections import Counter
from importlib.resources import files

from mednli_jax.knowledge.load import load_ontology

RESOURCES = files("mednli_jax.knowledge") / "resources"


def rows_of(*tables):
    rows = []
    for table in tables:
        lines = (RESOURCES / table).read_text("utf-8").splitlines()[1:]
        rows += [line.split("\t") for line in lines]
    return rows


ALIASES = rows_of("aliases_everyday.tsv", "aliases_doid.tsv")
ABBREVIATIONS = rows_of("abbreviations.tsv")


def test_every_concept_of_the_bundled_tables_is_in_mesh():
    concepts = {row[1] for row in ALIASES} | {row[2] for row in ABBREVIATIONS}

    assert concepts - {""} <= set(load_ontology("mesh").ids)


def test_a_bundled_name_is_in_lower_case_and_stands_in_one_row_of_all_tables():
    names = [row[0] for row in ALIASES + ABBREVIATIONS]

    assert max(Counter(names).values()) == 1
    assert names == [" ".join(name.lower().split()) for name in names]


def test_every_resource_is_credited():
    credits = (RESOURCES / "CREDITS.md").read_text("utf-8")
    names = [entry.name for entry in RESOURCES.iterdir()]
    tables = [name for name in names if name.endswith((".tsv", ".gz"))]

    assert [name for name in tables if f"`{name}`" not in credits] == []
    assert "does not reflect the most current" in credits
    assert "CC0 1.0" in credits
