"""The scripts of the papers: what they would train, and with tiny sizes the whole way to the filled
tables."""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from multiprocessing.connection import Client, Listener
from threading import Thread

import numpy as np
import pytest
from canaries import found_in, write_pairs
from made_up_commands import (
    PHRASES,
    ROOT,
    SECRET,
    at,
    call_command,
    call_script,
    environment_of,
    write_articles,
)
from made_up_mednli import DIM, write_everything
from made_up_runs import check_offline

from mednli_jax.cli import read_config
from mednli_jax.cloze import tables as cloze_tables
from mednli_jax.report import tables
from mednli_jax.run import load_run

VECTORS = (
    "glove.840B.300d.txt", "wiki.en.vec", "crawl-300d-2M.vec.gz", "fasttext-bioasq.bin", "fasttext-mimic.vec",
    "glove-bioasq.bin", "glove-bioasq-mimic.txt", "wiki-mimic.txt.gz",
)  # fmt: skip
TINY = (
    "--config.train.epochs=1",
    "--config.train.max_buckets=1",
    "--config.seeds=0",
    f"--config.vectors.dim={DIM}",
)


@pytest.fixture
def data(tmp_path):
    """A data folder of empty files, because a dry run only checks names."""
    names = [
        "snli/snli_1.0_train.jsonl",
        "multinli/multinli_1.0_train.jsonl.gz",
        "wordnet/data.noun",
    ]
    for name in (*names, *(f"vectors/{n}" for n in VECTORS)):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).touch()
    return tmp_path / "data"


def planned(name, *arguments, data="", **variables):
    """({name of a run that the script would train: its flags}, what it says on stderr)."""
    done = call_script(name, *arguments, MEDNLI_JAX_DATA=str(data), DRY_RUN="1", **variables)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {row[0].rpartition("/")[2]: row[2].split() for row in rows}, done.stderr


def test_every_published_cell_of_mednli_is_trained_with_six_seeds(data, tmp_path):
    found, said = planned("mednli.sh", tmp_path / "runs", "mednli", data=data)
    assert (said, (tmp_path / "runs").exists(), len(found)) == ("", False, 114)
    published = [
        cell for table in tables.TABLES.values() for cell in table.cells if cell.paper is not None
    ]
    names = {name for cell in published for name in (cell.run, cell.baseline) if name}
    assert names <= set(found)
    for name in names:
        assert "--config.seeds=0,1,2,3,4,5" in found[name], name
        corpora = [flag.partition(":")[2] for flag in found[name] if flag.startswith("--config=")]
        assert corpora == ["mednli"], name
    flags = ("--config.seeds=0", "--config.data.limit=60")
    found, _ = planned(
        "mednli.sh",
        tmp_path,
        "mednli",
        *flags,
        data=data,
        NEURAL_FLAGS="--config.model.hidden_size=8",
    )
    for name, given in found.items():
        seeds = [flag for flag in given if flag.startswith("--config.seeds=")]
        assert seeds == ["--config.seeds=0"], name  # repeated flags would add up
        assert "--config.data.limit=60" in given, name
        assert ("--config.model.hidden_size=8" in given) == (name not in ("features", "hypothesis"))


def test_sources_and_vectors_are_those_that_are_given_or_found(data, tmp_path):
    chosen = {"SOURCES": "multinli/slate travel", "MODES": "sequential mixed"}
    found, _ = planned("mednli.sh", tmp_path, "mednli", "4", data=data, **chosen)
    assert {name.split("-")[0] for name in found if "-" in name} == {"source", "slate", "travel"}
    slate = {"--config=configs/bow.py:multinli/slate", "--config.train.batch_size=512"}
    assert slate <= set(found["source-slate-bow"])
    assert "--config.data.mix=multinli/travel" in found["travel-mixed-esim"]
    found, _ = planned(
        "mednli.sh", tmp_path, "mednli", "7", data=data, MIMIC="own.bin", KNOWLEDGE="replace bias"
    )
    for name in ("vectors-fasttext-mimic-bow", "mimic-replace-esim", "mimic-bias-esim"):
        assert "--config.vectors.path=own.bin" in found[name]
    (data / "multinli" / "multinli_1.0_train.jsonl.gz").unlink()
    (data / "vectors" / "fasttext-mimic.vec").unlink()
    found, said = planned("mednli.sh", tmp_path, "mednli", "4", "5", "7", data=data)
    assert all(name in said for name in ("multinli", "fasttext-mimic", "MIMIC"))
    assert not [name for name in found if name.startswith(("slate", "vectors-fasttext-mimic"))]


