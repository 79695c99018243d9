"""Reading tables in blocks of any size gives what a plain reading of the lines gives."""

import hashlib

import numpy as np
import pytest

from mednli_jax.errors import DataError
from mednli_jax.knowledge.readers import row_blocks as blocks
from mednli_jax.knowledge.readers.row_blocks import Edges, RowFile
from mednli_jax.knowledge.string_arrays import Relations

COLUMNS = ("one", "two", "three")
WORDS = ["", " ", "N", "NN", "isa", "is", "is a", "naïve", "  x", "C0000001", "17", "999999999999999999", "é"]

LAYOUTS = [(True, False, "\n"), (True, False, "\r\n"), (False, True, "\n"), (False, True, "\r\n")]


def rows_of(seed, count=300):
    random = np.random.default_rng(seed)
    return [[WORDS[index] for index in random.integers(len(WORDS), size=3)] for _ in range(count)]


def written(folder, rows, closed=True, header=False, end="\n", *, last=True):
    """Writes the table of `rows` to a file. last: whether its last line has a line break."""
    mark = "|" if closed else "\t"
    lines = [mark.join(row) + (mark if closed else "") for row in ([COLUMNS] if header else []) + rows]
    path = folder / "table.txt"
    path.write_bytes((end.join(lines) + (end if last else "")).encode())
    return RowFile(path, COLUMNS, mark.encode(), closed=closed, header=header)


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 24])
@pytest.mark.parametrize(
    ("closed", "header", "end"), [(True, False, "\n"), (True, False, "\r\n"), (False, True, "\r\n")]
)
def test_columns_are_those_of_the_lines(size, closed, header, end, tmp_path, monkeypatch):
    rows = rows_of(size)
    rows[-1] = ["N", "isa", "17"]  # a last line of empty fields without a break would be no line
    table, place = written(tmp_path, rows, closed, header, end, last=False), 0
    monkeypatch.setattr(blocks, "BLOCK_BYTES", max(size, 70))
    for block in table.blocks(hashlib.sha256()):
        own = rows[place : place + len(block)]
        chosen = np.arange(0, len(block), 3)
        assert block.lines().tolist() == [1 + header + place + number for number in range(len(own))]
        assert block.lines(chosen).tolist() == block.lines()[::3].tolist()
        for number, column in enumerate(COLUMNS):
            fields = [row[number] for row in own]
            assert block.texts(column) == fields
            assert block.texts(column, chosen) == fields[::3]
            assert block.is_any(column, (b"N", b"isa", b"")).tolist() == [x in ("N", "isa", "") for x in fields]
            assert block.is_any(column, ("é".encode(),), chosen).tolist() == [x == "é" for x in fields[::3]]
            assert block.is_empty(column).tolist() == [not x.strip() for x in fields]
        place += len(block)
    assert place == len(rows)


def test_the_digest_is_of_the_contents_alone(tmp_path, monkeypatch):
    table = written(tmp_path, rows_of(0))
    digests = []
    for size in (100, 1 << 24):
        monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
        digests.append(hashlib.sha256())
        assert sum(len(block) for block in table.blocks(digests[-1])) == 300
    assert digests[0].digest() == digests[1].digest()


def test_numbers(tmp_path):
    table = written(tmp_path, [["C0000001", "17", "1"], ["C1234567", "999999999999999999", "007"]])
    (block,) = table.blocks(hashlib.sha256())
    assert block.numbers("one", prefix=b"C", digits=7).tolist() == [1, 1234567]
    assert block.numbers("two").tolist() == [17, 999999999999999999]
    assert block.numbers("three", np.array([1])).tolist() == [7]
    assert block.numbers("three", np.array([], int)).tolist() == []


@pytest.mark.parametrize("field", ["", "C", "C123456", "C12345678", "D1234567", "C12345 7", "C123456é", "c1234567"])
def test_other_fields_are_no_numbers(field, tmp_path):
    (block,) = written(tmp_path, [["C0000001", "1", "1"], [field, "1", "1"]]).blocks(hashlib.sha256())
    with pytest.raises(DataError) as caught:
        block.numbers("one", prefix=b"C", digits=7)
    assert (caught.value.file, caught.value.line, caught.value.field) == ("table.txt", 2, "one")
    assert block.numbers("one", np.array([0]), prefix=b"C", digits=7).tolist() == [1]


def test_relations_by_name_merge_kinds_of_one_name_and_count_an_edge_once():
    edges = Edges()
    edges.add(np.array([0, 2, 0]), np.array([1, 1, 1]), np.array([1, 2, 3]), np.array([0, 2, 0]))
    edges.add(np.array([2]), np.array([0]), np.array([4]), 1)
    more = {"circle": np.array([[1, 2, 1], [2, 1, 2]]), "whole": np.array([[2], [0]])}
    found = edges.by_name(["part", "whole", "part"], 3, more)
    assert isinstance(found, Relations)
    assert {name: np.argwhere(matrix.toarray()).tolist() for name, matrix in found.items()} == {
        "circle": [[1, 2], [2, 1]],
        "part": [[0, 1], [2, 1]],
        "whole": [[2, 0]],
    }
    assert len(Edges().by_name([], 3, {})) == 0
