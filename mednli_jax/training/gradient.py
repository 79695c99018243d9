"""Gradient training of a network on one corpus: all seeds of a run in one program."""

import jax
import numpy as np

from mednli_jax.models import table
from mednli_jax.training import transfer
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.loop import Trainer
from mednli_jax.training.session import Fitted, Session, check_converged, epoch_line


def fit(experiment, prepared, session: Session) -> Fitted:
    """Trains an experiment's model on a prepared corpus and keeps the best epoch of each seed."""
    program, batches = experiment.program(prepared)
    program.compile_seconds += session.compile_seconds
    devices = program.devices.all
    session.write_facts(prepared.manifest, devices)
    if session.directory:
        experiment.keep_for_prediction(session.directory, prepared)
    trainer = Trainer(
        program,
        experiment.settings,
        prepared.splits,
        batches,
        experiment.seeds,
        checkpoints=Checkpoints(session.checkpoints) if session.checkpoints else None,
        on_epoch=lambda row: _on_epoch(row, experiment, session),
        on_save=session.on_save,
        should_stop=session.should_stop,
        profile=session.profile,
    )
    # "cpu" or "gpu NVIDIA H200"
    kind = " ".join(dict.fromkeys((devices[0].platform, devices[0].device_kind)))
    session.say(
        f"{experiment.model.name}: {_parameters(trainer.learner):,} parameters; seeds "
        f"{', '.join(map(str, experiment.seeds))}; {len(devices)} device{'s' * (len(devices) > 1)}, "
        f"{kind}; batches of {' or '.join(map(str, batches['train'].sizes))}"
    )
    taken = _start(trainer, experiment, session)
    trainer.align()
    session.catch_signals()
    best = trainer.run()
    epochs = np.asarray(best.epoch).tolist()
    check_converged(epochs, "seed")
    facts = {
        **({"transfer": taken} if taken else {}),
        "epochs": trainer.epoch - 1,
        **({"passes": trainer.passes} if experiment.settings.evaluate_every else {}),
        "best_epoch": epochs,
        "parameters": _parameters(best),
        "train_examples_per_second": round(trainer.trained_examples / max(trainer.train_seconds, 1e-9), 2),
        "compile_seconds": round(program.compile_seconds, 2),
        "width": list(trainer.batches["train"].width),
    }
    diverged = [seed for seed, epoch in zip(experiment.seeds, epochs, strict=True) if epoch == 0]
    notes = [f"seed {seed} diverged: its scores are those of untrained parameters" for seed in diverged]
    return Fitted(facts, lambda split: trainer.predict(split, best.variables), notes)


def start_from_pretrained(trainer: Trainer, experiment) -> str:
    """Puts pretrained weights into a new trainer, the same for all seeds; returns a log line about them.

    Raises: UserError, DataError where they do not fit.
    """
    reader, weights = table.entry(experiment.model.name).pretrained, experiment.model.weights
    params, unused, drawn = reader.load_weights(weights, trainer.learner.params, stacked=True)
    trainer.learner = trainer.learner.replace(params=params)
    trainer.begin()
    lacking = f"; not in the file, random: {', '.join(drawn)}" if drawn else ""
    return f"weights from {weights.name}; weights of other heads, not used: {len(unused)}{lacking}"


def _start(trainer, experiment, session) -> dict:
    """Loads the weights from which training starts: pretrained, of a source run, or of a checkpoint; else random.

    Returns facts about the weights of the source run, {} without one.
    """
    if not session.directory:  # the first process shares its weights
        return {}
    taken = {}
    if experiment.model.weights:
        session.say(start_from_pretrained(trainer, experiment))
    if session.source:
        taken = _start_from_source(trainer, experiment, session.source)
        drawn = f"; random: {', '.join(taken['weights_drawn'])}" if taken["weights_drawn"] else ""
        session.say(f"{taken['weights_taken']} weights from {taken['source']}{drawn}")
    if session.resume:
        found = trainer.resume()
        where = f"resumed in epoch {trainer.epoch} after {trainer.done} batches"
        session.say(where if found else "there is no checkpoint: starting at the beginning")
    session.directory.keep_metrics(trainer.epoch - 1)
    return taken


def _start_from_source(trainer, experiment, source) -> dict:
    """Puts the source's weights into the trainer. Raises UserError where they do not fit (training.transfer.merge)."""
    trainer.learner, taken, kept = transfer.start(
        trainer.learner,
        source.variables,
        rows=transfer.seed_rows(source.experiment.seeds, trainer.seeds),
        skip=transfer.drawn_anew(experiment.model.name) if experiment.transfer.private else None,
    )
    trainer.begin()
    return {
        "source": source.directory.folder.name,
        "corpus": source.result["corpus"],
        "seeds": list(source.experiment.seeds),
        "best_epoch": source.result["best_epoch"],
        "weights_taken": len(taken),
        "weights_drawn": kept,
    }


def _on_epoch(row, experiment, session):
    session.write_epoch(row, epoch_line(row, experiment.settings.epochs, "dev_accuracy"))
    if session.directory:
        session.directory.write_scalars(row)


def _parameters(state) -> int:
    """The number of parameters of one seed."""
    return sum(int(leaf[0].size) for leaf in jax.tree.leaves(state.params))
