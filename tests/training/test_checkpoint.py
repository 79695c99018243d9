"""A checkpoint is restored bit for bit or not at all: damage is noticed, and the previous one is
used."""

import json
import shutil

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from support.commands import run_python

from mednli_jax.errors import RunError
from mednli_jax.training.checkpoint import Checkpoints, restore_into


def arrays():
    rng = np.random.default_rng(1)
    weights = {"kernel": rng.normal(size=(3, 4)), "bias": rng.normal(size=3).astype(np.float32)}
    return {"learner": {"seed": np.array([0, 4, 9], np.uint32), **weights}, "best": weights}


def loaded_epoch(checkpoints):
    """The epoch of the checkpoint that a new process loads."""
    return Checkpoints(checkpoints.folder).load().meta["epoch"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of two checkpoints, of epochs 1 and 2."""
    checkpoints = Checkpoints(tmp_path_factory.mktemp("saved") / "checkpoints")
    for epoch in (1, 2):
        checkpoints.save(arrays(), {"epoch": epoch})
    return checkpoints.folder


@pytest.fixture
def checkpoints(saved, tmp_path):
    return Checkpoints(shutil.copytree(saved, tmp_path / "checkpoints"))


def files_of(checkpoints, number):
    """All files of a checkpoint that are not empty; the manifest is the first."""
    folder = checkpoints.folder / str(number)
    below = sorted(folder.rglob("*"), key=lambda path: (path.name != "manifest.json", path))
    return [path for path in below if path.is_file() and path.stat().st_size]


def flip_a_bit(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def cut_in_half(data):
    return data[: len(data) // 2]


def empty(data):
    return b""


@pytest.mark.parametrize("damage", [flip_a_bit, cut_in_half, empty])
def test_damage_of_any_file_is_noticed_and_the_checkpoint_before_it_is_used(
    checkpoints, damage, capsys
):
    files = files_of(checkpoints, 2)
    assert len(files) > 4

    for path in files:
        data = path.read_bytes()
        path.write_bytes(damage(data))
        assert loaded_epoch(checkpoints) == 1, path.name
        assert f"{checkpoints.folder / '2'}: the checkpoint is damaged" in capsys.readouterr().err
        path.write_bytes(data)

    assert loaded_epoch(checkpoints) == 2
    assert capsys.readouterr().err == ""


def remove_a_file(manifest, files):
    files[-1].unlink()


def add_a_file(manifest, files):
    (files[-1].parent / "more").write_bytes(b"x")


def edit_the_epoch(manifest, files):
    path = manifest.with_name("_CHECKPOINT_METADATA")
    old = path.read_text()
    path.write_text(old.replace('"epoch": 2', '"epoch": 7'))
    assert path.read_text() != old


def remove_a_digest(manifest, files):
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "files": {}}))


def remove_the_manifest(manifest, files):
    """The process was killed before the last write of the save."""
    manifest.unlink()


def remove_the_arrays(manifest, files):
    shutil.rmtree(manifest.with_name("default"))


@pytest.mark.parametrize(
    "change",
    [
        remove_a_file,
        add_a_file,
        edit_the_epoch,
        remove_a_digest,
        remove_the_manifest,
        remove_the_arrays,
    ],
)
def test_an_incomplete_or_changed_checkpoint_is_not_used(checkpoints, change):
    manifest, *files = files_of(checkpoints, 2)

    change(manifest, files)

    assert loaded_epoch(checkpoints) == 1


def test_a_save_replaces_what_an_interrupted_one_left(checkpoints):
    (checkpoints.folder / "2" / "manifest.json").unlink()
    (checkpoints.folder / "3.orbax-checkpoint-tmp").mkdir()

    checkpoints.save(arrays(), {"epoch": 5})

    assert loaded_epoch(checkpoints) == 5
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["1", "2"]


def test_saves_after_a_damaged_step_take_its_place(checkpoints):
    path = files_of(checkpoints, 2)[-1]
    path.write_bytes(flip_a_bit(path.read_bytes()))
    assert checkpoints.load().meta["epoch"] == 1

    for epoch, steps in ((2, [1, 2]), (3, [2, 3])):
        checkpoints.save(arrays(), {"epoch": epoch})
        assert checkpoints.steps() == steps
        assert loaded_epoch(checkpoints) == epoch


def test_the_manager_of_orbax_has_the_steps_the_arrays_and_the_place(checkpoints):
    checkpoints.save(arrays(), {"epoch": 3})
    with ocp.CheckpointManager(checkpoints.folder) as manager:
        assert manager.all_steps() == [2, 3]
        jax.tree.map(np.testing.assert_array_equal, manager.restore(3), arrays())
        assert manager.metadata(3).custom_metadata == {"epoch": 3}

    checkpoints.save({"best": arrays()["best"]}, {"epoch": 4}, alone=True)

    assert ocp.CheckpointManager(checkpoints.folder).all_steps() == [4]
    assert loaded_epoch(checkpoints) == 4


def test_a_save_that_the_manager_refuses_is_an_error(checkpoints, tmp_path):
    """There is a later step, which is no folder that can be deleted."""
    (tmp_path / "other").mkdir()
    (checkpoints.folder / "7").symlink_to(tmp_path / "other")

    with pytest.raises(RunError, match=r"later step.* Fix: "):
        checkpoints.save(arrays(), {"epoch": 3})

    assert loaded_epoch(checkpoints) == 2


def test_if_all_checkpoints_are_damaged_there_is_an_error_and_no_fresh_start(checkpoints, capsys):
    for number in (1, 2):
        path = files_of(checkpoints, number)[-1]
        path.write_bytes(flip_a_bit(path.read_bytes()))

    with pytest.raises(RunError, match=r".*every checkpoint is damaged.*--force"):
        checkpoints.load()

    assert capsys.readouterr().err.count("the checkpoint is damaged") == 2


def test_a_checkpoint_with_arrays_of_another_model_is_refused(checkpoints):
    tree = checkpoints.load().tree
    del tree["best"]["bias"]

    with pytest.raises(RunError, match=r"other arrays than the model.* Fix: "):
        restore_into(arrays(), tree)


SAVE_WITHOUT_ROOM = """
import resource, sys
import numpy as np
from mednli_jax.errors import UserError
from mednli_jax.training.checkpoint import Checkpoints

def save(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    rng = np.random.default_rng(0)
    Checkpoints(sys.argv[1]).save({f"a{i}": rng.normal(size=4000) for i in range(12)}, {"epoch": 3})

try:
    save(8192)
except UserError as error:
    print(error)
save(resource.RLIM_INFINITY)
1 / 0
"""


def test_a_save_on_a_full_disk_is_reported_once_and_leaves_nothing(checkpoints):
    """A file may hold at most 8 kB, so Orbax and its threads fail as on a full disk."""
    process = run_python("-c", SAVE_WITHOUT_ROOM, checkpoints.folder)

    assert process.stdout.startswith(f"{checkpoints.folder}: ")
    assert "(File too large)" in process.stdout
    assert process.stdout.count("\n") == 1
    # Other errors are still reported: the only traceback is that of a real fault.
    assert process.stderr.count("Traceback") == 1
    assert process.stderr.rstrip().endswith("ZeroDivisionError: division by zero")
    assert checkpoints.steps() == [2, 3]
    assert loaded_epoch(checkpoints) == 3
