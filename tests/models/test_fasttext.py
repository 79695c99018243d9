"""fastText's supervised mode: features of a text, steps equal to NumPy's, and steps that touch few
rows of a table."""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import random_pairs
from support.cases import cases
from support.commands import at, printed_json, read_json, refused, succeeds
from support.mention_files import HEADER, mention_row
from support.pair_files import LABELS, VERBS, write_rows
from support.trees import assert_near

from mednli_jax import load_run
from mednli_jax.data.arrays import SIDES
from mednli_jax.data.batching import Layout
from mednli_jax.models import sparse_rows, table
from mednli_jax.nli.scorer import NLIScorer
from mednli_jax.training import optim, state
from mednli_jax.training.scorer import frozen
from mednli_jax.training.step import train_step

DIM = 5
BUCKETS = 64
WORDS = random_pairs.WORDS
WIDTH = (12, 8)
RATE = 0.5
ARRAYS = random_pairs.arrays()

# ---- an independent reference ----


def mixed(number):
    number ^= number >> 16
    number = number * 0x85EBCA6B % 2**32
    number ^= number >> 13
    number = number * 0xC2B2AE35 % 2**32
    return number ^ (number >> 16)


def features(row):
    """The rows of the table that a text reads, computed by Python's integers: its words, its end
    and the pairs of words that follow each other."""
    text = []
    for side in SIDES:
        text += ARRAYS[side][row, : ARRAYS[f"{side}_length"][row]].tolist()
    text.append(0)
    hashes = [mixed(a) * 116049371 + mixed(b) for a, b in itertools.pairwise(text)]
    return text + [WORDS + number % 2**32 % BUCKETS for number in hashes]


def numpy_step(params, batch, rate):
    """The table, the linear layer and the mean loss of a step of SGD, computed example by example
    in float64."""
    old = params["embedding"]["rows"].astype(np.float64)
    output = params["output"].astype(np.float64)
    new = old.copy()
    new_output = output.copy()
    total = 0.0
    for row in batch:
        read = features(row)
        label = ARRAYS["label"][row]
        hidden = old[read].mean(axis=0)
        p = np.exp(hidden @ output) / np.exp(hidden @ output).sum()
        total -= np.log(p[label])
        error = p - np.eye(3)[label]
        new_output -= rate / len(batch) * np.outer(hidden, error)
        np.subtract.at(new, read, rate / len(batch) * (output @ error) / len(read))
    return new, new_output, total / len(batch)


# ---- steps ----


def test_a_step_of_fasttext_is_sgd_worked_out_example_by_example():
    model = table.entry("fasttext").build({"dim": DIM, "buckets": BUCKETS})
    sgd = optim.build_optimizer(optim.Options(learning_rate=RATE, optimizer="sgd"))
    task = NLIScorer()
    words = frozen(random_pairs.vectors())
    layout = Layout.full(4, WIDTH)
    data = jax.tree.map(jnp.asarray, ARRAYS)
    batch = task.to_batch(data, jnp.zeros((4, 1), jnp.int32), layout)
    learner = state.init_learner(model, sgd, (0,), batch, words)
    # Where the linear layer is 0, as it is drawn, the table has no gradient.
    output = np.random.default_rng(1).normal(size=(1, DIM, 3)).astype(np.float32)
    learner = learner.replace(params={**learner.params, "output": jnp.asarray(output)})
    before = jax.tree.map(lambda leaf: np.array(leaf[0]), learner.params)
    index = np.array([3, -1, 9, -1], np.int32)[None, :, None]

    after, sums = jax.jit(train_step(model, task, sgd, layout))(learner, words, data, index)

    params = jax.tree.map(lambda leaf: np.array(leaf[0]), after.params)
    rows, output, loss = numpy_step(before, (3, 9), RATE)
    assert_near(params["embedding"]["rows"], rows, atol=1e-6)
    assert_near(params["output"], output, atol=1e-6)
    assert float(sums["loss"][0] / sums["count"][0]) == pytest.approx(loss, rel=1e-5)
    read = features(3) + features(9)
    moved = np.flatnonzero((params["embedding"]["rows"] != before["embedding"]["rows"]).any(axis=1))
    assert set(moved) == set(read)
    assert len(set(read)) < len(read)  # a row was read twice


