"""The options of XLA's compiler for programs on a CPU.

One of two libraries computes the float32 products of a program: YNNPACK, XLA's default since jax
0.10, or Eigen. XLA has an option for a whole program alone: one program cannot have YNNPACK's
products in its loops and Eigen's outside, where they are faster. The gradients of weights, which
contract the rows of their first operand, always go to Eigen.
"""

import functools

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from mednli_jax.models.esim import ESIM
from mednli_jax.models.infersent import InferSent

Options = dict[str, str | bool]

# The fusions for YNNPACK. Without any, Eigen computes all products.
YNNPACK = "xla_cpu_experimental_ynn_fusion_type"
# The programs that are faster with Eigen: models and modes (docs/benchmarks.md).
_WITH_EIGEN = {
    (InferSent, "train"),
    (InferSent, "predict"),
    (ESIM, "train"),
    (ESIM, "predict"),
}


def options_for(
    model: type[nn.Module] | None, mode: str, *, platform: str, product_dtype: DTypeLike | None
) -> Options:
    """The options for a program on one device.

    Args:
      model: None for a model that is not a network.
      mode: train or predict.
      product_dtype: see models.products.
    """
    is_faster = (model, mode) in _WITH_EIGEN and platform == "cpu" and product_dtype is None
    return {YNNPACK: ""} if is_faster and _is_known(YNNPACK) else {}


@functools.cache
def _is_known(option: str) -> bool:
    """Whether this version of jax has the option. It is experimental, and may go."""
    try:
        jax.jit(lambda x: x).lower(0.0).compile({option: ""})
    except jax.errors.JaxRuntimeError:
        return False
    return True
