"""The options of XLA's compiler for programs on a CPU.

One of two libraries computes the float32 products of a program: YNNPACK, XLA's default since jax
0.10, or Eigen. XLA has an option for a whole program alone: one program cannot have YNNPACK's
products in its loops and Eigen's outside, where they are faster. The gradients of weights, which
contract the rows of their first operand, always go to Eigen.
"""

import contextlib
import functools
from collections.abc import Mapping
from pathlib import Path

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from mednli_jax.models.bow import BOW
from mednli_jax.models.esim import ESIM
from mednli_jax.models.infersent import InferSent

Options = dict[str, str | bool]

# The fusions for YNNPACK. Without any, Eigen computes all products.
YNNPACK = "xla_cpu_experimental_ynn_fusion_type"
AMD, INTEL = "AuthenticAMD", "GenuineIntel"
# The programs that are faster with Eigen: vendor of the processor, model and mode -> least examples
# of a batch. Measured on two cores of one processor of each vendor (docs/benchmarks.md).
_WITH_EIGEN: dict[tuple[str, type[nn.Module] | None, str], int] = {
    (AMD, InferSent, "train"): 1,
    (AMD, InferSent, "predict"): 1,
    (AMD, ESIM, "train"): 1,
    (AMD, ESIM, "predict"): 1,
    (INTEL, BOW, "predict"): 512,
    (INTEL, ESIM, "train"): 512,
    (INTEL, ESIM, "predict"): 512,
}


def options_for(
    model: type[nn.Module] | None,
    mode: str,
    examples: int,
    *,
    platform: str,
    product_dtype: DTypeLike | None,
    vendor: str | None = None,
) -> Options:
    """The options for a program on one device.

    Args:
      model: None for a model that is not a network.
      mode: train or predict.
      examples: of a batch.
      product_dtype: see models.products.
      vendor: of the processor, as Linux names it; None for that of this machine.
    """
    if platform != "cpu" or product_dtype is not None:
        return {}
    if vendor is None:
        vendor = _vendor_of_processor()
    least = _WITH_EIGEN.get((vendor, model, mode))
    is_faster = least is not None and examples >= least
    return {YNNPACK: ""} if is_faster and _is_known(YNNPACK) else {}


def recorded_options(settings: Mapping[str, object]) -> Options | None:
    """The options that a run recorded. None where it recorded none, or this version of jax does not
    know them."""
    if YNNPACK not in settings:
        return None
    fusions = settings[YNNPACK]
    if fusions is None:
        return {}
    return {YNNPACK: str(fusions)} if _is_known(YNNPACK) else None


@functools.cache
def _vendor_of_processor() -> str:
    """The vendor of the processor, as Linux names it; "" where there is no such name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, vendor = line.partition(":")
            if name.strip() == "vendor_id":
                return vendor.strip()
    return ""


@functools.cache
def _is_known(option: str) -> bool:
    """Whether this version of jax has the option. It is experimental, and may go."""
    try:
        jax.jit(lambda x: x).lower(0.0).compile({option: ""})
    except jax.errors.JaxRuntimeError:
        return False
    return True
