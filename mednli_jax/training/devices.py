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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, PartitionSpec

from mednli_jax.training import hosts
from mednli_jax.types import PyTree

Body = Callable[..., PyTree]

AXIS = "batch"
# share of jax's memory on a device; the rest is for prediction and fragmentation
DEVICE_SHARE = 0.9
# bytes; more seeds in one program are no faster on a CPU (docs/results.md)
HOST_MOST = 1 << 30
# two kept checkpoints and one that is being written may take half of the disk
CHECKPOINTS = 6

# Parameter and value of glibc's mallopt: no memory maps, and no memory is returned to the system.
# Steps run in the calling thread (settings.check_jax), so that the threads of the compiler do not
# share its arena: programs that compile at the same time would fragment it, and ESIM's steps took
# half as long again.
_MALLOPT = ((-4, 0), (-1, -1), (-2, 64 << 20))


@functools.cache
def keep_memory() -> bool:
    """Makes glibc keep the memory that this process frees; returns whether it does.

    A step on a CPU allocates and frees its work space. glibc returns such large blocks to the
    system, which clears every page again. At batch 512 this took a fifth of the time of an
    InferSent step and a third of a BOW step. The cost is that the memory of the process stays at
    its peak. Settings of the user (MALLOC_..., GLIBC_TUNABLES) take precedence.
    """
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if chosen or not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    accepted = [libc.mallopt(parameter, value) == 1 for parameter, value in _MALLOPT]
    return all(accepted)


class Formats(NamedTuple):
    """Memory formats of a body's arguments and results, as jit's in_shardings and out_shardings."""

    arguments: PyTree
    results: PyTree


class Devices:
    """Maps functions of one device (bodies) over the devices and places their arguments.

    A body takes (learner or variables, frozen, data, index). `index` is split along its group axis;
    the other arguments are the same on every device.

    devices: of this process. None takes all devices of all processes, in the order of the
    processes.
    """

    def __init__(self, devices: Sequence[jax.Device] | None = None) -> None:
        keep_memory()
        self.all: list[jax.Device] = []
        if devices is None:
            self.hosts = hosts.here()
            for index in range(self.hosts.count):
                self.all += jax.local_devices(process_index=index)
        else:
            self.hosts = hosts.Hosts()
            self.all += devices
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

    def replicate(self, tree: PyTree) -> PyTree:
        """Puts a tree of arrays on every device. All processes must pass the same values."""
        if self.hosts.count > 1:  # device_put would compare the processes' values
            to_global = multihost_utils.host_local_array_to_global_array
            return to_global(tree, self._mesh, PartitionSpec())
        return jax.device_put(tree, self.all[0] if self.count == 1 else self._shared)

    def split(self, index: np.ndarray) -> np.ndarray | jax.Array:
        """Splits rows [..., Q, G] into contiguous shares [devices, ..., Q / devices, G]; unchanged
        on one device."""
        if self.count == 1:
            return index
        *leading, _, group = index.shape
        shares = np.moveaxis(index.reshape(*leading, self.count, -1, group), -3, 0)
        if self.hosts.count == 1:
            return np.ascontiguousarray(shares)
        on_each = NamedSharding(self._mesh, PartitionSpec(AXIS))
        return jax.make_array_from_callback(shares.shape, on_each, shares.__getitem__)

    def join(self, results: jax.Array) -> np.ndarray:
        """Joins the results of shares, the inverse of `split`: [devices, S, B / devices, ...] ->
        [S, B, ...]."""
        rows = np.asarray(results)
        if self.count == 1:
            return rows
        return np.moveaxis(rows, 0, 1).reshape(rows.shape[1], -1, *rows.shape[3:])

    def map(
        self,
        body: Body,
        *,
        reduced: bool,
        donate: bool = False,
        formats: Formats | None = None,
    ) -> jax.stages.Wrapped:
        """Applies jit or pmap to `body`. With several processes the result must be lowered and
        compiled: a direct call would return only the part of this process.

        Args:
          reduced: whether the results are equal on all devices (psum in the body); they are then
            returned once.
          donate: whether the first argument is donated.
          formats: with them several devices run jit of shard_map, because pmap takes no formats.
        """
        donated = (0,) if donate else ()
        if self.count > 1 and self.hosts.count > 1 and not reduced:
            # A process cannot read the devices of other processes: each device gets all results.
            def gather(*arguments: PyTree) -> PyTree:
                return jax.lax.all_gather(body(*arguments), AXIS)

            return self.map(gather, reduced=True, donate=donate, formats=formats)
        if formats is not None:
            whole = body if self.count == 1 else self._over_shares(body, reduced)
            return jax.jit(
                whole,
                donate_argnums=donated,
                in_shardings=formats.arguments,
                out_shardings=formats.results,
            )
        if self.count == 1:
            return jax.jit(body, donate_argnums=donated)
        mapped: jax.stages.Wrapped = jax.pmap(
            body,
            axis_name=AXIS,
            in_axes=(None, None, None, 0),
            out_axes=None if reduced else 0,
            devices=self.all,
            donate_argnums=donated,
        )
        return mapped

    def _over_shares(self, body: Body, reduced: bool) -> Body:
        """Maps the body over the devices by shard_map, each with its share of the index."""
        shared, shares = PartitionSpec(), PartitionSpec(AXIS)

        def on_share(state: PyTree, frozen: PyTree, data: PyTree, index: jax.Array) -> PyTree:
            results = body(state, frozen, data, index[0])
            return results if reduced else results[None]

        over_shares: Body = jax.shard_map(
            on_share,
            mesh=self._mesh,
            in_specs=(shared, shared, shared, shares),
            out_specs=shared if reduced else shares,
            check_vma=False,
        )
        return over_shares


# -- memory --------------------------------------------------------------------------------------


def room(device: jax.Device) -> int:
    """The bytes that a program may take on a device."""
    statistics = device.memory_stats() or {}  # a CPU has none
    if "bytes_limit" in statistics:
        return int(DEVICE_SHARE * statistics["bytes_limit"])
    return HOST_MOST


def room_of_checkpoint(folder: Path) -> int:
    """The bytes that a checkpoint may take."""
    return shutil.disk_usage(folder).free // CHECKPOINTS
