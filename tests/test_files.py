"""Files are written whole or not at all, by one writer: on refusing disks, after kills, or with something in the way.

test_kill.py has the tests that take minutes: kills and thousands of damages.
"""

import ast
import contextlib
import errno
import gc
import hashlib
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from made_up_files import KEY, Builder, contents, ontology, rich, some_pairs
from test_checkpoint import training
from test_filtering import by_feature, corpus

from mednli_jax import cli, errors
from mednli_jax.analysis.artifacts import filtering
from mednli_jax.corpora.cache import Cache
from mednli_jax.errors import RunError, UserError
from mednli_jax.files import append_line, atomic_folder, read_sealed, write_atomic, write_over, write_sealed
from mednli_jax.knowledge.paths import stored_paths
from mednli_jax.knowledge.store import stored
from mednli_jax.runs import RunDirectory
from mednli_jax.training.checkpoint import Checkpoints

ROOT = Path(__file__).parent.parent
CONFIG = {"seeds": (0, 1), "model": {"name": "bow"}}

# ---- one writer: other calls that write a file, by file and call, with their reasons ----

SCRATCH = "a temporary folder of its own, removed at the end"
DECLARED = {
    ("mednli_jax/files.py", "open"): "the atomic writer itself, and lines added at a file's end",
    ("mednli_jax/runs.py", "open"): "the lock",
    ("mednli_jax/files.py", "os.open"): "the atomic writer itself, and lines added at a file's end",
    ("mednli_jax/files.py", "os.replace"): "the atomic writer itself",
    ("mednli_jax/runs.py", "EventsWriter"): "TensorBoard's events are added at a file's end",
    ("mednli_jax/benchmarking/results.py", "open"): "is the file there to add rows to: asked before they are measured",
    ("mednli_jax/sweeps/study.py", "os.open"): "a lock",
    ("mednli_jax/sweeps/study.py", "open"): "a lock",
    ("mednli_jax/sweeps/study.py", "optuna.storages.RDBStorage"): "a database, which has transactions",
    ("mednli_jax/sweeps/worker.py", "os.open"): "what a trial prints is added at its log's end",
    ("mednli_jax/sweeps/worker.py", "open"): "what a trial prints is added at its log's end",
    ("mednli_jax/training/checkpoint.py", "checkpointer.save"): "Orbax: a temporary name, renamed; then the manifest",
    ("mednli_jax/training/checkpoint.py", "link.symlink_to"): "a link without content, in a temporary folder",
    ("mednli_jax/training/loop.py", "self.checkpoints.save"): "is Checkpoints.save, that one",
    ("mednli_jax/analysis/artifacts/filtering.py", "save"): "is its own, which writes by the atomic writer",
    ("mednli_jax/corpora/cache.py", "vocab.save"): "is Vocab.save, which writes by the atomic writer",
    ("mednli_jax/corpora/diskne/store.py", "os.replace"): "a folder of whole files takes its name",
    ("mednli_jax/corpora/nli/tfds.py", "download_and_prepare"): "TFDS fills a temporary folder",
    ("mednli_jax/knowledge/pretrain.py", "open"): SCRATCH,
    ("mednli_jax/knowledge/pretrain.py", "Path(fault).write_text"): SCRATCH,
    ("mednli_jax/knowledge/pretrain.py", "save_model"): SCRATCH,
    ("launch/cloze_vectors.py", "os.replace"): "the best of the whole files that the search made takes another name",
    ("launch/cloze_scale.py", "open"): SCRATCH,
    ("launch/umls_reader_scale.py", "open"): SCRATCH,
    ("launch/fasttext_reference.py", "path.write_text"): SCRATCH,
    ("launch/diskne_speed.py", "symlink_to"): SCRATCH,
}  # fmt: skip
# Functions and methods of these names write files.
WRITERS = {
    *("write_text", "write_bytes", "tofile", "touch", "symlink_to", "hardlink_to", "rename", "dump"),
    *("save", "savez", "savez_compressed", "savetxt", "savefig", "to_csv", "to_json", "to_parquet", "to_pickle"),
    *("copyfile", "copy2", "copytree", "move", "mkstemp", "NamedTemporaryFile", "open_memmap", "connect"),
    *("make_archive", "FileHandler", "start_trace"),
    *("SummaryWriter", "EventsWriter", "FileWriter", "RDBStorage", "download_and_prepare", "save_model"),
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
INTO_MEMORY = {"BytesIO", "StringIO", "atomic_file"}  # writing to what these return is harmless


def name_of(call):
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def opens_to_write(call):
    """Whether a call of any `open` asks for more than reading."""
    if ast.unparse(call.func) == "os.open":
        return "O_RDONLY" not in ast.unparse(call)
    if ast.unparse(call.func) == "os.fdopen":
        return True
    place = 1 if isinstance(call.func, ast.Name) or ast.unparse(call.func.value) in ("gzip", "io", "bz2", "lzma") else 0
    modes = [*call.args[place : place + 1], *(word.value for word in call.keywords if word.arg == "mode")]
    # A mode that is not a literal is ignored. A first string that is not a mode belongs to another kind of `open`.
    texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
    return any(set(text) & set("wax+") and set(text) <= set("rwaxbt+U") for text in texts)


def is_write(call):
    name = name_of(call)
    if name in ("open", "fdopen"):
        return opens_to_write(call)
    # str.replace takes two arguments, dataclasses.replace takes names, and Path.replace takes one argument
    if name == "replace":
        return ast.unparse(call.func) == "os.replace" or (len(call.args) == 1 and not call.keywords)
    return name in WRITERS and (name != "save" or bool(call.args))


def harmless(call, taken):
    """Whether a call writes into memory, the atomic writer's file, os.devnull, or a stream that is open already."""
    first = ast.unparse(call.args[0]) if call.args else ""
    return first in taken or first == "os.devnull" or first.startswith(("os.open(os.devnull", "os.dup("))


def writes(source):
    """(line, call) of each place that writes a file by itself."""
    tree = ast.parse(source)
    for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, FUNCTIONS))]:
        nodes = list(within(scope))
        taken = set()
        for node in nodes:
            made = getattr(node, "value", None) if isinstance(node, ast.Assign) else getattr(node, "context_expr", None)
            if isinstance(made, ast.Call) and name_of(made) in INTO_MEMORY:
                targets = node.targets if isinstance(node, ast.Assign) else [node.optional_vars]
                taken |= {ast.unparse(target) for target in targets if target is not None}
        for node in nodes:
            if isinstance(node, ast.Call) and is_write(node) and not harmless(node, taken):
                yield node.lineno, ast.unparse(node.func)


