"""Where a step runs: jit on one device, pmap over several, of one process or of many. The loop sees the same calls.

With many processes the arrays are global: all processes hold them, and run the same programs in the same order.
"""

import ctypes
import functools
import os
import platform
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from mednli_jax.training import hosts

AXIS = "batch"


# glibc's mallopt: parameter, value. No memory maps, nothing given back to the system. Not one arena for all threads:
# programs compiled at the same time would fragment it, and ESIM's steps then took half as long again.
_MALLOPT = ((-4, 0), (-1, -1), (-2, 64 << 20))


@functools.cache
def keep_memory() -> bool:
    """Makes glibc keep the memory that this process frees; returns whether it does. Call before threads start.

    A step on a CPU allocates and frees its work space. glibc returns such large blocks to the system, which clears
    every page again: a fifth of the time of an InferSent step at batch 512, a third of BOW's. The cost is that the
    process's memory stays at its peak. Settings of the user (MALLOC_..., GLIBC_TUNABLES) have precedence.
    """
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if chosen or not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return False
    try:
        libc = ctypes.CDLL(None)
        return all([libc.mallopt(parameter, value) == 1 for parameter, value in _MALLOPT])
    except (OSError, AttributeError):
        return False


class Devices:
    """Maps per-device bodies over the devices and places their arguments.

    A body takes (learner or variables, frozen, data, index); all but `index` are the same on every device; `index`
    is split along its unit axis. `all` are the devices of all processes, in the processes' order; all processes must
    run the same programs on them in the same order. With `devices` given, only those are used, and no other process.
    """

    def __init__(self, devices=None):
        keep_memory()
        self.hosts = hosts.here() if devices is None else hosts.Hosts()
        here = [d for index in range(self.hosts.count) for d in jax.local_devices(process_index=index)]
        self.all = here if devices is None else list(devices)
        self.count = len(self.all)
        self.axis_name = AXIS if self.count > 1 else None
        self.platform = self.all[0].platform  # cpu, gpu or tpu
        # Whether the compiler chooses the memory layout of arrays that stay on the device. A TPU's default for arrays
        # with a short leading axis, as that of one seed is, costs a copy of all weights at every step.
        self.chooses_formats = self.platform == "tpu" and self.count == 1
        self._mesh = jax.sharding.Mesh(np.array(self.all), (AXIS,))

    def replicate(self, tree):
        """Puts a tree of arrays on every device; all processes give the same values."""
        if self.hosts.count > 1:  # device_put would compare the processes' values
            return multihost_utils.host_local_array_to_global_array(tree, self._mesh, PartitionSpec())
        return jax.device_put(tree, self.all[0] if self.count == 1 else NamedSharding(self._mesh, PartitionSpec()))

    def split(self, index: np.ndarray):
        """Rows [..., Q, G] -> [devices, ..., Q / devices, G], in contiguous shares; unchanged on one device."""
        if self.count == 1:
            return index
        shares = np.moveaxis(index.reshape(*index.shape[:-2], self.count, -1, index.shape[-1]), -3, 0)
        if self.hosts.count == 1:
            return np.ascontiguousarray(shares)
        on_each = NamedSharding(self._mesh, PartitionSpec(AXIS))
        return jax.make_array_from_callback(shares.shape, on_each, shares.__getitem__)

    def join(self, rows) -> np.ndarray:
        """The inverse for a result on the devices: [devices, S, B / devices, ...] -> [S, B, ...]."""
        rows = np.asarray(rows)
        return rows if self.count == 1 else np.moveaxis(rows, 0, 1).reshape(rows.shape[1], -1, *rows.shape[3:])

    def map(self, body, *, reduced: bool, donate: bool = False, **formats):
        """jit or pmap of `body`. reduced: the results are equal on all devices (psum inside) and come back once.
        formats: of one device, in_shardings and out_shardings of jit.

        With many processes it has to be lowered and compiled: called as it is, it would give this process's part.
        """
        donated = (0,) if donate else ()
        if self.count == 1:
            return jax.jit(body, donate_argnums=donated, **formats)
        if not reduced and self.hosts.count > 1:  # a process reads nothing of the others' devices
            return self.map(lambda *given: jax.lax.all_gather(body(*given), AXIS), reduced=True, donate=donate)
        return jax.pmap(
            body,
            axis_name=AXIS,
            in_axes=(None, None, None, 0),
            out_axes=None if reduced else 0,
            devices=self.all,
            donate_argnums=donated,
        )

    def check_replicas(self, tree) -> None:
        """Raises if devices hold different values: pmap with out_axes=None would hand back one of them in silence."""
        if self.count == 1:
            return
        shards = [leaf.addressable_shards for leaf in jax.tree.leaves(tree)]
        digests = np.array([_digest([shard.data for shard in copy]) for copy in zip(*shards, strict=True)])
        if self.hosts.count > 1:
            digests = multihost_utils.process_allgather(digests)
        if len(np.unique(digests)) != 1:
            raise RuntimeError("the devices' copies of the parameters differ; results would depend on the device")


@jax.jit
def _digest(tree):
    """A checksum of all bits: equal trees give equal numbers."""
    total = jnp.zeros((), jnp.uint32)
    for i, leaf in enumerate(jax.tree.leaves(tree)):
        bits = jax.lax.bitcast_convert_type(leaf, {8: jnp.uint64, 4: jnp.uint32, 2: jnp.uint16}[leaf.dtype.itemsize])
        total = total * jnp.uint32(31) + jnp.sum(bits.astype(jnp.uint32), dtype=jnp.uint32) + jnp.uint32(i)
    return total
