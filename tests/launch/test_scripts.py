"""The scripts that start trainings on accelerators and clusters."""

import os
import re
import runpy
import shlex
import socket
import sys
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from support.commands import (
    ROOT,
    call_script,
    environment_of,
    read_json,
    refused,
    run_python,
    succeeds,
)
from support.files import write_program
from support.tables import table_rows
from support.trees import assert_near

from mednli_jax import load_run

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
    echo '{"format": 3, "status": "complete"}' >"${flag#*=}/result.json"
    ;;
  esac
done
"""


@pytest.fixture
def recorded(tmp_path):
    """Calls a script with a python that records: (name, arguments, variables) -> (exit code, calls
    of python)."""
    calls = tmp_path / "calls"
    write_program(tmp_path / "bin" / "python", PYTHON)

    def of(name, *arguments, **variables):
        calls.write_text("")
        settings = {"CALLS": str(calls), "MEDNLI_JAX_DATA": "", **variables}
        done = call_script(name, *arguments, bin=tmp_path / "bin", **settings)
        return done.returncode, calls.read_text().splitlines()

    return of


def test_a_measurement_of_a_device_goes_on_where_it_ended(recorded, tmp_path):
    folder = tmp_path / "measured"
    code, called = recorded("measure/measure_device.sh", folder, FAILS="--models=esim")
    assert code == 1
    assert "pytest" in called[0]  # tests tell whether the figures mean anything
    assert any("--models=bow" in call for call in called[3:])  # calls after a failure still run
    assert {"tests.xml", "infersent-64.jsonl", "bow-512.jsonl"} <= {
        file.name for file in folder.iterdir()
    }
    assert (folder / "determinism.txt").read_text() == "same\n"
    code, called = recorded("measure/measure_device.sh", folder)
    assert code == 0
    assert len(called) == 2  # one call for each batch size
    assert all("--models=esim" in call for call in called)
    assert recorded("measure/measure_device.sh", folder) == (0, [])
    assert not folder.stat().st_mode & 0o077


@pytest.mark.parametrize(
    "name", ["cluster/tpu_pod.sh", "cluster/slurm.sbatch", "measure/measure_device.sh"]
)
def test_a_script_answers_help_and_refuses_an_unknown_flag(name, tmp_path):
    for flag, code in (
        ("--help", 0),
        ("-h", 0),
        ("--frob", 2),
    ):
        done = call_script(name, flag, cwd=tmp_path)
        assert done.returncode == code
        shown = done.stderr if code else done.stdout
        assert f"launch/{name}" in shown
        assert not any(line.startswith("#") for line in shown.splitlines())
        assert not code or (shown.startswith("error: "), shown.count("\n")) == (True, 1)
    assert not list(tmp_path.iterdir())


# The Python scripts, each with flags that name a file which is not there.
LACKING = table_rows("""
    cluster/train_seeds_apart.py  | --config=absent.py --workdir=out
    data/build_diskne.py          | --corpus=demo --ontology=absent.obo --out=out
    data/build_queries.py         | --reports=absent.jsonl --out=out
    data/mentions.py              | --config=bow --form=brat --input=absent --out=out
    data/premises_from_notes.py   | --notes=absent.csv --number=1 --out=out
    data/pretrain_vectors.py      | --corpora=absent.txt --out=out
    measure/compile_for_device.py | --config=absent.py --target=h100
