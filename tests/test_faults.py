"""Faults at random moments, minutes long: `pytest -m slow tests/test_faults.py`.

A run that is killed anywhere and resumed ends with the parameters and predictions of the unbroken run, bit for bit; no
flipped bit and no truncation of what a run relies on passes in silence.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from test_doors import SMALL, places, write_corpus

from mednli_jax.data.cache import Cache
from mednli_jax.errors import UserError
from mednli_jax.training.checkpoint import Checkpoints

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
ROOT = Path(__file__).parent.parent
KILLS = int(os.environ.get("MEDNLI_JAX_KILLS", "15"))  # per model
DAMAGES = 200  # flips and truncations each


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("faults")
    write_corpus(home / "data" / "mednli", (("train", 240), ("dev", 60), ("test", 61)))
    return home


def command(config, run, *flags):
    settings = (
        *SMALL,
        "--config.train.epochs=4",
        "--config.train.checkpoint_minutes=0.005",
        "--config.model.dropout=0.3",
    )
    return [
        *(sys.executable, "-m", "mednli_jax.train", f"--config={ROOT / 'configs' / config}.py:mednli"),
        *("--config.vectors.path=", *settings, f"--workdir={run}", *flags),
    ]


def start(home, *arguments):
    with open(home / "out.txt", "a") as out:
        return subprocess.Popen(
            command(*arguments), cwd=home, stdout=out, stderr=out, env={**os.environ, **places(home)},
            start_new_session=True,
        )  # fmt: skip


def finished(home, run):
    """What must not depend on how often the run was interrupted."""
    folder = home / run
    tree, _ = Checkpoints(folder / "checkpoints").load()
    result = json.loads((folder / "result.json").read_text())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    predictions = [(folder / "private" / f"predictions.{split}.jsonl").read_bytes() for split in ("dev", "test")]
    kept = ("epoch", "seeds", "dev_loss", "dev_accuracy", "stale")
    metrics = [{key: row[key] for key in kept} for row in rows]
    return tree, predictions, metrics, {key: result[key] for key in ("status", "dev", "test", "best_epoch")}


def assert_same(one, other):
    assert jax.tree.structure(one[0]) == jax.tree.structure(other[0])
    for a, b in zip(jax.tree.leaves(one[0]), jax.tree.leaves(other[0]), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert one[1:] == other[1:]


@pytest.mark.parametrize("config", ["bow", "esim"])
def test_killed_runs_resume_bit_for_bit(home, config):
    """kill -9 at random moments: start, compilation (every third run compiles anew), epochs, saves, evaluation."""
    draw = random.Random(config)
    assert start(home, config, f"{config}-warm").wait() == 0
    started = time.monotonic()
    assert start(home, config, f"{config}-whole").wait() == 0
    length = time.monotonic() - started
    expected = finished(home, f"{config}-whole")
    for number in range(KILLS):
        if number % 3 == 0:
            shutil.rmtree(home / "cache" / "compiled")
        run = f"{config}-{number}"
        process = start(home, config, run)
        time.sleep(draw.uniform(0.2, 1.0) * length * (2.5 if number % 3 == 0 else 1.0))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        begun = ["--resume"] if (home / run).is_dir() else []  # killed while it started, it has no folder yet
        assert start(home, config, run, *begun).wait() == 0, (home / "out.txt").read_text()[-3000:]
        assert_same(finished(home, run), expected)
        shutil.rmtree(home / run)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_exits_3_within_10_seconds(home, number):
    assert (
        start(home, "bow", f"signal-{number}-whole", "--config.train.epochs=60", "--config.train.patience=60").wait()
        == 0
    )
    process = start(home, "bow", f"signal-{number}", "--config.train.epochs=60", "--config.train.patience=60")
    metrics = home / f"signal-{number}" / "metrics.jsonl"
    while not metrics.is_file() or not metrics.read_text():  # compilation is over then
        time.sleep(0.05)
        assert process.poll() is None
    asked = time.monotonic()
    process.send_signal(number)
    assert process.wait() == 3
    assert time.monotonic() - asked < 10
    result = json.loads((metrics.parent / "result.json").read_text())
    assert result["status"] == "interrupted"
    flags = ("--config.train.epochs=60", "--config.train.patience=60", "--resume")
    assert start(home, "bow", f"signal-{number}", *flags).wait() == 0
    assert_same(finished(home, f"signal-{number}"), finished(home, f"signal-{number}-whole"))


def damage(draw, path, how):
    """Flips one bit or cuts the file short; returns what was there."""
    content = path.read_bytes()
    if how == "flip":
        place = draw.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :])
    else:
        path.write_bytes(content[: draw.randrange(len(content))])
    return content


@pytest.mark.parametrize("how", ["flip", "truncate"])
def test_no_damage_is_silent(home, how, capsys):
    """Over checkpoints (the previous one is used, and the damaged one named) and prepared arrays (prepared anew)."""
    draw = random.Random(how)
    if not (home / "damage").is_dir():
        assert start(home, "bow", "damage").wait() == 0
    checkpoints = Checkpoints(home / "damage" / "checkpoints")
    newest = checkpoints.numbers()[-1]
    of_checkpoint = [p for p in (checkpoints.folder / str(newest)).rglob("*") if p.is_file()]
    of_checkpoint.append(checkpoints.folder / f"{newest}.manifest.json")
    (folder,) = [p for p in (home / "cache" / "prepared").iterdir() if p.is_dir()]
    key = json.loads((folder / "manifest.json").read_text())["key"]
    cache = Cache(home / "cache")
    spare = home / f"spare-{how}"
    shutil.copytree(folder, spare)
    for number in range(DAMAGES):
        prepared = number % 2 == 0
        path = draw.choice([p for p in (folder.iterdir() if prepared else of_checkpoint) if p.stat().st_size])
        content = damage(draw, path, how)
        if prepared:
            with pytest.raises(UserError, match="asked to build"):
                cache.get("mednli", key, _refuse)
            assert "damaged" in capsys.readouterr().err
            assert not folder.exists()
            shutil.copytree(spare, folder)
        else:
            _, meta = Checkpoints(checkpoints.folder).load()
            assert f"{newest}: the checkpoint is damaged" in capsys.readouterr().err
            assert meta["epoch"] <= 5
            path.write_bytes(content)


def _refuse():
    raise UserError("asked to build")
