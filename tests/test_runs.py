"""A run directory is private, written whole or not at all, and never overwritten or trained in
twice by mistake."""

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.commands import ROOT
from support.files import contents
from support.pairs import KEY, Builder
from support.runs import curves

import mednli_jax
from mednli_jax import cli
from mednli_jax.data.cache import Cache
from mednli_jax.errors import ResumableError, RunError
from mednli_jax.files import (
    append_line,
    atomic_file,
    atomic_folder,
    next_free,
    private_folder,
    write_atomic,
    write_over,
)
from mednli_jax.rundir import RunDirectory, environment, read_json
from mednli_jax.training.checkpoint import Checkpoints

CONFIG = {"seeds": (0, 1), "model": {"name": "bow", "hidden_size": 8}, "data": {"dir": None}}


def start(folder, config=CONFIG, **how):
    """Makes or reopens a run and releases its lock, as a process does when it ends."""
    return RunDirectory.create(folder, config, **how).folder


# ---- written whole ----


def write_folder(folder):
    with atomic_folder(folder / "below" / "made") as made:
        write_atomic(made / "one.json", "1" * 5000)


def write_run(folder):
    with contextlib.closing(RunDirectory.create(folder / "run", CONFIG, force=True)) as run:
        run.write_lines("predictions.dev.jsonl", [{"uid": "a" * 5000}])
        run.write_result("complete", {"seconds": 1.0})


ACTS = {
    "file": lambda folder: write_atomic(folder / "a.json", "new" * 5000),
    "line": lambda folder: append_line(folder / "log.txt", "new" * 5000),
    "folder": write_folder,
    "run": write_run,
    "prepared corpus": lambda folder: Cache(folder).get("c", KEY, Builder()),
    "checkpoint": lambda folder: Checkpoints(folder / "c").save(
        {"a": np.random.default_rng(0).random(9000)}, {}
    ),
}


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_processes_with_equal_ids_write_one_path_at_the_same_time(kind, tmp_path):
    """Processes of two containers may have one id, as both writers of this process have."""
    path, whole = tmp_path / "made", ["1" * 5000, "2" * 5000]

    def writer(content):
        if kind == "file":
            with atomic_file(path) as file:
                yield file.write(content[:2500].encode())
                file.write(content[2500:].encode())
        else:
            with atomic_folder(path) as folder:
                yield write_atomic(folder / "first", content[:2500])
                write_atomic(folder / "second", content[2500:])

    writers = [writer(content) for content in whole]
    for first_half in writers:
        next(first_half)
    for second_half in writers:
        assert next(second_half, None) is None
    files = [path] if kind == "file" else [path / "first", path / "second"]
    assert "".join(file.read_text() for file in files) in whole
    assert sorted(path.name for path in tmp_path.iterdir()) in (["made"], [".gitignore", "made"])


def test_folders_that_killed_processes_left_are_removed_and_those_in_use_are_not(tmp_path):
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom mednli_jax.files import atomic_folder, write_atomic\n"
        "with atomic_folder(Path(sys.argv[1])) as folder:\n"
        "    write_atomic(folder / 'text', 'quokka')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "made")], env={"PYTHONPATH": str(ROOT)}
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".made.*/text"))) == 1
    with atomic_folder(tmp_path / "made") as first:
        assert list(tmp_path.glob(".made.*")) == [first]
        with atomic_folder(tmp_path / "made") as second:
            assert {*tmp_path.glob(".made.*")} == {first, second}
    assert not list(tmp_path.glob(".made.*"))


def refuse(*_, **__):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("refusal", ["full disk", "read-only folder"])
@pytest.mark.parametrize("act", ACTS)
def test_a_refused_write_is_one_line_and_leaves_no_half(
    act, refusal, tmp_path, capsys, monkeypatch
):
    """The system refuses bytes of a file beyond 500, or everything. Once there is room again, the
    act succeeds."""
    for name in ("a.json", "log.txt"):
        (tmp_path / name).write_text("old\n")
        (tmp_path / name).chmod(0o644)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with monkeypatch.context() as patch:
        if refusal == "full disk":
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
        else:
            for name in ("open", "mkdir", "replace"):
                patch.setattr(os, name, refuse)
        try:
            code = cli.script(lambda: ACTS[act](tmp_path))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (line,) = [
        line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning")
    ]
    assert (code, line.startswith("error: "), " Fix: " in line) == (cli.USAGE, True, True)
    assert not [
        path
        for path in tmp_path.rglob("*")
        if path.suffix == ".tmp" or "orbax-checkpoint-tmp" in path.name
    ]
    assert (tmp_path / "a.json").read_text() == "old\n"
    assert cli.script(lambda: ACTS[act](tmp_path) and None) == 0
    if act == "file":
        assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o600  # whatever was there


