"""A run that is killed anywhere and resumed ends bit-identical to an unbroken one, and damaged files are never used.

For the slow tests $MEDNLI_JAX_KILLS is the number of kills of each system, and $MEDNLI_JAX_DAMAGES the number of
flipped bits and of truncations.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from made_up_commands import (
    CONDITIONS,
    ROOT,
    SMALL,
    call_command,
    config_flag,
    environment_of,
    json_lines,
    read_json,
    use_one_device,
    write_articles,
    write_pairs,
)

from mednli_jax import train
from mednli_jax.analysis.artifacts import filtering
from mednli_jax.corpora.cache import Cache
from mednli_jax.errors import UserError
from mednli_jax.knowledge.distances import shortest_paths
from mednli_jax.knowledge.ontology import Ontology, is_a_matrix
from mednli_jax.knowledge.paths import stored_paths
from mednli_jax.knowledge.store import stored
from mednli_jax.training.checkpoint import Checkpoints

KILLS = int(os.environ.get("MEDNLI_JAX_KILLS", "20"))
DAMAGES = int(os.environ.get("MEDNLI_JAX_DAMAGES", "1000"))
SAVING = (signal.SIGTERM, signal.SIGINT)  # a run saves and exits with 3
COLD = 4  # one of so many runs compiles anew
EPOCHS = {"folds": 4, "sweep": 4}  # in two chunks; in three trials
MOST_EPOCHS = 12
OFTEN = ("--config.train.patience=99", "--config.train.checkpoint_minutes=0.005")
TINY = ("--config.seeds=0,1", "--config.vectors.path=", "--config.train.max_buckets=1")
PAIRS = ("--config.vectors.path=", *SMALL, "--config.model.dropout=0.3")
READER = (*TINY, "--config.data.dir=own", "--config.vectors.dim=8", "--config.model.hidden_size=4",
          "--config.model.hops=2", "--config.train.batch_size=2")  # fmt: skip
BERT = (*TINY, "--config.data.pieces=120", "--config.data.max_length=32", "--config.model.hidden_size=8",
        "--config.model.layers=1", "--config.model.intermediate_size=16", "--config.train.batch_size=16")  # fmt: skip
TRAINED = {
    "bow": (config_flag("bow", "mednli"), *PAIRS),
    "esim": (config_flag("esim", "mednli"), *PAIRS),
    "ga_reader": (config_flag("ga_ent", "file"), *READER),
    "bert": (config_flag("bert", "mednli"), *BERT),
}
# Protocols of training. Those of OF_BOW train the model `bow`; "source" is a finished run.
OF_BOW = {
    "plateau": ("--config.train.schedule=plateau",),
    "cyclical": ("--config.train.schedule=cyclical", "--config.train.cycle=7", "--config.train.average_from=2",
                 "--config.train.average_every=3"),
    "warmup": ("--config.train.schedule=warmup_linear", "--config.train.accumulate=2", "--config.train.clip=1.0",
               "--config.train.optimizer=adamw"),
    "mixed": ("--config.data.mix=snli",),
    "transfer": ("--config.transfer.init_from=source", "--config.transfer.skip=logits"),
    "frozen": ("--config.transfer.init_from=source", "--config.transfer.freeze=projection"),
}  # fmt: skip
PROTOCOLS = {
    **{name: (config_flag("bow", "mednli"), *PAIRS, *flags) for name, flags in OF_BOW.items()},
    "features": (config_flag("features", "mednli"), "--config.vectors.path=", "--config.vectors.dim=8",
                 "--config.model.trees=40", "--config.knowledge.ontology=mesh"),
    "mlm": (config_flag("mlm", "file"), "--config.data.dir=texts", "--config.data.pieces=120",
            "--config.data.max_length=32", "--config.model.hidden_size=8", "--config.model.layers=1",
            "--config.model.intermediate_size=16", "--config.train.batch_size=4", "--config.train.max_buckets=1",
            "--config.seeds=0,1"),
    "folds": (config_flag("diskne_bow", "demo"), *TINY, "--config.vectors.dim=8", "--config.model.hidden_size=4",
              "--config.diskne.diseases=D006333,D060050", "--config.diskne.at_once=4"),
}  # fmt: skip
# Commands that are simply given again after a kill. OUT is the folder that they write to.
KD = (config_flag("esim_kd", "mednli"), "--config.vectors.path=", "--config.vectors.dim=8")
OTHER = (config_flag("bow", "snli"), "--config.vectors.path=", "--config.vectors.dim=8")
AGAIN = {
    "prepare": ("prepare", *KD, "--config.knowledge.ontology=mesh"),
    "ontology": ("prepare", *KD, "--config.knowledge.ontology=own.obo"),
    "report": ("report", "source", "--out=OUT/report.html"),
    "evaluate": ("evaluate", "--run=source_ga", "--scores=OUT/each.jsonl"),
    "evaluate on another corpus": ("evaluate", "--run=source", *OTHER, "--workdir=OUT/run"),
}
AFLITE = ("aflite", config_flag("bow", "mednli"), "--config.vectors.path=", "--config.vectors.dim=2", "--input=pair",
          "--n=32", "--k=1", "--tau=.3")  # fmt: skip
# A sweep of BOW with three trials, two at a time.
SWEEP = """
from mednli_jax import defaults
from mednli_jax.sweeps.spaces import product


