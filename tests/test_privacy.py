"""No word of a corpus gets out: not in what commands write or print, whatever fails, and no command
opens a socket.

The commands run on corpora of 500 words that occur nowhere else; every byte that they leave is
searched for them.
"""

import os
import re
import shlex
import subprocess
import sys

import pytest
from support.canaries import NAMES, SENTENCE, WORDS, content, leaks, words_in, write_corpora
from support.commands import (
    IMPORTS,
    ROOT,
    call_command,
    environment_of,
    use_one_device,
)

from mednli_jax import errors, predict, prepare, train
from mednli_jax.report import __main__ as report

# The files that may hold words, and why. All are 0600 in folders of 0700, below the cache or below
# a private/.
ALLOWED_OF_CACHE = (
    r"prepared/[^/]+/(vocabulary|rows)\.json",  # the words of prepared arrays; their uids and tags
    r"prepared/clicr-[^/]+/(answer|candidate)_text\.npy",  # phrases as code points for scoring
    r"tfds/.*",  # the corpus as TFDS stores it
    r"ontologies/[^/]+/.*",  # names of concepts
    r"prepared/diskne-[^/]+/manifest\.json",  # names of diseases, as in work/folds
)
ALLOWED = (
    r"work/.*\bprivate(/.*)?",  # predictions, vocabulary, attention and tables of runs and analyses
    r"work/diskne/(examples\.jsonl|benchmark\.json|dropped\.tsv)",  # a corpus made from another
    r"streams/predict-.*\.out",  # the answers that the user asked for
    # Tables of DisKnE are by disease: the terminology's names of the diseases, and no other word.
    r"work/folds/(data\.json|result\.json|report\.html)",
    *(f"cache/{pattern}" for pattern in ALLOWED_OF_CACHE),
)
OF_OTHERS = (r"(data|guard|\.git)(/.*)?",)  # no command wrote these

VECTORS = "--config.vectors.path= --config.vectors.dim=8"
ONE_EPOCH = "--config.train.epochs=1 --config.train.max_buckets=1"
SMALL = f"{VECTORS} {ONE_EPOCH} --config.model.hidden_size=4 --config.seeds=0"
OWN = "--config.knowledge.ontology=../data/own.tsv"
BOW = f"--config=bow:mednli {SMALL}"
ESIM = f"--config=esim_kd:mednli {SMALL} {OWN}"
SMALL_BERT = """--config.data.pieces=300 --config.model.layers=1 --config.model.hidden_size=8
    --config.model.attention_heads=2 --config.model.intermediate_size=8"""
BUILT = "--corpus=file --data=../data/own --ontology=../data/own.tsv --negatives=random"
PAIRS = f"{SENTENCE}\t{WORDS[7]} {WORDS[400]}\n"
QUERIES = f"BEG__{WORDS[0]}__END {SENTENCE} .\t{WORDS[9]} had @placeholder .\n"
# The commands in their order, by name. Every suite runs the first, the slow test all.
COMMANDS = {
    "train-bow": f"train {BOW} --workdir=bow",
    "report": "report bow",
    "doctor": "doctor",
    "prepare": f"prepare {ESIM}",
    "train-esim": f"train {ESIM} --workdir=esim",
    "train-tfds": f"train {BOW} --config.data.builder=tfds --workdir=tfds",
    "train-bert": f"train --config=encoder:mednli {ONE_EPOCH} {SMALL_BERT} --workdir=bert",
    "train-features": f"train --config=features:mednli {VECTORS} {OWN} --config.model.trees=4"
    " --workdir=trees",
    "train-ga": f"train --config=ga:clicr {SMALL} --config.train.batch_size=4 --workdir=ga",
    "dry-run": f"train {ESIM} --workdir=none --dry-run",
    "evaluate": "evaluate --run=bow --partition=ids.txt --json",
    "evaluate-cloze": "evaluate --run=ga",
    "predict-pairs": "predict --run=esim --attention",
    "predict-queries": "predict --run=ga",
    "predict-bad": "predict --run=bow",
    "analyze-all": f"analyze all {ESIM} --m=30 --n=4 --k=9 --tau=.6 --min_count=1 --out=all",
    "analyze-public": f"analyze lexical {BOW} --min_count=1 --public --out=p",
    "analyze-cloze": "analyze cloze-stats --corpus=clicr --out=cloze",
    "report-compare": "report bow esim --compare --out=compared.html",
    "report-cloze": "report ga",
    "report-table": "report --table=3 --runs=. --out=table.html",
    "report-public": "report bow --public --json",
    "build": f"build_diskne --out=diskne {BUILT}",
    "train-folds": f"train --config=diskne_esim:file {SMALL} --config.data.dir=diskne"
    " --workdir=folds",
}
INPUT = {
    "predict-pairs": PAIRS,
    "predict-queries": QUERIES,
    "predict-bad": PAIRS.replace("\t", " "),
}
# The corpora that `doctor` sees are readable by others and do not have their official sizes.
FAILS = {"predict-bad": 2, "doctor": 2}
# The sitecustomize.py of every command. It switches all logs on, and ends the process where it
# opens a network socket. A socketpair of AF_UNIX is allowed: asyncio (for Orbax) wakes its own loop
# by it.
GUARD = """
import logging, os, socket, sys
logging.basicConfig(level=logging.DEBUG)
def deny(event, arguments):
    opened = event == "socket.__new__" and arguments[1] != socket.AF_UNIX
    if opened or event in ("socket.connect", "socket.getaddrinfo"):
        os._exit(97)
sys.addaudithook(deny)
"""


