"""Many multinomial logistic regressions over subsets of the same rows, trained together.

The objective is that of scikit-learn's LogisticRegression (C = 1): the sum of the cross-entropies
of a model's rows and half the squared norm of its weights, without the intercept. For a model whose
rows have two classes, scikit-learn has one vector of weights, the difference of the two here: their
penalty is twice as large. The models share the rows, so that one matrix product gives the logits of
all models; a mask selects the rows of each model.

Mean word vectors are badly conditioned for plain gradient methods. But random subsets of the same
rows have nearly the same second moment, and half of it bounds the curvature of all objectives
(Boehning 1992, Multinomial logistic regression algorithm, Ann. Inst. Statist. Math. 44, theorem
5.1). The features are multiplied by the inverse root of this bound, and BFGS without memory
minimises all objectives at the same time, each with its own steps. The models start at the optimum
of all rows with the weight m / N. This start depends on the held-out rows of a model, but the
result does not: each objective has one optimum, and each model trains until it has converged.

Dimension letters: N rows (R blocks of B), D features, K = D + 1 with the intercept, C classes, E =
C - 1 contrasts, n models.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import helmert

BLOCK = 2048  # rows per block; its logits fit into the processor's cache
MAX_PASSES = 300
# A model has converged when the next step would change the logits of its rows by about this root
# mean square. On mean vectors 3 held-out predictions in 100,000 then differ from those of the exact
# optimum; with scikit-learn's default tolerance 400 to 700 do.
TOLERANCE = 1e-4
ABSENT = -1e9  # logit of a class that has no row in a model's subset
# A step is accepted where the slope at its end is at most this share of the slope at its start,
# with the opposite sign. On a quadratic this is Armijo's rule with 1/10. It needs no sums of
# losses, for which 32 bits are not exact enough.
OVERSHOOT = 0.8


def fit_predict(
    features: np.ndarray,
    labels: np.ndarray,
    chosen: np.ndarray,
    *,
    capacity: int = 0,
    classes: int = 0,
    max_passes: int = MAX_PASSES,
) -> tuple[np.ndarray, dict[str, int]]:
    """Fits one model to each subset of rows. A model never predicts a class that its rows do not
    have.

    Args:
      features, labels: float [N, D], int [N] from 0 up.
      chosen: int [n, m], the rows of each model, each row once.
      capacity: rows for which the program is compiled. Calls with the same capacity, D, n and C
        share one.
      classes: C; 0 = as many as the labels have, at least two.
      max_passes: most passes over the rows.

    Returns (int8 [n, N], the class of every row, also of the training rows; counts of passes and
    unconverged models).
    """
    rows, dim = features.shape
    models, size = chosen.shape
    classes = max(classes, 2, int(labels.max()) + 1)
    blocks = -(-max(rows, capacity) // BLOCK)
    x = np.zeros((blocks * BLOCK, dim + 1), np.float32)
    x[:rows, :dim] = features
    x[:rows, dim] = 1
    label = np.zeros(blocks * BLOCK, np.int8)
    label[:rows] = labels
    mask = np.zeros((blocks * BLOCK, models), bool)
    mask[chosen.T, np.arange(models)] = True
    present = np.stack([(labels[chosen] == c).any(axis=1) for c in range(classes)])
    with jax.default_matmul_precision("highest"):  # otherwise accelerators multiply in 16 bits
        predicted, going, passes = _fit(
            x.reshape(blocks, BLOCK, dim + 1),
            label.reshape(blocks, BLOCK),
            mask.reshape(blocks, BLOCK, models),
            present,
            np.float32(rows),
            np.float32(size),
            max_passes,
        )
    predicted = np.asarray(predicted).reshape(-1, models)[:rows]
    counts = {"passes": int(passes), "unconverged": int(np.sum(going))}
    return np.ascontiguousarray(predicted.T), counts


@jax.jit
def _fit(
    x: jax.Array,
    label: jax.Array,
    mask: jax.Array,
    present: jax.Array,
    rows: jax.Array,
    size: jax.Array,
    max_passes: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns (predicted int8 [R, B, n], whether a model has not converged [n], passes).

    Args:
      x: [R, B, K]; label: [R, B]; mask: bool [R, B, n], the rows of each model.
      present: bool [C, n], the classes that the rows of each model have.
      rows, size: N and m.
    """
    dim, (classes, models) = x.shape[-1], present.shape
    # At the optimum the weights sum to 0 over the classes. Orthonormal contrasts [E, C] express
    # such weights.
    contrasts = helmert(classes)
    blocks = jnp.ceil(rows / BLOCK).astype(jnp.int32)  # later blocks hold no rows
    x, penalty = _precondition(x, blocks, size / rows)

    def logits(x: jax.Array, theta: jax.Array, present: jax.Array) -> list[jax.Array]:
        """The logits [..., n] of each class. theta: [K, E n]."""
        of_contrasts = jnp.split(x @ theta, classes - 1, axis=-1)
        of_classes = []
        for c, weights in enumerate(contrasts.T):
            absent = jnp.where(present[c], 0, ABSENT)
            of_classes.append(_weighted_sum(weights, of_contrasts) + absent)
        return of_classes

    def solve(weight: jax.Array, present: jax.Array, theta: jax.Array) -> _Search:
        """Minimises the objectives with these weights of rows [R, B, n], from theta [K, E, n]."""
        # Of two classes: w / 2 and -w / 2 have half the squared norm of their difference w, which
        # is scikit-learn's vector.
        strength = jnp.where(present.sum(axis=0) == 2, 2.0, 1.0)

        def add_block(i: jax.Array, total: jax.Array, theta: jax.Array) -> jax.Array:
            """Adds the gradient of the cross-entropies of a block: x^T (softmax - one-hot)."""
            z = logits(x[i], theta, present)
            top = jnp.max(jnp.stack(z), axis=0)
            exp = [jnp.exp(of_class - top) for of_class in z]
            share = weight[i] / sum(exp)
            residuals = []
            for c, of_class in enumerate(exp):
                is_label = (label[i] == c)[:, None]
                residuals.append(of_class * share - weight[i] * is_label)
            of_contrasts = [_weighted_sum(weights, residuals) for weights in contrasts]
            return total + x[i].T @ jnp.concatenate(of_contrasts, axis=1)

        def gradient(theta: jax.Array) -> jax.Array:
            flat, shrunk = theta.reshape(dim, -1), (strength * theta).reshape(dim, -1)
            add = partial(add_block, theta=flat)
            total: jax.Array = jax.lax.fori_loop(0, blocks, add, penalty @ shrunk)
            return total.reshape(theta.shape)

        return _minimise(gradient, theta, TOLERANCE**2 * size, max_passes)

    number = jnp.arange(x.shape[0] * BLOCK).reshape(x.shape[0], BLOCK, 1)
    of_all_rows = (number < rows) * (size / rows)
    zeros = jnp.zeros((dim, classes - 1, 1))
    start = solve(of_all_rows, present.any(axis=1, keepdims=True), zeros)
    end = solve(mask, present, jnp.broadcast_to(start.theta, (dim, classes - 1, models)))
    z = jnp.stack(logits(x, end.theta.reshape(dim, -1), present))
    return jnp.argmax(z, axis=0).astype(jnp.int8), end.going, end.passes


