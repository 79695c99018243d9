"""A command refuses bad input in one line with exit code 2, names the file or the flag, and leaves
nothing on disk."""

import pytest
from support.cases import cases
from support.commands import call_command
from support.files import write_files
from support.pair_files import WORDS, assert_no_words, pair, pairs
from support.runs import GOLD, write_run
from support.tables import table_rows

from mednli_jax import api
from mednli_jax.errors import UsageError
from mednli_jax.knowledge.readers import mesh

MESH = "\t".join(mesh.HEADER) + "\nD1\tquokka\tC01\t\nD2\taxolotl\tC01.100\t\n"
TRAIN = "file/train.jsonl"
DEV = "file/dev.jsonl"
MLI = "mednli/mli_train_v1.jsonl"
SNLI = "snli/snli_1.0_dev.jsonl"
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
OWN = f"prepare --config=bow:file --config.data.dir=file {NO_VECTORS}"
DEMO = f"prepare --config=bow:demo {NO_VECTORS}"
KD = f"prepare --config=esim_kd:file --config.data.dir=file {NO_VECTORS}"
AFLITE = "analyze aflite --corpus=file --config.data.dir=file --config.model.knowledge=none"
SNLI_BY_TFDS = f"prepare --config=bow:snli --config.data.builder=tfds {NO_VECTORS}"

OTHER_COLUMNS = '{"text": "quokka", "Hypothesis": "wombat", "y": 1}\n' * 1000
ONE_LABEL = '{"premise": "a", "hypothesis": "b", "label": 1}\n'
HEADLESS = "quokka\twombat\tyes\n" * 2
OTHER_LABEL = pairs(1, pair(2, label="entailment"))
# id -> (command and flags, {file: its content; None takes it away}, words of the message)
BAD_FILES = {
    "no file": (OWN, {TRAIN: None}, "train.jsonl"),
    "a pair of train in dev": (OWN, {DEV: pairs(0)}, "dev.jsonl / pairID"),
    "a test file of another name": (OWN, {"file/tset.tsv": "a"}, "tset.tsv / mean test.tsv?"),
    "a train file of another name": (
        OWN,
        {TRAIN: None, "file/trian.csv": "quokka"},
        "but trian.csv is there",
    ),
    "an ending that is not read": (
        OWN,
        {"file/test.json": "quokka"},
        "test.json / '.json' is not a format that is read",
    ),
    "columns of other names": (
        OWN,
        {TRAIN: OTHER_COLUMNS},
        "train.jsonl:1: fields label, premise are missing; found: text, hypothesis, y"
        " / (1,000 times, in lines 1, 2, 3,",
    ),
    "a table without a header": (
        OWN,
        {TRAIN: None, "file/train.tsv": HEADLESS},
        "train.tsv:1: fields label, premise, hypothesis are missing; found: 3 other fields",
    ),
    "one label": (OWN, {TRAIN: ONE_LABEL}, "train.jsonl:  / 1 label / columns=label:"),
    "a label that train lacks": (
        OWN,
        {TRAIN: ONE_LABEL + ONE_LABEL.replace("1", "0")},
        "dev.jsonl:1: field 'gold_label' is none of 0, 1 / config.data.labels=0,1,LABEL:-",
    ),
    "one file for all": (OWN, {TRAIN: pairs(3), DEV: None}, "split train.jsonl into"),
    "no corpus": (f"prepare --config=bow:mednli {NO_VECTORS}", {MLI: None}, "mli_train_v1.jsonl"),
    "no JSON, by TFDS": (SNLI_BY_TFDS, {SNLI: pairs(1, "{quokka")}, "dev.jsonl:2: "),
    "two labels that differ, by TFDS": (
        SNLI_BY_TFDS,
        {SNLI: OTHER_LABEL},
        "dev.jsonl:2: / gold_label / label",
    ),
    "no UMLS": (f"{KD} --config.knowledge.ontology=umls", {"umls/a": ""}, "ontology=mesh"),
    "no word of the corpus": (
        f"{OWN} --config.vectors.retrofit=lex.txt",
        {"lex.txt": "lemur gibbon\n"},
        "retrofit",
    ),
    "a corpus of no format": ("analyze stats --corpus=own.doc", {"own.doc": "quokka"}, "own.doc"),
    "no vector for any token": (
        f"{AFLITE} --config.vectors.path=v.txt --config.vectors.dim=2",
        {"v.txt": "koala 1 2\n"},
        "config.vectors.path",
    ),
    "a syntax error": (
        "prepare --config=own.py",
        {"own.py": "x = 1\ndef get_config(:\n"},
        "own.py:2",
    ),
}
BAD_FLAGS = table_rows(f"""
    {OWN} --config.data.dir=absent | config.data.dir
    {OWN} --config.data.dir={TRAIN} | config.data.dir / train, dev
    # no pair of the genre
    prepare --config=bow:multinli/travel {NO_VECTORS} | multinli_1.0_train.jsonl
    {OWN} --config.vectors.path=v.txt | v.txt / empty config.vectors.path
    {KD} --config.knowledge.ontology=mehs | config.knowledge.ontology
    {KD} --config.knowledge.ontology=wordnet+mesh | config.knowledge.ontology / takes one
    evaluate --run=a --partition=p.txt | p.txt
    prepare --confg=x | mean --config?
    prepare --config=bow more | 'more'
    prepare | --config=
    prepare --config=esimkd | 'esim_kd'
    prepare --config=bow:medlni | mean 'mednli'?
    {DEMO} --config.model.hiden=3 | --config.model.hidden_size?
    train bow | --config=bow
    {DEMO} --config.train.lr=.1 | mean --config.train.learning_rate?
    # a field without its section
    {DEMO} --epochs=3 | --config.train.epochs?
    {DEMO} --config.data.labels=yes:entailment,no:neutral | config.data.labels / :file
    {DEMO} --config.data.labels=yes | config.data.labels / 2 to 100
    {DEMO} --config.data.columns=premis:note | config.data.columns / 'premis'
    {DEMO} --config.data.columns=premise:note | config.data.columns / :file
    {DEMO} --config.data.labels=0:entailment,1:neutral,1:contradiction | twice: 1
    {DEMO} --config.data.labels=yes:entailment,no:neutral,Yes:entailment | twice: yes
    {DEMO} --config.data.limit=all | config.data.limit / int
    {DEMO} --config.data.name=mednly | config.data.name / mednli
    analyze figures | stats
    analyze stats --corpus=snly | mean 'snli'?
    # nowhere to go on
    {AFLITE} --resume | --out
    # no steps to time
    train --config=features --dry-run | features
""")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working folder data/, which is the data folder, too; cache/ lies beside it."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    return tmp_path


