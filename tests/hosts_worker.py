"""Trains on made-up rows as one process, or as one of several. The first process saves the results.

  python hosts_worker.py RESULT.npz HOST:PORT PROCESSES PROCESS

A second trainer resumes the checkpoint of the first one, in which some seeds have stopped.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import made_up
import numpy as np

from mednli_jax.data.arrays import SIDES, Rows
from mednli_jax.data.batching import Batches
from mednli_jax.models import table
from mednli_jax.nli.task import NLITask, frozen
from mednli_jax.training import hosts, optim, state
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.devices import Devices
from mednli_jax.training.loop import Settings, Trainer
from mednli_jax.training.program import Program

ROWS, BATCH = 45, 12  # the last batch is not full, so some devices hold only padding


def trained(devices, folder) -> dict[str, np.ndarray]:
    """The state after two trainers in turn. Only the first process has the checkpoint; the others get its content."""
    made, splits, batches = made_up.arrays(rows=ROWS), {}, {}
    for name, own in (("train", slice(0, 36)), ("dev", slice(36, ROWS))):
        lengths = tuple(made[f"{side}_length"][own] for side in SIDES)
        size = len(lengths[0])
        splits[name] = Rows(name, own.start, made["label"][own], lengths, ("",) * size, ((),) * size)
        how = {"batch_size": BATCH, "width": (12, 8), "shares": devices.count, "coarse": True, "first": own.start}
        batches[name] = Batches(*lengths, **how)
    found, seeds = {}, (0, 5, 7, 8)
    with jax.enable_x64(True):
        program = Program(
            model=table.build("bow", {"hidden_size": 8, "dropout": 0.5}, axis_name=devices.axis_name),
            task=NLITask(),
            optimizer=optim.build_optimizer(learning_rate=1e-2, weight_decay=1e-6),
            devices=devices,
            frozen=devices.replicate(made_up.as_type(frozen(made_up.vectors()), np.float64)),
            data=devices.replicate({name: jnp.asarray(array) for name, array in made.items()}),
        )
        for epochs in (4, 6):
            settings = Settings(epochs=epochs, patience=1, select="loss", checkpoint_minutes=60.0, average_from=2)
            kept = Checkpoints(folder) if devices.hosts.leads else None
            trainer = Trainer(program, settings, splits, batches, seeds, checkpoints=kept)
            trainer.learner = made_up.as_type(jax.tree.map(np.asarray, trainer.learner), np.float64)
            trainer.begin()
            trainer.average = devices.replicate(state.init_average(trainer.learner))
            trainer.resume()
            trainer.align()
            found[f"begun{epochs}"] = np.array([trainer.epoch, *np.asarray(trainer.learner.seed)])
            trainer.run()
        leaves = jax.tree.leaves((trainer.best, trainer.learner, trainer.average))
        found["logits"] = trainer.predict("dev", trainer.best.variables)
    return found | {f"leaf{n}": np.asarray(leaf) for n, leaf in enumerate(leaves)}


def main(path, coordinator, processes, process):
    here = hosts.join(coordinator, int(processes), int(process))

    def work():
        found = trained(Devices(), Path(path).parent / "many")
        if here.leads:
            np.savez(Path(path), **found)
        return 0

    return here.run(work)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
