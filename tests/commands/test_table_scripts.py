"""The table scripts would train runs with the names that the tables expect, for MedNLI with six seeds."""

import os
import subprocess

import numpy as np
import pytest
from made_up_commands import PHRASES, ROOT, SECRET, environment_of, write_articles

from mednli_jax.analysis import tables
from mednli_jax.analysis.cloze import table4

GENRES = ("fiction", "government", "slate", "telephone", "travel")
VECTORS = (
    "glove.840B.300d.txt", "wiki.en.vec", "crawl-300d-2M.vec.gz", "fasttext-bioasq.bin", "fasttext-mimic.npy",
    "glove-bioasq.bin", "glove-bioasq-mimic.txt", "wiki-mimic.txt.gz",
)  # fmt: skip


@pytest.fixture
def data(tmp_path):
    """A data folder of empty files, because the scripts only check names."""
    names = ["snli/snli_1.0_train.jsonl", "multinli/multinli_1.0_train.jsonl.gz", *(f"vectors/{n}" for n in VECTORS)]
    for name in names:
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).touch()
    return tmp_path / "data"


def script(name, *arguments, data="", check=True, **variables):
    """Runs a script of launch/ without training: ({name of a run: its flags}, finished process)."""
    environment = {**os.environ, "MEDNLI_JAX_DATA": str(data), "DRY_RUN": "1", **variables}
    command = ["bash", f"launch/{name}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=check)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {row[0].rpartition("/")[2]: row[2].split() for row in rows}, done


def published(number):
    cells = [cell for cell in tables.TABLES[number].cells if cell.paper is not None]
    return {name for cell in cells for name in (cell.run, cell.baseline) if name}


@pytest.mark.parametrize("number", [3, 4, 5, 6, 7])
def test_every_published_cell_is_trained_under_its_name_with_six_seeds(number, data, tmp_path):
    file = tables.TABLES[number].script
    found, done = script(file, tmp_path / "runs", "mednli", data=data)
    assert published(number) <= set(found)
    assert "missing" not in done.stderr
    assert not (tmp_path / "runs").exists()
    for name in published(number):
        assert "--config.seeds=0,1,2,3,4,5" in found[name], name
        corpora = [flag for flag in found[name] if flag.startswith("--config=")]
        assert [flag.partition(":")[2] for flag in corpora] == ["mednli"], name


def test_flags_reach_every_step_and_come_last(data, tmp_path):
    for number in (3, 4, 5, 6):
        between = {4: [""], 5: ["--"]}.get(number, [])
        flags = ["--config.seeds=0", "--config.data.limit=60"]
        found, _ = script(tables.TABLES[number].script, tmp_path, "mednli", *between, *flags, data=data)
        for name, given in found.items():
            seeds = [flag for flag in given if flag.startswith("--config.seeds=")]
            assert seeds == ["--config.seeds=0"], name  # repeated flags would add up
            assert "--config.data.limit=60" in given, name


def test_sources_are_genres_or_variants_and_those_that_are_found(data, tmp_path):
    found, _ = script("mednli_table4.sh", tmp_path, "mednli", "multinli/slate travel", data=data)
    assert {name.partition("-")[0] for name in found} == {"baseline", "source", "slate", "travel"}
    assert "--config=configs/bow.py:multinli/slate" in found["source-slate-bow"]
    assert "--config.data.mix=multinli/travel" in found["travel-mixed-esim"]
    found, _ = script("mednli_table4.sh", tmp_path, "mednli_code", "snli slate", data=data)
    assert "--config=configs/bow.py:multinli_code/slate" in found["source-slate-bow"]
    assert "--config=configs/esim.py:snli_code" in found["source-snli-esim"]
    assert "--config=configs/esim.py:mednli_code" in found["snli-direct-esim"]
    (data / "multinli" / "multinli_1.0_train.jsonl.gz").unlink()
    found, done = script("mednli_table4.sh", tmp_path, "mednli", data=data)
    assert {name.partition("-")[0] for name in found} == {"baseline", "source", "snli"}
    assert "multinli" in done.stderr


def test_vectors_that_are_not_there_are_named(data, tmp_path):
    (data / "vectors" / "fasttext-mimic.npy").unlink()
    found, done = script("mednli_table5.sh", tmp_path, "mednli", data=data)
    assert "fasttext-mimic-bow" not in found
    assert "fasttext-mimic" in done.stderr
    found, done = script("mednli_table6_7.sh", tmp_path, "mednli", data=data)
    assert not [name for name in found if name.startswith("mimic")]
    assert "MIMIC" in done.stderr
    found, _ = script("mednli_table6_7.sh", tmp_path, "mednli", data=data, MIMIC="own.bin", KNOWLEDGE="none replace")
    assert "--config.vectors.path=own.bin" in found["mimic-replace-esim"]
    assert "bias-esim" not in found


def test_a_random_row_is_random_on_every_corpus(data, tmp_path):
    found, _ = script("mednli_table5.sh", tmp_path, "mednli", "random=", "glove=a.txt", data=data)
    assert found["random-bow"][-1] == "--config.vectors.path="


def test_what_a_script_was_given_is_remembered_for_the_report(tmp_path):
    call = 'folder=$1; . launch/runs.sh; MODES="a b"; remember "my corpus" "snli slate" "MODES UNSET" "--x=1 2" --y=3'
    environment = {name: value for name, value in os.environ.items() if name != "DRY_RUN"}
    subprocess.run(["bash", "-euc", call, "-", str(tmp_path / "new")], cwd=ROOT, env=environment, check=True)
    assert tables._given(tmp_path / "new", "demo") == {
        "corpus": r"my\ corpus", "sources": "snli slate", "variables": r"MODES=a\ b", "flags": r"--x=1\ 2 --y=3",
    }  # fmt: skip
    assert not (tmp_path / "new").stat().st_mode & 0o077


def test_the_readers_of_clicr_start_from_the_vectors_that_are_there_or_from_random_ones(data, tmp_path):
    def flags(**variables):
        found, done = script("clicr_table4.sh", tmp_path, "clicr", "--config.seeds=0", data=data, **variables)
        assert set(found) == set(table4.RUNS.values())
        given = {tuple(flag for flag in row if "vectors" in flag) for row in found.values()}
        (of_all,) = given
        return of_all, done.stderr

    both = "--config.vectors.path={0} --config.data.answer_vectors={0}"
    of_all, said = flags()
    assert of_all == tuple(both.format("").split())
    assert "random" in said
    of_all, said = flags(VECTORS="own.vec")
    assert of_all == tuple(both.format("own.vec").split())
    assert "random" not in said
    (data / "vectors" / "clicr.vec").touch()
    assert flags()[0] == tuple(both.format(data / "vectors" / "clicr.vec").split())


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [False, True])
def test_the_table_of_clicr_is_filled_from_made_up_files(tmp_path, vectors):
    write_articles(tmp_path / "data" / "clicr")
    environment = {**os.environ, **environment_of(tmp_path)}
    if vectors:
        words = sorted({word for phrase in PHRASES for word in phrase.split()} | {"case", "had", "and", "shows"})
        rows = np.random.default_rng(0).normal(size=(len(words), 8)).round(3)
        lines = (f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, rows, strict=True))
        (tmp_path / "v.vec").write_text("".join(lines))
        environment["VECTORS"] = str(tmp_path / "v.vec")
    small = ("--config.vectors.dim=8", "--config.model.hidden_size=3", "--config.train.epochs=1", "--config.seeds=0")
    command = ["bash", "launch/clicr_table4.sh", str(tmp_path / "runs"), "clicr", *small]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    found = {row["system"]: row for row in table4.filled(tmp_path / "runs")["rows"]}
    lacking = {system for system, row in found.items() if row["state"] == "missing"}
    assert lacking == (set() if vectors else {"sim-entity"})
    metrics = {"exact_match", "f1", "bleu2", "bleu4", *(("embedding",) if vectors else ())}
    assert all(set(row["ours"]) == metrics for row in found.values() if row["state"] == "complete")


