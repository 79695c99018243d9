"""A run that was interrupted or killed is resumed and ends bit-identical to an unbroken one, or is
refused in one line; two processes never train in one folder.

$MEDNLI_JAX_KILLS is the number of kills of each protocol.
"""

import contextlib
import errno
import fcntl
import html
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import ANY

import pytest
from support.cases import cases
from support.commands import at, call_command, environment_of, read_json, refused, succeeds
from support.files import contents
from support.protocols import PROTOCOLS, flags_of, results, write_home
from support.runs import curves, edit
from support.tables import table_rows

from mednli_jax import cli
from mednli_jax.errors import ResumableError, RunError
from mednli_jax.files.writing import private_folder, write_atomic
from mednli_jax.rundir import FORMAT, RunDirectory
from mednli_jax.training import loop
from mednli_jax.training import settings as jax_settings
from mednli_jax.training.session import Session

FAST = ("warmup", "features", "folds")
EPOCHS = 3
KILLS = int(os.environ.get("MEDNLI_JAX_KILLS", "20"))
LONG = 12  # epochs of a run that is killed


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("resume")
    write_home(home)
    return home


@contextlib.contextmanager
def working_in(home):
    """Commands of this process run in `home`, with its data."""
    with at(home) as patch:
        patch.setenv("MEDNLI_JAX_DATA", str(home / "data"))
        yield patch


@contextlib.contextmanager
def interrupted_at(number):
    """A SIGINT arrives when the loop asks for the n-th time whether to stop: after a chunk of
    steps, or a tree."""
    should_stop = Session.should_stop
    main_thread = threading.main_thread().ident
    questions = iter(range(1, sys.maxsize))

    def interrupting(session):
        if next(questions) == number:
            signal.pthread_kill(main_thread, signal.SIGINT)
            # Trees grow in another thread, which must not end before the main thread has a turn.
            deadline = time.monotonic() + 60
            while not session.signals and time.monotonic() < deadline:
                time.sleep(0.001)
        return should_stop(session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "should_stop", interrupting)
        yield


@pytest.mark.parametrize(
    "protocol",
    [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in PROTOCOLS],
)
def test_an_interrupted_run_resumes_bit_for_bit(home, protocol):
    """It is interrupted twice, the second time after it was resumed. Its seconds are those of all
    sessions."""
    whole = f"{protocol}-whole"
    broken = f"{protocol}-broken"
    flags = flags_of(protocol, broken, EPOCHS)
    rounding = 0.1 if protocol == "features" else 0  # trees grow within the rounding of seconds
    spent = 0
    with working_in(home):
        if protocol == "transfer" and not (home / "source").is_dir():
            succeeds("train", *flags_of("warmup", "source", 1))
        succeeds("train", *flags_of(protocol, whole, EPOCHS))

        for number, resume in ((4, ()), (2, ("--resume",))):
            with interrupted_at(number):
                code, _, err = call_command("train", *flags, *resume)
            assert code == cli.INTERRUPTED, err
            assert "--resume" in err
            result = read_json(home, broken, "result.json")
            assert result["status"] == "interrupted"
            assert result["seconds"] > spent - rounding
            spent = result["seconds"]
        succeeds("train", *flags, "--resume")

    assert results(home / broken) == results(home / whole)
    assert read_json(home, broken, "result.json")["seconds"] > spent - rounding


# ---- what a run began with ----


@pytest.fixture(scope="module")
def runs(home):
    """A complete run, and one that was interrupted in its second epoch."""
    with working_in(home) as patch:
        succeeds("train", *flags_of("warmup", "whole", EPOCHS))
        patch.setattr(loop, "CHUNK_SECONDS", 0.0)  # stops after any of the 12 steps of an epoch
        with interrupted_at(15):
            code = call_command("train", *flags_of("warmup", "stopped", EPOCHS)).code
    assert code == cli.INTERRUPTED
    return home


@pytest.fixture
def copies(runs, tmp_path):
    """The working folder, with copies of the runs and with their data."""
    for name in ("whole", "stopped", "data"):
        shutil.copytree(runs / name, tmp_path / name)
    with working_in(tmp_path):
        yield tmp_path


