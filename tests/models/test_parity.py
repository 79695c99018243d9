"""The models and steps of Adam equal an independent PyTorch reference on shared weights, forward
and backward.

docs/log.md names the commit with the script that made the golden files.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.golden_files import assert_close, assert_trees_close, cast, golden, tree_of, unflatten

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.batching import Layout, staircase
from mednli_jax.models import table
from mednli_jax.nli.task import NLITask, frozen
from mednli_jax.training import optim
from mednli_jax.training.state import Learner
from mednli_jax.training.step import train_step

FACTS, GOLDEN = golden("golden")
CASES = FACTS["cases"]
FIELDS = ("label", "premise", "hypothesis", "premise_length", "hypothesis_length")
FIELDS += ("link_premise", "link_hypothesis", "link_distance")
WIDTH = (7, 5)


@pytest.fixture
def dtype(request):
    """The name of a precision, float64 without a parameter; for float64 it switches x64 on."""
    name = getattr(request, "param", "float64")
    with jax.enable_x64(name == "float64"):
        yield name


def statistics_of(case, flat):
    """The batch_stats collection from running means and variances."""
    tree = {}
    for key, values in unflatten(flat, case["statistics"]).items():
        name, which = key.split(".")
        tree.setdefault(name, {})[{"running_mean": "mean", "running_var": "variance"}[which]] = (
            values
        )
    return tree


def fresh_statistics(case):
    flat = [np.full(shape, float("var" in name)) for name, shape in case["statistics"]]
    return statistics_of(case, np.concatenate(flat, axis=None)) if flat else {}


def build(case, **more):
    fields = {"hidden_size": FACTS["hidden_size"], "dropout": 0.0, **case["fields"], **more}
    return table.entry(case["model"]).build(
        fields, longest_path=FACTS["longest_path"], padded_length=8
    )


def adam():
    return optim.build_optimizer(
        optim.Options(learning_rate=FACTS["learning_rate"], weight_decay=FACTS["weight_decay"])
    )


def rows_with_padding(rows):
    """Eight rows, so that all passes share a program: those of a pass with padding among them, and
    their places."""
    index = np.array([rows[0], -1, *rows[1:]], np.int32)
    index = np.pad(index, (0, 8 - len(index)), constant_values=-1)
    return index, np.flatnonzero(index >= 0)


def inputs():
    return {key: jnp.asarray(GOLDEN[f"input/{key}"]) for key in FIELDS}


def fitted(*batches):
    """A layout that holds each of these batches of eight rows: a staircase and distinct words, as
    in training."""
    rows = np.stack(batches)
    length = [np.where(rows >= 0, GOLDEN[f"input/{side}_length"][rows], 0) for side in SIDES]
    alive = np.concatenate(length, axis=1)[:, :, None] > np.arange(max(WIDTH))
    stairs = staircase(alive.sum(axis=1).max(axis=0))
    assert len(stairs) > 1
    return Layout(8, 1, WIDTH, stairs, stairs, len(GOLDEN["input/vectors"]))


# With those of TRAINED, each cell, pooling, matching, kind of knowledge and masking once; others
# run with `-m slow`.
QUICK = ("bow-bias-paper", "infersent-none-masked", "infersent-gru-bias-paper")
QUICK += ("infersent-mean-bias", "bilstm", "esim-replace-paper")
RUNS = [
    pytest.param("float64", name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES
]
RUNS += [("float32", "esim-bias-masked")]


@pytest.mark.parametrize(("dtype", "name"), RUNS, indirect=["dtype"])
def test_model_equals_the_reference(name, dtype):
    """Logits, the summed loss, its gradients by every weight and by word vectors, and running
    statistics agree."""
    case, task, vectors = (
        CASES[name],
        NLITask(),
        frozen(jnp.asarray(GOLDEN["input/vectors"], dtype)),
    )
    model, batch_stats = build(case, train_vectors=True), cast(fresh_statistics(case), dtype)
    params = cast(tree_of(unflatten(GOLDEN[f"{name}/weights"], case["weights"])), dtype)

    def loss_of(params, index, batch_stats, train):
        batch = task.to_batch(inputs(), index, Layout.full(8, WIDTH))
        variables = {"params": params, "batch_stats": batch_stats, "frozen": vectors}
        logits, changed = model.apply(variables, batch, train=train, mutable=["batch_stats"])
        return jnp.sum(batch.mask * task.loss(logits, batch)), (
            logits,
            changed.get("batch_stats", {}),
        )

    backward = jax.jit(jax.value_and_grad(loss_of, has_aux=True), static_argnames="train")
    for i, one in enumerate(case["passes"]):
        index, real = rows_with_padding(one["rows"])
        (loss, (logits, batch_stats)), gradient = backward(
            params, index[:, None], batch_stats, train=one["train"]
        )
        golden = {what: GOLDEN[f"{name}/{dtype}/{i}/{what}"] for what in ("logits", "loss")}
        assert_close(logits[real], golden["logits"], dtype)
        assert np.isfinite(logits).all()  # even for the padding rows
        assert_close(loss, golden["loss"], dtype)
        for bias in ("ih", "hh") if one.get("gradient", True) else ():
            expected = unflatten(GOLDEN[f"{name}/{dtype}/{i}/gradient"], case["weights"])
            assert_trees_close(gradient, tree_of(expected, bias), dtype)
        if batch_stats:
            assert_trees_close(
                batch_stats, statistics_of(case, GOLDEN[f"{name}/{dtype}/{i}/statistics"]), dtype
            )


TRAINED = ("bow-replace-masked", "esim-bias-masked")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in TRAINED else pytest.mark.slow) for n in FACTS["trained"]],
)
def test_training_steps_equal_the_reference(name):
    """Three steps of `training.step` with Adam and L2, each over other rows: losses, weights and
    running statistics.

    The layout is a staircase, and every distinct word is projected once. Only float64 serves: Adam
    divides by the size of the gradient, and where that vanishes, noise of float32 would become a
    whole step.
    """
    case, optimizer = CASES[name], adam()

    def params_of(flat):
        # The reference holds PyTorch's second bias at 0, because Adam moves the sum of two biases
        # twice as fast as one.
        tree = tree_of(unflatten(flat, case["weights"]), bias="ih")
        return {key: value for key, value in tree.items() if key != "embedding"}

    def one_seed(tree):
        return jax.tree.map(lambda x: x[None], cast(tree, "float64"))

    with jax.enable_x64(True):
        params = one_seed(params_of(GOLDEN[f"{name}/weights"]))
        learner = Learner(
            seed=jnp.zeros(1, jnp.uint32),
            step=jnp.zeros(1, jnp.int32),
            params=params,
            batch_stats=one_seed(fresh_statistics(case)),
            opt_state=jax.vmap(optimizer.init)(params),
        )
        vectors, losses = frozen(jnp.asarray(GOLDEN["input/vectors"], "float64")), []
        batches = [rows_with_padding(rows)[0] for rows in FACTS["training_rows"]]
        layout = fitted(*batches)
        assert layout.words > 0
        step = jax.jit(train_step(build(case), NLITask(), optimizer, layout))
        for index in batches:
            learner, sums = step(learner, vectors, inputs(), jnp.asarray(index)[None, :, None])
            losses.append(sums["loss"][0] / sums["count"][0])
        after = jax.tree.map(lambda x: x[0], learner.variables)
    place = f"training/{name}"
    assert_close(np.array(losses), GOLDEN[f"{place}/losses"], "float64")
    assert_trees_close(after["params"], params_of(GOLDEN[f"{place}/after"]), "float64")
    if case["statistics"]:
        assert_trees_close(
            after["batch_stats"], statistics_of(case, GOLDEN[f"{place}/statistics"]), "float64"
        )
