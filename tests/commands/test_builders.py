"""Loading through TFDS gives the same examples, facts and arrays as loading directly, readable by
the owner alone."""

import json
import sys
from itertools import groupby
from operator import itemgetter

import jax
import pytest
import tensorflow_datasets as tfds
from support.cloze import write_clicr
from support.documented import modules
from support.files import assert_private
from support.pair_files import write_rows
from support.trees import assert_equal

from mednli_jax import tfds as builders
from mednli_jax.cloze import clicr
from mednli_jax.cloze.arrays import ClozeEncoding, encode_cloze
from mednli_jax.data.examples import LABELS
from mednli_jax.nli.read import readers
from mednli_jax.nli.read.corpora import CORPORA

SECRET = "Zzyzx"


def pair(split, n, **fields):
    """A row. Brackets, quotes, accents, a token that looks like a number, an unusual uid, and pairs
    without a label or a parse must all come back unchanged."""
    premise = f"Pt. №{n} -LRB- {split} -RRB- says `` naïve '' 1.50 gout"
    row = {
        "pairID": f"{split}/{n}#é",
        "gold_label": (*LABELS, "-")[n % 4],
        "sentence1": f"{premise} .",
        "sentence2": f"arthritis {n} {SECRET}",
        "sentence1_binary_parse": f"( {premise} . )",
        "sentence2_binary_parse": f"( arthritis {n} )" if n % 3 else "",
    }
    return row | fields


def write_corpus(folder, name, size, row=pair):
    for split, file in CORPORA[name].files.items():
        write_rows(folder / name / file, [row(split, n) for n in range(size)])
    return folder


@pytest.fixture
def data(tmp_path):
    return write_corpus(tmp_path / "data", "mednli", 23)


@pytest.fixture
def load(tmp_path):
    """Loads a corpus through TFDS."""

    def load_corpus(name, folder, **options):
        return builders.load_tfds(name, tmp_path / "tfds", folder, **options)

    return load_corpus


@pytest.mark.parametrize("limit", [None, 5])
def test_mednli_comes_back_pair_by_pair_and_fact_by_fact(data, load, limit):
    direct = readers.load_nli("mednli", data, limit=limit)

    for folder in (data, data / "mednli"):  # the first pass builds, the other finds the build
        splits = load("mednli", folder, limit=limit)

        assert splits == direct
        assert list(splits) == list(direct)
    assert all(type(token) is str for token in splits["train"].examples[1].premise_tokens)
    assert "tensorflow" not in sys.modules


def test_mediqa_comes_back_with_its_ground_truth(data, load):
    files = CORPORA["mediqa_nli"]
    rows = [pair("t", n, gold_label=None) for n in range(6)]
    write_rows(data / "mediqa_nli" / files.files["test"], rows)
    truth = [f"{row['pairID']},{LABELS[n % 3]}\n" for n, row in enumerate(rows)]
    (data / "mediqa_nli" / files.ground_truth).write_text("pair_id,label\n" + "".join(truth))

    assert load("mediqa_nli", data) == readers.load_nli("mediqa_nli", data)


def test_snli_comes_back(tmp_path, load):
    write_corpus(tmp_path, "snli", 7, lambda split, n: pair(split, n, captionID=f"c{n // 3}"))

    splits = load("snli", tmp_path, limit=3)

    assert splits == readers.load_nli("snli", tmp_path, limit=3)


def test_a_genre_of_multinli_comes_back(tmp_path, load):
    genres = ("slate", "travel")
    write_corpus(tmp_path, "multinli", 9, lambda split, n: pair(split, n, genre=genres[n % 2]))

    splits = load("multinli", tmp_path, genre="slate", limit=2)

    assert splits == readers.load_nli("multinli", tmp_path, genre="slate", limit=2)
    assert load("multinli", tmp_path)["train"].examples[1].tags == ("travel",)


def test_the_program_of_the_page_reads_pairs(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(data))
    monkeypatch.chdir(tmp_path)

    exec(modules("docs/data.md")["records"], {})

    # Of 23 pairs five are labelled `-`.
    assert capsys.readouterr().out.splitlines()[-1].startswith("18 Pt. №")
    assert_private(tmp_path / "tfds")
    assert "tensorflow" not in sys.modules


def test_builders_are_registered_by_their_names():
    for builder in (builders.Mednli, builders.MediqaNli, builders.Clicr):
        assert tfds.builder_cls(builder.name) is builder
    assert [builders.Mednli.name, builders.MediqaNli.name] == ["mednli", "mediqa_nli"]


def decoded(value):
    return value.decode() if isinstance(value, bytes) else value


def articles_of(source):
    """The articles of CliCR's file from the records of a split."""
    records = [jax.tree.map(decoded, record) for record in source]
    records.sort(key=itemgetter("row"))
    articles = []
    for uid, queries in groupby(records, itemgetter("source")):
        queries = list(queries)
        for query in queries:
            columns = query["answers"]
            rows = zip(*columns.values(), strict=True)
            query["answers"] = [dict(zip(columns, row, strict=True)) for row in rows]
        articles.append({"source": uid, "document": {**queries[0], "qas": queries}})
    return articles


def test_clicr_comes_back_with_its_arrays(tmp_path, monkeypatch):
    write_clicr(tmp_path / "data")
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path / "data"))
    (tmp_path / "back").mkdir()

    sources = tfds.data_source("clicr", data_dir=tmp_path / "tfds")

    for split, source in sources.items():
        content = {"version": clicr.VERSION, "data": articles_of(source)}
        (tmp_path / "back" / clicr.FILES[split]).write_text(json.dumps(content, default=int))
    encoding = ClozeEncoding("ent", vectors_dim=4)
    direct, back = (clicr.load(tmp_path / folder) for folder in ("data", "back"))
    assert direct.keys() == back.keys() == {"train", "dev", "test"}
    for split in direct:
        assert direct[split].examples == back[split].examples
    (_, arrays, *_), (_, expected, *_) = (encode_cloze(part, encoding) for part in (back, direct))
    assert_equal(arrays, expected)
    assert_private(tmp_path / "tfds")
    assert "tensorflow" not in sys.modules


def test_a_changed_file_is_built_anew(data, load, tmp_path):
    load("mednli", data)
    load("mednli", data, limit=2)
    (old,) = (tmp_path / "tfds").glob("mednli-all-*")

    direct = readers.load_nli("mednli", write_corpus(data, "mednli", 11))

    assert load("mednli", data) == direct
    (new,) = (tmp_path / "tfds").glob("mednli-all-*")
    assert new.name != old.name
    # The build of the other limit stays, and no temporary folder does.
    assert len(list((tmp_path / "tfds").glob("[!.]*"))) == 2


def cut(content):
    return content[:100]


def with_a_flipped_bit(content):
    return content[:200] + bytes([content[200] ^ 1]) + content[201:]


RECORD = "*train.array_record*"
FACTS = "1.0.0/metadata.json"


@pytest.mark.parametrize(
    "pattern, damage",
    [
        (RECORD, cut),
        (RECORD, with_a_flipped_bit),
        (FACTS, cut),
    ],
)
def test_a_damaged_build_is_built_again(data, load, tmp_path, capfd, pattern, damage):
    direct = load("mednli", data)
    (root,) = (tmp_path / "tfds").glob("mednli-all-*")
    (path,) = root.rglob(pattern)
    path.write_bytes(damage(path.read_bytes()))

    assert load("mednli", data) == direct

    out, err = capfd.readouterr()
    assert str(root) in err
    assert SECRET not in out + err
