"""What `config.train.precision` changes, and what it leaves unchanged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models
from support.commands import SMALL, at, read_json, succeeds
from support.pair_files import write_pairs

from mednli_jax import load_run
from mednli_jax.data.batching import Layout
from mednli_jax.training import optim, program, state
from mednli_jax.training.step import train_step

CASES = [
    ("bfloat16", "bow", "cpu"),
    ("bfloat16", "infersent", "gpu"),
    ("float32", "esim-bias", "cpu"),
]
SLOW = [
    *(("bfloat16", name, "cpu") for name in ("esim-bias", "fasttext", "encoder", "sa_reader")),
    *(("bfloat16", "ga_reader", platform) for platform in ("cpu", "gpu")),
]


@pytest.mark.parametrize(
    "setting, name, platform",
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_every_product_of_both_passes_takes_operands_of_the_setting(setting, name, platform):
    precision = program.PRECISIONS[setting]
    corpus = models.corpus_of(name)
    model = models.build(name).clone(product_dtype=precision.product_dtype)
    model = model if platform == "cpu" else model.clone(platform=platform)
    optimizer = optim.build_optimizer(optim.Options(learning_rate=1e-3))
    layout = Layout.full(4, corpus.width, joint=corpus.joint)
    index = np.arange(4, dtype=np.int32)[:, None]
    data, words = jax.tree.map(jnp.asarray, (corpus.data, models.words_of(name)))
    first = corpus.task.to_batch(data, index, layout)
    learner = jax.eval_shape(lambda: state.init_learner(model, optimizer, (0,), first, words))

    with precision.tracing():
        step = jax.jit(train_step(model, corpus.task, optimizer, layout))
        program_text = step.lower(learner, words, data, index[None]).as_text()
        after, _ = jax.eval_shape(step, learner, words, data, index[None])

    types = [line.rpartition(":")[2] for line in program_text.splitlines() if "dot_general" in line]
    operands_of_16_bits = {text.partition("->")[0].count("bf16") for text in types}
    assert operands_of_16_bits == {2 if setting == "bfloat16" else 0}
    if name != "encoder":  # whose attention has states of 16 bits
        assert not any("bf16" in text.partition("->")[2] for text in types)
    jax.tree.map(lambda old, new: np.testing.assert_equal(new.dtype, old.dtype), learner, after)


def test_training_in_bfloat16_is_near_that_in_float32_and_keeps_weights_of_32_bits(tmp_path):
    """The run is opened again and scores as it did."""
    write_pairs(tmp_path / "data" / "mednli")
    small = (
        "--config=bow:mednli",
        "--config.vectors.path=",
        *SMALL,
        "--config.train.epochs=1",
    )

    losses = {}
    with at(tmp_path) as patch:
        patch.setenv("MEDNLI_JAX_DATA", str(tmp_path / "data"))
        for precision in ("float32", "bfloat16"):
            flags = (f"--config.train.precision={precision}", f"--workdir={precision}")
            succeeds("train", *small, *flags)
            losses[precision] = read_json(precision, "result.json")["dev"]["loss"]["per_seed"]
        run = load_run(tmp_path / "bfloat16")
        scores, _ = run.score("dev")

    assert 0 < abs(np.subtract(*losses.values())).max() < 0.05
    assert {leaf.dtype for leaf in jax.tree.leaves(run.variables)} == {np.dtype("float32")}
    np.testing.assert_allclose(scores["loss"]["per_seed"], losses["bfloat16"], rtol=1e-5)
