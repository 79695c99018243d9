"""A corpus of two classes: the model has two logits, and its results name the classes as all others do."""

import jax.numpy as jnp
import numpy as np
import pytest
from made_up_commands import config_flag

from mednli_jax import cli, run
from mednli_jax.data.arrays import Rows
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
    batch = {"label": jnp.asarray(ROWS.label)}
    np.testing.assert_allclose(TASK.loss(jnp.asarray(LOGITS[0]), batch), expected, atol=1e-6)
    assert TASK.correct(jnp.asarray(LOGITS[0]), batch).tolist() == [1, 1, 0]
    names = [row["predicted"][0] for row in TASK.predictions(ROWS, LOGITS)]
    assert names == ["entailment", "contradiction", "entailment"]
    first = TASK.described(ROWS, LOGITS)[0]
    assert first == pytest.approx({"entailment": 1 / (1 + np.exp(-1)), "neutral": 0, "contradiction": 1 / (1 + np.e)})


def test_the_labels_of_a_config_decide_the_classes():
    config = cli.read_config(config_flag("bow", "file").partition("=")[2])
    config.data.labels = "yes:entailment,no:contradiction,?:-"
    task = run.experiment_of(config).task
    facts = task.model_facts({"knowledge": {"longest_path": 1}})
    assert (task.classes, facts["num_classes"]) == ((0, 2), 2)
