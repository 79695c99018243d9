"""Pretrained weights: all names and shapes are accounted for, and no file can run code."""

import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.encoders import (
    drawn_params,
    model_of,
    tensors_of,
    write_encoder,
    write_in_two_files,
    write_pieces,
)
from support.tables import table_rows
from support.trees import assert_equal, assert_near

from mednli_jax.cli import read_config
from mednli_jax.data.pieces import find_weights
from mednli_jax.errors import ConfigError, DataError, UserError
from mednli_jax.experiment import experiment_of
from mednli_jax.models.weights import load_weights, read_architecture

HEAD = ("classifier.bias", "classifier.weight")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder with the weights of a small BERT."""
    return write_encoder("bert", tmp_path_factory.mktemp("weights") / "bert")


@pytest.fixture(scope="module")
def params(bert):
    """Initial parameters of the small BERT."""
    return drawn_params("bert", model_of("bert", bert))


@pytest.fixture(scope="module")
def expected(bert, params):
    return load_weights(bert, params).params


# ---- weights that fit ----


def test_a_new_head_keeps_its_initial_weights_and_that_of_the_file_is_unused(bert, params):
    loaded = load_weights(bert, params)

    assert tuple(loaded.unused) == HEAD
    assert_equal(loaded.params["logits"], params["logits"])


def test_a_head_under_another_name_is_named(params, tmp_path):
    tensors = tensors_of("bert")
    tensors["score.weight"] = tensors.pop("classifier.weight")
    tensors["cls.seq_relationship.weight"] = tensors["score.weight"]

    loaded = load_weights(write_encoder("bert", tmp_path, tensors), params, labels="abc")

    assert "have score.weight for the labels neutral," in loaded.warning
    assert "classifier.weight for a, b, c: a new" in loaded.warning


def test_the_weights_of_two_models_are_refused_with_their_prefixes(params, tmp_path):
    tensors = {}
    for name, array in tensors_of("bert").items():
        tensors |= {f"a.{name}": array, f"b.{name}": array}

    with pytest.raises(UserError, match=r"\(prefixes in the file: a\.bert\. b\.bert\.\)\. Fix: "):
        load_weights(write_encoder("bert", tmp_path, tensors), params)


def test_names_of_files_of_the_first_releases_are_read(params, expected, tmp_path):
    folder = write_encoder("bert", tmp_path)
    (folder / "model.safetensors").rename(folder / "biobert.safetensors")
    (folder / "config.json").rename(folder / "bert_config.json")

    for path in (folder, folder / "biobert.safetensors"):
        assert_equal(load_weights(path, params).params, expected)
        assert read_architecture(path)["layers"] == 3


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_weights_of_16_bits_are_read_as_32_bits(dtype, params, expected, tmp_path):
    tensors = {name: array.astype(dtype) for name, array in tensors_of("bert").items()}

    loaded = load_weights(write_encoder("bert", tmp_path, tensors), params).params

    assert_near(loaded, expected, rtol=0.01, atol=0.01)
    assert {leaf.dtype for leaf in jax.tree.leaves(loaded)} == {np.dtype("float32")}


@pytest.mark.parametrize("dtype, name", [(jnp.float8_e4m3fn, "F8_E4M3"), (np.int8, "I8")])
def test_weights_of_other_numbers_are_refused(dtype, name, params, tmp_path):
    tensors = {name: array.astype(dtype) for name, array in tensors_of("bert").items()}

    with pytest.raises(DataError, match=rf"^model\.safetensors: .* of type {name}: .* Fix: "):
        load_weights(write_encoder("bert", tmp_path, tensors), params)


def test_weights_in_two_files_with_a_further_prefix_are_read_and_a_lost_file_is_named(
    params, expected, tmp_path
):
    folder = write_in_two_files("bert", tmp_path)

    assert_equal(load_weights(folder, params).params, expected)

    (folder / "part-1.safetensors").unlink()
    with pytest.raises(UserError, match=r"index\.json: .*part-1\.safetensors\. Fix: "):
        load_weights(folder, params)


def test_a_size_of_the_config_is_refused_unless_it_is_that_of_the_weights(bert, tmp_path):
    folder = tmp_path / "bert"
    shutil.copytree(bert, folder)
    write_pieces(folder, 50)
    config = read_config("encoder")
    config.model.update(weights=str(folder), hidden_size=16)
    config.data.max_length = 64
    fields = experiment_of(config).model.fields

    with config.unlocked():  # as the config of a finished run
        config.model.update(fields)
    assert experiment_of(config).model.fields == fields

    config.model.layers = 7
    with pytest.raises(ConfigError, match=r"config\.model\.layers: is 7"):
        experiment_of(config)


def test_weights_are_of_the_pieces_of_a_vocabulary_and_of_those_added_to_it(tmp_path):
    folder = write_encoder("bert", tmp_path / "bert")
    config = read_config("encoder")
    config.model.update(weights=str(folder), hidden_size=16)
    config.data.max_length = 64
    write_pieces(folder, 48, DEID=48, Dia=49)
    assert experiment_of(config).model.fields["vocab_size"] == 50

    write_pieces(folder, 20)
    with pytest.raises(DataError, match=r"vocab\.txt: .*20 pieces.* 50\. Fix: "):
        experiment_of(config)


def test_all_seeds_start_from_the_same_weights(params, tmp_path):
    """Those of a masked language model leave the pooler as it was drawn."""
    tensors = tensors_of("bert")
    for name in ("weight", "bias"):
        del tensors[f"bert.pooler.dense.{name}"]
    folder = write_encoder("bert", tmp_path, tensors)
    of_seeds = jax.tree.map(lambda leaf: np.stack([leaf, leaf + 1]), params)

    alone = load_weights(folder, params)
    stacked = load_weights(folder, of_seeds, stacked=True).params

    assert alone.drawn == ["pooler"]
    for name in ("pooler", "logits"):
        assert_equal(stacked.pop(name), of_seeds[name])
        assert_equal(alone.params.pop(name), params[name])
    both = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), alone.params)
    assert_equal(stacked, both)
    words = tensors["bert.embeddings.word_embeddings.weight"]
    assert_equal(alone.params["embeddings"]["words"], words)


# ---- where they are ----


def test_an_installed_package_is_found_by_its_name_and_not_imported(bert, tmp_path, monkeypatch):
    folder = tmp_path / "some_weights"
    shutil.copytree(bert, folder)
    about = tmp_path / "some_weights-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: some-weights\nVersion: 1.0\n")
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    records = [f"some_weights/{file.name},,\n" for file in folder.iterdir()]
    (about / "RECORD").write_text("".join(records))
    monkeypatch.syspath_prepend(tmp_path)

    assert find_weights("some-weights") == folder

    (folder / "config.json").unlink()
    for name in ("some-weights", "no-such-weights", "../no/such"):
        with pytest.raises(UserError, match=r".* Fix: "):
            find_weights(name)


# ---- weights that do not fit ----


def test_all_weights_that_do_not_fit_are_named_together(params, tmp_path):
    tensors = tensors_of("bert")
    del tensors["bert.pooler.dense.bias"]
    del tensors["bert.encoder.layer.1.attention.self.key.weight"]
    tensors["bert.embeddings.word_embeddings.weight"] = np.zeros((51, 16), np.float32)
    tensors["bert.encoder.layer.0.intermediate.dense.weight"] = np.zeros((16, 24), np.float32)
    tensors["bert.encoder.layer.3.output.dense.bias"] = np.zeros(16, np.float32)
    folder = write_encoder("bert", tmp_path, tensors)
    parts = (
        "model.safetensors: its weights do not fit the model; "
        "2 missing: encoder.layer.1.attention.self.key.weight, pooler.dense.bias. "
        "2 of another shape: "
        "embeddings.word_embeddings.weight (51x16 in the file, 50x16 in the model), "
        "encoder.layer.0.intermediate.dense.weight (16x24 in the file, 24x16 in the model). "
        "1 unknown: encoder.layer.3.output.dense.bias (prefixes in the file: bert.). Fix: "
    )
    with pytest.raises(UserError, match=re.escape(parts)):
        load_weights(folder, params)


@pytest.mark.parametrize(
    "model_type, files, message",
    table_rows(r"""
        bert | | weights: .*no model\.safetensors\. Fix:
        bert | 1.safetensors 2.safetensors | weights: .*2 files .* Fix:
        bert | adapter_config.json | weights: an adapter .* Fix: merge
        bert | checkpoint-500/1.safetensors | weights: .*checkpoints.* Fix: .*weights/checkpoint-500
        distilbert | pytorch_model.bin | config\.json: another architecture: .*"distilbert".* Fix:
    """),
)
def test_a_folder_without_one_file_of_weights_is_refused(model_type, files, message, tmp_path):
    folder = write_encoder("bert", tmp_path / "weights", model_type=model_type)
    for file in files.split():
        (folder / file).parent.mkdir(exist_ok=True)
        shutil.copy(folder / "model.safetensors", folder / file)
    (folder / "model.safetensors").unlink()

    with pytest.raises(UserError, match=message):
        read_architecture(folder)
