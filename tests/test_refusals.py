"""A command refuses bad input in one line with exit code 2, names the file or the flag, and leaves
nothing on disk."""

import importlib
import sys

import pytest
from support.cases import cases
from support.commands import call_command, config_flag
from support.files import write_files
from support.pair_files import WORDS, assert_no_words, pair, pairs
from support.runs import GOLD, write_run

from mednli_jax import analyze, api, evaluate, export, predict, prepare, train
from mednli_jax.errors import UsageError
from mednli_jax.knowledge.readers import mesh
from mednli_jax.report import __main__ as report

MESH = "\t".join(mesh.HEADER) + "\nD1\tquokka\tC01\t\nD2\taxolotl\tC01.100\t\n"
TRAIN, DEV = "file/train.jsonl", "file/dev.jsonl"
MLI, SNLI = "mednli/mli_train_v1.jsonl", "snli/snli_1.0_dev.jsonl"
GOOD_FILES = {
    "own.tsv": MESH,
    TRAIN: pairs(0),
    DEV: pairs(100),
    MLI: pairs(0),
    "mednli/mli_dev_v1.jsonl": pairs(100),
    "mednli/mli_test_v1.jsonl": pairs(200),
    "snli/snli_1.0_train.jsonl": pairs(0),
    SNLI: pairs(100),
    "snli/snli_1.0_test.jsonl": pairs(200),
    "multinli/multinli_1.0_train.jsonl": pairs(0),
    "multinli/multinli_1.0_dev_matched.jsonl": pairs(100),
}
NO_VECTORS = "--config.vectors.path="


def own(*flags, config="bow"):
    """Prepares the user's own corpus."""
    return (prepare, config_flag(config, "file"), "--config.data.dir=file", NO_VECTORS, *flags)


def of(corpus, *flags):
    return (prepare, config_flag("bow", corpus), NO_VECTORS, *flags)


def aflite(*flags):
    corpus = ("--corpus=file", "--config.data.dir=file", "--config.model.knowledge=none")
    return (analyze, "aflite", *corpus, *flags)


def case(name, call, files, *words):
    """call: a command and its flags. files: {file: its content; None takes it away}. words: of the
    message."""
    return pytest.param(call, files, words, id=name)


def flag(name, call, *words):
    return case(name, call, {}, *words)


def setting(field, value, *words):
    option = f"config.{field}={value}"
    return flag(option, of("demo", f"--{option}"), f"config.{field}", *words)


