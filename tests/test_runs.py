"""Files of a run are written whole, and no run is overwritten, mixed with another or trained twice by mistake."""

import gc
import json
import os
import stat
import struct
import subprocess
import sys
import weakref
from itertools import chain, repeat

import pytest
from made_up_files import contents
from tensorboardX.proto import event_pb2

from mednli_jax.errors import RunError, UserError
from mednli_jax.files import append_line, next_free, write_atomic, write_json
from mednli_jax.runs import RunDirectory, read_json

CONFIG = {"seeds": (0, 1), "model": {"name": "bow", "hidden_size": 8}, "data": {"dir": None}}
WAYS_OUT = ("--resume", "--force", "another --workdir")


def start(folder, config=CONFIG, **how):
    """Makes or reopens a run and releases its lock, as a process does when it ends."""
    return RunDirectory.create(folder, config, **how).folder


# ---- the atomic writer ----


def test_the_new_content_is_complete_before_it_takes_the_name(tmp_path, monkeypatch):
    """At the rename the temporary file is complete and synced, and the old file is unchanged."""
    path, events = tmp_path / "a.json", []
    path.write_text("old")
    replace, fsync = os.replace, os.fsync

    def watched_replace(source, target):
        events.append(("replace", open(source).read(), path.read_text()))  # noqa: SIM115
        replace(source, target)

    monkeypatch.setattr("mednli_jax.files.os.replace", watched_replace)
    monkeypatch.setattr("mednli_jax.files.os.fsync", lambda number: (events.append("fsync"), fsync(number)))
    write_atomic(path, "new" * 10000)
    assert events == ["fsync", ("replace", "new" * 10000, "old")]
    assert path.read_text() == "new" * 10000


def test_a_missing_folder_is_reported_in_one_line(tmp_path):
    with pytest.raises(RunError, match=r"a\.txt"):
        write_atomic(tmp_path / "none" / "a.txt", "a")


def test_written_files_are_private_whatever_they_were(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o644)
    old = os.umask(0o022)
    try:
        write_atomic(path, "new")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_json_has_no_nan_and_damage_is_named(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"accuracy": [0.1, None]})
    assert read_json(path) == {"accuracy": [0.1, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"accuracy": float("nan")})
    assert read_json(path) == {"accuracy": [0.1, None]}
    path.write_text('{"accuracy": secret')
    with pytest.raises(RunError, match=r"a\.json") as caught:
        read_json(path)
    assert "secret" not in str(caught.value)
    with pytest.raises(RunError):
        read_json(tmp_path / "none.json")


# ---- opening a run ----


def test_a_new_run_is_private_and_keeps_its_config(tmp_path):
    old = os.umask(0o022)
    try:
        folder = start(tmp_path / "runs" / "a")
    finally:
        os.umask(old)
    assert read_json(folder / "config.json") == json.loads(json.dumps(CONFIG))
    for path in (folder, folder / "private"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "config.json").stat().st_mode) == 0o600
    assert RunDirectory.existing(folder).status() == "running"
    assert RunDirectory.existing(folder).config["model"] == CONFIG["model"]


def test_a_run_is_not_overwritten_by_accident(tmp_path):
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    run.write_result("complete", {"accuracy": 0.7})
    run.append_metrics({"epoch": 1})
    del run
    before = contents(tmp_path)
    with pytest.raises(RunError) as caught:
        start(tmp_path / "a")
    assert "complete" in str(caught.value)
    for way in WAYS_OUT:
        assert way in str(caught.value)
    assert contents(tmp_path) == before


def test_force_starts_over(tmp_path):
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    run.write_result("complete", {"accuracy": 0.7})
    run.append_metrics({"epoch": 1})
    run.log("epoch 1")
    (run.private / "vocabulary.json").write_text("[]")
    (run.checkpoints / "1" / "deep").mkdir(parents=True)
    (run.checkpoints / "1" / "deep" / "array").write_text("x")
    (run.checkpoints / "1.manifest.json").write_text("{}")
    del run
    other = {**CONFIG, "seeds": (5,)}
    start(tmp_path / "a", other, force=True)
    left = contents(tmp_path / "a")
    assert set(left) == {".gitignore", "config.json", "lock"}
    assert json.loads(left["config.json"])["seeds"] == [5]


