"""Results of runs on pairs for a reader: pages, `evaluate`, comparisons and predictions, against
figures worked out by hand or by scikit-learn."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import f1_score
from support.cases import cases
from support.files import assert_private
from support.runs import GOLD, indices, scores, write_run

from mednli_jax.nli import page
from mednli_jax.report.metrics import wilson_interval
from mednli_jax.report.sections import points
from mednli_jax.rundir import RunDirectory, RunResult


def result_of(**splits):
    return RunResult(
        "complete",
        seeds=[0, 1],
        model="esim",
        corpus="demo",
        notes=["a note"],
        values=splits,
    )


def cells(section, number=0):
    """{first cell of a row: {column: cell}} of one of a section's grids."""
    grid = section.grids[number]
    return {row[0]: dict(zip(grid.header, row, strict=True)) for row in grid.rows}


# ---- the page of a run ----


@pytest.fixture
def shown():
    """The sections of a run. On test, seed 0 is right on all nine pairs; seed 1 takes the three
    contradictions for entailments."""
    test = scores(GOLD, ("eeennnccc", "eeennneee"))
    test["slices"] = {"slate": scores("een", ("een", "eee"))}
    sections = page.run_sections(result_of(dev=scores("eeec", ("eeee", "eeee")), test=test))
    accuracies, confusion = sections.before
    return SimpleNamespace(accuracies=accuracies, confusion=confusion, classes=sections.after[0])


def test_a_page_begins_with_test_accuracy_its_interval_and_the_majority(shown):
    low, high = map(points, wilson_interval(7, 9))  # right on average: 7.5
    assert shown.accuracies.lead == (
        f"Test accuracy 83.3, mean of 2 seeds (95 % interval {low} to {high}); the most frequent "
        "class alone gives 33.3"
    )


def test_a_page_has_a_row_of_scores_for_each_split_and_slice(shown):
    """Macro F1 is 1 of seed 0; of seed 1 the classes have 2/3, 1 and 0, so 5/9."""
    rows = cells(shown.accuracies)
    assert list(rows) == ["test", "test, slate", "dev"]
    test = rows["test"]
    assert test["accuracy"] == "83.3"
    assert test["accuracy per seed"] == "100.0, 66.7"
    assert test["majority"] == "33.3"
    assert test["macro F1"] == "77.8"
    assert test["loss"] == "1.0000"
    assert test["pairs"] == "9"
    assert rows["test, slate"]["pairs"] == "3"


def test_a_page_has_the_classes_of_each_split_summed_over_seeds(shown):
    """Of 2 x 3 contradictions 3 are right, and 3 are taken for entailments."""
    captions = [caption for caption, _ in shown.confusion.charts]
    assert captions == ["test, summed over 2 seeds", "dev, summed over 2 seeds"]
    assert [grid.caption for grid in shown.classes.grids] == ["test", "dev"]
    row = cells(shown.classes)["contradiction"]
    assert row["gold"] == "3"  # pairs, not pairs of each seed
    assert row["precision"] == "100.0"
    assert row["recall"] == "50.0"
    _, confusion = shown.confusion.charts[0]
    assert "contradiction: entailment 3, neutral 0, contradiction 3" in confusion.description


@cases(
    "gold, right",
    {
        "a mean of 6.67 right pairs counts as 7": ("e" * 9, [6, 7, 7]),
        ".29 * 100, 28.999999999999996, counts as 29": ("e" * 100, [29]),
    },
)
def test_the_interval_of_one_run_is_of_the_nearest_number_of_right_pairs(gold, right):
    seeds = ["e" * count + "n" * (len(gold) - count) for count in right]
    shown = page.run_sections(result_of(test=scores(gold, seeds))).before[0]
    low, high = wilson_interval(max(right), len(gold))
    assert cells(shown)["test"]["95 % interval"] == f"[{points(low)}, {points(high)}]"


# ---- evaluate ----


class ScoredRun:
    """What `evaluate` needs of a run: scores of nine pairs."""

    experiment = SimpleNamespace(corpus=SimpleNamespace(title="snli"))
    result = result_of()

    def __init__(self, folder, merged_by=""):
        self.directory = SimpleNamespace(folder=folder, private=folder / "private")
        self.merged_by = merged_by

    def score(self, split):
        return scores(GOLD, (GOLD, GOLD, "eeenneeee")), None

    def attention(self, pairs):
        """Maps of two seeds over one token of the premise and two of the hypothesis."""
        maps_SPH = np.array([[[0.25, 0.75]], [[0.75, 0.25]]])
        maps = {"words": {"premise": maps_SPH, "hypothesis": maps_SPH.transpose(0, 2, 1)}}
        return [{"premise": ["gout"], "hypothesis": ["no", "gout"], "maps": maps}] * len(pairs)


