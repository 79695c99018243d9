"""Several processes train as one does, stop together, and none waits for one that has died."""

import errno
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from support.commands import ROOT, SMALL, config_flag, environment_of, json_lines, read_json
from support.compiler import FAST
from support.pair_files import write_pairs

from mednli_jax.errors import ResumableError, RunError
from mednli_jax.training import hosts

LAUNCH = ROOT / "launch"
DEVICES = 4  # of each process


LONG_SECONDS = 1200  # longer than any test takes on a busy machine
STARTED: list[subprocess.Popen] = []


def slow(test):
    return pytest.mark.slow(pytest.mark.timeout(3600)(test))


@pytest.fixture(autouse=True)
def _none_is_left():
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.wait()


def environment(**more):
    flags = f"{FAST} --xla_force_host_platform_device_count={DEVICES}"
    path = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    return {**os.environ, **more, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": path}


def free_port():
    with socket.socket() as open_one:
        open_one.bind(("127.0.0.1", 0))
        return open_one.getsockname()[1]


# -- messages, with a store in place of the network -------------------------------------------------------------------


class Store:
    """A key-value store with the methods of jax's client, for two processes."""

    def __init__(self):
        self.values, self.barriers = {}, defaultdict(lambda: threading.Barrier(2))

    def key_value_set(self, key, value):
        self.values[key] = value

    def key_value_dir_get(self, folder):
        return [(key, value) for key, value in list(self.values.items()) if key.startswith(folder)]

    def key_value_delete(self, key):
        del self.values[key]

    def wait_at_barrier(self, name, milliseconds):
        self.barriers[name].wait(milliseconds / 1000)


def both(work, first, second):
    """The results or errors of work(hosts, argument) in two processes."""
    store = Store()

    def of(index, argument):
        try:
            return work(hosts.Hosts(store, index, 2), argument)
        except RunError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        return [one.result() for one in (pool.submit(of, 0, first), pool.submit(of, 1, second))]


def test_messages_reach_all_processes():
    assert (
        both(lambda here, text: [here.exchange(text), here.exchange("")], "a", "b")
        == [[["a", "b"], ["", ""]]] * 2
    )
    assert both(lambda here, value: here.agree(value, -value), 3, 5) == [[5.0, -3.0]] * 2
    assert both(lambda here, value: here.check_same("corpus", value), {"a": 1}, {"a": 1}) == [
        None,
        None,
    ]
    found = both(lambda here, value: here.check_same("corpus", value), {"a": 1}, {"a": 2})
    assert found[0] == found[1]
    assert found[0].startswith("process 1 has another corpus than process 0. Fix: ")


@pytest.mark.parametrize("code", [1, 2, 3])
def test_where_one_has_failed_the_others_fail_at_their_next_meeting(code, monkeypatch):
    monkeypatch.setattr(jax.distributed, "shutdown", lambda: None)

    def work(here, fails):
        def body():
            here.meet()
            if fails:
                return code
            try:
                here.meet()
            except RunError as error:
                said.append(str(error))
                return 3 if isinstance(error, ResumableError) else 2

        return here.run(body)

    said = []
    assert both(work, False, True) == [
        3 if code == 3 else 2,
        code,
    ]  # 3: another process holds the run
    assert said == ["process 1 of 2 has failed. Fix: see the last output of it."]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((None, 2, 0), "--coordinator is missing"),
        (("host", 2, 0), "--coordinator has no port"),
        (("host:1", 2, 2), "--process is 2 of 2"),
    ],
)
def test_incomplete_flags_are_one_line(flags, message):
    with pytest.raises(RunError, match=f"{message}"):
        hosts.join(*flags)


@pytest.mark.parametrize("address", ["127.0.0.1", "", "::1"])
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"JAX_COORDINATOR_PORT": "{port}", "SLURM_PROCID": "0"},
        {"SLURM_JOB_ID": "{job}", "SLURM_PROCID": "0"},
    ],
)
def test_a_port_in_use_is_one_line(address, variables, monkeypatch):
    """The port is given, set in the environment, or taken from the number of a Slurm job."""
    for name in (
        "JAX_COORDINATOR_ADDRESS",
        "JAX_COORDINATOR_PORT",
        "JAX_PROCESS_ID",
        "JAX_NUM_PROCESSES",
    ):
        monkeypatch.delenv(name, raising=False)
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as taken:
        port = next(port for port in range(61440, 65536) if is_free(taken, address, port))
        taken.listen()
        for name, value in variables.items():
            monkeypatch.setenv(name, value.format(port=port, job=4096 * 5 + port - 61440))
        flags = (None, None, None) if variables else (f"127.0.0.1:{port}", 2, 0)
        with pytest.raises(RunError, match=f"port {port} .* Fix: .*port"):
            hosts.join(*flags, automatic=bool(variables))


