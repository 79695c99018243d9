"""Memory is kept between steps, unless the user has set glibc's options; formats of arrays change
no result."""

import os
import platform
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from support import models

from mednli_jax.data.batching import Layout
from mednli_jax.training import devices, optim
from mednli_jax.training.program import Program

GLIBC = sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc"


@pytest.mark.skipif(not GLIBC, reason="of glibc's allocator")
def test_memory_is_kept_unless_the_user_has_settings(monkeypatch):
    told = []
    monkeypatch.setattr(
        devices.ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=lambda *of: told.append(of) or 1)
    )
    assert not devices.keep_memory.__wrapped__()  # conftest.py has settings
    assert told == []
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_TUNABLES"))]:
        monkeypatch.delenv(name)
    assert devices.keep_memory.__wrapped__()
    assert told == list(devices._MALLOPT)


def test_chosen_formats_change_no_result():
    """Several TPUs run jit of shard_map in place of pmap; here two devices of the CPU do both."""
    seeds, corpus, words = (0, 1), models.corpus_of("bow"), models.words_of("bow")
    layout, index = Layout.full(4, corpus.width, joint=corpus.joint), np.arange(16).reshape(2, 8, 1)
    found = []
    for chooses in (False, True):
        some = devices.Devices(jax.local_devices()[:2])
        some.chooses_formats = chooses
        model = models.build("bow", dropout=0.3, axis_name=some.axis_name)
        frozen, data = some.replicate(words), some.replicate(corpus.data)
        program = Program(
            model,
            corpus.task,
            some,
            frozen,
            data,
            optim.build_optimizer(optim.Options(learning_rate=0.1)),
        )
        learner, losses = some.replicate(program.draw(layout, seeds)), []
        for _ in range(2):
            learner, sums = program.train(layout, learner, index)
            losses.append(np.asarray(sums["loss"]))
        some.check_replicas(learner.params)
        found.append(
            (
                losses,
                some.join(program.predict(layout, learner.variables, index[0])),
                learner.params,
            )
        )
    assert abs(found[0][0][0] - found[0][0][1]).min() > 1e-3
    assert found[0][1].shape[:2] == (2, 8)
    jax.tree.map(np.testing.assert_array_equal, *found)