def get_config(variant):
    return defaults.nli("bow", variant)


def get_sweep():
    return product({"train.learning_rate": (0.001, 0.003, 0.01)})
"""
SWEPT = ("--config=sweep.py:mednli", *PAIRS, "--workers=2", "--grace=3")
FILTERED = ("aflite.json", "easy.txt", "difficult.txt", "easy_test.txt", filtering.STATE)


def slow(test):
    return pytest.mark.slow(pytest.mark.timeout(3 * 3600)(test))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("kill")
    write_pairs(home / "data" / "mednli", (("train", 240), ("dev", 60), ("test", 61)))
    write_articles(home / "own")
    shutil.copytree(home / "data" / "mednli", home / "data" / "snli")
    for path in (home / "data" / "snli").iterdir():  # pairs with other uids
        path.write_text(path.read_text().replace('"pairID": "', '"pairID": "s'))
        path.rename(path.with_name(path.name.replace("mli", "snli_1.0").replace("_v1", "")))
    (home / "texts").mkdir()
    for split in ("train", "dev"):
        rows = json_lines(home / "data" / "mednli" / f"mli_{split}_v1.jsonl")
        (home / "texts" / f"{split}.txt").write_text("\n\n".join(row["sentence1"] for row in rows) + "\n")
    names = [*CONDITIONS, *(f"term {number}" for number in range(20_000))]
    terms = (f"[Term]\nid: X:{n}\nname: {name}\nis_a: X:{n // 2}\n" for n, name in enumerate(names, 1))
    (home / "sweep.py").write_text(SWEEP)
    (home / "own.obo").write_text("format-version: 1.2\n\n[Term]\nid: X:0\nname: a disease\n\n" + "\n".join(terms))
    return home


@pytest.fixture(scope="module")
def sources(home):
    """Finished runs that other runs begin from."""
    complete(home, "bow", "source", epochs=2)
    complete(home, "ga_reader", "source_ga", epochs=2)


def flags_of(system, folder, epochs=None):
    if system == "aflite":
        return (*AFLITE, f"--out={folder}")
    often = (*OFTEN, f"--config.train.epochs={epochs or EPOCHS.get(system, MOST_EPOCHS)}")
    if system == "sweep":  # a sweep's folder is runs/NAME
        return (*SWEPT, *often, f"--study={Path(folder).name}")
    return (*{**TRAINED, **PROTOCOLS}[system], *often, f"--workdir={folder}")


def start(home, system, folder, *flags, epochs=None):
    name = {"aflite": ["-m", "mednli_jax.analyze"], "sweep": [ROOT / "launch" / "sweep.py"]}.get(system)
    command = [sys.executable, *(name or ["-m", "mednli_jax.train"]), *flags_of(system, folder, epochs), *flags]
    environment = {**os.environ, **environment_of(home)}
    # compiled programs then lie in the cache of home, where kills can hit them
    del environment["JAX_COMPILATION_CACHE_DIR"]
    with open(home / "out.txt", "a") as out:
        return subprocess.Popen(command, cwd=home, stdout=out, stderr=out, env=environment, start_new_session=True)


def resume_flags(home, system, folder):
    """--resume if there is something to resume; a sweep needs no flag."""
    found = (home / folder / filtering.STATE).is_file() if system == "aflite" else (home / folder).is_dir()
    return ["--resume"] if found and system != "sweep" else []


def complete(home, system, folder, *flags, **how):
    """Runs a system until it is complete, resuming an existing folder. Returns the seconds that this took."""
    more, started = resume_flags(home, system, folder), time.monotonic()
    assert start(home, system, folder, *flags, *more, **how).wait() == 0, last_lines(home)
    return time.monotonic() - started


def last_lines(home):
    return (home / "out.txt").read_text()[-3000:]


def results(system, folder):
    """(arrays, the rest) of everything that interruptions must not change."""
    assert not list(folder.rglob("*.tmp"))
    if system == "aflite":
        return [], [(folder / name).read_bytes() for name in FILTERED]
    if system == "sweep":
        trials = [results("bow", folder / f"trial-{number}") for number in range(3)]
        table = [line.rpartition("| ")[0] for line in (folder / "table.md").open()]  # without the column of attempts
        return [array for arrays, _ in trials for array in arrays], [table, *(part for _, of in trials for part in of)]
    tree, _ = Checkpoints(folder / "checkpoints").load() or ({}, None)
    assert tree or system in ("features", "folds")
    private = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("private/**/*"))
               if path.is_file()}  # fmt: skip
    assert any(name.endswith((".jsonl", ".safetensors")) for name in private)
    result = untimed(read_json(folder, "result.json"))
    assert result["status"] == "complete"
    metrics = [untimed(row) for row in json_lines(folder, "metrics.jsonl")] if system != "features" else []
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays = [(jax.tree_util.keystr(path), np.asarray(leaf).tobytes()) for path, leaf in leaves]
    return arrays, [*private.items(), metrics, result]


def untimed(row):
    """A row without its figures of time and memory."""
    return {name: value for name, value in row.items() if "second" not in name and "bytes" not in name}


def assert_same(system, folder, expected):
    for part, of in zip(results(system, folder), expected, strict=True):
        assert len(part) == len(of)
        for one, other in zip(part, of, strict=True):
            assert one == other


@pytest.mark.parametrize("number", [signal.SIGKILL, *(pytest.param(n, marks=pytest.mark.slow) for n in SAVING)])
def test_a_stopped_run_resumes_bit_for_bit(home, monkeypatch, number):
    """A process of its own is stopped, and this process resumes the run."""
    monkeypatch.chdir(home)
    use_one_device(monkeypatch)
    for name in ("MEDNLI_JAX_DATA", "MEDNLI_JAX_CACHE"):
        monkeypatch.setenv(name, environment_of(home)[name])
    folder, epochs = home / f"stopped-{number}", 6 if number == signal.SIGKILL else 60
    process = start(home, "bow", folder.name, epochs=epochs)
    while not (folder / "metrics.jsonl").is_file() or len(json_lines(folder, "metrics.jsonl")) < 2:
        time.sleep(0.02)  # by then compilation is over
        assert process.poll() is None, last_lines(home)
    begun = time.monotonic()
    process.send_signal(number)
    assert process.wait() == (3 if number in SAVING else -number)
    assert time.monotonic() - begun < 10
    assert read_json(folder, "result.json")["status"] == ("interrupted" if number in SAVING else "running")
    assert len(json_lines(folder, "metrics.jsonl")) < epochs
    for name, more in ((folder.name, ["--resume"]), (f"{folder.name}-whole", [])):
        code, _, err = call_command(train, *flags_of("bow", name, epochs), *more)
        assert code == 0, err
    assert_same("bow", folder, results("bow", home / f"{folder.name}-whole"))


@slow
@pytest.mark.parametrize("name", AGAIN)
def test_a_command_killed_at_random_and_given_again_leaves_the_same(home, sources, name):
    """Half of the kills are aimed at the short time in which the command writes."""
    draw, expected = random.Random(name), left_by(home, name, home / f"{name}-whole")
    length = time.monotonic()
    again = left_by(home, name, home / f"{name}-again")
    length = time.monotonic() - length
    expected = {path: content for path, content in expected.items() if again[path] == content}  # some files hold times
    assert {".npy", ".html", ".jsonl"} & {Path(path).suffix for path in expected}
    killed = wrote = number = 0
    begun = time.monotonic()
    while killed < KILLS:
        assert number < 3 * KILLS + 3, "too few kills find a command under way"
        folder = home / f"{name}-{number}"
        number += 1
        process = start_again(home, name, folder)
        if number % 2:
            wait(process, draw.uniform(0.3, 1.0) * length)
        else:  # soon after the command's first file
            while process.poll() is None and not any(folder.iterdir()):
                time.sleep(0.001)
            time.sleep(draw.uniform(0, 0.1) * length)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            killed += 1
            wrote += any(folder.iterdir())
        if (folder / "run").is_dir():  # the command never writes into an existing run
            shutil.rmtree(folder / "run")
        found = left_by(home, name, folder)
        assert {path: found.get(path) for path in expected} == expected
        shutil.rmtree(folder)
    print(
        f"\n{name}: {killed} kills in {number} attempts, {wrote} of them after it began to write; the command takes "
        f"{length:.1f} s; nothing differs in {len(expected)} files; {time.monotonic() - begun:.0f} s"
    )


def start_again(home, name, folder):
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, **environment_of(home)}
    if AGAIN[name][0] == "prepare":
        environment["MEDNLI_JAX_CACHE"] = str(folder)
    with open(home / "out.txt", "a") as out:
        flags = [flag.replace("OUT", str(folder)) for flag in AGAIN[name][1:]]
        command = [sys.executable, "-m", f"mednli_jax.{AGAIN[name][0]}", *flags]
        return subprocess.Popen(command, cwd=home, stdout=out, stderr=out, env=environment, start_new_session=True)


def left_by(home, name, folder):
    """{path: content} of what a command leaves in a folder."""
    assert start_again(home, name, folder).wait() == 0, last_lines(home)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and not path.name.endswith(".tmp") and ".tmp/" not in str(path)}  # fmt: skip


@slow
@pytest.mark.parametrize("system", [*TRAINED, *PROTOCOLS, "aflite", "sweep"])
def test_runs_killed_at_random_resume_bit_for_bit(home, sources, system):
    """kill -9 hits start, compilation (anew in every fourth run), epochs or rounds, saves, or evaluation.

    Half of the killed runs are killed again after they have been resumed.
    """
    draw, begun = random.Random(system), time.monotonic()
    cold, length = (complete(home, system, f"runs/{system}-{kind}") for kind in ("cold", "whole"))
    expected = results(system, home / "runs" / f"{system}-whole")
    assert_same(system, home / "runs" / f"{system}-cold", expected)
    killed = saved = attempts = resumed = 0
    while killed < KILLS:
        anew = resumed % COLD == COLD - 1
        if anew:
            shutil.rmtree(home / "cache" / "compiled")
        folder = f"runs/{system}-{resumed}"
        resumed += 1
        for _ in range(draw.choice((1, 2))):
            assert attempts < 3 * KILLS + 3, "too few kills find a run under way"
            attempts += 1
            started, fresh = time.monotonic(), not (home / folder).exists()
            process = start(home, system, folder, *resume_flags(home, system, folder))
            wait(process, draw.uniform(0.2, 0.9) * (cold if anew else length))
            if process.poll() is None:
                kill(process, draw.choice((True, False)))
            elif fresh:  # the machine was busier when the length was measured
                length = min(length, time.monotonic() - started)
            if process.wait() == -signal.SIGKILL:
                killed += 1
                saved += has_saved(home / folder)
        complete(home, system, folder)
        assert_same(system, home / folder, expected)
        shutil.rmtree(home / folder)
    print(
        f"\n{system}: {killed} kills in {attempts} attempts, {saved} of them after a save; {resumed} runs of "
        f"{length:.1f} s, none differs; {time.monotonic() - begun:.0f} s"
    )


def wait(process, seconds):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def kill(process, with_children):
    """Kills the process group and, if wished, children in sessions of their own, such as the trials of a sweep."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    pids = children.read_text().split() if with_children and children.is_file() else []
    os.killpg(process.pid, signal.SIGKILL)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def has_saved(folder):
    """Whether a run has saved anything that it can resume from."""
    names = ("[0-9]*.manifest.json", filtering.STATE, "folds.jsonl")
    return any(path for name in names for path in folder.rglob(name))