def is_free(socket_, address, port):
    """Binds the socket to the port, where the port is free."""
    try:
        socket_.bind((address, port))
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            pytest.skip("this machine has no such address")
        return False
    return True


def test_a_port_in_use_ends_the_command_with_bad_input(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"--coordinator=127.0.0.1:{taken.getsockname()[1]}"
        command = [
            sys.executable,
            "-m",
            "mednli_jax.train",
            "--config=bow",
            place,
            "--processes=2",
            "--process=0",
        ]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment(**environment_of(tmp_path)),
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: port ")
    assert "Traceback" not in done.stderr


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("hosts")
    write_pairs(home / "data" / "mednli", (("train", 240), ("dev", 60), ("test", 61)))
    return home


def train(home, run, *flags, processes=2):
    """Starts the command once for each index; output goes to run.0.out, run.0.err, ..."""
    port = free_port()
    for index in range(processes):
        own = (f"--coordinator=127.0.0.1:{port}", f"--processes={processes}", f"--process={index}")
        command = [
            *(
                sys.executable,
                "-m",
                "mednli_jax.train",
                config_flag("bow", "mednli"),
                "--config.vectors.path=",
                *SMALL,
            ),
            *(f"--workdir={run}", *flags, *(own if processes > 1 else ())),
        ]
        with (
            open(home / f"{run}.{index}.out", "w") as out,
            open(home / f"{run}.{index}.err", "w") as err,
        ):
            how = {
                "cwd": home,
                "stdout": out,
                "stderr": err,
                "env": environment(**environment_of(home)),
            }
            STARTED.append(subprocess.Popen(command, **how))
    return STARTED[-processes:]


def codes(processes):
    return [process.wait(timeout=LONG_SECONDS) for process in processes]


def epochs(home, run):
    path = home / run / "metrics.jsonl"
    return json_lines(path) if path.exists() else []


def result(home, run):
    return read_json(home, run, "result.json")


def wait_for(condition):
    until = time.monotonic() + LONG_SECONDS
    while not condition():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.02)


def stderr(home, run, index):
    return (home / f"{run}.{index}.err").read_text()


@slow
def test_a_run_of_two_processes_is_that_of_one(home):
    assert codes(train(home, "one", processes=1)) == [0]
    assert codes(train(home, "two")) == [0, 0], stderr(home, "two", 0) + stderr(home, "two", 1)
    one, two = result(home, "one"), result(home, "two")
    assert two["status"] == "complete"
    assert two["test"]["accuracy"] == one["test"]["accuracy"]
    for a, b in zip(epochs(home, "one"), epochs(home, "two"), strict=True):
        np.testing.assert_allclose(a["train_loss"], b["train_loss"], atol=1e-5)
        np.testing.assert_allclose(a["dev_loss"], b["dev_loss"], atol=1e-5)
    rows = [
        (home / run / "private" / "predictions.test.jsonl").read_text().splitlines()
        for run in ("one", "two")
    ]
    for a, b in zip(*(map(json.loads, lines) for lines in rows), strict=True):
        assert (a["uid"], a["predicted"]) == (b["uid"], b["predicted"])
        np.testing.assert_allclose(a["probabilities"], b["probabilities"], atol=1e-4)
    assert len(json.loads((home / "two" / "env.json").read_text())["devices"]) == 2 * DEVICES
    lines = (home / "two.1.out").read_text().splitlines()
    assert all(
        line.startswith("[Gloo]") for line in lines
    )  # of its own the second process prints nothing
    assert (home / "two.0.out").read_text().splitlines()[-1] == "two/result.json"


SAME = ("epoch", "seeds", "train_loss", "train_accuracy", "dev_loss", "dev_accuracy", "stale")
LONG = ("--config.train.epochs=40", "--config.train.patience=100")


