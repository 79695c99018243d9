"""Transfer: which weights are merged, drawn anew or frozen; sequential and direct transfer by the
commands."""

import re
import shutil
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from support import models
from support.cases import cases
from support.commands import at, printed_json, read_json, refused, succeeds
from support.pair_files import LABELS, own_pair, write_own_pairs
from support.trees import assert_equal

from mednli_jax import evaluate, load_run, predict
from mednli_jax.errors import RunError
from mednli_jax.experiment import Transfer
from mednli_jax.knowledge.readers import mesh
from mednli_jax.training import transfer

# ---- the merge ----


def weights(*values):
    """The weights of a layer, [S, ...], filled with a value for each seed."""
    filled = np.array(values, np.float32)[:, None] * np.ones((len(values), 4), np.float32)
    return {"params": {"layer": {"bias": filled}}, "batch_stats": {"norm": {"mean": filled}}}


@cases(
    "source_seeds, seeds, values",
    {
        "by number": ((4, 1, 7), (7, 4), [12.0, 10.0]),
        "a single one serves all": ((9,), (0, 1, 2), [10.0] * 3),
    },
)
def test_each_seed_takes_the_weights_of_the_source_seed_of_its_number(source_seeds, seeds, values):
    source = weights(*range(10, 10 + len(source_seeds)))

    rows = transfer.seed_rows(source_seeds, seeds)
    merged, taken, drawn = transfer.merge(weights(*seeds), source, rows=rows)

    assert_equal(merged, weights(*values))
    assert taken == ["batch_stats/norm/mean", "params/layer/bias"]
    assert drawn == []


@cases(
    "labels, fix",
    {
        "another order": (("b", "a"), "give them in this order: config.data.labels=a,b"),
        "another label": (("a", "c"), "map them, config.data.labels=LABEL:NAME"),
    },
)
def test_a_source_with_other_labels_is_refused(labels, fix):
    manifest = {"files": {"vocabulary.json": "1", "vectors.npy": "2"}}
    experiment = SimpleNamespace(
        trains_words=True,
        seeds=(0,),
        transfer=Transfer(),
        scorer=SimpleNamespace(labels=labels),
    )
    source = SimpleNamespace(
        folder="source",
        predictor=None,
        manifest=manifest,
        experiment=experiment,
        scorer=SimpleNamespace(labels=("a", "b")),
    )

    with pytest.raises(
        RunError, match=re.escape(f"and the corpus {', '.join(labels)}. Fix: {fix}")
    ):
        transfer.check_source(source, experiment, SimpleNamespace(manifest=manifest))


@pytest.mark.parametrize(
    "model, layers",
    [  # Romanov & Shivade's code shares all other layers
        ("bow", {"layer_1", "norm_1", "layer_2", "norm_2", "logits"}),
        ("infersent", {"layer_1", "logits"}),
        ("esim", {"layer", "logits"}),
    ],
)
def test_private_layers_are_drawn_anew_in_transfer_and_no_others(model, layers):
    variables = models.variables_of(models.build(model), model)
    own = {name: variables[name] for name in variables if name != "frozen"}
    zeros, ones = (jax.tree.map(lambda x, n=n: np.full((1, *x.shape), n), own) for n in (0, 1))

    skip = transfer.drawn_anew(model)
    merged, taken, drawn = transfer.merge(zeros, ones, rows=np.zeros(1, int), skip=skip)

    assert {name.split("/")[1] for name in drawn} == layers
    assert layers.isdisjoint(name.split("/")[1] for name in taken)
    for name, leaf in transfer.flat(merged).items():
        assert (leaf == (name in taken)).all(), name


# ---- the commands ----

SIZES = {"train": 36, "dev": 12, "test": 9}
HERE = ("asthma", "gout", "stroke")
THERE = ("sepsis", "asthma", "anemia", "croup")
SMALL = (
    "--config.data.dir=here",
    "--config.vectors.path=v.txt",
    "--config.vectors.dim=6",
    "--config.model.hidden_size=4",
    "--config.model.dropout=0.0",
    "--config.train.batch_size=12",
    "--config.train.epochs=1",
    "--config.train.max_buckets=1",
)


class Home:
    """A user's two corpora in here/ and there/, vectors of their words in v.txt, others in w.txt,
    and a run on here/ in source/."""

    def __init__(self, folder):
        self.folder = folder
        words = write_own_pairs(folder / "here", HERE, SIZES.items())
        words |= write_own_pairs(folder / "there", THERE, SIZES.items())
        rng = np.random.default_rng(0)
        for name in ("v.txt", "w.txt"):
            with open(folder / name, "w") as file:
                for word in sorted(words):
                    print(word, *rng.normal(size=6).round(4), file=file)

    def flags(self, workdir, *flags, model="infersent", seeds="0,1"):
        """Flags of `train`; of flags that are given twice the last counts."""
        own = (f"--config.seeds={seeds}", f"--workdir={workdir}")
        return (f"--config={model}:file", *SMALL, *own, *flags)

    def train(self, workdir, *flags, model="infersent"):
        succeeds("train", *self.flags(workdir, *flags, model=model))

    def result(self, run):
        return read_json(run, "result.json")


