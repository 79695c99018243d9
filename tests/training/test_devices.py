"""Memory is kept between steps, unless the user has set glibc's options; the compiler's formats of
arrays change no result; predictions do not depend on the number of devices."""

import platform
import sys

import jax
import numpy as np
import pytest
from support import models
from support.commands import run_python
from support.trees import assert_equal, assert_near, assert_replicated

from mednli_jax.data.batching import Layout
from mednli_jax.training import devices, optim
from mednli_jax.training.program import Program

HAS_GLIBC = sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc"


def test_settings_of_malloc_that_the_user_has_take_precedence():
    devices.keep_memory.cache_clear()

    assert not devices.keep_memory()  # conftest.py has settings


COUNTS_PAGES = """
import os, resource, statistics
import jax, jax.numpy as jnp
from mednli_jax.training import devices, settings

for name in [name for name in os.environ if name.startswith("MALLOC_")]:
    del os.environ[name]
settings.check_jax()
devices.Devices()
# more work space than glibc keeps of a thread's memory
space = jax.jit(lambda x: (x[:, None] * x) @ x)
program = space.lower(jnp.ones(5000)).compile()
assert program.memory_analysis().temp_size_in_bytes > 64 << 20


def pages_of_step(number):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    program(jnp.full(5000, float(number))).block_until_ready()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


print(statistics.median(pages_of_step(number) for number in range(61)))
"""


@pytest.mark.skipif(not HAS_GLIBC, reason="of glibc's allocator")
def test_the_work_space_of_a_step_is_kept_between_steps():
    """Otherwise the system clears more than 16,384 pages again at each step.

    A step's memory may be freed by another thread, after the next step has taken its own. Under
    load some of the first steps therefore take new pages, too.
    """
    counted = run_python("-c", COUNTS_PAGES)

    assert int(counted.stdout) < 1000, counted.stderr


SEEDS = (0, 1)


def program_on(count):
    """The program of a model with dropout on the first devices."""
    corpus = models.corpus_of("bow")
    several = devices.Devices(jax.local_devices()[:count])
    return Program(
        models.build("bow", dropout=0.3, axis_name=several.axis_name),
        corpus.task,
        several,
        several.replicate(models.words_of("bow")),
        several.replicate(corpus.data),
        optim.build_optimizer(optim.Options(learning_rate=0.1)),
    )


def layout_of(rows):
    corpus = models.corpus_of("bow")
    return Layout.full(rows, corpus.width, joint=corpus.joint)


def trained(chooses_formats):
    """(losses of two steps, logits, parameters) of two seeds on two devices."""
    program = program_on(2)
    pair = program.devices
    pair.chooses_formats = chooses_formats
    layout = layout_of(4)
    index = np.arange(16).reshape(2, 8, 1)
    learner = pair.replicate(program.draw(layout, SEEDS))
    losses = []
    for _ in range(2):
        learner, sums = program.train(layout, learner, index)
        losses.append(np.asarray(sums["loss"]))
    assert_replicated(learner.params)
    logits = pair.join(program.predict(layout, learner.variables, index[0]))
    return losses, logits, learner.params


def test_formats_of_arrays_that_the_compiler_chooses_change_no_result():
    """Several TPUs run jit of shard_map in place of pmap; here two devices of the CPU do both."""
    by_default = trained(False)
    by_choice = trained(True)

    assert_equal(by_default, by_choice)
    losses, logits, _ = by_default
    assert abs(losses[0] - losses[1]).min() > 1e-3
    assert logits.shape[:2] == (2, 8)


def test_predictions_on_eight_devices_are_those_on_one():
    index = np.arange(16)[:, None]
    logits = []
    for count in (1, 8):
        program = program_on(count)
        layout = layout_of(len(index) // count)
        variables = program.devices.replicate(program.draw(layout, SEEDS).variables)
        on_devices = program.predict(layout, variables, index)
        logits.append(program.devices.join(on_devices))

    assert_near(logits[1], logits[0], atol=1e-6)
    assert np.ptp(logits[0], axis=1).min() > 1e-2  # they do depend on the row
