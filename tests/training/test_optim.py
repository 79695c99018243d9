"""Optimisers against steps worked out by hand, and the rates of schedules."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support.cases import cases
from support.trees import assert_near

from mednli_jax.cli import read_config
from mednli_jax.experiment import experiment_of
from mednli_jax.training import optim

RATE = 0.1


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def weights_after_steps(optimizer, steps):
    """[steps], a weight, 0 at first, after each step; its gradient is 1."""
    weight = jnp.zeros(())
    state = optimizer.init(weight)
    weights = []
    update = jax.jit(optimizer.update)
    for _ in range(steps):
        updates, state = update(jnp.ones(()), state, weight)
        weight = optax.apply_updates(weight, updates)
        weights.append(float(weight))
    return np.array(weights)


def rate_shares(steps, *, epoch_steps=1, **options):
    """Each step's share of the learning rate, from SGD."""
    options = optim.Options(learning_rate=RATE, optimizer="sgd", **options)
    optimizer = optim.build_optimizer(options, epoch_steps)
    return -np.diff(weights_after_steps(optimizer, steps), prepend=0.0) / RATE


def test_adamw_decays_matrices_and_neither_biases_nor_scales():
    params = {"kernel": jnp.full((2, 2), 3.0), "bias": jnp.full(2, 3.0), "scale": jnp.full(2, 3.0)}
    options = optim.Options(learning_rate=RATE, optimizer="adamw", weight_decay=0.5)

    def trained(optimizer):
        weights = params
        state = optimizer.init(params)
        for _ in range(3):
            gradient = weights
            updates, state = optimizer.update(gradient, state, weights)
            weights = optax.apply_updates(weights, updates)
        return weights

    ours = trained(optim.build_optimizer(options))
    decayed = trained(optax.adamw(RATE, weight_decay=0.5))
    undecayed = trained(optax.adam(RATE))

    expected = {**undecayed, "kernel": decayed["kernel"]}
    assert_near(ours, expected, rtol=1e-6)


@cases(
    "halve_from, shares",
    {
        "from epoch 3": (3, [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25]),
        "from epoch 1": (1, [0.5, 0.5, 0.25, 0.25]),
    },
)
def test_halving_lowers_the_rate_at_the_start_of_each_epoch_from_a_given_one_on(halve_from, shares):
    schedule = {"schedule": "halving", "epochs": 4, "epoch_steps": 2, "halve_from": halve_from}

    np.testing.assert_allclose(rate_shares(len(shares), **schedule), shares)


def test_a_linear_rate_falls_to_0_with_the_steps_of_the_run():
    """At step k of n the rate is 1 - k/n of the first one (fastText's `lr * (1 - progress)`), and 0
    after the end."""
    shares = rate_shares(5, schedule="linear", epochs=2, epoch_steps=2)

    assert_near(shares, [1, 0.75, 0.5, 0.25, 0], atol=1e-7)


@cases(
    "warmup, epoch_steps, shares",
    {
        # a quarter of 10 steps is rounded up
        "a quarter": (0.25, 10, [0, 1 / 3, 2 / 3, *np.arange(7, 0, -1) / 7, 0, 0]),
        "none": (0.0, 4, [1, 0.75, 0.5, 0.25, 0]),
    },
)
def test_the_rate_warms_up_from_0_and_falls_in_a_line_to_0(warmup, epoch_steps, shares):
    schedule = {"schedule": "warmup_linear", "warmup": warmup, "epoch_steps": epoch_steps}

    assert_near(rate_shares(len(shares), **schedule), shares, atol=1e-6)


def test_the_schedule_of_a_config_reaches_the_optimizer():
    """Half of the run's 20 steps warm up, from 0."""
    config = read_config("bow")
    config.train.update(
        schedule="warmup_linear",
        optimizer="sgd",
        warmup=0.5,
        epochs=4,
        weight_decay=0.0,
        learning_rate=0.5,
    )
    batches = types.SimpleNamespace(steps=5)

    weights = weights_after_steps(experiment_of(config).optimizer_for(batches), 2)

    assert_near(weights, [0, -0.5 / 10], rtol=1e-6)
