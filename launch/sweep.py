"""Runs a sweep over fields of a config by optuna: `python launch/sweep.py --help`, see mednli_jax/sweeps.py."""

import sys

from mednli_jax import cli
from mednli_jax.errors import RunError


def work():
    try:
        from mednli_jax import sweeps
    except ImportError:
        raise RunError("optuna is not installed. Fix: pip install 'mednli_jax[sweep]'.") from None
    return cli.run(sweeps.main, sweeps.__doc__, sweeps.define)


if __name__ == "__main__":
    sys.exit(cli.script(work))
