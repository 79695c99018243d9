"""Encoders of each family compute what the Transformers library computes: logits, gradients,
training steps. golden/make_golden_encoders.py made the files."""

import functools

import jax
import numpy as np
import optax
import pytest
from support.encoders import (
    NAMES,
    SIDES,
    batch_of,
    drawn_params,
    labels_of,
    model_of,
    reference,
    tensors_of,
    write_encoder,
)
from support.tables import fields_of, table_rows
from support.trees import assert_equal, assert_near

from mednli_jax.models import weights
from mednli_jax.training import optim

LABELS = ("entailment", "neutral", "contradiction")


@functools.cache
def loaded(family, folder):
    """(model, its parameters) of a folder."""
    model = model_of(family, folder)
    params = drawn_params(family, model)
    return model, weights.load_weights(folder, params, labels=labels_of(family)).params


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """folder_of(family, kind): the folder with its weights, or with their gradients as weights."""
    place = tmp_path_factory.mktemp("families")

    @functools.cache
    def written(family, kind="weight"):
        return write_encoder(family, place / family / kind, tensors_of(family, kind))

    return written


def loss_of(model, params, batch):
    logits = model.apply({"params": params}, batch, train=False)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch.label)
    return losses.mean(), logits


REMATERIALISED = ("bert", "modernbert", "deberta-v2")


@pytest.mark.parametrize(
    "family, rematerialise",
    [
        *((family, False) for family in NAMES),
        *((family, True) for family in REMATERIALISED),
    ],
)
def test_logits_and_gradients_of_imported_weights_are_those_of_transformers(
    family, rematerialise, folder_of
):
    """64 pairs of up to 64 pieces; one has an empty premise, another an empty hypothesis."""
    _, arrays = reference(family)
    model, params = loaded(family, folder_of(family))
    _, expected = loaded(family, folder_of(family, "gradient"))
    model = model.clone(rematerialise=rematerialise)
    slope = jax.jit(jax.grad(functools.partial(loss_of, model), has_aux=True))
    gradient, logits = slope(params, batch_of(family))
    assert np.ptp(arrays["logits"], axis=0).min() > 1
    assert_near(logits, arrays["logits"], atol=1e-5)
    largest = max(abs(leaf).max() for leaf in jax.tree.leaves(expected))

    def assert_leaf_near(leaf, expected_leaf):
        size = max(abs(expected_leaf).max(), 1e-3 * largest)
        assert_near(leaf, expected_leaf, atol=1e-4 * size)

    jax.tree.map(assert_leaf_near, gradient, expected)


@pytest.mark.parametrize("family", NAMES)
def test_training_steps_from_imported_weights_have_the_losses_of_transformers(family, folder_of):
    facts, arrays = reference(family)
    steps = facts["steps"]
    model, params = loaded(family, folder_of(family))
    options = optim.Options(
        learning_rate=steps["rate"],
        weight_decay=steps["decay"],
        optimizer="adamw",
    )
    optimizer = optim.build_optimizer(options)

    @jax.jit
    def step(params, state, batch):
        slope = jax.value_and_grad(functools.partial(loss_of, model), has_aux=True)
        (loss, _), gradient = slope(params, batch)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, loss

    state, losses = optimizer.init(params), []
    for number in range(len(arrays["losses"])):
        first = number * steps["batch"] % len(arrays["label"])
        batch = batch_of(family, slice(first, first + steps["batch"]))
        params, state, loss = step(params, state, batch)
        losses.append(float(loss))
    assert_near(np.array(losses), arrays["losses"], atol=1e-4)


@pytest.mark.parametrize("family", NAMES)
def test_permuted_labels_of_a_fine_tuned_head_are_put_in_the_order_of_the_corpus(family, folder_of):
    model, in_own_order = loaded(family, folder_of(family))
    place_of = [labels_of(family).index(label) for label in LABELS]

    read = weights.load_weights(folder_of(family), drawn_params(family, model), labels=LABELS)

    assert place_of != sorted(place_of)
    for name, leaf in read.params.pop("logits").items():
        assert_equal(leaf, in_own_order["logits"][name][..., place_of])
    assert_equal(read.params, {name: in_own_order[name] for name in read.params})
    assert read.unused == []
    assert read.drawn == []


