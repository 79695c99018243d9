"""From a config to something that trains or predicts; shared by the doors."""

import hashlib
import resource
import sys
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import jax
import numpy as np
from ml_collections import config_dict

from mednli_jax import defaults
from mednli_jax.data import batching
from mednli_jax.data.encode import SIDES, Rows
from mednli_jax.data.prepared import cache_folder
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS
from mednli_jax.models import table
from mednli_jax.runs import RunDirectory, read_json, write_atomic
from mednli_jax.tasks import nli
from mednli_jax.text import Vocab
from mednli_jax.training import loop, optim
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.devices import Devices

COARSE = 16  # bucket edges of a few new pairs are multiples of this many tokens
KEPT_PROGRAMS = 16
RESULT_FIELDS = ("best_epoch", "buckets", "corpus", "model", "notes", "seeds")


def check(config) -> None:
    """Refuses values that could only fail later. Raises UserError naming the field."""
    seeds = tuple(config.seeds)
    whole = all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in seeds)
    if not seeds or not whole or len(set(seeds)) != len(seeds):
        raise UserError("E-CONF-002 config.seeds: expected distinct numbers from 0 up. Fix: --config.seeds=0,1,2.")
    train = config.train
    for name in ("epochs", "batch_size", "patience"):
        if train[name] < 1:
            raise UserError(f"E-CONF-003 config.train.{name} is {train[name]}. Fix: give at least 1.")
    for name in ("learning_rate", "weight_decay", "clip", "checkpoint_minutes"):
        if not 0 <= train[name] < float("inf"):
            raise UserError(f"E-CONF-003 config.train.{name} is {train[name]}. Fix: give a number from 0 up.")
    if config.model.hidden_size < 1:
        raise UserError(f"E-CONF-003 config.model.hidden_size is {config.model.hidden_size}. Fix: give at least 1.")
    if not 1 <= train.max_buckets <= batching.MAX_BUCKETS:
        most = batching.MAX_BUCKETS
        raise UserError(f"E-CONF-003 config.train.max_buckets is {train.max_buckets}. Fix: give 1 to {most}.")
    if train.select not in ("loss", "accuracy"):
        raise UserError(f"E-CONF-004 config.train.select is '{train.select}'. Fix: give loss or accuracy.")
    table.build(config.model.name, config.model.to_dict())
    if not 0 <= config.model.dropout < 1:
        raise UserError(f"E-CONF-003 config.model.dropout is {config.model.dropout}. Fix: give 0 or more, under 1.")


def settings(config) -> loop.Settings:
    train = config.train
    return loop.Settings(
        epochs=train.epochs,
        batch_size=train.batch_size,
        patience=train.patience,
        select=train.select,
        checkpoint_minutes=train.checkpoint_minutes,
    )


def program(config, prepared, *, devices: Devices | None = None) -> loop.Program:
    """The compiled bodies of a config over a prepared corpus."""
    train = prepared.splits["train"]
    limit = tuple(max(int(rows.length[side].max()) for rows in prepared.splits.values()) for side in (0, 1))
    # The published masking sees padding, so that padding has to be of one length.
    most = 1 if config.model.masking == "paper" else config.train.max_buckets
    buckets = batching.choose_buckets(*train.length, batch_size=config.train.batch_size, limit=limit, most=most)
    devices = devices or Devices()
    frozen = devices.replicate(nli.frozen(prepared.vectors))
    bodies = _program(config, buckets, frozen, prepared.longest_path, devices)
    bodies.data = devices.replicate(_widened(nli.resident(prepared), buckets))
    return bodies


def _program(config, buckets, frozen, longest_path, devices):
    """The bodies without rows to work on; `frozen` stands on the devices."""
    model = table.build(
        config.model.name, config.model.to_dict(), longest_path=longest_path, axis_name=devices.axis_name
    )
    train = config.train
    optimizer = optim.build_optimizer(
        learning_rate=train.learning_rate, weight_decay=train.weight_decay, clip=train.clip
    )
    return loop.Program(
        model=model,
        task=nli.NLITask(),
        optimizer=optimizer,
        devices=devices,
        buckets=buckets,
        frozen=frozen,
        data={},
    )


