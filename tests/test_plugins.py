"""The TASKs of docs/plugins.md, and one on single sentences, go through every command. They derive
from nothing of the package."""

import importlib
import json
import re
import shutil
import subprocess
import sys

import pytest
from support.commands import ROOT, call_command, use_one_device

from mednli_jax import analyze, evaluate, load_run, predict, prepare, train
from mednli_jax.errors import PLUGINS, SHOW_ALL, DataError
from mednli_jax.report import __main__ as report

MODULES = ("similar", "similar_config", "similar_more")
WORDS = ("fever", "cough", "pain", "rash", "gout", "stroke")
SINGLE = "plugin_sentences"
PLUGIN_FOLDER = ROOT / "tests" / "support" / "plugins"
PHRASE_OF = {
    "negated": "denies {}",
    "affirmed": "presents with {}",
    "possible": "possible {}",
    "family": "mother had {}",
}
SMALL = ("--config.train.epochs=3", "--config.seeds=0,1")


@pytest.fixture(scope="module")
def blocks():
    """{name of a module: its code in the documentation}."""
    code = re.findall(
        r"```python\n# (\w+)\.py\n(.*?)```", (ROOT / "docs" / "plugins.md").read_text(), re.S
    )
    return {name: text for name, text in code if name in MODULES}


@pytest.fixture(autouse=True)
def home(blocks, tmp_path, monkeypatch):
    for name, text in blocks.items():
        (tmp_path / f"{name}.py").write_text(text)
    more = blocks["similar_config"].replace("from similar import", "from similar_more import")
    (tmp_path / "more_config.py").write_text(more)
    for split, size in (("train", 48), ("dev", 12), ("test", 12)):
        lines = []
        for number in range(size):
            first, second = WORDS[number % 6], WORDS[(number + number % 2) % 6]
            lines.append(
                f"pt has {first} .\t{second} is noted\t{'other' if number % 2 else 'same'}\n"
            )
        (tmp_path / "own").mkdir(exist_ok=True)
        (tmp_path / "own" / f"{split}.tsv").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(PLUGINS, "similar,similar_more")
    use_one_device(monkeypatch)
    importlib.invalidate_caches()
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def done(command, *flags, **how):
    """(stdout, stderr) of a command that succeeds."""
    code, out, err = call_command(command, *flags, **how)
    assert code == 0, err
    return out, err


def trained(folder, config="similar_config.py", *flags):
    return done(
        train, f"--config={config}", "--config.data.dir=own", *SMALL, f"--workdir={folder}", *flags
    )


def result_of(folder):
    result = json.loads((folder / "result.json").read_text())
    return {name: result[name] for name in ("dev", "test", "best_epoch", "epochs", "status")}


def test_a_task_of_ones_own_needs_a_config_and_a_scorer_alone(tmp_path):
    out, _ = done(prepare, "--config=similar_config.py", "--config.data.dir=own")
    assert "train: 48 pairs" in out
    trained("runs/a")
    scores = json.loads(done(evaluate, "--run=runs/a", "--json")[0])
    assert scores["accuracy"] == result_of(tmp_path / "runs" / "a")["test"]["accuracy"]
    assert "12 examples" in done(evaluate, "--run=runs/a", "--split=dev")[0]
    out, err = done(predict, "--run=runs/a", stdin="pt has fever .\tfever is noted\n")
    header, row = out.splitlines()
    assert header.split("\t") == ["same", "other"]
    assert sum(map(float, row.split("\t"))) == pytest.approx(1, abs=1e-5)
    assert "1 pairs" in err
    done(predict, "--run=runs/a", "--output=new.jsonl", stdin="pt has fever .\tfever is noted\n")
    assert json.loads((tmp_path / "new.jsonl").read_text()).keys() == {"same", "other"}
    done(report, "runs/a")
    assert "Scores, test" in (tmp_path / "runs" / "a" / "report.html").read_text()
    done(report, "runs/a", "--public")


