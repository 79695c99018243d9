"""The commands as a newcomer uses them, from train to report, on one corpus of pairs; and what goes
wrong."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.commands import (
    SMALL,
    at,
    environment_of,
    json_lines,
    printed_json,
    read_json,
    refused,
    succeeds,
    use_one_device,
)
from support.documented import modules
from support.files import contents, lines
from support.pair_files import SECRET, write_pairs

from mednli_jax import evaluate, load_run
from mednli_jax.report import __main__ as report
from mednli_jax.rundir import flat
from mednli_jax.training.checkpoint import Checkpoints

TRAINED = ("--config=bow:mednli", "--config.vectors.path=", *SMALL)
EVALUATE = (evaluate, "--run=copy")
SIZES = {"train": 48, "dev": 18, "test": 17}
LINE = "No gout.\tHe has gout.\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data, a cache, and one finished run of two seeds in run/."""
    home = tmp_path_factory.mktemp("home")
    write_pairs(home / "data" / "mednli")
    with at(home) as patch:
        patch.setenv("MEDNLI_JAX_DATA", str(home / "data"))
        out, err = succeeds("train", *TRAINED, "--workdir=run")
    assert out == "run/result.json\n"
    assert SECRET not in err
    assert " parameters; seeds 0, 1; 1 device, cpu; " in err
    return home


