"""Logistic regressions that train together: each reaches scikit-learn's optimum, whichever others
train with it."""

from typing import NamedTuple

import jax
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from support.cases import cases
from support.trees import assert_equal

from mednli_jax.training import logistic

ROWS = 400
CLASSES = 3
MODELS = 5
SIZE = 160
NEAR = 0.997  # least share of equal predictions of two optima
ROOMY = logistic.BLOCK + 1  # a capacity of two blocks


class Sample(NamedTuple):
    features: np.ndarray
    labels: np.ndarray
    chosen: np.ndarray  # [models, size], the rows of each model

    def fit_predict(self, **options):
        return logistic.fit_predict(self.features, self.labels, self.chosen, **options)


def draw(rows=ROWS, classes=CLASSES, models=MODELS, size=SIZE):
    """Rows like mean word vectors: they have a common mean and very different spreads. Labels
    depend on them, and the first is rare."""
    rng = np.random.default_rng(0)
    dim = 12
    spread = np.geomspace(2, 0.02, dim)
    features = (rng.normal(0, 1, dim) + rng.normal(0, 1, (rows, dim)) * spread).astype(np.float32)
    signal = (features - features.mean(axis=0)) @ rng.normal(0, 1, (dim, classes))
    logits = signal + rng.gumbel(size=(rows, classes))
    logits[:, 0] -= 2
    chosen = np.stack([np.sort(rng.permutation(rows)[:size]) for _ in range(models)])
    return Sample(features, logits.argmax(axis=1), chosen)


def assert_near_scikit_learn(predicted, sample):
    for rows, ours in zip(sample.chosen, predicted, strict=True):
        model = LogisticRegression(tol=1e-9, max_iter=20_000)
        model.fit(sample.features[rows].astype(np.float64), sample.labels[rows])
        assert (ours == model.predict(sample.features)).mean() >= NEAR


@pytest.fixture(scope="module")
def sample():
    return draw()


@pytest.fixture(scope="module")
def predicted(sample):
    return sample.fit_predict()[0]


@cases(
    "sizes",
    {
        # few rows, so that the penalty matters
        "two classes": {"classes": 2, "size": 16},
        "three classes": {"size": 16},
        "four classes": {"classes": 4, "size": 24},
        "many rows": {"rows": ROOMY + 299, "size": 900, "models": 2},
    },
)
def test_each_logistic_regression_predicts_as_scikit_learn_does_at_its_optimum(sizes):
    sample = draw(**sizes)

    predicted, counts = sample.fit_predict()

    assert counts["unconverged"] == 0
    assert 0 < counts["passes"] < logistic.MAX_PASSES
    assert_near_scikit_learn(predicted, sample)


def test_a_model_whose_rows_lack_a_class_is_scikit_learns_of_the_others(sample):
    """Each of the three models lacks another class."""
    chosen = [np.flatnonzero(sample.labels != n)[5 * n : 5 * n + 16] for n in range(CLASSES)]
    lacking = sample._replace(chosen=np.stack(chosen))

    assert_near_scikit_learn(lacking.fit_predict()[0], lacking)


def test_a_logistic_regression_of_a_single_class_always_predicts_it(sample):
    """scikit-learn refuses it."""
    single = sample._replace(labels=np.full(ROWS, 2))

    assert (single.fit_predict(classes=4)[0] == 2).all()


def test_labels_of_rows_that_a_model_holds_out_leave_no_trace_in_it(sample, predicted):
    """All models start at the optimum of all rows."""
    for model in (0, 3):
        held_out = np.setdiff1d(np.arange(ROWS), sample.chosen[model])
        labels = sample.labels.copy()
        labels[held_out] = (labels[held_out] + 1) % CLASSES

        again, _ = sample._replace(labels=labels).fit_predict()

        assert (again[model] == predicted[model]).mean() >= NEAR


def test_two_fits_of_logistic_regressions_predict_the_same(sample, predicted):
    assert_equal(sample.fit_predict()[0], predicted)


def test_other_models_and_the_order_of_rows_change_hardly_a_prediction(sample, predicted):
    alone, _ = sample._replace(chosen=sample.chosen[2:3]).fit_predict()
    features, labels, chosen = sample
    backwards, _ = Sample(features[::-1], labels[::-1], ROWS - 1 - chosen[:, ::-1]).fit_predict()

    assert (alone[0] == predicted[2]).mean() >= NEAR
    assert (backwards[2, ::-1] == predicted[2]).mean() >= NEAR


def test_rounds_whose_rows_fit_a_capacity_share_a_program(sample, predicted, caplog):
    features, labels, _ = sample
    fewer_rows = np.tile(np.arange(SIZE - 10), (MODELS, 1))
    fewer = Sample(features[: SIZE + 40], labels[: SIZE + 40], fewer_rows)

    with jax.log_compiles():
        roomy, _ = sample.fit_predict(capacity=ROOMY)
        compiled_first = "Finished XLA compilation" in caplog.text
        caplog.clear()
        of_fewer, _ = fewer.fit_predict(capacity=ROOMY)

    assert_equal(roomy, predicted)
    assert of_fewer.shape == (MODELS, SIZE + 40)
    assert compiled_first
    assert "Finished XLA compilation" not in caplog.text


def test_fits_that_cannot_converge_are_counted(sample):
    _, counts = sample.fit_predict(max_passes=2)

    assert counts == {"passes": 2, "unconverged": MODELS}
