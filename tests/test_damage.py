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
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import made_up_runs
import numpy as np
import pytest
import test_snomed
import test_umls
import test_wordnet
from absl import flags

from mednli_jax import analyze, cli, defaults, doctor, evaluate, predict, prepare, report, validation
from mednli_jax.analysis import kinds
from mednli_jax.analysis.cloze.skills import read_scores, read_skills
from mednli_jax.analysis.cloze.tables import read_answers
from mednli_jax.corpora.cloze.biomrc import LISTS as BIOMRC
from mednli_jax.corpora.cloze.biomrc import read_biomrc
from mednli_jax.corpora.cloze.case_reports import read_reports
from mednli_jax.corpora.cloze.clicr import read_clicr
from mednli_jax.corpora.diskne.negatives import read_vectors
from mednli_jax.corpora.diskne.published import read_annotations
from mednli_jax.corpora.nli.notes import PastMedicalHistory
from mednli_jax.corpora.nli.readers import read_nli_file
from mednli_jax.corpora.nli.wordpiece import WordPieces
from mednli_jax.errors import UserError
from mednli_jax.examples import Answer, ClozeExample, Entity, Passage
from mednli_jax.knowledge.readers import mesh
from mednli_jax.knowledge.sentences import sentences
from mednli_jax.knowledge.vectors import load_vectors
from mednli_jax.models.bert_import import load_weights, read_architecture
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
    notes("a gz cut short", gzip.compress(os.urandom(2000).hex().encode())[:-9], "E-DATA-004", "NOTEEVENTS.csv.gz",
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

RF2 = "rf2/Snapshot/Terminology/"
RF2_ROWS = {"Concept": test_snomed.CONCEPTS, "Description": test_snomed.TERMS, "Relationship": test_snomed.EDGES}
FOLDERS = {
    "rrf": {"rrf/MRCONSO.RRF": test_umls.CONSO, "rrf/MRSTY.RRF": test_umls.STY, "rrf/MRREL.RRF": test_umls.REL},
    "rf2": {RF2 + test_snomed.NAMES[kind]: test_snomed.table(kind, *rows) for kind, rows in RF2_ROWS.items()},
    "dict": {f"dict/{file}": content for file, content in test_wordnet.FILES.items()},
}


def as_bytes(content):
    return content if isinstance(content, bytes) else content.encode()


def terminology(folder, name, files, code, where, field="", fix="", **more):
    """A case of the ontology in one of FOLDERS, with some of its files replaced."""
    files, options = FOLDERS.get(folder, {}) | files, (f"--config.knowledge.ontology={folder}",)
    return Case(f"{folder}: {name}", "file", files, code, where, field, fix, options, config="esim_kd.py", **more)


def rrf(name, file, more, code, where="", field="", fix="fresh, whole copy", **files):
    """A file of the UMLS with rows added (None: without the file)."""
    path = f"rrf/{file}"
    content = None if more is None else FOLDERS["rrf"][path].encode() + as_bytes(more)
    where = where or f"{file}:{test_umls.REL.count(chr(10)) + 1}"
    return terminology("rrf", name, {path: content, **files}, code, where, field, fix)


def rf2(name, kind, more, code, line=None, field="", fix="one edition"):
    """A file of SNOMED CT with a row added."""
    file = test_snomed.NAMES[kind]
    line = len(RF2_ROWS[kind]) + 2 if line is None else line
    where = f"{file}:{line}" if line else file
    return terminology("rf2", name, {RF2 + file: FOLDERS["rf2"][RF2 + file] + more}, code, where, field, fix)


def wordnet(name, file, old, new, code, line, fix="fetch"):
    content = test_wordnet.FILES[file]
    return terminology("dict", name, {f"dict/{file}": content.replace(old, new, 1)}, code, f"{file}:{line}", fix=fix)


def obo(name, content, code, line=None, field="", fix="fetch", file="own.obo"):
    where = file if line is None else f"{file}:{line}"
    return ontology(f"OBO: {name}", as_bytes(content), code, where, field, fix, file)


TERM = "[Term]\nid: X:1\nname: quokka\n"
RELATED, TYPED, NAMED = test_umls.relation, test_umls.kind, test_umls.name
OTHER_EDITION = RF2 + test_snomed.NAMES["Concept"].replace("INT_20240101", "US1000124_20240301")
TERMINOLOGIES = (
    rrf("a column less", "MRREL.RRF", test_umls.REL.split("\n")[0][:-1] + "\n", "E-ONTO-013"),
    rrf("no types", "MRSTY.RRF", None, "E-ONTO-010", "MRSTY.RRF", fix="META folder"),
    rrf("Latin-1", "MRREL.RRF", b"\xe9\n", "E-ONTO-019", fix="UTF-8"),
    rrf("a NUL", "MRREL.RRF", "\0\n", "E-ONTO-020"),
    rrf("an empty name", "MRCONSO.RRF", NAMED("C0000001", " "), "E-ONTO-014", "MRCONSO.RRF:13", "STR"),
    rrf("a CUI of letters", "MRREL.RRF", RELATED("C00000O1", "PAR", "C0000002"), "E-ONTO-070", field="CUI1"),
    rrf("a concept that is not there", "MRREL.RRF", RELATED("C0000001", "CHD", "C9999999"), "E-ONTO-041", field="CUI2",
        fix="from one release"),
    rrf("the type of none", "MRSTY.RRF", TYPED("C9999999", "T047"), "E-ONTO-041", "MRSTY.RRF:10", "CUI", "one release"),
    terminology("rrf", "a cycle", {"rrf/MRREL.RRF": RELATED("C0000001", "PAR", "C0000002")
                + RELATED("C0000002", "PAR", "C0000001")}, "E-ONTO-003", "MRREL.RRF:1", fix="remove one edge"),
    terminology("rrf", "no relations", {"rrf/MRREL.RRF": ""}, "E-ONTO-021", "MRREL.RRF", fix="fresh, whole copy"),
    terminology("rrf", "a gz cut short", {"rrf/MRREL.RRF": None,
                "rrf/MRREL.RRF.gz": gzip.compress(test_umls.REL.encode())[:-9]}, "E-ONTO-011", "MRREL.RRF.gz",
                fix="fetch"),
    terminology("rrf", "rows lost", {"rrf/MRFILES.RRF": test_umls.mrfiles(MRSTY=(test_umls.COLUMNS["MRSTY.RRF"], 99))},
                "E-ONTO-073", "MRSTY.RRF", fix="remove MRFILES.RRF"),
    terminology("rf2", "another header", {RF2 + test_snomed.NAMES["Concept"]: "id\tactive\n1\t1\n"}, "E-ONTO-012",
                test_snomed.NAMES["Concept"] + ":1", fix="must name"),
    rf2("a concept twice", "Concept", test_snomed.concept("102"), "E-ONTO-015", field="id", fix="Snapshot"),
    rf2("a concept without a description", "Concept", test_snomed.concept("106"), "E-ONTO-071"),
    rf2("a concept that is not there", "Relationship", test_snomed.relationship("999", "101"), "E-ONTO-041",
        field="sourceId"),
    rf2("active is true", "Concept", test_snomed.concept("7", active="true"), "E-ONTO-070", field="active",
        fix="fresh"),
    terminology("rf2", "two editions", {OTHER_EDITION: test_snomed.table("Concept", *test_snomed.CONCEPTS)},
                "E-ONTO-072", "rf2", fix="folder of one"),
    wordnet("another lexicographer", "data.noun", " 26 ", " 99 ", "E-ONTO-046", 5),
    wordnet("a synset twice", "data.noun", "00000300 26", "00000200 26", "E-ONTO-015", 5),
    wordnet("a pointer to nothing", "data.noun", "@ 00000100", "@ 00000999", "E-ONTO-041", 4),
    wordnet("an entry of nothing", "index.noun", "1 1 00000300", "1 1 00000999", "E-ONTO-041", 8, "one edition"),
    terminology("dict", "no index", {"dict/index.noun": None}, "E-ONTO-010", "index.noun", fix="wordnet-base"),
    obo("no tag", TERM + "wombat\n", "E-ONTO-045", 4, fix="OBO format"),
    obo("another format", "<rdf>\n" * 9, "E-ONTO-045", 1, fix="OBO format"),
    obo("no terms", "format-version: 1.2\n", "E-ONTO-021"),
    obo("a term without an id", "[Term]\nname: quokka\n", "E-ONTO-014", 1, "id"),
    obo("a term twice", TERM + TERM, "E-ONTO-015", 4, "id", "one stanza"),
    obo("a parent that is not there", TERM + "is_a: X:2\n", "E-ONTO-041", 4, "is_a", "whole file"),
    obo("a cycle", TERM + "is_a: X:2\n[Term]\nid: X:2\nname: axolotl\nis_a: X:1\n", "E-ONTO-003", 4, "is-a",
        "remove one edge"),
    obo("a huge line", TERM + "def: " + "quokka" * (MAX_LINE_BYTES // 6 + 1) + "\n", "E-ONTO-044", 4),
    obo("Latin-1", TERM.encode() + b"comment: \xe9\n", "E-ONTO-019", 4, fix="UTF-8"),
    obo("a NUL", TERM + "def: \0\n", "E-ONTO-020", 4),
    obo("no gz", b"quokka", "E-ONTO-011", file="own.obo.gz"),
    terminology("empty", "a folder of something else", {"empty/notes.txt": "wombat"}, "E-ONTO-060", "",
                "config.knowledge.ontology", "give the path of"),
    terminology("umls", "not in the data folder", {}, "E-ONTO-060", "", "config.knowledge.ontology", "META folder"),
    Case("umls: no data folder", "none", {}, "E-CONF-006", "", "", "MEDNLI_JAX_DATA",
         ("--config.knowledge.ontology=umls",), config="esim_kd.py"),
)  # fmt: skip

OWN_CONCEPTS = "\t".join(mesh.HEADER) + "\nD1\tquokka\tC01\t\nD2\taxolotl\tC01.100\t\n"


def linked(kind, name, content, code, line=None, field="", fix="", file="m.tsv"):
    """A case of a file of mentions, of abbreviations or of stop words; `kind`: its field of config.knowledge."""
    where = file if line is None else f"{file}:{line}"
    options = ("--config.knowledge.ontology=own.tsv", f"--config.knowledge.{kind}={file}")
    files = {"own.tsv": OWN_CONCEPTS, file: content}
    return Case(f"{kind}: {name}", "file", files, code, where, field, fix, options, config="esim_kd.py")


def spans(name, row, code, field="", fix="", header="", line=2):
    content = f"uid\tside\tstart\tend\tconcept{header}\n{row}\n"
    return linked("mentions", name, content, code, line, field, fix)


MMI = 'p0-p|MMI|5.18|Wombat|C1|[sosy]|["Met"-tx-1-"met"-noun-0]|TX|10/3|C01'
OBJECT = {"uid": "p0", "side": "premise", "start": 1, "end": 2, "concept": "D1"}
MENTIONS = (
    linked("mentions", "missing", None, "E-LINK-001", fix="check the path"),
    linked("mentions", "unreadable", UNREADABLE, "E-LINK-002", fix="permissions"),
    linked("mentions", "no gz", "quokka", "E-LINK-003", fix="write the file again", file="m.tsv.gz"),
    linked("mentions", "Latin-1", b"\xe9\n", "E-LINK-004", 1, fix="UTF-8"),
    linked("mentions", "a NUL", "uid\0\n", "E-LINK-005", 1, fix="UTF-8"),
    linked("mentions", "a huge line", "quokka" * (MAX_LINE_BYTES // 6 + 1), "E-LINK-006", 1, fix="what the file is"),
    linked("mentions", "no header", "p0\tpremise\t1\t2\tD1\n", "E-LINK-007", 1, fix="uid, side, start, end"),
    linked("mentions", "empty", "", "E-LINK-010", fix="write the file again"),
    linked("mentions", "no JSON", '{"uid": "quokka', "E-LINK-011", 1, fix="one object", file="m.jsonl"),
    linked("mentions", "a field missing", json.dumps({k: v for k, v in OBJECT.items() if k != "end"}), "E-LINK-013", 1,
           "end", "add it", "m.jsonl"),
    linked("mentions", "no MMI", "wombat\n", "E-LINK-020", 1, fix="fielded output", file="m.mmi"),
    linked("mentions", "MMI of six fields", "p0-p|MMI|5.18|wombat|C1|[sosy]\n", "E-LINK-021", 1, fix="the form is",
           file="m.mmi"),
    linked("mentions", "MMI with positions of letters", MMI.replace("10/3", "wombat"), "E-LINK-022", 1, "",
           "start/length", "m.mmi"),
    linked("mentions", "MMI without a side", MMI.replace("p0-p", "p0"), "E-LINK-023", 1, "ID", "<uid>-p", "m.mmi"),
    spans("four columns", "p0\tpremise\t1\t2", "E-LINK-008", fix="one tab"),
    spans("no concept", "p0\tpremise\t1\t2\t", "E-LINK-009", "concept", "fill it in"),
    spans("a position of letters", "p0\tpremise\twombat\t2\tD1", "E-LINK-012", "start", "count from 0"),
    spans("a pair that is not there", "p9\tpremise\t1\t2\tD1", "E-LINK-014", "uid", "pairIDs"),
    spans("a side that is none", "p0\twombat\t1\t2\tD1", "E-LINK-015", "side", "premise or hypothesis"),
    spans("an end before its start", "p0\tpremise\t2\t1\tD1", "E-LINK-016", "", "count from 0"),
    spans("past the sentence", "p0\thypothesis\t2\t4\tD1", "E-LINK-017", "", "count tokens"),
    spans("a score of letters", "p0\tpremise\t1\t2\tD1\twombat", "E-LINK-018", "score", "number", "\tscore"),
    spans("a negation of letters", "p0\tpremise\t1\t2\tD1\twombat", "E-LINK-019", "negated", "write 0, 1", "\tnegated"),
    linked("abbreviations", "missing", None, "E-LINK-001", fix="check the path"),
    linked("abbreviations", "one column", "quokka\n", "E-LINK-008", 1, fix="one tab"),
    linked("abbreviations", "another header", "long\texpansion\n", "E-LINK-007", 1, fix="short, expansion"),
    linked("abbreviations", "no expansion", "quokka\t\n", "E-LINK-009", 1, fix="fill it in"),
    linked("stop", "comments alone", "# wombat\n", "E-LINK-010", fix="leave it out"),
    linked("stop", "Latin-1", b"\xe9\n", "E-LINK-004", 1, fix="UTF-8"),
)  # fmt: skip


def lexicon(name, content, code, line=None, fix="", file="lex.txt"):
    where = file if line is None else f"{file}:{line}"
    options = (f"--config.vectors.retrofit={file}", "--config.vectors.dim=4")
    return Case(f"lexicon: {name}", "file", {file: content}, code, where, "", fix, options)


LEXICONS = (
    lexicon("missing", None, "E-LEX-001", fix="vectors.retrofit"),
    lexicon("a folder", FOLDER, "E-LEX-001", fix="vectors.retrofit"),
    lexicon("no gz", "quokka", "E-LEX-003", fix="copy it again", file="lex.txt.gz"),
    lexicon("a blank line", "quokka wombat\n\n", "E-LEX-004", 2, "remove the line"),
    lexicon("Latin-1", b"quokka \xe9\n", "E-LEX-005", 1, "UTF-8"),
    lexicon("a huge line", "quokka " * (MAX_LINE_BYTES // 6), "E-LEX-006", 1, "copy the file"),
    lexicon("empty", "", "E-LEX-007", fix="copy the file again"),
    replace(lexicon("no word of the corpus", "lemur gibbon\n", "E-LEX-008", fix="leave retrofitting out"), where=""),
    replace(lexicon("a word twice", "quokka axolotl\n" * 2, "E-LEX-009"), status=0, told=("lines repeat a word",)),
)  # fmt: skip


def run_files(name, *seeds, **how):
    """The files of a finished run, as made_up_runs writes them."""
    with tempfile.TemporaryDirectory() as folder:
        run = made_up_runs.write_run(Path(folder) / name, *seeds, **how)
        return {f"{name}/{path.relative_to(run)}": path.read_bytes() for path in run.rglob("*") if path.is_file()}


GOLD = made_up_runs.GOLD
RUNS = run_files("a", GOLD) | run_files("b", "e" * 9)
ROW_OF_NONE = RUNS["a/private/predictions.test.jsonl"] + b"wombat\n"


def reported(name, code, *flags, files=None, where="", fix="", field=""):
    return Case(f"report: {name}", "none", RUNS | (files or {}), code, where, field, fix, flags, "report")


BOTH = ("a", "b", "--compare")
REPORTS = (
    reported("an unfinished run", "E-REP-001", "a", "c", files=run_files("c", GOLD, status="interrupted"), where="c",
             fix="--resume"),
    reported("no such split", "E-REP-002", *BOTH, "--split=train", fix="--split=dev"),
    reported("a row that is no prediction", "E-REP-003", *BOTH, files={"a/private/predictions.test.jsonl": ROW_OF_NONE},
             where="predictions.test.jsonl:10", fix="restore the file"),
    reported("two corpora", "E-REP-004", "a", "c", files=run_files("c", GOLD, corpus="mednli"), fix="one corpus"),
    reported("other pairs", "E-REP-005", "a", "c", files=run_files("c", "een", gold="een"), fix="the same files"),
    reported("data.json without splits", "E-REP-006", *BOTH, files={"b/data.json": "{}"}, where="b/data.json",
             field="splits", fix="restore the file"),
    reported("a category that is none", "E-REP-007", "a", "--categories_file=kinds.tsv",
             files={"kinds.tsv": "u0\twombat\n"}, where="kinds.tsv:1", fix="give a uid"),
    reported("categories of other pairs", "E-REP-008", "a", "--categories_file=kinds.tsv",
             files={"kinds.tsv": "x\tnegation\n"}, fix="give uids"),
    reported("a file of categories that is missing", "E-DATA-001", "a", "--categories_file=kinds.tsv",
             where="kinds.tsv", fix="check the path"),
    reported("path lengths of something else", "E-REP-009", "a", "--paths=a/config.json", where="a/config.json",
             fix="paths.json"),
    reported("a table that is none", "E-REP-010", "--table=8", "--runs=.", fix="3, 4, 5, 6, 7"),
    reported("a table of no folder", "E-REP-011", "--table=3", "--runs=absent", where="absent", fix="--runs="),
    reported("a table of a run", "E-REP-012", "a", "--table=3", "--runs=.", fix="--runs="),
    reported("no run", "E-REP-013", fix="report runs/"),
    reported("one run compared", "E-REP-014", "a", "--compare", fix="another run"),
    reported("a run of another version", "E-REP-015", "a", files={"a/data.json": '{"splits": {"train": 3}}'}, where="a",
             fix="restore the file"),
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
    vectors("a gz cut short", gzip.compress(os.urandom(2000).hex().encode())[:-9], "E-VEC-003", "v.txt.gz", "copy it",
            "v.txt.gz"),
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


def usage(name, code, *flags, field="", fix="", told=(), base="none", files=None, **more):
    return Case(f"usage: {name}", base, files or {}, code, "", field, fix, flags, told=told, **more)


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
    usage("mentions of another ending", "E-CONF-004", "--config.knowledge.ontology=own.tsv",
          "--config.knowledge.mentions=m.csv", field="config.knowledge.mentions", fix=".mmi", config="esim_kd.py"),
    usage("mentions and stop words", "E-CONF-005", "--config.knowledge.mentions=m.tsv", "--config.knowledge.stop=s.txt",
          field="config.knowledge.stop", fix="leave one", config="esim_kd.py"),
    usage("an unknown corpus to mix in", "E-CONF-004", "--config.data.mix=snly", field="config.data.mix", fix="snli"),
    usage("a corpus mixed into itself", "E-CONF-005", "--config.data.mix=demo", field="config.data.mix", fix="another"),
    usage("a sample of 0", "E-CONF-003", "--config.data.sample=0", field="config.data.sample", fix="at least 1"),
    usage("paths without knowledge", "E-USE-015", "paths", f"--config={ROOT / 'configs' / 'bow.py'}", door="analyze",
          fix="configs/esim_kd.py"),
    usage("a place for nothing", "E-USE-016", "--run=run", "--workdir=x", door="evaluate", fix="--config"),
    usage("an unknown analysis", "E-USE-007", "figures", fix="analyze stats", door="analyze"),
    usage("a smoothing of no number", "E-USE-021", "lexical", "--corpus=demo", "--smoothing=nan", fix="0 or more",
          door="analyze"),
    usage("a run's features of words", "E-USE-022", "aflite", "--corpus=demo", "--features=r", "--input=pair",
          fix="leave them out", door="analyze"),
    usage("a corpus and a config", "E-USE-019", "stats", "--corpus=demo", CONFIG, fix="leave one", door="analyze"),
    usage("a corpus that is not there", "E-USE-020", "stats", "--corpus=snly", fix="demo_full", door="analyze",
          told=("Did you mean 'snli'",)),
    usage("a corpus without a name", "E-USE-020", "stats", "--corpus=", fix="a path", door="analyze"),
    usage("no token of a class", "E-USE-001", "lexical", "--corpus=demo", "--top=0", fix="--help", door="analyze"),
    usage("moved names of MeSH", "E-CONF-005", "heuristics", "--corpus=file", "--config.knowledge.permute_seed=1",
          "--config.knowledge.ontology=own.tsv", base="file", field="permute_seed", fix="leave it out", door="analyze",
          files={"own.tsv": "id\tname\ttree_numbers\tsynonyms\nD1\tquokka\tC01\t\n"}),
    usage("a class alone, its tokens", "E-ART-001", "lexical", "--corpus=file", "--config.model.knowledge=none",
          base="file", fix="labels differ", door="analyze", told=("(neutral)",)),
    usage("a class alone, its lengths", "E-ART-001", "lengths", "--corpus=file", "--config.model.knowledge=none",
          base="file", fix="labels differ", door="analyze"),
    usage("no frequent token", "E-ART-002", "lexical", "--corpus=file", "--config.model.knowledge=none",
          base="file", files={"file/train.jsonl": jsonl(1, pair(2, gold_label="entailment"))},
          fix="--min_count", door="analyze", told=("occurs 5 times",)),
    usage("a corpus of no format", "E-DATA-006", "stats", "--corpus=own.doc", files={"own.doc": "quokka"},
          fix=".jsonl", door="analyze"),
    usage("a data folder that is none", "E-USE-012", "--data=nowhere", fix="--data", door="doctor"),
    config_file("a syntax error", "x = 1\ndef get_config(:\n", "E-USE-011", "own.py:2"),
    config_file("an import that fails", "import wombats\ndef get_config(x=1): pass\n", "E-USE-011", "own.py:1"),
    config_file("a division by zero", "def get_config():\n    return 1 / 0\n", "E-USE-011", "own.py:2"),
    config_file("no ConfigDict", "def get_config(x=1):\n    return 3\n", "E-USE-005", "", "defaults.nli"),
    config_file("no get_config", "x = 1\n", "E-USE-005", "own.py", "configs/"),
)  # fmt: skip


def partition(name, content, code, where="p.npy", fix="", file="p.npy"):
    """A list of ids, which evaluate reads before the run."""
    flags, files = ("--run=run", f"--partition={file}"), {file: content} if content else {}
    return Case(f"partition: {name}", "none", files, code, where, "", fix, flags, "evaluate")


def filtering(name, code, *flags, files=None, fix=""):
    flags = ("aflite", "--corpus=file", "--config.model.knowledge=none", *flags)
    return Case(f"aflite: {name}", "file", files or {}, code, "", "", fix, flags, "analyze")


PARTITIONS = (
    partition("numbers", array(np.arange(3)), "E-PART-001", fix="dtype=str"),
    partition("strings of bytes that are no text", array(np.array([b"\xff"])), "E-PART-001", fix="dtype=str"),
    partition("objects", array(np.array(["wombat", None], object), allow_pickle=True), "E-PART-002", fix="dtype=str"),
    partition("an array of nothing", array(np.array([], "U1")), "E-PART-003", fix="one id a line"),
    partition("blank lines", "\n\n", "E-PART-003", "p.txt", "one id a line", "p.txt"),
    partition("cut short", array(np.array(["quokka", "wombat"]))[:-3], "E-PART-004", fix="copy it again"),
    partition("text called an array", "quokka\nwombat\n", "E-PART-004", fix="copy it again"),
    partition("an id twice", "quokka\nwombat\nquokka\n", "E-PART-005", "p.txt:3", "leave one", "p.txt"),
    partition("Latin-1", b"quokka\n\xe9\n", "E-DATA-010", "p.txt:2", "UTF-8", "p.txt"),
    partition("no such file", None, "E-DATA-001", "p.txt", "check the path", "p.txt"),
    Case("partition: a file twice", "none", {"p.txt": "quokka\n"}, "E-PART-007", "", "--partition", "name it once",
         ("--run=run", "--partition=p.txt,p.txt"), "evaluate"),
    filtering("no vector for any token", "E-FILT-001", "--config.vectors.path=v.txt", "--config.vectors.dim=2",
              files={"v.txt": "koala 1 2\n"}, fix="--config.vectors.path"),
    filtering("more training pairs than pairs", "E-FILT-002", "--m=2", fix="1 to 1"),
    filtering("no models", "E-FILT-002", "--n=0", fix="at least 1"),
    filtering("a score above 1", "E-FILT-002", "--tau=1.5", fix="at most 1"),
    filtering("nothing to go on with", "E-FILT-003", "--resume", "--out=x", fix="leave"),
    filtering("nowhere to go on", "E-FILT-003", "--resume", fix="--out"),
)  # fmt: skip

QUERY = {"id": "q1", "query": "an @placeholder .", "answers": [{"text": "quokka", "origin": "dataset"}]}
ARTICLE = {"title": "wombat", "context": "A BEG__quokka__END .", "qas": [QUERY]}


def read_with(reader, name, content, code, where="", fix="fresh copy", file="x", more=None):
    """A case of a reader alone (READERS), which no door here reads a file by."""
    text = json.dumps(content) if isinstance(content, dict | list) else content
    files, flags = {file: text, **(more or {})}, (f"--reader={reader}", f"--file={file}")
    return Case(f"{reader}: {name}", "none", files, code, where, "", fix, flags, "reader")


def clicr(name, code, path="", *, query=None, document=None, fix="fresh copy", **top):
    """CliCR's format with one query; given as ... a field is left out."""

    def changed(values, changes):
        return {key: value for key, value in {**values, **(changes or {})}.items() if value is not ...}

    whole = changed(ARTICLE, {"qas": [changed(QUERY, query)], **(document or {})})
    content = changed({"version": "1.0", "data": [{"source": "r1", "document": whole}]}, top)
    where = f"dev1.0.json:{path}" if path else "dev1.0.json"
    return read_with("clicr", name, content, code, where, fix, "dev1.0.json")


def biomrc(name, entity):
    lists = zip(BIOMRC, (["a"], ["XXXX"], [[entity]], ["@entity0"]), strict=True)
    return read_with("biomrc", name, dict(lists), "E-CLZ-025", "x:entities_list[0]")


Q = "data[0].document.qas[0]"
CLOZE = (
    *(read_with("clicr", name, content, code, "dev1.0.json", fix, "dev1.0.json") for name, content, code, fix in (
        ("missing", None, "E-CLZ-001", "check the path"),
        ("Latin-1", b'{"version": "\xe9"}', "E-CLZ-004", "UTF-8"),
        ("broken JSON", '{"version": "1.0", "data": [{"quokka"', "E-CLZ-005", "fresh"),
        ("a list", "[]", "E-CLZ-005", "fresh"),
        ("deep brackets", "[" * 100_000, "E-CLZ-005", "fresh"),
        ("gzip cut short", gzip.compress(b'{"version": "1.0", ' + b" " * 999)[:-9], "E-CLZ-003", "fresh"),
    )),
    clicr("another version", "E-CLZ-006", "version", fix="that release", version="2.0"),
    clicr("no data", "E-CLZ-008", "data", data=...),
    clicr("no context", "E-CLZ-008", "data[0].document.context", document={"context": ...}, fix="official file"),
    clicr("a list for a context", "E-CLZ-009", "data[0].document.context", document={"context": ["quokka"]}),
    clicr("an empty context", "E-CLZ-010", "data[0].document.context", document={"context": " "}, fix="fill in"),
    clicr("unbalanced marks", "E-CLZ-018", "data[0].document.context", document={"context": "BEG__quokka"},
          fix="its __END"),
    clicr("no marks at all", "E-CLZ-007", document={"context": "A quokka ."}, fix="BEG__"),
    clicr("no placeholder", "E-CLZ-012", f"{Q}.query", query={"query": "quokka"}, fix="@placeholder"),
    clicr("two placeholders", "E-CLZ-013", f"{Q}.query", query={"query": "@placeholder @placeholder"}, fix="one"),
    clicr("no answer", "E-CLZ-014", f"{Q}.answers", query={"answers": []}, fix="origin 'dataset'"),
    clicr("an unknown origin", "E-CLZ-015", f"{Q}.answers[0].origin", fix="correct the origin",
          query={"answers": [{"text": "quokka", "origin": "wombat"}]}),
    clicr("a NUL", "E-CLZ-019", f"{Q}.query", query={"query": "quokka\0 @placeholder"}),
    clicr("half a surrogate pair", "E-CLZ-019", f"{Q}.query", query={"query": "quokka\ud800"}, fix="UTF-8"),
    clicr("an id twice", "E-CLZ-011", "data[0].document.qas[1].id", document={"qas": [QUERY, QUERY]}),
    read_with("biomrc", "no titles", {"abstracts": []}, "E-CLZ-008", "x:titles"),
    read_with("biomrc", "unequal lists", {name: [] for name in BIOMRC[:3]} | {"answers": ["quokka"]}, "E-CLZ-023", "x"),
    biomrc("an entity of another form", "quokka"),
    biomrc("an entity that is a program", "@entity0 :: open('quokka', 'w')"),
    biomrc("an entity of a list for a key", "@entity0 :: {[]: 'quokka'}"),
    biomrc("an entity with half a surrogate pair", "@entity0 :: ['quokka\\ud800']"),
    read_with("biomrc", "a number for a text", {name: [3] for name in BIOMRC}, "E-CLZ-009", "x:abstracts[0]"),
    read_with("biomrc", "no blank", dict(zip(BIOMRC, (["a"], ["quokka"], [[]], ["@entity0"]), strict=True)),
              "E-CLZ-022", "x:titles[0]", "correct"),
    read_with("biomrc", "no query", {name: [] for name in BIOMRC}, "E-CLZ-024", "x"),
    read_with("reports", "no JSON", "quokka\n", "E-CLZ-100", "x:1", "line of its own"),
    read_with("reports", "no sentences", {"id": "quokka", "learning_points": []}, "E-CLZ-101", "x:1", "give a list"),
    read_with("answers", "no JSON", "quokka", "E-CLZ-052", "x", "write lines"),
    read_with("answers", "a list for an answer", {"u": ["quokka"]}, "E-CLZ-054", "x", "in quotes"),
    read_with("answers", "of no query", {"quokka": "wombat"}, "E-CLZ-056", "x", "--split"),
    read_with("skills", "none of the skills", "u0\tquokka\n", "E-CLZ-110", "x:1", "give a uid"),
    read_with("scores", "an f1 of words", '{"uid": "u", "f1": "quokka"}\n', "E-CLZ-112", "x:1", "every query once"),
)  # fmt: skip
DISEASES = "pair_id,CUI,label,category,original_cui,start_index,end_index\n"
NORMAL = {"type": "BertNormalizer"}
BERT = {"vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4,
        "max_position_embeddings": 4}  # fmt: skip


def diseases(name, row, code, line=2, fix="fresh copy", head=DISEASES):
    return read_with("diseases", name, head + row, code, f"x:{line}" if line else "x", fix)


def weights(name, code, where, fix, config=None, content=b"", file="model.safetensors"):
    """A folder of pretrained weights, w; `content` is that of its weights."""
    more = {"w/config.json": json.dumps(BERT) if config is None else config, f"w/{file}": content}
    return read_with("weights", name, None, code, where, fix, "w", more)


def pieces(name, content, code, fix="copy the file again", file="vocab.txt"):
    return read_with("pieces", name, content, code, file, fix, file)


MODELS = (
    diseases("no header", "", "E-DIS-001", 1, "name the columns", "quokka,wombat\n"),
    diseases("six cells", "a,C1,entailment,symptoms_diseases,C1,0\n", "E-DIS-002", fix="quote a cell"),
    diseases("no CUI", "a,,entailment,symptoms_diseases,C1,0,2\n", "E-DIS-003"),
    diseases("an unknown label", "a,C1,wombat,symptoms_diseases,C1,0,2\n", "E-DIS-004", fix="correct the label"),
    diseases("an unknown category", "a,C1,entailment,wombat,C1,0,2\n", "E-DIS-005", fix="correct the category"),
    diseases("an index of letters", "a,C1,entailment,symptoms_diseases,C1,quokka,2\n", "E-DIS-006"),
    diseases("a negative called positive", '"a,ng",C1,entailment,symptoms_diseases,C1,0,2\n', "E-DIS-010"),
    diseases("no positive example", "", "E-DIS-011", None),
    diseases("an unclosed quote", '"quokka,C1\n', "E-DATA-024"),
    read_with("concepts", "a short row", '"","V1"\n"C1",1,2\n', "E-DIS-015", "x.csv:2", "copy the file", "x.csv"),
    read_with("concepts", "a word for a number", '"","V1"\n"C1",quokka\n', "E-DIS-015", "x.csv:2", "copy", "x.csv"),
    weights("no weights", "E-BERT-040", "w", "name the one", file="notes.txt"),
    weights("a pickle", "E-BERT-041", "pytorch_model.bin", "convert it once", content=b"\x80\4.",
            file="pytorch_model.bin"),
    weights("settings that are none", "E-BERT-042", "config.json", "copy the file", "quokka"),
    weights("settings of deep brackets", "E-BERT-042", "config.json", "copy the file", "[" * 100_000),
    weights("another architecture", "E-BERT-043", "config.json", "weights of BERT", '{"model_type": ["quokka"]}'),
    weights("sizes beyond the weights", "E-BERT-043", "config.json", "weights of BERT"),
    weights("cut short", "E-BERT-044", "model.safetensors", "copy the file", content=bytes(5000)),
    pieces("none", None, "E-BERT-020", "the weights came in"),
    pieces("Latin-1", b"quokka\n\xe9\n", "E-BERT-021"),
    pieces("a piece twice", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nquokka\nquokka\n", "E-BERT-022"),
    pieces("no special pieces", "quokka\n", "E-BERT-023", "vocabulary of BERT's"),
    pieces("half a surrogate pair", json.dumps({"model": {"vocab": {"quokka\ud800": 0}}, "normalizer": NORMAL}),
           "E-BERT-021", file="tokenizer.json"),
    pieces("another kind", json.dumps({"model": {"type": "quokka"}}), "E-BERT-026", "BERT model", "tokenizer.json"),
    read_with("articles", "another JSON", '{"quokka": []}', "E-EMB-015", "x.json", "articles", "x.json"),
    read_with("articles", "a list for an article", '{"articles": [["quokka"]]}', "E-EMB-015", "x.json", "articles",
              "x.json"),
    read_with("articles", "no text", "\n\n", "E-EMB-016", "x.txt", "leave the file out", "x.txt"),
    read_with("articles", "Latin-1 lines", b"quokka \xe9\n", "E-EMB-014", "x.txt:1", "UTF-8", "x.txt"),
)  # fmt: skip

CASES = (*LINES, *FILES, *TABLES, *CORPORA, *NOTES, *ONTOLOGY, *TERMINOLOGIES, *MENTIONS, *LEXICONS, *VECTORS)
CASES += (*PREDICT, *USAGE, *REPORTS, *PARTITIONS, *CLOZE, *MODELS)


def define_notes(values):
    flags.DEFINE_string("notes", None, "NOTEEVENTS.csv", flag_values=values)


def read_notes(values):
    for _ in PastMedicalHistory(Path(values.notes)):
        pass


READERS = {
    "clicr": read_clicr,
    "biomrc": lambda path: read_biomrc(path, "dev"),
    "reports": read_reports,
    "answers": lambda path: read_answers(path, [made_up_query("u")]),
    "skills": read_skills,
    "scores": read_scores,
    "diseases": read_annotations,
    "concepts": lambda path: read_vectors(path, ("C1",)),
    "weights": lambda path: (read_architecture(path), load_weights(path, {})),
    "pieces": WordPieces.load,
    "articles": lambda path: list(sentences(path)),
}


def made_up_query(uid):
    passage = Passage("r", (), ("quokka",), (Entity(0, 1),), (1,))
    return ClozeExample(uid, passage, ("@placeholder",), (), 0, (Answer("quokka"),))


def define_reader(values):
    flags.DEFINE_enum("reader", None, list(READERS), "what reads it", flag_values=values)
    flags.DEFINE_string("file", None, "what is read", flag_values=values)


def read_alone(values):
    READERS[values.reader](Path(values.file).absolute())


DOORS = {
    "reader": (read_alone, "Read a file.", define_reader, 0),
    "prepare": (prepare.main, prepare.USAGE, prepare.define, 0),
    "config": (prepare.main, prepare.USAGE, prepare.define, 0),
    "stats": (analyze.main, analyze.USAGE, analyze.define, 1),
    "analyze": (analyze.main, analyze.USAGE, analyze.define, 1),
    "doctor": (doctor.main, doctor.USAGE, doctor.define, 0),
    "predict": (predict.main, predict.USAGE, predict.define, 0),
    "evaluate": (evaluate.main, evaluate.USAGE, evaluate.define, 0),
    "report": (report.main, report.USAGE, report.define, sys.maxsize),
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
        assert path.name in (".gitignore", "prepared", "sources.json", "tfds"), path
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
    "E-BERT-024": "weights and a vocabulary of two models; test_wordpiece has the case",
    "E-BERT-025": "a vocabulary of 64 MB; test_formats has the case",
    "E-BERT-027": "texts with more characters than pieces; test_wordpiece has the case",
    "E-BERT-045": "needs a model's parameters; test_bert_import has the case",
    "E-BERT-046": "weights that are whole, and not finite; test_bert_import has the case",
    "E-DATA-030": "the vocabulary inside a run, which is checked against its manifest before",
    "E-ONTO-001": "an Ontology made in Python, with parts of different sizes",
    "E-ONTO-002": "an Ontology made in Python; the reader of tables tells a repeated id as E-ONTO-015",
    "E-ONTO-004": "asking an Ontology in Python for an id it does not have",
    "E-ONTO-018": "aliases that belong to the package; test_resources holds them to its table",
    "E-ONTO-061": "files that change while they are read; test_store has the case",
    "E-ONTO-065": "a damaged copy in the cache, which is made again; test_store has the case",
    "E-LEX-002": "a lexicon is hashed before it is read, which E-USE-010 tells of",
    "E-USE-008": "needs a finished run",
    "E-USE-014": "needs a finished run",
    "E-USE-009": "an argument of a class in Python",
    "E-USE-018": "told beside figures, exit code 0; test_heuristics has the case",
    "E-USE-013": "flags of train; test_doors has the case",
    "E-USE-017": "flags of train; test_doors has the case",
    "E-CONF-002": "the doors that train check it; test_doors has the case",
    "E-CONF-007": "the doors that train check it; test_transfer has the case",
    "E-CONF-008": "needs a model; test_transfer has the case",
    "E-PART-006": "needs a finished run; test_doors has the case",
    "E-FILT-004": "needs a filtering that was begun; test_filtering has the case",
    "E-FILT-005": "needs a filtering that was begun; test_filtering has the case",
    "E-FILT-006": "needs a finished run; test_filtering has the case",
    "E-PRED-005": "needs a finished run of a reader; test_cloze_doors has the case",
    "E-PRED-006": "needs a finished run of a reader; test_cloze_doors has the case",
    "E-REP-016": "needs a finished run of a reader; test_cloze_doors has the case",
    "E-REP-017": "needs a finished run of a reader; test_cloze_doors has the case",
    "E-CONF-009": "is of no file; test_validation has the case",
    "E-REP-018": "is of two flags; test_privacy has the case",
    "E-USE-023": "needs a finished run of a reader; test_cloze_doors has the case",
    "E-USE-024": "needs a finished run of a reader; test_cloze_doors has the case",
    "E-FILT-007": "needs an interrupted filtering; test_filtering has the case",
}
# What a code means that several modules raise.
SHARED = {
    "E-BERT-040": "pretrained weights are not there",
    "E-DIS-021": "no such table of DisKnE",
    "E-REP-001": "a run is not finished, or none is",
    "E-REP-002": "a run has no predictions of a split",
    "E-REP-003": "a line holds no prediction",
    "E-REP-004": "runs are of different corpora",
    "E-REP-005": "runs predicted different rows",
    "E-REP-006": "a file of a run lacks what runs write",
    "E-REP-010": "no such table",
    "E-REP-011": "a folder of runs is missing",
    "E-REP-016": "a run is none of the task asked for",
    "E-RUN-007": "another process is training in the run's folder; a sweep's worker listens for it",
    "E-RUN-010": "a file that a run keeps for itself is damaged",
    "E-SWEEP-002": "a sweep's database cannot be used",
    "E-USE-008": "a corpus has no such split",
    "E-CLZ-005": "a file of a cloze corpus is no valid JSON",
    "E-CLZ-008": "a field of a cloze corpus is missing",
    "E-CLZ-009": "a field of a cloze corpus is of the wrong type",
    "E-CLZ-010": "a text of a cloze corpus is empty",
    "E-CONF-003": "a number of a config is out of its range",
    "E-CONF-004": "a name in a config is none of those known",
    "E-CONF-005": "two settings of a config do not go together",
    "E-CONF-006": "no folder is set to look in",
    "E-CONF-007": "a pattern is no regular expression",
    "E-CONF-008": "a pattern finds none of the weights, or all",
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
    "E-LEX-001": "a lexicon is missing",
    "E-ONTO-003": "is-a edges run in a circle",
    "E-ONTO-010": "a file of an ontology is missing or cannot be read",
    "E-ONTO-011": "a file of an ontology cannot be decompressed",
    "E-ONTO-012": "a table of an ontology has other columns than it should",
    "E-ONTO-013": "a row of an ontology has the wrong number of columns",
    "E-ONTO-014": "an id or a name of an ontology is empty",
    "E-ONTO-015": "a concept is repeated",
    "E-ONTO-019": "a line of an ontology is not UTF-8",
    "E-ONTO-020": "a NUL stands in an ontology",
    "E-ONTO-021": "a file of an ontology holds nothing that can be used",
    "E-ONTO-041": "a row names a concept that is not there",
    "E-ONTO-044": "a line of an ontology is too long",
    "E-ONTO-070": "a field of an ontology is malformed",
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
    assert len(CASES) >= 250
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_code_of_the_readers_stands_in_the_table():
    readers = (
        "E-DATA",
        "E-ONTO",
        "E-LINK",
        "E-LEX",
        "E-VEC",
        "E-PRED",
        "E-REP",
        "E-CONF",
        "E-USE",
        "E-PART",
        "E-FILT",
        "E-ART",
        "E-BERT-02",
        "E-BERT-04",
    )
    raised = {code for code in codes_by_module() if code.startswith(readers)}
    covered = {case.code for case in CASES if case.code.startswith(readers) or not case.code}
    assert raised - covered == set(OUT_OF_REACH)
    assert covered - raised == {""}  # the one case that is no fault


def test_a_code_has_one_meaning():
    found = codes_by_module()
    assert {code for code, modules in found.items() if len(modules) > 1} == set(SHARED)


# The first hands on what a child process said, whose own errors are looked at here as well; the others word the rules
# of a table.
RELAYED = {"measure.py", "validation.py", "kinds.py"}


def test_every_refused_flag_has_a_code_and_a_fix():
    for _, names, tasks, message in kinds.FLAGS:
        assert CODE.match(message)
        assert message.endswith(".")
        assert " Fix: " in message
        assert names
        assert set(tasks) < set(kinds.KINDS)


def user_errors():
    """(module:line, message) of every UserError raised with a message of its own."""
    for path in sorted(path for path in PACKAGE.rglob("*.py") if path.name not in RELAYED):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "UserError":
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", "".join(literals(node))


def test_every_rule_of_a_config_has_a_code_and_a_fix_and_names_a_field():
    configs = [defaults.nli(name) for name in ("features", "bow", "infersent", "esim", "fasttext", "bert")]
    configs += [defaults.cloze("sa_reader"), defaults.cloze("ga_reader"), defaults.diskne("esim")]
    fields = {name for config in configs for name in fields_of(config.to_dict())}
    for rule in validation.RULES:
        assert CODE.fullmatch(rule.code), rule.field
        assert rule.fix, rule.field
        assert rule.field in fields, rule.field


def fields_of(tree, prefix=""):
    for name, value in tree.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from fields_of(value, f"{prefix}{name}.")


def test_every_user_error_has_a_code_and_a_fix():
    errors = list(user_errors())
    assert len(errors) > 40
    assert [where for where, text in errors if not CODE.match(text) or "Fix: " not in text] == []
