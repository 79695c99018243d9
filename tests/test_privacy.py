"""Nothing of a corpus gets out: no word of it in what doors write and say, whatever fails; no open file; no network.

The doors run on corpora of 500 words that stand nowhere else, and every byte that they leave is searched for them.
"""

import io
import json
import logging
import os
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
from canaries import (
    DENIED,
    GUARD,
    NAMES,
    SENTENCE,
    WORDS,
    found_in,
    leaks,
    write_articles,
    write_diseases,
    write_ontology,
    write_pairs,
)
from compiler import FAST

from mednli_jax import cli, defaults, errors
from mednli_jax.corpora import inventory

ROOT = Path(__file__).parent.parent
# What may hold words, and why: all of it is 0600 in folders of 0700, below the cache or below a private/.
ALLOWED = (
    r"work/.*\bprivate(/.*)?",  # a run's and an analysis's own: predictions, vocabulary, attention, whole tables
    r"cache/prepared/[^/]+/vocabulary\.json",  # the words behind the numbers of the prepared arrays
    r"cache/prepared/[^/]+/rows\.json",  # uids and tags of the prepared rows
    r"cache/prepared/clicr-[^/]+/(answer|candidate)_text\.npy",  # phrases as code points: what is scored
    r"cache/tfds/.*",  # the corpus as TFDS keeps it
    r"cache/ontologies/[^/]+/.*",  # names of concepts
    r"work/diskne/(examples\.jsonl|benchmark\.json|dropped\.tsv|folds/.*)",  # a corpus, made of another
    r"streams/predict-.*\.out",  # the answers that its user asked for
    # What the terminology calls the diseases of DisKnE, and no other word: its tables are by disease.
    r"work/folds/(data\.json|result\.json|report\.html)",
    r"cache/prepared/diskne-[^/]+/manifest\.json",
)
SMALL = (
    "--config.vectors.path=",
    "--config.vectors.dim=8",
    "--config.train.batch_size=16",
    "--config.train.epochs=1",
    "--config.train.max_buckets=1",
)
OWN = "--config.knowledge.ontology=../data/own.tsv"


def config(name, variant="mednli"):
    return f"--config={ROOT / 'configs' / name}.py:{variant}"


def nli(name, *more, hidden=True):
    return (config(name), *SMALL, *(("--config.model.hidden_size=4",) * hidden), *more)


CLOZE = (*SMALL[:2], "--config.train.batch_size=4", *SMALL[3:], "--config.model.hidden_size=4")
PAIRS = f"{SENTENCE}\t{WORDS[7]} {WORDS[400]}\n".encode()
QUERIES = f"BEG__{WORDS[0]}__END {SENTENCE} .\t{WORDS[9]} had @placeholder .\n".encode()
BERT = ("--config.data.pieces=300", "--config.model.layers=1", "--config.model.hidden_size=8",
        "--config.model.attention_heads=2", "--config.model.intermediate_size=8")  # fmt: skip
