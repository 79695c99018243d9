"""`python -m mednli_jax.analyze`: what a corpus looks like."""

import json
import sys

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import UserError

USAGE = f"""Analyse a corpus. stats: sizes, lengths, labels and words (Table 2 of the MedNLI paper), for any corpus.

  python -m mednli_jax.analyze stats --config=configs/bow.py
  python -m mednli_jax.analyze stats --config=configs/bow.py:mednli --json

{cli.CONFIG_HELP}
  --json                       the figures as one JSON object"""

ANALYSES = ("stats",)


def define(values: cli.Flags) -> None:
    cli.define_config(values)
    flags.DEFINE_bool("json", False, "print JSON", flag_values=values)


def main(values: cli.Flags, analysis: str = "") -> None:
    if analysis not in ANALYSES:
        known = ", ".join(ANALYSES)
        raise UserError(f"E-USE-007 unknown analysis '{analysis}'. Known: {known}. Fix: analyze stats --config=FILE")
    from mednli_jax.analysis import corpus
    from mednli_jax.data.prepared import Source

    config = cli.config(values)
    name = config.data.name + (f"/{config.data.genre}" if config.data.genre else "")
    splits = Source(config).splits()
    figures = corpus.statistics(splits)
    notes = sorted({split.facts["note"] for split in splits.values() if "note" in split.facts})
    if values.json:
        print(json.dumps({"corpus": name, "notes": notes, **figures}, indent=2))
    else:
        print("\n".join([*corpus.table(name, figures), *notes]))


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define, words=1))
