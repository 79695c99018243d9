"""Several processes train as one does, stop together, and none waits for one that has died."""

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
from support.cases import cases
from support.commands import (
    IMPORTS,
    ROOT,
    SMALL,
    call_script,
    environment_of,
    json_lines,
    read_json,
)
from support.compiler import FAST
from support.files import write_program
from support.pair_files import write_pairs
from support.tables import table_rows
from support.trees import assert_near

from mednli_jax.errors import ResumableError, RunError
from mednli_jax.training import hosts

DEVICES = 4  # of each process
LONG_SECONDS = 1200  # longer than any test takes on a busy machine
TRAIN = (sys.executable, "-m", "mednli_jax.train")


def slow(test):
    return pytest.mark.slow(pytest.mark.timeout(3600)(test))


def environment(home):
    return {
        **os.environ,
        **environment_of(home),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"{FAST} --xla_force_host_platform_device_count={DEVICES}",
        "PYTHONPATH": f"{IMPORTS['PYTHONPATH']}{os.pathsep}{ROOT / 'tests'}",
    }


# -- messages, with a store in place of the network ----------------------------------------------


class Store:
    """A key-value store with the methods of jax's client, for two processes."""

    def __init__(self):
        self.values = {}
        self.barriers = defaultdict(lambda: threading.Barrier(2))

    def key_value_set(self, key, value):
        self.values[key] = value

    def key_value_dir_get(self, folder):
        return [(key, value) for key, value in list(self.values.items()) if key.startswith(folder)]

    def key_value_delete(self, key):
        del self.values[key]

    def wait_at_barrier(self, name, milliseconds):
        self.barriers[name].wait(milliseconds / 1000)


def in_two_processes(work, *arguments):
    """The result or the error message of work(hosts, argument) in each process."""
    store = Store()

    def in_process(index):
        try:
            return work(hosts.Hosts(store, index, 2), arguments[index])
        except RunError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(in_process, (0, 1)))


def test_messages_reach_all_processes():
    def exchange_twice(processes, text):
        return [processes.exchange(text), processes.exchange("")]

    assert in_two_processes(exchange_twice, "a", "b") == [[["a", "b"], ["", ""]]] * 2


def test_processes_agree_on_the_maximum_of_each_value():
    def agree(processes, value):
        return processes.agree(value, -value)

    assert in_two_processes(agree, 3, 5) == [[5.0, -3.0]] * 2


def test_a_corpus_that_differs_between_processes_is_refused_by_all():
    def check(processes, value):
        return processes.check_same("corpus", value)

    assert in_two_processes(check, {"a": 1}, {"a": 1}) == [None, None]
    first, second = in_two_processes(check, {"a": 1}, {"a": 2})
    assert first == second
    assert first.startswith("process 1 has another corpus than process 0. Fix: ")


@cases(
    "code, code_of_partner",
    {
        "fault": (1, 2),
        "bad input": (2, 2),
        "another process holds the run": (3, 3),
    },
)
def test_if_a_process_has_failed_its_partner_fails_at_their_next_meeting(
    code, code_of_partner, monkeypatch
):
    monkeypatch.setattr(jax.distributed, "shutdown", lambda: None)
    messages = []

    def work(processes, fails):
        def body():
            processes.meet()
            if fails:
                return code
            try:
                processes.meet()
            except RunError as error:
                messages.append(str(error))
                return 3 if isinstance(error, ResumableError) else 2

        return processes.run(body)

    assert in_two_processes(work, False, True) == [code_of_partner, code]
    assert messages == ["process 1 of 2 has failed. Fix: see the last output of it."]


# -- flags and ports -----------------------------------------------------------------------------


def bind_a_free_port(listener, address):
    """A port that the listener now has."""
    try:
        listener.bind((address, 0))
    except OSError:
        pytest.skip("this machine has no such address")
    return listener.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.1", "", "::1"])
