"""Steps by gradients of only the rows that a batch reads equal those by gradients of whole tables,
for Adam and SGD."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support import models
from support.trees import assert_near

from mednli_jax.data.batching import Layout
from mednli_jax.models import table
from mednli_jax.training import optim
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import Program

WORDS = 40_000
DIM = 6
VECTORS = np.random.default_rng(1).normal(size=(WORDS, DIM)).astype(np.float32)
SEEDS = (0, 3)
OPTIONS = {
    "adam": optim.Options(learning_rate=0.01, clip=0.05),
    "sgd": optim.Options(learning_rate=0.5, clip=0.05, optimizer="sgd"),
}
READER_FIELDS = {"ga_reader": {"hops": 1}, "sa_reader": {}}


def trained(name, optimizer):
    """(learner, losses, program) after two steps over three queries; the last row is padding."""
    corpus = models.queries()
    fields = {"hidden_size": 3, "dropout": 0.3, **READER_FIELDS[name]}
    program = Program(
        table.entry(name).build(fields, num_types=models.TYPES),
        corpus.task,
        Devices(jax.local_devices()[:1]),
        corpus.task.frozen(VECTORS),
        jax.tree.map(jnp.asarray, corpus.data),
        optimizer,
    )
    layout = Layout.full(4, corpus.width, joint=False)
    learner = program.draw(layout, SEEDS)
    losses = []
    index = np.tile(np.array([[0], [8], [16], [-1]], np.int32), (len(SEEDS), 1, 1))
    for _ in range(2):
        learner, sums = program.train(layout, learner, index)
        losses.append(np.asarray(sums["loss"]))
    return jax.tree.map(np.asarray, learner), np.array(losses), program


@pytest.mark.parametrize(
    "reader, optimizer_name",
    [
        ("sa_reader", "adam"),
        ("sa_reader", "sgd"),
        pytest.param("ga_reader", "adam", marks=pytest.mark.slow),
    ],
)
def test_gradients_of_the_rows_of_a_batch_train_as_whole_tables_do_without_room_for_a_second_one(
    reader, optimizer_name
):
    """Neither a gradient nor a copy of parameters and moments takes the room of a table."""
    by_rows = optim.build_optimizer(OPTIONS[optimizer_name])
    of_tables = optax.GradientTransformationExtraArgs(by_rows.init, by_rows.update)

    learner, losses, program = trained(reader, by_rows)
    expected, expected_losses, _ = trained(reader, of_tables)

    np.testing.assert_allclose(losses, expected_losses, atol=1e-5)
    assert_near(learner, expected, atol=2e-5)
    moved = (abs(learner.params["embedding"]["vectors"] - VECTORS) > 1e-4).any(axis=-1)
    assert 0 < moved.sum() < 60
    assert program.compiled[0].memory_analysis().temp_size_in_bytes < WORDS * DIM * 4 / 2


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_with_weight_decay_whole_tables_of_vectors_are_updated(name):
    options = optim.Options(learning_rate=0.1, optimizer=name, weight_decay=0.1)

    assert not isinstance(optim.build_optimizer(options), optim.ByRows)
