"""A command refuses bad input in one line with exit code 2, names the file or the flag, and leaves
nothing on disk."""

import importlib
import sys

import pytest
from support import runs
from support.commands import call_command, config_flag
from support.files import write_files
from support.pair_files import WORDS, assert_no_words, pair, pairs

from mednli_jax import analyze, api, evaluate, export, predict, prepare, train
from mednli_jax.errors import UsageError
from mednli_jax.knowledge.readers import mesh
from mednli_jax.report import __main__ as report

MESH = "\t".join(mesh.HEADER) + "\nD1\tquokka\tC01\t\nD2\taxolotl\tC01.100\t\n"
SPLITS = ("train", "dev", "test")
CORPORA = {
    "own.tsv": MESH,
    **{f"file/{split}.jsonl": pairs(100 * n) for n, split in enumerate(SPLITS[:2])},
    **{f"mednli/mli_{split}_v1.jsonl": pairs(100 * n) for n, split in enumerate(SPLITS)},
    **{f"snli/snli_1.0_{split}.jsonl": pairs(100 * n) for n, split in enumerate(SPLITS)},
    **{
        f"multinli/multinli_1.0_{split}.jsonl": pairs(100 * n)
        for n, split in enumerate(("train", "dev_matched"))
    },
}
TRAIN, MLI, SNLI = "file/train.jsonl", "mednli/mli_train_v1.jsonl", "snli/snli_1.0_dev.jsonl"
NO_VECTORS = "--config.vectors.path="


def own(*flags, config="bow"):
    return (prepare, config_flag(config, "file"), "--config.data.dir=file", NO_VECTORS, *flags)


def of(corpus, *flags):
    return (prepare, config_flag("bow", corpus), NO_VECTORS, *flags)


def analysis(name, *flags):
    return (
        analyze,
        name,
        "--corpus=file",
        "--config.data.dir=file",
        "--config.model.knowledge=none",
        *flags,
    )


def setting(field, value, *says):
    return (
        f"config.{field}={value}",
        of("demo", f"--config.{field}={value}"),
        {},
        f"config.{field}",
        *says,
    )


