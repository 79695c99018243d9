"""No word of a corpus gets out: not in what commands write or print, whatever fails, and not over the network.

The commands run on corpora of 500 words that occur nowhere else; every byte that they leave is searched for them.
"""

import base64
import gzip
import json
import logging
import os
import re
import stat
import subprocess
import sys
import threading
import warnings
import zipfile
from pathlib import Path

import pytest
from canaries import DENIED, GUARD, NAMES, SENTENCE, WORDS, found_in, leaks, write_corpora
from compiler import FAST
from made_up_commands import ROOT, call_command, config_flag, use_one_device
from matplotlib.figure import Figure
from matplotlib.text import Text

from mednli_jax import analyze, defaults, doctor, errors, evaluate, experiment, predict, prepare, report, train
from mednli_jax.corpora import inventory
from mednli_jax.training.hosts import Hosts

# The files that may hold words, and why. All are 0600 in folders of 0700, below the cache or below a private/.
ALLOWED = (
    r"work/.*\bprivate(/.*)?",  # predictions, vocabulary, attention and whole tables of a run or an analysis
    r"cache/prepared/[^/]+/vocabulary\.json",  # the words of the numbers in the prepared arrays
    r"cache/prepared/[^/]+/rows\.json",  # uids and tags of the prepared rows
    r"cache/prepared/clicr-[^/]+/(answer|candidate)_text\.npy",  # phrases as code points, which are scored
    r"cache/tfds/.*",  # the corpus as TFDS stores it
    r"cache/ontologies/[^/]+/.*",  # names of concepts
    r"work/diskne/(examples\.jsonl|benchmark\.json|dropped\.tsv|folds/.*)",  # a corpus made from another
    r"streams/predict-.*\.out",  # the answers that the user asked for
    # Tables of DisKnE are by disease, so these hold the terminology's names of the diseases, and no other word.
    r"work/folds/(data\.json|result\.json|report\.html)",
    r"cache/prepared/diskne-[^/]+/manifest\.json",
)
OF_OTHERS = (r"(data|guard|\.git)(/.*)?",)  # no command wrote these
WORDS_OF_8 = ("--config.vectors.path=", "--config.vectors.dim=8")
SMALL = ("--config.train.batch_size=16", "--config.train.epochs=1", "--config.train.max_buckets=1")
OF_4 = "--config.model.hidden_size=4"
OWN = "--config.knowledge.ontology=../data/own.tsv"


def nli(name, *more):
    return (config_flag(name, "mednli"), *WORDS_OF_8, *SMALL, OF_4, *more)


def cloze(name, *more):
    return (config_flag(name, "clicr"), *WORDS_OF_8, "--config.train.batch_size=4", *SMALL[1:], OF_4, *more)


TREES = (config_flag("features", "mednli"), *WORDS_OF_8, *SMALL, "--config.model.trees=4")
BERT = (config_flag("bert", "mednli"), *SMALL, "--config.data.pieces=300", "--config.model.layers=1",
        "--config.model.hidden_size=8", "--config.model.attention_heads=2",
        "--config.model.intermediate_size=8")  # fmt: skip
FASTTEXT = (config_flag("hypothesis_only", "mednli"), "--config.model.dim=4", "--config.model.buckets=64",
            "--config.train.epochs=1")  # fmt: skip
FOLDS = (config_flag("diskne_esim", "file"), "--config.data.dir=diskne", *WORDS_OF_8, *SMALL, "--config.seeds=0", OF_4)
TINY = ("--models=bow", "--against=none", "--allow_load", "--mode=train", "--batch=8", "--hidden=8", "--vectors=8",
        "--pairs=60", "--rounds=1")  # fmt: skip
BUILD = ("--out=diskne", "--corpus=file", "--data=../data/own", "--ontology=../data/own.tsv",
         "--categories=../data/own/kinds.tsv", "--negatives=random", "--fold=all")  # fmt: skip
