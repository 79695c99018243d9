"""The models and steps of Adam equal an independent PyTorch reference on shared weights, forward
and backward.

docs/log.md names the script that made the golden files.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.golden_files import assert_close, assert_trees_close, cast, golden, tree_of, unflatten

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.batching import Layout, pack_segments
from mednli_jax.models import table
from mednli_jax.nli.scorer import NLIScorer
from mednli_jax.training import optim
from mednli_jax.training.scorer import frozen
from mednli_jax.training.state import Learner
from mednli_jax.training.step import train_step

FACTS, GOLDEN = golden("golden")
CASES = FACTS["cases"]
FIELDS = ("label", "premise", "hypothesis", "premise_length", "hypothesis_length")
FIELDS += ("link_premise", "link_hypothesis", "link_distance")
ROWS, WIDTH = 8, (7, 5)  # of a batch
STATISTICS = {"running_mean": "mean", "running_var": "variance"}


class Reference(NamedTuple):
    """The golden arrays of a case under a folder of the file."""

    case: dict
    folder: str
    dtype: str

    def array(self, name):
        return GOLDEN[f"{self.folder}/{name}"]

    def weights(self, name):
        return unflatten(self.array(name), self.case["weights"])

    def assert_statistics(self, batch_stats):
        if self.case["statistics"]:
            expected = statistics_of(self.case, self.array("statistics"))
            assert_trees_close(batch_stats, expected, self.dtype)


def statistics_of(case, flat):
    """The batch_stats collection from running means and variances."""
    tree = {}
    for key, values in unflatten(flat, case["statistics"]).items():
        layer, name = key.split(".")
        tree.setdefault(layer, {})[STATISTICS[name]] = values
    return tree


def fresh_statistics(case):
    """Means of 0 and variances of 1."""
    flat = [np.full(shape, float("var" in name)) for name, shape in case["statistics"]]
    return statistics_of(case, np.concatenate(flat, axis=None)) if flat else {}


def build(case, **more):
    fields = {
        "hidden_size": FACTS["hidden_size"],
        "dropout": 0.0,
        **case["fields"],
        **more,
    }
    facts = {"longest_path": FACTS["longest_path"], "padded_length": 8}
    return table.entry(case["model"]).build(fields, **facts)


def with_padding(rows):
    """The rows with padding among them; all passes share a program of eight rows."""
    index = np.array([rows[0], -1, *rows[1:]], np.int32)
    return np.pad(index, (0, ROWS - len(index)), constant_values=-1)


def inputs():
    return {key: jnp.asarray(GOLDEN[f"input/{key}"]) for key in FIELDS}


def fitted(batches):
    """A layout that holds each of these batches: segments and distinct words, as in training."""
    rows = np.stack(batches)
    lengths = [np.where(rows >= 0, GOLDEN[f"input/{side}_length"][rows], 0) for side in SIDES]
    alive = np.concatenate(lengths, axis=1)[:, :, None] > np.arange(max(WIDTH))
    stairs = pack_segments(alive.sum(axis=1).max(axis=0), uses=2000)
    assert len(stairs) > 1
    return Layout(
        ROWS,
        1,
        WIDTH,
        stairs,
        stairs,
        len(GOLDEN["input/vectors"]),
    )


# With those of TRAINED, each cell, pooling, matching, kind of knowledge and masking once; others
# run with `-m slow`.
QUICK = (
    "bow-bias-paper",
    "infersent-none-masked",
    "infersent-gru-bias-paper",
    "infersent-mean-bias",
    "bilstm",
    "esim-replace-paper",
)


def cases(names, quick):
    return [pytest.param(n, marks=() if n in quick else pytest.mark.slow, id=n) for n in names]


@pytest.mark.parametrize("name", cases(CASES, QUICK))
def test_logits_loss_gradients_and_statistics_equal_the_pytorch_reference_in_float64(name):
    """Also the gradients by word vectors."""
    with jax.enable_x64(True):
        check_passes(name, "float64")


def test_logits_loss_gradients_and_statistics_equal_the_pytorch_reference_in_float32():
    check_passes("esim-bias-masked", "float32")


def check_passes(name, dtype):
    case = CASES[name]
    task = NLIScorer()
    words = frozen(jnp.asarray(GOLDEN["input/vectors"], dtype))
    model = build(case, train_vectors=True)
    params = cast(tree_of(unflatten(GOLDEN[f"{name}/weights"], case["weights"])), dtype)
    batch_stats = cast(fresh_statistics(case), dtype)

    def loss_of(params, index, batch_stats, train):
        batch = task.to_batch(inputs(), index[:, None], Layout.full(ROWS, WIDTH))
        variables = {"params": params, "batch_stats": batch_stats, "frozen": words}
        logits, changed = model.apply(variables, batch, train=train, mutable=["batch_stats"])
        loss = jnp.sum(batch.mask * task.loss(logits, batch))
        return loss, (logits, changed.get("batch_stats", {}))

    backward = jax.jit(jax.value_and_grad(loss_of, has_aux=True), static_argnames="train")
    for number, step in enumerate(case["passes"]):
        reference = Reference(case, f"{name}/{dtype}/{number}", dtype)
        index = with_padding(step["rows"])
        (loss, (logits, batch_stats)), gradient = backward(
            params, index, batch_stats, train=step["train"]
        )
        assert_close(logits[index >= 0], reference.array("logits"), dtype)
        assert np.isfinite(logits).all()  # even for the padding rows
        assert_close(loss, reference.array("loss"), dtype)
        for bias in ("ih", "hh") if step.get("gradient", True) else ():
            expected = tree_of(reference.weights("gradient"), bias)
            assert_trees_close(gradient, expected, dtype)
        reference.assert_statistics(batch_stats)


TRAINED = ("bow-replace-masked", "esim-bias-masked")


@pytest.mark.parametrize("name", cases(FACTS["trained"], TRAINED))
def test_three_steps_of_adam_equal_those_of_the_pytorch_reference(name):
    """Losses, weights and running statistics agree. The layout has segments, and every distinct
    word is projected once.

    Only float64 serves: Adam divides by the size of the gradient, and where that vanishes, noise of
    float32 would become a whole step.
    """
    case = CASES[name]
    reference = Reference(CASES[name], f"training/{name}", "float64")
    options = optim.Options(
        learning_rate=FACTS["learning_rate"], weight_decay=FACTS["weight_decay"]
    )
    optimizer = optim.build_optimizer(options)

    def params_of(weights):
        # The reference holds PyTorch's second bias at 0, because Adam moves the sum of two biases
        # twice as fast as one.
        tree = tree_of(weights, bias="ih")
        tree.pop("embedding", None)
        return tree

    def of_a_seed(tree):
        return jax.tree.map(lambda x: x[None], cast(tree, "float64"))

    with jax.enable_x64(True):
        params = of_a_seed(params_of(unflatten(GOLDEN[f"{name}/weights"], case["weights"])))
        learner = Learner(
            seed=jnp.zeros(1, jnp.uint32),
            step=jnp.zeros(1, jnp.int32),
            params=params,
            batch_stats=of_a_seed(fresh_statistics(case)),
            opt_state=jax.vmap(optimizer.init)(params),
        )
        words = frozen(jnp.asarray(GOLDEN["input/vectors"], "float64"))
        batches = list(map(with_padding, FACTS["training_rows"]))
        losses = []
        layout = fitted(batches)
        assert layout.words > 0
        step = jax.jit(train_step(build(case), NLIScorer(), optimizer, layout))
        for index in batches:
            learner, sums = step(learner, words, inputs(), jnp.asarray(index)[None, :, None])
            losses.append(sums["loss"][0] / sums["count"][0])
        after = jax.tree.map(lambda x: x[0], learner.variables)

    assert_close(np.array(losses), reference.array("losses"), "float64")
    assert_trees_close(after["params"], params_of(reference.weights("after")), "float64")
    reference.assert_statistics(after["batch_stats"])