# (name, (command, flags ...), {file: its content; None takes it away}, words of the message ...)
FILES = (
    ("no file", own(), {TRAIN: None}, "train.jsonl"),
    ("a pair of train in dev", own(), {"file/dev.jsonl": pairs(0)}, "dev.jsonl", "pairID"),
    ("no folder", own("--config.data.dir=absent"), {}, "config.data.dir"),
    ("a test file of another name", own(), {"file/tset.tsv": "quokka"}, "tset.tsv", "mean test.tsv?"),
    ("a train file of another name", own(), {TRAIN: None, "file/trian.csv": "quokka"}, "but trian.csv is there"),
    ("an ending that is not read", own(), {"file/test.json": "quokka"}, "test.json", "mean test.jsonl?"),
    ("columns of other names", own(), {TRAIN: '{"text": "quokka", "Hypothesis": "wombat", "y": 1}\n' * 1000},
     "train.jsonl:1: fields label, premise are missing; found: text, hypothesis, y (1,000 times, in lines 1, 2, 3,"),
    ("a table without a header", own(), {TRAIN: None, "file/train.tsv": "quokka\twombat\tyes\n" * 2},
     "train.tsv:1: fields label, premise, hypothesis are missing; found: 3 other fields"),
    ("numbers for labels", own(), {TRAIN: '{"premise": "a", "hypothesis": "b", "label": 1}\n'}, "labels=0:entailment,"),
    ("no corpus", of("mednli"), {MLI: None}, "mli_train_v1.jsonl"),
    ("no JSON, by TFDS", of("snli", "--config.data.builder=tfds"), {SNLI: pairs(1, "{quokka")}, "dev.jsonl:2: "),
    ("two labels that differ, by TFDS", of("snli", "--config.data.builder=tfds"),
     {SNLI: pairs(1, pair(2, label="entailment"))}, "dev.jsonl:2: ", "gold_label", "label"),
    ("no pair of a genre", of("multinli/travel"), {}, "multinli_1.0_train.jsonl"),
    ("no UMLS", own("--config.knowledge.ontology=umls", config="esim_kd"), {"umls/a": ""}, "ontology=mesh"),
    ("no vectors", (*own()[:-1], "--config.vectors.path=v.txt"), {}, "v.txt", "--config.vectors.path="),
    ("no such ontology", own("--config.knowledge.ontology=mehs", config="esim_kd"), {}, "config.knowledge.ontology"),
    ("no word of the corpus", own("--config.vectors.retrofit=lex.txt"), {"lex.txt": "lemur gibbon\n"}, "retrofit"),
    ("a corpus of no format", (analyze, "stats", "--corpus=own.doc"), {"own.doc": "quokka"}, "own.doc"),
    ("no vector for any token", analysis("aflite", "--config.vectors.path=v.txt", "--config.vectors.dim=2"),
     {"v.txt": "koala 1 2\n"}, "--config.vectors.path"),
    ("no partition", (evaluate, "--run=a", "--partition=p.txt"), {}, "p.txt"),
    ("a syntax error", (prepare, "--config=own.py"), {"own.py": "x = 1\ndef get_config(:\n"}, "own.py:2"),
)  # fmt: skip
BOTH = (report, "a", "b", "--compare")
RUNS = (
    ("an unfinished run", (report, "a", "c"), {"c": {"status": "interrupted"}}, "c: "),
    ("two corpora", (report, "a", "c"), {"c": {"corpus": "mednli"}}, ""),
    ("no such split", (*BOTH, "--split=train"), {}, "--split=dev"),
    ("a table of no folder", (report, "--table=3", "--runs=absent"), {}, "absent"),
    ("no folder of runs", (report, "--table=3"), {}, "--runs"),
    ("metrics", (report, "a"), {"a/metrics.jsonl": "quokka\n"}, "metrics.jsonl"),
    ("one run compared", (report, "a", "--compare"), {}, ""),
    ("no run", (report, "absent"), {}, "absent"),
    ("no run to predict with", (predict,), {}, "--run="),
    ("a run without its flag", (predict, "a"), {}, "--run=a"),
    ("a typo in a split", (evaluate, "--run=a", "--split=tset"), {}, "mean 'test'?"),
    ("damage", (report, "a"), {"a/data.json": '{"splits": {"train": 3}}'}, "a"),
)  # fmt: skip
FLAGS = (
    ("a typo in a flag", (prepare, "--confg=x"), {}, "mean --config?"),
    ("an extra word", (prepare, config_flag("bow"), "more"), {}, "'more'"),
    ("no config", (prepare,), {}, "--config="),
    ("a typo in a config", (prepare, "--config=esimkd"), {}, "'esim_kd'"),
    ("a typo in a variant", (prepare, config_flag("bow", "medlni")), {}, "mean 'mednli'?"),
    ("a typo in a field", of("demo", "--config.model.hiden=3"), {}, "mean --config.model.hidden_size?"),
    ("the name of a config", (train, "bow"), {}, "--config=bow"),
    ("other names of fields", of("demo", "--config.train.lr=.1"), {}, "mean --config.train.learning_rate?"),
    ("a field without its section", of("demo", "--epochs=3"), {}, "mean --config.train.epochs?"),
    setting("data.labels", "yes:entailment,no:neutral", ":file"),
    setting("data.labels", "yes:entails,no:neutral", "contradiction"),
    setting("data.labels", "0:entailment,1:neutral,1:contradiction", "twice: 1"),
    setting("data.labels", "yes:entailment,no:neutral,Yes:entailment", "twice: yes"),
    setting("data.limit", "all", "int"),
    setting("data.name", "mednly", "mednli"),
    ("no such analysis", (analyze, "figures"), {}, "stats"),
    ("no such corpus", (analyze, "stats", "--corpus=snly"), {}, "mean 'snli'?"),
    ("nowhere to go on", analysis("aflite", "--resume"), {}, "--out"),
    ("no steps to time", (train, config_flag("features"), "--dry-run"), {}, "features"),
)  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working folder data/, which is the data folder, too; cache/ lies beside it."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    return tmp_path


def refused(call, places=()):
    """The message of a command that is refused. It is one line for each fault and holds no word of
    the texts."""
    code, out, err = call_command(
        *call, words={report: sys.maxsize, analyze: 1, export: 2}.get(call[0], 0)
    )
    assert (code, out) == (2, ""), err
    assert err.startswith("error: ")
    assert all("Fix: " in line or line.startswith("... and ") for line in err.splitlines())
    assert_no_words(err)
    for place in places:
        assert place in err
    return err