@slow
def test_one_that_is_asked_to_stop_stops_all_and_the_run_goes_on_with_any_number(home):
    assert codes(train(home, "whole", *LONG, processes=1)) == [0]
    processes = train(home, "stopped", *LONG)
    wait_for(lambda: len(epochs(home, "stopped")) >= 3)
    processes[1].send_signal(signal.SIGTERM)
    assert codes(processes) == [3, 3], stderr(home, "stopped", 0) + stderr(home, "stopped", 1)
    assert result(home, "stopped")["status"] == "interrupted"
    assert 3 <= len(epochs(home, "stopped")) < 8
    shutil.copytree(home / "stopped", home / "again")
    assert codes(train(home, "stopped", *LONG, "--resume", processes=1)) == [0]
    assert codes(train(home, "again", *LONG, "--resume", processes=3)) == [0] * 3
    for run in ("stopped", "again"):
        found, wanted = epochs(home, run), epochs(home, "whole")
        assert [row["epoch"] for row in found] == list(range(1, 41))
        for name in ("train_loss", "dev_loss"):
            # Batch norm over a few rows magnifies rounding errors, so only the first 10 of 40
            # epochs are compared.
            near = [np.array([row[name] for row in rows[:10]]) for rows in (found, wanted)]
            np.testing.assert_allclose(*near, atol=1e-3, err_msg=run)


@slow
def test_one_that_is_lost_ends_the_other_and_the_run_goes_on_bit_identically(home):
    """The first or the second process is killed, or the second one hangs."""
    flags = ("--config.train.epochs=12", "--config.train.patience=100")
    assert codes(train(home, "unbroken", *flags)) == [0, 0]
    for victim, how in ((0, signal.SIGKILL), (1, signal.SIGKILL), (1, signal.SIGSTOP)):
        run = f"lost{victim}{how.name}"
        processes = train(home, run, *flags)
        wait_for(lambda run=run: len(epochs(home, run)) >= 3)
        processes[victim].send_signal(how)
        begun = time.monotonic()
        assert codes([processes[1 - victim]]) == [-signal.SIGABRT], stderr(home, run, 1 - victim)
        assert time.monotonic() - begun < 30
        processes[victim].kill()
        processes[victim].wait()
        assert codes(train(home, run, *flags, "--resume")) == [0, 0], stderr(home, run, 0)
        assert "resumed in epoch" in stderr(home, run, 0)
        for row, other in zip(epochs(home, run), epochs(home, "unbroken"), strict=True):
            assert {name: row[name] for name in SAME} == {name: other[name] for name in SAME}
        found, wanted = (
            home / name / "private" / "predictions.test.jsonl" for name in (run, "unbroken")
        )
        assert found.read_bytes() == wanted.read_bytes()


# -- launch scripts ---------------------------------------------------------------------------------------------------


def pod(*arguments, **settings):
    command = ["bash", LAUNCH / "tpu_pod.sh", "--dry-run", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **settings}
    )
    return [shlex.split(line) for line in done.stdout.splitlines()]


def test_tpu_pod_makes_trains_fetches_and_deletes():
    flags = ("--config=configs/bow.py", "--config.seeds=0,1")
    commands = pod("all", *flags, NAME="pod7", ZONE="here", DATA="/corpora")
    assert [command[0] for command in commands if command[0] != "gcloud"] == ["git", "mkdir"]
    cloud = [command[1:] for command in commands if command[0] == "gcloud"]
    assert [command[3] for command in cloud] == [
        "create",
        "scp",
        "ssh",
        "scp",
        "ssh",
        "scp",
        "delete",
    ]
    assert all(
        "--zone=here" in command and any("pod7" in word for word in command) for command in cloud
    )
    (train,) = (word for word in cloud[4] if word.startswith("--command="))
    assert "--worker=all" in cloud[4]
    assert "python -m mednli_jax.train --distributed" in train
    assert shlex.split(train)[-2:] == list(flags)
    assert "--worker=0" in cloud[5]
    assert [command[3] for command in (c[1:] for c in pod("create"))] == ["create"]


# Starts two processes, as srun would, and returns the highest exit code. $VENV/bin/python takes its
# code from $CODES.
SRUN = """#!/bin/bash
echo "$*" >>calls
highest=0
for SLURM_PROCID in 0 1; do
  export SLURM_PROCID
  "${@:2}" || { code=$?; [ $code -le $highest ] || highest=$code; }
done
exit $highest
"""
PROCESS = """#!/bin/bash
codes=($CODES)
exit ${codes[$SLURM_PROCID]}
"""


