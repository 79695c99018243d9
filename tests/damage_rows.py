"""Damages of single formats: what test_damage.py plants in the good files of a reader, and where it must be found."""

import json
import struct
from typing import NamedTuple

import numpy as np
import test_metamap
import test_snomed
import test_umls
import test_wordnet
from made_up_files import array, cells, pair, pairs, table
from made_up_readers import RF2, RF2_ROWS, RRF, SNOMED

from mednli_jax.knowledge.readers import mesh


class Row(NamedTuple):
    """files: replacements for good files of the reader. The first error must name file, line and field.

    main: the file to read, if it is not the reader's own.
    """

    name: str
    reader: str
    files: dict
    file: str
    line: int | str | None = None
    field: str | None = None
    main: str = ""


def of(reader, file, line, make, *damages, main=""):
    """The rows of one reader. A damage is (name, argument of `make`, its field, its line); the last two may be missing.

    make: returns the content of `file`, or {file: content}. line: the line of damages that do not give their own.
    """
    for name, damage, *rest in damages:
        field, place = (*rest, line)[:2] if rest else (None, line)
        place = rest[1] if len(rest) > 1 else place
        content = make(damage)
        files = content if isinstance(content, dict) else {file: content}
        yield Row(name, reader, files, file.rpartition("/")[2], place, field, main)


def same(content):
    return content


def bad(**more):
    return pair(2, **more)