def within(scope):
    """The nodes of a scope, except those of functions defined in it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, FUNCTIONS):
            yield child
            yield from within(child)


def declared(file, call):
    """The row of DECLARED for a call, by the whole call or by the method's name."""
    return next((key for key in ((file, call), (file, call.rpartition(".")[2])) if key in DECLARED), None)


def test_every_file_is_written_by_the_atomic_writer_or_declared():
    used, found = set(), []
    for path in sorted([*(ROOT / "mednli_jax").rglob("*.py"), *(ROOT / "launch").glob("*.py")]):
        file = path.relative_to(ROOT).as_posix()
        if file == "launch/mutation_check.py":  # it works in a temporary folder
            continue
        for line, call in writes(path.read_text()):
            used.add(declared(file, call))
            found += [f"{file}:{line}: {call}"] * (declared(file, call) is None)
    assert found == []
    assert set(DECLARED) - used == set(), "declared, and not there any more"


@pytest.mark.parametrize(
    "planted",
    [
        'open(path, "w")', 'open(path, mode="ab")', 'path.open("x")', 'gzip.open(path, "wt")', "path.write_text(text)",
        "path.write_bytes(data)", "np.save(path, array)", "numpy.savez(path, a=a)", "array.tofile(path)",
        "figure.savefig(path)", "table.to_csv(path)", "json.dump(value, file)", "os.replace(one, other)",
        "one.replace(other)", "shutil.copyfile(one, other)", "os.open(path, os.O_WRONLY | os.O_CREAT)",
        "sqlite3.connect(path)", "SummaryWriter(folder)", 'def f():\n    with open(path, "wb") as file:\n        pass',
        "def f():\n    buffer = io.BytesIO()\ndef g(buffer):\n    np.save(buffer, array)",
    ],
)  # fmt: skip
def test_a_planted_write_is_found(planted):
    assert len(list(writes(planted))) == 1


