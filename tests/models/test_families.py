"""Encoders of each family compute what the Transformers library computes: logits, gradients,
training steps. docs/log.md names the script that made the golden files."""

import functools
import re

import jax
import numpy as np
import optax
import pytest
from safetensors.numpy import load_file
from support.encoders import (
    NAMES,
    batch_of,
    drawn_params,
    labels_of,
    model_of,
    reference,
    row_of,
    tensors_of,
    write_encoder,
)
from support.tables import table_rows
from support.trees import assert_equal, assert_near

from mednli_jax.models import weights
from mednli_jax.models.encoder import STATES
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


# ---- names ----

# family | pattern in the names | its replacement | class of the library that reads the result
RENAMED = table_rows(r"""
    # of a file of AutoModel
    bert | ^bert\. | | SequenceClassification
    roberta | ^roberta\. | | SequenceClassification
    electra | ^electra\. | | SequenceClassification
    megatron-bert | ^bert\. | | SequenceClassification
    modernbert | ^model\. | | SequenceClassification
    deberta-v2 | ^deberta\. | | SequenceClassification
    # some names with the prefix, others without
    bert | ^bert\.(?=encoder) | | SequenceClassification
    modernbert | ^model\.(?=layers\.1) | | SequenceClassification
    # of the first releases
    bert | LayerNorm\.weight | LayerNorm.gamma | SequenceClassification
    roberta | LayerNorm\.bias | LayerNorm.beta | SequenceClassification
    electra | LayerNorm\.weight | LayerNorm.gamma | SequenceClassification
    deberta-v2 | LayerNorm\.bias | LayerNorm.beta | SequenceClassification
    # the last layer of a language model, which is the embeddings
    bert | ^bert\.embeddings\.word_embeddings | cls.predictions.decoder | MaskedLM
    roberta | ^roberta\.embeddings\.word_embeddings | lm_head.decoder | MaskedLM
    electra | ^electra\.embeddings\.word_embeddings | generator_lm_head | MaskedLM
    megatron-bert | ^bert\.embeddings\.word_embeddings | cls.predictions.decoder | MaskedLM
    modernbert | ^model\.embeddings\.tok_embeddings | decoder | MaskedLM
    deberta-v2 | ^deberta\.embeddings\.word_embeddings | cls.predictions.decoder | MaskedLM
    # of adapters that were merged, compiled models, several devices, sentence embeddings, Lightning
    bert | ^ | base_model.model. |
    deberta-v2-own | ^ | base_model.model. |
    roberta | ^ | _orig_mod. |
    modernbert | ^ | _orig_mod. |
    electra | ^ | module. |
    modernbert-mean | ^ | module.model. |
    bert | ^bert\. | 0.auto_model. |
    megatron-bert | ^bert\. | 0.auto_model. |
    modernbert | ^model\. | 0.auto_model. |
    electra | ^electra\. | net.electra. |
    roberta | ^ | base_model.model._orig_mod. |
""")


@pytest.fixture
def renamed(family, pattern, replacement, tmp_path):
    """The folder of weights under other names, and with numbers that no model reads: of old files,
    and positions of a DeBERTa, which its file may have whatever its config.json says."""
    tensors = {
        "embeddings.position_ids": np.arange(64)[None],
        "layers.0.attn.rotary_emb.inv_freq": np.ones(2, np.float32),
    }
    if family == "deberta-v2":
        tensors["embeddings.position_embeddings.weight"] = np.ones((64, 16), np.float32)
    for name, array in tensors_of(family).items():
        tensors[re.sub(pattern, replacement, name)] = array
    return write_encoder(family, tmp_path, tensors)


@pytest.mark.parametrize("family, pattern, replacement, reader", RENAMED)
def test_weights_are_read_under_other_names(family, renamed, reader, folder_of):
    assert_equal(loaded(family, renamed)[1], loaded(family, folder_of(family))[1])


