"""A step gives the same on one device and on eight, for one seed and for three, in any order and
layout."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models

from mednli_jax.data.batching import Layout
from mednli_jax.models import layers
from mednli_jax.training import optim, state
from mednli_jax.training.devices import Devices
from mednli_jax.training.step import train_step

BATCH, REAL, STEPS = 16, 14, 6
OPTIMIZERS = {  # the others take Adam with L2
    "fasttext": {
        "learning_rate": 8.0,
        "optimizer": "sgd",
        "schedule": "linear",
        "epoch_steps": STEPS,
    },
    "sa_reader": {"learning_rate": 0.5, "optimizer": "sgd", "clip": 1.0},
}
MODELS = ("bow", "infersent-replace", "esim-bias", "bert", "fasttext", "ga_reader", "sa_reader")
QUICK = ("bow", "sa_reader")
FIELDS = {"bert": {"layers": 1, "dropout": 0.3}, "fasttext": {}}  # the others have dropout alone


@functools.cache
def plan(seeds, shuffled=False):
    """Rows [steps, S, 16, 1]: 14 of 24 and two of padding. Where shuffled, some devices hold much
    padding."""
    index = np.full((STEPS, len(seeds), BATCH, 1), -1, np.int32)
    for step in range(STEPS):
        for place, seed in enumerate(seeds):
            rows = np.random.default_rng([seed, step]).permutation(models.ROWS)[:REAL]
            at = (
                np.random.default_rng(step).permutation(BATCH)[:REAL]
                if shuffled
                else np.arange(REAL)
            )
            index[step, place, at, 0] = rows
    return index


def trained(name, seeds, *, count=1, tight=False, learning_rate=1e-2):
    """(losses [steps, S], parameters) of steps in float64 with dropout, on `count` devices."""
    corpus, devices = models.corpus_of(name), Devices(jax.local_devices()[:count])
    assert devices.count == count
    fields = FIELDS.get(name, {"dropout": 0.3})
    optimizer = optim.build_optimizer(
        optim.Options(
            **OPTIMIZERS.get(name, {"learning_rate": learning_rate, "weight_decay": 1e-6})
        )
    )
    model = models.build(name, **fields, axis_name=devices.axis_name)
    index, layout = (
        plan(seeds, tight),
        Layout.full(BATCH // count, corpus.width, joint=corpus.joint),
    )
    if tight:
        layout = models.layout_for(corpus, index, devices=count, more=2)
    data, words = jax.tree.map(jnp.asarray, (corpus.data, models.words_of(name)))
    one = corpus.task.to_batch(
        data, jnp.zeros((1, 1), jnp.int32), Layout.full(1, corpus.width, joint=corpus.joint)
    )
    learner = state.init_learner(models.build(name, **fields), optimizer, seeds, one, words)
    params, stats = models.as_type((learner.params, learner.batch_stats), np.float64)
    opt_state = jax.vmap(optimizer.init)(params)
    learner = devices.replicate(
        learner.replace(params=params, batch_stats=stats, opt_state=opt_state)
    )
    words, data = devices.replicate(models.as_type(words, np.float64)), devices.replicate(data)
    body = devices.map(
        train_step(model, corpus.task, optimizer, layout, devices.axis_name), reduced=True
    )
    losses = []
    for rows in index:
        learner, sums = body(learner, words, data, devices.split(rows))
        assert np.asarray(sums["count"]).tolist() == [REAL] * len(seeds)
        losses.append(np.asarray(sums["loss"]) / REAL)
    devices.check_replicas(learner.params)
    assert np.asarray(learner.step).tolist() == [STEPS] * len(seeds)
    return np.array(losses), jax.tree.map(np.asarray, learner.params)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in MODELS]
)
def test_devices_seeds_order_and_layout_do_not_change_training(name):
    """Three seeds on one device, computed to the end, are compared with eight devices, and with a
    seed alone for two.

    The eight devices get the rows in another order, on a staircase of their own and with more
    padding.
    """
    seeds = (0, 1, 5)
    with jax.enable_x64(True):
        losses, params = trained(name, seeds)
        on_eight, others = trained(name, seeds, count=8, tight=True)
        alone = trained(name, seeds[2:]) if name in ("bow", "fasttext") else None
    assert losses.dtype == np.float64
    np.testing.assert_allclose(on_eight, losses, rtol=0, atol=1e-8)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6), others, params)
    if alone:
        np.testing.assert_allclose(alone[0][:, 0], losses[:, 2], rtol=0, atol=1e-8)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a[0], b[2], rtol=0, atol=1e-6), alone[1], params
        )
    # Equal losses prove nothing if the steps do nothing or the seeds do not differ.
    assert (abs(losses[-1] - losses[0]) > 2e-4).all()
    assert abs(losses[-1, 0] - losses[-1, 1]) > 1e-6


class Dropped(nn.Module):
    """Logits of ones behind dropout."""

    @nn.compact
    def __call__(self, batch, *, train):
        ones = jnp.ones((len(batch.mask), 8))
        return layers.Linear(3)(layers.RowDropout(0.5)(ones, batch.row_key, train=train))


def test_each_step_drops_other_parts_of_the_same_rows():
    corpus, model, optimizer = (
        models.pairs(),
        Dropped(),
        optim.build_optimizer(optim.Options(learning_rate=0.0)),
    )
    layout, words = Layout.full(BATCH, corpus.width), models.words_of("bow")
    data, index = jax.tree.map(jnp.asarray, corpus.data), np.arange(BATCH)[:, None]
    learner = state.init_learner(
        model, optimizer, (0,), corpus.task.to_batch(data, index, layout), words
    )
    body, losses = jax.jit(train_step(model, corpus.task, optimizer, layout)), []
    for _ in range(2):
        learner, sums = body(learner, words, data, index[None])
        losses.append(float(sums["loss"][0]))
    assert abs(losses[0] - losses[1]) > 1e-3


def test_drifted_replicas_are_noticed():
    devices = Devices(jax.local_devices()[:2])
    same = devices.replicate({"w": jnp.arange(4.0)})
    devices.check_replicas(same)
    shards = [jax.device_put(jnp.arange(4.0) + i, d) for i, d in enumerate(devices.all)]
    drifted = jax.make_array_from_single_device_arrays((4,), same["w"].sharding, shards)
    with pytest.raises(RuntimeError, match="copies"):
        devices.check_replicas({"w": drifted})
