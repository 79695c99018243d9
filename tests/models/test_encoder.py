"""BERT: rows of pieces, links, dropout and memory. test_families.py compares families with
reference."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import random_pairs
from support.models import pair_batch
from support.trees import assert_equal, assert_near

from mednli_jax.data.batching import Layout
from mednli_jax.errors import UserError
from mednli_jax.knowledge.relations import HYPONYM, KINDS
from mednli_jax.models import attention, encoder, layers
from mednli_jax.nli.scorer import NLIScorer
from mednli_jax.training import step

SMALL = {
    "vocab_size": random_pairs.WORDS,
    "hidden_size": 12,
    "layers": 2,
    "attention_heads": 3,
    "intermediate_size": 20,
    "positions": 48,
    "cls_id": 1,
    "sep_id": 2,
    "longest_path": random_pairs.LONGEST,
    "dropout": 0.0,
}
WIDTH = (12, 8)
RELATIONS = len(KINDS) + 2  # of links with one named relation


def build(**fields):
    return encoder.Encoder(**{**SMALL, **fields})


@functools.cache
def random_batch(rows):
    layout = Layout.full(rows, WIDTH)
    to_batch = jax.jit(lambda data: NLIScorer().to_batch(data, np.arange(rows)[:, None], layout))
    return to_batch(random_pairs.arrays()).replace(layout=None)


@functools.cache
def drawn(model):
    """Large parameters, for which no layer is nearly linear."""
    rng = np.random.default_rng(1)

    def init():
        return model.init({"params": jax.random.key(0)}, random_batch(8), train=False)["params"]

    def filled(path, leaf):
        mean = "scale" in jax.tree_util.keystr(path)
        return jnp.asarray(rng.normal(mean, 0.3, leaf.shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(filled, jax.eval_shape(init))


@functools.partial(jax.jit, static_argnums=(0, 3))
def apply(model, params, batch, mutable=False):
    return model.apply({"params": params}, batch, train=False, mutable=mutable)


def logits_of(model, batch, params=None):
    return np.asarray(apply(model, drawn(model) if params is None else params, batch))


def without_knowledge(params):
    return {name: leaf for name, leaf in params.items() if name != "knowledge"}


def with_knowledge_of_zeros(params):
    return {**params, "knowledge": jax.tree.map(jnp.zeros_like, params["knowledge"])}


def keys(rows):
    return step.row_keys(0, 0, jnp.arange(rows))


# ---- a row of pieces ----


def row_of(batch, size):
    return encoder.rows_of_pairs(batch, cls_id=1, sep_id=2, separators=1, size=size)


def test_a_pair_becomes_one_row_without_gaps():
    batch = pair_batch([[11, 12, 13], [14], []], [[21, 22], [23], [24, 25]])

    row = row_of(batch, 8)

    expected = np.array(
        [
            [1, 11, 12, 13, 2, 21, 22, 2],
            [1, 14, 2, 23, 2, 0, 0, 0],
            [1, 2, 24, 25, 2, 0, 0, 0],
        ]
    )
    assert_equal(row.pieces_BT, expected)
    assert_equal(row.real_BT, expected > 0)
    first_of_second_side = np.array([5, 3, 2])
    is_second = np.arange(8) >= first_of_second_side[:, None]
    assert_equal(row.second_BT, is_second)


def test_pairs_of_one_premise_have_it_in_each_row_but_for_padding_rows():
    batch = pair_batch([[11, 12, 13]], [[21, 22], [23], [24, 25]])

    row = row_of(batch.replace(mask=jnp.array([1.0, 1.0, 0.0])), 8)

    expected = [
        [1, 11, 12, 13, 2, 21, 22, 2],
        [1, 11, 12, 13, 2, 23, 2, 0],
        [1, 2, 24, 25, 2, 0, 0, 0],
    ]
    assert_equal(row.pieces_BT, expected)


def test_room_that_no_pair_needs_is_not_computed():
    model = build(knowledge="bias")
    batch = random_batch(8)
    longest = int((batch.premise_length + batch.hypothesis_length).max()) + 3
    assert longest < sum(WIDTH) + 3
    close = build(knowledge="bias", room=longest)
    params = drawn(model)

    _, shapes = jax.eval_shape(lambda: apply(close, params, batch, mutable=(encoder.STATES,)))

    assert shapes[encoder.STATES]["last"][0].shape == (8, longest, 12)
    assert_near(logits_of(close, batch, params), logits_of(model, batch), atol=1e-5)


# ---- knowledge ----


@pytest.fixture(scope="module")
def linked():
    """(batch, a model with knowledge, its parameters, logits of the same model without)."""
    batch = random_batch(8)
    model = build(knowledge="bias")
    params = drawn(model)
    return batch, model, params, logits_of(build(), batch, without_knowledge(params))


def test_links_of_no_weight_are_plain_bert(linked):
    batch, model, params, plain = linked

    learned = logits_of(model, batch, with_knowledge_of_zeros(params))
    scaled = build(knowledge="bias", weighting="paper", knowledge_scale=0.0)
    of_paper = logits_of(scaled, batch, without_knowledge(params))

    assert_near(learned, plain, atol=1e-6)
    assert_near(of_paper, plain, atol=1e-6)


def test_links_change_the_logits_of_linked_pairs_alone(linked):
    batch, model, params, plain = linked

    change = abs(logits_of(model, batch, params) - plain).max(axis=1)

    is_linked = np.asarray((batch.link_distance >= 0).any(axis=1))
    assert change[~is_linked].max(initial=0) < 1e-6
    assert change[is_linked].min() > 1e-5


# Premise piece 1 names a hypernym of hypothesis piece 0 over 2 edges; premise piece 0 has the
# relation of the first name to hypothesis piece 1.
TYPED = pair_batch(
    [[5, 6]],
    [[7, 8]],
    links=[
        (1, 0, 2, HYPONYM),
        (0, 1, 1, 1 << len(KINDS)),
        (0, 0, -1, 0),
    ],
)


def test_typed_links_start_as_the_plain_encoder_and_learn():
    model = build(knowledge="typed", relations=RELATIONS)
    params = jax.jit(lambda key: model.init(key, TYPED, train=False)["params"])(jax.random.key(0))
    assert not np.asarray(params["knowledge"]["relation_weight"]).any()

    slope = jax.grad(lambda params: apply(model, params, TYPED)[:, 0].sum())(params)

    plain = logits_of(build(), TYPED, without_knowledge(params))
    assert_near(logits_of(model, TYPED, params), plain, atol=1e-6)
    weight_LRN = slope["knowledge"]["relation_weight"]
    assert abs(weight_LRN[0]).max() > 0
    assert not np.asarray(weight_LRN[-1]).any()  # the last layer computes the first piece alone


def test_from_hypothesis_to_premise_the_inverse_relation_counts():
    """In [CLS] p p [SEP] h h [SEP]. The value of hypernyms and hyponyms over 2 edges is 1 - 2/8."""
    weight_LRN = jnp.arange(1.0, 1 + 2 * RELATIONS * 3).reshape(2, RELATIONS, 3)
    relations = layers.Relations(TYPED, RELATIONS)
    links = encoder.TypedRelations(2, 3, None).apply(
        {"params": {"relation_weight": weight_LRN}},
        relations.value_BKR,
        relations.inverse_BKR,
        *TYPED.linked_tokens,
    )

    energies_NTT = np.asarray(links.energies(1, row_of(TYPED, 7)))[0]

    expected = np.zeros((3, 7, 7), np.float32)
    weight_RN = encoder.LINK_SCALE * np.asarray(weight_LRN[1])
    expected[:, 2, 4] = 0.75 * weight_RN[KINDS.index("hyponym")]
    expected[:, 4, 2] = 0.75 * weight_RN[KINDS.index("hypernym")]
    expected[:, 1, 5] = weight_RN[len(KINDS)]
    expected[:, 5, 1] = weight_RN[len(KINDS) + 1]
    assert_near(energies_NTT, expected, rtol=1e-6)


@pytest.mark.parametrize("size", [6, 8])
def test_links_join_pieces_of_the_row_both_ways_and_none_of_padding(size):
    """In [CLS] p p [SEP] h [SEP], premise piece 1 and hypothesis piece 0 have the places 2 and
    4."""
    batch = pair_batch([[5, 6]], [[7]])
    energies = np.zeros((1, 3, 2), np.float32)
    energies[0, 1, 0] = 4.0
    energies[0, 2, 1] = 9.0  # on padding

    joined = encoder.between_sides(jnp.asarray(energies), row_of(batch, size))

    expected = np.zeros((1, size, size))
    expected[0, 2, 4] = expected[0, 4, 2] = 4.0
    assert_equal(joined, expected)


# ---- dropout ----

RATE = 0.1


def correlation(values, further_values):
    """In standard errors of that of independent values."""
    coefficient = np.corrcoef(values.ravel(), further_values.ravel())[0, 1]
    return abs(coefficient) * values.size**0.5


@pytest.fixture(params=[(6, 40, 200), (6, 4, 60, 60)], ids=["states", "attention"], scope="module")
def dropped(request):
    """{site: ones behind dropout}."""
    shape = request.param
    noise = encoder.noise_of(keys(shape[0]))
    ones = jnp.ones((shape[0] * shape[1], shape[2]) if len(shape) == 3 else shape)
    outputs = {}
    for site in ("a", "b"):
        output = encoder.drop(ones, RATE, noise, site)
        outputs[site] = np.asarray(output).reshape(shape)
    return outputs


def test_dropout_keeps_its_share_of_each_row_and_scales_it_up(dropped):
    output = dropped["a"]

    assert_near(np.unique(output), [0, 1 / (1 - RATE)], rtol=1e-6)
    error = (RATE * (1 - RATE) / output[0].size) ** 0.5
    share_B = (output > 0).reshape(len(output), -1).mean(axis=1)
    assert abs(share_B - (1 - RATE)).max() < 4.5 * error


def test_dropout_is_independent_for_rows_sites_and_neighbours(dropped):
    remains = dropped["a"] > 0

    assert correlation(remains, dropped["b"] > 0) < 4.5
    assert correlation(remains[0], remains[1]) < 4.5
    for axis in range(1, remains.ndim):
        along = np.moveaxis(remains, axis, 0)
        for shift in {1, 2, min(8, len(along) - 1)}:
            assert correlation(along[:-shift], along[shift:]) < 4.5, (axis, shift)


# ---- local attention ----


def test_blocks_of_local_attention_change_neither_logits_nor_dropout():
    """A model with links, here of weight 0, computes scores of all pairs of pieces."""
    fields = {"head_input": "mean", "dropout": 0.3}
    local = {**fields, "local_layers": (0, 1), "local_attention": 5}
    all_pairs = build(**local, knowledge="bias")
    batch = random_batch(8).replace(row_key=keys(8))
    params = drawn(all_pairs)
    plain = without_knowledge(params)
    assert sum(WIDTH) + 3 > attention.FEWEST_BLOCKS * 2

    def logits_of(model, params):
        in_training = jax.jit(functools.partial(model.apply, train=True))
        return np.asarray(in_training({"params": params}, batch))

    logits = logits_of(build(**local), plain)
    expected = logits_of(all_pairs, with_knowledge_of_zeros(params))
    of_global_attention = logits_of(build(**fields), plain)

    assert_near(logits, expected, atol=1e-5)
    assert abs(of_global_attention - logits).max() > 1e-2


# ---- faults ----


def test_sizes_of_an_encoder_that_do_not_go_together_are_refused():
    model = build(attention_heads=5)
    batch = random_batch(8)

    with pytest.raises(UserError, match=r" Fix: "):
        jax.eval_shape(lambda: model.init({"params": jax.random.key(0)}, batch, train=False))
