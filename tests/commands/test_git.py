"""`git add -A` takes nothing of what the commands write, wherever in a clone it stands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from compiler import FAST

from mednli_jax.corpora.demo.diskne import load_demo_diskne
from mednli_jax.corpora.diskne.folds import folds
from mednli_jax.corpora.diskne.store import write_benchmark
from mednli_jax.examples import LABELS
from mednli_jax.files import private_folder

ROOT = Path(__file__).parents[2]
PAIRS = "the patient coughs\tthe patient is ill\n"


def own_corpus(folder):
    folder.mkdir()
    for split, size in (("train", 48), ("dev", 9), ("test", 9)):
        rows = [
            {"premise": f"{split} {row // 3} has asthma and coughs", "hypothesis": f"asthma is {label}", "label": label}
            for row in range(size)
            for label in [LABELS[row % 3]]
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def config(name, *more):
    return (f"--config={ROOT / 'configs' / name}.py:file", "--config.data.dir=../own", "--config.vectors.path=",
            "--config.vectors.dim=4", *more)  # fmt: skip


SMALL = ("--config.model.hidden_size=4", "--config.train.epochs=1", "--config.train.batch_size=24",
         "--config.train.max_buckets=1")  # fmt: skip
VECTORS = ("--config.vectors.path=../v.txt", "--config.vectors.dim=4")
ESIM = config("esim", *SMALL, *VECTORS)
TREES = config("features", "--config.model.knowledge=none", "--config.model.trees=2")
FOLDS = (f"--config={ROOT / 'configs/diskne_esim.py'}:file", "--config.data.dir=../diseases", "--config.vectors.path=",
         "--config.vectors.dim=4", "--config.model.name=bow", "--config.diskne.diseases=D004931", *SMALL)  # fmt: skip
AFLITE = ("--m=20", "--n=4", "--k=5", "--min_count=1")
# Commands in the order in which they run, each with what it is to leave: files that would be committed without ado.
COMMANDS = {
    "prepare": (("-m", "mednli_jax.prepare", *config("esim_kd")), "cache/prepared/*/vocabulary.json"),
    "train": (("-m", "mednli_jax.train", *ESIM, "--workdir=results/esim"), "results/esim/private/vocabulary.json"),
    "trees": (("-m", "mednli_jax.train", *TREES, "--workdir=trees"), "trees/private/predictions.test.jsonl"),
    "folds": (("-m", "mednli_jax.train", *FOLDS, "--workdir=folds"), "folds/private/folds.jsonl"),
    "evaluate": (
        ("-m", "mednli_jax.evaluate", "--run=results/esim", *ESIM[:2], "--workdir=elsewhere"),
        "elsewhere/private/predictions.test.jsonl",
    ),
    "predict": (
        ("-m", "mednli_jax.predict", "--run=results/esim", "--attention"),
        "results/esim/private/*/pair-1.json",
    ),
    "report": (("-m", "mednli_jax.report", "results/esim", "--out=pages/page.html"), "pages/page.html"),
    "analyze": (
        ("-m", "mednli_jax.analyze", "all", *config("esim_kd", *VECTORS), *AFLITE, "--out=figures"),
        "figures/private/lexical.txt",
    ),
    "build_diskne": ((f"{ROOT}/launch/build_diskne.py", "--out=built", "--fold=all"), "built/folds/*/train.jsonl"),
    "pretrain_vectors": (
        (f"{ROOT}/launch/pretrain_vectors.py", "--corpora=../text", "--dim=4", "--min_count=1", "--out=vectors/v.bin"),
        "vectors/v.bin",
    ),
    "cloze_baselines": ((f"{ROOT}/launch/cloze_baselines.py", "--out=bounds"), "bounds/private/*.jsonl"),
}


def staged(clone):
    """What `git add -A` would take, of all files that are there."""
    done = subprocess.run(["git", "add", "-A", "-n"], cwd=clone, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A fresh clone, and the inputs beside it."""
    place = tmp_path_factory.mktemp("git")
    own_corpus(place / "own")
    benchmark = load_demo_diskne()
    write_benchmark(benchmark, folds(benchmark), place / "diseases")
    words = sorted({word for path in (place / "own").iterdir() for word in path.read_text().replace('"', " ").split()})
    (place / "v.txt").write_text("".join(f"{word} 0.1 0.2 -0.3 {number}\n" for number, word in enumerate(words)))
    (place / "text").write_text("the patient coughs and the patient has asthma .\n" * 200)
    subprocess.run(["git", "init", "-q", str(place / "clone")], check=True)
    return place / "clone"


@pytest.mark.parametrize("name", COMMANDS)
def test_git_takes_nothing_of_a_commands_folder(clone, name):
    command, left = COMMANDS[name]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MEDNLI_JAX_CACHE": str(clone / "cache"), "XLA_FLAGS": FAST}
    done = subprocess.run(
        [sys.executable, *command], cwd=clone, env=env, input=PAIRS, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert list(clone.glob(left)), sorted(clone.rglob("*"))
    assert staged(clone) == []


def test_a_folder_of_the_users_own_is_seen_as_before_but_for_its_private_part(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "thesis.tex").write_text("x")
    private_folder(tmp_path / "figures")
    (private_folder(tmp_path / "figures" / "private") / "lexical.txt").write_text("x")
    assert staged(tmp_path) == ["add 'figures/thesis.tex'"]


def test_a_folder_of_ours_is_left_out_though_it_has_files(tmp_path):
    """As a run or a cache of an earlier version; a .gitignore that is there already stays as it is."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    private_folder(tmp_path / "run", ours=True)
    assert staged(tmp_path) == []
    (tmp_path / "run" / ".gitignore").write_text("private/\n")
    private_folder(tmp_path / "run", ours=True)
    assert (tmp_path / "run" / ".gitignore").read_text() == "private/\n"


def test_every_folder_is_made_by_the_one_function_or_lies_in_one_that_was():
    """A folder that a command makes elsewhere would be open to git."""
    found = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [*(ROOT / "mednli_jax").rglob("*.py"), *(ROOT / "launch").glob("*.py")]
        if path.name != "same_results.py"  # compares two commits in a temporary folder
        for line in path.read_text().splitlines()
        if "mkdir(" in line or "makedirs(" in line
    }
    assert found == {
        "mednli_jax/files.py: folder.mkdir(mode=0o700, parents=True, exist_ok=True)",  # the function
        "mednli_jax/files.py: temporary.mkdir(mode=0o700)",  # beside what it will be
        "mednli_jax/corpora/nli/tfds.py: temporary.mkdir(mode=0o700)",
        "mednli_jax/runs.py: run.private.mkdir(mode=0o700, exist_ok=True)",  # within a run
        "mednli_jax/runs.py: folder.mkdir(mode=0o700, exist_ok=True)",
        "mednli_jax/fitting/folds.py: self.directory.checkpoints.mkdir(mode=0o700, exist_ok=True)",
        "mednli_jax/training/checkpoint.py: self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)",
        'launch/diskne_speed.py: (place / "prepared").mkdir(parents=True)',  # in a temporary folder
    }
