"""The benchmark's PyTorch models compute the same as ours, in every style. Skipped without
torch."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import benchmark_cases  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import jax_side  # noqa: E402
import synthetic_corpora  # noqa: E402
import torch_models  # noqa: E402
import torch_side  # noqa: E402
from benchmark_cases import TorchSetting, workload_of  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from support.golden_files import tree_of  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

from mednli_jax.data.examples import LABELS  # noqa: E402
from mednli_jax.models.families import FAMILIES  # noqa: E402
from mednli_jax.models.weights import load_weights  # noqa: E402

STYLES = {"bow": "distinct", "bert": "sdpa"}  # of others: bucketed
BACKWARD_OF_BERT = ("roberta", "electra", "megatron-bert")  # only their forward pass differs


class Packed(torch_models.BiLSTM):
    """A BiLSTM whose results do not depend on padding."""

    def forward(self, x, length):
        packed = pack_padded_sequence(x, length, batch_first=True, enforce_sorted=False)
        states, _ = self.rnn(packed)
        return pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])[0]


@pytest.fixture(autouse=True)
def _small_without_dropout(monkeypatch):
    config_of = benchmark_cases.config_of

    def without_dropout(case):
        config = config_of(case)
        config.model.dropout = 0.0
        config.train.clip = min(config.train.clip, 0.05)  # so that it is reached
        return config

    for module in (jax_side, torch_side):
        monkeypatch.setattr(module, "config_of", without_dropout)
    monkeypatch.setattr(benchmark_cases, "BERT_LAYERS", 2)


def case_of(model, grouping="off", mode="train", batch=9):
    is_encoder = model in benchmark_cases.ENCODERS
    if is_encoder:
        pytest.importorskip("transformers")
    return benchmark_cases.Case(
        model=model,
        seeds=1,
        mode=mode,
        grouping=grouping,
        batch=batch,
        pairs=20,
        hidden=2 * benchmark_cases.BERT_HEAD_SIZE if is_encoder else 6,
        vectors=5,
        tokens=8,
        length=0,
        buckets=1,
    )


def pytorch(case, work, style=""):
    """PyTorch with one bias for each gate: Adam would move the sum of two biases twice as far."""
    setting = TorchSetting(style or STYLES.get(case.model, "bucketed"))
    side = torch_side.side_of(case, setting, work)
    for name, parameter in side.model.named_parameters():
        if "bias_hh" in name:
            parameter.requires_grad_(False).zero_()
    return side


# -- styles and batches --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, style",
    [
        ("bow", "distinct"),
        ("infersent", "chunked"),
        ("esim", "chunked"),
    ],
)
def test_sentences_in_chunks_and_grouped_premises_change_no_prediction(monkeypatch, model, style):
    """Chunks of one sentence have no padding."""
    monkeypatch.setattr(torch_models, "LEAST_CHUNK", 1)
    monkeypatch.setattr(torch_models, "CHUNKS", 99)
    work = workload_of(case_of(model))
    batches = [np.arange(12)]
    grouped = pytorch(case_of(model, "premise"), work, style)
    monkeypatch.setattr(torch_models, "BiLSTM", Packed)
    exact = pytorch(case_of(model), work)
    grouped.model.load_state_dict(exact.model.state_dict())

    logits = grouped.predict(batches)[0]
    expected = exact.predict(batches)[0]

    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_batches_of_the_pytorch_side_hold_each_pair_once(by_length, grouped):
    work = synthetic_corpora.made_up_pairs(301, dim=4)
    chosen = work.rows("train")

    batches = torch_side.batches_of(
        chosen,
        work.lengths(chosen),
        work.premise_of[chosen] if grouped else chosen,
        size=30,
        by_length=by_length,
        rng=np.random.default_rng(0),
    )

    assert sorted(np.concatenate(batches)) == chosen.tolist()
    sizes = list(map(len, batches))
    assert 2 <= min(sizes) <= max(sizes) <= 32
    if grouped:
        premises = [len(set(work.premise_of[rows])) for rows in batches]
        assert sum(premises) == len(set(work.premise_of[chosen]))
    lengths = [work.lengths(rows)[0] for rows in batches]
    longest, mean = (np.mean([f(of_batch) for of_batch in lengths]) for f in (np.max, np.mean))
    assert (longest < 1.6 * mean) == by_length


def test_both_sides_train_an_epoch():
    case = case_of("bow", mode="epoch")
    work = workload_of(case)
    side = pytorch(case, work)
    before = {name: value.clone() for name, value in side.model.state_dict().items()}

    examples = side.epoch(0)

    assert examples == len(work.rows("train")) == jax_side.JaxSide(case, work).epoch(0)
    after = side.model.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)


# -- both sides of the benchmark as a whole ------------------------------------------------------


def pair_tree(w):
    of_layers = {name.replace("layers.", "layer_"): array for name, array in w.items()}
    del of_layers["embedding.weight"]  # is not trained
    return tree_of(of_layers)


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


def assert_steps_agree(case, to_params, style="", steps=3):
    """Both sides start from the same weights, take steps on our batches and predict: the logits are
    equal.

    to_params: (PyTorch's arrays by name, our parameters of one seed) -> our parameters with these
    arrays.
    """
    work = workload_of(case)
    mine = jax_side.JaxSide(case, work)
    side = pytorch(case, work, style)
    learner = mine.trainer.learner
    arrays = {name: value.detach().numpy().copy() for name, value in side.model.named_parameters()}
    params = to_params(arrays, jax.tree.map(lambda x: np.array(x[0]), learner.params))
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32)[None], params)
    assert jax.tree.map(np.shape, learner.params) == jax.tree.map(np.shape, params)
    mine.trainer.learner = learner.replace(params=params)

    plan = mine.plan("train")[:steps]
    mine.run("train", plan)
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


@pytest.mark.parametrize("model", torch_models.PAIRS)
def test_models_of_pairs_train_in_pytorch_as_in_jax(monkeypatch, model):
    monkeypatch.setattr(torch_models, "BiLSTM", Packed)
    assert_steps_agree(case_of(model, "premise"), lambda w, params: pair_tree(w))


@pytest.mark.parametrize("model, grouping", [("ga_reader", "premise"), ("sa_reader", "off")])
def test_cloze_readers_train_in_pytorch_as_in_jax(monkeypatch, model, grouping):
    """Passages and queries have one length each: unpacked GRUs then see no padding. They share
    words."""
    monkeypatch.setattr(synthetic_corpora, "EXPONENT", 4.0)
    monkeypatch.setattr(synthetic_corpora, "SHORTEST", 1.0)
    monkeypatch.setattr(synthetic_corpora, "LONGEST", 1.0)
    monkeypatch.setattr(synthetic_corpora, "QUERY_CAPS", (9, 9))

    assert_steps_agree(case_of(model, grouping, batch=8), lambda w, params: reader_tree(w))


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=pytest.mark.slow if name in BACKWARD_OF_BERT else ())
        for name in FAMILIES
    ],
)
def test_encoders_compute_in_pytorch_as_in_jax(family, tmp_path):
    """Our side loads the weights as it loads those of a published model."""

    def loaded(w, params):
        tensors = {name.removeprefix("bert."): array for name, array in w.items()}
        save_file(tensors, tmp_path / "model.safetensors")
        config = {"model_type": family, "id2label": dict(enumerate(LABELS))}
        (tmp_path / "config.json").write_text(json.dumps(config))
        return load_weights(tmp_path, params, labels=LABELS).params

    steps = 0 if family in BACKWARD_OF_BERT else 3
    assert_steps_agree(case_of(family, batch=4), loaded, "eager", steps)


@pytest.mark.parametrize("model", STYLES)
def test_the_pytorch_side_in_bfloat16_is_near_float32_and_keeps_its_parameters(model):
    case = case_of(model)
    work = workload_of(case)
    batches = [np.arange(8)]
    logits = {}

    for precision in ("float32", "bfloat16"):
        side = pytorch(replace(case, precision=precision), work)
        logits[precision] = side.predict(batches)[0]
        side.train(batches)
        assert {parameter.dtype for parameter in side.model.parameters()} == {torch.float32}

    assert logits["bfloat16"].dtype == torch.float32
    assert not torch.equal(logits["float32"], logits["bfloat16"])
    torch.testing.assert_close(logits["bfloat16"], logits["float32"], atol=0.05, rtol=0.05)
