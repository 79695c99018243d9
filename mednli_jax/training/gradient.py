"""Gradient training of a network on one corpus, all seeds of a run in one program; its description
by `--dry-run`."""

import json
import time
from collections.abc import Iterator

import jax
import numpy as np

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

    def on_epoch(row):
        session.write_epoch(row, epoch_line(row, experiment.settings.epochs, "dev_accuracy"))
        if session.directory:
            session.directory.write_scalars(row)

    trainer = Trainer(
        *(program, experiment.settings, prepared.splits, batches, experiment.seeds),
        checkpoints=Checkpoints(session.checkpoints) if session.checkpoints else None,
        on_epoch=on_epoch,
        on_save=session.on_save,
        should_stop=session.should_stop,
        profile=session.profile,
    )
    kind = " ".join(
        dict.fromkeys((devices[0].platform, devices[0].device_kind))
    )  # "cpu" or "gpu NVIDIA H200"
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
    if session.directory:
        session.say(_kept_line(session.directory, experiment, epochs))
    facts = {
        **({"transfer": taken} if taken else {}),
        "epochs": trainer.epoch - 1,
        **(
            {"passes": trainer.pass_of(trainer.epoch - 1)}
            if experiment.settings.evaluate_every
            else {}
        ),
        "best_epoch": epochs,
        "parameters": _parameters(best),
        "train_examples_per_second": round(
            trainer.trained_examples / max(trainer.train_seconds, 1e-9), 2
        ),
        "compile_seconds": round(program.compile_seconds, 2),
        "width": list(trainer.batches["train"].plan.width),
    }
    diverged = [seed for seed, epoch in zip(experiment.seeds, epochs, strict=True) if epoch == 0]
    notes = [
        f"seed {seed} diverged: its scores are those of untrained parameters" for seed in diverged
    ]
    return Fitted(facts, lambda split: trainer.predict(split, best.variables), notes)


SELECTED = {"loss": "lowest dev loss", "accuracy": "highest dev accuracy", "last": "the last"}


def _kept_line(directory, experiment, epochs) -> str:
    """The epoch of each seed that is kept, and their mean dev accuracy, from metrics.jsonl."""
    rows = {epoch: json.loads(line) for epoch, line in directory.metrics()}
    kept = [
        (seed, rows[epoch]) for seed, epoch in zip(experiment.seeds, epochs, strict=True) if epoch
    ]
    accuracy = [row["dev_accuracy"][row["seeds"].index(seed)] for seed, row in kept]
    shown = "" if None in accuracy else f": dev accuracy {np.mean(accuracy):.4f}"
    names = ", ".join(
        f"{row['pass']}, step {row['step']}" if "step" in row else str(row["epoch"])
        for _, row in kept
    )
    return f"best epoch {names} ({SELECTED[experiment.settings.select]}){shown}"


def start_from_pretrained(trainer: Trainer, experiment) -> str:
    """Puts pretrained weights into a new trainer, the same for all seeds; returns a log line about
    them."""
    reader, weights = experiment.model.entry.pretrained, experiment.model.weights
    labels = experiment.scorer.labels
    loaded = reader.load_weights(weights, trainer.learner.params, labels=labels, stacked=True)
    trainer.begin(params=loaded.params)
    unused = f"weights of other heads, not used: {len(loaded.unused)}"
    lacking = f"; not in the file, random: {', '.join(loaded.drawn)}" if loaded.drawn else ""
    warning = f"; warning: {loaded.warning}" if loaded.warning else ""
    return f"weights from {weights.name}; {unused}{lacking}{warning}"