def test_a_page_takes_no_other_files_place(tmp_path):
    path = tmp_path / "report.html"
    for page in ("<!DOCTYPE html>one", "<!DOCTYPE html>two"):
        write_over(path, page, "<!DOCTYPE html>")
    path.write_text("my notes")
    with pytest.raises(RunError, match=r"report\.html"):
        write_over(path, page, "<!DOCTYPE html>")
    assert path.read_text() == "my notes"


# ---- begun once ----


def test_a_new_run_is_private_and_stays_out_of_git(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    old = os.umask(0o022)
    try:
        folder = start(tmp_path / "runs" / "a")
    finally:
        os.umask(old)
    assert read_json(folder / "config.json") == json.loads(json.dumps(CONFIG))
    for path in (folder, *folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path.name == "lock"
    assert RunDirectory.existing(folder).status() == "running"
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "thesis.tex").write_text(
        "x"
    )  # a folder of the user's own is seen as before
    (private_folder(private_folder(tmp_path / "figures") / "private") / "words.txt").write_text("x")
    done = subprocess.run(
        ["git", "add", "-A", "-n"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["add 'figures/thesis.tex'"]
    assert [next_free(tmp_path / "runs" / name).name for name in ("a", "b")] == ["a-2", "b"]


def test_a_run_is_begun_again_only_with_force_which_deletes_its_own_files_alone(tmp_path):
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    run.write_result("complete", {"accuracy": 0.7})
    run.append_metrics({"epoch": 1})
    write_atomic(run.private / "vocabulary.json", "[]")
    (run.checkpoints / "1").mkdir(parents=True)
    (run.checkpoints / "1" / "array").write_text("x")
    (run.folder / "thesis.tex").write_text("x")
    del run
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"status complete.*--resume.*--force.*another --workdir"):
        start(tmp_path / "a")
    assert contents(tmp_path) == before
    start(tmp_path / "a", {**CONFIG, "seeds": (5,)}, force=True)
    left = contents(tmp_path / "a")
    assert set(left) == {".gitignore", "config.json", "lock", "thesis.tex"}
    assert json.loads(left["config.json"])["seeds"] == [5]


@pytest.mark.parametrize("how", [{}, {"force": True}, {"resume": True}])
def test_a_folder_of_something_else_is_left_alone(tmp_path, how):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    with pytest.raises(RunError, match=r"mine.*--workdir"):
        start(tmp_path / "mine", **how)
    assert contents(tmp_path) == {"mine/config.json": b"{}"}


def test_a_start_that_was_killed_does_not_bar_the_next(tmp_path):
    for number, how in enumerate(({}, {"resume": True}, {"force": True})):
        folder = tmp_path / str(number)
        (folder / "private").mkdir(parents=True)
        for name in ("lock", ".config.json.4711.tmp", ".config.json.e3f0a91b.tmp"):
            (folder / name).write_text("")
        assert "config.json" in contents(start(folder, **how))


# ---- gone on with ----


def test_resume_names_changed_fields_and_no_other(tmp_path):
    start(tmp_path / "a")
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"other values of model\.hidden_size, seeds\."):
        start(tmp_path / "a", {**CONFIG, "seeds": (0, 2), "model": {"name": "bow"}}, resume=True)
    for suffix in ("4711", "e3f0a91b", "0f00d00f"):  # left by killed processes
        (tmp_path / "a" / "private" / f".words.json.{suffix}.tmp").write_text("x")
    start(tmp_path / "a", resume=True)  # tuples have become lists, and are no change
    assert contents(tmp_path) == before


def test_epochs_to_be_trained_again_are_dropped_and_shown_once(tmp_path):
    """The first process is killed within the row of epoch 4; its last checkpoint is that of epoch
    2."""
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    for epoch in (1, 2, 3):
        row = {
            "epoch": epoch,
            "seeds": [0, 1],
            "examples_per_second": 1.0,
            "train_loss": [1.0, None],
        }
        row |= {
            name: [epoch / 4, epoch / 8] for name in ("train_accuracy", "dev_loss", "dev_accuracy")
        }
        run.append_metrics(row)
        run.write_scalars(row)
    run.close()
    with open(run.folder / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 4, "dev_lo')
    again = RunDirectory(tmp_path / "a")
    again.keep_metrics(2)
    again.append_metrics(row)
    again.write_scalars(row)
    again.close()
    lines = (run.folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]
    shown = curves(run.folder)
    assert shown["dev_loss/seed1"] == [(1, 0.125), (2, 0.25), (3, 0.375)]
    assert "train_loss/seed1" not in shown  # the seed diverged


# ---- the lock ----

OTHER_PROCESS = """
import os, sys
from mednli_jax import cli
from mednli_jax.rundir import RunDirectory
def work():
    flags, wait = {name: True for name in sys.argv[2:]}, float(os.environ.get("WAIT", 0))
    run = RunDirectory.create(sys.argv[1], {"seeds": (0, 1)}, wait=wait, **flags)
    print("in", flush=True)
    sys.stdin.read()
sys.exit(cli.script(work))
"""


@pytest.mark.parametrize("how", ["resume", "force"])
def test_two_processes_never_train_in_one_folder(tmp_path, how):
    """The second is refused while the first lives, and a killed one leaves no lock."""
    command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path / "a")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout.readline() == "in\n"
        before = contents(tmp_path)
        assert RunDirectory.existing(tmp_path / "a").in_training()
        second = subprocess.run(
            [*command, how], capture_output=True, text=True, input="", timeout=60
        )
        assert (second.returncode, second.stdout, second.stderr.count("\n")) == (3, "", 1)
        assert str(tmp_path / "a") in second.stderr
        assert contents(tmp_path) == before
        first.kill()
    assert not RunDirectory.existing(tmp_path / "a").in_training()
    third = subprocess.run([*command, how], capture_output=True, text=True, input="", timeout=60)
    assert third.stdout == "in\n"


@pytest.mark.parametrize("ends", ["first", "second", "neither"])
def test_a_second_process_waits_for_the_first(tmp_path, ends):
    """It goes on where the first is killed, and ends with 3 after Ctrl-C or its seconds."""
    command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path / "a")]
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    wait = {**os.environ, "WAIT": "1" if ends == "neither" else "120"}
    with subprocess.Popen(command, **pipes) as first:
        assert first.stdout.readline() == "in\n"
        with subprocess.Popen([*command, "resume"], **pipes, env=wait) as second:
            assert "waiting" in second.stderr.readline()
            if ends == "first":
                first.kill()
                assert second.stdout.readline() == "in\n"
            elif ends == "second":
                second.send_signal(signal.SIGINT)
            out, err = second.communicate("", timeout=60)
            assert (second.returncode, out) == (cli.OK if ends == "first" else cli.INTERRUPTED, "")
            assert err.count("\n") == (0 if ends == "first" else 1)
        first.kill()


