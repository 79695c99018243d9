"""A run directory is private, written whole or not at all, and never overwritten or trained in
twice by mistake."""

import contextlib
import errno
import json
import os
import resource
import signal
import stat
import subprocess

import numpy as np
import pytest
from support.cases import cases
from support.commands import run_python
from support.files import contents
from support.pairs import KEY, Builder

import mednli_jax
from mednli_jax import cli
from mednli_jax.data.cache import Cache
from mednli_jax.errors import RunError
from mednli_jax.files.paths import next_free
from mednli_jax.files.writing import (
    append_line,
    atomic_file,
    atomic_folder,
    private_folder,
    write_atomic,
    write_over,
)
from mednli_jax.rundir import RunDirectory, differing, environment, read_json
from mednli_jax.training.checkpoint import Checkpoints

CONFIG = {"seeds": (0, 1), "model": {"name": "bow", "hidden_size": 8}, "data": {"dir": None}}
LEFT_BY_KILLED = ".{}.e3f0a91b.tmp"  # name of a temporary file that a killed process leaves


def start(folder, config=CONFIG, **options):
    """Makes or reopens a run and releases its lock, as a process does when it ends."""
    return RunDirectory.create(folder, config, **options).folder


def raising(number):
    """A function that raises OSError with this error number."""

    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    return refuse


# ---- written whole ----


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_processes_with_equal_ids_write_one_path_at_the_same_time(kind, tmp_path):
    """Processes of two containers may have one id, as both writers of this process have."""
    path = tmp_path / "target"

    def writer(letter):
        if kind == "file":
            with atomic_file(path) as file:
                yield file.write(letter.encode() * 2500)
                file.write(letter.encode() * 2500)
        else:
            with atomic_folder(path) as folder:
                yield write_atomic(folder / "first", letter)
                write_atomic(folder / "second", letter)

    writers = [writer("1"), writer("2")]
    for half_written in writers:
        next(half_written)
    for half_written in writers:
        assert next(half_written, None) is None

    text = b"".join(contents(path).values()) if kind == "folder" else path.read_bytes()
    assert text in {letter * len(text) for letter in (b"1", b"2")}
    assert {file.name for file in tmp_path.iterdir()} <= {".gitignore", "target"}


KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
from mednli_jax.files.writing import atomic_folder, write_atomic
with atomic_folder(Path(sys.argv[1])) as folder:
    write_atomic(folder / "text", "quokka")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_folders_that_killed_processes_left_are_removed_and_those_in_use_are_not(tmp_path):
    target = tmp_path / "target"
    assert run_python("-c", KILLED_WRITER, target).returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".target.*/text"))) == 1

    with atomic_folder(target) as first:
        assert list(tmp_path.glob(".target.*")) == [first]
        with atomic_folder(target) as second:
            assert {*tmp_path.glob(".target.*")} == {first, second}
    assert not list(tmp_path.glob(".target.*"))


def write_folder(folder):
    with atomic_folder(folder / "below" / "target") as target:
        write_atomic(target / "numbers.json", "1" * 5000)


def write_run(folder):
    with contextlib.closing(RunDirectory.create(folder / "run", CONFIG, force=True)) as run:
        run.write_lines("predictions.dev.jsonl", [{"uid": "a" * 5000}])
        run.write_result("complete", {"seconds": 1.0})


def save_checkpoint(folder):
    Checkpoints(folder / "c").save({"a": np.random.default_rng(0).random(9000)}, {})


def write_file(folder):
    write_atomic(folder / "a.json", "new" * 5000)


def write_line(folder):
    append_line(folder / "log.txt", "new" * 5000)


def write_prepared_corpus(folder):
    Cache(folder).get("c", KEY, Builder())


WRITERS = (
    write_file,
    write_line,
    write_folder,
    write_run,
    write_prepared_corpus,
    save_checkpoint,
)


