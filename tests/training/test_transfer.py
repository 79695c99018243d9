"""Transfer: which weights are merged, drawn anew or frozen; sequential and direct transfer by the
commands."""

import contextlib
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import random_pairs
from support.commands import call_command, config_flag, read_json, use_one_device
from support.pair_files import LABELS, own_pair, write_own_pairs, write_rows

from mednli_jax import evaluate, predict, train
from mednli_jax.data.batching import Layout
from mednli_jax.errors import RunError
from mednli_jax.knowledge.readers import mesh
from mednli_jax.models import table
from mednli_jax.nli.task import NLITask, frozen
from mednli_jax.report import __main__ as report
from mednli_jax.run import load_run
from mednli_jax.training import optim, state, transfer

# ---- the merge ----


def tree(seeds, *, bias=2, start=0.0):
    """Weights of a small model: an encoder, a head and a norm's running mean. Leaves are [S,
    ...]."""
    base = start + np.arange(seeds, dtype=np.float32)[:, None]
    params = {
        "encoder": {
            "kernel": base[:, None] * np.ones((4, 2), np.float32),
            "bias": base + np.zeros(bias, np.float32),
        },
        "logits": {"kernel": base[:, None] + np.zeros((2, 3), np.float32)},
    }
    return {"params": params, "batch_stats": {"norm": {"mean": base + np.zeros(2, np.float32)}}}


def test_seeds_go_by_number_and_a_single_one_serves_all():
    for seeds, own, first in (((4, 1, 7), (7, 4), [12.0, 10.0]), ((9,), (0, 1, 2), [10.0] * 3)):
        source, rows = tree(len(seeds), start=10.0), transfer.seed_rows(seeds, own)
        merged, taken, kept = transfer.merge(tree(len(own)), source, rows=rows)
        for name, leaf in transfer.flat(merged).items():
            assert [np.unique(row).tolist() for row in leaf] == [[value] for value in first], name
        assert (kept, taken) == ([], sorted(transfer.flat(source)))
    with pytest.raises(RunError, match=r"the source run has no seed 2, 5\. Fix: .*among 4, 1"):
        transfer.seed_rows((4, 1), (2, 4, 5))


# ---- the models ----

OWN = {  # the layers of a domain; Romanov & Shivade's code shares all others
    "bow": ("layer_1", "norm_1", "layer_2", "norm_2", "logits"),
    "infersent": ("layer_1", "logits"),
    "esim": ("layer", "logits"),
}


def learner_of(name, seeds, optimizer=None, **fields):
    """A small model and its learner."""
    model = table.entry(name).build(
        {"hidden_size": 4, "dropout": 0.0, **fields}, longest_path=random_pairs.LONGEST
    )
    batch = NLITask().to_batch(
        jax.tree.map(jnp.asarray, random_pairs.arrays()),
        jnp.zeros((2, 1), jnp.int32),
        Layout.full(2, (12, 8)),
    )
    optimizer = optimizer or optim.build_optimizer(
        optim.Options(learning_rate=1e-2, weight_decay=1e-2)
    )
    return model, state.init_learner(model, optimizer, seeds, batch, frozen(random_pairs.vectors()))


@pytest.mark.parametrize("name", OWN)
def test_private_layers_are_drawn_anew_and_no_others(name):
    shapes = jax.eval_shape(lambda: learner_of(name, (3,))[1]).variables
    zeros, ones = (
        jax.tree.map(lambda leaf, x=x: np.full(leaf.shape, x, leaf.dtype), shapes) for x in (0, 1)
    )
    merged, taken, kept = transfer.merge(
        zeros, ones, rows=np.zeros(1, int), skip=transfer.drawn_anew(name)
    )
    layers = {weight.split("/")[1] for weight in kept}
    assert layers == {*OWN[name]}
    assert layers.isdisjoint(weight.split("/")[1] for weight in taken)
    assert all((leaf == (weight in taken)).all() for weight, leaf in transfer.flat(merged).items())


# ---- the commands ----

SIZES = {"train": 36, "dev": 12, "test": 9}
HERE, THERE = ("asthma", "gout", "stroke"), ("sepsis", "asthma", "anemia", "croup")
SMALL = ("--config.vectors.dim=6", "--config.model.hidden_size=4", "--config.model.dropout=0.0",
         "--config.train.batch_size=12", "--config.train.epochs=1", "--config.train.max_buckets=1")  # fmt: skip


