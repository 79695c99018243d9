"""launch/pretrain_vectors.py trains on one corpus after the other, and leaves nothing but the
vectors."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.files import write

from mednli_jax.data.text import SPECIALS
from mednli_jax.data.vectors import load_vectors

ROOT = Path(__file__).parents[2]
NOTES = 'ROW_ID,CATEGORY,ISERROR,TEXT\n1,Nursing,,"Past Medical History:\n1. Quokka bite\n2. HTN\n"\n2,Nursing,1,"Wrong"\n'
ARTICLES = (
    '{"articles":[\n' + json.dumps({"title": "Ague of numbats.", "abstractText": "Rare."}) + "]}\n"
)


def pretrain(*flags: str) -> subprocess.CompletedProcess:
    small = ("--dim=4", "--min_count=1", "--minn=0", "--maxn=0", "--epochs=1")
    command = [sys.executable, str(ROOT / "launch" / "pretrain_vectors.py"), *small, *flags]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


def vectors_of(path: Path, *words: str):
    return load_vectors(path, (*SPECIALS, *words), dim=4, seed=0)


def test_a_chain_starts_from_the_vectors_of_the_corpus_before(tmp_path):
    """Words that the next text lacks keep their vectors; files that exist are not trained again."""
    pytest.importorskip("fasttext")
    articles = write(tmp_path / "a.json", ARTICLES)
    notes = write(tmp_path / "mimic" / "NOTEEVENTS.csv", NOTES).parent
    flags = (f"--corpora={articles},{notes}", f"--out={tmp_path / 'out' / 'x.vec'}")
    done = pretrain(*flags)
    assert done.returncode == 0, done.stderr
    assert "quokka" not in (done.stdout + done.stderr).lower()
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [".gitignore", "x.1.vec", "x.vec"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "out").iterdir())
    first = vectors_of(tmp_path / "out" / "x.1.vec", "ague", "quokka")
    last = vectors_of(tmp_path / "out" / "x.vec", "ague", "quokka", "htn", "wrong")
    assert (first.words, last.words) == (("ague",), ("ague", "quokka", "htn"))
    np.testing.assert_allclose(last.matrix[2], first.matrix[2], rtol=1e-5)
    assert pretrain(*flags).stdout.count("is not trained again") == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "--corpora or --search"),
        (("--corpora=absent.txt",), "absent.txt"),
        (("--corpora=bad.json",), "bad.json:2"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_one_line(tmp_path, flags, message):
    write(tmp_path / "bad.json", '{"articles":[\n{"abstractText": quokka}]}\n')
    flags = [flag.replace("=", f"={tmp_path}/") for flag in flags]
    done = pretrain(*flags, f"--out={tmp_path / 'x.vec'}")
    assert done.returncode == 2
    assert message in done.stderr
    assert "quokka" not in done.stderr
    assert not (tmp_path / "x.vec").exists()
