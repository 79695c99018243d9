"""Pretrained weights: all names and shapes are accounted for, states equal the reference's, no file
can run code."""

import functools
import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file
from support.golden_files import golden

from mednli_jax import defaults
from mednli_jax.data.pieces import find_weights
from mednli_jax.errors import ConfigError, UserError
from mednli_jax.models import families
from mednli_jax.models import weights as weight_files
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.encoder import STATES, Encoder
from mednli_jax.run import experiment_of

FACTS, GOLDEN = golden("golden_bert")
CONFIG = {
    **FACTS["sizes"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "type_vocab_size": 2,
}
SIDES = ("premise", "hypothesis")


def reference(kind="weight"):
    """The weights of the small model, or their gradients, by the library's names: bert.* and
    classifier.*."""
    return {
        name.removeprefix(f"small/{kind}/"): array
        for name, array in GOLDEN.items()
        if f"small/{kind}/" in name
    }


def written(folder, weights=None, **config):
    folder.mkdir(exist_ok=True)
    save_file(reference() if weights is None else weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    return folder


def batch_of(which):
    batch = {
        name: jnp.asarray(GOLDEN[f"{which}/{name}"])
        for side in SIDES
        for name in (side, f"{side}_length")
    }
    return PairBatch(**batch, mask=jnp.ones(len(batch["premise"])))


def model_of(path, **fields):
    return Encoder(**weight_files.read_architecture(path), **fields)


def drawn(model, batch):
    init = jax.jit(lambda key: model.init({"params": key}, batch, train=False)["params"])
    return init(jax.random.key(0))


@pytest.fixture(scope="module")
def small():
    """(batch, initial parameters) of the small model."""
    sizes = {ours: FACTS["sizes"][theirs] for theirs, ours in families.SIZES.items()}
    batch = batch_of("small")
    return batch, drawn(Encoder(**sizes, cls_id=FACTS["cls"], sep_id=FACTS["sep"]), batch)


assert_same = functools.partial(jax.tree.map, np.testing.assert_array_equal)


# ---- weights that fit ----


def test_sizes_states_and_gradients_are_the_reference_s(small, tmp_path):
    """The pairs have all lengths; one has an empty premise, another an empty hypothesis."""
    batch, params = small
    folder = written(tmp_path / "weights")
    model = model_of(folder, cls_id=FACTS["cls"], sep_id=FACTS["sep"], dropout=0.0)
    assert (model.layers, model.hidden_size, model.positions) == (2, 16, 20)
    loaded, unused, *_ = weight_files.load_weights(folder, params)
    assert unused == ["classifier.bias", "classifier.weight"]
    assert_same(loaded["logits"], params["logits"])  # the head keeps its initial weights
    slopes, *_ = weight_files.load_weights(
        written(tmp_path / "gradient", reference("gradient")), params
    )
    for tree, arrays in ((loaded, reference()), (slopes, reference("gradient"))):
        tree["logits"] = {
            "kernel": arrays["classifier.weight"].T,
            "bias": arrays["classifier.bias"],
        }
    cotangents = [GOLDEN[f"small/{name}_cotangent"] for name in ("last", "logits")]

    def loss(params):
        logits, made = model.apply({"params": params}, batch, train=False, mutable=[STATES])
        last = made[STATES]["last"][0]
        return sum((c * x).sum() for c, x in zip(cotangents, (last, logits), strict=True)), (
            last,
            logits,
        )

    with jax.enable_x64(True):
        loaded = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), loaded)
        gradient, (last, logits) = jax.jit(jax.grad(loss, has_aux=True))(loaded)
        real = cotangents[0].any(axis=-1)
        np.testing.assert_allclose(last[real], GOLDEN["small/last"][real], rtol=0, atol=1e-5)
        np.testing.assert_allclose(logits, GOLDEN["small/logits"], rtol=0, atol=1e-5)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-5), gradient, slopes
        )
        # without states to return, the last layer computes only the first pieces
        plain = jax.jit(lambda p: model.apply({"params": p}, batch, train=False))(loaded)
        np.testing.assert_allclose(plain, logits, rtol=0, atol=1e-12)


def test_other_spellings_of_the_same_weights(small, tmp_path):
    """Names without the prefix, the norms' names of the first releases, another file name, and
    16-bit weights."""
    _, params = small
    expected, *_ = weight_files.load_weights(written(tmp_path / "plain"), params)
    weights = reference()
    bare = {
        name.removeprefix("bert."): array
        for name, array in weights.items()
        if "classifier" not in name
    }
    bare["embeddings.position_ids"] = np.arange(20)[None]
    bare["cls.predictions.bias"] = np.zeros(3, np.float32)
    got, unused, *_ = weight_files.load_weights(written(tmp_path / "bare", bare), params)
    assert_same(got, expected)
    assert unused == ["cls.predictions.bias"]
    old = {
        n.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): a
        for n, a in weights.items()
    }
    folder = written(tmp_path / "old", old)
    (folder / "model.safetensors").rename(folder / "biobert.safetensors")
    (folder / "config.json").rename(folder / "bert_config.json")
    for path in (folder, folder / "biobert.safetensors"):
        assert_same(weight_files.load_weights(path, params)[0], expected)
        assert weight_files.read_architecture(path)["layers"] == 2
    halves = {name: array.astype(np.float16) for name, array in weights.items()}
    got, *_ = weight_files.load_weights(written(tmp_path / "half", halves), params)
    assert jax.tree.all(
        jax.tree.map(
            lambda a, b: np.allclose(a, b, atol=2e-3) and a.dtype == b.dtype, got, expected
        )
    )


