"""The training loop: each seed stops by itself, with its best weights. test_resume.py stops and
resumes runs.

The tests run in float64, because batch norm over a few rows and Adam magnify rounding errors. An
epoch has nine steps.
"""

import dataclasses
import functools
import itertools
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models, random_pairs
from support.cases import cases
from support.trees import assert_equal, assert_near, of_seed

from mednli_jax.data.arrays import SIDES, Rows
from mednli_jax.data.batching import Batches, BatchSettings, premise_groups
from mednli_jax.models import table
from mednli_jax.nli.scorer import NLIScorer
from mednli_jax.training import loop, optim, state
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.devices import Devices
from mednli_jax.training.loop import Interrupted, LoopSettings, Trainer
from mednli_jax.training.program import Program
from mednli_jax.training.scorer import frozen

BATCH = 8
STEPS = 9
FIRST_DEV = BATCH * STEPS
ROWS = BATCH * STEPS + BATCH + 1
SEEDS = (0, 5, 7)
SETTINGS = LoopSettings(epochs=3, patience=5, select="loss", checkpoint_minutes=60.0)
PARTS = {"evaluate_every": 4}  # an epoch has parts of 4, 4 and 1 steps


@functools.cache
def arrays():
    """Random pairs. Those of the dev split share four premises, one of which has a single
    hypothesis."""
    data = random_pairs.arrays(rows=ROWS)
    premise_of_dev = [0, 0, 2, 0, 2, 5, 2, 7, 5]
    for name in ("premise", "premise_length"):
        dev = data[name][FIRST_DEV:]
        dev[:] = dev[premise_of_dev]
    return data


@functools.cache
def split(name):
    """The training rows come first, then the dev rows."""
    first, end = (0, FIRST_DEV) if name == "train" else (FIRST_DEV, ROWS)
    lengths = tuple(arrays()[f"{side}_length"][first:end] for side in SIDES)
    uids = tuple(f"{name}{row}" for row in range(end - first))
    return Rows(
        name,
        first,
        arrays()["label"][first:end],
        lengths,
        uids,
        ((),) * len(uids),
    )


@functools.cache
def batches(name):
    """The fitted batches of a split; premises of the dev split are encoded once."""
    rows = split(name)
    end = rows.first + len(rows)
    tokens = tuple(arrays()[side][rows.first : end] for side in SIDES)
    settings = BatchSettings(BATCH, (12, 8), first=rows.first)
    groups = premise_groups(tokens[0], 3)
    if name == "train":
        settings = dataclasses.replace(settings, seeds=SEEDS, epochs=SETTINGS.epochs)
        groups = None
    return Batches(*rows.length, settings, groups=groups, tokens=tokens)


@pytest.fixture(scope="module", autouse=True)
def _float64():
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        # Chunks stay short on any machine, so that training can stop anywhere.
        patch.setattr(loop, "CHUNK_SECONDS", 0.0)
        yield


@pytest.fixture(scope="module")
def bow():
    """The program of a model with dropout, batch norm and Adam."""
    devices = Devices(jax.local_devices()[:1])
    fields = {"hidden_size": 8, "dropout": 0.5}
    options = optim.Options(
        learning_rate=2e-3,
        weight_decay=1e-6,
        epochs=SETTINGS.epochs,
    )
    words = frozen(random_pairs.vectors())
    data = jax.tree.map(jnp.asarray, arrays())
    return Program(
        model=table.entry("bow").build(fields, axis_name=devices.axis_name),
        scorer=NLIScorer(),
        devices=devices,
        frozen=devices.replicate(models.as_type(words, np.float64)),
        data=devices.replicate(data),
        optimizer=optim.build_optimizer(options, batches("train").steps),
    )


class Run(NamedTuple):
    best: state.Best
    rows: list  # of metrics
    trainer: Trainer

    def fields(self, name):
        return [row[name] for row in self.rows]


