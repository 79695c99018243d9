"""Stored distances are found again by what they belong to, never read when damaged, and private."""

import numpy as np
import pytest
from made_up_files import ontology, some_pairs
from test_distances import EDGES, graph, random_graph

from mednli_jax.errors import ConfigError, RunError
from mednli_jax.knowledge import paths
from mednli_jax.knowledge.distances import DIRECTIONS, shortest_paths
from mednli_jax.knowledge.paths import stored_paths


@pytest.fixture
def searches(monkeypatch):
    """Records the sets of pairs that are searched."""
    seen = []

    def counted(ontology, pairs, **how):
        seen.append(pairs)
        return shortest_paths(ontology, pairs, **how)

    monkeypatch.setattr(paths, "shortest_paths", counted)
    return seen


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_second_time_nothing_is_searched(tmp_path, searches, direction):
    pairs = some_pairs()
    expected = shortest_paths(ontology(), pairs, direction=direction)
    first = stored_paths(ontology(), pairs, folder=tmp_path / "a" / "b", direction=direction)
    second = stored_paths(ontology(), pairs, folder=tmp_path / "a" / "b", direction=direction)
    for found in (first, second):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int16
        found[0] = 5  # the array belongs to the caller
    assert len(searches) == 1
    assert len(searches[0]) == len(np.unique(np.sort(pairs), axis=0))  # each pair is searched once


def test_order_and_repetition_of_pairs_do_not_matter(tmp_path, searches):
    pairs = some_pairs()
    found = stored_paths(ontology(), pairs, folder=tmp_path)
    turned = stored_paths(ontology(), np.concatenate([pairs, pairs])[::-1, ::-1], folder=tmp_path)
    np.testing.assert_array_equal(turned, np.concatenate([found, found])[::-1])
    assert (len(searches), len(list(tmp_path.glob("*.paths")))) == (1, 1)


def test_whatever_shapes_the_distances_is_part_of_the_key(tmp_path, searches):
    edges, others = random_graph(np.random.default_rng(0), 60, 1.3)
    spare = next(root for root in range(60) if all(root not in edge for edge in edges))
    asked = [
        (graph(edges, 60, other=others), some_pairs(), {}),
        (graph(edges, 60, other=others), some_pairs(), {"direction": "undirected"}),
        (graph(edges, 60, other=others), some_pairs(), {"direction": "all"}),
        (graph(edges, 60, other=others[1:]), some_pairs(), {"direction": "all"}),
        (graph(edges, 60, other=others), some_pairs(), {"max_length": 2}),
        (graph(edges, 60, other=others), some_pairs(1), {}),
        (graph(edges[1:], 60, other=others), some_pairs(), {}),
        (graph([*edges[1:], (spare, edges[0][1])], 60, other=others), some_pairs(), {}),
    ]
    for _ in range(2):
        for given, pairs, how in asked:
            found = stored_paths(given, pairs, folder=tmp_path, **how)
            np.testing.assert_array_equal(found, shortest_paths(given, pairs, **how))
    assert len(searches) == len(list(tmp_path.glob("*.paths"))) == len(asked)
    # A relation that the direction does not use changes nothing.
    stored_paths(graph(edges, 60, other=others[1:]), some_pairs(), folder=tmp_path)
    assert len(searches) == len(asked)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:40],
        lambda content: b"",
        lambda content: content + b"\0\0",
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
    ],
)
def test_a_damaged_file_is_reported_and_replaced(tmp_path, searches, capsys, damage):
    expected = stored_paths(ontology(), some_pairs(), folder=tmp_path)
    (path,) = tmp_path.glob("*.paths")
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    np.testing.assert_array_equal(stored_paths(ontology(), some_pairs(), folder=tmp_path), expected)
    assert capsys.readouterr().err.startswith(f"warning: {path}: ")
    assert path.read_bytes() == whole
    assert len(searches) == 2
    stored_paths(ontology(), some_pairs(), folder=tmp_path)
    assert len(searches) == 2


def test_the_file_of_other_pairs_is_not_taken(tmp_path, searches):
    stored_paths(ontology(), 59 - some_pairs(), folder=tmp_path)  # as many pairs as before
    (other,) = tmp_path.glob("*.paths")
    content = other.read_bytes()
    other.unlink()
    expected = stored_paths(ontology(), some_pairs(), folder=tmp_path)
    (own,) = tmp_path.glob("*.paths")
    own.write_bytes(content)
    np.testing.assert_array_equal(stored_paths(ontology(), some_pairs(), folder=tmp_path), expected)
    assert len(searches) == 3


def test_only_the_owner_reads_them(tmp_path):
    stored_paths(ontology(), some_pairs(), folder=tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    (path,) = folder.glob("*.paths")
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_search_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def failing(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(paths, "shortest_paths", failing)
    with pytest.raises(KeyboardInterrupt):
        stored_paths(ontology(), some_pairs(), folder=tmp_path / "x")
    assert list(tmp_path.glob("*.paths")) == []


def test_progress_is_passed_on(tmp_path):
    reported = []
    stored_paths(ontology(), some_pairs(), folder=tmp_path, direction="all", progress=lambda *n: reported.append(n))
    assert reported[-1][0] == reported[-1][1] > 0


def test_no_pairs_make_no_file(tmp_path):
    assert stored_paths(ontology(), np.zeros((0, 2), int), folder=tmp_path / "x").shape == (0,)
    assert list(tmp_path.glob("*.paths")) == []


def test_what_cannot_be_asked_or_kept(tmp_path):
    with pytest.raises(ConfigError, match="unknown direction"):
        stored_paths(graph(EDGES, 7), np.zeros((1, 2), int), folder=tmp_path, direction="up")
    with pytest.raises(ValueError, match="outside"):
        stored_paths(graph(EDGES, 7), np.array([[0, 7]]), folder=tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(RunError, match=r".*Fix"):
        stored_paths(graph(EDGES, 7), np.array([[0, 3]]), folder=blocked / "below")
