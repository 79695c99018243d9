"""`python -m mednli_jax.prepare`: a config's corpus as padded arrays on disk."""

import sys
import time

from mednli_jax import cli

USAGE = f"""Prepare a config's corpus: read, link, encode, write arrays. `train` does this by itself when needed.

  python -m mednli_jax.prepare --config=configs/esim_kd.py
  python -m mednli_jax.prepare --config=configs/esim_kd.py:mednli --config.knowledge.ontology=mesh
  python -m mednli_jax.prepare --config=configs/ga_ent.py

{cli.CONFIG_HELP}

Corpora are looked for in $MEDNLI_JAX_DATA/<corpus>/; the arrays go to $MEDNLI_JAX_CACHE (~/.cache/mednli_jax).
A second run finds them again; a change of the files, the settings or the number of a format prepares anew."""


def define(values: cli.Flags) -> None:
    cli.define_config(values)


def main(values: cli.Flags) -> None:
    config = cli.config(values)
    from mednli_jax import experiment
    from mednli_jax.analysis import prepared_lines

    started = time.monotonic()
    asked = experiment.of(config)
    prepared, hit = asked.corpus.prepare()
    print(f"{'found' if hit else 'prepared'} in {time.monotonic() - started:.1f} s: {prepared.folder}")
    for line in prepared_lines.LINES[asked.task.name](prepared):
        print(line)


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