# -- damage ------------------------------------------------------------------------------------------------------------


class BuiltAgain(Exception):
    pass


def build_again():
    raise BuiltAgain


@dataclass
class Kept:
    """Stored files: their folder, how they are loaded, and a result that is right in spite of damage."""

    folder: Path
    load: Any
    right: Any = None  # None: only an error or building it again is right

    def notices(self, draw, how, capsys):
        """Whether damage to a file is reported and the damaged file is not used. Restores the folder."""
        spare = self.folder.with_name(f"{self.folder.name}-spare")
        shutil.copytree(self.folder, spare)
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file() and path.name != ".gitignore"]
        path = draw.choice([path for path in files if path.stat().st_size])
        damage(draw, path, how)
        capsys.readouterr()
        try:
            found = self.load()
            noticed = self.right is not None and np.array_equal(found, self.right) and capsys.readouterr().err != ""
        except BuiltAgain:
            noticed = capsys.readouterr().err != ""
        except UserError:
            noticed = True
        shutil.rmtree(self.folder, ignore_errors=True)
        spare.rename(self.folder)
        return noticed


def damage(draw, path, how):
    """Flips one bit of the file or cuts the file short."""
    content = path.read_bytes()
    place = draw.randrange(len(content))
    flipped = content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]
    path.write_bytes(flipped if how == "flip" else content[:place])