FASTTEXT = ("--config.model.dim=4", "--config.model.buckets=64", "--config.train.epochs=1")
TINY = ("--batch=8", "--hidden=8", "--vectors=8", "--pairs=60", "--rounds=1")
AFLITE = ("--m=30", "--n=4", "--k=9", "--tau=.6")
SHORT = {
    "train-bow": (("train", *nli("bow"), "--workdir=bow"), b""),
    "analyze-lexical": (("analyze", "lexical", *nli("bow"), "--min_count=1", "--smoothing=1", "--out=lexical"), b""),
    "report": (("report", "bow"), b""),
}
LONG = {
    "doctor": (("doctor",), b""),
    "prepare": (("prepare", *nli("esim_kd", OWN)), b""),
    "train-obo": (("train", *nli("bow_kd", "--config.knowledge.ontology=../data/own.obo"), "--workdir=obo"), b""),
    "train-esim": (("train", *nli("esim_kd", OWN), "--workdir=esim", "--profile"), b""),
    "train-tfds": (("train", *nli("bow", "--config.data.builder=tfds"), "--workdir=tfds"), b""),
    "train-fasttext": (("train", config("hypothesis_only"), *FASTTEXT, "--workdir=fast"), b""),
    "train-bert": (("train", config("bert"), *SMALL[2:], *BERT, "--workdir=bert"), b""),
    "train-features": (("train", *nli("features", "--config.model.trees=4", hidden=False), "--workdir=trees"), b""),
    "train-ga": (("train", config("ga_ent", "clicr"), *CLOZE, "--config.model.hops=2", "--workdir=ga"), b""),
    "train-sa": (("train", config("sa_ent", "clicr"), *CLOZE, "--workdir=sa"), b""),
    "dry-run": (("train", *nli("esim_kd", OWN), "--workdir=none", "--dry-run"), b""),
    "evaluate": (("evaluate", "--run=bow", "--partition=ids.txt", "--json"), b""),
    "evaluate-other": (("evaluate", "--run=bow", config("bow"), "--workdir=again"), b""),
    "evaluate-cloze": (("evaluate", "--run=ga", "--scores=each.jsonl"), b""),
    "evaluate-answers": (("evaluate", "--predictions=answers.json", "--corpus=clicr", "--scores=each2.jsonl"), b""),
    "predict-pairs": (("predict", "--run=esim", "--attention"), PAIRS),
    "predict-bert": (("predict", "--run=bert"), PAIRS),
    "predict-queries": (("predict", "--run=sa", "--attention"), QUERIES),
    "predict-bad": (("predict", "--run=bow"), PAIRS.replace(b"\t", b" ")),
    "analyze-all": (("analyze", "all", *nli("esim_kd", OWN), *AFLITE, "--min_count=1", "--out=all"), b""),
    "analyze-public": (("analyze", "lexical", *nli("bow"), "--min_count=1", "--public", "--out=public"), b""),
    "analyze-cloze": (("analyze", "cloze-stats", "--corpus=clicr", "--out=cloze"), b""),
    "report-compare": (("report", "bow", "esim", "--compare", "--out=compared.html"), b""),
    "report-kinds": (("report", "esim", "--categories", "--out=kinds.html"), b""),
    "report-cloze": (("report", "ga"), b""),
    "report-table": (("report", "--table=3", "--runs=.", "--out=table.html"), b""),
    "benchmark": (("benchmark", "--models=bow", "--against=none", "--allow_load", "--mode=train", *TINY), b""),
    "report-public": (("report", "bow", "--public", "--json"), b""),
}  # fmt: skip
DOORS = ("prepare", "train", "evaluate", "predict", "analyze", "report", "doctor", "benchmark")
FAILS = {"predict-bad": 2, "doctor": 2}  # the corpora are open to others, and not of their official sizes


