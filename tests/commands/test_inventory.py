"""`doctor` finds what the readers find, never fails, and sees who can read licensed text."""

import gzip
import os
import shutil
from pathlib import Path

import pytest
from support.commands import call_command

from mednli_jax import doctor
from mednli_jax.knowledge.readers import wordnet
from mednli_jax.nli.corpora import CORPORA, RESTRICTED

CASES = Path(__file__).parents[1] / "cases"
SECRET = "zyzzyva"
RF2 = "snomed/Snapshot/Terminology/sct2_{}_Snapshot{}_INT_20240101.txt"
MEDNLI = [f"mednli/{name}" for name in CORPORA["mednli"].files.values()]
NAMES = {  # of the files of each kind
    "mednli": MEDNLI,
    "mediqa_nli": [
        f"mediqa_nli/mednli_bionlp19_shared_task{end}" for end in (".jsonl", "_ground_truth.csv")
    ]
    + MEDNLI,
    "snli": [f"snli/{name}" for name in CORPORA["snli"].files.values()],
    "multinli": [f"multinli/{name}" for name in CORPORA["multinli"].files.values()],
    "clicr": [f"clicr/{split}1.0.json" for split in ("train", "dev", "test")],
    "umls": [f"umls/META/{name}.RRF" for name in ("MRCONSO", "MRREL", "MRSTY")],
    "snomed": [
        RF2.format(*kind)
        for kind in (("Concept", ""), ("Description", "-en"), ("Relationship", ""))
    ],
    "wordnet": [
        f"wordnet/{name}" for name in ("data.noun", "data.verb", "index.noun", "index.verb")
    ],
}


def place(folder, names, private=True):
    """Writes files below the folder, which others can read or not."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{SECRET} 1 2\n")
    for path in (folder, *folder.rglob("*")):
        path.chmod(
            (0o700 if path.is_dir() else 0o600) if private else (0o755 if path.is_dir() else 0o644)
        )
    return folder


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setattr(wordnet, "FOLDER", tmp_path)  # the machine may have WordNet installed
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def lines_of(*flags):
    """(exit code, {item: its line}) of the command."""
    code, out, err = call_command(doctor, *flags)
    assert SECRET not in out + err
    return code, {line[10:].partition(":")[0]: line.strip() for line in out.splitlines()}


def test_without_a_data_folder_all_that_is_missing_is_named_with_its_source(data):
    code, lines = lines_of()
    assert (code, lines["mesh"].partition(" ")[0]) == (0, "ok")
    for name in ("clicr", "diskne", "notes", *NAMES, "word vectors", "pretrained weights"):
        assert lines[name].startswith("missing"), name
    for name, source in (
        ("mednli", "physionet.org"),
        ("umls", "uts.nlm.nih.gov"),
        ("notes", "physionet.org"),
    ):
        assert source in lines[name]
    assert lines_of("--data=nowhere")[0] == 2


@pytest.mark.parametrize("kind", NAMES)
def test_a_kind_is_found_where_all_its_files_are_there(data, kind):
    place(data, NAMES[kind])
    code, lines = lines_of(f"--data={data}")
    assert (code, lines[kind].partition(" ")[0]) == (0, "ok")
    (data / NAMES[kind][0]).rename(data / "aside")
    code, lines = lines_of(f"--data={data}")
    assert (code, lines[kind].partition(" ")[0]) == (2, "CHECK")
    assert (data / NAMES[kind][0]).name.split("_Snapshot")[0] in lines[kind]


def test_vectors_and_weights_are_told_from_what_cannot_be_used(data):
    place(data, ["vectors/good.txt"])
    shutil.copytree(CASES / "w03_sharded" / "w", data / "weights" / "good")
    place(data, ["weights/wordless/model.safetensors", "weights/pickled/vocab.txt"])
    (data / "vectors" / "cut.txt.gz").write_bytes(gzip.compress(b"x" * 99)[:-9])
    code, lines = lines_of(f"--data={data}")
    assert code == 2
    assert "2 numbers a word" in lines["good.txt"]
    facts = "bert, 2 layers of 8, 118 pieces, 0.0 million numbers of F32 in 2 files, vocab.txt; "
    assert facts in lines["good"]
    assert lines["good"].endswith(f"--config.model.weights={data / 'weights' / 'good'}")
    for name in ("wordless", "pickled", "cut.txt.gz"):
        assert lines[name].startswith("CHECK"), name


PUBLIC = [
    f"{name}/{name}.txt" for name in ("snli", "multinli", "mesh", "wordnet", "vectors", "weights")
]


def states(folder):
    return {finding.subject: finding.state for finding in doctor.privacy(folder)}


@pytest.mark.parametrize("name", [*RESTRICTED, "clicr", "diskne", "mli_train_v1.jsonl.gz"])
def test_licensed_text_may_not_be_open(data, name):
    file = data / (name if "." in name else f"{name}/deep/file")
    place(data, PUBLIC, private=False)
    place(data, [file])
    (data / "snli" / "snli.txt").chmod(0o644)
    assert states(data) == {"permissions": "ok"}
    for path in {data, file, file.parent}:
        path.chmod(path.stat().st_mode | 0o040)
        (finding,) = doctor.privacy(data)
        assert finding.state == "check"
        assert "1 files or folders are readable by others" in finding.note
        assert os.waitstatus_to_exitcode(os.system(finding.note.partition(": ")[2])) == 0
        assert states(data) == {"permissions": "ok"}
    assert (
        data / "snli" / "snli.txt"
    ).stat().st_mode & 0o777 == 0o644  # the fix does not touch public text


def test_licensed_text_does_not_belong_in_a_work_tree(data):
    place(data, ["mednli/x"])
    (data.parent / ".git").mkdir()
    assert states(data) == {"git": "check"}
