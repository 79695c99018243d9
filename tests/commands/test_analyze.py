"""Corpus statistics against numbers counted by hand."""

import numpy as np
import pytest
from support.ontologies import HEART
from support.pairs import mentions, pair

from mednli_jax.data.examples import Split
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.nli import corpus_stats as corpus
from mednli_jax.report.sections import lines

SPLITS = {
    "train": Split(
        "train",
        (
            pair("a b c", "d", "neutral"),
            pair("a b c", "d e", "entailment"),
            pair("f", "G h i", "neutral"),
        ),
        {"dropped_unlabelled": 2, "tokens": {"binary parse": 3, "treebank": 0}},
    ),
    "test": Split(
        "test",
        (pair(" ".join("x" * 51), "y A", "contradiction"), pair("f", "y", "neutral")),
        {"tokens": {"treebank": 2}},
    ),
}


def test_statistics_by_hand():
    found = corpus.statistics(SPLITS)
    train, test, whole = found["splits"]["train"], found["splits"]["test"], found["all"]
    assert (train["pairs"], test["pairs"], whole["pairs"]) == (3, 2, 5)
    assert (train["premises"], test["premises"], whole["premises"]) == (2, 2, 3)
    assert (train["shared_premises"], test["shared_premises"]) == (
        0,
        1,
    )  # premise "f" occurs in both
    assert train["labels"] == {"entailment": 1, "neutral": 2, "contradiction": 0}
    assert whole["labels"] == {"entailment": 1, "neutral": 3, "contradiction": 1}
    assert train["premise"] == {"mean": 7 / 3, "median": 3.0, "longest": 3, "over_50": 0}
    assert whole["premise"] == {
        "mean": (3 + 3 + 1 + 51 + 1) / 5,
        "median": 3.0,
        "longest": 51,
        "over_50": 1,
    }
    assert whole["hypothesis"]["mean"] == (1 + 2 + 3 + 2 + 1) / 5
    assert (train["words"], test["words"], whole["words"]) == (
        9,
        4,
        11,
    )  # a-i; x y a f; both, with x and y
    assert test["new_words"] == 2
    assert whole["tokens"] == {"binary parse": 3, "treebank": 2}
    assert whole["unlabelled"] == 2


def rows(name, splits=SPLITS):
    return [line.split() for line in lines(corpus.section(name, corpus.statistics(splits)))]


def test_table_has_the_paper_below_ours():
    found = rows("mednli")
    assert found[1] == ["train", "test", "all"]
    assert found[2:4] == [
        ["pairs", "3", "2", "5"],
        ["in", "the", "paper", "11,232", "1,422", "14,049"],
    ]
    at = found.index(["premise,", "mean", "tokens", "2.3", "26.0", "11.8"])
    assert found[at + 1] == ["in", "the", "paper", "20.0"]
    assert ["also", "in", "an", "earlier", "split", "0", "1"] in found
    assert ["unlabelled,", "dropped", "2", "0", "2"] in found
    assert not any("paper" in line for line in rows("demo"))


# -- paths: Figure 3 ---------------------------------------------------------------------------------------------------


def test_path_lengths_by_hand():
    """Lengths 2 and none; one pair that occurs twice and counts once; an empty side; unknown
    concepts."""
    labels = ("entailment", "neutral", "contradiction", "entailment")
    examples = [pair("p", "h", label) for label in labels]
    premises = [mentions("C2", "C3"), mentions("C1", "C1"), mentions("C0"), mentions("x", "C0")]
    hypotheses = [mentions("C0"), mentions("C1"), [], mentions("x", "y")]
    found = corpus.path_statistics(
        examples, premises, hypotheses, HEART.indices, lambda pairs: shortest_paths(HEART, pairs)
    )
    assert found["examples_with_concepts"] == {"premise": 4, "hypothesis": 3, "both": 3}
    # (c2 c0) 2; (c3 c0) none; (c1 c1) 0; (x x) 0; (x y), (c0 x) and (c0 y) none.
    assert found["occurrences"] == {"0": 2, "2": 1, "no path": 4}
    assert found["concept_pairs"] == found["occurrences"]
    assert found["nearest"] == {
        "entailment": {"0": 1, "2": 1}, "neutral": {"0": 1}, "contradiction": {"no concept pair": 1},
    }  # fmt: skip
    assert found["unknown_concepts"] == 2
    (grid,) = corpus.path_section("corpus", {"ontology": "chain", "version": "1", **found}).grids
    assert [row[:3] for row in grid.rows[:2]] == [("0", "2", "2"), ("2", "1", "1")]
    for direction, of_is_a in (("either", True), ("undirected", True), ("all", False)):
        drawn = corpus.path_chart(
            "corpus", {"ontology": "chain", "version": "1", "direction": direction, **found}
        )
        assert ("is-a" in drawn.figure.axes[0].get_xlabel()) == of_is_a


def test_kinds_of_relations_by_class_by_hand():
    """3 of 4 entailments and no contradiction have the first kind, so chi-square is 8 (3 4 - 1 0)^2
    / (4 4 3 5)."""
    examples = [pair("p", "h", label) for label in ("entailment",) * 4 + ("contradiction",) * 4]
    bits = np.array([1, 1, 3, 2, 2, 2, 2, 2], np.uint32)
    found = corpus.relation_statistics(examples, bits, ("synonym", "antonym", "hypernym"))
    assert found["synonym"]["labels"] == {"entailment": 3, "contradiction": 0}
    assert found["synonym"]["chi_square"] == pytest.approx(8 * 12**2 / (4 * 4 * 3 * 5))
    assert found["antonym"]["examples"] == 6
    assert "hypernym" not in found
    (grid,) = corpus.relation_section(
        {"classes": {"entailment": 4, "contradiction": 4}, "relations": found}
    ).grids
    assert grid.rows[0][:4] == ("synonym", "3", "3 (75.0 %)", "0 (0.0 %)")
    every = corpus.relation_statistics(examples, np.ones(8, np.uint32), ("synonym",))
    assert every["synonym"]["p_value"] is None