def trainer_of(program, seeds=SEEDS, *, settings=None, **hooks):
    """A trainer in float64. settings: fields that differ from SETTINGS."""
    settings = dataclasses.replace(SETTINGS, **(settings or {}))
    splits = {name: split(name) for name in ("train", "dev")}
    plans = {name: batches(name) for name in ("train", "dev")}
    trainer = Trainer(program, settings, splits, plans, seeds, **hooks)
    learner = models.as_type(trainer.learner, np.float64)
    trainer.learner = learner
    trainer.begin(learner.params, learner.batch_stats)
    return trainer


def train(program, seeds=SEEDS, **hooks):
    rows = []
    trainer = trainer_of(program, seeds, on_epoch=rows.append, **hooks)
    return Run(trainer.run(), rows, trainer)


def scores_of(losses, accuracies):
    return {"loss": {"per_seed": losses}, "accuracy": {"per_seed": accuracies}}


def scripted(program, seeds, script, **settings):
    """A run whose dev losses come from a script, seed -> the loss of each evaluation; the training
    is real."""
    evaluations = itertools.count()

    def score(rows, logits, seeds):
        number = next(evaluations)
        losses = [script[seed][number] for seed in seeds.tolist()]
        return scores_of(losses, [0.5] * len(losses))

    settings = {"epochs": 8, "patience": 2, **settings}
    return train(program, seeds, settings=settings, score=score)


def recorded(program, **settings):
    """(run, the weights after each of its steps)."""
    program = dataclasses.replace(program)
    weights = []
    step = program.train

    def step_and_record(*arguments):
        learner, sums = step(*arguments)
        weights.append(jax.tree.map(np.array, learner.variables))
        return learner, sums

    program.train = step_and_record
    return train(program, settings=settings), weights


# ---- checkpoints ----


@cases(
    "every, saved",
    {
        "every second": (2, [2, 3]),
        "never due": (9, [3]),
    },
)
def test_epochs_between_checkpoints_are_counted_and_the_last_is_always_saved(bow, every, saved):
    epochs = []

    def save(state, meta, **_):
        epochs.append(meta["epoch"] - 1)

    recorder = SimpleNamespace(save=save)

    train(bow, settings={"checkpoint_epochs": every}, checkpoints=recorder)

    assert epochs == saved


# ---- the best epoch of each seed ----


SCRIPT = {
    0: [1.0, 2.0, 3.0, *[0.1] * 5],  # patience 2 ends it after epoch 3, whatever would follow
    5: [1.0, 0.9, 0.8, 0.7, 0.8, 0.9, 0.1, 0.1],  # ends after epoch 6
    7: [3.0, 2.0, 1.0, 2.0, 0.5, 0.6, 0.4, 0.9],  # one epoch without a better loss does not end it
}


def test_each_seed_ends_by_its_patience(bow):
    run = scripted(bow, SEEDS, SCRIPT)

    assert run.best.epoch.tolist() == [1, 4, 7]
    assert_near(run.best.value, [1.0, 0.7, 0.4], rtol=1e-6)
    stale = [row["stale"][row["seeds"].index(7)] for row in run.rows]
    assert stale == [0, 0, 0, 1, 0, 1, 0, 1]
    # Finished seeds are dropped once they are half of all.
    assert run.fields("seeds") == [[*SEEDS]] * 6 + [[7]] * 2


def test_a_dev_loss_that_is_not_finite_never_becomes_the_best(bow):
    """Holds even if accuracy decides: the argmax of NaN is a class, and a constant class can be
    right by chance."""
    nan = float("nan")
    script = {
        0: [nan, nan, nan],
        5: [1.0, nan, 0.5],
        7: [np.inf, 2.0, nan],
    }

    run = scripted(
        bow,
        SEEDS,
        script,
        patience=5,
        epochs=3,
        select="accuracy",
    )

    assert run.best.epoch.tolist() == [0, 1, 2]
    assert run.best.stale.tolist()[0] == 3
    assert run.fields("dev_loss")[0] == [None, 1.0, None]


