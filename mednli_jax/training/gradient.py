"""Gradient training of a network on one corpus, all seeds of a run in one program; its description
by `--dry-run`."""

import json
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from mednli_jax.data.arrays import Prepared
from mednli_jax.data.batching import Layout
from mednli_jax.rundir import RunDirectory
from mednli_jax.training import transfer
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.loop import Plan, Row, Trainer
from mednli_jax.training.session import Fitted, Session, check_converged, epoch_line
from mednli_jax.training.state import Best, Learner, tree_bytes

TIMED_STEPS = 6
# bytes of devices that --dry-run compares the memory with
MEMORY_OF = {"a GPU of 80 GB": 80e9, "a v5e chip of 16 GB": 16e9}
SELECTED = {"loss": "lowest dev loss", "accuracy": "highest dev accuracy", "last": "the last"}

PyTree = Any
Experiment = Any  # run.Experiment, of a higher layer
FinishedRun = Any  # run.FinishedRun
Facts = dict[str, Any]  # fields of result.json


def fit(experiment: Experiment, prepared: Prepared, session: Session) -> Fitted:
    """Trains an experiment's model on a prepared corpus and keeps the best epoch of each seed."""
    program, batches = experiment.program(prepared)
    settings = experiment.settings
    program.compile_seconds += session.compile_seconds
    session.write_facts(prepared.manifest, program.devices.all)
    if session.directory:
        experiment.keep_for_prediction(session.directory, prepared)

    def on_epoch(row: Row) -> None:
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
        "width": list(batches["train"].plan.width),
    }
    notes = []
    for seed, epoch in zip(experiment.seeds, best_epochs, strict=True):
        if epoch == 0:
            notes.append(f"seed {seed} diverged: its scores are those of untrained parameters")
    return Fitted(facts, lambda split: trainer.predict(split, best.variables), notes)


def parameters(state: Learner | Best) -> int:
    """The number of parameters of one seed."""
    return sum(leaf[0].size for leaf in jax.tree.leaves(state.params))


def _model_line(experiment: Experiment, trainer: Trainer) -> str:
    """Name and size of the model, seeds, devices and sizes of batches."""
    devices = trainer.program.devices.all
    # "cpu" or "gpu NVIDIA H200"
    kind = " ".join(dict.fromkeys((devices[0].platform, devices[0].device_kind)))
    plural = "s" if len(devices) > 1 else ""
    return (
        f"{experiment.model.name}: {parameters(trainer.learner):,} parameters; "
        f"seeds {_joined(experiment.seeds)}; {len(devices)} device{plural}, {kind}; "
        f"batches of {_joined(trainer.batches['train'].sizes, ' or ')}"
    )


def _joined(values: Sequence[Any], separator: str = ", ") -> str:
    return separator.join(map(str, values))


def _best_line(directory: RunDirectory, experiment: Experiment, best_epochs: Sequence[int]) -> str:
    """The best epoch of each seed, and their mean dev accuracy, from metrics.jsonl."""
    rows = {epoch: json.loads(line) for epoch, line in directory.metrics()}
    names, accuracy = [], []
    for seed, epoch in zip(experiment.seeds, best_epochs, strict=True):
        if epoch == 0:
            continue
        row = rows[epoch]
        names.append(f"{row['pass']}, step {row['step']}" if "step" in row else str(row["epoch"]))
        accuracy.append(row["dev_accuracy"][row["seeds"].index(seed)])
    line = f"best epoch {_joined(names)} ({SELECTED[experiment.settings.select]})"
    return line if None in accuracy else f"{line}: dev accuracy {np.mean(accuracy):.4f}"


# -- first weights -------------------------------------------------------------------------------


def _start(trainer: Trainer, experiment: Experiment, session: Session) -> Facts:
    """Loads the weights of pretraining, a source run or a checkpoint, if any; returns facts about a
    source run."""
    if not session.directory:  # the first process shares its weights
        return {}
    facts: Facts = {}
    if experiment.model.weights:
        session.say(start_from_pretrained(trainer, experiment))
    if session.source:
        source = _start_from_source(trainer, experiment, session.source)
        facts["transfer"] = source
        drawn = source["weights_drawn"]
        random = f"; random: {_joined(drawn)}" if drawn else ""
        session.say(f"{source['weights_taken']} weights from {source['source']}{random}")
    if session.resume and trainer.resume():
        progress = trainer.progress
        session.say(f"resumed in epoch {progress.epoch} after {progress.done} batches")
    elif session.resume:
        session.say("there is no checkpoint: starting at the beginning")
    session.directory.keep_metrics(trainer.progress.epoch - 1)
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
        line += f"; not in the file, random: {_joined(loaded.drawn)}"
    if loaded.warning:
        line += f"; warning: {loaded.warning}"
    return line


