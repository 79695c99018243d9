"""Run directories with given predictions, and changes of their files.

A letter stands for a label (e, n, c), and a word such as "een" for the labels of the pairs or for
the predictions of one seed.
"""

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensorboardX.proto import event_pb2

from mednli_jax import defaults
from mednli_jax.cli import read_config
from mednli_jax.data.examples import LABELS
from mednli_jax.nli.tables.runs import NAMES, RUNS
from mednli_jax.report import metrics
from mednli_jax.report.options import PaperRun
from mednli_jax.rundir import FORMAT
from support.files import lines

Json = dict[str, Any]

LETTERS = "enc"  # the first letters of LABELS
GOLD = "eeennnccc"
TEN = "eeennnccce"  # one of ten pairs is ten points


def indices(word: str) -> np.ndarray:
    return np.array([LETTERS.index(letter) for letter in word])


def wrong(count: int) -> str:
    """Predictions of TEN that are wrong on the first `count` pairs."""
    return TEN[:count].translate(str.maketrans("enc", "nce")) + TEN[count:]


def rows(gold: str, seeds: Sequence[str], uids: Sequence[str] | None = None) -> list[Json]:
    """Rows of predictions; the predicted label has the probability 0.8."""
    predictions = []
    for number, label in enumerate(indices(gold)):
        predicted_S = np.array([indices(word)[number] for word in seeds])
        chosen_SC = np.eye(len(LABELS))[predicted_S]
        probabilities = np.where(chosen_SC == 1, 0.8, (1 - 0.8) / 2)
        predictions.append(
            {
                "uid": uids[number] if uids else f"u{number}",
                "label": LABELS[label],
                "predicted": [LABELS[index] for index in predicted_S],
                "probabilities": probabilities.tolist(),
            }
        )
    return predictions


def scores(gold: str, seeds: Sequence[str]) -> Json:
    """The scores of a split in result.json."""
    gold_N = indices(gold)
    predicted_SN = np.stack([indices(word) for word in seeds])
    gold_SN = np.tile(gold_N, len(seeds))
    accuracy_S = [metrics.accuracy(gold_N, predicted_N) for predicted_N in predicted_SN]
    f1_S = [metrics.macro_f1(gold_N, predicted_N) for predicted_N in predicted_SN]
    return {
        "examples": len(gold),
        "accuracy": metrics.mean_sd(accuracy_S),
        "macro_f1": metrics.mean_sd(f1_S),
        "confusion": metrics.confusion(gold_SN, predicted_SN.ravel()).tolist(),
        "per_class": metrics.per_class(gold_SN, predicted_SN.ravel()),
        "loss": metrics.mean_sd([1.0] * len(seeds)),
    }


ENV = {
    "command": ["python", "-m", "mednli_jax.train", "--config=configs/esim.py"],
    "commit": "0123abc",
    "started": "2026-01-02T03:04:05Z",
    "mednli_jax": "0.1.0",
    "python": "3.12",
    "versions": {"jax": "0.10.2"},
    "devices": ["cpu:cpu"],
}
DATA = {
    "files": {},
    "key": {},
    "knowledge": {"ontology": "none", "longest_path": 0},
    "vocabulary": {"source": "random", "with_vector": 7},
}
RESULT = {
    "model": "esim",
    "task": "nli",
    "prepared": "demo-0",
    "notes": [],
    "epochs": 2,
    "parameters": 1234,
    "seconds": 12.0,
}


def write_run(
    folder: Path,
    *seeds: str,
    gold: str = GOLD,
    dev: Sequence[str] | None = None,
    corpus: str = "demo",
    uids: Sequence[str] | None = None,
    status: str = "complete",
    train: Json | None = None,
) -> Path:
    """Writes a run whose seeds predict `seeds` on the test split and `dev` (default `seeds`) on
    dev. train: facts about the training split."""
    (folder / "private").mkdir(parents=True)
    numbers = list(range(len(seeds)))
    predicted = {"test": seeds, "dev": dev or seeds}
    command = [*ENV["command"], f"--workdir={folder}", "--resume"]
    result: Json = {"format": FORMAT, "status": status}
    if status == "complete":
        result |= {"corpus": corpus, "config": f"esim-{corpus}", "seeds": numbers, **RESULT}
        result["best_epoch"] = [1] * len(seeds)
        result |= {split: scores(gold, words) for split, words in predicted.items()}
    splits = {"train": train or {"rows": 100}}
    splits |= {split: {"rows": len(gold)} for split in predicted}
    write_json(folder / "config.json", {**row_config(folder.name, corpus), "seeds": numbers})
    write_json(folder / "env.json", {**ENV, "command": command})
    write_json(folder / "data.json", {**DATA, "splits": splits})
    write_json(folder / "result.json", result)
    (folder / "lock").touch()
    for split, words in predicted.items():
        path = folder / "private" / f"predictions.{split}.jsonl"
        path.write_text(lines(*rows(gold, words, uids)))
    (folder / "metrics.jsonl").write_text(lines(_epoch(1, numbers), _epoch(2, numbers)))
    return folder


def _epoch(epoch: int, seeds: list[int]) -> Json:
    values = [epoch / 10 + seed / 100 for seed in seeds]
    names = ("train_loss", "train_accuracy", "dev_loss", "dev_accuracy")
    return {"epoch": epoch, "seeds": seeds, **dict.fromkeys(names, values)}


def row_config(row: str, corpus: str) -> Json:
    """The config of the paper's run of a row of a table; of another corpus, with its name."""
    model = row.rpartition("-")[2]
    run = RUNS.get(row) or PaperRun(row, model if model in NAMES else "esim")
    variant = corpus if corpus in defaults.VARIANTS else "demo"
    config = read_config(f"{run.config}:{variant}")
    config.data.name = corpus
    with config.ignore_type():
        config.update_from_flattened_dict(run.settings)
    if run.vectors:
        config.vectors.path = f"{run.vectors[0]}.vec"
    return json.loads(json.dumps(config.to_dict()))


def write_json(path: Path, values: Json) -> None:
    path.write_text(json.dumps(values))


def change(path: Path, **changes: Any) -> None:
    """Sets fields of sections of a JSON file, such as data__limit=60."""
    values = json.loads(path.read_text())
    for field, value in changes.items():
        section, _, name = field.partition("__")
        values[section][name] = value
    write_json(path, values)


def edit(path: Path, **changes: Any) -> None:
    """Sets fields of a JSON file; None removes a field."""
    values = json.loads(path.read_text()) | changes
    write_json(path, {name: value for name, value in values.items() if value is not None})


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """tag -> [(epoch, value), ...] as TensorBoard shows it: a new session drops older values from
    its first step on."""
    points: dict[str, list[tuple[int, float]]] = {}
    for path in sorted((folder / "tensorboard").iterdir()):
        for event in _events(path.read_bytes()):
            if event.session_log.status == event_pb2.SessionLog.START:
                for tag, values in points.items():
                    points[tag] = [point for point in values if point[0] < event.step]
            for value in event.summary.value:
                points.setdefault(value.tag, []).append((event.step, value.simple_value))
    return points


def _events(records: bytes) -> list[event_pb2.Event]:
    """A record is its length (8 bytes), a checksum (4), the event, and a checksum (4)."""
    events = []
    while records:
        (length,) = struct.unpack("<Q", records[:8])
        events.append(event_pb2.Event.FromString(records[12 : 12 + length]))
        records = records[16 + length :]
    return events
