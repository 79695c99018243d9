"""Every reader of files, with good files for it, for the tests of damaged, mutated and hostile input."""

import csv
import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import made_up_runs
import numpy as np
import test_benchmark_files
import test_clicr
import test_metamap
import test_obo
import test_snomed
import test_spans
import test_umls
import test_vectors_binary
import test_wordnet
from made_up_files import (
    HYPOTHESIS,
    KEY,
    PREMISE,
    WORDS,
    Builder,
    array,
    cells,
    lines,
    pairs,
    rich,
    table,
    written,
    zipped,
)
from safetensors.numpy import save

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
from mednli_jax.examples import Answer, ClozeExample, Entity, Passage
from mednli_jax.knowledge import related, sentences, wordlists
from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers import mesh
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

ALL = OntologyOptions(relations="all")
TEXT, WHOLE, BINARY, KEPT, STREAM = "lines of text", "one JSON text", "bytes", "kept by the package", "stdin"


@dataclass(frozen=True)
class Reader:
    """read(path) reads `main`, a file or folder within the folder that holds `files` {path: content}; "" is that
    folder.

    kind: what the files are. gzip: whether they may be gzipped; if it is an ending, that ending marks gzipped files.
    good: files that no test damages.
    """

    name: str
    files: dict[str, bytes | str]
    read: Callable[[Path], object]
    main: str = ""
    kind: str = TEXT
    gzip: bool | str = True
    good: tuple[str, ...] = ()

    def __call__(self, folder):
        return self.read(folder / self.main)


def gzipped(reader):
    """The reader with its files gzipped."""
    ending = reader.gzip if isinstance(reader.gzip, str) else ""
    files = {name + ending: zipped(content) for name, content in reader.files.items()}
    return replace(reader, files=files, main=reader.main and reader.main + ending)


def of_file(name, file, content, read, *, more=None, **how):
    """A reader of one file, which gets its path; `more` files may lie beside it."""
    return Reader(name, {file: content, **(more or {})}, read, file, **how)


# ---- pairs and queries ----

GOOD_PAIRS = pairs(0) + pairs(1) + pairs(2) + pairs(3)
TSV = table("\t", *map(cells, range(4)))
CSV = table(",", *(cells(n, premise='"quokka, ""wombat"""') for n in range(4)))
NOTES = "ROW_ID,CATEGORY,ISERROR,TEXT\n"
NOTES += "".join(f'{n},Report,,"Past Medical History:\nquokka, ""wombat"""\n' for n in range(4))
TRIPLE = {"s1.train": f"{PREMISE}\n" * 3, "s2.train": f"{HYPOTHESIS}\n" * 3, "labels.train": "neutral\n" * 3}
TRUTH = "pair_id,label\np0,neutral\np1,entailment\np2,contradiction\np3,neutral\n"


def read_pairs(path):
    return read_nli_file(path, split="train")


def stdin_of(task):
    def read(path):
        with open(path, "rb") as stream:
            list(predict.read_chunks(stream, task))

    first, second = ("A BEG__quokka__END .", "an @placeholder .") if task == "cloze" else ("quokka", "wombat")
    names = ("passage", "query") if task == "cloze" else ("premise", "hypothesis")
    good = lines(f"{first}\t{second}", dict(zip(names, (first, second), strict=True)))
    return of_file(f"stdin of {task}", "stdin", good, read, kind=STREAM, gzip=False)


def articles_of_clicr():
    text, context = "an BEG__axolotl__END met @placeholder .", "The BEG__wombat bear__END saw a BEG__quokka__END .\n"
    answers = [test_clicr.answer("Quokka"), test_clicr.answer("wombat bear", "UMLS")]
    made = [test_clicr.query(f"{name}.{n}", text, answers) for name in "ab" for n in range(2)]
    context += "A narwhal (BEG__quokka__END) ."
    found = (test_clicr.article(f"r{n}", made[2 * n : 2 * n + 2], context=context) for n in (0, 1))
    return json.dumps(test_clicr.corpus(*found))


