"""Encoders of each family compute what the Transformers library computes: logits, gradients,
training steps. golden/make_golden_encoders.py made the files."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from safetensors.numpy import save_file
from support.golden_files import golden

from mednli_jax.models import families, weights
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.encoder import Encoder
from mednli_jax.training import optim

LABELS = ("entailment", "neutral", "contradiction")
NAMES = (
    "bert",
    "roberta",
    "electra",
    "megatron-bert",
    "modernbert",
    "modernbert-mean",
    "deberta-v2",
    "deberta-v2-own",
)
SIDES = ("premise", "hypothesis")
ROOM = 64  # pieces of the longest rows


@functools.cache
def reference(family):
    return golden(f"golden_{family}_small")


def arrays_of(family, kind):
    """The library's weights, or their gradients, by its names."""
    _, arrays = reference(family)
    start = f"{kind}/"
    return {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}


def written(family, folder, kind="weight", **config):
    """The folder with the weights of the family's model, or with their gradients as weights."""
    facts, _ = reference(family)
    folder.mkdir(exist_ok=True)
    save_file(arrays_of(family, kind), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(facts["config"] | config))
    return folder


def batch_of(family, rows=slice(None)):
    _, arrays = reference(family)
    fields = {
        name: jnp.asarray(arrays[name][rows]) for side in SIDES for name in (side, f"{side}_length")
    }
    label = jnp.asarray(arrays["label"][rows])
    return PairBatch(**fields, label=label, mask=jnp.ones(len(label)))


def model_of(family, folder, **changes):
    facts, _ = reference(family)
    before, between, _ = facts["specials"]
    fields = weights.read_architecture(folder) | changes
    separators = changes.pop("separators", len(between))
    fields |= {"cls_id": before[0], "sep_id": between[0], "separators": separators}
    return Encoder(**{"dropout": 0.0, "room": ROOM, **fields})


def drawn(model, batch):
    init = jax.jit(lambda key: model.init({"params": key}, batch, train=False)["params"])
    return init(jax.random.key(0))


@functools.cache
def loaded(family, folder):
    """(model, its parameters) of a folder."""
    model = model_of(family, folder)
    params = drawn(model, batch_of(family, slice(2)))
    order = tuple(reference(family)[0]["config"]["id2label"].values())
    return model, weights.load_weights(folder, params, labels=order).params


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("families")
    return {
        (family, kind): written(family, place / f"{family}-{kind}", kind)
        for family in NAMES
        for kind in ("weight", "gradient")
    }


def loss_of(model, params, batch):
    logits = model.apply({"params": params}, batch, train=False)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch.label)
    return losses.mean(), logits


@pytest.mark.parametrize("rematerialise", [False, True])
@pytest.mark.parametrize("family", NAMES)
def test_logits_and_gradients_are_the_library_s(family, rematerialise, folders):
    """64 pairs of up to 64 pieces; one has an empty premise, another an empty hypothesis."""
    _, arrays = reference(family)
    model, params = loaded(family, folders[family, "weight"])
    _, expected = loaded(family, folders[family, "gradient"])
    model = model.clone(rematerialise=rematerialise)
    slope = jax.jit(jax.grad(functools.partial(loss_of, model), has_aux=True))
    gradient, logits = slope(params, batch_of(family))
    assert np.ptp(arrays["logits"], axis=0).min() > 1
    np.testing.assert_allclose(logits, arrays["logits"], rtol=0, atol=1e-5)
    largest = max(abs(leaf).max() for leaf in jax.tree.leaves(expected))
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
        reference_leaf = functools.reduce(lambda tree, key: tree[key.key], path, expected)
        size = max(abs(reference_leaf).max(), 1e-3 * largest)
        difference = abs(leaf - reference_leaf).max()
        assert difference < 1e-4 * size, jax.tree_util.keystr(path)


