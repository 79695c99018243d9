"""The TASKs of docs/extending.md and of the files beside it, which derive from nothing of the
package, go through every command."""

import contextlib
import importlib
import re
import shutil
import sys

import pytest
from support.commands import (
    ROOT,
    at,
    call_command,
    printed_json,
    read_json,
    refused,
    run_python,
    succeeds,
)

from mednli_jax import analyze, evaluate, predict, prepare
from mednli_jax.errors import PLUGINS
from mednli_jax.report import __main__ as report

MODULES = ("similar", "similar_config", "similar_more")
WORDS = ("fever", "cough", "pain", "rash", "gout", "stroke")
LABELS = ("negated", "affirmed", "possible", "family")
PAIR = "pt has fever .\tfever is noted\n"
CORPUS = ("--config=similar_config.py", "--config.data.dir=own")
MORE_CORPUS = ("--config=more_config.py", "--config.data.dir=own")
SMALL = ("--config.train.epochs=3", "--config.seeds=0,1")


def modules():
    """{name of a module: its code in the documentation}."""
    page = (ROOT / "docs" / "extending.md").read_text()
    code = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", page, re.S))
    for name in ("similar", "similar_more"):
        code[name] = (ROOT / "docs" / f"{name}.py").read_text()
    return {name: code[name] for name in MODULES}


def write_home(folder):
    """Writes the modules, and own/ with pairs that share a word or not."""
    code = modules()
    more = code["similar_config"].replace("from similar import", "from similar_more import")
    for name, text in {**code, "more_config": more}.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "own").mkdir()
    for split, size in (
        ("train", 48),
        ("dev", 12),
        ("test", 12),
    ):
        lines = ""
        for number in range(size):
            is_other = number % 2
            first = WORDS[number % 6]
            second = WORDS[(number + is_other) % 6]
            label = "other" if is_other else "same"
            lines += f"pt has {first} .\t{second} is noted\t{label}\n"
        (folder / "own" / f"{split}.tsv").write_text(lines)


@contextlib.contextmanager
def working_in(folder):
    """Commands of this process run in the folder and import its modules."""
    with at(folder) as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv(PLUGINS, "similar,similar_more")
        importlib.invalidate_caches()
        yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def home(tmp_path):
    write_home(tmp_path)
    with working_in(tmp_path):
        yield


def result_of(folder):
    result = read_json(folder, "result.json")
    return {name: result[name] for name in ("dev", "test", "best_epoch", "epochs", "status")}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of the task."""
    folder = tmp_path_factory.mktemp("trained")
    write_home(folder)
    with working_in(folder):
        succeeds("train", *CORPUS, *SMALL, "--workdir=runs/a")
    return folder / "runs" / "a"


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the run, runs/a."""
    return shutil.copytree(trained, tmp_path / "runs" / "a")


def test_a_task_of_ones_own_is_prepared_and_evaluated(run):
    assert "train: 48 pairs" in succeeds("prepare", *CORPUS)[0]
    scores = printed_json("evaluate --run=runs/a")
    assert scores["accuracy"] == result_of(run)["test"]["accuracy"]
    assert "12 examples" in succeeds("evaluate --run=runs/a --split=dev")[0]


def test_a_task_of_ones_own_predicts_and_is_reported(run, tmp_path):
    out, err = succeeds("predict --run=runs/a", stdin=PAIR)
    header, row = out.splitlines()
    assert header.split("\t") == ["same", "other"]
    assert sum(map(float, row.split("\t"))) == pytest.approx(1, abs=1e-5)
    assert "1 pairs" in err

    succeeds("predict --run=runs/a --output=new.jsonl", stdin=PAIR)
    assert read_json(tmp_path, "new.jsonl").keys() == {"same", "other"}
    succeeds("report runs/a")
    assert "Scores, test" in (run / "report.html").read_text()
    succeeds("report runs/a --public")


def test_a_task_of_ones_own_resumes_to_the_same_result(run, tmp_path, monkeypatch):
    scorer = importlib.import_module("similar").SimilarScorer
    score = scorer.score
    calls = []

    def interrupted(self, rows, logits):
        calls.append(rows)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return score(self, rows, logits)

    flags = (*CORPUS, *SMALL, "--workdir=runs/cut")
    with monkeypatch.context() as patch:
        patch.setattr(scorer, "score", interrupted)
        assert call_command("train", *flags).code == 3

    succeeds("train", *flags, "--resume")
    assert result_of(tmp_path / "runs" / "cut") == result_of(run)


