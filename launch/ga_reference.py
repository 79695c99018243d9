"""Trains a reader in PyTorch on the corpus of a config, to compare its scores with those of our reader.

  python launch/ga_reference.py --config=configs/ga_ent.py
  python launch/ga_reference.py --config=configs/ga_anonym.py:file --config.data.dir=FOLDER --config.seeds=0,1
  python launch/ga_reference.py --config=configs/ga_anonym.py:file --config.data.dir=FOLDER --plan=ours

The model is that of benchmarking/torch_models.py. It runs nn.GRU on padded batches, because packed passages take
several times as long on a CPU. --plan=lengths: the passages of a batch have similar lengths, those that they have
before --config.data.max_passage cuts them. --plan=ours: the batches are those of our reader. Batch size, learning rate,
halving, clipping, dropout, evaluations and the stopping rule are those of the config. The initial weights have the same
distributions and are drawn by another generator. The evaluation with the best exact match on dev counts. The output is
a JSON line for each seed with exact match and F1 of dev and test. Needs PyTorch: `pip install 'mednli_jax[torch]'`.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from mednli_jax import cli
from mednli_jax.benchmarking.workload import Workload
from mednli_jax.cloze.task import ClozeTask
from mednli_jax.data.arrays import SIDES
from mednli_jax.errors import UsageError
from mednli_jax.io import say
from mednli_jax.models.packing import MASKED_ENERGY
from mednli_jax.run import experiment_of
from mednli_jax.training.optim import DECAY


def workload_of(config) -> tuple[Workload, dict, Callable]:
    """(the prepared corpus of the config in the form of the PyTorch side, its splits, see `our_plan`)."""
    asked = experiment_of(config)
    task, (prepared, _) = asked.task, asked.prepare()
    arrays = task.resident(prepared)
    arrays |= {f"{side}_length": np.asarray(prepared.arrays[f"{side}_length"]) for side in SIDES}
    arrays["label"] = np.maximum(np.asarray(prepared.arrays["gold"]), 0)
    spans = {name: (rows.first, len(rows)) for name, rows in prepared.splits.items()}
    facts = task.model_facts(prepared.manifest)
    facts["types"] = max(facts["num_types"], int(arrays["candidate_type"].max()) + 1)
    if config.data.max_passage:
        arrays["premise_length"] = whole_lengths(config, prepared)
    work = Workload(arrays, np.array(prepared.vectors), spans, arrays["query_passage"], facts)
    return work, prepared.splits, our_plan(asked, prepared)


def whole_lengths(config, prepared) -> np.ndarray:
    """[N] tokens of each query's passage before it is cut."""
    whole = config.copy_and_resolve_references()
    whole.data.max_passage = 0
    splits = experiment_of(whole).prepare()[0].splits.values()
    tokens = {uid: length for rows in splits for uid, length in zip(rows.uids, rows.length[0], strict=True)}
    in_order = sorted(prepared.splits.values(), key=lambda rows: rows.first)
    return np.array([tokens[uid] for rows in in_order for uid in rows.uids])


def our_plan(asked, prepared) -> Callable:
    """(seed, epoch) -> the rows of each batch of our reader."""
    batches = asked.program(prepared, ["train"])[1]["train"]
    return lambda seed, epoch: [rows[rows >= 0] for _, rows in batches.epoch(epoch, [seed])]


def scores(torch_side, work, rows) -> dict:
    """ClozeTask.score of a split with the current weights of the PyTorch side."""
    most = int(np.diff(work.arrays["candidate_type_start"]).max())
    logits = np.full((1, len(rows), most), MASKED_ENERGY, np.float32)
    batches = torch_side.batches("predict", 0, 0, rows.name)
    for part, of_batch in zip(torch_side.predict(batches)[1], batches, strict=True):
        logits[0, of_batch - rows.first, : part.shape[1]] = part.numpy()
    return ClozeTask().score(rows, logits)


def train(torch_side, work, splits, config, seed: int, plan) -> dict:
    """Trains one seed on the batches of plan(seed, epoch). Returns exact match and F1 at the best evaluation."""
    torch_side.start(seed)
    best, train = {"epoch": 0, "dev": {"exact_match": -1.0}}, config.train
    rate = torch_side.optimizer.param_groups[0]["lr"] = train.learning_rate
    started = time.monotonic()
    for epoch in range(1, train.epochs + 1):
        if train.schedule == "halving" and epoch >= train.halve_from:
            rate *= DECAY
            torch_side.optimizer.param_groups[0]["lr"] = rate
        batches = plan(seed, epoch)
        steps = train.evaluate_every or len(batches)
        for first in range(0, len(batches), steps):
            torch_side.run("train", batches[first : first + steps])
            dev = scores(torch_side, work, splits["dev"])
            reached = dev["accuracy"]["mean"]
            say(f"seed {seed}, epoch {epoch}: dev exact match {reached:.4f}, {time.monotonic() - started:.0f} s")
            if reached > best["dev"]["exact_match"]:
                test = scores(torch_side, work, splits["test"])
                best = {"epoch": epoch} | {
                    name: {"exact_match": of["accuracy"]["mean"], "f1": of["f1"]["mean"]}
                    for name, of in (("dev", dev), ("test", test))
                }
        if epoch - best["epoch"] >= train.patience and epoch >= train.least_epochs:
            break
    return {"seed": seed, "epochs": epoch, "seconds": round(time.monotonic() - started, 1), **best}


def main(values) -> None:
    config = cli.config(values)
    if config.task != "cloze":
        raise UsageError("--config: the model is not a reader. Fix: give one of configs/ga_*.py, sa_*.py.")
    if config.data.setup == "noent" and config.model.pointer != "span":
        raise UsageError("the reference points at marked spans. Fix: give --config.model.pointer=span.")
    from mednli_jax.benchmarking import torch_models, torch_side

    work, splits, ours = workload_of(config)
    names = {"model": config.model.name, "hidden": config.model.hidden_size, "batch": config.train.batch_size}
    torch_models.DROPOUT[config.model.name] = config.model.dropout
    side = torch_side.ReaderSide({**names, "grouping": "off", "style": "bucketed", "compiled": False}, work)
    plan = ours if values.plan == "ours" else partial(side.batches, "train")
    for seed in config.seeds:
        print(json.dumps(train(side, work, splits, config, seed, plan)), flush=True)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, lambda values: cli.define(values, config=None, plan=("lengths", "ours"))))
