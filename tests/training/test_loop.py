"""The training loop: each seed stops by itself, with its best weights. test_resume.py stops and
resumes runs.

The tests run in float64, because batch norm over a few rows and Adam magnify rounding errors.
"""

import dataclasses
import functools
import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import models, random_pairs

from mednli_jax.data.arrays import Rows
from mednli_jax.data.batching import Batches, BatchPlan, groups_of
from mednli_jax.models import table
from mednli_jax.nli.task import NLITask, frozen
from mednli_jax.training import loop, optim, state
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.devices import Devices
from mednli_jax.training.loop import Interrupted, Settings, Trainer
from mednli_jax.training.program import Program

BATCH = 8
WIDTH = (12, 8)
ROWS = {"train": 72, "dev": BATCH + 1}
SEEDS = (0, 5, 7)
SETTINGS = Settings(epochs=3, patience=5, select="loss", checkpoint_minutes=60.0)


def arrays():
    """Made-up rows. Those of the dev split share four premises, one of which has a single
    hypothesis."""
    made = random_pairs.arrays(rows=sum(ROWS.values()))
    dev = made["premise"][ROWS["train"] :], made["premise_length"][ROWS["train"] :]
    for array in dev:
        array[:] = array[[0, 0, 2, 0, 2, 5, 2, 7, 5]]
    return made


ARRAYS = arrays()


def splits():
    """The training rows first, then the dev rows."""
    result, first = {}, 0
    for name, size in ROWS.items():
        own = slice(first, first + size)
        length = tuple(ARRAYS[f"{side}_length"][own] for side in ("premise", "hypothesis"))
        uids = tuple(f"{name}{row}" for row in range(size))
        result[name] = Rows(name, first, ARRAYS["label"][own], length, uids, ((),) * size)
        first += size
    return result


@functools.cache
def batches_of():
    """The fitted batches of both splits; premises of the dev split are encoded once."""
    result = {}
    for name, rows in splits().items():
        own = slice(rows.first, rows.first + len(rows))
        tokens = tuple(ARRAYS[side][own] for side in ("premise", "hypothesis"))
        plan, groups = BatchPlan(BATCH, WIDTH, first=rows.first), groups_of(tokens[0], 3)
        if name == "train":
            plan, groups = dataclasses.replace(plan, seeds=SEEDS, epochs=SETTINGS.epochs), None
        result[name] = Batches(*rows.length, plan, groups=groups, tokens=tokens)
    return result


def trainer_of(program, settings=SETTINGS, seeds=SEEDS, **how):
    trainer = Trainer(program, settings, splits(), batches_of(), seeds, **how)
    if isinstance(program.scorer, Scripted):
        program.scorer.trainer[:] = [trainer]
    return trainer


def build(**how):
    devices = Devices(jax.local_devices()[:1])
    program = Program(
        model=table.entry("bow").build(
            {"hidden_size": 8, "dropout": 0.5}, axis_name=devices.axis_name
        ),
        scorer=NLITask(),
        devices=devices,
        frozen=devices.replicate(models.as_type(frozen(random_pairs.vectors()), np.float64)),
        data=devices.replicate({name: jnp.asarray(array) for name, array in ARRAYS.items()}),
    )
    how = {"learning_rate": 2e-3, "weight_decay": 1e-6, "epochs": SETTINGS.epochs, **how}
    program.optimizer = optim.build_optimizer(optim.Options(**how), batches_of()["train"].steps)
    return program


@pytest.fixture(scope="module", autouse=True)
def _float64():
    """Also draws initial parameters once for each program, not for each trainer, to save
    compilation."""
    drawn, draw = {}, state.init_learner

    def init_learner(model, optimizer, seeds, *rest):
        if (model, optimizer, seeds) not in drawn:
            drawn[model, optimizer, seeds] = models.as_type(
                draw(model, optimizer, seeds, *rest), np.float64
            )
        return jax.tree.map(
            jnp.copy, drawn[model, optimizer, seeds]
        )  # training overwrites its learner

    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "init_learner", init_learner)
        patch.setattr(
            loop, "CHUNK_SECONDS", 0.0
        )  # chunks stay short on any machine, so that it can stop anywhere
        yield


