"""Damaged input: one table over every reader and command gives the error's class, file, line and field.

GENERIC damages are planted in every file of every reader. damage_rows.py adds damages of single formats, and
damage_commands.py those that only a command can meet. No error quotes a word of the text, and a refused command leaves
nothing on disk.
"""

import ast
import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from damage_commands import BASES, CASES, UNREADABLE
from damage_rows import ROWS, Row
from made_up_files import WORDS, as_bytes, assert_no_words, lay_out, pair, pairs, zipped
from made_up_readers import BINARY, BY_NAME, KEPT, READERS, SNOMED, STREAM, TEXT, gzipped

from mednli_jax import analyze, cli, doctor, evaluate, predict, prepare, report
from mednli_jax.analysis import kinds
from mednli_jax.errors import DataError, DataErrors, UserError
from mednli_jax.textfiles import MAX_LINE_BYTES

ROOT = Path(__file__).parent.parent
FOLDER = object()  # stands for a folder in place of a file
LOCKED = object()  # stands for a file without permissions; root can read it all the same

# ---- readers ----

GENERIC = {  # damage -> the content that replaces the good one; those in LAST are found in the last line of a file
    "missing": lambda good: None,
    "a folder": lambda good: FOLDER,
    "unreadable": lambda good: UNREADABLE,
    "without permissions": lambda good: LOCKED,
    "empty": lambda good: b"",
    "Latin-1": lambda good: good + b"\xe9\n",
    "a NUL": lambda good: good + b"\0\n",
    "a huge line": lambda good: good + b"a" * (MAX_LINE_BYTES + 1) + b"\n",
    "a gzip cut short": lambda good: zipped(good)[:-9],
    "a gzip with a wrong checksum": lambda good: zipped(good)[:-8] + bytes(8),
    "plain text named .gz": lambda good: good,
}
LAST = ("Latin-1", "a NUL", "a huge line")
GZIP = ("a gzip cut short", "a gzip with a wrong checksum", "plain text named .gz")
# gzip is recognised by content, not by name
BY_CONTENT = ("answers a.jsonl", "answers a.json", "vectors v.bin", "articles")
# Damages that are read without an error: the file is optional, may be empty, or may hold these bytes.
HARMLESS = {
    ("umls", "MRFILES.RRF"): ("missing", "a folder"),
    ("pieces tokenizer.json", "tokenizer_config.json"): ("missing", "a folder"),
    ("pieces vocab.txt", "vocab.txt"): ("a NUL", "a huge line"),
    ("articles", "a.json"): LAST,
    ("running text", "a.txt"): ("a NUL",),
    **{(name, file): ("empty",) for name, file in (
        ("wordnet", "index.noun"), ("wordnet", "index.verb"), ("concept vectors", "v.csv"), ("categories", "c.tsv"),
        ("skills", "k.tsv"), ("scores", "s.jsonl"), ("stdin of nli", "stdin"), ("stdin of cloze", "stdin"))},
}  # fmt: skip
# Damages that are reported elsewhere than in the damaged file or its last line. `files` is the folder itself.
ELSEWHERE = {
    ("mesh", "mesh.tsv", "empty"): ("mesh.tsv", 1),
    **{("pairs triples", f"{part}.train", "empty"): (f"{part}.train", 1) for part in ("s1", "s2", "labels")},
    ("pairs ground truth", "x.jsonl", "empty"): ("t.csv", 2),
    ("pairs ground truth", "t.csv", "empty"): ("x.jsonl", 1),
    ("answers a.jsonl", "a.jsonl", "Latin-1"): ("a.jsonl", None),
    ("vectors v.txt", "v.txt", "a NUL"): ("v.txt", None),
    ("vectors types.txt", "types.txt", "empty"): ("vectors.txt", None),
    **{("vectors types.txt", file, damage): ("vectors.txt", None)
       for file in ("types.txt", "vectors.txt") for damage in ("Latin-1", "a NUL")},
    **{("snomed", file, damage): (Path(file).name.replace("INT_20240101", "*"), None)
       for file in SNOMED for damage in ("missing", "a folder")},
    ("pretrained weights", "model.safetensors", "missing"): ("files", None),
    **{("pieces tokenizer.json", "tokenizer.json", damage): ("files", None) for damage in ("missing", "a folder")},
    **{("vectors v.npy", "v.vocab.txt", damage): ("v.npy", None) for damage in GENERIC
       if damage not in ("missing", "a folder", "unreadable", "without permissions", *GZIP)},
}  # fmt: skip


