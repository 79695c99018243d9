"""Prepared folders are found by their key, never read when damaged, never half-written, and private."""

import hashlib
import json
import os
import stat
from dataclasses import replace

import numpy as np
import pytest
from made_up_files import KEY, Builder, Trap
from test_encoding import ENCODING, LINKER, SPLITS, words_of

from mednli_jax.corpora.arrays import SIDES
from mednli_jax.corpora.cache import Cache
from mednli_jax.corpora.nli.encoding import encode_corpus
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS
from mednli_jax.files import write_json
from mednli_jax.text import Vocab


def same(a, b):
    assert a.arrays.keys() == b.arrays.keys()
    for name in a.arrays:
        np.testing.assert_array_equal(a.arrays[name], b.arrays[name])
    np.testing.assert_array_equal(a.vectors, b.vectors)
    assert a.manifest == b.manifest
    return True


def test_second_call_is_a_hit_and_builds_nothing(tmp_path):
    build, cache = Builder(), Cache(tmp_path)
    first, hit = cache.get("c", KEY, build)
    assert (hit, build.calls) == (False, 1)
    second, hit = Cache(tmp_path).get("c", dict(reversed(KEY.items())), build)
    assert (hit, build.calls) == (True, 1)
    assert same(first, second)
    arrays, _, vectors, _ = encode_corpus(SPLITS, LINKER, ENCODING)
    assert "link_distance" in arrays
    for name, array in arrays.items():
        np.testing.assert_array_equal(second.arrays[name], array)
        assert second.arrays[name].dtype == array.dtype
    np.testing.assert_array_equal(second.vectors, vectors)
    assert second.longest_path == 2


def test_another_key_builds_anew_beside_the_old(tmp_path):
    build, cache = Builder(), Cache(tmp_path)
    old, _ = cache.get("c", KEY, build)
    short = Builder(encoding=replace(ENCODING, max_length=2))
    new, hit = cache.get("c", {**KEY, "max_length": 2}, short)
    assert (hit, short.calls) == (False, 1)
    assert new.folder != old.folder
    assert new.arrays["premise"].shape[1] == 2
    again, hit = cache.get("c", KEY, build)
    assert hit
    assert again.arrays["premise"].shape[1] == 4


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
        assert [LABELS[n] if n >= 0 else "" for n in rows.label] == [e.label for e in split.examples]
        for place, example in enumerate(split.examples):
            for side, length in zip(SIDES, rows.length, strict=True):
                tokens = getattr(example, f"{side}_tokens")
                assert length[place] == len(tokens)
                numbers = prepared.arrays[side][rows.first + place][: len(tokens)]
                assert words_of(numbers, vocab) == [token.lower() for token in tokens]


def put(path, data):
    """Replaces the file, so that arrays that were mapped before keep their content."""
    path.unlink()
    path.write_bytes(data)


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    put(path, data)


