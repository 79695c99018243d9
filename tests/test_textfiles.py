"""Readers of text files and tables, and the bar of progress. test_refusals.py has what every reader
refuses."""

import errno
import gzip
import hashlib

import pytest

from mednli_jax import terminal
from mednli_jax.errors import DataError, Problems
from mednli_jax.files import reading

MARK = b"\xef\xbb\xbf"


@pytest.fixture
def path(tmp_path):
    """A gzipped file with a byte order mark, both ends of lines and a line that is not UTF-8."""
    path = tmp_path / "x.txt"
    path.write_bytes(gzip.compress(MARK + b"head\r\n\xe9\n\nf\xc3\xbcnf"))
    return path


def test_lines_are_text_with_their_numbers_and_faulty_ones_are_collected(path):
    problems = Problems()
    assert list(reading.text_lines(path, problems)) == [
        (1, "head"),
        (3, ""),
        (4, "fünf"),
    ]

    with pytest.raises(DataError) as raised:
        problems.raise_if_any()
    assert raised.value.file == "x.txt"
    assert raised.value.line == 2


def test_the_digest_of_a_file_does_not_depend_on_its_ends_of_lines(path):
    digest = hashlib.sha256()
    list(reading.text_lines(path, Problems(), digest=digest))

    content = MARK + b"head\n\xe9\n\nf\xc3\xbcnf\n"
    assert digest.hexdigest() == hashlib.sha256(content).hexdigest()


def test_records_of_csv_may_span_lines_and_have_the_number_of_their_first(tmp_path):
    path = tmp_path / "x.csv"
    problems = Problems()
    path.write_text('"a","",,"b ""c"", d"\r\n\r\n"1\r\n2",b\n , ,\n3,4\n5,"6\n7,8\n')

    records = list(reading.csv_records(path, problems))
    assert records == [
        (1, ["a", "", "", 'b "c", d']),
        (3, ["1\n2", "b"]),
        (6, ["3", "4"]),
    ]
    with pytest.raises(DataError) as raised:
        problems.raise_if_any()
    assert raised.value.line == 7


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE])
def test_a_write_that_fails_while_a_file_is_open_is_no_fault_of_the_file(tmp_path, number):
    (tmp_path / "in.txt").write_text("a\n")

    with pytest.raises(OSError, match="standard output"), reading.open_binary(tmp_path / "in.txt"):
        raise OSError(number, "of standard output")


def test_a_log_gets_a_line_of_progress_now_and_then(monkeypatch, capsys):
    with terminal.Bar("epoch 1/6", 10, first=4) as bar:
        bar.advance(1)
        assert capsys.readouterr().err == ""

        monkeypatch.setattr(terminal, "PLAIN_SECONDS", -1.0)
        bar.started -= 2.0
        bar.advance(1, "loss 1")
    assert capsys.readouterr().err == "epoch 1/6: 6/10 examples, 1/s, ETA 4 s  loss 1\n"

    with terminal.Bar("compiling", None) as bar:
        bar.started -= 2.0
        bar.advance(0)
    assert capsys.readouterr().err == "compiling: 2 s\n"


def test_a_bar_shows_the_time_left_where_an_item_takes_long(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: now[0])
    with terminal.Bar("study", 4) as bar:
        for now[0] in (1000.0, 2000.0):
            bar.advance(1)

    assert bar._bar.tasks[0].time_remaining == 2000


def test_a_slow_rate_is_shown_as_seconds():
    assert terminal.rate_text(12.3) == "12/s"
    assert terminal.rate_text(0.4) == "2.5 s each"
