"""Every kind of stored content has a FORMAT number, which must rise when equal files and settings
give other content.

The table golden/prepared_content.json holds, for each module that makes stored content, its FORMAT
and a hash of its content for a tiny corpus. `MEDNLI_JAX_RECORD=1 pytest -n 0
tests/data/test_prepared_content.py -k recorded` records the present ones.
"""

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import issparse
from support import features
from support.cloze import write_clicr
from support.diskne import PAIRS as DISKNE_PAIRS
from support.diskne import seven_diseases, write_annotations
from support.files import lay_out, write
from support.mention_files import HEADER
from support.ontology_files import OBO, UMLS, WORDNET, snomed_folder
from support.pairs import encode_corpus
from support.vector_files import word2vec

from mednli_jax.cli import read_config
from mednli_jax.cloze.arrays import ClozeEncoding, encode_cloze
from mednli_jax.cloze.clicr import load_demo_cloze
from mednli_jax.cloze.corpus import ClozeCorpus
from mednli_jax.cloze.setups import SETUPS
from mednli_jax.data.cache import Cache
from mednli_jax.data.examples import Split
from mednli_jax.data.labels import Labels
from mednli_jax.data.text import SPECIALS
from mednli_jax.data.vectors import load_vectors
from mednli_jax.diskne.corpus import load_demo_diskne, write_benchmark
from mednli_jax.diskne.folds import folds
from mednli_jax.experiment import experiment_of
from mednli_jax.knowledge import load
from mednli_jax.knowledge.readers import mesh
from mednli_jax.nli.encode.texts import PieceEncoding, PieceTexts
from mednli_jax.nli.read.readers import load_demo
from mednli_jax.nli.task import corpus_of

TABLE = Path(__file__).parents[1] / "golden" / "prepared_content.json"


# -- digests --


def plain(value):
    """JSON that is equal on every platform: floats are rounded, arrays and examples are hashed."""
    if isinstance(value, np.ndarray):
        return plain_array(value)
    if issparse(value):
        return plain_array(np.argwhere(value.todense()))
    if isinstance(value, Split):
        examples = hashlib.sha256(ascii(value.examples).encode()).hexdigest()
        return [value.name, examples, plain(value.facts)]
    if isinstance(value, Mapping):
        return sorted([str(name), plain(part)] for name, part in value.items())
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    if hasattr(value, "words"):
        return ascii(value.words)
    return round(float(value), 5) if isinstance(value, float) else value


def plain_array(array):
    digits = array
    if array.dtype.kind == "f":
        digits = np.round(array.astype(np.float64), 4) + 0.0  # adding 0 removes negative zeros
    content = np.ascontiguousarray(digits, digits.dtype.newbyteorder("<")).tobytes()
    dtype = array.dtype.newbyteorder("<").str
    return [dtype, list(array.shape), hashlib.sha256(content).hexdigest()]


def digest(value):
    return hashlib.sha256(json.dumps(plain(value)).encode()).hexdigest()


# -- tiny corpora in files --

PAIRS = (
    ("t0", "Known Asthma and heart failure .", "She has a heart disease .", "entailment"),
    ("t1", "Known Asthma and heart failure .", "No wheezing", "contradiction"),
    ("t2", "Systolic heart failure , hx of HTN", "Asthma in the family", "neutral"),
    ("t3", "naïve patient", "Left early", "-"),
)
ONTOLOGY = """format-version: 1.2
ontology: tiny

[Term]
id: X:1
name: heart disease

[Term]
id: X:2
name: heart failure
synonym: "HTN" EXACT []
is_a: X:1

[Term]
id: X:3
name: systolic heart failure
is_a: X:2

[Term]
id: X:4
name: asthma
synonym: "wheezing" EXACT []
"""
COLUMNS = (
    "pairID",
    "gold_label",
    "sentence1",
    "sentence2",
    "sentence1_binary_parse",
    "sentence2_binary_parse",
)


