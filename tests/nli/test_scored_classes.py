"""What pages, comparisons and `evaluate` show of pairs, against scores that scikit-learn computes
from the labels."""

import numpy as np
import pytest
from sklearn.metrics import f1_score
from support.runs import indices, write_run

from mednli_jax.nli import page
from mednli_jax.report.metrics import wilson_interval
from mednli_jax.report.sections import points
from mednli_jax.rundir import RunDirectory, RunResult


def statistics(*folders, split="test"):
    """The rows of a comparison's table of statistics, as {header: cell}."""
    sections = page.compare(folders, split).sections
    (grid,) = next(section.grids for section in sections if section.title == "Statistics")
    return [dict(zip(grid.header, row, strict=True)) for row in grid.rows]


@pytest.mark.parametrize("gold", ["eeennnccc", "eeeeecccc", "nnnnnnnnn"])
def test_a_comparison_has_the_macro_f1_of_all_seeds_over_the_gold_classes(tmp_path, gold):
    """It is the macro F1 of the run's own page, too."""
    seeds = "eenenccce", "cceeecnnc", "nnnneeccc"
    folders = [write_run(tmp_path / name, *seeds, gold=gold) for name in "ab"]
    labels = np.unique(indices(gold))
    each = [
        f1_score(indices(gold), indices(of), labels=labels, average="macro", zero_division=0)
        for of in seeds
    ]
    expected = points(np.mean(each))
    assert points(each[0]) != expected
    assert [row["macro F1"] for row in statistics(*folders)] == [expected] * 2
    (scores, _), _ = page.run_sections(RunDirectory(folders[0]).result())
    assert {row[scores.grids[0].header.index("macro F1")] for row in scores.grids[0].rows} == {
        expected
    }


@pytest.mark.parametrize(("split", "second"), [("test", "dev"), ("dev", "test")])
def test_a_comparison_also_has_the_accuracy_on_the_second_split(tmp_path, split, second):
    said = {"test": "eeennnccc", "dev": "eeennneee"}
    folders = [write_run(tmp_path / name, said["test"], dev=[said["dev"]]) for name in "ab"]
    shown = {"test": "100.0", "dev": "66.7"}
    for row in statistics(*folders, split=split):
        assert (row["accuracy"], row[second]) == (shown[split], shown[second])


@pytest.mark.parametrize("right", [[6, 7, 7], [29] * 3])
def test_the_interval_of_one_run_is_of_the_nearest_number_of_right_pairs(right):
    """A mean of 6.67 right pairs counts as 7; .29 * 100 is 28.999999999999996 in floating point and
    counts as 29."""
    size = 9 if max(right) < 9 else 100
    accuracy = {
        "mean": float(np.mean([n / size for n in right])),
        "sd": 0.0,
        "per_seed": [n / size for n in right],
    }
    of_class = {"entailment": {"support": size}}
    scores = {"examples": size, "accuracy": accuracy, "macro_f1": accuracy, "per_class": of_class}
    scores["confusion"] = [[size, 0, 0], [0, 0, 0], [0, 0, 0]]
    of_class["entailment"] |= {"precision": 1.0, "recall": 1.0, "f1": 1.0}
    of_class |= {label: {"support": 0} for label in ("neutral", "contradiction")}
    (shown, _), _ = page.run_sections(
        RunResult("complete", seeds=[0, 1, 2], values={"test": scores})
    )
    row = dict(zip(shown.grids[0].header, shown.grids[0].rows[0], strict=True))
    low, high = wilson_interval(max(right), size)
    assert row["95 % of one run"] == f"[{points(low)}, {points(high)}]"


def test_classes_without_a_gold_pair_are_not_scored(tmp_path):
    folders = [write_run(tmp_path / name, "ecn", gold="ecc") for name in "ab"]
    _, (classes, *_) = page.run_sections(RunDirectory(folders[0]).result())
    assert [row[0] for row in classes.grids[0].rows] == ["entailment", "contradiction"]
    sections = page.compare(folders, "test").sections
    for grid in sections[-1].grids:
        assert [row[0] for row in grid.rows] == ["entailment", "contradiction"]