class Home:
    """data/ (corpora), work/ (where commands run), cache/, guard/, and streams/ (what commands
    print)."""

    def __init__(self, folder, umask):
        self.folder, self.umask = folder, umask
        for name in ("data", "work", "guard", "streams"):
            (folder / name).mkdir()
        write_corpora(folder / "data")
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        (folder / "guard" / "sitecustomize.py").write_text(GUARD)
        (folder / "work" / "ids.txt").write_text("test-1\ntest-4\n")
        (folder / "work" / "ids.txt").chmod(0o600)

    def python(self, name, *arguments):
        """Runs Python without network and with all logs on, and stores its output: (exit code,
        stderr)."""
        environment = {
            **os.environ,
            **environment_of(self.folder),
            "PYTHONPATH": f"{self.folder / 'guard'}{os.pathsep}{IMPORTS['PYTHONPATH']}",
            "JAX_LOGGING_LEVEL": "DEBUG",
            "JAX_PLATFORMS": "cpu",
        }
        environment.pop(errors.SHOW_ALL, None)
        streams = self.folder / "streams"
        with (
            open(streams / f"{name}.out", "wb") as stdout,
            open(streams / f"{name}.err", "wb") as stderr,
        ):
            done = subprocess.run(
                [sys.executable, *arguments],
                input=INPUT.get(name, "").encode(),
                stdout=stdout,
                stderr=stderr,
                cwd=self.folder / "work",
                env=environment,
                umask=self.umask,
                timeout=280,
            )
        return done.returncode, (streams / f"{name}.err").read_text(errors="replace")

    def run(self, name):
        command, *flags = shlex.split(COMMANDS[name])
        script = ROOT / "launch" / "data" / f"{command}.py"
        program = [str(script)] if script.is_file() else ["-m", f"mednli_jax.{command}"]
        code, err = self.python(name, *program, *flags)
        assert code == FAILS.get(name, 0), f"{name}: {code}\n{err[-3000:]}"

    def check(self):
        """Words occur in allowed files alone; other users can read nothing; git adds no folder of
        ours. Returns {file: number of words}, for all files that commands wrote."""
        assert leaks(self.folder, (*OF_OTHERS, *ALLOWED)) == {}
        assert [str(path) for path in self.written() if path.stat().st_mode & 0o077] == []
        assert re.findall(r"add '(?:cache|work/[^']+)/.*", self.added_by_git()) == []
        words = leaks(self.folder, OF_OTHERS)
        assert words["work/bow/private/vocabulary.json"] > 300  # the search finds words
        return words

    def written(self):
        for top in (*(self.folder / "work").iterdir(), self.folder / "cache"):
            yield from (path for path in (top, *top.rglob("*")) if not path.is_symlink())

    def added_by_git(self):
        command = ["git", "add", "-A", "-n"]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=True
        ).stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The files of a training that ran with a umask of 0, all logs on and all sockets denied."""
    home = Home(tmp_path_factory.mktemp("canaries"), umask=0)
    home.run("train-bow")
    return home


def test_text_of_a_corpus_stays_in_private_folders_and_files_with_their_owner(home):
    home.check()
    assert "DEBUG:jax" in (home.folder / "streams" / "train-bow.err").read_text()  # logs were on
    code, _ = home.python("network", "-c", "import socket; socket.getaddrinfo('localhost', 80)")
    assert code == 97


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_text_of_a_corpus_stays_in_private_folders_whatever_is_asked(tmp_path):
    """Runs every command and kind of model, under the umask of most machines."""
    home = Home(tmp_path, umask=0o022)
    for name in COMMANDS:
        home.run(name)
    words = home.check()
    for name in ("data.json", "result.json", "report.html"):
        assert words_in(content(tmp_path / "work" / "folds" / name)) <= NAMES, name
    for name in ("ga/private/vocabulary.json", "all/private/lexical.json", "diskne/examples.jsonl"):
        assert words[f"work/{name}"], name


# ---- injected faults ----


def value_error(*_, **__):
    raise ValueError(f"could not convert: {SENTENCE!r}")


def chained(*_, **__):
    try:
        raise KeyError(WORDS[0])
    except KeyError as error:
        raise RuntimeError(SENTENCE, {"premise": SENTENCE}) from error


def full_disk(*_, **__):
    raise OSError(28, SENTENCE)


@pytest.fixture
def beside(home, tmp_path, monkeypatch):
    """The working folder of commands in this process lies beside `data`, with the finished run bow/
    of `home`."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    use_one_device(monkeypatch)
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(home.folder / "data"))
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(home.folder / "cache"))
    monkeypatch.delenv(errors.SHOW_ALL, raising=False)
    (tmp_path / "data").symlink_to(home.folder / "data")
    (tmp_path / "work" / "bow").symlink_to(home.folder / "work" / "bow")
    return tmp_path


