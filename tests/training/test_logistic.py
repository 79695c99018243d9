"""Logistic regressions that train together; each reaches scikit-learn's optimum, whichever others train with it."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from mednli_jax.training import logistic

ROWS, DIM, CLASSES, MODELS, SIZE = 400, 12, 3, 5, 160


def data(rows=ROWS, dim=DIM, classes=CLASSES, models=MODELS, size=SIZE, seed=0):
    """Rows like mean word vectors: they have a common mean, very different spreads, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    spread = np.geomspace(2, 0.02, dim)
    features = (rng.normal(0, 1, dim) + rng.normal(0, 1, (rows, dim)) * spread).astype(np.float32)
    logits = (features - features.mean(axis=0)) @ rng.normal(0, 1, (dim, classes)) + rng.gumbel(size=(rows, classes))
    chosen = np.stack([np.sort(rng.permutation(rows)[:size]) for _ in range(models)])
    return features, logits.argmax(axis=1), chosen


def reference(features, labels, rows):
    return LogisticRegression(tol=1e-9, max_iter=20_000).fit(features[rows].astype(np.float64), labels[rows])


@pytest.fixture(scope="module")
def fitted():
    return logistic.fit(*data())


def gradient(features, labels, rows, weights, intercept):
    """The gradient of the objective by its definition, in float64."""
    x, z = features[rows].astype(np.float64), features[rows] @ weights.astype(np.float64) + intercept
    p = np.exp(z - z.max(axis=1, keepdims=True))
    r = p / p.sum(axis=1, keepdims=True) - np.eye(weights.shape[1])[labels[rows]]
    return np.concatenate([x.T @ r + weights, r.sum(axis=0, keepdims=True)])


def test_each_is_the_optimum_of_scikit_learn(fitted):
    features, labels, chosen = data()
    assert fitted.converged.all()
    assert 0 < fitted.passes < logistic.MAX_PASSES
    for model, rows in enumerate(chosen):
        theirs = reference(features, labels, rows)
        np.testing.assert_allclose(fitted.weights[model], theirs.coef_.T, atol=2e-3)
        np.testing.assert_allclose(fitted.intercept[model], theirs.intercept_, atol=4e-3)
        assert (fitted.predicted[model] == theirs.predict(features)).mean() >= 0.997


def test_the_gradient_is_zero_where_they_end(fitted):
    features, labels, chosen = data()
    for model, rows in enumerate(chosen):
        start = gradient(features, labels, rows, np.zeros((DIM, CLASSES)), np.zeros(CLASSES))
        end = gradient(features, labels, rows, fitted.weights[model], fitted.intercept[model])
        assert np.abs(end).max() < 1e-3 * np.abs(start).max()


def test_rows_that_a_model_holds_out_leave_no_trace_in_it(fitted):
    """All models start at the optimum of all rows. Other labels of the rows that a model holds out do not change it."""
    features, labels, chosen = data()
    for model in (0, 3):
        others = np.setdiff1d(np.arange(ROWS), chosen[model])
        changed = labels.copy()
        changed[others] = (labels[others] + 1) % CLASSES
        again = logistic.fit(features, changed, chosen)
        assert again.converged.all()
        np.testing.assert_allclose(again.weights[model], fitted.weights[model], atol=2e-3)
        assert (again.predicted[model] == fitted.predicted[model]).mean() >= 0.997


def test_a_model_is_the_same_alone_and_in_any_order(fitted):
    features, labels, chosen = data()
    np.testing.assert_allclose(logistic.fit(features, labels, chosen[2:3]).weights[0], fitted.weights[2], atol=2e-3)
    backwards = logistic.fit(features[::-1], labels[::-1], ROWS - 1 - chosen[:, ::-1])
    np.testing.assert_allclose(backwards.weights, fitted.weights, atol=2e-3)


def test_the_same_call_gives_the_same_bits(fitted):
    again = logistic.fit(*data())
    assert np.array_equal(again.weights, fitted.weights)
    assert np.array_equal(again.predicted, fitted.predicted)