def resume(run, *flags):
    """The words that go on with a run."""
    return ("train", *flags_of("warmup", run, EPOCHS), "--resume", *flags)


@pytest.mark.parametrize(
    "call, file, old, new, words",
    table_rows("""
        resume stopped --config.model.hidden_size=5 --config.train.clip=2 | | | | \
            other values of model.hidden_size, train.clip.
        resume whole --config.train.epochs=9 | | | | not trained longer / init_from=whole
        resume stopped --force | | | | --force
        resume absent | | | | no such run directory
        train stopped | | | | status interrupted / --resume / --force
        train . --force | | | | .: holds other files
        # settings of jax
        resume stopped | env.json | enable_x64": false | enable_x64": true | =True / =False
        resume stopped | env.json | "threefry2x32" | "rbg" | prng_impl=rbg / =threefry2x32
        resume stopped | env.json | partitionable": true | partitionable": false | =False / =True
        resume stopped | env.json | seed_offset": 0 | seed_offset": 1 | offset=1 / offset=0
        resume stopped | env.json | precision": null | precision": "highest" | =highest / =None
        # the data: a pair has another label, so that shapes, vocabulary and vectors stay equal
        resume stopped | ../data/mednli/mli_test_v1.jsonl | "neutral" | "entailment" | \
            changed since the run began: mli_test_v1.jsonl
        evaluate --run=whole | ../data/mednli/mli_test_v1.jsonl | "neutral" | "entailment" | \
            changed since the run began: mli_test_v1.jsonl
        # damaged files
        resume stopped | config.json | { | [{ | stopped/config.json: cannot be read
        evaluate --run=whole | config.json | { | [{ | whole/config.json: cannot be read
        resume stopped | metrics.jsonl | "epoch" | "e" | stopped/metrics.jsonl:1:
        # the files of another version
        resume whole | result.json | "format": 4 | "format": 5 | whole: the run has format 5,
        resume stopped | result.json | "format": 4 | "format": 5 | stopped: the run has format 5,
        train whole | result.json | "format": 4, | | whole: the run has format 0,
        evaluate --run=whole | result.json | "format": 4, | | whole: the run has format 0,
        predict --run=whole | result.json | "format": 4 | "format": 5 | the run has format 5,
        report whole | result.json | "format": 4 | "format": 5 | whole: the run has format 5,
        resume stopped --config.seeds=7 | result.json | "format": 4 | "format": 5 | has format 5,
        # runs that are not finished
        evaluate --run=stopped | | | | status interrupted / --resume
        evaluate --run=stopped | result.json | "interrupted" | "running" | running / --resume
        evaluate --run=stopped | result.json | "interrupted" | "failed" | --resume / --force
    """),
)
def test_a_run_that_is_not_as_it_was_is_refused_and_left_alone(copies, call, file, old, new, words):
    command, run, *flags = call.replace("--run=", "").split()
    path = copies / run / file
    if file:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
    before = contents(copies)

    if command in ("train", "resume"):
        calls = resume(run, *flags)
        err = refused(*(word for word in calls if command == "resume" or word != "--resume"))
    else:
        err = refused(call)

    *warnings, message = err.splitlines()
    assert all(line.startswith("warning: ") for line in warnings)
    for text in words.split(" / "):
        assert text in message
    after = contents(copies)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("place", ["--workdir 'my run'", "-workdir='my run' --force"])
def test_the_command_that_continues_a_run_works_as_it_is_printed(copies, place):
    flags = flags_of("warmup", "", 1)[:-1]
    with interrupted_at(1):
        code, _, err = call_command("train", *flags, *shlex.split(place))
    assert code == cli.INTERRUPTED, err
    words = shlex.split(err.splitlines()[-1].partition("To continue: ")[2])

    assert words[:3] == ["python", "-m", "mednli_jax.train"]
    succeeds("train", *words[3:])
    assert read_json("my run/result.json")["status"] == "complete"
    # The page has the command of the last session, which a complete run leaves as it is.
    stored = read_json("my run/env.json")["command"]
    assert shlex.join(stored) in html.unescape(Path("my run/report.html").read_text())
    assert "complete already" in succeeds("train", *stored[3:])[1]