def refused(call, words=""):
    """The message of a command that is refused. Each line has a fix, and no word of the texts.

    call: the command and its flags. words: those of the message, with " / " between.
    """
    code, out, err = call_command(call)
    assert code == 2, err
    assert out == ""
    assert err.startswith("error: ")
    assert all("Fix: " in line or line.startswith("... and ") for line in err.splitlines())
    assert_no_words(err)
    for text in words.split(" / "):
        assert text in err
    return err


def assert_one_line(call, words=""):
    assert refused(call, words).count("\n") == 1


def assert_leaves_nothing(folder):
    cached = {path.name for path in (folder / "cache").rglob("*")}
    assert cached <= {".gitignore", "prepared", "sources.json", "tfds"}


@cases("call, files, words", BAD_FILES)
def test_a_bad_file_is_one_line_and_leaves_nothing(call, files, words, place):
    write_files(place / "data", {**GOOD_FILES, **files})

    assert_one_line(call, words)
    assert_leaves_nothing(place)


@pytest.mark.parametrize("call, words", BAD_FLAGS)
def test_a_bad_flag_is_one_line_and_leaves_nothing(call, words, place):
    write_files(place / "data", GOOD_FILES)

    assert_one_line(call, words)
    assert_leaves_nothing(place)


@pytest.mark.parametrize(
    "call, words",
    table_rows("""
        report a unfinished | unfinished:
        # two corpora
        report a mednli |
        report a b --compare --split=train | --split=dev
        report --table=3 --runs=absent | absent
        report --table=3 | --runs
        report damaged-metrics | metrics.jsonl
        report a --compare |
        report absent | absent
        predict | --run=
        predict a | --run=a
        evaluate --run=a --split=tset | mean 'test'?
        report damaged-data | damaged-data
    """),
)
def test_runs_that_do_not_fit_are_one_line(call, words, place):
    data = place / "data"
    for name in ("a", "b", "damaged-metrics", "damaged-data"):
        write_run(data / name, GOLD)
    write_run(data / "unfinished", GOLD, status="interrupted")
    write_run(data / "mednli", GOLD, corpus="mednli")
    (data / "damaged-metrics" / "metrics.jsonl").write_text("quokka\n")
    (data / "damaged-data" / "data.json").write_text('{"splits": {"train": 3}}')

    assert_one_line(call, words)