class Home:
    """A user's two corpora in here/ and there/, vectors of their words in v.txt, and a run on here/
    in source/."""

    def __init__(self, folder):
        self.folder = folder
        words = write_own_pairs(folder / "here", HERE, SIZES.items())
        words |= write_own_pairs(folder / "there", THERE, SIZES.items())
        rng = np.random.default_rng(0)
        for name in ("v.txt", "w.txt"):
            rows = [
                f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=6))}"
                for word in sorted(words)
            ]
            (folder / name).write_text("\n".join(rows) + "\n")

    def call(self, command, *flags):
        with contextlib.chdir(self.folder):
            return call_command(command, *flags, stdin="gout\tgout\n")

    def train(
        self, workdir, *flags, corpus="here", vectors="v.txt", model="infersent", seeds="0,1"
    ):
        given = (
            f"--config.data.dir={corpus}",
            f"--config.vectors.path={vectors}",
            f"--config.seeds={seeds}",
        )
        return self.call(
            train, config_flag(model, "file"), *given, *SMALL, f"--workdir={workdir}", *flags
        )

    def json(self, *parts):
        return read_json(self.folder, *parts)

    def run(self, name):
        return load_run(self.folder / name)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transfer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDNLI_JAX_CACHE", str(folder / "cache"))
        use_one_device(patch)
        home = Home(folder)
        code, _, err = home.train(
            "source", "--config.train.epochs=2", "--config.train.learning_rate=0.05"
        )
        assert code == 0, err
        yield home


@pytest.fixture(autouse=True)
def _cache(home, monkeypatch):
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(home.folder / "cache"))


INIT = "--config.transfer.init_from=source"
STILL = ("--config.train.learning_rate=0", "--config.train.weight_decay=0")


def test_untrained_transfer_to_the_same_corpus_has_the_sources_scores(home):
    code, _, err = home.train("same", INIT, *STILL)
    assert code == 0, err
    source, result = home.json("source", "result.json"), home.json("same", "result.json")
    for split in ("dev", "test"):
        assert result[split]["accuracy"] == source[split]["accuracy"]
        assert result[split]["confusion"] == source[split]["confusion"]
        assert result[split]["loss"]["per_seed"] == pytest.approx(
            source[split]["loss"]["per_seed"], rel=1e-6
        )
    own, other = (transfer.flat(home.run(name).variables) for name in ("source", "same"))
    jax.tree.map(np.testing.assert_array_equal, own, other)
    facts = {
        "source": "source",
        "corpus": "file",
        "seeds": [0, 1],
        "best_epoch": source["best_epoch"],
    }
    assert result["transfer"] == {**facts, "weights_taken": len(own), "weights_drawn": []}
    assert f"{len(own)} weights from source" in err
    assert home.train("alone", *STILL)[0] == 0  # equal scores without transfer would prove nothing
    scores = [
        home.json(name, "result.json")["dev"]["loss"]["per_seed"] for name in ("source", "alone")
    ]
    assert np.abs(np.subtract(*scores)).min() > 1e-3


def test_a_private_layer_starts_from_random_values(home):
    """Multi-target transfer: the target has its own last layers (Romanov & Shivade 2018, section
    4.1)."""
    code, _, err = home.train("private", INIT, "--config.transfer.private=True")
    assert code == 0, err
    drawn = [
        f"params/{layer}/{part}" for layer in ("layer_1", "logits") for part in ("bias", "kernel")
    ]
    assert home.json("private", "result.json")["transfer"]["weights_drawn"] == drawn


def elsewhere(*flags):
    return ("--run=source", config_flag("infersent", "file"), "--config.data.dir=there", *flags)


