"""The task DisKnE as commands see it: what its configs may say, and the classes of its models."""

import jax.numpy as jnp
import numpy as np
import pytest

from mednli_jax import checks, defaults
from mednli_jax.diskne import plug
from mednli_jax.errors import ConfigError
from mednli_jax.run import experiment_of


def test_two_classes_of_the_published_scripts_are_trained_and_kept_as_three():
    """Their models of DisKnE have two logits; what is kept of a fold has the probabilities of all classes."""
    task = experiment_of(defaults.diskne("esim", "demo")).task
    assert task.classes == (0, 1, 2)
    config = defaults.diskne("bow", "demo")
    config.model.num_classes = 2
    task = experiment_of(config).task
    logits = jnp.array([[0.0, 1.0], [2.0, 0.0]])
    loss = task.loss(logits, {"label": jnp.array([1, 1])})
    np.testing.assert_allclose(loss, np.log1p(np.exp([-1.0, 2.0])), rtol=1e-6)
    assert task.whole(logits).tolist() == [[0, 1, -np.inf], [2, 0, -np.inf]]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ((), ()),
        (("",), ()),
        (("gout", "mumps"), ("gout", "mumps")),
        (("gout,mumps",), ("gout", "mumps")),
        ((1,), ("1",)),
    ],
)
def test_names_of_a_config_are_the_same_from_a_tuple_and_from_the_command_line(values, names):
    assert plug.several(values) == names


# Settings of sentence pairs that folds do not have.
LACKING = {
    "data.limit": 5, "data.sample": 5, "data.mix": "snli", "data.labels": "a:entailment,b:neutral",
    "data.features": True, "transfer.init_from": "runs/a",
}  # fmt: skip


@pytest.mark.parametrize("field", LACKING)
def test_a_setting_that_folds_lack_is_refused(field):
    config = defaults.diskne("esim")
    config.update_from_flattened_dict({field: LACKING[field]})
    with pytest.raises(ConfigError, match=rf"^config\.{field}: .* Fix: leave it out\."):
        checks.check(config)


def test_other_commands_know_what_folds_lack():
    assert not {"probe", "predictions"} & set(plug.TASK.flags["evaluate"])
    assert plug.TASK.analyses() == {}
