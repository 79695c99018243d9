"""Boosted trees over the features of pairs: what they learn, and how they are stored."""

import json

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from mednli_jax.errors import UserError
from mednli_jax.nli import boosting

TRAIN = slice(0, 180)


@pytest.fixture(scope="module")
def rule():
    """(features, labels) of 240 rows; the first feature gives the label."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 240)
    table = rng.normal(size=(240, 35))
    table[:, 0] = label + rng.normal(0, 0.2, 240)
    return table, label


@pytest.fixture(scope="module")
def boosted(rule):
    """(result, number of calls after a tree) of twenty rounds of two seeds."""
    calls = []
    result = boosting.fit_predict(
        *rule, TRAIN, (0, 1), trees=20, on_tree=lambda: calls.append(None)
    )
    return result, len(calls)


def test_boosting_learns_a_rule(rule, boosted):
    p_SNC = boosted[0].probabilities
    assert p_SNC.shape == (2, 240, 3)
    np.testing.assert_allclose(p_SNC.sum(axis=-1), 1)
    accuracy = (p_SNC[:, 180:].argmax(axis=-1) == rule[1][180:]).mean()
    assert accuracy > 0.9


def test_each_round_of_each_seed_is_counted(boosted):
    assert boosted[1] == 20 * 2


def test_unlabelled_rows_are_not_trained_on_and_a_missing_class_is_never_predicted(rule):
    table, label = rule
    unlabelled = np.where(label == 1, -1, label)
    labelled_rows = np.flatnonzero(unlabelled[TRAIN] >= 0)

    p_SNC = boosting.fit_predict(table, unlabelled, TRAIN, (0,), trees=5).probabilities

    assert not p_SNC[..., 1].any()
    same = boosting.fit_predict(table, label, labelled_rows, (0,), trees=5).probabilities
    assert np.array_equal(p_SNC, same)


def test_training_pairs_of_one_label_are_refused(rule):
    table, label = rule
    with pytest.raises(UserError, match=r".*Fix:"):
        boosting.fit_predict(table, np.zeros_like(label), TRAIN, (0,))


@pytest.mark.parametrize(
    "labels",
    [
        (0, 1, 2),
        (0, 2),
        (1, 2),
    ],
)
def test_trees_stored_as_json_predict_as_scikit_learns(labels):
    """Some values lie on thresholds."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 6))
    table[::7] = table[0]
    label = rng.permutation(np.resize(labels, 200))
    model = GradientBoostingClassifier(n_estimators=15, subsample=0.7, random_state=1)
    model.fit(table, label)

    stored = json.loads(json.dumps(boosting.forest_of(model)))

    p_NC = boosting.predict_proba(stored, table, 3)
    np.testing.assert_allclose(p_NC[:, list(labels)], model.predict_proba(table), atol=1e-12)
    assert p_NC.sum(axis=1) == pytest.approx(1)
