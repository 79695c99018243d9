"""The models, batch norm and Adam equal an independent PyTorch reference on shared weights, forward and backward.

docs/log.md names the commit with the script that made the golden files.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from references import TOLERANCE, assert_close, assert_trees_close, cast, golden, tree_of, unflatten

from mednli_jax import defaults
from mednli_jax.data.batching import Batches, Layout, staircase
from mednli_jax.errors import UserError
from mednli_jax.models import layers, table
from mednli_jax.nli.task import NLITask, frozen
from mednli_jax.run import experiment_of
from mednli_jax.training import optim
from mednli_jax.training.state import Learner
from mednli_jax.training.step import train_step

FACTS, GOLDEN = golden("golden")
CASES = FACTS["cases"]
FIELDS = ("label", "premise", "hypothesis", "premise_length", "hypothesis_length")
FIELDS += ("link_premise", "link_hypothesis", "link_distance")
WIDTH = (7, 5)


@pytest.fixture(params=list(TOLERANCE))
def dtype(request):
    """The name of a precision; for float64 it switches x64 on."""
    with jax.enable_x64(request.param == "float64"):
        yield request.param


def statistics_of(case, flat):
    """The batch_stats collection from running means and variances."""
    tree = {}
    for key, values in unflatten(flat, case["statistics"]).items():
        name, which = key.split(".")
        tree.setdefault(name, {})[{"running_mean": "mean", "running_var": "variance"}[which]] = values
    return tree


def fresh_statistics(case):
    flat = [np.full(shape, float("var" in name)) for name, shape in case["statistics"]]
    return statistics_of(case, np.concatenate(flat, axis=None)) if flat else {}


def build(case, **more):
    fields = {"hidden_size": FACTS["hidden_size"], "dropout": 0.0, **case["fields"], **more}
    return table.build(case["model"], fields, longest_path=FACTS["longest_path"], padded_length=8)


def adam():
    return optim.build_optimizer(learning_rate=FACTS["learning_rate"], weight_decay=FACTS["weight_decay"])


def rows_with_padding(rows):
    """The rows of a pass with two padding rows among them, and the places of the real ones."""
    index = np.array([rows[0], -1, *rows[1:], -1], np.int32)
    return index, np.flatnonzero(index >= 0)


def inputs():
    return {key: jnp.asarray(GOLDEN[f"input/{key}"]) for key in FIELDS}


def layout_of(kind, *batches):
    """A layout that holds each of these batches, which have equally many rows; -1 marks padding.

    "full" computes every sentence to the end. "fitted" takes a staircase and distinct words, as in training.
    """
    size = len(batches[0])
    full = Layout.full(size, WIDTH)
    if kind == "full":
        return full
    length, tokens = ([GOLDEN[f"input/{side}{what}"] for side in layers.SIDES] for what in ("_length", ""))
    own = [
        Batches(*(n[index] for n in length), batch_size=size, width=WIDTH, tokens=[t[index] for t in tokens])
        for index in (batch[batch >= 0] for batch in batches)
    ]
    # With few rows a staircase is as low as their profile, so the maximum over all batches gives one that holds each.
    alive = np.max([room(batch.layouts[0].sentences) for batch in own], axis=0)
    fitted = staircase(alive)
    words = max(batch.layouts[0].words for batch in own)
    assert len(fitted) > 1
    assert sum(steps * rows for steps, rows in fitted) < sum(steps * rows for steps, rows in full.sentences)
    return dataclasses.replace(full, sentences=fitted, pairs=fitted, words=words)


def room(segments):
    """The sentences of a staircase at each step, and zeros after its end: [steps]."""
    rows = np.repeat([rows for _, rows in segments], [steps for steps, _ in segments])
    return np.pad(rows, (0, max(WIDTH) - len(rows)))


# Every case runs in float32. In float64 one case of each kind runs, and the rest with `-m slow`, because compilation
# takes long.
DOUBLED = (
    "bow-none-masked",
    "bow-replace-paper",
    "infersent-replace-paper",
    "infersent-mean-bias",
    "infersent-gru",
    "bilstm",
)
DOUBLED += ("esim-replace-masked", "esim-bias-paper")
# Float32 computes every sentence to the end, float64 takes a staircase.
RUNS = [("float32", name, "full") for name in CASES]
RUNS += [pytest.param("float64", n, "fitted", marks=() if n in DOUBLED else pytest.mark.slow) for n in CASES]
RUNS += [pytest.param("float64", n, "full", marks=pytest.mark.slow) for n in CASES]


@pytest.mark.parametrize(("dtype", "name", "layout"), RUNS, indirect=["dtype"])
def test_model_equals_the_reference(name, dtype, layout):
    """Logits, the summed loss, its gradients by every weight and by word vectors, and running statistics agree."""
    case, task, vectors = CASES[name], NLITask(), frozen(jnp.asarray(GOLDEN["input/vectors"], dtype))
    model, batch_stats = build(case, train_vectors=True), cast(fresh_statistics(case), dtype)
    params = cast(tree_of(unflatten(GOLDEN[f"{name}/weights"], case["weights"])), dtype)

    def loss_of(params, index, batch_stats, train, layout):
        batch = task.to_batch(inputs(), index, layout)
        variables = {"params": params, "batch_stats": batch_stats, "frozen": vectors}
        logits, changed = model.apply(variables, batch, train=train, mutable=["batch_stats"])
        return jnp.sum(batch["mask"] * task.loss(logits, batch)), (logits, changed.get("batch_stats", {}))

    backward = jax.jit(jax.value_and_grad(loss_of, has_aux=True), static_argnames=("train", "layout"))
    for i, one in enumerate(case["passes"]):
        index, real = rows_with_padding(one["rows"])
        (loss, (logits, batch_stats)), gradient = backward(
            params, index[:, None], batch_stats, train=one["train"], layout=layout_of(layout, index)
        )
        golden = {what: GOLDEN[f"{name}/{dtype}/{i}/{what}"] for what in ("logits", "loss")}
        assert_close(logits[real], golden["logits"], dtype)
        assert np.isfinite(logits).all()  # even for the padding rows
        assert_close(loss, golden["loss"], dtype)
        for bias in ("ih", "hh") if one.get("gradient", True) else ():
            expected = unflatten(GOLDEN[f"{name}/{dtype}/{i}/gradient"], case["weights"])
            assert_trees_close(gradient, tree_of(expected, bias), dtype)
        if batch_stats:
            assert_trees_close(batch_stats, statistics_of(case, GOLDEN[f"{name}/{dtype}/{i}/statistics"]), dtype)


@pytest.mark.parametrize("name", [name for name in CASES if name.endswith("-paper") and "gru" not in name])
def test_golden_files_tell_maskings_apart(name):
    """With the same weights another masking changes the logits by far more than the tolerance."""
    masked = name.replace("-paper", "-masked")
    np.testing.assert_array_equal(GOLDEN[f"{name}/weights"], GOLDEN[f"{masked}/weights"])
    logits = [GOLDEN[f"{key}/float64/0/logits"] for key in (name, masked)]
    assert abs(logits[0] - logits[1]).max() > 1e-3
    # No pair fills both widths, so every row has padding.
    assert (abs(logits[0] - logits[1]).max(axis=1) > 1e-5).all()


@pytest.mark.parametrize("name", FACTS["trained"])
def test_training_steps_equal_the_reference(name):
    """Three steps of `training.step` with Adam and L2, each over other rows: losses, weights and running statistics.

    The layout is a staircase, and every distinct word is projected once. Only float64 serves: Adam divides by the size
    of the gradient, and where that vanishes, noise of float32 would become a whole step.
    """
    case, optimizer = CASES[name], adam()

    def params_of(flat):
        # The reference holds PyTorch's second bias at 0, because Adam moves the sum of two biases twice as fast as one.
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
        batches = [np.pad(index, (0, 8 - len(index)), constant_values=-1) for index in batches]
        layout = layout_of("fitted", *batches)
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
        assert_trees_close(after["batch_stats"], statistics_of(case, GOLDEN[f"{place}/statistics"]), "float64")


@pytest.mark.parametrize("shares", [1, 2])
@pytest.mark.parametrize("kind", ["affine", "plain"])
def test_masked_batch_norm_equals_batch_norm_over_real_rows(kind, shares, dtype):
    """Output, gradients and running statistics over two batches, whole or in two unequal shares on a device axis."""
    x, cotangent, mask = (jnp.asarray(GOLDEN[f"norm/{what}"], dtype) for what in ("x", "cotangent", "mask"))
    params = {key: jnp.asarray(GOLDEN[f"norm/{key}"], dtype) for key in ("scale", "bias")} if kind == "affine" else {}
    module = layers.MaskedBatchNorm(affine=kind == "affine", axis_name="batch")
    stats = {"mean": jnp.zeros(4, dtype), "variance": jnp.ones(4, dtype)}

    def spread(array):
        return array.reshape(shares, -1, *array.shape[1:])

    def apply(params, x, stats, mask, train=True):
        def one(x, mask):
            variables = {"params": params, "batch_stats": stats}
            return module.apply(variables, x, mask, train=train, mutable=["batch_stats"])

        y, changed = jax.vmap(one, axis_name="batch")(spread(x), spread(mask))
        return y.reshape(x.shape), jax.tree.map(lambda leaf: leaf[0], changed["batch_stats"])

    for i in range(2):
        real = np.asarray(mask[i]) == 1

        def loss(params, x, i=i, stats=stats):
            y, changed = apply(params, x, stats, mask[i])
            return (mask[i][:, None] * cotangent[i] * y).sum(), (y, changed)

        gradients, (y, stats) = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))(params, x[i])
        place = f"norm/{kind}/{dtype}/{i}"
        assert_close(y[real], GOLDEN[f"{place}/y"], dtype)
        assert_close(gradients[1][real], GOLDEN[f"{place}/x_gradient"], dtype)
        assert (np.asarray(gradients[1])[~real] == 0).all()
        assert_close(jnp.stack([stats["mean"], stats["variance"]]), GOLDEN[f"{place}/statistics"], dtype)
        if params:
            both = jnp.stack([gradients[0]["scale"], gradients[0]["bias"]])
            assert_close(both, GOLDEN[f"{place}/weight_gradient"], dtype)
    assert_close(apply(params, x[0], stats, mask[0], train=False)[0], GOLDEN[f"norm/{kind}/{dtype}/eval"], dtype)


def test_adam_with_l2_equals_the_reference(dtype):
    """As in torch.optim.Adam(weight_decay), L2 is part of the gradient; a weight with gradient 0 still moves."""
    optimizer = adam()
    weight = start = jnp.asarray(GOLDEN["adam/start"], dtype)
    state = optimizer.init(weight)
    for gradient, after in zip(GOLDEN["adam/gradients"], GOLDEN[f"adam/{dtype}/after"], strict=True):
        updates, state = optimizer.update(jnp.asarray(gradient, dtype), state, weight)
        weight = weight + updates
        assert_close(weight, after, dtype)
    assert (abs(weight - start)[:3] > 1e-3).all()  # three steps of .001, reduced by Adam's epsilon


@pytest.mark.parametrize("knowledge", ["replace", "bias"])
def test_last_states_take_no_attended_ones(knowledge):
    """Appended attended states have no last token. No reference exists, so this combination is refused."""
    config = defaults.nli("infersent")
    config.model.update(pooling="last", knowledge=knowledge)
    with pytest.raises(UserError, match=r"config\.model\.pooling"):
        experiment_of(config)
    config.model.knowledge = "none"
    experiment_of(config)
