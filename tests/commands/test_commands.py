"""The commands as a newcomer uses them, from train to report, on one corpus of pairs; and what goes
wrong."""

import html
import json
import os
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.commands import (
    SMALL,
    at,
    call_command,
    config_flag,
    environment_of,
    json_lines,
    read_json,
    run_command,
    use_one_device,
)
from support.files import contents
from support.pair_files import LABELS, SECRET, write_pairs

from mednli_jax import analyze, cli, evaluate, export, predict, train
from mednli_jax.errors import UserError
from mednli_jax.report import __main__ as report
from mednli_jax.run import load_run
from mednli_jax.rundir import RunDirectory
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.session import Session

TRAINED = (config_flag("bow", "mednli"), "--config.vectors.path=", *SMALL)
RESUME, EVALUATE = (train, *TRAINED, "--workdir=copy", "--resume"), (evaluate, "--run=copy")
SIZES = {"train": 48, "dev": 18, "test": 17}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data, a cache, and one finished run of two seeds in run/."""
    home = tmp_path_factory.mktemp("home")
    write_pairs(home / "data" / "mednli")
    with at(home), pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDNLI_JAX_DATA", str(home / "data"))
        code, out, err = call_command(train, *TRAINED, "--workdir=run")
    assert (code, out.strip(), SECRET in out + err) == (0, "run/result.json", False), err
    assert " parameters; seeds 0, 1; 1 device, cpu; " in err
    return home


@pytest.fixture
def at_home(home, tmp_path, monkeypatch):
    """A folder with a copy of the run in copy/ becomes the working folder; commands use the data
    and cache of home."""
    shutil.copytree(home / "run", tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    use_one_device(monkeypatch)
    for name in (
        "MEDNLI_JAX_DATA",
        "MEDNLI_JAX_CACHE",
    ):  # not XLA_FLAGS, which would apply to the whole suite
        monkeypatch.setenv(name, environment_of(home)[name])


def set_status(folder, status):
    (folder / "result.json").write_text(
        json.dumps({**read_json(folder, "result.json"), "status": status})
    )


# -- train -------------------------------------------------------------------------------------------------------------


def test_train_leaves_a_result(home):
    result = read_json(home, "run", "result.json")
    expected = {
        "status": "complete",
        "corpus": "mednli",
        "task": "nli",
        "model": "bow",
        "seeds": [0, 1],
    }
    assert {key: result[key] for key in expected} == expected
    for split in ("dev", "test"):
        assert (
            sum(map(sum, result[split]["confusion"])) == 2 * SIZES[split]
        )  # every pair is scored for both seeds
    assert result["train_examples_per_second"] > 0
    assert [row["epoch"] for row in json_lines(home, "run", "metrics.jsonl")] == [1, 2]
    splits = read_json(home, "run", "data.json")["splits"]
    assert (splits["train"]["rows"], len(splits["test"]["sha256"])) == (SIZES["train"], 64)
    assert read_json(home, "run", "env.json")["versions"]["jax"]
    assert len([path for path in (home / "run" / "checkpoints").iterdir() if path.is_dir()]) == 1
    assert Checkpoints(home / "run" / "checkpoints").load()[0].keys() == {"best"}


@pytest.mark.parametrize(
    "place", [["--workdir=my run"], ["--workdir", "my run"], ["-workdir", "my run", "--force"]]
)
def test_the_command_that_continues_a_run_works_as_it_is_printed(at_home, monkeypatch, place):
    with monkeypatch.context() as patch:
        patch.setattr(Session, "should_stop", lambda session: True)
        code, _, err = call_command(train, *TRAINED, *place)
    assert code == cli.INTERRUPTED, err
    words = shlex.split(err.splitlines()[-1].partition("To continue: ")[2])
    assert (
        words[:3]
        == read_json("my run/env.json")["command"][:3]
        == ["python", "-m", "mednli_jax.train"]
    )
    code, _, err = call_command(train, *words[3:])
    assert (code, read_json("my run/result.json")["status"]) == (0, "complete"), err
    # The page has the command of the last session, which a complete run leaves as it is.
    stored = read_json("my run/env.json")["command"]
    assert shlex.join(stored) in html.unescape(Path("my run/report.html").read_text())
    code, _, err = call_command(train, *stored[3:])
    assert (code, "complete already" in err) == (0, True)


def test_a_removed_result_is_written_anew_and_a_complete_run_is_left_alone(at_home):
    """The error for a damaged result tells the user to remove it."""
    before = read_json("copy/result.json")
    Path("copy/result.json").unlink()
    for _ in range(2):
        code, _, err = call_command(*RESUME)
        assert code == 0, err
        after = read_json("copy/result.json")
        assert [after[key] for key in ("status", "best_epoch")] == [
            before[key] for key in ("status", "best_epoch")
        ]
        assert after["test"]["accuracy"] == before["test"]["accuracy"]
    assert call_command(*RESUME, "--force")[0] == 2


def test_an_unfinished_run_is_not_scored(at_home):
    """A run in training is not called damaged, although its checkpoints come and go; else the
    message has the fix."""
    path = next(
        path
        for path in Path("copy/checkpoints").rglob("*")
        if path.is_file() and path.stat().st_size > 8
    )
    path.write_bytes(b"half")
    set_status(Path("copy"), "running")
    run = RunDirectory.existing(Path("copy"))
    run.lock()
    code, _, err = call_command(*EVALUATE)
    assert (code, "in training" in err, "--resume" in err) == (2, True, False)
    del run
    for status, fix in (
        ("running", "--resume"),
        ("interrupted", "--resume"),
        ("failed", "--force"),
        ("failed", "--resume"),
    ):
        set_status(Path("copy"), status)
        code, _, err = call_command(*EVALUATE)
        assert (code, status in err, fix in err) == (2, True, True)


@pytest.mark.slow
def test_dry_run_says_what_it_counts_and_leaves_nothing(home):
    flags = (*TRAINED, "--workdir=dry", "--dry-run", "--config.model.hidden_size=64")
    done = run_command("train", *flags, cwd=home, **environment_of(home))
    assert done.returncode == 0, done.stderr
    assert not (home / "dry").exists()
    total, work = re.findall(r"memory of each device: (.*) MB; (.*) MB of it", done.stdout)[0]
    assert float(total) > float(work) > 0
    assert "3 batches an epoch of 16 rows" in done.stdout  # 48 pairs


def test_a_run_is_carried_elsewhere(at_home, monkeypatch):
    """The folder has what prediction needs, and no more; the corpus is not there."""
    before = call_command(predict, "--run=copy", stdin="No gout.\tHe has gout.\n")
    code, out, err = call_command(export, "copy", "carried")
    assert (code, out) == (0, "carried\n"), err
    monkeypatch.setenv("MEDNLI_JAX_DATA", "absent")
    assert (
        call_command(predict, "--run=carried", stdin="No gout.\tHe has gout.\n")[:2] == before[:2]
    )
    names = {name for name in contents(Path("carried")) if not name.startswith("checkpoints/")}
    private = {"private/vocabulary.json", "private/vectors.npy"}
    assert names == {
        ".gitignore",
        "README.md",
        "lock",
        "config.json",
        "data.json",
        "result.json",
        *private,
    }
    card = Path("carried/README.md").read_text()
    assert (
        card.startswith("---\nlibrary_name: mednli_jax\n"),
        "accuracy" in card,
        "load_run" in card,
    ) == (True,) * 3
    code, _, err = call_command(export, "copy", "carried")
    assert (code, err.count("\n"), "carried" in err) == (2, 1, True)


# -- prepare, evaluate -------------------------------------------------------------------------------------------------


def test_evaluate_repeats_the_scores_of_training(at_home):
    result = read_json("copy/result.json")
    code, out, err = call_command(*EVALUATE, "--split=test", "--json")
    assert code == 0, err
    scores = json.loads(out)
    assert scores["accuracy"] == result["test"]["accuracy"]
    assert scores["confusion"] == result["test"]["confusion"]
    assert scores["loss"]["mean"] == pytest.approx(result["test"]["loss"]["mean"], rel=1e-5)
    out = call_command(*EVALUATE, "--split=dev")[1]
    mean, sd = (f"{100 * result['dev']['accuracy'][name]:.1f}" for name in ("mean", "sd"))
    rows = [line.split() for line in out.splitlines()]
    assert [row[:2] for row in rows if {mean, sd, str(SIZES["dev"])} <= set(row)] == [["dev", mean]]


def test_evaluate_by_partition(at_home):
    """Two parts of the test split, a part by positions as published, and a part with pairs of other
    splits."""
    for name, numbers in (("odd.txt", range(1, 17, 2)), ("even.txt", range(0, 17, 2))):
        Path(name).write_text("".join(f"test-{i}\n" for i in numbers) + "train-3\n")
    np.save("places.npy", np.array(["train0", "test66", "test68", "test70"]))
    Path("others.txt").write_text("train-1\ndev-2\n")
    parts = "--partition=odd.txt,even.txt,places.npy,others.txt"
    code, out, err = call_command(*EVALUATE, "--json", parts)
    assert code == 0, err
    scores = json.loads(out)
    found = scores["partitions"]
    assert {name: part["examples"] for name, part in found.items()} == {
        "odd": 8,
        "even": 9,
        "places": 3,
        "others": 0,
    }
    both = [np.array(found[name]["confusion"]) for name in ("odd", "even")]
    assert (both[0] + both[1]).tolist() == scores["confusion"]
    assert found["places"]["majority"] == pytest.approx(
        1 / 3
    )  # the labels of rows 0, 2 and 4 differ
    Path("foreign.txt").write_text(f"test-1\n{SECRET}\n")
    code, _, err = call_command(*EVALUATE, "--partition=foreign.txt")
    assert (code, "foreign.txt:2:" in err, SECRET in err) == (2, True, False)


def test_answers_of_any_system_are_scored_as_a_run(at_home):
    """The answers are the labels that the run's first seed predicted, so all scores are those of
    this seed."""
    expected, kept = (
        read_json("copy/result.json")["test"],
        json_lines("copy/private/predictions.test.jsonl"),
    )
    given = [(row["uid"], row["predicted"][0].upper()) for row in reversed(kept)]
    write = {
        "csv": lambda rows: "uid,label\n" + "".join(f"{uid},{label}\n" for uid, label in rows),
        "tsv": lambda rows: (
            "model\tpairID\tpredicted\n" + "".join(f"x\t{uid}\t{label}\n" for uid, label in rows)
        ),
        "jsonl": lambda rows: "".join(
            json.dumps({"uid": uid, "label": label}) + "\n" for uid, label in rows
        ),
    }
    for ending, text in write.items():
        Path(f"given.{ending}").write_text(text(given))
        call = (evaluate, f"--predictions=given.{ending}", TRAINED[0])
        code, out, err = call_command(*call, f"--workdir=theirs-{ending}", "--json")
        assert code == 0, err
        found = json.loads(out)
        for name in ("accuracy", "macro_f1"):
            assert found[name]["per_seed"] == pytest.approx(expected[name]["per_seed"][:1]), name
        assert (np.sum(found["confusion"]), "loss" in found) == (SIZES["test"], False)
    assert call_command(*call)[1].startswith("given.jsonl on mednli, test: 17 pairs\n")
    code, out, err = call_command(report, "copy", "theirs-csv", "--compare", "--json")
    assert code == 0, err
    assert json.loads(out)["comparisons"][0]["accuracy"][1] == pytest.approx(
        expected["accuracy"]["per_seed"][0]
    )
    assert call_command(report, "theirs-csv")[0] == 0
    (uid, label), *others = given
    wrong = {
        "unknown": (SECRET, label),
        "label": (uid, SECRET),
        "twice": given[1],
        "own.copy": None,
    }
    for name, row in wrong.items():
        Path(f"{name}.jsonl").write_text(write["jsonl"]([*others, row] if row else others))
        code, out, err = call_command(evaluate, f"--predictions={name}.jsonl", TRAINED[0])
        assert (code, out, err.count("\n"), SECRET in err) == (2, "", 1, False), name
        assert err.startswith(f"error: {name}.jsonl:{'17:' if row else ''} "), err


def test_evaluate_on_a_probe(at_home):
    """The probe puts the pairs of the test split into two categories; the split and both categories
    get scores."""
    source = Path(os.environ["MEDNLI_JAX_DATA"]) / "mednli" / "mli_test_v1.jsonl"
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    lines = (json.dumps({**row, "genre": f"kind{n % 2}"}) + "\n" for n, row in enumerate(rows))
    Path("probe.jsonl").write_text("".join(lines))
    code, out, err = call_command(*EVALUATE, "--probe=probe.jsonl", "--json")
    assert code == 0, err
    found, parts = (
        json.loads(out),
        {name: part["confusion"] for name, part in json.loads(out)["slices"].items()},
    )
    assert found["confusion"] == read_json("copy/result.json")["test"]["confusion"]
    assert list(parts) == ["kind0", "kind1"]
    assert np.sum(list(parts.values()), axis=0).tolist() == found["confusion"]
    code, _, err = call_command(*EVALUATE, "--probe=probe.jsonl", "--merged")
    assert (code, "--probe" in err) == (2, True)


def test_a_changed_corpus_is_refused(at_home, tmp_path, monkeypatch):
    """A pair has another label: shapes, vocabulary and vectors stay equal, but the scores would
    change."""
    write_pairs(tmp_path / "mednli")
    path = tmp_path / "mednli" / "mli_test_v1.jsonl"
    path.write_text(path.read_text().replace('"neutral"', '"entailment"', 1))
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path))
    code, out, err = call_command(*EVALUATE)
    assert (code, out) == (2, "")
    assert "changed since the run began" in err


@pytest.mark.parametrize(
    ("file", "field"), [("config.json", "hidden_size"), ("result.json", "notes")]
)
def test_a_run_of_another_version_is_refused(at_home, file, field):
    text = Path("copy", file).read_text()
    Path("copy", file).write_text(text.replace(f'"{field}":', '"other":', 1))
    with pytest.raises(UserError, match=r"^copy: another version wrote this run\. Fix: "):
        load_run("copy")


# -- predict -----------------------------------------------------------------------------------------------------------


def test_predict_needs_no_corpus_and_counts_unknown_words(at_home, tmp_path, monkeypatch):
    monkeypatch.setenv("MEDNLI_JAX_DATA", "/nonexistent")
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path))
    lines = [
        f"{SECRET} asthma .\tpatient has asthma",
        "no gout today\tpatient lacks gout",
        "w1 w2\tw3",
    ]
    code, out, err = call_command(predict, "--run=copy", stdin="\n".join(lines) + "\n")
    assert (code, SECRET in out + err) == (0, False), err
    header, *rows = [line.split("\t") for line in out.splitlines()]
    assert header == ["label", *LABELS]
    found = np.array([row[1:] for row in rows], float)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert [row[0] for row in rows] == [LABELS[place] for place in found.argmax(axis=1)]
    assert "words without a vector: 4 in premises, 1 in hypotheses" in err  # no, today, w1, w2; w3


@pytest.mark.slow
def test_published_masking_predicts_the_same_in_any_company(at_home):
    """With published masking the padding matters, so a pair is padded as in training, whichever
    pairs come with it."""
    esim = (
        config_flag("esim", "mednli"),
        *TRAINED[1:],
        "--config.model.masking=paper",
        "--workdir=published",
    )
    code, _, err = call_command(train, *esim)
    assert code == 0, err
    run = load_run("published")
    pair, longest = ("asthma .", "patient has gout"), ("gout in w1 w2", "patient lacks asthma")
    alone = run.predict([pair])[0]
    for company in ([longest], [longest] * 300, [longest] * 2100):
        assert run.predict([pair, *company])[0] == pytest.approx(alone, abs=1e-6)


# -- analyses ----------------------------------------------------------------------------------------------------------


def test_aflite_parts_the_corpus(at_home):
    """Filtering puts each pair of the three splits into one part, by a run's features."""
    vectors = ("--config.vectors.path=", "--config.vectors.dim=8")
    flags = ("aflite", config_flag("bow", "mednli"), *vectors, "--n=6", "--k=9", "--tau=.6")
    code, out, err = call_command(analyze, *flags, "--features=copy", "--out=easy", "--json")
    assert (code, SECRET in out + err) == (0, False), err
    made = [Path(f"easy/{name}.txt").read_text().split() for name in ("easy", "difficult")]
    uids = [f"{split}-{i}" for split, size in SIZES.items() for i in range(size)]
    assert sorted(made[0] + made[1]) == sorted(uids)
    assert read_json("easy/aflite.json")["easy"] == len(made[0])
    assert json.loads(out)["features"] == {"kind": "logits of a run", "run": "copy", "dim": 6}
