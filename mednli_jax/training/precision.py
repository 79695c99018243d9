"""How exact matrix products are: `config.train.precision`.

`bfloat16` casts the operands of every product of a body, forward and backward, and adds up in 32 bits. Parameters, the
optimiser, norms, softmax and losses stay in 32 bits. The cast is made in the traced program, so that no model has to
know of it, and on every device: XLA's own setting for it does nothing on a CPU.
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
# Processors multiply 16-bit numbers faster than 32-bit ones by these instructions; they are flags of /proc/cpuinfo.
INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}
# Primitives with rules for derivatives or rematerialisation, which a traced program no longer needs: only their bodies
# are kept.
INLINED = ("custom_vjp_call", "custom_jvp_call", "custom_vjp_call_jaxpr")


def context(precision: str):
    """The context in which a body is traced and compiled."""
    asked = PRECISIONS[precision]
    return jax.default_matmul_precision(asked) if asked else contextlib.nullcontext()


def of(precision: str, body):
    """The body with products of this precision."""
    return casting(body) if precision == CAST else body


def remark(precision: str, platform: str) -> str:
    """What a user must know of the setting on this platform, or ""."""
    if platform != "cpu":
        return ""
    if precision == "tf32":
        return "config.train.precision=tf32: a CPU has no such products; they are made in float32"
    if precision == CAST and not INSTRUCTIONS & _flags():
        return "config.train.precision=bfloat16: this processor has no products of 16-bit numbers; expect no gain"
    return ""


def _flags():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


def casting(body):
    """`body` with each product of 32-bit arrays made of operands cast to bfloat16, its result in 32 bits.

    Products that name a precision of their own stay as they are. Apply it only to functions that are
    not differentiated afterwards.
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
    """A primitive's parameter, where it is a program or several, with its products cast."""
    if type(value) is tuple:  # no named one
        return tuple(_cast(each) for each in value)
    if isinstance(value, ClosedJaxpr):
        return _cast_program(value)
    if isinstance(value, Jaxpr):
        return _cast_program(ClosedJaxpr(value, ())).jaxpr
    return value


def _cast_program(closed):
    return jax.make_jaxpr(lambda *given: _run(closed.jaxpr, closed.consts, given))(*closed.in_avals)
