"""BIOMRC: files in the official layout are read, broken files are refused, and readers train on them."""

import json

import pytest
from made_up_commands import ROOT
from made_up_commands import environment_of as places
from made_up_commands import run_command as door

from mednli_jax.corpora import inventory
from mednli_jax.corpora.cloze.biomrc import load, read_biomrc, source_files
from mednli_jax.corpora.cloze.views import views
from mednli_jax.errors import DataErrors, UserError
from mednli_jax.examples import Answer

SECRET = "zzyzx"
BIOMRC = {
    "abstracts": ["BACKGROUND: In @entity1, @entity22 (2.5 mg) failed. We saw @entity1.", "No @entity1."],
    "titles": ["Does.XXXX help @entity1?", "XXXX or not"],
    "entities_list": [
        ["@entity1 :: ('9606', 'Species') :: ['patients', 'men']", "@entity22 :: ('D1', 'Chemical') :: ['vitamin D']"],
        ["@entity1"],
    ],
    "answers": ["@entity22 :: ('D1', 'Chemical') :: ['vitamin D', 'calciferol']", "@entity1"],
}
PHRASES = ("fever", "dry cough", "skin rash", "gout")


def biomrc(path, **changes):
    path.write_text(json.dumps(BIOMRC | changes))
    return path


def faults(read, *arguments):
    with pytest.raises(UserError) as caught:
        read(*arguments)
    assert SECRET not in str(caught.value)
    errors = caught.value.errors if isinstance(caught.value, DataErrors) else [caught.value]
    assert all(error.fix for error in errors)
    return [(error.file, error.line) for error in errors]


def write_release(folder, release="", queries=8):
    """Writes the three official files with made-up abstracts."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "val", "test"):
        lists = {"abstracts": [], "titles": [], "entities_list": [], "answers": []}
        for number in range(queries):
            own = [PHRASES[(number + place) % len(PHRASES)] for place in range(3)]
            entities = [f"@entity{n} :: ('C{n}', 'Disease') :: {[phrase]!r}" for n, phrase in enumerate(own)]
            lists["abstracts"].append(f"{SECRET} had @entity0 and @entity1. Later came @entity2.")
            lists["titles"].append("A case of XXXX.")
            lists["entities_list"].append(entities)
            lists["answers"].append(entities[0])
        (folder / f"dataset_{part}{release}.json").write_text(json.dumps(lists))
    return folder


def test_a_file_by_hand(tmp_path):
    split = read_biomrc(biomrc(tmp_path / "dataset_val.json"), "dev")
    one, other = split.examples
    assert one.passage.tokens[:9] == ("BACKGROUND", ":", "In", "patients", ",", "vitamin", "D", "(", "2.5")
    assert len(one.passage.sentences) == 2
    assert views(one, "ent").candidates == ("patients", "vitamin d")
    assert (one.query, one.blank) == (("Does", ".", "@placeholder", "help", "patients", "?"), 2)
    assert one.answers == (
        Answer("vitamin D", "D1", "Chemical", "dataset"),
        Answer("calciferol", "D1", "Chemical", "UMLS"),
    )
    assert (one.uid, other.uid) == ("dataset_val:0", "dataset_val:1")
    assert (other.passage.tokens, other.answers[0].text) == (("No", "@entity1", "."), "@entity1")
    assert views(one, "ent").gold == 1
    assert (split.name, split.facts["file"], split.facts["queries"]) == ("dev", "dataset_val.json", 2)


@pytest.mark.parametrize("release", ["", "_B", "_small", "_small_B"])
def test_a_folder_holds_one_release(tmp_path, release):
    folder = write_release(tmp_path / "data" / "biomrc", release)
    names = {"train": "train", "dev": "val", "test": "test"}
    expected = {split: folder / f"dataset_{part}{release}.json" for split, part in names.items()}
    assert source_files(tmp_path / "data") == source_files(folder) == expected
    splits = load(folder, limit=3)
    assert {name: len(split) for name, split in splits.items()} == {"train": 3, "dev": 8, "test": 8}
    (folder / "dataset_other.json").write_text("{}")
    expected["dev"].unlink()
    assert faults(source_files, folder) == [(f"dataset_val{release}.json", None)]
    write_release(folder, "" if release else "_B")
    assert faults(source_files, folder) == [("biomrc", None)]


def test_a_folder_without_the_files_says_where_they_are_from(tmp_path):
    with pytest.raises(DataErrors) as caught:
        source_files(tmp_path)
    assert [error.file for error in caught.value.errors] == [f"dataset_{p}.json" for p in ("train", "val", "test")]


def test_the_inventory_finds_the_files(tmp_path):
    def state():
        return {finding.what: finding.state for finding in inventory.corpora(tmp_path)}["biomrc"]

    assert state() == "missing"
    folder = write_release(tmp_path / "biomrc", "_small")
    assert state() == "ok"
    (folder / "dataset_val_small.json").unlink()
    assert state() == "check"


def test_a_reader_is_prepared_and_trained(tmp_path):
    """The commands prepare the corpus before and after a change of its source, then train for one epoch."""
    folder = write_release(tmp_path / "data" / "biomrc", "_small")
    flags = [
        f"--config={ROOT / 'configs' / 'ga_anonym.py'}:biomrc",
        *("--config.model.hidden_size=4", "--config.model.hops=1", "--config.vectors.dim=4"),
        *("--config.train.batch_size=4", "--config.train.epochs=1", "--config.train.max_buckets=1"),
    ]
    at = places(tmp_path) | {"MEDNLI_JAX_DATA": str(tmp_path / "data")}
    done = door("prepare", *flags, cwd=tmp_path, **at)
    assert (done.returncode, SECRET in done.stdout + done.stderr) == (0, False), done.stderr
    assert len(list((tmp_path / "cache").rglob("biomrc-*"))) == 1
    write_release(folder, "_small", queries=6)
    done = door("train", *flags, "--workdir=run", cwd=tmp_path, **at)
    assert (done.returncode, SECRET in done.stdout + done.stderr) == (0, False), done.stderr
    assert len(list((tmp_path / "cache").rglob("biomrc-*"))) == 2  # the content of the source is part of the key
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["corpus"] == "biomrc"
    (folder / "dataset_val_small.json").unlink()
    done = door("prepare", *flags, cwd=tmp_path, **at)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "dataset_val_small.json" in done.stderr