def named(split, pairs=PAIRS):
    """The pairs with uids of their own, because no pair may be in two splits."""
    return [(f"{split}-{uid}", f"{premise} {split}", *rest) for uid, premise, *rest in pairs]


def parse(text):
    """A binary parse that branches to the left; it gives the tokens, so that no tokeniser runs."""
    first, *rest = text.split()
    return "( " * len(rest) + " ".join([first, *(f"{word} )" for word in rest)])


def rows_of(pairs):
    rows = []
    for uid, premise, hypothesis, label in pairs:
        rows.append((uid, label, premise, hypothesis, parse(premise), parse(hypothesis)))
    return rows


def write_jsonl(path, pairs=PAIRS):
    lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows_of(pairs)]
    write(path, "\n".join([*lines, ""]))


def write_table(path, pairs, separator="\t", quote=""):
    lines = [separator.join(COLUMNS)]
    for row in rows_of(pairs):
        lines.append(separator.join(f"{quote}{cell}{quote}" for cell in row))
    write(path, "\n".join([*lines, ""]))


def changed(config, **fields):
    """A copy of the config with these values, e.g. vectors__dim=4."""
    config = config.copy_and_resolve_references()
    for field, value in fields.items():
        section, _, name = field.partition("__")
        config[section][name] = value
    return config


def small_config(config, folder, **fields):
    config.data.dir, config.vectors.dim, config.vectors.path = str(folder), 4, None
    return changed(config, **fields)


def nli(corpus, folder, base="replace", **fields):
    config = read_config(f"esim:{corpus}")
    config.model.knowledge = base
    return small_config(config, folder, **fields)


def diskne(corpus, folder, **fields):
    return small_config(read_config(f"diskne_bow:{corpus}"), folder, **fields)


def own_files(folder):
    """A config for a user's own corpus in three kinds of files, with an ontology and vectors."""
    write_jsonl(folder / "train.jsonl")
    write_table(folder / "dev.tsv", named("dev", PAIRS[1:3]))
    write_table(folder / "test.csv", named("test", PAIRS[:2]), ",", '"')
    ontology = write(folder / "tiny.obo", ONTOLOGY)
    write(folder / "lexicon.txt", "asthma wheezing\nheart disease failure\n")
    vectors = ""
    for n, word in enumerate(["asthma", "heart", "failure", "disease", "wheezing", "No"]):
        vectors += f"{word} {n} {n * n} 0.5 -1\n"
    write(folder / "vectors.txt", vectors)
    return nli("file", folder, knowledge__ontology=str(ontology), knowledge__types=("",))


def write_mediqa_nli(folder, pairs):
    release = folder / "mediqa_nli" / "mednli_bionlp19_shared_task"
    write_jsonl(release.with_suffix(".jsonl"), [(*pair[:3], "-") for pair in pairs])
    labels = "".join(f"{uid},{label}\n" for uid, _, _, label in pairs)
    write(Path(f"{release}_ground_truth.csv"), f"pair_id,label\n{labels}")


def published_diskne(folder):
    """A config for MedNLI with DisKnE's annotations; one annotated pair occurs only in the test
    split of MEDIQA-NLI."""
    pairs = [(pair.uid, pair.premise, pair.hypothesis, pair.label) for pair in DISKNE_PAIRS]
    write_jsonl(folder / "mednli" / "mli_train_v1.jsonl", pairs[:5])
    write_jsonl(folder / "mednli" / "mli_dev_v1.jsonl", pairs[5:6])
    write_jsonl(folder / "mednli" / "mli_test_v1.jsonl", pairs[7:])
    write_mediqa_nli(folder, pairs[6:7])
    (folder / "diskne").mkdir()
    write_annotations(folder / "diskne" / "m.csv")
    return diskne("mednli", folder, diskne__ontology="none")


# -- content --


