"""Partitions: files of ids as text and as arrays, the pairs that they name, and errors in them."""

import gzip
import io
import json

import made_up_runs
import numpy as np
import pytest

from mednli_jax.analysis.artifacts import tables as artifact_tables
from mednli_jax.corpora.nli.partitions import Partition, read_partition, read_partitions, uids_in
from mednli_jax.errors import DataError, DataErrors, RunError, UsageError

SPLITS = {"train": ("a", "b", "c"), "dev": ("d", "e"), "test": ("f", "g")}


def partition(*ids):
    return Partition("easy", "easy.txt", ids, tuple(range(1, len(ids) + 1)))


def array(tmp_path, value, name="ids.npy"):
    buffer = io.BytesIO()
    np.save(buffer, value, allow_pickle=True)
    path = tmp_path / name
    path.write_bytes(buffer.getvalue())
    return path


@pytest.mark.parametrize(
    "content", [b"x1\nx2\n\nx3\n", b"\xef\xbb\xbfx1\r\n x2 \r\n\r\nx3", gzip.compress(b"x1\nx2\n\nx3\n", mtime=0)]
)
def test_one_id_a_line(tmp_path, content):
    path = tmp_path / "easy.txt"
    path.write_bytes(content)
    found = read_partition(path)
    assert (found.name, found.file, found.ids, found.lines) == ("easy", "easy.txt", ("x1", "x2", "x3"), (1, 2, 4))


@pytest.mark.parametrize("kind", ["U", "S"])
def test_an_array_of_strings(tmp_path, kind):
    found = read_partition(array(tmp_path, np.array(["train0", "dev17"], kind)))
    assert (found.name, found.ids, found.lines) == ("ids", ("train0", "dev17"), (1, 2))


def test_other_arrays_are_refused(tmp_path):
    objects = np.array(["train0", None], dtype=object)  # only unpickling could read this array
    for value in (objects, np.arange(3), np.array([["a"], ["b"]]), np.array("a"), np.array([b"\xff\xfe"])):
        with pytest.raises(DataError) as caught:
            read_partition(array(tmp_path, value))
        assert (caught.value.file, caught.value.line) == ("ids.npy", None)


def test_a_repeated_id_is_named_by_its_line(tmp_path):
    path = tmp_path / "easy.txt"
    path.write_text("x1\nx2\nx1\n")
    with pytest.raises(DataError) as caught:
        read_partition(path)
    assert (caught.value.file, caught.value.line) == ("easy.txt", 3)
    with pytest.raises(DataErrors) as several:
        read_partition(array(tmp_path, np.array(["a", "a", "b", "b"])))
    assert [(error.file, error.line) for error in several.value.errors] == [("ids.npy", 2), ("ids.npy", 4)]


def test_several_are_told_apart(tmp_path):
    paths = [tmp_path / folder / "easy.txt" for folder in ("one", "two")]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        path.write_text(f"x{number}\n")
    (tmp_path / "hard.txt").write_text("x3\n")
    one, two, hard = map(str, (*paths, tmp_path / "hard.txt"))
    assert [part.name for part in read_partitions([one, hard])] == ["easy", "hard"]
    assert [part.name for part in read_partitions([one, two])] == [one, two]
    assert read_partitions([]) == []
    with pytest.raises(UsageError):
        read_partitions([one, hard, one])


def refused(line, ids, **options):
    """The message of the error, which must name the line of the first unknown id."""
    with pytest.raises(DataError) as caught:
        uids_in(ids, SPLITS, **options)
    assert (caught.value.file, caught.value.line) == ("easy.txt", line)
    return str(caught.value)


def test_uids_of_any_split_are_known():
    assert uids_in(partition("f", "a", "e"), SPLITS) == {"a", "e", "f"}


def test_unknown_ids_are_counted_and_not_quoted():
    message = refused(2, partition("f", "secret", "a", "other"))
    assert "2 of 4" in message
    assert "secret" not in message
    # with filtered=True the corpus may lack some pairs
    assert uids_in(partition("f", "secret"), SPLITS, filtered=True) == {"f"}
    refused(1, partition("other", "secret"), filtered=True)  # but not all pairs of the file


def test_ids_may_be_places():
    """In the published lists an id is a split and the number of a pair in its file, counted from 0."""
    assert uids_in(partition("train0", "train2", "dev1", "test0"), SPLITS) == {"a", "c", "e", "f"}
    refused(2, partition("train0", "train3"))
    refused(1, partition("train0", "dev1"), gaps={"train"})  # the reader left pairs out, so numbers are unknown


# positions over all splits
PUBLISHED = {"train": range(11_232), "dev": range(11_232, 12_627), "test": range(12_627, 14_049)}
POOLED = {split: tuple(f"uid-{place}" for place in places) for split, places in PUBLISHED.items()}


