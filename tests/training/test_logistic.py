"""Logistic regressions that train together; each reaches scikit-learn's optimum, whichever others
train with it."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from mednli_jax.training import logistic

ROWS, DIM, CLASSES, MODELS, SIZE = 400, 12, 3, 5, 160


def data(rows=ROWS, dim=DIM, classes=CLASSES, models=MODELS, size=SIZE, seed=0):
    """Rows like mean word vectors: they have a common mean and very different spreads. Labels
    depend on them, and the first is rare."""
    rng = np.random.default_rng(seed)
    spread = np.geomspace(2, 0.02, dim)
    features = (rng.normal(0, 1, dim) + rng.normal(0, 1, (rows, dim)) * spread).astype(np.float32)
    logits = (features - features.mean(axis=0)) @ rng.normal(0, 1, (dim, classes)) + rng.gumbel(
        size=(rows, classes)
    )
    logits[:, 0] -= 2
    chosen = np.stack([np.sort(rng.permutation(rows)[:size]) for _ in range(models)])
    return features, logits.argmax(axis=1), chosen


@pytest.fixture(scope="module")
def predicted():
    return logistic.fit_predict(*data())[0]


SAMPLES = {  # arguments of `data`; few rows, so that the penalty matters
    "two classes": {"classes": 2, "size": 16},
    "three classes": {"size": 16},
    "four classes": {"classes": 4, "size": 24},
    "many rows": {"rows": logistic.BLOCK + 300, "size": 900, "models": 2},
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_each_predicts_what_scikit_learn_does_at_its_optimum(sample):
    features, labels, chosen = data(**SAMPLES[sample])
    predicted, facts = logistic.fit_predict(features, labels, chosen)
    assert facts["unconverged"] == 0
    assert 0 < facts["passes"] < logistic.MAX_PASSES
    for rows, ours in zip(chosen, predicted, strict=True):
        theirs = LogisticRegression(tol=1e-9, max_iter=20_000)
        theirs.fit(features[rows].astype(np.float64), labels[rows])
        assert (ours == theirs.predict(features)).mean() >= 0.997


def test_models_whose_rows_lack_a_class_are_scikit_learns_of_the_others():
    features, labels, _ = data()
    chosen = np.stack(
        [np.flatnonzero(labels != absent)[5 * n : 5 * n + 16] for n, absent in enumerate((0, 1, 2))]
    )
    predicted, _ = logistic.fit_predict(features, labels, chosen)
    for rows, ours in zip(chosen, predicted, strict=True):
        theirs = LogisticRegression(tol=1e-9, max_iter=20_000).fit(
            features[rows].astype(np.float64), labels[rows]
        )
        assert (ours == theirs.predict(features)).mean() >= 0.997


def test_rows_that_a_model_holds_out_leave_no_trace_in_it(predicted):
    """All models start at the optimum of all rows. Other labels of the rows that a model holds out
    do not change it."""
    features, labels, chosen = data()
    for model in (0, 3):
        others = np.setdiff1d(np.arange(ROWS), chosen[model])
        changed = labels.copy()
        changed[others] = (labels[others] + 1) % CLASSES
        again, facts = logistic.fit_predict(features, changed, chosen)
        assert facts["unconverged"] == 0
        assert (again[model] == predicted[model]).mean() >= 0.997


def test_company_order_and_room_change_no_prediction(predicted):
    """One program serves all rounds of filtering whose rows fit its capacity."""
    features, labels, chosen = data()
    assert np.array_equal(logistic.fit_predict(features, labels, chosen)[0], predicted)
    alone, _ = logistic.fit_predict(features, labels, chosen[2:3])
    backwards, _ = logistic.fit_predict(features[::-1], labels[::-1], ROWS - 1 - chosen[:, ::-1])
    for other in (alone[0], backwards[2, ::-1]):
        assert (other == predicted[2]).mean() >= 0.997
    roomy = {"capacity": logistic.BLOCK + 1}
    np.testing.assert_array_equal(
        logistic.fit_predict(features, labels, chosen, **roomy)[0], predicted
    )
    compiled = logistic._fit._cache_size()
    fewer, _ = logistic.fit_predict(
        features[: SIZE + 40],
        labels[: SIZE + 40],
        np.tile(np.arange(SIZE - 10), (MODELS, 1)),
        **roomy,
    )
    assert fewer.shape == (MODELS, SIZE + 40)
    assert logistic._fit._cache_size() == compiled


def test_a_class_without_rows_is_never_predicted():
    """scikit-learn does not know the class either. It refuses a single class, which here is always
    predicted."""
    features, labels, _ = data()
    kinds = [labels != 0, labels != 2, labels == 1, labels != 0, labels >= 0]
    predicted, facts = logistic.fit_predict(
        features, labels, np.stack([np.flatnonzero(kind)[:60] for kind in kinds])
    )
    assert facts["unconverged"] == 0
    assert [set(row.tolist()) for row in predicted] == [{1, 2}, {0, 1}, {1}, {1, 2}, {0, 1, 2}]
    assert (logistic.fit_predict(features, np.full(ROWS, 2), data()[2], classes=4)[0] == 2).all()


def test_one_that_cannot_converge_says_so():
    _, facts = logistic.fit_predict(*data(), max_passes=2)
    assert facts == {"passes": 2, "unconverged": MODELS}
