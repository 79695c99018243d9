"""From a config to something that trains or predicts; shared by the doors."""

import os
import resource
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from mednli_jax.corpora import batching
from mednli_jax.corpora.cloze.views import check_setup
from mednli_jax.corpora.nli.prepared import cache_folder, config_path
from mednli_jax.corpora.nli.weights import find_weights
from mednli_jax.corpora.nli.wordpiece import WordPieces
from mednli_jax.errors import UserError
from mednli_jax.files import private_folder, writing
from mednli_jax.models import bert_import, table
from mednli_jax.models.sparse_rows import trains_rows
from mednli_jax.tasks import table as tasks
from mednli_jax.tasks.cloze import marks_of
from mednli_jax.training import loop, optim, transfer
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import Program

READERS = ("sa_reader", "ga_reader")  # the models of the task "cloze"
# Matrix products of 16-bit inputs summed in 32 bits; parameters, states and losses stay in 32 bits.
PRECISIONS = {"default": None, "bfloat16": "BF16_BF16_F32"}


def check(config) -> None:
    """Refuses values that could only fail later. Raises UserError naming the field."""
    seeds = tuple(config.seeds)
    whole = all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in seeds)
    if not seeds or not whole or len(set(seeds)) != len(seeds):
        raise UserError("E-CONF-002 config.seeds: expected distinct numbers from 0 up. Fix: --config.seeds=0,1,2.")
    train = config.train
    for name in ("epochs", "batch_size", "patience", "checkpoint_epochs"):
        if train[name] < 1:
            raise UserError(f"E-CONF-003 config.train.{name} is {train[name]}. Fix: give at least 1.")
    for name in ("learning_rate", "weight_decay", "clip", "checkpoint_minutes"):
        if not 0 <= train[name] < float("inf"):
            raise UserError(f"E-CONF-003 config.train.{name} is {train[name]}. Fix: give a number from 0 up.")
    if not 1 <= train.max_buckets <= batching.MAX_BUCKETS:
        most = batching.MAX_BUCKETS
        raise UserError(f"E-CONF-003 config.train.max_buckets is {train.max_buckets}. Fix: give 1 to {most}.")
    if train.select not in ("loss", "accuracy", "last"):
        raise UserError(f"E-CONF-004 config.train.select is '{train.select}'. Fix: give loss, accuracy or last.")
    if train.precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise UserError(f"E-CONF-004 config.train.precision is '{train.precision}'. Fix: give one of {known}.")
    if train.group < 1:
        raise UserError(f"E-CONF-003 config.train.group is {train.group}. Fix: give at least 1.")
    _check_protocol(train)
    task = tasks.of(config)
    if (config.model.name in READERS) != (task.name == "cloze"):
        known = ", ".join(name for name in table.MODELS if (name in READERS) == (task.name == "cloze"))
        problem = f"config.model.name: '{config.model.name}' is no model of the task '{task.name}'"
        raise UserError(f"E-CONF-005 {problem}. Fix: give one of {known}.")
    if task.name == "cloze":
        check_setup(config.data.setup)
        if config.model.name == "ga_reader":
            marks_of(config)
    else:
        _check_transfer(config)
    if config.model.name == "features":
        if config.data.features:
            raise UserError("E-CONF-005 config.data.features: model 'features' has them already. Fix: leave it out.")
        if config.model.trees < 1:
            raise UserError(f"E-CONF-003 config.model.trees is {config.model.trees}. Fix: give at least 1.")
        return
    for name in ("hidden_size", "dim", "buckets"):
        if name in config.model and config.model[name] < 1:
            raise UserError(f"E-CONF-003 config.model.{name} is {config.model[name]}. Fix: give at least 1.")
    sizes = {"vocab_size": 1} if config.model.name == "bert" else {}  # which the corpus or the weights decide
    model = table.build(config.model.name, config.model.to_dict(), **sizes)
    if "dropout" in config.model and not 0 <= config.model.dropout < 1:
        raise UserError(f"E-CONF-003 config.model.dropout is {config.model.dropout}. Fix: give 0 or more, under 1.")
    if trains_rows(model):
        _check_rows(config)


