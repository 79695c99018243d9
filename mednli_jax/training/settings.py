"""Settings of jax that change a run's numbers, settings under which the models do not run, and
options of XLA's compiler for programs on a CPU.

The environment variable of a setting is its name in capitals: $JAX_ENABLE_X64 sets jax_enable_x64.

One of two libraries computes the float32 products of a program on a CPU: YNNPACK, XLA's default
since jax 0.10, or Eigen. XLA has an option for a whole program alone: one program cannot have
YNNPACK's products in its loops and Eigen's outside, where they are faster. The gradients of
weights, which contract the rows of their first operand, always go to Eigen.
"""

import contextlib
import functools
from collections.abc import Mapping
from pathlib import Path

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from mednli_jax.errors import RunError
from mednli_jax.models.bow import BOW
from mednli_jax.models.esim import ESIM
from mednli_jax.models.infersent import InferSent

CompilerOptions = dict[str, str | bool]

# Settings that change draws or products. A resumed run must have those with which it began.
NUMERIC = (
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_random_seed_offset",
    "jax_default_matmul_precision",
)
# Settings for debugging, with the values under which the models run.
RUNNING = {
    "jax_disable_jit": (False,),  # steps are compiled ahead, and the backward passes need it
    "jax_numpy_rank_promotion": ("allow", "warn"),
    "jax_numpy_dtype_promotion": ("standard",),
}
# The fusions for YNNPACK. Without any, Eigen computes all products.
YNNPACK = "xla_cpu_experimental_ynn_fusion_type"
AMD, INTEL = "AuthenticAMD", "GenuineIntel"
# The programs that are faster with Eigen: vendor of the processor, model and mode -> least examples
# of a batch. Measured on two cores of one processor of each vendor (docs/log.md).
_WITH_EIGEN: dict[tuple[str, type[nn.Module] | None, str], int] = {
    (AMD, InferSent, "train"): 1,
    (AMD, InferSent, "predict"): 1,
    (AMD, ESIM, "train"): 1,
    (AMD, ESIM, "predict"): 1,
    (INTEL, BOW, "predict"): 512,
    (INTEL, ESIM, "train"): 512,
    (INTEL, ESIM, "predict"): 512,
}


def numeric_settings() -> dict[str, bool | int | str | None]:
    """The values of the settings NUMERIC in this process. Settings that this version of jax lacks
    are left out."""
    return {name: getattr(jax.config, name) for name in NUMERIC if hasattr(jax.config, name)}


def check_jax() -> None:
    """Starts jax. Raises RunError if jax has no device, or has a setting under which the models do
    not run."""
    for name, values in RUNNING.items():
        value = getattr(jax.config, name, values[0])  # a version of jax may lack a setting
        if value not in values:
            problem = f"jax is set to {name}={value}, under which the models do not run"
            raise RunError(problem, fix=f"unset {name.upper()}")
    # A program on a CPU then runs in the thread that calls it, whose memory is kept between steps
    # (devices.keep_memory). glibc keeps no more than 64 MB of another thread.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:
        reason, _, _ = str(error).partition(" (set JAX_PLATFORMS")
        problem = f"jax cannot start ({reason or 'it finds no device of this platform'})"
        fix = (
            "set JAX_PLATFORMS=cpu and unset JAX_PLATFORM_NAME, or pip install "
            "'mednli_jax[cuda12]' or 'mednli_jax[tpu]' on a machine with the device"
        )
        raise RunError(problem, fix=fix) from None


def options_for(
    model: type[nn.Module] | None,
    mode: str,
    examples: int,
    *,
    platform: str,
    product_dtype: DTypeLike | None,
    vendor: str | None = None,
) -> CompilerOptions:
    """The compiler options for a program on one device.

    Args:
      model: None for a model that is not a network.
      mode: train or predict.
      examples: of a batch.
      product_dtype: see models.products.
      vendor: of the processor, as Linux names it; None takes that of this machine.
    """
    if platform != "cpu" or product_dtype is not None:
        return {}
    if vendor is None:
        vendor = _vendor_of_processor()
    least = _WITH_EIGEN.get((vendor, model, mode))
    is_faster = least is not None and examples >= least
    return {YNNPACK: ""} if is_faster and _is_known(YNNPACK) else {}


def recorded_options(settings: Mapping[str, object]) -> CompilerOptions | None:
    """The compiler options that a run recorded; None if it recorded none, or this version of jax
    does not know them."""
    if YNNPACK not in settings:
        return None
    fusions = settings[YNNPACK]
    if fusions is None:
        return {}
    return {YNNPACK: str(fusions)} if _is_known(YNNPACK) else None


@functools.cache
def _vendor_of_processor() -> str:
    """The vendor of the processor, as Linux names it; "" if it is not known."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, vendor = line.partition(":")
            if name.strip() == "vendor_id":
                return vendor.strip()
    return ""


@functools.cache
def _is_known(option: str) -> bool:
    """Whether this version of jax has the option, which is experimental and may go."""
    try:
        jax.jit(lambda x: x).lower(0.0).compile({option: ""})
    except jax.errors.JaxRuntimeError:
        return False
    return True