class Home:
    """data/ (corpora), work/ (where the doors run), cache/, home/, tmp/, guard/, and streams/, what they said."""

    def __init__(self, folder, umask):
        self.folder, self.umask = folder, umask
        for name in ("data", "work", "home", "tmp", "guard", "streams"):
            (folder / name).mkdir()
        write_pairs(folder / "data" / "mednli")
        write_articles(folder / "data" / "clicr")
        write_ontology(folder / "data")
        write_diseases(folder / "data" / "own")
        (folder / "guard" / "sitecustomize.py").write_text(GUARD)
        (folder / "work" / "ids.txt").write_text("test-1\ntest-4\n")
        (folder / "work" / "answers.json").write_text(json.dumps({"test0.0": "an answer"}))
        for path in (folder / "work").iterdir():  # not of the doors
            path.chmod(0o600)

    @property
    def environment(self):
        others = (errors.SHOW_ALL, "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR")  # compiled programs are scanned too
        folders = {"HOME": "home", "TMPDIR": "tmp", "MEDNLI_JAX_DATA": "data", "MEDNLI_JAX_CACHE": "cache"}
        return {
            **{name: value for name, value in os.environ.items() if name not in others},
            **{name: str(self.folder / place) for name, place in folders.items()},
            "PYTHONPATH": os.pathsep.join([str(self.folder / "guard"), str(ROOT)]),
            "JAX_LOGGING_LEVEL": "DEBUG",
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": FAST,
        }

    def knock(self, name, command, stdin=b""):
        """Runs a door, keeps what it said, and returns (exit code, stderr)."""
        with open(self.folder / "streams" / f"{name}.out", "wb") as out, open(self.said(name), "wb") as err:
            done = subprocess.run(
                [sys.executable, *command], input=stdin, stdout=out, stderr=err, cwd=self.folder / "work",
                env=self.environment, umask=self.umask, timeout=280,
            )  # fmt: skip
        return done.returncode, self.said(name).read_text(errors="replace")

    def said(self, name):
        return self.folder / "streams" / f"{name}.err"

    def knock_all(self, steps):
        for name, ((door, *flags), stdin) in steps.items():
            code, err = self.knock(name, ["-m", f"mednli_jax.{door}", *flags], stdin)
            assert code == FAILS.get(name, 0), f"{name}: {code}\n{err[-3000:]}"
            assert "NETWORK" not in err


def open_to_others(folder):
    paths = (path for path in (folder, *folder.rglob("*")) if not path.is_symlink())
    return [str(path) for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077]


def check(home):
    """Words only where they may be, and there they are; nothing of the doors' readable by others."""
    outputs = (r"(data|guard)(/.*)?",)  # which were not written by a door
    assert leaks(home.folder, (*outputs, *ALLOWED)) == {}
    written = [*(home.folder / "work").iterdir(), home.folder / "cache"]
    assert [name for path in written for name in open_to_others(path)] == []
    whole = leaks(home.folder, outputs)
    assert whole["cache/prepared/" + next((home.folder / "cache/prepared").glob("mednli-*")).name + "/vocabulary.json"]
    assert whole["work/bow/private/vocabulary.json"] > 300
    return whole


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """What three doors leave, under a umask of 0, all logs on and all sockets denied."""
    home = Home(tmp_path_factory.mktemp("canaries"), umask=0)
    home.knock_all(SHORT)
    return home


def test_words_stay_in_private_and_files_with_their_owner(home):
    whole = check(home)
    assert whole["work/lexical/private/lexical.json"] > 30
    assert "work/lexical/lexical.json" not in whole


def test_all_logs_were_on(home):
    """The search above had something to search: libraries log at their lowest level."""
    assert "DEBUG:jax" in home.said("train-bow").read_text()


def test_the_search_finds_what_is_planted(tmp_path):
    import base64
    import gzip
    import zipfile

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


def test_open_corpora_are_told_in_one_line(home):
    for name in ("train-bow", "analyze-lexical"):
        lines = [line for line in home.said(name).read_text().splitlines() if line.startswith("E-PRIV-001")]
        assert len(lines) == 1, name
        assert "readable by others: chmod " in lines[0]
    assert "E-PRIV-001" not in home.said("report").read_text()


@pytest.mark.parametrize("door", DOORS)
def test_help_asks_for_no_network(home, door):
    code, err = home.knock(f"help-{door}", ["-m", f"mednli_jax.{door}", "--help"])
    assert (code, "NETWORK" in err) == (0, False)