@pytest.fixture
def at_home(home, tmp_path, monkeypatch):
    """A folder with a copy of the run in copy/ becomes the working folder; commands use the data
    and cache of home."""
    shutil.copytree(home / "run", tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    use_one_device(monkeypatch)
    # Not XLA_FLAGS, which would apply to the whole suite.
    for name in ("MEDNLI_JAX_DATA", "MEDNLI_JAX_CACHE"):
        monkeypatch.setenv(name, environment_of(home)[name])


# -- train -----------------------------------------------------------------------------------------


def test_train_leaves_a_result(home):
    result = read_json(home, "run", "result.json")

    assert result["status"] == "complete"
    assert result["corpus"] == "mednli"
    assert result["task"] == "nli"
    assert result["model"] == "bow"
    assert result["seeds"] == [0, 1]
    for split in ("dev", "test"):  # every pair is scored for both seeds
        assert np.sum(result[split]["confusion"]) == 2 * SIZES[split]
    assert result["train_examples_per_second"] > 0


def test_train_leaves_metrics_facts_and_one_checkpoint(home):
    run = home / "run"

    assert [row["epoch"] for row in json_lines(run, "metrics.jsonl")] == [1, 2]
    splits = read_json(run, "data.json")["splits"]
    assert splits["train"]["rows"] == SIZES["train"]
    assert len(splits["test"]["sha256"]) == 64
    assert read_json(run, "env.json")["versions"]["jax"]
    assert len(list((run / "checkpoints").iterdir())) == 1


def test_the_program_of_the_page_opens_a_checkpoint(home):
    code = modules("docs/training.md")["checkpoint"].replace("runs/kd", str(home / "run"))
    names = {}

    exec(code, names)

    assert names["tree"].keys() == {"best"}
    result = read_json(home, "run", "result.json")
    assert names["tree"]["best"]["epoch"].tolist() == result["best_epoch"]
    assert names["progress"]["epoch"] == result["epochs"] + 1


def test_evaluate_needs_no_metrics_of_training(at_home):
    Path("copy/metrics.jsonl").write_text("damaged\n")

    assert printed_json(*EVALUATE)["examples"] == SIZES["test"]


def test_dry_run_counts_memory_and_batches_and_leaves_nothing(at_home):
    large = "--config.model.hidden_size=64"  # so that MB have digits

    out, _ = succeeds("train", *TRAINED, large, "--workdir=dry", "--dry-run")

    assert not Path("dry").exists()
    total, work = re.findall(r"memory of each device: (.*) MB; (.*) MB of it", out)[0]
    assert float(total) > float(work) > 0
    assert "3 batches an epoch of 16 rows" in out  # 48 pairs


# -- export ----------------------------------------------------------------------------------------


def test_an_exported_run_predicts_without_its_corpus(at_home, monkeypatch):
    before, _ = succeeds("predict --run=copy", stdin=LINE)

    out, err = succeeds("export copy carried")

    assert out == "carried\n"
    assert "warning: its vocabulary: the words of mednli, the most frequent first; the lic" in err
    scores, expected = printed_json(evaluate, "--run=carried"), printed_json(*EVALUATE)
    assert {**scores, "run": expected["run"]} == expected
    monkeypatch.setenv("MEDNLI_JAX_DATA", "absent")
    monkeypatch.setenv("MEDNLI_JAX_CACHE", "none")
    out, err = succeeds("predict --run=carried", stdin=f"{LINE}w1 asthma .\tw2 w3\n")
    assert out.startswith(before)
    assert "words without a vector: 2 in premises, 3 in hypotheses" in err
    card = Path("carried/README.md").read_text()
    assert card.startswith("---\nlibrary_name: mednli_jax\n")
    for word in ("accuracy", "load_run", "the most frequent first"):
        assert word in card


def test_an_exported_run_has_no_count_score_or_digest_of_its_corpus(at_home):
    succeeds("export copy carried")

    files = contents(Path("carried"))
    checkpoint = Checkpoints(Path("carried/checkpoints")).load()
    assert checkpoint.meta == {}
    assert checkpoint.tree["best"].keys() == {"params", "batch_stats", "epoch"}
    assert {name for name in files if not name.startswith("checkpoints/")} == set(
        [
            ".gitignore",
            "README.md",
            "config.json",
            "model.json",
            "private/vocabulary.json",
            "private/vectors.npy",
        ]
    )
    assert flat(read_json("carried", "model.json")).keys() == set(
        [
            "result.format",
            "result.status",
            "result.corpus",
            "result.task",
            "result.model",
            "result.config",
            "result.seeds",
            "result.best_epoch",
            "data.tokeniser",
            "data.key.lowercase",
            "data.key.unknown",
            "data.key.lowered",
            "data.key.retrofit_lexicon",
            "data.key.retrofit_rounds",
            "data.vocabulary.source",
            "data.vocabulary.sha256",
            "data.knowledge.ontology",
            "data.knowledge.longest_path",
            "data.knowledge.relations",
            "data.files.vocabulary.json",
            "data.files.vectors.npy",
            "sha256",
        ]
    )
    of_run = Path("copy/data.json").read_text() + Path("copy/result.json").read_text()
    digests = set(re.findall("[0-9a-f]{64}", of_run))
    exported = b"".join(files.values()).decode("latin-1")
    found = {digest for digest in digests if digest in exported}
    assert found == set(read_json("carried", "model.json")["data"]["files"].values())
    assert len(digests) > len(found)


@pytest.fixture
def lowered(at_home, home, monkeypatch):
    """A run in lowered/. Each word of its corpus stands in lower case in its file of vectors; one
    also stands in the corpus with a capital."""
    for path in (home / "data" / "mednli").iterdir():
        text = path.read_text().replace('"patient may', '"Patient may')
        Path("data/mednli").mkdir(parents=True, exist_ok=True)
        Path("data/mednli", path.name).write_text(text.replace("( patient may", "( Patient may"))
    monkeypatch.setenv("MEDNLI_JAX_DATA", "data")
    lines = []
    for number, word in enumerate(read_json("copy", "private", "vocabulary.json")[2:]):
        lines.append(f"{word}{8 * f' .{number:02}'}\n")
    Path("words.vec").write_text("".join(lines))
    flags = ("--config.vectors.path=words.vec", "--config.vectors.dim=8")
    cased = "--config.data.lowercase=False"
    succeeds("train", *TRAINED, *flags, cased, "--workdir=lowered")
    return load_run("lowered")


def test_the_public_vocabulary_has_the_words_of_the_file_of_vectors(lowered):
    _, err = succeeds("export lowered carried --vocabulary=public")

    carried = load_run("carried")
    words = lowered.vocabulary.words[2:]
    assert list(carried.vocabulary.words[2:]) == sorted({*words} - {"Patient"}) != [*words]
    pairs = [("asthma in train 1 .", "patient lacks gout")]
    assert carried.predict(pairs) == lowered.predict(pairs)
    pairs = [("asthma in train 1 .", f"{word} may have gout") for word in ("Patient", "xyz")]
    known, unknown = lowered.predict(pairs)
    assert carried.predict(pairs) == [unknown, unknown] != [known, unknown]
    assert carried.evaluate() == lowered.result["test"]  # looks up the words of the corpus
    all_words = lowered.result["dev"]["accuracy"]["mean"]
    cost = f"; accuracy on dev [0-9.]{{6}}, with all words of the run {all_words:.4f}; the lic"
    assert re.search(cost, err)
    assert "words of mednli that words.vec has" in Path("carried/README.md").read_text()


def test_without_a_file_of_vectors_there_is_no_public_vocabulary(at_home):
    message = refused("export copy carried --vocabulary=public")

    assert "--vocabulary=public: the run has no file of vectors" in message
    assert not Path("carried").exists()


def test_export_overwrites_nothing(at_home):
    Path("carried").mkdir()
    Path("carried/thesis.tex").write_text("text")

    assert "carried" in refused("export copy carried")


# -- evaluate --------------------------------------------------------------------------------------


def test_evaluate_repeats_the_scores_of_training(at_home):
    expected = read_json("copy/result.json")["test"]

    scores = printed_json(*EVALUATE, "--split=test")

    assert scores["accuracy"] == expected["accuracy"]
    assert scores["confusion"] == expected["confusion"]
    assert scores["loss"]["mean"] == pytest.approx(expected["loss"]["mean"], rel=1e-5)


def test_evaluate_prints_the_mean_and_deviation_of_a_split(at_home):
    accuracy = read_json("copy/result.json")["dev"]["accuracy"]
    mean, sd = (f"{100 * accuracy[name]:.1f}" for name in ("mean", "sd"))

    out, _ = succeeds(*EVALUATE, "--split=dev")

    rows = [line.split() for line in out.splitlines()]
    of_dev = [row for row in rows if {mean, sd, str(SIZES["dev"])} <= set(row)]
    assert [row[:2] for row in of_dev] == [["dev", mean]]


def test_evaluate_scores_each_partition_of_a_split(at_home):
    """Two parts of the test split, each with a pair of train, one by positions as published, and
    one without pairs of the split."""
    Path("odd.txt").write_text("".join(f"test-{i}\n" for i in range(1, 17, 2)) + "train-3\n")
    Path("even.txt").write_text("".join(f"test-{i}\n" for i in range(0, 17, 2)) + "train-3\n")
    np.save("places.npy", np.array(["train0", "test66", "test68", "test70"]))
    Path("others.txt").write_text("train-1\ndev-2\n")

    scores = printed_json(*EVALUATE, "--partition=odd.txt,even.txt,places.npy,others.txt")

    partitions = scores["partitions"]
    sizes = {name: partition["examples"] for name, partition in partitions.items()}
    assert sizes == {
        "odd": 8,
        "even": 9,
        "places": 3,
        "others": 0,
    }
    odd, even = (np.array(partitions[name]["confusion"]) for name in ("odd", "even"))
    assert (odd + even).tolist() == scores["confusion"]
    # The labels of rows 0, 2 and 4 differ.
    assert partitions["places"]["majority"] == pytest.approx(1 / 3)


def test_a_partition_of_unknown_pairs_is_named_by_line(at_home):
    Path("foreign.txt").write_text(f"test-1\n{SECRET}\n")

    assert "foreign.txt:2:" in refused(*EVALUATE, "--partition=foreign.txt")


def test_evaluate_on_a_probe_scores_each_category(at_home):
    """The probe puts the pairs of the test split into two categories."""
    source = Path(os.environ["MEDNLI_JAX_DATA"]) / "mednli" / "mli_test_v1.jsonl"
    rows = [{**row, "genre": f"kind{n % 2}"} for n, row in enumerate(json_lines(source))]
    Path("probe.jsonl").write_text(lines(*rows))

    scores = printed_json(*EVALUATE, "--probe=probe.jsonl")

    test = read_json("copy/result.json")["test"]
    assert scores["probe"] == "probe.jsonl"
    assert scores["trained_on"] == "mednli"
    assert scores["confusion"] == test["confusion"]
    assert scores["interval"]["low"] < test["accuracy"]["mean"] < scores["interval"]["high"]
    assert scores["majority"] == pytest.approx(6 / 17)
    first, second = (scores["slices"][name]["confusion"] for name in ("kind0", "kind1"))
    assert np.add(first, second).tolist() == scores["confusion"]
    assert len(scores["slices"]) == 2


def test_evaluation_on_a_probe_takes_no_merged_entities(at_home):
    assert "--probe" in refused(*EVALUATE, "--probe=probe.jsonl", "--merged")


# -- answers of any system -------------------------------------------------------------------------


@pytest.fixture
def answers(at_home):
    """[(uid, label)] that the first seed of the run predicted for the test split."""
    rows = json_lines("copy/private/predictions.test.jsonl")
    return [(row["uid"], row["predicted"][0].upper()) for row in reversed(rows)]


def answers_as(ending, answers):
    """The content of a file of answers."""
    if ending == "jsonl":
        return lines(*[{"uid": uid, "label": label} for uid, label in answers])
    header, row = {
        "csv": ("uid,label\n", "{},{}\n"),
        "tsv": ("model\tpairID\tpredicted\n", "x\t{}\t{}\n"),
    }[ending]
    return header + "".join(row.format(*answer) for answer in answers)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_answers_of_any_system_are_scored_as_those_of_a_run(answers, ending):
    expected = read_json("copy/result.json")["test"]
    Path(f"answers.{ending}").write_text(answers_as(ending, answers))
    call = (evaluate, f"--predictions=answers.{ending}", TRAINED[0])

    scores = printed_json(*call)

    for name in ("accuracy", "macro_f1"):
        assert scores[name]["per_seed"] == pytest.approx(expected[name]["per_seed"][:1]), name
    assert np.sum(scores["confusion"]) == SIZES["test"]
    assert "loss" not in scores
    assert succeeds(*call)[0].startswith(f"answers.{ending} on mednli, test: 17 pairs\n")


@pytest.fixture
def theirs(answers):
    """The folder theirs/ has an evaluation of these answers."""
    Path("answers.csv").write_text(answers_as("csv", answers))
    succeeds("evaluate --predictions=answers.csv", TRAINED[0], "--workdir=theirs")


def test_answers_of_any_system_are_compared_with_a_run(theirs):
    (row,) = printed_json("report copy theirs --compare")["comparisons"]

    accuracy = read_json("copy/result.json")["test"]["accuracy"]
    assert row["accuracy"][1] == pytest.approx(accuracy["per_seed"][0])


def test_answers_of_any_system_are_not_described_by_a_config(theirs):
    compared, _ = succeeds("report copy theirs --compare")
    succeeds("report theirs")

    assert "theirs: answers of another system, without a config" in compared
    page = Path("theirs/report.html").read_text()
    for name in (
        "hidden size",
        "learning rate",
        "<dt>batch",
        "<dt>seeds",
        "<dt>parameters",
        "GloVe",
    ):
        assert name not in page
    assert "answers.csv on mednli" in page
    assert "answers" in refused("predict --run=theirs")


def test_systems_of_ones_own_stand_in_the_papers_table(theirs):
    Path("runs").mkdir()
    table = (report, "--table=3", "--runs=runs")

    figures = printed_json(*table, "--with=copy=Our network,theirs=Rules")

    cells = [cell for cell in figures["cells"] if cell["paper"] is None]
    shown = [(cell["row"], cell["column"], cell["state"]) for cell in cells]
    rows = [
        ("dev", "Our network"),
        ("test", "Our network"),
        ("test", "Rules"),
    ]
    assert shown == [(*row, "complete") for row in rows]
    assert cells[-1]["unlike"] == ["another system"]
    for words in ("--table=4", "--with=copy"), ("--table=4", "--with=copy=a"):
        refused("report --runs=runs", *words)


def test_the_result_of_a_run_is_printed_as_json(at_home):
    assert printed_json("report copy") == read_json("copy/result.json")


# -- predict ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_published_masking_predicts_a_pair_the_same_whatever_other_pairs_come_with_it(at_home):
    """With published masking the padding matters, so a pair is padded as in training, whichever
    pairs come with it."""
    flags = ("--config.model.masking=paper", "--workdir=published")
    succeeds("train --config=esim:mednli", *TRAINED[1:], *flags)
    run = load_run("published")
    pair = ("asthma .", "patient has gout")
    longest = ("gout in w1 w2", "patient lacks asthma")

    alone = run.predict([pair])[0]

    for companions in (1, 300, 2100):
        among_others = run.predict([pair, *[longest] * companions])[0]
        assert among_others == pytest.approx(alone, abs=1e-6)


# -- analyses --------------------------------------------------------------------------------------


def test_aflite_puts_each_pair_of_all_splits_into_one_part(at_home):
    vectors = ("--config.vectors.path=", "--config.vectors.dim=8")
    flags = (*vectors, "--n=6", "--k=9", "--tau=.6", "--out=easy")

    figures = printed_json("analyze aflite --config=bow:mednli", *flags)

    easy = Path("easy/easy.txt").read_text().split()
    difficult = Path("easy/difficult.txt").read_text().split()
    uids = [f"{split}-{i}" for split, size in SIZES.items() for i in range(size)]
    assert sorted(easy + difficult) == sorted(uids)
    assert read_json("easy/aflite.json")["easy"] == len(easy)
    assert figures["features"]["dim"] == 8
    train = printed_json("analyze aflite --config=bow:mednli --train_only", *flags)
    assert (train["pairs"], list(train["splits"])) == (SIZES["train"], ["train"])
