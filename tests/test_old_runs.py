"""Run directories of version 1 open, and predict what they predicted.

golden/old_runs holds three, exported by commit 41e8e68: BOW with knowledge that replaces words,
ESIM with typed relations, BERT. `expected.json` has pairs and the predictions of that commit.
"""

import json
import shutil
from pathlib import Path

import pytest

from mednli_jax import load_run

OLD_RUNS = Path(__file__).parent / "golden" / "old_runs"
EXPECTED = json.loads((OLD_RUNS / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED["predictions"])
def test_a_run_of_version_1_predicts_as_before(name, tmp_path, monkeypatch):
    shutil.copytree(OLD_RUNS, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)  # the configs name own.tsv
    predictions = load_run(name).predict([tuple(pair) for pair in EXPECTED["pairs"]])
    for prediction, expected in zip(predictions, EXPECTED["predictions"][name], strict=True):
        assert prediction == pytest.approx(expected, abs=1e-6)
