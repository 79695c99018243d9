"""Prepared folders are found by their key, never read when damaged, never half-written, and
private."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from support.files import write
from support.ontologies import LINKER
from support.pairs import ENCODING, KEY, SPLITS, Builder, encode_corpus, words_of

from mednli_jax.data.arrays import SIDES
from mednli_jax.data.cache import Cache
from mednli_jax.data.examples import LABELS
from mednli_jax.data.text import Vocab


def assert_same(first, second):
    np.testing.assert_equal(dict(first.arrays), dict(second.arrays))
    np.testing.assert_array_equal(first.vectors, second.vectors)
    assert first.manifest == second.manifest


def test_a_corpus_that_is_prepared_again_comes_from_the_cache(tmp_path):
    build = Builder()
    first, first_hit = Cache(tmp_path).get("c", KEY, build)

    second, second_hit = Cache(tmp_path).get("c", dict(reversed(KEY.items())), build)

    assert not first_hit
    assert second_hit
    assert build.calls == 1
    assert_same(first, second)


def test_rows_of_each_split_stand_where_the_split_says(tmp_path):
    """The names sort as dev, test, train, but the rows keep the order train, dev, test."""
    prepared, _ = Cache(tmp_path).get("c", KEY, Builder())
    vocab = Vocab.load(prepared.folder / "vocabulary.json")

    assert list(prepared.splits) == ["train", "dev", "test"]
    for name, split in SPLITS.items():
        rows = prepared.splits[name]
        assert rows.name == name
        assert rows.uids == tuple(example.uid for example in split.examples)
        assert rows.tags == tuple(example.tags for example in split.examples)
        for place, example in enumerate(split.examples):
            label = rows.label[place]
            assert example.label == (LABELS[label] if label >= 0 else "")
            for side, length in zip(SIDES, rows.length, strict=True):
                numbers = prepared.arrays[side][rows.first + place][: length[place]]
                tokens = " ".join(getattr(example, f"{side}_tokens"))
                assert " ".join(words_of(numbers, vocab)) == tokens.lower()


@pytest.mark.parametrize("name", ["manifest.json", "rows.json", "vocabulary.json", "vectors.npy"])
@pytest.mark.parametrize("damage", ["flipped", "missing", "cut"])
def test_a_damaged_file_is_named_and_the_corpus_is_prepared_again(tmp_path, capsys, name, damage):
    build = Builder()
    cache = Cache(tmp_path)
    first, _ = cache.get("c", KEY, build)
    path = first.folder / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.unlink()  # arrays that were mapped before keep their content
    if damage != "missing":
        path.write_bytes(content[:-2] if damage == "cut" else content)

    again, hit = cache.get("c", KEY, build)

    assert not hit
    assert build.calls == 2
    assert_same(first, again)
    assert str(first.folder) in capsys.readouterr().err


WRITER = """
import os, sys, time
from pathlib import Path
from support.pairs import KEY, Builder
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
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = []
    for name in ("writer0", "writer1"):
        command = [*OWN_PROCESS_IDS, sys.executable, "-c", WRITER, str(tmp_path), name]
        writers.append(
            subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    outputs = [writer.communicate(timeout=120) for writer in writers]

    fields = sorted(encode_corpus(SPLITS, LINKER, ENCODING)[0])
    assert outputs == [(f"1 False {fields}\n", "")] * 2
    assert Cache(tmp_path / "cache").get("c", KEY, Builder())[1]
    names = sorted(path.name[:2] for path in (tmp_path / "cache" / "prepared").iterdir())
    assert names == [".g", "c-"]


@pytest.fixture
def sources(tmp_path):
    """Two files of one name in two folders."""
    return [write(tmp_path / folder / "a.txt", "first") for folder in ("one", "two")]


DIGEST = hashlib.sha256(b"first").hexdigest()


def test_a_digest_is_that_of_all_files_of_the_name_and_is_remembered(
    tmp_path, sources, monkeypatch
):
    assert Cache(tmp_path / "cache").digests(sources) == {"a.txt": DIGEST + DIGEST}
    monkeypatch.setattr("mednli_jax.data.cache.sha256", None)
    assert Cache(tmp_path / "cache").digests(sources) == {"a.txt": DIGEST + DIGEST}


def test_a_change_of_a_source_of_the_same_size_under_the_same_date_is_noticed(tmp_path, sources):
    cache = Cache(tmp_path / "cache")
    cache.digests(sources)

    for source, unchanged in zip(sources, (1, 0), strict=True):
        date = source.stat().st_mtime_ns
        source.write_text("other")
        os.utime(source, ns=(date, date))

        assert cache.digests(sources)["a.txt"].count(DIGEST) == unchanged
