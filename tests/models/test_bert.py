"""BERT: the reference's states and gradients, the properties of every model, its dropout, and its fine-tuning."""

import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import made_up
import numpy as np
import optax
import pytest
from scipy.special import ndtr

from mednli_jax.corpora.batching import Layout
from mednli_jax.errors import UserError
from mednli_jax.models import bert, layers
from mednli_jax.tasks.nli import NLITask
from mednli_jax.training import optim, step
from mednli_jax.training.state import init_learner

FOLDER = Path(__file__).parents[1] / "golden"
FACTS = json.loads((FOLDER / "golden_bert.json").read_text())
GOLDEN = np.load(FOLDER / "golden_bert.npz", allow_pickle=False)
SMALL = {"vocab_size": made_up.WORDS, "hidden_size": 12, "layers": 2, "attention_heads": 3, "intermediate_size": 20}
SMALL |= {"positions": 48, "cls_id": 1, "sep_id": 2, "longest_path": made_up.LONGEST}
WIDTH = (12, 8)


def build(**fields):
    return bert.BERT(**{**SMALL, "dropout": 0.0, **fields})


def batch_of(rows, width=WIDTH, data=None, **more):
    data = {k: jnp.asarray(v) for k, v in (data or made_up.arrays()).items()}
    rows = jnp.asarray(rows, jnp.int32).reshape(len(rows), -1)
    batch = NLITask().to_batch(data, rows, Layout.full(rows.size, width))
    return {name: array for name, array in batch.items() if isinstance(array, jax.Array)} | more


def wider(data, by=4):
    """The same corpus with more padding, which holds real piece numbers that must not be seen."""
    return {k: np.pad(v, ((0, 0), (0, by)), constant_values=7) if k in layers.SIDES else v for k, v in data.items()}


@functools.cache
def drawn(model):
    """Large parameters, for which no layer is nearly linear."""
    shapes = jax.eval_shape(lambda: model.init({"params": jax.random.key(0)}, batch_of([0, 1]), train=False)["params"])
    rng = np.random.default_rng(1)
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: jnp.asarray(rng.normal("scale" in jax.tree_util.keystr(path), 0.3, leaf.shape), leaf.dtype),
        shapes,
    )


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def apply(model, params, batch, train=False, mutable=False):
    return model.apply({"params": params}, batch, train=train, mutable=mutable)


def logits_of(model, batch, params=None, train=False):
    return np.asarray(apply(model, drawn(model) if params is None else params, batch, train))


def keys(rows, step_number=0, seed=0):
    return step.row_keys(seed, step_number, jnp.asarray(rows))


# ---- the reference ----


def parameters(weight):
    """Our parameter tree; weight(name) gives the reference's arrays by the library's names."""

    def affine(name):
        return {"kernel": weight(f"{name}.weight").T, "bias": weight(f"{name}.bias")}

    def norm(name):
        return {"scale": weight(f"{name}.weight"), "bias": weight(f"{name}.bias")}

    def layer(at):
        qkv = [affine(f"{at}.attention.self.{which}") for which in ("query", "key", "value")]
        return {
            "qkv": {name: np.concatenate([part[name] for part in qkv], axis=-1) for name in ("kernel", "bias")},
            "attended": affine(f"{at}.attention.output.dense"),
            "norm_attended": norm(f"{at}.attention.output.LayerNorm"),
            "inner": affine(f"{at}.intermediate.dense"),
            "outer": affine(f"{at}.output.dense"),
            "norm_outer": norm(f"{at}.output.LayerNorm"),
        }

    tables = {"words": "word", "positions": "position", "texts": "token_type"}
    embeddings = {ours: weight(f"bert.embeddings.{theirs}_embeddings.weight") for ours, theirs in tables.items()}
    return {
        "embeddings": {**embeddings, "norm": norm("bert.embeddings.LayerNorm")},
        **{f"layer_{i}": layer(f"bert.encoder.layer.{i}") for i in range(2)},
        "pooler": affine("bert.pooler.dense"),
        "logits": affine("classifier"),
    }


