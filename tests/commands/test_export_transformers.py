"""`export --format=transformers`: the folder opens in the Transformers library and here."""

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.commands import call_command, use_one_device

from mednli_jax import export, load_run, train
from mednli_jax.data.pieces import PieceVocabulary
from mednli_jax.models import families, weights
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.encoder import Encoder

GOLDEN = Path(__file__).parents[1] / "golden"
OLD_RUNS = GOLDEN / "old_runs"
PAIRS_FOLDER = GOLDEN.parent / "cases" / "w07_added_tokens" / "data"
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


ROBERTA = {"head": "tanh", "second_type": 0, "token_types": 1, "first_position": 2}
MODERNBERT = {
    **families.FAMILIES["modernbert"].constants,
    "rotary_base": 100.0,
    "local_rotary_base": 10.0,
    "local_attention": 8,
    "local_layers": (1,),
    "norm_bias": False,
}


def made_up_weights(folder, architecture=ROBERTA, kind="bpe"):
    """Random weights of a small encoder, and a tokenizer of golden_pieces.json."""
    pieces = json.loads((GOLDEN / "golden_pieces.json").read_text())[kind]["files"]
    folder.mkdir()
    for name, content in pieces.items():
        (folder / name).write_text(content)
    sizes = {"hidden_size": 8, "layers": 2, "attention_heads": 2, "intermediate_size": 12}
    size = len(PieceVocabulary.load(folder))
    model = Encoder(vocab_size=size, positions=66, **architecture, **sizes)
    batch = PairBatch(
        premise=jnp.ones((1, 3), int),
        premise_length=jnp.ones(1, int),
        hypothesis=jnp.ones((1, 3), int),
        hypothesis_length=jnp.ones(1, int),
        mask=jnp.ones(1),
    )
    params = model.init({"params": jax.random.key(0)}, batch, train=False)["params"]
    labels = ("LABEL_0", "LABEL_1", "LABEL_2")
    for name, content in weights.exported_files(model, params, labels).items():
        (folder / name).write_bytes(content)


def trained(workdir, *flags):
    flags = (*flags, "--config.train.epochs=1", "--config.data.max_length=60")
    places = (f"--config.data.dir={PAIRS_FOLDER}", f"--workdir={workdir}")
    code, out, err = call_command(train, "--config=encoder:file", *places, *flags)
    assert code == 0, err
    return out + err


def test_a_roberta_goes_out_and_comes_back(tmp_path, monkeypatch):
    """Trained with typed links; exported with a warning that they stay behind; the exported weights
    and the run are sources of further runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    use_one_device(monkeypatch)
    made_up_weights(tmp_path / "roberta")
    output = trained("first", "--config.model.weights=roberta", "--config.train.learning_rate=1e-2")
    assert "LABEL_0" in output
    code, _, err = call_command(export, "first", "model", "--format=transformers")
    assert (code, "warning" in err) == (0, False)
    still = "--config.train.learning_rate=0"
    output = trained("second", "--config.model.weights=model", still)
    assert "warning" not in output.split("weights from model", 1)[1].splitlines()[0]
    predictions = [load_run(name).predict(PAIRS) for name in ("first", "second")]
    for ours, theirs in zip(*predictions, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)
    source = ("--config.model.weights=roberta", "--config.transfer.init_from=first")
    trained("third", *source, still)
    assert load_run("third").predict(PAIRS)[0] == pytest.approx(predictions[0][0], abs=1e-6)
    trained("typed", "--config.model.weights=roberta", "--config.model.knowledge=typed")
    code, _, err = call_command(export, "typed", "linkless", "--format=transformers")
    assert code == 0
    assert "links of the run stay behind" in err


def test_a_modernbert_run_opens_again_and_goes_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDNLI_JAX_CACHE", str(tmp_path / "cache"))
    use_one_device(monkeypatch)
    made_up_weights(tmp_path / "small", MODERNBERT, kind="uncased-json")
    trained("run", "--config.model.weights=small", "--config.model.rematerialise=True")
    assert len(load_run("run").predict(PAIRS)) == len(PAIRS)
    code, _, _ = call_command(export, "run", "model", "--format=transformers")
    assert code == 0
    assert weights.read_architecture("model") == weights.read_architecture("small")


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