@pytest.fixture(scope="module")
def bow():
    return build()


def train(program, settings=SETTINGS, **how):
    """(best, rows of metrics, trainer)."""
    rows = []
    trainer = trainer_of(program, settings, on_epoch=rows.append, **how)
    return trainer.run(), rows, trainer


def same(a, b):
    for old, new in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(old, new)
    return True


def of_seed(tree, place):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[place], tree)


def stop_at_once():
    """A should_stop that returns True at its first call."""
    calls = itertools.count(1)
    return lambda: next(calls) == 1


PROTOCOLS = {  # name -> fields of the loop's settings
    "constant": {},
    "parts": {"evaluate_every": 5},
    "average": {"average_from": 2, "average_every": 4},
}


def leaves(a, b):
    return zip(jax.tree.leaves(a.params), jax.tree.leaves(b.params), strict=True)


@pytest.mark.parametrize(("every", "saved"), [(2, [2, 3]), (9, [3])])
def test_epochs_between_checkpoints_are_counted_and_the_last_is_always_kept(bow, every, saved):
    epochs = []
    keep = SimpleNamespace(save=lambda state, meta, **_: epochs.append(meta["epoch"] - 1))
    train(bow, dataclasses.replace(SETTINGS, checkpoint_epochs=every), checkpoints=keep)
    assert epochs == saved


# ---- the best epoch of each seed ----


@dataclasses.dataclass(frozen=True)
class Scripted(NLITask):
    """Dev losses come from a script, by seed and epoch; the training is real."""

    script: dict = dataclasses.field(default_factory=dict)
    trainer: list = dataclasses.field(default_factory=list)  # the trainer that runs

    def losses(self, rows, logits):
        trainer = self.trainer[0]
        seeds = [trainer.seeds[place] for place in trainer._learner_slots()]
        assert len(seeds) == len(logits)
        return np.array([self.script[seed][trainer.progress.epoch - 1] for seed in seeds])


SCRIPT = {
    0: [
        1.0,
        2.0,
        3.0,
        0.1,
        0.1,
        0.1,
        0.1,
        0.1,
    ],  # patience 2 ends it after epoch 3, whatever would follow
    5: [1.0, 0.9, 0.8, 0.7, 0.8, 0.9, 0.1, 0.1],  # ends after epoch 6
    7: [3.0, 2.0, 1.0, 2.0, 0.5, 0.6, 0.4, 0.9],  # one epoch without a better loss does not end it
}


def scripted(program, seeds, script=SCRIPT, **fields):
    """(best, rows, trainer) of a run with scripted dev losses."""
    settings = dataclasses.replace(SETTINGS, **{"epochs": 8, "patience": 2, **fields})
    return train(with_script(program, script), settings, seeds=seeds)


def with_script(program, script):
    """Compiled programs do not depend on dev losses, so they are shared with the other tests."""
    return dataclasses.replace(program, scorer=Scripted(script=script))


def test_each_seed_ends_by_its_patience_with_the_weights_of_its_best_epoch(bow):
    best, rows, _ = scripted(bow, SEEDS)
    assert best.epoch.tolist() == [1, 4, 7]
    np.testing.assert_allclose(best.value, [1.0, 0.7, 0.4], rtol=1e-6)
    assert [dict(zip(row["seeds"], row["stale"], strict=True))[7] for row in rows] == [
        0,
        0,
        0,
        1,
        0,
        1,
        0,
        1,
    ]
    assert [tuple(row["seeds"]) for row in rows] == [SEEDS] * 6 + [
        (7,)
    ] * 2  # the program keeps more than half
    _, _, trainer = scripted(
        bow, SEEDS, epochs=4
    )  # this learner has the weights of seed 5's best epoch
    assert same(of_seed(trainer.learner.variables, 1), of_seed(best.variables, 1))
    _, rows, _ = scripted(bow, SEEDS, {seed: [1.0, 2.0, 3.0] for seed in SEEDS}, patience=1)
    assert [row["epoch"] for row in rows] == [1, 2]  # no seed is left