def test_states_logits_and_gradients_equal_the_reference():
    """The pairs have all lengths; one has an empty premise, another an empty hypothesis."""
    sizes = FACTS["sizes"]
    model = bert.BERT(
        vocab_size=sizes["vocab_size"],
        hidden_size=sizes["hidden_size"],
        layers=sizes["num_hidden_layers"],
        attention_heads=sizes["num_attention_heads"],
        intermediate_size=sizes["intermediate_size"],
        positions=sizes["max_position_embeddings"],
        cls_id=FACTS["cls"],
        sep_id=FACTS["sep"],
    )
    with jax.enable_x64(True):

        def float64(tree):
            return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)

        params = float64(parameters(lambda name: GOLDEN[f"small/weight/{name}"]))
        batch = {n: jnp.asarray(GOLDEN[f"small/{n}"]) for side in layers.SIDES for n in (side, f"{side}_length")}
        batch["mask"] = jnp.ones(5)

        def loss(params):
            logits, made = model.apply({"params": params}, batch, train=False, mutable=[bert.STATES])
            last = made[bert.STATES]["last"][0]
            cotangents = (jnp.asarray(GOLDEN[f"small/{name}_cotangent"], jnp.float64) for name in ("last", "logits"))
            return sum((c * x).sum() for c, x in zip(cotangents, (last, logits), strict=True)), (last, logits)

        gradient, (last, logits) = jax.jit(jax.grad(loss, has_aux=True))(params)
        real = GOLDEN["small/last_cotangent"].any(axis=-1)
        np.testing.assert_allclose(last[real], GOLDEN["small/last"][real], rtol=0, atol=1e-5)
        np.testing.assert_allclose(logits, GOLDEN["small/logits"], rtol=0, atol=1e-5)
        golden = parameters(lambda name: GOLDEN[f"small/gradient/{name}"])
        assert jax.tree.structure(golden) == jax.tree.structure(gradient)
        for (path, ours), theirs in zip(
            jax.tree_util.tree_leaves_with_path(gradient), jax.tree.leaves(golden), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-5, err_msg=jax.tree_util.keystr(path))
        plain = jax.jit(lambda p: model.apply({"params": p}, batch, train=False))(params)
        # without states to return, the last layer computes only the first pieces
        np.testing.assert_allclose(plain, logits, rtol=0, atol=1e-12)


def test_gelu_and_its_slope_are_those_of_the_normal_distribution():
    with jax.enable_x64(True):
        x = jnp.linspace(-9, 9, 91)
        value, slope = jax.vmap(jax.value_and_grad(bert.gelu))(x)
        np.testing.assert_allclose(value, x * ndtr(x), rtol=0, atol=1e-14)
        density = np.exp(-0.5 * np.square(x)) / np.sqrt(2 * np.pi)
        np.testing.assert_allclose(slope, ndtr(x) + x * density, rtol=0, atol=1e-14)
    small = jnp.linspace(-9, 9, 91, dtype=jnp.float32)
    np.testing.assert_allclose(bert.gelu(small), small * ndtr(np.asarray(small, np.float64)), rtol=0, atol=1e-6)


# ---- a row of pieces ----


def test_a_pair_becomes_one_row_without_gaps():
    batch = {
        "premise": jnp.array([[11, 12, 13], [14, 99, 99], [99, 99, 99]]),
        "premise_length": jnp.array([3, 1, 0]),
        "hypothesis": jnp.array([[21, 22], [23, 99], [24, 25]]),
        "hypothesis_length": jnp.array([2, 1, 2]),
        "mask": jnp.ones(3),
    }
    row = bert.rows_of_pairs(batch, 1, 2, 8)
    expected = [[1, 11, 12, 13, 2, 21, 22, 2], [1, 14, 2, 23, 2, 0, 0, 0], [1, 2, 24, 25, 2, 0, 0, 0]]
    np.testing.assert_array_equal(row.pieces_BT, expected)
    np.testing.assert_array_equal(row.real_BT, np.array(expected) > 0)
    second = [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1, 1]]
    np.testing.assert_array_equal(row.second_BT, second)
    grouped = {"premise": batch["premise"][:1], "premise_length": batch["premise_length"][:1]}
    row = bert.rows_of_pairs({**batch, **grouped, "mask": jnp.array([1.0, 1, 0])}, 1, 2, 8)
    expected = [[1, 11, 12, 13, 2, 21, 22, 2], [1, 11, 12, 13, 2, 23, 2, 0], [1, 2, 24, 25, 2, 0, 0, 0]]
    np.testing.assert_array_equal(row.pieces_BT, expected)


