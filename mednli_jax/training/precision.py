"""The precision of matrix products: `config.train.precision`.

`bfloat16` casts the operands of every product, forward and backward, and sums in 32 bits. Parameters, the optimiser,
norms, softmax and losses stay in 32 bits. The casts are inserted into the traced program, so that models need no code
for them and they work on every device: XLA's own setting has no effect on a CPU.
"""

import contextlib
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

CAST = "bfloat16"
# The value for jax.default_matmul_precision; None keeps the device's default: TF32 on a GPU, 16-bit
# operands on a TPU, full float32 on a CPU.
PRECISIONS = {"default": None, "float32": "float32", "tf32": "tensorfloat32", CAST: None}
# Flags of /proc/cpuinfo: with one of these instruction sets a processor multiplies 16-bit numbers faster than 32-bit.
INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}
# Primitives with rules for derivatives, which a program traced after differentiation does not need: they are replaced
# by their bodies.
INLINED = ("custom_vjp_call", "custom_jvp_call", "custom_vjp_call_jaxpr")


def context(precision: str):
    """The context in which a body is traced and compiled."""
    matmul_precision = PRECISIONS[precision]
    return jax.default_matmul_precision(matmul_precision) if matmul_precision else contextlib.nullcontext()


def of(precision: str, body):
    """The body with products of this precision."""
    return casting(body) if precision == CAST else body


def remark(precision: str, platform: str) -> str:
    """A remark for the user about the setting on this platform, or ""."""
    if platform != "cpu":
        return ""
    if precision == "tf32":
        return "config.train.precision=tf32: a CPU has no tf32 products; float32 is used"
    if precision == CAST and not INSTRUCTIONS & _flags():
        return "config.train.precision=bfloat16: this processor has no 16-bit products; expect no higher speed"
    return ""


def _flags():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


def casting(body):
    """`body` with the operands of each product of 32-bit arrays cast to bfloat16 and its result in 32 bits.

    Products with an explicit precision are not changed. Apply it only to functions that are not differentiated
    afterwards.
    """

    def call(*given):
        closed, shapes = jax.make_jaxpr(body, return_shape=True)(*given)
        found = _run(closed.jaxpr, closed.consts, jax.tree.leaves(given))
        return jax.tree.unflatten(jax.tree.structure(shapes), found)

    return call


def _run(jaxpr: Jaxpr, consts, given):
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *given), strict=True))
    for equation in jaxpr.eqns:
        values = [x.val if hasattr(x, "val") else known[x] for x in equation.invars]
        name, primitive, parameters = equation.primitive.name, equation.primitive, equation.params
        if name == "dot_general":
            result = _product(primitive, values, parameters, equation.outvars[0].aval.dtype)
        elif name in INLINED:
            inner = parameters.get("call_jaxpr") or parameters["fun_jaxpr"]
            result = _run(inner.jaxpr, inner.consts, values)
        else:
            parameters = primitive.get_bind_params(parameters)
            result = primitive.bind(*values, **{key: _cast(value) for key, value in parameters.items()})
        known.update(zip(equation.outvars, result if primitive.multiple_results else [result], strict=True))
    return [x.val if hasattr(x, "val") else known[x] for x in jaxpr.outvars]


def _product(primitive, values, parameters, result):
    if parameters["precision"] is not None or any(x.dtype not in (jnp.float32, jnp.bfloat16) for x in values):
        return primitive.bind(*values, **parameters)
    parameters = {**parameters, "preferred_element_type": result}
    return primitive.bind(*(x.astype(jnp.bfloat16) for x in values), **parameters)


def _cast(value):
    """A parameter of a primitive; where it is a program or a tuple of programs, with the casts in it."""
    if type(value) is tuple:  # not a named tuple
        return tuple(_cast(each) for each in value)
    if isinstance(value, ClosedJaxpr):
        return _cast_program(value)
    if isinstance(value, Jaxpr):
        return _cast_program(ClosedJaxpr(value, ())).jaxpr
    return value


def _cast_program(closed):
    return jax.make_jaxpr(lambda *given: _run(closed.jaxpr, closed.consts, given))(*closed.in_avals)
