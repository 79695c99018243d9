"""Reading a file that takes long shows how far it is, by its bytes on disk; reading any other shows nothing."""

import gzip
import random
import re

import pytest
from test_encoding import Terminal

from mednli_jax import progress
from mednli_jax.corpora import lines
from mednli_jax.corpora.nli import formats as nli_formats

FACES = ("plain", "gzip")


@pytest.fixture(params=FACES)
def path(tmp_path, request):
    """3.2 MB on disk either way: hexadecimal digits that hardly compress below half."""
    draw = random.Random(0)
    text = b"".join(b"%x\n" % draw.getrandbits(800) for _ in range(16_000 if request.param == "plain" else 32_000))
    path = tmp_path / "corpus.txt"
    path.write_bytes(text if request.param == "plain" else gzip.compress(text, 1))
    assert 3_000_000 < path.stat().st_size < 4_500_000
    return path


@pytest.fixture
def slow(monkeypatch):
    """Every read counts as a long one, every file as a big one."""
    monkeypatch.setattr(lines, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(lines, "BIG", 1_000_000)


def positions(text, total):
    """Megabytes told, in their order."""
    return [int(done) for done in re.findall(rf"(?<!\d)(\d+)/{total}\b", text)]


def test_a_quick_read_says_nothing(path, monkeypatch, capsys):
    terminal = Terminal()
    assert sum(1 for _ in lines.text_lines(path)) in (16_000, 32_000)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    assert sum(1 for _ in lines.text_lines(path)) in (16_000, 32_000)
    assert terminal.text == ""


def test_a_slow_read_shows_a_bar_on_a_terminal(path, slow, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    assert sum(1 for _ in lines.text_lines(path)) in (16_000, 32_000)
    assert "reading corpus.txt" in terminal.text
    assert positions(terminal.text, -(-path.stat().st_size // 1_000_000))


def test_elsewhere_a_slow_read_says_a_line_now_and_then(path, slow, monkeypatch, capsys):
    assert sum(1 for _ in lines.text_lines(path)) in (16_000, 32_000)
    assert capsys.readouterr().err == ""  # not yet 15 seconds
    monkeypatch.setattr(progress, "PLAIN_SECONDS", -1.0)
    assert sum(1 for _ in lines.text_lines(path)) in (16_000, 32_000)
    total = -(-path.stat().st_size // 1_000_000)
    told = positions(capsys.readouterr().err, total)
    assert told == sorted(told)
    assert set(told) >= set(range(total))  # compressed or not, it is the position on disk


def test_a_reader_that_stops_early_ends_the_bar(path, slow, monkeypatch):
    terminal, ended = Terminal(), []
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setattr(progress.Bar, "__exit__", lambda self, *_: (ended.append(1), self._bar.stop()))
    for number, _ in lines.text_lines(path):
        if number == 2_000:
            break
    assert ended == [1]


def test_files_read_side_by_side_show_one_bar(tmp_path, slow, monkeypatch, capsys):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", -1.0)
    for name, line in (("s1", "a b\n"), ("s2", "c\n"), ("labels", "neutral\n")):
        (tmp_path / f"{name}.train").write_text(line * 1_000)
    assert sum(1 for _ in nli_formats.triple_rows(tmp_path / "s1.train")) == 1_000
    told = capsys.readouterr().err
    assert "reading s1.train" in told
    assert "s2.train" not in told
    assert "labels.train" not in told