def test_a_size_beside_the_weights_is_refused_unless_it_is_theirs(tmp_path):
    config, folder = defaults.nli("bert"), written(tmp_path / "weights")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += [f"piece{number}" for number in range(FACTS["sizes"]["vocab_size"] - len(pieces))]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    config.model.update(weights=str(folder), hidden_size=FACTS["sizes"]["hidden_size"])
    fields = experiment_of(config).model.fields
    config.model.update(fields)  # as in the config of a finished run
    assert experiment_of(config).model.fields == fields
    config.model.layers = 7
    with pytest.raises(ConfigError, match=r"--config\.model\.layers: is 7"):
        experiment_of(config)


def test_all_seeds_start_from_the_same_weights(small, tmp_path):
    """Those of a masked language model leave the pooler as it was drawn."""
    _, params = small
    weights = {name: array for name, array in reference().items() if "pooler" not in name}
    folder = written(tmp_path / "weights", weights)
    expected, _, lacking, _ = weight_files.load_weights(folder, params)
    stacked = jax.tree.map(lambda leaf: np.stack([leaf, leaf + 1]), params)
    got, *_ = weight_files.load_weights(folder, stacked, stacked=True)
    assert lacking == ["pooler"]
    for name in ("pooler", "logits"):
        assert_same(got.pop(name), stacked[name])
        assert_same(expected.pop(name), params[name])
    for seed in (0, 1):
        assert_same(jax.tree.map(lambda leaf, seed=seed: leaf[seed], got), expected)
    words = weights["bert.embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(expected["embeddings"]["words"], words)


# ---- where they are ----


def test_an_installed_package_is_found_by_its_name(tmp_path, monkeypatch):
    folder = written(tmp_path / "some_weights")
    about = tmp_path / "some_weights-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: some-weights\nVersion: 1.0\n")
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (about / "RECORD").write_text(
        "".join(f"some_weights/{file.name},,\n" for file in folder.iterdir())
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert find_weights("some-weights") == folder
    (folder / "config.json").unlink()
    for name in ("some-weights", "no-such-weights", "../no/such"):
        with pytest.raises(UserError, match=r".* Fix: "):
            find_weights(name)


# ---- weights that do not fit ----


def test_all_weights_that_do_not_fit_are_named_together(small, tmp_path):
    _, params = small
    weights = reference()
    del weights["bert.pooler.dense.bias"], weights["bert.encoder.layer.1.attention.self.key.weight"]
    weights["bert.embeddings.word_embeddings.weight"] = np.zeros((24, 16), np.float32)
    weights["bert.encoder.layer.0.intermediate.dense.weight"] = np.zeros((16, 24), np.float32)
    weights["bert.encoder.layer.2.output.dense.bias"] = np.zeros(16, np.float32)
    folder = written(tmp_path / "weights", weights)
    parts = (
        "model.safetensors: its weights do not fit the model; "
        "2 missing: encoder.layer.1.attention.self.key.weight, pooler.dense.bias. "
        "2 of another shape: "
        "embeddings.word_embeddings.weight (24x16 in the file, 23x16 in the model), "
        "encoder.layer.0.intermediate.dense.weight (16x24 in the file, 24x16 in the model). "
        "1 unknown: encoder.layer.2.output.dense.bias (prefixes in the file: bert.). Fix: "
    )
    with pytest.raises(UserError, match=re.escape(parts)):
        weight_files.load_weights(folder, params)


def several(folder):
    for number in (1, 2):
        shutil.copy(
            folder / "model.safetensors", folder / f"model-0000{number}-of-00002.safetensors"
        )
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "t5"}, r"config\.json: another architecture: 'model_type' is"),
        ({"hidden_act": "gelu_new"}, r"config\.json: another architecture: 'hidden_act' is"),
        ({"num_hidden_layers": 0}, r"config\.json: another architecture: 'num_hidden_layers' is"),
        (several, r"weights: .*2 files"),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            r"weights: .*no model\.safetensors",
        ),
    ],
)
def test_a_folder_without_weights_of_bert_is_refused(change, message, tmp_path):
    folder = written(tmp_path / "weights", **(change if isinstance(change, dict) else {}))
    if callable(change):
        change(folder)
    with pytest.raises(UserError, match=rf"{message}.*\. Fix: "):
        weight_files.read_architecture(folder)


def test_bfloat16_and_prefixes_are_read_and_a_lost_part_is_named(small, tmp_path):
    """Names with several prefixes in two files; then one of the files is missing."""
    _, params = small
    arrays = {f"module.{name}": array.astype(jnp.bfloat16) for name, array in reference().items()}
    expected = weight_files.load_weights(written(tmp_path / "plain"), params).params
    folder = written(tmp_path / "parts")
    (folder / "model.safetensors").unlink()
    names = sorted(arrays)
    weight_map = {name: f"part-{place % 2}.safetensors" for place, name in enumerate(names)}
    for file in set(weight_map.values()):
        save_file({name: arrays[name] for name in names if weight_map[name] == file}, folder / file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    loaded = weight_files.load_weights(folder, params).params
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0.01, atol=0.01), loaded, expected
    )
    (folder / "part-1.safetensors").unlink()
    with pytest.raises(UserError, match=r"index\.json: .*part-1\.safetensors\. Fix: "):
        weight_files.load_weights(folder, params)