def describe(config, prepared) -> Iterator[str]:
    """Lines on what training would take: shapes, parameters, memory, and seconds per epoch from timed steps."""
    bodies = program(config, prepared)
    seeds = tuple(config.seeds)
    trainer = loop.Trainer(bodies, settings(config), prepared.splits, seeds)
    yield f"{'parameter':50} {'shape (of one seed)':>22}"
    for path, leaf in jax.tree.leaves_with_path(trainer.learner.params):
        yield f"{jax.tree_util.keystr(path, simple=True, separator='/'):50} {leaf.shape[1:]!s:>22}"
    size = sum(leaf[0].size for leaf in jax.tree.leaves(trainer.learner.params))
    yield f"{size:,} parameters a seed, {len(seeds)} seeds, batch {trainer.batch_size}, {bodies.devices.count} devices"
    learner = trainer.learner
    train = batching.epoch_plan(
        trainer.bucket_of_row["train"], batch_size=trainer.batch_size, epoch=1, seeds=np.asarray(learner.seed)
    )
    rows = trainer.splits["dev"]
    dev = batching.predict_plan(trainer.bucket_of_row["dev"], batch_size=trainer.predict_rows, first=rows.first)

    def train_step(bucket, index):  # the learner moves on, as in training
        trainer.learner, _ = bodies.train(bucket, trainer.learner, index)
        return trainer.learner

    def dev_step(bucket, index):
        return bodies.predict(bucket, trainer.learner.variables, index)

    seconds = {}
    for title, plan, step in (("train", train, train_step), ("dev", dev, dev_step)):
        seconds[title] = 0.0
        for bucket, box in enumerate(bodies.buckets.boxes):
            batches = [index for number, index in plan if number == bucket]
            if batches:
                each = _seconds_per_step(step, bucket, batches[0])
                seconds[title] += each * len(batches)
                text = f"{title}, bucket {box[0]}+{box[1]} tokens: {len(batches)} batches an epoch of "
                yield text + f"{batches[0].shape[-1]} rows, {1e3 * each:.0f} ms each"
    yield from _memory(trainer)
    epochs, epoch = config.train.epochs, sum(seconds.values())
    yield (
        f"an epoch takes about {epoch:.0f} s ({seconds['train']:.0f} s training, {seconds['dev']:.0f} s dev), {epochs} "
        f"epochs at most {epochs * epoch / 60:.1f} min; not counted: compiling ({bodies.compile_seconds:.0f} s now), "
        "checkpoints, the test at the end"
    )


