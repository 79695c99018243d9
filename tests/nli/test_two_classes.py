"""Corpora without one of the three classes, and models that have no logit for one."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import f1_score
from support.commands import config_flag

from mednli_jax import cli, run
from mednli_jax.data.arrays import Rows
from mednli_jax.nli import boosting
from mednli_jax.nli.task import NLITask

TASK = NLITask(classes=(0, 2))  # entailment and contradiction
ROWS = Rows("dev", 0, np.array([0, 2, 2]), ((), ()), ("a", "b", "c"), ((), (), ()))
LOGITS = np.array([[[1.0, 0.0], [0.0, 2.0], [0.5, 0.0]]], np.float32)  # the last is wrong


def test_scores_and_predictions_of_two_logits():
    scores = TASK.score(ROWS, LOGITS)
    assert scores["accuracy"]["mean"] == pytest.approx(2 / 3)
    assert scores["confusion"] == [[1, 0, 0], [0, 0, 0], [1, 0, 1]]
    assert scores["macro_f1"]["mean"] == pytest.approx(2 / 3)  # 2/3 for each of the two classes
    expected = np.log1p(np.exp([-1.0, -2.0, 0.5]))
    assert scores["loss"]["mean"] == pytest.approx(expected.mean(), abs=1e-6)
    batch = SimpleNamespace(label=jnp.asarray(ROWS.label))
    np.testing.assert_allclose(TASK.loss(jnp.asarray(LOGITS[0]), batch), expected, atol=1e-6)
    assert TASK.correct(jnp.asarray(LOGITS[0]), batch).tolist() == [1, 1, 0]
    names = [row["predicted"][0] for row in TASK.predictions(ROWS, LOGITS)]
    assert names == ["entailment", "contradiction", "entailment"]
    first = TASK.described(ROWS, LOGITS)[0]
    assert first == pytest.approx(
        {"entailment": 1 / (1 + np.exp(-1)), "neutral": 0, "contradiction": 1 / (1 + np.e)}
    )


def test_the_labels_of_a_config_decide_the_classes():
    config = cli.read_config(config_flag("bow", "file").partition("=")[2])
    config.data.labels = "yes:entailment,no:contradiction,?:-"
    task = run.experiment_of(config).scorer
    facts = task.model_facts({"knowledge": {"longest_path": 1}})
    assert (task.classes, facts["num_classes"]) == ((0, 2), 2)


# The gold labels of the pairs that are scored, the classes of the model, and whether there is a
# loss.
SCORED = {
    "a model of two classes on three": ([0, 1, 2, 1, 2, 0], (0, 2), False),
    "a model of three classes on two": ([0, 2, 2, 0, 2, 0], (0, 1, 2), True),
    "a split without a class of the corpus": ([0, 2, 2, 0, 2, 2], (0, 2), True),
    "pairs of one class": ([2, 2, 2, 2, 2, 2], (0, 2), True),
}


@pytest.mark.parametrize("case", SCORED)
def test_scores_are_over_the_classes_of_the_pairs_that_are_scored(case):
    label, classes, has_loss = SCORED[case]
    rows = Rows("test", 0, np.array(label), ((), ()), tuple("abcdef"), (("x",), ("x",), *[()] * 4))
    logits = np.random.default_rng(3).normal(size=(2, 6, len(classes)))
    scores = NLITask(classes=classes).score(rows, logits)
    predicted = np.array(classes)[logits.argmax(axis=-1)]
    for part, chosen in ((scores, slice(None)), (scores["slices"]["x"], slice(2))):
        gold = np.array(label)[chosen]
        expected = [
            f1_score(
                gold, of_seed[chosen], labels=np.unique(gold), average="macro", zero_division=0
            )
            for of_seed in predicted
        ]
        assert part["macro_f1"]["per_seed"] == pytest.approx(expected)
    assert ("loss" in scores) == has_loss
    assert np.isfinite(scores["calibration"]["ece"]["mean"])


@pytest.mark.parametrize("said", [[0, 0, 0], [0, 2, 0], [0, 2, 1]])
def test_labels_alone_have_no_loss_and_no_calibration(said):
    logits = np.where(np.array(said)[:, None] == np.arange(3), 0.0, -np.inf)[None]
    assert not {"loss", "calibration"} & NLITask().score(ROWS, logits).keys()


def test_a_model_that_diverged_has_a_loss_for_the_loop():
    logits = np.full((1, 3, 3), np.nan)
    scores = NLITask().score(ROWS, logits)
    assert np.isnan(scores["loss"]["mean"])


@pytest.mark.parametrize(("label", "has_loss"), [([0, 2, 2], True), ([0, 1, 2], False)])
def test_trees_have_no_logit_for_a_class_that_training_lacks(label, has_loss):
    table, rows = (
        np.eye(6)[:, :3],
        Rows("dev", 0, np.array(label), ((), ()), ("a", "b", "c"), ((), (), ())),
    )
    p_SNC, _, _ = boosting.fit_predict(
        table, np.array([0, 2, 0, 2, 0, 2]), slice(None), (0,), trees=2
    )
    scores = NLITask().score(rows, boosting.logits_of(p_SNC)[:, :3])
    assert ("loss" in scores, "calibration" in scores) == (has_loss, True)