def test_the_published_lists_number_all_splits_together(tmp_path):
    """Arrays as published, over 14,049 made-up pairs: 9,463 easy and 4,586 difficult. Each id finds its pair."""
    ids = np.array([f"{split}{place}" for split, places in PUBLISHED.items() for place in places])
    is_easy = np.random.default_rng(0).permutation(len(ids)) < 9_463
    easy, difficult = (uids_in(read_partition(array(tmp_path, ids[chosen])), POOLED) for chosen in (is_easy, ~is_easy))
    assert easy == {f"uid-{place}" for place in np.flatnonzero(is_easy)}
    assert difficult == {f"uid-{place}" for place in np.flatnonzero(~is_easy)}
    # The same pairs, numbered from 0 in each split.
    ours = np.array([f"{split}{number}" for split, uids in POOLED.items() for number in range(len(uids))])
    assert uids_in(read_partition(array(tmp_path, ours[is_easy])), POOLED) == easy


def test_numbers_over_all_splits_are_those_of_whole_splits():
    assert uids_in(partition("train2", "dev3", "test5", "test6"), SPLITS) == {"c", "d", "f", "g"}
    for line, ids in ((2, ("train0", "dev2")), (3, ("dev3", "dev4", "dev5")), (1, ("test4", "test5"))):
        refused(line, partition(*ids))  # a number between two splits, or beyond the last
    # One file mixes both numberings: dev0 counts within its split, test5 over all splits.
    refused(2, partition("dev0", "test5"))
    # The reader left training pairs out, so numbers over all splits are unknown behind them.
    refused(1, partition("dev3"), gaps={"train"})
    assert uids_in(partition("train2", "dev3"), SPLITS, gaps={"test"}) == {"c", "d"}


def test_a_corpus_cut_short_does_not_lose_whole_splits():
    """train4 is beyond the limit and skipped. dev8 is refused, as the number of training pairs is unknown."""
    assert uids_in(partition("train0", "train4", "dev1"), SPLITS, filtered=True) == {"a", "e"}
    refused(2, partition("train0", "dev8"), filtered=True)


def test_numbers_that_count_from_two_places_are_refused():
    """With one training pair and three dev pairs, dev1 is the second of dev, or the first over all splits."""
    splits = {"train": ("a",), "dev": ("b", "c", "d")}
    with pytest.raises(DataError) as caught:
        uids_in(partition("dev1", "dev2"), splits)
    assert caught.value.file == "easy.txt"
    assert uids_in(partition("dev1", "dev3"), splits) == {"b", "d"}
    assert uids_in(partition("dev0", "dev2"), splits) == {"b", "d"}


def test_one_uid_makes_all_ids_uids():
    refused(2, partition("a", "train1"))
    named = {"train": ("dev0", "dev1"), "dev": ("x", "y")}
    assert uids_in(partition("dev0"), named) == {"dev0"}


# ---- tables ----


def test_the_papers_tables_from_runs_and_partitions(tmp_path):
    """Tables 1, 2 and 6 show per cent beside the paper's figures, and the mean confusion of two seeds."""
    made_up_runs.write_run(tmp_path / "hypothesis", "eeennnccc", "eeennnnnn")
    whole, easy = made_up_runs.scores("eeennnccc", ["eeennnccc", "eeennnnnn"]), made_up_runs.scores("een", ["eee"])
    scores = json.dumps({**whole, "partitions": {"easy": easy, "difficult": {"examples": 0}}})
    for name in ("hypothesis", "pair"):
        for split in ("dev", "test"):
            (tmp_path / f"partition-{name}-{split}.json").write_text(scores)
    lines = list(artifact_tables.lines(tmp_path))
    assert "| fastText | 83.3 (64.8) | 83.3 (62.6) |" in lines  # 9 and 6 of 9 are right
    assert "| majority class | 33.3 (33.3) | 33.3 (33.3) |" in lines
    assert "| contradiction | 0 (69) | 2 (60) | 2 (345) |" in lines  # 3 in one seed and none in the other
    row = "| no premise | fastText | dev | 83.3 (9) | 66.7 (3) | - (0) | 65 | 67 | 46 |"
    assert row in lines
    assert "| with premise | majority | test | 33.3 (9) | 66.7 (3) | - (0) | 33 | 48 | 37 |" in lines
    # (.67 x 803 + .46 x 592) / 1,395 and (.65 x 773 + .40 x 649) / 1,422, with the sizes of the published lists.
    assert "dev 58, not 65; test 54, not 63" in lines[-1]
    assert any("raw text" in line and "Table 6" in line for line in lines)
    for split in ("dev", "test"):
        merged = {**json.loads(scores), "merged_by": "spans.tsv"}
        (tmp_path / f"partition-hypothesis-{split}.json").write_text(json.dumps(merged))
    assert any("raw text and entities of spans.tsv" in line for line in artifact_tables.lines(tmp_path))
    (tmp_path / "partition-pair-test.json").unlink()
    with pytest.raises(RunError, match=r".*partition-pair-test.json"):
        list(artifact_tables.lines(tmp_path))
