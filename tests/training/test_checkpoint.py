"""A checkpoint is restored bit for bit or not at all: damage is noticed, and the previous one is
used."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mednli_jax.errors import RunError
from mednli_jax.training import state
from mednli_jax.training.checkpoint import Checkpoints, restore_into

ROOT = Path(__file__).parents[2]
SEEDS, FEATURES, CLASSES = (0, 4, 9), 3, 2


def training():
    """A learner and its best epoch, with random arrays."""
    rng, shape = np.random.default_rng(1), (len(SEEDS), FEATURES)
    params = {
        "logits": {"kernel": jnp.zeros((*shape, CLASSES)), "bias": jnp.zeros((len(SEEDS), CLASSES))}
    }
    stats = {"norm": {"mean": jnp.zeros(shape), "variance": jnp.zeros(shape)}}
    optimizer = optax.chain(optax.add_decayed_weights(1e-6), optax.adam(1e-2))
    moments, numbers = jax.vmap(optimizer.init)(params), jnp.zeros(len(SEEDS), jnp.int32)
    learner = state.Learner(jnp.asarray(SEEDS, jnp.uint32), numbers, params, stats, moments)
    made = {"learner": learner, "best": state.init_best(learner)}
    return jax.tree.map(lambda x: jnp.asarray(100 * rng.random(x.shape), x.dtype), made)


def epoch_of(checkpoints):
    """The epoch of the checkpoint that a new process would load."""
    return Checkpoints(checkpoints.folder).load()[1]["epoch"]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Two saved checkpoints, of epochs 1 and 2."""
    folder = tmp_path_factory.mktemp("original")
    checkpoints = Checkpoints(folder / "checkpoints")
    for epoch in (1, 2):
        checkpoints.save(training(), {"epoch": epoch})
    return folder / "checkpoints"


@pytest.fixture
def copied(original, tmp_path):
    shutil.copytree(original, tmp_path / "checkpoints")
    return Checkpoints(tmp_path / "checkpoints")


def files_of(checkpoints, number):
    """The manifest and all files in the folder of the checkpoint, hidden ones, too."""
    files = [path for path in (checkpoints.folder / str(number)).rglob("*") if path.is_file()]
    return [checkpoints.folder / f"{number}.manifest.json", *sorted(files)]


def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [flipped, lambda data: data[: len(data) // 2], lambda data: b""])
def test_damage_of_any_file_is_noticed_and_the_one_before_is_used(copied, damage, capsys):
    files = [path for path in files_of(copied, 2) if path.stat().st_size]
    assert len(files) > 4
    for path in files:
        data = path.read_bytes()
        path.write_bytes(damage(data))
        assert epoch_of(copied) == 1, path.name
        assert f"{copied.folder / '2'}: the checkpoint is damaged" in capsys.readouterr().err
        path.write_bytes(data)
    assert epoch_of(copied) == 2  # the file is undamaged again
    assert capsys.readouterr().err == ""


def test_a_missing_an_added_and_an_edited_file_are_noticed(copied):
    """The edited file is valid JSON with every array intact, but another epoch."""
    path, manifest = files_of(copied, 2)[-1], copied.folder / "2.manifest.json"
    data, text = path.read_bytes(), manifest.read_text()
    path.unlink()
    assert epoch_of(copied) == 1
    path.write_bytes(data)
    manifest.write_text(json.dumps({**json.loads(text), "meta": {"epoch": 7}}))
    assert epoch_of(copied) == 1
    manifest.write_text(text)
    assert epoch_of(copied) == 2
    (path.parent / "more").write_bytes(b"x")
    assert epoch_of(copied) == 1


def test_all_damaged_is_an_error_not_a_fresh_start(copied, capsys):
    for number in (1, 2):
        path = files_of(copied, number)[-1]
        path.write_bytes(flipped(path.read_bytes()))
    with pytest.raises(RunError, match=r".*every checkpoint is damaged.*--force"):
        copied.load()
    assert capsys.readouterr().err.count("the checkpoint is damaged") == 2


def test_a_checkpoint_without_manifest_does_not_count(copied):
    """The process was killed before the last write of the save."""
    (copied.folder / "2.manifest.json").unlink()
    assert copied.numbers() == [1]
    assert epoch_of(copied) == 1
    (copied.folder / "3.orbax-checkpoint-tmp").mkdir()
    copied.save(training(), {"epoch": 5})
    assert epoch_of(copied) == 5
    assert copied.numbers() == [1, 2]
    assert sorted(path.name for path in copied.folder.iterdir()) == [
        "1",
        "1.manifest.json",
        "2",
        "2.manifest.json",
    ]
    shutil.rmtree(copied.folder / "2")  # a manifest without its checkpoint does not count either
    assert epoch_of(copied) == 1


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


def test_a_save_the_system_refuses_is_reported_once_and_leaves_nothing(copied):
    """A file may hold at most 8 kB, so Orbax and its threads fail as on a full disk."""
    arguments = [sys.executable, "-c", SAVE_WITHOUT_ROOM, str(copied.folder)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.stdout.startswith(f"{copied.folder}: ")
    assert "(File too large)" in done.stdout
    assert done.stdout.count("\n") == 1
    # Other errors are still reported: the only traceback is that of a real fault.
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")
    assert copied.numbers() == [2, 3]
    assert epoch_of(copied) == 3


def test_arrays_of_another_model_are_refused(copied):
    tree, _ = copied.load()
    del tree["best"]["batch_stats"]
    with pytest.raises(RunError, match=r"other arrays than the model.* Fix: "):
        restore_into(training(), tree)