@pytest.fixture(scope="module")
def _home(tmp_path_factory):
    home = Home(tmp_path_factory.mktemp("transfer"))
    with at(home.folder):
        home.train("source", "--config.train.epochs=2", "--config.train.learning_rate=0.05")
    return home


@pytest.fixture
def home(_home):
    """The working directory."""
    with at(_home.folder):
        yield _home


INIT = "--config.transfer.init_from=source"
UNTRAINED = ("--config.train.learning_rate=0", "--config.train.weight_decay=0")


def test_untrained_transfer_to_the_same_corpus_has_the_scores_of_the_source(home):
    home.train("same", INIT, *UNTRAINED)
    home.train("alone", *UNTRAINED)

    source, result, alone = map(home.result, ("source", "same", "alone"))
    for split in ("dev", "test"):
        assert result[split]["confusion"] == source[split]["confusion"]
        losses = result[split]["loss"]["per_seed"]
        assert losses == pytest.approx(source[split]["loss"]["per_seed"], rel=1e-6)
    # Equal scores prove nothing if those without transfer are equal, too.
    difference = np.subtract(source["dev"]["loss"]["per_seed"], alone["dev"]["loss"]["per_seed"])
    assert np.abs(difference).min() > 1e-3
    own, transferred = (load_run(home.folder / name).variables for name in ("source", "same"))
    assert_equal(transferred, own)
    assert result["transfer"] == {
        "source": "source",
        "corpus": "file",
        "seeds": [0, 1],
        "best_epoch": source["best_epoch"],
        "weights_taken": len(transfer.flat(own)),
        "weights_drawn": [],
    }


def test_a_private_layer_starts_from_random_values(home):
    """Multi-target transfer: the target has its own last layers (Romanov & Shivade 2018, section
    4.1)."""
    home.train("private", INIT, "--config.transfer.private=True")

    assert home.result("private")["transfer"]["weights_drawn"] == [
        "params/layer_1/bias",
        "params/layer_1/kernel",
        "params/logits/bias",
        "params/logits/kernel",
    ]


NAMES = "D1\tasthma\tC01\t\nD2\tgout\tC01.100\t\nD3\tsepsis\tC01.200\t\nD4\tanemia\tC01.300\t\n"
OWN = "\t".join(mesh.HEADER) + "\n" + NAMES
TERMS = ("--config.knowledge.ontology=own.tsv", '--config.knowledge.types=("",)')
CONCEPTS = (*TERMS, "--config.vectors.retrofit=concepts")
LINKED = (*TERMS, "--config.model.knowledge=bias", "--config.knowledge.graph=mentioned")


@cases(
    "model, flags",
    {
        "vectors of words": ("infersent", ()),
        "vectors of concepts": ("bow", CONCEPTS),
        "retrofitted": ("bow", ("--config.vectors.retrofit=lexicon.txt",)),
        "graph of training": ("esim", LINKED),
    },
)
def test_direct_transfer_scores_a_corpus_as_the_run_predicts_its_pairs(home, model, flags):
    """Words that the run does not know have vectors here and none in prediction. No training pairs
    are needed."""
    (home.folder / "own.tsv").write_text(OWN)
    lexicon = "asthma gout stroke sepsis anemia\npatient has may lacks sepsis\n"
    (home.folder / "lexicon.txt").write_text(lexicon)
    shutil.rmtree("test-alone", ignore_errors=True)
    write_own_pairs(home.folder / "test-alone", THERE, [("test", SIZES["test"])])
    home.train("run", *flags, "--force", model=model)

    elsewhere = ("--run=run", f"--config={model}:file", "--config.data.dir=test-alone")
    scores = printed_json("evaluate", *elsewhere)

    assert scores["trained_on"] == "file"
    assert scores["examples"] == SIZES["test"]
    run = load_run(home.folder / "run")
    data = run.config.copy_and_resolve_references().data
    data.dir = "test-alone"
    corpus = run.on_corpus(data)
    _, logits = corpus.score("test")
    p_NC = jax.nn.softmax(logits).mean(axis=0)
    pairs = [own_pair("test", number, THERE) for number in range(SIZES["test"])]
    gold = [LABELS.index(label) for label, *_ in pairs]
    accuracy = (logits.argmax(axis=-1) == gold).mean(axis=1)
    assert scores["accuracy"]["per_seed"] == pytest.approx(accuracy.tolist())
    assert corpus.prepared.manifest["unknown_tokens"] == {"premise": 0, "hypothesis": 0}
    known_pairs = 0
    for p_C, (_, *pair) in zip(p_NC, pairs, strict=True):
        predicted = run.predict([pair])
        (row,) = predicted
        is_known = not sum(predicted.unknown_words.values())
        known_pairs += is_known
        assert np.allclose([row[label] for label in LABELS], p_C, atol=2e-6) == is_known
    assert 0 < known_pairs < len(pairs)