@pytest.mark.parametrize("file", ["result.json", "report.html"])
def test_a_removed_result_or_page_is_written_anew_and_a_complete_run_is_left_alone(copies, file):
    """The error for a damaged result tells the user to remove it. A process may be killed before it
    writes the page."""
    before = results(copies / "whole")
    (copies / "whole" / file).unlink()

    succeeds(*resume("whole"))
    assert results(copies / "whole") == before
    files = contents(copies / "whole")
    assert file in files

    assert "nothing to do" in succeeds(*resume("whole"))[1]
    assert contents(copies / "whole") == {**files, "log.txt": ANY}


def test_a_resume_on_another_machine_goes_on_and_says_where_it_differs(copies):
    """The first processor had another number of CPUs, and another option of the compiler."""
    env = read_json("stopped/env.json")
    assert env["cpus_of_sessions"] == [env["cpus"]]
    assert env["settings"][jax_settings.YNNPACK] is None
    settings = {**env["settings"], jax_settings.YNNPACK: ""}
    edit(Path("stopped/env.json"), cpus_of_sessions=[64], settings=settings)

    _, err = succeeds(*resume("stopped"))

    note = f"trained on 64 and {env['cpus']} CPUs: not bit-identical"
    assert f"warning: {note}" in err
    for file in ("log.txt", "report.html"):
        assert note in Path("stopped", file).read_text()
    assert read_json("stopped/result.json")["notes"][-1].startswith(note)
    assert f"keeps the option of its first processor, {jax_settings.YNNPACK}=\n" in err
    resumed = read_json("stopped/env.json")
    assert resumed["cpus_of_sessions"] == [64, env["cpus"]]
    assert resumed["settings"] == settings


def test_a_run_whose_option_of_the_compiler_jax_does_not_know_is_refused(copies, monkeypatch):
    option = "xla_cpu_no_such_option"
    monkeypatch.setattr(jax_settings, "YNNPACK", option)
    env = read_json("stopped/env.json")
    edit(Path("stopped/env.json"), settings={**env["settings"], option: ""})

    assert f"install jax {env['versions']['jax']};" in refused(*resume("stopped"))


@pytest.mark.parametrize("call", ["evaluate --run=", "predict --run=", "report "])
def test_another_format_is_named_whatever_the_other_files_hold(copies, call):
    edit(Path("whole/result.json"), format=FORMAT + 1)
    for file in ("config.json", "data.json", "env.json"):
        Path("whole", file).write_text("{}")

    assert refused(f"{call}whole").startswith("error: whole: the run has format ")


def test_a_run_of_another_format_is_trained_again_with_force(copies):
    edit(copies / "stopped" / "result.json", format=FORMAT + 1)

    succeeds("train", *flags_of("warmup", "stopped", EPOCHS), "--force")

    assert results(copies / "stopped") == results(copies / "whole")


# ---- half-written runs ----


CONFIG = {"seeds": (0, 1), "model": {"name": "bow", "hidden_size": 8}, "data": {"dir": None}}
LEFT_BY_KILLED = ".{}.e3f0a91b.tmp"  # name of a temporary file that a killed process leaves


def start(folder, **options):
    """Makes or reopens a run and releases its lock, as a process does when it ends."""
    return RunDirectory.create(folder, CONFIG, **options).folder


def metrics_of(epoch):
    """The row of an epoch of two seeds, of which the second diverged."""
    row = {"epoch": epoch, "seeds": [0, 1], "train_loss": [1.0, None], "examples_per_second": 1.0}
    scores = [epoch / 4, epoch / 8]
    return row | {"train_accuracy": scores, "dev_loss": scores, "dev_accuracy": scores}