def test_a_task_of_ones_own_resumes_to_the_same_result(tmp_path, monkeypatch):
    trained("runs/whole")
    scorer = importlib.import_module("similar").SimilarScorer
    score, calls = scorer.score, []

    def interrupted(self, rows, logits):
        calls.append(rows)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return score(self, rows, logits)

    with monkeypatch.context() as patch:
        patch.setattr(scorer, "score", interrupted)
        flags = (
            "--config=similar_config.py",
            "--config.data.dir=own",
            *SMALL,
            "--workdir=runs/cut",
        )
        assert call_command(train, *flags)[0] == 3
    trained("runs/cut", "similar_config.py", "--resume")
    assert result_of(tmp_path / "runs" / "cut") == result_of(tmp_path / "runs" / "whole")


@pytest.fixture
def single_sentences(tmp_path, monkeypatch):
    """The flags of a config for rows of one text; their files are in the folder `single`."""
    monkeypatch.syspath_prepend(str(PLUGIN_FOLDER))
    monkeypatch.setenv(PLUGINS, SINGLE)
    (tmp_path / "single").mkdir()
    for split, repeats in (("train", 4), ("dev", 1), ("test", 1)):
        lines = ["id,text,label"]
        for word in WORDS * repeats:
            for label, phrase in PHRASE_OF.items():
                lines.append(f"{split}-{len(lines)},{phrase.format(word)},{label}")
        (tmp_path / "single" / f"{split}.csv").write_text("\n".join(lines) + "\n")
    config = f"from {SINGLE} import TASK\n\n\ndef get_config():\n"
    config += f"    return TASK.base('{SINGLE}:MeanWords')\n"
    (tmp_path / "single_config.py").write_text(config)
    yield "--config=single_config.py", "--config.data.dir=single"
    sys.modules.pop(SINGLE, None)


def test_rows_of_one_text_are_prepared_trained_evaluated_and_predicted(tmp_path, single_sentences):
    out, _ = done(prepare, *single_sentences)
    assert "train: 96 sentences; longest sentence 3 tokens" in out
    done(train, *single_sentences, "--config.seeds=0,1", "--workdir=runs/a")
    assert result_of(tmp_path / "runs" / "a")["test"]["accuracy"]["mean"] == 1
    assert "24 examples" in done(evaluate, "--run=runs/a")[0]
    (tmp_path / "new.csv").write_text("id,text\n7,denies gout\n8,mother had gout\n")
    done(predict, "--run=runs/a", "--input=new.csv", "--output=new.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    assert [row.pop("id") for row in rows] == ["7", "8"]
    assert [max(row, key=row.get) for row in rows] == ["negated", "family"]
    done(report, "runs/a")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param("denies gout\npossible gout\n", 2, id="lines"),
        pytest.param("text\ndenies gout\n", 1, id="header"),
        pytest.param('{"text": "denies gout"}\n', 1, id="json"),
    ],
)
def test_new_inputs_of_one_text_are_lines_or_json(single_sentences, lines, expected):
    done(train, *single_sentences, "--config.train.epochs=1", "--workdir=runs/a")

    out, _ = done(predict, "--run=runs/a", stdin=lines)

    assert len(out.splitlines()) == 1 + expected


def test_new_inputs_of_one_text_are_strings_in_python(single_sentences):
    done(train, *single_sentences, "--config.train.epochs=1", "--workdir=runs/a")
    run = load_run("runs/a")

    predictions = run.predict(["denies gout", ("denies gout",), {"text": "denies gout"}])

    assert predictions[0] == predictions[1] == predictions[2]
    with pytest.raises(DataError, match="expected 1 field, found 2"):
        run.predict([("denies", "gout")])


def test_an_error_that_a_task_raises_names_the_line_of_its_input(tmp_path, single_sentences):
    with open(tmp_path / "single" / "dev.csv", "a") as file:
        file.write("dev-9,denies gout,absent\n")

    code, _, err = call_command(prepare, *single_sentences)

    assert (code, "error: dev.csv:26: unknown label. Fix: give one of negated" in err) == (2, True)


def test_arrays_that_lack_a_field_are_not_kept(tmp_path):
    path = tmp_path / "similar.py"
    code = path.read_text()
    path.write_text(code.replace('arrays[side], arrays[f"{side}_length"] =', "arrays[side], _ ="))
    flags = ("--config=similar_config.py", "--config.data.dir=own")

    assert call_command(prepare, *flags)[0] == 2

    path.write_text(code)
    sys.modules.pop("similar")
    importlib.invalidate_caches()
    done(prepare, *flags)


