"""Results of runs on pairs for a reader, against figures worked out by hand."""

import json
import stat
from types import SimpleNamespace

import numpy as np
import pytest
from support.runs import GOLD, change, scores, write_run

from mednli_jax.data.partitions import Partition
from mednli_jax.nli import page
from mednli_jax.report.sections import lines
from mednli_jax.rundir import RunResult

# Seed 0 is right on all nine pairs; seed 1 takes the three contradictions for entailments.
SEEDS = ("eeennnccc", "eeennneee")


def of_run(**splits):
    return RunResult(
        "complete", seeds=[0, 1], model="esim", corpus="demo", notes=["a note"], values=splits
    )


def cells(section, number=0):
    """{first cell of a row: {column: cell}} of one of a section's grids."""
    grid = section.grids[number]
    return {row[0]: dict(zip(grid.header, row, strict=True)) for row in grid.rows}


def test_a_page_shows_test_first_with_its_majority_and_each_split_with_its_slices():
    test = {**scores(GOLD, SEEDS), "slices": {"slate": scores("een", ("een", "eee"))}}
    (shown, confusion), classes = page.run_sections(
        of_run(dev=scores("eeec", ("eeee", "eeee")), test=test)
    )
    assert shown.words[0] == "test accuracy 83.3; the most frequent class alone gives 33.3"
    assert shown.words[1].startswith("dev accuracy 75.0; the most frequent class alone gives 75.0")
    rows = cells(shown)
    assert list(rows) == ["dev", "test", "test, slate"]
    # macro F1: 1 of seed 0; of seed 1 the classes have 2/3, 1 and 0, so 5/9.
    expected = {
        "accuracy": "83.3",
        "majority": "33.3",
        "macro F1": "77.8",
        "pairs": "9",
        "loss": "1.0000",
        "ECE": "-",
    }
    assert {name: rows["test"][name] for name in expected} == expected
    assert rows["test"]["accuracy per seed"] == "100.0, 66.7"
    assert rows["test, slate"]["pairs"] == "3"
    assert [caption for caption, _ in confusion.charts] == [
        "dev, summed over 2 seeds",
        "test, summed over 2 seeds",
    ]
    assert [section.title for section in classes] == ["Classes, dev", "Classes, test"]
    # Of 2 x 3 contradictions 3 are found, and 3 are taken for entailments.
    found = cells(classes[1])["contradiction"]
    names = ("precision", "recall", "entailment", "neutral", "contradiction")
    assert [found[name] for name in names] == ["100.0", "50.0", "3", "0", "3"]


def fake_run(folder, merged_by=""):
    """What `evaluate` needs of a run: scores of nine pairs, of three in a partition, and of none in
    any other."""

    def partition_scores(split, partition):
        return scores("een", ("een", "eee")) if partition.name == "easy" else {"examples": 0}

    return SimpleNamespace(
        experiment=SimpleNamespace(corpus=SimpleNamespace(title="snli")),
        scores=lambda split: (scores(GOLD, (GOLD, GOLD, "eeenneeee")), None),
        partition_scores=partition_scores,
        directory=SimpleNamespace(folder=folder, private=folder / "private"),
        result=of_run(),
        merged_by=merged_by,
    )