CLICR = articles_of_clicr()
BIOMRC = {
    "abstracts": ["The @entity1 saw a @entity0. A narwhal (@entity0).", "An @entity2."],
    "titles": ["An @entity2 met XXXX.", "XXXX or not"],
    "entities_list": [
        ["@entity0 :: ('C1', 'test') :: ['quokka']", "@entity1 :: ('C2', 'test') :: ['wombat bear']", "@entity2"],
        ["@entity2 :: ('', '') :: ['axolotl']"],
    ],
    "answers": ["@entity0 :: ('C1', 'test') :: ['Quokka', 'wombat bear']", "@entity2"],
}
SENTENCE = {"text": "No quokka .", "entities": [{"start": 1, "end": 2, "id": "D1", "type": "problem"}]}
REPORT = {"id": "r1", "title": "BEG__quokka fever__END", "specialty": "surgery", "sentences": [SENTENCE, "A wombat ."]}
REPORT["learning_points"] = ["An BEG__axolotl__END ."]
ANSWERS = {"r0.0": "quokka", "r0.1": "a wombat"}


def query(uid):
    passage = Passage("r", (), ("quokka",), (Entity(0, 1),), (1,))
    return ClozeExample(uid, passage, ("@placeholder",), (), 0, (Answer("quokka"),))


def read_answers(path):
    return cloze_tables.read_answers(path, [query(uid) for uid in ANSWERS])


def annotations():
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([test_benchmark_files.MEDICAL, *test_benchmark_files.ROWS])
    return stream.getvalue()


def read_annotations(path):
    return diskne_files.read_published([path], test_benchmark_files.PAIRS, test_benchmark_files.ontology())


def benchmark(folder):
    (folder / "m.csv").write_text(annotations())
    diskne_store.write_benchmark(read_annotations(folder / "m.csv"), (), folder / "made")
    (folder / "m.csv").unlink()


CORPORA = (
    of_file("pairs x.jsonl", "x.jsonl", GOOD_PAIRS, read_pairs),
    of_file("pairs x.tsv", "x.tsv", TSV, read_pairs),
    of_file("pairs x.csv", "x.csv", CSV, read_pairs),
    Reader("pairs triples", TRIPLE, read_pairs, "s1.train"),
    Reader("pairs ground truth", {"x.jsonl": GOOD_PAIRS, "t.csv": TRUTH},
           lambda path: read_nli_file(path, split="test", ground_truth=path.parent / "t.csv"), "x.jsonl"),
    stdin_of("nli"),
    stdin_of("cloze"),
    of_file("clicr", "dev1.0.json", CLICR, read_clicr, kind=WHOLE),
    of_file("clicr, stray marks", "dev1.0.json", CLICR, lambda path: read_clicr(path, stray_marks="ignore"),
            kind=WHOLE),
    of_file("biomrc", "b.json", json.dumps(BIOMRC), lambda path: read_biomrc(path, "dev"), kind=WHOLE),
    of_file("case reports", "r.jsonl", lines(REPORT), read_reports),
    of_file("answers a.jsonl", "a.jsonl", lines(*({"uid": uid, "answer": text} for uid, text in ANSWERS.items())),
            read_answers),
    of_file("answers a.json", "a.json", json.dumps(ANSWERS), read_answers, kind=WHOLE),
    of_file("annotations of diseases", "m.csv", annotations(), read_annotations),
    Reader("benchmark", written(benchmark), diskne_store.read_benchmark, "made", KEPT, False),
    of_file("notes", "notes.csv", NOTES, lambda path: list(PastMedicalHistory(path))),
)  # fmt: skip

# ---- knowledge ----