PARSE = "sentence1_binary_parse"
TWICE = ("pairID", "gold_label", "sentence1", "sentence1")
NOTES = "ROW_ID,CATEGORY,ISERROR,TEXT\n"
NOTE = '1,Report,,"Past Medical History:\nquokka"\n'
PAIRS = (
    *of("pairs x.jsonl", "x.jsonl", 2, lambda row: pairs(1, row),
        ("broken JSON", '{"sentence1": "quokka'),
        ("half a JSON line", json.dumps(bad())[:-30]),
        ("nested too deep", "[" * 100_000),
        ("a number of 5000 digits", '{"a": ' + "9" * 5000 + "}"),
        ("a list for an object", '["quokka"]'),
        ("a string for an object", '"quokka"'),
        ("a list for a sentence", bad(sentence1=["quokka"]), "sentence1"),
        ("a number for a sentence", bad(sentence2=7), "sentence2"),
        ("null for a label", bad(gold_label=None), "gold_label"),
        ("a number for a label", bad(gold_label=1), "gold_label"),
        ("a number for a pairID", bad(pairID=7), "pairID"),
        ("a list for a parse", bad(**{PARSE: ["quokka"]}), PARSE),
        ("no label", bad(gold_label=...), "gold_label"),
        ("no premise", bad(sentence1=...), "sentence1"),
        ("no hypothesis", bad(sentence2=...), "sentence2"),
        ("an unknown label", bad(gold_label="wombat"), "gold_label"),
        ("a label in capitals", bad(gold_label="Neutral"), "gold_label"),
        ("an empty label", bad(gold_label=""), "gold_label"),
        ("an empty premise", bad(sentence1=""), "sentence1"),
        ("a blank hypothesis", bad(sentence2=" \t\u00a0"), "sentence2"),
        ("a pairID twice", pair(1), "pairID"),
        ("a parse of brackets", bad(sentence2_binary_parse="( ( ) )"), "sentence2_binary_parse"),
        ("a parse cut short", bad(**{PARSE: "( quokka ( is"}), PARSE),
        ("a parse that opens late", bad(sentence2_binary_parse="quokka )"), "sentence2_binary_parse"),
        ("an escaped NUL", bad(sentence1="quokka\0"), "sentence1"),
        ("half a surrogate pair", bad(sentence2="quokka\ud800"), "sentence2")),
    *of("pairs x.jsonl", "x.jsonl", None, same,
        ("blank lines", b"\n \n\n"),
        ("no labelled pair", json.dumps(pair(1, gold_label="-"))),
        ("UTF-16 with its mark", pairs(1).decode().encode("utf-16"), None, 1),
        ("UTF-16 without", pairs(1).decode().encode("utf-16-le"), None, 1)),
    *of("pairs x.tsv", "x.tsv", 3, lambda row: table("\t", cells(1), row),
        ("too many columns", (*cells(2), "wombat")),
        ("too few columns", cells(2)[:3]),
        ("an unknown label", cells(2, "wombat"), "gold_label"),
        ("an empty sentence", cells(2, premise=" "), "sentence1"),
        ("a pairID twice", cells(1), "pairID"),
        ("TABs alone", ("", "", "", ""), "gold_label")),
    *of("pairs x.tsv", "x.tsv", 1, lambda header: table("\t", cells(1), header=header),
        ("a column twice", TWICE),
        ("no header", cells(0), "gold_label")),
    *of("pairs x.csv", "x.csv", 3, lambda row: table(",", cells(1), row),
        ("an unclosed quote", cells(2, premise='"quokka')),
        ("a stray quote", cells(2, premise='quo"kka"')),
        ("text behind a quote", cells(2, premise='"a" quokka')),
        ("a NUL in a record of two lines", cells(2, premise='"quokka\n\0"'), None, 4),
        ("too many columns", (*cells(2), "wombat"))),
    *of("pairs x.csv", "x.csv", 1, lambda header: table(",", header=header),
        ("a column twice", TWICE),
        ("no label column", TWICE[::2], "gold_label")),
    *of("pairs triples", "s2.train", 2, same, ("too few hypotheses", "wombat\n")),
    *of("pairs triples", "labels.train", 2, same, ("an unknown label", "neutral\nwombat\nneutral\n", "gold_label")),
    *of("pairs triples", "s1.train", 2, same, ("a blank premise", "quokka\n \nquokka\n", "sentence1")),
    *of("pairs triples", "s1.train", None, dict.fromkeys,
        ("nothing in three files", ("s1.train", "s2.train", "labels.train"))),
    *of("pairs ground truth", "x.jsonl", 1, lambda truth: {"x.jsonl": pairs(0), "t.csv": truth},
        ("a pair without label", "pair_id,label\np9,neutral\n", "pairID")),
    *of("pairs ground truth", "t.csv", 2, lambda truth: {"x.jsonl": pairs(0), "t.csv": truth},
        ("a label without pair", "pair_id,label\np0,neutral\np9,neutral\n", "pair_id", 3),
        ("an unknown label", "pair_id,label\np0,wombat\n", "label"),
        ("an unclosed quote", 'pair_id,label\np0,"neutral\n'),
        ("a pair twice", "p0,neutral\np0,neutral\n", "pair_id"),
        ("three columns", "p0,neutral,wombat\n", None, 1)),
    *of("notes", "notes.csv", 1, same,
        ("no TEXT", "ROW_ID,CATEGORY,ISERROR\n", "TEXT"),
        ("a column twice", "ROW_ID,CATEGORY,ISERROR,TEXT,TEXT\n")),
    *of("notes", "notes.csv", 4, lambda row: NOTES + NOTE + row,
        ("an unclosed quote", '2,Report,,"quokka\n'),
        ("too many columns", "2,Report,,quokka,wombat\n"),
        ("a ROW_ID beyond all", "100000001,Report,,quokka\n", "ROW_ID"),
        ("a ROW_ID of letters", "wombat,Report,,quokka\n", "ROW_ID"),
        ("an ISERROR of letters", "2,Report,wombat,x\n", "ISERROR"),
        ("a ROW_ID twice", NOTE, "ROW_ID")),
    *of("stdin of nli", "stdin", 1, same,
        ("one sentence", "quokka\n"),
        ("three sentences", "quokka\twombat\tnarwhal\n"),
        ("an empty hypothesis", "\nquokka\t \n", None, 2),
        ("broken JSON", '{"premise": "quokka\n'),
        ("a field missing", '{"premise": "quokka"}\n'),
        ("a number for a sentence", '{"premise": "quokka", "hypothesis": 3}\n'),
        ("UTF-16", "quokka\twombat\n".encode("utf-16")),
        ("half a surrogate pair", '{"premise": "quokka \\ud800", "hypothesis": "x"}\n'),
        ("an entity beside none", '["quokka", "wombat"]\n')),
    *of("stdin of cloze", "stdin", 1, same,
        ("no blank", "quokka\twombat\n"),
        ("two blanks", "quokka\t@placeholder @placeholder\n"),
        ("a mark that never ends", "BEG__quokka\t@placeholder\n"),
        ("fields of a pair", '{"premise": "quokka", "hypothesis": "@placeholder"}\n')),
)  # fmt: skip

# ---- terminologies ----

TERM = "[Term]\nid: X:1\nname: quokka\n"
RELATED, TYPED, NAMED = test_umls.relation, test_umls.kind, test_umls.name
CONCEPTS = test_snomed.NAMES["Concept"]
OTHER_EDITION = RF2 + CONCEPTS.replace("INT_20240101", "US1000124_20240301")