@pytest.mark.parametrize(
    "select, epochs",
    [
        ("loss", [3, 1, 2]),
        ("accuracy", [2, 3, 1]),
        ("last", [3, 3, 3]),
    ],
)
def test_the_best_epoch_is_chosen_by_loss_by_accuracy_or_as_the_last(bow, select, epochs):
    """Of equal accuracies the first counts."""
    losses = iter(
        [
            [0.9, 0.1, 0.5],
            [0.8, 0.4, 0.2],
            [0.7, 0.3, 0.3],
        ]
    )
    accuracies = iter(
        [
            [0.1, 0.5, 0.3],
            [0.2, 0.5, 0.1],
            [0.2, 0.6, 0.2],
        ]
    )

    def score(rows, logits, seeds):
        return scores_of(next(losses), next(accuracies))

    best = train(bow, settings={"select": select}, score=score).best
    assert best.epoch.tolist() == epochs


def test_a_diverged_seed_harms_no_other_and_can_be_resumed(bow, tmp_path):
    """The losses of the diverged seed are NaN from the middle of an epoch on; metrics hold null, as
    JSON has no NaN."""
    unharmed = train(bow)
    checkpoints = Checkpoints(tmp_path)
    calls = itertools.count(1)
    trainer = trainer_of(bow, checkpoints=checkpoints, should_stop=lambda: next(calls) == 1)
    learner = trainer.learner
    spoilt = jax.tree.map(lambda leaf: leaf.at[1].set(jnp.nan), learner.params)
    trainer.learner = learner.replace(params=spoilt)
    with pytest.raises(Interrupted):
        trainer.run()
    assert trainer.progress.done > 0

    rows = []
    resumed = trainer_of(bow, checkpoints=checkpoints, on_epoch=rows.append)
    assert resumed.resume()
    best = resumed.run()

    assert best.epoch.tolist()[1] == 0
    for place in (0, 2):
        expected = of_seed(unharmed.best.variables, place)
        assert_equal(of_seed(best.variables, place), expected)
    for leaf in jax.tree.leaves(best.params):
        assert np.isfinite(leaf).all()
    for row in rows:
        assert row["dev_loss"][1] is None
        assert row["train_loss"][1] is None
        assert np.isfinite(row["train_loss"][::2]).all()


# ---- evaluations within an epoch ----


@pytest.fixture(scope="module")
def by_parts(bow):
    """(run, weights after its steps) of two epochs that are evaluated every four steps."""
    return recorded(bow, epochs=2, **PARTS)


@pytest.fixture(scope="module")
def by_epochs(bow):
    return recorded(bow, epochs=2)


def test_dev_is_scored_every_so_many_steps_and_at_the_end_of_an_epoch(bow, by_parts):
    run, weights = by_parts

    assert run.fields("epoch") == [1, 2, 3, 4, 5, 6]
    assert run.fields("pass") == [1, 1, 1, 2, 2, 2]
    assert run.fields("step") == [4, 8, 9, 13, 17, 18]
    for row in run.rows:
        logits = run.trainer.predict("dev", weights[row["step"] - 1])
        scores = bow.scorer.score(split("dev"), logits)
        assert_equal(scores["loss"]["per_seed"], row["dev_loss"])


def test_the_weights_of_any_evaluation_can_be_the_best(by_parts):
    run, weights = by_parts

    for place, epoch in enumerate(run.best.epoch.tolist()):
        at_best = weights[run.rows[epoch - 1]["step"] - 1]
        assert_equal(of_seed(run.best.variables, place), of_seed(at_best, place))


def test_evaluations_within_an_epoch_do_not_change_training(by_parts, by_epochs):
    (run, weights), (whole, whole_weights) = by_parts, by_epochs

    assert len(weights) == len(whole_weights) == 2 * STEPS
    assert_equal(weights, whole_weights)
    assert run.trainer.progress.trained_examples == whole.trainer.progress.trained_examples


@pytest.mark.parametrize("name", ["train_loss", "train_accuracy"])
def test_training_figures_cover_the_steps_since_the_last_evaluation(by_parts, by_epochs, name):
    (run, _), (whole, _) = by_parts, by_epochs
    plan = batches("train").epoch(1, SEEDS)
    examples = [int((index[0] >= 0).sum()) for _, index in plan]
    examples_of_parts = [sum(examples[:4]), sum(examples[4:8]), examples[8]]
    figures_of_parts = run.fields(name)[:3]

    mean = np.average(figures_of_parts, axis=0, weights=examples_of_parts)

    assert_near(mean, whole.fields(name)[0], rtol=1e-6)


