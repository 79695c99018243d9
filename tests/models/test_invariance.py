"""Padding, other rows, order and layout change neither the logits nor the gradients of any
model."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models
from support.trees import assert_near

from mednli_jax.data.batching import Layout
from mednli_jax.models.packing import MASKED_ENERGY

QUICK = ("bow", "esim-bias", "fasttext", "encoder", "ga_reader")
SLOW = [name for name in models.MODELS if name not in QUICK]


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 4, 5))
def logits_of(name, layout, train, params, model, noise, index):
    """Logits [24, C] in the order of rows, of the rows `index` [Q, G] in this layout.

    noise: all padding of the texts holds a word.
    """
    corpus = models.corpus_of(name)
    data, variables = jax.tree.map(jnp.asarray, (corpus.data, models.variables_of(model, name)))
    batch = corpus.task.to_batch(data, index, layout)
    batch = models.noisy(batch) if noise else batch
    variables = {**variables, "params": params}
    logits, _ = model.apply(variables, batch, train=train, mutable=["batch_stats"])
    logits = jnp.where(logits <= MASKED_ENERGY / 2, 0.0, logits)
    rows = index.reshape(-1)
    row_or_none = jnp.where(rows >= 0, rows, models.ROWS)
    in_order = jnp.zeros((models.ROWS, logits.shape[1]), logits.dtype)
    return in_order.at[row_or_none].set(logits, mode="drop")


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def gradient_of(name, layout, model, noise, params, index):
    """(gradient of a weighted sum of logits by the parameters, logits) in training."""

    def loss(params):
        logits = logits_of(name, layout, True, params, model, noise, index)
        return (logits * np.random.default_rng(2).normal(size=logits.shape)).sum(), logits

    return jax.grad(loss, has_aux=True)(params)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(
    params=[*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)], scope="module"
)
def name(request):
    return request.param


def tight_layout(name):
    """(groups, their layout): packed segments of shared premises or passages, and distinct words.
    Some groups lack rows, one group is padding, and both sides are wider."""
    corpus = models.corpus_of(name)
    groups = np.concatenate([corpus.groups, np.full((1, models.GROUP_SIZE), -1)])
    layout = models.layout_for(corpus, groups, more=3)
    assert len(layout.sentences) > 1
    return groups, layout


def test_padding_order_and_layout_change_neither_logits_nor_gradients(name):
    """Against rows that are all computed to the end, each a group of its own. All padding of the
    tight layout holds words."""
    corpus = models.corpus_of(name)
    model = models.build(name)
    params = models.variables_of(model, name)["params"]
    full = Layout.full(models.ROWS, corpus.width, joint=corpus.joint)
    rows = np.arange(models.ROWS)[:, None]
    groups, tight = tight_layout(name)

    gradient, logits = gradient_of(name, full, model, False, params, rows)
    tight_gradient, tight_logits = gradient_of(name, tight, model, True, params, groups)

    assert logits.dtype == np.float64
    assert_near(tight_logits, logits, atol=1e-10)
    assert_near(tight_gradient, gradient, rtol=1e-8, atol=1e-9)
    assert np.ptp(logits, axis=0).min() > 1e-2  # the logits do depend on the row
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
        weight = jax.tree_util.keystr(path)  # a pooling behind ReLU may have no slope
        assert abs(leaf).max() > 1e-6 or "pooling" in weight, weight


def test_other_rows_of_a_batch_change_no_logit(name):
    """Norms use the running statistics here, and those of the batch in training."""
    model = models.build(name)
    variables = models.variables_of(model, name)
    params = variables["params"]
    groups, layout = tight_layout(name)
    few = groups[::-1].copy()
    few[::2] = -1

    def logits_in(index):
        if "batch_stats" in variables:
            return logits_of(name, layout, False, params, model, True, index)
        return gradient_of(name, layout, model, True, params, index)[1]  # is compiled already

    rows = few[few >= 0]
    assert 0 < len(rows) < models.ROWS
    assert_near(logits_in(few)[rows], logits_in(groups)[rows], atol=1e-10)
