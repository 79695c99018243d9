"""Steps by gradients of only the rows that a batch reads equal those by gradients of whole tables,
for Adam and SGD."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support import models

from mednli_jax.data.batching import Layout
from mednli_jax.models import table
from mednli_jax.training import optim
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import Program
from mednli_jax.training.state import init_learner

WORDS, DIM = 40_000, 6
HOW = {
    "adam": {"learning_rate": 0.01, "clip": 0.05},
    "sgd": {"learning_rate": 0.5, "clip": 0.05, "optimizer": "sgd"},
}


VECTORS = np.random.default_rng(1).normal(size=(WORDS, DIM)).astype(np.float32)


def trained(name, optimizer, seeds=(0, 3)):
    """(learner, losses, program) after two steps over three queries; the last row is padding."""
    corpus, device = models.queries(), Devices(jax.local_devices()[:1])
    fields = {"hidden_size": 3, "dropout": 0.3, **({"hops": 1} if name == "ga_reader" else {})}
    model = table.entry(name).build(fields, num_types=models.TYPES)
    frozen, data = corpus.task.frozen(VECTORS), jax.tree.map(jnp.asarray, corpus.data)
    first = corpus.task.to_batch(
        data, np.zeros((1, 1), np.int32), Layout.full(1, corpus.width, joint=False)
    )
    learner = init_learner(model, optimizer, seeds, first, frozen)
    program = Program(model, corpus.task, device, frozen, data, optimizer)
    index = np.tile(np.array([[0], [8], [16], [-1]], np.int32), (len(seeds), 1, 1))
    layout, losses = Layout.full(4, corpus.width, joint=False), []
    for _ in range(2):
        learner, sums = program.train(layout, learner, index)
        losses.append(np.asarray(sums["loss"]))
    return jax.tree.map(np.asarray, learner), np.array(losses), program


def whole(optimizer):
    """The same optimiser with gradients of whole tables."""
    return optax.GradientTransformationExtraArgs(optimizer.init, optimizer.update)


CASES = [
    ("sa_reader", "adam"),
    ("sa_reader", "sgd"),
    pytest.param("ga_reader", "adam", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "how"), CASES)
def test_training_is_that_of_whole_tables_and_needs_no_room_for_a_second_one(name, how):
    """Neither a gradient nor a copy of parameters and moments takes the room of a table."""
    optimizer = optim.build_optimizer(optim.Options(**HOW[how]))
    by_rows, losses, program = trained(name, optimizer)
    expected, of_whole, _ = trained(name, whole(optimizer))
    np.testing.assert_allclose(losses, of_whole, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), by_rows, expected)
    moved = (abs(by_rows.params["embedding"]["vectors"] - VECTORS) > 1e-4).any(axis=-1)
    assert 0 < moved.sum() < 60
    assert program.compiled[0].memory_analysis().temp_size_in_bytes < WORDS * DIM * 4 / 2


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_what_is_of_every_row_takes_whole_tables(name):
    assert not isinstance(
        optim.build_optimizer(optim.Options(learning_rate=0.1, optimizer=name, weight_decay=0.1)),
        optim.ByRows,
    )