def test_a_rate_is_halved_with_epochs_not_with_evaluations(bow):
    halving = {"schedule": "halving", "halve_from": 2}
    run = train(bow, settings={**halving, **PARTS})

    first_seed = [factors[0] for factors in run.fields("rate_factor")]
    assert first_seed == [1.0] * 3 + [0.5] * 3 + [0.25] * 3
    assert run.trainer.pass_of(run.trainer.progress.epoch - 1) == 3


@cases(
    "losses, settings, epochs",
    {
        # As published for GA: the first epoch without a better evaluation ends training.
        "patience 1": (
            [3.0, 4.0, 4.0, 4.0, 2.0, 4.0, 4.0, 4.0, 2.0],
            {"patience": 1},
            3,
        ),
        # As published for SA, but with 5 for 26: after epoch 4, training ends when three epochs
        # brought nothing better.
        "least epochs": ([3.0], {"patience": 3, "least_epochs": 5}, 5),
        "least epochs, better in the last": (
            [3.0, *[4.0] * 11, 1.0],
            {"patience": 3, "least_epochs": 5},
            8,
        ),
        "least epochs, better in epoch 3": (
            [3.0, *[4.0] * 7, 1.0],
            {"patience": 3, "least_epochs": 5},
            6,
        ),
    },
)
def test_patience_and_least_epochs_count_epochs_not_evaluations(bow, losses, settings, epochs):
    """All further evaluations are worse."""
    script = {7: [*losses, *[4.0] * 99]}

    rows = scripted(bow, (7,), script, **PARTS, **settings).rows

    assert rows[-1]["pass"] == epochs
    assert rows[-1]["step"] == STEPS * epochs


# ---- other seeds ----


SCRIPT_OF_PARTS = {
    0: [1.0, *[2.0] * 20, *[0.1] * 9],  # patience 2 ends it with epoch 3
    5: [2.0, 2.0, 1.0, *[2.0] * 20],  # ends with epoch 4
    7: [3.0 - 0.1 * n for n in range(20)],
}


@pytest.mark.parametrize(
    "settings, script, evaluations",
    [
        pytest.param(
            {},
            SCRIPT,
            {0: 3, 5: 6, 7: 7},
            id="constant",
        ),
        pytest.param(
            {"evaluate_every": 5},
            SCRIPT_OF_PARTS,
            {5: 8, 7: 14},
            id="parts",
        ),
    ],
)
def test_a_seed_trained_with_others_learns_and_ends_as_it_would_alone(
    bow, settings, script, evaluations
):
    """Neither other seeds nor their end changes what a seed learns or its end, up to rounding
    errors after 60 steps."""
    together = scripted(bow, SEEDS, script, epochs=7, **settings)
    assert together.rows[-1]["seeds"] == [7]  # the others were dropped once they were half of all

    for seed, count in evaluations.items():
        alone = scripted(bow, (seed,), script, epochs=7, **settings)

        place = SEEDS.index(seed)
        best = of_seed(together.best, place)
        best_alone = of_seed(alone.best, 0)
        assert len(alone.rows) == count
        assert best_alone.epoch == best.epoch
        assert best_alone.value == best.value
        assert_near(best_alone.params, best.params, atol=1e-4)
        of_next_seed = of_seed(together.best.params, (place + 1) % len(SEEDS))
        with pytest.raises(AssertionError):
            assert_near(best_alone.params, of_next_seed, atol=0.1)

    trainer, trainer_alone = together.trainer, alone.trainer  # seed 7 trains to the end of both
    assert_near(trainer_alone.learner.params, trainer.learner.params, atol=1e-4)


def test_steps_are_compiled_with_the_options_of_the_program(bow):
    program = dataclasses.replace(bow, train_options={"xla_no_such_option": ""}, _compiled={})

    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
        train(program)
