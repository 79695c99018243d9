"""The bundled tables of names: identifiers exist, and a name means one concept in all tables
together."""

from collections import Counter
from importlib.resources import files

from support.ontologies import bundled_mesh

RESOURCES = files("mednli_jax.knowledge") / "resources"


def rows(name):
    """The rows of a table without its header."""
    return [
        line.split("\t") for line in (RESOURCES / name).read_text(encoding="utf-8").splitlines()[1:]
    ]


def test_the_tables_agree_with_each_other():
    aliases = rows("aliases_everyday.tsv") + rows("aliases_doid.tsv")
    abbreviations = rows("abbreviations.tsv")
    assert {row[1] for row in aliases} | {row[2] for row in abbreviations if row[2]} <= set(
        bundled_mesh().ids
    )
    forms = [row[0] for row in aliases + abbreviations]
    assert [form for form, times in Counter(forms).items() if times > 1] == []
    assert [form for form in forms if form != " ".join(form.lower().split())] == []


def test_every_resource_is_credited():
    credits = (RESOURCES / "CREDITS.md").read_text(encoding="utf-8")
    names = {entry.name for entry in RESOURCES.iterdir() if entry.name.endswith((".tsv", ".gz"))}
    assert {name for name in names if f"`{name}`" not in credits} == set()
    assert "does not reflect the most current" in credits
    assert "CC0 1.0" in credits
