"""Prepared folders are found by their key, never read when damaged, never half-written, and
private."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.commands import ROOT
from support.files import write
from support.ontologies import LINKER
from support.pairs import ENCODING, KEY, SPLITS, Builder, words_of

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.cache import Cache
from mednli_jax.data.examples import LABELS
from mednli_jax.data.text import Vocab
from mednli_jax.nli.encoding import encode_corpus


def assert_same(a, b):
    np.testing.assert_equal((dict(a.arrays), a.vectors), (dict(b.arrays), b.vectors))
    assert a.manifest == b.manifest


def test_second_call_is_a_hit_and_builds_nothing(tmp_path):
    build, cache = Builder(), Cache(tmp_path)
    first, hit = cache.get("c", KEY, build)
    assert (hit, build.calls) == (False, 1)
    second, hit = Cache(tmp_path).get("c", dict(reversed(KEY.items())), build)
    assert (hit, build.calls) == (True, 1)
    assert_same(first, second)
    arrays, _, vectors, _ = encode_corpus(SPLITS, LINKER, ENCODING)
    np.testing.assert_equal((dict(second.arrays), second.vectors), (arrays, vectors))
    other, hit = cache.get(
        "c", {**KEY, "max_length": 2}, Builder(encoding=replace(ENCODING, max_length=2))
    )
    assert (hit, other.arrays["premise"].shape[1]) == (False, 2)
    assert cache.get("c", KEY, build)[1]  # the old one stays beside it


def test_rows_of_each_split_stand_where_the_split_says(tmp_path):
    """The names sort as dev, test, train, but the rows keep the order train, dev, test."""
    prepared, _ = Cache(tmp_path).get("c", KEY, Builder())
    assert list(prepared.splits) == ["train", "dev", "test"]
    vocab = Vocab.load(prepared.folder / "vocabulary.json")
    for name, split in SPLITS.items():
        rows = prepared.splits[name]
        assert (rows.name, len(rows)) == (name, len(split))
        assert rows.uids == tuple(e.uid for e in split.examples)
        assert rows.tags == tuple(e.tags for e in split.examples)
        assert [LABELS[n] if n >= 0 else "" for n in rows.label] == [
            e.label for e in split.examples
        ]
        for place, example in enumerate(split.examples):
            for side, length in zip(SIDES, rows.length, strict=True):
                numbers = prepared.arrays[side][rows.first + place][: length[place]]
                assert words_of(numbers, vocab) == [
                    token.lower() for token in getattr(example, f"{side}_tokens")
                ]


@pytest.mark.parametrize("name", ["manifest.json", "rows.json", "vocabulary.json", "vectors.npy"])
@pytest.mark.parametrize("damage", ["flipped", "missing", "cut"])
def test_a_damaged_file_is_noticed_and_made_again(tmp_path, capsys, name, damage):
    build, cache = Builder(), Cache(tmp_path)
    first, _ = cache.get("c", KEY, build)
    path = first.folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.unlink()  # arrays that were mapped before keep their content
    if damage != "missing":
        path.write_bytes(data[:-2] if damage == "cut" else data)
    again, hit = cache.get("c", KEY, build)
    assert (hit, build.calls) == (False, 2)
    assert_same(first, again)
    assert str(first.folder) in capsys.readouterr().err


WRITER = """
import os, sys, time
from pathlib import Path
from support.pairs import Builder, KEY
from mednli_jax.data.cache import Cache

place, name = Path(sys.argv[1]), sys.argv[2]

def build():  # ends in both processes at once
    built = Builder()()
    (place / name).touch()
    while len(list(place.glob("writer*"))) < 2:
        time.sleep(0.001)
    return built

prepared, hit = Cache(place / "cache").get("c", KEY, build)
print(os.getpid(), hit, sorted(prepared.arrays))
"""
OWN_PROCESS_IDS = ("unshare", "--pid", "--fork")  # as in a container


def can_have_own_process_ids():
    try:
        return subprocess.run([*OWN_PROCESS_IDS, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(
    not can_have_own_process_ids(), reason="needs `unshare --pid`, and the right to use it"
)
def test_two_containers_that_share_a_cache_prepare_one_corpus_at_once(tmp_path):
    command = [*OWN_PROCESS_IDS, sys.executable, "-c", WRITER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests")))}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    writers = [
        subprocess.Popen([*command, f"writer{n}"], env=environment, **pipes) for n in range(2)
    ]
    outputs = [writer.communicate(timeout=120) for writer in writers]
    expected = f"1 False {sorted(encode_corpus(SPLITS, LINKER, ENCODING)[0])}\n"
    assert outputs == [(expected, "")] * 2
    assert Cache(tmp_path / "cache").get("c", KEY, Builder())[1]
    assert [path.name[:2] for path in sorted((tmp_path / "cache" / "prepared").iterdir())] == [
        ".g",
        "c-",
    ]


def test_digests_are_of_the_content_of_each_file_and_remembered(tmp_path, monkeypatch):
    """Files of two folders may have one name; a change of the same size under the same date is
    noticed."""
    sources = [write(tmp_path / folder / "a.txt", "first") for folder in ("one", "two")]
    digest = hashlib.sha256(b"first").hexdigest()
    cache = Cache(tmp_path / "cache")
    assert cache.digests(sources) == {"a.txt": digest + digest}
    with monkeypatch.context() as patch:
        patch.setattr("mednli_jax.data.cache.sha256", None)
        assert Cache(tmp_path / "cache").digests(sources) == {"a.txt": digest + digest}
    for number, source in enumerate(sources, 1):
        date = source.stat().st_mtime_ns
        source.write_text("other")
        os.utime(source, ns=(date, date))
        assert cache.digests(sources)["a.txt"].count(digest) == 2 - number
