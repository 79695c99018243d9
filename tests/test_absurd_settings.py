"""Absurd values for every field of every config are either refused in one line or usable for training."""

import random
import runpy
import subprocess
import sys
from collections import Counter, defaultdict
from math import inf, nan

import jax.numpy as jnp
import made_up
import pytest
from made_up_commands import ROOT, environment_of
from ml_collections import config_dict

from mednli_jax import experiment, validation
from mednli_jax.corpora.batching import Layout
from mednli_jax.errors import RunError, UserError
from mednli_jax.models import table
from mednli_jax.tasks.nli import NLITask, frozen
from mednli_jax.training import optim, state

CONFIGS = [path for path in sorted((ROOT / "configs").glob("*.py")) if not path.stem.startswith(("search", "sweep"))]
VALUES = {
    int: (0, -1, 2**31, 2**63, 10**12),
    float: (0.0, -1.0, 2.0**31, 2.0**63, 1e12, 1e300, nan, inf, -inf),
    str: ("", "x" * 5000, "y/" * 3000, "~nouser/x", "\ud800", "\n"),
    tuple: ((), (-1,), (2**63,), ("",), ("x" * 5000,), ("~nouser/x",), ("\ud800",), (0, 0)),
}


def absurd():
    """(config file, field, value): each field of each config with each absurd value of its type."""
    for path in CONFIGS:
        config = runpy.run_path(str(path))["get_config"]()
        for field, kind in typed(config):
            for value in VALUES.get(kind, ()):
                yield path, config, field, value


def typed(config, prefix=""):
    for name in config:
        if isinstance(config[name], config_dict.ConfigDict):
            yield from typed(config[name], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", config.get_type(name)


def owner(config, field):
    *sections, name = field.split(".")
    for section in sections:
        config = config[section]
    return config, name


def refused(config, field, value, check):
    """The error of a check that refuses the value, or None if the check accepts it."""
    section, name = owner(config, field)
    before = section[name]
    try:
        section[name] = value
        check(config)
    except UserError as error:
        return str(error)
    finally:
        section[name] = before
    return None


def test_every_number_has_a_range():
    ranged = {rule.field for rule in validation.RULES}
    for path in CONFIGS:
        config = runpy.run_path(str(path))["get_config"]()
        assert not [field for field, kind in typed(config) if kind in (int, float) and field not in ranged], path


def test_absurd_values_are_refused_or_make_an_experiment():
    counts, seen, files, fields = Counter(), set(), set(), set()
    for path, config, field, value in absurd():
        files.add(path)
        fields.add(field)
        error = refused(config, field, value, validation.check)
        case = (config.task, config.model.name, field, str(value))
        if error is None and case not in seen:
            error = refused(config, field, value, experiment.of)
        seen.add(case)
        counts["taken" if error is None else "refused"] += 1
        assert error is None or len(error.splitlines()) == 1, case
        if error is None and isinstance(value, int | float):
            assert abs(value) <= (2**32 if isinstance(value, int) else 1e30), case
    print(f"\n{len(files)} configs, {len(fields)} fields, {len(seen)} cases: {counts}")
    assert files == set(CONFIGS)
    assert counts["refused"] > counts["taken"]


@pytest.mark.slow
def test_a_command_refuses_absurd_values_at_once(tmp_path):
    """The exit code is 2, with one line within 10 s, for a value of each field that a command line can express."""
    by_field = defaultdict(list)
    for path, config, field, value in absurd():
        if "\ud800" not in str(value) and not isinstance(value, tuple) and refused(config, field, value, experiment.of):
            by_field[field].append((path, value))
    draw = random.Random(0)
    for field, group in by_field.items():
        path, value = draw.choice(group)
        command = [sys.executable, "-m", "mednli_jax.train", f"--config={path}", f"--config.{field}={value}"]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, timeout=10, env=environment_of(tmp_path), check=False
        )
        assert done.returncode == 2, (path, field, value)
        assert len(done.stderr.splitlines()) == 1, (path, field, value)
        assert not list(tmp_path.glob("runs/*")), (path, field, value)
    print(f"\n{len(by_field)} fields, a value of each: exit code 2 and one line")


def test_weights_beyond_the_memory_are_refused_before_they_are_drawn(monkeypatch):
    data = {name: jnp.asarray(array) for name, array in made_up.arrays().items()}
    batch = NLITask().to_batch(data, jnp.zeros((1, 1), jnp.int32), Layout.full(1, (12, 8)))
    model, optimizer = table.build("fasttext", {}), optim.build_optimizer(learning_rate=0.1, optimizer="sgd")
    monkeypatch.setattr(state, "_drawn", OnlyPlanned(state._drawn))
    with pytest.raises(RunError, match="Fix: "):
        state.init_learner(model, optimizer, range(10**6), batch, frozen(made_up.vectors()))


class OnlyPlanned:
    def __init__(self, drawn):
        self.eval_shape = drawn.eval_shape
