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

from mednli_jax.benchmarking import cases, ours, torch_models, torch_side  # noqa: E402
from mednli_jax.data.arrays import SIDES  # noqa: E402
from mednli_jax.data.examples import LABELS  # noqa: E402
from mednli_jax.models.families import FAMILIES  # noqa: E402
from mednli_jax.models.weights import load_weights  # noqa: E402

DIM = 5  # of word vectors
# in these styles padding does not change the result
EXACT = {"bow": "distinct", "infersent": "packed", "esim": "packed"}


@pytest.fixture(scope="module")
def pairs():
    return cases.made_up_pairs(21, dim=DIM, dev_pairs=6)


def case_of(model, grouping="off", mode="train", hidden=6, batch=9):
    if model == "bert":
        pytest.importorskip("transformers")
        hidden = cases.BERT_HEAD_SIZE
    return cases.Case(
        model=model,
        seeds=1,
        mode=mode,
        grouping=grouping,
        batch=batch,
        pairs=20,
        hidden=hidden,
        vectors=DIM,
        tokens=24,
        length=12,
    )


def pytorch(case, work, style=""):
    """PyTorch without dropout and with one bias for each gate: Adam would move the sum of two
    biases twice as far."""
    setting = cases.Setting(style or EXACT.get(case.model, "bucketed"))
    side = torch_side.side_of(case, setting, work)
    for name, parameter in side.model.named_parameters():
        if "bias_hh" in name:
            parameter.requires_grad_(False).zero_()
    for module in side.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return side


# -- styles and batches --------------------------------------------------------------------------


def of_equal_lengths(work):
    """The pairs of a workload with sentences of one length: without padding all styles compute the
    same."""
    arrays = dict(work.arrays)
    size = 4
    shape = (len(arrays["label"]), size)
    for side in SIDES:
        arrays[side] = np.random.default_rng(1).integers(2, 99, shape).astype(np.int32)
        arrays[f"{side}_length"] = np.full(len(arrays["label"]), size, np.int32)
    arrays["premise"] = arrays["premise"][work.premise_of]
    return replace(work, arrays=arrays)


@pytest.mark.parametrize("grouping", ["off", "premise"])
@pytest.mark.parametrize(
    "model, style",
    [
        ("bow", "bucketed"),
        ("infersent", "bucketed"),
        ("infersent", "chunked"),
        ("esim", "bucketed"),
        ("esim", "chunked"),
    ],
)
def test_styles_and_grouped_premises_of_the_pytorch_side_predict_the_same(
    pairs, model, style, grouping
):
    """LSTMs get pairs without padding."""
    work = pairs if model == "bow" else of_equal_lengths(pairs)
    batches = [np.arange(12)]
    exact = pytorch(case_of(model, mode="predict"), work)
    styled = pytorch(case_of(model, grouping, "predict"), work, style)
    styled.model.load_state_dict(exact.model.state_dict())

    logits = styled.predict(batches)[0]
    expected = exact.predict(batches)[0]

    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_batches_of_the_pytorch_side_hold_each_pair_once(by_length, grouped):
    work = cases.made_up_pairs(301, dim=4)
    chosen = work.rows("train")

    batches = torch_side.batches_of(
        chosen,
        work.lengths(chosen),
        work.premise_of[chosen],
        size=32,
        by_length=by_length,
        grouped=grouped,
        rng=np.random.default_rng(0),
    )

    assert sorted(np.concatenate(batches)) == chosen.tolist()
    assert max(map(len, batches)) <= 34
    if grouped:
        premises = [len(set(work.premise_of[rows])) for rows in batches]
        assert sum(premises) == len(set(work.premise_of[chosen]))
    lengths = [work.arrays["premise_length"][rows] for rows in batches]
    longest, mean = (np.mean([f(of_batch) for of_batch in lengths]) for f in (np.max, np.mean))
    assert (longest < 1.6 * mean) == by_length


@pytest.mark.parametrize("model", ["bow", "infersent", "ga_reader", "sa_reader", "bert"])
def test_the_plain_script_and_ours_train_an_epoch_of_every_family(model):
    case = case_of(model, mode="epoch", batch=8)
    work = cases.workload_of(case)
    script = pytorch(case, work, cases.PLAIN.style)
    before = {name: value.clone() for name, value in script.model.state_dict().items()}

    examples = script.epoch(0)

    assert isinstance(script, torch_side.PlainEpoch)
    assert examples == len(work.rows("train")) == ours.Ours(case, work).epoch(0)
    after = script.model.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)


# -- both sides of the benchmark as a whole ------------------------------------------------------


def gru(w, name):
    """The arrays of our GRU. PyTorch's update gate keeps what ours replaces, so its sign
    changes."""

    def gates(kind):
        for direction in ("", "_reverse"):
            reset, update, candidate = np.split(w[f"{name}.{kind}_l0{direction}"], 3)
            yield np.concatenate([reset, -update, candidate]).T

    return {
        "kernel": np.concatenate(list(gates("weight_ih")), axis=1),
        "recurrent": np.stack(list(gates("weight_hh"))),
        "bias": np.concatenate(list(gates("bias_ih"))),
    }