def test_force_follows_no_link_out_of_the_run(tmp_path):
    start(tmp_path / "a")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "thesis.tex").write_text("x")
    (tmp_path / "a" / "checkpoints").mkdir()
    (tmp_path / "a" / "checkpoints" / "link").symlink_to(tmp_path / "elsewhere")
    start(tmp_path / "a", force=True)
    assert (tmp_path / "elsewhere" / "thesis.tex").read_text() == "x"
    assert not (tmp_path / "a" / "checkpoints" / "link").exists()


@pytest.mark.parametrize("name", ["checkpoints", "private", "tensorboard", "log.txt"])
def test_force_drops_what_is_a_link_itself(tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in ("thesis.tex", ".thesis.tex.1.tmp"):
        (elsewhere / file).write_text("x")
    start(tmp_path / "a")
    (tmp_path / "a" / "private").rmdir()
    (tmp_path / "a" / name).symlink_to(elsewhere if "." not in name else elsewhere / "thesis.tex")
    start(tmp_path / "a", force=True)
    assert {path.name for path in elsewhere.iterdir()} == {"thesis.tex", ".thesis.tex.1.tmp"}
    assert not [path for path in (tmp_path / "a").rglob("*") if path.is_symlink()]
    assert (tmp_path / "a" / "private").is_dir()


def test_a_lock_that_is_a_link_is_refused_where_there_is_no_run_either(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "lock").symlink_to(tmp_path / "thesis.tex")
    with pytest.raises(RunError):
        start(tmp_path / "a")
    assert (tmp_path / "thesis.tex").read_text() == "x"


@pytest.mark.parametrize("how", [{}, {"force": True}, {"resume": True}])
@pytest.mark.parametrize("names", [["thesis.tex"], ["config.json", "weights.bin"], ["private/notes.txt"]])
def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path, how, names):
    """Other programs also have a config.json."""
    folder = tmp_path / "mine"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    before = contents(folder)
    with pytest.raises(RunError, match=r"mine.*--workdir"):
        start(folder, **how)
    assert contents(folder) == before


def test_force_never_deletes_what_no_run_writes(tmp_path):
    folder = start(tmp_path / "a")
    (folder / "thesis.tex").write_text("x")
    (folder / "figures").mkdir()
    (folder / "figures" / "one.png").write_text("x")
    start(folder, force=True)
    assert {"thesis.tex", "figures/one.png"} <= set(contents(folder))


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "a").write_text("x")
    with pytest.raises(RunError, match=r"/a: "):
        start(tmp_path / "a", force=True)
    with pytest.raises(RunError):
        start(tmp_path / "a" / "b")
    assert (tmp_path / "a").read_text() == "x"


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "a").mkdir()
    assert "config.json" in contents(start(tmp_path / "a"))


def test_a_start_that_failed_does_not_bar_the_next(tmp_path, monkeypatch):
    """The disk was full when the config was written; by then the folders and the lock existed."""
    with monkeypatch.context() as patch:
        full = chain([None], repeat(OSError(28, "No space left")))  # the .gitignore still has room
        patch.setattr("mednli_jax.files.os.fsync", lambda _: (_ for _ in ()).throw(e) if (e := next(full)) else None)
        with pytest.raises(RunError):
            start(tmp_path / "a")
    assert (tmp_path / "a" / "private").is_dir()
    assert "config.json" in contents(start(tmp_path / "a"))


def test_an_error_that_is_kept_does_not_keep_the_lock(tmp_path):
    """A notebook keeps the last error, and the error keeps the frames that it passed through."""
    start(tmp_path / "a")
    with pytest.raises(RunError) as kept:
        start(tmp_path / "a", {**CONFIG, "seeds": (5,)}, resume=True)
    assert not RunDirectory.existing(tmp_path / "a").in_training()
    assert "config.json" in contents(start(tmp_path / "a", resume=True))
    del kept


def test_a_refused_write_leaves_no_cycle_that_keeps_its_callers_alive(tmp_path):
    """With such a cycle a run that could not write would hold its lock until the garbage collector ran."""

    def fail(write):
        held = open(tmp_path / "held", "w")  # noqa: SIM115 - closed when nothing refers to it
        with pytest.raises(RunError):
            write(tmp_path / "none" / "a")
        return weakref.ref(held)

    gc.disable()
    try:
        for write in (lambda path: write_atomic(path, "a"), lambda path: append_line(path, "a")):
            assert fail(write)() is None
    finally:
        gc.enable()


