"""Damaged files: every reader names file, line and field of the fault in one line, and quotes no
word of the text."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from support.files import array, as_bytes, lines, write_files, zipped
from support.ontologies import is_a_matrix
from support.ontology_files import UMLS, umls_relation
from support.pair_files import HYPOTHESIS, PREMISE, assert_no_words, cells, pair, pairs, table

from mednli_jax.cloze import scores as cloze_scores
from mednli_jax.cloze import stats
from mednli_jax.cloze.clicr import read_clicr
from mednli_jax.cloze.query_builder import read_reports
from mednli_jax.data.examples import Answer, ClozeExample, Entity, NLIExample, Passage
from mednli_jax.data.partitions import read_partition
from mednli_jax.data.pieces import PieceVocabulary
from mednli_jax.data.text import SPECIALS
from mednli_jax.data.vectors import load_vectors
from mednli_jax.diskne import builder
from mednli_jax.diskne.data import read_published
from mednli_jax.errors import DataErrors, UserError
from mednli_jax.knowledge import retrofit
from mednli_jax.knowledge.mentions import read_mentions
from mednli_jax.knowledge.ontology import Ontology, OntologyOptions
from mednli_jax.knowledge.readers import mesh, snomed
from mednli_jax.knowledge.readers.obo import read_obo
from mednli_jax.knowledge.readers.umls import read_umls
from mednli_jax.knowledge.readers.wordnet import read_wordnet
from mednli_jax.nli import categories
from mednli_jax.nli.notes import past_medical_history
from mednli_jax.nli.readers import read_nli_file

ALL = OntologyOptions(relations="all")


class Reader(NamedTuple):
    """read(path) reads `main`, a file, or the folder of `files` {path: content} where main is "".

    by_line: whether a fault of the bytes is found in a line. zipped: whether the file may be
    gzipped.
    """

    files: dict
    read: Callable
    main: str
    by_line: bool = True
    zipped: bool = True


def one(name, content, read, **how):
    return Reader({name: content}, read, name, **how)


# ---- good files ----

EXAMPLE = NLIExample(
    "p1", PREMISE, HYPOTHESIS, "neutral", tuple(PREMISE.split()), tuple(HYPOTHESIS.split())
)
TRUTH = "pair_id,label\np0,neutral\np1,entailment\n"
NOTES = 'ROW_ID,CATEGORY,ISERROR,TEXT\n1,Report,,"Past Medical History:\nquokka, ""wombat"""\n'
DISEASES = "pair_id,CUI,label,category,original_cui,start_index,end_index\n"
QUERY = {
    "id": "q1",
    "query": "an @placeholder .",
    "answers": [{"text": "quokka", "origin": "dataset"}],
}
ARTICLE = {"title": "wombat", "context": "A BEG__quokka__END .", "qas": [QUERY]}
REPORT = {
    "id": "r1",
    "sentences": [{"text": "No quokka ."}],
    "learning_points": ["An BEG__axolotl__END ."],
}
MESH = "\t".join(mesh.HEADER) + "\nD1\tquokka\tC01\t\nD2\twombat\tC01.100\tnarwhal\n"
RF2 = {
    f"sct2_{kind}_Snapshot{language}_INT_20240101.txt": "\t".join(snomed.COLUMNS[kind]) + "\r\n" + rows
    for kind, language, rows in (
        ("Concept", "", "".join(f"{n}\t20240101\t1\t9\t9\r\n" for n in ("64572001", "101", "116680003"))),
        ("Description", "-en", "".join(f"{n}1\t20240101\t1\t9\t{n}\ten\t900000000000003001\tquokka (disorder)\t9\r\n"
                                       for n in ("64572001", "101", "116680003"))),
        ("Relationship", "", "5\t20240101\t1\t9\t101\t64572001\t0\t116680003\t9\t9\r\n"),
    )
}  # fmt: skip
CONCEPT = next(iter(RF2))
WORDNET = {
    "data.noun": "  1 licence\n00000100 03 n 01 quokka 0 000 | a\n00000200 03 n 01 pup 0 001 @ 00000100 n 0000 | b\n",
    "index.noun": "quokka n 1 0 1 0 00000100\npup n 1 1 @ 1 0 00000200\n",
    "data.verb": "00000100 29 v 01 narwhal 0 000 00 | c\n",
    "index.verb": "narwhal v 1 0 1 0 00000100\n",
}
TERM = "[Term]\nid: X:1\nname: quokka\n"
SPANS = "uid\tside\tstart\tend\tconcept\n"
MMI = 'p1-p|MMI|5.18|Name|C1|[sosy]|["quokka"-tx-1-"quokka"-noun-0]|TX|14/6|C01\n'
TWO = array(np.ones((2, 3), np.float32))
PIECES = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nquokka\n##s\n"