def test_epochs_to_be_trained_again_are_dropped_and_shown_once(tmp_path):
    """The first process is killed within the row of epoch 4; its last checkpoint is that of epoch
    2."""
    with contextlib.closing(RunDirectory.create(tmp_path / "a", CONFIG)) as run:
        for epoch in (1, 2, 3):
            run.append_metrics(metrics_of(epoch))
            run.write_scalars(metrics_of(epoch))
    with open(run.folder / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 4, "dev_lo')

    with contextlib.closing(RunDirectory(tmp_path / "a")) as resumed:
        resumed.truncate_metrics(2)
        resumed.append_metrics(metrics_of(3))
        resumed.write_scalars(metrics_of(3))

    lines = (run.folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]
    shown = curves(run.folder)
    assert shown["dev_loss/seed1"] == [(1, 0.125), (2, 0.25), (3, 0.375)]
    assert "train_loss/seed1" not in shown


def test_resume_removes_what_killed_processes_left_and_nothing_else(tmp_path):
    start(tmp_path / "a")
    before = contents(tmp_path)
    (tmp_path / "a" / "private" / LEFT_BY_KILLED.format("words.json")).touch()

    start(tmp_path / "a", resume=True)  # tuples have become lists, and are no change
    assert contents(tmp_path) == before


@pytest.mark.parametrize("options", [{}, {"force": True}, {"resume": True}], ids=str)
def test_a_start_that_was_killed_does_not_bar_the_next_and_other_files_do(tmp_path, options):
    (tmp_path / "a" / "private").mkdir(parents=True)
    for name in ("lock", LEFT_BY_KILLED.format("config.json")):
        (tmp_path / "a" / name).touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")

    assert "config.json" in contents(start(tmp_path / "a", **options))
    with pytest.raises(RunError, match=r"mine.*--workdir"):
        start(tmp_path / "mine", **options)
    assert contents(tmp_path / "mine") == {"config.json": b"{}"}


# ---- the lock ----

# Trains until its input ends. Arguments: the folder, an option that is True, and seconds to wait.
TRAINER = """
import sys
from mednli_jax import cli
from mednli_jax.rundir import RunDirectory
def work():
    folder, option, wait = sys.argv[1:]
    run = RunDirectory.create(folder, {"seeds": (0, 1)}, wait=float(wait), **{option: True})
    print("in", flush=True)
    sys.stdin.read()
sys.exit(cli.script(work))
"""


def trainer(folder, option, wait=0):
    command = [sys.executable, "-c", TRAINER, str(folder), option, str(wait)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, text=True, **pipes)


@cases(
    "option, wait, event, code",
    {
        "resume": ("resume", 0, "", cli.INTERRUPTED),
        "force": ("force", 0, "", cli.INTERRUPTED),
        "seconds are over": ("resume", 1, "", cli.INTERRUPTED),
        "second interrupted": ("resume", 120, "Ctrl-C", cli.INTERRUPTED),
        "first killed": ("resume", 120, "kill", cli.OK),
    },
)
def test_two_processes_never_train_in_one_folder(tmp_path, option, wait, event, code):
    """The second is refused while the first lives, and a killed one leaves no lock."""
    folder = tmp_path / "a"
    with trainer(folder, "force") as first:
        assert first.stdout.readline() == "in\n"
        before = contents(folder)
        assert RunDirectory.existing(folder).in_training()
        with trainer(folder, option, wait) as second:
            if wait:
                assert "waiting" in second.stderr.readline()
            if event == "kill":
                first.kill()
                assert second.stdout.readline() == "in\n"
            elif event:
                second.send_signal(signal.SIGINT)
            out, err = second.communicate("", timeout=60)
        first.kill()

    assert (second.returncode, out) == (code, "")
    assert err.count("\n") == (code != cli.OK)
    assert contents(folder) == before
    assert not RunDirectory.existing(folder).in_training()
    with trainer(folder, option) as third:
        assert third.communicate("", timeout=60)[0] == "in\n"


def test_a_run_in_training_is_waited_for_and_not_called_damaged(copies):
    """Its checkpoints come and go."""
    for path in Path("stopped/checkpoints").rglob("*"):
        if path.is_file():
            path.write_bytes(b"half")
    with contextlib.closing(RunDirectory.existing(Path("stopped"))) as run:
        run.lock()
        message = refused("evaluate --run=stopped")
        code, _, err = call_command(*resume("stopped", "--wait=1"))

        # The second process gets SIGTERM as it waits.
        patch = pytest.MonkeyPatch()
        patch.setattr(time, "sleep", lambda _: signal.getsignal(signal.SIGTERM)(15, None))
        ended = call_command(*resume("stopped", "--wait=60"))
        patch.undo()

    assert ended.code == cli.INTERRUPTED
    assert ended.err.splitlines()[-1] == "interrupted. Give the same command again."
    assert "in training" in message
    assert "--resume" not in message
    assert code == cli.INTERRUPTED
    assert "waiting" in err


def test_a_new_run_is_refused_where_another_process_has_made_it_meanwhile(tmp_path):
    """Both began with an empty folder. The second gets the lock when the run of the first is
    complete."""
    first = RunDirectory(private_folder(tmp_path / "a", ours=True))
    first.lock()
    with pytest.raises(ResumableError):
        start(tmp_path / "a")
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(start, tmp_path / "a", wait=60)
        time.sleep(0.3)
        assert not second.done()

        write_atomic(first.folder / "config.json", "{}")
        first.write_result("complete", {})
        before = contents(tmp_path)
        first.close()

        with pytest.raises(RunError, match="already holds a run"):
            second.result(60)
    assert contents(tmp_path) == before


def no_locks(number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, None])
def test_without_locks_a_single_run_goes_on_with_a_warning(tmp_path, monkeypatch, capsys, number):
    """The file system has none, or (None) Python has no module for them, as on Windows."""
    if number is None:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    else:
        monkeypatch.setattr(fcntl, "flock", no_locks(number))

    with contextlib.closing(RunDirectory.create(tmp_path / "a", CONFIG)) as run:
        assert not run.in_training()
    assert capsys.readouterr().err.count("warning: ") == 1


