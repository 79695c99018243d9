"""`doctor` finds what the readers find, never fails, and sees who can read licensed text."""

import gzip
import re
import subprocess

import numpy as np
import pytest
from support.commands import call_command
from support.encoders import tensors_of, write_encoder, write_in_two_files, write_pieces
from support.pair_files import SECRET

from mednli_jax import doctor
from mednli_jax.knowledge.readers import wordnet
from mednli_jax.nli.read.corpora import CORPORA, RESTRICTED

SPLITS = ("train", "dev", "test")
RF2 = "Snapshot/Terminology/sct2_{}_INT_20240101.txt"
# The files of each kind.
FILES = {name: list(CORPORA[name].files.values()) for name in ("mednli", "snli", "nli4ct", "rqe")}
FILES["clicr"] = [f"{split}1.0.json" for split in SPLITS]
FILES["umls"] = [f"META/{name}.RRF" for name in ("MRCONSO", "MRREL", "MRSTY")]
FILES["wordnet"] = ["data.noun", "data.verb", "index.noun", "index.verb"]
FILES["snomed"] = [
    RF2.format("Concept_Snapshot"),
    RF2.format("Description_Snapshot-en"),
    RF2.format("Relationship_Snapshot"),
]
MEDIQA = "mediqa_nli/mednli_bionlp19_shared_task"
PATHS = {}
for kind, names in FILES.items():
    PATHS[kind] = [f"{kind}/{name}" for name in names]
PATHS["mediqa_nli"] = [f"{MEDIQA}.jsonl", f"{MEDIQA}_ground_truth.csv", *PATHS["mednli"]]


def place(folder, paths, others=0):
    """Writes files below the folder. others: mode bits of other users for files."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{SECRET} 1 2\n")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 | others | others >> 2 if path.is_dir() else 0o600 | others)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setattr(wordnet, "FOLDER", tmp_path)  # the machine may have WordNet installed
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def inventory(*flags):
    """(exit code, {subject: its line}) of the command."""
    code, out, err = call_command("doctor", *flags)
    assert SECRET not in out + err
    return code, {line[10:].partition(":")[0]: line.strip() for line in out.splitlines()}


def test_without_a_data_folder_all_that_is_missing_is_named(data):
    code, lines = inventory()

    assert code == 0
    assert lines["mesh"].startswith("ok ")
    for subject in ("clicr", "diskne", "notes", *PATHS, "word vectors", "pretrained weights"):
        assert lines[subject].startswith("missing"), subject
    assert "physionet.org" in lines["mednli"]
    assert "uts.nlm.nih.gov" in lines["umls"]


def test_a_data_folder_that_is_not_there_is_refused(data):
    assert inventory("--data=nowhere")[0] == 2


@pytest.mark.parametrize("kind", PATHS)
def test_a_kind_is_in_order_with_all_its_files_and_to_be_checked_without_one(data, kind):
    place(data, PATHS[kind])
    first = data / PATHS[kind][0]

    code, lines = inventory(f"--data={data}")
    first.rename(data / "aside")
    code_without, lines_without = inventory(f"--data={data}")

    assert (code, code_without) == (0, 2)
    assert lines[kind].split()[0] == "ok"
    assert lines_without[kind].split()[0] == "CHECK"
    assert first.name.split("_Snapshot")[0] in lines_without[kind]


def test_vectors_and_weights_that_can_be_used_are_described(data):
    place(data, ["vectors/good.txt"])
    write_pieces(write_in_two_files("bert", data / "weights" / "good"), 50)

    _, lines = inventory(f"--data={data}")

    assert "2 numbers a word" in lines["good.txt"]
    facts = "bert, 3 layers of 16, 50 pieces, 0.0 million numbers in 2 files, vocab.txt; "
    assert facts in lines["good"]
    assert lines["good"].endswith(f"--config.model.weights={data / 'weights' / 'good'}")


def test_vectors_and_weights_that_cannot_be_used_are_to_be_checked(data):
    place(data, ["weights/wordless/model.safetensors", "weights/pickled/vocab.txt"])
    (data / "vectors").mkdir()
    (data / "vectors" / "cut.txt.gz").write_bytes(gzip.compress(b"x" * 99)[:-9])
    (data / "vectors" / "page.txt").write_text("<!DOCTYPE html>")
    (data / "vectors" / ".DS_Store").write_bytes(bytes(9))

    code, lines = inventory(f"--data={data}")

    assert code == 2
    assert ".DS_Store" not in lines
    for subject in ("wordless", "pickled", "cut.txt.gz", "page.txt"):
        assert lines[subject].startswith("CHECK"), subject


# Words of the message -> what replaces a bias of 16 numbers.
MISFITS = {
    "1 of another shape": np.zeros(3, np.float32),
    "of type I8": np.zeros(16, np.int8),
    "the vocabulary has 20 pieces": np.zeros(16, np.float32),
}


def test_weights_that_train_refuses_are_to_be_checked(data):
    for words, bias in MISFITS.items():
        tensors = tensors_of("bert") | {"bert.pooler.dense.bias": bias}
        write_encoder("bert", data / "weights" / words, tensors)
        write_pieces(data / "weights" / words, 20 if "20" in words else 50)

    _, lines = inventory(f"--data={data}")

    for words in MISFITS:
        assert re.match(f"CHECK .*: .*{words}", lines[words])


# -- licensed text ---------------------------------------------------------------------------------

PUBLIC = [f"{kind}/x.txt" for kind in ["snli", "multinli", "mesh", "wordnet", "vectors", "weights"]]


def states(folder):
    return {finding.subject: finding.state for finding in doctor.privacy(folder)}


@pytest.fixture(
    params=[
        *(f"{name}/deep/file" for name in (*RESTRICTED, "clicr", "diskne")),
        "mli_train_v1.jsonl.gz",
    ]
)
def licensed(request, data):
    """A file of licensed text, which its owner alone can read, beside open public text."""
    place(data, [*PUBLIC, request.param])
    (data / PUBLIC[0]).chmod(0o644)
    return data / request.param


def test_private_licensed_text_beside_open_public_text_is_in_order(data, licensed):
    assert states(data) == {"permissions": "ok"}


def test_licensed_text_that_others_can_read_is_to_be_checked_and_the_fix_works(data, licensed):
    for path in {data, licensed, licensed.parent}:
        path.chmod(path.stat().st_mode | 0o040)

        (finding,) = doctor.privacy(data)

        assert finding.state == "check"
        assert "1 files or folders are readable by others" in finding.note
        subprocess.run(finding.note.partition(": ")[2], shell=True, check=True)
        assert states(data) == {"permissions": "ok"}
    assert (data / PUBLIC[0]).stat().st_mode & 0o777 == 0o644  # public text stays open


def test_licensed_text_does_not_belong_in_a_work_tree(data):
    place(data, ["mednli/x"])
    (data.parent / ".git").mkdir()

    assert states(data) == {"git": "check"}