@functools.cache
def logits_of_rows(family, folder, first_row, changes=()):
    """The logits of sixteen pairs. changes: of fields of the model."""
    model, params = loaded(family, folder)
    batch = batch_of(family, slice(first_row, first_row + 16))
    return model.clone(room=60, **dict(changes)).apply({"params": params}, batch, train=False)


@pytest.mark.parametrize(
    "family, changes",
    table_rows("""
        bert | epsilon=1e-12
        bert | second_type=0
        bert | first_position=1
        bert | attention_heads=2
        roberta | first_position=0
        roberta | separators=1
        roberta | head="gelu"
        electra | head="tanh"
        electra | second_type=0
        megatron-bert | norm_first=false
        modernbert | local_layers=[]
        modernbert | local_attention=16
        modernbert | rotary_base=1e4
        modernbert | local_rotary_base=1e4
        modernbert | head="gelu"
        modernbert | head_input="mean"
        modernbert-mean | attention_bias=false
        modernbert-mean | mlp_bias=false
        modernbert-mean | norm_bias=false
        modernbert-mean | head_bias=false
        modernbert-mean | embedding_norm=false
        deberta-v2 | relative_positions=0
        deberta-v2 | relative_terms=["c2p"]
        deberta-v2 | relative_terms=["p2c"]
        deberta-v2 | relative_norm=false
        deberta-v2 | convolution=0
        deberta-v2 | head="pooler"
        deberta-v2-own | relative_buckets=24
        deberta-v2-own | relative_shared=true
        deberta-v2-own | absolute_positions=false
        deberta-v2-own | second_type=0
        deberta-v2-own | token_types=0
    """),
)
def test_each_field_of_an_encoders_architecture_changes_its_logits(family, changes, folder_of):
    first_row = 6 if "first_position" in changes else 0

    logits = logits_of_rows(family, folder_of(family), first_row)
    fields = tuple(fields_of(changes).items())
    changed = logits_of_rows(family, folder_of(family), first_row, fields)

    assert abs(logits - changed).max() > 1e-2


def test_positions_that_a_deberta_does_not_read_are_ignored(tmp_path):
    """As published: a file may have embeddings of positions whatever its config.json says."""
    tensors = tensors_of("deberta-v2")
    tensors["deberta.embeddings.position_embeddings.weight"] = np.ones((64, 16), np.float32)
    folder = write_encoder("deberta-v2", tmp_path, tensors)
    params = drawn_params("deberta-v2", model_of("deberta-v2", folder))

    read = weights.load_weights(folder, params, labels=LABELS)

    assert read.unused == ["embeddings.position_embeddings.weight"]
    assert "positions" not in read.params["embeddings"]


def export(folder, model, params, labels):
    for name, content in weights.exported_files(model, params, labels).items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("family", NAMES)
def test_exported_weights_are_the_imported_ones(family, folder_of, tmp_path):
    model, params = loaded(family, folder_of(family))

    export(tmp_path, model, params, labels_of(family))

    again = weights.read_architecture(tmp_path)
    assert again == weights.read_architecture(folder_of(family))
    _, read = loaded(family, tmp_path)
    assert_equal(read, params)


@pytest.mark.parametrize("family", NAMES)
def test_transformers_opens_exported_weights_and_computes_the_same_logits(
    family, folder_of, tmp_path
):
    """Skipped without torch and transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    facts, arrays = reference(family)
    model, params = loaded(family, folder_of(family))
    export(tmp_path, model, params, LABELS)
    opened = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert list(opened.config.id2label.values()) == list(LABELS)
    before, between, after = facts["specials"]
    for row in (0, 4, 5, 9):
        sides = []
        for side in SIDES:
            length = arrays[f"{side}_length"][row]
            sides.append(arrays[side][row, :length].tolist())
        first = [*before, *sides[0], *between]
        second = [*sides[1], *after]
        inputs = {"input_ids": torch.tensor([first + second])}
        if model.second_type:
            types = [0] * len(first) + [1] * len(second)
            inputs["token_type_ids"] = torch.tensor([types])
        with torch.no_grad():
            logits = opened(**inputs).logits.numpy()
        assert_near(logits[0], arrays["logits"][row], atol=1e-5)