def _precondition(x: jax.Array, blocks: jax.Array, share: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Multiplies (features, matrix of the penalty [K, K]) by the inverse root of the bound of the
    objectives' curvature. share: m / N."""
    dim = x.shape[-1]
    penalty = jnp.eye(dim).at[-1, -1].set(0)
    moment = jax.lax.fori_loop(
        0, blocks, lambda i, total: total + x[i].T @ x[i], jnp.zeros((dim, dim))
    )
    # A constant feature is collinear with the intercept, which has no penalty: 1e-3 keeps the bound
    # invertible.
    root = jnp.linalg.cholesky(share / 2 * moment + penalty + 1e-3 * jnp.eye(dim))
    inverse = jax.scipy.linalg.solve_triangular(root, jnp.eye(dim), lower=True)
    return x @ inverse.T, inverse @ penalty @ inverse.T


def _weighted_sum(weights: np.ndarray, arrays: Sequence[jax.Array]) -> jax.Array:
    """The weighted sum of arrays."""
    terms = (float(weight) * array for weight, array in zip(weights, arrays, strict=True))
    return cast(jax.Array, sum(terms))


class _Search(NamedTuple):
    """The state of the search for n models: arrays [K, E, n], step and going [n]."""

    theta: jax.Array
    gradient: jax.Array
    direction: jax.Array
    step: jax.Array
    going: jax.Array
    passes: jax.Array


def _minimise(
    gradient_of: Callable[[jax.Array], jax.Array],
    theta: jax.Array,
    tolerance: jax.Array,
    max_passes: jax.Array,
) -> _Search:
    """Minimises n functions by memoryless BFGS (Nocedal & Wright 2006, section 7.2), until the
    squared gradient is at most `tolerance`."""
    dot = partial(jnp.einsum, "ken,ken->n")

    def advance(search: _Search) -> _Search:
        s = search.step * search.direction
        theta = search.theta + s
        gradient = gradient_of(theta)
        slope_before = dot(search.gradient, search.direction)
        slope_after = dot(gradient, search.direction)
        accepted = search.going & (slope_after <= -OVERSHOOT * slope_before)
        y = gradient - search.gradient
        curvature = search.step * (slope_after - slope_before)
        is_exact = curvature > -1e-6 * search.step * slope_before  # larger than rounding errors
        inverse, scale = 1 / curvature, curvature / dot(y, y)
        alpha = inverse * dot(s, gradient)
        r = scale * (gradient - alpha * y)
        quasi_newton = r + (alpha - inverse * dot(y, r)) * s
        direction = -jnp.where(is_exact, quasi_newton, gradient)
        gradient = jnp.where(accepted, gradient, search.gradient)
        return _Search(
            theta=jnp.where(accepted, theta, search.theta),
            gradient=gradient,
            direction=jnp.where(accepted, direction, search.direction),
            step=jnp.where(accepted, 1.0, search.step / 2),
            going=search.going & (dot(gradient, gradient) > tolerance),
            passes=search.passes + 1,
        )

    def is_going(search: _Search) -> jax.Array:
        return search.going.any() & (search.passes < max_passes)

    gradient = gradient_of(theta)
    first = _Search(
        theta=theta,
        gradient=gradient,
        direction=-gradient,
        step=jnp.ones(theta.shape[-1]),
        going=dot(gradient, gradient) > tolerance,
        passes=jnp.int32(1),
    )
    end: _Search = jax.lax.while_loop(is_going, advance, first)
    return end