""")


@pytest.mark.parametrize("name, lacking", LACKING)
def test_a_script_behaves_like_a_command(name, lacking, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = SimpleNamespace(**runpy.run_path(str(ROOT / "launch" / name)))

    assert f"launch/{name} " in succeeds(script, "--help")[0]
    assert "--frob" in refused(script, "--frob=1")
    assert "absent" in refused(script, *lacking.split())
    assert not (tmp_path / "out").exists()


# Programs of a slice whose hosts are the folders `host` and, with MORE_HOSTS=1, host1. The first
# creation fails. A training makes one checkpoint and ends; the first two lose the slice, once their
# checkpoint is in the bucket. $CODES: other exit codes, one for each training.
POD_TRAIN = """#!/bin/bash
mkdir -p runs
exec 9>$CLOUD/lock && flock 9
echo "$(printf '%q ' "$@")" >>$CLOUD/trained
codes=($CODES) begun=$(wc -l <$CLOUD/trained)
exec 9>&-
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
    mkdir host $(seq -f host%g ${MORE_HOSTS:-0}) && echo READY >state ;;
  *" delete "*) rm -rf host* state ;;
  *networkEndpoints*) ls -d host* | wc -l ;;
  *" describe "*) cat state ;;
  *" scp --recurse pod7:"*) from=host${!##*=} && cp -r "${from%0}/${6#pod7:}" "$7" ;;
  *" ssh "*)
    command=${!#} limit=0 hosts=host code=0
    [[ $* != *--worker=all* ]] || hosts=$(ls -d host*)
    [[ $command != *mednli_jax.train* || ! -e $CLOUD/drops ]] || { rm $CLOUD/drops && limit=1; }
    for host in $hosts; do
      (cd $host && HOME=$PWD timeout $limit bash -c "${command#--command=}") &
    done
    for job in $(jobs -p); do wait $job || code=$?; done
    grep -q READY state && exit $code || { rm -rf host* && exit 1; } ;;
esac""",
}


class Ended(NamedTuple):
    """starts: the words of each start of train. verbs: the subcommands of tpu-vm."""

    code: int
    out: str
    err: str
    starts: list
    verbs: list


@pytest.fixture
def cloud(tmp_path):
    """cloud(*arguments, **variables) runs tpu_pod.sh."""
    if sys.platform != "linux":
        pytest.skip("the hosts of a slice have programs of Linux, such as setsid")
    write_program(tmp_path / "train", POD_TRAIN)
    for name, body in PROGRAMS.items():
        write_program(tmp_path / "bin" / name, f"#!/bin/bash\n{body}\n")

    def lines_of(name):
        return (tmp_path / name).read_text().splitlines()

    def call(*arguments, **variables):
        for name in ("trained", "calls"):
            (tmp_path / name).write_text("")
        settings = {
            "NAME": "pod7",
            "PAUSE": "0",
            "SAVE": "0.05",
            "CODES": "",
            "TRIES": "9",
        }
        folders = dict.fromkeys(("TMPDIR", "CLOUD"), str(tmp_path))
        done = call_script(
            "cluster/tpu_pod.sh",
            *arguments,
            cwd=tmp_path,
            bin=tmp_path / "bin",
            **{**settings, **folders, **variables},
        )
        verbs = [line.split()[3] for line in lines_of("calls") if " tpu-vm " in line]
        starts = list(map(shlex.split, lines_of("trained")))
        return Ended(done.returncode, done.stdout, done.stderr, starts, verbs)

    return call


FLAGS = ("--config=configs/bow.py", "--config.seeds=0,1")


@pytest.mark.parametrize(
    "codes, code, trained",
    [
        ("", 0, 3),
        ("2", 2, 1),
    ],
)
def test_a_pod_survives_preemptions_but_does_not_repeat_bad_input(
    cloud, tmp_path, codes, code, trained
):
    ended = cloud("all", *FLAGS, BUCKET="gs:/bucket", CODES=codes)

    assert ended.code == code, ended.err
    first, *later = [words[-3:] for words in ended.starts]
    assert first == ["--force", *FLAGS]
    assert later == [["--resume", *FLAGS]] * (trained - 1)
    for verb in ("create", "delete"):
        assert ended.verbs.count(verb) == trained + 1
    assert ended.verbs[-1] == "delete"
    if not codes:
        assert sorted(os.listdir(tmp_path / "runs" / "pod7" / "checkpoints")) == ["0", "1", "2"]


@pytest.fixture
def slice_(cloud, tmp_path):
    """A slice that is ready for `train`."""
    (tmp_path / "tried").touch()
    assert cloud("create").code == cloud("install").code == 0
    return tmp_path / "host"


@pytest.mark.parametrize(
    "codes, code, trained",
    [
        ("3 0", 0, 2),
        ("134 0", 0, 2),
        ("0", 0, 1),
        ("3 2", 2, 2),
        ("2", 2, 1),
    ],
)
def test_bad_input_of_an_earlier_training_does_not_end_the_next(
    cloud, slice_, codes, code, trained
):
    assert cloud("train", CODES="2").code == 2

    ended = cloud("train", *FLAGS, CODES=codes)

    assert ended.code == code, ended.err
    assert len(ended.starts) == trained


@pytest.mark.parametrize(
    "codes, code",
    [
        ("0", 0),
        ("2", 2),
    ],
)
@pytest.mark.parametrize("seconds", ["1.5", "0.9"])
def test_a_dropped_connection_neither_ends_nor_repeats_a_training(
    cloud, slice_, tmp_path, seconds, codes, code
):
    (tmp_path / "drops").touch()
    settings = {"SECONDS_EACH": seconds, "TRIES": "2", "PAUSE": "1"}

    ended = cloud("train", *FLAGS, CODES=codes, **settings)

    assert not (tmp_path / "drops").exists()
    assert ended.code == code, ended.err
    assert len(ended.starts) == 1


def test_the_log_of_a_training_is_shown_and_kept_in_private(cloud, slice_):
    write_program(slice_ / "venv" / "bin" / "python", "#!/bin/bash\necho epoch 1\n")

    ended = cloud("train")

    log = slice_ / "train.log"
    assert ended.code == 0
    assert ended.out == log.read_text() == "epoch 1\n"
    assert not log.stat().st_mode & 0o077


@pytest.mark.parametrize(
    "saved, start",
    [
        (True, "--resume"),
        (False, "--force"),
    ],
)
@pytest.mark.parametrize("unavailable", [True, False])
def test_a_failed_listing_of_the_bucket_is_not_an_empty_bucket(
    cloud, tmp_path, saved, start, unavailable
):
    """Without a run there is nothing to fetch."""
    if saved:
        (tmp_path / "bucket" / "run" / "checkpoints").mkdir(parents=True)
    if unavailable:
        (tmp_path / "unavailable").touch()

    ended = cloud("all", *FLAGS, BUCKET="gs:/bucket", CODES="0")

    assert ended.starts[0][-3] == start, ended.err
    assert ended.verbs.count("create") == 2
    assert ended.code == (0 if saved else 1)
    assert ("503" in ended.err) == unavailable


def test_a_pod_gives_train_no_flag_that_it_was_not_given(cloud, slice_):
    assert cloud("train", CODES="0").starts[0][-1] == "--force"
    flags = ["--config.vectors.path=", "--config.x=a b"]
    assert cloud("train", *flags, CODES="0").starts[0][-2:] == flags


@pytest.mark.parametrize(
    "config", ["--config=configs/bow.py:mednli", "--config=bow:multinli/fiction", "--config=bow"]
)
@pytest.mark.parametrize("data", ["", "nothing", "empty", "snli"])
def test_data_that_is_not_there_is_found_before_a_slice_is_made(cloud, tmp_path, config, data):
    (tmp_path / "empty").mkdir()
    (tmp_path / "snli" / "snli").mkdir(parents=True)

    ended = cloud("all", config, CODES="2", DATA=data and str(tmp_path / data))

    assert ended.code == 2
    is_bad = data in ("nothing", "empty") or ":" in config
    assert bool(ended.starts) == bool(ended.verbs) == (not is_bad), ended.err
    if is_bad:
        assert re.fullmatch(r"error: DATA=.* Fix: .*\n", ended.err)


STORAGE = "--storage=postgresql://me@database/studies"
TWO_HOSTS = {"MORE_HOSTS": "1", "BUCKET": "gs:/bucket"}


@pytest.mark.parametrize("codes, started", [("0 0", 2), ("137 0 0", 3)])
def test_each_host_of_a_pod_works_on_one_study_and_a_lost_one_joins_again(
    cloud, tmp_path, codes, started
):
    ended = cloud("pod7", "all", "sweep", "search_ga", STORAGE, CODES=codes, **TWO_HOSTS)

    assert ended.code == 0, ended.err
    words = ["-m", "mednli_jax.sweep", "--workers=4", "--config=search_ga", STORAGE]
    assert ended.starts == [words] * started
    assert sorted(os.listdir(tmp_path / "runs" / "pod7")) == ["host-0", "host-1"]
    assert os.listdir(tmp_path / "bucket" / "runs") == [socket.gethostname()]
    assert ended.verbs[-1] == "delete"


@pytest.mark.parametrize("storage", [(), ("--storage=sqlite:///study.db",)])
@pytest.mark.parametrize("step", [("sweep",), ("all", "sweep")])
def test_a_sweep_of_a_pod_without_a_server_is_refused_before_anything_is_made(cloud, step, storage):
    ended = cloud(*step, "search_ga", *storage)

    assert ended.code == 2
    assert ended.verbs == []
    assert re.fullmatch(r"error: --storage .* Fix: .*\n", ended.err)


@pytest.mark.parametrize("spot, is_spot", [("yes", True), ("", False)])
def test_a_slice_may_be_one_that_is_not_taken_away(cloud, tmp_path, spot, is_spot):
    assert cloud("create", SPOT=spot).code == 0
    assert ("--spot" in (tmp_path / "calls").read_text()) == is_spot


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_seeds_apart_give_the_run_of_one_process(tmp_path):
    flags = ("--config=configs/bow.py:demo", "--config.train.epochs=1", "--config.data.limit=120")
    flags += ("--config.model.hidden_size=8", "--config.seeds=0,1,5")
    script = "launch/cluster/train_seeds_apart.py"
    apart = (script, f"--workdir={tmp_path / 'apart'}", "--workers=2")
    for command in (("-m", "mednli_jax.train", f"--workdir={tmp_path / 'one'}"), apart):
        done = run_python(*command, *flags, **environment_of(tmp_path))
        assert done.returncode == 0, done.stderr

    assert (tmp_path / "apart.parts" / "1" / "result.json").is_file()
    one, joined = (load_run(tmp_path / name) for name in ("one", "apart"))
    assert joined.result.seeds == [0, 1, 5]
    assert set(joined.result.values) == set(one.result.values)
    for split in ("dev", "test"):
        logits, joined_logits = (run.score(split)[1] for run in (one, joined))
        assert abs(logits[0] - logits[1]).max() > 1e-3
        assert_near(joined_logits, logits, atol=1e-6)
    row, joined_row = (read_json(tmp_path, name, "metrics.jsonl") for name in ("one", "apart"))
    assert joined_row["seeds"] == [0, 1, 5]
    assert_near(joined_row["train_loss"], row["train_loss"], atol=1e-6)
