"""Settings that cannot work are refused in one line that names the field, before any file is
read."""

import re

import pytest

from mednli_jax import checks, defaults
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
    ("esim", {"knowledge.abbreviations": "bundled"}, MENTIONS),
    ("bert", {"vectors.path": "glove.txt"}, {}),
    ("bow", {"train.average_every": 5}, {}),
    ("infersent", {"model.pooling": "last"}, {"model.knowledge": "bias"}),
    ("fasttext", {"train.optimizer": "adam"}, {}),
    ("fasttext", {"vectors.path": "glove.txt"}, {}),
    ("fasttext", {"model.knowledge": "replace"}, {}),
    ("fasttext", {"transfer.private": True}, {"transfer.init_from": "runs/other"}),
]
FOLDS = [{"diskne.categories": ("moods",)}, {"data.limit": 5}, {"transfer.init_from": "runs/other"}]


CONFIGS = {
    **{
        model: lambda model=model: defaults.nli(model)
        for model in ("esim", "bow", "infersent", "bert", "fasttext", "features")
    },
    **{model: lambda model=model: defaults.cloze(model) for model in ("ga_reader", "sa_reader")},
    "diskne": lambda: defaults.diskne("esim"),
}


def with_field(name):
    """A config that has this field."""
    section, _, field = name.partition(".")
    made = (make() for make in CONFIGS.values())
    return next(config for config in made if section in config and field in config[section])


def refusal(config, **fields):
    """The message for a config with these fields, such as train__epochs; "" where it may be
    used."""
    for name, value in fields.items():
        section, _, field = name.rpartition("__")
        with config.unlocked(), config.ignore_type():
            (config[section] if section else config)[field] = value
    try:
        checks.check(config)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_with_its_own_values_may_be_used(name):
    assert refusal(CONFIGS[name]()) == ""


@pytest.mark.parametrize("name", checks.CHOICES)
def test_a_field_with_choices_takes_no_other_and_names_them(name):
    message = refusal(with_field(name), **{name.replace(".", "__"): "zyzzyva"})
    assert message.startswith(f"--config.{name}: unknown value 'zyzzyva'. Fix: give one of ")
    assert all(choice in message for choice in checks.CHOICES[name])


BOUNDS = [(name, *bounds) for bounds, names in checks.NUMBERS.items() for name in names.split()]


@pytest.mark.parametrize(("name", "least", "most"), BOUNDS)
def test_a_number_may_be_its_bounds_and_no_less_no_more_and_not_nan(name, least, most):
    field, step = name.replace(".", "__"), 1 if isinstance(most, int) else most / 999
    allowed = re.escape(f"{least} to {most}")
    refused = re.compile(rf"--config\.{name}: is \S+\. Fix: give {allowed}\.$")
    for value in (least - step, most + step, float("nan")):
        assert refused.match(refusal(with_field(name), **{field: value}))
    for value in (least, most):  # another rule may refuse the config with it
        assert not refused.match(refusal(with_field(name), **{field: value}))


# Fields of one config, the field that is refused, and what obeys the fix.
OTHER_RULES = {
    "an average without its first epoch": (
        {"train__average_every": 3}, "train.average_every", {"train__average_every": 0}
    ),
    "an average after the last epoch": (
        {"train__average_from": 9, "train__epochs": 8}, "train.average_from", {"train__average_from": 8}
    ),
    "own layers without a source": ({"transfer__private": True}, "transfer.private", {"transfer__private": False}),
    "no seed": ({"seeds": ()}, "seeds", {"seeds": (0, 1, 2)}),
    "a seed twice": ({"seeds": (2, 2)}, "seeds", {"seeds": (0, 1, 2)}),
    "a seed below 0": ({"seeds": (-1,)}, "seeds", {"seeds": (0,)}),
    "a seed of 33 bits": ({"seeds": (2**32,)}, "seeds", {"seeds": (2**32 - 1,)}),
    "a seed that is no whole number": ({"seeds": (1.5,)}, "seeds", {"seeds": (1,)}),
    "a model of another task": ({"model__name": "ga_reader"}, "model.name", {"model__name": "bow"}),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER_RULES)
def test_another_rule_names_the_field_and_its_fix_works(case):
    fields, name, fixed = OTHER_RULES[case]
    message = refusal(defaults.nli("bow"), **fields)
    assert re.match(rf"--config\.{name}: .*\. Fix: .*\.$", message)
    assert refusal(defaults.nli("bow"), **{**fields, **fixed}) == ""


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
    with pytest.raises(ConfigError, match=rf"^--config\.{next(iter(wrong))}\b.* Fix: "):
        experiment_of(config)


def test_a_disease_may_be_a_number():
    """From a command line `--config.diskne.diseases=1` arrives as a number."""
    config = defaults.diskne("esim")
    config.diskne.diseases = (1, "gout,mumps")
    assert experiment_of(config).trained_by.keywords["choice"].diseases == ("1", "gout", "mumps")
