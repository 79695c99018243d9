"""Damaged files: every reader names file, line and field of the fault in one line, and quotes no
word of the text."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from build_queries import read_reports
from mimic_notes import past_medical_history
from support.cases import cases
from support.files import Content, as_bytes, lines, write_files, zipped
from support.mention_files import HEADER, mention_row, split_of
from support.ontologies import small
from support.ontology_files import (
    FSN,
    IS_A,
    RF2_FILES,
    UMLS,
    rf2_table,
    sct_concept,
    sct_edge,
    sct_term,
    umls_relation,
)
from support.pair_files import HYPOTHESIS, PREMISE, assert_no_words, cells, pair, pairs, table

from mednli_jax.cloze import scores as cloze_scores
from mednli_jax.cloze import stats
from mednli_jax.cloze.clicr import read_clicr
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
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers import mesh, snomed
from mednli_jax.knowledge.readers.obo import read_obo
from mednli_jax.knowledge.readers.umls import read_umls
from mednli_jax.knowledge.readers.wordnet import read_wordnet
from mednli_jax.nli import categories
from mednli_jax.nli.readers import read_nli_file

ALL = OntologyOptions(relations="all")


class Reader(NamedTuple):
    """read(path) reads `main`, one of `files` {path: content}.

    by_line: whether a fault of the bytes is found in a line. zipped: whether the file may be
    gzipped.
    """

    files: dict[str, Content]
    read: Callable[[Path], Any]
    main: str
    by_line: bool = True
    zipped: bool = True


def single(name, content, read, **options):
    """The reader of a single file."""
    return Reader({name: content}, read, name, **options)


# ---- good files ----

EXAMPLE = NLIExample(
    "p1",
    PREMISE,
    HYPOTHESIS,
    "neutral",
    tuple(PREMISE.split()),
    tuple(HYPOTHESIS.split()),
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
CONCEPT, DESCRIPTION = RF2_FILES["Concept"], RF2_FILES["Description"]
SNOMED = {
    CONCEPT: rf2_table("Concept", *map(sct_concept, ("64572001", "101", IS_A))),
    DESCRIPTION: rf2_table(
        "Description",
        *(sct_term(number, "quokka (disorder)", FSN) for number in ("64572001", "101", IS_A)),
    ),
    RF2_FILES["Relationship"]: rf2_table("Relationship", sct_edge("101", "64572001")),
}
NOUNS = """  1 licence
00000100 03 n 01 quokka 0 000 | a
00000200 03 n 01 pup 0 001 @ 00000100 n 0000 | b
"""
WORDNET = {
    "data.noun": NOUNS,
    "index.noun": "quokka n 1 0 1 0 00000100\npup n 1 1 @ 1 0 00000200\n",
    "data.verb": "00000100 29 v 01 narwhal 0 000 00 | c\n",
    "index.verb": "narwhal v 1 0 1 0 00000100\n",
}
TERM = "[Term]\nid: X:1\nname: quokka\n"
MENTIONS = f"{HEADER}\n{mention_row('train', EXAMPLE, 'quokka', 'C1')}\n"
MMI = 'p1-p|MMI|5.18|Name|C1|[sosy]|["quokka"-tx-1-"quokka"-noun-0]|TX|14/6|C01\n'
PIECES = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nquokka\n##s\n"


def articles(article, version="1.0"):
    return json.dumps({"version": version, "data": [{"source": "r1", "document": article}]})


def read_vectors(path):
    return load_vectors(path, (*SPECIALS, "quokka", "wombat"), dim=3, seed=0)


def read_answers(path):
    passage = Passage("r", (), ("quokka",), (Entity(0, 1),), (1,))
    query = ClozeExample(
        "r0.0",
        passage,
        ("@placeholder",),
        (),
        0,
        (Answer("quokka"),),
    )
    return cloze_scores.read_answers(path, [query])


def read_diseases(path):
    ontology = small([], ("quokka", "wombat"), ids=("C1", "C2"))
    pairs = [
        NLIExample(
            "a",
            PREMISE,
            "a quokka",
            "entailment",
            ("x",),
            ("y",),
        )
    ]
    return read_published([path], pairs, ontology)


def read_truth(path):
    return read_nli_file(path.parent / "x.jsonl", split="test", ground_truth=path)


def read_mentions_of_pair(path):
    return read_mentions(path, split_of(EXAMPLE))


def read_concept_vectors(path):
    return builder.read_vectors(path, ("C1",))


def read_notes(path):
    return list(past_medical_history(path))


def in_folder(read):
    """Reads the folder of a file."""

    def read_folder(path):
        return read(path.parent, ALL)

    return read_folder


TWO_PAIRS = pairs(0) + pairs(1)
QUOTED = cells(1, premise='"quokka, ""wombat"""')
DISEASE = "a,C1,entailment,symptoms_diseases,C1,2,8\n"
read_pairs = partial(read_nli_file, split="train")
READERS = {
    "pairs.jsonl": single("x.jsonl", TWO_PAIRS, read_pairs),
    "pairs.tsv": single("x.tsv", table("\t", cells(0), cells(1)), read_pairs),
    "pairs.csv": single("x.csv", table(",", cells(0), QUOTED), read_pairs),
    "ground truth": Reader({"t.csv": TRUTH, "x.jsonl": TWO_PAIRS}, read_truth, "t.csv"),
    "notes": single("notes.csv", NOTES, read_notes),
    "clicr": single("dev1.0.json", articles(ARTICLE), read_clicr, by_line=False),
    "case reports": single("r.jsonl", lines(REPORT), read_reports),
    "answers": single("a.json", '{"r0.0": "quokka"}', read_answers, by_line=False),
    "diseases": single("m.csv", DISEASES + DISEASE, read_diseases),
    "mesh": single("mesh.tsv", MESH, mesh.read_mesh),
    "umls": Reader(UMLS, in_folder(read_umls), "MRREL.RRF", zipped=False),
    "snomed": Reader(SNOMED, in_folder(snomed.read_snomed), CONCEPT, zipped=False),
    "wordnet": Reader(WORDNET, in_folder(read_wordnet), "data.noun"),
    "obo": single("x.obo", f"format-version: 1.2\n\n{TERM}", partial(read_obo, options=ALL)),
    "mentions.tsv": single("m.tsv", MENTIONS, read_mentions_of_pair),
    "metamap": single("m.mmi", MMI, read_mentions_of_pair),
    "lexicon": single("l.txt", "quokka wombat\n", retrofit.read_lexicon),
    "vectors.txt": single("v.txt", "2 3\nquokka 1 2.5 -3\nwombat 1 1 1\n", read_vectors),
    "vectors.bin": single("v.bin", b"1 3\nquokka " + bytes(12), read_vectors, by_line=False),
    "concept vectors": single("v.csv", '"","V1"\n"C1",1\n"C2",4.5\n', read_concept_vectors),
    "pieces": single("vocab.txt", PIECES, PieceVocabulary.load, zipped=False),
    "partition": single("p.txt", "quokka\nwombat\n", read_partition),
    "categories": single("c.tsv", "u0\tnegation\n", categories.read_annotations),
    "skills": single("k.tsv", "u0\tnone\n", stats.read_skills),
    "scores": single("s.jsonl", '{"uid": "u0", "f1": 0.5}\n', stats.read_scores),
}


