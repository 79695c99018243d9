"""The memory and disk space for a program, and the number of seeds that fit."""

import shutil
from pathlib import Path

import jax
import numpy as np

DEVICE_SHARE = 0.9  # share of jax's memory on a device; the rest is for prediction and fragmentation
HOST_SHARE = 0.5  # share of the host's free memory; the rest is for other programs
HOST_MOST = 1 << 30  # bytes; more seeds in one program are no faster on a CPU (docs/results-diskne.md)
CHECKPOINTS = 6  # two kept checkpoints and one that is being written may take half of the disk


def room(device) -> int:
    """Bytes that a program may take on a device. Where jax does not report them (CPU): a share of the host's memory."""
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return int(DEVICE_SHARE * stats["bytes_limit"])
    return min(HOST_MOST, int(HOST_SHARE * _free()))


def _free():
    """Bytes of the host's memory that are free or can be freed; HOST_MOST where the system does not report them."""
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError):
        return HOST_MOST


def room_of_checkpoint(folder: Path) -> int:
    """Bytes that a checkpoint may take."""
    return shutil.disk_usage(folder).free // CHECKPOINTS


def fitting(program, batches, seeds: int, room: int, checkpoint: int) -> int:
    """The number of seeds, from 1 to `seeds`, that one program can train.

    The step of the largest layout is compiled for as many seeds as fit by their parameters alone. Where it takes too
    much memory, the number is reduced in proportion, because nearly all of the memory grows with it.

    Args:
      seeds: most seeds.
      room: bytes for training.
      checkpoint: bytes for a checkpoint.
    """
    layout = max(batches.layouts, key=lambda layout: layout.units * layout.group * sum(layout.width))
    learner = jax.eval_shape(lambda: program.draw(layout, (0,)))
    one, params = _bytes(learner), _bytes(learner.params)
    held = one + 3 * params  # best weights, their old values while they are replaced, and gradients
    most = max(1, min(seeds, room // held, checkpoint // (one + params)))
    if most == 1:
        return 1
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((most, *leaf.shape[1:]), leaf.dtype), learner)
    index = np.full((most, layout.units * program.devices.count, layout.group), -1, np.int32)
    taken = program.train_bytes(layout, shapes, index) + 2 * most * params
    return most if taken <= room else max(1, most * room // taken)


def _bytes(tree):
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
