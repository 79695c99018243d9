"""The train step of every model lowers for CPU, CUDA and TPU on any machine, because `jax.export`
needs no device."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from support import random_pairs

from mednli_jax.data.batching import Batches, BatchPlan
from mednli_jax.models import table
from mednli_jax.nli.task import NLITask, frozen
from mednli_jax.training import optim, state
from mednli_jax.training.step import predict_step, train_step

PLATFORMS = ("cpu", "cuda", "tpu")
MODELS = {
    "bow-bias": ("bow", {"knowledge": "bias"}),
    "infersent-gru": ("infersent", {"cell": "gru", "knowledge": "replace"}),
    "esim-bias": ("esim", {"knowledge": "bias", "dropout": 0.5}),
    "fasttext": ("fasttext", {}),
    "bert": ("bert", {}),
}
# Sizes and the optimiser of each model; models without an entry take those of None.
_BERT = {
    "vocab_size": 64,
    "hidden_size": 8,
    "layers": 2,
    "attention_heads": 2,
    "intermediate_size": 8,
    "positions": 32,
}
SMALL = {None: {"hidden_size": 8}, "fasttext": {"dim": 8, "buckets": 64}, "bert": _BERT}
OPTIMIZERS = {
    None: {"weight_decay": 1e-6, "clip": 1.0},
    "fasttext": {"optimizer": "sgd", "schedule": "linear"},
    "bert": {"optimizer": "adamw", "schedule": "warmup_linear", "weight_decay": 0.01},
}


QUICK = [("esim-bias", 2), ("fasttext", 1)]
CASES = [
    pytest.param(name, 2, marks=() if (name, 2) in QUICK else pytest.mark.slow) for name in MODELS
]


@pytest.mark.parametrize(("name", "seeds"), [*CASES, ("fasttext", 1)])
def test_train_and_predict_steps_lower_for_every_platform(name, seeds):
    model, fields = MODELS[name]
    small, how = (choice.get(model, choice[None]) for choice in (SMALL, OPTIMIZERS))
    model = table.entry(model).build({**small, **fields}, longest_path=random_pairs.LONGEST)
    task, optimizer = NLITask(), optim.build_optimizer(optim.Options(learning_rate=1e-3, **how))
    data = {key: jnp.asarray(value) for key, value in random_pairs.arrays().items()}
    vectors = frozen(random_pairs.vectors())
    length = tuple(np.asarray(data[f"{side}_length"]) for side in ("premise", "hypothesis"))
    tokens = tuple(np.asarray(data[side]) for side in ("premise", "hypothesis"))
    width = tuple(side.shape[1] for side in tokens)
    plan = BatchPlan(8, width, seeds=tuple(range(seeds)), epochs=2)
    batches = Batches(*length, plan, tokens=tokens)
    layout, index = batches.epoch(1, range(seeds))[0]
    assert layout.words  # the shared projection of words is lowered, too
    first = task.to_batch(data, jnp.asarray(index[0]), layout)
    learner = jax.eval_shape(
        lambda: state.init_learner(model, optimizer, tuple(range(seeds)), first, vectors)
    )
    for body, carried, rows in (
        (train_step(model, task, optimizer, layout), learner, index),
        (predict_step(model, task, layout), learner.variables, index[0]),
    ):
        flat, tree = jax.tree.flatten(carried)

        def call(
            flat, vectors, data, rows, body=body, tree=tree
        ):  # export accepts plain containers only
            return jax.tree.leaves(body(jax.tree.unflatten(tree, flat), vectors, data, rows))

        exported = jax.export.export(jax.jit(call), platforms=PLATFORMS)(flat, vectors, data, rows)
        assert exported.platforms == PLATFORMS
        assert b"while" in exported.mlir_module_serialized or name.split("-")[0] in (
            "bow",
            "fasttext",
            "bert",
        )