def test_a_pair_has_the_same_logits_alone_and_in_any_batch():
    model = build(knowledge="bias")
    together = logits_of(model, batch_of(np.arange(8)))
    order = np.array([5, 3, 7, 0, 1, 2, 6, 4])
    np.testing.assert_allclose(logits_of(model, batch_of(order)), together[order], atol=1e-5)
    padded = logits_of(model, batch_of([2, -1, -1], (16, 12), wider(made_up.arrays())))
    np.testing.assert_allclose(padded[0], together[2], atol=1e-5)
    assert np.isfinite(padded).all()
    assert np.ptp(together, axis=0).max() > 1e-2


def test_room_that_no_pair_needs_is_not_computed():
    model, batch = build(knowledge="bias"), batch_of(np.arange(8))
    longest = int((batch["premise_length"] + batch["hypothesis_length"]).max()) + 3
    assert longest < sum(WIDTH) + 3
    close = build(knowledge="bias", room=longest, positions=longest)
    params = drawn(model)
    positions = params["embeddings"]["positions"][:longest]
    cut = {**params, "embeddings": {**params["embeddings"], "positions": positions}}
    np.testing.assert_allclose(logits_of(close, batch, cut), logits_of(model, batch), atol=1e-5)
    states = jax.eval_shape(lambda p: apply(close, p, batch, mutable=(bert.STATES,)), cut)[1][bert.STATES]
    assert states["last"][0].shape == (8, longest, 12)


def test_hypotheses_of_one_premise_share_it():
    model, data = build(knowledge="bias"), made_up.arrays()
    for name in ("premise", "premise_length"):
        data[name] = data[name].copy()
        data[name][1::2] = data[name][::2]
    data["link_premise"] = np.minimum(data["link_premise"], data["premise_length"][:, None] - 1).astype(np.int16)
    alone = logits_of(model, batch_of(np.arange(8), data=data))
    np.testing.assert_allclose(logits_of(model, batch_of(np.arange(8).reshape(4, 2), data=data)), alone, atol=1e-5)


def test_without_a_premise_its_pieces_do_not_matter():
    model, data = build(), made_up.arrays()
    data["premise_length"] = np.zeros_like(data["premise_length"])
    without = logits_of(model, batch_of(np.arange(6), data=data))
    other = {**data, "premise": data["premise"][::-1]}
    np.testing.assert_array_equal(logits_of(model, batch_of(np.arange(6), data=other)), without)
    assert np.ptp(without, axis=0).max() > 1e-2


# ---- knowledge ----


def test_links_of_no_weight_are_plain_bert():
    batch, model = batch_of(np.arange(8)), build(knowledge="bias")
    params = drawn(model)
    silent = {**params, "knowledge": jax.tree.map(jnp.zeros_like, params["knowledge"])}
    plain = {name: leaf for name, leaf in params.items() if name != "knowledge"}
    np.testing.assert_allclose(logits_of(model, batch, silent), logits_of(build(), batch, plain), atol=1e-6)
    scaled = build(knowledge="bias", weighting="paper", knowledge_scale=0.0)
    np.testing.assert_allclose(logits_of(scaled, batch, plain), logits_of(build(), batch, plain), atol=1e-6)
    changed = abs(logits_of(model, batch, params) - logits_of(build(), batch, plain)).max(axis=1)
    linked = np.asarray((batch["link_distance"] >= 0).any(axis=1))
    assert changed[~linked].max(initial=0) < 1e-6
    assert changed[linked].min() > 1e-5


def test_links_join_pieces_of_the_row_both_ways():
    """In [CLS] p p [SEP] h [SEP], premise piece 1 and hypothesis piece 0 have the places 2 and 4."""
    batch = {
        "premise": jnp.array([[5, 6, 0]]),
        "premise_length": jnp.array([2]),
        "hypothesis": jnp.array([[7, 0]]),
        "hypothesis_length": jnp.array([1]),
        "mask": jnp.ones(1),
    }
    links = jnp.zeros((1, 3, 2)).at[0, 1, 0].set(4.0).at[0, 2, 1].set(9.0)  # the second link lies on padding
    for size in (6, 8):
        found = bert.between_sides(links, bert.rows_of_pairs(batch, 1, 2, size))
        expected = np.zeros((1, size, size))
        expected[0, 2, 4] = expected[0, 4, 2] = 4.0
        np.testing.assert_array_equal(found, expected)


