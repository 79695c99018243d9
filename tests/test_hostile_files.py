"""What no file may do to us: fill the memory, take hours, run a program, name a place outside its folder.

Sizes are bombs: a gigabyte in a megabyte of gzip, headers of rows that no disk holds, brackets without end. Each is
read in a process that may take LIMIT bytes, and must be refused by its code, in seconds and in little memory.
Programs are pickles that leave a mark when they are loaded, planted in the place of every file that is read.
"""

import gzip
import io
import json
import mmap
import os
import pickle
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
import test_cache
import test_store
import test_umls
from test_fuzzing import BERT_CONFIG, KEEP_SEALED, PARSERS, STATE, as_bytes, lay_out, parameters, told

from mednli_jax.analysis.artifacts import filtering
from mednli_jax.corpora import cache as prepared_cache
from mednli_jax.corpora.diskne import store as diskne_store
from mednli_jax.corpora.diskne.benchmark import Benchmark
from mednli_jax.corpora.diskne.folds import folds
from mednli_jax.errors import UserError
from mednli_jax.files import read_sealed, sha256, write_sealed
from mednli_jax.knowledge import store
from mednli_jax.knowledge.sentences import sentences
from mednli_jax.models import bert_import
from mednli_jax.text import FREE_GROWTH, MAX_GROWTH, MAX_LINE_BYTES, binary_lines

TESTS = Path(__file__).parent
LIMIT = 2 << 30  # bytes of address space beyond those of a process that has the readers imported
MOST = 600 << 20  # bytes of memory that reading may take
LONGEST = 20.0  # seconds of a slow processor
BY_NAME = {parser.name: parser for parser in PARSERS}


class Case(NamedTuple):
    """files: what replaces the parser's: None removes one, a number makes a hollow file, a pair a bomb of it.

    code: what a refusal holds. slow: of the slow part.
    """

    name: str
    parser: str
    files: dict
    code: str
    slow: bool = False


# -- bombs -------------------------------------------------------------------------------------------------------------