@pytest.mark.parametrize("family", NAMES)
def test_training_steps_have_the_losses_of_pytorch(family, folders):
    facts, arrays = reference(family)
    steps = facts["steps"]
    model, params = loaded(family, folders[family, "weight"])
    options = optim.Options(
        learning_rate=steps["rate"], weight_decay=steps["decay"], optimizer="adamw"
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
    np.testing.assert_allclose(losses, arrays["losses"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", NAMES)
def test_a_fine_tuned_head_is_permuted_to_the_corpus_s_labels(family, folders):
    facts, arrays = reference(family)
    order = [list(facts["config"]["id2label"].values()).index(label) for label in LABELS]
    model = model_of(family, folders[family, "weight"])
    params = drawn(model, batch_of(family, slice(2)))
    found = weights.load_weights(folders[family, "weight"], params, labels=LABELS)
    assert found.unused == []
    assert found.drawn == []
    logits = model.apply({"params": found.params}, batch_of(family, slice(8)), train=False)
    np.testing.assert_allclose(logits, arrays["logits"][:8, order], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("bert", {"epsilon": 1e-12}),
        ("bert", {"second_type": 0}),
        ("bert", {"first_position": 1}),
        ("bert", {"attention_heads": 2}),
        ("roberta", {"first_position": 0}),
        ("roberta", {"separators": 1}),
        ("roberta", {"head": "gelu"}),
        ("electra", {"head": "tanh"}),
        ("electra", {"second_type": 0}),
        ("megatron-bert", {"norm_first": False}),
        ("modernbert", {"local_layers": ()}),
        ("modernbert", {"local_attention": 16}),
        ("modernbert", {"rotary_base": 1e4}),
        ("modernbert", {"local_rotary_base": 1e4}),
        ("modernbert", {"head": "gelu"}),
        ("modernbert", {"head_input": "mean"}),
        ("modernbert-mean", {"attention_bias": False}),
        ("modernbert-mean", {"mlp_bias": False}),
        ("modernbert-mean", {"norm_bias": False}),
        ("modernbert-mean", {"head_bias": False}),
        ("modernbert-mean", {"embedding_norm": False}),
        ("deberta-v2", {"relative_positions": 0}),
        ("deberta-v2", {"relative_terms": ("c2p",)}),
        ("deberta-v2", {"relative_terms": ("p2c",)}),
        ("deberta-v2", {"relative_norm": False}),
        ("deberta-v2", {"convolution": 0}),
        ("deberta-v2", {"head": "pooler"}),
        ("deberta-v2-own", {"relative_buckets": 24}),
        ("deberta-v2-own", {"relative_shared": True}),
        ("deberta-v2-own", {"absolute_positions": False}),
        ("deberta-v2-own", {"second_type": 0}),
        ("deberta-v2-own", {"token_types": 0}),
    ],
)
def test_each_field_of_the_architecture_matters(family, changes, folders):
    model, params = loaded(family, folders[family, "weight"])
    batch = batch_of(family, slice(16))
    if "first_position" in changes:
        batch = batch_of(family, slice(6, 22))
    other = model.clone(**changes, room=60)
    model = model.clone(room=60)
    logits = [m.apply({"params": params}, batch, train=False) for m in (model, other)]
    assert abs(logits[0] - logits[1]).max() > 1e-2


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("bert", {"hidden_act": "gelu_new"}, '\'hidden_act\' is "gelu_new", not "gelu"'),
        ("roberta", {"position_embedding_type": "relative_key"}, "'position_embedding_type'"),
        ("electra", {"type_vocab_size": 1}, "'type_vocab_size'"),
        ("megatron-bert", {"num_hidden_layers": 0}, "'num_hidden_layers'"),
        ("bert", {"model_type": "t5"}, "'model_type' is \"t5\""),
        ("modernbert", {"classifier_pooling": "max"}, "'classifier_pooling' is \"max\""),
        ("modernbert", {"rope_scaling": {"type": "yarn"}}, "'type' of full_attention is"),
        ("deberta-v2", {"relative_attention": False}, "'relative_attention' is false, not true"),
        ("deberta-v2", {"pos_att_type": "p2p|c2p"}, "'pos_att_type' has p2p"),
        ("deberta-v2", {"conv_act": "tanh"}, '\'conv_act\' is "tanh", not "gelu"'),
        ("deberta-v2", {"embedding_size": 8}, "'embedding_size' is 8, not 16"),
        ("deberta-v2", {"type_vocab_size": 1}, "'type_vocab_size' is 1, not 0 or 2"),
    ],
)
def test_what_the_module_lacks_is_refused_by_name(family, changes, message, tmp_path):
    from mednli_jax.errors import DataError

    with pytest.raises(DataError) as raised:
        weights.read_architecture(written(family, tmp_path / family, **changes))
    assert str(raised.value).startswith("config.json: another architecture: ")
    assert message in str(raised.value)


