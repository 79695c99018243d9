"""`export --format=transformers`: the folder opens in the Transformers library and here."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_up_commands import call_command

from mednli_jax import export, load_run
from mednli_jax.data.pieces import PieceVocabulary
from mednli_jax.models import weights

OLD_RUNS = Path(__file__).parents[1] / "golden" / "old_runs"
PAIRS = [tuple(pair) for pair in json.loads((OLD_RUNS / "expected.json").read_text())["pairs"]]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    shutil.copytree(OLD_RUNS, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)  # the configs name own.tsv
    return tmp_path


def test_a_run_is_written_for_the_library(runs):
    code, out, _ = call_command(export, "bert", "model", "--format=transformers")
    assert (code, out.strip()) == (0, "model")
    files = {path.name for path in (runs / "model").glob("[!.]*")}
    assert files == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    config = json.loads((runs / "model" / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["label2id"] == {"entailment": 0, "neutral": 1, "contradiction": 2}
    fields = weights.read_architecture(runs / "model")
    pieces = PieceVocabulary.load(runs / "model")
    assert pieces == PieceVocabulary.restore(runs / "bert" / "private" / "vocabulary.json")
    pieces.check_size(fields["vocab_size"])
    code, _, err = call_command(export, "bert", "model", "--format=transformers")
    assert code == 2
    assert "holds files already" in err


def test_a_run_of_another_model_is_refused(runs):
    code, _, err = call_command(export, "esim", "model", "--format=transformers")
    assert code == 2
    assert "no model like 'esim'" in err
    assert not (runs / "model").exists()


def test_the_library_predicts_what_the_run_predicts(runs):
    """Skipped without torch and transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    call_command(export, "bert", "model", "--format=transformers")
    model = transformers.AutoModelForSequenceClassification.from_pretrained("model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("model")
    predictions = load_run("bert").predict(PAIRS)
    for pair, prediction in zip(PAIRS, predictions, strict=True):
        inputs = tokenizer(*pair, return_tensors="pt", truncation=True, max_length=32)
        with torch.no_grad():
            probabilities = torch.softmax(model(**inputs).logits[0].double(), dim=0).numpy()
        ours = [prediction[label] for label in model.config.id2label.values()]
        np.testing.assert_allclose(probabilities, ours, rtol=0, atol=1e-5)
