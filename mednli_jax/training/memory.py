"""How much memory there is for a program, and how many of its seeds fit."""

from pathlib import Path

import jax
import numpy as np

DEVICE_SHARE = 0.9  # of what jax may take of a device: prediction and fragments take the rest
HOST_SHARE = 0.5  # of the host's free memory, which other programs use, too
HOST_MOST = 1 << 30  # more seeds at once are no faster on a CPU (docs/results-diskne.md)


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


def fitting(program, batches, seeds: int, bytes_: int) -> int:
    """How many of so many seeds, at least one, are trained within `bytes_`.

    The step of the largest layout is compiled for as many as the parameters alone leave room for. Where its work space
    is too large, it is divided among the seeds: nearly all of it grows with their number.
    """
    layout = max(batches.layouts, key=lambda layout: layout.units * layout.group * sum(layout.width))
    learner = jax.eval_shape(lambda: program.draw(layout, (0,)))
    one, params = _bytes(learner), _bytes(learner.params)
    held = one + 3 * params  # the best weights, those before while they are replaced, and gradients
    most = max(1, min(seeds, bytes_ // held))
    if most == 1:
        return 1
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((most, *leaf.shape[1:]), leaf.dtype), learner)
    index = np.full((most, layout.units * program.devices.count, layout.group), -1, np.int32)
    taken = program.train_bytes(layout, shapes, index) + 2 * most * params
    return most if taken <= bytes_ else max(1, most * bytes_ // taken)


def _bytes(tree):
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