@pytest.mark.parametrize("call", ["socket.socket()", "socket.getaddrinfo('localhost', 80)"])
def test_the_network_is_denied(home, call):
    code, err = home.knock("network", ["-c", f"import socket; {call}"])
    assert code == DENIED
    assert err.startswith("NETWORK socket.")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_words_stay_in_private_whatever_is_asked(tmp_path):
    """Every door and kind of model, under the umask of most machines."""
    home = Home(tmp_path, umask=0o022)
    home.knock_all({**SHORT, **LONG})
    script = [str(ROOT / "launch" / "build_diskne.py"), "--out=diskne", "--corpus=file", "--data=../data/own"]
    more = ["--ontology=../data/own.tsv", "--categories=../data/own/kinds.tsv", "--negatives=random", "--fold=all"]
    code, err = home.knock("build", [*script, *more])
    assert code == 0, err
    folds = (config("diskne_esim", "file"), "--config.data.dir=diskne", *SMALL, "--config.seeds=0")
    home.knock_all({"train-folds": (("train", *folds, "--config.model.hidden_size=4", "--workdir=folds"), b"")})
    whole = check(home)
    for name in ("data.json", "result.json", "report.html"):
        assert found_in((tmp_path / "work" / "folds" / name).read_bytes()) <= NAMES, name
    for name in ("ga/private/vocabulary.json", "sa/private/types.json", "all/private/lexical.json"):
        assert whole[f"work/{name}"], name
    assert whole["work/diskne/examples.jsonl"]
    records = [path.relative_to(tmp_path) for path in tmp_path.rglob("*array_record*") if path.is_file()]
    assert records  # which are compressed, so that no word is found in them: they are where they belong
    assert all(path.parts[:2] == ("cache", "tfds") for path in records)


# ---- injected faults ----


def key_error():
    raise KeyError(WORDS[0])


def value_error():
    raise ValueError(f"could not convert: {SENTENCE!r}")


def chained(*_):
    try:
        key_error()
    except KeyError as error:
        raise RuntimeError(SENTENCE, {"premise": SENTENCE}) from error


def undecodable():
    f"{SENTENCE} é".encode("latin-1").decode("utf-8")


def refused():
    raise OSError(SENTENCE)


FAULTS = (key_error, value_error, chained, undecodable, refused)
BOW = ("train", *nli("bow"), "--workdir=new")
KD = ("prepare", *nli("esim_kd", OWN), "--config.data.max_length=49")
GA = ("prepare", config("ga_ent", "clicr"), *CLOZE[:2], "--config.data.max_query=99")
NEW = ("prepare", *nli("bow", "--config.data.max_length=48"))
LEXICAL = ("analyze", "lexical", *nli("bow"), "--min_count=1")
POINTS = {
    "reader": (NEW, "mednli_jax.corpora.nli.readers.load_nli"),
    "a row's tokens": (NEW, "mednli_jax.corpora.nli.readers.binary_parse_tokens"),
    "encoder": (NEW, "mednli_jax.corpora.nli.encoding.encode_corpus"),
    "sentences": (NEW, "mednli_jax.corpora.nli.encoding.encode_sentences"),
    "vocabulary": (NEW, "mednli_jax.text.Vocab.save"),
    "cache": (NEW, "mednli_jax.corpora.cache._write"),
    "ontology": (KD, "mednli_jax.corpora.nli.concepts.load_ontology"),
    "linker": (KD, "mednli_jax.corpora.nli.corpus.Linker"),
    "a sentence's concepts": (KD, "mednli_jax.knowledge.linking.Linker.link"),
    "links": (KD, "mednli_jax.corpora.nli.encoding.links_of"),
    "reader of articles": (GA, "mednli_jax.corpora.cloze.clicr.load"),
    "an article": (GA, "mednli_jax.corpora.cloze.clicr._Reader.take"),
    "encoder of articles": (GA, "mednli_jax.corpora.cloze.corpus.encode_cloze"),
    "program": (BOW, "mednli_jax.experiment.Experiment.program"),
    "what prediction needs": (BOW, "mednli_jax.experiment.Experiment.keep_for_prediction"),
    "trainer": (BOW, "mednli_jax.training.loop.Trainer.run"),
    "batches": (BOW, "mednli_jax.corpora.batching.Batches.epoch"),
    "loss": (BOW, "mednli_jax.tasks.nli.NLITask.loss"),
    "a run's corpus": (("evaluate", "--run=bow"), "mednli_jax.finished_run.FinishedRun.on_own_corpus"),
    "scores": (("evaluate", "--run=bow"), "mednli_jax.finished_run.ScoredCorpus.scores"),
    "partition": (("evaluate", "--run=bow", "--partition=ids.txt"), "mednli_jax.corpora.nli.partitions.read_partition"),
    "new pairs": (("predict", "--run=bow"), "mednli_jax.predict.read_pairs"),
    "a new pair's tokens": (("predict", "--run=bow"), "mednli_jax.tasks.nli.NewPairs.examples_of"),
    "statistics": (("analyze", "stats", *nli("bow")), "mednli_jax.analysis.corpus_stats.statistics"),
    "tokens": (LEXICAL, "mednli_jax.analysis.artifacts.lexical.pmi"),
    "section": (LEXICAL, "mednli_jax.analysis.artifacts.findings._token_section"),
    "page of a run": (("report", "bow"), "mednli_jax.analysis.html.render"),
    "predictions": (("report", "bow", "bow", "--compare"), "mednli_jax.analysis.outcomes.read_outcomes"),
    "inventory": (("doctor",), "mednli_jax.corpora.inventory.corpora"),
}
LATE = {  # behind an epoch of training
    "an epoch's row": (BOW, "mednli_jax.runs.RunDirectory.append_metrics"),
    "curves": (BOW, "mednli_jax.runs.RunDirectory.write_scalars"),
    "checkpoint": (BOW, "mednli_jax.training.checkpoint.Checkpoints.save"),
    "score": (BOW, "mednli_jax.tasks.nli.NLITask.score"),
    "rows of predictions": (BOW, "mednli_jax.tasks.nli.NLITask.predictions"),
    "page": (BOW, "mednli_jax.analysis.html.run_page"),
}