def articles(article, version="1.0"):
    return json.dumps({"version": version, "data": [{"source": "r1", "document": article}]})


def read_vectors(path):
    return load_vectors(path, (*SPECIALS, "quokka", "wombat"), dim=3, seed=0)


def read_answers(path):
    passage = Passage("r", (), ("quokka",), (Entity(0, 1),), (1,))
    query = ClozeExample("r0.0", passage, ("@placeholder",), (), 0, (Answer("quokka"),))
    return cloze_scores.read_answers(path, [query])


def read_diseases(path):
    names = ("quokka", "wombat")
    ontology = Ontology(
        "umls", "1", ("C1", "C2"), names, (("quokka", 0), ("wombat", 1)), is_a_matrix([], 2), ""
    )
    return read_published(
        [path], [NLIExample("a", PREMISE, "a quokka", "entailment", ("x",), ("y",))], ontology
    )


read_pairs = partial(read_nli_file, split="train")
READERS = {
    "pairs.jsonl": one("x.jsonl", pairs(0) + pairs(1), read_pairs),
    "pairs.tsv": one("x.tsv", table("\t", cells(0), cells(1)), read_pairs),
    "pairs.csv": one("x.csv", table(",", cells(0), cells(1, premise='"quokka, ""wombat"""')), read_pairs),
    "ground truth": Reader({"t.csv": TRUTH, "x.jsonl": pairs(0) + pairs(1)},
                           lambda p: read_nli_file(p.parent / "x.jsonl", split="test", ground_truth=p), "t.csv"),
    "notes": one("notes.csv", NOTES, lambda path: list(past_medical_history(path))),
    "clicr": one("dev1.0.json", articles(ARTICLE), read_clicr, by_line=False),
    "case reports": one("r.jsonl", lines(REPORT), read_reports),
    "answers": one("a.json", json.dumps({"r0.0": "quokka"}), read_answers, by_line=False),
    "diseases": one("m.csv", DISEASES + "a,C1,entailment,symptoms_diseases,C1,2,8\n", read_diseases),
    "mesh": one("mesh.tsv", MESH, lambda path: mesh.read_mesh(path)),
    "umls": Reader(UMLS, lambda path: read_umls(path.parent, ALL), "MRREL.RRF", zipped=False),
    "snomed": Reader(RF2, lambda path: snomed.read_snomed(path.parent, ALL), CONCEPT, zipped=False),
    "wordnet": Reader(WORDNET, lambda path: read_wordnet(path.parent, ALL), "data.noun"),
    "obo": one("x.obo", "format-version: 1.2\n\n" + TERM, lambda path: read_obo(path, ALL)),
    "mentions.tsv": one("m.tsv", f"{SPANS}p1\tpremise\t2\t3\tC1\n", lambda path: read_mentions(path, [EXAMPLE])),
    "metamap": one("m.mmi", MMI, lambda path: read_mentions(path, [EXAMPLE])),
    "lexicon": one("l.txt", "quokka wombat\n", retrofit.read_lexicon),
    "vectors.txt": one("v.txt", "2 3\nquokka 1 2.5 -3\nwombat 1 1 1\n", read_vectors),
    "vectors.bin": one("v.bin", b"1 3\nquokka " + bytes(12), read_vectors, by_line=False),
    "concept vectors": one("v.csv", '"","V1"\n"C1",1\n"C2",4.5\n', lambda path: builder.read_vectors(path, ("C1",))),
    "pieces": one("vocab.txt", PIECES, PieceVocabulary.load, zipped=False),
    "partition": one("p.txt", "quokka\nwombat\n", read_partition),
    "categories": one("c.tsv", "u0\tnegation\n", categories.read_annotations),
    "skills": one("k.tsv", "u0\tnone\n", stats.read_skills),
    "scores": one("s.jsonl", lines({"uid": "u0", "f1": 0.5}), stats.read_scores),
}  # fmt: skip