RF2 = "Snapshot/Terminology/"
RF2_ROWS = {"Concept": test_snomed.CONCEPTS, "Description": test_snomed.TERMS, "Relationship": test_snomed.EDGES}
RRF = {"MRCONSO.RRF": test_umls.CONSO, "MRSTY.RRF": test_umls.STY, "MRREL.RRF": test_umls.REL}
SNOMED = {RF2 + test_snomed.NAMES[kind]: test_snomed.table(kind, *rows) for kind, rows in RF2_ROWS.items()}
MESH = "\t".join(mesh.HEADER) + "\n"
MESH += "".join(f"D{n}\tquokka{n}\tC01.10{n}|C0{n}\twombat|narwhal\n" for n in range(5))
QUOKKA = '\n[Term]\nid: HP:99\nname: quokka\nsynonym: "wombat bear" EXACT []\n'
MENTIONS = f"{test_spans.HEADER}\tscore\tnegated\np1\tpremise\t3\t5\tC1\t0.5\t\np2\thypothesis\t1\t2\tC2\t\t1\n"
SPAN = {"uid": "p1", "side": "premise", "start_char": 9, "end_char": 15, "concept": "C1", "score": 2, "negated": True}
MMI = lines(test_metamap.line(), test_metamap.line(score="3"))
FASTTEXT = test_vectors_binary.model(["quokka", "wombat"], np.ones((7, 3)), buckets=5, minn=3, maxn=3)
WORD2VEC = b"2 3\nquokka " + struct.pack("<3f", 1, 2, 3) + b"\nwombat " + struct.pack("<3f", 1, 2, 3) + b"\n"
ARTICLES = {"articles": [{"title": "A quokka.", "abstractText": "One wombat. Two."}, {"title": "Narwhals"}]}
VOCABULARY = {"v.vocab.txt": "quokka\nwombat\n"}


def terminology(name, files, read, main="", **how):
    return Reader(name, files, lambda path: read(path, ALL), main, **how)


def vectors(name, content, **how):
    def read(path):
        load_vectors(path, (*SPECIALS, *WORDS, "Quokkas"), dim=3, seed=0)
        read_head(path)

    return of_file(f"vectors {name}", name, content, read, **how)


def read_concept_vectors(path):
    return diskne_negatives.read_vectors(path, ("C1", "C2"))


def read_sentences(path):
    return list(sentences.sentences(path))


KNOWLEDGE = (
    of_file("mentions m.tsv", "m.tsv", MENTIONS, lambda path: read_spans(path, test_spans.EXAMPLES)),
    of_file("mentions m.jsonl", "m.jsonl", lines(SPAN, SPAN), lambda path: read_spans(path, test_spans.EXAMPLES)),
    of_file("metamap", "m.mmi", MMI, lambda path: read_metamap(path, test_metamap.EXAMPLES)),
    terminology("umls", RRF | {"MRFILES.RRF": test_umls.mrfiles()}, read_umls, gzip=".gz"),
    terminology("snomed", SNOMED, read_snomed, gzip=".gz"),
    terminology("wordnet", test_wordnet.FILES, read_wordnet),
    terminology("obo", {"x.obo": test_obo.HEADER + test_obo.STANZAS + QUOKKA}, read_obo, "x.obo"),
    of_file("mesh", "mesh.tsv", MESH, lambda path: mesh.read_mesh(path, aliases=False), gzip=".gz"),
    vectors("v.txt", "2 3\nquokka 1 2.5 -3\nwombat 1 1 1\n"),
    vectors("v.bin", WORD2VEC, kind=BINARY),
    vectors("f.bin", FASTTEXT, kind=BINARY, gzip=False),
    vectors("v.npy", array(np.ones((2, 3), np.float32)), more=VOCABULARY, kind=BINARY, gzip=False),
    vectors("types.txt", "quokka\nwombat\n", more={"vectors.txt": "1 2 3\n4 5 6\n"}),
    of_file("concept vectors", "v.csv", '"","V1","V2"\n"C1",1,2\n"C2",3,4.5\n', read_concept_vectors),
    of_file("concept vectors as words", "v.txt", "C1 1 2\nC2 3 4.5\n", read_concept_vectors),
    of_file("articles", "a.json", json.dumps(ARTICLES), read_sentences, kind=WHOLE),
    of_file("running text", "a.txt", "One quokka. Two wombats.\nA narwhal.\n", read_sentences),
    of_file("lexicon", "l.txt", "quokka wombat\nnarwhal quokka axolotl\n", related.read_lexicon),
    of_file("stop words", "s.txt", "# no\nquokka\nwombat bears\n", wordlists.read_stop_words),
    of_file("abbreviations", "a.tsv", "short\texpansion\nQ\tquokka\nW\twombat\n", wordlists.read_abbreviations),
)

# ---- models ----