# ---- dropout ----


def test_dropout_belongs_to_the_row():
    """A row's dropout depends on no other row, place or padding, and a second forward pass repeats it."""
    model = build(dropout=0.3)
    rows = np.arange(8)
    together = logits_of(model, batch_of(rows, row_key=keys(rows)), train=True)
    some = np.array([6, 1, 3])
    given = batch_of(some, (16, 12), wider(made_up.arrays()), row_key=keys(some))
    np.testing.assert_allclose(logits_of(model, given, train=True), together[some], atol=1e-5)
    for other in (keys(rows, 1), keys(rows, 0, 1)):
        assert abs(logits_of(model, batch_of(rows, row_key=other), train=True) - together).max(axis=1).min() > 1e-3
    untrained = logits_of(model, batch_of(rows), train=False)
    np.testing.assert_allclose(untrained, logits_of(build(), batch_of(rows), drawn(model)), atol=1e-6)


@pytest.mark.parametrize("shape", [(6, 40, 200), (6, 4, 60, 60)])
def test_dropout_keeps_its_share_at_random(shape):
    """Pieces are dropped at the given rate and others scaled up, independently for rows, sites and neighbours."""
    rate, rows = 0.1, shape[0]
    noise = bert.Noise.of({"row_key": keys(np.arange(rows))}, True)
    ones = jnp.ones((rows * shape[1], shape[2]) if len(shape) == 3 else shape)
    made = {site: np.asarray(bert.drop(ones, rate, noise, site)).reshape(shape) for site in ("a", "b")}
    np.testing.assert_allclose(np.unique(made["a"]), [0, 1 / 0.9], rtol=1e-6)
    kept = made["a"] > 0
    error = (rate * (1 - rate) / kept[0].size) ** 0.5
    assert abs(kept.reshape(rows, -1).mean(axis=1) - (1 - rate)).max() < 4.5 * error

    def correlation(one, other):
        return abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) * one.size**0.5

    assert correlation(kept, made["b"] > 0) < 4.5
    assert correlation(kept[0], kept[1]) < 4.5
    for axis in range(1, len(shape)):
        size = shape[axis]
        for shift in (1, 2, min(8, size - 1)):
            one, other = (np.take(kept, range(*ends), axis) for ends in ((0, size - shift), (shift, size)))
            assert correlation(one, other) < 4.5, (axis, shift)


# ---- training ----


def loss_of(model, batch):
    def loss(params):
        logits = model.apply({"params": params}, batch, train=True)
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    return loss


@pytest.mark.slow
def test_two_seeds_learn_as_each_does_alone():
    """Two seeds take training steps together: the loss falls, and no seed's weights depend on the other."""
    data = {k: jnp.asarray(v) for k, v in made_up.arrays(16).items()}
    model, task = build(dropout=0.1), NLITask()
    optimizer = optim.build_optimizer(
        learning_rate=0.01, optimizer="adamw", weight_decay=0.01, clip=1.0, schedule="warmup_linear", accumulate=2,
        epoch_steps=240,
    )  # fmt: skip
    layout = Layout.full(8, WIDTH)
    body = jax.jit(step.train_step(model, task, optimizer, layout))
    ends, losses = {}, {}
    for seeds in ((3, 4), (4,)):
        first = task.to_batch(data, jnp.zeros((8, 1), jnp.int32), layout)
        learner = init_learner(model, optimizer, seeds, first, {})
        seen = []
        for i in range(240 if len(seeds) > 1 else 6):
            rows = jnp.arange(8)[None, :, None] + 8 * (i % 2)
            learner, sums = body(learner, {}, data, jnp.repeat(rows, len(seeds), axis=0))
            seen.append(np.asarray(sums["loss"] / sums["count"]))
            if i == 5:
                ends[seeds] = jax.tree.map(lambda leaf: leaf[-1], learner.params)
        losses[seeds] = np.array(seen)
    assert losses[3, 4][-4:].mean() < 0.5 * losses[3, 4][:4].mean()
    for one, two in zip(jax.tree.leaves(ends[3, 4]), jax.tree.leaves(ends[4,]), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-5)


RATE = 0.1


def updates_of(optimizer, gradients, params, **extra):
    state, seen = optimizer.init(params), []
    for i, gradient in enumerate(gradients):
        updates, state = optimizer.update(gradient, state, params, **{k: v[i] for k, v in extra.items()})
        params = optax.apply_updates(params, updates)
        seen.append(params)
    return seen