@pytest.fixture(scope="module")
def kept(home):
    """Everything that is stored, by name, undamaged."""
    (home / "filtering").mkdir()
    filtering.save(home / "filtering", {"m": 20}, filtering.State(np.zeros(90, int), np.zeros(90), ((0, 90),), False))
    found = {"filtering": Kept(home / "filtering", lambda: filtering.load(home / "filtering", {"m": 20}, 90))}
    for system in ("bow", "ga_reader"):
        complete(home, system, f"{system}-damage")
        folder = home / f"{system}-damage" / "checkpoints"
        newest = Checkpoints(folder).numbers()[-1]
        for other in [*folder.glob("*")]:  # keeps only the newest, so that damage must be an error
            if other.name.partition(".")[0] != str(newest):
                shutil.rmtree(other) if other.is_dir() else other.unlink()
        found[f"checkpoint of {system}"] = Kept(folder, lambda folder=folder: Checkpoints(folder).load())
    for folder in [path for path in (home / "cache" / "prepared").iterdir() if path.is_dir()]:
        name, key = folder.name.rpartition("-")[0], read_json(folder, "manifest.json")["key"]
        cache = Cache(folder.parent.parent)
        found[f"prepared {name}"] = Kept(
            folder, lambda cache=cache, name=name, key=key: cache.get(name, key, build_again)
        )
    ids = tuple(f"c{i}" for i in range(60))
    edges = [(child, child // 2) for child in range(1, 60)]
    ontology = Ontology("made", "1", ids, tuple(f"Ménière {i}" for i in ids), (), is_a_matrix(edges, 60), "")
    pairs = np.random.default_rng(0).integers(0, 60, (500, 2))
    stored(home / "ontologies" / "x", {"made": "up"}, lambda: ontology)
    found["ontology"] = Kept(
        home / "ontologies", lambda: stored(home / "ontologies" / "x", {"made": "up"}, build_again)
    )
    distances = stored_paths(ontology, pairs, folder=home / "paths")
    assert np.array_equal(distances, shortest_paths(ontology, pairs))
    found["distances"] = Kept(
        home / "paths", lambda: stored_paths(ontology, pairs, folder=home / "paths"), right=distances
    )
    for one in found.values():
        assert one.load() is not None
    return found


@slow
@pytest.mark.parametrize("how", ["flip", "truncate"])
def test_no_damage_is_silent(kept, how, capsys):
    """Each kind of stored file is damaged in turn: the result is an error, or a warning with the right result."""
    draw, names = random.Random(how), list(kept)
    drawn = [names[number % len(names)] for number in range(DAMAGES)]
    silent = [name for name in drawn if not kept[name].notices(draw, how, capsys)]
    with capsys.disabled():
        print(f"\n{how}: {json.dumps(Counter(drawn))} damages, {len(silent)} silent")
    assert silent == []
