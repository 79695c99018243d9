"""fastText's supervised mode: features of a text, steps equal to NumPy's, and steps that touch few
rows of a table."""

import itertools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import random_pairs
from support.commands import call_command, config_flag, read_json, use_one_device
from support.pair_files import LABELS, VERBS

from mednli_jax import evaluate, train
from mednli_jax.data.batching import Layout
from mednli_jax.models import sparse_rows as rows
from mednli_jax.models import table
from mednli_jax.nli.task import NLITask, frozen
from mednli_jax.run import load_run
from mednli_jax.training import optim, state
from mednli_jax.training.step import train_step

DIM, BUCKETS, WORDS, WIDTH, RATE = 5, 64, random_pairs.WORDS, (12, 8), 0.5
MODEL = table.entry("fasttext").build({"dim": DIM, "buckets": BUCKETS})
TASK, FROZEN = NLITask(), frozen(random_pairs.vectors())
ARRAYS = random_pairs.arrays()


DATA = {name: jnp.asarray(array) for name, array in ARRAYS.items()}
SGD = optim.build_optimizer(optim.Options(learning_rate=RATE, optimizer="sgd"))


def drawn():
    """A learner whose linear layer is not 0, because with 0 the rows would have no gradient yet."""
    batch = TASK.to_batch(DATA, jnp.zeros((1, 1), jnp.int32), Layout.full(1, WIDTH))
    learner = state.init_learner(MODEL, SGD, (0,), batch, FROZEN)
    output = np.random.default_rng(1).normal(size=(1, DIM, 3))
    return learner.replace(params={**learner.params, "output": jnp.asarray(output, jnp.float32)})


# ---- an independent reference ----


def mixed(number):
    number ^= number >> 16
    number = number * 0x85EBCA6B % 2**32
    number ^= number >> 13
    number = number * 0xC2B2AE35 % 2**32
    return number ^ (number >> 16)


def features(row):
    """The rows of the table that a text reads, computed one by one with Python's integers."""
    sides = (
        ARRAYS[side][row, : ARRAYS[f"{side}_length"][row]].tolist()
        for side in ("premise", "hypothesis")
    )
    text = [*itertools.chain(*sides), 0]
    pairs = itertools.pairwise(text)
    return text + [WORDS + (mixed(a) * 116049371 + mixed(b)) % 2**32 % BUCKETS for a, b in pairs]


def numpy_step(params, batch, rate):
    """The rows, the linear layer and the mean loss of a step of SGD, computed example by example in
    float64."""
    old, output = (
        np.asarray(leaf, np.float64) for leaf in (params["embedding"]["rows"], params["output"])
    )
    new, new_output, total = old.copy(), output.copy(), 0.0
    for row in batch:
        read = features(row)
        hidden = sum(old[i] for i in read) / len(read)
        p = np.exp(hidden @ output) / np.exp(hidden @ output).sum()
        total -= np.log(p[ARRAYS["label"][row]])
        error = p - np.eye(3)[ARRAYS["label"][row]]
        new_output -= rate / len(batch) * np.outer(hidden, error)
        for i in read:
            new[i] -= rate / len(batch) * (output @ error) / len(read)
    return new, new_output, total / len(batch)


# ---- steps ----


def test_a_step_is_sgd_worked_example_by_example():
    learner, index = drawn(), np.array([3, -1, 9, -1], np.int32)[None, :, None]
    after, sums = jax.jit(train_step(MODEL, TASK, SGD, Layout.full(4, WIDTH)))(
        learner, FROZEN, DATA, index
    )
    before, params = (
        jax.tree.map(lambda leaf: np.array(leaf[0]), of.params) for of in (learner, after)
    )
    table_MD, output, loss = numpy_step(before, (3, 9), RATE)
    np.testing.assert_allclose(params["embedding"]["rows"], table_MD, atol=1e-6)
    np.testing.assert_allclose(params["output"], output, atol=1e-6)
    assert float(sums["loss"][0] / sums["count"][0]) == pytest.approx(loss, rel=1e-5)
    read = np.unique(features(3) + features(9))
    moved = np.flatnonzero((params["embedding"]["rows"] != before["embedding"]["rows"]).any(axis=1))
    assert set(moved) == set(read)
    assert len(read) < len(features(3) + features(9))  # at least one row was read twice