def refusal(reader, files, folder, main=None):
    """The error of reading these files in place of the good ones."""
    write_files(folder, {**reader.files, **files})
    with pytest.raises(UserError) as caught:
        reader.read(folder / (main or reader.main))
    error = caught.value
    assert all("Fix: " in line for line in str(error).splitlines())
    assert_no_words(str(error))
    return error.errors[0] if isinstance(error, DataErrors) else error


@pytest.mark.parametrize("name", READERS)
def test_good_files_are_read_and_gzipped_ones_too(name, tmp_path):
    reader = READERS[name]
    write_files(tmp_path, reader.files)
    reader.read(tmp_path / reader.main)
    if reader.zipped:
        (tmp_path / reader.main).write_bytes(zipped(reader.files[reader.main]))
        reader.read(tmp_path / reader.main)


NO_TEXT = ("vectors.bin", "pieces")  # arrays of numbers; pieces are no words


def content_of(result):
    """What a reader returned, as text without digests of the file and places in memory."""
    return re.sub(r"[0-9a-f]{64}|0x[0-9a-f]+", "", ascii(result))


def with_marks(name):
    """(content of a reader's file, the same with U+FEFF at heads of words and lines), and with its
    escapes in JSON."""
    good = as_bytes(READERS[name].files[READERS[name].main]).decode()
    words = re.compile(r'(?<=["\s,|_])(?=quokka|wombat|C000000|u0)')
    yield good, "\ufeff" + re.sub(r"(?<=\n)(?=.)", "\ufeff", words.sub("\ufeff", good), count=1)
    if good.startswith("{"):
        yield good, words.sub(r"\\ufeff", good)


MARKED = [
    (name, *contents) for name in READERS if name not in NO_TEXT for contents in with_marks(name)
]


@pytest.mark.parametrize(("name", "good", "marked"), MARKED, ids=[name for name, *_ in MARKED])
def test_a_byte_order_mark_within_a_file_is_part_of_no_word(name, good, marked, tmp_path):
    """Files that were joined from several hold such marks at the heads of lines."""
    reader = READERS[name]
    assert marked != good
    results = []
    for content in (good, marked):
        write_files(tmp_path, {**reader.files, reader.main: content})
        results.append(content_of(reader.read(tmp_path / reader.main)))
    assert results[0] == results[1]


DAMAGES = ("missing", "cut off", "not UTF-8")
TERMINOLOGIES = ("mesh", "umls", "snomed", "wordnet", "obo", "mentions.tsv", "metamap")
UNSEEN = {  # ids that are not asked for, a vocabulary without its last letters, a release without this file
    *(
        ("concept vectors", "not UTF-8"),
        ("pieces", "cut off"),
        ("pieces", "not UTF-8"),
        ("snomed", "missing"),
    ),
    *(
        (name, "not UTF-8") for name, reader in READERS.items() if not reader.by_line
    ),  # they have no lines of text
}