@cache
def bomb(head: bytes, filling: bytes) -> bytes:
    """`head`, then `filling` over and over for a gigabyte, in about a megabyte of gzip."""
    block = gzip.compress(filling * ((1 << 24) // len(filling)), mtime=0)
    return gzip.compress(head, mtime=0) + block * 64


TSV = b"gold_label\tsentence1\tsentence2\n"
LONG = b"a " * 400
ROW = b"quokka 1 2.5 -3\n"
# Of each parser of text: the file, the code of a gzip that unfolds without end, a head, and a row that may follow it.
TEXTS = {
    "pairs x.jsonl": ("x.jsonl", "E-DATA-004", b"", b'{"a": 1}\n'),
    "pairs x.tsv": ("x.tsv", "E-DATA-004", TSV, b"neutral\t%b\tb\n" % LONG),
    "pairs x.csv": ("x.csv", "E-DATA-004", b"gold_label,sentence1,sentence2\n", b"neutral,%b,b\n" % LONG),
    "pairs triples": ("s1.train", "E-DATA-004", b"", b"a\n"),
    "pairs ground truth": ("t.csv", "E-DATA-004", b"", b"p0,neutral\n"),
    "clicr": ("dev1.0.json", "E-CLZ-003", b'{"version": "1.0", "data": [', b"[[], [], 0], "),
    "biomrc": ("b.json", "E-CLZ-003", b'{"abstracts": [', b'"a", '),
    "case reports": ("r.jsonl", "E-DATA-004", b"", b"{}\n"),
    "answers a.jsonl": ("a.jsonl", "E-CLZ-051", b"", b'{"uid": "a", "answer": "b"}\n'),
    "answers a.json": ("a.json", "E-CLZ-051", b"{", b'"a": [[], []], '),
    "annotations of diseases": (
        "m.csv",
        "E-DATA-004",
        b",".join(c.encode() for c in test_benchmark_files.MEDICAL),
        b"\n",
    ),
    "mentions m.tsv": ("m.tsv", "E-LINK-003", b"uid\tside\tstart\tend\tconcept\n", b"p1\tpremise\t3\t5\tC1\n"),
    "mentions m.jsonl": ("m.jsonl", "E-LINK-003", b"", b"{}\n"),
    "metamap": ("m.mmi", "E-LINK-003", b"", b"a|AA|b\n"),
    "umls": ("rrf/MRREL.RRF", "E-ONTO-011", b"", test_umls.REL.encode()[:60].split(b"\n")[0] + b"\n"),
    "snomed": ("rf2", "E-ONTO-011", b"", b"\t\t\t\t\n"),
    "wordnet": ("data.noun", "E-ONTO-011", b"", b"  1 licence\n"),
    "obo": ("x.obo", "E-ONTO-011", b"", b"[Term]\nid: X:1\n"),
    "mesh gzipped": ("mesh.tsv.gz", "E-ONTO-011", b"id\tname\ttree_numbers\tsynonyms\n", b"D1\tquokka\tC01\t\n"),
    "vectors v.txt": ("v.txt", "E-VEC-003", b"", ROW),
    "vectors v.bin": ("v.bin", "E-VEC-003", b"99999999999 3\n", b"quokka " + bytes(12)),
    "vectors types.txt": ("vectors.txt", "E-VEC-003", b"", b"1 2 3\n"),
    "concept vectors": ("v.csv", "E-VEC-003", b"", b"C1,1,2\n"),
    "articles": ("a.json", "E-EMB-012", b'{"articles": [', b'{"title": "a"}, '),
    "running text": ("a.txt", "E-EMB-012", b"", b"\n"),
    "lexicon": ("l.txt", "E-LEX-003", b"", b"quokka wombat\n"),
    "stop words": ("s.txt", "E-LINK-003", b"", b"# no\n"),
    "abbreviations": ("a.tsv", "E-LINK-003", b"", b"Q\tquokka\n"),
    "categories": ("c.tsv", "E-DATA-004", b"", b"u0\tnegation\n"),
    "skills": ("k.tsv", "E-DATA-004", b"", b"u0\tnone\n"),
    "scores": ("s.jsonl", "E-DATA-004", b"", b'{"uid": "u0", "f1": 1}\n'),
    "partition p.txt": ("p.txt", "E-DATA-004", b"", b"a\n"),
    "notes": ("notes.csv", "E-DATA-004", b"ROW_ID,CATEGORY,ISERROR,TEXT\n1,Report,,", b'"\n'),
}
BY_ENDING = ("umls", "snomed")  # whose readers go by the name's .gz


def at(parser, file, content):
    """The parser's files with this content for one, under the name that says whether it is gzipped."""
    if parser == "snomed":
        file = next(name for name in BY_NAME["snomed"].files if "sct2_Relationship_" in name)
    zipped = isinstance(content, tuple) and parser in BY_ENDING
    return {file: None, f"{file}.gz": content} if zipped else {file: content}


def bombs():
    fillings = {"zeros": bytes(1 << 10), "line breaks": b"\n" * (1 << 10), "one line": b"a" * (1 << 10)}
    for parser, (file, code, head, row) in TEXTS.items():
        for name, filling in {**fillings, "rows": row * 64}.items():
            many = name in ("line breaks", "rows")  # whose own faults may be told first
            files = at(parser, file, (head, filling))
            yield Case(f"{parser}, a gigabyte of {name}", parser, files, "E-" if many else code, name != "zeros")
    model = BY_NAME["vectors f.bin"].files["f.bin"]
    yield Case("a model's matrix of a gigabyte", "vectors f.bin", {"f.bin": (model[:-60], bytes(1 << 10))}, "E-VEC-003")


# -- sizes that files state of themselves ------------------------------------------------------------------------------


def npy(shape, descr="<f4", version=b"\1\0", size=None):
    """The head of an array of this shape, and 64 bytes of it."""
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    width = "<H" if version == b"\1\0" else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(head) if size is None else size) + head + bytes(64)


def tensors(size=None, **named):
    head = json.dumps({n: dict(zip(("dtype", "shape", "data_offsets"), x, strict=True)) for n, x in named.items()})
    return struct.pack("<Q", len(head) if size is None else size) + head.encode() + bytes(64)


def fasttext(**settings):
    """A good model whose head says something else."""
    names = (
        "dim",
        "window",
        "epochs",
        "least",
        "negatives",
        "ngrams",
        "loss",
        "kind",
        "buckets",
        "minn",
        "maxn",
        "rate",
    )
    content = bytearray(as_bytes(BY_NAME["vectors f.bin"].files["f.bin"]))
    places = {name: 8 + 4 * n for n, name in enumerate(names)} | {"entries": 64, "words": 68, "labels": 72}
    for name, value in settings.items():
        struct.pack_into("<i", content, places[name], value)
    return bytes(content)


MANY = (1 << 31) - 1
SHAPES = ("(10**18,)", "(1000000000000000000, 3)", "(9223372036854775807,)", "(9223372036854775808,)", "(1 << 70,)")
SHAPES += ("(-1, 3)", "(4294967296, 4294967296)", f"({'9' * 5000},)", "(" * 9000, "(100000000000, 3)")
WEIGHTS = {
    "a header of 4 EiB": tensors(size=1 << 62),
    "a header of 2^63 - 1": tensors(size=(1 << 63) - 1),
    "a header of 90 MB that is not there": tensors(size=90_000_000),
    "a tensor of 2^40 numbers": tensors(a=("F32", [1 << 40], [0, 1 << 42])),
    "a tensor whose sizes overflow": tensors(a=("F32", [1 << 32, 1 << 32], [0, 64])),
    "a tensor of nothing, 2^62 wide": tensors(a=("F32", [0, 1 << 62], [0, 0])),
    "offsets that run backwards": tensors(a=("F32", [1], [60, 4])),
    "two tensors at one place": tensors(a=("F32", [16], [0, 64]), b=("F32", [16], [0, 64])),
}
MODELS = {
    "2^31 words": fasttext(words=MANY, entries=MANY),
    "2^31 labels": fasttext(labels=MANY - 2, entries=MANY),
    "2^31 numbers a word": fasttext(dim=MANY),
    "2^31 buckets": fasttext(buckets=MANY),
    "n-grams of 2^31 characters": fasttext(maxn=MANY),
    "fewer than no words": fasttext(words=-5, entries=-5),
}
HEADERS = {
    "rows without end": (b"99999999999 3\nquokka 1 2 3\n", "E-VEC-008"),
    "a word of 10^11 numbers": (b"1 99999999999\nquokka 1 2 3\n", "E-VEC-005"),
    "a number of 5000 digits": (b"9" * 5000 + b" 3\nquokka 1 2 3\n", "E-VEC-005"),
}


def headers():
    for shape in SHAPES:
        yield Case(f"an array of {shape[:24]}", "vectors v.npy", {"v.npy": npy(shape)}, "E-VEC-009")
        yield Case(f"a partition of {shape[:24]}", "partition p.npy", {"p.npy": npy(shape, "<U6")}, "E-PART-004")
    long, wide = npy("(1, 3)", version=b"\2\0", size=MANY * 2), npy("(1,)", "<U500000000")
    yield Case("an array's header of 4 GB", "vectors v.npy", {"v.npy": long}, "E-VEC-009")
    yield Case("a partition's header of 4 GB", "partition p.npy", {"p.npy": long}, "E-PART-004")
    yield Case("an id of 2 GB", "partition p.npy", {"p.npy": wide}, "E-PART-004")
    for name, content in WEIGHTS.items():
        yield Case(f"weights: {name}", "pretrained weights", {"model.safetensors": content}, "E-BERT-04")
    for name, content in MODELS.items():
        yield Case(f"a model of {name}", "vectors f.bin", {"f.bin": content}, "E-VEC-0")
    for name, (content, code) in HEADERS.items():
        yield Case(f"vectors of {name}", "vectors v.txt", {"v.txt": content}, code)
    yield Case(
        "vectors of concepts with 10^11 numbers",
        "concept vectors as words",
        {"v.txt": HEADERS["a word of 10^11 numbers"][0]},
        "E-VEC-009",
    )
    yield Case(
        "vectors of concepts without numbers", "concept vectors as words", {"v.txt": b"quokka\nwombat\n"}, "E-VEC-009"
    )
    large = {**json.loads(BERT_CONFIG), "hidden_size": 1 << 22, "vocab_size": 1 << 22}
    yield Case(
        "settings of a model of 2^44 weights", "settings of weights", {"config.json": json.dumps(large)}, "E-BERT-043"
    )
    stated = test_umls.mrfiles(MRREL=(test_umls.COLUMNS["MRREL.RRF"], "9" * 18))
    yield Case("a table of 10^18 rows", "umls", {"rrf/MRFILES.RRF": stated}, "E-ONTO-073")
    for parser, file, size, code in HOLLOW:
        yield Case(f"{parser}: {size >> 20} MB of nothing", parser, {file: size}, code)


HOLLOW = (
    ("settings of weights", "config.json", 1 << 34, "E-BERT-042"),
    ("pieces vocab.txt", "vocab.txt", 1 << 34, "E-BERT-025"),
    ("pieces tokenizer.json", "tokenizer.json", 1 << 34, "E-BERT-025"),
    ("answers a.jsonl", "a.jsonl", 1 << 34, "E-CLZ-051"),
    ("pretrained weights", "model.safetensors", 1 << 34, "E-BERT-044"),
    ("vectors v.npy", "v.npy", 1 << 34, "E-VEC-009"),
    ("partition p.npy", "p.npy", 1 << 34, "E-PART-004"),
)

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
    "stdin of nli": "stdin",
    "stdin of cloze": "stdin",
    "benchmark": "made/benchmark.json",
    "settings of weights": "config.json",
    "pieces tokenizer.json": "tokenizer.json",
    "pieces of a run": "p.json",
    "vocabulary": "v.json",
    "run": "result.json",
}


