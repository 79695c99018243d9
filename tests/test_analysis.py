"""Corpus statistics against numbers counted by hand."""

from mednli_jax.analysis import corpus
from mednli_jax.examples import NLIExample, Split


def example(premise, hypothesis, label):
    return NLIExample("u", premise, hypothesis, label, tuple(premise.split()), tuple(hypothesis.split()))


def test_statistics_by_hand():
    splits = {
        "train": Split(
            "train",
            (example("a b c", "d", "neutral"), example("a b c", "d e", "entailment"), example("f", "g h i", "neutral")),
            {"dropped_unlabelled": 2, "tokens": {"binary parse": 3, "treebank": 0}},
        ),
        "test": Split("test", (example(" ".join("x" * 51), "y z", "contradiction"),)),
    }
    found = corpus.statistics(splits)
    assert found["splits"]["train"]["pairs"] == 3
    assert found["splits"]["train"]["premises"] == 2
    assert found["splits"]["train"]["labels"] == {"entailment": 1, "neutral": 2, "contradiction": 0}
    assert found["premise"] == {"mean": (3 + 3 + 1 + 51) / 4, "median": 3.0, "longest": 51, "over_50": 1}
    assert found["hypothesis"]["mean"] == 2.0
    lines = corpus.table("mednli", found)
    assert any(line.split() == ["train", "pairs", "3", "11,232"] for line in lines)
    assert any(line.split() == ["premise", "tokens,", "longest", "51", "202"] for line in lines)
    assert any(line.split() == ["train", "unlabelled,", "dropped", "2"] for line in lines)
    assert not any("11,232" in line for line in corpus.table("demo", found))