def reader_tree(w):
    tree = {"embedding": {"vectors": w["embedding.weight"]}}
    if "bilinear.weight" in w:
        output = {"types": w["output.weight"], "bias": w["bias.weight"][:, 0]}
        states = {name: gru(w, name) for name in SENTENCES}
        return {**tree, **states, "kernel": w["bilinear.weight"], **output}
    for side in SENTENCES:
        for hop in range(torch_models.HOPS):
            tree[f"{side}_{hop}"] = gru(w, f"{side}.{hop}")
    return {**tree, "occurrence": w["feature.weight"]}


SENTENCES = ("passage", "query")


def assert_steps_agree(case, work, to_params, style=""):
    """Both sides start from the same weights, take three steps on our batches and predict: the
    logits are equal.

    to_params: (PyTorch's arrays by name, our parameters of one seed) -> our parameters with these
    arrays.
    """
    mine = ours.Ours(case, work, dropout=0.0)
    side = pytorch(case, work, style)
    learner = mine.trainer.learner
    arrays = {name: value.detach().numpy().copy() for name, value in side.model.named_parameters()}
    params = to_params(arrays, jax.tree.map(lambda x: np.array(x[0]), learner.params))
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32)[None], params)
    assert jax.tree.map(np.shape, learner.params) == jax.tree.map(np.shape, params)
    mine.trainer.learner = learner.replace(params=params)

    plan = mine.plan("train")[:3]
    mine.train(plan)
    side.train([rows[rows >= 0].astype(np.int64) for _, rows in plan])

    layout, index = mine.plan("predict")[0]
    rows = index.reshape(-1)
    is_row = rows >= 0
    logits = mine.program.predict(layout, mine.trainer.learner.variables, index)
    logits = mine.program.devices.join(np.asarray(logits))[0][is_row]
    expected = side.predict([rows[is_row].astype(np.int64)])[0].numpy()
    if case.model == "ga_reader":  # our logits are logs of masses that sum to 1
        is_candidate = expected > torch_models.MASKED_ENERGY / 2
        expected = np.where(is_candidate, jax.nn.log_softmax(expected), expected)
    # PyTorch pads candidates to the most that any passage of the batch has, our side to the most of
    # the corpus.
    width = expected.shape[1]
    np.testing.assert_allclose(logits[:, :width], expected, atol=1e-4)
    assert (logits[:, width:] <= torch_models.MASKED_ENERGY).all()


@pytest.mark.parametrize("grouping", ["off", "premise"])
@pytest.mark.parametrize("model", EXACT)
def test_models_of_pairs_train_in_pytorch_as_in_jax(pairs, model, grouping):
    assert_steps_agree(case_of(model, grouping), pairs, lambda w, params: tree_of(w))


@pytest.mark.parametrize(
    "grouping, batch",
    [
        ("off", 1),
        ("off", 8),
        ("premise", 8),
    ],
)
@pytest.mark.parametrize("model", ["ga_reader", "sa_reader"])
def test_cloze_readers_train_in_pytorch_as_in_jax(monkeypatch, model, grouping, batch):
    """Passages of all lengths come one by one, others in batches of one length: unpacked GRUs then
    see no padding."""
    if batch > 1:
        monkeypatch.setattr(cases, "SHORTEST", 1.0)
        monkeypatch.setattr(cases, "LONGEST", 1.0)
        monkeypatch.setattr(cases, "QUERY_CAPS", (9, 9))
    passages = cases.made_up_passages(20, tokens=12, dim=DIM)
    case = case_of(model, grouping, batch=batch)

    assert_steps_agree(case, passages, lambda w, params: reader_tree(w))


@pytest.mark.parametrize("family", FAMILIES)
def test_encoders_train_in_pytorch_as_in_jax(family, tmp_path):
    """Our side loads the weights as it loads those of a published model."""
    pytest.importorskip("transformers")

    def loaded(w, params):
        tensors = {name.removeprefix("bert."): array for name, array in w.items()}
        save_file(tensors, tmp_path / "model.safetensors")
        config = {"model_type": family, "id2label": dict(enumerate(LABELS))}
        (tmp_path / "config.json").write_text(json.dumps(config))
        return load_weights(tmp_path, params, labels=LABELS).params

    case = case_of(family, hidden=64, batch=4)
    assert_steps_agree(case, cases.made_up_pieces(12, length=0), loaded, "eager")


@pytest.mark.parametrize("model", ["bow", "infersent", "esim", "ga_reader", "sa_reader", "bert"])
def test_the_pytorch_side_in_bfloat16_is_near_float32_and_keeps_its_parameters(model):
    case = case_of(model)
    style = "sdpa" if model == "bert" else ""
    work = cases.workload_of(case)
    batches = [np.arange(8)]
    logits = {}

    for precision in ("float32", "bfloat16"):
        side = pytorch(replace(case, precision=precision), work, style)
        logits[precision] = side.predict(batches)[0]
        side.train(batches)
        assert {parameter.dtype for parameter in side.model.parameters()} == {torch.float32}

    full = logits["float32"]
    near = logits["bfloat16"]
    assert near.dtype == torch.float32
    assert not torch.equal(full, near)
    is_candidate = full > -1e6  # a reader masks missing candidates
    torch.testing.assert_close(near[is_candidate], full[is_candidate], atol=0.05, rtol=0.05)
