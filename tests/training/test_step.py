"""A step gives the same on one device and on eight, for one seed and for three, in any order and
layout."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models
from support.trees import assert_near, assert_replicated, of_seed

from mednli_jax.data.batching import Layout
from mednli_jax.models import layers
from mednli_jax.training import optim, state
from mednli_jax.training.devices import Devices
from mednli_jax.training.step import train_step

BATCH = 16
REAL = 14
STEPS = 6
SEEDS = (0, 1, 5)
ADAM = {"learning_rate": 1e-2, "weight_decay": 1e-6}
OPTIMIZERS = {
    "fasttext": {"learning_rate": 8.0, "optimizer": "sgd", "schedule": "linear"},
    "sa_reader": {"learning_rate": 0.5, "optimizer": "sgd", "clip": 1.0},
}
FIELDS = {"encoder": {"layers": 1, "dropout": 0.3}, "fasttext": {}}  # the others have dropout alone
SLOW = ("infersent-replace", "esim-bias", "encoder", "fasttext", "ga_reader")


def plan(seeds, shuffled):
    """Rows [steps, S, 16, 1]: 14 of 24 and two of padding. Where shuffled, some devices hold much
    padding."""
    index = np.full((STEPS, len(seeds), BATCH), -1, np.int32)
    for step in range(STEPS):
        slots = np.arange(BATCH)
        if shuffled:
            slots = np.random.default_rng(step).permutation(slots)
        for place, seed in enumerate(seeds):
            rows = np.random.default_rng([seed, step]).permutation(models.ROWS)
            index[step, place, slots[:REAL]] = rows[:REAL]
    return index[..., None]


def drawn(name, fields, optimizer, seeds):
    """A learner in float64."""
    corpus = models.corpus_of(name)
    single = Layout.full(1, corpus.width, joint=corpus.joint)
    data, words = jax.tree.map(jnp.asarray, (corpus.data, models.words_of(name)))
    batch = corpus.task.to_batch(data, jnp.zeros((1, 1), jnp.int32), single)
    model = models.build(name, **fields)
    learner = state.init_learner(model, optimizer, seeds, batch, words)
    learner = models.as_type(learner, np.float64)
    return learner.replace(opt_state=jax.vmap(optimizer.init)(learner.params))


def trained(name, seeds, *, device_count=1, tight=False):
    """(losses [steps, S], parameters) of steps in float64 with dropout.

    tight: rows in another order, in segments of their own, with more padding.
    """
    corpus = models.corpus_of(name)
    devices = Devices(jax.local_devices()[:device_count])
    assert devices.count == device_count
    fields = FIELDS.get(name, {"dropout": 0.3})
    options = optim.Options(**OPTIMIZERS.get(name, ADAM))
    optimizer = optim.build_optimizer(options, STEPS)
    index = plan(seeds, shuffled=tight)
    layout = Layout.full(BATCH // device_count, corpus.width, joint=corpus.joint)
    if tight:
        layout = models.layout_for(corpus, index, devices=device_count, more=2)
    model = models.build(name, **fields, axis_name=devices.axis_name)
    body = train_step(model, corpus.task, optimizer, layout, devices.axis_name)
    step = devices.map(body, reduced=True)

    learner = devices.replicate(drawn(name, fields, optimizer, seeds))
    words = devices.replicate(models.as_type(models.words_of(name), np.float64))
    data = devices.replicate(jax.tree.map(jnp.asarray, corpus.data))
    losses = []
    for rows in index:
        learner, sums = step(learner, words, data, devices.split(rows))
        assert np.asarray(sums["count"]).tolist() == [REAL] * len(seeds)
        losses.append(np.asarray(sums["loss"]) / REAL)
    assert_replicated(learner.params)
    assert np.asarray(learner.step).tolist() == [STEPS] * len(seeds)
    return np.array(losses), jax.tree.map(np.asarray, learner.params)


three_seeds = functools.cache(functools.partial(trained, seeds=SEEDS))  # on one device


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(
    "name", ["bow", "sa_reader", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)]
)
def test_training_with_dropout_does_not_depend_on_number_of_devices_order_layout_or_padding(name):
    losses, params = three_seeds(name)

    on_eight, params_on_eight = trained(name, SEEDS, device_count=8, tight=True)

    assert losses.dtype == np.float64
    assert_near(on_eight, losses, atol=1e-8)
    assert_near(params_on_eight, params, atol=1e-6)
    # Equal losses prove nothing if the steps do nothing or the seeds do not differ.
    assert (abs(losses[-1] - losses[0]) > 2e-4).all()
    assert abs(losses[-1, 0] - losses[-1, 1]) > 1e-6


@pytest.mark.parametrize("name", ["bow", pytest.param("fasttext", marks=pytest.mark.slow)])
def test_seeds_on_one_axis_of_a_program_train_as_each_does_alone(name):
    losses, params = three_seeds(name)

    alone, params_alone = trained(name, SEEDS[2:])

    assert_near(alone[:, 0], losses[:, 2], atol=1e-8)
    assert_near(of_seed(params_alone, 0), of_seed(params, 2), atol=1e-6)


class Dropped(nn.Module):
    """Logits of ones behind dropout."""

    @nn.compact
    def __call__(self, batch, *, train):
        ones = jnp.ones((len(batch.mask), 8))
        return layers.Linear(3)(layers.RowDropout(0.5)(ones, batch.row_key))


def test_dropout_of_a_row_differs_from_step_to_step():
    corpus = models.pairs()
    model = Dropped()
    words = models.words_of("bow")
    optimizer = optim.build_optimizer(optim.Options(learning_rate=0.0))
    layout = Layout.full(BATCH, corpus.width)
    index = np.arange(BATCH)[:, None]
    data = jax.tree.map(jnp.asarray, corpus.data)
    batch = corpus.task.to_batch(data, index, layout)
    learner = state.init_learner(model, optimizer, (0,), batch, words)
    step = jax.jit(train_step(model, corpus.task, optimizer, layout))

    learner, first = step(learner, words, data, index[None])
    _, second = step(learner, words, data, index[None])

    assert abs(float(first["loss"][0] - second["loss"][0])) > 1e-3
