"""Gradient training of a network on one corpus, all seeds of a run in one program; its description
by `--dry-run`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from mednli_jax.data.arrays import Prepared
from mednli_jax.data.batching import Batches, Layout
from mednli_jax.rundir import RunDirectory
from mednli_jax.training import transfer
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.loop import Trainer
from mednli_jax.training.program import Program
from mednli_jax.training.session import Fitted, Session, check_converged, epoch_line
from mednli_jax.training.state import Best, Learner, tree_bytes
from mednli_jax.types import JsonObject

if TYPE_CHECKING:
    from mednli_jax.experiment import Experiment
    from mednli_jax.finished import Run

# bytes of devices that --dry-run compares the memory with
MEMORY_OF = {"a GPU of 80 GB": 80e9, "a v5e chip of 16 GB": 16e9}
SELECTED = {"loss": "lowest dev loss", "accuracy": "highest dev accuracy", "last": "the last"}


def fit(experiment: Experiment, prepared: Prepared, session: Session) -> Fitted:
    """Trains an experiment's model on a prepared corpus and keeps the best epoch of each seed."""
    program, batches = experiment.program(prepared)
    settings = experiment.settings
    program.compile_seconds += session.compile_seconds
    session.write_facts(prepared.manifest, program.devices.all)
    if session.directory:
        experiment.save_for_prediction(session.directory, prepared)

    def on_epoch(row: JsonObject) -> None:
        session.write_epoch(row, epoch_line(row, settings.epochs, "dev_accuracy"))
        if session.directory:
            session.directory.write_scalars(row)

    trainer = Trainer(
        program,
        settings,
        prepared.splits,
        batches,
        experiment.seeds,
        checkpoints=Checkpoints(session.directory.checkpoints) if session.directory else None,
        on_epoch=on_epoch,
        on_save=session.on_save,
        should_stop=session.should_stop,
        profile=session.profile,
    )
    session.say(_model_line(experiment, trainer))
    facts = _start(trainer, experiment, session)
    trainer.align()
    session.catch_signals()
    best = trainer.run()
    best_epochs = np.asarray(best.epoch).tolist()
    check_converged(best_epochs, "seed")
    if session.directory:
        session.say(_best_line(session.directory, experiment, best_epochs))
    progress = trainer.progress
    rate = progress.trained_examples / max(progress.train_seconds, 1e-9)
    facts["epochs"] = progress.epoch - 1
    if settings.evaluate_every:
        facts["passes"] = trainer.pass_of(progress.epoch - 1)
    facts |= {
        "best_epoch": best_epochs,
        "parameters": parameters(best),
        "train_examples_per_second": round(rate, 2),
        "compile_seconds": round(program.compile_seconds, 2),
        "width": list(batches["train"].settings.width),
    }
    notes = []
    for seed, epoch in zip(experiment.seeds, best_epochs, strict=True):
        if epoch == 0:
            notes.append(f"seed {seed} diverged: its scores are those of untrained parameters")
    return Fitted(facts, lambda split: trainer.predict(split, best.variables), notes)