def _check_rows(config) -> None:
    """Refuses what needs every row of a table where training touches those of a batch alone, and other inputs."""
    train, model = config.train, config.model
    needed = {
        "train.optimizer": (train.optimizer == "sgd", "sgd"),
        "train.momentum": (train.momentum == 0, "0"),
        "train.weight_decay": (train.weight_decay == 0, "0"),
        "train.clip": (train.clip == 0, "0"),
        "model.train_vectors": (model.train_vectors, "True"),
        "vectors.path": (not config.vectors.path, "''"),
        "vectors.retrofit": (not config.vectors.retrofit, "''"),
        "data.features": (not config.data.features, "False"),
    }
    for name, (good, value) in needed.items():
        if not good:
            problem = f"config.{name}: model '{model.name}' trains rows of its own by plain SGD, and nothing else"
            raise UserError(f"E-CONF-005 {problem}. Fix: give {value}.")


def _check_protocol(train) -> None:
    """Optimiser, schedule and averaging. Raises UserError naming the field."""
    for name, known in (("optimizer", optim.OPTIMIZERS), ("schedule", optim.SCHEDULES)):
        if train[name] not in known:
            problem = f"config.train.{name} is '{train[name]}'"
            raise UserError(f"E-CONF-004 {problem}. Fix: give one of {', '.join(known)}.")
    ranges = {
        "momentum": (0 <= train.momentum < 1, "0 or more, under 1"),
        "decay": (0 < train.decay <= 1, "a number over 0, at most 1"),
        "halve_from": (train.halve_from >= 1, "at least 1"),
        "floor": (0 <= train.floor <= 1, "0 to 1"),
        "cycle": (train.cycle == 0 or train.cycle >= 2, "at least 2, or 0 for an epoch"),
        "average_from": (0 <= train.average_from <= train.epochs, f"1 to {train.epochs}, an epoch, or 0 for none"),
        "warmup": (0 <= train.warmup < 1, "0 or more, under 1"),
        "accumulate": (train.accumulate >= 1, "at least 1"),
        "average_every": (train.average_every >= 0, "a number of steps, or 0 for the end of each epoch"),
    }
    for name, (good, fix) in ranges.items():
        if not good:
            raise UserError(f"E-CONF-003 config.train.{name} is {train[name]}. Fix: give {fix}.")
    if train.momentum and train.optimizer != "sgd":
        problem = f"config.train.momentum: optimizer '{train.optimizer}' has no such setting"
        raise UserError(f"E-CONF-005 {problem}. Fix: leave it out, or give optimizer sgd.")
    if train.average_every and not train.average_from:
        problem = "config.train.average_every: nothing is averaged"
        raise UserError(f"E-CONF-005 {problem}. Fix: give config.train.average_from as well, or leave it out.")
    if train.average_from and train.schedule == "plateau":  # which would put the average in the place of its samples
        problem = "config.train.average_from does not go with schedule 'plateau'"
        raise UserError(f"E-CONF-005 {problem}. Fix: leave one of them out.")
    if train.select == "last" and train.schedule == "plateau":  # every epoch is the best then
        problem = "config.train.select 'last' does not go with schedule 'plateau'"
        raise UserError(f"E-CONF-005 {problem}. Fix: leave one of them out.")


def _check_transfer(config) -> None:
    wish, name = config.transfer, config.model.name
    for field in ("skip", "freeze"):
        transfer.pattern(wish[field], f"config.transfer.{field}")
    if not wish.init_from and (wish.private or wish.skip):
        raise UserError("E-CONF-005 config.transfer: there is no source run. Fix: give config.transfer.init_from, too.")
    if name == "features":
        if wish.init_from or wish.freeze or config.data.mix:
            raise UserError("E-CONF-005 config.transfer: features have no weights to transfer. Fix: leave it out.")
    elif "heads" not in config.model:
        if wish.private:
            problem = f"config.transfer.private: model '{name}' has no layers of its own for each domain"
            raise UserError(f"E-CONF-005 {problem}. Fix: leave it out.")
    elif config.model.heads < 1:
        raise UserError(f"E-CONF-003 config.model.heads is {config.model.heads}. Fix: give at least 1.")
    elif config.model.heads > 1 and not config.data.mix:
        raise UserError(
            "E-CONF-005 config.model.heads: a corpus alone has one domain. Fix: give config.data.mix, or leave it out."
        )


