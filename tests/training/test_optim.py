"""Optimisers against steps worked out by hand, the rates of schedules, and the limits on
configs."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mednli_jax import defaults
from mednli_jax.run import experiment_of
from mednli_jax.training import optim

RATE = 0.1


def steps(optimizer, gradients):
    """The weights, 0 at first, after each step [steps, 2]."""
    params = {"w": jnp.zeros(2)}
    state, seen, update = optimizer.init(params), [], jax.jit(optimizer.update)
    for gradient in gradients:
        updates, state = update({"w": jnp.asarray(gradient)}, state, params)
        params = optax.apply_updates(params, updates)
        seen.append(np.asarray(params["w"]))
    return np.array(seen)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


# ---- optimisers ----


def test_adamw_decays_matrices_beside_adam_s_direction():
    params = {"kernel": jnp.full((2, 2), 3.0), "bias": jnp.full(2, 3.0), "scale": jnp.full(2, 3.0)}
    how = {"learning_rate": RATE, "optimizer": "adamw", "weight_decay": 0.5}
    ours, adam, adamw = (
        optim.build_optimizer(optim.Options(**how)),
        optax.adam(RATE),
        optax.adamw(RATE, weight_decay=0.5),
    )
    found = []
    for made in (ours, adam, adamw):
        state, weights = made.init(params), params
        for _ in range(3):  # the weights themselves are the gradient
            updates, state = made.update(weights, state, weights)
            weights = optax.apply_updates(weights, updates)
        found.append(weights)
    for name, like in (("kernel", 2), ("bias", 1), ("scale", 1)):
        np.testing.assert_allclose(found[0][name], found[like][name], rtol=1e-6)


# ---- rates ----


def shares(batches, *, epoch_steps=1, **options):
    """Each step's share of the learning rate, from SGD on gradients of 1."""
    made = optim.build_optimizer(
        optim.Options(learning_rate=RATE, optimizer="sgd", **options), epoch_steps
    )
    weights = steps(made, np.ones((batches, 2)))
    return -np.diff(weights[:, 0], prepend=0.0) / RATE


def test_halving_lowers_the_rate_at_the_start_of_each_epoch_from_one_on():
    how = {"schedule": "halving", "epochs": 4, "epoch_steps": 2}
    np.testing.assert_allclose(shares(8, **how, halve_from=3), [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25])
    np.testing.assert_allclose(shares(4, **how, halve_from=1), [0.5, 0.5, 0.25, 0.25])


def test_a_linear_rate_falls_to_0_with_the_steps_of_the_run():
    """At step k of n the rate is 1 - k/n of the first one (fastText's `lr * (1 - progress)`), and 0
    after the end."""
    found = shares(5, schedule="linear", epochs=2, epoch_steps=2)
    np.testing.assert_allclose(found, [1, 0.75, 0.5, 0.25, 0], atol=1e-7)


def test_the_rate_warms_up_and_falls_in_a_line():
    """The first 3 of 10 steps rise from 0 (a quarter, rounded up), then the rate falls to 0 and
    stays there."""
    expected = [0, 1 / 3, 2 / 3, 1, 6 / 7, 5 / 7, 4 / 7, 3 / 7, 2 / 7, 1 / 7, 0, 0]
    np.testing.assert_allclose(
        shares(12, schedule="warmup_linear", warmup=0.25, epoch_steps=10), expected, atol=1e-6
    )
    plain = shares(5, schedule="warmup_linear", warmup=0.0, epoch_steps=4)
    np.testing.assert_allclose(plain, [1, 0.75, 0.5, 0.25, 0], atol=1e-6)


# ---- from a config ----


def config(**train):
    made = defaults.nli("bow")
    made.train.update(train)
    return made


def test_a_config_s_protocol_reaches_the_optimizer():
    """Half of the run's 20 steps warm up, from 0."""
    protocol = {
        "schedule": "warmup_linear",
        "optimizer": "sgd",
        "warmup": 0.5,
        "epochs": 4,
        "weight_decay": 0.0,
    }
    own = experiment_of(config(**protocol, learning_rate=0.5))
    weights = steps(own.optimizer_for(types.SimpleNamespace(steps=5)), np.ones((2, 2)))
    np.testing.assert_allclose(weights[:, 0], [0, -0.5 / 10], rtol=1e-6)