def _start(trainer, experiment, session) -> dict:
    """Loads the weights of pretraining, a source run or a checkpoint, if any; returns facts about a
    source run."""
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
    """Puts the source's weights into the trainer; returns facts about them."""
    rows = transfer.seed_rows(source.experiment.seeds, trainer.seeds)
    skip = transfer.drawn_anew(experiment.model.name) if experiment.transfer.private else None
    drawn = jax.tree.map(np.asarray, trainer.learner.variables)
    merged, taken, kept = transfer.merge(drawn, source.variables, rows=rows, skip=skip)
    trainer.begin(**merged)
    return {
        "source": source.directory.folder.name,
        "corpus": source.result.corpus,
        "seeds": list(source.experiment.seeds),
        "best_epoch": source.result.best_epoch,
        "weights_taken": len(taken),
        "weights_drawn": kept,
    }


def _parameters(state) -> int:
    """The number of parameters of one seed."""
    return sum(int(leaf[0].size) for leaf in jax.tree.leaves(state.params))


# -- dry run -----------------------------------------------------------------------------------------------------------


def describe(trainer: Trainer) -> Iterator[str]:
    """Yields lines: shapes, parameters, memory, and seconds per epoch from timed steps."""
    bodies, batches = trainer.program, trainer.batches
    yield f"{'parameter':50} {'shape (of one seed)':>22}"
    for path, leaf in jax.tree.leaves_with_path(trainer.learner.params):
        yield f"{jax.tree_util.keystr(path, simple=True, separator='/'):50} {leaf.shape[1:]!s:>22}"
    count, sizes = bodies.devices.count, " or ".join(map(str, batches["train"].sizes))
    size = f"{_parameters(trainer.learner):,} parameters a seed"
    yield f"{size}, {len(trainer.seeds)} seeds, batches of {sizes}, {count} devices"

    def train_step(layout, index):  # updates the learner, as in training
        trainer.learner, _ = bodies.train(layout, trainer.learner, index)
        return trainer.learner

    def dev_step(layout, index):
        return bodies.predict(layout, trainer.learner.variables, index)

    train_plan, seconds = batches["train"].epoch(1, np.asarray(trainer.learner.seed)), {}
    for title, step, plan in (
        ("train", train_step, train_plan),
        ("dev", dev_step, batches["dev"].once()),
    ):
        seconds[title] = 0.0
        for layout in dict.fromkeys(layout for layout, _ in plan):
            indices = [index for other, index in plan if other == layout]
            each = _seconds_per_step(step, layout, indices[0])
            seconds[title] += each * len(indices)
            slots = sum(steps * rows for steps, rows in layout.sentences)
            yield (
                f"{title}: {len(indices)} batches an epoch of {layout.rows * count} rows, up to "
                f"{layout.width[0]}+{layout.width[1]} tokens, {slots * count} slots, {1e3 * each:.0f} ms each"
            )
    yield _memory(trainer)
    epochs, epoch = trainer.settings.epochs, sum(seconds.values())
    yield (
        f"an epoch takes about {epoch:.0f} s ({seconds['train']:.0f} s training, {seconds['dev']:.0f} s dev), {epochs} "
        f"epochs at most {epochs * epoch / 60:.1f} min; not counted: compiling ({bodies.compile_seconds:.0f} s now), "
        "checkpoints, the test at the end"
    )


def _seconds_per_step(step, layout, index):
    """Median time of six steps, after one that compiles."""
    times = []
    for _ in range(7):
        started = time.monotonic()
        jax.block_until_ready(step(layout, index))
        times.append(time.monotonic() - started)
    return float(np.median(times[1:]))


def _memory(trainer):
    """A line on memory: resident arrays, and the work space of the largest step."""
    program, megabytes = trainer.program, 0.0
    held = (trainer.learner, trainer.best, trainer.average, program.frozen, program.data)
    for compiled in program.compiled:  # activations, gradients and results, without the arguments
        if (sizes := compiled.memory_analysis()) is not None:
            room = sizes.temp_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
            megabytes = max(megabytes, room / 1e6)
    total = megabytes + sum(leaf.nbytes for leaf in jax.tree.leaves(held)) / 1e6
    return f"memory of each device: {total:.0f} MB; {megabytes:.1f} MB of it are the work space of the largest step"
