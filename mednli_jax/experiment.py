"""From a config to something that trains or predicts; shared by the doors."""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
from ml_collections import config_dict

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


def check(config) -> None:
    """Refuses values that could only fail later. Raises UserError naming the field."""
    seeds = tuple(config.seeds)
    whole = all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in seeds)
    if not seeds or not whole or len(set(seeds)) != len(seeds):
        raise UserError("config.seeds: give distinct numbers from 0 up, e.g. --config.seeds=0,1,2.")
    train = config.train
    for name in ("epochs", "batch_size", "patience"):
        if train[name] < 1:
            raise UserError(f"config.train.{name} is {train[name]}. Fix: give at least 1.")
    for name in ("learning_rate", "weight_decay", "clip", "checkpoint_minutes"):
        if not 0 <= train[name] < float("inf"):
            raise UserError(f"config.train.{name} is {train[name]}. Fix: give a number from 0 up.")
    if config.model.hidden_size < 1:
        raise UserError(f"config.model.hidden_size is {config.model.hidden_size}. Fix: give at least 1.")
    if not 1 <= train.max_buckets <= batching.MAX_BUCKETS:
        raise UserError(f"config.train.max_buckets is {train.max_buckets}. Fix: give 1 to {batching.MAX_BUCKETS}.")
    if train.select not in ("loss", "accuracy"):
        raise UserError(f"config.train.select is '{train.select}'. Fix: give loss or accuracy.")
    table.build(config.model.name, config.model.to_dict())
    if not 0 <= config.model.dropout < 1:
        raise UserError(f"config.model.dropout is {config.model.dropout}. Fix: give 0 up to, not including, 1.")


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
    arrays = nli.resident(prepared)
    return _program(config, buckets, arrays, prepared.vectors, prepared.longest_path, devices or Devices())


def _program(config, buckets, arrays, vectors, longest_path, devices):
    model = table.build(
        config.model.name, config.model.to_dict(), longest_path=longest_path, axis_name=devices.axis_name
    )
    train = config.train
    optimizer = optim.build_optimizer(
        learning_rate=train.learning_rate, weight_decay=train.weight_decay, clip=train.clip
    )
    data = dict(arrays)
    for i, side in enumerate(("premise", "hypothesis")):
        data[side] = _widen(data[side], max(box[i] for box in buckets.boxes))
    return loop.Program(
        model=model,
        task=nli.NLITask(),
        optimizer=optimizer,
        devices=devices,
        buckets=buckets,
        frozen=devices.replicate(nli.frozen(vectors)),
        data=devices.replicate(data),
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
    held = {"learner": trainer.learner, "best": trainer.best, "vectors": bodies.frozen, "corpus": bodies.data}
    yield "memory: " + ", ".join(
        f"{name} {sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / 1e6:.1f} MB" for name, tree in held.items()
    )
    plan = batching.epoch_plan(
        trainer.bucket_of_row["train"], batch_size=trainer.batch_size, epoch=1, seeds=np.asarray(trainer.learner.seed)
    )
    total = 0.0
    for bucket, box in enumerate(bodies.buckets.boxes):
        batches = [index for number, index in plan if number == bucket]
        if batches:
            seconds = _seconds_per_step(trainer, bucket, batches[0])
            total += seconds * len(batches)
            yield f"bucket {box[0]}+{box[1]} tokens: {len(batches)} batches an epoch, {1e3 * seconds:.0f} ms each"
    yield f"compiled in {bodies.compile_seconds:.1f} s; an epoch of training takes about {total:.0f} s, " + (
        f"{config.train.epochs} epochs at most {total * config.train.epochs / 60:.1f} min"
    )


def _seconds_per_step(trainer, bucket, index):
    """Median of three steps after one that compiles; the learner moves on, as in training."""
    times = []
    for _ in range(4):
        started = time.monotonic()
        trainer.learner, _ = trainer.program.train(bucket, trainer.learner, index)
        jax.block_until_ready(trainer.learner)
        times.append(time.monotonic() - started)
    return float(np.median(times[1:]))


def _widen(array, width):
    """Bucket edges are multiples of four tokens, and may stand past the longest sentence."""
    return np.pad(array, ((0, 0), (0, max(0, width - array.shape[1]))))


def restored_config(values: dict) -> config_dict.ConfigDict:
    """A run's config.json as the config it was: sequences are tuples again."""

    def tuples(value):
        if isinstance(value, dict):
            return {key: tuples(item) for key, item in value.items()}
        return tuple(value) if isinstance(value, list) else value

    return config_dict.ConfigDict(tuples(values))


class TrainedRun:
    """A finished run, ready to score a split or new pairs. Open it with `load_run`."""

    def __init__(self, directory: RunDirectory):
        self.directory = directory
        self.config = restored_config(directory.config)
        self.result = read_json(directory.folder / "result.json")
        self.manifest = read_json(directory.folder / "data.json")
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
        if loaded is None or self.result["status"] != "complete":
            raise UserError(
                f"E-RUN-011 {self.directory.folder}: the run is not finished (status "
                f"{self.result['status']}). Fix: train with --resume --workdir={self.directory.folder}."
            )
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
            raise UserError(f"--split={split}: the corpus has no such split. Known: {', '.join(prepared.splits)}.")
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
        ontology = self.manifest["knowledge"].get("sha256", "")
        arrays, self.unknown_words = self.task.encode(self.config, self.vocabulary, examples, ontology)
        length = tuple(arrays[f"{side}_length"] for side in SIDES)
        rows = Rows("new", 0, arrays["label"], length, tuple(e.uid for e in examples), ((),) * len(examples))
        devices = Devices()
        limit = tuple(int(x.max()) for x in length)
        buckets = batching.choose_buckets(*length, batch_size=loop.PREDICT_ROWS, limit=limit, most=batching.MAX_BUCKETS)
        if self.config.model.masking == "paper":  # its logits depend on the padded length: the training's is used
            box = tuple(
                max(own, trained) for own, trained in zip(buckets.boxes[-1], self.result["buckets"][-1], strict=True)
            )
            buckets = batching.Buckets((box,))
        longest = self.manifest["knowledge"]["longest_path"]
        bodies = _program(self.config, buckets, arrays, self.vectors, longest, devices)
        logits = bodies.logits(self.variables, rows, buckets.assign(*length), batch_size=loop.PREDICT_ROWS)
        mean_NC = nli.probabilities(logits).mean(axis=0)
        return [dict(zip(LABELS, map(float, row), strict=True)) for row in mean_NC]


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
