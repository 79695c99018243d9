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
from mednli_jax.data.encode import SIDES
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

COARSE = 16  # tokens: a few new pairs are padded to a multiple
PREDICT_ROWS = 256
PREDICT_GROUP = 3  # hypotheses of a premise in MedNLI, SNLI and MultiNLI
MANY = 2048  # new pairs from which programs of their own pay
# Matrix products of 16-bit inputs summed in 32 bits; parameters, states and losses stay in 32 bits.
PRECISIONS = {"default": None, "bfloat16": "BF16_BF16_F32"}
RESULT_FIELDS = ("best_epoch", "corpus", "model", "notes", "seeds", "width")
DATA_FIELDS = ("files.vectors.npy", "files.vocabulary.json", "knowledge.longest_path")


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
    if train.precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise UserError(f"E-CONF-004 config.train.precision is '{train.precision}'. Fix: give one of {known}.")
    if train.group < 1:
        raise UserError(f"E-CONF-003 config.train.group is {train.group}. Fix: give at least 1.")
    table.build(config.model.name, config.model.to_dict())
    if not 0 <= config.model.dropout < 1:
        raise UserError(f"E-CONF-003 config.model.dropout is {config.model.dropout}. Fix: give 0 or more, under 1.")


def settings(config) -> loop.Settings:
    train = config.train
    return loop.Settings(
        epochs=train.epochs,
        patience=train.patience,
        select=train.select,
        checkpoint_minutes=train.checkpoint_minutes,
    )


def program(config, prepared, *, devices: Devices | None = None) -> tuple[loop.Program, dict[str, batching.Batches]]:
    """The compiled bodies of a config over a prepared corpus, and the batches of each split."""
    devices = devices or Devices()
    frozen = devices.replicate(nli.frozen(prepared.vectors))
    bodies = _program(config, frozen, prepared.longest_path, devices)
    bodies.data = devices.replicate(nli.resident(prepared))
    batches = {name: _batches(config, prepared, rows, name, devices.count) for name, rows in prepared.splits.items()}
    return bodies, batches


def _batches(config, prepared, rows, name, shares):
    """A split's batches. Training follows the config; what is only predicted encodes every premise once."""
    tokens = tuple(prepared.arrays[side][rows.first : rows.first + len(rows)] for side in SIDES)
    width = tuple(prepared.arrays[side].shape[1] for side in SIDES)
    # Dropout on words, as ESIM has it, sets equal words apart.
    frozen = not (config.model.train_vectors or (config.model.name == "esim" and config.model.dropout))
    common = {"width": width, "shares": shares, "tokens": tokens if frozen else None, "first": rows.first}
    common["fixed"] = config.model.masking == "paper"  # which sees the padding: one width for all splits
    if name == "train":
        train = config.train
        return batching.Batches(
            *rows.length,
            batch_size=train.batch_size,
            groups=batching.groups_of(tokens[0], min(train.group, train.batch_size)) if train.group > 1 else None,
            most=train.max_buckets,
            seeds=tuple(config.seeds),
            epochs=train.epochs,
            **common,
        )
    groups = batching.groups_of(tokens[0], PREDICT_GROUP)
    return batching.Batches(*rows.length, batch_size=PREDICT_ROWS, groups=groups, **common)


def _program(config, frozen, longest_path, devices):
    """The bodies without rows to work on; `frozen` stands on the devices."""
    model = table.build(
        config.model.name, config.model.to_dict(), longest_path=longest_path, axis_name=devices.axis_name
    )
    train = config.train
    optimizer = optim.build_optimizer(
        learning_rate=train.learning_rate, weight_decay=train.weight_decay, clip=train.clip
    )
    return loop.Program(model=model, task=nli.NLITask(), optimizer=optimizer, devices=devices, frozen=frozen, data={})


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
    sizes = [compiled.memory_analysis() for compiled in bodies.compiled]
    return max(
        (s.temp_size_in_bytes + s.output_size_in_bytes - s.alias_size_in_bytes for s in sizes if s is not None),
        default=0,
    )


def _widened(arrays, sizes, rows):
    """The arrays [N, T] with room for more: T as in `sizes` by name, N = rows; what is added is empty."""
    result = {}
    for name, array in arrays.items():
        lacking = [(0, rows - len(array))]
        lacking += [(0, sizes[name] - array.shape[1])] if array.ndim == 2 else []
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