def test_a_port_in_use_is_refused(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as listener:
        port = bind_a_free_port(listener, address)
        listener.listen()

        with pytest.raises(RunError, match=f"port {port} .* Fix: .*port"):
            hosts.join(f"127.0.0.1:{port}", 2, 0)


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("hosts")
    write_pairs(
        home / "data" / "mednli",
        (
            ("train", 240),
            ("dev", 60),
            ("test", 61),
        ),
    )
    return home


@pytest.fixture
def start(home):
    """start(run, *flags, processes=2) starts the command once for each index; output goes to
    run.0.out, run.0.err, ..."""
    started = []

    def start_processes(run, *flags, processes=2):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            coordinator = f"--coordinator=127.0.0.1:{unused.getsockname()[1]}"
        command = [*TRAIN, "--config=bow:mednli", "--config.vectors.path=", *SMALL]
        command += [f"--workdir={run}", *flags]
        for index in range(processes):
            own = (coordinator, f"--processes={processes}", f"--process={index}")
            with (
                open(home / f"{run}.{index}.out", "w") as out,
                open(home / f"{run}.{index}.err", "w") as err,
            ):
                process = subprocess.Popen(
                    [*command, *(own if processes > 1 else ())],
                    cwd=home,
                    stdout=out,
                    stderr=err,
                    env=environment(home),
                )
            started.append(process)
        return started[-processes:]

    yield start_processes
    for process in started:
        process.kill()
        process.wait()


def codes(processes):
    return [process.wait(timeout=LONG_SECONDS) for process in processes]


def epochs(home, run):
    path = home / run / "metrics.jsonl"
    return json_lines(path) if path.exists() else []


def predictions(home, run):
    return home / run / "private" / "predictions.test.jsonl"


def wait_for_epochs(home, run, count):
    until = time.monotonic() + LONG_SECONDS
    while len(epochs(home, run)) < count:
        assert time.monotonic() < until, "the epochs did not come"
        time.sleep(0.02)


def output(home, run):
    """What all processes of a run wrote to stderr."""
    return "".join(path.read_text() for path in home.glob(f"{run}.*.err"))


@slow
def test_training_and_predictions_of_two_processes_with_four_devices_each_are_those_of_one(
    home, start
):
    assert codes(start("single", processes=1)) == [0]
    assert codes(start("double")) == [0, 0], output(home, "double")

    single, double = (read_json(home, run, "result.json") for run in ("single", "double"))
    assert double["status"] == "complete"
    assert double["test"]["accuracy"] == single["test"]["accuracy"]
    for a, b in zip(epochs(home, "single"), epochs(home, "double"), strict=True):
        assert_near(a["train_loss"], b["train_loss"], atol=1e-5)
        assert_near(a["dev_loss"], b["dev_loss"], atol=1e-5)
    rows = (json_lines(predictions(home, run)) for run in ("single", "double"))
    for a, b in zip(*rows, strict=True):
        assert a["uid"] == b["uid"]
        assert a["predicted"] == b["predicted"]
        assert_near(a["probabilities"], b["probabilities"], atol=1e-4)
    assert len(read_json(home, "double", "env.json")["devices"]) == 2 * DEVICES
    # The second process prints nothing of its own.
    of_second = (home / "double.1.out").read_text().splitlines()
    assert all(line.startswith("[Gloo]") for line in of_second)
    assert (home / "double.0.out").read_text().splitlines()[-1] == "double/result.json"


@slow
def test_a_signal_to_one_process_stops_all_and_the_run_resumes_with_any_number(home, start):
    long = ("--config.train.epochs=40", "--config.train.patience=100")
    assert codes(start("whole", *long, processes=1)) == [0]
    processes = start("stopped", *long)
    wait_for_epochs(home, "stopped", 3)
    processes[1].send_signal(signal.SIGTERM)
    assert codes(processes) == [3, 3], output(home, "stopped")
    assert read_json(home, "stopped", "result.json")["status"] == "interrupted"
    assert 3 <= len(epochs(home, "stopped")) < 8
    shutil.copytree(home / "stopped", home / "again")

    assert codes(start("stopped", *long, "--resume", processes=1)) == [0]
    assert codes(start("again", *long, "--resume", processes=3)) == [0] * 3

    whole = epochs(home, "whole")
    for run in ("stopped", "again"):
        resumed = epochs(home, run)
        assert [row["epoch"] for row in resumed] == list(range(1, 41))
        # Batch norm over a few rows magnifies rounding errors, so only the first 10 of 40 epochs
        # are compared.
        for row, whole_row in zip(resumed[:10], whole[:10], strict=True):
            for name in ("train_loss", "dev_loss"):
                np.testing.assert_allclose(row[name], whole_row[name], atol=1e-3, err_msg=run)


SAME = ("epoch", "seeds", "train_loss", "train_accuracy", "dev_loss", "dev_accuracy", "stale")


def untimed(rows):
    return [{name: row[name] for name in SAME} for row in rows]


@slow
def test_a_lost_process_ends_the_other_and_the_run_resumes_bit_for_bit(home, start):
    """The first or the second process is killed, or the second one hangs."""
    flags = ("--config.train.epochs=12", "--config.train.patience=100")
    assert codes(start("unbroken", *flags)) == [0, 0]

    for victim, loss in ((0, signal.SIGKILL), (1, signal.SIGKILL), (1, signal.SIGSTOP)):
        run = f"lost{victim}{loss.name}"
        processes = start(run, *flags)
        wait_for_epochs(home, run, 3)
        processes[victim].send_signal(loss)
        begun = time.monotonic()
        assert codes([processes[1 - victim]]) == [-signal.SIGABRT], output(home, run)
        assert time.monotonic() - begun < 30
        processes[victim].kill()
        processes[victim].wait()

        assert codes(start(run, *flags, "--resume")) == [0, 0], output(home, run)

        assert "resumed in epoch" in output(home, run)
        assert untimed(epochs(home, run)) == untimed(epochs(home, "unbroken"))
        unbroken = predictions(home, "unbroken").read_bytes()
        assert predictions(home, run).read_bytes() == unbroken


# -- launch scripts ------------------------------------------------------------------------------


def test_a_dry_run_prints_the_commands_of_a_tpu_pod():
    flags = ["--config=configs/bow.py", "--config.seeds=0,1"]

    done = call_script("cluster/tpu_pod.sh", "--dry-run", "all", *flags, DATA="/corpora")

    commands = map(shlex.split, done.stdout.splitlines())
    cloud = [words for words in commands if words[0] == "gcloud"]
    steps = [words[4] for words in cloud]
    assert steps == ["create", "scp", "ssh", "scp", "ssh", "scp", "delete"]
    *training, script = cloud[4]
    assert "--worker=all" in training
    assert "python -m mednli_jax.train --distributed" in script
    assert shlex.split(script)[-2:] == flags


def run_slurm_job(folder, srun, python, *flags, **variables):
    """Runs slurm.sbatch in a folder with these programs. Its calls are lines of the file calls."""
    write_program(folder / "srun", srun)
    write_program(folder / "scontrol", '#!/bin/sh\necho "scontrol $@" >>calls\n')
    write_program(folder / "venv" / "bin" / "python", python)
    return call_script(
        "cluster/slurm.sbatch", *flags, cwd=folder, bin=folder, SLURM_JOB_ID="5", **variables
    )


# Starts two processes, as srun would, and returns the highest exit code.
SRUN = """#!/bin/bash
echo "$*" >>calls
while [[ $1 = --* ]]; do shift; done
highest=0
for SLURM_PROCID in 0 1; do
  export SLURM_PROCID
  "$@" || { code=$?; [ $code -le $highest ] || highest=$code; }
done
exit $highest
"""
PROCESS = "#!/bin/bash\ncodes=($CODES)\nexit ${codes[$SLURM_PROCID]}\n"


@pytest.fixture
def slurm(tmp_path):
    """slurm(codes of the two processes, restarts so far) -> (exit code, flags of srun, whether the
    job is requeued)."""
    (tmp_path / "runs" / "slurm-5" / "checkpoints").mkdir(parents=True)

    def run_job(codes, restarts="0"):
        settings = {"CODES": codes, "SLURM_RESTART_COUNT": restarts, "SLURM_CPUS_PER_TASK": "8"}
        process = run_slurm_job(tmp_path, SRUN, PROCESS, "--config=configs/bow.py", **settings)
        first, *rest = (tmp_path / "calls").read_text().splitlines()
        (tmp_path / "calls").unlink()
        return process.returncode, first, rest == ["scontrol requeue 5"]

    return run_job


@pytest.mark.parametrize(
    "codes, restarts, code, requeued",
    table_rows("""
        # complete, bad input, and bad input of one, whose partner jax ends
        0 0 | 0 | 0 | no
        2 2 | 0 | 2 | no
        2 134 | 0 | 2 | no
        # a lost partner, interrupted, interrupted too often
        0 134 | 0 | 134 | yes
        3 3 | 0 | 3 | yes
        3 3 | 20 | 3 | no
        # killed, a segmentation fault
        134 137 | 0 | 137 | yes
        139 134 | 0 | 139 | no
    """),
)
def test_a_slurm_job_goes_back_into_the_queue_only_if_it_can_go_on(
    slurm, codes, restarts, code, requeued
):
    ended, flags, is_requeued = slurm(codes, restarts)

    assert ended == int(code)
    assert is_requeued == (requeued == "yes")
    resumed = "--wait=120 --distributed --workdir=runs/slurm-5 --resume --config=configs/bow.py"
    assert flags.startswith("--kill-on-bad-exit=0 --cpus-per-task=8 bash ")
    assert flags.endswith(resumed)


def test_a_slurm_job_that_was_refused_may_be_started_again(slurm):
    ended = [slurm(codes)[0] for codes in ("2 134", "134 134", "2 2", "0 0")]

    assert ended == [2, 134, 2, 0]


# Slurm's signal reaches all processes of a task.
SIGNALLING_SRUN = """#!/bin/bash
"${@:2}" & task=$!
until [ -e begun ]; do sleep 0.05; done
pkill -TERM -P $task; kill $task; wait $task; wait $task
"""
SAVING_PROCESS = """#!/bin/bash
trap 'sleep 0.3; touch saved; exit 3' TERM
touch begun
while :; do sleep 0.05; done
"""


def test_a_signal_to_a_task_of_slurm_lets_the_training_save(tmp_path):
    process = run_slurm_job(tmp_path, SIGNALLING_SRUN, SAVING_PROCESS)

    assert process.returncode == 3
    assert (tmp_path / "saved").exists()
    assert (tmp_path / "calls").read_text() == "scontrol requeue 5\n"


@pytest.fixture
def gke():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / "launch" / "cluster" / "gke_jobset.yaml").read_text())["spec"]


@pytest.mark.parametrize("again", ["--force", "--resume"])
def test_hosts_of_gke_wait_for_a_held_run_and_resume_one_with_checkpoints(gke, tmp_path, again):
    write_program(tmp_path / "python", '#!/bin/sh\necho "$*"\nexit 3\n')
    if again == "--resume":
        (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    pod = gke["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command = [word.replace("/shared", str(tmp_path)) for word in container["command"]]

    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = subprocess.run(command, env=variables, capture_output=True, text=True)

    assert process.returncode == 3
    flags = ["--wait=120", "--distributed", f"--workdir={tmp_path}/run", again]
    assert process.stdout.split()[2:6] == flags
