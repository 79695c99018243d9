"""Matrix products whose operands may be cast to a narrower type (config.train.precision).

Each function takes `dtype`, the type of both operands: jnp.bfloat16, or None for the type that they
have. Models have it as their field `product_dtype`. Sums, results and gradients keep the wide type,
and the products of the gradients cast their operands likewise. XLA's own setting for operands of 16
bits has no effect on a CPU.
"""

import re
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

# d @ u.T and x.T @ d, for gradients.
BY_COLUMNS = partial(lax.dot_general, dimension_numbers=(((1,), (1,)), ((), ())))
BY_ROWS = partial(lax.dot_general, dimension_numbers=(((0,), (0,)), ((), ())))


def dot(
    product: Callable[..., jax.Array], a: jax.Array, b: jax.Array, dtype: DTypeLike | None
) -> jax.Array:
    """Computes product(a, b) on cast operands, for code that defines its gradient itself.

    product: jnp.matmul, BY_COLUMNS, BY_ROWS or a partial jnp.einsum.
    """
    if dtype is None:
        return product(a, b)
    wide = jnp.result_type(a, b)
    return product(a.astype(dtype), b.astype(dtype), preferred_element_type=wide)


def matmul(a: jax.Array, b: jax.Array, dtype: DTypeLike | None) -> jax.Array:
    """Computes a @ b for a [..., K] and b [K, N], or b [..., K, N] with the leading axes of a;
    differentiable."""
    if dtype is None:
        return a @ b
    rows = "abcdefgh"[: a.ndim - 1]
    batch = rows[:-1] if b.ndim > 2 else ""
    return _cast_einsum(f"{rows}k,{batch}kn->{rows}n", a, b, dtype)


def einsum(spec: str, a: jax.Array, b: jax.Array, dtype: DTypeLike | None) -> jax.Array:
    """Computes jnp.einsum of two arrays, whose axes all occur twice in the spec; differentiable."""
    if dtype is None:
        return jnp.einsum(spec, a, b)
    return _cast_einsum(spec, a, b, dtype)


@partial(jax.custom_vjp, nondiff_argnums=(0, 3))
def _cast_einsum(spec: str, a: jax.Array, b: jax.Array, dtype: DTypeLike) -> jax.Array:
    return dot(partial(jnp.einsum, spec), a, b, dtype)


def _cast_einsum_forward(
    spec: str, a: jax.Array, b: jax.Array, dtype: DTypeLike
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _cast_einsum(spec, a, b, dtype), (a, b)


def _cast_einsum_backward(
    spec: str, dtype: DTypeLike, saved: tuple[jax.Array, jax.Array], d_out: jax.Array
) -> tuple[jax.Array, jax.Array]:
    a, b = saved
    axes_a, axes_b, axes_out = re.split(",|->", spec)
    d_a = dot(partial(jnp.einsum, f"{axes_out},{axes_b}->{axes_a}"), d_out, b, dtype)
    d_b = dot(partial(jnp.einsum, f"{axes_out},{axes_a}->{axes_b}"), d_out, a, dtype)
    return d_a.astype(a.dtype), d_b.astype(b.dtype)


_cast_einsum.defvjp(_cast_einsum_forward, _cast_einsum_backward)