@pytest.mark.parametrize("name", ["clicr_table4.sh", "clicr_baselines.sh"])
def test_help_prints_the_usage_and_does_nothing(tmp_path, name):
    command = ["bash", str(ROOT / "launch" / name), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"bash launch/{name} [FOLDER] [CORPUS]" in done.stdout
    assert "#" not in done.stdout
    assert not list(tmp_path.iterdir())


def test_every_table_script_is_sound_bash():
    for path in sorted((ROOT / "launch").glob("*.sh")):
        assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0, path.name


# Replaces python in a script: records its arguments and makes the files that the commands would make.
PYTHON = """#!/usr/bin/env bash
case $1 in -c) echo none; exit ;; -) cat >/dev/null; exit ;; esac
echo "$*" >>"$CALLS"
[[ $* != *"${FAILS:-nothing fails}"* ]] || exit 1
for flag in "$@"; do
  case $flag in
  --json=* | --junitxml=*) echo >"${flag#*=}" ;;
  --workdir=*) mkdir -p "${flag#*=}/private" && echo >"${flag#*=}/private/predictions.test.jsonl" ;;
  esac
done
"""


def test_a_day_with_an_accelerator_goes_on_where_it_ended(tmp_path):
    calls, folder = tmp_path / "calls", tmp_path / "day"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(PYTHON)
    (tmp_path / "bin" / "python").chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def day(**variables):
        calls.write_text("")
        environment = {**os.environ, "PATH": path, "CALLS": str(calls), **variables}
        command = ["bash", "launch/accelerator_day.sh", str(folder)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
        return done.returncode, calls.read_text().splitlines()

    code, called = day(FAILS="--models=esim")
    assert code == 1
    assert "pytest" in called[0]  # tests come first, because they tell whether the figures mean anything
    assert any("--models=bow" in call for call in called[3:])  # calls after a failure still run
    kept = {file.name for file in folder.iterdir() if file.is_file()}
    assert {"tests.xml", "infersent-64.jsonl", "bow-512.jsonl", "determinism.txt"} <= kept
    assert (folder / "determinism.txt").read_text() == "same\n"
    code, called = day()
    assert code == 0
    assert len(called) == 2  # one call for each batch size
    assert all("--models=esim" in call for call in called)
    assert day() == (0, [])
    assert not folder.stat().st_mode & 0o077


SCRIPTS = sorted(path.name for path in (ROOT / "launch").glob("*.sh") if path.name not in ("runs.sh", "usage.sh"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_answers_help_and_refuses_an_unknown_flag(name, tmp_path):
    for flag in ("--help", "-h"):
        done = subprocess.run(["bash", ROOT / "launch" / name, flag], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0
        assert f"launch/{name}" in done.stdout
        assert not any(line.startswith("#") for line in done.stdout.splitlines())
    done = subprocess.run(["bash", ROOT / "launch" / name, "--frob"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
