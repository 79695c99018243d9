"""Where a step runs: jit on one device, pmap over several, of one process or of many. The loop sees the same calls.

With many processes each one keeps its arrays on its devices, and works there alone; only the body of a training step
spans the devices of all.
"""

import ctypes
import functools
import os
import platform
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from mednli_jax.training import hosts

AXIS = "batch"


# glibc's mallopt: parameter, value. One arena, no memory maps, nothing given back to the system.
_MALLOPT = ((-8, 1), (-4, 0), (-1, 2**31 - 1), (-2, 64 << 20))


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

    A body takes (learner or variables, frozen, data, index); all but `index` are the same on every device, `index`
    is split along its unit axis. `all` are the devices of all processes, in the processes' order, `local` this one's.
    With `devices` given, those alone and no other process.
    """

    def __init__(self, devices=None):
        keep_memory()
        self.hosts = hosts.here() if devices is None else hosts.Hosts()
        self.local = list(jax.local_devices() if devices is None else devices)
        self.all = self.local
        if self.hosts.count > 1:
            self.all = [d for index in range(self.hosts.count) for d in jax.local_devices(process_index=index)]
        self.count = len(self.all)
        self.axis_name = AXIS if self.count > 1 else None
        self.replicated, self.kept = None, {}  # kept: see Joint
        if self.count > 1:
            self.replicated = NamedSharding(_mesh(self.local), PartitionSpec())

    def replicate(self, tree):
        """Puts a tree of arrays on every device of this process."""
        return jax.device_put(tree, self.all[0] if self.count == 1 else self.replicated)

    def split(self, index: np.ndarray) -> np.ndarray:
        """Rows [..., Q, G] -> [local devices, ..., Q / devices, G], in contiguous shares; unchanged on one device.

        With many processes the shares of this one's devices.
        """
        if self.count == 1:
            return index
        shares = index.reshape(*index.shape[:-2], self.count, -1, index.shape[-1])
        first = self.hosts.index * len(self.local)
        return np.ascontiguousarray(np.moveaxis(shares, -3, 0)[first : first + len(self.local)])

    def join(self, rows: np.ndarray) -> np.ndarray:
        """The inverse for a result [local devices, S, B / devices, ...] -> [S, B, ...], with this process's rows."""
        if self.count == 1:
            return rows
        return np.moveaxis(rows, 0, 1).reshape(rows.shape[1], -1, *rows.shape[3:])

    def map(self, body, *, reduced: bool, donate: bool = False):
        """jit or pmap of `body`. reduced: the results are equal on all devices (psum inside) and come back once.

        A body that is not reduced sends nothing to other devices: each process maps it over its devices.
        """
        donated = (0,) if donate else ()
        if self.count == 1:
            return jax.jit(body, donate_argnums=donated)
        mapped = jax.pmap(
            body,
            axis_name=AXIS,
            in_axes=(None, None, None, 0),
            out_axes=None if reduced else 0,
            devices=self.all if reduced else self.local,
            donate_argnums=donated,
        )
        return Joint(self, mapped) if reduced and self.hosts.count > 1 else mapped

    def check_replicas(self, tree) -> None:
        """Raises if devices hold different values: pmap with out_axes=None would hand back one of them in silence."""
        if self.count == 1:
            return
        copies = [jax.tree.map(lambda leaf, i=i: leaf.addressable_shards[i].data, tree) for i in range(len(self.local))]
        digests = " ".join(sorted({str(int(_digest(copy))) for copy in copies}))
        if len(set(" ".join(self.hosts.exchange(digests)).split())) != 1:
            raise RuntimeError("the devices' copies of the parameters differ; results would depend on the device")


class Joint:
    """A body mapped over the devices of all processes, compiled or not; arguments and results are this process's.

    During a call the buffers become parts of global arrays without a copy: pmap's conversion would copy donated arrays.
    The conversion of the last call is kept for each argument, as (leaves of this process, tree of global arrays).
    """

    def __init__(self, devices: Devices, mapped):
        self._devices, self._mapped = devices, mapped
        mesh = _mesh(devices.all)
        self._everywhere, self._split = (NamedSharding(mesh, PartitionSpec(*axis)) for axis in ((), (AXIS,)))

    def lower(self, *arguments):
        return Joint(self._devices, self._mapped.lower(*arguments))

    def compile(self):
        compiled = Joint(self._devices, self._mapped.compile())
        self._devices.hosts.meet()  # some find it in their cache; a collective may have no patience with the others
        return compiled

    def __call__(self, state, frozen, data, index):
        index = jax.make_array_from_process_local_data(self._split, index)
        given = (self._wide(slot, tree) for slot, tree in enumerate((state, frozen, data)))
        results = self._mapped(*given, index)
        narrow = _seen_as(self._devices.replicated, results)
        self._devices.kept[0] = (jax.tree.leaves(narrow[0]), results[0])  # what the next step begins with
        return narrow

    def _wide(self, slot, tree):
        leaves = jax.tree.leaves(tree)
        known, wide = self._devices.kept.get(slot, ((), None))
        if len(known) != len(leaves) or any(a is not b for a, b in zip(known, leaves, strict=True)):
            wide = _seen_as(self._everywhere, tree)
            self._devices.kept[slot] = (leaves, wide)
        return wide

    def __getattr__(self, name):  # of the compiled body: its memory, its text
        return getattr(self._mapped, name)


def _seen_as(sharding, tree):
    """The same buffers as replicated arrays over other devices, of which those of this process are the same."""

    def one(leaf):
        return jax.make_array_from_single_device_arrays(leaf.shape, sharding, [s.data for s in leaf.addressable_shards])

    return jax.tree.map(one, tree)


def _mesh(devices):
    return jax.sharding.Mesh(np.array(devices), (AXIS,))


@jax.jit
def _digest(tree):
    """A checksum of all bits: equal trees give equal numbers."""
    total = jnp.zeros((), jnp.uint32)
    for i, leaf in enumerate(jax.tree.leaves(tree)):
        bits = jax.lax.bitcast_convert_type(leaf, {8: jnp.uint64, 4: jnp.uint32, 2: jnp.uint16}[leaf.dtype.itemsize])
        total = total * jnp.uint32(31) + jnp.sum(bits.astype(jnp.uint32), dtype=jnp.uint32) + jnp.uint32(i)
    return total