PAIRS = f"{SENTENCE}\t{WORDS[7]} {WORDS[400]}\n"
QUERIES = f"BEG__{WORDS[0]}__END {SENTENCE} .\t{WORDS[9]} had @placeholder .\n"
LEXICAL = ("lexical", *nli("bow"), "--min_count=1", "--smoothing=1")
# The commands in their order: name -> (command, flags ...). Every suite runs the first three, the slow test all.
COMMANDS = {
    "train-bow": ("train", *nli("bow"), "--workdir=bow"),
    "analyze-lexical": ("analyze", *LEXICAL, "--out=lexical"),
    "report": ("report", "bow"),
    "doctor": ("doctor",),
    "prepare": ("prepare", *nli("esim_kd", OWN)),
    "train-obo": ("train", *nli("bow_kd", "--config.knowledge.ontology=../data/own.obo"), "--workdir=obo"),
    "train-esim": ("train", *nli("esim_kd", OWN), "--workdir=esim", "--profile"),
    "train-tfds": ("train", *nli("bow", "--config.data.builder=tfds"), "--workdir=tfds"),
    "train-fasttext": ("train", *FASTTEXT, "--workdir=fast"),
    "train-bert": ("train", *BERT, "--workdir=bert"),
    "train-features": ("train", *TREES, "--workdir=trees"),
    "train-ga": ("train", *cloze("ga_ent"), "--config.model.hops=2", "--workdir=ga"),
    "train-sa": ("train", *cloze("sa_ent"), "--workdir=sa"),
    "dry-run": ("train", *nli("esim_kd", OWN), "--workdir=none", "--dry-run"),
    "evaluate": ("evaluate", "--run=bow", "--partition=ids.txt", "--json"),
    "evaluate-other": ("evaluate", "--run=bow", config_flag("bow", "mednli"), "--workdir=again"),
    "evaluate-cloze": ("evaluate", "--run=ga", "--scores=each.jsonl"),
    "evaluate-answers": ("evaluate", "--predictions=answers.json", "--corpus=clicr", "--scores=each2.jsonl"),
    "predict-pairs": ("predict", "--run=esim", "--attention"),
    "predict-bert": ("predict", "--run=bert"),
    "predict-queries": ("predict", "--run=sa", "--attention"),
    "predict-bad": ("predict", "--run=bow"),
    "analyze-all": ("analyze", "all", *nli("esim_kd", OWN), "--m=30", "--n=4", "--k=9", "--tau=.6", "--min_count=1",
                    "--out=all"),
    "analyze-public": ("analyze", "lexical", *nli("bow"), "--min_count=1", "--public", "--out=public"),
    "analyze-cloze": ("analyze", "cloze-stats", "--corpus=clicr", "--out=cloze"),
    "report-compare": ("report", "bow", "esim", "--compare", "--out=compared.html"),
    "report-kinds": ("report", "esim", "--categories", "--out=kinds.html"),
    "report-cloze": ("report", "ga"),
    "report-table": ("report", "--table=3", "--runs=.", "--out=table.html"),
    "benchmark": ("benchmark", *TINY),
    "report-public": ("report", "bow", "--public", "--json"),
    "build": ("build_diskne", *BUILD),
    "train-folds": ("train", *FOLDS, "--workdir=folds"),
}  # fmt: skip
INPUT = {
    "predict-pairs": PAIRS,
    "predict-bert": PAIRS,
    "predict-queries": QUERIES,
    "predict-bad": PAIRS.replace("\t", " "),
}
FAILS = {"predict-bad": 2, "doctor": 2}  # the corpora are readable by others and do not have their official sizes