def test_a_new_run_is_refused_where_another_process_has_made_it_meanwhile(tmp_path):
    """Both began with an empty folder. The second gets the lock when the run of the first is
    complete."""
    first = RunDirectory(private_folder(tmp_path / "a", ours=True))
    first.lock()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(RunDirectory.create, tmp_path / "a", CONFIG, wait=60)
        time.sleep(0.3)
        assert not second.done()
        write_atomic(first.folder / "config.json", "{}")
        first.write_result("complete", {})
        before = contents(tmp_path)
        first.close()
        with pytest.raises(RunError, match="already holds a run"):
            second.result(60)
    assert contents(tmp_path) == before


def test_a_new_run_in_a_folder_where_another_process_trains_is_resumable(tmp_path):
    with (
        contextlib.closing(RunDirectory.create(tmp_path / "a", CONFIG)),
        pytest.raises(ResumableError),
    ):
        start(tmp_path / "a")


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, None])
def test_without_locks_a_single_run_goes_on_with_a_warning(tmp_path, monkeypatch, capsys, number):
    """The file system has none, or (None) Python has no module for them, as on Windows."""
    if number is None:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    else:
        monkeypatch.setattr(fcntl, "flock", failing(number))
    with contextlib.closing(RunDirectory.create(tmp_path / "a", CONFIG)) as run:
        assert not run.in_training()
    assert capsys.readouterr().err.count("warning: ") == 1


def test_another_error_of_the_lock_is_no_other_process(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", failing(errno.EIO))
    with pytest.raises(RunError, match=os.strerror(errno.EIO)) as raised:
        start(tmp_path / "a")
    assert raised.type is RunError


def failing(number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    return fail


def test_the_package_is_imported_without_a_module_for_locks():
    code = "import sys; sys.modules['fcntl'] = None; import mednli_jax.__main__, mednli_jax.sweeps"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- where it began ----


@pytest.mark.parametrize(
    ("place", "tracked"), [("checkout", True), ("checkout", False), ("project/.venv/lib", False)]
)
def test_the_commit_is_that_of_the_packages_own_checkout(tmp_path, monkeypatch, place, tracked):
    """A package that is unpacked or installed inside of another project's work tree has none."""
    package = tmp_path / place / "mednli_jax"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    root = tmp_path / place.partition("/")[0]
    (root / "README").write_text("")
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "." if tracked else "README"], ["commit", "-qm", "a"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(mednli_jax, "__file__", str(package / "__init__.py"))
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout
    commit = environment().commit
    assert head.startswith(commit)
    assert bool(commit) == tracked


@pytest.mark.parametrize("resumable", [True, False])
def test_a_failed_run_names_resume_where_it_works(tmp_path, resumable):
    with contextlib.closing(RunDirectory.create(tmp_path / "a", CONFIG)) as run:
        run.write_result("failed", {"resumable": resumable})
    with pytest.raises(RunError) as refused:
        start(tmp_path / "a")
    for error in (refused.value, run.unfinished("failed")):
        assert ("--resume" in str(error)) == resumable
        assert "log.txt" in str(error)