def _finished(directory: RunDirectory) -> dict:
    """The result of a run that is complete; the checkpoints of any other may be changing while they are read."""
    result = directory.result()
    if result["status"] != "complete":
        if directory.in_training():
            problem, fix = "the run is in training", "wait until it is finished"
        else:
            problem = f"the run is not finished (status {result['status']})"
            fix = f"go on with it: train with its flags, --workdir={directory.folder} and --resume"
        raise UserError(f"E-RUN-011 {directory.folder}: {problem}. Fix: {fix}.")
    _check_fields(directory.folder / "result.json", result, RESULT_FIELDS)
    return result


class TrainedRun:
    """A finished run, ready to score a split or new pairs. Open it with `load_run`."""

    def __init__(self, directory: RunDirectory):
        self.directory = directory
        self.result = _finished(directory)
        self.config = _saved_config(directory)
        self.manifest = read_json(directory.folder / "data.json")
        _check_fields(directory.folder / "data.json", self.manifest, DATA_FIELDS)
        self.task = nli.NLITask()
        self.vocabulary = Vocab.load(self._own("vocabulary.json"))
        self.vectors = np.load(self._own("vectors.npy"), allow_pickle=False)
        self.variables = self._best()

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
        best = loaded[0]["best"] if loaded else None
        if best is None or best["epoch"].tolist() != self.result["best_epoch"]:
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
        bodies, batches = program(self.config, prepared)
        logits = bodies.logits(self.variables, batches[split])
        return self.task.score(prepared.splits[split], logits), logits

    def predict(self, pairs) -> list[dict[str, float]]:
        """Class probabilities of (premise, hypothesis) string pairs, in their order: [{"entailment": .7, ...}, ...].

        The mean over the run's seeds. `unknown_words` afterwards holds the tokens without a vector, per side.
        """
        examples = [self.task.example(str(i), *pair) for i, pair in enumerate(pairs)]
        if not examples:
            self.unknown_words = dict.fromkeys(SIDES, 0)
            return []
        arrays, self.unknown_words = self._encoder(examples)
        bodies = self._bodies
        batches, data = self._batches(arrays)
        bodies.data = bodies.devices.replicate(data)
        logits = bodies.logits(self.variables, batches)
        bodies.data = {}  # the programs are kept, not the pairs
        if len(examples) > MANY:  # programs fitted to these pairs fit no others
            bodies.forget()
        mean_NC = nli.probabilities(logits).mean(axis=0)
        return [dict(zip(LABELS, map(float, row), strict=True)) for row in mean_NC]

    @cached_property
    def _encoder(self):
        return nli.Encoder(self.config, self.vocabulary, self.manifest["knowledge"].get("sha256", ""))

    @cached_property
    def _bodies(self):
        devices = Devices()
        frozen = devices.replicate(nli.frozen(self.vectors))
        return _program(self.config, frozen, self.manifest["knowledge"]["longest_path"], devices)

    def _batches(self, arrays):
        """Batches of new pairs and their arrays, in shapes so coarse that the next few pairs fit them as well."""
        sizes = {name: _power_of_two(arrays[name].shape[1]) for name in nli.LINK_FIELDS if name in arrays}
        sizes |= {side: -(-arrays[side].shape[1] // COARSE) * COARSE for side in SIDES}
        if self.config.model.masking == "paper":  # its logits depend on the padded length: the training's is used
            trained = zip(SIDES, self.result["width"], strict=True)
            sizes |= {side: max(arrays[side].shape[1], own) for side, own in trained}
        length = tuple(arrays[f"{side}_length"] for side in SIDES)
        count = len(length[0])
        rows = _power_of_two(count, least=8)
        data = _widened(arrays, sizes, rows)
        width = tuple(sizes[side] for side in SIDES)
        few = {"batch_size": min(rows, PREDICT_ROWS), "coarse": True}
        many = {"batch_size": PREDICT_ROWS, "groups": batching.groups_of(arrays["premise"], PREDICT_GROUP)}
        fixed = self.config.model.masking == "paper"
        how = {"width": width, "shares": self._bodies.devices.count, "fixed": fixed}
        return batching.Batches(*length, **how, **(few if count <= MANY else many)), data


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
