"""Settings that cannot work are refused in one line that names the field, before any file is read."""

import pytest

from mednli_jax import defaults
from mednli_jax.errors import ConfigError
from mednli_jax.run import experiment_of

MENTIONS = {"model.knowledge": "replace", "knowledge.mentions": "found.tsv"}
PAIRS = [  # model, the wrong field, other fields
    ("bow", {"seeds": ()}, {}),
    ("bow", {"seeds": (1, 1)}, {}),
    ("bow", {"data.tokens": "pieces"}, {}),
    ("bow", {"data.builder": "tfds"}, {}),
    ("bow", {"vectors.seed": 2**70}, {}),
    ("bow", {"model.name": "ga_reader"}, {}),
    ("esim", {"model.knowledge_scale": float("nan")}, {}),
    ("esim", {"model.masking": "paper"}, {"model.knowledge": "typed"}),
    ("esim", {"knowledge.relations": "may_treat"}, {"model.knowledge": "replace"}),
    ("infersent", {"model.knowledge": "typed"}, {}),
    ("esim", {"knowledge.mentions": "found.xml"}, {}),
    ("esim", {"knowledge.stop": "stop.txt"}, MENTIONS),
    ("bert", {"vectors.path": "glove.txt"}, {}),
    ("features", {"data.mix": "snli"}, {}),
    ("bow", {"train.average_every": 5}, {}),
    ("infersent", {"model.pooling": "last"}, {"model.knowledge": "bias"}),
    ("fasttext", {"train.optimizer": "adam"}, {}),
    ("fasttext", {"vectors.path": "glove.txt"}, {}),
    ("fasttext", {"model.knowledge": "replace"}, {}),
    ("fasttext", {"transfer.private": True}, {"transfer.init_from": "runs/other"}),
]
FOLDS = [{"diskne.categories": ("moods",)}, {"data.limit": 5}, {"transfer.init_from": "runs/other"}]


@pytest.mark.parametrize(
    ("config", "wrong", "others"),
    [
        *((defaults.nli(model), wrong, others) for model, wrong, others in PAIRS),
        *((defaults.diskne("esim"), wrong, {}) for wrong in FOLDS),
        (defaults.cloze("ga_reader"), {"model.pointer": "span"}, {}),
    ],
)
def test_a_setting_that_cannot_work_is_named(config, wrong, others):
    config.update_from_flattened_dict({**wrong, **others})
    with pytest.raises(ConfigError, match=rf"^config\.{next(iter(wrong))}\b.* Fix: "):
        experiment_of(config)


def test_a_disease_may_be_a_number():
    """From a command line `--config.diskne.diseases=1` arrives as a number."""
    config = defaults.diskne("esim")
    config.diskne.diseases = (1, "gout,mumps")
    assert experiment_of(config).trained_by.keywords["choice"].diseases == ("1", "gout", "mumps")