def values():
    for parser, file in OF_JSON.items():
        for name, content in VALUES.items():
            yield Case(f"{parser}: {name}", parser, {file: content}, "E-", slow=name in ("closed brackets", "objects"))
    for parser, (file, _, head, _) in TEXTS.items():
        long = head + b"a" * (8 << 20) + b"\n"
        yield Case(f"{parser}: a line of 8 MB", parser, at(parser, file, long), "E-")


SNOMED = next(name for name in BY_NAME["snomed"].files if "sct2_Concept_" in name)
LONG_ONES = (
    Case("a record that never closes", "pairs x.csv", {"x.csv": TSV.replace(b"\t", b",") + b'"' + b"\n" * (1 << 23)},
         "E-DATA-024", True),
    Case("rows of nothing", "umls", {"rrf/MRREL.RRF": b"\n" * (1 << 23)}, "E-ONTO-013", True),
    Case("rows of tabs", "snomed", {SNOMED: as_bytes(BY_NAME["snomed"].files[SNOMED]) + b"\t\t\t\t\n" * (1 << 21)},
         "E-ONTO-070", True),
)  # fmt: skip
CASES = (*bombs(), *headers(), *values(), *LONG_ONES)

# -- a process of its own for each -------------------------------------------------------------------------------------


def pages(kind):
    """Bytes of this process, of address space (0) or in memory (1)."""
    return int(Path("/proc/self/statm").read_text().split()[kind]) * resource.getpagesize()