def test_another_error_of_the_lock_is_no_other_process(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", no_locks(errno.EIO))

    with pytest.raises(RunError, match=os.strerror(errno.EIO)) as raised:
        start(tmp_path / "a")
    assert raised.type is RunError


# ---- kill -9 ----


def begin(home, protocol, folder):
    """Starts or resumes a run in a process of its own."""
    epochs = 4 if protocol == "folds" else LONG
    resume = ["--resume"] if (home / folder).is_dir() else []
    flags = (*flags_of(protocol, folder, epochs), *resume)
    env = {**os.environ, **environment_of(home)}
    del env["JAX_COMPILATION_CACHE_DIR"]  # compiled programs then lie in the cache of home
    with open(home / "out.txt", "a") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "mednli_jax.train", *flags],
            cwd=home,
            stdout=out,
            stderr=out,
            env=env,
            start_new_session=True,
        )


def complete(home, protocol, folder):
    """Runs until the run is complete. Returns the seconds that this took."""
    started = time.monotonic()
    assert begin(home, protocol, folder).wait() == 0, (home / "out.txt").read_text()[-3000:]
    return time.monotonic() - started


def killed_after(process, seconds):
    """Whether the process was still running, and was killed."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_runs_killed_at_random_resume_bit_for_bit(home, protocol):
    """A kill hits start, epochs, saves or evaluation; some runs, twice."""
    rng = random.Random(protocol)
    if not (home / "source").is_dir():
        complete(home, "warmup", "source")
    # the first compiles
    longest = max(complete(home, protocol, f"{protocol}-{number}") for number in range(2))
    expected = results(home / f"{protocol}-1")

    kills = attempts = 0
    while kills < KILLS:
        for _ in range(rng.choice((1, 2))):
            attempts += 1
            assert attempts < 3 * KILLS + 3, "too few kills find a run under way"
            process = begin(home, protocol, "killed")
            kills += killed_after(process, rng.uniform(0.1, 0.9) * longest)
        complete(home, protocol, "killed")
        assert results(home / "killed") == expected
        shutil.rmtree(home / "killed")
