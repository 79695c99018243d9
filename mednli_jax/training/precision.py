"""The precision of matrix products: `config.train.precision`.

`bfloat16` casts the operands of every product of a model, forward and backward, and sums in 32 bits (models.products).
Parameters, the optimiser, norms, softmax and losses stay in 32 bits.
"""

import contextlib
from pathlib import Path

import jax

from mednli_jax.models.products import HALF

# The value for jax.default_matmul_precision; None keeps the device's default: TF32 on a GPU, 16-bit
# operands on a TPU, full float32 on a CPU.
PRECISIONS = {"default": None, "float32": "float32", "tf32": "tensorfloat32", "bfloat16": HALF}
# Flags of /proc/cpuinfo: with one of these instruction sets a processor multiplies 16-bit numbers faster than 32-bit.
INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}


def context(precision: str):
    """The context in which a body is traced and compiled."""
    matmul_precision = PRECISIONS[precision]
    return jax.default_matmul_precision(matmul_precision) if matmul_precision else contextlib.nullcontext()


def remark(precision: str, platform: str) -> str:
    """A remark for the user about the setting on this platform, or ""."""
    if platform != "cpu":
        return ""
    if precision == "tf32":
        return "config.train.precision=tf32: a CPU has no tf32 products; float32 is used"
    if precision == "bfloat16" and not INSTRUCTIONS & _flags():
        return "config.train.precision=bfloat16: this processor has no 16-bit products; expect no higher speed"
    return ""


def _flags():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return set(next((line for line in lines if line.startswith("flags")), "").split())
