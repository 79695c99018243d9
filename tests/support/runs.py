"""Run directories with given predictions, and changes of their files."""

import json
import struct

import numpy as np
from tensorboardX.proto import event_pb2

from mednli_jax import defaults
from mednli_jax.cli import read_config
from mednli_jax.data.examples import LABELS
from mednli_jax.nli import tables
from mednli_jax.nli.runs import RUNS
from mednli_jax.report import metrics
from mednli_jax.report.paper import PaperRun

# A letter stands for a label (e, n, c), and a word such as "een" for the predictions of a seed.
LETTERS = {label[0]: i for i, label in enumerate(LABELS)}
GOLD = "eeennnccc"
TEN = "eeennnccce"  # one of ten pairs is ten points


def indices(word):
    return np.array([LETTERS[letter] for letter in word])


def wrong(count):
    """Predictions of TEN that are wrong on the first `count` pairs."""
    return "".join({"e": "n", "n": "c", "c": "e"}[letter] for letter in TEN[:count]) + TEN[count:]


def rows(gold, seeds, uids=None, sure=0.8):
    """Rows of predictions; `seeds` has one word for each seed."""
    uids = uids or [f"u{i}" for i in range(len(gold))]
    return [
        {
            "uid": uid,
            "label": LABELS[LETTERS[label]],
            "predicted": [LABELS[LETTERS[word[i]]] for word in seeds],
            "probabilities": [
                [sure if c == LETTERS[word[i]] else (1 - sure) / 2 for c in range(len(LABELS))]
                for word in seeds
            ],
        }
        for i, (uid, label) in enumerate(zip(uids, gold, strict=True))
    ]


def scores(gold, seeds):
    gold, predicted = indices(gold), np.stack([indices(word) for word in seeds])
    every, flat = np.tile(gold, len(seeds)), predicted.reshape(-1)
    return {
        "examples": len(gold),
        "accuracy": metrics.mean_sd([metrics.accuracy(gold, row) for row in predicted]),
        "macro_f1": metrics.mean_sd([metrics.macro_f1(gold, row) for row in predicted]),
        "confusion": metrics.confusion(every, flat).tolist(),
        "per_class": metrics.per_class(every, flat),
        "loss": metrics.mean_sd([1.0] * len(seeds)),
    }


def write_run(
    folder, *seeds, gold=GOLD, dev=None, corpus="demo", uids=None, status="complete", train=None
):
    """Writes a run whose seeds predict `seeds` on the test split and `dev` (default `seeds`) on
    dev, one word each."""
    (folder / "private").mkdir(parents=True)
    numbers = list(range(len(seeds)))
    said = {"test": seeds, "dev": dev or seeds}
    splits = {name: {"rows": len(gold)} for name in said} | {"train": train or {"rows": 100}}
    about = {
        "model": "esim",
        "config": f"esim-{corpus}",
        "task": "nli",
        "prepared": "demo-0",
        "notes": [],
    }
    figures = {
        "seeds": numbers,
        "epochs": 2,
        "best_epoch": [1 for _ in seeds],
        "parameters": 1234,
        "seconds": 12.0,
    }
    result = {"status": status, "corpus": corpus, **about, **figures}
    for split, words in said.items():
        result[split] = scores(gold, words)
        lines = "".join(json.dumps(row) + "\n" for row in rows(gold, words, uids))
        (folder / "private" / f"predictions.{split}.jsonl").write_text(lines)
    env = {
        "command": [
            "python",
            "-m",
            "mednli_jax.train",
            "--config=configs/esim.py",
            f"--workdir={folder}",
            "--resume",
        ],
        "commit": "0123abc",
        "started": "2026-01-02T03:04:05Z",
        "mednli_jax": "0.1.0",
        "python": "3.12",
        "versions": {"jax": "0.10.2"},
        "devices": ["cpu:cpu"],
    }
    data = {
        "splits": splits,
        "files": {},
        "key": {},
        "knowledge": {"ontology": "none", "longest_path": 0},
    }
    data["vocabulary"] = {"source": "random", "with_vector": 7}
    files = {"config": {**row_config(folder.name, corpus), "seeds": numbers}}
    files |= {
        "env": env,
        "data": data,
        "result": result if status == "complete" else {"status": status},
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    (folder / "lock").write_text("")
    with open(folder / "metrics.jsonl", "w") as file:
        for epoch in (1, 2):
            names = ("train_loss", "train_accuracy", "dev_loss", "dev_accuracy")
            values = {name: [epoch / 10 + n / 100 for n in numbers] for name in names}
            file.write(json.dumps({"epoch": epoch, "seeds": numbers, **values}) + "\n")
    return folder


def row_config(row, corpus):
    """The config of the paper's run of a row of a table; of another corpus, with its name."""
    model = row.rpartition("-")[2]
    run = RUNS.get(row) or PaperRun(row, model if model in tables.NAMES else "esim")
    variant = corpus if corpus in defaults.VARIANTS else "demo"
    config = json.loads(json.dumps(read_config(f"{run.config}:{variant}").to_dict()))
    config["data"]["name"] = corpus
    for field, value in run.settings.items():
        section, _, name = field.rpartition(".")
        (config[section] if section else config)[name] = value
    if run.vectors:
        config["vectors"]["path"] = f"{run.vectors[0]}.vec"
    return config


def change(path, **changes):
    """Sets fields of sections of a JSON file, such as data__limit=60."""
    values = json.loads(path.read_text())
    for field, value in changes.items():
        section, _, name = field.partition("__")
        values[section][name] = value
    path.write_text(json.dumps(values))


def edit(path, **changes):
    """Sets fields of a JSON file; None removes a field."""
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))


def curves(folder):
    """tag -> [(epoch, value), ...] as TensorBoard shows it: a new session drops older values from
    its first step on."""
    found = {}
    for path in sorted((folder / "tensorboard").iterdir()):
        data = path.read_bytes()
        while data:  # a record: its length (8 bytes), a checksum (4), the event, and a checksum (4)
            (length,) = struct.unpack("<Q", data[:8])
            event, data = event_pb2.Event.FromString(data[12 : 12 + length]), data[16 + length :]
            if event.session_log.status == event_pb2.SessionLog.START:
                found = {
                    tag: [point for point in points if point[0] < event.step]
                    for tag, points in found.items()
                }
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found
