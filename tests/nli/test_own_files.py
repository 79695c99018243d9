"""The user's own files as people have them: columns, labels, ids and formats of well-known data
sets and of programs."""

import csv

import pytest

from mednli_jax.cli import read_config
from mednli_jax.errors import DataError
from mednli_jax.nli.config import corpus_of, with_labels


def corpus(folder, **fields):
    """The corpus of a folder. fields: of config.data."""
    config = read_config("bow:file")
    config.data.update(dir=str(folder), **fields)
    config.vectors.dim = 4
    return corpus_of(with_labels(config))


def hub_rows(split):
    """Rows of SNLI on the Hub: labels 0 to 2, and -1 for none."""
    rows = []
    for n in range(40):
        label = -1 if n == 7 else n % 3
        rows.append({"premise": f"Note {n} {split}", "hypothesis": f"Claim {n}", "label": label})
    return rows


def write_csv(folder, rows_of):
    for split, rows in rows_of.items():
        with open(folder / f"{split}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def test_a_cell_may_be_long_and_a_first_column_without_a_name_is_an_index(tmp_path):
    rows = [
        {
            "": n,
            "premise": "word " * 40_000,
            "hypothesis": "b",
            "label": n % 2,
        }
        for n in (0, 1)
    ]
    write_csv(tmp_path, {"train": rows, "dev": rows})

    splits = corpus(tmp_path).splits()

    assert len(splits["train"].examples[0].premise_tokens) == 40_000
    assert splits["train"].facts["tokens"] == {"binary parse": 0, "treebank": 2}


def test_a_test_file_without_labels_is_left_out_with_a_note(tmp_path):
    unlabelled = [{**row, "label": -1} for row in hub_rows("test")]
    write_csv(
        tmp_path, {"train": hub_rows("train"), "validation": hub_rows("d"), "test": unlabelled}
    )

    splits = corpus(tmp_path).splits()

    assert list(splits) == ["train", "dev"]
    assert "no labels" in splits["dev"].facts["note"]


def test_ids_that_count_from_0_in_each_split_get_its_name(tmp_path):
    rows_of = {}
    for split in ("train", "dev"):
        rows_of[split] = [{**row, "uid": n} for n, row in enumerate(hub_rows(split))]
    write_csv(tmp_path, rows_of)

    splits = corpus(tmp_path).splits()

    assert splits["train"].examples[1].uid == "train:1"
    assert splits["dev"].examples[1].uid == "dev:1"


def test_labels_from_2_to_100_are_read(tmp_path):
    rows = []
    for n in range(202):
        rows.append({"premise": f"a {n}", "hypothesis": "b", "label": f"class {n % 101}"})
    labelled = [row for row in rows if row["label"] != "class 100"]
    write_csv(tmp_path, {"train": labelled, "dev": rows[:100]})
    assert len(corpus(tmp_path).labels.names) == 100

    write_csv(tmp_path, {"train": rows})
    with pytest.raises(DataError, match=r"101 labels, and 2 to 100 are read"):
        corpus(tmp_path)


def test_a_partition_keeps_the_training_pairs_that_it_lists_and_dev_whole(tmp_path):
    rows = []
    for number, label in enumerate("ynyyn"):
        row = {"uid": f"t{number}", "premise": "a", "hypothesis": f"b {number}", "label": label}
        rows.append(row)
    dev = [row | {"uid": f"d{number}"} for number, row in enumerate(rows)]
    write_csv(tmp_path, {"train": rows, "dev": dev})
    part, other = tmp_path / "hard.txt", tmp_path / "other.txt"
    part.write_text("t4\nt0\nd1\n")
    other.write_text("t1\nx9\n")

    splits = corpus(tmp_path, partition=str(part)).splits()

    assert [example.uid for example in splits["train"].examples] == ["t0", "t4"]
    assert splits["train"].facts["labels"] == {"n": 1, "y": 1}
    assert len(splits["dev"]) == len(dev)
    with pytest.raises(DataError, match="1 of 2 ids belong to no pair"):
        corpus(tmp_path, partition=str(other)).splits()
