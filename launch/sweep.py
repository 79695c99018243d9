"""The command `mednli-jax sweep`, for pods: `python launch/sweep.py --help`."""

import sys

from mednli_jax import cli, sweep

if __name__ == "__main__":
    sys.exit(cli.run(sweep.main, sweep.__doc__, sweep.define))
