"""The reader of text files: what it yields, what it refuses, and the progress bar for slow files."""

import gzip
import hashlib
import random
import re
from pathlib import Path

import pytest
from test_encoding import Terminal

from mednli_jax import progress, textfiles
from mednli_jax.corpora.nli import formats as nli_formats
from mednli_jax.errors import DataError, Problems


@pytest.mark.parametrize("zipped", [False, True])
def test_a_long_line_is_passed_over_in_bounded_memory(tmp_path, zipped):
    path = tmp_path / "lines.txt"
    content = b"abcd\r\n" + b"x" * 50 + b"\n\nlast"
    path.write_bytes(gzip.compress(content) if zipped else content)
    found = list(textfiles.byte_lines(path, max_bytes=6))
    assert found == [(1, b"abcd"), (2, None), (3, b""), (4, b"last")]


def refused(path, read=textfiles.text_lines):
    with pytest.raises(DataError) as caught:
        list(read(path))
    assert caught.value.fix
    return caught.value.file, caught.value.line


def test_files_that_cannot_be_read(tmp_path):
    content = gzip.compress(b"\n".join(b"%d" % (number * 7919) for number in range(5000)))
    (tmp_path / "half.gz").write_bytes(content[: len(content) // 2])
    (tmp_path / "checksum").write_bytes(content[:-8] + bytes(8))
    (tmp_path / "plain.gz").write_bytes(b"text")
    (tmp_path / "bomb").write_bytes(gzip.compress(bytes(10 * textfiles.FREE_GROWTH)))
    for name in ("half.gz", "checksum", "plain.gz", "bomb", "absent"):
        assert refused(tmp_path / name, textfiles.byte_lines) == (name, None)
    (tmp_path / "folder").mkdir()
    for read in (textfiles.check_readable, textfiles.byte_lines):
        assert refused(tmp_path / "folder", read) == ("folder", None)


def test_a_path_that_is_not_there_may_have_meant_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ABSENT", raising=False)
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "glove.6B.100d.txt").touch()
    for given, named in (
        ("vectors/glove.6b.100D.txt", "glove.6B.100d.txt"),
        ("vectors/glove.6B.100.txt", "glove.6B.100d.txt"),
        ("vector/glove.6B.100d.txt", "vectors"),
        ("other/glove.6B.100d.txt", str(tmp_path / "other")),
        ("$ABSENT/glove.6B.100d.txt", "$ABSENT"),
    ):
        assert named in textfiles.meant(Path(given)), given
    assert textfiles.meant(tmp_path / "vectors" / "quokka") == ""


def test_faulty_lines_are_collected_or_the_first_is_raised(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\xe9\nth\0ree\n" + b"4" * (textfiles.MAX_LINE_BYTES + 1) + "\nfünf".encode())
    problems, digest = Problems(), hashlib.sha256()
    assert list(textfiles.text_lines(path, problems, digest=digest)) == [(1, "one"), (5, "fünf")]
    assert [(error.file, error.line) for error in problems.first] == [("x.txt", number) for number in (2, 3, 4)]
    assert refused(path) == ("x.txt", 2)


def test_the_fault_of_several_lines_together_names_its_own():
    for data, line in ((b"a\nb\n\xe9c", 9), (b"a\n\0", 8), (b"\xe9\0", 7)):
        with pytest.raises(DataError) as caught:
            textfiles.decoded("x", 7, data)
        assert caught.value.line == line


def test_rows_of_a_table_have_the_width_of_its_header():
    records = [(1, [" a", "b ", "spare"]), (2, ["1", "2"]), (3, ["1", "2", "3", "4"]), (4, ["1"])]

    def rows(columns, spare, problems):
        return list(textfiles.table_rows("x.csv", records, problems, columns, spare))

    problems = Problems()
    assert rows(lambda number, header: header, "spare", problems) == [(2, {"a": "1", "b": "2"})]
    assert [error.line for error in problems.first] == [3, 4]

    def refuse(number, header):
        raise textfiles.line_fault("x.csv", number, f"{len(header)} names")

    problems = Problems()
    assert rows(refuse, "", problems) == []  # no row can be read without a header
    assert [error.line for error in problems.first] == [1]
    assert rows(lambda number, header: header, "", problems) == []


# ---- the bar ----

FACES = ("plain", "gzip")


@pytest.fixture(params=FACES)
def path(tmp_path, request):
    """A plain or a compressed file of at least 3 MB on disk; hexadecimal digits compress to about half."""
    draw = random.Random(0)
    text = b"".join(b"%x\n" % draw.getrandbits(800) for _ in range(16_000 if request.param == "plain" else 32_000))
    path = tmp_path / "corpus.txt"
    path.write_bytes(text if request.param == "plain" else gzip.compress(text, 1))
    assert 3_000_000 < path.stat().st_size < 4_500_000
    return path


@pytest.fixture
def slow(monkeypatch):
    """Every read counts as slow and every file as large."""
    monkeypatch.setattr(textfiles, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(textfiles, "BIG", 1_000_000)


def positions(text, total):
    """The megabytes that the bar showed, in order."""
    return [int(done) for done in re.findall(rf"(?<!\d)(\d+)/{total}\b", text)]


def test_a_quick_read_says_nothing(path, monkeypatch, capsys):
    terminal = Terminal()
    assert sum(1 for _ in textfiles.text_lines(path)) in (16_000, 32_000)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    assert sum(1 for _ in textfiles.text_lines(path)) in (16_000, 32_000)
    assert terminal.text == ""


def test_a_slow_read_shows_a_bar_on_a_terminal(path, slow, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    assert sum(1 for _ in textfiles.text_lines(path)) in (16_000, 32_000)
    assert "reading corpus.txt" in terminal.text
    assert positions(terminal.text, -(-path.stat().st_size // 1_000_000))


def test_elsewhere_a_slow_read_says_a_line_now_and_then(path, slow, monkeypatch, capsys):
    assert sum(1 for _ in textfiles.text_lines(path)) in (16_000, 32_000)
    assert capsys.readouterr().err == ""  # less than 15 seconds have passed
    monkeypatch.setattr(progress, "PLAIN_SECONDS", -1.0)
    assert sum(1 for _ in textfiles.text_lines(path)) in (16_000, 32_000)
    total = -(-path.stat().st_size // 1_000_000)
    shown = positions(capsys.readouterr().err, total)
    assert shown == sorted(shown)
    assert set(shown) >= set(range(total))  # the position on disk counts, compressed or not


def test_a_reader_that_stops_early_ends_the_bar(path, slow, monkeypatch):
    terminal, ended = Terminal(), []
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setattr(progress.Bar, "__exit__", lambda self, *_: (ended.append(1), self._bar.stop()))
    for number, _ in textfiles.text_lines(path):
        if number == 2_000:
            break
    assert ended == [1]


def test_files_read_side_by_side_show_one_bar(tmp_path, slow, monkeypatch, capsys):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", -1.0)
    for name, line in (("s1", "a b\n"), ("s2", "c\n"), ("labels", "neutral\n")):
        (tmp_path / f"{name}.train").write_text(line * 1_000)
    assert sum(1 for _ in nli_formats.triple_rows(tmp_path / "s1.train", Problems())) == 1_000
    shown = capsys.readouterr().err
    assert "reading s1.train" in shown
    assert "s2.train" not in shown
    assert "labels.train" not in shown
