"""The scripts that start trainings on accelerators and clusters."""

import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest
from support.commands import ROOT, call_script, environment_of

from mednli_jax.run import load_run

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


def test_a_day_with_an_accelerator_goes_on_where_it_ended(recorded, tmp_path):
    folder = tmp_path / "day"
    code, called = recorded("accelerator_day.sh", folder, FAILS="--models=esim")
    assert code == 1
    assert "pytest" in called[0]  # tests tell whether the figures mean anything
    assert any("--models=bow" in call for call in called[3:])  # calls after a failure still run
    assert {"tests.xml", "infersent-64.jsonl", "bow-512.jsonl"} <= {
        file.name for file in folder.iterdir()
    }
    assert (folder / "determinism.txt").read_text() == "same\n"
    code, called = recorded("accelerator_day.sh", folder)
    assert code == 0
    assert len(called) == 2  # one call for each batch size
    assert all("--models=esim" in call for call in called)
    assert recorded("accelerator_day.sh", folder) == (0, [])
    assert not folder.stat().st_mode & 0o077


SCRIPTS = sorted(path.name for path in (ROOT / "launch").glob("*.sh") if path.name != "usage.sh")


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
    "python3.11": "mkdir -p venv/bin && cp $CLOUD/train venv/bin/python "
    "&& cp $CLOUD/bin/git venv/bin/pip",
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
  *" create "*)
    [ -e $CLOUD/tried ] || { touch $CLOUD/tried && exit 1; }
    mkdir host && echo READY >state ;;
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


@pytest.mark.parametrize("codes, code, trained", [("", 0, 3), ("2", 2, 1)])
def test_a_pod_survives_preemptions_but_does_not_repeat_bad_input(
    cloud, tmp_path, codes, code, trained
):
    ended, err, starts, verbs = cloud("all", *FLAGS, BUCKET="gs:/bucket", CODES=codes)
    assert ended == code, err
    assert [words[-3:] for words in starts] == [
        ["--resume" if n else "--force", *FLAGS] for n in range(trained)
    ]
    assert verbs.count("create") == trained + 1
    assert verbs.count("delete") == trained + 1
    assert verbs[-1] == "delete"
    if not codes:
        assert sorted(os.listdir(tmp_path / "runs" / "pod7" / "checkpoints")) == ["0", "1", "2"]


@pytest.fixture
def slice_(cloud, tmp_path):
    """A slice that is ready for `train`."""
    (tmp_path / "tried").touch()
    assert cloud("create")[0] == cloud("install")[0] == 0
    return tmp_path / "host"


@pytest.mark.parametrize(
    "codes, code, trained",
    [("3 0", 0, 2), ("134 0", 0, 2), ("0", 0, 1), ("3 2", 2, 2), ("2", 2, 1)],
)
def test_bad_input_of_an_earlier_training_does_not_end_the_next(
    cloud, slice_, codes, code, trained
):
    assert cloud("train", CODES="2")[0] == 2
    ended, err, starts, _ = cloud("train", *FLAGS, CODES=codes)
    assert ended == code, err
    assert len(starts) == trained, err


@pytest.mark.parametrize("codes, code", [("0", 0), ("2", 2)])
@pytest.mark.parametrize("seconds", ["1.5", "0.9"])
def test_a_dropped_connection_neither_ends_nor_repeats_a_training(
    cloud, slice_, tmp_path, seconds, codes, code
):
    (tmp_path / "drops").touch()
    ended, err, starts, _ = cloud(
        "train", *FLAGS, CODES=codes, SECONDS_EACH=seconds, TRIES="2", PAUSE="1"
    )
    assert not (tmp_path / "drops").exists()
    assert ended == code, err
    assert len(starts) == 1, err


def test_the_log_of_a_training_is_shown_and_kept(cloud, slice_, tmp_path):
    (slice_ / "venv" / "bin" / "python").write_text("#!/bin/bash\necho epoch 1\n")
    settings = {**os.environ, "NAME": "pod7", "CLOUD": str(tmp_path)}
    settings["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    command = ["bash", ROOT / "launch" / "tpu_pod.sh", "train"]
    done = subprocess.run(
        command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout == "epoch 1\n"
    assert (slice_ / "train.log").read_text() == "epoch 1\n"
    assert not (slice_ / "train.log").stat().st_mode & 0o077


@pytest.mark.parametrize("saved, start", [(True, "--resume"), (False, "--force")])
@pytest.mark.parametrize("unavailable", [True, False])
def test_a_failed_listing_of_the_bucket_is_not_an_empty_bucket(
    cloud, tmp_path, saved, start, unavailable
):
    if saved:
        (tmp_path / "bucket" / "run" / "checkpoints").mkdir(parents=True)
    if unavailable:
        (tmp_path / "unavailable").touch()
    ended, err, starts, verbs = cloud("all", *FLAGS, BUCKET="gs:/bucket", CODES="0")
    assert starts[0][-3] == start, err
    assert verbs.count("create") == 2, err
    assert ended == (0 if saved else 1)
    assert ("503" in err) == unavailable  # without a run there is nothing to fetch


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
    assert code == 2, err
    assert bool(verbs) == (not is_bad), err
    assert bool(starts) == (not is_bad), err
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