LONGER = "--config.data.max_length=48"  # a corpus that is not in the cache


@pytest.mark.parametrize(
    "function, fault, code, command, line",
    [
        ("data.text.Vocab.save", value_error, 1, prepare, f"{BOW} {LONGER}"),
        ("knowledge.linking.Linker.link", chained, 1, prepare, f"{ESIM} {LONGER}"),
        ("rundir.RunDirectory.append_metrics", full_disk, 2, train, f"{BOW} --workdir=new"),
        ("predict.read_chunks", value_error, 1, predict, "--run=bow"),
        ("report.outcomes.read_outcomes", chained, 1, report, "bow bow --compare"),
    ],
)
def test_a_fault_is_reported_without_the_text_it_quotes(
    home, beside, monkeypatch, function, fault, code, command, line
):
    monkeypatch.setattr(f"mednli_jax.{function}", fault)

    outcome = call_command(command, *shlex.split(line), stdin=PAIRS)
    assert outcome.code == code, outcome
    assert words_in((outcome.out + outcome.err).encode()) == set(), outcome
    assert "Traceback" not in outcome.err
    (error,) = re.findall("^(?:bug|error): .*", outcome.err, re.MULTILINE)
    assert " Fix: " in error
    assert leaks(beside, (r".*\bprivate(/.*)?", "work/bow(/.*)?", "data(/.*)?")) == {}
    assert leaks(home.folder / "cache", ALLOWED_OF_CACHE) == {}


def test_everything_is_shown_where_text_may_be_shown(beside, monkeypatch):
    monkeypatch.setattr("mednli_jax.nli.analyses.statistics", chained)
    monkeypatch.setenv(errors.SHOW_ALL, "1")
    code, _, err = call_command("analyze stats", *shlex.split(BOW))
    assert code == 1
    assert SENTENCE in err
    assert err.count("Traceback") == 2


UNCAUGHT = f"""
import threading
from mednli_jax import cli

def work():
    thread = threading.Thread(target=lambda: {{}}["{WORDS[1]}"])
    thread.start(); thread.join()

print(cli.script(work))
raise LookupError("{WORDS[6]}") from KeyError("{WORDS[7]}")
"""


def test_errors_of_threads_and_of_the_interpreter_quote_no_corpus_text(home):
    code, err = home.python("own", "-c", UNCAUGHT)
    assert code == 1
    assert words_in(err.encode()) == set(), err
    assert "KeyError in " in err
    assert "LookupError in " in err