@pytest.mark.parametrize(
    "planted",
    [
        "open(path)", 'open(path, "rb")', 'path.open("r")', 'Study.open(url, name)', 'text.replace("a", "b")',
        "replace(state, score=score)", "state.replace(params=params)", 'open(os.devnull, "w")',
        'os.fdopen(os.dup(1), "w")', "buffer = io.BytesIO()\nnp.save(buffer, array)",
        "with atomic_file(path) as file:\n    np.save(file, array)", "json.dumps(value)", "write_atomic(path, text)",
    ],
)  # fmt: skip
def test_what_only_reads_or_writes_to_memory_is_not(planted):
    assert list(writes(planted)) == []


# ---- a disk that refuses ----


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Skips fsync: hundreds of small files would take most of the time, and the result is the same."""
    monkeypatch.setattr(os, "fsync", lambda number: None)


def temporaries(folder):
    return [path for path in folder.rglob("*") if path.suffix == ".tmp" or "orbax-checkpoint-tmp" in path.name]


class Disk:
    """A disk that grants `room` requests and refuses all later ones, as if it became full or read-only."""

    REQUESTS = ("open", "mkdir", "fsync", "replace", "rename")
    REMOVALS = ("unlink", "rmdir")

    def __init__(self, room, error):
        self.room, self.error, self.asked = room, error, 0

    def ask(self, path):
        self.asked += 1
        if self.asked > self.room:
            raise OSError(self.error, os.strerror(self.error), str(path))

    def guarded(self, name, real):
        def call(*arguments, **named):
            reads = name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not reads:
                self.ask(arguments[0])
            return real(*arguments, **named)

        return call

    @contextlib.contextmanager
    def mounted(self):
        """A full disk still removes files, but a read-only one does not."""
        names = self.REQUESTS + (self.REMOVALS if self.error == errno.EROFS else ())
        with pytest.MonkeyPatch.context() as patch:
            for name in names:
                patch.setattr(os, name, self.guarded(name, getattr(os, name)))
            yield self


def prepared(folder):
    return Cache(folder).get("c", KEY, Builder())[0]


def distances(folder):
    return stored_paths(ontology(), some_pairs(), folder=folder / "paths")


FEATURES, LABELS, UIDS = corpus()
WISH = filtering.Settings(m=20, n=8, k=5, tau=0.6)


def filtered(folder, **how):
    return filtering.filtered(FEATURES, LABELS, UIDS, WISH, by_feature, folder=folder / "filtered", **how)


def trained(folder):
    """Writes everything that a run writes, except checkpoints."""
    run = RunDirectory.create(folder / "run", CONFIG, force=True)
    run.write_result("running", {})
    run.append_metrics({"epoch": 1, "dev_loss": [0.5]})
    run.log("epoch 1")
    run.write_predictions("dev", [{"uid": "a"}])
    run.write_result("complete", {"seconds": 1.0})
    return run.folder


# For each name: the files before, the act, and whether the files are right afterwards.
def over_a_file(folder):
    write_atomic(folder / "a.json", "new" * 5000)


def a_line_more(folder):
    append_line(folder / "log.txt", "new" * 5000)


def a_folder(folder):
    with atomic_folder(folder / "below" / "made") as made:
        write_atomic(made / "one.json", "1" * 5000)
        write_atomic(made / "two.json", "2")


def saved(folder):
    Checkpoints(folder / "checkpoints").save(training(), {"epoch": 3})


ACTS = {
    "file": over_a_file,
    "line": a_line_more,
    "folder": a_folder,
    "run": trained,
    "prepared": prepared,
    "ontology": lambda folder: stored(folder / "ontologies" / "x", KEY, rich),
    "distances": distances,
    "filtering": filtered,
}


def before(folder):
    """A folder with old files in it."""
    folder.mkdir()
    (folder / "a.json").write_text("old")
    (folder / "log.txt").write_text("old\n")
    return folder


def refused(act, folder, capsys):
    """Runs the act in a script. A refusal must print one line and exit with 2. Returns the exit code."""

    def work():
        act(folder)

    mask = os.umask(0o077)
    try:
        code = cli.script(work)
    finally:
        os.umask(mask)
    printed = capsys.readouterr().err.splitlines()
    if code:
        assert code == cli.USAGE
        assert printed[-1].startswith("error: ")
        assert " Fix: " in printed[-1]
        assert sum(line.startswith("error: ") for line in printed) == 1
        assert not any("Traceback" in line for line in printed)
    return code


@pytest.mark.parametrize("act", ACTS)
def test_whichever_request_a_full_disk_refuses_nothing_half_written_stays(act, tmp_path, capsys):
    for room in range(200):
        folder = before(tmp_path / str(room))
        with Disk(room, errno.ENOSPC).mounted() as disk:
            code = refused(ACTS[act], folder, capsys)
        if disk.asked <= room:
            assert code == 0
            break
        assert code == 2, f"refused request {room + 1} went unnoticed"
        assert temporaries(folder) == []
        left = contents(folder)
        assert (left["a.json"], left["log.txt"]) == (b"old", b"old\n")
        assert refused(ACTS[act], folder, capsys) == 0 or act == "filtering"  # there is room again
    assert room >= {"line": 1, "file": 3}.get(act, 4)


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("act", ACTS)
def test_a_folder_that_may_not_be_written_is_one_line_and_stays_as_it_is(act, error, tmp_path, capsys):
    folder = before(tmp_path / "a")
    old = contents(folder)
    with Disk(0, error).mounted() as disk:
        assert refused(ACTS[act], folder, capsys) == 2
    assert disk.asked
    assert contents(folder) == old
    assert temporaries(folder) == []


@pytest.mark.parametrize("size", [0, 1, 100, 4096])
@pytest.mark.parametrize("act", ["file", "line", "folder", "prepared", "ontology"])
def test_a_file_that_the_disk_takes_a_part_of_leaves_no_part(act, size, tmp_path, capsys):
    """A resource limit makes the system refuse files beyond this size."""
    folder = before(tmp_path / "a")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        code = refused(ACTS[act], folder, capsys)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    small = act in ("prepared", "ontology") and size == 4096  # only the manifests may be larger
    assert code == 2 or small
    if code:
        assert temporaries(folder) == []
        left = {
            name: text
            for name, text in contents(folder).items()
            if not (name.endswith("/.gitignore") and text == b"*\n")
        }
        assert left == {"a.json": b"old", "log.txt": b"old\n"}
        assert refused(ACTS[act], folder, capsys) == 0


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_the_last_good_checkpoint_survives_every_refusal(error, tmp_path, capsys):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for epoch in (1, 2):
        checkpoints.save(training(), {"epoch": epoch})
    asked, threads = Counter(), set(threading.enumerate())
    for room in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55):
        number, old = checkpoints.numbers()[-1], Checkpoints(checkpoints.folder).load()[1]["epoch"]
        with Disk(room, error).mounted() as disk:
            code = refused(saved, tmp_path, capsys)
        asked[code] += 1
        if disk.asked <= room:
            break
        if code:  # otherwise the new one is complete, and an old one could not be removed
            assert checkpoints.numbers()[-1] == number
            if error == errno.ENOSPC:
                assert temporaries(tmp_path) == []
        assert Checkpoints(checkpoints.folder).load()[1]["epoch"] == (3 if code == 0 else old)
        assert capsys.readouterr().err == ""  # no checkpoint is damaged
    assert asked[2] >= 2
    gc.collect()  # a pool that is part of a cycle ends its idle threads only when it is collected
    for thread in set(threading.enumerate()) - threads:  # a waiting thread would keep the process from ending
        thread.join(10)
        assert not thread.is_alive(), thread.name
    saved(tmp_path)
    assert Checkpoints(checkpoints.folder).load()[1]["epoch"] == 3
    assert len(list(checkpoints.folder.iterdir())) == 4
    assert temporaries(tmp_path) == []


SAVE_UNTIL_FULL = """
import sys
from pathlib import Path
import numpy as np
from mednli_jax.errors import UserError
from mednli_jax.training.checkpoint import Checkpoints