def one(case, folder):
    """[what is told, seconds, bytes] of reading a case's files, by a fork that may take no more than LIMIT."""
    parser = BY_NAME[case.parser]
    parser = parser._replace(files={**parser.files, **case.files})
    hollow = {name: size for name, size in parser.files.items() if isinstance(size, int)}
    files = {name: bomb(*content) if isinstance(content, tuple) else content for name, content in parser.files.items()}
    lay_out(parser._replace(files={n: c for n, c in files.items() if c is not None and n not in hollow}), folder)
    for name, size in hollow.items():
        with open(folder / name, "wb") as file:
            file.truncate(size)
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
        text = told(parser, folder)
    except BaseException as error:  # whatever it is must be known to the test
        text = f"CRASH {type(error).__name__}: {error}"
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    os.write(ends[1], json.dumps([text[:2000], time.process_time() - begun, taken]).encode())
    os._exit(0)


def work(place, slow):
    """Reads the cases of the slow part, or of the other, one after the other, each in its own folder."""
    for number, case in enumerate(CASES):
        if case.slow == slow:
            folder = Path(place) / str(number)
            folder.mkdir()
            print(json.dumps([case.name, *one(case, folder)]), flush=True)


@cache
def read_in_forks(folder, slow):
    """case name -> [what is told, seconds, bytes], of all cases of a part."""
    code = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import test_formats as t; t.work(sys.argv[1], {slow})"
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, cwd=TESTS.parent)
    assert done.returncode == 0, done.stderr
    return {name: result for name, *result in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


@pytest.mark.timeout(900)  # the first waits for all
@pytest.mark.skipif(sys.platform != "linux", reason="limits address space")
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.slow] * case.slow) for case in CASES],
)
def test_what_is_too_large_is_refused_in_little_time_and_memory(case, place):
    text, seconds, taken = read_in_forks(place, case.slow)[case.name]
    assert not text.startswith(("CRASH", "killed")), text
    assert case.code in text, text
    assert seconds < LONGEST
    assert taken < MOST