def test_what_a_task_lacks_is_refused_in_one_line(run):
    for command, *flags in (
        (evaluate, "--run=runs/a", "--merged"),
        (evaluate, "--run=runs/a", "--probe=own/test.tsv"),
        (predict, "--run=runs/a", "--attention"),
        (report, "runs/a", "runs/a", "--compare"),
        (report, "runs/a", "--categories"),
        (report, "--table=similar", "--runs=runs"),
        (analyze, "overlap", *CORPUS),
        (prepare, *CORPUS, "--metamap=out"),
    ):
        last = refused(command, *flags, stdin=PAIR).splitlines()[-1]
        assert last.startswith("error: "), (command, flags)
        assert "Fix: " in last, (command, flags)


def test_an_object_that_is_no_task_is_refused(tmp_path):
    (tmp_path / "similar_more.py").write_text("class Half:\n    name = 'half'\n\nTASK = Half()\n")

    err = refused("prepare", *CORPUS, "--config.task=similar_more:TASK")
    assert "config.task" in err
    assert "accepts" in err
    assert "Traceback" not in err


def test_a_number_as_a_cell_is_a_fault_of_the_plugin(tmp_path):
    path = tmp_path / "similar_more.py"
    path.write_text(path.read_text().replace("points(mean)", "round(mean)"))

    err = refused("analyze overlap", *MORE_CORPUS)

    assert "similar_more.py:" in err
    assert "a cell of a Grid is a string, not int" in err


def test_analyses_of_ones_own_task_are_reached(tmp_path):
    overlap = printed_json("analyze overlap", *MORE_CORPUS)
    assert overlap["shared"] == {"same": pytest.approx(0.25), "other": 0.0}

    out, _ = succeeds("analyze all", *MORE_CORPUS, "--out=figures")
    assert "Shared words" in out
    assert (tmp_path / "figures" / "overlap.json").is_file()


def test_tables_and_flags_of_ones_own_task_are_reached(tmp_path):
    succeeds("train", *MORE_CORPUS, *SMALL, "--workdir=runs/a")

    assert "skills: own/x" in succeeds("evaluate --run=runs/a --skills=own/x")[0]
    refused("evaluate --run=runs/a --vectors=own/x")
    table = printed_json("report --table=similar --runs=runs")
    assert table == {"a": result_of(tmp_path / "runs" / "a")["test"]["accuracy"]["mean"]}


SENTENCES = """
from plugin_sentences import TASK

def get_config():
    return TASK.base("plugin_sentences:MeanWords")
"""


def test_the_task_of_rows_of_one_text_trains_and_predicts(tmp_path, monkeypatch):
    """docs/plugin_sentences.py, on sentences whose label is their last word."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    monkeypatch.setenv(PLUGINS, "plugin_sentences")
    (tmp_path / "sentences.py").write_text(SENTENCES)
    rows = "".join(f"{n},fever is {LABELS[n % 4]},{LABELS[n % 4]}\n" for n in range(24))
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.csv").write_text(f"id,text,label\n{rows}")

    succeeds("train --config=sentences.py --config.data.dir=.", *SMALL, "--workdir=run")

    out, _ = succeeds("predict --run=run", stdin="fever is family\n")
    header, probabilities = (line.split("\t") for line in out.splitlines())
    assert tuple(header) == LABELS
    assert sum(map(float, probabilities)) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_mypy_holds_a_task_to_its_protocol(tmp_path):
    """It accepts the TASKs of the package and of the documentation, and refuses one whose method
    takes other things."""
    pytest.importorskip("mypy")
    imports = "import similar\nfrom mednli_jax.tasks import Task\n"
    (tmp_path / "held.py").write_text(f"{imports}\n_: Task = similar.TASK\n")

    def check():
        settings = f"--config-file={ROOT / 'pyproject.toml'}"
        files = (ROOT / "mednli_jax" / "tasks.py", "held.py")
        return run_python("-m", "mypy", settings, *files, cwd=tmp_path)

    accepted = check()
    assert accepted.returncode == 0, accepted.stdout

    module = tmp_path / "similar.py"
    method = "def scorer(self, config)"
    module.write_text(module.read_text().replace(method, "def scorer(self, config, more)"))
    assert "scorer" in check().stdout
