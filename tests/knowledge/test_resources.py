"""The bundled tables of names: identifiers exist, and a name means one concept in all tables together."""

import csv
import gzip
from collections import Counter, defaultdict
from importlib.resources import files

import pytest

RESOURCES = files("mednli_jax.knowledge") / "resources"


def rows(name):
    """The rows of a table without its header."""
    return [line.split("\t") for line in (RESOURCES / name).read_text(encoding="utf-8").splitlines()[1:]]


@pytest.fixture(scope="module")
def mesh():
    """Descriptor id -> all its names, the preferred one first."""
    with (RESOURCES / "mesh2024.tsv.gz").open("rb") as raw, gzip.open(raw, "rt", encoding="utf-8", newline="") as text:
        table = csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["id"]: [row["name"], *filter(None, row["synonyms"].split("|"))] for row in table}


def test_the_tables_agree_with_each_other(mesh):
    aliases = rows("aliases_everyday.tsv") + rows("aliases_doid.tsv")
    abbreviations = rows("abbreviations.tsv")
    assert len(mesh) == 30_764
    assert {row[1] for row in aliases} | {row[2] for row in abbreviations if row[2]} <= mesh.keys()
    forms = [row[0] for row in aliases + abbreviations]
    assert [form for form, times in Counter(forms).items() if times > 1] == []
    assert [form for form in forms if form != " ".join(form.lower().split())] == []
    owners = defaultdict(set)
    for concept, names in mesh.items():
        for name in names:
            owners[name.lower()].add(concept)
    assert [row[0] for row in aliases if row[0] in owners] == []
    # The MeSH headings "culture", "history" and "patient" mean something else than these clinical abbreviations.
    assert {row[0] for row in abbreviations if row[1] in owners and row[2] not in owners[row[1]]} == {"cx", "hx", "pt"}


def test_every_resource_is_credited():
    credits = (RESOURCES / "CREDITS.md").read_text(encoding="utf-8")
    names = {entry.name for entry in RESOURCES.iterdir() if entry.name.endswith((".tsv", ".gz"))}
    assert {name for name in names if f"`{name}`" not in credits} == set()
    assert "does not reflect the most current" in credits
    assert "CC0 1.0" in credits
