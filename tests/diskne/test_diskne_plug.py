"""What DisKnE's TASK takes from a config, refuses, and shows."""

import json
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from support.diskne import ROWS, write_annotations, write_mednli
from support.tables import fields_of, table_rows

from mednli_jax.checks import check
from mednli_jax.cli import read_config
from mednli_jax.data.arrays import SIDES
from mednli_jax.diskne import task
from mednli_jax.diskne.folds import MOST_SEED, FoldChoice
from mednli_jax.errors import ConfigError
from mednli_jax.experiment import experiment_of
from mednli_jax.prepare import fact_lines


def config_of(variant, fields):
    """The config of sums of words with these fields."""
    config = read_config(f"diskne_bow:{variant}")
    with config.unlocked():  # model.num_classes is a field of diskne_bert alone
        config.update_from_flattened_dict(fields)
    return config


@pytest.mark.parametrize(
    "values, names",
    table_rows("""
        [] |
        ["a,b", "c"] | a b c
        [12, ""] | 12
        ["gout,,mumps,"] | gout mumps
    """),
)
def test_names_of_diseases_or_categories_may_come_as_one_string(values, names):
    assert task.names_in(json.loads(values)) == tuple(names.split())


@pytest.mark.parametrize(
    "variant, text",
    table_rows(f"""
        demo | data.genre="slate"
        demo | data.labels="yes:entailment,no:neutral"
        demo | diskne.wording="sentence"
        demo | diskne.negatives="closest"
        demo | diskne.categories=["symptoms,moods"]
        demo | seeds=[0,{MOST_SEED + 1}]
        file | diskne.wording="full"
        file | diskne.negatives="random"
        mednli | data.builder="tfds"
    """),
)
def test_settings_that_folds_do_not_have_are_refused(variant, text):
    field = text.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"^config\.{field}\b"):
        check(config_of(variant, fields_of(text)))


@pytest.mark.parametrize(
    "variant, text",
    table_rows(f"""
        demo | seeds=[0,{MOST_SEED}]
        demo | diskne.categories=["symptoms,tests"]
        demo | diskne.wording="full"
        file | diskne.wording=""
        file | diskne.negatives=""
        mednli | diskne.negatives="random"
    """),
)
def test_settings_of_folds_are_accepted(variant, text):
    check(config_of(variant, fields_of(text)))


@pytest.mark.parametrize(
    "ontology, names_from",
    [
        ("none", ""),
        ("umls", "umls"),
    ],
)
def test_the_corpus_of_diskne_has_the_settings_of_its_config(ontology, names_from):
    fields = {"ontology": ontology, "wording": "full", "negatives": "random"}
    corpus = task.TASK.corpus(config_of("mednli", {f"diskne.{k}": v for k, v in fields.items()}))
    assert corpus.name == "mednli"
    assert corpus.wording == "full"
    assert corpus.negatives == "random"
    assert corpus.names_from == names_from


def test_the_folds_that_are_trained_are_those_of_the_config():
    config = config_of(
        "demo",
        {
            "diskne.diseases": (7, "C01,C02"),
            "diskne.categories": ("tests",),
            "diskne.at_once": 3,
        },
    )
    choice = FoldChoice(at_once=3, diseases=("7", "C01", "C02"), categories=("tests",))
    assert task.TASK.fit(config).keywords["choice"] == choice


def test_prepare_counts_diseases_folds_and_rows_that_are_left_out(tmp_path):
    """C06 has too few positive examples in a category for a fold."""
    (tmp_path / "diskne").mkdir()
    without_positive = ("g,ng", "C06", "non-entailment", "symptoms_diseases", "C07", "", "")
    rows = [*ROWS, ROWS[2], without_positive]
    write_annotations(write_mednli(tmp_path) / "diskne" / "m.csv", rows)
    fields = {"data.dir": str(tmp_path), "diskne.ontology": "none", "vectors.path": ""}

    prepared, _ = task.TASK.corpus(config_of("mednli", fields)).prepare()

    diseases, left_out, *further = fact_lines(prepared, "diskne", SIDES, "pairs")
    assert diseases == "  diskne: 3 diseases; folds: medical 2"
    assert left_out == "    left out: 1 repeated, 1 unnamed, 1 without positive"
    assert any(line.startswith("  benchmark: 13 pairs") for line in further)


def test_eight_private_tables_and_no_analysis_of_pairs_are_offered():
    assert not task.TASK.analyses
    assert sorted(name[-1] for name in task.TASK.tables) == list("12345678")
    assert not any(table.shareable for table in task.TASK.tables.values())
    assert {"probe", "predictions"}.isdisjoint(task.TASK.flags["evaluate"])


def test_two_classes_of_the_published_scripts_are_trained_and_kept_as_three():
    task = experiment_of(config_of("demo", {"model.num_classes": 2})).scorer
    logits = jnp.array([[0.0, 1.0], [2.0, 0.0]])

    loss = task.loss(logits, SimpleNamespace(label=jnp.array([1, 1]), expert=None))

    np.testing.assert_allclose(loss, np.log1p(np.exp([-1.0, 2.0])), rtol=1e-6)
    assert task.whole(logits).tolist() == [[0, 1, -np.inf], [2, 0, -np.inf]]


def test_by_default_folds_have_three_classes():
    assert experiment_of(read_config("diskne_esim")).scorer.classes == (0, 1, 2)
