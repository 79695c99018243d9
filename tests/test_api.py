"""The package as a Python library, and the user's own corpora and models."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock, call

import pytest
from support.cases import cases
from support.commands import (
    ROOT,
    call_command,
    config_flag,
    printed_json,
    read_json,
    refused,
    succeeds,
    use_one_device,
)
from support.documented import modules
from support.pair_files import write_own_pairs
from support.protocols import results
from support.tables import table_rows

import mednli_jax
from mednli_jax import analyze, api, evaluate, predict, prepare, train
from mednli_jax.errors import ConfigError
from mednli_jax.models import table
from mednli_jax.plugins import PLUGINS

NAME = "mymodel:MeanWords"
FIELDS = {"train.epochs": 1, "vectors.dim": 8, "data.limit": 30, "model.hidden_size": 4}
FLAGS = [f"--config.{field}={value}" for field, value in FIELDS.items()]
BOW = (config_flag("bow", "file"), *FLAGS)


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path, tmp_path_factory):
    """The working folder, and the folder of the plug-ins."""
    cache = tmp_path_factory.getbasetemp() / "cache-api"
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(cache))
    monkeypatch.syspath_prepend(ROOT / "tests" / "support" / "plugins")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("mymodel.py").write_text(modules("docs/extending.md")["mymodel"])
    use_one_device(monkeypatch)


def small(**section):
    config = mednli_jax.get_config("bow:file")
    config.update_from_flattened_dict({**FIELDS, "data.dir": "own"})
    config.update(section)
    return config


def test_the_package_is_light_until_it_is_used():
    code = "import sys, mednli_jax, mednli_jax.train; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", f"{code}; mednli_jax.train_model"], cwd=ROOT, check=True)
    with pytest.raises(AttributeError):
        mednli_jax.nonsense  # noqa: B018


def spoil(row):
    row["seeds"].clear()
    row.clear()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """(a run trained from Python, whose callback changes its rows; the same run trained by the
    command, opened by a relative path from another folder than that of the tests)."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDNLI_JAX_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        use_one_device(patch)
        write_own_pairs(folder / "own")
        handler = signal.getsignal(signal.SIGINT)
        config = small(data={"dir": str(folder / "own")})
        ours = mednli_jax.train_model(config, folder / "python", on_epoch=spoil)
        assert signal.getsignal(signal.SIGINT) is handler
        succeeds(train, *BOW, f"--config.data.dir={folder}/own", f"--workdir={folder}/shell")
        yield ours, mednli_jax.load_run("shell")


def test_import_star_gives_the_interface():
    names = {}
    exec("from mednli_jax import *", names)

    assert names.keys() >= {"Run", "get_config", "load_run", "pair_batch", "train_model"}


def test_a_model_learns_in_the_loop_of_the_page():
    names = {}
    exec(modules("docs/extending.md")["own_loop"], names)

    loss, before = names["loss"], names["variables"]["params"]
    assert names["batch"].premise.shape == (3, 6)
    assert loss(names["params"]) < loss(before)


@cases(
    "tracker, logging",
    {
        "wandb": ("wandb", "log"),
        "mlflow": ("mlflow", "log_metrics"),
    },
)
def test_trackers_get_every_epoch_as_the_page_shows(tracker, logging, monkeypatch, tmp_path):
    """The code of docs/training.md runs with a stub of the tracker and a small corpus."""
    page = (ROOT / "docs" / "training.md").read_text()
    code = next(
        block for block in re.findall(r"```python\n(.*?)```", page, re.S) if tracker in block
    )
    write_own_pairs(tmp_path / "own")
    stub, train_model = MagicMock(), api.train_model
    monkeypatch.setitem(sys.modules, tracker, stub)
    config = small(train={"epochs": 2}, seeds=(3, 5))
    monkeypatch.setattr(
        api,
        "train_model",
        lambda _, folder, on_epoch: train_model(config, folder, on_epoch=on_epoch),
    )

    exec(code, {})

    rows = map(json.loads, Path("runs/kd/metrics.jsonl").read_text().splitlines())
    expected = []
    for row in rows:
        accuracies = zip((3, 5), row["dev_accuracy"], strict=True)
        values = {f"dev_accuracy/{seed}": accuracy for seed, accuracy in accuracies}
        expected.append(call(values, row["epoch"]))
    assert len(expected) == 2
    assert getattr(stub, logging).mock_calls == expected