def test_room_changes_no_prediction_and_saves_compiling(fitted):
    """One program serves all rounds of filtering whose rows fit its capacity.

    Programs round differently. Weights are compared by their effect on logits, because features that hardly vary
    determine their weights less.
    """
    features, labels, chosen = data()
    capacity = logistic.BLOCK + 1
    roomy = logistic.fit(features, labels, chosen, capacity=capacity)
    np.testing.assert_array_equal(roomy.predicted, fitted.predicted)
    spread = features.std(axis=0)[:, None]
    np.testing.assert_allclose(roomy.weights * spread, fitted.weights * spread, rtol=0, atol=1e-5)
    compiled = logistic._fit._cache_size()
    fewer = logistic.fit(
        features[: SIZE + 40], labels[: SIZE + 40], np.tile(np.arange(SIZE - 10), (MODELS, 1)), capacity=capacity
    )
    assert fewer.predicted.shape == (MODELS, SIZE + 40)
    assert logistic._fit._cache_size() == compiled


def test_rows_beyond_a_block_count():
    features, labels, chosen = data(rows=logistic.BLOCK + 300, size=900)
    assert (chosen >= logistic.BLOCK).any()
    fits = logistic.fit(features, labels, chosen)
    for model, rows in list(enumerate(chosen))[:2]:
        assert (fits.predicted[model] == reference(features, labels, rows).predict(features)).mean() >= 0.998


def test_a_class_without_rows_is_never_predicted():
    """scikit-learn does not know the class either. It refuses a single class, which here is always predicted."""
    features, labels, _ = data()
    kinds = [labels != 0, labels != 2, labels == 1, labels != 0, labels >= 0]
    fits = logistic.fit(features, labels, np.stack([np.flatnonzero(kind)[:60] for kind in kinds]))
    assert fits.converged.all()
    assert [set(row.tolist()) for row in fits.predicted] == [{1, 2}, {0, 1}, {1}, {1, 2}, {0, 1, 2}]


@pytest.mark.parametrize("classes", [2, 4])
def test_other_numbers_of_classes(classes):
    features, labels, chosen = data(classes=classes)
    fits = logistic.fit(features, labels, chosen)
    for model, rows in enumerate(chosen):
        end = gradient(features, labels, rows, fits.weights[model], fits.intercept[model])
        assert np.abs(end).max() < 0.05
        np.testing.assert_allclose(fits.weights[model].sum(axis=1), 0, atol=1e-5)


def test_one_that_cannot_converge_says_so():
    features, labels, chosen = data()
    fits = logistic.fit(features, labels, chosen, max_passes=2)
    assert not fits.converged.any()
    assert fits.passes == 2


def test_contrasts_are_orthonormal_and_sum_to_zero():
    for classes in (2, 3, 5):
        q = logistic.contrasts(classes)
        np.testing.assert_allclose(q.T @ q, np.eye(classes - 1), atol=1e-12)
        np.testing.assert_allclose(q.sum(axis=0), 0, atol=1e-12)


def test_what_filtering_is_given():
    features, labels, chosen = data()
    predicted, facts = logistic.fit_predict(features, labels, chosen)
    assert predicted.shape == (MODELS, ROWS)
    assert facts["unconverged"] == 0
    assert facts["passes"] > 0


@pytest.mark.parametrize("cut", ["features", "labels", "chosen"])
def test_arrays_of_other_shapes_are_refused(cut):
    arrays = dict(zip(("features", "labels", "chosen"), data(), strict=True))
    arrays[cut] = arrays[cut][0]
    with pytest.raises(ValueError, match="expected features"):
        logistic.fit(**arrays)


def test_rows_of_one_class_alone_give_that_class():
    x = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
    chosen = np.stack([np.arange(5), np.arange(5, 10)])
    for label in (0, 2):
        predicted, _ = logistic.fit_predict(x, np.full(10, label), chosen, classes=3)
        assert (predicted == label).all()
    assert (logistic.fit(x, np.zeros(10, int), chosen).predicted == 0).all()
