"""Every parser of files, fed with good files that had accidents: it reads them, or says in its own words what is wrong.

Nothing but UserError may come out, no word of the texts may be told, and no input may take more than seconds. An input
is a function of its parser's name and a number, which a failure names: MEDNLI_JAX_FUZZ_FIRST=n begins with number n.
MEDNLI_JAX_FUZZ_SECONDS=s goes on for s seconds a parser in the slow part, 60 where it is not set.
"""

import contextlib
import csv
import gzip
import io
import json
import os
import random
import re
import struct
import tempfile
import time
from collections.abc import Callable
from itertools import count, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import test_benchmark_files
import test_cache
import test_clicr
import test_metamap
import test_obo
import test_spans
import test_store
import test_umls
import test_vectors_binary
import test_wordnet
from safetensors.numpy import save
from test_damage import FOLDERS, PLAIN, RUNS, TRIPLES, WORDS, array

from mednli_jax import predict
from mednli_jax.analysis import categories, outcomes
from mednli_jax.analysis.artifacts import filtering
from mednli_jax.analysis.cloze import skills as cloze_skills
from mednli_jax.analysis.cloze import tables as cloze_tables
from mednli_jax.corpora.cache import Cache
from mednli_jax.corpora.cloze.biomrc import read_biomrc
from mednli_jax.corpora.cloze.case_reports import read_reports
from mednli_jax.corpora.cloze.clicr import read_clicr
from mednli_jax.corpora.diskne import negatives as diskne_negatives
from mednli_jax.corpora.diskne import published as diskne_files
from mednli_jax.corpora.diskne import store as diskne_store
from mednli_jax.corpora.nli.notes import PastMedicalHistory
from mednli_jax.corpora.nli.partitions import read_partition
from mednli_jax.corpora.nli.readers import read_nli_file
from mednli_jax.corpora.nli.wordpiece import WordPieces
from mednli_jax.errors import UserError
from mednli_jax.knowledge import related, sentences, wordlists
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.knowledge.readers.metamap import read_metamap
from mednli_jax.knowledge.readers.obo import read_obo
from mednli_jax.knowledge.readers.snomed import read_snomed
from mednli_jax.knowledge.readers.spans import read_spans
from mednli_jax.knowledge.readers.umls import read_umls
from mednli_jax.knowledge.readers.wordnet import read_wordnet
from mednli_jax.knowledge.store import stored
from mednli_jax.knowledge.vectors import load_vectors
from mednli_jax.knowledge.vectors_files import read_head
from mednli_jax.models import bert_import
from mednli_jax.text import SPECIALS, Vocab

SECONDS = float(os.environ.get("MEDNLI_JAX_FUZZ_SECONDS", "60"))
FIRST = int(os.environ.get("MEDNLI_JAX_FUZZ_FIRST", "0"))
LONGEST = 10.0  # seconds of a slow processor that an input may take
FEW = 20  # inputs of each parser in the fast part
CANARIES = re.compile(rf"\b({'|'.join((*WORDS, test_clicr.SECRET, 'chest'))})\b", re.IGNORECASE)
BY_ID = re.compile("E-DIS-00[89] .*")  # names pairs by their ids, which may be words
ALL = OntologyOptions(relations="all")


class Parser(NamedTuple):
    """files: path below a folder -> content, good. read: given the folder, reads them. keep: files left as they are."""

    name: str
    files: dict[str, bytes | str]
    read: Callable[[Path], object]
    keep: tuple[str, ...] = ()


# -- good files --------------------------------------------------------------------------------------------------------