def resolve(config) -> None:
    """Fills in what pretrained weights decide: a BERT's sizes. Raises: UserError, DataError where there are none."""
    if config.model.name == "bert" and config.model.weights:
        weights = find_weights(config_path(config, config.model.weights))
        config.model.update(bert_import.read_architecture(weights))
        WordPieces.load(weights).check_size(config.model.vocab_size)


def settings(config) -> loop.Settings:
    train = config.train
    return loop.Settings(
        epochs=train.epochs,
        patience=train.patience,
        select=train.select,
        checkpoint_minutes=train.checkpoint_minutes,
        checkpoint_epochs=train.checkpoint_epochs,
        schedule=train.schedule,
        decay=train.decay,
        halve_from=train.halve_from,
        cycle=train.cycle,
        average_from=train.average_from,
        average_every=train.average_every,
    )


def program(
    config, prepared, splits=None, *, model_facts: dict | None = None
) -> tuple[Program, dict[str, batching.Batches]]:
    """The compiled bodies of a config over a prepared corpus, and the batches of these splits (None: of all).

    model_facts: those of the corpus the model was trained on, where it is not this one.
    """
    devices, task = Devices(), tasks.of(config)
    words = task.vocabulary(config, prepared.folder / "vocabulary.json").words
    frozen = devices.replicate(task.frozen(config, words, prepared.vectors))
    made = bare_program(
        config, frozen, task.model_facts(prepared.manifest) if model_facts is None else model_facts, devices
    )
    made.data = devices.replicate(task.resident(config, prepared))
    how = {"shares": devices.count, "model": made.model}
    return made, {name: task.batches(config, prepared, name, **how) for name in splits or prepared.splits}


def bare_program(config, frozen, model_facts, devices):
    """The bodies without rows to work on. `frozen` stands on the devices; model_facts: see task.Task."""
    fields = config.model.to_dict()
    model = table.build(config.model.name, fields, axis_name=devices.axis_name, **model_facts)
    train = config.train
    optimizer = optim.build_optimizer(
        learning_rate=train.learning_rate,
        weight_decay=train.weight_decay,
        clip=train.clip,
        optimizer=train.optimizer,
        momentum=train.momentum,
        schedule=train.schedule,
        floor=train.floor,
        cycle=train.cycle,
        warmup=train.warmup,
        accumulate=train.accumulate,
    )
    if "transfer" in config and config.transfer.freeze:
        optimizer = optim.all_but(optimizer, transfer.pattern(config.transfer.freeze, "config.transfer.freeze"))
    return Program(
        model=model,
        task=tasks.of(config),
        optimizer=optimizer,
        devices=devices,
        frozen=frozen,
        data={},
        precision=PRECISIONS[train.precision],
    )