def product():
    """A row for each damage of each file of each reader, except harmless ones."""
    for reader in READERS:
        for file in sorted(reader.files.keys() - set(reader.good)):
            for damage, spoil in GENERIC.items():
                if row := generic(reader, file, damage, spoil):
                    yield row


def generic(reader, file, damage, spoil):
    named = damage in GZIP and (reader.gzip == ".gz" or "named" in damage)
    if (
        reader.kind == KEPT
        or (reader.kind == STREAM and damage not in LAST)
        or (reader.kind == BINARY and damage in LAST and not file.endswith(".txt"))
        or (damage in GZIP and not reader.gzip)
        or ("named" in damage and reader.gzip != ".gz" and (reader.main != file or reader.name in BY_CONTENT))
        or damage in HARMLESS.get((reader.name, file), ())
    ):
        return None
    content, name = spoil(as_bytes(reader.files[file])), f"{file}.gz" if named else file
    line = as_bytes(reader.files[file]).count(b"\n") + 1 if damage in LAST and reader.kind in (TEXT, STREAM) else None
    where = ELSEWHERE.get((reader.name, file, damage), (Path(name).name, line))
    main = name if named and reader.main == file else ""
    return Row(f"{file}: {damage}", reader.name, {file: None, name: content}, *where, None, main)


def spoiled(files, folder):
    """Writes the files; a content may also stand for a folder, a locked file or an unreadable one."""
    lay_out({name: content for name, content in files.items() if isinstance(content, bytes | str)}, folder)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is FOLDER:
            path.mkdir()
        elif content is LOCKED:
            if os.geteuid() == 0:
                pytest.skip("root may read everything")
            path.touch(mode=0)
        elif isinstance(content, Path):
            if not content.exists():
                pytest.skip("needs /proc")
            path.symlink_to(content)


def assert_tells(error, file, line, field):
    """Asserts that the first error names this place, and that each error has a fix."""
    first = error.errors[0] if isinstance(error, DataErrors) else error
    if isinstance(first, DataError):
        assert (first.file, first.line) == (file, line)
        assert field is None or field == first.field
    else:
        assert str(error).startswith(f"{file}: ")
    assert all("Fix: " in text or text.startswith("... and ") for text in str(error).splitlines())


TABLE = {f"{row.reader}, {row.name}": row for row in (*product(), *ROWS)}


@pytest.mark.parametrize("name", TABLE)
def test_a_reader_names_the_place_of_the_damage_and_quotes_nothing(name, tmp_path, capsys):
    row = TABLE[name]
    reader, folder = BY_NAME[row.reader], tmp_path / "files"
    spoiled({**reader.files, **row.files}, folder)
    reader = replace(reader, main=row.main or reader.main)
    with pytest.raises(UserError) as caught:
        reader(folder)
    assert_tells(caught.value, row.file, row.line, row.field)
    assert_no_words(str(caught.value) + "".join(capsys.readouterr()))


@pytest.mark.parametrize("name", HARMLESS, ids=" ".join)
def test_what_a_reader_may_leave_out_is_no_damage(name, tmp_path):
    reader, file = BY_NAME[name[0]], name[1]
    for number, damage in enumerate(HARMLESS[name]):
        content = GENERIC[damage](as_bytes(reader.files[file]))
        spoiled({**reader.files, file: content}, tmp_path / str(number))
        reader(tmp_path / str(number))


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_the_good_files_are_read_and_so_are_gzipped_ones(reader, tmp_path):
    lay_out(reader.files, tmp_path / "plain")
    reader(tmp_path / "plain")
    if reader.gzip:
        lay_out(gzipped(reader).files, tmp_path / "zipped")
        gzipped(reader)(tmp_path / "zipped")


# ---- commands ----

