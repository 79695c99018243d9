"""The stored ontology equals the one that was stored, and nothing partial or damaged is ever used."""

import json
import os
import stat
import time

import numpy as np
import pytest
from made_up_files import KEY, rich
from scipy.sparse import csr_array
from test_ontology import small

from mednli_jax.errors import RunError, UserError
from mednli_jax.knowledge import load
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions, is_a_matrix, permuted, relation_matrix
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.knowledge.store import stored
from mednli_jax.knowledge.string_arrays import Names, Relations, Strings

OBO = "[Term]\nid: X:1\nname: fever\n\n[Term]\nid: X:2\nname: high fever\nis_a: X:1\n"


def assert_equal(one, other):
    for part in ("name", "version", "ids", "labels", "names", "sha256", "types", "link_types", "abbreviations"):
        assert getattr(one, part) == getattr(other, part), part
    assert one.cross_references == other.cross_references
    assert (one.parents != other.parents).nnz == 0
    assert list(one.relations) == list(other.relations)
    assert all((one.relations[name] != other.relations[name]).nnz == 0 for name in other.relations)


def never():
    raise AssertionError("the stored ontology should have served")


@pytest.mark.parametrize("strings", [(), ("",), ("a", "", "bc"), ("Ménière", "é", "", "💊x", "plain")])
def test_strings_behave_as_a_tuple(strings):
    table = Strings.of(strings)
    assert tuple(table) == strings
    assert table == strings
    assert strings == table
    assert table != (*strings, "more")
    assert [table[index] for index in range(-len(strings), len(strings))] == [*strings, *strings]
    for cut in (slice(1, 3), slice(None, None, -1), slice(3, 1), slice(None), slice(0, 5, 2)):
        assert table[cut] == strings[cut]
    with pytest.raises(IndexError):
        table[len(strings)]
    assert ("bc" in table) == ("bc" in strings)
    assert table != "".join(strings)  # a table does not equal a string


def test_long_tables_are_the_same_block_by_block():
    strings = tuple(f"{number}{'é' * (number % 3)}" for number in range(40_000))
    assert tuple(Strings.of(strings)) == strings
    pairs = tuple((string, len(strings) - number) for number, string in enumerate(strings))
    names = Names.of(pairs)
    assert tuple(names) == pairs
    assert names == pairs
    assert (names[-1], names[16383:16386]) == (pairs[-1], pairs[16383:16386])
    assert names != (*pairs[:-1], ("other", 1))


def test_relations_are_made_when_asked_for_and_not_shared():
    matrix = is_a_matrix([(0, 1), (2, 0), (2, 1)], 3)
    matrix.data[0] = False
    relations = Relations.of({"part_of": matrix, "none": csr_array((3, 3), dtype=bool)}, 3)
    assert dict(relations["part_of"].todok()) == {(2, 0): True, (2, 1): True}
    relations["part_of"].indices[:] = 0
    matrix.indices[:] = 0
    assert dict(relations["part_of"].todok()) == {(2, 0): True, (2, 1): True}
    assert (relations["none"].nnz, list(relations), "is_a" in relations) == (0, ["none", "part_of"], False)


def test_what_comes_back_equals_what_went_in(tmp_path):
    for ontology in (rich(), small(), small(edges=(), labels=(), ids=())):
        folder = tmp_path / str(len(ontology.cross_references) + len(ontology))
        assert_equal(stored(folder, KEY, lambda ontology=ontology: ontology), ontology)
        assert_equal(stored(folder, KEY, never), ontology)


def test_a_stored_ontology_serves_as_the_read_one_does(tmp_path):
    mesh = read_mesh()
    there = stored(tmp_path / "mesh", KEY, lambda: mesh)
    assert_equal(there, mesh)
    tokens = ["h/o", "CHF", ",", "heart", "failure", "and", "type", "2", "diabetes", "mellitus"]
    assert Linker(there).link(tokens) == Linker(mesh).link(tokens) != []
    assert there.ancestors("D003924") == mesh.ancestors("D003924")
    assert there.descendants("D002318") == mesh.descendants("D002318")
    pairs = np.random.default_rng(0).integers(0, len(mesh), (500, 2))
    for direction in ("either", "undirected"):
        expected = shortest_paths(mesh, pairs, direction=direction)
        assert np.array_equal(shortest_paths(there, pairs, direction=direction), expected)
    assert permuted(there, 1).names == permuted(mesh, 1).names
    with pytest.raises(UserError, match=r"Did you mean 'D001281' \(Atrial Fibrillation\)"):
        there.index("atrial fibrillation")


def test_the_big_parts_are_memory_mapped(tmp_path):
    there = stored(tmp_path / "x", KEY, rich)
    for array in (there.ids.buffer, there.names.strings.buffer, there.names.concepts, there.parents.indices):
        while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
            array = array.base
        assert isinstance(array, np.memmap)


def test_nobody_else_may_read_it(tmp_path):
    old = os.umask(0)
    try:
        stored(tmp_path / "ontologies" / "x", KEY, rich)
    finally:
        os.umask(old)
    found = [tmp_path / "ontologies", *(tmp_path / "ontologies").rglob("*")]
    assert len(found) > 15
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-2]),
    "empty": lambda path: path.write_bytes(b""),
    "one bit": flip,
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["manifest.json", "ids.bytes.npy", "names.offsets.npy", "parents.indices.npy"])
def test_damage_is_reported_and_read_again(tmp_path, capsys, name, damage):
    folder = tmp_path / "x"
    stored(folder, KEY, rich)
    path = folder / name
    status = path.stat()
    DAMAGE[damage](path)
    if path.exists():
        # a damaged disk does not change the modification time
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    calls = []
    again = stored(folder, KEY, lambda: calls.append(1) or rich())
    assert calls == [1]
    assert str(folder) in capsys.readouterr().err
    assert_equal(again, rich())
    stored(folder, KEY, never)