def built(config, *settings):
    """The content of the corpus of a config, with each of these settings."""
    return [corpus_of(changed(config, **fields)).build() for fields in settings]


def content_of_words(folder):
    config = own_files(folder)
    spans, lines = f"{HEADER}\n", ""
    trigger = '["asthma"-tx-1-"asthma"-noun-0]'
    for split, uid in (("train", "t0"), ("dev", "dev-t1"), ("test", "test-t0")):
        spans += f"{split}\t{uid}\tpremise\t6\t12\tX:4\n"
        lines += f"{uid}-p|MMI|3|Name|X:4|[x]|{trigger}|TX|6/6|\n"
    table = str(write(folder / "found.tsv", f"{spans}train\tt0\thypothesis\t10\t23\tX:1\n"))
    metamap = str(write(folder / "found.mmi", lines))
    contents = built(
        config,
        {"vectors__path": str(folder / "vectors.txt"), "vectors__retrofit": "ontology"},
        {"vectors__retrofit": str(folder / "lexicon.txt"), "data__max_length": 4},
        {"knowledge__direction": "undirected", "knowledge__max_links": 1},
        {"knowledge__types": (), "knowledge__mentions": table, "data__lowercase": False},
        {"knowledge__types": (), "knowledge__mentions": metamap},
        {"data__hypothesis_only": True, "knowledge__permute_seed": 1},
    )
    data = folder / "data"
    for split in ("train", "dev", "test"):
        write_jsonl(data / "mednli" / f"mli_{split}_v1.jsonl", named(split))
        write_table(data / "snli" / f"snli_1.0_{split}.txt", named(split))
    write_mediqa_nli(data, named("test", PAIRS[:2]))
    for corpus in ("mediqa_nli", "snli"):
        contents += built(nli(corpus, data, "none"), {})
    return contents, vectors_of_each_kind(folder)


def vectors_of_each_kind(folder):
    """The vectors of a text file and of a binary file of word2vec."""
    files = {
        "v.txt": "fever 1 2 3\ncough -1 0 0.25\n",
        "w.bin": word2vec(),
    }
    contents = []
    for name, content in files.items():
        words = (*SPECIALS, "Fever", "coughing", "absent")
        vectors = load_vectors(write(folder / name, content), words, dim=3, seed=0)
        contents += [vectors.words, vectors.matrix]
    return contents


def content_of_typed_links(folder):
    """Links by concepts, and by words of WordNet."""
    config = own_files(folder)
    config = changed(config, model__knowledge="typed", knowledge__relations="all")
    pairs = [
        ("w0", "Bodies inhaled heat .", "A cold body .", "neutral"),
        ("w1", "Paris", "A cold body .", "neutral"),
    ]
    write_jsonl(folder / "train.jsonl", [*PAIRS, *named("train", pairs)])
    write_jsonl(folder / "dev.jsonl", named("dev", pairs))
    (folder / "dev.tsv").unlink()
    wordnet = lay_out(folder / "wordnet", WORDNET)
    return built(
        config,
        {},
        {"knowledge__ontology": str(wordnet), "knowledge__relations": "entails"},
        {"knowledge__ontology": str(wordnet), "knowledge__max_path": 1},
    )


def content_of_pieces(folder):
    pieces = "[PAD] [UNK] [CLS] [SEP] [MASK] asthma heart fail ##ure no known ."
    vocab = write(folder / "bert" / "vocab.txt", pieces.replace(" ", "\n") + "\n")
    source = corpus_of(own_files(folder))
    splits = source.splits()
    encoding = source.encoding
    contents = []
    for file, room in ((None, 40), (None, 12), (vocab, 40)):
        texts = PieceTexts(encoding, PieceEncoding(file, 60, room))
        contents.append(encode_corpus(splits, source.concept_source(splits), encoding, texts=texts))
    return contents