def test_a_dev_loss_that_is_no_number_never_becomes_the_best(bow):
    """Holds even if accuracy decides: the argmax of NaN is a class, and a constant class can be
    right by chance."""
    nan = float("nan")
    script = {0: [nan, nan, nan], 5: [1.0, nan, 0.5], 7: [np.inf, 2.0, nan]}
    best, rows, _ = scripted(bow, SEEDS, script, patience=5, epochs=3, select="accuracy")
    assert best.epoch[1] in (1, 3)
    assert best.epoch.tolist()[::2] == [0, 2]
    assert rows[0]["dev_loss"][0] is None
    assert best.stale.tolist()[0] == 3


def test_a_diverged_seed_harms_no_other_and_can_be_resumed(bow, tmp_path):
    """The losses of the diverged seed are NaN from the middle of an epoch on; metrics hold null, as
    JSON has no NaN."""
    unharmed, _, _ = train(bow)
    checkpoints = Checkpoints(tmp_path)
    trainer = trainer_of(bow, checkpoints=checkpoints, should_stop=stop_at_once())
    spoil = jax.tree.map(lambda x: x.at[1].set(jnp.nan), trainer.learner.params)
    trainer.learner = trainer.learner.replace(params=spoil)
    with pytest.raises(Interrupted):
        trainer.run()
    assert trainer.progress.done > 0
    rows = []
    resumed = trainer_of(bow, checkpoints=checkpoints, on_epoch=rows.append)
    assert resumed.resume()
    best = resumed.run()
    assert best.epoch.tolist()[1] == 0
    for place in (0, 2):
        assert same(of_seed(best.variables, place), of_seed(unharmed.variables, place))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(best.params))
    assert [row["dev_loss"][1] for row in rows] == [None] * 3
    assert [row["train_loss"][1] for row in rows] == [None] * 3
    assert np.isfinite([row["train_loss"][::2] for row in rows]).all()


@pytest.mark.parametrize(
    ("select", "epochs"), [("loss", [3, 1, 2]), ("accuracy", [2, 3, 1]), ("last", [3, 3, 3])]
)
def test_the_best_epoch_is_the_one_that_the_setting_asks_for(bow, select, epochs):
    """The lowest loss, the highest accuracy (of equal ones the first) or the last epoch, for each
    seed."""
    losses = iter([[0.9, 0.1, 0.5], [0.8, 0.4, 0.2], [0.7, 0.3, 0.3]])
    accuracies = iter([[0.1, 0.5, 0.3], [0.2, 0.5, 0.1], [0.2, 0.6, 0.2]])

    def score(rows, logits, seeds):
        return {"loss": {"per_seed": next(losses)}, "accuracy": {"per_seed": next(accuracies)}}

    best, _, _ = train(bow, dataclasses.replace(SETTINGS, select=select), score=score)
    assert best.epoch.tolist() == epochs


# ---- evaluations within an epoch ----

OFTEN = {"evaluate_every": 4}  # an epoch has nine steps: parts of 4, 4 and 1


def often(program, values, **fields):
    """A run of one seed with these dev losses, one for each evaluation."""
    return scripted(program, (7,), {7: values}, **OFTEN, **fields)


