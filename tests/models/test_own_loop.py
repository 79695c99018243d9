"""The models as linen modules in a loop of the user's own: `init`, `apply` and a step of optax."""

import jax
import jax.numpy as jnp
import optax
import pytest
from support import models
from support.trees import assert_equal

ROWS = 4
KEYS = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
SIZES = {"fasttext": {"vocab_size": 50}, "encoder": {"dropout": 0.5}}
OTHERS = {"dropout": 0.5, "vocab_size": 50, "embedding_size": 5}


QUICK = ("bow", "encoder", "sa_reader")
SLOW = [name for name in models.MODELS if "-" not in name and name not in QUICK]


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_a_model_is_initialised_and_learns_as_any_linen_module(name):
    model, batch = models.build(name, **SIZES.get(name, OTHERS)), models.batch_of(name, ROWS)
    variables = jax.jit(model.init, static_argnames="train")(KEYS, batch, train=False)
    assert variables.keys() <= {"params", "frozen", "batch_stats"}
    if name != "encoder":
        width = model.dim if name == "fasttext" else model.embedding_size
        assert variables["frozen"]["embedding"]["vectors"].shape == (50, width)

    @jax.jit
    @jax.value_and_grad
    def loss(params, key):
        weights, rngs = {**variables, "params": params}, {"dropout": key}
        logits, _ = model.apply(weights, batch, train=True, rngs=rngs, mutable=["batch_stats"])
        labels = jnp.zeros(ROWS, jnp.int32)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    params, optimizer = variables["params"], optax.adam(1e-3)
    before, gradients = loss(params, jax.random.key(0))
    updates, _ = optimizer.update(gradients, optimizer.init(params))
    after, _ = loss(optax.apply_updates(params, updates), jax.random.key(0))
    assert after < before
    has_dropout = before != loss(params, jax.random.key(1))[0]
    assert has_dropout == (name != "fasttext")


def test_init_draws_a_vector_for_each_number_of_a_batch():
    batch = models.batch_of("bow", ROWS)
    most = max(int(batch.premise.max()), int(batch.hypothesis.max()))
    model = models.build("bow").clone(vocab_size=0, train_vectors=True)

    variables = model.init(KEYS, batch, train=False)

    vectors = variables["frozen"]["embedding"]["vectors"]
    assert len(vectors) == most + 1
    assert 0.38 < vectors.std() < 0.42
    assert_equal(variables["params"]["embedding"]["vectors"], vectors)