def content_of_cloze(folder):
    vectors = write(folder / "vectors.txt", "more 1 2 3 4\nwords 0 0 0 1\nx 1 1 1 1\n")
    write_clicr(folder)
    contents = []
    for corpus, place in (("clicr", folder), ("file", folder / "clicr")):
        splits = ClozeCorpus(corpus, ClozeEncoding("ent"), place).splits()
        encodings = [ClozeEncoding(setup, vectors_dim=4) for setup in SETUPS]
        plain_encoding = ClozeEncoding("ent", vectors_dim=4)
        limited = replace(
            plain_encoding, max_passage=8, max_words=5, query_bounds=True, vectors_sd=1.0
        )
        encodings += [limited, replace(plain_encoding, vectors_path=vectors)]
        contents += [encode_cloze(splits, encoding) for encoding in encodings]
    return contents, vectors_of_each_kind(folder)


def content_of_diskne(folder):
    benchmark = seven_diseases()
    own = write_benchmark(benchmark, folds(benchmark), folder / "own")
    configs = (published_diskne(folder), diskne("file", own))
    return [replace(experiment_of(config).corpus, least=1).build() for config in configs]


def content_of_ontologies(folder):
    table = "id\tname\ttree_numbers\tsynonyms\n"
    table += "D1\tFailure, Heart\tC14\tPump\nD2\tX\tC14.100|C15\t\n"
    places = (
        lay_out(folder / "umls", UMLS),
        snomed_folder(folder / "snomed"),
        lay_out(folder / "wordnet", WORDNET),
        write(folder / "made_up.obo", OBO),
        write(folder / "own.tsv", table),
    )
    contents = []
    for place in places:
        for relations in ("all", "is_a"):
            options = load.OntologyOptions(relations=relations)
            ontology = load.load_ontology(str(place), options=options)
            names = [field.name for field in dataclasses.fields(ontology) if field.name != "sha256"]
            contents.append({name: getattr(ontology, name) for name in names})
    return contents


def content_of_demo_diskne(folder):
    contents = []
    for negatives, wording in (("similar", "name"), ("random", "full")):
        demo = load_demo_diskne(negatives=negatives, wording=wording)
        contents.append([ascii(demo.examples), demo.names, demo.synonyms, demo.facts])
    return contents


CONTENTS = {  # name -> (function that makes content, the module that holds its FORMAT)
    "words": (content_of_words, "nli.encode.texts"),
    "typed_links": (content_of_typed_links, "knowledge.relations"),
    "pieces": (content_of_pieces, "data.pieces"),
    "cloze": (content_of_cloze, "cloze.arrays"),
    "published": (content_of_diskne, "diskne.corpus"),
    "ontologies": (content_of_ontologies, "knowledge.load"),
    "features": (lambda folder: features.computed(), "nli.features"),
    "demo": (lambda folder: load_demo("demo"), "nli.encode.texts"),
    "demo_full": (lambda folder: load_demo("demo_full"), "nli.encode.texts"),
    "demo_cloze": (lambda folder: load_demo_cloze(), "cloze.arrays"),
    "demo_diskne": (content_of_demo_diskne, "diskne.corpus"),
}
SLOW = pytest.param("demo_full", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [SLOW if name == "demo_full" else name for name in CONTENTS])
def test_content_is_what_was_recorded_under_its_format(name, tmp_path):
    make, module = CONTENTS[name]
    recorded = json.loads(TABLE.read_bytes())

    present = {
        "format": import_module(f"mednli_jax.{module}").FORMAT,
        "sha256": digest(make(tmp_path)),
    }

    if os.environ.get("MEDNLI_JAX_RECORD"):
        TABLE.write_text(json.dumps(recorded | {name: present}, indent=1) + "\n")
        return
    assert present == recorded.get(name), (
        f"{name}: other content than was recorded. Fix: where the code changed it, raise FORMAT in"
        f" {module}, so that no cache serves the old content; then record it (see above)"
    )


# -- keys --


def corpora_of(configs):
    return {name: experiment_of(config).corpus for name, config in configs.items()}


