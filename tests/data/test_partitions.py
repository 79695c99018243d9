"""Partitions: files of ids as text and as arrays, the pairs that they name, and errors in them."""

import gzip
import json

import numpy as np
import pytest
from support import runs
from support.commands import call_command
from support.files import write

from mednli_jax.artifacts import tables
from mednli_jax.cli import read_config
from mednli_jax.data.partitions import Partition, read_partition, read_partitions, uids_in
from mednli_jax.errors import DataError, UsageError
from mednli_jax.report import __main__ as report
from mednli_jax.report.options import TableOptions
from mednli_jax.report.sections import markdown_text

SPLITS = {"train": ("a", "b", "c"), "dev": ("d", "e"), "test": ("f", "g")}


def partition(*ids):
    return Partition("easy", "easy.txt", ids, tuple(range(1, len(ids) + 1)))


def array(tmp_path, value):
    np.save(tmp_path / "ids.npy", value, allow_pickle=True)
    return tmp_path / "ids.npy"


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbfx1\r\n x2 \r\n\r\nx3", gzip.compress(b"x1\nx2\n\nx3\n", mtime=0)]
)
def test_one_id_a_line(tmp_path, content):
    found = read_partition(write(tmp_path / "easy.txt", content))
    assert (found.name, found.file, found.ids, found.lines) == (
        "easy",
        "easy.txt",
        ("x1", "x2", "x3"),
        (1, 2, 4),
    )


def test_arrays_of_strings_and_others(tmp_path):
    for kind in "US":
        found = read_partition(array(tmp_path, np.array(["train0", "dev17"], kind)))
        assert (found.name, found.ids, found.lines) == ("ids", ("train0", "dev17"), (1, 2))
    objects = np.array(["train0", None], dtype=object)  # only unpickling could read this array
    for value in (objects, np.arange(3), np.array([["a"], ["b"]]), np.array([b"\xff\xfe"])):
        with pytest.raises(DataError) as caught:
            read_partition(array(tmp_path, value))
        assert (caught.value.file, caught.value.line) == ("ids.npy", None)


def test_several_are_told_apart(tmp_path):
    names = ("one/easy.txt", "two/easy.txt", "hard.txt")
    one, two, hard = (str(write(tmp_path / name, f"{name}\n")) for name in names)
    assert [part.name for part in read_partitions([one, hard])] == ["easy", "hard"]
    assert [part.name for part in read_partitions([one, two])] == [one, two]
    assert read_partitions([]) == []
    with pytest.raises(UsageError):
        read_partitions([one, hard, one])


NAMED = {"train": ("dev0", "dev1"), "dev": ("x", "y")}


@pytest.mark.parametrize(
    ("ids", "how", "expected"),
    [
        ("f a e", {}, "f a e"),
        ("f secret", {"filtered": True}, "f"),  # a filtered corpus may lack some pairs
        ("train2 dev3 test5 test6", {}, "c d f g"),  # its number over all splits, as published
        ("train2 dev3", {"gaps": {"test"}}, "c d"),
        ("dev0", {"splits": NAMED}, "dev0"),  # one uid makes all ids uids
    ],
)
def test_ids_are_uids_or_numbers(ids, how, expected):
    assert uids_in(partition(*ids.split()), **{"splits": SPLITS, **how}) == set(expected.split())


@pytest.mark.parametrize(
    ("ids", "line", "how"),
    [
        ("f secret a other", 2, {}),
        ("other secret", 1, {"filtered": True}),  # all ids are unknown
        (
            "train0 dev3",
            1,
            {"gaps": {"train"}},
        ),  # the reader left pairs out, so numbers are unknown
        ("train0 dev2", 2, {}),  # a number between two splits
    ],
)
def test_ids_of_no_pair_are_counted_and_not_quoted(ids, line, how):
    with pytest.raises(DataError) as caught:
        uids_in(partition(*ids.split()), **{"splits": SPLITS, **how})
    assert (caught.value.file, caught.value.line) == ("easy.txt", line)
    assert "secret" not in str(caught.value)


def artifact_lines(folder, read):
    return markdown_text(tables.filled(folder, TableOptions(read)).sections).splitlines()


def test_the_papers_tables_from_runs_and_partitions(tmp_path):
    """Tables 1, 2 and 6 show per cent beside the paper's figures, and the mean confusion of two
    seeds."""
    runs.write_run(tmp_path / "hypothesis", "eeennnccc", "eeennnnnn", corpus="mednli")
    whole, easy = (
        runs.scores("eeennnccc", ["eeennnccc", "eeennnnnn"]),
        runs.scores("een", ["eee"]),
    )
    whole["corpus"] = "mednli"
    scores = json.dumps({**whole, "partitions": {"easy": easy, "difficult": {"examples": 0}}})
    for name in ("hypothesis", "pair"):
        for split in ("dev", "test"):
            (tmp_path / f"partition-{name}-{split}.json").write_text(scores)
    lines = list(artifact_lines(tmp_path, read_config))
    assert "| fastText | 83.3 (64.8) | 83.3 (62.6) |" in lines  # 9 and 6 of 9 are right
    assert "| majority class | 33.3 (33.3) | 33.3 (33.3) |" in lines
    assert (
        "| contradiction | 0 (69) | 2 (60) | 2 (345) |" in lines
    )  # 3 in one seed and none in the other
    row = "| no premise | fastText | dev | 83.3 (9) | 66.7 (3) | - (0) | 65 | 67 | 46 |"
    assert row in lines
    assert (
        "| with premise | majority | test | 33.3 (9) | 66.7 (3) | - (0) | 33 | 48 | 37 |" in lines
    )
    assert any("raw text" in line and "Table 6" in line for line in lines)
    code, out, _ = call_command(report, "--table=artifacts", f"--runs={tmp_path}", "--markdown")
    assert (code, set(filter(None, lines)) <= set(out.splitlines())) == (0, True)
    assert (
        call_command(report, "--table=artifacts", f"--runs={tmp_path}", "--public")[0] == 2
    )  # counts of few pairs
    facts = dict.fromkeys(("merged", "merged_without_own_vector", "without_vector", "tokens"), 0)
    facts |= {
        "kind": "mean vectors",
        "vectors": "mimic.vec",
        "dim": 8,
        "entities": "parts",
        "unknown": "zero",
    }
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis" / "aflite.json").write_text(
        json.dumps({"features": facts, "merged_by": "spans.tsv"})
    )
    (filtered,) = (
        line for line in artifact_lines(tmp_path, read_config) if line.startswith("Filtering")
    )
    assert all(text in filtered for text in ("no premise", "mimic.vec", "spans.tsv"))
    for split in ("dev", "test"):
        merged = {**json.loads(scores), "merged_by": "spans.tsv"}
        (tmp_path / f"partition-hypothesis-{split}.json").write_text(json.dumps(merged))
    assert any(
        "raw text and entities of spans.tsv" in line
        for line in artifact_lines(tmp_path, read_config)
    )
    (tmp_path / "partition-pair-test.json").unlink()
    (lacking,) = (
        line for line in artifact_lines(tmp_path, read_config) if line.startswith("Table 6")
    )
    assert "partition-pair-test.json: no such file" in lacking