def good_content(name):
    reader = READERS[name]
    return as_bytes(reader.files[reader.main])


def refusal(name, file, content, folder):
    """The error of a reader with this content of a file; None takes the file away."""
    reader = READERS[name]
    write_files(folder, {**reader.files, file: content})
    with pytest.raises(UserError) as caught:
        reader.read(folder / reader.main)
    error = caught.value
    assert all("Fix: " in line for line in str(error).splitlines())
    assert_no_words(str(error))
    return error.errors[0] if isinstance(error, DataErrors) else error


@cases("reader", READERS)
def test_every_reader_reads_a_good_file(reader, tmp_path):
    write_files(tmp_path, reader.files)
    reader.read(tmp_path / reader.main)


@pytest.mark.parametrize("name", [name for name, reader in READERS.items() if reader.zipped])
def test_every_reader_whose_files_may_be_gzipped_reads_them(name, tmp_path):
    reader = READERS[name]
    write_files(tmp_path, {**reader.files, reader.main: zipped(good_content(name))})
    reader.read(tmp_path / reader.main)


# ---- byte order marks ----

MARK = "\ufeff"
HEADS_OF_WORDS = re.compile(r'(?<=["\s,|_])(?=quokka|wombat|C000000|u0)')


def at_heads(text):
    """The text with marks at the heads of words, of the file and of its second line."""
    marked = HEADS_OF_WORDS.sub(MARK, text)
    return MARK + re.sub(r"(?<=\n)(?=.)", MARK, marked, count=1)


def as_escapes(text):
    """JSON with escaped marks at the heads of words."""
    return HEADS_OF_WORDS.sub(r"\\ufeff", text)


def marked_files():
    """A reader, and its file with marks. Arrays of numbers and vocabularies of pieces have no
    words."""
    for name in READERS.keys() - {"vectors.bin", "pieces"}:
        text = good_content(name).decode()
        yield pytest.param(name, at_heads(text), id=name)
        if text.startswith("{"):
            yield pytest.param(name, as_escapes(text), id=f"{name}, escaped")