def test_existing_wants_a_run(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(RunError, match=str(folder)) as caught:
            RunDirectory.existing(folder)
        assert "Did you mean" not in str(caught.value)
    start(tmp_path / "esim-mednli")
    with pytest.raises(UserError, match=rf"Did you mean {tmp_path}/esim-mednli\? Fix: "):
        RunDirectory.existing(tmp_path / "esim-mendli")


def spoil_result(folder, content):
    (folder / "result.json").write_text(content)
    return rf"^{folder}/result.json: .*remove it and train with --resume"


@pytest.mark.parametrize(
    "content", ["{}", "[]", "", '"complete"', "null", '{"status": "done"}', '{"status": []}', "[" * 9999]
)
def test_a_damaged_result_is_reported_and_nothing_is_lost(tmp_path, content):
    folder = start(tmp_path / "a")
    expected = spoil_result(folder, content)
    before = contents(folder)
    with pytest.raises(UserError, match=expected):
        start(folder)
    with pytest.raises(UserError, match=expected):
        RunDirectory.existing(folder).status()
    assert contents(folder) == before
    (folder / "result.json").unlink()  # as the error advises
    assert RunDirectory.existing(start(folder, resume=True)).status() == "running"


@pytest.mark.parametrize("content", ["[]", "{}", "3", '{"files": []}', '{"files": {"label.npy": "b"}}', "\0"])
def test_damaged_notes_on_the_data_never_pass_for_the_same_data(tmp_path, content):
    folder = start(tmp_path / "a")
    (folder / "data.json").write_text(content)
    with pytest.raises(RunError, match=r"--force"):
        RunDirectory.existing(folder).check_data({"files": {"label.npy": "a"}})
    assert (folder / "data.json").read_text() == content


def test_a_damaged_config_is_reported(tmp_path):
    folder = start(tmp_path / "a")
    (folder / "config.json").write_text("[]")
    with pytest.raises(RunError, match=rf"{folder}/config\.json: "):
        start(folder, resume=True)


# ---- resuming ----


def test_resume_goes_on_with_the_same_config(tmp_path):
    """JSON has no tuples, but a config that is read back must equal the original."""
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    run.append_metrics({"epoch": 1})
    run.write_result("interrupted", {})
    del run
    before = contents(tmp_path)
    start(tmp_path / "a", resume=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({**CONFIG, "seeds": (0, 2)}, "seeds"),
        ({**CONFIG, "model": {"name": "bow", "hidden_size": 9}}, "model.hidden_size"),
        ({**CONFIG, "data": {"dir": "/elsewhere"}}, "data.dir"),
        ({**CONFIG, "model": {"name": "bow", "hidden_size": 8, "dropout": 0.5}}, "model.dropout"),
        ({**CONFIG, "model": {"name": "bow", "hidden_size": 8, "masking": ""}}, "model.masking"),
        ({**CONFIG, "model": {"name": "bow"}}, "model.hidden_size"),
    ],
)
def test_resume_names_a_changed_field_and_no_other(tmp_path, config, field):
    start(tmp_path / "a")
    before = contents(tmp_path)
    with pytest.raises(RunError) as caught:
        start(tmp_path / "a", config, resume=True)
    assert f"other values of {field}." in str(caught.value)
    assert contents(tmp_path) == before


def test_resume_wants_a_folder_and_names_the_runs_like_it(tmp_path):
    """A mistyped name must not train for hours beside the run that was meant."""
    start(tmp_path / "esim-kd")
    start(tmp_path / "bow")
    (tmp_path / "esim-kb").mkdir()  # this folder is not a run
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"/esim-dk: .*--resume") as caught:
        start(tmp_path / "esim-dk", resume=True)
    assert f"Did you mean {tmp_path / 'esim-kd'}?" in str(caught.value)
    with pytest.raises(RunError) as caught:
        start(tmp_path / "nowhere" / "x", resume=True)
    assert "Did you mean" not in str(caught.value)
    assert contents(tmp_path) == before
    assert not (tmp_path / "nowhere").exists()


