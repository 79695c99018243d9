"""Every kind of stored content has a FORMAT number, which must rise when equal files and settings
give other content.

The table golden/prepared_content.json holds, for each module that makes stored content, its FORMAT
and a hash of what it makes of a tiny corpus. `MEDNLI_JAX_RECORD=1 pytest -n 0
tests/data/test_prepared_content.py -k recorded` records the present ones.
"""

import hashlib
import json
import os
import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from support import features
from support.cloze import write_clicr
from support.diskne import PAIRS as DISKNE_PAIRS
from support.diskne import seven_diseases, write_annotations
from support.files import lay_out, write
from support.ontologies import HEART
from support.ontology_files import OBO, UMLS, WORDNET, snomed_folder
from support.vector_files import fasttext_model, word2vec

from mednli_jax import defaults
from mednli_jax.cloze.clicr import load_demo_cloze
from mednli_jax.cloze.encoding import SETUPS, ClozeCorpus, ClozeEncoding, encode_cloze
from mednli_jax.data.cache import Cache
from mednli_jax.data.examples import Split
from mednli_jax.data.text import SPECIALS
from mednli_jax.data.vectors import load_vectors
from mednli_jax.diskne.corpus import load_demo_diskne, write_benchmark
from mednli_jax.diskne.folds import folds
from mednli_jax.knowledge import load
from mednli_jax.knowledge.distances import DIRECTIONS, stored_paths
from mednli_jax.knowledge.readers import mesh
from mednli_jax.nli.encoding import PieceEncoding, PieceTexts, encode_corpus
from mednli_jax.nli.plug import corpus_of
from mednli_jax.nli.readers import load_demo
from mednli_jax.run import experiment_of

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests" / "golden" / "prepared_content.json"


def plain(value):
    """JSON that is equal on every platform: floats are rounded, arrays and examples are hashed."""
    if isinstance(value, np.ndarray):
        is_float = value.dtype.kind == "f"
        digits = (
            np.round(value.astype(np.float64), 4) + 0.0 if is_float else value
        )  # adding 0 removes negative zeros
        content = np.ascontiguousarray(digits, digits.dtype.newbyteorder("<")).tobytes()
        return [
            value.dtype.newbyteorder("<").str,
            list(value.shape),
            hashlib.sha256(content).hexdigest(),
        ]
    if isinstance(value, Split):
        return [
            value.name,
            hashlib.sha256(ascii(value.examples).encode()).hexdigest(),
            plain(value.facts),
        ]
    if isinstance(value, dict):
        return [
            [str(key), plain(part)]
            for key, part in sorted(value.items(), key=lambda item: str(item[0]))
        ]
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "words"):
        return ascii(value.words)
    return round(float(value), 5) if isinstance(value, float) else value


def digest(value):
    return hashlib.sha256(json.dumps(plain(value)).encode()).hexdigest()


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


def named(split, pairs=PAIRS):
    """The pairs with uids of their own, because no pair may be in two splits."""
    return [(f"{split}-{uid}", f"{premise} {split}", *rest) for uid, premise, *rest in pairs]


def parse(text):
    """A binary parse that branches to the left; it gives the tokens, so that no tokeniser runs."""
    return (
        "( " * (len(text.split()) - 1)
        + text.split()[0]
        + "".join(f" {word} )" for word in text.split()[1:])
    )


COLUMNS = (
    "pairID",
    "gold_label",
    "sentence1",
    "sentence2",
    "sentence1_binary_parse",
    "sentence2_binary_parse",
)


def rows(pairs):
    return [(uid, label, one, two, parse(one), parse(two)) for uid, one, two, label in pairs]


def jsonl(path, pairs=PAIRS):
    lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows(pairs)]
    write(path, "".join(f"{line}\n" for line in lines))


def table(path, between, pairs=PAIRS):
    lines = rows(pairs)
    quoted = [[f'"{cell}"' for cell in line] for line in lines] if between == "," else lines
    write(path, "\n".join(map(between.join, [COLUMNS, *quoted])) + "\n")


