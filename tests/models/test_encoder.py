"""BERT: rows of pieces, links, dropout and memory. test_families.py compares families with
reference."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import random_pairs

from mednli_jax.data.batching import Layout
from mednli_jax.errors import UserError
from mednli_jax.knowledge.relations import HYPONYM, KINDS
from mednli_jax.models import attention, encoder, layers
from mednli_jax.models.batch import PairBatch
from mednli_jax.nli.task import NLITask
from mednli_jax.training import step

SMALL = {
    "vocab_size": random_pairs.WORDS,
    "hidden_size": 12,
    "layers": 2,
    "attention_heads": 3,
    "intermediate_size": 20,
}
SMALL |= {"positions": 48, "cls_id": 1, "sep_id": 2, "longest_path": random_pairs.LONGEST}
WIDTH = (12, 8)
RELATIONS = len(KINDS) + 2  # of links with one named relation


def build(**fields):
    return encoder.Encoder(**{**SMALL, "dropout": 0.0, **fields})


def batch_of(rows, data=None, **more):
    data = {k: jnp.asarray(v) for k, v in (data or random_pairs.arrays()).items()}
    batch = NLITask().to_batch(
        data, jnp.asarray(rows, jnp.int32)[:, None], Layout.full(len(rows), WIDTH)
    )
    return batch.replace(layout=None, **more)


@functools.cache
def drawn(model):
    """Large parameters, for which no layer is nearly linear."""
    shapes = jax.eval_shape(
        lambda: model.init({"params": jax.random.key(0)}, batch_of([0, 1]), train=False)["params"]
    )
    rng = np.random.default_rng(1)
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: jnp.asarray(
            rng.normal("scale" in jax.tree_util.keystr(path), 0.3, leaf.shape), leaf.dtype
        ),
        shapes,
    )


@functools.partial(jax.jit, static_argnums=(0, 3))
def apply(model, params, batch, mutable=False):
    return model.apply({"params": params}, batch, train=False, mutable=mutable)


def logits_of(model, batch, params=None):
    return np.asarray(apply(model, drawn(model) if params is None else params, batch))


def keys(rows):
    return step.row_keys(0, 0, jnp.asarray(rows))


# ---- a row of pieces ----


def test_a_pair_becomes_one_row_without_gaps():
    batch = PairBatch(
        premise=jnp.array([[11, 12, 13], [14, 99, 99], [99, 99, 99]]),
        premise_length=jnp.array([3, 1, 0]),
        hypothesis=jnp.array([[21, 22], [23, 99], [24, 25]]),
        hypothesis_length=jnp.array([2, 1, 2]),
        mask=jnp.ones(3),
    )
    row = encoder.rows_of_pairs(batch, 1, 2, 1, 8)
    expected = [
        [1, 11, 12, 13, 2, 21, 22, 2],
        [1, 14, 2, 23, 2, 0, 0, 0],
        [1, 2, 24, 25, 2, 0, 0, 0],
    ]
    np.testing.assert_array_equal(row.pieces_BT, expected)
    np.testing.assert_array_equal(row.real_BT, np.array(expected) > 0)
    second = [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1, 1]]
    np.testing.assert_array_equal(row.second_BT, second)
    grouped = batch.replace(
        premise=batch.premise[:1],
        premise_length=batch.premise_length[:1],
        mask=jnp.array([1.0, 1, 0]),
    )
    row = encoder.rows_of_pairs(grouped, 1, 2, 1, 8)
    expected = [
        [1, 11, 12, 13, 2, 21, 22, 2],
        [1, 11, 12, 13, 2, 23, 2, 0],
        [1, 2, 24, 25, 2, 0, 0, 0],
    ]
    np.testing.assert_array_equal(row.pieces_BT, expected)


def test_room_that_no_pair_needs_is_not_computed():
    model, batch = build(knowledge="bias"), batch_of(np.arange(8))
    longest = int((batch.premise_length + batch.hypothesis_length).max()) + 3
    assert longest < sum(WIDTH) + 3
    close, params = build(knowledge="bias", room=longest), drawn(model)
    np.testing.assert_allclose(logits_of(close, batch, params), logits_of(model, batch), atol=1e-5)
    states = jax.eval_shape(lambda p: apply(close, p, batch, mutable=(encoder.STATES,)), params)[1][
        encoder.STATES
    ]
    assert states["last"][0].shape == (8, longest, 12)


# ---- knowledge ----


def test_links_of_no_weight_are_plain_bert():
    batch, model = batch_of(np.arange(8)), build(knowledge="bias")
    params = drawn(model)
    silent = {**params, "knowledge": jax.tree.map(jnp.zeros_like, params["knowledge"])}
    plain = {name: leaf for name, leaf in params.items() if name != "knowledge"}
    np.testing.assert_allclose(
        logits_of(model, batch, silent), logits_of(build(), batch, plain), atol=1e-6
    )
    scaled = build(knowledge="bias", weighting="paper", knowledge_scale=0.0)
    np.testing.assert_allclose(
        logits_of(scaled, batch, plain), logits_of(build(), batch, plain), atol=1e-6
    )
    changed = abs(logits_of(model, batch, params) - logits_of(build(), batch, plain)).max(axis=1)
    linked = np.asarray((batch.link_distance >= 0).any(axis=1))
    assert changed[~linked].max(initial=0) < 1e-6
    assert changed[linked].min() > 1e-5


def test_typed_links_start_as_the_plain_encoder():
    batch = typed_batch()
    model = build(knowledge="typed", relations=RELATIONS)
    params = jax.tree.map(
        jnp.asarray, model.init({"params": jax.random.key(0)}, batch, train=False)["params"]
    )
    plain = {name: leaf for name, leaf in params.items() if name != "knowledge"}
    assert not np.asarray(params["knowledge"]["relation_weight"]).any()
    logits = logits_of(model, batch, params)
    np.testing.assert_allclose(logits, logits_of(build(), batch, plain), atol=1e-6)
    slope = jax.grad(lambda p: apply(model, p, batch)[:, 0].sum())(params)
    weight_LRN = slope["knowledge"]["relation_weight"]
    assert abs(weight_LRN[0]).max() > 0
    assert not np.asarray(weight_LRN[-1]).any()  # the last layer computes the first piece alone


def typed_batch():
    """Two links of one pair: premise piece 1 names a hypernym of hypothesis piece 0 over 2 edges;
    premise piece 0 has the relation of the first name to hypothesis piece 1."""
    return PairBatch(
        premise=jnp.array([[5, 6, 0]]),
        premise_length=jnp.array([2]),
        hypothesis=jnp.array([[7, 8]]),
        hypothesis_length=jnp.array([2]),
        mask=jnp.ones(1),
        link_premise=jnp.array([[1, 0, 0]], jnp.int16),
        link_hypothesis=jnp.array([[0, 1, 0]], jnp.int16),
        link_distance=jnp.array([[2, 1, -1]], jnp.int16),
        link_relation=jnp.array([[HYPONYM, 1 << len(KINDS), 0]], jnp.uint32),
    )


def test_from_hypothesis_to_premise_the_inverse_relation_counts():
    """In [CLS] p p [SEP] h h [SEP]. The value of hypernyms and hyponyms over 2 edges is 1 - 2/8."""
    batch = typed_batch()
    weight_LRN = jnp.arange(1.0, 1 + 2 * RELATIONS * 3).reshape(2, RELATIONS, 3)
    row = encoder.rows_of_pairs(batch, 1, 2, 1, 7)
    relations = layers.Relations(batch, RELATIONS)
    links = encoder.TypedRelations(2, 3, None).apply(
        {"params": {"relation_weight": weight_LRN}},
        relations.value_BKR,
        relations.inverse_BKR,
        *batch.linked_tokens,
    )
    energies_NTT = np.asarray(links.energies(1, row))[0]
    expected = np.zeros((3, 7, 7), np.float32)
    weight_RN = encoder.LINK_SCALE * np.asarray(weight_LRN[1])
    hypernym, hyponym = (KINDS.index(kind) for kind in ("hypernym", "hyponym"))
    expected[:, 2, 4] = 0.75 * weight_RN[hyponym]
    expected[:, 4, 2] = 0.75 * weight_RN[hypernym]
    expected[:, 1, 5] = weight_RN[len(KINDS)]
    expected[:, 5, 1] = weight_RN[len(KINDS) + 1]
    np.testing.assert_allclose(energies_NTT, expected, rtol=1e-6)


def test_links_join_pieces_of_the_row_both_ways():
    """In [CLS] p p [SEP] h [SEP], premise piece 1 and hypothesis piece 0 have the places 2 and
    4."""
    batch = PairBatch(
        premise=jnp.array([[5, 6, 0]]),
        premise_length=jnp.array([2]),
        hypothesis=jnp.array([[7, 0]]),
        hypothesis_length=jnp.array([1]),
        mask=jnp.ones(1),
    )
    links = (
        jnp.zeros((1, 3, 2)).at[0, 1, 0].set(4.0).at[0, 2, 1].set(9.0)
    )  # the second link lies on padding
    for size in (6, 8):
        found = encoder.between_sides(links, encoder.rows_of_pairs(batch, 1, 2, 1, size))
        expected = np.zeros((1, size, size))
        expected[0, 2, 4] = expected[0, 4, 2] = 4.0
        np.testing.assert_array_equal(found, expected)


# ---- dropout ----


@pytest.mark.parametrize("shape", [(6, 40, 200), (6, 4, 60, 60)])
def test_dropout_keeps_its_share_at_random(shape):
    """Pieces are dropped at the given rate and others scaled up, independently for rows, sites and
    neighbours."""
    rate, rows = 0.1, shape[0]
    noise = encoder.noise_of(keys(np.arange(rows)))
    ones = jnp.ones((rows * shape[1], shape[2]) if len(shape) == 3 else shape)
    made = {
        site: np.asarray(encoder.drop(ones, rate, noise, site)).reshape(shape)
        for site in ("a", "b")
    }
    np.testing.assert_allclose(np.unique(made["a"]), [0, 1 / 0.9], rtol=1e-6)
    kept = made["a"] > 0
    error = (rate * (1 - rate) / kept[0].size) ** 0.5
    assert abs(kept.reshape(rows, -1).mean(axis=1) - (1 - rate)).max() < 4.5 * error

    def correlation(one, other):
        return abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) * one.size**0.5

    assert correlation(kept, made["b"] > 0) < 4.5
    assert correlation(kept[0], kept[1]) < 4.5
    for axis in range(1, len(shape)):
        size = shape[axis]
        for shift in (1, 2, min(8, size - 1)):
            one, other = (
                np.take(kept, range(*ends), axis) for ends in ((0, size - shift), (shift, size))
            )
            assert correlation(one, other) < 4.5, (axis, shift)


# ---- local attention ----


def test_blocks_of_local_attention_change_neither_logits_nor_dropout():
    """A model with links, here of weight 0, computes scores of all pairs of pieces."""
    local = {"layers": 3, "local_layers": (0, 2), "local_attention": 5, "head_input": "mean"}
    blocks, pairs = build(**local, dropout=0.3), build(**local, dropout=0.3, knowledge="bias")
    batch = batch_of(np.arange(8), row_key=keys(np.arange(8)))
    params = drawn(pairs)
    params = {**params, "knowledge": jax.tree.map(jnp.zeros_like, params["knowledge"])}
    plain = {name: leaf for name, leaf in params.items() if name != "knowledge"}
    assert sum(WIDTH) + 3 > attention.FEWEST_BLOCKS * 2

    for train in (False, True):
        logits = [
            np.asarray(model.apply({"params": p}, batch, train=train))
            for model, p in ((blocks, plain), (pairs, params))
        ]
        np.testing.assert_allclose(logits[0], logits[1], rtol=0, atol=1e-5)
    whole = build(dropout=0.3, layers=3, head_input="mean").apply(
        {"params": plain}, batch, train=True
    )
    assert abs(whole - logits[0]).max() > 1e-2


# ---- faults ----


@pytest.mark.parametrize(("field", "value"), [("attention_heads", 5), ("positions", 22)])
def test_fields_that_do_not_go_together_are_refused(field, value):
    model = build(**{field: value})
    with pytest.raises(UserError, match=r" Fix: "):
        jax.eval_shape(
            lambda b: model.init({"params": jax.random.key(0)}, b, train=False), batch_of([0])
        )
