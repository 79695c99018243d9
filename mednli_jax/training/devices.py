"""Devices of a step: jit on one device, pmap over several devices of one or more processes, with
one interface.

With several processes the arrays are global: all processes hold them and run the same programs in
the same order.
"""

import ctypes
import functools
import os
import platform
import shutil
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, PartitionSpec

from mednli_jax.training import hosts

AXIS = "batch"
# share of jax's memory on a device; the rest is for prediction and fragmentation
DEVICE_SHARE = 0.9
# bytes; more seeds in one program are no faster on a CPU (docs/results-diskne.md)
HOST_MOST = 1 << 30
# two kept checkpoints and one that is being written may take half of the disk
CHECKPOINTS = 6

# Parameter and value of glibc's mallopt: no memory maps, and no memory is returned to the system.
# The threads do not share one arena: programs that compile at the same time would fragment it, and
# ESIM's steps took half as long again.
_MALLOPT = ((-4, 0), (-1, -1), (-2, 64 << 20))


@functools.cache
def keep_memory() -> bool:
    """Makes glibc keep the memory that this process frees; returns whether it does. Call before
    threads start.

    A step on a CPU allocates and frees its work space. glibc returns such large blocks to the
    system, which clears every page again. At batch 512 this took a fifth of the time of an
    InferSent step and a third of a BOW step. The cost is that the memory of the process stays at
    its peak. Settings of the user (MALLOC_..., GLIBC_TUNABLES) take precedence.
    """
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if chosen or not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    return all([libc.mallopt(parameter, value) == 1 for parameter, value in _MALLOPT])


class Devices:
    """Maps functions of one device (bodies) over the devices and places their arguments.

    A body takes (learner or variables, frozen, data, index). `index` is split along its unit axis;
    the other arguments are the same on every device. `all` are the given devices of this process,
    or without any all devices of all processes, in the order of the processes, which must run the
    same programs on them in the same order.
    """

    def __init__(self, devices=None):
        keep_memory()
        self.hosts = hosts.here() if devices is None else hosts.Hosts()
        here = [
            d for index in range(self.hosts.count) for d in jax.local_devices(process_index=index)
        ]
        self.all = here if devices is None else list(devices)
        self.count = len(self.all)
        self.axis_name = AXIS if self.count > 1 else None
        self.platform = self.all[0].platform  # cpu, gpu or tpu
        self._mesh = jax.sharding.Mesh(np.array(self.all), (AXIS,))
        self._shared = NamedSharding(self._mesh, PartitionSpec())
        # Whether the compiler chooses the memory layout of arrays that stay on the device. A TPU's
        # default layout for arrays with a short leading axis, such as that of one seed, costs a
        # copy of all weights at every step.
        self.chooses_formats = self.platform == "tpu"
        self.chosen_format = Format(Layout.AUTO, None if self.count == 1 else self._shared)

    def replicate(self, tree):
        """Puts a tree of arrays on every device. All processes must pass the same values."""
        if self.hosts.count > 1:  # device_put would compare the processes' values
            return multihost_utils.host_local_array_to_global_array(
                tree, self._mesh, PartitionSpec()
            )
        return jax.device_put(tree, self.all[0] if self.count == 1 else self._shared)

    def split(self, index: np.ndarray):
        """Rows [..., Q, G] -> [devices, ..., Q / devices, G], in contiguous shares; unchanged on
        one device."""
        if self.count == 1:
            return index
        shares = np.moveaxis(
            index.reshape(*index.shape[:-2], self.count, -1, index.shape[-1]), -3, 0
        )
        if self.hosts.count == 1:
            return np.ascontiguousarray(shares)
        on_each = NamedSharding(self._mesh, PartitionSpec(AXIS))
        return jax.make_array_from_callback(shares.shape, on_each, shares.__getitem__)

    def join(self, rows) -> np.ndarray:
        """The inverse of `split`, for results: [devices, S, B / devices, ...] -> [S, B, ...]."""
        rows = np.asarray(rows)
        return (
            rows
            if self.count == 1
            else np.moveaxis(rows, 0, 1).reshape(rows.shape[1], -1, *rows.shape[3:])
        )

    def map(self, body, *, reduced: bool, donate: bool = False, **formats):
        """jit or pmap of `body`. With several processes the result must be lowered and compiled: a
        direct call would return only the part of this process.

        reduced: whether the results are equal on all devices (psum in the body); they are then
        returned once. donate: whether the first argument is donated. formats: in_shardings and
        out_shardings of jit. With them several devices run jit of shard_map, because pmap takes no
        formats.
        """
        donated = (0,) if donate else ()
        if self.count == 1:
            return jax.jit(body, donate_argnums=donated, **formats)
        if (
            not reduced and self.hosts.count > 1
        ):  # a process cannot read the devices of other processes
            return self.map(
                lambda *given: jax.lax.all_gather(body(*given), AXIS),
                reduced=True,
                donate=donate,
                **formats,
            )
        if formats:
            return jax.jit(self._over_shares(body, reduced), donate_argnums=donated, **formats)
        return jax.pmap(
            body,
            axis_name=AXIS,
            in_axes=(None, None, None, 0),
            out_axes=None if reduced else 0,
            devices=self.all,
            donate_argnums=donated,
        )

    def _over_shares(self, body, reduced):
        """What pmap maps: the body on every device, with its share of the index."""
        shared, shares = PartitionSpec(), PartitionSpec(AXIS)

        def on_share(state, frozen, data, index):
            found = body(state, frozen, data, index[0])
            return found if reduced else found[None]

        how = {
            "in_specs": (shared, shared, shared, shares),
            "out_specs": shared if reduced else shares,
        }
        return jax.shard_map(on_share, mesh=self._mesh, check_vma=False, **how)

    def check_replicas(self, tree) -> None:
        """Raises if devices hold different values: pmap with out_axes=None returns one of them
        without a check."""
        if self.count == 1:
            return
        shards = [leaf.addressable_shards for leaf in jax.tree.leaves(tree)]
        digests = np.array(
            [_digest([shard.data for shard in copy]) for copy in zip(*shards, strict=True)]
        )
        if self.hosts.count > 1:
            digests = multihost_utils.process_allgather(digests)
        if len(np.unique(digests)) != 1:
            raise RuntimeError(
                "the devices' copies of the parameters differ; results would depend on the device"
            )