def rrf(file, *damages):
    """Rows with lines added to a file of the UMLS."""
    good = RRF[file]
    return of("umls", file, good.count("\n") + 1, lambda more: {file: good + more, "MRFILES.RRF": None}, *damages)


def rf2(kind, *damages):
    """Rows with a line added to a file of SNOMED CT."""
    file = RF2 + test_snomed.NAMES[kind]
    return of("snomed", file, len(RF2_ROWS[kind]) + 2, lambda more: {file: SNOMED[file] + more}, *damages)


def wordnet(file, *damages):
    good = test_wordnet.FILES[file]
    return of("wordnet", file, None, lambda change: {file: good.replace(*change, 1)}, *damages)


TERMINOLOGIES = (
    *of("mesh", "mesh.tsv", 2, lambda rows: "\t".join(mesh.HEADER) + "\n" + rows,
        ("no descriptors", "", None, None),
        ("three fields", "D1\tquokka\tC01\n"),
        ("five fields", "D1\tquokka\tC01\t\twombat\n"),
        ("an empty id", "\tquokka\tC01\t\n", "id"),
        ("an empty name", "D1\t \tC01\t\n", "name"),
        ("an id twice", "D1\tquokka\tC01\t\n" * 2, "id", 3),
        ("a bad tree number", "D1\tquokka\tC1\t\n", "tree_numbers"),
        ("a tree number of two", "D1\tquokka\tC01\t\nD2\twombat\tC01\t\n", "tree_numbers", 3),
        ("a cycle", "D1\tquokka\tC01|C02.100\t\nD2\twombat\tC02|C01.100\t\n", "tree_numbers", None)),
    *of("mesh", "mesh.tsv", 1, same,
        ("another table", "a,b\n"),
        ("UTF-16", "\t".join(mesh.HEADER).encode("utf-16"))),
    *rrf("MRREL.RRF",
         ("a column less", test_umls.REL.split("\n")[0][:-1] + "\n"),
         ("a CUI of letters", RELATED("C00000O1", "PAR", "C0000002"), "CUI1"),
         ("a concept that is not there", RELATED("C0000001", "CHD", "C9999999"), "CUI2")),
    *rrf("MRCONSO.RRF", ("an empty name", NAMED("C0000001", " "), "STR")),
    *rrf("MRSTY.RRF", ("the type of none", TYPED("C9999999", "T047"), "CUI")),
    *of("umls", "MRREL.RRF", None, lambda rows: {"MRREL.RRF": rows, "MRFILES.RRF": None},
        ("no relations", "")),
    *of("umls", "MRSTY.RRF", None, lambda sizes: {"MRFILES.RRF": test_umls.mrfiles(MRSTY=sizes)},
        ("rows lost", (test_umls.COLUMNS["MRSTY.RRF"], 99))),
    *rf2("Concept",
         ("a concept twice", test_snomed.concept("102"), "id"),
         ("a concept without a description", test_snomed.concept("106"), "id"),
         ("active is true", test_snomed.concept("7", active="true"), "active")),
    *rf2("Relationship", ("a concept that is not there", test_snomed.relationship("999", "101"), "sourceId")),
    *of("snomed", CONCEPTS, 1, lambda rows: {RF2 + CONCEPTS: rows}, ("another header", "id\tactive\n1\t1\n")),
    *of("snomed", "files", None, lambda rows: {OTHER_EDITION: rows},
        ("two editions", test_snomed.table("Concept", *test_snomed.CONCEPTS))),
    *wordnet("data.noun",
             ("another lexicographer", (" 26 ", " 99 "), None, 5),
             ("a synset twice", ("00000300 26", "00000200 26"), None, 5),
             ("a pointer to nothing", ("@ 00000100", "@ 00000999"), None, 4)),
    *wordnet("index.noun", ("an entry of nothing", ("1 1 00000300", "1 1 00000999"), None, 8)),
    *of("obo", "x.obo", 4, same,
        ("no tag", TERM + "wombat\n"),
        ("another format", "<rdf>\n" * 9, None, 1),
        ("no terms", "format-version: 1.2\n", None, None),
        ("a term without an id", "[Term]\nname: quokka\n", "id", 1),
        ("a term twice", TERM + TERM, "id"),
        ("a parent that is not there", TERM + "is_a: X:2\n", "is_a")),
)  # fmt: skip

# ---- mentions, words and vectors ----