@pytest.mark.parametrize("add", [sparse_rows.add, sparse_rows.add_summed])
def test_updates_of_equal_rows_are_summed(add):
    """A device that adds in no order sums them first. Each seed has its own rows."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=(2, 9, 4))
    update = rng.normal(size=(2, 50, 4))
    start = start.astype(np.float32)
    update = update.astype(np.float32)
    index = rng.integers(0, 9, (2, 50))
    index[index == 3] = 8
    expected = start.copy()
    for seed in (0, 1):
        np.add.at(expected[seed], index[seed], update[seed])

    alone = jax.jit(add)(start[0], index[0], update[0])
    of_seeds = jax.jit(jax.vmap(add))(start, index, update)

    assert_near(alone, expected[0], atol=1e-5)
    assert_near(of_seeds, expected, atol=1e-5)


# ---- the commands ----


@pytest.fixture(scope="module")
def _trained(tmp_path_factory):
    """The folder of a run whose pairs have the label of their hypothesis's verb."""
    home = tmp_path_factory.mktemp("fasttext")
    for split, size in (
        ("train", 96),
        ("dev", 12),
        ("test", 12),
    ):
        rows = []
        for number in range(size):
            label = LABELS[number % 3]
            hypothesis = f"patient {VERBS[label]} gout {number % 5} ."
            texts = {"sentence1": f"premise {number} .", "sentence2": hypothesis}
            rows.append({"gold_label": label, **texts})
        write_rows(home / f"{split}.jsonl", rows)
    flags = ("--config.data.dir=.", "--config.model.buckets=256", "--config.train.epochs=30")
    with at(home):
        config = "--config=hypothesis_only:file"
        succeeds("train", config, *flags, "--workdir=run")
    return home


@pytest.fixture
def run(_trained):
    with at(_trained):
        yield load_run(Path("run"))


def test_a_hypothesis_only_fasttext_learns_labels_from_hypotheses_alone(run):
    result = read_json("run", "result.json")

    assert result["status"] == "complete"
    assert result["model"] == "fasttext"
    assert result["best_epoch"] == [30]
    assert result["test"]["accuracy"]["mean"] == 1.0


@pytest.fixture
def spans(run):
    """A file of spans from the verb to gout, which then are an unknown word."""
    lines = [HEADER]
    for split in run.experiment.corpus.splits().values():
        for number, pair in enumerate(split.examples):
            words = pair.hypothesis.split()[: 4 if number % 3 == 1 else 3]  # may have gout
            lines.append(mention_row(split.name, pair, " ".join(words), "ENTITY", "hypothesis"))
    Path("spans.tsv").write_text("\n".join(lines) + "\n")
    return Path("spans.tsv")


def test_merged_entities_become_single_words(run, spans):
    merged = run.task.with_merged_entities(run, spans).prepared

    test = merged.splits["test"]
    assert test.length[1].tolist() == [3] * 12  # patient_has_gout, 0 and the full stop
    words = run.vocabulary.words
    expected = [1, words.index("0"), words.index(".")]
    assert merged.arrays["hypothesis"][test.first, :3].tolist() == expected


def test_a_run_is_evaluated_with_entities_merged_by_spans(run, spans):
    """The rest of the text is the same in all classes."""
    easy = run.prepared.splits["test"].uids[:6]
    Path("easy.txt").write_text("\n".join(easy) + "\n")

    scores = printed_json(
        "evaluate --run=run", "--merged", f"--spans={spans}", "--partition=easy.txt"
    )

    assert scores["merged_by"] == "spans.tsv"
    assert scores["examples"] == 12
    assert scores["partitions"]["easy"]["examples"] == 6
    assert scores["accuracy"]["mean"] < 0.7
    assert "merged_by" not in printed_json("evaluate --run=run")


def test_without_spans_the_concepts_of_the_ontology_are_merged(run):
    """Gout is one, and a single word."""
    assert printed_json("evaluate --run=run --merged")["accuracy"]["mean"] == 1.0


@cases(
    "flags",
    {
        "spans of an unknown pair": ("--merged", "--spans=other.tsv"),
        "spans without merging": ("--spans=spans.tsv",),
        "another corpus": ("--merged", "--config=hypothesis_only:file"),
    },
)
def test_merging_that_cannot_work_is_refused_without_corpus_text(spans, flags):
    Path("other.tsv").write_text(f"{HEADER}\ntest\tother\thypothesis\t0\t1\tENTITY\n")

    message = refused("evaluate --run=run", *flags)

    assert message.count("\n") == 1
    assert "gout" not in message
