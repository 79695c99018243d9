"""Settings that cannot work are refused in one line that names the field, before any file is
read."""

import hashlib
import re

import pytest
from support.tables import fields_of, table_rows

from mednli_jax import checks, cli, rundir
from mednli_jax.cli import read_config
from mednli_jax.errors import ConfigError
from mednli_jax.experiment import experiment_of

NAMES = tuple(path.stem for path in sorted(cli.CONFIGS.glob("*.py")))


def config_with(field):
    """A config that has this field."""
    section, _, name = field.partition(".")
    return next(config for config in map(read_config, NAMES) if name in config.get(section, {}))


def with_fields(config, fields):
    with config.unlocked(), config.ignore_type():
        config.update_from_flattened_dict(fields)
    return config


def refusal(config, fields):
    """The message for a config with these fields; "" where it may be used."""
    try:
        checks.check(with_fields(config, fields))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_the_values_of_a_named_config_pass_every_check(name):
    assert refusal(read_config(name), {}) == ""


def test_a_new_or_renamed_field_of_a_config_raises_the_format_of_runs():
    """Where this fails, raise FORMAT and enter the new digest."""
    names = set()
    for name in NAMES:
        names |= rundir.flat(read_config(name).to_dict()).keys()
    digest = hashlib.sha256(" ".join(sorted(names)).encode()).hexdigest()[:8]

    assert (rundir.FORMAT, digest) == (4, "9e3d66f3")


@pytest.mark.parametrize("field", checks.CHOICES)
def test_a_field_with_choices_takes_no_other_and_names_them(field):
    message = refusal(config_with(field), {field: "zyzzyva"})

    assert message.startswith(f"config.{field}: unknown value 'zyzzyva'. Fix: give one of ")
    assert message.endswith(f" {', '.join(filter(None, checks.CHOICES[field]))}.")


BOUNDS = [(field, *bounds) for bounds, names in checks.NUMBERS.items() for field in names.split()]


@pytest.mark.parametrize("field, least, most", BOUNDS)
def test_a_number_may_be_its_bounds_and_no_less_no_more_and_not_nan(field, least, most):
    allowed = re.escape(f"{least} to {most}")
    refused = re.compile(rf"config\.{field}: is \S+\. Fix: give {allowed}\.$")
    step = 1 if isinstance(most, int) else most / 999

    for value in (least - step, most + step, float("nan")):
        assert refused.match(refusal(config_with(field), {field: value}))
    for value in (least, most):  # another rule may refuse the config with it
        assert not refused.match(refusal(config_with(field), {field: value}))


@pytest.mark.parametrize(
    "wrong, right",
    table_rows(f"""
        transfer.private=true | transfer.private=false
        seeds=[] | seeds=[0,1,2]
        seeds=[2,2] | seeds=[0,1,2]
        seeds=[-1] | seeds=[0]
        seeds=[{2**32}] | seeds=[{2**32 - 1}]
        seeds=[1.5] | seeds=[1]
        model.name="ga_reader" | model.name="bow"
    """),
)
def test_a_broken_rule_names_the_field_and_its_fix_works(wrong, right):
    fields = fields_of(wrong)
    fixed = fields_of(right)
    (field,) = fixed

    assert re.match(rf"config\.{field}: .*\. Fix: .*\.$", refusal(read_config("bow"), fields))
    assert refusal(read_config("bow"), {**fields, **fixed}) == ""


@pytest.mark.parametrize(
    "name, text",
    table_rows(f"""
        bow | data.tokens="pieces"
        encoder | data.tokens="words"
        bow | data.builder="tfds"
        bow | vectors.seed={2**70}
        esim | model.knowledge_scale=NaN
        esim | model.masking="paper" model.knowledge="typed"
        esim | knowledge.relations="may_treat" model.knowledge="replace"
        esim | knowledge.polarity=true
        encoder | knowledge.polarity=true model.knowledge="typed"
        esim | knowledge.mentions="found.xml"
        esim | knowledge.types=["C"] model.knowledge="typed" knowledge.mentions="m.tsv"
        infersent | model.knowledge="typed"
        infersent | model.pooling="last" model.knowledge="bias"
        encoder | vectors.path="glove.txt"
        hypothesis_only | train.optimizer="adam"
        hypothesis_only | vectors.path="glove.txt"
        hypothesis_only | model.knowledge="replace"
        hypothesis_only | transfer.private=true transfer.init_from="runs/other"
        ga | model.pointer="span"
        diskne_bow | diskne.categories=["moods"]
        diskne_bow | data.limit=5
        diskne_bow | transfer.init_from="runs/other"
    """),
)
def test_a_setting_that_cannot_work_is_refused_by_the_name_of_its_field(name, text):
    """The first field of each row."""
    config = read_config(name)
    fields = fields_of(text)
    config.update_from_flattened_dict(fields)

    with pytest.raises(ConfigError, match=rf"^config\.{next(iter(fields))}\b.* Fix: "):
        experiment_of(config)


def test_a_disease_in_a_config_may_be_a_number():
    """From a command line `--config.diskne.diseases=1` arrives as a number."""
    config = read_config("diskne_bow")
    config.diskne.diseases = (1, "gout,mumps")

    choice = experiment_of(config).trained_by.keywords["choice"]
    assert choice.diseases == ("1", "gout", "mumps")


@pytest.mark.parametrize("values", [("A", "B"), ("A,B",), ("A, B,",)])
def test_a_list_with_commas_is_a_list(values):
    """A command line gives A,B as one value."""
    config = read_config("esim_kd:file")
    config.vectors.retrofit = "ontology"
    fields = ("knowledge.sources", "knowledge.languages", "knowledge.types")
    for field in (*fields, "vectors.retrofit_relations"):
        config.update_from_flattened_dict({field: values})

    corpus = experiment_of(config).corpus

    options = corpus.terminology.options
    for listed in (options.sources, options.languages, corpus.linking.types):
        assert listed == ("A", "B")
    assert corpus.retrofit_relations == ("A", "B")
