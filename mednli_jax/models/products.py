"""Matrix products of the models, in full precision or with operands of 16 bits (training.program).

With 16-bit operands the sums have 32 bits, and so have the results and the gradients, whose
products are cast likewise. XLA's own setting for 16-bit operands has no effect on a CPU.
"""

import re
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

# value of jax's setting for products, under which operands are cast
HALF = "bfloat16"
# d @ u.T and x.T @ d, for gradients.
BY_COLUMNS = partial(lax.dot_general, dimension_numbers=(((1,), (1,)), ((), ())))
BY_ROWS = partial(lax.dot_general, dimension_numbers=(((0,), (0,)), ((), ())))


def halved() -> bool:
    """Whether the program that is being traced casts the operands of products."""
    return jax.config.jax_default_matmul_precision == HALF


def dot(of, a, b):
    """The product of(a, b), for code that has a gradient of its own. of: jnp.matmul, jnp.einsum or
    lax.dot_general."""
    if not halved():
        return of(a, b)
    return of(
        a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.result_type(a, b)
    )


def matmul(a, b):
    """a @ b for b [K], [K, N] or [..., K, N] with the leading axes of a; differentiable."""
    if not halved():
        return a @ b
    rows = "abcdefgh"[: a.ndim - 1]
    inner = rows[:-1] if b.ndim > 2 else ""
    return einsum(
        f"{rows}k,{inner}k->{rows}" if b.ndim == 1 else f"{rows}k,{inner}kn->{rows}n", a, b
    )


def einsum(spec: str, a, b):
    """jnp.einsum of two arrays, whose axes all occur twice in the spec; differentiable."""
    return _narrow(spec, a, b) if halved() else jnp.einsum(spec, a, b)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _narrow(spec, a, b):
    return dot(partial(jnp.einsum, spec), a, b)


def _narrow_backward(spec, saved, d):
    (a, b), (of_a, of_b, out) = saved, re.split(",|->", spec)
    d_a = dot(partial(jnp.einsum, f"{out},{of_b}->{of_a}"), d, b)
    d_b = dot(partial(jnp.einsum, f"{out},{of_a}->{of_b}"), d, a)
    return d_a.astype(a.dtype), d_b.astype(b.dtype)


_narrow.defvjp(lambda spec, a, b: (_narrow(spec, a, b), (a, b)), _narrow_backward)
