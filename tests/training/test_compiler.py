"""The compiler's option that chooses the library of float32 products on a CPU."""

import jax
import jax.numpy as jnp
import pytest

from mednli_jax.models.bow import BOW
from mednli_jax.models.esim import ESIM
from mednli_jax.training import compiler


def options_for(
    model=ESIM,
    mode="train",
    examples=64,
    platform="cpu",
    product_dtype=None,
    vendor=compiler.AMD,
):
    return compiler.options_for(
        model, mode, examples, platform=platform, product_dtype=product_dtype, vendor=vendor
    )


def test_eigen_computes_the_products_of_esim():
    product = jax.jit(jnp.matmul).lower(jnp.ones((64, 300)), jnp.ones((300, 300)))

    assert options_for()
    assert "ynn_fusion" not in product.compile(options_for()).as_text()


@pytest.mark.parametrize(
    "differs",
    [
        {"model": BOW},
        {"platform": "gpu"},
        {"product_dtype": jnp.bfloat16},
        {"vendor": compiler.INTEL},
        {"vendor": "of another kind"},
        {"vendor": compiler.INTEL, "mode": "predict", "examples": 511},
        {"vendor": compiler.INTEL, "model": BOW, "examples": 512},
    ],
    ids=str,
)
def test_other_models_platforms_types_and_processors_keep_the_compilers_default(differs):
    assert options_for(**differs) == {}


@pytest.mark.parametrize(("model", "mode"), [(ESIM, "train"), (ESIM, "predict"), (BOW, "predict")])
def test_eigen_computes_large_batches_on_intel(model, mode):
    assert options_for(model, vendor=compiler.INTEL, mode=mode, examples=512)


def test_an_option_that_jax_does_not_know_is_left_out(monkeypatch):
    monkeypatch.setattr(compiler, "YNNPACK", "xla_cpu_experimental_no_such_option")

    assert options_for() == {}