def describe(config, prepared) -> Iterator[str]:
    """Lines on what training would take: shapes, parameters, memory, and seconds per epoch from timed steps."""
    bodies, batches = program(config, prepared)
    seeds = tuple(config.seeds)
    trainer = loop.Trainer(bodies, settings(config), prepared.splits, batches, seeds)
    yield f"{'parameter':50} {'shape (of one seed)':>22}"
    for path, leaf in jax.tree.leaves_with_path(trainer.learner.params):
        yield f"{jax.tree_util.keystr(path, simple=True, separator='/'):50} {leaf.shape[1:]!s:>22}"
    size = sum(leaf[0].size for leaf in jax.tree.leaves(trainer.learner.params))
    batch_size, count = config.train.batch_size, bodies.devices.count
    yield f"{size:,} parameters a seed, {len(seeds)} seeds, batch {batch_size}, {count} devices"
    plans = {"train": batches["train"].epoch(1, np.asarray(trainer.learner.seed)), "dev": batches["dev"].once()}

    def train_step(layout, index):  # the learner moves on, as in training
        trainer.learner, _ = bodies.train(layout, trainer.learner, index)
        return trainer.learner

    def dev_step(layout, index):
        return bodies.predict(layout, trainer.learner.variables, index)

    seconds = {}
    for title, step in (("train", train_step), ("dev", dev_step)):
        seconds[title] = 0.0
        for layout in dict.fromkeys(layout for layout, _ in plans[title]):
            indices = [index for other, index in plans[title] if other == layout]
            each = _seconds_per_step(step, layout, indices[0])
            seconds[title] += each * len(indices)
            slots = sum(steps * rows for steps, rows in layout.sentences)
            yield (
                f"{title}: {len(indices)} batches an epoch of {layout.rows * count} rows, up to "
                f"{layout.width[0]}+{layout.width[1]} tokens, {slots * count} slots, {1e3 * each:.0f} ms each"
            )
    yield from _memory(trainer)
    epochs, epoch = config.train.epochs, sum(seconds.values())
    yield (
        f"an epoch takes about {epoch:.0f} s ({seconds['train']:.0f} s training, {seconds['dev']:.0f} s dev), {epochs} "
        f"epochs at most {epochs * epoch / 60:.1f} min; not counted: compiling ({bodies.compile_seconds:.0f} s now), "
        "checkpoints, the test at the end"
    )


def _seconds_per_step(step, layout, index):
    """Median of steps after one that compiles: at least three, and as many as fit into a second."""
    times = []
    jax.block_until_ready(step(layout, index))
    while len(times) < 3 or (sum(times) < 1 and len(times) < 50):
        started = time.monotonic()
        jax.block_until_ready(step(layout, index))
        times.append(time.monotonic() - started)
    return float(np.median(times))


def _memory(trainer):
    """Lines on memory: the arrays that stay, what the largest step takes besides, and what this process has taken."""
    bodies, best, learner = trainer.program, trainer.best, trainer.learner
    held = {
        "weights and optimiser state": learner,
        "best weights": best,
        "vectors": bodies.frozen,
        "corpus": bodies.data,
        **({} if trainer.average is None else {"averaged weights": trainer.average}),
    }
    size = {name: sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / 1e6 for name, tree in held.items()}
    work = _workspace(bodies) / 1e6
    yield f"memory of each device: {sum(size.values()) + work:.0f} MB = " + " + ".join(
        f"{name} {megabytes:.1f}" for name, megabytes in {**size, "work space of the largest step": work}.items()
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
    saved = sum(leaf.nbytes for leaf in jax.tree.leaves((learner, best, trainer.average))) / 1e6
    yield (
        f"memory of this process: at most {peak:.0f} MB so far, measured: these steps, libraries, compiler, on a CPU "
        f"the device's arrays; not counted: a checkpoint ({saved:.0f} MB) while it is saved"
    )


def _workspace(bodies):
    """Bytes that the largest compiled body takes besides its arguments: activations, gradients, results."""
    sizes = [compiled.memory_analysis() for compiled in bodies.compiled]
    return max(
        (s.temp_size_in_bytes + s.output_size_in_bytes - s.alias_size_in_bytes for s in sizes if s is not None),
        default=0,
    )


def use_compile_cache() -> Path:
    """Compiled programs are kept across runs, readable by their owner alone, whatever made the folder and its files.

    A folder that $JAX_COMPILATION_CACHE_DIR names, which may be a bucket's, is its owner's concern: it stays as set.
    """
    if own := os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return Path(own)
    folder = cache_folder() / "compiled"
    fix = "set $MEDNLI_JAX_CACHE to a folder you can write"
    with writing(private_folder(folder, fix=fix), fix):
        found = folder.stat()
        if stat.S_IMODE(found.st_mode) & 0o077 and found.st_uid == os.geteuid():  # a colleague's stays as it is
            folder.chmod(0o700)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    return folder
