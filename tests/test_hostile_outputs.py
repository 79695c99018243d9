"""Hostile corpora and run directories: nothing in them may act as a command on a terminal or in a page.

Corpora hold terminal escapes, HTML and the like in texts, uids, tags, labels and file names. Run directories hold them,
too, and also links, giant files and shapes, and settings that name other places.
"""

import html
import io
import json
import os
import re
import resource
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from made_up_commands import call_command, config_flag, environment_of, own_pair, run_command, use_one_device
from made_up_runs import edit

from mednli_jax import analyze, errors, evaluate, predict, prepare, report, train
from mednli_jax.errors import UserError, printable
from mednli_jax.files import read_sealed, sha256, write_sealed
from mednli_jax.progress import Bar
from mednli_jax.runs import RunDirectory, environment

SMALL = ("--config.vectors.path=", "--config.vectors.dim=4", "--config.model.hidden_size=4", "--config.train.epochs=1",
         "--config.train.batch_size=16", "--config.train.max_buckets=1", "--config.seeds=0")  # fmt: skip
MARK = "zqx"  # occurs in each payload
MOST = 600 << 20  # bytes of memory that a hostile run may take in addition
PAYLOADS = {
    "script": f"<script>document.title='{MARK}'</script>",
    "an image that runs": f"\"><img src=x onerror=document.title='{MARK}'>",
    "an attribute": f"' onmouseover='{MARK}' \" autofocus onfocus=\"{MARK}",
    "out of a drawing": f"</title></desc></text></svg><svg onload=document.title='{MARK}'>",
    "out of a style": f"</style><style>*{{display:none}}</style>{MARK}",
    "a comment": f"--><script>document.title='{MARK}'</script><!--",
    "a section of characters": f"]]><script>document.title='{MARK}'</script>",
    "a refresh": f"<meta http-equiv=refresh content=0;url=javascript:{MARK}>",
    "an address": f"<a href=javascript:document.title='{MARK}'>x</a><base href=//{MARK}>",
    "a template": f"{{{{ 7 * 191 }}}}{MARK}{{% for x in y %}}",
    "entities": f"&lt;script&gt;{MARK}&#x3c;&amp;",
    "a terminal's title": f"\x1b]0;{MARK}\x07\x1b[2J\x1b[31m",
    "eight-bit escapes": f"\x9b2J\x9d0;{MARK}\x9c",
    "backspaces": f"{MARK}\b\b\b\b\r\x7f\v\f",
    "direction of writing": f"\u202e{MARK}\u2066\u200f",
    "separators of lines": f"{MARK}\u2028\u2029\x85x",
    "markup of a bar": f"[bold red]{MARK}[/nothing][link=http://{MARK}]",
    "formats": f"%s%n{{0}}{{x}}${MARK}$\\frac{{1}}",
    "a formula": f"=cmd|'/c {MARK}'!A0 | {MARK}",
    "flags": f"--out={MARK} ; $({MARK}) `{MARK}`",
}
EVER = ("script", "a terminal's title")  # run in every suite; the others are slow
CASES = [pytest.param(text, id=name, marks=[pytest.mark.slow] * (name not in EVER)) for name, text in PAYLOADS.items()]
# The tags that pages of this package consist of.
TAGS = {
    *(
        "html",
        "head",
        "meta",
        "link",
        "title",
        "style",
        "body",
        "main",
        "section",
        "div",
        "h1",
        "h2",
        "p",
        "pre",
        "code",
    ),
    *("code", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"),
    *("svg", "desc", "g", "path", "text", "tspan", "use", "rect", "line", "circle", "defs"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "rel", "href", "xlink:href", "class", "id", "style", "scope"),
    *("tabindex", "role", "aria-label", "aria-labelledby", "viewbox", "d", "transform", "x", "y", "cx", "cy", "r"),
    *("width", "height", "fill", "stroke", "clip-path"),
}


class Page(HTMLParser):
    """A parser that refuses everything that pages of this package do not contain."""

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            assert MARK not in (value or "") or name == "aria-label", (tag, name, value)
        if tag in ("link", "use"):
            assert dict(attrs).get("href", "#").startswith(("data:,", "#"))

    def handle_comment(self, data):
        raise AssertionError(data)


def check_page(path):
    text = path.read_bytes().decode()
    assert text == printable(text)
    assert text.count("<meta http-equiv") == 1
    assert f"1337{MARK}" not in text  # what a template engine would make of the payload
    Page().feed(text)


def call(command, *flags, stdin="", codes=(0, 2)):
    """The output of a command. It must be printable, and the command must not report a bug."""
    code, out, err = call_command(command, *flags, stdin=stdin)
    assert code in codes, err
    assert not err.startswith("bug:")
    for text in (out, err):
        assert text == printable(text)
    return out + err


def write_corpus(folder, text):
    """Writes a corpus that has the text in its premises, hypotheses, uids and tags, and as the label of one pair."""
    folder.mkdir(parents=True)
    for split, size in (("train", 12), ("dev", 6), ("test", 6)):
        rows = []
        for number in range(size):
            label, premise, hypothesis = own_pair(split, number, ("gout", text))
            rows.append({"gold_label": label, "sentence1": f"{text} {premise}", "sentence2": f"{hypothesis} {text}",
                         "pairID": f"{split}{number}{text}", "genre": text})  # fmt: skip
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows[0]


def file_name(text):
    return text.replace("/", "|")[:60]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    use_one_device(monkeypatch)
    return tmp_path


@pytest.mark.timeout(600)
@pytest.mark.parametrize("text", CASES)
def test_a_hostile_corpus(text, here):
    """Commands prepare it, train and score on it, analyse and report it; then each of its faults is reported."""
    name = file_name(text)
    last = write_corpus(here / "own" / name, text)
    flags = (config_flag("bow", "file"), f"--config.data.dir=own/{name}", *SMALL)
    run = Path("runs") / name
    if text.splitlines() == [text]:
        call(train, *flags, f"--workdir={run}", codes=(0,))
        call(evaluate, f"--run={run}", "--json", codes=(0,))
        call(predict, f"--run={run}", stdin=f"{text} x\t{text}\n".replace("\r", "").replace("\v", ""))
        (here / "kinds.tsv").write_text(f"{last['pairID']}\t{text}\n")
        call(report, run, codes=(0,))
        call(report, run, "--categories_file=kinds.tsv")
        call(report, run, "--public", codes=(0,))
        shutil.copytree(run, f"{run}2")
        call(report, run, f"{run}2", "--compare", "--out=both.html", codes=(0,))
        call(analyze, "lexical", *flags, "--min_count=1", "--smoothing=1", "--out=lexical", codes=(0,))
        assert (run / "log.txt").read_text() == printable((run / "log.txt").read_text())
    else:
        call(prepare, *flags)
    for file, fault in (("dev", {"gold_label": text}), ("test", {"pairID": None})):
        path = here / "own" / name / f"{file}.jsonl"
        path.write_text(json.dumps({**last, **fault}) + "\n" + path.read_text())
        call(prepare, *flags, codes=(2,))
    call(prepare, *flags, f"--config.knowledge.ontology={name}.tsv", codes=(2,))
    call(prepare, *flags, f"--config.train.epoch={text}", codes=(2,))
    call(report, f"{run}3", codes=(2,))
    for page in here.rglob("*.html"):
        check_page(page)


@pytest.mark.parametrize("text", PAYLOADS.values(), ids=PAYLOADS)
def test_errors_and_streams_hold_no_command(text, capsys):
    for error in (UserError(text), errors.DataError(text, file=text), errors.DataErrors([UserError(text)])):
        assert str(error) == printable(str(error))
        assert len(str(error).split("\n")) == 1
    with Bar(f"reading {text}", 2) as bar:
        bar.advance(1, text)
    assert errors.PrintableStream(io.StringIO()).write(text) == len(printable(text))


def test_text_of_any_language_is_printable():
    for text in ("naïve Ödem 37 °C", "пневмония", "肺炎", "التهاب", "a\tb\n", "🫁"):
        assert printable(text) == text


def test_a_bar_takes_the_name_of_a_file_as_it_is(monkeypatch):
    """The terminal is one on which rich draws the bar."""
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", screen)
    with Bar("reading [/nothing]\x1b]0;x\x07", 2) as bar:
        bar.advance(1, "[/none]\x9b")
    assert "[/nothing]\\u001b]0;x\\u0007" in screen.getvalue()
    assert "[/none]\\u009b" in screen.getvalue()


# -- run directories ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a corpus in own/, and a run on it in run/."""
    folder = tmp_path_factory.mktemp("trained")
    write_corpus(folder / "own", "fever")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        use_one_device(patch)
        call(train, *FLAGS, "--workdir=run", codes=(0,))
    return folder


FLAGS = (config_flag("bow", "file"), "--config.data.dir=own", *SMALL)
CONFIG = "config.json"


def change(name, **values):
    """A damage that changes fields of a JSON file of a run; a field is written section__field."""

    def damage(run):
        tree = json.loads((run / name).read_text())
        for field, value in values.items():
            *sections, last = field.split("__")
            place = tree
            for section in sections:
                place = place[section]
            place[last] = value
        (run / name).write_text(json.dumps(tree))

    return damage


def write(name, content):
    return lambda run: (run / name).write_bytes(content)


def hollow(name):
    def damage(run):
        with open(run / name, "wb") as file:
            file.truncate(1 << 32)

    return damage


def link(name, to):
    """A damage that replaces a file or folder of a run by a link to a place outside."""

    def damage(run):
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.symlink_to(run.parent / "outside" / to)

    return damage


def kept(name, content):
    """A damage that replaces a file of private/ and updates its digest in the run."""

    def damage(run):
        (run / "private" / name).write_bytes(content)
        data = json.loads((run / "data.json").read_text())
        data["files"][name] = sha256(run / "private" / name)
        (run / "data.json").write_text(json.dumps(data))

    return damage


def shape(text):
    """The header of an array, and 64 bytes."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {text}, }}\n".encode()
    return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + bytes(64)


def objects():
    stream = io.BytesIO()
    np.save(stream, np.array([[{}]], object), allow_pickle=True)
    return stream.getvalue()


def checkpoint(of_array):
    """A damage that changes the headers of a checkpoint's arrays and seals it again."""

    def damage(run):
        import tensorstore

        (manifest,) = (run / "checkpoints").glob("*.manifest.json")
        folder = manifest.with_name(manifest.name.removesuffix(".manifest.json"))
        values = {name: value for name, value in read_sealed(manifest).items() if name != "sha256"}
        store = tensorstore.KvStore.open({"driver": "ocdbt", "base": f"file://{folder.absolute()}/"}).result()
        for key in store.list().result():
            if key.endswith(b".zarray") and b"params" in key:
                about = json.loads(store.read(key).result().value)
                store.write(key, json.dumps({**about, **of_array(about)}).encode()).result()
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        write_sealed(manifest, {**values, "files": {str(path.relative_to(folder)): sha256(path) for path in files}})

    return damage


def everywhere(text):
    """A damage that puts the text in place of every string of a run's files, except those needed to find things."""
    keep = ("status", "task", "nli", "file", "bow", "complete", "blanks", "label", "predicted")

    def damage(run):
        def spoilt(value):
            if isinstance(value, dict):
                return {key: item if key in (*keep, "files", "key") else spoilt(item) for key, item in value.items()}
            if isinstance(value, list):
                return [spoilt(item) for item in value]
            return text if isinstance(value, str) and value not in keep else value

        for name in ("result.json", "env.json", "data.json"):
            (run / name).write_text(json.dumps(spoilt(json.loads((run / name).read_text()))))
        for path in (run / "private").glob("predictions.*.jsonl"):
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            rows = [{**row, "uid": f"{row['uid']}{text}", "tags": [text]} for row in rows]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        edit(run / CONFIG, note=text)

    return damage


DEEP = b'{"status":' + b"[" * 100_000
HOSTILE = {
    **{f"{name} in all strings": everywhere(PAYLOADS[name]) for name in ("script", "an image that runs", *EVER[1:],
       "out of a drawing", "direction of writing", "a template")},
    "half a surrogate in all strings": everywhere("\ud800"),
    "a folder of data elsewhere": change(CONFIG, data__dir="../../../../etc"),
    "a file for the folder of data": change(CONFIG, data__dir="/etc/passwd"),
    "vectors elsewhere": change(CONFIG, vectors__path="/proc/self/environ"),
    "an ontology that is a device": change(CONFIG, knowledge__ontology="/dev/zero"),
    "a name of a corpus that climbs": change(CONFIG, data__name="../../outside"),
    "a model that is a module": change(CONFIG, model__name="os:system"),
    "a model that is a list": change(CONFIG, model__name=["bow"]),
    "a task that is none": change(CONFIG, task="../nli"),
    "a task that is an object": change(CONFIG, task={"nli": 1}),
    "a hidden size of 2^40": change(CONFIG, model__hidden_size=1 << 40),
    "a hidden size of others": change(CONFIG, model__hidden_size=8),
    "seeds that are text": change(CONFIG, seeds="x" * 1000),
    "a batch of 10^18": change(CONFIG, train__batch_size=10**18),
    "a prepared corpus that climbs": change("result.json", prepared="../../../outside", config="../../outside"),
    "best epochs of 10^18": change("result.json", best_epoch=[10**18], parameters=10**18),
    "figures that are text": change("result.json", test={"accuracy": "<script>"}, seconds="x"),
    "deep JSON": write("result.json", DEEP),
    "deep JSON of data": write("data.json", DEEP),
    "deep rows of metrics": write("metrics.jsonl", DEEP + b"\n"),
    "a hollow config": hollow(CONFIG),
    "a hollow result": hollow("result.json"),
    "hollow metrics": hollow("metrics.jsonl"),
    "hollow predictions": hollow("private/predictions.test.jsonl"),
    "a hollow vocabulary": hollow("private/vocabulary.json"),
    "vectors of objects": kept("vectors.npy", objects()),
    "vectors of 10^18 numbers": kept("vectors.npy", shape("(1000000000, 1000000000)")),
    "vectors of 400 GB": kept("vectors.npy", shape("(100000000000, 1)")),
    "vectors of one word": kept("vectors.npy", shape("(1, 4)")),
    "a head of vectors that is long": kept("vectors.npy", b"\x93NUMPY\2\0\xff\xff\xff\xff" + bytes(64)),
    "a vocabulary of numbers": kept("vocabulary.json", b"[1, 2, 3]"),
    "a deep vocabulary": kept("vocabulary.json", b"[" * 100_000),
    "weights of 4 TB": checkpoint(lambda about: {"shape": [1 << 40 for _ in about["shape"]]}),
    "weights of 80 GB in one chunk": checkpoint(lambda about: {"chunks": [20_000_000_000 for _ in about["chunks"]]}),
    "weights of no width": checkpoint(lambda about: {"shape": [0 for _ in about["shape"]]}),
    "weights of objects": checkpoint(lambda about: {"dtype": "|O"}),
    "a manifest of files elsewhere": lambda run: write_sealed(
        run / "checkpoints" / "1.manifest.json", {"files": {"../../../outside/kept": "0"}, "meta": {}}),
    "a lock that is a link": link("lock", "kept"),
    "a log that is a link": link("log.txt", "kept"),
    "metrics that are a link": link("metrics.jsonl", "kept"),
    "a page that is a link": link("report.html", "kept"),
    "checkpoints that are a link": link("checkpoints", "."),
    "a private folder that is a link": link("private", "."),
    "a result that is a device": link("result.json", "/dev/zero"),
    "a pipe": lambda run: os.mkfifo(run / "private" / "pipe"),
}  # fmt: skip
ALWAYS = ("script in all strings", "a lock that is a link", "vectors of 400 GB", "weights of 4 TB")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="measures memory")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in ALWAYS)) for name in HOSTILE]
)
def test_a_hostile_run(name, here, trained):
    shutil.copytree(trained / "own", here / "own")
    shutil.copytree(trained / "run", here / "run")
    shutil.copytree(trained / "run", here / "good")
    (here / "outside" / "1").mkdir(parents=True)
    (here / "outside" / "kept").write_text("kept")
    (here / "outside" / "1" / "kept").write_text("kept")
    HOSTILE[name](here / "run")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call(report, "run")
    call(report, "run", "--public")
    call(report, "good", "run", "--compare", "--out=both.html")
    call(report, "--table=3", "--runs=.", "--out=table.html")
    call(evaluate, "--run=run", "--split=dev")
    call(predict, "--run=run", stdin="gout\tfever\n")
    call(train, *FLAGS, "--workdir=run", "--resume")
    if "link" in name:
        call(train, *FLAGS, "--workdir=run", "--force")
    call(report, "run")
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < MOST
    there = {str(path.relative_to(here / "outside")) for path in (here / "outside").rglob("*")}
    assert there == {"1", "kept", "1/kept"}
    assert {path.read_text() for path in (here / "outside").rglob("*") if path.is_file()} == {"kept"}
    assert {path.name for path in here.iterdir()} <= {"own", "run", "good", "outside", "both.html", "table.html"}
    for page in here.rglob("*.html"):
        if not page.is_symlink():
            check_page(page)