def test_a_manifest_that_was_edited_counts_as_damaged(tmp_path):
    folder = tmp_path / "x"
    stored(folder, KEY, rich)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "version": "2"}))
    assert stored(folder, KEY, rich).version == "1"


def test_another_key_is_another_ontology(tmp_path):
    stored(tmp_path / "x", KEY, rich)
    assert stored(tmp_path / "x", {"made": "otherwise"}, small).names == small().names


def test_a_build_that_fails_leaves_nothing(tmp_path):
    def fail():
        raise UserError("made up")

    with pytest.raises(UserError):
        stored(tmp_path / "ontologies" / "x", KEY, fail)
    assert list(tmp_path.rglob("*")) == []


def test_a_cache_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"Fix: .*\$MEDNLI_JAX_CACHE"):
        stored(tmp_path / "file" / "x", KEY, rich)


def test_two_that_build_at_once_end_with_one_copy(tmp_path):
    folder = tmp_path / "x"

    def slow():
        stored(folder, KEY, rich)  # a faster process stores it first
        return rich()

    assert_equal(stored(folder, KEY, slow), rich())
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "x"]


@pytest.fixture
def counted(monkeypatch):
    """Records the calls of the OBO reader."""
    calls, reader = [], load.read_obo
    monkeypatch.setattr(load, "read_obo", lambda path, options: calls.append(path.name) or reader(path, options))
    return calls


def test_a_source_is_read_once_until_it_changes(tmp_path, counted):
    path, cache = tmp_path / "own.obo", tmp_path / "cache"
    path.write_text(OBO)
    first = load_ontology(str(path), cache_dir=cache)
    second = load_ontology(str(path), cache_dir=cache)
    assert counted == ["own.obo"]
    assert_equal(second, first)
    load_ontology(str(path), options=OntologyOptions(relations="all"), cache_dir=cache)
    assert len(counted) == 2
    load_ontology(str(path))  # without a cache the file is read each time
    assert len(counted) == 3
    path.write_text(OBO.replace("high fever", "mild fever"))  # the file keeps its size
    os.utime(path, ns=(0, 1))
    assert load_ontology(str(path), cache_dir=cache).labels == ("fever", "mild fever")
    assert len(counted) == 4


def test_a_source_that_was_edited_and_keeps_its_size_and_date_is_read_again(tmp_path):
    """As `touch -r`, `cp -p` and `rsync -t` leave it."""
    path, cache = tmp_path / "own.obo", tmp_path / "cache"
    path.write_text(OBO)
    os.utime(path, ns=(0, 1))
    assert load_ontology(str(path), cache_dir=cache).labels == ("fever", "high fever")
    path.write_text(OBO.replace("high fever", "mild fever"))
    os.utime(path, ns=(0, 1))
    assert load_ontology(str(path), cache_dir=cache).labels == ("fever", "mild fever")


def test_files_that_change_while_they_are_read_are_not_kept(tmp_path, monkeypatch):
    path, reader = tmp_path / "own.obo", load.read_obo
    path.write_text(OBO)

    def grows(path, options):
        ontology = reader(path, options)
        path.write_text(OBO + "xref: Y:1\n")
        return ontology

    monkeypatch.setattr(load, "read_obo", grows)
    with pytest.raises(UserError, match=r"own\.obo"):
        load_ontology(str(path), cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache" / "ontologies").exists()


def test_a_damaged_source_leaves_no_copy(tmp_path):
    path = tmp_path / "own.obo"
    path.write_text(OBO + "is_a: X:3\n")
    with pytest.raises(UserError, match=r"own\.obo:9"):
        load_ontology(str(path), cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache" / "ontologies").exists()


def test_mesh_and_tables_are_never_copied(tmp_path):
    table = tmp_path / "own.tsv"
    table.write_text("id\tname\ttree_numbers\tsynonyms\nD1\tHeart Failure\tC14\tPump Failure\n")
    assert load_ontology(str(table), cache_dir=tmp_path / "cache").ids == ("D1",)
    assert len(load_ontology("mesh", cache_dir=tmp_path / "cache")) == 30764
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_a_full_terminology_is_there_within_a_second(tmp_path):
    """350,000 concepts, 1,500,000 is-a edges, 1,500,000 other edges and 1,000,000 names; all are read once."""
    size, edges, count = 350_000, 1_500_000, 1_000_000
    random = np.random.default_rng(0)
    child = random.integers(1, size, edges)
    parent = (child * random.random(edges)).astype(np.int64)  # smaller than the child, so there is no cycle
    other = relation_matrix(random.integers(0, size, edges), random.integers(0, size, edges), size)
    ids = tuple(f"C{number:07}" for number in range(size))
    labels = tuple(f"made up concept {number}" for number in range(size))
    names = tuple((f"a longer name of a concept, {number}", number % size) for number in range(count))
    fields = {"ids": ids, "labels": labels, "names": names, "types": ("T047",) * size, "relations": {"near": other}}
    ontology = small(parents=relation_matrix(child, parent, size), **fields)
    stored(tmp_path / "x", KEY, lambda: ontology)
    begun = time.perf_counter()
    there = stored(tmp_path / "x", KEY, never)
    loaded = time.perf_counter() - begun
    assert there.index("C0349999") == size - 1
    looked_up = time.perf_counter() - begun
    assert_equal(there, ontology)
    megabytes = sum(path.stat().st_size for path in (tmp_path / "x").iterdir()) / 1e6
    print(f"{megabytes:.0f} MB: loaded in {loaded:.2f} s, with an index of ids in {looked_up:.2f} s")
    assert loaded < 1
