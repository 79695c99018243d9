"""Runs commands in a process of their own or in this one, and writes the small corpora that they
read."""

import contextlib
import io
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from compiler import FAST
from made_up_pairs import official, write_rows

from mednli_jax import cli, run
from mednli_jax.run import experiment_of
from mednli_jax.training.devices import Devices

ROOT = Path(__file__).parents[1]
LABELS = ("entailment", "neutral", "contradiction")
VERBS = {"entailment": "has", "neutral": "may have", "contradiction": "lacks"}
CONDITIONS = ("asthma", "gout", "pneumonia", "anemia", "stroke", "sepsis")
PHRASES = ("fever", "dry cough", "skin rash", "gout", "chest pain")
SECRET = "zyzzyva"  # occurs in every premise and passage, and must occur in no output
COMMON = "gout"  # occurs in every premise that `write_shared_premises` writes
SMALL = (
    "--config.model.hidden_size=4",
    "--config.vectors.dim=8",
    "--config.train.batch_size=16",
    "--config.train.epochs=2",
    "--config.train.max_buckets=1",
    "--config.seeds=0,1",
)


def config_flag(name, variant=None):
    return f"--config={ROOT / 'configs' / name}.py" + (f":{variant}" if variant else "")


def environment_of(home):
    """Environment variables of a process whose data and cache lie in this folder."""
    return {
        "MEDNLI_JAX_DATA": str(home / "data"),
        "MEDNLI_JAX_CACHE": str(home / "cache"),
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": FAST,
    }


def run_command(name, *arguments, cwd, stdin="", **environment):
    """Runs `python -m mednli_jax.<name>` in a process of its own. The result has returncode, stdout
    and stderr."""
    command = [sys.executable, "-m", f"mednli_jax.{name}", *arguments]
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=240,
        env={**os.environ, **environment},
    )


def call_script(name, *arguments, timeout=60, **variables):
    """Runs launch/<name> with these environment variables. The result has returncode, stdout and
    stderr."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": FAST,
        **variables,
    }
    command = ["bash", f"launch/{name}", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout
    )


def use_one_device(patch):
    """Commands of this process use one of the suite's devices, as most machines have one;
    compilation is cheaper."""
    patch.setattr(run, "Devices", lambda: Devices(jax.local_devices()[:1]))


@contextlib.contextmanager
def at(home):
    """Commands of this process run in this folder, with its cache and one device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("MEDNLI_JAX_CACHE", str(home / "cache"))
        use_one_device(patch)
        yield patch


def prepare(config):
    """(prepared corpus, whether it was in the cache)."""
    return experiment_of(config).prepare()


def call_command(module, *flags, stdin="", words=sys.maxsize):
    """Runs a command in this process: (exit code, stdout, stderr). Restores the settings of the
    process."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before, mask = (sys.argv, sys.stdin), os.umask(0o077)
    sys.argv, sys.stdin = (
        [module.__file__, *map(str, flags)],
        io.TextIOWrapper(io.BytesIO(stdin.encode())),
    )
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.run(module.main, module.__doc__, module.define, words=words)
    finally:
        sys.argv, sys.stdin = before
        os.umask(mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return code, out.getvalue(), err.getvalue()


def read_json(*parts):
    return json.loads(Path(*parts).read_text())


def json_lines(*parts):
    return [json.loads(line) for line in Path(*parts).read_text().splitlines()]


def write_pairs(folder, sizes=(("train", 48), ("dev", 18), ("test", 17))):
    """Writes sentence pairs in MedNLI's official layout; the verb decides the label."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in sizes:
        pairs = [own_pair(split, number, CONDITIONS) for number in range(size)]
        rows = [
            official(f"{split}-{n}", pair[0], f"{SECRET} {pair[1]}", pair[2])
            for n, pair in enumerate(pairs)
        ]
        write_rows(folder / f"mli_{split}_v1.jsonl", rows)


def write_shared_premises(path, premises=12):
    """Writes one pair of each label for each premise; hypotheses of eight premises have SECRET,
    those of all COMMON."""
    rows = []
    for n in range(premises):
        denied = SECRET if n < 8 else "joint pain"
        for label, text in zip(
            LABELS, ("has brain injury", f"may have {COMMON}", f"no {denied}"), strict=True
        ):
            row = {"pairID": f"{path.stem}-{n}-{label}", "gold_label": label}
            row |= {"sentence1": f"{COMMON} of patient {n} .", "sentence2": f"patient {text}"}
            rows.append(row)
    write_rows(path, rows)


def write_own_pairs(folder, conditions=CONDITIONS, sizes=(("train", 36), ("dev", 12), ("test", 9))):
    """Writes a user's own pairs as train.jsonl and so on; the verb decides the label. Returns their
    words.

    `own_pair` makes each pair.
    """
    folder.mkdir(parents=True)
    words = set()
    for split, size in sizes:
        rows = [own_pair(split, number, conditions) for number in range(size)]
        words |= {word for row in rows for text in row[1:] for word in text.split()}
        names = ("label", "premise", "hypothesis")
        write_rows(folder / f"{split}.jsonl", (dict(zip(names, row, strict=True)) for row in rows))
    return words


def own_pair(split, number, conditions):
    """(label, premise, hypothesis)."""
    label, condition = LABELS[number % 3], conditions[number % len(conditions)]
    return label, f"{condition} in {split} {number // 3} .", f"patient {VERBS[label]} {condition}"


def write_articles(folder):
    """Writes articles in CliCR's layout with three phrases and three queries each; the last test
    article has none."""
    folder.mkdir(parents=True)
    draw = random.Random(3)
    for split, count in (("train", 4), ("dev", 2), ("test", 3)):
        articles = []
        for number in range(count):
            phrases = [] if (split, number) == ("test", 2) else draw.sample(PHRASES, 3)
            marked = " and ".join(f"BEG__{phrase}__END" for phrase in phrases)
            queries = [
                {
                    "id": f"{split}{number}.{query}",
                    "query": f"case {query} had @placeholder .",
                    "answers": [{
                        "text": phrases[query] if phrases else "fever", "cui": "C1",
                        "sem_type": ("problem", "test")[query % 2], "origin": "dataset",
                    }],
                }
                for query in range(3)
            ]  # fmt: skip
            document = {
                "title": "A case",
                "context": f"{SECRET} shows {marked} .\nNo more .",
                "qas": queries,
            }
            articles.append({"source": f"{split}{number}", "document": document})
        (folder / f"{split}1.0.json").write_text(json.dumps({"version": "1.0", "data": articles}))
    return folder
