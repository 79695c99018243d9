"""Ontologies in the cache equal those that were stored, and no damaged file is used."""

import os

import pytest
from support.cases import cases
from support.files import write
from support.ontologies import rich, small

from mednli_jax.errors import RunError
from mednli_jax.knowledge.load import cached_ontology, load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions

KEY = {"made": "up"}
OBO = "[Term]\nid: X:1\nname: fever\n\n[Term]\nid: X:2\nname: high fever\nis_a: X:1\n"
FIELDS = ("name", "version", "ids", "labels", "sha256", "types", "link_types", "abbreviations")
PAIRS_OF = ("names", "cross_references")


def assert_same(loaded, original):
    for field in FIELDS:
        assert getattr(loaded, field) == getattr(original, field), field
    for field in PAIRS_OF:
        assert tuple(getattr(loaded, field)) == tuple(getattr(original, field)), field
    assert (loaded.parents != original.parents).nnz == 0
    assert loaded.relations.keys() == original.relations.keys()
    for name, matrix in original.relations.items():
        assert (loaded.relations[name] != matrix).nnz == 0, name


def refuse_to_build():
    raise AssertionError("the stored ontology should have served")


@cases(
    "original",
    {
        "all-fields": rich(),
        "few-fields": small(),
        "empty": small(edges=(), labels=()),
    },
)
def test_a_stored_ontology_is_the_same_under_its_key_and_built_under_another(
    tmp_path, capsys, original
):
    path = tmp_path / "ontology.npz"

    assert_same(cached_ontology(path, KEY, lambda: original), original)
    assert_same(cached_ontology(path, KEY, refuse_to_build), original)
    assert tuple(cached_ontology(path, {"made": "otherwise"}, small).names) == small().names
    assert "is of other sources or settings" in capsys.readouterr().err


@pytest.mark.parametrize("place", [0, 40, 0.3, 0.5, 0.9, -30, -1])
@pytest.mark.parametrize("change", ["flip", "cut"])
def test_a_damaged_file_is_named_and_made_again(tmp_path, capsys, place, change):
    path = tmp_path / "ontology.npz"

    def check():
        assert_same(cached_ontology(path, KEY, rich), rich())

    check()
    content = bytearray(path.read_bytes())
    at = int(place * len(content)) if isinstance(place, float) else place
    if change == "flip":
        content[at] ^= 1
    path.write_bytes(content[:at] if change == "cut" else content)

    check()
    warning = capsys.readouterr().err
    # A flip in bytes that no reader needs, such as the date of a member, may pass.
    assert change == "flip" or str(path) in warning
    check()
    assert capsys.readouterr().err == ""


def load(folder, content=OBO, relations="is_a"):
    """Loads an ontology from a file of an old date. A cache lies beside it."""
    path = write(folder / "own.obo", content)
    os.utime(path, ns=(0, 1))
    options = OntologyOptions(relations=relations)
    return load_ontology(str(path), options=options, cache_dir=folder / "cache")


def copies(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("cache/ontologies/*.npz")}


def test_an_ontology_is_stored_once_for_each_choice_of_options(tmp_path):
    first = load(tmp_path)
    stored_copies = copies(tmp_path)

    assert_same(load(tmp_path), first)
    assert copies(tmp_path) == stored_copies
    load(tmp_path, relations="all")
    assert len(copies(tmp_path)) == 2


def test_without_a_cache_an_ontology_is_the_same(tmp_path):
    first = load(tmp_path)

    assert_same(load_ontology(str(tmp_path / "own.obo")), first)


def test_an_edit_of_an_ontology_that_keeps_size_and_date_is_noticed(tmp_path):
    """`touch -r`, `cp -p` and `rsync -t` keep them."""
    load(tmp_path)

    edited = load(tmp_path, OBO.replace("high fever", "mild fever"))

    assert edited.labels == ("fever", "mild fever")


@pytest.mark.parametrize("blocked", ["cache", "cache/ontologies"])
def test_a_blocked_cache_folder_is_refused_with_its_path(tmp_path, blocked):
    write(tmp_path / blocked, "a file")

    with pytest.raises(RunError) as caught:
        load(tmp_path)

    assert str(tmp_path / blocked) in str(caught.value)
    assert "MEDNLI_JAX_CACHE" in str(caught.value)
