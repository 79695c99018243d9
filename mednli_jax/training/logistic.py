"""Many multinomial logistic regressions over subsets of the same rows, trained together.

The objective is that of scikit-learn's LogisticRegression (C = 1): the sum of the cross-entropies of a model's rows and
half the squared norm of its weights, without the intercept. The models share the rows, so that one matrix product gives
the logits of all models; a mask selects the rows of each model.

Mean word vectors are badly conditioned for plain gradient methods. But random subsets of the same rows have nearly the
same second moment, and half of it bounds the curvature of all objectives (Boehning 1992, Multinomial logistic
regression algorithm, Ann. Inst. Statist. Math. 44, theorem 5.1). One factorisation of this bound is the metric of
L-BFGS for all models. They start at the optimum of all rows with the weight m / N. This start depends on the held-out
rows of a model, but the result does not: each objective has one optimum, and each model trains until it has converged.

Letters: N rows (R blocks of B), D features, K = D + 1 with the intercept, C classes, E = C - 1 contrasts, n models.
"""

from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

BLOCK = 2048  # rows per block; its logits fit into the processor's cache
MEMORY = 8  # number of steps that L-BFGS stores
MAX_PASSES = 300
# A model has converged when the next step in the metric would change the logits of its rows by about this root mean
# square. On mean vectors 3 held-out predictions in 100,000 then differ from those of the exact optimum; with
# scikit-learn's default tolerance 400 to 700 do.
TOLERANCE = 1e-4
ABSENT = -1e9  # logit of a class that has no row in a model's subset
# A step is accepted where the slope at its end is at most this share of the slope at its start, with the opposite sign.
# On a quadratic this is Armijo's rule with 1/10. It needs no sums of losses, for which 32 bits are not exact enough.
OVERSHOOT = 0.8
_EXACT = jax.lax.Precision.HIGHEST  # otherwise accelerators multiply in 16 bits


@dataclass(frozen=True)
class Fits:
    """n fitted models.

    Args:
      weights: float32 [n, D, C]; sums over the classes are 0, as in scikit-learn.
      intercept: float32 [n, C]; likewise.
      predicted: int8 [n, N], the class of every row, also of the training rows.
      converged: bool [n].
      passes: number of passes over all rows, for all models together.
      start_passes: the same for the model of all rows, from which the models start.
    """

    weights: np.ndarray
    intercept: np.ndarray
    predicted: np.ndarray
    converged: np.ndarray
    passes: int
    start_passes: int


