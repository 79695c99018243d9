"""The train step of every model lowers for CPU, CUDA and TPU on any machine, because `jax.export`
needs no device."""

from typing import NamedTuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from support import random_pairs

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.batching import Batches, BatchSettings
from mednli_jax.models import table
from mednli_jax.nli.scorer import NLIScorer
from mednli_jax.training import optim, state
from mednli_jax.training.scorer import frozen
from mednli_jax.training.step import predict_step, train_step

PLATFORMS = ("cpu", "cuda", "tpu")
ADAM = {"weight_decay": 1e-6, "clip": 1.0}
BERT = {
    "vocab_size": 64,
    "hidden_size": 8,
    "layers": 2,
    "attention_heads": 2,
    "intermediate_size": 8,
    "positions": 32,
}


class Case(NamedTuple):
    model: str
    fields: dict
    optimizer: dict = ADAM
    seeds: int = 2
    has_loop: bool = False


SGD = {"optimizer": "sgd", "schedule": "linear"}
ADAMW = {"optimizer": "adamw", "schedule": "warmup_linear", "weight_decay": 0.01}
FASTTEXT = {"dim": 8, "buckets": 64}
GRU = {"hidden_size": 8, "cell": "gru", "knowledge": "replace"}
ESIM = {"hidden_size": 8, "knowledge": "bias", "dropout": 0.5}
CASES = {
    "esim-bias": Case("esim", ESIM, has_loop=True),
    "fasttext of one seed": Case("fasttext", FASTTEXT, SGD, seeds=1),
}
SLOW = {
    "bow-bias": Case("bow", {"hidden_size": 8, "knowledge": "bias"}),
    "infersent-gru": Case("infersent", GRU, has_loop=True),
    "fasttext": Case("fasttext", FASTTEXT, SGD),
    "encoder": Case("encoder", BERT, ADAMW),
}


@pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=name) for name, case in CASES.items()),
        *(pytest.param(case, id=name, marks=pytest.mark.slow) for name, case in SLOW.items()),
    ],
)
def test_train_and_predict_steps_lower_for_every_platform(case):
    model = table.entry(case.model).build(case.fields, longest_path=random_pairs.LONGEST)
    task = NLIScorer()
    optimizer = optim.build_optimizer(optim.Options(learning_rate=1e-3, **case.optimizer))
    data = jax.tree.map(jnp.asarray, random_pairs.arrays())
    vectors = frozen(random_pairs.vectors())
    tokens = tuple(np.asarray(data[side]) for side in SIDES)
    lengths = (np.asarray(data[f"{side}_length"]) for side in SIDES)
    seeds = tuple(range(case.seeds))
    width = (tokens[0].shape[1], tokens[1].shape[1])
    batches = Batches(*lengths, BatchSettings(8, width, seeds=seeds, epochs=2), tokens=tokens)
    layout, index = batches.epoch(1, seeds)[0]
    assert layout.words  # the shared projection of words is lowered, too
    first = task.to_batch(data, jnp.asarray(index[0]), layout)
    learner = jax.eval_shape(lambda: state.init_learner(model, optimizer, seeds, first, vectors))

    for body, carried, rows in (
        (train_step(model, task, optimizer, layout), learner, index),
        (predict_step(model, task, layout), learner.variables, index[0]),
    ):
        leaves, tree = jax.tree.flatten(carried)

        def step(leaves, *arguments, body=body, tree=tree):  # export takes plain containers only
            return jax.tree.leaves(body(jax.tree.unflatten(tree, leaves), *arguments))

        export = jax.export.export(jax.jit(step), platforms=PLATFORMS)
        exported = export(leaves, vectors, data, rows)
        assert exported.platforms == PLATFORMS
        assert not case.has_loop or b"while" in exported.mlir_module_serialized