def test_retrofitting_is_checked_on_fiction_by_wordnet_or_by_a_lexicon(data, tmp_path):
    """Section 5.4.1. The run differs from that of the source in its vectors alone."""
    for given, expected in ((), "ontology"), (("LEXICON",), "own.txt"):
        found, _ = planned(
            "mednli.sh", tmp_path, "mednli", "6", data=data, **dict.fromkeys(given, "own.txt")
        )
        more = set(found["fiction-retrofit-infersent"]) - set(found["source-fiction-infersent"])
        assert more == {
            f"--config.vectors.retrofit={expected}",
            "--config.knowledge.ontology=wordnet",
        }
    assert (
        "fiction-retrofit-infersent"
        not in planned("mednli.sh", tmp_path, "demo", "6", data=data)[0]
    )


def test_a_dry_run_estimates_the_hours_from_finished_runs(data, tmp_path):
    """The finished run trained on 1,000 pairs a second, counted over both seeds, for five
    epochs."""
    folder = tmp_path / "runs" / "esim"
    folder.mkdir(parents=True)
    result = {"status": "complete", "model": "esim", "seeds": [0, 1], "epochs": 5, "seconds": 9.0}
    result["train_examples_per_second"] = 1000.0
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "data.json").write_text(json.dumps({"splits": {"train": {"rows": 600}}}))
    done = call_script("mednli.sh", "--dry-run", folder.parent, "mednli", MEDNLI_JAX_DATA=str(data))
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n114 runs, 1 done; about " in done.stdout
    rows = {
        line.split()[-1].rpartition("/")[2]: line.split()
        for line in done.stdout.splitlines()
        if "/" in line
    }
    assert rows["esim"][0] == "done"
    assert float(rows["source-snli-esim"][2]) == pytest.approx(
        549_367 * 5 * 6 / 1000 / 3600, abs=0.06
    )


def test_the_readers_of_clicr_start_from_the_vectors_that_are_there_or_from_random_ones(
    data, tmp_path
):
    def flags(**variables):
        found, said = planned(
            "clicr.sh", tmp_path, "clicr", "--config.seeds=0", data=data, **variables
        )
        assert set(found) == set(cloze_tables.RUNS.values())
        assert not any(
            "--config.seeds=0,1,2" in row for row in found.values()
        )  # given twice, seeds add up
        (of_all,) = {tuple(flag for flag in row if "vectors" in flag) for row in found.values()}
        return of_all, "random" in said

    def both(path, random=False):
        return (f"--config.vectors.path={path}", f"--config.data.answer_vectors={path}"), random

    assert flags() == both("", random=True)
    assert flags(VECTORS="own.vec") == both("own.vec")
    (data / "vectors" / "clicr.vec").touch()
    assert flags() == both(data / "vectors" / "clicr.vec")
    found, _ = planned("clicr.sh", tmp_path, "clicr", data=data)
    assert all("--config.seeds=0,1,2" in row for row in found.values())


def test_the_systems_of_diskne(tmp_path):
    found, _ = planned("diskne.sh", tmp_path, "demo")
    assert set(found) == {"BOW", "ESIM", "ESIM-KD", "ESIM-hypothesis"}
    more, rate = {"SYSTEMS": "ESIM", "WEIGHTS": "one=a two=b"}, "--config.train.learning_rate=1e-4"
    for table, wordings in (
        ("8", ()),
        ("7", ("full", "name", "hypothesis-full", "hypothesis-name")),
    ):
        found, _ = planned(
            "diskne.sh",
            tmp_path,
            "folder",
            "--config.seeds=0",
            rate,
            **more,
            **{f"TABLE{table}": "1"},
        )
        assert set(found) == {"ESIM", "one", "two", *wordings}
        for name, place in (("one", "a"), ("two", "b"), *((wording, "a") for wording in wordings)):
            assert f"--config.model.weights={place}" in found[name]
            assert ("--config.diskne.negatives=random" in found[name]) == (
                table == "8"
            )  # the last run of this name
        for flags in found.values():
            assert {"--config.data.dir=folder", "--config.seeds=0"} <= set(flags)
            assert [flag for flag in flags if "learning_rate" in flag][
                -1
            ] == rate  # of two, the last one counts