def test_direct_transfer_scores_as_prediction_does(home):
    """Scores agree for pairs whose words the run knows; other words have vectors here and none in
    prediction."""
    code, out, err = home.call(evaluate, *elsewhere("--split=test", "--json"))
    assert code == 0, err
    scores = json.loads(out)
    assert (scores["trained_on"], scores["examples"]) == ("file", SIZES["test"])
    run = home.run("source")
    config = run.config.copy_and_resolve_references()
    config.data.dir = str(home.folder / "there")
    config.vectors.path = run.config.vectors.path = str(home.folder / "v.txt")
    there = run.on(config.data)
    _, logits = there.scores("test")
    p_NC = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    pairs = [own_pair("test", number, THERE) for number in range(SIZES["test"])]
    accuracy = (logits.argmax(axis=-1) == [LABELS.index(label) for label, *_ in pairs]).mean(axis=1)
    assert scores["accuracy"]["per_seed"] == pytest.approx(accuracy.tolist())
    seen = [number for number, (_, premise, _) in enumerate(pairs) if premise.startswith("asthma")]
    assert 0 < len(seen) < len(pairs)
    for number, (_, premise, hypothesis) in enumerate(pairs):
        predicted = run.predict([(premise, hypothesis)])
        (row,) = predicted
        same = np.allclose([row[label] for label in LABELS], p_NC.mean(axis=0)[number], atol=2e-6)
        assert same == (number in seen)
        assert (predicted.unknown_words["hypothesis"] == 0) == (number in seen)
    assert there.prepared.manifest["unknown_tokens"] == {"premise": 0, "hypothesis": 0}


def test_a_word_without_a_vector_is_the_runs_unknown_word(home):
    """A row of its own would be a mean of this corpus's vectors, but the weights know that of the
    source."""
    write_own_pairs(home.folder / "odd", (*THERE, "blorf"), SIZES.items())
    run = home.run("source")
    data = run.config.copy_and_resolve_references().data
    data.dir, run.config.vectors.path = str(home.folder / "odd"), str(home.folder / "v.txt")
    there = run.on(data)
    assert there.prepared.manifest["unknown_tokens"]["hypothesis"] > 0
    np.testing.assert_array_equal(there.prepared.vectors[1], run.vectors[1])
    assert (there.prepared.vectors[2:] != run.vectors[1]).any(axis=1).all()


CONCEPTS = "D1\tasthma\tC01\t\nD2\tgout\tC01.100\t\nD3\tsepsis\tC01.200\t\nD4\tanemia\tC01.300\t\n"
KEPT = {  # what a run makes of its training pairs, and reads other pairs by -> its flags
    "vectors of concepts": (
        "bow",
        (
            "--config.vectors.retrofit=concepts",
            "--config.knowledge.ontology=own.tsv",
            '--config.knowledge.types=("",)',
        ),
    ),
    "vectors of words, retrofitted": ("bow", ("--config.vectors.retrofit=lexicon.txt",)),
}


@pytest.mark.parametrize("kept", KEPT)
def test_a_run_reads_another_corpus_by_what_it_made_of_its_own(home, kept, monkeypatch):
    """Its scores agree with `predict` on the same pairs, where it knows their words. No training
    pairs are needed."""
    model, flags = KEPT[kept]
    monkeypatch.chdir(home.folder)
    (home.folder / "own.tsv").write_text("\t".join(mesh.HEADER) + "\n" + CONCEPTS)
    (home.folder / "lexicon.txt").write_text(
        "asthma gout stroke sepsis anemia\npatient has may lacks sepsis\n"
    )
    name = kept.replace(" ", "-")
    code, _, err = home.train(name, *flags, model=model)
    assert code == 0, err
    alone = home.folder / f"{name}-test"
    write_own_pairs(alone, THERE, [("test", SIZES["test"])])
    code, out, err = home.call(
        evaluate,
        f"--run={name}",
        config_flag(model, "file"),
        f"--config.data.dir={alone}",
        "--json",
    )
    assert code == 0, err
    assert json.loads(out)["examples"] == SIZES["test"]
    run = home.run(name)
    config = run.config.copy_and_resolve_references()
    config.data.dir = str(alone)
    _, logits = run.on(config.data, "test").scores("test")
    p_NC = (np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)).mean(axis=0)
    known = 0
    for number in range(SIZES["test"]):
        _, *pair = own_pair("test", number, THERE)
        predicted = run.predict([pair])
        if not sum(predicted.unknown_words.values()):
            (row,), known = predicted, known + 1
            np.testing.assert_allclose([row[label] for label in LABELS], p_NC[number], atol=2e-6)
    assert known


