"""What `config.train.precision` changes, and what it leaves unchanged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mednli_jax import defaults, experiment
from mednli_jax.benchmarking import ours, workload
from mednli_jax.training import precision
from mednli_jax.training.devices import Devices
from mednli_jax.training.loop import Trainer

STEPS = 12
SIZES = {"bert": {"hidden_size": 16, "layers": 2, "attention_heads": 2, "intermediate_size": 16, "dropout": 0.1}}


def trained(model, setting, count=1):
    """(learner after some steps on one batch, loss of each step, logits of the batch)."""
    config = defaults.cloze(model, "clicr") if model == "ga_reader" else defaults.nli(model, "mednli")
    config.model.update(SIZES.get(model, {"hidden_size": 8}))
    config.seeds, config.train.batch_size, config.train.precision = (0, 1), 8, setting
    config.train.schedule, config.train.learning_rate = "constant", 0.003
    if model == "bert":
        work = workload.made_up_pieces(16, length=12)
    elif model == "ga_reader":
        work = workload.made_up_passages(16, tokens=24, dim=6)
    else:
        work = workload.made_up_pairs(16, dim=6)
    asked, prepared = experiment.of(config), ours.prepared_of(work)
    program, batches = asked.program_over(prepared, devices=Devices(jax.local_devices()[:count]))
    trainer = Trainer(program, asked.settings, prepared.splits, batches, asked.seeds)
    (layout, index), losses = batches["train"].epoch(1, asked.seeds)[0], []
    for _ in range(STEPS):
        trainer.learner, sums = program.train(layout, trainer.learner, index)
        losses.append(np.asarray(sums["loss"]) / np.asarray(sums["count"]))
    logits = program.devices.join(program.predict(layout, trainer.learner.variables, index[0]))
    return trainer.learner, np.array(losses), logits


@pytest.mark.parametrize("model", ["esim", "ga_reader", "bert"])
def test_float32_is_a_cpus_default_and_bfloat16_is_near_it(model):
    (default, _, _), (full, losses, logits) = trained(model, "default"), trained(model, "float32")
    jax.tree.map(np.testing.assert_array_equal, default, full)
    learner, near, logits_near = trained(model, "bfloat16")
    kinds = {leaf.dtype for leaf in jax.tree.leaves((learner.params, learner.opt_state))}
    assert jnp.dtype("bfloat16") not in kinds
    assert jnp.dtype("float32") in kinds
    assert not np.array_equal(near, losses)
    np.testing.assert_allclose(near[0], losses[0], rtol=0.02)
    np.testing.assert_allclose(near, losses, rtol=0.15)
    assert near[-1].mean() < near[0].mean()
    assert logits_near.dtype == np.float32
    assert np.abs(logits_near - logits).mean() < 0.1 * np.abs(logits).mean() + 0.02


def test_products_are_cast_on_several_devices():
    one, two = (trained("bow", "bfloat16", count)[1] for count in (1, 2))
    np.testing.assert_allclose(one[0], two[0], rtol=0.01)


def test_every_product_of_a_body_is_cast_but_those_that_name_their_precision():
    @jax.custom_vjp
    def square(x):
        return x @ x

    square.defvjp(lambda x: (x @ x, x), lambda x, d: (d @ x,))

    def body(x):
        x = jax.lax.scan(lambda c, _: (jnp.tanh(c @ x), None), x, None, length=2)[0]
        x = jax.lax.cond(x.sum() > 0, lambda x: x @ x.T, lambda x: x, x)
        exact = jnp.dot(x, x, precision=jax.lax.Precision.HIGHEST)
        return {"x": square(x) + exact, "d": jax.grad(lambda x: jax.checkpoint(lambda x: (x @ x).sum())(x))(x)}

    x = jnp.ones((4, 4)) / 3
    cast = jax.jit(precision.casting(body))
    products = [line for line in cast.lower(x).as_text().splitlines() if "dot_general" in line]
    assert len(products) > 5
    assert sum("bf16" not in line for line in products) == 1
    found = jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0.05), cast(x), body(x))
    assert found.keys() == {"x", "d"}


def test_a_processor_without_16_bit_products_is_told(monkeypatch):
    monkeypatch.setattr(precision, "_flags", set)
    assert precision.remark("bfloat16", "cpu")
    assert not precision.remark("bfloat16", "gpu")
    assert not precision.remark("float32", "cpu")
    monkeypatch.setattr(precision, "_flags", lambda: {"avx512f", "amx_bf16"})
    assert not precision.remark("bfloat16", "cpu")