@pytest.mark.parametrize("merged_by", ["", "mesh 2024"])
def test_evaluation_gives_an_interval_the_majority_and_parts_that_hold_pairs(tmp_path, merged_by):
    parts = [Partition(name, f"{name}.txt", ("a",), (1,)) for name in ("easy", "empty")]
    report = page.evaluate(fake_run(tmp_path, merged_by), "test", parts)
    figures = report.figures
    assert (figures["corpus"], figures["trained_on"], figures["split"]) == ("snli", "demo", "test")
    # Wilson's interval of 8 of 9, the next number to 23 of 27, at z = 1.96
    z, n, share = 1.959964, 9, 8 / 9
    centre, spread = (
        share + z * z / (2 * n),
        z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)),
    )
    bounds = [(centre + sign * spread) / (1 + z * z / n) for sign in (-1, 1)]
    assert [figures["interval"][name] for name in ("low", "high")] == pytest.approx(
        bounds, abs=1e-5
    )
    assert figures["majority"] == pytest.approx(1 / 3)
    assert figures["partitions"]["easy"]["majority"] == pytest.approx(2 / 3)
    assert figures["partitions"]["empty"] == {"examples": 0}
    names = [
        line.split()[0] for section in report.sections for line in lines(section) if line.strip()
    ]
    assert ("easy" in names, "empty" in names, report.notes) == (True, False, ["a note"])
    assert "trained on demo" in report.title
    assert ("merged by mesh 2024" in report.title) == ("merged_by" in figures) == bool(merged_by)
    assert not report.private


def test_a_comparison_tells_gains_in_words_and_names_the_paper_for_attention_alone(tmp_path):
    # The second run gains the two last neutral pairs, entailments before, and a contradiction,
    # neutral before.
    gained = ("eeenecccn", "eeennnccc")
    first = write_run(tmp_path / "a", "eeeneeccn")
    second, third = write_run(tmp_path / "b", gained[1]), write_run(tmp_path / "c", gained[1])
    change(first / "config.json", model__knowledge="none")
    for folder, size in ((second, 300), (third, 299)):
        change(folder / "config.json", model__knowledge="replace", model__hidden_size=size)
    change(first / "config.json", model__hidden_size=300)
    report = page.compare([first, second, third], "test")
    assert report.title == "a and b and c: test of demo"
    assert [row["second"] for row in report.figures["comparisons"]] == ["b", "c"]
    assert len(report.page_only[0].charts) == 3
    changes = {
        section.title: section for section in report.sections if " against " in section.title
    }
    first_words = {name: section.words[0] for name, section in changes.items()}
    for words in first_words.values():
        assert words.startswith(
            "of 3 predictions gained, 67% are of neutral; 100% of these were entailment before"
        )
    assert ["the paper" in words for words in first_words.values()] == [True, False]
    assert cells(changes["b against a"], 1)["contradiction"]["previously"] == "1 neutral"


def test_a_prediction_is_the_most_probable_class():
    row = {"entailment": 0.25, "neutral": 0.0000004, "contradiction": 0.7499996}
    assert list(page.prediction_lines([row])) == [
        "label\tentailment\tneutral\tcontradiction",
        "contradiction\t0.250000\t0.000000\t0.750000",
    ]
    rounded = {"entailment": 0.25, "neutral": 0.0, "contradiction": 0.75}
    assert page.prediction(row) == {"predicted": "contradiction", **rounded}


def test_attention_maps_are_private_and_never_over_older_ones(tmp_path):
    of_seeds = np.array(
        [[[0.25, 0.75]], [[0.75, 0.25]]]
    )  # [seeds, premise tokens, hypothesis tokens]
    maps = {"words": {"premise": of_seeds, "hypothesis": of_seeds.transpose(0, 2, 1)}}
    pair = {"premise": ["gout"], "hypothesis": ["no", "gout"], "maps": maps}
    run = fake_run(tmp_path)
    run.attention = lambda pairs: [pair] * len(pairs)
    folders = [page.write_attention(run, [("a", "b")] * count) for count in (2, 1)]
    assert [folder.relative_to(tmp_path).as_posix() for folder in folders] == [
        "private/attention",
        "private/attention-2",
    ]
    names = [sorted(path.name for path in folder.glob("pair-*")) for folder in folders]
    assert names == [
        ["pair-1.json", "pair-1.png", "pair-2.json", "pair-2.png"],
        ["pair-1.json", "pair-1.png"],
    ]
    kept = json.loads((folders[0] / "pair-2.json").read_text())
    assert kept["maps"]["words"]["premise"] == of_seeds.tolist()
    assert kept["hypothesis"] == ["no", "gout"]
    for folder in folders:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
