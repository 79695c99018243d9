"""`export --format=transformers`: the folder opens in the Transformers library and here."""

import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.commands import ROOT, at, read_json, refused, succeeds
from support.pair_files import write_own_pairs

from mednli_jax import load_run
from mednli_jax.data.pieces import PieceVocabulary
from mednli_jax.models import families, weights
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.encoder import Encoder

GOLDEN = ROOT / "tests" / "golden"
PAIRS = [
    ("asthma in dev 0 .", "patient has asthma"),
    ("gout with sepsis .", "patient may have stroke"),
    ("pneumonia", "no pneumonia today"),
]
EXPORT = ("model", "--format=transformers")


def trained(workdir, *flags, config="encoder"):
    """The messages of a training for one epoch."""
    short = ("--config.train.epochs=1", "--config.data.max_length=60")
    write_own_pairs(Path("pairs"))
    places = ("--config.data.dir=pairs", f"--workdir={workdir}")
    return succeeds(f"train --config={config}:file", *places, *short, *flags)[1]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A folder with a run of a small BERT in bert/, whose pieces and weights are its own."""
    home = tmp_path_factory.mktemp("bert")
    sizes = [f"--config.model.{name}=8" for name in ("hidden_size", "intermediate_size")]
    layers = ["--config.model.layers=1", "--config.model.attention_heads=2"]
    learns = ["--config.train.learning_rate=3e-2", "--config.train.batch_size=16"]
    pieces = ["--config.data.pieces=120", "--config.seeds=3,"]  # no seed of the number of its row
    with at(home):
        trained("bert", *sizes, *layers, *learns, *pieces, config="encoder")
    return home / "bert"


@pytest.fixture
def runs(bert, tmp_path, monkeypatch):
    """The working folder, with the run of `bert` in bert/."""
    shutil.copytree(bert, tmp_path / "bert")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_is_exported_with_the_files_of_transformers(runs):
    assert succeeds("export bert", *EXPORT)[0] == "model\n"

    files = {path.name for path in (runs / "model").glob("[!.]*")}
    assert files == set(
        ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    )
    config = read_json(runs, "model", "config.json")
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["label2id"] == {"entailment": 0, "neutral": 1, "contradiction": 2}
    fields = weights.read_architecture(runs / "model")
    pieces = PieceVocabulary.of_weights(runs / "model")
    assert pieces == PieceVocabulary.load(runs / "bert" / "private" / "vocabulary.json")
    pieces.check_weights(fields["vocab_size"], type_rows=2)


def test_a_folder_with_files_gets_no_export(runs):
    (runs / "model").mkdir()
    (runs / "model" / "thesis.tex").write_text("text")

    assert "model: is there already" in refused("export bert", *EXPORT)
    for form in ("run", "transformers"):
        arguments = ("model/thesis.tex", f"--format={form}")
        assert "thesis.tex: is there already" in refused("export bert", *arguments)


def test_a_run_of_a_model_that_transformers_lacks_is_not_exported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained("bow", "--config.vectors.path=", "--config.vectors.dim=8", config="bow")

    assert "no model like 'bow'" in refused("export bow", *EXPORT)

    assert not (tmp_path / "model").exists()


def test_transformers_predicts_what_an_exported_run_predicts(runs):
    """Skipped without torch and transformers."""
    succeeds("export bert", *EXPORT)

    assert_transformers_predicts(load_run("bert").predict(PAIRS), length=60)


def assert_transformers_predicts(predictions, length):
    """The model in model/ predicts so, to 1e-5; skips the test without torch and transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForSequenceClassification.from_pretrained("model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("model")
    for pair, prediction in zip(PAIRS, predictions, strict=True):
        inputs = tokenizer(*pair, return_tensors="pt", truncation=True, max_length=length)
        with torch.no_grad():
            logits = model(**inputs).logits[0].double()
        probability_C = torch.softmax(logits, dim=0).numpy()
        ours_C = [prediction[label] for label in model.config.id2label.values()]
        np.testing.assert_allclose(probability_C, ours_C, rtol=0, atol=1e-5)


# -- out and back ----------------------------------------------------------------------------------

ROBERTA = {"head": "tanh", "second_type": 0, "token_types": 1, "first_position": 2}
MODERNBERT = {
    **families.FAMILIES["modernbert"].constants,
    "rotary_base": 100.0,
    "local_rotary_base": 10.0,
    "local_attention": 8,
    "local_layers": (1,),
    "norm_bias": False,
}
DEBERTA = {
    **families.FAMILIES["deberta-v2"].constants,
    "token_types": 0,
    "second_type": 0,
    "absolute_positions": False,
    "relative_positions": 66,
    "relative_buckets": 8,
    "relative_terms": ("c2p", "p2c"),
    "relative_norm": True,
    "convolution": 3,
}
FROM_ROBERTA = "--config.model.weights=roberta"
NO_STEPS = "--config.train.learning_rate=0"


def write_encoder(folder, architecture, tokenizer):
    """Writes random weights of a small encoder, and a tokenizer of golden_pieces.json."""
    folder.mkdir()
    for name, content in read_json(GOLDEN, "golden_pieces.json")[tokenizer]["files"].items():
        (folder / name).write_text(content)
    sizes = {"hidden_size": 8, "layers": 2, "attention_heads": 2, "intermediate_size": 12}
    pieces = PieceVocabulary.of_weights(folder)
    model = Encoder(vocab_size=len(pieces), positions=66, **architecture, **sizes)
    token_BT = jnp.ones((1, 3), int)
    one_B = jnp.ones(1, int)
    batch = PairBatch(
        premise=token_BT,
        premise_length=one_B,
        hypothesis=token_BT,
        hypothesis_length=one_B,
        mask=jnp.ones(1),
    )
    params = model.init({"params": jax.random.key(0)}, batch, train=False)["params"]
    labels = ("LABEL_0", "LABEL_1", "LABEL_2")
    for name, content in weights.exported_files(model, params, labels).items():
        (folder / name).write_bytes(content)


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    """A folder with a RoBERTa in roberta/, a run that was trained from it in first/ and exported to
    model/."""
    home = tmp_path_factory.mktemp("roberta")
    write_encoder(home / "roberta", ROBERTA, "bpe")
    with at(home):
        messages = trained("first", FROM_ROBERTA, "--config.train.learning_rate=1e-2")
        assert "LABEL_0" in messages
        assert "warning" not in succeeds("export first", *EXPORT)[1]
    return home


@pytest.fixture
def at_home(roberta):
    with at(roberta):
        yield


def test_exported_weights_are_the_start_of_a_run_with_equal_predictions(at_home):
    messages = trained("second", "--config.model.weights=model", NO_STEPS)

    assert "warning" not in messages.split("weights from model", 1)[1].splitlines()[0]
    first, second = (load_run(name).predict(PAIRS) for name in ("first", "second"))
    for prediction, again in zip(first, second, strict=True):
        assert again == pytest.approx(prediction, abs=1e-6)
    assert load_run("first").experiment.prepare()[1]  # the arrays of its training


def test_a_run_needs_nothing_outside_of_its_folder(roberta, tmp_path):
    """The folder of weights, which its config names from another folder, is not here."""
    shutil.copytree(roberta / "first", tmp_path / "first")
    write_own_pairs(tmp_path / "pairs")

    with at(tmp_path):
        assert "reads pieces" in refused("export first new --vocabulary=public")
        succeeds("export first carried")
        succeeds("export carried", *EXPORT)
        first, carried = load_run("first"), load_run("carried")
        for run in (first, carried):
            assert run.evaluate() == first.result["test"]
            assert run.config.model.weights == "roberta"
        assert carried.predict(PAIRS) == first.predict(PAIRS)

    assert read_json(tmp_path, "model", "tokenizer_config.json")["model_max_length"] == 60


def test_a_length_beyond_the_positions_is_refused_at_the_start(at_home):
    message = refused("train --config=encoder:demo", FROM_ROBERTA, "--config.data.max_length=65")

    assert "config.data.max_length: is 65, and the model has 64 positions. Fix: " in message


def test_weights_of_a_run_of_pretrained_weights_are_the_start_of_another_run(at_home):
    trained("third", FROM_ROBERTA, "--config.transfer.init_from=first", NO_STEPS)

    first, third = (load_run(name).predict(PAIRS)[0] for name in ("first", "third"))
    assert third == pytest.approx(first, abs=1e-6)


@pytest.mark.slow
def test_export_warns_that_typed_links_stay_behind(at_home):
    trained("typed", FROM_ROBERTA, "--config.model.knowledge=typed")

    _, err = succeeds("export typed linkless --format=transformers")

    assert "links of the run stay behind" in err


@pytest.mark.parametrize(
    ("architecture", "tokenizer"), [(MODERNBERT, "uncased-json"), (DEBERTA, "unigram")]
)
def test_a_run_of_a_small_pretrained_encoder_opens_again_and_is_exported(
    architecture, tokenizer, tmp_path
):
    write_encoder(tmp_path / "small", architecture, tokenizer)

    with at(tmp_path):
        trained("run", "--config.model.weights=small", "--config.model.rematerialise=True")
        predictions = load_run("run").predict(PAIRS)
        succeeds("export run", *EXPORT)

    assert len(predictions) == len(PAIRS)
    exported = weights.read_architecture(tmp_path / "model")
    assert exported == weights.read_architecture(tmp_path / "small")
    with at(tmp_path):
        assert_transformers_predicts(predictions, length=60)