def own_files(folder):
    """A config for a user's own corpus in three kinds of files, with an ontology and vectors."""
    jsonl(folder / "train.jsonl")
    table(folder / "dev.tsv", "\t", named("dev", PAIRS[1:3]))
    table(folder / "test.csv", ",", named("test", PAIRS[:2]))
    (folder / "tiny.obo").write_text(ONTOLOGY)
    (folder / "lexicon.txt").write_text("asthma wheezing\nheart disease failure\n")
    words = ("asthma", "heart", "failure", "disease", "wheezing", "No")
    write(
        folder / "vectors.txt",
        "".join(f"{word} {n} {n * n} 0.5 -1\n" for n, word in enumerate(words)),
    )
    return nli(
        "file", folder, **{"knowledge.ontology": str(folder / "tiny.obo"), "knowledge.types": ("",)}
    )


def nli(name, folder, base="replace", **fields):
    config = defaults.nli("esim", name, base)
    config.data.dir, config.vectors.dim, config.vectors.path = str(folder), 4, None
    return changed(config, **fields)


def changed(config, **fields):
    config = config.copy_and_resolve_references()
    for field, value in fields.items():
        section, _, name = field.partition(".")
        config[section][name] = value
    return config


def vectors_of_each_kind(folder):
    """What the readers make of vectors in a text file and in the binary files of word2vec and
    fastText."""
    words, numbers = ("fever", "cough"), np.arange(39).reshape(13, 3) / 8
    binary = fasttext_model(words, numbers, buckets=11, minn=3, maxn=4)
    found, asked = [], (*SPECIALS, "Fever", "coughing", "absent")
    for name, content in (
        ("v.txt", "fever 1 2 3\ncough -1 0 0.25\n"),
        ("w.bin", word2vec()),
        ("f.bin", binary),
    ):
        vectors = load_vectors(write(folder / name, content), asked, dim=3, seed=0)
        found += [vectors.words, vectors.matrix]
    return found


def published_diskne(folder):
    """A config for MedNLI with DisKnE's annotations; one annotated pair occurs only in the test
    split of MEDIQA-NLI."""
    pairs = [(one.uid, one.premise, one.hypothesis, one.label) for one in DISKNE_PAIRS]
    jsonl(folder / "mednli" / "mli_train_v1.jsonl", pairs[:5])
    jsonl(folder / "mednli" / "mli_dev_v1.jsonl", pairs[5:6])
    jsonl(folder / "mednli" / "mli_test_v1.jsonl", pairs[7:])
    mediqa_nli(folder, pairs[6:7])
    (folder / "diskne").mkdir()
    write_annotations(folder / "diskne" / "m.csv")
    return diskne("mednli", folder, **{"diskne.ontology": "none"})


def mediqa_nli(folder, pairs):
    jsonl(
        folder / "mediqa_nli" / "mednli_bionlp19_shared_task.jsonl",
        [(*pair[:3], "-") for pair in pairs],
    )
    truth = "".join(f"{uid},{label}\n" for uid, _, _, label in pairs)
    write(
        folder / "mediqa_nli" / "mednli_bionlp19_shared_task_ground_truth.csv",
        f"pair_id,label\n{truth}",
    )


def diskne(name, folder, **fields):
    config = defaults.diskne("bow", name)
    config.data.dir, config.vectors.dim, config.vectors.path = str(folder), 4, None
    return changed(config, **fields)


