"""What DisKnE's TASK takes from a config, refuses, and shows."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from support.diskne import write_annotations, write_mednli

from mednli_jax import defaults
from mednli_jax.checks import check
from mednli_jax.data.arrays import SIDES
from mednli_jax.diskne import corpus, plug
from mednli_jax.diskne.data import GROUPS
from mednli_jax.diskne.folds import MOST_SEED, FoldChoice
from mednli_jax.diskne.task import DisKnETask
from mednli_jax.errors import ConfigError
from mednli_jax.report.prepared import fact_lines
from mednli_jax.run import experiment_of


def config_of(variant="demo", **fields):
    """The config of sums of words with these fields, section__field=value."""
    config = defaults.diskne("bow", variant)
    config.update_from_flattened_dict(
        {name.replace("__", "."): value for name, value in fields.items()}
    )
    return config


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ((), ()),
        (("a,b", "c"), ("a", "b", "c")),
        ((12, ""), ("12",)),
        (("gout,,mumps,",), ("gout", "mumps")),
    ],
)
def test_a_tuple_of_names_may_come_as_one_string(values, names):
    assert plug.names_in(values) == names


@pytest.mark.parametrize(
    ("variant", "fields", "refused"),
    [
        ("demo", {"data__genre": "slate"}, "data.genre"),
        ("demo", {"data__labels": "yes:entailment,no:neutral"}, "data.labels"),
        ("demo", {"diskne__wording": "sentence"}, "diskne.wording"),
        ("demo", {"diskne__categories": ("symptoms,moods",)}, "diskne.categories"),
        ("demo", {"seeds": (0, MOST_SEED + 1)}, "seeds"),
        ("file", {"diskne__wording": "full"}, "diskne.wording"),
        ("file", {"diskne__negatives": "random"}, "diskne.negatives"),
        ("mednli", {"data__builder": "tfds"}, "data.builder"),
    ],
)
def test_settings_that_folds_do_not_have_are_refused(variant, fields, refused):
    with pytest.raises(ConfigError, match=rf"^--config\.{refused}\b"):
        check(config_of(variant, **fields))


@pytest.mark.parametrize(
    ("variant", "fields"),
    [
        (
            "demo",
            {
                "seeds": (0, MOST_SEED),
                "diskne__categories": ("symptoms,tests",),
                "diskne__wording": "full",
            },
        ),
        ("file", {"diskne__wording": "", "diskne__negatives": ""}),
        ("mednli", {"diskne__negatives": "random"}),
    ],
)
def test_other_settings_are_accepted(variant, fields):
    check(config_of(variant, **fields))


@pytest.mark.parametrize(("ontology", "names_from"), [("none", ""), ("umls", "umls")])
def test_the_corpus_and_the_folds_are_those_of_the_config(ontology, names_from):
    fields = {
        "diskne__ontology": ontology,
        "diskne__wording": "full",
        "diskne__negatives": "random",
    }
    chosen = {
        "diskne__diseases": (7, "C01,C02"),
        "diskne__categories": ("tests",),
        "diskne__at_once": 3,
    }
    config = config_of("mednli", **fields, **chosen)
    made = plug.TASK.corpus(config)
    assert (made.name, made.wording, made.negatives, made.names_from) == (
        "mednli",
        "full",
        "random",
        names_from,
    )
    expected = FoldChoice(at_once=3, diseases=("7", "C01", "C02"), categories=("tests",))
    assert plug.TASK.fit(config).keywords["choice"] == expected
    assert isinstance(plug.TASK.scorer(config), DisKnETask)


def test_prepare_tells_diseases_folds_of_each_group_and_what_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data" / "diskne").mkdir(parents=True)
    write_annotations(write_mednli(tmp_path / "data") / "diskne" / "m.csv")
    config = config_of(
        "mednli", data__dir=str(tmp_path / "data"), diskne__ontology="none", vectors__dim=8
    )
    config.vectors.path = ""
    prepared, _ = plug.TASK.corpus(config).prepare()
    first, second, *further = fact_lines(prepared, SIDES, "pairs")
    assert (
        first == "  diskne: 3 diseases; folds: medical 2"
    )  # C06 has too few positive examples in a category
    assert second == "    left out: 1 unnamed"
    assert any(line.startswith("  benchmark: 13 pairs") for line in further)
    groups = {fold.group for fold in corpus.folds_of(prepared)}
    assert groups == {"medical"} < set(GROUPS)


def test_no_analysis_of_pairs_is_offered_and_eight_tables_are(tmp_path):
    assert dict(plug.TASK.analyses) == {}
    assert not any(table.shareable for table in plug.TASK.tables.values())
    assert sorted(name[-1] for name in plug.TASK.tables) == list("12345678")
    assert {"probe", "predictions"}.isdisjoint(plug.TASK.flags["evaluate"])


def test_two_classes_of_the_published_scripts_are_trained_and_kept_as_three():
    """Their models of DisKnE have two logits; what is kept of a fold has the probabilities of all
    classes."""
    task = experiment_of(defaults.diskne("esim", "demo")).scorer
    assert task.classes == (0, 1, 2)
    config = defaults.diskne("bow", "demo")
    config.model.num_classes = 2
    task = experiment_of(config).scorer
    logits = jnp.array([[0.0, 1.0], [2.0, 0.0]])
    loss = task.loss(logits, SimpleNamespace(label=jnp.array([1, 1])))
    np.testing.assert_allclose(loss, np.log1p(np.exp([-1.0, 2.0])), rtol=1e-6)
    assert task.whole(logits).tolist() == [[0, 1, -np.inf], [2, 0, -np.inf]]