def test_evaluation_has_the_interval_of_one_run_and_the_majority(tmp_path):
    """Wilson's interval is of 8 of 9, the next number to 23 of 27."""
    figures = page.evaluate(ScoredRun(tmp_path), "test").figures

    low, high = wilson_interval(8, 9)
    assert figures["interval"] == {"low": low, "high": high, "level": 0.95}
    assert figures["majority"] == pytest.approx(1 / 3)
    assert figures["corpus"] == "snli"
    assert figures["trained_on"] == "demo"
    assert figures["split"] == "test"


@pytest.mark.parametrize(
    "merged_by, corpus", [("", "snli"), ("mesh 2024", "snli, merged by mesh 2024")]
)
def test_the_title_of_an_evaluation_names_the_corpora(tmp_path, merged_by, corpus):
    report = page.evaluate(ScoredRun(tmp_path, merged_by), "test")
    assert f"esim, trained on demo on {corpus}, test" in report.title
    assert report.figures.get("merged_by", "") == merged_by
    assert report.notes == ["a note"]


# ---- comparisons ----


def statistics(*folders, split="test"):
    """The rows of a comparison's table of statistics."""
    sections = page.compare(folders, split).sections
    return cells(next(section for section in sections if section.title == "Statistics")).values()


@pytest.mark.parametrize("gold", ["eeennnccc", "eeeeecccc", "nnnnnnnnn"])
def test_macro_f1_is_of_all_seeds_over_the_gold_classes(tmp_path, gold):
    """On a comparison, and on the run's own page."""
    seeds = "eenenccce", "cceeecnnc", "nnnneeccc"
    folders = [write_run(tmp_path / name, *seeds, gold=gold) for name in "ab"]
    gold = indices(gold)
    f1_S = [
        f1_score(gold, indices(seed), labels=np.unique(gold), average="macro", zero_division=0)
        for seed in seeds
    ]
    mean = points(np.mean(f1_S))
    assert points(f1_S[0]) != mean

    assert [row["macro F1"] for row in statistics(*folders)] == [mean] * 2
    shown = page.run_sections(RunDirectory(folders[0]).result()).before[0]
    assert {row["macro F1"] for row in cells(shown).values()} == {mean}


@pytest.mark.parametrize(
    "split, second",
    [
        ("test", "dev"),
        ("dev", "test"),
    ],
)
def test_a_comparison_also_has_the_accuracy_on_the_second_split(tmp_path, split, second):
    folders = [write_run(tmp_path / name, GOLD, dev=["eeennneee"]) for name in "ab"]
    accuracy = {"test": "100.0", "dev": "66.7"}
    for row in statistics(*folders, split=split):
        assert row["accuracy"] == accuracy[split]
        assert row[second] == accuracy[second]


def test_classes_without_a_gold_pair_are_not_scored(tmp_path):
    folders = [write_run(tmp_path / name, "ecn", gold="ecc") for name in "ab"]
    classes = page.run_sections(RunDirectory(folders[0]).result()).after[0]
    recall = page.compare(folders, "test").sections[-1]
    for section in (classes, recall):
        assert list(cells(section)) == ["entailment", "contradiction"]


# ---- predict ----


def test_a_prediction_is_shown_with_its_probabilities():
    probabilities = {"entailment": 0.25, "neutral": 0.0000004, "contradiction": 0.7499996}
    row = {"label": "contradiction", **probabilities}
    assert list(page.prediction_lines([row])) == [
        "label\tentailment\tneutral\tcontradiction",
        "contradiction\t0.250000\t0.000000\t0.750000",
    ]
    rounded = {"entailment": 0.25, "neutral": 0.0, "contradiction": 0.75}
    assert page.prediction(row) == {"predicted": "contradiction", **rounded}


def test_attention_maps_are_never_over_older_ones(tmp_path):
    run = ScoredRun(tmp_path)
    older, newer = (page.write_attention(run, [("a", "b")] * count) for count in (2, 1))
    assert {path.name for path in older.glob("*.png")} == {"pair-1.png", "pair-2.png"}
    assert {path.name for path in newer.glob("*.png")} == {"pair-1.png"}


def test_attention_maps_are_private_and_hold_the_tokens_and_the_map_of_each_seed(tmp_path):
    folder = page.write_attention(ScoredRun(tmp_path), [("a", "b")])
    assert folder == tmp_path / "private" / "attention"
    assert_private(folder)
    written = json.loads((folder / "pair-1.json").read_text())
    assert written["hypothesis"] == ["no", "gout"]
    assert written["maps"]["words"]["premise"] == [[[0.25, 0.75]], [[0.75, 0.25]]]
