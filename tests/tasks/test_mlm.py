"""Masked language modelling as a task: weights of rows, scores, and a run that leads from text to a classifier."""

import json

import jax
import jax.numpy as jnp
import made_up
import numpy as np
import pytest
from made_up_commands import call_command, config_flag, read_json

from mednli_jax import evaluate, predict, prepare, report, train
from mednli_jax.corpora.arrays import SIDES, Rows
from mednli_jax.corpora.batching import Layout
from mednli_jax.tasks.mlm import MaskedLMTask
from mednli_jax.training import loop
from mednli_jax.training.checkpoint import Checkpoints

TINY = ("--config.model.hidden_size=8", "--config.model.layers=1", "--config.model.intermediate_size=16",
        "--config.data.pieces=150", "--config.data.max_length=24", "--config.train.max_buckets=1",
        "--config.train.batch_size=8", "--config.model.dropout=0.1", "--config.train.learning_rate=0.02")  # fmt: skip


def test_a_row_weighs_as_much_as_it_has_predicted_pieces():
    data = {name: jnp.asarray(array) for name, array in made_up.arrays().items()}
    rows = jnp.array([[3], [-1], [5]])
    batch = MaskedLMTask().to_batch(data, rows, Layout.full(3, (12, 8)))
    lengths = [sum(int(data[f"{side}_length"][row]) for side in SIDES) for row in (3, 5)]
    expected = [max(round(0.15 * length), 1) for length in lengths]
    assert batch["mask"].tolist() == [expected[0], 0, expected[1]]
    assert batch["row_number"].tolist() == [3, -1, 5]


def test_scores_are_means_over_predicted_pieces():
    """Two rows of 1 and 3 pieces have (2 + 3 * 1) / 4 nats, and (1 + 3 * 1/3) / 4 are right."""
    rows = Rows("dev", 0, np.zeros(2, np.int8), (), ("a", "b"), ((), ()))
    logits = np.array([[[2.0, 1.0, 1], [1.0, 1 / 3, 3]]])
    scores = MaskedLMTask().score(rows, logits)
    assert scores["loss"]["mean"] == pytest.approx(1.25)
    assert scores["accuracy"]["mean"] == pytest.approx(0.5)
    assert scores["perplexity"]["mean"] == pytest.approx(np.exp(1.25))
    assert (scores["examples"], scores["predicted"]) == (2, 4)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    words = ["heart", "lung", "fever", "cough", "pain", "renal"]
    for split, count in (("train", 60), ("dev", 8)):
        lines = (f"the {words[i % 6]} of patient {i % 4} has {words[(i + 1) % 6]}.\n\n" for i in range(count))
        (folder / f"{split}.txt").write_text("".join(lines))
    return folder


def trained(text, folder, *flags):
    flags = (config_flag("mlm", "file"), f"--config.data.dir={text}", *TINY, f"--workdir={folder}", *flags)
    return call_command(train, *flags)


@pytest.fixture(scope="module")
def run(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlm") / "run"
    code, *_ = trained(text, folder, "--config.train.epochs=4", "--config.seeds=0,1")
    assert code == 0
    return folder


def test_a_run_learns_is_scored_and_shown(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["dev_loss"][0] < rows[0]["dev_loss"][0] - 0.1
    result = read_json(run / "result.json")
    best = [min(row["dev_loss"][seed] for row in rows) for seed in (0, 1)]
    assert result["dev"]["loss"]["per_seed"] == pytest.approx(best)
    code, out, _ = call_command(evaluate, f"--run={run}", "--split=dev", "--json")
    assert code == 0
    assert json.loads(out)["loss"] == result["dev"]["loss"]
    assert call_command(report, run)[0] == 0
    assert "perplexity" in (run / "report.html").read_text()


def test_a_run_stopped_after_an_epoch_resumes_bit_for_bit(text, run, tmp_path):
    """Only the steps so far determine the learner, so two epochs and two more equal four."""
    folder, saves = tmp_path / "stopped", []
    original = loop.Trainer.save

    def save(self):
        original(self)
        saves.append(self.epoch)
        if len(saves) == 2:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Trainer, "save", save)
        assert trained(text, folder, "--config.train.epochs=4", "--config.seeds=0,1")[0] == 3
    assert trained(text, folder, "--config.train.epochs=4", "--config.seeds=0,1", "--resume")[0] == 0
    whole, again = (Checkpoints(which / "checkpoints").load()[0]["best"] for which in (run, folder))
    jax.tree.map(np.testing.assert_array_equal, whole, again)
    for seed in (0, 1):
        name = f"private/weights-{seed}/model.safetensors"
        assert (run / name).read_bytes() == (folder / name).read_bytes()


def test_a_classifier_begins_from_the_weights(run, tmp_path):
    weights = f"--config.model.weights={run / 'private/weights-1'}"
    few = ("--config.data.limit=30", "--config.train.epochs=1", "--config.data.max_length=24")
    code, _, err = call_command(train, config_flag("bert", "demo"), weights, *few, f"--workdir={tmp_path / 'bert'}")
    assert code == 0
    assert "pooler" in err


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (predict, []),
        (report, ["--compare"]),
        (evaluate, ["--config=configs/bow.py", "--split=dev"]),
        (evaluate, ["--split=test"]),
    ],
)
def test_what_has_no_meaning_is_one_line(run, command, flags):
    named = [run, run] if command is report else [f"--run={run}"]
    code, _, err = call_command(command, *named, *flags)
    assert code == 2
    assert err.strip().count("\n") == 0


@pytest.mark.parametrize("field", ["transfer.init_from", "model.weights"])
def test_the_run_s_folder_is_no_weights_and_the_message_names_them(run, tmp_path, field):
    flags = (f"--config.{field}={run}", "--config.data.limit=30", f"--workdir={tmp_path / 'bert'}")
    code, _, err = call_command(train, config_flag("bert", "demo"), *flags)
    assert (code, "weights-" in err) == (2, True)


def test_prepare_says_what_the_rows_are(text):
    code, out, _ = call_command(prepare, config_flag("mlm", "file"), f"--config.data.dir={text}", *TINY)
    assert (code, "dev: 8 rows" in out) == (0, True)
    assert call_command(prepare, config_flag("mlm", "demo"), "--metamap=nowhere")[0] == 2