def written(write):
    """The files that `write`, given an empty folder, leaves there."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def lines(*rows):
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


def queries():
    text = "an BEG__axolotl__END met @placeholder ."
    answers = [test_clicr.answer("Quokka"), test_clicr.answer("wombat bear", "UMLS")]
    made = [test_clicr.query(f"{name}.{n}", text, answers) for name in "ab" for n in range(2)]
    context = "The BEG__wombat bear__END saw a BEG__quokka__END .\nA narwhal (BEG__quokka__END) ."
    return test_clicr.corpus(*(test_clicr.article(f"r{n}", made[2 * n : 2 * n + 2], context=context) for n in (0, 1)))


CLICR = json.dumps(queries())


BIOMRC = {
    "abstracts": ["The @entity1 saw a @entity0. A narwhal (@entity0).", "An @entity2."],
    "titles": ["An @entity2 met XXXX.", "XXXX or not"],
    "entities_list": [
        ["@entity0 :: ('C1', 'test') :: ['quokka']", "@entity1 :: ('C2', 'test') :: ['wombat bear']", "@entity2"],
        ["@entity2 :: ('', '') :: ['axolotl']"],
    ],
    "answers": ["@entity0 :: ('C1', 'test') :: ['Quokka', 'wombat bear']", "@entity2"],
}


def annotations():
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([test_benchmark_files.MEDICAL, *test_benchmark_files.ROWS])
    return stream.getvalue()


def benchmark(folder):
    (folder / "m.csv").write_text(annotations())
    found = diskne_files.read_published([folder / "m.csv"], test_benchmark_files.PAIRS, test_benchmark_files.ontology())
    (folder / "m.csv").unlink()
    diskne_store.write_benchmark(found, (), folder / "made")


TINY = {"vocab_size": 6, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
BERT_CONFIG = json.dumps({**TINY, "max_position_embeddings": 5, "model_type": "bert", "layer_norm_eps": 1e-12})


def parameters():
    """Those of a BERT of TINY, zeros."""

    def layer(rows, columns):
        return {"kernel": np.zeros((rows, columns), np.float32), "bias": np.zeros(columns, np.float32)}

    norm = {"scale": np.zeros(4, np.float32), "bias": np.zeros(4, np.float32)}
    tables = {"words": np.zeros((6, 4), np.float32), "positions": np.zeros((5, 4), np.float32)}
    first = {"qkv": layer(4, 12), "attended": layer(4, 4), "norm_attended": norm, "inner": layer(4, 8)}
    first |= {"outer": layer(8, 4), "norm_outer": norm}
    tables |= {"texts": np.zeros((2, 4), np.float32), "norm": norm}
    return {"embeddings": tables, "layer_0": first, "pooler": layer(4, 4)}


def weights():
    found, params = {}, parameters()
    for place, names in bert_import._sources(params).items():
        leaf = params
        for name in place:
            leaf = leaf[name]
        for name in names:
            found[name] = np.ones(bert_import._due(name, leaf.shape, len(names)), np.float32)
    return save(found)


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "quokka", "##s"]
TOKENIZER = {"model": {"type": "WordPiece", "vocab": {piece: n for n, piece in enumerate(PIECES)}}}
TOKENIZER["normalizer"] = {"type": "BertNormalizer", "lowercase": True, "strip_accents": None}
QUOKKA = '\n[Term]\nid: HP:99\nname: quokka\nsynonym: "wombat bear" EXACT []\n'
FASTTEXT = test_vectors_binary.model(["quokka", "wombat"], np.ones((7, 3)), buckets=5, minn=3, maxn=3)
WORD2VEC = b"2 3\nquokka " + struct.pack("<3f", 1, 2, 3) + b"\nwombat " + struct.pack("<3f", 1, 2, 3) + b"\n"
MENTIONS = f"{test_spans.HEADER}\tscore\tnegated\np1\tpremise\t3\t5\tC1\t0.5\t\np2\thypothesis\t1\t2\tC2\t\t1\n"
SPAN = {"uid": "p1", "side": "premise", "start_char": 9, "end_char": 15, "concept": "C1", "score": 2, "negated": True}
SENTENCE = {"text": "No quokka .", "entities": [{"start": 1, "end": 2, "id": "D1", "type": "problem"}]}
REPORT = {"id": "r1", "title": "BEG__quokka fever__END", "specialty": "surgery", "sentences": [SENTENCE, "A wombat ."]}
REPORT["learning_points"] = ["An BEG__axolotl__END ."]
ARTICLES = {"articles": [{"title": "A quokka.", "abstractText": "One wombat. Two."}, {"title": "Narwhals"}]}
TRUTH = "pair_id,label\np0,neutral\np1,entailment\np2,contradiction\np3,neutral\n"
VECTORS = "2 3\nquokka 1 2.5 -3\nwombat 1 1 1\n"
ANSWERS = {"r0.0": "quokka", "r0.1": "a wombat"}


# -- parsers -----------------------------------------------------------------------------------------------------------


def vectors(name, content, **more):
    def read(folder):
        load_vectors(folder / name, (*SPECIALS, *WORDS, "Quokkas"), dim=3, seed=0)
        read_head(folder / name)

    return Parser(f"vectors {name}", {name: content, **more}, read)


def pairs(name, **more):
    return Parser(f"pairs {name}", {name: PLAIN[name], **more}, lambda folder: read_nli_file(folder / name, split="a"))


def terminology(name, files, read):
    return Parser(name, files, lambda folder: read(folder, ALL))


def one(name, file, content, read):
    return Parser(name, {file: content}, lambda folder: read(folder / file))


def piped(task):
    def read(folder):
        with open(folder / "stdin", "rb") as stream:
            predict.read_pairs(stream, task)

    first = "A BEG__quokka__END ." if task == "cloze" else "quokka"
    second = "an @placeholder ." if task == "cloze" else "wombat"
    names = ("passage", "query") if task == "cloze" else ("premise", "hypothesis")
    rows = (f"{first}\t{second}", dict(zip(names, (first, second), strict=True)))
    return Parser(f"stdin of {task}", {"stdin": lines(*rows)}, read)


def answers(name, content):
    class Query(NamedTuple):
        uid: str

    known = [Query(uid) for uid in ANSWERS]
    return one(f"answers {name}", name, content, lambda path: cloze_tables.read_answers(path, known))


def prepared(folder):
    return Cache(folder).get("c", test_cache.KEY, test_cache.Builder())


def anew():
    raise UserError("the stored ontology is not what was written. Fix: it is made anew.")


KEEP_SEALED = {"a": 1}
STATE = filtering.State(np.zeros(3, np.int32), np.zeros(3), ({"round": 1},), "")
PARSERS = (
    pairs("x.jsonl"),
    pairs("x.tsv"),
    pairs("x.csv"),
    Parser("pairs triples", {Path(name).name: text for name, text in TRIPLES.items() if name.endswith("train")},
           lambda folder: read_nli_file(folder / "s1.train", split="train")),
    Parser("pairs ground truth", {"x.jsonl": PLAIN["x.jsonl"], "t.csv": TRUTH},
           lambda folder: read_nli_file(folder / "x.jsonl", split="test", ground_truth=folder / "t.csv")),
    piped("nli"),
    piped("cloze"),
    one("clicr", "dev1.0.json", CLICR, read_clicr),
    one("clicr, stray marks", "dev1.0.json", CLICR, lambda path: read_clicr(path, stray_marks="ignore")),
    one("biomrc", "b.json", json.dumps(BIOMRC), lambda path: read_biomrc(path, "dev")),
    one("case reports", "r.jsonl", lines(REPORT), read_reports),
    answers("a.jsonl", lines(*({"uid": uid, "answer": text} for uid, text in ANSWERS.items()))),
    answers("a.json", json.dumps(ANSWERS)),
    one("annotations of diseases", "m.csv", annotations(),
        lambda path: diskne_files.read_published([path], test_benchmark_files.PAIRS, test_benchmark_files.ontology())),
    Parser("benchmark", written(benchmark), lambda folder: diskne_store.read_benchmark(folder / "made")),
    one("mentions m.tsv", "m.tsv", MENTIONS, lambda path: read_spans(path, test_spans.EXAMPLES)),
    one("mentions m.jsonl", "m.jsonl", lines(SPAN, SPAN), lambda path: read_spans(path, test_spans.EXAMPLES)),
    one("metamap", "m.mmi", lines(test_metamap.line(), test_metamap.line(score="3")),
        lambda path: read_metamap(path, test_metamap.EXAMPLES)),
    terminology("umls", FOLDERS["rrf"] | {"rrf/MRFILES.RRF": test_umls.mrfiles()},
                lambda folder, how: read_umls(folder / "rrf", how)),
    terminology("snomed", FOLDERS["rf2"], lambda folder, how: read_snomed(folder / "rf2", how)),
    terminology("wordnet", test_wordnet.FILES, read_wordnet),
    terminology("obo", {"x.obo": test_obo.HEADER + test_obo.STANZAS + QUOKKA},
                lambda folder, how: read_obo(folder / "x.obo", how)),
    one("mesh", "mesh.tsv", PLAIN["mesh.tsv"], lambda path: read_mesh(path, aliases=False)),
    one("mesh gzipped", "mesh.tsv.gz", gzip.compress(PLAIN["mesh.tsv"]), lambda path: read_mesh(path, aliases=False)),
    vectors("v.txt", VECTORS),
    vectors("v.bin", WORD2VEC),
    vectors("f.bin", FASTTEXT),
    vectors("v.npy", array(np.ones((2, 3), np.float32)), **{"v.vocab.txt": "quokka\nwombat\n"}),
    vectors("types.txt", "quokka\nwombat\n", **{"vectors.txt": "1 2 3\n4 5 6\n"}),
    one("concept vectors", "v.csv", '"","V1","V2"\n"C1",1,2\n"C2",3,4.5\n',
        lambda path: diskne_negatives.read_vectors(path, ("C1", "C2"))),
    one("concept vectors as words", "v.txt", "C1 1 2\nC2 3 4.5\n",
        lambda path: diskne_negatives.read_vectors(path, ("C1", "C2"))),
    one("articles", "a.json", json.dumps(ARTICLES), lambda path: list(sentences.sentences(path))),
    one("running text", "a.txt", "One quokka. Two wombats.\nA narwhal.\n",
        lambda path: list(sentences.sentences(path))),
    one("lexicon", "l.txt", "quokka wombat\nnarwhal quokka axolotl\n", related.read_lexicon),
    one("stop words", "s.txt", "# no\nquokka\nwombat bears\n", wordlists.read_stop_words),
    one("abbreviations", "a.tsv", "short\texpansion\nQ\tquokka\nW\twombat\n", wordlists.read_abbreviations),
    one("categories", "c.tsv", "uid\tcategory\nu0\tnegation\nu1\tnumbers\n", categories.read_annotations),
    one("skills", "k.tsv", "uid\tskill\nu0\tnone\nu1\tnone\n", cloze_skills.read_skills),
    one("scores", "s.jsonl", lines({"uid": "u0", "f1": 0.5}, {"uid": "u1", "f1": 1}), cloze_skills.read_scores),
    one("partition p.txt", "p.txt", "quokka\nwombat\naxolotl\n", read_partition),
    one("partition p.npy", "p.npy", array(np.array(["quokka", "wombat"])), read_partition),
    one("partition of bytes", "p.npy", array(np.array([b"quokka", b"wombat"])), read_partition),
    Parser("pretrained weights", {"model.safetensors": weights(), "config.json": BERT_CONFIG},
           lambda folder: bert_import.load_weights(folder, parameters()), keep=("config.json",)),
    Parser("settings of weights", {"model.safetensors": weights(), "config.json": BERT_CONFIG},
           bert_import.read_architecture, keep=("model.safetensors",)),
    one("pieces vocab.txt", "vocab.txt", "\n".join(PIECES) + "\n", WordPieces.load),
    Parser("pieces tokenizer.json", {"tokenizer.json": json.dumps(TOKENIZER),
           "tokenizer_config.json": '{"do_lower_case": true}'}, WordPieces.load),
    one("pieces of a run", "p.json", json.dumps({"lowercase": True, "strip_accents": True, "pieces": PIECES}),
        WordPieces.restore),
    one("vocabulary", "v.json", json.dumps([*SPECIALS, "quokka"]), Vocab.load),
    one("notes", "notes.csv", PLAIN["notes.csv"], lambda path: list(PastMedicalHistory(path))),
    Parser("run", {name.removeprefix("a/"): content for name, content in RUNS.items() if name.startswith("a/")},
           lambda folder: (outcomes.finished(folder), outcomes.read_metrics(outcomes.RunDirectory.existing(folder)))),
    Parser("filtering", written(lambda folder: filtering.save(folder, KEEP_SEALED, STATE)),
           lambda folder: filtering.load(folder, KEEP_SEALED, 3)),
    Parser("stored ontology", written(lambda folder: stored(folder / "o", test_store.KEY, test_store.rich)),
           lambda folder: stored(folder / "o", test_store.KEY, anew)),
    Parser("prepared corpus", written(prepared), prepared),
)  # fmt: skip
GZIPPED = ("pairs x.jsonl", "clicr", "obo", "vectors v.txt", "vectors f.bin", "articles", "answers a.json", "metamap")

# -- accidents ---------------------------------------------------------------------------------------------------------

NASTY = (
    *("\0", "\ufeff", "\r", "\n", "\t", ",", '"', "'", "{", "}", "[", "]", "|", ":", "\\", "\\ud800", "\u2028", "%s"),
    *("NaN", "-Infinity", "1e999", "-1", "0", "1.5", "true", "null", "[]", "{}", '""', "9" * 5000, "9" * 400, "٣"),
    *("9223372036854775807", "-9223372036854775809", "4294967296", "../../x", "/etc/passwd", "@placeholder", "XXXX"),
    *("BEG__", "__END", "@entity0", " :: ", "[" * 5000, "{[]: 1}", "\ud800", "\x1c", "\x85", "quokka " * 300),
    *("\n\n\n", "21 ", "is_a: ", "[Term]\n", "-" * 3000, "C0000001", "\U0001f600", "PK\3\4"),
)  # fmt: skip
NASTY = (*(token.encode("utf-8", "surrogatepass") for token in NASTY), b"\xff", b"\x1f\x8b")
NUMBERS = (0, 1, -1, 127, 255, 1 << 15, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 40)


def accident(content: bytes, other: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    end = min(len(content), start + rng.choice((1, 1, 2, 4, 8, 40, 400)))
    match rng.randrange(12):
        case 0 if content:
            place = rng.randrange(len(content))
            return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]
        case 1:
            return content[:start] + bytes([rng.randrange(256)]) + content[end:]
        case 2:
            return content[:start] + content[end:]
        case 3:
            return content[:end] + content[start:]
        case 4:
            return content[:start]
        case 5:
            rows = content.splitlines(keepends=True)
            rng.shuffle(rows)
            return b"".join(rows)
        case 6:
            place = rng.randrange(len(other) + 1)
            return content[:start] + other[place : place + rng.choice((1, 8, 40, 400))] + content[end:]
        case 7:
            packed = struct.pack(rng.choice("<>") + "q", rng.choice(NUMBERS))[: rng.choice((1, 2, 4, 8))]
            return content[:start] + packed + content[start + len(packed) :]
        case 8:
            return content[:start] + content[start:end] * rng.choice((2, 50)) + content[end:]
        case 9:
            return _token_replaced(content, rng)
        case 10:
            return rng.choice((b"", NASTY[rng.randrange(len(NASTY))], b"[" * 100_000, b'{"a":' * 50_000))
        case _:
            return content[:start] + rng.choice(NASTY) + content[rng.choice((start, end)) :]


def _token_replaced(content, rng):
    """One word or number of the text is another one."""
    places = [n for n, byte in enumerate(content) if not (chr(byte).isalnum() or byte in b"._-+")]
    start = rng.choice(places) + 1 if places else 0
    end = next((place for place in places if place >= start), len(content))
    return content[:start] + rng.choice(NASTY) + content[end:]


def damaged(parser: Parser, number: int) -> tuple[str, bytes]:
    """(file, content) of a parser's input of this number."""
    rng = random.Random(f"{parser.name} {number}")
    name = rng.choice(sorted(parser.files.keys() - set(parser.keep)))
    content = as_bytes(parser.files[name])
    other = as_bytes(rng.choice(list(rng.choice(PARSERS).files.values())))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        content = accident(content, other, rng)
    return name, content