PAIR = ("No CHF.", "CHF.")
FIELDS_OF_PAIR = {"premise": "No CHF.", "hypothesis": "CHF."}


def test_two_runs_of_one_config_are_equal_bit_for_bit_from_python_and_by_the_command(runs):
    ours, of_command = runs

    assert "batches of 64 (30 rows in even, whole groups)" in (ours.folder / "log.txt").read_text()
    expected = results(of_command.folder)
    expected.result["config"] = "bow"  # the command names the corpus, too
    assert results(ours.folder) == expected
    assert ours.scores["test"].keys() >= {"accuracy", "loss"}


def test_a_pair_is_given_as_a_tuple_or_by_its_fields_alone_or_in_a_list(runs):
    run, _ = runs
    prediction = run.predict(PAIR)

    assert [prediction] == run.predict([PAIR]) == run.predict([FIELDS_OF_PAIR])
    assert prediction == run.predict(FIELDS_OF_PAIR)
    label, *classes = prediction
    assert prediction[label] == max(classes, key=prediction.get)


def test_a_run_from_python_is_scored_and_shown(runs):
    run, _ = runs

    assert run.evaluate() == run.result["test"] == mednli_jax.evaluate_run(run.folder)
    assert run.report.is_file()
    assert f"{run.scores['test']['accuracy']:.4f}" in run._repr_html_()


def test_errors_name_fields():
    with pytest.raises(ConfigError, match=r"^config\.train\.epochs: is 0\. Fix: "):
        mednli_jax.train_model(small(train={"epochs": 0}), "run")
    with pytest.raises(ConfigError, match=r"absent: config\.data\.dir names .* config\.data\.dir"):
        mednli_jax.train_model(small(data={"dir": "absent"}), "run")
    places = {
        "vectors.path": "absent.txt: there is no such file",
        "transfer.init_from": ".*absent.txt: not a run directory",
    }
    for field, problem in places.items():
        config = small(data={"name": "demo"})
        config.update_from_flattened_dict({field: "absent.txt"})
        with pytest.raises(ConfigError, match=rf"^config\.{field}: {problem}"):
            mednli_jax.train_model(config, "run")
    encoder = mednli_jax.get_config("encoder:demo")
    encoder.model.weights = "absent"
    with pytest.raises(ConfigError, match=r"^config\.model\.weights: absent: no such folder"):
        mednli_jax.train_model(encoder, "run")
    epochs = refused(train, *BOW, "--workdir=run", "--config.train.epochs=0")
    assert epochs.startswith("error: config.train.epochs: is 0. Fix: ")


# ---- models and corpora that are plugged in ----


@pytest.mark.parametrize(
    "name", ["plugin_model:Absent", "plugin_model:no_model", "plugin_modell:X", "os:system"]
)
def test_a_name_of_no_model_is_refused(name, monkeypatch):
    monkeypatch.setenv(PLUGINS, "plugin_model,plugin_modell")
    with pytest.raises(ConfigError, match=r"^config\.model\.name: "):
        table.entry(name)


@pytest.mark.parametrize(
    "field, place, reason",
    table_rows("""
        data.name=plugin_corpus:broken | plugin_corpus.py: | KeyError: 'verdict'
        data.name=plugin_corpus:nothing | plugin_corpus:nothing: | no rows of train or of dev
        data.name=plugin_corpus:unlabelled | plugin_corpus:unlabelled, test:1: | texts (9 times
        data.name=plugin_corpus:raed | plugin_corpus:raed | check the name after the colon.
        data.name=plugin_syntax:read | plugin_syntax.py:1: | correct this module
        model.name=plugin_model:Broken | plugin_model.py: | TypeError:
        model.name=plugin_model:Narrow | config.model.name: | of 3 classes, not 2
    """),
)
def test_an_error_of_ones_own_code_is_shown_with_its_place(monkeypatch, field, place, reason):
    monkeypatch.setenv(PLUGINS, "plugin_corpus,plugin_model,plugin_syntax")
    Path("plugin_syntax.py").write_text("def read(folder) return folder\n")
    flags = (*BOW, "--config.data.name=plugin_corpus:read", "--workdir=run", f"--config.{field}")

    code, _, err = call_command(train, *flags)
    last = err.splitlines()[-1]
    assert (code, last.startswith("error: ")) == (2, True), err
    assert place in last
    assert reason in last