rng, folder = np.random.default_rng(0), Path(sys.argv[1]) / "checkpoints"
tree = {f"a{i}": rng.normal(size=1000) for i in range(12)}
Checkpoints(folder).save(tree, {"epoch": 1})
number = 0
try:
    while True:
        (folder.parent / f"other-{number}").write_bytes(bytes(40_000))
        Checkpoints(folder).save(tree, {"epoch": 2 + number})
        number += 1
except (UserError, OSError) as error:
    print(error)
print(Checkpoints(folder).load()[1]["epoch"] == 1 + number, len(list(folder.iterdir())) == 2 * min(number + 1, 2))
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no private mounts")
@pytest.mark.parametrize("kilobytes", [300, 360, 420])
def test_a_checkpoint_on_a_disk_that_is_really_full(kilobytes, tmp_path):
    """Orbax's threads go on writing after a save has failed. Nothing of that may stay, and the process must end."""
    mount = f"mount -t tmpfs -o size={kilobytes}k none {tmp_path}"
    alone = ["unshare", "-m", "sh", "-c"]
    if subprocess.run([*alone, mount], capture_output=True).returncode:
        pytest.skip("mounting is not allowed")
    python = [*alone, f'{mount} && exec "$@"', "sh", sys.executable, "-c", SAVE_UNTIL_FULL, str(tmp_path)]
    done = subprocess.run(python, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    message, found = done.stdout.splitlines()
    assert "No space left on device" in message
    assert found == "True True"
    assert "Traceback" not in done.stderr


# ---- what a kill leaves ----


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"force": True}])
def test_a_run_killed_while_it_wrote_its_config_can_be_begun_again(tmp_path, how):
    folder = tmp_path / "run"
    (folder / "private").mkdir(parents=True)
    (folder / "lock").write_text("")
    (folder / ".config.json.4711.tmp").write_text('{"se')
    RunDirectory.create(folder, CONFIG, **how)
    assert sorted(contents(folder)) == [".gitignore", "config.json", "lock"]


