"""Where a step runs: jit on one device, pmap over several. The loop sees the same calls either way."""

import ctypes
import functools
import os
import platform
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

AXIS = "batch"


# glibc's mallopt: parameter, value. One arena, no memory maps, nothing given back to the system.
_MALLOPT = ((-8, 1), (-4, 0), (-1, 2**31 - 1), (-2, 64 << 20))


@functools.cache
def keep_memory() -> bool:
    """Lets this process keep the memory it has freed; whether it does so now.

    The work space of a step on a CPU is taken and given back each step. glibc hands such large pieces back to the
    system, which then clears every page anew: a fifth of the time of an InferSent step at batch 512, a third of BOW's.
    What it costs: the process's memory stays at its peak. Settings of the user's (MALLOC_..., GLIBC_TUNABLES) stand,
    other systems are left alone. Has to come before the threads of the devices.
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
    """Maps per-device bodies over the local devices and places their arguments.

    A body takes (learner or variables, frozen, data, index); all but `index` are the same on every device, `index`
    is split along its unit axis.
    """

    def __init__(self, devices=None):
        keep_memory()
        self.all = list(jax.local_devices() if devices is None else devices)
        self.count = len(self.all)
        self.axis_name = AXIS if self.count > 1 else None
        self._replicated = None
        if self.count > 1:
            mesh = jax.sharding.Mesh(np.array(self.all), (AXIS,))
            self._replicated = NamedSharding(mesh, PartitionSpec())

    def replicate(self, tree):
        """Puts a tree of arrays on every device."""
        return jax.device_put(tree, self.all[0] if self.count == 1 else self._replicated)

    def split(self, index: np.ndarray) -> np.ndarray:
        """Rows [..., Q, G] -> [devices, ..., Q / devices, G], in contiguous shares; unchanged on one device."""
        if self.count == 1:
            return index
        shares = index.reshape(*index.shape[:-2], self.count, -1, index.shape[-1])
        return np.ascontiguousarray(np.moveaxis(shares, -3, 0))

    def join(self, rows: np.ndarray) -> np.ndarray:
        """The inverse for a result [devices, S, B / devices, ...] -> [S, B, ...]."""
        if self.count == 1:
            return rows
        return np.moveaxis(rows, 0, 1).reshape(rows.shape[1], -1, *rows.shape[3:])

    def map(self, body, *, reduced: bool, donate: bool = False):
        """jit or pmap of `body`. reduced: the results are equal on all devices (psum inside) and come back once."""
        donated = (0,) if donate else ()
        if self.count == 1:
            return jax.jit(body, donate_argnums=donated)
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
        copies = [jax.tree.map(lambda leaf, i=i: leaf.addressable_shards[i].data, tree) for i in range(self.count)]
        if len({int(_digest(copy)) for copy in copies}) != 1:
            raise RuntimeError(
                "the devices' copies of the parameters drifted apart; results would depend on the device"
            )


@jax.jit
def _digest(tree):
    """A checksum of all bits: equal trees give equal numbers."""
    total = jnp.zeros((), jnp.uint32)
    for i, leaf in enumerate(jax.tree.leaves(tree)):
        bits = jax.lax.bitcast_convert_type(leaf, {8: jnp.uint64, 4: jnp.uint32, 2: jnp.uint16}[leaf.dtype.itemsize])
        total = total * jnp.uint32(31) + jnp.sum(bits.astype(jnp.uint32), dtype=jnp.uint32) + jnp.uint32(i)
    return total