def fit(
    features: np.ndarray,
    labels: np.ndarray,
    chosen: np.ndarray,
    *,
    capacity: int = 0,
    classes: int = 0,
    tolerance: float = TOLERANCE,
    max_passes: int = MAX_PASSES,
) -> Fits:
    """Fits one model to each subset of rows.

    Args:
      features: float [N, D].
      labels: int [N], from 0 up.
      chosen: int [n, m], the rows of each model, each row once.
      capacity: rows for which the program is compiled, where this is more than N.
      classes: C; 0 = as many as the labels have, at least two. Calls with the same capacity, D, n and C share one
        compiled program.
      tolerance: see TOLERANCE.
      max_passes: most passes over the rows.

    A model never predicts a class that its rows do not have. Raises: ValueError for arrays of other shapes.
    """
    features, labels, chosen = np.asarray(features, np.float32), np.asarray(labels), np.asarray(chosen)
    if features.ndim != 2 or labels.shape != features.shape[:1] or chosen.ndim != 2 or not chosen.size:
        shapes = f"{features.shape}, {labels.shape} and {chosen.shape}"
        raise ValueError(f"expected features [N, D], labels [N] and chosen [n, m], got {shapes}")
    rows, classes = len(labels), max(classes, 2, int(labels.max()) + 1)
    blocks = -(-max(rows, capacity) // BLOCK)
    x, label, mask = _padded(features, labels, chosen, blocks)
    of_model = labels[chosen]
    present = np.stack([(of_model == c).any(axis=1) for c in range(classes)])
    offsets = [np.where(has, 0, ABSENT).astype(np.float32) for has in (present, present.any(axis=1, keepdims=True))]
    counts = np.int32(-(-rows // BLOCK)), np.int32(max_passes)
    numbers = np.float32(rows), np.float32(chosen.shape[1]), np.float32(tolerance)
    theta, predicted, converged, passes = _fit(x, label, mask, *offsets, *counts, *numbers, classes=classes)
    weights = np.einsum("ken,ce->nkc", np.asarray(theta), contrasts(classes)).astype(np.float32)
    return Fits(
        weights=weights[:, :-1],
        intercept=weights[:, -1],
        predicted=np.ascontiguousarray(np.asarray(predicted)[:rows].T),
        converged=np.asarray(converged),
        passes=int(passes[1]),
        start_passes=int(passes[0]),
    )


def fit_predict(
    features: np.ndarray, labels: np.ndarray, chosen: np.ndarray, *, capacity: int = 0, classes: int = 0
) -> tuple[np.ndarray, dict[str, int]]:
    """(predicted [n, N], counts of passes and unconverged models), the form that analysis.artifacts.filtering needs."""
    fits = fit(features, labels, chosen, capacity=capacity, classes=classes)
    return fits.predicted, {"passes": fits.passes, "unconverged": int((~fits.converged).sum())}


def contrasts(classes: int) -> np.ndarray:
    """Orthonormal contrasts float64 [C, E] (Helmert).

    At the optimum the weights sum to 0 over the classes, so that C - 1 numbers determine them, with the same norm.
    """
    result = np.zeros((classes, classes - 1))
    for e in range(1, classes):
        result[:e, e - 1], result[e, e - 1] = 1, -e
        result[:, e - 1] /= np.sqrt(e * (e + 1))
    return result


def _padded(features, labels, chosen, blocks):
    """Rows in blocks, padded with 0: x float32 [R, B, K] with a 1 for the intercept, label int8 [R, B], mask bool
    [R, B, n]."""
    (rows, dim), models = features.shape, len(chosen)
    x = np.zeros((blocks * BLOCK, dim + 1), np.float32)
    x[:rows, :dim], x[:rows, dim] = features, 1
    label = np.zeros(blocks * BLOCK, np.int8)
    label[:rows] = labels
    mask = np.zeros((models, blocks * BLOCK), bool)
    np.put_along_axis(mask, chosen, True, axis=1)
    mask = np.ascontiguousarray(mask.T)
    return x.reshape(blocks, BLOCK, dim + 1), label.reshape(blocks, BLOCK), mask.reshape(blocks, BLOCK, models)


@partial(jax.jit, static_argnames="classes")
def _fit(x, label, mask, offset, offset_all, blocks, max_passes, rows, size, tolerance, *, classes):
    """(theta [K, E, n], predicted int8 [R * B, n], converged [n], passes [2])."""
    dim = x.shape[-1]
    basis = contrasts(classes)
    free = jnp.ones(dim, jnp.float32).at[-1].set(0)
    inverse = _inverse_metric(x, blocks, size / rows, free)

    def solve(weight, offset, theta):
        def gradient(theta):
            return _gradient(x, label, weight, offset, basis, blocks, theta) + free[:, None, None] * theta

        return _minimise(gradient, inverse, theta, tolerance * tolerance * size, max_passes)

    real = jnp.arange(x.shape[0] * BLOCK).reshape(x.shape[0], BLOCK, 1) < rows
    start = solve(real * (size / rows), offset_all, jnp.zeros((dim, classes - 1, 1), jnp.float32))
    theta = jnp.broadcast_to(start.theta, (dim, classes - 1, mask.shape[-1]))
    end = solve(mask, offset, theta)
    predicted = _predict(x, offset, basis, blocks, end.theta)
    return end.theta, predicted, ~end.going, jnp.stack([start.passes, end.passes])


def _inverse_metric(x, blocks, share, free):
    """Inverse [K, K] of the metric: 1/2 X'X, times the share of the rows that a model has, plus the penalty.

    It is the same for each contrast, because Boehning's bound is I/2 in the basis of contrasts.
    """

    def add(i, moment):
        return moment + jnp.matmul(x[i].T, x[i], precision=_EXACT)

    dim = x.shape[-1]
    moment = jax.lax.fori_loop(0, blocks, add, jnp.zeros((dim, dim), x.dtype))
    # A constant feature is collinear with the intercept, which has no penalty: 1e-3 keeps the metric invertible.
    metric = share / 2 * moment + jnp.diag(free + 1e-3)
    factor = jax.scipy.linalg.cho_factor(metric)
    inverse = jax.scipy.linalg.cho_solve(factor, jnp.eye(dim, dtype=x.dtype))
    return (inverse + inverse.T) / 2


def _logits(x, theta, offset, basis):
    """The logits, one array [B, n] for each class."""
    dim, contrast, models = theta.shape
    v = jnp.matmul(x, theta.reshape(dim, contrast * models), precision=_EXACT).reshape(-1, contrast, models)
    return [sum(float(q) * v[:, e] for e, q in enumerate(row)) + offset[c] for c, row in enumerate(basis)]


def _gradient(x, label, weight, offset, basis, blocks, theta):
    """Gradient [K, E, n] of the weighted cross-entropies. weight: [R, B, n], 0 for rows outside a model's subset."""

    def add(i, total):
        z = _logits(x[i], theta, offset, basis)
        top = reduce(jnp.maximum, z)
        e = [jnp.exp(each - top) for each in z]
        scale = weight[i].astype(x.dtype)
        share = scale / sum(e)
        r = [each * share - scale * (label[i] == c)[:, None] for c, each in enumerate(e)]
        r = [sum(float(q) * each for q, each in zip(column, r, strict=True)) for column in basis.T]
        return total + jnp.matmul(x[i].T, jnp.concatenate(r, axis=1), precision=_EXACT)

    dim, contrast, models = theta.shape
    total = jax.lax.fori_loop(0, blocks, add, jnp.zeros((dim, contrast * models), x.dtype))
    return total.reshape(theta.shape)


def _predict(x, offset, basis, blocks, theta):
    """int8 [R * B, n]: the first class with the largest logit."""

    def fill(i, predicted):
        z = jnp.stack(_logits(x[i], theta, offset, basis))
        return predicted.at[i].set(jnp.argmax(z, axis=0).astype(jnp.int8))

    shape = (*x.shape[:2], theta.shape[-1])
    return jax.lax.fori_loop(0, blocks, fill, jnp.zeros(shape, jnp.int8)).reshape(-1, shape[-1])


class _Search(NamedTuple):
    """The state of the search for n models, arrays [.., n].

    natural: the gradient times the inverse metric. s, y: the latest steps and changes of the gradient, the last at the
    end. curvature [MEMORY, n]: their inner products, 0 for empty places.
    """

    theta: jax.Array
    gradient: jax.Array
    natural: jax.Array
    direction: jax.Array
    step: jax.Array
    s: jax.Array
    y: jax.Array
    curvature: jax.Array
    scale: jax.Array
    going: jax.Array
    passes: jax.Array


def _minimise(gradient_of, inverse, theta, enough, max_passes) -> _Search:
    """L-BFGS (Nocedal & Wright 2006, algorithm 7.4) of n convex functions at the same time, each with its own steps.

    Args:
      gradient_of: theta [K, E, n] -> gradient.
      inverse: [K, K], inverse of the metric. It is the initial inverse Hessian; later it is multiplied by a scale [n].
      theta: the start.
      enough: squared length of the gradient in the metric at which a model stops.
      max_passes: most evaluations of the gradient.
    """

    def natural_of(gradient):
        shape = gradient.shape
        return jnp.matmul(inverse, gradient.reshape(shape[0], -1), precision=_EXACT).reshape(shape)

    def advance(search: _Search) -> _Search:
        theta = search.theta + search.step * search.direction
        gradient = gradient_of(theta)
        before, after = _dot(search.gradient, search.direction), _dot(gradient, search.direction)
        taken = search.going & (after <= -OVERSHOOT * before)
        curvature = search.step * (after - before)
        known = taken & (curvature > -1e-6 * search.step * before)  # larger than rounding errors
        natural = natural_of(gradient)
        y, change = gradient - search.gradient, natural - search.natural
        moved = search._replace(
            s=_pushed(search.s, search.step * search.direction, known),
            y=_pushed(search.y, y, known),
            curvature=_pushed(search.curvature, curvature, known),
            scale=jnp.where(known, curvature / _dot(y, change), search.scale),
            theta=jnp.where(taken, theta, search.theta),
            gradient=jnp.where(taken, gradient, search.gradient),
            natural=jnp.where(taken, natural, search.natural),
        )
        direction = jnp.where(taken, _direction(moved, natural_of), search.direction)
        return moved._replace(
            direction=direction,
            step=jnp.where(taken, 1.0, search.step / 2),
            going=search.going & (_dot(moved.gradient, moved.natural) > enough),
            passes=search.passes + 1,
        )

    models, gradient = theta.shape[-1], gradient_of(theta)
    natural, none = natural_of(gradient), jnp.zeros((MEMORY, *theta.shape), theta.dtype)
    begun = _Search(
        theta=theta,
        gradient=gradient,
        natural=natural,
        direction=-natural,
        step=jnp.ones(models, theta.dtype),
        s=none,
        y=none,
        curvature=jnp.zeros((MEMORY, models), theta.dtype),
        scale=jnp.ones(models, theta.dtype),
        going=_dot(gradient, natural) > enough,
        passes=jnp.int32(1),
    )
    return jax.lax.while_loop(lambda s: s.going.any() & (s.passes < max_passes), advance, begun)


def _direction(search, natural_of):
    """Minus the inverse Hessian, estimated from the stored steps, times the gradient: the two loops of L-BFGS."""
    inverse = jnp.where(search.curvature > 0, 1 / jnp.where(search.curvature > 0, search.curvature, 1), 0)

    def back(q, pair):
        s, y, inverse = pair
        alpha = inverse * _dot(s, q)
        return q - alpha * y, alpha

    def forth(r, pair):
        s, y, inverse, alpha = pair
        return r + (alpha - inverse * _dot(y, r)) * s, None

    pairs = (search.s, search.y, inverse)
    q, alpha = jax.lax.scan(back, search.gradient, pairs, reverse=True)
    r, _ = jax.lax.scan(forth, search.scale * natural_of(q), (*pairs, alpha))
    return -r


def _dot(a, b):
    """Inner products [n] of two arrays [K, E, n]."""
    return jnp.sum(a * b, axis=(0, 1))


def _pushed(memory, latest, known):
    """memory [MEMORY, .., n] without its first entry and with `latest` at its end, for the models where `known`."""
    return jnp.where(known, jnp.concatenate([memory[1:], latest[None]]), memory)
