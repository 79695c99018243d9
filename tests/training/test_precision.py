"""What `config.train.precision` changes, and what it leaves unchanged."""

import jax
import jax.numpy as jnp
import made_up_models as made
import numpy as np
import pytest

from mednli_jax import defaults
from mednli_jax.benchmarking import ours, workload
from mednli_jax.data.batching import Layout
from mednli_jax.run import experiment_of
from mednli_jax.training import optim, precision, state
from mednli_jax.training.devices import Devices
from mednli_jax.training.loop import Trainer
from mednli_jax.training.step import train_step

STEPS = 12
SIZES = {"bert": {"hidden_size": 16, "layers": 2, "attention_heads": 2, "intermediate_size": 16, "dropout": 0.1}}


def trained(model, setting):
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
    asked, prepared = experiment_of(config), ours.prepared_of(work)
    program, batches = asked.program_over(prepared, devices=Devices(jax.local_devices()[:1]))
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


CASES = [(name, "cpu") for name in ("bow", "infersent", "esim-bias", "fasttext", "bert", "ga_reader", "sa_reader")]


@pytest.mark.parametrize(("name", "platform"), [*CASES, ("infersent", "gpu"), ("ga_reader", "gpu")])
@pytest.mark.parametrize("setting", ["bfloat16", "float32"])
def test_every_product_of_both_passes_takes_operands_of_the_setting(name, platform, setting):
    corpus, model, optimizer = made.corpus_of(name), made.build(name), optim.build_optimizer(learning_rate=1e-3)
    model = model if platform == "cpu" else model.clone(platform=platform)
    layout, index = Layout.full(4, corpus.width, joint=corpus.joint), np.arange(4, dtype=np.int32)[:, None]
    data, words = jax.tree.map(jnp.asarray, (corpus.data, made.words_of(name)))
    first = corpus.task.to_batch(data, index, layout)
    learner = jax.eval_shape(lambda: state.init_learner(model, optimizer, (0,), first, words))
    with precision.context(setting):
        body = jax.jit(train_step(model, corpus.task, optimizer, layout))
        text = body.lower(learner, words, data, index[None]).as_text()
    products = [line.rpartition(":")[2] for line in text.splitlines() if "dot_general" in line]
    assert products
    assert {line.partition("->")[0].count("bf16") for line in products} == {2 if setting == "bfloat16" else 0}
    if name != "bert":  # whose attention has states of 16 bits
        assert not any("bf16" in line.partition("->")[2] for line in products)


def test_a_processor_without_16_bit_products_is_told(monkeypatch):
    monkeypatch.setattr(precision, "_flags", set)
    assert precision.remark("bfloat16", "cpu")
    assert not precision.remark("bfloat16", "gpu")
    assert not precision.remark("float32", "cpu")
    monkeypatch.setattr(precision, "_flags", lambda: {"avx512f", "amx_bf16"})
    assert not precision.remark("bfloat16", "cpu")