COMMANDS = {
    "prepare": (prepare, 0),
    "analyze": (analyze, 1),
    "doctor": (doctor, 0),
    "predict": (predict, 0),
    "evaluate": (evaluate, 0),
    "report": (report, sys.maxsize),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The parent of the working folder, data/, which is the data folder, too; cache/ lies beside it."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    umask = os.umask(0o077)
    yield tmp_path
    os.umask(umask)


def run(case, monkeypatch, capsys):
    """Runs a command in this process: (exit code, stdout, stderr, the error)."""
    caught, script = [], cli.script

    def watched(work):
        try:
            return work()
        except UserError as error:
            caught.append(error)
            raise

    monkeypatch.setattr(cli, "script", lambda work: script(partial(watched, work)))
    monkeypatch.setattr(sys, "argv", [case.command, *case.flags])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    if case.base:
        monkeypatch.setenv("MEDNLI_JAX_DATA", os.getcwd())
    module, words = COMMANDS[case.command]
    code = cli.run(module.main, module.USAGE, module.define, words=words)
    return code, *capsys.readouterr(), caught[0] if caught else None


def assert_nothing_left(cache):
    """Asserts that the cache has no prepared or built corpus, no temporary file and no word of the sentences."""
    for path in cache.rglob("*"):
        assert path.name in (".gitignore", "prepared", "sources.json", "tfds"), path
        if path.is_file():
            assert_no_words(path.read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_command_refuses_in_a_line_with_code_2_and_leaves_nothing(case, place, monkeypatch, capsys):
    spoiled({**BASES[case.base], **(case.files or {})}, place / "data")
    code, out, err, error = run(case, monkeypatch, capsys)
    assert code == case.status, err
    assert_no_words(out + err)
    assert "Traceback" not in out + err
    for words in case.says:
        assert words in out + err
    assert isinstance(error, case.error or type(None)), error
    if case.file:
        assert_tells(error, case.file, case.line, case.field)
    if case.status:
        assert out == ""
        assert err.startswith("error: ")
        assert all("Fix: " in line for line in err.splitlines()), err
        assert isinstance(error, DataErrors) or err.count("\n") == 1
        assert_nothing_left(place / "cache")


def test_thirty_errors_are_the_first_twenty_and_a_count(place, monkeypatch, capsys):
    rows = [pair(n, gold_label=WORDS[n % 5]) for n in range(30)]
    case = next(case for case in CASES if case.name == "file: no premise")
    spoiled({**BASES["file"], "file/train.jsonl": pairs(99, *rows)}, place / "data")
    code, out, err, error = run(case, monkeypatch, capsys)
    assert (code, out, [one.line for one in error.errors]) == (2, "", list(range(2, 22)))
    *_, last = err.splitlines()
    assert len(err.splitlines()) == 21
    assert "10 more" in last
    assert_no_words(err)


@pytest.mark.parametrize("name", ["file: no premise", "an ontology with a cycle", "flags: a typo in a field"])
def test_a_process_of_its_own_ends_the_same_way(name, place, monkeypatch):
    (case,) = (case for case in CASES if case.name == name)
    spoiled({**BASES[case.base], **(case.files or {})}, place / "data")
    command = [sys.executable, "-m", f"mednli_jax.{case.command}", *case.flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MEDNLI_JAX_DATA": str(place / "data")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(r"error: .* Fix: .*", line)
    assert_no_words(line)
    assert_nothing_left(place / "cache")


# ---- every error and every rule names a way out ----


def test_every_user_error_has_a_fix():
    """Exceptions are errors that pass on another message, and those of an Ontology made in Python."""
    missing, count = [], 0
    for path in sorted((ROOT / "mednli_jax").rglob("*.py")):
        if path.name == "ontology.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                call, name = node.exc, getattr(node.exc.func, "id", "")
                texts = [part.value for part in ast.walk(call) if isinstance(part, ast.Constant)]
                text = "".join(text for text in texts if isinstance(text, str))
                if name in ("UserError", "UsageError", "ConfigError", "RunError") and " " in text:
                    count += 1
                    missing += [f"{path.name}:{node.lineno}"] * ("Fix: " not in text)
                if name == "DataError":
                    count += 1
                    missing += [f"{path.name}:{node.lineno}"] * all(word.arg != "fix" for word in call.keywords)
    assert count > 100
    assert missing == []


def test_every_refused_flag_has_a_fix():
    for _, names, tasks, message in kinds.FLAGS:
        assert " Fix: " in message
        assert names
        assert set(tasks) < set(kinds.KINDS)