def test_both_spellings_of_modernbert_s_config_are_read(tmp_path):
    facts, _ = reference("modernbert")
    newer = families.fields_of(facts["config"])
    config = dict(facts["config"])
    rope = config.pop("rope_parameters")
    del config["layer_types"]
    older = {
        "global_rope_theta": rope["full_attention"]["rope_theta"],
        "local_rope_theta": rope["sliding_attention"]["rope_theta"],
        "global_attn_every_n_layers": 3,
    }
    assert families.fields_of(config | older) == newer
    assert newer["local_layers"] == (1, 2)


def test_positions_that_a_deberta_does_not_read_are_ignored(tmp_path):
    """As published: a file may have embeddings of positions whatever its config.json says."""
    folder = written("deberta-v2", tmp_path)
    tensors = arrays_of("deberta-v2", "weight")
    tensors["deberta.embeddings.position_embeddings.weight"] = np.ones((64, 16), np.float32)
    save_file(tensors, folder / "model.safetensors")
    model = model_of("deberta-v2", folder)

    params = drawn(model, batch_of("deberta-v2", slice(2)))
    read = weights.load_weights(folder, params, labels=LABELS)

    assert read.unused == ["embeddings.position_embeddings.weight"]
    assert "positions" not in read.params["embeddings"]


@pytest.mark.parametrize("family", NAMES)
def test_the_fields_tell_the_family(family, folders):
    fields = weights.read_architecture(folders[family, "weight"])
    facts, _ = reference(family)
    assert families.family_of(fields).model_type == facts["config"]["model_type"]


def export(folder, model, params, labels):
    for name, content in weights.exported_files(model, params, labels).items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("family", NAMES)
def test_exported_weights_are_those_that_were_read(family, folders, tmp_path):
    facts, _ = reference(family)
    model, params = loaded(family, folders[family, "weight"])
    order = tuple(facts["config"]["id2label"].values())
    export(tmp_path, model, params, order)
    again = weights.read_architecture(tmp_path)
    assert again == weights.read_architecture(folders[family, "weight"])
    drawn_params = drawn(model, batch_of(family, slice(2)))
    read = weights.load_weights(tmp_path, drawn_params, labels=order).params
    jax.tree.map(np.testing.assert_array_equal, read, params)


@pytest.mark.parametrize("family", NAMES)
def test_the_library_opens_what_was_exported(family, folders, tmp_path):
    """Skipped without torch and transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    facts, arrays = reference(family)
    model, params = loaded(family, folders[family, "weight"])
    export(tmp_path, model, params, LABELS)
    opened = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert list(opened.config.id2label.values()) == list(LABELS)
    before, between, after = facts["specials"]
    for row in (0, 4, 5, 9):
        premise, hypothesis = (
            arrays[side][row, : arrays[f"{side}_length"][row]].tolist() for side in SIDES
        )
        first, second = [*before, *premise, *between], [*hypothesis, *after]
        inputs = {"input_ids": torch.tensor([first + second])}
        if model.second_type:
            inputs["token_type_ids"] = torch.tensor([[0] * len(first) + [1] * len(second)])
        with torch.no_grad():
            logits = opened(**inputs).logits.numpy()
        np.testing.assert_allclose(logits[0], arrays["logits"][row], rtol=0, atol=1e-5)