def _seconds_per_step(step, bucket, index):
    """Median of steps after one that compiles: at least three, and as many as fit into a second."""
    times = []
    jax.block_until_ready(step(bucket, index))
    while len(times) < 3 or (sum(times) < 1 and len(times) < 50):
        started = time.monotonic()
        jax.block_until_ready(step(bucket, index))
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
    }
    size = {name: sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / 1e6 for name, tree in held.items()}
    work = _workspace(bodies) / 1e6
    yield f"memory of each device: {sum(size.values()) + work:.0f} MB = " + " + ".join(
        f"{name} {megabytes:.1f}" for name, megabytes in {**size, "work space of the largest step": work}.items()
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
    saved = sum(leaf.nbytes for leaf in jax.tree.leaves((learner, best))) / 1e6
    yield (
        f"memory of this process: at most {peak:.0f} MB so far, measured: these steps, libraries, compiler, on a CPU "
        f"the device's arrays; not counted: a checkpoint ({saved:.0f} MB) while it is saved"
    )


def _workspace(bodies):
    """Bytes that the largest compiled body takes besides its arguments: activations, gradients, results."""
    sizes = [compiled.memory_analysis() for compiled in bodies._compiled.values()]
    return max(
        (s.temp_size_in_bytes + s.output_size_in_bytes - s.alias_size_in_bytes for s in sizes if s is not None),
        default=0,
    )


def _widened(arrays, buckets, rows=0, links=0):
    """The arrays with room for the largest bucket, whose edges may stand past the longest sentence.

    rows, links: their number at least; what is added is empty.
    """
    width = {side: max(box[i] for box in buckets.boxes) for i, side in enumerate(SIDES)}
    width |= dict.fromkeys(nli.LINK_FIELDS, links)
    result = {}
    for name, array in arrays.items():
        lacking = [(0, max(0, rows - len(array)))]
        lacking += [(0, max(0, width[name] - array.shape[1]))] if array.ndim == 2 else []
        result[name] = np.pad(array, lacking, constant_values=-1 if name == "link_distance" else 0)
    return result


def restored_config(values: dict) -> config_dict.ConfigDict:
    """A run's config.json as the config it was: sequences are tuples again."""

    def tuples(value):
        if isinstance(value, dict):
            return {key: tuples(item) for key, item in value.items()}
        return tuple(value) if isinstance(value, list) else value

    return config_dict.ConfigDict(tuples(values))


def _check_fields(path: Path, values, needed) -> None:
    """Raises UserError where a run's file lacks a field that this version reads; what it was is not guessed."""
    if missing := sorted(set(needed) - set(_fields(values))):
        names = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise UserError(
            f"E-RUN-014 {path}: lacks {names}, which this version reads: another version wrote the run. "
            "Fix: train again with this version."
        )


def _fields(tree, prefix="") -> list[str]:
    """Dotted names of the leaves of nested dicts."""
    if not isinstance(tree, dict):
        return [prefix]
    return [name for key, item in tree.items() for name in _fields(item, f"{prefix}.{key}" if prefix else key)]


def _saved_config(directory: RunDirectory) -> config_dict.ConfigDict:
    """The config of a run of this version. Raises UserError where a field is missing."""
    path, values = directory.folder / "config.json", directory.config
    _check_fields(path, values, ["model.name"])
    _check_fields(path, values, _fields(defaults.nli(values["model"]["name"]).to_dict()))
    return restored_config(values)


class TrainedRun:
    """A finished run, ready to score a split or new pairs. Open it with `load_run`."""

    def __init__(self, directory: RunDirectory):
        self.directory = directory
        self.config = _saved_config(directory)
        self.result = read_json(directory.folder / "result.json")
        self.manifest = read_json(directory.folder / "data.json")
        self.task = nli.NLITask()
        self.vocabulary = Vocab.load(self._own("vocabulary.json"))
        self.vectors = np.load(self._own("vectors.npy"), allow_pickle=False)
        self.variables = self._best()
        self._programs = {}  # of `predict`, by the shapes they are compiled for

    def _own(self, name):
        """A file the run keeps for itself, checked against its manifest."""
        path = self.directory.private / name
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise UserError(
                f"E-RUN-010 {path}: cannot be read ({error.strerror}). Fix: restore the run directory."
            ) from None
        if digest != self.manifest["files"][name]:
            raise UserError(f"E-RUN-010 {path}: differs from what the run wrote. Fix: restore the run directory.")
        return path

    def _best(self):
        loaded = Checkpoints(self.directory.checkpoints).load()
        if loaded is None or self.result["status"] != "complete":
            raise UserError(
                f"E-RUN-011 {self.directory.folder}: the run is not finished (status "
                f"{self.result['status']}). Fix: train with --resume --workdir={self.directory.folder}."
            )
        _check_fields(self.directory.folder / "result.json", self.result, RESULT_FIELDS)
        best = loaded[0]["best"]
        if best["epoch"].tolist() != self.result["best_epoch"]:
            raise UserError(
                f"E-RUN-008 {self.directory.checkpoints}: what is left undamaged is not the finished run. "
                "Fix: restore the run directory, or train again with --force."
            )
        return {"params": best["params"], "batch_stats": best.get("batch_stats", {})}

    def scores(self, split: str) -> tuple[dict, np.ndarray]:
        """(scores, logits [S, N, C]) of a split of the corpus the run was trained on.

        Raises: UserError for an unknown split, or where the corpus is no longer what it was.
        """
        prepared, _ = self.task.load(self.config)
        if split not in prepared.splits:
            known = ", ".join(prepared.splits)
            raise UserError(f"E-USE-008 --split={split}: the corpus has no such split. Fix: give one of {known}.")
        self.directory.check_data(prepared.manifest)
        rows = prepared.splits[split]
        bodies = program(self.config, prepared)
        buckets = bodies.buckets.assign(*rows.length)
        logits = bodies.logits(self.variables, rows, buckets, batch_size=loop.PREDICT_ROWS)
        return self.task.score(rows, logits), logits

    def predict(self, pairs) -> list[dict[str, float]]:
        """Class probabilities of (premise, hypothesis) string pairs, in their order: [{"entailment": .7, ...}, ...].

        The mean over the run's seeds. `unknown_words` afterwards holds the tokens without a vector, per side.
        """
        examples = [self.task.example(str(i), *pair) for i, pair in enumerate(pairs)]
        if not examples:
            self.unknown_words = dict.fromkeys(SIDES, 0)
            return []
        arrays, self.unknown_words = self._encoder(examples)
        length = tuple(arrays[f"{side}_length"] for side in SIDES)
        rows = Rows("new", 0, arrays["label"], length, tuple(e.uid for e in examples), ((),) * len(examples))
        buckets = self._buckets(length)
        size = _power_of_two(min(len(rows), loop.PREDICT_ROWS), least=8)
        links = _power_of_two(max((arrays[name].shape[1] for name in nli.LINK_FIELDS if name in arrays), default=0))
        data = _widened(arrays, buckets, rows=-(-len(rows) // size) * size, links=links)
        bodies = self._bodies(buckets, data)
        logits = bodies.logits(self.variables, rows, buckets.assign(*length), batch_size=size)
        bodies.data = {}  # the program is kept, not the pairs
        mean_NC = nli.probabilities(logits).mean(axis=0)
        return [dict(zip(LABELS, map(float, row), strict=True)) for row in mean_NC]

    @cached_property
    def _encoder(self):
        return nli.Encoder(self.config, self.vocabulary, self.manifest["knowledge"].get("sha256", ""))

    @cached_property
    def _devices(self):
        return Devices()

    @cached_property
    def _frozen(self):
        return self._devices.replicate(nli.frozen(self.vectors))

    def _buckets(self, length):
        """The boxes of new pairs; for few pairs one, with edges so far apart that the next few fit it as well."""
        limit = tuple(int(x.max()) for x in length)
        buckets = batching.choose_buckets(*length, batch_size=loop.PREDICT_ROWS, limit=limit, most=batching.MAX_BUCKETS)
        if self.config.model.masking == "paper":  # its logits depend on the padded length: the training's is used
            trained = self.result["buckets"][-1]
            return batching.Buckets((tuple(map(max, buckets.boxes[-1], trained)),))
        if len(length[0]) <= loop.PREDICT_ROWS:
            return batching.Buckets((tuple(-(-edge // COARSE) * COARSE for edge in buckets.boxes[-1]),))
        return buckets

    def _bodies(self, buckets, data):
        """Bodies over these rows; compiled ones where rows of these shapes came before."""
        key = (buckets.boxes, tuple((name, array.shape) for name, array in data.items()))
        bodies = self._programs.pop(key, None)
        if bodies is None:
            longest = self.manifest["knowledge"]["longest_path"]
            bodies = _program(self.config, buckets, self._frozen, longest, self._devices)
        self._programs[key] = bodies
        if len(self._programs) > KEPT_PROGRAMS:
            del self._programs[next(iter(self._programs))]  # the one not used for longest
        bodies.data = self._devices.replicate(data)
        return bodies


def _power_of_two(number, least=1):
    return max(least, 1 << max(number - 1, 0).bit_length())


def load_run(folder) -> TrainedRun:
    """Opens a finished run. Raises UserError where the folder is none, or is damaged."""
    return TrainedRun(RunDirectory.existing(Path(folder).expanduser()))


def keep_for_prediction(directory: RunDirectory, prepared) -> None:
    """Copies into the run what prediction needs, so that it works without the corpus and the cache."""
    for name in ("vocabulary.json", "vectors.npy"):
        write_atomic(directory.private / name, (prepared.folder / name).read_bytes())


def use_compile_cache() -> Path:
    """Compiled programs are kept across runs, readable by their owner alone."""
    folder = cache_folder() / "compiled"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"E-RUN-005 {folder}: cannot be made ({error.strerror}). Fix: set $MEDNLI_JAX_CACHE to a folder "
            "you can write."
        ) from error
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    return folder