@pytest.fixture
def told(home, tmp_path, monkeypatch, capfd):
    """told(flags, ...) -> (exit code, what was said) of a door in this process, beside the finished run of `home`."""
    from mednli_jax import analyze, doctor, evaluate, predict, prepare, report, train

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(home.folder / "data"))
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(home.folder / "cache"))
    monkeypatch.delenv(errors.SHOW_ALL, raising=False)
    (tmp_path / "bow").symlink_to(home.folder / "work" / "bow")
    (tmp_path / "ids.txt").write_text("test-1\n")
    data = tmp_path.parent / "data"  # that `../data` names
    data.symlink_to(home.folder / "data")
    modules = (analyze, doctor, evaluate, predict, prepare, report, train)
    doors = {module.__name__.rpartition(".")[2]: module for module in modules}

    def call(door, *flags):
        monkeypatch.setattr(sys, "argv", [door, *flags])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PAIRS)))
        code = cli.run(doors[door].main, doors[door].USAGE, doors[door].define, words=9)
        return code, "".join(capfd.readouterr())

    mask, factory = os.umask(0o077), logging.getLogRecordFactory()
    hooks = ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook"), (warnings, "formatwarning"))
    for module, name in hooks:  # which a door sets for good
        monkeypatch.setattr(module, name, getattr(module, name))
    yield call
    data.unlink()  # other modules make a folder of that name there
    os.umask(mask)
    logging.setLogRecordFactory(factory)


def check_fault(told, home, tmp_path, monkeypatch, point, fault):
    command, place = point
    raised = []

    def raising(*arguments, **more):
        raised.append(place)
        fault()

    monkeypatch.setattr(place, raising)
    code, said = told(*command)
    assert (code in (1, 2), bool(raised)) == (True, True), said
    assert found_in(said.encode()) == set(), said
    assert "Traceback" not in said
    if code == 1:
        (line,) = [line for line in said.splitlines() if line.startswith("E-BUG-001 ")]
        assert " Fix: " in line
    assert leaks(tmp_path, (*ALLOWED, r".*\bprivate(/.*)?", "bow(/.*)?")) == {}
    assert leaks(home.folder / "cache", [p.removeprefix("cache/") for p in ALLOWED]) == {}