OBJECT = {"uid": "p1", "side": "premise", "start": 1, "end": 2, "concept": "D1"}
MMI = test_metamap.line()
# The header of a fastText model with 3 dimensions and one word, and the mark of quantised models.
QUANTISED = struct.pack("<14id3i2q", 793712314, 12, 3, 5, 1, 1, 5, 1, 2, 2, 0, 0, 0, 100, 1e-4, 1, 1, 0, 9, -1)
QUANTISED += b"quokka\0" + struct.pack("<qb?", 7, 0, True)
ROW = "quokka 1 2 3\n"
THREE = array(np.ones((2, 3), np.float32))


def mention(row, header=""):
    return f"uid\tside\tstart\tend\tconcept{header}\n{row}\n"


def vectors(file, *damages):
    """Files of vectors with other names; the names tell their format."""
    return of("vectors v.txt", file, None, same, *damages, main=file)


KNOWLEDGE = (
    *of("mentions m.tsv", "m.tsv", 2, lambda row: mention(*row) if isinstance(row, tuple) else mention(row),
        ("four columns", "p1\tpremise\t1\t2"),
        ("no concept", "p1\tpremise\t1\t2\t", "concept"),
        ("a position of letters", "p1\tpremise\twombat\t2\tD1", "start"),
        ("a pair that is not there", "p9\tpremise\t1\t2\tD1", "uid"),
        ("a side that is none", "p1\twombat\t1\t2\tD1", "side"),
        ("an end before its start", "p1\tpremise\t2\t1\tD1", "start"),
        ("past the sentence", "p1\thypothesis\t2\t4\tD1", "end"),
        ("a score of letters", ("p1\tpremise\t1\t2\tD1\twombat", "\tscore"), "score"),
        ("a negation of letters", ("p1\tpremise\t1\t2\tD1\twombat", "\tnegated"), "negated")),
    *of("mentions m.tsv", "m.tsv", 1, same, ("no header", "p1\tpremise\t1\t2\tD1\n")),
    *of("mentions m.jsonl", "m.jsonl", 1, same,
        ("no JSON", '{"uid": "quokka'),
        ("a field missing", json.dumps({k: v for k, v in OBJECT.items() if k != "end"}), "end")),
    *of("metamap", "m.mmi", 1, same,
        ("no MMI", "wombat\n", "MMI"),
        ("six fields", "p1-p|MMI|5.18|wombat|C1|[sosy]\n", "MMI"),
        ("positions of letters", test_metamap.line(positions="wombat"), "positions"),
        ("no side", test_metamap.line(ident="p1"), "ID")),
    *of("abbreviations", "a.tsv", 1, same,
        ("one column", "quokka\n"),
        ("another header", "long\texpansion\n"),
        ("no expansion", "quokka\t\n")),
    *of("stop words", "s.txt", None, same, ("comments alone", "# wombat\n")),
    *of("lexicon", "l.txt", 2, same, ("a blank line", "quokka wombat\n\n")),
    *of("vectors v.txt", "v.txt", 1, same,
        ("a header alone", "0 3\n", None, None),
        ("another dimension", "quokka 1 2 3 4 5\n"),
        ("another dimension in the header", "1 4\nquokka 1 2 3 4\n"),
        ("a short row", ROW + "wombat 1 2\n", None, 2),
        ("a long row", ROW + "wombat 1 2 3 4\n", None, 2),
        ("NaN", "narwhal 1 2 3\nquokka 1 nan 3\n", None, 2),
        ("infinite", "quokka 1 inf 3\n"),
        ("beyond float32", "quokka 1 1e300 3\n"),
        ("a word for a number", "quokka 1 wombat 3\n"),
        ("fewer rows than promised", "7 3\n" + ROW),
        ("a zip", b"PK\3\4quokka", None, None)),
    *of("vectors v.bin", "v.bin", None, same,
        ("cut short", b"1 3\nquokka " + bytes(9)),
        ("fewer rows than promised", b"2 3\nquokka " + bytes(12), None, 1),
        ("another program's binary", b"\x80\x04quokka")),
    *vectors("v.ftz", ("a quantised fastText model", QUANTISED)),
    *vectors("v.vec", ("fewer rows than promised", "7 3\n" + ROW, None, 1)),
    *of("vectors v.npy", "v.npy", None, same,
        ("no array", b"quokka"),
        ("a pickle", array(np.array([{"quokka": 1}]), allow_pickle=True)),
        ("one dimension", array(np.ones(3))),
        ("cut short", THREE[:-4]),
        ("half a header", THREE[:40].replace(b"\x76\0", b"\x14\0")),
        ("NaN", array(np.full((2, 3), np.nan)))),
    *of("vectors v.npy", "v.npy", None, lambda words: {"v.vocab.txt": words}, ("fewer words", "quokka\n")),
    *of("concept vectors", "v.csv", 2, same,
        ("a short row", '"","V1"\n"C1",1,2\n'),
        ("a word for a number", '"","V1"\n"C1",quokka\n')),
    *of("articles", "a.json", None, same,
        ("another JSON", '{"quokka": []}'),
        ("a list for an article", '{"articles": [["quokka"]]}')),
    *of("running text", "a.txt", None, same, ("no text", "\n\n")),
)  # fmt: skip

