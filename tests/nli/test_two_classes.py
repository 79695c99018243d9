"""A corpus of two classes through the commands: training of sentences and of features, comparison,
direct transfer and prediction."""

import pytest
from support.commands import SMALL, at, printed_json, read_json, succeeds
from support.pair_files import write_own

from mednli_jax.data.examples import LABELS as CLASSES

LABELS = "--config.data.labels=yes:entailment,no:contradiction"
FLAGS = {
    "bow": (*SMALL, "--config.vectors.path=v.txt"),
    "features": (
        "--config.model.trees=5",
        "--config.model.knowledge=none",
        "--config.vectors.dim=8",
        "--config.seeds=0,1",
    ),
}
VECTORS = "".join(f"{word} 1 0 0 1 0 0 1 0\n" for word in ("gout", "patient", "has", "lacks"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a run of each config on two/, whose pairs say yes or no, and with pairs of
    three classes, three/. It is the folder of the commands."""
    folder = tmp_path_factory.mktemp("two_classes")
    pairs = []
    for number in range(24):
        pairs.append((f"gout {number} .", "patient has gout", "yes"))
        pairs.append((f"gout {number} .", "patient lacks gout", "no"))
    write_own(folder / "two", train=pairs[:32], dev=pairs[32:40], test=pairs[40:])
    three = [("gout .", "patient has gout", label) for label in CLASSES]
    write_own(folder / "three", train=three, dev=three, test=three)
    (folder / "v.txt").write_text(VECTORS)
    with at(folder):
        for name, flags in FLAGS.items():
            config = (f"--config={name}:file", "--config.data.dir=two", LABELS)
            succeeds("train", *config, *flags, f"--workdir={name}")
        yield folder


@pytest.mark.parametrize("name", FLAGS)
def test_a_run_is_scored_over_two_classes_with_a_loss(home, name):
    test = read_json(home, name, "result.json")["test"]
    classes = {label for label, scores in test["per_class"].items() if scores["support"]}
    assert classes == {"entailment", "contradiction"}
    assert test["examples"] == 8
    assert 0 < test["loss"]["mean"] < 10
    assert test["labels"] == ["entailment", "contradiction"]
    seeds = len(test["accuracy"]["per_seed"])
    assert [sum(row) for row in test["confusion"]] == [4 * seeds] * 2


@pytest.mark.parametrize("name", FLAGS)
def test_evaluate_and_the_page_agree_with_training(home, name):
    scores = printed_json(f"evaluate --run={name}")
    test = read_json(home, name, "result.json")["test"]
    assert scores["accuracy"] == test["accuracy"]
    succeeds("report", name)


@pytest.mark.parametrize("name", FLAGS)
def test_a_prediction_is_of_two_classes(home, name):
    out, _ = succeeds(f"predict --run={name}", stdin="gout .\tpatient has gout\n")
    header, row = (line.split("\t") for line in out.splitlines())
    assert header == ["label", "entailment", "contradiction"]
    assert sum(map(float, row[1:])) == pytest.approx(1, abs=1e-5)


def test_a_run_on_a_part_of_the_training_pairs_is_scored_on_whole_corpora(home):
    """Also by parts whose pairs it was not trained on, and on another corpus."""
    uids = [f"train{number}" for number in range(32)]
    (home / "part.txt").write_text("\n".join(uids[:12]))
    (home / "rest.txt").write_text("\n".join([*uids[12:], "dev0", "dev3"]))
    part, run = "--config.data.partition=part.txt", "--workdir=of_part"
    own = ("--config=bow:file", "--config.data.dir=two", LABELS)
    succeeds("train", *own, *FLAGS["bow"], part, run)

    assert read_json(home, "of_part", "data.json")["splits"]["train"]["rows"] == 12
    scores = printed_json("evaluate --run=of_part --split=dev --partition=rest.txt")
    assert (scores["examples"], scores["partitions"]["rest"]["examples"]) == (8, 2)
    assert printed_json("evaluate --run=of_part --split=dev", *own)["examples"] == 8


def test_runs_are_compared_over_two_classes(home):
    (row,) = printed_json("report", *FLAGS, "--compare")["comparisons"]
    gained = {label for label, gain in row["class_gains"].items() if gain["pairs"]}
    assert gained == {"entailment", "contradiction"}


def test_direct_transfer_to_three_classes_has_no_loss(home):
    flags = ("--config=bow:file", "--config.data.dir=three", "--workdir=direct")
    succeeds("evaluate --run=bow", *flags)
    test = read_json(home, "direct", "result.json")["test"]
    assert "loss" not in test
    assert all(scores["support"] for scores in test["per_class"].values())


def test_direct_transfer_between_two_classes_has_a_loss(home):
    flags = ("--config=bow:file", "--config.data.dir=two", LABELS)
    scores = printed_json("evaluate --run=bow", *flags, "--split=dev")
    assert scores["loss"]["mean"] > 0
