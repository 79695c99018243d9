"""The train step of every model lowers for CPU, CUDA and TPU on any machine: `jax.export` needs no device for it."""

import jax
import jax.export
import jax.numpy as jnp
import made_up
import numpy as np
import pytest

from mednli_jax.data.batching import Batches, Layout
from mednli_jax.experiment import PRECISIONS
from mednli_jax.models import table
from mednli_jax.tasks.nli import NLITask, frozen
from mednli_jax.training import optim, state
from mednli_jax.training.step import predict_step, train_step

PLATFORMS = ("cpu", "cuda", "tpu")
MODELS = {
    "bow": ("bow", {}),
    "infersent": ("infersent", {"knowledge": "replace"}),
    "infersent-gru": ("infersent", {"cell": "gru"}),
    "esim": ("esim", {}),
    "esim-bias": ("esim", {"knowledge": "bias", "dropout": 0.5}),
}


@pytest.mark.parametrize(("name", "seeds"), [*((name, 2) for name in MODELS), ("bow", 1)])
def test_train_and_predict_steps_lower_for_every_platform(name, seeds):
    model, fields = MODELS[name]
    model = table.build(model, {"hidden_size": 8, **fields}, longest_path=made_up.LONGEST)
    task, optimizer = NLITask(), optim.build_optimizer(learning_rate=1e-3, weight_decay=1e-6, clip=1.0)
    data = {key: jnp.asarray(value) for key, value in made_up.arrays().items()}
    vectors = frozen(made_up.vectors())
    length = tuple(np.asarray(data[f"{side}_length"]) for side in ("premise", "hypothesis"))
    tokens = tuple(np.asarray(data[side]) for side in ("premise", "hypothesis"))
    width = tuple(side.shape[1] for side in tokens)
    batches = Batches(*length, batch_size=8, width=width, tokens=tokens, seeds=range(seeds), epochs=2)
    layout, index = batches.epoch(1, range(seeds))[0]
    assert layout.words  # the shared projection of words is lowered too
    first = task.to_batch(data, jnp.asarray(index[0]), layout)
    learner = jax.eval_shape(lambda: state.init_learner(model, optimizer, tuple(range(seeds)), first, vectors))
    for body, carried, rows in (
        (train_step(model, task, optimizer, layout), learner, index),
        (predict_step(model, task, layout), learner.variables, index[0]),
    ):
        flat, tree = jax.tree.flatten(carried)

        def call(flat, vectors, data, rows, body=body, tree=tree):  # export knows plain containers only
            return jax.tree.leaves(body(jax.tree.unflatten(tree, flat), vectors, data, rows))

        exported = jax.export.export(jax.jit(call), platforms=PLATFORMS)(flat, vectors, data, rows)
        assert exported.platforms == PLATFORMS
        assert b"while" in exported.mlir_module_serialized or "bow" in name


def test_precision_reaches_the_matrix_products_of_both_passes():
    """Every product of the step, forward and backward, names 16-bit inputs; without the setting none does."""
    task, optimizer = NLITask(), optim.build_optimizer(learning_rate=1e-3)
    model = table.build("esim", {"hidden_size": 8})
    data, vectors = {key: jnp.asarray(value) for key, value in made_up.arrays().items()}, frozen(made_up.vectors())
    layout = Layout.full(4, (12, 8))
    index = np.arange(4, dtype=np.int32)[None, :, None]
    first = task.to_batch(data, jnp.asarray(index[0]), layout)
    learner = jax.eval_shape(lambda: state.init_learner(model, optimizer, (0,), first, vectors))
    found = {}
    for name, precision in PRECISIONS.items():
        with jax.default_matmul_precision(precision):
            text = jax.jit(train_step(model, task, optimizer, layout)).lower(learner, vectors, data, index).as_text()
        products = [line for line in text.splitlines() if "dot_general" in line]
        found[name] = (len(products), sum("bf16" in line for line in products))
    assert found["default"][0] == found["bfloat16"][0] == found["bfloat16"][1] > 20
    assert found["default"][1] == 0