# ---- queries ----

QUERY = {"id": "q1", "query": "an @placeholder .", "answers": [{"text": "quokka", "origin": "dataset"}]}
ARTICLE = {"title": "wombat", "context": "A BEG__quokka__END .", "qas": [QUERY]}


def changed(values, changes):
    return {key: value for key, value in {**values, **changes}.items() if value is not ...}


def corpus(document):
    return json.dumps({"version": "1.0", "data": [{"source": "r1", "document": document}]})


def clicr_query(changes):
    return corpus(changed(ARTICLE, {"qas": [changed(QUERY, changes)]}))


def biomrc(*values):
    return json.dumps(dict(zip(("abstracts", "titles", "entities_list", "answers"), values, strict=True)))


Q, DOCUMENT = "data[0].document.qas[0]", "data[0].document"
DISEASES = "pair_id,CUI,label,category,original_cui,start_index,end_index\n"
CLOZE = (
    *of("clicr", "dev1.0.json", None, same,
        ("broken JSON", '{"version": "1.0", "data": [{"quokka"'),
        ("a list", "[]"),
        ("deep brackets", "[" * 100_000),
        ("another version", '{"version": "2.0", "data": []}', "version", "version"),
        ("no version", '{"data": []}', "version", "version"),
        ("no source", json.dumps({"version": "1.0", "data": [{"document": ARTICLE}]}), "source", "data[0].source"),
        ("no title", corpus(changed(ARTICLE, {"title": ...})), "title", f"{DOCUMENT}.title"),
        ("no queries", corpus(changed(ARTICLE, {"qas": ...})), "qas", f"{DOCUMENT}.qas"),
        ("no id", clicr_query({"id": ...}), "id", f"{Q}.id"),
        ("no data", '{"version": "1.0"}', "data", "data")),
    *of("clicr", "dev1.0.json", f"{DOCUMENT}.context", lambda context: corpus(changed(ARTICLE, {"context": context})),
        ("no context", ..., "context"),
        ("a list for a context", ["quokka"], "context"),
        ("an empty context", " ", "context"),
        ("unbalanced marks", "BEG__quokka", "context"),
        ("no marks at all", "A quokka .", None, None)),
    *of("clicr", "dev1.0.json", f"{Q}.query", clicr_query,
        ("no placeholder", {"query": "quokka"}, "query"),
        ("two placeholders", {"query": "@placeholder @placeholder"}, "query"),
        ("a NUL", {"query": "quokka\0 @placeholder"}, "query"),
        ("half a surrogate pair", {"query": "quokka\ud800"}, "query"),
        ("no answer", {"answers": []}, "answers", f"{Q}.answers"),
        ("an answer of UMLS alone", {"answers": [{"text": "quokka", "origin": "UMLS"}]}, "answers", f"{Q}.answers"),
        ("an unknown origin", {"answers": [{"text": "quokka", "origin": "wombat"}]}, "origin",
         f"{Q}.answers[0].origin")),
    *of("clicr", "dev1.0.json", "data[0].document.qas[1].id", lambda qas: corpus({**ARTICLE, "qas": qas}),
        ("an id twice", [QUERY, QUERY], "id")),
    *of("biomrc", "b.json", "entities_list[0]", lambda entity: biomrc(["a"], ["XXXX"], [[entity]], ["@entity0"]),
        ("an entity of another form", "quokka", "entities_list[0]"),
        ("an entity that is a program", "@entity0 :: open('quokka', 'w')", "entities_list[0]"),
        ("an entity of a list for a key", "@entity0 :: {[]: 'quokka'}", "entities_list[0]"),
        ("an entity with half a surrogate pair", "@entity0 :: ['quokka\\ud800']", "entities_list[0]")),
    *of("biomrc", "b.json", None, lambda values: biomrc(*values),
        ("unequal lists", ([], [], [], ["quokka"])),
        ("a number for a text", ([3], [3], [3], [3]), "abstracts[0]", "abstracts[0]"),
        ("an entity that is not listed", (["quokka @entity5"], ["XXXX"], [["@entity0"]], ["@entity0"]), "abstracts[0]",
         "abstracts[0]"),
        ("a blank text", ([" "], ["XXXX"], [["@entity0"]], ["@entity0"]), None, "abstracts[0]"),
        ("a number for an entity", (["a", "b"], ["XXXX", "XXXX"], [["@entity0"], [3]], ["@entity0"] * 2), None,
         "entities_list[1]"),
        ("two blanks", (["a"], ["XXXX quokka XXXX"], [["@entity0"]], ["@entity0"]), None, "titles[0]"),
        ("no blank", (["a"], ["quokka"], [[]], ["@entity0"]), "titles[0]", "titles[0]"),
        ("no query", ([], [], [], []))),
    *of("biomrc", "b.json", "titles", same, ("no titles", '{"abstracts": []}', "titles")),
    *of("case reports", "r.jsonl", 1, same,
        ("no JSON", "quokka\n"),
        ("no sentences", '{"id": "quokka", "learning_points": []}', "sentences")),
    *of("answers a.json", "a.json", None, same,
        ("no JSON", "quokka"),
        ("a list for an answer", '{"r0.0": ["quokka"]}'),
        ("of no query", '{"quokka": "wombat"}')),
    *of("skills", "k.tsv", 1, same, ("none of the skills", "u0\tquokka\n")),
    *of("scores", "s.jsonl", 1, same, ("an f1 of words", '{"uid": "u", "f1": "quokka"}\n')),
    *of("categories", "c.tsv", 1, same, ("none of the categories", "u0\twombat\n")),
    *of("annotations of diseases", "m.csv", 2, lambda row: DISEASES + row,
        ("six cells", "a,C1,entailment,symptoms_diseases,C1,0\n"),
        ("no CUI", "a,,entailment,symptoms_diseases,C1,0,2\n", "CUI"),
        ("an unknown label", "a,C1,wombat,symptoms_diseases,C1,0,2\n", "label"),
        ("an unknown category", "a,C1,entailment,wombat,C1,0,2\n", "category"),
        ("an index of letters", "a,C1,entailment,symptoms_diseases,C1,quokka,2\n", "start_index"),
        ("a negative called positive", '"a,ng",C1,entailment,symptoms_diseases,C1,0,2\n', "label"),
        ("no positive example", "", None, None),
        ("an unclosed quote", '"quokka,C1\n')),
    *of("annotations of diseases", "m.csv", 1, same, ("no header", "quokka,wombat\n", "pair_id")),
)  # fmt: skip