@pytest.mark.parametrize(
    ("name", "damage"), [(n, d) for n in READERS for d in DAMAGES if (n, d) not in UNSEEN]
)
def test_a_damaged_file_is_named(name, damage, tmp_path):
    reader = READERS[name]
    good = as_bytes(reader.files[reader.main])
    cut = zipped(good)[:-9] if reader.zipped else good[:-9]
    content = {"missing": None, "cut off": cut, "not UTF-8": good + b"\xe9\n"}[damage]
    line = f"{1 + good.count(bytes([10]))}:" if damage == "not UTF-8" else ""
    error = refusal(reader, {reader.main: content}, tmp_path)
    assert str(error).startswith(f"{reader.main}:{line}"), error


NAMED = {
    "umls": "MRCONSO.RRF",
    "snomed": "sct2_Description_Snapshot-en_INT_20240101.txt",
}  # not `main`


@pytest.mark.parametrize("name", TERMINOLOGIES)
def test_a_nul_in_a_terminology_or_its_mentions_is_refused_with_its_line(name, tmp_path):
    """In one of the words of the text."""
    reader = READERS[name]
    file = NAMED.get(name, reader.main)
    before, word, after = as_bytes(reader.files[file]).partition(
        b"C1" if name == "mentions.tsv" else b"quokka"
    )
    content = before + word[:1] + b"\0" + word[1:] + after
    error = refusal(reader, {file: content}, tmp_path)
    assert (error.file, error.line) == (file, 1 + before.count(b"\n"))
    assert "NUL" in error.problem


# ---- bad lines and wrong columns ----


class Fault(NamedTuple):
    """`content` replaces `file`; the error names the file, the line and the field."""

    reader: str
    name: str
    file: str
    content: str | bytes
    line: int | str | None = None
    field: str | None = None


def added(reader, *faults):
    """Faults that are one more line at the end of the good file: (name, line, field)."""
    file = READERS[reader].main
    good = as_bytes(READERS[reader].files[file])
    for name, line, *field in faults:
        yield Fault(reader, name, file, good + as_bytes(f"{line}\n"), good.count(b"\n") + 1, *field)


def replaced(reader, *faults):
    """Faults that are a whole file: (name, content, line, field)."""
    return (Fault(reader, name, READERS[reader].main, *rest) for name, *rest in faults)


def row(**changes):
    return json.dumps(pair(2, **changes))


def query(**changes):
    return articles({**ARTICLE, "qas": [{**QUERY, **changes}]})


