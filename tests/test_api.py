"""The package as a Python library, and plugged-in models."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import ROOT, call_command, use_one_device
from support.pair_files import write_own_pairs

import mednli_jax
from mednli_jax import analyze, evaluate, predict, prepare, train
from mednli_jax.errors import ConfigError, RunError
from mednli_jax.models import table
from mednli_jax.plugins import PLUGINS

NAME = "plugin_model:MeanVectors"
FLAGS = (
    "--config.train.epochs=1",
    "--config.vectors.dim=8",
    "--config.data.limit=30",
    "--config.model.hidden_size=4",
)


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path, tmp_path_factory):
    cache = tmp_path_factory.getbasetemp() / "cache-api"
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(cache))
    monkeypatch.syspath_prepend(ROOT / "tests" / "support" / "plugins")
    monkeypatch.chdir(tmp_path)
    use_one_device(monkeypatch)


def small():
    config = mednli_jax.get_config("bow:file")
    config.train.epochs, config.vectors.dim, config.data.limit, config.model.hidden_size = (
        1,
        8,
        30,
        4,
    )
    config.data.dir = "own"
    return config


def test_the_package_is_light_until_it_is_used():
    code = "import sys, mednli_jax, mednli_jax.train; assert 'jax' not in sys.modules; mednli_jax.train_model"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    with pytest.raises(AttributeError):
        mednli_jax.nonsense  # noqa: B018


def test_a_run_from_python_is_a_run_of_the_command(tmp_path):
    handler = signal.getsignal(signal.SIGINT)
    write_own_pairs(tmp_path / "own")
    run = mednli_jax.train_model(small(), "runs/python")
    assert signal.getsignal(signal.SIGINT) is handler
    flags = (f"--config={ROOT}/configs/bow.py:file", "--config.data.dir=own", *FLAGS)
    assert call_command(train, *flags, "--workdir=runs/shell")[0] == 0
    other = mednli_jax.load_run("runs/shell")
    assert run.scores == other.scores
    assert run.scores["test"].keys() >= {"accuracy", "loss"}
    assert run.report.is_file()
    assert run.predict([("No CHF.", "CHF.")]) == other.predict(
        [{"premise": "No CHF.", "hypothesis": "CHF."}]
    )
    assert sum(run.predict([("No qqq.", "CHF.")]).unknown_words.values()) > 0
    alone = run.predict(("No CHF.", "CHF."))
    assert (
        alone
        == run.predict([("No CHF.", "CHF.")])[0]
        == run.predict({"premise": "No CHF.", "hypothesis": "CHF."})
    )
    assert alone["label"] == max(list(alone)[1:], key=alone.get)
    assert run.evaluate() == run.result["test"] == mednli_jax.evaluate_run("runs/python")
    assert f"{run.scores['test']['accuracy']:.4f}" in run._repr_html_()
    with pytest.raises(RunError, match=r"resume=True.*force=True.* workdir"):  # the folder is taken
        mednli_jax.train_model(small(), "runs/python")


def test_errors_name_fields_as_their_interface_writes_them():
    config = small()
    config.train.epochs = 0
    with pytest.raises(ConfigError, match=r"^config\.train\.epochs: is 0\. Fix: "):
        mednli_jax.train_model(config, "runs/none")
    config = small()
    config.data.dir = "absent"
    with pytest.raises(ConfigError, match=r"absent: config\.data\.dir names .* config\.data\.dir"):
        mednli_jax.train_model(config, "runs/none")
    flags = (f"--config={ROOT}/configs/bow.py:file", "--workdir=runs/none")
    _, _, err = call_command(train, *flags, "--config.data.dir=own", "--config.train.epochs=0")
    assert "error: --config.train.epochs: is 0. Fix: " in err
    _, _, err = call_command(train, *flags, "--config.data.dir=absent")
    assert "absent: --config.data.dir names " in err


# -- models that are plugged in ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["plugin_model:Absent", "plugin_model:no_model", "plugin_modell:X", "os:system"]
)
def test_what_is_no_model_is_refused(name, monkeypatch):
    monkeypatch.setenv(PLUGINS, "plugin_model,plugin_modell")
    with pytest.raises(ConfigError, match=r"^--config\.model\.name: "):
        table.entry(name)


@pytest.mark.parametrize(
    ("field", "place", "reason"),
    [
        ("data.name=plugin_corpus:broken", "plugin_corpus.py:", "KeyError: 'verdict'"),
        (
            "data.name=plugin_corpus:nothing",
            "plugin_corpus:nothing: ",
            "no rows of train or of dev",
        ),
        (
            "data.name=plugin_corpus:unlabelled",
            "plugin_corpus:unlabelled, test:1: ",
            "three texts (9 times",
        ),
        (
            "data.name=plugin_corpus:raed",
            "plugin_corpus:raed",
            "Fix: check the name after the colon.",
        ),
        ("data.name=plugin_syntax:read", "plugin_syntax.py:1: ", "correct this module"),
        ("model.name=plugin_model:Broken", "plugin_model.py:", "TypeError: "),
        ("model.name=plugin_model:Narrow", "--config.model.name: ", "of 3 classes, not 2"),
    ],
)
def test_an_error_of_ones_own_code_is_shown_with_its_place(monkeypatch, field, place, reason):
    monkeypatch.setenv(PLUGINS, "plugin_corpus,plugin_model,plugin_syntax")
    Path("plugin_syntax.py").write_text("def read(folder) return folder\n")
    monkeypatch.syspath_prepend(".")
    flags = (
        f"--config={ROOT}/configs/bow.py:file",
        "--config.data.name=plugin_corpus:read",
        *FLAGS,
        "--workdir=run",
    )
    code, _, err = call_command(train, *flags, f"--config.{field}")
    last = err.splitlines()[-1]
    assert (code, last.startswith("error: "), place in last, reason in last) == (
        2,
        True,
        True,
        True,
    ), err
    ours = place == "--config.model.name: "  # a message of this package, which quotes nothing
    assert (
        ours or not Path("run/log.txt").is_file() or reason not in Path("run/log.txt").read_text()
    )


def test_a_corpus_a_task_and_a_model_of_ones_own_are_trained_evaluated_and_asked(monkeypatch):
    """A plugin is imported only while it is allowed."""
    own = (
        "--config.data.name=plugin_corpus:read",
        "--config.task=plugin_corpus:TASK",
        f"--config.model.name={NAME}",
    )
    flags = (f"--config={ROOT}/configs/esim.py:file", *own, *FLAGS, "--workdir=run")
    code, _, err = call_command(train, *flags)
    assert (code, len(err.splitlines()), "MEDNLI_JAX_PLUGINS=plugin_corpus" in err) == (2, 1, True)
    monkeypatch.setenv(PLUGINS, "another,plugin_corpus,plugin_model")
    code, _, err = call_command(train, *flags)
    assert code == 0, err
    code, out, err = call_command(evaluate, "--run=run", "--json")
    assert (code, json.loads(out)["examples"]) == (0, 9), err
    code, out, err = call_command(prepare, *flags[:-1])
    assert (code, out.startswith("found"), "train: 30 pairs" in out) == (0, True, True), err
    code, out, err = call_command(predict, "--run=run", stdin="No CHF.\tCHF.\n")
    assert (code, out in ("yes\n", "no\n")) == (0, True), err
    monkeypatch.setenv(PLUGINS, "plugin_corpus")
    code, _, err = call_command(predict, "--run=run", stdin="No CHF.\tCHF.\n")
    assert (code, len(err.splitlines()), "plugin_model" in err) == (2, 1, True)


def test_splits_of_a_function_are_ordered_whatever_order_it_returns(monkeypatch):
    """Rows of train are the first of all arrays, and analyses of the training pairs read them."""
    monkeypatch.setenv(PLUGINS, "plugin_corpus")
    figures, firsts = [], []
    for name in ("uneven", "backwards"):
        flags = (
            f"--config={ROOT}/configs/bow.py:file",
            f"--config.data.name=plugin_corpus:{name}",
            *FLAGS[:2],
        )
        code, out, err = call_command(prepare, *flags)
        assert code == 0, err
        manifest = json.loads(
            (Path(out.splitlines()[0].rpartition(": ")[2]) / "manifest.json").read_text()
        )
        firsts.append({split: facts["first"] for split, facts in manifest["splits"].items()})
        code, out, err = call_command(
            analyze, "lengths", *flags, "--lengths=train", "--json", words=1
        )
        assert code == 0, err
        figures.append({**json.loads(out), "corpus": ""})
    assert firsts == [{"train": 0, "dev": 30, "test": 35}] * 2
    assert figures[0] == figures[1]