@pytest.mark.parametrize("case", [*FILES, *FLAGS], ids=lambda case: case[0])
def test_bad_input_is_one_line_and_leaves_nothing(case, place):
    _, call, files, *says = case
    write_files(place / "data", {**CORPORA, **files})
    assert refused(call, says).count("\n") == 1
    assert {path.name for path in (place / "cache").rglob("*")} <= {
        ".gitignore",
        "prepared",
        "sources.json",
        "tfds",
    }


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case[0])
def test_runs_that_do_not_fit_are_one_line(case, place):
    _, call, changed, *says = case
    for name in {"a", "b"} | changed.keys():
        if "." not in name:
            runs.write_run(place / "data" / name, runs.GOLD, **changed.get(name, {}))
    write_files(place / "data", {name: content for name, content in changed.items() if "." in name})
    assert refused(call, says).count("\n") == 1


def test_thirty_errors_are_the_first_twenty_and_a_count(place):
    """Equal errors are one, with their number and the first three lines."""
    rows = [pair(n, gold_label=WORDS[n % 5]) for n in range(9)]
    again = [
        pair(n // 2) for n in range(20, 82)
    ]  # half of them repeat the pairID of the line before
    write_files(place / "data", {**CORPORA, TRAIN: pairs(99, *rows, *again)})
    first, *lines, last = refused(own()).splitlines()
    assert "train.jsonl:2: field 'gold_label' is none of" in first
    assert "(9 times, in lines 2, 3, 4, ...). Fix: " in first
    assert "--config.data.labels=" in first
    assert (len(lines), "12 more" in last) == (19, True)


PATHS = {
    "train": ["workdir"],
    "predict": ["run", "input", "output"],
    "evaluate": ["run", "workdir", "probe", "spans", "predictions", "vectors", "skills", "scores"],
    "prepare": ["metamap"],
    "analyze": ["spans", "features", "skills", "out"],
    "report.__main__": ["skills", "runs", "categories_file", "paths", "out"],
    "benchmark": ["figure"],
    "doctor": ["data"],
}
NO_PATHS = ("gs://bucket/run", "s3://bucket/run", "file:///tmp/run", "hdfs:/run", "", " ")


@pytest.mark.parametrize("text", NO_PATHS)
@pytest.mark.parametrize("command", PATHS)
def test_an_address_or_nothing_is_no_path_of_a_flag(command, text, place):
    module = importlib.import_module(f"mednli_jax.{command}")
    for flag in PATHS[command]:
        assert refused((module, f"--{flag}={text}"), [f"--{flag}"]).count("\n") == 1
    assert not list(place.rglob("*run*"))


@pytest.mark.parametrize("text", NO_PATHS)
@pytest.mark.parametrize("variable", ["MEDNLI_JAX_CACHE", "MEDNLI_JAX_DATA"])
def test_an_address_or_nothing_is_no_path_of_a_variable(variable, text, place, monkeypatch):
    monkeypatch.setenv(variable, text)
    assert refused(of("demo"), [f"${variable}"]).count("\n") == 1
    assert [path.name for path in place.iterdir()] == ["data"]


ELSEWHERE = (
    own("--config.data.dir=gs://bucket"),
    own("--config.vectors.path=gs://bucket/glove.txt"),
    own("--config.knowledge.ontology=gs://bucket/own.obo", config="esim_kd"),
    own("--config.knowledge.mentions=gs://bucket/mentions.tsv", config="esim_kd"),
    (report, "gs://bucket/a"),
    (export, "a", "gs://bucket/b"),
    (evaluate, "--run=a", "--partition=gs://bucket/p.txt"),
)


@pytest.mark.parametrize("call", ELSEWHERE, ids=lambda call: call[-1])
def test_an_address_is_no_path_of_a_field_or_an_argument(call, place):
    write_files(place / "data", CORPORA)
    assert refused(call, ["gs://bucket", "an address"]).count("\n") == 1


@pytest.mark.parametrize("text", ["gs://bucket/run", ""])
def test_an_address_or_nothing_is_no_path_of_the_interface(text, place):
    for call in (lambda: api.train_model("bow:demo", text), lambda: api.load_run(text)):
        with pytest.raises(UsageError, match="Fix: "):
            call()
    assert list(place.rglob("*")) == [place / "data"]