@pytest.mark.parametrize(("point", "number"), [(point, i) for i, point in enumerate(POINTS)], ids=list(POINTS))
def test_a_fault_is_told_without_the_text_it_quotes(told, home, tmp_path, monkeypatch, point, number):
    """One kind of fault at each place; a train that fails says so in result.json, too."""
    check_fault(told, home, tmp_path, monkeypatch, POINTS[point], FAULTS[number % len(FAULTS)])
    if (tmp_path / "new" / "result.json").exists():
        assert json.loads((tmp_path / "new" / "result.json").read_text())["status"] == "failed"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("point", {**POINTS, **LATE})
def test_any_fault_anywhere_is_told_without_the_text(told, home, tmp_path, monkeypatch, point, fault):
    check_fault(told, home, tmp_path, monkeypatch, {**POINTS, **LATE}[point], fault)


def test_what_the_machine_refuses_is_one_line_of_ours(told, monkeypatch):
    """The system's words for it, not those of the exception; a name only where there is such a file."""
    for name, expected in ((SENTENCE, "a file"), ("ids.txt", "ids.txt")):

        def full(_, name=name):
            raise OSError(28, SENTENCE, name)

        monkeypatch.setattr("mednli_jax.analysis.corpus_stats.statistics", full)
        code, said = told("analyze", "stats", *nli("bow"))
        assert (code, found_in(said.encode())) == (2, set())
        assert f"{expected}: No space left on device. Fix: " in said


def test_everything_is_shown_where_text_may_be_shown(told, monkeypatch):
    monkeypatch.setattr("mednli_jax.analysis.corpus_stats.statistics", chained)
    monkeypatch.setenv(errors.SHOW_ALL, "1")
    code, said = told("analyze", "stats", *nli("bow"))
    assert code == 1
    assert SENTENCE in said
    assert said.count("Traceback") == 2
    assert "RuntimeError in mednli_jax/analysis/analyses.py:" in said


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
    code, err = home.knock("own", ["-c", PYTHONS_OWN])
    assert code == 1
    assert (home.folder / "streams" / "own.out").read_text() == "0\n"
    assert found_in(err.encode()) == set(), err
    assert err.count("KeyError in ") >= 2  # the thread's, and the object's that went
    assert "LookupError in " in err
    assert "warning: UserWarning in " in err
    assert err.count("ValueError in <string>:") == 9


def test_a_process_of_many_tells_as_one_alone(capfd):
    from mednli_jax.training.hosts import Hosts

    Hosts().report(KeyError(SENTENCE))
    said = capfd.readouterr().err
    assert said.startswith("KeyError")
    assert found_in(said.encode()) == set()


# ---- pictures, permissions, exports ----


def test_pictures_for_others_have_no_word_drawn(told, monkeypatch):
    """Words in a picture are no bytes to search for: what is drawn is looked at while it is drawn."""
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    words, before = {}, Figure.savefig

    def watched(figure, buffer, *arguments, **more):
        before(figure, buffer, *arguments, **more)
        drawn = " ".join(text.get_text() for text in figure.findobj(Text))
        words[buffer.getvalue()] = found_in(drawn.encode())

    monkeypatch.setattr(Figure, "savefig", watched)
    code, said = told(*LEXICAL, "--smoothing=1", "--out=drawn")
    assert code == 0, said
    pictures = {path: words[path.read_bytes()] for path in Path("drawn").rglob("*.png")}
    assert {path.parent.name: bool(found) for path, found in pictures.items()} == {"private": True}
    code, said = told("analyze", "lengths", *nli("bow"), "--out=drawn2")
    assert code == 0, said
    assert [bool(words[path.read_bytes()]) for path in Path("drawn2").rglob("*.png")] == [False]