@cases(
    "model, flags",
    {
        "graph of training": ("esim", LINKED),
        "pieces of training": ("encoder", ("--config.vectors.path=", "--config.model.layers=1")),
    },
)
def test_a_run_is_scored_on_its_own_test_split_without_the_files_of_training(
    home, model, flags, tmp_path, monkeypatch
):
    write_own_pairs(tmp_path, HERE)
    (home.folder / "own.tsv").write_text(OWN)
    home.train("run", *flags, f"--config.data.dir={tmp_path}", "--force", model=model)
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    (tmp_path / "train.jsonl").unlink()

    loss = printed_json("evaluate", "--run=run")["loss"]["per_seed"]

    assert loss == pytest.approx(home.result("run")["test"]["loss"]["per_seed"], rel=1e-5)
    write_own_pairs(tmp_path, THERE, [("test", 9)])
    assert "changed since the run began: test.jsonl" in refused(evaluate, "--run=run")


def test_a_run_with_random_vectors_needs_the_files_of_training_and_names_them(
    home, tmp_path, monkeypatch
):
    write_own_pairs(tmp_path, HERE)
    folder = f"--config.data.dir={tmp_path}"
    home.train("run", folder, "--config.vectors.path=", "--force", model="bow")
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    (tmp_path / "train.jsonl").unlink()
    assert "no file called train" in refused(evaluate, "--run=run")


def test_a_word_without_a_vector_is_the_unknown_word_of_the_run(home):
    """A row of its own would be a mean of this corpus's vectors, but the weights know that of the
    source."""
    write_own_pairs(home.folder / "odd", (*THERE, "blorf"), SIZES.items())
    run = load_run(home.folder / "source")
    data = run.config.copy_and_resolve_references().data
    data.dir = "odd"

    prepared = run.on_corpus(data).prepared

    assert prepared.manifest["unknown_tokens"]["hypothesis"] > 0
    assert_equal(prepared.vectors[1], run.vectors[1])
    assert (prepared.vectors[2:] != run.vectors[1]).any(axis=1).all()


def test_sequential_transfer_keeps_the_vector_of_unknown_words_and_those_of_shared_words(home):
    """The weights were trained on them."""
    write_own_pairs(home.folder / "unlike", (*THERE, "blorf"), SIZES.items())
    home.train("target", INIT, *UNTRAINED, "--config.data.dir=unlike")

    source, target = (load_run(home.folder / name) for name in ("source", "target"))
    assert_equal(target.vectors[1], source.vectors[1])
    pair = ("blorf in test 0 .", "patient has blorf")
    assert target.predict([pair])[0] == pytest.approx(source.predict([pair])[0], abs=2e-6)
    losses = printed_json("evaluate", "--run=target", "--split=test")["loss"]["per_seed"]
    assert losses == pytest.approx(home.result("target")["test"]["loss"]["per_seed"], rel=1e-6)


def test_a_run_of_direct_transfer_is_complete_and_keeps_no_weights(home):
    elsewhere = ("--run=source", "--config=infersent:file", "--config.data.dir=there")
    out, _ = succeeds("evaluate", *elsewhere, "--workdir=direct")

    assert out.startswith("infersent on file, test, seeds 0, 1")
    result = home.result("direct")
    source = home.result("source")
    assert result["status"] == "complete"
    assert result["transfer"] == {"source": "source", "corpus": "file", "mode": "direct"}
    assert result["seeds"] == source["seeds"]
    assert result["best_epoch"] == source["best_epoch"]
    assert result["dev"]["examples"] == SIZES["dev"]
    assert result["test"]["examples"] == SIZES["test"]
    assert read_json("direct", "config.json")["data"]["dir"] == "there"
    succeeds("report direct")
    assert (home.folder / "direct" / "report.html").read_text().startswith("<!DOCTYPE html>")
    for command in (evaluate, predict):
        message = refused(command, "--run=direct")
        assert "/direct: a run of direct transfer has no weights" in message


@cases(
    "flags, seeds, message",
    {
        "other vectors": (
            (INIT, "--config.vectors.path=w.txt"),
            "0,1",
            "source: has other word vectors than this config",
        ),
        "unknown words otherwise": (
            (INIT, "--config.data.dir=there", "--config.vectors.unknown=random"),
            "0,1",
            "source: looks up words in another way (config.vectors.unknown)",
        ),
        "a missing seed": ((INIT,), "0,4", "the source run has no seed 4"),
        "no such run": (
            ("--config.transfer.init_from=sourc",),
            "0,1",
            "sourc: not a run directory",
        ),
    },
)
def test_a_source_that_does_not_fit_is_refused_and_leaves_no_run(home, flags, seeds, message):
    *_, error = refused("train", *home.flags("refused", *flags, seeds=seeds)).splitlines()

    assert message in error  # after the folder of the source
    assert " Fix: " in error
    assert not (home.folder / "refused").exists()