def test_resume_of_a_start_that_failed_starts_anew(tmp_path):
    """A process that is killed in its first second leaves a folder without a config."""
    (tmp_path / "a").mkdir()
    assert "config.json" in contents(start(tmp_path / "a", resume=True))


def test_metrics_of_epochs_to_be_trained_again_are_dropped(tmp_path):
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    for epoch in (1, 2, 3):
        run.append_metrics({"epoch": epoch, "dev_loss": [1.0 / epoch, None]})
    with open(run.folder / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 4, "dev_lo')  # a full disk cut this row short
    run.keep_metrics(2)
    run.append_metrics({"epoch": 3, "dev_loss": [0.2, 0.1]})
    rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [(row["epoch"], row["dev_loss"][0]) for row in rows] == [(1, 1.0), (2, 0.5), (3, 0.2)]
    run.keep_metrics(0)
    assert (run.folder / "metrics.jsonl").read_text() == ""


@pytest.mark.parametrize("line", [b"quokka", b"", b"[]", b"{}", b'{"epoch": "1"}', b"\xff\0", b"[" * 9999])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_damaged_row_of_metrics_is_named_and_kept(tmp_path, line, number):
    """A kill can only leave an incomplete last line. Any other damage is reported."""
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    rows = [b'{"epoch": 1}', b'{"epoch": 2}']
    rows.insert(number - 1, line)
    path = run.folder / "metrics.jsonl"
    path.write_bytes(b"".join(row + b"\n" for row in rows) + b'{"epoch": 3, "dev')
    before = contents(tmp_path)
    with pytest.raises(RunError, match=rf"{path}:{number}: .* Fix: ") as caught:
        run.keep_metrics(1)
    assert "quokka" not in str(caught.value)
    assert contents(tmp_path) == before


# ---- a full disk ----


@pytest.mark.parametrize("write", ["append_metrics", "log", "write_scalars"])
def test_a_refused_write_is_reported_by_its_file(tmp_path, monkeypatch, write):
    run = RunDirectory.create(tmp_path / "a", CONFIG)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mednli_jax.files.open", full, raising=False)
    monkeypatch.setattr("tensorboardX.record_writer.open", full, raising=False)
    name = {"append_metrics": "metrics.jsonl", "log": "log.txt", "write_scalars": "tensorboard"}[write]
    with pytest.raises(RunError, match=rf"{name}: .*No space left on device.* Fix: "):
        getattr(run, write)("line" if write == "log" else scalars(1))
    run.close_scalars()


# ---- TensorBoard ----


def scalars(epoch, seeds=(0, 1)):
    names = ("train_loss", "train_accuracy", "dev_loss", "dev_accuracy")
    values = {name: [epoch + place / 4 + seed / 64 for seed in seeds] for place, name in enumerate(names)}
    return {"epoch": epoch, "seeds": list(seeds), "examples_per_second": 10.0 * epoch, **values}


def events_of(path):
    """The records of an event file: length (8 bytes), its checksum (4), data, and its checksum (4)."""
    data, events = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert len(data) >= 16 + length
        events.append(event_pb2.Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return events


def curves(folder):
    """tag -> [(epoch, value), ...] as TensorBoard shows it: a new session drops older values from its first step on."""
    found = {}
    for path in sorted((folder / "tensorboard").iterdir()):
        for event in events_of(path):
            if event.session_log.status == event_pb2.SessionLog.START:
                found = {tag: [point for point in points if point[0] < event.step] for tag, points in found.items()}
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def test_every_epoch_is_in_the_event_file_as_soon_as_it_is_over(tmp_path):
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    for epoch in (1, 2, 3):
        run.write_scalars(scalars(epoch))
        found = curves(run.folder)  # the writer is still open, so a kill would lose nothing
        assert len(found) == 4 * 2 + 1
        for points in found.values():
            assert [step for step, _ in points] == list(range(1, epoch + 1))
    run.close_scalars()
    assert len(list((run.folder / "tensorboard").iterdir())) == 1
    assert curves(run.folder)["dev_loss/seed1"] == [(n, n + 0.5 + 1 / 64) for n in (1, 2, 3)]
    assert curves(run.folder)["examples_per_second"] == [(1, 10.0), (2, 20.0), (3, 30.0)]


def test_a_resumed_run_adds_a_file_and_shows_each_epoch_once(tmp_path):
    """The first process is killed after the row of epoch 2, before its checkpoint; both begin in one second."""
    first = RunDirectory.create(tmp_path / "a", CONFIG)
    for epoch in (1, 2):
        first.write_scalars(scalars(epoch))
    left = {path.name: path.read_bytes() for path in (first.folder / "tensorboard").iterdir()}
    second = RunDirectory(tmp_path / "a")
    for epoch in (2, 3):
        second.write_scalars(scalars(epoch))
    now = {path.name: path.read_bytes() for path in (first.folder / "tensorboard").iterdir()}
    assert len(now) == 2
    assert now | left == now  # the first file is unchanged
    assert [step for step, _ in curves(first.folder)["train_loss/seed0"]] == [1, 2, 3]


def test_a_diverged_seed_has_no_point(tmp_path):
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    run.write_scalars({**scalars(1), "dev_loss": [None, 0.5]})
    assert "dev_loss/seed0" not in curves(run.folder)
    assert curves(run.folder)["dev_loss/seed1"] == [(1, 0.5)]


# ---- the lock ----

OTHER_PROCESS = """
import sys
from mednli_jax.errors import UserError
from mednli_jax.runs import RunDirectory
try:
    run = RunDirectory.create(sys.argv[1], {"seeds": (0, 1)}, resume="resume" in sys.argv, force="force" in sys.argv)
except UserError as error:
    sys.exit(str(error))
print("in", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["resume", "force"])
def test_a_second_process_is_kept_out_while_the_first_lives(tmp_path, how):
    config = {"seeds": (0, 1)}
    run = RunDirectory.create(tmp_path / "a", config)
    run.append_metrics({"epoch": 1})
    before = contents(tmp_path)
    command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path / "a"), how]
    second = subprocess.run(command, capture_output=True, text=True, input="", timeout=60)
    assert second.returncode == 1
    assert str(tmp_path / "a") in second.stderr
    assert "Traceback" not in second.stderr
    assert contents(tmp_path) == before
    del run
    assert subprocess.run(command, capture_output=True, text=True, input="", timeout=60).stdout == "in\n"


def test_a_killed_process_leaves_no_lock(tmp_path):
    command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path / "a")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "in\n"
        with pytest.raises(RunError):
            start(tmp_path / "a", {"seeds": (0, 1)}, resume=True)
        first.kill()
    start(tmp_path / "a", {"seeds": (0, 1)}, resume=True)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_run_in_training_is_told_from_one_that_was_killed(tmp_path, resumed):
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    if resumed:
        del run
        run = RunDirectory.create(tmp_path / "a", CONFIG, resume=True)
    assert RunDirectory.existing(tmp_path / "a").in_training()
    del run
    assert not RunDirectory.existing(tmp_path / "a").in_training()
    start(tmp_path / "a", resume=True)  # the check above holds no lock


# ---- names and states ----


def test_next_free_takes_no_name_twice(tmp_path):
    names = []
    for _ in range(3):
        folder = next_free(tmp_path / "bow-demo")
        start(folder)
        names.append(folder.name)
    assert names == ["bow-demo", "bow-demo-2", "bow-demo-3"]
    (tmp_path / "other").write_text("a file stands in the way, too")
    assert next_free(tmp_path / "other").name == "other-2"


def test_status_is_one_of_four(tmp_path):
    run = RunDirectory.create(tmp_path / "a", CONFIG)
    assert run.status() == "running"
    for status in ("running", "interrupted", "failed", "complete"):
        run.write_result(status, {"status": "overruled", "seconds": 1.0})
        assert run.status() == status
    with pytest.raises(ValueError, match="no such status"):
        run.write_result("done", {})
    assert run.status() == "complete"


def test_a_run_goes_on_with_its_own_data_only(tmp_path):
    run = RunDirectory.create(tmp_path / "run", {"seed": 0})
    run.check_data({"files": {"label.npy": "a"}})  # no data was recorded yet
    write_json(run.folder / "data.json", {"files": {"label.npy": "a"}})
    run.check_data({"files": {"label.npy": "a"}})
    with pytest.raises(RunError):
        run.check_data({"files": {"label.npy": "b"}})
