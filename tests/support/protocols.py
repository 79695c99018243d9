"""Small runs of each kind of training, and what a finished run of them leaves, for tests that stop
and resume them."""

import shlex
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from mednli_jax.training.checkpoint import Checkpoints
from support.cloze import write_articles
from support.commands import SMALL, json_lines, read_json
from support.files import contents
from support.pair_files import write_pairs

Json = dict[str, Any]

SEEDS = "--config.seeds=0,1 --config.vectors.path="
TINY = f"""{SEEDS} --config.vectors.dim=8 --config.train.max_buckets=1
    --config.model.hidden_size=4"""
BOW = f"""--config=bow:mednli {" ".join(SMALL)} --config.vectors.path= --config.train.batch_size=4
    --config.model.dropout=0.3"""
# The flags of each protocol; "source" is a finished run.
PROTOCOLS = {
    "warmup": f"""{BOW} --config.train.schedule=warmup_linear --config.train.clip=1.0
        --config.train.optimizer=adamw""",
    "transfer": f"{BOW} --config.transfer.init_from=source --config.transfer.private=True",
    "esim": f"--config=esim:mednli {TINY} --config.train.batch_size=16",
    "reader": f"""--config=ga:file {TINY} --config.data.dir=own --config.model.hops=2
        --config.train.batch_size=2 --config.train.evaluate_every=2""",
    "bert": f"""--config=encoder:mednli {SEEDS} --config.data.pieces=120 --config.data.max_length=32
        --config.model.hidden_size=8 --config.model.layers=1 --config.model.intermediate_size=16
        --config.train.batch_size=16 --config.train.max_buckets=1""",
    "features": f"""--config=features:mednli {SEEDS} --config.vectors.dim=8 --config.model.trees=20
        --config.knowledge.ontology=mesh""",
    "folds": f"""--config=diskne_bow:demo {TINY} --config.diskne.diseases=D006333,D060050
        --config.diskne.at_once=4""",
}
OFTEN = "--config.train.patience=99 --config.train.checkpoint_minutes=0.005"


class Results(NamedTuple):
    """What a complete run leaves, without times."""

    arrays: list[tuple[str, bytes]]
    private: dict[str, bytes]
    metrics: list[Json]
    result: Json


def write_home(home: Path) -> None:
    """Writes data/mednli and own/ (articles)."""
    write_pairs(home / "data" / "mednli")
    write_articles(home / "own")


def flags_of(protocol: str, folder: str | Path, epochs: int) -> list[str]:
    times = f"{OFTEN} --config.train.epochs={epochs} --workdir={folder}"
    return shlex.split(f"{PROTOCOLS[protocol]} {times}")


def results(folder: Path) -> Results:
    assert not list(folder.rglob("*.tmp"))
    tree, _ = Checkpoints(folder / "checkpoints").load() or ({}, None)
    arrays = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        arrays.append((jax.tree_util.keystr(path), np.asarray(leaf).tobytes()))
    private = contents(folder / "private")
    assert any(name.endswith((".jsonl", ".safetensors")) for name in private)
    rows = json_lines(folder / "metrics.jsonl") if (folder / "metrics.jsonl").is_file() else []
    result = untimed(read_json(folder, "result.json"))
    assert result["status"] == "complete"
    return Results(arrays, private, [untimed(row) for row in rows], result)


def untimed(row: Json) -> Json:
    """A row without its figures of time and memory."""
    return {
        name: value for name, value in row.items() if "second" not in name and "bytes" not in name
    }
