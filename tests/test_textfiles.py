"""Readers of text files and tables, and the bar of progress. test_readers.py has what every reader
refuses."""

import errno
import gzip
import hashlib

import pytest

from mednli_jax import files as textfiles
from mednli_jax import terminal as progress
from mednli_jax.errors import DataError, Problems


def test_lines_are_text_and_faulty_ones_are_collected_or_the_first_is_raised(tmp_path):
    path, digest = tmp_path / "x.txt", hashlib.sha256()
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfone\r\n\xe9\n\nf\xc3\xbcnf"))
    problems = Problems()
    assert list(textfiles.text_lines(path, problems, digest=digest)) == [
        (1, "one"),
        (3, ""),
        (4, "fünf"),
    ]
    with pytest.raises(DataError) as found:
        problems.raise_if_any()
    assert (found.value.file, found.value.line) == ("x.txt", 2)
    assert (
        digest.hexdigest() == hashlib.sha256(b"\xef\xbb\xbfone\n\xe9\n\nf\xc3\xbcnf\n").hexdigest()
    )
    with pytest.raises(DataError, match=r"x\.txt:2: "):
        list(textfiles.text_lines(path))
    with pytest.raises(DataError, match=r"a folder"):
        list(textfiles.byte_lines(tmp_path))


def test_records_may_span_lines_and_name_their_first(tmp_path):
    path, problems = tmp_path / "x.csv", Problems()
    path.write_text('"a","",,"b ""c"", d"\r\n\r\n"1\r\n2",b\n \n3,4\n5,"6\n7,8\n')
    records = list(textfiles.csv_records(path, problems))
    assert records == [(1, ["a", "", "", 'b "c", d']), (3, ["1\n2", "b"]), (6, ["3", "4"])]
    with pytest.raises(DataError) as found:
        problems.raise_if_any()
    assert found.value.line == 7


def test_elsewhere_a_line_comes_now_and_then(monkeypatch, capsys):
    with progress.Bar("epoch 1/6", 10, first=4) as bar:
        bar.advance(1)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(progress, "PLAIN_SECONDS", -1.0)
        bar.started -= 2.0
        bar.advance(1, "loss 1")
    assert capsys.readouterr().err == "epoch 1/6: 6/10 examples, 1/s, ETA 4 s  loss 1\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE])
def test_a_write_that_fails_while_a_file_is_open_is_no_fault_of_the_file(tmp_path, number):
    (tmp_path / "in.txt").write_text("a\n")
    with pytest.raises(OSError, match="standard output"), textfiles.opened(tmp_path / "in.txt"):
        raise OSError(number, "of standard output")