def test_adamw_decays_matrices_beside_adam_s_direction():
    params = {"kernel": jnp.full((2, 2), 3.0), "bias": jnp.full(2, 3.0), "scale": jnp.full(2, 3.0)}
    gradients = [jax.tree.map(lambda p, i=i: jnp.full_like(p, [1.0, -2.0, 0.5][i]), params) for i in range(3)]
    with_decay = optim.build_optimizer(learning_rate=RATE, optimizer="adamw", weight_decay=0.5)
    ours = updates_of(with_decay, gradients, params)
    plain = updates_of(optim.build_optimizer(learning_rate=RATE), gradients, params)
    reference = updates_of(optax.adamw(RATE, weight_decay=0.5), gradients, params)
    for one, adam, decayed in zip(ours, plain, reference, strict=True):
        np.testing.assert_allclose(one["kernel"], decayed["kernel"], rtol=1e-6)
        for name in ("bias", "scale"):
            np.testing.assert_allclose(one[name], adam[name], rtol=1e-6)
    np.testing.assert_allclose(ours[0]["kernel"], 3 - RATE * (1 + 0.5 * 3), rtol=1e-6)


def rates(steps, batches, **how):
    optimizer = optim.build_optimizer(learning_rate=RATE, optimizer="sgd", epoch_steps=steps, **how)
    params = {"w": jnp.zeros(1)}
    state, seen = optimizer.init(params), []
    for _ in range(batches):
        updates, state = optimizer.update({"w": jnp.ones(1)}, state, params)
        seen.append(float(-updates["w"][0] / RATE))
    return seen


def test_the_rate_warms_up_and_falls_in_a_line():
    """The first 3 of 10 steps rise from 0 (a quarter, rounded up), then the rate falls to 0 and stays there."""
    expected = [0, 1 / 3, 2 / 3, 1, 6 / 7, 5 / 7, 4 / 7, 3 / 7, 2 / 7, 1 / 7, 0, 0]
    np.testing.assert_allclose(rates(10, 12, schedule="warmup_linear", warmup=0.25), expected, atol=1e-6)
    plain = rates(4, 5, schedule="warmup_linear", warmup=0.0)
    np.testing.assert_allclose(plain, [1, 0.75, 0.5, 0.25, 0], atol=1e-6)


def test_accumulated_batches_are_one_large_batch():
    """The mean of 3 rows and that of 1 row give the mean of 4. Each batch is a step of the schedule."""
    rng = np.random.default_rng(0)
    rows = [{"w": jnp.asarray(rng.normal(size=3), jnp.float32)} for _ in range(8)]

    def mean(part):
        return jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *part)

    batches = [rows[:3], rows[3:4], rows[4:6], rows[6:]]
    settings = {"learning_rate": RATE, "clip": 0.7}
    params = {"w": jnp.ones(3)}
    small = updates_of(
        optim.build_optimizer(**settings, accumulate=2),
        [mean(part) for part in batches],
        params,
        rows=[float(len(part)) for part in batches],
    )
    large = updates_of(optim.build_optimizer(**settings), [mean(rows[:4]), mean(rows[4:])], params)
    np.testing.assert_array_equal(small[0]["w"], params["w"])
    np.testing.assert_allclose(small[1]["w"], large[0]["w"], rtol=1e-6)
    np.testing.assert_array_equal(small[2]["w"], small[1]["w"])
    np.testing.assert_allclose(small[3]["w"], large[1]["w"], rtol=1e-6)
    for schedule, expected in (("linear", [0, 1, 0, 0.5, 0, 0]), ("warmup_linear", [0, 0, 0, 1, 0, 0])):
        found = rates(4, 6, schedule=schedule, warmup=0.5, accumulate=2)
        np.testing.assert_allclose(found, expected, atol=1e-6)


# ---- faults ----


@pytest.mark.parametrize(
    ("field", "value"), [("activation", "relu"), ("knowledge", "replace"), ("attention_heads", 5), ("positions", 22)]
)
def test_fields_that_do_not_go_together_are_refused(field, value):
    model = build(**{field: value})
    with pytest.raises(UserError, match=r" Fix: "):
        jax.eval_shape(lambda b: model.init({"params": jax.random.key(0)}, b, train=False), batch_of([0]))
