"""The benchmark's PyTorch models compute ours, in every style. Skipped without torch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import jax  # noqa: E402
from test_parity import tree_of  # noqa: E402

from mednli_jax.benchmarking import opponents, ours, rows, torch_side, workload  # noqa: E402
from mednli_jax.data.batching import Layout  # noqa: E402
from mednli_jax.models import table  # noqa: E402
from mednli_jax.tasks.nli import NLITask, frozen  # noqa: E402
from mednli_jax.training.optim import build_optimizer  # noqa: E402
from mednli_jax.training.state import Learner  # noqa: E402
from mednli_jax.training.step import train_step  # noqa: E402

HIDDEN, DIM, ROWS = 6, 5, 21
MODELS = tuple(opponents.STYLES)
CASES = [(model, style) for model in MODELS for style in opponents.STYLES[model]]


@pytest.fixture(scope="module")
def work():
    return workload.made_up(ROWS, dim=DIM, dev_pairs=6)


def spec(model, style="packed", grouping="off", mode="train"):
    style = style if style in opponents.STYLES[model] else "flat"
    values = {"model": model, "style": style, "grouping": grouping, "mode": mode, "compiled": False}
    return {**values, "hidden": HIDDEN, "batch": 9}


def contender(work, model, **how):
    """An opponent without dropout, and with one bias a gate: Adam would move two of them twice as far as our one."""
    side = torch_side.Opponent(spec(model, **how), work)
    for name, value in side.model.named_parameters():
        if "bias_hh" in name:
            value.requires_grad_(False).zero_()
    for module in side.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return side


def arrays_of(side):
    return {name: value.detach().numpy().copy() for name, value in side.model.named_parameters()}


def test_styles_are_those_that_the_calibration_tries():
    assert {model: tuple(styles) for model, styles in opponents.STYLES.items()} == rows.STYLES


def same_length(work):
    """The pairs of a workload with one length for all sentences: padding cannot reach any style."""
    arrays, size = dict(work.arrays), 4
    for side in ("premise", "hypothesis"):
        tokens = np.random.default_rng(1).integers(2, 99, (len(arrays["label"]), size)).astype(np.int32)
        arrays[side], arrays[f"{side}_length"] = tokens, np.full(len(tokens), size, np.int32)
    arrays["premise"] = arrays["premise"][work.group]
    return workload.Workload(arrays, work.vectors, work.spans, work.group, work.facts)


@pytest.mark.parametrize("model", MODELS)
def test_training_follows_ours_step_by_step(work, model):
    """From the same weights, three steps of Adam with L2, then prediction: the logits are ours."""
    side = contender(work, model)
    module = table.build(model, {"hidden_size": HIDDEN, "dropout": 0.0})
    task, optimizer = NLITask(), build_optimizer(learning_rate=1e-3, weight_decay=1e-6)
    width = tuple(work.arrays[name].shape[1] for name in ("premise", "hypothesis"))
    params = jax.tree.map(np.float32, tree_of(arrays_of(side)))
    bag, data = frozen(work.vectors), {name: jax.numpy.asarray(a) for name, a in work.arrays.items()}
    layout = Layout.full(7, width)
    nothing = task.to_batch(data, np.zeros((7, 1), np.int32), layout)
    _, variables = module.apply(
        {"frozen": bag}, nothing, train=False, rngs={"params": jax.random.key(0)}, mutable=["params", "batch_stats"]
    )
    stats = variables.get("batch_stats", {})
    learner = Learner(np.uint32(0), np.int32(0), params, stats, optimizer.init(params))
    learner = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf)[None], learner)
    step = jax.jit(train_step(module, task, optimizer, layout))
    batches = np.random.default_rng(0).permutation(ROWS).reshape(3, 7).astype(np.int32)
    for batch in batches:
        learner, _ = step(learner, bag, data, batch[None, :, None])
    side.train(list(batches.astype(np.int64)))
    _, logits = side.predict([batches[0].astype(np.int64)])
    variables = jax.tree.map(lambda leaf: leaf[0], learner.variables)
    batch = task.to_batch(data, batches[0][:, None], layout)
    expected = module.apply({**variables, "frozen": bag}, batch, train=False)
    np.testing.assert_allclose(logits[0].numpy(), expected, atol=2e-5)


@pytest.mark.parametrize(("model", "style"), CASES)
@pytest.mark.parametrize("grouping", ["off", "premise"])
def test_styles_agree(work, model, style, grouping):
    """Packed pairs of any length; the others where there is no padding. Grouped premises change nothing."""
    packed = "packed" in style or model == "bow"
    work = work if packed else same_length(work)
    plain = contender(work, model, mode="predict")
    other = contender(work, model, style=style, grouping=grouping, mode="predict")
    other.model.load_state_dict(plain.model.state_dict())
    batch = [np.arange(12)]
    torch.testing.assert_close(other.predict(batch)[1][0], plain.predict(batch)[1][0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_batches_hold_each_pair_once(by_length, grouped):
    work = workload.made_up(301, dim=4)
    chosen = work.rows("train")
    batches = torch_side.batches_of(
        chosen, work.lengths(chosen), work.group[chosen], size=32, by_length=by_length, grouped=grouped,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert sorted(np.concatenate(batches)) == chosen.tolist()
    assert max(map(len, batches)) <= 34
    if grouped:
        owners = [set(work.group[rows]) for rows in batches]
        assert sum(map(len, owners)) == len(set(work.group[chosen]))
    longest = [work.arrays["premise_length"][rows].max() for rows in batches]
    mean = np.mean([work.arrays["premise_length"][rows].mean() for rows in batches])
    assert (np.mean(longest) < 1.6 * mean) == by_length


@pytest.mark.parametrize("kind", [torch_side.Opponent, torch_side.Idiomatic, ours.Ours])
def test_an_epoch_trains_all_pairs(work, kind):
    values = {**spec("bow", style="flat"), "seeds": 1}
    assert kind(values, work).epoch(0) == ROWS


def test_until_stops_at_the_goal(work):
    side = torch_side.Opponent(spec("bow", style="flat"), work)
    examples, reached = side.until(0.0, seed=0, most=3)
    assert 0 < examples < ROWS
    assert reached >= 0.0
    assert side.until(1.1, seed=0, most=2)[0] == 2 * ROWS