def test_no_password_and_no_environment_is_written(trained, monkeypatch):
    url = "postgresql+psycopg2://me:s3cr:et@host/db"
    monkeypatch.setattr("sys.argv", ["train.py", f"--storage={url}", "--config.vectors.path=a@b"])
    assert environment()["command"] == ["train.py", "--storage=postgresql+psycopg2://me:***@host/db",
                                        "--config.vectors.path=a@b"]  # fmt: skip
    result = run_command("train", *FLAGS, "--workdir=other", f"--config.vectors.path={url}", cwd=trained,
                         A_SECRET="pa55word", **environment_of(trained))  # fmt: skip
    assert result.returncode == 2
    result = run_command(
        "train", *FLAGS, "--workdir=other", cwd=trained, A_SECRET="pa55word", **environment_of(trained)
    )
    assert result.returncode == 0
    for path in (trained / "other").rglob("*"):
        assert path.is_dir() or b"pa55word" not in path.read_bytes()


def test_a_run_may_itself_be_reached_through_a_link(trained, here):
    (here / "run").symlink_to(trained / "run")
    assert RunDirectory.existing(here / "run").status() == "complete"


CHROMIUM = shutil.which("chromium")
RUN_WHERE_UNESCAPED = {"script", "an image that runs", "out of a drawing", "a comment", "a section of characters"}