class Home:
    """data/ (corpora), work/ (where commands run), cache/, home/, tmp/, guard/, and streams/ (what commands print)."""

    def __init__(self, folder, umask):
        self.folder, self.umask = folder, umask
        for name in ("data", "work", "home", "tmp", "guard", "streams"):
            (folder / name).mkdir()
        write_corpora(folder / "data")
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        (folder / "guard" / "sitecustomize.py").write_text(GUARD)
        (folder / "work" / "ids.txt").write_text("test-1\ntest-4\n")
        (folder / "work" / "answers.json").write_text(json.dumps({"test0.0": "an answer"}))
        for path in (folder / "work").iterdir():  # no command wrote these
            path.chmod(0o600)

    def python(self, name, *arguments):
        """Runs Python without network and with all logs on, and stores its output: (exit code, stderr)."""
        others = (errors.SHOW_ALL, "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR")  # compiled programs are searched, too
        folders = {"HOME": "home", "TMPDIR": "tmp", "MEDNLI_JAX_DATA": "data", "MEDNLI_JAX_CACHE": "cache"}
        environment = {
            **{name: value for name, value in os.environ.items() if name not in others},
            **{name: str(self.folder / place) for name, place in folders.items()},
            "PYTHONPATH": os.pathsep.join([str(self.folder / "guard"), str(ROOT)]),
            "JAX_LOGGING_LEVEL": "DEBUG",
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": FAST,
        }
        with open(self.folder / "streams" / f"{name}.out", "wb") as out, open(self.stderr(name), "wb") as err:
            done = subprocess.run(
                [sys.executable, *arguments], input=INPUT.get(name, "").encode(), stdout=out, stderr=err,
                cwd=self.folder / "work", env=environment, umask=self.umask, timeout=280,
            )  # fmt: skip
        return done.returncode, self.stderr(name).read_text(errors="replace")

    def stderr(self, name):
        return self.folder / "streams" / f"{name}.err"

    def run(self, *names):
        for name in names:
            command, *flags = COMMANDS[name]
            script = ROOT / "launch" / f"{command}.py"
            script = [str(script)] if script.is_file() else ["-m", f"mednli_jax.{command}"]
            code, err = self.python(name, *script, *flags)
            assert code == FAILS.get(name, 0), f"{name}: {code}\n{err[-3000:]}"
            assert "NETWORK" not in err

    def check(self):
        """Words occur in all allowed files and nowhere else; other users can read nothing, and git adds nothing."""
        assert leaks(self.folder, (*OF_OTHERS, *ALLOWED)) == {}
        written = [*(self.folder / "work").iterdir(), self.folder / "cache"]
        below = [path for top in written for path in (top, *top.rglob("*")) if not path.is_symlink()]
        assert [str(path) for path in below if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
        done = subprocess.run(["git", "add", "-A", "-n"], cwd=self.folder, capture_output=True, text=True, check=True)
        taken = [line for line in done.stdout.splitlines() if re.match(r"add '(cache|work/[^']+)/", line)]
        assert taken == []  # folders that commands made; git does see files that the user named
        whole = leaks(self.folder, OF_OTHERS)
        assert any(name.startswith("cache/prepared/mednli-") and name.endswith("vocabulary.json") for name in whole)
        assert whole["work/bow/private/vocabulary.json"] > 300
        return whole


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The files of three commands that ran with a umask of 0, all logs on and all sockets denied."""
    home = Home(tmp_path_factory.mktemp("canaries"), umask=0)
    home.run(*list(COMMANDS)[:3])
    return home


def test_words_stay_in_private_and_files_with_their_owner(home):
    whole = home.check()
    assert whole["work/lexical/private/lexical.json"] > 30
    assert "work/lexical/lexical.json" not in whole
    # Libraries log at their lowest level, so the search has logs to search.
    assert "DEBUG:jax" in home.stderr("train-bow").read_text()
    for name in ("train-bow", "analyze-lexical", "report"):  # a command warns once of corpora that others can read
        count = home.stderr(name).read_text().count("readable by others: chmod ")
        assert count == (name != "report")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_words_stay_in_private_whatever_is_asked(tmp_path):
    """Runs every command and kind of model, under the umask of most machines."""
    home = Home(tmp_path, umask=0o022)
    home.run(*COMMANDS)
    whole = home.check()
    for name in ("data.json", "result.json", "report.html"):
        assert found_in((tmp_path / "work" / "folds" / name).read_bytes()) <= NAMES, name
    for name in ("ga/private/vocabulary.json", "sa/private/types.json", "all/private/lexical.json"):
        assert whole[f"work/{name}"], name
    assert whole["work/diskne/examples.jsonl"]
    records = [path.relative_to(tmp_path) for path in tmp_path.rglob("*array_record*") if path.is_file()]
    assert records  # these are compressed, so no word can be found in them; their place must be allowed
    assert all(path.parts[:2] == ("cache", "tfds") for path in records)


def test_the_search_finds_what_is_planted(tmp_path):
    word = WORDS[11]
    (tmp_path / "plain").write_bytes(b"\0\1" + word.upper().encode() + b"\2")
    (tmp_path / "wide").write_bytes(f"- {word} -".encode("utf-16"))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(word.encode()))
    with zipfile.ZipFile(tmp_path / "arrays.npz", "w") as archive:
        archive.writestr("words.npy", gzip.compress(word.encode()))
    for skipped in range(3):
        (tmp_path / f"base{skipped}").write_bytes(base64.b64encode(b"." * skipped + word.encode() + b" more"))
    (tmp_path / f"{word}.png").write_bytes(b"")
    (tmp_path / "other").write_text(word[:-1] + " " + word[1:])
    assert set(leaks(tmp_path)) == {path.name for path in tmp_path.iterdir()} - {"other"}


@pytest.mark.parametrize("call", ["socket.socket()", "socket.getaddrinfo('localhost', 80)"])
def test_the_network_is_denied(home, call):
    code, err = home.python("network", "-c", f"import socket; {call}")
    assert code == DENIED
    assert err.startswith("NETWORK socket.")


# -- injected faults ---------------------------------------------------------------------------------------------------


def value_error():
    raise ValueError(f"could not convert: {SENTENCE!r}")


def chained(*_):
    try:
        raise KeyError(WORDS[0])
    except KeyError as error:
        raise RuntimeError(SENTENCE, {"premise": SENTENCE}) from error


def undecodable():
    f"{SENTENCE} é".encode("latin-1").decode("utf-8")


def refused():
    raise OSError(SENTENCE)


FAULTS = (value_error, chained, undecodable, refused)
TRAIN = (train, *nli("bow"), "--workdir=new")
LINKED = (prepare, *nli("esim_kd", OWN), "--config.data.max_length=49")
ARTICLES = (prepare, *cloze("ga_ent"), "--config.data.max_query=99")
NEW = (prepare, *nli("bow", "--config.data.max_length=48"))
EVALUATE, PREDICT = (evaluate, "--run=bow"), (predict, "--run=bow")
POINTS = {
    "corpora.nli.readers.load_nli": NEW,
    "corpora.nli.readers.binary_parse_tokens": NEW,
    "corpora.nli.encoding.WordTexts.arrays": NEW,
    "text.Vocab.save": NEW,
    "corpora.cache._write": NEW,
    "corpora.nli.concepts.load_ontology": LINKED,
    "knowledge.linking.Linker.link": LINKED,
    "corpora.cloze.clicr._Reader.take": ARTICLES,
    "corpora.cloze.corpus.encode_cloze": ARTICLES,
    "experiment.Experiment.program": TRAIN,
    "corpora.batching.Batches.epoch": TRAIN,
    "tasks.nli.NLITask.loss": TRAIN,
    "finished_run.ScoredCorpus.scores": EVALUATE,
    "corpora.nli.partitions.read_partition": (*EVALUATE, "--partition=ids.txt"),
    "predict.read_chunks": PREDICT,
    "tasks.nli.NewPairs.examples_of": PREDICT,
    "analysis.corpus_stats.statistics": (analyze, "stats", *nli("bow")),
    "analysis.artifacts.findings._token_section": (analyze, *LEXICAL),
    "analysis.html.render": (report, "bow"),
    "analysis.outcomes.read_outcomes": (report, "bow", "bow", "--compare"),
    "corpora.inventory.corpora": (doctor,),
}
LATE = {  # after an epoch of training
    "runs.RunDirectory.append_metrics": TRAIN,
    "training.checkpoint.Checkpoints.save": TRAIN,
    "tasks.nli.NLITask.predictions": TRAIN,
    "analysis.html.run_page": TRAIN,
}


@pytest.fixture
def beside(home, tmp_path, monkeypatch):
    """The working folder of commands in this process lies beside `data`, with the finished run bow/ of `home`."""
    monkeypatch.chdir(tmp_path)
    use_one_device(monkeypatch)
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(home.folder / "data"))
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(home.folder / "cache"))
    monkeypatch.delenv(errors.SHOW_ALL, raising=False)
    (tmp_path / "bow").symlink_to(home.folder / "work" / "bow")
    (tmp_path / "ids.txt").write_text("test-1\n")
    data = tmp_path.parent / "data"  # `../data` leads here
    data.symlink_to(home.folder / "data")
    factory = logging.getLogRecordFactory()
    hooks = ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook"), (warnings, "formatwarning"))
    for module, name in hooks:  # a command sets these for the whole process
        monkeypatch.setattr(module, name, getattr(module, name))
    yield
    data.unlink()  # other modules make a folder with this name
    logging.setLogRecordFactory(factory)


CASES = [(place, FAULTS[number % len(FAULTS)]) for number, place in enumerate(POINTS)]
CASES += [pytest.param(place, fault, marks=pytest.mark.slow) for place in LATE for fault in FAULTS]


@pytest.mark.parametrize(("place", "fault"), CASES)
def test_a_fault_is_reported_without_the_text_it_quotes(home, beside, tmp_path, monkeypatch, place, fault):
    raised = []

    def raising(*_, **__):
        raised.append(place)
        fault()

    monkeypatch.setattr(f"mednli_jax.{place}", raising)
    command, *flags = {**POINTS, **LATE}[place]
    code, out, err = call_command(command, *flags, stdin=PAIRS)
    assert (code in (1, 2), bool(raised)) == (True, True), out + err
    assert found_in((out + err).encode()) == set(), out + err
    assert "Traceback" not in err
    if code == 1:
        (line,) = [line for line in err.splitlines() if line.startswith("bug: ")]
        assert " Fix: " in line
    assert leaks(tmp_path, (r".*\bprivate(/.*)?", "bow(/.*)?")) == {}
    assert leaks(home.folder / "cache", [pattern.removeprefix("cache/") for pattern in ALLOWED]) == {}
    if (tmp_path / "new" / "result.json").exists():
        assert json.loads((tmp_path / "new" / "result.json").read_text())["status"] == "failed"


def test_what_the_machine_refuses_is_one_line_of_ours(beside, monkeypatch):
    """The message has the words of the system, not of the exception, and a name only if such a file exists."""
    for name, shown in ((SENTENCE, "a file"), ("ids.txt", "ids.txt")):

        def full(_, name=name):
            raise OSError(28, SENTENCE, name)

        monkeypatch.setattr("mednli_jax.analysis.corpus_stats.statistics", full)
        code, out, err = call_command(analyze, "stats", *nli("bow"))
        assert (code, found_in((out + err).encode())) == (2, set())
        assert f"error: {shown}: No space left on device. Fix: " in err


def test_everything_is_shown_where_text_may_be_shown(beside, monkeypatch):
    monkeypatch.setattr("mednli_jax.analysis.corpus_stats.statistics", chained)
    monkeypatch.setenv(errors.SHOW_ALL, "1")
    code, _, err = call_command(analyze, "stats", *nli("bow"))
    assert (code, SENTENCE in err, err.count("Traceback")) == (1, True, 2)


PYTHONS_OWN = f"""
import logging, sys, threading, warnings
from mednli_jax import cli, progress

class Word:
    def __init__(self, word): self.word = word
    def __repr__(self): return self.word
    def __del__(self): raise KeyError(self.word)

def work():
    thread = threading.Thread(target=lambda: {{}}["{WORDS[1]}"])
    thread.start(); thread.join()
    warnings.warn("{WORDS[2]}")
    Word("{WORDS[3]}")
    for log in (logging.getLogger("absl"), logging.getLogger("orbax.checkpoint"), logging.getLogger()):
        try:
            int("{WORDS[4]}")
        except ValueError as error:
            log.exception("failed on %s", "{WORDS[4]}")
            log.error("failed: %s", error)
            log.debug(error)

print(cli.script(work))
sys.stderr.flush()
last = Word("{WORDS[5]}")
raise LookupError("{WORDS[6]}") from KeyError("{WORDS[7]}")
"""


def test_threads_warnings_logs_and_the_interpreter_quote_nothing(home):
    code, err = home.python("own", "-c", PYTHONS_OWN)
    assert code == 1
    assert (home.folder / "streams" / "own.out").read_text() == "0\n"
    assert found_in(err.encode()) == set(), err
    assert err.count("KeyError in ") >= 2  # one from the thread, one from the deleted object
    assert "LookupError in " in err
    assert "warning: UserWarning in " in err
    assert err.count("ValueError in <string>:") == 9


def test_a_process_of_many_reports_as_one_alone(capfd):
    Hosts().report(KeyError(SENTENCE))
    err = capfd.readouterr().err
    assert ("KeyError" in err, found_in(err.encode())) == (True, set())


# -- pictures and permissions ------------------------------------------------------------------------------------------


def test_pictures_for_others_have_no_word_drawn(beside, monkeypatch):
    """Words in a picture are pixels that no search finds, so the texts are checked while they are drawn."""
    words, save = {}, Figure.savefig

    def watched(figure, buffer, *arguments, **more):
        save(figure, buffer, *arguments, **more)
        drawn = " ".join(text.get_text() for text in figure.findobj(Text))
        words[buffer.getvalue()] = found_in(drawn.encode())

    monkeypatch.setattr(Figure, "savefig", watched)
    assert call_command(analyze, *LEXICAL, "--out=drawn")[0] == 0
    pictures = {path: words[path.read_bytes()] for path in Path("drawn").rglob("*.png")}
    assert {path.parent.name: bool(found) for path, found in pictures.items()} == {"private": True}
    assert call_command(analyze, "lengths", *nli("bow"), "--out=drawn2")[0] == 0
    assert [bool(words[path.read_bytes()]) for path in Path("drawn2").rglob("*.png")] == [False]


def test_the_compile_cache_is_closed_whoever_made_it(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setattr(experiment.jax.config, "update", lambda *_: None)  # the update would apply to the whole suite
    (tmp_path / "compiled").mkdir(mode=0o755)
    (tmp_path / "compiled").chmod(0o755)
    assert stat.S_IMODE(experiment.use_compile_cache().stat().st_mode) == 0o700


@pytest.fixture
def closed(tmp_path):
    """A data folder that only its owner can read, with corpora and a terminology."""
    for name in ("mednli", "umls", "snli"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "file").write_text("")
    for path in (tmp_path / "data", *(tmp_path / "data").rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["mednli", "umls"])
def test_what_is_read_is_warned_of_once_and_what_is_not_is_not(closed, capsys, name):
    (closed / "snli" / "file").chmod(0o644)  # SNLI is public
    inventory.warn(closed, ("mednli", "mesh", "umls"))
    (closed / name / "file").chmod(0o644)
    inventory.warn(closed, ({"mednli": "umls", "umls": "mednli"}[name], "snli"))
    assert capsys.readouterr().err == ""
    for _ in range(3):
        inventory.warn(closed, (name,))
    (line,) = capsys.readouterr().err.splitlines()
    assert f"1 files or folders are readable by others: chmod -R go-rwx {closed / name}." in line


def test_a_work_tree_is_warned_of(closed, capsys):
    (closed.parent / ".git").mkdir()
    inventory.warn(closed, ("mednli",))
    assert "git work tree" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        ("bow", {"data.mix": "snli"}, ("mednli", "snli")),
        ("esim", {"knowledge.ontology": "umls", "model.knowledge": "bias"}, ("mednli", "umls")),
        ("esim", {"knowledge.ontology": "umls", "data.name": "mediqa_nli"}, ("mediqa_nli", "mednli")),
    ],
)
def test_what_a_config_reads_is_what_is_looked_at(closed, monkeypatch, model, fields, expected):
    config = defaults.nli(model, "mednli")
    config.update_from_flattened_dict(fields)
    config.data.dir = str(closed)
    seen = []
    monkeypatch.setattr(inventory, "warn", lambda folder, names: seen.append((folder, names)))
    experiment.nli_corpus(config).warn_of_readers()
    assert seen == [(closed, tuple(sorted(expected)))]
