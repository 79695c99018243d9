"""Files must not fill the memory, take hours, run a program, or name a place outside their folder.

Hostile sizes are a gigabyte in a megabyte of gzip, headers of rows that no disk holds, or endless brackets. Each file
is read in a process that may take LIMIT bytes, and must be refused in seconds with little memory. Hostile programs are
pickles that make a folder when they are loaded; they replace every file that is read.
"""

import gzip
import io
import json
import mmap
import os
import pickle
import re
import resource
import struct
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import test_benchmark_files
import test_umls
from made_up_files import KEY, Builder, Trap, as_bytes, lay_out, rich
from made_up_readers import BERT_CONFIG, BY_NAME, KEEP_SEALED, READERS, STATE, TSV, parameters
from test_fuzzing import message_of

from mednli_jax.analysis.artifacts import filtering
from mednli_jax.corpora import cache as prepared_cache
from mednli_jax.corpora.diskne import store as diskne_store
from mednli_jax.corpora.diskne.benchmark import Benchmark
from mednli_jax.corpora.diskne.folds import folds
from mednli_jax.errors import RunError, UserError
from mednli_jax.files import read_sealed, sha256, write_sealed
from mednli_jax.knowledge import store
from mednli_jax.knowledge.sentences import sentences
from mednli_jax.models import bert_import
from mednli_jax.textfiles import FREE_GROWTH, MAX_GROWTH, MAX_LINE_BYTES, byte_lines

LIMIT = 2 << 30  # bytes of address space beyond a process that has imported the readers
MOST = 600 << 20  # bytes of memory that reading may take
LONGEST = 20.0  # seconds of a slow processor


class Case(NamedTuple):
    """files: replacements for the reader's files; a number is the size of a hollow file, a pair the parts of a bomb.

    file: the one that is refused. whole: refused as a whole, not at a line. slow: whether it belongs to the slow part.
    """

    name: str
    reader: str
    files: dict
    file: str
    whole: bool = False
    slow: bool = False


# -- bombs -------------------------------------------------------------------------------------------------------------


