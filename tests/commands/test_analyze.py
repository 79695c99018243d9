"""Corpus statistics against numbers counted by hand."""

import pytest
from support.ontologies import HEART
from support.pairs import mentions, pair

from mednli_jax.data.examples import Split
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.nli import analyses
from mednli_jax.report.sections import lines

TRAIN = Split(
    "train",
    (
        pair("a b c", "d", "neutral"),
        pair("a b c", "d e", "entailment"),
        pair("f", "G h i", "neutral"),
    ),
    {"dropped_unlabelled": 2, "tokens": {"binary parse": 3, "treebank": 0}},
)
TEST = Split(
    "test",
    (pair(" ".join("x" * 51), "y A", "contradiction"), pair("f", "y", "neutral")),
    {"tokens": {"treebank": 2}},
)
STATISTICS = analyses.statistics({"train": TRAIN, "test": TEST})
OF_TRAIN, OF_TEST, OF_ALL = *STATISTICS["splits"].values(), STATISTICS["all"]


@pytest.mark.parametrize(
    "field, train, test, whole",
    [
        ("pairs", 3, 2, 5),
        ("premises", 2, 2, 3),
        ("words", 9, 4, 11),  # a-i; x y a f; both
        ("unlabelled", 2, 0, 2),
    ],
)
def test_sizes_of_splits_are_those_counted_by_hand(field, train, test, whole):
    assert OF_TRAIN[field] == train
    assert OF_TEST[field] == test
    assert OF_ALL[field] == whole


def test_premises_and_words_of_earlier_splits_are_counted():
    """The premise "f" occurs in train and test; x and y only in test."""
    dev = Split("dev", (pair("q", "r"),))
    splits = analyses.statistics({"train": TRAIN, "dev": dev, "test": TEST})["splits"]

    assert [splits[name]["shared_premises"] for name in splits] == [0, 0, 1]
    assert OF_TEST["new_words"] == 2


def test_labels_and_tokenisers_are_counted():
    assert OF_TRAIN["labels"] == {"entailment": 1, "neutral": 2, "contradiction": 0}
    assert OF_ALL["labels"] == {"entailment": 1, "neutral": 3, "contradiction": 1}
    assert OF_ALL["tokens"] == {"binary parse": 3, "treebank": 2}


def test_lengths_of_sentences_are_those_counted_by_hand():
    mean = (3 + 3 + 1 + 51 + 1) / 5
    assert OF_TRAIN["premise"] == {
        "mean": 7 / 3,
        "median": 3.0,
        "longest": 3,
        "over_50": 0,
    }
    assert OF_ALL["premise"] == {
        "mean": mean,
        "median": 3.0,
        "longest": 51,
        "over_50": 1,
    }
    assert OF_ALL["hypothesis"]["mean"] == (1 + 2 + 3 + 2 + 1) / 5


def table_of(corpus):
    return [line.split() for line in lines(analyses.sizes_section(corpus, STATISTICS))]


def test_the_table_has_the_paper_below_our_figures():
    rows = table_of("mednli")

    assert rows[1] == ["train", "test", "all"]
    for ours, paper in (
        ("pairs 3 2 5", "in the paper 11,232 1,422 14,049"),
        ("premise, mean tokens 2.3 26.0 11.8", "in the paper 20.0"),
    ):
        assert rows[rows.index(ours.split()) + 1] == paper.split()


def test_the_table_of_another_corpus_has_no_paper():
    assert not any("paper" in row for row in table_of("demo"))


# -- paths: Figure 3 -------------------------------------------------------------------------------


@pytest.fixture
def paths():
    """One pair of concepts that occurs twice and counts once, an empty side, unknown concepts."""
    labels = ("entailment", "neutral", "contradiction", "entailment")
    premises = [
        mentions("C2", "C3"),
        mentions("C1", "C1"),
        mentions("C0"),
        mentions("x", "C0"),
    ]
    hypotheses = [
        mentions("C0"),
        mentions("C1"),
        [],
        mentions("x", "y"),
    ]

    def distances(pairs):
        return shortest_paths(HEART, pairs)

    examples = [pair("p", "h", label) for label in labels]
    return analyses.path_statistics(examples, premises, hypotheses, HEART.indices, distances)


def test_path_lengths_between_concepts_are_those_counted_by_hand(paths):
    # (c2 c0) 2; (c3 c0) none; (c1 c1) 0; (x x) 0; (x y), (c0 x) and (c0 y) none.
    assert paths["occurrences"] == {"0": 2, "2": 1, "no path": 4}
    assert paths["concept_pairs"] == paths["occurrences"]
    assert paths["unknown_concepts"] == 2
    assert paths["examples_with_concepts"] == {"premise": 4, "hypothesis": 3, "both": 3}


def test_the_nearest_path_of_an_example_is_counted_by_class(paths):
    assert paths["nearest"] == {
        "entailment": {"0": 1, "2": 1},
        "neutral": {"0": 1},
        "contradiction": {"no concept pair": 1},
    }


def test_the_table_of_paths_has_occurrences_and_concept_pairs(paths):
    figures = {"ontology": "chain", "version": "1", **paths}

    (grid,) = analyses.path_section("corpus", figures).grids

    assert [row[:3] for row in grid.rows[:2]] == [("0", "2", "2"), ("2", "1", "1")]


@pytest.mark.parametrize(
    "direction, of_is_a",
    [
        ("either", True),
        ("undirected", True),
        ("all", False),
    ],
)
def test_the_chart_of_paths_names_the_edges(paths, direction, of_is_a):
    figures = {"ontology": "chain", "version": "1", "direction": direction, **paths}

    (axes,) = analyses.path_chart("corpus", figures).figure.axes

    assert ("is-a" in axes.get_xlabel()) == of_is_a