# Replaces python in a script: another process runs the commands of the package.
CLIENT = """#!{python}
import json, os, sys
from multiprocessing.connection import Client
if sys.argv[1] != "-m":
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
connection = Client({address!r})
connection.send_bytes(json.dumps(sys.argv[2:]).encode())
code, out, err = json.loads(connection.recv_bytes())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


def call_script_here(home, *arguments, **variables):
    """Calls a script whose commands run in this process, so that a hundred runs import jax once."""
    (home / "bin").mkdir(exist_ok=True)
    (home / "bin" / "python").write_text(
        CLIENT.format(python=sys.executable, address=str(home / "socket"))
    )
    (home / "bin" / "python").chmod(0o755)
    variables["PATH"], ended = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}", []

    def call():
        ended.append(call_script(*arguments, timeout=1700, **variables))
        Client(str(home / "socket")).close()

    with Listener(str(home / "socket")) as listener, at(home) as patch:
        patch.setenv("MEDNLI_JAX_DATA", str(home / "data"))
        patch.chdir(ROOT)  # as call_script
        Thread(target=call).start()
        while not ended:
            with listener.accept() as connection, contextlib.suppress(EOFError):
                module, *flags = json.loads(connection.recv_bytes())
                module = {"mednli_jax.report": "mednli_jax.report.__main__"}.get(module, module)
                done = call_command(import_module(module), *flags)
                connection.send_bytes(json.dumps(done).encode())
    return ended[0]


@pytest.mark.slow
@pytest.mark.timeout(1800)  # an idle machine of two cores takes a third of this
def test_every_published_cell_of_mednli_is_filled_by_one_command(tmp_path):
    write_everything(tmp_path / "data")
    runs = tmp_path / "runs"
    environment = {**environment_of(tmp_path), "NEURAL_FLAGS": "--config.model.hidden_size=8"}
    environment |= {
        "FEATURES_FLAGS": "--config.model.trees=4",
        "MENTIONS": tmp_path / "data" / "metamap.mmi",
    }
    flags = ("mednli.sh", runs, "mednli", *TINY, "--config.train.batch_size=16")
    done = call_script_here(tmp_path, *flags, **environment)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads((runs / "check.json").read_text())
    assert found["verdicts"]["missing"] == 0
    for number, table in tables.TABLES.items():
        known = {
            (one["run"], one["column"], one["row"]): one for one in found["tables"][str(number)]
        }
        for cell in table.cells:
            if cell.paper is not None:
                one = known[cell.run, cell.column, cell.row]
                assert (one["ours"] is not None, one["verdict"]) == (True, "not judged"), cell
                assert "model.hidden_size 8" in one["remark"] or cell.run in (
                    "features",
                    "hypothesis",
                )
                assert "other " not in one["remark"], cell
    assert all(one["ours"] is not None for one in found["tables"]["2"])
    assert [found[name]["ontology"] for name in ("figure 3", "section 5.4.1")] == [
        "umls",
        "wordnet",
    ]
    (fiction,) = (one for one in found["tables"]["6"] if one["run"].startswith("fiction"))
    assert (fiction["ours"] is not None, fiction["verdict"]) == (True, "-")
    assert "Reproduction check" in check_offline((runs / "check.html").read_text()).words
    for number in (3, 4, 5, 6, 7):
        assert f"\nTable {number}:" in f"\n{done.stdout}"
    for file in ("check.html", "check.json", "check.md"):
        assert found_in((runs / file).read_bytes()) == set(), file
    shutil.rmtree(runs / "slate-direct-bow")
    again = call_script_here(
        tmp_path, *flags, **environment
    )  # only the lost run is made a second time
    assert again.returncode == 0, again.stderr[-4000:]
    assert json.loads((runs / "check.json").read_text())["tables"] == found["tables"]
    skipped = {line for line in again.stderr.splitlines() if line.endswith(": complete")}
    assert (len(skipped), "epoch 1" in again.stderr) == (113, False)


@pytest.mark.slow
def test_the_table_of_clicr_is_filled_from_made_up_files(tmp_path):
    write_articles(tmp_path / "data" / "clicr")
    words = sorted(
        {word for phrase in PHRASES for word in phrase.split()} | {"case", "had", "and", "shows"}
    )
    rows = np.random.default_rng(0).normal(size=(len(words), DIM)).round(3)
    lines = (f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, rows, strict=True))
    (tmp_path / "v.vec").write_text("".join(lines))
    environment = {**environment_of(tmp_path), "VECTORS": str(tmp_path / "v.vec")}
    small = (
        "--config.model.hidden_size=3",
        "--config.train.epochs=1",
        "--config.seeds=0",
        TINY[-1],
    )
    done = call_script("clicr.sh", tmp_path / "runs", "clicr", *small, timeout=1800, **environment)
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    found = cloze_tables.filled(tmp_path / "runs", read_config)["rows"]
    assert not [row["system"] for row in found if row["state"] == "missing"]
    metrics = {"exact_match", "f1", "bleu2", "bleu4", "embedding", "predicted_length"}
    assert all(set(row["ours"]) == metrics for row in found if row["state"] == "complete")


@pytest.mark.slow
def test_the_tables_of_the_artefacts_are_filled_from_made_up_files(tmp_path):
    """MedNLI without the UMLS: concepts are MeSH's. Entities are joined in both filterings."""
    write_pairs(tmp_path / "data" / "mednli")
    small = ("--config.train.epochs=1", "--config.seeds=0")
    environment = {**environment_of(tmp_path), "ANALYZE": "--entities=parts --min_count=1 --public"}
    environment["VECTORS"] = "--config.vectors.dim=8 --config.vectors.path="
    done = call_script_here(
        tmp_path, "artifacts.sh", tmp_path / "runs", "mednli", *small, **environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for number in (1, 2, 6):
        assert f"Table {number}:" in done.stdout
    assert "entities of mesh 2024 merged" in done.stdout
    for given in ("no premise", "with premise"):
        assert re.search(rf"\nFiltering, {given}: .*entities merged by mesh", done.stdout)
    assert "high_risk" in (tmp_path / "runs" / "analysis" / "report.html").read_text()
    assert found_in((done.stdout + done.stderr).encode()) == set()
    again = call_script_here(
        tmp_path, "artifacts.sh", tmp_path / "runs", "mednli", *small, **environment
    )
    assert (again.returncode, "epoch 1" in again.stderr) == (0, False)
    assert done.stdout.endswith(
        again.stdout
    )  # the first time, train names its results before the tables


# Replaces python in a script: records its arguments and makes the files that the commands would
# make.
PYTHON = """#!/usr/bin/env bash
case $1 in -c) echo none; exit ;; -) cat >/dev/null; exit ;; esac
echo "$*" >>"$CALLS"
[[ $* != *"${FAILS:-nothing fails}"* ]] || exit ${CODE:-1}
for flag in "$@"; do
  case $flag in
  --json=* | --junitxml=*) echo >"${flag#*=}" ;;
  --workdir=*)
    mkdir -p "${flag#*=}/private"
    echo >"${flag#*=}/private/predictions.test.jsonl"
    echo '{"status": "complete"}' >"${flag#*=}/result.json"
    ;;
  esac
done
"""


@pytest.fixture
def recorded(tmp_path):
    """Calls a script with a python that records: (name, arguments, variables) -> (exit code, calls
    of python)."""
    calls = tmp_path / "calls"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(PYTHON)
    (tmp_path / "bin" / "python").chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def of(name, *arguments, **variables):
        calls.write_text("")
        settings = {"PATH": path, "CALLS": str(calls), "MEDNLI_JAX_DATA": "", **variables}
        done = call_script(name, *arguments, timeout=120, **settings)
        return done.returncode, calls.read_text().splitlines()

    return of


@pytest.mark.parametrize(("code", "rest"), [(1, True), (3, False)])
def test_a_failed_run_is_made_again_and_an_interruption_ends_the_script(
    recorded, tmp_path, code, rest
):
    arguments = ("mednli.sh", tmp_path / "runs", "demo", "6")
    ended, calls = recorded(*arguments, FAILS="retrofit=concepts", CODE=str(code))
    assert ended == code
    assert any("retrofit=unit" in call for call in calls) == rest
    ended, calls = recorded(*arguments)
    trained = [call for call in calls if "mednli_jax.train" in call]
    assert (ended, all("retrofit=concepts" in call for call in trained)) == (0, rest)
    assert len(trained) == (3 if rest else 9)


def test_a_day_with_an_accelerator_goes_on_where_it_ended(recorded, tmp_path):
    folder = tmp_path / "day"
    code, called = recorded("accelerator_day.sh", folder, FAILS="--models=esim")
    assert (code, "pytest" in called[0]) == (
        1,
        True,
    )  # tests tell whether the figures mean anything
    assert any("--models=bow" in call for call in called[3:])  # calls after a failure still run
    assert {"tests.xml", "infersent-64.jsonl", "bow-512.jsonl"} <= {
        file.name for file in folder.iterdir()
    }
    assert (folder / "determinism.txt").read_text() == "same\n"
    code, called = recorded("accelerator_day.sh", folder)
    assert (code, len(called)) == (0, 2)  # one call for each batch size
    assert all("--models=esim" in call for call in called)
    assert recorded("accelerator_day.sh", folder) == (0, [])
    assert not folder.stat().st_mode & 0o077


SCRIPTS = sorted(
    path.name for path in (ROOT / "launch").glob("*.sh") if path.name not in ("runs.sh", "usage.sh")
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_answers_help_and_refuses_an_unknown_flag(name, tmp_path):
    for flag, code in (("--help", 0), ("-h", 0), ("--frob", 2)):
        done = subprocess.run(
            ["bash", ROOT / "launch" / name, flag], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == code
        shown = done.stderr if code else done.stdout
        assert f"launch/{name}" in shown
        assert not any(line.startswith("#") for line in shown.splitlines())
        assert not code or (shown.startswith("error: "), shown.count("\n")) == (True, 1)
    assert not list(tmp_path.iterdir())


# Programs of a slice that is the folder `host`. The first creation fails. A training makes one
# checkpoint and ends; the first two lose the slice, once their checkpoint is in the bucket. $CODES:
# other exit codes, one for each training.
POD_TRAIN = """#!/bin/bash
printf '%q ' "$@" >>$CLOUD/trained
echo >>$CLOUD/trained
codes=($CODES) begun=$(wc -l <$CLOUD/trained)
if [ -n "$CODES" ]; then
  sleep ${SECONDS_EACH:-0}
  exit ${codes[$((begun - 1))]}
fi
mkdir -p run/checkpoints && count=$(ls run/checkpoints | wc -l) && touch run/checkpoints/$count
[ $count != 2 ] || exit 0
until [ -e $CLOUD/bucket/run/checkpoints/$count ]; do sleep 0.05; done
echo PREEMPTED >$CLOUD/state
"""
PROGRAMS = {
    "git": "",
    "tar": "mkdir -p mednli_jax",
    "python3.13": "exit 1",
    "python3.12": "exit 1",
    "python3.11": "mkdir -p venv/bin && cp $CLOUD/train venv/bin/python && cp $CLOUD/bin/git venv/bin/pip",
    "python3": "exit 1",
    "gcloud": """
echo "$@" >>$CLOUD/calls
case "$*" in
  "storage ls"*)
    if [ -e $CLOUD/unavailable ]; then
      rm $CLOUD/unavailable
      echo "ERROR: (gcloud.storage.ls) HTTPError 503: Service Unavailable" >&2
      exit 1
    fi
    ls $CLOUD/bucket/run 2>/dev/null && exit
    echo "ERROR: (gcloud.storage.ls) One or more URLs matched no objects." >&2
    exit 1 ;;
  "storage rsync"*)
    from=${4/gs:/$CLOUD} to=${5/gs:/$CLOUD}
    [ ! -e $from ] || { mkdir -p $to && cp -r $from/. $to; } ;;
  *" create "*) [ -e $CLOUD/tried ] || { touch $CLOUD/tried && exit 1; }; mkdir host && echo READY >state ;;
  *" delete "*) rm -rf host state ;;
  *" describe "*) cat state ;;
  *" scp --recurse pod7:"*) cp -r "host/${6#pod7:}" "$7" ;;
  *" ssh "*)
    command=${!#} limit=0
    [[ $command != *mednli_jax.train* || ! -e $CLOUD/drops ]] || { rm $CLOUD/drops && limit=1; }
    (cd host && HOME=$PWD timeout $limit bash -c "${command#--command=}")
    code=$?
    grep -q READY state && exit $code || { rm -rf host && exit 1; } ;;
esac""",
}


@pytest.fixture
def cloud(tmp_path):
    """cloud(*arguments of tpu_pod.sh, **variables) -> (exit code, stderr, starts of train,
    subcommands of tpu-vm)."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "train").write_text(POD_TRAIN)
    (tmp_path / "train").chmod(0o755)
    for name, body in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def call(*arguments, **variables):
        for name in ("trained", "calls"):
            (tmp_path / name).write_text("")
        settings = {
            "NAME": "pod7",
            "PAUSE": "0",
            "SAVE": "0.05",
            "TMPDIR": str(tmp_path),
            "CLOUD": str(tmp_path),
        }
        settings |= {
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "CODES": "",
            "TRIES": "9",
            **variables,
        }
        command = ["bash", ROOT / "launch" / "tpu_pod.sh", *arguments]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=60,
        )
        starts = [shlex.split(line) for line in (tmp_path / "trained").read_text().splitlines()]
        calls = (line.split() for line in (tmp_path / "calls").read_text().splitlines())
        return (
            done.returncode,
            done.stderr,
            starts,
            [words[3] for words in calls if "tpu-vm" in words],
        )

    return call


FLAGS = ("--config=configs/bow.py", "--config.seeds=0,1")


@pytest.mark.parametrize(("codes", "code", "trained"), [("", 0, 3), ("2", 2, 1)])
def test_a_pod_survives_preemptions_but_does_not_repeat_bad_input(
    cloud, tmp_path, codes, code, trained
):
    ended, err, starts, verbs = cloud("all", *FLAGS, BUCKET="gs:/bucket", CODES=codes)
    assert ended == code, err
    assert [words[-3:] for words in starts] == [
        ["--resume" if n else "--force", *FLAGS] for n in range(trained)
    ]
    assert (verbs.count("create"), verbs.count("delete"), verbs[-1]) == (
        trained + 1,
        trained + 1,
        "delete",
    )
    if not codes:
        assert sorted(os.listdir(tmp_path / "runs" / "pod7" / "checkpoints")) == ["0", "1", "2"]


@pytest.fixture
def slice_(cloud, tmp_path):
    """A slice that is ready for `train`."""
    (tmp_path / "tried").touch()
    assert cloud("create")[0] == cloud("install")[0] == 0
    return tmp_path / "host"


@pytest.mark.parametrize(
    ("codes", "code", "trained"),
    [("3 0", 0, 2), ("134 0", 0, 2), ("0", 0, 1), ("3 2", 2, 2), ("2", 2, 1)],
)
def test_bad_input_of_an_earlier_training_does_not_end_the_next(
    cloud, slice_, codes, code, trained
):
    assert cloud("train", CODES="2")[0] == 2
    ended, err, starts, _ = cloud("train", *FLAGS, CODES=codes)
    assert (ended, len(starts)) == (code, trained), err


@pytest.mark.parametrize(("codes", "code"), [("0", 0), ("2", 2)])
@pytest.mark.parametrize("seconds", ["1.5", "0.9"])
def test_a_dropped_connection_neither_ends_nor_repeats_a_training(
    cloud, slice_, tmp_path, seconds, codes, code
):
    (tmp_path / "drops").touch()
    ended, err, starts, _ = cloud(
        "train", *FLAGS, CODES=codes, SECONDS_EACH=seconds, TRIES="2", PAUSE="1"
    )
    assert not (tmp_path / "drops").exists()
    assert (ended, len(starts)) == (code, 1), err


def test_the_log_of_a_training_is_shown_and_kept(cloud, slice_, tmp_path):
    (slice_ / "venv" / "bin" / "python").write_text("#!/bin/bash\necho epoch 1\n")
    settings = {**os.environ, "NAME": "pod7", "CLOUD": str(tmp_path)}
    settings["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    command = ["bash", ROOT / "launch" / "tpu_pod.sh", "train"]
    done = subprocess.run(
        command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "epoch 1\n")
    assert (slice_ / "train.log").read_text() == "epoch 1\n"
    assert not (slice_ / "train.log").stat().st_mode & 0o077


@pytest.mark.parametrize(("saved", "start"), [(True, "--resume"), (False, "--force")])
@pytest.mark.parametrize("unavailable", [True, False])
def test_a_failed_listing_of_the_bucket_is_not_an_empty_bucket(
    cloud, tmp_path, saved, start, unavailable
):
    if saved:
        (tmp_path / "bucket" / "run" / "checkpoints").mkdir(parents=True)
    if unavailable:
        (tmp_path / "unavailable").touch()
    ended, err, starts, verbs = cloud("all", *FLAGS, BUCKET="gs:/bucket", CODES="0")
    assert (starts[0][-3], verbs.count("create")) == (start, 2), err
    assert (ended, "503" in err) == (
        0 if saved else 1,
        unavailable,
    )  # without a run there is nothing to fetch


def test_a_pod_gives_train_no_flag_that_it_was_not_given(cloud, slice_):
    _, _, starts, _ = cloud("train", CODES="0")
    assert starts[0][-1] == "--force"
    _, _, starts, _ = cloud("train", "--config.vectors.path=", "--config.x=a b", CODES="0")
    assert starts[0][-2:] == ["--config.vectors.path=", "--config.x=a b"]


@pytest.mark.parametrize(
    "config", ["--config=configs/bow.py:mednli", "--config=bow:multinli/fiction", "--config=bow"]
)
@pytest.mark.parametrize("data", ["", "nothing", "empty", "snli"])
def test_data_that_is_not_there_is_found_before_a_slice_is_made(cloud, tmp_path, config, data):
    (tmp_path / "empty").mkdir()
    (tmp_path / "snli" / "snli").mkdir(parents=True)
    code, err, starts, verbs = cloud("all", config, CODES="2", DATA=data and str(tmp_path / data))
    is_bad = data in ("nothing", "empty") or ":" in config
    assert (code, bool(verbs), bool(starts)) == (2, not is_bad, not is_bad), err
    assert not is_bad or (err.startswith("error: DATA="), err.count("\n"), "Fix: " in err) == (
        True,
        1,
        True,
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_seeds_apart_give_the_run_of_one_process(tmp_path):
    flags = ("--config=configs/bow.py:demo", "--config.train.epochs=1", "--config.data.limit=120")
    flags += ("--config.model.hidden_size=8", "--config.seeds=0,1,5")
    apart = ("launch/seeds.py", f"--workdir={tmp_path / 'apart'}", "--workers=2")
    for command in (("-m", "mednli_jax.train", f"--workdir={tmp_path / 'one'}"), apart):
        called = [sys.executable, *command, *flags]
        done = subprocess.run(
            called, cwd=ROOT, env=environment_of(tmp_path), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "apart.parts" / "1" / "result.json").is_file()
    one, joined = (load_run(tmp_path / name) for name in ("one", "apart"))
    assert joined.result.seeds == [0, 1, 5]
    assert set(joined.result.values) == set(one.result.values)
    for split in ("dev", "test"):
        logits = [run.scores(split)[1] for run in (one, joined)]
        assert abs(logits[0][0] - logits[0][1]).max() > 1e-3
        np.testing.assert_allclose(logits[1], logits[0], rtol=0, atol=1e-6)
        losses = [run.result.scores(split)["loss"]["per_seed"] for run in (one, joined)]
        np.testing.assert_allclose(losses[1], losses[0], rtol=0, atol=1e-6)
    rows = [
        json.loads((tmp_path / name / "metrics.jsonl").read_text()) for name in ("one", "apart")
    ]
    assert rows[1]["seeds"] == [0, 1, 5]
    np.testing.assert_allclose(rows[1]["train_loss"], rows[0]["train_loss"], rtol=0, atol=1e-6)
