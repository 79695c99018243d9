"""What `config.train.precision` changes, and what it leaves unchanged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models

from mednli_jax.data.batching import Layout
from mednli_jax.training import optim, program, state
from mednli_jax.training.step import train_step

QUICK = [
    ("bfloat16", "bow", "cpu"),
    ("bfloat16", "infersent", "gpu"),
    ("float32", "esim-bias", "cpu"),
]
CASES = [
    ("bfloat16", name, "cpu")
    for name in ("esim-bias", "fasttext", "bert", "ga_reader", "sa_reader")
]
CASES = [
    *QUICK,
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in [*CASES, ("bfloat16", "ga_reader", "gpu")]
    ),
]


@pytest.mark.parametrize(("setting", "name", "platform"), CASES)
def test_every_product_of_both_passes_takes_operands_of_the_setting(setting, name, platform):
    corpus, model, optimizer = (
        models.corpus_of(name),
        models.build(name),
        optim.build_optimizer(optim.Options(learning_rate=1e-3)),
    )
    precision = program.PRECISIONS[setting]
    model = model.clone(product_dtype=precision.product_dtype)
    model = model if platform == "cpu" else model.clone(platform=platform)
    layout, index = (
        Layout.full(4, corpus.width, joint=corpus.joint),
        np.arange(4, dtype=np.int32)[:, None],
    )
    data, words = jax.tree.map(jnp.asarray, (corpus.data, models.words_of(name)))
    first = corpus.task.to_batch(data, index, layout)
    learner = jax.eval_shape(lambda: state.init_learner(model, optimizer, (0,), first, words))
    with precision.tracing():
        body = jax.jit(train_step(model, corpus.task, optimizer, layout))
        text = body.lower(learner, words, data, index[None]).as_text()
        after, _ = jax.eval_shape(body, learner, words, data, index[None])
    jax.tree.map(lambda old, new: np.testing.assert_equal(new.dtype, old.dtype), learner, after)
    products = [line.rpartition(":")[2] for line in text.splitlines() if "dot_general" in line]
    assert products
    assert {line.partition("->")[0].count("bf16") for line in products} == {
        2 if setting == "bfloat16" else 0
    }
    if name != "bert":  # whose attention has states of 16 bits
        assert not any("bf16" in line.partition("->")[2] for line in products)
