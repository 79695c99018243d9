"""Partitions: files of ids as text and as arrays, the pairs that they name, and the paper's tables
from them."""

import json

import numpy as np
import pytest
from support import runs
from support.cases import cases
from support.commands import refused, succeeds
from support.files import write

from mednli_jax.data.partitions import Partition, read_partition, read_partitions, uids_in_splits
from mednli_jax.errors import DataError


def test_a_partition_is_a_file_with_one_id_a_line(tmp_path):
    path = write(tmp_path / "easy.txt", b"\xef\xbb\xbfx1\r\n x2 \r\n\r\nx3")

    partition = Partition("easy", "easy.txt", ("x1", "x2", "x3"), (1, 2, 4))
    assert read_partition(path) == partition


def array_file(folder, array):
    np.save(folder / "ids.npy", array, allow_pickle=True)
    return folder / "ids.npy"


@pytest.mark.parametrize("kind", "US")
def test_a_partition_may_be_an_array_of_strings(tmp_path, kind):
    partition = read_partition(array_file(tmp_path, np.array(["train0", "dev17"], kind)))

    assert partition == Partition("ids", "ids.npy", ("train0", "dev17"), (1, 2))


@cases(
    "array",
    {
        "objects": np.array(["a", None], object),
        # only unpickling could read it
        "numbers": np.arange(3),
        "two-dimensions": np.array([["a"], ["b"]]),
        "no-utf8": np.array([b"\xff\xfe"]),
    },
)
def test_an_array_of_anything_else_is_refused(tmp_path, array):
    with pytest.raises(DataError) as caught:
        read_partition(array_file(tmp_path, array))

    assert caught.value.file == "ids.npy"
    assert caught.value.line is None


def test_partitions_have_the_names_of_their_files_or_their_paths_where_these_are_equal(tmp_path):
    paths = [tmp_path / name for name in ("one/easy.txt", "two/easy.txt", "hard.txt")]
    easy, same_name, hard = (str(write(path, f"{path}\n")) for path in paths)

    def names(*files):
        return [partition.name for partition in read_partitions(list(files))]

    assert names(easy, hard) == ["easy", "hard"]
    assert names(easy, same_name) == [easy, same_name]
    assert names() == []


SPLITS = {"train": ("a", "b", "c"), "dev": ("d", "e"), "test": ("f", "g")}
NAMED = {"train": ("dev0", "dev1"), "dev": ("x", "y")}


def uids(ids, splits=SPLITS, **options):
    ids = tuple(ids.split())
    lines = tuple(range(1, len(ids) + 1))
    return uids_in_splits(Partition("easy", "easy.txt", ids, lines), splits=splits, **options)


@pytest.mark.parametrize(
    "ids, options, pairs",
    [
        ("f a e", {}, "f a e"),
        ("f secret", {"filtered": True}, "f"),  # a filtered corpus may lack some pairs
        ("train2 dev3 test5 test6", {}, "c d f g"),  # its number over all splits, as published
        ("train2 dev3", {"gaps": {"test"}}, "c d"),
        ("dev0", {"splits": NAMED}, "dev0"),  # one uid makes all ids uids
    ],
)
def test_ids_are_uids_or_numbers_over_all_splits(ids, options, pairs):
    assert uids(ids, **options) == set(pairs.split())


@pytest.mark.parametrize(
    "ids, line, options",
    [
        ("f secret a other", 2, {}),
        ("other secret", 1, {"filtered": True}),  # all ids are unknown
        ("train0 dev3", 1, {"gaps": {"train"}}),  # its reader left pairs out: numbers are unknown
        ("train0 dev2", 2, {}),  # a number between two splits
    ],
)
def test_ids_of_no_pair_are_refused_by_line_and_not_quoted(ids, line, options):
    with pytest.raises(DataError) as caught:
        uids(ids, **options)

    assert caught.value.file == "easy.txt"
    assert caught.value.line == line
    assert "secret" not in str(caught.value)


# -- the paper's tables --


@pytest.fixture
def folder(tmp_path):
    """A run, and evaluations of partitions in which two seeds have 9 and 6 of 9 pairs right."""
    runs.write_run(tmp_path / "hypothesis", "eeennnccc", "eeennnnnn", corpus="mednli")
    evaluation = {
        **runs.scores("eeennnccc", ["eeennnccc", "eeennnnnn"]),
        "corpus": "mednli",
        "partitions": {"easy": runs.scores("een", ["eee"]), "difficult": {"examples": 0}},
    }
    for model in ("hypothesis", "pair"):
        for split in ("dev", "test"):
            path = tmp_path / f"partition-{model}-{split}.json"
            path.write_text(json.dumps(evaluation))
    return tmp_path


def lines_of_tables(folder):
    out, _ = succeeds("report --table=artifacts --markdown", f"--runs={folder}")
    return out.splitlines()


def test_tables_1_2_and_6_show_percent_beside_the_paper_and_the_mean_confusion(folder):
    lines = lines_of_tables(folder)

    for line in (
        "| fastText | 83.3 (64.8) | 83.3 (62.6) |",
        "| majority class | 33.3 (33.3) | 33.3 (33.3) |",
        "| contradiction | 0 (69) | 2 (60) | 2 (345) |",  # 3 in one seed and none in the other
        "| no premise | fastText | dev | 83.3 (9) | 66.7 (3) | - (0) | 65 | 67 | 46 |",
        "| with premise | majority | test | 33.3 (9) | 66.7 (3) | - (0) | 33 | 48 | 37 |",
    ):
        assert line in lines
    assert any("raw text" in line and "Table 6" in line for line in lines)


def test_counts_of_few_pairs_are_not_public(folder):
    assert "--public" in refused("report --table=artifacts --public", f"--runs={folder}")


def test_the_note_on_filtering_names_vectors_and_the_table_of_entities(folder):
    features = dict.fromkeys(("merged", "merged_without_own_vector", "without_vector", "tokens"), 0)
    features |= {"vectors": "mimic.vec", "dim": 8, "entities": "parts"}
    filtering = {"features": features, "merged_by": "spans.tsv"}
    write(folder / "analysis" / "aflite.json", json.dumps(filtering))

    (note,) = (line for line in lines_of_tables(folder) if line.startswith("Filtering"))

    for words in ("no premise", "mimic.vec", "spans.tsv"):
        assert words in note


def test_the_note_on_table_6_names_the_table_of_entities(folder):
    for split in ("dev", "test"):
        path = folder / f"partition-hypothesis-{split}.json"
        evaluation = json.loads(path.read_text())
        path.write_text(json.dumps({**evaluation, "merged_by": "spans.tsv"}))

    assert any("raw text and entities of spans.tsv" in line for line in lines_of_tables(folder))


def test_a_missing_evaluation_is_named(folder):
    (folder / "partition-pair-test.json").unlink()

    (note,) = (line for line in lines_of_tables(folder) if line.startswith("Table 6"))

    assert "partition-pair-test.json: no such file" in note