def test_updates_of_equal_rows_are_summed_first_where_a_device_adds_in_no_order():
    rng = np.random.default_rng(0)
    start, index = rng.normal(size=(9, 4)).astype(np.float32), rng.integers(0, 9, 50)
    index[index == 3] = 8
    update, expected = rng.normal(size=(50, 4)).astype(np.float32), start.copy()
    np.add.at(expected, index, update)
    for how in (rows.add, rows.add_summed):
        np.testing.assert_allclose(jax.jit(how)(start, index, update), expected, atol=1e-5)
        pairs = (start, -start), (index, index[::-1]), (update, -update)
        both = jax.jit(jax.vmap(how))(*map(np.stack, pairs))
        np.testing.assert_allclose(both[0], expected, atol=1e-5)
        mirrored = -start
        np.add.at(mirrored, index[::-1], -update)
        np.testing.assert_allclose(both[1], mirrored, atol=1e-5)


# ---- the commands ----


def test_a_run_is_trained_evaluated_and_asked(tmp_path, monkeypatch):
    """Only hypotheses tell the label; premises are ignored in training and for new pairs."""
    monkeypatch.chdir(tmp_path)
    use_one_device(monkeypatch)
    for split, size in (("train", 96), ("dev", 12), ("test", 12)):
        rows = [
            (LABELS[i % 3], f"premise {i} .", f"patient {VERBS[LABELS[i % 3]]} gout {i % 5} .")
            for i in range(size)
        ]
        lines = [
            json.dumps(dict(zip(("gold_label", "sentence1", "sentence2"), row, strict=True)))
            for row in rows
        ]
        Path(f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    config = (
        config_flag("hypothesis_only", "file"),
        "--config.data.dir=.",
        "--config.model.buckets=256",
    )
    code, _, err = call_command(train, *config, "--config.train.epochs=30", "--workdir=run")
    assert code == 0, err
    result = read_json("run/result.json")
    assert (result["status"], result["model"], result["best_epoch"]) == (
        "complete",
        "fasttext",
        [30],
    )
    assert result["test"]["accuracy"]["mean"] == 1.0
    run = load_run(Path("run"))
    found = run.predict(
        [("a premise", "patient lacks gout 1 ."), ("another one", "patient has gout 2 .")]
    )
    assert [max(row, key=row.get) for row in found] == ["contradiction", "entailment"]
    assert run.predict([("unlike the first", "patient lacks gout 1 .")])[0] == pytest.approx(
        found[0], abs=1e-5
    )
    # An entity that contains the verb is an unknown word; the rest of the text is the same in all
    # classes.
    splits = run.prepared.splits.values()
    uids = run.prepared.splits["test"].uids
    rows = [
        f"{uid}\thypothesis\t0\t{4 if number % 3 == 1 else 3}\tENTITY"
        for split in splits
        for number, uid in enumerate(split.uids)
    ]
    Path("spans.tsv").write_text("\n".join(["uid\tside\tstart\tend\tconcept", *rows]) + "\n")
    Path("easy.txt").write_text("\n".join(uids[:6]) + "\n")
    merged = run.task.merged(run, Path("spans.tsv"))
    first, test = merged.prepared.splits["test"].first, merged.prepared.splits["test"]
    assert test.length[1].tolist() == [3] * 12  # patient_has_gout, 1 and the full stop
    number = {word: place for place, word in enumerate(run.vocabulary.words)}
    assert merged.prepared.arrays["hypothesis"][first, :3].tolist() == [1, number["0"], number["."]]
    flags = ("--run=run", "--merged", "--spans=spans.tsv", "--partition=easy.txt", "--json")
    code, out, err = call_command(evaluate, *flags)
    assert code == 0, err
    scores = json.loads(out)
    assert (scores["merged_by"], scores["examples"], scores["partitions"]["easy"]["examples"]) == (
        "spans.tsv",
        12,
        6,
    )
    assert scores["accuracy"]["mean"] < 0.7
    assert "merged_by" not in json.loads(call_command(evaluate, "--run=run", "--json")[1])
    # Without a file of spans the ontology's concepts are merged. Gout is one, and a single word.
    code, out, err = call_command(evaluate, "--run=run", "--merged", "--json")
    assert (code, json.loads(out)["accuracy"]["mean"]) == (0, 1.0), err
    Path("spans.tsv").write_text(
        "uid\tside\tstart\tend\tconcept\nother\thypothesis\t0\t1\tENTITY\n"
    )
    for wrong in (flags, ("--run=run", "--spans=spans.tsv"), ("--run=run", "--merged", config[0])):
        code, out, err = call_command(evaluate, *wrong)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "gout" not in err