TINY = {"vocab_size": 6, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
BERT_CONFIG = json.dumps({**TINY, "max_position_embeddings": 5, "model_type": "bert", "layer_norm_eps": 1e-12})
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "quokka", "##s"]
TOKENIZER = {"model": {"type": "WordPiece", "vocab": {piece: n for n, piece in enumerate(PIECES)}}}
TOKENIZER["normalizer"] = {"type": "BertNormalizer", "lowercase": True, "strip_accents": None}


def parameters():
    """The parameters of a BERT with the sizes TINY, all zero."""

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


BERT = {"model.safetensors": weights(), "config.json": BERT_CONFIG}
MODELS = (
    Reader("pretrained weights", BERT, lambda path: bert_import.load_weights(path, parameters()), kind=BINARY,
           gzip=False, good=("config.json",)),
    Reader("settings of weights", BERT, bert_import.read_architecture, kind=WHOLE, gzip=False,
           good=("model.safetensors",)),
    of_file("pieces vocab.txt", "vocab.txt", "\n".join(PIECES) + "\n", WordPieces.load, kind=WHOLE, gzip=False),
    Reader("pieces tokenizer.json", {"tokenizer.json": json.dumps(TOKENIZER),
           "tokenizer_config.json": '{"do_lower_case": true}'}, WordPieces.load, kind=WHOLE, gzip=False),
    of_file("pieces of a run", "p.json", json.dumps({"lowercase": True, "strip_accents": True, "pieces": PIECES}),
            WordPieces.restore, kind=WHOLE, gzip=False),
    of_file("vocabulary", "v.json", json.dumps([*SPECIALS, "quokka"]), Vocab.load, kind=WHOLE, gzip=False),
)  # fmt: skip

# ---- analysis, and what the package keeps ----


def run_files(name, *seeds, **how):
    """The files of a finished run, as made_up_runs writes them."""
    return written(lambda folder: made_up_runs.write_run(folder / name, *seeds, **how))


def read_run(path):
    return outcomes.finished(path), outcomes.read_metrics(outcomes.RunDirectory.existing(path))


def read_stored_ontology(path):
    def anew():
        raise UserError("the stored ontology is not what was written. Fix: it is made anew.")

    return stored(path, KEY, anew)


def prepared(path):
    return Cache(path).get("c", KEY, Builder())


KEEP_SEALED = {"a": 1}
STATE = filtering.State(np.zeros(3, np.int32), np.zeros(3), ({"round": 1},), "")
RUN = {name.removeprefix("a/"): content for name, content in run_files("a", made_up_runs.GOLD).items()}
OTHERS = (
    of_file("categories", "c.tsv", "uid\tcategory\nu0\tnegation\nu1\tnumbers\n", categories.read_annotations),
    of_file("skills", "k.tsv", "uid\tskill\nu0\tnone\nu1\tnone\n", cloze_skills.read_skills),
    of_file("scores", "s.jsonl", lines({"uid": "u0", "f1": 0.5}, {"uid": "u1", "f1": 1}), cloze_skills.read_scores),
    of_file("partition p.txt", "p.txt", "quokka\nwombat\naxolotl\n", read_partition),
    of_file("partition p.npy", "p.npy", array(np.array(["quokka", "wombat"])), read_partition, kind=BINARY, gzip=False),
    of_file("partition of bytes", "p.npy", array(np.array([b"quokka", b"wombat"])), read_partition, kind=BINARY,
            gzip=False),
    Reader("run", RUN, read_run, kind=KEPT, gzip=False),
    Reader("filtering", written(lambda folder: filtering.save(folder, KEEP_SEALED, STATE)),
           lambda path: filtering.load(path, KEEP_SEALED, 3), kind=KEPT, gzip=False),
    Reader("stored ontology", written(lambda folder: stored(folder / "o", KEY, rich)), read_stored_ontology, "o",
           KEPT, False),
    Reader("prepared corpus", written(prepared), prepared, kind=KEPT, gzip=False),
)  # fmt: skip

READERS = (*CORPORA, *KNOWLEDGE, *MODELS, *OTHERS)
BY_NAME = {reader.name: reader for reader in READERS}