@pytest.fixture
def shaped(tmp_path):
    """Corpora that depend on bundled tables of names."""
    own = own_files(tmp_path)
    table = write(tmp_path / "own.tsv", "\t".join(mesh.HEADER) + "\nD1\theart disease\tC01\t\n")
    of_mesh = {"knowledge__ontology": "mesh"}
    return corpora_of(
        {
            "diskne": diskne("demo", tmp_path),
            "mesh": changed(own, **of_mesh),
            "retrofitted": nli("file", tmp_path, "none", vectors__retrofit="ontology", **of_mesh),
            "table": changed(own, knowledge__ontology=str(table)),
        }
    )


@pytest.fixture
def free(tmp_path):
    """Corpora that do not depend on bundled tables of names."""
    own = own_files(tmp_path)
    pieces = read_config("encoder:file")
    return corpora_of(
        {
            "own": own,
            "words": nli("file", tmp_path, "none"),
            "pieces": changed(pieces, data__dir=str(tmp_path), model__weights=""),
            "demo": nli("demo", tmp_path, "none"),
            "cloze": changed(read_config("ga"), vectors__path=None),
        }
    )


def keys_of(corpora, folder):
    cache = Cache(folder / "cache")
    return {name: json.dumps(corpus.key(cache)) for name, corpus in corpora.items()}


@pytest.mark.parametrize("file", [mesh.ABBREVIATIONS, "aliases_everyday.tsv"])
def test_a_changed_table_of_names_changes_the_keys_of_what_it_shapes(
    shaped, free, tmp_path, monkeypatch, file
):
    before = keys_of(shaped | free, tmp_path)
    resources = Path(shutil.copytree(mesh.RESOURCES, tmp_path / "resources"))
    monkeypatch.setattr(mesh, "RESOURCES", resources)
    assert keys_of(shaped | free, tmp_path) == before

    table = resources / file
    table.write_bytes(table.read_bytes() + b"zq\tasthma\tD001249\n")

    after = keys_of(shaped | free, tmp_path)
    assert {name for name in after if after[name] != before[name]} == set(shaped)


def test_mediqa_nlis_files_count_in_the_key_of_diskne(tmp_path):
    corpora = {"diskne": experiment_of(published_diskne(tmp_path)).corpus}
    keys = {keys_of(corpora, tmp_path)["diskne"]}

    for file in sorted((tmp_path / "mediqa_nli").iterdir()):
        file.write_bytes(file.read_bytes() + b"\n")
        keys.add(keys_of(corpora, tmp_path)["diskne"])
    shutil.rmtree(tmp_path / "mediqa_nli")
    keys.add(keys_of(corpora, tmp_path)["diskne"])

    assert len(keys) == 4


def test_each_choice_of_pairs_has_a_key_of_its_own(free, tmp_path):
    whole = free["words"]
    corpora = {
        "whole": whole,
        "slate": replace(whole, genre="slate"),
        "three": replace(whole, limit=3),
        "tfds": replace(whole, builder="tfds"),
        "labels": replace(whole, labels=Labels.of("no,yes")),
        "columns": replace(whole, columns=(("premise", "note"),)),
    }

    assert len(set(keys_of(corpora, tmp_path).values())) == len(corpora)


@pytest.mark.parametrize(
    "name, format",
    [
        ("words", "nli.corpus.TEXTS_FORMAT"),
        ("own", "knowledge.load.FORMAT"),
        ("cloze", "cloze.corpus.FORMAT"),
        ("diskne", "diskne.corpus.FORMAT"),
    ],
)
def test_each_format_has_a_key_of_its_own(shaped, free, tmp_path, monkeypatch, name, format):
    corpora = {name: (shaped | free)[name]}
    before = keys_of(corpora, tmp_path)

    monkeypatch.setattr(f"mednli_jax.{format}", 99)

    assert keys_of(corpora, tmp_path) != before
