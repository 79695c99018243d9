"""Padding, other rows, order and layout change neither the logits nor the gradients of any
model."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models

from mednli_jax.data.batching import Layout
from mednli_jax.models.packing import MASKED_ENERGY

QUICK = ("bow", "esim-bias", "fasttext", "bert", "ga_reader")


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 4, 5))
def logits_of(name, layout, train, params, model, noise, index):
    """Logits [24, C] in the order of rows, of the rows `index` [Q, G] in this layout."""
    corpus = models.corpus_of(name)
    data, variables = jax.tree.map(jnp.asarray, (corpus.data, models.variables_of(model, name)))
    batch = corpus.task.to_batch(data, index, layout)
    batch = models.noisy(batch) if noise else batch
    got, _ = model.apply(
        {**variables, "params": params}, batch, train=train, mutable=["batch_stats"]
    )
    got, rows = jnp.where(got <= MASKED_ENERGY / 2, 0.0, got), index.reshape(-1)
    at = jnp.where(rows >= 0, rows, models.ROWS)
    return jnp.zeros((models.ROWS, got.shape[1]), got.dtype).at[at].set(got, mode="drop")


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def gradient_of(name, layout, model, noise, params, index):
    def loss(params):
        logits = logits_of(name, layout, True, params, model, noise, index)
        return (logits * np.random.default_rng(2).normal(size=logits.shape)).sum(), logits

    return jax.grad(loss, has_aux=True)(params)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in models.MODELS]
)
def test_padding_company_order_and_layout_change_nothing(name):
    """Rows computed to the end are compared with a staircase of shared premises or passages, and
    distinct words.

    There some units lack rows, one unit is padding, both sides are wider, and all padding holds
    words. Norms use the statistics of the batch; the comparison with other company uses the running
    ones.
    """
    corpus, model = models.corpus_of(name), models.build(name)
    full, plain = (
        np.arange(models.ROWS)[:, None],
        Layout.full(models.ROWS, corpus.width, joint=corpus.joint),
    )
    units = np.concatenate([corpus.units, np.full((1, models.GROUP), -1)])
    tight = models.layout_for(corpus, units, more=3)
    assert len(tight.sentences) > 1
    with jax.enable_x64(True):
        params = models.variables_of(model, name)["params"]
        expected, logits = gradient_of(name, plain, model, False, params, full)
        found, others = gradient_of(name, tight, model, True, params, units)
        assert logits.dtype == np.float64
        np.testing.assert_allclose(others, logits, rtol=0, atol=1e-10)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9), found, expected
        )
        few = np.array([5, 3, -1, 7, 0, -1, 1, 2])
        together = logits
        if "batch_stats" in models.variables_of(model, name):
            together = logits_of(name, plain, False, params, model, False, full)
        apart = logits_of(
            name, models.layout_for(corpus, few[:, None]), False, params, model, True, few[:, None]
        )
        np.testing.assert_allclose(
            apart[few[few >= 0]], together[few[few >= 0]], rtol=0, atol=1e-10
        )
        assert np.ptp(logits, axis=0).min() > 1e-2  # the logits do depend on the row
        for path, leaf in jax.tree_util.tree_leaves_with_path(expected):
            at = jax.tree_util.keystr(path)  # a pooling behind ReLU may have no slope
            assert abs(leaf).max() > 1e-6 or "pooling" in at, at
