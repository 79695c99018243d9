"""What `config.train.precision` changes, and what it leaves unchanged."""

import jax
import jax.numpy as jnp
import made_up_models as made
import numpy as np
import pytest

from mednli_jax.data.batching import Layout
from mednli_jax.training import optim, program, state
from mednli_jax.training.devices import Devices
from mednli_jax.training.program import Program
from mednli_jax.training.step import train_step

STEPS = 12


def trained(setting, name="bow"):
    """(learner after some steps on one batch, loss of each step, logits of the batch)."""
    corpus, device, seeds = made.corpus_of(name), Devices(jax.local_devices()[:1]), (0, 1)
    data, words = jax.tree.map(jnp.asarray, (corpus.data, made.words_of(name)))
    optimizer = optim.build_optimizer(learning_rate=0.01)
    made_program = Program(made.build(name), corpus.task, device, words, data, optimizer, setting)
    layout, index = Layout.full(8, corpus.width), np.tile(np.arange(8, dtype=np.int32)[:, None], (2, 1, 1))
    learner, losses = made_program.draw(layout, seeds), []
    for _ in range(STEPS):
        learner, sums = made_program.train(layout, learner, index)
        losses.append(np.asarray(sums["loss"]) / np.asarray(sums["count"]))
    return learner, np.array(losses), np.asarray(made_program.predict(layout, learner.variables, index[0]))


def test_float32_is_a_cpus_default_and_bfloat16_is_near_it():
    (default, _, _), (full, losses, logits) = trained("default"), trained("float32")
    jax.tree.map(np.testing.assert_array_equal, default, full)
    learner, near, logits_near = trained("bfloat16")
    kinds = {leaf.dtype for leaf in jax.tree.leaves((learner.params, learner.opt_state))}
    assert jnp.dtype("bfloat16") not in kinds
    assert jnp.dtype("float32") in kinds
    assert not np.array_equal(near, losses)
    np.testing.assert_allclose(near[0], losses[0], rtol=0.02)
    np.testing.assert_allclose(near, losses, rtol=0.15)
    assert near[-1].mean() < near[0].mean()
    assert logits_near.dtype == np.float32
    assert np.abs(logits_near - logits).mean() < 0.1 * np.abs(logits).mean() + 0.02


QUICK = [("bfloat16", "bow", "cpu"), ("bfloat16", "infersent", "gpu"), ("float32", "esim-bias", "cpu")]
CASES = [("bfloat16", name, "cpu") for name in ("esim-bias", "fasttext", "bert", "ga_reader", "sa_reader")]
CASES = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in [*CASES, ("bfloat16", "ga_reader", "gpu")])]


@pytest.mark.parametrize(("setting", "name", "platform"), CASES)
def test_every_product_of_both_passes_takes_operands_of_the_setting(setting, name, platform):
    corpus, model, optimizer = made.corpus_of(name), made.build(name), optim.build_optimizer(learning_rate=1e-3)
    model = model if platform == "cpu" else model.clone(platform=platform)
    layout, index = Layout.full(4, corpus.width, joint=corpus.joint), np.arange(4, dtype=np.int32)[:, None]
    data, words = jax.tree.map(jnp.asarray, (corpus.data, made.words_of(name)))
    first = corpus.task.to_batch(data, index, layout)
    learner = jax.eval_shape(lambda: state.init_learner(model, optimizer, (0,), first, words))
    with program.precision_context(setting):
        body = jax.jit(train_step(model, corpus.task, optimizer, layout))
        text = body.lower(learner, words, data, index[None]).as_text()
    products = [line.rpartition(":")[2] for line in text.splitlines() if "dot_general" in line]
    assert products
    assert {line.partition("->")[0].count("bf16") for line in products} == {2 if setting == "bfloat16" else 0}
    if name != "bert":  # whose attention has states of 16 bits
        assert not any("bf16" in line.partition("->")[2] for line in products)