# ---- models, and lists of ids ----

NORMAL = {"type": "BertNormalizer"}
SIZES = {"vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4}
MODELS = (
    *of("settings of weights", "config.json", None, same,
        ("no JSON", "quokka"),
        ("deep brackets", "[" * 100_000),
        ("another architecture", '{"model_type": ["quokka"]}'),
        ("sizes beyond the weights", json.dumps({**SIZES, "vocab_size": 1 << 40, "max_position_embeddings": 4}))),
    *of("pretrained weights", "model.safetensors", None, same, ("cut short", bytes(5000))),
    *of("pieces vocab.txt", "vocab.txt", None, same,
        ("a piece twice", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nquokka\nquokka\n"),
        ("no special pieces", "quokka\n")),
    *of("pieces tokenizer.json", "tokenizer.json", None, json.dumps,
        ("half a surrogate pair", {"model": {"vocab": {"quokka\ud800": 0}}, "normalizer": NORMAL}),
        ("another kind", {"model": {"type": "quokka"}})),
    *of("partition p.npy", "p.npy", None, same,
        ("numbers", array(np.arange(3))),
        ("strings of bytes that are no text", array(np.array([b"\xff"]))),
        ("objects", array(np.array(["wombat", None], object), allow_pickle=True)),
        ("an array of nothing", array(np.array([], "U1"))),
        ("cut short", array(np.array(["quokka", "wombat"]))[:-3]),
        ("text called an array", "quokka\nwombat\n")),
    *of("partition p.txt", "p.txt", 3, same,
        ("blank lines", "\n\n", None, None),
        ("an id twice", "quokka\nwombat\nquokka\n")),
)  # fmt: skip

ROWS = (*PAIRS, *TERMINOLOGIES, *KNOWLEDGE, *CLOZE, *MODELS)
