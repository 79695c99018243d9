"""The doors as a user meets them: train, evaluate, predict, prepare on a few made-up MedNLI files; and bad input."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compiler import FAST

ROOT = Path(__file__).parents[2]
LABELS = ("entailment", "neutral", "contradiction")
SIGNS = {"entailment": "has", "neutral": "may have", "contradiction": "lacks"}
CONDITIONS = ("asthma", "gout", "pneumonia", "anemia", "stroke", "sepsis")
SMALL = (
    "--config.model.hidden_size=4",
    "--config.vectors.dim=8",
    "--config.train.batch_size=16",
    "--config.train.epochs=2",
    "--config.train.max_buckets=1",
    "--config.seeds=0,1",
)
SECRET = "zyzzyva"  # stands in every sentence, must stand in no output


def door(name, *arguments, cwd, stdin="", **environment):
    command = [sys.executable, "-m", f"mednli_jax.{name}", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, cwd=cwd, timeout=240, env={**os.environ, **environment}
    )


def write_corpus(folder, sizes=(("train", 48), ("dev", 18), ("test", 17))):
    """Made-up MedNLI files in the official layout; the verb decides the label."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in sizes:
        lines = []
        for i in range(size):
            label, condition = LABELS[i % 3], CONDITIONS[i % len(CONDITIONS)]
            premise, hypothesis = f"{SECRET} {condition} in {split} {i // 3} .", f"patient {SIGNS[label]} {condition}"
            lines.append(
                json.dumps({
                    "pairID": f"{split}-{i}", "gold_label": label, "sentence1": premise, "sentence2": hypothesis,
                    "sentence1_binary_parse": f"( {premise} )",
                    "sentence2_binary_parse": f"( {hypothesis} )",
                })
            )  # fmt: skip
        (folder / f"mli_{split}_v1.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data, a cache, and one finished run of two seeds in run/."""
    home = tmp_path_factory.mktemp("home")
    write_corpus(home / "data" / "mednli")
    done = train(home, "--workdir=run")
    assert done.returncode == 0, done.stderr
    home.joinpath("train.out").write_text(done.stdout)
    home.joinpath("train.err").write_text(done.stderr)
    return home


def train(home, *arguments, config="infersent_kd.py:mednli"):
    random = "--config.vectors.path="
    return door("train", f"--config={ROOT / 'configs' / config}", random, *SMALL, *arguments, cwd=home, **places(home))


def places(home):
    return {
        "MEDNLI_JAX_DATA": str(home / "data"),
        "MEDNLI_JAX_CACHE": str(home / "cache"),
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": FAST,
    }


def test_train_leaves_a_result(home):
    assert home.joinpath("train.out").read_text().strip() == "run/result.json"
    result = json.loads((home / "run" / "result.json").read_text())
    expected = {
        "status": "complete",
        "corpus": "mednli",
        "task": "nli",
        "model": "infersent",
        "seeds": [0, 1],
        "epochs": 2,
    }
    assert {key: result[key] for key in expected} == expected
    for split, size in (("dev", 18), ("test", 17)):
        accuracy = result[split]["accuracy"]
        assert len(accuracy["per_seed"]) == 2
        assert accuracy["mean"] == pytest.approx(sum(accuracy["per_seed"]) / 2)
        assert 0 <= accuracy["sd"] <= 1
        assert sum(map(sum, result[split]["confusion"])) == 2 * size  # every pair scored, over both seeds
    assert result["train_examples_per_second"] > 0
    assert result["seconds"] > 0
    metrics = [json.loads(line) for line in (home / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in metrics] == [1, 2]
    data = json.loads((home / "run" / "data.json").read_text())
    assert data["splits"]["train"]["rows"] == 48
    assert len(data["splits"]["test"]["sha256"]) == 64
    assert json.loads((home / "run" / "env.json").read_text())["versions"]["jax"]


def test_nothing_is_readable_by_others_and_no_text_leaves_private(home):
    for folder in (home / "run", home / "cache"):
        for path in (folder, *folder.rglob("*")):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    shown = [home / "train.out", home / "train.err"]
    for path in [*shown, *(p for p in (home / "run").rglob("*") if p.is_file() and "private" not in p.parts)]:
        assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET in (home / "run" / "private" / "vocabulary.json").read_text()


def test_evaluate_repeats_the_scores_of_training(home):
    result = json.loads((home / "run" / "result.json").read_text())
    done = door("evaluate", "--run=run", "--split=test", "--json", cwd=home, **places(home))
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert scores["accuracy"] == result["test"]["accuracy"]
    assert scores["confusion"] == result["test"]["confusion"]
    assert scores["loss"]["mean"] == pytest.approx(result["test"]["loss"]["mean"], rel=1e-5)
    done = door("evaluate", "--run=run", "--split=dev", cwd=home, **places(home))
    accuracy = result["dev"]["accuracy"]
    assert "18 pairs, seeds 0, 1" in done.stdout
    assert f"accuracy {accuracy['mean']:.4f} (sd {accuracy['sd']:.4f}; 95 % interval" in done.stdout
    assert "summed over the 2 seeds" in done.stdout


def test_evaluate_by_partition(home, tmp_path):
    """Two parts of the test split, the places of the published lists, and pairs of other splits alone."""
    from mednli_jax.analysis.nli.evaluation import partition_lines
    from mednli_jax.metrics import wilson_interval

    parts = {"odd.txt": range(1, 17, 2), "even.txt": range(0, 17, 2)}
    for name, numbers in parts.items():
        (tmp_path / name).write_text("".join(f"{uid}\n" for uid in (*(f"test-{i}" for i in numbers), "train-3")))
    np.save(tmp_path / "places.npy", np.array(["train0", "test0", "test2", "test4"]))
    (tmp_path / "others.txt").write_text("train-1\ndev-2\n")
    files = ",".join(str(tmp_path / name) for name in (*parts, "places.npy", "others.txt"))
    done = door("evaluate", "--run=run", "--json", f"--partition={files}", cwd=home, **places(home))
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    found = scores["partitions"]
    assert {name: part["examples"] for name, part in found.items()} == {"odd": 8, "even": 9, "places": 3, "others": 0}
    both = [np.array(found[name]["confusion"]) for name in ("odd", "even")]
    assert (both[0] + both[1]).tolist() == scores["confusion"]
    for part in (found["odd"], found["even"], scores):
        accuracy, pairs = part["accuracy"]["mean"], part["examples"]
        low, high = wilson_interval(round(accuracy * pairs), pairs)
        assert (part["interval"]["low"], part["interval"]["high"]) == (low, high)
    assert found["places"]["majority"] == pytest.approx(1 / 3)  # of three labels in turn, rows 0, 2 and 4
    lines = list(partition_lines(scores, found))
    assert lines[1].split()[:3] == ["odd", "8", "0.3750"]  # of 8 labels three are neutral, three entailment
    assert lines[4].split() == ["others", "0"]


def test_ids_of_no_pair_are_one_line(told, tmp_path):
    (tmp_path / "foreign.txt").write_text(f"test-1\n{SECRET}\n")
    code, text = told("evaluate", "--run=copy", "--partition=foreign.txt")
    assert code == 2
    assert text.splitlines()[-1].startswith("foreign.txt:2: 1 of 2 ids are of no pair of the corpus")
    assert SECRET not in text


def test_aflite_parts_the_corpus(home, tmp_path):
    """All pairs of the three splits, once each; by word vectors, or by what a run says of them."""
    config = f"--config={ROOT / 'configs' / 'bow.py'}:mednli"
    flags = ("aflite", config, "--config.vectors.path=", "--config.vectors.dim=8", "--n=6", "--k=9", "--tau=.6")
    done = door("analyze", *flags, f"--out={tmp_path / 'easy'}", cwd=home, **places(home))
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    made = {name: (tmp_path / "easy" / f"{name}.txt").read_text().split() for name in ("easy", "difficult")}
    uids = [f"{split}-{i}" for split, size in (("train", 48), ("dev", 18), ("test", 17)) for i in range(size)]
    assert sorted(made["easy"] + made["difficult"]) == sorted(uids)
    told = json.loads((tmp_path / "easy" / "aflite.json").read_text())
    assert (told["easy"], told["settings"]["m"]) == (len(made["easy"]), 33)
    assert (tmp_path / "easy" / "aflite.png").read_bytes().startswith(b"\x89PNG")
    done = door("analyze", *flags, "--features=run", "--json", cwd=home, **places(home))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["features"] == {"kind": "logits of a run", "run": "run", "dim": 6}


def test_of_one_seed_no_deviation_is_told():
    from mednli_jax.analysis.nli.evaluation import score_lines

    one = {"mean": 0.5, "sd": 0.0}
    row = {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    scores = {"accuracy": one, "examples": 6, "macro_f1": one, "loss": one, "calibration": {"ece": one}}
    scores |= {"confusion": [[1, 1, 0], [0, 1, 1], [1, 0, 1]], "per_class": dict.fromkeys(LABELS, row)}
    result = {"model": "bow", "corpus": "mednli", "seeds": [3], "notes": []}
    lines = list(score_lines(scores, result, "mednli", "test"))
    assert lines[0] == "bow on mednli, test: 6 pairs, seed 3"
    assert next(score_lines(scores, result, "snli", "dev")) == "bow, trained on mednli on snli, dev: 6 pairs, seed 3"
    assert lines[1].startswith("accuracy 0.5000 (95 % interval of one run 0.18")  # Wilson for 3 of 6: 0.188 to 0.812
    assert len(lines) == 7


def test_predict_needs_neither_corpus_nor_order_nor_company(home):
    """The same pair has the same probabilities alone, and in any order; JSON and TAB lines mean the same."""
    lines = [f"{SECRET} asthma .\tpatient has asthma", "no gout today\tpatient lacks gout", "w1 w2\tw3"]
    elsewhere = {**places(home), "MEDNLI_JAX_DATA": "/nonexistent", "MEDNLI_JAX_CACHE": str(home / "cache2")}
    done = door("predict", "--run=run", cwd=home, stdin="\n".join(lines) + "\n", **elsewhere)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["label", *LABELS]
    assert len(rows) == 4
    for row in rows[1:]:
        probabilities = dict(zip(LABELS, map(float, row[1:]), strict=True))
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert row[0] == max(probabilities, key=probabilities.__getitem__)
    assert "3 pairs; words without a vector: 4 in premises, 1 in hypotheses" in done.stderr  # no today w1 w2; w3
    assert SECRET not in done.stdout + done.stderr
    premise, hypothesis = lines[1].split("\t")
    alone = json.dumps({"sentence1": premise, "sentence2": hypothesis}) + "\n"
    done = door("predict", "--run=run", cwd=home, stdin=alone, **elsewhere)
    again = list(map(float, done.stdout.splitlines()[1].split("\t")[1:]))
    assert again == pytest.approx(list(map(float, rows[2][1:])), abs=2e-6)


@pytest.mark.slow
def test_attention_maps_of_a_pair(home):
    """For the owner alone, under private/, a new folder each time; rows sum to 1; a concept attends to itself most."""
    premise, hypothesis = f"{SECRET} asthma .", "patient has asthma"
    for folder in ("attention", "attention-2"):
        done = door("predict", "--run=run", "--attention", cwd=home, stdin=f"{premise}\t{hypothesis}\n", **places(home))
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr
        made = home / "run" / "private" / folder
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in made.iterdir()} == {
            ".gitignore": 0o600, "pair-1.json": 0o600, "pair-1.png": 0o600,
        }  # fmt: skip
    found = json.loads((made / "pair-1.json").read_text())
    assert (found["premise"], found["hypothesis"]) == (premise.lower().split(), hypothesis.split())
    assert list(found["maps"]) == ["links"]
    weights = np.array(found["maps"]["links"]["premise"])
    assert weights.shape == (2, 3, 3)  # seeds, premise, hypothesis
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    e = np.exp(json.loads((home / "run" / "config.json").read_text())["model"]["knowledge_scale"])
    np.testing.assert_allclose(weights[:, 1], np.array([[1, 1, e]] * 2) / (e + 2), atol=1e-5)
    np.testing.assert_allclose(weights[:, 0], 1 / 3, atol=1e-5)
    assert (made / "pair-1.png").read_bytes().startswith(b"\x89PNG")


def test_python_call(home, monkeypatch):
    from mednli_jax import evaluate, predict, prepare, train  # noqa: F401 - side by side in one process

    for name in ("MEDNLI_JAX_DATA", "MEDNLI_JAX_CACHE"):  # XLA_FLAGS would count for the whole suite
        monkeypatch.setenv(name, places(home)[name])
    run = evaluate.load_run(home / "run")
    rows = run.predict([("asthma", "patient has asthma"), ("gout", "patient lacks gout")])
    assert [set(row) for row in rows] == [set(LABELS)] * 2
    assert run.predict([]) == []
    assert run.result["status"] == "complete"


def test_what_prediction_needs_is_made_once(home, monkeypatch):
    """A second handful of pairs makes no linker and compiles nothing; it is not answered from the first one's pairs."""
    from mednli_jax import evaluate
    from mednli_jax.corpora.nli import corpus
    from mednli_jax.knowledge.linking import Linker
    from mednli_jax.training.devices import Devices

    for name in ("MEDNLI_JAX_DATA", "MEDNLI_JAX_CACHE"):
        monkeypatch.setenv(name, places(home)[name])
    calls = {"linkers": 0, "compiled": 0}

    def counting(name, function):
        def call(*arguments, **more):
            calls[name] += 1
            return function(*arguments, **more)

        return call

    monkeypatch.setattr(corpus, "Linker", counting("linkers", Linker))
    monkeypatch.setattr(Devices, "map", counting("compiled", Devices.map))
    run = evaluate.load_run(home / "run")
    asthma, gout = ("asthma", "patient has asthma"), ("no gout today", "patient lacks gout at all")
    first = run.predict([asthma])
    assert calls == {"linkers": 1, "compiled": 1}
    both = run.predict([gout, asthma])
    assert run.predict([gout])[0] == pytest.approx(both[0], abs=2e-6)
    assert calls == {"linkers": 1, "compiled": 1}
    assert both[1] == pytest.approx(first[0], abs=2e-6)
    assert both[0] != pytest.approx(both[1], abs=1e-4)
    many = run.predict([asthma, gout] * 150)  # another shape
    assert calls["compiled"] > 1
    assert calls["linkers"] == 1
    assert len(many) == 300
    for row, expected in zip(many, both[::-1] * 150, strict=True):
        assert row == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(
    ("file", "field", "lost"),
    [
        ("config.json", "data.builder", ("data", "builder")),
        ("config.json", "model.name", ("model", "name")),
        ("config.json", "train.batch_size", ("train",)),
        ("result.json", "best_epoch", ("best_epoch",)),
        ("data.json", "tokeniser", ("tokeniser",)),
    ],
)
def test_a_run_of_an_older_version_is_refused_not_guessed_at(home, tmp_path, file, field, lost):
    import shutil

    from mednli_jax import evaluate
    from mednli_jax.errors import UserError

    shutil.copytree(home / "run", tmp_path / "old")
    path = tmp_path / "old" / file
    values = json.loads(path.read_text())
    part = values
    for name in lost[:-1]:
        part = part[name]
    del part[lost[-1]]
    path.write_text(json.dumps(values))
    expected = rf"^{path}: lacks .*\b{field}\b.* Fix: train again with this version"
    with pytest.raises(UserError, match=expected):
        evaluate.load_run(tmp_path / "old")


def test_an_older_run_is_one_line_in_each_door(home, tmp_path):
    import shutil

    shutil.copytree(home / "run", tmp_path / "old")
    path = tmp_path / "old" / "config.json"
    values = json.loads(path.read_text())
    del values["data"]["builder"]
    path.write_text(json.dumps(values))
    for name in ("evaluate", "predict"):
        done = door(name, "--run=old", cwd=tmp_path, stdin="a\tb\n", **places(home))
        assert done.returncode == 2
        assert done.stderr.startswith("old/config.json: lacks data.builder, which this version reads")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_dry_run_says_what_it_counts_and_leaves_nothing(home):
    done = train(home, "--workdir=dry", "--dry-run", "--config.model.hidden_size=64")
    assert done.returncode == 0, done.stderr
    assert not (home / "dry").exists()
    lines = done.stdout.splitlines()
    (device,) = [line for line in lines if line.startswith("memory of each device: ")]
    total, *parts = [float(number) for number in re.findall(r"[0-9.]+(?= MB|$| \+)", device.partition(": ")[2])]
    assert total == pytest.approx(sum(parts), abs=1)
    assert len(parts) == 5
    assert parts[0] == pytest.approx(3 * parts[1], rel=0.2)  # weights and Adam's two moments, beside the best weights
    assert parts[1] > 0.1
    (process,) = [line for line in lines if line.startswith("memory of this process: ")]
    peak = float(re.search(r"at most ([0-9]+) MB", process)[1])
    assert 100 < peak < 10_000  # with jax, but for a model of a few hundred parameters
    assert {line.partition(":")[0] for line in lines if " batches an epoch of " in line} == {"train", "dev"}
    assert "3 batches an epoch of 16 rows" in done.stdout  # 48 pairs
    assert "not counted: compiling" in lines[-1]


# ---- doctor ----


def doctor(cwd, *arguments, **environment):
    done = door("doctor", *arguments, cwd=cwd, **{**places(cwd), "MEDNLI_JAX_DATA": "", **environment})
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, {line[10:].partition(":")[0]: line for line in done.stdout.splitlines()}, done.stdout


KINDS = {"clicr", "notes", "umls", "snomed", "wordnet", "mesh", "word vectors", "pretrained weights"}


def test_doctor_without_a_data_folder_names_all_that_is_missing(tmp_path):
    code, lines, text = doctor(tmp_path)
    assert code == 0
    assert "$MEDNLI_JAX_DATA is not set" in text
    assert "devices: cpu" in text
    splits = {f"mednli {split}" for split in ("train", "dev", "test")} | {"snli train", "multinli dev"}
    assert KINDS | splits | {"mediqa_nli test", "mediqa_nli ground truth"} <= set(lines)
    assert lines["mesh"].startswith("  ok")
    for name in (KINDS | splits) - {"mesh"}:
        assert lines[name].startswith("  missing"), name
    for name, source in (("mednli train", "physionet.org"), ("umls", "uts.nlm.nih.gov"), ("notes", "physionet.org")):
        assert source in lines[name]


def test_doctor_compares_counts_and_modes(tmp_path):
    data = tmp_path / "data"
    write_corpus(data / "mednli", (("train", 11_232), ("dev", 1_395), ("test", 3)))
    labels = "".join(f"{i},neutral\n" for i in range(399))
    for name, content in (("task.jsonl", "x\n" * 405), ("task_ground_truth.csv", f"pair_id,label\n{labels}")):
        path = data / "mediqa_nli" / f"mednli_bionlp19_shared_{name}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    umls = (f"umls/META/{name}.RRF" for name in ("MRCONSO", "MRREL", "MRSTY"))
    for name in ("clicr/dev1.0.json", "notes/NOTEEVENTS.csv.gz", *umls):
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for path in (data, *data.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    code, lines, text = doctor(tmp_path, "--data=data")
    assert code == 2
    assert [lines[f"mednli {split}"][2:7].strip() for split in ("train", "dev", "test")] == ["ok", "ok", "CHECK"]
    assert "3 pairs, expected 1,422" in lines["mednli test"]
    assert lines["mediqa_nli test"].startswith("  ok")
    assert "399 pairs, expected 405" in lines["mediqa_nli ground truth"]
    assert lines["clicr"].startswith("  CHECK")
    assert "train1.0.json" in lines["clicr"]
    assert lines["notes"].startswith("  ok")
    assert lines["umls"].startswith("  ok")
    assert lines["permissions"].startswith("  ok") or "git" in text
    assert SECRET not in text
    (data / "mednli" / "mli_dev_v1.jsonl").chmod(0o644)
    code, lines, _ = doctor(tmp_path, MEDNLI_JAX_DATA=str(data))
    assert code == 2
    assert "1 files or folders are readable by others" in lines["permissions"]


def test_doctor_wants_a_data_folder(tmp_path):
    done = door("doctor", "--data=nowhere", cwd=tmp_path, **places(tmp_path))
    assert done.returncode == 2
    assert done.stderr == "nowhere: is no folder. Fix: check $MEDNLI_JAX_DATA or --data.\n"


def test_prepare_is_a_hit_after_train_and_notices_a_changed_file(home, tmp_path):
    arguments = (f"--config={ROOT / 'configs' / 'infersent_kd.py'}:mednli", "--config.vectors.path=", *SMALL)
    done = door("prepare", *arguments, cwd=home, **places(home))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("found in 0.")
    assert "train: 48 pairs" in done.stdout
    assert "tokens from: binary parse 48" in done.stdout
    write_corpus(tmp_path / "mednli", (("train", 45), ("dev", 18), ("test", 17)))
    done = door("prepare", *arguments, cwd=home, **{**places(home), "MEDNLI_JAX_DATA": str(tmp_path)})
    assert done.stdout.startswith("prepared in")
    assert "train: 45 pairs" in done.stdout


def test_a_second_run_never_overwrites_the_first(home):
    before = (home / "run" / "result.json").read_bytes()
    done = train(home, "--workdir=run")
    assert done.returncode == 2
    assert all(word in done.stderr for word in ("--resume", "--force", "--workdir"))
    done = train(home, "--workdir=run", "--resume")
    assert done.returncode == 0
    assert "complete already" in done.stderr
    done = train(home, "--workdir=run", "--resume", "--config.train.learning_rate=0.5")
    assert done.returncode == 2
    assert "train.learning_rate" in done.stderr
    assert (home / "run" / "result.json").read_bytes() == before


@pytest.fixture
def told(home, tmp_path, monkeypatch, capsys):
    """told(door, *flags) -> (exit code, stderr) of a door in this process, beside a copy of the finished run, copy/."""
    import io
    import shutil

    from mednli_jax import cli, evaluate, predict, report, train

    shutil.copytree(home / "run", tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    for name in ("MEDNLI_JAX_DATA", "MEDNLI_JAX_CACHE"):
        monkeypatch.setenv(name, places(home)[name])
    config = (f"--config={ROOT / 'configs' / 'infersent_kd.py'}:mednli", "--config.vectors.path=", *SMALL)

    def call(name, *flags):
        module = {"train": train, "evaluate": evaluate, "predict": predict, "report": report}[name]
        own = config if name == "train" and not any(flag.startswith("--config=") for flag in flags) else ()
        monkeypatch.setattr(sys, "argv", [name, *own, *flags])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"asthma\tgout\n")))
        mask = os.umask(0o077)
        try:
            return cli.run(module.main, module.USAGE, module.define, words=sys.maxsize), capsys.readouterr().err
        finally:
            os.umask(mask)

    return call


def set_status(folder, status):
    path = folder / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": status}))


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


RESUME, EVALUATE = ("train", "--workdir=copy", "--resume"), ("evaluate", "--run=copy")
DAMAGED = {
    "result, train": ("result.json", b"{}", RESUME[:2], "copy/result.json: has no 'status'"),
    "result, resume": ("result.json", b"{}", RESUME, "copy/result.json: has no 'status'"),
    "result, evaluate": ("result.json", b"{}", EVALUATE, "copy/result.json: has no 'status'"),
    "data, resume": ("data.json", b"[]", RESUME, "copy/data.json: holds no JSON object"),
    "data, evaluate": ("data.json", b"[]", EVALUATE, "copy/data.json: holds no JSON object"),
    "data without files": ("data.json", b"{}", RESUME, "copy/data.json: has no 'files'"),
    "files without names": ("data.json", b'{"files": []}', EVALUATE, "copy/data.json: lacks"),
    "config": ("config.json", b"[]", RESUME, "copy/config.json: holds no JSON object"),
    "config, evaluate": ("config.json", b"3", EVALUATE, "copy/config.json: holds no JSON"),
    "metrics": ("metrics.jsonl", b"quokka\n{}\n", RESUME, "copy/metrics.jsonl:1: is no row of metrics"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_of_a_run_is_one_line_and_the_run_stays_as_it_is(told, case):
    file, content, call, expected = DAMAGED[case]
    if call == RESUME:
        set_status(Path("copy"), "interrupted")
    Path("copy", file).write_bytes(content)
    before = contents(Path("copy"))
    code, text = told(*call)
    assert code == 2
    assert text.startswith(expected)
    assert " Fix: " in text
    assert text.count("\n") == 1
    assert contents(Path("copy")) == before


def test_a_removed_result_is_written_anew(told):
    """The fix that the error for a damaged one gives."""
    before = json.loads(Path("copy/result.json").read_text())
    Path("copy/result.json").unlink()
    code, text = told(*RESUME)
    assert code == 0, text
    after = json.loads(Path("copy/result.json").read_text())
    for key in ("status", "best_epoch", "epochs"):
        assert after[key] == before[key]
    assert after["test"]["accuracy"] == before["test"]["accuracy"]


def test_a_run_in_training_is_not_called_damaged(told):
    """While it trains its checkpoints come and go; they are not looked at."""
    from mednli_jax.runs import RunDirectory

    path = next(path for path in Path("copy/checkpoints").rglob("*") if path.is_file() and path.stat().st_size > 8)
    path.write_bytes(b"half")
    set_status(Path("copy"), "running")
    run = RunDirectory.existing(Path("copy"))
    run.lock()
    assert told("evaluate", "--run=copy") == (
        2, "copy: the run is in training. Fix: wait until it is finished.\n"
    )  # fmt: skip
    del run
    for status in ("running", "interrupted", "failed"):
        set_status(Path("copy"), status)
        code, text = told("evaluate", "--run=copy")
        assert code == 2
        assert text.startswith(f"copy: the run is not finished (status {status}). Fix: go on with it: ")
        assert "--workdir=copy and --resume" in text
        assert "--force" not in text


def test_features_have_no_steps_to_time(told):
    code, text = told("train", f"--config={ROOT / 'configs' / 'features.py'}", "--workdir=dry", "--dry-run")
    assert (code, text.partition(" ")[0]) == (2, "E-USE-017")
    assert not Path("dry").exists()


def test_resume_and_force_exclude_each_other(told):
    before = contents(Path("copy"))
    code, text = told(*RESUME, "--force")
    assert (code, text.partition(" ")[0]) == (2, "E-USE-013")
    assert contents(Path("copy")) == before


def test_resume_of_no_folder_names_the_run_that_was_meant(told):
    code, text = told("train", "--workdir=cpoy", "--resume")
    assert code == 2
    assert text.startswith("cpoy: no such run directory. Did you mean copy? Fix: ")
    assert "leave --resume out" in text
    assert not Path("cpoy").exists()


@pytest.mark.parametrize("room", [3, 5])  # the fourth file and the sixth are refused
def test_on_a_full_disk_the_first_fault_is_told(told, monkeypatch, room):
    """From the first refused file on every write fails, that of the status `failed` too."""
    files, replace = [], os.replace

    def full(source, target):
        if Path("full") in Path(target).parents:
            files.append(Path(target))
            if len(files) > room:
                raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr("mednli_jax.files.os.replace", full)
    code, text = told("train", "--workdir=full")
    assert code == 2
    assert text.splitlines()[-1].startswith(f"{files[room]}: cannot be written (No space left on device).")
    assert files[room + 1 :] == [Path("full/result.json")]
    assert "Traceback" not in text
    code, text = told("evaluate", "--run=full")
    assert (code, text.partition(":")[0]) == (2, "full")


def test_tensorboard_has_every_epoch(home):
    from test_runs import curves

    for name in ("train_loss", "train_accuracy", "dev_loss", "dev_accuracy"):
        rows = [json.loads(line) for line in (home / "run" / "metrics.jsonl").read_text().splitlines()]
        for place, seed in enumerate((0, 1)):
            points = curves(home / "run")[f"{name}/seed{seed}"]
            assert [step for step, _ in points] == [1, 2]
            assert [value for _, value in points] == pytest.approx([row[name][place] for row in rows], rel=1e-6)


def test_seeds_and_devices_are_told_apart(home):
    assert re.search(r" parameters; seeds 0, 1; 1 device, cpu; ", (home / "train.err").read_text())


def test_a_changed_corpus_is_refused(home, tmp_path):
    """The same pairs with other labels: shapes, vocabulary and vectors are equal, the scores would not be."""
    write_corpus(tmp_path / "mednli")
    path = tmp_path / "mednli" / "mli_test_v1.jsonl"
    path.write_text(path.read_text().replace('"neutral"', '"swap"').replace('"entailment"', '"neutral"'))
    path.write_text(path.read_text().replace('"swap"', '"entailment"'))
    done = door("evaluate", "--run=run", cwd=home, **{**places(home), "MEDNLI_JAX_DATA": str(tmp_path)})
    assert done.returncode == 2
    assert "E-RUN-012" in done.stderr
    assert done.stdout == ""


def test_answers_to_cloze_queries_are_scored_whoever_gave_them(tmp_path):
    from test_cloze_tables import write_corpus

    write_corpus(tmp_path / "own")
    (tmp_path / "said.json").write_text(json.dumps({"test.0": "The Cough!"}))
    (tmp_path / "v.txt").write_text("fever 1 0\ncough 0 1\n")
    (tmp_path / "skills.tsv").write_text("test.0\tbridging\n")
    call, here = ("evaluate", "--predictions=said.json", "--corpus=own"), {"cwd": tmp_path, "PYTHONPATH": str(ROOT)}
    done = door(*call, "--vectors=v.txt", "--skills=skills.tsv", "--scores=each.jsonl", "--json", **here)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert (scores["queries"], scores["missing"], scores["split"]) == (2, 1, "test")
    assert [scores[name] for name in ("exact_match", "f1", "embedding")] == pytest.approx([0.5, 0.5, 0.5])
    assert scores["slices"]["tag"]["seen"]["queries"] == 2
    assert scores["slices"]["skill"]["bridging"]["f1"] == 1
    each = [json.loads(line) for line in (tmp_path / "each.jsonl").read_text().splitlines()]
    assert [(row["uid"], row["f1"]) for row in each] == [("test.0", 1.0), ("test.1", 0.0)]
    done = door(*call, **here)
    assert done.stdout.startswith("said.json on own, test: 2 queries, 1 without an answer\n")
    for more, code in (
        ("--run=run", "E-CLZ-071"),
        ("--partition=p", "E-CLZ-071"),
        ("--split=dev", "E-CLZ-056"),
        ("--split=valid", "E-CLZ-059"),
    ):
        done = door(*call, more, **here)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1].startswith(code)
    done = door("evaluate", "--predictions=said.json", **here)
    assert done.stderr.startswith("--corpus is missing.")


CONFIG = f"--config={ROOT / 'configs' / 'esim_kd.py'}"
BAD = {
    "typo in a flag": (("train", "--workdr=x"), "workdir"),
    "no config": (("train",), "--config is missing"),
    "no such config": (("train", "--config=configs/esimm.py"), "no such config file"),
    "unknown variant": (("train", f"{CONFIG}:mednly"), "Did you mean 'mednli'"),
    "typo in a field": (("train", CONFIG, "--config.train.epoch=3"), "epochs"),
    "wrong type": (("train", CONFIG, "--config.train.epochs=many"), "train.epochs"),
    "limit of 0": (("train", CONFIG, "--config.data.limit=0"), "data.limit is 0"),
    "seeds twice": (("train", CONFIG, "--config.seeds=1,1"), "distinct"),
    "seeds of another type": (("train", CONFIG, "--config.seeds=a"), "config.seeds"),
    "no epochs": (("train", CONFIG, "--config.train.epochs=0"), "train.epochs is 0"),
    "unknown knowledge": (("train", CONFIG, "--config.model.knowledge=bais"), "unknown value 'bais'"),
    "unknown ontology": (("train", CONFIG, "--config.knowledge.ontology=mehs"), "Did you mean 'mesh'"),
    "no data folder": (("train", f"{CONFIG}:mednli"), "MEDNLI_JAX_DATA"),
    "empty data folder": (("train", f"{CONFIG}:mednli", "--config.data.dir=."), "mli_train_v1.jsonl"),
    "no config file": (("train", f"--config={ROOT / 'README.md'}"), "no get_config"),
    "unknown direction": (("train", CONFIG, "--config.knowledge.direction=up"), "unknown value 'up'"),
    "too many links": (("train", CONFIG, "--config.knowledge.max_links=40000"), "knowledge.max_links is 40000"),
    "negative rate": (("train", CONFIG, "--config.train.learning_rate=-1"), "train.learning_rate"),
    "no vectors": (("train", CONFIG, "--config.vectors.path=none.txt"), "none.txt"),
    "extra argument": (("train", CONFIG, "more"), "unexpected argument 'more'"),
    "no run": (("evaluate", "--run=nowhere"), "not a run directory"),
    "run missing": (("predict",), "--run is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case, tmp_path):
    arguments, expected = BAD[case]
    done = door(*arguments, cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 2, done.stderr
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) <= 3  # empty data folder: one line for each missing file
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("stdin", "expected"),
    [
        (b"only one sentence\n", "stdin:1"),
        (b"a\tb\n\xff\xfe\tx\n", "stdin:2"),
        (b'{"premise": "a"}\n', "stdin:1"),
        (b'{"premise": 3, "hypothesis": "b"}\n', "stdin:1"),
        (b"a\tb\tc\n", "stdin:1"),
    ],
)
def test_bad_pairs_are_named_by_line(stdin, expected):
    import io

    from mednli_jax.errors import UserError
    from mednli_jax.predict import read_pairs

    with pytest.raises(UserError, match=expected):
        read_pairs(io.BytesIO(stdin))
    assert read_pairs(io.BytesIO(b'a\tb\r\n\n{"premise": "c", "hypothesis": "d"}\n')) == [("a", "b"), ("c", "d")]


@pytest.mark.slow
def test_published_masking_predicts_the_same_in_any_company(home, monkeypatch):
    """It sees the padding: a pair is padded as in training, however many pairs come with it and however long."""
    from mednli_jax import evaluate

    done = train(home, "--workdir=published", "--config.model.masking=paper", config="esim.py:mednli")
    assert done.returncode == 0, done.stderr
    for name in ("MEDNLI_JAX_DATA", "MEDNLI_JAX_CACHE"):
        monkeypatch.setenv(name, places(home)[name])
    run = evaluate.load_run(home / "published")
    pair, longest = ("asthma .", "patient has gout"), ("gout in w1 w2", "patient lacks " + "asthma " * 1)
    alone = run.predict([pair])[0]
    for company in ([longest], [longest] * 300, [longest] * 2100):
        assert run.predict([pair, *company])[0] == pytest.approx(alone, abs=1e-6)


# ---- features, retrofitted vectors ----


def test_features_run_through_the_door_and_keep_nothing_to_score_with(told):
    config = f"--config={ROOT / 'configs' / 'features.py'}:mednli"
    model = ("--config.model.trees=4", "--config.model.depth=2", "--config.seeds=0,1")
    vectors = ("--config.vectors.path=", "--config.vectors.dim=8")
    code, text = told("train", config, *model, *vectors, "--workdir=trees")
    assert code == 0, text
    result = json.loads(Path("trees/result.json").read_text())
    assert (result["status"], result["model"], result["seeds"]) == ("complete", "features", [0, 1])
    assert (result["dev"]["examples"], result["test"]["examples"]) == (18, 17)
    assert result["test"]["accuracy"]["mean"] > 0.5  # the verb decides the label
    importance = result["importance"]
    assert len(importance["features"]) == 35
    assert sum(row["mean"] for row in importance["features"]) == pytest.approx(1)
    assert sum(importance["groups"].values()) == pytest.approx(1)
    assert json.loads(Path("trees/data.json").read_text())["splits"]["train"]["rows"] == 48
    rows = [json.loads(line) for line in Path("trees/private/predictions.test.jsonl").read_text().splitlines()]
    right = [[row["label"] == said for said in row["predicted"]] for row in rows]
    assert np.mean(right, axis=0).tolist() == pytest.approx(result["test"]["accuracy"]["per_seed"])
    assert np.sum([row["probabilities"] for row in rows], axis=-1) == pytest.approx(1, abs=1e-5)
    Path("trees/report.html").unlink()
    assert told("report", "trees")[0] == 0
    assert "features on mednli" in Path("trees/report.html").read_text()
    code, text = told("report", "copy", "trees", "--compare")
    assert code == 0, text
    source = ("train", "--config.transfer.init_from=trees", "--workdir=other")
    for call in (("evaluate", "--run=trees"), ("predict", "--run=trees"), source):
        code, text = told(*call)
        assert code == 2
        assert text.splitlines()[-1].startswith("trees: a run of features keeps no trees. Fix: its scores")
    assert not Path("other").exists()


@pytest.mark.parametrize("setting", ["transfer.freeze=logits", "transfer.init_from=copy", "data.mix=snli"])
def test_features_have_no_weights_to_transfer(told, setting):
    code, text = told("train", f"--config={ROOT / 'configs' / 'features.py'}:mednli", f"--config.{setting}")
    assert code == 2
    assert text.startswith(f"config.{setting.partition('=')[0]}: features have no weights to transfer. Fix: ")


@pytest.fixture
def vectors_of(home, tmp_path):
    """vectors_of(**fields) -> (prepared corpus, {word: vector}) for fields of config.vectors."""
    from mednli_jax import defaults, experiment
    from mednli_jax.text import Vocab

    def call(permute=None, **fields):
        config = defaults.nli("infersent", "mednli")
        config.data.dir = str(home / "data")
        config.vectors.update(path="", dim=8, **fields)
        config.knowledge.update(ontology=str(tmp_path / "own.tsv"), permute_seed=permute)
        prepared, _ = experiment.nli_corpus(config).prepare()
        words = Vocab.load(prepared.folder / "vocabulary.json").words
        return prepared, dict(zip(words, np.array(prepared.vectors), strict=True))

    return call


RELATED = ("asthma", "gout", "stroke")


def write_relations(folder):
    """A lexicon and an ontology that say the same: asthma and gout are related, and gout and stroke."""
    from mednli_jax.knowledge.readers import mesh

    (folder / "lex.txt").write_text("asthma gout\ngout asthma stroke\nstroke gout\nsepsis typhus\n")
    rows = "D1\tasthma\tC01\t\nD2\tgout\tC01.100\t\nD3\tstroke\tC01.100.100\t\nD4\tsepsis\tC02\t\n"
    (folder / "own.tsv").write_text("\t".join(mesh.HEADER) + "\n" + rows)


def test_retrofitting_moves_related_words_alone(vectors_of, tmp_path):
    write_relations(tmp_path)
    plain, before = vectors_of()
    drawn = {word: vector / max(np.linalg.norm(vector), 1e-6) for word, vector in before.items()}
    for name in (str(tmp_path / "lex.txt"), "ontology"):
        prepared, after = vectors_of(retrofit=name)
        assert list(after) == list(before)
        moved = {word for word in after if not np.allclose(after[word], drawn[word], atol=1e-4)}
        assert moved == set(RELATED)
        for one, other in (("asthma", "gout"), ("gout", "stroke")):
            assert np.linalg.norm(after[one] - after[other]) < 0.7 * np.linalg.norm(drawn[one] - drawn[other])
        np.testing.assert_array_equal(after["<pad>"], 0)
        assert prepared.folder != plain.folder
        assert prepared.manifest["vocabulary"]["retrofitted"] == 3
        assert "link_distance" not in prepared.arrays  # the model takes no knowledge, its vectors do


def test_the_prepared_folder_follows_what_retrofits(vectors_of, tmp_path):
    write_relations(tmp_path)
    lexicon = str(tmp_path / "lex.txt")
    wishes = [{"retrofit": lexicon}, {"retrofit": lexicon, "retrofit_rounds": 3}, {"retrofit": "ontology"}]
    folders = [vectors_of(**wish)[0].folder for wish in wishes]
    folders.append(vectors_of(retrofit="ontology", permute=1)[0].folder)
    (tmp_path / "lex.txt").write_text("asthma stroke\n")
    folders.append(vectors_of(retrofit=lexicon)[0].folder)
    assert len(set(folders)) == 5
    assert vectors_of(permute=1)[0].folder == vectors_of()[0].folder  # where nothing takes knowledge


def test_a_missing_lexicon_is_one_line_and_leaves_no_run(told):
    code, text = told("train", "--workdir=moved", "--config.vectors.retrofit=lexx.txt")
    assert (code, text.count("\n")) == (2, 1)
    assert text.startswith("lexx.txt: there is no such file. Fix: check --config.vectors.retrofit")
    assert not Path("moved").exists()
