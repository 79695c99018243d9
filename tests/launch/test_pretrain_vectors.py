"""launch/data/pretrain_vectors.py trains on one corpus after the other, and leaves nothing but the
vectors."""

import json

import numpy as np
import pretrain_vectors
import pytest
from support.commands import refused, run_python
from support.files import write

from mednli_jax.data.text import SPECIALS
from mednli_jax.data.vectors import load_vectors

NOTES = """\
ROW_ID,CATEGORY,ISERROR,TEXT
1,Nursing,,"Past Medical History:
1. Quokka bite
2. HTN
"
2,Nursing,1,"Wrong"
"""
ARTICLE = json.dumps({"title": "Ague of numbats.", "abstractText": "Rare."})


def pretrain(*flags):
    """Runs the script in a process of its own; its messages hold no text of a corpus."""
    small = ("--dim=4", "--min_count=1", "--minn=0", "--maxn=0", "--epochs=1")
    done = run_python("launch/data/pretrain_vectors.py", *small, *flags)
    assert "quokka" not in (done.stdout + done.stderr).lower()
    return done


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """(flags, folder) of vectors of articles and then of notes."""
    pytest.importorskip("fasttext")
    home = tmp_path_factory.mktemp("vectors")
    articles = write(home / "a.json", f'{{"articles":[\n{ARTICLE}]}}\n')
    notes = write(home / "mimic" / "NOTEEVENTS.csv", NOTES).parent
    flags = (f"--corpora={articles},{notes}", f"--out={home / 'out' / 'x.vec'}")
    done = pretrain(*flags)
    assert done.returncode == 0, done.stderr
    return flags, home / "out"


def vectors_of(path, words):
    return load_vectors(path, (*SPECIALS, *words.split()), dim=4, seed=0)


def test_a_chain_starts_from_the_vectors_of_the_corpus_before(chain):
    """Words that the next text lacks keep their vectors."""
    _, folder = chain

    first = vectors_of(folder / "x.1.vec", "ague quokka")
    last = vectors_of(folder / "x.vec", "ague quokka htn wrong")

    assert first.words == ("ague",)
    assert last.words == ("ague", "quokka", "htn")
    np.testing.assert_allclose(last.matrix[2], first.matrix[2], rtol=1e-5)


def test_pretraining_leaves_private_files_of_vectors_alone(chain):
    _, folder = chain

    assert {path.name for path in folder.iterdir()} == {".gitignore", "x.1.vec", "x.vec"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_vectors_that_exist_are_not_trained_again(chain):
    flags, _ = chain

    assert pretrain(*flags).stdout.count("is not trained again") == 2


@pytest.mark.parametrize(
    "corpora, message",
    [
        (None, "--corpora or --search"),
        ("absent.txt", "absent.txt"),
        ("bad.json", "bad.json:2"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_one_line(tmp_path, corpora, message):
    write(tmp_path / "bad.json", '{"articles":[\n{"abstractText": quokka}]}\n')
    flags = [f"--corpora={tmp_path / corpora}"] if corpora else []

    done = pretrain(*flags, f"--out={tmp_path / 'x.vec'}")

    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "x.vec").exists()


@pytest.mark.parametrize("sizes", ["8,a", ""])
def test_sizes_that_are_no_numbers_are_refused(sizes):
    message = refused(pretrain_vectors, "--search=demo_cloze", "--out=out", f"--dims={sizes}")
    assert "--dims" in message