def test_dev_is_scored_after_so_many_steps_and_at_the_end_of_an_epoch(bow):
    """The steps equal those of a run without it; a row's training figures cover the steps since the
    last row."""
    settings = dataclasses.replace(SETTINGS, epochs=2, **OFTEN)
    best, rows, trainer, seen = recorded(bow, settings)
    _, whole_rows, whole, plain = recorded(bow, dataclasses.replace(SETTINGS, epochs=2))
    assert len(seen) == len(plain) == 18
    assert same(seen, plain)
    assert [(row["epoch"], row["pass"], row["step"]) for row in rows] == [
        (1, 1, 4), (2, 1, 8), (3, 1, 9), (4, 2, 13), (5, 2, 17), (6, 2, 18),
    ]  # fmt: skip
    for row in rows:
        logits = trainer.predict("dev", seen[row["step"] - 1])
        np.testing.assert_array_equal(
            bow.scorer.score(splits()["dev"], logits)["loss"]["per_seed"], row["dev_loss"]
        )
    for place, epoch in enumerate(best.epoch.tolist()):
        assert same(
            of_seed(best.params, place), of_seed(seen[rows[epoch - 1]["step"] - 1]["params"], place)
        )
    plan = trainer.batches["train"].epoch(1, SEEDS)
    count = [
        sum((index[0] >= 0).sum() for _, index in part) for part in (plan[:4], plan[4:8], plan[8:])
    ]
    for name in ("train_loss", "train_accuracy"):
        parts = np.array([row[name] for row in rows[:3]])
        np.testing.assert_allclose(
            np.average(parts, axis=0, weights=count), whole_rows[0][name], rtol=1e-6
        )
    assert trainer.progress.trained_examples == whole.progress.trained_examples


def test_a_rate_is_halved_with_epochs_not_with_evaluations(bow):
    settings = dataclasses.replace(SETTINGS, schedule="halving", halve_from=2, **OFTEN)
    _, rows, trainer = train(bow, settings)
    assert [row["rate_factor"][0] for row in rows] == [1.0] * 3 + [0.5] * 3 + [0.25] * 3
    assert trainer.pass_of(trainer.progress.epoch - 1) == 3


def test_patience_counts_epochs_without_a_better_evaluation(bow):
    """Patience 1 ends after the last evaluation of the first epoch without a better one, as
    published for GA."""
    _, rows, _ = often(bow, [3.0, 4.0, 4.0, 4.0, 2.0, 4.0, 4.0, 4.0, 2.0, 0.1], patience=1)
    assert [row["step"] for row in rows] == [4, 8, 9, 13, 17, 18, 22, 26, 27]
    _, rows, _ = often(bow, [3.0, 4.0, 4.0, *[4.0] * 5, 1.0, *[4.0] * 99], patience=3)
    assert rows[-1]["pass"] == 6  # the best evaluation is the last of epoch 3


def test_a_least_number_of_epochs_comes_before_patience(bow):
    """As published for SA, but with 5 for 26: after epoch 4, training ends when three epochs
    brought nothing better."""
    worse = [4.0] * 99
    for values, end in (
        ([3.0, *worse], 5),
        ([3.0, 4.0, *worse[:10], 1.0, *worse], 8),  # the loss is better in epoch 5
        (
            [3.0, 4.0, *worse[:3], 1.0, *worse],
            5,
        ),  # the loss is better in epoch 2, and not in 3, 4, 5
        ([3.0, 4.0, *worse[:6], 1.0, *worse], 6),
    ):
        _, rows, _ = often(bow, values, patience=3, least_epochs=5)
        assert (rows[-1]["pass"], rows[-1]["step"]) == (end, 9 * end)


# ---- protocols ----


def recorded(program, settings, **how):
    """(best, rows, trainer, the weights after every step) of a run."""
    program, seen = dataclasses.replace(program), []
    step = program.train

    def and_keep(*arguments):
        learner, sums = step(*arguments)
        seen.append(jax.tree.map(np.array, learner.variables))
        return learner, sums

    program.train = and_keep
    return *train(program, settings, **how), seen


