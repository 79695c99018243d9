"""launch/aot.py: the figures that it reads from a compiled program. Tests marked `aot` compile our
steps.

The bounds are upper bounds of what the compilers report, for the versions that the extra pins.
"""

import functools
import json
import os
import runpy
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace

import pytest
from support.commands import ROOT, call_command, config_flag

from mednli_jax.run import experiment_of

SCRIPT = ROOT / "launch" / "aot.py"
PACKAGES = ("libtpu", "jax-cuda12-plugin", "jax-cuda12-pjrt")
CHIP_MEMORY = 16e9  # bytes of a v5e chip
# Each row: model, seeds, target, chips, figure, bound. Batches have 64 rows for each chip.
BOUNDS = [
    ("infersent", 1, "h100", 1, "launches", 240),
    ("infersent", 1, "h100", 1, "bytes", 1_700_000_000),
    ("infersent", 6, "h100", 1, "launches", 240),
    ("esim", 1, "h100", 1, "launches", 480),
    ("infersent", 1, "v5e", 1, "cycles", 1_500_000),
    ("infersent", 1, "v5e", 4, "cycles", 1_550_000),
]
AS_PUBLISHED = [f"{model}:mednli" for model in ("bow", "infersent", "esim", "esim_kd", "bert")]
AS_PUBLISHED += ["ga_ent:clicr", "sa_ent:clicr"]
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
  %new = f32[8,4]{1,0} fusion(%x, %y, %i.1), kind=kLoop, calls=%fused, backend_config={"estimated_cycles":"7"}
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
  ROOT %sum = f32[8,4]{1,0} all-reduce(%out), to_apply=%add, backend_config={"estimated_cycles":"11"}
}
"""


def command(*arguments):
    """Runs the script in a process of its own, without the compiler flags of this suite."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("XLA_FLAGS", "JAX_PLATFORMS")
    }
    environment["PYTHONPATH"] = str(ROOT)
    called = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(
        called, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@functools.cache
def compiled(config, target, *arguments):
    done = command(
        f"--config=configs/{config.replace(':', '.py:')}",
        f"--target={target}",
        "--json",
        *arguments,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def step(model, seeds, target, chips):
    flags = (
        f"--config.train.batch_size={64 * chips}",
        f"--config.seeds={','.join(map(str, range(seeds)))},",
    )
    return compiled(f"{model}:mednli", target, *flags, f"--devices={chips}")


def test_a_loop_counts_as_often_as_it_runs():
    found = vars(runpy.run_path(str(SCRIPT))["Hlo"](LOOP).counts())
    # Each of 5 iterations adds two numbers, and reads and writes one row and its position.
    moved = 5 * ((4 + 4 + 4) + (16 + 16 + 4)) + (128 + 128)
    assert found == {
        "launches": 11,
        "cycles": 5 * (3 + 7) + 11,
        "bytes": moved,
        "all_reduce_bytes": 128,
    }


def installed():
    try:
        return [version(name) for name in PACKAGES]
    except PackageNotFoundError:
        return []


def test_a_wrong_target_and_a_missing_compiler_are_one_line():
    script = SimpleNamespace(**runpy.run_path(str(SCRIPT)))
    for target in ("h200", *([] if installed() else ["h100"])):
        code, _, err = call_command(script, config_flag("bow", "mednli"), f"--target={target}")
        assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(("name", "variant"), [("esim_kd", "mednli"), ("ga_ent", "clicr")])
def test_a_corpus_is_made_up_for_the_config(name, variant):
    config = runpy.run_path(str(ROOT / "configs" / f"{name}.py"))["get_config"](variant)
    prepared = runpy.run_path(str(SCRIPT))["made_up"](experiment_of(config), config, 20, 8)
    assert {"train", "dev"} <= set(prepared.splits)
    assert ("link_distance" in prepared.arrays) == (name == "esim_kd")


def needs_compilers(test):
    """Marks a test that compiles our steps."""
    wanting = pytest.mark.skipif(not installed(), reason="needs the extra aot")
    return pytest.mark.aot(pytest.mark.timeout(1200)(wanting(test)))


@needs_compilers
@pytest.mark.parametrize(("model", "seeds", "target", "chips", "figure", "bound"), BOUNDS)
def test_a_step_keeps_its_bound(model, seeds, target, chips, figure, bound):
    assert 0 < step(model, seeds, target, chips)[figure] <= bound


@needs_compilers
@pytest.mark.parametrize("config", AS_PUBLISHED)
def test_a_published_step_fits_a_chip(config):
    assert 0 < compiled(config, "v5e")["memory_bytes"] < CHIP_MEMORY
