"""Steps by gradients of only the rows that a batch reads equal those by gradients of whole tables, for Adam and SGD."""

import jax
import numpy as np
import optax
import pytest

from mednli_jax.corpora.arrays import Prepared
from mednli_jax.corpora.batching import Layout
from mednli_jax.models import table
from mednli_jax.tasks.cloze import ClozeTask
from mednli_jax.training import optim
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import Program
from mednli_jax.training.state import init_learner

WORDS, TYPES, DIM, WIDTH, QUERIES = 400, 150, 6, (12, 5), 4
HOW = {
    "adam": {"learning_rate": 0.01, "clip": 0.05},
    "sgd": {"learning_rate": 0.5, "clip": 0.05, "optimizer": "sgd"},
}


def arrays():
    """Four passages of 5 to 12 tokens, each with three candidates and a query. Some words occur often, others never."""
    random = np.random.default_rng(0)
    lengths = np.array([5, 12, 7, 9])
    starts, three = np.append(0, np.cumsum(lengths)), np.arange(0, 13, 3)
    return {
        "passage": random.integers(2, 30, lengths.sum()).astype(np.int32),
        "passage_start": starts,
        "candidate_type": random.integers(0, 9, 12).astype(np.int32),
        "candidate_length": np.ones(12, np.int32),
        "candidate_type_start": three,
        "position": np.concatenate([np.sort(random.permutation(n)[:3]) for n in lengths]).astype(np.int32),
        "position_candidate": np.tile(np.arange(3, dtype=np.int32), 4),
        "position_start": three,
        "query": random.integers(2, 30, (QUERIES, WIDTH[1])).astype(np.int32),
        "query_length": np.array([5, 3, 4, 5], np.int32),
        "query_passage": np.arange(QUERIES, dtype=np.int32),
        "blank": np.ones(QUERIES, np.int32),
        "gold": np.array([0, 2, 1, 0], np.int32),
    }


def vectors(words=WORDS):
    return np.random.default_rng(1).normal(size=(words, DIM)).astype(np.float32)


def trained(name, optimizer, devices=1, seeds=(0, 3), steps=5, words=WORDS):
    """(learner, losses, ...) after steps over all queries; the last row is padding."""
    devices, task = Devices(jax.local_devices()[:devices]), ClozeTask()
    table_VD = vectors(words)
    fields = {"hidden_size": 3, "dropout": 0.3}
    data = task.resident(Prepared(None, {}, arrays(), table_VD, {}))
    models = [table.build(name, fields, num_types=TYPES, axis_name=axis) for axis in (None, devices.axis_name)]
    first = task.to_batch(data, np.zeros((1, 1), np.int32), Layout.full(1, WIDTH, joint=False))
    learner = init_learner(models[0], optimizer, seeds, first, task.frozen((), table_VD))
    program = Program(models[1], task, devices, devices.replicate(task.frozen((), table_VD)), devices.replicate(data))
    program.optimizer, learner = optimizer, devices.replicate(learner)
    index = np.tile(np.array([[0], [1], [2], [-1]], np.int32), (len(seeds), 1, 1))
    layout, losses = Layout.full(QUERIES // devices.count, WIDTH, joint=False), []
    for _ in range(steps):
        learner, sums = program.train(layout, learner, index)
        losses.append(np.asarray(sums["loss"]))
    devices.check_replicas(learner.params)
    return jax.tree.map(np.asarray, learner), np.array(losses), program


def whole(optimizer):
    """The same optimiser with gradients of whole tables."""
    return optax.GradientTransformationExtraArgs(optimizer.init, optimizer.update)


@pytest.mark.parametrize(("name", "how"), [("ga_reader", "adam"), ("sa_reader", "sgd"), ("sa_reader", "adam")])
def test_training_is_that_of_whole_tables(name, how):
    optimizer = optim.build_optimizer(**HOW[how])
    by_rows, losses, _ = trained(name, optimizer)
    expected, of_whole, _ = trained(name, whole(optimizer))
    np.testing.assert_allclose(losses, of_whole, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), by_rows, expected)
    moved = (abs(by_rows.params["embedding"]["vectors"] - vectors()) > 1e-4).any(axis=-1)
    assert 0 < moved.sum() < 60
    if how == "sgd":
        again, repeated, _ = trained(name, optimizer)
        np.testing.assert_array_equal(losses, repeated)
        jax.tree.map(np.testing.assert_array_equal, again, by_rows)
        on_two, others, _ = trained(name, optimizer, devices=2)
        np.testing.assert_allclose(losses, others, atol=1e-5)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), on_two.params, by_rows.params)


@pytest.mark.parametrize("settings", [{"momentum": 0.5}, {"weight_decay": 0.1}, {"accumulate": 2}])
@pytest.mark.parametrize("name", ["sgd", "amsgrad", "adamw"])
def test_what_is_of_every_row_takes_whole_tables(name, settings):
    assert not isinstance(optim.build_optimizer(learning_rate=0.1, optimizer=name, **settings), optim.ByRows)


def test_a_step_needs_no_room_for_a_second_table():
    """A step needs no second table for a gradient or for copies of parameters and moments."""
    optimizer, large = optim.build_optimizer(**HOW["adam"]), 100 * WORDS
    compiled = trained("ga_reader", optimizer, seeds=(0,), steps=1, words=large)[2].compiled
    assert compiled[0].memory_analysis().temp_size_in_bytes < large * DIM * 4 / 2
