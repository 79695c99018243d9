"""Faults at random moments, minutes long: `pytest -m slow -s tests/test_faults.py`.

A run that is killed anywhere and resumed ends with the parameters and predictions of the unbroken run, bit for bit; no
flipped bit and no truncation of what a run relies on passes in silence. $MEDNLI_JAX_KILLS: kills of each system;
$MEDNLI_JAX_DAMAGES: flipped bits, and as many truncations.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest
from made_up_files import ontology, rich, some_pairs
from test_benchmark_files import big
from test_cloze_commands import write_articles
from test_commands import SMALL, places, write_corpus
from test_filtering import by_feature, corpus

from mednli_jax import defaults, experiment
from mednli_jax.analysis.artifacts import filtering
from mednli_jax.corpora.cache import Cache
from mednli_jax.corpora.diskne.folds import folds
from mednli_jax.corpora.diskne.store import write_benchmark
from mednli_jax.errors import UserError
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.paths import stored_paths
from mednli_jax.knowledge.store import stored
from mednli_jax.training.checkpoint import Checkpoints

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]
ROOT = Path(__file__).parent.parent
KILLS = int(os.environ.get("MEDNLI_JAX_KILLS", "20"))  # of each system
DAMAGES = int(os.environ.get("MEDNLI_JAX_DAMAGES", "1000"))  # flips, and as many truncations
COLD = 4  # of so many runs one compiles anew
EPOCHS = 12
TRAINING = (f"--config.train.epochs={EPOCHS}", "--config.train.patience=99", "--config.train.checkpoint_minutes=0.005")


# ---- systems: how a run is begun, and what of it must not depend on how often it was interrupted ----


class Training:
    """A run of the door `train`."""

    def __init__(self, config, *settings):
        self.config, self.settings = config, (*settings, *TRAINING)

    def command(self, home, run):
        config = f"--config={ROOT / 'configs' / self.config}"
        return ["mednli_jax.train", config, *self.settings, f"--workdir={run}"]

    def can_be_resumed(self, folder):
        return folder.is_dir()  # killed while it started, it has no folder yet

    def phase(self, folder):
        """Where a process was that left the folder as it is."""
        if not (folder / "config.json").is_file():
            return "start"
        saved = [path.name for path in folder.glob("checkpoints/*")]
        whole = {name.removesuffix(".manifest.json") for name in saved if name.endswith(".manifest.json")}
        if {name for name in saved if not name.endswith(".manifest.json")} - whole:
            return "save"
        if not whole:
            return "compilation"
        rows = (folder / "metrics.jsonl").read_bytes().count(b"\n")
        return "evaluation" if rows == EPOCHS else "epochs"

    def finished(self, folder):
        tree, _ = Checkpoints(folder / "checkpoints").load()
        result = json.loads((folder / "result.json").read_text())
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        predictions = [(folder / "private" / f"predictions.{split}.jsonl").read_bytes() for split in ("dev", "test")]
        kept = ("epoch", "seeds", "dev_loss", "dev_accuracy", "stale")
        metrics = [{key: row[key] for key in kept} for row in rows]
        assert not list(folder.rglob("*.tmp"))
        return tree, predictions, metrics, {key: result[key] for key in ("status", "dev", "test", "best_epoch")}


class Filtering:
    """AFLite by the door `analyze`, which keeps its state after every round."""

    FILES = ("aflite.json", "easy.txt", "difficult.txt", "easy_test.txt", filtering.STATE)

    def command(self, home, run):
        config = f"--config={ROOT / 'configs' / 'bow.py'}:mednli"
        vectors = ("--config.vectors.path=", "--config.vectors.dim=2", "--input=pair")
        return ["mednli_jax.analyze", "aflite", config, *vectors, "--n=32", "--k=1", "--tau=.3", f"--out={run}"]

    def can_be_resumed(self, folder):
        return (folder / filtering.STATE).is_file()

    def phase(self, folder):
        if not (folder / filtering.STATE).is_file():
            return "start"
        if list(folder.glob(".*.tmp")):
            return "save"
        state, _ = filtering._read(folder / filtering.STATE)
        return "evaluation" if state.ended else "rounds"

    def finished(self, folder):
        assert not list(folder.rglob("*.tmp"))
        return {}, [(folder / name).read_bytes() for name in self.FILES]


NLI = ("--config.vectors.path=", *SMALL, "--config.model.dropout=0.3")
READER = (
    "--config.data.dir=own",
    "--config.seeds=0,1",
    "--config.vectors.dim=8",
    "--config.model.hidden_size=4",
    "--config.model.hops=2",
    "--config.train.batch_size=2",
    "--config.train.max_buckets=1",
)
BERT = (
    "--config.vectors.path=",
    "--config.seeds=0,1",
    "--config.data.pieces=120",
    "--config.data.max_length=32",
    "--config.model.hidden_size=8",
    "--config.model.layers=1",
    "--config.model.intermediate_size=16",
    "--config.train.batch_size=16",
    "--config.train.max_buckets=1",
)
SYSTEMS = {
    "bow": Training("bow.py:mednli", *NLI),
    "esim": Training("esim.py:mednli", *NLI),
    "ga_reader": Training("ga_ent.py:file", *READER),
    "bert": Training("bert.py:mednli", *BERT),
    "aflite": Filtering(),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("faults")
    write_corpus(home / "data" / "mednli", (("train", 240), ("dev", 60), ("test", 61)))
    write_articles(home / "own")
    return home


def start(home, system, run, *flags):
    command = [sys.executable, "-m", *SYSTEMS[system].command(home, run), *flags]
    environment = {**os.environ, **places(home)}
    del environment["JAX_COMPILATION_CACHE_DIR"]  # the run's own is killed, too
    with open(home / "out.txt", "a") as out:
        return subprocess.Popen(command, cwd=home, stdout=out, stderr=out, env=environment, start_new_session=True)


def completed(home, system, run, *flags):
    """Seconds that the whole of a run takes."""
    started = time.monotonic()
    assert start(home, system, run, *flags).wait() == 0, (home / "out.txt").read_text()[-3000:]
    return time.monotonic() - started


def assert_same(one, other):
    assert jax.tree.structure(one[0]) == jax.tree.structure(other[0])
    for a, b in zip(jax.tree.leaves(one[0]), jax.tree.leaves(other[0]), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert one[1:] == other[1:]


@pytest.mark.parametrize("system", SYSTEMS)
def test_killed_runs_resume_bit_for_bit(home, system):
    """kill -9 at random moments: start, compilation (of every fourth run anew), epochs, saves, evaluation."""
    own, draw = SYSTEMS[system], random.Random(system)
    cold = completed(home, system, f"{system}-warm")
    length = completed(home, system, f"{system}-whole")
    expected = own.finished(home / f"{system}-whole")
    assert_same(own.finished(home / f"{system}-warm"), expected)
    landed, number = Counter(), 0
    while landed.total() < KILLS:
        assert number < 3 * KILLS + 3, "too few kills find a run under way"
        anew = number % COLD == COLD - 1
        if anew:
            shutil.rmtree(home / "cache" / "compiled")
        run = f"{system}-{number}"
        number += 1
        process = start(home, system, run)
        time.sleep(draw.uniform(0.2, 1.0) * (cold if anew else length))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            landed[own.phase(home / run)] += 1
        completed(home, system, run, *["--resume"] * own.can_be_resumed(home / run))
        assert_same(own.finished(home / run), expected)
        shutil.rmtree(home / run)
    where = ", ".join(f"{count} in {phase}" for phase, count in landed.most_common())
    print(f"\n{system}: {landed.total()} kills ({where}); a run takes {length:.1f} s; 0 resumed runs differ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_exits_3_within_10_seconds(home, number):
    longer = ("--config.train.epochs=60", "--config.train.patience=60")
    completed(home, "bow", f"signal-{number}-whole", *longer)
    process = start(home, "bow", f"signal-{number}", *longer)
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
    completed(home, "bow", f"signal-{number}", *longer, "--resume")
    own = SYSTEMS["bow"]
    assert_same(own.finished(home / f"signal-{number}"), own.finished(home / f"signal-{number}-whole"))


# ---- damage: what is kept, its files, and how it is asked for as the doors do ----


def _refuse():
    raise UserError("E-MADE-UP it would be built again. Fix: none.")


class Kept:
    """Something on disk. Subclasses tell whether the damage of a file was noticed, and by what words."""

    def __init__(self, folder):
        self.folder = folder

    def files(self):
        return [path for path in sorted(self.folder.rglob("*")) if path.is_file() and path.stat().st_size]


class Checkpoint(Kept):
    """The newest of two: the one before it is used."""

    told = "E-RUN-008"

    def files(self):
        self.newest = Checkpoints(self.folder).numbers()[-1]
        below, manifest = self.folder / str(self.newest), self.folder / f"{self.newest}.manifest.json"
        return [path for path in super().files() if below in path.parents or path == manifest]

    def noticed(self):
        checkpoints = Checkpoints(self.folder)
        checkpoints.load()
        return checkpoints.numbers() == [self.newest - 1]

    def whole(self):
        return Checkpoints(self.folder).load() is not None


class Prepared(Kept):
    """The arrays of a corpus: they would be prepared again."""

    told = "E-PREP-001"

    def __init__(self, folder):
        super().__init__(folder)
        self.key = json.loads((folder / "manifest.json").read_text())["key"]
        self.spare = folder.with_name(f"spare-{folder.name}")
        shutil.copytree(folder, self.spare)

    def noticed(self):
        noticed = False
        try:
            self._get()
        except UserError as error:
            noticed = str(error).startswith("E-MADE-UP") and not self.folder.exists()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.spare, self.folder)
        return noticed

    def _get(self):
        return Cache(self.folder.parent.parent).get(self.folder.name.rpartition("-")[0], self.key, _refuse)

    def whole(self):
        return self._get()[1]


class StoredOntology(Kept):
    told = "E-ONTO-065"

    def noticed(self):
        try:
            stored(self.folder, {"made": "up"}, _refuse)
        except UserError as error:
            return str(error).startswith("E-MADE-UP")
        return False

    def whole(self):
        return len(stored(self.folder, {"made": "up"}, rich)) > 0


class Distances(Kept):
    """Found again at once, and the same."""

    told = "E-PATH-001"

    expected = shortest_paths(ontology(), some_pairs())

    def noticed(self):
        return self.whole()

    def whole(self):
        return np.array_equal(stored_paths(ontology(), some_pairs(), folder=self.folder), self.expected)


class State(Kept):
    """Of a filtering."""

    told = ""  # it is an error
    features, labels, uids = corpus()

    def noticed(self):
        try:
            self.whole()
        except UserError as error:
            return str(error).startswith("E-FILT-005")
        return False

    def whole(self):
        wish = filtering.Settings(m=20, n=8, k=5, tau=0.6)
        resume = self.folder.is_dir()
        arrays = (self.features, self.labels, self.uids)
        return filtering.filtered(*arrays, wish, by_feature, folder=self.folder, resume=resume).ended


def damage(draw, path, how):
    """Flips one bit or cuts the file short; returns what was there."""
    content = path.read_bytes()
    if how == "flip":
        place = draw.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :])
    else:
        path.write_bytes(content[: draw.randrange(len(content))])
    return content


def prepare_diskne(home):
    config = defaults.diskne("bow", "file")
    config.data.dir = str(write_benchmark(big(), folds(big()), home / "diskne"))
    config.vectors.dim = 6
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDNLI_JAX_CACHE", str(home / "cache"))
        experiment.of(config).prepare()


@pytest.fixture(scope="module")
def kept(home):
    """All that is kept, by name, undamaged."""
    systems = ("bow", "ga_reader")
    for system in systems:
        completed(home, system, f"{system}-damage")
    prepare_diskne(home)
    found = {f"checkpoint of {name}": Checkpoint(home / f"{name}-damage" / "checkpoints") for name in systems}
    folders = sorted(path for path in (home / "cache" / "prepared").iterdir() if path.is_dir())
    for name in ("mednli", "file", "diskne-file"):
        found[f"prepared {name}"] = Prepared(next(path for path in folders if path.name.startswith(f"{name}-")))
    found["ontology"] = StoredOntology(home / "ontologies" / "x")
    found["distances"] = Distances(home / "paths")
    found["filtering"] = State(home / "filtering")
    for one in found.values():
        assert one.whole()
    return found


@pytest.mark.parametrize("how", ["flip", "truncate"])
def test_no_damage_is_silent(kept, how, capsys):
    """Everything kept is damaged in turn; each damage is told and what is damaged not used."""
    draw, silent, counts = random.Random(how), [], Counter()
    for number in range(DAMAGES):
        name = list(kept)[number % len(kept)]
        own = kept[name]
        path = draw.choice(own.files())
        content = damage(draw, path, how)
        capsys.readouterr()
        noticed = own.noticed()
        if not noticed or own.told not in capsys.readouterr().err:
            silent.append((name, path.name))
        if path.parent.is_dir():
            path.write_bytes(content)
        counts[name] += 1
    for one in kept.values():
        assert one.whole()
    capsys.readouterr()
    with capsys.disabled():
        where = ", ".join(f"{count} of {name}" for name, count in counts.items())
        print(f"\n{how}: {counts.total()} damages ({where}); {len(silent)} silent")
    assert silent == []