def parameters(state: Learner | Best) -> int:
    """The number of parameters of one seed. state: arrays or only shapes."""
    return sum(leaf.size // leaf.shape[0] for leaf in jax.tree.leaves(state.params))


def _model_line(experiment: Experiment, trainer: Trainer) -> str:
    """A log line: name and size of the model, seeds, devices and sizes of batches."""
    devices = trainer.program.devices.all
    # "cpu" or "gpu NVIDIA H200"
    kind = " ".join(dict.fromkeys((devices[0].platform, devices[0].device_kind)))
    plural = "s" if len(devices) > 1 else ""
    return (
        f"{experiment.model.name}: {parameters(trainer.learner):,} parameters; "
        f"seeds {_join(experiment.seeds)}; {len(devices)} device{plural}, {kind}; "
        f"{_size(trainer.batches['train'])}"
    )


def _size(batches: Batches) -> str:
    """The size of batches that the config asks for, and their rows if these are others."""
    size, rows = f"{batches.settings.batch_size:g}", _join(batches.sizes, " or ")
    grouped = "" if rows == size else f" ({rows} rows in even, whole groups)"
    return f"batches of {size}{grouped}"


def _join(values: Iterable[object], separator: str = ", ") -> str:
    return separator.join(map(str, values))


def _best_line(directory: RunDirectory, experiment: Experiment, best_epochs: Sequence[int]) -> str:
    """A log line: the best epoch of each seed, and their mean dev accuracy, from metrics.jsonl."""
    rows = {epoch: json.loads(line) for epoch, line in directory.metrics()}
    names, accuracy = [], []
    for seed, epoch in zip(experiment.seeds, best_epochs, strict=True):
        if epoch == 0:
            continue
        row = rows[epoch]
        names.append(f"{row['pass']}, step {row['step']}" if "step" in row else str(row["epoch"]))
        accuracy.append(row["dev_accuracy"][row["seeds"].index(seed)])
    line = f"best epoch {_join(names)} ({SELECTED[experiment.settings.select]})"
    return line if None in accuracy else f"{line}: dev accuracy {np.mean(accuracy):.4f}"


# -- first weights -------------------------------------------------------------------------------


def _start(trainer: Trainer, experiment: Experiment, session: Session) -> JsonObject:
    """Loads the weights of pretraining, a source run or a checkpoint, if any; returns facts about a
    source run."""
    if not session.directory:  # the first process shares its weights
        return {}
    facts: JsonObject = {}
    if experiment.model.weights:
        session.say(start_from_pretrained(trainer, experiment))
    if session.source:
        source = _start_from_source(trainer, experiment, session.source)
        facts["transfer"] = source
        drawn = source["weights_drawn"]
        random = f"; random: {_join(drawn)}" if drawn else ""
        session.say(f"{source['weights_taken']} weights from {source['source']}{random}")
    if session.resume and trainer.resume():
        progress = trainer.progress
        session.say(f"resumed in epoch {progress.epoch} after {progress.done} batches")
    elif session.resume:
        session.say("there is no checkpoint: starting at the beginning")
    session.directory.truncate_metrics(trainer.progress.epoch - 1)
    return facts


def start_from_pretrained(trainer: Trainer, experiment: Experiment) -> str:
    """Puts pretrained weights into a new trainer, the same for all seeds; returns a log line about
    them."""
    reader, weights = experiment.model.entry.pretrained, experiment.model.weights
    assert reader is not None
    assert weights is not None
    labels = experiment.scorer.labels
    loaded = reader.load_weights(weights, trainer.learner.params, labels=labels, stacked=True)
    trainer.begin(loaded.params)
    line = f"weights from {weights.name}; weights of other heads, not used: {len(loaded.unused)}"
    if loaded.drawn:
        line += f"; not in the file, random: {_join(loaded.drawn)}"
    if loaded.warning:
        line += f"; warning: {loaded.warning}"
    return line


def _start_from_source(trainer: Trainer, experiment: Experiment, source: Run) -> JsonObject:
    """Puts the source's weights into the trainer; returns facts about them."""
    rows = transfer.seed_rows(source.experiment.seeds, trainer.seeds)
    skip = transfer.drawn_anew(experiment.model.name) if experiment.transfer.private else None
    drawn = jax.tree.map(np.asarray, trainer.learner.variables)
    merged = transfer.merge(drawn, source.variables, rows=rows, skip=skip)
    trainer.begin(merged.variables["params"], merged.variables.get("batch_stats"))
    return {
        "source": source.directory.folder.name,
        "corpus": source.result.corpus,
        "seeds": list(source.experiment.seeds),
        "best_epoch": source.result.best_epoch,
        "weights_taken": len(merged.from_source),
        "weights_drawn": merged.drawn,
    }


# -- dry run -------------------------------------------------------------------------------------


def describe(
    program: Program, batches: Mapping[str, Batches], seeds: Sequence[int]
) -> Iterator[str]:
    """Yields lines: parameters, shapes of batches, and the memory of each device.

    Only the largest steps of training and of dev are compiled.
    """
    layout = batches["train"].layouts[0]
    learner = jax.eval_shape(lambda: program.draw(layout, seeds))
    yield f"{'parameter':50} {'shape (of one seed)':>22}"
    for path, leaf in jax.tree.leaves_with_path(learner.params):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        yield f"{name:50} {leaf.shape[1:]!s:>22}"
    yield (
        f"{parameters(learner):,} parameters a seed, {len(seeds)} seeds, "
        f"{_size(batches['train'])}, {program.devices.count} devices"
    )
    plans = _plans(batches, seeds)
    for split, plan in plans.items():
        for layout, indices in plan.items():
            yield f"{split}: {len(indices)} batches an epoch of {_shape(layout, program)}"
    train, dev = (max(plan, key=_slots) for plan in plans.values())
    train_body = partial(program.train_body, train, learner, plans["train"][train][0])
    dev_body = partial(program.predict_body, dev, learner.variables, plans["dev"][dev][0])
    program.compile([train_body, dev_body])
    weights = (learner, learner.variables)  # of training, and the best
    yield _memory_line(program, tree_bytes((weights, program.frozen, program.data)))


def _plans(
    batches: Mapping[str, Batches], seeds: Sequence[int]
) -> dict[str, dict[Layout, list[np.ndarray]]]:
    """The indices of the batches of an epoch, by layout, for train and dev."""
    plans: dict[str, dict[Layout, list[np.ndarray]]] = {"train": {}, "dev": {}}
    for layout, index in batches["train"].epoch(1, seeds):
        plans["train"].setdefault(layout, []).append(index)
    for layout, index in batches["dev"].once():
        plans["dev"].setdefault(layout, []).append(index)
    return plans


def _slots(layout: Layout) -> int:
    """The token positions that a batch computes on each device."""
    return sum(map(math.prod, layout.sentences))


def _shape(layout: Layout, program: Program) -> str:
    """Describes the size of a batch on all devices."""
    rows, slots = (number * program.devices.count for number in (layout.row_count, _slots(layout)))
    return f"{rows} rows, up to {layout.width[0]}+{layout.width[1]} tokens, {slots} slots"


def _memory_line(program: Program, resident: int) -> str:
    """A line about memory: bytes of resident arrays, and the work space of the largest step
    (activations, gradients and results, without the arguments)."""
    largest = 0
    for body in program.compiled:
        sizes = body.memory_analysis()
        if sizes is not None:
            results = sizes.output_size_in_bytes - sizes.alias_size_in_bytes
            largest = max(largest, sizes.temp_size_in_bytes + results)
    total = largest + resident
    fits = ", ".join(
        f"{device}: {'yes' if total < size else 'no'}" for device, size in MEMORY_OF.items()
    )
    return (
        f"memory of each device: {total / 1e6:.0f} MB; "
        f"{largest / 1e6:.1f} MB of it are the work space of the largest step, as compiled here; "
        f"fits {fits}"
    )