def test_the_log_of_a_run_does_not_quote_an_error_of_ones_own_code(monkeypatch):
    monkeypatch.setenv(PLUGINS, "plugin_corpus,plugin_model")
    flags = ("--config.data.name=plugin_corpus:read", "--config.model.name=plugin_model:Broken")

    assert "TypeError: " in call_command(train, *BOW, *flags, "--workdir=run").err
    assert "TypeError: " not in Path("run/log.txt").read_text()


OWN = (
    config_flag("esim", "file"),
    *FLAGS,
    "--config.data.name=plugin_corpus:read",
    f"--config.model.name={NAME}",
)


def test_a_corpus_and_a_model_of_ones_own_are_trained_evaluated_and_asked(monkeypatch):
    monkeypatch.setenv(PLUGINS, "another,plugin_corpus,mymodel")
    succeeds(train, *OWN, "--workdir=run")

    assert read_json("run/result.json")["config"] == "MeanWords-file"
    assert printed_json(evaluate, "--run=run")["examples"] == 9
    prepared, _ = succeeds(prepare, *OWN)
    assert prepared.startswith("found")
    assert "train: 30 pairs" in prepared
    header, row = succeeds(predict, "--run=run", stdin="No CHF.\tCHF.\n")[0].splitlines()
    label, *probabilities = row.split("\t")
    assert header.split("\t") == ["label", "entailment", "neutral", "contradiction"]
    assert label in header
    assert sum(map(float, probabilities)) == pytest.approx(1, abs=1e-5)

    monkeypatch.setenv(PLUGINS, "plugin_corpus")
    err = refused(predict, "--run=run", stdin="No CHF.\tCHF.\n")
    assert (len(err.splitlines()), "mymodel" in err) == (1, True)


def test_a_seed_that_diverged_is_named_at_the_end_and_in_the_result(monkeypatch):
    monkeypatch.setenv(PLUGINS, "plugin_corpus,plugin_model")
    model = ("--config.model.name=plugin_model:Divergent", "--config.seeds=0,1,2,3")

    _, err = succeeds(train, *OWN, *model, "--workdir=run")

    result = read_json("run/result.json")
    diverged = [seed for seed in range(4) if result["best_epoch"][seed] == 0]
    assert 0 < len(diverged) < 4
    notes = [note for note in result["notes"] if "diverged" in note]
    assert [note.partition(" diverged")[0] for note in notes] == [f"seed {n}" for n in diverged]
    for note in notes:
        assert f"warning: {note}" in err


def test_code_of_ones_own_is_imported_only_where_it_is_allowed():
    err = refused(train, *OWN, "--workdir=run")
    assert (len(err.splitlines()), "MEDNLI_JAX_PLUGINS=mymodel" in err) == (1, True)


def test_splits_of_a_function_are_ordered_whatever_order_it_returns(monkeypatch):
    """Rows of train are the first of all arrays, and analyses of the training pairs read them."""
    monkeypatch.setenv(PLUGINS, "plugin_corpus")
    figures = []
    for name in ("uneven", "backwards"):
        flags = (*BOW[:3], f"--config.data.name=plugin_corpus:{name}")
        folder = succeeds(prepare, *flags)[0].splitlines()[0].rpartition(": ")[2]
        manifest = read_json(folder, "manifest.json")
        first = {split: facts["first"] for split, facts in manifest["splits"].items()}
        assert first == {"train": 0, "dev": 30, "test": 35}

        lengths = printed_json(analyze, "lengths", *flags, "--lengths=train")
        figures.append({**lengths, "corpus": ""})
    assert figures[0] == figures[1]
