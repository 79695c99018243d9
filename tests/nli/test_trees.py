"""Trees stored as JSON values give the predictions of scikit-learn's model."""

import json

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from mednli_jax.nli import trees


@pytest.mark.parametrize("labels", [(0, 1, 2), (0, 2), (1, 2)])
def test_probabilities_are_the_models(labels):
    rng = np.random.default_rng(0)
    others = len(labels) - 1
    table, label = rng.normal(size=(200, 6)), rng.choice(labels, 200, p=[0.6, *[0.4 / others] * others])
    table[::7] = table[0]  # these values lie on thresholds
    model = GradientBoostingClassifier(n_estimators=15, subsample=0.7, random_state=1).fit(table, label)
    found = trees.probabilities(json.loads(json.dumps(trees.of_model(model))), table, 3)
    np.testing.assert_allclose(found[:, list(labels)], model.predict_proba(table), atol=1e-12)
    assert found.sum(axis=1) == pytest.approx(1)