@cache
def bomb(head: bytes, filling: bytes) -> bytes:
    """A gzip of about a megabyte that unpacks to `head` and a gigabyte of `filling`."""
    block = gzip.compress(filling * ((1 << 24) // len(filling)), mtime=0)
    return gzip.compress(head, mtime=0) + block * 64


LONG = b"a " * 400
RELATIONS = next(name for name in BY_NAME["snomed"].files if "sct2_Relationship_" in name)
CONCEPTS = next(name for name in BY_NAME["snomed"].files if "sct2_Concept_" in name)
# For each reader of text: the file, a head, and a row that may follow the head.
TEXTS = {
    "pairs x.jsonl": ("x.jsonl", b"", b'{"a": 1}\n'),
    "pairs x.tsv": ("x.tsv", b"gold_label\tsentence1\tsentence2\n", b"neutral\t%b\tb\n" % LONG),
    "pairs x.csv": ("x.csv", b"gold_label,sentence1,sentence2\n", b"neutral,%b,b\n" % LONG),
    "pairs triples": ("s1.train", b"", b"a\n"),
    "pairs ground truth": ("t.csv", b"", b"p0,neutral\n"),
    "clicr": ("dev1.0.json", b'{"version": "1.0", "data": [', b"[[], [], 0], "),
    "biomrc": ("b.json", b'{"abstracts": [', b'"a", '),
    "case reports": ("r.jsonl", b"", b"{}\n"),
    "answers a.jsonl": ("a.jsonl", b"", b'{"uid": "a", "answer": "b"}\n'),
    "answers a.json": ("a.json", b"{", b'"a": [[], []], '),
    "annotations of diseases": ("m.csv", ",".join(test_benchmark_files.MEDICAL).encode(), b"\n"),
    "mentions m.tsv": ("m.tsv", b"uid\tside\tstart\tend\tconcept\n", b"p1\tpremise\t3\t5\tC1\n"),
    "mentions m.jsonl": ("m.jsonl", b"", b"{}\n"),
    "metamap": ("m.mmi", b"", b"a|AA|b\n"),
    "umls": ("MRREL.RRF", b"", test_umls.REL.encode()[:60].split(b"\n")[0] + b"\n"),
    "snomed": (RELATIONS, b"", b"\t\t\t\t\n"),
    "wordnet": ("data.noun", b"", b"  1 licence\n"),
    "obo": ("x.obo", b"", b"[Term]\nid: X:1\n"),
    "mesh": ("mesh.tsv", b"id\tname\ttree_numbers\tsynonyms\n", b"D1\tquokka\tC01\t\n"),
    "vectors v.txt": ("v.txt", b"", b"quokka 1 2.5 -3\n"),
    "vectors v.bin": ("v.bin", b"99999999999 3\n", b"quokka " + bytes(12)),
    "vectors types.txt": ("vectors.txt", b"", b"1 2 3\n"),
    "concept vectors": ("v.csv", b"", b"C1,1,2\n"),
    "articles": ("a.json", b'{"articles": [', b'{"title": "a"}, '),
    "running text": ("a.txt", b"", b"\n"),
    "lexicon": ("l.txt", b"", b"quokka wombat\n"),
    "stop words": ("s.txt", b"", b"# no\n"),
    "abbreviations": ("a.tsv", b"", b"Q\tquokka\n"),
    "categories": ("c.tsv", b"", b"u0\tnegation\n"),
    "skills": ("k.tsv", b"", b"u0\tnone\n"),
    "scores": ("s.jsonl", b"", b'{"uid": "u0", "f1": 1}\n'),
    "partition p.txt": ("p.txt", b"", b"a\n"),
    "notes": ("notes.csv", b"ROW_ID,CATEGORY,ISERROR,TEXT\n1,Report,,", b'"\n'),
}


def bombs():
    fillings = {"zeros": bytes(1 << 10), "line breaks": b"\n" * (1 << 10), "one line": b"a" * (1 << 10)}
    for reader, (file, head, row) in TEXTS.items():
        ending = BY_NAME[reader].gzip if isinstance(BY_NAME[reader].gzip, str) else ""
        for name, filling in {**fillings, "rows": row * 64}.items():
            whole = name not in ("line breaks", "rows")  # the reader may report faults of such lines first
            files = {file: None, file + ending: (head, filling)}
            named = Path(file).name + ending
            if (reader, name) == ("pairs triples", "rows"):
                named = "s2.train"  # the files of a split are read side by side, and this one ends first
            yield Case(f"{reader}, a gigabyte of {name}", reader, files, named, whole, name != "zeros")
    model = BY_NAME["vectors f.bin"].files["f.bin"]
    yield Case("a model's matrix of a gigabyte", "vectors f.bin", {"f.bin": (model[:-60], bytes(1 << 10))}, "f.bin")


# -- sizes that files state of themselves ------------------------------------------------------------------------------


def npy(shape, descr="<f4", version=b"\1\0", size=None):
    """The header of an array of this shape, and 64 bytes of data."""
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    width = "<H" if version == b"\1\0" else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(head) if size is None else size) + head + bytes(64)


def tensors(size=None, **named):
    head = json.dumps({n: dict(zip(("dtype", "shape", "data_offsets"), x, strict=True)) for n, x in named.items()})
    return struct.pack("<Q", len(head) if size is None else size) + head.encode() + bytes(64)


def fasttext(**settings):
    """A good model with other values in its header."""
    names = ("dim", "window", "epochs", "least", "negatives", "ngrams", "loss", "kind", "buckets", "minn", "maxn")
    content = bytearray(as_bytes(BY_NAME["vectors f.bin"].files["f.bin"]))
    places = {name: 8 + 4 * n for n, name in enumerate(names)} | {"entries": 64, "words": 68, "labels": 72}
    for name, value in settings.items():
        struct.pack_into("<i", content, places[name], value)
    return bytes(content)


MANY = (1 << 31) - 1
SHAPES = ("(10**18,)", "(1000000000000000000, 3)", "(9223372036854775807,)", "(9223372036854775808,)", "(1 << 70,)")
SHAPES += ("(-1, 3)", "(4294967296, 4294967296)", f"({'9' * 5000},)", "(" * 9000, "(100000000000, 3)")
STATED = {  # for each reader a file whose header is false or asks for too much
    ("vectors v.npy", "v.npy"): {
        **{f"an array of {shape[:24]}": npy(shape) for shape in SHAPES},
        "a header of 4 GB": npy("(1, 3)", version=b"\2\0", size=MANY * 2),
    },
    ("partition p.npy", "p.npy"): {
        **{f"an array of {shape[:24]}": npy(shape, "<U6") for shape in SHAPES},
        "a header of 4 GB": npy("(1, 3)", version=b"\2\0", size=MANY * 2),
        "an id of 2 GB": npy("(1,)", "<U500000000"),
    },
    ("pretrained weights", "model.safetensors"): {
        "a header of 4 EiB": tensors(size=1 << 62),
        "a header of 2^63 - 1": tensors(size=(1 << 63) - 1),
        "a header of 90 MB that is not there": tensors(size=90_000_000),
        "a tensor of 2^40 numbers": tensors(a=("F32", [1 << 40], [0, 1 << 42])),
        "a tensor whose sizes overflow": tensors(a=("F32", [1 << 32, 1 << 32], [0, 64])),
        "a tensor of nothing, 2^62 wide": tensors(a=("F32", [0, 1 << 62], [0, 0])),
        "offsets that run backwards": tensors(a=("F32", [1], [60, 4])),
        "two tensors at one place": tensors(a=("F32", [16], [0, 64]), b=("F32", [16], [0, 64])),
    },
    ("vectors f.bin", "f.bin"): {
        "2^31 words": fasttext(words=MANY, entries=MANY),
        "2^31 labels": fasttext(labels=MANY - 2, entries=MANY),
        "2^31 numbers a word": fasttext(dim=MANY),
        "2^31 buckets": fasttext(buckets=MANY),
        "n-grams of 2^31 characters": fasttext(maxn=MANY),
        "fewer than no words": fasttext(words=-5, entries=-5),
    },
    ("vectors v.txt", "v.txt"): {
        "rows without end": b"99999999999 3\nquokka 1 2 3\n",
        "a word of 10^11 numbers": b"1 99999999999\nquokka 1 2 3\n",
        "a number of 5000 digits": b"9" * 5000 + b" 3\nquokka 1 2 3\n",
    },
    ("concept vectors as words", "v.txt"): {
        "10^11 numbers": b"1 99999999999\nquokka 1 2 3\n",
        "no numbers": b"quokka\nwombat\n",
    },
    ("settings of weights", "config.json"): {
        "2^44 weights": json.dumps({**json.loads(BERT_CONFIG), "hidden_size": 1 << 22, "vocab_size": 1 << 22}),
    },
}
HOLLOW = {  # files of 16 GB without content
    **{"settings of weights": "config.json", "pieces vocab.txt": "vocab.txt", "answers a.jsonl": "a.jsonl"},
    **{"pieces tokenizer.json": "tokenizer.json", "pretrained weights": "model.safetensors"},
    **{"vectors v.npy": "v.npy", "partition p.npy": "p.npy"},
}


def stated():
    for (reader, file), contents in STATED.items():
        for name, content in contents.items():
            yield Case(f"{reader}: {name}", reader, {file: content}, file)
    rows = test_umls.mrfiles(MRREL=(test_umls.COLUMNS["MRREL.RRF"], "9" * 18))
    yield Case("umls: a table of 10^18 rows", "umls", {"MRFILES.RRF": rows}, "MRREL.RRF")
    for reader, file in HOLLOW.items():
        yield Case(f"{reader}: a hollow file", reader, {file: 1 << 34}, file, whole=True)


# -- values ------------------------------------------------------------------------------------------------------------

VALUES = {
    "brackets": b"[" * 100_000,
    "closed brackets": b"[" * 100_000 + b"]" * 100_000,
    "objects": b'{"a":' * 100_000,
    "an integer of 5000 digits": b'{"uid": ' + b"9" * 5000 + b"}",
    "not a number": b'{"uid": NaN, "answer": Infinity, "f1": NaN, "title": -Infinity}',
    "a number beyond floats": b'{"uid": 1e999, "f1": 1e999, "lowercase": 1e999}',
    "a NUL": b'{"uid": "\0"}',
    "an enormous line": b'{"uid": "' + b"a" * (3 * MAX_LINE_BYTES) + b'"}',
}
OF_JSON = {
    **{name: TEXTS[name][0] for name in ("pairs x.jsonl", "clicr", "biomrc", "case reports", "answers a.jsonl")},
    **{name: TEXTS[name][0] for name in ("answers a.json", "mentions m.jsonl", "articles", "scores")},
    **{"stdin of nli": "stdin", "stdin of cloze": "stdin", "benchmark": "made/benchmark.json", "run": "result.json"},
    **{"settings of weights": "config.json", "pieces tokenizer.json": "tokenizer.json"},
    **{"pieces of a run": "p.json", "vocabulary": "v.json"},
}


def values():
    for reader, file in OF_JSON.items():
        for name, content in VALUES.items():
            yield Case(f"{reader}: {name}", reader, {file: content}, Path(file).name,
                       slow=name in ("closed brackets", "objects"))  # fmt: skip
    for reader, (file, head, _) in TEXTS.items():
        yield Case(f"{reader}: a line of 8 MB", reader, {file: head + b"a" * (8 << 20) + b"\n"}, Path(file).name)


ROWS_OF_TABS = as_bytes(BY_NAME["snomed"].files[CONCEPTS]) + b"\t\t\t\t\n" * (1 << 21)
LONG_ONES = (
    Case("a record that never closes", "pairs x.csv",
         {"x.csv": TSV.replace("\t", ",") + '"' + "\n" * (1 << 23)}, "x.csv", slow=True),
    Case("rows of nothing", "umls", {"MRREL.RRF": b"\n" * (1 << 23)}, "MRREL.RRF", slow=True),
    Case("rows of tabs", "snomed", {CONCEPTS: ROWS_OF_TABS}, Path(CONCEPTS).name, slow=True),
)  # fmt: skip
CASES = (*bombs(), *stated(), *values(), *LONG_ONES)

# -- a process of its own for each -------------------------------------------------------------------------------------


def pages(kind):
    """The bytes of this process: of address space (0) or in memory (1)."""
    return int(Path("/proc/self/statm").read_text().split()[kind]) * resource.getpagesize()


def one(case, folder):
    """[message, seconds, bytes] of reading a case's files in a fork that may take no more than LIMIT."""
    reader = BY_NAME[case.reader]
    files = {**reader.files, **case.files}
    hollow = {name: size for name, size in files.items() if isinstance(size, int)}
    files = {name: bomb(*content) if isinstance(content, tuple) else content for name, content in files.items()}
    lay_out({name: content for name, content in files.items() if name not in hollow}, folder)
    for name, size in hollow.items():
        with open(folder / name, "wb") as file:
            file.truncate(size)
    if reader.main in case.files and case.files[reader.main] is None:
        reader = replace(reader, main=reader.main + reader.gzip)
    before, ends = pages(1), os.pipe()
    if os.fork():
        os.close(ends[1])
        with open(ends[0]) as file:
            answer = file.read()
        os.wait()
        return json.loads(answer) if answer else ["killed", 0, 0]
    space = pages(0) + LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    begun = time.process_time()
    try:
        text = message_of(reader, folder)
    except BaseException as error:  # the test must see any exception
        text = f"CRASH {type(error).__name__}: {error}"
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    os.write(ends[1], json.dumps([text[:2000], time.process_time() - begun, taken]).encode())
    os._exit(0)


def work(place, slow):
    """Reads the cases of one part, slow or fast, one after the other, each in a folder of its own."""
    for number, case in enumerate(CASES):
        if case.slow == slow:
            folder = Path(place) / str(number)
            folder.mkdir()
            print(json.dumps([case.name, *one(case, folder)]), flush=True)


@cache
def read_in_forks(folder, slow):
    """case name -> [message, seconds, bytes], for all cases of a part."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import test_hostile_files as t; t.work(sys.argv[1], {slow})"
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return {name: result for name, *result in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@pytest.mark.timeout(900)  # the first test waits for all cases
@pytest.mark.skipif(sys.platform != "linux", reason="limits address space")
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.slow] * case.slow) for case in CASES],
)
def test_what_is_too_large_is_refused_in_little_time_and_memory(case, place):
    text, seconds, taken = read_in_forks(place, case.slow)[case.name]
    assert not text.startswith(("CRASH", "killed")), text
    assert "Fix: " in text, text
    assert re.search(rf"^(\S*/)?{re.escape(case.file)}{': ' if case.whole else ':'}", text, re.MULTILINE), text
    assert seconds < LONGEST
    assert taken < MOST


def test_the_limit_is_felt(tmp_path, monkeypatch):
    """The limit stops a reader that takes all memory. Without that, the cases above would prove nothing."""
    greedy = replace(BY_NAME["vocabulary"], read=lambda _: np.ones(LIMIT // 7).sum())
    monkeypatch.setitem(BY_NAME, "vocabulary", greedy)
    assert "MemoryError" in one(Case("greedy", "vocabulary", {}, ""), tmp_path)[0]

    def fill(_):
        with mmap.mmap(-1, MOST // 2) as memory:  # new memory, not memory that the allocator has kept
            memory.write(bytes([1]) * (MOST // 2))

    fair = replace(greedy, read=fill)
    monkeypatch.setitem(BY_NAME, "vocabulary", fair)
    text, _, taken = one(Case("fair", "vocabulary", {}, ""), tmp_path)
    assert (text, taken > MOST // 4) == ("", True)


def test_a_benchmark_with_names_of_another_kind_is_reported(tmp_path):
    """Its JSON holds other types in place of objects and texts."""
    reader = BY_NAME["benchmark"]
    about = json.loads(as_bytes(reader.files["made/benchmark.json"]))
    for changed in ({"names": ["quokka"]}, {"synonyms": {"C02": "quokka"}}, {"name": 3}, {"facts": None}):
        text = json.dumps({**about, **changed})
        lay_out({**reader.files, "made/benchmark.json": text}, tmp_path)
        assert message_of(reader, tmp_path).startswith("benchmark.json: ")


def test_articles_hold_no_half_characters(tmp_path):
    """Bytes that are not UTF-8 are read as Latin-1. Half a surrogate pair, which vectors cannot have, is replaced."""
    (tmp_path / "a.json").write_bytes(b'{"articles": [{"title": "na\xefve \\ud800 x"}]}')
    assert list(sentences(tmp_path / "a.json")) == [["naïve", "\ufffd", "x"]]


def test_text_that_packs_well_is_no_bomb(tmp_path):
    path = tmp_path / "x.txt.gz"
    rows = b"".join(b"%d the same words again and again, as in a table\n" % n for n in range(FREE_GROWTH // 20))
    path.write_bytes(gzip.compress(rows))
    assert FREE_GROWTH < len(rows) < MAX_GROWTH * path.stat().st_size
    assert sum(1 for _ in byte_lines(path)) == rows.count(b"\n")


# -- programs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mark(tmp_path):
    """The folder that a Trap would make; it must not exist at the end."""
    path = tmp_path / "mark"
    yield path
    assert not path.exists()


def objects(mark):
    stream = io.BytesIO()
    np.save(stream, np.array([Trap(mark)], object), allow_pickle=True)
    return stream.getvalue()


def archive(mark, **arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays, program=np.array([Trap(mark)], object))
    return stream.getvalue()


def test_a_trap_would_leave_its_mark(tmp_path):
    for number, load in enumerate((pickle.loads, lambda text: np.load(io.BytesIO(text), allow_pickle=True))):
        path = tmp_path / str(number)
        content = objects(path) if number else pickle.dumps(Trap(path))
        load(content)
        assert path.exists()


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_no_file_that_is_read_can_be_a_program(reader, tmp_path, mark):
    """Each file is replaced by a pickle, an array of objects, and an archive of arrays; no code in them may run."""
    folder = tmp_path / "files"
    lay_out({**reader.files, "x": b""}, folder)
    for name, good in reader.files.items():
        for content in (pickle.dumps(Trap(mark)), pickle.dumps(Trap(mark), 0), objects(mark), archive(mark)):
            (folder / name).write_bytes(content)
            message_of(reader, folder)
            assert not mark.exists()
        (folder / name).write_bytes(as_bytes(good))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pkl", "weights.npz", "model.safetensors"])
def test_weights_are_no_program(name, tmp_path, mark):
    lay_out({"w/config.json": BERT_CONFIG, f"w/{name}": pickle.dumps(Trap(mark))}, tmp_path)
    for path in (tmp_path / "w", tmp_path / "w" / name):
        with pytest.raises(UserError):
            bert_import.load_weights(path, parameters())


def test_a_state_of_a_filtering_is_no_program_even_under_its_seal(tmp_path, mark):
    """Whoever can write the file can also seal it."""
    filtering.save(tmp_path, KEEP_SEALED, STATE)
    with np.load(tmp_path / filtering.STATE, allow_pickle=False) as file:
        about = file["about"]
    content = archive(mark, about=about, score=np.zeros(3)).replace(b"program.npy", b"removed.npy")
    (tmp_path / filtering.STATE).write_bytes(content + filtering.hashlib.sha256(content).digest())
    with pytest.raises(UserError):
        filtering.load(tmp_path, KEEP_SEALED, 3)


def reseal(folder, seal, facts):
    """Rewrites the manifest of a folder so that all its files count as undamaged."""
    manifest = {name: value for name, value in read_sealed(folder / "manifest.json", seal).items() if name != seal}
    files = {name: facts(folder / name) for name in manifest["files"]}
    write_sealed(folder / "manifest.json", {**manifest, "files": files}, seal)


def test_an_array_of_a_cache_is_no_program_even_under_its_seal(tmp_path, mark, capsys):
    """The array is reported and built again."""
    prepared, _ = prepared_cache.Cache(tmp_path).get("c", KEY, Builder())
    (prepared.folder / "label.npy").write_bytes(objects(mark))
    reseal(prepared.folder, "sha256", sha256)
    again, hit = prepared_cache.Cache(tmp_path).get("c", KEY, Builder())
    assert (hit, again.arrays["label"].dtype) == (False, np.int32)
    assert str(prepared.folder) in capsys.readouterr().err
    names = list(store.stored(tmp_path / "o", KEY, rich).names)
    (tmp_path / "o" / "names.concepts.npy").write_bytes(objects(mark))
    reseal(tmp_path / "o", store.SEAL, lambda path: {"size": path.stat().st_size, "sha256": sha256(path)})
    assert list(store.stored(tmp_path / "o", KEY, rich).names) == names
    assert str(tmp_path / "o") in capsys.readouterr().err


@pytest.mark.parametrize("planted", [lambda mark: pickle.dumps(Trap(mark)), objects])
def test_a_checkpoint_is_no_program_even_under_its_seal(planted, tmp_path, mark):
    from mednli_jax.training import checkpoint

    checkpoints = checkpoint.Checkpoints(tmp_path / "c")
    checkpoints.save({"a": np.arange(3.0)}, {"epoch": 1})
    for path in (tmp_path / "c" / "1").rglob("*"):
        if path.is_file() and not path.name.startswith("_"):  # files with an underscore hold JSON
            path.write_bytes(planted(mark))
    with pytest.raises(RunError):
        checkpoint.Checkpoints(tmp_path / "c").load()
    manifest = {"files": checkpoint._digests(tmp_path / "c" / "1"), "meta": {"epoch": 1}}
    write_sealed(tmp_path / "c" / "1.manifest.json", manifest)
    with pytest.raises(UserError):
        checkpoint.Checkpoints(tmp_path / "c").load()


# -- places ------------------------------------------------------------------------------------------------------------

PLACES = ("../../x", "/etc/x", "..", ".", "a/b", "~", "a\0b", "x" * 300, "é\n")


@pytest.mark.parametrize("name", PLACES)
def test_no_disease_names_a_place_outside_the_benchmark(name, tmp_path):
    """Folders of folds are named after diseases, whose ids come from files."""
    path = test_benchmark_files.published(tmp_path / "m.csv")
    found = test_benchmark_files.read(path)

    def renamed(text):
        return name if text == "C02" else text

    examples = tuple(replace(e, disease=renamed(e.disease), target=renamed(e.target)) for e in found.examples)
    names, synonyms = ({renamed(key): value for key, value in of.items()} for of in (found.names, found.synonyms))
    changed = Benchmark("made", examples, names, synonyms, {})
    every = folds(changed)
    assert name in {fold.disease for fold in every}
    before = set(tmp_path.rglob("*"))
    diskne_store.write_benchmark(changed, every, tmp_path / "out", every)
    new = set(tmp_path.rglob("*")) - before
    assert all(path.is_relative_to(tmp_path / "out") for path in new)
    assert len(list((tmp_path / "out" / "folds").glob("[!.]*"))) == len(every)
    assert not (tmp_path.parent / "x").exists()
