"""Parquet and Arrow files of pairs: types of columns, names that stand twice, and shards of a split
in the layouts of the Hub, of its converted branch, of Spark and of save_to_disk."""

import datetime
import decimal
import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from support.cases import cases

from mednli_jax.errors import DataError
from mednli_jax.nli.read import corpora
from mednli_jax.nli.read.readers import labels_of_file, read_nli_file

LABELS = ("0", "1", "2")
BYTES = pa.array([label.encode() for label in LABELS])
NOW = datetime.datetime(2026, 11, 28, 12)


def table(labels=LABELS, first=0, **columns):
    """Three pairs with these labels. columns: further ones, an array each."""
    numbers = range(first, first + 3)
    texts = {
        "premise": [f"Note {number}." for number in numbers],
        "hypothesis": [f"Claim {number}." for number in numbers],
    }
    return pa.table({**texts, "label": labels, **columns})


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".arrow":
        with pa.ipc.new_stream(str(path), content.schema) as stream:
            stream.write_table(content)
    elif path.suffix == ".feather":
        feather.write_feather(content, path)
    else:
        open_file = gzip.open if path.suffix == ".gz" else open
        with open_file(path, "wb") as file:
            parquet.write_table(content, file)


def read(folder):
    """The pairs of train."""
    path = corpora.find_files("file", folder, "train")["train"]
    labels = labels_of_file("", path, ())
    return read_nli_file(path, split="train", labels=labels).examples


@cases(
    "column",
    {
        "a time with nanoseconds": pa.array([1, 2, 3], pa.timestamp("ns")),
        "a decimal": pa.array([decimal.Decimal("1.50")] * 3),
        "bytes": pa.array([b"\xff\xfe"] * 3),
        "a struct": pa.array([{"when": NOW, "raw": b"\xff"}] * 3),
    },
)
def test_a_column_that_is_no_field_is_not_read(tmp_path, column):
    write(tmp_path / "train.parquet", table(more=column))

    assert [pair.label for pair in read(tmp_path)] == list(LABELS)


@cases(
    "labels",
    {
        "decimals": pa.array([decimal.Decimal(label) for label in LABELS]),
        "bytes": BYTES,
        "bytes of one length": BYTES.cast(pa.binary(1)),
        "categories of bytes": BYTES.dictionary_encode(),
        "floats": pa.array([0.0, 1.0, 2.0]),
        "categories": pa.array(LABELS).dictionary_encode(),
    },
)
def test_labels_of_any_type_are_read(tmp_path, labels):
    write(tmp_path / "train.parquet", table(labels))

    assert [pair.label for pair in read(tmp_path)] == list(LABELS)


def test_bytes_that_are_no_text_are_named_by_row_and_field(tmp_path):
    write(tmp_path / "train.parquet", table([b"a", b"\xff", b"c"]))

    with pytest.raises(DataError, match=r"^train\.parquet:2: field 'label' is no text"):
        read(tmp_path)


def test_a_damaged_page_is_a_damaged_file(tmp_path):
    path = tmp_path / "train.parquet"
    write(path, table())
    path.write_bytes(path.read_bytes().replace(b"Note 0.", b"Note 0", 1))

    with pytest.raises(DataError, match="is damaged or cut short"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["train.parquet.gz", "train.feather"])
def test_other_files_with_columns_are_read(tmp_path, name):
    write(tmp_path / name, table())

    assert [pair.label for pair in read(tmp_path)] == list(LABELS)


@pytest.mark.parametrize("names", [("uid", "UID"), ("uid", "uid")])
def test_a_column_that_stands_twice_is_refused(tmp_path, names):
    content = table()
    for name in names:
        content = content.append_column(name, [LABELS])
    write(tmp_path / "train.parquet", content)

    with pytest.raises(DataError, match="two columns have the same name 'uid'"):
        read(tmp_path)


LAYOUTS = {
    "the Hub": ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet"),
    "an older Hub": (
        "train-00000-of-00002-8a1b2c3d4e5f6071.parquet",
        "train-00001-of-00002-0f1e2d3c4b5a6978.parquet",
    ),
    "the converted branch": ("train/0000.parquet", "train/0001.parquet"),
    "a large shard of Spark": (
        "train/part-00000-6f0c.c000.snappy.parquet",
        "train/part-00000-6f0c.c001.snappy.parquet",
    ),
    "Spark": (
        "train.parquet/part-00000-6f0c-c000.snappy.parquet",
        "train.parquet/part-00003-6f0c-c000.snappy.parquet",
    ),
    "save_to_disk": ("train/data-00000-of-00002.arrow", "train/data-00001-of-00002.arrow"),
}


@cases("names", LAYOUTS)
def test_parts_of_a_split_are_read_in_order(tmp_path, names):
    for shard, name in enumerate(names):
        write(tmp_path / name, table(first=3 * shard))

    assert [pair.premise for pair in read(tmp_path)] == [f"Note {n}." for n in range(6)]


@cases("names", {name: names for name, names in LAYOUTS.items() if "Spark" not in name})
def test_a_part_that_is_missing_is_named(tmp_path, names):
    write(tmp_path / names[1], table())

    with pytest.raises(DataError, match="1 of 2 shards are there; shard 00000 is missing"):
        read(tmp_path)


@cases(
    "names",
    {
        "another number of shards": (*LAYOUTS["the Hub"], "train-00000-of-00001.parquet"),
        "another hash": (*LAYOUTS["an older Hub"], "train-00000-of-00002-ffff.parquet"),
        "another job": (*LAYOUTS["Spark"], "train.parquet/part-00000-77aa-c000.parquet"),
        "Arrow": (*LAYOUTS["save_to_disk"], "train/data-00000-of-00001.arrow"),
        "two kinds": (*LAYOUTS["the converted branch"], "train/part-00000-6f0c.parquet"),
    },
)
def test_stale_parts_beside_new_ones_are_refused(tmp_path, names):
    for name in names:
        write(tmp_path / name, table())

    with pytest.raises(DataError, match=r"two versions of the split|shards of two kinds"):
        read(tmp_path)


def test_only_the_files_that_save_to_disk_lists_are_read(tmp_path):
    for first, name in enumerate(("a.arrow", "b.arrow")):
        write(tmp_path / "train" / name, table(first=first))
    state = {"_data_files": [{"filename": "b.arrow"}]}
    (tmp_path / "train" / "state.json").write_text(json.dumps(state))

    assert read(tmp_path)[0].premise == "Note 1."