@pytest.mark.slow
@pytest.mark.parametrize("family, pattern, replacement, reader", [row for row in RENAMED if row[3]])
def test_transformers_computes_the_same_states_from_other_names(family, renamed, reader):
    """Skipped without torch and transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    opened = getattr(transformers, f"AutoModelFor{reader}").from_pretrained(renamed).eval()
    model, params = loaded(family, renamed)

    for row in (4, 9):
        batch = batch_of(family, slice(row, row + 1))
        _, sown = model.apply({"params": params}, batch, train=False, mutable=[STATES])
        expected_1TD = opened.base_model(**row_of(family, row, model, torch.tensor))[0].detach()
        size = expected_1TD.shape[1]
        assert_near(sown[STATES]["last"][0][:, :size], expected_1TD.numpy(), atol=1e-4)


# ---- results ----

STEP = 16  # pairs of a step, for which each model is compiled once
REMATERIALISED = ("modernbert", "deberta-v2")


@functools.cache
def slope_of(model):
    """((loss, logits), gradient) of a step."""
    return jax.jit(jax.value_and_grad(functools.partial(loss_of, model), has_aux=True))


def step_of(family, first_row):
    return batch_of(family, slice(first_row, first_row + STEP))


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
    slope = slope_of(model)
    starts = range(0, len(arrays["label"]), STEP)
    gradients = [slope(params, step_of(family, first))[1] for first in starts]
    predict = jax.jit(functools.partial(model.apply, train=False))
    logits = predict({"params": params}, batch_of(family))
    assert np.ptp(arrays["logits"], axis=0).min() > 1
    assert_near(logits, arrays["logits"], atol=1e-5)
    largest = max(abs(leaf).max() for leaf in jax.tree.leaves(expected))

    def assert_mean_near(expected_leaf, *leaves):
        size = max(abs(expected_leaf).max(), 1e-3 * largest)
        assert_near(np.mean(leaves, axis=0), expected_leaf, atol=1e-4 * size)

    jax.tree.map(assert_mean_near, expected, *gradients)


@pytest.mark.parametrize("family", NAMES)
def test_training_steps_from_imported_weights_have_the_losses_of_transformers(family, folder_of):
    facts, arrays = reference(family)
    steps = facts["steps"]
    assert steps["batch"] == STEP
    model, params = loaded(family, folder_of(family))
    options = optim.Options(
        learning_rate=steps["rate"],
        weight_decay=steps["decay"],
        optimizer="adamw",
    )
    optimizer = optim.build_optimizer(options)

    @jax.jit
    def update(gradient, state, params):
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    state, losses = optimizer.init(params), []
    for number in range(len(arrays["losses"])):
        batch = step_of(family, number * STEP % len(arrays["label"]))
        (loss, _), gradient = slope_of(model)(params, batch)
        params, state = update(gradient, state, params)
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


def export(folder, model, params, labels):
    for name, content in weights.exported_files(model, params, labels).items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("family", NAMES)
def test_exported_weights_are_the_imported_ones_under_the_names_of_transformers(
    family, folder_of, tmp_path
):
    model, params = loaded(family, folder_of(family))

    export(tmp_path, model, params, labels_of(family))

    again = weights.read_architecture(tmp_path)
    assert again == weights.read_architecture(folder_of(family))
    assert_equal(load_file(tmp_path / weights.WEIGHTS), tensors_of(family))


@pytest.mark.slow
@pytest.mark.parametrize("family", NAMES)
def test_transformers_opens_exported_weights_and_computes_the_same_logits(
    family, folder_of, tmp_path
):
    """Skipped without torch and transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    _, arrays = reference(family)
    model, params = loaded(family, folder_of(family))
    export(tmp_path, model, params, LABELS)
    opened = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert list(opened.config.id2label.values()) == list(LABELS)
    for row in (0, 4, 5, 9):
        logits = opened(**row_of(family, row, model, torch.tensor)).logits.detach().numpy()
        assert_near(logits[0], arrays["logits"][row], atol=1e-5)