def test_a_traceback_of_ones_own_code_is_shown_where_it_is_asked_for(tmp_path, monkeypatch):
    (tmp_path / "own" / "train.tsv").unlink()
    flags = ("--config=similar_config.py", "--config.data.dir=own")
    assert "Traceback" not in call_command(prepare, *flags)[2]

    monkeypatch.setenv(SHOW_ALL, "1")

    assert "Traceback" in call_command(prepare, *flags)[2]


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (evaluate, ("--run=runs/a", "--merged")),
        (evaluate, ("--run=runs/a", "--probe=own/test.tsv")),
        (predict, ("--run=runs/a", "--attention")),
        (report, ("runs/a", "runs/a", "--compare")),
        (report, ("runs/a", "--categories")),
        (report, ("--table=similar", "--runs=runs")),
        (analyze, ("overlap", "--config=similar_config.py", "--config.data.dir=own")),
        (prepare, ("--config=similar_config.py", "--config.data.dir=own", "--metamap=out")),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_a_task_lacks_is_said_in_one_line(command, flags):
    trained("runs/a")
    code, _, err = call_command(command, *flags, stdin="pt has fever .\tfever is noted\n")
    last = err.splitlines()[-1]
    assert (code, last.startswith("error: "), "Fix: " in last) == (2, True, True), err


def test_an_object_that_is_no_task_is_refused(tmp_path):
    (tmp_path / "similar_more.py").write_text("class Half:\n    name = 'half'\n\nTASK = Half()\n")
    flags = (
        "--config=similar_config.py",
        "--config.data.dir=own",
        "--config.task=similar_more:TASK",
    )
    code, _, err = call_command(prepare, *flags)
    assert (code, "config.task" in err, "accepts" in err, "Traceback" in err) == (
        2,
        True,
        True,
        False,
    )


def test_analyses_tables_and_flags_of_ones_own_task_are_reached(tmp_path):
    of_corpus = ("--config=more_config.py", "--config.data.dir=own")
    shared = json.loads(done(analyze, "overlap", *of_corpus, "--json", words=1)[0])["shared"]
    assert shared == {"same": pytest.approx(0.25), "other": 0.0}
    err = call_command(analyze, "overlaps", *of_corpus, words=1)[2]
    assert "Fix: give one of all, overlap." in err
    out, _ = done(analyze, "all", *of_corpus, "--out=figures", words=1)
    assert "Shared words" in out
    assert (tmp_path / "figures" / "overlap.json").is_file()
    trained("runs/a", "more_config.py")
    assert "skills: own/x" in done(evaluate, "--run=runs/a", "--skills=own/x")[0]
    assert call_command(evaluate, "--run=runs/a", "--vectors=own/x")[0] == 2
    accuracy = result_of(tmp_path / "runs" / "a")["test"]["accuracy"]["mean"]
    assert json.loads(done(report, "--table=similar", "--runs=runs", "--json")[0]) == {
        "a": accuracy
    }


@pytest.mark.slow
def test_mypy_holds_a_task_to_its_protocol(tmp_path):
    """It accepts the TASKs of the package and of the documentation, and refuses one whose method
    takes other things."""
    pytest.importorskip("mypy")
    shutil.copy(PLUGIN_FOLDER / f"{SINGLE}.py", tmp_path)
    lines = ["from mednli_jax.tasks import Task", "from mednli_jax.training.task import Scorer"]
    for module, scorer in (("similar", "SimilarScorer"), (SINGLE, "SentenceScorer")):
        lines += [f"import {module}", f"{module}_task: Task = {module}.TASK"]
        lines.append(f"{module}_scorer: Scorer = {module}.{scorer}()")
    (tmp_path / "held.py").write_text("\n".join(lines) + "\n")

    def checked():
        config = f"--config-file={ROOT / 'pyproject.toml'}"
        command = [
            sys.executable,
            "-m",
            "mypy",
            config,
            str(ROOT / "mednli_jax" / "tasks.py"),
            "held.py",
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert checked().returncode == 0, checked().stdout
    code = (tmp_path / "similar.py").read_text()
    (tmp_path / "similar.py").write_text(
        code.replace("def scorer(self, config)", "def scorer(self, config, more)")
    )
    assert "scorer" in checked().stdout
