"""Small runs of each kind of training, and what a finished run of them leaves, for tests that stop
and resume them.
"""

import jax
import numpy as np

from mednli_jax.training.checkpoint import Checkpoints
from support.cloze import write_articles
from support.commands import SMALL, config_flag, json_lines, read_json
from support.pair_files import write_pairs

TINY = ("--config.seeds=0,1", "--config.vectors.path=", "--config.vectors.dim=8", "--config.train.max_buckets=1",
        "--config.model.hidden_size=4")  # fmt: skip
BOW = (config_flag("bow", "mednli"), *SMALL, "--config.vectors.path=", "--config.train.batch_size=4",
       "--config.model.dropout=0.3")  # fmt: skip
# The flags of each protocol. Those of OF_BOW train the model `bow`; "source" is a finished run.
OF_BOW = {
    "average": ("--config.train.average_from=2", "--config.train.average_every=3"),
    "warmup": ("--config.train.schedule=warmup_linear", "--config.train.clip=1.0",
               "--config.train.optimizer=adamw"),
    "transfer": ("--config.transfer.init_from=source", "--config.transfer.private=True"),
}  # fmt: skip
PROTOCOLS = {
    **{name: (*BOW, *flags) for name, flags in OF_BOW.items()},
    "esim": (config_flag("esim", "mednli"), *TINY, "--config.train.batch_size=16"),
    "reader": (config_flag("ga_ent", "file"), *TINY, "--config.data.dir=own", "--config.model.hops=2",
               "--config.train.batch_size=2", "--config.train.evaluate_every=2"),
    "bert": (config_flag("bert", "mednli"), *TINY[:2], "--config.data.pieces=120", "--config.data.max_length=32",
             "--config.model.hidden_size=8", "--config.model.layers=1", "--config.model.intermediate_size=16",
             "--config.train.batch_size=16", "--config.train.max_buckets=1"),
    "features": (config_flag("features", "mednli"), "--config.vectors.path=", "--config.vectors.dim=8",
                 "--config.model.trees=20", "--config.seeds=0,1", "--config.knowledge.ontology=mesh"),
    "folds": (config_flag("diskne_bow", "demo"), *TINY, "--config.diskne.diseases=D006333,D060050",
              "--config.diskne.at_once=4"),
}  # fmt: skip


def write_home(home):
    """Writes data/mednli and own/ (articles)."""
    write_pairs(home / "data" / "mednli")
    write_articles(home / "own")


def flags_of(protocol, folder, epochs):
    often = ("--config.train.patience=99", "--config.train.checkpoint_minutes=0.005")
    return (*PROTOCOLS[protocol], *often, f"--config.train.epochs={epochs}", f"--workdir={folder}")


def results(folder):
    """(arrays, files of private/, rows of metrics, result) of a complete run, without times."""
    assert not list(folder.rglob("*.tmp"))
    tree, _ = Checkpoints(folder / "checkpoints").load() or ({}, None)
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays = [(jax.tree_util.keystr(path), np.asarray(leaf).tobytes()) for path, leaf in leaves]
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.glob("private/**/*")
        if path.is_file()
    }
    assert any(name.endswith((".jsonl", ".safetensors")) for name in files)
    metrics = folder / "metrics.jsonl"
    rows = [untimed(row) for row in json_lines(metrics)] if metrics.is_file() else []
    result = untimed(read_json(folder, "result.json"))
    assert result["status"] == "complete"
    return arrays, files, rows, result


def untimed(row):
    """A row without its figures of time and memory."""
    return {
        name: value for name, value in row.items() if "second" not in name and "bytes" not in name
    }
