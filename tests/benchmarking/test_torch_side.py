"""The benchmark's PyTorch models compute the same as ours, in every style. Skipped without
torch."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from support.golden_files import tree_of  # noqa: E402

from mednli_jax.benchmarking import cases, ours, torch_models, torch_side, workload  # noqa: E402
from mednli_jax.data.examples import LABELS  # noqa: E402
from mednli_jax.models.families import FAMILIES  # noqa: E402
from mednli_jax.models.weights import load_weights  # noqa: E402

HIDDEN, DIM, ROWS = 6, 5, 21
# in these styles padding does not change the result
EXACT = {"bow": "distinct", "infersent": "packed", "esim": "packed"}
CASES = [
    ("bow", "bucketed"),
    *((model, style) for model in ("infersent", "esim") for style in ("bucketed", "chunked")),
]


@pytest.fixture(scope="module")
def work():
    return workload.made_up_pairs(ROWS, dim=DIM, dev_pairs=6)


def case_of(model, grouping="off", mode="train", **sizes):
    small = {"batch": 9, "pairs": 20, "hidden": HIDDEN, "vectors": DIM, "tokens": 24, "length": 12}
    return cases.Case(model=model, seeds=1, mode=mode, grouping=grouping, **{**small, **sizes})


def pytorch(case, work, style=""):
    """PyTorch without dropout and with one bias for each gate: Adam would move the sum of two
    biases twice as far."""
    setting = cases.Setting(style or EXACT.get(case.model, "bucketed"))
    side = torch_side.side_of(case, setting, work)
    for name, value in side.model.named_parameters():
        if "bias_hh" in name:
            value.requires_grad_(False).zero_()
    for module in side.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return side


def arrays_of(side):
    return {name: value.detach().numpy().copy() for name, value in side.model.named_parameters()}


def same_length(work):
    """The pairs of a workload with sentences of one length: without padding all styles compute the
    same."""
    arrays, size = dict(work.arrays), 4
    for side in ("premise", "hypothesis"):
        tokens = (
            np.random.default_rng(1).integers(2, 99, (len(arrays["label"]), size)).astype(np.int32)
        )
        arrays[side], arrays[f"{side}_length"] = tokens, np.full(len(tokens), size, np.int32)
    arrays["premise"] = arrays["premise"][work.premise_of]
    return replace(work, arrays=arrays)


@pytest.mark.parametrize(("model", "style"), CASES)
@pytest.mark.parametrize("grouping", ["off", "premise"])
def test_styles_agree(work, model, style, grouping):
    """LSTMs get pairs without padding. Grouping premises changes nothing."""
    work = work if model == "bow" else same_length(work)
    first = pytorch(case_of(model, mode="predict"), work)
    other = pytorch(case_of(model, grouping, "predict"), work, style)
    other.model.load_state_dict(first.model.state_dict())
    batch = [np.arange(12)]
    torch.testing.assert_close(other.predict(batch)[0], first.predict(batch)[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_batches_hold_each_pair_once(by_length, grouped):
    work = workload.made_up_pairs(301, dim=4)
    chosen = work.rows("train")
    batches = torch_side.batches_of(
        chosen, work.lengths(chosen), work.premise_of[chosen], size=32, by_length=by_length, grouped=grouped,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert sorted(np.concatenate(batches)) == chosen.tolist()
    assert max(map(len, batches)) <= 34
    if grouped:
        owners = [set(work.premise_of[rows]) for rows in batches]
        assert sum(map(len, owners)) == len(set(work.premise_of[chosen]))
    longest = [work.arrays["premise_length"][rows].max() for rows in batches]
    mean = np.mean([work.arrays["premise_length"][rows].mean() for rows in batches])
    assert (np.mean(longest) < 1.6 * mean) == by_length


@pytest.mark.parametrize("model", ["bow", "infersent", "ga_reader", "sa_reader", "bert"])
def test_the_plain_script_and_ours_train_an_epoch_of_every_family(model):
    case = case_of(model, mode="epoch", batch=8)
    if model == "bert":
        pytest.importorskip("transformers")
        case = replace(case, hidden=workload.BERT_HEAD_SIZE)
    work = cases.workload_of(case)
    script = pytorch(case, work, cases.PLAIN.style)
    assert isinstance(script, torch_side.PlainEpoch)
    before = {name: value.clone() for name, value in script.model.state_dict().items()}
    rows = len(work.rows("train"))
    assert script.epoch(0) == rows == ours.Ours(case, work).epoch(0)
    after = script.model.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)


# -- readers and BERT: both sides of the benchmark as a whole ----------------------------------------------------------


def recurrent(w, name):
    """The arrays of our GRU. PyTorch's update gate keeps what ours replaces, so its sign
    changes."""

    def gates(value):
        reset, update, candidate = np.split(value, 3)
        return np.concatenate([reset, -update, candidate]).T

    both = [f"{name}.%s_l0", f"{name}.%s_l0_reverse"]
    return {
        "kernel": np.concatenate([gates(w[key % "weight_ih"]) for key in both], axis=1),
        "recurrent": np.stack([gates(w[key % "weight_hh"]) for key in both]),
        "bias": np.concatenate([gates(w[key % "bias_ih"]) for key in both]),
    }


def reader_tree(w):
    tree = {"embedding": {"vectors": w["embedding.weight"]}}
    if "bilinear.weight" in w:
        tree |= {name: recurrent(w, name) for name in ("passage", "query")}
        output = {"types": w["output.weight"], "bias": w["bias.weight"][:, 0]}
        return {**tree, "kernel": w["bilinear.weight"], **output}
    for side in ("passage", "query"):
        tree |= {f"{side}_{hop}": recurrent(w, f"{side}.{hop}") for hop in range(torch_models.HOPS)}
    return {**tree, "occurrence": w["feature.weight"]}


def steps_agree(case, work, tree, style=""):
    """Both sides start from the same weights, take three steps on our batches and predict: the
    logits are equal.

    tree: (PyTorch's arrays by name, our parameters of one seed) -> our parameters with these
    arrays.
    """
    mine, side = ours.Ours(case, work, dropout=0.0), pytorch(case, work, style)
    learner = mine.trainer.learner
    params = tree(arrays_of(side), jax.tree.map(lambda x: np.array(x[0]), learner.params))
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32)[None], params)
    jax.tree.map(
        np.testing.assert_array_equal,
        *(jax.tree.map(np.shape, tree) for tree in (learner.params, params)),
    )
    mine.trainer.learner = learner.replace(params=params)
    plan = mine.plan("train")[:3]
    mine.train(plan)
    side.train([rows[rows >= 0].astype(np.int64) for _, rows in plan])
    layout, index = mine.plan("predict")[0]
    logits = mine.program.predict(layout, mine.trainer.learner.variables, index)
    logits = mine.program.devices.join(np.asarray(logits))[0]
    real = index.reshape(-1) >= 0
    expected = side.predict([index.reshape(-1)[real].astype(np.int64)])
    # PyTorch pads candidates to the most that any passage of the batch has, our side to the most of
    # the corpus.
    width, expected = expected[0].shape[1], expected[0].numpy()
    if case.model == "ga_reader":  # our logits are logs of masses that sum to 1
        expected = np.where(
            expected > torch_models.MASKED_ENERGY / 2, jax.nn.log_softmax(expected), expected
        )
    np.testing.assert_allclose(logits[real][:, :width], expected, atol=1e-4)
    assert (logits[real][:, width:] <= torch_models.MASKED_ENERGY).all()


@pytest.mark.parametrize("grouping", ["off", "premise"])
@pytest.mark.parametrize("model", EXACT)
def test_training_of_pairs_follows_ours(work, model, grouping):
    steps_agree(case_of(model, grouping), work, lambda w, params: tree_of(w))


@pytest.mark.parametrize(("grouping", "batch"), [("off", 1), ("off", 8), ("premise", 8)])
@pytest.mark.parametrize("model", ["ga_reader", "sa_reader"])
def test_training_of_readers_follows_ours(monkeypatch, model, grouping, batch):
    """Passages of all lengths come one by one, others in batches of one length: unpacked GRUs then
    see no padding."""
    if batch > 1:
        monkeypatch.setattr(workload, "SHORTEST", 1.0)
        monkeypatch.setattr(workload, "LONGEST", 1.0)
        monkeypatch.setattr(workload, "QUERY_CAPS", (9, 9))
    cloze = workload.made_up_passages(20, tokens=12, dim=DIM)
    steps_agree(case_of(model, grouping, batch=batch), cloze, lambda w, params: reader_tree(w))


@pytest.mark.parametrize("family", FAMILIES)
def test_training_of_encoders_follows_ours(family, tmp_path):
    """Our side loads the weights as it loads those of a published model."""
    pytest.importorskip("transformers")

    def tree(w, params):
        tensors = {name.removeprefix("bert."): array for name, array in w.items()}
        save_file(tensors, tmp_path / "model.safetensors")
        config = {"model_type": family, "id2label": dict(enumerate(LABELS))}
        (tmp_path / "config.json").write_text(json.dumps(config))
        return load_weights(tmp_path, params, labels=LABELS).params

    case = case_of(family, hidden=64, batch=4)
    steps_agree(case, workload.made_up_pieces(12, length=0), tree, "eager")


@pytest.mark.parametrize("model", ["bow", "infersent", "esim", "ga_reader", "sa_reader", "bert"])
def test_bfloat16_is_near_float32_and_keeps_its_parameters(model):
    case, style = case_of(model), ""
    if model == "bert":
        pytest.importorskip("transformers")
        case, style = replace(case, hidden=workload.BERT_HEAD_SIZE), "sdpa"
    work, batches, found = cases.workload_of(case), [np.arange(8)], []
    for precision in ("float32", "bfloat16"):
        side = pytorch(replace(case, precision=precision), work, style)
        found.append(side.predict(batches)[0])
        side.train(batches)
        assert {parameter.dtype for parameter in side.model.parameters()} == {torch.float32}
    full, near = found
    assert near.dtype == torch.float32
    assert not torch.equal(full, near)
    real = full > -1e6  # a reader masks missing candidates
    torch.testing.assert_close(near[real], full[real], atol=0.05, rtol=0.05)