def words(folder):
    config = own_files(folder)
    own = ("t0", "dev-t1", "test-t0")  # a pair of each split
    spans = "".join(f"{uid}\tpremise\t1\t2\tX:4\n" for uid in own) + "t0\thypothesis\t3\t5\tX:1\n"
    (folder / "found.tsv").write_text(f"uid\tside\tstart\tend\tconcept\n{spans}")
    trigger = '["asthma"-tx-1-"asthma"-noun-0]'
    (folder / "found.mmi").write_text(
        "".join(f"{uid}-p|MMI|3|Name|X:4|[x]|{trigger}|TX|6/6|\n" for uid in own)
    )
    settings = (
        {"vectors.path": str(folder / "vectors.txt"), "vectors.retrofit": "ontology"},
        {"vectors.retrofit": str(folder / "lexicon.txt"), "data.max_length": 4},
        {"knowledge.abbreviations": "bundled"},
        {"knowledge.direction": "undirected", "knowledge.max_links": 1},
        {
            "knowledge.types": (),
            "knowledge.mentions": str(folder / "found.tsv"),
            "data.lowercase": False,
        },
        {"knowledge.types": (), "knowledge.mentions": str(folder / "found.mmi")},
        {"data.hypothesis_only": True, "knowledge.permute_seed": 1},
    )
    made = [corpus_of(changed(config, **fields)).build() for fields in settings]
    data = folder / "data"
    for split in ("train", "dev"):
        jsonl(data / "mednli" / f"mli_{split}_v1.jsonl", named(split))
    mediqa_nli(data, named("test", PAIRS[:2]))
    for split in ("train", "dev", "test"):
        table(data / "snli" / f"snli_1.0_{split}.txt", "\t", named(split))
    made += [corpus_of(nli(corpus, data, "none")).build() for corpus in ("mediqa_nli", "snli")]
    return made, vectors_of_each_kind(folder)


def typed_links(folder):
    """Links by concepts, by words of WordNet, and by both."""
    config = own_files(folder)
    words = lay_out(folder / "wordnet", WORDNET)
    texts = ("Bodies inhaled heat .", "Paris")
    pairs = [(f"w{n}", text, "A cold body .", "neutral") for n, text in enumerate(texts)]
    jsonl(folder / "train.jsonl", [*PAIRS, *named("train", pairs)])
    jsonl(folder / "dev.jsonl", named("dev", pairs))
    (folder / "dev.tsv").unlink()
    given = {"model.knowledge": "typed", "knowledge.relations": "all"}
    tiny = config.knowledge.ontology
    settings = (
        {},
        {"knowledge.ontology": str(words), "knowledge.relations": "entails"},
        {"knowledge.ontology": f"{words}+{tiny}", "knowledge.max_path": 1},
    )
    return [corpus_of(changed(config, **{**given, **fields})).build() for fields in settings]


def pieces(folder):
    pieces = (
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "asthma",
        "heart",
        "fail",
        "##ure",
        "no",
        "known",
        ".",
    )
    own = write(folder / "bert" / "vocab.txt", "\n".join(pieces) + "\n")
    source = corpus_of(own_files(folder))
    splits, encoding, made = source.splits(), source.encoding, []
    for file, room in ((None, 40), (None, 12), (own, 40)):
        texts = PieceTexts(encoding, PieceEncoding(file, 60, room))
        made.append(encode_corpus(splits, source.recogniser(splits), encoding, texts=texts))
    return made


def cloze(folder):
    made = []
    (folder / "vectors.txt").write_text("more 1 2 3 4\nwords 0 0 0 1\nx 1 1 1 1\n")
    write_clicr(folder)
    for corpus, place in (("clicr", folder), ("file", folder / "clicr")):
        splits = ClozeCorpus(corpus, ClozeEncoding("ent"), place).splits()
        for setup in SETUPS:
            made.append(encode_cloze(splits, ClozeEncoding(setup, vectors_dim=4)))
        limits = {"max_passage": 8, "max_words": 5, "query_bounds": True, "vectors_sd": 1.0}
        made.append(encode_cloze(splits, ClozeEncoding("ent", vectors_dim=4, **limits)))
        made.append(
            encode_cloze(
                splits, ClozeEncoding("ent", vectors_dim=4, vectors_path=folder / "vectors.txt")
            )
        )
    return made, vectors_of_each_kind(folder)


def published(folder):
    found = seven_diseases()
    own = write_benchmark(found, folds(found), folder / "own")
    configs = (published_diskne(folder), diskne("file", own))
    return [replace(experiment_of(config).corpus, least=1).build() for config in configs]