def test_the_limit_is_felt(tmp_path, monkeypatch):
    """A reader that takes all memory is told from one that does not: else the cases above would show nothing."""
    greedy = BY_NAME["vocabulary"]._replace(read=lambda _: np.ones(LIMIT // 7).sum())
    monkeypatch.setitem(BY_NAME, "vocabulary", greedy)
    assert "MemoryError" in one(Case("greedy", "vocabulary", {}, ""), tmp_path)[0]

    def fill(_):
        with mmap.mmap(-1, MOST // 2) as memory:  # not of what the allocator has kept from tests before
            memory.write(bytes([1]) * (MOST // 2))

    fair = greedy._replace(read=fill)
    monkeypatch.setitem(BY_NAME, "vocabulary", fair)
    text, _, taken = one(Case("fair", "vocabulary", {}, ""), tmp_path)
    assert (text, taken > MOST // 4) == ("", True)


def test_a_benchmark_with_names_of_another_kind_is_told(tmp_path):
    """What stands in its JSON where objects and texts should."""
    parser = BY_NAME["benchmark"]
    about = json.loads(as_bytes(parser.files["made/benchmark.json"]))
    for changed in ({"names": ["quokka"]}, {"synonyms": {"C02": "quokka"}}, {"name": 3}, {"facts": None}):
        text = json.dumps({**about, **changed})
        (tmp_path / "made").mkdir(exist_ok=True)
        lay_out(parser._replace(files={**parser.files, "made/benchmark.json": text}), tmp_path)
        assert told(parser, tmp_path).startswith("benchmark.json: ")


def test_articles_hold_no_half_characters(tmp_path):
    """Bytes that are no UTF-8 are Latin-1; the half of a surrogate pair, which no file of vectors can hold, is none."""
    (tmp_path / "a.json").write_bytes(b'{"articles": [{"title": "na\xefve \\ud800 x"}]}')
    assert list(sentences(tmp_path / "a.json")) == [["naïve", "\ufffd", "x"]]


def test_text_that_packs_well_is_no_bomb(tmp_path):
    path = tmp_path / "x.txt.gz"
    rows = b"".join(b"%d the same words again and again, as in a table\n" % n for n in range(FREE_GROWTH // 20))
    path.write_bytes(gzip.compress(rows))
    assert FREE_GROWTH < len(rows) < MAX_GROWTH * path.stat().st_size
    assert sum(1 for _ in binary_lines(path)) == rows.count(b"\n")


# -- programs ----------------------------------------------------------------------------------------------------------


class Program:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return open, (str(self.mark), "w")


@pytest.fixture
def mark(tmp_path):
    """Where a program leaves its mark; there must be none at the end."""
    path = tmp_path / "mark"
    yield path
    assert not path.exists()


def objects(mark):
    stream = io.BytesIO()
    np.save(stream, np.array([Program(mark)], object), allow_pickle=True)
    return stream.getvalue()


def archive(mark, **arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays, program=np.array([Program(mark)], object))
    return stream.getvalue()


def test_a_program_would_leave_its_mark(tmp_path):
    for number, load in enumerate((pickle.loads, lambda text: np.load(io.BytesIO(text), allow_pickle=True))):
        path = tmp_path / str(number)
        content = objects(path) if number else pickle.dumps(Program(path))
        load(content)
        assert path.exists()


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_no_file_that_is_read_can_be_a_program(parser, tmp_path, mark):
    """Each file replaced by a pickle, an array of objects and an archive of them: refused, rebuilt or of no effect."""
    folder = tmp_path / "files"
    lay_out(parser._replace(files={**parser.files, "x": b""}), folder)
    for name, good in parser.files.items():
        for content in (pickle.dumps(Program(mark)), pickle.dumps(Program(mark), 0), objects(mark), archive(mark)):
            (folder / name).write_bytes(content)
            told(parser, folder)
            assert not mark.exists()
        (folder / name).write_bytes(as_bytes(good))


def refused(code, read, *arguments):
    with pytest.raises(UserError, match=rf"^{code} [^\n]* Fix: [^\n]*$"):
        read(*arguments)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pkl", "weights.npz", "model.safetensors"])
def test_weights_are_no_program(name, tmp_path, mark):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "config.json").write_text(BERT_CONFIG)
    (tmp_path / "w" / name).write_bytes(pickle.dumps(Program(mark)))
    code = "E-BERT-044" if name.endswith(".safetensors") else "E-BERT-041"
    refused(code, bert_import.load_weights, tmp_path / "w", parameters())
    refused(code, bert_import.load_weights, tmp_path / "w" / name, parameters())


def test_a_state_of_a_filtering_is_no_program_even_under_its_seal(tmp_path, mark):
    """Who can write the file can seal it, too."""
    filtering.save(tmp_path, KEEP_SEALED, STATE)
    with np.load(tmp_path / filtering.STATE, allow_pickle=False) as file:
        about = file["about"]
    content = archive(mark, about=about, score=np.zeros(3)).replace(b"program.npy", b"removed.npy")
    (tmp_path / filtering.STATE).write_bytes(content + filtering.hashlib.sha256(content).digest())
    refused("E-FILT-005", filtering.load, tmp_path, KEEP_SEALED, 3)


def reseal(folder, seal, facts):
    """The manifest of a folder as if all its files were as they should be."""
    manifest = {name: value for name, value in read_sealed(folder / "manifest.json", seal).items() if name != seal}
    files = {name: facts(folder / name) for name in manifest["files"]}
    write_sealed(folder / "manifest.json", {**manifest, "files": files}, seal)


def test_an_array_of_a_cache_is_no_program_even_under_its_seal(tmp_path, mark, capsys):
    prepared, _ = prepared_cache.Cache(tmp_path).get("c", test_cache.KEY, test_cache.Builder())
    (prepared.folder / "label.npy").write_bytes(objects(mark))
    reseal(prepared.folder, "sha256", sha256)
    again, hit = prepared_cache.Cache(tmp_path).get("c", test_cache.KEY, test_cache.Builder())
    assert (hit, again.arrays["label"].dtype) == (False, np.int32)
    names = list(store.stored(tmp_path / "o", test_store.KEY, test_store.rich).names)
    (tmp_path / "o" / "names.concepts.npy").write_bytes(objects(mark))
    reseal(tmp_path / "o", store.SEAL, lambda path: {"size": path.stat().st_size, "sha256": sha256(path)})
    assert list(store.stored(tmp_path / "o", test_store.KEY, test_store.rich).names) == names
    told = capsys.readouterr().err
    assert "E-PREP-001" in told
    assert "E-ONTO-065" in told


@pytest.mark.parametrize("planted", [lambda mark: pickle.dumps(Program(mark)), objects])
def test_a_checkpoint_is_no_program_even_under_its_seal(planted, tmp_path, mark):
    from mednli_jax.training import checkpoint

    checkpoints = checkpoint.Checkpoints(tmp_path / "c")
    checkpoints.save({"a": np.arange(3.0)}, {"epoch": 1})
    for path in (tmp_path / "c" / "1").rglob("*"):
        if path.is_file() and not path.name.startswith("_"):  # those say what there is, in JSON
            path.write_bytes(planted(mark))
    refused("E-RUN-008", checkpoint.Checkpoints(tmp_path / "c").load)
    manifest = {"files": checkpoint._digests(tmp_path / "c" / "1"), "meta": {"epoch": 1}}
    write_sealed(tmp_path / "c" / "1.manifest.json", manifest)
    with pytest.raises(UserError):
        checkpoint.Checkpoints(tmp_path / "c").load()


# -- places ------------------------------------------------------------------------------------------------------------

PLACES = ("../../x", "/etc/x", "..", ".", "a/b", "~", "a\0b", "x" * 300, "é\n")


@pytest.mark.parametrize("name", PLACES)
def test_no_disease_names_a_place_outside_the_benchmark(name, tmp_path):
    """Folders of folds are called by their diseases, whose ids come from files."""
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