def test_a_flipped_bit_in_any_file_is_noticed(tmp_path, capsys):
    build, cache = Builder(), Cache(tmp_path)
    first, _ = cache.get("c", KEY, build)
    names = sorted(path.name for path in first.folder.iterdir())
    assert {"manifest.json", "rows.json", "vocabulary.json", "vectors.npy", "premise.npy"} <= set(names)
    size = (first.folder / "manifest.json").stat().st_size
    places = [(name, (first.folder / name).stat().st_size // 2) for name in names]
    places += [("label.npy", -1), ("vectors.npy", -1)]  # the middle of a short array lies in its header
    places += [("manifest.json", int(at)) for at in np.linspace(0, size - 1, 7)]
    for calls, (name, at) in enumerate(places, start=2):
        flip(first.folder / name, at)
        again, hit = cache.get("c", KEY, build)
        assert (hit, build.calls) == (False, calls), name
        assert same(first, again)
        assert str(first.folder) in capsys.readouterr().err


@pytest.mark.parametrize("name", ["manifest.json", "label.npy", "rows.json"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_a_missing_or_cut_file_is_noticed(tmp_path, name, damage):
    build, cache = Builder(), Cache(tmp_path)
    first, _ = cache.get("c", KEY, build)
    path = first.folder / name
    if damage == "missing":
        path.unlink()
    else:
        put(path, b"" if damage == "empty" else path.read_bytes()[:-2])
    again, hit = cache.get("c", KEY, build)
    assert (hit, build.calls) == (False, 2)
    assert same(first, again)


def test_a_planted_pickle_is_refused_not_run(tmp_path):
    """An array of objects can run code, so it is refused even if the manifest has its digest."""
    build, cache = Builder(), Cache(tmp_path)
    first, _ = cache.get("c", KEY, build)
    planted, sprung = first.folder / "label.npy", tmp_path / "sprung"
    array = np.empty(6, object)
    array[:] = [Trap(sprung)] * 6
    planted.unlink()
    np.save(planted, array, allow_pickle=True)
    assert b"mkdir" in planted.read_bytes()
    manifest = json.loads((first.folder / "manifest.json").read_text())
    manifest["files"]["label.npy"] = hashlib.sha256(planted.read_bytes()).hexdigest()
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    manifest["sha256"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    write_json(first.folder / "manifest.json", manifest)
    again, hit = cache.get("c", KEY, build)
    assert (hit, build.calls) == (False, 2)
    assert not sprung.exists()
    assert again.arrays["label"].dtype == np.int32


def test_another_corpus_under_the_same_folder_is_not_taken(tmp_path):
    """A folder's name is only a short hash; the key in the manifest decides."""
    cache = Cache(tmp_path)
    first, _ = cache.get("c", KEY, Builder())
    other = {**KEY, "max_length": 2}
    short, _ = cache.get("c", other, Builder(encoding=replace(ENCODING, max_length=2)))
    for path in short.folder.iterdir():
        path.replace(first.folder / path.name)
    build = Builder()
    again, hit = cache.get("c", KEY, build)
    assert (hit, build.calls) == (False, 1)
    assert again.arrays["premise"].shape[1] == 4


def test_a_build_that_fails_leaves_nothing(tmp_path):
    cache = Cache(tmp_path)

    def fail():
        raise UserError("bad row")

    def half():  # fails when the arrays are already on disk
        splits, arrays, _, vectors, facts = Builder()()
        return splits, arrays, None, vectors, facts

    for build, error in ((fail, UserError), (half, AttributeError)):
        with pytest.raises(error):
            cache.get("c", KEY, build)
        assert [path.name for path in cache.folder.iterdir()] == [".gitignore"]
    build = Builder()
    assert cache.get("c", KEY, build)[1] is False
    assert build.calls == 1


def test_a_source_that_cannot_be_read_is_not_blamed_on_the_cache(tmp_path):
    def fail():
        raise PermissionError(13, "Permission denied", "corpus.jsonl")

    with pytest.raises(PermissionError):
        Cache(tmp_path).get("c", KEY, fail)


def test_two_processes_may_prepare_the_same_corpus(tmp_path):
    """The other process finishes first, and its folder is taken."""
    cache = Cache(tmp_path)

    def slow():
        cache.get("c", KEY, Builder())
        return Builder()()

    prepared, hit = cache.get("c", KEY, slow)
    assert not hit
    assert prepared.splits["dev"].uids == ("d0",)
    assert sorted(path.name for path in cache.folder.iterdir()) == [".gitignore", prepared.folder.name]


def test_prepared_data_is_for_its_owner_alone(tmp_path):
    old = os.umask(0o022)
    try:
        cache = Cache(tmp_path / "cache")
        source = tmp_path / "source.txt"
        source.write_text("a")
        cache.digests([source])
        prepared, _ = cache.get("c", KEY, Builder())
    finally:
        os.umask(old)
    for folder in (cache.folder, prepared.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = [path for path in cache.folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


# ---- digests of the sources ----


def test_digests_are_of_the_content_and_remembered(tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("first")
    digests = Cache(tmp_path).digests([source])
    assert digests == {"a.txt": hashlib.sha256(b"first").hexdigest()}
    assert Cache(tmp_path).digests([source]) == digests
    memo = tmp_path / "prepared" / "sources.json"
    assert list(json.loads(memo.read_text()).values()) == list(digests.values())


def test_a_changed_source_changes_its_digest(tmp_path):
    """The name and the size stay equal; only the content and the modification time differ."""
    source, cache = tmp_path / "a.txt", Cache(tmp_path)
    source.write_text("first")
    before, status = cache.digests([source]), source.stat()
    source.write_text("other")
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert source.stat().st_size == status.st_size
    assert cache.digests([source]) == {"a.txt": hashlib.sha256(b"other").hexdigest()} != before


def test_files_of_the_same_name_all_count(tmp_path):
    """Two packages have an __init__.py each; changing either one changes the digest."""
    sources = [tmp_path / folder / "__init__.py" for folder in ("a", "b")]
    for source in sources:
        source.parent.mkdir()
        source.write_text("same")
    cache = Cache(tmp_path)
    before = cache.digests(sources)
    for source in sources:
        source.write_text("changed")
        assert cache.digests(sources) != before
        source.write_text("same")
