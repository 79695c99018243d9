"""How much memory and disk there is for a program, and how many of its seeds fit."""

import shutil
from pathlib import Path

import jax
import numpy as np

DEVICE_SHARE = 0.9  # of what jax may take of a device: prediction and fragments take the rest
HOST_SHARE = 0.5  # of the host's free memory, which other programs use, too
HOST_MOST = 1 << 30  # more seeds at once are no faster on a CPU (docs/results-diskne.md)
CHECKPOINTS = 6  # two that are kept and one that is written, in half of the disk


def room(device) -> int:
    """Bytes that a program may take on a device; where jax does not say them, as on a CPU, a part of the host's."""
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return int(DEVICE_SHARE * stats["bytes_limit"])
    return min(HOST_MOST, int(HOST_SHARE * _free()))


def _free():
    """Bytes of the host's memory that are free or can be freed; HOST_MOST where the system does not say."""
    try:
        said = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(said["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError):
        return HOST_MOST


def room_of_checkpoint(folder: Path) -> int:
    """Bytes that a checkpoint may have."""
    return shutil.disk_usage(folder).free // CHECKPOINTS


def fitting(program, batches, seeds: int, room: int, checkpoint: int) -> int:
    """How many of so many seeds, at least one, are trained within `room`, and saved within `checkpoint`, in bytes.

    The step of the largest layout is compiled for as many as the parameters alone leave room for. Where its work space
    is too large, it is divided among the seeds: nearly all of it grows with their number.
    """
    layout = max(batches.layouts, key=lambda layout: layout.units * layout.group * sum(layout.width))
    learner = jax.eval_shape(lambda: program.draw(layout, (0,)))
    one, params = _bytes(learner), _bytes(learner.params)
    held = one + 3 * params  # the best weights, those before while they are replaced, and gradients
    most = max(1, min(seeds, room // held, checkpoint // (one + params)))
    if most == 1:
        return 1
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((most, *leaf.shape[1:]), leaf.dtype), learner)
    index = np.full((most, layout.units * program.devices.count, layout.group), -1, np.int32)
    taken = program.train_bytes(layout, shapes, index) + 2 * most * params
    return most if taken <= room else max(1, most * room // taken)


def _bytes(tree):
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