def test_a_resumed_run_removes_what_a_killed_write_left_and_nothing_else(tmp_path):
    folder = trained(tmp_path)
    whole = contents(folder)
    (folder / ".result.json.4711.tmp").write_text("{")
    (folder / "private" / ".predictions.test.jsonl.4711.tmp").write_text("zyzzyva")
    RunDirectory.create(folder, CONFIG, resume=True)
    assert contents(folder) == whole


def test_a_run_stays_one_until_all_else_of_it_is_gone(tmp_path):
    """If --force stops at any point, it can be given again."""
    for room in range(50):
        folder = trained(tmp_path / str(room))
        (folder / "checkpoints" / "1").mkdir(parents=True)
        (folder / "checkpoints" / "1" / "array").write_text("")
        disk = Disk(room, errno.EROFS)
        with disk.mounted(), contextlib.suppress(UserError):
            RunDirectory.create(folder, CONFIG, force=True)
        RunDirectory.create(folder, CONFIG, force=True)
        assert sorted(contents(folder)) == [".gitignore", "config.json", "lock"]
        if disk.asked <= room:
            break
    assert room > 8


def test_folders_of_killed_processes_go_after_a_day_and_those_of_live_ones_stay(tmp_path):
    for name in ("old", "new"):
        (tmp_path / f".made.{name}.tmp").mkdir()
    (tmp_path / ".other.old.tmp").mkdir()
    for name in ("made", "other"):
        os.utime(tmp_path / f".{name}.old.tmp", (0, time.time() - 25 * 3600))
    with atomic_folder(tmp_path / "made"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".made.new.tmp", ".other.old.tmp", "made"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ZeroDivisionError])
def test_whatever_ends_a_write_early_leaves_nothing_of_it(stop, tmp_path):
    def cut_short():
        with atomic_folder(tmp_path / "made") as made:
            write_atomic(made / "one", "1")
            raise stop

    with pytest.raises(stop):
        cut_short()
    assert [path.name for path in tmp_path.iterdir()] == [".gitignore"]


# ---- damage ----

VALUES = {"files": {"a.npy": "0" * 64}, "rate": 1e-05, "name": "Ménière", "rows": [1, 2.5], "keys": {1: "b", 10: "c"}}


def damaged(content):
    """The content with each bit flipped, and cut at each place."""
    for place in range(len(content)):
        yield content[:place]
        for bit in range(8):
            yield content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def test_no_flipped_bit_and_no_cut_of_a_manifest_passes(tmp_path):
    """1e-05 and 1E-05 are the same number but differ in one bit, and JSON without its last line break is still JSON."""
    path = tmp_path / "manifest.json"
    write_sealed(path, VALUES)
    content, found = path.read_bytes(), read_sealed(path)
    assert (found["rate"], found["keys"], len(found)) == (1e-05, {"1": "b", "10": "c"}, len(VALUES) + 1)
    assert len(content) > 250
    for other in damaged(content):
        path.write_bytes(other)
        with pytest.raises((OSError, ValueError, KeyError, TypeError)):
            read_sealed(path)


