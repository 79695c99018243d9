"""A step gives the same on one device and on eight, for one seed and for three, in any layout."""

import dataclasses

import jax
import jax.numpy as jnp
import made_up
import numpy as np
import optax
import pytest

from mednli_jax.corpora.arrays import SIDES
from mednli_jax.corpora.batching import Batches, Layout
from mednli_jax.models import table
from mednli_jax.tasks.nli import NLITask, frozen
from mednli_jax.training import optim, state
from mednli_jax.training.devices import Devices
from mednli_jax.training.step import row_keys, train_step

MODELS = {
    "bow": {"hidden_size": 8, "dropout": 0.5},
    "infersent": {"hidden_size": 8, "dropout": 0.5, "knowledge": "replace"},
    "esim": {"hidden_size": 8, "dropout": 0.5, "knowledge": "bias"},
    "bert": {"hidden_size": 8, "layers": 1, "attention_heads": 2, "intermediate_size": 16, "dropout": 0.3},
}
PIECES = {"vocab_size": made_up.WORDS, "cls_id": 1, "sep_id": 2}
WIDTH = (12, 8)
BATCH = 16


class Setting:
    """A model on made-up rows, on `count` devices."""

    def __init__(self, name, count, dtype, learning_rate=1e-2):
        self.devices, self.dtype = Devices(jax.local_devices()[:count]), dtype
        self.task = NLITask()
        assert self.devices.count == count
        facts = {"longest_path": made_up.LONGEST, "axis_name": self.devices.axis_name, **PIECES}
        self.model = table.build(name, MODELS[name], **facts)
        self.optimizer = optim.build_optimizer(learning_rate=learning_rate, weight_decay=1e-6)
        self.frozen = self.devices.replicate(made_up.as_type(frozen(made_up.vectors()), dtype))
        self.arrays = {k: jnp.asarray(v) for k, v in made_up.arrays().items()}
        self.rows = len(self.arrays["label"])
        self.data = self.devices.replicate(self.arrays)
        layout = Layout.full(BATCH // count, WIDTH)
        body = train_step(self.model, self.task, self.optimizer, layout, self.devices.axis_name)
        self.step = self.devices.map(body, reduced=True)

    def learner(self, seeds):
        first = self.task.to_batch(self.arrays, jnp.zeros((BATCH, 1), jnp.int32), Layout.full(BATCH, WIDTH))
        learner = state.init_learner(self.model, self.optimizer, seeds, first, frozen(made_up.vectors()))
        params = made_up.as_type(learner.params, self.dtype)
        batch_stats = made_up.as_type(learner.batch_stats, self.dtype)
        opt_state = jax.vmap(self.optimizer.init)(params)
        return self.devices.replicate(learner.replace(params=params, batch_stats=batch_stats, opt_state=opt_state))

    def index(self, step, seeds):
        """22 rows in batches of 16: every second batch is mostly padding, and some devices hold only padding."""
        rows = np.full((len(seeds), 2 * BATCH), -1, np.int32)
        for i, seed in enumerate(seeds):
            rows[i, : self.rows] = np.random.default_rng([seed, step // 2]).permutation(self.rows)
        half = (step % 2) * BATCH
        return rows[:, half : half + BATCH, None]

    def run(self, steps, seeds):
        """(mean loss of each step [steps, S], gradient of the first step, learner afterwards)."""
        losses, learner, gradient = [], self.learner(seeds), None
        for step in range(steps):
            index = self.devices.split(self.index(step, seeds))
            learner, sums = self.step(learner, self.frozen, self.data, index)
            losses.append(np.asarray(sums["loss"]) / np.asarray(sums["count"]))
            if step == 0:  # Adam's first moment is then .1 g. The update itself does not show the gradient's size.
                gradient = [10 * np.asarray(leaf) for leaf in jax.tree.leaves(optax.tree.get(learner.opt_state, "mu"))]
        return np.array(losses), gradient, learner


@pytest.mark.parametrize("name", ["bow", "infersent", "bert", pytest.param("esim", marks=pytest.mark.slow)])
def test_devices_and_seeds_do_not_change_training(name):
    """20 steps in float64 with dropout: eight devices equal one, and three seeds in one program equal single runs."""
    seeds = (0, 1, 5)
    with jax.enable_x64(True):
        setting = Setting(name, 1, jnp.float64)
        together, _, learner = setting.run(20, seeds)
        on_eight, _, _ = Setting(name, 8, jnp.float64).run(20, seeds)
        alone = [setting.run(20, (seed,))[0][:, 0] for seed in seeds]
    assert together.dtype == np.float64
    assert abs(on_eight - together).max() < 1e-8
    assert abs(np.stack(alone, axis=1) - together).max() < 1e-8
    # Equal losses prove nothing if the steps do nothing or the seeds do not differ.
    assert (abs(together[-1] - together[0]) > 5e-3).all()
    assert abs(together[0, 0] - together[0, 1]) > 1e-6
    assert np.asarray(learner.step).tolist() == [20, 20, 20]


def test_each_step_drops_other_parts_of_the_same_rows():
    setting = Setting("bow", 1, jnp.float32, learning_rate=0.0)
    learner, index, losses = setting.learner((0,)), setting.devices.split(setting.index(0, (0,))), []
    for _ in range(2):
        learner, sums = setting.step(learner, setting.frozen, setting.data, index)
        losses.append(float(sums["loss"][0]))
    assert abs(losses[0] - losses[1]) > 1e-3


@pytest.mark.parametrize("name", ["bow", "infersent", "bert", pytest.param("esim", marks=pytest.mark.slow)])
def test_first_gradient_is_equal_in_float32(name):
    seeds = (0, 5)
    one = Setting(name, 1, jnp.float32)
    _, together, _ = one.run(1, seeds)
    _, on_eight, _ = Setting(name, 8, jnp.float32).run(1, seeds)
    _, alone, _ = one.run(1, seeds[1:])
    assert max(abs(leaf).max() for leaf in together) > 1e-3
    for a, b, c in zip(together, on_eight, alone, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=0)
        np.testing.assert_allclose(a[1:], c, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["bow", "infersent", pytest.param("esim", marks=pytest.mark.slow)])
def test_layout_does_not_change_a_step(name):
    """More padding, a staircase or another order of the rows gives the same loss and gradient, with dropout."""
    setting = Setting(name, 1, jnp.float32)
    length, tokens = ([np.asarray(setting.arrays[f"{side}{what}"]) for side in SIDES] for what in ("_length", ""))
    rows = np.flatnonzero((length[0] <= 8) & (length[1] <= 6))
    assert len(rows) >= 4
    own = Batches(*(n[rows] for n in length), batch_size=len(rows), width=WIDTH, tokens=[t[rows] for t in tokens])
    ((layout, place),) = own.once()
    assert len(layout.sentences) > 1
    assert layout.words > 0
    assert place[:, 0].tolist() != list(range(len(rows)))
    learner, results = setting.learner((0,)), []
    for shape, index in (
        (Layout.full(len(rows), (8, 6)), rows[:, None]),
        (dataclasses.replace(layout, units=len(rows) + 2), np.pad(rows[place], ((1, 1), (0, 0)), constant_values=-1)),
    ):
        body = jax.jit(train_step(setting.model, setting.task, setting.optimizer, shape))
        after, sums = body(learner, setting.frozen, setting.data, index[None])
        results.append([sums["loss"], *jax.tree.leaves(optax.tree.get(after.opt_state, "mu"))])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=1e-5)


def test_padding_rows_count_for_nothing():
    setting = Setting("bow", 1, jnp.float32)
    full = np.arange(8, dtype=np.int32)[None, :, None]
    padded = np.concatenate([full, np.full((1, 8, 1), -1, np.int32)], axis=1)
    learner, sums = setting.learner((0,)), []
    for index in (full, padded):
        body = jax.jit(train_step(setting.model, setting.task, setting.optimizer, Layout.full(index.shape[1], WIDTH)))
        sums.append(body(learner, setting.frozen, setting.data, index)[1])
    assert float(sums[0]["count"][0]) == float(sums[1]["count"][0]) == 8
    np.testing.assert_allclose(sums[0]["loss"], sums[1]["loss"], rtol=1e-5)
    assert float(sums[0]["loss"][0]) > 0


def test_row_keys_depend_on_seed_step_and_row_only():
    rows = jnp.array([3, 7, 3])
    keys = jax.random.key_data(row_keys(1, 2, rows))
    assert (keys[0] == keys[2]).all()
    assert (keys[0] != keys[1]).any()
    for other in (row_keys(2, 2, rows), row_keys(1, 3, rows)):
        assert (jax.random.key_data(other)[0] != keys[0]).any()


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("seeds", [(), (2,)])
def test_batches_split_over_the_devices_in_contiguous_shares(seeds, group):
    devices = Devices(jax.local_devices()[:3])
    index = np.arange(np.prod([*seeds, 12, group])).reshape(*seeds, 12, group)
    parts = devices.split(index)
    assert parts.shape == (3, *seeds, 4, group)
    for share, part in zip(np.split(index, 3, axis=-2), parts, strict=True):
        np.testing.assert_array_equal(part, share)
    if seeds:  # results come back by seed and row, in the order of the batch
        logits = np.stack([parts, -parts], axis=-1).reshape(3, 2, -1, 2)
        np.testing.assert_array_equal(devices.join(logits)[..., 0], index.reshape(2, -1))
    assert Devices(jax.local_devices()[:1]).split(index) is index


def test_drifted_replicas_are_noticed():
    devices = Devices(jax.local_devices()[:2])
    same = devices.replicate({"w": jnp.arange(4.0)})
    devices.check_replicas(same)
    shards = [jax.device_put(jnp.arange(4.0) + i, d) for i, d in enumerate(devices.all)]
    drifted = jax.make_array_from_single_device_arrays((4,), same["w"].sharding, shards)
    with pytest.raises(RuntimeError, match="copies"):
        devices.check_replicas({"w": drifted})