def ontologies(folder):
    table = (
        "id\tname\ttree_numbers\tsynonyms\nD1\tFailure, Heart\tC14\tPump\nD2\tX\tC14.100|C15\t\n"
    )
    places = (
        *(
            lay_out(folder / "umls", UMLS),
            snomed_folder(folder / "snomed"),
            lay_out(folder / "wordnet", WORDNET),
        ),
        *(write(folder / "made_up.obo", OBO), write(folder / "own.tsv", table)),
    )
    made = []
    for place in places:
        for relations in ("all", "is_a"):
            options = load.OntologyOptions(relations=relations)
            ontology = load.load_ontology(str(place), options=options)
            relations_of = {name: (2, matrix.nnz) for name, matrix in ontology.relations.items()}
            made.append(
                [
                    ontology.name,
                    ontology.version,
                    ontology.link_types,
                    relations_of,
                    arrays_of(ontology),
                ]
            )
    return made


def arrays_of(ontology):
    """The parts of an ontology as numbers; SciPy chooses the integer type of some."""
    parts = {part: getattr(ontology, part) for part in ("ids", "labels", "types")}
    parts["abbreviations"] = sorted(ontology.abbreviations)
    found = {}
    for part in ("names", "cross_references"):
        parts[part] = [name for name, _ in getattr(ontology, part)]
        found[f"{part}.concepts"] = np.array(
            [concept for _, concept in getattr(ontology, part)], np.int32
        )
    for part, strings in parts.items():
        encoded = [string.encode() for string in strings]
        found[f"{part}.bytes"] = np.frombuffer(b"".join(encoded), np.uint8)
        found[f"{part}.offsets"] = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    found |= {
        f"parents.{name}": getattr(ontology.parents, name).astype(np.int64)
        for name in ("indptr", "indices")
    }
    edges = [
        np.stack(matrix.nonzero()).astype(np.int32)
        for _, matrix in sorted(ontology.relations.items())
    ]
    return {**found, "relations": np.concatenate([np.zeros((2, 0), np.int32), *edges], axis=1)}


def distances(folder):
    every = np.array([(a, b) for a in range(len(HEART)) for b in range(len(HEART))])
    return [
        stored_paths(HEART, every, folder=folder, direction=name, max_length=n)
        for name in DIRECTIONS
        for n in (0, 1)
    ]


def demo_diskne(folder):
    choices = (("similar", "name"), ("random", "full"))
    made = [
        load_demo_diskne(negatives=negatives, wording=wording) for negatives, wording in choices
    ]
    return [[ascii(found.examples), found.names, found.synonyms, found.facts] for found in made]


MADE_BY = {  # name -> (function that makes content, the module that holds its FORMAT)
    "words": (words, "nli.encoding"),
    "typed_links": (typed_links, "knowledge.relations"),
    "pieces": (pieces, "data.pieces"),
    "cloze": (cloze, "cloze.encoding"),
    "published": (published, "diskne.corpus"),
    "ontologies": (ontologies, "knowledge.load"),
    "distances": (distances, "knowledge.distances"),
    "features": (lambda folder: features.computed(), "nli.features"),
    "demo": (lambda folder: load_demo("demo"), "nli.encoding"),
    "demo_full": (lambda folder: load_demo("demo_full"), "nli.encoding"),
    "demo_cloze": (lambda folder: load_demo_cloze(), "cloze.encoding"),
    "demo_diskne": (demo_diskne, "diskne.corpus"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "demo_full")) for n in MADE_BY]
)
def test_content_is_what_was_recorded_under_its_format(name, tmp_path):
    (make, module), table = MADE_BY[name], json.loads(TABLE.read_bytes())
    found = {
        "format": import_module(f"mednli_jax.{module}").FORMAT,
        "sha256": digest(make(tmp_path)),
    }
    if os.environ.get("MEDNLI_JAX_RECORD"):
        TABLE.write_text(json.dumps(table | {name: found}, indent=1) + "\n")
        return
    fix = f"where the code changed it, raise FORMAT in {module}, so that no cache serves the old content"
    assert found == table.get(name), (
        f"{name}: other content than was recorded. Fix: {fix}; then record it (see above)"
    )


