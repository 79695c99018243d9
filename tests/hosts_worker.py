"""Trains on made-up rows as one process, or as one of several. The first process saves the results.

  python hosts_worker.py RESULT.npz MODEL [HOST:PORT PROCESSES PROCESS]

The results are the losses of 20 steps in float64, the logits after them, and the first gradient in float32. MODEL may
also be `resumed`, where a second trainer resumes a checkpoint in which some seeds have stopped.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import made_up
import numpy as np
import optax

from mednli_jax.corpora.arrays import SIDES, Rows
from mednli_jax.corpora.batching import Batches
from mednli_jax.models import table
from mednli_jax.tasks.nli import NLITask, frozen
from mednli_jax.training import hosts, optim, state
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.devices import Devices
from mednli_jax.training.loop import Settings, Trainer
from mednli_jax.training.program import Program

MODELS = {
    "bow": {"hidden_size": 8, "dropout": 0.5},
    "esim": {"hidden_size": 8, "dropout": 0.5, "knowledge": "bias"},
}
ROWS, BATCH, STEPS, SEEDS = 45, 12, 20, (0, 5)  # the last batch is not full, so some devices hold only padding


def program_of(name, devices, dtype):
    return Program(
        model=table.build(name, MODELS[name], longest_path=made_up.LONGEST, axis_name=devices.axis_name),
        task=NLITask(),
        optimizer=optim.build_optimizer(learning_rate=1e-2, weight_decay=1e-6),
        devices=devices,
        frozen=devices.replicate(made_up.as_type(frozen(made_up.vectors()), dtype)),
        data=devices.replicate({name: jnp.asarray(array) for name, array in made_up.arrays(rows=ROWS).items()}),
    )


def batches_of(shares):
    made = made_up.arrays(rows=ROWS)
    lengths = [made[f"{side}_length"] for side in SIDES]
    return Batches(*lengths, batch_size=BATCH, width=(12, 8), shares=shares, coarse=True)


def learner_of(program, batches, dtype):
    layout = batches.layouts[0]
    batch = program.task.to_batch(program.data, jnp.zeros((layout.units, layout.group), jnp.int32), layout)
    learner = state.init_learner(program.model, program.optimizer, SEEDS, batch, program.frozen)
    params, stats = made_up.as_type(learner.params, dtype), made_up.as_type(learner.batch_stats, dtype)
    opt_state = jax.vmap(program.optimizer.init)(params)
    return program.devices.replicate(learner.replace(params=params, batch_stats=stats, opt_state=opt_state))


def train(name, devices, dtype, steps):
    """(mean loss of each step [steps, S], learner, program, batches)."""
    program, batches = program_of(name, devices, dtype), batches_of(devices.count)
    learner, losses, epoch = learner_of(program, batches, dtype), [], 0
    while len(losses) < steps:
        epoch += 1
        for layout, index in batches.epoch(epoch, SEEDS)[: steps - len(losses)]:
            learner, sums = program.train(layout, learner, index)
            losses.append(np.asarray(sums["loss"]) / np.asarray(sums["count"]))
    devices.check_replicas(learner.params)
    return np.array(losses), learner, program, batches


def results(name, devices) -> dict[str, np.ndarray]:
    with jax.enable_x64(True):
        losses, learner, program, batches = train(name, devices, jnp.float64, STEPS)
        found = {"losses": losses, "logits": program.logits(learner.variables, batches)}
    _, learner, *_ = train(name, devices, jnp.float32, 1)
    # Adam's first moment is then .1 g. The update itself does not show the gradient's size.
    leaves = jax.tree.leaves(optax.tree.get(learner.opt_state, "mu"))
    return found | {f"gradient{n}": 10 * np.asarray(leaf) for n, leaf in enumerate(leaves)}


def resumed(devices, folder) -> dict[str, np.ndarray]:
    """Runs two trainers in turn. Only the first process has the checkpoint; the others get its content from there."""
    made, splits, batches = made_up.arrays(rows=ROWS), {}, {}
    for name, own in (("train", slice(0, 36)), ("dev", slice(36, ROWS))):
        lengths = tuple(made[f"{side}_length"][own] for side in SIDES)
        size = len(lengths[0])
        splits[name] = Rows(name, own.start, made["label"][own], lengths, ("",) * size, ((),) * size)
        how = {"batch_size": BATCH, "width": (12, 8), "shares": devices.count, "coarse": True, "first": own.start}
        batches[name] = Batches(*lengths, **how)
    found, seeds = {}, (0, 5, 7, 8)
    with jax.enable_x64(True):
        program = program_of("bow", devices, jnp.float64)
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


def main(path, name, *others):
    here = hosts.join(others[0], int(others[1]), int(others[2])) if others else hosts.here()

    def work():
        found = resumed(Devices(), Path(path).parent / "many") if name == "resumed" else results(name, Devices())
        if here.leads:
            np.savez(Path(path), **found)
        return 0

    return here.run(work)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