@jax.jit
def _digest(tree):
    """A checksum of all bits: equal trees give equal numbers."""
    total = jnp.zeros((), jnp.uint32)
    for i, leaf in enumerate(jax.tree.leaves(tree)):
        bits = jax.lax.bitcast_convert_type(
            leaf, {8: jnp.uint64, 4: jnp.uint32, 2: jnp.uint16}[leaf.dtype.itemsize]
        )
        total = (
            total * jnp.uint32(31)
            + jnp.sum(bits.astype(jnp.uint32), dtype=jnp.uint32)
            + jnp.uint32(i)
        )
    return total


# -- memory ------------------------------------------------------------------------------------------------------------


def room(device) -> int:
    """Bytes that a program may take on a device."""
    stats = device.memory_stats() or {}  # a CPU has none
    return int(DEVICE_SHARE * stats["bytes_limit"]) if "bytes_limit" in stats else HOST_MOST


def room_of_checkpoint(folder: Path) -> int:
    """Bytes that a checkpoint may take."""
    return shutil.disk_usage(folder).free // CHECKPOINTS


def fitting(program, batches, seeds: int, room: int, checkpoint: int) -> int:
    """The number of seeds, from 1 to `seeds`, that one program can train.

    The step of the largest layout is compiled for as many seeds as fit by their parameters alone.
    Where it takes too much memory, the number is reduced in proportion, because nearly all of the
    memory grows with it. room, checkpoint: bytes for training and for a checkpoint.
    """
    layout = max(
        batches.layouts, key=lambda layout: layout.units * layout.group * sum(layout.width)
    )
    learner = jax.eval_shape(lambda: program.draw(layout, (0,)))
    one, params = _bytes(learner), _bytes(learner.params)
    # best weights, their old values while they are replaced, and gradients
    held = one + 3 * params
    most = max(1, min(seeds, room // held, checkpoint // (one + params)))
    if most == 1:
        return 1
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((most, *leaf.shape[1:]), leaf.dtype), learner
    )
    index = np.full((most, layout.units * program.devices.count, layout.group), -1, np.int32)
    taken = program.train_bytes(layout, shapes, index) + 2 * most * params
    return most if taken <= room else max(1, most * room // taken)


def _bytes(tree):
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