OTHER_COLUMNS = '{"text": "quokka", "Hypothesis": "wombat", "y": 1}\n' * 1000
TWO_LABELS = "".join(
    f'{{"premise": "a", "hypothesis": "b", "label": {label}}}\n' for label in (0, 1)
)
NUMBERS = '{"premise": "a", "hypothesis": "b", "label": 1}\n'
KD_UMLS = own("--config.knowledge.ontology=umls", config="esim_kd")
KD_TYPO = own("--config.knowledge.ontology=mehs", config="esim_kd")
BY_TFDS = of("snli", "--config.data.builder=tfds")
VECTORS = "--config.vectors.path=v.txt"
CASES = (
    case("no file", own(), {TRAIN: None}, "train.jsonl"),
    case("a pair of train in dev", own(), {DEV: pairs(0)}, "dev.jsonl", "pairID"),
    case(
        "a test file of another name", own(), {"file/tset.tsv": "a"}, "tset.tsv", "mean test.tsv?"
    ),
    case(
        "a train file of another name",
        own(),
        {TRAIN: None, "file/trian.csv": "quokka"},
        "but trian.csv is there",
    ),
    case(
        "an ending that is not read",
        own(),
        {"file/test.json": "quokka"},
        "test.json",
        "'.json' is not a format that is read",
    ),
    case(
        "columns of other names",
        own(),
        {TRAIN: OTHER_COLUMNS},
        "train.jsonl:1: fields label, premise are missing; found: text, hypothesis, y",
        "(1,000 times, in lines 1, 2, 3,",
    ),
    case(
        "a table without a header",
        own(),
        {TRAIN: None, "file/train.tsv": "quokka\twombat\tyes\n" * 2},
        "train.tsv:1: fields label, premise, hypothesis are missing; found: 3 other fields",
    ),
    case("one label", own(), {TRAIN: NUMBERS}, "train.jsonl: ", "1 label", "columns=label:"),
    case(
        "a label that train lacks",
        own(),
        {TRAIN: TWO_LABELS},
        "dev.jsonl:1: field 'gold_label' is none of 0, 1",
        "--config.data.labels=0,1,LABEL:-",
    ),
    case("no corpus", of("mednli"), {MLI: None}, "mli_train_v1.jsonl"),
    case("no JSON, by TFDS", BY_TFDS, {SNLI: pairs(1, "{quokka")}, "dev.jsonl:2: "),
    case(
        "two labels that differ, by TFDS",
        BY_TFDS,
        {SNLI: pairs(1, pair(2, label="entailment"))},
        "dev.jsonl:2: ",
        "gold_label",
        "label",
    ),
    case("no UMLS", KD_UMLS, {"umls/a": ""}, "ontology=mesh"),
    case(
        "no word of the corpus",
        own("--config.vectors.retrofit=lex.txt"),
        {"lex.txt": "lemur gibbon\n"},
        "retrofit",
    ),
    case(
        "a corpus of no format",
        (analyze, "stats", "--corpus=own.doc"),
        {"own.doc": "quokka"},
        "own.doc",
    ),
    case(
        "no vector for any token",
        aflite(VECTORS, "--config.vectors.dim=2"),
        {"v.txt": "koala 1 2\n"},
        "--config.vectors.path",
    ),
    case(
        "a syntax error",
        (prepare, "--config=own.py"),
        {"own.py": "x = 1\ndef get_config(:\n"},
        "own.py:2",
    ),
    flag("no folder", own("--config.data.dir=absent"), "config.data.dir"),
    case("one file for all", own(), {TRAIN: pairs(3), DEV: None}, "split train.jsonl into"),
    flag("a file as folder", own(f"--config.data.dir={TRAIN}"), "config.data.dir", "train, dev"),
    flag("no pair of a genre", of("multinli/travel"), "multinli_1.0_train.jsonl"),
    flag("no vectors", (*own()[:-1], VECTORS), "v.txt", "--config.vectors.path="),
    flag("no such ontology", KD_TYPO, "config.knowledge.ontology"),
    flag("no partition", (evaluate, "--run=a", "--partition=p.txt"), "p.txt"),
    flag("a typo in a flag", (prepare, "--confg=x"), "mean --config?"),
    flag("an extra word", (prepare, config_flag("bow"), "more"), "'more'"),
    flag("no config", (prepare,), "--config="),
    flag("a typo in a config", (prepare, "--config=esimkd"), "'esim_kd'"),
    flag("a typo in a variant", (prepare, config_flag("bow", "medlni")), "mean 'mednli'?"),
    flag("a typo in a field", of("demo", "--config.model.hiden=3"), "--config.model.hidden_size?"),
    flag("the name of a config", (train, "bow"), "--config=bow"),
    flag(
        "other names of fields",
        of("demo", "--config.train.lr=.1"),
        "mean --config.train.learning_rate?",
    ),
    flag("a field without its section", of("demo", "--epochs=3"), "--config.train.epochs?"),
    setting("data.labels", "yes:entailment,no:neutral", ":file"),
    setting("data.labels", "yes", "2 to 100"),
    setting("data.columns", "premis:note", "'premis'"),
    setting("data.columns", "premise:note", ":file"),
    setting("data.labels", "0:entailment,1:neutral,1:contradiction", "twice: 1"),
    setting("data.labels", "yes:entailment,no:neutral,Yes:entailment", "twice: yes"),
    setting("data.limit", "all", "int"),
    setting("data.name", "mednly", "mednli"),
    flag("no such analysis", (analyze, "figures"), "stats"),
    flag("no such corpus", (analyze, "stats", "--corpus=snly"), "mean 'snli'?"),
    flag("nowhere to go on", aflite("--resume"), "--out"),
    flag("no steps to time", (train, config_flag("features"), "--dry-run"), "features"),
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working folder data/, which is the data folder, too; cache/ lies beside it."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    return tmp_path


def refused(call, words=()):
    """The message of a command that is refused. Each line has a fix, and no word of the texts."""
    command, *flags = call
    positional = {report: sys.maxsize, analyze: 1, export: 2}.get(command, 0)
    code, out, err = call_command(command, *flags, words=positional)
    assert code == 2, err
    assert out == "", err
    assert err.startswith("error: ")
    assert all("Fix: " in line or line.startswith("... and ") for line in err.splitlines())
    assert_no_words(err)
    assert [word for word in words if word not in err] == []
    return err


def assert_one_line(call, *words):
    assert refused(call, words).count("\n") == 1


@pytest.mark.parametrize("call, files, words", CASES)
def test_bad_input_is_one_line_and_leaves_nothing(call, files, words, place):
    write_files(place / "data", {**GOOD_FILES, **files})

    assert_one_line(call, *words)
    cached = {path.name for path in (place / "cache").rglob("*")}
    assert cached <= {".gitignore", "prepared", "sources.json", "tfds"}


COMPARED = (report, "a", "b", "--compare")


@cases(
    "call, words",
    {
        "an unfinished run": ((report, "a", "unfinished"), ["unfinished: "]),
        "two corpora": ((report, "a", "mednli"), []),
        "no such split": ((*COMPARED, "--split=train"), ["--split=dev"]),
        "a table of no folder": ((report, "--table=3", "--runs=absent"), ["absent"]),
        "no folder of runs": ((report, "--table=3"), ["--runs"]),
        "damaged metrics": ((report, "no metrics"), ["metrics.jsonl"]),
        "one run compared": ((report, "a", "--compare"), []),
        "no run": ((report, "absent"), ["absent"]),
        "no run to predict with": ((predict,), ["--run="]),
        "a run without its flag": ((predict, "a"), ["--run=a"]),
        "a typo": ((evaluate, "--run=a", "--split=tset"), ["mean 'test'?"]),
        "damaged data": ((report, "no data"), ["no data"]),
    },
)
def test_runs_that_do_not_fit_are_one_line(call, words, place):
    data = place / "data"
    for name in ("a", "b", "no metrics", "no data"):
        write_run(data / name, GOLD)
    write_run(data / "unfinished", GOLD, status="interrupted")
    write_run(data / "mednli", GOLD, corpus="mednli")
    (data / "no metrics" / "metrics.jsonl").write_text("quokka\n")
    (data / "no data" / "data.json").write_text('{"splits": {"train": 3}}')

    assert_one_line(call, *words)


def test_thirty_errors_are_the_first_twenty_and_a_count(place):
    """Equal errors are one, with their number and the first three lines."""
    wrong_labels = [pair(n, gold_label=WORDS[n % 5]) for n in range(9)]
    repeated_ids = [pair(n // 2) for n in range(20, 82)]  # every second has the id before it
    train = pairs(99, *wrong_labels, *repeated_ids)
    write_files(place / "data", {**GOOD_FILES, TRAIN: train})

    named = "--config.data.labels=entailment,neutral,contradiction"
    first, *lines, last = refused(own(named)).splitlines()
    assert "train.jsonl:2: field 'gold_label' is none of" in first
    assert "(9 times, in lines 2, 3, 4, ...). Fix: " in first
    assert "--config.data.labels=" in first
    assert len(lines) == 19
    assert "12 more" in last


# ---- addresses ----

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

    for name in PATHS[command]:
        assert_one_line((module, f"--{name}={text}"), f"--{name}")
    assert not list(place.rglob("*run*"))


@pytest.mark.parametrize("text", NO_PATHS)
@pytest.mark.parametrize("variable", ["MEDNLI_JAX_CACHE", "MEDNLI_JAX_DATA"])
def test_an_address_or_nothing_is_no_path_of_a_variable(variable, text, place, monkeypatch):
    monkeypatch.setenv(variable, text)

    assert_one_line(of("demo"), f"${variable}")
    assert [path.name for path in place.iterdir()] == ["data"]


@pytest.mark.parametrize(
    "call",
    [
        own("--config.data.dir=gs://bucket"),
        own("--config.vectors.path=gs://bucket/glove.txt"),
        own("--config.knowledge.ontology=gs://bucket/own.obo", config="esim_kd"),
        own("--config.knowledge.mentions=gs://bucket/mentions.tsv", config="esim_kd"),
        (report, "gs://bucket/a"),
        (export, "a", "gs://bucket/b"),
        (evaluate, "--run=a", "--partition=gs://bucket/p.txt"),
    ],
    ids=lambda call: call[-1],
)
def test_an_address_is_no_path_of_a_field_or_an_argument(call, place):
    write_files(place / "data", GOOD_FILES)

    assert_one_line(call, "gs://bucket", "an address")


@pytest.mark.parametrize("text", ["gs://bucket/run", ""])
def test_an_address_or_nothing_is_no_path_of_the_interface(text, place):
    with pytest.raises(UsageError, match="Fix: "):
        api.train_model("bow:demo", text)
    with pytest.raises(UsageError, match="Fix: "):
        api.load_run(text)
    assert list(place.rglob("*")) == [place / "data"]
