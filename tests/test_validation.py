"""Settings that cannot work are refused in one line that names the field, before any file is read."""

import pytest

from mednli_jax import defaults, experiment
from mednli_jax.errors import ConfigError, UserError

REFUSED = [
    ("bow", "data.tokens", "pieces"),
    ("bow", "data.tokens", "nonsense"),
    ("bow", "vectors.seed", -1),
    ("bow", "vectors.seed", 2**70),
    ("bow", "vectors.retrofit_rounds", -1),
    ("esim", "model.knowledge_scale", float("nan")),
    ("esim", "model.knowledge_scale", float("inf")),
    ("fasttext", "transfer.private", True),
]


def changed(config, field, value):
    section, _, name = field.partition(".")
    config[section][name] = value
    return config


@pytest.mark.parametrize(("model", "field", "value"), REFUSED)
def test_a_setting_that_cannot_work_is_named(model, field, value):
    config = changed(defaults.nli(model), "transfer.init_from", "runs/other" if field.startswith("transfer") else "")
    with pytest.raises(ConfigError, match=rf"^config\.{field}\b"):
        experiment.of(changed(config, field, value))


@pytest.mark.parametrize(
    ("field", "value"), [("diskne.wording", "x"), ("diskne.categories", (3,)), ("diskne.categories", ("moods",))]
)
def test_a_setting_of_folds_that_cannot_work_is_named(field, value):
    with pytest.raises(ConfigError, match=rf"config\.{field}.* Fix: "):
        experiment.of(changed(defaults.diskne("esim"), field, value))


def test_a_row_of_text_has_room_for_a_piece_beside_the_special_ones():
    for length in (1, 2, 3):
        with pytest.raises(ConfigError, match=r"^config\.data\.max_length is \d\. Fix: give 4 "):
            experiment.of(changed(defaults.mlm(), "data.max_length", length))
    assert experiment.of(changed(defaults.mlm(), "data.max_length", 4)).corpus.pieces.room == 4


def test_a_disease_may_be_a_number():
    """From a command line `--config.diskne.diseases=1` arrives as a number."""
    asked = experiment.of(changed(defaults.diskne("esim"), "diskne.diseases", (1, "gout,mumps")))
    assert asked.folds.diseases == ("1", "gout", "mumps")


def test_the_root_folder_is_no_file_of_vectors():
    with pytest.raises(UserError, match="Fix: "):
        experiment.of(changed(defaults.nli("bow"), "vectors.path", "/")).prepare()
