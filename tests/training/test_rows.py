"""Steps by the gradients of the rows that a batch reads: those of whole tables, by Adam and by SGD."""

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
    "adam, no clip": {"learning_rate": 0.01},
    "adam, halving": {"learning_rate": 0.01, "clip": 0.05, "schedule": "halving", "epoch_steps": 1, "epochs": 9},
    "sgd": {"learning_rate": 0.5, "clip": 0.05, "optimizer": "sgd"},
}


def arrays():
    """Four passages of 5 to 12 tokens with three candidates each, a query each; words come again, others never."""
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


def vectors():
    return np.random.default_rng(1).normal(size=(WORDS, DIM)).astype(np.float32)


def trained(name, optimizer, devices=1, seeds=(0, 3), steps=5):
    """(learner, losses) after steps over all queries, the last of which is padding."""
    devices, task = Devices(jax.local_devices()[:devices]), ClozeTask()
    fields = {"hidden_size": 3, "dropout": 0.3}
    data = task.resident(Prepared(None, {}, arrays(), vectors(), {}))
    models = [table.build(name, fields, num_types=TYPES, axis_name=axis) for axis in (None, devices.axis_name)]
    first = task.to_batch(data, np.zeros((1, 1), np.int32), Layout.full(1, WIDTH, joint=False))
    learner = init_learner(models[0], optimizer, seeds, first, task.frozen((), vectors()))
    program = Program(models[1], task, devices, devices.replicate(task.frozen((), vectors())), devices.replicate(data))
    program.optimizer, learner = optimizer, devices.replicate(learner)
    index = np.tile(np.array([[0], [1], [2], [-1]], np.int32), (len(seeds), 1, 1))
    layout, losses = Layout.full(QUERIES // devices.count, WIDTH, joint=False), []
    for _ in range(steps):
        learner, sums = program.train(layout, learner, index)
        losses.append(np.asarray(sums["loss"]))
    devices.check_replicas(learner.params)
    return jax.tree.map(np.asarray, learner), np.array(losses), program


def whole(optimizer):
    """The same optimiser, by gradients of whole tables."""
    return optax.GradientTransformationExtraArgs(optimizer.init, optimizer.update)


@pytest.mark.parametrize("name", ["sa_reader", "ga_reader"])
@pytest.mark.parametrize("how", HOW)
def test_training_is_that_of_whole_tables(name, how):
    optimizer = optim.build_optimizer(**HOW[how])
    by_rows, losses, _ = trained(name, optimizer)
    expected, whole_losses, _ = trained(name, whole(optimizer))
    np.testing.assert_allclose(losses, whole_losses, atol=1e-5)
    for path, leaf in jax.tree.leaves_with_path(expected):
        other = by_rows
        np.testing.assert_allclose(leaf, _at(other, path), atol=2e-5, err_msg=jax.tree_util.keystr(path))
    vectors_SVD = expected.params["embedding"]["vectors"]
    moved = (abs(vectors_SVD - vectors()) > 1e-4).any(axis=-1)
    assert 0 < moved.sum() < 60


def _at(tree, path):
    return dict(jax.tree.leaves_with_path(tree))[path]


@pytest.mark.parametrize("how", ["adam", "sgd"])
def test_devices_agree(how):
    optimizer = optim.build_optimizer(**HOW[how])
    (one, losses, _), (two, others, _) = (trained("sa_reader", optimizer, count) for count in (1, 2))
    np.testing.assert_allclose(losses, others, atol=1e-5)
    for leaf, other in zip(jax.tree.leaves(one.params), jax.tree.leaves(two.params), strict=True):
        np.testing.assert_allclose(leaf, other, atol=2e-5)
    again, repeated, _ = trained("sa_reader", optimizer)
    np.testing.assert_array_equal(losses, repeated)
    jax.tree.map(np.testing.assert_array_equal, one, again)


@pytest.mark.parametrize("settings", [{"momentum": 0.5}, {"weight_decay": 0.1}, {"accumulate": 2}])
@pytest.mark.parametrize("name", ["sgd", "amsgrad", "adamw"])
def test_what_is_of_every_row_takes_whole_tables(name, settings):
    assert not isinstance(optim.build_optimizer(learning_rate=0.1, optimizer=name, **settings), optim.ByRows)


def test_a_step_makes_no_gradient_as_large_as_the_table():
    """Its work space is the same with a table a hundred times as large, but for a number a row."""
    optimizer, sizes = optim.build_optimizer(**HOW["adam"]), []
    global WORDS
    before = WORDS
    try:
        for WORDS in (before, 100 * before):
            (compiled,) = trained("ga_reader", optimizer, seeds=(0,), steps=1)[2].compiled
            sizes.append(compiled.memory_analysis().temp_size_in_bytes)
    finally:
        WORDS = before
    assert sizes[1] - sizes[0] < 100 * before * DIM * 4 / 2