def test_the_compile_cache_is_closed_whoever_made_it(tmp_path, monkeypatch):
    from mednli_jax import experiment

    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setattr(experiment.jax.config, "update", lambda *_: None)  # would count for the whole suite
    (tmp_path / "compiled").mkdir(mode=0o755)
    (tmp_path / "compiled").chmod(0o755)
    assert stat.S_IMODE(experiment.use_compile_cache().stat().st_mode) == 0o700


@pytest.fixture
def closed(tmp_path):
    """A data folder for its owner alone, with a corpus and a terminology."""
    for name in ("mednli", "umls", "snli"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "file").write_text("")
    for path in (tmp_path / "data", *(tmp_path / "data").rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path / "data"


def test_a_closed_folder_is_no_news(closed, capsys):
    (closed / "snli" / "file").chmod(0o644)
    inventory.warn(closed, ("mednli", "mesh", "umls"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["mednli", "umls"])
def test_what_is_read_is_warned_of_once_and_what_is_not_is_not(closed, capsys, name):
    (closed / name / "file").chmod(0o644)
    other = {"mednli": "umls", "umls": "mednli"}[name]
    inventory.warn(closed, (other, "snli"))
    assert capsys.readouterr().err == ""
    for _ in range(3):
        inventory.warn(closed, (name,))
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"{closed}: holds licensed text; 1 files or folders are readable by others: chmod -R go-rwx {closed / name}."
    )


def test_a_work_tree_is_warned_of(closed, capsys):
    (closed.parent / ".git").mkdir()
    inventory.warn(closed, ("mednli",))
    assert "the folder lies in a git work tree: licensed text could be committed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        ("bow", {}, ("mednli",)),
        ("bow", {"data.mix": "snli"}, ("mednli", "snli")),
        ("esim", {"knowledge.ontology": "umls", "model.knowledge": "bias"}, ("mednli", "umls")),
        ("esim", {"knowledge.ontology": "umls", "data.name": "mediqa_nli"}, ("mediqa_nli", "mednli")),
    ],
)
def test_what_a_config_reads_is_what_is_looked_at(closed, monkeypatch, model, fields, expected):
    from mednli_jax.experiment import nli_corpus

    asked = defaults.nli(model, "mednli")
    asked.update_from_flattened_dict(fields)
    asked.data.dir = str(closed)
    seen = []
    monkeypatch.setattr(inventory, "warn", lambda folder, names: seen.append((folder, names)))
    nli_corpus(asked).warn_of_readers()
    assert seen == [(closed, tuple(sorted(expected)))]


def test_a_public_report_has_scores_and_counts_of_ten_and_nothing_else(tmp_path, monkeypatch, capsys):
    from made_up_runs import edit, write_run
    from test_report import check_offline

    from mednli_jax import report

    monkeypatch.chdir(tmp_path)
    gold = "e" * 30 + "n" * 30 + "c" * 30
    said = "e" * 10 + "n" * 10 + "c" * 10
    write_run(tmp_path / "run", said * 3, gold=gold, uids=[f"{WORDS[i]}" for i in range(90)], corpus="mednli")
    edit(tmp_path / "run" / "env.json", devices=["cpu:host-of-mine"], platform="Linux-mine")
    edit(tmp_path / "run" / "config.json", data={"name": "mednli", "dir": "/home/someone"},
         model={"name": "esim", "weights": "someone", "hidden_size": 4, "knowledge": "bias"})  # fmt: skip

    def told(*arguments):
        monkeypatch.setattr(sys, "argv", ["report", *arguments])
        code = cli.run(report.main, report.USAGE, report.define, words=sys.maxsize)
        return code, *capsys.readouterr()

    code, out, err = told("run", "--public", "--json")
    assert (code, err) == (0, "written: run/public.html\n")
    found, page = json.loads(out), (tmp_path / "run" / "public.html").read_text()
    check_offline(page)
    assert found["scores"]["test"]["accuracy"]["mean"] == pytest.approx(1 / 3)
    assert found["scores"]["test"]["confusion"] == [[10] * 3] * 3
    assert found["settings"]["model"] == {"name": "esim", "hidden_size": 4, "knowledge": "bias"}
    for text in (out, page):
        assert found_in(text.encode()) == set()
        for word in ("someone", "mine", "run/", "--config", str(tmp_path), "2026-01-02", "0.10.2"):
            assert (word in text) == (word == "0.10.2"), word
    for more in (("run",), ("--categories",)):
        code, _, err = told("run", "--public", *more)
        assert (code, err.partition(" ")[0]) == (2, "E-REP-018")
    write_run(tmp_path / "few", said * 3, gold=gold[:29] + "n" + gold[30:])  # nine of a kind
    code, out, _ = told("few", "--public", "--json")
    assert "confusion" not in json.loads(out)["scores"]["test"]
    write_run(tmp_path / "tiny", "eeennnccc")
    assert json.loads(told("tiny", "--public", "--json")[1])["scores"] == {}