@pytest.mark.parametrize(("name", "marked"), sorted(marked_files(), key=lambda param: param.id))
def test_a_byte_order_mark_at_the_start_of_a_file_or_within_it_is_part_of_no_word(
    name, marked, tmp_path
):
    """Files that were joined from several hold such marks at the heads of lines."""
    reader, results = READERS[name], []
    for content in (good_content(name), as_bytes(marked)):
        write_files(tmp_path, {**reader.files, reader.main: content})
        result = ascii(reader.read(tmp_path / reader.main))
        results.append(re.sub(r"[0-9a-f]{64}|0x[0-9a-f]+", "", result))  # digests and addresses

    assert as_bytes(marked) != good_content(name)
    assert results[0] == results[1]


# ---- damaged files ----


@pytest.mark.parametrize(
    "name", sorted(READERS.keys() - {"snomed"})
)  # a release may lack this file
def test_a_missing_file_is_named_by_every_reader(name, tmp_path):
    main = READERS[name].main
    assert str(refusal(name, main, None, tmp_path)).startswith(main)


@pytest.mark.parametrize(
    "name", sorted(READERS.keys() - {"pieces"})
)  # a piece may lack its last letters
def test_a_file_that_is_cut_off_is_named_by_every_reader(name, tmp_path):
    reader, good = READERS[name], good_content(name)
    end = 9 if reader.zipped else len(good.splitlines()[-1]) // 2
    cut = (zipped(good) if reader.zipped else good)[:-end]
    assert str(refusal(name, reader.main, cut, tmp_path)).startswith(reader.main)


# The last row of concept vectors is of a concept that is not asked for; pieces may be any bytes.
LINES = {name for name, reader in READERS.items() if reader.by_line} - {"concept vectors", "pieces"}


@pytest.mark.parametrize("name", sorted(LINES))
def test_a_line_that_is_not_utf8_is_named(name, tmp_path):
    main, good = READERS[name].main, good_content(name)
    error = refusal(name, main, good + b"\xe9\n", tmp_path)
    assert (error.file, error.line) == (main, 1 + good.count(b"\n"))


@pytest.mark.parametrize(
    ("name", "file", "word"),
    [
        ("mesh", "mesh.tsv", b"quokka"),
        ("umls", "MRCONSO.RRF", b"quokka"),
        ("snomed", DESCRIPTION, b"quokka"),
        ("wordnet", "data.noun", b"quokka"),
        ("obo", "x.obo", b"quokka"),
        ("mentions.tsv", "m.tsv", b"C1"),
        ("metamap", "m.mmi", b"quokka"),
    ],
)
def test_a_nul_in_a_terminology_or_its_mentions_is_refused_with_its_line(
    name, file, word, tmp_path
):
    before, _, after = as_bytes(READERS[name].files[file]).partition(word)
    content = before + word[:1] + b"\0" + word[1:] + after

    error = refusal(name, file, content, tmp_path)
    assert (error.file, error.line) == (file, 1 + before.count(b"\n"))
    assert "NUL" in error.problem


# ---- bad lines and wrong columns ----


def added(name, fault, line, field=None):
    """A fault that is one more line at the end of the good file."""
    good = good_content(name)
    return replaced(name, fault, good + as_bytes(f"{line}\n"), good.count(b"\n") + 1, field)


def replaced(name, fault, content, line=None, field=None):
    """A fault that is a whole file: (reader, content, line and field that the error names)."""
    return pytest.param(name, content, line, field, id=f"{name}, {fault}")


def row(**changes):
    return json.dumps(pair(2, **changes))


def query(**changes):
    return articles({**ARTICLE, "qas": [{**QUERY, **changes}]})


