"""A config.json is read as the Transformers library reads it, or one line refuses it.

golden/config_variants.json has changes of the small encoders' files; what version 5.24 adds to them
or changes in them; of variants that change the logits, those of two pairs (of version 4.57, where 5
refuses the file); and the line of those that are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.encoders import batch_of, drawn_params, labels_of, model_of, reference, write_encoder
from support.trees import assert_near

from mednli_jax.errors import DataError
from mednli_jax.models import families, weights

TABLE = Path(__file__).parents[1] / "golden" / "config_variants.json"
VARIANTS = json.loads(TABLE.read_text())
PAIRS = slice(4, 10, 5)  # the golden pairs 4 and 9


def named(key):
    """The variants with an entry."""
    return [name for name in VARIANTS if key in VARIANTS[name]]


def write_variant(name, folder):
    """(the content of config.json, the folder)"""
    variant = VARIANTS[name]
    facts, _ = reference(variant["of"])
    config = facts["config"] | variant.get("changes", {})
    for entry in variant.get("without", ()):
        config.pop(entry, None)
    write_encoder(variant["of"], folder)
    (folder / "config.json").write_text(json.dumps(config))
    return config, folder


@pytest.mark.parametrize("name", named("read"))
def test_a_config_says_what_transformers_reads_in_it(name, tmp_path):
    config, folder = write_variant(name, tmp_path)

    fields = weights.read_architecture(folder)

    assert fields == families.fields_of(config | VARIANTS[name]["read"])


@pytest.mark.slow
@pytest.mark.parametrize("name", named("read"))
def test_the_installed_transformers_reads_the_same(name, tmp_path):
    """Skipped without transformers 5."""
    transformers = pytest.importorskip("transformers", minversion="5")
    config, folder = write_variant(name, tmp_path)

    read = transformers.AutoConfig.from_pretrained(folder).to_dict()

    assert families.fields_of(read) == families.fields_of(config)


@pytest.mark.parametrize("name", named("logits"))
def test_logits_of_a_config_are_those_of_transformers(name, tmp_path):
    family, (_, folder) = VARIANTS[name]["of"], write_variant(name, tmp_path)
    model = model_of(family, folder, room=60)
    params = weights.load_weights(folder, drawn_params(family, model), labels=labels_of(family))

    logits = model.apply({"params": params.params}, batch_of(family, PAIRS), train=False)

    assert_near(logits, np.array(VARIANTS[name]["logits"]), atol=1e-4)


@pytest.mark.parametrize("name", named("message"))
def test_a_config_of_another_architecture_is_refused_by_its_entry(name, tmp_path):
    _, folder = write_variant(name, tmp_path)

    with pytest.raises(DataError) as raised:
        weights.read_architecture(folder)

    assert VARIANTS[name]["message"] in str(raised.value)
    assert " Fix: " in str(raised.value)
    assert "\n" not in str(raised.value)
