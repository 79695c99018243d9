"""Corrupted inputs, one table over every reader: what the user is told, through the doors, and what is left on disk.

Each case damages good files in one place and goes through a door's flags, exit code and streams. The table is long
because it is a count: a kind of damage that stands here is known to end in one line and exit code 2.
MIMIC-III notes have no door yet: they are read through the same frame of flags, exit code and streams (`notes`).
"""

import ast
import gzip
import io
import json
import os
import re
import struct
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from absl import flags

from mednli_jax import analyze, cli, doctor, predict, prepare
from mednli_jax.data.nli import read_nli_file
from mednli_jax.data.notes import PastMedicalHistory
from mednli_jax.errors import UserError
from mednli_jax.knowledge import mesh
from mednli_jax.knowledge.vectors import load_vectors
from mednli_jax.text import MAX_LINE_BYTES, SPECIALS

ROOT = Path(__file__).parent.parent
WORDS = ("zebrafish", "quokka", "axolotl", "narwhal", "wombat")  # all that the made-up sentences say
PREMISE, HYPOTHESIS = "zebrafish met quokka .", "an axolotl ."
FOLDER = object()  # a folder where a file should be
LOCKED = object()  # a file without permissions, which stop everybody but root
UNREADABLE = Path("/proc/self/mem")  # opens, but its first bytes cannot be read, not even by root


def pair(n, **more):
    """A row in the official fields; a field given as ... is left out."""
    values = {"pairID": f"p{n}", "gold_label": "neutral", "sentence1": f"{PREMISE[:-1]}{n} .", "sentence2": HYPOTHESIS}
    values |= {"sentence1_binary_parse": f"( {values['sentence1']} )", "sentence2_binary_parse": f"( {HYPOTHESIS} )"}
    return {name: value for name, value in {**values, "genre": "slate", **more}.items() if value is not ...}


def jsonl(first, *rows):
    """JSON lines; rows are dicts, or text or bytes as they stand. `first` numbers a good row before them."""
    lines = [row if isinstance(row, bytes | str) else json.dumps(row) for row in (pair(first), *rows)]
    return b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)


def table(separator, *rows, header=("pairID", "gold_label", "sentence1", "sentence2")):
    return "".join(separator.join(row) + "\n" for row in (header, *rows))


def cells(n, label="neutral", premise=PREMISE, hypothesis=HYPOTHESIS):
    return (f"p{n}", label, premise, hypothesis)


def good(template, splits=("train", "dev", "test")):
    return {template.format(split): jsonl(100 * number) for number, split in enumerate(splits)}


SNLI_HEADER = ("gold_label", "sentence1", "sentence2", "pairID", "label1", "label2")
TRUTH = "mednli_bionlp19_shared_task_ground_truth.csv"
MEDNLI = {f"mednli/mli_{split}_v1.jsonl": jsonl(100 * n) for n, split in enumerate(("train", "dev", "test"))}
SNLI_TXT = {
    f"snli/snli_1.0_{split}.txt": table("\t", ("neutral", PREMISE, HYPOTHESIS, f"{split}1"), header=SNLI_HEADER[:4])
    for split in ("train", "dev", "test")
}
TRIPLES = {
    f"file/{name}.{split}": text
    for split in ("train", "dev")
    for name, text in (("s1", f"{PREMISE}\n" * 3), ("s2", f"{HYPOTHESIS}\n" * 3), ("labels", "neutral\n" * 3))
}
BASES = {
    "file": good("file/{}.jsonl", ("train", "dev")),
    "tsv": {f"file/{split}.tsv": table("\t", cells(split)) for split in ("train", "dev")},
    "csv": {f"file/{split}.csv": table(",", cells(split)) for split in ("train", "dev")},
    "triples": TRIPLES,
    "mednli": MEDNLI,
    "snli": good("snli/snli_1.0_{}.jsonl"),
    "snli.txt": SNLI_TXT,
    "multinli": good("multinli/multinli_1.0_{}.jsonl", ("train", "dev_matched")),
    "mediqa": MEDNLI
    | {"mediqa_nli/mednli_bionlp19_shared_task.jsonl": jsonl(200)}
    | {f"mediqa_nli/{TRUTH}": "pair_id,label\np200,neutral\n"},
    "none": {},
}  # fmt: skip
VARIANTS = {"tsv": "file", "csv": "file", "triples": "file", "snli.txt": "snli", "mediqa": "mediqa_nli"}
VARIANTS |= {"multinli": "multinli/slate"}
NO_VECTORS = "--config.vectors.path="


@dataclass(frozen=True)
class Case:
    """base: the good files; files: what replaces some (None removes). flags: more of argv. The rest is expected."""

    name: str
    base: str
    files: dict
    code: str
    where: str = ""
    field: str = ""
    fix: str = ""
    flags: tuple = ()
    door: str = "prepare"
    config: str = "bow.py"
    stdin: bytes = b""
    status: int = 2
    told: tuple = ()

    def argv(self):
        if self.door not in ("prepare", "stats"):
            return self.flags
        variant = VARIANTS.get(self.base, self.base)
        config = f"--config={ROOT / 'configs' / self.config}" + ("" if variant == "none" else f":{variant}")
        return (*(("stats",) if self.door == "stats" else ()), config, NO_VECTORS, *self.flags)


def own(name, row, code, field="", fix="", line=2, **more):
    """A case of one's own train.jsonl with `row` as its second line."""
    return Case(name, "file", {"file/train.jsonl": jsonl(1, row)}, code, f"train.jsonl:{line}", field, fix, **more)


def bad(**more):
    return pair(2, **more)