def test_thirty_errors_are_the_first_twenty_and_a_count(place):
    """Equal errors are one, with their number and the first three lines."""
    wrong_labels = [pair(n, gold_label=WORDS[n % 5]) for n in range(9)]
    repeated_ids = [pair(n // 2) for n in range(20, 82)]  # every second has the id before it
    train = pairs(99, *wrong_labels, *repeated_ids)
    write_files(place / "data", {**GOOD_FILES, TRAIN: train})

    named = f"{OWN} --config.data.labels=entailment,neutral,contradiction"
    first, *lines, last = refused(named).splitlines()
    assert "train.jsonl:2: field 'gold_label' is none of" in first
    assert "(9 times, in lines 2, 3, 4, ...). Fix: " in first
    assert "config.data.labels=" in first
    assert len(lines) == 19
    assert "12 more" in last


# ---- addresses ----

PATHS = {
    "train": "workdir",
    "predict": "run input output",
    "evaluate": "run workdir probe spans predictions vectors skills scores",
    "prepare": "metamap",
    "analyze": "spans features skills out",
    "report": "skills runs categories_file paths out",
    "benchmark": "figure",
    "doctor": "data",
}
NO_PATHS = ("gs://bucket/run", "s3://bucket/run", "file:///tmp/run", "hdfs:/run", "", " ")


@pytest.mark.parametrize("text", NO_PATHS)
@pytest.mark.parametrize("command", PATHS)
def test_an_address_or_nothing_is_no_path_of_a_flag(command, text, place):
    for name in PATHS[command].split():
        assert_one_line(f"{command} '--{name}={text}'", f"--{name}")
    assert not list(place.rglob("*run*"))


@pytest.mark.parametrize("text", NO_PATHS)
@pytest.mark.parametrize("variable", ["MEDNLI_JAX_CACHE", "MEDNLI_JAX_DATA"])
def test_an_address_or_nothing_is_no_path_of_a_variable(variable, text, place, monkeypatch):
    monkeypatch.setenv(variable, text)

    assert_one_line(DEMO, f"${variable}")
    assert [path.name for path in place.iterdir()] == ["data"]


@pytest.mark.parametrize(
    "call",
    [
        f"{OWN} --config.data.dir=gs://bucket",
        f"{OWN} --config.vectors.path=gs://bucket/glove.txt",
        f"{KD} --config.knowledge.ontology=gs://bucket/own.obo",
        f"{KD} --config.knowledge.mentions=gs://bucket/mentions.tsv",
        "report gs://bucket/a",
        "export a gs://bucket/b",
        "evaluate --run=a --partition=gs://bucket/p.txt",
    ],
)
def test_an_address_is_no_path_of_a_field_or_an_argument(call, place):
    write_files(place / "data", GOOD_FILES)

    assert_one_line(call, "gs://bucket / an address")


@pytest.mark.parametrize("text", ["gs://bucket/run", ""])
def test_an_address_or_nothing_is_no_path_of_the_interface(text, place):
    with pytest.raises(UsageError, match="Fix: "):
        api.train_model("bow:demo", text)
    with pytest.raises(UsageError, match="Fix: "):
        api.load_run(text)
    assert list(place.rglob("*")) == [place / "data"]