def test_a_damaged_memory_of_digests_is_not_believed(tmp_path):
    source, cache = tmp_path / "source.txt", Cache(tmp_path)
    source.write_text("a")
    right = {"source.txt": hashlib.sha256(b"a").hexdigest()}
    assert cache.digests([source]) == right
    memo = cache.folder / "sources.json"
    content = memo.read_bytes()
    for other in list(damaged(content))[::5]:
        memo.write_bytes(other)
        assert cache.digests([source]) == right
    memo.write_bytes(content)
    assert list(json.loads(content).values()) == list(right.values())


def test_no_flipped_bit_and_no_cut_of_a_filterings_state_passes(tmp_path):
    filtered(tmp_path)
    path = tmp_path / "filtered" / filtering.STATE
    content = path.read_bytes()
    for other in list(damaged(content))[:: len(content) // 100]:
        path.write_bytes(other)
        with pytest.raises(UserError):
            filtered(tmp_path, resume=True)
    path.write_bytes(content)
    assert filtered(tmp_path, resume=True).ended


# ---- something in the way ----


def test_a_page_takes_an_older_ones_place_and_no_other_files(tmp_path):
    path = tmp_path / "report.html"
    for page in ("<!DOCTYPE html>one", "<!DOCTYPE html>two"):
        write_over(path, page, "<!DOCTYPE html>")
        assert path.read_text() == page
    for content in ("my notes", "<!DOCTYPE", "\n<!DOCTYPE html>"):
        path.write_text(content)
        with pytest.raises(RunError, match=r"report\.html"):
            write_over(path, "<!DOCTYPE html>three", "<!DOCTYPE html>")
        assert contents(tmp_path) == {"report.html": content.encode()}
    path.write_text("")
    write_over(path, "<!DOCTYPE html>four", "<!DOCTYPE html>")
    with pytest.raises(ValueError, match="mark"):
        write_over(path, "five", "<!DOCTYPE html>")


def test_vectors_take_no_other_files_place(tmp_path, capsys):
    pytest.importorskip("fasttext")
    from test_pretrain import SMALL, text

    from mednli_jax.knowledge.pretrain import Settings, pretrain

    out = tmp_path / "glove.bin"
    out.write_bytes(b"somebody's")
    with pytest.raises(UserError, match=r"glove\.bin"):
        pretrain(text(), out, Settings(**SMALL))
    assert contents(tmp_path) == {"glove.bin": b"somebody's"}
    out.unlink()
    pretrain(text(), out, Settings(**SMALL))
    pretrain(text(), out, Settings(**{**SMALL, "epochs": 1}))
    assert "glove.bin" in capsys.readouterr().err


# ---- no regular files, and files of other users ----


def test_a_device_or_a_pipe_is_written_as_it_stands(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, "whole")
    append_line(pipe, "line")
    assert os.read(reader, 100) == b"wholeline\n"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_what_a_living_process_writes_is_not_swept_away(tmp_path):
    RunDirectory.create(tmp_path / "run", {"a": 1})
    mine, dead = (tmp_path / "run" / f".report.html.{pid}.tmp" for pid in (os.getppid(), 2**22 + 7))
    for path in (mine, dead):
        path.write_text("part")
    run = RunDirectory(tmp_path / "run")
    run._sweep()
    assert mine.exists()
    assert not dead.exists()


def test_a_manifest_nested_too_deep_is_damaged_like_any_other(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text("[" * 200_000)
    with pytest.raises(ValueError, match="too deep"):
        read_sealed(path)


# ---- the compile cache, which jax writes, and not in one piece ----

COMPILE = """
import jax
from mednli_jax import errors, experiment

errors.hide_messages()
experiment.use_compile_cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
print(jax.jit(lambda x: x * 3 + 4)(2.0))
"""


def test_a_compiled_program_cut_short_is_compiled_again_and_the_way_out_reported(tmp_path):
    kept = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}

    def run():
        environment = {**kept, "MEDNLI_JAX_CACHE": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-c", COMPILE], capture_output=True, text=True, timeout=120, cwd=ROOT, env=environment
        )

    assert (run().stdout, run().stderr) == ("10.0\n", "")
    entries = list((tmp_path / "compiled").glob("*-cache"))
    assert entries
    for path in entries:
        path.write_bytes(path.read_bytes()[:-20])
    done = run()
    assert (done.returncode, done.stdout) == (0, "10.0\n")
    assert set(done.stderr.splitlines()) == {f"warning: {text}" for text in errors.KNOWN_WARNINGS.values()}