LINES = (
    own("broken JSON", '{"sentence1": "quokka', "E-DATA-013", fix="fresh copy"),
    own("half a JSON line", json.dumps(bad())[:-30], "E-DATA-013", fix="fresh copy"),
    own("nested too deep", "[" * 100_000, "E-DATA-013", fix="fresh copy"),
    own("a number of 5000 digits", '{"a": ' + "9" * 5000 + "}", "E-DATA-013", fix="fresh copy"),
    own("a list for an object", '["quokka"]', "E-DATA-014", fix="one object"),
    own("a string for an object", '"quokka"', "E-DATA-014", fix="one object"),
    own("a list for a sentence", bad(sentence1=["quokka"]), "E-DATA-015", "sentence1", "fresh copy"),
    own("a number for a sentence", bad(sentence2=7), "E-DATA-015", "sentence2", "fresh copy"),
    own("null for a label", bad(gold_label=None), "E-DATA-015", "gold_label", "fresh copy"),
    own("a number for a label", bad(gold_label=1), "E-DATA-015", "gold_label", "fresh copy"),
    own("a number for a pairID", bad(pairID=7), "E-DATA-015", "pairID", "fresh copy"),
    own("a list for a parse", bad(sentence1_binary_parse=["quokka"]), "E-DATA-015", "sentence1_binary_parse", "fresh"),
    own("no label", bad(gold_label=...), "E-DATA-017", "gold_label", "name the field 'label'"),
    own("no premise", bad(sentence1=...), "E-DATA-017", "sentence1", "name the field 'premise'"),
    own("no hypothesis", bad(sentence2=...), "E-DATA-017", "sentence2", "name the field 'hypothesis'"),
    own("an unknown label", bad(gold_label="wombat"), "E-DATA-018", "gold_label", "correct the label"),
    own("a label in capitals", bad(gold_label="Neutral"), "E-DATA-018", "gold_label", "correct the label"),
    own("an empty label", bad(gold_label=""), "E-DATA-018", "gold_label", "correct the label"),
    own("an empty premise", bad(sentence1=""), "E-DATA-019", "sentence1", "remove the line"),
    own("a blank hypothesis", bad(sentence2=" \t\u00a0"), "E-DATA-019", "sentence2", "remove the line"),
    own("a pairID twice", pair(1), "E-DATA-020", "pairID", "fresh copy"),
    own("a parse of brackets", bad(sentence2_binary_parse="( ( ) )"), "E-DATA-022", "sentence2_binary_parse", "parses"),
    own("a parse cut short", bad(sentence1_binary_parse="( quokka ( is"), "E-DATA-031", "sentence1_binary_parse", "a"),
    own("a parse that opens late", bad(sentence2_binary_parse="quokka )"), "E-DATA-031", "sentence2_binary_parse", "a"),
    own("Latin-1", '{"sentence1": "quokka à"}'.encode("latin-1"), "E-DATA-010", fix="UTF-8"),
    own("a NUL byte", b'{"sentence1": "quokka\0"}', "E-DATA-011", fix="fresh copy"),
    own("an escaped NUL", bad(sentence1="quokka\0"), "E-DATA-011", "sentence1", "fresh copy"),
    own("half a surrogate pair", bad(sentence2="quokka\ud800"), "E-DATA-016", "sentence2", "UTF-8"),
    own("a huge line", b'"' + b"quokka " * (MAX_LINE_BYTES // 7 + 1) + b'"', "E-DATA-012", fix="fresh copy"),
)  # fmt: skip


def train(name, content, code, where="train.jsonl", fix="", **more):
    """A case of one's own train.jsonl with this content, None for no such file."""
    return Case(name, "file", {"file/train.jsonl": content}, code, where, fix=fix, **more)


WHOLE = gzip.compress(b"".join(jsonl(n) for n in range(300)))
FILES = (
    train("a missing file", None, "E-DATA-001", fix="--config.data.dir"),
    train("a folder for a file", FOLDER, "E-DATA-001", fix="--config.data.dir", told=("a folder stands",)),
    train("an empty file", b"", "E-DATA-005", fix="fresh copy"),
    train("a file of blank lines", b"\n \n\n", "E-DATA-005", fix="fresh copy"),
    train("no labelled pair", json.dumps(pair(1, gold_label="-")).encode(), "E-DATA-005", fix="fresh copy"),
    train("UTF-16 with its mark", jsonl(1).decode().encode("utf-16"), "E-DATA-010", "train.jsonl:1", "UTF-8"),
    train("UTF-16 without", jsonl(1).decode().encode("utf-16-le"), "E-DATA-011", "train.jsonl:1", "fresh copy"),
    train("an unreadable file", UNREADABLE, "E-DATA-003", fix="check the disk", door="stats"),
    train("a file without permissions", LOCKED, "E-DATA-003", fix="permissions"),
    train("an unreadable file, prepared", UNREADABLE, "E-DATA-003", fix="permissions"),
    Case("a gz cut short", "file", {"file/train.jsonl": None, "file/train.jsonl.gz": WHOLE[:-50]},
         "E-DATA-004", "train.jsonl.gz", fix="fresh copy"),
    Case("a gz with a wrong checksum", "file", {"file/train.jsonl": None, "file/train.jsonl.gz": WHOLE[:-8] + bytes(8)},
         "E-DATA-004", "train.jsonl.gz", fix="fresh copy"),
    Case("no gz, but named so", "file", {"file/train.jsonl": None, "file/train.jsonl.gz": jsonl(1)},
         "E-DATA-004", "train.jsonl.gz", fix="fresh copy"),
    Case("two files of a split", "file", {"file/train.tsv": table("\t", cells(1))}, "E-DATA-029", fix="keep one"),
    Case("train and dev overlap", "file", {"file/dev.jsonl": jsonl(0)}, "E-DATA-021", "dev.jsonl", "pairID", "fresh"),
    Case("a missing folder", "none", {}, "E-DATA-001", "train.jsonl", fix="--config.data.dir",
         flags=("--config.data.name=file", "--config.data.dir=absent")),
    Case("no folder named", "none", {}, "E-CONF-006", fix="--config.data.dir=FOLDER",
         flags=("--config.data.name=file",)),
    Case("no data folder", "none", {}, "E-CONF-006", fix="MEDNLI_JAX_DATA", flags=("--config.data.name=snli",)),
)  # fmt: skip


def tsv(name, row, code, where="train.tsv:3", field="", fix="", header=None, **more):
    content = table("\t", cells(1), row, **({"header": header} if header else {}))
    return Case(name, "tsv", {"file/train.tsv": content}, code, where, field, fix, **more)


def csv(name, content, code, where="train.csv:3", field="", fix="", **more):
    return Case(name, "csv", {"file/train.csv": content}, code, where, field, fix, **more)


def triple(name, files, code, where, field="", fix=""):
    return Case(name, "triples", {f"file/{file}": content for file, content in files.items()}, code, where, field, fix)


TWICE = ("pairID", "gold_label", "sentence1", "sentence1")
TABLES = (
    tsv("TSV: too many columns", (*cells(2), "wombat"), "E-DATA-023", fix="as many columns"),
    tsv("TSV: too few columns", cells(2)[:3], "E-DATA-023", fix="as many columns"),
    tsv("TSV: a column twice", cells(2), "E-DATA-025", "train.tsv:1", fix="its own name", header=TWICE),
    tsv("TSV: no header", cells(2), "E-DATA-017", "train.tsv:1", "gold_label", "official", header=cells(0)),
    tsv("TSV: an unknown label", cells(2, "wombat"), "E-DATA-018", field="gold_label", fix="correct the label"),
    tsv("TSV: an empty sentence", cells(2, premise=" "), "E-DATA-019", field="sentence1", fix="remove the line"),
    tsv("TSV: a pairID twice", cells(1), "E-DATA-020", field="pairID", fix="fresh copy"),
    Case("TSV: empty", "tsv", {"file/train.tsv": ""}, "E-DATA-005", "train.tsv", fix="fresh copy"),
    Case("TSV: Latin-1 header", "tsv", {"file/train.tsv": b"\xe9\tlabel\n"}, "E-DATA-010", "train.tsv:1", fix="UTF-8"),
    csv("CSV: an unclosed quote", table(",", cells(1), cells(2, premise='"quokka')), "E-DATA-024", fix="fresh copy"),
    csv("CSV: a stray quote", table(",", cells(1), cells(2, premise='quo"kka"')), "E-DATA-024", fix="quote the whole"),
    csv("CSV: too many columns", table(",", cells(1), (*cells(2), "wombat")), "E-DATA-023", fix="as many columns"),
    csv("CSV: a column twice", table(",", header=TWICE), "E-DATA-025", "train.csv:1", fix="its own name"),
    csv("CSV: no label column", table(",", header=TWICE[::2]), "E-DATA-017", "train.csv:1", "gold_label", "official"),
    csv("CSV: Latin-1", table(",", cells(1), cells(2, premise="à")).encode("latin-1"), "E-DATA-010", fix="UTF-8"),
    csv("CSV: a NUL", table(",", cells(1), cells(2, premise="quokka\0")), "E-DATA-011", fix="fresh copy"),
    triple("triples: s2 missing", {"s2.train": None}, "E-DATA-001", "s2.train", fix="beside the s1 file"),
    triple("triples: labels a folder", {"labels.dev": FOLDER}, "E-DATA-001", "labels.dev", fix="beside the s1 file"),
    triple("triples: s2 short", {"s2.train": "wombat\n"}, "E-DATA-028", "s2.train:2", fix="as many lines"),
    triple("triples: an unknown label", {"labels.train": "neutral\nwombat\nneutral\n"}, "E-DATA-018", "labels.train:2",
           "gold_label", "correct the label"),
    triple("triples: a blank premise", {"s1.train": "quokka\n \nquokka\n"}, "E-DATA-019", "s1.train:2", "sentence1"),
    triple("triples: Latin-1", {"s1.dev": b"quokka\n\xe9\nquokka\n"}, "E-DATA-010", "s1.dev:2", fix="UTF-8"),
    triple("triples: empty", {"s1.train": "", "s2.train": "", "labels.train": ""}, "E-DATA-005", "s1.train"),
)  # fmt: skip


def official(name, base, file, content, code, where, field="", fix="", **more):
    return Case(name, base, {file: content}, code, where, field, fix, **more)


def mediqa(name, truth, code, where, field="", fix="", **more):
    return official(f"MEDIQA-NLI: {name}", "mediqa", f"mediqa_nli/{TRUTH}", truth, code, where, field, fix, **more)


MLI, SNLI = "mednli/mli_train_v1.jsonl", "snli/snli_1.0_dev.jsonl"
TXT, MNLI = "snli/snli_1.0_train.txt", "multinli/multinli_1.0_train.jsonl"
CORPORA = (
    official("MedNLI: missing", "mednli", MLI, None, "E-DATA-001", "mli_train_v1.jsonl", fix="physionet.org"),
    official("MedNLI: a label wrong", "mednli", MLI, jsonl(1, bad(gold_label="wombat")), "E-DATA-018",
             "mli_train_v1.jsonl:2", "gold_label", "correct", door="stats"),
    official("MedNLI: test in train", "mednli", "mednli/mli_test_v1.jsonl", jsonl(0), "E-DATA-021",
             "mli_test_v1.jsonl", "pairID", "fresh copy", door="stats"),
    official("SNLI: broken JSON", "snli", SNLI, jsonl(1, "{quokka"), "E-DATA-013", "snli_1.0_dev.jsonl:2", fix="fresh"),
    official("SNLI: missing", "snli", SNLI, None, "E-DATA-001", "snli_1.0_dev.jsonl", fix="nlp.stanford.edu"),
    official("SNLI txt: an empty sentence", "snli.txt", TXT,
             table("\t", ("neutral", "", HYPOTHESIS, "p1", "x", "y"), header=SNLI_HEADER), "E-DATA-019",
             "snli_1.0_train.txt:2", "sentence1", "fill in"),
    official("SNLI txt: too many columns", "snli.txt", TXT,
             table("\t", ("neutral", PREMISE, HYPOTHESIS, "p1", "x", "y", "z"), header=SNLI_HEADER), "E-DATA-023",
             "snli_1.0_train.txt:2", fix="as many columns"),
    official("MultiNLI: no genre", "multinli", MNLI, jsonl(1, bad(genre=...)), "E-DATA-017",
             "multinli_1.0_train.jsonl:2", "genre", "MultiNLI's own file"),
    official("MultiNLI: none of a genre", "multinli", MNLI, json.dumps(pair(1, genre="travel")), "E-DATA-005",
             "multinli_1.0_train.jsonl", fix="fresh copy"),
    mediqa("no ground truth", None, "E-DATA-001", TRUTH, fix="mednli-bionlp19"),
    mediqa("a pair without label", "pair_id,label\np9,neutral\n", "E-DATA-027",
           "mednli_bionlp19_shared_task.jsonl:1", "pairID", "same release"),
    mediqa("a label without pair", "pair_id,label\np200,neutral\np9,neutral\n", "E-DATA-026", f"{TRUTH}:3", "pair_id",
           "same release", told=("field 'pair_id'",)),
    mediqa("an unknown label", "pair_id,label\np200,wombat\n", "E-DATA-018", f"{TRUTH}:2", "label", "correct"),
    mediqa("a pair twice", "p200,neutral\np200,neutral\n", "E-DATA-020", f"{TRUTH}:2", "pair_id", "fresh copy"),
    mediqa("three columns", "p200,neutral,wombat\n", "E-DATA-023", f"{TRUTH}:1", fix="pairID and label"),
    official("TFDS: broken JSON", "mednli", MLI, jsonl(1, "{quokka"), "E-DATA-013", "mli_train_v1.jsonl:2",
             fix="fresh copy", flags=("--config.data.builder=tfds",)),
    official("TFDS: missing", "mednli", MLI, None, "E-DATA-001", "mli_train_v1.jsonl", fix="physionet.org",
             flags=("--config.data.builder=tfds",)),
    official("TFDS: an empty sentence", "snli", SNLI, jsonl(1, bad(sentence1=" ")), "E-DATA-019",
             "snli_1.0_dev.jsonl:2", "sentence1", "fill in", flags=("--config.data.builder=tfds",), door="stats"),
)  # fmt: skip

NOTES_HEADER = "ROW_ID,CATEGORY,ISERROR,TEXT\n"
NOTE = '1,Report,,"Past Medical History:\nquokka"\n'


def notes(name, content, code, where, field="", fix="fresh copy", file="NOTEEVENTS.csv"):
    return Case(f"notes: {name}", "none", {file: content}, code, where, field, fix, (f"--notes={file}",), "notes")


NOTES = (
    notes("missing", None, "E-DATA-001", "NOTEEVENTS.csv", fix="check the path"),
    notes("a folder", FOLDER, "E-DATA-001", "NOTEEVENTS.csv", fix="check the path"),
    notes("empty", "", "E-DATA-005", "NOTEEVENTS.csv"),
    notes("no TEXT", "ROW_ID,CATEGORY,ISERROR\n", "E-DATA-017", "NOTEEVENTS.csv:1", "TEXT", "official file"),
    notes("a column twice", "ROW_ID,CATEGORY,ISERROR,TEXT,TEXT\n", "E-DATA-025", "NOTEEVENTS.csv:1"),
    notes("an unclosed quote", NOTES_HEADER + NOTE + '2,Report,,"quokka\n', "E-DATA-024", "NOTEEVENTS.csv:4"),
    notes("too many columns", NOTES_HEADER + NOTE + "2,Report,,quokka,wombat\n", "E-DATA-023", "NOTEEVENTS.csv:4"),
    notes("a ROW_ID of letters", NOTES_HEADER + "wombat,Report,,quokka\n", "E-DATA-015", "NOTEEVENTS.csv:2", "ROW_ID"),
    notes("an ISERROR of letters", NOTES_HEADER + "1,Report,wombat,x\n", "E-DATA-015", "NOTEEVENTS.csv:2", "ISERROR"),
    notes("a ROW_ID twice", NOTES_HEADER + NOTE + NOTE, "E-DATA-020", "NOTEEVENTS.csv:4", "ROW_ID"),
    notes("Latin-1", NOTES_HEADER.encode() + b"1,Report,,quokka \xe9\n", "E-DATA-010", "NOTEEVENTS.csv:2", fix="UTF-8"),
    notes("a NUL", NOTES_HEADER + "1,Report,,quokka\0\n", "E-DATA-011", "NOTEEVENTS.csv:2"),
    notes("a gz cut short", gzip.compress(os.urandom(4000))[:-9], "E-DATA-004", "NOTEEVENTS.csv.gz",
          file="NOTEEVENTS.csv.gz"),
)  # fmt: skip


def ontology(name, content, code, where="own.tsv", field="", fix="", file="own.tsv", **more):
    options = (f"--config.knowledge.ontology={file}",)
    if isinstance(content, str):
        content = "\t".join(mesh.HEADER) + "\n" + content
    name = f"ontology: {name}"
    return Case(name, "file", {file: content}, code, where, field, fix, options, config="esim_kd.py", **more)


ONTOLOGY = (
    ontology("missing", None, "E-ONTO-010", fix="check the path"),
    ontology("a folder", FOLDER, "E-ONTO-010", fix="check the path"),
    ontology("unreadable", UNREADABLE, "E-USE-010", "", fix="permissions", told=("Input/output error",)),
    ontology("empty", b"", "E-ONTO-012", "own.tsv:1", fix="must name"),
    ontology("another table", b"a,b\n", "E-ONTO-012", "own.tsv:1", fix="must name"),
    ontology("no descriptors", "", "E-ONTO-021", fix="fetch it again"),
    ontology("a gz cut short", gzip.compress(b"x" * 1000)[:-9], "E-ONTO-011", "own.tsv.gz", "", "fetch", "own.tsv.gz"),
    ontology("no gz", b"quokka", "E-ONTO-011", "own.tsv.gz", "", "fetch", "own.tsv.gz"),
    ontology("three fields", "D1\tquokka\tC01\n", "E-ONTO-013", "own.tsv:2", fix="one tab"),
    ontology("five fields", "D1\tquokka\tC01\t\twombat\n", "E-ONTO-013", "own.tsv:2", fix="one tab"),
    ontology("an empty id", "\tquokka\tC01\t\n", "E-ONTO-014", "own.tsv:2", "id", "remove the row"),
    ontology("an empty name", "D1\t \tC01\t\n", "E-ONTO-014", "own.tsv:2", "name", "remove the row"),
    ontology("an id twice", "D1\tquokka\tC01\t\n" * 2, "E-ONTO-015", "own.tsv:3", "id", "one row"),
    ontology("a bad tree number", "D1\tquokka\tC1\t\n", "E-ONTO-016", "own.tsv:2", "tree_numbers", "C14.280.067"),
    ontology("a tree number of two", "D1\tquokka\tC01\t\nD2\twombat\tC01\t\n", "E-ONTO-017", "own.tsv:3",
             "tree_numbers", "one of them"),
    ontology("a cycle", "D1\tquokka\tC01|C02.100\t\nD2\twombat\tC02|C01.100\t\n", "E-ONTO-003", "own.tsv", "is-a",
             "remove one edge"),
    ontology("a parent that is not there", "D1\tquokka\tC01.100\t\n", "", status=0, told=("prepared in",)),
    ontology("Latin-1", "\t".join(mesh.HEADER).encode() + b"\nD1\tquokka \xe9\tC01\t\n", "E-ONTO-019", "own.tsv:2",
             fix="UTF-8"),
    ontology("UTF-16", "\t".join(mesh.HEADER).encode("utf-16"), "E-ONTO-019", "own.tsv:1", fix="UTF-8"),
    ontology("a NUL", "D1\tquokka\0\tC01\t\n", "E-ONTO-020", "own.tsv:2", fix="fetch it again"),
    Case("ontology: unknown", "file", {}, "E-ONTO-005", "", "config.knowledge.ontology", "give one of mesh",
         ("--config.knowledge.ontology=mehs",), config="esim_kd.py", told=("Did you mean 'mesh'?",)),
)  # fmt: skip


def vectors(name, content, code, where="v.txt", fix="", file="v.txt", dim=3, more=None, **rest):
    flags = (f"--config.vectors.path={file}", f"--config.vectors.dim={dim}")
    return Case(f"vectors: {name}", "file", {file: content, **(more or {})}, code, where, "", fix, flags, **rest)


def array(value, **options):
    stream = io.BytesIO()
    np.save(stream, value, **options)
    return stream.getvalue()


ROW = "quokka 1 2 3\n"
THREE = array(np.ones((2, 3), np.float32))
# The head of a fastText model of 3 numbers and one word, and the mark of quantised ones.
QUANTISED = struct.pack("<14id3i2q", 793712314, 12, 3, 5, 1, 1, 5, 1, 2, 2, 0, 0, 0, 100, 1e-4, 1, 1, 0, 9, -1)
QUANTISED += b"quokka\0" + struct.pack("<qb?", 7, 0, True)
VECTORS = (
    vectors("missing", None, "E-VEC-001", fix="vectors.path"),
    vectors("without permissions", LOCKED, "E-VEC-002", fix="permissions"),
    vectors("a folder", FOLDER, "E-VEC-001", fix="vectors.path"),
    vectors("unreadable", UNREADABLE, "E-VEC-002", fix="permissions"),
    vectors("empty", "", "E-VEC-004", fix="copy the file again"),
    vectors("a header alone", "0 3\n", "E-VEC-004", fix="copy the file again"),
    vectors("a gz cut short", gzip.compress(os.urandom(4000))[:-9], "E-VEC-003", "v.txt.gz", "copy it", "v.txt.gz"),
    vectors("no gz", ROW, "E-VEC-003", "v.txt.gz", "copy it again", "v.txt.gz"),
    vectors("another dimension", ROW, "E-VEC-005", "v.txt:1", "dimension to 3", dim=5),
    vectors("another dimension in the header", "1 4\nquokka 1 2 3 4\n", "E-VEC-005", "v.vec:1",
            "dimension to 4", "v.vec"),
    vectors("a short row", ROW + "wombat 1 2\n", "E-VEC-006", "v.txt:2", "damaged here"),
    vectors("a long row", ROW + "wombat 1 2 3 4\n", "E-VEC-006", "v.txt:2", "damaged here"),
    vectors("NaN", "narwhal 1 2 3\nquokka 1 nan 3\n", "E-VEC-007", "v.txt:2", "correct or remove"),
    vectors("infinite", "quokka 1 inf 3\n", "E-VEC-007", "v.txt:1", "correct or remove"),
    vectors("beyond float32", "quokka 1 1e300 3\n", "E-VEC-007", "v.txt:1", "correct or remove"),
    vectors("a word for a number", "quokka 1 wombat 3\n", "E-VEC-007", "v.txt:1", "correct or remove", told=()),
    vectors("fewer rows than promised", "7 3\n" + ROW, "E-VEC-008", "v.vec:1", "cut short", "v.vec"),
    vectors("a huge line", "quokka " * (MAX_LINE_BYTES // 6), "E-VEC-009", "v.txt:1", "text file"),
    vectors("a word2vec binary", b"1 3\nquokka " + bytes(12), "", file="v.bin", status=0, told=("prepared in",)),
    vectors("a word2vec binary cut short", b"1 3\nquokka " + bytes(9), "E-VEC-012", "v.bin", "copy the file", "v.bin"),
    vectors("a word2vec binary of fewer rows", b"2 3\nquokka " + bytes(12), "E-VEC-008", "v.bin:1", "cut", "v.bin"),
    vectors("another program's binary", b"\x80\x04quokka", "E-VEC-009", "v.bin", "as text", "v.bin"),
    vectors("a quantised fastText model", QUANTISED, "E-VEC-013", "v.ftz", "whole model", "v.ftz"),
    vectors("a name left out beside a +", None, "E-VEC-014", "v.txt+", "one FILE", "v.txt+", more={"v.txt": ROW}),
    vectors("a zip", b"PK\3\4quokka", "E-VEC-009", "v.txt", "unzip it"),
    vectors("no array", b"quokka", "E-VEC-009", "v.npy", "text file", "v.npy", more={"v.vocab.txt": "quokka\n"}),
    vectors("a pickle", array(np.array([{"quokka": 1}]), allow_pickle=True), "E-VEC-009", "v.npy", "text file", "v.npy",
            more={"v.vocab.txt": "quokka\n"}),
    vectors("an array of one dimension", array(np.ones(3)), "E-VEC-009", "v.npy", "text file", "v.npy",
            more={"v.vocab.txt": "quokka\n"}),
    vectors("an array cut short", THREE[:-4], "E-VEC-009", "v.npy", "text file", "v.npy",
            more={"v.vocab.txt": "a\nb\n"}),
    vectors("an array with half a header", THREE[:40].replace(b"\x76\0", b"\x14\0"), "E-VEC-009", "v.npy", "text file",
            "v.npy", more={"v.vocab.txt": "a\nb\n"}),
    vectors("an array without words", THREE, "E-VEC-001", "v.vocab.txt", "vectors.path", "v.npy"),
    vectors("an array with fewer words", THREE, "E-VEC-010", "v.npy", "same vectors", "v.npy",
            more={"v.vocab.txt": "quokka\n"}),
    vectors("NaN in an array", array(np.full((1, 3), np.nan)), "E-VEC-007", "v.npy", "correct the row", "v.npy",
            more={"v.vocab.txt": "quokka\n"}),
    vectors("a word twice", ROW + ROW, "E-VEC-011", "v.txt", status=0, told=("1 rows repeat a word",)),
)  # fmt: skip


def pairs(name, stdin, code, line=1, fix="premise TAB hypothesis"):
    return Case(f"predict: {name}", "none", {}, code, f"stdin:{line}", "", fix, ("--run=run",), "predict", stdin=stdin)


PREDICT = (
    pairs("one sentence", b"quokka\n", "E-PRED-002"),
    pairs("three sentences", b"quokka\twombat\tnarwhal\n", "E-PRED-002"),
    pairs("an empty hypothesis", b"\nquokka\t \n", "E-PRED-002", 2),
    pairs("broken JSON", b'{"premise": "quokka\n', "E-PRED-002"),
    pairs("a field missing", b'{"premise": "quokka"}\n', "E-PRED-002"),
    pairs("a number for a sentence", b'{"premise": "quokka", "hypothesis": 3}\n', "E-PRED-002"),
    pairs("Latin-1", b"quokka\twombat\n\xe9\tquokka\n", "E-PRED-001", 2, "convert"),
    pairs("UTF-16", "quokka\twombat\n".encode("utf-16"), "E-PRED-001", 1, "convert"),
    pairs("a NUL", b"quokka\0\twombat\n", "E-PRED-003", 1, "remove it"),
    pairs("half a surrogate pair", b'{"premise": "quokka \\ud800", "hypothesis": "x"}\n', "E-PRED-003", 1, "remove it"),
    pairs("a huge line", b"quokka\t" + b"wombat " * (MAX_LINE_BYTES // 6), "E-PRED-004", 1, "shorten"),
    Case("predict: no run", "none", {}, "E-USE-006", "", "--run", "--run=", (), "predict"),
)  # fmt: skip


def usage(name, code, *flags, field="", fix="", told=(), base="none", **more):
    return Case(f"usage: {name}", base, {}, code, "", field, fix, flags, told=told, **more)


def config_file(name, content, code, where, fix="correct the line"):
    flags, files = ("--config=own.py",), {"own.py": content}
    return Case(f"config file: {name}", "none", files, code, where, "", fix, flags, "config")


CONFIG = f"--config={ROOT / 'configs' / 'bow.py'}"
USAGE = (
    usage("a typo in --config", "E-USE-001", "--confg=x", fix="--help", told=("Did you mean: config",)),
    usage("an extra word", "E-USE-004", "more", fix="--name=value"),
    usage("no config", "E-USE-005", fix="--config=", door="config"),
    usage("fields without config", "E-USE-005", "--config.data.limit=3", fix="--config=", door="config"),
    usage("no such config", "E-USE-005", "--config=absent.py", fix="configs/esim_kd.py", door="config"),
    usage("an empty config", "E-USE-005", "--config=", fix="configs/esim_kd.py", door="config"),
    usage("a typo in a variant", "E-CONF-001", f"{CONFIG}:medlni", fix="mednli", told=("mean 'mednli'?",),
          door="config"),
    usage("a typo in a genre", "E-CONF-001", f"{CONFIG}:multinli/slat", fix="snli", told=("mean 'multinli/slate'?",),
          door="config"),
    usage("a typo in a field", "E-USE-002", "--config.model.hiden=3", field="config.model.hiden", fix="field",
          told=("Did you mean --config.model.hidden_size?",)),
    usage("a typo in a section", "E-USE-002", "--config.vector.dim=3", field="config.vector.dim", fix="field",
          told=("Did you mean --config.vectors.dim?",)),
    usage("a field without its section", "E-USE-002", "--config.epochs=3", field="config.epochs", fix="field",
          told=("Did you mean --config.train.epochs?",)),
    usage("a word for a number", "E-USE-003", "--config.data.limit=all", field="config.data.limit", fix="whole number"),
    usage("a word for a float", "E-USE-003", "--config.model.dropout=x", field="config.model.dropout", fix="a number"),
    usage("a word for a yes", "E-USE-003", "--config.data.lowercase=maybe", field="config.data.lowercase", fix="true"),
    usage("a number for a section", "E-USE-003", "--config.train=3", field="config.train", fix="one of its fields"),
    usage("an unknown corpus", "E-CONF-004", "--config.data.name=mednly", field="config.data.name", fix="mednli"),
    usage("an unknown builder", "E-CONF-004", "--config.data.builder=x", field="config.data.builder", fix="tfds"),
    usage("an unknown genre", "E-CONF-004", "--config.data.genre=x", field="config.data.genre", fix="slate",
          base="multinli", door="stats"),
    usage("a genre of SNLI", "E-CONF-005", "--config.data.genre=x", field="config.data.genre", fix="leave", base="snli",
          door="stats"),
    usage("TFDS of own files", "E-CONF-005", "--config.data.builder=tfds", field="config.data.builder", fix="leave",
          base="file"),
    usage("an unknown direction", "E-CONF-004", "--config.knowledge.direction=x", field="direction", fix="either"),
    usage("a limit of 0", "E-CONF-003", "--config.data.limit=0", field="config.data.limit", fix="at least 1"),
    usage("no tokens", "E-CONF-003", "--config.data.max_length=0", field="config.data.max_length", fix="give 1 to"),
    usage("a path below 0", "E-CONF-003", "--config.knowledge.max_path=-1", field="max_path", fix="0 for no limit"),
    usage("an unknown analysis", "E-USE-007", "figures", fix="analyze stats", door="analyze"),
    usage("a data folder that is none", "E-USE-012", "--data=nowhere", fix="--data", door="doctor"),
    config_file("a syntax error", "x = 1\ndef get_config(:\n", "E-USE-011", "own.py:2"),
    config_file("an import that fails", "import wombats\ndef get_config(x=1): pass\n", "E-USE-011", "own.py:1"),
    config_file("a division by zero", "def get_config():\n    return 1 / 0\n", "E-USE-011", "own.py:2"),
    config_file("no ConfigDict", "def get_config(x=1):\n    return 3\n", "E-USE-005", "", "defaults.nli"),
    config_file("no get_config", "x = 1\n", "E-USE-005", "own.py", "configs/"),
)  # fmt: skip

CASES = (*LINES, *FILES, *TABLES, *CORPORA, *NOTES, *ONTOLOGY, *VECTORS, *PREDICT, *USAGE)


def define_notes(values):
    flags.DEFINE_string("notes", None, "NOTEEVENTS.csv", flag_values=values)


def read_notes(values):
    for _ in PastMedicalHistory(Path(values.notes)):
        pass


DOORS = {
    "prepare": (prepare.main, prepare.USAGE, prepare.define, 0),
    "config": (prepare.main, prepare.USAGE, prepare.define, 0),
    "stats": (analyze.main, analyze.USAGE, analyze.define, 1),
    "analyze": (analyze.main, analyze.USAGE, analyze.define, 1),
    "doctor": (doctor.main, doctor.USAGE, doctor.define, 0),
    "predict": (predict.main, predict.USAGE, predict.define, 0),
    "notes": (read_notes, "Read notes.", define_notes, 0),
}


def lay_out(case, folder):
    """The case's files below `folder`."""
    for name, content in {**BASES[case.base], **case.files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is FOLDER:
            path.mkdir()
        elif content is LOCKED:
            path.touch(mode=0)
        elif isinstance(content, Path):
            path.symlink_to(content)
        elif content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working folder of a door, with files/ as the data folder's name and cache/ beside it."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    umask = os.umask(0o077)
    yield tmp_path
    os.umask(umask)


def knock(case, monkeypatch, capsys):
    """(exit code, stdout, stderr) of the case's door, run in this process."""
    monkeypatch.setattr(sys, "argv", [case.door, *case.argv()])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(case.stdin)))
    main, text, define, words = DOORS[case.door]
    status = cli.run(main, text, define, words=words)
    return status, *capsys.readouterr()


def assert_nothing_left(cache):
    """No prepared corpus, built corpus or temporary file, and none of the sentences' words in what there is."""
    for path in cache.rglob("*"):
        assert path.name in ("prepared", "sources.json", "tfds"), path
        if path.is_file():
            assert_no_words(path.read_text())


def assert_no_words(text):
    assert not [word for word in WORDS if word in text.casefold()]


def with_data(case, monkeypatch, place):
    if case.base == "none":
        monkeypatch.delenv("MEDNLI_JAX_DATA", raising=False)
    else:
        monkeypatch.setenv("MEDNLI_JAX_DATA", str(place / "data"))
    folder = place / "data" / "file"
    return case if VARIANTS.get(case.base, case.base) != "file" else _in_folder(case, folder)


def _in_folder(case, folder):

    return replace(case, flags=(*case.flags, f"--config.data.dir={folder}"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_corrupted_input_is_told_in_a_line_and_leaves_nothing(case, place, monkeypatch, capsys):
    if UNREADABLE in case.files.values() and not UNREADABLE.exists():
        pytest.skip("needs /proc")
    if LOCKED in case.files.values() and os.geteuid() == 0:
        pytest.skip("root may read everything")
    lay_out(case, place / "data")
    status, out, err = knock(with_data(case, monkeypatch, place), monkeypatch, capsys)
    assert status == case.status, err
    told = err + out
    assert_no_words(told)
    assert "Traceback" not in told
    for words in (case.code, case.field, case.fix, *case.told):
        assert words in told
    if case.code and case.where:
        assert re.search(rf"{case.code} (\S*/)?{re.escape(case.where)}: ", err), err
    if case.status:
        assert out == ""
        assert all("Fix: " in line for line in err.splitlines()), err
        assert case.fix in err.partition("Fix: ")[2]
        assert_nothing_left(place / "cache")


def test_thirty_faults_are_the_first_twenty_and_a_count(place, monkeypatch, capsys):
    rows = [pair(n, gold_label=WORDS[n % 5]) for n in range(30)]
    case = train("thirty", jsonl(99, *rows), "E-DATA-018")
    lay_out(case, place / "data")
    status, out, err = knock(with_data(case, monkeypatch, place), monkeypatch, capsys)
    *faults, last = err.splitlines()
    assert (status, out) == (2, "")
    assert [line.split()[1] for line in faults] == [f"train.jsonl:{number}:" for number in range(2, 22)]
    assert last == "... and 10 more problems of this kind."
    assert_no_words(err)


PROCESSES = ("no premise", "a gz cut short", "ontology: a cycle", "vectors: NaN", "usage: a typo in a field")


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_of_its_own_ends_the_same_way(name, place, monkeypatch):
    (case,) = [case for case in CASES if case.name == name]
    lay_out(case, place / "data")
    command = [sys.executable, "-m", "mednli_jax.prepare", *with_data(case, monkeypatch, place).argv()]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{case.code} ")
    assert case.fix in line.partition("Fix: ")[2]
    assert_no_words(line)
    assert_nothing_left(place / "cache")


NUMBERED = tuple(f'{n},Report,,"Past Medical History:\nquokka, ""wombat"""\n' for n in range(4))
CONCEPTS = "".join(f"D{n}\tquokka{n}\tC01.10{n}|C0{n}\twombat|narwhal\n" for n in range(5))
PLAIN = {
    "x.jsonl": b"".join(jsonl(n) for n in range(4)),
    "x.tsv": table("\t", *map(cells, range(4))).encode(),
    "x.csv": table(",", *(cells(n, premise='"quokka, ""wombat"""') for n in range(4))).encode(),
    "notes.csv": (NOTES_HEADER + "".join(NUMBERED)).encode(),
    "mesh.tsv": ("\t".join(mesh.HEADER) + "\n" + CONCEPTS).encode(),
    "v.txt": b"2 3\nquokka 1 2.5 -3\nwombat 1 1 1\n",
    "v.npy": THREE,
    "stdin": b'quokka\twombat\n{"premise": "quokka", "hypothesis": "wombat"}\n',
}
WHOLE_FILES = PLAIN | {f"{name}.gz": gzip.compress(PLAIN[name], mtime=0) for name in ("x.jsonl", "mesh.tsv", "v.txt")}
SPLINTERS = (b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b",", b'"', b"{", b"]", b"NaN", b"\\ud800", b"1e999")


def mutated(content, rng):
    """The bytes with one to four small accidents: a splinter, a gap, a changed byte, a repetition, an early end."""
    for _ in range(rng.integers(1, 5)):
        start = int(rng.integers(len(content) + 1))
        end = start + int(rng.integers(1, 40))
        accidents = (
            content[:start] + SPLINTERS[rng.integers(len(SPLINTERS))] + content[start:],
            content[:start] + content[end:],
            content[:start] + bytes([rng.integers(256)]) + content[start + 1 :],
            content[:end] + content[start:],
            content[:start],
        )
        content = accidents[rng.integers(len(accidents))]
    return content


def read_back(path):
    if path.name == "stdin":
        predict.read_pairs(io.BytesIO(path.read_bytes()))
    elif path.name.startswith("v."):
        load_vectors(path, (*SPECIALS, *WORDS), dim=3, seed=0)
    elif path.name.startswith("mesh."):
        mesh.read_mesh(path, aliases=False)
    elif path.name.startswith("notes."):
        list(PastMedicalHistory(path))
    else:
        read_nli_file(path, split="train")


@pytest.mark.parametrize("name", WHOLE_FILES)
def test_accidents_are_told_or_harmless(name, tmp_path):
    """Whatever happens to a file's bytes, its reader reads it or says in its own words what is wrong."""
    rng, told = np.random.default_rng(len(name)), []
    (tmp_path / "v.vocab.txt").write_text("quokka\nwombat\n")
    path = tmp_path / name
    path.write_bytes(WHOLE_FILES[name])
    read_back(path)
    for _ in range(60):
        path.write_bytes(mutated(WHOLE_FILES[name], rng))
        try:
            read_back(path)
        except UserError as error:
            told.append(str(error))
    assert len(told) > 30
    assert all("Fix: " in text for text in told)
    assert_no_words("".join(told))


# Codes that no damaged input brings about through these doors, and why.
OUT_OF_REACH = {
    "E-DATA-006": "the doors look for files by names whose ending is known",
    "E-DATA-030": "the vocabulary inside a run, which is checked against its manifest before",
    "E-ONTO-001": "an Ontology made in Python, with parts of different sizes",
    "E-ONTO-002": "an Ontology made in Python; the reader of tables tells a repeated id as E-ONTO-015",
    "E-ONTO-004": "asking an Ontology in Python for an id it does not have",
    "E-ONTO-018": "aliases that belong to the package; test_resources holds them to its table",
    "E-USE-008": "needs a finished run",
    "E-USE-009": "an argument of a class in Python",
    "E-USE-013": "flags of train; test_doors has the case",
    "E-CONF-002": "the doors that train check it; test_doors has the case",
}
# What a code means that several modules raise.
SHARED = {
    "E-CONF-003": "a number of a config is out of its range",
    "E-CONF-004": "a name in a config is none of those known",
    "E-CONF-005": "two settings of a config do not go together",
    "E-DATA-001": "a file of a corpus is missing",
    "E-DATA-005": "a file holds nothing that can be used",
    "E-DATA-011": "a NUL stands in a text",
    "E-DATA-015": "a field is of the wrong type",
    "E-DATA-017": "a field is missing",
    "E-DATA-018": "a label is none of those known",
    "E-DATA-003": "a file cannot be read",
    "E-DATA-020": "an identifier is repeated",
    "E-DATA-023": "a row has the wrong number of columns",
    "E-DATA-025": "a header names a column twice",
    "E-PREP-001": "what was prepared or built is damaged",
    "E-RUN-005": "a place cannot be written",
    "E-RUN-008": "no undamaged checkpoint is left",
    "E-RUN-012": "sources changed since the run began",
    "E-VEC-001": "a file of vectors is missing",
}
CODE = re.compile(r"E-[A-Z]+-[0-9]{3}")
PACKAGE = ROOT / "mednli_jax"


def literals(node):
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def codes_by_module():
    """Code -> the modules in whose statements, docstrings aside, it stands at the head of a string."""
    found = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for text in literals(ast.parse(path.read_text())):
            match = CODE.match(text)
            if match:
                found[match.group()].add(str(path.relative_to(PACKAGE)))
    return found


def test_the_table_is_long_and_says_each_thing_once():
    assert len(CASES) >= 85
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_code_of_the_readers_stands_in_the_table():
    readers = ("E-DATA", "E-ONTO", "E-VEC", "E-PRED", "E-CONF", "E-USE")
    raised = {code for code in codes_by_module() if code.startswith(readers)}
    covered = {case.code for case in CASES}
    assert raised - covered == set(OUT_OF_REACH)
    assert covered - raised == {""}  # the one case that is no fault


def test_a_code_has_one_meaning():
    found = codes_by_module()
    assert {code for code, modules in found.items() if len(modules) > 1} == set(SHARED)


RELAYED = {"measure.py"}  # hands on what a child process said, whose own errors are looked at here as well


def user_errors():
    """(module:line, message) of every UserError raised with a message of its own."""
    for path in sorted(path for path in PACKAGE.rglob("*.py") if path.name not in RELAYED):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "UserError":
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", "".join(literals(node))


def test_every_user_error_has_a_code_and_a_fix():
    errors = list(user_errors())
    assert len(errors) > 40
    assert [where for where, text in errors if not CODE.match(text) or "Fix: " not in text] == []
