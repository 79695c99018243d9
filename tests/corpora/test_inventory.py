"""The inventory of the data folder and of its permissions reports findings, never exceptions or false alarms."""

import functools
import gzip
import os

import pytest

from mednli_jax.corpora import inventory
from mednli_jax.corpora.cloze import clicr
from mednli_jax.corpora.diskne.published import annotation_files
from mednli_jax.corpora.nli.files import CORPORA, source_files
from mednli_jax.errors import DataError, DataErrors, UserError
from mednli_jax.knowledge.load import needed_files
from mednli_jax.knowledge.readers import wordnet

MODES = {True: (0o700, 0o600), False: (0o755, 0o644)}


def place(folder, files, private=True):
    """Writes files {name: content} below the folder, readable by others or not."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for path in (folder, *folder.rglob("*")):
        path.chmod(MODES[private][not path.is_dir()])
    return folder


def states(findings):
    return {finding.what: finding.state for finding in findings}


def note(findings, what):
    return next(finding.note for finding in findings if finding.what == what)


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


# ---- counts ----


def test_splits_are_counted_under_any_name_that_the_readers_take(data):
    place(
        data,
        {
            "snli/snli_1.0_dev.txt": "gold_label\tsentence1\tsentence2\n" + "x\n" * 10_000,
            **{f"snli/{part}.test": "x\n" * 9_999 for part in ("s1", "s2", "labels")},
            "multinli/multinli_1.0_dev_matched.jsonl.gz": gzip.compress(b"x\n\n" * 10_000),
        },
    )
    found = inventory.corpora(data)
    assert states(found)["snli dev"] == "ok"
    assert note(found, "snli test") == "9,999 pairs, expected 10,000"
    assert states(found)["multinli dev"] == "ok"
    assert states(found)["snli train"] == "missing"


@pytest.mark.parametrize("header", ["pair_id,label\n", ""])
def test_labels_of_the_ground_truth_are_counted(data, header):
    file = "mediqa_nli/mednli_bionlp19_shared_task_ground_truth.csv"
    place(data, {file: header + "".join(f"{i},neutral\n" for i in range(405))})
    assert states(inventory.corpora(data))["mediqa_nli ground truth"] == "ok"
    place(data, {file: header + "0,neutral\n0,neutral\n"})
    assert note(inventory.corpora(data), "mediqa_nli ground truth") == "damaged: take a fresh copy"


def clicr_files(**queries):
    """Files with these numbers of queries by split; None makes a damaged file."""
    files = {}
    for split, count in queries.items():
        queries = "".join(f'{{"query": "\\"query\\": {number}"}}, ' for number in range(count or 0))
        content = '{"version": "1.0", "data": [' + queries + "]}"
        files[f"clicr/{split}1.0.json.gz"] = gzip.compress(content.encode()) if count is not None else b"\x1f\x8bx"
    return files


def test_queries_of_clicr_are_counted(data):
    assert states(inventory.corpora(data))["clicr"] == "missing"
    place(data, clicr_files(dev=6_391))
    finding = note(inventory.corpora(data), "clicr")
    assert finding.startswith("clicr/train1.0.json, test1.0.json missing: ask its authors")
    place(data, clicr_files(train=91_344, test=7_184))
    assert states(inventory.corpora(data))["clicr"] == "ok"
    assert note(inventory.corpora(data), "clicr") == "queries: train 91,344; dev 6,391; test 7,184"
    place(data, clicr_files(test=12))
    assert states(inventory.corpora(data))["clicr"] == "check"
    assert note(inventory.corpora(data), "clicr").endswith("dev 6,391; test 12, expected 7,184")
    place(data, clicr_files(dev=None))
    assert note(inventory.corpora(data), "clicr") == "dev1.0.json.gz damaged: take a fresh copy"


def test_a_cut_archive_is_damaged(data):
    place(data, {"mednli/mli_dev_v1.jsonl.gz": gzip.compress(b"x\n" * 1_395)[:-9]})
    assert note(inventory.corpora(data), "mednli dev") == "damaged: take a fresh copy"


def test_the_cache_need_not_exist_but_must_be_possible(data):
    place(data, {"file": "x"}).joinpath("link").symlink_to("/nonexistent")
    finding = inventory.cache(data / "new" / "cache")
    assert finding.state == "ok"
    assert "GB free" in finding.note
    for taken in ("file", "link", "file/below"):
        assert "is no folder" in inventory.cache(data / taken).note


# ---- links ----

LINKS = {
    "mednli/mli_dev_v1.jsonl": "mednli dev",
    "snli": "snli train",
    "clicr": "clicr",
    "umls": "umls",
    "vectors/glove.txt": "glove.txt",
    "weights/bert": "bert",
}


@pytest.mark.parametrize("target", ["/nonexistent", "loop"])
@pytest.mark.parametrize("link", LINKS)
def test_links_to_nothing_are_found_not_raised(data, link, target):
    path = place(data, {}) / link
    path.parent.mkdir(exist_ok=True, mode=0o700)
    path.symlink_to(path if target == "loop" else target)
    looks = (inventory.corpora, inventory.ontologies, inventory.vectors, inventory.weights)
    found = [finding for look in looks for finding in look(data)]
    assert states(found)[LINKS[link]] == "check"
    assert states(inventory.privacy(data))["permissions"] in ("ok", "check")


def test_links_that_lead_somewhere_are_followed(data, tmp_path):
    elsewhere = place(tmp_path / "elsewhere", {"mli_dev_v1.jsonl": "x\n" * 1_395})
    place(data, {}).joinpath("mednli").symlink_to(elsewhere)
    assert states(inventory.corpora(data))["mednli dev"] == "ok"
    assert states(inventory.privacy(data)) == {"permissions": "ok"}
    (elsewhere / "mli_dev_v1.jsonl").chmod(0o640)
    assert "1 files or folders" in note(inventory.privacy(data), "permissions")


# ---- privacy ----

PUBLIC = {f"{name}/{name}.txt": "x" for name in ("snli", "multinli", "mesh", "wordnet", "vectors", "weights")}


def test_public_corpora_may_be_open(data):
    (place(data, PUBLIC, private=False) / "gone").symlink_to("/nonexistent")
    (data / ".git").mkdir()
    assert states(inventory.privacy(data)) == {"permissions": "ok"}


@pytest.mark.parametrize("name", inventory.RESTRICTED)
def test_licensed_text_may_not_be_open(data, name):
    place(data, {**PUBLIC, f"{name}/deep/file": "x"})
    assert states(inventory.privacy(data)) == {"permissions": "ok"}
    (data / "snli").chmod(0o755)
    (data / "snli" / "snli.txt").chmod(0o644)
    assert states(inventory.privacy(data)) == {"permissions": "ok"}
    for path in (data, data / name, data / name / "deep", data / name / "deep" / "file"):
        before = path.stat().st_mode
        path.chmod(before | 0o040)
        (finding,) = inventory.privacy(data)
        assert finding.state == "check"
        assert "1 files or folders are readable by others" in finding.note
        fix = finding.note.partition(": ")[2]
        assert os.waitstatus_to_exitcode(os.system(fix)) == 0
        assert states(inventory.privacy(data)) == {"permissions": "ok"}
        assert (data / "snli" / "snli.txt").stat().st_mode & 0o777 == 0o644  # the fix does not touch public text


@pytest.mark.parametrize("name", ["mli_train_v1.jsonl.gz", "dev1.0.json"])
def test_licensed_files_in_the_data_folder_itself_count(data, name):
    place(data, {name: "x"})
    (data / name).chmod(0o604)
    assert states(inventory.privacy(data)) == {"permissions": "check"}


def test_licensed_text_does_not_belong_in_a_work_tree(data):
    place(data, {"mednli/x": "x"})
    (data.parent / ".git").mkdir()
    assert states(inventory.privacy(data)) == {"git": "check"}


# ---- weights ----


def test_weights_that_bert_can_start_from_are_told_from_others(data):
    place(
        data,
        {
            **{f"weights/good/{name}": "x" for name in ("config.json", "model.safetensors", "vocab.txt")},
            **{f"weights/wordless/{name}": "x" for name in ("config.json", "model.safetensors")},
            "weights/bad/config.json": "{}",
        },
    )
    found = inventory.weights(data)
    assert states(found) == {"bad": "check", "good": "ok", "wordless": "check"}
    assert "vocab.txt" in note(found, "wordless")
    assert note(found, "good").endswith(f"--config.model.weights={data / 'weights' / 'good'}")
    assert states(inventory.weights(None)) == {"pretrained weights": "missing"}


def test_the_annotations_of_diskne_are_looked_for(data):
    assert states(inventory.corpora(data))["diskne"] == "missing"
    place(data, {"diskne/symptoms.csv": "x"})
    assert states(inventory.corpora(data))["diskne"] == "ok"


# ---- what doctor finds is what the readers find ----

RF2 = "snomed/Snapshot/Terminology/sct2_{}_Snapshot{}_INT_20240101.txt"
ROWS = 3  # rows of every file, in place of the official numbers


def pairs(name):
    """{file: content} of the splits of a corpus, and of its ground truth."""
    files = {f"{name}/{CORPORA[name].files[split]}": "x\n" * ROWS for split in inventory.EXPECTED[name]}
    if truth := CORPORA[name].ground_truth:
        files[f"{name}/{truth}"] = "".join(f"{i},neutral\n" for i in range(ROWS))
    return files


# Kind -> (its files, a function that lists what the loader finds below the data folder).
KINDS = {
    "mednli": (pairs("mednli"), lambda data: source_files("mednli", data)),
    "mediqa_nli": (
        {**pairs("mediqa_nli"), **{name: text for name, text in pairs("mednli").items() if "test" not in name}},
        lambda data: source_files("mediqa_nli", data),
    ),
    "snli": (pairs("snli"), lambda data: source_files("snli", data)),
    "snli triples": (
        {f"snli/{part}.{split}": "x\n" * ROWS for part in ("s1", "s2", "labels") for split in CORPORA["snli"].files},
        lambda data: source_files("snli", data),
    ),
    "multinli": (pairs("multinli"), lambda data: source_files("multinli", data)),
    "clicr": (clicr_files(train=ROWS, dev=ROWS, test=ROWS), clicr.source_files),
    "diskne": ({"diskne/symptoms.csv": "x"}, lambda data: annotation_files(data) or 1 / 0),
    "umls": (
        {f"umls/META/{name}.RRF": "x" for name in ("MRCONSO", "MRREL", "MRSTY")},
        lambda data: needed_files("umls", data),
    ),
    "snomed": (
        {RF2.format(*kind): "x" for kind in (("Concept", ""), ("Description", "-en"), ("Relationship", ""))},
        lambda data: needed_files("snomed", data),
    ),
    "wordnet": (
        {f"wordnet/{name}": "x" for name in ("data.noun", "data.verb", "index.noun", "index.verb")},
        lambda data: needed_files("wordnet", data),
    ),
}  # fmt: skip


def good(data):
    """The items that doctor reports as ok."""
    return {
        what for what, state in states([*inventory.corpora(data), *inventory.ontologies(data)]).items() if state == "ok"
    }


@pytest.mark.parametrize("kind", KINDS)
def test_doctor_is_content_where_the_loader_is_and_only_there(data, kind, monkeypatch):
    """Doctor agrees with the loader if all files are there, and if any one is missing or lies too deep."""
    monkeypatch.setattr(wordnet, "FOLDER", data / "nowhere")
    # reads the bundled ontology once
    monkeypatch.setattr(inventory, "load_ontology", functools.cache(inventory.load_ontology))
    monkeypatch.setattr(inventory, "QUERIES", dict.fromkeys(inventory.QUERIES, ROWS))
    expected = {name: dict.fromkeys(splits, ROWS) for name, splits in inventory.EXPECTED.items()}
    monkeypatch.setattr(inventory, "EXPECTED", expected)
    files, load = KINDS[kind]
    without = good(place(data, {}))
    whole = good(place(data, files))
    assert whole > without
    assert load(data)
    for name in files:
        path = data / name
        for moved in (data / "aside", path.parent / "deeper" / path.name):
            moved.parent.mkdir(exist_ok=True)
            path.rename(moved)
            try:
                load(data)
                found = True
            except (UserError, DataError, DataErrors, ZeroDivisionError):
                found = False
            assert (good(data) == whole) == found, moved
            assert not found or moved.parent.name == "deeper"
            moved.rename(path)
    assert good(data) == whole


def test_doctor_tells_which_file_of_an_ontology_is_missing(data):
    files, _ = KINDS["snomed"]
    place(data, {name: text for name, text in files.items() if "Concept" not in name})
    assert "sct2_Concept_Snapshot_*.txt: no such file" in note(inventory.ontologies(data), "snomed")