@pytest.mark.parametrize(("every", "first"), [(4, 2), (0, 3)])
def test_the_average_is_the_mean_of_the_weights_at_its_samples(bow, every, first):
    """An epoch has nine steps. Before the first sample the weights are scored, after it the
    average."""
    settings = dataclasses.replace(SETTINGS, average_from=first, average_every=every)
    best, rows, trainer, seen = recorded(bow, settings)
    steps = len(trainer.batches["train"].epoch(1, SEEDS))
    ends = range((first - 1) * steps + (every or steps) - 1, 3 * steps, every or steps)
    assert [row["averaged"] for row in rows] == [
        sum(step < steps * row["epoch"] for step in ends) for row in rows
    ]
    assert trainer.average.count.tolist() == [len(ends)] * 3

    def by_hand(epoch):
        """The weights that are scored after an epoch."""
        sampled = [seen[step] for step in ends if step < steps * epoch] or [seen[steps * epoch - 1]]
        return jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *sampled)

    near = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-12)
    jax.tree.map(near, trainer.average.variables, by_hand(3))
    for place, epoch in enumerate(best.epoch.tolist()):
        jax.tree.map(near, of_seed(best.variables, place), of_seed(by_hand(epoch), place))
    _, plain, raw = train(bow)
    assert same(trainer.learner, raw.learner)  # training continued with the weights themselves
    for row, other in zip(rows, plain, strict=True):
        itself = (
            row["averaged"] == 1 and every == 0
        )  # the average of one sample, taken at the end of the epoch
        assert (row["dev_loss"] == other["dev_loss"]) == (row["averaged"] == 0 or itself)
    scores = bow.scorer.score(splits()["dev"], trainer.predict("dev", trainer.average.variables))
    np.testing.assert_array_equal(scores["loss"]["per_seed"], rows[-1]["dev_loss"])


PARTS = {  # dev losses of the four parts of two epochs
    0: [1.0] + [2.0] * 20 + [0.1] * 9,  # patience 2 ends it with epoch 3
    5: [2.0, 2.0, 1.0, *[2.0] * 20],  # ends with epoch 4
    7: [3.0 - 0.1 * n for n in range(20)],
}


@pytest.mark.parametrize(
    "name", ["constant", "parts", pytest.param("average", marks=pytest.mark.slow)]
)
def test_a_seed_ends_as_it_would_alone(bow, name):
    """Neither other seeds nor their end changes what a seed learns, its rate, its average or its
    end."""
    how = PROTOCOLS[name] | {"epochs": 7}
    script = PARTS if name == "parts" else SCRIPT
    best, rows, trainer = scripted(bow, SEEDS, script, **how)
    assert tuple(rows[-1]["seeds"]) == (7,)  # the others were dropped once they were half of all
    for place in (0, 1, 2) if name == "constant" else (1, 2):
        alone, alone_rows, alone_trainer = scripted(bow, (SEEDS[place],), script, **how)
        assert len(alone_rows) == ((6, 8, 14) if name == "parts" else (3, 6, 7))[place]
        assert (int(alone.epoch[0]), float(alone.value[0])) == (
            int(best.epoch[place]),
            float(best.value[place]),
        )
        for a, b in leaves(alone, best):
            np.testing.assert_allclose(
                a[0], b[place], atol=1e-4, rtol=0
            )  # rounding errors after 60 steps
        assert max(abs(a[0] - b[(place + 1) % 3]).max() for a, b in leaves(alone, best)) > 0.1
    for field in ("rate_factor", "averaged"):  # seed 7 trains to the end of both runs
        assert alone_rows[-1].get(field) == rows[-1].get(field)
    for weights in ("learner", "average")[: 1 + (name == "average")]:
        for a, b in leaves(getattr(alone_trainer, weights), getattr(trainer, weights)):
            np.testing.assert_allclose(a, b, atol=1e-4, rtol=0)