def test_a_family_with_a_small_part_is_left_out_whole():
    from mednli_jax.analysis import public

    def scores(examples):
        return {"examples": examples, "accuracy": {"mean": 0.5, "sd": 0.0, "per_seed": [0.5]}, "missing": 3}

    families = {"length": {"1": scores(90), "2": scores(10)}, "type": {"a": scores(91), "b": scores(9)}}
    found = public.scores({**scores(100), "families": families}, seeds=1)
    assert list(found["families"]) == ["length"]
    assert "missing" not in found
    assert public.scores(scores(9), seeds=1) == {}


def test_a_public_table_has_the_papers_cells_alone():
    from mednli_jax.analysis import public

    cells = [{"run": "esim", "row": "test"}, {"run": "ward-esim", "row": "ward"}]
    found = public.table({"cells": cells, "pairs": {"dev": 9, "test": 10}, "lacking": {"x": ["y"]}}, ["esim"])
    assert found == {"cells": cells[:1], "pairs": {"test": 10}, "lacking": {}, "notes": []}


def test_a_public_table_names_no_folder(tmp_path, monkeypatch, capsys):
    from made_up_runs import write_run

    from mednli_jax import report

    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "secret" / "esim", "eennnnccn", corpus="mednli")
    said = []
    for more in ((), ("--json",)):
        flags = ["report", "--table=3", "--runs=secret", "--public", "--out=table.html", *more]
        monkeypatch.setattr(sys, "argv", flags)
        assert cli.run(report.main, report.USAGE, report.define, words=sys.maxsize) == 0
        said.append(capsys.readouterr().out)
    said.append((tmp_path / "table.html").read_text())
    for text in said:
        assert "ESIM" in text
        assert "secret" not in text


def test_a_public_report_has_no_average_over_few_and_no_cell_that_could_be_told():
    from mednli_jax.analysis import public

    def category(diseases, positives):
        one = {"positives": positives, "negatives": 50}
        return {"macro": {"mean": 1.0}, "diseases": {str(number): one for number in range(diseases)}}

    found = {"categories": {"one": category(1, 20), "few": category(2, 4), "kept": category(2, 5)}}
    assert list(public.figures(found, {}, {})["categories"]) == ["kept"]
    classes = {label: {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 50} for label in "abc"}
    accuracy = {"mean": 0.5, "sd": 0.0, "per_seed": [0.5]}
    split = {"examples": 150, "accuracy": accuracy, "per_class": classes}
    part = {name: {"examples": 75, "accuracy": accuracy} for name in ("x", "y")}
    split["families"] = {"semantic type": part, "answer length": part}
    cells = [[30, 10, 10], [10, 30, 10], [10, 10, 30]]
    shown = public.scores({**split, "confusion": cells}, seeds=1)
    assert {"confusion", "per_class"} <= set(shown)
    assert list(shown["families"]) == ["answer length"]
    cells[0] = [31, 10, 9]
    assert not {"confusion", "per_class"} & set(public.scores({**split, "confusion": cells}, seeds=1))