def opened(path, folder):
    """(title, document, whether a policy stopped something) of a page in headless Chromium."""
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--enable-logging=stderr")
    command = [CHROMIUM, *flags, f"--user-data-dir={folder}", "--dump-dom", path.absolute().as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=True)
    return title_of(done.stdout), done.stdout, "Content Security Policy" in done.stderr


def title_of(text):
    return html.unescape(text.partition("<title>")[2].partition("</title>")[0])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")
def test_a_browser_runs_no_script_of_a_page(trained, here, tmp_path_factory):
    """All strings and names of a run, and of a corpus, hold payloads; neither title nor document may change.

    Payloads must already be escaped; the page's policy, which also stops scripts, must have nothing to do.
    """
    browser = tmp_path_factory.mktemp("chromium")
    policy = re.search(r"<meta http-equiv=.*?>", (trained / "run" / "report.html").read_text())[0]
    noticed, stopped = set(), set()
    for name, text in PAYLOADS.items():  # the test notices a script that runs, and one that the policy stops
        for head, found in (("", noticed), (policy, stopped)):
            page = here / "unescaped.html"
            page.write_text(f'<!DOCTYPE html><meta charset="utf-8">{head}<title>x</title><p>{text}</p>')
            title, _, refused = opened(page, browser)
            found |= {name} if title == MARK or refused else set()
            assert not head or title == "x"
    page.unlink()
    assert noticed >= RUN_WHERE_UNESCAPED
    assert stopped >= RUN_WHERE_UNESCAPED
    for number, text in enumerate(PAYLOADS.values()):
        name = f"{number}{file_name(text)}"
        everywhere(text)(shutil.copytree(trained / "run", here / name))
        call(report, name, codes=(0,))
        assert MARK in (here / name / "report.html").read_text()
        call(report, name, f"--out={number}.html", "--public", codes=(0,))
    call(report, *(path.name for path in here.iterdir() if path.is_dir()), "--compare", "--out=compared.html")
    call(report, "--table=3", "--runs=.", "--out=table.html")
    everything = " ".join(text for text in PAYLOADS.values() if text.splitlines() == [text])
    write_corpus(here / "all", everything)
    flags = (config_flag("bow", "file"), "--config.data.dir=all", *SMALL)
    call(train, *flags, "--workdir=of_all", codes=(0,))
    call(report, "of_all", codes=(0,))
    pages = [path for path in here.rglob("*.html") if path.is_file()]
    for path in pages:
        title, document, refused = opened(path, browser)
        assert title == title_of(path.read_text()), path
        assert not refused, path
        Page().feed(document)
    print(f"\n{len(pages)} pages of {len(PAYLOADS)} payloads; unescaped, {len(noticed)} of these run")
    assert len(pages) > 2 * len(PAYLOADS)
