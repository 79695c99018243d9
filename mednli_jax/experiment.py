"""From a config to something that trains or predicts; shared by the doors."""

from pathlib import Path

import jax
import numpy as np
from ml_collections import config_dict

from mednli_jax.data import batching
from mednli_jax.errors import UserError
from mednli_jax.models import table
from mednli_jax.tasks import nli
from mednli_jax.training import loop, optim
from mednli_jax.training.devices import Devices


def check(config) -> None:
    """Refuses values that could only fail later. Raises UserError naming the field."""
    seeds = tuple(config.seeds)
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0:
        raise UserError("config.seeds: give distinct numbers from 0 up, e.g. --config.seeds=0,1,2.")
    train = config.train
    for name in ("epochs", "batch_size", "patience"):
        if train[name] < 1:
            raise UserError(f"config.train.{name} is {train[name]}. Fix: give at least 1.")
    if config.model.hidden_size < 1:
        raise UserError(f"config.model.hidden_size is {config.model.hidden_size}. Fix: give at least 1.")
    if not 1 <= train.max_buckets <= batching.MAX_BUCKETS:
        raise UserError(f"config.train.max_buckets is {train.max_buckets}. Fix: give 1 to {batching.MAX_BUCKETS}.")
    if train.select not in ("loss", "accuracy"):
        raise UserError(f"config.train.select is '{train.select}'. Fix: give loss or accuracy.")
    if not 0 <= config.model.dropout < 1:
        raise UserError(f"config.model.dropout is {config.model.dropout}. Fix: give 0 up to, not including, 1.")


def settings(config) -> loop.Settings:
    train = config.train
    return loop.Settings(
        epochs=train.epochs, batch_size=train.batch_size, patience=train.patience, select=train.select,
        max_buckets=train.max_buckets, checkpoint_minutes=train.checkpoint_minutes,
    )


def program(config, prepared, *, devices: Devices | None = None) -> loop.Program:
    """The compiled bodies of a config over a prepared corpus."""
    devices = devices or Devices()
    task = nli.NLITask()
    model = table.build(
        config.model.name, config.model.to_dict(), longest_path=prepared.longest_path, axis_name=devices.axis_name
    )
    optimizer = optim.build_optimizer(
        learning_rate=config.train.learning_rate, weight_decay=config.train.weight_decay, clip=config.train.clip
    )
    train = prepared.splits["train"]
    limit = tuple(max(int(rows.length[side].max()) for rows in prepared.splits.values()) for side in (0, 1))
    # The published masking sees padding, so that padding has to be of one length.
    most = 1 if config.model.masking == "paper" else config.train.max_buckets
    buckets = batching.choose_buckets(*train.length, batch_size=config.train.batch_size, limit=limit, most=most)
    data = nli.resident(prepared)
    width = [max(box[side] for box in buckets.boxes) for side in (0, 1)]
    for side, size in zip(("premise", "hypothesis"), width, strict=True):
        data[side] = _widen(data[side], size)
    return loop.Program(
        model=model, task=task, optimizer=optimizer, devices=devices, buckets=buckets,
        frozen=devices.replicate(nli.frozen(prepared.vectors)), data=devices.replicate(data),
    )


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


def use_compile_cache() -> Path:
    """Compiled programs are kept across runs, readable by their owner alone."""
    folder = nli.cache_folder() / "compiled"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"E-RUN-005 {folder}: cannot be made ({error.strerror}). Fix: set $MEDNLI_JAX_CACHE to a folder "
                        "you can write.") from error
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    return folder
