"""Neural classifiers that also take the features of the feature-based system."""

import numpy as np
import pytest

from mednli_jax import defaults
from mednli_jax.data.arrays import SIDES
from mednli_jax.data.batching import Layout
from mednli_jax.nli import boosting
from mednli_jax.run import experiment_of
from mednli_jax.training import optim


def config_of(features=True):
    config = defaults.nli("bow")
    config.data.update(limit=40, features=features)
    config.vectors.dim = 8
    config.model.update(hidden_size=4, dropout=0.0)
    return config


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDNLI_JAX_CACHE", str(tmp_path_factory.mktemp("cache")))
        own = experiment_of(config_of())
        yield own.prepare()[0], boosting.load(own.corpus, plain())


def plain():
    return experiment_of(config_of(features=False)).prepare()[0]


def test_features_are_standardised_by_the_training_rows(prepared):
    corpus, table = prepared
    rows = corpus.splits["train"]
    own = slice(rows.first, rows.first + len(rows))
    given = np.asarray(corpus.arrays["features"])
    assert given.shape == (len(table), 35)
    assert given.dtype == np.float32
    varies = table[own].std(axis=0) > 0
    assert 10 < varies.sum() < 35  # on 40 pairs some features are constant
    np.testing.assert_allclose(given[own][:, varies].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(given[own][:, varies].std(axis=0), 1, atol=1e-5)
    assert not given[:, ~varies].any()
    wanted = (table[-1] - table[own].mean(axis=0))[varies] / table[own].std(axis=0)[varies]
    np.testing.assert_allclose(given[-1][varies], wanted, rtol=1e-4, atol=1e-5)


def test_a_pairs_logits_follow_its_own_features_alone(prepared):
    corpus, _ = prepared
    program, batches = experiment_of(config_of()).program(corpus, ["test"])
    program.optimizer = optim.build_optimizer(learning_rate=0.1)
    layout = Layout.full(1, tuple(corpus.arrays[side].shape[1] for side in SIDES))
    variables = program.draw(layout, (0,)).variables
    before = program.logits(variables, batches["test"])
    changed = np.array(corpus.arrays["features"])
    first = corpus.splits["test"].first
    changed[first + 3] += 1.0
    program.data = {**program.data, "features": changed}
    after = program.logits(variables, batches["test"])
    differs = np.abs(after - before).max(axis=(0, 2)) > 1e-6
    assert np.flatnonzero(differs).tolist() == [3]