@contextlib.contextmanager
def full_disk():
    """The system refuses bytes of a file beyond 500."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextlib.contextmanager
def read_only_folder():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("open", "mkdir", "replace"):
            patch.setattr(os, name, raising(errno.EROFS))
        yield


@pytest.mark.parametrize("refusal", [full_disk, read_only_folder])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_refused_write_is_one_line_and_leaves_no_half(writer, refusal, tmp_path, capsys):
    """Once there is room again, it succeeds."""

    def write():
        writer(tmp_path)

    for file in ("a.json", "log.txt"):
        (tmp_path / file).write_text("old\n")

    with refusal():
        code = cli.script(write)

    lines = capsys.readouterr().err.splitlines()
    (error,) = [line for line in lines if not line.startswith("warning")]
    assert code == cli.USAGE
    assert error.startswith("error: ")
    assert " Fix: " in error
    assert not [path for path in tmp_path.rglob("*") if "tmp" in path.suffix or "-tmp" in path.name]
    assert (tmp_path / "a.json").read_text() == "old\n"
    assert cli.script(write) == 0


def test_a_file_that_replaces_an_open_one_is_private(tmp_path):
    (tmp_path / "a.json").touch(0o644)

    write_atomic(tmp_path / "a.json", "new")

    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o600


def test_a_page_takes_no_other_files_place(tmp_path):
    path = tmp_path / "report.html"
    head = "<!DOCTYPE html>"
    write_over(path, f"{head}1", head)
    write_over(path, f"{head}2", head)

    path.write_text("my notes")
    with pytest.raises(RunError, match=r"report\.html"):
        write_over(path, f"{head}3", head)
    assert path.read_text() == "my notes"


# ---- begun once ----


def test_a_new_run_has_its_config_and_is_private(tmp_path):
    os.umask(0o022)
    folder = start(tmp_path / "a")

    assert read_json(folder / "config.json") == json.loads(json.dumps(CONFIG))
    assert RunDirectory.existing(folder).status() == "running"
    for path in (folder, *folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path.name == "lock"


def test_runs_and_private_folders_stay_out_of_git_and_folders_of_the_user_do_not(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    start(tmp_path / "runs" / "a")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "thesis.tex").touch()
    private = private_folder(private_folder(tmp_path / "figures") / "private")
    (private / "words.txt").touch()

    git = ["git", "add", "-A", "-n"]
    added = subprocess.run(git, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert added.stdout.splitlines() == ["add 'figures/thesis.tex'"]


def test_the_next_free_folder_has_a_number_where_the_name_is_taken(tmp_path):
    (tmp_path / "a").mkdir()

    assert [next_free(tmp_path / name).name for name in ("a", "b")] == ["a-2", "b"]


def test_a_run_is_begun_again_only_with_force_which_deletes_its_own_files_alone(tmp_path):
    with contextlib.closing(RunDirectory.create(tmp_path / "a", CONFIG)) as run:
        run.write_result("complete", {"accuracy": 0.7})
        run.append_metrics({"epoch": 1})
        write_atomic(run.private / "vocabulary.json", "[]")
        (run.checkpoints / "1").mkdir(parents=True)
        (run.checkpoints / "1" / "array").touch()
        (run.folder / "thesis.tex").touch()
    before = contents(tmp_path)

    with pytest.raises(RunError, match=r"status complete.*--resume.*--force.*another --workdir"):
        start(tmp_path / "a")
    assert contents(tmp_path) == before

    start(tmp_path / "a", {**CONFIG, "seeds": (5,)}, force=True)
    left = contents(tmp_path / "a")
    assert set(left) == {".gitignore", "config.json", "lock", "thesis.tex"}
    assert json.loads(left["config.json"])["seeds"] == [5]


def test_a_field_that_one_of_two_configs_has_is_a_difference():
    more = {**CONFIG, "model": {**CONFIG["model"], "dropout": 0.0}}

    assert differing(CONFIG, more) == differing(more, CONFIG) == ["model.dropout"]


# ---- the machine ----


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_the_cpus_are_those_that_the_process_may_use():
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    try:
        assert environment().cpus == 1
    finally:
        os.sched_setaffinity(0, cpus)


# ---- the commit ----


@cases(
    "place, tracked",
    {
        "its own checkout": ("checkout", "mednli_jax"),
        "unpacked in another project": ("checkout", "README"),
        "installed in another project": ("project/.venv/lib", "README"),
    },
)
def test_the_commit_is_that_of_the_packages_own_checkout(tmp_path, monkeypatch, place, tracked):
    package = tmp_path / place / "mednli_jax"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    root = tmp_path / place.partition("/")[0]
    (root / "README").touch()

    def git(*words):
        command = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    git("add", tracked)
    git("commit", "-qm", "a")
    monkeypatch.setattr(mednli_jax, "__file__", str(package / "__init__.py"))

    commit = environment().commit
    assert bool(commit) == (tracked == "mednli_jax")
    assert git("rev-parse", "HEAD").startswith(commit)
