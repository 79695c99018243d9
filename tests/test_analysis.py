"""Corpus statistics against numbers counted by hand."""

from mednli_jax.analysis import corpus
from mednli_jax.examples import NLIExample, Split


def example(premise, hypothesis, label):
    return NLIExample("u", premise, hypothesis, label, tuple(premise.split()), tuple(hypothesis.split()))


SPLITS = {
    "train": Split(
        "train",
        (example("a b c", "d", "neutral"), example("a b c", "d e", "entailment"), example("f", "G h i", "neutral")),
        {"dropped_unlabelled": 2, "tokens": {"binary parse": 3, "treebank": 0}},
    ),
    "test": Split(
        "test",
        (example(" ".join("x" * 51), "y A", "contradiction"), example("f", "y", "neutral")),
        {"tokens": {"treebank": 2}},
    ),
}


def test_statistics_by_hand():
    found = corpus.statistics(SPLITS)
    train, test, whole = found["splits"]["train"], found["splits"]["test"], found["all"]
    assert (train["pairs"], test["pairs"], whole["pairs"]) == (3, 2, 5)
    assert (train["premises"], test["premises"], whole["premises"]) == (2, 2, 3)
    assert (train["shared_premises"], test["shared_premises"]) == (0, 1)  # "f"
    assert train["labels"] == {"entailment": 1, "neutral": 2, "contradiction": 0}
    assert whole["labels"] == {"entailment": 1, "neutral": 3, "contradiction": 1}
    assert train["premise"] == {"mean": 7 / 3, "median": 3.0, "longest": 3, "over_50": 0}
    assert whole["premise"] == {"mean": (3 + 3 + 1 + 51 + 1) / 5, "median": 3.0, "longest": 51, "over_50": 1}
    assert whole["hypothesis"]["mean"] == (1 + 2 + 3 + 2 + 1) / 5
    assert (train["words"], test["words"], whole["words"]) == (9, 4, 11)  # a-i; x y a f; with x and y
    assert test["new_words"] == 2
    assert whole["tokens"] == {"binary parse": 3, "treebank": 2}
    assert whole["unlabelled"] == 2


def rows(name, splits=SPLITS):
    return [line.split() for line in corpus.table(name, corpus.statistics(splits))]


def test_table_has_the_paper_below_ours():
    lines = rows("mednli")
    assert lines[0] == ["mednli", "train", "test", "all"]
    assert lines[1:3] == [["pairs", "3", "2", "5"], ["in", "the", "paper", "11,232", "1,422", "14,049"]]
    at = lines.index(["premise,", "mean", "tokens", "2.3", "26.0", "11.8"])
    assert lines[at + 1] == ["in", "the", "paper", "20.0"]
    at = lines.index(["hypothesis,", "longest", "3", "2", "3"])
    assert lines[at + 1] == ["in", "the", "paper", "20"]
    assert ["also", "in", "an", "earlier", "split", "0", "1"] in lines
    assert ["not", "in", "train", "0", "2"] in lines
    assert ["unlabelled,", "dropped", "2", "0", "2"] in lines
    assert ["tokens", "from", "treebank", "2", "2"] in lines


def test_table_keeps_its_columns():
    """A figure that a split does not have leaves its place empty."""
    lines = corpus.table("mednli", corpus.statistics(SPLITS))
    (ours,) = (line for line in lines if line.startswith("premise, mean"))
    theirs = lines[lines.index(ours) + 1]
    assert ours.endswith("11.8")
    assert theirs.endswith("20.0")
    assert len(ours) == len(theirs) == 28 + 3 * 10
    (new,) = (line for line in lines if "not in train" in line)
    assert len(new) == 28 + 2 * 10


def test_other_corpora_have_no_paper():
    assert not any("paper" in line for line in rows("demo"))