PLACE = "data[0].document"
FAULTS = (
    *added(
        "pairs.jsonl",
        ("broken JSON", '{"sentence1": "quokka'),
        ("no label", row(gold_label=...), "gold_label"),
        ("no premise", row(sentence1=...), "sentence1"),
        ("a blank hypothesis", row(sentence2=" \t"), "sentence2"),
    ),
    *added("pairs.jsonl", ("a field twice", row()[:-1] + ', "genre": "quokka"}')),
    *replaced("pairs.tsv", ("no header", table("\t", header=cells(0)), 1, "label")),
    *added(
        "pairs.csv",
        ("an open quote", ",".join(cells(2, premise='"quokka'))),
        ("a column more", "p2,a,b,c,wombat"),
    ),
    *replaced(
        "pairs.csv",
        (
            "a column twice",
            table(",", cells(0), header=("pairID", "gold_label", *["genre"] * 2)),
            1,
        ),
    ),
    *added("ground truth", ("a pair twice", "p1,neutral")),
    *replaced(
        "notes",
        (
            "a column twice",
            "ROW_ID,CATEGORY,ISERROR,TEXT,text\n1,Report,,quokka,wombat\n",
            1,
            "TEXT",
        ),
    ),
    *replaced("notes", ("no TEXT", "ROW_ID,CATEGORY,ISERROR\n", 1, "TEXT")),
    *added("notes", ("a number of letters", "wombat,Report,,x", "ROW_ID")),
    *replaced(
        "clicr",
        ("another version", articles(ARTICLE, "2.0"), "version", "version"),
        (
            "unbalanced marks",
            articles({**ARTICLE, "context": "BEG__quokka"}),
            f"{PLACE}.context",
            "context",
        ),
        ("no placeholder", query(query="quokka"), f"{PLACE}.qas[0].query", "query"),
        ("a field twice", articles(ARTICLE).replace('"qas"', '"title": "quokka", "qas"'), PLACE),
        (
            "a field of an answer twice",
            query().replace('"origin"', '"text": "wombat", "origin"'),
            f"{PLACE}.qas[0].answers[0]",
        ),
    ),
    *added("case reports", ("a field twice", lines(REPORT).strip()[:-1] + ', "id": "r2"}')),
    *added(
        "case reports", ("no sentences", '{"id": "quokka", "learning_points": []}', "sentences")
    ),
    *replaced("answers", ("an id twice", '{"r0.0": "quokka", "r0.0": "wombat"}', "entry 2")),
    *replaced("answers", ("of no query", '{"quokka": "wombat"}', "entry 1")),
    *replaced(
        "diseases",
        (
            "a column twice",
            f"{DISEASES.strip()},cui\na,C1,entailment,tests_diseases,C1,2,8,C2\n",
            1,
        ),
    ),
    *replaced("diseases", ("no header", "quokka,wombat\n", 1, "pair_id"), ("no example", DISEASES)),
    *added("diseases", ("an unknown label", "a,C1,wombat,symptoms_diseases,C1,0,2", "label")),
    *replaced(
        "mesh", ("another table", "a,b\n", 1), ("no descriptors", "\t".join(mesh.HEADER) + "\n")
    ),
    *added(
        "mesh",
        ("three fields", "D3\tquokka\tC01"),
        ("a bad number", "D3\tquokka\tC1\t", "tree_numbers"),
    ),
    *added("umls", ("a column less", umls_relation("C0000002", "PAR", "C0000001")[:-2])),
    Fault(
        "wordnet",
        "a pointer to nothing",
        "data.noun",
        WORDNET["data.noun"].replace("@ 00000100", "@ 00000999"),
        3,
    ),
    *replaced("obo", ("another format", "<rdf>\n" * 9, 1), ("no terms", "format-version: 1.2\n")),
    *added(
        "obo", ("a term twice", TERM.replace("\nname: quokka\n", ""), "id"), ("no tag", "wombat")
    ),
    *replaced("mentions.tsv", ("no header", "p1\tpremise\t1\t2\tD1\n", 1)),
    *added("mentions.tsv", ("a position of letters", "p1\tpremise\twombat\t2\tD1", "start")),
    *added("mentions.tsv", ("a pair that is not there", "p9\tpremise\t1\t2\tD1", "uid")),
    *added(
        "metamap",
        ("no MMI", "wombat", "MMI"),
        ("letters", MMI.strip().replace("14/6", "wombat"), "positions"),
    ),
    *replaced("lexicon", ("a blank line", "quokka wombat\n\n", 2)),
    *replaced(
        "vectors.txt",
        ("a short row", "quokka 1 2 3\nwombat 1 2\n", 2),
        ("a word", "quokka 1 wombat 3\n", 1),
    ),
    *replaced(
        "concept vectors",
        ("a short row", '"","V1"\n"C1",1,2\n', 2),
        ("a word", '"","V1"\n"C1",quokka\n', 2),
    ),
    *replaced("pieces", ("a piece twice", PIECES + "quokka\n"), ("no special pieces", "quokka\n")),
    *added("partition", ("an id twice", "quokka")),
    *added("categories", ("none of the categories", "u1\twombat")),
    *added("skills", ("none of the skills", "u1\tquokka")),
    *added("scores", ("a field twice", '{"uid": "u1", "f1": 0.5, "f1": 1}')),
    *added("scores", ("a word", '{"uid": "u1", "f1": "quokka"}')),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.reader}, {fault.name}")
def test_a_bad_line_or_column_is_named(fault, tmp_path):
    error = refusal(READERS[fault.reader], {fault.file: fault.content}, tmp_path)
    assert (error.file, error.line) == (fault.file, fault.line), error
    assert fault.field in (None, error.field)
