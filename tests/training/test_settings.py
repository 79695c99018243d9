"""The compiler's option that chooses the library of float32 products on a CPU."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mednli_jax import get_config
from mednli_jax.experiment import experiment_of
from mednli_jax.models.bow import BOW
from mednli_jax.models.esim import ESIM
from mednli_jax.training import settings as jax_settings
from mednli_jax.training.devices import Devices


def options_for(
    model=ESIM,
    mode="train",
    examples=64,
    platform="cpu",
    product_dtype=None,
    vendor=jax_settings.AMD,
):
    return jax_settings.options_for(
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
        {"vendor": jax_settings.INTEL},
        {"vendor": "of another kind"},
        {"vendor": jax_settings.INTEL, "mode": "predict", "examples": 511},
        {"vendor": jax_settings.INTEL, "model": BOW, "examples": 512},
    ],
    ids=str,
)
def test_other_models_platforms_types_and_processors_keep_the_compilers_default(differs):
    assert options_for(**differs) == {}


@pytest.mark.parametrize(("model", "mode"), [(ESIM, "train"), (ESIM, "predict"), (BOW, "predict")])
def test_eigen_computes_large_batches_on_intel(model, mode):
    assert options_for(model, vendor=jax_settings.INTEL, mode=mode, examples=512)


def test_an_option_that_jax_does_not_know_is_left_out(monkeypatch):
    monkeypatch.setattr(jax_settings, "YNNPACK", "xla_cpu_experimental_no_such_option")

    assert options_for() == {}


@pytest.mark.parametrize("recorded", [{}, {jax_settings.YNNPACK: ""}], ids=str)
def test_a_resumed_run_compiles_its_steps_with_its_recorded_options(recorded):
    """Whatever this processor would take."""
    settings = {jax_settings.YNNPACK: recorded.get(jax_settings.YNNPACK)}
    config = get_config("esim:demo")
    experiment = replace(
        experiment_of(config), recorded_options=jax_settings.recorded_options(settings)
    )
    vectors = np.zeros((9, config.vectors.dim), np.float32)
    program = experiment.bare_program(vectors, {}, Devices(jax.local_devices()[:1]))

    assert program.train_options == recorded
    assert program.model.transposes == bool(recorded)
    assert experiment.numeric_settings().items() >= settings.items()