def test_sequential_transfer_keeps_the_sources_vectors(home):
    """Those of the unknown word and of words that both corpora have; the weights were trained on
    them."""
    write_own_pairs(home.folder / "unlike", (*THERE, "blorf"), SIZES.items())
    code, _, err = home.train("target", INIT, *STILL, corpus="unlike")
    assert code == 0, err
    source, target = home.run("source"), home.run("target")
    np.testing.assert_array_equal(target.vectors[1], source.vectors[1])
    (pair,) = target.predict([("blorf in test 0 .", "patient has blorf")])
    (same,) = source.predict([("blorf in test 0 .", "patient has blorf")])
    assert pair == pytest.approx(same, abs=2e-6)
    code, out, err = home.call(evaluate, "--run=target", "--split=test", "--json")
    assert code == 0, err
    result = home.json("target", "result.json")
    assert json.loads(out)["loss"]["per_seed"] == pytest.approx(
        result["test"]["loss"]["per_seed"], rel=1e-6
    )


def test_a_direct_run_is_complete_and_report_reads_it(home):
    code, out, err = home.call(evaluate, *elsewhere("--workdir=direct"))
    assert code == 0, err
    assert out.startswith("infersent on file, test, seeds 0, 1")
    result, source = home.json("direct", "result.json"), home.json("source", "result.json")
    assert result["status"] == "complete"
    assert result["transfer"] == {"source": "source", "corpus": "file", "mode": "direct"}
    assert (result["seeds"], result["best_epoch"]) == (source["seeds"], source["best_epoch"])
    assert (result["dev"]["examples"], result["test"]["examples"]) == (SIZES["dev"], SIZES["test"])
    assert home.json("direct", "config.json")["data"]["dir"] == "there"
    code, _, err = home.call(report, "direct")
    assert code == 0, err
    assert (home.folder / "direct" / "report.html").read_text().startswith("<!DOCTYPE html>")
    for command in (evaluate, predict):
        code, out, err = home.call(command, "--run=direct")
        assert (code, out) == (2, "")
        assert err.startswith("error: direct: a run of direct transfer keeps no weights")


def test_direct_transfer_between_corpora_of_other_classes(home):
    """Each run is scored over the classes of the corpus; without a logit for one of them there is
    no loss."""
    labels = "--config.data.labels=entailment:entailment,contradiction:contradiction"
    for split, size in SIZES.items():
        pairs = [own_pair(split, number, HERE) for number in range(size)]
        rows = [
            dict(zip(("label", "premise", "hypothesis"), pair, strict=True))
            for pair in pairs
            if pair[0] != "neutral"
        ]
        (home.folder / "fewer").mkdir(exist_ok=True)
        write_rows(home.folder / "fewer" / f"{split}.jsonl", rows)
    code, _, err = home.train("two", labels, corpus="fewer")
    assert code == 0, err
    config, found = config_flag("infersent", "file"), {}
    for run, corpus, flags in (
        ("two", "here", ()),
        ("source", "fewer", (labels,)),
        ("source", "fewer", ()),
    ):
        name = f"{run}-on-{corpus}{len(flags)}"
        given = (f"--run={run}", config, f"--config.data.dir={corpus}", *flags, f"--workdir={name}")
        code, out, err = home.call(evaluate, *given)
        assert code == 0, err
        found[name] = home.json(name, "result.json")["test"]
        assert (" - " in out.splitlines()[4]) == ("loss" not in found[name])
        gold = [of["f1"] for of in found[name]["per_class"].values() if of["support"]]
        assert len(gold) == {"here": 3, "fewer": 2}[corpus]
        assert home.call(report, name)[0] == 0
    assert "loss" not in found["two-on-here0"]
    assert found["source-on-fewer1"] == found["source-on-fewer0"]
    assert 0 < found["source-on-fewer1"]["loss"]["mean"] < 100


REFUSED = {
    "other vectors": (
        (INIT,),
        {"vectors": "w.txt"},
        "source: has other word vectors than this config",
    ),
    "unknown words otherwise": (
        (INIT, "--config.vectors.unknown=random"),
        {"corpus": "there"},
        "source: looks up words in another way (--config.vectors.unknown)",
    ),
    "a seed that is not there": ((INIT,), {"seeds": "0,4"}, "the source run has no seed 4"),
    "no such run": (("--config.transfer.init_from=sourc",), {}, "sourc: not a run directory"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_source_that_does_not_fit_is_one_line_and_leaves_no_run(home, case):
    flags, how, named = REFUSED[case]
    code, out, err = home.train("refused", *flags, **how)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"error: {named}")
    assert " Fix: " in err
    assert not (home.folder / "refused").exists()