PLACE = "data[0].document"
TWO_GENRES = table(",", cells(0), header=("pairID", "gold_label", "genre", "genre"))
UNBALANCED = articles({**ARTICLE, "context": "BEG__quokka"})
TWO_TITLES = articles(ARTICLE).replace('"qas"', '"title": "quokka", "qas"')
TWO_TEXTS = query().replace('"origin"', '"text": "wombat", "origin"')
TWO_IDS = lines(REPORT).strip()[:-1] + ', "id": "r2"}'
TWO_CUIS = f"{DISEASES.strip()},cui\na,C1,entailment,tests_diseases,C1,2,8,C2\n"
LETTERS = MMI.strip().replace("14/6", "wombat")
FAULTS = (
    added("pairs.jsonl", "broken JSON", '{"sentence1": "quokka'),
    added("pairs.jsonl", "no label", row(gold_label=...), "gold_label"),
    added("pairs.jsonl", "no premise", row(sentence1=...), "sentence1"),
    added("pairs.jsonl", "a blank hypothesis", row(sentence2=" \t"), "sentence2"),
    added("pairs.jsonl", "a field twice", row()[:-1] + ', "genre": "quokka"}'),
    replaced("pairs.tsv", "no header", table("\t", header=cells(0)), 1, "label"),
    added("pairs.csv", "an open quote", ",".join(cells(2, premise='"quokka'))),
    added("pairs.csv", "a column more", "p2,a,b,c,wombat"),
    replaced("pairs.csv", "a column twice", TWO_GENRES, 1),
    added("ground truth", "a pair twice", "p1,neutral"),
    replaced(
        "notes", "a column twice", "ROW_ID,CATEGORY,ISERROR,TEXT,text\n1,Report,,a,b\n", 1, "TEXT"
    ),
    replaced("notes", "no TEXT", "ROW_ID,CATEGORY,ISERROR\n", 1, "TEXT"),
    added("notes", "a number of letters", "wombat,Report,,x", "ROW_ID"),
    replaced("clicr", "another version", articles(ARTICLE, "2.0"), "version", "version"),
    replaced("clicr", "unbalanced marks", UNBALANCED, f"{PLACE}.context", "context"),
    replaced("clicr", "no placeholder", query(query="quokka"), f"{PLACE}.qas[0].query", "query"),
    replaced("clicr", "a field twice", TWO_TITLES, PLACE),
    replaced("clicr", "a field of an answer twice", TWO_TEXTS, f"{PLACE}.qas[0].answers[0]"),
    added("case reports", "a field twice", TWO_IDS),
    added("case reports", "no sentences", '{"id": "quokka", "learning_points": []}', "sentences"),
    replaced("answers", "an id twice", '{"r0.0": "quokka", "r0.0": "wombat"}', "entry 2"),
    replaced("answers", "of no query", '{"quokka": "wombat"}', "entry 1"),
    replaced("diseases", "a column twice", TWO_CUIS, 1),
    replaced("diseases", "no header", "quokka,wombat\n", 1, "pair_id"),
    replaced("diseases", "no example", DISEASES),
    added("diseases", "an unknown label", "a,C1,wombat,symptoms_diseases,C1,0,2", "label"),
    replaced("mesh", "another table", "a,b\n", 1),
    replaced("mesh", "no descriptors", "\t".join(mesh.HEADER) + "\n"),
    added("mesh", "three fields", "D3\tquokka\tC01"),
    added("mesh", "a bad number", "D3\tquokka\tC1\t", "tree_numbers"),
    added("umls", "a column less", umls_relation("C0000002", "PAR", "C0000001")[:-2]),
    replaced("wordnet", "a pointer to nothing", NOUNS.replace("@ 00000100", "@ 00000999"), 3),
    replaced("obo", "another format", "<rdf>\n" * 9, 1),
    replaced("obo", "no terms", "format-version: 1.2\n"),
    added("obo", "a term twice", "[Term]\nid: X:1", "id"),
    added("obo", "no tag", "wombat"),
    replaced("mentions.tsv", "no header", "train\tp1\tpremise\t1\t2\tD1\n", 1),
    added("mentions.tsv", "a position of letters", "train\tp1\tpremise\twombat\t2\tD1", "start"),
    added("mentions.tsv", "a pair that is not there", "train\tp9\tpremise\t1\t2\tD1", "id"),
    added("metamap", "no MMI", "wombat", "MMI"),
    added("metamap", "letters", LETTERS, "positions"),
    replaced("lexicon", "a blank line", "quokka wombat\n\n", 2),
    replaced("concept vectors", "a short row", '"","V1"\n"C1",1,2\n', 2),
    replaced("concept vectors", "a word", '"","V1"\n"C1",quokka\n', 2),
    replaced("pieces", "a piece twice", f"{PIECES}quokka\n"),
    replaced("pieces", "no special pieces", "quokka\n"),
    added("partition", "an id twice", "quokka"),
    added("categories", "none of the categories", "u1\twombat"),
    added("skills", "none of the skills", "u1\tquokka"),
    added("scores", "a field twice", '{"uid": "u1", "f1": 0.5, "f1": 1}'),
    added("scores", "a word", '{"uid": "u1", "f1": "quokka"}'),
)


@pytest.mark.parametrize(("name", "content", "line", "field"), FAULTS)
def test_a_bad_line_or_column_is_named_by_every_reader(name, content, line, field, tmp_path):
    main = READERS[name].main
    error = refusal(name, main, content, tmp_path)
    assert (error.file, error.line) == (main, line), error
    assert field in (None, error.field)
