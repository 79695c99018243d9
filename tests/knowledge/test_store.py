"""What the cache keeps of ontologies and of distances equals what was made, and nothing damaged is
ever used."""

import os

import numpy as np
import pytest
from support.ontologies import graph, ontology, random_graph, rich, small, some_pairs

from mednli_jax.knowledge import distances, load
from mednli_jax.knowledge.distances import DIRECTIONS, shortest_paths, stored_paths
from mednli_jax.knowledge.load import load_ontology, stored
from mednli_jax.knowledge.ontology import OntologyOptions

KEY = {"made": "up"}
OBO = "[Term]\nid: X:1\nname: fever\n\n[Term]\nid: X:2\nname: high fever\nis_a: X:1\n"


def assert_equal(one, other):
    for part in (
        "name",
        "version",
        "ids",
        "labels",
        "sha256",
        "types",
        "link_types",
        "abbreviations",
    ):
        assert getattr(one, part) == getattr(other, part), part
    for part in ("names", "cross_references"):
        assert tuple(getattr(one, part)) == tuple(getattr(other, part)), part
    assert (one.parents != other.parents).nnz == 0
    edges = (
        {name: matrix.nonzero() for name, matrix in made.relations.items()} for made in (one, other)
    )
    np.testing.assert_equal(*edges)


def never():
    raise AssertionError("the stored ontology should have served")


def test_what_comes_back_equals_what_went_in_under_the_same_key(tmp_path):
    for number, made in enumerate((rich(), small(), small(edges=(), labels=()))):
        assert_equal(stored(tmp_path / str(number), KEY, lambda made=made: made), made)
        assert_equal(stored(tmp_path / str(number), KEY, never), made)
    assert tuple(stored(tmp_path / "0", {"made": "otherwise"}, small).names) == small().names


def make(folder):
    return stored_paths(ontology(), some_pairs(), folder=folder / "kept").tolist()


@pytest.mark.parametrize("place", [0, 40, 0.3, 0.5, 0.9, -30, -1])
@pytest.mark.parametrize("change", ["flip", "cut"])
def test_damage_is_reported_and_made_again(tmp_path, capsys, place, change):
    expected = make(tmp_path)
    (path,) = (tmp_path / "kept").glob("*.npz")
    whole = bytearray(path.read_bytes())
    place = int(place * len(whole)) if isinstance(place, float) else place
    damaged = whole[:place] if change == "cut" else whole[:]
    if change == "flip":
        damaged[place] ^= 1
    path.write_bytes(damaged)
    assert make(tmp_path) == expected
    told = capsys.readouterr().err
    assert make(tmp_path) == expected
    assert capsys.readouterr().err == ""
    # A flip in what no reader needs, such as the date of a member, may pass.
    assert change == "flip" or str(path) in told


def test_a_source_is_read_once_until_its_content_changes(tmp_path, monkeypatch):
    counted, reader, path, cache = [], load.read_obo, tmp_path / "own.obo", tmp_path / "cache"
    monkeypatch.setattr(
        load, "read_obo", lambda path, options: counted.append(path.name) or reader(path, options)
    )
    path.write_text(OBO)
    os.utime(path, ns=(0, 1))
    first = load_ontology(str(path), cache_dir=cache)
    assert_equal(load_ontology(str(path), cache_dir=cache), first)
    assert counted == ["own.obo"]
    load_ontology(str(path), options=OntologyOptions(relations="all"), cache_dir=cache)
    load_ontology(str(path))  # without a cache the file is read each time
    assert len(counted) == 3
    # An edit is seen that keeps size and date, as `touch -r`, `cp -p` and `rsync -t` leave it.
    path.write_text(OBO.replace("high fever", "mild fever"))
    os.utime(path, ns=(0, 1))
    assert load_ontology(str(path), cache_dir=cache).labels == ("fever", "mild fever")
    assert len(counted) == 4


@pytest.fixture
def searches(monkeypatch):
    """Records the sets of pairs that are searched."""
    seen = []

    def searched(ontology, pairs, **how):
        seen.append(pairs)
        return shortest_paths(ontology, pairs, **how)

    monkeypatch.setattr(distances, "shortest_paths", searched)
    return seen


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_distances_are_searched_once_in_whatever_order(tmp_path, searches, direction):
    pairs = some_pairs()
    expected = shortest_paths(ontology(), pairs, direction=direction)
    reported = []
    how = {"folder": tmp_path / "a" / "b", "direction": direction}
    for _ in range(2):
        found = stored_paths(
            ontology(), pairs, progress=lambda *numbers: reported.append(numbers), **how
        )
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int16
        found[0] = 5  # the array belongs to the caller
    turned = stored_paths(ontology(), np.concatenate([pairs, pairs])[::-1, ::-1], **how)
    np.testing.assert_array_equal(turned, np.concatenate([expected, expected])[::-1])
    assert len(searches) == 1
    assert len(searches[0]) == len(np.unique(np.sort(pairs), axis=0))  # each pair is searched once
    assert reported[-1][0] == reported[-1][1] > 0
    assert stored_paths(ontology(), np.zeros((0, 2), int), folder=tmp_path / "x").shape == (0,)


def test_whatever_shapes_the_distances_is_part_of_the_key(tmp_path, searches):
    edges, others = random_graph(np.random.default_rng(0), 60, 1.3)
    spare = next(root for root in range(60) if all(root not in edge for edge in edges))
    given, fewer = graph(edges, 60, other=others), graph(edges, 60, other=others[1:])
    asked = [
        *((given, some_pairs(), {"direction": direction}) for direction in DIRECTIONS),
        (fewer, some_pairs(), {"direction": "all"}),
        (given, some_pairs(), {"max_length": 2}),
        (given, some_pairs(1), {}),
        (given, 59 - some_pairs(), {}),  # as many pairs as before
        (graph(edges[1:], 60, other=others), some_pairs(), {}),
        (graph([*edges[1:], (spare, edges[0][1])], 60, other=others), some_pairs(), {}),
    ]
    for _ in range(2):
        for given, pairs, how in asked:
            found = stored_paths(given, pairs, folder=tmp_path, **how)
            np.testing.assert_array_equal(found, shortest_paths(given, pairs, **how))
    assert len(searches) == len(list(tmp_path.glob("*.npz"))) == len(asked)
    # A relation that the direction does not use changes nothing.
    stored_paths(fewer, some_pairs(), folder=tmp_path)
    assert len(searches) == len(asked)