def as_bytes(content):
    return content if isinstance(content, bytes) else content.encode()


# -- the tests ---------------------------------------------------------------------------------------------------------


def lay_out(parser, folder):
    for name, content in parser.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(as_bytes(content))


def told(parser, folder):
    """What reading says, in an error or on stderr. Raises whatever else comes out."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            parser.read(folder)
        except UserError as fault:
            said.write(f"{fault}\n")
            if any("Fix: " not in line and not line.startswith("... and ") for line in str(fault).splitlines()):
                raise AssertionError("a fault without a way out") from fault
    return said.getvalue()


def feed(parser, folder, numbers):
    """Reads the inputs of these numbers; returns (how many they were, how many were refused or told of)."""
    lay_out(parser, folder)
    assert "Fix: " not in told(parser, folder), "the good files are refused"
    fed = refused = 0
    for number in numbers:
        name, content = damaged(parser, number)
        (folder / name).write_bytes(content)
        begun = time.process_time()
        try:
            text = told(parser, folder)
            assert not CANARIES.search(BY_ID.sub("", text)), text[:400]
            assert time.process_time() - begun < LONGEST, "too slow"
        except BaseException as error:
            error.add_note(f"parser '{parser.name}', MEDNLI_JAX_FUZZ_FIRST={number}, {name} of {len(content)} bytes")
            raise
        (folder / name).write_bytes(as_bytes(parser.files[name]))
        fed, refused = fed + 1, refused + bool(text)
    return fed, refused


def for_seconds(seconds):
    """Numbers of inputs, until the time is over."""
    until = time.monotonic() + seconds
    return takewhile(lambda _: time.monotonic() < until, count(FIRST))


def by_name(parsers):
    return pytest.mark.parametrize("parser", parsers, ids=lambda parser: parser.name)


@by_name(PARSERS)
def test_a_few_accidents_are_told_or_harmless(parser, tmp_path):
    feed(parser, tmp_path, range(FEW))


@pytest.mark.slow
@by_name(PARSERS)
def test_accidents_are_told_or_harmless(parser, tmp_path):
    fed, refused = feed(parser, tmp_path, for_seconds(SECONDS))
    print(f"{parser.name}: {fed} inputs, {refused} told of")
    assert refused or fed < FEW


@pytest.mark.slow
@by_name([parser for parser in PARSERS if parser.name in GZIPPED])
def test_accidents_in_gzipped_files_are_told_or_harmless(parser, tmp_path):
    name = next(iter(parser.files))
    twin = parser._replace(files=parser.files | {name: gzip.compress(as_bytes(parser.files[name]), mtime=0)})
    feed(twin, tmp_path, for_seconds(SECONDS / 4))