@pytest.fixture
def slurm(tmp_path):
    """slurm(codes of the two processes, restarts so far) -> (exit code, flags of srun, whether the
    job is requeued)."""
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    scontrol = '#!/bin/sh\necho "scontrol $@" >>calls\n'
    for name, body in (("srun", SRUN), ("scontrol", scontrol), ("venv/bin/python", PROCESS)):
        (tmp_path / name).write_text(body)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "runs" / "slurm-5" / "checkpoints").mkdir(parents=True)

    def call(codes, restarts=0):
        settings = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CODES": codes, "SLURM_JOB_ID": "5"}
        settings |= {"SLURM_RESTART_COUNT": str(restarts)}
        command = ["bash", LAUNCH / "slurm.sbatch", "--config=configs/bow.py"]
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **settings})
        first, *rest = (tmp_path / "calls").read_text().splitlines()
        (tmp_path / "calls").unlink()
        return done.returncode, first, rest == ["scontrol requeue 5"]

    return call


@pytest.mark.parametrize(
    ("codes", "restarts", "code", "queued"),
    [
        ("0 0", 0, 0, False),
        ("2 2", 0, 2, False),
        ("2 134", 0, 2, False),  # the others are ended by jax
        ("0 134", 0, 134, True),
        ("3 3", 0, 3, True),
        ("3 3", 20, 3, False),
        ("134 137", 0, 137, True),
        ("139 134", 0, 139, False),
    ],
)
def test_a_slurm_job_goes_back_into_the_queue_only_where_it_can_go_on(
    slurm, codes, restarts, code, queued
):
    ended, flags, requeued = slurm(codes, restarts)
    assert (ended, requeued) == (code, queued)
    assert flags.endswith(
        "--wait=120 --distributed --workdir=runs/slurm-5 --resume --config=configs/bow.py"
    )


def test_a_slurm_job_that_was_refused_may_be_started_again(slurm):
    assert [slurm(codes)[0] for codes in ("2 134", "134 134", "2 2", "0 0")] == [2, 134, 2, 0]


def test_a_signal_to_a_task_of_slurm_lets_the_training_save(tmp_path):
    saves = "#!/bin/bash\ntrap 'sleep 0.3; touch saved; exit 3' TERM\ntouch begun\nwhile :; do sleep 0.05; done\n"
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    starts = '#!/bin/bash\n"${@:2}" & task=$!\nuntil [ -e begun ]; do sleep 0.05; done\n'
    starts += "pkill -TERM -P $task; kill $task; wait $task; wait $task\n"  # Slurm's signal reaches all of a task
    for name, body in (
        ("srun", starts),
        ("scontrol", "#!/bin/sh\ntouch queued\n"),
        ("venv/bin/python", saves),
    ):
        (tmp_path / name).write_text(body)
        (tmp_path / name).chmod(0o755)
    settings = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "5"}
    done = subprocess.run(
        ["bash", LAUNCH / "slurm.sbatch"], cwd=tmp_path, env={**os.environ, **settings}, timeout=60
    )
    assert done.returncode == 3
    assert (tmp_path / "saved").exists()
    assert (tmp_path / "queued").exists()


@pytest.mark.parametrize("again", ["--force", "--resume"])
def test_hosts_of_gke_wait_for_a_held_run_and_only_bad_input_ends_them(tmp_path, again):
    yaml = pytest.importorskip("yaml")
    spec = yaml.safe_load((LAUNCH / "gke_jobset.yaml").read_text())["spec"]
    job = spec["replicatedJobs"][0]["template"]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]) == ("FailJob", {"operator": "In", "values": [2]})
    assert (job["backoffLimit"], spec["failurePolicy"]["maxRestarts"]) == (
        0,
        20,
    )  # 3 and 134 restart all hosts
    (container,) = job["template"]["spec"]["containers"]
    (tmp_path / "python").write_text('#!/bin/sh\necho "$*"\nexit 3\n')
    (tmp_path / "python").chmod(0o755)
    if again == "--resume":
        (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    command = [word.replace("/shared", str(tmp_path)) for word in container["command"]]
    settings = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=settings, capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stdout.split()[2:6] == [
        "--wait=120",
        "--distributed",
        f"--workdir={tmp_path}/run",
        again,
    ]
