"""The figures that launch/measure/compile_for_device.py reads from a compiled program. Tests marked
`aot` compile our steps.

The bounds are upper bounds of what the compilers report, for the versions that the extra pins.
"""

import functools
import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

import compile_for_device
import pytest
from compile_for_device import Hlo, made_up
from support.commands import ROOT, refused

from mednli_jax.cli import read_config
from mednli_jax.experiment import experiment_of

COMPILERS = ("libtpu", "jax-cuda12-plugin", "jax-cuda12-pjrt")
CHIP_MEMORY = 16e9  # bytes of a v5e chip
# (model, seeds, target, chips, figure, bound). Batches have 64 rows for each chip.
BOUNDS = [
    ("infersent", 1, "h100", 1, "launches", 240),
    ("infersent", 1, "h100", 1, "bytes", 1_700_000_000),
    ("infersent", 6, "h100", 1, "launches", 240),
    ("esim", 1, "h100", 1, "launches", 480),
    ("infersent", 1, "v5e", 1, "cycles", 1_500_000),
    ("infersent", 1, "v5e", 4, "cycles", 1_550_000),
]
AS_PUBLISHED = [
    "bow:mednli",
    "infersent:mednli",
    "esim:mednli",
    "esim_kd:mednli",
    "bert:mednli",
    "ga:clicr",
    "sa:clicr",
]
LOOP = """HloModule step

%fused (a: f32[8,4], b: f32[4], i: s32[]) -> f32[8,4] {
  %a = f32[8,4]{1,0} parameter(0)
  %b = f32[4]{0} parameter(1)
  %i = s32[] parameter(2)
  %row = f32[1,4]{1,0} bitcast(%b)
  ROOT %update = f32[8,4]{1,0} dynamic-update-slice(%a, %row, %i, %i)
}

%body (state: (s32[], f32[8,4], f32[4])) -> (s32[], f32[8,4], f32[4]) {
  %state = (s32[], f32[8,4]{1,0}, f32[4]{0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%state), index=0
  %x = f32[8,4]{1,0} get-tuple-element(%state), index=1
  %y = f32[4]{0} get-tuple-element(%state), index=2
  %one = s32[] constant(1)
  %next = s32[] add(%i.1, %one), backend_config={"estimated_cycles":"3"}
  %new = f32[8,4]{1,0} fusion(%x, %y, %i.1), kind=kLoop, calls=%fused, BACKEND
  ROOT %all = (s32[], f32[8,4]{1,0}, f32[4]{0}) tuple(%next, %new, %y)
}

%condition (state.1: (s32[], f32[8,4], f32[4])) -> pred[] {
  %state.1 = (s32[], f32[8,4]{1,0}, f32[4]{0}) parameter(0)
  %i.2 = s32[] get-tuple-element(%state.1), index=0
  %end = s32[] constant(5)
  ROOT %less = pred[] compare(%i.2, %end), direction=LT
}

ENTRY %main (p: (s32[], f32[8,4], f32[4])) -> f32[8,4] {
  %p = (s32[], f32[8,4]{1,0}, f32[4]{0}) parameter(0)
  %loop = (s32[], f32[8,4]{1,0}, f32[4]{0}) while(%p), condition=%condition, body=%body
  %out = f32[8,4]{1,0} get-tuple-element(%loop), index=1
  ROOT %sum = f32[8,4]{1,0} all-reduce(%out), to_apply=%add, BACKEND_OF_SUM
}
"""
LOOP = LOOP.replace("BACKEND_OF_SUM", 'backend_config={"estimated_cycles":"11"}')
LOOP = LOOP.replace("BACKEND", 'backend_config={"estimated_cycles":"7"}')


def test_operations_of_a_compiled_loop_count_as_often_as_it_runs():
    """Each of 5 iterations adds two numbers, and reads and writes one row and its position."""
    counts = Hlo(LOOP).counts()

    assert counts.launches == 11
    assert counts.cycles == 5 * (3 + 7) + 11
    assert counts.bytes == 5 * ((4 + 4 + 4) + (16 + 16 + 4)) + (128 + 128)
    assert counts.all_reduce_bytes == 128


def are_compilers_installed():
    try:
        return bool([version(name) for name in COMPILERS])
    except PackageNotFoundError:
        return False


def test_a_wrong_target_of_compilation_is_one_line():
    refused(compile_for_device, "--config=bow:mednli", "--target=h200")


@pytest.mark.skipif(are_compilers_installed(), reason="the compilers are installed")
def test_a_missing_compiler_is_one_line():
    refused(compile_for_device, "--config=bow:mednli", "--target=h100")


@pytest.mark.parametrize(
    "config, has_links",
    [
        ("esim_kd:mednli", True),
        ("ga:clicr", False),
    ],
)
def test_a_corpus_is_made_up_for_the_config(config, has_links):
    config = read_config(config)

    prepared = made_up(experiment_of(config), config, 20, 8)

    assert {"train", "dev"} <= set(prepared.splits)
    assert ("link_distance" in prepared.arrays) == has_links


# -- programs compiled without a device ------------------------------------------------------------


@functools.cache
def compiled(config, target, *flags):
    """The figures of a step, compiled in a process without the compiler flags of this suite."""
    environment = dict(os.environ)
    for name in ("XLA_FLAGS", "JAX_PLATFORMS"):
        environment.pop(name, None)
    command = [
        sys.executable,
        compile_for_device.__file__,
        f"--config={config}",
        f"--target={target}",
        "--json",
    ]
    done = subprocess.run(
        [*command, *flags], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def needs_compilers(test):
    """Marks a test that compiles our steps."""
    lacking = pytest.mark.skipif(not are_compilers_installed(), reason="needs the extra aot")
    return pytest.mark.aot(pytest.mark.timeout(1200)(lacking(test)))


@needs_compilers
@pytest.mark.parametrize("model, seeds, target, chips, figure, bound", BOUNDS)
def test_memory_and_traffic_of_a_compiled_step_keep_their_bound(
    model, seeds, target, chips, figure, bound
):
    numbers = ",".join(map(str, range(seeds)))
    batch = f"--config.train.batch_size={64 * chips}"
    flags = (batch, f"--config.seeds={numbers},", f"--devices={chips}")

    figures = compiled(f"{model}:mednli", target, *flags)

    assert 0 < figures[figure] <= bound


@needs_compilers
@pytest.mark.parametrize("config", AS_PUBLISHED)
def test_the_compiled_step_of_a_published_config_fits_the_memory_of_a_tpu(config):
    assert 0 < compiled(config, "v5e")["memory_bytes"] < CHIP_MEMORY