@pytest.fixture
def corpora(tmp_path):
    """({name: corpus that depends on bundled words}, {name: corpus that does not})."""
    own = own_files(tmp_path)
    (tmp_path / "own.tsv").write_text("\t".join(mesh.HEADER) + "\nD1\theart disease\tC01\t\n")
    shaped = {
        "cloze": changed(defaults.cloze("ga_reader"), **{"vectors.path": None}),
        "diskne": diskne("demo", tmp_path),
        "demo": nli("demo", tmp_path, "none"),
        "mesh": changed(own, **{"knowledge.ontology": "mesh"}),
        "retrofitted": nli(
            "file",
            tmp_path,
            "none",
            **{"knowledge.ontology": "mesh", "vectors.retrofit": "ontology"},
        ),
        "table": changed(own, **{"knowledge.ontology": str(tmp_path / "own.tsv")}),
        "abbreviations": changed(own, **{"knowledge.abbreviations": "bundled"}),
    }
    pieces = changed(
        defaults.nli("bert", "file"), **{"data.dir": str(tmp_path), "model.weights": ""}
    )
    free = {"own": own, "words": nli("file", tmp_path, "none"), "pieces": pieces}
    return [
        {name: experiment_of(config).corpus for name, config in group.items()}
        for group in (shaped, free)
    ]


def keys_of(corpora, folder):
    return {
        name: json.dumps(corpus.key(Cache(folder / "cache"))) for name, corpus in corpora.items()
    }


@pytest.mark.parametrize("file", [mesh.ABBREVIATIONS, "aliases_everyday.tsv"])
def test_a_changed_resource_changes_the_keys_of_what_it_shapes(
    corpora, tmp_path, monkeypatch, file
):
    shaped, free = corpora
    before = keys_of(shaped | free, tmp_path)
    monkeypatch.setattr(
        mesh, "RESOURCES", Path(shutil.copytree(mesh.RESOURCES, tmp_path / "resources"))
    )
    assert keys_of(shaped | free, tmp_path) == before
    with open(tmp_path / "resources" / file, "a") as stream:
        stream.write("zq\tasthma\tD001249\n")
    after = keys_of(shaped | free, tmp_path)
    expected = (
        set(shaped)
        - {"cloze", "demo"}
        - ({"abbreviations"} if file.startswith("aliases") else set())
    )
    assert {name for name in after if after[name] != before[name]} == expected


def test_mediqa_nlis_files_count_in_the_key_of_diskne(tmp_path):
    config = published_diskne(tmp_path)

    def key():
        return json.dumps(experiment_of(config).corpus.key(Cache(tmp_path / "cache")))

    keys = {key()}
    for file in sorted((tmp_path / "mediqa_nli").iterdir()):
        file.write_bytes(file.read_bytes() + b"\n")
        keys.add(key())
    shutil.rmtree(tmp_path / "mediqa_nli")
    assert len(keys | {key()}) == 4


def test_each_choice_of_pairs_and_each_format_has_a_key_of_its_own(corpora, tmp_path, monkeypatch):
    shaped, free = corpora
    choices = ({}, {"genre": "slate"}, {"limit": 3})
    assert len(
        {*keys_of({str(c): replace(free["words"], **c) for c in choices}, tmp_path).values()}
    ) == len(choices)
    before = keys_of(shaped | free, tmp_path)
    formats = {
        "words": "nli.encoding",
        "own": "knowledge.load",
        "cloze": "cloze.encoding",
        "diskne": "diskne.corpus",
    }
    for name, module in formats.items():
        with monkeypatch.context() as patch:
            patch.setattr(f"mednli_jax.{module}.FORMAT", 99)
            assert keys_of(shaped | free, tmp_path)[name] != before[name], module