def _start_from_source(trainer: Trainer, experiment: Experiment, source: FinishedRun) -> Facts:
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


def describe(trainer: Trainer) -> Iterator[str]:
    """Yields lines: shapes, parameters, memory, and seconds per epoch from timed steps."""
    program, batches, seeds = trainer.program, trainer.batches, np.asarray(trainer.learner.seed)
    yield f"{'parameter':50} {'shape (of one seed)':>22}"
    for path, leaf in jax.tree.leaves_with_path(trainer.learner.params):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        yield f"{name:50} {leaf.shape[1:]!s:>22}"
    yield (
        f"{parameters(trainer.learner):,} parameters a seed, {len(trainer.seeds)} seeds, "
        f"batches of {_joined(batches['train'].sizes, ' or ')}, {program.devices.count} devices"
    )

    def train_step(layout: Layout, index: np.ndarray) -> PyTree:
        trainer.learner, _ = program.train(layout, trainer.learner, index)
        return trainer.learner

    def dev_step(layout: Layout, index: np.ndarray) -> PyTree:
        return program.predict(layout, trainer.learner.variables, index)

    train_plan, dev_plan = batches["train"].epoch(1, seeds), batches["dev"].once()
    train_seconds = yield from _timed("train", trainer, train_step, train_plan)
    dev_seconds = yield from _timed("dev", trainer, dev_step, dev_plan)
    yield _memory_line(trainer)
    epochs, seconds = trainer.settings.epochs, train_seconds + dev_seconds
    yield (
        f"an epoch takes about {seconds:.0f} s ({train_seconds:.0f} s training, "
        f"{dev_seconds:.0f} s dev), {epochs} epochs at most {epochs * seconds / 60:.1f} min; "
        f"not counted: compiling ({program.compile_seconds:.0f} s now), checkpoints, "
        "the test at the end"
    )


def _timed(
    title: str, trainer: Trainer, step: Callable[[Layout, np.ndarray], PyTree], plan: Plan
) -> Generator[str, None, float]:
    """Yields a line about each layout of a plan; returns the seconds of all its batches."""
    devices, total = trainer.program.devices.count, 0.0
    indices: dict[Layout, list[np.ndarray]] = {}
    for layout, index in plan:
        indices.setdefault(layout, []).append(index)
    for layout, of_layout in indices.items():
        seconds = _seconds_per_step(step, layout, of_layout[0])
        total += seconds * len(of_layout)
        slots = sum(steps * rows for steps, rows in layout.sentences)
        yield (
            f"{title}: {len(of_layout)} batches an epoch of {layout.rows * devices} rows, "
            f"up to {layout.width[0]}+{layout.width[1]} tokens, {slots * devices} slots, "
            f"{1e3 * seconds:.0f} ms each"
        )
    return total


def _seconds_per_step(
    step: Callable[[Layout, np.ndarray], PyTree], layout: Layout, index: np.ndarray
) -> float:
    """Median time of TIMED_STEPS steps, after one that compiles."""
    times = []
    for _ in range(1 + TIMED_STEPS):
        started = time.monotonic()
        jax.block_until_ready(step(layout, index))
        times.append(time.monotonic() - started)
    return float(np.median(times[1:]))


def _memory_line(trainer: Trainer) -> str:
    """Resident arrays, and the work space of the largest step: activations, gradients and results,
    without the arguments."""
    program = trainer.program
    largest = 0
    for body in program.compiled:
        sizes = body.memory_analysis()
        if sizes is not None:
            results = sizes.output_size_in_bytes - sizes.alias_size_in_bytes
            largest = max(largest, sizes.temp_size_in_bytes + results)
    resident = (trainer.learner, trainer.best, trainer.average, program.frozen, program.data)
    total = largest + tree_bytes(resident)
    fits = ", ".join(
        f"{device}: {'yes' if total < size else 'no'}" for device, size in MEMORY_OF.items()
    )
    return (
        f"memory of each device: {total / 1e6:.0f} MB; "
        f"{largest / 1e6:.1f} MB of it are the work space of the largest step, as compiled here; "
        f"fits {fits}"
    )
